"""Random reports, compared here and by a slow reference that was written apart."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envbench.comparison import Comparison, compare
from tests.comparison import reference
from tests.comparison.conftest import make_report

CHECKS = {"first": "v1", "second": "v1", "third": "v1"}
SOURCES = {"c0": None, "c1": "s0", "c2": "s0", "c3": "s1", "c4": "c0", "c5": None, "c6": None}

# more passes and failures than gaps, so that most pairs are measured
LETTER = st.sampled_from("pppffffppffpue")


@st.composite
def sides(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows of two sides, most trials on both."""
    case = (
        st.sampled_from(sorted(SOURCES)) if draw(st.booleans()) else st.sampled_from(["c0", "c5"])
    )
    seeds = st.sampled_from(draw(st.sampled_from([[1], [None], [1, 2, None], [None, 7]])))
    trials = draw(st.lists(st.tuples(case, seeds, st.integers(0, 2)), unique=True, max_size=14))
    made: tuple[list[dict[str, Any]], list[dict[str, Any]]] = ([], [])
    for trial in trials:
        where = draw(st.sampled_from(["both"] * 8 + ["baseline", "candidate"]))
        for name, rows in zip(("baseline", "candidate"), made, strict=True):
            if where in ("both", name):
                rows.append(_row(*trial, "".join(draw(LETTER) for _ in CHECKS)))
    return made


def _row(case: str, seed: int | None, repeat: int, letters: str) -> dict[str, Any]:
    return {
        "case": case,
        "seed": seed,
        "repeat": repeat,
        "letters": letters,
        "source": SOURCES[case],
    }


def _compared(rows: tuple[list[dict[str, Any]], list[dict[str, Any]]]) -> Comparison:
    made = [
        make_report(
            [
                {name: value for name, value in row.items() if name != "source"}
                | {"source_id": row["source"]}
                for row in side
            ],
            checks=CHECKS,
            side=name,
        )
        for side, name in zip(rows, "ab", strict=True)
    ]
    return compare(made[0], made[1])


@settings(max_examples=80)
@given(sides())
def test_every_figure_is_that_of_the_reference(rows: Any) -> None:
    comparison = _compared(rows)
    expected = [reference.compared(*rows, number) for number in range(len(CHECKS))]
    adjusted = reference.holm([each["p"] for each in expected])
    if not comparison.comparable:
        # only a case under other seeds can differ here, and then there is nothing but counts
        assert {part for part, _, _ in comparison.blocked} == {"seed"}
        adjusted = [None] * len(CHECKS)
    for check, found, p in zip(comparison.checks, expected, adjusted, strict=True):
        assert (check.pairs, check.total, check.clusters) == (
            found["pairs"],
            found["total"],
            found["clusters"],
        )
        for name in ("difference", "lower", "upper"):
            value = found[name]
            assert getattr(check, name) == (None if value is None else pytest.approx(float(value)))
        assert len(check.broke) == len(found["broke"])
        assert len(check.fixed) == len(found["fixed"])
        assert {cell: n for cell, n in check.table.items() if n} == found["table"]
        assert check.p_adjusted == (None if p is None else pytest.approx(float(p)))
        if comparison.comparable:
            assert check.verdict == reference.verdict(found, p)
        else:
            assert (check.verdict, check.p) == ("descriptive", None)


@settings(max_examples=25)
@given(sides())
def test_both_sides_swapped(rows: Any) -> None:
    forward, backward = _compared(rows), _compared((rows[1], rows[0]))
    for check, turned in zip(forward.checks, backward.checks, strict=True):
        assert (check.broke, check.fixed) == (turned.fixed, turned.broke)
        assert (check.p, check.pairs) == (turned.p, turned.pairs)
        for ours, theirs in ((check.difference, turned.difference), (check.lower, turned.upper)):
            assert ours == (None if theirs is None else pytest.approx(-theirs))
        assert {(a, b): n for (b, a), n in check.table.items()} == turned.table


@settings(max_examples=25)
@given(sides(), st.randoms())
def test_any_report_comes_back_and_can_be_said(rows: Any, random: Any) -> None:
    comparison = _compared(rows)
    assert Comparison.from_dict(comparison.to_dict()) == comparison
    assert "nan" not in (str(comparison) + comparison.summary()).lower()
    for side in rows:
        random.shuffle(side)
    shuffled = _compared(rows)
    assert [(c.outcomes, c.p, c.verdict) for c in shuffled.checks] == [
        (c.outcomes, c.p, c.verdict) for c in comparison.checks
    ]
