from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from envbench import EvalCase, Provenance, capture_episode, capture_episodes, connect
from envbench.environments import (
    Environment,
    ScriptedPolicy,
    SubprocessRuntime,
    TaskData,
    TaskDataset,
    ToolCall,
    run_tasks,
    tool,
)
from envbench.environments.examples import refund_desk, stockroom
from envbench.environments.replay import MAX_MISMATCHES, Mismatch, Replay, verify_replay
from envbench.evidence import EpisodeEvidence
from envbench.evidence.tagged import ABSENT
from tests.environments.worlds import ADD, Counter, CounterObservation, CounterState, counting

CASE = EvalCase("play", case_id="play")


class Dial(gymnasium.Env[Any, int]):
    """Turns by the action; what a test wants of it is given as a function of the count."""

    action_space = gymnasium.spaces.Discrete(4)
    observation_space = gymnasium.spaces.Box(-1e9, 1e9, (2,), np.float64)

    def __init__(self, **given: Callable[[int], Any]) -> None:
        self.given = given
        self.count = 0

    def _give(self, name: str, default: Any) -> Any:
        return self.given[name](self.count) if name in self.given else default

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.count = 0
        self._give("at_reset", None)
        return np.array([0.0, self._give("noise", 0.0)]), self._give("info", {})

    def step(self, action: int) -> Any:
        self.count += int(action)
        self._give("at_step", None)
        observation = np.array([float(self.count), self._give("noise", 0.0)])
        reward = self._give("reward", 1.0)
        return observation, reward, self.count >= 5, False, self._give("info", {})

    def state(self) -> dict[str, Any]:
        return self._give("state", {"count": self.count})


def turn(actions: list[Any]) -> Callable[..., None]:
    """An agent that takes these actions, whatever comes of them."""

    def interact(env: Any, observation: Any, info: Any) -> None:
        for action in actions:
            try:
                _, _, terminated, truncated, _ = env.step(action)
            except Exception:
                continue
            if terminated or truncated:
                return

    return interact


def record(
    factory: Callable[[], Any], actions: list[Any] | None = None, **how: Any
) -> EpisodeEvidence:
    made: list[Any] = []

    def make() -> Any:
        made.append(factory())
        return made[-1]

    def observe() -> Any:
        inner = made[-1].unwrapped
        return inner.state() if hasattr(inner, "state") else {}

    given = {
        "case": CASE,
        "environment_id": "dial",
        "observer_id": "state",
        "observe": observe,
        "seed": 3,
        "max_steps": 50,
    }
    return capture_episode(make, turn([1, 2, 3] if actions is None else actions), **(given | how))


def state_of(env: Any) -> Any:
    return env.unwrapped.state()


def replay(factory: Any, episode: EpisodeEvidence, **how: Any) -> Replay:
    return verify_replay(factory, episode, **{"observe": state_of, **how})


def found(result: Replay) -> list[tuple[str, int | None, str]]:
    return [(each.kind, each.step, each.path) for each in result.mismatches]


def random_agent(env: Any, observation: Any, info: Any) -> None:
    actions = np.random.default_rng(5)
    terminated = truncated = False
    while not (terminated or truncated):
        action = int(actions.integers(env.action_space.n))
        _, _, terminated, truncated, _ = env.step(action)


# Any Gymnasium environment.


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("CartPole-v1", {}),
        ("FrozenLake-v1", {"is_slippery": True}),
        ("FrozenLake-v1", {"map_name": "8x8"}),
        ("Taxi-v4", {}),
        ("Blackjack-v1", {}),
        ("CliffWalking-v1", {}),
        ("Acrobot-v1", {}),
    ],
)
def test_gymnasium_s_environments_replay(name: str, arguments: dict[str, Any]) -> None:
    def make() -> Any:
        return gymnasium.make(name, **arguments)

    episode = capture_episode(
        make, random_agent, case=CASE, environment_id=name, observer_id="none", observe=dict,
        seed=11, max_steps=60,
    )  # fmt: skip
    result = verify_replay(make, episode)
    assert result.ok
    assert result.verdict == "same"
    assert result.n_steps == len(episode.steps) > 0
    # an environment that was used replays too, and is left open
    env = make()
    env.reset(seed=1)
    assert verify_replay(env, episode).ok
    env.reset(seed=2)


def test_another_physics_is_found_at_its_step_and_within_a_tolerance_it_is_not() -> None:
    episode = record(lambda: gymnasium.make("CartPole-v1"), [0, 1, 0])

    def heavy() -> Any:
        env = gymnasium.make("CartPole-v1")
        env.unwrapped.gravity = 9.9  # type: ignore[attr-defined]
        return env

    result = verify_replay(heavy, episode)
    assert not result
    assert result.verdict == "different"
    first = result.mismatches[0]
    assert (first.kind, first.step, first.path) == ("observation", 1, "/observation/1")
    assert first.expected == episode.steps[0].observation[1]
    assert first.expected != first.actual
    assert verify_replay(heavy, episode, tolerance=0.01).ok
    assert verify_replay(heavy, episode, tolerance={"/observation/*": 0.01}).ok
    assert not verify_replay(heavy, episode, tolerance={"/reward": 0.01})
    assert not verify_replay(heavy, episode, tolerance={"/**": 0.01, "/observation/1": 1e-9})
    assert verify_replay(heavy, episode, ignore="/observation").ok
    assert verify_replay(heavy, episode, ignore=["/observation/1", "/observation/*"]).ok
    # a field by its name alone, and paths by their field
    assert verify_replay(heavy, episode, tolerance={"observation": 0.01}).ok
    assert not verify_replay(heavy, episode, tolerance={"reward": 0.01, "snapshot": 0.01})
    assert verify_replay(heavy, episode, ignore=["observation"]).ok
    assert verify_replay(heavy, episode, ignore={"observation": ["/*"], "snapshot": ()}).ok
    assert not verify_replay(heavy, episode, ignore={"observation": ["0"]})


def test_what_came_is_named_by_step_and_path() -> None:
    episode = record(Dial)
    assert replay(Dial, episode).ok
    later = replay(lambda: Dial(reward=lambda count: 1.0 if count < 3 else 2.0), episode)
    assert later.mismatches == (
        Mismatch("reward", 2, "/reward", 1.0, 2.0),
        Mismatch("reward", 3, "/reward", 1.0, 2.0),
    )
    assert later.n_steps == 3
    info = replay(lambda: Dial(info=lambda count: {"a": [count]}), episode)
    assert found(info) == [("info", i, "/info/a") for i in range(4)]
    assert info.mismatches[1].expected is ABSENT
    assert info.mismatches[1].actual == [1]
    state = replay(lambda: Dial(state=lambda count: {"count": count, "x/y": None}), episode)
    assert found(state) == [("state", i, "/state/x~1y") for i in (0, 1, 2, 3, 4)]
    assert "step 1: /state/x~1y: nothing was recorded, None came" in str(state)


@pytest.mark.parametrize(("one", "other"), [(1, 1.0), (1, True), ((1,), [1]), (np.int64(1), 1)])
def test_types_are_compared_as_evidence_keeps_them(one: Any, other: Any) -> None:
    episode = record(lambda: Dial(info=lambda _: {"x": one}))
    again = EpisodeEvidence.from_dict(json.loads(json.dumps(episode.to_dict())))
    for each in (episode, again):
        assert replay(lambda: Dial(info=lambda _: {"x": one}), each).ok
        assert found(replay(lambda: Dial(info=lambda _: {"x": other}), each))[0] == (
            "info",
            0,
            "/info/x",
        )


def test_nan_infinity_and_large_arrays_are_equal_to_themselves(tmp_path: Path) -> None:
    image = np.random.default_rng(1).integers(0, 255, (210, 160, 3), np.uint8)

    def make() -> Any:
        return Dial(
            noise=lambda _: math.nan,
            reward=lambda _: math.nan,
            info=lambda _: {"inf": -math.inf, "image": image, "nan": np.array([math.nan])},
            state=lambda _: {"tuple": (1, {2}), "nan": math.nan},
        )

    episode = record(make)
    episode.save_json(tmp_path / "episode.json")
    with connect(tmp_path / "store.duckdb") as store:
        store.add(episode)
        for each in (
            episode,
            EpisodeEvidence.load_json(tmp_path / "episode.json"),
            store.episode(episode.episode_id),
        ):
            assert replay(make, each).ok
    image = image.copy()
    image[0, 0] = 255 - image[0, 0]
    assert found(replay(make, episode))[:3] == [
        ("info", 0, f"/info/image/0/0/{channel}") for channel in range(3)
    ]
    image = 255 - image
    whole = replay(make, episode)
    assert found(whole)[0] == ("info", 0, "/info/image")
    assert len(str(whole)) < 4_000


# What no environment can do again, and what it can.


def test_chance_without_a_seed_is_not_reproducible_and_no_change() -> None:
    def make() -> Any:
        return Dial(noise=lambda _: random.random(), reward=lambda _: float(random.random() < 0.5))

    result = replay(make, record(make))
    assert result.verdict == "not reproducible here"
    assert not result.ok
    assert not result.reproducible
    assert "/observation/1" in result.unsteady
    assert all(not each.reproducible for each in result.mismatches)


def test_a_clock_in_the_info_does_not_hide_a_change() -> None:
    def make(fee: float = 1.0) -> Any:
        return Dial(info=lambda _: {"at": time.perf_counter_ns()}, reward=lambda _: fee)

    episode = record(make)
    clock = replay(make, episode)
    assert clock.verdict == "not reproducible here"
    assert clock.unsteady == ("/info/at",)
    assert replay(make, episode, ignore="/info/at").ok
    both = replay(lambda: make(2.0), episode)
    assert both.verdict == "different"
    assert [each.kind for each in both.mismatches if each.reproducible] == ["reward"] * 3
    assert {each.path for each in both.mismatches if not each.reproducible} == {"/info/at"}
    assert "(not reproducible here)" in str(both)


def test_a_clock_in_the_state_makes_what_follows_uncertain() -> None:
    def make(fee: float = 1.0) -> Any:
        return Dial(state=lambda _: {"at": time.perf_counter_ns()}, reward=lambda _: fee)

    result = replay(lambda: make(2.0), record(make))
    assert result.verdict == "not reproducible here"
    for ignored in ("/state/at", "/snapshot/at", "/at"):
        result = replay(lambda: make(2.0), record(make), ignore=ignored)
        assert result.verdict == "different"
        assert {each.kind for each in result.mismatches} == {"reward"}


def test_loops_with_and_without_seeds(tmp_path: Path) -> None:
    path = tmp_path / "store.duckdb"
    env = capture_episodes(gymnasium.make("FrozenLake-v1", map_name="8x8"), exporter=path)
    for seed in (5, None, 6):
        observation, info = env.reset(seed=seed)
        random_agent(env, observation, info)
    env.close()
    bare = gymnasium.make("FrozenLake-v1", map_name="8x8")
    with connect(path) as store:
        first, second, third = store.episodes()
        assert verify_replay(bare, first).ok
        assert verify_replay(bare, third).ok
        continued = verify_replay(bare, second)
    assert continued.verdict == "not reproducible here"
    assert continued.notes[-1] == (
        "the reset was recorded without a seed, so chance differs every time"
    )


def test_a_wrapper_that_records_is_not_made_to_record_the_replay(tmp_path: Path) -> None:
    path = tmp_path / "store.duckdb"
    env = capture_episodes(gymnasium.make("CartPole-v1"), exporter=path)
    random_agent(env, *env.reset(seed=5))
    env.flush()
    with connect(path) as store:
        (episode,) = store.episodes()
        assert verify_replay(env, episode).ok
        env.close()
        assert len(store.episodes()) == 1


# Errors.


def raising(error: BaseException, at: int) -> Callable[[int], None]:
    def give(count: int) -> None:
        if count == at:
            raise error

    return give


def test_errors_of_steps_are_compared_and_the_state_after_them() -> None:
    def make(message: str = "stuck") -> Any:
        return Dial(at_step=raising(RuntimeError(message), 3))

    episode = record(make)
    assert [step.error is not None for step in episode.steps] == [False, True, False]
    assert replay(make, episode).ok
    assert found(replay(lambda: make("jammed"), episode)) == [("error", 2, "/error/message")]
    without = replay(Dial, episode)
    assert ("error", 2, "/error") in found(without)
    assert ("observation", 2, "/observation") in found(without)
    only_now = replay(make, record(Dial))
    assert ("error", 2, "/error") in found(only_now)

    # addresses of objects are others every time, and say nothing
    def odd() -> Any:
        return Dial(at_step=lambda count: 1 / 0 if count == 9 else _raise(TypeError(f"{object()}")))

    assert replay(odd, record(odd)).ok


def _raise(error: Exception) -> None:
    raise error


def test_a_reset_that_raises_and_a_factory_that_raises() -> None:
    def stuck() -> Any:
        return Dial(at_reset=lambda _: _raise(OSError("no world")))

    def failing() -> Any:
        raise OSError("no machine")

    episode = record(stuck)
    assert replay(stuck, episode).ok
    assert found(replay(Dial, episode))[0] == ("observation", 0, "/observation")
    assert replay(failing, record(failing)).ok
    assert found(replay(Dial, record(failing)))[0] == ("error", None, "/error")
    result = replay(failing, record(Dial))
    assert result.verdict == "different"
    assert result.n_steps == 0
    assert found(result) == [("error", None, "/error")]
    assert result.mismatches[0].actual == {
        "phase": "setup",
        "type": "OSError",
        "message": "no machine",
    }


def test_a_close_that_raises_is_said() -> None:
    class Stuck(Dial):
        def close(self) -> None:
            raise OSError("will not close")

    result = replay(Stuck, record(Dial))
    assert result.ok
    assert result.notes == ("closing the environment raised OSError: will not close",)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupted_episode_is_replayed_up_to_there(
    tmp_path: Path, kind: type[BaseException]
) -> None:
    path = tmp_path / "store.duckdb"
    with pytest.raises(kind):
        record(lambda: Dial(at_step=raising(kind(), 3)), store=path)
    with connect(path) as store:
        (episode,) = store.episodes()
        assert episode.ending == "interrupted"
        result = replay(Dial, episode)
    assert result.ok
    assert result.n_steps == 1
    assert result.notes == (
        "step 2 was interrupted while it was recorded: nothing is replayed from there on",
    )


def test_an_environment_that_exits_python_is_an_error_of_its_step() -> None:
    result = replay(lambda: Dial(at_step=raising(SystemExit(3), 3)), record(Dial))
    assert ("error", 2, "/error") in found(result)
    with pytest.raises(KeyboardInterrupt):
        replay(lambda: Dial(at_step=raising(KeyboardInterrupt(), 3)), record(Dial))


def test_an_early_end_is_a_mismatch_of_the_flag() -> None:
    class Short(Dial):
        def step(self, action: int) -> Any:
            observation, reward, _, truncated, info = super().step(action)
            return observation, reward, self.count >= 3, truncated, info

    result = replay(Short, record(Dial))
    assert found(result) == [("flag", 2, "/terminated")]
    assert result.n_steps == 2
    assert result.notes == ("the replay ended 1 step before the record",)


def test_an_early_end_whose_flag_is_ignored_is_no_replay_of_all_steps() -> None:
    class Short(Dial):
        def step(self, action: int) -> Any:
            observation, reward, _, truncated, info = super().step(action)
            return observation, reward, self.count >= 3, truncated, info

    result = replay(Short, record(Dial), ignore=["/terminated"])
    (mismatch,) = result.mismatches
    assert (mismatch.kind, mismatch.path, mismatch.step) == ("flag", "/steps", 2)
    assert (mismatch.expected, mismatch.actual, result.verdict) == (3, 2, "different")
    assert replay(Short, record(Dial), ignore=["/terminated", "/steps"]).ok


@pytest.mark.parametrize("broken", ["unwrapped", "spec", "metadata"])
def test_an_environment_with_a_broken_property_replays(broken: str) -> None:
    def fails(self: Any) -> Any:
        raise ZeroDivisionError(broken)

    hostile = type("Hostile", (Dial,), {broken: property(fails)})
    assert replay(hostile, record(Dial), observe=lambda env: env.state()).ok
    # recorded so, the agent could not be given a guard, and took no step
    episode = capture_episode(
        hostile,
        turn([1]),
        case=CASE,
        environment_id="dial",
        observer_id="none",
        observe=dict,
        seed=3,
        max_steps=50,
    )
    assert verify_replay(hostile, episode, observe=dict).ok


def test_what_only_resets_steps_and_closes_replays() -> None:
    class Bare:
        action_space = gymnasium.spaces.Discrete(4)
        observation_space = gymnasium.spaces.Discrete(9)

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            self.count = 0
            return 0, {}

        def step(self, action: int) -> Any:
            self.count += 1
            return self.count, 1.0, self.count == 2, False, {}

        def close(self) -> None:
            pass

    assert verify_replay(Bare, record(Bare, [1, 1], observe=dict), observe=dict).ok  # type: ignore[arg-type]


def test_an_info_that_contains_itself_replays() -> None:
    info: dict[str, Any] = {"n": 1}
    info["self"] = info
    episode = record(lambda: Dial(info=lambda count: info))
    assert [step.reward for step in episode.steps] == [1.0, 1.0, 1.0]
    assert replay(lambda: Dial(info=lambda count: info), episode).ok


def test_refused_actions_are_not_sent() -> None:
    episode = record(Dial, [1, 7, "x", 2])
    assert [step.action for step in episode.steps] == [1, None, None, 2]
    assert replay(Dial, episode).ok


# States, spaces, what was not kept.


def test_without_an_observer_states_are_not_compared_and_that_is_said() -> None:
    result = verify_replay(lambda: Dial(state=lambda _: {"other": 1}), record(Dial))
    assert result.ok
    assert result.notes == ("states are not compared: give observe=, which reads them",)
    made: list[Any] = []

    def make() -> Any:
        made.append(Dial())
        return made[-1]

    assert verify_replay(make, record(Dial), observe=lambda: made[-1].state()).ok


def test_an_observer_that_fails() -> None:
    def make() -> Any:
        return Dial(state=lambda count: {"count": count} if count < 3 else _raise(OSError("gone")))

    episode = record(make)
    assert replay(make, episode).ok
    assert verify_replay(make, episode).ok
    assert ("error", 2, "/error") in found(replay(Dial, episode))
    assert ("state", 2, "/state") in found(replay(make, record(Dial)))


def test_other_spaces_are_said() -> None:
    class Wide(Dial):
        action_space = gymnasium.spaces.Discrete(9)

    result = replay(Wide, record(Dial))
    assert found(result) == [
        ("space", None, "/action_space/n"),
        ("space", None, "/action_space/repr"),
    ]
    assert replay(Wide, record(Dial), ignore="/action_space").ok


def test_episodes_without_what_a_replay_needs(tmp_path: Path) -> None:
    path = tmp_path / "store.duckdb"
    for how in ({"capture_steps": False}, {"max_action_chars": 2, "max_obs_chars": 2}):
        env = capture_episodes(Words(), exporter=path, **how)
        env.reset(seed=1)
        env.step("a long action")
        env.close()
    with connect(path) as store:
        whole, cut = store.episodes()
        with pytest.raises(ValueError, match="the episode's steps were not kept"):
            verify_replay(Words, whole)
        result = verify_replay(Words, cut)
    assert result.ok
    (note,) = result.notes
    assert note.startswith("step 1 has an action of which only the beginning was kept: nothing is")


class Words(gymnasium.Env[str, str]):
    """Says what it is told."""

    action_space = observation_space = gymnasium.spaces.Text(50, charset=" abcdefghijklmnopqrstuvw")

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if options and "kind" in options:
            assert isinstance(options["kind"], EvalCase)
        return "begin", {}

    def step(self, action: str) -> Any:
        return action, 0.0, True, False, {"said": "\u2028\x1b[31m\ud800" + action}


def test_hostile_text_and_options() -> None:
    episode = record(Words, ["abc"], options={"level": 3, "at": (1, 2)})
    assert verify_replay(Words, episode).ok
    odd = record(Words, ["abc"], options={"kind": Odd(1)})
    with pytest.raises(ValueError, match=r"/options: holds .*Odd, which evidence only names"):
        verify_replay(Words, odd)


class Odd(int):
    pass


def test_more_mismatches_than_anyone_reads() -> None:
    def make(wrong: int = 0) -> Any:
        return Dial(info=lambda _: {str(i): i + wrong for i in range(400)})

    result = replay(lambda: make(1), record(make))
    assert result.n_mismatches == 1600
    assert len(result.mismatches) == MAX_MISMATCHES
    assert "and 1,580 more" in str(result)


def test_a_replay_is_json() -> None:
    result = replay(lambda: Dial(reward=lambda _: math.nan), record(Dial, [1]))
    told = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert told["ok"] is False
    assert told["verdict"] == "different"
    assert told["steps"] == 1
    assert told["mismatches"][0] == {
        "kind": "reward",
        "step": 1,
        "path": "/reward",
        "expected": 1.0,
        "actual": {"$envbench": "float", "value": "nan"},
        "reproducible": True,
    }
    # a reward of NaN is a broken contract besides
    assert told["mismatches"][1]["path"] == "/error"
    assert repr(result) == "<Replay different: 1 step, 2 mismatches>"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"episode": {}}, TypeError, "episode must be an EpisodeEvidence, not dict"),
        ({"environment_or_factory": 3}, TypeError, "must be an environment or what makes one, not"),
        ({"environment_or_factory": dict}, None, "the factory returned dict, which has no reset"),
        ({"tolerance": -1}, ValueError, "tolerance must be at least 0, not -1"),
        ({"tolerance": math.nan}, ValueError, "tolerance must be at least 0, not nan"),
        ({"tolerance": "1"}, TypeError, "tolerance must be a number, not '1'"),
        ({"tolerance": {"rewards": 1}}, ValueError, "tolerance 'rewards' must start with '/'"),
        ({"ignore": "rewards"}, ValueError, "ignore 'rewards' must start with '/'"),
        ({"ignore": [3]}, TypeError, "ignore must be text, not int"),
        ({"task": {}}, TypeError, "task must be a TaskData, not dict"),
        ({"dataset": []}, TypeError, "dataset must be a TaskDataset, not list"),
        ({"observe": 3}, TypeError, "observe must be callable, not int"),
    ],
)
def test_arguments_are_checked(
    arguments: dict[str, Any], error: type[Exception] | None, message: str
) -> None:
    given = {"environment_or_factory": Dial, "episode": record(Dial)} | arguments
    if error is None:
        result = verify_replay(**given)
        assert message in result.mismatches[0].actual["message"]
    else:
        with pytest.raises(error, match=message):
            verify_replay(**given)


# Environments of ours.


def count(actions: list[Any], task: TaskData | None = None, **how: Any) -> EpisodeEvidence:
    rollout = Counter(**how).rollout(task or counting(), ScriptedPolicy(actions))
    assert rollout.episode is not None
    return rollout.episode


@pytest.mark.parametrize(
    ("actions", "ending"),
    [
        ([ADD, ADD, ADD], "terminated"),
        ([ADD] + [ToolCall("fail")] * 2, "terminated"),
        ([ToolCall("?"), ToolCall("add", {"by": "x"}), ToolCall("add", [1]), ""], "policy_stop"),
        ([ToolCall("add", {"by": 0})] * 6, "truncated"),
        ([ADD], "error"),
        (["\u2028\ud83d\ude00 <script>"], "policy_stop"),
    ],
)  # fmt: skip
def test_environments_of_ours_replay(tmp_path: Path, actions: list[Any], ending: str) -> None:
    episode = count(actions)
    assert episode.ending == ending
    episode.save_json(tmp_path / "episode.json")
    for each in (episode, EpisodeEvidence.load_json(tmp_path / "episode.json")):
        result = verify_replay(Counter, each)
        assert result.ok
        assert result.n_steps == len(episode.steps)
        assert result.notes == ()
        assert verify_replay(Counter(), each).ok


class Doubled(Counter):
    """As Counter, with another tool."""

    @tool
    def add(self, by: int = 1) -> int:
        """Count up."""
        self.state.count += by
        return 2 * self.state.count


def test_a_changed_tool_is_found_by_its_result_and_by_its_part() -> None:
    result = verify_replay(Doubled, count([ADD, ADD, ADD]))
    assert found(result)[-3:] == [
        ("tool_result", i, "/info/tool_calls/0/result") for i in (1, 2, 3)
    ]
    assert ("fingerprint", None, "/fingerprint/tool/add") in found(result)
    assert ("fingerprint", None, "/fingerprint/hook/setup") not in found(result)
    assert any(note.startswith("fingerprint: tool/add changed") for note in result.notes)
    only = verify_replay(Doubled, count([ADD]), verify_fingerprint=False)
    assert found(only) == [("tool_result", 1, "/info/tool_calls/0/result")]
    assert verify_replay(Doubled, count(["bye"]), ignore="/fingerprint/**").ok


def test_a_rollout_is_replayed_with_its_task() -> None:
    def make() -> Counter:
        env = Counter()

        @env.scorer
        def is_counted(rollout: Any) -> float:
            return float(rollout.env.state.count == rollout.task.expected["count"])

        return env

    rollout = make().rollout(counting(1), ScriptedPolicy([ADD]))
    assert rollout.reward == 1.0
    result = verify_replay(make, rollout)
    assert (result.ok, result.notes) == (True, ())
    (note,) = verify_replay(make, rollout.episode).notes
    assert note.startswith("scores are not replayed")


def test_a_fingerprint_kept_without_its_parts_is_compared_by_digest() -> None:
    recorded = count([ADD, "bye"]).to_dict()
    other = Doubled().fingerprint().digest
    episode = capture_episode(
        Doubled, turn([ADD.to_dict(), "bye"]), case=CASE, environment_id="x", observer_id="o",
        observe=dict, seed=1, max_steps=5, options={"task": counting()},
    )  # fmt: skip
    assert recorded["provenance"]["environment_fingerprint"] != other
    # capture_episode keeps the parts and no fingerprint: there is nothing to compare
    assert episode.data["environment_spec"]["fingerprint"]["digest"] == other
    assert episode.data["provenance"]["environment_fingerprint"] is None
    assert verify_replay(Doubled, episode, observe=dict).ok


class Scored(Counter):
    max_turns = 3


@Scored.scorer
def right(rollout: Any) -> float:
    return float(rollout.env.state.count == rollout.task.expected["count"])


def test_states_that_an_observer_of_the_caller_s_read_are_not_compared_with_snapshots() -> None:
    def interact(env: Any, observation: Any, info: Any) -> None:
        env.step(ADD)

    episode = capture_episode(
        Counter,
        interact,
        case=CASE,
        environment_id="counter",
        observer_id="outside",
        observe=lambda: {"seen": "from outside"},
        seed=7,
        max_steps=3,
        options={"task": counting(1)},
    )
    result = verify_replay(Counter, episode)
    assert result.ok
    assert result.notes == ("states are not compared: give observe=, which reads them",)
    assert not verify_replay(Counter, episode, observe=lambda env: env.observe_state()).ok


def test_an_audit_that_the_reset_makes_is_replayed() -> None:
    class Audited(Counter):
        events = 1

        def setup(self, task: TaskData) -> None:
            super().setup(task)
            self.audit = lambda: [{"table": "t", "op": "insert", "key": self.events}]

    episode = Audited().rollout(counting(1), ScriptedPolicy([ADD])).episode
    assert episode is not None
    assert verify_replay(Audited, episode).ok
    other = verify_replay(
        type("Other", (Audited,), {"events": 2}), episode, verify_fingerprint=False
    )
    assert other.mismatches[0].kind == "audit"


def test_scores_need_the_answer_key() -> None:
    task = counting(3)
    episode = Scored().rollout(task, ScriptedPolicy([ADD] * 3)).episode
    assert episode is not None
    assert episode.steps[-1].reward == 1.0
    assert "count" not in json.dumps(episode.data["case"]["reference_digest"])
    without = verify_replay(Scored, episode)
    assert without.ok
    assert without.notes == (
        "scores are not replayed: give task= or dataset=, with the answer key",
    )
    dataset = TaskDataset("counting", "1", [counting(2), task])
    for given in ({"task": task}, {"dataset": dataset}):
        result = verify_replay(Scored, episode, **given)  # type: ignore[arg-type]
        assert result.ok
        assert result.notes == ()
    wrong = TaskData("to-3", "Count to 3", {"count": 2}, task.metadata)
    assert found(verify_replay(Scored, episode, task=wrong)) == [
        ("task", None, "/case/reference_digest"),
        ("reward", 3, "/reward"),
        ("info", 3, "/info/rewards/end"),
        ("info", 3, "/info/scores/right/value"),
    ]
    with pytest.raises(ValueError, match="dataset: no task 'to-3' in the data set 'other' '1'"):
        verify_replay(Scored, episode, dataset=TaskDataset("other", "1", []))
    with pytest.raises(ValueError, match="give a task or a dataset, not both"):
        verify_replay(Scored, episode, task=task, dataset=dataset)


class Lucky(Counter):
    """Draws, once from its own source of chance and once from Python's."""

    @tool
    def draw(self) -> int:
        return int(self.np_random.integers(1_000_000))

    @tool
    def guess(self) -> float:
        return random.random()


def test_chance_of_the_environment_s_own_is_reproducible_and_other_chance_is_not() -> None:
    def roll(name: str) -> EpisodeEvidence:
        script = ScriptedPolicy([ToolCall(name), ToolCall(name), "bye"])
        episode = Lucky().rollout(counting(), script, seed=41).episode
        assert episode is not None
        return episode

    assert verify_replay(Lucky, roll("draw")).ok
    result = verify_replay(Lucky, roll("guess"))
    assert result.verdict == "not reproducible here"
    assert result.unsteady == ("/info/tool_calls/0/result",)
    assert verify_replay(Lucky, roll("guess"), ignore="/info/tool_calls/*/result").ok


def test_tools_in_a_process_of_their_own_replay() -> None:
    def make() -> Environment[CounterObservation, CounterState]:
        return Counter(runtime=SubprocessRuntime(timeout=60))

    assert verify_replay(make, count([ADD, ToolCall("fail"), ADD])).ok


def test_the_example_environments_replay_from_a_store(tmp_path: Path) -> None:
    with connect(tmp_path / "store.duckdb") as store:
        for tasks, environment, policy in (
            (refund_desk.TASKS, refund_desk.RefundDeskV2, refund_desk.careful),
            (stockroom.TASKS, stockroom.StockroomV1, stockroom.impatient),
        ):
            run_tasks(tasks, environment, policy, store=store)
        for episode in store.episodes():
            is_desk = "desk" in episode.data["environment_id"]
            tasks = refund_desk.TASKS if is_desk else stockroom.TASKS
            same = refund_desk.RefundDeskV2 if is_desk else stockroom.StockroomV1
            result = verify_replay(same, episode, dataset=tasks)
            assert result.ok, str(result)
            assert result.notes == ()
        (episode, *_) = store.episodes("environment_id = 'stockroom'")
        other = verify_replay(stockroom.StockroomV2, episode, dataset=stockroom.TASKS)
    assert other.verdict == "different"
    assert {"fingerprint", "tool_result"} <= {each.kind for each in other.mismatches}


def test_provenance_and_recovery_do_not_matter() -> None:
    rollout = Counter().rollout(
        counting(),
        ScriptedPolicy([ADD, "bye"]),
        provenance=Provenance(repeat=3, labels={"lab": "x"}),
        seed=99,
    )
    assert rollout.episode is not None
    assert verify_replay(Counter, rollout.episode).ok


def test_a_payload_that_cannot_be_had_is_said() -> None:
    class Remote(Counter):
        def fingerprint_payload(self) -> Any:
            raise ConnectionError("no network")

    result = verify_replay(Remote, count(["bye"]))
    assert result.ok
    assert result.notes == ("the fingerprint could not be taken: ConnectionError: no network",)


def test_replays_need_no_policy_and_no_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert verify_replay(Counter, count([ADD, "bye"])).ok
    assert list(tmp_path.iterdir()) == []
