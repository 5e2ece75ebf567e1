"""Stores of real episodes whose length, reward and ending a test names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import gymnasium
from gymnasium.spaces import Discrete

from envbench.capture import Provenance, capture_episode
from envbench.checks import OutcomeCheck, OutcomeVerdict, evaluate
from envbench.evidence import EpisodeEvidence, EvalCase
from envbench.store import Store


class Walk(NamedTuple):
    """An episode to record: `outcome` is what the check `arrived` comes to."""

    version: str = "1"
    steps: int = 2
    reward: float | None = 1.0
    ending: str = "terminated"
    outcome: bool | None = True
    case_id: str = "case-1"
    seed: int = 0
    environment_id: str = "walk"
    agent_id: str | None = None


class WalkEnv(gymnasium.Env[int, int]):
    """Ends after the number of steps it is told, and pays everything at the last one."""

    action_space = Discrete(2)
    observation_space = Discrete(2)

    def __init__(self, walk: Walk) -> None:
        self.walk = walk
        self.at = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return 0, {}

    def step(self, action: int) -> Any:
        self.at += 1
        last = self.at == self.walk.steps
        if last and self.walk.ending == "error":
            raise ConnectionError("the path is gone")
        done = last and self.walk.ending
        reward = self.walk.reward if last else 0.0
        return 0, reward, done == "terminated", done == "truncated", {}


def record(store: Store, walk: Walk, *, repeat: int = 0) -> EpisodeEvidence:
    """Record one walk into a store."""

    def interact(env: Any, observation: Any, info: Any) -> str:
        for _ in range(walk.steps):
            env.step(0)
        return "done"

    env = WalkEnv(walk)
    return capture_episode(
        lambda: env,
        interact,
        case=EvalCase("walk", case_id=walk.case_id),
        environment_id=walk.environment_id,
        observer_id="walk",
        observe=lambda: {"place": {"at": env.at}, "arrived": walk.outcome},
        seed=walk.seed,
        max_steps=10_000,
        store=store,
        provenance=Provenance(
            environment_version=walk.version, agent_id=walk.agent_id, repeat=repeat
        ),
    )


def _arrived(episode: EpisodeEvidence) -> OutcomeVerdict:
    return OutcomeVerdict(episode.final_state["arrived"], "as it was told", {})


ARRIVED = OutcomeCheck("arrived", "1", _arrived)


def record_all(store: Store, walks: Iterable[Walk]) -> list[EpisodeEvidence]:
    """Record walks and keep a report of the check `arrived`."""
    episodes = [record(store, walk) for walk in walks]
    if episodes:
        evaluate(store, [ARRIVED]).save(store)
    return episodes
