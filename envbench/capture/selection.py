"""Which tables and columns an observer reads: its `include` and `exclude`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

Selected = str | tuple[str, str]
"""A table's name, or a table's and a column's."""


class Selection:
    """The tables and columns that `include` and `exclude` leave.

    Raises TypeError for anything but names and pairs of names.
    """

    __slots__ = ("_checked", "_exclude", "_include")

    def __init__(self, include: Iterable[Selected] | None, exclude: Iterable[Selected]) -> None:
        self._include = None if include is None else _names(include, "include")
        self._exclude = _names(exclude, "exclude")
        self._checked = False

    def check_once(self, tables: Mapping[str, Sequence[str]], source: object) -> None:
        """Raise LookupError for a name that is nowhere in `tables`; the first time only.

        Later, a table that is gone is a change of the state, and no error.
        """
        if self._checked:
            return
        known: set[Selected] = set(tables)
        known |= {(table, column) for table, columns in tables.items() for column in columns}
        for argument, names in (("include", self._include or ()), ("exclude", self._exclude)):
            for name in names:
                if name not in known:
                    there = ", ".join(sorted(tables))
                    msg = f"{argument} names {name!r}, which is not in {source} (it has {there})"
                    raise LookupError(msg)
        self._checked = True

    def columns(
        self, table: str, columns: Sequence[str], *, by_default: bool = True
    ) -> tuple[str, ...] | None:
        """The columns to read of a table; None when it is left out.

        A table that is not chosen `by_default` is read only when `include` names it.
        """
        if table in self._exclude:
            return None
        left = tuple(column for column in columns if (table, column) not in self._exclude)
        if self._include is None:
            return left if by_default else None
        if table not in self._include:
            left = tuple(column for column in left if (table, column) in self._include)
            return left or None
        return left


def pointer(table: str) -> str:
    """The JSON Pointer of a table in the state."""
    return "/" + table.replace("~", "~0").replace("/", "~1")


def _names(names: Iterable[Selected], argument: str) -> frozenset[Selected]:
    if isinstance(names, str):
        msg = f"{argument} must be a list of tables, not one string: write [{names!r}]"
        raise TypeError(msg)
    chosen = frozenset(names)
    for name in chosen:
        pair = isinstance(name, tuple) and [type(part) for part in name] == [str, str]
        if not (isinstance(name, str) or pair):
            msg = f"{argument} must hold table names or (table, column), not {name!r}"
            raise TypeError(msg)
    return chosen
