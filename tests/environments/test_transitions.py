from __future__ import annotations

import dataclasses
import doctest
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import polars as pl
import pytest
from gymnasium import spaces

from envbench import EvalCase, Store, capture_episode, capture_episodes, connect
from envbench.environments import (
    ScriptedPolicy,
    TaskDataset,
    ToolCall,
    columns,
    pieces,
    run_tasks,
)
from envbench.environments import transitions as module
from envbench.environments.columns import ColumnReader, stack
from envbench.environments.transitions import Transitions, transition_batches, transitions
from envbench.evidence import EpisodeEvidence
from envbench.evidence.spaces import SpaceCodec
from envbench.evidence.tagged import Encoding
from envbench.store import QueryError
from tests.environments.worlds import ADD, Counter, counting

CASE = EvalCase("walk", case_id="walk")


class Walk(gymnasium.Env[Any, Any]):
    """Walks along a line; the observation is the place. Cut short after `limit` steps."""

    action_space: spaces.Space[Any] = spaces.Discrete(4)
    observation_space: spaces.Space[Any] = spaces.Discrete(100)

    def __init__(self, limit: int = 100, show: Callable[[int], Any] = int) -> None:
        self.limit, self.show, self.place, self.n = limit, show, 0, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.place, self.n = (seed or 0) % 10, 0
        return self.show(self.place), {}

    def step(self, action: Any) -> Any:
        if action == 3:
            raise RuntimeError("stumbled")
        self.n += 1
        self.place += int(action)
        ended = self.place >= 20
        return self.show(self.place), float(action), ended, self.n >= self.limit and not ended, {}


def walk(
    actions: list[Any], *, seed: int = 0, store: Any = None, env: Any = None, **how: Any
) -> EpisodeEvidence:
    made = env or Walk()

    def interact(guarded: Any, observation: Any, info: Any) -> None:
        for action in actions:
            try:
                _, _, terminated, truncated, _ = guarded.step(action)
            except (RuntimeError, ValueError):
                continue
            if terminated or truncated:
                return

    return capture_episode(
        lambda: made, interact, case=CASE, environment_id="walk", observer_id="none",
        observe=dict, seed=seed, max_steps=50, store=store, **how,
    )  # fmt: skip


@pytest.fixture
def store() -> Iterator[Store]:
    with connect(":memory:") as opened:
        yield opened


def equal(one: Any, other: Any) -> bool:
    """Whether two columns are the same, dtype and all."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    assert one.dtype == other.dtype
    if one.dtype == object:
        return bool(list(one) == list(other))
    return bool(np.array_equal(one, other, equal_nan=one.dtype.kind == "f"))


NAMES = (
    "observation", "action", "reward", "next_observation", "terminated", "truncated", "last",
    "episode", "step", "episode_id",
)  # fmt: skip


def same(one: Transitions, other: Transitions) -> bool:
    return all(equal(getattr(one, n), getattr(other, n)) for n in NAMES) and (
        one.episodes == other.episodes
    )


def test_the_examples_in_the_documentation_run() -> None:
    assert doctest.testmod(module).failed == 0
    assert doctest.testmod(columns).failed == 0


def test_transitions_by_hand(store: Store) -> None:
    first = walk([1, 2, 1], seed=5, store=store)
    second = walk([2] * 9, seed=4, store=store)
    third = walk([1, 1], env=Walk(limit=2), store=store)
    data = transitions(store)
    assert data.observation.tolist() == [5, 6, 8, 4, 6, 8, 10, 12, 14, 16, 18, 0, 1]
    assert data.next_observation.tolist() == [6, 8, 9, 6, 8, 10, 12, 14, 16, 18, 20, 1, 2]
    assert data.action.tolist() == [1, 2, 1] + [2] * 8 + [1, 1]
    assert data.reward.tolist() == [1.0, 2.0, 1.0] + [2.0] * 8 + [1.0, 1.0]
    assert data.step.tolist() == [1, 2, 3, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2]
    assert data.episode.tolist() == [0] * 3 + [1] * 8 + [2] * 2
    assert np.flatnonzero(data.terminated).tolist() == [10]
    assert np.flatnonzero(data.truncated).tolist() == [12]
    assert np.flatnonzero(data.last).tolist() == [2, 10, 12]
    ids = [first.episode_id] * 3 + [second.episode_id] * 8 + [third.episode_id] * 2
    assert data.episode_id.tolist() == ids
    assert [each.ending for each in data.episodes] == ["policy_stop", "terminated", "truncated"]
    assert [each.n_transitions for each in data.episodes] == [3, 8, 2]
    assert [each.seed for each in data.episodes] == [5, 4, 0]
    assert [each.complete for each in data.episodes] == [False, True, True]
    assert data.unfinished == {"policy_stop": 1}
    assert repr(data) == "<Transitions: 13 of 3 episodes, unfinished: 1 policy_stop>"
    dtypes = [data.observation.dtype, data.action.dtype, data.reward.dtype, data.last.dtype]
    assert dtypes == [np.int64, np.int64, np.float64, np.bool_]


def test_they_are_those_of_the_store_s_view(store: Store) -> None:
    walk([1, 3, 9, 2, 3], seed=5, store=store)
    walk([3, 3, 1], seed=1, store=store)
    walk([], store=store)
    walk([3], store=store)
    data = transitions(store)
    view = [
        (episode, step, int(seen[1:-1]), int(action[1:-1]), reward, int(after[1:-1]), *flags)
        for episode, step, seen, action, reward, after, *flags, _ in store.transitions()
    ]
    ours = zip(
        data.episode_id, data.step.tolist(), data.observation.tolist(), data.action.tolist(),
        data.reward.tolist(), data.next_observation.tolist(), data.terminated.tolist(),
        data.truncated.tolist(), strict=True,
    )  # fmt: skip
    assert list(ours) == view
    # refused actions (9) and steps that raised (3) are none: the agent still held what it had got
    assert data.observation.tolist() == [5, 6, 1]
    assert data.step.tolist() == [1, 4, 3]
    assert data.last.tolist() == [False, True, True]
    assert [(each.n_transitions, each.n_steps) for each in data.episodes] == [
        (2, 5),
        (1, 3),
        (0, 0),
        (0, 1),
    ]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 13, 14, 1000])
def test_parts_of_any_size_are_the_same_transitions(
    store: Store, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    for actions, seed in (([1, 2, 1], 5), ([2] * 9, 4), ([], 1), ([1, 3, 1], 1), ([1] * 8, 2)):
        walk(actions, seed=seed, store=store)
    whole = transitions(store)
    monkeypatch.setattr(pieces, "STEPS_AT_ONCE", 4)
    monkeypatch.setattr(pieces, "EPISODES_AT_ONCE", 2)
    parts = list(transition_batches(store, steps=size))
    assert all(len(part) <= size for part in parts)
    assert np.concatenate([part.observation for part in parts]).tolist() == (
        whole.observation.tolist()
    )
    assert np.flatnonzero(np.concatenate([part.last for part in parts])).tolist() == (
        np.flatnonzero(whole.last).tolist()
    )
    monkeypatch.setattr(module, "BATCH_STEPS", size)
    assert same(transitions(store), whole)
    # a part has whole episodes where they fit
    if size == 13:
        assert [len(part.episodes) for part in parts] == [3, 2]


# Spaces.

IMAGE = np.random.default_rng(3).integers(0, 255, (100, 64, 64, 3), np.uint8)
SPACES: list[tuple[spaces.Space[Any], Callable[[int], Any]]] = [
    (spaces.Box(-1, 200, (3,), np.float32), lambda i: np.array([i, i / 3, -1], np.float32)),
    (spaces.Box(-1, 200, (), np.float64), lambda i: np.array(i / 7)),
    (spaces.Box(0, 255, (64, 64, 3), np.uint8), lambda i: IMAGE[i]),
    (spaces.Box(0, 255, (2, 0), np.uint8), lambda i: np.zeros((2, 0), np.uint8)),
    (spaces.Box(-(2**63), 2**63 - 1, (1,), np.int64), lambda i: np.array([2**62 + i])),
    (spaces.Discrete(500, start=-5, dtype=np.int32), np.int32),
    (spaces.MultiDiscrete([200, 3]), lambda i: np.array([i, 1])),
    (spaces.MultiBinary([2, 2]), lambda i: np.array([[0, 1], [i % 2, 0]], np.int8)),
    (spaces.Text(5, charset="0123456789\u2028\"'"), lambda i: f"{i}\u2028\""),
    (spaces.Sequence(spaces.Discrete(100)), lambda i: (i, 1) if i % 2 else ()),
    (
        spaces.Dict({"at": spaces.Discrete(100), "in": spaces.Dict({"x": spaces.Box(0, 9, (2,))})}),
        lambda i: {"at": np.int64(i), "in": {"x": np.array([i, 0], np.float32)}},
    ),
    (
        spaces.Tuple([spaces.Discrete(100), spaces.Text(3), spaces.MultiBinary(2)]),
        lambda i: (np.int64(i), str(i), np.array([1, 0], np.int8)),
    ),
    (
        spaces.Dict({"image": spaces.Box(0, 255, (64, 64, 3), np.uint8)}),
        lambda i: {"image": IMAGE[i]},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("space", "show"), SPACES, ids=[str(space)[:30] for space, _ in SPACES])
def test_every_space_comes_back_as_it_was(
    tmp_path: Path, space: spaces.Space[Any], show: Callable[[int], Any]
) -> None:
    env = Walk(show=show)
    env.observation_space = space
    with connect(tmp_path / "store.duckdb") as store:
        episodes = [
            walk([1, 2], seed=5, env=env, store=store),
            walk([2], seed=1, env=env, store=store),
        ]
        found = transitions(store)
        assert equal(found.observation, stack(space, [show(i) for i in (5, 6, 1)]))
        assert equal(found.next_observation, stack(space, [show(i) for i in (6, 8, 3)]))
        for episode in episodes:
            episode.save_json(tmp_path / f"{episode.episode_id}.json")
        loaded = [
            EpisodeEvidence.load_json(tmp_path / f"{episode.episode_id}.json")
            for episode in episodes
        ]
        for source in (episodes, loaded, store.episodes(), list(store.episodes()), iter(loaded)):
            assert same(transitions(source), found)
        assert same(transitions(loaded[0]), found.of_episode(0))
        for size in (1, 2):
            parts = list(transition_batches(store, steps=size))
            assert equal(columns.join([part.observation for part in parts]), found.observation)
        frame = found.pl()
        assert frame.height == 3
        assert frame["episode_id"].to_list() == list(found.episode_id)


def test_actions_of_a_dict_space(store: Store) -> None:
    class Moves(Walk):
        action_space = spaces.Dict({"by": spaces.Discrete(3), "how": spaces.Box(0, 1, (1,))})

        def step(self, action: Any) -> Any:
            return super().step(action["by"])

    walk([{"by": 1, "how": np.array([0.5], np.float32)}] * 2, env=Moves(), store=store)
    data = transitions(store)
    assert data.action["by"].tolist() == [1, 1]
    assert data.action["how"].tolist() == [[0.5], [0.5]]
    assert data.pl().columns == [
        "episode_id", "step", "observation", "action.by", "action.how", "reward",
        "next_observation", "terminated", "truncated", "last",
    ]  # fmt: skip


def test_what_does_not_fit_its_space(store: Store) -> None:
    env = Walk(show=lambda i: np.array([math.nan if i == 1 else i], np.float32))
    env.observation_space = spaces.Box(0, 100, (1,), np.float32)
    walk([1, 1], env=env, store=store)
    data = transitions(store)
    assert data.observation.dtype == np.float32
    np.testing.assert_array_equal(data.observation, [[0], [math.nan]])
    # a wider dtype is kept, not cut
    env.show = lambda i: np.array([i + 1e-12])
    exact = transitions(walk([1, 1], env=env))
    assert exact.observation.dtype == np.float64
    assert exact.observation[1, 0] == 1 + 1e-12
    env.show = lambda i: np.zeros(i + 1, np.float32)
    with pytest.raises(ValueError, match=r"a value of shape \(2,\) and dtype float32 is no sample"):
        transitions(walk([1, 1], env=env))


@pytest.mark.parametrize("shape", [(), (2,), (2, 3), (3, 1, 4)])
def test_other_shapes_of_the_same_size_are_not_mixed_up(shape: tuple[int, ...]) -> None:
    box = spaces.Box(-9, 9, shape, np.float32)
    n = math.prod(shape)
    others = {(): (1,), (2,): (1, 2), (2, 3): (3, 2), (3, 1, 4): (2, 2, 3)}
    for other in (others[shape], (n + 1,)):
        env = Walk(show=lambda i, other=other: np.zeros(other if i else shape, np.float32))
        env.observation_space = box
        with pytest.raises(ValueError, match="and dtype float32 is no sample of Box"):
            transitions(walk([1, 1], env=env))
    # rows of one and of three, where two were declared
    env = Walk(show=lambda i: np.zeros(1 if i % 2 else 3, np.float32))
    env.observation_space = spaces.Box(-9, 9, (2,), np.float32)
    with pytest.raises(ValueError, match="is no sample of Box"):
        transitions(walk([1, 1, 1], env=env))


def test_rewards_and_flags_that_are_none(store: Store) -> None:
    class Odd(Walk):
        def __init__(self, reward: Any, flag: Any) -> None:
            super().__init__()
            self.odd = reward, flag

        def step(self, action: Any) -> Any:
            observation, *_ = super().step(action)
            return observation, self.odd[0], self.odd[1], False, {}

    data = transitions(walk([1], env=Odd("much", False)))
    assert np.isnan(data.reward).tolist() == [True]
    assert transitions(walk([1], env=Odd(math.inf, False))).reward.tolist() == [math.inf]
    episode = walk([1], env=Odd(1.0, "yes"))
    with pytest.raises(
        ValueError, match=f"terminated was no boolean at step 1 of {episode.episode_id}"
    ):
        transitions(episode)


# Which episodes.


def test_every_way_of_ending(tmp_path: Path) -> None:
    path = tmp_path / "store.duckdb"
    env = capture_episodes(Walk(limit=3), exporter=path)
    for actions in ([2, 2, 2], [2]):
        env.reset(seed=0)
        for action in actions:
            env.step(action)
    env.reset(seed=9)
    for _ in range(2):
        env.step(2)
    env.reset(seed=18)
    env.step(2)
    env.close()

    def give_up(guarded: Any, observation: Any, info: Any) -> None:
        guarded.step(1)
        raise RuntimeError("gave up")

    with connect(path) as store:
        walk([1] * 60, store=store)
        capture_episode(
            Walk, give_up, case=CASE, environment_id="walk", observer_id="n", observe=dict,
            seed=1, max_steps=9, store=store,
        )  # fmt: skip
        data = transitions(store)
        assert [(each.ending, each.n_transitions) for each in data.episodes] == [
            ("truncated", 3),
            ("reset_early", 1),
            ("reset_early", 2),
            ("closed_early", 1),
            ("terminated", 20),
            ("error", 1),
        ]
        assert data.unfinished == {"reset_early": 2, "closed_early": 1, "error": 1}
        assert np.flatnonzero(data.last).tolist() == [2, 3, 5, 6, 26, 27]
        assert data.truncated[data.last].tolist() == [True] + [False] * 5
        complete = transitions(store, "ending IN ('terminated', 'truncated')")
        assert complete.unfinished == {}
        assert len(complete) == 23
        assert len(transitions(store, "seed = 18 -- a comment")) == 1
        assert same(transitions(store.episodes("seed = 18")), transitions(store, "seed = 18"))


def test_failed_resets_and_nothing_at_all(store: Store) -> None:
    class Stuck(Walk):
        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            raise OSError("no line to walk on")

    walk([1], env=Stuck(), store=store)
    with pytest.raises(
        ValueError, match="no episode to take transitions from: the resets of 1 failed"
    ):
        transitions(store)
    walk([1], store=store)
    walk([1], env=Stuck(), store=store)
    data = transitions(store)
    assert [(each.ending, each.n_transitions) for each in data.episodes] == [
        ("error", 0),
        ("policy_stop", 1),
        ("error", 0),
    ]
    assert data.episode.tolist() == [1]
    for source in ([], store.episodes("seed = 77")):
        with pytest.raises(ValueError, match="there is no episode to take transitions from"):
            transitions(source)
    no_steps = transitions(walk([]))
    assert (len(no_steps), no_steps.observation.shape, no_steps.observation.dtype) == (
        0,
        (0,),
        "int64",
    )
    assert no_steps.pl().height == 0


def test_an_episode_kept_without_steps(tmp_path: Path) -> None:
    env = capture_episodes(Walk(), exporter=tmp_path / "store.duckdb", capture_steps=False)
    env.reset(seed=0)
    env.step(1)
    env.close()
    with connect(tmp_path / "store.duckdb") as store:
        data = transitions(store)
    assert len(data) == 0
    assert data.episodes[0].n_transitions == 0


def test_different_spaces_are_refused_with_both_places(store: Store) -> None:
    one = walk([1], store=store)
    env = Walk()
    env.observation_space = spaces.Discrete(300)
    other = walk([1], env=env, store=store)
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the message is looked at
        transitions(store)
    assert str(refused.value) == (
        f"episodes have different observation spaces, Discrete(100) in {one.episode_id} (walk) and"
        f" Discrete(300) in {other.episode_id} (walk): take them apart with where="
    )
    assert len(transitions(store, f"episode_id = '{other.episode_id}'")) == 1


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda s: transitions(3), TypeError, "source must be a store or episodes, not int"),
        (lambda s: transitions("x.duckdb"), TypeError, "source must be a store or episodes, not"),
        (lambda s: transitions([3]), TypeError, "source must hold episodes, not int"),
        (lambda s: transitions([], "1 = 1"), TypeError, "where= is for a store"),
        (lambda s: transitions(s, "1 = 1); DROP TABLE steps; --"), QueryError, "is not one SQL"),
        (lambda s: transitions(s, "nothing = 1"), QueryError, "nothing"),
        (lambda s: transition_batches(s, steps=0), ValueError, "steps must be an integer from 1"),
        (lambda s: transition_batches(s, steps=True), ValueError, "steps must be an integer from"),
        (lambda s: transition_batches(s, steps=1.5), ValueError, "steps must be an integer from 1"),
        (lambda s: transitions(walk([1]))[0], TypeError, "taken by a slice or an array of"),
    ],
)
def test_arguments_are_checked(
    store: Store, call: Callable[[Store], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call(store)


def test_some_of_them_and_those_of_one_episode(store: Store) -> None:
    walk([1, 2, 1], seed=5, store=store)
    walk([2, 2], seed=4, store=store)
    data = transitions(store)
    assert data[1:4].observation.tolist() == [6, 8, 4]
    assert data[np.array([4, 0])].episode_id.tolist() == [
        data.episodes[1].episode_id,
        data.episodes[0].episode_id,
    ]
    assert data[data.reward == 2.0].step.tolist() == [2, 1, 2]
    own = data.of_episode(1)
    assert own.observation.tolist() == [4, 6]
    assert own.episodes == data.episodes[1:]
    assert own.episode.tolist() == [0, 0]


# Forms.


def test_a_polars_frame(store: Store) -> None:
    env = Walk(show=lambda i: np.array([i, i / 2], np.float32))
    env.observation_space = spaces.Box(0, 100, (2,), np.float32)
    episode = walk([1, 2], env=env, store=store)
    frame = transitions(store).pl()
    assert frame.schema == {
        "episode_id": pl.String,
        "step": pl.Int64,
        "observation": pl.Array(pl.Float32, 2),
        "action": pl.Int64,
        "reward": pl.Float64,
        "next_observation": pl.Array(pl.Float32, 2),
        "terminated": pl.Boolean,
        "truncated": pl.Boolean,
        "last": pl.Boolean,
    }
    assert frame.row(1) == (
        episode.episode_id, 2, [1.0, 0.5], 2, 2.0, [3.0, 1.5], False, False, True,
    )  # fmt: skip


def test_environments_of_ours_give_objects(store: Store) -> None:
    env = Counter()
    env.rollout(counting(), ScriptedPolicy([ADD, ToolCall("nope"), "bye"]), store=store)
    data = transitions(store)
    assert data.observation[0] == {"asked": "Count to 3", "count": 0}
    assert data.next_observation[0] == {"asked": "Count to 3", "count": 1}
    assert list(data.action) == [
        {"name": "add", "arguments": {}},
        {"name": "nope", "arguments": {}},
        "bye",
    ]
    assert data.pl()["action"].to_list()[:1] == ['{"arguments":{},"name":"add"}']


def test_the_reader_of_columns_agrees_with_the_codec() -> None:
    for space, show in SPACES:
        codec, found = SpaceCodec(space), Encoding()
        texts = [text.decode() for text in codec.encode([show(i) for i in range(8)], found)]
        read = ColumnReader(codec.description).read(texts, lambda _, found=found: found.arrays)
        assert equal(read, stack(space, [show(i) for i in range(8)]))


@pytest.mark.slow
def test_a_long_episode_in_constant_memory(tmp_path: Path) -> None:
    with connect(tmp_path / "store.duckdb") as store:
        env = capture_episodes(Walk(limit=120_000, show=lambda i: i % 100), exporter=store)
        env.reset(seed=0)
        for _ in range(120_000):
            env.step(0)
        env.close()
        parts = [(len(part), part.step[0], part.step[-1], part.last.any()) for part in
                 transition_batches(store, steps=50_000)]  # fmt: skip
        assert parts == [
            (50_000, 1, 50_000, False),
            (50_000, 50_001, 100_000, False),
            (20_000, 100_001, 120_000, True),
        ]


def test_rollouts_give_their_transitions() -> None:
    runs = run_tasks(
        TaskDataset("two", "1", [counting(2), counting(1)]),
        Counter,
        lambda: ScriptedPolicy([ADD, ADD]),
    )
    assert runs.transitions().step.tolist() == [1, 2, 1]
    first = runs[0].transitions()
    assert (first.reward.tolist(), first.terminated.tolist()) == ([0.0, 0.0], [False, True])
    with pytest.raises(ValueError, match="the episode has not ended"):
        dataclasses.replace(runs[0], episode=None).transitions()
