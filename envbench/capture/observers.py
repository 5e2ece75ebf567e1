"""Observers of state: what capture reads after every step, beside the environment's back.

`SQLiteObserver` and `PostgresObserver` read what is committed in a database over a connection of
their own. Their audit, when somebody installed one, sees what snapshots cannot: a change undone
inside a step. `FrameObserver` reads tables that are pandas or Polars frames.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from envbench.capture.audit import AuditEvent, AuditIncomplete
from envbench.capture.frame_observer import FrameObserver
from envbench.capture.selection import Selected, Selection, pointer
from envbench.capture.sqlite_audit import (
    check_whole,
    events_after,
    has_audit,
    install,
    last_event,
)
from envbench.capture.sqlite_tables import (
    Row,
    SQLiteValue,
    Table,
    connected,
    file_path,
    list_tables,
    quoted,
)

if TYPE_CHECKING:
    from envbench.capture.postgres_observer import PostgresObserver

__all__ = [
    "AuditEvent",
    "AuditIncomplete",
    "FrameObserver",
    "PostgresObserver",
    "SQLiteObserver",
    "SQLiteValue",
]

Result = TypeVar("Result")


class SQLiteObserver:
    """Read the committed state of an SQLite database, and its audit when there is one.

    Calling the observer gives `{table: [row, …]}`, each row a dict of columns, all tables from one
    read transaction. NULL, integers, reals, text and BLOBs come as None, int, float, str and
    bytes; text that is not UTF-8 keeps its odd bytes as lone surrogates (`surrogateescape`), which
    loses nothing. Rows are in the order of their primary key, and after it, or with none, of all
    their values, so equal contents give equal states whatever order they were written in.

    `include` and `exclude` name tables (`"vendors"`) or single columns (`("vendors", "name")`).
    Left out unless included by name: views, SQLite's own tables, the tables behind a virtual
    table, and the audit's.

    The connection is opened for each reading, read-only: the file is never created, and a
    database that somebody keeps locked longer than `timeout` seconds is an error.

    Example::

        observer = SQLiteObserver("ledger.sqlite")
        capture_episode(factory, interact, observe=observer, audit=observer.audit,
                        row_keys=observer.row_keys, …)

    Raises FileNotFoundError when there is no such file, sqlite3.DatabaseError when it cannot be
    read, and LookupError when, at the first reading, a name in `include` or `exclude` is nowhere
    in the database (later, a table that is gone is a change of the state, and no error).
    """

    def __init__(
        self,
        path: str | Path,
        *,
        include: Iterable[Selected] | None = None,
        exclude: Iterable[Selected] = (),
        timeout: float = 5.0,
    ) -> None:
        self.path = file_path(path)
        self.timeout = timeout
        self._selection = Selection(include, exclude)
        self._last_event = self._last_event_now()
        self._row_counts: dict[str, int] = {}

    def __call__(self) -> dict[str, list[Row]]:
        """The committed state now: `{table: [row, …]}`."""
        return self._read(self._state)

    @property
    def row_keys(self) -> dict[str, str]:
        """The key column of each table with a primary key of one column: `{"/vendors": "id"}`.

        It is read now, so the database must exist: where the factory makes it, make the tables
        before, or name the keys by hand. A composite key has no single column and is left out.
        """
        return self._read(self._row_keys)

    def audit(self) -> list[AuditEvent]:
        """What the audit recorded since the last call, or since this observer was made.

        Each event is `{table, op, key, before, after}` in the order it happened: `op` is `insert`,
        `update` or `delete`; `before` and `after` are whole rows, None where there is none; `key`
        is the value of the primary key (before, if it changed), a dict of columns for a composite
        key, None for a table without one. An update that changed nothing is an event too.

        Raises LookupError when no audit is installed, and AuditIncomplete when something happened
        that the audit did not record: events deleted, a trigger gone, a column it does not know,
        rows that came or went unrecorded.
        """
        events, self._last_event, self._row_counts = self._read(self._events)
        return events

    @staticmethod
    def install_audit(
        path: str | Path, tables: Iterable[str] | None = None, *, timeout: float = 5.0
    ) -> tuple[str, ...]:
        """Change the database at `path`: from now on its triggers record every change.

        The tables named, or all there are, get triggers that write each row inserted, updated or
        deleted to tables named `envbench_audit…`, value by value with SQLite's own types. Events
        join the transaction that caused them: rolled back with it, committed with it. Installing
        again keeps what was recorded and covers the new tables and columns as well.

        A row that REPLACE removes fires no DELETE trigger by default. It is found by the primary
        key and the unique indexes before the insert or update, and recorded as a delete. Where it
        cannot be (an index over an expression; a partial one of a table WITHOUT ROWID), the count
        of rows no longer fits, and `audit` raises rather than tell half. A table created later is
        not covered, and neither is what happened before.

        Returns the names of all tables covered. Raises FileNotFoundError when there is no such
        file, LookupError for a table that is not there, ValueError for a view or a virtual table.
        """
        with connected(file_path(path), "rw", timeout) as connection:
            return install(connection, tables)

    def _read(self, query: Callable[[sqlite3.Connection], Result]) -> Result:
        # One transaction, so that no table is newer than another.
        with connected(self.path, "ro", self.timeout) as connection:
            connection.execute("BEGIN")
            return query(connection)

    def _last_event_now(self) -> int:
        if not self.path.is_file():
            return 0
        return self._read(last_event)

    def _state(self, connection: sqlite3.Connection) -> dict[str, list[Row]]:
        tables = self._chosen(connection)
        return {table.name: _rows(connection, table) for table in tables}

    def _row_keys(self, connection: sqlite3.Connection) -> dict[str, str]:
        return {
            pointer(table.name): table.key[0]
            for table in self._chosen(connection)
            if len(table.key) == 1 and table.key[0] in table.columns
        }

    def _events(
        self, connection: sqlite3.Connection
    ) -> tuple[list[AuditEvent], int, dict[str, int]]:
        if not has_audit(connection):
            msg = (
                f"{self.path} has no audit: call SQLiteObserver.install_audit(path) where the "
                "database is made, before the episode"
            )
            raise LookupError(msg)
        counts = check_whole(connection, self._last_event, self._row_counts)
        return events_after(connection, self._last_event), last_event(connection), counts

    def _chosen(self, connection: sqlite3.Connection) -> list[Table]:
        tables = list_tables(connection)
        self._selection.check_once({table.name: table.columns for table in tables}, self.path)
        chosen = []
        for table in tables:
            columns = self._selection.columns(table.name, table.columns, by_default=table.ordinary)
            if columns is not None:
                chosen.append(table.only(columns))
        return chosen


def _rows(connection: sqlite3.Connection, table: Table) -> list[Row]:
    columns = ", ".join(quoted(column) for column in table.columns)
    source = quoted(table.name) + (" NOT INDEXED" if table.kind == "table" else "")
    values = connection.execute(f"SELECT {columns} FROM {source}").fetchall()
    # Sorted here and read without an index: the application's own collations are unknown here.
    first = [table.columns.index(column) for column in table.key if column in table.columns]
    order = first + [i for i in range(len(table.columns)) if i not in first]
    values.sort(key=lambda row: [_rank(row[i]) for i in order])
    return [dict(zip(table.columns, row, strict=True)) for row in values]


def _rank(value: SQLiteValue) -> tuple[int, object, bool]:
    """SQLite's own order of types, and 1 before 1.0, which compare equal."""
    if value is None:
        return 0, 0, False
    if isinstance(value, int | float):
        return 1, value, isinstance(value, float)
    if isinstance(value, str):
        return 2, value, False
    return 3, value, False


def __getattr__(name: str) -> Any:
    """Load PostgresObserver when it is first asked for: it needs psycopg, and capture does not."""
    if name != "PostgresObserver":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from envbench.capture.postgres_observer import PostgresObserver
    except ModuleNotFoundError as error:
        if error.name != "psycopg":
            raise
        msg = "PostgresObserver needs psycopg: pip install 'envbench[postgres]'"
        raise ModuleNotFoundError(msg, name="psycopg") from error
    globals()[name] = PostgresObserver
    return PostgresObserver
