"""Opening a store: making, migrating, and saying clearly why not.

The connection is DuckDB's own, on the file itself, so that stores opened twice in one process share
it. Settings keep DuckDB off the network and off the caller's variables.
"""

from __future__ import annotations

import os
import re
import threading
import time
import uuid
import warnings
import weakref
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

import duckdb

import envbench
from envbench.store import migrations, wal
from envbench.store.errors import (
    NotAStore,
    StoreDamaged,
    StoreError,
    StoreLocked,
    StoreMissing,
    StoreTooNew,
    StoreTooOld,
    StoreWarning,
)
from envbench.store.files import exclusive, publish
from envbench.store.messages import explain, one_line

MEMORY = ":memory:"

Target = str | os.PathLike[str]

_OPENING = threading.Lock()
_OPEN: weakref.WeakSet[Connection] = weakref.WeakSet()


@dataclass(slots=True, weakref_slot=True, eq=False)
class Connection:
    """An open store file.

    Attributes:
        duckdb: the connection to take cursors from.
        path: the file, absolute and with links followed; None in memory.
        read_only: whether writing is refused.
        process: id of the process that opened it.
        trusted: whether the file's own definitions are used.
        place: device and number of the file when it was opened; None in memory.
    """

    duckdb: duckdb.DuckDBPyConnection
    path: Path | None
    read_only: bool
    process: int
    trusted: bool = True
    place: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        self.place = _place(self.path)
        _OPEN.add(self)

    @property
    def is_displaced(self) -> bool:
        """Whether the file was deleted or replaced since: DuckDB goes on writing to the old one."""
        return self.place != _place(self.path)

    def close(self) -> None:
        """Close it and every cursor of it; in a forked process, only let go of it."""
        _OPEN.discard(self)
        if self.process == os.getpid():
            self.duckdb.close()


def _place(path: Path | None) -> tuple[int, int] | None:
    try:
        found = path.stat() if path else None
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if found else None


def open_store(target: Target, *, read_only: bool = False) -> Connection:
    """Open a store, making it when it does not exist.

    Args:
        target: path of the file, or ``:memory:``.
        read_only: never write; other readers may have the file open at the same time.

    Raises:
        StoreError: one of its subclasses, with one line on what is wrong and what to do.
        TypeError: when the target is not a path.
    """
    path = resolve(target)
    with _OPENING:
        if path is None:
            return _open_memory(read_only=read_only)
        return _open_file(path, read_only=read_only)


def resolve(target: Target) -> Path | None:
    """The absolute path of a target, links followed; None for ``:memory:``.

    Links are followed because DuckDB keeps the log beside the name that a file was opened under:
    two names of one store would have a log each.

    Raises:
        StoreError: when no store can be there.
        TypeError: when the target is not a path.
    """
    if not isinstance(target, (str, os.PathLike)):
        raise TypeError(f"a store's target must be a path, not {type(target).__name__}")
    name = os.fspath(target)
    if not isinstance(name, str):
        raise TypeError("a store's target must be a path of text, not of bytes")
    if name == MEMORY:
        return None
    if not name.strip():
        raise StoreError("a store's target must not be blank: name a file, such as envbench.duckdb")
    if isinstance(target, str) and _ELSEWHERE.match(name):
        raise StoreError(f"{name!r} is not a file: stores on other systems are not supported yet")
    if name.endswith(".jsonl"):
        raise StoreError(
            f"{name!r} is a file of JSON lines, not a store: envbench.observe writes those"
        )
    try:
        name.encode()
    except UnicodeEncodeError:
        raise StoreError(f"{name!r} is not valid UTF-8, which DuckDB needs: rename it") from None
    if "\0" in name:
        raise StoreError(f"{name!r} has a null character in it: no file can be named so")
    path = Path(os.path.realpath(Path(name).expanduser() if name.startswith("~") else name))
    if "?" in str(path):
        raise StoreError(
            f"{str(path)!r} has a question mark in it, which DuckDB takes for its own: rename it"
        )
    if path.is_dir() or name.endswith(("/", os.sep)):
        raise StoreError(
            f"{name!r} is a directory: stores of many files are not supported yet. "
            f"Name a file, such as {str(path / 'envbench.duckdb')!r}"
        )
    return path


def schema_sql() -> str:
    """The statements that make the tables."""
    return _read("schema.sql")


def views_sql() -> str:
    """The statements that make the views."""
    return _read("views.sql")


def install(connection: duckdb.DuckDBPyConnection) -> None:
    """Make tables, views and comments in an empty database, in one transaction."""
    connection.execute("BEGIN").fetchall()
    try:
        for statements in (schema_sql(), views_sql(), _read("comments.sql")):
            connection.execute(statements).fetchall()
        connection.execute(
            "INSERT INTO schema_info VALUES (?, ?::TIMESTAMP, ?)",
            [
                migrations.SCHEMA_VERSION,
                time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime()),
                f"envbench {envbench.__version__}",
            ],
        ).fetchall()
        connection.execute("COMMIT").fetchall()
    except BaseException:
        with suppress(duckdb.Error):
            connection.execute("ROLLBACK").fetchall()
        raise


def settings(**more: str) -> dict[str, str | bool | int | float | list[str]]:
    """Settings of every database opened here; one process must open a file with the same ones."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        # nothing is fetched from the network
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        # a misspelled table must not become a variable of ours
        "python_enable_replacements": "false",
        # enough for queries, and a training job keeps its cores
        "threads": str(min(8, cores or 1)),
        **more,
    }


# -- in memory, and a file ------------------------------------------------------------------------


def _open_memory(*, read_only: bool) -> Connection:
    if read_only:
        raise StoreError("a store in memory begins empty: it cannot be opened read-only")
    connection = duckdb.connect(MEMORY, config=settings())
    install(connection)
    return Connection(connection, None, read_only=False, process=os.getpid())


def _open_file(path: Path, *, read_only: bool) -> Connection:
    _refuse_fork(path)
    _refuse_displaced(path)
    if not _has_content(path):
        if read_only:
            raise StoreMissing(
                f"there is no store at {path}: open it without read_only to make one"
            )
        _create(path)
    connection = _connect(path, read_only=read_only)
    try:
        version = _version(connection, path, read_only=read_only)
        if version == migrations.SCHEMA_VERSION:
            return Connection(connection, path, read_only, os.getpid())
        _refuse_version(connection, path, version, read_only=read_only)
        connection.execute("CHECKPOINT").fetchall()
        connection.close()
        kept = migrations.keep_copy(path, version)
        connection = _connect(path, read_only=False)
        migrations.migrate(connection, _version(connection, path, read_only=False))
    except duckdb.Error as error:
        connection.close()
        raise explain(error, path) from error
    except BaseException:
        connection.close()
        raise
    warnings.warn(
        f"{path} was brought from schema version {version} to {migrations.SCHEMA_VERSION}; "
        f"the store as it was is kept as {kept}",
        StoreWarning,
        stacklevel=_CALLER,
    )
    return Connection(connection, path, read_only, os.getpid())


def _has_content(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise explain(error, path) from error


# -- making one -----------------------------------------------------------------------------------


def _create(path: Path) -> None:
    """Make a store under another name and give it its own, so that a half-made one is never seen.

    When another process was faster, its store is the one.
    """
    if not path.parent.is_dir():
        raise StoreMissing(f"the folder {path.parent} does not exist: make it first")
    _sweep(path.parent)
    part = path.with_name(f".envbench-{os.getpid()}-{uuid.uuid4().hex[:12]}.creating")
    try:
        _write_empty_store(part)
        if path.exists():  # an empty file, such as tempfile makes
            with exclusive(path):
                if path.stat().st_size == 0:
                    part.replace(path)
        else:
            _set_orphan_log_aside(path)
            with suppress(FileExistsError):
                publish(part, path)
    except (duckdb.Error, OSError) as error:
        raise explain(error, path) from error
    finally:
        for leftover in (part, wal.wal_path(part)):
            leftover.unlink(missing_ok=True)


def _write_empty_store(part: Path) -> None:
    maker = duckdb.connect(MEMORY, config=settings())
    try:
        name = str(part).replace("'", "''")
        maker.execute(f"ATTACH '{name}' AS made (STORAGE_VERSION 'v1.5.0')").fetchall()
        maker.execute("USE made").fetchall()
        install(maker)
        maker.execute("CHECKPOINT made").fetchall()
    finally:
        maker.close()


def _set_orphan_log_aside(path: Path) -> None:
    """A log whose store was deleted must not be replayed into a new one."""
    log = wal.wal_path(path)
    if log.exists() and not path.exists():
        kept = wal.set_aside(log)
        warnings.warn(
            f"beside {path} lay the log of a store that is gone; it is kept as {kept}",
            StoreWarning,
            stacklevel=_CALLER,
        )


def _sweep(folder: Path) -> None:
    """Remove what processes that were killed while making a store left behind."""
    for leftover in folder.glob(".envbench-*.creating*"):
        found = re.match(r"\.envbench-(\d+)-", leftover.name)
        if found and not _is_alive(int(found.group(1))):
            with suppress(OSError):
                leftover.unlink()


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


# -- connecting, and a log that cannot be replayed -------------------------------------------------


def require_database(path: Path) -> None:
    """Refuse a file that is not DuckDB's own.

    DuckDB opens a file named `.json`, `.csv` or `.parquet` as a view in memory: what is written
    there is lost without a word. A file that is open here was looked at then; opening it once more
    would release its lock.

    Raises:
        NotAStore: when the file does not have DuckDB's mark.
        StoreError: when it cannot be read, or was replaced under a store that is open here.
    """
    _refuse_displaced(path)
    if _is_open_here(path):
        return
    try:
        with path.open("rb") as file:
            mark = file.read(12)[8:]
    except OSError as error:
        raise explain(error, path) from error
    if mark != b"DUCK":
        raise NotAStore(f"{path} is not a DuckDB database: name another file")


def _connect(path: Path, *, read_only: bool) -> duckdb.DuckDBPyConnection:
    """Connect, cutting the log back as often as it is refused."""
    require_database(path)
    kept: list[Path] = []
    for attempt in range(_MOST_CUTS):
        logs = _logs(path)
        before = [_stamp(log) for log in logs]
        shared = _is_open_here(path)
        lost = 0 if shared else sum(wal.commits_past_damage(log) for log in logs)
        try:
            connection = duckdb.connect(str(path), read_only=read_only, config=_opening_settings())
        except (duckdb.Error, RuntimeError, OSError) as error:
            if not _REPLAY.search(str(error)):
                raise explain(error, path) from error
            if read_only:
                raise StoreDamaged(
                    f"the log {logs[0]} cannot be replayed ({one_line(error)}): open the store "
                    f"once without read_only, which keeps the log and reads what it can"
                ) from error
            with exclusive(path):
                if [_stamp(log) for log in logs] == before:
                    kept += _cut(logs, error, all_of_it=attempt == _MOST_CUTS - 2)
            continue
        if not shared:
            if not read_only and _ignored(connection, logs[0], before[0]):
                lost = wal.commits(logs[0])
            if lost and not read_only:
                kept += [wal.set_aside(log, copy=True) for log in logs if log.exists()]
            if not read_only:
                # held back until here, so that the log could still be looked at
                connection.execute("SET GLOBAL wal_autocheckpoint = '16MiB'").fetchall()
            _warn_of_damage(connection, path, kept, lost)
        return connection
    raise StoreDamaged(f"{path} cannot be opened; its logs were kept as {kept}")


def _logs(path: Path) -> list[Path]:
    log = wal.wal_path(path)
    return [log, *(log.with_name(log.name + end) for end in (".checkpoint", ".recovery"))]


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_size, stat.st_mtime_ns


def _ignored(
    connection: duckdb.DuckDBPyConnection, log: Path, before: tuple[int, int] | None
) -> bool:
    """Whether DuckDB left a log where it is and took nothing from it."""
    ((size,),) = connection.execute(
        "SELECT wal_size FROM pragma_database_size() WHERE database_name = current_database()"
    ).fetchall()
    return size == "0 bytes" and before is not None and _stamp(log) == before


def _cut(logs: list[Path], error: BaseException, *, all_of_it: bool) -> list[Path]:
    if all_of_it:
        return [wal.set_aside(log) for log in logs if log.exists()]
    named = _REPLAY.search(str(error))
    bad = [log for log in logs if named and str(log) == named.group(1)] or logs[:1]
    return [wal.cut_back(log, str(error)) for log in bad if log.exists()]


def _warn_of_damage(
    connection: duckdb.DuckDBPyConnection, path: Path, kept: list[Path], lost: int
) -> None:
    if not kept and not lost:
        return
    try:
        (row,) = connection.execute("SELECT count(*) FROM episodes").fetchall()
        holds = f"{row[0]} episode{'' if row[0] == 1 else 's'}"
    except duckdb.Error:
        holds = "nothing readable"
    log = ", ".join(map(str, kept)) or f"{wal.wal_path(path)}"
    what = f"{lost} committed transactions in it" if lost else "some of it"
    warnings.warn(
        f"the log of {path} is damaged and {what} could not be replayed: the store holds {holds}; "
        f"the log as it was is kept as {log}",
        StoreWarning,
        stacklevel=_CALLER + 1,
    )


def _opening_settings() -> dict[str, str | bool | int | float | list[str]]:
    return settings(wal_autocheckpoint="1TB")


# -- what the file holds --------------------------------------------------------------------------


def _version(connection: duckdb.DuckDBPyConnection, path: Path, *, read_only: bool) -> int:
    """The schema version of an open file; tables are made in one that has none."""
    tables = _tables(connection)
    if not tables and not read_only:
        install(connection)
        connection.execute("CHECKPOINT").fetchall()
        return migrations.SCHEMA_VERSION
    if "schema_info" not in tables:
        names = ", ".join(sorted(tables)[:5]) + (", …" if len(tables) > 5 else "")
        raise NotAStore(
            f"{path} is a DuckDB database but not an envbench store "
            f"({f'it has the tables {names}' if tables else 'it is empty'}): name another file"
        )
    try:
        rows = connection.execute("SELECT version FROM schema_info").fetchall()
    except duckdb.BinderException as error:
        raise NotAStore(
            f"{path} has a table schema_info that is not ours: name another file"
        ) from error
    if len(rows) != 1 or not isinstance(rows[0][0], int) or rows[0][0] < 1:
        raise StoreDamaged(f"{path} does not say which schema version it has: see its schema_info")
    version: int = rows[0][0]
    if version == migrations.SCHEMA_VERSION:
        missing = sorted(_our_tables() - tables)
        if missing:
            raise StoreDamaged(f"{path} has lost a table: {', '.join(missing)}")
    return version


def _tables(connection: duckdb.DuckDBPyConnection) -> set[str]:
    query = (
        "SELECT table_name FROM system.main.duckdb_tables() "
        "WHERE database_name = current_database() AND schema_name = 'main' AND NOT temporary"
    )
    return {name for (name,) in connection.execute(query).fetchall()}


@cache
def _our_tables() -> frozenset[str]:
    return frozenset(re.findall(r"^CREATE TABLE (\w+)", schema_sql(), re.MULTILINE))


def _refuse_version(
    connection: duckdb.DuckDBPyConnection, path: Path, version: int, *, read_only: bool
) -> None:
    current = migrations.SCHEMA_VERSION
    if version > current:
        (row,) = connection.execute("SELECT created_by FROM schema_info").fetchall()
        raise StoreTooNew(
            f"{path} has schema version {version}, made by {row[0]}; this envbench "
            f"({envbench.__version__}) knows versions up to {current}: upgrade envbench"
        )
    if read_only:
        raise StoreTooOld(
            f"{path} has schema version {version} and this envbench reads {current}: open it once "
            f"without read_only, which keeps a copy and migrates it"
        )


# -- processes ------------------------------------------------------------------------------------


def _is_open_here(path: Path) -> bool:
    return any(other.path == path for other in _OPEN)


def _refuse_fork(path: Path) -> None:
    # the parent's database is in this process's memory, without its threads and its lock
    for other in _OPEN:
        if other.path == path and other.process != os.getpid():
            raise StoreLocked(
                f"{path} is open in process {other.process}, which this one was forked from: "
                f"close it before forking, or record here into a file of its own and merge them"
            )


def _refuse_displaced(path: Path) -> None:
    # a database that is open here is given out again by its path, whatever lies there by now
    for other in _OPEN:
        if other.path == path and other.is_displaced:
            raise StoreError(
                f"{path} was deleted or replaced while a store on it is open in this process: "
                f"close that store first, with its .close(), and then connect again"
            )


def _after_fork() -> None:
    # A child that drops its copy of a connection would write a checkpoint into the parent's file.
    # One reference more, and it is never dropped.
    import ctypes

    global _OPENING
    _OPENING = threading.Lock()
    for connection in list(_OPEN):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection.duckdb))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


_ELSEWHERE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|(ducklake|md|motherduck|quack|postgres):")
_REPLAY = re.compile(r"replaying (?:checkpoint )?WAL file \"(.+?)\"")
_MOST_CUTS = 4
_CALLER = 5


@cache
def _read(name: str) -> str:
    return resources.files("envbench.store").joinpath(name).read_text(encoding="utf-8")
