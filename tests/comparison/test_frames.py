from __future__ import annotations

from typing import Any

import polars as pl

from envbench.comparison import WORDS, compare


def test_one_row_a_check(report: Any) -> None:
    checks = {"a": "v1", "b": "v2"}
    baseline = report("pp pf pu pe", checks=checks)
    candidate = report("fp pf fu pp", checks=checks, side="b")
    frame = compare(baseline, candidate).frame()
    assert frame.select(
        "check", "baseline_version", "pairs", "total", "broke", "fixed", "difference"
    ).rows() == [("a", "v1", 4, 4, 2, 0, -0.5), ("b", "v2", 2, 4, 0, 0, 0.0)]
    assert frame.select(
        "baseline_passed",
        "baseline_failed",
        "baseline_unknown",
        "baseline_errors",
        "baseline_total",
    ).rows() == [(4, 0, 0, 0, 4), (1, 1, 1, 1, 4)]
    assert frame.schema["p_adjusted"] == pl.Float64
    assert frame["p_adjusted"].to_list() == [1, 1]


def test_what_could_not_be_had_is_null_and_never_nan(report: Any) -> None:
    frame = compare(report("uu"), report("uu", side="b")).frame()
    floats = frame.select(pl.selectors.float())
    assert floats.select(pl.all().is_nan().any().fill_null(value=False)).row(0) == (False,) * 9
    assert frame["difference"].to_list() == [None]
    assert frame.schema["difference"] == pl.Float64


def test_one_row_a_pair_and_check(report: Any) -> None:
    checks = {"a": "v1", "b": "v1"}
    rows = [
        {"case": "x", "letters": "pu", "seed": 1, "source_id": "s", "tags": ("t",)},
        {"case": "y", "letters": "fe", "seed": None, "repeat": 2},
    ]
    frame = compare(report(rows, checks=checks), report(rows[:1], checks=checks, side="b"))
    frame = frame.pairs_frame()
    assert frame.select("name", "check", "baseline_outcome", "candidate_outcome").rows() == [
        ("x", "a", "passed", "passed"),
        ("y", "a", "failed", "unmatched"),
        ("x", "b", "unknown", "unknown"),
        ("y", "b", "error", "unmatched"),
    ]
    assert frame.select("source_id", "tags", "seed", "repeat", "baseline", "candidate").row(1) == (
        None,
        [],
        None,
        2,
        "a-1",
        None,
    )
    assert frame.schema["baseline_outcome"] == pl.Enum(WORDS)


def test_without_a_pair_the_columns_are_there(report: Any) -> None:
    empty = compare(report([]), report([]))
    full = compare(report("p"), report("p"))
    assert empty.frame().schema == full.frame().schema
    assert empty.pairs_frame().schema == full.pairs_frame().schema
    assert empty.pairs_frame().height == 0
