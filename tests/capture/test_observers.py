"""SQLiteObserver: what it reads of a database, and what its audit has seen."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envbench.capture.observers import AuditIncomplete, SQLiteObserver
from envbench.evidence.portable import parse
from envbench.evidence.tagged import decode, encode

Database = Callable[..., Path]


@contextmanager
def writer(path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        yield connection
    finally:
        connection.close()


@pytest.fixture
def database(tmp_path: Path) -> Database:
    """Make a database from statements: `database("CREATE TABLE …", …)`."""

    def make(*statements: str) -> Path:
        path = tmp_path / "observed.sqlite"
        execute(path, *statements)
        return path

    return make


def execute(path: Path, *statements: str) -> None:
    with writer(path) as connection:
        for statement in statements:
            connection.execute(statement)


VENDORS = "CREATE TABLE vendors (vendor_id TEXT PRIMARY KEY, name TEXT, iban TEXT)"
TWO_VENDORS = "INSERT INTO vendors VALUES ('v2', 'Brandt', 'DE2'), ('v1', 'Abend', 'DE1')"


# The state


def test_tables_are_lists_of_rows_in_the_order_of_their_key(database: Database) -> None:
    path = database(VENDORS, TWO_VENDORS, "CREATE TABLE empty (n INTEGER PRIMARY KEY)")
    assert SQLiteObserver(path)() == {
        "empty": [],
        "vendors": [
            {"vendor_id": "v1", "name": "Abend", "iban": "DE1"},
            {"vendor_id": "v2", "name": "Brandt", "iban": "DE2"},
        ],
    }


def test_only_what_is_committed_is_read(database: Database) -> None:
    path = database(VENDORS)
    observer = SQLiteObserver(path)
    with writer(path) as connection:
        connection.execute("BEGIN")
        connection.execute(TWO_VENDORS)
        assert observer()["vendors"] == []
        connection.execute("COMMIT")
        assert len(observer()["vendors"]) == 2


@pytest.mark.parametrize("writer_open", [True, False])
def test_a_database_in_wal_mode_is_read(database: Database, writer_open: bool) -> None:
    path = database("PRAGMA journal_mode = WAL", VENDORS)
    with writer(path) as connection:
        connection.execute(TWO_VENDORS)
        if writer_open:
            assert len(SQLiteObserver(path)()["vendors"]) == 2
    if not writer_open:
        assert len(SQLiteObserver(path)()["vendors"]) == 2


def test_reading_changes_nothing_and_never_makes_a_file(database: Database, tmp_path: Path) -> None:
    path = database(VENDORS, TWO_VENDORS)
    before = path.read_bytes()
    observer = SQLiteObserver(path)
    observer()
    assert observer.row_keys == {"/vendors": "vendor_id"}
    assert path.read_bytes() == before

    absent = tmp_path / "absent.sqlite"
    observer = SQLiteObserver(absent)  # a factory may make the file later
    for read in (observer, observer.audit, lambda: SQLiteObserver.install_audit(absent)):
        with pytest.raises(FileNotFoundError, match=r"absent\.sqlite"):
            read()
    assert not absent.exists()


def test_a_path_with_characters_that_mean_something_in_a_uri(tmp_path: Path) -> None:
    path = tmp_path / "a b%20c?mode=rwc#x.sqlite"
    execute(path, VENDORS, TWO_VENDORS)
    assert len(SQLiteObserver(str(path))()["vendors"]) == 2
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, and long enough to be looked at as one " * 20)
    with pytest.raises(sqlite3.DatabaseError, match=r"notes\.txt cannot be read: file is not"):
        SQLiteObserver(path)()
    with pytest.raises(ValueError, match="in-memory"):
        SQLiteObserver(":memory:")
    with pytest.raises(FileNotFoundError):
        SQLiteObserver(tmp_path)()


def test_a_lock_that_lasts_is_an_error_that_names_the_file(database: Database) -> None:
    path = database(VENDORS)
    with writer(path) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        with pytest.raises(sqlite3.OperationalError, match=r"observed\.sqlite cannot be read: .*l"):
            SQLiteObserver(path, timeout=0.01)


def test_values_keep_their_types(database: Database) -> None:
    path = database("CREATE TABLE kept (n INTEGER PRIMARY KEY, v)")
    values: list[Any] = [
        None, 0, 1, 1.0, 2**63 - 1, -(2**63), 0.1, 1e308, math.inf, "", "1", "a\0b", "é\u202e",
        b"", b"\x00\xff",
    ]  # fmt: skip
    with writer(path) as connection:
        connection.executemany("INSERT INTO kept VALUES (?, ?)", enumerate(values))
    read = [row["v"] for row in SQLiteObserver(path)()["kept"]]
    assert list(map(repr, read)) == list(map(repr, values))
    assert decode(parse(encode(read))) == values


def test_text_that_is_not_utf8_is_kept_byte_for_byte(database: Database) -> None:
    path = database(
        "CREATE TABLE kept (n INTEGER PRIMARY KEY, v)",
        "INSERT INTO kept VALUES (1, CAST(x'61ff62' AS TEXT)), (2, CAST(x'eda080' AS TEXT))",
    )
    first, second = (row["v"] for row in SQLiteObserver(path)()["kept"])
    assert first == "a\udcffb"
    assert isinstance(second, str)
    assert second.encode("utf-8", "surrogateescape") == b"\xed\xa0\x80"
    assert decode(parse(encode([first, second]))) == [first, second]


HOSTILE = ('say "x"', "a'b", "semi;colon", "new\nline", "[x]", "`y`", "ß/~ 🙂", "select", "a.b", "")


@pytest.mark.parametrize("name", HOSTILE)
def test_any_name_of_a_table_and_a_column(database: Database, name: str) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    path = database(f"CREATE TABLE {quoted} ({quoted} TEXT PRIMARY KEY, plain)")
    SQLiteObserver.install_audit(path, [name])
    observer = SQLiteObserver(path)
    execute(path, f"INSERT INTO {quoted} VALUES ('k', 1)", f"UPDATE {quoted} SET plain = 2")
    assert observer()[name] == [{name: "k", "plain": 2}]
    assert observer.row_keys == {"/" + name.replace("~", "~0").replace("/", "~1"): name}
    events = observer.audit()
    assert [(event["table"], event["op"], event["key"]) for event in events] == [
        (name, "insert", "k"),
        (name, "update", "k"),
    ]
    assert events[1]["before"] == {name: "k", "plain": 1}


def test_keys_of_every_kind_of_table(database: Database) -> None:
    path = database(
        "CREATE TABLE whole (id INTEGER PRIMARY KEY, v)",
        "CREATE TABLE without (id TEXT PRIMARY KEY, v) WITHOUT ROWID",
        "CREATE TABLE pair (b INTEGER, a INTEGER, PRIMARY KEY (a, b))",
        "CREATE TABLE keyless (v, w)",
        "INSERT INTO pair VALUES (1, 2), (2, 1), (1, 1)",
        "INSERT INTO keyless VALUES ('b', 1), (NULL, 9), (2, 0), (1.5, 0), ('a', 1), (x'00', 0)",
    )
    observer = SQLiteObserver(path)
    assert observer.row_keys == {"/whole": "id", "/without": "id"}
    state = observer()
    assert state["pair"] == [{"b": 1, "a": 1}, {"b": 2, "a": 1}, {"b": 1, "a": 2}]
    assert [row["v"] for row in state["keyless"]] == [None, 1.5, 2, "a", "b", b"\x00"]


def test_equal_contents_are_equal_states_in_whatever_order_they_came(tmp_path: Path) -> None:
    rows = ["('x', 1)", "('x', 1.0)", "(NULL, 'y')", "('x', 1)"]
    states = []
    for order in (rows, rows[::-1]):
        path = tmp_path / f"{len(states)}.sqlite"
        execute(path, "CREATE TABLE t (a, b)", f"INSERT INTO t VALUES {', '.join(order)}")
        states.append(encode(SQLiteObserver(path)()))
    assert states[0] == states[1]


def test_a_collation_of_the_application_is_no_obstacle(database: Database) -> None:
    path = database(VENDORS)
    with writer(path) as connection:
        connection.create_collation("reversed", lambda a, b: (a < b) - (a > b))
        connection.execute("CREATE TABLE t (a TEXT PRIMARY KEY COLLATE reversed, b)")
        SQLiteObserver.install_audit(path)
        observer = SQLiteObserver(path)
        connection.execute("INSERT INTO t VALUES ('a', 1), ('b', 2)")
        connection.execute("INSERT OR REPLACE INTO t VALUES ('a', 3)")
    assert [row["a"] for row in observer()["t"]] == ["a", "b"]
    assert [event["op"] for event in observer.audit()] == ["insert", "insert", "delete", "insert"]


def test_generated_columns_virtual_tables_and_views(database: Database) -> None:
    path = database(
        "CREATE TABLE sums (a INTEGER PRIMARY KEY, b AS (a + 1), c AS (a + 2) STORED)",
        "INSERT INTO sums (a) VALUES (1)",
        "CREATE VIEW seen AS SELECT a FROM sums",
        "CREATE VIRTUAL TABLE texts USING fts5(body)",
        "INSERT INTO texts VALUES ('hello')",
        "CREATE TABLE counted (n INTEGER PRIMARY KEY AUTOINCREMENT)",
    )
    assert SQLiteObserver(path)() == {
        "counted": [],
        "sums": [{"a": 1, "b": 2, "c": 3}],
        "texts": [{"body": "hello"}],
    }
    assert SQLiteObserver(path, include=["seen"])() == {"seen": [{"a": 1}]}
    with pytest.raises(ValueError, match="'seen' cannot be audited"):
        SQLiteObserver.install_audit(path, ["seen"])
    with pytest.raises(ValueError, match="'texts' cannot be audited"):
        SQLiteObserver.install_audit(path, ["texts"])
    assert SQLiteObserver.install_audit(path) == ("counted", "sums")


def test_include_and_exclude(database: Database) -> None:
    path = database(VENDORS, TWO_VENDORS, "CREATE TABLE other (n)", 'CREATE TABLE "a.b" (n)')
    assert sorted(SQLiteObserver(path, exclude=["other"])()) == ["a.b", "vendors"]
    assert SQLiteObserver(path, include=["other"])() == {"other": []}
    assert SQLiteObserver(path, include=["vendors"], exclude=[("vendors", "iban")])() == {
        "vendors": [{"vendor_id": "v1", "name": "Abend"}, {"vendor_id": "v2", "name": "Brandt"}]
    }
    no_key = SQLiteObserver(path, include=[("vendors", "name")])
    assert no_key() == {"vendors": [{"name": "Abend"}, {"name": "Brandt"}]}
    assert no_key.row_keys == {}
    with pytest.raises(TypeError, match="not one string"):
        SQLiteObserver(path, include="vendors")
    with pytest.raises(TypeError, match="must hold table names"):
        SQLiteObserver(path, exclude=[("vendors", "name", "x")])  # type: ignore[list-item]


def test_a_name_that_is_nowhere_is_an_error_and_a_table_that_goes_is_a_change(
    database: Database,
) -> None:
    path = database(VENDORS, TWO_VENDORS)
    with pytest.raises(LookupError, match=r"include names 'vendor'.*it has vendors"):
        SQLiteObserver(path, include=["vendor"])()
    with pytest.raises(LookupError, match="exclude names"):
        SQLiteObserver(path, exclude=[("vendors", "bank")])()
    observer = SQLiteObserver(path, include=["vendors"])
    observer()
    execute(path, "DROP TABLE vendors")
    assert observer() == {}


def test_every_table_is_of_the_same_moment(database: Database) -> None:
    """A writer that commits between two tables is not half seen."""
    path = database("CREATE TABLE a (n)", "CREATE TABLE z (n)", "PRAGMA journal_mode = WAL")
    observer = SQLiteObserver(path)
    with writer(path) as connection:

        def commit_while_reading(raw: bytes) -> str:
            connection.execute("INSERT INTO z VALUES (1)")
            return raw.decode()

        read = observer._state

        def state(reader: sqlite3.Connection) -> dict[str, list[Any]]:
            reader.text_factory = commit_while_reading  # called for each table name it lists
            return read(reader)

        observer._state = state  # type: ignore[method-assign]
        assert observer()["z"] == []
        assert connection.execute("SELECT count(*) FROM z").fetchone()[0] > 0


# The audit


def test_the_audit_sees_a_change_undone_between_two_readings(database: Database) -> None:
    path = database(VENDORS, TWO_VENDORS)
    assert SQLiteObserver.install_audit(path) == ("vendors",)
    observer = SQLiteObserver(path)
    first = observer()
    execute(
        path,
        "UPDATE vendors SET iban = 'GB9' WHERE vendor_id = 'v1'",
        "UPDATE vendors SET iban = 'DE1' WHERE vendor_id = 'v1'",
    )
    assert observer() == first
    assert observer.audit() == [
        {
            "table": "vendors",
            "op": "update",
            "key": "v1",
            "before": {"vendor_id": "v1", "name": "Abend", "iban": "DE1"},
            "after": {"vendor_id": "v1", "name": "Abend", "iban": "GB9"},
        },
        {
            "table": "vendors",
            "op": "update",
            "key": "v1",
            "before": {"vendor_id": "v1", "name": "Abend", "iban": "GB9"},
            "after": {"vendor_id": "v1", "name": "Abend", "iban": "DE1"},
        },
    ]
    assert observer.audit() == []


def ops(observer: SQLiteObserver) -> list[tuple[object, object]]:
    return [(event["op"], event["key"]) for event in observer.audit()]


def test_what_was_before_the_observer_is_not_told_again(database: Database) -> None:
    path = database(VENDORS)
    early = SQLiteObserver(path)
    SQLiteObserver.install_audit(path)
    execute(path, TWO_VENDORS)
    late = SQLiteObserver(path)
    execute(path, "DELETE FROM vendors WHERE vendor_id = 'v2'")
    assert ops(early) == [("insert", "v2"), ("insert", "v1"), ("delete", "v2")]
    assert ops(late) == [("delete", "v2")]


def test_the_audit_is_no_part_of_the_state_unless_named(database: Database) -> None:
    path = database(VENDORS)
    SQLiteObserver.install_audit(path)
    execute(path, TWO_VENDORS)
    assert sorted(SQLiteObserver(path)()) == ["vendors"]
    assert len(SQLiteObserver(path, include=["envbench_audit"])()["envbench_audit"]) == 2


def test_no_audit_is_an_error_not_an_empty_one(database: Database) -> None:
    path = database(VENDORS)
    with pytest.raises(LookupError, match="install_audit"):
        SQLiteObserver(path).audit()


def test_an_event_belongs_to_its_transaction(database: Database) -> None:
    path = database(VENDORS)
    SQLiteObserver.install_audit(path)
    observer = SQLiteObserver(path)
    execute(path, "BEGIN", TWO_VENDORS, "ROLLBACK")
    assert observer.audit() == []
    execute(path, TWO_VENDORS)
    assert ops(observer) == [("insert", "v2"), ("insert", "v1")]


def test_audited_values_keep_their_types(database: Database) -> None:
    path = database("CREATE TABLE kept (n INTEGER PRIMARY KEY, v, r REAL, s TEXT)")
    SQLiteObserver.install_audit(path)
    observer = SQLiteObserver(path)
    values: list[Any] = [
        None, 1, 1.0, 2**63 - 1, 0.1 + 0.2, 5e-324, math.inf, -math.inf, "a\0b", "'", b"\x00\xff",
    ]  # fmt: skip
    with writer(path) as connection:
        connection.executemany("INSERT INTO kept (n, v) VALUES (?, ?)", enumerate(values))
        connection.execute("UPDATE kept SET r = 3, s = 4 WHERE n = 0")
        connection.execute("UPDATE kept SET v = CAST(x'61ff' AS TEXT) WHERE n = 0")
    events = observer.audit()
    inserted = [event["after"]["v"] for event in events[: len(values)]]  # type: ignore[index]
    assert list(map(repr, inserted)) == list(map(repr, values))
    assert events[-2]["after"] == {"n": 0, "v": None, "r": 3.0, "s": "4"}
    assert repr(events[-2]["after"]["r"]) == "3.0"  # type: ignore[index]
    assert events[-1]["after"]["v"] == "a\udcff"  # type: ignore[index]


@pytest.mark.parametrize("recursive", [False, True])
def test_a_row_that_replace_removes_is_a_delete(database: Database, recursive: bool) -> None:
    """REPLACE fires no DELETE trigger unless the writer has recursive triggers on."""
    path = database(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, email TEXT UNIQUE COLLATE NOCASE)",
        "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')",
    )
    SQLiteObserver.install_audit(path)
    observer = SQLiteObserver(path)
    with writer(path) as connection:
        connection.execute(f"PRAGMA recursive_triggers = {recursive}")
        connection.execute("INSERT OR REPLACE INTO t VALUES (1, 'B')")
        assert ops(observer) == [("delete", 1), ("delete", 2), ("insert", 1)]
        connection.execute("UPDATE OR REPLACE t SET email = 'C' WHERE id = 1")
        events = observer.audit()
        assert sorted((e["op"], e["key"]) for e in events) == [("delete", 3), ("update", 1)]
    assert observer()["t"] == [{"id": 1, "email": "C"}]


def test_what_conflicts_and_is_not_removed_is_no_event(database: Database) -> None:
    path = database(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, v)", "INSERT INTO t VALUES (-1, 'x'), (1, 'x')"
    )
    SQLiteObserver.install_audit(path)
    observer = SQLiteObserver(path)
    execute(path, "INSERT OR IGNORE INTO t VALUES (1, 'y')")
    assert observer.audit() == []
    execute(path, "INSERT INTO t VALUES (1, 'y') ON CONFLICT DO UPDATE SET v = excluded.v")
    assert ops(observer) == [("update", 1)]
    # A rowid still to be given is -1 in a BEFORE trigger, and there is a row -1.
    execute(path, "INSERT INTO t (v) VALUES ('z')")
    assert ops(observer) == [("insert", 2)]
    with writer(path) as connection, pytest.raises(sqlite3.IntegrityError):
        connection.execute("INSERT INTO t VALUES (1, 'w')")
    assert observer.audit() == []


def test_cascades_and_the_users_own_triggers_are_recorded(database: Database) -> None:
    path = database(
        "CREATE TABLE a (id INTEGER PRIMARY KEY, up REFERENCES a ON DELETE CASCADE)",
        "CREATE TABLE log (n INTEGER PRIMARY KEY, what)",
        "CREATE TRIGGER note AFTER DELETE ON a BEGIN INSERT INTO log (what) VALUES (OLD.id); END",
        "INSERT INTO a VALUES (1, NULL), (2, 1), (3, 2)",
    )
    SQLiteObserver.install_audit(path)
    observer = SQLiteObserver(path)
    execute(path, "PRAGMA foreign_keys = ON", "DELETE FROM a WHERE id = 1")
    events = observer.audit()
    assert sorted(e["key"] for e in events if e["table"] == "a") == [1, 2, 3]  # type: ignore[type-var]
    assert [e["op"] for e in events if e["table"] == "log"] == ["insert"] * 3


def test_last_insert_rowid_is_the_writers_own(database: Database) -> None:
    """The audit must not change what the environment sees."""
    path = database("CREATE TABLE t (id INTEGER PRIMARY KEY, v)")
    SQLiteObserver.install_audit(path)
    with writer(path) as connection:
        cursor = connection.execute("INSERT INTO t (id, v) VALUES (41, 'x')")
        assert (cursor.lastrowid, cursor.rowcount) == (41, 1)
        assert connection.execute("SELECT changes()").fetchone() == (1,)


def test_keys_of_audited_events(database: Database) -> None:
    path = database(
        "CREATE TABLE pair (a, b, v, PRIMARY KEY (a, b)) WITHOUT ROWID",
        "CREATE TABLE keyless (v)",
        VENDORS,
    )
    SQLiteObserver.install_audit(path)
    observer = SQLiteObserver(path)
    execute(path, "INSERT INTO pair VALUES (1, 2, 3)", "INSERT INTO keyless VALUES (5)")
    assert ops(observer) == [("insert", {"a": 1, "b": 2}), ("insert", None)]
    execute(path, TWO_VENDORS)
    observer.audit()
    execute(path, "UPDATE vendors SET vendor_id = 'v9' WHERE vendor_id = 'v1'")
    assert ops(observer) == [("update", "v1")]


def test_installing_again_keeps_what_was_recorded(database: Database) -> None:
    path = database(VENDORS)
    observer = SQLiteObserver(path)
    SQLiteObserver.install_audit(path)
    execute(path, TWO_VENDORS, "CREATE TABLE later (n INTEGER PRIMARY KEY)")
    assert SQLiteObserver.install_audit(path, ["later"]) == ("later", "vendors")
    execute(path, "INSERT INTO later VALUES (7)")
    assert ops(observer) == [("insert", "v2"), ("insert", "v1"), ("insert", 7)]


def test_only_the_tables_named_are_audited(database: Database) -> None:
    path = database(VENDORS, "CREATE TABLE other (n)")
    assert SQLiteObserver.install_audit(path, ["vendors"]) == ("vendors",)
    observer = SQLiteObserver(path)
    execute(path, "INSERT INTO other VALUES (1)", TWO_VENDORS)
    assert ops(observer) == [("insert", "v2"), ("insert", "v1")]


def test_a_refused_installation_leaves_the_database_as_it_was(database: Database) -> None:
    path = database(VENDORS, "CREATE TABLE hides (rowid, _rowid_, oid)")
    before = path.read_bytes()
    with pytest.raises(LookupError, match="no table 'vendor' to audit"):
        SQLiteObserver.install_audit(path, ["vendor"])
    with pytest.raises(ValueError, match="'hides' cannot be audited"):
        SQLiteObserver.install_audit(path)
    with pytest.raises(TypeError, match="not one string"):
        SQLiteObserver.install_audit(path, "vendors")
    assert path.read_bytes() == before


@pytest.mark.parametrize("kind", ["TABLE", "VIEW"])
def test_a_name_that_the_audit_needs_and_the_user_has_is_refused(
    database: Database, kind: str
) -> None:
    columns = "AS SELECT 1 AS event_id" if kind == "VIEW" else "(event_id)"
    path = database(VENDORS, f"CREATE {kind} envbench_audit_scope {columns}")
    before = path.read_bytes()
    with pytest.raises(ValueError, match="has a 'envbench_audit_scope' of its own"):
        SQLiteObserver.install_audit(path)
    assert path.read_bytes() == before


def test_a_table_of_a_thousand_columns(database: Database) -> None:
    columns = ", ".join(f"c{i}" for i in range(1000))
    path = database(f"CREATE TABLE wide (id INTEGER PRIMARY KEY, {columns})")
    SQLiteObserver.install_audit(path)
    observer = SQLiteObserver(path)
    execute(
        path, "INSERT INTO wide (id, c999) VALUES (1, 'x')", "REPLACE INTO wide (id) VALUES (1)"
    )
    assert ops(observer) == [("insert", 1), ("delete", 1), ("insert", 1)]
    assert len(observer()["wide"][0]) == 1001


@pytest.mark.parametrize("encoding", ["UTF-16le", "UTF-16be"])
def test_a_database_in_utf16(database: Database, encoding: str) -> None:
    path = database(f"PRAGMA encoding = '{encoding}'", VENDORS)
    SQLiteObserver.install_audit(path)
    observer = SQLiteObserver(path)
    execute(path, "INSERT INTO vendors VALUES ('é🙂', 'a', 'b')")
    assert observer()["vendors"][0]["vendor_id"] == "é🙂"
    assert ops(observer) == [("insert", "é🙂")]


def test_the_audit_refuses_to_be_edited(database: Database) -> None:
    path = database(VENDORS)
    SQLiteObserver.install_audit(path)
    execute(path, TWO_VENDORS)
    for table in ("envbench_audit", "envbench_audit_values"):
        with writer(path) as connection:
            with pytest.raises(sqlite3.IntegrityError, match="the audit only grows"):
                connection.execute(f"DELETE FROM {table}")
            with pytest.raises(sqlite3.IntegrityError, match="the audit only grows"):
                connection.execute(f"UPDATE {table} SET event_id = event_id + 1")


@pytest.mark.parametrize(
    ("statements", "said"),
    [
        (["DROP TABLE vendors"], "is gone or renamed"),
        (["ALTER TABLE vendors RENAME TO sellers"], "is gone or renamed"),
        (["DROP TABLE vendors", VENDORS], "trigger .* of table 'vendors' is gone"),
        (["DROP TRIGGER envbench_audit_1_after_update"], "trigger .* of table 'vendors' is gone"),
        (["ALTER TABLE vendors ADD COLUMN bic TEXT"], "columns of 'vendors' changed"),
        (
            ["DROP TRIGGER envbench_audit_is_kept", TWO_VENDORS, "DELETE FROM envbench_audit"],
            r"2 event\(s\) after event 0 were removed",
        ),
    ],
)
def test_an_audit_with_a_hole_is_an_error(
    database: Database, statements: list[str], said: str
) -> None:
    path = database(VENDORS)
    SQLiteObserver.install_audit(path)
    observer = SQLiteObserver(path)
    execute(path, *statements)
    with pytest.raises(AuditIncomplete, match=said):
        observer.audit()


def test_a_row_that_came_unrecorded_is_an_error(database: Database) -> None:
    path = database("CREATE TABLE t (a, b)", "CREATE UNIQUE INDEX i ON t (abs(a))")
    SQLiteObserver.install_audit(path)
    observer = SQLiteObserver(path)
    execute(path, "INSERT INTO t VALUES (1, 'x')")
    assert len(observer.audit()) == 1
    execute(path, "INSERT OR REPLACE INTO t VALUES (-1, 'y')")
    with pytest.raises(AuditIncomplete, match=r"'t' has 1 row\(s\).*should have 2"):
        observer.audit()


SCHEMAS = (
    "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT UNIQUE, b)",
    "CREATE TABLE t (id TEXT PRIMARY KEY, a INTEGER, b UNIQUE) WITHOUT ROWID",
    "CREATE TABLE t (id, a TEXT COLLATE NOCASE, b REAL, UNIQUE (id, a))",
    "CREATE TABLE t (id INT, a TEXT, b REAL UNIQUE, PRIMARY KEY (id, a)) WITHOUT ROWID",
)
VALUES = st.sampled_from([None, -1, 0, 1, 2, "1", "a", "A", 1.0, 1.5, b"\xff", 2**62])
ROW = st.tuples(VALUES, VALUES, VALUES)
STATEMENTS = st.one_of(
    st.tuples(
        st.sampled_from(
            [
                "INSERT INTO t VALUES (?, ?, ?)",
                "INSERT OR REPLACE INTO t VALUES (?, ?, ?)",
                "INSERT OR IGNORE INTO t VALUES (?, ?, ?)",
                "INSERT INTO t VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET b = excluded.b",
                "UPDATE OR REPLACE t SET a = ? WHERE b > ? OR id = ?",
                "UPDATE OR IGNORE t SET b = ? WHERE a > ? OR id = ?",
                "UPDATE OR REPLACE t SET id = ?, b = ? WHERE a = ?",
                "DELETE FROM t WHERE id = ? OR a = ? OR b = ?",
            ]
        ),
        ROW,
    )
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    schema=st.sampled_from(SCHEMAS),
    recursive=st.booleans(),
    statements=st.lists(STATEMENTS, min_size=1, max_size=12),
)
def test_the_events_lead_from_the_first_state_to_the_last(
    tmp_path_factory: pytest.TempPathFactory,
    schema: str,
    recursive: bool,
    statements: list[tuple[str, tuple[Any, ...]]],
) -> None:
    path = tmp_path_factory.mktemp("audited") / "t.sqlite"
    execute(path, schema, "INSERT INTO t VALUES (1, 'a', 1.5), (2, 'b', 2)")
    SQLiteObserver.install_audit(path)
    observer = SQLiteObserver(path)
    rows = [repr(row) for row in observer()["t"]]
    with writer(path) as connection:
        connection.execute(f"PRAGMA recursive_triggers = {recursive}")
        for statement, values in statements:
            try:
                connection.execute(statement, values)
            except sqlite3.IntegrityError:
                continue
    for event in observer.audit():
        if event["before"] is not None:
            rows.remove(repr(event["before"]))
        if event["after"] is not None:
            rows.append(repr(event["after"]))
    assert sorted(rows) == sorted(repr(row) for row in observer()["t"])
