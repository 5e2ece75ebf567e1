"""Comparing by text: where it could be wrong, it says the same as comparing by value."""

from __future__ import annotations

import copy
import json
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envbench.changes.diff import compare
from envbench.changes.history import History, sections_of
from envbench.changes.parts import LARGE, Part, split_members
from envbench.changes.tables import Keys
from envbench.evidence.portable import canonical, parse


def by_text(*states):
    history = History()
    for step, state in enumerate(states):
        history.see(step, sections_of(state))
    return [(c.step, c.path, c.before, c.after) for c in history.changes()]


def test_rows_whose_text_holds_what_stands_between_rows():
    def state(n):
        return {"t": [{"id": 1, "x": '},{"id":9'}, {"id": 2, "x": n, "y": [{"a": 1}, {"a": 2}]}]}

    assert by_text(state(1), state(2)) == [(1, "/t/id=2/x", 1, 2)]


def test_rows_of_which_one_has_not_the_first_column():
    # cut at `},{"a":`, there are two pieces and two rows, and the cut is inside the first row
    rows = [{"a": 1, "t": [{"x": 1}, {"a": 2}]}, {"b": 3}]
    changed = copy.deepcopy(rows)
    changed[0]["t"][1]["a"] = 5
    assert len(by_text({"t": rows}, {"t": changed})) == 2  # no key: one row went, one came
    keyed = [{"a": 1, "id": 1, "t": [{"x": 1}, {"a": 2}]}, {"b": 3, "id": 2}]
    later = [{"a": 1, "id": 1, "t": [{"x": 1}, {"a": 2}]}, {"b": 4, "id": 2}]
    assert by_text({"t": keyed}, {"t": later}) == [(1, "/t/id=2/b", 3, 4)]


def test_a_list_that_only_looks_like_a_table_in_its_text():
    before = [{"a": [{}, {}, {}]}, 1, {}]
    after = [{"a": [{}, {"x": 1}, {}]}, 1, {}]
    # a multiset inside, whose row `{}` is there twice instead of three times
    assert [(c[0], c[1].split("#")[0]) for c in by_text({"t": before}, {"t": after})] == [
        (1, "/t/0/a/"),
        (1, "/t/0/a/"),
    ]


def test_rows_that_differ_in_the_order_of_a_table_in_them_are_one_row():
    plain = {"t": [{"a": 1}, {"a": 2}]}
    nested = {"t": [{"a": 1}, {"a": 2, "i": [{"n": 1}, {"n": 2}]}]}
    reordered = {"t": [{"a": 1}, {"a": 2, "i": [{"n": 2}, {"n": 1}]}]}
    assert len(by_text(plain, nested)) == 2
    assert by_text(nested, reordered) == []
    assert len(by_text(plain, nested, reordered)) == 2


def test_empty_rows_and_tables_of_one_row():
    assert len(by_text({"t": [{}]}, {"t": [{}, {}]})) == 1
    assert by_text({"t": [{"id": 1}]}, {"t": [{"id": 1}]}) == []
    assert by_text({"t": [{"id": 1}]}, {"t": [{"id": 2}]}) == [
        (1, "/t/id=1", {"id": 1}, by_text({"t": []}, {"t": [{"id": 2}]})[0][2]),
        (1, "/t/id=2", by_text({"t": []}, {"t": [{"id": 2}]})[0][2], {"id": 2}),
    ]


def test_members_of_a_large_object_are_told_apart_in_its_text():
    filler = "x" * LARGE

    def state(**members):
        return {"w": {"filler": filler, **members}}

    assert by_text(state(a=1, z=1), state(a=2, z=1)) == [(1, "/w/a", 1, 2)]
    assert by_text(state(a=1, z=1), state(a=1, z=10)) == [(1, "/w/z", 1, 10)]
    assert [c[1] for c in by_text(state(a=1, z=1), state(b=1, z=1))] == ["/w/a", "/w/b"]
    # the text of what seems to be one member is that of two
    assert [c[1] for c in by_text(state(a={"b": 1}, z=1), state(a={"b": 1}, c={"b": 1}, z=1))] == [
        "/w/c"
    ]
    assert [c[1] for c in by_text(state(a={"b": 1}), state(a={"b": 2}, aa={"b": 1}))] == [
        "/w/a/b",
        "/w/aa",
    ]


@pytest.mark.parametrize("text", [b"[]", b"{}", b"1", b'"{}"'])
def test_what_is_no_object_with_members_has_none(text):
    assert split_members({"a": Part(b"1")}, text) is None


WORLDS = st.recursive(
    st.sampled_from([0, 1, 1.0, True, None, "", ",", '"a":', "},{", '{"a":1}']),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "", "id", '"', ",a"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=200)
@given(st.dictionaries(st.sampled_from("abcd"), WORLDS, max_size=4), st.randoms())
def test_members_split_by_text_are_those_of_the_value(before, random: Random):
    after = altered(before, random)
    members = {name: Part(canonical(before[name])) for name in sorted(before)}
    try:
        found = split_members(members, canonical(after))
    except ValueError:
        return
    if found is not None:
        try:
            values = {name: parse(text) for name, text in found.items()}
        except ValueError:
            return  # the text of several members, which whoever parses it finds out
        assert canonical(values) == canonical(after)


@settings(max_examples=200)
@given(WORLDS, st.randoms())
def test_the_text_tells_what_the_values_tell(before, random: Random):
    filler = {"filler": "x" * LARGE}
    states = [{"w": {**filler, "v": before}}]
    for _ in range(3):
        states.append({"w": {**filler, "v": altered(states[-1]["w"]["v"], random)}})
    history = History()
    for step, state in enumerate(states):
        history.see(step, sections_of(state))
    if history.keys.issues:
        return
    found = [(c.step, c.path, c.before, c.after) for c in history.changes()]
    keys = Keys(chosen=history.row_keys)
    expected = [
        (step, difference.before, difference.after)
        for step, (one, other) in enumerate(pairwise(states), 1)
        for difference in compare(one, other, keys)
    ]
    assert printed((step, *values) for step, _, *values in found) == printed(expected)


def printed(differences):
    return sorted(json.dumps(each, sort_keys=True, default=str) for each in differences)


def altered(value, random: Random):
    """A value with something small changed in it."""
    value = copy.deepcopy(value)
    if isinstance(value, dict) and value and random.random() < 0.8:
        name = random.choice(sorted(value))
        if random.random() < 0.3:
            del value[name]
        else:
            value[name] = altered(value[name], random)
        return value
    if isinstance(value, list) and value and random.random() < 0.8:
        i = random.randrange(len(value))
        value[i] = altered(value[i], random)
        return value
    return random.choice([0, 1, 1.0, "new", {"a": 1}, [{"a": 1}, {"a": 2}], [], {}])
