"""Variables of a notebook as values of a query: bound, never pasted into its text."""

from __future__ import annotations

import datetime
import decimal
import difflib
import enum
import math
import os
import sys
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence, Set, ValuesView
from typing import Any

import numpy as np

from envbench.evidence.episode import EpisodeEvidence
from envbench.evidence.tagged import encode


def bound(names: Iterable[str], *scopes: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the variables that a query names, as DuckDB takes them.

    Args:
        names: names without their ``$``.
        scopes: where to look, in this order.

    Returns:
        By name: None, numbers, text, bytes, dates and times, UUIDs, and lists of these. NumPy's,
        pandas' and Polars' scalars and one-dimensional arrays become Python's, a missing value of
        theirs becomes None, an Enum its value, a path its text, a dict its canonical JSON, an
        episode its id.

    Raises:
        NameError: when there is no such variable.
        TypeError: when SQL has no value for it.
        ValueError: when the value does not fit.
    """
    return {name: _bound(name, scopes) for name in names}


def _bound(name: str, scopes: Sequence[Mapping[str, Any]]) -> Any:
    if name.isdigit():
        raise NameError(
            "the query has a place for a value without a name (? or $1): name a variable, as $x"
        )
    for scope in scopes:
        if name in scope:
            return _value(scope[name], f"${name}")
    known = {each for scope in scopes for each in scope if not each.startswith("_")}
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean ${near[0]}?" if near else ""
    raise NameError(f"${name}: there is no variable {name}{hint}")


def _value(value: Any, place: str) -> Any:
    """One value; `place` names it in an error."""
    if value is None or _is_missing(value):
        return None
    if isinstance(value, enum.Enum):
        return _value(value.value, place)
    if isinstance(value, np.generic):
        return _value(_of_numpy(value), place)
    for kinds, convert in _SCALARS:
        if isinstance(value, kinds):
            return convert(value, place)
    if isinstance(value, Mapping):
        return encode(dict(value)).decode()
    if isinstance(value, EpisodeEvidence):
        return value.episode_id
    if _is_frame(value):
        raise TypeError(f"{place} is a frame: a variable stands for a value or a list of values")
    if isinstance(value, np.ndarray) or hasattr(value, "to_list"):  # a series of pandas or Polars
        value = value.tolist() if isinstance(value, np.ndarray) else value.to_list()
        return _value(value, place)
    if isinstance(value, (list, tuple, Set, range, ValuesView)):
        return [_value(item, f"{place}[{i}]") for i, item in enumerate(value)]
    kind = type(value)
    raise TypeError(
        f"{place} is a {kind.__module__}.{kind.__qualname__}, for which SQL has no value"
    )


def _is_missing(value: Any) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and (value is pandas.NaT or value is pandas.NA)


def _is_frame(value: Any) -> bool:
    return hasattr(value, "columns") and isinstance(value, Collection)


def _of_numpy(value: np.generic) -> Any:
    if isinstance(value, (np.datetime64, np.timedelta64)):
        # DuckDB and Python count microseconds; from nanoseconds `item` would give an integer
        unit = "D" if value.dtype in (np.dtype("datetime64[D]"),) else "us"
        return None if np.isnat(value) else value.astype(f"{value.dtype.kind}8[{unit}]").item()
    if isinstance(value, np.longdouble):
        return float(value)
    return value.item()


def _integer(value: Any, place: str) -> int:
    if not -(2**127) <= int(value) < 2**127:
        raise ValueError(f"{place} is {value}, which does not fit DuckDB's 128 bits")
    return int(value)


def _text(value: Any, place: str) -> str:
    plain = str.__str__(value)
    try:
        plain.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{place} is text with a lone surrogate, which is no Unicode") from None
    return plain


def _decimal(value: Any, place: str) -> Any:
    if value.is_finite():
        digits = value.as_tuple()
        if max(len(digits.digits), -digits.exponent) <= 38:
            return value
        raise ValueError(f"{place} has more digits than the 38 of DuckDB's DECIMAL")
    return math.nan if value.is_nan() else float(value)


_SCALARS: tuple[tuple[Any, Any], ...] = (
    (bool, lambda value, place: value),
    (int, _integer),
    (float, lambda value, place: float(value)),
    (str, _text),
    ((bytes, bytearray, memoryview), lambda value, place: bytes(value)),
    # pandas' own are subclasses that DuckDB does not take
    (
        datetime.datetime,
        lambda value, place: (
            value.to_pydatetime(warn=False) if hasattr(value, "to_pydatetime") else value
        ),
    ),
    ((datetime.date, datetime.time, uuid.UUID), lambda value, place: value),
    (
        datetime.timedelta,
        lambda value, place: value.to_pytimedelta() if hasattr(value, "to_pytimedelta") else value,
    ),
    (decimal.Decimal, _decimal),
    (os.PathLike, lambda value, place: _text(os.fspath(value), place)),
)
