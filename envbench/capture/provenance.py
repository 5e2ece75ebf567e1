"""`Provenance`: who ran an episode, on what version, and which attempt it is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

from envbench.evidence.case import require_name
from envbench.evidence.portable import Json, canonical, parse
from envbench.evidence.record import new_id


@dataclass(frozen=True, slots=True)
class Provenance:
    """What the caller knows of an episode that the environment does not.

    These are the caller's assertions; nothing here is discovered.

    Args:
        agent_id: the agent or policy, with its version.
        environment_version: the version of the environment's code or data.
        run_id: names the run that the episode belongs to; made up once a process by default.
        repeat: number of the repeat of the same case, from 0.
        previous: `episode_id` of the failed attempt that this one recovers from.
        labels: further names and values, as portable JSON.

    Raises:
        TypeError: when an argument is of the wrong type.
        ValueError: when a name is blank, `repeat` negative or `labels` not portable.
    """

    agent_id: str | None = None
    environment_version: str | None = None
    run_id: str | None = None
    repeat: int = 0
    previous: str | None = None
    labels: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("agent_id", "environment_version", "run_id", "previous"):
            if getattr(self, name) is not None:
                require_name(name, getattr(self, name))
        object.__setattr__(self, "repeat", require_count("repeat", self.repeat, 0))
        if not isinstance(self.labels, Mapping):
            raise TypeError(f"labels must be a mapping, not {type(self.labels).__name__}")
        try:
            labels = parse(canonical(dict(self.labels)))
        except ValueError as error:
            raise ValueError(f"labels must be portable JSON: {error}") from None
        object.__setattr__(self, "labels", labels)


def require_count(argument: str, value: Any, minimum: int) -> int:
    """An integer from `minimum`; NumPy's integers are fine, a bool is not.

    Raises:
        TypeError: when it is no integer.
        ValueError: when it is smaller.
    """
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{argument} must be an integer, not {value!r}")
    if value < minimum:
        raise ValueError(f"{argument} must be at least {minimum}, not {value}")
    return int(value)


def with_run(provenance: Provenance | None) -> Provenance:
    """The provenance with a run: its own, or the one that this process makes up once."""
    if provenance is None:
        provenance = Provenance()
    if not isinstance(provenance, Provenance):
        raise TypeError(f"provenance must be a Provenance, not {type(provenance).__name__}")
    return (
        provenance if provenance.run_id else replace(provenance, run_id=_process_run(os.getpid()))
    )


@cache
def _process_run(process: int) -> str:
    return new_id()
