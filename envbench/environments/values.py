"""Values in a form to be hashed: what a constant, a default or an attribute holds.

Plain values stand for themselves. Functions, classes and modules inside them are references to
parts that are hashed on their own, so that a changed function in a table of functions is named and
not the table. Absolute paths are left out, because they name the machine.
"""

from __future__ import annotations

import collections
import enum
import functools
import logging
import operator
import os
import pathlib
import re
import types
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from envbench.evidence.portable import Json, canonical
from envbench.evidence.spaces import describe as describe_space
from envbench.evidence.tagged import MAX_PARTS, Encoding, describe_error, tag, type_name

_DEPTH = 60
_PLAIN = frozenset({int, float, bytes, complex})


@dataclass(slots=True)
class Describer:
    """Puts values into a form to be hashed.

    Args:
        refer: gives the reference that stands for a function, class or module, and None for any
            other value.
        instance: describes an object of one of the project's classes; None for any other.
        unseen: takes a place and the reason why a value there is not in the form.
    """

    refer: Callable[[Any, str], str | None]
    instance: Callable[[Any, str, tuple[int, ...]], Json | None]
    unseen: Callable[[str, str], None]
    _parts: int = field(default=0, init=False)

    def describe(self, value: Any, place: str, above: tuple[int, ...] = ()) -> Json:
        """The form of a value, portable JSON.

        Args:
            value: the value; it is only read.
            place: what it is, for messages.
            above: the ids of the containers that it is in.
        """
        if not above:
            self._parts = 0
        self._parts += 1
        if id(value) in above:
            return ["cycle", len(above) - above.index(id(value))]
        if len(above) > _DEPTH or self._parts > MAX_PARTS:
            self.unseen(place, "it is too large or nested too deep to be seen whole")
            return ["unseen"]
        try:
            return self._describe(value, place, above)
        except Exception as error:  # a property or conversion of the user's class raised
            reason = f"reading it raised {type(error).__name__}: {describe_error(error)}"
            self.unseen(place, reason)
            return ["unseen"]

    def _describe(self, value: Any, place: str, above: tuple[int, ...]) -> Json:
        kind = type(value)
        if value is None or kind is bool:
            return value
        if kind is str:
            return self._path(place) if os.path.isabs(value) else tag(value)  # noqa: PTH117
        if kind in _PLAIN:
            return self._leaf(value, kind, place)
        form = self._container(value, kind, place, above)
        if form is None:
            reference = self.refer(value, place)
            form = None if reference is None else ["reference", reference]
        if form is None:
            form = self._callable(value, place, (*above, id(value)))
        if form is None:
            form = self._hint(value, place, (*above, id(value)))
        if form is None:
            form = self.instance(value, place, above)
        return self._leaf(value, kind, place) if form is None else form

    def _container(self, value: Any, kind: type, place: str, above: tuple[int, ...]) -> Json | None:
        inside = (*above, id(value))
        if kind in (list, tuple):
            return [kind.__name__, self._items(value, place, inside)]
        if kind in (dict, types.MappingProxyType):
            return ["dict", self._pairs(value.items(), place, inside)]
        if kind is collections.defaultdict:
            default = self.describe(value.default_factory, place, inside)
            return ["defaultdict", default, self._pairs(value.items(), place, inside)]
        if kind in (collections.OrderedDict, collections.Counter):
            return [kind.__name__, self._pairs(value.items(), place, inside)]
        if kind is collections.deque:
            return ["deque", value.maxlen, self._items(value, place, inside)]
        if kind in (set, frozenset):
            return [kind.__name__, sorted(self._items(value, place, inside), key=canonical)]
        if kind is types.SimpleNamespace:
            return ["namespace", self._pairs(vars(value).items(), place, inside)]
        if kind is np.ndarray and value.dtype == object:
            return ["array", list(value.shape), self._items(value.ravel(), place, inside)]
        return None

    def _callable(self, value: Any, place: str, above: tuple[int, ...]) -> Json | None:
        """What wraps a function: a bound method, a partial, a descriptor."""
        if isinstance(value, types.MethodType):
            function = self.describe(value.__func__, place, above)
            return ["method", function, self.describe(value.__self__, place, above)]
        if isinstance(value, functools.partial | functools.partialmethod):
            parts = (value.func, value.args, dict(value.keywords))
            return ["partial", *self._items(parts, place, above)]
        if isinstance(value, staticmethod | classmethod):
            return [type(value).__name__, self.describe(value.__func__, place, above)]
        if isinstance(value, property):
            return ["property", *self._items((value.fget, value.fset, value.fdel), place, above)]
        if isinstance(value, functools.cached_property):
            return ["property", self.describe(value.func, place, above)]
        if isinstance(value, functools.singledispatchmethod):
            return ["dispatch", self.describe(value.dispatcher, place, above)]
        if isinstance(value, operator.itemgetter | operator.attrgetter | operator.methodcaller):
            arguments = value.__reduce__()[1]
            return [type(value).__name__, self.describe(arguments, place, above)]
        return None

    def _hint(self, value: Any, place: str, above: tuple[int, ...]) -> Json | None:
        """A type as it stands in a hint: ``list[Item]``, ``int | None``, ``Literal["a"]``."""
        if isinstance(value, typing.TypeVar | typing.ParamSpec):
            return ["typevar", value.__name__]
        if isinstance(value, typing.ForwardRef):
            return ["forward", value.__forward_arg__]
        if isinstance(value, typing.NewType):
            return ["newtype", value.__name__, self.describe(value.__supertype__, place, above)]
        if value is Ellipsis or value is NotImplemented:
            return ["constant", repr(value)]
        origin = typing.get_origin(value)
        if origin is None:
            special = type(value).__module__ == "typing" and getattr(value, "_name", None)
            return ["typing", special] if special else None
        if origin is typing.Annotated:
            held = (value.__origin__, *value.__metadata__)
        else:
            held = typing.get_args(value)
        is_union = origin in (typing.Union, types.UnionType)
        name = "union" if is_union else self.describe(origin, place, above)
        return ["hint", name, self._items(held, place, above)]

    def _leaf(self, value: Any, kind: type, place: str) -> Json:
        if kind is int:
            return ["int", f"{value:x}"]
        if kind is float:
            return ["float", repr(value)]
        if isinstance(value, pathlib.PurePath):
            return self._path(place) if value.is_absolute() else ["path", value.as_posix()]
        if isinstance(value, re.Pattern):
            return ["pattern", tag(value.pattern), value.flags]
        if isinstance(value, range | slice):
            return [kind.__name__, *(tag(part) for part in (value.start, value.stop, value.step))]
        if isinstance(value, enum.Enum):
            return ["enum", type_name(kind), value.name]
        if isinstance(value, logging.Logger):
            return ["logger"]  # what is logged changes nothing
        space = _space_form(value)
        if space is not None:
            return ["space", space]
        found = Encoding()
        form = tag(value, found)
        if found.problems:
            self.unseen(place, f"{_a(type_name(kind))}, whose content is not seen")
            return ["unseen", type_name(kind)]
        return ["value", form]

    def _path(self, place: str) -> Json:
        self.unseen(place, "an absolute path, which is left out; so is what the file holds")
        return ["absolute path"]

    def _items(self, items: Iterable[Any], place: str, above: tuple[int, ...]) -> list[Json]:
        return [self.describe(item, place, above) for item in items]

    def _pairs(
        self, pairs: Iterable[tuple[Any, Any]], place: str, above: tuple[int, ...]
    ) -> list[Json]:
        return [
            [self.describe(key, place, above), self.describe(item, place, above)]
            for key, item in list(pairs)
        ]


def _space_form(value: Any) -> Json | None:
    """The description of one of Gymnasium's spaces, None for anything else."""
    from gymnasium import Space

    if not isinstance(value, Space) or not type(value).__module__.startswith("gymnasium.spaces"):
        return None
    return describe_space(value)


def _a(name: str) -> str:
    return f"an {name}" if name[:1].lower() in "aeiou" else f"a {name}"
