"""pass@k and pass^k."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envbench.comparison.statistics import pass_at_k, pass_hat_k


def ways(n: int, c: int, k: int, test) -> float:
    """The share of all ways to take k of n repeats, c of which passed, for which it holds."""
    repeats = [True] * c + [False] * (n - c)
    taken = [test(each) for each in itertools.combinations(repeats, k)]
    return float(Fraction(sum(taken), len(taken)))


def test_by_hand():
    assert pass_at_k(10, 3, 1) == 0.3
    assert pass_hat_k(10, 3, 1) == 0.3
    assert pass_at_k(5, 2, 2) == 0.7  # of 10 ways to take two, 3 have no pass
    assert pass_hat_k(5, 2, 2) == 0.1  # 1 of 10
    assert pass_at_k(4, 0, 4) == pass_hat_k(4, 0, 1) == 0.0
    assert pass_at_k(4, 1, 4) == pass_hat_k(4, 4, 4) == 1.0
    assert pass_hat_k(4, 3, 4) == 0.0


@pytest.mark.parametrize("n", range(1, 8))
def test_all_ways_counted(n):
    for c, k in itertools.product(range(n + 1), range(1, n + 1)):
        assert pass_at_k(n, c, k) == pytest.approx(ways(n, c, k, any), abs=1e-15)
        assert pass_hat_k(n, c, k) == pytest.approx(ways(n, c, k, all), abs=1e-15)


@given(st.integers(1, 10**12), st.floats(0, 1), st.floats(0, 1))
def test_a_probability_and_in_order(n, passed, taken):
    c, k = int(n * passed), max(1, int(n * taken))
    every, some = pass_hat_k(n, c, k), pass_at_k(n, c, k)
    assert 0 <= every <= c / n + 1e-6
    assert c / n - 1e-6 <= some <= 1


@pytest.mark.parametrize(("n", "c", "k"), [(45_000, 24_990, 20_000), (10**6, 980_000, 10_001)])
def test_many_repeats_are_close_to_whole_numbers(n, c, k):
    exact = Fraction(math.comb(c, k), math.comb(n, k))
    assert pass_hat_k(n, c, k) == pytest.approx(float(exact), rel=1e-9)
    assert pass_at_k(n, n - c, k) == pytest.approx(float(1 - exact), rel=1e-9)


def test_thousands_of_millions_of_repeats():
    # five failures among 10⁹, half of them taken: (1/2)⁵
    assert pass_hat_k(10**9, 10**9 - 5, 5 * 10**8) == pytest.approx(1 / 32, rel=1e-6)
    assert pass_at_k(10**9, 5, 5 * 10**8) == pytest.approx(31 / 32, rel=1e-6)
    # 20,000 taken of 10⁹, of which 20,000 failed: exp(−0.4), about
    assert pass_hat_k(10**9, 10**9 - 20_000, 20_000) == pytest.approx(math.exp(-0.4), rel=1e-4)
    assert pass_hat_k(10**9, 5 * 10**8, 10**6) == 0.0
    assert pass_at_k(10**9, 5 * 10**8, 10**6) == 1.0


@pytest.mark.parametrize("function", [pass_at_k, pass_hat_k])
@pytest.mark.parametrize(
    ("n", "c", "k", "said"),
    [
        (3, 1, 4, "k must be at most n: 3 repeats say nothing of 4 attempts"),
        (3, 4, 1, "c must be at most n: 4 of 3 repeats cannot have passed"),
        (3, 1, 0, "k must be at least 1"),
        (0, 0, 1, "k must be at most n"),
        (-1, 0, 1, "n must be at least 0, not -1"),
        (3, -1, 1, "c must be at least 0, not -1"),
        (3, 1, -1, "k must be at least 0, not -1"),
    ],
)
def test_refused_by_name(function, n, c, k, said):
    with pytest.raises(ValueError, match=said):
        function(n, c, k)


@pytest.mark.parametrize("function", [pass_at_k, pass_hat_k])
@pytest.mark.parametrize("bad", [2.0, True, None, "2", math.nan])
def test_what_is_no_integer_is_refused(function, bad):
    for arguments, name in (((bad, 1, 1), "n"), ((3, bad, 1), "c"), ((3, 1, bad), "k")):
        with pytest.raises(TypeError, match=f"{name} must be an integer"):
            function(*arguments)


def test_integers_of_numpy_are_integers():
    assert pass_at_k(np.int64(5), np.uint8(2), np.int16(2)) == 0.7
