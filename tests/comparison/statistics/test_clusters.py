"""Clusters: their differences, the sign-flip test and the interval over them."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from envbench.comparison.statistics import (
    cluster_differences,
    cluster_interval,
    cluster_test,
    exact_mcnemar,
)
from envbench.comparison.statistics.sampling import SAMPLES

P, F, U, NONE = 1, 0, -1, -2


def flipped(differences: list[Fraction]) -> Fraction:
    """The p of the sign-flip test in fractions: every way to give signs."""
    seen = abs(sum(differences))
    ways = list(itertools.product((1, -1), repeat=len(differences)))
    sums = [abs(sum(s * d for s, d in zip(w, differences, strict=True))) for w in ways]
    return Fraction(sum(each >= seen for each in sums), len(ways))


def every_number(result) -> list[float]:
    numbers = [result.difference, result.p, result.smallest_p, *(result.interval or ())]
    return [number for number in numbers if number is not None]


# -- differences -----------------------------------------------------------------------------------


def test_differences_by_hand():
    # cluster 7: −1 and 0; cluster 8: +1, and a pair that is unknown on one side
    assert cluster_differences([P, P, F, P], [F, P, P, U], [7, 7, 8, 8]).tolist() == [-0.5, 1.0]


def test_a_cluster_without_a_known_pair_is_left_out():
    assert cluster_differences([P, U, P], [F, P, NONE], [0, 1, 2]).tolist() == [-1.0]
    assert cluster_differences([], [], []).tolist() == []


def test_case_means():
    # baseline 2 of 3, candidate 1 of 2: 1/2 − 2/3
    found = cluster_differences([P, P, F], [P, F, NONE], [0, 0, 0], [0, 0, 0])
    assert found.tolist() == [-1 / 6]


def test_equal_differences_are_equal_numbers():
    # 1/3 − 2/3 of three, and 2/6 − 4/6 of six
    three = cluster_differences([P, P, F], [P, F, F], [0] * 3, [0] * 3)
    six = cluster_differences([P] * 4 + [F] * 2, [P] * 2 + [F] * 4, [0] * 6, [0] * 6)
    assert three[0] == six[0]


# -- the test --------------------------------------------------------------------------------------


def test_p_by_hand():
    # all of six clusters fell: 2 of the 2⁶ ways are as far from zero
    assert cluster_test([-0.5, -0.25, -0.5, -1, -0.25, -0.5]).p == 2 / 64
    # 3 + 1 − 2 = 2 of the sums ±3 ±1 ±2: 6, 4, 2, 0, 0, −2, −4, −6
    assert cluster_test([3, 1, -2]).p == 6 / 8


@given(st.lists(st.integers(-4, 4), min_size=2, max_size=9))
def test_p_as_every_way_to_give_signs(quarters):
    result = cluster_test([quarter / 4 for quarter in quarters], limits=(-1, 1))
    assert result.p == pytest.approx(float(flipped([Fraction(q, 4) for q in quarters])), abs=1e-12)
    assert result.smallest_p <= result.p


@given(st.lists(st.integers(-7, 7), min_size=2, max_size=8))
def test_sums_that_are_equal_but_for_rounding_are_equal(sevenths):
    result = cluster_test([each / 7 for each in sevenths])
    assert result.p == pytest.approx(float(flipped([Fraction(n, 7) for n in sevenths])), abs=1e-12)


def test_p_as_scipy_has_it():
    differences = np.random.default_rng(3).normal(0.3, 1, 11)
    expected = stats.permutation_test(
        (differences,), np.mean, permutation_type="samples", n_resamples=np.inf
    )
    assert cluster_test(differences).p == pytest.approx(expected.pvalue)


def test_clusters_of_one_pair_are_mcnemar():
    # as many ways as 2⁴⁰, and yet all are looked at
    result = cluster_test([1] * 12 + [-1] * 28 + [0] * 60)
    assert result.p == pytest.approx(exact_mcnemar(12, 28), rel=1e-12)
    many = cluster_test([1] * 1_900 + [-1] * 2_100)
    assert many.p == pytest.approx(exact_mcnemar(1_900, 2_100), rel=1e-9)


def test_sampled_p_is_close_to_the_exact_one():
    # 24 differences of all sizes are 2²⁴ ways: too many to enumerate, but not for whole numbers
    sizes = [n * (1 if n % 3 else -1) for n in range(1, 25)]
    ways = {0: 1}
    for size in map(abs, sizes):
        added: dict[int, int] = {}
        for total, number in ways.items():
            for sign in (size, -size):
                added[total + sign] = added.get(total + sign, 0) + number
        ways = added
    seen = abs(sum(sizes))
    exact = sum(number for total, number in ways.items() if abs(total) >= seen) / 2**24
    result = cluster_test(sizes)
    assert f"{SAMPLES:,} samples" in result.method
    assert result.p == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / SAMPLES))


def test_a_sampled_p_is_never_zero():
    result = cluster_test(np.linspace(1, 2, 200))
    assert result.p == result.smallest_p == 1 / (1 + SAMPLES)


def test_many_clusters_of_few_sizes_are_sampled_by_size():
    # 600 clusters of five sizes: 121⁵ ways; the sum has a normal distribution
    differences = np.repeat([0.2, 0.4, 0.6, 0.8, 1.0], 120)
    differences = differences * np.where(np.arange(600) % 20 < 9, 1, -1)
    z = abs(differences.sum()) / math.sqrt((differences**2).sum())
    result = cluster_test(differences)
    assert "samples" in result.method
    assert result.p == pytest.approx(2 * stats.norm.sf(z), abs=0.02)


def test_the_same_clusters_give_the_same_figures_in_any_order():
    differences = np.random.default_rng(1).normal(size=40)
    first = cluster_test(differences)
    assert cluster_test(differences) == first
    assert cluster_test(differences[::-1]).p == first.p


# -- the interval ----------------------------------------------------------------------------------


def test_the_interval_is_scipys_bca_at_wider_levels():
    differences = np.random.default_rng(8).gamma(1.0, 0.2, 25) - 0.1
    number = len(differences)
    wide = stats.t.ppf(0.025, number - 1) * math.sqrt(number / (number - 1))
    level = 1 - 2 * stats.norm.cdf(wide)
    assert level > 0.95
    expected = stats.bootstrap(
        (differences,),
        np.mean,
        confidence_level=level,
        n_resamples=50_000,
        method="BCa",
        rng=np.random.default_rng(5),
    ).confidence_interval
    assert cluster_interval(differences).interval == pytest.approx(tuple(expected), abs=0.006)


def test_many_clusters_give_the_normal_interval():
    differences = np.random.default_rng(2).choice([-1.0, -0.5, 0.0, 0.5, 1.0], 4_000)
    error = differences.std() / math.sqrt(4_000)
    expected = differences.mean() - 1.96 * error, differences.mean() + 1.96 * error
    assert cluster_interval(differences).interval == pytest.approx(expected, abs=0.15 * error)


@given(
    st.lists(st.floats(-1, 1), min_size=2, max_size=30), st.sampled_from([0.05, 0.0005, 1e-7, 0.5])
)
def test_the_interval_is_within_the_differences(differences, alpha):
    low, high = cluster_interval(differences, alpha=alpha).interval
    assert min(differences) - 1e-12 <= low <= high <= max(differences) + 1e-12


def test_where_bca_would_turn_round_percentiles_are_taken():
    found = cluster_interval([1.0, 0.5, 0.1], alpha=1e-6)
    assert found.method == "percentile bootstrap over clusters"
    assert found.interval == pytest.approx((0.1, 1.0))


def test_no_cluster_differs():
    result = cluster_test([0.0] * 10, limits=(-1, 1))
    assert (result.difference, result.p, result.smallest_p) == (0.0, 1.0, 1.0)
    # with 97.5% confidence at most 1 − 0.025^(1/10) of all clusters differ
    assert result.interval == pytest.approx((-0.30850, 0.30850), abs=1e-5)
    assert result.note == "no cluster differs: the interval allows for clusters that were not seen"


def test_all_clusters_differ_by_the_same_amount():
    result = cluster_test([-0.5] * 10, limits=(-1, 1))
    assert result.p == 2 / 1024
    # 0.3085 of all clusters might be at −1, or at 1
    assert result.interval == pytest.approx((-0.5 - 0.3085 * 0.5, -0.5 + 0.3085 * 1.5), abs=1e-4)
    assert "all clusters differ by the same amount" in result.note


def test_without_limits_no_spread_is_no_width_and_said():
    result = cluster_test([0.1] * 7)
    assert result.interval == pytest.approx((0.1, 0.1))
    assert "no width" in result.note


def test_one_cluster_and_none():
    one = cluster_test([0.25], limits=(-1, 1))
    assert (one.clusters, one.difference) == (1, 0.25)
    assert one.p is one.interval is one.smallest_p is None
    assert "one cluster" in one.note
    none = cluster_test([], limits=(-1, 1))
    assert none.clusters == 0
    assert none.difference is none.p is none.interval is None
    assert cluster_interval([0.5]) is None


def test_two_clusters():
    result = cluster_test([-1.0, -0.5], limits=(-1, 1))
    assert result.p == 0.5
    assert result.interval == (-1.0, -0.5)
    assert result.note.startswith("with 2 clusters only")


def test_a_reader_is_told_when_few_clusters_carry_the_interval():
    rare = cluster_test([-1.0, -1.0] + [0.0] * 28, limits=(-1, 1))
    assert rare.note == ("the interval rests on 2 of 30 clusters, and is likely to be too narrow")
    assert cluster_test([-1.0, 0.5] * 3 + [0.0] * 24, limits=(-1, 1)).note is None


# -- hostile input ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "differences",
    [
        [1e-300, 2e-300, -1e-300],
        [5e-324, -5e-324, 5e-324],
        [1e308, 1.7e308, -1e308, 1.7e308],
        [1e308, 1e-308, 0.0],
        [1.0, 1.0, 1.0, 1.0 + 1e-15],
        [0.1] * 3 + [0.30000000000000004 / 3],
        [-0.0, 0.0, 0.0],
        [1] + [0] * 500,
        list(range(-1000, 1001)),
    ],
)
def test_no_number_is_nan(differences):
    result = cluster_test(differences)
    assert all(math.isfinite(number) for number in every_number(result))
    assert 0 < result.p <= 1
    low, high = result.interval
    assert low <= high


def test_tiny_differences_are_tested_as_large_ones():
    large, tiny = (cluster_test(np.array([3.0, 1, -2, 4, 5]) * scale) for scale in (1, 2.0**-1000))
    assert large.p == tiny.p
    assert tiny.interval == tuple(2.0**-1000 * limit for limit in large.interval)


@given(
    st.lists(st.floats(-1e150, 1e150, allow_subnormal=True), min_size=2, max_size=25),
    st.sampled_from([0.05, 1e-9, 0.99]),
)
def test_nothing_is_nan_whatever_the_differences(differences, alpha):
    result = cluster_test(differences, alpha=alpha)
    assert all(math.isfinite(number) for number in every_number(result))
    assert 0 < result.smallest_p <= 1
    assert 0 < result.p <= 1


@pytest.mark.parametrize(
    ("differences", "options", "error", "said"),
    [
        ([0.1, math.nan], {}, ValueError, "differences must be finite, and number 1 is nan"),
        ([math.inf, 0], {}, ValueError, "differences must be finite, and number 0 is inf"),
        ([[0.1, 0.2]], {}, ValueError, "differences must have one dimension, not 2"),
        (["a"], {}, TypeError, "differences must be numbers"),
        ([0.1, 2], {"limits": (-1, 1)}, ValueError, "differences must be within .* number 1 is 2"),
        ([0.1, 0.2], {"limits": (1, -1)}, ValueError, "limits must rise"),
        ([0.1, 0.2], {"alpha": 0}, ValueError, "alpha must be between 0 and 1"),
    ],
)
def test_refused_by_name(differences, options, error, said):
    with pytest.raises(error, match=said):
        cluster_test(differences, **options)


# -- what it is for --------------------------------------------------------------------------------


def repeated(tasks: int, repeats: int, simulations: int):
    """Tasks that pass as often in both versions, some nearly always and some nearly never."""
    random = np.random.default_rng(11)
    for _ in range(simulations):
        rates = random.beta(0.5, 0.5, tasks)[:, None]
        yield random.random((2, tasks, repeats)) < rates


def test_repeats_are_not_counted_as_independent():
    # Two of ten tasks flipped in all their repeats: 40 discordant pairs, one way each.
    baseline = np.ones((10, 20), np.int64)
    candidate = baseline.copy()
    candidate[:2] = 0
    tasks = np.repeat(np.arange(10), 20)
    result = cluster_test(cluster_differences(baseline.ravel(), candidate.ravel(), tasks))
    assert exact_mcnemar(40, 0) < 1e-11
    assert result.p == 0.5


@pytest.mark.slow
def test_ten_tasks_with_twenty_repeats_and_no_effect_reject_about_one_in_twenty():
    # A version that is not better: each task is harder or easier by chance, 0 on average.
    random = np.random.default_rng(7)
    ours = flat = 0
    tasks = np.repeat(np.arange(10), 20)
    for _ in range(500):
        rates = random.uniform(0.2, 0.8, 10)
        moved = np.clip(rates + random.choice([-0.2, 0.2], 10), 0, 1)
        sides = [(random.random((20, 10)) < side).T.ravel().astype(int) for side in (rates, moved)]
        broke = int(np.count_nonzero((sides[0] == 1) & (sides[1] == 0)))
        fixed = int(np.count_nonzero((sides[0] == 0) & (sides[1] == 1)))
        ours += cluster_test(cluster_differences(*sides, tasks), limits=(-1, 1)).p <= 0.05
        flat += exact_mcnemar(broke, fixed) <= 0.05
    assert 0.02 <= ours / 500 <= 0.08
    assert flat / 500 > 0.15


@pytest.mark.slow
def test_one_draw_a_task_repeated_twenty_times_rejects_about_one_in_twenty():
    # The repeats of a task agree entirely (a deterministic agent): 200 pairs that are 10 draws.
    random = np.random.default_rng(4)
    ours = flat = 0
    tasks = np.repeat(np.arange(10), 20)
    for _ in range(500):
        sides = np.repeat(random.integers(0, 2, (2, 10)), 20, axis=1)
        broke = int(np.count_nonzero((sides[0] == 1) & (sides[1] == 0)))
        fixed = int(np.count_nonzero((sides[0] == 0) & (sides[1] == 1)))
        ours += cluster_test(cluster_differences(*sides, tasks), limits=(-1, 1)).p <= 0.05
        flat += exact_mcnemar(broke, fixed) <= 0.05
    assert ours / 500 <= 0.05
    assert flat / 500 > 0.5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tasks", "repeats", "covered"), [(5, 20, 0.91), (10, 20, 0.93), (20, 20, 0.94)]
)
def test_how_often_the_interval_covers(tasks, repeats, covered):
    hits = 0
    for passed in repeated(tasks, repeats, 500):
        differences = passed[1].mean(1) - passed[0].mean(1)
        low, high = cluster_interval(differences, limits=(-1, 1)).interval
        hits += low <= 0 <= high
    assert hits / 500 == pytest.approx(covered, abs=0.03)
