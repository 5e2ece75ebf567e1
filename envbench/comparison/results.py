"""The rows of a comparison: its pairs, what each check came to, and the reward beside them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal, TypeAlias

from envbench.checks.report import Rate
from envbench.comparison.outcomes import Outcomes, Word

Verdict: TypeAlias = Literal[
    "regression", "improvement", "no difference shown", "indeterminate", "descriptive"
]

VERDICTS: tuple[Verdict, ...] = (
    "regression",
    "indeterminate",
    "descriptive",
    "improvement",
    "no difference shown",
)
"""The verdicts, the one that asks for a look first."""


@dataclasses.dataclass(frozen=True, slots=True)
class Pair:
    """Two episodes of one trial, one of each side, or one episode without a partner.

    Attributes:
        case_id: the case that both answer.
        source_id: where the case came from, None when it was not said.
        tags: the slices that the case belongs to.
        seed: the seed of the reset, None where none was given.
        repeat: number of the repeat, from 0.
        baseline: id of the baseline's episode, None when it has none.
        candidate: id of the candidate's episode, None when it has none.
    """

    case_id: str
    source_id: str | None
    tags: tuple[str, ...]
    seed: int | None
    repeat: int
    baseline: str | None
    candidate: str | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CheckComparison:
    """What the two sides came to by one check. Figures that could not be had are None, never NaN.

    Differences are candidate minus baseline, as shares of 1: −0.1 is ten points fewer passed.

    Attributes:
        name: the check.
        baseline_version: its version there, None when the baseline was not judged by it.
        candidate_version: its version there, None when the candidate was not judged by it.
        pairs: pairs in which both sides passed or failed. Where repeats carry no seed, a case is
            one pair.
        total: all pairs with an episode on both sides, measured or not.
        clusters: how many sources (or cases, where no source is said) the measured pairs are of.
        baseline_rate: how often the baseline's episodes passed, failed, …, of those compared.
        candidate_rate: the same of the candidate's.
        table: how many pairs have each outcome of the baseline (first) and of the candidate; all
            24 combinations are there.
        broke: names of the pairs that passed and then failed; of a case compared by its mean, of
            those whose mean fell.
        fixed: the same the other way.
        difference: the difference of the pass rates over the measured pairs, each cluster counted
            once; None when nothing was measured.
        interval: its 95% interval (or of 1 − alpha).
        p: two-sided, of the hypothesis that the sides do not differ.
        p_adjusted: p after Holm's method over all checks that have one.
        lower: the difference if everything that was not measured went against the candidate.
        upper: the difference if everything that was not measured went for the candidate.
        smallest_effect: the smallest difference that this number of pairs would show with a
            power of 80%, at the share of discordant pairs seen.
        smallest_p: the smallest p that this number of discordant pairs (or clusters) can give.
        verdict: `regression`, `improvement`, `no difference shown`, `indeterminate` (what was not
            measured could turn the difference either way, or nothing was measured), or
            `descriptive` (the sides are not comparable, or no p can be had).
        method: how p and interval were had; empty when they were not.
        note: what a reader must know beside the figures; empty when nothing.
        outcomes: what each pair came to, in the order of `Comparison.pairs`.
    """

    name: str
    baseline_version: str | None
    candidate_version: str | None
    pairs: int
    total: int
    clusters: int
    baseline_rate: Rate
    candidate_rate: Rate
    table: Mapping[tuple[Word, Word], int]
    broke: tuple[str, ...]
    fixed: tuple[str, ...]
    difference: float | None
    interval: tuple[float, float] | None
    p: float | None
    p_adjusted: float | None
    lower: float | None
    upper: float | None
    smallest_effect: float | None
    smallest_p: float | None
    verdict: Verdict
    method: str
    note: str
    outcomes: Outcomes


@dataclasses.dataclass(frozen=True, slots=True)
class Disagreement:
    """A pair in which the episode that failed a check earned more than the one that passed it.

    Attributes:
        check: the check.
        name: the pair.
        baseline: id of the baseline's episode.
        candidate: id of the candidate's episode.
        baseline_passed: whether the baseline's episode passed; the candidate's did the opposite.
        baseline_reward: return of the baseline's episode.
        candidate_reward: return of the candidate's episode.
    """

    check: str
    name: str
    baseline: str
    candidate: str
    baseline_passed: bool
    baseline_reward: float
    candidate_reward: float


@dataclasses.dataclass(frozen=True, slots=True)
class RewardComparison:
    """The difference in reward: a secondary figure, on which no verdict rests.

    Attributes:
        pairs: pairs with a finite return on both sides.
        total: all pairs with an episode on both sides.
        baseline_mean: mean return of the baseline's episodes in those pairs.
        candidate_mean: mean return of the candidate's episodes in those pairs.
        difference: candidate minus baseline, each cluster counted once.
        interval: its 95% interval (or of 1 − alpha), by a bootstrap over clusters.
        disagreements: where the reward speaks against a check, one row a check and pair.
        unseen: how many further flips of a check the reward does not show: both sides earned the
            same.
        note: what a reader must know beside the figures; empty when nothing.
    """

    pairs: int
    total: int
    baseline_mean: float | None
    candidate_mean: float | None
    difference: float | None
    interval: tuple[float, float] | None
    disagreements: tuple[Disagreement, ...]
    unseen: int
    note: str
