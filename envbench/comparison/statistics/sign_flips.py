"""The sign-flip test: whether a mean is as far from zero as chance alone would put it.

If nothing differs, each cluster's difference is as likely to have either sign. So the sum that was
seen is set beside the sums that other signs would give: all of them where they are few, else a
sample, in which the signs that were seen count as one more (and p is never 0).
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from numpy.typing import NDArray

from envbench.comparison.statistics.binomial import chances
from envbench.comparison.statistics.paired import smallest_p
from envbench.comparison.statistics.sampling import DRAW, SAME, batches, samples, seeded

ENUMERATED = 2**17
"""Distinct ways to flip signs up to which all of them are looked at."""


@dataclasses.dataclass(frozen=True, slots=True)
class SignFlips:
    """Two-sided p, the smallest it could have been, and how it was had."""

    p: float
    smallest_p: float
    method: str


def flip_signs(differences: NDArray[np.float64]) -> SignFlips:
    """How often random signs make the sum at least as far from zero as it is.

    Args:
        differences: one a cluster, of sizes whose sum neither overflows nor vanishes.
    """
    sizes, counts = np.unique(np.abs(differences[differences != 0]), return_counts=True)
    # a cluster without a difference has no sign, and clusters of one size are interchangeable
    number = int(counts.sum())
    if number == 0:
        return SignFlips(1.0, 1.0, "sign-flip test: no cluster differs")
    reached = abs(math.fsum(differences)) - SAME * math.fsum(np.abs(differences))
    smallest = smallest_p(number)
    if math.prod(int(n) + 1 for n in counts) <= ENUMERATED:
        sums, shares = _all_sums(sizes, counts)
        p = float(shares[np.abs(sums) >= reached].sum())
        return SignFlips(min(1.0, max(p, smallest)), smallest, "sign-flip test, all ways")
    sums = _sampled_sums(sizes, counts)
    p = (1 + int(np.count_nonzero(np.abs(sums) >= reached))) / (1 + len(sums))
    method = f"sign-flip test, {len(sums):,} samples"
    return SignFlips(p, max(smallest, 1 / (1 + len(sums))), method)


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
    return chances(np.arange(count + 1.0), count, 0.5)


def _sampled_sums(sizes: NDArray[np.float64], counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Sums under random signs."""
    generator = seeded()
    number = int(counts.sum())
    if len(sizes) * DRAW < number:
        sums = np.zeros(samples(len(sizes) * DRAW))
        for size, count in zip(sizes, counts, strict=True):
            sums += size * (2 * generator.binomial(count, 0.5, len(sums)) - count)
        return sums
    each = np.repeat(sizes, counts)
    return np.concatenate(
        [
            (2 * generator.integers(0, 2, (rows, number), np.int8) - 1) @ each
            for rows in batches(samples(number), number)
        ]
    )
