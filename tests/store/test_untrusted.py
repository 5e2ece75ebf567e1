"""Files made to do harm: nothing that they define is run, and nothing outside is reached."""

import duckdb
import pytest

from envbench.store import (
    NotAStore,
    QueryError,
    StoreError,
    StoreLocked,
    StoreMissing,
    StoreTooNew,
    StoreTooOld,
    connect,
)


def tamper(path, *statements):
    with duckdb.connect(path) as raw:
        for statement in statements:
            raw.execute(statement).fetchall()


def without_views(path):
    tamper(
        path,
        *(
            f"DROP VIEW {view}"
            for view in (
                "steps_full",
                "transitions",
                "restorations",
                "latest_results",
                "initial_states",
                "final_states",
            )
        ),
    )


# -- a file as it should be -----------------------------------------------------------------------


def test_a_good_file_reads_as_ever(filled):
    with connect(filled, read_only=True) as store:
        trusted = {
            name: store.frame(name).fetchall()
            for name in ("episodes", "transitions", "final_states")
        }
        digests = [episode.digest for episode in store.episodes()]
    before = filled.read_bytes()
    with connect(filled, trusted=False) as store:
        assert store.read_only
        assert not store.trusted
        assert store.path == filled
        assert [episode.digest for episode in store.episodes()] == digests
        for episode in store.episodes():
            assert store.episode(episode.episode_id, verify=True).data["case_id"]
        for name, rows in trusted.items():
            assert store.frame(name).fetchall() == rows
        assert len(store.transitions()) == 8
        assert store.verify().ok
    assert filled.read_bytes() == before


def test_readers_of_one_file_in_one_process(filled):
    with connect(filled, trusted=False) as one, connect(filled, trusted=False) as two:
        with connect(filled, read_only=True) as three:
            assert len(one.episodes()) == len(two.episodes()) == len(three.episodes()) == 4
        assert len(one.episodes()) == 4
        with pytest.raises(StoreLocked, match="open in this process already"):
            connect(filled)


def test_a_file_that_this_process_writes(filled):
    with connect(filled), pytest.raises(StoreLocked, match="open in this process already"):
        connect(filled, trusted=False)


def test_names_with_quotes(filled, tmp_path):
    path = tmp_path / 'it\'s; DROP TABLE "x".duckdb'
    path.write_bytes(filled.read_bytes())
    with connect(path, trusted=False) as store:
        assert len(store.episodes()) == 4


def test_closing_lets_go_of_the_file(filled):
    connect(filled, trusted=False).close()
    connect(filled).close()


# -- definitions ----------------------------------------------------------------------------------


def test_macros_named_as_functions_are_not_run(filled):
    tamper(
        filled,
        "CREATE MACRO sum(x) AS 666",
        "CREATE MACRO count(x) AS 777",
        "CREATE MACRO max(x) AS 'pwned'",
        "CREATE MACRO json_extract_string(a, b) AS 'pwned'",
        "CREATE MACRO json_extract(a, b) AS 'pwned'",
        "CREATE MACRO coalesce_(a) AS 'pwned'",
        "CREATE MACRO epoch_us(a) AS 0",
        "CREATE MACRO rank() AS 1",
        "CREATE MACRO sha256(a) AS 'pwned'",
        "CREATE MACRO steps() AS TABLE SELECT 'pwned' AS a",
        "CREATE MACRO duckdb_tables() AS TABLE SELECT 'pwned' AS a",
    )
    with connect(filled) as store:
        assert store.sql("SELECT sum(n_steps) FROM episodes").fetchall()[0] == (666,)
    with connect(filled, trusted=False) as store:
        rows = store.sql(
            "SELECT sum(n_steps), count(n_steps), max(n_steps), "
            "json_extract_string('{\"a\":1}', 'a') FROM episodes"
        ).fetchall()
        assert rows == [(13, 4, 5, "1")]
        assert store.sql("SELECT count(*) FROM steps").fetchall() == [(10,)]
        assert len(store.transitions()) == 8
        assert store.verify().ok


def test_views_of_the_file_are_not_used(filled):
    tamper(
        filled,
        "CREATE OR REPLACE VIEW final_states AS SELECT error('the view ran') AS state",
        "CREATE OR REPLACE VIEW transitions AS SELECT error('the view ran') AS observation",
        "CREATE VIEW more AS SELECT error('the view ran') AS a",
    )
    with connect(filled, trusted=False) as store:
        assert len(store.frame("final_states")) == 4
        assert len(store.transitions()) == 8
        with pytest.raises(QueryError, match="more does not exist"):
            store.sql("SELECT * FROM more")


def test_other_tables_are_ignored_whatever_they_are_called(filled):
    tamper(
        filled,
        'CREATE TABLE "x""; DROP TABLE episodes; --" (a INTEGER)',
        'CREATE TABLE "duckdb_tables" (a INTEGER)',
        "CREATE SCHEMA other",
        "CREATE TABLE other.episodes (a INTEGER DEFAULT 7)",
        "CREATE SEQUENCE numbers",
        "CREATE TABLE more (a INTEGER DEFAULT nextval('numbers'), b INTEGER AS (a + 1))",
        "CREATE TYPE mood AS ENUM ('good', 'bad')",
        "CREATE TABLE moods (a mood)",
    )
    with connect(filled, trusted=False) as store:
        assert len(store.episodes()) == 4
        assert store.verify().ok
        with pytest.raises(QueryError, match="does not exist"):
            store.sql("SELECT * FROM moods")
        with pytest.raises(StoreError, match="no table 'moods'"):
            store.frame("moods")


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        (["ALTER TABLE {t} ADD COLUMN more INTEGER"], "has 5 columns where a store has 4"),
        (["ALTER TABLE {t} DROP COLUMN first_step"], "has the column 'body' JSON where"),
        (["ALTER TABLE {t} RENAME COLUMN body TO content"], "has the column 'content' JSON where"),
        (["ALTER TABLE {t} ALTER first_step TYPE VARCHAR"], "'first_step' VARCHAR where"),
        (["ALTER TABLE {t} ALTER body TYPE VARCHAR"], "'body' VARCHAR where a store has body JSON"),
        (["ALTER TABLE {t} ALTER first_step SET DEFAULT 3"], "constraints, defaults or generated"),
        (["ALTER TABLE {t} ALTER first_step DROP NOT NULL"], "constraints, defaults or generated"),
        (["DROP TABLE {t}"], "has no table states of its own"),
        (["DROP TABLE {t}", "CREATE VIEW {t} AS SELECT 1 AS a"], "has no table states of its own"),
        (
            ["DROP TABLE {t}", "CREATE MACRO {t}() AS TABLE SELECT 1 AS a"],
            "has no table states of its own",
        ),
        (
            [
                "DROP TABLE {t}",
                (
                    "CREATE TABLE {t} (episode_id VARCHAR NOT NULL, state_hash VARCHAR NOT NULL, "
                    "first_step BIGINT NOT NULL, body JSON AS ('{{}}'))"
                ),
            ],
            "constraints, defaults or generated|has the column",
        ),
        (
            [
                "DROP TABLE {t}",
                "CREATE TYPE kind AS ENUM ('a')",
                (
                    "CREATE TABLE {t} (episode_id kind NOT NULL, state_hash VARCHAR NOT NULL, "
                    "first_step BIGINT NOT NULL, body JSON NOT NULL)"
                ),
            ],
            "has the column 'episode_id' ENUM",
        ),
        (
            [
                "DROP TABLE {t}",
                'CREATE TYPE "JSON" AS STRUCT(a INTEGER)',
                (
                    "CREATE TABLE {t} (episode_id VARCHAR NOT NULL, state_hash VARCHAR NOT NULL, "
                    'first_step BIGINT NOT NULL, body main."JSON" NOT NULL)'
                ),
            ],
            "has the column 'body' STRUCT",
        ),
        (
            [
                "DROP TABLE {t}",
                (
                    "CREATE TABLE {t} (episode_id VARCHAR COLLATE nocase NOT NULL, "
                    "state_hash VARCHAR NOT NULL, first_step BIGINT NOT NULL, body JSON NOT NULL)"
                ),
            ],
            "constraints, defaults or generated",
        ),
        (
            [
                "DROP TABLE {t}",
                (
                    "CREATE TABLE {t} (episode_id VARCHAR NOT NULL, state_hash VARCHAR NOT NULL, "
                    "first_step BIGINT NOT NULL CHECK (first_step >= 0), body JSON NOT NULL)"
                ),
            ],
            "constraints, defaults or generated",
        ),
    ],
)
def test_a_table_of_ours_that_is_another(filled, statements, message):
    without_views(filled)
    tamper(filled, *(statement.format(t="states") for statement in statements))
    with pytest.raises(NotAStore, match=message) as error:
        connect(filled, trusted=False)
    assert str(filled) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_view_in_place_of_the_schema_version(filled):
    tamper(
        filled,
        "DROP TABLE schema_info",
        "CREATE VIEW schema_info AS SELECT error('the view ran') AS version",
    )
    with pytest.raises(NotAStore, match="no table schema_info of its own"):
        connect(filled, trusted=False)


def test_a_newer_file(filled):
    tamper(filled, "UPDATE schema_info SET version = 2000000000")
    with pytest.raises(StoreTooNew, match="schema version 2000000000"):
        connect(filled, trusted=False)


def test_an_older_file_is_not_migrated(filled):
    tamper(filled, "UPDATE schema_info SET version = 0")
    with pytest.raises(StoreTooOld, match="only a trusted store is migrated"):
        connect(filled, trusted=False)


@pytest.mark.parametrize(
    "rows", ["DELETE FROM schema_info", "INSERT INTO schema_info FROM schema_info"]
)
def test_a_file_that_does_not_say_its_version(filled, rows):
    tamper(filled, rows)
    with pytest.raises(NotAStore, match="which schema version"):
        connect(filled, trusted=False)


def test_nothing_to_open(tmp_path):
    with pytest.raises(StoreMissing):
        connect(tmp_path / "a.duckdb", trusted=False)
    with pytest.raises(StoreError, match="in memory"):
        connect(":memory:", trusted=False)
    (tmp_path / "text").write_text("x" * 10_000)
    with pytest.raises(NotAStore):
        connect(tmp_path / "text", trusted=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["text"]


def test_a_log_beside_the_file_is_not_changed(filled):
    """It is read as DuckDB reads it, in memory."""
    with connect(filled) as store, store.cursor() as cursor:
        cursor.execute("UPDATE schema_info SET created_by = 'x'").fetchall()
        wal = filled.with_name("a.duckdb.wal")
        main, log = filled.read_bytes(), wal.read_bytes()
    filled.write_bytes(main)
    wal.write_bytes(log)
    with connect(filled, trusted=False) as store:
        assert store.sql("SELECT created_by FROM schema_info").fetchall() == [("x",)]
    assert (filled.read_bytes(), wal.read_bytes()) == (main, log)


# -- what is outside ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM read_blob('/etc/passwd')",
        "SELECT * FROM read_json('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM glob('/etc/*')",
        "SELECT * FROM sniff_csv('/etc/passwd')",
        "ATTACH '{other}' AS more",
        "COPY (SELECT 1) TO '{out}'",
        "COPY episodes TO '{out}'",
        "EXPORT DATABASE '{out}'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET threads = 1",
        "SET enable_external_access = true",
        "SET GLOBAL enable_external_access = true",
        "SET lock_configuration = false",
        "RESET lock_configuration",
        "SET allowed_directories = ['/']",
        "SET temp_directory = '/tmp'",
        "PRAGMA profiling_output = '{out}'",
        "SET log_query_path = '{out}'",
        "CREATE SECRET s (TYPE s3)",
        "DELETE FROM episodes",
        "INSERT INTO evidence.main.steps (episode_id, step_index) VALUES ('a', 1)",
        "DROP TABLE evidence.main.steps",
        "CREATE TABLE evidence.main.more (a INTEGER)",
        "CREATE MACRO evidence.main.more() AS 1",
    ],
)
def test_what_must_fail(filled, tmp_path, query):
    duckdb.connect(tmp_path / "other.duckdb").close()
    before = filled.read_bytes()
    with connect(filled, trusted=False) as store:
        with pytest.raises(QueryError):
            store.sql(query.format(out=tmp_path / "out", other=tmp_path / "other.duckdb"))
        assert len(store.episodes()) == 4
    assert not (tmp_path / "out").exists()
    assert filled.read_bytes() == before


def test_writing_is_refused(filled):
    with connect(filled, trusted=False) as store:
        with pytest.raises(StoreError, match="read"):
            store.merge([])
        with pytest.raises(StoreError):
            store.add(next(iter(store.episodes())))
