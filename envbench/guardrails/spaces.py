"""`PolicySpace`: which requests a guardrail is made for."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any

from envbench.guardrails.arguments import brief, is_real, require_double, require_text
from envbench.guardrails.request import EvalRequest


@dataclasses.dataclass(frozen=True, slots=True)
class Bound:
    """The lowest and the highest value of a number in a context, both included.

    Args:
        low: the lowest value; by default there is none.
        high: the highest value; by default there is none.

    Raises:
        TypeError: when one is no number.
        ValueError: when one is NaN or beyond a double, or `low` is above `high`.
    """

    low: float = -math.inf
    high: float = math.inf

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            number = require_double(name, getattr(self, name))
            if math.isnan(number):
                raise ValueError(f"{name} must not be NaN")
            object.__setattr__(self, name, number)
        if self.low > self.high:
            raise ValueError(f"low must not be above high: {self.low} > {self.high}")

    def contains(self, value: Any) -> bool:
        """Whether a value is a number within the bounds; booleans and NaN are none."""
        return is_real(value) and bool(self.low <= value <= self.high)


@dataclasses.dataclass(frozen=True, slots=True)
class PolicySpace:
    """The agents, actions and resources that a guardrail knows, and the numbers it looks at.

    Args:
        agents: their names.
        actions: their names.
        resources: their names.
        context_schema: the bounds of the numbers in a request's context, by name.

    Raises:
        TypeError: when an argument is of the wrong type.

    Example:
        >>> space = PolicySpace(["clerk"], ["pay"], ["invoices"], {"amount": Bound(0, 1000)})
        >>> space.contains(EvalRequest("clerk", "pay", "invoices", {"amount": 1000.5}))
        False
    """

    agents: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    context_schema: Mapping[str, Bound] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("agents", "actions", "resources"):
            object.__setattr__(self, name, _names(name, getattr(self, name)))
        if not isinstance(self.context_schema, Mapping):
            kind = type(self.context_schema).__name__
            raise TypeError(f"context_schema must be a mapping of names to Bounds, not {kind}")
        schema = {
            require_text("a key of context_schema", k): v for k, v in self.context_schema.items()
        }
        for name, bound in schema.items():
            if not isinstance(bound, Bound):
                raise TypeError(
                    f"context_schema[{name!r}] must be a Bound, not {type(bound).__name__}"
                )
        object.__setattr__(self, "context_schema", schema)

    def contains(self, request: EvalRequest) -> bool:
        """Whether the guardrail is made for a request.

        Its agent, action and resource are among the names, where there are any, and its context
        has a number within each bound. What else the context holds does not matter.
        """
        known = (
            (self.agents, request.agent),
            (self.actions, request.action),
            (self.resources, request.resource),
        )
        return all(not names or name in names for names, name in known) and all(
            bound.contains(request.context.get(name)) for name, bound in self.context_schema.items()
        )

    def __hash__(self) -> int:
        schema = frozenset(self.context_schema.items())
        return hash((self.agents, self.actions, self.resources, schema))


def _names(argument: str, names: Any) -> tuple[str, ...]:
    if isinstance(names, (str, Mapping)) or not isinstance(names, Iterable):
        raise TypeError(
            f"{argument} must be several names, not {type(names).__name__}: {brief(names)}"
        )
    texts = [require_text(f"a name in {argument}", name) for name in names]
    unordered = isinstance(names, (set, frozenset))
    return tuple(dict.fromkeys(sorted(texts) if unordered else texts))
