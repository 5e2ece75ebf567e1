"""Ctrl-C at every place where Python acts on it: no step is lost, none is there twice.

Python acts on a signal after a call, at the start of a function and at the end of a turn of a loop.
Here one is sent at each such place of the code that runs in the caller's loop, one at a time, while
episodes are played. Then a person goes on, as in a notebook. What was done is written by the
environment itself, and what is recorded must be that.
"""

from __future__ import annotations

import contextlib
import dis
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import envbench
from envbench.capture import (
    OutOfOrder,
    Provenance,
    capture_episode,
    capture_episodes,
    capture_vector,
)
from envbench.evidence import EpisodeEvidence, EvalCase
from envbench.store import Store, connect
from envbench.store.adoption import OPEN_HERE

ROOT = Path(envbench.__file__).parent
WATCHED = (str(ROOT / "capture"), str(ROOT / "store" / "termination.py"))
ACTS = {"RESUME", "CALL", "CALL_KW", "CALL_FUNCTION_EX", "JUMP_BACKWARD"}
LENGTH = 3
RAISES = (41, 42)
"""Actions, of each hundred, at which an environment raises."""

Done = tuple[int, int, int, bool]
"""What a step was: number of its episode, of itself, its action, and whether it raised."""


class Interrupt:
    """Sends SIGINT at one of the places where it is acted on in this thread.

    Args:
        at: which one, counted from 0; None for none.
        waits: count only from when `started` is set.

    Attributes:
        places: those that were met, in order.
    """

    def __init__(self, at: int | None, *, waits: bool = False) -> None:
        self.at, self.places, self.started = at, list[str](), not waits
        self._before: dict[FrameType, int] = {}

    def __enter__(self) -> Interrupt:
        sys.settrace(self._call)
        return self

    def __exit__(self, *raised: object) -> None:
        sys.settrace(None)

    def _call(self, frame: FrameType, event: str, arg: Any) -> Any:
        if not frame.f_code.co_filename.startswith(WATCHED):
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        return self._opcode

    def _opcode(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "opcode":
            code = frame.f_code
            before = self._before.get(frame)
            self._before[frame] = frame.f_lasti
            if self.started and before is not None and dis.opname[code.co_code[before]] in ACTS:
                file = Path(code.co_filename).name
                self.places.append(f"{file}:{frame.f_lineno} {code.co_name} {frame.f_lasti}")
                if self.at == len(self.places) - 1:
                    signal.raise_signal(signal.SIGINT)
        elif event in ("return", "exception"):  # a call that raised is followed by no place
            self._before.pop(frame, None)
        return self._opcode


@pytest.fixture(autouse=True)
def _ctrl_c() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    tracing = sys.gettrace()
    yield
    sys.settrace(tracing)
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def store() -> Iterator[Store]:
    with connect(":memory:") as store:
        yield store


class Line(gymnasium.Env[Any, Any]):
    """Ends after some steps; each has an action of its own, and what was done is in `log`."""

    action_space = spaces.Discrete(1_000)
    observation_space = spaces.Box(0, 1_000, (2,), np.float64)

    def __init__(self, number: int = 0, interrupts: Interrupt | None = None) -> None:
        self.length, self.interrupts = LENGTH + number, interrupts
        self.episode, self.at = 0, self.length
        self.log: list[Done] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.episode, self.at = self.episode + 1, 0
        return self._see(), {}

    def step(self, action: Any) -> Any:
        self.at += 1
        raises = action % 100 in RAISES
        self.log.append((self.episode, self.at, int(action), raises))
        if self.interrupts is not None and len(self.log) == 2:
            self.interrupts.started = True
            raise KeyboardInterrupt
        if raises:
            raise ValueError(self.at)
        return self._see(), float(self.at), self.at == self.length, False, {}

    def _see(self) -> Any:
        return np.array([self.episode, self.at], np.float64)


def judge(log: list[Done], episodes: list[EpisodeEvidence], length: int, most: int = 1) -> str:
    """Hold what was recorded against what was done; says what is wrong.

    Where the interrupt came before the environment saw an action, or as it returned, the row says
    so and has no transition.
    """
    done, odd = list(log), 0
    for row in (step for episode in episodes for step in episode.steps):
        seen = None if row.observation is None else [*row.observation, row.terminated]
        raised = bool(done) and done[0][2] == row.action and done[0][3]
        if seen is None:
            error = "nothing" if row.error is None else row.error["type"]
            if raised and error == "ValueError":
                done.pop(0)
                continue
            odd += 1
            if error != "KeyboardInterrupt":
                return f"{row.action} has no transition, and {error} as its reason"
            if not done or row.action != done[0][2]:
                continue  # the environment did not see it
            if done[0][1] == length:
                return ""  # that it was the last one of its episode is lost with the transition
        if not done or row.action != done[0][2]:
            return f"{row.action} is recorded where {done[:1]} was done"
        number, at, _, _ = done.pop(0)
        if seen is not None and seen != [number, at, at == length]:
            return f"{row.action} returned {seen}, not {number, at}"
    if done:
        return f"{done[0]} was done and is not recorded"
    return "" if odd <= most else f"{odd} steps without a transition"


def recorded(store: Store, run: str, number: int = 0) -> list[EpisodeEvidence]:
    episodes = list(store.episodes(f"run_id = '{run}'"))
    of = [e for e in episodes if e.data["provenance"]["labels"].get("vector_index", 0) == number]
    return sorted(of, key=lambda e: e.data["recorded_at"])


Play = Callable[[str, Interrupt], list[list[Done]]]


def sweep(play: Play, store: Store, step: int, *, second: bool = False) -> None:
    """Play with an interrupt at each place, when it is met first and last, and judge each.

    Args:
        play: plays under a run id; says what each environment did.
        store: where it is recorded.
        step: leave out places between.
        second: the environment interrupts itself, and places are those right after it.
    """
    counting = Interrupt(None, waits=second)
    play("counting", counting)
    met = counting.places[:150] if second else counting.places
    first = {place: at for at, place in reversed(list(enumerate(met)))}
    last = {place: at for at, place in enumerate(met)}
    first_and_last = {*first.values(), *last.values()}
    assert len(first_and_last) > 40
    wrong = []
    for at in sorted(first_and_last)[:: 2 * step if second else step]:
        run = f"run-{at}"
        for number, log in enumerate(play(run, Interrupt(at, waits=second))):
            found = judge(log, recorded(store, run, number), LENGTH + number, 1 + second)
            if found:
                wrong.append(f"{at}, {met[at]}, environment {number}: {found}")
    assert not wrong, "\n".join(wrong)
    assert not OPEN_HERE, f"{len(OPEN_HERE)} episodes that nobody goes on with are open"
    assert store.verify().ok


EVERY = [pytest.param(9, id="some"), pytest.param(1, id="all", marks=pytest.mark.slow)]


# -- one environment ------------------------------------------------------------------------------


SECOND = pytest.mark.parametrize("second", [False, True], ids=["once", "twice"])


@pytest.mark.parametrize("step", EVERY)
@SECOND
def test_one_environment(step: int, second: bool, store: Store) -> None:
    def play(run: str, interrupt: Interrupt) -> list[Any]:
        env = Line(interrupts=interrupt if second else None)
        captured = capture_episodes(env, exporter=store, provenance=Provenance(run_id=run))
        action, ready = 36, 0
        with interrupt:
            for _ in range(3):
                with contextlib.suppress(KeyboardInterrupt):
                    while len(env.log) < 3 * LENGTH:
                        early = action == 40
                        if env.at == env.length or ready != env.episode or early:
                            action += early
                            captured.reset(seed=env.episode)
                            ready = env.episode
                        action += 1
                        try:
                            captured.step(action)
                        except OutOfOrder:  # the interrupt came before the early reset
                            ready = 0
                        except ValueError:
                            pass
                    captured.close()
        assert len(env.log) == 3 * LENGTH
        captured.close()
        return [env.log]

    sweep(play, store, step, second=second)


# -- a vector -------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", EVERY)
@pytest.mark.parametrize("mode", list(AutoresetMode), ids=lambda mode: mode.name)
@SECOND
def test_a_vector(step: int, second: bool, mode: AutoresetMode, store: Store) -> None:
    def play(run: str, interrupt: Interrupt) -> list[Any]:
        first = Line(interrupts=interrupt if second else None)
        envs = SyncVectorEnv([lambda: Line(1), lambda: first][::-1], autoreset_mode=mode)
        captured = capture_vector(envs, exporter=store, provenance=Provenance(run_id=run))
        steps, ready = 0, False
        with interrupt:
            for _ in range(3):
                with contextlib.suppress(KeyboardInterrupt):
                    if not ready:
                        captured.reset(seed=0)
                        ready = True
                    while steps < 2 * LENGTH + 3:
                        over = np.array([env.at == env.length for env in envs.envs])
                        if mode is AutoresetMode.DISABLED and over.any():
                            ready = False
                            captured.reset(options={"reset_mask": over})
                            ready = True
                        steps += 1
                        captured.step(np.array([10 * steps, 10 * steps + 3]))
                    captured.close()
        captured.close()
        return [env.log for env in envs.envs]

    sweep(play, store, step, second=second)


@pytest.mark.parametrize("step", EVERY)
def test_a_vector_that_raises_and_is_reset_early(step: int, store: Store) -> None:
    def play(run: str, interrupt: Interrupt) -> list[Any]:
        envs = SyncVectorEnv([Line])
        captured = capture_vector(envs, exporter=store, provenance=Provenance(run_id=run))
        steps, ready = 39, False
        with interrupt:
            for _ in range(2):
                with contextlib.suppress(KeyboardInterrupt):
                    while steps < 45:
                        if not ready or steps == 43:
                            ready = False
                            captured.reset(seed=0)
                            steps, ready = steps + (steps == 43), True
                        steps += 1
                        with contextlib.suppress(ValueError):
                            captured.step(np.array([steps]))
                    captured.close()
        captured.close()
        return [env.log for env in envs.envs]

    sweep(play, store, step)


# -- one episode ----------------------------------------------------------------------------------


@pytest.mark.parametrize("step", EVERY)
def test_an_episode(step: int, store: Store) -> None:
    """It is kept with all that was done, and the interrupt goes on."""

    def play(run: str, interrupt: Interrupt) -> list[Any]:
        env = Line()

        def interact(env: Any, observation: Any, info: Any) -> str:
            for action in range(LENGTH):
                env.step(action)
            return "done"

        with interrupt, contextlib.suppress(KeyboardInterrupt):
            capture_episode(
                lambda: env,
                interact,
                case=EvalCase("line", case_id="line"),
                environment_id="line-v1",
                observer_id="line-v1",
                observe=lambda: {"at": env.at},
                seed=1,
                max_steps=LENGTH,
                store=store,
                provenance=Provenance(run_id=run),
            )
            assert interrupt.at is None or len(interrupt.places) <= interrupt.at, (
                f"the interrupt was swallowed in {interrupt.places[interrupt.at]}"
            )
        return [env.log]

    sweep(play, store, step)
