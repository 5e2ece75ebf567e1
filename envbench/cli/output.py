"""What the command line prints: tables as wide as the terminal, JSON that loses nothing."""

from __future__ import annotations

import datetime
import decimal
import json
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table


def print_rows(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A table as wide as the terminal (80 columns in a pipe); one record a row where that is tight.

    Nothing is cut; long values go on in the next line.
    """
    if not rows:
        print("no rows")
        return
    from rich.console import Console
    from rich.text import Text

    width = shutil.get_terminal_size().columns
    console = Console(width=width, highlight=False, markup=False, emoji=False, soft_wrap=False)
    cells = [[Text(visible(plain(value))) for value in row] for row in rows]
    heads = [Text(visible(name)) for name in names]
    columns = list(zip(heads, *cells, strict=True))
    needed = [min(max(cell.cell_len for cell in column), _LONGEST) for column in columns]
    if sum(needed) + 2 * len(needed) > width:
        for number, record in enumerate(cells, 1):
            console.print(Text(f"row {number}"))
            console.print(_table([], zip(heads, record, strict=True)))
        return
    numeric = [
        any(type(row[i]) in (int, float, decimal.Decimal) for row in rows)
        for i in range(len(names))
    ]
    console.print(_table(list(zip(heads, numeric, strict=True)), cells))


def print_json_rows(
    names: Sequence[str], types: Sequence[str], rows: Iterable[tuple[Any, ...]]
) -> None:
    """A JSON array with one line a row; names that occur twice are numbered."""
    keys = [json.dumps(name, ensure_ascii=False) for name in _distinct(names)]
    before = "["
    for row in rows:
        cells = (
            f"{key}: {_json(value, kind)}"
            for key, value, kind in zip(keys, row, types, strict=True)
        )
        sys.stdout.write(f"{before}\n  {{{', '.join(cells)}}}")
        before = ","
    print("[]" if before == "[" else "\n]")


def plain(value: Any) -> str:
    """A value as text for a table or CSV; nothing for NULL."""
    if value is None:
        return ""
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat(*(" ",) if isinstance(value, datetime.datetime) else ())
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict | list | tuple):
        return _json(value, "")
    return repr(value) if isinstance(value, float) else str(value)


def visible(text: str) -> str:
    """Text in which nothing can act on a terminal: control and direction characters are escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def visible_lines(text: str) -> str:
    """Text whose line breaks stay and in which nothing else can act on a terminal."""
    return "\n".join(map(visible, text.splitlines()))


def counted(number: int, thing: str) -> str:
    """Such as `1 episode` and `2,000 episodes`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def one_line(error: BaseException) -> str:
    """The first paragraph of an error; what follows in DuckDB's is a drawing of the place."""
    return str(error).strip().split("\n\n", maxsplit=1)[0]


_LONGEST = 24
"""A column is given this much room, or less if it needs less, before rows become records."""


def _table(heads: Sequence[tuple[Any, bool]], rows: Iterable[Iterable[Any]]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD if heads else None, show_edge=False, show_header=bool(heads))
    for head, is_number in heads or [("", False), ("", False)]:
        table.add_column(head, justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def _distinct(names: Sequence[str]) -> list[str]:
    distinct: list[str] = []
    for name in names:
        candidate, number = name, 1
        while candidate in distinct:
            candidate, number = f"{name}_{number}", number + 1
        distinct.append(candidate)
    return distinct


def _json(value: Any, kind: str) -> str:
    """A value of a query as JSON that loses nothing; integers and decimals with all digits."""
    if kind == "JSON" and value is not None:
        return str(value)
    if isinstance(value, bool | int | None | str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, dict):
        keys = value if all(isinstance(key, str) for key in value) else map(plain, value)
        pairs = zip(keys, value.values(), strict=True)
        inside = ", ".join(f"{json.dumps(key)}: {_json(item, '')}" for key, item in pairs)
        return f"{{{inside}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_json(item, '') for item in value)}]"
    if isinstance(value, float | bytes):
        from envbench.evidence.tagged import encode

        return encode(value).decode()
    return json.dumps(plain(value), ensure_ascii=False)
