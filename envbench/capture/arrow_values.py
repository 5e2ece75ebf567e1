"""The values of an Arrow array, exactly: Arrow's own conversion cuts the nanoseconds of times off.

pandas columns of Arrow dtypes and Polars columns with dates and times in them are read through it.
"""

from __future__ import annotations

from datetime import date, time, tzinfo
from typing import Any, Final
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from envbench.capture.moments import NANOSECONDS, durations, fixed_offset, moments
from envbench.evidence.tagged import Named


def arrow_values(array: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values: None where there is none, lists, structs as dicts, maps as lists of dicts."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return arrow_values(array.cast(kind.value_type))
    if pa.types.is_struct(kind):
        names = [kind.field(i).name for i in range(kind.num_fields)]
        fields = [arrow_values(pc.struct_field(array, [i])) for i in range(kind.num_fields)]
        return [
            dict(zip(names, values, strict=True)) if there else None
            for there, *values in zip(array.is_valid().to_pylist(), *fields, strict=True)
        ]
    if pa.types.is_nested(kind) and not pa.types.is_union(kind):  # lists and maps of all sorts
        return [arrow_values(cell.values) if cell.is_valid else None for cell in array]
    if not pa.types.is_temporal(kind):
        return array.to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_interval(kind):
        return [cell and Named("arrow.Interval", tuple(cell)) for cell in array.to_pylist()]
    counts = array.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).to_pylist()
    if pa.types.is_timestamp(kind):
        return moments(counts, kind.unit, _zone(kind.tz))
    if pa.types.is_duration(kind):
        return durations(counts, kind.unit)
    if pa.types.is_time(kind):
        return [
            None if count is None else _time(count * NANOSECONDS[kind.unit]) for count in counts
        ]
    unit = "D" if pa.types.is_date32(kind) else "ms"
    return [None if count is None else _date(count, unit) for count in counts]


def _zone(name: str | None) -> tzinfo | None:
    if name is None:
        return None
    return fixed_offset(name) or ZoneInfo(name)


def _time(nanoseconds: int) -> time | Named:
    microseconds, rest = divmod(nanoseconds, 1_000)
    if rest:
        return Named("time", {"nanoseconds": nanoseconds})
    seconds, microsecond = divmod(microseconds, 1_000_000)
    minutes, second = divmod(seconds, 60)
    return time(minutes // 60, minutes % 60, second, microsecond)


_FIRST_DAY: Final = date(1970, 1, 1).toordinal()
_DAY: Final = {"D": 1, "ms": 86_400_000}


def _date(count: int, unit: Any) -> date | np.datetime64:
    days, rest = divmod(count, _DAY[unit])
    try:
        if not rest:
            return date.fromordinal(_FIRST_DAY + days)
    except (ValueError, OverflowError):
        pass
    return np.datetime64(count, unit)
