"""A request as an observation of fixed shape, and what such an observation cannot show."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from envbench.guardrails.arguments import LARGEST, is_real
from envbench.guardrails.request import CONTEXT, FIELDS, EvalRequest
from envbench.guardrails.result import Effect, EvalResult
from envbench.guardrails.spaces import Bound, PolicySpace

MAX_EVAL_TIME_MS = 3.6e6
"""The longest evaluation that an observation shows: an hour, in milliseconds."""

Adjusted = list[dict[str, Any]]


class RequestEncoding:
    """Encodes requests as observations, for the vocabulary of a policy space and some requests.

    Args:
        space: the agents, actions and resources that a guardrail knows, and its bounds.
        requests: more requests whose agents, actions and resources can be shown.

    Attributes:
        observation_space: ``agent``, ``action`` and ``resource`` as places in their vocabularies,
            which are sorted, with the last place for what is unknown; ``context`` as the numbers
            of the context schema, sorted by name; ``last_effect`` (0 none, 1 allow, 2 deny) and
            ``last_eval_time_ms``.
        vocabularies: the values of each of the first three, in order of their places.
        names: the names of the numbers in ``context``, in order.
    """

    def __init__(self, space: PolicySpace, requests: Sequence[EvalRequest]) -> None:
        declared = {"agent": space.agents, "action": space.actions, "resource": space.resources}
        self.vocabularies = {
            field: tuple(sorted({*declared[field], *(getattr(r, field) for r in requests)}))
            for field in FIELDS
        }
        self._places = {
            field: {value: place for place, value in enumerate(values)}
            for field, values in self.vocabularies.items()
        }
        self.names = tuple(sorted(space.context_schema))
        self._bounds = [space.context_schema[name] for name in self.names]
        self.observation_space = spaces.Dict(
            {
                **{f: spaces.Discrete(len(self.vocabularies[f]) + 1) for f in FIELDS},
                "context": _box(self._bounds),
                "last_effect": spaces.Discrete(3),
                "last_eval_time_ms": _box([_TIME]),
            }
        )

    def encode(
        self, request: EvalRequest, result: EvalResult | None = None
    ) -> tuple[dict[str, Any], Adjusted]:
        """The observation of a request, and of what was decided about it.

        Args:
            request: the request.
            result: the decision, when there is one.

        Returns:
            The observation, and a list of what it does not show as it was: ``field``, ``reason``
            (``clipped``, ``missing``, ``not_a_number``, ``unknown``) and the ``value``.
        """
        adjusted: Adjusted = []
        observation: dict[str, Any] = {
            field: self._place(field, getattr(request, field), adjusted) for field in FIELDS
        }
        numbers = [
            _shown(f"{CONTEXT}{name}", bound, request.context, name, adjusted)
            for name, bound in zip(self.names, self._bounds, strict=True)
        ]
        for name in sorted(set(request.context) - set(self.names)):
            adjusted.append(_entry(f"{CONTEXT}{name}", "unknown", request.context[name]))
        observation["context"] = np.array(numbers, dtype=np.float64)
        observation["last_effect"] = np.int64(_EFFECTS.get(result.effect, 0) if result else 0)
        time = {"last_eval_time_ms": result.eval_time_ms if result else 0.0}
        observation["last_eval_time_ms"] = np.array(
            [_shown("last_eval_time_ms", _TIME, time, "last_eval_time_ms", adjusted)]
        )
        return observation, adjusted

    def _place(self, field: str, value: str, adjusted: Adjusted) -> np.int64:
        places = self._places[field]
        if value not in places:
            adjusted.append(_entry(field, "unknown", value))
        return np.int64(places.get(value, len(places)))


_TIME = Bound(0.0, MAX_EVAL_TIME_MS)
_EFFECTS = {Effect.ALLOW: 1, Effect.DENY: 2}


def _shown(field: str, bound: Bound, values: Any, name: str, adjusted: Adjusted) -> float:
    """The number that stands for a value: the nearest within the bounds, of no number that of 0."""
    if name not in values:
        adjusted.append(_entry(field, "missing", None))
        return _within(bound, 0.0)
    value = values[name]
    number = _as_double(value)
    if number is None:
        adjusted.append(_entry(field, "not_a_number", value))
        # true and false are no numbers, but an agent may learn from them
        return _within(bound, float(value) if isinstance(value, (bool, np.bool_)) else 0.0)
    shown = _within(bound, number)
    # NumPy would compare its large integers as doubles
    if shown != (value.item() if isinstance(value, np.generic) else value):
        adjusted.append(_entry(field, "clipped", value))
    return shown


def _as_double(value: Any) -> float | None:
    """The double nearest to a number, None of what is no number."""
    try:
        if not is_real(value):
            return None
        number = min(max(value, -LARGEST), LARGEST) if type(value) is int else value
        number = float(number)
    except Exception:  # a class of the user's that says it is a number
        return None
    return None if math.isnan(number) else number


def _within(bound: Bound, number: float) -> float:
    return min(max(number, bound.low), bound.high)


def _entry(field: str, reason: str, value: Any) -> dict[str, Any]:
    return {"field": field, "reason": reason, "value": value}


def _box(bounds: Iterable[Bound]) -> spaces.Box:
    ends: NDArray[np.float64] = np.array([[b.low, b.high] for b in bounds], dtype=np.float64)
    low, high = ends.reshape(-1, 2).T
    return spaces.Box(low, high, dtype=np.float64)
