"""What the outcomes that were not measured could make of the difference."""

from __future__ import annotations

from numpy.typing import ArrayLike

from envbench.comparison.statistics.units import means_by, units_of


def bounds(
    baseline: ArrayLike,
    candidate: ArrayLike,
    clusters: ArrayLike | None = None,
    units: ArrayLike | None = None,
) -> tuple[float, float] | None:
    """The difference if everything unknown went against the candidate, and if it went for it.

    Nothing is assumed of an unknown outcome or an evaluator error but that it would have been a
    pass or a failure. A pair known on one side counts with that side, so the difference over the
    pairs known on both sides may lie outside the bounds.

    Args:
        baseline: 1 passed, 0 failed, −1 unknown or error, −2 no episode; one a row.
        candidate: the same of the other side.
        clusters: number of each row's cluster: the mean over clusters of their means is bounded,
            as `cluster_test` has it. None: each unit is a cluster.
        units: number of what a row is compared as: rows of one unit are compared by the means of
            the two sides. −1 leaves a row out. None: each row is a unit.

    Returns:
        Lower and upper bound of candidate minus baseline; None where no unit has an episode on
        both sides.

    Raises:
        TypeError, ValueError: when an array is none of these, or the lengths differ.

    Source: worst-case bounds, as in Manski 1989, "Anatomy of the Selection Problem".

    Example:
        >>> bounds([1, 1, 0, -1], [1, 0, -1, -1])
        (-0.5, 0.25)
    """
    found = units_of(baseline, candidate, clusters, units)
    if not len(found.clusters):
        return None
    ours, theirs = found.baseline, found.candidate
    lower = theirs.passed / theirs.episodes - (ours.passed + ours.unknown) / ours.episodes
    upper = (theirs.passed + theirs.unknown) / theirs.episodes - ours.passed / ours.episodes
    return (
        float(means_by(found.clusters, lower).mean()),
        float(means_by(found.clusters, upper).mean()),
    )
