"""Bringing a store of an older schema up to date.

A migration takes a store from one version to the next. The file is copied first, and all steps run
in one transaction, so that a migration that fails leaves the store as it was.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import duckdb

from envbench.store.errors import StoreError
from envbench.store.files import exclusive, publish
from envbench.store.messages import one_line

SCHEMA_VERSION = 1
"""The version of `schema.sql`."""

Migration = str | Callable[[duckdb.DuckDBPyConnection], None]

MIGRATIONS: dict[int, Migration] = {}
"""By the version it starts from: SQL, or a function of the connection, run inside a transaction."""


def migrate(connection: duckdb.DuckDBPyConnection, version: int) -> None:
    """Take an open store from `version` to the current one, in one transaction.

    Raises:
        StoreError: when a step is missing or fails; the store is then as it was.
    """
    connection.execute("BEGIN").fetchall()
    try:
        for start in range(version, SCHEMA_VERSION):
            if start not in MIGRATIONS:
                raise StoreError(
                    f"no migration from schema version {start} to {start + 1} is known: use the "
                    f"envbench that wrote the store"
                )
            step = MIGRATIONS[start]
            if isinstance(step, str):
                connection.execute(step).fetchall()
            else:
                step(connection)
        connection.execute("UPDATE schema_info SET version = ?", [SCHEMA_VERSION]).fetchall()
        connection.execute("COMMIT").fetchall()
    except BaseException as error:
        with suppress(duckdb.Error):  # a failed commit has rolled back by itself
            connection.execute("ROLLBACK").fetchall()
        if isinstance(error, duckdb.Error):
            raise StoreError(
                f"migrating the store from schema version {version} to {SCHEMA_VERSION} failed and "
                f"was undone: {one_line(error)}"
            ) from error
        raise
    connection.execute("CHECKPOINT").fetchall()


def keep_copy(path: Path, version: int) -> Path:
    """Copy a closed store beside itself, as ``STORE.v1.bak`` or the next free such name.

    Raises:
        StoreLocked: when another process has it open.
        StoreError: when the copy cannot be written.
    """
    for attempt in range(1000):
        suffix = f"-{attempt}" if attempt else ""
        backup = path.with_name(f"{path.name}.v{version}{suffix}.bak")
        part = backup.with_name(backup.name + ".part")
        if backup.exists():
            continue
        try:
            with exclusive(path) as source, part.open("wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
                target.flush()
                os.fsync(target.fileno())
            shutil.copystat(path, part)
            publish(part, backup)
        except FileExistsError:
            continue
        except OSError as error:
            raise StoreError(
                f"could not keep a copy of {path} as {backup} before migrating it: "
                f"{error.strerror}. Nothing was changed: make room, or copy the file elsewhere."
            ) from error
        finally:
            part.unlink(missing_ok=True)
        return backup
    raise StoreError(f"{path.parent} is full of copies like {backup.name}: remove some")
