import datetime
import gc
import subprocess
import sys
import textwrap
import threading
import warnings

import duckdb
import pytest

from envbench.checks import OutcomeCheck, evaluate
from envbench.store import QueryError, StoreClosed, StoreError, StoreWarning, connect


@pytest.fixture
def store():
    with connect(":memory:") as store:
        yield store


def insert(store, *names):
    with store.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO decisions "
            "VALUES (?, 'r', TIMESTAMP '2026-01-01', 'accept', '{}', '[]', '{}')",
            [[name] for name in names],
        )


# -- queries --------------------------------------------------------------------------------------


def test_a_result_in_every_form(store):
    result = store.sql("SELECT 1 AS a, 'x' AS b UNION ALL SELECT 2, NULL ORDER BY a")
    assert result.fetchall() == [(1, "x"), (2, None)]
    assert result.columns == ["a", "b"]
    assert len(result) == 2
    assert list(result) == [(1, "x"), (2, None)]
    assert result.pl().to_dicts() == [{"a": 1, "b": "x"}, {"a": 2, "b": None}]
    assert result.df()["a"].tolist() == [1, 2]
    assert result.arrow().to_pylist() == [{"a": 1, "b": "x"}, {"a": 2, "b": None}]


def test_a_result_is_printed_as_a_table(store):
    text = repr(store.sql("SELECT 42 AS answer, 'x' AS word"))
    assert "answer" in text
    assert "42" in text
    assert "│" in text


def test_a_long_result_is_printed_short(store):
    text = repr(store.sql("SELECT range AS n FROM range(100000)"))
    assert len(text.splitlines()) < 40
    assert text.splitlines()[-1] == "100000 rows, the first 20 shown"


def test_results_survive_what_happens_afterwards(store):
    insert(store, "a")
    first = store.sql("SELECT decision_id FROM decisions")
    second = store.sql("SELECT count(*) FROM decisions")
    insert(store, "b")
    with store.cursor() as cursor:
        cursor.execute("DELETE FROM decisions WHERE decision_id = 'a'").fetchall()
    assert first.fetchall() == [("a",)]
    assert second.fetchall() == [(1,)]
    assert first.pl().height == 1
    store.close()
    assert first.fetchall() == [("a",)]
    assert "a" in repr(first)


@pytest.mark.parametrize(
    ("query", "params", "row"),
    [
        ("SELECT ? + ?", [1, 2], (3,)),
        ("SELECT ?, ?", ("it's", None), ("it's", None)),
        ("SELECT $a || $b", {"b": "y", "a": "x"}, ("xy",)),
        ("SELECT 1", [], (1,)),
        ("SELECT ?", [datetime.datetime(2026, 1, 2)], (datetime.datetime(2026, 1, 2),)),
    ],
)
def test_parameters(store, query, params, row):
    assert store.sql(query, params).fetchall() == [row]


@pytest.mark.parametrize(
    ("query", "error", "message"),
    [
        ("SELEC 1", QueryError, "syntax error"),
        ("SELECT nothing FROM episodes", QueryError, 'column "nothing" not found'),
        ("SELECT * FROM nowhere", QueryError, "nowhere does not exist"),
        ("SELECT json('{')", QueryError, "Malformed JSON"),
        ("SELECT ?", QueryError, "parameters"),
        ("SELECT '\udcff'", QueryError, "."),
        (b"SELECT 1", TypeError, "query must be text"),
    ],
)
def test_queries_that_fail(store, query, error, message):
    with pytest.raises(error, match=message):
        store.sql(query)
    assert store.sql("SELECT 1").fetchall() == [(1,)]


@pytest.mark.parametrize("params", ["text", 3, {1, 2}])
def test_parameters_of_another_type(store, params):
    with pytest.raises(TypeError, match="params must be"):
        store.sql("SELECT ?", params)


def test_a_local_variable_is_no_table(store):
    episodes_of_mine = duckdb.sql("SELECT 1").to_arrow_table()
    assert episodes_of_mine.num_rows == 1
    for name in ("episodes_of_mine", "query", "self", "params"):
        with pytest.raises(QueryError, match="does not exist"):
            store.sql(f"SELECT * FROM {name}")


def test_types_that_a_frame_could_not_hold(store):
    result = store.sql(
        """
        SELECT sum(range) AS total, INTERVAL 90 MINUTE AS wait, 5::UHUGEINT AS big,
            INTERVAL 1 MONTH AS month, '{"a":1}'::JSON AS j, uuid() AS id, 1.5::DECIMAL(9, 1) AS d,
            sum(range) * 100000000000000000000 AS beyond, ['a'] AS list, {'a': 1} AS struct,
            NULL AS nothing, 'x'::BLOB AS bytes, DATE '2026-01-02' AS day
        FROM range(4)
        """
    )
    ((total, wait, big, month, j, *_),) = result.fetchall()
    assert (total, big, j) == (6, 5, '{"a":1}')
    assert wait == datetime.timedelta(minutes=90)
    assert "1 months" in month
    assert result.pl()["total"].to_list() == [6]
    assert result.df()["total"].tolist() == [6]
    assert str(result.df()["total"].dtype) == "int64"
    assert result.pl()["wait"].to_list() == [datetime.timedelta(minutes=90)]
    assert int(result.fetchall()[0][7]) == 6 * 10**20


def test_column_names_that_come_twice(store):
    result = store.sql("SELECT 1 AS a, 2 AS a, 3 AS a_1")
    assert len(set(result.columns)) == 3
    assert sorted(result.pl().row(0)) == [1, 2, 3]


def test_results_without_rows(store):
    assert store.sql("SELECT episode_id, seed FROM episodes").pl().columns == ["episode_id", "seed"]
    assert store.sql("SELECT * FROM episodes").fetchall() == []


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("DELETE FROM schema_info", "DELETE"),
        ("/* é */ delete FROM schema_info", "DELETE"),
        ("WITH a AS (SELECT 1) DELETE FROM schema_info", "DELETE"),
        ("EXPLAIN ANALYZE DELETE FROM schema_info", "DELETE"),
        ("EXPLAIN /* é */ (ANALYZE, FORMAT json) DELETE FROM schema_info", "DELETE"),
        ("EXPLAIN ANALYZE COPY schema_info TO 'out.csv'", "COPY"),
        ("EXPLAIN ANALYZE COPY (PIVOT schema_info ON version) TO 'out.csv'", "COPY"),
        ("TRUNCATE schema_info", "TRUNCATE"),
        ("UPDATE schema_info SET version = 9", "UPDATE"),
        ("INSERT INTO schema_info FROM schema_info", "INSERT"),
        ("DROP TABLE schema_info", "DROP"),
        ("ALTER TABLE schema_info ADD COLUMN a INTEGER", "ALTER"),
        ("CREATE TABLE more AS PIVOT schema_info ON version", "CREATE"),
        ("CREATE TEMP TABLE more (a INTEGER)", "CREATE"),
        ("COPY schema_info TO 'out.csv'", "COPY"),
        ("EXPORT DATABASE 'out'", "EXPORT"),
        ("ATTACH 'other.duckdb' AS other", "ATTACH"),
        ("INSTALL httpfs", "INSTALL"),
        ("LOAD httpfs", "LOAD"),
        ("SET threads = 1", "SET"),
        ("PRAGMA threads = 1", "PRAGMA"),
        ("CALL pragma_version()", "CALL"),
        ("CHECKPOINT", "CHECKPOINT"),
        ("BEGIN", "BEGIN"),
    ],
)
def test_statements_that_do_not_read_are_refused(store, tmp_path, monkeypatch, query, word):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(QueryError) as error:
        store.sql(query)
    assert str(error.value) == f"{word} is refused: only statements that read, such as SELECT"
    assert store.sql("SELECT version FROM schema_info").fetchall() == [(1,)]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("o")] == []


@pytest.mark.parametrize(
    "query",
    [
        "WITH a AS (DELETE FROM schema_info RETURNING *) FROM a",
        "WITH a AS (DELETE FROM schema_info RETURNING *) PIVOT a ON version",
        "WITH a AS (FROM schema_info) INSERT INTO schema_info PIVOT a ON version",
        "EXPLAIN ANALYZE WITH a AS (DELETE FROM schema_info RETURNING *) FROM a",
    ],
)
def test_a_query_that_writes_on_the_way_is_refused(store, query):
    with pytest.raises(QueryError):
        store.sql(query)
    assert store.sql("SELECT version FROM schema_info").fetchall() == [(1,)]


@pytest.mark.parametrize(
    ("query", "count"),
    [("", 0), ("-- only a comment", 0), ("SELECT 1; SELECT 2", 2), ("SELECT 1; DROP VIEW a", 2)],
)
def test_a_query_is_one_statement(store, query, count):
    with pytest.raises(QueryError, match=f"holds {count} statements; give one"):
        store.sql(query)


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("FROM range(1)", 0),
        ("VALUES (4)", 4),
        ("WITH a AS (SELECT 5) FROM a", 5),
        ("(SELECT 6);", 6),
        ("/* é */ PIVOT (SELECT 7 AS a, 8 AS b) ON a USING sum(b)", 8),
        ("FROM (PIVOT (SELECT 7 AS a, 9 AS b) ON a USING sum(b))", 9),
        ("UNPIVOT (SELECT 1 AS a) ON a", "a"),
        ("DESCRIBE schema_info", "version"),
        ("SUMMARIZE schema_info", "version"),
        ("SHOW TABLES", "audit_events"),
        ("EXPLAIN SELECT 1", "physical_plan"),
        ("EXPLAIN ANALYZE FROM schema_info", "analyzed_plan"),
    ],
)
def test_statements_that_read(store, query, first):
    assert store.sql(query).fetchall()[0][0] == first


def test_queries_from_many_threads(store):
    insert(store, *map(str, range(100)))
    found, errors = [], []

    def work():
        try:
            for _ in range(20):
                found.append(
                    store.sql("SELECT count(*), max(decision_id) FROM decisions").fetchall()
                )
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert found == [[(100, "99")]] * 160


def test_an_unread_cursor_blocks_nobody(store):
    cursor = store.cursor()
    cursor.execute("SELECT * FROM range(1000000)")
    assert store.sql("SELECT 1").fetchall() == [(1,)]
    insert(store, "a")
    assert cursor.fetchone() == (0,)


def test_nothing_is_fetched_from_the_network(store):
    rows = store.sql(
        "SELECT name, value FROM duckdb_settings() "
        "WHERE name IN ('autoinstall_known_extensions', 'autoload_known_extensions') ORDER BY 1"
    ).fetchall()
    assert rows == [
        ("autoinstall_known_extensions", "false"),
        ("autoload_known_extensions", "false"),
    ]


# -- tables ---------------------------------------------------------------------------------------


def test_frame_orders_by_episode_and_step(store):
    with store.cursor() as cursor:
        cursor.execute(
            "INSERT INTO steps (episode_id, step_index) VALUES ('b', 1), ('a', 10), ('a', 2)"
        ).fetchall()
    rows = store.frame("steps").arrow().select(["episode_id", "step_index"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [("a", 2), ("a", 10), ("b", 1)]


def test_frame_of_every_table_and_view(store):
    for table in ("episodes", "steps_full", "transitions", "findings", "schema_info", "blobs"):
        store.frame(table).pl()


@pytest.mark.parametrize("table", ["nothing", 'steps"; DROP TABLE steps; --', ""])
def test_frame_of_no_table_names_those_there_are(store, table):
    with pytest.raises(StoreError, match=r"no table .*it has audit_events, blobs"):
        store.frame(table)
    assert store.frame("steps").fetchall() == []


def test_read_only_refuses_writing(tmp_path):
    connect(tmp_path / "a.duckdb").close()
    with (
        connect(tmp_path / "a.duckdb", read_only=True) as store,
        pytest.raises(duckdb.Error, match="read-only"),
    ):
        insert(store, "a")


@pytest.mark.parametrize("what", [3, "episode", None, {"episode_id": "a"}])
def test_adding_what_is_no_episode(store, what):
    with pytest.raises(TypeError) as error:
        store.add(what)
    assert str(error.value) == f"store.add takes an EpisodeEvidence, not {type(what).__name__}"


def test_adding_a_report(store):
    report = evaluate([], [OutcomeCheck("any", "v1", print)])
    with pytest.raises(TypeError, match=r"not Report: report\.save\(store\) keeps a Report$"):
        store.add(report)


# -- closing --------------------------------------------------------------------------------------


def test_everything_after_close_says_so(tmp_path):
    store = connect(tmp_path / "a.duckdb")
    cursor = store.cursor()
    store.close()
    store.close()
    for use in (
        store.cursor,
        lambda: store.sql("SELECT 1"),
        lambda: store.frame("steps"),
        store.transitions,
        store.flush,
        store.episodes,
        lambda: store.episode("a"),
        store.verify,
        lambda: store.merge([]),
    ):
        with pytest.raises(StoreClosed, match=r"a\.duckdb was closed: connect to it again"):
            use()
    with pytest.raises(duckdb.ConnectionException):
        cursor.execute("SELECT 1")
    assert store.path == tmp_path / "a.duckdb"
    assert repr(store) == f"<Store {tmp_path / 'a.duckdb'}, closed>"
    connect(tmp_path / "a.duckdb", read_only=True).close()


def test_a_context_closes_also_after_an_error(tmp_path):
    with pytest.raises(RuntimeError), connect(tmp_path / "a.duckdb") as store:
        raise RuntimeError
    with pytest.raises(StoreClosed):
        store.cursor()


def test_a_store_that_is_dropped_is_closed_without_a_warning(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store = connect(tmp_path / "a.duckdb")
        del store
        gc.collect()
    connect(tmp_path / "a.duckdb", read_only=True).close()


def test_an_interpreter_that_ends_with_an_open_store_says_nothing(tmp_path):
    script = """
        import sys
        from envbench.store import connect
        store = connect(sys.argv[1])
        class Keeper:
            def __del__(self):
                store.close()
        keeper = Keeper()
        store.keeper = keeper
    """
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(script), tmp_path / "a.duckdb"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert [path.name for path in tmp_path.iterdir()] == ["a.duckdb"]


class Writer:
    def __init__(self, store):
        self.store = store
        self.calls = []

    def wait(self):
        self.calls.append("wait")

    def flush(self):
        self.calls.append("flush")

    def close(self):
        self.store.sql("SELECT 1")  # the store is still open to its writer
        self.calls.append("close")


def test_flush_and_close_wait_for_the_writer(store):
    writer = store.writer = Writer(store)
    store.flush()
    store.close()
    store.close()
    assert writer.calls == ["flush", "wait", "close"]


def test_queries_wait_for_what_this_process_recorded(tmp_path):
    with connect(tmp_path / "a.duckdb") as one, connect(tmp_path / "a.duckdb") as two:
        writer = one.writer = Writer(one)
        two.sql("SELECT 1")
        assert writer.calls == ["wait"]


def test_a_writer_that_fails_does_not_keep_the_file(tmp_path):
    store = connect(tmp_path / "a.duckdb")

    class Failing(Writer):
        def close(self):
            raise OSError("lost")

    store.writer = Failing(store)
    with pytest.raises(OSError, match="lost"):
        store.close()
    store.close()
    connect(tmp_path / "a.duckdb", read_only=True).close()


def test_neither_the_import_nor_a_query_brings_in_frames():
    script = (
        "import sys, envbench.store;"
        "store = envbench.store.connect(':memory:');"
        "repr(store.sql('SELECT sum(range), 1.5, NULL, [1] FROM range(3)'));"
        "store.sql('SELECT 1').fetchall(); store.frame('steps');"
        "print([m for m in ('pandas', 'polars', 'altair', 'IPython') if m in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert result.stdout == "[]\n"


@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_deleted_under_an_open_store_is_told_and_can_be_saved(tmp_path, replaced):
    """DuckDB itself writes on into the deleted file without an error."""
    path = tmp_path / "it s.duckdb"
    store = connect(path)
    insert(store, "before")
    path.unlink()
    if replaced:
        path.write_bytes(b"something else")
    insert(store, "after")
    with pytest.raises(StoreError, match="was deleted or replaced while it was open") as error:
        store.flush()
    assert """cursor().execute('COPY FROM DATABASE "it s" TO saved')""" in str(error.value)
    store.cursor().execute(f"ATTACH '{tmp_path / 'saved.duckdb'}' AS saved")
    store.cursor().execute('COPY FROM DATABASE "it s" TO saved')
    store.cursor().execute("DETACH saved")
    with pytest.warns(StoreWarning, match="was deleted or replaced"):
        store.close()
    with connect(tmp_path / "saved.duckdb", read_only=True) as saved:
        rows = saved.sql("SELECT decision_id FROM decisions ORDER BY 1").fetchall()
        assert rows == [("after",), ("before",)]


def test_open_stores_stand_in_the_order_of_connecting(tmp_path):
    from envbench.store import open_stores

    before = open_stores()
    with connect(tmp_path / "a.duckdb") as a, connect(":memory:") as b:
        assert open_stores() == [*before, a, b]
        a.close()
        assert open_stores() == [*before, b]
        with connect(tmp_path / "a.duckdb") as again:
            assert open_stores() == [*before, b, again]
        assert b.is_open
    assert not b.is_open
    assert open_stores() == before
