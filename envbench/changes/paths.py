"""Paths: where in a state something is, as a JSON Pointer whose row segments are ``key=value``.

``/invoice_rows/invoice_id="invoice-17"/amount_cents`` is the amount of one invoice, whatever its
position. The value of a key is canonical JSON, escaped as RFC 6901 says. A row of a table without a
key is ``#`` and the first 16 hexadecimal digits of the SHA-256 of its canonical JSON.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from envbench.evidence.portable import Json, canonical, pointer_segment
from envbench.evidence.tagged import TAG


class RowKey(NamedTuple):
    """The segment of a row in a table with a key; `value` is canonical JSON."""

    name: str
    value: bytes


class RowDigest(NamedTuple):
    """The segment of a row in a table without a key."""

    digest: str


Segment: TypeAlias = str | int | RowKey | RowDigest
"""A member's name, a position in a list, or a row of a table."""

Path: TypeAlias = tuple[Segment, ...]

ANY = "*"
"""One segment of a pattern, whatever it is."""

ANY_NUMBER = "**"
"""Any number of segments of a pattern, none included."""


def pointer(path: Path) -> str:
    """Spell a path; the whole state is the empty text."""
    return "".join([f"/{_spell(segment)}" for segment in path])


def pattern_of(path: Path) -> str:
    """Spell the pattern of a table's path: row segments stand as ``*``."""
    return "".join(
        "/*" if isinstance(segment, (RowKey, RowDigest)) else f"/{_spell(segment)}"
        for segment in path
    )


def row_digest(row: bytes) -> RowDigest:
    """The segment of a row in a table without a key."""
    return RowDigest(hashlib.sha256(row).hexdigest()[:16])


def split_pattern(pattern: str, argument: str = "path") -> tuple[str, ...]:
    """The segments of a pattern, still escaped.

    Raises:
        TypeError: when it is not text.
        ValueError: when it is no JSON Pointer, or escapes wrongly.
    """
    if not isinstance(pattern, str):
        raise TypeError(f"{argument} must be text, not {type(pattern).__name__}")
    return _split_pattern(pattern, argument)


@lru_cache(maxsize=1_000)
def _split_pattern(pattern: str, argument: str) -> tuple[str, ...]:
    if pattern and not pattern.startswith("/"):
        raise ValueError(f"{argument} {pattern!r} must start with '/', such as '/invoice_rows/**'")
    segments = tuple(pattern.split("/")[1:])
    for segment in segments:
        if segment.replace("~0", "").replace("~1", "").count("~"):
            raise ValueError(f"{argument} {pattern!r}: '~' must be written '~0', and '/' '~1'")
    return segments


def matches(pattern: tuple[str, ...], path: tuple[str, ...]) -> bool:
    """Whether a pattern meets a spelled path exactly."""
    return _matches(pattern, path) == "at"


def covers(pattern: tuple[str, ...], path: tuple[str, ...]) -> bool:
    """Whether a pattern meets a spelled path or something above it."""
    return _matches(pattern, path) in ("at", "above")


def touches(pattern: tuple[str, ...], path: tuple[str, ...]) -> bool:
    """Whether a pattern meets a spelled path, something above it, or could meet below it."""
    return _matches(pattern, path) is not None


def spelled(path: Path) -> tuple[str, ...]:
    """The segments of a path as they are spelled."""
    return tuple([_spell(segment) for segment in path])


def _matches(pattern: tuple[str, ...], path: tuple[str, ...]) -> str | None:
    """How a pattern meets a path: at it, above it, below it, or not at all."""
    found: str | None = None
    # positions in the pattern that are reached after each segment of the path
    reached = _skip_any_number(pattern, {0})
    if len(pattern) in reached:
        found = "above" if path else "at"
    for i, segment in enumerate(path):
        following = set()
        for position in reached:
            if position == len(pattern):
                continue
            if pattern[position] == ANY_NUMBER:
                following.add(position)
            elif pattern[position] in (ANY, segment):
                following.add(position + 1)
        reached = _skip_any_number(pattern, following)
        if len(pattern) in reached:
            if i == len(path) - 1:
                return "at"
            found = found or "above"
    if found:
        return found
    return "below" if reached else None


def _skip_any_number(pattern: tuple[str, ...], positions: set[int]) -> set[int]:
    """Positions from which ``**`` may stand for nothing."""
    reached = set(positions)
    for position in positions:
        while position < len(pattern) and pattern[position] == ANY_NUMBER:
            position += 1
            reached.add(position)
    return reached


def _spell(segment: Segment) -> str:
    if isinstance(segment, str):
        return pointer_segment(segment)
    if isinstance(segment, RowKey):
        return pointer_segment(f"{segment.name}={segment.value.decode()}")
    return f"#{segment.digest}" if isinstance(segment, RowDigest) else str(segment)


def key_value(value: Json) -> bytes | None:
    """The value of a row's key as canonical JSON; None when it cannot be one.

    A tagged value, such as a UUID or a date, can be one; an object, a list and null cannot.
    """
    kind = type(value)
    if kind is str or kind is int:
        return canonical(value)
    if value is None or kind is list or (kind is dict and value.get(TAG, "missing") == "missing"):
        return None
    return canonical(value)
