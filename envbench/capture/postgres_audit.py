"""The audit of a PostgreSQL database: triggers that record every change, and reading them back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import psycopg
from psycopg import sql

from envbench.capture.audit import AuditEvent, AuditIncomplete, key_of
from envbench.capture.postgres_tables import (
    Connection,
    Table,
    check_schema,
    list_tables,
    row_text,
    setting,
    settings,
)
from envbench.capture.postgres_values import SETTINGS
from envbench.capture.selection import Selection

_MARK = "envbench audit 1"

# Before and after are the text of whole rows: it holds every type exactly, and no column of it
# stands in the way when somebody alters or drops the table.
_SCHEMA = f"""
CREATE SCHEMA envbench_audit;
COMMENT ON SCHEMA envbench_audit IS '{_MARK}';
CREATE TABLE envbench_audit.event (
    event_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    xact xid8 NOT NULL DEFAULT pg_current_xact_id(),
    scope_id bigint NOT NULL,
    op text NOT NULL,
    before text,
    after text
);
CREATE INDEX event_by_xact ON envbench_audit.event (xact);
CREATE TABLE envbench_audit.scope (
    scope_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    current boolean NOT NULL DEFAULT true,
    installed xid8 NOT NULL DEFAULT pg_current_xact_id(),
    schema_name text NOT NULL,
    table_name text NOT NULL,
    table_oid oid NOT NULL,
    columns jsonb NOT NULL,
    types jsonb NOT NULL,
    rows_then bigint NOT NULL,
    hash_then numeric NOT NULL
);
"""

_GUARD = """
CREATE OR REPLACE FUNCTION envbench_audit.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'the audit only grows'; END
$$;
DROP TRIGGER IF EXISTS is_kept ON envbench_audit.event;
CREATE TRIGGER is_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON envbench_audit.event
    FOR EACH STATEMENT EXECUTE FUNCTION envbench_audit.refuse();
ALTER TABLE envbench_audit.event ENABLE ALWAYS TRIGGER is_kept;
"""

# Triggers fire in the order of their names. Ours are the first, so that what another trigger does
# because of a change is recorded after it.
_ROW_TRIGGER, _TRUNCATE_TRIGGER = "!envbench_audit_row", "!envbench_audit_truncate"


@dataclass(frozen=True, slots=True)
class Content:
    """How many rows a table has, and the sum of the hashes of their text.

    Both add up: what it was, and the events since, must give what it is.
    """

    rows: int
    hash: int

    def plus(self, other: Content) -> Content:
        """The content after a change."""
        return Content(self.rows + other.rows, self.hash + other.hash)


@dataclass(frozen=True, slots=True)
class Reading:
    """Where the audit was last read: the snapshot, and the tables' contents by number of scope."""

    snapshot: str
    contents: Mapping[int, Content]


@dataclass(frozen=True, slots=True)
class _Scope:
    """A table since the audit was installed on it: what it was then, and whether it is there."""

    number: int
    table: str
    columns: tuple[str, ...]
    types: tuple[str, ...]
    then: Content
    there: bool

    def fits(self, table: Table) -> bool:
        """Whether the rows recorded can be read as rows of the table."""
        return (self.columns, self.types) == (table.columns, table.types)


def start(connection: Connection, schema: str, tables: Sequence[Table]) -> Reading:
    """Begin to watch: events of transactions that are committed now are not asked for."""
    now = _snapshot(connection)
    contents: dict[int, Content] = {}
    try:
        if _has_audit(connection):
            there = {table.name: table for table in tables}
            for name, scope in _scopes(connection, schema).items():
                if scope.there and name in there and scope.fits(there[name]):
                    contents[scope.number] = _content(connection, there[name])
    except psycopg.errors.InsufficientPrivilege:
        pass  # whoever observes the state only needs no right to read the audit
    return Reading(now, contents)


def read_audit(
    connection: Connection,
    schema: str,
    tables: Sequence[Table],
    selection: Selection,
    last: Reading | None,
) -> tuple[list[AuditEvent], Reading]:
    """The events of `tables` since `last`, in order, and the reading to go on from.

    Args:
        connection: in a transaction with one snapshot.
        schema: the schema that is observed.
        tables: those chosen in it, with all their columns.
        selection: which of their columns the rows of events have.
        last: the reading before, None for all that was ever recorded.

    Raises:
        LookupError: when no audit is installed.
        AuditIncomplete: when it cannot hold everything that happened.
    """
    scopes = _scopes(connection, schema) if _has_audit(connection) else {}
    if not scopes:
        if last is not None and last.contents:
            msg = f"the audit of schema {schema!r} is gone"
            raise AuditIncomplete(msg)
        msg = (
            f"schema {schema!r} has no audit: call PostgresObserver.install_audit(conninfo) where "
            "the tables are made, before the episode"
        )
        raise LookupError(msg)
    now = _snapshot(connection)
    if last is not None and _xmax(now) < _xmax(last.snapshot):
        msg = "the server has seen fewer transactions than before: this is another one"
        raise AuditIncomplete(msg)
    _check_coverage(tables, scopes, selection)
    _check_triggers(connection, schema, {table.name for table in tables})
    watched = {scopes[table.name].number: table for table in tables if table.stored}
    bases = {scope.number: scope.then for scope in scopes.values() if scope.number in watched}
    known = {} if last is None else {n: c for n, c in last.contents.items() if n in watched}
    contents = _check_contents(connection, watched, bases, known, last)
    return _events(connection, schema, tables, selection, last), Reading(now, contents)


def _has_audit(connection: Connection) -> bool:
    return _one(connection, "SELECT to_regclass('envbench_audit.scope') IS NOT NULL") is True


def _snapshot(connection: Connection) -> str:
    return str(_one(connection, "SELECT pg_current_snapshot()::text"))


def _xmax(snapshot: str) -> int:
    return int(snapshot.split(":")[1])


def _one(connection: Connection, query: str) -> object:
    row = connection.execute(query).fetchone()
    return row and row[0]


def _scopes(connection: Connection, schema: str) -> dict[str, _Scope]:
    """The tables of a schema that are covered, by name."""
    found = connection.execute(
        """
        SELECT s.scope_id, s.table_name, s.columns, s.types, s.rows_then, s.hash_then,
            c.oid IS NOT NULL
        FROM envbench_audit.scope s
        LEFT JOIN pg_namespace n ON n.nspname = s.schema_name
        LEFT JOIN pg_class c
            ON c.oid = s.table_oid AND c.relname = s.table_name AND c.relnamespace = n.oid
        WHERE s.current AND s.schema_name = %s ORDER BY s.scope_id
        """,
        (schema,),
    ).fetchall()
    return {
        table: _Scope(number, table, tuple(columns), tuple(types), Content(rows, int(total)), there)
        for number, table, columns, types, rows, total, there in found
    }


def _check_coverage(
    tables: Sequence[Table], scopes: Mapping[str, _Scope], selection: Selection
) -> None:
    for scope in scopes.values():
        if not scope.there and selection.columns(scope.table, scope.columns) is not None:
            msg = (
                f"table {scope.table!r} is gone, renamed or made anew since its audit was installed"
            )
            raise AuditIncomplete(msg)
    for table in tables:
        if table.kind == "view":  # the tables that it shows are what changes
            continue
        if table.name not in scopes:
            msg = (
                f"table {table.name!r} is observed, and the audit does not cover it: install the "
                "audit again, or exclude the table"
            )
            raise AuditIncomplete(msg)
        if not scopes[table.name].fits(table):
            msg = f"the columns of {table.name!r} changed since its audit was installed"
            raise AuditIncomplete(msg)


def _check_triggers(connection: Connection, schema: str, tables: set[str]) -> None:
    """Raise when a trigger is not as it was installed: disabling one leaves a trace in the catalog.

    Its row there is then one that another transaction wrote.
    """
    found = connection.execute(_TRIGGERS, (schema,)).fetchall()
    for table, trigger, is_whole in found:
        if not is_whole and (table is None or table in tables):
            on = "the audit's own events" if table is None else f"table {table!r}"
            msg = f"the audit trigger {trigger!r} of {on} is gone, or is or was disabled or altered"
            raise AuditIncomplete(msg)


_TRIGGERS = f"""
WITH scope AS (SELECT * FROM envbench_audit.scope WHERE current),
needed AS (
    SELECT table_name, table_oid, installed, name
    FROM scope CROSS JOIN (VALUES ('{_ROW_TRIGGER}'), ('{_TRUNCATE_TRIGGER}')) AS n(name)
    WHERE schema_name = %s
    UNION ALL
    SELECT NULL, 'envbench_audit.event'::regclass, max(installed::text::numeric)::text::xid8,
        'is_kept'
    FROM scope
)
SELECT table_name, name, coalesce(
    t.tgenabled = 'A'
    AND t.xmin::text = installed::xid::text
    AND p.xmin::text = installed::xid::text
    -- and the copies that every partition has
    AND NOT EXISTS (
        SELECT FROM pg_partition_tree(table_oid) AS part
        LEFT JOIN pg_trigger copy ON copy.tgrelid = part.relid AND copy.tgname = name
        WHERE name = '{_ROW_TRIGGER}' AND coalesce(copy.tgenabled NOT IN ('O', 'A'), true)
    ), false)
FROM needed
LEFT JOIN pg_trigger t ON t.tgrelid = table_oid AND t.tgname = name
LEFT JOIN pg_proc p ON p.oid = t.tgfoid
"""


def _check_contents(
    connection: Connection,
    watched: Mapping[int, Table],
    bases: Mapping[int, Content],
    known: Mapping[int, Content],
    last: Reading | None,
) -> dict[int, Content]:
    """The present contents; raises when the events do not lead to them.

    From the contents at the last reading where they are known, so that a long history is added up
    once and not at every step.
    """
    changes = _changes(connection, [n for n in bases if n not in known], None)
    changes |= _changes(connection, known, last)
    contents = {}
    for number, table in watched.items():
        before = known.get(number, bases[number])
        expected = before.plus(changes.get(number, Content(0, 0)))
        found = _content(connection, table)
        if found.rows != expected.rows:
            msg = (
                f"table {table.name!r} has {found.rows} row(s), and by its audit it should have "
                f"{expected.rows}: rows came or went unrecorded"
            )
            raise AuditIncomplete(msg)
        if found != expected:
            msg = (
                f"rows of table {table.name!r} are not what its audit says: some changed unrecorded"
            )
            raise AuditIncomplete(msg)
        contents[number] = found
    return contents


def _content(connection: Connection, table: Table) -> Content:
    query = sql.SQL("SELECT count(*), coalesce(sum({}), 0) FROM {}").format(
        _hash(table.whole_row), table.source
    )
    ((rows, total),) = connection.execute(query).fetchall()
    return Content(rows, int(total))


def _changes(
    connection: Connection, numbers: Iterable[int], since: Reading | None
) -> dict[int, Content]:
    """What the events of some scopes add to their tables, in total."""
    query = sql.SQL(
        """
        SELECT scope_id, sum((after IS NOT NULL)::int - (before IS NOT NULL)::int)::bigint,
            coalesce(sum({after}), 0) - coalesce(sum({before}), 0)
        FROM envbench_audit.event WHERE scope_id = ANY ({numbers}::bigint[]) AND {new}
        GROUP BY scope_id
        """
    ).format(
        after=_hash(sql.SQL("after")),
        before=_hash(sql.SQL("before")),
        numbers=sql.Literal("{" + ",".join(map(str, numbers)) + "}"),
        new=_new(since),
    )
    return {
        number: Content(rows, int(total))
        for number, rows, total in connection.execute(query).fetchall()
    }


def _hash(text: sql.Composable) -> sql.Composable:
    return sql.SQL('hashtextextended({} COLLATE "C", 0)::numeric').format(text)


def _new(since: Reading | None) -> sql.Composable:
    """SQL for whether an event was not committed at a reading.

    Event numbers cannot tell: they are drawn before the commit, so a lower one can appear later.
    """
    if since is None:
        return sql.SQL("true")
    # the first condition says nothing new, and lets the index leave the long past out
    return sql.SQL(
        "(xact >= pg_snapshot_xmin({0}::pg_snapshot)"
        " AND NOT pg_visible_in_snapshot(xact, {0}::pg_snapshot))"
    ).format(sql.Literal(since.snapshot))


def _events(
    connection: Connection,
    schema: str,
    tables: Sequence[Table],
    selection: Selection,
    since: Reading | None,
) -> list[AuditEvent]:
    query = sql.SQL(
        """
        SELECT scope_id, table_name, columns, types FROM envbench_audit.scope
        WHERE schema_name = %s AND scope_id IN (SELECT scope_id FROM envbench_audit.event WHERE {})
        """
    ).format(_new(since))
    there = {table.name: table for table in tables if table.stored}
    events: list[tuple[int, AuditEvent]] = []
    for number, name, columns, types in connection.execute(query, (schema,)).fetchall():
        table = there.get(name)
        if table is None:
            continue
        if (tuple(columns), tuple(types)) != (table.columns, table.types):
            msg = f"the columns of {name!r} changed after events that were not read yet"
            raise AuditIncomplete(msg)
        chosen = selection.columns(name, table.columns) or ()
        events += _events_of(connection, table, number, chosen, since)
    events.sort(key=lambda numbered: numbered[0])
    return [event for _, event in events]


def _events_of(
    connection: Connection,
    table: Table,
    number: int,
    chosen: Sequence[str],
    since: Reading | None,
) -> list[tuple[int, AuditEvent]]:
    # OFFSET 0 keeps the server from reading the text once for every column.
    query = sql.SQL(
        """
        SELECT event_id, op, before IS NOT NULL, after IS NOT NULL {fields} FROM (
            SELECT event_id, op, before, after, before::{table} AS b, after::{table} AS a
            FROM envbench_audit.event WHERE scope_id = {number}::bigint AND {new} OFFSET 0
        ) AS recorded
        """
    ).format(
        fields=sql.SQL("").join(
            [
                sql.SQL(f", ({side}).{{}}").format(sql.Identifier(column))
                for side in "ba"
                for column in table.columns
            ]
        ),
        table=table.identifier,
        number=sql.Literal(str(number)),
        new=_new(since),
    )
    try:
        found = connection.execute(query).fetchall()
    except (psycopg.OperationalError, psycopg.errors.InsufficientPrivilege):
        raise
    except psycopg.Error as error:  # of the types' own reading of text, whichever it is
        msg = f"a row that the audit of {table.name!r} holds fits the table no more: {error}"
        raise AuditIncomplete(msg) from error
    events = []
    width = len(table.columns)
    for event_id, op, has_before, has_after, *values in found:
        before = dict(zip(table.columns, values[:width], strict=True)) if has_before else None
        after = dict(zip(table.columns, values[width:], strict=True)) if has_after else None
        event: AuditEvent = {
            "table": table.name,
            "op": op,
            "key": key_of(table.key, after if before is None else before),
            "before": before and {column: before[column] for column in chosen},
            "after": after and {column: after[column] for column in chosen},
        }
        events.append((event_id, event))
    return events


def install(
    connection: Connection, schema: str, names: Iterable[str] | None, timeout: float
) -> tuple[str, ...]:
    """Install the audit on the tables named, or on all; returns the names of all it covers."""
    if isinstance(names, str):
        msg = f"tables must be a list of names, not one string: write [{names!r}]"
        raise TypeError(msg)
    with connection.transaction():
        connection.execute(sql.SQL("; ").join(settings(timeout)))
        connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('envbench_audit', 0))")
        _make_own_schema(connection)
        covered = _scopes(connection, schema)
        check_schema(connection, schema)
        tables = _to_audit(list_tables(connection, schema), names, set(covered))
        _end(connection, schema, covered)
        for table in tables:
            _install_on(connection, table)
    return tuple(sorted(table.name for table in tables))


def _make_own_schema(connection: Connection) -> None:
    found = connection.execute(
        "SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace"
        " WHERE nspname = 'envbench_audit'"
    ).fetchone()
    if found is None:
        connection.execute(_SCHEMA)
    elif found != (_MARK,):
        msg = "the database has a schema 'envbench_audit' of its own, and the audit needs that name"
        raise ValueError(msg)
    connection.execute(_GUARD)


def _to_audit(there: list[Table], names: Iterable[str] | None, covered: set[str]) -> list[Table]:
    if names is None:
        return [table for table in there if table.ordinary or table.name in covered]
    wanted = set(names)
    known = {table.name: table for table in there}
    for name in sorted(wanted):
        if name not in known:
            msg = f"there is no table {name!r} to audit (there are {', '.join(known) or 'none'})"
            raise LookupError(msg)
        if not known[name].stored:
            msg = f"{name!r} cannot be audited: it is a {known[name].kind}, not a table"
            raise ValueError(msg)
    return [table for table in there if table.name in wanted | covered and table.stored]


def _end(connection: Connection, schema: str, scopes: Mapping[str, _Scope]) -> None:
    """End what was covered; its events stay. Its triggers go with the function they call."""
    for scope in scopes.values():
        connection.execute(
            sql.SQL("DROP FUNCTION IF EXISTS {} CASCADE").format(_function(scope.number))
        )
    connection.execute(
        "UPDATE envbench_audit.scope SET current = false WHERE current AND schema_name = %s",
        (schema,),
    )


def _install_on(connection: Connection, table: Table) -> None:
    # No writer is in the middle of something: its rows would be counted, or recorded, but not both.
    connection.execute(sql.SQL("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE").format(table.source))
    content = _content(connection, table)
    ((number,),) = connection.execute(
        """
        INSERT INTO envbench_audit.scope
            (schema_name, table_name, table_oid, columns, types, rows_then, hash_then)
        VALUES (%s, %s, %s::oid, %s::jsonb, %s::jsonb, %s::bigint, %s::numeric)
        RETURNING scope_id
        """,
        (
            table.schema,
            table.name,
            str(table.oid),
            json.dumps(table.columns),
            json.dumps(table.types),
            str(content.rows),
            str(content.hash),
        ),
    ).fetchall()
    fixed = [
        sql.SQL("SET {} = {}").format(sql.Identifier(name), setting(name, value))
        for name, value in SETTINGS.items()
    ]
    connection.execute(
        sql.SQL(
            "CREATE FUNCTION {} RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER {} AS {}"
        ).format(
            _function(number),
            sql.SQL(" ").join(fixed),
            sql.Literal(_body(table, number).as_string(connection)),
        )
    )
    for name, when, each in (
        (_ROW_TRIGGER, "AFTER INSERT OR UPDATE OR DELETE", "ROW"),
        (_TRUNCATE_TRIGGER, "BEFORE TRUNCATE", "STATEMENT"),
    ):
        connection.execute(
            sql.SQL(
                "CREATE TRIGGER {name} " + when + " ON {table} FOR EACH " + each + ""
                " EXECUTE FUNCTION {function};"
                " ALTER TABLE {table} ENABLE ALWAYS TRIGGER {name}"
            ).format(
                name=sql.Identifier(name),
                table=table.identifier,
                function=_function(number),
            )
        )


def _function(number: int) -> sql.Composable:
    return sql.SQL("{}()").format(sql.Identifier("envbench_audit", f"record_{number}"))


def _body(table: Table, number: int) -> sql.Composable:
    order = sql.SQL(", ").join([sql.SQL("r.{}").format(sql.Identifier(c)) for c in table.key])
    return sql.SQL(
        """
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO envbench_audit.event (scope_id, op, after)
        VALUES ({number}, 'insert', {new});
    ELSIF TG_OP = 'UPDATE' THEN
        INSERT INTO envbench_audit.event (scope_id, op, before, after)
        VALUES ({number}, 'update', {old}, {new});
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO envbench_audit.event (scope_id, op, before)
        VALUES ({number}, 'delete', {old});
    ELSE
        INSERT INTO envbench_audit.event (scope_id, op, before)
        SELECT {number}, 'delete', {each} FROM {source} AS r ORDER BY {order};
    END IF;
    RETURN NULL;
END
"""
    ).format(
        number=sql.SQL(str(number)),
        new=row_text("NEW", table.columns),
        old=row_text("OLD", table.columns),
        each=row_text("r", table.columns),
        source=table.source,
        order=order if table.key else row_text("r", table.columns),
    )
