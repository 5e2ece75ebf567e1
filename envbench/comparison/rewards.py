"""The reward beside the checks: its difference, and where it speaks against a check.

Reward is what the environment paid, and success is what a check found. No verdict rests on the
reward; it is shown because a version that pays more and does worse is a finding of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from envbench.checks.lines import counted
from envbench.comparison.measuring import Units
from envbench.comparison.outcomes import FAILED, PASSED
from envbench.comparison.pairing import Pairing
from envbench.comparison.results import CheckComparison, Disagreement, RewardComparison
from envbench.comparison.sides import Side
from envbench.comparison.statistics import cluster_interval
from envbench.comparison.statistics.units import means_by


def compare_rewards(
    pairing: Pairing,
    baseline: Side,
    candidate: Side,
    checks: Sequence[CheckComparison],
    *,
    alpha: float,
    blocked: bool,
) -> RewardComparison | None:
    """The difference in return, and the pairs in which it disagrees with a check.

    Returns:
        None when the return of no episode could be looked up.
    """
    if baseline.rewards is None or candidate.rewards is None:
        return None
    units = Units.of(pairing)
    before = _rewards(baseline.rewards, pairing.baseline)
    after = _rewards(candidate.rewards, pairing.candidate)
    known = [units.sums(np.isfinite(rewards)) for rewards in (before, after)]
    with np.errstate(over="ignore"):
        sums = [units.sums(np.where(np.isfinite(rs), rs, 0)) for rs in (before, after)]
    measured = (known[0] > 0) & (known[1] > 0)
    pairs = int(measured.sum())
    note = ""
    if pairs < len(units):
        note = f"{len(units) - pairs} of {counted(len(units), 'pair')} without a finite return"
    if not pairs:
        return RewardComparison(0, len(units), None, None, None, None, (), 0, note)
    with np.errstate(over="ignore", invalid="ignore"):
        means = [sums[side][measured] / known[side][measured] for side in (0, 1)]
        clusters = means_by(units.clusters[measured], means[1] - means[0])
        figures = [float(mean) for mean in (means[0].mean(), means[1].mean(), clusters.mean())]
        if not np.isfinite([*clusters, *figures]).all():
            return RewardComparison(pairs, len(units), None, None, None, None, (), 0, _TOO_LARGE)
    interval = None
    if not blocked:
        found = cluster_interval(clusters, alpha=alpha)
        interval = found.interval if found else None
        alone = "all pairs are of one cluster: no interval can be had from it"
        note = "; ".join(filter(None, (note, found.note if found else alone)))
    against, unseen = _flips(pairing, before, after, checks)
    return RewardComparison(
        pairs=pairs,
        total=len(units),
        baseline_mean=figures[0],
        candidate_mean=figures[1],
        difference=figures[2],
        interval=interval,
        disagreements=against,
        unseen=unseen,
        note=note,
    )


_TOO_LARGE = "the returns are too large to be subtracted"


def _rewards(rewards: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """The return of one side, one entry a pair; NaN where there is no episode or no return."""
    found = np.full(len(indices), np.nan)
    found[indices >= 0] = rewards[indices[indices >= 0]]
    return found


def _flips(
    pairing: Pairing, before: np.ndarray, after: np.ndarray, checks: Sequence[CheckComparison]
) -> tuple[tuple[Disagreement, ...], int]:
    """Where the one that failed a check earned more, and how many flips earned the same."""
    # the repeats of a case compared by its means are no pairs
    means = set(pairing.case_means)
    is_pair = np.isfinite(before) & np.isfinite(after)
    is_pair &= np.array([p.seed is not None or p.case_id not in means for p in pairing.pairs], bool)
    rose, fell = is_pair & (after > before), is_pair & (after < before)
    against: list[Disagreement] = []
    unseen = 0
    for check in checks:
        ours, theirs = check.outcomes.letters()
        broke = is_pair & (ours == PASSED) & (theirs == FAILED)
        fixed = is_pair & (ours == FAILED) & (theirs == PASSED)
        unseen += int(np.count_nonzero((broke | fixed) & ~rose & ~fell))
        for index in np.flatnonzero((broke & rose) | (fixed & fell)).tolist():
            pair = pairing.pairs[index]
            assert pair.baseline is not None
            assert pair.candidate is not None
            against.append(
                Disagreement(
                    check=check.name,
                    name=pairing.names[index],
                    baseline=pair.baseline,
                    candidate=pair.candidate,
                    baseline_passed=bool(broke[index]),
                    baseline_reward=float(before[index]),
                    candidate_reward=float(after[index]),
                )
            )
    return tuple(against), unseen
