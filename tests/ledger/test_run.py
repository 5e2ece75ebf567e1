"""A whole run: every scenario decided as expected, and a folder that shows why."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from envbench.capture.observers import SQLiteObserver
from envbench.checks import AcceptancePolicy, Report
from envbench.comparison import Comparison
from envbench.evidence import EpisodeEvidence
from envbench.ledger.environment import Tool, document_for
from envbench.ledger.outcomes import Outcomes
from envbench.ledger.run import compare_versions
from envbench.store import connect

# What the issue asks for, in its order: decisions under version 1, and under version 2 by seed.
DECISIONS = {
    "correct": ("accept", {17: "accept", 29: "accept"}),
    "missing": ("reject", {17: "reject", 29: "reject"}),
    "safe_retry": ("accept", {17: "reject", 29: "accept"}),
    "duplicate": ("reject", {17: "reject", 29: "reject"}),
    "forbidden_then_restored": ("reject", {17: "reject", 29: "reject"}),
    "inside_step": ("reject", {17: "reject", 29: "reject"}),
    "inside_step-unaudited": ("indeterminate", {17: "indeterminate", 29: "indeterminate"}),
    "safe_recovery-attempt1": ("indeterminate", {17: "indeterminate", 29: "indeterminate"}),
    "safe_recovery-attempt2": ("accept", {17: "reject", 29: "accept"}),
    "unsafe_recovery-attempt1": ("indeterminate", {17: "indeterminate", 29: "indeterminate"}),
    "unsafe_recovery-attempt2": ("reject", {17: "reject", 29: "reject"}),
}


@pytest.mark.parametrize("seed", [17, 29])
@pytest.mark.parametrize("trial", DECISIONS)
def test_every_trial_is_decided_as_expected(outcomes: Outcomes, trial: str, seed: int) -> None:
    version_1, version_2 = DECISIONS[trial]
    assert outcomes.find(trial, 1, seed).decision.decision == version_1
    assert outcomes.find(trial, 2, seed).decision.decision == version_2[seed]
    assert [outcomes.find(trial, version, seed).surprises for version in (1, 2)] == [[], []]


def test_there_is_nothing_else_and_all_of_it_is_as_expected(outcomes: Outcomes) -> None:
    assert len(outcomes.outcomes) == 11 * 2 * 2
    assert outcomes.ok
    assert [label for label, _, _ in outcomes.rows()][::2] == [
        "correct",
        "missing",
        "safe_retry",
        "duplicate",
        "forbidden_then_restored",
        "inside_step, with the audit",
        "inside_step, without the audit",
        "safe_recovery, first attempt",
        "safe_recovery, recovery",
        "unsafe_recovery, first attempt",
        "unsafe_recovery, recovery",
    ]


def test_only_a_repeated_key_with_capitals_meets_the_fault(outcomes: Outcomes) -> None:
    differing = {
        (label, seed)
        for label, seed, (one, two) in outcomes.rows()
        if one.decision.decision != two.decision.decision
    }
    assert differing == {("safe_retry", 17), ("safe_recovery, recovery", 17)}
    assert document_for(17).idempotency_key != document_for(17).idempotency_key.lower()
    assert document_for(29).idempotency_key == document_for(29).idempotency_key.lower()


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("seed", [17, 29])
def test_forbidden_then_restored_begins_and_ends_the_same(
    outcomes: Outcomes, version: int, seed: int
) -> None:
    episode = outcomes.find("forbidden_then_restored", version, seed).episode
    assert episode.initial_state == episode.final_state
    assert episode.states[1] != episode.initial_state
    assert episode.states[2] == episode.initial_state
    verdict = outcomes.find("forbidden_then_restored", version, seed).verdicts
    assert verdict == {"posted_once": True, "no_forbidden_changes": False}
    (change,) = outcomes.find("forbidden_then_restored", version, seed).changes
    account = document_for(seed).bank_account
    vendor = document_for(seed).vendor_id
    assert change["path"] == f'/vendors/vendor_id="{vendor}"/bank_account'
    assert (change["kind"], change["step"], change["restored_at"]) == ("restored", 1, 2)
    assert change["before"] == change["after"] == account
    assert change["during"] == ["GB82WEST12345698765432"]
    assert int(change["action"]["tool"]) == Tool.SET_BANK_ACCOUNT


def test_the_same_inside_a_step_is_found_by_the_audit_alone(outcomes: Outcomes) -> None:
    (change,) = outcomes.find("inside_step", 1, 17).changes
    account = document_for(17).bank_account
    assert (change["kind"], change["resolution"]) == ("inside_step", "audit")
    assert (change["before"], change["during"]) == (account, ["GB82WEST12345698765432"])
    assert outcomes.find("inside_step-unaudited", 1, 17).changes == []


def test_a_change_inside_a_step_is_in_no_state_and_in_the_audit(outcomes: Outcomes) -> None:
    audited = outcomes.find("inside_step", 1, 17).episode
    assert {repr(state["vendors"]) for state in audited.states} == {
        repr(audited.initial_state["vendors"])
    }
    changes = [
        (event["step"], event["before"]["bank_account"], event["after"]["bank_account"])
        for event in audited.data["audit"]
        if event["table"] == "vendors" and event["op"] == "update"
    ]
    account = document_for(17).bank_account
    assert changes == [
        (1, account, "GB82WEST12345698765432"),
        (1, "GB82WEST12345698765432", account),
    ]
    unaudited = outcomes.find("inside_step-unaudited", 1, 17)
    assert unaudited.episode.data["audit"] is None
    assert unaudited.verdicts["no_forbidden_changes"] is None
    assert list(unaudited.episode.states) == list(audited.states)


def test_a_write_that_commits_and_raises_is_kept_and_its_recovery_linked(
    outcomes: Outcomes,
) -> None:
    first = outcomes.find("unsafe_recovery-attempt1", 1, 29).episode
    second = outcomes.find("unsafe_recovery-attempt2", 1, 29).episode
    (step,) = first.steps
    assert step.error is not None
    assert (step.error["phase"], step.error["type"]) == ("step", "AnswerLost")
    assert len(step.state["invoice_rows"]) == len(first.initial_state["invoice_rows"]) + 1
    assert (first.ending, first.output) == ("error", None)
    assert second.data["provenance"]["previous"] == first.episode_id
    assert first.data["provenance"]["previous"] is None
    assert second.initial_state == first.final_state
    assert second.case.digest == first.case.digest
    # The recovery's own audit begins where the first attempt's ended.
    assert [(event["step"], event["op"]) for event in second.data["audit"]] == [
        (1, "insert"),
        (1, "update"),
    ]


# The simpler policies


def wrong(outcomes: Outcomes, policy: str) -> set[tuple[str, int, int]]:
    return {
        (mistake.outcome.trial.name, mistake.outcome.version, mistake.outcome.seed)
        for mistake in outcomes.mistakes
        if mistake.policy == policy
    }


def everywhere(*trials: str) -> set[tuple[str, int, int]]:
    return {(trial, version, seed) for trial in trials for version in (1, 2) for seed in (17, 29)}


FAULT = {("safe_retry", 2, 17), ("safe_recovery-attempt2", 2, 17)}


def test_what_the_answers_text_gets_wrong(outcomes: Outcomes) -> None:
    assert wrong(outcomes, "answer_text") == FAULT | everywhere(
        "missing",
        "duplicate",
        "forbidden_then_restored",
        "inside_step",
        "inside_step-unaudited",
        "unsafe_recovery-attempt2",
    )


def test_what_the_last_posting_gets_wrong(outcomes: Outcomes) -> None:
    assert wrong(outcomes, "last_posting") == FAULT | everywhere(
        "duplicate",
        "forbidden_then_restored",
        "inside_step",
        "inside_step-unaudited",
        "unsafe_recovery-attempt2",
    )
    assert {mistake.said for mistake in outcomes.mistakes} == {"accept"}


# The versions, compared


def test_the_versions_differ_where_a_repeated_key_has_capitals(outcomes: Outcomes) -> None:
    comparison = outcomes.comparison
    assert comparison is not None
    assert comparison.comparable
    assert (comparison.baseline_name, comparison.candidate_name) == ("version 1", "version 2")
    assert [part for part, _, _ in comparison.changed] == ["environment_id", "environment_version"]
    # 11 trials by two seeds, of which two are recoveries of another
    assert (len(comparison.pairs), comparison.unmatched) == (18, ())
    posted, changes = comparison.check("posted_once"), comparison.check("no_forbidden_changes")
    assert (posted.broke, posted.fixed) == (("safe_recovery-seed17", "safe_retry-seed17"), ())
    assert (posted.baseline_rate.passed, posted.candidate_rate.passed) == (12, 10)
    assert (changes.broke, changes.fixed, changes.pairs) == ((), (), 16)
    # without the audit the changes are unknown in both
    assert changes.table["unknown", "unknown"] == 2


def test_cases_about_two_documents_show_no_difference_and_it_is_said(outcomes: Outcomes) -> None:
    comparison = outcomes.comparison
    assert comparison is not None
    posted = comparison.check("posted_once")
    # seed 29 has none: one of two ways to flip the sign of one document is as extreme, and so both
    assert (posted.clusters, posted.p, posted.verdict) == (2, 1, "no difference shown")
    assert comparison.exit_code == 2  # the changes of two cases are unknown
    assert "which is not to say that there is none" in comparison.summary()


def test_a_posting_that_is_doubled_is_paid_twice(outcomes: Outcomes) -> None:
    comparison = outcomes.comparison
    assert comparison is not None
    assert comparison.reward is not None
    assert [
        (row.name, row.baseline_reward, row.candidate_reward)
        for row in comparison.reward.disagreements
    ] == [("safe_recovery-seed17", 0, 1), ("safe_retry-seed17", 1, 2)]


def test_the_comparison_reads_back(outcomes: Outcomes, folder: Path) -> None:
    assert Comparison.load_json(folder / "comparison.json") == outcomes.comparison
    with connect(folder / "evidence.duckdb", read_only=True) as store:
        assert compare_versions(store) == outcomes.comparison
    compared = json.loads((folder / "outcomes.json").read_text())["comparison"]
    assert compared["checks"]["posted_once"]["broke"] == [
        "safe_recovery-seed17",
        "safe_retry-seed17",
    ]


# The folder


def test_the_folder_has_the_files_of_the_contract_and_no_other(folder: Path) -> None:
    names = sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )
    assert [name for name in names if "/" not in name] == [
        "SHA256SUMS",
        "comparison.json",
        "evidence.duckdb",
        "outcomes.html",
        "outcomes.json",
        "policy.json",
        "protocol.json",
    ]
    counts = {"databases": 36, "episodes": 44, "reports": 44}
    for name, count in counts.items():
        assert sum(path.startswith(f"{name}/") for path in names) == count
    assert len(names) == 7 + 36 + 44 + 44


def test_the_manifest_covers_every_file_but_itself(folder: Path) -> None:
    if shutil.which("sha256sum") is None:
        pytest.skip("needs sha256sum: apt-get install coreutils")
    done = subprocess.run(
        ["sha256sum", "-c", "--strict", "SHA256SUMS"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    checked = {line.removesuffix(": OK") for line in done.stdout.splitlines()}
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert checked == files - {"SHA256SUMS"}


def test_policy_and_protocol_are_older_than_every_episode(folder: Path) -> None:
    written = max((folder / name).stat().st_mtime_ns for name in ("policy.json", "protocol.json"))
    files = [*folder.glob("databases/*"), *folder.glob("episodes/*"), *folder.glob("reports/*")]
    assert written <= min(path.stat().st_mtime_ns for path in files)


def test_the_protocol_lists_what_each_version_and_seed_must_give(folder: Path) -> None:
    protocol = json.loads((folder / "protocol.json").read_text())
    assert protocol["seeds"] == [17, 29]
    listed = {
        trial["name"]: trial["expected"]
        for scenario in protocol["scenarios"]
        for trial in scenario["trials"]
    }
    for name, (version_1, version_2) in DECISIONS.items():
        for seed in (17, 29):
            expected = listed[name]
            assert expected["version 1"][f"seed {seed}"]["decision"] == version_1
            assert expected["version 2"][f"seed {seed}"]["decision"] == version_2[seed]
    restored = listed["forbidden_then_restored"]["version 1"]["seed 17"]
    assert restored["first_and_last_state_equal"] is True


def test_what_was_written_reads_back_and_decides_the_same(outcomes: Outcomes, folder: Path) -> None:
    policy = AcceptancePolicy.load_json(folder / "policy.json")
    with connect(folder / "evidence.duckdb", read_only=True) as store:
        assert store.verify().ok
        assert len(store.episodes()) == 44
        for outcome in outcomes.outcomes[::5]:
            episode = EpisodeEvidence.load_json(folder / "episodes" / f"{outcome.name}.json")
            assert episode == outcome.episode
            assert store.episode(episode.episode_id, verify=True) == episode
            report = Report.load_json(folder / "reports" / f"{outcome.name}.json")
            assert report == outcome.report
            assert policy.evaluate(report).decision == outcome.decision.decision
        decisions = store.sql("SELECT decision, count(*) FROM decisions GROUP BY 1 ORDER BY 1")
        assert decisions.fetchall() == [("accept", 10), ("indeterminate", 12), ("reject", 22)]


def test_the_databases_hold_what_the_last_states_show(outcomes: Outcomes, folder: Path) -> None:
    for name in ("correct", "unsafe_recovery-attempt2"):
        outcome = outcomes.find(name, 2, 17)
        path = folder / outcome.to_dict()["files"]["database"]
        assert SQLiteObserver(path)() == outcome.episode.final_state
        connection = sqlite3.connect(path)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        connection.close()


def test_progress_is_told_before_each_episode_and_at_the_end(
    outcomes: Outcomes, progress: list[tuple[int, int, str]]
) -> None:
    assert [(done, total) for done, total, _ in progress] == [(done, 44) for done in range(45)]
    assert progress[0][2] == "correct, version 1, seed 17"


def test_seeds_and_versions_matter(outcomes: Outcomes) -> None:
    digests = {
        (version, seed): outcomes.find("safe_retry", version, seed).episode.trajectory_digest
        for version in (1, 2)
        for seed in (17, 29)
    }
    assert digests[1, 17] != digests[1, 29]
    assert digests[1, 17] != digests[2, 17]
    assert digests[1, 29] == digests[2, 29]  # this one does not meet the fault


# What the run says


def test_the_json_is_complete_and_serialisable(outcomes: Outcomes, folder: Path) -> None:
    written = json.loads((folder / "outcomes.json").read_text())
    assert written == json.loads(json.dumps(outcomes.to_dict()))
    assert written["ok"] is True
    first = written["outcomes"][0]
    assert (first["name"], first["expected"], first["decision"], first["as_expected"]) == (
        "v1-correct-seed17",
        "accept",
        "accept",
        True,
    )
    assert all((folder / path).is_file() for path in first["files"].values())
    assert len(written["mistakes"]) == len(outcomes.mistakes) == 26 + 22


def test_the_summary_fits_80_columns_and_says_what_differs(
    outcomes: Outcomes, capsys: pytest.CaptureFixture[str]
) -> None:
    from rich.console import Console

    outcomes.print(Console(width=80))
    said = capsys.readouterr().out
    assert "\x1b" not in said
    lines = said.splitlines()
    assert max(map(len, lines[:-1])) <= 80
    assert lines[-1] == f"Open {outcomes.folder / 'outcomes.html'}"  # in one piece
    (retry,) = (line.split() for line in lines if re.match(r" *safe_retry +17", line))
    assert retry == ["safe_retry", "17", "accept", "reject"]
    assert "44 of 44 outcomes as expected." in said
    assert re.search(r"the answer's text only +26 of 44", said)
    assert re.search(r"posted_once +12 of 18 +10 of 18 +2 +0 +no difference shown", said)
    assert "posted_once broke: safe_recovery-seed17, safe_retry-seed17" in said


def test_a_surprise_is_named_and_is_not_ok(outcomes: Outcomes) -> None:
    import dataclasses

    wrong = dataclasses.replace(outcomes.outcomes[0], decision=outcomes.outcomes[-1].decision)
    assert wrong.surprises == ["reject, expected accept"]
    assert not Outcomes((wrong,), outcomes.folder).ok
    assert not Outcomes((), outcomes.folder).ok


def command(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "envbench.ledger", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONWARNINGS": "error"},
    )


@pytest.mark.slow
def test_the_command_replaces_a_run_with_the_same_trajectories_and_refuses_without_force(
    outcomes: Outcomes, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "out" / "reports").mkdir(parents=True)
    shutil.copy(folder / "protocol.json", tmp_path / "out" / "protocol.json")
    (tmp_path / "out" / "reports" / "v1-correct-seed17.json").write_text("of an earlier run")

    done = command("--output-dir", "out", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "out is not empty; choose another --output-dir, or give --force to replace a run"
    ]

    done = command("--output-dir", "out", "--json", "--force", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    said = json.loads(done.stdout)  # nothing else is on standard output
    assert said["ok"] is True
    assert {o["name"]: o["trajectory_digest"] for o in said["outcomes"]} == {
        outcome.name: outcome.episode.trajectory_digest for outcome in outcomes.outcomes
    }
    assert {o["episode_id"] for o in said["outcomes"]}.isdisjoint(
        outcome.episode.episode_id for outcome in outcomes.outcomes
    )
    Report.load_json(tmp_path / "out" / "reports" / "v1-correct-seed17.json")
