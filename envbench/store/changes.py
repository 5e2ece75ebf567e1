"""Changes in the store: derived from the states that are there, and written beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from envbench.changes.diff import Value
from envbench.changes.history import Change, History, derive
from envbench.evidence.portable import canonical
from envbench.evidence.tagged import ABSENT

if TYPE_CHECKING:
    import duckdb

STATES_AT_ONCE = 1_000
"""How many states are read at once."""


def derive_from_store(
    cursor: duckdb.DuckDBPyConnection,
    episode_id: str,
    boundary: tuple[str | None, str | None],
    row_keys: Mapping[str, str | None] | None,
) -> History:
    """Derive the changes of an episode from its states, also of one that is not sealed.

    Args:
        cursor: a cursor of the store.
        episode_id: which episode.
        boundary: hashes of the state after reset and of the last state.
        row_keys: the keys of its tables.
    """
    return derive(_states(cursor, episode_id, boundary), row_keys)


def change_rows(episode_id: str, changes: list[Change]) -> list[tuple[Any, ...]]:
    """The rows of `state_changes`; values as canonical JSON, None for `ABSENT`."""
    return [
        (
            episode_id,
            change.step,
            change.since,
            change.path,
            change.op,
            _text(change.before),
            _text(change.after),
            change.restored_at,
            change.restored_after,
            change.to_initial,
        )
        for change in changes
    ]


def _states(
    cursor: duckdb.DuckDBPyConnection, episode_id: str, boundary: tuple[str | None, str | None]
) -> Iterator[tuple[int, bytes]]:
    initial, final = boundary
    if initial is not None:
        yield 0, _body(cursor, episode_id, initial)
    last = 0
    while rows := cursor.execute(_STEPS, [episode_id, last, STATES_AT_ONCE]).fetchall():
        for index, body in rows:
            last = index
            if body is not None:
                yield index, body.encode()
    if final is not None:
        yield last + 1, _body(cursor, episode_id, final)


_STEPS = """
SELECT s.step_index, t.body
FROM (
    SELECT step_index, state_hash FROM steps
    WHERE episode_id = $1 AND step_index > $2
    ORDER BY step_index LIMIT $3
) AS s
LEFT JOIN states AS t ON t.episode_id = $1 AND t.state_hash = s.state_hash
ORDER BY s.step_index
"""


def _body(cursor: duckdb.DuckDBPyConnection, episode_id: str, digest: str) -> bytes:
    query = "SELECT body FROM states WHERE episode_id = ? AND state_hash = ?"
    rows = cursor.execute(query, [episode_id, digest]).fetchall()
    if not rows:
        raise KeyError(f"episode {episode_id} has no state {digest}")
    return str(rows[0][0]).encode()


def _text(value: Value) -> bytes | None:
    return None if value is ABSENT else canonical(value)
