"""`compare` and `compare_many`: two sides paired, measured and judged."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, get_args

from envbench.checks.lines import counted, named
from envbench.checks.outcome import Check, OutcomeCheck, SqlCheck, require_label
from envbench.checks.report import Report
from envbench.comparison.comparison import Comparison, Comparisons
from envbench.comparison.differences import PARTS, Difference, Treatment, differences
from envbench.comparison.measuring import Measured, conclude, measure
from envbench.comparison.pairing import Attempt, Pairing, pair_by_episode, pair_by_trial
from envbench.comparison.results import CheckComparison
from envbench.comparison.rewards import compare_rewards
from envbench.comparison.selection import Episodes
from envbench.comparison.sides import Role, Side, side_of_ids, side_of_report, side_of_store
from envbench.store import Store, connect

Selection: TypeAlias = Report | Episodes | Store
"""What makes a side: a report, episodes of the store given, or all episodes of a store."""

StoreTarget: TypeAlias = Store | str | os.PathLike[str]

CheckList: TypeAlias = Check | Sequence[Check]
"""A check, or several."""


def compare(
    baseline: Selection,
    candidate: Selection,
    *,
    treatment: Treatment = "environment",
    store: StoreTarget | None = None,
    checks: CheckList | tuple[CheckList | None, CheckList] | None = None,
    attempt: Attempt = "first",
    alpha: float = 0.05,
    names: tuple[str, str] | None = None,
) -> Comparison:
    """Compare two versions over the same cases.

    Episodes are paired by case, seed and repeat; where the repeats of a case carry no seed, the
    case is compared by its means. Only the treatment may differ: anything else that does is named
    in `.blocked`, and then there are counts and no verdict.

    Args:
        baseline: a `Report`, a selection of `Episodes`, or a `Store` for all episodes of it.
        candidate: the same.
        treatment: what is meant to differ: `environment` (id, version, fingerprint and spaces),
            `agent`, or `checks` (their versions, on the very same evidence).
        store: where `Episodes` are read, a store or its path. With reports it adds the rewards,
            and tells the settings of first and last attempts apart.
        checks: judge the episodes afresh with these checks, and not by their latest saved results.
            With `treatment="checks"` a pair `(old, new)`, each a check or a list of them; None
            for `old` takes the saved results.
        attempt: which attempt at a trial is compared where there are recoveries, `first` or
            `last`.
        alpha: the level of all checks together; intervals cover 1 − alpha.
        names: what to call the two sides; by default what tells them apart.

    Raises:
        TypeError: when an argument is of another type.
        ValueError: when no episode is selected, or an argument does not fit the others.
        PairingError: a ValueError, when a side has two episodes of one trial, or recoveries whose
            place is unclear.
        QueryError, StoreError: when the store cannot be read.
    """
    _refuse_misfit(treatment, attempt, alpha, names)
    ours, theirs = _checks_of(treatment, checks)
    with _opened(store) as opened:
        draft = _draft(
            _side("baseline", baseline, opened, ours),
            _side("candidate", candidate, opened, theirs),
            treatment,
            attempt,
            alpha,
        )
    (concluded,) = conclude([draft.measured], alpha)
    return _comparison(draft, concluded, names or _names(draft, baseline, candidate))


def compare_many(
    baseline: Selection,
    candidates: Mapping[str, Selection] | Sequence[Selection],
    *,
    treatment: Treatment = "environment",
    store: StoreTarget | None = None,
    checks: CheckList | None = None,
    attempt: Attempt = "first",
    alpha: float = 0.05,
    baseline_name: str | None = None,
) -> Comparisons:
    """Compare several versions, each with one baseline; p is adjusted over all of them together.

    Args:
        baseline: as in `compare`.
        candidates: at least one selection; a mapping gives their names.
        treatment: as in `compare`; with `checks` each candidate must be a report.
        store: as in `compare`.
        checks: as in `compare`, and not with `treatment="checks"`.
        attempt: as in `compare`.
        alpha: the level of all checks of all candidates together.
        baseline_name: what to call the baseline.

    Raises:
        TypeError, ValueError, QueryError, StoreError: as `compare`.
    """
    given = _candidates(candidates)
    if treatment == "checks" and checks is not None:
        raise ValueError(
            "compare_many takes no checks with treatment='checks': give a report for each version, "
            "made with evaluate(store, checks)"
        )
    _refuse_misfit(treatment, attempt, alpha, None)
    if baseline_name is not None:
        require_label("baseline_name", baseline_name)
    chosen, _ = _checks_of("environment", checks)
    with _opened(store) as opened:
        ours = _side("baseline", baseline, opened, chosen)
        drafts = [
            _draft(ours, _side("candidate", one, opened, chosen), treatment, attempt, alpha)
            for _, one in given
        ]
    concluded = conclude([draft.measured for draft in drafts], alpha)
    made = []
    for draft, checks_, (name, candidate) in zip(drafts, concluded, given, strict=True):
        found = _names(draft, baseline, candidate)
        names = (baseline_name or found[0], name or found[1])
        made.append(_comparison(draft, checks_, names))
    return Comparisons(_told_apart(made))


def _refuse_misfit(treatment: Any, attempt: Any, alpha: Any, names: Any) -> None:
    for argument, value, allowed in (
        ("treatment", treatment, get_args(Treatment)),
        ("attempt", attempt, get_args(Attempt)),
    ):
        if value not in allowed:
            raise ValueError(f"{argument} must be one of {', '.join(allowed)}, not {value!r}")
    if isinstance(alpha, bool) or not isinstance(alpha, float) or not 0 < alpha < 1:
        raise ValueError(f"alpha must be a number between 0 and 1, not {alpha!r}")
    if names is None:
        return
    if isinstance(names, str) or len(names) != 2 or names[0] == names[1]:
        raise ValueError(f"names must be two different names, not {names!r}")
    for name in names:
        require_label("names", name)


_Chosen: TypeAlias = tuple[Check, ...] | None


def _checks_of(treatment: Treatment, checks: Any) -> tuple[_Chosen, _Chosen]:
    """The checks to judge each side with afresh, None where saved results are taken."""
    if checks is None:
        return None, None
    if treatment != "checks":
        chosen = _list_of(checks)
        return chosen, chosen
    if not isinstance(checks, tuple | list) or len(checks) != 2 or checks[1] is None:
        raise ValueError(
            "with treatment='checks', checks must be a pair (old, new), each a check or a list of "
            "checks; (None, new) takes the saved results for old"
        )
    old, new = checks
    if isinstance(old, _CHECK) and isinstance(new, _CHECK) and old.name != new.name:
        raise ValueError(
            f"two versions of a check have one name, and these are called {old.name!r} and "
            f"{new.name!r}"
        )
    return (None if old is None else _list_of(old)), _list_of(new)


_CHECK = (OutcomeCheck, SqlCheck)


def _list_of(checks: Any) -> tuple[Check, ...]:
    return (checks,) if isinstance(checks, _CHECK) else tuple(checks)


@contextlib.contextmanager
def _opened(store: StoreTarget | None) -> Iterator[Store | None]:
    """The store given, or one opened for reading while the comparison is made."""
    if store is None or isinstance(store, Store):
        yield store
        return
    with connect(store, read_only=True) as opened:
        yield opened


def _side(role: Role, given: Any, store: Store | None, checks: _Chosen) -> Side:
    if isinstance(given, Report):
        if checks is None:
            return side_of_report(role, given, store)
        if store is None:
            raise ValueError(
                f"{role}: a report holds no evidence to judge afresh: give the store that has its "
                "episodes, with store="
            )
        ids = [episode.episode_id for episode in given.episodes]
        return side_of_ids(role, ids, store, checks)
    if isinstance(given, Store):
        return side_of_store(role, Episodes(), given, checks)
    if not isinstance(given, Episodes):
        hint = f", such as Episodes(environment_id={given!r})" if isinstance(given, str) else ""
        raise TypeError(
            f"{role} must be a Report, a Store or Episodes(…){hint}, not {type(given).__name__}"
        )
    if store is None:
        raise ValueError(f"{role}: Episodes are selected from a store: give it with store=")
    return side_of_store(role, given, store, checks)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _Draft:
    """A comparison before its p are adjusted."""

    treatment: Treatment
    alpha: float
    baseline: Side
    candidate: Side
    pairing: Pairing
    changed: tuple[Difference, ...]
    blocked: tuple[Difference, ...]
    measured: list[Measured]


def _draft(
    baseline: Side, candidate: Side, treatment: Treatment, attempt: Attempt, alpha: float
) -> _Draft:
    pair = pair_by_episode if treatment == "checks" else pair_by_trial
    pairing = pair(baseline, candidate, attempt)
    changed, blocked = differences(treatment, baseline, candidate, pairing)
    measured = measure(pairing, baseline, candidate, alpha=alpha, blocked=bool(blocked))
    return _Draft(treatment, alpha, baseline, candidate, pairing, changed, blocked, measured)


def _comparison(
    draft: _Draft, checks: Sequence[CheckComparison], names: tuple[str, str]
) -> Comparison:
    reward = None
    if draft.treatment != "checks":  # the same episodes, so the same rewards
        reward = compare_rewards(
            draft.pairing,
            draft.baseline,
            draft.candidate,
            checks,
            alpha=draft.alpha,
            blocked=bool(draft.blocked),
        )
    return Comparison(
        treatment=draft.treatment,
        baseline_name=names[0],
        candidate_name=names[1],
        alpha=draft.alpha,
        changed=draft.changed,
        blocked=draft.blocked,
        pairs=draft.pairing.pairs,
        case_means=draft.pairing.case_means,
        checks=tuple(checks),
        reward=reward,
        notes=tuple(_notes(draft)),
    )


def _notes(draft: _Draft) -> Iterator[str]:
    pairing = draft.pairing
    both = [pair for pair in pairing.pairs if None not in (pair.baseline, pair.candidate)]
    one = sum(pair.baseline == pair.candidate for pair in both)
    if not both and not pairing.case_means:
        shared = "episode" if draft.treatment == "checks" else "case, seed and repeat"
        yield f"no episode has a partner: the two sides share no {shared}"
    elif not draft.changed:
        parts = ", ".join(PARTS[draft.treatment])
        yield f"the {draft.treatment} does not differ between the two sides ({parts})"
    if draft.treatment != "checks" and one:
        yield (
            "both sides are the same episodes"
            if one == len(pairing.pairs)
            else f"{counted(one, 'episode')} on both sides, paired with itself"
        )
    if pairing.case_means:
        yield (
            f"{counted(len(pairing.case_means), 'case')} with repeats that carry no seed, so that "
            f"nothing says which of them go together: compared by case means "
            f"({named(pairing.case_means)})"
        )
    yield from (*draft.baseline.notes, *draft.candidate.notes, *pairing.notes)


def _names(draft: _Draft, baseline: Selection, candidate: Selection) -> tuple[str, str]:
    """What to call the two sides: what tells them apart, where that is one value each."""
    changed = {part: (ours, theirs) for part, ours, theirs in draft.changed}
    for part, before in (
        ("environment_id", ""),
        ("environment_version", "version "),
        ("agent_id", ""),
    ):
        ours, theirs = changed.get(part, (None, None))
        if isinstance(ours, str) and isinstance(theirs, str):
            return f"{before}{ours}", f"{before}{theirs}"
    ours, theirs = changed.get("checks", (None, None))
    if isinstance(ours, dict) and isinstance(theirs, dict) and len(ours) == len(theirs) == 1:
        ((old, before_), (new, after)) = (*ours.items(), *theirs.items())
        if old == new:
            return f"{old} {before_}", f"{new} {after}"
    if isinstance(baseline, Report) and isinstance(candidate, Report):  # noqa: SIM102
        if baseline.name != candidate.name:
            return baseline.name, candidate.name
    return "baseline", "candidate"


def _candidates(
    candidates: Mapping[str, Selection] | Sequence[Selection],
) -> list[tuple[str | None, Selection]]:
    if isinstance(candidates, Report | Episodes | Store | str) or not isinstance(
        candidates, Iterable
    ):
        raise TypeError(
            "candidates must be a list of selections, or a dict of them by name, not "
            f"{type(candidates).__name__}"
        )
    given: list[tuple[str | None, Selection]]
    if isinstance(candidates, Mapping):
        for name in candidates:
            require_label("candidates", name)
        given = list(candidates.items())
    else:
        given = [(None, one) for one in candidates]
    if not given:
        raise ValueError("candidates must hold at least one selection")
    return given


def _told_apart(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """One name for the baseline, and a different one for each candidate."""
    baseline = comparisons[0].baseline_name
    taken = {baseline}
    made = []
    for comparison in comparisons:
        name, number = comparison.candidate_name, 1
        while name in taken:
            number += 1
            name = f"{comparison.candidate_name} ({number})"
        taken.add(name)
        made.append(dataclasses.replace(comparison, baseline_name=baseline, candidate_name=name))
    return tuple(made)
