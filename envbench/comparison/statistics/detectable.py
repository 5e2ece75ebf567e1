"""What a comparison of this size could have shown: the smallest detectable difference.

"No difference shown" says little where nothing but a large difference could have been shown. It is
no statement about the data's own p: the power of the test is computed at the share of discordant
pairs that was seen, over everything that n pairs with that share can come to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from envbench.comparison.statistics.arguments import count, finite, probability
from envbench.comparison.statistics.binomial import at_least, chances

FAR = 8.0
"""Standard deviations (and pairs) from the mean beyond which numbers of discordant pairs are left
out: less than 1e-12 of all."""

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

    from scipy.special import betaincinv

    fewest = _fewest_discordant(alpha)
    if pairs < fewest:
        return None
    rate = discordant / pairs if discordant else discordance_bound(pairs)
    # If all discordant pairs go one way, as many as `fewest` are needed.
    one_way = float(betaincinv(fewest, pairs - fewest + 1, power))
    if rate is None or rate <= one_way:
        return one_way
    discordances, likely = _discordances(pairs, min(rate, 1.0))
    needed = _needed(discordances, alpha)
    can = needed <= discordances
    discordances, likely, needed = discordances[can], likely[can], needed[can]

    def excess(difference: float) -> float:
        return _power(discordances, likely, needed, difference / rate) - power

    if excess(0.0) >= 0:  # with an alpha about as large as the power
        return 0.0
    return _root(excess, rate)


def _root(rising: Callable[[float], float], high: float) -> float:
    """Where a rising function is 0, between 0 and `high`: false position, the Illinois way.

    (`scipy.optimize` takes seconds to import.)
    """
    low, at_low, at_high = 0.0, rising(0.0), rising(high)
    last = 0
    for _ in range(200):
        if high - low <= 1e-9 * high:
            break
        middle = high - at_high * (high - low) / (at_high - at_low)
        at_middle = rising(middle)
        if abs(at_middle) < 1e-12:
            return middle
        if at_middle < 0:
            low, at_low = middle, at_middle
            at_high = at_high / 2 if last < 0 else at_high
            last = -1
        else:
            high, at_high = middle, at_middle
            at_low = at_low / 2 if last > 0 else at_low
            last = 1
    return high


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
    around = FAR * math.sqrt(pairs * rate * (1 - rate)) + FAR
    low = max(0, math.floor(pairs * rate - around))
    high = min(pairs, math.ceil(pairs * rate + around))
    # an odd step, because odd and even numbers of pairs do not reach alpha equally well
    step = (high - low) // ENUMERATED // 2 * 2 + 1
    numbers = np.arange(low, high + 1, step, dtype=np.float64)
    likely = chances(numbers, pairs, rate)
    return numbers, likely / likely.sum()


def _needed(discordances: NDArray[np.float64], alpha: float) -> NDArray[np.float64]:
    """How many of the discordant pairs must go one way for p ≤ alpha; n + 1 if all do not do.

    The normal distribution says about how many; from there, up or down until it is exact.
    """
    from scipy.special import ndtri

    def reaches(needed: NDArray[np.float64]) -> NDArray[np.bool_]:
        tail = at_least(np.clip(needed, 1, np.maximum(discordances, 1)), discordances)
        return np.where(needed > discordances, True, (needed >= 1) & (2 * tail <= alpha))

    needed: NDArray[np.float64] = np.ceil(
        (discordances - ndtri(alpha / 2) * np.sqrt(discordances)) / 2
    )
    needed = np.clip(needed, 1, discordances + 1)
    while not (there := reaches(needed)).all():
        needed = needed + ~there
    while (fewer := (needed > 1) & reaches(needed - 1)).any():
        needed = needed - fewer
    return needed


def _power(
    discordances: NDArray[np.float64],
    likely: NDArray[np.float64],
    needed: NDArray[np.float64],
    balance: float,
) -> float:
    """The chance of p ≤ alpha, when discordant pairs fall (1 + balance) : (1 − balance)."""
    one_way = (1 + min(balance, 1.0)) / 2
    # so many go the one way, or so many the other
    rejected = at_least(needed, discordances, one_way)
    rejected = rejected + at_least(needed, discordances, 1 - one_way)
    return float(likely @ rejected)
