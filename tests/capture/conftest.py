"""A small environment that plays a script, and a way to capture an episode of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import pytest
from gymnasium.spaces import Discrete

from envbench.capture import capture_episode
from envbench.capture.provenance import Provenance
from envbench.capture.recorder import Header
from envbench.evidence import EpisodeEvidence, EvalCase
from envbench.store import Store, connect

CASE = EvalCase("count", case_id="count-1")


class Scripted(gymnasium.Env[Any, Any]):
    """Returns what it is told to, or raises it: `results[0]` at the first step, and so on.

    A callable that is no exception is called for the result.

    Attributes:
        calls: what was done to it, in order.
    """

    action_space = Discrete(3)
    observation_space = Discrete(100)

    def __init__(self, *results: Any, reset: Any = (0, {}), close: Any = None) -> None:
        self.results = list(results)
        self.reset_result = reset
        self.close_result = close
        self.calls: list[Any] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.calls.append(("reset", seed, options))
        return give(self.reset_result)

    def step(self, action: Any) -> Any:
        self.calls.append(("step", action))
        return give(self.results.pop(0))

    def close(self) -> None:
        self.calls.append("close")
        give(self.close_result)


def give(result: Any) -> Any:
    if isinstance(result, BaseException):
        raise result
    return result() if callable(result) else result


def play(env: Any, actions: list[Any]) -> str:
    for action in actions:
        env.step(action)
    return "done"


def capture_scripted(env: Any, agent: Any = (), **given: Any) -> EpisodeEvidence:
    """Capture one episode: `agent` is a function, or the actions that are sent in order."""
    interact = agent if callable(agent) else lambda env, observation, info: play(env, list(agent))
    arguments: dict[str, Any] = {
        "case": CASE,
        "environment_id": "scripted-v1",
        "observer_id": "world-v1",
        "observe": lambda: {},
        "seed": 7,
        "max_steps": 20,
        **given,
    }
    factory = env if callable(env) else lambda: env
    return capture_episode(factory, interact, **arguments)


@pytest.fixture
def scripted() -> type[Scripted]:
    """The class of environments that play a script."""
    return Scripted


@pytest.fixture
def capture() -> Callable[..., EpisodeEvidence]:
    """Capture one episode; see `capture_scripted`."""
    return capture_scripted


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    """A store in memory, shared by the tests of a file: opening a new file takes a while."""
    with connect(":memory:") as opened:
        yield opened


@pytest.fixture
def header() -> Callable[[], Header]:
    """Makes headers of episodes of which little is known."""

    def make() -> Header:
        return Header(
            case=EvalCase("x", case_id="c"),
            surroundings=None,
            environment_id="e",
            observer_id=None,
            provenance=Provenance(),
            seed=None,
            options=None,
            max_steps=None,
            row_keys=None,
            audited=False,
            capture_steps=True,
            closes=False,
        )

    return make
