"""How the observers open an SQLite database, and what tables they find in it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SQLiteValue = None | int | float | str | bytes
Row = dict[str, SQLiteValue]

# What the audit keeps in the observed database; a table of the user's must not use these names.
AUDIT_TABLES = (
    "envbench_audit",
    "envbench_audit_values",
    "envbench_audit_staged",
    "envbench_audit_scope",
)


@dataclass(frozen=True, slots=True)
class Table:
    """A table or view as the database lists it; `key` is its primary key's columns in order."""

    name: str
    kind: str  # table, view, virtual, shadow
    columns: tuple[str, ...]
    key: tuple[str, ...]

    @property
    def ordinary(self) -> bool:
        """Whether it is state by default."""
        internal = self.name.startswith("sqlite_") or self.name in AUDIT_TABLES
        return self.kind in ("table", "virtual") and not internal

    def only(self, columns: Iterable[str]) -> Table:
        """The same table with these columns only."""
        return Table(self.name, self.kind, tuple(columns), self.key)


def file_path(path: str | Path) -> Path:
    """An absolute path; ValueError for a database that only lives in memory."""
    if str(path) in ("", ":memory:"):
        msg = f"path must be a file: another connection cannot see an in-memory database ({path!r})"
        raise ValueError(msg)
    return Path(path).absolute()


@contextmanager
def connected(path: Path, mode: str, timeout: float) -> Iterator[sqlite3.Connection]:
    """A connection in mode "ro" or "rw": neither creates the file. Errors name the path."""
    if not path.is_file():
        msg = f"there is no database file at {path}"
        raise FileNotFoundError(msg)
    try:
        connection = sqlite3.connect(
            f"{path.as_uri()}?mode={mode}", uri=True, timeout=timeout, isolation_level=None
        )
    except sqlite3.Error as error:
        raise type(error)(f"{path} cannot be opened: {error}") from error
    try:
        # Text that is not UTF-8 must neither stop the reading nor lose a byte.
        connection.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
        yield connection
    except sqlite3.Error as error:
        raise type(error)(f"{path} cannot be read: {error}") from error
    finally:
        connection.close()


def list_tables(connection: sqlite3.Connection) -> list[Table]:
    """Everything in the main database that rows can be read from, ordered by name."""
    listed = connection.execute(
        "SELECT name, type FROM pragma_table_list WHERE schema = 'main' ORDER BY name"
    ).fetchall()
    return [
        Table(name, kind, *_columns(connection, name))
        for name, kind in listed
        if name not in ("sqlite_schema", "sqlite_master")
    ]


def _columns(connection: sqlite3.Connection, table: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns that SELECT * shows (generated ones too), and those of the primary key."""
    found = connection.execute(
        "SELECT name, pk FROM pragma_table_xinfo(?) WHERE hidden <> 1 ORDER BY cid", (table,)
    ).fetchall()
    key = sorted((position, name) for name, position in found if position)
    return tuple(name for name, _ in found), tuple(name for _, name in key)


def quoted(name: str) -> str:
    """The name as an SQL identifier, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def count_rows(connection: sqlite3.Connection, table: str) -> int:
    """How many rows it has, counted without an index (its collation may be unknown here)."""
    (rows,) = connection.execute(f"SELECT count(*) FROM {quoted(table)} NOT INDEXED").fetchone()
    return int(rows)
