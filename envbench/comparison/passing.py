"""pass@k and pass^k of both sides over the repeats of each case."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Literal

import numpy as np

from envbench.comparison.outcomes import FAILED, PASSED, UNMATCHED
from envbench.comparison.statistics import pass_at_k, pass_hat_k

if TYPE_CHECKING:
    from envbench.comparison.comparison import Comparison


@dataclasses.dataclass(frozen=True, slots=True)
class PassK:
    """What the repeats of the cases say of k attempts at one of them.

    The repeats of a case are all its episodes that are compared, of whatever seed. One that was
    not measured is left out, as neither a pass nor a failure.

    Attributes:
        check: the check.
        side: `baseline` or `candidate`.
        k: how many attempts.
        cases: cases with at least k measured repeats, over which the means below are.
        short: cases with fewer, which are left out.
        unmeasured: repeats that were not measured.
        at_least_one: pass@k, the chance that at least one of k attempts passes; None with no case.
        all: pass^k, the chance that all of k attempts pass; None with no case.
    """

    check: str
    side: Literal["baseline", "candidate"]
    k: int
    cases: int
    short: int
    unmeasured: int
    at_least_one: float | None
    all: float | None


def pass_k(comparison: Comparison, k: int | None) -> tuple[PassK, ...]:
    """pass@k and pass^k of each check and side; see `Comparison.pass_k`."""
    unmatched = set(comparison.unmatched)
    compared = np.array([pair not in unmatched for pair in comparison.pairs], bool)
    numbers: dict[str, int] = {}
    cases = np.array(
        [numbers.setdefault(pair.case_id, len(numbers)) for pair in comparison.pairs], np.int64
    )[compared]
    if k is None:
        k = fewest_repeats(comparison)
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise ValueError(f"k must be an integer from 1 on, not {k!r}")
    k = int(k)
    found = []
    for check in comparison.checks:
        for side, letters in zip(("baseline", "candidate"), check.outcomes.letters(), strict=True):
            letters = letters[compared]
            passed = np.bincount(cases[letters == PASSED], minlength=len(numbers))
            failed = np.bincount(cases[letters == FAILED], minlength=len(numbers))
            all_ = np.bincount(cases[letters != UNMATCHED], minlength=len(numbers))
            measured = passed + failed
            counts = [
                (n, c) for n, c in zip(measured.tolist(), passed.tolist(), strict=True) if n >= k
            ]
            found.append(
                PassK(
                    check=check.name,
                    side="baseline" if side == "baseline" else "candidate",
                    k=k,
                    cases=len(counts),
                    short=int(((all_ > 0) & (measured < k)).sum()),
                    unmeasured=int((all_ - measured).sum()),
                    at_least_one=_mean([pass_at_k(n, c, k) for n, c in counts]),
                    all=_mean([pass_hat_k(n, c, k) for n, c in counts]),
                )
            )
    return tuple(found)


def fewest_repeats(comparison: Comparison) -> int:
    """How many episodes every compared case has on both sides, at least 1."""
    unmatched = set(comparison.unmatched)
    counts: dict[str, list[int]] = {}
    for pair in comparison.pairs:
        if pair not in unmatched:
            sides = counts.setdefault(pair.case_id, [0, 0])
            sides[0] += pair.baseline is not None
            sides[1] += pair.candidate is not None
    return max(1, min((min(sides) for sides in counts.values()), default=1))


def _mean(values: list[float]) -> float | None:
    return float(np.mean(values)) if values else None
