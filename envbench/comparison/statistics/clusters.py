"""Pairs that are not independent: repeats of a task, cases from one source.

Twenty repeats of ten tasks are ten observations, not two hundred. What is tested is the mean
difference of each cluster: with a sign-flip permutation test, and an interval from a bootstrap over
clusters. A flat McNemar test over such pairs rejects far too often.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from envbench.comparison.statistics.arguments import finite, probability
from envbench.comparison.statistics.paired import smallest_p
from envbench.comparison.statistics.units import means_by, units_of

SEED = 20_240_229
"""Seed of all sampling: the same evidence gives the same figures."""

ENUMERATED = 2**17
"""Distinct ways to flip signs up to which all of them are looked at."""

SAMPLES = 9_999
"""Samples of a permutation test or bootstrap, fewer where there are very many clusters."""

FEWEST_SAMPLES = 1_999
"""Samples that are taken however many clusters there are."""

WORK = 5_000_000
"""Additions that sampling may take, about 40 ms, before fewer samples are taken."""

DRAW = 20
"""What one draw from a binomial distribution costs, in additions."""

SAME = 1e-12
"""Relative distance below which two sums of differences are one and the same."""

FEW = 10
"""Clusters below which a bootstrap over them is known to be too narrow."""


@dataclasses.dataclass(frozen=True, slots=True)
class ClusterResult:
    """What the clusters show.

    Attributes:
        clusters: how many there are.
        difference: the mean of their mean differences, each cluster counted once however many
            pairs it has; None without a cluster.
        p: two-sided, of the hypothesis that a cluster's difference is as likely to have either
            sign; None with fewer than two clusters.
        smallest_p: the smallest p that so many clusters with a difference could have given.
        interval: of the difference; None with fewer than two clusters.
        method: how p and interval were had.
        note: what a reader must know beside them, None when nothing.
    """

    clusters: int
    difference: float | None
    p: float | None
    smallest_p: float | None
    interval: tuple[float, float] | None
    method: str
    note: str | None


def cluster_differences(
    baseline: ArrayLike,
    candidate: ArrayLike,
    clusters: ArrayLike,
    units: ArrayLike | None = None,
) -> NDArray[np.float64]:
    """The mean difference of each cluster, candidate minus baseline, over what is known.

    Args:
        baseline: 1 passed, 0 failed, −1 unknown or error, −2 no episode; one a row.
        candidate: the same of the other side.
        clusters: number of each row's cluster.
        units: number of what a row is compared as: rows of one unit are compared by the means of
            the two sides. −1 leaves a row out. None: each row is a unit.

    Returns:
        One difference a cluster, from −1 to 1, in order of the clusters' numbers. A unit without
        a known outcome on both sides is left out, and so is a cluster without a unit.

    Raises:
        TypeError, ValueError: when an array is none of these, or the lengths differ.

    Example:
        >>> cluster_differences([1, 1, 0, 1], [0, 1, 1, -1], [7, 7, 8, 8])
        array([-0.5,  1. ])
    """
    found = units_of(baseline, candidate, clusters, units)
    ours, theirs = found.baseline, found.candidate
    known = (ours.known > 0) & (theirs.known > 0)
    # as one fraction: equal differences must be equal doubles
    over = ours.known[known] * theirs.known[known]
    gained = theirs.passed[known] * ours.known[known] - ours.passed[known] * theirs.known[known]
    return means_by(found.clusters[known], gained / over)


def cluster_test(
    differences: Sequence[float] | NDArray[np.float64],
    *,
    alpha: float = 0.05,
    limits: tuple[float, float] | None = None,
) -> ClusterResult:
    """Test whether the mean of the clusters' differences is zero, and give its interval.

    The test flips the signs of clusters: all ways where they are few, else a seeded sample, in
    which the observed signs count as one more. It is exact when each cluster's difference is
    symmetric about zero if nothing differs, as it is when both sides are one and the same.

    The interval is a BCa bootstrap over clusters, at levels widened for the number of clusters
    (with few of them the plain one is far too narrow). It still covers less often than it says
    with few clusters or when a rare cluster carries the difference: see
    `docs/decisions/comparison-statistics.md` for what was measured.

    Args:
        differences: mean difference of each cluster; those without one are left out before.
        alpha: 1 minus the confidence of the interval.
        limits: the smallest and largest difference there can be, (−1, 1) for pass rates. When
            all clusters differ by the same amount a bootstrap has nothing to vary; with limits
            the interval is then a bound on what clusters that were not seen could add.

    Raises:
        TypeError, ValueError: when the differences are no finite numbers or outside the limits.

    Source: sign-flip test: Fisher 1935, as `scipy.stats.permutation_test` with
    `permutation_type="samples"`; BCa: Efron 1987; widened levels: Hesterberg 2015, "What Teachers
    Should Know About the Bootstrap", section 4.5.

    Example:
        >>> result = cluster_test([-0.5, -0.25, -0.5, -1, -0.25, -0.5], limits=(-1, 1))
        >>> result.difference, result.p, result.smallest_p
        (-0.5, 0.03125, 0.03125)
    """
    given = finite("differences", differences)
    alpha = probability("alpha", alpha)
    if limits is not None:
        _refuse_outside(given, limits)
    number = len(given)
    if number == 0:
        return ClusterResult(0, None, None, None, None, "", "no cluster was measured")
    scale = _power_of_two(given)
    scaled = given / scale
    difference = math.fsum(scaled) / number * scale
    if number == 1:
        alone = "all pairs are of one cluster: no p and no interval can be had from it"
        return ClusterResult(1, difference, None, None, None, "", alone)
    flips = _sign_flips(scaled)
    note: str | None = None
    if np.ptp(scaled) <= SAME:
        interval, made, note = _without_spread(difference, number, alpha, limits)
    else:
        low, high, made = _bootstrap(scaled, alpha)
        interval = (low * scale, high * scale)
        if number < FEW:
            note = f"with {number} clusters only, the interval is likely to be too narrow"
    return ClusterResult(
        number, difference, flips.p, flips.smallest_p, interval, f"{flips.method}; {made}", note
    )


def _refuse_outside(given: NDArray[np.float64], limits: tuple[float, float]) -> None:
    low, high = finite("limits", limits)
    if not low < high:
        raise ValueError(f"limits must rise, and {limits!r} do not")
    outside = np.flatnonzero((given < low) | (given > high))
    if len(outside):
        at = int(outside[0])
        raise ValueError(f"differences must be within {limits!r}, and number {at} is {given[at]}")


def _power_of_two(given: NDArray[np.float64]) -> float:
    """What to divide by, without rounding, so that squares neither vanish nor overflow."""
    largest = float(np.abs(given).max())
    return math.ldexp(1.0, math.frexp(largest)[1] - 1) if largest else 1.0


# -- the test --------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class _Flips:
    p: float
    smallest_p: float
    method: str


def _sign_flips(differences: NDArray[np.float64]) -> _Flips:
    """How often random signs make the sum at least as far from zero as it is."""
    sizes, counts = np.unique(np.abs(differences[differences != 0]), return_counts=True)
    # a cluster without a difference has no sign, and clusters of one size are interchangeable
    number = int(counts.sum())
    if number == 0:
        return _Flips(1.0, 1.0, "sign-flip test: no cluster differs")
    reached = abs(math.fsum(differences)) - SAME * math.fsum(np.abs(differences))
    smallest = smallest_p(number)
    if math.prod(int(n) + 1 for n in counts) <= ENUMERATED:
        sums, shares = _all_sums(sizes, counts)
        p = float(shares[np.abs(sums) >= reached].sum())
        return _Flips(min(1.0, max(p, smallest)), smallest, "sign-flip test, all ways")
    sums = _sampled_sums(sizes, counts)
    p = (1 + int(np.count_nonzero(np.abs(sums) >= reached))) / (1 + len(sums))
    method = f"sign-flip test, {len(sums):,} samples"
    return _Flips(p, max(smallest, 1 / (1 + len(sums))), method)


def _all_sums(
    sizes: NDArray[np.float64], counts: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Every sum that flipping signs can give, and the share of the ways that give it."""
    sums, shares = np.zeros(1), np.ones(1)
    for size, count in zip(sizes, counts.tolist(), strict=True):
        positive = np.arange(count + 1)
        sums = np.add.outer(sums, size * (2 * positive - count)).ravel()
        shares = np.multiply.outer(shares, _shares_of_ways(count)).ravel()
    return sums, shares


def _shares_of_ways(count: int) -> NDArray[np.float64]:
    """The chance of 0, 1, … heads in so many throws of a coin."""
    if count < 1000:
        ways = 2**count  # whole numbers: a p of 1/4 is 0.25
        return np.array([math.comb(count, heads) / ways for heads in range(count + 1)])

    from scipy.stats import binom

    return np.asarray(binom.pmf(np.arange(count + 1), count, 0.5), np.float64)


def _sampled_sums(sizes: NDArray[np.float64], counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Sums under random signs."""
    generator = np.random.default_rng(SEED)
    number = int(counts.sum())
    if len(sizes) * DRAW < number:
        samples = _samples(len(sizes) * DRAW)
        sums = np.zeros(samples)
        for size, count in zip(sizes, counts, strict=True):
            sums += size * (2 * generator.binomial(count, 0.5, samples) - count)
        return sums
    each = np.repeat(sizes, counts)
    return np.concatenate(
        [
            (2 * generator.integers(0, 2, (rows, number), np.int8) - 1) @ each
            for rows in _batches(_samples(number), number)
        ]
    )


def _samples(width: int) -> int:
    """How many samples to take when each costs so many additions."""
    return min(SAMPLES, max(FEWEST_SAMPLES, WORK // width))


def _batches(samples: int, width: int) -> Iterator[int]:
    """Numbers of samples that fit in a few megabytes, and are all of them together."""
    at_once = max(1, 2**20 // width)
    for done in range(0, samples, at_once):
        yield min(at_once, samples - done)


# -- the interval ----------------------------------------------------------------------------------


def _bootstrap(differences: NDArray[np.float64], alpha: float) -> tuple[float, float, str]:
    """Lower and upper limit of the mean, and by which bootstrap; the differences have a spread."""
    from scipy.special import ndtr, ndtri, stdtrit

    number = len(differences)
    means = np.sort(_resampled_means(differences))
    mean = math.fsum(differences) / number
    below = np.searchsorted(means, mean - SAME, "left") + np.searchsorted(means, mean + SAME)
    bias = ndtri(below / (2 * len(means)))
    centred = differences - mean
    acceleration = float((centred**3).sum() / (6 * (centred**2).sum() ** 1.5))
    # Student's t and the divisor n − 1, which a bootstrap of few clusters knows nothing of
    wide = float(-stdtrit(number - 1, alpha / 2) * math.sqrt(number / (number - 1)))
    reach = bias + np.array([-wide, wide])
    bend = 1 - acceleration * reach
    levels, kind = ndtr(np.array([-wide, wide])), "percentile"
    if np.isfinite(reach).all() and (bend > 0).all():
        levels, kind = ndtr(bias + reach / bend), "BCa"
    low, high = np.quantile(means, levels)
    return float(low), float(high), f"{kind} bootstrap over clusters"


def _resampled_means(differences: NDArray[np.float64]) -> NDArray[np.float64]:
    """Means of as many clusters drawn with replacement."""
    generator = np.random.default_rng(SEED)
    number = len(differences)
    values, counts = np.unique(differences, return_counts=True)
    if len(values) * DRAW < number:
        samples = _samples(len(values) * DRAW)
        drawn = generator.multinomial(number, counts / number, samples)
        means: NDArray[np.float64] = drawn @ values / number
        return means
    return np.concatenate(
        [
            differences[generator.integers(0, number, (rows, number))].mean(1)
            for rows in _batches(_samples(number), number)
        ]
    )


def _without_spread(
    difference: float, number: int, alpha: float, limits: tuple[float, float] | None
) -> tuple[tuple[float, float], str, str]:
    """The interval where all clusters differ by the same amount, how it was had, and a note.

    With confidence 1 − alpha/2 at most a share `unseen` of all clusters differs otherwise: the
    Clopper–Pearson bound for none of `number`.
    """
    said = "no cluster differs" if difference == 0 else "all clusters differ by the same amount"
    if limits is None:
        note = f"{said}: the interval has no width, for want of anything to resample"
        return (difference, difference), "percentile bootstrap over clusters", note
    unseen = -math.expm1(math.log(alpha / 2) / number)
    low, high = limits
    interval = (
        difference - unseen * (difference - low),
        difference + unseen * (high - difference),
    )
    note = f"{said}: the interval allows for clusters that were not seen"
    return interval, "Clopper–Pearson bound on other clusters", note
