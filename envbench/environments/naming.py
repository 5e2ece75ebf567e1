"""What stands for a function, a class or a module: the name of its part, or where it is from."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterable, Mapping
from types import FunctionType, ModuleType
from typing import Any

from envbench.environments.lookup import is_filled, plain_name, public_module
from envbench.environments.packages import FRAMEWORKS, PYTHON, Homes
from envbench.environments.parts import Parts


class Names:
    """Gives functions and classes the names of their parts.

    Args:
        parts: where names are taken, and packages and what is not seen are noted.
        homes: says what belongs to the project.
        here: objects that are the environment itself.
        found: called with the part and the function or class, when one is named.
    """

    def __init__(
        self, parts: Parts, homes: Homes, here: Iterable[Any], found: Callable[[str, Any], None]
    ) -> None:
        self._parts = parts
        self._homes = homes
        self._here = {id(item): item for item in here}
        self._found = found
        # parts by the id of what they stand for, and that, so that no id is used twice
        self._named: dict[int, tuple[str, Any]] = {}

    def give(self, value: Any, part: str) -> str:
        """Give a function or class its part's name, unless it has one.

        Returns:
            The name that it has.
        """
        if id(value) not in self._named:
            self._named[id(value)] = (part, value)
            self._parts.take(part)
        return self._named[id(value)][0]

    def refer(self, value: Any, place: str) -> str | None:
        """The reference that stands for a function, class or module; None for any other value."""
        if id(value) in self._here:
            return "environment"
        if isinstance(value, ModuleType):
            return self.module(value)
        known = self._named.get(id(value))
        if known is not None:
            return known[0]
        if isinstance(value, FunctionType):
            return self._function(value, place)
        if isinstance(value, types.MethodType) and _is_hidden(value.__self__):
            return f"{self.refer(value.__func__, place)} of {type(value.__self__).__name__}"
        if isinstance(value, type) and not isinstance(value, types.GenericAlias):
            home = self.home(value)
            if home is not None:
                return self._outside(home, value.__module__, value.__qualname__)
            return self._named_part(value, f"class/{plain_name(value.__qualname__)}")
        if isinstance(value, types.BuiltinFunctionType | types.MethodDescriptorType | _SLOTS):
            return self._compiled(value, place)
        wrapped = getattr(value, "__wrapped__", None) if _is_cache(value) else None
        return None if wrapped is None else self.refer(wrapped, place)

    def module(self, module: ModuleType) -> str:
        """The reference that stands for a module; ``module`` for one of the project's."""
        home = self._homes.of(module.__name__, getattr(module, "__file__", None))
        if home is None:
            return "module"
        if home == PYTHON:
            return f"python:{public_module(module.__name__)}"
        self._parts.add_package(home)
        return f"package:{module.__name__}"

    def home(self, value: Any) -> str | None:
        """Where a function or class is from; None for the project's own."""
        if isinstance(value, FunctionType):
            module = value.__globals__.get("__name__")
            file = value.__code__.co_filename
            # what is generated belongs to the module that it runs in
            is_file = not file.startswith("<") or file.startswith("<frozen ")
            return self._homes.of(
                module if isinstance(module, str) else None, file if is_file else None
            )
        module = getattr(value, "__module__", None)
        return self._homes.of(module if isinstance(module, str) else None)

    def home_of_module(self, name: str, file: str | None) -> str | None:
        """Where a module is from, by its name and file; None for the project's own."""
        return self._homes.of(name, file)

    def is_here(self, value: Any) -> bool:
        """Whether a value is the environment itself."""
        return id(value) in self._here

    def add_package_of(self, kind: type) -> None:
        """Note the package that a class is from, if it is from one."""
        home = self.home(kind)
        if home is not None and home not in (PYTHON, *FRAMEWORKS):
            self._parts.add_package(home)

    def _function(self, value: FunctionType, place: str) -> str:
        home = self.home(value)
        if home is None:
            return self._named_part(value, _part_of(value))
        reference = self._outside(home, value.__module__, value.__qualname__)
        # a wrapper of somebody else's around a function of the project's
        held = [cell.cell_contents for cell in value.__closure__ or () if is_filled(cell)]
        inside = [getattr(value, "__wrapped__", None), *held]
        registry = getattr(value, "registry", None)
        if isinstance(registry, Mapping):  # functools.singledispatch
            inside += [item for pair in registry.items() for item in pair]
        found = []
        for item in inside:
            if isinstance(item, FunctionType | type) and self.home(item) is None:
                found.append(self.refer(item, place) or "")
        return f"{reference}({', '.join(found)})" if found else reference

    def _compiled(self, value: Any, place: str) -> str:
        owner = getattr(value, "__objclass__", None) or getattr(value, "__self__", None)
        module = getattr(value, "__module__", None) or getattr(owner, "__module__", None)
        if module is None and isinstance(owner, ModuleType):
            module = owner.__name__
        name = str(getattr(value, "__qualname__", value))
        home = PYTHON if module is None else self._homes.of(module)
        if home is None:
            self._parts.note(place, f"{name} is compiled code of the project's, which is not seen")
            return f"compiled:{name}"
        return self._outside(home, module or "builtins", name)

    def _outside(self, home: str, module: str, name: str) -> str:
        """A reference to what belongs to Python or to an installed package."""
        if home == PYTHON:
            return f"python:{public_module(module)}.{name}"
        self._parts.add_package(home)
        return f"package:{module}.{name}"

    def _named_part(self, value: Any, wanted: str) -> str:
        """A new part of the name that is wanted, or of that name with a number."""
        part = self._parts.free(wanted)
        self._named[id(value)] = (part, value)
        self._found(part, value)
        return part


_SLOTS = types.WrapperDescriptorType | types.MethodWrapperType | types.ClassMethodDescriptorType


def _part_of(function: FunctionType) -> str:
    name = plain_name(function.__code__.co_qualname)
    kind = "render" if name.rpartition(".")[2] == "render" and "." in name else "helper"
    return f"{kind}/{name}"


def _is_hidden(value: Any) -> bool:
    """Whether it is an object of Python's behind what looks like the functions of a module."""
    modules = [sys.modules.get(name) for name in ("random", "secrets")]
    return any(
        value is getattr(getattr(each, "choice", None), "__self__", None) for each in modules
    )


def _is_cache(value: Any) -> bool:
    """Whether it is what `functools.lru_cache` makes of a function."""
    return type(value).__name__ == "_lru_cache_wrapper"
