"""`Trace`: what happened in an episode, step by step, and what came of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

STOP_REASONS = {
    "terminated": "terminated",
    "truncated": "truncated",
    "step_limit": "truncated",
    "policy_stop": "policy_stop",
}
"""Stop reasons by the ending in evidence; every other ending is a ``failure``."""


class TakenCall(dict[str, Any]):
    """A call that was taken: its ``name`` and ``arguments``, as keys and as attributes."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The tool's name."""
        return str(self["name"])

    @property
    def arguments(self) -> Any:
        """The arguments by name."""
        return self["arguments"]


@dataclass(slots=True)
class TraceStep:
    """One action, and what came of it.

    Attributes:
        index: position in the episode; the first is 1.
        action: ``{"name", "arguments"}``, which has these as attributes too, or text; None when
            it was refused.
        observation: what the policy saw after it; None when there was none.
        reward: the whole reward; None when there was none, or it is not known.
        terminated: whether the environment was done.
        truncated: whether `max_turns` cut it short.
        info: the info.
        snapshot: the state after it; None when it was not seen.
        error: what went wrong in the step itself (not in a tool), None when nothing did.
    """

    index: int
    action: Any
    observation: Any
    reward: float | None
    terminated: bool | None
    truncated: bool | None
    info: Any
    snapshot: Any
    error: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.action, dict) and set(self.action) == {"name", "arguments"}:
            self.action = TakenCall(self.action)

    @property
    def tool_calls(self) -> list[dict[str, Any]]:
        """The calls of tools: ``name``, ``arguments``, ``result`` or ``error``, ``children``."""
        return list(self.info.get("tool_calls", ())) if isinstance(self.info, dict) else []

    @property
    def result(self) -> Any:
        """What the tool returned; None when it failed, or none was called."""
        return next((call.get("result") for call in self.tool_calls), None)

    @property
    def tool_error(self) -> dict[str, Any] | None:
        """What went wrong in the tool: ``kind``, ``type``, ``message``; None when nothing did."""
        return next((call.get("error") for call in self.tool_calls), None)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an episode came to.

    Attributes:
        reward: all of it; None when the rollout failed, was not scored, a scorer made no score, or
            it is not finite.
        step_reward: the sum of what came during the steps.
        end_reward: the weighted sum of the scores; None when there was none.
        scores: the value of each scorer, None where it made none.
        metrics: ``turns``, ``tool_calls``, ``tool_errors``, and the scorers of weight 0.
        errors: why each scorer that made no score made none.
    """

    reward: float | None
    step_reward: float
    end_reward: float | None
    scores: dict[str, float | None] = field(default_factory=dict)
    metrics: dict[str, float | None] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, steps: Sequence[TraceStep], stop_reason: str) -> Outcome:
        """The outcome that the steps of an episode show."""
        infos = [step.info for step in steps if isinstance(step.info, dict)]
        ends = [info for info in infos if "rewards" in info]
        rewards = [_step_reward(step) for step in steps]
        total: float | None = 0.0
        for step in steps:
            if step.info is None:
                continue  # it was refused or raised, and brought nothing
            total = None if step.reward is None or total is None else total + step.reward
        if total is not None and not math.isfinite(total):
            total = None  # no number that rewards of other rollouts could be averaged with
        said = ends[0]["scores"] if ends else {}
        calls = [call for step in steps for call in step.tool_calls]
        metrics: dict[str, float | None] = {
            "turns": len(steps),
            "tool_calls": len(calls),
            "tool_errors": sum("error" in call for call in calls),
        }
        metrics |= {name: each.get("value") for name, each in said.items() if not each["weight"]}
        return cls(
            # an end that the environment did not see was not scored
            reward=total if ends and stop_reason != "failure" else None,
            step_reward=sum(rewards),
            end_reward=ends[0]["rewards"]["end"] if ends else None,
            scores={name: each.get("value") for name, each in said.items()},
            metrics=metrics,
            errors={name: each["error"] for name, each in said.items() if "error" in each},
        )


@dataclass(slots=True)
class Trace:
    """What happened in an episode.

    Attributes:
        steps: the actions in order.
        stop_reason: ``failure``, ``terminated``, ``truncated`` or ``policy_stop``; None before the
            end.
        outcome: what it came to.
        initial_observation: what the policy saw first.
        initial_snapshot: the state after the reset.
    """

    steps: list[TraceStep] = field(default_factory=list)
    stop_reason: str | None = None
    outcome: Outcome = field(default_factory=lambda: Outcome(None, 0.0, None))
    initial_observation: Any = None
    initial_snapshot: Any = None

    @property
    def scores(self) -> dict[str, float | None]:
        """The value of each scorer, as in the outcome."""
        return self.outcome.scores

    @property
    def metrics(self) -> dict[str, float | None]:
        """The metrics, as in the outcome."""
        return self.outcome.metrics


def _step_reward(step: TraceStep) -> float:
    """The part of a reward that came during the step."""
    if isinstance(step.info, dict) and "rewards" in step.info:
        return float(step.info["rewards"]["step"])
    return step.reward or 0.0
