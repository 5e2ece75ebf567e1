"""What every audit has in common: its events, and the error when it does not hold them all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

AuditEvent = dict[str, object]
"""`{table, op, key, before, after}`: op is insert, update or delete; rows are dicts or None."""


class AuditIncomplete(RuntimeError):
    """The audit does not hold everything that happened, so it must not be read as if it did."""


def key_of(columns: Sequence[str], row: Mapping[str, Any] | None) -> object:
    """The value of a row's primary key: a dict of columns when it has several, None for none."""
    if not columns or row is None:
        return None
    if len(columns) == 1:
        return row.get(columns[0])
    return {column: row.get(column) for column in columns}
