"""The parts of an episode that a stepper shows, read range by range: from its store, or memory.

An episode of a store is never read whole: what a range of steps needs is one query, and its changes
are those that the store has beside the states. Any other is in memory already, and its changes are
derived once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from envbench.changes.history import history_of
from envbench.evidence.episode import EpisodeEvidence
from envbench.evidence.record import STEP_FIELDS, StepColumns
from envbench.store.changes import change_rows
from envbench.store.reading import store_of

if TYPE_CHECKING:
    from envbench.store import Store

ChangeRow = tuple[int, int, str, str, bytes | None, bytes | None, int | None, int | None, Any]
"""`step_index, since, path, op, before, after, restored_at, restored_after, to_initial`."""


@dataclass(frozen=True, slots=True)
class Outline:
    """What is known of every step without reading what it holds; one entry a step.

    Attributes:
        reward: the reward, None without one.
        failed: whether the step has an error.
        unseen: whether no state was seen after it.
        changed: steps at which the state changed, with how many changes each has, in order.
        restored: steps at which a value was there again, in order.
    """

    reward: list[float | None]
    failed: list[bool]
    unseen: list[bool]
    changed: list[tuple[int, int]]
    restored: list[int]


class Reader(Protocol):
    """Reads the parts of one episode; steps count from 1, and a range has its last step in it."""

    def outline(self) -> Outline:
        """What is known of every step."""

    def rows(self, first: int, last: int) -> StepColumns:
        """The steps of a range."""

    def changes(self, first: int, last: int) -> list[ChangeRow]:
        """The changes of a range of steps, in order of steps and paths."""

    def state(self, step: int) -> bytes | None:
        """The state last seen at a step or before it, as canonical JSON; None when none was."""

    def size(self) -> tuple[int, int]:
        """Bytes of all steps and changes together, and of one state: an estimate."""


def reader_of(episode: EpisodeEvidence) -> Reader:
    """The reader of an episode: one that asks its store, where it has one."""
    store = store_of(episode)
    return _FromMemory(episode) if store is None else _FromStore(store, episode)


class _FromMemory:
    """Reads an episode that is in memory."""

    def __init__(self, episode: EpisodeEvidence) -> None:
        self._source = episode._source
        self._columns = StepColumns()
        for block in self._source.steps():
            self._columns.extend(block)
        seen = any(digest is not None for digest in self._columns.state_hash)
        if seen or self._source.initial_state is not None:
            rows = change_rows("", history_of(episode).changes())
        else:
            rows = []
        self._changes: list[ChangeRow] = [
            (step, since, path, op, before, after, *rest)
            for _, step, since, path, op, before, after, *rest in rows
        ]
        self._steps = [row[0] for row in self._changes]

    def outline(self) -> Outline:
        columns = self._columns
        counts: dict[int, int] = {}
        for step in self._steps:
            counts[step] = counts.get(step, 0) + 1
        return Outline(
            columns.reward,
            [error is not None for error in columns.error],
            [digest is None for digest in columns.state_hash],
            sorted(counts.items()),
            sorted({row[6] for row in self._changes if row[6] is not None}),
        )

    def rows(self, first: int, last: int) -> StepColumns:
        found = StepColumns()
        for name in STEP_FIELDS:
            getattr(found, name).extend(getattr(self._columns, name)[first - 1 : last])
        return found

    def changes(self, first: int, last: int) -> list[ChangeRow]:
        return self._changes[bisect_left(self._steps, first) : bisect_right(self._steps, last)]

    def state(self, step: int) -> bytes | None:
        hashes = [self._source.initial_state, *self._columns.state_hash[:step]]
        if step > len(self._columns) and self._source.final_state is not None:
            hashes.append(self._source.final_state)
        digest = next((digest for digest in reversed(hashes) if digest is not None), None)
        return None if digest is None else self._source.state(digest)

    def size(self) -> tuple[int, int]:
        columns = self._columns
        texts = (columns.action, columns.observation, columns.info, columns.error)
        steps = sum(len(text) for column in texts for text in column if text is not None)
        changes = sum(
            len(row[2]) + len(row[4] or b"") + len(row[5] or b"") for row in self._changes
        )
        state = self.state(0) or self.state(len(columns)) or b""
        return steps + changes, len(state)


class _FromStore:
    """Reads an episode of a store, with a query for each part that is asked for."""

    def __init__(self, store: Store, episode: EpisodeEvidence) -> None:
        self._store = store
        self._id = episode.episode_id
        self._source = episode._source

    def outline(self) -> Outline:
        rows = self._fetch(
            "SELECT reward, error IS NOT NULL, state_hash IS NULL FROM steps"
            " WHERE episode_id = ? ORDER BY step_index"
        )
        changed = self._fetch(
            "SELECT step_index, count(*) FROM state_changes WHERE episode_id = ? GROUP BY ALL"
            " ORDER BY ALL"
        )
        restored = self._fetch(
            "SELECT DISTINCT restored_at FROM state_changes WHERE episode_id = ?"
            " AND restored_at IS NOT NULL ORDER BY ALL"
        )
        return Outline(
            [row[0] for row in rows],
            [row[1] for row in rows],
            [row[2] for row in rows],
            [(step, count) for step, count in changed],
            [step for (step,) in restored],
        )

    def rows(self, first: int, last: int) -> StepColumns:
        found = StepColumns()
        query = (
            f"SELECT {_COLUMNS} FROM steps WHERE episode_id = ? AND step_index BETWEEN ? AND ?"
            " ORDER BY step_index"
        )
        for row in self._fetch(query, first, last):
            for name, value in zip(STEP_FIELDS, row, strict=True):
                text = name in ("action", "observation", "info", "error")
                getattr(found, name).append(_bytes(value) if text else value)
        return found

    def changes(self, first: int, last: int) -> list[ChangeRow]:
        query = (
            "SELECT step_index, since, path, op, before, after, restored_at, restored_after,"
            " to_initial FROM state_changes WHERE episode_id = ? AND step_index BETWEEN ? AND ?"
            " ORDER BY step_index, path"
        )
        return [
            (step, since, path, op, _bytes(before), _bytes(after), *rest)
            for step, since, path, op, before, after, *rest in self._fetch(query, first, last)
        ]

    def state(self, step: int) -> bytes | None:
        digest = self._source.final_state if step > self._source.n_steps else None
        if digest is None and step > 0:
            # the step itself is nearly always the one: a range is read quicker than the whole
            for first in (step, 1):
                found = self._fetch(
                    "SELECT max_by(state_hash, step_index) FROM steps WHERE episode_id = ?"
                    " AND step_index BETWEEN ? AND ? AND state_hash IS NOT NULL",
                    first,
                    step,
                )
                digest = found[0][0]
                if digest is not None:
                    break
        digest = digest or self._source.initial_state
        return None if digest is None else self._bodies([digest])[digest]

    def size(self) -> tuple[int, int]:
        steps = self._fetch(
            "SELECT sum(coalesce(length(action), 0) + coalesce(length(observation), 0)"
            " + coalesce(length(info), 0) + coalesce(length(error), 0))"
            " FROM (FROM steps WHERE episode_id = ? ORDER BY step_index LIMIT 2048)"
        )[0][0]
        changes = self._fetch(
            "SELECT sum(length(path) + coalesce(length(before), 0) + coalesce(length(after), 0))"
            " FROM (FROM state_changes WHERE episode_id = ? ORDER BY step_index LIMIT 8192)"
        )[0][0]
        state = self.state(0) or self.state(1) or b""
        sampled = min(self._source.n_steps, 2048) or 1
        whole = (int(steps or 0) + int(changes or 0)) * self._source.n_steps // sampled
        return whole, len(state)

    def _bodies(self, digests: Iterable[str]) -> dict[str, bytes]:
        rows = self._fetch(
            "SELECT state_hash, body FROM states WHERE episode_id = ?"
            " AND state_hash IN (SELECT unnest(?))",
            list(digests),
        )
        return {digest: body.encode() for digest, body in rows}

    def _fetch(self, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with self._store.cursor() as cursor:
            return list(cursor.execute(query, [self._id, *parameters]).fetchall())


_COLUMNS = ", ".join(
    "epoch_us(started_at)" if name == "started_at" else name for name in STEP_FIELDS
)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
