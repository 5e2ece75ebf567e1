"""Differences between two values of evidence, each with its path.

Values are compared as evidence keeps them: ``1``, ``1.0`` and ``True`` differ, NaN equals NaN, a
list and a tuple differ, arrays have a dtype. What could not be kept is not compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from envbench.changes.paths import covers, split_pattern
from envbench.evidence.portable import pointer_segment
from envbench.evidence.tagged import ABSENT, Cut, Missing, Named, encode

Path = tuple[str, ...]

_FEW = 10
"""Of an array with more elements that differ, the whole is one difference."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Two values at one place.

    Attributes:
        path: the place, segments escaped as in a JSON Pointer.
        expected: the first value, `ABSENT` where there is none.
        actual: the second.
    """

    path: Path
    expected: Any
    actual: Any


class Rules:
    """What counts as equal.

    Args:
        tolerance: by how much two numbers may differ, everywhere or by the pattern of their path,
            of which the last that fits holds; None for not at all.
        ignore: patterns of paths that are not compared, nor what is below them.

    Raises:
        TypeError: when an argument is of the wrong type.
        ValueError: for a malformed pattern, and a tolerance that is negative or NaN.
    """

    def __init__(
        self,
        tolerance: float | Mapping[str, float] | None = None,
        ignore: Iterable[str] = (),
    ) -> None:
        if isinstance(ignore, str):
            ignore = (ignore,)
        elif not isinstance(ignore, Iterable):
            raise TypeError(f"ignore must be patterns of paths, not {type(ignore).__name__}")
        self._ignore = [split_pattern(pattern, "ignore") for pattern in ignore]
        given = tolerance if isinstance(tolerance, Mapping) else {"/**": tolerance}
        self._tolerances = [
            (split_pattern(pattern, "tolerance"), _checked(number))
            for pattern, number in given.items()
        ]

    def ignores(self, path: Path) -> bool:
        """Whether a place is not compared."""
        return any(covers(pattern, path) for pattern in self._ignore)

    def tolerance(self, path: Path) -> float:
        """By how much numbers at a place may differ."""
        for pattern, number in reversed(self._tolerances):
            if covers(pattern, path):
                return number
        return 0.0


def _checked(number: Any) -> float:
    if number is None:
        return 0.0
    if isinstance(number, bool) or not isinstance(number, int | float | np.integer | np.floating):
        raise TypeError(f"tolerance must be a number, not {number!r}")
    if not number >= 0:
        raise ValueError(f"tolerance must be at least 0, not {number}")
    return float(number)


def differences(
    expected: Any, actual: Any, path: Path = (), rules: Rules | None = None
) -> Iterator[Difference]:
    """Each difference between two values as evidence hands them out.

    Example:
        >>> [d.path for d in differences({"a": [1, 2.0]}, {"a": [1, 2.5], "b": None})]
        [('a', '1'), ('b',)]
        >>> list(differences({"a": 2.0}, {"a": 2.5}, rules=Rules(tolerance={"/a": 0.5})))
        []
    """
    rules = rules or Rules()
    if rules.ignores(path) or isinstance(expected, Cut | Missing):
        return
    if type(expected) is dict and type(actual) is dict:
        for key in {**expected, **actual}:
            inner = (*path, pointer_segment(key if isinstance(key, str) else repr(key)))
            held = expected.get(key, ABSENT), actual.get(key, ABSENT)
            yield from differences(*held, inner, rules)
    elif _is_sequence(expected) and type(expected) is type(actual):
        for i in range(max(len(expected), len(actual))):
            first = expected[i] if i < len(expected) else ABSENT
            second = actual[i] if i < len(actual) else ABSENT
            yield from differences(first, second, (*path, str(i)), rules)
    elif isinstance(expected, np.ndarray) and isinstance(actual, np.ndarray):
        yield from _array_differences(expected, actual, path, rules)
    elif type(expected) is Named and type(actual) is Named and _same_kind(expected, actual):
        yield from differences(expected.value, actual.value, path, rules)
        if expected.attributes or actual.attributes:
            yield from differences(expected.attributes or {}, actual.attributes or {}, path, rules)
    elif not _is_equal(expected, actual, rules.tolerance(path)):
        yield Difference(path, expected, actual)


def _is_sequence(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _same_kind(expected: Named, actual: Named) -> bool:
    return (expected.type, expected.name) == (actual.type, actual.name)


def _is_equal(expected: Any, actual: Any, tolerance: float) -> bool:
    if tolerance and _is_number(expected) and _is_number(actual):
        return _is_close(expected, actual, tolerance)
    if isinstance(expected, str) and isinstance(actual, str):
        return expected == actual or _without_addresses(expected) == _without_addresses(actual)
    try:
        return encode(expected) == encode(actual)
    except ValueError:  # a value of the user's that evidence cannot hold
        return expected is actual


def _is_number(value: Any) -> bool:
    kinds = int | float | complex | np.integer | np.inexact
    return isinstance(value, kinds) and not isinstance(value, bool)


def _is_close(expected: Any, actual: Any, tolerance: float) -> bool:
    one, other = (v.item() if isinstance(v, np.generic) else v for v in (expected, actual))
    if one != one or other != other:  # NaN
        return bool(one != one and other != other)
    try:
        return bool(one == other or abs(one - other) <= tolerance)
    except OverflowError:  # an integer that no double holds, and a double
        return False


def _without_addresses(text: str) -> str:
    """A text without addresses of objects, which say nothing and are others every time."""
    return _ADDRESS.sub(" at 0x…>", text) if " at 0x" in text else text


_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+>")


def _array_differences(
    expected: np.ndarray[Any, Any], actual: np.ndarray[Any, Any], path: Path, rules: Rules
) -> Iterator[Difference]:
    if expected.shape != actual.shape or expected.dtype != actual.dtype:
        yield Difference(path, expected, actual)
        return
    if expected.dtype.kind not in "biufc":
        if not _is_equal(expected, actual, 0.0):
            yield Difference(path, expected, actual)
        return
    unequal = _unequal(expected, actual)
    if not unequal.any():
        return
    places = [tuple(map(int, place)) for place in np.argwhere(unequal)]
    found = []
    for place in places:
        inner = (*path, *map(str, place))
        first, second = expected[place], actual[place]
        if rules.ignores(inner) or _is_within(first, second, rules.tolerance(inner)):
            continue
        found.append(Difference(inner, first, second))
        if len(found) > _FEW:
            yield Difference(path, expected, actual)
            return
    yield from found


def _unequal(
    expected: np.ndarray[Any, Any], actual: np.ndarray[Any, Any]
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Where two arrays differ; NaN equals NaN, and 0.0 differs from -0.0."""
    unequal: np.ndarray[Any, Any] = expected != actual
    if expected.dtype.kind == "f":
        both = np.isnan(expected) & np.isnan(actual)
        unequal = (unequal & ~both) | (np.signbit(expected) != np.signbit(actual)) & ~both
    elif expected.dtype.kind == "c":
        unequal &= ~(np.isnan(expected) & np.isnan(actual))
    return unequal


def _is_within(expected: Any, actual: Any, tolerance: float) -> bool:
    if not tolerance or expected.dtype.kind == "b":
        return False
    return _is_close(expected, actual, tolerance)
