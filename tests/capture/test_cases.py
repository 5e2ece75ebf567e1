"""Small inputs that broke other recorders, each as a test of its whole kind.

The numbers are those of the list of cases: 1 reused buffers, 2 NumPy in infos, 3 broken contracts,
4 early ends and errors, 6 spaces.
"""

from __future__ import annotations

import collections
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import (
    Box,
    Dict,
    Discrete,
    Graph,
    GraphInstance,
    MultiBinary,
    MultiDiscrete,
    OneOf,
    Sequence,
    Text,
    Tuple,
)

from envbench.capture import capture_episodes
from envbench.evidence import EpisodeEvidence
from envbench.evidence.portable import canonical, parse
from envbench.evidence.tagged import Named
from envbench.store import Store, connect

Capture = Callable[..., EpisodeEvidence]
Scripted = Any


def record(how: str, env: Any, actions: list[Any], capture: Capture, store: Store) -> Any:
    """An episode as it is read back, captured in one of the two ways."""
    if how == "episode":
        return store.episode(capture(env, actions, store=store).episode_id, verify=True)
    wrapped = capture_episodes(env, exporter=store)
    wrapped.reset(seed=7)
    for action in actions:
        wrapped.step(action)
    wrapped.close()
    episode = list(store.episodes())[-1]
    assert episode.verify() == []
    return episode


WAYS = pytest.mark.parametrize("how", ["episode", "loop"])


# 1: one object, changed and returned again (Gymnasium #1681)


class Reusing(gymnasium.Env[Any, Any]):
    """Returns one observation and one info, changed in place, and has one state."""

    action_space = Box(-9, 9, (2,), np.int64)

    def __init__(self, kind: str) -> None:
        self.array = np.zeros(3, np.int64)
        self.kind = kind
        self.observation_space = {
            "array": Box(0, 9, (3,), np.int64),
            "view": Box(0, 9, (2,), np.int64),
            "dict": Dict({"a": Box(0, 9, (3,), np.int64)}),
            "tuple": Tuple([Box(0, 9, (3,), np.int64)]),
            "large": Box(0, 255, (64, 64), np.uint8),
        }[kind]
        self.large = np.zeros((64, 64), np.uint8)
        whole = {"a": self.array}
        self.observation: Any = {
            "array": self.array,
            "view": self.array[::2],
            "dict": whole,
            "tuple": (self.array,),
            "large": self.large,
        }[kind]
        self.info: dict[str, Any] = {"n": 0, "array": self.array, "rows": [{"n": 0}]}

    def show(self, n: int) -> None:
        self.array.fill(n)
        self.large.fill(n)
        self.info["n"] = n
        self.info["rows"][0]["n"] = n

    def reset(self, **given: Any) -> Any:
        self.show(0)
        return self.observation, self.info

    def step(self, action: Any) -> Any:
        self.show(self.info["n"] + 1)
        return self.observation, 0.0, self.info["n"] == 3, False, self.info


def number(observation: Any) -> int:
    """The one number that an observation is full of."""
    parts = observation.values() if isinstance(observation, dict) else observation
    values = {int(value) for part in parts for value in np.ravel(part)}
    (value,) = values
    return value


@WAYS
@pytest.mark.parametrize("kind", ["array", "view", "dict", "tuple", "large"])
def test_a_buffer_that_is_reused_is_recorded_as_it_was_each_time(
    kind: str, how: str, capture: Capture, store: Store
) -> None:
    episode = record(how, Reusing(kind), [np.zeros(2, np.int64)] * 3, capture, store)
    shown = [episode.initial, *episode.steps]
    assert [number(each.observation) for each in shown] == [0, 1, 2, 3]
    assert [each.info["n"] for each in shown] == [0, 1, 2, 3]
    assert [each.info["array"].tolist() for each in shown] == [[n] * 3 for n in range(4)]
    assert [each.info["rows"] for each in shown] == [[{"n": n}] for n in range(4)]
    assert episode.errors == []


@WAYS
def test_an_action_that_is_reused_is_recorded_as_it_was_each_time(
    how: str, capture: Capture, store: Store
) -> None:
    buffer = np.zeros(2, np.int64)

    class Actions(list[Any]):
        def __iter__(self) -> Any:
            for n in (1, 2, 3):
                buffer.fill(n)
                yield buffer

    def agent(env: Any, observation: Any, info: Any) -> None:
        for action in Actions():
            env.step(action)

    if how == "episode":
        episode = capture(Reusing("array"), agent, store=store)
    else:
        episode = record(how, Reusing("array"), Actions(), capture, store)
    assert [step.action.tolist() for step in episode.steps] == [[1, 1], [2, 2], [3, 3]]


def test_an_environment_that_changes_the_action_it_got_has_the_one_recorded_that_was_sent(
    scripted: Scripted, capture: Capture
) -> None:
    class Clipping(scripted):  # type: ignore[misc]
        action_space = Box(-9, 9, (2,))

        def step(self, action: Any) -> Any:
            np.clip(action, -1, 1, out=action)
            return super().step(action)

    sent = np.array([5, -5], np.float32)
    episode = capture(Clipping((0, 0.0, True, False, {})), [sent])
    assert sent.tolist() == [1.0, -1.0]
    assert episode.steps[0].action.tolist() == [5.0, -5.0]


def test_an_observer_that_returns_its_live_dict_has_each_state_as_it_was(
    scripted: Scripted, capture: Capture, store: Store
) -> None:
    live: dict[str, Any] = {"n": 0, "rows": []}

    def grow() -> Any:
        live["n"] += 1
        live["rows"].append({"id": live["n"]})
        return 0, 0.0, False, False, {}

    episode = capture(scripted(grow, grow, grow), [0, 0, 0], observe=lambda: live, store=store)
    for kept in (episode, store.episode(episode.episode_id)):
        assert [state["n"] for state in kept.states] == [0, 1, 2, 3]
        assert [len(state["rows"]) for state in kept.states] == [0, 1, 2, 3]
        assert kept.final_state == {"n": 3, "rows": [{"id": 1}, {"id": 2}, {"id": 3}]}


@WAYS
def test_an_agent_that_changes_what_it_got_changes_no_evidence(
    how: str, scripted: Scripted, capture: Capture, store: Store
) -> None:
    info: dict[str, Any] = {"rows": [1]}
    env = scripted((0, 0.0, False, False, info), (0, 0.0, True, False, {}), reset=(0, {"rows": []}))

    def agent(env: Any, observation: Any, first: Any) -> None:
        first["rows"].append("mine")
        *_, got = env.step(0)
        got["rows"].clear()
        got["mine"] = True
        env.step(0)

    if how == "episode":
        episode = capture(env, agent)
    else:
        wrapped = capture_episodes(env, exporter=store)
        agent(wrapped, *wrapped.reset())
        wrapped.close()
        episode = list(store.episodes())[-1]
    assert episode.initial is not None
    assert episode.initial.info == {"rows": []}
    assert episode.steps[0].info == {"rows": [1]}


# 2: NumPy values and odd keys in infos (Minari #246, wandb #7382)


@WAYS
def test_numpy_values_of_an_info_are_kept_with_their_types(
    how: str, scripted: Scripted, capture: Capture, store: Store
) -> None:
    info = {
        "x": np.float32(1),
        "y": np.arange(2),
        "flag": np.bool_(True),
        "wide": np.arange(3, dtype=np.int8).reshape(3, 1),
        "time": np.datetime64("2026-01-02T03:04:05.123456789"),
        "text": np.str_("ä"),
        "none": np.zeros((0, 3)),
        "record": np.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")]),
        "many": np.arange(5_000, dtype=np.uint16),
    }
    episode = record(
        how, scripted((0, 0.0, True, False, info), reset=(0, info)), [0], capture, store
    )
    for kept in (episode.initial.info, episode.steps[0].info):
        assert set(kept) == set(info)
        for key, value in info.items():
            assert type(kept[key]) is type(value)
            assert kept[key].dtype == value.dtype
            assert np.array_equal(kept[key], value)
    assert episode.coverage_issues == []


@WAYS
def test_infos_may_differ_in_their_keys_and_the_types_of_them(
    how: str, scripted: Scripted, capture: Capture, store: Store
) -> None:
    infos: list[dict[Any, Any]] = [
        {1: "int", "1": "text", None: 0},
        {("a", 1): "tuple"},
        {"k": None},
        {},
        {"last": np.int64(1)},
    ]
    results = [(0, 0.0, i == 4, False, info) for i, info in enumerate(infos)]
    episode = record(how, scripted(*results), [0] * 5, capture, store)
    assert [step.info for step in episode.steps] == infos
    assert "k" not in episode.steps[3].info
    assert episode.steps[2].info["k"] is None
    assert len(episode.steps) == 5


# 3: broken contracts, each also in test_encoder


def test_strict_json_holds_nan_and_infinity_and_equals_itself(
    scripted: Scripted, capture: Capture, tmp_path: Path
) -> None:
    nan = float("nan")
    odd = {"x": float("inf"), "y": -0.0, "z": nan, "w": np.float32("nan"), "v": np.array([nan])}
    results = [
        (0, 1.0, np.bool_(False), np.bool_(False), odd),
        (0, nan, False, False, odd),
        (0, np.array(0.5), False, False, odd),
        (0, None, False, False, odd),
        (0, "1", False, False, odd),
        (0, np.array([1.0, 2.0]), True, False, odd),
    ]
    episode = capture(scripted(*results), [0] * 6, observe=lambda: odd)
    episode.save_json(tmp_path / "e.json")
    text = (tmp_path / "e.json").read_text()
    parse(text)  # refuses NaN and Infinity
    kept = EpisodeEvidence.load_json(tmp_path / "e.json")
    assert kept == episode
    assert repr([step.reward for step in kept.steps]) == "[1.0, nan, 0.5, None, None, None]"
    fields = [(error["step"], error["field"]) for error in kept.errors]
    assert fields == [(2, "reward"), (4, "reward"), (5, "reward"), (6, "reward")]
    assert len({canonical(state) for state in [*map(str, kept.states)]}) == 1
    assert [error.get("value") for error in kept.errors[1:3]] == [None, "1"]
    assert kept.errors[3]["value"].tolist() == [1.0, 2.0]


# 4: ends before the end, and errors


def test_a_reset_after_one_of_nine_steps_keeps_the_flags_as_they_were(
    scripted: Scripted, store: Store
) -> None:
    wrapped = capture_episodes(scripted(*[(0, 0.0, False, False, {})] * 9), exporter=store)
    wrapped.reset()
    wrapped.step(0)
    wrapped.reset()
    for _ in range(8):
        wrapped.step(0)
    wrapped.close()
    first, second = list(store.episodes())[-2:]
    assert [first.ending, second.ending] == ["reset_early", "closed_early"]
    for episode in (first, second):
        assert episode.data["termination"] == {"terminated": False, "truncated": False}
        assert {(step.terminated, step.truncated) for step in episode.steps} == {(False, False)}
    assert [len(first.steps), len(second.steps)] == [1, 8]


def test_no_step_is_recorded_that_the_environment_did_not_take(
    scripted: Scripted, store: Store
) -> None:
    """As a wrapper does that resets at the end by itself."""
    env = gymnasium.wrappers.Autoreset(
        capture_episodes(
            scripted((1, 1.0, True, False, {}), (2, 2.0, True, False, {})), exporter=store
        )
    )
    before = len(store.episodes())
    env.reset()
    env.step(0)
    env.step(0)  # the wrapper resets instead of stepping
    env.step(1)
    env.close()
    episodes = list(store.episodes())[before:]
    assert [[(step.action, step.reward) for step in e.steps] for e in episodes] == [
        [(0, 1.0)],
        [(1, 2.0)],
    ]


# 6: spaces (gym #582, Minari #123, #307)


class Colours(gymnasium.Space[Any]):
    """A user's own space, without a codec."""

    def contains(self, value: Any) -> bool:
        return isinstance(value, frozenset)

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        return frozenset({"red", int(self.np_random.integers(9))})


class Percent(Box):
    """A user's own space that extends one of Gymnasium's."""


SPACES: dict[str, Any] = {
    "Tuple()": Tuple(()),
    "Dict()": Dict({}),
    "Dict with int keys": Dict({1: Discrete(3), 2: Box(0, 1, (2,))}),
    "Dict in order": Dict([("z", Discrete(3)), ("a", Discrete(4))]),
    "nested": Dict({"a": Tuple([Discrete(2), Dict({"b": MultiBinary(3)})]), "c": Text(5)}),
    "Discrete": Discrete(5, start=-2),
    "Discrete int8": Discrete(5, dtype=np.int8),
    "MultiDiscrete": MultiDiscrete([[2, 3], [4, 5]], start=[[1, 0], [0, 1]]),
    "MultiBinary": MultiBinary([2, 3]),
    "Box f4": Box(-1, 1, (2, 3)),
    "Box f8, unbounded": Box(-np.inf, np.inf, (3,), np.float64),
    "Box f2": Box(-1, 1, (3,), np.float16),
    "Box i8": Box(-(2**62), 2**62, (2,), np.int64),
    "Box u8": Box(0, 255, (4,), np.uint8),
    "Box bool": Box(0, 1, (4,), np.bool_),
    "Box scalar": Box(0, 1, ()),
    "Box empty": Box(0, 1, (0, 3)),
    "Box of own bounds": Box(np.array([0, -5], np.float32), np.array([1, 5], np.float32)),
    "Text": Text(8, min_length=1, charset="aä\u2028$"),
    "Sequence": Sequence(Box(0, 1, (2,))),
    "Sequence, stacked": Sequence(Box(0, 1, (2,)), stack=True),
    "Sequence of Discrete": Sequence(Discrete(4)),
    "Graph": Graph(Box(0, 1, (2,)), Discrete(4)),
    "Graph without edges": Graph(Discrete(5), None),
    "OneOf": OneOf([Discrete(3), Box(0, 1, (2,))]),
    "user's own": Colours(),
    "user's Box": Percent(0, 100, (2,)),
    "Tuple of user's own": Tuple([Colours(), Discrete(2)]),
    "stack of frames": Box(0, 255, (2, 64, 64), np.uint8),
    "frame": Box(0, 255, (210, 160, 3), np.uint8),
    "frame in a Dict": Dict({"image": Box(0, 255, (64, 64, 3), np.uint8), "n": Discrete(3)}),
    "large floats": Box(-1, 1, (40, 40)),
}


class Sampling(gymnasium.Env[Any, Any]):
    """Observations are samples of a space, and so are the actions that it takes."""

    def __init__(self, space: Any) -> None:
        self.action_space = self.observation_space = space
        self.seen: list[Any] = []

    def observe(self) -> Any:
        self.seen.append(self.observation_space.sample())
        return self.seen[-1]

    def reset(self, **given: Any) -> Any:
        return self.observe(), {}

    def step(self, action: Any) -> Any:
        return self.observe(), 0.0, len(self.seen) == 4, False, {}


def equal(one: Any, other: Any) -> bool:
    """Whether samples are equal bit for bit; an integer may come back as NumPy's."""
    if isinstance(one, np.ndarray):
        return bool(
            type(one) is type(other)
            and one.dtype == other.dtype
            and one.shape == other.shape
            and one.tobytes() == other.tobytes()
        )
    if isinstance(one, GraphInstance):
        return isinstance(other, GraphInstance) and all(map(equal, one, other))
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(
            equal(one[key], other[key]) for key in one
        )  # fmt: skip
    if isinstance(one, tuple):
        return isinstance(other, tuple) and len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, (int, np.integer)):
        return isinstance(other, (int, np.integer)) and int(one) == int(other)
    return type(one) is type(other) and bool(one == other)


@WAYS
@pytest.mark.parametrize("name", SPACES)
def test_samples_of_every_space_come_back_bit_for_bit(
    name: str, how: str, capture: Capture, store: Store
) -> None:
    space = SPACES[name]
    space.seed(5)
    actions = [space.sample() for _ in range(3)]
    env = Sampling(space)
    episode = record(how, env, actions, capture, store)
    again = EpisodeEvidence.from_dict(parse(canonical(episode.to_dict())))
    for kept in (episode, again):
        shown = [kept.initial.observation, *(step.observation for step in kept.steps)]
        assert len(shown) == len(env.seen) == 4
        assert all(map(equal, env.seen, shown))
        assert all(map(equal, actions, [step.action for step in kept.steps]))
    assert episode.coverage_issues == []
    assert episode.data["spaces"]["observation"]["repr"] == repr(space)


def test_frames_are_kept_as_bytes_and_not_as_numbers(
    scripted: Scripted, capture: Capture, tmp_path: Path
) -> None:
    space = Box(0, 255, (210, 160, 3), np.uint8)
    space.seed(1)
    frames = [space.sample() for _ in range(10)]
    env = scripted(*[(frame, 0.0, False, False, {}) for frame in frames], reset=(frames[0], {}))
    env.observation_space = space
    path = tmp_path / "e.duckdb"
    episode = capture(env, [0] * 10, store=path)
    recorded = episode.data["steps"][3]["transition"]["observation"]
    assert (recorded["$envbench"], recorded["dtype"], recorded["shape"]) == (
        *("array", "|u1", [1, 210, 160, 3]),
    )
    with connect(path) as store:
        kept = store.episode(episode.episode_id).steps
        sizes = store.sql(
            "SELECT length(observation::VARCHAR) AS n FROM steps WHERE episode_id = ?",
            [episode.episode_id],
        ).fetchall()
    assert all(size < 300 for (size,) in sizes)
    assert all((step.observation == frame).all() for step, frame in zip(kept, frames, strict=True))


def test_a_sample_of_a_class_of_the_users_own_is_read_without_that_class(
    scripted: Scripted, capture: Capture, store: Store
) -> None:

    class Moves(tuple[int, ...]):
        pass

    env = scripted((0, 0.0, True, False, {}))
    env.action_space = Tuple([Discrete(3), Discrete(3)])
    moves = Moves((1, 2))
    episode = capture(env, [moves], store=store)
    kept = store.episode(episode.episode_id).steps[0].action
    assert isinstance(kept, Named)
    assert kept.value == (1, 2)
    assert kept.type.endswith("Moves")


# Records that were lost when a short script exited (12 of 13 runs of 5 steps)


@pytest.mark.slow
@pytest.mark.parametrize("end", ["", "raise SystemExit(3)", "raise KeyError(1)", "env.close()"])
def test_a_short_script_loses_nothing_when_it_exits(end: str, tmp_path: Path) -> None:
    program = f"""
    import gymnasium
    from envbench.capture import capture_episodes
    env = capture_episodes(gymnasium.make("CartPole-v1"), exporter="e.duckdb")
    env.reset(seed=0)
    for _ in range(5):
        env.step(0)
    {end}
    """
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], cwd=tmp_path, capture_output=True
    )
    with connect(tmp_path / "e.duckdb") as store:
        (episode,) = store.episodes()
        assert len(episode.steps) == 5
        assert episode.ending == ("closed_early" if end == "env.close()" else "interrupted")


@WAYS
def test_a_sample_of_a_class_of_the_users_own_is_judged_by_its_space(
    how: str, scripted: Scripted, capture: Capture, store: Store
) -> None:
    inside, outside = collections.OrderedDict(a=1), collections.OrderedDict(a=9)
    env = scripted(
        (inside, 0.0, False, False, {}), (outside, 0.0, True, False, {}), reset=(outside, {})
    )
    env.observation_space = Dict({"a": Discrete(3)})
    episode = record(how, env, [0, 1], capture, store)
    assert [(error["phase"], error["step"]) for error in episode.errors] == [
        ("contract", 0),
        ("contract", 2),
    ]
    assert [step.observation for step in episode.steps] == [inside, outside]
