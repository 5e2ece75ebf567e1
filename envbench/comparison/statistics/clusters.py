"""Pairs that are not independent: repeats of a task, cases from one source.

Twenty repeats of ten tasks are ten observations, not two hundred. What is tested is the mean
difference of each cluster: with a sign-flip permutation test, and an interval from a bootstrap over
clusters. A flat McNemar test over such pairs rejects far too often.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from envbench.comparison.statistics.arguments import finite
from envbench.comparison.statistics.intervals import cluster_interval, power_of_two
from envbench.comparison.statistics.sign_flips import flip_signs
from envbench.comparison.statistics.units import means_by, units_of


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

    The test flips the signs of clusters. It is exact when each cluster's difference is symmetric
    about zero if nothing differs, as it is when both sides are one and the same. The interval is
    that of `cluster_interval`; the two need not agree to the last digit on where zero lies.

    Args:
        differences: mean difference of each cluster; those without one are left out before.
        alpha: 1 minus the confidence of the interval.
        limits: the smallest and largest difference there can be, as `cluster_interval` has it.

    Raises:
        TypeError, ValueError: when the differences are no finite numbers or outside the limits.

    Source: Fisher 1935, as `scipy.stats.permutation_test` with `permutation_type="samples"`.

    Example:
        >>> result = cluster_test([-0.5, -0.25, -0.5, -1, -0.25, -0.5], limits=(-1, 1))
        >>> result.difference, result.p, result.smallest_p
        (-0.5, 0.03125, 0.03125)
    """
    given = finite("differences", differences)
    made = cluster_interval(given, alpha=alpha, limits=limits)
    number = len(given)
    if number == 0:
        return ClusterResult(0, None, None, None, None, "", "no cluster was measured")
    scale = power_of_two(given)
    scaled = given / scale
    difference = math.fsum(scaled) / number * scale
    if made is None:
        note = "all pairs are of one cluster: no p and no interval can be had from it"
        return ClusterResult(number, difference, None, None, None, "", note)
    flips = flip_signs(scaled)
    return ClusterResult(
        clusters=number,
        difference=difference,
        p=flips.p,
        smallest_p=flips.smallest_p,
        interval=made.interval,
        method=f"{flips.method}; {made.method}",
        note=made.note,
    )
