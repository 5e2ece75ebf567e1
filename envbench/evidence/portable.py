"""Portable JSON and its canonical form.

Portable JSON is what every JSON reader agrees on: objects with string keys, arrays, strings,
booleans, null, finite doubles and integers of any size. Its canonical form is what the standard
library prints with sorted keys and no spaces, in UTF-8, so that anyone can recompute a digest.

orjson prints the same bytes about five times faster, except for some floats and for what it
converts silently (tuples, NaN, enums, dates, UUIDs). Those are looked for, and then the standard
library prints.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

import orjson

Json: TypeAlias = Any
"""A portable value: dict, list, str, bool, None, float or int, and nothing else below it."""

VALUE_DEPTH = 200
"""One value (a state, an info, a case's input) is nested at most this deep."""

MAX_DEPTH = 220
"""An episode is nested at most this deep; readers in other languages stop near it too."""


def canonical(value: Json, max_depth: int = MAX_DEPTH) -> bytes:
    """Print a portable value in canonical form.

    Args:
        value: a portable value; two values are equal exactly when their forms are, so `1`, `1.0`
            and `true` differ and the order of keys does not matter.
        max_depth: how deep it may be nested.

    Returns:
        UTF-8 bytes, without a final newline.

    Raises:
        ValueError: for anything that is not portable, naming its place as a JSON Pointer.
    """
    text = fast_canonical(value, max_depth)
    if text is None:
        _refuse_unportable(value, "", frozenset(), max_depth)
        text = print_canonical(value)
    return text


def parse(text: str | bytes, *, unique_keys: bool = False) -> Json:
    """Read JSON text exactly: integers of any size are kept, NaN and infinities are refused.

    Args:
        text: JSON text.
        unique_keys: refuse an object that names a key twice (for files from elsewhere, where two
            readers could see two different values).

    Raises:
        ValueError: when the text is not JSON in UTF-8, overflows a double, or repeats a key.
    """
    raw = text.encode() if isinstance(text, str) else text
    if not unique_keys and not _has_long_integer(raw):
        return orjson.loads(raw)
    hook = _unique if unique_keys else None
    try:
        value = json.loads(
            raw.decode(), parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=hook
        )
    except RecursionError:
        raise ValueError("JSON text is nested too deeply to read") from None
    if _LONE_SURROGATE.search(raw):  # the standard library reads what UTF-8 cannot hold
        canonical(value)
    return value


def _has_long_integer(raw: bytes) -> bool:
    """Whether the text may hold an integer beyond 64 bits, which orjson would read as a float."""
    # looked for in two strides, because the pattern alone costs ten times what the parsing does
    return _NINETEEN_DIGITS in raw.translate(_DIGITS) and _LONG_INTEGER.search(raw) is not None


def fast_canonical(value: Any, max_depth: int = MAX_DEPTH) -> bytes | None:
    """Print a value with orjson if that is certain to be its canonical form, else return None."""
    if type(value) in _EXACT:
        try:
            return orjson.dumps(value)
        except (TypeError, ValueError):  # beyond 64 bits, or a lone surrogate
            return None
    levels = _plain_levels(value, max_depth)
    if levels is None:
        return None
    try:
        text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except (TypeError, ValueError):  # an integer beyond 64 bits, a lone surrogate, a key not text
        return None
    if levels.has_float:
        # orjson prints NaN and infinities as null
        if b"null" in text and not levels.all_finite(text):
            return None
        if not is_printed_alike(text):
            return print_canonical(value)
    return text


def is_printed_alike(text: bytes) -> bool:
    """Whether every float in JSON text printed by orjson is as the standard library prints it.

    They differ for floats between 1e-9 and 1e-4, which orjson prints as `1e-7` or `0.00001`;
    orjson before 3.12 also printed `1e16` for `1e+16`.
    """
    if b"0.0000" in text:
        return False
    if _PLUS_IN_EXPONENT:
        return b"e-" not in text or _SHORT_EXPONENT.search(text) is None
    return _EXPONENT.search(text) is None


def print_canonical(value: Json) -> bytes:
    """Print a value known to be portable with the standard library."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


_ATOMS = frozenset({str, int, float, bool, type(None)})
_EXACT = _ATOMS - {float}
_PLAIN = _ATOMS | {dict, list}
_SHORT_EXPONENT = re.compile(rb"\de-\d(?!\d)")
_EXPONENT = re.compile(rb"\de(?:\d|-\d(?!\d))")
_PLUS_IN_EXPONENT = orjson.dumps(1e16) == b"1e+16"
# An escaped surrogate; most stand in pairs.
_LONE_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
# A run of digits that is not the fraction of a float and may not fit 64 bits.
_NINETEEN_DIGITS = b"0" * 19
_DIGITS = bytes(ord("0") if ord("0") <= byte <= ord("9") else ord(" ") for byte in range(256))
_LONG_INTEGER = re.compile(rb"(?<![.\d])\d{19}")


@dataclass(frozen=True, slots=True)
class _Levels:
    """A tree of dicts and lists, level by level."""

    levels: list[list[Any]]
    has_float: bool

    def all_finite(self, text: bytes) -> bool:
        """Whether no float is NaN or infinite; `text` is the tree as orjson printed it."""
        if text.count(b"null") == sum(level.count(None) for level in self.levels):
            return True
        return all(math.isfinite(v) for level in self.levels for v in level if type(v) is float)


def _plain_levels(value: Any, max_depth: int) -> _Levels | None:
    """The levels of a tree of dicts and lists, or None if there is another type among them.

    Works level by level, so that the interpreter's own loops do the walking.
    """
    level = [value]
    levels = []
    has_float = False
    for _ in range(max_depth + 1):
        types = set(map(type, level))
        if not types <= _PLAIN:
            return None
        levels.append(level)
        has_float = has_float or float in types
        if types == {dict}:
            level = [*chain.from_iterable(map(dict.values, level))]
        elif dict in types or list in types:
            dicts = [v for v in level if type(v) is dict]
            lists = [v for v in level if type(v) is list]
            level = [*chain.from_iterable(map(dict.values, dicts)), *chain.from_iterable(lists)]
        else:
            return _Levels(levels, has_float)
        if len(level) > 5_000_000:  # a structure that contains itself grows without end
            return None
    return None


def _refuse_unportable(value: Any, place: str, above: frozenset[int], max_depth: int) -> None:
    kind = type(value)
    if kind in (dict, list):
        if id(value) in above:
            raise ValueError(f"{place or '/'}: contains itself, so it cannot be written as JSON")
        if len(above) >= max_depth:
            raise ValueError(f"{place or '/'}: nested deeper than {max_depth} levels")
        above = above | {id(value)}
        items = value.items() if kind is dict else enumerate(value)
        for key, item in items:
            if kind is dict:
                _refuse_unportable_key(key, place)
            _refuse_unportable(item, f"{place}/{pointer_segment(str(key))}", above, max_depth)
    elif kind is float:
        if not math.isfinite(value):
            raise ValueError(f"{place or '/'}: {value!r} is not a finite number")
    elif kind is str:
        if not value.isascii() and _has_surrogate(value):
            raise ValueError(f"{place or '/'}: text with a lone surrogate is not valid UTF-8")
    elif kind is int:
        if value.bit_length() > 14_000:
            raise ValueError(
                f"{place or '/'}: an integer of more than 4,200 digits cannot be printed"
            )
    elif kind not in _ATOMS:
        raise ValueError(
            f"{place or '/'}: {kind.__module__}.{kind.__qualname__} is not portable JSON"
        )


def _refuse_unportable_key(key: Any, place: str) -> None:
    if type(key) is not str:
        raise ValueError(f"{place or '/'}: key {key!r} is {type(key).__name__}, not text")
    if not key.isascii() and _has_surrogate(key):
        raise ValueError(f"{place or '/'}: key {key!r} has a lone surrogate")


def pointer_segment(text: str) -> str:
    """Escape one segment of a JSON Pointer (RFC 6901)."""
    return text.replace("~", "~0").replace("/", "~1")


def _has_surrogate(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"number {text} does not fit a double")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"key {key!r} appears twice in one object")
            seen.add(key)
    return result
