"""Reading a store that someone else made, without running anything that it defines.

A DuckDB file can define macros, views, defaults and generated columns. Opened directly, its macro
named `sum` answers every query that says `sum`. Here the file is attached, read-only, to a database
in memory that has our own views; names are looked up there and never in the file. Only base tables
with exactly our columns are read, and after opening nothing outside can be reached.

This is no protection against a file whose bytes are crafted to break DuckDB itself.
"""

from __future__ import annotations

import os
import re
from functools import cache
from typing import Any, Protocol

import duckdb

from envbench.store import migrations
from envbench.store.connection import (
    Connection,
    Target,
    install,
    require_database,
    resolve,
    settings,
    views_sql,
)
from envbench.store.errors import NotAStore, StoreError, StoreMissing, StoreTooNew, StoreTooOld
from envbench.store.messages import explain

ATTACHED = "evidence"
"""The name that the file is attached under."""


def open_untrusted(target: Target) -> Connection:
    """Open a store read-only and run nothing that is defined in it.

    Raises:
        StoreError: as `open_store`; and NotAStore when a table of ours is missing, is a view, or
            has other columns than ours.
    """
    path = resolve(target)
    if path is None:
        raise StoreError("a store in memory is this process's own: it needs no trusted=False")
    if not path.exists():
        raise StoreMissing(f"there is no store at {path}")
    require_database(path)
    connection = duckdb.connect(":memory:", config=settings(allow_community_extensions="false"))
    try:
        name = str(path).replace("'", "''")
        connection.execute(f"ATTACH '{name}' AS {ATTACHED} (READ_ONLY)").fetchall()
        require_our_tables(connection, ATTACHED, str(path))
        for table in our_columns():
            connection.execute(
                f'CREATE VIEW "{table}" AS SELECT * FROM {ATTACHED}.main."{table}"'
            ).fetchall()
        connection.execute(views_sql()).fetchall()
        connection.execute("SET enable_external_access = false").fetchall()
        connection.execute("SET lock_configuration = true").fetchall()
    except (duckdb.Error, RuntimeError) as error:
        connection.close()
        raise explain(error, path) from error
    except BaseException:
        connection.close()
        raise
    return Connection(connection, path, read_only=True, process=os.getpid(), trusted=False)


def require_our_tables(connection: duckdb.DuckDBPyConnection, database: str, name: str) -> None:
    """Refuse an attached database unless it has our tables, as base tables with our columns.

    Args:
        connection: a connection whose own catalogue is searched for functions, not the file's.
        database: the name that the file is attached under.
        name: what to call the file in errors.

    Raises:
        NotAStore: naming the table and the column that differ.
        StoreTooNew: when the file is of a newer schema.
        StoreTooOld: when the file is of an older schema.
    """
    found = table_definitions(connection, database)
    _require(found, "schema_info", name)
    rows = connection.execute(f"SELECT version FROM {database}.main.schema_info").fetchall()
    versions = [row[0] for row in rows]
    if len(versions) != 1:
        raise NotAStore(f"{name} does not say which schema version it has")
    if versions[0] > migrations.SCHEMA_VERSION:
        raise StoreTooNew(
            f"{name} has schema version {versions[0]} and this envbench knows versions up to "
            f"{migrations.SCHEMA_VERSION}: upgrade envbench"
        )
    if versions[0] < migrations.SCHEMA_VERSION:
        raise StoreTooOld(
            f"{name} has schema version {versions[0]}, and only a trusted store is migrated: ask "
            f"for one of version {migrations.SCHEMA_VERSION}"
        )
    for table in our_columns():
        _require(found, table, name)


@cache
def our_columns() -> dict[str, tuple[str, ...]]:
    """The columns of each table of ours, in order."""
    tables, _ = our_definitions()
    return {table: tuple(name for name, _ in columns) for table, (columns, _) in tables.items()}


# A table as compared: its columns with their types, and DuckDB's own statement that would make it,
# which also shows constraints, defaults, collations and generated columns.
Definition = tuple[tuple[tuple[str, str], ...], str]


@cache
def our_definitions() -> tuple[dict[str, Definition], dict[str, str]]:
    """How the tables and the views of a store are defined, by name."""
    with duckdb.connect(":memory:", config=settings()) as connection:
        install(connection)
        return table_definitions(connection, "memory"), view_definitions(connection, "memory")


class Queryable(Protocol):
    """What runs a query, such as a cursor."""

    def execute(self, query: str, parameters: Any = ..., /) -> Any:
        """Run a query; the rows are fetched from what it returns."""


def table_definitions(connection: Queryable, database: str) -> dict[str, Definition]:
    """How the base tables of an attached database are defined, by name."""
    statements = connection.execute(
        "SELECT table_name, sql FROM system.main.duckdb_tables() "
        "WHERE database_name = ? AND schema_name = 'main'",
        [database],
    ).fetchall()
    columns: dict[str, list[tuple[str, str]]] = {}
    for table, column, kind in connection.execute(
        "SELECT table_name, column_name, data_type FROM system.main.duckdb_columns() "
        "WHERE database_name = ? AND schema_name = 'main' ORDER BY table_name, column_index",
        [database],
    ).fetchall():
        columns.setdefault(table, []).append((column, kind))
    return {
        # how a column is compressed is the file's own affair
        table: (tuple(columns.get(table, ())), re.sub(r" USING COMPRESSION \w+", "", statement))
        for table, statement in statements
    }


def view_definitions(connection: Queryable, database: str) -> dict[str, str]:
    """How the views of an attached database are defined, by name."""
    rows = connection.execute(
        "SELECT view_name, sql FROM system.main.duckdb_views() "
        "WHERE database_name = ? AND schema_name = 'main' AND NOT internal",
        [database],
    ).fetchall()
    return dict(rows)


def _require(found: dict[str, Definition], table: str, name: str) -> None:
    if table not in found:
        raise NotAStore(f"{name} has no table {table} of its own: it is not a store of ours")
    columns, statement = found[table]
    our_columns, our_statement = our_definitions()[0][table]
    for (column, kind), (our_column, our_kind) in zip(columns, our_columns, strict=False):
        if (column, kind) != (our_column, our_kind):
            raise NotAStore(
                f"{name}: table {table} has the column {column!r} {kind} where a store has "
                f"{our_column} {our_kind}: it is not read"
            )
    if len(columns) != len(our_columns):
        raise NotAStore(
            f"{name}: table {table} has {len(columns)} columns where a store has "
            f"{len(our_columns)}: it is not read"
        )
    if statement != our_statement:
        raise NotAStore(
            f"{name}: table {table} has constraints, defaults or generated columns that a store "
            f"does not have: it is not read"
        )
