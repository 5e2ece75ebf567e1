"""What the wrappers of loops have in common: loops that reset many times, of one or many."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from envbench.capture.recorder import Recorder
from envbench.capture.sink import Sink


def end_of(recorder: Recorder) -> str:
    """The ending of an episode that the environment ended; with both flags it has terminated."""
    return "terminated" if recorder.terminated else "truncated"


def seed_of(seed: Any) -> int | None:
    """The seed as evidence keeps it, None when it is none."""
    if not isinstance(seed, (int, np.integer)):
        return None
    return int(seed) if seed >= 0 else None


def drop(sink: Sink, episodes: list[str], process: int) -> None:
    """Seal what a wrapper left open when it was dropped without `close`."""
    if process == os.getpid():
        sink.drop(episodes)


def times(count: int) -> str:
    """How often something happened, in words."""
    return "once" if count == 1 else f"{count} times"
