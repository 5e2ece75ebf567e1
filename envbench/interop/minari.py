"""Minari: recorded episodes as a data set for offline learning.

Needs the package ``minari`` (``pip install "envbench[minari]"``).
"""

from __future__ import annotations

import importlib.util
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from envbench.environments.columns import Columns, join, take
from envbench.environments.transitions import Source, Transitions, transition_batches
from envbench.evidence.spaces import rebuild

if TYPE_CHECKING:
    from minari import MinariDataset


def to_minari(
    source: Source,
    dataset_id: str,
    where: str | None = None,
    *,
    env: Any = None,
    **described: Any,
) -> MinariDataset:
    """Write the transitions of some episodes as a Minari data set.

    Each episode has the observation of its reset first, and so one observation more than actions.
    Values and flags are kept as they were recorded: images are not compressed with a loss, and an
    episode that no environment ended (stopped by the agent, at a step limit, by an error) has
    neither flag at its end. How each one ended is in its metadata, with its id:
    ``envbench_ending``, ``envbench_episode_id``. Episodes without a transition are left out.

    Args:
        source: a store, what its `episodes` gave, or episodes.
        dataset_id: the data set's name for Minari, such as ``"lake/explorer-v0"``; it is written
            where Minari keeps its own (``MINARI_DATASETS_PATH``).
        where: for a store: an SQL condition on the table `episodes`.
        env: the environment, its spec or its registered id, for Minari to make it again.
        described: what else `minari.create_dataset_from_buffers` takes, such as `author`,
            `algorithm_name` and `description`.

    Returns:
        The data set.

    Raises:
        ImportError: without Minari.
        TypeError: when the spaces are such that Minari cannot keep their samples.
        ValueError: when there is no transition, the episodes have different spaces, or there is a
            data set of this name.
    """
    try:
        import minari
    except ImportError as error:
        raise ImportError(
            'to_minari needs the package minari: pip install "envbench[minari]"'
        ) from error
    batches = transition_batches(source, where)
    first = next(batches)
    spaces = {name: _space(first, name) for name in ("observation", "action")}
    told: list[dict[str, Any]] = []
    buffers = _buffers(_with_first(first, batches), told)
    one = next(buffers, None)
    if one is None:
        raise ValueError("there is no transition in the episodes: nothing to write")
    with warnings.catch_warnings(), _removed_on_failure(dataset_id):
        # Minari asks for each description that is left out
        warnings.filterwarnings("ignore", message=".*is set to None")
        warnings.filterwarnings("ignore", message="env_spec is None")
        dataset = minari.create_dataset_from_buffers(
            dataset_id,
            _with_first(one, buffers),
            env=env,
            observation_space=spaces["observation"],
            action_space=spaces["action"],
            **{"jpeg_encoding": False, "data_format": _data_format(), **described},
        )
        dataset.storage.update_episode_metadata(told)
    return dataset


@contextmanager
def _removed_on_failure(dataset_id: str) -> Iterator[None]:
    """Leave no half of a data set behind, which would stand in the way of the next try."""
    from minari.storage import get_dataset_path

    path = Path(get_dataset_path(dataset_id))
    is_new = not path.exists()
    try:
        yield
    except BaseException as error:
        if is_new:
            shutil.rmtree(path, ignore_errors=True)
        if isinstance(error, NotImplementedError):
            raise TypeError(f"Minari cannot keep these spaces: {error}") from error
        raise


def _data_format() -> str:
    """The format that can be written with what is installed."""
    return "hdf5" if importlib.util.find_spec("h5py") is not None else "arrow"


def _space(batch: Transitions, name: str) -> Any:
    description = batch.spaces.get(name)
    space = rebuild(description)
    if not type(space).__module__.startswith("gymnasium.spaces."):
        kind = "none" if description is None else description["repr"]
        raise TypeError(f"Minari keeps samples of Gymnasium's own spaces, and {name} has {kind}")
    return space


def _with_first(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest


def _buffers(batches: Iterator[Transitions], told: list[dict[str, Any]]) -> Iterator[Any]:
    """One buffer an episode; `told` takes up what is said of each."""
    from minari.data_collector import EpisodeBuffer

    for parts in _by_episode(batches):
        summary = parts[-1].episodes[0]
        observations = [part.observation for part in parts]
        final = take(parts[-1].next_observation, slice(-1, None))
        told.append({"envbench_episode_id": summary.episode_id, "envbench_ending": summary.ending})
        yield EpisodeBuffer(
            id=len(told) - 1,
            seed=summary.seed,
            observations=_listed(join([*observations, final])),
            actions=_listed(join([part.action for part in parts])),
            rewards=np.concatenate([part.reward for part in parts]),
            terminations=np.concatenate([part.terminated for part in parts]),
            truncations=np.concatenate([part.truncated for part in parts]),
        )


def _by_episode(batches: Iterator[Transitions]) -> Iterator[list[Transitions]]:
    """The parts of each episode that has transitions; a long one is in several batches."""
    open_parts: list[Transitions] = []
    for batch in batches:
        for position, summary in enumerate(batch.episodes):
            if open_parts and open_parts[0].episodes[0].episode_id != summary.episode_id:
                yield open_parts
                open_parts = []
            own = batch.of_episode(position)
            if len(own):
                open_parts.append(own)
    if open_parts:
        yield open_parts


def _listed(columns: Columns) -> Any:
    """Columns as Minari takes them: texts in a list."""
    if isinstance(columns, dict):
        return {key: _listed(part) for key, part in columns.items()}
    if isinstance(columns, tuple):
        return tuple(map(_listed, columns))
    return columns.tolist() if columns.dtype == object else columns
