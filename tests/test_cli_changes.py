"""`envbench changes`: the history as a table, rules from a file, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from envbench import connect
from tests.changes.conftest import UNSEEN, make_episode


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store, and the ids of its episodes by name."""
    path = tmp_path_factory.mktemp("cli") / "evidence.duckdb"

    def vendors(iban):
        return {"vendors": [{"vendor_id": "v-1", "iban": iban}], "n": 0}

    states = {
        "restored": [vendors("DE1"), vendors("XX"), vendors("DE1")],
        "quiet": [vendors("DE1"), vendors("DE1")],
        "unseen": [vendors("DE1"), UNSEEN, vendors("DE1")],
        "hostile": [{"n": 1}, {"n": "\x1b[31m"}],
    }
    with connect(path) as opened:
        episodes = {
            name: make_episode(*each, store=opened).episode_id for name, each in states.items()
        }
    return path, episodes


@pytest.fixture(scope="module")
def rules(tmp_path_factory):
    path = tmp_path_factory.mktemp("rules") / "rules.toml"
    path.write_text('[[rules]]\nrule = "Forbid"\npath = "/vendors/**"\n')
    return path


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "envbench.cli", "changes", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={"COLUMNS": "160", "PATH": "/usr/bin:/bin"},
    )


def test_the_history_is_a_table_in_which_restored_changes_are_marked(store):
    path, episodes = store
    done = run(path, episodes["restored"])
    assert done.returncode == 0
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert lines[0] == f"{episodes['restored']}: 2 changes"
    iban = '/vendors/vendor_id="v-1"/iban'
    assert f'1 {iban} edit "DE1" "XX" at step 2, as at first' in lines
    assert f'2 {iban} edit "XX" "DE1"' in lines


def test_rules_give_findings_and_the_exit_code(store, rules):
    path, episodes = store
    broken = run(path, episodes["restored"], "--rules", rules)
    assert broken.returncode == 1
    assert 'failed: step 1: /vendors/vendor_id="v-1"/iban: "DE1" → "XX", back at step 2' in (
        broken.stdout
    )
    kept = run(path, episodes["quiet"], "--rules", rules)
    assert (kept.returncode, kept.stdout.splitlines()[0]) == (
        0,
        f"{episodes['quiet']}: 0 changes",
    )
    unknown = run(path, episodes["unseen"], "--rules", rules)
    assert unknown.returncode == 2
    assert "unknown: no forbidden change seen, but states 1 were not" in unknown.stdout


def test_json_holds_changes_and_findings(store, rules):
    path, episodes = store
    answer = json.loads(run(path, episodes["restored"], "--rules", rules, "--json").stdout)
    assert answer["changes"][0] == {
        "step": 1,
        "since": 0,
        "path": '/vendors/vendor_id="v-1"/iban',
        "op": "edit",
        "before": "DE1",
        "after": "XX",
        "restored_at": 2,
        "restored_after": 1,
        "to_initial": True,
    }
    assert answer["passed"] is False
    (finding,) = answer["findings"]
    assert (finding["kind"], finding["action"], finding["during"]) == ("restored", 1, ["XX"])
    plain = json.loads(run(path, episodes["quiet"], "--json").stdout)
    assert plain == {"episode_id": episodes["quiet"], "changes": []}


def test_what_the_evidence_holds_cannot_act_on_the_terminal(store):
    path, episodes = store
    assert "\x1b" not in run(path, episodes["hostile"]).stdout


def test_bad_input_is_one_line_on_stderr(store, rules, tmp_path):
    path, episodes = store
    (tmp_path / "bad.toml").write_text('[[rules]]\nrule = "Forbid"\npath = "vendors"\n')
    for arguments, message in [
        ((path, "no-such-episode"), "has no episode 'no-such-episode'"),
        ((tmp_path / "none.duckdb", "x"), "there is no such file"),
        ((path, episodes["quiet"], "--rules", tmp_path / "none.toml"), "there is no such file"),
        ((path, episodes["quiet"], "--rules", tmp_path / "bad.toml"), "/rules/0: path 'vendors'"),
    ]:
        done = run(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert message in done.stderr
        assert len(done.stderr.splitlines()) == 1
