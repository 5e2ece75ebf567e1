"""How much sampling is done: seeded, so that the same evidence gives the same figures."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

SEED = 20_240_229

SAMPLES = 9_999
"""Samples of a permutation test or bootstrap, fewer where there are very many clusters."""

FEWEST_SAMPLES = 1_999
"""Samples that are taken however many clusters there are."""

WORK = 5_000_000
"""Additions that sampling may take, some 40 ms, before fewer samples are taken."""

DRAW = 20
"""What one draw from a binomial distribution costs, in additions."""

SAME = 1e-12
"""Relative distance below which two sums of differences are one and the same."""


def seeded() -> np.random.Generator:
    """A generator that gives the same numbers every time."""
    return np.random.default_rng(SEED)


def samples(width: int) -> int:
    """How many samples to take when each costs so many additions."""
    return min(SAMPLES, max(FEWEST_SAMPLES, WORK // width))


def batches(total: int, width: int) -> Iterator[int]:
    """Numbers of samples that fit in a few megabytes, and are all of them together."""
    at_once = max(1, 2**20 // width)
    for done in range(0, total, at_once):
        yield min(at_once, total - done)
