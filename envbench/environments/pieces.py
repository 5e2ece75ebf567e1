"""Episodes as training reads them: what was shown, done and got, as the evidence keeps it.

From a store only the columns that are needed are read, many episodes in one query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import compress
from typing import Any

from envbench.evidence.episode import EpisodeEvidence
from envbench.evidence.portable import Json, canonical, parse
from envbench.evidence.record import Source
from envbench.store.reading import WITH_ENVIRONMENT, Episodes, store_of
from envbench.store.store import Store
from envbench.store.writing import decompress

EPISODES_AT_ONCE = 1_000
STEPS_AT_ONCE = 50_000


@dataclass(slots=True)
class Rows:
    """Transitions as evidence keeps them, one list a field; texts are canonical JSON."""

    step: list[int] = field(default_factory=list)
    action: list[str] = field(default_factory=list)
    observation: list[str] = field(default_factory=list)
    reward: list[float | None] = field(default_factory=list)
    terminated: list[bool | None] = field(default_factory=list)
    truncated: list[bool | None] = field(default_factory=list)

    def split(self, size: int) -> tuple[Rows, Rows]:
        """The first ones, and the rest."""
        if len(self) <= size:
            return self, Rows()
        columns = [getattr(self, name) for name in ROW]
        return Rows(*(c[:size] for c in columns)), Rows(*(c[size:] for c in columns))

    def extend(self, other: Rows) -> None:
        """Add more at the end."""
        for name in ROW:
            getattr(self, name).extend(getattr(other, name))

    def __len__(self) -> int:
        return len(self.step)


ROW = ("step", "action", "observation", "reward", "terminated", "truncated")


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """An episode to be read.

    Attributes:
        episode_id: which one.
        environment_id: on what it was recorded.
        ending: how it ended.
        n_steps: how many steps were attempted and kept.
        seed: the seed of its reset.
        spaces: descriptions of its spaces by name; the very same object for equal ones.
        initial: what the reset showed, canonical JSON; None when it failed.
        rows: gives its transitions, some at a time.
        store: where it is kept; None for one in memory.
        array: gives the content of a large array of an episode in memory.
    """

    episode_id: str
    environment_id: str
    ending: str
    n_steps: int
    seed: int | None
    spaces: dict[str, Json]
    initial: str | None
    rows: Callable[[], Iterator[Rows]]
    store: Store | None = None
    array: Callable[[str], bytes] | None = None


def evidence_pieces(episodes: Iterable[EpisodeEvidence]) -> Iterator[Piece]:
    """Episodes wherever they are kept."""
    spaces = _Spaces()
    for episode in episodes:
        if not isinstance(episode, EpisodeEvidence):
            raise TypeError(f"source must hold episodes, not {type(episode).__name__}")
        source = episode._source
        head = source.head()
        initial = parse(head["initial"])
        yield Piece(
            episode_id=episode.episode_id,
            environment_id=parse(head["environment_id"]),
            ending=episode.ending,
            n_steps=source.n_steps,
            seed=parse(head["seed"]),
            spaces=spaces.of(head["spaces"].decode()),
            initial=None if initial is None else canonical(initial["observation"]).decode(),
            rows=partial(_rows_of, source),
            store=store_of(episode),
            array=source.array,
        )


def _rows_of(source: Source) -> Iterator[Rows]:
    """The transitions of steps; one that was refused or that raised is none."""
    first = 1
    for block in source.steps():
        kept = [info is not None for info in block.info]
        steps = list(compress(range(first, first + len(block)), kept))
        first += len(block)
        yield Rows(
            step=steps,
            action=_decoded(compress(block.action, kept)),
            observation=_decoded(compress(block.observation, kept)),
            reward=list(compress(block.reward, kept)),
            terminated=list(compress(block.terminated, kept)),
            truncated=list(compress(block.truncated, kept)),
        )


def _decoded(texts: Iterable[bytes | None]) -> list[str]:
    return [text.decode() for text in texts if text is not None]


def stored_pieces(episodes: Episodes) -> Iterator[Piece]:
    """Episodes of a store, in the order of the selection."""
    store, ids = episodes._store, episodes._ids
    spaces = _Spaces()
    for first in range(0, len(ids), EPISODES_AT_ONCE):
        wanted = ids[first : first + EPISODES_AT_ONCE]
        positions = list(range(len(wanted)))
        heads = store.sql(_HEADS, [wanted, positions]).fetchall()
        reader = _StoredRows(store, {head[0]: head[3] for head in heads})
        for episode_id, environment_id, ending, n_steps, seed, described, initial in heads:
            yield Piece(
                episode_id=episode_id,
                environment_id=environment_id,
                ending=ending,
                n_steps=n_steps,
                seed=seed,
                spaces=spaces.of(described),
                initial=initial,
                rows=partial(reader.read, episode_id),
                store=store,
            )


def read_arrays(pieces: list[Piece], digests: set[str]) -> dict[str, bytes]:
    """The content of large arrays of some episodes of one store, or of some in memory."""
    store = pieces[0].store
    if store is not None:
        ids = [piece.episode_id for piece in pieces]
        rows = store.sql(_ARRAYS, [ids, sorted(digests)]).fetchall()
        return {digest: decompress(*row) for digest, *row in rows}
    found: dict[str, bytes] = {}
    for piece in pieces:
        assert piece.array is not None
        for digest in digests - found.keys():
            try:
                found[digest] = piece.array(digest)
            except KeyError:  # it is another episode's
                continue
    return found


_HEADS = f"""
SELECT e.episode_id, e.environment_id, e.ending, e.n_steps, e.seed, v.spaces, e.initial_observation
FROM episodes AS e
JOIN (SELECT unnest(?) AS episode_id, unnest(?) AS position) AS wanted USING (episode_id)
{WITH_ENVIRONMENT}
ORDER BY position
"""

_ROWS = """
SELECT episode_id, step_index, action, observation, reward, terminated, truncated
FROM steps
WHERE info IS NOT NULL AND episode_id IN (SELECT unnest(?)) AND step_index BETWEEN ? AND ?
ORDER BY episode_id, step_index
"""

_ARRAYS = """
SELECT DISTINCT ON (blob_hash) blob_hash, codec, body, n_bytes
FROM blobs
WHERE episode_id IN (SELECT unnest(?)) AND blob_hash IN (SELECT unnest(?))
"""


class _Spaces:
    """Descriptions of spaces, each text parsed once."""

    def __init__(self) -> None:
        self._known: dict[str | None, dict[str, Json]] = {}

    def of(self, text: str | None) -> dict[str, Json]:
        """The descriptions in a text."""
        if text not in self._known:
            self._known[text] = (None if text is None else parse(text)) or {}
        return self._known[text]


class _StoredRows:
    """Reads the transitions of stored episodes: short ones together, a long one in blocks.

    Args:
        store: where they are.
        n_steps: how many steps each of them has, in the order in which they will be asked for.
    """

    def __init__(self, store: Store, n_steps: dict[str, int]) -> None:
        self._store = store
        self._n_steps = n_steps
        self._order = list(n_steps)
        self._held: dict[str, Rows] = {}

    def read(self, episode_id: str) -> Iterator[Rows]:
        """The transitions of an episode."""
        total = self._n_steps[episode_id]
        if total > STEPS_AT_ONCE:
            for first in range(1, total + 1, STEPS_AT_ONCE):
                found = self._query([episode_id], first, first + STEPS_AT_ONCE - 1)
                yield found.get(episode_id, Rows())
            return
        if episode_id not in self._held:
            group = self._group(episode_id)
            self._held = dict.fromkeys(group, Rows()) | self._query(group, 1, STEPS_AT_ONCE)
        yield self._held[episode_id]

    def _group(self, episode_id: str) -> list[str]:
        """The episode and those after it, up to `STEPS_AT_ONCE` steps in all."""
        group: list[str] = []
        total = 0
        for each in self._order[self._order.index(episode_id) :]:
            total += self._n_steps[each]
            if group and total > STEPS_AT_ONCE:
                break
            group.append(each)
        return group

    def _query(self, ids: list[str], first: int, last: int) -> dict[str, Rows]:
        table = self._store.sql(_ROWS, [ids, first, last]).arrow()
        owners, *columns = (column.to_pylist() for column in table.columns)
        found: dict[str, Rows] = {}
        begin = 0
        for position in range(1, len(owners) + 1):
            if position == len(owners) or owners[position] != owners[begin]:
                held: list[Any] = [column[begin:position] for column in columns]
                found[owners[begin]] = Rows(*held)
                begin = position
        return found
