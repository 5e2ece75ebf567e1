"""The history of an episode's state: every change, and whether and when it was undone.

States are seen one after another in canonical form. The text of a member that did not change is
only compared. Of a table whose text did, the rows between the first and the last that differ are
told apart in the text, and only those that are new or gone are parsed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from envbench.changes.diff import (
    Difference,
    Value,
    compare,
    compare_objects,
    count_difference,
    holds_table,
    normal,
    value_at,
)
from envbench.changes.paths import Path, RowDigest, RowKey, key_value, pointer
from envbench.changes.tables import KeyBroken, Keys, by_key, is_object, is_table
from envbench.evidence.episode import EpisodeEvidence
from envbench.evidence.portable import Json, canonical, parse
from envbench.evidence.tagged import ABSENT, TAG

Sections = Mapping[str, bytes]
"""A state as the canonical JSON of each of its members.

A state that is one tagged value, such as a dict with integers for keys, is given so too; it has no
members and changes as a whole.
"""


@dataclass(frozen=True, slots=True)
class Change:
    """At a step, a path's value went from one to another.

    Attributes:
        step: the step after which the new value was first seen; 0 is the reset, and one more than
            the last step is the end.
        since: the last step at which the old value was seen; `step` - 1 but for states unseen.
        path: where, as a JSON Pointer with ``key=value`` segments for rows.
        op: ``add``, ``remove`` or ``edit``.
        before: the old value as portable JSON, `ABSENT` for none.
        after: the new value.
        restored_at: the first later step at which the old value was there again, else None.
        restored_after: the last step before that at which it was seen to be different.
        to_initial: whether the restored value was the initial one; None unless restored.
    """

    step: int
    since: int
    path: str
    op: str
    before: Value
    after: Value
    restored_at: int | None = None
    restored_after: int | None = None
    to_initial: bool | None = None


class History:
    """Derives the changes of one episode from its states, seen in order.

    Args:
        row_keys: the keys of tables that the caller names, by the pattern of their path; None for
            a table to be compared as a multiset.

    Attributes:
        keys: the keys in use, and what is to be said of them.
        lost: whether a key broke after `forget`: the changes must be derived anew, with these keys.
    """

    def __init__(self, row_keys: Mapping[str, str | None] | None = None) -> None:
        self.keys = Keys(dict(row_keys or {}))
        self.lost = False
        self._seen: list[tuple[int, Sections]] | None = []
        self._begin()

    def see(self, step: int, state: Sections) -> None:
        """See the state after a step; steps come in order, those without a state are left out."""
        if self._seen is not None:
            self._seen.append((step, state))
        try:
            self._see(step, state)
        except KeyBroken as broken:
            self.keys.demote(broken.path, step, broken.reason)
            self.lost = self._seen is None
            self._see_again(self._seen or [(step, state)])

    @property
    def row_keys(self) -> dict[str, str | None]:
        """The keys in use, and those named for tables that were never seen."""
        return {**self.keys.declared, **self.keys.chosen}

    def forget(self) -> None:
        """Keep no states; a key that breaks later makes the history `lost`."""
        self._seen = None

    def changes(self) -> list[Change]:
        """Every change so far, in order of steps, then paths."""
        return [entry.change() for entry in self._entries]

    @property
    def entries(self) -> list[tuple[Change, Path]]:
        """Every change so far with its path in segments."""
        return [(entry.change(), entry.difference.path) for entry in self._entries]

    def _begin(self) -> None:
        self._last: int | None = None
        self._initial: dict[str, _Part] = {}
        self._parts: dict[str, _Part] = {}
        self._entries: list[_Entry] = []
        self._waiting: dict[Path, dict[bytes | None, list[_Entry]]] = {}
        # the paths that wait, by each path above them
        self._waiting_below: dict[Path, set[Path]] = {}

    def _see_again(self, seen: list[tuple[int, Sections]]) -> None:
        """Start over, with the keys that are left, until none of them breaks."""
        while True:
            self._begin()
            try:
                for step, state in seen:
                    self._see(step, state)
            except KeyBroken as broken:
                self.keys.demote(broken.path, step, broken.reason)
            else:
                return

    def _see(self, step: int, state: Sections) -> None:
        if self._last is None:
            self._parts = {name: _Part(text) for name, text in state.items()}
            if TAG not in state:
                for name, part in self._parts.items():
                    self._meet(name, part)
            self._initial = {name: part.copy() for name, part in self._parts.items()}
        else:
            differences = self._differences(state)
            if differences:
                self._record(step, differences)
        self._last = step

    def _meet(self, name: str, part: _Part) -> None:
        """Take in a member that was not there before."""
        if part.text[:1] in b"[{":
            self.keys.choose({name: part.value})
            self.keys.require((name,), part.value)
            part.index((name,), self.keys)

    def _differences(self, state: Sections) -> list[Difference]:
        """What differs from the state before; the parts become those of the new state."""
        if TAG in state or TAG in self._parts:
            return self._difference_of_wholes(state)
        found: list[Difference] = []
        parts = {}
        for name, text in state.items():
            old = self._parts.get(name)
            if old is None:
                new = parts[name] = _Part(text)
                self._meet(name, new)
                found.append(Difference((name,), ABSENT, new.value))
            elif old.text == text:
                parts[name] = old
            else:
                new = parts[name] = _Part(text)
                found += _differences_of((name,), old, new, self.keys)
        if len(parts) != len(self._parts) or found:
            for name, old in self._parts.items():
                if name not in state:
                    found.append(Difference((name,), old.value, ABSENT))
        self._parts = parts
        return found

    def _difference_of_wholes(self, state: Sections) -> list[Difference]:
        old, self._parts = self._parts, {name: _Part(text) for name, text in state.items()}
        if {name: part.text for name, part in old.items()} == state:
            return []
        if TAG not in state:
            for name, part in self._parts.items():
                self._meet(name, part)
        return [Difference((), _value_in(old, ()), _value_in(self._parts, ()))]

    def _record(self, step: int, differences: list[Difference]) -> None:
        assert self._last is not None
        if len(differences) > 1:
            differences.sort(key=lambda difference: pointer(difference.path))
        entries = [_Entry(step, self._last, difference) for difference in differences]
        for difference in differences:
            self._restore(step, difference)
        for entry in entries:
            self._wait(entry)
        self._entries += entries

    def _wait(self, entry: _Entry) -> None:
        path = entry.difference.path
        waiting = self._waiting.get(path)
        if waiting is None:
            waiting = self._waiting[path] = {}
            for length in range(1, len(path)):
                self._waiting_below.setdefault(path[:length], set()).add(path)
        waiting.setdefault(entry.waits_for, []).append(entry)

    def _restore(self, step: int, difference: Difference) -> None:
        """Find the changes that are undone because this path has another value now."""
        path = difference.path
        if path in self._waiting:
            self._settle(step, path, difference.after)
        for length in range(len(path)):  # what stands above it has changed as a whole
            if path[:length] in self._waiting:
                self._settle(step, path[:length], self._value(path[:length]))
        # it came or went with all below it
        below = self._waiting_below.get(path, ()) if path else [at for at in self._waiting if at]
        for at in list(below):
            self._settle(step, at, self._value(at))

    def _settle(self, step: int, path: Path, value: Value) -> None:
        """Mark the changes at a path that waited for the value it has now."""
        waiting = self._waiting[path]
        text = _text(value)
        for entry in waiting.pop(text, ()):
            entry.restored_at = step
            entry.restored_after = self._last
            entry.to_initial = text == _text(_value_in(self._initial, path))
        if not waiting:
            del self._waiting[path]
            for length in range(1, len(path)):
                self._waiting_below[path[:length]].discard(path)

    def _value(self, path: Path) -> Value:
        return _value_in(self._parts, path)


def sections_of(state: Json) -> dict[str, bytes]:
    """A parsed state as `History.see` takes it."""
    return {name: canonical(value) for name, value in state.items()}


def derive(
    states: Iterable[tuple[int, Sections]], row_keys: Mapping[str, str | None] | None = None
) -> History:
    """The history of states given as (step, sections) in order."""
    history = History(row_keys)
    for step, state in states:
        history.see(step, state)
    return history


def sections_in(texts: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, Sections]]:
    """States given as (index, canonical JSON), as `History.see` takes them."""
    last, sections = b"", {}
    for index, text in texts:
        if text != last:  # many steps leave the state as it was
            last, sections = text, sections_of(parse(text))
        yield index, sections


def changes_of(episode: EpisodeEvidence) -> list[Change]:
    """Every change of an episode's state, in order of steps, then paths."""
    return history_of(episode).changes()


def history_of(episode: EpisodeEvidence) -> History:
    """The history of an episode, derived from its states under its recorded keys."""
    return derive(sections_in(episode.state_texts()), episode.data["row_keys"])


def diff(
    before: dict[str, Json],
    after: dict[str, Json],
    *,
    row_keys: Mapping[str, str | None] | None = None,
) -> list[Change]:
    """The changes from one state to another.

    Args:
        before: a state as portable JSON.
        after: the later state.
        row_keys: the keys of tables, by the JSON Pointer of the table; by default they are chosen
            from the names of columns.

    Returns:
        One change for each path whose value differs, in order of paths; `step` is 1 and `since` 0.

    Raises:
        TypeError: when a state is no dict.
        ValueError: when a state is not portable JSON.

    Example:
        >>> rows = [{"id": 1, "paid": False}, {"id": 2, "paid": False}]
        >>> after = [{"id": 2, "paid": False}, {"id": 1, "paid": True}]
        >>> [(c.path, c.before, c.after) for c in diff({"invoices": rows}, {"invoices": after})]
        [('/invoices/id=1/paid', False, True)]
    """
    for name, state in (("before", before), ("after", after)):
        if not isinstance(state, dict):
            raise TypeError(f"{name} must be a dict, not {type(state).__name__}")
    return derive([(0, sections_of(before)), (1, sections_of(after))], row_keys).changes()


@dataclass(slots=True)
class _Entry:
    """A change that may yet be restored."""

    step: int
    since: int
    difference: Difference
    waits_for: bytes | None = field(init=False)
    restored_at: int | None = None
    restored_after: int | None = None
    to_initial: bool | None = None

    def __post_init__(self) -> None:
        self.waits_for = _text(self.difference.before)

    def change(self) -> Change:
        return Change(
            step=self.step,
            since=self.since,
            path=pointer(self.difference.path),
            op=self.difference.op,
            before=self.difference.before,
            after=self.difference.after,
            restored_at=self.restored_at,
            restored_after=self.restored_after,
            to_initial=self.to_initial,
        )


class _Part:
    """One member of a state: its text, and what was made of it so far.

    Attributes:
        text: canonical JSON.
        by_key: of a table with a key whose rows can be told apart in the text, the text of each
            row by the value of its key.
        counts: of such a table without a key, how often each row's text is there.

    Both are handed on from state to state, and true of the latest.
    """

    __slots__ = ("_value", "by_key", "counts", "text")

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.by_key: dict[bytes, bytes] | None = None
        self.counts: Counter[bytes] | None = None
        self._value: Any = _UNPARSED

    @property
    def value(self) -> Json:
        """The parsed value."""
        if self._value is _UNPARSED:
            self._value = parse(self.text)
        return self._value

    def copy(self) -> _Part:
        """The same member, whose index stays as it is."""
        part = _Part(self.text)
        part.by_key = None if self.by_key is None else dict(self.by_key)
        part._value = self._value
        return part

    def index(self, path: Path, keys: Keys) -> None:
        """Tell the rows of a table apart, when its text allows it.

        As many pieces as rows means that every cut is between two rows.
        """
        if not is_table(self.value):
            return
        pieces = self.text[2:-2].split(b"},{")
        if len(pieces) != len(self.value):
            return
        key = keys.of(path)
        if key is not None:
            self.by_key = dict(zip(by_key(self.value, key, path), pieces, strict=True))
        else:
            self.counts = Counter(pieces)


_UNPARSED = object()


def _differences_of(path: Path, old: _Part, new: _Part, keys: Keys) -> list[Difference]:
    """The differences of one member of the state."""
    found = None
    if old.by_key is not None or old.counts is not None:
        found = _row_differences(path, old, new, keys)
    if found is None:
        keys.choose(_nest(path, new.value))
        found = compare(old.value, new.value, keys, path)
        new.index(path, keys)
    for difference in found:
        if type(difference.after) in (dict, list):
            row = isinstance(difference.path[-1], RowDigest)
            keys.require(difference.path, difference.after["row"] if row else difference.after)
    return found


def _row_differences(path: Path, old: _Part, new: _Part, keys: Keys) -> list[Difference] | None:
    """The differences of a table by the texts of its rows, or None when these do not tell.

    A cut inside a row's text or a nested list leaves a piece that is no object, and such a piece
    is not among the old ones, so that parsing the new ones is proof enough.
    """
    pieces = _pieces_that_differ(old.text, new.text)
    if pieces is None:
        return None
    gone, come = Counter(pieces[0]), Counter(pieces[1])
    try:
        rows = {piece: _row(piece) for piece, _ in gone.items() ^ come.items()}
    except ValueError:
        return None
    if any(type(value) in (dict, list) for row in rows.values() for value in row.values()):
        if old.counts is not None and any(map(holds_table, rows.values())):
            return None  # two texts may be one row
        keys.choose(_nest(path, list(rows.values())))
    if old.by_key is None:
        found = _count_differences(path, old, gone, come, rows)
    else:
        found = _keyed_differences(path, old.by_key, gone, come, rows, keys)
    new.by_key, new.counts = old.by_key, old.counts
    return found


def _count_differences(
    path: Path, old: _Part, gone: Counter[bytes], come: Counter[bytes], rows: dict[bytes, Json]
) -> list[Difference]:
    counts = old.counts
    assert counts is not None
    found = []
    for piece, row in rows.items():
        before = counts[piece]
        after = before - gone[piece] + come[piece]
        found.append(count_difference(path, row, before, after))
        if after:
            counts[piece] = after
        else:
            del counts[piece]
    return found


def _keyed_differences(
    path: Path,
    texts: dict[bytes, bytes],
    gone: Counter[bytes],
    come: Counter[bytes],
    rows: dict[bytes, Json],
    keys: Keys,
) -> list[Difference]:
    key = keys.of(path)
    assert key is not None
    before = {key_value(row[key]): row for piece, row in rows.items() if piece in gone}
    after: dict[bytes, tuple[bytes, Json]] = {}
    for piece, row in rows.items():
        if piece not in come:
            continue
        value = key_value(row.get(key))
        if value is None:
            raise KeyBroken(path, "is null or missing in a row")
        if value in after or come[piece] > 1 or (value in texts and value not in before):
            raise KeyBroken(path, f"is {value.decode()} in two rows")
        after[value] = (piece, row)
    found: list[Difference] = []
    for value, row in before.items():
        assert value is not None
        if value not in after:
            del texts[value]
            found.append(Difference((*path, RowKey(key, value)), row, ABSENT))
    for value, (piece, row) in after.items():
        at: Path = (*path, RowKey(key, value))
        texts[value] = piece
        if value in before:
            compare_objects(before[value], row, keys, at, found.append)
        else:
            found.append(Difference(at, ABSENT, row))
    return found


def _pieces_that_differ(old: bytes, new: bytes) -> tuple[list[bytes], list[bytes]] | None:
    """What stands between the braces of rows, without the rows that two tables begin and end with.

    The old text must be that of a table, cut at its rows by every ``},{``. None when the new one
    cannot be a table's.
    """
    if new[:2] != b"[{" or new[-2:] != b"}]":
        return None
    same = _common_prefix(old, new)
    # the first row that differs starts after a cut that both have
    start = max(old.rfind(b"},{", 0, same) + 3, 2)
    room = min(len(old), len(new)) - start
    same = _common_suffix(old, new, room)
    cut = old.find(b"},{", len(old) - same)
    end = len(old) - cut if cut >= 0 else 2
    return old[start : len(old) - end].split(b"},{"), new[start : len(new) - end].split(b"},{")


def _common_prefix(old: bytes, new: bytes) -> int:
    """How many bytes two texts begin with alike; slices compare as fast as memory does."""
    low, high = 0, min(len(old), len(new))
    while low < high:
        middle = (low + high + 1) // 2
        if old[low:middle] == new[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _common_suffix(old: bytes, new: bytes, room: int) -> int:
    """How many of the last bytes of two texts are alike, of as many as there is room for."""
    low, high = 0, room
    while low < high:
        middle = (low + high + 1) // 2
        if old[len(old) - middle : len(old) - low] == new[len(new) - middle : len(new) - low]:
            low = middle
        else:
            high = middle - 1
    return low


def _row(piece: bytes) -> Json:
    row = parse(b"{%b}" % piece)
    if not is_object(row):
        raise ValueError("a tagged value, not a row")
    return row


def _nest(path: Path, value: Json) -> Json:
    """A state that holds nothing but a value at a path of members."""
    for segment in reversed(path):
        value = {segment: value}
    return value


def _value_in(parts: Mapping[str, _Part], path: Path) -> Value:
    if not path:
        return {name: part.value for name, part in parts.items()}
    name, *rest = path
    part = None if TAG in parts else parts.get(name)  # type: ignore[arg-type]
    if part is None:
        return ABSENT
    if rest and part.by_key is not None and isinstance(rest[0], RowKey):
        piece = part.by_key.get(rest[0].value)
        return ABSENT if piece is None else value_at(_row(piece), tuple(rest[1:]))
    return value_at(part.value, tuple(rest))


def _text(value: Value) -> bytes | None:
    """The form under which two values are the same; None for `ABSENT`."""
    return None if value is ABSENT else normal(value)
