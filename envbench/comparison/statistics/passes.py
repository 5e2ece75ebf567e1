"""pass@k and pass^k: what repeats of one task say of k attempts at it."""

from __future__ import annotations

import math

from envbench.comparison.statistics.arguments import count

EXACT = 10_000
"""Repeats up to which the quotient is of whole numbers, rounded once; beyond, to six digits."""


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
    if n > EXACT:
        return -math.expm1(_log_share(n, n - c, k))
    ways = math.comb(n, k)
    return (ways - math.comb(n - c, k)) / ways


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
    if n > EXACT:
        return math.exp(_log_share(n, c, k))
    return math.comb(c, k) / math.comb(n, k)


def _checked(n: int, c: int, k: int) -> tuple[int, int, int]:
    n, c, k = count("n", n), count("c", c), count("k", k)
    if c > n:
        raise ValueError(f"c must be at most n: {c} of {n} repeats cannot have passed")
    if k < 1:
        raise ValueError("k must be at least 1, not 0")
    if k > n:
        raise ValueError(f"k must be at most n: {n} repeats say nothing of {k} attempts")
    return n, c, k


def _log_share(n: int, c: int, k: int) -> float:
    """log(C(c, k) / C(n, k)), by the beta function: the integers would have millions of digits."""
    if k > c:
        return -math.inf
    if c == n:
        return 0.0

    from scipy.special import betaln

    return float(betaln(c + 1, n - c) - betaln(c - k + 1, n - c))
