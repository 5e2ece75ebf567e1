"""Pairs that are independent of each other: the exact test and the interval of the difference.

A pair is *discordant* when one side passed and the other failed: it `broke` when only the baseline
passed, and was `fixed` when only the candidate did. Pairs that share a task or a source are not
independent: they belong to `clusters`.
"""

from __future__ import annotations

import math
import sys

from envbench.comparison.statistics.arguments import count, probability
from envbench.comparison.statistics.binomial import at_least

SMALLEST_P = sys.float_info.min
"""What is returned where p is smaller than a double can hold: p is never 0."""


def exact_mcnemar(broke: int, fixed: int) -> float:
    """The two-sided exact p of McNemar's test: the binomial test of `broke` against `fixed`.

    With no discordant pair there is nothing against the hypothesis, and p is 1. (statsmodels'
    χ² version returns 0 there.)

    Args:
        broke: pairs in which only the baseline passed.
        fixed: pairs in which only the candidate passed.

    Returns:
        p, above 0 and at most 1.

    Raises:
        TypeError, ValueError: when a count is none.

    Source: McNemar 1947; the exact form as in `statsmodels…mcnemar(exact=True)`.

    Example:
        >>> exact_mcnemar(5, 0)
        0.0625
        >>> exact_mcnemar(0, 0)
        1.0
    """
    broke, fixed = count("broke", broke), count("fixed", fixed)
    discordant = broke + fixed
    if discordant == 0:
        return 1.0
    tail = float(at_least(max(broke, fixed), discordant))
    return min(1.0, max(2 * tail, SMALLEST_P))


def smallest_p(discordant: int) -> float:
    """The smallest p that `exact_mcnemar` can give with so many discordant pairs.

    All of them went one way then. Below 6 pairs it is above 0.05: nothing could be shown.

    Raises:
        TypeError, ValueError: when the count is none.

    Example:
        >>> smallest_p(5), smallest_p(6)
        (0.0625, 0.03125)
    """
    discordant = count("discordant", discordant)
    if discordant == 0:
        return 1.0
    if discordant > 1000:  # 2⁻⁹⁹⁹ and less
        return max(math.ldexp(1.0, 1 - min(discordant, 10_000)), SMALLEST_P)
    return math.ldexp(1.0, 1 - discordant)


def newcombe_interval(
    both: int, broke: int, fixed: int, neither: int, *, alpha: float = 0.05
) -> tuple[float, float] | None:
    """The interval of the difference of two paired pass rates, candidate minus baseline.

    Wilson's intervals of the two rates are put together with the correlation φ of the pairs,
    corrected for continuity where it is positive. Unlike the usual (Wald) interval it never leaves
    −1 to 1 and has a width when no pair is discordant.

    The 95% interval covers the true difference in 91% to 100% of all samples of 10 pairs (96% on
    average over settings), and in 94% to 100% of samples of 30: exact sums over all tables, see
    `docs/decisions/comparison-statistics.md`.

    Args:
        both: pairs in which both sides passed.
        broke: pairs in which only the baseline passed.
        fixed: pairs in which only the candidate passed.
        neither: pairs in which both sides failed.
        alpha: 1 minus the confidence.

    Returns:
        Lower and upper limit, from −1 to 1; None when there is no pair.

    Raises:
        TypeError, ValueError: when a count or `alpha` is none.

    Source: Newcombe 1998, "Improved confidence intervals for the difference between binomial
    proportions based on paired data", Statistics in Medicine 17, method 10.

    Example:
        >>> low, high = newcombe_interval(36, 2, 12, 0)
        >>> print(f"{low:.4f} {high:.4f}")
        0.0569 0.3404
    """
    both, broke = count("both", both), count("broke", broke)
    fixed, neither = count("fixed", fixed), count("neither", neither)
    alpha = probability("alpha", alpha)
    pairs = both + broke + fixed + neither
    if pairs == 0:
        return None
    baseline, candidate = (both + broke) / pairs, (both + fixed) / pairs
    low_b, high_b = wilson_interval(both + broke, pairs, alpha=alpha)
    low_c, high_c = wilson_interval(both + fixed, pairs, alpha=alpha)
    phi = _corrected_phi(both, broke, fixed, neither)
    difference = (fixed - broke) / pairs
    below = _third_side(candidate - low_c, high_b - baseline, phi)
    above = _third_side(high_c - candidate, baseline - low_b, phi)
    return max(-1.0, difference - below), min(1.0, difference + above)


def wilson_interval(passed: int, total: int, *, alpha: float = 0.05) -> tuple[float, float]:
    """The interval of a pass rate, of 1 episode or more.

    Source: Wilson 1927, as `statsmodels…proportion_confint(method="wilson")`.

    Example:
        >>> low, high = wilson_interval(10, 10)
        >>> print(f"{low:.4f} {high:.4f}")
        0.7225 1.0000
    """
    from scipy.special import ndtri

    squared = float(ndtri(alpha / 2)) ** 2
    rate = passed / total
    spread = math.sqrt(squared * (rate * (1 - rate) + squared / (4 * total)) / total)
    centre, whole = rate + squared / (2 * total), 1 + squared / total
    low = 0.0 if passed == 0 else max(0.0, (centre - spread) / whole)
    high = 1.0 if passed == total else min(1.0, (centre + spread) / whole)
    return low, high


def _corrected_phi(both: int, broke: int, fixed: int, neither: int) -> float:
    """The correlation of the pairs, 0 where a margin is empty."""
    margins = (both + broke) * (fixed + neither) * (both + fixed) * (broke + neither)
    if margins == 0:
        return 0.0
    excess: float = both * neither - broke * fixed
    if excess > 0:
        # as Newcombe has it: corrected where positive, and never past zero
        excess = max(excess - (both + broke + fixed + neither) / 2, 0)
    return excess / math.sqrt(margins)


def _third_side(one: float, other: float, cosine: float) -> float:
    """√(one² − 2 · cosine · one · other + other²), never of a negative rounding error."""
    return math.sqrt(max(one * one - 2 * cosine * one * other + other * other, 0.0))
