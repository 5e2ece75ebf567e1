"""Units: what is compared as one, with what is known of each side.

A unit is a pair of episodes, or a case whose repeats carry no seed: nothing says which of them go
with which, so the case is compared by the means of its sides.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import ArrayLike, NDArray

from envbench.comparison.statistics.arguments import (
    FAILED,
    NO_EPISODE,
    PASSED,
    UNKNOWN,
    codes,
    outcomes,
)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class SideCounts:
    """How many episodes of one side passed, failed and were not measured: an entry a unit."""

    passed: NDArray[np.int64]
    failed: NDArray[np.int64]
    unknown: NDArray[np.int64]

    @property
    def known(self) -> NDArray[np.int64]:
        """Episodes that passed or failed."""
        return self.passed + self.failed

    @property
    def episodes(self) -> NDArray[np.int64]:
        """All episodes."""
        return self.known + self.unknown


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Units:
    """The units of a comparison that have an episode on both sides.

    Attributes:
        clusters: number of the cluster of each unit.
        baseline: counts of the baseline's episodes.
        candidate: counts of the candidate's episodes.
    """

    clusters: NDArray[np.int64]
    baseline: SideCounts
    candidate: SideCounts


def units_of(
    baseline: ArrayLike,
    candidate: ArrayLike,
    clusters: ArrayLike | None,
    units: ArrayLike | None,
) -> Units:
    """Count by unit.

    Args:
        baseline: 1 passed, 0 failed, −1 unknown or error, −2 no episode; one a row.
        candidate: the same of the other side.
        clusters: number of each row's cluster; None: each unit is a cluster.
        units: number of each row's unit, −1 to leave the row out; None: each row is a unit.

    Raises:
        TypeError, ValueError: when an array is none of these, the lengths differ, or a unit has
            rows of two clusters.
    """
    baseline = outcomes("baseline", baseline)
    length = len(baseline)
    candidate = outcomes("candidate", candidate, length)
    if units is None:
        rows = np.flatnonzero((baseline != NO_EPISODE) & (candidate != NO_EPISODE))
        unit_of = np.arange(len(rows))
    else:
        numbers = codes("units", units, length)
        rows = np.flatnonzero(numbers >= 0)
        unit_of = np.unique(numbers[rows], return_inverse=True)[1]
    total = int(unit_of.max(initial=-1)) + 1
    cluster_of = np.arange(total)
    if clusters is not None:
        cluster_of = _clusters(codes("clusters", clusters, length), rows, unit_of, total)
    ours = _counts(baseline[rows], unit_of, total)
    theirs = _counts(candidate[rows], unit_of, total)
    return _select(cluster_of, ours, theirs, (ours.episodes > 0) & (theirs.episodes > 0))


def means_by(groups: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean of the values of each group, in order of the groups' numbers."""
    number = np.unique(groups, return_inverse=True)[1]
    means: NDArray[np.float64] = np.bincount(number, weights=values) / np.bincount(number)
    return means


def _clusters(
    given: NDArray[np.int64], rows: NDArray[np.int64], unit_of: NDArray[np.int64], total: int
) -> NDArray[np.int64]:
    cluster_of = np.zeros(total, np.int64)
    cluster_of[unit_of] = given[rows]
    split = np.flatnonzero(cluster_of[unit_of] != given[rows])
    if len(split):
        row = int(rows[split[0]])
        raise ValueError(f"clusters must agree within a unit, and that of row {row} does not")
    return cluster_of


def _counts(side: NDArray[np.int64], unit_of: NDArray[np.int64], total: int) -> SideCounts:
    passed, failed, unknown = (
        np.bincount(unit_of[side == outcome], minlength=total)
        for outcome in (PASSED, FAILED, UNKNOWN)
    )
    return SideCounts(passed, failed, unknown)


def _select(
    clusters: NDArray[np.int64], ours: SideCounts, theirs: SideCounts, chosen: NDArray[np.bool_]
) -> Units:
    def of(side: SideCounts) -> SideCounts:
        return SideCounts(side.passed[chosen], side.failed[chosen], side.unknown[chosen])

    return Units(clusters[chosen], of(ours), of(theirs))
