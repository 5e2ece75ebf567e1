"""What a policy may do: call a tool, or answer with text; and the space of both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np

from envbench.environments.sampling import sample_json
from envbench.evidence.case import require_name
from envbench.evidence.portable import VALUE_DEPTH, Json, canonical, parse


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A policy's call of a tool; it equals the dict of its name and arguments.

    Args:
        name: the tool's name; a name that the environment does not have is a tool error.
        arguments: the arguments by name. Anything else that is portable JSON is let through, so
            that what a model wrote in their place reaches the environment and is recorded.

    Raises:
        TypeError: when the name is no text.
        ValueError: when the arguments are not portable JSON, naming the place.

    Example:
        >>> ToolCall("pay", {"cents": 1234})
        ToolCall(name='pay', arguments={'cents': 1234})
    """

    name: str
    arguments: Json = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise TypeError(f"name must be text, not {type(self.name).__name__}")
        try:
            # a copy, so that a dict changed later does not change the call
            copied = parse(canonical(self.arguments, VALUE_DEPTH))
        except ValueError as error:
            raise ValueError(
                f"arguments of the tool {self.name!r} must be portable JSON: {error}"
            ) from None
        object.__setattr__(self, "arguments", copied)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ToolCall):
            return (self.name, self.arguments) == (other.name, other.arguments)
        if isinstance(other, dict):
            return other == {"name": self.name, "arguments": self.arguments}
        return NotImplemented

    def to_dict(self) -> dict[str, Json]:
        """The call as plain JSON, as evidence keeps it; a copy."""
        return {"name": self.name, "arguments": parse(canonical(self.arguments))}

    __evidence__ = to_dict


Action = ToolCall | dict[str, Any] | str
"""A tool call, a dict of its name and arguments, or text: the policy's answer."""


def as_action(value: Any) -> ToolCall | str:
    """A value as an action.

    Raises:
        ValueError: when it is none, saying what it is instead.
    """
    if isinstance(value, (ToolCall, str)):
        return value
    if isinstance(value, dict):
        if set(value) != {"name", "arguments"}:
            keys = ", ".join(sorted(map(repr, value)))
            raise ValueError(
                f"a tool call as a dict has the keys 'name' and 'arguments', not {keys or 'none'}"
            )
        try:
            return ToolCall(value["name"], value["arguments"])
        except TypeError as error:
            raise ValueError(f"not an action: {error}") from None
    raise ValueError(
        f"an action is a ToolCall, a dict of name and arguments, or text,"
        f" not {type(value).__name__}"
    )


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a policy is told of it.

    Attributes:
        name: what it is called by.
        description: what it does.
        schema: JSON schema of the object of its arguments.
    """

    name: str
    description: str
    schema: dict[str, Json]

    def to_dict(self) -> dict[str, Json]:
        """The three as plain JSON."""
        return {"name": self.name, "description": self.description, "schema": self.schema}


class ActionSpace(gymnasium.Space[Any]):
    """The space of tool calls and texts.

    Every well-formed call is a member, also of a tool that is not there or with arguments that
    do not fit: the environment answers it with a tool error, and the episode goes on.

    Args:
        tools: what `sample` draws calls of.
        seed: seeds `sample`.
    """

    def __init__(
        self, tools: Sequence[ToolSpec] = (), seed: int | np.random.Generator | None = None
    ) -> None:
        self.tools = tuple(tools)
        for each in self.tools:
            require_name("name", each.name)
        super().__init__(None, None, seed)

    @property
    def is_np_flattenable(self) -> bool:
        """Never: calls have no one shape."""
        return False

    def contains(self, x: Any) -> bool:
        """Whether a value is a tool call, a dict of its name and arguments, or text."""
        try:
            as_action(x)
        except ValueError:
            return False
        return True

    def sample(self, mask: Any = None, probability: Any = None) -> ToolCall | str:
        """Draw a call of one of the tools, with arguments that its schema allows.

        Without tools it is a short text.

        Args:
            mask: for each tool, whether it may be drawn; one at least.
            probability: for each tool, how probable it is; they add up to 1.

        Raises:
            ValueError: when a mask or probabilities do not fit the tools.
        """
        if mask is not None and probability is not None:
            raise ValueError("sample takes a mask or probabilities, not both")
        if not self.tools:
            text = sample_json({"type": "string", "minLength": 1}, self.np_random)
            return str(text)
        weights = self._weights(mask, probability)
        chosen = self.tools[int(self.np_random.choice(len(self.tools), p=weights))]
        return ToolCall(chosen.name, sample_json(chosen.schema, self.np_random))

    def to_jsonable(self, sample_n: Iterable[Any]) -> list[Any]:
        """Actions as JSON: each a text, or an object of name and arguments."""
        actions = map(as_action, sample_n)
        return [action.to_dict() if isinstance(action, ToolCall) else action for action in actions]

    def from_jsonable(self, sample_n: list[Any]) -> list[Any]:
        """Actions from what `to_jsonable` gave.

        Raises:
            ValueError: when one is no action.
        """
        return list(map(as_action, sample_n))

    def describe_portable(self) -> Json:
        """What evidence records of the space: the tools with their schemas."""
        return {"tools": [each.to_dict() for each in self.tools]}

    def _weights(self, mask: Any, probability: Any) -> Any:
        given = mask if mask is not None else probability
        if given is None:
            return None
        weights = np.asarray(given, dtype=float)
        if weights.shape != (len(self.tools),) or not (weights >= 0).all() or not weights.sum():
            raise ValueError(
                f"a mask or probabilities of {self!r} is one number from 0 for each of its"
                f" {len(self.tools)} tools, not all 0"
            )
        return weights / weights.sum()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActionSpace) and self.tools == other.tools

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ActionSpace({', '.join(each.name for each in self.tools)})"
