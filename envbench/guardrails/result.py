"""`EvalResult`: what a guardrail decided about a request, and how it explains it."""

from __future__ import annotations

import dataclasses
from enum import StrEnum
from typing import Any

from envbench.guardrails.arguments import brief, require_double


class Effect(StrEnum):
    """What becomes of a request.

    `ERROR` is no decision: the guardrail failed to make one.
    """

    ALLOW = "allow"
    DENY = "deny"
    ERROR = "error"


@dataclasses.dataclass(frozen=True, slots=True)
class EvalResult:
    """What a guardrail decided.

    Args:
        effect: the decision; its text (``"deny"``) is taken, too.
        reason: why, in words.
        eval_time_ms: how long it took in milliseconds, as the guardrail says. A guardrail that
            measures it gives another result each time, and its episodes are not reproducible.

    Raises:
        TypeError: when an argument is of the wrong type.
        ValueError: when there is no such effect, or the time is beyond a double.
    """

    effect: Effect
    reason: str | None = None
    eval_time_ms: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "effect", as_effect("effect", self.effect))
        if self.reason is not None and not isinstance(self.reason, str):
            raise TypeError(f"reason must be text or None, not {type(self.reason).__name__}")
        object.__setattr__(self, "eval_time_ms", require_double("eval_time_ms", self.eval_time_ms))


@dataclasses.dataclass(frozen=True, slots=True)
class Explanation:
    """An explanation that is one text.

    Args:
        narrative: the text.
    """

    narrative: str

    def to_narrative(self) -> str:
        """The explanation as text for people."""
        return self.narrative


def as_effect(argument: str, value: Any) -> Effect:
    """The effect that a value or its text names.

    Raises:
        TypeError: when it is no text.
        ValueError: when there is no such effect.
    """
    if not isinstance(value, str):
        raise TypeError(f"{argument} must be an Effect, not {type(value).__name__}")
    try:
        return Effect(value)
    except ValueError:
        names = ", ".join(effect.value for effect in Effect)
        raise ValueError(f"{argument} must be one of {names}, not {brief(value)}") from None
