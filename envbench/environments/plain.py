"""Plain data: what crosses the border of an environment, without the classes of its code.

A tool's result, a snapshot, an observation and an info are read by policies, checks, SQL and people
who do not have the environment's classes. Their values stay what they are; only what merely wraps
values is taken off.
"""

from __future__ import annotations

import dataclasses
from enum import Enum
from typing import Any

from pydantic import BaseModel


def plain(value: Any) -> Any:
    """A value with models, dataclasses and named tuples as dicts, and enum members as their values.

    Containers are copied. Everything else (dates, NumPy arrays, sets, what no evidence can hold)
    stays the very value.

    Raises:
        RecursionError: for a value that contains itself.

    Example:
        >>> import datetime
        >>> @dataclasses.dataclass
        ... class Point:
        ...     x: int
        ...     at: datetime.date
        >>> plain([Point(1, datetime.date(2026, 1, 2))])
        [{'x': 1, 'at': datetime.date(2026, 1, 2)}]
    """
    kind = type(value)
    if kind in _SIMPLE:
        return value
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, BaseModel):
        return plain(value.model_dump(warnings=False))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {each.name: plain(getattr(value, each.name)) for each in fields}
    if isinstance(value, dict):
        return {
            key.value if isinstance(key, Enum) else key: plain(item) for key, item in value.items()
        }
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, tuple):
        names = getattr(kind, "_fields", None)
        items = [plain(item) for item in value]
        return tuple(items) if names is None else dict(zip(names, items, strict=True))
    if kind is set or kind is frozenset:
        return kind(plain(item) if isinstance(item, Enum) else item for item in value)
    return value


_SIMPLE = frozenset({type(None), bool, int, float, str, bytes})
