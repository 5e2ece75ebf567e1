"""What guardrails, tasks and injections accept: texts and numbers, refused by name when not."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

LARGEST = float(np.finfo(np.float64).max)


def require_text(argument: str, value: Any) -> str:
    """The text itself, also of a member of a text Enum.

    Raises:
        TypeError: when it is not text.
    """
    if not isinstance(value, str):
        raise TypeError(f"{argument} must be text, not {type(value).__name__}: {brief(value)}")
    return str.__str__(value)


def require_different(argument: str, ids: Iterable[str]) -> None:
    """Refuse ids of which two are the same: their results could not be told apart.

    Raises:
        ValueError: naming those.
    """
    repeated = sorted(name for name, times in Counter(ids).items() if times > 1)
    if repeated:
        raise ValueError(f"{argument} hold an id twice: {', '.join(map(repr, repeated))}")


def is_real(value: Any) -> bool:
    """Whether a value is of a type of real numbers; booleans are none, a float's NaN is."""
    if isinstance(value, Decimal):
        return not value.is_nan()  # its NaN cannot even be compared
    return isinstance(value, Real) and not isinstance(value, (bool, np.bool_))


def is_finite(value: Any) -> bool:
    """Whether a value is a real number that a double can hold, if not exactly."""
    return is_real(value) and bool(-LARGEST <= value <= LARGEST)


def require_double(argument: str, value: Any) -> float:
    """The double nearest to a number.

    Raises:
        TypeError: when it is no number.
        ValueError: when it is beyond what a double can hold.
    """
    if not is_real(value):
        raise TypeError(f"{argument} must be a number, not {type(value).__name__}")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{argument} must be a number that a double can hold") from None


def require_finite(argument: str, value: Any) -> float:
    """The double nearest to a finite number.

    Raises:
        TypeError: when it is no number.
        ValueError: when it is NaN, infinite or beyond a double.
    """
    number = require_double(argument, value)
    if not math.isfinite(number):
        raise ValueError(f"{argument} must be finite, not {number}")
    return number


def brief(value: Any) -> str:
    """A value for a message: its `repr`, cut, also where it has none."""
    try:
        text = repr(value)
    except Exception:  # an integer of very many digits, or a class of the user's
        return f"<{type(value).__name__}>"
    return text if len(text) <= 80 else f"{text[:79]}…"
