"""What the statistics accept: counts, probabilities and arrays, refused by name when they are not.

A count that is a float, or an array with NaN in it, is a mistake of the caller. Found here, it
has a name; found later, it is a NaN in a chart.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def count(name: str, value: Any) -> int:
    """A whole number from 0 on, as an int of any size.

    Raises:
        TypeError: when it is no integer (True and 1.0 are none).
        ValueError: when it is negative.
    """
    if isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be an integer, not {value!r}")
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {value!r}") from None
    if number < 0:
        raise ValueError(f"{name} must be at least 0, not {number}")
    return number


def probability(name: str, value: float) -> float:
    """A probability strictly between 0 and 1.

    Raises:
        TypeError: when it is no number.
        ValueError: when it is outside, or NaN.
    """
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number between 0 and 1, not {value!r}") from None
    if not 0 < number < 1:
        raise ValueError(f"{name} must be between 0 and 1, not {value!r}")
    return number


def finite(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """A one-dimensional array of finite doubles.

    Raises:
        TypeError: when they are no numbers.
        ValueError: when the shape is another, or one of them is NaN or infinite.
    """
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be numbers, not {values!r}") from None
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension, not {array.ndim}")
    strange = np.flatnonzero(~np.isfinite(array))
    if len(strange):
        at = int(strange[0])
        raise ValueError(f"{name} must be finite, and number {at} is {array[at]}: leave it out")
    return array


def codes(name: str, values: ArrayLike, length: int | None = None) -> NDArray[np.int64]:
    """A one-dimensional array of integers.

    Args:
        name: the argument, for the message.
        values: the integers.
        length: how many there must be.

    Raises:
        TypeError: when they are no integers.
        ValueError: when the shape is another.
    """
    array = np.asarray(values)
    if array.size == 0:
        array = array.astype(np.int64)
    if not np.issubdtype(array.dtype, np.integer):
        raise TypeError(f"{name} must be an array of integers, not of {array.dtype}")
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension, not {array.ndim}")
    if length is not None and len(array) != length:
        raise ValueError(f"{name} must have {length} entries, one a pair, not {len(array)}")
    return array.astype(np.int64, copy=False)


def outcomes(name: str, values: ArrayLike, length: int | None = None) -> NDArray[np.int64]:
    """Outcomes of one side, one a pair: 1 passed, 0 failed, −1 unknown or error, −2 no episode.

    Raises:
        TypeError: when they are no integers.
        ValueError: when the shape is another, or there is another code.
    """
    array = codes(name, values, length)
    strange = np.flatnonzero((array < NO_EPISODE) | (array > PASSED))
    if len(strange):
        at = int(strange[0])
        raise ValueError(
            f"{name} must hold 1 (passed), 0 (failed), -1 (unknown or error) and -2 (no episode), "
            f"and number {at} is {array[at]}"
        )
    return array


PASSED, FAILED, UNKNOWN, NO_EPISODE = 1, 0, -1, -2
