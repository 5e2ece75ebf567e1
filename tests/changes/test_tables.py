"""Which key a table gets."""

from __future__ import annotations

import pytest

from envbench.changes.tables import Keys, is_table, own_keys


def chosen(rows, name="invoice_rows", declared=None):
    keys = Keys(declared or {})
    keys.choose({name: rows})
    return keys.chosen[f"/{name}"]


def rows(**columns):
    cells = zip(*columns.values(), strict=True)
    return [dict(zip(columns, values, strict=True)) for values in cells]


@pytest.mark.parametrize(
    ("columns", "key"),
    [
        ({"id": [1, 2], "key": [1, 2], "invoice_id": [1, 2]}, "id"),
        ({"key": [1, 2], "uuid": [1, 2], "invoice_id": [1, 2]}, "key"),
        ({"uuid": [1, 2], "invoice_id": [1, 2]}, "uuid"),
        ({"a_id": [1, 2], "invoice_id": [1, 2]}, "invoice_id"),
        ({"b_id": [1, 2], "a_id": [1, 2]}, "a_id"),  # in alphabetical order
        ({"id": [1, 1], "b_id": [1, 2]}, "b_id"),  # one that is not unique is passed over
        ({"id": [1, None], "b_id": [1, 2]}, "b_id"),
        ({"id": [[1], [2]], "b_id": [1, 2]}, "b_id"),
        ({"id": [1, 1.0]}, "id"),  # three values that look alike
        ({"id": [1, True]}, "id"),
        ({"id": ["", "0"]}, "id"),
        ({"n": [1, 2]}, None),
        ({"id": [1, 1]}, None),
    ],
)
def test_the_first_name_that_is_unique_and_never_null(columns, key):
    assert chosen(rows(**columns)) == key


def test_a_key_that_some_row_has_not_is_none():
    assert chosen([{"id": 1}, {"n": 2}]) is None


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ("invoice_rows", "invoice_id"),
        ("vendors", "vendor_id"),
        ("orders_table", "order_id"),
        ("user_list", "user_id"),
        ("categories", "category_id"),
        ("addresses", "address_id"),
        ("boxes", "box_id"),
        ("statuses", "status_id"),
        ("series", "series_id"),
        ("bus", "bus_id"),
        ("_rows", "_row_id"),
        ("a~1b_rows", "a/b_id"),
    ],
)
def test_a_table_s_own_name(table, key):
    assert key in own_keys(f"/x/{table}")


def test_the_caller_s_key_goes_first_and_none_is_a_multiset():
    table = rows(id=[1, 2], n=[1, 2])
    assert chosen(table, declared={"/invoice_rows": "n"}) == "n"
    assert chosen(table, declared={"/invoice_rows": None}) is None
    assert chosen(table, declared={"/*": "n"}) == "n"
    assert chosen(table, declared={"/*": "n", "/invoice_rows": "id"}) == "id"


def test_a_declared_key_that_does_not_hold_is_said():
    keys = Keys({"/t": "n"})
    keys.choose({"t": [{"id": 1, "n": 1}, {"id": 2, "n": 1}]})
    assert keys.chosen == {"/t": None}
    assert keys.issues[0].startswith("note: /t: the declared key 'n' is missing, null or not")


def test_nested_tables_are_chosen_together_by_their_pattern():
    keys = Keys({"/orders/*/items": "sku"})
    items = [{"sku": "a", "item_id": 1}, {"sku": "b", "item_id": 2}]
    keys.choose({"orders": [{"id": 1, "items": items}, {"id": 2, "items": items}]})
    assert keys.chosen == {"/orders": "id", "/orders/*/items": "sku"}
    both = Keys()
    both.choose({"o": [{"id": 1, "i": [{"id": 1}]}, {"id": 2, "i": [{"id": 1}, {"id": 1}]}]})
    assert both.chosen == {"/o": "id", "/o/*/i": None}


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        ([{}], True),
        ([{"a": 1}, {}], True),
        ([], False),
        ([1], False),
        ([{"a": 1}, 1], False),
        ([{"$envbench": "bytes", "value": ""}], False),
        ({"a": 1}, False),
        ("[{}]", False),
    ],
)
def test_a_table_is_a_list_of_objects(value, answer):
    assert is_table(value) is answer
