"""Scorers: functions that judge an episode at its end, and what becomes of their scores.

The reward at the end is the sum of the scores, each times its weight. It is kept apart from the
rewards of the steps. A scorer that raises, or returns no finite number, makes no reward at all: the
episode is then unscored, which is not a reward of 0.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np

from envbench.evidence.case import require_name
from envbench.evidence.tagged import describe_error, type_name

if TYPE_CHECKING:
    from envbench.environments.environment import Environment
    from envbench.environments.rollout import Rollout

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Scorer:
    """A function that judges an episode.

    Attributes:
        name: what its score is called.
        function: called with the rollout; returns a number or a bool.
        weight: what the score is multiplied by; 0 makes it a metric, no part of the reward.
        is_method: whether the environment is given before the rollout.
    """

    name: str
    function: Callable[..., Any]
    weight: float = 1.0
    is_method: bool = False


@dataclass(frozen=True, slots=True)
class Score:
    """What a scorer said.

    Attributes:
        name: the scorer's name.
        weight: its weight.
        value: the score; None when it made none.
        error: why it made none: the exception's class and message.
    """

    name: str
    weight: float
    value: float | None
    error: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The score as the info of the last step holds it."""
        if self.error is not None:
            return {"error": self.error, "weight": self.weight}
        return {"value": self.value, "weight": self.weight}


@overload
def scorer(function: Function, /) -> Function: ...


@overload
def scorer(*, weight: float = 1.0, name: str | None = None) -> Callable[[Function], Function]: ...


def scorer(function: Any = None, /, *, weight: float = 1.0, name: str | None = None) -> Any:
    """Make a method of an environment's class a scorer: ``def correct(self, rollout)``.

    Args:
        function: the method, when used as ``@scorer``.
        weight: what the score is multiplied by; 0 makes it a metric.
        name: what the score is called; by default the method's name.

    Raises:
        TypeError: when what is decorated cannot be called, or the weight is no number.
        ValueError: when the weight is not finite.
    """

    def mark(method: Any) -> Any:
        made = make_scorer(method, weight, name, is_method=True)
        method.__envbench_scorer__ = made
        return method

    return mark if function is None else mark(function)


class ScorerRegistration:
    """``Environment.scorer``: on an environment for it alone, on a class for all of that class."""

    def __get__(self, instance: Environment[Any, Any] | None, owner: type) -> Any:
        register = owner._add_scorer if instance is None else instance._add_own_scorer  # type: ignore[attr-defined]

        def decorate(
            function: Any = None, /, *, weight: float = 1.0, name: str | None = None
        ) -> Any:
            """Have an episode judged by a function of the rollout; see `scorer`."""

            def add(method: Any) -> Any:
                register(make_scorer(method, weight, name))
                return method

            return add if function is None else add(function)

        return decorate


def make_scorer(
    function: Any, weight: float, name: str | None, *, is_method: bool = False
) -> Scorer:
    """A scorer from what a decorator was given; see `scorer` for what it refuses."""
    if not callable(function):
        raise TypeError(f"a scorer is a function of the rollout, not {type(function).__name__}")
    number = _finite(weight)
    if number is None:
        raise ValueError(f"weight must be a finite number, not {weight!r}")
    chosen = name if name is not None else getattr(function, "__name__", type(function).__name__)
    require_name("name", chosen)
    return Scorer(chosen, function, number, is_method)


def add_scorer(scorers: Sequence[Scorer], added: Scorer) -> tuple[Scorer, ...]:
    """Scorers with one more; a function that is defined again, as in a notebook, replaces itself.

    Raises:
        ValueError: when another function has the name.
    """
    known = {each.name: each for each in scorers}
    before = known.get(added.name)
    if before is not None and _place(before.function) != _place(added.function):
        raise ValueError(
            f"there is a scorer {added.name!r} already, {_place(before.function)}: give this one"
            " another name, scorer(name=…)"
        )
    return tuple({**known, added.name: added}.values())


def run_scorers(
    scorers: Sequence[Scorer],
    environment: Environment[Any, Any],
    rollout: Rollout,
    wait: Callable[[Any], Any],
) -> list[Score]:
    """Ask every scorer, whatever another one does.

    Args:
        scorers: the scorers.
        environment: the environment at the episode's end.
        rollout: what they are given.
        wait: waits for the result of one that is asynchronous.
    """
    scores = []
    for each in scorers:
        try:
            before = (environment,) if each.is_method else ()
            value = each.function(*before, rollout)
            if inspect.isawaitable(value):
                value = wait(value)
            number = _finite(value)
            if number is None:
                raise TypeError(f"returned {_described(value)}, which is no finite number")
            scores.append(Score(each.name, each.weight, number))
        except Exception as error:
            message = f"{type(error).__name__}: {describe_error(error)}"
            scores.append(Score(each.name, each.weight, None, message))
    return scores


def end_reward(scores: Sequence[Score]) -> float | None:
    """The sum of weighted scores; None when one that has a weight is missing, or it overflows."""
    total = 0.0
    for each in scores:
        if not each.weight:
            continue
        if each.value is None:
            return None
        total += each.weight * each.value
    return total if math.isfinite(total) else None


def _finite(value: Any) -> float | None:
    """A number or a bool as a finite double; None for anything else."""
    if isinstance(value, np.ndarray) and value.shape == ():
        value = value[()]
    if not isinstance(value, (bool, int, float, np.bool_, np.integer, np.floating)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _described(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:
        return type_name(type(value))
    return text if len(text) <= 60 else type_name(type(value))


def _place(function: Any) -> str:
    of = getattr(function, "__module__", ""), getattr(function, "__qualname__", repr(function))
    return ".".join(filter(None, of))
