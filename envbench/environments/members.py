"""What a class itself defines and an object itself holds, without what Python generates."""

from __future__ import annotations

import contextlib
import enum
import functools
import inspect
import types
from collections.abc import Iterator
from types import FunctionType
from typing import Any

from envbench.environments.lookup import module_of
from envbench.environments.packages import FRAMEWORKS


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
    if module_of(type(value)).split(".")[0] in FRAMEWORKS:  # such as a tool
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


_CODE = (FunctionType, staticmethod, classmethod, property)


_GENERATED = frozenset(
    {"__module__", "__dict__", "__weakref__", "__doc__", "__qualname__", "__annotations__"}
    | {"__firstlineno__", "__static_attributes__", "__annotate__", "__annotate_func__"}
    | {"__annotations_cache__", "__match_args__", "__abstractmethods__", "__parameters__"}
    | {"__orig_bases__", "__slots__", "__classcell__", "__type_params__", "__signature__"}
    | {"__class_vars__", "__private_attributes__", "_abc_impl", "model_config", "model_fields"}
    | {"model_computed_fields", "__protocol_attrs__", "__non_callable_proto_members__"}
    | {"_is_protocol", "_is_runtime_protocol", "fingerprint_ignore"}
)
