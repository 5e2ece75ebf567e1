"""What an episode ran on: the environment's spec, wrappers and spaces, and package versions."""

from __future__ import annotations

import platform
from functools import cache
from importlib import metadata
from typing import Any

import gymnasium

from envbench.evidence.portable import Json, canonical
from envbench.evidence.spaces import SpaceCodec
from envbench.evidence.tagged import Encoding, inline_arrays, tag, type_name

PACKAGES = ("envbench", "numpy", "duckdb", "pyarrow", "orjson", "pydantic")


class Surroundings:
    """What stays the same in every episode of one environment object.

    Args:
        env: the environment as it is recorded, wrappers included.
        environment_id: the name that the caller gives it; by default its spec's id or its class.

    Attributes:
        environment_id: the environment's name.
        actions: the codec of the action space.
        observations: the codec of the observation space.
        head: canonical JSON of the keys of `.data` that speak of these.
    """

    def __init__(self, env: Any, environment_id: str | None = None) -> None:
        self.actions = SpaceCodec(_attribute(env, "action_space"))
        self.observations = SpaceCodec(_attribute(env, "observation_space"))
        spec = _describe_spec(env)
        if environment_id is None:
            environment_id = (spec or {}).get("id") or type_name(type(_innermost(env)))
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


def _attribute(env: Any, name: str) -> Any:
    try:
        return getattr(env, name, None)
    except Exception:  # a space that the environment computes and fails to
        return None


def _describe_spec(env: Any) -> dict[str, Json] | None:
    spec = _attribute(env, "spec")
    if spec is None:
        return None
    entry = getattr(spec, "entry_point", None)
    return {
        "id": getattr(spec, "id", None),
        "entry_point": entry if isinstance(entry, str) else type_name(type(entry)),
        "kwargs": _inline(dict(getattr(spec, "kwargs", {}))),
        "max_episode_steps": getattr(spec, "max_episode_steps", None),
    }


def _inline(value: Any) -> Json:
    found = Encoding()
    return inline_arrays(tag(value, found), found.arrays)


def _wrappers(env: Any) -> list[str]:
    """The classes from the outermost wrapper to the environment itself."""
    names = [type_name(type(env))]
    while isinstance(env, gymnasium.Wrapper):
        env = env.env
        names.append(type_name(type(env)))
    return names


def _innermost(env: Any) -> Any:
    while isinstance(env, gymnasium.Wrapper):
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
