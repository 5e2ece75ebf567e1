"""File operations under which two processes never overwrite each other's work."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from envbench.store.errors import StoreLocked

try:
    import fcntl
except ImportError:  # Windows, where an open file cannot be written by another process anyway
    fcntl = None  # type: ignore[assignment]


def publish(part: Path, target: Path) -> None:
    """Give a finished file its name, and never replace another file.

    Raises:
        FileExistsError: when the name is taken.
        OSError: when it cannot be given.
    """
    try:
        os.link(part, target)
    except FileExistsError:
        raise
    except (PermissionError, OSError):
        # a file system without hard links: the best there is
        if target.exists():
            raise FileExistsError(target) from None
        part.rename(target)
    part.unlink(missing_ok=True)
    sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """Make names given in a folder survive a power cut, where the system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def exclusive(path: Path) -> Iterator[BinaryIO]:
    """Hold the lock that DuckDB would take on a file, while DuckDB has it closed.

    Never on a file that DuckDB has open in this process: closing any handle of a file drops the
    locks that the process has on it.

    Raises:
        StoreLocked: when another process has it.
        OSError: when the file cannot be opened for writing.
    """
    with path.open("r+b") as file:
        if fcntl is not None:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise StoreLocked(f"{path} is open in another process: close it there") from error
        yield file
