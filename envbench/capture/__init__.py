"""Gymnasium in, evidence out: `capture_episode` for one task, wrappers for loops."""

from __future__ import annotations

from envbench.capture.guard import InvalidAction, OutOfOrder, StepLimit
from envbench.capture.lifecycle import capture_episode
from envbench.capture.provenance import Provenance
from envbench.capture.sink import WriteFailed, observe
from envbench.capture.vector import VectorCaptureWrapper, capture_vector
from envbench.capture.wrapper import EpisodeCaptureWrapper, capture_episodes

__all__ = [
    "EpisodeCaptureWrapper",
    "InvalidAction",
    "OutOfOrder",
    "Provenance",
    "StepLimit",
    "VectorCaptureWrapper",
    "WriteFailed",
    "capture_episode",
    "capture_episodes",
    "capture_vector",
    "observe",
]
