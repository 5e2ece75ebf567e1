"""The lock: what must be equal for two reports to be comparable.

A report holds many episodes, and what may differ between them (the seed of one case, the options
of another) must not be mixed up. So a lock keeps one row for each trial, that is each distinct
case, seed and repeat, and says under which settings it ran. Two locks are compared trial by trial
where both have the trial, else case by case.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from envbench.checks.shape import ANY, Kinds, at, expect, expect_schema, read_object
from envbench.evidence.portable import Json, canonical, parse

SCHEMA = "envbench.lock/v1"

SETTINGS = (
    "observer_id",
    "gymnasium_version",
    "max_steps",
    "options",
    "spaces",
    "environment_id",
    "environment_version",
    "environment_fingerprint",
    "agent_id",
)
"""The parts of a lock that are settings of an episode, in the order `Lock.diff` gives them."""


class Difference(NamedTuple):
    """A part of the lock that differs, with our value and theirs."""

    part: str
    ours: Json
    theirs: Json


TrialRow: TypeAlias = tuple[str, str, int | None, int, str]
"""Case id, case digest, seed, repeat, and the `setting_text` of an episode."""


@dataclasses.dataclass(frozen=True, slots=True)
class Trial:
    """One case under one seed and repeat; attempts at it (recoveries) share the row if alike.

    Attributes:
        case_id: the case.
        case_digest: its definition; a case redefined has another.
        seed: the seed of the reset, None where none was given.
        repeat: number of the repeat, from 0.
        setting: index into `Lock.settings`.
    """

    case_id: str
    case_digest: str
    seed: int | None
    repeat: int
    setting: int


@dataclasses.dataclass(frozen=True, slots=True)
class Lock:
    """What must be equal for two reports to be comparable, as recorded with the episodes.

    The parts are `checks` (names and versions), `cases` (which there are), `case` (the digest of
    each), `seed`, and those named in `SETTINGS`. Identities and versions are what the caller
    said; a lock cannot see that an implementation changed while its version stayed.

    Attributes:
        checks: name and version of each check, in order of name.
        settings: the distinct settings, each as canonical JSON text, sorted.
        trials: one row for each distinct trial and setting, sorted.
    """

    checks: tuple[tuple[str, str], ...]
    settings: tuple[str, ...]
    trials: tuple[Trial, ...]

    @classmethod
    def of(cls, checks: Iterable[tuple[str, str]], trials: Iterable[TrialRow]) -> Lock:
        """Make a lock; it does not depend on the order in which anything is given.

        Args:
            checks: name and version of each check.
            trials: one row an episode.
        """
        rows = sorted(set(trials), key=_order)
        settings = sorted({row[-1] for row in rows})
        index = {text: i for i, text in enumerate(settings)}
        trials_ = [Trial(*row[:-1], setting=index[row[-1]]) for row in rows]
        return cls(tuple(sorted(checks)), tuple(settings), tuple(trials_))

    def diff(self, other: Lock) -> list[Difference]:
        """Name each part that differs, with both values; an empty list means comparable.

        Returns:
            `(part, ours, theirs)` in a fixed order. Where a part differs in the same way for
            every case, the values are given plainly (`("seed", 17, 18)`), several values in one
            case as a list. Else they are objects that hold only the cases that differ. Checks are
            objects of versions by name that hold only those that differ. A case that only one
            lock has is listed under `cases`; the other parts are compared over the cases that
            both have, or as wholes when they share none.
        """
        if not isinstance(other, Lock):
            raise TypeError(f"other must be a Lock, not {type(other).__name__}")
        if self == other:
            return []
        found: list[Difference] = []
        checks, their_checks = dict(self.checks), dict(other.checks)
        if checks != their_checks:
            unlike = _unlike(checks, their_checks), _unlike(their_checks, checks)
            found.append(Difference("checks", *unlike))
        ours, theirs = _by_case(self.trials), _by_case(other.trials)
        if ours.keys() != theirs.keys():
            lone = sorted(ours.keys() - theirs), sorted(theirs.keys() - ours)
            found.append(Difference("cases", *lone))
        shared = sorted(ours.keys() & theirs.keys())
        cases = [_Pair(case_id, ours[case_id], theirs[case_id]) for case_id in shared]
        found += _difference(
            "case", [(p.case, _digests(p.ours), _digests(p.theirs)) for p in cases]
        )
        if not cases and self.trials and other.trials:
            cases = [_Pair("", self.trials, other.trials)]
        seeds = [(pair.case, _seeds(pair.ours), _seeds(pair.theirs)) for pair in cases]
        found += _difference("seed", seeds)
        return found + self._settings_diff(other, [t for pair in cases for t in pair.by_trial()])

    def to_dict(self) -> dict[str, Json]:
        """Return the lock as portable JSON."""
        return {
            "schema": SCHEMA,
            "checks": dict(self.checks),
            "settings": [parse(text) for text in self.settings],
            "trials": [
                {name: getattr(trial, name) for name in _TRIAL_FIELDS} for trial in self.trials
            ],
        }

    @classmethod
    def from_dict(cls, value: Json, place: str = "") -> Lock:
        """Read what `to_dict` gave.

        Args:
            value: parsed JSON.
            place: JSON Pointer of the lock in its file, for messages.

        Raises:
            ValueError: naming the place of what does not fit.
        """
        fields = read_object(value, _FIELDS, place)
        expect_schema(fields, SCHEMA, place)
        for name, version in fields["checks"].items():
            expect(version, str, at(at(place, "checks"), name))
        settings = []
        for index, setting in enumerate(fields["settings"]):
            read_object(setting, _SETTING_FIELDS, at(at(place, "settings"), index))
            settings.append(canonical(setting).decode())
        trials = []
        for index, row in enumerate(fields["trials"]):
            where = at(at(place, "trials"), index)
            trial = Trial(**read_object(row, _TRIAL_FIELDS, where))
            if not 0 <= trial.setting < len(settings):
                raise ValueError(f"{where}/setting: there is no setting {trial.setting}")
            trials.append(trial)
        lock = cls(tuple(sorted(fields["checks"].items())), tuple(settings), tuple(trials))
        if lock != cls.of(lock.checks, lock.rows()):
            raise ValueError(
                f"{at(place, 'trials')}: the rows are not sorted and distinct, or a setting is "
                "used by none of them"
            )
        return lock

    def rows(self) -> Iterator[TrialRow]:
        """The trials as `Lock.of` takes them."""
        for t in self.trials:
            yield t.case_id, t.case_digest, t.seed, t.repeat, self.settings[t.setting]

    def _settings_diff(self, other: Lock, pairs: Sequence[_Pair]) -> list[Difference]:
        ours = [_parts(text) for text in self.settings]
        theirs = [_parts(text) for text in other.settings]
        found: list[Difference] = []
        for part in SETTINGS:
            if len({setting[part] for setting in (*ours, *theirs)}) == 1:
                continue  # most parts have one value everywhere, and there may be many trials
            compared = [
                (
                    pair.case,
                    frozenset(ours[trial.setting][part] for trial in pair.ours),
                    frozenset(theirs[trial.setting][part] for trial in pair.theirs),
                )
                for pair in pairs
            ]
            found += _difference(part, compared)
        return found


def setting_text(data: Mapping[str, Any]) -> str:
    """The settings of one episode as canonical JSON text, from its `.data`."""
    provenance = data["provenance"]
    setting = {part: provenance[part] if part in provenance else data[part] for part in SETTINGS}
    return canonical(setting).decode()


_FIELDS: dict[str, Kinds] = {"schema": str, "checks": dict, "settings": list, "trials": list}
_TRIAL_FIELDS: dict[str, Kinds] = {
    "case_id": str,
    "case_digest": str,
    "seed": (int, type(None)),
    "repeat": int,
    "setting": int,
}
_SETTING_FIELDS: dict[str, Kinds] = {
    "observer_id": (str, type(None)),
    "gymnasium_version": str,
    "max_steps": (int, type(None)),
    "options": ANY,
    "spaces": (dict, type(None)),
    "environment_id": str,
    "environment_version": (str, type(None)),
    "environment_fingerprint": (str, type(None)),
    "agent_id": (str, type(None)),
}


@dataclasses.dataclass(frozen=True, slots=True)
class _Pair:
    """Trials of two locks that are compared with each other, and the case they belong to."""

    case: str
    ours: Sequence[Trial]
    theirs: Sequence[Trial]

    def by_trial(self) -> list[_Pair]:
        """One pair for each seed and repeat that both have, or this one if they share none."""
        ours, theirs = _by_trial(self.ours), _by_trial(self.theirs)
        if len(ours) == len(theirs) == 1:
            return [self]
        shared = [key for key in ours if key in theirs]
        return [
            _Pair(f"{self.case} (seed {key[0]}, repeat {key[1]})", ours[key], theirs[key])
            for key in shared
        ] or [self]


def _difference(
    part: str, compared: list[tuple[str, frozenset[str], frozenset[str]]]
) -> list[Difference]:
    """Describe how the values of one part, as canonical JSON texts, differ between two locks."""
    unlike = [row for row in compared if row[1] != row[2]]
    if not unlike:
        return []
    if len(unlike) == len(compared) and len({row[1:] for row in compared}) == 1:
        return [Difference(part, _shown(unlike[0][1]), _shown(unlike[0][2]))]
    ours = {case: _shown(values) for case, values, _ in unlike}
    theirs = {case: _shown(values) for case, _, values in unlike}
    return [Difference(part, ours, theirs)]


def _shown(values: frozenset[str]) -> Json:
    shown = [parse(text) for text in sorted(values, key=lambda text: (len(text), text))]
    return shown[0] if len(shown) == 1 else shown


def _unlike(ours: Mapping[str, str], theirs: Mapping[str, str]) -> dict[str, str]:
    return {name: version for name, version in ours.items() if theirs.get(name) != version}


def _by_case(trials: Iterable[Trial]) -> dict[str, list[Trial]]:
    cases: dict[str, list[Trial]] = defaultdict(list)
    for trial in trials:
        cases[trial.case_id].append(trial)
    return cases


def _by_trial(trials: Iterable[Trial]) -> dict[tuple[int | None, int], list[Trial]]:
    found: dict[tuple[int | None, int], list[Trial]] = defaultdict(list)
    for trial in trials:
        found[trial.seed, trial.repeat].append(trial)
    return found


def _digests(trials: Iterable[Trial]) -> frozenset[str]:
    return frozenset(canonical(trial.case_digest).decode() for trial in trials)


def _seeds(trials: Iterable[Trial]) -> frozenset[str]:
    return frozenset("null" if trial.seed is None else str(trial.seed) for trial in trials)


def _parts(setting: str) -> dict[str, str]:
    """The canonical text of each part of a setting: `1` and `true` must not pass for equal."""
    return {part: canonical(value).decode() for part, value in parse(setting).items()}


def _order(row: TrialRow) -> tuple[str, str, bool, int, int, str]:
    case_id, digest, seed, repeat, setting = row
    return case_id, digest, seed is not None, seed or 0, repeat, setting
