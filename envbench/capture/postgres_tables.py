"""How the observer and the audit open a PostgreSQL database, and what tables they find in it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import psycopg
from psycopg import sql
from psycopg.adapt import AdaptersMap
from psycopg.conninfo import conninfo_to_dict

from envbench.capture.postgres_values import SETTINGS, adapters, add_arrays

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]
Row: TypeAlias = dict[str, Any]

_TEXT_ARRAY, _TEXT = 1009, 25  # as list_tables reads them
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Table:
    """A relation as the database lists it; `key` is its primary key's columns in order.

    Attributes:
        schema: the schema that it is in.
        name: its name.
        oid: what it is known by inside the database, until it is dropped.
        kind: table, partitioned, view, materialized, or foreign.
        from_extension: whether it came with an extension.
        columns: their names in order.
        types: the type of each, as SQL writes it.
        key: the names of the primary key's columns.
    """

    schema: str
    name: str
    oid: int
    kind: str
    from_extension: bool
    columns: tuple[str, ...]
    types: tuple[str, ...]
    key: tuple[str, ...]

    @property
    def stored(self) -> bool:
        """Whether it is a table of this database, which triggers can watch."""
        return self.kind in ("table", "partitioned")

    @property
    def ordinary(self) -> bool:
        """Whether it is state by default."""
        return self.stored and not self.from_extension

    def only(self, columns: Iterable[str]) -> Table:
        """The same table with these columns only."""
        return replace(self, columns=tuple(columns))

    @property
    def identifier(self) -> sql.Identifier:
        """Its name in SQL."""
        return sql.Identifier(self.schema, self.name)

    @property
    def source(self) -> sql.Composable:
        """What to select its rows from: those of tables that inherit from it are theirs."""
        return sql.SQL("ONLY {}" if self.kind == "table" else "{}").format(self.identifier)

    @property
    def whole_row(self) -> sql.Composable:
        """The text of a row, in SQL."""
        return row_text(None, self.columns)


def row_text(record: str | None, columns: Sequence[str]) -> sql.Composable:
    """SQL for the text of these columns as one row; of `record`, where one is named."""
    prefix = sql.SQL("" if record is None else f"{record}.")
    names = sql.SQL(", ").join([prefix + sql.Identifier(column) for column in columns])
    return sql.SQL("ROW({})::text").format(names)


@contextmanager
def connected(conninfo: str, timeout: float) -> Iterator[Connection]:
    """A connection whose values are exact; it waits `timeout` seconds for the server and locks."""
    given = conninfo_to_dict(conninfo)
    with psycopg.connect(
        conninfo,
        autocommit=True,
        context=_exact(),
        client_encoding="UTF8",
        connect_timeout=given.get("connect_timeout", max(2, math.ceil(timeout))),
        application_name=given.get("application_name", "envbench"),
        prepare_threshold=None,
    ) as connection:
        if connection.info.server_version < 130_000:
            msg = (
                f"PostgreSQL 13 or newer is needed, not {connection.info.server_version // 10_000}"
            )
            raise RuntimeError(msg)
        if connection.info.parameter_status("server_encoding") == "SQL_ASCII":
            # Its text may be any bytes; the server would refuse to send them as UTF-8.
            connection.execute("SET client_encoding = 'SQL_ASCII'")
        try:
            yield connection
        except psycopg.errors.LockNotAvailable as error:
            msg = (
                f"a table of database {connection.info.dbname!r} was locked for more than "
                f"{timeout:g} s: a transaction that alters or truncates it is still open"
            )
            raise psycopg.errors.LockNotAvailable(msg) from error


def _exact() -> AdaptersMap:
    conversions = adapters()
    add_arrays(conversions, [(_TEXT_ARRAY, 0, _TEXT, ",")])
    return conversions


def snapshot(
    connection: Connection,
    timeout: float,
    choose: Callable[[Connection], list[Table]],
    expected: Iterable[Table] = (),
) -> list[Table]:
    """Begin a transaction that sees one state of the database, and choose the tables to read in it.

    A table that is truncated or rewritten meanwhile would show that through an older snapshot, so
    they are locked against it before the snapshot is taken: those expected, and when there turn out
    to be others, once more. The lock keeps no reader and no writer waiting.
    """
    for _ in range(_ATTEMPTS):
        locked = {table.oid: table.source for table in expected if table.stored}
        begin = [
            sql.SQL("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"),
            # a policy that would hide rows is an error
            *settings(timeout, row_security="off"),
        ]
        if locked:
            names = sql.SQL(", ").join(locked.values())
            begin.append(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(names))
        try:
            connection.execute(sql.SQL("; ").join(begin))
            tables = choose(connection)
            if all(table.oid in locked for table in tables if table.stored):
                return tables
            expected = tables
        except (psycopg.errors.UndefinedTable, psycopg.errors.WrongObjectType):
            expected = ()
        connection.execute("ROLLBACK")
    msg = f"tables of {connection.info.dbname!r} come and go faster than they can be read"
    raise RuntimeError(msg)


def settings(timeout: float, **more: str) -> list[sql.Composable]:
    """Statements with the settings of a transaction; none of them takes a snapshot."""
    wanted = {**SETTINGS, "lock_timeout": f"{max(1, round(timeout * 1000))}ms", **more}
    return [
        sql.SQL("SET LOCAL {} = {}").format(sql.Identifier(name), setting(name, value))
        for name, value in wanted.items()
    ]


def setting(name: str, value: str) -> sql.Composable:
    """The value of a setting; a list of schemas is no single name, so it is not quoted as one."""
    if name == "search_path":
        return sql.SQL(", ").join([sql.Identifier(part) for part in value.split(", ")])
    return sql.Literal(value)


def list_tables(connection: Connection, schema: str) -> list[Table]:
    """Everything in a schema that rows can be read from, ordered by name; no partitions.

    The values of their array types are read as lists from then on.
    """
    found = connection.execute(_TABLES, (schema,)).fetchall()
    oids = "{" + ",".join(str(oid) for _, oid, *_ in found) + "}"
    add_arrays(connection.adapters, connection.execute(_TYPES, (oids,)).fetchall())
    return [
        Table(schema, name, oid, _KINDS[kind], extension, tuple(columns), tuple(types), tuple(key))
        for name, oid, kind, extension, columns, types, key in found
    ]


def check_schema(connection: Connection, schema: str) -> None:
    """Raise LookupError when there is no such schema."""
    found = connection.execute("SELECT FROM pg_namespace WHERE nspname = %s", (schema,)).fetchall()
    if not found:
        msg = f"database {connection.info.dbname!r} has no schema {schema!r}"
        raise LookupError(msg)


def read_rows(connection: Connection, table: Table) -> list[Row]:
    """The rows of a table, in the order of its primary key, else of their text."""
    whole = table.whole_row
    ordered = (
        sql.SQL(", ").join([sql.Identifier(column) for column in table.key])
        if table.key
        else sql.SQL('{} COLLATE "C"').format(whole)
    )
    query = sql.SQL("SELECT {} FROM {} ORDER BY {}").format(
        sql.SQL(", ").join([sql.Identifier(column) for column in table.columns]),
        table.source,
        ordered,
    )
    rows = connection.execute(query).fetchall()
    return [dict(zip(table.columns, row, strict=True)) for row in rows]


_KINDS = {"r": "table", "p": "partitioned", "v": "view", "m": "materialized", "f": "foreign"}

_TABLES = """
SELECT c.relname::text, c.oid, c.relkind::text,
    EXISTS (
        SELECT FROM pg_depend d
        WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e'
    ),
    ARRAY(
        SELECT a.attname::text FROM pg_attribute a
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
    ),
    ARRAY(
        SELECT format_type(a.atttypid, a.atttypmod) FROM pg_attribute a
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
    ),
    ARRAY(
        SELECT a.attname::text FROM pg_index i
        CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, position)
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum
        WHERE i.indrelid = c.oid AND i.indisprimary AND k.position <= i.indnkeyatts
        ORDER BY k.position
    )
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
ORDER BY c.relname COLLATE "C"
"""

# The types of the columns, and those that these are made of. int2vector is no array to the client.
_TYPES = """
WITH RECURSIVE part AS (
    SELECT DISTINCT atttypid AS oid FROM pg_attribute
    WHERE attrelid = ANY (%s::oid[]) AND attnum > 0 AND NOT attisdropped
    UNION
    SELECT made_of FROM part JOIN pg_type t USING (oid)
    CROSS JOIN LATERAL (VALUES (t.typbasetype), (t.typelem)) AS m(made_of)
    WHERE made_of <> 0
)
SELECT t.oid, t.typbasetype, CASE WHEN e.typarray = t.oid THEN e.oid ELSE 0::oid END,
    t.typdelim::text
FROM part JOIN pg_type t USING (oid) LEFT JOIN pg_type e ON e.oid = t.typelem
"""
