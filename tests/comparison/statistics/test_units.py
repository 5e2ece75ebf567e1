"""Units: rows that are compared as one."""

from __future__ import annotations

import numpy as np

from envbench.comparison.statistics.units import means_by, units_of

P, F, U, NONE = 1, 0, -1, -2


def test_rows_of_one_unit_are_counted_together():
    #            unit 3      unit 8   no unit
    baseline = [P, F, NONE, P, U, P]
    candidate = [P, U, F, F, F, P]
    found = units_of(baseline, candidate, [4, 4, 4, 6, 6, 0], [3, 3, 3, 8, 8, -1])
    assert found.clusters.tolist() == [4, 6]
    assert found.baseline.passed.tolist() == [1, 1]
    assert found.baseline.failed.tolist() == [1, 0]
    assert found.baseline.unknown.tolist() == [0, 1]
    assert found.candidate.known.tolist() == [2, 2]
    assert found.candidate.episodes.tolist() == [3, 2]


def test_a_unit_without_an_episode_on_one_side_is_left_out():
    found = units_of([P, NONE, P], [NONE, P, F], None, [0, 1, 2])
    assert found.clusters.tolist() == [2]


def test_without_units_each_row_is_one():
    found = units_of([P, NONE, F], [F, P, F], [5, 6, 5], None)
    assert found.clusters.tolist() == [5, 5]
    assert found.baseline.passed.tolist() == [1, 0]


def test_no_row():
    assert len(units_of([], [], [], []).clusters) == 0


def test_means_by_group_in_order_of_their_numbers():
    found = means_by(np.array([9, 2, 9, 2, 4]), np.array([1.0, 0.0, 0.0, 1.0, -1.0]))
    assert found.tolist() == [0.5, -1.0, 0.5]
