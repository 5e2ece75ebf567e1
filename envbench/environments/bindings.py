"""What the names in a function stand for: globals, imports and decorators.

A constant that is read by a global name becomes a part of its own.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import dataclasses
import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Iterable
from types import FunctionType, ModuleType
from typing import Any

from envbench.environments.lookup import ABSENT, file_of_module, lookup, module_of, public_module
from envbench.environments.naming import Names
from envbench.environments.packages import FRAMEWORKS, PYTHON
from envbench.environments.parts import Parts
from envbench.environments.references import Chain, called_chain, changes, references
from envbench.environments.source import Source, hints_form, normal_form
from envbench.environments.unsteady import UNSEEN_BUILTINS, is_unseen
from envbench.evidence.portable import Json


@dataclasses.dataclass(slots=True)
class Constant:
    """A value that code reads by a global name, in one module or several.

    Attributes:
        part: the name of its part.
        value: the value.
        read_in: the ids of the modules' names that it is read from, each with the global name.
    """

    part: str
    value: Any
    read_in: set[tuple[int, str]] = dataclasses.field(default_factory=set)


class Bindings:
    """Finds what the names in functions stand for.

    Args:
        parts: where names are taken, and what is not seen is noted.
        names: gives what stands for functions, classes and modules.
    """

    def __init__(self, parts: Parts, names: Names) -> None:
        self._parts = parts
        self._names = names
        # by name and the id of their value; the same one may be read in two modules
        self._constants: dict[tuple[str, int], Constant] = {}
        self._changed: set[tuple[int, str]] = set()

    @property
    def constants(self) -> list[Constant]:
        """The constants that were found so far."""
        return list(self._constants.values())

    def is_changed(self, constant: Constant) -> bool:
        """Whether code that was read so far assigns the name of a constant, or changes it."""
        return bool(constant.read_in & self._changed)

    def of(self, function: FunctionType, source: Source, part: str) -> dict[str, Json]:
        """What the names in a function stand for, and what it imports when it is called."""
        read = references(function.__code__)
        changed = set(read.assigned)
        if source.node is not None:
            changed |= changes(source.node).names & {chain[0] for chain in read.names}
        self._changed |= {(id(function.__globals__), name) for name in changed}
        bindings: dict[str, Json] = {}
        for chain in read.names:
            self._bind(chain, function, part, bindings)
        for level, module, taken in read.imports:
            imported = self._import(level, module, taken, function, part)
            bindings[f"import {'.' * level}{module}"] = imported
        return bindings

    def of_decorators(self, function: FunctionType, source: Source, part: str) -> Json:
        """The decorators of a function, where they are not the framework's own.

        What `@tool` and `@env.scorer` do is in the parts of the tool or scorer.
        """
        node = source.node
        forms: list[Json] = []
        if node is None or not hasattr(node, "decorator_list"):
            return forms
        for decorator in node.decorator_list:
            chain = called_chain(decorator)
            value = lookup(chain[:1], function) if chain else ABSENT
            if value is not ABSENT and self._is_framework(value):
                continue
            bindings: dict[str, Json] = {}
            for name in _names_in(decorator):
                if lookup((name,), function) is not ABSENT:
                    self._bind((name,), function, part, bindings)
            forms.append([hashlib.sha256(normal_form(decorator)).hexdigest(), bindings])
        if forms:  # they may read the hints
            forms.append(hashlib.sha256(hints_form(node)).hexdigest())
        return forms

    def _is_framework(self, value: Any) -> bool:
        if self._names.is_here(value):
            return True
        module = value.__name__ if isinstance(value, ModuleType) else module_of(value)
        return module.split(".")[0] in FRAMEWORKS or _is_environment(value)

    def _bind(
        self, chain: Chain, function: FunctionType, part: str, bindings: dict[str, Json]
    ) -> None:
        """Note what a name of a function stands for, and follow it."""
        note, names = self._parts.note, self._names
        root = chain[0]
        value = lookup((root,), function)
        if root in _OF_MODULE:
            if root == "__file__":
                note(part, "it reads __file__, and what lies beside its file is not seen")
            return
        if value is ABSENT:
            if root in UNSEEN_BUILTINS:
                note(part, f"it calls {root}(), and what that gives is not seen")
            elif not hasattr(builtins, root):
                note(part, f"it reads {root}, which is not defined")
                bindings[root] = ["undefined"]
            return
        owner, place = id(function.__globals__), [root]
        for attribute in chain[1:]:
            if not isinstance(value, ModuleType):
                break
            if names.module(value) != "module":
                self._note_unseen(value.__name__, attribute, part)
                break
            owner = id(vars(value))
            value = getattr(value, attribute, ABSENT)
            place.append(attribute)
        key = ".".join(place)
        if value is ABSENT:
            note(part, f"it reads {key}, which is not defined")
            bindings[key] = ["undefined"]
            return
        if isinstance(value, ModuleType) and names.module(value) == "module":
            note(part, f"it hands on the module {key} as a whole, which is not followed")
        bindings[key] = self._reference(value, owner, place[-1], part)

    def _reference(self, value: Any, owner: int, name: str, part: str) -> Json:
        """What stands for the value of a global name; a constant becomes a part of its own."""
        reference = self._names.refer(value, part)
        if reference is not None:
            self._note_unseen(module_of(value), getattr(value, "__name__", ""), part)
            return reference
        constant = self._constants.get((name, id(value)))
        if constant is None:
            constant = Constant(self._parts.free(f"constant/{name}"), value)
            self._constants[name, id(value)] = constant
        constant.read_in.add((owner, name))
        return constant.part

    def _note_unseen(self, module: str, name: str, part: str) -> None:
        if is_unseen(module, name):
            self._parts.note(
                part, f"it reads {public_module(module)}.{name}, and what that gives is not seen"
            )

    def _import(
        self, level: int, module: str, names: Iterable[str], function: FunctionType, part: str
    ) -> Json:
        """What an import inside a function gives. Only the project's modules are imported."""
        note = self._parts.note
        package = function.__globals__.get("__package__") or ""
        try:
            name = importlib.util.resolve_name("." * level + module, package)
        except (ImportError, TypeError, ValueError):
            note(part, f"it imports {'.' * level}{module}, which cannot be found from here")
            return ["undefined"]
        home = self._names.home_of_module(name, file_of_module(name))
        if home is not None:
            for taken in names:
                self._note_unseen(name, taken, part)
            if home not in (PYTHON, *FRAMEWORKS):
                # often one that is needed to draw only, and missing elsewhere
                note(part, f"it imports {name} when it is called: its version is left out")
            return f"import:{name}"
        try:
            loaded = importlib.import_module(name)
        except Exception as error:
            note(part, f"it imports {name}, which raises {type(error).__name__}")
            return ["undefined"]
        bound: dict[str, Json] = {}
        for taken in names:
            value = getattr(loaded, taken, ABSENT)
            if value is ABSENT:
                with contextlib.suppress(Exception):
                    value = importlib.import_module(f"{name}.{taken}")
            bound[taken] = (
                ["undefined"]
                if value is ABSENT
                else self._reference(value, id(vars(loaded)), taken, part)
            )
        if not bound:
            note(part, f"it imports the module {name}, which is not followed as a whole")
        return bound


_OF_MODULE = frozenset(
    {"__file__", "__name__", "__package__", "__spec__", "__loader__", "__doc__", "__path__"}
)
"""Names that a module has: they say where code is, and not what it does."""


def _names_in(node: ast.AST) -> list[str]:
    return sorted({part.id for part in ast.walk(node) if isinstance(part, ast.Name)})


def _is_environment(value: Any) -> bool:
    gymnasium = sys.modules.get("gymnasium")
    return gymnasium is not None and isinstance(value, gymnasium.Env)
