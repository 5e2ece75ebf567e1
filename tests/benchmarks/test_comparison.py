"""The benchmark of comparisons runs, and measures what it says."""

from __future__ import annotations

from typing import Any

from envbench.comparison import compare
from tests.benchmarks import comparison


def test_a_quick_run_measures_every_way(capsys: Any) -> None:
    measures = comparison.main(["--quick"])
    assert [one.what for one in measures] == [
        "plain loop, flips only",
        "reports",
        "reports, two cases a source",
        "table and summary",
        "to JSON and back",
        "selections of a store, with rewards",
    ]
    assert "200 pairs × 20 checks" in capsys.readouterr().out


def test_what_is_compared_has_everything_in_it() -> None:
    found = compare(*comparison.made_pair(300))
    assert (len(found.pairs), len(found.checks)) == (300, comparison.CHECKS)
    assert all(check.p is not None and check.broke and check.fixed for check in found.checks)
    assert sum(check.baseline_rate.unknown for check in found.checks) > 0


def test_the_plain_loop_counts_the_same_flips() -> None:
    reports = comparison.made_pair(300)
    counted = {
        check.name: [len(check.broke), len(check.fixed)] for check in compare(*reports).checks
    }
    assert comparison.plain_flips(*reports) == counted
