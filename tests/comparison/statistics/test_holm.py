"""Holm's adjustment."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from envbench.comparison.statistics import holm


def test_by_hand():
    # sorted: 0.01 · 3 = 0.03; 0.03 · 2 = 0.06; 0.04 · 1, not below the one before
    assert holm([0.01, 0.04, 0.03]) == [0.03, 0.06, 0.06]
    assert holm([0.2]) == [0.2]
    assert holm([0.6, 0.5]) == [1.0, 1.0]
    assert holm([]) == []


@pytest.mark.parametrize("missing", [None, math.nan, np.float64("nan")])
def test_what_was_not_tested_is_not_counted(missing):
    # two tests, not three: statsmodels, given the NaN, says 0.03
    assert holm([0.01, missing, 0.04]) == [0.02, None, 0.04]
    assert holm([missing, missing]) == [None, None]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=50))
def test_as_statsmodels_has_it(p_values):
    assert holm(p_values) == pytest.approx(multipletests(p_values, method="holm")[1].tolist())


@given(st.lists(st.none() | st.floats(0, 1) | st.just(math.nan), max_size=30))
def test_never_below_p_never_nan(p_values):
    for p, adjusted in zip(p_values, holm(p_values), strict=True):
        if p is None or math.isnan(p):
            assert adjusted is None
        else:
            assert p <= adjusted <= 1


@pytest.mark.parametrize("bad", [-0.1, 1.1, math.inf])
def test_a_p_outside_is_refused_by_its_place(bad):
    with pytest.raises(ValueError, match="p number 1 must be from 0 to 1"):
        holm([0.5, bad])


def test_what_is_no_number_is_refused():
    with pytest.raises(TypeError, match="p number 0 must be a number or None"):
        holm(["0.1"])  # type: ignore[list-item]
