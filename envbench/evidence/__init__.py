"""Plain values: portable JSON, cases, episodes and their digests. Nothing here does I/O.

`EpisodeEvidence.save_json` and `load_json` are the only functions that touch a file.
"""

from envbench.evidence.case import EvalCase
from envbench.evidence.episode import EpisodeEvidence, Initial, Step
from envbench.evidence.frames import Frame, Frames
from envbench.evidence.tagged import Missing, Named

__all__ = [
    "EpisodeEvidence",
    "EvalCase",
    "Frame",
    "Frames",
    "Initial",
    "Missing",
    "Named",
    "Step",
]
