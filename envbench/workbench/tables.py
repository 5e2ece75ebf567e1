"""The result of a query as an HTML table: exact, nothing hidden, and said how much is shown."""

from __future__ import annotations

import datetime
import decimal
import uuid
from typing import TYPE_CHECKING, Any

from envbench.workbench.markup import counted, fragment, table, text

if TYPE_CHECKING:
    import pyarrow as pa

    from envbench.store.result import Result

ROWS = 25
"""Rows of a result that are shown."""

COLUMNS = 60
"""Columns of a result that are shown."""

CHARACTERS = 40_000
"""Characters of a result that are shown, at least `LEAST` in each cell."""

LEAST = 200

SHORT = 40
"""Text up to this length, such as an id, is not broken into lines."""


def result_html(result: Result) -> str:
    """A result as a table: names, types, the first rows, and how many there are.

    NULL and empty text differ, integers and decimals have all their digits, floats are as Python
    prints them (the shortest text that reads back equal), long text says how long it is.
    """
    from pyarrow import types

    arrow = result.arrow()
    shown = arrow.slice(0, ROWS).select(range(min(COLUMNS, arrow.num_columns)))
    limit = max(LEAST, CHARACTERS // max(1, shown.num_rows * shown.num_columns))
    numeric = (types.is_integer, types.is_floating, types.is_decimal)
    heads = [
        f'{text(field.name)}<span class="envbench-type">{text(type_name(field.type))}</span>'
        for field in shown.schema
    ]
    numbers = [i for i, field in enumerate(shown.schema) if any(is_(field.type) for is_ in numeric)]
    columns = [column.to_pylist() for column in shown.columns]
    rows = [[value_html(value, limit) for value in row] for row in zip(*columns, strict=True)]
    return fragment(
        table(heads, rows, numbers=numbers, caption=None) if heads else "",
        f'<p class="envbench-soft">{_extent(arrow)}</p>',
    )


def _extent(arrow: pa.Table) -> str:
    size = f"{counted(arrow.num_rows, 'row')} × {counted(arrow.num_columns, 'column')}"
    parts = []
    if arrow.num_rows > ROWS:
        parts.append(f"the first {ROWS} rows")
    if arrow.num_columns > COLUMNS:
        parts.append(f"the first {COLUMNS} columns")
    if not parts:
        return size
    return f"{size}; {' and '.join(parts)} are shown, .pl(), .df() and .arrow() give all"


def value_html(value: Any, limit: int = LEAST) -> str:
    """One value of a result as HTML; text beyond `limit` characters is cut, and its length said."""
    if value is None:
        return '<span class="envbench-null">NULL</span>'
    shown = value_text(value)
    cut = ""
    if len(shown) > limit:
        length = counted(
            *((len(value), "byte") if isinstance(value, bytes) else (len(shown), "character"))
        )
        cut = f'<span class="envbench-soft">… {length}</span>'
        shown = shown[:limit]
    kinds = ["envbench-value"] if isinstance(value, str | bytes | list | dict) else []
    if "\n" in shown:
        kinds.append("envbench-lines")
    elif len(shown) <= SHORT:
        kinds.append("envbench-short")
    if not kinds:
        return f"{text(shown)}{cut}"
    return f'<span class="{" ".join(kinds)}">{text(shown)}</span>{cut}'


def value_text(value: Any) -> str:
    """A value as text: exact, as SQL or JSON writes it."""
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ")
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, dict):
        inside = (f"{_inside(name)}: {_inside(item)}" for name, item in value.items())
        return f"{{{', '.join(inside)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_inside, value))}]"
    return str(value)


def _inside(value: Any) -> str:
    """A value in a list or a struct: there text has its quotes."""
    if isinstance(value, str | datetime.date | datetime.time | datetime.timedelta | uuid.UUID):
        shown = value_text(value).replace("'", "''")
        return f"'{shown}'"
    return value_text(value)


def type_name(kind: pa.DataType) -> str:
    """The type of a column as SQL names it."""
    from pyarrow import types

    if types.is_list(kind) or types.is_large_list(kind):
        return f"{type_name(kind.value_type)}[]"
    if types.is_fixed_size_list(kind):
        return f"{type_name(kind.value_type)}[{kind.list_size}]"
    if types.is_struct(kind):
        return f"STRUCT({', '.join(f'{f.name} {type_name(f.type)}' for f in kind)})"
    if types.is_map(kind):
        return f"MAP({type_name(kind.key_type)}, {type_name(kind.item_type)})"
    if types.is_dictionary(kind):
        return "ENUM"
    if types.is_decimal(kind):
        # DuckDB's 128-bit integers, which do not fit 64 bits here
        wide = kind.precision == 38 and kind.scale == 0
        return "HUGEINT" if wide else f"DECIMAL({kind.precision}, {kind.scale})"
    if types.is_timestamp(kind):
        return "TIMESTAMP WITH TIME ZONE" if kind.tz else "TIMESTAMP"
    if types.is_time(kind):
        return "TIME"
    return _NAMES.get(str(kind), str(kind).upper())


_NAMES: dict[str, str] = {
    "bool": "BOOLEAN",
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "uint8": "UTINYINT",
    "uint16": "USMALLINT",
    "uint32": "UINTEGER",
    "uint64": "UBIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "large_string": "VARCHAR",
    "string_view": "VARCHAR",
    "binary": "BLOB",
    "large_binary": "BLOB",
    "date32[day]": "DATE",
    "duration[us]": "INTERVAL",
    "null": "NULL",
}
