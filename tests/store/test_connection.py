import multiprocessing
import os
import shutil
import sqlite3
import subprocess
import sys
import textwrap
import threading
import warnings
from pathlib import Path

import duckdb
import pytest

from envbench.store import (
    NotAStore,
    StoreDamaged,
    StoreError,
    StoreLocked,
    StoreMissing,
    StoreTooNew,
    StoreTooOld,
    StoreWarning,
    connect,
    migrations,
    wal,
)


def run(script, *arguments, **options):
    """Run a script in a Python of its own."""
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **options,
    )


def add_decision(store, name):
    with store.cursor() as cursor:
        cursor.execute(
            "INSERT INTO decisions "
            "VALUES (?, 'r', TIMESTAMP '2026-01-01', 'accept', '{}', '[]', '{}')",
            [name],
        ).fetchall()


def decisions(store):
    return [row[0] for row in store.sql("SELECT decision_id FROM decisions ORDER BY 1").fetchall()]


def one_line(error):
    text = str(error.value)
    assert "\n" not in text
    assert text.strip() == text
    return text


# -- making and opening ---------------------------------------------------------------------------


def test_a_new_store_has_its_tables_and_says_its_version(tmp_path):
    with connect(tmp_path / "a.duckdb") as store:
        assert store.sql("SELECT version FROM schema_info").fetchall() == [(1,)]
        assert store.sql("SELECT count(*) FROM episodes").fetchall() == [(0,)]
        assert store.sql("SELECT count(*) FROM final_states").fetchall() == [(0,)]
    assert [path.name for path in tmp_path.iterdir()] == ["a.duckdb"]


def test_the_file_is_of_the_storage_version_that_older_duckdbs_read(tmp_path):
    connect(tmp_path / "a.duckdb").close()
    with duckdb.connect() as con:
        con.execute(f"ATTACH '{tmp_path / 'a.duckdb'}' AS a (READ_ONLY)").fetchall()
        rows = con.execute(
            "SELECT tags FROM duckdb_databases() WHERE database_name = 'a'"
        ).fetchall()
    assert rows == [({"storage_version": "v1.5.0+"},)]


def test_what_was_written_is_there_when_opened_again(tmp_path):
    with connect(tmp_path / "a.duckdb") as store:
        add_decision(store, "kept")
    with connect(tmp_path / "a.duckdb", read_only=True) as store:
        assert store.read_only
        assert decisions(store) == ["kept"]


def test_a_store_in_memory():
    with connect(":memory:") as store:
        assert store.path is None
        add_decision(store, "a")
        with connect(":memory:") as other:
            assert decisions(other) == []
        assert decisions(store) == ["a"]


def test_a_store_in_memory_cannot_be_read_only():
    with pytest.raises(StoreError, match="begins empty"):
        connect(":memory:", read_only=True)


@pytest.mark.parametrize(
    "name",
    [
        "with space.duckdb",
        "it's.duckdb",
        'say "hi".duckdb',
        "üñ 猫.duckdb",
        "temp.duckdb",
        "main.duckdb",
        "system.duckdb",
        "memory",
        "episodes.duckdb",
        "a.b.c.duckdb",
        "sqlite:x.db",
        "100%[1]*.duckdb",
        ".hidden",
        "select",
        "line\nbreak.duckdb",
        "; drop table episodes; --.duckdb",
        "a" * 200 + ".duckdb",
    ],
)
def test_names(tmp_path, name):
    target = tmp_path / "it's a folder" / name
    target.parent.mkdir()
    with connect(target) as store:
        add_decision(store, "a")
        assert decisions(store) == ["a"]
    with connect(str(target), read_only=True) as store:
        assert decisions(store) == ["a"]
        assert store.path == target
    assert [path.name for path in target.parent.iterdir()] == [name]


def test_a_relative_name_stays_the_same_file_when_the_process_moves(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with connect("a.duckdb") as store:
        monkeypatch.chdir("/")
        assert store.path == tmp_path / "a.duckdb"


def test_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    with connect("~/a.duckdb") as store:
        assert store.path == tmp_path / "a.duckdb"


def test_two_names_of_one_file_have_one_log(tmp_path):
    folder, link = tmp_path / "real", tmp_path / "link"
    folder.mkdir()
    link.symlink_to(folder)
    connect(folder / "a.duckdb").close()
    (tmp_path / "alias").symlink_to(folder / "a.duckdb")
    script = """
        import os, sys
        from envbench.store import connect
        store = connect(sys.argv[1])
        store.cursor().execute(
            "INSERT INTO decisions VALUES ('a', 'r', now()::TIMESTAMP, 'accept', '{}', '[]', '{}')"
        ).fetchall()
        os._exit(0)
    """
    assert run(script, tmp_path / "alias").returncode == 0
    with connect(link / "a.duckdb") as store:
        assert decisions(store) == ["a"]
        assert store.path == folder / "a.duckdb"


def test_an_empty_file_becomes_a_store(tmp_path):
    (tmp_path / "empty").touch()
    with connect(tmp_path / "empty") as store:
        assert decisions(store) == []
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]


def test_an_empty_file_is_no_store_to_read(tmp_path):
    (tmp_path / "empty").touch()
    with pytest.raises(StoreMissing):
        connect(tmp_path / "empty", read_only=True)
    assert (tmp_path / "empty").stat().st_size == 0


def test_an_empty_database_becomes_a_store(tmp_path):
    duckdb.connect(tmp_path / "a.duckdb").close()
    with connect(tmp_path / "a.duckdb") as store:
        add_decision(store, "a")
    with connect(tmp_path / "a.duckdb", read_only=True) as store:
        assert decisions(store) == ["a"]


def test_an_empty_database_of_a_format_without_zstd_is_refused(tmp_path):
    with duckdb.connect() as con:
        con.execute(f"ATTACH '{tmp_path / 'a.duckdb'}' AS a (STORAGE_VERSION 'v1.0.0')").fetchall()
    with pytest.raises(NotAStore, match="older format") as error:
        connect(tmp_path / "a.duckdb")
    one_line(error)


def test_one_process_may_open_a_store_twice(tmp_path):
    with connect(tmp_path / "a.duckdb") as one, connect(tmp_path / "a.duckdb") as two:
        add_decision(one, "a")
        assert decisions(two) == ["a"]
        one.close()
        add_decision(two, "b")
        assert decisions(two) == ["a", "b"]


def test_opening_from_many_threads_at_once(tmp_path):
    stores, errors = [], []

    def work():
        try:
            stores.append(connect(tmp_path / "a.duckdb"))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    for store in stores:
        add_decision(store, str(id(store)))
    assert len(decisions(stores[0])) == 8
    for store in stores:
        store.close()
    assert [path.name for path in tmp_path.iterdir()] == ["a.duckdb"]


def test_processes_that_make_one_store_at_once(tmp_path):
    """One wins; the others open it or are told who holds it, and nothing else is left behind."""
    script = """
        import sys, time
        from envbench.store import StoreLocked, connect
        while time.time() < float(sys.argv[2]):
            pass
        try:
            connect(sys.argv[1]).close()
            print("opened")
        except StoreLocked:
            print("locked")
    """
    import time

    start = str(time.time() + 2)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "a.duckdb"), start],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    results = [process.communicate(timeout=60) for process in processes]
    assert [err for _, err in results] == [""] * 4
    said = [out.strip() for out, _ in results]
    assert set(said) <= {"opened", "locked"}
    assert "opened" in said
    assert [path.name for path in tmp_path.iterdir()] == ["a.duckdb"]
    with connect(tmp_path / "a.duckdb") as store:
        assert store.sql("SELECT version FROM schema_info").fetchall() == [(1,)]


@pytest.mark.slow
def test_a_process_killed_while_it_makes_a_store(tmp_path):
    script = """
        import sys
        from envbench.store import connect
        print("go", flush=True)
        connect(sys.argv[1])
        sys.stdin.read()
    """
    for moment in range(15):
        target = tmp_path / f"{moment}.duckdb"
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(script), str(target)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        process.stdout.readline()
        try:
            process.wait(timeout=moment * 0.01)
        except subprocess.TimeoutExpired:
            process.kill()
        process.communicate()
        with connect(target) as store:
            add_decision(store, "a")
        with connect(target, read_only=True) as store:
            assert decisions(store) == ["a"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        f"{moment}.duckdb" for moment in range(15)
    )


def test_the_leftovers_of_a_killed_maker_are_removed_and_others_kept(tmp_path):
    dead = run("import os; print(os.getpid())").stdout.strip()
    (tmp_path / f".envbench-{dead}-abc.creating").write_bytes(b"half")
    (tmp_path / f".envbench-{os.getppid()}-abc.creating").write_bytes(b"being made")
    connect(tmp_path / "a.duckdb").close()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f".envbench-{os.getppid()}-abc.creating",
        "a.duckdb",
    ]


def test_the_log_of_a_deleted_store_is_not_replayed_into_a_new_one(tmp_path):
    make_with_log(tmp_path / "a.duckdb", 2)
    (tmp_path / "a.duckdb").unlink()
    log = (tmp_path / "a.duckdb.wal").read_bytes()
    with (
        pytest.warns(StoreWarning, match="store that is gone"),
        connect(tmp_path / "a.duckdb") as store,
    ):
        assert decisions(store) == []
    (kept,) = tmp_path.glob("a.duckdb.wal.damaged-*")
    assert kept.read_bytes() == log


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("read_only", [False, True])
def test_a_deleted_file_that_is_open_here_is_not_given_out_again(tmp_path, replaced, read_only):
    """DuckDB gives a path's open database out again, also when its file is gone."""
    path = tmp_path / "a.duckdb"
    connect(path).close()
    store = connect(path, read_only=read_only)
    path.unlink()
    if replaced:
        connect(tmp_path / "b.duckdb").close()
        (tmp_path / "b.duckdb").rename(path)
    before = sorted(tmp_path.iterdir())
    for again in (False, True):
        with pytest.raises(StoreError, match="was deleted or replaced while a store") as error:
            connect(path, read_only=again)
        assert "close that store first, with its .close()" in one_line(error)
    assert sorted(tmp_path.iterdir()) == before
    if read_only:
        store.close()
    else:
        with pytest.warns(StoreWarning, match="was deleted or replaced"):
            store.close()
    with connect(path) as fresh:
        add_decision(fresh, "kept")
    with connect(path) as fresh:
        assert decisions(fresh) == ["kept"]


def test_a_replaced_file_that_is_open_here_is_not_read_as_untrusted_either(tmp_path):
    path = tmp_path / "a.duckdb"
    store = connect(path)
    connect(tmp_path / "b.duckdb").close()
    (tmp_path / "b.duckdb").replace(path)
    with pytest.raises(StoreError, match=r"close that store first, with its \.close"):
        connect(path, trusted=False)
    with pytest.warns(StoreWarning, match="was deleted or replaced"):
        store.close()


# -- refusals -------------------------------------------------------------------------------------


def test_missing(tmp_path):
    with pytest.raises(StoreMissing, match="there is no store at") as error:
        connect(tmp_path / "a.duckdb", read_only=True)
    one_line(error)
    assert list(tmp_path.iterdir()) == []


def test_missing_folder(tmp_path):
    with pytest.raises(StoreMissing, match=r"folder .*/b does not exist") as error:
        connect(tmp_path / "b" / "a.duckdb")
    one_line(error)


def test_a_file_in_place_of_the_folder(tmp_path):
    (tmp_path / "b").write_text("x")
    with pytest.raises(StoreMissing):
        connect(tmp_path / "b" / "a.duckdb")


@pytest.mark.parametrize("read_only", [False, True])
def test_a_directory(tmp_path, read_only):
    with pytest.raises(StoreError, match="not supported yet") as error:
        connect(tmp_path, read_only=read_only)
    assert "envbench.duckdb" in one_line(error)


def test_a_directory_that_is_not_there(tmp_path):
    with pytest.raises(StoreError, match="is a directory"):
        connect(f"{tmp_path}/new/")


@pytest.mark.parametrize(
    "target", ["ducklake:postgres:x", "s3://bucket/a.duckdb", "https://a/b.duckdb", "md:mine"]
)
def test_places_that_are_not_files(target):
    with pytest.raises(StoreError, match="not supported yet"):
        connect(target)


@pytest.mark.parametrize("target", ["", "  ", "a\0b", "a?b.duckdb", "\udcff.duckdb"])
def test_names_that_no_store_can_have(tmp_path, monkeypatch, target):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError) as error:
        connect(target)
    one_line(error)
    assert list(tmp_path.iterdir()) == []


def test_a_jsonl_file_is_not_a_store(tmp_path):
    with pytest.raises(StoreError, match="JSON lines"):
        connect(tmp_path / "a.jsonl")


@pytest.mark.parametrize("target", [None, 3, b"a.duckdb", True])
def test_targets_of_another_type(target):
    with pytest.raises(TypeError, match="target must be a path"):
        connect(target)


@pytest.mark.parametrize("content", [b"hello", b"x" * 100_000, b"\0" * 20_000])
@pytest.mark.parametrize("read_only", [False, True])
def test_not_a_database(tmp_path, content, read_only):
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(NotAStore, match="is not a DuckDB database") as error:
        connect(tmp_path / "a.txt", read_only=read_only)
    one_line(error)
    assert (tmp_path / "a.txt").read_bytes() == content


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize(
    ("name", "content"),
    [("a.json", b'{"a": 1}'), ("a.csv", b"a,b\n1,2\n"), ("a.parquet", b"PAR1"), ("a", b"x")],
)
def test_a_file_that_duckdb_would_open_in_memory_is_refused(tmp_path, name, content, read_only):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(NotAStore, match="is not a DuckDB database"):
        connect(tmp_path / name, read_only=read_only)
    with pytest.raises(NotAStore, match="is not a DuckDB database"):
        connect(tmp_path / name, trusted=False)
    assert (tmp_path / name).read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_sqlite_database(tmp_path):
    with sqlite3.connect(tmp_path / "a.db") as other:
        other.execute("CREATE TABLE t (a)")
    other.close()
    with pytest.raises(NotAStore, match="is not a DuckDB database"):
        connect(tmp_path / "a.db")


def test_a_database_of_other_tables_is_left_alone(tmp_path):
    with duckdb.connect(tmp_path / "a.duckdb") as other:
        other.execute("CREATE TABLE sales (a INTEGER)").fetchall()
    for read_only in (False, True):
        with pytest.raises(NotAStore, match="it has the tables sales") as error:
            connect(tmp_path / "a.duckdb", read_only=read_only)
        one_line(error)
    with duckdb.connect(tmp_path / "a.duckdb") as other:
        assert other.execute("SELECT table_name FROM duckdb_tables()").fetchall() == [("sales",)]


def test_an_empty_database_is_no_store_to_read(tmp_path):
    duckdb.connect(tmp_path / "a.duckdb").close()
    with pytest.raises(NotAStore, match="it is empty"):
        connect(tmp_path / "a.duckdb", read_only=True)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE schema_info (other INTEGER)",
        "CREATE TABLE schema_info (version VARCHAR); INSERT INTO schema_info VALUES ('one')",
        "CREATE TABLE schema_info (version INTEGER)",
        "CREATE TABLE schema_info (version INTEGER); INSERT INTO schema_info VALUES (1), (1)",
        "CREATE TABLE schema_info (version INTEGER); INSERT INTO schema_info VALUES (NULL)",
        "CREATE TABLE schema_info (version INTEGER); INSERT INTO schema_info VALUES (-1)",
        "CREATE TABLE schema_info (version INTEGER); INSERT INTO schema_info VALUES (1)",
    ],
)
def test_a_schema_info_that_is_not_ours(tmp_path, statement):
    with duckdb.connect(tmp_path / "a.duckdb") as other:
        other.execute(statement).fetchall()
    with pytest.raises((NotAStore, StoreDamaged)) as error:
        connect(tmp_path / "a.duckdb")
    one_line(error)


def test_a_lost_table_is_named(tmp_path):
    with connect(tmp_path / "a.duckdb") as store, store.cursor() as cursor:
        cursor.execute("DROP TABLE findings").fetchall()
    with pytest.raises(StoreDamaged, match="lost a table: findings"):
        connect(tmp_path / "a.duckdb")


def test_a_newer_schema(tmp_path):
    with connect(tmp_path / "a.duckdb") as store, store.cursor() as cursor:
        cursor.execute("UPDATE schema_info SET version = 7, created_by = 'envbench 9'").fetchall()
    before = (tmp_path / "a.duckdb").read_bytes()
    for read_only in (False, True):
        with pytest.raises(StoreTooNew, match="schema version 7, made by envbench 9") as error:
            connect(tmp_path / "a.duckdb", read_only=read_only)
        assert "upgrade envbench" in one_line(error)
    assert (tmp_path / "a.duckdb").read_bytes() == before


def test_a_damaged_main_file(tmp_path):
    with connect(tmp_path / "a.duckdb") as store:
        add_decision(store, "a")
    damaged = bytearray((tmp_path / "a.duckdb").read_bytes())
    damaged[100] ^= 255
    (tmp_path / "a.duckdb").write_bytes(damaged)
    with pytest.raises(StoreDamaged, match="is damaged") as error:
        connect(tmp_path / "a.duckdb")
    one_line(error)
    assert (tmp_path / "a.duckdb").read_bytes() == damaged


needs_other_user = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.name == "nt", reason="needs POSIX users"
)


@needs_other_user
@pytest.mark.parametrize("what", ["file", "folder"])
def test_no_permission(tmp_path, what):
    """Root may write anything, so the script gives its rights up first."""
    folder = tmp_path / "f"
    folder.mkdir()
    connect(folder / "a.duckdb").close()
    (folder / "a.duckdb").chmod(0o444)
    folder.chmod(0o555)
    for parent in (tmp_path, *tmp_path.parents):
        if parent.stat().st_uid == os.geteuid() and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o055)
    script = """
        import os, sys
        from envbench.store import StoreError, connect
        connect(":memory:").close()  # imports all it needs while it may
        if os.geteuid() == 0:
            os.setuid(65534)
        try:
            connect(sys.argv[1])
        except StoreError as error:
            print(error)
        if os.path.exists(sys.argv[1]):
            with connect(sys.argv[1], read_only=True) as store:
                print(store.sql("SELECT count(*) FROM episodes").fetchall())
    """
    target = folder / ("a.duckdb" if what == "file" else "new.duckdb")
    result = run(script, target)
    folder.chmod(0o755)
    assert result.stderr == ""
    first, *rest = result.stdout.splitlines()
    assert first.startswith(f"no permission to open {target}")
    assert rest == (["[(0,)]"] if what == "file" else [])


def test_a_full_disk_while_making_a_store(tmp_path):
    script = """
        import resource, signal, sys
        from envbench.store import StoreError, connect
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        try:
            connect(sys.argv[1])
        except StoreError as error:
            print(type(error).__name__, error)
    """
    result = run(script, tmp_path / "a.duckdb")
    assert result.stderr == ""
    assert result.stdout.startswith(f"StoreError could not write {tmp_path / 'a.duckdb'}: file too")
    assert list(tmp_path.iterdir()) == []


# -- locks and processes --------------------------------------------------------------------------

HOLD = """
    import sys
    from envbench.store import connect
    store = connect(sys.argv[1], read_only=sys.argv[2] == "read")
    print("held", flush=True)
    sys.stdin.read()
"""


class Holder:
    """A process that has a store open."""

    def __init__(self, path, mode):
        self.process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(HOLD), str(path), mode],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout.readline() == "held\n"

    def __enter__(self):
        return self.process

    def __exit__(self, *_):
        self.process.communicate("")


@pytest.mark.parametrize("read_only", [False, True])
def test_a_locked_store_names_its_holder_and_the_way_on(tmp_path, read_only):
    path = tmp_path / "a.duckdb"
    connect(path).close()
    with Holder(path, "write") as holder, pytest.raises(StoreLocked) as error:
        connect(path, read_only=read_only)
    text = one_line(error)
    assert f"{path} is open in process {holder.pid} ({sys.executable} -c import sys" in text
    assert "close it there" in text
    connect(path).close()


def test_readers_share_and_a_writer_waits(tmp_path):
    path = tmp_path / "a.duckdb"
    connect(path).close()
    with Holder(path, "read") as holder:
        with connect(path, read_only=True) as store:
            assert decisions(store) == []
        with pytest.raises(StoreLocked, match=f"process {holder.pid} "):
            connect(path)


def test_the_other_mode_in_one_process(tmp_path):
    with connect(tmp_path / "a.duckdb"), pytest.raises(StoreLocked, match="other mode") as error:
        connect(tmp_path / "a.duckdb", read_only=True)
    one_line(error)
    connect(tmp_path / "a.duckdb", read_only=True).close()


def test_opening_again_does_not_release_the_lock(tmp_path):
    """POSIX drops a process's locks on a file when any handle of it is closed."""
    path = tmp_path / "a.duckdb"
    with connect(path):
        connect(path).close()
        with pytest.raises(StoreLocked):
            connect(path, read_only=True)
        script = """
            import sys
            from envbench.store import StoreLocked, connect
            try:
                connect(sys.argv[1])
            except StoreLocked as error:
                print("locked")
        """
        assert run(script, path).stdout == "locked\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_neither_uses_nor_harms_its_parents_store(tmp_path):
    script = """
        import os, sys
        from envbench.store import StoreClosed, StoreLocked, connect

        store = connect(sys.argv[1])
        insert = (
            "INSERT INTO decisions "
            "VALUES (?, 'r', now()::TIMESTAMP, 'accept', '{}', '[]', '{}')"
        )
        store.cursor().execute(insert, ["before"]).fetchall()
        child = os.fork()
        if not child:
            try:
                store.cursor()
            except StoreClosed as error:
                print(f"cursor: {error}")
            try:
                connect(sys.argv[1])
            except StoreLocked as error:
                print(f"connect: {error}")
            store.close()
            del store
            sys.exit(0)
        os.waitpid(child, 0)
        print("wal", os.path.exists(sys.argv[1] + ".wal"), flush=True)
        store.cursor().execute(insert, ["after"]).fetchall()
        os._exit(0)
    """
    result = run(script, tmp_path / "a.duckdb")
    assert result.stderr == ""
    said = result.stdout.splitlines()
    assert sorted(line.split()[0] for line in said) == ["connect:", "cursor:", "wal"]
    assert "wal True" in said
    with connect(tmp_path / "a.duckdb") as store:
        assert decisions(store) == ["after", "before"]


def test_a_spawned_process_opens_what_its_parent_closed(tmp_path):
    connect(tmp_path / "a.duckdb").close()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_count, (tmp_path / "a.duckdb",)) == 0


def _count(path):
    with connect(path) as store:
        return len(decisions(store))


# -- migration ------------------------------------------------------------------------------------


@pytest.fixture
def version_3(monkeypatch):
    monkeypatch.setattr(migrations, "SCHEMA_VERSION", 3)
    steps = {
        1: "ALTER TABLE decisions ADD COLUMN judge VARCHAR; UPDATE decisions SET judge = 'x'",
        2: lambda connection: connection.execute(
            "UPDATE decisions SET judge = judge || 'y'"
        ).fetchall(),
    }
    monkeypatch.setattr(migrations, "MIGRATIONS", steps)
    return steps


def make_version_1(path):
    with connect(path) as store:
        add_decision(store, "old")


def test_an_older_store_is_migrated_after_a_copy_is_kept(tmp_path, request):
    path = tmp_path / "a.duckdb"
    make_version_1(path)
    (tmp_path / "a.duckdb.v1.bak").write_text("an older copy, not to be lost")
    before = path.read_bytes()
    request.getfixturevalue("version_3")
    with pytest.warns(StoreWarning, match="from schema version 1 to 3"):
        store = connect(path)
    with store:
        assert store.sql("SELECT version FROM schema_info").fetchall() == [(3,)]
        assert store.sql("SELECT decision_id, judge FROM decisions").fetchall() == [("old", "xy")]
    assert (tmp_path / "a.duckdb.v1.bak").read_text() == "an older copy, not to be lost"
    assert (tmp_path / "a.duckdb.v1-1.bak").read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "a.duckdb",
        "a.duckdb.v1-1.bak",
        "a.duckdb.v1.bak",
    ]
    with connect(path, read_only=True) as store:
        assert store.sql("SELECT version FROM schema_info").fetchall() == [(3,)]


def test_the_copy_holds_what_was_only_in_the_log(tmp_path, request):
    path = tmp_path / "a.duckdb"
    make_with_log(path, 3)
    request.getfixturevalue("version_3")
    with pytest.warns(StoreWarning), connect(path) as store:
        assert decisions(store) == ["0", "1", "2"]
    with duckdb.connect(tmp_path / "a.duckdb.v1.bak", read_only=True) as copy:
        assert copy.execute("SELECT count(*) FROM decisions").fetchall() == [(3,)]


def test_an_older_store_opened_read_only_says_to_open_it_once(tmp_path, request):
    make_version_1(tmp_path / "a.duckdb")
    request.getfixturevalue("version_3")
    with pytest.raises(StoreTooOld, match="open it once without read_only") as error:
        connect(tmp_path / "a.duckdb", read_only=True)
    one_line(error)
    assert [p.name for p in tmp_path.iterdir()] == ["a.duckdb"]


@pytest.mark.parametrize("step", ["UPDATE nothing SET x = 1", None])
def test_a_migration_that_fails_leaves_the_store_as_it_was(tmp_path, version_3, step, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "SCHEMA_VERSION", 1)
        make_version_1(tmp_path / "a.duckdb")
    if step is None:
        del version_3[2]
    else:
        version_3[2] = step
    with pytest.raises(StoreError, match="migrat") as error:
        connect(tmp_path / "a.duckdb")
    one_line(error)
    with duckdb.connect(tmp_path / "a.duckdb", read_only=True) as store:
        assert store.execute("SELECT version FROM schema_info").fetchall() == [(1,)]
        columns = store.execute("FROM decisions").description
        assert "judge" not in [column[0] for column in columns]
    assert (tmp_path / "a.duckdb.v1.bak").exists()


# -- logs that cannot be replayed -----------------------------------------------------------------


def make_with_log(path, n):
    """A store whose last `n` decisions, "0" and on, are only in its log."""
    script = """
        import os, sys
        from envbench.store import connect
        store = connect(sys.argv[1])
        for i in range(int(sys.argv[2])):
            store.cursor().execute(
                "INSERT INTO decisions "
                "VALUES (?, 'r', TIMESTAMP '2026-01-01', 'accept', '{}', '[]', ?)",
                [str(i), '"' + "x" * 500 + '"'],
            ).fetchall()
        os._exit(0)
    """
    assert run(script, path, n).returncode == 0


def commit_ends(log):
    ends, at = [], log.find(wal.COMMIT)
    while at >= 0:
        ends.append(at + len(wal.COMMIT))
        at = log.find(wal.COMMIT, at + 1)
    return ends


@pytest.fixture(scope="module")
def logged(tmp_path_factory):
    """The bytes of a store with one decision, and of a log with five more."""
    path = tmp_path_factory.mktemp("logged") / "a.duckdb"
    with connect(path) as store:
        add_decision(store, "main")
    make_with_log(path, 5)
    log = path.with_name("a.duckdb.wal").read_bytes()
    assert len(commit_ends(log)) == 5, "the commit entry of this DuckDB is another one"
    return path.read_bytes(), log


def lay(tmp_path, main, log):
    (tmp_path / "a.duckdb").write_bytes(main)
    (tmp_path / "a.duckdb.wal").write_bytes(log)
    return tmp_path / "a.duckdb"


def damaged_logs(tmp_path):
    return sorted(tmp_path.glob("a.duckdb.wal.damaged-*"))


def test_a_whole_log_is_replayed_without_a_word(tmp_path, logged):
    with connect(lay(tmp_path, *logged)) as store:
        assert decisions(store) == ["0", "1", "2", "3", "4", "main"]
        limit = store.sql("SELECT current_setting('wal_autocheckpoint')").fetchall()
        assert limit == [("16.0 MiB",)]
    assert damaged_logs(tmp_path) == []


def test_a_log_cut_anywhere_gives_every_whole_transaction(tmp_path, logged):
    """What a crash or a full disk leaves: nothing that had been acknowledged is missing."""
    main, log = logged
    ends = commit_ends(log)
    cuts = {0, 1, 20, 59, 60, len(log) - 1, *ends, *(end - 1 for end in ends)}
    cuts |= set(range(0, len(log), len(log) // 40))
    for cut in sorted(cuts):
        path = lay(tmp_path, main, log[:cut])
        with connect(path) as store:
            whole = sum(end <= cut for end in ends)
            assert decisions(store) == [*map(str, range(whole)), "main"], cut
    assert damaged_logs(tmp_path) == []


def test_a_flipped_byte_costs_no_transaction_before_it(tmp_path, logged):
    """A header, a length, a checksum, a row: whichever byte it is, and the log is kept."""
    main, log = logged
    ends = commit_ends(log)
    heads = [end for start in ends[:-1] for end in range(start, start + 16)]
    places = sorted({*range(60), *heads, *range(60, len(log), len(log) // 60)})
    for place in places:
        for old in tmp_path.iterdir():
            old.unlink()
        damaged = bytearray(log)
        damaged[place] ^= 0xFF
        path = lay(tmp_path, main, damaged)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with connect(path) as store:
                found = decisions(store)
                assert store.sql("SELECT count(*) FROM episodes").fetchall() == [(0,)]
                add_decision(store, "later")
        before = sum(end <= place for end in ends)
        assert found[-1] == "main"
        assert found[:before] == [str(i) for i in range(before)], place
        if len(found) < 6:
            assert len(caught) == 1, place
            (warning,) = caught
            assert warning.category is StoreWarning
            assert "could not be replayed: the store holds 0 episodes" in str(warning.message)
            (kept,) = damaged_logs(tmp_path)
            assert kept.read_bytes() == damaged
            assert str(kept) in str(warning.message)
        with connect(path) as store:
            assert decisions(store) == sorted([*found, "later"])


def test_zeroed_pages(tmp_path, logged):
    main, log = logged
    ends = commit_ends(log)
    for start in range(0, len(log), len(log) // 15):
        for old in tmp_path.iterdir():
            old.unlink()
        damaged = bytearray(log)
        damaged[start : start + 512] = bytes(min(512, len(log) - start))
        path = lay(tmp_path, main, damaged)
        with pytest.warns(StoreWarning):
            store = connect(path)
        with store:
            before = sum(end <= start for end in ends)
            assert decisions(store)[:before] == [str(i) for i in range(before)]
            assert decisions(store)[-1] == "main"
        (kept,) = damaged_logs(tmp_path)
        assert kept.read_bytes() == damaged


@pytest.mark.parametrize("junk", [b"x" * 1000, os.urandom(1000), b"\xff" * 100])
def test_a_log_of_something_else(tmp_path, logged, junk):
    path = lay(tmp_path, logged[0], junk)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with connect(path) as store:
            assert decisions(store) == ["main"]
    for warning in caught:
        assert warning.category is StoreWarning
    for kept in damaged_logs(tmp_path):
        assert kept.read_bytes() == junk


def test_the_log_of_another_store_is_set_aside(tmp_path, logged):
    other = tmp_path / "other"
    other.mkdir()
    make_with_log(other / "a.duckdb", 2)
    log = (other / "a.duckdb.wal").read_bytes()
    path = lay(tmp_path, logged[0], log)
    with pytest.warns(StoreWarning), connect(path) as store:
        assert decisions(store) == ["main"]
    (kept,) = damaged_logs(tmp_path)
    assert kept.read_bytes() == log


def test_a_damaged_log_read_only_changes_nothing(tmp_path, logged):
    main, log = logged
    damaged = bytearray(log)
    damaged[len(log) // 2] ^= 0xFF
    path = lay(tmp_path, main, damaged)
    with pytest.raises(StoreDamaged, match="open the store once without read_only") as error:
        connect(path, read_only=True)
    one_line(error)
    assert (tmp_path / "a.duckdb.wal").read_bytes() == damaged
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.duckdb", "a.duckdb.wal"]


def test_transactions_left_out_silently_are_told_of_read_only_too(tmp_path, logged):
    main, log = logged
    damaged = bytearray(log)
    damaged[commit_ends(log)[1] + 6] = 0x7F  # the length of the entry after the second commit
    path = lay(tmp_path, main, damaged)
    with (
        pytest.warns(StoreWarning, match="3 committed transactions"),
        connect(path, read_only=True) as store,
    ):
        assert decisions(store) == ["0", "1", "main"]
    assert (tmp_path / "a.duckdb.wal").read_bytes() == damaged
    assert damaged_logs(tmp_path) == []


def test_two_damaged_logs_within_one_second_are_both_kept(tmp_path, logged):
    main, log = logged
    for _ in range(3):
        damaged = bytearray(log)
        damaged[-100] ^= 0xFF
        path = lay(tmp_path, main, damaged)
        with pytest.warns(StoreWarning):
            connect(path).close()
    assert len(damaged_logs(tmp_path)) == 3


def test_a_damaged_log_under_another_writer_is_left_to_it(tmp_path, logged):
    path = lay(tmp_path, *logged)
    with Holder(path, "write"), pytest.raises(StoreLocked):
        connect(path)
    assert damaged_logs(tmp_path) == []
    shutil.rmtree(tmp_path)
