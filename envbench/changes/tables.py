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

from envbench.changes.paths import (
    Path,
    RowDigest,
    key_value,
    matches,
    pattern_of,
    split_pattern,
)
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


class KeyBroken(Exception):
    """A table's key is not unique or null in a later state.

    Attributes:
        path: the table.
        reason: what is wrong with the key.
    """

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(reason)
        self.path = path
        self.reason = reason


@dataclass(slots=True)
class Keys:
    """The keys of an episode's tables, by the pattern of their path.

    Attributes:
        declared: those that the caller named, by patterns in which ``*`` and ``**`` may stand for
            members too; None where it wants a multiset.
        chosen: those in use; None for a table that is compared as a multiset.
        issues: sentences on keys that were declared or chosen and do not hold.
    """

    declared: Mapping[str, str | None] = field(default_factory=dict)
    chosen: dict[str, str | None] = field(default_factory=dict)
    issues: list[str] = field(default_factory=list)

    def choose(self, state: Json) -> None:
        """Choose keys for the tables that have rows in a state and had none before."""
        tables: list[tuple[Path, list[Json]]] = []
        _collect_tables(state, (), tables)
        found: dict[str, list[list[Json]]] = {}
        for path, rows in tables:
            found.setdefault(pattern_of(path), []).append(rows)
        for pattern, all_rows in found.items():
            if pattern not in self.chosen:
                self.chosen[pattern] = self._choose(pattern, all_rows)

    def require(self, path: Path, value: Json) -> None:
        """Look at the tables in a value that came as a whole.

        Raises:
            KeyBroken: when the key of one does not hold in it.
        """
        tables: list[tuple[Path, list[Json]]] = []
        _collect_tables(value, path, tables)
        for at, rows in tables:
            key = self.of(at)
            if key is not None:
                by_key(rows, key, at)

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
        declaration = self._declaration(pattern)
        if declaration is not None:
            declared = self.declared[declaration]
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

    def _declaration(self, pattern: str) -> str | None:
        """The declared pattern that meets a table's; the same text goes before wildcards."""
        if pattern in self.declared:
            return pattern
        segments = split_pattern(pattern)
        for declared in self.declared:
            if "*" in declared and matches(split_pattern(declared), segments):
                return declared
        return None


def is_key(name: str, rows: Iterable[Json]) -> bool:
    """Whether a member is there, not null and unique in every row."""
    values = [key_value(row.get(name)) for row in rows]
    return None not in values and len(set(values)) == len(values)


def by_key(rows: Iterable[Json], key: str, path: Path) -> dict[bytes, Json]:
    """The rows of a table by the values of its key.

    Raises:
        KeyBroken: when it is null, missing or not unique.
    """
    found: dict[bytes, Json] = {}
    for row in rows:
        value = key_value(row.get(key))
        if value is None:
            raise KeyBroken(path, "is null or missing in a row")
        if value in found:
            raise KeyBroken(path, f"is {value.decode()} in two rows")
        found[value] = row
    return found


def own_keys(pattern: str) -> list[str]:
    """The keys that a table's own name suggests: of ``invoice_rows`` it is ``invoice_id``.

    English has more than one plural: of ``statuses`` they are ``status_id`` and ``statuse_id``.
    """
    name = pattern.rsplit("/", 1)[-1].replace("~1", "/").replace("~0", "~")
    for suffix in SUFFIXES:
        if name.endswith(suffix) and name != suffix:
            name = name.removesuffix(suffix)
            break
    return [f"{singular}_id" for singular in _singulars(name)]


def _singulars(name: str) -> list[str]:
    found = []
    if name.endswith("ies"):
        found.append(f"{name[:-3]}y")
    if name.endswith(("ses", "xes", "ches", "shes", "zes")):
        found.append(name[:-2])
    if name.endswith("s"):
        found.append(name[:-1])
    return [*found, name]


def _candidates(pattern: str, names: set[str]) -> list[str]:
    named = dict.fromkeys((*COMMON_KEYS, *own_keys(pattern)))
    own = [name for name in named if name in names]
    return own + sorted(name for name in names if name.endswith("_id") and name not in named)


def _collect_tables(value: Json, path: Path, found: list[tuple[Path, list[Json]]]) -> None:
    if is_object(value):
        for name, item in value.items():
            if type(item) in (dict, list):
                _collect_tables(item, (*path, name), found)
    elif is_table(value):
        found.append((path, value))
        for row in value:
            # whichever row it is, tables in it have one pattern
            _collect_tables(row, (*path, RowDigest("")), found)
    elif type(value) is list:
        for i, item in enumerate(value):
            if type(item) in (dict, list):
                _collect_tables(item, (*path, i), found)
