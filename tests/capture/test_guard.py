"""The guarded environment: what an agent can do with it, and what it cannot reach from it."""

from __future__ import annotations

import copy
import pickle
import sys
import threading
import traceback
import types
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from gymnasium.wrappers import (
    ClipReward,
    FlattenObservation,
    RecordEpisodeStatistics,
    TransformAction,
    TransformReward,
)

from envbench.capture import InvalidAction, OutOfOrder, StepLimit
from envbench.capture.recorder import Recorder
from envbench.evidence import EpisodeEvidence

Capture = Callable[..., EpisodeEvidence]
GO = (1, 0.0, False, False, {})
END = (2, 1.0, True, False, {})


class Real(gymnasium.Env[Any, Any]):
    """The environment behind the guard; each action finds another way to raise."""

    action_space = Discrete(8)
    observation_space = Discrete(9)
    metadata = {"render_modes": ["ansi"]}  # noqa: RUF012
    render_mode = "ansi"

    def __init__(self) -> None:
        self.level = 0
        self.closed = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return 0, {}

    def step(self, action: int) -> Any:
        self.level += 1
        if action == 1:
            raise ValueError("plain")
        if action == 2:
            try:
                self.fail()
            except ValueError as error:
                raise RuntimeError("chained") from error
        if action == 3:
            try:
                self.fail()
            finally:
                self.fail()
        if action == 4:
            raise ExceptionGroup("several", [caught(self.fail), caught(self.fail)])
        if action == 5:
            raise KeyboardInterrupt
        if action == 6:
            list(self.generate())
        return int(action), 1.0, False, False, {"level": self.level}

    def fail(self) -> None:
        raise ValueError("inner")

    def generate(self) -> Iterator[int]:
        yield 1
        me = self
        me.fail()

    def render(self) -> str:
        if self.level > 100:
            self.fail()
        return f"level {self.level}"

    def close(self) -> None:
        self.closed += 1

    def action_masks(self, first: int = 0) -> list[bool]:
        if first < 0:
            self.fail()
        return [action >= first for action in range(8)]

    @property
    def temperature(self) -> int:
        if self.level in (8, 101):
            self.fail()
        return 20 + self.level


def caught(call: Callable[[], Any]) -> Exception:
    try:
        call()
    except Exception as error:
        return error
    raise AssertionError


def raised(call: Callable[..., Any], *args: Any) -> BaseException:
    try:
        call(*args)
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


# The search for a way past the guard


def ways_to(
    kinds: tuple[type, ...], start: dict[str, Any], running: frozenset[types.FrameType]
) -> list[str]:
    """Every chain of attributes and items from some objects to one of these kinds.

    Left out is what the guard says it does not cover: closure cells, globals of functions and
    modules, and frames that are running.
    """
    waiting = deque(start.items())
    seen: set[int] = set()
    kept: list[Any] = []  # so that no id is given to a second object
    found = []
    while waiting:
        path, value = waiting.popleft()
        if isinstance(value, PLAIN) or id(value) in seen:
            continue
        if isinstance(value, types.FrameType) and value in running:
            continue
        seen.add(id(value))
        kept.append(value)
        assert len(seen) < 200_000, "the search does not end"
        if isinstance(value, kinds):
            found.append(path)
        else:
            waiting.extend((f"{path}{step}", part) for step, part in parts(value))
    return found


PLAIN = (
    *(str, bytes, int, float, complex, types.NoneType, types.ModuleType, types.CodeType),
    *(np.ndarray, np.generic, np.dtype, np.random.Generator),
)
FOLLOWED = {
    types.MethodType: ("__self__", "__func__"),
    types.FunctionType: ("__defaults__", "__kwdefaults__", "__dict__", "__annotations__"),
    types.BuiltinMethodType: ("__self__",),
    types.MethodWrapperType: ("__self__",),
    types.WrapperDescriptorType: (),
    types.MethodDescriptorType: (),
    types.ClassMethodDescriptorType: (),
    types.GetSetDescriptorType: (),
    types.MemberDescriptorType: (),
    types.FrameType: ("f_locals", "f_back"),
}


def parts(value: Any) -> Iterator[tuple[str, Any]]:
    """What can be read from an object, by attribute or item."""
    if isinstance(value, Mapping):  # the variables of a frame are none of dict's from 3.13 on
        for key, item in list(value.items()):
            yield f"[{key!r:.40}]", item
    elif isinstance(value, (list, tuple, set, frozenset, deque)):
        for i, item in enumerate(list(value)):
            yield f"[{i}]", item
    if isinstance(value, type):
        yield from ((f".{name}", item) for name, item in list(vars(value).items()))
        yield ".__bases__", value.__bases__
        return
    for name in FOLLOWED.get(type(value)) or () if type(value) in FOLLOWED else dir(value):
        try:
            yield f".{name}", getattr(value, name)
        except Exception:  # its traceback is of this search, not of the agent
            continue


def running_frames() -> frozenset[types.FrameType]:
    frames = set()
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        frames.add(frame)
        frame = frame.f_back
    return frozenset(frames)


def everything_from(env: Any) -> dict[str, Any]:
    """What an agent can get hold of from an environment that it uses in every way."""
    got = {
        "env": env,
        "wrapped": TransformReward(FlattenObservation(env), float),
        "invalid": raised(env.step, 99),
        "step": env.step(0),
        "mask": env.action_masks,
        "masks": env.action_masks(3),
        "render": env.render(),
        "text": f"{env} {env!r}",
        "reset": raised(env.reset),
        "expose": raised(env.action_masks, -1),
    }
    for action in range(1, 7):
        got[f"raised {action}"] = raised(env.step, action)
    env.step(7)
    got["property"] = raised(getattr, env, "temperature")
    return got


def test_the_search_finds_an_environment_that_is_not_guarded() -> None:
    real = Real()
    found = ways_to((Real,), {"env": TransformReward(real, float)}, running_frames())
    assert found == ["env.env"]
    error = raised(real.step, 2)
    assert ways_to((Real,), {"error": error}, running_frames()) == [
        "error.__cause__.__traceback__.tb_frame.f_locals['self']"
    ]


def test_nothing_the_agent_holds_leads_to_the_recorder_or_past_the_guard(capture: Capture) -> None:
    found: list[str] = []
    checked = []
    held: dict[str, Any] = {}

    def agent(env: Any, observation: Any, info: Any) -> str:
        held.update(everything_from(env), observation=observation, info=info)
        held["limit"] = raised(env.step, 0)
        found.extend(ways_to((Real, Recorder), held, running_frames()))
        checked.append(len(held))
        return "done"

    episode = capture(Real, agent, expose=("action_masks", "temperature"), max_steps=9)
    assert [error for error in episode.errors if error["phase"] == "interaction"] == []
    assert found == []
    assert checked == [len(held)]
    assert type(held["limit"]) is StepLimit
    assert episode.ending == "step_limit"


def test_the_causes_of_an_error_lead_nowhere_either_and_keep_their_lines(capture: Capture) -> None:
    texts: dict[int, str] = {}
    kinds: dict[int, Any] = {}

    def agent(env: Any, observation: Any, info: Any) -> None:
        for action in range(1, 7):
            error = raised(env.step, action)
            texts[action] = "".join(traceback.format_exception(error))
            kinds[action] = (type(error), type(error.__cause__), type(error.__context__))

    capture(Real, agent)
    assert kinds[1] == (ValueError, types.NoneType, types.NoneType)
    assert kinds[2] == (RuntimeError, ValueError, ValueError)
    assert kinds[3] == (ValueError, types.NoneType, ValueError)
    assert 'raise ValueError("plain")' in texts[1]
    assert texts[2].count('raise ValueError("inner")') == 1
    assert texts[4].count('raise ValueError("inner")') == 2
    assert "me.fail()" in texts[6]
    for text in texts.values():
        assert "recorder.py" not in text
        assert "in step" in text


def test_an_error_that_the_agent_was_handling_keeps_its_frames(capture: Capture) -> None:
    seen: list[Any] = []

    def mine() -> None:
        note = "my own"
        raise KeyError(note)

    def agent(env: Any, observation: Any, info: Any) -> None:
        try:
            mine()
        except KeyError as error:
            inner = raised(env.step, 1)
            seen.append(inner.__context__ is error)
            trace: Any = error.__traceback__
            seen.append(trace.tb_next.tb_frame.f_locals)

    capture(Real, agent)
    assert seen == [True, {"note": "my own"}]


def test_an_error_on_its_way_through_a_suspended_generator_does_not_end_it(
    capture: Capture,
) -> None:
    class Streaming(Real):
        def reset(self, **given: Any) -> Any:
            self.source = self.numbers()
            return next(self.source), {}

        def numbers(self) -> Iterator[int]:
            for n in range(5):
                try:
                    raise ValueError(n)
                except ValueError as error:
                    self.last = error
                    yield n

        def step(self, action: int) -> Any:
            if action == 1:
                raise RuntimeError("now") from self.last
            return next(self.source), 0.0, False, False, {}

    def agent(env: Any, observation: Any, info: Any) -> None:
        raised(env.step, 1)
        assert env.step(0)[0] == 1

    assert [step.observation for step in capture(Streaming, agent).steps] == [None, 1]


# What it is


def test_unwrapped_is_the_guard_and_its_steps_are_recorded(capture: Capture) -> None:
    def agent(env: Any, observation: Any, info: Any) -> None:
        assert env.unwrapped is env
        assert env.step.__self__ is env
        assert isinstance(env, gymnasium.Env)
        wrapper = RecordEpisodeStatistics(env)
        assert wrapper.unwrapped is env
        wrapper.unwrapped.step(7)

    episode = capture(Real, agent)
    assert [step.action for step in episode.steps] == [7]


def test_it_shows_what_the_environment_declares(capture: Capture) -> None:
    made = gymnasium.make("CartPole-v1", render_mode="rgb_array")

    def agent(env: Any, observation: Any, info: Any) -> None:
        assert env.action_space == made.action_space
        assert env.observation_space == made.observation_space
        assert env.metadata == made.metadata
        assert env.render_mode == "rgb_array"
        assert env.spec.id == "CartPole-v1"
        assert str(env) == repr(env) == "<GuardedEnv scripted-v1>"
        for name in ("metadata", "spec", "action_space", "observation_space"):
            assert getattr(env, name) is not getattr(made, name)

    assert capture(made, agent).errors == []


def test_sampling_from_its_space_is_what_the_bare_environment_gives(capture: Capture) -> None:
    def made() -> Any:
        env = gymnasium.make("FrozenLake-v1")
        env.action_space.seed(5)
        return env

    bare = made()
    expected = [int(bare.action_space.sample()) for _ in range(5)]
    got: list[int] = []

    def agent(env: Any, observation: Any, info: Any) -> None:
        got.extend(int(env.action_space.sample()) for _ in range(5))

    capture(made, agent)
    assert got == expected


def test_rendering_goes_through_and_closing_waits_for_the_end(capture: Capture) -> None:
    real = Real()

    def agent(env: Any, observation: Any, info: Any) -> None:
        assert env.render() == "level 0"
        env.step(0)
        assert env.render() == "level 1"
        env.close()
        assert real.closed == 0
        assert env.step(0)[0] == 0
        real.level = 101
        with pytest.raises(ValueError, match="inner"):
            env.render()

    episode = capture(real, agent)
    assert real.closed == 1
    assert len(episode.steps) == 2
    assert episode.errors == []


@pytest.mark.parametrize("take", [copy.copy, copy.deepcopy, pickle.dumps])
def test_it_cannot_be_copied_because_a_copy_would_step_the_real_one(
    take: Callable[[Any], Any], capture: Capture
) -> None:
    def agent(env: Any, observation: Any, info: Any) -> None:
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            take(env)

    assert capture(Real, agent).errors == []


# Actions


def test_widening_the_space_it_shows_does_not_widen_what_is_accepted(capture: Capture) -> None:
    real = Real()

    def agent(env: Any, observation: Any, info: Any) -> None:
        env.action_space.n = np.int64(100)
        assert env.action_space.contains(50)
        with pytest.raises(InvalidAction, match=r"action 50 is outside .* Discrete\(8\)"):
            env.step(50)
        env.action_space = Discrete(100)
        with pytest.raises(InvalidAction):
            env.step(50)
        env.observation_space = None
        env.spec = None
        env.metadata["render_modes"].append("human")

    episode = capture(real, agent)
    assert real.level == 0
    assert episode.data["spaces"]["action"]["n"] == 8
    assert real.metadata == {"render_modes": ["ansi"]}


def test_an_action_that_cannot_be_shown_is_refused_all_the_same(capture: Capture) -> None:
    class Hostile:
        def __repr__(self) -> str:
            raise RuntimeError

    def agent(env: Any, observation: Any, info: Any) -> None:
        with pytest.raises(InvalidAction, match="<Hostile, whose repr raised RuntimeError>"):
            env.step(Hostile())
        with pytest.raises(InvalidAction, match=r"9999\.\.\. is outside"):
            env.step("9" * 500)

    episode = capture(Real, agent)
    assert [error["phase"] for error in episode.errors] == ["action", "action"]
    assert episode.steps[1].error is not None
    assert episode.steps[1].error["value"] == "9" * 500


def test_a_space_whose_contains_raises_takes_nothing(capture: Capture) -> None:
    class Broken(gymnasium.Space[Any]):
        def contains(self, value: Any) -> bool:
            raise RuntimeError("broken")

    real = Real()
    real.action_space = Broken()  # type: ignore[assignment]

    def agent(env: Any, observation: Any, info: Any) -> None:
        with pytest.raises(InvalidAction):
            env.step(0)

    assert capture(real, agent).steps[0].action is None


@pytest.mark.parametrize(
    ("space", "inside", "outside"),
    [
        (Box(-1, 1, (2,)), np.zeros(2, np.float32), np.full(2, 2, np.float32)),
        (Box(-1, 1, (2,)), np.zeros(2, np.float64), np.zeros(3, np.float32)),
        (Box(-1, 1, (2,)), [0.5, 0.5], [np.nan, 0.0]),
        (Discrete(3, start=-1), np.int64(-1), 2),
    ],
    ids=["values", "shapes", "lists", "start"],
)
def test_what_counts_as_inside_the_space(
    space: Any, inside: Any, outside: Any, capture: Capture
) -> None:
    real = Real()
    real.action_space = space
    real.step = lambda action: (0, 0.0, False, False, {})  # type: ignore[method-assign]

    def agent(env: Any, observation: Any, info: Any) -> None:
        env.step(inside)
        with pytest.raises(InvalidAction):
            env.step(outside)

    episode = capture(real, agent)
    assert np.array_equal(episode.steps[0].action, inside)
    assert [step.error is None for step in episode.steps] == [True, False]


# Exposed attributes


def test_exposed_names_appear_on_the_guard_itself(capture: Capture) -> None:
    real = Real()

    def agent(env: Any, observation: Any, info: Any) -> None:
        assert env.action_masks() == [True] * 8
        assert env.action_masks(6) == env.action_masks(first=6) == [False] * 6 + [True] * 2
        assert env.action_masks.__self__ is env
        assert env.temperature == 20
        env.step(0)
        assert env.temperature == 21
        for hidden in ("level", "fail", "env", "_recorder"):
            assert not hasattr(env, hidden)
        with pytest.raises(ValueError, match="inner"):
            env.action_masks(-1)
        real.level = 101
        with pytest.raises(ValueError, match="inner"):
            _ = env.temperature

    episode = capture(real, agent, expose=("action_masks", "temperature"))
    assert episode.errors == []


def test_exposed_names_are_found_below_and_above_wrappers(capture: Capture) -> None:
    """As masking libraries look for them."""

    def agent(env: Any, observation: Any, info: Any) -> None:
        above = TransformReward(ClipReward(env, 0, 1), float)
        assert above.has_wrapper_attr("action_masks")
        assert above.get_wrapper_attr("action_masks")(7) == [False] * 7 + [True]

    below = TransformReward(ClipReward(Real(), 0, 1), float)
    assert capture(below, agent, expose=["action_masks"]).errors == []


def test_an_exposed_name_that_is_nowhere_is_a_setup_error(capture: Capture) -> None:
    called: list[Any] = []
    episode = capture(Real, lambda *given: called.append(given), expose=["action_mask"])
    assert called == []
    assert [error["phase"] for error in episode.errors] == ["setup"]
    assert "action_mask" in episode.errors[0]["message"]
    assert episode.data["cleanup"]["completed"] is True


# Wrappers around it, and libraries that drive it


def test_wrappers_around_the_guard_change_what_the_agent_sees_and_the_native_form_is_recorded(
    capture: Capture,
) -> None:
    def agent(env: Any, observation: Any, info: Any) -> None:
        wrapped = TransformAction(
            TransformReward(env, lambda reward: reward * 10), lambda action: action + 7, Discrete(1)
        )
        assert wrapped.step(0)[1] == 10.0

    episode = capture(Real, agent)
    assert [(step.action, step.reward) for step in episode.steps] == [(7, 1.0)]


def test_a_wrapper_that_resets_first_is_told_that_it_cannot(capture: Capture) -> None:
    def agent(env: Any, observation: Any, info: Any) -> None:
        RecordEpisodeStatistics(env).reset(seed=0)

    episode = capture(Real, agent)
    assert [error["phase"] for error in episode.errors] == ["lifecycle"]
    assert episode.errors[0]["message"].startswith("an episode is reset once")


class Predictor:
    """An agent as libraries have them: it gets an observation and a mask, and gives an action."""

    def predict(self, observation: Any, action_masks: Any) -> tuple[int, None]:
        return int(np.flatnonzero(action_masks)[-1]), None


def test_a_predict_loop_with_masks_plays_through_the_guard(capture: Capture) -> None:
    def agent(env: Any, observation: Any, info: Any) -> str:
        policy, done = Predictor(), False
        while not done:
            masks = env.get_wrapper_attr("action_masks")()
            action, _ = policy.predict(observation, masks)
            observation, _, terminated, truncated, info = env.step(action)
            done = terminated or truncated or info["level"] >= 3
        return "done"

    episode = capture(Real, agent, expose=("action_masks",))
    assert [step.action for step in episode.steps] == [7, 7, 7]


def test_the_guard_may_be_used_from_another_thread(capture: Capture) -> None:
    errors: list[BaseException] = []

    def agent(env: Any, observation: Any, info: Any) -> None:
        def play() -> None:
            env.step(0)
            errors.append(raised(env.step, 1))
            errors.append(raised(env.reset))

        thread = threading.Thread(target=play)
        thread.start()
        thread.join()

    episode = capture(Real, agent)
    assert len(episode.steps) == 2
    assert [type(error) for error in errors] == [ValueError, OutOfOrder]
