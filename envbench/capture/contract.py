"""The Gymnasium contract: what a step may return, checked a column at a time.

A broken contract is recorded with the value that was seen, and the run goes on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from envbench.evidence.spaces import SpaceCodec
from envbench.evidence.tagged import Kept, type_name

if TYPE_CHECKING:
    from envbench.capture.recorder import PlainRow, RawStep


class Errors:
    """Errors by the position of their step, most telling first.

    Args:
        rows: the steps; the errors that the recorder noted come first.
    """

    def __init__(self, rows: Sequence[RawStep | PlainRow]) -> None:
        self._by_step = {
            i: list(row.errors)
            for i, row in enumerate(rows)
            if not isinstance(row, tuple) and row.errors
        }

    def add(self, step: int, error: dict[str, Any]) -> None:
        """Add an error of a step."""
        self._by_step.setdefault(step, []).append(error)

    def items(self) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        """The steps with errors, in order."""
        return iter(sorted(self._by_step.items()))


def check_rewards(
    rewards: Sequence[Any], positions: Sequence[int], errors: Errors
) -> list[float | None]:
    """Rewards as doubles; None for what is no number, which is an error, as is a non-finite one."""
    if set(map(type, rewards)) == {float} and all(map(math.isfinite, rewards)):
        return list(rewards)
    numbers = []
    for i, reward in zip(positions, rewards, strict=True):
        number = _as_number(reward)
        numbers.append(number)
        if number is None:
            message = f"reward is {kind_name(reward)}, not a number that a double holds"
            errors.add(i, contract_error("reward", message, reward))
        elif not math.isfinite(number):
            message = f"reward is {number}, not finite"
            errors.add(i, contract_error("reward", message, reward))
    return numbers


def check_flags(
    name: str, flags: Sequence[Any], positions: Sequence[int], errors: Errors
) -> list[bool | None]:
    """Flags as booleans; None for what is none, which is an error."""
    if set(map(type, flags)) == {bool}:
        return list(flags)
    found: list[bool | None] = []
    for i, flag in zip(positions, flags, strict=True):
        if isinstance(flag, np.ndarray) and flag.shape == ():
            flag = flag[()]
        if isinstance(flag, (bool, np.bool_)):
            found.append(bool(flag))
        else:
            found.append(None)
            message = f"{name} is {kind_name(flag)}, not a bool"
            errors.add(i, contract_error(name, message, flag))
    return found


def is_dict(value: Any) -> bool:
    """Whether a value is a dict, also when it was put in tagged form as soon as it was seen."""
    return isinstance(value, dict) or (type(value) is Kept and issubclass(value.kind, dict))


def contract_error(name: str, message: str, value: Any) -> dict[str, Any]:
    """The error of a field that is not what Gymnasium says, with the value that was seen."""
    return {
        "phase": "contract",
        "type": "BrokenContract",
        "message": message,
        "field": name,
        "value": value,
    }


def outside_error(codec: SpaceCodec) -> dict[str, Any]:
    """The error of an observation outside its space; the observation itself is kept."""
    space = codec.description["repr"] if codec.description else None
    return {
        "phase": "contract",
        "type": "BrokenContract",
        "message": f"observation is outside the declared space {space}",
        "field": "observation",
    }


def kind_name(value: Any) -> str:
    """The class of a value, for messages."""
    if value is None:
        return "None"
    return type_name(value.kind if type(value) is Kept else type(value))


def _as_number(reward: Any) -> float | None:
    """A reward as a double, or None when it is no number or a double cannot hold it exactly."""
    if isinstance(reward, np.ndarray) and reward.shape == ():
        reward = reward[()]
    if isinstance(reward, (bool, np.bool_)):
        return None
    if not isinstance(reward, (int, float, np.integer, np.floating)):
        return None
    if isinstance(reward, np.integer):
        reward = int(reward)  # NumPy compares it with a double as one
    try:
        number = float(reward)
    except (OverflowError, ValueError):
        return None
    return number if math.isnan(number) or number == reward else None
