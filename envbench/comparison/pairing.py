"""Pairing: which episode of the baseline goes with which of the candidate.

The partner of an episode has the same case, seed and repeat. A recovery is a further attempt at
the trial of the episode it recovers, not a repeat of it. Where the repeats of a case carry no
seed, nothing says which goes with which, so the case is compared as a whole, by its means.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

import numpy as np

from envbench.checks.attempts import Attempts
from envbench.checks.lines import counted
from envbench.checks.lock import SETTINGS
from envbench.checks.rows import JudgedEpisode
from envbench.comparison.results import Pair
from envbench.comparison.sides import Side
from envbench.evidence.portable import canonical, parse

Attempt: TypeAlias = Literal["first", "last"]

TrialKey: TypeAlias = tuple[str, int | None, int]
"""Case id, seed and repeat: what the two episodes of a pair have in common."""


class PairingError(ValueError):
    """The episodes of a side cannot be told apart, or not be put in their place."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Pairing:
    """The pairs of two sides, and what the statistics need to know of them.

    All arrays have one entry a pair.

    Attributes:
        pairs: the pairs in order of case, seed and repeat, those without a partner included.
        baseline: index of the baseline's episode, −1 for none.
        candidate: index of the candidate's episode, −1 for none.
        units: what is compared as one: the number of the pair, or of its case where case means
            are compared; −1 for an episode without a partner.
        clusters: number of the source, or of the case where no source is said.
        case_means: the cases that are compared by their means.
        names: a distinct name for each pair: its case, with seed and repeat where they are needed.
        notes: what a reader must know of the pairing.
    """

    pairs: tuple[Pair, ...]
    baseline: np.ndarray
    candidate: np.ndarray
    units: np.ndarray
    clusters: np.ndarray
    case_means: tuple[str, ...]
    names: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def matched(self) -> np.ndarray:
        """Whether the pair has an episode on both sides."""
        return (self.baseline >= 0) & (self.candidate >= 0)

    @property
    def is_independent(self) -> bool:
        """Whether each pair is a cluster of its own, and none is compared by case means."""
        clusters = self.clusters[self.units >= 0]
        return not self.case_means and len(np.unique(clusters)) == len(clusters)


def pair_by_trial(baseline: Side, candidate: Side, attempt: Attempt) -> Pairing:
    """Pair two runs by case, seed and repeat.

    Raises:
        PairingError: when a side has two episodes of one trial, or recoveries whose place is
            unclear, naming them.
    """
    ours, theirs = _trials(baseline, attempt), _trials(candidate, attempt)
    keys = sorted(ours.keys() | theirs.keys(), key=_order)
    notes = _left_out((baseline, candidate), (len(ours), len(theirs)), attempt)
    return _paired(
        baseline,
        candidate,
        [(key, ours.get(key), theirs.get(key)) for key in keys],
        _by_means(ours, theirs),
        notes,
    )


def pair_by_episode(baseline: Side, candidate: Side, attempt: Attempt) -> Pairing:
    """Pair the same evidence under two versions of the checks: each episode with itself.

    Raises:
        PairingError: when recovery links form a loop.
    """
    ours, theirs = (
        {side.episodes[index].episode_id: index for index in _attempts(side, attempt)}
        for side in (baseline, candidate)
    )
    rows = []
    for id_ in ours.keys() | theirs.keys():
        index, other = ours.get(id_), theirs.get(id_)
        key = _key(_one(baseline, candidate, index, other))
        rows.append((key, index, other, id_))
    rows.sort(key=lambda row: (_order(row[0]), row[3]))
    notes = _left_out((baseline, candidate), (len(ours), len(theirs)), attempt)
    return _paired(baseline, candidate, [row[:3] for row in rows], frozenset(), notes)


def _key(episode: JudgedEpisode) -> TrialKey:
    return episode.case_id, episode.seed, episode.repeat


def _order(key: TrialKey) -> tuple[str, bool, int, int]:
    case_id, seed, repeat = key
    return case_id, seed is not None, seed or 0, repeat


def _one(baseline: Side, candidate: Side, index: int | None, other: int | None) -> JudgedEpisode:
    """One of the episodes of a pair, the baseline's where there is one."""
    if index is not None:
        return baseline.episodes[index]
    assert other is not None
    return candidate.episodes[other]


def _trials(side: Side, attempt: Attempt) -> dict[TrialKey, int]:
    """The index of the episode that stands for each trial of one side."""
    _refuse_misplaced(side, attempt)
    chosen = _attempts(side, attempt)
    found: dict[TrialKey, list[int]] = defaultdict(list)
    for index, first in chosen.items():
        # a recovery may have been made with another seed: it is an attempt at its first's trial
        found[_key(first)].append(index)
    _refuse_duplicates(side, found)
    return {key: indices[0] for key, indices in found.items()}


def _attempts(side: Side, attempt: Attempt) -> dict[int, JudgedEpisode]:
    """The index of the attempt asked for at each trial of one side, and the first attempt at it."""
    if all(episode.previous is None for episode in side.episodes):
        return dict(enumerate(side.episodes))
    attempts = Attempts.of(side.episodes)
    if attempts.looped:
        raise PairingError(
            f"{side.role}: the recovery links of {_ids(attempts.looped)} form a loop, which has no "
            "first and no last attempt"
        )
    superseded = {episode.episode_id for episode in attempts.superseded}
    first = _first_attempts(side.episodes)
    return {
        index: first[episode.episode_id]
        for index, episode in enumerate(side.episodes)
        if (
            first[episode.episode_id] is episode
            if attempt == "first"
            else episode.episode_id not in superseded
        )
    }


def _first_attempts(episodes: Sequence[JudgedEpisode]) -> dict[str, JudgedEpisode]:
    """The first attempt, among these, of the chain of recoveries that each episode belongs to."""
    known = {episode.episode_id: episode for episode in episodes}
    first: dict[str, JudgedEpisode] = {}
    for episode in episodes:
        chain = [episode]
        while (previous := _recovered(chain[-1], known)) is not None:
            chain.append(previous)
            if previous.episode_id in first:
                break
        root = first.get(chain[-1].episode_id, chain[-1])
        first |= dict.fromkeys((link.episode_id for link in chain), root)
    return first


def _recovered(episode: JudgedEpisode, known: Mapping[str, JudgedEpisode]) -> JudgedEpisode | None:
    """The episode that one is a recovery of: of the same case, under the same definition."""
    previous = known.get(episode.previous) if episode.previous is not None else None
    if previous is None or previous.case_digest != episode.case_digest:
        return None
    return previous if previous.case_id == episode.case_id else None


def _refuse_misplaced(side: Side, attempt: Attempt) -> None:
    role = side.role
    recoveries = [episode for episode in side.episodes if episode.previous is not None]
    attempts = Attempts.of(side.episodes if recoveries else ())
    if attempts.foreign:
        episode = attempts.foreign[0]
        raise PairingError(
            f"{role}: episode {episode.episode_id} of case {episode.case_id!r} is said to be a "
            f"recovery of {episode.previous}, which answers another case or another definition of "
            f"it{_and_more(attempts.foreign)}"
        )
    if attempts.orphans and attempt == "first":
        episode = attempts.orphans[0]
        raise PairingError(
            f"{role}: episode {episode.episode_id} of case {episode.case_id!r} is a recovery of "
            f"{episode.previous}, which is not among the episodes selected"
            f"{_and_more(attempts.orphans)}: select the first attempts too, or compare the last "
            "ones, with attempt='last'"
        )


def _and_more(episodes: Sequence[JudgedEpisode]) -> str:
    return f" ({len(episodes) - 1} more like it)" if len(episodes) > 1 else ""


def _refuse_duplicates(side: Side, found: Mapping[TrialKey, Sequence[int]]) -> None:
    twice = {key: indices for key, indices in found.items() if len(indices) > 1}
    if not twice:
        return
    shown = "; ".join(
        f"{_trial_name(key)}: {_ids(side.episodes[i] for i in indices)}"
        for key, indices in list(twice.items())[:3]
    )
    more = f"; and {len(twice) - 3} trials more" if len(twice) > 3 else ""
    raise PairingError(
        f"{side.role}: {counted(len(twice), 'trial')} with more than one episode ({shown}{more})"
        f"{_unlike(side, next(iter(twice.values())))}. Narrow the selection, number repeats with "
        "Provenance(repeat=), and link recoveries with Provenance(previous=)"
    )


def _unlike(side: Side, indices: Sequence[int]) -> str:
    """In which settings the episodes of one trial differ, which is how to tell them apart."""
    if side.settings is None:
        return ""
    settings = [parse(side.settings[index]) for index in indices]
    parts = [
        part for part in SETTINGS if len({canonical(setting[part]) for setting in settings}) > 1
    ]
    return f"; the first ones differ in {', '.join(parts)}" if parts else ""


def _trial_name(key: TrialKey) -> str:
    case_id, seed, repeat = key
    return f"case {case_id!r}, seed {'none' if seed is None else seed}, repeat {repeat}"


def _ids(episodes: Iterable[JudgedEpisode]) -> str:
    ids = [episode.episode_id for episode in episodes]
    return ", ".join(ids[:3]) + (f" and {len(ids) - 3} more" if len(ids) > 3 else "")


def _left_out(sides: tuple[Side, Side], kept: tuple[int, int], attempt: Attempt) -> Iterator[str]:
    numbers = [len(side.episodes) - number for side, number in zip(sides, kept, strict=True)]
    why = f"left out, because the {attempt} attempt at a trial is compared"
    if numbers[0] and numbers[0] == numbers[1]:
        yield f"{counted(numbers[0], 'episode')} of each side {why}"
        return
    for side, number in zip(sides, numbers, strict=True):
        if number:
            yield f"{side.role}: {counted(number, 'episode')} {why}"


def _by_means(ours: Iterable[TrialKey], theirs: Iterable[TrialKey]) -> frozenset[str]:
    """The cases on both sides of which one has several episodes without a seed."""
    counts = [
        Counter(case_id for case_id, seed, _ in keys if seed is None) for keys in (ours, theirs)
    ]
    shared = counts[0].keys() & counts[1].keys()
    return frozenset(case_id for case_id in shared if max(c[case_id] for c in counts) > 1)


def _paired(
    baseline: Side,
    candidate: Side,
    rows: Sequence[tuple[TrialKey, int | None, int | None]],
    by_means: frozenset[str],
    notes: Iterable[str],
) -> Pairing:
    pairs, units, clusters = [], [], []
    unit_of: dict[str, int] = {}
    cluster_of: dict[tuple[str, str], int] = {}
    for number, (key, ours, theirs) in enumerate(rows):
        case_id, seed, repeat = key
        ids = [
            None if index is None else side.episodes[index].episode_id
            for side, index in ((baseline, ours), (candidate, theirs))
        ]
        one = _one(baseline, candidate, ours, theirs)
        pairs.append(Pair(case_id, one.source_id, one.tags, seed, repeat, *ids))
        if seed is None and case_id in by_means:
            units.append(unit_of.setdefault(case_id, number))
        else:
            units.append(-1 if None in (ours, theirs) else number)
        source = ("case", case_id) if one.source_id is None else ("source", one.source_id)
        clusters.append(cluster_of.setdefault(source, len(cluster_of)))
    return Pairing(
        pairs=tuple(pairs),
        baseline=_indices(row[1] for row in rows),
        candidate=_indices(row[2] for row in rows),
        units=np.array(units, np.int64),
        clusters=np.array(clusters, np.int64),
        case_means=tuple(sorted(by_means)),
        names=pair_names(pairs),
        notes=tuple(notes),
    )


def _indices(values: Iterable[int | None]) -> np.ndarray:
    return np.array([-1 if value is None else value for value in values], np.int64)


def pair_names(pairs: Sequence[Pair]) -> tuple[str, ...]:
    """A distinct name for each pair, no longer than it must be."""
    of_case = Counter(pair.case_id for pair in pairs)
    seeds: dict[str, set[int | None]] = defaultdict(set)
    repeats: dict[str, set[int]] = defaultdict(set)
    for pair in pairs:
        if of_case[pair.case_id] > 1:
            seeds[pair.case_id].add(pair.seed)
            repeats[pair.case_id].add(pair.repeat)
    names = []
    for pair in pairs:
        where = []
        if len(seeds.get(pair.case_id, ())) > 1:
            where.append("no seed" if pair.seed is None else f"seed {pair.seed}")
        if len(repeats.get(pair.case_id, ())) > 1:
            where.append(f"repeat {pair.repeat}")
        names.append(f"{pair.case_id} ({', '.join(where)})" if where else pair.case_id)
    taken = Counter(names)
    return tuple(
        name if taken[name] == 1 else f"{name} (episode {pair.baseline or pair.candidate})"
        for name, pair in zip(names, pairs, strict=True)
    )
