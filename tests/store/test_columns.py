"""The writer's columns are the tables' own, in their order: rows are inserted by position."""

from __future__ import annotations

import pytest

from envbench.store import connect
from envbench.store.writing import _COLUMNS


@pytest.mark.parametrize("table", _COLUMNS)
def test_columns_stand_in_the_order_of_the_table(table: str) -> None:
    with connect(":memory:") as store:
        rows = store.sql(
            "SELECT column_name FROM duckdb_columns() WHERE table_name = ? ORDER BY column_index",
            [table],
        ).fetchall()
    assert [name for (name,) in rows] == [name for name, _ in _COLUMNS[table]]
