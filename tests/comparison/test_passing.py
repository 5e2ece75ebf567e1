"""pass@k and pass^k over the repeats of each case."""

from __future__ import annotations

from typing import Any

import pytest

from envbench.comparison import PassK, compare


def repeated(report: Any, side: str, *letters: str, seed: int | None = 1) -> Any:
    rows = [
        {"case": f"c{case}", "letters": letter, "repeat": repeat, "seed": seed}
        for case, all_ in enumerate(letters)
        for repeat, letter in enumerate(all_)
    ]
    return report(rows, side=side)


def test_of_two_attempts(report: Any) -> None:
    comparison = compare(
        repeated(report, "a", "pppp", "ppff"), repeated(report, "b", "pfff", "ffff")
    )
    baseline, candidate = comparison.pass_k(2)
    # c0: 4 of 4. c1: 2 of 4: of 6 ways to take two, one has no pass and one has two
    assert (baseline.at_least_one, baseline.all) == ((1 + 5 / 6) / 2, (1 + 1 / 6) / 2)
    # c0: 1 of 4: of 6 ways, 3 have the pass; c1 none
    assert candidate == PassK("posted_once", "candidate", 2, 2, 0, 0, 0.25, 0.0)


def test_by_default_as_many_as_every_case_has(report: Any) -> None:
    comparison = compare(repeated(report, "a", "ppp", "pp"), repeated(report, "b", "ppp", "pf"))
    assert {one.k for one in comparison.pass_k()} == {2}
    assert "pass@2 1 → 1, pass^2 1 → 0.5 (cases: 2 → 2)" in str(comparison)


def test_what_was_not_measured_is_neither(report: Any) -> None:
    comparison = compare(repeated(report, "a", "ppu", "pp"), repeated(report, "b", "ppe", "uu"))
    baseline, candidate = comparison.pass_k(2)
    assert (baseline.cases, baseline.short, baseline.unmeasured, baseline.all) == (2, 0, 1, 1)
    assert (candidate.cases, candidate.short, candidate.unmeasured) == (1, 1, 3)


def test_more_attempts_than_any_case_has(report: Any) -> None:
    comparison = compare(repeated(report, "a", "pp"), repeated(report, "b", "pp"))
    assert comparison.pass_k(3)[0] == PassK("posted_once", "baseline", 3, 0, 1, 0, None, None)


def test_repeats_without_a_partner_are_left_out_unless_they_carry_no_seed(report: Any) -> None:
    sides = repeated(report, "a", "ppf"), repeated(report, "b", "pp")
    assert compare(*sides).pass_k(1)[0].all == 1
    sides = repeated(report, "a", "ppf", seed=None), repeated(report, "b", "pp", seed=None)
    assert compare(*sides).pass_k(1)[0].all == pytest.approx(2 / 3)


def test_without_repeats_nothing_is_shown_of_them(report: Any) -> None:
    comparison = compare(report("pf"), report("pp", side="b"))
    assert "Repeats" not in str(comparison)
    assert [one.all for one in comparison.pass_k()] == [0.5, 1]


@pytest.mark.parametrize("k", [0, -1, True, 1.5])
def test_k_is_a_number_of_attempts(report: Any, k: Any) -> None:
    with pytest.raises(ValueError, match="k must be an integer from 1 on"):
        compare(report("p"), report("p")).pass_k(k)
