"""What a comparison of a size could have shown."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envbench.comparison.statistics import (
    cluster_test,
    discordance_bound,
    exact_mcnemar,
    smallest_cluster_effect,
    smallest_effect,
)


@lru_cache
def rejects(broke: int, fixed: int, alpha: float) -> bool:
    """Whether the exact test, in whole numbers, gives p ≤ alpha."""
    n = broke + fixed
    tail = sum(math.comb(n, k) for k in range(min(broke, fixed) + 1))
    return min(Fraction(1), Fraction(2 * tail, 2**n)) <= Fraction(alpha)


def power(pairs: int, rate: float, difference: float, alpha: float) -> float:
    """The chance that n pairs give p ≤ alpha, by all tables, from the definition."""
    fixed_rate, broke_rate = (rate + difference) / 2, max((rate - difference) / 2, 0.0)
    total = 0.0
    for fixed in range(pairs + 1):
        for broke in range(pairs + 1 - fixed):
            if rejects(broke, fixed, alpha):
                rest = pairs - fixed - broke
                ways = math.factorial(pairs) // (
                    math.factorial(fixed) * math.factorial(broke) * math.factorial(rest)
                )
                total += ways * fixed_rate**fixed * broke_rate**broke * (1 - rate) ** rest
    return total


def test_by_hand():
    # Six pairs show something when all go one way: δ⁶ = 0.8.
    assert smallest_effect(6, 0) == pytest.approx(0.8 ** (1 / 6))
    # With five the smallest p is 0.0625.
    assert smallest_effect(5, 5) is None
    assert smallest_effect(0, 0) is None
    assert smallest_effect(5, 0, alpha=0.0625) == pytest.approx(0.8 ** (1 / 5))
    # all five discordant, of which a share θ goes one way: θ⁵ = 0.8, and δ = 2θ − 1
    assert smallest_effect(5, 5, alpha=0.0625) == pytest.approx(2 * 0.8 ** (1 / 5) - 1, abs=1e-6)
    # at 0.05 / 20 nine pairs are too few (2 / 2⁹ = 0.0039), ten are not (0.00195)
    assert smallest_effect(9, 9, alpha=0.0025) is None
    assert smallest_effect(10, 0, alpha=0.0025) == pytest.approx(0.8 ** (1 / 10))


@pytest.mark.parametrize(
    ("pairs", "discordant", "alpha"),
    [(8, 8, 0.05), (12, 10, 0.05), (20, 15, 0.05), (30, 15, 0.05), (40, 18, 0.05), (30, 24, 0.01)],
)
def test_the_power_there_is_eighty_percent(pairs, discordant, alpha):
    found = smallest_effect(pairs, discordant, alpha=alpha)
    rate = max(discordant / pairs, found)
    assert power(pairs, rate, found, alpha) == pytest.approx(0.8, abs=1e-6)
    assert power(pairs, rate, found * 0.99, alpha) < 0.8


@pytest.mark.parametrize(("pairs", "discordant"), [(10, 0), (20, 0), (20, 2), (30, 5)])
def test_above_the_rate_seen_all_discordant_pairs_go_one_way(pairs, discordant):
    found = smallest_effect(pairs, discordant)
    assert found > discordant / pairs
    # no rate below the difference is possible, and at the rate seen nothing could be shown
    assert power(pairs, found, found, 0.05) == pytest.approx(0.8, abs=1e-9)
    seen = discordant / pairs if discordant else discordance_bound(pairs)
    assert power(pairs, seen, seen, 0.05) < 0.8


def test_as_published():
    # Ekstrøm's R package MESS, tested against SAS: 144 pairs with rates 0.25 and 0.45 have a power
    # of 0.80; so 0.7 of the pairs discordant, and a difference of 0.2
    assert smallest_effect(1440, 1008, power=0.9999) > 0.1
    assert smallest_effect(144, 101) == pytest.approx(0.2, abs=0.005)


def test_more_pairs_show_less_and_a_harder_level_more():
    sizes = [smallest_effect(n, n // 5) for n in (10, 50, 100, 1_000, 10_000, 10**6, 10**9)]
    assert sizes == sorted(sizes, reverse=True)
    levels = [smallest_effect(200, 40, alpha=0.05 / m) for m in (1, 5, 20, 100)]
    assert levels == sorted(levels)
    powers = [smallest_effect(200, 40, power=p) for p in (0.5, 0.8, 0.95)]
    assert powers == sorted(powers)


def test_many_pairs_as_the_normal_distribution_has_it():
    # (z₀.₉₇₅ √ψ + z₀.₈ √(ψ − δ²)) / √n, Connor 1987
    n, rate = 10**8, 0.3
    found = smallest_effect(n, int(n * rate))
    expected = (1.959964 * math.sqrt(rate) + 0.841621 * math.sqrt(rate - found**2)) / math.sqrt(n)
    assert found == pytest.approx(expected, rel=1e-3)


def test_looking_at_every_third_number_of_pairs_changes_nothing(monkeypatch):
    module = __import__(smallest_effect.__module__, fromlist=["ENUMERATED"])
    every = smallest_effect(20_000, 9_000)
    monkeypatch.setattr(module, "ENUMERATED", 300)
    assert smallest_effect(20_000, 9_000) == pytest.approx(every, rel=1e-4)


@given(st.integers(0, 10**7), st.floats(0, 1), st.sampled_from([0.05, 0.0025, 1e-12, 0.5, 0.9]))
def test_never_nan(pairs, share, alpha):
    found = smallest_effect(pairs, int(pairs * share), alpha=alpha)
    assert found is None or 0 <= found <= 1


@pytest.mark.parametrize("alpha", [0.05, 0.0625, 0.03125, 1e-300, 0.999999])
def test_none_only_when_the_smallest_p_is_above_alpha(alpha):
    for pairs in (1, 4, 5, 6, 7, 990, 1_100):
        can = exact_mcnemar(pairs, 0) <= alpha
        assert (smallest_effect(pairs, pairs, alpha=alpha) is not None) == can


def test_refused_by_name():
    with pytest.raises(ValueError, match="discordant must be at most pairs: 4 of 3"):
        smallest_effect(3, 4)
    with pytest.raises(TypeError, match="pairs must be an integer"):
        smallest_effect(3.0, 1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="alpha must be between 0 and 1"):
        smallest_effect(3, 1, alpha=0)
    with pytest.raises(ValueError, match="power must be between 0 and 1"):
        smallest_effect(30, 1, power=1)


@pytest.mark.parametrize("pairs", [1, 2, 10, 10_000, 10**12])
def test_the_bound_when_none_was_discordant(pairs):
    bound = discordance_bound(pairs)
    # at this rate, none in n has a chance of 5%
    assert math.exp(pairs * math.log1p(-bound)) == pytest.approx(0.05)
    assert discordance_bound(0) is None


# -- clusters --------------------------------------------------------------------------------------


def test_clusters_of_one_pair_are_pairs():
    differences = [1.0] * 30 + [-1.0] * 30 + [0.0] * 40
    assert smallest_cluster_effect(differences) == pytest.approx(smallest_effect(100, 60), rel=0.03)


def test_few_clusters_can_show_nothing():
    assert smallest_cluster_effect([0.5, -0.5, 0.1, 0.2, 0.3]) is None
    assert smallest_cluster_effect([0.5]) is None
    assert smallest_cluster_effect([]) is None


def test_no_cluster_differs():
    assert smallest_cluster_effect([0.0] * 10) == smallest_effect(10, 0)


def test_half_the_differences_are_half_as_large_an_effect():
    differences = np.array([1, -1, 0.5, -0.5, 0, 0.25, -0.25, 1, -1, 0.5])
    whole, half = smallest_cluster_effect(differences), smallest_cluster_effect(differences / 2)
    assert half == pytest.approx(whole / 2)


def test_by_spread():
    # Ten differences of standard deviation 1/2: (t₀.₉₇₅ + t₀.₈ with 9 degrees of freedom) · ½ / √10
    differences = np.array([-1, 1, -1, 1, -1, 1, -1, 1, 0, 0]) * 0.5 / math.sqrt(8 / 9)
    assert smallest_cluster_effect(differences) >= (2.26216 + 0.88340) * 0.5 / math.sqrt(10) - 1e-5


@given(st.lists(st.floats(-1, 1), max_size=40), st.sampled_from([0.05, 0.0025, 0.5]))
def test_clusters_never_give_nan(differences, alpha):
    found = smallest_cluster_effect(differences, alpha=alpha)
    assert found is None or 0 <= found <= 1


def test_differences_that_are_no_shares_are_refused():
    with pytest.raises(ValueError, match="differences must be from -1 to 1, and one is of size 3"):
        smallest_cluster_effect([0.1, 3.0])
    with pytest.raises(ValueError, match="must be finite"):
        smallest_cluster_effect([0.1, math.nan])


# -- by simulation ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("pairs", "discordant"), [(25, 12), (100, 20), (400, 0), (2_000, 100)])
def test_simulated_comparisons_show_it_eight_times_in_ten(pairs, discordant):
    found = smallest_effect(pairs, discordant)
    rate = max(discordant / pairs, found)
    cells = [(rate + found) / 2, (rate - found) / 2, 1 - rate]
    drawn = np.random.default_rng(6).multinomial(pairs, cells, 4_000)
    shown = np.mean([exact_mcnemar(int(b), int(f)) <= 0.05 for f, b, _ in drawn])
    assert shown == pytest.approx(0.8, abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(("tasks", "repeats"), [(10, 20), (20, 20), (50, 5)])
def test_simulated_clusters_show_it_about_seven_times_in_ten(tasks, repeats):
    # every task is harder by the same amount: the case that the figure is for
    random = np.random.default_rng(9)

    def differences(harder: float) -> np.ndarray:
        rates = random.uniform(0.4, 0.9, tasks)
        sides = [random.binomial(repeats, side) / repeats for side in (rates, rates - harder)]
        return sides[1] - sides[0]

    found = float(np.median([smallest_cluster_effect(differences(0.0)) for _ in range(200)]))
    shown = [cluster_test(differences(found), limits=(-1, 1)).p <= 0.05 for _ in range(400)]
    assert 0.65 <= np.mean(shown) <= 0.87
