"""`envbench compare`: ids, exit codes, the files it writes, and one line for bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from envbench import connect
from envbench.checks import evaluate
from envbench.comparison import Comparison, Episodes, compare
from tests import test_cli
from tests.comparison.tills import OFTEN, ONCE, record

run = test_cli.run


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three versions of a till over 8 cases: right, always wrong, and wrong once."""
    path = tmp_path_factory.mktemp("compare") / "tills.duckdb"
    with connect(path) as store:
        for version, bookings in (("1", [1] * 8), ("2", [2] * 8), ("3", [2] + [1] * 7)):
            for number, booked in enumerate(bookings):
                record(
                    f"case-{number}",
                    booked,
                    store=store,
                    environment=f"till-v{version}",
                    environment_version=version,
                    run_id=f"run-{version}",
                    agent_id="robot",
                )
        for agent in ("human", "machine"):
            record("case-0", 1, store=store, environment="till-v4", agent_id=agent)
        evaluate(store, [ONCE]).save(store)
    return path


def test_a_regression_is_exit_1(run: Any, path: Path) -> None:
    ran = run("compare", path, "--baseline", "till-v1", "--candidate", "till-v2")
    assert (ran.code, ran.err) == (1, "")
    assert ran.out.startswith("till-v2 against till-v1 (treatment: environment)\n")
    row = next(line for line in ran.out.splitlines() if line.startswith("  booked"))
    assert row.split()[:5] == ["booked", "8/8", "0/8", "8", "0"]
    assert row.endswith("regression")
    with connect(path, read_only=True) as store:
        sides = [Episodes(environment_id=f"till-v{version}") for version in (1, 2)]
        assert ran.out == f"{compare(*sides, store=store)}\n"


def test_no_regression_is_exit_0_and_open_ones_exit_2(run: Any, path: Path) -> None:
    assert run("compare", path, "--baseline", "till-v2", "--candidate", "till-v1").code == 0
    blocked = run("compare", path, "--baseline", "agent_id=human", "--candidate", "till-v2")
    assert blocked.code == 2
    assert "NOT COMPARABLE" in blocked.out
    assert blocked.err == ""


@pytest.mark.parametrize(
    ("baseline", "candidate"),
    [
        ("1", "2"),
        ("run-1", "run-2"),
        ("environment_id=till-v1", "environment_version=2"),
        ("run_id=run-1", "till-v2"),
    ],
)
def test_ways_to_name_the_same_sides(run: Any, path: Path, baseline: str, candidate: str) -> None:
    ran = run("compare", path, "--baseline", baseline, "--candidate", candidate)
    assert (ran.code, "8/8" in ran.out, "regression" in ran.out) == (1, True, True)


def test_two_agents_are_the_treatment(run: Any, path: Path) -> None:
    ids = ("--baseline", "human", "--candidate", "machine", "--where", "seed = 17")
    ran = run("compare", path, *ids)
    assert ran.out.startswith("machine against human (treatment: agent)")
    ran = run("compare", path, *ids, "--treatment", "environment")
    assert "(treatment: environment)" in ran.out


def test_reports_of_the_same_episodes_under_two_versions_of_a_check(
    run: Any, path: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.duckdb"
    copy.write_bytes(path.read_bytes())
    with connect(copy) as store:
        episodes = store.episodes("environment_id = 'till-v2'")
        reports = [evaluate(episodes, [check]) for check in (OFTEN, ONCE)]
        for report in reports:
            report.save(store)
    old, new = (report.report_id for report in reports)
    ran = run("compare", copy, "--baseline", old, "--candidate", new, "--treatment", "checks")
    assert (ran.code, "fewer pass" in ran.out) == (1, True)
    assert "what changed is the check, not the agent" in ran.out
    message = run(
        "compare", copy, "--baseline", old, "--candidate", new, "--where", "seed = 1"
    ).one_line()
    assert message == "--where selects episodes, and a report has its own"


def test_json_and_page_are_written(run: Any, path: Path, tmp_path: Path) -> None:
    page, file = tmp_path / "page.html", tmp_path / "comparison.json"
    sides = ("--baseline", "till-v1", "--candidate", "till-v3")
    ran = run("compare", path, *sides, "--html", page, "--json", file)
    assert (ran.code, ran.err) == (0, "")
    loaded = Comparison.load_json(file)
    assert f"{loaded}\n" == ran.out
    assert json.loads(file.read_text())["exit_code"] == 0
    html = page.read_text(encoding="utf-8")
    assert html.lower().startswith("<!doctype html>")
    assert "case-0" in html
    assert "<svg" in html
    assert "http://" not in html.replace("http://www.w3.org/", "")


def test_recoveries(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "recovered.duckdb"
    with connect(path) as store:
        for environment in ("a", "b"):
            first = record("x", 2, store=store, environment=environment)
            booked = 1 if environment == "a" else 2
            again = {"environment": environment, "previous": first.episode_id}
            record("x", booked, store=store, **again)
        evaluate(store, [ONCE]).save(store)
    sides = ("--baseline", "a", "--candidate", "b")
    assert "0/1" in run("compare", path, *sides).out
    assert "1/1" in run("compare", path, *sides, "--attempt", "last").out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--baseline", "till-v9", "--candidate", "till-v2"),
            "report 'till-v9'; its environments are till-v1, till-v2, till-v3 and 1 more",
        ),
        (
            ("--baseline", "robot", "--candidate", "till-v2"),
            "baseline: 8 trials with more than one episode",
        ),
        (
            ("--baseline", "agent_id=nobody", "--candidate", "till-v2"),
            "baseline: no episode is selected (agent_id 'nobody')",
        ),
        (
            ("--baseline", "report_id=x", "--candidate", "till-v2"),
            "no report 'x'",
        ),
        (("--baseline", "1", "--candidate", "2", "--treatment", "x"), "treatment must be one of"),
        (("--baseline", "1", "--candidate", "2", "--attempt", "x"), "attempt must be one of"),
        (("--baseline", "1", "--candidate", "2", "--alpha", "2"), "alpha must be a number"),
        (("--baseline", "1", "--candidate", "2", "--alpha", "nan"), "alpha must be a number"),
        (("--baseline", "1", "--candidate", "2", "--where", "seed ="), "is not one SQL condition"),
        (
            ("--baseline", "1", "--candidate", "2", "--json", "."),
            ".: is a folder, not a file to write",
        ),
        (("--baseline", "1", "--candidate", "2", "--json", "no/x.json"), "No such file"),
        (
            ("--baseline", "1", "--candidate", "2", "--json", "x", "--html", "./x"),
            "x: is named for the page and for the JSON",
        ),
        (("--baseline", "1"), "--candidate"),
        (("--baseline", "\x1b[2J", "--candidate", "2"), "report '\\x1b[2J'"),
    ],
)
def test_bad_input_is_one_line(
    run: Any, path: Path, tmp_path: Path, monkeypatch: Any, arguments: Any, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in run("compare", path, *arguments).one_line()
    assert list(tmp_path.iterdir()) == []


def test_an_id_that_could_be_two_things(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "twins.duckdb"
    with connect(path) as store:
        record(store=store, environment="a", run_id="a")
        evaluate(store, [ONCE]).save(store)
    message = run("compare", path, "--baseline", "a", "--candidate", "run_id=a").one_line()
    assert message == (
        "'a' is in the store as environment_id and as run_id: say environment_id=a or run_id=a"
    )


def test_a_store_without_results(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "unjudged.duckdb"
    with connect(path) as store:
        record(store=store)
    message = run("compare", path, "--baseline", "till-v1", "--candidate", "till-v1").one_line()
    assert "none of 1 episode (environment_id 'till-v1') has a saved result" in message


def test_an_empty_store(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "empty.duckdb"
    connect(path).close()
    message = run("compare", path, "--baseline", "x", "--candidate", "y").one_line()
    assert message.endswith("report 'x'; it has no episode")
    message = run("compare", tmp_path / "none", "--baseline", "x", "--candidate", "y").one_line()
    assert message.endswith("none: there is no such file")
