"""The fingerprint of an environment: what it does, in named parts with a hash each.

Two environments with one digest have the same tools, scorers, hooks, schemas, helper functions,
constants, render methods and configuration. Comments, docstrings, layout, type hints and the name
of the module or notebook do not matter. `docs/replay.md` says what is followed and what cannot be.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import FunctionType, MappingProxyType
from typing import Any, Self

from envbench.environments.following import Follower
from envbench.environments.members import own_members, pieces
from envbench.environments.packages import Homes
from envbench.evidence.portable import Json, canonical
from envbench.evidence.tagged import type_name

SCHEMA = "envbench.fingerprint/v1"


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What an environment does, by parts.

    Attributes:
        digest: SHA-256 over the parts, in hexadecimal.
        parts: SHA-256 by the name of the part: ``tool/…``, ``scorer/…``, ``hook/…``, ``method/…``,
            ``render/…``, ``schema/…``, ``helper/…``, ``class/…``, ``constant/…``,
            ``configuration/…``, ``wrapper/…``, ``package/…`` and ``payload``.
        packages: the version of each installed package that the code reads; their code is not
            followed.
        followed: the functions and classes that were read, as ``module.qualified_name``.
        unseen: a sentence on each thing that could not be seen.
    """

    digest: str
    parts: Mapping[str, str]
    packages: Mapping[str, str] = field(default_factory=dict)
    followed: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("parts", "packages"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    @classmethod
    def of_parts(cls, parts: Mapping[str, str], **others: Any) -> Self:
        """A fingerprint of these parts: its digest is that of their canonical JSON."""
        content = canonical({"schema": SCHEMA, "parts": dict(parts)})
        return cls(hashlib.sha256(content).hexdigest(), parts, **others)

    def diff(self, other: Fingerprint) -> list[tuple[str, str | None, str | None]]:
        """Each part that differs, with its hash here and there; None where there is none."""
        names = sorted(self.parts.keys() | other.parts.keys())
        pairs = [(name, self.parts.get(name), other.parts.get(name)) for name in names]
        return [(name, ours, theirs) for name, ours, theirs in pairs if ours != theirs]

    def explain(self, other: Fingerprint) -> str:
        """What differs, in words: which parts changed, came or went from this one to the other."""
        changed, added, removed = [], [], []
        for name, ours, theirs in self.diff(other):
            if ours is None:
                added.append(name)
            elif theirs is None:
                removed.append(name)
            elif name.startswith("package/"):
                package = name.removeprefix("package/")
                before, after = (f.packages.get(package, "?") for f in (self, other))
                changed.append(f"{name} ({before} to {after})")
            else:
                changed.append(name)
        said = [
            f"{', '.join(names)} {word}"
            for names, word in ((changed, "changed"), (added, "added"), (removed, "removed"))
            if names
        ]
        return "; ".join(said) if said else "no part differs"

    def to_dict(self) -> dict[str, Json]:
        """Digest, parts and packages as portable JSON, as they are kept with an episode."""
        return {
            "digest": self.digest,
            "parts": dict(self.parts),
            "packages": dict(self.packages),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Json]) -> Self:
        """A fingerprint from what `to_dict` gave.

        Raises:
            ValueError: when it is malformed, or the digest is not that of the parts.
        """
        if not isinstance(values, Mapping):
            raise ValueError(  # noqa: TRY004 - everything malformed is a ValueError
                f"a fingerprint is an object, not {type(values).__name__}"
            )
        for name in ("parts", "packages"):
            texts = values.get(name)
            if not isinstance(texts, Mapping) or not all(
                isinstance(text, str) for pair in texts.items() for text in pair
            ):
                raise ValueError(f"a fingerprint needs {name}, an object of texts")
        made = cls.of_parts(values["parts"], packages=values["packages"])
        if values.get("digest") != made.digest:
            raise ValueError("the digest of a fingerprint is not that of its parts")
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fingerprint) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        counts = f"{len(self.parts)} parts, {len(self.unseen)} unseen"
        return f"<Fingerprint {self.digest[:12]}: {counts}>"

    def __str__(self) -> str:
        lines = [f"fingerprint {self.digest}"]
        lines += [f"  {self.parts[name][:12]}  {name}" for name in sorted(self.parts)]
        lines += (
            ["not seen:", *(f"  {sentence}" for sentence in self.unseen)] if self.unseen else []
        )
        return "\n".join(lines)


def fingerprint(environment: Any) -> Fingerprint:
    """Fingerprint an environment; take it before the first reset.

    The methods of its class are followed, and what they read, as far as that is the project's own
    code; of installed packages name and version are taken. Attributes that only the constructor, or
    the maker of the object, sets are configuration; those that other methods set or change are
    state, and left out. Of the object these are read where it has them: ``tools`` (with ``name``,
    ``description``, ``schema``), ``scorers``, ``hooks``, ``fingerprint_payload()`` for
    configuration from elsewhere (never credentials), and ``fingerprint_ignore``, names of
    attributes or parts to leave out.

    Args:
        environment: an `Environment`, or any `gymnasium.Env`, wrapped or not.

    Returns:
        The fingerprint. ``name`` and ``version`` are not in it: they are recorded beside it.

    Raises:
        TypeError: when it is no environment.
        ValueError: when the payload is not portable JSON.
    """
    import gymnasium

    if isinstance(environment, type) or not (
        isinstance(environment, gymnasium.Env)
        or all(callable(getattr(environment, name, None)) for name in ("reset", "step", "close"))
    ):
        if isinstance(environment, type):
            name = environment.__name__
            raise TypeError(f"environment is the class {name}: make one first, {name}(…)")
        raise TypeError(
            f"environment must be a Gymnasium environment, not {type(environment).__name__}"
        )
    wrappers = list(_wrappers(environment))
    inner = wrappers.pop()
    kind = type(inner)
    homes = Homes(kind.__module__)
    own = [
        base for base in kind.__mro__ if homes.of(base.__module__) is None and base is not object
    ]
    ignore = getattr(kind, "fingerprint_ignore", ())
    follower = Follower(
        homes,
        here=[environment, *wrappers, inner, *own],
        ignore={ignore} if isinstance(ignore, str) else ignore,
    )
    for base in kind.__mro__:
        follower.refer(base, "class")  # the packages that it stands on
    _add_registered(follower, inner)
    _add_methods(follower, kind, own)
    _add_configuration(follower, inner, own)
    for wrapper in wrappers:
        _add_wrapper(follower, wrapper)
    follower.finish()
    return Fingerprint.of_parts(
        dict(sorted(follower.parts.items())),
        packages=dict(sorted(follower.packages.items())),
        followed=tuple(sorted(follower.followed)),
        unseen=tuple(sorted(follower.unseen)),
    )


def _wrappers(environment: Any) -> Iterator[Any]:
    """From the outermost wrapper to the environment itself."""
    import gymnasium

    yield environment
    while isinstance(environment, gymnasium.Wrapper):
        environment = environment.env
        yield environment


def _add_registered(follower: Follower, environment: Any) -> None:
    """Add what is registered with the object: tools with their schemas, scorers, hooks."""
    methods = getattr(environment, "tool_methods", None) or {}
    for tool in _registered(follower, environment, "tools"):
        described = {
            name: follower.describe(getattr(tool, name, None), f"schema/{tool.name}")
            for name in ("name", "description", "schema")
        }
        follower.add(f"schema/{tool.name}", described)
        method = methods.get(tool.name, tool) if isinstance(methods, Mapping) else tool
        function = getattr(method, "function", None) or _method(environment, tool.name)
        if function is not None:
            follower.follow(_function_of(function), f"tool/{tool.name}")
    for plural, singular in (("scorers", "scorer"), ("hooks", "hook")):
        for item in _registered(follower, environment, plural):
            follower.follow(_function_of(item.function), f"{singular}/{item.name}")
            others = {"weight": getattr(item, "weight", None)}
            if others["weight"] is not None:
                described = {key: follower.describe(value, key) for key, value in others.items()}
                follower.add(f"configuration/{singular}/{item.name}", described)


@dataclass(frozen=True, slots=True)
class _Registered:
    name: str
    function: Any


def _registered(follower: Follower, environment: Any, name: str) -> list[Any]:
    """What is registered under a plural: objects with a name, or a mapping by name."""
    try:
        found = getattr(environment, name, None)
        if found is None or callable(found):
            return []
        if isinstance(found, Mapping):
            return [
                item if hasattr(item, "name") else _Registered(str(key), item)
                for key, item in found.items()
            ]
        return [
            item if hasattr(item, "name") else _Registered(item.__name__, item)
            for item in list(found)
        ]
    except Exception as error:  # a property of the user's that raises
        follower.note(name, f"reading them raised {type(error).__name__}")
        return []


def _function_of(value: Any) -> Any:
    """The function itself of a method that is bound to the environment."""
    return getattr(value, "__func__", value)


def _method(environment: Any, name: str) -> Any:
    for base in type(environment).__mro__:
        if name in vars(base):
            ((_, function), *_) = pieces(vars(base)[name])
            return function if isinstance(function, FunctionType) else None
    return None


def _add_methods(follower: Follower, kind: type, own: list[type]) -> None:
    """Add the methods of the class and of its bases in the project.

    What overrides a method of a class outside the project is a hook.
    """
    outside = [base for base in kind.__mro__ if base not in own]
    seen: set[str] = set()
    found = []
    for base in own:
        for name, value in own_members(base):
            for suffix, function in pieces(value):
                if not isinstance(function, FunctionType):
                    continue
                path = name if name not in seen else f"{base.__name__}.{name}"
                is_hook = any(name in vars(other) for other in outside)
                word = "render" if name == "render" else "hook" if is_hook else "method"
                follower.name(function, f"{word}/{path}{suffix}")
                found.append(function)
        seen |= {name for name, _ in own_members(base)}
    for function in found:
        if follower.is_project(function):
            follower.follow(function, "")
        else:
            follower.refer(function, "class")


def _add_configuration(follower: Follower, environment: Any, own: list[type]) -> None:
    """Add attributes of the class and of the object, spaces, and the payload."""
    values: dict[str, Any] = {}
    for base in reversed(own):
        for name, value in own_members(base):
            is_code = any(isinstance(part, FunctionType) for _, part in pieces(value))
            if not is_code:
                values[name] = value
    state = follower.state_of(type(environment))
    values = {name: value for name, value in values.items() if name not in state}
    values |= dict(follower.configuration(environment, "configuration"))
    if "max_turns" not in values and hasattr(environment, "max_turns"):
        values["max_turns"] = environment.max_turns
    for name in ("action_space", "observation_space"):
        space = values.pop(name, None) or _space(environment, name)
        # our own spaces say what the tools' schemas and the observation's class say
        if space is not None and not type(space).__module__.startswith("envbench."):
            follower.add(f"schema/{name}", follower.describe(space, f"schema/{name}"))
    for name in sorted(values.keys() - _BESIDE):
        part = f"configuration/{name}"
        follower.add(part, follower.describe(values[name], part))
    payload = getattr(environment, "fingerprint_payload", None)
    if callable(payload):
        try:
            follower.add("payload", payload())
        except ValueError as error:
            raise ValueError(f"fingerprint_payload() must give portable JSON: {error}") from None


_BESIDE = frozenset(
    {"metadata", "name", "np_random", "render_mode", "reward_range", "spec", "version"}
    | {"_np_random", "_np_random_seed", "fingerprint_ignore"}
)
"""Attributes that are recorded elsewhere, or change nothing of what happens."""


def _space(environment: Any, name: str) -> Any:
    try:
        return getattr(environment, name, None)
    except Exception:  # one that is computed, and fails
        return None


def _add_wrapper(follower: Follower, wrapper: Any) -> None:
    kind = type(wrapper)
    if kind.__module__.startswith("envbench.capture") or kind.__name__ in _WATCHING:
        return
    part = follower.free(f"wrapper/{kind.__name__}")
    saved = getattr(wrapper, "_saved_kwargs", None)  # gymnasium.utils.RecordConstructorArgs
    if saved is None:
        saved = dict(follower.configuration(wrapper, part))
        saved.pop("env", None)
    content = [follower.refer(kind, part) or type_name(kind), follower.describe(saved, part)]
    follower.add(part, content)


_WATCHING = frozenset({"OrderEnforcing", "PassiveEnvChecker"})
"""Wrappers that only look on."""
