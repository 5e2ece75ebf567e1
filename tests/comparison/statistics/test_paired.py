"""Pairs that are independent: the exact test and Newcombe's interval."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from envbench.comparison.statistics import exact_mcnemar, newcombe_interval, smallest_p
from envbench.comparison.statistics.paired import wilson_interval

COUNTS = st.integers(0, 10**12) | st.integers(0, 20)


def two_sided(broke: int, fixed: int) -> Fraction:
    """The same p in whole numbers, from the definition."""
    n = broke + fixed
    tail = sum(math.comb(n, k) for k in range(min(broke, fixed) + 1))
    return min(Fraction(1), Fraction(2 * tail, 2**n))


def test_exact_mcnemar_by_hand():
    assert exact_mcnemar(0, 0) == 1.0
    assert exact_mcnemar(5, 0) == 0.0625  # 2 / 32: five pairs never reach 0.05
    assert exact_mcnemar(6, 0) == 0.03125
    assert exact_mcnemar(3, 3) == 1.0
    assert exact_mcnemar(9, 1) == pytest.approx(22 / 1024, rel=1e-14)  # 2 · (1 + 10) / 2¹⁰


@pytest.mark.parametrize("n", range(1, 30))
def test_exact_mcnemar_as_in_whole_numbers(n):
    for broke in range(n + 1):
        p = exact_mcnemar(broke, n - broke)
        assert p == pytest.approx(float(two_sided(broke, n - broke)), rel=1e-13)


def test_exact_mcnemar_of_many_pairs():
    assert exact_mcnemar(480, 520) == pytest.approx(float(two_sided(480, 520)), rel=1e-10)
    assert exact_mcnemar(4_900, 5_100) == pytest.approx(float(two_sided(4_900, 5_100)), rel=1e-10)
    assert 0 < exact_mcnemar(10**15, 0) < 1e-300
    assert exact_mcnemar(10**9, 10**9) == 1.0
    # a z of 2, where the normal distribution says 0.0455
    n = 10**10
    assert exact_mcnemar(n // 2 - 10**5, n // 2 + 10**5) == pytest.approx(0.0455, rel=1e-3)


@given(COUNTS, COUNTS)
def test_exact_mcnemar_is_a_p(broke, fixed):
    p = exact_mcnemar(broke, fixed)
    assert 0 < p <= 1
    assert p == exact_mcnemar(fixed, broke)
    assert p >= smallest_p(broke + fixed) * (1 - 1e-9)


def test_smallest_p_is_that_of_all_pairs_one_way():
    assert [smallest_p(n) for n in range(7)] == [1, 1, 0.5, 0.25, 0.125, 0.0625, 0.03125]
    for n in (50, 999, 1000, 1001, 1022):
        assert smallest_p(n) == pytest.approx(exact_mcnemar(n, 0), rel=1e-9)
    assert 0 < smallest_p(10**30) < 1e-300


@pytest.mark.parametrize("bad", [1.0, True, np.True_, "1", None, np.float64(2)])
def test_a_count_that_is_none_is_refused_by_name(bad):
    with pytest.raises(TypeError, match="broke must be an integer"):
        exact_mcnemar(bad, 1)
    with pytest.raises(TypeError, match="discordant must be an integer"):
        smallest_p(bad)
    with pytest.raises(TypeError, match="neither must be an integer"):
        newcombe_interval(1, 1, 1, bad)


def test_a_negative_count_is_refused_by_name():
    with pytest.raises(ValueError, match="fixed must be at least 0, not -1"):
        exact_mcnemar(0, -1)
    with pytest.raises(ValueError, match="both must be at least 0, not -2"):
        newcombe_interval(-2, 1, 1, 1)


def test_numbers_of_numpy_are_counts():
    assert exact_mcnemar(np.int8(5), np.uint64(0)) == 0.0625
    # 200 · 200 would overflow eight bits
    assert newcombe_interval(*np.array([200, 3, 2, 200], np.uint8)) == newcombe_interval(
        200, 3, 2, 200
    )


# -- Newcombe's interval ---------------------------------------------------------------------------

# Newcombe 1998, Statistics in Medicine 17, table III, method 10: cells e, f, g, h and the limits
# of (f − g) / n. His first side is our candidate: it passed alone in f pairs.
TABLE_III = [
    ((36, 12, 2, 0), (0.0569, 0.3404)),
    ((20, 12, 2, 16), (0.0562, 0.3292)),
    ((18, 12, 2, 18), (0.0562, 0.3290)),
    ((36, 14, 0, 0), (0.1528, 0.4167)),
    ((35, 14, 0, 1), (0.1461, 0.4175)),
    ((18, 14, 0, 18), (0.1441, 0.3963)),
    ((2, 97, 1, 0), (0.8721, 0.9854)),
    ((1, 97, 1, 1), (0.8736, 0.9850)),
    ((0, 29, 1, 0), (0.6666, 0.9882)),
    ((2, 98, 0, 0), (0.9178, 0.9945)),
    ((1, 98, 0, 1), (0.9171, 0.9916)),
    ((0, 30, 0, 0), (0.8395, 1.0)),
    ((54, 0, 0, 0), (-0.0664, 0.0664)),
    ((53, 0, 0, 1), (-0.0729, 0.0729)),
    ((30, 0, 0, 24), (-0.0358, 0.0358)),
    ((29, 0, 0, 25), (-0.0354, 0.0354)),
    ((28, 0, 0, 26), (-0.0352, 0.0352)),
    ((27, 0, 0, 27), (-0.0351, 0.0351)),
]


@pytest.mark.parametrize(("cells", "limits"), TABLE_III)
def test_newcombe_as_he_published_it(cells, limits):
    both, fixed, broke, neither = cells
    # four decimals, of which the paper cut off one instead of rounding it
    assert newcombe_interval(both, broke, fixed, neither) == pytest.approx(limits, abs=1e-4)


@pytest.mark.parametrize(
    ("cells", "limits"),
    [
        # Fagerland, Lydersen and Laake's R package `contingencytables`, chapter 8
        ((59, 6, 16, 80), (-0.1186, -0.0046)),
        # Altman et al. 2000, Statistics with Confidence, table 6.2
        ((14, 5, 0, 22), (0.0115, 0.2265)),
    ],
)
def test_newcombe_as_others_have_it(cells, limits):
    both, fixed, broke, neither = cells
    assert newcombe_interval(both, broke, fixed, neither) == pytest.approx(limits, abs=5e-5)


def test_newcombe_by_hand():
    # One pair, fixed: rates 0 and 1, φ = 0; Wilson's limits of 0/1 are 0 and z²/(1 + z²), those
    # of 1/1 are 1/(1 + z²) and 1. So the lower limit is 1 − √(2 · (z²/(1 + z²))²).
    z2 = 1.959963984540054**2
    low, high = newcombe_interval(0, 0, 1, 0)
    assert low == pytest.approx(1 - math.sqrt(2) * z2 / (1 + z2))
    assert high == 1.0


def test_newcombe_without_a_pair_is_none():
    assert newcombe_interval(0, 0, 0, 0) is None


@given(COUNTS, COUNTS, COUNTS, COUNTS, st.sampled_from([0.05, 0.0025, 1e-9, 0.9]))
def test_newcombe_is_an_interval_about_the_difference(both, broke, fixed, neither, alpha):
    found = newcombe_interval(both, broke, fixed, neither, alpha=alpha)
    pairs = both + broke + fixed + neither
    if not pairs:
        assert found is None
        return
    low, high = found
    difference = (fixed - broke) / pairs
    assert -1 <= low <= difference <= high <= 1
    mirrored = newcombe_interval(both, fixed, broke, neither, alpha=alpha)
    assert mirrored == pytest.approx((-high, -low), abs=1e-12)


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1, math.nan])
def test_an_alpha_outside_is_refused(alpha):
    with pytest.raises(ValueError, match="alpha must be between 0 and 1"):
        newcombe_interval(1, 1, 1, 1, alpha=alpha)


def test_an_alpha_that_is_no_number_is_refused():
    with pytest.raises(TypeError, match="alpha must be a number"):
        newcombe_interval(1, 1, 1, 1, alpha=None)  # type: ignore[arg-type]


@pytest.mark.parametrize("total", [1, 2, 7, 100, 10**6])
@pytest.mark.parametrize("alpha", [0.05, 0.001, 0.5])
def test_wilson_as_statsmodels_has_it(total, alpha):
    for passed in sorted({0, 1, total // 3, total - 1, total}):
        expected = proportion_confint(passed, total, alpha, method="wilson")
        assert wilson_interval(passed, total, alpha=alpha) == pytest.approx(expected, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "rates", "coverage"),
    [
        # rates of both, broke, fixed, neither; exact, over all tables of n pairs
        (10, (0.70, 0.10, 0.10, 0.10), 0.991),
        (20, (0.70, 0.10, 0.10, 0.10), 0.983),
        (20, (0.90, 0.05, 0.03, 0.02), 0.997),
        (20, (0.40, 0.30, 0.10, 0.20), 0.957),
        (10, (0.07, 0.15, 0.73, 0.05), 0.909),
        (40, (0.60, 0.20, 0.10, 0.10), 0.954),
        (40, (0.85, 0.10, 0.00, 0.05), 0.980),
    ],
)
def test_how_often_newcombe_covers(n, rates, coverage):
    difference = rates[2] - rates[1]
    covered = 0.0
    for both in range(n + 1):
        for broke in range(n + 1 - both):
            for fixed in range(n + 1 - both - broke):
                cells = (both, broke, fixed, n - both - broke - fixed)
                chance = float(math.factorial(n))
                for cell, rate in zip(cells, rates, strict=True):
                    chance *= rate**cell / math.factorial(cell)
                if chance > 1e-12:
                    low, high = newcombe_interval(*cells)
                    covered += chance * (low <= difference <= high)
    assert covered == pytest.approx(coverage, abs=0.003)
