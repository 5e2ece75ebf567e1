"""Differences of two states: applied to the first they give the second."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from envbench.changes import ABSENT
from envbench.changes.diff import compare, digest_of, normal, value_at
from envbench.changes.history import derive
from envbench.changes.paths import RowDigest, RowKey, key_value
from envbench.evidence.portable import canonical
from tests.changes.states import dense_episode, episodes

PAIRS = st.integers(0, 2**40).map(lambda seed: dense_episode(Random(seed))[:2]) | episodes()


def compared(before, after):
    """The differences, in typed paths, under the keys that hold in both states."""
    history = derive([(0, canonical(before)), (1, canonical(after))])
    return history, compare(before, after, history.keys)


def apply(state: Any, differences: Any) -> Any:
    """The state after the differences, by the meaning of paths alone."""
    state = copy.deepcopy(state)
    # from the last position on, so that positions before it stay what they are; additions forwards
    removals = [d for d in differences if d.after is ABSENT]
    for difference in [*reversed(removals), *[d for d in differences if d.after is not ABSENT]]:
        *above, last = difference.path or ("",)
        if not difference.path:
            return difference.after
        node = state
        for segment in above:
            node = child(node, segment)
        put(node, last, difference.after)
    return state


def child(node, segment):
    if isinstance(segment, RowKey):
        return next(row for row in node if key_value(row.get(segment.name)) == segment.value)
    return node[segment]


def put(node, segment, value):
    if isinstance(segment, RowKey | RowDigest):
        node[:] = [row for row in node if not is_at(row, segment)]
        if isinstance(segment, RowKey):
            node += [] if value is ABSENT else [value]
        else:
            node += [] if value is ABSENT else [value["row"]] * value["count"]
    elif value is ABSENT:
        del node[segment]
    elif isinstance(node, list) and segment == len(node):
        node.append(value)
    else:
        node[segment] = value


def is_at(row, segment):
    if isinstance(segment, RowDigest):
        return digest_of(row) == segment
    return key_value(row.get(segment.name)) == segment.value


@settings(max_examples=200)
@given(PAIRS)
def test_differences_applied_to_the_first_state_give_the_second(states):
    before, after = states[0][1], states[-1][1]
    _, differences = compared(before, after)
    # up to the order of tables, which is no difference
    assert normal(apply(before, differences)) == normal(after)


@settings(max_examples=100)
@given(PAIRS)
def test_differences_the_other_way_are_the_same_reversed(states):
    before, after = states[0][1], states[-1][1]
    history, differences = compared(before, after)
    back = compare(after, before, history.keys)
    reverse = {"add": "remove", "remove": "add", "edit": "edit"}
    assert sorted((repr(d.path), reverse[d.op]) for d in differences) == sorted(
        (repr(d.path), d.op) for d in back
    )


@settings(max_examples=50)
@given(PAIRS)
def test_a_state_does_not_differ_from_itself(states):
    state = states[0][1]
    assert compared(state, copy.deepcopy(state))[1] == []


@settings(max_examples=100)
@given(PAIRS)
def test_the_values_of_a_difference_stand_at_its_path(states):
    before, after = states[0][1], states[-1][1]
    for difference in compared(before, after)[1]:
        for state, value in ((before, difference.before), (after, difference.after)):
            there = value_at(state, difference.path)
            assert (there is ABSENT) == (value is ABSENT)
            assert value is ABSENT or normal(there) == normal(value)
