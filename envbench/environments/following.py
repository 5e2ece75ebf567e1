"""Following code: from a function to the functions, classes and constants that it reads.

Each of them becomes a part with a name and a hash of its own. The hash of a part covers what is
written in it and the names of the parts that it reads, not their content, so that a change shows
in the one part that was changed.
"""

from __future__ import annotations

import enum
import hashlib
from collections import deque
from collections.abc import Iterable, Iterator
from types import FunctionType
from typing import Any

from envbench.environments.bindings import Bindings
from envbench.environments.declared_fields import declared_fields
from envbench.environments.lookup import is_filled, plain_name
from envbench.environments.members import attributes_of, own_members, pieces
from envbench.environments.naming import Names
from envbench.environments.packages import Homes
from envbench.environments.parts import Parts
from envbench.environments.source import read_source
from envbench.environments.usage import Usages
from envbench.environments.values import Describer
from envbench.evidence.portable import Json
from envbench.evidence.tagged import describe_error


class Follower:
    """Follows code and collects parts.

    Args:
        homes: says what belongs to the project.
        here: objects that are the environment itself, and are not followed as something that it
            reads.
        ignore: names of attributes, or of parts, that are left out.

    Attributes:
        followed: the functions and classes that were read, as ``module.qualified_name``.
    """

    def __init__(self, homes: Homes, here: Iterable[Any] = (), ignore: Iterable[str] = ()) -> None:
        self.followed: dict[str, None] = {}
        self._parts = Parts(ignore)
        self._names = Names(self._parts, homes, here, self._wait)
        self._bindings = Bindings(self._parts, self._names)
        self._usages = Usages(self.is_project)
        self._values = Describer(self.refer, self._instance, self.note)
        self._waiting: deque[tuple[str, Any]] = deque()

    @property
    def parts(self) -> dict[str, str]:
        """Hash by name."""
        return self._parts.hashes

    @property
    def packages(self) -> dict[str, str]:
        """Version by name, of every installed package that is read."""
        return self._parts.packages

    @property
    def unseen(self) -> dict[str, None]:
        """Sentences on what could not be seen."""
        return self._parts.unseen

    def name(self, value: Any, part: str) -> None:
        """Give a function or class its part's name, before something else names it."""
        self._names.give(value, part)

    def free(self, wanted: str) -> str:
        """The name for a part that is wanted, with a number where it is taken."""
        return self._parts.free(wanted)

    def follow(self, value: Any, part: str) -> None:
        """Add a part for a function, a class, or any value that holds or wraps some."""
        if part in self._parts.ignore:
            return
        if isinstance(value, FunctionType | type) and self.is_project(value):
            self._wait(self._names.give(value, part), value)
        else:
            self.add(part, self.describe(value, part))

    def is_project(self, value: Any) -> bool:
        """Whether a function or class is the project's own, which is followed."""
        return self._names.home(value) is None

    def refer(self, value: Any, place: str) -> str | None:
        """The reference that stands for a function, class or module; None for any other value."""
        return self._names.refer(value, place)

    def add(self, part: str, content: Json) -> None:
        """Add a part by its content."""
        self._parts.add(part, content)

    def describe(self, value: Any, place: str) -> Json:
        """The form of a value; what it holds is followed."""
        return self._values.describe(value, place)

    def note(self, place: str, reason: str) -> None:
        """Say that something is not seen."""
        self._parts.note(place, reason)

    def configuration(self, value: Any, place: str) -> Iterator[tuple[str, Any]]:
        """The attributes of an object that its constructor or its maker sets, and nothing later.

        An attribute that a method other than the constructor assigns or changes is state; so is
        one that a class outside the project sets. One that the constructor fills from a clock, from
        chance or from the machine is neither, and left out.
        """
        held = attributes_of(value)
        usage = self._usages.of(type(value))
        state, ignore = usage.state, self._parts.ignore
        for name in sorted(held):
            if name in ignore or name in usage.theirs or name.startswith("__"):
                continue
            if name in usage.unsteady:
                self.note(
                    f"{place}.{name}", "its value comes from a clock, from chance or this machine"
                )
            elif name not in state:
                yield name, held[name]
            elif not state[name]:
                self.note(f"{place}.{name}", "methods change what it holds, so it is left out")

    def state_of(self, kind: type) -> set[str]:
        """The attributes that methods of a class, other than its constructor, set or change."""
        return set(self._usages.of(kind).state)

    def finish(self) -> None:
        """Follow everything that is waiting, and what that reads."""
        done: set[str] = set()
        while True:
            while self._waiting:
                part, value = self._waiting.popleft()
                try:
                    if isinstance(value, type):
                        self._class(value, part)
                    else:
                        self._function(value, part)
                except Exception as error:  # a hostile metaclass, a broken descriptor
                    said = f"{type(error).__name__}: {describe_error(error)}"
                    self.note(part, f"following it raised {said}")
                    self.add(part, ["unseen"])
            todo = [each for each in self._bindings.constants if each.part not in done]
            if not todo:
                break
            for constant in todo:
                done.add(constant.part)
                if not self._bindings.is_changed(constant):
                    self.add(constant.part, self.describe(constant.value, constant.part))
        for constant in self._bindings.constants:
            if self._bindings.is_changed(constant):
                self.parts.pop(constant.part, None)
                self.note(constant.part, "the code changes it, so it is state and left out")

    def _wait(self, part: str, value: Any) -> None:
        if part not in self.parts and part not in self._parts.ignore:
            self.parts[part] = ""  # in the order of discovery
            self._waiting.append((part, value))

    def _function(self, function: FunctionType, part: str) -> None:
        self.followed[f"{function.__module__}.{function.__qualname__}"] = None
        source = read_source(function.__code__, function.__globals__)
        if source.missing is not None:
            self.note(
                part,
                f"{source.missing}, so its compiled code is hashed, which differs between versions"
                " of Python",
            )
        self.add(
            part,
            {
                "form": hashlib.sha256(source.form).hexdigest(),
                "bindings": self._bindings.of(function, source, part),
                "decorators": self._bindings.of_decorators(function, source, part),
                "defaults": self.describe(function.__defaults__, part),
                "keyword_defaults": self.describe(function.__kwdefaults__, part),
                "closure": self._closure(function, part),
            },
        )

    def _closure(self, function: FunctionType, part: str) -> Json:
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        return {
            name: self.describe(cell.cell_contents, f"{part}, its variable {name}")
            if is_filled(cell)
            else ["empty"]
            for name, cell in cells
        }

    def _class(self, kind: type, part: str) -> None:
        name = plain_name(kind.__qualname__)
        self.followed[f"{kind.__module__}.{kind.__qualname__}"] = None
        content: dict[str, Json] = {
            "bases": [self.refer(base, part) for base in kind.__bases__ if base is not object],
            "fields": declared_fields(kind, part, self.describe),
            "members": [],
        }
        if type(kind) is not type:
            content["metaclass"] = self.refer(type(kind), part)
        for member, value in sorted(own_members(kind)):
            content["members"].append(member)
            if isinstance(kind, enum.EnumType) and member in kind.__members__:
                content["members"][-1] = [member, self.describe(value.value, part)]
                continue
            for suffix, inner in pieces(value):
                self._member(inner, f"{name}.{member}{suffix}", member)
        self.add(part, content)

    def _member(self, value: Any, path: str, member: str) -> None:
        """A function or other attribute of a class."""
        if isinstance(value, FunctionType):
            if self.is_project(value):
                self.follow(value, f"{'render' if member == 'render' else 'helper'}/{path}")
            else:
                self.refer(value, path)
        else:
            self.follow(value, f"constant/{path}")

    def _instance(self, value: Any, place: str, above: tuple[int, ...]) -> Json | None:
        """Describe an object of one of the project's classes; None for any other."""
        kind = type(value)
        if not self.is_project(kind):
            self._names.add_package_of(kind)
            return None
        reference = self.refer(kind, place)
        if isinstance(value, enum.Enum):
            return ["enum", reference, value.name]
        inside = (*above, id(value))
        held: list[Json] = []
        for base in _BUILTIN:
            if isinstance(value, base):
                held.append(self._values.describe(base(value), place, inside))
                break
        for name, item in self.configuration(value, place):
            held.append([name, self._values.describe(item, f"{place}.{name}", inside)])
        return ["object", reference, held]


_BUILTIN: tuple[Any, ...] = (dict, list, tuple, set, frozenset, str, bytes, int, float)
