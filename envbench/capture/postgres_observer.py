"""`PostgresObserver`: state in a PostgreSQL database, and its audit when there is one."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import psycopg

from envbench.capture.audit import AuditEvent
from envbench.capture.postgres_audit import Reading, install, read_audit, start
from envbench.capture.postgres_tables import (
    Connection,
    Row,
    Table,
    check_schema,
    connected,
    list_tables,
    read_rows,
    snapshot,
)
from envbench.capture.selection import Selected, Selection, pointer


class PostgresObserver:
    """Read the committed state of one schema of a PostgreSQL database, and its audit.

    Calling the observer gives `{table: [row, …]}`, each row a dict of columns, all tables from one
    read-only REPEATABLE READ transaction. Rows are in the order of their primary key, or of their
    text where there is none. A partitioned table is one table; a row of a table that inherits from
    another stands in its own table only.

    NULL, booleans, integers, floats, numeric, text, bytea, uuid, dates and times come as None,
    bool, int, float, Decimal, str, bytes, UUID and `datetime`'s types (timestamptz in UTC); arrays
    as lists; jsonb as what it holds, numbers as Decimal where a float has not the same digits, and
    its null as `Named("postgresql.jsonb", None)`. All else comes as the text that PostgreSQL
    writes, which holds all of it: json, enums, ranges, network addresses, intervals (as ISO 8601),
    composites, money, XML, geometry; and dates that Python has not (`infinity`, BC, after 9999,
    24:00), and arrays that do not count from one. Domains are what they stand on.

    `include` and `exclude` name tables (`"accounts"`) or single columns (`("accounts", "name")`).
    Left out unless included by name: views, materialized views, foreign tables, and tables that
    came with an extension.

    A connection is opened for each reading, with `conninfo` as libpq takes it. Its role needs
    SELECT on the tables, and for the audit on those in schema `envbench_audit`; where row security
    would hide rows from it, reading is an error.

    Example::

        observer = PostgresObserver("dbname=shop")
        capture_episode(factory, interact, observe=observer, audit=observer.audit,
                        row_keys=observer.row_keys, …)

    Raises psycopg.Error when the database cannot be read (a table that a transaction keeps locked
    longer than `timeout` seconds is one case), RuntimeError for a server before PostgreSQL 13, and
    LookupError when there is no such schema or, at the first reading, a name in `include` or
    `exclude` is nowhere in it.
    """

    def __init__(
        self,
        conninfo: str,
        *,
        schema: str = "public",
        include: Iterable[Selected] | None = None,
        exclude: Iterable[Selected] = (),
        timeout: float = 5.0,
    ) -> None:
        psycopg.conninfo.conninfo_to_dict(conninfo)  # wrong ones are refused at once
        self.schema = schema
        self.timeout = timeout
        self._conninfo = conninfo
        self._selection = Selection(include, exclude)
        self._expected: list[Table] = []
        self._last = self._start()

    def __call__(self) -> dict[str, list[Row]]:
        """The committed state now: `{table: [row, …]}`."""
        with connected(self._conninfo, self.timeout) as connection:
            tables = self._snapshot(connection, self._chosen)
            return {table.name: read_rows(connection, self._only(table)) for table in tables}

    @property
    def row_keys(self) -> dict[str, str]:
        """The key column of each table with a primary key of one column: `{"/accounts": "id"}`.

        It is read now, so the tables must exist: where the factory makes them, make them before,
        or name the keys by hand. A composite key has no single column and is left out.
        """
        with connected(self._conninfo, self.timeout) as connection:
            return {
                pointer(table.name): table.key[0]
                for table in self._chosen(connection)
                if len(table.key) == 1 and table.key[0] in self._only(table).columns
            }

    def audit(self) -> list[AuditEvent]:
        """What the audit recorded since the last call, or since this observer was made.

        Each event is `{table, op, key, before, after}`: `op` is `insert`, `update` or `delete`
        (one for each row that TRUNCATE removed); `before` and `after` are rows with the columns
        that are observed, None where there is none; `key` is the value of the primary key (before,
        if it changed), a dict of columns for a composite key, None for a table without one. An
        update that changed nothing is an event too.

        An event is new when its transaction was not committed at the last call, however long ago
        it began. The order is that in which rows were written, but for one case: what a row
        trigger of the user's does to other rows of the statement that fired it comes too early.

        Raises LookupError when no audit is installed, and AuditIncomplete when something happened
        that the audit did not record: a trigger gone or disabled, also for a while; a table that is
        observed and not covered; columns changed; events removed; rows that came, went or changed
        unrecorded.
        """
        with connected(self._conninfo, self.timeout) as connection:
            tables = self._snapshot(connection, self._chosen)
            events, self._last = read_audit(
                connection, self.schema, tables, self._selection, self._last
            )
            return events

    @staticmethod
    def install_audit(
        conninfo: str,
        tables: Iterable[str] | None = None,
        schema: str = "public",
        *,
        timeout: float = 5.0,
    ) -> tuple[str, ...]:
        """Change the database: from now on triggers record every change of these tables.

        The tables of the schema that are named, or all, get triggers that write each row inserted,
        updated, deleted or truncated to `envbench_audit.event`, as text that is read back to the
        same values. Events join the transaction that caused them: rolled back with it, committed
        with it. The triggers fire for every role, with the rights of the one that installs, and in
        every `session_replication_role`. Installing again keeps what was recorded and covers the
        new tables and columns as well; what happened to a table that was not whole before that is
        not asked again. A table created later is not covered. `DROP SCHEMA envbench_audit CASCADE`
        takes it all away.

        Returns the names of all tables covered in the schema. Raises LookupError for a schema or a
        table that is not there, ValueError for a view or a foreign table, or when a schema named
        `envbench_audit` is the user's own, psycopg.Error where the role may not do this or a table
        is locked longer than `timeout` seconds.
        """
        with connected(conninfo, timeout) as connection:
            return install(connection, schema, tables, timeout)

    def _start(self) -> Reading | None:
        try:
            with connected(self._conninfo, self.timeout) as connection:
                tables = self._snapshot(connection, self._there)
                return start(connection, self.schema, tables)
        except psycopg.OperationalError as error:
            if error.sqlstate is not None:  # not of the connection
                raise
            return None  # the factory may make the database; if not, the first reading says so

    def _snapshot(
        self, connection: Connection, choose: Callable[[Connection], list[Table]]
    ) -> list[Table]:
        self._expected = snapshot(connection, self.timeout, choose, self._expected)
        return self._expected

    def _chosen(self, connection: Connection) -> list[Table]:
        """The tables to read, with all their columns."""
        tables = list_tables(connection, self.schema)
        if not tables:
            check_schema(connection, self.schema)
        source = f"schema {self.schema!r} of database {connection.info.dbname!r}"
        self._selection.check_once({table.name: table.columns for table in tables}, source)
        return self._selected(tables)

    def _there(self, connection: Connection) -> list[Table]:
        """The tables to read as far as they are there yet."""
        return self._selected(list_tables(connection, self.schema))

    def _selected(self, tables: list[Table]) -> list[Table]:
        return [table for table in tables if self._columns(table) is not None]

    def _columns(self, table: Table) -> tuple[str, ...] | None:
        return self._selection.columns(table.name, table.columns, by_default=table.ordinary)

    def _only(self, table: Table) -> Table:
        return table.only(self._columns(table) or ())
