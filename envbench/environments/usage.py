"""Which attributes of an object are state: what methods set, as far as their source shows."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType

from envbench.environments.members import own_members, pieces
from envbench.environments.references import changes, references
from envbench.environments.source import Source, read_source
from envbench.environments.unsteady import filled_unsteadily


@dataclass(frozen=True, slots=True)
class Usage:
    """Who sets the attributes of a class's objects.

    Attributes:
        state: those that methods other than the constructor set or change, and whether they are
            assigned as a whole.
        theirs: those that classes outside the project set.
        unsteady: those that the constructor fills from a clock, from chance or from the machine.
    """

    state: dict[str, bool]
    theirs: set[str]
    unsteady: set[str]


class Usages:
    """The usage of classes, each found once.

    Args:
        is_project: whether a class is the project's own.
    """

    def __init__(self, is_project: Callable[[type], bool]) -> None:
        self._is_project = is_project
        self._known: dict[type, Usage] = {}

    def of(self, kind: type) -> Usage:
        """Who sets the attributes of the objects of a class."""
        known = self._known.get(kind)
        if known is None:
            known = self._known[kind] = self._find(kind)
        return known

    def _find(self, kind: type) -> Usage:
        state: dict[str, bool] = {}
        built: set[str] = set()
        theirs: set[str] = set()
        unsteady: set[str] = set()
        for owner in kind.__mro__:
            if not self._is_project(owner):
                theirs |= _attributes_set_by(owner)
                continue
            for name, value in own_members(owner):
                for _, function in pieces(value):
                    if not isinstance(function, FunctionType):
                        continue
                    source = read_source(function.__code__, function.__globals__)
                    assigned, in_place = _assigned(source, function)
                    if name in _CONSTRUCTORS:
                        built |= assigned
                        unsteady |= filled_unsteadily(source, function)
                    else:
                        state |= dict.fromkeys(in_place - state.keys(), False)
                        state |= dict.fromkeys(assigned, True)
        return Usage(state, theirs - built, unsteady)


_CONSTRUCTORS = frozenset({"__init__", "__new__", "__post_init__", "model_post_init"})

_SET_BY: weakref.WeakKeyDictionary[type, frozenset[str]] = weakref.WeakKeyDictionary()


def _attributes_set_by(kind: type) -> frozenset[str]:
    """Every attribute that the methods of a class outside the project assign."""
    known = _SET_BY.get(kind)
    if known is None:
        functions = [part for _, value in own_members(kind) for _, part in pieces(value)]
        known = frozenset().union(
            *(references(f.__code__).attributes for f in functions if isinstance(f, FunctionType))
        )
        _SET_BY[kind] = known
    return known


def _assigned(source: Source, function: FunctionType) -> tuple[frozenset[str], frozenset[str]]:
    """Attributes of its object that a function assigns, and those that it changes in place."""
    if source.node is None:
        return references(function.__code__).attributes, frozenset()
    found = changes(source.node)
    return found.assigned, found.attributes
