"""Adoption: what an interrupted process left behind becomes episodes, when a store is opened.

Spill files are taken in first. Then every episode with a header in `open_episodes` and no seal is
sealed as ``interrupted``, from the steps that were committed. What was not seen stays unknown: such
an episode has no final state.

Nothing here keeps a store from being opened. What cannot be taken in stays where it is, or is kept
under another name, and a warning says so.
"""

from __future__ import annotations

import os
import threading
import warnings
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from envbench.evidence.digest import Chain, shown
from envbench.evidence.portable import Json, canonical, parse
from envbench.evidence.record import StepColumns, reward_json
from envbench.store.changes import derive_from_store
from envbench.store.errors import StoreError, StoreWarning
from envbench.store.messages import explain, one_line
from envbench.store.reading import audit_json, read_blocks, read_frame_hashes
from envbench.store.spill import SpillFile, read_spill, set_aside, spill_files, spill_folder
from envbench.store.writing import EpisodePart, Seal, microseconds, write_parts

if TYPE_CHECKING:
    from envbench.store.store import Store

OPEN_HERE: set[str] = set()
"""Episodes that this process is still recording; they are nobody's to adopt."""


def adopt(store: Store) -> int:
    """Take in spill files and seal what was interrupted.

    Returns:
        The number of episodes that became readable.

    Raises:
        StoreError: when DuckDB gave up on the store.
    """
    adoption = _Adoption(store)
    with _ADOPTING:
        try:
            adoption.take_in_spills()
            adoption.seal_interrupted()
        except duckdb.FatalException as error:
            raise explain(error, store.path) from error
    for message in adoption.warnings:
        warnings.warn(message, StoreWarning, stacklevel=3)
    return adoption.taken


@dataclass(slots=True)
class _Adoption:
    """One pass over what was left behind.

    Attributes:
        store: the store, open for writing.
        taken: episodes that became readable.
        left: episodes to be left as they are, because more of them may come.
        refused: why an episode could not be taken in now, one sentence for each.
        warnings: what the user is to be told, when all is done.
    """

    store: Store
    taken: int = 0
    left: set[str] = field(default_factory=set)
    refused: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def take_in_spills(self) -> None:
        """Write what the spill files hold into the store, and remove them."""
        path = self.store.path
        if path is None:
            return
        try:
            episodes = spill_files(path)
        except OSError as error:
            self.warnings.append(f"{spill_folder(path)} cannot be looked at: {error}")
            return
        for episode_id, files in episodes.items():
            if episode_id in OPEN_HERE or _may_go_on(files):
                self.left.add(episode_id)
                continue
            try:
                self._take_in(episode_id, files)
            except (OSError, StoreError, duckdb.Error) as error:
                if isinstance(error, duckdb.FatalException):
                    raise
                self.left.add(episode_id)
                self.refused.append(f"episode {episode_id}: {one_line(error)}")
        if self.refused:
            self.warnings.append(
                f"{len(self.refused)} episodes could not be taken in from {spill_folder(path)} and"
                f" are left there; {self.refused[0]}"
            )
        _remove_if_empty(spill_folder(path))

    def seal_interrupted(self) -> None:
        """Seal what has a header and no seal."""
        query = "SELECT episode_id, header FROM open_episodes"
        for episode_id, header in _rows(self.store, query):
            if episode_id in OPEN_HERE or episode_id in self.left:
                continue
            try:
                seal = _seal_interrupted(self.store, episode_id, parse(header))
                part = EpisodePart(episode_id, 1, StepColumns(), was_open=True, seal=seal)
                with self.store.cursor() as cursor:
                    write_parts(cursor, [part])
            except duckdb.FatalException:
                raise
            except Exception as error:  # one damaged episode is not to keep the others away
                self.warnings.append(
                    f"{self.store.path}: the interrupted episode {episode_id} could not be sealed"
                    f" and is left as it is: {type(error).__name__}: {one_line(error)}"
                )
            else:
                self.taken += 1

    def _take_in(self, episode_id: str, files: list[SpillFile]) -> None:
        """Write the parts of one episode that the store does not have yet."""
        parts: list[EpisodePart] = []
        for file in files:
            try:
                parts.append(read_spill(file.path))
            except ValueError as error:
                self._keep(files[len(parts) :], episode_id, str(error))
                files = files[: len(parts)]
                break
        known = _rows(
            self.store, "SELECT digest, n_steps FROM episodes WHERE episode_id = ?", [episode_id]
        )
        if known:
            self._compare(episode_id, files, parts, *known[0])
            return
        if all(map(_is_marker, parts)):
            for file in files:
                file.path.unlink(missing_ok=True)
            return
        last, fitting = self._fitting(episode_id, parts)
        reason = "" if len(fitting) == len(parts) else f"the part after step {last} is missing"
        begun = self._has_header(episode_id) or any(part.opening or part.seal for part in fitting)
        if not begun:
            reason, fitting = "its first part is missing", []
        if fitting:
            with self.store.cursor() as cursor:
                write_parts(cursor, self._missing(episode_id, fitting))
            self.taken += fitting[-1].seal is not None
        for file in files[: len(fitting)]:
            file.path.unlink(missing_ok=True)
        self._keep(files[len(fitting) :], episode_id, reason)

    def _fitting(self, episode_id: str, parts: list[EpisodePart]) -> tuple[int, list[EpisodePart]]:
        """The parts that follow one another without a gap, and the step that they reach."""
        last = self._last_step(episode_id)
        fitting: list[EpisodePart] = []
        for part in parts:
            if len(part.columns):
                if part.first_step > last + 1:
                    break
                last = max(last, part.first_step + len(part.columns) - 1)
            if part.seal is not None and _steps_of(part.seal) not in (None, last):
                break
            fitting.append(part)
        return last, fitting

    def _missing(self, episode_id: str, parts: list[EpisodePart]) -> list[EpisodePart]:
        """What of the parts the store does not hold.

        A crash may have come between the commit of some and the removal of their files.
        """
        of_episode = [episode_id]
        last = self._last_step(episode_id)
        states = self._column("SELECT state_hash FROM states WHERE episode_id = ?", of_episode)
        arrays = self._column("SELECT blob_hash FROM blobs WHERE episode_id = ?", of_episode)
        events = self._column(
            "SELECT event_index FROM audit_events WHERE episode_id = ?", of_episode
        )
        frames = self._column("SELECT step_index FROM frames WHERE episode_id = ?", of_episode)
        header = self._has_header(episode_id)
        missing = []
        for part in parts:
            missing.append(
                replace(
                    part,
                    columns=part.columns if part.first_step > last else StepColumns(),
                    states=[each for each in part.states if each[0] not in states],
                    arrays={key: body for key, body in part.arrays.items() if key not in arrays},
                    audit=[each for each in part.audit if each[0] not in events],
                    frames=[each for each in part.frames if each.step_index not in frames],
                    opening=None if header else part.opening,
                )
            )
            last = max(last, part.first_step + len(part.columns) - 1)
            states |= {digest for digest, _, _ in part.states}
            arrays |= set(part.arrays)
            events |= {index for index, _ in part.audit}
            frames |= {each.step_index for each in part.frames}
            header = header or part.opening is not None
        return missing

    def _compare(
        self,
        episode_id: str,
        files: list[SpillFile],
        parts: list[EpisodePart],
        digest: str,
        n_steps: int,
    ) -> None:
        """Remove the files of an episode that the store holds already, if it holds all of it."""
        reach = max((part.first_step + len(part.columns) - 1 for part in parts), default=0)
        seals = {part.seal.digest for part in parts if part.seal is not None}
        if seals <= {digest} and reach <= n_steps:
            for file in files:
                file.path.unlink(missing_ok=True)
        else:
            self._keep(files, episode_id, "the store has the episode with another end")

    def _keep(self, files: list[SpillFile], episode_id: str, reason: str) -> None:
        if files:
            kept = [set_aside(file.path) for file in files]
            names = ", ".join(map(str, kept))
            self.warnings.append(f"not all of episode {episode_id} is taken in: {reason}; {names}")

    def _last_step(self, episode_id: str) -> int:
        query = "SELECT coalesce(max(step_index), 0) FROM steps WHERE episode_id = ?"
        return int(_rows(self.store, query, [episode_id])[0][0])

    def _has_header(self, episode_id: str) -> bool:
        query = "SELECT 1 FROM open_episodes WHERE episode_id = ?"
        return bool(_rows(self.store, query, [episode_id]))

    def _column(self, query: str, parameters: list[Any]) -> set[Any]:
        return {row[0] for row in _rows(self.store, query, parameters)}


_ADOPTING = threading.RLock()


def _after_fork() -> None:
    global _ADOPTING
    _ADOPTING = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _rows(store: Store, query: str, parameters: list[Any] | None = None) -> list[tuple[Any, ...]]:
    with store.cursor() as cursor:
        return list(cursor.execute(query, parameters or []).fetchall())


def _may_go_on(files: list[SpillFile]) -> bool:
    """Whether an unsealed episode belongs to a process that may be writing it."""
    return not any(file.sealed for file in files) and files[-1].may_go_on


def _is_marker(part: EpisodePart) -> bool:
    """Whether a part only says that its episode goes on elsewhere."""
    held = (part.states, part.arrays, part.audit, part.frames, part.opening, part.seal)
    return not len(part.columns) and not any(held)


def _steps_of(seal: Seal) -> int | None:
    """How many rows of steps a sealed episode has; None when it kept none."""
    if parse(seal.head["capture_steps"]) is not True:
        return None
    steps: int = parse(seal.head["totals"])["steps"]
    return steps


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:  # it is not there, or holds what is not ours to remove
        return


def _seal_interrupted(store: Store, episode_id: str, header: Json) -> Seal:
    initial_state = header.pop("initial_state")
    audited, cleanup = header.pop("audited"), header.pop("cleanup")
    errors: list[Json] = header.pop("errors")
    frame_kind = header.pop("frames", None)
    head = {key: canonical(value) for key, value in header.items()}
    chain = Chain(head, initial_state)
    total: float | None = 0.0
    flags = {"terminated": False, "truncated": False}
    ended_at = microseconds(header["recorded_at"])
    for block in read_blocks(store, episode_id):
        first = chain.n_steps + 1
        chain.update(block)
        for index, text in enumerate(block.error, first):
            if text is not None:
                errors += _errors_of(parse(text), index)
        rewards = [r for r, info in zip(block.reward, block.info, strict=True) if info is not None]
        total = None if total is None or None in rewards else reduce(add, rewards, total)
        last = len(block) - 1
        seen = block.info[last] is not None
        flags = {
            "terminated": seen and block.terminated[last] is True,
            "truncated": seen and block.truncated[last] is True,
        }
        ended_at = int((block.started_at[last] or ended_at) + (block.step_us[last] or 0))
    issues = [
        "interrupted: the process ended before the episode did; what it had committed is kept"
    ]
    if header["capture_steps"] is not True:
        total = None  # the steps were not kept, so nobody knows their sum
        issues.append("interrupted: steps were not kept, so how many there were is not known")
    if header["observer_id"] is not None:
        with store.cursor() as cursor:
            boundary = initial_state, None
            history = derive_from_store(cursor, episode_id, boundary, header["row_keys"])
        head["row_keys"] = canonical(history.row_keys)
        issues += history.keys.issues
    head |= {
        "audit": audit_json(store, episode_id) if audited else b"null",
        "cleanup": canonical(cleanup),
        "duration_ms": canonical((ended_at - microseconds(header["recorded_at"])) / 1000),
        "ending": canonical("interrupted"),
        "errors": canonical(errors),
        "issues": canonical(issues),
        "output": b"null",
        "termination": canonical(flags),
        "totals": b'{"reward":%b,"steps":%d}' % (reward_json(total), chain.n_steps),
    }
    if frame_kind is not None:
        frames = read_frame_hashes(store, episode_id, chain.n_steps)
        head["frames"] = shown(frame_kind, frames)
    digest, trajectory = chain.seal(head, None)
    return Seal(head, initial_state, None, None, digest, trajectory)


_ENDED_EARLY = (
    "interrupted: the process ended before the episode did; what it had committed is kept"
)


def _errors_of(error: Json, step: int) -> list[Json]:
    more = error.pop("more", [])
    return [{**each, "step": step} for each in (error, *more)]
