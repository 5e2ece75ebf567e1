"""Holm's adjustment: what it costs to have looked at many checks."""

from __future__ import annotations

import math
from collections.abc import Sequence


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjust p-values so that at most `alpha` of all comparisons reject anything true.

    A check that has no p was not tested: it stays None, and is not among the m tests that the
    others pay for. (Given a NaN, statsmodels counts it.)

    Args:
        p_values: one a check, None or NaN where there is none.

    Returns:
        The adjusted values in the same order, each at least its p and at most 1.

    Raises:
        TypeError, ValueError: naming the place of a p that is no number from 0 to 1.

    Source: Holm 1979, as `statsmodels.stats.multitest.multipletests`.

    Example:
        >>> holm([0.01, None, 0.04, 0.03])
        [0.03, None, 0.06, 0.06]
    """
    tested = [i for i, p in enumerate(p_values) if p is not None and not _is_nan(i, p)]
    given = {i: _checked(i, p_values[i]) for i in tested}
    adjusted: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for rank, i in enumerate(sorted(tested, key=given.__getitem__)):
        # the smallest pays for all tests, the next for one fewer; none ends below a smaller one
        highest = max(highest, min(1.0, given[i] * (len(tested) - rank)))
        adjusted[i] = highest
    return adjusted


def _is_nan(place: int, p: float) -> bool:
    try:
        return math.isnan(p)
    except TypeError:
        raise TypeError(f"p number {place} must be a number or None, not {p!r}") from None


def _checked(place: int, p: float | None) -> float:
    if p is None or not 0 <= p <= 1:
        raise ValueError(f"p number {place} must be from 0 to 1, not {p!r}")
    return float(p)
