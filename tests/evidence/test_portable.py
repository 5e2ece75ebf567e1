from __future__ import annotations

import enum
import json
import math
import struct
import subprocess
import sys
import uuid
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from envbench.evidence.portable import (
    MAX_DEPTH,
    canonical,
    fast_canonical,
    is_printed_alike,
    parse,
)


def standard(value: Any) -> bytes:
    """The canonical form by its definition."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def is_same(left: Any, right: Any) -> bool:
    """Whether two portable values agree in every type and bit."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(is_same(left[k], right[k]) for k in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(is_same, left, right))
    if isinstance(left, float):
        return struct.pack("d", left) == struct.pack("d", right)
    return bool(left == right)


bits = st.integers(0, 2**64 - 1).map(lambda n: struct.unpack("d", struct.pack("Q", n))[0])
doubles = (bits | st.floats(-1e-3, 1e-3) | st.floats()).filter(math.isfinite)
text = st.text(st.characters(exclude_categories=["Cs"]))
atoms = st.none() | st.booleans() | st.integers() | st.integers(-(2**80), 2**80) | doubles | text
portable = st.recursive(
    atoms, lambda inner: st.lists(inner) | st.dictionaries(text, inner), max_leaves=20
)


@given(portable)
def test_canonical_is_what_the_standard_library_prints(value: Any) -> None:
    assert canonical(value) == standard(value)


@given(portable)
def test_parse_gives_back_the_value_with_exact_types(value: Any) -> None:
    printed = canonical(value)
    assert is_same(parse(printed), value)
    assert is_same(parse(printed.decode(), unique_keys=True), value)


@given(doubles)
@example(1e-05)
@example(1e-07)
@example(9.999999999999999e-05)
@example(1e16)
@example(1e22)
@example(5e-324)
@example(-0.0)
def test_a_float_is_printed_as_repr_prints_it(number: float) -> None:
    assert canonical([number]) == f"[{number!r}]".encode()


def test_floats_of_every_exponent() -> None:
    heads = ("1", "-1.5", "9.9", "1.7976931348623157")
    numbers = [float(f"{head}e{exponent}") for exponent in range(-324, 309) for head in heads]
    for number in filter(math.isfinite, numbers):
        assert canonical(number) == standard(number)


def test_text_that_another_orjson_prints_otherwise_is_seen() -> None:
    # 1e-07 and 1e-05 as orjson prints them; 1e16 as orjson before 3.12 did
    assert not is_printed_alike(b"[1e-7]")
    assert not is_printed_alike(b"[0.00001]")
    assert is_printed_alike(b"[1e-10,0.0001,1.5e+300]")


def test_key_order_does_not_matter_and_types_do() -> None:
    assert canonical({"b": 1, "a": 2}) == canonical({"a": 2, "b": 1}) == b'{"a":2,"b":1}'
    assert [canonical(v) for v in (1, 1.0, True, "1")] == [b"1", b"1.0", b"true", b'"1"']


def test_keys_are_sorted_by_code_point_not_by_utf_16() -> None:
    # U+FFFD is before U+1F600, whose UTF-16 form begins with D83D
    assert canonical({"\U0001f600": 1, "\ufffd": 2}) == '{"\ufffd":2,"\U0001f600":1}'.encode()


class Grade(enum.IntEnum):
    A = 1


class Text(str):
    __slots__ = ()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": [1, math.nan]}, "/a/1: nan is not a finite number"),
        ({"a": None, "b": math.inf}, "/b: inf is not a finite number"),
        ({"a/b": {"c~d": "\ud800"}}, "/a~1b/c~0d: text with a lone surrogate"),
        ({"a": {"\udfff": 1}}, "/a: key '\\udfff' has a lone surrogate"),
        ({"a": {1: 2}}, "/a: key 1 is int, not text"),
        ({Text("a"): 1}, "/: key 'a' is Text, not text"),
        ([(1, 2)], "/0: builtins.tuple is not portable JSON"),
        ([Grade.A], "Grade is not portable JSON"),
        ([uuid.UUID(int=1)], "/0: uuid.UUID is not portable JSON"),
        ({"a": 10**5000}, "/a: an integer of more than 4,200 digits"),
    ],
)
def test_what_is_not_portable_is_refused_with_its_place(value: Any, message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is compared below
        canonical(value)
    assert message in str(caught.value)


def test_nan_beside_null_or_the_word_null_is_refused() -> None:
    # orjson prints NaN as null, so a count of nulls could be mistaken
    assert fast_canonical([None, "null", math.nan]) is None
    assert fast_canonical([None, "null", 1.5]) == b'[null,"null",1.5]'


def test_a_value_that_contains_itself_is_refused() -> None:
    value: dict[str, Any] = {"a": []}
    value["a"].append(value)
    with pytest.raises(ValueError, match="/a/0: contains itself"):
        canonical(value)


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def test_depth_is_limited() -> None:
    assert canonical(nested(MAX_DEPTH)) == b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    with pytest.raises(ValueError, match="nested deeper than 220 levels"):
        canonical(nested(MAX_DEPTH + 1))


@pytest.mark.parametrize("unique_keys", [False, True])
@pytest.mark.parametrize(
    "text",
    [
        "NaN",
        "[Infinity]",
        "[-Infinity]",
        "[1e400]",
        "[12345678901234567890, NaN]",
        "[12345678901234567890, 1e400]",
        '"\\ud800"',
        '[12345678901234567890, "\\ud800"]',
        "\ufeff1",
        "{'a': 1}",
        "[1,]",
        "",
        "[" * 100_000,
        b'"\xff"',
        b'[12345678901234567890, "\xff"]',
        '[12345678901234567890, "\ud800"]',
        "1" * 5000,
    ],
)
def test_parse_refuses_what_is_not_json(text: str | bytes, unique_keys: bool) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - messages are the parsers'
        parse(text, unique_keys=unique_keys)


def test_parse_keeps_integers_and_escaped_pairs() -> None:
    assert parse("[18446744073709551616,-9223372036854775809]") == [2**64, -(2**63) - 1]
    assert parse('[18446744073709551616,"\\ud83d\\ude00"]') == [2**64, "\U0001f600"]


def test_a_key_named_twice_is_refused_where_asked() -> None:
    assert parse('{"a": 1, "a": 2}') == {"a": 2}
    with pytest.raises(ValueError, match="key 'a' appears twice"):
        parse('[{"a": 1, "a": 2}]', unique_keys=True)


def test_the_form_is_the_same_under_every_hash_seed() -> None:
    code = (
        "from envbench.evidence.tagged import encode;"
        "print(encode({'s': set('abcdef'), 'd': {x: 1 for x in frozenset('xyz')}, 'k': {1: 2}}))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "77")
    }
    assert len(outputs) == 1
    assert b'"items":["a","b","c","d","e","f"]' in outputs.pop()
