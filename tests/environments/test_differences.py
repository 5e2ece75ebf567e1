from __future__ import annotations

import datetime
import decimal
import doctest
import itertools
import math
import uuid
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envbench.environments import differences as module
from envbench.environments.differences import Rules, differences
from envbench.evidence.tagged import ABSENT, Cut, Missing, Named, decode_text, encode

VALUES: list[Any] = [
    None, True, False, 0, 1, 2**64, 0.0, -0.0, 1.0, math.nan, math.inf, "", "1", "a", b"1",
    [], [1], (1,), (), {}, {"1": 1}, {1: 1}, {1}, frozenset({1}), np.int64(1), np.int32(1),
    np.float32(1), np.bool_(True), np.array([1]), np.array([1.0]), np.array([[1]]), np.array(1),
    np.array(["1"]), np.array([None, "x"], dtype=object), 1 + 0j, decimal.Decimal("1.0"),
    decimal.Decimal("1"), datetime.date(2026, 1, 1), datetime.datetime(2026, 1, 1),
    uuid.UUID(int=1), Named("x.Y", 1), Named("x.Y", 2), Named("x.Z", 1), Named("x.Y", {"a": 1}),
    ABSENT,
]  # fmt: skip


def paths(expected: Any, actual: Any, **rules: Any) -> list[str]:
    found = differences(expected, actual, (), Rules(**rules))
    return ["/" + "/".join(each.path) for each in found]


def test_the_examples_in_the_documentation_run() -> None:
    assert doctest.testmod(module).failed == 0


def test_every_value_is_equal_to_itself_and_to_no_other() -> None:
    pairs = itertools.product(enumerate(VALUES), repeat=2)
    for (i, one), (j, other) in pairs:
        for again in (other, decode_text(encode(other))):
            assert (paths([one], [again]) == []) == (i == j), (one, other)


def test_places_inside_values() -> None:
    expected = {"a": [1, {"b": 2}], "c/d": 1, 3: "x", "gone": None, "t": (1, Named("x.Y", [1]))}
    actual = {"a": [1, {"b": 3}, 4], "c/d": 2, 3: "y", "new": None, "t": (1, Named("x.Y", [2]))}
    assert paths(expected, actual) == [
        "/a/1/b",
        "/a/2",
        "/c~1d",
        "/3",
        "/gone",
        "/t/1/0",
        "/new",
    ]


def test_named_attributes_are_compared() -> None:
    assert paths(Named("x.Y", 1, None, {"a": 1}), Named("x.Y", 1, None, {"a": 2})) == ["/a"]
    assert paths(Named("x.Y", 1, None, None), Named("x.Y", 1, None, {"a": 2})) == ["/a"]


def test_arrays_by_element_and_as_a_whole() -> None:
    array = np.arange(100.0).reshape(10, 10)
    one = array.copy()
    one[3, 4] = -1
    assert paths(array, one) == ["/3/4"]
    ten = array.copy()
    ten[0] = -1
    assert paths(array, ten) == [f"/0/{i}" for i in range(10)]
    assert paths(array, -array - 1) == ["/"]
    assert paths(array, array.astype(np.float32)) == ["/"]
    assert paths(array, array.ravel()) == ["/"]
    nan = np.array([math.nan, 1.0, -0.0])
    assert paths(nan, nan.copy()) == []
    assert paths(nan, np.array([math.nan, 1.0, 0.0])) == ["/2"]
    assert paths(nan, np.array([0.0, 1.0, -0.0])) == ["/0"]
    complexes = np.array([1j, complex(math.nan, 0)])
    assert paths(complexes, complexes.copy()) == []
    assert paths(np.array(5), np.array(6)) == ["/"]
    assert paths(np.zeros((0, 3)), np.zeros((0, 3))) == []
    records = np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")])
    assert paths(records, records.copy()) == []


@pytest.mark.parametrize("tolerance", [0.5, {"/**": 0.5}, {"/a": 0.5, "/b/*": 0.5}, {"": 0.5}])
def test_tolerances(tolerance: Any) -> None:
    expected = {"a": 1.0, "b": np.array([1.0, 2.0])}
    assert paths(expected, {"a": 1.5, "b": np.array([1.5, 2.0])}, tolerance=tolerance) == []
    assert paths(expected, {"a": 1.6, "b": np.array([1.6, 2.0])}, tolerance=tolerance) == [
        "/a",
        "/b/0",
    ]
    assert paths({"a": 1}, {"a": 1.5}, tolerance=tolerance) == []
    assert paths({"a": math.inf}, {"a": math.inf}, tolerance=tolerance) == []
    assert paths({"a": math.inf}, {"a": 1.0}, tolerance=tolerance) == ["/a"]
    assert paths({"a": math.nan}, {"a": math.nan}, tolerance=tolerance) == []
    assert paths({"a": math.nan}, {"a": 1.0}, tolerance=tolerance) == ["/a"]
    assert paths({"a": True}, {"a": 1}, tolerance=tolerance) == ["/a"]
    assert paths({"a": "1"}, {"a": "1.2"}, tolerance=tolerance) == ["/a"]
    assert paths({"a": 10**400}, {"a": 10**400 + 1}, tolerance=tolerance) == ["/a"]
    assert paths({"a": 1 + 1j}, {"a": 1.3 + 1.3j}, tolerance=tolerance) == []
    assert paths({"a": 1 + 1j}, {"a": 1.4 + 1.4j}, tolerance=tolerance) == ["/a"]


def test_the_last_tolerance_that_fits_holds() -> None:
    rules = {"tolerance": {"/**": 1.0, "/a/0": 0.0}}
    assert paths({"a": [1.0, 1.0]}, {"a": [1.5, 1.5]}, **rules) == ["/a/0"]


@pytest.mark.parametrize("ignore", [3, None])
def test_what_is_to_be_ignored_is_patterns(ignore: Any) -> None:
    with pytest.raises(TypeError, match="ignore must be patterns of paths, not"):
        Rules(ignore=ignore)


def test_what_is_ignored_and_what_was_not_kept() -> None:
    expected, actual = {"a": [{"t": 1, "x": 1}], "b": 1}, {"a": [{"t": 2, "x": 2}], "b": 2}
    assert paths(expected, actual, ignore=["/a/*/t"]) == ["/a/0/x", "/b"]
    assert paths(expected, actual, ignore=["/**/t", "/b"]) == ["/a/0/x"]
    assert paths(expected, actual, ignore=["/a"]) == ["/b"]
    assert paths(expected, actual, ignore=["/**"]) == []
    assert paths(np.zeros(3), np.ones(3), ignore=["/1"]) == ["/0", "/2"]
    assert paths({"a": Missing("x", "y")}, {"a": 1}) == []
    assert paths({"a": Cut("x", 9, "0")}, {"a": "xyz"}) == []


def test_addresses_in_texts_do_not_matter() -> None:
    assert paths("<a.B object at 0x7f2e49282520>", "<a.B object at 0x1234>") == []
    assert paths("<a.B object at 0x7f2e49282520>", "<a.C object at 0x1234>") == ["/"]
    assert paths("at 0x12", "at 0x13") == ["/"]


TEXT = st.text(max_size=3)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(one=JSON, other=JSON)
def test_there_is_a_difference_exactly_where_the_forms_differ(one: Any, other: Any) -> None:
    assert paths(one, one) == []
    assert bool(paths(one, other)) == (encode(one) != encode(other))
