"""A state in parts: each member's text, compared as text as far as that tells what changed.

The text of a member that did not change is only compared. Of an object whose text did, the members
between the first and the last that differ are looked at; of a table, the rows between the first and
the last that differ are told apart in the text, and only those that are new or gone are parsed. So
a step costs what it changes, and little for what it leaves alone. Where the text does not tell, the
values are parsed and compared by `diff.compare`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from envbench.changes.diff import (
    Difference,
    Value,
    compare,
    compare_objects,
    count_difference,
    holds_table,
    value_at,
)
from envbench.changes.paths import Path, RowDigest, RowKey, key_value
from envbench.changes.tables import KeyBroken, Keys, by_key, is_object, is_table
from envbench.evidence.portable import Json, canonical, parse
from envbench.evidence.tagged import ABSENT, TAG

Texts = Mapping[str, bytes]
"""Canonical JSON of each member of an object."""

LARGE = 1_000
"""Objects of more bytes are compared member by member as text."""

NEAR = 128
"""To how many bytes the place is found where two texts begin to differ."""


class Part:
    """One member of a state: its text, and what was made of it so far.

    Attributes:
        text: canonical JSON.
        members: of a large object, its members.
        key: of a table, the name of its key.
        by_key: of a table with a key whose rows can be told apart in the text, the text of each
            row by the value of its key.
        counts: of such a table without a key, how often each row's text is there.
        cut: what stands between the texts of two rows: ``},{``, or ``},{"first":`` with the name of
            the first column, where rows have tables of their own in which ``},{`` stands too.

    `by_key` and `counts` are handed on from state to state, and true of the latest.
    """

    __slots__ = ("_value", "by_key", "counts", "cut", "key", "members", "text")

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.members: dict[str, Part] | None = None
        self.key: str | None = None
        self.by_key: dict[bytes, bytes] | None = None
        self.counts: Counter[bytes] | None = None
        self.cut = _CUT
        self._value: Any = _UNPARSED

    @property
    def value(self) -> Json:
        """The parsed value."""
        if self._value is _UNPARSED:
            self._value = parse(self.text)
        return self._value

    def copy(self) -> Part:
        """The same member, whose index stays as it is."""
        part = Part(self.text)
        part.key, part.cut = self.key, self.cut
        part.by_key = None if self.by_key is None else dict(self.by_key)
        if self.members is not None:
            part.members = {name: member.copy() for name, member in self.members.items()}
        part._value = self._value
        return part

    def meet(self, path: Path, keys: Keys) -> None:
        """Take in a member that was not there before.

        Raises:
            KeyBroken: when the key of a table that was there earlier does not hold.
        """
        if self.text[:1] in b"[{":
            keys.choose(_nest(path, self.value))
            keys.require(path, self.value)
            self.index(path, keys)

    def index(self, path: Path, keys: Keys) -> None:
        """Tell members or rows apart in the text, where it allows that."""
        if is_table(self.value):
            self._index_rows(path, keys)
        elif is_object(self.value) and len(self.text) > LARGE:
            members = {name: Part(canonical(self.value[name])) for name in sorted(self.value)}
            if _joined(members) == self.text:
                self.members = members
                for name, member in members.items():
                    member._value = self.value[name]
                    member.index((*path, name), keys)

    def _index_rows(self, path: Path, keys: Keys) -> None:
        pieces = self.text[2:-2].split(_CUT)
        if len(pieces) != len(self.value):
            cuts = set(map(_cut_before, self.value))
            if len(cuts) > 1:
                return
            (self.cut,) = cuts
            pieces = self.text[len(self.cut) - 1 : -2].split(self.cut)
        if len(pieces) != len(self.value):
            return  # as many pieces as rows means that every cut is between two rows
        self.key = keys.of(path)
        if self.key is None:
            self.counts = Counter(pieces)
        else:
            self.by_key = dict(zip(by_key(self.value, self.key, path), pieces, strict=True))


_UNPARSED = object()
_CUT = b"},{"


def compare_members(
    path: Path, old: dict[str, Part], texts: Texts, keys: Keys
) -> tuple[list[Difference], dict[str, Part]]:
    """What differs between the members of an object and their new texts, and the new members.

    Raises:
        KeyBroken: when the key of a table does not hold in the new texts.
    """
    found: list[Difference] = []
    new: dict[str, Part] = {}
    for name, text in texts.items():
        before = old.get(name)
        if before is None:
            part = new[name] = Part(text)
            part.meet((*path, name), keys)
            found.append(Difference((*path, name), ABSENT, part.value))
        elif before.text == text:
            new[name] = before
        else:
            part = new[name] = Part(text)
            found += _differences((*path, name), before, part, keys)
    for name, before in old.items():
        if name not in texts:
            found.append(Difference((*path, name), before.value, ABSENT))
    return found, new


def split_members(members: Mapping[str, Part], text: bytes) -> dict[str, bytes] | None:
    """The members of an object in its new text, told apart by those that are as they were.

    Only what stands between the first and the last that differ is parsed; when that is one member,
    as it seems, not even that: its text may prove to be none. None when the text does not tell.
    """
    if text[:1] != b"{" or text[-1:] != b"}" or len(text) < 3:
        return None
    old = list(members.items())
    first, last = 0, len(old)
    start, stop = 1, len(text) - 1
    while first < last:
        name, part = old[first]
        label = _label(name)
        end = start + len(label) + len(part.text)
        same = text.startswith(label, start) and text.startswith(part.text, start + len(label))
        if not same or not (end == stop or text[end : end + 1] == b","):
            break
        first += 1
        start = end + 1
    while first < last:
        name, part = old[last - 1]
        ending = b",%b%b" % (_label(name), part.text)
        if not text.endswith(ending, start, stop):
            break
        last -= 1
        stop -= len(ending)
    found = {name: part.text for name, part in old[:first]}
    between = text[start:stop]
    if last - first == 1 and between.startswith(_label(old[first][0])):
        name = old[first][0]
        found[name] = between[len(_label(name)) :]
    elif between:
        found |= {name: canonical(value) for name, value in parse(b"{%b}" % between).items()}
    found |= {name: part.text for name, part in old[last:]}
    return found


def value_in(parts: Mapping[str, Part], path: Path) -> Value:
    """What a state in parts holds at a path; the whole state at the empty one."""
    if not path:
        return {name: part.value for name, part in parts.items()}
    part = None if TAG in parts else parts.get(path[0])  # type: ignore[arg-type]
    return ABSENT if part is None else _value_of(part, path[1:])


def _value_of(part: Part, path: Path) -> Value:
    if path and part.members is not None:
        member = part.members.get(path[0])  # type: ignore[arg-type]
        return ABSENT if member is None else _value_of(member, path[1:])
    if path and part.by_key is not None:
        segment = path[0]
        if not isinstance(segment, RowKey) or segment.name != part.key:
            return ABSENT
        piece = part.by_key.get(segment.value)
        return ABSENT if piece is None else value_at(_rows([piece], part.cut)[0], path[1:])
    return value_at(part.value, path)


def _differences(path: Path, old: Part, new: Part, keys: Keys) -> list[Difference]:
    """The differences of one member, which is made ready for the next comparison."""
    try:
        found = _by_text(path, old, new, keys)
    except ValueError:  # the text of what seemed one member is that of several
        found = None
    if found is None:
        keys.choose(_nest(path, new.value))
        found = compare(old.value, new.value, keys, path)
        new.index(path, keys)
        for difference in found:
            if type(difference.after) in (dict, list):
                row = isinstance(difference.path[-1], RowDigest)
                keys.require(difference.path, difference.after["row"] if row else difference.after)
    return found


def _by_text(path: Path, old: Part, new: Part, keys: Keys) -> list[Difference] | None:
    """The differences as far as the texts tell them, else None."""
    if old.members is not None:
        texts = split_members(old.members, new.text)
        if texts is None or TAG in texts:
            return None
        found, new.members = compare_members(path, old.members, texts, keys)
        return found
    if old.by_key is not None:
        return _keyed_by_text(path, old, new, keys)
    return None if old.counts is None else _counted_by_text(path, old, new, keys)


def _keyed_by_text(path: Path, old: Part, new: Part, keys: Keys) -> list[Difference] | None:
    pieces = _pieces_that_differ(old.text, new.text, old.cut)
    if pieces is None:
        return None
    before, after = set(pieces[0]), set(pieces[1])
    if len(after) != len(pieces[1]):
        return None  # one row twice
    gone, come = list(before - after), list(after - before)
    rows = _rows(gone + come, old.cut)
    if len(rows) != len(gone) + len(come):
        return None
    nested = any(b"{" in piece or b"[" in piece for piece in come)
    if nested:
        keys.choose(_nest(path, rows[len(gone) :]))
    texts, key = old.by_key, old.key
    assert texts is not None
    assert key is not None
    was = {key_value(row[key]): row for row in rows[: len(gone)]}
    found: list[Difference] = []
    now = {}
    for row in rows[len(gone) :]:
        value = key_value(row.get(key))
        if value is None:
            raise KeyBroken(path, "is null or missing in a row")
        if value in now or (value in texts and value not in was):
            raise KeyBroken(path, f"is {value.decode()} in two rows")
        now[value] = row
    for value, row in was.items():
        assert value is not None
        if value not in now:
            found.append(Difference((*path, RowKey(key, value)), row, ABSENT))
    for value, row in now.items():
        at: Path = (*path, RowKey(key, value))
        if value in was:
            compare_objects(was[value], row, keys, at, found.append)
        else:
            found.append(Difference(at, ABSENT, row))
    if nested:
        for difference in found:
            keys.require(difference.path, difference.after)
    for value in was.keys() - now.keys():
        del texts[value]  # type: ignore[arg-type]
    texts.update(zip(now, come, strict=True))
    new.key, new.by_key, new.cut = key, texts, old.cut
    return found


def _counted_by_text(path: Path, old: Part, new: Part, keys: Keys) -> list[Difference] | None:
    pieces = _pieces_that_differ(old.text, new.text, old.cut)
    if pieces is None:
        return None
    gone, come = Counter(pieces[0]), Counter(pieces[1])
    differ = list({piece for piece, _ in gone.items() ^ come.items()})
    rows = _rows(differ, old.cut)
    if len(rows) != len(differ) or any(map(holds_table, rows)):
        return None  # with tables in them, two texts may be one row
    counts = old.counts
    assert counts is not None
    found = []
    for piece, row in zip(differ, rows, strict=True):
        before = counts[piece]
        after = before - gone[piece] + come[piece]
        found.append(count_difference(path, row, before, after))
        if after:
            counts[piece] = after
        else:
            del counts[piece]
    new.counts, new.cut = counts, old.cut
    return found


def _pieces_that_differ(
    old: bytes, new: bytes, cut: bytes
) -> tuple[list[bytes], list[bytes]] | None:
    """The texts of rows between two cuts, without rows that two tables begin and end with.

    The old text must be that of a table, cut at its rows and nowhere else. None when the new one
    cannot be a table's that is cut so.
    """
    begin = len(cut) - 1
    if not new.startswith(cut[2:], 1) or new[:1] != b"[" or new[-2:] != b"}]":
        return None
    same = _common_prefix(old, new)
    # the first row that differs starts after a cut that both have
    at = old.rfind(cut, 0, same)
    start = begin if at < 0 else at + len(cut)
    same = _common_suffix(old, new, min(len(old), len(new)) - start)
    at = old.find(cut, len(old) - same)
    end = 2 if at < 0 else len(old) - at
    return old[start : len(old) - end].split(cut), new[start : len(new) - end].split(cut)


def _common_prefix(old: bytes, new: bytes) -> int:
    """About how many bytes two texts begin with alike; slices compare as fast as memory does."""
    low, high = 0, min(len(old), len(new))
    while high - low > NEAR:
        middle = (low + high) // 2
        if old[low:middle] == new[low:middle]:
            low = middle
        else:
            high = middle
    return low


def _common_suffix(old: bytes, new: bytes, room: int) -> int:
    """About how many of the last bytes are alike, of as many as there is room for."""
    low, high = 0, room
    to_old, to_new = len(old), len(new)
    while high - low > NEAR:
        middle = (low + high) // 2
        if old[to_old - middle : to_old - low] == new[to_new - middle : to_new - low]:
            low = middle
        else:
            high = middle
    return low


def _rows(pieces: list[bytes], cut: bytes) -> list[Any]:
    """Rows from their texts; fewer when a piece is not all of a row, but cut out of one."""
    if not pieces:
        return []
    rows: list[Any] = parse(b"[%b%b}]" % (cut[2:], cut.join(pieces)))
    if not is_table(rows) or (cut != _CUT and any(_cut_before(row) != cut for row in rows)):
        return []
    return rows


def _cut_before(row: dict[str, Json]) -> bytes:
    """What stands between the text of a row and that of the one before it."""
    return _CUT + _label(min(row)) if row else _CUT


@lru_cache(maxsize=10_000)
def _label(name: str) -> bytes:
    return b"%b:" % canonical(name)


def _joined(members: Mapping[str, Part]) -> bytes:
    return b"{%b}" % b",".join(_label(name) + part.text for name, part in members.items())


def _nest(path: Path, value: Json) -> Json:
    """A state that holds nothing but a value at a path of members."""
    for segment in reversed(path):
        value = {segment: value}
    return value
