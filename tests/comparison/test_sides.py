"""Sides from a store: selections, latest results, checks applied afresh."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from envbench import connect
from envbench.checks import SqlCheck, evaluate
from envbench.checks.lock import setting_text
from envbench.comparison import Episodes, PairingError, compare
from envbench.comparison.sides import side_of_store
from envbench.store import QueryError
from tests.comparison.tills import OFTEN, ONCE, record

V1, V2 = Episodes(environment_id="till-v1"), Episodes(environment_id="till-v2")


SQL_ONCE = SqlCheck(
    "booked",
    "once",
    """
    SELECT episode_id, (state ->> 'booked')::INT = 1 AS passed, 'once' AS reason, NULL AS evidence
    FROM final_states
    """,
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of two versions: x booked once by both, y twice by the second, z unseen by it."""
    path = tmp_path_factory.mktemp("sides") / "tills.duckdb"
    with connect(path) as store:
        for environment, bookings in (("till-v1", (1, 1, 1)), ("till-v2", (1, 2, None))):
            for case, booked in zip("xyz", bookings, strict=True):
                record(
                    case,
                    booked,
                    store=store,
                    environment=environment,
                    reward=float(booked or 0),
                    agent_id="robot",
                    run_id=f"run of {environment}",
                    tags=("till",),
                    source=f"book {case}",
                )
        evaluate(store, [ONCE]).save(store)
    return path


@pytest.fixture
def store(path: Path) -> Any:
    with connect(path, read_only=True) as opened:
        yield opened


def test_the_latest_results_of_a_selection_are_compared(store: Any) -> None:
    comparison = compare(V1, V2, store=store)
    (check,) = comparison.checks
    assert (comparison.baseline_name, comparison.candidate_name) == ("till-v1", "till-v2")
    assert check.outcomes == (("passed", "passed"), ("passed", "failed"), ("passed", "unknown"))
    assert comparison.comparable
    assert [part for part, _, _ in comparison.changed] == ["environment_id"]
    assert [(pair.source_id, pair.tags) for pair in comparison.pairs] == [
        (f"book {case}", ("till",)) for case in "xyz"
    ]


@pytest.mark.parametrize(
    "selection",
    [
        Episodes(run_id="run of till-v2"),
        Episodes(where="environment_id = 'till-v2'"),
        Episodes(where="environment_id = 'till-v2'; "),
        Episodes(where="environment_id = 'till-v2' -- and no other"),
        Episodes(environment_id="till-v2", agent_id="robot", where="seed = 17 OR seed = 18"),
    ],
)
def test_ways_to_select_the_same(store: Any, selection: Episodes) -> None:
    assert compare(V1, selection, store=store) == compare(V1, V2, store=store)


def test_a_path_is_opened_and_closed_again(path: Path) -> None:
    first = compare(V1, V2, store=path)
    assert compare(V1, V2, store=str(path)) == first
    with connect(path) as writable:
        assert compare(V1, V2, store=writable) == first


def test_a_store_from_somebody_else(path: Path) -> None:
    with connect(path, read_only=True, trusted=False) as opened:
        assert compare(V1, V2, store=opened).checks[0].total == 3


def test_nothing_heavy_is_imported(path: Path) -> None:
    """A command that compares would wait for it: pandas alone takes longer than the rest."""
    code = """
import sys
from envbench.comparison import Episodes, compare
sides = [Episodes(environment_id=f"till-v{number}") for number in (1, 2)]
print(len(compare(*sides, store=sys.argv[1]).summary()) > 0)
print(sorted({"pandas", "polars", "altair", "scipy.stats", "statsmodels"} & set(sys.modules)))
"""
    ran = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines() == ["True", "[]"]


def test_two_stores() -> None:
    with connect(":memory:") as before, connect(":memory:") as after:
        record("x", 1, store=before)
        record("x", 2, store=after, environment="till-v2")
        evaluate(before, [ONCE]).save(before)
        evaluate(after, [ONCE]).save(after)
        assert compare(before, after).checks[0].broke == ("x",)


def test_a_selection_and_its_report_are_the_same_side(store: Any) -> None:
    reports = [evaluate(store.episodes(f"environment_id = 'till-v{n}'"), [ONCE]) for n in (1, 2)]
    assert compare(*reports, store=store) == compare(V1, V2, store=store)
    plain = compare(*reports)
    assert plain.checks == compare(V1, V2, store=store).checks
    assert (plain.reward, plain.comparable) == (None, True)


def test_a_report_on_one_side_and_a_selection_on_the_other(store: Any) -> None:
    report = evaluate(store.episodes(V1.condition), [ONCE])
    assert compare(report, V2, store=store) == compare(V1, V2, store=store)
    with pytest.raises(ValueError, match="candidate: Episodes are selected from a store"):
        compare(report, V2)


def test_the_settings_read_are_those_of_the_lock(store: Any) -> None:
    side = side_of_store("baseline", V1, store, None)
    episodes = list(store.episodes("environment_id = 'till-v1'"))
    assert side.settings == tuple(setting_text(episode.data) for episode in episodes)
    assert side.lock == evaluate(episodes, [ONCE]).lock
    assert side.rewards is not None
    assert side.rewards.tolist() == [1, 1, 1]
    assert side.episodes == tuple(
        dataclasses.replace(judged, coverage_issues=())
        for judged in evaluate(episodes, [ONCE]).episodes
    )


def test_numbers_that_no_column_holds() -> None:
    """A seed past 64 bits is kept beside its column."""
    with connect(":memory:") as store:
        for environment in ("till-v1", "till-v2"):
            record("x", store=store, environment=environment, seed=2**64 + 1)
        comparison = compare(V1, V2, store=store, checks=ONCE)
        assert comparison.pairs[0].seed == 2**64 + 1
        assert comparison.pairs_frame()["seed"].to_list() == [2**64 + 1]


def test_options_and_spaces_are_read_as_they_are() -> None:
    with connect(":memory:") as store:
        record("x", store=store, options={"b": 1, "a": [1.0, None]})
        record("x", store=store, environment="till-v2", options={"b": True, "a": [1.0, None]})
        comparison = compare(V1, V2, store=store, checks=ONCE)
        assert comparison.blocked == (
            ("options", {"a": [1.0, None], "b": 1}, {"a": [1.0, None], "b": True}),
        )


# -- recoveries -----------------------------------------------------------------------------------


def test_a_store_knows_the_settings_of_each_attempt() -> None:
    """A report of the same episodes does not, so that there both count."""
    with connect(":memory:") as store:
        for environment in ("till-v1", "till-v2"):
            first = record("x", 2, store=store, environment=environment, options={"kept": False})
            if environment == "till-v1":
                again = {"options": {"kept": True}, "previous": first.episode_id}
                record("x", 1, store=store, environment=environment, **again)
        evaluate(store, [ONCE]).save(store)
        comparison = compare(V1, V2, store=store)
        assert comparison.comparable
        reports = [evaluate(store.episodes(each.condition), [ONCE]) for each in (V1, V2)]
        assert [part for part, _, _ in compare(*reports).blocked] == ["options"]
        assert compare(*reports, store=store).comparable
        last = compare(V1, V2, store=store, attempt="last")
        assert last.blocked == (("options", {"kept": True}, {"kept": False}),)


# -- judged afresh --------------------------------------------------------------------------------


@pytest.mark.parametrize("checks", [ONCE, [ONCE], SQL_ONCE])
def test_checks_are_applied_afresh(store: Any, checks: Any) -> None:
    comparison = compare(V1, V2, store=store, checks=checks)
    assert comparison.checks[0].outcomes == (
        ("passed", "passed"),
        ("passed", "failed"),
        ("passed", "unknown"),
    )


def test_another_check_than_the_saved_one(store: Any) -> None:
    (check,) = compare(V1, V2, store=store, checks=OFTEN).checks
    assert (check.baseline_version, check.broke) == ("often", ())


def test_the_same_evidence_under_two_versions_of_a_check(store: Any) -> None:
    """One call, and no run: the report says that the check changed, and not the agent."""
    comparison = compare(V2, V2, treatment="checks", checks=(ONCE, OFTEN), store=store)
    (check,) = comparison.checks
    assert (check.baseline_version, check.candidate_version) == ("once", "often")
    assert check.outcomes == (("passed", "passed"), ("failed", "passed"), ("unknown", "unknown"))
    assert (check.fixed, comparison.reward) == (("y",), None)
    assert comparison.comparable
    assert comparison.changed == (("checks", {"booked": "once"}, {"booked": "often"}),)
    for text in (comparison.summary(), str(comparison)):
        assert "the check, not the agent and not the environment" in text


def test_saved_results_against_a_new_version_of_the_check(store: Any) -> None:
    saved = compare(V2, V2, treatment="checks", checks=(None, OFTEN), store=store)
    assert saved.checks == (
        compare(V2, V2, treatment="checks", checks=([ONCE], [OFTEN]), store=store).checks
    )


def test_all_of_a_store_under_two_versions_of_a_check(store: Any) -> None:
    """The two environments share every trial: the episodes are paired with themselves."""
    comparison = compare(store, store, treatment="checks", checks=(SQL_ONCE, OFTEN))
    assert len(comparison.pairs) == 6
    assert comparison.unmatched == ()


def test_a_report_judged_afresh(store: Any) -> None:
    reports = [evaluate(store.episodes(each.condition), [ONCE]) for each in (V1, V2)]
    fresh = compare(*reports, store=store, checks=OFTEN)
    assert fresh.checks == compare(V1, V2, store=store, checks=OFTEN).checks
    with pytest.raises(ValueError, match="a report holds no evidence to judge afresh"):
        compare(*reports, checks=OFTEN)
    with connect(":memory:") as other, pytest.raises(ValueError, match="lacks 3 of 3 episodes"):
        compare(*reports, store=other, checks=OFTEN)


# -- what is refused ------------------------------------------------------------------------------


def test_a_selection_of_nothing_names_what_there_is(store: Any) -> None:
    with pytest.raises(
        ValueError,
        match=r"candidate: no episode is selected \(environment_id 'till-v3'\): .* till-v1, till",
    ):
        compare(V1, Episodes(environment_id="till-v3"), store=store)
    with pytest.raises(ValueError, match=r"no episode is selected \(where seed = 4\) in .*tills"):
        compare(V1, Episodes(where="seed = 4"), store=store)


def test_episodes_that_were_never_judged() -> None:
    with connect(":memory:") as store:
        for environment in ("till-v1", "till-v2"):
            record("x", store=store, environment=environment)
        with pytest.raises(ValueError, match=r"none of 1 episode .* has a saved result"):
            compare(V1, V2, store=store)
        evaluate(store, [ONCE]).save(store)
        record("y", store=store)
        record("y", store=store, environment="till-v2")
        comparison = compare(V1, V2, store=store)
        assert comparison.checks[0].outcomes[1] == ("unknown", "unknown")
        assert comparison.notes == (
            "baseline: booked has no saved result for 1 of 2 episodes, which count as unknown",
            "candidate: booked has no saved result for 1 of 2 episodes, which count as unknown",
        )


def test_results_of_several_versions_of_a_check() -> None:
    with connect(":memory:") as store:
        for case in "xy":
            record(case, store=store)
        evaluate(store, [ONCE]).save(store)
        evaluate(store.episodes("case_id = 'y'"), [OFTEN]).save(store)
        with pytest.raises(
            ValueError,
            match=r"'booked' are of several versions \(version 'often' in 1 episode, "
            r"version 'once' in 1 episode\): judge",
        ):
            compare(store, store)
        assert compare(store, store, checks=ONCE).checks[0].total == 2


def test_other_evidence_than_a_report_judged(store: Any) -> None:
    episode = record("x")
    report = evaluate([episode], [ONCE])
    with connect(":memory:") as other:
        other.add(episode)
        assert compare(report, report, store=other).reward is not None
        other.cursor().execute("UPDATE episodes SET digest = 'altered'").fetchall()
        with pytest.raises(ValueError, match="has other evidence of episode"):
            compare(report, report, store=other)


def test_a_store_with_both_versions_is_not_one_side(store: Any) -> None:
    with pytest.raises(PairingError, match=r"3 trials .* the first ones differ in environment_id"):
        compare(store, store)


@pytest.mark.parametrize(
    "where",
    ["seed =", "1 = 1; DROP TABLE episodes", "1 = 1) OR (1 = 1", "nothing_of_that_name = 1"],
)
def test_what_is_not_one_condition(store: Any, where: str) -> None:
    with pytest.raises(QueryError):
        compare(V1, Episodes(environment_id="till-v2", where=where), store=store)
    assert len(store.episodes()) == 6


def test_a_name_is_no_sql(store: Any) -> None:
    with pytest.raises(ValueError, match="no episode is selected"):
        compare(V1, Episodes(environment_id="x' OR '1' = '1"), store=store)


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"environment_id": " "}, ValueError, "environment_id must not be blank"),
        ({"agent_id": 7}, TypeError, "agent_id must be text, not int"),
        ({"where": ""}, ValueError, "where must not be blank"),
        ({"run_id": "\ud800"}, ValueError, "run_id must not hold a lone surrogate"),
    ],
)
def test_a_selection_checks_its_arguments(arguments: Any, kind: Any, message: str) -> None:
    with pytest.raises(kind, match=message):
        Episodes(**arguments)
