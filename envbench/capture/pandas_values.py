"""The values of a pandas column, exactly, as plain Python values where there are such."""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from typing import Any, Final

import numpy as np
import pandas as pd

from envbench.capture.arrow_values import arrow_values
from envbench.capture.moments import durations, moments, zone_of
from envbench.evidence.tagged import Named

_NAT: Final = np.iinfo(np.int64).min


def pandas_values(values: pd.Series | pd.Index) -> list[Any]:
    """The values of a column or of a level of the index."""
    dtype: Any = values.dtype
    if isinstance(dtype, pd.SparseDtype):
        return pandas_values(pd.Series(values.array.to_dense()))
    if isinstance(dtype, pd.CategoricalDtype):
        categories = pandas_values(dtype.categories)
        codes = values.array.codes
        return [None if code < 0 else categories[code] for code in codes.tolist()]
    if isinstance(dtype, pd.DatetimeTZDtype):
        utc = pd.Series(values).dt.tz_convert("UTC").dt.tz_localize(None)
        return moments(_counts(utc.to_numpy()), dtype.unit, zone_of(dtype.tz))
    if isinstance(dtype, pd.ArrowDtype):
        return arrow_values(values.array.__arrow_array__())
    if not isinstance(dtype, np.dtype):
        missing = values.isna().tolist() if dtype.na_value is not pd.NA else []
        return [
            None if absent else _typed(value)
            for value, absent in zip_longest(values.array, missing, fillvalue=False)
        ]
    if dtype.kind == "M":
        return moments(_counts(values.to_numpy()), np.datetime_data(dtype)[0], None)
    if dtype.kind == "m":
        return durations(_counts(values.to_numpy()), np.datetime_data(dtype)[0])
    if dtype.kind == "O":
        return [_as_it_is(value) for value in values.array]
    # A long double's values do not fit into Python's: they stay NumPy's.
    exact = dtype.char not in "gG"
    return values.to_numpy().tolist() if exact else list(values.to_numpy())


def numbers_rows(index: pd.Index) -> bool:
    """Whether an index says no more than the rows' positions."""
    return index.nlevels == 1 and index.name is None and index.equals(pd.RangeIndex(len(index)))


def only_integers(index: pd.Index) -> bool:
    """Whether the labels are integers; so are those of an index without rows."""
    return len(index) == 0 or (isinstance(index.dtype, np.dtype) and index.dtype.kind in "iu")


def _counts(values: np.ndarray[Any, Any]) -> list[int | None]:
    return [None if count == _NAT else count for count in values.view(np.int64).tolist()]


def _typed(value: Any) -> Any:
    """A value of an extension dtype, whose missing value is one and always the same."""
    if value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, np.generic) and not isinstance(value, np.longdouble):
        value = value.item()
    return _as_it_is(value)


def _as_it_is(value: Any) -> Any:
    """A cell of an object column."""
    if value is pd.NaT:
        return Named("pandas.NaT", None)
    if value is pd.NA:
        return Named("pandas.NA", None)
    if isinstance(value, pd.Timestamp):
        return moments([value.asm8.view(np.int64).item()], value.unit, zone_of(value.tz))[0]
    if isinstance(value, pd.Timedelta):
        return durations([value.asm8.view(np.int64).item()], value.unit)[0]
    if isinstance(value, pd.Period):
        return Named(
            "pandas.Period",
            {"text": str(value), "ordinal": value.ordinal, "frequency": value.freqstr},
        )
    if isinstance(value, pd.Interval):
        left, right = _typed(value.left), _typed(value.right)
        return Named("pandas.Interval", {"left": left, "right": right, "closed": value.closed})
    return _NESTED[type(value)](value) if type(value) in _NESTED else value


_NESTED: Final[dict[type, Callable[[Any], Any]]] = {
    list: lambda cell: [_as_it_is(item) for item in cell],
    tuple: lambda cell: tuple([_as_it_is(item) for item in cell]),
    dict: lambda cell: {key: _as_it_is(item) for key, item in cell.items()},
}
