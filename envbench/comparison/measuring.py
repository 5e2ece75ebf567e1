"""What each check came to over the pairs: counts, difference, interval and p.

Everything is counted in arrays, one entry a pair. What is compared as one is a *unit*: a pair, or
a whole case where its repeats carry no seed. Units of one source (or one case) are a *cluster*.
Where every unit is a cluster of its own, the exact McNemar test and Newcombe's interval hold;
otherwise the clusters are what was sampled, and each counts once by the mean of its units.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from envbench.checks.report import Rate
from envbench.comparison.outcomes import (
    ERROR,
    FAILED,
    LETTERS,
    PASSED,
    UNKNOWN,
    UNMATCHED,
    WORDS,
    Outcomes,
    Word,
)
from envbench.comparison.pairing import Pairing
from envbench.comparison.results import CheckComparison, Verdict
from envbench.comparison.sides import Side
from envbench.comparison.statistics import (
    bounds,
    cluster_differences,
    cluster_test,
    exact_mcnemar,
    holm,
    newcombe_interval,
    smallest_cluster_effect,
    smallest_effect,
    smallest_p,
)

POWER = 0.8
"""The power that the smallest detectable effect is for."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """One check over the pairs, before it is known how many checks are judged with it.

    The fields are those of `CheckComparison`, and what its smallest effect is worked out from.
    """

    name: str
    versions: tuple[str | None, str | None]
    pairs: int
    total: int
    clusters: int
    rates: tuple[Rate, Rate]
    table: dict[tuple[Word, Word], int]
    broke: tuple[str, ...]
    fixed: tuple[str, ...]
    difference: float | None
    interval: tuple[float, float] | None
    p: float | None
    lower: float | None
    upper: float | None
    smallest_p: float | None
    method: str
    note: str
    outcomes: Outcomes
    blocked: bool
    cluster_differences: np.ndarray | None
    """Mean difference of each cluster; None where each pair is one."""


def measure(
    pairing: Pairing, baseline: Side, candidate: Side, *, alpha: float, blocked: bool
) -> list[Measured]:
    """Every check of either side over the pairs.

    Args:
        pairing: the pairs.
        baseline: the side that the indices of `pairing.baseline` are of.
        candidate: the other one.
        alpha: intervals cover 1 − alpha.
        blocked: the sides are not comparable: counts only, no interval and no p.
    """
    units = Units.of(pairing)
    names = dict.fromkeys(check.name for check in (*baseline.checks, *candidate.checks))
    return [_measure(name, units, baseline, candidate, alpha, blocked) for name in names]


def conclude(measured: Sequence[Sequence[Measured]], alpha: float) -> list[list[CheckComparison]]:
    """Adjust the p of all checks together, and come to a verdict for each.

    Args:
        measured: the checks of one or more comparisons.
        alpha: the level of all of them together.

    Returns:
        The same lists, judged.
    """
    flat = [check for checks in measured for check in checks]
    adjusted = iter(holm([check.p for check in flat]))
    tested = sum(check.p is not None for check in flat)
    level = alpha / tested if tested else alpha
    return [
        [_concluded(check, next(adjusted), alpha, level) for check in checks] for checks in measured
    ]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Units:
    """The units of a pairing, as arrays to count with.

    Attributes:
        pairing: the pairs.
        of_pair: the unit of each pair that is in one; shape (pairs in a unit,).
        taking_part: whether a pair is in a unit; one entry a pair.
        clusters: the cluster of each unit.
        names: what to call each unit.
        are_independent: each unit is one pair and one cluster.
    """

    pairing: Pairing
    of_pair: np.ndarray
    taking_part: np.ndarray
    clusters: np.ndarray
    names: tuple[str, ...]
    are_independent: bool

    @classmethod
    def of(cls, pairing: Pairing) -> Units:
        """Number the units from 0."""
        taking_part = pairing.units >= 0
        first, of_pair = np.unique(pairing.units[taking_part], return_inverse=True)
        means = set(pairing.case_means)
        names = tuple(
            pair.case_id if pair.seed is None and pair.case_id in means else pairing.names[index]
            for index in first.tolist()
            for pair in (pairing.pairs[index],)
        )
        clusters = pairing.clusters[first]
        return cls(pairing, of_pair, taking_part, clusters, names, pairing.is_independent)

    def __len__(self) -> int:
        return len(self.names)

    def sums(self, values: np.ndarray) -> np.ndarray:
        """The sum over the pairs of each unit of values that have one entry a pair."""
        weights = values[self.taking_part].astype(float)
        return np.bincount(self.of_pair, weights=weights, minlength=len(self))

    def named(self, chosen: np.ndarray) -> tuple[str, ...]:
        """The names of the units chosen, by one entry a unit."""
        return tuple(self.names[index] for index in np.flatnonzero(chosen).tolist())


def _measure(
    name: str, units: Units, baseline: Side, candidate: Side, alpha: float, blocked: bool
) -> Measured:
    pairing = units.pairing
    versions = _version(name, baseline), _version(name, candidate)
    letters = (
        _letters(name, baseline, pairing.baseline),
        _letters(name, candidate, pairing.candidate),
    )
    ours, theirs = (_Counts.of(units, side) for side in letters)
    there = (ours.total > 0) & (theirs.total > 0)
    known = (ours.measured > 0) & (theirs.measured > 0)
    # as products, because equal shares must be equal
    gained = theirs.passed * ours.measured - ours.passed * theirs.measured
    codes = _CODE[letters[0]], _CODE[letters[1]]
    # without case means each pair is a unit, which need not be worked out
    layout = pairing.clusters, pairing.units if pairing.case_means else None
    means = cluster_differences(*codes, *layout)
    figures = _Figures(difference=_mean(means))
    if not blocked and len(means):
        figures = (
            _of_pairs(*letters, alpha) if units.are_independent else _of_clusters(means, alpha)
        )
    lower, upper = bounds(*codes, *layout) or (None, None)
    if not any((side.unknown + side.errors).any() for side in (ours, theirs)):
        lower = upper = figures.difference  # and not another rounding of it
    return Measured(
        name=name,
        versions=versions,
        pairs=int(known.sum()),
        total=int(there.sum()),
        clusters=len(means),
        rates=(ours.rate(), theirs.rate()),
        table=_table(*letters),
        broke=units.named(known & (gained < 0)),
        fixed=units.named(known & (gained > 0)),
        difference=figures.difference,
        interval=figures.interval,
        p=figures.p,
        lower=_rounded(lower),
        upper=_rounded(upper),
        smallest_p=figures.smallest_p,
        method=figures.method,
        note=_note(versions, int(there.sum()), int(known.sum()), figures.note),
        outcomes=Outcomes(letters[0].tobytes(), letters[1].tobytes()),
        blocked=blocked,
        cluster_differences=None if units.are_independent else means,
    )


def _letters(check: str, side: Side, indices: np.ndarray) -> np.ndarray:
    """What a check came to on one side, one letter a pair."""
    letters = np.full(len(indices), UNMATCHED, np.uint8)
    for column, identity in enumerate(side.checks):
        if identity.name == check:
            there = indices >= 0
            letters[there] = side.letters[indices[there], column]
    return letters


def _version(name: str, side: Side) -> str | None:
    return next((check.version for check in side.checks if check.name == name), None)


def _mean(values: np.ndarray) -> float | None:
    return _rounded(float(values.mean())) if len(values) else None


def _rounded(value: float | None) -> float | None:
    """Thirds that cancel leave 1e-17, which would pass for a difference."""
    return 0.0 if value is not None and abs(value) < 1e-12 else value


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _Counts:
    """How often one side came to what: one entry a unit."""

    passed: NDArray[np.float64]
    failed: NDArray[np.float64]
    unknown: NDArray[np.float64]
    errors: NDArray[np.float64]

    @classmethod
    def of(cls, units: Units, letters: np.ndarray) -> _Counts:
        return cls(*(units.sums(letters == letter) for letter in (PASSED, FAILED, UNKNOWN, ERROR)))

    @property
    def measured(self) -> NDArray[np.float64]:
        return self.passed + self.failed

    @property
    def total(self) -> NDArray[np.float64]:
        return self.passed + self.failed + self.unknown + self.errors

    def rate(self) -> Rate:
        return Rate(
            passed=int(self.passed.sum()),
            failed=int(self.failed.sum()),
            unknown=int(self.unknown.sum()),
            errors=int(self.errors.sum()),
            total=int(self.total.sum()),
        )


@dataclasses.dataclass(frozen=True, slots=True)
class _Figures:
    difference: float | None
    interval: tuple[float, float] | None = None
    p: float | None = None
    smallest_p: float | None = None
    method: str = ""
    note: str = ""


def _of_pairs(ours: np.ndarray, theirs: np.ndarray, alpha: float) -> _Figures:
    both, broke, fixed, neither = (
        int(np.count_nonzero((ours == before) & (theirs == after)))
        for before, after in (
            (PASSED, PASSED),
            (PASSED, FAILED),
            (FAILED, PASSED),
            (FAILED, FAILED),
        )
    )
    return _Figures(
        difference=(fixed - broke) / (both + broke + fixed + neither),
        interval=newcombe_interval(both, broke, fixed, neither, alpha=alpha),
        p=exact_mcnemar(broke, fixed),
        smallest_p=smallest_p(broke + fixed),
        method="exact McNemar test; Newcombe's interval (1998, method 10)",
        note="" if broke + fixed else "no discordant pair",
    )


def _of_clusters(means: np.ndarray, alpha: float) -> _Figures:
    found = cluster_test(means, alpha=alpha, limits=(-1, 1))
    return _Figures(
        found.difference, found.interval, found.p, found.smallest_p, found.method, found.note or ""
    )


def _table(before: np.ndarray, after: np.ndarray) -> dict[tuple[Word, Word], int]:
    counts = np.bincount(
        _NUMBER[before] * len(WORDS) + _NUMBER[after], minlength=len(WORDS) ** 2
    ).tolist()
    cells = [(first, second) for first in WORDS for second in WORDS]
    table = dict(zip(cells, counts, strict=True))
    # both sides without an episode is no pair, and both without the check no outcome
    del table["unmatched", "unmatched"]
    return table


_NUMBER = np.zeros(256, np.int64)
"""The place of the word of a letter in `WORDS`."""
_NUMBER[np.frombuffer(LETTERS, np.uint8)] = np.arange(len(LETTERS))

_CODE = np.zeros(256, np.int64)
"""What the statistics call the outcome of a letter."""
_CODE[[PASSED, FAILED, UNKNOWN, ERROR, UNMATCHED]] = [1, 0, -1, -1, -2]


def _note(versions: tuple[str | None, str | None], total: int, known: int, more: str) -> str:
    notes = []
    if None in versions:
        missing = "baseline" if versions[0] is None else "candidate"
        notes.append(f"the {missing} was not judged by it")
    elif total and not known:
        notes.append("nothing was measured on both sides of a pair")
    if more:
        notes.append(more)
    return "; ".join(notes)


def _concluded(
    check: Measured, p_adjusted: float | None, alpha: float, level: float
) -> CheckComparison:
    effect = None
    if check.p is not None:
        if check.cluster_differences is None:
            effect = _smallest_effect(check.pairs, len(check.broke) + len(check.fixed), level)
        else:
            effect = smallest_cluster_effect(check.cluster_differences, alpha=level, power=POWER)
    return CheckComparison(
        name=check.name,
        baseline_version=check.versions[0],
        candidate_version=check.versions[1],
        pairs=check.pairs,
        total=check.total,
        clusters=check.clusters,
        baseline_rate=check.rates[0],
        candidate_rate=check.rates[1],
        table=check.table,
        broke=check.broke,
        fixed=check.fixed,
        difference=check.difference,
        interval=check.interval,
        p=check.p,
        p_adjusted=p_adjusted,
        lower=check.lower,
        upper=check.upper,
        smallest_effect=effect,
        smallest_p=check.smallest_p,
        verdict=_verdict(check, p_adjusted, alpha),
        method=check.method,
        note=check.note,
        outcomes=check.outcomes,
    )


@functools.lru_cache(maxsize=1024)
def _smallest_effect(pairs: int, discordant: int, alpha: float) -> float | None:
    # checks of one comparison often have the same few numbers, and each is an enumeration
    return smallest_effect(pairs, discordant, alpha=alpha, power=POWER)


def _verdict(check: Measured, p_adjusted: float | None, alpha: float) -> Verdict:
    if check.blocked or None in check.versions:
        return "descriptive"
    lower, upper = check.lower, check.upper
    if not check.pairs or (lower is not None and upper is not None and lower < 0 < upper):
        return "indeterminate"
    if p_adjusted is None or check.difference is None:
        return "descriptive"
    if p_adjusted > alpha:
        return "no difference shown"
    return "regression" if check.difference < 0 else "improvement"
