from __future__ import annotations

from typing import Any

import pytest

from envbench.checks.shape import expect, read_object


@pytest.mark.parametrize(
    ("value", "kinds", "message"),
    [
        (True, int, "is true, not an integer"),
        (1, bool, "is the number 1, not true or false"),
        (1.0, int, "is the number 1.0, not an integer"),
        (1, float, "is the number 1, not a number with a fraction"),
        ("1", (int, type(None)), "is text, not an integer or null"),
        (None, str, "is null, not text"),
        ({}, list, "is an object, not an array"),
        ([], dict, "is an array, not an object"),
    ],
)
def test_types_are_compared_exactly(value: Any, kinds: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^/a/b: {message}$"):
        expect(value, kinds, "/a/b")


def test_a_field_is_named_with_its_place() -> None:
    with pytest.raises(ValueError, match=r"^/rows/a~1b: is null, not text$"):
        read_object({"a/b": None}, {"a/b": str}, "/rows")


def test_missing_and_unknown_fields() -> None:
    with pytest.raises(ValueError, match=r"^/rows: has no 'a', 'b'$"):
        read_object({}, {"a": str, "b": str}, "/rows")
    with pytest.raises(ValueError, match=r"^/: has 'c', which this version does not know"):
        read_object({"a": "x", "c": 1}, {"a": str}, "")


def test_an_optional_field_may_be_left_out_but_not_be_of_another_type() -> None:
    assert read_object({}, {"a": str}, "", optional=("a",)) == {}
    with pytest.raises(ValueError, match=r"^/a: is the number 1, not text$"):
        read_object({"a": 1}, {"a": str}, "", optional=("a",))
