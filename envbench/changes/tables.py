"""Tables: lists of objects whose rows have a key, and how that key is chosen.

A list is a table when it is not empty and all its items are objects. Its key is the one the caller
names, else the first of ``id``, ``key``, ``uuid``, the table's own name (``invoice_rows`` →
``invoice_id``) and another ``*_id`` in alphabetical order that is there, unique and not null in
every row of the first state in which the table has rows. A table without such a key is a multiset
of whole rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from envbench.changes.paths import Path, RowDigest, RowKey, key_value, pattern_of
from envbench.evidence.portable import Json
from envbench.evidence.tagged import TAG

COMMON_KEYS = ("id", "key", "uuid")
SUFFIXES = ("_rows", "_table", "_list")


def is_object(value: Json) -> bool:
    """Whether a value is an object with members, and no tagged value."""
    return type(value) is dict and TAG not in value


def is_table(value: Json) -> bool:
    """Whether a value is a list of objects."""
    return type(value) is list and bool(value) and all(map(is_object, value))


@dataclass(slots=True)
class Keys:
    """The keys of an episode's tables, by the pattern of their path.

    Attributes:
        declared: those that the caller named; None where it wants a multiset.
        chosen: those in use; None for a table that is compared as a multiset.
        issues: sentences on keys that were declared or chosen and do not hold.
    """

    declared: Mapping[str, str | None] = field(default_factory=dict)
    chosen: dict[str, str | None] = field(default_factory=dict)
    issues: list[str] = field(default_factory=list)

    def choose(self, state: Json) -> None:
        """Choose keys for the tables that have rows in a state and had none before."""
        found: dict[str, list[list[Json]]] = {}
        _collect_tables(state, (), found)
        for pattern, tables in found.items():
            if pattern not in self.chosen:
                self.chosen[pattern] = self._choose(pattern, tables)

    def of(self, path: Path) -> str | None:
        """The key of the table at a path, None when it is a multiset."""
        return self.chosen.get(pattern_of(path))

    def demote(self, path: Path, step: int, reason: str) -> None:
        """Compare a table as a multiset from the start, because its key does not hold."""
        pattern = pattern_of(path)
        self.issues.append(
            f"note: {pattern}: at step {step} the key {self.chosen[pattern]!r} {reason}; its rows"
            " are compared whole, as a multiset, for the whole episode"
        )
        self.chosen[pattern] = None

    def _choose(self, pattern: str, tables: list[list[Json]]) -> str | None:
        if pattern in self.declared:
            declared = self.declared[pattern]
            if declared is None or all(is_key(declared, rows) for rows in tables):
                return declared
            self.issues.append(
                f"note: {pattern}: the declared key {declared!r} is missing, null or not unique in"
                " the first rows; they are compared whole, as a multiset"
            )
            return None
        names = {name for rows in tables for row in rows for name in row}
        for name in _candidates(pattern, names):
            if all(is_key(name, rows) for rows in tables):
                return name
        return None


def is_key(name: str, rows: Iterable[Json]) -> bool:
    """Whether a member is there, not null and unique in every row."""
    values = [key_value(row.get(name)) for row in rows]
    return None not in values and len(set(values)) == len(values)


def row_path(table: Path, segment: RowKey | RowDigest) -> Path:
    """The path of a row."""
    return (*table, segment)


def own_key(pattern: str) -> str:
    """The key that a table's own name suggests: of ``invoice_rows`` it is ``invoice_id``."""
    name = pattern.rsplit("/", 1)[-1]
    for suffix in SUFFIXES:
        if name.endswith(suffix) and name != suffix:
            name = name.removesuffix(suffix)
            break
    return f"{_singular(name)}_id"


def _singular(name: str) -> str:
    if name.endswith("ies") and len(name) > 4:
        return f"{name[:-3]}y"
    if name.endswith(("sses", "xes", "ches", "shes")):
        return name[:-2]
    if name.endswith("s") and not name.endswith(("ss", "us", "is")):
        return name[:-1]
    return name


def _candidates(pattern: str, names: set[str]) -> list[str]:
    own = [name for name in (*COMMON_KEYS, own_key(pattern)) if name in names]
    return own + sorted(name for name in names if name.endswith("_id") and name not in own)


def _collect_tables(value: Json, path: Path, found: dict[str, list[list[Json]]]) -> None:
    if is_object(value):
        for name, item in value.items():
            if type(item) in (dict, list):
                _collect_tables(item, (*path, name), found)
    elif is_table(value):
        found.setdefault(pattern_of(path), []).append(value)
        for row in value:
            # whichever row it is, tables in it have one pattern
            _collect_tables(row, (*path, RowDigest("")), found)
    elif type(value) is list:
        for i, item in enumerate(value):
            if type(item) in (dict, list):
                _collect_tables(item, (*path, i), found)
