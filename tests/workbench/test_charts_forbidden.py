"""The chart of forbidden changes: a lane a path, along the steps."""

from __future__ import annotations

from typing import Any

import pytest

from envbench import Forbid, connect, evaluate, no_forbidden_changes
from envbench.workbench import charts
from tests.changes.conftest import make_episode
from tests.workbench.drawn import notes, texts, titles

RULES = [Forbid("/vendors/**")]


def vendors(**banks: str) -> dict[str, Any]:
    return {"vendors": [{"vendor_id": name, "bank": bank} for name, bank in banks.items()]}


def test_a_change_put_back_is_drawn_from_the_change_to_its_end() -> None:
    chart = charts.forbidden_changes(
        make_episode(
            vendors(a="old", b="old"),
            vendors(a="new", b="old"),
            vendors(a="new", b="new"),
            vendors(a="old", b="new"),
        ),
        RULES,
    )
    found = texts(chart)
    assert notes(chart)[1] == (
        "2 findings at 2 paths. No audit was recorded: a change undone within one step is not seen."
    )
    assert {'/vendors/vendor_id="a"/bank', '/vendors/vendor_id="b"/bank'} <= set(found)
    assert {"never put back", "put back later", "the old value again"} <= set(found)
    assert {'"old" → "new" → "old"', '"old" → "new"'} <= set(found)
    rows = [row for rows in chart.spec()["datasets"].values() for row in rows]
    spans = {(row["step"], row["end"]) for row in rows if "end" in row}
    assert spans == {(1, 3), (2, 3)}
    assert (
        '/vendors/vendor_id="a"/bank: step 1, "old" → "new" → "old", put back at step 3 '
        '(Forbid("/vendors/**"))'
    ) in titles(chart)


def test_what_was_undone_within_a_step_is_drawn_when_an_audit_saw_it() -> None:
    row = {"vendor_id": "a", "bank": "old"}
    events = [
        {
            "table": "vendors",
            "op": "update",
            "key": "a",
            "before": row,
            "after": row | {"bank": "x"},
        },
        {
            "table": "vendors",
            "op": "update",
            "key": "a",
            "before": row | {"bank": "x"},
            "after": row,
        },
    ]
    chart = charts.forbidden_changes(
        make_episode(vendors(a="old"), vendors(a="old"), audit={1: events}), RULES
    )
    found = texts(chart)
    assert "put back within the step" in found
    assert '"old" → "x" → "old"' in found


def test_no_finding_is_said_with_what_cannot_be_seen() -> None:
    chart = charts.forbidden_changes(make_episode(vendors(a="old"), vendors(a="old")), RULES)
    assert "No forbidden change was found." in texts(chart)
    assert notes(chart)[1] == (
        "No audit was recorded: a change undone within one step is not seen."
    )


def test_an_episode_of_a_store_shows_its_saved_findings() -> None:
    episode = make_episode(vendors(a="old"), vendors(a="new"))
    with connect(":memory:") as store:
        store.add(episode)
        report = evaluate(store, [no_forbidden_changes(*RULES, name="vendors untouched")])
        assert "No forbidden change was found." in texts(
            charts.forbidden_changes(store.episode(episode.episode_id))
        )
        report.save(store)
        saved = charts.forbidden_changes(store.episode(episode.episode_id))
    assert '"old" → "new"' in texts(saved)
    assert texts(charts.forbidden_changes(episode, report=report)) == texts(saved)


def test_paths_past_the_fortieth_share_a_lane() -> None:
    before = vendors(**{f"v{n:02}": "old" for n in range(45)})
    after = vendors(**{f"v{n:02}": "new" for n in range(45)})
    chart = charts.forbidden_changes(make_episode(before, after), RULES)
    found = texts(chart)
    assert "5 further paths" in found
    assert sum(text.startswith("/vendors/") for text in found) == 40
    assert notes(chart)[1].startswith("45 findings at 45 paths.")


def test_very_many_findings_are_counted_together() -> None:
    states = [vendors(a=("old", "new")[step % 2]) for step in range(1_201)]
    episode = make_episode(*states, actions=[1] * 1_200, max_steps=2_000)
    chart = charts.forbidden_changes(episode, RULES)
    assert notes(chart)[1].startswith("600 findings at 1 path.")
    assert notes(chart)[2] == (
        "Counted in 110 parts of 11 steps each: the darker, the more findings of its lane."
    )
    rows = [row for rows in chart.spec()["datasets"].values() for row in rows]
    assert sum("dark" in row for row in rows) == 110
    assert '/vendors/vendor_id="a"/bank: 5 findings in steps 0 to 10' in titles(chart)


@pytest.mark.slow
def test_67_000_steps() -> None:
    states = [{"n": [step % 2]} for step in range(67_001)]
    episode = make_episode(*states, actions=[1] * 67_000, max_steps=70_000)
    chart = charts.forbidden_changes(episode, [Forbid("/n")])
    assert notes(chart)[1].startswith("33,500 findings at 1 path.")
    assert sum(map(len, chart.spec()["datasets"].values())) < 400
