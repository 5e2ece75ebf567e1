"""Following code: from a function to the functions, classes and constants that it reads.

Each of them becomes a part with a name and a hash of its own. The hash of a part covers what is
written in it and the names of the parts that it reads, not their content, so that a change shows
in the one part that was changed.
"""

from __future__ import annotations

import builtins
import contextlib
import dataclasses
import enum
import functools
import hashlib
import importlib
import importlib.util
import inspect
import sys
import types
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from types import FunctionType, ModuleType
from typing import Any

from envbench.environments.packages import FRAMEWORKS, PYTHON, Homes, distribution_of, version_of
from envbench.environments.references import (
    Chain,
    called_chain,
    changes,
    references,
    unsteady_attributes,
)
from envbench.environments.source import Source, hints_form, normal_form, read_source
from envbench.environments.values import Describer
from envbench.evidence.portable import Json, canonical
from envbench.evidence.tagged import describe_error

_ABSENT: Any = object()


@dataclasses.dataclass(slots=True)
class _Constant:
    """A value that code reads by a global name, in one module or several."""

    part: str
    value: Any
    read_in: set[tuple[int, str]] = dataclasses.field(default_factory=set)


class Follower:
    """Follows code and collects parts.

    Args:
        homes: says what belongs to the project.
        here: ids of objects that are the environment itself, and are not followed as something
            that it reads.
        ignore: names of attributes, or of parts, that are left out.

    Attributes:
        parts: hash by name.
        packages: version by name, of every installed package that is read.
        followed: the functions and classes that were read, as ``module.qualified_name``.
        unseen: sentences on what could not be seen.
    """

    def __init__(self, homes: Homes, here: Iterable[Any] = (), ignore: Iterable[str] = ()) -> None:
        self.parts: dict[str, str] = {}
        self.packages: dict[str, str] = {}
        self.followed: dict[str, None] = {}
        self.unseen: dict[str, None] = {}
        self.homes = homes
        self._ignore = frozenset(ignore)
        self._here = {id(item): item for item in here}
        # parts by the id of what they stand for, and that, so that no id is used twice
        self._named: dict[int, tuple[str, Any]] = {}
        self._taken: set[str] = set()
        self._waiting: deque[tuple[str, Any]] = deque()
        # constants by name and the id of their value; the same one may be read in two modules
        self._constants: dict[tuple[str, int], _Constant] = {}
        self._changed: set[tuple[int, str]] = set()
        self._usages: dict[type, tuple[dict[str, bool], set[str], set[str]]] = {}
        self._values = Describer(self.refer, self._instance, self.note)

    def name(self, value: Any, part: str) -> None:
        """Give a function or class its part's name, before something else names it."""
        if id(value) not in self._named:
            self._named[id(value)] = (part, value)
            self._taken.add(part)

    def follow(self, value: Any, part: str) -> None:
        """Add a part for a function, a class, or any value that holds or wraps some."""
        if part in self._ignore:
            return
        if isinstance(value, FunctionType | type) and self._home(value) is None:
            self.name(value, part)
            self._wait(self._named[id(value)][0], value)
        else:
            self.add(part, self.describe(value, part))

    def is_project(self, value: Any) -> bool:
        """Whether a function or class is the project's own, which is followed."""
        return self._home(value) is None

    def add(self, part: str, content: Json) -> None:
        """Add a part by its content."""
        if part not in self._ignore:
            self.parts[part] = hashlib.sha256(canonical(content)).hexdigest()

    def describe(self, value: Any, place: str) -> Json:
        """The form of a value; what it holds is followed."""
        return self._values.describe(value, place)

    def note(self, place: str, reason: str) -> None:
        """Say that something is not seen."""
        if place not in self._ignore:
            self.unseen[f"{place}: {reason}"] = None

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
                    self.note(part, f"following it raised {_said(error)}")
                    self.add(part, ["unseen"])
            todo = [constant for constant in self._constants.values() if constant.part not in done]
            if not todo:
                break
            for constant in todo:
                done.add(constant.part)
                if not constant.read_in & self._changed:
                    self.add(constant.part, self.describe(constant.value, constant.part))
        for constant in self._constants.values():
            if constant.read_in & self._changed:
                self.parts.pop(constant.part, None)
                self.note(constant.part, "the code changes it, so it is state and left out")

    def refer(self, value: Any, place: str) -> str | None:
        """The reference that stands for a function, class or module; None for any other value."""
        if id(value) in self._here:
            return "environment"
        if isinstance(value, ModuleType):
            return self._module(value)
        known = self._named.get(id(value))
        if known is not None:
            return known[0]
        if isinstance(value, FunctionType):
            return self._function_reference(value, place)
        if isinstance(value, types.MethodType) and _is_hidden(value.__self__):
            return f"{self.refer(value.__func__, place)} of {type(value.__self__).__name__}"
        if isinstance(value, type) and not isinstance(value, types.GenericAlias):
            home = self._home(value)
            if home is not None:
                return self._outside(home, value.__module__, value.__qualname__)
            return self._named_part(value, f"class/{_plain(value.__qualname__)}")
        if isinstance(value, types.BuiltinFunctionType | types.MethodDescriptorType | _SLOTS):
            return self._compiled_reference(value, place)
        wrapped = getattr(value, "__wrapped__", None) if _is_cache(value) else None
        return None if wrapped is None else self.refer(wrapped, place)

    def _function_reference(self, value: FunctionType, place: str) -> str:
        home = self._home(value)
        if home is None:
            return self._named_part(value, _part_of(value))
        reference = self._outside(home, value.__module__, value.__qualname__)
        # a wrapper of somebody else's around a function of the project's
        held = [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
        inside = [getattr(value, "__wrapped__", None), *held]
        registry = getattr(value, "registry", None)
        if isinstance(registry, Mapping):  # functools.singledispatch
            inside += [item for pair in registry.items() for item in pair]
        found = []
        for item in inside:
            if isinstance(item, FunctionType | type) and self._home(item) is None:
                found.append(self.refer(item, place) or "")
        return f"{reference}({', '.join(found)})" if found else reference

    def _compiled_reference(self, value: Any, place: str) -> str:
        owner = getattr(value, "__objclass__", None) or getattr(value, "__self__", None)
        module = getattr(value, "__module__", None) or getattr(owner, "__module__", None)
        if module is None and isinstance(owner, ModuleType):
            module = owner.__name__
        name = str(getattr(value, "__qualname__", value))
        home = PYTHON if module is None else self.homes.of(module)
        if home is None:
            self.note(place, f"{name} is compiled code of the project's, which is not seen")
            return f"compiled:{name}"
        return self._outside(home, module or "builtins", name)

    def _outside(self, home: str, module: str, name: str) -> str:
        """A reference to what belongs to Python or to an installed package."""
        if home == PYTHON:
            return f"python:{_public(module)}.{name}"
        self._package(home)
        return f"package:{module}.{name}"

    def _package(self, home: str) -> None:
        package = distribution_of(home)
        if package not in self.packages:
            self.packages[package] = version_of(home)
            self.add(f"package/{package}", self.packages[package])

    def _module(self, module: ModuleType) -> str:
        home = self.homes.of(module.__name__, getattr(module, "__file__", None))
        if home is None:
            return "module"
        if home == PYTHON:
            return f"python:{_public(module.__name__)}"
        self._package(home)
        return f"package:{module.__name__}"

    def _home(self, value: Any) -> str | None:
        if isinstance(value, FunctionType):
            module = value.__globals__.get("__name__")
            file = value.__code__.co_filename
            # what is generated belongs to the module that it runs in
            is_file = not file.startswith("<") or file.startswith("<frozen ")
            return self.homes.of(
                module if isinstance(module, str) else None, file if is_file else None
            )
        module = getattr(value, "__module__", None)
        return self.homes.of(module if isinstance(module, str) else None)

    def _named_part(self, value: Any, wanted: str) -> str:
        """A new part of the name that is wanted, or of that name with a number."""
        part = self.free(wanted)
        self._named[id(value)] = (part, value)
        self._wait(part, value)
        return part

    def free(self, wanted: str) -> str:
        """The name for a part that is wanted, with a number where it is taken."""
        part, number = wanted, 1
        while part in self._taken:
            number += 1
            part = f"{wanted}#{number}"
        self._taken.add(part)
        return part

    def _wait(self, part: str, value: Any) -> None:
        if part not in self.parts and part not in self._ignore:
            self.parts[part] = ""  # in the order of discovery
            self._waiting.append((part, value))

    def _function(self, function: FunctionType, part: str) -> None:
        code = function.__code__
        self.followed[f"{function.__module__}.{function.__qualname__}"] = None
        source = read_source(code, function.__globals__)
        if source.missing is not None:
            self.note(
                part,
                f"{source.missing}, so its compiled code is hashed, which differs between versions"
                " of Python",
            )
        read = references(code)
        changed = set(read.assigned)
        if source.node is not None:
            changed |= changes(source.node).names & {chain[0] for chain in read.names}
        self._changed |= {(id(function.__globals__), name) for name in changed}
        bindings: dict[str, Json] = {}
        for chain in read.names:
            self._bind(chain, function, part, bindings)
        for level, module, names in read.imports:
            bindings[f"import {'.' * level}{module}"] = self._import(
                level, module, names, function, part
            )
        self.add(
            part,
            {
                "form": hashlib.sha256(source.form).hexdigest(),
                "bindings": bindings,
                "decorators": self._decorators(source, function, part),
                "defaults": self.describe(function.__defaults__, part),
                "keyword_defaults": self.describe(function.__kwdefaults__, part),
                "closure": self._closure(function, part),
            },
        )

    def _closure(self, function: FunctionType, part: str) -> Json:
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        return {
            name: self.describe(cell.cell_contents, f"{part}, its variable {name}")
            if _is_filled(cell)
            else ["empty"]
            for name, cell in cells
        }

    def _decorators(self, source: Source, function: FunctionType, part: str) -> Json:
        """The decorators of a function, where they are not the framework's own.

        What `@tool` and `@env.scorer` do is in the parts of the tool or scorer.
        """
        node = source.node
        forms: list[Json] = []
        if node is None or not hasattr(node, "decorator_list"):
            return forms
        for decorator in node.decorator_list:
            chain = called_chain(decorator)
            value = _lookup(chain[:1], function) if chain else _ABSENT
            if value is not _ABSENT and self._is_framework(value):
                continue
            bindings: dict[str, Json] = {}
            for name in _names_in(decorator):
                if _lookup((name,), function) is not _ABSENT:
                    self._bind((name,), function, part, bindings)
            forms.append([hashlib.sha256(normal_form(decorator)).hexdigest(), bindings])
        if forms:  # they may read the hints
            forms.append(hashlib.sha256(hints_form(node)).hexdigest())
        return forms

    def _is_framework(self, value: Any) -> bool:
        if id(value) in self._here:
            return True
        module = value.__name__ if isinstance(value, ModuleType) else _module_of(value)
        return module.split(".")[0] in FRAMEWORKS or _is_environment(value)

    def _bind(
        self, chain: Chain, function: FunctionType, part: str, bindings: dict[str, Json]
    ) -> None:
        """Note what a name of a function stands for, and follow it."""
        root = chain[0]
        value = _lookup((root,), function)
        if root in _OF_MODULE:
            if root == "__file__":
                self.note(part, "it reads __file__, and what lies beside its file is not seen")
            return
        if value is _ABSENT:
            if root in _UNSEEN_BUILTINS:
                self.note(part, f"it calls {root}(), and what that gives is not seen")
            elif not hasattr(builtins, root):
                self.note(part, f"it reads {root}, which is not defined")
                bindings[root] = ["undefined"]
            return
        owner, place = id(function.__globals__), [root]
        for attribute in chain[1:]:
            if not isinstance(value, ModuleType):
                break
            if self._module(value) != "module":
                self._note_unsteady(value.__name__, attribute, part)
                break
            owner = id(vars(value))
            value = getattr(value, attribute, _ABSENT)
            place.append(attribute)
        key = ".".join(place)
        if value is _ABSENT:
            self.note(part, f"it reads {key}, which is not defined")
            bindings[key] = ["undefined"]
            return
        if isinstance(value, ModuleType) and self._module(value) == "module":
            self.note(part, f"it hands on the module {key} as a whole, which is not followed")
        bindings[key] = self._reference(value, owner, place[-1], part)

    def _reference(self, value: Any, owner: int, name: str, part: str) -> Json:
        """What stands for the value of a global name; a constant becomes a part of its own."""
        reference = self.refer(value, part)
        if reference is not None:
            self._note_unsteady(_module_of(value), getattr(value, "__name__", ""), part)
            return reference
        constant = self._constants.get((name, id(value)))
        if constant is None:
            constant = _Constant(self.free(f"constant/{name}"), value)
            self._constants[name, id(value)] = constant
        constant.read_in.add((owner, name))
        return constant.part

    def _note_unsteady(self, module: str, name: str, part: str) -> None:
        if (_public(module), name) in _UNSEEN_NAMES:
            self.note(part, f"it reads {_public(module)}.{name}, and what that gives is not seen")

    def _import(
        self, level: int, module: str, names: Iterable[str], function: FunctionType, part: str
    ) -> Json:
        """What an import inside a function gives. Only the project's modules are imported."""
        package = function.__globals__.get("__package__") or ""
        try:
            name = importlib.util.resolve_name("." * level + module, package)
        except (ImportError, TypeError, ValueError):
            self.note(part, f"it imports {'.' * level}{module}, which cannot be found from here")
            return ["undefined"]
        home = self.homes.of(name, _file_of_module(name))
        if home is not None:
            for taken in names:
                self._note_unsteady(name, taken, part)
            if home not in (PYTHON, *FRAMEWORKS):
                # often one that is needed to draw only, and missing elsewhere
                self.note(part, f"it imports {name} when it is called: its version is left out")
            return f"import:{name}"
        try:
            loaded = importlib.import_module(name)
        except Exception as error:
            self.note(part, f"it imports {name}, which raises {type(error).__name__}")
            return ["undefined"]
        bound: dict[str, Json] = {}
        for taken in names:
            value = getattr(loaded, taken, _ABSENT)
            if value is _ABSENT:
                with contextlib.suppress(Exception):
                    value = importlib.import_module(f"{name}.{taken}")
            bound[taken] = (
                ["undefined"]
                if value is _ABSENT
                else self._reference(value, id(vars(loaded)), taken, part)
            )
        if not bound:
            self.note(part, f"it imports the module {name}, which is not followed as a whole")
        return bound

    def _class(self, kind: type, part: str) -> None:
        name = _plain(kind.__qualname__)
        self.followed[f"{kind.__module__}.{kind.__qualname__}"] = None
        content: dict[str, Json] = {
            "bases": [self.refer(base, part) for base in kind.__bases__ if base is not object],
            "fields": self._fields(kind, part),
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
            if self._home(value) is None:
                self.follow(value, f"{'render' if member == 'render' else 'helper'}/{path}")
            else:
                self.refer(value, path)
        else:
            self.follow(value, f"constant/{path}")

    def _fields(self, kind: type, part: str) -> Json:
        """The declared fields of a dataclass, a pydantic model or a named tuple."""
        own = vars(kind)
        if "__dataclass_fields__" in own:
            return [
                self._field(field.name, field.type, field.default, field.default_factory, part)
                for field in dataclasses.fields(kind)
            ]
        if "__pydantic_fields__" in own or "model_fields" in own:
            return [
                [
                    *self._field(
                        name, field.annotation, field.default, field.default_factory, part
                    ),
                    self.describe(list(field.metadata), part),
                    [self.describe(field.alias, part), field.exclude],
                ]
                for name, field in kind.model_fields.items()  # type: ignore[attr-defined]
            ] + [self.describe(dict(getattr(kind, "model_config", {})), part)]
        if "_field_defaults" in own:
            return [list(kind._fields), self.describe(kind._field_defaults, part)]  # type: ignore[attr-defined]
        if "__required_keys__" in own:  # TypedDict
            return self.describe(dict(getattr(kind, "__annotations__", {})), part)
        return None

    def _field(self, name: str, hint: Any, default: Any, factory: Any, part: str) -> list[Json]:
        place = f"{part}, its field {name}"
        default = ["none"] if _is_missing(default) else self.describe(default, place)
        factory = ["none"] if _is_missing(factory) else self.describe(factory, place)
        return [name, self.describe(hint, place), default, factory]

    def _instance(self, value: Any, place: str, above: tuple[int, ...]) -> Json | None:
        """Describe an object of one of the project's classes; None for any other."""
        kind = type(value)
        if self._home(kind) is not None:
            return self._outside_instance(value, kind, place)
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

    def _outside_instance(self, value: Any, kind: type, place: str) -> Json | None:
        """Note the package of an object's class, and describe it as a value."""
        home = self._home(kind)
        if home is not None and home not in (PYTHON, *FRAMEWORKS):
            self._package(home)
        return None

    def configuration(self, value: Any, place: str) -> Iterator[tuple[str, Any]]:
        """The attributes of an object that its constructor or its maker sets, and nothing later.

        An attribute that a method other than the constructor assigns or changes is state; so is
        one that a class outside the project sets. One that the constructor fills from a clock, from
        chance or from the machine is neither, and left out.
        """
        held = attributes_of(value)
        state, theirs, unsteady = self._usage(type(value))
        for name in sorted(held):
            if name in self._ignore or name in theirs or name.startswith("__"):
                continue
            if name in unsteady:
                self.note(
                    f"{place}.{name}", "its value comes from a clock, from chance or this machine"
                )
            elif name not in state:
                yield name, held[name]
            elif name in state and not state[name]:
                self.note(f"{place}.{name}", "methods change what it holds, so it is left out")

    def state_of(self, kind: type) -> set[str]:
        """The attributes that methods of a class, other than its constructor, set or change."""
        return set(self._usage(kind)[0])

    def _usage(self, kind: type) -> tuple[dict[str, bool], set[str], set[str]]:
        """State by name (whether it is assigned later as a whole), others' attributes, unsteady."""
        known = self._usages.get(kind)
        if known is None:
            known = self._usages[kind] = self._find_usage(kind)
        return known

    def _find_usage(self, kind: type) -> tuple[dict[str, bool], set[str], set[str]]:
        state: dict[str, bool] = {}
        built: set[str] = set()
        theirs: set[str] = set()
        unsteady: set[str] = set()
        for owner in kind.__mro__:
            if self._home(owner) is not None:
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
                        unsteady |= self._unsteady(source, function)
                    else:
                        state |= dict.fromkeys(in_place - state.keys(), False)
                        state |= dict.fromkeys(assigned, True)
        return state, theirs - built, unsteady

    def _unsteady(self, source: Source, function: FunctionType) -> frozenset[str]:
        if source.node is None:
            return frozenset()

        def is_unsteady(chain: Chain) -> bool:
            value = _lookup(chain[:1], function) if chain else _ABSENT
            if isinstance(value, ModuleType):
                module = _public(value.__name__)
                return any((module, name) in _UNSTEADY for name in (*chain[1:], "*"))
            if value is _ABSENT:
                return "np_random" in chain
            owner = _public(_module_of(value))
            names = (getattr(value, "__name__", ""), *chain[1:], "*")
            return any((owner, name) in _UNSTEADY for name in names)

        return unsteady_attributes(source.node, is_unsteady)


def own_members(kind: type) -> Iterator[tuple[str, Any]]:
    """What a class itself defines, without what Python and class decorators generate."""
    for name, value in list(vars(kind).items()):
        if name in _GENERATED or name.startswith(("__pydantic_", "__attrs_", "__dataclass_")):
            continue
        if isinstance(value, types.MemberDescriptorType | types.GetSetDescriptorType):
            continue  # a slot
        if type(value).__name__ == "_tuplegetter" or name in ("_fields", "_field_defaults"):
            continue  # of a named tuple
        if _is_generated(value, kind) or name in vars(kind).get("__dataclass_fields__", ()):
            continue
        if name.startswith("_") and not isinstance(value, _CODE):
            if name.startswith("__") and name.endswith("__"):
                continue
            if isinstance(kind, enum.EnumType):
                continue
        yield name, value


def pieces(value: Any) -> list[tuple[str, Any]]:
    """The functions behind an attribute of a class, each with a suffix for its name."""
    if isinstance(value, property):
        held = (("", value.fget), (".setter", value.fset), (".deleter", value.fdel))
        return [(suffix, function) for suffix, function in held if function is not None]
    if isinstance(value, staticmethod | classmethod):
        return [("", value.__func__)]
    if isinstance(value, functools.cached_property):
        return [("", value.func)]
    if _module_of(type(value)).split(".")[0] in FRAMEWORKS:  # such as a tool
        for name in ("function", "fn", "func", "__wrapped__"):
            function = getattr(value, name, None)
            if isinstance(function, FunctionType):
                return [("", function)]
    return [("", value)]


def attributes_of(value: Any) -> dict[str, Any]:
    """The attributes that an object holds itself."""
    held: dict[str, Any] = {}
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else tuple(slots):
            with contextlib.suppress(AttributeError):
                held[name] = object.__getattribute__(value, name)
    with contextlib.suppress(AttributeError):
        held |= object.__getattribute__(value, "__dict__")
    held.pop("__dict__", None)
    held.pop("__weakref__", None)
    return held


_BUILTIN: tuple[Any, ...] = (dict, list, tuple, set, frozenset, str, bytes, int, float)

_SLOTS = types.WrapperDescriptorType | types.MethodWrapperType | types.ClassMethodDescriptorType

_CONSTRUCTORS = frozenset({"__init__", "__new__", "__post_init__", "model_post_init"})

_GENERATED = frozenset(
    {"__module__", "__dict__", "__weakref__", "__doc__", "__qualname__", "__annotations__"}
    | {"__firstlineno__", "__static_attributes__", "__annotate__", "__annotate_func__"}
    | {"__annotations_cache__", "__match_args__", "__abstractmethods__", "__parameters__"}
    | {"__orig_bases__", "__slots__", "__classcell__", "__type_params__", "__signature__"}
    | {"__class_vars__", "__private_attributes__", "_abc_impl", "model_config", "model_fields"}
    | {"model_computed_fields", "__protocol_attrs__", "__non_callable_proto_members__"}
    | {"_is_protocol", "_is_runtime_protocol", "fingerprint_ignore"}
)

_OF_MODULE = frozenset(
    {"__file__", "__name__", "__package__", "__spec__", "__loader__", "__doc__", "__path__"}
)
"""Names that a module has: they say where code is, and not what it does."""

_UNSEEN_BUILTINS = frozenset({"__import__", "compile", "eval", "exec", "globals", "input", "open"})

_UNSEEN_NAMES = frozenset(
    {("os", "environ"), ("os", "getenv"), ("os", "listdir"), ("os", "scandir"), ("os", "walk")}
    | {("importlib", "import_module"), ("subprocess", "run"), ("subprocess", "Popen")}
    | {("subprocess", "check_output"), ("subprocess", "call"), ("subprocess", "check_call")}
    | {("builtins", name) for name in _UNSEEN_BUILTINS}
    | {("io", "open"), ("socket", "socket"), ("urllib.request", "urlopen")}
)

_UNSTEADY = frozenset(
    {("time", "*"), ("random", "*"), ("secrets", "*"), ("tempfile", "*"), ("uuid", "uuid1")}
    | {("uuid", "uuid4"), ("datetime", "now"), ("datetime", "today"), ("datetime", "utcnow")}
    | {("os", "environ"), ("os", "getenv"), ("os", "getpid"), ("os", "urandom"), ("os", "getcwd")}
    | {("os", "times"), ("numpy", "random"), ("numpy.random", "*"), ("builtins", "id")}
    | {("numpy.random._generator", "*"), ("numpy.random.mtrand", "*"), ("itertools", "count")}
)


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


def _lookup(chain: Chain, function: FunctionType) -> Any:
    """The value of a name as a function sees it, without builtins."""
    if not chain:
        return _ABSENT
    name = chain[0]
    if name in function.__code__.co_freevars:
        cell = (function.__closure__ or ())[function.__code__.co_freevars.index(name)]
        return cell.cell_contents if _is_filled(cell) else _ABSENT
    return function.__globals__.get(name, _ABSENT)


def _names_in(node: Any) -> list[str]:
    import ast

    return sorted({part.id for part in ast.walk(node) if isinstance(part, ast.Name)})


def _part_of(function: FunctionType) -> str:
    name = _plain(function.__code__.co_qualname)
    kind = "render" if name.rpartition(".")[2] == "render" and "." in name else "helper"
    return f"{kind}/{name}"


def _is_hidden(value: Any) -> bool:
    """Whether it is an object of Python's behind what looks like the functions of a module."""
    modules = [sys.modules.get(name) for name in ("random", "secrets")]
    return any(
        value is getattr(getattr(each, "choice", None), "__self__", None) for each in modules
    )


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {describe_error(error)}"


def _plain(qualified: str) -> str:
    """A qualified name without the functions that something was defined in."""
    return qualified.rpartition("<locals>.")[2]


def _public(module: str) -> str:
    """The public name of one of Python's modules, the same on every system and version."""
    if module in ("posixpath", "ntpath"):
        return "os.path"
    if module in ("posix", "nt"):
        return "os"
    return module.removeprefix("_").split("._")[0]


def _module_of(value: Any) -> str:
    module = getattr(value, "__module__", None)
    if not isinstance(module, str):
        module = getattr(type(value), "__module__", "")
    return module if isinstance(module, str) else ""


def _file_of_module(name: str) -> str | None:
    module = sys.modules.get(name)
    if module is not None:
        return getattr(module, "__file__", None)
    try:
        spec = importlib.util.find_spec(name)
    except Exception:  # a parent package that cannot be imported
        return None
    return spec.origin if spec is not None and spec.has_location else None


def _is_environment(value: Any) -> bool:
    gymnasium = sys.modules.get("gymnasium")
    return gymnasium is not None and isinstance(value, gymnasium.Env)


def _is_cache(value: Any) -> bool:
    """Whether it is what `functools.lru_cache` makes of a function."""
    return type(value).__name__ == "_lru_cache_wrapper"


_CODE = (FunctionType, staticmethod, classmethod, property)


def _is_generated(value: Any, kind: type) -> bool:
    """Whether `dataclasses`, attrs or `namedtuple` wrote a method of a class."""
    function = getattr(value, "__func__", value)
    if not isinstance(function, FunctionType):
        return False
    code = inspect.unwrap(function).__code__
    if code.co_filename.startswith("<attrs generated"):
        return True
    # they compile a text, and give the method another qualified name
    is_renamed = code.co_filename == "<string>" and code.co_qualname != function.__qualname__
    return is_renamed and ("__dataclass_fields__" in vars(kind) or "_fields" in vars(kind))


def _is_filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not _ABSENT
    except ValueError:
        return False


def _is_missing(value: Any) -> bool:
    return value is dataclasses.MISSING or type(value).__name__ == "PydanticUndefinedType"
