"""The history against the slow reference, on random episodes."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from envbench.changes.history import History, derive, sections_of
from envbench.changes.paths import Path, RowDigest, RowKey
from envbench.evidence.portable import canonical
from envbench.evidence.tagged import ABSENT
from tests.changes import reference
from tests.changes.states import dense_episode, episodes


def typed(path: Path) -> tuple[Any, ...]:
    """A path as the reference writes it."""
    found: list[Any] = []
    for segment in path:
        if isinstance(segment, RowKey):
            found.append(("row", segment.name, segment.value.decode()))
        elif isinstance(segment, RowDigest):
            found.append(("digest", segment.digest))
        else:
            found.append(("position" if isinstance(segment, int) else "member", segment))
    return tuple(found)


def form(value: Any) -> str:
    return reference.form(reference.ABSENT if value is ABSENT else value)


def times(change: Any) -> list[Any]:
    names = ("step", "since", "restored_at", "restored_after", "to_initial")
    return [getattr(change, name) for name in names]


def comparable(history: History) -> list[Any]:
    return [
        (typed(at), c.path, form(c.before), form(c.after), *times(c)) for c, at in history.entries
    ]


@settings(max_examples=40)
@given(episodes())
def test_every_change_is_the_one_the_definitions_give(states):
    check(states)


@settings(max_examples=600)
@given(st.integers(0, 2**40).map(Random).map(dense_episode))
def test_every_change_among_few_values_is_the_one_the_definitions_give(states):
    check(states)


def check(states):
    history = History()
    for step, state in states:
        history.see(step, sections_of(state))
    expected = [
        (c.at, reference.spell(c.at), form(c.before), form(c.after), *times(c))
        for c in reference.changes(states)
    ]
    assert comparable(history) == expected
    from_texts = derive((step, canonical(state)) for step, state in states)
    assert from_texts.changes() == history.changes()
    assert history.row_keys == reference.choose_keys([state for _, state in states], {})
