"""Merging: what other stores hold, copied into one, all or nothing."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from envbench.store.connection import Target, require_database, resolve
from envbench.store.errors import StoreError, StoreMissing
from envbench.store.messages import explain
from envbench.store.untrusted import our_columns, require_our_tables
from envbench.store.writing import roll_back

if TYPE_CHECKING:
    from envbench.store.store import Store


@dataclass(frozen=True, slots=True)
class Merged:
    """What a merge did.

    Attributes:
        episodes: episodes copied.
        skipped: episodes that were there already.
        unsealed: episodes left out because their recording has not ended.
        rows: rows copied by table, tables without any left out.
    """

    episodes: int
    skipped: int
    unsealed: int
    rows: dict[str, int]

    def __str__(self) -> str:
        noun = "episode" if self.episodes == 1 else "episodes"
        parts = [f"{self.episodes} {noun} copied", f"{self.skipped} there already"]
        if self.unsealed:
            parts.append(f"{self.unsealed} left out, still being recorded")
        return ", ".join(parts)


def merge(store: Store, paths: Target | Iterable[Target]) -> Merged:
    """Copy what other stores hold into this one, in one transaction.

    Episodes come with all their rows. One that is there already with the same digest is skipped; so
    is a report. The other stores are read as untrusted files: nothing that they define is run.

    Args:
        store: where to copy to.
        paths: one store's file, or several.

    Raises:
        StoreError: when a file is no store of this schema version, is open elsewhere, or is this
            very store; and when an episode, case, environment, task or report has here the same
            identity and another content. Nothing is copied then.
    """
    if store.read_only:
        raise StoreError(f"{store.path} was opened read-only: connect to it for writing")
    targets = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    files = [_input(store, target) for target in targets]
    store._settle()
    total = _Total()
    with store.cursor() as cursor:
        attached: dict[str, Path] = {}
        try:
            for path in dict.fromkeys(files):
                attached[_attach(cursor, path)] = path
            _copy_all(cursor, attached, total, store.path)
        finally:
            for name in attached:
                cursor.execute(f"DETACH {name}").fetchall()
    return Merged(
        total.rows.get("episodes", 0),
        total.skipped,
        total.unsealed,
        {table: count for table, count in total.rows.items() if count},
    )


# Rows that belong to one episode or one report, copied with it.
_OF_EPISODE = ("steps", "states", "state_changes", "audit_events", "frames", "blobs")
_OF_REPORT = ("check_results", "findings")

# Rows that several episodes share, by their key. A run may be recorded into several files, each
# with its own start: the first one stays. The others are equal wherever their keys are.
_SHARED = {
    "cases": ("case_id", "case_digest"),
    "environments": ("environment_key",),
    "tasks": ("dataset_hash", "task_index"),
    "decisions": ("decision_id",),
}


@dataclass(slots=True)
class _Total:
    rows: dict[str, int]
    skipped: int
    unsealed: int

    def __init__(self) -> None:
        self.rows, self.skipped, self.unsealed = {}, 0, 0


def _input(store: Store, target: Target) -> Path:
    path = resolve(target)
    if path is None:
        raise StoreError("a store in memory cannot be merged: save it to a file first")
    if not path.exists():
        raise StoreMissing(f"there is no store at {path}")
    if store.path is not None and path.samefile(store.path):
        raise StoreError(f"{path} cannot be merged into itself: name other stores")
    return path


def _attach(cursor: duckdb.DuckDBPyConnection, path: Path) -> str:
    require_database(path)
    name = f"merged_{uuid.uuid4().hex}"
    quoted = str(path).replace("'", "''")
    try:
        cursor.execute(f"ATTACH '{quoted}' AS {name} (READ_ONLY)").fetchall()
    except (duckdb.Error, RuntimeError) as error:
        raise explain(error, path) from error
    try:
        require_our_tables(cursor, name, str(path))
    except BaseException:
        cursor.execute(f"DETACH {name}").fetchall()
        raise
    return name


def _copy_all(
    cursor: duckdb.DuckDBPyConnection, attached: dict[str, Path], total: _Total, target: Path | None
) -> None:
    cursor.execute("BEGIN TRANSACTION").fetchall()
    try:
        for name, path in attached.items():
            _refuse_conflicts(cursor, name, path, target)
            _copy(cursor, name, total)
        cursor.execute("COMMIT").fetchall()
    except duckdb.Error as error:
        roll_back(cursor)
        raise explain(error, target) from error
    except BaseException:
        roll_back(cursor)
        raise


def _refuse_conflicts(
    cursor: duckdb.DuckDBPyConnection, name: str, path: Path, target: Path | None
) -> None:
    for table, key in (("episodes", "episode_id"), ("reports", "report_id")):
        kind = table[:-1]
        twice = cursor.execute(
            f"SELECT {key} FROM {name}.main.{table} GROUP BY ALL HAVING count(*) > 1 LIMIT 1"
        ).fetchall()
        if twice:
            raise StoreError(f"{path} has {kind} {twice[0][0]} more than once: nothing was merged")
        other = cursor.execute(
            f"SELECT {key}, theirs.digest, ours.digest "
            f"FROM {name}.main.{table} AS theirs JOIN {table} AS ours USING ({key}) "
            f"WHERE theirs.digest <> ours.digest LIMIT 1"
        ).fetchall()
        if other:
            identity, theirs, ours = other[0]
            raise StoreError(
                f"{kind} {identity} has digest {theirs} in {path} and {ours} in {target}, so one "
                f"of the two was altered: nothing was merged"
            )
    being_written = cursor.execute(
        f"SELECT episode_id FROM {name}.main.episodes "
        f"SEMI JOIN open_episodes USING (episode_id) LIMIT 1"
    ).fetchall()
    if being_written:
        raise StoreError(
            f"episode {being_written[0][0]} of {path} is still being recorded in {target}: "
            f"nothing was merged"
        )
    for table, keys in _SHARED.items():
        same = " AND ".join(f"theirs.{key} = ours.{key}" for key in keys)
        differing = " OR ".join(
            f'theirs."{column}" IS DISTINCT FROM ours."{column}"' for column in our_columns()[table]
        )
        found = cursor.execute(
            f"SELECT theirs.{keys[0]} FROM {name}.main.{table} AS theirs "
            f"JOIN {table} AS ours ON {same} WHERE {differing} LIMIT 1"
        ).fetchall()
        if found:
            raise StoreError(
                f"{path} and {target} have different content for {keys[0]} {found[0][0]!r} in "
                f"{table}, so one of the two was altered: nothing was merged"
            )


def _copy(cursor: duckdb.DuckDBPyConnection, name: str, total: _Total) -> None:
    """Copy from one attached store; rows that others refer to by identity come last."""
    counts = cursor.execute(
        f"SELECT "
        f"(SELECT count(*) FROM {name}.main.episodes SEMI JOIN episodes USING (episode_id)), "
        f"(SELECT count(*) FROM {name}.main.open_episodes)"
    ).fetchall()
    total.skipped += counts[0][0]
    total.unsealed += counts[0][1]
    for table, keys in {"runs": ("run_id",), **_SHARED}.items():
        same = " AND ".join(f"ours.{key} = theirs.{key}" for key in keys)
        new = f"NOT EXISTS (FROM {table} AS ours WHERE {same})"
        first = f"QUALIFY row_number() OVER (PARTITION BY {', '.join(keys)}) = 1"
        _insert(cursor, name, table, f"WHERE {new} {first}", total)
    for whole, key, parts in (
        ("episodes", "episode_id", _OF_EPISODE),
        ("reports", "report_id", _OF_REPORT),
    ):
        new = (
            f"WHERE {key} IN (SELECT {key} FROM {name}.main.{whole} "
            f"WHERE {key} NOT IN (SELECT {key} FROM {whole}))"
        )
        for table in (*parts, whole):
            _insert(cursor, name, table, new, total)


def _insert(
    cursor: duckdb.DuckDBPyConnection, name: str, table: str, which: str, total: _Total
) -> None:
    columns = ", ".join(f'"{column}"' for column in our_columns()[table])
    ((count,),) = cursor.execute(
        f"INSERT INTO {table} ({columns}) SELECT {columns} FROM {name}.main.{table} AS theirs "
        f"{which}"
    ).fetchall()
    total.rows[table] = total.rows.get(table, 0) + count
