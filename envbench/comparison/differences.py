"""What differs between two sides: the treatment, which was meant to, and anything else."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple, TypeAlias

from envbench.checks.lock import Difference as LockDifference
from envbench.checks.lock import Lock, TrialRow
from envbench.comparison.pairing import Pairing, TrialKey
from envbench.comparison.sides import Side
from envbench.evidence.portable import Json

Treatment: TypeAlias = Literal["environment", "agent", "checks"]

PARTS: Mapping[Treatment, tuple[str, ...]] = {
    "environment": (
        "environment_id",
        "environment_version",
        "environment_fingerprint",
        "spaces",
    ),
    "agent": ("agent_id",),
    "checks": ("checks",),
}
"""The parts of the lock that each treatment lets differ."""


class Difference(NamedTuple):
    """A part of the lock that differs between the two sides, with both values."""

    part: str
    baseline: Json
    candidate: Json


def differences(
    treatment: Treatment, baseline: Side, candidate: Side, pairing: Pairing
) -> tuple[tuple[Difference, ...], tuple[Difference, ...]]:
    """How the treatment differs, and what else does, over what is compared.

    Episodes without a partner are in no figure, so that their settings matter to none. But a case
    that both sides ran under no common seed is a difference in `seed`, not a gap.

    Returns:
        Two lists of `(part, baseline's value, candidate's value)`, as `Lock.diff` gives them; the
        second one blocks every verdict.
    """
    if treatment == "checks":
        changed = Lock.of(baseline.checks, ()).diff(Lock.of(candidate.checks, ()))
        return _named(changed), tuple(_evidence(baseline, candidate, pairing))
    compared = _Compared(pairing)
    ours, theirs = (
        set(compared.rows(side, indices, pairing))
        for side, indices in ((baseline, pairing.baseline), (candidate, pairing.candidate))
    )
    if _are_alike(ours, theirs):
        trial = next(iter(ours))[:-1]
        ours, theirs = ({row for row in rows if row[:-1] == trial} for rows in (ours, theirs))
    found = Lock.of(baseline.checks, ours).diff(Lock.of(candidate.checks, theirs))
    allowed = PARTS[treatment]
    return (
        _named(difference for difference in found if difference.part in allowed),
        _named(difference for difference in found if difference.part not in allowed),
    )


def _named(found: Iterable[LockDifference]) -> tuple[Difference, ...]:
    return tuple(Difference(*difference) for difference in found)


def _are_alike(ours: Collection[TrialRow], theirs: Collection[TrialRow]) -> bool:
    """Whether all trials differ in the same way, so that one of them says it for all.

    So it is in most comparisons, and 10,000 trials need not be gone through one by one.
    """
    return len({row[-1] for row in ours}) == len({row[-1] for row in theirs}) == 1 and {
        row[:-1] for row in ours
    } == {row[:-1] for row in theirs}


def _evidence(baseline: Side, candidate: Side, pairing: Pairing) -> Iterator[Difference]:
    """Episodes of one id whose evidence is not the same on both sides."""
    ours, theirs = {}, {}
    for name, index, other in zip(
        pairing.names, pairing.baseline.tolist(), pairing.candidate.tolist(), strict=True
    ):
        if index < 0 or other < 0:
            continue
        digests = baseline.episodes[index].digest, candidate.episodes[other].digest
        if digests[0] != digests[1]:
            ours[name], theirs[name] = digests
    if ours:
        yield Difference("evidence", ours, theirs)


class _Compared:
    """Which trials of the two sides are compared with each other."""

    def __init__(self, pairing: Pairing) -> None:
        self.by_means = set(pairing.case_means)
        self.trials: set[TrialKey] = set()
        seeds: tuple[dict[str, set[int | None]], ...] = ({}, {})
        for pair in pairing.pairs:
            if pair.baseline is not None and pair.candidate is not None:
                self.trials.add((pair.case_id, pair.seed, pair.repeat))
            for side, id_ in enumerate((pair.baseline, pair.candidate)):
                if id_ is not None:
                    seeds[side].setdefault(pair.case_id, set()).add(pair.seed)
        self.of_other_seeds = {
            case_id
            for case_id in seeds[0].keys() & seeds[1].keys()
            if not seeds[0][case_id] & seeds[1][case_id]
        }

    def rows(self, side: Side, indices: Iterable[int], pairing: Pairing) -> Iterator[TrialRow]:
        """The rows of one side's lock that are compared."""
        for row in _rows(side, indices, pairing):
            case_id, digest, seed, repeat, setting = row
            if seed is None and case_id in self.by_means:
                yield case_id, digest, seed, 0, setting  # its repeats are compared as one
            elif (case_id, seed, repeat) in self.trials or case_id in self.of_other_seeds:
                yield row


def _rows(side: Side, indices: Iterable[int], pairing: Pairing) -> Iterator[TrialRow]:
    if side.settings is None:
        # a report knows the settings of a trial, and not which of its attempts had which
        yield from side.lock.rows()
        return
    for index, pair in zip(indices, pairing.pairs, strict=True):
        if index >= 0:
            digest, setting = side.episodes[index].case_digest, side.settings[index]
            yield pair.case_id, digest, pair.seed, pair.repeat, setting
