"""Bounds: what the outcomes that were not measured could make of the difference."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envbench.comparison.statistics import bounds

P, F, U, NONE = 1, 0, -1, -2


def every_difference(baseline, candidate, clusters):
    """The mean of cluster means for each way to fill in what is unknown."""
    places = [(s, i) for s in (0, 1) for i, o in enumerate((baseline, candidate)[s]) if o == U]
    for filled in itertools.product((F, P), repeat=len(places)):
        sides = [list(baseline), list(candidate)]
        for (side, place), outcome in zip(places, filled, strict=True):
            sides[side][place] = outcome
        by_cluster: dict[int, list[int]] = {}
        for cluster, ours, theirs in zip(clusters, *sides, strict=True):
            by_cluster.setdefault(cluster, []).append(theirs - ours)
        means = [Fraction(sum(each), len(each)) for each in by_cluster.values()]
        yield Fraction(sum(means), len(means))


def test_ten_cases_of_which_three_are_unknown():
    # 6 passed, 1 failed, 1 unknown, 2 errors, against a baseline that passed all: 6/10 to 9/10
    candidate = [P] * 6 + [F] + [U] * 3
    assert bounds([P] * 10, candidate) == (-0.4, pytest.approx(-0.1))
    # both sides: the pairs' unknown may go either way
    assert bounds(candidate, candidate) == (pytest.approx(-0.3), pytest.approx(0.3))


def test_a_pair_known_on_one_side_counts_with_that_side():
    # complete: 1 pair, broken. With the rest the mean is from −1/4 to (−1 + 3) / 4.
    assert bounds([P, F, F, F], [F, U, U, U]) == (-0.25, 0.5)


def test_everything_known_or_nothing():
    assert bounds([P, P, F, F], [P, F, F, F]) == (-0.25, -0.25)
    assert bounds([U, U], [U, U]) == (-1.0, 1.0)
    assert bounds([], []) is None
    assert bounds([P, NONE], [NONE, P]) is None


def test_a_row_without_an_episode_is_left_out():
    assert bounds([P, P, NONE], [F, NONE, P]) == (-1.0, -1.0)


def test_clusters_count_once():
    # cluster 5: three pairs broken; cluster 9: one fixed
    assert bounds([P, P, P, F], [F, F, F, P], [5, 5, 5, 9]) == (0.0, 0.0)
    assert bounds([P, P, P, F], [F, F, F, P]) == (-0.5, -0.5)


def test_units_are_compared_by_the_means_of_their_sides():
    # one case: baseline 1 of 2, candidate 2 of 3 and one unknown of four
    baseline = [P, F, NONE, NONE]
    candidate = [P, P, F, U]
    units = [7, 7, 7, 7]
    assert bounds(baseline, candidate, [0] * 4, units) == (0.0, 0.25)
    # a row of no unit is in no figure
    assert bounds([*baseline, P], [*candidate, F], [0] * 5, [*units, -1]) == (0.0, 0.25)


@given(st.lists(st.tuples(*[st.sampled_from([P, F, U])] * 2, st.integers(0, 2)), max_size=6))
def test_as_every_way_to_fill_in_what_is_unknown(rows):
    baseline, candidate, clusters = (
        (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [])
    )
    found = bounds(baseline, candidate, clusters)
    if not rows:
        assert found is None
        return
    differences = list(every_difference(baseline, candidate, clusters))
    assert found == pytest.approx((float(min(differences)), float(max(differences))), abs=1e-12)


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        (([1, 2], [0, 0]), ValueError, "baseline must hold .* number 1 is 2"),
        (([1, 1], [0, -3]), ValueError, "candidate must hold .* number 1 is -3"),
        (([1.0, 0.0], [0, 0]), TypeError, "baseline must be an array of integers"),
        (([True, False], [0, 0]), TypeError, "baseline must be an array of integers"),
        (([1, 0], [0]), ValueError, "candidate must have 2 entries"),
        (([[1, 0]], [[0, 0]]), ValueError, "baseline must have one dimension"),
        (([1, 0], [0, 0], [1]), ValueError, "clusters must have 2 entries"),
        (([1, 0], [0, 0], [1, 1], [0.5, 1]), TypeError, "units must be an array of integers"),
        (([1, 0], [0, 0], [1, 2], [0, 0]), ValueError, "clusters must agree within a unit"),
    ],
)
def test_refused_by_name(arguments, error, said):
    with pytest.raises(error, match=said):
        bounds(*arguments)


def test_small_integers_of_numpy_do_not_overflow():
    ones = np.ones(300, np.int8)
    assert bounds(ones, ones * 0, np.zeros(300, np.uint8)) == (-1.0, -1.0)
