"""Transitions for training: observation, action, reward, next observation, flags, in arrays.

What a policy saw, did and got in recorded episodes, as learning algorithms take it. A transition's
observation is what was seen before its action: the reset's for the first, else the one after the
last step that came to an end. Refused actions and steps that raised are no transitions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from envbench.environments.columns import Array, ColumnReader, Columns, join, take
from envbench.environments.pieces import (
    Piece,
    Rows,
    evidence_pieces,
    read_arrays,
    stored_pieces,
)
from envbench.evidence.episode import EpisodeEvidence
from envbench.evidence.portable import Json
from envbench.evidence.tagged import encode
from envbench.store.reading import Episodes
from envbench.store.store import Store

if TYPE_CHECKING:
    import polars

BATCH_STEPS = 100_000
BATCH_BYTES = 256_000_000

COMPLETE = ("terminated", "truncated")
"""Endings by the environment; after any other the episode could have gone on."""


@dataclass(frozen=True, slots=True)
class EpisodeSummary:
    """One of the episodes that transitions come from.

    Attributes:
        episode_id: which one.
        ending: how it ended.
        n_transitions: how many transitions it gave.
        n_steps: how many steps were attempted.
        seed: the seed of its reset.
    """

    episode_id: str
    ending: str
    n_transitions: int
    n_steps: int
    seed: int | None

    @property
    def complete(self) -> bool:
        """Whether the environment ended it."""
        return self.ending in COMPLETE


@dataclass(frozen=True, slots=True, eq=False)
class Transitions:
    """Transitions in arrays, all of one length n, in order of recording.

    Attributes:
        observation: what was seen before the action; see `envbench.environments.columns` for the
            form that a space gives.
        action: what was done.
        reward: float64; NaN where the reward was no number.
        next_observation: what was seen after it.
        terminated: whether the environment ended the episode with this transition: nothing comes
            after it, so that a value is not bootstrapped.
        truncated: whether it was cut short with this transition, as by a time limit: the value of
            the next observation counts.
        last: whether it is the last of its episode. Where it is and neither flag is set, the
            episode was left unfinished (see `episodes`), and the value counts as after a
            truncation.
        episode: position in `episodes` of the transition's episode.
        step: index of the step in its episode, from 1.
        episodes: the episodes, those without a transition too.
        spaces: the recorded descriptions of the spaces, ``observation`` and ``action``.
    """

    observation: Columns
    action: Columns
    reward: Array
    next_observation: Columns
    terminated: Array
    truncated: Array
    last: Array
    episode: Array
    step: Array
    episodes: tuple[EpisodeSummary, ...]
    spaces: dict[str, Json]

    def __len__(self) -> int:
        return len(self.reward)

    @property
    def episode_id(self) -> Array:
        """The id of each transition's episode, an array of objects."""
        ids = np.array([each.episode_id for each in self.episodes], dtype=object)
        return ids[self.episode]

    @property
    def unfinished(self) -> dict[str, int]:
        """How many episodes no environment ended, by their ending."""
        return dict(Counter(each.ending for each in self.episodes if not each.complete))

    def __getitem__(self, positions: slice | Array | list[int]) -> Transitions:
        """Some of the transitions, of the same episodes; `last` stays what it was."""
        if isinstance(positions, int | np.integer):
            raise TypeError("transitions are taken by a slice or an array of positions")
        taken = {name: take(getattr(self, name), positions) for name in (*_COLUMNS, "episode")}
        return Transitions(**taken, episodes=self.episodes, spaces=self.spaces)

    def of_episode(self, position: int) -> Transitions:
        """The transitions of one episode, by its position in `episodes`; a view of the arrays."""
        first, end = np.searchsorted(self.episode, [position, position + 1])
        taken = {name: take(getattr(self, name), slice(first, end)) for name in _COLUMNS}
        return Transitions(
            **taken,
            episode=np.zeros(end - first, np.int64),
            episodes=(self.episodes[position],),
            spaces=self.spaces,
        )

    def pl(self) -> polars.DataFrame:
        """The transitions as a Polars frame.

        Arrays stand in columns of the type Array, parts of a Dict or Tuple in columns named
        ``observation.key``, and objects as JSON in the tagged form of evidence.
        """
        import polars

        columns: dict[str, polars.Series] = {
            "episode_id": polars.Series(self.episode_id, dtype=polars.String),
            "step": polars.Series(self.step),
        }
        for name in ("observation", "action", "reward", "next_observation"):
            for path, array in _leaves(name, getattr(self, name)):
                columns[path] = _series(array)
        for name in ("terminated", "truncated", "last"):
            columns[name] = polars.Series(getattr(self, name))
        return polars.DataFrame(columns)

    def __repr__(self) -> str:
        episodes = f"{len(self.episodes):,} episode{'' if len(self.episodes) == 1 else 's'}"
        open_ones = ", ".join(f"{count:,} {ending}" for ending, count in self.unfinished.items())
        said = f", unfinished: {open_ones}" if open_ones else ""
        return f"<Transitions: {len(self):,} of {episodes}{said}>"


_COLUMNS = (
    "observation",
    "action",
    "reward",
    "next_observation",
    "terminated",
    "truncated",
    "last",
    "step",
)

Source = Store | Episodes | Iterable[EpisodeEvidence]


def transitions(source: Source, where: str | None = None) -> Transitions:
    """All transitions of some episodes, in memory.

    Args:
        source: a store, what its `episodes` gave, or episodes.
        where: for a store: an SQL condition on the table `episodes`, such as
            ``"agent_id = 'explorer' AND ending = 'terminated'"``.

    Raises:
        TypeError: when an argument is of the wrong type.
        ValueError: when there is no episode, the episodes have different spaces, a flag was no
            boolean, or an observation does not have its space's shape.
        QueryError: when `where` is no condition.

    Example:
        >>> import gymnasium
        >>> from envbench import capture_episodes, connect
        >>> with connect(":memory:") as store:
        ...     env = capture_episodes(gymnasium.make("FrozenLake-v1"), exporter=store)
        ...     _ = env.reset(seed=1)
        ...     for _ in range(3):
        ...         _ = env.step(1)
        ...     env.close()
        ...     data = transitions(store)
        >>> data.observation.dtype, data.action.tolist(), data.step.tolist()
        (dtype('int64'), [1, 1, 1], [1, 2, 3])
    """
    parts = list(transition_batches(source, where))
    joined = {name: join([getattr(part, name) for part in parts]) for name in _COLUMNS}
    episodes: list[EpisodeSummary] = []
    owners = []
    for part in parts:
        # an episode that was split goes on in the next part
        is_continued = episodes and part.episodes[0].episode_id == episodes[-1].episode_id
        first = len(episodes) - 1 if is_continued else len(episodes)
        owners.append(part.episode + first)
        episodes[first:] = part.episodes
    return Transitions(
        **joined,
        episode=np.concatenate(owners),
        episodes=tuple(episodes),
        spaces=parts[0].spaces,
    )


def transition_batches(
    source: Source, where: str | None = None, *, steps: int | None = None
) -> Iterator[Transitions]:
    """The transitions of some episodes, a part at a time, in constant memory.

    Args:
        source: as for `transitions`.
        where: likewise.
        steps: how many steps a part has at most; by default 100,000, or as many as take 256 MB.
            Episodes are kept together where they fit.

    Yields:
        Transitions. An episode longer than `steps` is split: then the parts have the same episode.

    Raises:
        TypeError, ValueError: as `transitions`.
    """
    if steps is not None and (isinstance(steps, bool) or not isinstance(steps, int) or steps < 1):
        raise ValueError(f"steps must be an integer from 1, not {steps!r}")
    return _in_batches(_pieces(source, where), steps)


def _pieces(source: Any, where: str | None) -> Iterator[Piece]:
    """The episodes of a source, to be read."""
    if isinstance(source, Store):
        source = source.episodes(where)
    elif where is not None:
        raise TypeError("where= is for a store: select episodes with store.episodes(where)")
    if isinstance(source, Episodes):
        return stored_pieces(source)
    if isinstance(source, EpisodeEvidence):
        source = [source]
    if isinstance(source, str | bytes) or not isinstance(source, Iterable):
        raise TypeError(f"source must be a store or episodes, not {type(source).__name__}")
    return evidence_pieces(source)


def _in_batches(pieces: Iterator[Piece], steps: int | None) -> Iterator[Transitions]:
    builder: _Builder | None = None
    skipped: list[EpisodeSummary] = []
    for piece in pieces:
        if piece.initial is None:  # its reset failed, and it may have no spaces
            (skipped if builder is None else builder.episodes).append(_summary(piece, 0))
            continue
        if builder is None:
            builder = _Builder(piece, steps)
            builder.episodes += skipped
        builder.require_same_spaces(piece)
        yield from builder.add(piece)
    if builder is None:
        what = f": the resets of {len(skipped)} failed" if skipped else ""
        raise ValueError(f"there is no episode to take transitions from{what}")
    yield builder.flush()


class _Builder:
    """Collects rows of episodes, and turns them into transitions when they are many."""

    def __init__(self, piece: Piece, steps: int | None) -> None:
        self._first = piece
        self._spaces = piece.spaces
        self._observations = ColumnReader(piece.spaces.get("observation"))
        self._actions = ColumnReader(piece.spaces.get("action"))
        each = 2 * self._observations.bytes_each() + self._actions.bytes_each() + 100
        self._limit = steps or max(1, min(BATCH_STEPS, BATCH_BYTES // each))
        self.episodes: list[EpisodeSummary] = []
        self._clear()

    def _clear(self) -> None:
        self._rows = Rows()
        # texts of observations, and where in them each transition's own stands
        self._texts: list[str] = []
        self._before: list[int] = []
        self._owners: list[int] = []
        self._last: list[bool] = []
        self._pieces: list[Piece] = []

    def require_same_spaces(self, piece: Piece) -> None:
        """Refuse an episode with other spaces than the first one's."""
        if piece.spaces is self._spaces:
            return
        for name in ("observation", "action"):
            ours, theirs = self._spaces.get(name), piece.spaces.get(name)
            if ours != theirs:
                raise ValueError(
                    f"episodes have different {name} spaces, {_repr(ours)} in"
                    f" {self._first.episode_id} ({self._first.environment_id}) and"
                    f" {_repr(theirs)} in {piece.episode_id} ({piece.environment_id}): take them"
                    " apart with where="
                )

    def add(self, piece: Piece) -> Iterator[Transitions]:
        """Add the steps of an episode; gives what is full."""
        if self._before and len(self._before) + piece.n_steps > self._limit:
            yield self.flush()
        assert piece.initial is not None
        self._begin(piece, piece.initial, 0)
        count = 0
        for rows in piece.rows():
            while rows:
                room = self._limit - len(self._before)
                if not room:
                    carried = self._texts[-1]
                    yield self.flush()
                    self._begin(piece, carried, count)
                    continue
                now, rows = rows.split(room)
                count += len(now)
                self._extend(now, count)
        if count:
            self._last[-1] = True

    def _begin(self, piece: Piece, observation: str, count: int) -> None:
        self.episodes.append(_summary(piece, count))
        self._texts.append(observation)
        self._pieces.append(piece)

    def _extend(self, rows: Rows, count: int) -> None:
        position = len(self._texts) - 1
        self._before.extend(range(position, position + len(rows)))
        self._texts.extend(rows.observation)
        self._owners.extend([len(self.episodes) - 1] * len(rows))
        self._last.extend([False] * len(rows))
        self._rows.extend(rows)
        self.episodes[-1] = replace(self.episodes[-1], n_transitions=count)

    def flush(self) -> Transitions:
        """What was collected, as arrays."""
        rows = self._rows
        made = Transitions(
            **self._observed(),
            action=self._actions.read(rows.action, self._fetch),
            reward=np.array(rows.reward, np.float64),
            terminated=self._flags("terminated"),
            truncated=self._flags("truncated"),
            last=np.array(self._last, np.bool_),
            episode=np.array(self._owners, np.int64),
            step=np.array(rows.step, np.int64),
            episodes=tuple(self.episodes),
            spaces=self._spaces,
        )
        self.episodes = []
        self._clear()
        return made

    def _observed(self) -> dict[str, Columns]:
        seen = self._observations.read(self._texts, self._fetch)
        before = np.array(self._before, np.int64)
        return {"observation": take(seen, before), "next_observation": take(seen, before + 1)}

    def _flags(self, name: str) -> Array:
        flags = getattr(self._rows, name)
        if None in flags:
            at = flags.index(None)
            episode = self.episodes[self._owners[at]].episode_id
            raise ValueError(
                f"{name} was no boolean at step {self._rows.step[at]} of {episode}, so that nobody"
                " knows whether the episode ended there: leave it out with where="
            )
        return np.array(flags, np.bool_)

    def _fetch(self, digests: set[str]) -> dict[str, bytes]:
        """The content of large arrays, wherever in the episodes at hand they are."""
        found: dict[str, bytes] = {}
        waiting = list(self._pieces)
        while waiting and digests - found.keys():
            together = [each for each in waiting if each.store is waiting[0].store]
            waiting = [each for each in waiting if each.store is not waiting[0].store]
            found |= read_arrays(together, digests - found.keys())
        return found


def _summary(piece: Piece, n_transitions: int) -> EpisodeSummary:
    return EpisodeSummary(piece.episode_id, piece.ending, n_transitions, piece.n_steps, piece.seed)


def _repr(space: Json) -> str:
    return "none" if space is None else str(space["repr"])


def _leaves(name: str, columns: Columns) -> Iterator[tuple[str, Array]]:
    """Columns as single arrays, with names for them."""
    if isinstance(columns, dict):
        for key, part in columns.items():
            yield from _leaves(f"{name}.{key}", part)
    elif isinstance(columns, tuple):
        for i, part in enumerate(columns):
            yield from _leaves(f"{name}.{i}", part)
    else:
        yield name, columns


def _series(array: Array) -> polars.Series:
    import polars

    if array.dtype != object:
        return polars.Series(array)
    return polars.Series([encode(value).decode() for value in array], dtype=polars.String)
