"""Real episodes: tills that book and pay what they are told to, and a check of the bookings."""

from __future__ import annotations

from typing import Any

import gymnasium

from envbench.capture import Provenance, capture_episode
from envbench.checks import OutcomeCheck, OutcomeVerdict
from envbench.evidence import EpisodeEvidence, EvalCase
from envbench.evidence.digest import seal
from envbench.evidence.episode import _encode
from envbench.evidence.tagged import tag


class Till(gymnasium.Env[int, int]):
    """Books what it is told to, and pays what it is told to."""

    action_space = gymnasium.spaces.Discrete(4)
    observation_space = gymnasium.spaces.Discrete(4)

    def __init__(self, reward: float) -> None:
        self.reward = reward
        self.booked = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.booked = 0
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.booked = int(action)
        return self.booked, self.reward, True, False, {}


def record(
    case: str = "x",
    booked: int | None = 1,
    *,
    store: Any = None,
    reward: float = 0.0,
    seed: int | None = 17,
    environment: str = "till-v1",
    source: str | None = None,
    tags: tuple[str, ...] = (),
    options: Any = None,
    **provenance: Any,
) -> EpisodeEvidence:
    """Record an episode in which so much was booked; None leaves the last state unseen.

    A seed of None is what a wrapped loop records that resets without one.
    """
    till = Till(reward)

    def observe() -> dict[str, int]:
        if booked is None and till.booked:
            raise ConnectionError("the till does not answer")
        return {"booked": till.booked}

    def interact(env: Any, observation: int, info: Any) -> str:
        env.step(1 if booked is None else booked)
        return "booked"

    episode = capture_episode(
        lambda: till,
        interact,
        case=EvalCase(f"Book once: {case}", case_id=case, source_id=source, tags=tags),
        environment_id=environment,
        observer_id="till",
        observe=observe,
        seed=seed or 0,
        max_steps=5,
        options=options,
        store=store if seed is not None else None,
        provenance=Provenance(**provenance),
    )
    if seed is None:
        episode = _without_seed(episode)
        if store is not None:
            store.add(episode)
    return episode


def booked_at_most(limit: int, version: str) -> OutcomeCheck:
    """A check that something was booked, and not more often than that."""

    def judge(episode: EpisodeEvidence) -> OutcomeVerdict:
        state = episode.data["final_state"]
        if state is None:
            return OutcomeVerdict(None, "The last state was not seen")
        return OutcomeVerdict(1 <= state["booked"] <= limit, "Booked often enough")

    return OutcomeCheck("booked", version, judge)


ONCE, OFTEN = booked_at_most(1, "once"), booked_at_most(3, "often")


def _without_seed(episode: EpisodeEvidence) -> EpisodeEvidence:
    data = tag(episode.to_dict() | {"seed": None})
    source = _encode(data)
    data["digest"], data["trajectory_digest"] = seal(
        source.head(), source.initial_state, source.steps(), source.final_state
    )
    return EpisodeEvidence.from_dict(data)
