"""Backends: where a sink keeps encoded episodes, and where it puts them when that fails."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from envbench.capture.jsonl import JsonLines
from envbench.store import Store
from envbench.store.errors import StoreError
from envbench.store.spill import write_spill
from envbench.store.writing import EpisodePart, Known, write_parts


class Backend(Protocol):
    """Where encoded episodes are kept.

    Attributes:
        name: the target, for messages.
        by_line: whether each part must hold all the arrays that it refers to.
    """

    name: str
    by_line: bool

    def write(self, parts: list[EpisodePart]) -> None:
        """Keep all of them, or none and raise."""

    def spill(self, part: EpisodePart) -> Path:
        """Keep a part that could not be written, in a file of its own."""

    def close(self) -> None:
        """Let go of the target."""


class StoreBackend:
    """Keeps episodes in a store.

    Args:
        store: the store.
        owned: whether it is closed with the sink.
    """

    by_line = False

    def __init__(self, store: Store, *, owned: bool) -> None:
        self.name = str(store.path or ":memory:")
        self._store = store
        self._owned = owned
        self._known: Known = set()
        self._file = _identity(store.path)

    def write(self, parts: list[EpisodePart]) -> None:
        """Write parts in one transaction.

        Raises:
            StoreError: also when the file is gone, in which case DuckDB goes on without an error.
        """
        self._require_file()
        with self._store.cursor() as cursor:
            write_parts(cursor, parts, self._known)
        self._require_file()

    def spill(self, part: EpisodePart) -> Path:
        """Write a part to a file beside the store."""
        if self._store.path is None:
            raise OSError("a store in memory has no place for a spill file")
        return write_spill(self._store.path, part)

    def close(self) -> None:
        """Close the store, if it was opened for the sink."""
        self._store.writer = None
        if self._owned:
            self._store.close()

    def _require_file(self) -> None:
        if self._store.path is None:
            return
        now = _identity(self._store.path)
        if now is None or now != self._file:
            raise StoreError(
                f"{self._store.path} was deleted or replaced while it was being written; until it"
                " is closed, what it held can be copied from the open store with"
                " `for episode in store.episodes(): other.add(episode)`"
            )


class JsonLinesBackend:
    """Keeps episodes as JSON lines."""

    by_line = True

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path
        self._lines = JsonLines(path)

    def write(self, parts: list[EpisodePart]) -> None:
        """Append a line for each step and each end of an episode."""
        self._lines.append(parts)

    def spill(self, part: EpisodePart) -> Path:
        """Write a part to a file beside the lines."""
        return write_spill(self._path, part)

    def close(self) -> None:
        """Close the file."""
        self._lines.close()


class SpillBackend:
    """Keeps every part in a spill file, for the next writable open of a store to take in.

    It serves processes forked from the one that owns the store.

    Args:
        store: path of the store.
    """

    by_line = False

    def __init__(self, store: Path) -> None:
        self.name = str(store)
        self._path = store

    def write(self, parts: list[EpisodePart]) -> None:
        """Write each part to a file of its own."""
        paths: list[Path] = []
        try:
            for part in parts:
                paths.append(self.spill(part))
        except BaseException:
            for path in paths:
                path.unlink(missing_ok=True)
            raise

    def spill(self, part: EpisodePart) -> Path:
        """Write a part to a file of its own."""
        return write_spill(self._path, part)

    def close(self) -> None:
        """Do nothing: no file is open."""


def _identity(path: Path | None) -> tuple[int, int] | None:
    """Which file is at a path now; None when there is none."""
    if path is None:
        return None
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino
