"""Episodes with the states, actions and audit that a test names."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import gymnasium
import pytest
from gymnasium.spaces import Discrete

from envbench.capture import capture_episode
from envbench.evidence import EpisodeEvidence, EvalCase

UNSEEN = object()
"""Stands for a state that the observer could not read."""

CASE = EvalCase("do it", case_id="case-1")


class World(gymnasium.Env[Any, Any]):
    """Is in one given state after another."""

    action_space = Discrete(100)
    observation_space = Discrete(1)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return 0, {}

    def step(self, action: Any) -> Any:
        return 0, 0.0, False, False, {}


def make_episode(
    *states: Any,
    actions: list[int] | None = None,
    final: Any = None,
    audit: dict[int, list[Any]] | None = None,
    **given: Any,
) -> EpisodeEvidence:
    """An episode whose states after the reset and after each step are those given.

    Args:
        states: the first is the one after the reset; `UNSEEN` for one that was not seen.
        actions: of each step, by default 1, 2, 3 and so on; one outside 0..99 is refused.
        final: the last state, by default the one after the last step.
        audit: events by the step at which they are recorded.
        given: more arguments of `capture_episode`.
    """
    seen = iter([*states, states[-1] if final is None else final])
    events = iter([(audit or {}).get(step, []) for step in range(len(states) + 1)])

    def observe() -> Any:
        state = next(seen)
        if state is UNSEEN:
            raise ConnectionError("cannot be read now")
        return copy.deepcopy(state)

    def interact(env: Any, observation: Any, info: Any) -> str:
        for action in actions or range(1, len(states)):
            try:
                env.step(action)
            except ValueError:
                continue
        return "done"

    def read_audit() -> Any:
        found = next(events)
        if isinstance(found, Exception):
            raise found
        return found

    return capture_episode(
        World,
        interact,
        **{
            "case": CASE,
            "environment_id": "world-v1",
            "observer_id": "world-v1",
            "observe": observe,
            "seed": 1,
            "max_steps": 50,
            "audit": None if audit is None else read_audit,
            **given,
        },
    )


@pytest.fixture(scope="session")
def episode() -> Callable[..., EpisodeEvidence]:
    """Make an episode; see `make_episode`."""
    return make_episode


@pytest.fixture(scope="session")
def unseen() -> object:
    """Stands for a state that the observer could not read."""
    return UNSEEN
