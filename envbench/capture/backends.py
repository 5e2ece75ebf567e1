"""Backends: where a sink keeps encoded episodes, and where it puts them when that fails."""

from __future__ import annotations

import warnings
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from envbench.capture.jsonl import JsonLines
from envbench.evidence.portable import parse
from envbench.evidence.record import StepColumns
from envbench.store import Store
from envbench.store.adoption import OPEN_HERE
from envbench.store.errors import StoreError, StoreWarning
from envbench.store.spill import SpillFile, read_spill, spill_files, spill_folder, write_spill
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
    """Keeps episodes as JSON lines.

    Opening it takes in what could not be written before, once.
    """

    by_line = True

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path
        self._lines = JsonLines(path)
        spilled = {
            episode_id: files
            for episode_id, files in spill_files(path).items()
            if episode_id not in OPEN_HERE and (files[-1].sealed or not files[-1].may_go_on)
        }
        ended = _ended(path) if spilled else set()
        for episode_id, files in spilled.items():
            self._take_in(files, known=episode_id in ended)
        with suppress(OSError):  # it is not there, or holds what is left
            spill_folder(path).rmdir()

    def write(self, parts: list[EpisodePart]) -> None:
        """Append a line for each step and each end of an episode."""
        self._lines.append(parts)

    def spill(self, part: EpisodePart) -> Path:
        """Write a part to a file beside the lines."""
        return write_spill(self._path, part)

    def close(self) -> None:
        """Close the file."""
        self._lines.close()

    def _take_in(self, files: list[SpillFile], *, known: bool) -> None:
        try:
            parts = [read_spill(file.path) for file in files]
            if not known:
                self._lines.append([_joined(parts)])
        except (OSError, ValueError, KeyError) as error:
            message = f"a spill file of {self.name} could not be taken in and is left: {error}"
            warnings.warn(message, StoreWarning, stacklevel=2)
            return
        for file in files:
            file.path.unlink(missing_ok=True)


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


def _joined(parts: list[EpisodePart]) -> EpisodePart:
    """Consecutive parts of an episode as one; the lines of the last need what the first knew.

    Raises:
        ValueError: when one between them is missing.
    """
    first, last = parts[0], parts[-1]
    columns = StepColumns()
    arrays: dict[str, bytes] = {}
    for part in parts:
        if len(part.columns) and part.first_step != first.first_step + len(columns):
            raise ValueError(f"steps of episode {first.episode_id} are missing")
        columns.extend(part.columns)
        arrays |= part.arrays
    return EpisodePart(
        episode_id=first.episode_id,
        first_step=first.first_step,
        columns=columns,
        arrays=arrays,
        opening=first.opening,
        seal=last.seal,
    )


def _ended(path: Path) -> set[str]:
    """The episodes whose end is in a file of JSON lines."""
    found = set()
    with path.open("rb") as lines:
        for line in lines:
            if b'"rl.episode"' in line:
                with suppress(ValueError):
                    found.add(parse(line)["episode_id"])
    return found


def _identity(path: Path | None) -> tuple[int, int] | None:
    """Which file is at a path now; None when there is none."""
    if path is None:
        return None
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino
