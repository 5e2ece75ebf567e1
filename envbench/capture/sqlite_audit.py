"""The audit of an SQLite database: triggers that record every change, and reading them back."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

from envbench.capture.audit import AuditEvent, AuditIncomplete, key_of
from envbench.capture.sqlite_tables import AUDIT_TABLES, Row, Table, count_rows, list_tables, quoted

_AUDIT_SCHEMA = """
CREATE TABLE IF NOT EXISTS envbench_audit (
    event_id INTEGER PRIMARY KEY AUTOINCREMENT,
    table_name TEXT NOT NULL,
    op TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS envbench_audit_values (
    event_id INTEGER NOT NULL,
    side TEXT NOT NULL,
    position INTEGER NOT NULL,
    column_name TEXT NOT NULL,
    value BLOB, -- that is: no affinity, every value keeps the type it had
    PRIMARY KEY (event_id, side, position)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS envbench_audit_staged (
    table_name TEXT NOT NULL,
    row_number INTEGER NOT NULL,
    position INTEGER NOT NULL,
    column_name TEXT NOT NULL,
    value BLOB,
    PRIMARY KEY (table_name, row_number, position)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS envbench_audit_scope (
    table_name TEXT PRIMARY KEY NOT NULL,
    table_number INTEGER NOT NULL,
    columns TEXT NOT NULL,
    first_event INTEGER NOT NULL,
    rows_then INTEGER NOT NULL
);
CREATE TRIGGER IF NOT EXISTS envbench_audit_is_kept BEFORE DELETE ON envbench_audit
BEGIN SELECT RAISE(ABORT, 'the audit only grows'); END;
CREATE TRIGGER IF NOT EXISTS envbench_audit_is_final BEFORE UPDATE ON envbench_audit
BEGIN SELECT RAISE(ABORT, 'the audit only grows'); END;
CREATE TRIGGER IF NOT EXISTS envbench_audit_values_are_kept BEFORE DELETE ON envbench_audit_values
BEGIN SELECT RAISE(ABORT, 'the audit only grows'); END;
CREATE TRIGGER IF NOT EXISTS envbench_audit_values_are_final BEFORE UPDATE ON envbench_audit_values
BEGIN SELECT RAISE(ABORT, 'the audit only grows'); END;
"""


def has_audit(connection: sqlite3.Connection) -> bool:
    """Whether an audit was ever installed."""
    found = connection.execute(
        "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN (?, ?, ?, ?)",
        AUDIT_TABLES,
    ).fetchone()
    return bool(found[0] == len(AUDIT_TABLES))


def last_event(connection: sqlite3.Connection) -> int:
    """The number of the newest event ever recorded, also when it was deleted since."""
    if not has_audit(connection):
        return 0
    found = connection.execute(
        "SELECT seq FROM sqlite_sequence WHERE name = 'envbench_audit'"
    ).fetchone()
    return int(found[0]) if found else 0


def check_whole(
    connection: sqlite3.Connection, since: int, known: Mapping[str, int]
) -> dict[str, int]:
    """Count the rows of each audited table; `known` are those at event `since`, where counted.

    Raises AuditIncomplete when the audit cannot hold everything that happened.
    """
    last = last_event(connection)
    (kept,) = connection.execute(
        "SELECT count(*) FROM envbench_audit WHERE event_id > ?", (since,)
    ).fetchone()
    if last < since:
        msg = f"the audit ends at event {last}, and it had {since}: this is another database"
        raise AuditIncomplete(msg)
    if kept != last - since:
        msg = f"{last - since - kept} event(s) after event {since} were removed from the audit"
        raise AuditIncomplete(msg)
    there = {table.name: table for table in list_tables(connection)}
    triggers = dict(
        connection.execute("SELECT name, tbl_name FROM sqlite_master WHERE type = 'trigger'")
    )
    counts = {}
    for scope in _scopes(connection):
        table = there.get(scope.table)
        if table is None:
            msg = f"table {scope.table!r} is gone or renamed since its audit was installed"
            raise AuditIncomplete(msg)
        if table.columns != scope.columns:
            msg = f"the columns of {scope.table!r} changed since its audit was installed"
            raise AuditIncomplete(msg)
        for name in _trigger_names(scope.number):
            if triggers.get(name) != scope.table:
                msg = f"the audit trigger {name} of table {scope.table!r} is gone"
                raise AuditIncomplete(msg)
        counts[scope.table] = _checked_count(connection, scope, since, known.get(scope.table))
    return counts


def _checked_count(
    connection: sqlite3.Connection, scope: _Scope, since: int, known: int | None
) -> int:
    # From the count at the last reading where there is one, so that a long history is added up
    # once and not at every step.
    if known is None or scope.first_event > since:
        since, known = scope.first_event, scope.rows_then
    rows = count_rows(connection, scope.table)
    (net,) = connection.execute(
        "SELECT coalesce(sum((op = 'insert') - (op = 'delete')), 0) FROM envbench_audit"
        " WHERE table_name = ? AND event_id > ?",
        (scope.table, since),
    ).fetchone()
    if rows != known + net:
        msg = (
            f"table {scope.table!r} has {rows} row(s), and by its audit it should have "
            f"{known + net}: rows came or went unrecorded"
        )
        raise AuditIncomplete(msg)
    return rows


def events_after(connection: sqlite3.Connection, since: int) -> list[AuditEvent]:
    """The events newer than event `since`, in the order they happened."""
    keys = {table.name: table.key for table in list_tables(connection)}
    found = connection.execute(
        "SELECT event_id, table_name, op, side, column_name, value"
        " FROM envbench_audit JOIN envbench_audit_values USING (event_id)"
        " WHERE event_id > ? ORDER BY event_id, side, position",
        (since,),
    )
    events: list[AuditEvent] = []
    for (_, table, op), values in groupby(found, key=lambda row: row[:3]):
        sides: dict[str, Row] = {}
        for _, _, _, side, column, value in values:
            sides.setdefault(side, {})[column] = value
        before, after = sides.get("before"), sides.get("after")
        key = key_of(keys.get(table, ()), after if before is None else before)
        events.append({"table": table, "op": op, "key": key, "before": before, "after": after})
    return events


@dataclass(frozen=True, slots=True)
class _Scope:
    table: str
    number: int
    columns: tuple[str, ...]
    first_event: int
    rows_then: int


def _scopes(connection: sqlite3.Connection) -> list[_Scope]:
    return [
        _Scope(table, number, tuple(json.loads(columns)), first_event, rows_then)
        for table, number, columns, first_event, rows_then in connection.execute(
            "SELECT * FROM envbench_audit_scope ORDER BY table_number"
        ).fetchall()
    ]


def install(connection: sqlite3.Connection, tables: Iterable[str] | None) -> tuple[str, ...]:
    """Install the audit on the tables named, or on all; returns the names of all it covers."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        _refuse_taken_names(connection)
        for statement in _statements(_AUDIT_SCHEMA):
            connection.execute(statement)
        covered = {scope.table: scope.number for scope in _scopes(connection)}
        for table in _to_audit(list_tables(connection), tables, set(covered)):
            number = covered.setdefault(table.name, max(covered.values(), default=0) + 1)
            _install_on(connection, table, number)
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
    return tuple(sorted(covered))


def _refuse_taken_names(connection: sqlite3.Connection) -> None:
    ours = {" ".join(statement.split()) for statement in _statements(_AUDIT_SCHEMA)}
    for name, sql in connection.execute("SELECT name, sql FROM sqlite_master WHERE sql NOT NULL"):
        found = " ".join(sql.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS", 1).split()) + ";"
        if name in AUDIT_TABLES and found not in ours:
            msg = f"the database has a {name!r} of its own, and the audit needs that name"
            raise ValueError(msg)


def _statements(script: str) -> Iterator[str]:
    """The statements of a script, one by one: executescript would commit the open transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _to_audit(there: list[Table], names: Iterable[str] | None, covered: set[str]) -> list[Table]:
    if isinstance(names, str):
        msg = f"tables must be a list of names, not one string: write [{names!r}]"
        raise TypeError(msg)
    ordinary = {table.name: table for table in there if table.ordinary and table.kind == "table"}
    if names is None:
        return list(ordinary.values())
    wanted = set(names)
    for name in sorted(wanted):
        if name in ordinary:
            continue
        if any(name == table.name for table in there):
            msg = f"{name!r} cannot be audited: triggers need an ordinary table"
            raise ValueError(msg)
        msg = f"there is no table {name!r} to audit (there are {', '.join(ordinary)})"
        raise LookupError(msg)
    return [table for name, table in ordinary.items() if name in wanted | covered]


def _install_on(connection: sqlite3.Connection, table: Table, number: int) -> None:
    for name in _trigger_names(number):
        connection.execute(f"DROP TRIGGER IF EXISTS {name}")
    identity = _row_identity(connection, table)
    conflict = _conflict(connection, table, identity)
    for name, sql in zip(
        _trigger_names(number), _trigger_bodies(table, identity, conflict), strict=True
    ):
        when, event = name.rsplit("_", 2)[1:]
        connection.execute(
            f"CREATE TRIGGER {name} {when} {event} ON {quoted(table.name)} BEGIN {sql} END"
        )
    connection.execute(
        "INSERT OR REPLACE INTO envbench_audit_scope VALUES (?, ?, ?, ?, ?)",
        (
            table.name,
            number,
            json.dumps(table.columns),
            last_event(connection),
            count_rows(connection, table.name),
        ),
    )


def _trigger_names(number: int) -> list[str]:
    events = ("before_insert", "after_insert", "before_update", "after_update", "after_delete")
    return [f"envbench_audit_{number}_{event}" for event in events]


def _row_identity(connection: sqlite3.Connection, table: Table) -> str | None:
    """A name for the rowid that no column has taken; None in a table WITHOUT ROWID."""
    (without_rowid,) = connection.execute(
        "SELECT wr FROM pragma_table_list WHERE schema = 'main' AND name = ?", (table.name,)
    ).fetchone()
    if without_rowid:
        return None
    taken = {column.lower() for column in table.columns}
    free = [name for name in ("rowid", "_rowid_", "oid") if name not in taken]
    if not free:
        msg = f"{table.name!r} cannot be audited: its columns hide every name of the rowid"
        raise ValueError(msg)
    return free[0]


def _conflict(connection: sqlite3.Connection, table: Table, identity: str | None) -> str:
    """SQL that holds for the rows of `table` which REPLACE would remove in favour of NEW.

    It may hold for a few more where there is a rowid (those still there afterwards are dropped).
    """
    ways = [f"{identity} = NEW.{identity}"] if identity else []
    for index, partial in connection.execute(
        'SELECT name, partial FROM pragma_index_list(?) WHERE "unique"', (table.name,)
    ).fetchall():
        parts = connection.execute(
            "SELECT name, coll FROM pragma_index_xinfo(?) WHERE key", (index,)
        ).fetchall()
        over_an_expression = any(name is None for name, _ in parts)
        if over_an_expression or (partial and identity is None):
            continue
        ways.append(
            " AND ".join(
                f"{quoted(name)} = NEW.{quoted(name)} COLLATE {quoted(collation)}"
                for name, collation in parts
            )
        )
    return " OR ".join(f"({way})" for way in ways)


def _trigger_bodies(table: Table, identity: str | None, conflict: str) -> list[str]:
    """The bodies of the five triggers, in the order of their names."""
    name = _literal(table.name)
    forget = f"DELETE FROM envbench_audit_staged WHERE table_name = {name};"
    if identity is None:
        same = " AND ".join(f"{quoted(column)} IS OLD.{quoted(column)}" for column in table.key)
        drop_survivors = ""
    else:
        same = f"{identity} = OLD.{identity}"
        drop_survivors = (
            f"DELETE FROM envbench_audit_staged WHERE table_name = {name}"
            f" AND row_number <> NEW.{identity} AND EXISTS (SELECT 1 FROM {quoted(table.name)} AS t"
            f" WHERE t.{identity} = envbench_audit_staged.row_number);"
        )
    replaced = drop_survivors + _record_staged(name) + forget
    return [
        forget + _stage(table, identity, conflict),
        replaced + _record(table, "insert", after="NEW"),
        forget + _stage(table, identity, f"({conflict}) AND NOT ({same})"),
        replaced + _record(table, "update", before="OLD", after="NEW"),
        # With recursive triggers on, REPLACE does fire this one: what it records is not staged.
        forget + _record(table, "delete", before="OLD"),
    ]


def _stage(table: Table, identity: str | None, condition: str) -> str:
    """Keep the rows that meet the condition, in case the statement is about to remove them."""
    columns = range(len(table.columns))
    number = identity or "row_number() OVER ()"
    copied = ", ".join(f"{quoted(table.columns[i])} AS c{i}" for i in columns)
    names = ", ".join(f"({i}, {_literal(table.columns[i])})" for i in columns)
    pick = " ".join(f"WHEN {i} THEN r.c{i}" for i in columns)
    return (
        "INSERT INTO envbench_audit_staged"
        f" SELECT {_literal(table.name)}, r.n, c.column1, c.column2, CASE c.column1 {pick} END"
        f" FROM (SELECT {number} AS n, {copied} FROM {quoted(table.name)} WHERE {condition}) AS r,"
        f" (VALUES {names}) AS c;"
    )


def _record_staged(name: str) -> str:
    staged = f"envbench_audit_staged WHERE table_name = {name}"
    return (
        "INSERT INTO envbench_audit (table_name, op)"
        f" SELECT {name}, 'delete' FROM (SELECT DISTINCT row_number FROM {staged});"
        "INSERT INTO envbench_audit_values"
        f" SELECT (SELECT max(event_id) FROM envbench_audit)"
        f" - (SELECT count(DISTINCT row_number) FROM {staged})"
        " + dense_rank() OVER (ORDER BY row_number), 'before', position, column_name, value"
        f" FROM {staged};"
    )


def _record(table: Table, op: str, *, before: str | None = None, after: str | None = None) -> str:
    # Not JSON, and not quote(): the one loses BLOBs and integers' types, the other NUL characters.
    rows = ", ".join(
        f"('{side}', {position}, {_literal(column)}, {row}.{quoted(column)})"
        for side, row in (("before", before), ("after", after))
        if row
        for position, column in enumerate(table.columns)
    )
    return (
        f"INSERT INTO envbench_audit (table_name, op) VALUES ({_literal(table.name)}, '{op}');"
        "INSERT INTO envbench_audit_values SELECT (SELECT max(event_id) FROM envbench_audit), v.*"
        f" FROM (VALUES {rows}) AS v;"
    )


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
