import os
import subprocess
import sys
import textwrap

import duckdb
import pytest

from envbench.store import (
    NotAStore,
    QueryError,
    StoreError,
    StoreLocked,
    StoreMissing,
    StoreTooNew,
    connect,
)


def execute(path, statement, *parameters):
    with connect(path) as store, store.cursor() as cursor:
        cursor.execute(statement, list(parameters)).fetchall()


def contents(path):
    """All rows of all tables that are evidence, as text."""
    with connect(path, read_only=True) as store:
        return {
            table: sorted(map(repr, store.frame(table).fetchall()))
            for table in (
                "runs",
                "cases",
                "environments",
                "episodes",
                "steps",
                "states",
                "audit_events",
                "blobs",
                "reports",
                "check_results",
                "decisions",
            )
        }


@pytest.fixture
def parts(filled_bytes, tmp_path):
    """Two stores that share one episode: idle and fails; idle and pay."""
    paths = tmp_path / "one.duckdb", tmp_path / "it's two.duckdb"
    for path, left_out in zip(paths, ("pay", "fails"), strict=True):
        path.write_bytes(filled_bytes)
        with connect(path) as store, store.cursor() as cursor:
            cursor.execute(
                "CREATE TEMP TABLE gone AS SELECT episode_id FROM episodes "
                "WHERE case_id = ? OR case_id LIKE '%Shop'",
                [left_out],
            ).fetchall()
            for table in ("steps", "states", "audit_events", "blobs", "episodes"):
                cursor.execute(f"DELETE FROM {table} WHERE episode_id IN (FROM gone)").fetchall()
            for table in ("reports", "check_results", "decisions"):
                cursor.execute(f"DELETE FROM {table}").fetchall()
    return paths


def test_a_merged_store_has_everything_and_verifies(filled, tmp_path):
    with connect(tmp_path / "all.duckdb") as store:
        merged = store.merge(filled)
        assert (merged.episodes, merged.skipped, merged.unsealed) == (4, 0, 0)
        assert merged.rows["steps"] == 10
        assert merged.rows["reports"] == 1
        assert "findings" not in merged.rows
        assert str(merged) == "4 episodes copied, 0 there already"
        assert store.verify().ok
    assert contents(tmp_path / "all.duckdb") == contents(filled)


def test_stores_that_share_an_episode(parts, tmp_path):
    with connect(tmp_path / "all.duckdb") as store:
        merged = store.merge(parts)
        assert (merged.episodes, merged.skipped) == (3, 1)
        cases = store.sql("SELECT case_id FROM episodes ORDER BY 1").fetchall()
        assert cases == [("fails",), ("idle",), ("pay",)]
        assert not store.sql(
            "SELECT case_id FROM cases GROUP BY ALL HAVING count(*) > 1"
        ).fetchall()
        assert (
            store.episode(
                store.sql("SELECT episode_id FROM episodes WHERE case_id = 'pay'").fetchall()[0][0],
                verify=True,
            ).ending
            == "terminated"
        )


def test_merging_again_changes_nothing(filled, tmp_path):
    with connect(tmp_path / "all.duckdb") as store:
        store.merge([filled])
        before = store.sql("SELECT count(*) FROM states").fetchall()
        merged = store.merge([filled, str(filled), filled])
        assert (merged.episodes, merged.skipped, merged.rows) == (0, 4, {})
        assert store.sql("SELECT count(*) FROM states").fetchall() == before
        assert store.verify().ok


def test_merging_nothing(tmp_path):
    with connect(tmp_path / "all.duckdb") as store:
        assert store.merge([]).episodes == 0


def test_into_a_store_in_memory(filled):
    with connect(":memory:") as store:
        assert store.merge(filled).episodes == 4
        assert store.verify().ok


def test_an_altered_episode_is_an_error_that_names_it_and_nothing_is_merged(parts, tmp_path):
    one, two = parts
    execute(two, "UPDATE episodes SET digest = 'other' WHERE case_id = 'idle'")
    with connect(one, read_only=True) as store:
        ((episode_id,),) = store.sql(
            "SELECT episode_id FROM episodes WHERE case_id = 'idle'"
        ).fetchall()
    with connect(tmp_path / "all.duckdb") as store:
        with pytest.raises(StoreError, match=f"episode {episode_id} has digest other in") as error:
            store.merge([one, two])
        assert "nothing was merged" in str(error.value)
        for table in ("episodes", "steps", "states", "cases", "runs", "blobs"):
            assert store.frame(table).fetchall() == []
        store.merge([one])
        assert len(store.episodes()) == 2


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE cases SET input = '\"other\"'", "case_id .* in cases"),
        ("UPDATE environments SET wrappers = '[1]'", "environment_key .* in environments"),
        ("UPDATE reports SET digest = 'other'", "report .* has digest other"),
        ("UPDATE decisions SET decision = 'accept?'", "decision_id .* in decisions"),
        ("INSERT INTO episodes FROM episodes LIMIT 1", "episode .* more than once"),
    ],
)
def test_other_content_under_one_identity(filled, tmp_path, statement, message):
    with connect(tmp_path / "all.duckdb") as store:
        store.merge(filled)
        execute(filled, statement)
        with pytest.raises(StoreError, match=message):
            store.merge(filled)


def test_a_run_recorded_into_two_files_keeps_its_first_start(parts, tmp_path):
    with connect(tmp_path / "all.duckdb") as store:
        execute(parts[1], "UPDATE runs SET started_at = TIMESTAMP '2030-01-01'")
        store.merge(parts)
        rows = store.sql("SELECT count(*), max(year(started_at)) FROM runs").fetchall()
    assert rows[0][0] == 2
    assert rows[0][1] < 2030


def test_an_episode_being_recorded_is_left_out(filled, tmp_path):
    execute(filled, "INSERT INTO steps (episode_id, step_index) VALUES ('open', 1)")
    with duckdb.connect(filled) as raw:
        raw.execute(
            "INSERT INTO open_episodes VALUES ('open', TIMESTAMP '2026-01-01', '{}')"
        ).fetchall()
    with connect(tmp_path / "all.duckdb") as store:
        merged = store.merge(filled)
        assert merged.unsealed == 1
        assert "left out" in str(merged)
        assert store.sql("SELECT * FROM steps WHERE episode_id = 'open'").fetchall() == []


def test_what_is_only_in_the_log_of_a_store_is_merged_too(filled, tmp_path):
    script = """
        import os, sys
        from envbench.store import connect
        store = connect(sys.argv[1])
        store.merge(sys.argv[2])
        store.cursor().execute("UPDATE schema_info SET created_by = 'x'").fetchall()
        os._exit(0)
    """
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), tmp_path / "logged.duckdb", filled],
        check=False,
    )
    assert result.returncode == 0
    assert (tmp_path / "logged.duckdb.wal").exists()
    with connect(tmp_path / "all.duckdb") as store:
        assert store.merge(tmp_path / "logged.duckdb").episodes == 4
    assert (tmp_path / "logged.duckdb.wal").exists()


# -- refusals -------------------------------------------------------------------------------------


def test_into_itself(filled, tmp_path):
    (tmp_path / "link.duckdb").symlink_to(filled)
    os.link(filled, tmp_path / "hard.duckdb")
    with connect(filled) as store:
        for path in (filled, tmp_path / "link.duckdb", tmp_path / "hard.duckdb"):
            with pytest.raises(StoreError, match="into itself"):
                store.merge(path)


def test_into_a_store_that_is_read_only(filled, tmp_path):
    connect(tmp_path / "all.duckdb").close()
    with (
        connect(tmp_path / "all.duckdb", read_only=True) as store,
        pytest.raises(StoreError, match="read-only"),
    ):
        store.merge(filled)


def test_inputs_that_are_no_stores(tmp_path):
    (tmp_path / "text").write_text("hello")
    with duckdb.connect(tmp_path / "other.duckdb") as other:
        other.execute("CREATE TABLE sales (a INTEGER)").fetchall()
    with connect(tmp_path / "all.duckdb") as store:
        for target, kind in (
            (tmp_path / "missing.duckdb", StoreMissing),
            (tmp_path / "text", NotAStore),
            (tmp_path / "other.duckdb", NotAStore),
            (tmp_path, StoreError),
            (":memory:", StoreError),
        ):
            with pytest.raises(kind) as error:
                store.merge(target)
            assert "\n" not in str(error.value)
        with pytest.raises(TypeError):
            store.merge([3])


def test_a_good_input_beside_a_bad_one(filled, tmp_path):
    with connect(tmp_path / "all.duckdb") as store:
        with pytest.raises(StoreMissing):
            store.merge([filled, tmp_path / "missing.duckdb"])
        assert len(store.episodes()) == 0
        names = store.sql("SELECT database_name FROM duckdb_databases() WHERE NOT internal")
        assert len(names) == 1


def test_a_newer_input(filled, tmp_path):
    with duckdb.connect(filled) as raw:
        raw.execute("UPDATE schema_info SET version = 9").fetchall()
    with connect(tmp_path / "all.duckdb") as store, pytest.raises(StoreTooNew, match="upgrade"):
        store.merge(filled)


def test_an_input_that_another_process_writes(filled, tmp_path):
    script = """
        import sys
        from envbench.store import connect
        store = connect(sys.argv[1])
        print("held", flush=True)
        sys.stdin.read()
    """
    holder = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), filled],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    holder.stdout.readline()
    try:
        with (
            connect(tmp_path / "all.duckdb") as store,
            pytest.raises(StoreLocked, match=f"process {holder.pid} "),
        ):
            store.merge(filled)
    finally:
        holder.communicate(b"")


def test_an_input_that_this_process_has_open(filled, tmp_path):
    with (
        connect(filled),
        connect(tmp_path / "all.duckdb") as store,
        pytest.raises(StoreLocked, match="open in this process"),
    ):
        store.merge(filled)


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE steps ADD COLUMN more INTEGER",
        "ALTER TABLE steps DROP COLUMN reward",
        "ALTER TABLE steps ALTER COLUMN reward TYPE VARCHAR",
        "ALTER TABLE steps ALTER COLUMN reward SET DEFAULT 1",
        "DROP TABLE steps; CREATE VIEW steps AS SELECT 1 AS a",
        "DROP TABLE steps",
    ],
)
def test_an_input_with_other_columns(filled, tmp_path, statement):
    with duckdb.connect(filled) as raw:
        for view in ("steps_full", "transitions"):
            raw.execute(f"DROP VIEW {view}").fetchall()
        raw.execute(statement).fetchall()
    with connect(tmp_path / "all.duckdb") as store, pytest.raises(NotAStore, match="steps"):
        store.merge(filled)


def test_nothing_that_an_input_defines_is_run(filled, tmp_path):
    with duckdb.connect(filled) as raw:
        raw.execute("CREATE MACRO count(x) AS 666").fetchall()
        raw.execute("CREATE MACRO row_number() AS 7").fetchall()
        raw.execute("CREATE OR REPLACE VIEW final_states AS SELECT error('run') AS a").fetchall()
        raw.execute("CREATE TABLE extra (a INTEGER)").fetchall()
    with connect(tmp_path / "all.duckdb") as store:
        assert store.merge(filled).episodes == 4
        assert store.verify().ok
        with pytest.raises(QueryError):
            store.sql("FROM extra")


@pytest.mark.parametrize("name", ["report.json", "rows.csv", "rows.parquet", "notes"])
def test_a_file_of_another_kind_is_refused_as_by_verify(tmp_path, name):
    path = tmp_path / name
    path.write_text('{"schema": "envbench.report/v1"}')
    with connect(tmp_path / "all.duckdb") as store:
        with pytest.raises(NotAStore) as merging:
            store.merge(path)
        with pytest.raises(NotAStore) as opening:
            connect(path, trusted=False)
    assert str(merging.value) == str(opening.value)
    assert str(merging.value) == f"{path} is not a DuckDB database: name another file"
