"""What an episode ran on: the environment's spec, wrappers and spaces, and package versions."""

from __future__ import annotations

import platform
from functools import cache
from importlib import metadata
from typing import Any

import gymnasium
from gymnasium.vector import VectorEnv, VectorWrapper

from envbench.evidence.portable import Json, canonical, parse
from envbench.evidence.spaces import SpaceCodec
from envbench.evidence.tagged import Encoding, inline_arrays, tag, type_name

_LAYERS = (gymnasium.Wrapper, VectorWrapper)

PACKAGES = ("envbench", "numpy", "duckdb", "pyarrow", "orjson", "pydantic")


class Surroundings:
    """What stays the same in every episode of one environment object.

    Args:
        env: the environment as it is recorded, wrappers included; of a vector environment it is
            what its environments have in common.
        environment_id: the name that the caller gives it; by default its spec's id or its class.
        spaces: the action and observation space, where they are not those of `env`.

    Attributes:
        environment_id: the environment's name.
        actions: the codec of the action space.
        observations: the codec of the observation space.
        head: canonical JSON of the keys of `.data` that speak of these.
    """

    def __init__(
        self, env: Any, environment_id: str | None = None, spaces: tuple[Any, Any] | None = None
    ) -> None:
        self._spaces = spaces or _spaces(env)
        self.actions, self.observations = map(SpaceCodec, self._spaces)
        spec = _describe_spec(env)
        told = _told(env)
        if told:
            spec = {**(spec or {}), **told}
        if environment_id is None:
            name = spec.get("id") if spec else None
            environment_id = (
                name if isinstance(name, str) and name.strip() else type_name(type(_innermost(env)))
            )
        self.environment_id = environment_id
        self.head = {
            **unknown_surroundings(environment_id),
            "environment_spec": canonical(spec),
            "spaces": canonical(
                {
                    "action": self.actions.description,
                    "observation": self.observations.description,
                }
            ),
            "wrappers": canonical(_wrappers(env)),
        }

    def of(self, env: Any) -> Surroundings:
        """These, or new ones of the same name where the environment's spaces are others by now.

        An environment may declare its spaces in its reset, or change them there.
        """
        try:
            same = all(
                now is then or bool(now == then)
                for now, then in zip(_spaces(env), self._spaces, strict=True)
            )
        except Exception:  # a space that cannot be compared
            same = False
        return self if same else Surroundings(env, self.environment_id)


def unknown_surroundings(environment_id: str) -> dict[str, bytes]:
    """The same keys for an environment that could not be made."""
    return {
        "environment_id": canonical(environment_id),
        "environment_spec": b"null",
        "gymnasium_version": canonical(gymnasium.__version__),
        "packages": _packages(),
        "spaces": b"null",
        "wrappers": b"[]",
    }


def _spaces(env: Any) -> tuple[Any, Any]:
    each = "single_" if isinstance(env, VectorEnv) else ""
    return _attribute(env, f"{each}action_space"), _attribute(env, f"{each}observation_space")


def _attribute(of: Any, name: str) -> Any:
    try:
        return getattr(of, name, None)
    except Exception:  # one that is computed, and fails
        return None


def _describe_spec(env: Any) -> dict[str, Json] | None:
    spec = _attribute(env, "spec")
    if spec is None:
        return None
    name = _attribute(spec, "id")
    return {
        "id": name if isinstance(name, str) else _inline(name),
        "entry_point": _entry_point(_attribute(spec, "entry_point")),
        "kwargs": _inline(_attribute(spec, "kwargs")),
        "max_episode_steps": _inline(_attribute(spec, "max_episode_steps")),
    }


def _told(env: Any) -> dict[str, Json]:
    """What an environment says of itself by `describe_portable`, as our own environments do."""
    describe = _attribute(_innermost(env), "describe_portable")
    try:
        return dict(parse(canonical(describe()))) if callable(describe) else {}
    except Exception:  # it cannot tell now
        return {}


def _entry_point(entry: Any) -> Json:
    """An entry point as ``module:name``, as the registry of Gymnasium writes them."""
    if entry is None or isinstance(entry, str):
        return _inline(entry)
    name = _attribute(entry, "__qualname__") or type(entry).__qualname__
    module = _attribute(entry, "__module__") or type(entry).__module__
    return _inline(f"{module}:{name}")


def _inline(value: Any) -> Json:
    found = Encoding()
    return inline_arrays(tag(value, found), found.arrays)


def _wrappers(env: Any) -> list[str]:
    """The classes from the outermost wrapper to the environment itself."""
    names = [type_name(type(env))]
    while isinstance(env, _LAYERS):
        env = env.env
        names.append(type_name(type(env)))
    return names


def _innermost(env: Any) -> Any:
    while isinstance(env, _LAYERS):
        env = env.env
    return env


@cache
def _packages() -> bytes:
    versions: dict[str, Json] = {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
    }
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
    return canonical(versions)
