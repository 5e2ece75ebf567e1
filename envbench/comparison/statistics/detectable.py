"""What a comparison of this size could have shown: the smallest detectable difference.

"No difference shown" says little where nothing but a large difference could have been shown. It is
no statement about the data's own p: the power of the test is computed at the share of discordant
pairs that was seen, over everything that n pairs with that share can come to.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from envbench.comparison.statistics.arguments import count, finite, probability

NEGLIGIBLE = 1e-12
"""Probability of the numbers of discordant pairs that are left out at either end."""

ENUMERATED = 1_000
"""Numbers of discordant pairs that are looked at; where there are more, evenly spaced ones."""


def smallest_effect(
    pairs: int, discordant: int, *, alpha: float = 0.05, power: float = 0.8
) -> float | None:
    """The smallest true difference that the exact McNemar test would have shown.

    Each of the n pairs is discordant with the rate that was seen (with none seen: with the
    one-sided 95% upper bound of the rate), and a discordant pair goes one way with the
    probability that makes up the difference. The power at a difference is the chance of p ≤ alpha,
    summed over all numbers of discordant pairs; the least difference at which it is reached is
    given. A difference larger than the rate seen needs a larger rate: there every discordant pair
    goes one way, the most favourable case.

    Args:
        pairs: pairs in which both sides passed or failed.
        discordant: those of them in which only one side passed.
        alpha: the level of the test, divided by the number of checks where there are several.
        power: the chance with which it is to be shown.

    Returns:
        The difference of the pass rates, from 0 to 1; None when so few pairs cannot show anything,
        not even a difference of 1.

    Raises:
        TypeError, ValueError: when an argument is none of these.

    Source: exact unconditional power as in Duffy 1984, "Asymptotic and Exact Power for the McNemar
    Test and its Analogue with R Controls per Case", Biometrics 40.

    Example:
        >>> smallest_effect(5, 2) is None
        True
        >>> round(smallest_effect(100, 20), 3)
        0.128
    """
    pairs, discordant = count("pairs", pairs), count("discordant", discordant)
    if discordant > pairs:
        raise ValueError(f"discordant must be at most pairs: {discordant} of {pairs} cannot be")
    return _smallest(pairs, discordant, alpha, power)


def smallest_cluster_effect(
    differences: Sequence[float] | NDArray[np.float64], *, alpha: float = 0.05, power: float = 0.8
) -> float | None:
    """The smallest true difference that `cluster_test` would have shown, roughly.

    The larger of two answers. By signs: the clusters are so many pairs, of which some are
    discordant, each by the same amount; as many and by as much as gives the sum and the sum of
    squares of the differences seen. For differences of −1, 0 and 1 that is `smallest_effect`. By
    spread: the paired t-test's, at the standard deviation seen.

    Both take it that a difference would be spread over the clusters as the noise is. One that a few
    clusters carry alone needs to be larger: see `docs/decisions/comparison-statistics.md` for the
    power that was measured.

    Args:
        differences: mean difference of each cluster, from −1 to 1.
        alpha: the level of the test, divided by the number of checks where there are several.
        power: the chance with which it is to be shown.

    Returns:
        The mean difference, from 0 to 1; None when so few clusters cannot show anything, and with
        fewer than two.

    Raises:
        TypeError, ValueError: when an argument is none of these.

    Example:
        >>> smallest_cluster_effect([0.25, -0.25, 0, 0.5, -0.5]) is None
        True
        >>> round(smallest_cluster_effect([0.25, -0.25, 0, 0.5, -0.5, 0.25, -0.25, 0]), 3)
        0.377
    """
    given = finite("differences", differences)
    sizes = np.abs(given)
    largest = float(sizes.max(initial=0.0))
    if largest > 1:
        raise ValueError(f"differences must be from -1 to 1, and one is of size {largest}")
    if len(given) < 2:
        return None
    if largest == 0:
        return _smallest(len(given), 0, alpha, power)
    shares = sizes / largest
    total, squares = math.fsum(shares), math.fsum(shares**2)
    by_signs = _smallest(len(given), total * total / squares, alpha, power)
    if by_signs is None:
        return None
    return min(1.0, max(by_signs * squares / total * largest, _by_spread(given, alpha, power)))


def discordance_bound(pairs: int, confidence: float = 0.95) -> float | None:
    """The largest rate of discordance that agrees with none in so many pairs.

    Returns:
        The one-sided Clopper–Pearson bound, 1 − (1 − confidence)^(1/n): about 3/n at 95%. None
        without a pair.

    Raises:
        TypeError, ValueError: when an argument is none.

    Example:
        >>> round(discordance_bound(10), 4)
        0.2589
    """
    pairs, confidence = count("pairs", pairs), probability("confidence", confidence)
    return -math.expm1(math.log1p(-confidence) / pairs) if pairs else None


def _smallest(pairs: int, discordant: float, alpha: float, power: float) -> float | None:
    alpha, power = probability("alpha", alpha), probability("power", power)

    from scipy.optimize import brentq
    from scipy.special import betaincinv

    fewest = _fewest_discordant(alpha)
    if pairs < fewest:
        return None
    rate = discordant / pairs if discordant else discordance_bound(pairs)
    # If all discordant pairs go one way, as many as `fewest` are needed.
    one_way = float(betaincinv(fewest, pairs - fewest + 1, power))
    if rate is None or rate <= one_way:
        return one_way
    discordances, chances = _discordances(pairs, min(rate, 1.0))
    needed = _needed(discordances, alpha)
    can = needed <= discordances
    discordances, chances, needed = discordances[can], chances[can], needed[can]

    def lacking(difference: float) -> float:
        return power - _power(discordances, chances, needed, difference / rate)

    if lacking(0.0) <= 0:  # with an alpha about as large as the power
        return 0.0
    return float(brentq(lacking, 0.0, rate, xtol=1e-12, rtol=1e-9))


def _by_spread(differences: NDArray[np.float64], alpha: float, power: float) -> float:
    """The smallest mean that a t-test of so many differences with this spread would show."""
    from scipy.special import stdtrit

    number = len(differences)
    quantiles = stdtrit(number - 1, np.array([1 - alpha / 2, power]))
    return float(quantiles.sum() * differences.std(ddof=1) / math.sqrt(number))


def _fewest_discordant(alpha: float) -> int:
    """The fewest discordant pairs that can give p ≤ alpha: 2 · ½ⁿ ≤ alpha."""
    fewest = max(1, math.ceil(1 - math.log2(alpha)))
    # the logarithm may be off by one at a power of two
    while fewest > 1 and math.ldexp(1.0, 2 - fewest) <= alpha:
        fewest -= 1
    return fewest


def _discordances(pairs: int, rate: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Numbers of discordant pairs that there may be, and their chances."""
    from scipy.stats import binom

    low = int(binom.ppf(NEGLIGIBLE, pairs, rate))
    high = int(binom.isf(NEGLIGIBLE, pairs, rate))
    # an odd step, because odd and even numbers of pairs do not reach alpha equally well
    step = (high - low) // ENUMERATED // 2 * 2 + 1
    numbers = np.arange(low, high + 1, step, dtype=np.float64)
    chances = binom.pmf(numbers, pairs, rate)
    return numbers, chances / chances.sum()


def _needed(discordances: NDArray[np.float64], alpha: float) -> NDArray[np.float64]:
    """How many of the discordant pairs must go one way for p ≤ alpha; n + 1 if all do not do."""
    from scipy.stats import binom

    needed = binom.isf(alpha / 2, discordances, 0.5) + 1
    # one less does where p is alpha exactly
    exact = 2 * binom.sf(needed - 2, discordances, 0.5) <= alpha
    return np.asarray(needed - exact, np.float64)


def _power(
    discordances: NDArray[np.float64],
    chances: NDArray[np.float64],
    needed: NDArray[np.float64],
    balance: float,
) -> float:
    """The chance of p ≤ alpha, when discordant pairs fall (1 + balance) : (1 − balance)."""
    from scipy.special import betainc

    one_way = (1 + min(balance, 1.0)) / 2
    # the chances of at least so many one way, and of at least so many the other way
    rejected = betainc(needed, discordances - needed + 1, one_way)
    rejected += betainc(needed, discordances - needed + 1, 1 - one_way)
    return float(chances @ rejected)
