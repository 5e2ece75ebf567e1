"""What no source shows: what files, other programs, clocks and chance give."""

from __future__ import annotations

from types import FunctionType, ModuleType

from envbench.environments.lookup import ABSENT, lookup, module_of, public_module
from envbench.environments.references import Chain, unsteady_attributes
from envbench.environments.source import Source

UNSEEN_BUILTINS = frozenset({"__import__", "compile", "eval", "exec", "globals", "input", "open"})
"""Builtin functions whose result depends on more than code and its constants."""


def is_unseen(module: str, name: str) -> bool:
    """Whether what a function of Python's gives depends on more than code and its constants."""
    return (public_module(module), name) in _UNSEEN_NAMES


def filled_unsteadily(source: Source, function: FunctionType) -> frozenset[str]:
    """Attributes that a constructor fills from a clock, from chance or from the machine."""
    if source.node is None:
        return frozenset()

    def is_unsteady(chain: Chain) -> bool:
        value = lookup(chain[:1], function) if chain else ABSENT
        if isinstance(value, ModuleType):
            module = public_module(value.__name__)
            return any((module, name) in _UNSTEADY for name in (*chain[1:], "*"))
        if value is ABSENT:
            return "np_random" in chain
        owner = public_module(module_of(value))
        names = (getattr(value, "__name__", ""), *chain[1:], "*")
        return any((owner, name) in _UNSTEADY for name in names)

    return unsteady_attributes(source.node, is_unsteady)


_UNSEEN_NAMES = frozenset(
    {("os", "environ"), ("os", "getenv"), ("os", "listdir"), ("os", "scandir"), ("os", "walk")}
    | {("importlib", "import_module"), ("subprocess", "run"), ("subprocess", "Popen")}
    | {("subprocess", "check_output"), ("subprocess", "call"), ("subprocess", "check_call")}
    | {("builtins", name) for name in UNSEEN_BUILTINS}
    | {("io", "open"), ("socket", "socket"), ("urllib.request", "urlopen")}
)

_UNSTEADY = frozenset(
    {("time", "*"), ("random", "*"), ("secrets", "*"), ("tempfile", "*"), ("uuid", "uuid1")}
    | {("uuid", "uuid4"), ("datetime", "now"), ("datetime", "today"), ("datetime", "utcnow")}
    | {("os", "environ"), ("os", "getenv"), ("os", "getpid"), ("os", "urandom"), ("os", "getcwd")}
    | {("os", "times"), ("numpy", "random"), ("numpy.random", "*"), ("builtins", "id")}
    | {("numpy.random._generator", "*"), ("numpy.random.mtrand", "*"), ("itertools", "count")}
)
