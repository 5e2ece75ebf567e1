"""The result of a query: read once, given out in any form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

if TYPE_CHECKING:
    import pandas
    import polars


class Result:
    """Rows of a query, held in memory: nothing done to the store afterwards changes them.

    Whole numbers that DuckDB gives as 128-bit (every `sum` of integers) are 64-bit where they fit,
    and intervals without months are durations, so that all forms can hold them. A column name that
    comes twice gets a number.
    """

    __slots__ = ("_table",)

    def __init__(self, table: pa.Table) -> None:
        self._table = _plain(table)

    def arrow(self) -> pa.Table:
        """The rows as a PyArrow table."""
        return self._table

    def pl(self) -> polars.DataFrame:
        """The rows as a Polars frame."""
        import polars

        frame = polars.from_arrow(self._table)
        assert isinstance(frame, polars.DataFrame)
        return frame

    def df(self) -> pandas.DataFrame:
        """The rows as a pandas frame."""
        frame: pandas.DataFrame = self._table.to_pandas()
        return frame

    def fetchall(self) -> list[tuple[Any, ...]]:
        """The rows as tuples of Python values."""
        return list(zip(*(column.to_pylist() for column in self._table.columns), strict=True))

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self._table.column_names)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.fetchall())

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __repr__(self) -> str:
        with duckdb.connect(":memory:", config={"python_enable_replacements": "false"}) as printer:
            shown = repr(printer.from_arrow(self._table.slice(0, _PRINTED))).rstrip()
        if len(self) <= _PRINTED:
            return shown
        return f"{shown}\n{len(self)} rows, the first {_PRINTED} shown"


_PRINTED = 20


def _plain(table: pa.Table) -> pa.Table:
    columns = [_plain_column(column) for column in table.columns]
    return pa.Table.from_arrays(columns, names=_distinct(table.column_names))


def _plain_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if column.type == pa.decimal128(38, 0):
        try:
            return column.cast(pa.int64())
        except pa.ArrowInvalid:
            return column
    if column.type == pa.month_day_nano_interval():
        return _durations(column)
    return column


def _durations(column: pa.ChunkedArray) -> pa.ChunkedArray:
    values = column.to_pylist()
    if any(value is not None and value.months for value in values):
        # a month has no length: as text
        return pa.chunked_array([pa.array([value and _interval_text(value) for value in values])])
    return pa.chunked_array(
        [
            pa.array(
                [
                    value and value.days * 86_400_000_000 + value.nanoseconds // 1000
                    for value in values
                ],
                pa.duration("us"),
            )
        ]
    )


def _interval_text(value: Any) -> str:
    return f"{value.months} months {value.days} days {value.nanoseconds // 1000} microseconds"


def _distinct(names: list[str]) -> list[str]:
    taken: set[str] = set()
    for index, name in enumerate(names):
        number, fresh = 0, name
        while fresh in taken or (number and fresh in names):
            number += 1
            fresh = f"{name}_{number}"
        taken.add(fresh)
        names[index] = fresh
    return names
