"""How values of PostgreSQL become Python's: exactly, or as the text that the server writes.

Only these types get a value of their own; each other one (ranges, network addresses, intervals,
enums, composites, …) comes as text, which holds all there is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Final, TypeAlias

from psycopg import postgres
from psycopg.abc import Buffer
from psycopg.adapt import AdaptersMap, Loader
from psycopg.types.array import ArrayLoader
from psycopg.types.bool import BoolLoader
from psycopg.types.numeric import FloatLoader, IntLoader, NumericLoader
from psycopg.types.string import ByteaLoader, StrDumper
from psycopg.types.uuid import UUIDLoader

from envbench.evidence.tagged import Named

TypeRow: TypeAlias = tuple[int, int, int, str]
"""A type's number, that of the type it is a domain over, of its elements (else 0), delimiter."""

SETTINGS: Final = {
    "search_path": "pg_catalog, pg_temp",
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "iso_8601",
    "TimeZone": "UTC",
    "extra_float_digits": "3",
    "bytea_output": "hex",
    "lc_monetary": "C",
    "quote_all_identifiers": "off",
}
"""What the text of a value depends on: the same when it is recorded and when it is read."""


def adapters() -> AdaptersMap:
    """The conversions; those of array types are added by `add_arrays`.

    They are not psycopg's own, which would lose the months of an interval and the digits of a
    number in JSON, and which the user's program may have changed.
    """
    conversions = AdaptersMap(types=postgres.types)
    conversions.register_dumper(str, StrDumper)
    conversions.register_loader(0, _TextLoader)
    for name, loader in _LOADERS.items():
        conversions.register_loader(name, loader)
    return conversions


def add_arrays(conversions: AdaptersMap, types: Iterable[TypeRow]) -> None:
    """Make lists of the values of the array types among `types`, which is closed under parts."""
    types = list(types)
    stands_on = {oid: base for oid, base, _, _ in types if base}
    for oid, _, element, delimiter in types:
        if element:
            while element in stands_on:  # the server sends the type that a domain stands on
                element = stands_on[element]
            kept = {"base_oid": element, "delimiter": delimiter.encode()}
            loader = type("_ArrayOf", (_ArrayLoader,), kept)
            conversions.register_loader(oid, loader)


class _TextLoader(Loader):
    def load(self, data: Buffer) -> str:
        return _text(data)


class _ArrayLoader(ArrayLoader):
    """Lists; an array that does not count from one stays text, because a list cannot say so."""

    def load(self, data: Buffer) -> Any:
        text = bytes(data)
        return _text(text) if text.startswith(b"[") else super().load(data)


class _MomentLoader(Loader):
    """A date or time, or text where Python has none: infinity, BC, the year 10000, 24:00."""

    read: Callable[[str], Any]

    def load(self, data: Buffer) -> Any:
        text = _text(data)
        if text.startswith("24:"):  # some Pythons read it as 0:00
            return text
        try:
            return type(self).read(text)
        except ValueError:
            return text


class _DateLoader(_MomentLoader):
    read = date.fromisoformat


class _TimeLoader(_MomentLoader):
    read = time.fromisoformat


class _TimestampLoader(_MomentLoader):
    read = datetime.fromisoformat


class _TimestamptzLoader(_MomentLoader):
    @staticmethod
    def read(text: str) -> datetime:
        return datetime.fromisoformat(text).astimezone(UTC)


class _JsonbLoader(Loader):
    """A JSON value. Its null is a `Named`, because None stands for the NULL of SQL."""

    def load(self, data: Buffer) -> Any:
        text = _text(data)
        value = json.loads(text, parse_float=_number, parse_int=_integer)
        return Named("postgresql.jsonb", None) if value is None else value


def _number(text: str) -> float | Decimal:
    """A float when it has just these digits, else a Decimal."""
    number, exact = float(text), Decimal(text)
    return number if Decimal(repr(number)).as_tuple() == exact.as_tuple() else exact


def _integer(text: str) -> int:
    # Python refuses to read more than 4,300 digits at once, JSON may have 130,000.
    return int(text) if len(text) < 4_000 else int(Decimal(text))


def _text(data: Buffer) -> str:
    # In a database without an encoding, text may be any bytes: none stops the reading or is lost.
    return bytes(data).decode("utf-8", "surrogateescape")


_LOADERS: Final[dict[str, type[Loader]]] = {
    "bool": BoolLoader,
    "int2": IntLoader,
    "int4": IntLoader,
    "int8": IntLoader,
    "oid": IntLoader,
    "float4": FloatLoader,
    "float8": FloatLoader,
    "numeric": NumericLoader,
    "bytea": ByteaLoader,
    "uuid": UUIDLoader,
    "date": _DateLoader,
    "time": _TimeLoader,
    "timetz": _TimeLoader,
    "timestamp": _TimestampLoader,
    "timestamptz": _TimestamptzLoader,
    "jsonb": _JsonbLoader,
}
