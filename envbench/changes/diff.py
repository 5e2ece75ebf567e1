"""The difference between two states: which path went from which value to which.

Equality is that of the canonical form, so ``1``, ``1.0`` and ``true`` differ. Objects are compared
member by member, tables row by row under their key or as multisets, other lists by position. A node
that appears, vanishes or changes type is one difference at the node, and none below it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import orjson

from envbench.changes.paths import Path, RowDigest, RowKey, Segment, key_value, row_digest
from envbench.changes.tables import Keys, by_key, is_object, is_table
from envbench.evidence.portable import Json, canonical
from envbench.evidence.tagged import ABSENT

Value: TypeAlias = Any
"""A portable value, or `ABSENT`."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One path that holds another value than before; both as portable JSON or `ABSENT`."""

    path: Path
    before: Value
    after: Value

    @property
    def op(self) -> str:
        """``add``, ``remove`` or ``edit``."""
        if self.before is ABSENT:
            return "add"
        return "remove" if self.after is ABSENT else "edit"


def compare(before: Value, after: Value, keys: Keys, path: Path = ()) -> list[Difference]:
    """The differences between two values at a path.

    Args:
        before: a portable value, or `ABSENT`.
        after: likewise.
        keys: the keys of tables; they must have been chosen for both states.
        path: where the values stand.

    Raises:
        KeyBroken: when the key of a table does not hold in one of the two.
    """
    found: list[Difference] = []
    _compare(before, after, keys, path, found.append)
    return found


def value_at(state: Value, path: Path) -> Value:
    """What a state holds at a path: a portable value, or `ABSENT`.

    At the row of a multiset it is ``{"row": …, "count": n}``.
    """
    value = state
    for segment in path:
        value = _member(value, segment)
        if value is ABSENT:
            return ABSENT
    return value


def normal(value: Json) -> bytes:
    """The form in which two values are equal when they are so with their tables unordered."""
    if type(value) in (dict, list) and holds_table(value):
        return canonical(_unordered(value))
    return row_text(value)


def row_text(value: Json) -> bytes:
    """Text that two portable values share exactly when their canonical forms agree.

    It may print floats otherwise than the canonical form does, and is five times faster.
    """
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # an integer beyond 64 bits
        return canonical(value)


def holds_table(value: Json) -> bool:
    """Whether a table stands anywhere in a value; a tagged value is one whole."""
    if is_object(value):
        return any(type(item) in (dict, list) and holds_table(item) for item in value.values())
    if type(value) is list:
        return is_table(value) or any(
            type(item) in (dict, list) and holds_table(item) for item in value
        )
    return False


Emit: TypeAlias = Callable[[Difference], None]


def _compare(before: Value, after: Value, keys: Keys, path: Path, emit: Emit) -> None:
    if is_object(before) and is_object(after):
        compare_objects(before, after, keys, path, emit)
    elif type(before) is list and type(after) is list:
        _compare_lists(before, after, keys, path, emit)
    elif not _same(before, after):
        emit(Difference(path, before, after))


def compare_objects(
    before: dict[str, Json], after: dict[str, Json], keys: Keys, path: Path, emit: Emit
) -> None:
    """Compare two objects, or two rows of one key, member by member; see `compare`."""
    found = 0
    for name, value in before.items():
        other = after.get(name, ABSENT)
        found += other is not ABSENT
        kind = type(value)
        if kind in _EXACT and kind is type(other):
            if value != other:
                emit(Difference((*path, name), value, other))
        elif other is ABSENT:
            emit(Difference((*path, name), value, ABSENT))
        elif kind in (dict, list):
            if row_text(value) != row_text(other):
                _compare(value, other, keys, (*path, name), emit)
        elif not _same(value, other):
            emit(Difference((*path, name), value, other))
    if found < len(after):
        for name, value in after.items():
            if name not in before:
                emit(Difference((*path, name), ABSENT, value))


_EXACT = frozenset({str, int, bool, type(None)})
"""Types of which equal values have one canonical form; 0.0 and -0.0 are equal and have two."""


def _compare_lists(
    before: list[Json], after: list[Json], keys: Keys, path: Path, emit: Emit
) -> None:
    tables = is_table(before), is_table(after)
    if (tables[0] or not before) and (tables[1] or not after):
        key = keys.of(path)
        if key is None:
            _compare_multisets(before, after, path, emit)
        else:
            _compare_keyed(before, after, key, keys, path, emit)
    elif any(tables):
        # from a table to a list of something else: another type of node
        emit(Difference(path, before, after))
    else:
        for i, (value, other) in enumerate(zip(before, after, strict=False)):
            if row_text(value) != row_text(other):
                _compare(value, other, keys, (*path, i), emit)
        for i in range(len(after), len(before)):
            emit(Difference((*path, i), before[i], ABSENT))
        for i in range(len(before), len(after)):
            emit(Difference((*path, i), ABSENT, after[i]))


def _compare_keyed(
    before: list[Json], after: list[Json], key: str, keys: Keys, path: Path, emit: Emit
) -> None:
    old, new = by_key(before, key, path), by_key(after, key, path)
    for value, row in old.items():
        at: Path = (*path, RowKey(key, value))
        if value not in new:
            emit(Difference(at, row, ABSENT))
        elif row_text(row) != row_text(new[value]):
            compare_objects(row, new[value], keys, at, emit)
    for value, row in new.items():
        if value not in old:
            emit(Difference((*path, RowKey(key, value)), ABSENT, row))


def _compare_multisets(before: list[Json], after: list[Json], path: Path, emit: Emit) -> None:
    old, new = _counted(before), _counted(after)
    for text in dict.fromkeys((*old, *new)):
        was, n_was = old.get(text, (None, 0))
        now, n_now = new.get(text, (None, 0))
        if n_was != n_now:
            emit(count_difference(path, was if n_was else now, n_was, n_now))


def count_difference(path: Path, row: Json, before: int, after: int) -> Difference:
    """The difference of a row that is there so many times in a table without a key."""
    return Difference((*path, digest_of(row)), _times(row, before), _times(row, after))


def digest_of(row: Json) -> RowDigest:
    """The segment of a row in a table without a key; the order of tables in it does not matter."""
    return row_digest(canonical(_unordered(row)))


def _counted(rows: list[Json]) -> dict[bytes, tuple[Json, int]]:
    """Distinct rows with how often they are there, by the text under which two are equal."""
    found: dict[bytes, tuple[Json, int]] = {}
    for row in rows:
        text = normal(row)
        first, count = found.get(text, (row, 0))
        found[text] = (first, count + 1)
    return found


def _times(row: Json, count: int) -> Value:
    return {"row": row, "count": count} if count else ABSENT


def _member(value: Value, segment: Segment) -> Value:
    kind = type(segment)
    if kind is str:
        return value.get(segment, ABSENT) if is_object(value) else ABSENT
    if type(value) is not list:
        return ABSENT
    if is_table(value) == (kind is int):  # the rows of a table have no positions
        return ABSENT
    if kind is int:
        return value[segment] if segment < len(value) else ABSENT  # type: ignore[operator, index]
    if kind is RowKey:
        name, wanted = segment.name, segment.value  # type: ignore[union-attr]
        for row in value:
            if key_value(row.get(name)) == wanted:
                return row
        return ABSENT
    return _counted_row(value, segment)  # type: ignore[arg-type]


def _counted_row(table: list[Json], segment: RowDigest) -> Value:
    for row, count in _counted(table).values():
        if digest_of(row) == segment:
            return _times(row, count)
    return ABSENT


def _same(value: Value, other: Value) -> bool:
    """Whether two values have one canonical form."""
    if type(value) is not type(other):
        return False
    if type(value) in (dict, list):
        return normal(value) == normal(other)
    if type(value) is float:
        return repr(value) == repr(other)  # 0.0 and -0.0 are equal, and are not the same
    return bool(value == other)


def _unordered(value: Json) -> Json:
    if is_object(value):
        return {name: _unordered(item) for name, item in value.items()}
    if type(value) is list:
        items = [_unordered(item) for item in value]
        return sorted(items, key=canonical) if is_table(value) else items
    return value
