"""`envbench sql`: one query on a store, as a table, JSON or CSV."""

from __future__ import annotations

import contextlib
import csv
import sys
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from envbench.cli.application import AsJson, BadInput, StorePath, app, opened_store
from envbench.cli.output import one_line, plain, print_json_rows, print_rows

if TYPE_CHECKING:
    import duckdb


@app.command()
def sql(
    store: StorePath,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="One SELECT-like statement.")],
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV with a header.")] = False,
    limit: Annotated[
        int,
        typer.Option(min=0, help="Rows of a table to show; 0 shows all. JSON and CSV have all."),
    ] = 100,
) -> None:
    """Query a store. Nothing can be written, and nothing that the file defines is run.

    JSON is one object a row. JSON columns are given as they are stored; NaN, infinities and bytes
    in the tagged form of docs/evidence-format.md.
    """
    if as_json and as_csv:
        raise BadInput("--json and --csv exclude each other")
    from envbench.store.interrupts import interruptible
    from envbench.store.statements import READ_ONLY, require_reading

    with (
        opened_store(store) as opened,
        _refusing_sql(),
        opened.cursor() as cursor,
        interruptible(cursor),
    ):
        require_reading(cursor, query)
        cursor.execute(READ_ONLY).fetchall()
        cursor.execute(query)
        names, types = zip(
            *((name, str(kind)) for name, kind, *_ in cursor.description), strict=True
        )
        rows = _fetched(cursor)
        if as_json:
            print_json_rows(names, types, rows)
        elif as_csv:
            writer = csv.writer(sys.stdout, lineterminator="\n")
            writer.writerow(names)
            writer.writerows([plain(value) for value in row] for row in rows)
        else:
            shown = list(islice(rows, limit or None))
            print_rows(names, shown)
            if next(rows, None) is not None:
                print(f"The first {limit} rows; --limit 0 shows all.", file=sys.stderr)


@contextlib.contextmanager
def _refusing_sql() -> Iterator[None]:
    import duckdb

    from envbench.store import QueryError

    try:
        yield
    except (duckdb.Error, QueryError) as error:
        raise BadInput(one_line(error)) from None


def _fetched(cursor: duckdb.DuckDBPyConnection) -> Iterator[tuple[Any, ...]]:
    while rows := cursor.fetchmany(1000):
        yield from rows
