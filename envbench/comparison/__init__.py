"""Two versions over the same cases: which pairs differ, by which check, and what that shows."""

from envbench.comparison.comparing import compare, compare_many
from envbench.comparison.comparison import Comparison, Comparisons
from envbench.comparison.differences import Treatment
from envbench.comparison.outcomes import WORDS, Outcomes
from envbench.comparison.pairing import PairingError
from envbench.comparison.passing import PassK
from envbench.comparison.results import (
    VERDICTS,
    CheckComparison,
    Disagreement,
    Pair,
    RewardComparison,
)
from envbench.comparison.selection import Episodes
from envbench.comparison.statistics import pass_at_k, pass_hat_k

__all__ = [
    "VERDICTS",
    "WORDS",
    "CheckComparison",
    "Comparison",
    "Comparisons",
    "Disagreement",
    "Episodes",
    "Outcomes",
    "Pair",
    "PairingError",
    "PassK",
    "RewardComparison",
    "Treatment",
    "compare",
    "compare_many",
    "pass_at_k",
    "pass_hat_k",
]
