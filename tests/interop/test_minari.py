from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from envbench import capture_episodes, connect
from envbench.environments import ScriptedPolicy, transitions
from envbench.interop.minari import to_minari
from tests.environments.test_transitions import IMAGE, Walk, walk
from tests.environments.worlds import ADD, Counter, counting

minari = pytest.importorskip("minari", reason='needs Minari: pip install "envbench[minari]"')


@pytest.fixture(autouse=True)
def datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where Minari keeps its data sets in these tests."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    return tmp_path / "minari"


def test_episodes_come_back_with_the_reset_first() -> None:
    with connect(":memory:") as store:
        first = walk([1, 2, 1], seed=5, store=store)
        walk([], store=store)
        second = walk([2] * 9, seed=4, store=store)
        third = walk([1, 3, 1], env=Walk(limit=2), store=store)
        to_minari(store, "walk/explorer-v0", author="us", description="walks")
    dataset = minari.load_dataset("walk/explorer-v0")
    assert (dataset.total_episodes, dataset.total_steps) == (3, 13)
    assert dataset.observation_space == spaces.Discrete(100)
    assert dataset.action_space == spaces.Discrete(4)
    found = list(dataset.iterate_episodes())
    assert found[0].observations.tolist() == [5, 6, 8, 9]
    assert found[0].actions.tolist() == [1, 2, 1]
    assert found[0].rewards.tolist() == [1.0, 2.0, 1.0]
    assert found[1].observations.tolist() == [4, 6, 8, 10, 12, 14, 16, 18, 20]
    assert found[2].observations.tolist() == [0, 1, 2]
    # flags as they were recorded: the first episode ended with neither
    assert [list(each.terminations[-1:]) for each in found] == [[False], [True], [False]]
    assert [list(each.truncations[-1:]) for each in found] == [[False], [False], [True]]
    told = list(dataset.storage.get_episode_metadata(range(3)))
    assert [each["envbench_ending"] for each in told] == ["policy_stop", "terminated", "truncated"]
    assert [each["seed"] for each in told] == [5, 4, 0]
    ids = [first.episode_id, second.episode_id, third.episode_id]
    assert [each["envbench_episode_id"] for each in told] == ids


def test_long_episodes_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transitions, "BATCH_STEPS", 2)
    episodes = [walk([1, 2, 1, 0, 0], seed=5), walk([2], seed=4), walk([1, 1], seed=3)]
    found = list(to_minari(episodes, "walk/parts-v0").iterate_episodes())
    assert [each.observations.tolist() for each in found] == [
        [5, 6, 8, 9, 9, 9],
        [4, 6],
        [3, 4, 5],
    ]
    assert [len(each.actions) for each in found] == [5, 1, 2]


@pytest.mark.parametrize(
    ("space", "show"),
    [
        (spaces.Box(-1, 200, (3,), np.float32), lambda i: np.array([i, i / 3, 0], np.float32)),
        (spaces.Box(0, 255, (64, 64, 3), np.uint8), lambda i: IMAGE[i]),
        (spaces.MultiBinary(3), lambda i: np.array([i % 2, 1, 0], np.int8)),
        (
            spaces.Dict({"at": spaces.Discrete(99), "in": spaces.Box(0, 99, (2,))}),
            lambda i: {"at": np.int64(i), "in": np.array([i, 0], np.float32)},
        ),
        (
            spaces.Tuple([spaces.Discrete(99), spaces.Box(0, 99, (2,))]),
            lambda i: (np.int64(i), np.array([i, 0], np.float32)),
        ),
        (spaces.Text(5), str),
    ],
    ids=lambda value: str(value)[:12],
)
def test_observations_of_every_space_that_minari_keeps(space: Any, show: Any) -> None:
    env = Walk(show=show)
    env.observation_space = space
    dataset = to_minari([walk([1, 2], seed=5, env=env)], "walk/space-v0")
    assert dataset.observation_space == space
    (found,) = dataset.iterate_episodes()
    if isinstance(space, spaces.Dict):
        for key in space:
            np.testing.assert_array_equal(
                found.observations[key], [show(i)[key] for i in (5, 6, 8)]
            )
    elif isinstance(space, spaces.Tuple):
        for k in range(2):
            np.testing.assert_array_equal(found.observations[k], [show(i)[k] for i in (5, 6, 8)])
    else:
        # an image is the very same: nothing was compressed with a loss
        np.testing.assert_array_equal(found.observations, [show(i) for i in (5, 6, 8)])


def test_an_environment_can_be_made_again(tmp_path: Path) -> None:
    path = tmp_path / "store.duckdb"
    env = capture_episodes(gymnasium.make("FrozenLake-v1", is_slippery=False), exporter=path)
    env.reset(seed=1)
    for action in (2, 2, 1, 1, 1, 2):
        env.step(action)
    env.close()
    with connect(path) as store:
        dataset = to_minari(
            store, "lake/path-v0", "episode_return = 1.0",
            env=gymnasium.make("FrozenLake-v1", is_slippery=False),
        )  # fmt: skip
    (found,) = dataset.iterate_episodes()
    again = dataset.recover_environment()
    again.reset(seed=1)
    seen = [again.step(int(action))[0] for action in found.actions]
    assert [0, *seen] == found.observations.tolist() == [0, 1, 2, 6, 10, 14, 15]


def test_what_cannot_be_written(datasets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="there is no transition in the episodes: nothing to"):
        to_minari([walk([])], "walk/none-v0")
    rollout = Counter().rollout(counting(), ScriptedPolicy([ADD, "bye"]))
    with pytest.raises(TypeError, match=r"Gymnasium's own spaces, and observation has Observation"):
        to_minari([rollout.episode], "walk/ours-v0")  # type: ignore[list-item]
    odd = Walk(show=lambda i: (i, 1))
    odd.observation_space = spaces.Sequence(spaces.Discrete(99))
    with pytest.raises(TypeError, match="Minari cannot keep these spaces: "):
        to_minari([walk([1], env=odd)], "walk/odd-v0")
    assert list(datasets.rglob("*-v0")) == []
    to_minari([walk([1])], "walk/twice-v0")
    with pytest.raises(ValueError, match="already exists"):
        to_minari([walk([1])], "walk/twice-v0")
    monkeypatch.setitem(sys.modules, "minari", None)
    with pytest.raises(ImportError, match=r'pip install "envbench\[minari\]"'):
        to_minari([walk([1])], "walk/gone-v0")
