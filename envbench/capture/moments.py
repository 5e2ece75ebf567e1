"""Dates and durations that frames keep as integers, as the exact Python values."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any, Final
from zoneinfo import ZoneInfo

import numpy as np

from envbench.evidence.tagged import Named

NANOSECONDS: Final = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_OFFSET = re.compile(r"([+-])(\d\d):(\d\d)")
_EPOCH = datetime(1970, 1, 1)
_EPOCH_UTC = datetime(1970, 1, 1, tzinfo=UTC)


def moments(
    counts: Iterable[int | None], unit: str, zone: tzinfo | None
) -> list[datetime | np.datetime64 | Named | None]:
    """Points in time, from the number of units since 1970 (in UTC, when there is a zone).

    Each is a datetime where that is exact, else NumPy's: with nanoseconds that are no whole
    microseconds, or in a year that datetime does not reach. With a zone the latter is a `Named`.
    """
    return [None if count is None else _moment(count, unit, zone) for count in counts]


def durations(counts: Iterable[int | None], unit: str) -> list[timedelta | np.timedelta64 | None]:
    """Durations from their number of units: timedelta where that is exact, else NumPy's."""
    return [None if count is None else _duration(count, unit) for count in counts]


def zone_of(zone: tzinfo | None) -> tzinfo | None:
    """The zone as evidence keeps it: pytz's by name, a fixed offset as such, others as they are."""
    if zone is None or isinstance(zone, timezone | ZoneInfo):
        return zone
    name = getattr(zone, "zone", None)  # pytz
    if isinstance(name, str):
        return ZoneInfo(name)
    offset = zone.utcoffset(None)
    return zone if offset is None else timezone(offset)


def fixed_offset(text: str) -> timezone | None:
    """The zone of an offset such as `+02:00`; None for a name."""
    found = _OFFSET.fullmatch(text)
    if found is None:
        return None
    offset = timedelta(hours=int(found[2]), minutes=int(found[3]))
    return timezone(-offset if found[1] == "-" else offset)


def _moment(count: int, unit: Any, zone: tzinfo | None) -> datetime | np.datetime64 | Named:
    try:
        microseconds, rest = divmod(count * NANOSECONDS[unit], 1_000)
        if not rest:
            if zone is None:
                return _EPOCH + timedelta(microseconds=microseconds)
            return (_EPOCH_UTC + timedelta(microseconds=microseconds)).astimezone(zone)
    except OverflowError:
        pass
    utc = np.datetime64(count, unit)
    return utc if zone is None else Named("datetime", {"utc": utc, "zone": str(zone)})


def _duration(count: int, unit: Any) -> timedelta | np.timedelta64:
    try:
        microseconds, rest = divmod(count * NANOSECONDS[unit], 1_000)
        if not rest:
            return timedelta(microseconds=microseconds)
    except OverflowError:
        pass
    return np.timedelta64(count, unit)
