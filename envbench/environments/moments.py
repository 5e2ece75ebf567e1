"""Moments of an episode, the reset and each step, and what differs between two of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from envbench.environments.differences import Difference, Rules, differences
from envbench.environments.replaying import is_refused
from envbench.evidence.episode import EpisodeEvidence, Step

Moment = dict[str, Any]
"""What was seen at one index: observation, reward, flags, info, state and error by name."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What of two episodes is compared.

    Attributes:
        rules: what counts as equal.
        states: whether the second episode's states were read.
        scores: whether the second episode was scored.
    """

    rules: Rules
    states: bool = True
    scores: bool = True


def moments(episode: EpisodeEvidence) -> Iterator[Moment]:
    """What was seen at the reset, and at each step."""
    initial = episode.initial
    yield {
        "observation": None if initial is None else initial.observation,
        "info": None if initial is None else initial.info,
        "state": episode.initial_state,
        "error": _reset_error(episode),
    }
    for step in episode.steps:
        # the environment never saw a refused action: there is nothing of it but the state
        yield {"state": step.state} if is_refused(step) else _seen(step)


def moment_differences(expected: Moment, actual: Moment, scope: Scope) -> Iterator[Difference]:
    """What differs between a recorded moment and one of a replay."""
    if not scope.scores:
        expected, actual = _unscored(expected), _unscored(actual)
    for name in expected:
        if name == "state" and (expected[name] is None or not scope.states):
            continue  # it was not seen
        if name == "error" and not scope.states and _is_of_observer(expected[name]):
            continue
        yield from differences(expected[name], actual.get(name), (name,), scope.rules)


def plain_error(error: Any) -> dict[str, Any] | None:
    """Of an error, what is compared: its phase, class and message."""
    if error is None or error.get("phase") == "limit":  # the caller's own, no fault
        return None
    return {name: error.get(name) for name in ("phase", "type", "message")}


def _seen(step: Step) -> Moment:
    return {
        "observation": step.observation,
        "reward": step.reward,
        "terminated": step.terminated,
        "truncated": step.truncated,
        "info": step.info,
        "state": step.state,
        "error": plain_error(step.error),
    }


def _reset_error(episode: EpisodeEvidence) -> dict[str, Any] | None:
    phases = ("reset", "observe_reset", "contract")
    errors = [e for e in episode.errors if e.get("step") == 0 and e["phase"] in phases]
    return plain_error(errors[0]) if errors else None


def _is_of_observer(error: dict[str, Any] | None) -> bool:
    return error is not None and error["phase"].startswith("observe")


def _unscored(moment: Moment) -> Moment:
    """A moment without what scorers made of the episode, at its end."""
    info = moment.get("info")
    if not isinstance(info, dict) or not isinstance(info.get("rewards"), dict):
        return moment
    without = {key: value for key, value in info.items() if key not in ("rewards", "scores")}
    return {**moment, "info": without, "reward": info["rewards"].get("step")}
