"""What DuckDB's and the system's messages mean for a user of a store."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb

from envbench.store.errors import (
    NotAStore,
    StoreDamaged,
    StoreError,
    StoreLocked,
    StoreMissing,
    StoreTooNew,
)


def explain(error: BaseException, path: Path | None) -> StoreError:
    """The error of ours that says what one of DuckDB's or the system's means."""
    text = one_line(error)
    for pattern, make in _EXPLANATIONS:
        found = pattern.search(text)
        if found:
            return make(path, found)
    return StoreError(f"DuckDB failed on {path or 'the store in memory'}: {text}")


def one_line(error: BaseException) -> str:
    """The message of an error, without its line breaks."""
    return " ".join(str(error).split())


def _locked(path: Path | None, found: re.Match[str]) -> StoreError:
    holder = found.group("holder")
    process = found.group("process")
    if process:
        holder = f"process {process} ({_command(int(process)) or holder})"
    return StoreLocked(
        f"{path} is open in {holder or 'another process'}: close it there (or end that process), "
        f"read a copy of the file, or record into one file a process and merge them"
    )


def _command(process: int) -> str | None:
    try:
        raw = Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return None
    words = raw.decode(errors="replace").replace("\0", " ").split()
    text = " ".join(words)
    return text if len(text) <= 120 else text[:119] + "…"


def _other_mode(path: Path | None, _: re.Match[str]) -> StoreError:
    return StoreLocked(
        f"{path} is open in this process already, in the other mode (read_only) or not by "
        f"envbench: use that store, or close it first"
    )


def _attached(path: Path | None, _: re.Match[str]) -> StoreError:
    return StoreLocked(f"{path} is open in this process already: use that store, or close it first")


def _denied(path: Path | None, _: re.Match[str]) -> StoreError:
    return StoreError(
        f"no permission to open {path} and write beside it: change its or its folder's mode, or "
        f"open it with read_only=True"
    )


def _no_folder(path: Path | None, _: re.Match[str]) -> StoreError:
    return StoreMissing(f"there is no {path}, or no folder for it: make the folder first")


def _disk_full(path: Path | None, found: re.Match[str]) -> StoreError:
    return StoreError(
        f"could not write {path}: {found.group(0).lower()}. What was committed is safe: make room "
        f"and try again"
    )


def _no_database(path: Path | None, _: re.Match[str]) -> StoreError:
    return NotAStore(f"{path} is not a DuckDB database: name another file")


def _newer_format(path: Path | None, found: re.Match[str]) -> StoreError:
    return StoreTooNew(
        f"{path} was written by a newer DuckDB than this one ({duckdb.__version__}): upgrade duckdb"
    )


def _older_format(path: Path | None, _: re.Match[str]) -> StoreError:
    return NotAStore(
        f"{path} is an empty database of an older format of DuckDB's, in which no store can be "
        f"made: delete it, or name another file"
    )


def _corrupt(path: Path | None, found: re.Match[str]) -> StoreError:
    return StoreDamaged(
        f"{path} is damaged ({found.group(0)}): nothing was changed; restore it from a copy"
    )


def _invalidated(path: Path | None, _: re.Match[str]) -> StoreError:
    return StoreError(
        f"an earlier fault of DuckDB made the open store {path} unusable; what was committed is "
        f"safe: close every store on it and connect again"
    )


def _log(path: Path | None, _: re.Match[str]) -> StoreError:
    return StoreDamaged(
        f"the log of {path} cannot be replayed: open the store once for writing, which keeps the "
        f"log and reads what it can"
    )


_EXPLANATIONS = [
    (
        re.compile(
            r"Could not set lock on file(?:.*?held in (?P<holder>.+?) \(PID (?P<process>\d+)\))?"
        ),
        _locked,
    ),
    (re.compile(r"different configuration than existing"), _other_mode),
    (re.compile(r"already attached by database|Unique file handle conflict"), _attached),
    (re.compile(r"No space left on device|File too large|Disk quota exceeded"), _disk_full),
    (re.compile(r"Permission denied|Read-only file system"), _denied),
    (re.compile(r"not a valid DuckDB database file|sqlite_scanner|Extension \""), _no_database),
    (re.compile(r"database has been invalidated"), _invalidated),
    (re.compile(r"Can't compress using user-provided compression"), _older_format),
    (re.compile(r"newer version of DuckDB|version number .* higher"), _newer_format),
    (re.compile(r"replaying (checkpoint )?WAL file"), _log),
    (re.compile(r"computed checksum .*? does not match stored checksum|Corrupt.*?file"), _corrupt),
    (re.compile(r"No such file or directory|Not a directory|does not exist$"), _no_folder),
]
