"""pass@k and pass^k: what repeats of one task say of k attempts at it."""

from __future__ import annotations

import math

import numpy as np

from envbench.comparison.statistics.arguments import count

EXACT = 10_000
"""Factors of the quotient up to which it is of whole numbers, rounded once."""


def pass_at_k(n: int, c: int, k: int) -> float:
    """The chance that at least one of k attempts passes, estimated without bias from n repeats.

    Args:
        n: repeats of the task that passed or failed; those that were not measured are left out.
        c: how many of them passed.
        k: attempts.

    Returns:
        The share of the ways to take k of the n repeats that have a pass among them.

    Raises:
        TypeError: when one of them is no integer.
        ValueError: when n < k, c > n, k < 1 or one is negative.

    Source: Chen et al. 2021, "Evaluating Large Language Models Trained on Code", equation 1.

    Example:
        >>> pass_at_k(4, 2, 2)  # of 6 ways to take two, one has no pass
        0.8333333333333334
    """
    n, c, k = _checked(n, c, k)
    fewer, more = sorted((k, c))
    if fewer > EXACT:
        return -math.expm1(_log_share(n, fewer, more))
    ways = math.comb(n, fewer)
    return (ways - math.comb(n - more, fewer)) / ways


def pass_hat_k(n: int, c: int, k: int) -> float:
    """The chance that all of k attempts pass (pass^k), estimated without bias from n repeats.

    Args, raises: as `pass_at_k`.

    Returns:
        The share of the ways to take k of the n repeats in which all passed.

    Source: Yao et al. 2024, "τ-bench: A Benchmark for Tool-Agent-User Interaction in Real-World
    Domains", section 5.

    Example:
        >>> pass_hat_k(4, 2, 2)
        0.16666666666666666
    """
    n, c, k = _checked(n, c, k)
    # C(c, k) / C(n, k) = C(n − k, n − c) / C(n, n − c)
    fewer, more = sorted((k, n - c))
    if fewer > EXACT:
        return math.exp(_log_share(n, fewer, more))
    return math.comb(n - more, fewer) / math.comb(n, fewer)


def _checked(n: int, c: int, k: int) -> tuple[int, int, int]:
    n, c, k = count("n", n), count("c", c), count("k", k)
    if c > n:
        raise ValueError(f"c must be at most n: {c} of {n} repeats cannot have passed")
    if k < 1:
        raise ValueError("k must be at least 1, not 0")
    if k > n:
        raise ValueError(f"k must be at most n: {n} repeats say nothing of {k} attempts")
    return n, c, k


def _log_share(n: int, fewer: int, more: int) -> float:
    """log(C(n − more, fewer) / C(n, fewer)), factor by factor."""
    if fewer + more > n or fewer * more > 800 * n:
        return -math.inf  # 0, or less than a double can hold
    total = 0.0
    for start in range(0, fewer, 2**20):
        left = n - np.arange(start, min(start + 2**20, fewer), dtype=np.float64)
        total += float(np.log1p(-more / left).sum())
    return total
