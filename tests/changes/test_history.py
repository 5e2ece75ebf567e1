"""Changes and restorations, worked out by hand: every sentence of the design on them."""

from __future__ import annotations

import numpy as np
import pytest

from envbench.changes import ABSENT, changes_of, diff
from envbench.changes.history import History, derive
from envbench.changes.paths import RowDigest, RowKey
from envbench.evidence.portable import canonical


def history(*states, row_keys=None, steps=None):
    """The changes of states seen at steps 0, 1, 2 and so on; None for one that was not seen."""
    seen = [(i, canonical(state)) for i, state in enumerate(states) if state is not None]
    return derive(seen, row_keys).changes()


def short(changes):
    return [(c.step, c.path, c.before, c.after) for c in changes]


def restored(changes):
    return [(c.step, c.path, c.restored_at, c.to_initial) for c in changes]


def table(*rows):
    return {"t": [dict(zip(("id", "n"), row, strict=True)) for row in rows]}


# -- the cases of row 7 ----------------------------------------------------------------------------


def test_a_protected_row_changed_at_step_2_and_restored_at_step_4():
    a, b = table((1, 0), (2, 0)), table((1, 9), (2, 0))
    (changed, back) = history(a, a, b, b, a)
    assert (changed.step, changed.path, changed.before, changed.after) == (2, "/t/id=1/n", 0, 9)
    assert (changed.restored_at, changed.restored_after, changed.to_initial) == (4, 3, True)
    assert (back.step, back.before, back.after, back.restored_at) == (4, 9, 0, None)


def test_deleted_and_put_back():
    (gone, back) = history(table((1, 0), (2, 0)), table((2, 0)), table((2, 0), (1, 0)))
    assert (gone.path, gone.op, gone.after) == ("/t/id=1", "remove", ABSENT)
    assert (gone.before, gone.restored_at, gone.to_initial) == ({"id": 1, "n": 0}, 2, True)
    assert (back.op, back.before, back.restored_at) == ("add", ABSENT, None)


def test_put_back_under_a_new_id():
    found = history(table((1, 0)), {"t": []}, table((2, 0)))
    assert restored(found) == [(1, "/t/id=1", None, None), (2, "/t/id=2", None, None)]


def test_two_rows_contents_swapped():
    assert short(history(table((1, "a"), (2, "b")), table((1, "b"), (2, "a")))) == [
        (1, "/t/id=1/n", "a", "b"),
        (1, "/t/id=2/n", "b", "a"),
    ]


def test_aab_becomes_abb():
    a, b = {"v": "a"}, {"v": "b"}
    found = history({"t": [a, a, b]}, {"t": [a, b, b]})
    # the first 16 digits that sha256sum prints for {"v":"a"} and {"v":"b"}
    assert {(c.path, c.before["count"], c.after["count"]) for c in found} == {
        ("/t/#ece1fa5e6f63aea7", 2, 1),
        ("/t/#1b00ede16212c7a5", 1, 2),
    }
    # a list of scalars goes by position
    assert short(history({"t": ["A", "A", "B"]}, {"t": ["A", "B", "B"]})) == [(1, "/t/1", "A", "B")]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, 0),
        (True, 1),
        (1, 1.0),
        (0, False),
        ("", None),
        (0.0, -0.0),
        (2**53, 2**53 + 1),
        (10**30, 10**30 + 1),
        (1e16, 10**16),
        ("1", 1),
        ([], None),
        ({}, []),
        ([], ""),
    ],
)
def test_values_that_look_alike_are_told_apart(before, after):
    assert short(history(table((1, before)), table((1, after)))) == [
        (1, "/t/id=1/n", before, after)
    ]
    assert [type(value) for value in short(history({"n": before}, {"n": after}))[0][2:]] == [
        type(before),
        type(after),
    ]


# -- restorations ----------------------------------------------------------------------------------


def test_a_b_c_a_restores_the_first_change_only():
    found = history({"n": "A"}, {"n": "B"}, {"n": "C"}, {"n": "A"})
    assert restored(found) == [(1, "/n", 3, True), (2, "/n", None, None), (3, "/n", None, None)]


def test_a_b_a_b_restores_each_at_the_first_return():
    found = history({"n": "A"}, {"n": "B"}, {"n": "A"}, {"n": "B"})
    assert restored(found) == [(1, "/n", 2, True), (2, "/n", 3, False), (3, "/n", None, None)]


def test_a_row_added_altered_and_altered_back_is_restored_though_it_was_never_initial():
    found = history({"t": []}, table((1, 0)), table((1, 5)), table((1, 0)))
    assert restored(found) == [
        (1, "/t/id=1", None, None),
        (2, "/t/id=1/n", 3, False),
        (3, "/t/id=1/n", None, None),
    ]


def test_a_row_that_came_and_went_is_restored_to_its_absence():
    assert restored(history({"t": []}, table((1, 0)), {"t": []})) == [
        (1, "/t/id=1", 2, True),
        (2, "/t/id=1", None, None),
    ]


def test_a_row_that_comes_back_otherwise_is_restored_when_its_cells_are():
    found = history(table((1, 0)), {"t": []}, table((1, 5)), table((1, 0)))
    assert restored(found) == [
        (1, "/t/id=1", 3, True),
        (2, "/t/id=1", None, None),
        (3, "/t/id=1/n", None, None),
    ]


def test_a_cell_is_restored_when_its_row_comes_back():
    found = history(table((1, 0)), table((1, 5)), {"t": []}, table((1, 0)))
    assert restored(found)[0] == (1, "/t/id=1/n", 3, True)


def test_a_change_that_was_not_seen_is_not_assumed():
    found = history({"n": 1}, None, {"n": 2}, None, None, {"n": 1})
    assert [(c.step, c.since, c.restored_after, c.restored_at) for c in found] == [
        (2, 0, 2, 5),
        (5, 2, None, None),
    ]


def test_without_an_initial_state_the_first_one_seen_is_the_reference():
    found = history(None, {"n": 1}, {"n": 2}, {"n": 1})
    assert [(c.step, c.since, c.restored_at, c.to_initial) for c in found] == [
        (2, 1, 3, True),
        (3, 2, None, None),
    ]


def test_no_states_and_one_state_have_no_changes():
    assert history() == []
    assert history({"n": 1}) == []


# -- what one change is ----------------------------------------------------------------------------


def test_what_appears_vanishes_or_changes_type_is_one_change():
    big = {"a": {"b": [1, 2]}, "t": [{"id": 1}]}
    assert short(history({}, {"x": big})) == [(1, "/x", ABSENT, big)]
    assert short(history({"x": big}, {})) == [(1, "/x", big, ABSENT)]
    assert short(history({"x": big}, {"x": [big]})) == [(1, "/x", big, [big])]
    assert short(history({"x": [1, 2]}, {"x": [{"id": 1}]})) == [(1, "/x", [1, 2], [{"id": 1}])]


def test_an_empty_list_is_neither_absent_nor_of_a_type():
    assert short(history({"t": []}, {})) == [(1, "/t", [], ABSENT)]
    assert short(history({"t": []}, table((1, 0)))) == [(1, "/t/id=1", ABSENT, {"id": 1, "n": 0})]
    assert short(history({"t": []}, {"t": [1]})) == [(1, "/t/0", ABSENT, 1)]


def test_lists_of_scalars_of_lists_and_mixed_ones_go_by_position():
    assert short(history({"l": [1, 2, 3]}, {"l": [1, 5]})) == [
        (1, "/l/1", 2, 5),
        (1, "/l/2", 3, ABSENT),
    ]
    assert short(history({"l": [[1], [2]]}, {"l": [[1], [3]]})) == [(1, "/l/1/0", 2, 3)]
    assert short(history({"l": [{"a": 1}, 2]}, {"l": [{"a": 3}, 2]})) == [(1, "/l/0/a", 1, 3)]


def test_rows_of_an_unkeyed_table_are_counted():
    row = {"v": 1}
    path = "/t/#afbf9d0f3560b0fd"  # of {"v":1}
    (more,) = history({"t": [row]}, {"t": [row, row, row]})
    assert (more.path, more.op) == (path, "edit")
    assert (more.before, more.after) == ({"row": row, "count": 1}, {"row": row, "count": 3})
    (gone, back) = history({"t": [row, {"v": 2}]}, {"t": [{"v": 2}]}, {"t": [{"v": 2}, row]})
    assert (gone.path, gone.before, gone.after) == (path, {"row": row, "count": 1}, ABSENT)
    assert (gone.restored_at, back.op) == (2, "add")


def test_the_order_of_rows_is_no_change():
    assert history(table((1, 0), (2, 0)), table((2, 0), (1, 0))) == []
    assert history({"t": [{"v": 1}, {"v": 2}]}, {"t": [{"v": 2}, {"v": 1}]}) == []


def test_nested_tables_have_keys_for_their_pattern_and_no_order():
    def orders(*items):
        return {"orders": [{"id": 7, "items": [{"item_id": i, "n": n} for i, n in items]}]}

    assert history(orders((1, 0), (2, 0)), orders((2, 0), (1, 0))) == []
    assert short(history(orders((1, 0)), orders((1, 5)))) == [
        (1, "/orders/id=7/items/item_id=1/n", 0, 5)
    ]
    # a row without a key is the same when only its own tables are in another order
    loose = [{"i": [{"n": 1}, {"n": 2}]}], [{"i": [{"n": 2}, {"n": 1}]}]
    assert history({"t": loose[0]}, {"t": loose[1]}) == []
    assert history({"t": loose[0] * 2}, {"t": [*loose[0], *loose[1]]}) == []


def test_a_tagged_value_is_one_leaf():
    before, after = {"$envbench": "set", "items": [1]}, {"$envbench": "set", "items": [2]}
    assert short(history({"x": before}, {"x": after})) == [(1, "/x", before, after)]
    nan = {"$envbench": "float", "value": "nan"}
    assert history({"x": nan, "y": 1}, {"x": nan, "y": 1}) == []


def test_a_state_that_is_one_tagged_value_changes_as_a_whole():
    one, two = ({"$envbench": "dict", "items": [[1, n]]} for n in (1, 2))
    found = history(one, two, one, {"n": 1}, one)
    assert [(c.step, c.path, c.restored_at) for c in found] == [
        (1, "", 2),
        (2, "", None),
        (3, "", 4),
        (4, "", None),
    ]


def test_states_of_live_objects_arrays_bytes_and_nan(episode):
    def state(raw, array):
        return {"raw": raw, "x": float("nan"), "big": np.full(2_000, array), "s": np.float32(1)}

    found = changes_of(episode(state(b"a", 1), state(b"b", 1), state(b"a", 2)))
    assert [(c.step, c.path, c.restored_at) for c in found] == [
        (1, "/raw", 2),
        (2, "/big", None),
        (2, "/raw", None),
    ]


def test_a_change_seen_only_at_the_end_has_the_next_index(episode):
    (change,) = changes_of(episode({"n": 1}, {"n": 1}, final={"n": 2}))
    assert (change.step, change.since) == (2, 1)


# -- keys ------------------------------------------------------------------------------------------


def keys_of(*states, row_keys=None):
    seen = History(row_keys)
    for step, state in enumerate(states):
        seen.see_text(step, canonical(state))
    return seen


def test_a_late_duplicate_or_null_key_makes_the_table_a_multiset_from_the_start():
    first = {"t": [{"id": 1, "n": 0}, {"id": 2, "n": 0}], "u": [{"id": 1, "n": 0}]}
    second = {"t": [{"id": 1, "n": 5}, {"id": 2, "n": 0}], "u": [{"id": 1, "n": 5}]}
    for broken in ({"id": 2, "n": 7}, {"id": None, "n": 7}, {"n": 7}, {"id": 1, "n": 5}):
        third = {"t": [*second["t"], broken], "u": second["u"]}
        seen = keys_of(first, second, third)
        assert seen.row_keys == {"/t": None, "/u": "id"}
        assert len(seen.keys.issues) == 1
        assert seen.keys.issues[0].startswith("note: /t: at step 2 the key 'id' is ")
        paths = [change.path for change in seen.changes()]
        assert [path.split("#")[0] for path in paths] == ["/t/", "/t/", "/u/id=1/n", "/t/"]


def test_a_key_that_breaks_in_a_row_that_comes_as_a_whole_is_noticed():
    one = {"orders": [{"id": 1, "items": [{"sku": 1, "item_id": 1}]}]}
    two = {"orders": [*one["orders"], {"id": 2, "items": [{"item_id": 1}, {"item_id": 1}]}]}
    assert keys_of(one, two).row_keys == {"/orders": "id", "/orders/*/items": None}
    gone = keys_of(table((1, 0)), {}, table((1, 0), (1, 1)))
    assert gone.row_keys == {"/t": None}


def test_after_forgetting_a_broken_key_makes_the_history_lost():
    seen = keys_of(table((1, 0)), table((1, 1)))
    seen.forget()
    seen.see_text(2, canonical(table((1, 0))))
    assert not seen.lost
    seen.see_text(3, canonical(table((1, 0), (1, 1))))
    assert seen.lost
    assert seen.row_keys == {"/t": None}


def test_a_key_is_chosen_in_the_first_state_in_which_the_table_has_rows():
    seen = keys_of({"t": []}, {"t": []}, table((1, 0)), table((1, 1)))
    assert seen.row_keys == {"/t": "id"}
    assert [change.path for change in seen.changes()] == ["/t/id=1", "/t/id=1/n"]


def test_paths_hold_typed_segments():
    seen = keys_of({"t": [{"id": 1, "n": 0}], "u": [{"n": 0}]}, {"t": [{"id": 1, "n": 1}], "u": []})
    (_, first), (_, second) = seen.entries
    assert first == ("t", RowKey("id", b"1"), "n")
    assert second == ("u", RowDigest("f3013f933b9fb80a"))


def test_very_deep_states_are_compared():
    def deep(leaf):
        for _ in range(70):
            leaf = {"a": [[1, leaf]]}  # mixed, so by position
        return leaf

    (change,) = history(deep({"n": 1}), deep({"n": 2}))
    assert change.path.endswith("/n")


# -- diff ------------------------------------------------------------------------------------------


def test_diff_takes_keys_and_refuses_what_is_no_state():
    before, after = {"t": [{"a": 1, "b": 1}]}, {"t": [{"a": 1, "b": 2}]}
    assert [c.path for c in diff(before, after, row_keys={"/t": "a"})] == ["/t/a=1/b"]
    assert len(diff(before, after)) == 2
    with pytest.raises(TypeError, match="before must be a dict, not list"):
        diff([], {})
    with pytest.raises(ValueError, match="/x"):
        diff({}, {"x": float("nan")})


def test_one_deletion_in_five_thousand_rows_is_one_change():
    rows = [{"id": i, "n": i} for i in range(5_000)]
    assert short(diff({"t": rows}, {"t": rows[:2_000] + rows[2_001:]})) == [
        (1, "/t/id=2000", {"id": 2_000, "n": 2_000}, ABSENT)
    ]
