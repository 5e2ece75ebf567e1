"""What a name in code stands for, and what it is called, found without running anything."""

from __future__ import annotations

import importlib.util
import sys
from types import CellType, FunctionType
from typing import Any

from envbench.environments.references import Chain

ABSENT: Any = object()
"""What a name stands for that is not defined."""


def lookup(chain: Chain, function: FunctionType) -> Any:
    """The value of a name as a function sees it, without builtins."""
    if not chain:
        return ABSENT
    name = chain[0]
    if name in function.__code__.co_freevars:
        cell = (function.__closure__ or ())[function.__code__.co_freevars.index(name)]
        return cell.cell_contents if is_filled(cell) else ABSENT
    return function.__globals__.get(name, ABSENT)


def is_filled(cell: CellType) -> bool:
    """Whether the variable of a closure has a value yet."""
    try:
        return cell.cell_contents is not ABSENT
    except ValueError:
        return False


def module_of(value: Any) -> str:
    """The name of the module that a function, a class or an object's class is from."""
    module = getattr(value, "__module__", None)
    if not isinstance(module, str):
        module = getattr(type(value), "__module__", "")
    return module if isinstance(module, str) else ""


def file_of_module(name: str) -> str | None:
    """The file of a module, imported or not; None where there is none."""
    module = sys.modules.get(name)
    if module is not None:
        return getattr(module, "__file__", None)
    try:
        spec = importlib.util.find_spec(name)
    except Exception:  # a parent package that cannot be imported
        return None
    return spec.origin if spec is not None and spec.has_location else None


def public_module(module: str) -> str:
    """The public name of one of Python's modules, the same on every system and version."""
    if module in ("posixpath", "ntpath"):
        return "os.path"
    if module in ("posix", "nt"):
        return "os"
    return module.removeprefix("_").split("._")[0]


def plain_name(qualified: str) -> str:
    """A qualified name without the functions that something was defined in."""
    return qualified.rpartition("<locals>.")[2]
