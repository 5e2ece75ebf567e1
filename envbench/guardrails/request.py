"""`EvalRequest`: what an agent wants to do, as a guardrail sees it."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Self

import numpy as np

from envbench.guardrails.arguments import brief, require_text

FIELDS = ("agent", "action", "resource")
"""The fields of a request that are text."""

CONTEXT = "context."
"""What the name of a field of the context begins with: ``context.amount``."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class EvalRequest:
    """Who wants to do what with which resource, and in which circumstances.

    A request can be hashed, whatever its context holds, and two are equal when their content is
    (a NaN is equal to itself). The context is a copy of what was given. It is meant to be read:
    who changes it in place changes the hash; `replace` makes a changed request.

    Args:
        agent: who asks.
        action: what is to be done.
        resource: what it is to be done to.
        context: everything else, by name; values of any kind.

    Raises:
        TypeError: when an argument is of the wrong type.

    Example:
        >>> request = EvalRequest("clerk", "pay", "invoice/17", {"amount": 120.0})
        >>> request.replace("context.amount", 9.5)
        EvalRequest(agent='clerk', action='pay', resource='invoice/17', context={'amount': 9.5})
        >>> request == EvalRequest("clerk", "pay", "invoice/17", {"amount": 120})
        True
    """

    agent: str
    action: str
    resource: str
    context: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in FIELDS:
            object.__setattr__(self, name, require_text(name, getattr(self, name)))
        if not isinstance(self.context, Mapping):
            raise TypeError(f"context must be a mapping, not {type(self.context).__name__}")
        copied = {require_text("a key of context", k): _copied(v) for k, v in self.context.items()}
        object.__setattr__(self, "context", copied)

    def value(self, field: str) -> Any:
        """What a field holds: ``agent``, ``action``, ``resource`` or ``context.NAME``.

        Raises:
            KeyError: when the context has no such name.
            ValueError: when `field` is no name of a field.
        """
        require_field("field", field)
        return getattr(self, field) if field in FIELDS else self.context[_name(field)]

    def replace(self, field: str, value: Any) -> Self:
        """The same request with another value in a field, named as in `value`.

        Raises:
            TypeError: when the value must be text and is not.
            ValueError: when `field` is no name of a field.
        """
        require_field("field", field)
        if field in FIELDS:
            return dataclasses.replace(self, **{field: value})
        return dataclasses.replace(self, context={**self.context, _name(field): value})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EvalRequest) and self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())

    def __deepcopy__(self, memo: Any) -> Self:
        return dataclasses.replace(self)

    def _content(self) -> tuple[Any, ...]:
        try:
            context = _hashable(self.context)
        except RecursionError:  # it contains itself
            context = _Unhashable(self.context)
        return (self.agent, self.action, self.resource, context)


def require_field(argument: str, field: Any) -> None:
    """Refuse what names no field of a request.

    Raises:
        TypeError: when it is not text.
        ValueError: when it is another text.
    """
    require_text(argument, field)
    if field not in FIELDS and not (field.startswith(CONTEXT) and _name(field)):
        raise ValueError(
            f"{argument} must be agent, action, resource or context.NAME, not {brief(field)}"
        )


def _name(field: str) -> str:
    return field.removeprefix(CONTEXT)


def _copied(value: Any) -> Any:
    if type(value) in _PLAIN:
        return value
    try:
        return copy.deepcopy(value)
    except Exception:  # a lock, a socket: it cannot be a copy, and is the value all the same
        return value


_PLAIN = frozenset({bool, float, int, str, type(None)})


def _hashable(value: Any) -> Any:
    """A value that can be hashed, equal to that of another value when the two are equal."""
    if isinstance(value, Mapping):
        return ("mapping", frozenset((_hashable(k), _hashable(v)) for k, v in value.items()))
    if isinstance(value, (list, tuple)):
        kind = "list" if isinstance(value, list) else "tuple"
        return (kind, tuple(map(_hashable, value)))
    if isinstance(value, (set, frozenset)):
        return ("set", frozenset(map(_hashable, value)))
    if isinstance(value, np.ndarray):
        return ("array", value.dtype.str, value.shape, _hashable(value.ravel().tolist()))
    if _is_nan(value):
        return ("nan",)
    try:
        hash(value)
    except Exception:  # a TypeError, or what a class of the user's raises
        return _Unhashable(value)
    return value


def _is_nan(value: Any) -> bool:
    if isinstance(value, Decimal):
        return value.is_nan()  # its NaN cannot even be compared
    return isinstance(value, (float, np.floating)) and bool(value != value)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _Unhashable:
    """Stands for a value that is compared by its own equality and has no hash."""

    value: Any

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Unhashable):
            return False
        try:
            return bool(self.value == other.value)
        except Exception:  # a frame, whose equality is no yes or no
            return self.value is other.value

    def __hash__(self) -> int:
        return hash(type(self.value))
