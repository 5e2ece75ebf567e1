"""Two versions over the same cases: which pairs differ, by which check, and what that shows."""

from envbench.comparison.comparison import Comparison, Treatment
from envbench.comparison.outcomes import WORDS, Outcomes
from envbench.comparison.results import (
    VERDICTS,
    CheckComparison,
    Disagreement,
    Pair,
    RewardComparison,
)

__all__ = [
    "VERDICTS",
    "WORDS",
    "CheckComparison",
    "Comparison",
    "Disagreement",
    "Outcomes",
    "Pair",
    "RewardComparison",
    "Treatment",
]
