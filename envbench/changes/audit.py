"""The audit of an episode as changes: what happened to each path inside a step, in order.

An event is ``{step, table, op, key, before, after}``. A row that is there before and after is
changed cell by cell; one that is not, or whose key changes, goes and comes as a whole. What was
recorded up to the reset (step 0) made the initial state, and is no change of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from envbench.changes.diff import Value, digest_of, normal
from envbench.changes.paths import Path, RowDigest, RowKey, Segment, key_value
from envbench.changes.rules import Touch
from envbench.changes.tables import Keys, is_object
from envbench.evidence.portable import Json, canonical
from envbench.evidence.tagged import ABSENT

Event = Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Passage:
    """What a path went through in one step.

    Attributes:
        path: a row, or a cell of one.
        touches: the changes of it, in order.
        values: the values that it had, from the step's beginning to its end.
    """

    path: Path
    touches: tuple[Touch, ...]
    values: tuple[Value, ...]

    @property
    def is_undone(self) -> bool:
        """Whether the path ends the step with the value that it began it with."""
        return same(self.values[0], self.values[-1])


def passages(audit: Iterable[Event], keys: Keys) -> list[Passage]:
    """What each changed path went through in each step, in order of events."""
    touches: dict[tuple[int, Path], list[Touch]] = {}
    rows: dict[tuple[int, Path], list[Value]] = {}
    for event in audit:
        if event["step"] < 1:
            continue
        for path, before, after in row_changes(event, keys):
            rows.setdefault((event["step"], path), [before]).append(after)
            for touch in _touches(path, before, after, event["step"]):
                touches.setdefault((touch.step, touch.path), []).append(touch)
    found = []
    for (step, path), made in touches.items():
        images = rows[step, path[:2]]
        values = [
            counted(path, image) if len(path) == 2 else _cell(image, path[2]) for image in images
        ]
        found.append(Passage(path, tuple(made), tuple(values)))
    return found


def row_changes(event: Event, keys: Keys) -> Iterator[tuple[Path, Value, Value]]:
    """What an event does to rows: (path, before, after), `ABSENT` for none."""
    before, after = event["before"], event["after"]
    old = None if before is None else _row_path(event, before, keys)
    new = None if after is None else _row_path(event, after, keys)
    if old is not None and old == new:
        yield old, before, after
        return
    if old is not None:
        yield old, before, ABSENT
    if new is not None:
        yield new, ABSENT, after


def counted(path: Path, row: Value) -> Value:
    """The value at the path of an audited row, as the states have it."""
    if isinstance(path[-1], RowDigest) and row is not ABSENT:
        return {"row": row, "count": 1}
    return row


def same(value: Value, other: Value) -> bool:
    """Whether two values, `ABSENT` included, are one."""
    if value is ABSENT or other is ABSENT:
        return value is other
    return normal(value) == normal(other)


def _touches(path: Path, before: Value, after: Value, step: int) -> Iterator[Touch]:
    if not (is_object(before) and is_object(after)):
        yield Touch(path, counted(path, before), counted(path, after), step, step - 1)
        return
    for name in dict.fromkeys((*before, *after)):
        old, new = _cell(before, name), _cell(after, name)
        if not same(old, new):
            yield Touch((*path, name), old, new, step, step - 1)


def _cell(row: Value, name: Segment) -> Value:
    return row.get(name, ABSENT) if is_object(row) else ABSENT


def _row_path(event: Event, row: Json, keys: Keys) -> Path:
    """The path of an audited row: that of the state's table where it is observed.

    Else its segment is ``key=`` and the recorded key, and that of a row without one its digest.
    """
    table = event["table"]
    name = keys.of((table,))
    value = key_value(row.get(name)) if name is not None and is_object(row) else None
    if name is not None and value is not None:
        return (table, RowKey(name, value))
    if event["key"] is None:
        return (table, digest_of(row))
    return (table, RowKey("key", canonical(_key_now(event["key"], row))))


def _key_now(key: Json, row: Json) -> Json:
    """The composite key of a row as it is there; the recorded one is that before the event."""
    if is_object(key) and is_object(row) and all(name in row for name in key):
        return {name: row[name] for name in key}
    return key
