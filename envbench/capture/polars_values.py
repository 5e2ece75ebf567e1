"""The values of a Polars column, exactly: Polars' own conversion cuts nanoseconds off."""

from __future__ import annotations

from typing import Any

import polars as pl

from envbench.capture.arrow_values import arrow_values


def polars_values(series: pl.Series) -> list[Any]:
    """The values of a column: None where there is none, nested ones as lists and dicts."""
    if _has_times(series.dtype):
        return arrow_values(series.to_arrow())
    return series.to_list()


def _has_times(dtype: Any) -> bool:
    if isinstance(dtype, pl.List | pl.Array):
        return _has_times(dtype.inner)
    if isinstance(dtype, pl.Struct):
        return any(_has_times(field.dtype) for field in dtype.fields)
    return bool(dtype.is_temporal())
