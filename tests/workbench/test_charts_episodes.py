"""Charts of many episodes: counted in the store, with what is missing said."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from envbench import Report, Store, connect, evaluate
from envbench.comparison import Episodes
from envbench.workbench import charts
from tests.workbench.drawn import notes, texts, titles
from tests.workbench.walks import ARRIVED, Walk, record, record_all


@pytest.fixture(name="store")
def store_fixture() -> Iterator[Store]:
    with connect(":memory:") as store:
        record_all(
            store,
            [
                Walk(version="1", steps=2, reward=1.0, case_id="a"),
                Walk(version="1", steps=4, reward=1.0, case_id="b", ending="truncated"),
                Walk(version="1", steps=4, reward=0.0, case_id="c", outcome=False),
                Walk(version="2", steps=1, reward=0.5, case_id="a", ending="error", outcome=None),
                Walk(version="2", steps=9, reward=math.inf, case_id="b", ending="policy_stop"),
            ],
        )
        yield store


def test_endings_are_counted_by_version(store: Store) -> None:
    found = texts(charts.endings(store))
    assert notes(charts.endings(store)) == ("5 episodes of 2 versions.",)
    assert {"terminated", "truncated", "policy_stop", "error"} <= set(found)
    assert {"walk 1", "walk 2"} <= set(found)
    assert {"2 (67%)", "1 (33%)", "1 (50%)"} <= set(found)
    assert "walk 1: 2 of 3 episodes terminated" in titles(charts.endings(store))


def test_endings_of_reports_need_no_store(store: Store) -> None:
    reports = [
        evaluate(list(store.episodes(f"environment_version = '{version}'")), [ARRIVED])
        for version in (1, 2)
    ]
    shown = texts(charts.endings(store))
    store.close()
    assert texts(charts.endings(reports)) == shown
    # an episode in two reports is one episode
    assert texts(charts.endings([*reports, reports[0]])) == shown


def test_a_report_that_does_not_tell_versions_apart_needs_the_store(store: Store) -> None:
    report, shown = evaluate(store, [ARRIVED]), texts(charts.endings(store))
    with connect(":memory:"):  # connected last, but it has none of the episodes
        assert texts(charts.endings(report, store=store)) == texts(charts.endings(report)) == shown
    store.close()
    with pytest.raises(ValueError, match="has several versions of case 'a', and does not keep"):
        charts.endings(report)


def test_episodes_can_be_selected(store: Store) -> None:
    found = texts(charts.endings(store, episodes=Episodes(environment_version="2")))
    assert "2 episodes of 1 version." in found
    assert "walk 1" not in found


def test_agents_tell_versions_apart_where_there_are_several() -> None:
    with connect(":memory:") as store:
        record_all(store, [Walk(agent_id="careful"), Walk(agent_id=None, case_id="b")])
        shown = texts(charts.endings(store))
        assert {"walk 1, careful", "walk 1, no agent named"} <= set(shown)


def test_step_counts_have_a_histogram_a_version(store: Store) -> None:
    chart = charts.step_counts(store)
    found = texts(chart)
    assert notes(chart)[1].startswith("Counted from 20 steps.")
    assert {"2 to 4", "1 to 9", "3.33", "5"} <= set(found)  # ranges and means
    assert "walk 1: 2 episodes at 4" in titles(chart)
    assert "walk 2: 1 episode at 9" in titles(chart)


def test_steps_of_reports_need_the_store(store: Store) -> None:
    report = evaluate(store, [ARRIVED])
    shown = texts(charts.step_counts(store))
    assert texts(charts.step_counts(report, store=store)) == shown
    assert texts(charts.step_counts(report)) == shown  # the store that is open has its episodes
    store.close()
    with pytest.raises(ValueError, match="a report does not keep the step count of episodes"):
        charts.step_counts(report)


def test_reports_whose_episodes_are_elsewhere_are_refused(store: Store) -> None:
    report = evaluate(store, [ARRIVED])
    with (
        connect(":memory:") as other,
        pytest.raises(ValueError, match="5 of 5 episodes of the reports are not in"),
    ):
        charts.step_counts(report, store=other)


def test_reward_stands_beside_each_outcome(store: Store) -> None:
    chart = charts.reward_against_verdict(store)
    found = texts(chart)
    assert notes(chart)[0] == "5 of 5 episodes judged by 1 check."
    said = titles(chart)
    # of the three that passed one has an infinite return; the one that raised got no reward
    assert "passed: 2 episodes at 1" in said
    assert any("arrived, passed: return of 2 of 3 episodes" in text for text in said)
    assert {"passed", "failed", "unknown"} <= set(found)


def test_a_check_can_be_named(store: Store) -> None:
    chart = charts.reward_against_verdict(store, check="arrived")
    assert "arrived" in texts(chart)
    with pytest.raises(KeyError, match="no check 'left': there are arrived"):
        charts.reward_against_verdict(store, check="left")


def test_an_empty_store_is_drawn_as_empty() -> None:
    with connect(":memory:") as store:
        assert "No episode." in texts(charts.endings(store))
        assert "No episode." in texts(charts.step_counts(store))
        assert "No episode was judged." in texts(charts.reward_against_verdict(store))


def test_episodes_without_a_return_are_counted() -> None:
    with connect(":memory:") as store:
        record_all(store, [Walk(steps=1, reward=None, case_id=f"c{i}") for i in range(3)])
        found = texts(charts.reward_against_verdict(store))
        assert {"3", "0", "–"} <= set(found)


def test_other_sources_are_refused() -> None:
    with pytest.raises(TypeError, match="a Store or a Report is needed, or several, not dict"):
        charts.endings({})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="not list"):
        charts.endings(["a.duckdb"])  # type: ignore[list-item]


def test_a_selection_is_for_stores(store: Store) -> None:
    report: Report = evaluate(store, [ARRIVED])
    with pytest.raises(ValueError, match="episodes= selects from a store"):
        charts.endings(report, episodes=Episodes(environment_version="2"))


@pytest.mark.slow
def test_67_000_steps_are_as_small_a_chart_as_67() -> None:
    drawn = []
    for steps in (6_700, 7):
        with connect(":memory:") as store:
            for number in range(10):
                record(store, Walk(steps=steps, case_id=f"c{number}"))
            drawn.append(charts.step_counts(store))
    assert notes(drawn[0])[1].startswith("Counted from 67,000 steps.")
    rows = [sum(map(len, chart.spec()["datasets"].values())) for chart in drawn]
    assert max(rows) < 25
