"""Reading: rows back to episodes, lazily, a batch at a time.

Episodes that are iterated belong to one batch. What one of them is asked for (its final state, its
steps) is fetched for the whole batch in one query, so a check over a thousand episodes costs a few
queries and parses only what it looks at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

import duckdb

from envbench.evidence.digest import SCHEMA, join_object
from envbench.evidence.episode import EpisodeEvidence
from envbench.evidence.frames import aligned
from envbench.evidence.portable import canonical, parse
from envbench.evidence.record import STEP_FIELDS, StepColumns, reward_json
from envbench.evidence.schema import DATA_KEYS
from envbench.store.errors import QueryError, StoreError
from envbench.store.writing import decompress

if TYPE_CHECKING:
    from envbench.store.store import Store

BATCH = 1_000
"""Episodes that share their queries."""

STEPS_AT_ONCE = 5_000
"""Steps read at once, of one long episode or of several short ones."""


def episode(store: Store, episode_id: str, *, verify: bool = False) -> EpisodeEvidence:
    """Read one episode.

    Args:
        store: where to read.
        episode_id: which one.
        verify: recompute its digests and refuse it when they do not fit.

    Raises:
        KeyError: when no such episode is sealed in the store.
        StoreError: when it is there twice, or `verify` found an alteration.
    """
    rows = _fetch(store, f"{_HEADS} WHERE e.episode_id = ?", [episode_id])
    if not rows:
        raise KeyError(f"no sealed episode {episode_id!r} in {store.path}")
    if len(rows) > 1:
        raise StoreError(f"{store.path}: episode {episode_id} is there {len(rows)} times")
    (found,) = _Batch(store, rows).episodes()
    if verify:
        try:
            problems = found.verify()
        except Exception as error:  # what was altered may fit no type
            problems = [f"it cannot be read to the end: {type(error).__name__}: {error}"]
        if problems:
            raise StoreError(f"{store.path}: episode {episode_id}: {'; '.join(problems)}")
    return found


def store_of(episode: EpisodeEvidence) -> Store | None:
    """The store that an episode was read from; None for one that was captured or read from JSON."""
    source = episode._source
    return source.store if isinstance(source, _StoreSource) else None


class Episodes:
    """The sealed episodes of a store in order of recording, read lazily; it has a length.

    Args:
        store: where to read.
        where: an SQL condition on the columns of `episodes`, such as ``"ending = 'terminated'"``.

    Raises:
        QueryError: when the condition is not one.
    """

    def __init__(self, store: Store, where: str | None = None) -> None:
        self._store = store
        condition = "" if where is None else f" WHERE ({_condition(where)}\n)"
        self._ids = [
            str(row[0])
            for row in _fetch(
                store,
                f"SELECT episode_id FROM episodes{condition} ORDER BY recorded_at, episode_id",
            )
        ]

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[EpisodeEvidence]:
        return self._read_in_batches(self._ids)

    @overload
    def __getitem__(self, index: SupportsIndex) -> EpisodeEvidence: ...

    @overload
    def __getitem__(self, index: slice) -> list[EpisodeEvidence]: ...

    def __getitem__(self, index: SupportsIndex | slice) -> EpisodeEvidence | list[EpisodeEvidence]:
        if isinstance(index, slice):
            return list(self._read_in_batches(self._ids[index]))
        if not isinstance(index, SupportsIndex):
            raise TypeError(
                f"episodes are found by place or slice, not by {type(index).__name__}: "
                f"store.episode(episode_id) finds one by its id"
            )
        try:
            episode_id = self._ids[index]
        except IndexError:
            counted = "is 1 episode" if len(self) == 1 else f"are {len(self)} episodes"
            raise IndexError(f"no episode at {index}: there {counted}") from None
        for found in self._read([episode_id]):
            return found
        raise StoreError(f"{self._store.path}: episode {episode_id} is gone since it was listed")

    def __repr__(self) -> str:
        return f"<Episodes: {len(self)} in {self._store.path}>"

    def _read_in_batches(self, ids: list[str]) -> Iterator[EpisodeEvidence]:
        for first in range(0, len(ids), BATCH):
            yield from self._read(ids[first : first + BATCH])

    def _read(self, ids: list[str]) -> Iterator[EpisodeEvidence]:
        rows = _fetch(
            self._store,
            f"{_HEADS} JOIN (SELECT unnest(?) AS episode_id, unnest(?) AS position) AS wanted"
            " USING (episode_id) ORDER BY position",
            [ids, list(range(len(ids)))],
        )
        return _Batch(self._store, rows).episodes()


def read_steps(store: Store, ids: list[str]) -> dict[str, StepColumns]:
    """All steps of some episodes, by episode, also of episodes that are not sealed."""
    found = {episode_id: StepColumns() for episode_id in ids}
    query = (
        f"SELECT episode_id, {_STEP_COLUMNS} FROM steps"
        " WHERE episode_id IN (SELECT unnest(?)) ORDER BY episode_id, step_index"
    )
    for episode_id, *values in _fetch(store, query, [ids]):
        _append(found[episode_id], values)
    return found


def read_blocks(store: Store, episode_id: str) -> Iterator[StepColumns]:
    """The steps of one episode in blocks, also of one that is not sealed."""
    query = (
        f"SELECT {_STEP_COLUMNS} FROM steps"
        " WHERE episode_id = ? AND step_index BETWEEN ? AND ? ORDER BY step_index"
    )
    first = 1
    while True:
        last = first + STEPS_AT_ONCE - 1
        block = StepColumns()
        for values in _fetch(store, query, [episode_id, first, last]):
            _append(block, list(values))
        if not block:
            return
        yield block
        first = last + 1


def audit_json(store: Store, episode_id: str) -> bytes:
    """The audit events of one episode as canonical JSON, also of one that is not sealed."""
    return _read_audit(store, [episode_id]).get(episode_id, b"[]")


def read_frame_hashes(store: Store, episode_id: str, n_steps: int) -> list[str | None]:
    """The SHA-256 of each frame of an episode, also of one that is not sealed."""
    query = "SELECT step_index, blob_hash FROM frames WHERE episode_id = ?"
    return aligned(_fetch(store, query, [episode_id]), n_steps)


_JSON_FIELDS = ("action", "observation", "info", "error")
_STEP_COLUMNS = ", ".join(
    "epoch_us(started_at)" if name == "started_at" else name for name in STEP_FIELDS
)
_HEAD_COLUMNS = (
    "episode_id",
    "run_id",
    "case_id",
    "case_digest",
    "environment_id",
    "environment_version",
    "environment_fingerprint",
    "observer_id",
    "agent_id",
    "seed",
    "repeat",
    "previous",
    "labels",
    "ending",
    "terminated",
    "truncated",
    "n_steps",
    "episode_return",
    "recorded_at",
    "duration_ms",
    "max_steps",
    "options",
    "initial_observation",
    "initial_info",
    "initial_state_hash",
    "final_state_hash",
    "output",
    "errors",
    "issues",
    "cleanup",
    "row_keys",
    "audited",
    "extra",
    "digest",
    "trajectory_digest",
)
_JOINED_COLUMNS = (
    "c.source_id AS case_source_id",
    "c.tags",
    "c.expects",
    "c.input",
    "c.reference_digest",
    "v.gymnasium_version",
    "v.spec",
    "v.wrappers",
    "v.packages",
    "v.spaces",
)
_NAMES = (*_HEAD_COLUMNS, *(name.split(" AS ")[-1].split(".")[-1] for name in _JOINED_COLUMNS))
# `cases` and `environments` are few; a second row of one key is an alteration that `verify` names.
WITH_CASE = """LEFT JOIN (
    FROM cases QUALIFY row_number() OVER (PARTITION BY case_id, case_digest) = 1
) AS c ON c.case_id = e.case_id AND c.case_digest = e.case_digest"""
"""Joins `cases AS c` to `episodes AS e`."""

WITH_ENVIRONMENT = """LEFT JOIN (
    FROM environments QUALIFY row_number() OVER (PARTITION BY environment_key) = 1
) AS v ON v.environment_key = e.environment_key"""
"""Joins `environments AS v` to `episodes AS e`."""

_HEADS = f"""
SELECT {", ".join(f"e.{name}" for name in _HEAD_COLUMNS)}, {", ".join(_JOINED_COLUMNS)}
FROM episodes AS e
{WITH_CASE}
{WITH_ENVIRONMENT}
"""


def _condition(where: str) -> str:
    """The text of a condition, when it is one and nothing beside it.

    Put into a query unseen, ``1 = 1); DELETE FROM episodes; --`` would be run.

    Raises:
        QueryError: when it is not one expression.
        TypeError: when it is no text.
    """
    if not isinstance(where, str):
        raise TypeError(f"where must be an SQL condition as text, not {type(where).__name__}")
    try:
        duckdb.SQLExpression(where)
    except (duckdb.Error, RuntimeError, ValueError) as error:
        raise QueryError(f"where={where!r} is not one SQL condition: {error}") from error
    return where.rstrip().removesuffix(";")


def _fetch(store: Store, query: str, parameters: list[Any] | None = None) -> list[tuple[Any, ...]]:
    cursor = store.cursor()
    try:
        return list(cursor.execute(query, parameters or []).fetchall())
    except Exception as error:
        raise QueryError(f"{store.path}: {error}") from error
    finally:
        cursor.close()


def _append(columns: StepColumns, values: list[Any]) -> None:
    for name, value in zip(STEP_FIELDS, values, strict=True):
        if value is not None and name in _JSON_FIELDS:
            value = value.encode()
        getattr(columns, name).append(value)


def _read_audit(store: Store, ids: list[str]) -> dict[str, bytes]:
    query = (
        "SELECT episode_id, step_index, table_name, op, key, before, after FROM audit_events"
        " WHERE episode_id IN (SELECT unnest(?)) ORDER BY episode_id, event_index"
    )
    events: dict[str, list[bytes]] = {}
    for key, *event in _fetch(store, query, [ids]):
        events.setdefault(key, []).append(_event(*event))
    return {key: b"[%b]" % b",".join(items) for key, items in events.items()}


class _Batch:
    """Episodes whose parts are fetched together."""

    def __init__(self, store: Store, rows: list[tuple[Any, ...]]) -> None:
        self.store = store
        self.rows = {row[0]: dict(zip(_NAMES, row, strict=True)) for row in rows}
        self._bodies: dict[str, dict[str, bytes]] = {}
        self._steps: dict[str, StepColumns] = {}
        self._audit: dict[str, bytes] | None = None
        self._unseen: dict[str, list[int]] | None = None

    def episodes(self) -> Iterator[EpisodeEvidence]:
        for row in self.rows.values():
            yield EpisodeEvidence(_StoreSource(self, row))

    def boundary_state(self, episode_id: str, column: str) -> bytes | None:
        """The initial or final state of an episode, fetched for all episodes of the batch."""
        if column not in self._bodies:
            view = {"initial_state_hash": "initial_states", "final_state_hash": "final_states"}
            query = (
                f"SELECT episode_id, state FROM {view[column]}"
                " WHERE episode_id IN (SELECT unnest(?))"
            )
            found = _fetch(self.store, query, [list(self.rows)])
            self._bodies[column] = {key: body.encode() for key, body in found if body is not None}
        return self._bodies[column].get(episode_id)

    def steps(self, episode_id: str) -> Iterator[StepColumns]:
        """The steps of an episode in blocks; short episodes are fetched with those after them."""
        if self.rows[episode_id]["n_steps"] > STEPS_AT_ONCE:
            yield from read_blocks(self.store, episode_id)
            return
        if episode_id not in self._steps:
            self._steps = read_steps(self.store, self._group(episode_id))
        yield self._steps[episode_id]

    def audit(self, episode_id: str) -> bytes:
        """The audit events of an episode as canonical JSON."""
        if self._audit is None:
            self._audit = _read_audit(self.store, list(self.rows))
        return self._audit.get(episode_id, b"[]")

    def unseen_steps(self, episode_id: str) -> list[int]:
        """The steps of an episode after which no state was seen."""
        if self._unseen is None:
            query = (
                "SELECT episode_id, list(step_index ORDER BY step_index) FROM steps"
                " WHERE state_hash IS NULL AND episode_id IN (SELECT unnest(?)) GROUP BY episode_id"
            )
            self._unseen = dict(_fetch(self.store, query, [list(self.rows)]))
        return self._unseen.get(episode_id, [])

    def _group(self, episode_id: str) -> list[str]:
        """The episode and those after it, up to `STEPS_AT_ONCE` steps in all."""
        group: list[str] = []
        total = 0
        for key, row in self.rows.items():
            if key != episode_id and not group:
                continue
            total += row["n_steps"]
            if group and total > STEPS_AT_ONCE:
                break
            group.append(key)
        return group


class _StoreSource:
    """A `Source` that reads an episode's parts from its store when they are asked for."""

    def __init__(self, batch: _Batch, row: dict[str, Any]) -> None:
        self._batch = batch
        self._row = row
        self._states: dict[str, bytes] = {}

    @property
    def store(self) -> Store:
        return self._batch.store

    @property
    def initial_state(self) -> str | None:
        return self._row["initial_state_hash"]  # type: ignore[no-any-return]

    @property
    def final_state(self) -> str | None:
        return self._row["final_state_hash"]  # type: ignore[no-any-return]

    @property
    def n_steps(self) -> int:
        return self._row["n_steps"]  # type: ignore[no-any-return]

    @property
    def digest(self) -> str:
        return self._row["digest"]  # type: ignore[no-any-return]

    @property
    def trajectory_digest(self) -> str:
        return self._row["trajectory_digest"]  # type: ignore[no-any-return]

    def head(self) -> Mapping[str, bytes]:
        return _Head(self._row, self._batch)

    def steps(self) -> Iterable[StepColumns]:
        return self._batch.steps(self._row["episode_id"])

    def unseen_steps(self) -> list[int]:
        return self._batch.unseen_steps(self._row["episode_id"])

    def state(self, digest: str) -> bytes:
        for column in ("final_state_hash", "initial_state_hash"):
            if self._row[column] == digest:
                body = self._batch.boundary_state(self._row["episode_id"], column)
                if body is not None:
                    return body
        if not self._states:
            query = "SELECT state_hash, body FROM states WHERE episode_id = ?"
            found = _fetch(self._batch.store, query, [self._row["episode_id"]])
            self._states = {key: body.encode() for key, body in found}
        return self._states[digest]

    def array(self, digest: str) -> bytes:
        query = "SELECT codec, body, n_bytes FROM blobs WHERE episode_id = ? AND blob_hash = ?"
        found = _fetch(self._batch.store, query, [self._row["episode_id"], digest])
        if not found:
            raise ValueError(f"the content of array {digest} is not in {self._batch.store.path}")
        return decompress(*found[0])

    def frame_hashes(self) -> Sequence[str | None]:
        return read_frame_hashes(self._batch.store, self._row["episode_id"], self.n_steps)

    def frame_contents(self, digests: Sequence[str]) -> dict[str, bytes]:
        store, parameters = self._batch.store, [self._row["episode_id"], list(digests)]
        pictures = _fetch(store, _PICTURES, parameters)
        contents = {digest: decompress(*packed) for digest, *packed in pictures}
        if len(contents) < len(digests):
            contents |= {
                digest: text.encode() for digest, text in _fetch(store, _TEXTS, parameters)
            }
        return contents


_PICTURES = """
SELECT blob_hash, codec, body, n_bytes FROM blobs
WHERE episode_id = ? AND blob_hash IN (SELECT unnest(?))
"""
_TEXTS = """
SELECT blob_hash, body FROM frames
WHERE episode_id = ? AND body IS NOT NULL AND blob_hash IN (SELECT unnest(?))
"""


class _Head(Mapping[str, bytes]):
    """Canonical JSON by key, made from the columns of `episodes`, `cases` and `environments`."""

    def __init__(self, row: dict[str, Any], batch: _Batch) -> None:
        self._row = row
        self._batch = batch

    def __getitem__(self, key: str) -> bytes:
        if key == "frames" and not self._rendered:
            raise KeyError(key)
        return _HEAD[key](self._row, self._batch)

    def __iter__(self) -> Iterator[str]:
        return (key for key in _HEAD if key != "frames" or self._rendered)

    def __len__(self) -> int:
        return len(list(iter(self)))

    @property
    def _rendered(self) -> bool:
        return '"frames":' in self._row["extra"]


def _plain(column: str) -> Callable[[dict[str, Any], _Batch], bytes]:
    return lambda row, batch: canonical(row[column])


def _text(column: str) -> Callable[[dict[str, Any], _Batch], bytes]:
    return lambda row, batch: _json(row[column])


def _json(text: str | None) -> bytes:
    return b"null" if text is None else text.encode()


def _extra(row: dict[str, Any], key: str) -> Any:
    return parse(row["extra"]).get(key)


def _exact(column: str) -> Callable[[dict[str, Any], _Batch], bytes]:
    """An integer that may stand in `extra` because BIGINT cannot hold it."""
    return lambda row, batch: canonical(
        row[column] if row[column] is not None else _extra(row, column)
    )


def _case(row: dict[str, Any], batch: _Batch) -> bytes:
    return join_object(
        {
            "case_id": canonical(row["case_id"]),
            "expects": canonical(row["expects"]),
            "input": _json(row["input"]),
            "reference_digest": canonical(row["reference_digest"]),
            "source_id": canonical(row["case_source_id"]),
            "tags": _json(row["tags"]),
        }
    )


def _initial(row: dict[str, Any], batch: _Batch) -> bytes:
    if row["initial_info"] is None:
        return b"null"
    return join_object(
        {"info": _json(row["initial_info"]), "observation": _json(row["initial_observation"])}
    )


def _provenance(row: dict[str, Any], batch: _Batch) -> bytes:
    parts = {
        key: canonical(row[key])
        for key in (
            "agent_id",
            "environment_version",
            "environment_fingerprint",
            "run_id",
            "repeat",
            "previous",
        )
    }
    return join_object({**parts, "labels": _json(row["labels"])})


def _recorded_at(row: dict[str, Any], batch: _Batch) -> bytes:
    moment = row["recorded_at"].isoformat(timespec="microseconds")
    return canonical(f"{moment}+00:00")


def _termination(row: dict[str, Any], batch: _Batch) -> bytes:
    return canonical({name: row[name] for name in ("terminated", "truncated")})


def _totals(row: dict[str, Any], batch: _Batch) -> bytes:
    return join_object(
        {"reward": reward_json(row["episode_return"]), "steps": canonical(row["n_steps"])}
    )


def _audit(row: dict[str, Any], batch: _Batch) -> bytes:
    return batch.audit(row["episode_id"]) if row["audited"] else b"null"


def _event(step: int, table: str, op: str, *texts: str | None) -> bytes:
    key, before, after = map(_json, texts)
    return join_object(
        {
            "after": after,
            "before": before,
            "key": key,
            "op": canonical(op),
            "step": canonical(step),
            "table": canonical(table),
        }
    )


_HEAD: dict[str, Callable[[dict[str, Any], _Batch], bytes]] = {
    "schema": lambda row, batch: canonical(SCHEMA),
    "episode_id": _plain("episode_id"),
    "case": _case,
    "case_id": _plain("case_id"),
    "case_digest": _plain("case_digest"),
    "environment_id": _plain("environment_id"),
    "environment_spec": _text("spec"),
    "wrappers": _text("wrappers"),
    "observer_id": _plain("observer_id"),
    "gymnasium_version": _plain("gymnasium_version"),
    "packages": _text("packages"),
    "seed": _exact("seed"),
    "max_steps": _exact("max_steps"),
    "options": _text("options"),
    "recorded_at": _recorded_at,
    "spaces": _text("spaces"),
    "initial": _initial,
    "output": _text("output"),
    "errors": _text("errors"),
    "issues": _text("issues"),
    "cleanup": _text("cleanup"),
    "duration_ms": _plain("duration_ms"),
    "termination": _termination,
    "ending": _plain("ending"),
    "capture_steps": lambda row, batch: canonical(_extra(row, "capture_steps")),
    "provenance": _provenance,
    "row_keys": _text("row_keys"),
    "audit": _audit,
    "reset": lambda row, batch: canonical(_extra(row, "reset")),
    "totals": _totals,
    "frames": lambda row, batch: canonical(_extra(row, "frames")),
}
_APART = {"steps", "initial_state", "final_state", "digest", "trajectory_digest"}
_IN_DATA = {*DATA_KEYS, "frames"} - _APART
if set(_HEAD) != _IN_DATA:
    raise AssertionError(f"keys without a reader: {_IN_DATA ^ set(_HEAD)}")
