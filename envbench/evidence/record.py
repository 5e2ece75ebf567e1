"""An episode as it is kept: canonical JSON in columns, states by hash, large arrays as bytes."""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

from envbench.evidence.portable import canonical
from envbench.evidence.tagged import TAG


@dataclass(slots=True)
class StepColumns:
    """Consecutive steps, one list a field, all of one length.

    JSON fields are canonical bytes in tagged form, large arrays by reference. A step without a
    transition (refused, raised, interrupted) has `info` None.

    Attributes:
        action: the action in its space's batched form, None when it was refused.
        observation: the observation after the step, in the same form.
        reward: the reward; None in a transition means that it was no number.
        terminated: the flag as returned; None in a transition means that it was no boolean.
        truncated: likewise.
        info: the info, JSON null when it was no dict.
        state_hash: SHA-256 of the state read after the step, None when none was seen.
        error: what went wrong in the step, None when nothing did.
        started_at: microseconds since 1970 UTC.
        step_us: microseconds that the environment took.
        observe_us: microseconds that the observer took.
    """

    action: list[bytes | None] = field(default_factory=list)
    observation: list[bytes | None] = field(default_factory=list)
    reward: list[float | None] = field(default_factory=list)
    terminated: list[bool | None] = field(default_factory=list)
    truncated: list[bool | None] = field(default_factory=list)
    info: list[bytes | None] = field(default_factory=list)
    state_hash: list[str | None] = field(default_factory=list)
    error: list[bytes | None] = field(default_factory=list)
    started_at: list[int | None] = field(default_factory=list)
    step_us: list[float | None] = field(default_factory=list)
    observe_us: list[float | None] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.info)

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The steps one by one, fields in the order above."""
        return zip(*(getattr(self, name) for name in STEP_FIELDS), strict=True)

    def extend(self, other: StepColumns) -> None:
        """Append the steps of another block."""
        for name in STEP_FIELDS:
            getattr(self, name).extend(getattr(other, name))


STEP_FIELDS = tuple(column.name for column in fields(StepColumns))


class Source(Protocol):
    """Where the evidence of one sealed episode is read from: memory, or a store."""

    @property
    def initial_state(self) -> str | None:
        """Hash of the state after reset, None when it was not seen."""

    @property
    def final_state(self) -> str | None:
        """Hash of the last state, None when it was not seen."""

    @property
    def n_steps(self) -> int:
        """Number of attempted steps that are kept."""

    @property
    def digest(self) -> str:
        """The recorded digest of all evidence."""

    @property
    def trajectory_digest(self) -> str:
        """The recorded digest of what happened."""

    def head(self) -> Mapping[str, bytes]:
        """Canonical JSON of every key of `.data` but the steps, states and digests.

        ``frames`` is in it when the episode was rendered, as `digest.Shown.summary` gives it.
        """

    def steps(self) -> Iterable[StepColumns]:
        """The steps in blocks, in order."""

    def unseen_steps(self) -> list[int]:
        """The steps after which no state was seen."""

    def state(self, digest: str) -> bytes:
        """The canonical JSON of a state."""

    def array(self, digest: str) -> bytes:
        """The content of a large array, in C order."""

    def frame_hashes(self) -> Sequence[str | None]:
        """The SHA-256 of each frame, of the reset first; None where there is none."""

    def frame_contents(self, digests: Sequence[str]) -> dict[str, bytes]:
        """The contents of frames by SHA-256, PNG files or UTF-8; what is missing is left out."""


@dataclass(slots=True)
class EncodedEpisode:
    """A sealed episode in memory; a `Source`.

    Attributes:
        shown: the SHA-256 of each frame, of the reset first; empty when it was not rendered.
        frames: the contents of these by SHA-256.
    """

    parts: dict[str, bytes]
    columns: StepColumns
    states: dict[str, bytes]
    arrays: dict[str, bytes]
    initial_state: str | None
    final_state: str | None
    digest: str
    trajectory_digest: str
    shown: Sequence[str | None] = ()
    frames: dict[str, bytes] = field(default_factory=dict)

    @property
    def n_steps(self) -> int:
        """Number of attempted steps."""
        return len(self.columns)

    def head(self) -> dict[str, bytes]:
        """Canonical JSON of every key of `.data` but the steps, states and digests."""
        return self.parts

    def steps(self) -> Iterable[StepColumns]:
        """All steps as one block."""
        return [self.columns]

    def unseen_steps(self) -> list[int]:
        """The steps after which no state was seen."""
        return [i for i, digest in enumerate(self.columns.state_hash, 1) if digest is None]

    def state(self, digest: str) -> bytes:
        """The canonical JSON of a state."""
        return self.states[digest]

    def array(self, digest: str) -> bytes:
        """The content of a large array, in C order."""
        return self.arrays[digest]

    def frame_hashes(self) -> Sequence[str | None]:
        """The SHA-256 of each frame, of the reset first; None where there is none."""
        return self.shown or [None] * (self.n_steps + 1)

    def frame_contents(self, digests: Sequence[str]) -> dict[str, bytes]:
        """The contents of frames by SHA-256."""
        return {digest: self.frames[digest] for digest in digests if digest in self.frames}


def reward_json(reward: float | None) -> bytes:
    """A reward as canonical JSON; NaN and infinities are tagged."""
    if reward is None:
        return b"null"
    if reward - reward == 0.0:  # finite, and quicker than asking
        return b"%a" % reward
    name = "nan" if math.isnan(reward) else "inf" if reward > 0 else "-inf"
    return canonical({TAG: "float", "value": name})


_RANDOM: deque[bytes] = deque()


def new_id() -> str:
    """A UUID of version 7 (RFC 9562): unique, and sorted by time of creation.

    Short episodes begin in one millisecond, so its fraction takes the place of the first
    random bits (method 3 of section 6.2).
    """
    milliseconds, nanoseconds = divmod(time.time_ns(), 1_000_000)
    moment = f"{milliseconds:012x}"
    fraction = (nanoseconds << 12) // 1_000_000
    try:
        random = _RANDOM.popleft()
    except IndexError:
        random = _draw()
    digits = random.hex()
    variant = "89ab"[random[0] & 3]
    return f"{moment[:8]}-{moment[8:]}-7{fraction:03x}-{variant}{digits[1:4]}-{digits[4:]}"


def _draw() -> bytes:
    """Eight random bytes, and many more for the next ids.

    Each call of the system lets another thread have the interpreter, and it may keep it for
    milliseconds: for an id in a loop of steps that is long.
    """
    content = os.urandom(8 * 256)
    pieces = [content[i : i + 8] for i in range(0, len(content), 8)]
    _RANDOM.extend(pieces[1:])
    return pieces[0]


if hasattr(os, "register_at_fork"):
    # or two processes would draw the same
    os.register_at_fork(after_in_child=_RANDOM.clear)
