"""PostgresObserver against a real server: what it reads, and what its audit has seen."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from gymnasium import Env
from gymnasium.spaces import Discrete
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envbench.changes import Forbid, find_violations
from envbench.evidence import EpisodeEvidence
from envbench.evidence.tagged import Named, encode
from envbench.store import Store
from tests.capture.postgres import execute, server

psycopg = pytest.importorskip("psycopg", reason="needs psycopg: pip install 'envbench[postgres]'")

from envbench.capture.observers import AuditIncomplete, PostgresObserver  # noqa: E402

Database = Callable[..., str]

ACCOUNTS = "CREATE TABLE accounts (id int PRIMARY KEY, cents int)"
TWO_ROWS = "INSERT INTO accounts VALUES (1, 10), (2, 20)"


@pytest.fixture(scope="session")
def running() -> Iterator[str]:
    with server() as conninfo:
        yield conninfo


_numbers = itertools.count(1)


@pytest.fixture
def database(running: str) -> Iterator[Database]:
    """Make a database from statements, for one test; gives its conninfo."""
    made: list[str] = []

    def make(*statements: str, encoding: str = "UTF8") -> str:
        name = f"t{next(_numbers)}"
        locale = "C" if encoding == "SQL_ASCII" else "C.UTF-8"
        execute(
            f"{running} dbname=postgres",
            f"CREATE DATABASE {name} TEMPLATE template0 ENCODING '{encoding}' LOCALE '{locale}'",
        )
        made.append(name)
        conninfo = f"{running} dbname={name}"
        execute(conninfo, *statements)
        return conninfo

    yield make
    for name in made:
        execute(f"{running} dbname=postgres", f"DROP DATABASE {name} WITH (FORCE)")


def audited(conninfo: str) -> PostgresObserver:
    PostgresObserver.install_audit(conninfo)
    return PostgresObserver(conninfo)


def told(observer: PostgresObserver) -> list[tuple[Any, ...]]:
    """The events as tuples of op, key, and the value of the column that is not the key."""
    return [
        (
            event["op"],
            event["key"],
            event["before"] and event["before"]["cents"],  # type: ignore[index]
            event["after"] and event["after"]["cents"],  # type: ignore[index]
        )
        for event in observer.audit()
    ]


def rows_of(event: dict[str, Any]) -> tuple[Any, Any]:
    return event["before"], event["after"]


# --- what it reads


def test_rows_are_in_the_order_of_their_key(database: Database) -> None:
    conninfo = database(
        "CREATE TABLE pairs (a int, b text, c int, PRIMARY KEY (c, a))",
        "INSERT INTO pairs VALUES (2, 'x', 1), (1, 'y', 2), (1, 'z', 1)",
        "CREATE TABLE bag (n int, j json)",
        "INSERT INTO bag VALUES (2, '1'), (10, '1'), (NULL, '1'), (2, '1')",
        "CREATE TABLE accounts (id int PRIMARY KEY, cents int)",
    )
    observer = PostgresObserver(conninfo)
    assert observer() == {
        "accounts": [],
        # no key: in the order of their text
        "bag": [{"n": n, "j": "1"} for n in (None, 10, 2, 2)],
        "pairs": [
            {"a": 1, "b": "z", "c": 1},
            {"a": 2, "b": "x", "c": 1},
            {"a": 1, "b": "y", "c": 2},
        ],
    }
    assert observer.row_keys == {"/accounts": "id"}


def test_names_may_be_anything(database: Database) -> None:
    conninfo = database(
        'CREATE TABLE "a/b~ ""c"" %s" ("found" int PRIMARY KEY, "NEW" int, "it\'s %s" int, op int)',
        'INSERT INTO "a/b~ ""c"" %s" VALUES (1, 2, 3, 4)',
    )
    observer = audited(conninfo)
    table = 'a/b~ "c" %s'
    row = {"found": 1, "NEW": 2, "it's %s": 3, "op": 4}
    assert observer() == {table: [row]}
    assert observer.row_keys == {'/a~1b~0 "c" %s': "found"}
    execute(conninfo, 'TRUNCATE "a/b~ ""c"" %s"')
    assert observer.audit() == [
        {"table": table, "op": "delete", "key": 1, "before": row, "after": None}
    ]


def test_views_and_what_came_with_an_extension_are_read_when_they_are_included(
    database: Database,
) -> None:
    conninfo = database(
        ACCOUNTS,
        TWO_ROWS,
        "CREATE VIEW rich AS SELECT id FROM accounts WHERE cents > 10",
        "CREATE MATERIALIZED VIEW poor AS SELECT id FROM accounts WHERE cents <= 10",
        "CREATE TABLE units (name text)",
        "ALTER EXTENSION plpgsql ADD TABLE units",
    )
    assert list(PostgresObserver(conninfo)()) == ["accounts"]
    chosen = PostgresObserver(conninfo, include=["rich", "poor", "units"])
    assert chosen() == {"poor": [{"id": 1}], "rich": [{"id": 2}], "units": []}


def test_include_and_exclude(database: Database) -> None:
    conninfo = database(
        "CREATE TABLE a (x int PRIMARY KEY, y int)",
        "CREATE TABLE b (z int)",
        "CREATE SCHEMA other",
        "CREATE TABLE other.c (w int)",
        "INSERT INTO a VALUES (1, 2)",
    )
    assert PostgresObserver(conninfo, include=["a"])() == {"a": [{"x": 1, "y": 2}]}
    partly = PostgresObserver(conninfo, exclude=["b", ("a", "x")])
    assert partly() == {"a": [{"y": 2}]}
    assert partly.row_keys == {}
    assert PostgresObserver(conninfo, include=[("a", "y")])() == {"a": [{"y": 2}]}
    assert PostgresObserver(conninfo, schema="other")() == {"c": []}
    with pytest.raises(LookupError, match=r"include names 'c', which is not in schema 'public' of"):
        PostgresObserver(conninfo, include=["c"])()
    with pytest.raises(LookupError, match="has no schema 'nowhere'"):
        PostgresObserver(conninfo, schema="nowhere")()


def test_partitions_are_one_table_and_heirs_stand_alone(database: Database) -> None:
    conninfo = database(
        "CREATE TABLE log (day int, note text) PARTITION BY RANGE (day)",
        "CREATE TABLE log_1 PARTITION OF log FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE log_2 (note text, gone int, day int)",
        "ALTER TABLE log_2 DROP gone",
        "ALTER TABLE log ATTACH PARTITION log_2 FOR VALUES FROM (10) TO (20)",
        "INSERT INTO log VALUES (1, 'a'), (11, 'b')",
        "CREATE TABLE animals (name text)",
        "CREATE TABLE dogs (breed text) INHERITS (animals)",
        "INSERT INTO dogs VALUES ('Rex', 'spaniel')",
    )
    observer = audited(conninfo)
    assert observer() == {
        "animals": [],
        "dogs": [{"name": "Rex", "breed": "spaniel"}],
        "log": [{"day": 1, "note": "a"}, {"day": 11, "note": "b"}],
    }
    execute(
        conninfo,
        "UPDATE log SET day = 12 WHERE note = 'a'",  # to the other partition
        "INSERT INTO log_2 VALUES ('c', 13)",
        "UPDATE animals SET name = 'Tex'",
        "TRUNCATE log",
    )
    assert [(event["table"], event["op"], *rows_of(event)) for event in observer.audit()] == [
        ("log", "delete", {"day": 1, "note": "a"}, None),
        ("log", "insert", None, {"day": 12, "note": "a"}),
        ("log", "insert", None, {"day": 13, "note": "c"}),
        (
            "dogs",
            "update",
            {"name": "Rex", "breed": "spaniel"},
            {"name": "Tex", "breed": "spaniel"},
        ),
        ("log", "delete", {"day": 11, "note": "b"}, None),
        ("log", "delete", {"day": 12, "note": "a"}, None),
        ("log", "delete", {"day": 13, "note": "c"}, None),
    ]


def test_only_what_is_committed_is_seen(database: Database) -> None:
    conninfo = database(ACCOUNTS, TWO_ROWS)
    observer = audited(conninfo)
    with psycopg.connect(conninfo) as writer:
        writer.execute("UPDATE accounts SET cents = 11 WHERE id = 1")
        assert observer()["accounts"][0] == {"id": 1, "cents": 10}
        assert told(observer) == []
    assert observer()["accounts"][0] == {"id": 1, "cents": 11}
    assert told(observer) == [("update", 1, 10, 11)]


def test_a_table_that_is_new_or_gone_is_seen(database: Database) -> None:
    conninfo = database(ACCOUNTS)
    observer = PostgresObserver(conninfo)
    assert observer() == {"accounts": []}
    execute(conninfo, "DROP TABLE accounts", "CREATE TABLE orders (id int)")
    assert observer() == {"orders": []}
    execute(conninfo, "ALTER TABLE orders RENAME TO accounts")
    assert observer() == {"accounts": []}
    execute(conninfo, "DROP TABLE accounts")
    assert observer() == {}


def test_rows_that_a_policy_hides_are_an_error(database: Database) -> None:
    conninfo = database(
        ACCOUNTS,
        TWO_ROWS,
        "ALTER TABLE accounts ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY own ON accounts USING (id = 1)",
        "DROP ROLE IF EXISTS clerk",
        "CREATE ROLE clerk LOGIN",
        "GRANT SELECT ON accounts TO clerk",
    )
    observer = PostgresObserver(conninfo.replace("user=postgres", "user=clerk"))
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
        observer()
    execute(conninfo, "DROP OWNED BY clerk", "DROP ROLE clerk")


def test_a_table_that_stays_locked_is_an_error_that_says_so(database: Database) -> None:
    conninfo = database(ACCOUNTS)
    observer = PostgresObserver(conninfo, timeout=0.05)
    with psycopg.connect(conninfo) as writer:
        writer.execute("TRUNCATE accounts")
        with pytest.raises(psycopg.errors.LockNotAvailable, match=r"locked for more than 0\.05 s"):
            observer()


def test_the_database_may_be_made_later(running: str) -> None:
    conninfo = f"{running} dbname=made_later"
    observer = PostgresObserver(conninfo)
    with pytest.raises(psycopg.OperationalError, match='database "made_later" does not exist'):
        observer()
    execute(f"{running} dbname=postgres", "CREATE DATABASE made_later")
    execute(conninfo, ACCOUNTS)
    PostgresObserver.install_audit(conninfo)
    execute(conninfo, "INSERT INTO accounts VALUES (1, 10)")
    assert observer() == {"accounts": [{"id": 1, "cents": 10}]}
    assert told(observer) == [("insert", 1, None, 10)]
    execute(f"{running} dbname=postgres", "DROP DATABASE made_later")


def test_bad_arguments_are_refused_at_once() -> None:
    with pytest.raises(psycopg.ProgrammingError, match="invalid"):
        PostgresObserver("nonsense=1")
    with pytest.raises(TypeError, match=r"include must be a list of tables.*\['a'\]"):
        PostgresObserver("dbname=x", include="a")


def test_without_psycopg_the_message_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['psycopg'] = None\n"
        "import envbench.capture.observers as observers\n"
        "try: observers.PostgresObserver\n"
        "except ModuleNotFoundError as error: print(error)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout == "PostgresObserver needs psycopg: pip install 'envbench[postgres]'\n"


# --- values

TYPES = (
    "CREATE TYPE mood AS ENUM ('sad', 'it''s \"ok\"')",
    "CREATE TYPE point3 AS (x float8, y numeric, note text)",
    "CREATE DOMAIN cents AS numeric CHECK (value >= 0)",
    "CREATE DOMAIN fee AS cents",
    "CREATE DOMAIN tags AS text[]",
    "CREATE TYPE money_range AS RANGE (subtype = numeric)",
)

UTC_NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)

# (type, what SQL says, what Python gets)
VALUES: list[tuple[str, str, Any]] = [
    ("bool", "true", True),
    ("smallint", "-32768", -32768),
    ("bigint", "9223372036854775807", 2**63 - 1),
    ("oid", "4294967295", 2**32 - 1),
    ("real", "0.1", 0.1),
    ("double precision", "0.1", 0.1),
    ("double precision", "1.7976931348623157e308", 1.7976931348623157e308),
    ("double precision", "'-0'", -0.0),
    ("double precision", "'NaN'", float("nan")),
    ("double precision", "'-Infinity'", float("-inf")),
    ("numeric", "1.50", Decimal("1.50")),
    ("numeric", "12345678901234567890.1234567890123456789",
     Decimal("12345678901234567890.1234567890123456789")),
    ("numeric", "'NaN'", Decimal("NaN")),
    ("numeric", "'Infinity'", Decimal("Infinity")),
    ("cents", "1.50", Decimal("1.50")),
    ("fee", "2", Decimal(2)),
    ("fee[]", "ARRAY[1.50, 2]::fee[]", [Decimal("1.50"), Decimal(2)]),
    ("tags", "ARRAY['a', NULL]", ["a", None]),
    ("text", "''", ""),
    ("text", "E'a\\n\"b\",(\\\\)é🙂'", 'a\n"b",(\\)é🙂'),
    ("char(5)", "'ab'", "ab   "),
    ("varchar(5)", "'ab '", "ab "),
    ('"char"', "'x'", "x"),
    ("name", "'x'", "x"),
    ("bytea", r"'\x00ff5c'", b"\x00\xff\\"),
    ("uuid", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", UUID("a0eebc999c0b4ef8bb6d6bb9bd380a11")),
    ("date", "'2026-01-02'", date(2026, 1, 2)),
    ("date", "'infinity'", "infinity"),
    ("date", "'0044-03-15 BC'", "0044-03-15 BC"),
    ("date", "'10000-01-01'", "10000-01-01"),
    ("time", "'01:02:03.000004'", time(1, 2, 3, 4)),
    ("time", "'24:00'", "24:00:00"),
    ("timetz", "'01:02+05:30:15'", time(1, 2, tzinfo=timezone(timedelta(seconds=19_815)))),
    ("timestamp", "'2026-07-01 12:00:00.5'", datetime(2026, 7, 1, 12, 0, 0, 500_000)),
    ("timestamp", "'-infinity'", "-infinity"),
    ("timestamp", "'0044-03-15 12:00 BC'", "0044-03-15 12:00:00 BC"),
    ("timestamptz", "'2026-07-01 14:00+02'", UTC_NOON),
    ("timestamptz", "'infinity'", "infinity"),
    ("timestamptz", "'20000-01-01 00:00Z'", "20000-01-01 00:00:00+00"),
    ("interval", "'1 mon -2 days 03:04:05.000006'", "P1M-2DT3H4M5.000006S"),
    ("interval", "'24:00'", "PT24H"),
    ("interval", "'1 day'", "P1D"),
    ("int4range", "'[1,5)'", "[1,5)"),
    ("money_range", "'(1.50,]'", "(1.50,)"),
    ("int4multirange", "'{[1,3), [5,7)}'", "{[1,3),[5,7)}"),
    ("inet", "'10.0.0.1/24'", "10.0.0.1/24"),
    ("inet", "'::1'", "::1"),
    ("cidr", "'10.0.0.0/8'", "10.0.0.0/8"),
    ("macaddr", "'08:00:2b:01:02:03'", "08:00:2b:01:02:03"),
    ("bit varying", "B'0101'", "0101"),
    ("money", "'-1234.5'", "-$1,234.50"),
    ("mood", "'it''s \"ok\"'", 'it\'s "ok"'),
    ("mood[]", "ARRAY['sad', NULL]::mood[]", ["sad", None]),
    ("point3", "ROW(0.1, 1.50, 'a,\"b')", '(0.1,1.50,"a,""b")'),
    ("point3[]", "ARRAY[ROW(0.1, 1.50, NULL)::point3]", ["(0.1,1.50,)"]),
    ("point", "'(0.1,2)'", "(0.1,2)"),
    ("box[]", "ARRAY['(1,1),(0,0)', '(2,2),(0,0)']::box[]", ["(1,1),(0,0)", "(2,2),(0,0)"]),
    ("tsvector", "'a:1 b'", "'a':1 'b'"),
    ("xml", "'<a/>'", "<a/>"),
    ("json", "'{\"a\": 1.0, \"a\": 2}'", '{"a": 1.0, "a": 2}'),
    ("json", "'null'", "null"),
    ("jsonb", "'null'", Named("postgresql.jsonb", None)),
    ("jsonb", "'\"null\"'", "null"),
    ("jsonb", "'{\"b\": [1, 2.5, 1.50, null], \"a\": {\"$envbench\": \"x\"}}'",
     {"a": {"$envbench": "x"}, "b": [1, 2.5, Decimal("1.50"), None]}),
    ("jsonb", "'[0.1, 0.00001, 1e3, 1e-400, 0.1000000000000000000001]'",
     [0.1, 1e-05, 1000, Decimal("1E-400"), Decimal("0.1000000000000000000001")]),
    ("jsonb", "('1' || repeat('0', 5000))::jsonb", 10**5000),
    ("jsonb[]", "ARRAY['null', '1']::jsonb[]", [Named("postgresql.jsonb", None), 1]),
    ("int[]", "ARRAY[1, NULL]", [1, None]),
    ("int[]", "'{}'", []),
    ("int[]", "ARRAY[[1, 2], [3, 4]]", [[1, 2], [3, 4]]),
    ("int[]", "'[0:1]={1,2}'", "[0:1]={1,2}"),
    ("text[]", "ARRAY['NULL', NULL, 'a,b', '\"']", ["NULL", None, "a,b", '"']),
    ("numeric[]", "ARRAY[1.50]", [Decimal("1.50")]),
    ("date[]", "ARRAY['infinity', '2026-01-02']::date[]", ["infinity", date(2026, 1, 2)]),
    ("bytea[]", r"ARRAY['\x00'::bytea]", [b"\x00"]),
    ("int2vector", "'1 2'", "1 2"),
    ("regclass", "'pg_class'", "pg_class"),
    ("pg_lsn", "'0/1'", "0/1"),
    ("text", "NULL", None),
]  # fmt: skip


@pytest.fixture(scope="module")
def valued(running: str) -> Iterator[str]:
    """A database whose table `v` has one row, and a column for each of VALUES."""
    execute(f"{running} dbname=postgres", "CREATE DATABASE of_values")
    conninfo = f"{running} dbname=of_values"
    columns = ", ".join(f"c{i} {kind}" for i, (kind, _, _) in enumerate(VALUES))
    literals = ", ".join(literal for _, literal, _ in VALUES)
    execute(
        conninfo,
        *TYPES,
        f"CREATE TABLE v (id int PRIMARY KEY, touched int, {columns})",
        f"INSERT INTO v VALUES (1, 0, {literals})",
        "ALTER DATABASE of_values SET timezone = 'Asia/Tokyo'",
        "ALTER DATABASE of_values SET datestyle = 'SQL, DMY'",
        "ALTER DATABASE of_values SET intervalstyle = 'sql_standard'",
        "ALTER DATABASE of_values SET extra_float_digits = -5",
        "ALTER DATABASE of_values SET bytea_output = 'escape'",
    )
    yield conninfo
    execute(f"{running} dbname=postgres", "DROP DATABASE of_values WITH (FORCE)")


@pytest.mark.parametrize("number", range(len(VALUES)), ids=lambda i: f"{VALUES[i][0]}-{i}")
def test_values_are_exact_whatever_the_session_is_set_to(valued: str, number: int) -> None:
    column = f"c{number}"
    (row,) = PostgresObserver(valued, include=[("v", column)])()["v"]
    assert encode(row[column]) == encode(VALUES[number][2])


def test_values_come_back_from_the_store_and_from_the_audit(
    valued: str, capture: Callable[..., EpisodeEvidence], scripted: Any, store: Store
) -> None:
    def touch() -> Any:
        execute(valued, "UPDATE v SET touched = 1")
        return 1, 0.0, True, False, {}

    observer = audited(valued)
    episode = capture(scripted(touch), [1], observe=observer, audit=observer.audit, store=store)
    back = store.episode(episode.episode_id)
    assert back.coverage_issues == []
    expected = {f"c{i}": value for i, (_, _, value) in enumerate(VALUES)}
    before, after = ({"id": 1, "touched": n, **expected} for n in (0, 1))
    assert encode(back.initial_state) == encode({"v": [before]})
    assert encode(back.final_state) == encode({"v": [after]})
    # The audit gives the very same values as a reading of the state.
    ((event),) = back.data["audit"]
    assert event["before"] == back.data["initial_state"]["v"][0]
    assert event["after"] == back.data["final_state"]["v"][0]
    execute(valued, "UPDATE v SET touched = 0")


def test_what_the_program_registered_with_psycopg_does_not_matter(database: Database) -> None:
    program = """
import sys, psycopg
from psycopg.adapt import Loader
class Wrong(Loader):
    def load(self, data): return "wrong"
for name in ("int4", "text", "jsonb"):
    psycopg.adapters.register_loader(name, Wrong)
from envbench.capture.observers import PostgresObserver
print(PostgresObserver(sys.argv[1])())
"""
    conninfo = database(
        "CREATE TABLE t (i int, s text, j jsonb)", """INSERT INTO t VALUES (1, 'a', '{"b": 2}')"""
    )
    run = subprocess.run(
        [sys.executable, "-c", program, conninfo], capture_output=True, text=True, check=True
    )
    assert run.stdout == "{'t': [{'i': 1, 's': 'a', 'j': {'b': 2}}]}\n"


def test_text_in_a_database_without_an_encoding_keeps_its_bytes(database: Database) -> None:
    conninfo = database("CREATE TABLE t (s text)", encoding="SQL_ASCII")
    observer = audited(conninfo)
    execute(conninfo, r"INSERT INTO t VALUES (E'a\xff')")
    assert observer() == {"t": [{"s": "a\udcff"}]}
    assert [event["after"] for event in observer.audit()] == [{"s": "a\udcff"}]


# --- the audit


def test_events_are_in_the_order_they_happened(database: Database) -> None:
    conninfo = database(ACCOUNTS, TWO_ROWS, "CREATE TABLE pairs (a int, b int, PRIMARY KEY (b, a))")
    observer = audited(conninfo)
    execute(
        conninfo,
        "UPDATE accounts SET cents = 11 WHERE id = 1",
        "UPDATE accounts SET cents = 10 WHERE id = 1",
        "UPDATE accounts SET cents = 10 WHERE id = 1",
        "INSERT INTO accounts VALUES (3, 30), (1, 12) ON CONFLICT (id) DO UPDATE SET cents = 13",
        "UPDATE accounts SET id = 4 WHERE id = 3",
        "DELETE FROM accounts WHERE id = 2",
        "COPY (SELECT 1) TO '/dev/null'",
    )
    assert told(observer) == [
        ("update", 1, 10, 11),
        ("update", 1, 11, 10),
        ("update", 1, 10, 10),
        ("insert", 3, None, 30),
        ("update", 1, 10, 13),
        ("update", 3, 30, 30),
        ("delete", 2, 20, None),
    ]
    assert told(observer) == []
    execute(conninfo, "INSERT INTO pairs VALUES (1, 2)")
    (event,) = observer.audit()
    assert event["key"] == {"b": 2, "a": 1}


def test_every_row_that_truncate_removes_is_a_delete(database: Database) -> None:
    conninfo = database(
        ACCOUNTS,
        "INSERT INTO accounts VALUES (2, 20), (1, 10)",
        "CREATE TABLE notes (cents int REFERENCES accounts)",
        "INSERT INTO notes VALUES (1)",
    )
    observer = audited(conninfo)
    execute(conninfo, "TRUNCATE accounts CASCADE", "TRUNCATE accounts CASCADE")
    assert sorted(told(observer), key=str) == [
        ("delete", 1, 10, None),
        ("delete", 2, 20, None),
        ("delete", None, 1, None),
    ]
    assert observer() == {"accounts": [], "notes": []}


def test_what_another_trigger_does_comes_after_the_change_that_caused_it(
    database: Database,
) -> None:
    conninfo = database(
        ACCOUNTS,
        TWO_ROWS,
        "CREATE TABLE items (id int PRIMARY KEY, cents int REFERENCES accounts ON DELETE CASCADE)",
        "INSERT INTO items VALUES (7, 1), (8, 1)",
        """CREATE FUNCTION follow() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN UPDATE accounts SET cents = cents + 1 WHERE id = 2; RETURN NULL; END'""",
        """CREATE TRIGGER "A first one" AFTER INSERT ON items
        FOR EACH ROW EXECUTE FUNCTION follow()""",
    )
    observer = audited(conninfo)
    execute(conninfo, "INSERT INTO items VALUES (9, 2)", "DELETE FROM accounts WHERE id = 1")
    assert told(observer) == [
        ("insert", 9, None, 2),
        ("update", 2, 20, 21),
        ("delete", 1, 10, None),
        ("delete", 7, 1, None),
        ("delete", 8, 1, None),
    ]


def test_what_is_rolled_back_leaves_no_event_and_no_gap(database: Database) -> None:
    conninfo = database(ACCOUNTS, TWO_ROWS)
    observer = audited(conninfo)
    with psycopg.connect(conninfo) as writer:
        writer.execute("UPDATE accounts SET cents = 11 WHERE id = 1")
        writer.rollback()
        with writer.transaction():
            writer.execute("UPDATE accounts SET cents = 12 WHERE id = 1")
            with writer.transaction(force_rollback=True):
                writer.execute("UPDATE accounts SET cents = 13 WHERE id = 1")
    assert told(observer) == [("update", 1, 10, 12)]


def test_a_transaction_that_commits_late_is_told_when_it_commits(database: Database) -> None:
    conninfo = database(ACCOUNTS, TWO_ROWS)
    observer = audited(conninfo)
    with psycopg.connect(conninfo) as late, psycopg.connect(conninfo) as later:
        late.execute("UPDATE accounts SET cents = 11 WHERE id = 1")
        later.execute("INSERT INTO accounts VALUES (3, 30)")
        execute(conninfo, "UPDATE accounts SET cents = 21 WHERE id = 2")
        # its event has a higher number, and is committed first
        assert told(observer) == [("update", 2, 20, 21)]
        assert told(observer) == []
        late.commit()
        execute(conninfo, "UPDATE accounts SET cents = 22 WHERE id = 2")
        assert told(observer) == [("update", 1, 10, 11), ("update", 2, 21, 22)]
        later.commit()
        assert told(observer) == [("insert", 3, None, 30)]
    assert told(observer) == []


def test_a_prepared_transaction_is_told_when_it_commits(database: Database) -> None:
    conninfo = database(ACCOUNTS)
    observer = audited(conninfo)
    execute(conninfo, "BEGIN", "INSERT INTO accounts VALUES (1, 10)", "PREPARE TRANSACTION 'p'")
    execute(conninfo, "INSERT INTO accounts VALUES (2, 20)")
    assert told(observer) == [("insert", 2, None, 20)]
    execute(conninfo, "COMMIT PREPARED 'p'")
    assert told(observer) == [("insert", 1, None, 10)]


def test_a_transaction_that_was_open_when_the_observer_was_made_is_told(
    database: Database,
) -> None:
    conninfo = database(ACCOUNTS)
    PostgresObserver.install_audit(conninfo)
    execute(conninfo, "INSERT INTO accounts VALUES (1, 10)")
    with psycopg.connect(conninfo) as writer:
        writer.execute("INSERT INTO accounts VALUES (2, 20)")
        observer = PostgresObserver(conninfo)
        assert told(observer) == []
    assert told(observer) == [("insert", 2, None, 20)]


def test_two_observers_do_not_take_events_from_each_other(database: Database) -> None:
    conninfo = database(ACCOUNTS)
    first, second = audited(conninfo), PostgresObserver(conninfo)
    execute(conninfo, "INSERT INTO accounts VALUES (1, 10)")
    assert told(first) == told(second) == [("insert", 1, None, 10)]


def test_events_have_the_columns_and_tables_that_are_observed(database: Database) -> None:
    conninfo = database(ACCOUNTS, "CREATE TABLE secrets (word text)")
    PostgresObserver.install_audit(conninfo)
    observer = PostgresObserver(conninfo, exclude=["secrets", ("accounts", "id")])
    execute(conninfo, "INSERT INTO accounts VALUES (1, 10)", "INSERT INTO secrets VALUES ('x')")
    assert observer.audit() == [
        {"table": "accounts", "op": "insert", "key": 1, "before": None, "after": {"cents": 10}}
    ]


def test_a_role_without_rights_on_the_audit_is_recorded_in_every_mode(database: Database) -> None:
    conninfo = database(
        ACCOUNTS,
        "DROP ROLE IF EXISTS app",
        "CREATE ROLE app LOGIN",
        "GRANT INSERT ON accounts TO app",
    )
    observer = audited(conninfo)
    as_app = conninfo.replace("user=postgres", "user=app")
    execute(as_app, "INSERT INTO accounts VALUES (1, 10)")
    execute(
        conninfo,
        "SET session_replication_role = replica",  # ordinary triggers do not fire
        "INSERT INTO accounts VALUES (2, 20)",
    )
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        execute(as_app, "DELETE FROM envbench_audit.event")
    assert told(observer) == [("insert", 1, None, 10), ("insert", 2, None, 20)]
    execute(conninfo, "DROP OWNED BY app", "DROP ROLE app")


def test_without_an_audit_the_message_says_what_to_do(database: Database) -> None:
    observer = PostgresObserver(database(ACCOUNTS))
    with pytest.raises(LookupError, match=r"no audit: call PostgresObserver\.install_audit"):
        observer.audit()


BEHIND_ITS_BACK = {
    "a trigger dropped": (
        ['DROP TRIGGER "!envbench_audit_row" ON accounts'],
        "trigger '!envbench_audit_row' of table 'accounts' is gone",
    ),
    "a trigger disabled": (
        ['ALTER TABLE accounts DISABLE TRIGGER "!envbench_audit_truncate"'],
        "trigger '!envbench_audit_truncate' of table 'accounts' is gone, or is or was disabled",
    ),
    "triggers disabled for a while": (
        [
            "ALTER TABLE accounts DISABLE TRIGGER ALL",
            "UPDATE accounts SET cents = 11 WHERE id = 1",
            "UPDATE accounts SET cents = 10 WHERE id = 1",
            'ALTER TABLE accounts ENABLE ALWAYS TRIGGER "!envbench_audit_row"',
            'ALTER TABLE accounts ENABLE ALWAYS TRIGGER "!envbench_audit_truncate"',
        ],
        "'accounts' is gone, or is or was disabled or altered",
    ),
    "the trigger's function replaced": (
        [
            """CREATE OR REPLACE FUNCTION envbench_audit.record_1() RETURNS trigger
            LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'""",
        ],
        "'accounts' is gone, or is or was disabled or altered",
    ),
    "events removed": (
        [
            "UPDATE accounts SET cents = 11 WHERE id = 1",
            "UPDATE accounts SET cents = 10 WHERE id = 1",
            "ALTER TABLE envbench_audit.event DISABLE TRIGGER ALL",
            "DELETE FROM envbench_audit.event",
            "ALTER TABLE envbench_audit.event ENABLE ALWAYS TRIGGER is_kept",
        ],
        "trigger 'is_kept' of the audit's own events",
    ),
    "a new table": (
        ["CREATE TABLE orders (id int)"],
        "table 'orders' is observed, and the audit does not cover it: install the audit again",
    ),
    "a new column": (
        ["ALTER TABLE accounts ADD note text"],
        "the columns of 'accounts' changed since its audit was installed",
    ),
    "another type": (
        ["ALTER TABLE accounts ALTER cents TYPE numeric"],
        "the columns of 'accounts' changed",
    ),
    "a table renamed": (
        ["ALTER TABLE accounts RENAME TO old"],
        "table 'accounts' is gone, renamed or made anew",
    ),
    "a table made anew": (
        ["DROP TABLE accounts", ACCOUNTS],
        "table 'accounts' is gone, renamed or made anew",
    ),
    "the audit gone": (
        ["DROP SCHEMA envbench_audit CASCADE"],
        "the audit of schema 'public' is gone",
    ),
    "rows written without triggers": (
        ["INSERT INTO log VALUES (2)", "TRUNCATE log_1"],
        r"table 'log' has 0 row\(s\), and by its audit it should have 2",
    ),
    "rows altered without triggers": (
        [
            "ALTER TABLE log DETACH PARTITION log_1",
            "UPDATE log_1 SET day = 3",
            "ALTER TABLE log ATTACH PARTITION log_1 FOR VALUES FROM (0) TO (10)",
        ],
        "rows of table 'log' are not what its audit says: some changed unrecorded",
    ),
    "the trigger of a partition disabled": (
        ["ALTER TABLE log_1 DISABLE TRIGGER ALL"],
        "trigger '!envbench_audit_row' of table 'log' is gone",
    ),
}


@pytest.mark.parametrize("case", BEHIND_ITS_BACK)
@pytest.mark.parametrize("known", [True, False], ids=["observer-first", "observer-later"])
def test_an_audit_that_does_not_hold_everything_is_an_error(
    database: Database, case: str, known: bool
) -> None:
    statements, message = BEHIND_ITS_BACK[case]
    conninfo = database(
        ACCOUNTS,
        TWO_ROWS,
        "CREATE TABLE log (day int) PARTITION BY RANGE (day)",
        "CREATE TABLE log_1 PARTITION OF log FOR VALUES FROM (0) TO (10)",
        "INSERT INTO log VALUES (1)",
    )
    observer = PostgresObserver(conninfo)
    PostgresObserver.install_audit(conninfo)
    if known:
        assert observer.audit() == []
    execute(conninfo, *statements)
    if case == "the audit gone" and not known:
        with pytest.raises(LookupError, match="has no audit"):
            observer.audit()
        return
    for _ in range(2):  # it does not get better by asking again
        with pytest.raises(AuditIncomplete, match=message):
            observer.audit()


def test_what_is_not_observed_need_not_be_covered(database: Database) -> None:
    conninfo = database(ACCOUNTS, "CREATE TABLE cache (x int)")
    PostgresObserver.install_audit(conninfo, ["accounts"])
    observer = PostgresObserver(conninfo, exclude=["cache"])
    assert observer() == {"accounts": []}
    execute(conninfo, "INSERT INTO accounts VALUES (1, 10)", "DROP TABLE cache")
    assert told(observer) == [("insert", 1, None, 10)]


def test_the_audit_refuses_to_forget(database: Database) -> None:
    conninfo = database(ACCOUNTS)
    PostgresObserver.install_audit(conninfo)
    execute(conninfo, "INSERT INTO accounts VALUES (1, 10)")
    for statement in ("DELETE FROM", "TRUNCATE", "UPDATE"):
        rest = " SET op = 'delete'" if statement == "UPDATE" else ""
        with pytest.raises(psycopg.errors.RaiseException, match="the audit only grows"):
            execute(conninfo, f"{statement} envbench_audit.event{rest}")


def test_installing_again_keeps_events_and_covers_what_is_new(database: Database) -> None:
    conninfo = database(ACCOUNTS)
    observer = audited(conninfo)
    execute(conninfo, "INSERT INTO accounts VALUES (1, 10)", "CREATE TABLE orders (cents int)")
    assert PostgresObserver.install_audit(conninfo) == ("accounts", "orders")
    execute(conninfo, "INSERT INTO orders VALUES (5)", "UPDATE accounts SET cents = 11")
    assert told(observer) == [
        ("insert", 1, None, 10),
        ("insert", None, None, 5),
        ("update", 1, 10, 11),
    ]
    execute(conninfo, "ALTER TABLE accounts ADD note text")
    PostgresObserver.install_audit(conninfo, ["orders"])
    execute(conninfo, "UPDATE accounts SET note = 'x'")
    (event,) = observer.audit()
    assert event["after"] == {"id": 1, "cents": 11, "note": "x"}


def test_installing_again_after_a_reset_of_the_database(database: Database) -> None:
    conninfo = database(ACCOUNTS, TWO_ROWS, "CREATE TABLE gone (id int)")
    observer = audited(conninfo)
    execute(conninfo, "DROP SCHEMA public CASCADE", "CREATE SCHEMA public", ACCOUNTS)
    assert PostgresObserver.install_audit(conninfo) == ("accounts",)
    execute(conninfo, "INSERT INTO accounts VALUES (7, 70)")
    assert told(observer) == [("insert", 7, None, 70)]
    assert PostgresObserver.install_audit(conninfo) == ("accounts",)
    functions = "SELECT count(*) FROM pg_proc WHERE pronamespace = 'envbench_audit'::regnamespace"
    assert execute(conninfo, functions) == [(2,)]  # one for the table, one that guards the events


def test_events_that_no_longer_fit_the_table_are_not_dropped_silently(database: Database) -> None:
    conninfo = database(ACCOUNTS)
    observer = audited(conninfo)
    execute(
        conninfo,
        "INSERT INTO accounts VALUES (1, 10)",
        "ALTER TABLE accounts ADD note text",
    )
    PostgresObserver.install_audit(conninfo)
    with pytest.raises(AuditIncomplete, match="columns of 'accounts' changed after events"):
        observer.audit()


def test_tables_without_columns_and_computed_ones_are_audited(database: Database) -> None:
    conninfo = database(
        "CREATE TABLE marks ()",
        "CREATE TABLE sums (cents int, twice int GENERATED ALWAYS AS (cents * 2) STORED)",
    )
    observer = audited(conninfo)
    execute(
        conninfo,
        "INSERT INTO marks DEFAULT VALUES",
        "INSERT INTO sums VALUES (5)",
        "UPDATE sums SET cents = 6",
        "DELETE FROM marks",
    )
    assert [(event["table"], *rows_of(event)) for event in observer.audit()] == [
        ("marks", None, {}),
        ("sums", None, {"cents": 5, "twice": 10}),
        ("sums", {"cents": 5, "twice": 10}, {"cents": 6, "twice": 12}),
        ("marks", {}, None),
    ]
    assert observer() == {"marks": [], "sums": [{"cents": 6, "twice": 12}]}


def test_a_role_that_may_read_the_state_only_can(database: Database) -> None:
    conninfo = database(
        ACCOUNTS,
        TWO_ROWS,
        "DROP ROLE IF EXISTS reader",
        "CREATE ROLE reader LOGIN",
        "GRANT SELECT ON accounts TO reader",
    )
    PostgresObserver.install_audit(conninfo)
    observer = PostgresObserver(conninfo.replace("user=postgres", "user=reader"))
    assert observer()["accounts"][0] == {"id": 1, "cents": 10}
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="schema envbench_audit"):
        observer.audit()
    execute(
        conninfo,
        "GRANT USAGE ON SCHEMA envbench_audit TO reader",
        "GRANT SELECT ON ALL TABLES IN SCHEMA envbench_audit TO reader",
        "DELETE FROM accounts WHERE id = 2",
    )
    assert told(observer) == [("delete", 2, 20, None)]
    execute(conninfo, "DROP OWNED BY reader", "DROP ROLE reader")


def test_a_value_that_its_type_has_no_more_is_an_incomplete_audit(database: Database) -> None:
    conninfo = database(
        "CREATE TYPE mood AS ENUM ('sad')", "CREATE TABLE people (id int, mood mood)"
    )
    observer = audited(conninfo)
    execute(
        conninfo,
        "INSERT INTO people VALUES (1, 'sad')",
        "DELETE FROM people",
        "ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'",
    )
    with pytest.raises(AuditIncomplete, match="a row that the audit of 'people' holds fits"):
        observer.audit()


def test_installing_refuses_what_it_cannot_watch(database: Database) -> None:
    conninfo = database(ACCOUNTS, "CREATE VIEW v AS SELECT 1 AS x")
    install = PostgresObserver.install_audit
    with pytest.raises(LookupError, match=r"no table 'order' to audit \(there are accounts, v\)"):
        install(conninfo, ["order"])
    with pytest.raises(ValueError, match="'v' cannot be audited: it is a view, not a table"):
        install(conninfo, ["v"])
    with pytest.raises(TypeError, match=r"write \['accounts'\]"):
        install(conninfo, "accounts")
    with pytest.raises(LookupError, match="has no schema 'nowhere'"):
        install(conninfo, schema="nowhere")
    execute(conninfo, "CREATE SCHEMA envbench_audit")
    with pytest.raises(ValueError, match="has a schema 'envbench_audit' of its own"):
        install(conninfo)
    # nothing is left of what failed
    execute(conninfo, "DROP SCHEMA envbench_audit")
    assert execute(conninfo, "SELECT count(*) FROM pg_trigger") == [(0,)]


def test_schemas_are_audited_apart(database: Database) -> None:
    conninfo = database(ACCOUNTS, "CREATE SCHEMA other", "CREATE TABLE other.t (cents int)")
    assert PostgresObserver.install_audit(conninfo) == ("accounts",)
    assert PostgresObserver.install_audit(conninfo, schema="other") == ("t",)
    here, there = PostgresObserver(conninfo), PostgresObserver(conninfo, schema="other")
    execute(conninfo, "INSERT INTO accounts VALUES (1, 10)", "INSERT INTO other.t VALUES (20)")
    assert told(here) == [("insert", 1, None, 10)]
    assert told(there) == [("insert", None, None, 20)]


STATEMENTS = st.sampled_from(
    [
        "INSERT INTO t VALUES (1, 'a', 1.50), (3, NULL, 'NaN')",
        "INSERT INTO t VALUES (2, 'b', NULL) ON CONFLICT (id) DO UPDATE SET s = t.s || 'x'",
        "INSERT INTO t VALUES (9, 'n', 0) ON CONFLICT DO NOTHING",
        "UPDATE t SET n = n + 0.10",
        "UPDATE t SET id = id + 5 WHERE id < 3",
        "UPDATE t SET s = NULL WHERE id % 2 = 0",
        "DELETE FROM t WHERE id > 6",
        "TRUNCATE t",
        """WITH gone AS (DELETE FROM t WHERE id = 1 RETURNING *)
        INSERT INTO t SELECT id + 20, s, n FROM gone""",
        "UPDATE t SET n = 1 / (id - 2)",
    ]
)  # fmt: skip


@pytest.fixture(scope="module")
def emptied(running: str) -> str:
    """A database whose table `t` is made anew for every example."""
    execute(f"{running} dbname=postgres", "CREATE DATABASE of_examples")
    return f"{running} dbname=of_examples"


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(
    transactions=st.lists(
        st.tuples(st.lists(STATEMENTS, min_size=1, max_size=4), st.booleans()), max_size=4
    )
)
def test_the_events_lead_from_one_state_to_the_next(
    emptied: str, transactions: list[tuple[list[str], bool]]
) -> None:
    conninfo = emptied
    execute(
        conninfo,
        "DROP TABLE IF EXISTS t",
        "CREATE TABLE t (id int PRIMARY KEY, s text, n numeric)",
        "INSERT INTO t VALUES (1, 'a', 1.5), (2, 'b', 2)",
    )
    observer = audited(conninfo)
    rows = [encode(row) for row in observer()["t"]]
    with psycopg.connect(conninfo) as writer:
        for statements, commits in transactions:
            try:
                for statement in statements:
                    writer.execute(statement)
            except psycopg.Error:
                writer.rollback()
            if commits:
                writer.commit()
            else:
                writer.rollback()
            for event in observer.audit():
                if event["before"] is not None:
                    rows.remove(encode(event["before"]))
                if event["after"] is not None:
                    rows.append(encode(event["after"]))
            assert sorted(rows) == sorted(encode(row) for row in observer()["t"])


# --- an episode


class Bank(Env[int, int]):
    """Writes to PostgreSQL: action 1 tops account 1 up and takes it back within the step."""

    action_space = Discrete(2)
    observation_space = Discrete(10)

    def __init__(self, conninfo: str) -> None:
        self.connection = psycopg.connect(conninfo, autocommit=True)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.connection.execute("UPDATE accounts SET cents = id * 10")
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        if action == 1:
            for change in (+500, -500):
                self.connection.execute(
                    "UPDATE accounts SET cents = cents + %s WHERE id = 1", (change,)
                )
        self.connection.execute("INSERT INTO log (action) VALUES (%s)", (int(action),))
        return 0, 0.0, action == 1, False, {}

    def close(self) -> None:
        self.connection.close()


@pytest.mark.parametrize("with_audit", [True, False])
def test_only_the_audit_finds_what_was_put_back_within_a_step(
    database: Database,
    capture: Callable[..., EpisodeEvidence],
    store: Store,
    with_audit: bool,
) -> None:
    conninfo = database(
        ACCOUNTS,
        TWO_ROWS,
        "CREATE TABLE log (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, action int)",
    )
    PostgresObserver.install_audit(conninfo)
    observer = PostgresObserver(conninfo)
    episode = capture(
        lambda: Bank(conninfo),
        [0, 1],
        observe=observer,
        audit=observer.audit if with_audit else None,
        row_keys=observer.row_keys,
        store=store,
    )
    assert episode.coverage_issues == []
    assert episode.states[0] == episode.initial_state
    assert episode.final_state == {
        "accounts": [{"id": 1, "cents": 10}, {"id": 2, "cents": 20}],
        "log": [{"id": 1, "action": 0}, {"id": 2, "action": 1}],
    }
    found = find_violations(store.episode(episode.episode_id), [Forbid("/accounts/**")])
    if not with_audit:
        assert (found.passed, found.resolution, found.findings) == (True, "step", ())
        return
    assert (found.passed, found.resolution) == (False, "audit")
    (finding,) = found.findings
    assert (finding.kind, finding.path) == ("inside_step", "/accounts/id=1/cents")
    assert (finding.step, finding.action) == (2, 1)
    assert (finding.before, finding.during, finding.after) == (10, (510,), 10)
    assert finding.resolution == "audit"
