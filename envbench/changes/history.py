"""The history of an episode's state: every change, and whether and when it was undone.

States are seen one after another in canonical form; `parts` finds what differs between two of them.
A change waits for the value that was there before it, under its path, until that comes back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from envbench.changes.diff import Difference, Value, normal
from envbench.changes.parts import Part, compare_members, split_members, value_in
from envbench.changes.paths import Path, Segment, pointer
from envbench.changes.tables import KeyBroken, Keys
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
        self._last: int | None
        self._last_text: bytes | None
        self._begin()

    def see(self, step: int, state: Sections) -> None:
        """See the state after a step; steps come in order, those without a state are left out."""
        try:
            self._see(step, state)
        except KeyBroken as broken:
            self.keys.demote(broken.path, step, broken.reason)
            self.lost = self._seen is None
            self._see_again([*(self._seen or ()), (step, state)])
        if self._seen is not None:
            self._seen.append((step, state))

    def see_text(self, step: int, text: bytes) -> None:
        """See a state given as canonical JSON; `see` is for one that is in sections already."""
        if text == self._last_text:  # many steps leave the state as it was
            self._last = step
            if self._seen is not None:
                self._seen.append((step, self._seen[-1][1]))
            return
        self._last_text = text
        try:
            sections = None if TAG in self._parts else split_members(self._parts, text)
            if sections is not None:
                self.see(step, sections)
                return
        except ValueError:  # what seemed to be one member's text was that of several
            pass
        self.see(step, sections_of(parse(text)))

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
        self._last = None
        self._last_text = None
        self._initial: dict[str, Part] = {}
        self._parts: dict[str, Part] = {}
        self._entries: list[_Entry] = []
        self._places = _Place(())

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
            self._parts = self._met(state)
            self._initial = {name: part.copy() for name, part in self._parts.items()}
        else:
            differences = self._differences(state)
            if differences:
                self._record(step, differences)
        self._last = step

    def _met(self, state: Sections) -> dict[str, Part]:
        """The parts of a state of which nothing was there before."""
        parts = {name: Part(text) for name, text in state.items()}
        if TAG not in state:
            for name, part in parts.items():
                part.meet((name,), self.keys)
        return parts

    def _differences(self, state: Sections) -> list[Difference]:
        """What differs from the state before; the parts become those of the new state."""
        if TAG in state or TAG in self._parts:
            return self._difference_of_wholes(state)
        found, self._parts = compare_members((), self._parts, state, self.keys)
        return found

    def _difference_of_wholes(self, state: Sections) -> list[Difference]:
        old = self._parts
        if {name: part.text for name, part in old.items()} == state:
            return []
        self._parts = self._met(state)
        return [Difference((), value_in(old, ()), value_in(self._parts, ()))]

    def _record(self, step: int, differences: list[Difference]) -> None:
        assert self._last is not None
        if len(differences) > 1:
            differences.sort(key=lambda difference: pointer(difference.path))
        places = [self._restore(step, difference) for difference in differences]
        for place, difference in zip(places, differences, strict=True):
            entry = _Entry(step, self._last, difference)
            place.waiting.setdefault(_text(difference.before), []).append(entry)
            self._entries.append(entry)

    def _restore(self, step: int, difference: Difference) -> _Place:
        """Find the changes that are undone because a path has another value now.

        Returns:
            The place of the path.
        """
        place = self._places
        for segment in difference.path:
            if (
                place.waiting and place.waits_for_more
            ):  # what stands above it has changed as a whole
                self._settle(step, place, value_in(self._parts, place.path))
            place = place.below(segment)
        if place.waiting:
            self._settle(step, place, difference.after)
        for lower in place.all_below():  # they came or went with it
            if lower.waiting:
                self._settle(step, lower, value_in(self._parts, lower.path))
        return place

    def _settle(self, step: int, place: _Place, value: Value) -> None:
        """Mark the changes at a place that waited for the value it has now."""
        text = _text(value)
        undone = place.waiting.pop(text, None)
        if undone is None:
            return
        if place.initial is _UNKNOWN:
            place.initial = _text(value_in(self._initial, place.path))
        for entry in undone:
            entry.restored_at = step
            entry.restored_after = self._last
            entry.to_initial = text == place.initial


def sections_of(state: Json) -> dict[str, bytes]:
    """A parsed state as `History.see` takes it."""
    return {name: canonical(value) for name, value in state.items()}


def derive(
    states: Iterable[tuple[int, bytes]], row_keys: Mapping[str, str | None] | None = None
) -> History:
    """The history of states given as (step, canonical JSON) in order."""
    history = History(row_keys)
    for step, text in states:
        history.see_text(step, text)
    return history


def changes_of(episode: EpisodeEvidence) -> list[Change]:
    """Every change of an episode's state, in order of steps, then paths."""
    return history_of(episode).changes()


def history_of(episode: EpisodeEvidence) -> History:
    """The history of an episode, derived from its states under its recorded keys."""
    return derive(episode.state_texts(), episode.data["row_keys"])


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
    return derive([(0, canonical(before)), (1, canonical(after))], row_keys).changes()


class _Place:
    """A path at which something changed, and the changes there that may yet be restored.

    Attributes:
        path: where.
        waiting: changes by the form of the value that was there before them.
        initial: the form of the value that was there at first, once that was asked for.
        places: the places one segment below.
    """

    __slots__ = ("initial", "path", "places", "waiting")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.waiting: dict[bytes | None, list[_Entry]] = {}
        self.initial: Any = _UNKNOWN
        self.places: dict[Segment, _Place] = {}

    def below(self, segment: Segment) -> _Place:
        """The place of a segment below this one; made when it is not there."""
        place = self.places.get(segment)
        if place is None:
            place = self.places[segment] = _Place((*self.path, segment))
        return place

    def all_below(self) -> Iterator[_Place]:
        """Every place below this one."""
        for place in self.places.values():
            yield place
            yield from place.all_below()

    @property
    def waits_for_more(self) -> bool:
        """Whether a change here waits for an object or a list: for what has something below it."""
        return any(text is not None and text[:1] in b"{[" for text in self.waiting)


_UNKNOWN = object()


@dataclass(slots=True)
class _Entry:
    """A change that may yet be restored."""

    step: int
    since: int
    difference: Difference
    restored_at: int | None = None
    restored_after: int | None = None
    to_initial: bool | None = None

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


def _text(value: Value) -> bytes | None:
    """The form under which two values are the same; None for `ABSENT`."""
    return None if value is ABSENT else normal(value)
