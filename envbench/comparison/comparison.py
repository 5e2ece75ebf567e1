"""`Comparison`: two versions over the same cases, and everything that the figures rest on."""

from __future__ import annotations

import dataclasses
from typing import Literal, TypeAlias

from envbench.checks.lock import Difference
from envbench.comparison.results import CheckComparison, Pair, RewardComparison

Treatment: TypeAlias = Literal["environment", "agent", "checks"]


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """Two sides over the same cases; made by `compare`.

    Attributes:
        treatment: what was meant to differ.
        baseline_name: what to call the baseline.
        candidate_name: what to call the candidate.
        alpha: the level of the verdicts; intervals cover 1 − alpha.
        changed: how the treatment differs, as `(part, baseline, candidate)`.
        blocked: what else differs, so that no verdict is given: `(part, baseline, candidate)`.
        pairs: every pair, and every episode without a partner.
        case_means: the cases whose repeats carry no seed, so that case means are compared.
        checks: what each check came to, in the order of the baseline's checks.
        reward: the reward beside the checks; None when no store was there to read it from.
        notes: what a reader must know of the whole comparison.
    """

    treatment: Treatment
    baseline_name: str
    candidate_name: str
    alpha: float
    changed: tuple[Difference, ...]
    blocked: tuple[Difference, ...]
    pairs: tuple[Pair, ...]
    case_means: tuple[str, ...]
    checks: tuple[CheckComparison, ...]
    reward: RewardComparison | None
    notes: tuple[str, ...]

    @property
    def comparable(self) -> bool:
        """Whether nothing but the treatment differs."""
        return not self.blocked

    @property
    def unmatched(self) -> tuple[Pair, ...]:
        """The episodes without a partner, which are in no figure."""
        means = set(self.case_means)
        return tuple(
            pair
            for pair in self.pairs
            if (pair.baseline is None or pair.candidate is None)
            and not (pair.seed is None and pair.case_id in means)
        )

    @property
    def exit_code(self) -> int:
        """For scripts: 0 no regression, 1 a regression, 2 not comparable or indeterminate."""
        verdicts = {check.verdict for check in self.checks}
        if "regression" in verdicts:
            return 1
        return 2 if not verdicts or verdicts & {"indeterminate", "descriptive"} else 0
