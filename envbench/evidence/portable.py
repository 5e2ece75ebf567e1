"""Portable JSON and its canonical form.

Portable JSON is what every JSON reader agrees on: objects with string keys, arrays, strings,
booleans, null, finite doubles and integers of any size. Its canonical form is what the standard
library prints with sorted keys and no spaces, in UTF-8, so that anyone can recompute a digest.

orjson prints the same bytes about five times faster, except for floats between 1e-9 and 1e-4 and
for what it converts silently (tuples, NaN, enums, dates, UUIDs). Those are looked for first, and
then the standard library prints.
"""

from __future__ import annotations

import json
import math
import re
from itertools import chain
from typing import Any, TypeAlias

import orjson

Json: TypeAlias = Any
"""A portable value: dict, list, str, bool, None, float or int, and nothing else below it."""

MAX_DEPTH = 200
"""Values nested deeper than this are refused: readers in other languages stop near it too."""


def canonical(value: Json) -> bytes:
    """Print a portable value in canonical form.

    Args:
        value: a portable value; two values are equal exactly when their forms are, so `1`, `1.0`
            and `true` differ and the order of keys does not matter.

    Returns:
        UTF-8 bytes, without a final newline.

    Raises:
        ValueError: for anything that is not portable, naming its place as a JSON Pointer.
    """
    text = fast_canonical(value)
    if text is None:
        _refuse_unportable(value, "", frozenset())
        text = print_canonical(value)
    return text


def parse(text: str | bytes, *, unique_keys: bool = False) -> Json:
    """Read JSON text exactly: integers of any size are kept, NaN and infinities are refused.

    Args:
        text: JSON text.
        unique_keys: refuse an object that names a key twice (for files from elsewhere, where two
            readers could see two different values).

    Raises:
        ValueError: when the text is not JSON, overflows a double, or repeats a key.
    """
    if not unique_keys and not _LONG_INTEGER.search(
        text if isinstance(text, bytes) else text.encode("utf-8", "replace")
    ):
        return orjson.loads(text)
    hook = _unique if unique_keys else None
    try:
        return json.loads(
            text, parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=hook
        )
    except RecursionError:
        raise ValueError("JSON text is nested too deeply to read") from None


def fast_canonical(value: Any) -> bytes | None:
    """Print a value with orjson if that is certain to be its canonical form, else return None."""
    types = _plain_types(value)
    if types is None:
        return None
    try:
        text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except (TypeError, ValueError):  # an integer beyond 64 bits, a lone surrogate, a key not text
        return None
    if float in types:
        # orjson prints NaN and infinities as null; it differs from the standard library in how it
        # prints 1e-9 to 1e-4 and nowhere else.
        if b"null" in text and not _all_finite(value):
            return None
        if not is_printed_alike(text):
            return print_canonical(value)
    return text


def is_printed_alike(text: bytes) -> bool:
    """Whether every float in JSON text printed by orjson is as the standard library prints it."""
    return _PRINTED_OTHERWISE.search(text) is None


def print_canonical(value: Json) -> bytes:
    """Print a value known to be portable with the standard library."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


_ATOMS = frozenset({str, int, float, bool, type(None)})
_PLAIN = _ATOMS | {dict, list}
_PRINTED_OTHERWISE = re.compile(rb"\de-\d(?!\d)|0\.0000")
# A run of digits that is not the fraction of a float and may not fit 64 bits.
_LONG_INTEGER = re.compile(rb"(?<![.\d])\d{19}")


def _plain_types(value: Any) -> set[type] | None:
    """The exact types found in a tree of dicts and lists, or None if another type is among them.

    Works level by level, so that the interpreter's own loops do the walking.
    """
    level = [value]
    found: set[type] = set()
    for _ in range(MAX_DEPTH):
        types = set(map(type, level))
        if not types <= _PLAIN:
            return None
        found |= types
        dicts = [v for v in level if type(v) is dict] if dict in types else []
        lists = [v for v in level if type(v) is list] if list in types else []
        if not dicts and not lists:
            return found
        level = [*chain.from_iterable(map(dict.values, dicts)), *chain.from_iterable(lists)]
        if len(level) > 5_000_000:  # a structure that contains itself grows without end
            return None
    return None


def _all_finite(value: Any) -> bool:
    if type(value) is float:
        return math.isfinite(value)
    if type(value) is dict:
        return all(map(_all_finite, value.values()))
    return all(map(_all_finite, value)) if type(value) is list else True


def _refuse_unportable(value: Any, place: str, above: frozenset[int]) -> None:
    kind = type(value)
    if kind in (dict, list):
        if id(value) in above:
            raise ValueError(f"{place or '/'}: contains itself, so it cannot be written as JSON")
        if len(above) >= MAX_DEPTH:
            raise ValueError(f"{place or '/'}: nested deeper than {MAX_DEPTH} levels")
        above = above | {id(value)}
        items = value.items() if kind is dict else enumerate(value)
        for key, item in items:
            if kind is dict:
                _refuse_unportable_key(key, place)
            _refuse_unportable(item, f"{place}/{pointer_segment(str(key))}", above)
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
