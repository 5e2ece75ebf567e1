"""Writing: encoded episodes to Arrow batches to tables, one transaction for what waits together.

An episode arrives in parts. The part that opens a long one leaves its header in `open_episodes`;
the part that seals it writes the `episodes` row, last, and takes the header away again. What has a
header and no seal when a store is next opened for writing was interrupted, and is adopted.
"""

from __future__ import annotations

import datetime
import hashlib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from envbench.changes.history import Change
from envbench.evidence.episode import EpisodeEvidence
from envbench.evidence.frames import Frames
from envbench.evidence.portable import Json, canonical, parse
from envbench.evidence.record import StepColumns
from envbench.store import arrow
from envbench.store.arrow import Kind
from envbench.store.changes import change_rows, derive_from_store
from envbench.store.errors import StoreError, StoreWarning
from envbench.store.messages import explain
from envbench.store.one_writer import one_at_a_time

if TYPE_CHECKING:
    from envbench.store.store import Store


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """One entry of an authoritative history; JSON fields are canonical bytes, None where absent."""

    step_index: int
    table_name: str
    op: str
    key: bytes | None
    before: bytes | None
    after: bytes | None


@dataclass(frozen=True, slots=True)
class FrameRow:
    """A frame shown after a step.

    Attributes:
        step_index: the step, 0 for the reset.
        kind: ``"rgb_array"`` or ``"ansi"``.
        digest: SHA-256 of the PNG, which is among the arrays of this or an earlier part, or of the
            text.
        text: the text, when it is the first time that it is shown; UTF-8.
    """

    step_index: int
    kind: str
    digest: str
    text: bytes | None


@dataclass(frozen=True, slots=True)
class Seal:
    """What closes an episode.

    Attributes:
        head: canonical JSON of every key of `.data` but the steps, states and digests.
        initial_state: hash of the state after reset.
        final_state: hash of the last state.
        final_body: canonical JSON of the last state; a copy of one in `states`.
        digest: digest of all evidence.
        trajectory_digest: digest of what happened.
    """

    head: Mapping[str, bytes]
    initial_state: str | None
    final_state: str | None
    final_body: bytes | None
    digest: str
    trajectory_digest: str


@dataclass(slots=True)
class EpisodePart:
    """Consecutive steps of one episode, with the states and arrays first seen in them.

    Attributes:
        episode_id: the episode.
        first_step: index of the first step in `columns`.
        columns: the steps.
        states: (hash, first step, canonical JSON) of states not in an earlier part.
        arrays: content of large arrays by SHA-256, those not in an earlier part.
        audit: events of the authoritative history, with their index in the episode.
        opening: the header to leave while the episode is open; only in its first part.
        was_open: whether an earlier part left a header.
        seal: what closes the episode; only in its last part.
        frames: what was shown after these steps.
        changes: with the seal, every change of the state; None has them derived from the states
            that the store holds.
    """

    episode_id: str
    first_step: int
    columns: StepColumns
    states: list[tuple[str, int, bytes]] = field(default_factory=list)
    arrays: dict[str, bytes] = field(default_factory=dict)
    audit: list[tuple[int, AuditEvent]] = field(default_factory=list)
    opening: bytes | None = None
    was_open: bool = False
    seal: Seal | None = None
    changes: list[Change] | None = None
    frames: list[FrameRow] = field(default_factory=list)


Known = set[tuple[Any, ...]]


@one_at_a_time
def write_parts(
    cursor: duckdb.DuckDBPyConnection, parts: Sequence[EpisodePart], known: Known | None = None
) -> None:
    """Write parts of episodes in one transaction: all of them are kept, or none.

    Args:
        cursor: a cursor of the store.
        parts: what to write.
        known: rows of the tables that episodes share which this store was seen to hold; a writer
            keeps one set, so that it need not ask again. It is added to.

    Raises:
        duckdb.Error: when the transaction failed; it was rolled back.
    """
    held = set() if known is None else known
    batches = _Batches(set(held))
    for part in parts:
        _add_part(batches, part)
    sealed = [part.episode_id for part in parts if part.seal is not None and part.was_open]
    cursor.execute("BEGIN TRANSACTION").fetchall()
    try:
        for table in _ORDER:
            if table == "state_changes":  # after the states they may have to be derived from
                _add_changes(batches, cursor, parts)
            batches.insert(cursor, table)
        if sealed:
            cursor.execute(
                "DELETE FROM open_episodes WHERE episode_id IN (SELECT unnest(?))", [sealed]
            ).fetchall()
        cursor.execute("COMMIT").fetchall()
        held |= batches.known
    except BaseException:
        roll_back(cursor)
        raise


@one_at_a_time
def rebuild_changes(store: Store) -> int:
    """Derive every change in a store anew from the states; see `Store.rebuild_changes`."""
    with store.cursor() as cursor:
        query = "SELECT episode_id, initial_state_hash, final_state_hash, row_keys FROM episodes"
        episodes = cursor.execute(query).fetchall()
        cursor.execute("BEGIN TRANSACTION").fetchall()
        try:
            cursor.execute("DELETE FROM state_changes").fetchall()
            total = 0
            for episode_id, initial, final, row_keys in episodes:
                keys = None if row_keys is None else parse(row_keys)
                history = derive_from_store(cursor, episode_id, (initial, final), keys)
                batches = _Batches(set())
                for row in change_rows(episode_id, history.changes()):
                    batches.row("state_changes", *row)
                    total += 1
                batches.insert(cursor, "state_changes")
            cursor.execute("COMMIT").fetchall()
        except BaseException:
            roll_back(cursor)
            raise
    return total


def add(store: Store, episode: EpisodeEvidence) -> None:
    """Write an episode that was made elsewhere, and return when it is committed.

    An episode that is already there is left as it is.

    Raises:
        StoreError: when another episode has its id, or writing failed.
    """
    if store.read_only:
        raise StoreError(f"{store.path} is open for reading only: connect without read_only")
    with store.cursor() as cursor:
        query = "SELECT digest FROM episodes WHERE episode_id = ?"
        known = cursor.execute(query, [episode.episode_id]).fetchall()
        if not known:
            try:
                write_parts(cursor, [episode_part(episode)])
            except duckdb.Error as error:
                raise explain(error, store.path) from error
        elif known[0][0] != episode.digest:
            raise StoreError(
                f"{store.path} has another episode {episode.episode_id}, of digest {known[0][0]}:"
                f" this one has {episode.digest}, so one of the two was altered"
            )


def roll_back(cursor: duckdb.DuckDBPyConnection) -> None:
    """Leave a failed transaction; says nothing when the connection itself is gone."""
    try:
        cursor.execute("ROLLBACK").fetchall()
    except Exception:  # no transaction is active, or the database was invalidated by the failure
        return


def episode_part(episode: EpisodeEvidence) -> EpisodePart:
    """A whole sealed episode as one part, to be written to a store."""
    source = episode._source
    columns = StepColumns()
    states: dict[str, int] = {}
    if source.initial_state is not None:
        states[source.initial_state] = 0
    for block in source.steps():
        for index, digest in enumerate(block.state_hash, len(columns) + 1):
            if digest is not None:
                states.setdefault(digest, index)
        columns.extend(block)
    if source.final_state is not None:
        states.setdefault(source.final_state, len(columns) + 1)
    bodies = [(digest, first, source.state(digest)) for digest, first in states.items()]
    head = dict(source.head())
    arrays: dict[str, bytes] = {}
    for text in _texts(columns, bodies, head):
        for digest in array_references(text):
            arrays[digest] = source.array(digest)
    frames = _frame_rows(episode.frames, arrays)
    events = parse(head["audit"]) or []
    return EpisodePart(
        episode_id=episode.episode_id,
        first_step=1,
        columns=columns,
        states=bodies,
        arrays=arrays,
        audit=[(index, _read_event(event)) for index, event in enumerate(events)],
        seal=Seal(
            head=head,
            initial_state=source.initial_state,
            final_state=source.final_state,
            final_body=None if source.final_state is None else source.state(source.final_state),
            digest=episode.digest,
            trajectory_digest=episode.trajectory_digest,
        ),
        frames=frames,
    )


def array_references(text: bytes) -> list[str]:
    """The SHA-256 of every large array that canonical JSON refers to."""
    if b'"sha256"' not in text or b'"$envbench"' not in text:
        return []
    found: list[str] = []
    _collect_references(parse(text), found)
    return found


def environment_key(head: Mapping[str, bytes]) -> str:
    """Names an environment as recorded: one row of `environments` for each."""
    version, fingerprint = _environment_labels(head)
    parts = [head[key] for key in _ENVIRONMENT_KEYS]
    text = b"\n".join([*parts, canonical([version, fingerprint])])
    return hashlib.sha256(text).hexdigest()[:32]


def microseconds(moment: str) -> int:
    """A time as `recorded_at` spells it, in microseconds since 1970 UTC."""
    return (datetime.datetime.fromisoformat(moment) - _EPOCH) // datetime.timedelta(microseconds=1)


_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_NAIVE_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)
_BIGINT = 2**63
# Up to this many rows, parameters cost less than an Arrow table that DuckDB has to look through.
_FEW_ROWS = 4
_ENVIRONMENT_KEYS = (
    "environment_id",
    "gymnasium_version",
    "environment_spec",
    "wrappers",
    "packages",
    "spaces",
)
# The columns of each table in its own order, in which rows are inserted.
_COLUMNS: dict[str, list[tuple[str, Kind]]] = {
    "runs": [
        ("run_id", "text"),
        ("started_at", "time"),
        ("python_version", "text"),
        ("packages", "json"),
        ("platform", "text"),
    ],
    "cases": [
        ("case_id", "text"),
        ("case_digest", "text"),
        ("source_id", "text"),
        ("tags", "json"),
        ("expects", "text"),
        ("input", "json"),
        ("reference_digest", "text"),
    ],
    "environments": [
        ("environment_key", "text"),
        ("environment_id", "text"),
        ("environment_version", "text"),
        ("environment_fingerprint", "text"),
        ("gymnasium_version", "text"),
        ("spec", "json"),
        ("wrappers", "json"),
        ("packages", "json"),
        ("spaces", "json"),
    ],
    "open_episodes": [("episode_id", "text"), ("opened_at", "time"), ("header", "json")],
    "states": [
        ("episode_id", "text"),
        ("state_hash", "text"),
        ("first_step", "integer"),
        ("body", "json"),
    ],
    "blobs": [
        ("episode_id", "text"),
        ("blob_hash", "text"),
        ("n_bytes", "integer"),
        ("codec", "text"),
        ("body", "binary"),
    ],
    "frames": [
        ("episode_id", "text"),
        ("step_index", "integer"),
        ("kind", "text"),
        ("blob_hash", "text"),
        ("body", "text"),
    ],
    "audit_events": [
        ("episode_id", "text"),
        ("step_index", "integer"),
        ("event_index", "integer"),
        ("table_name", "text"),
        ("op", "text"),
        ("key", "json"),
        ("before", "json"),
        ("after", "json"),
    ],
    "steps": [
        ("episode_id", "text"),
        ("step_index", "integer"),
        ("action", "json"),
        ("observation", "json"),
        ("reward", "double"),
        ("terminated", "boolean"),
        ("truncated", "boolean"),
        ("info", "json"),
        ("state_hash", "text"),
        ("error", "json"),
        ("started_at", "time"),
        ("step_us", "double"),
        ("observe_us", "double"),
    ],
    "state_changes": [
        ("episode_id", "text"),
        ("step_index", "integer"),
        ("since", "integer"),
        ("path", "text"),
        ("op", "text"),
        ("before", "json"),
        ("after", "json"),
        ("restored_at", "integer"),
        ("restored_after", "integer"),
        ("to_initial", "boolean"),
    ],
    "episodes": [
        ("episode_id", "text"),
        ("run_id", "text"),
        ("case_id", "text"),
        ("case_digest", "text"),
        ("source_id", "text"),
        ("environment_id", "text"),
        ("environment_version", "text"),
        ("environment_fingerprint", "text"),
        ("environment_key", "text"),
        ("observer_id", "text"),
        ("agent_id", "text"),
        ("seed", "integer"),
        ("repeat", "integer"),
        ("previous", "text"),
        ("labels", "json"),
        ("ending", "text"),
        ("terminated", "boolean"),
        ("truncated", "boolean"),
        ("n_steps", "integer"),
        ("episode_return", "double"),
        ("recorded_at", "time"),
        ("duration_ms", "double"),
        ("max_steps", "integer"),
        ("options", "json"),
        ("initial_observation", "json"),
        ("initial_info", "json"),
        ("initial_state_hash", "text"),
        ("final_state_hash", "text"),
        ("final_state", "json"),
        ("output", "json"),
        ("errors", "json"),
        ("issues", "json"),
        ("cleanup", "json"),
        ("row_keys", "json"),
        ("audited", "boolean"),
        ("extra", "json"),
        ("digest", "text"),
        ("trajectory_digest", "text"),
    ],
}
# The episodes row is the seal: it is written last, after everything it speaks for.
_ORDER = tuple(_COLUMNS)
# Rows of these tables are shared by episodes and written once.
_ONCE = {
    "runs": ("run_id",),
    "cases": ("case_id", "case_digest"),
    "environments": ("environment_key",),
}


class _Batches:
    """Column lists for every table, to be inserted as Arrow tables.

    Args:
        known: rows of shared tables that the store is known to hold; the new ones are added.
    """

    def __init__(self, known: Known) -> None:
        self.known = known
        self.columns: dict[str, list[list[Any]]] = {
            table: [[] for _ in columns] for table, columns in _COLUMNS.items()
        }

    def row(self, table: str, *values: Any) -> None:
        for column, value in zip(self.columns[table], values, strict=True):
            column.append(value)

    def shared_row(self, table: str, *values: Any) -> None:
        """Add a row that episodes share, unless the store is known to hold it."""
        key = (table, *values[: len(_ONCE[table])])
        if key not in self.known:
            self.known.add(key)
            self.row(table, *values)

    def insert(self, cursor: duckdb.DuckDBPyConnection, table: str) -> None:
        columns = dict(zip(_COLUMNS[table], self.columns[table], strict=True))
        n_rows = len(self.columns[table][0])
        if not n_rows:
            return
        content = {name: (kind, values) for (name, kind), values in columns.items()}
        if n_rows > _FEW_ROWS and table not in _ONCE:
            # a third of what it costs to register a view, plan a query on it and drop it
            cursor.from_arrow(arrow.table(content)).insert_into(table)
            return
        names = ", ".join(f'"{name}"' for name, _ in columns)
        if n_rows <= _FEW_ROWS:
            source = "(VALUES {}) AS batch({})".format(
                ", ".join([f"({', '.join('?' * len(columns))})"] * n_rows), names
            )
            values = [_parameters(kind, values) for (_, kind), values in columns.items()]
            parameters = [value for row in zip(*values, strict=True) for value in row]
        else:
            source, parameters = "envbench_batch AS batch", []
            cursor.register("envbench_batch", arrow.table(content))
        query = f"INSERT INTO {table} ({names}) SELECT {names} FROM {source}"
        if table in _ONCE:
            same = " AND ".join(f"known.{key} = batch.{key}" for key in _ONCE[table])
            query += f" WHERE NOT EXISTS (FROM {table} AS known WHERE {same})"
        cursor.execute(query, parameters).fetchall()


def _parameters(kind: Kind, values: list[Any]) -> list[Any]:
    """Values of a column as parameters of a query."""
    if kind == "time":
        return [None if at is None else _NAIVE_EPOCH + at * _MICROSECOND for at in values]
    if kind == "binary":
        return values
    return [value.decode() if type(value) is bytes else value for value in values]


def _add_part(batches: _Batches, part: EpisodePart) -> None:
    episode_id, columns = part.episode_id, part.columns
    n = len(columns)
    if n:
        first = part.first_step
        steps = batches.columns["steps"]
        values: Iterable[list[Any]] = (
            [episode_id] * n,
            list(range(first, first + n)),
            columns.action,
            columns.observation,
            columns.reward,
            columns.terminated,
            columns.truncated,
            columns.info,
            columns.state_hash,
            columns.error,
            columns.started_at,
            columns.step_us,
            columns.observe_us,
        )
        for column, more in zip(steps, values, strict=True):
            column.extend(more)
    for digest, first_step, body in part.states:
        batches.row("states", episode_id, digest, first_step, body)
    for digest, content in part.arrays.items():
        codec, body = compress(content)
        batches.row("blobs", episode_id, digest, len(content), codec, body)
    for frame in part.frames:
        batches.row("frames", episode_id, frame.step_index, frame.kind, frame.digest, frame.text)
    for index, event in part.audit:
        batches.row(
            "audit_events",
            episode_id,
            event.step_index,
            index,
            event.table_name,
            event.op,
            event.key,
            event.before,
            event.after,
        )
    if part.opening is not None:
        now = datetime.datetime.now(datetime.UTC)
        opened = (now - _EPOCH) // datetime.timedelta(microseconds=1)
        batches.row("open_episodes", episode_id, opened, part.opening)
    if part.seal is not None:
        _add_seal(batches, part.seal)


def _add_changes(
    batches: _Batches, cursor: duckdb.DuckDBPyConnection, parts: Sequence[EpisodePart]
) -> None:
    for part in parts:
        if part.seal is not None:
            changes = _derived(cursor, part, part.seal) if part.changes is None else part.changes
            for row in change_rows(part.episode_id, changes):
                batches.row("state_changes", *row)


def _derived(cursor: duckdb.DuckDBPyConnection, part: EpisodePart, seal: Seal) -> list[Change]:
    """The changes of an episode, from the states that the store has by now."""
    boundary, row_keys = (seal.initial_state, seal.final_state), parse(seal.head["row_keys"])
    try:
        return derive_from_store(cursor, part.episode_id, boundary, row_keys).changes()
    except duckdb.Error:
        raise
    except Exception as error:  # a fault here costs derived rows, never evidence
        warnings.warn(
            f"episode {part.episode_id} is kept, but its changes could not be derived"
            f" ({type(error).__name__}: {error}): rebuild_changes() tries again",
            StoreWarning,
            stacklevel=2,
        )
        return []


def _add_seal(batches: _Batches, seal: Seal) -> None:
    head = seal.head

    def value(key: str) -> Json:
        return parse(head[key])

    case, provenance, packages = value("case"), value("provenance"), value("packages")
    recorded_at = microseconds(value("recorded_at"))
    version, fingerprint = _environment_labels(head)
    key = environment_key(head)
    if provenance["run_id"] is not None:
        batches.shared_row(
            "runs",
            provenance["run_id"],
            recorded_at,
            packages.get("python", ""),
            head["packages"],
            packages.get("platform", ""),
        )
    batches.shared_row(
        "cases",
        case["case_id"],
        value("case_digest"),
        case["source_id"],
        canonical(case["tags"]),
        case["expects"],
        canonical(case["input"]),
        case["reference_digest"],
    )
    batches.shared_row(
        "environments",
        key,
        value("environment_id"),
        version,
        fingerprint,
        value("gymnasium_version"),
        _sql_null(head["environment_spec"]),
        head["wrappers"],
        head["packages"],
        _sql_null(head["spaces"]),
    )
    initial, termination, totals = value("initial"), value("termination"), value("totals")
    seed, max_steps = value("seed"), value("max_steps")
    extra: dict[str, Json] = {"capture_steps": value("capture_steps"), "reset": value("reset")}
    if "frames" in head:
        extra["frames"] = value("frames")
    # what BIGINT cannot hold stays exact beside it
    extra |= {
        name: number
        for name, number in (("seed", seed), ("max_steps", max_steps))
        if number is not None and number >= _BIGINT
    }
    batches.row(
        "episodes",
        value("episode_id"),
        provenance["run_id"],
        case["case_id"],
        value("case_digest"),
        case["source_id"],
        value("environment_id"),
        version,
        fingerprint,
        key,
        value("observer_id"),
        provenance["agent_id"],
        None if "seed" in extra else seed,
        provenance["repeat"],
        provenance["previous"],
        canonical(provenance["labels"]),
        value("ending"),
        termination["terminated"],
        termination["truncated"],
        totals["steps"],
        _reward(totals["reward"]),
        recorded_at,
        value("duration_ms"),
        None if "max_steps" in extra else max_steps,
        _sql_null(head["options"]),
        initial and canonical(initial["observation"]),
        initial and canonical(initial["info"]),
        seal.initial_state,
        seal.final_state,
        seal.final_body,
        _sql_null(head["output"]),
        head["errors"],
        head["issues"],
        _sql_null(head["cleanup"]) or b"null",
        _sql_null(head["row_keys"]),
        head["audit"] != b"null",
        canonical(extra),
        seal.digest,
        seal.trajectory_digest,
    )


def compress(content: bytes) -> tuple[str, bytes]:
    """Compress the content of an array with zstd, or leave it raw where that is smaller."""
    packed = pa.Codec("zstd", compression_level=1).compress(content, asbytes=True)
    return ("zstd", packed) if len(packed) < len(content) else ("raw", content)


def decompress(codec: str, body: bytes, n_bytes: int) -> bytes:
    """Undo `compress`.

    Raises:
        ValueError: when the content does not decompress to the size that it should have.
    """
    if codec == "raw":
        return body
    if codec != "zstd":
        raise ValueError(f"unknown codec {codec!r}")
    try:
        return bytes(pa.decompress(body, n_bytes, codec="zstd", asbytes=True))
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"the content does not decompress: {error}") from None


def _reward(value: Json) -> float | None:
    if type(value) is dict:
        return float(value["value"])
    return None if value is None else float(value)


def _sql_null(text: bytes) -> bytes | None:
    return None if text == b"null" else text


def _environment_labels(head: Mapping[str, bytes]) -> tuple[str | None, str | None]:
    provenance = parse(head["provenance"])
    return provenance["environment_version"], provenance["environment_fingerprint"]


def _read_event(event: Json) -> AuditEvent:
    def text(value: Json) -> bytes | None:
        return None if value is None else canonical(value)

    return AuditEvent(
        event["step"],
        event["table"],
        event["op"],
        text(event["key"]),
        text(event["before"]),
        text(event["after"]),
    )


def _frame_rows(frames: Frames, arrays: dict[str, bytes]) -> list[FrameRow]:
    """The frames of an episode; pictures are added to its arrays."""
    rows = []
    known: set[str] = set()
    for index, frame in enumerate(frames):
        if frame is None:
            continue
        text = frame.content if frame.kind == "ansi" and frame.sha256 not in known else None
        known.add(frame.sha256)
        if frame.kind == "rgb_array":
            arrays[frame.sha256] = frame.content
        rows.append(FrameRow(index, frame.kind, frame.sha256, text))
    return rows


def _texts(
    columns: StepColumns, states: list[tuple[str, int, bytes]], head: Mapping[str, bytes]
) -> Iterable[bytes]:
    for name in ("action", "observation", "info", "error"):
        yield from (text for text in getattr(columns, name) if text is not None)
    yield from (body for _, _, body in states)
    yield from head.values()


def _collect_references(value: Json, found: list[str]) -> None:
    if type(value) is list:
        for item in value:
            _collect_references(item, found)
    elif type(value) is dict:
        if value.get("$envbench") == "array" and "sha256" in value and "zlib" not in value:
            found.append(value["sha256"])
        for item in value.values():
            _collect_references(item, found)
