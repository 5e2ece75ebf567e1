"""Vector environments: one episode an environment, exactly what each took, in every mode.

What is expected is written by the environments themselves: each has a log of what was done to it
and what it returned, and the recorded episodes must be that, no more and no less.
"""

from __future__ import annotations

import copy
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

from envbench.capture import OutOfOrder, Provenance, WriteFailed, backends, capture_vector
from envbench.evidence import EpisodeEvidence, EvalCase, Missing
from envbench.store import Store, connect

MODES = [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED]
LENGTHS = (3, 2, 5)


class Walk(gymnasium.Env[Any, Any]):
    """Says where it is: its observation is (number, episode, step); it ends after `length` steps.

    Attributes:
        log: what was done to it and what it returned, in order.
    """

    action_space = spaces.Discrete(7)
    observation_space = spaces.Box(0, 1000, (3,), np.float64)
    metadata: dict[str, Any] = {"render_modes": ["ansi"]}  # noqa: RUF012 - as Gymnasium has it

    def __init__(self, number: int, length: int, *, raises: Any = None, render_mode: Any = None):
        self.number, self.length, self.raises = number, length, raises or {}
        self.render_mode = render_mode
        self.episode = self.at = 0
        self.log: list[tuple[Any, ...]] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.episode, self.at = self.episode + 1, 0
        if "reset" in self.raises and self.episode > 1:
            raise self.raises["reset"]
        options = copy.deepcopy(options)
        info = {"begun": self.episode, "shape": np.arange(self.number + 1 - self.number)}
        self.log.append(("reset", seed, options, self.see(), info))
        return self.see(), info

    def step(self, action: Any) -> Any:
        self.at += 1
        if self.at in self.raises:
            raise self.raises[self.at]
        terminated = self.at == self.length and self.number != 1
        truncated = self.at == self.length and self.number == 1
        info: dict[str, Any] = {"note": f"{self.number}.{self.at}"}
        if self.at == 2:
            info |= {"second": None, "deep": {"here": self.at}}
        reward = 10.0 * self.number + self.at
        row = ("step", int(action), self.see(), reward, terminated, truncated, info)
        self.log.append(row)
        return self.see(), *row[3:]

    def see(self) -> Any:
        return np.array([self.number, self.episode, self.at], np.float64)

    def render(self) -> Any:
        return f"{self.number}.{self.episode}.{self.at}"


def walks(
    mode: AutoresetMode, *, vector: type = SyncVectorEnv, lengths: Any = LENGTHS, **given: Any
) -> Any:
    def maker(number: int, length: int) -> Callable[[], Walk]:
        return lambda: Walk(number, length, **given)

    makers = [maker(number, length) for number, length in enumerate(lengths)]
    return vector(makers, autoreset_mode=mode)


def play(envs: Any, steps: int, **resets: Any) -> list[Any]:
    """Play with actions that tell the steps apart; give all that was returned."""
    returned = [envs.reset(**resets)]
    mode = envs.metadata["autoreset_mode"]
    for k in range(steps):
        sent = np.arange(k, k + envs.num_envs) % 7
        # a pole that is pushed to one side only falls soon
        result = envs.step(sent if envs.single_action_space.n == 7 else np.ones_like(sent))
        returned.append(result)
        done = result[2] | result[3]
        if mode is AutoresetMode.DISABLED and done.any():
            returned.append(envs.reset(options={"reset_mask": done}))
    return returned


def plain(value: Any) -> Any:
    """Values that compare, whatever Gymnasium made of them in a batch."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def logged(log: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """What was logged, episode by episode."""
    episodes: list[dict[str, Any]] = []
    for kind, *values in log:
        if kind == "reset":
            names = ("seed", "options", "observation", "info")
            episodes.append({**dict(zip(names, values, strict=True)), "steps": []})
        else:
            episodes[-1]["steps"].append(values)
    return plain(episodes)  # type: ignore[no-any-return]


def recorded(store: Store, run: str, number: int) -> list[EpisodeEvidence]:
    """The episodes of one environment in a run, in order."""
    found = []
    for episode in store.episodes(f"run_id = '{run}'"):
        if episode.data["provenance"]["labels"]["vector_index"] == number:
            assert episode.verify() == []
            found.append(episode)
    return found


def as_logged(episode: EpisodeEvidence) -> dict[str, Any]:
    assert episode.initial is not None
    return plain(  # type: ignore[no-any-return]
        {
            "seed": episode.data["seed"],
            "options": episode.data["options"],
            "observation": episode.initial.observation,
            "info": episode.initial.info,
            "steps": [
                [s.action, s.observation, s.reward, s.terminated, s.truncated, s.info]
                for s in episode.steps
            ],
        }
    )


def outline(store: Store, run: str, n: int = 3) -> list[list[tuple[str, int]]]:
    """(ending, number of steps) of each episode of each environment."""
    return [[(e.ending, len(e.steps)) for e in recorded(store, run, i)] for i in range(n)]


def phases(episode: EpisodeEvidence) -> list[str]:
    return [error["phase"] for error in episode.errors]


@pytest.fixture
def run(request: pytest.FixtureRequest) -> str:
    return request.node.name.replace("'", "")


@pytest.fixture
def capture(store: Store, run: str) -> Callable[..., Any]:
    def wrap(envs: Any, **given: Any) -> Any:
        return capture_vector(envs, exporter=store, provenance=Provenance(run_id=run), **given)

    return wrap


# -- what each environment took -------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_every_episode_is_what_its_environment_logged(
    mode: AutoresetMode, capture: Any, store: Store, run: str
) -> None:
    envs = walks(mode)
    captured = capture(envs)
    play(captured, 12, seed=5)
    logs = [logged(env.log) for env in envs.envs]
    captured.close()
    for number, log in enumerate(logs):
        episodes = recorded(store, run, number)
        assert [as_logged(episode) for episode in episodes] == log
        assert [episode.ending for episode in episodes[:-1]] == [
            "truncated" if number == 1 else "terminated"
        ] * (len(log) - 1)
        assert [episode.coverage_issues for episode in episodes[:-1]] == [[]] * (len(log) - 1)
        assert all(len(e.steps) == LENGTHS[number] for e in episodes[:-1])
    assert len(logs[0]) >= 4  # several episodes, with steps beyond the first end


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shared_memory", [True, False])
def test_other_processes_give_the_same_episodes(
    mode: AutoresetMode, shared_memory: bool, capture: Any, store: Store, run: str
) -> None:
    def asynchronous(makers: Any, autoreset_mode: Any) -> Any:
        return AsyncVectorEnv(makers, autoreset_mode=autoreset_mode, shared_memory=shared_memory)

    twin = walks(mode)
    play(twin, 12, seed=5)
    captured = capture(walks(mode, vector=asynchronous))
    play(captured, 12, seed=5)
    captured.close()
    for number in range(3):
        found = [as_logged(episode) for episode in recorded(store, run, number)]
        assert found == logged(twin.envs[number].log)


@pytest.mark.parametrize("mode", MODES)
def test_the_agent_gets_what_the_environments_returned(mode: AutoresetMode, capture: Any) -> None:
    captured = capture(walks(mode))
    given, bare = play(captured, 12, seed=5), play(walks(mode), 12, seed=5)
    captured.close()
    assert repr(given) == repr(bare)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("vector", ["sync", "async"])
def test_cart_pole_past_the_first_ends(
    mode: AutoresetMode, vector: str, capture: Any, store: Store, run: str
) -> None:
    envs = gymnasium.make_vec(
        "CartPole-v1",
        num_envs=2,
        vectorization_mode=vector,
        vector_kwargs={"autoreset_mode": mode},
    )
    captured = capture(envs)
    returned = play(captured, 60, seed=1)
    captured.close()
    for number in range(2):
        episodes = recorded(store, run, number)
        ended = [episode for episode in episodes if episode.ending == "terminated"]
        assert len(ended) >= 2
        for episode in episodes:
            rewards = [step.reward for step in episode.steps]
            assert rewards == [1.0] * len(rewards)  # a step that nobody took has none
            flags = [step.terminated for step in episode.steps]
            assert flags[:-1] == [False] * (len(flags) - 1)
            assert episode.data["environment_id"] == "CartPole-v1"
        for episode in ended:
            # out of bounds: the observation of the end, not that of the reset after it
            x, _, angle, _ = episode.steps[-1].observation
            assert abs(x) > 2.4 or abs(angle) > 12 * np.pi / 180
    steps = sum(len(e.steps) for i in range(2) for e in recorded(store, run, i))
    calls = [result for result in returned if len(result) == 5]
    ends = sum(int((result[2] | result[3]).sum()) for result in calls[:-1])
    resets_by_itself = ends if mode is AutoresetMode.NEXT_STEP else 0
    assert steps == 2 * len(calls) - resets_by_itself


def test_an_environment_with_a_vector_class_of_its_own(
    capture: Any, store: Store, run: str
) -> None:
    envs = gymnasium.make_vec("CartPole-v1", 3, vectorization_mode="vector_entry_point")
    captured = capture(envs)
    returned = play(captured, 60, seed=4)
    captured.close()
    for number in range(3):
        episodes = recorded(store, run, number)
        assert len(episodes) >= 2
        rows = [row for row in returned[1:] if row[1][number] == 1.0]
        steps = [step for episode in episodes for step in episode.steps]
        assert [s.observation.tolist() for s in steps] == [r[0][number].tolist() for r in rows]
        assert [s.terminated for s in steps] == [bool(r[2][number]) for r in rows]
        # one generator of random numbers serves all of them
        assert [e.data["seed"] for e in episodes] == [None] * len(episodes)
        labels = [e.data["provenance"]["labels"] for e in episodes]
        assert labels[0] == {"vector_index": number, "vector_seed": 4}
        assert labels[1] == {"vector_index": number}


def test_final_observation_and_info_are_those_of_the_last_step(
    capture: Any, store: Store, run: str
) -> None:
    captured = capture(walks(AutoresetMode.SAME_STEP, lengths=(2,)))
    captured.reset(seed=0)
    captured.step([1])
    captured.step([1])
    captured.close()
    first, second = recorded(store, run, 0)
    assert first.steps[-1].observation.tolist() == [0, 1, 2]
    assert first.steps[-1].info == {"note": "0.2", "second": None, "deep": {"here": 2}}
    assert second.initial.observation.tolist() == [0, 2, 0]
    assert plain(second.initial.info) == {"begun": 2, "shape": [0]}
    assert second.steps == []


def test_arrays_that_the_vector_environment_returns_again(
    capture: Any, store: Store, run: str
) -> None:
    envs = SyncVectorEnv([lambda: Walk(0, 9), lambda: Walk(1, 9)], copy=False)
    captured = capture(envs)
    first, _ = captured.reset(seed=0)
    for _ in range(4):
        assert captured.step([0, 0])[0] is first  # one array, filled anew
    captured.close()
    (episode,) = recorded(store, run, 1)
    assert [s.observation.tolist() for s in episode.steps] == [[1, 1, at] for at in (1, 2, 3, 4)]


# -- seeds, options, resets -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seed", "expected"),
    [(None, [None] * 3), (7, [7, 8, 9]), ([3, None, 5], [3, None, 5]), ((1, 2, 3), [1, 2, 3])],
)
def test_seeds_of_each_environment(
    seed: Any, expected: list[Any], capture: Any, store: Store, run: str
) -> None:
    envs = walks(AutoresetMode.NEXT_STEP)
    captured = capture(envs)
    captured.reset(seed=seed)
    assert [env.log[0][1] for env in envs.envs] == expected
    captured.close()
    assert [recorded(store, run, i)[0].data["seed"] for i in range(3)] == expected


def test_a_seed_that_is_none_is_said(capture: Any, store: Store, run: str) -> None:
    captured = capture(walks(AutoresetMode.NEXT_STEP, lengths=(3,)))
    captured.reset(seed=[-1])
    captured.close()
    (episode,) = recorded(store, run, 0)
    assert episode.data["issues"] == ["contract: reset was called with seed=-1, which is no seed"]


def test_options_are_kept_as_they_were_given(capture: Any, store: Store, run: str) -> None:
    captured = capture(walks(AutoresetMode.NEXT_STEP))
    options = {"level": [1]}
    captured.reset(options=options)
    options["level"].append(2)
    captured.close()
    assert recorded(store, run, 2)[0].data["options"] == {"level": [1]}


def test_some_are_reset_and_the_others_go_on(capture: Any, store: Store, run: str) -> None:
    envs = walks(AutoresetMode.DISABLED)
    captured = capture(envs)
    captured.reset(seed=1)
    captured.step([0, 0, 0])
    options = {"reset_mask": np.array([True, False, True]), "level": 2}
    captured.reset(seed=[5, 6, 7], options=options)
    assert options == {"level": 2}  # Gymnasium takes the mask out
    captured.step([0, 0, 0])
    logs = [logged(env.log) for env in envs.envs]
    captured.close()
    assert [[as_logged(e) for e in recorded(store, run, i)] for i in range(3)] == logs
    assert outline(store, run) == [
        [("reset_early", 1), ("closed_early", 1)],
        [("truncated", 2)],
        [("reset_early", 1), ("closed_early", 1)],
    ]
    again = recorded(store, run, 2)[1].data
    assert (again["seed"], again["options"]) == (7, {"level": 2})


def test_a_mask_that_the_environments_do_not_know(capture: Any, store: Store, run: str) -> None:
    captured = capture(gymnasium.make_vec("CartPole-v1", 2))
    captured.reset(seed=1)
    captured.step(np.array([0, 1]))
    captured.reset(options={"reset_mask": np.array([True, False])})  # it resets both
    captured.close()
    assert outline(store, run, 2) == [[("reset_early", 1), ("closed_early", 0)]] * 2
    assert "reset_mask" in recorded(store, run, 0)[1].data["options"]


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ({"options": {"reset_mask": [True, False, False]}}, TypeError),
        ({"options": {"reset_mask": np.zeros(3, bool)}}, ValueError),
        ({"options": {"reset_mask": np.ones(2, bool)}}, ValueError),
        ({"options": {"reset_mask": np.ones(3, int)}}, TypeError),
        ({"seed": [1, 2]}, ValueError),
    ],
)
def test_a_reset_that_is_refused_leaves_the_episodes_open(
    arguments: Any, kind: type[Exception], capture: Any, store: Store, run: str
) -> None:
    captured = capture(walks(AutoresetMode.DISABLED))
    captured.reset()
    captured.step([0, 0, 0])
    with pytest.raises(kind):
        captured.reset(**arguments)
    captured.step([0, 0, 0])
    captured.close()
    assert outline(store, run) == [[("closed_early", 2)], [("truncated", 2)], [("closed_early", 2)]]


def test_a_reset_in_mid_episode(capture: Any, store: Store, run: str) -> None:
    captured = capture(walks(AutoresetMode.NEXT_STEP))
    captured.reset(seed=1)
    captured.step([0, 0, 0])
    captured.step([0, 0, 0])  # the second has ended, and would be reset at the next step
    captured.reset(seed=2)
    captured.step([0, 0, 0])
    captured.close()
    assert outline(store, run) == [
        [("reset_early", 2), ("closed_early", 1)],
        [("truncated", 2), ("closed_early", 1)],
        [("reset_early", 2), ("closed_early", 1)],
    ]


def test_step_before_reset_and_after_close(capture: Any) -> None:
    captured = capture(walks(AutoresetMode.NEXT_STEP))
    with pytest.raises(OutOfOrder, match="call reset"):
        captured.step([0, 0, 0])
    captured.close()
    with pytest.raises(OutOfOrder, match="closed"):
        captured.reset()
    captured.close()


def test_steps_after_an_end_that_nobody_reset(capture: Any, store: Store, run: str) -> None:
    captured = capture(walks(AutoresetMode.DISABLED, vector=AsyncVectorEnv))
    captured.reset(seed=0)
    for _ in range(4):
        captured.step(np.zeros(3, int))
    captured.close()
    assert outline(store, run) == [[("terminated", 3)], [("truncated", 2)], [("closed_early", 4)]]
    (episode,) = recorded(store, run, 1)
    assert episode.data["issues"] == [
        "lifecycle: stepped 2 times after the end; such steps are not recorded"
    ]


# -- what goes wrong ------------------------------------------------------------------------------


def test_a_step_that_raises_in_one_of_them(capture: Any, store: Store, run: str) -> None:
    error = ConnectionError("gone")
    envs = SyncVectorEnv(
        [lambda: Walk(0, 9), lambda: Walk(1, 9, raises={2: error}), lambda: Walk(2, 9)]
    )
    captured = capture(envs)
    captured.reset(seed=0)
    captured.step([1, 2, 3])
    with pytest.raises(ConnectionError, match="gone") as caught:
        captured.step([4, 5, 6])
    assert caught.value is error
    captured.close()
    assert outline(store, run) == [[("error", 2)]] * 3
    for number in range(3):
        (episode,) = recorded(store, run, number)
        step = episode.steps[1]
        assert (step.action, step.observation, step.reward) == (4 + number, None, None)
        assert (step.error["phase"], step.error["message"]) == ("step", "gone")
        assert "3 environments were stepped together" in episode.data["issues"][0]
        assert not [text for text in episode.coverage_issues if "together" in text]


def test_an_agent_that_goes_on_after_an_error(capture: Any, store: Store, run: str) -> None:
    captured = capture(walks(AutoresetMode.NEXT_STEP, lengths=(9,), raises={2: OSError("busy")}))
    captured.reset(seed=0)
    captured.step([1])
    with pytest.raises(OSError, match="busy"):
        captured.step([2])
    captured.step([3])
    captured.close()
    (episode,) = recorded(store, run, 0)
    assert episode.ending == "closed_early"
    assert [(s.action, s.reward) for s in episode.steps] == [(1, 1.0), (2, None), (3, 3.0)]


@pytest.mark.filterwarnings("ignore:.*Worker-1:UserWarning")
@pytest.mark.filterwarnings("ignore:.*Traceback:UserWarning")
@pytest.mark.filterwarnings("ignore:.*Raising the last exception:UserWarning")
def test_a_worker_that_raises(capture: Any, store: Store, run: str) -> None:
    def makers() -> list[Callable[[], Walk]]:
        return [lambda: Walk(0, 9), lambda: Walk(1, 9, raises={2: OSError("busy")})]

    captured = capture(AsyncVectorEnv(makers()))
    captured.reset(seed=0)
    captured.step([1, 2])
    with pytest.raises(OSError, match="busy"):
        captured.step([3, 4])
    captured.close()
    assert outline(store, run, 2) == [[("error", 2)]] * 2
    assert [s.action for s in recorded(store, run, 1)[0].steps] == [2, 4]


@pytest.mark.filterwarnings("ignore:.*while waiting for a pending call:UserWarning")
def test_a_worker_that_dies(capture: Any, store: Store, run: str) -> None:
    envs = walks(AutoresetMode.NEXT_STEP, vector=AsyncVectorEnv, lengths=(9, 9))
    captured = capture(envs)
    captured.reset(seed=0)
    captured.step([1, 2])
    os.kill(envs.processes[1].pid, signal.SIGKILL)
    envs.processes[1].join()
    with pytest.raises((EOFError, OSError)):
        captured.step([3, 4])
    with pytest.raises((EOFError, OSError, gymnasium.error.Error)):
        captured.close()  # Gymnasium cannot close them any more, and everything is kept
    assert outline(store, run, 2) == [[("error", 2)]] * 2
    assert phases(recorded(store, run, 0)[0]) == ["step"]
    for process in envs.processes:
        process.kill()
        process.join()
    envs.closed = True


def test_a_reset_that_raises(capture: Any, store: Store, run: str) -> None:
    captured = capture(walks(AutoresetMode.DISABLED, raises={"reset": ValueError("no level")}))
    captured.reset(seed=0)
    captured.step([0, 0, 0])
    with pytest.raises(ValueError, match="no level"):
        captured.reset(seed=1)
    with pytest.raises(OutOfOrder, match="call reset"):
        captured.step([0, 0, 0])
    captured.close()
    assert outline(store, run) == [[("reset_early", 1), ("error", 0)]] * 3
    failed = recorded(store, run, 1)[1]
    assert (phases(failed), failed.data["seed"], failed.initial) == (["reset"], 2, None)
    assert "3 environments were reset together" in failed.data["issues"][0]


def test_a_reset_of_some_that_raises_leaves_the_others_open(
    capture: Any, store: Store, run: str
) -> None:
    captured = capture(walks(AutoresetMode.DISABLED, raises={"reset": ValueError("no level")}))
    captured.reset(seed=0)
    captured.step([0, 0, 0])
    with pytest.raises(ValueError, match="no level"):
        captured.reset(options={"reset_mask": np.array([True, False, False])})
    captured.step([0, 0, 0])
    captured.close()
    assert outline(store, run) == [
        [("reset_early", 1), ("error", 0)],
        [("truncated", 2)],
        [("closed_early", 2)],
    ]


def test_an_interrupted_step(capture: Any, store: Store, run: str) -> None:
    envs = SyncVectorEnv([lambda: Walk(0, 9), lambda: Walk(1, 9, raises={2: KeyboardInterrupt()})])
    captured = capture(envs)
    captured.reset(seed=0)
    captured.step([1, 2])
    with pytest.raises(KeyboardInterrupt):
        captured.step([3, 4])
    captured.step([5, 6])  # a person in a notebook goes on
    captured.close()
    assert outline(store, run, 2) == [[("closed_early", 3)]] * 2
    steps = recorded(store, run, 0)[0].steps
    assert [(s.action, s.reward is None) for s in steps] == [(1, False), (3, True), (5, False)]


def test_an_interrupt_while_it_is_seen_what_was_returned(
    capture: Any, store: Store, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    captured = capture(walks(AutoresetMode.NEXT_STEP, lengths=(9, 9, 9)))
    captured.reset(seed=0)
    second = captured._recorders[1]
    hand_over, interrupts = second.hand_over, [KeyboardInterrupt()]

    def interrupted(*known: int) -> None:
        hand_over(*known)
        if interrupts:
            raise interrupts.pop()

    second.limit = 2
    monkeypatch.setattr(second, "hand_over", interrupted)
    captured.step([1, 1, 1])
    with pytest.raises(KeyboardInterrupt):
        captured.step([2, 2, 2])
    captured.step([3, 3, 3])
    captured.close()
    for number in range(3):
        (episode,) = recorded(store, run, number)
        assert [step.action for step in episode.steps] == [1, 2, 3]
        assert None not in [step.reward for step in episode.steps]


def test_closing_that_raises_still_keeps_everything(capture: Any, store: Store, run: str) -> None:
    class Stuck(SyncVectorEnv):
        def close_extras(self, **kwargs: Any) -> None:
            raise RuntimeError("stuck")

    captured = capture(walks(AutoresetMode.NEXT_STEP, vector=Stuck))
    captured.reset(seed=0)
    captured.step([0, 0, 0])
    with pytest.raises(RuntimeError, match="stuck"):
        captured.close()
    assert outline(store, run) == [[("closed_early", 1)]] * 3


def test_a_write_that_fails_is_said_before_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.duckdb"
    envs = walks(AutoresetMode.NEXT_STEP, lengths=(1,))
    captured = capture_vector(envs, exporter=path, async_capture=True)

    def fail(*_: Any) -> None:
        raise OSError("full")

    with monkeypatch.context() as patched:
        patched.setattr(backends, "write_parts", fail)
        captured.reset(seed=0)
        captured.step([0])
        captured.step([0])  # the environment reset itself
        captured._sink.wait()
        taken = len(envs.envs[0].log)
        with pytest.raises(WriteFailed, match="full"):
            captured.step([0])
        assert len(envs.envs[0].log) == taken
    captured.step([0])
    captured.close()
    with connect(path) as store:
        assert [(e.ending, len(e.steps)) for e in store.episodes()] == [("terminated", 1)] * 2
        assert store.verify().ok


# -- other environments and what they return ------------------------------------------------------


class Odd(VectorEnv[Any, Any, Any]):
    """Two environments that return what they are told."""

    def __init__(self, *results: Any, reset: Any = None, mode: Any = AutoresetMode.NEXT_STEP):
        self.num_envs = 2
        self.single_action_space = spaces.Discrete(3)
        self.action_space = spaces.MultiDiscrete([3, 3])
        self.single_observation_space = spaces.Discrete(9)
        self.observation_space = spaces.MultiDiscrete([9, 9])
        self.metadata = {"autoreset_mode": mode}
        self.results = list(results)
        self.reset_result = (np.array([0, 0]), {}) if reset is None else reset

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return self.reset_result

    def step(self, actions: Any) -> Any:
        return self.results.pop(0)


def flags(*values: bool) -> Any:
    return np.array(values, bool)


NO = flags(False, False)


@pytest.mark.parametrize(
    ("result", "fields"),
    [
        ((np.array([1, 99]), np.ones(2), NO, NO, {}), [[], ["observation"]]),
        ((np.array([1, 2]), np.array([np.nan, 1.0]), NO, NO, {}), [["reward"], []]),
        ((np.array([1, 2]), ["1", 1.0], NO, NO, {}), [["reward"], []]),
        ((np.array([1, 2]), np.ones(2), np.array([0, 0]), NO, {}), [["terminated"]] * 2),
        ((np.array([1, 2]), np.ones(2), NO, None, {}), [["truncated"]] * 2),
        ((np.array([1, 2]), np.ones(2), NO, NO, None), [["info"]] * 2),
        ((np.array([1, 2, 3]), np.ones(2), NO, NO, {}), [["observation"]] * 2),
        ((np.array([1, 2]), np.ones(3), NO, NO, {}), [["reward"]] * 2),
        ((np.array([1, 2]), np.ones(2), NO, NO), [["step"]] * 2),
        (None, [["step"]] * 2),
    ],
)
def test_a_broken_contract_is_named_and_the_run_goes_on(
    result: Any, fields: list[list[str]], capture: Any, store: Store, run: str
) -> None:
    good = (np.array([1, 2]), np.ones(2), NO, NO, {})
    captured = capture(Odd(result, good))
    captured.reset()
    assert captured.step([0, 1]) is result
    captured.step([0, 1])
    captured.close()
    for number in range(2):
        (episode,) = recorded(store, run, number)
        assert [error["field"] for error in episode.errors] == fields[number]
        assert [step.reward for step in episode.steps][1] == 1.0
        assert len(episode.steps) == 2


@pytest.mark.parametrize("result", [None, (np.array([0, 0]),), (np.array([0, 0]), None)])
def test_a_reset_that_breaks_the_contract(
    result: Any, capture: Any, store: Store, run: str
) -> None:
    captured = capture(Odd(reset=result or 5))
    captured.reset()
    captured.close()
    for number in range(2):
        (episode,) = recorded(store, run, number)
        assert phases(episode)[0] == "contract"


def test_flags_and_rewards_of_other_types(capture: Any, store: Store, run: str) -> None:
    results = [
        ([1, 2], [1, 0.5], [False, True], [False, False], [{"a": 1}, {}]),
        ((3, 4), np.array([1, 0], np.float32), flags(True, False), NO, {}),
    ]
    captured = capture(Odd(*results))
    captured.reset()
    captured.step((0, 1))
    captured.step([2, 2])
    captured.close()
    assert outline(store, run, 2) == [[("terminated", 2)], [("terminated", 1), ("closed_early", 0)]]
    first = recorded(store, run, 0)[0]
    assert first.errors == []
    assert [(s.action, s.observation, s.info) for s in first.steps] == [
        (0, 1, {"a": 1}),
        (2, 3, {}),
    ]


def test_a_final_observation_that_is_not_returned_is_missing(
    capture: Any, store: Store, run: str
) -> None:
    result = (np.array([7, 2]), np.ones(2), flags(True, False), NO, {})
    captured = capture(Odd(result, mode="SameStep"))
    captured.reset()
    captured.step([0, 1])
    captured.close()
    first, second = recorded(store, run, 0)
    assert type(first.steps[0].observation) is Missing
    assert first.coverage_issues[0].startswith("observation: in mode SAME_STEP")
    assert second.initial.observation == 7


def test_observations_and_actions_of_every_kind_of_space(
    capture: Any, store: Store, run: str
) -> None:
    space = spaces.Dict(
        {
            "box": spaces.Box(-1, 1, (2, 2), np.float32),
            "many": spaces.Tuple([spaces.Discrete(4), spaces.MultiBinary(3)]),
            "name": spaces.Text(5),
            "list": spaces.Sequence(spaces.Discrete(3)),
        }
    )

    class Echo(gymnasium.Env[Any, Any]):
        observation_space = action_space = space

        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            super().reset(seed=seed)
            return space.sample(), {}

        def step(self, action: Any) -> Any:
            seen.append(copy.deepcopy(action))
            return action, 0.0, False, False, {}

    seen: list[Any] = []
    envs = SyncVectorEnv([Echo, Echo])
    envs.action_space.seed(3)
    captured = capture(envs)
    captured.reset(seed=1)
    for _ in range(3):
        captured.step(envs.action_space.sample())
    captured.close()
    for number in range(2):
        (episode,) = recorded(store, run, number)
        assert episode.errors == []
        assert [plain(s.action) for s in episode.steps] == [plain(a) for a in seen[number::2]]
        assert [plain(s.observation) for s in episode.steps] == [plain(a) for a in seen[number::2]]


def test_single_numbers_are_arrays(capture: Any, store: Store, run: str) -> None:
    class Number(gymnasium.Env[Any, Any]):
        observation_space = action_space = spaces.Box(-1, 1, (), np.float32)

        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            return np.float32(0.25), {}

        def step(self, action: Any) -> Any:
            return np.asarray(action), 0.0, False, False, {}

    captured = capture(SyncVectorEnv([Number, Number]))
    captured.reset()
    captured.step(np.array([0.5, -0.5], np.float32))
    captured.close()
    (episode,) = recorded(store, run, 1)
    step = episode.steps[0]
    assert (step.action.shape, step.observation.shape) == ((), ())
    assert float(step.action) == float(step.observation) == -0.5
    assert episode.errors == []


def test_environments_whose_spaces_differ(capture: Any, store: Store, run: str) -> None:
    class Bounded(gymnasium.Env[Any, Any]):
        action_space = spaces.Discrete(2)

        def __init__(self, high: float) -> None:
            self.observation_space = spaces.Box(0, high, (1,))

        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            return np.zeros(1, np.float32), {}

        def step(self, action: Any) -> Any:
            return np.full(1, 5, np.float32), 0.0, False, False, {}

    envs = SyncVectorEnv([lambda: Bounded(9), lambda: Bounded(1)], observation_mode="different")
    captured = capture(envs)
    captured.reset()
    captured.step([0, 0])
    captured.close()
    first, second = recorded(store, run, 0)[0], recorded(store, run, 1)[0]
    assert (first.errors, phases(second)) == ([], ["contract"])
    assert first.data["spaces"]["observation"]["high"] == 9.0
    assert second.data["spaces"]["observation"]["high"] == 1.0


def test_statistics_of_a_wrapper_below(capture: Any, store: Store, run: str) -> None:
    inner = walks(AutoresetMode.NEXT_STEP, lengths=(2, 9))
    captured = capture(gymnasium.wrappers.vector.RecordEpisodeStatistics(inner))
    captured.reset(seed=0)
    captured.step([0, 0])
    captured.step([0, 0])
    captured.close()
    first, second = recorded(store, run, 0)[0], recorded(store, run, 1)[0]
    assert first.steps[1].info["episode"]["l"] == 2
    assert first.steps[1].info["episode"]["r"] == 3.0  # 1 and 2
    assert "episode" not in first.steps[0].info
    assert [("episode" in step.info) for step in second.steps] == [False, False]
    assert first.data["wrappers"] == [
        "gymnasium.wrappers.vector.common.RecordEpisodeStatistics",
        "gymnasium.vector.sync_vector_env.SyncVectorEnv",
    ]


# -- frames ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (AutoresetMode.NEXT_STEP, [["0.1.0", "0.1.1", "0.1.2"], ["0.2.0", "0.2.1"]]),
        (AutoresetMode.DISABLED, [["0.1.0", "0.1.1", "0.1.2"], ["0.2.0", "0.2.1", "0.2.2"]]),
        # after the last step it shows what it was reset to
        (AutoresetMode.SAME_STEP, [["0.1.0", "0.1.1", None], ["0.2.0", "0.2.1", None]]),
    ],
)
def test_frames(
    mode: AutoresetMode, expected: list[Any], capture: Any, store: Store, run: str
) -> None:
    captured = capture(walks(mode, lengths=(2, 9), render_mode="ansi"), render=True)
    play(captured, 4, seed=0)
    captured.close()
    shown = [
        [frame and frame.text for frame in episode.frames] for episode in recorded(store, run, 0)
    ]
    assert shown[:2] == expected
    (other,) = recorded(store, run, 1)
    assert [frame.text for frame in other.frames] == [f"1.1.{at}" for at in range(5)]
    assert all(episode.errors == [] for episode in recorded(store, run, 0))


def test_pictures_of_a_vector_class_of_its_own(capture: Any, store: Store, run: str) -> None:
    envs = gymnasium.make_vec("CartPole-v1", 2, render_mode="rgb_array")
    captured = capture(envs, render=True)
    captured.reset(seed=0)
    captured.step(np.array([0, 1]))
    expected = [frame.copy() for frame in envs.render()]
    captured.close()
    for number in range(2):
        (episode,) = recorded(store, run, number)
        assert (episode.frames[1].array == expected[number]).all()


def test_frames_that_cannot_be_had(capture: Any, store: Store, run: str) -> None:
    class Dark(SyncVectorEnv):
        def render(self) -> Any:
            if drawn:
                raise OSError("no display")
            drawn.append(1)
            return ("only one",)

    drawn: list[int] = []
    captured = capture(
        walks(AutoresetMode.NEXT_STEP, vector=Dark, lengths=(9, 9), render_mode="ansi"),
        render=True,
    )
    captured.reset(seed=0)
    captured.step([0, 0])
    captured.close()
    for number in range(2):
        (episode,) = recorded(store, run, number)
        assert [error["message"] for error in episode.errors] == [
            "render returned 1 frames of 2",
            "no display",
        ]


# -- arguments and targets ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({"envs": Walk(0, 3)}, TypeError, "capture_episodes records a single environment"),
        ({"case": "walk"}, TypeError, "case must be an EvalCase"),
        ({"max_obs_chars": -1}, ValueError, "max_obs_chars"),
        ({"provenance": "me"}, TypeError, "provenance must be a Provenance"),
        ({"render": True}, ValueError, "render_mode="),
        ({"render": True, "capture_steps": False}, ValueError, "capture_steps=False"),
        ({"exporter": 5}, TypeError, "a target must be"),
    ],
)
def test_bad_arguments(given: Any, kind: type[Exception], message: str) -> None:
    arguments = {"envs": walks(AutoresetMode.NEXT_STEP), "exporter": ":memory:", **given}
    with pytest.raises(kind, match=message):
        capture_vector(**arguments)


def test_a_mode_that_is_not_said_is_not_guessed(store: Store) -> None:
    envs = Odd()
    envs.metadata = {}
    with pytest.raises(ValueError, match=r"metadata\['autoreset_mode'\] is None"):
        capture_vector(envs, exporter=store)


def test_labels_case_and_environment(store: Store, run: str) -> None:
    captured = capture_vector(
        SyncVectorEnv([lambda: gymnasium.make("FrozenLake-v1")] * 2),
        exporter=store,
        case=EvalCase("cross", case_id="cross", expects="either"),
        provenance=Provenance(run_id=run, agent_id="a-1", labels={"team": "x"}),
    )
    captured.reset(seed=0)
    captured.close()
    (episode,) = recorded(store, run, 1)
    assert episode.data["provenance"]["labels"] == {"team": "x", "vector_index": 1}
    assert (episode.case.case_id, episode.data["environment_id"]) == ("cross", "FrozenLake-v1")
    assert episode.data["provenance"]["agent_id"] == "a-1"


def test_one_row_an_episode(capture: Any, store: Store, run: str) -> None:
    captured = capture(walks(AutoresetMode.NEXT_STEP), capture_steps=False)
    play(captured, 3, seed=0)
    captured.close()
    first = recorded(store, run, 0)[0].data
    assert (first["steps"], first["totals"]) == ([], {"steps": 3, "reward": 6.0})


def test_values_that_are_cut(capture: Any, store: Store, run: str) -> None:
    captured = capture(walks(AutoresetMode.NEXT_STEP), max_obs_chars=5)
    play(captured, 1, seed=0)
    captured.close()
    (episode,) = recorded(store, run, 0)
    assert phases(episode) == ["limit", "limit"]  # after the reset, and after the step
    assert episode.steps[0].observation.text == "[[0.0"


def test_lines(tmp_path: Path) -> None:
    import json

    path = tmp_path / "rollouts.jsonl"
    captured = capture_vector(walks(AutoresetMode.SAME_STEP, lengths=(2, 3)), exporter=path)
    play(captured, 3, seed=0)
    captured.close()
    records = [json.loads(line) for line in path.read_text().splitlines()]
    steps = [r for r in records if r["decision_type"] == "rl.step"]
    assert len(steps) == 6
    last = next(r for r in steps if r["terminated"])
    assert last["values"]["observation"] == [[0.0, 1.0, 2.0]]
    assert last["values"]["info"] == {"deep": {"here": {"$envbench": "scalar", "dtype": "<i8",
        "value": 2}}, "note": "0.2", "second": None}  # fmt: skip
    ends = [r["outputs"] for r in records if r["decision_type"] == "rl.episode"]
    assert [end["total_steps"] for end in ends] == [2, 3, 1, 0]


def test_committed_when_the_call_returns(tmp_path: Path) -> None:
    with connect(tmp_path / "store.duckdb") as store:
        captured = capture_vector(
            walks(AutoresetMode.NEXT_STEP), exporter=store, async_capture=False
        )

        def committed() -> Any:
            with store.cursor() as cursor:
                return cursor.execute("SELECT count(*) FROM episodes").fetchone()[0]

        captured.reset(seed=0)
        captured.step([0, 0, 0])
        assert committed() == 0
        captured.step([0, 0, 0])
        assert committed() == 1
        captured.reset()
        assert committed() == 3
        captured.close()
        assert committed() == 6


def test_long_episodes_share_the_memory_that_one_may_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from envbench.capture import recorder

    monkeypatch.setattr(recorder, "PART_BYTES", 40_000)
    monkeypatch.setattr(recorder, "_PART_AT_LEAST", 0)
    with connect(tmp_path / "store.duckdb") as store:
        captured = capture_vector(
            walks(AutoresetMode.NEXT_STEP, lengths=(10**6,) * 4), exporter=store
        )
        captured.reset(seed=0)
        held = []
        for k in range(300):
            captured.step(np.full(4, k % 7))
            together = len(captured._lockstep._steps)
            held.append(together + max(len(each.steps) for each in captured._recorders))
        captured.close()
        # 10 kB each, at about 250 bytes a step, looked at after 64 steps
        assert 30 < max(held) <= 64
        for episode in store.episodes():
            assert [int(step.action) for step in episode.steps] == [k % 7 for k in range(300)]
        assert store.verify().ok


# -- ends without a close -------------------------------------------------------------------------


def test_environments_that_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "store.duckdb"
    captured = capture_vector(walks(AutoresetMode.NEXT_STEP), exporter=path)
    play(captured, 4, seed=0)
    sink = captured._sink
    del captured
    sink._thread.join()
    with connect(path) as store:
        assert sorted(e.ending for e in store.episodes()) == [
            "interrupted", "interrupted", "interrupted", "terminated", "truncated",
        ]  # fmt: skip
        assert store.verify().ok


@pytest.mark.parametrize("vector", ["sync", "async"])
def test_a_process_that_ends_without_a_close(tmp_path: Path, vector: str) -> None:
    path = tmp_path / "store.duckdb"
    code = f"""
        import gymnasium, sys
        from envbench.capture import capture_vector
        if __name__ == "__main__":
            envs = capture_vector(
                gymnasium.make_vec("FrozenLake-v1", 2, vectorization_mode={vector!r}),
                exporter={str(path)!r},
            )
            envs.reset(seed=0)
            envs.step([0, 0])
            sys.exit(3)
    """
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(code))
    done = subprocess.run([sys.executable, script], capture_output=True, timeout=120, check=False)
    assert done.returncode == 3, done.stderr
    with connect(path) as store:
        assert [(e.ending, len(e.steps)) for e in store.episodes()] == [("interrupted", 1)] * 2


def test_processes_forked_meanwhile_add_nothing(tmp_path: Path) -> None:
    path = tmp_path / "store.duckdb"
    captured = capture_vector(walks(AutoresetMode.NEXT_STEP, lengths=(9, 9)), exporter=path)
    captured.reset(seed=0)
    captured.step([0, 0])
    other = walks(AutoresetMode.NEXT_STEP, vector=AsyncVectorEnv, lengths=(3,))
    other.reset()
    other.close()
    captured.step([0, 0])
    captured.close()
    with connect(path) as store:
        assert [(e.ending, len(e.steps)) for e in store.episodes()] == [("closed_early", 2)] * 2


# -- the wrapper itself ---------------------------------------------------------------------------


def test_other_attributes_pass_through(capture: Any) -> None:
    envs = walks(AutoresetMode.NEXT_STEP)
    captured = capture(envs)
    captured.reset(seed=0)
    assert captured.call("see")[1].tolist() == [1, 1, 0]
    assert captured.envs is envs.envs
    assert captured.unwrapped is envs
    assert captured.num_envs == 3
    with pytest.raises(AttributeError, match="step_async is not recorded"):
        captured.step_async([0, 0, 0])
    with pytest.raises(AttributeError):
        _ = captured.nothing
    with pytest.raises(TypeError, match="cannot be copied"):
        copy.deepcopy(captured)
    captured.close()
    assert envs.closed


def test_wrappers_above(capture: Any, store: Store, run: str) -> None:
    captured = capture(walks(AutoresetMode.NEXT_STEP, lengths=(2, 9)))
    above = gymnasium.wrappers.vector.RecordEpisodeStatistics(captured)
    above.reset(seed=0)
    above.step([0, 0])
    _, _, _, _, infos = above.step([0, 0])
    assert infos["episode"]["l"].tolist() == [2, 0]
    above.close()
    assert "episode" not in recorded(store, run, 0)[0].steps[1].info


@pytest.fixture(autouse=True)
def _no_processes_left() -> Iterator[None]:
    import multiprocessing

    before = set(multiprocessing.active_children())
    yield
    assert set(multiprocessing.active_children()) <= before
