"""The benchmark of changes runs, and measures what it says."""

from __future__ import annotations

import json
from itertools import pairwise

from envbench.changes import diff
from tests.benchmarks import changes


def test_a_quick_run_measures_every_world(capsys):
    measures = changes.main(["--quick"])
    assert {each.world.split(",")[0] for each in measures} == {"ledger", "wide", "apps"}
    assert "every restored change in SQL (made-up rows): 1,000 in" in capsys.readouterr().out


def test_one_cell_changes_a_step():
    for world, first in [
        ("ledger", changes.ledger(50)),
        ("wide", changes.wide(20)),
        ("apps", changes.apps(20)),
    ]:
        states = list(changes.states_of(world, first, 3))
        for before, after in pairwise(states):
            assert [change.op for change in diff(before, after)] == ["edit"]


def test_fifty_rows_are_about_as_large_as_the_design_says():
    assert 3_000 < len(json.dumps(changes.ledger(50), separators=(",", ":"))) < 4_500
