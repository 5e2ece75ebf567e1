"""`evaluate_episode` and `evaluate`: checks applied to saved evidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from envbench.checks.lock import Lock, TrialRow, setting_text
from envbench.checks.outcome import (
    Check,
    Judgement,
    OutcomeCheck,
    SqlCheck,
    plain,
    require_label,
)
from envbench.checks.report import Report, now
from envbench.checks.rows import CheckIdentity, CheckResult, JudgedEpisode
from envbench.evidence import EpisodeEvidence
from envbench.evidence.record import new_id

if TYPE_CHECKING:
    from envbench.store import Store

NAME = "environment outcomes"


def evaluate_episode(
    episode: EpisodeEvidence, checks: Iterable[Check], *, name: str = NAME
) -> Report:
    """Judge one episode.

    Args:
        episode: saved evidence; no check reaches the environment.
        checks: at least one `OutcomeCheck` or `SqlCheck`, each under its own name.
        name: what to call the report.

    Returns:
        A report with one result a check. A check that raised has an error and no verdict, and
        the others are not affected.

    Raises:
        TypeError: when an argument is of another type.
        ValueError: when there is no check, or two have one name.
    """
    if not isinstance(episode, EpisodeEvidence):
        raise TypeError(
            f"episode must be EpisodeEvidence, not {type(episode).__name__}; "
            "for several episodes or a store use evaluate(...)"
        )
    return evaluate([episode], checks, name=name)


def evaluate(
    episodes: Iterable[EpisodeEvidence] | Store, checks: Iterable[Check], *, name: str = NAME
) -> Report:
    """Judge many episodes: all sealed ones of a store, or those of any iterable.

    Episodes are read one by one, and of each only what the checks and the report look at.

    Args:
        episodes: a store, what `store.episodes(where)` gives, or any iterable of episodes.
        checks: at least one `OutcomeCheck` or `SqlCheck`, each under its own name.
        name: what to call the report.

    Returns:
        A report with one result a check and episode; with no episode it is empty, which a policy
        finds indeterminate.

    Raises:
        TypeError: when an argument, or an item of `episodes`, is of another type.
        ValueError: when there is no check, two have one name, or an episode comes twice.
    """
    require_label("name", name)
    checks = _checked(checks)
    judged: list[JudgedEpisode] = []
    trials: list[TrialRow] = []
    columns: dict[str, list[Judgement]] = {check.name: [] for check in checks}
    with _tables(episodes, checks) as tables:
        for episode in _distinct(episodes):
            row, setting = _read(episode)
            judged.append(row)
            trials.append((row.case_id, row.case_digest, row.seed, row.repeat, setting))
            for check in checks:
                if isinstance(check, OutcomeCheck):
                    columns[check.name].append(check.judge(episode))
            if tables is not None and tables is not episodes:
                tables.add(episode)
        ids = [row.episode_id for row in judged]
        for check in checks:
            if isinstance(check, SqlCheck) and tables is not None:
                with tables.cursor() as cursor:
                    columns[check.name] = check.judge_all(cursor, ids)
    results = [
        CheckResult(
            row.case_id,
            row.episode_id,
            check.name,
            check.version,
            judgement.passed,
            judgement.reason,
            judgement.evidence_json,
            judgement.error,
        )
        for row, judgements in zip(judged, zip(*columns.values(), strict=True), strict=True)
        for check, judgement in zip(checks, judgements, strict=True)
    ]
    identities = tuple(CheckIdentity(check.name, check.version) for check in checks)
    lock = Lock.of(identities, trials)
    return Report(new_id(), name, now(), identities, tuple(judged), tuple(results), lock)


def _checked(checks: Iterable[Check]) -> tuple[Check, ...]:
    if isinstance(checks, OutcomeCheck | SqlCheck):
        raise TypeError(f"checks must be a list of checks; put [ ] around {checks.name!r}")
    try:
        checks = tuple(checks)
    except TypeError:
        raise TypeError(f"checks must be a list, not {type(checks).__name__}") from None
    for index, check in enumerate(checks):
        if not isinstance(check, OutcomeCheck | SqlCheck):
            raise TypeError(
                f"checks[{index}] must be an OutcomeCheck or a SqlCheck, not {type(check).__name__}"
            )
    if not checks:
        raise ValueError("checks must hold at least one check")
    names = [check.name for check in checks]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"checks must have different names, and two are called {name!r}")
    return checks


def _tables(episodes: Any, checks: Sequence[Check]) -> Any:
    """The store that SQL checks query, as a context: the one given, or an empty one in memory."""
    from envbench.store import Store, connect

    if isinstance(episodes, Store):
        return nullcontext(episodes)
    if any(isinstance(check, SqlCheck) for check in checks):
        return connect(":memory:")
    return nullcontext()


def _distinct(episodes: Any) -> Iterator[EpisodeEvidence]:
    """The episodes one by one, each known to be evidence and new."""
    from envbench.store import Store

    if isinstance(episodes, Store):
        episodes.flush()  # an episode still on its way to the file must not be left out
        episodes = episodes.episodes()
    if isinstance(episodes, EpisodeEvidence):
        raise TypeError("episodes must be a list or a store; for one use evaluate_episode(...)")
    if isinstance(episodes, str | bytes) or not isinstance(episodes, Iterable):
        raise TypeError(
            f"episodes must be a store or a list of EpisodeEvidence, "
            f"not {type(episodes).__name__}; a file is opened with envbench.connect(path)"
        )
    seen: set[str] = set()
    for index, episode in enumerate(episodes):
        if not isinstance(episode, EpisodeEvidence):
            raise TypeError(
                f"episodes[{index}] must be EpisodeEvidence, not {type(episode).__name__}"
            )
        episode_id = episode.episode_id
        if episode_id in seen:
            raise ValueError(f"episode {episode_id} is there twice; judge it once")
        seen.add(episode_id)
        yield episode


def _read(episode: EpisodeEvidence) -> tuple[JudgedEpisode, str]:
    """What the report and the lock keep of an episode."""
    data = episode.data
    case, provenance = data["case"], data["provenance"]
    judged = JudgedEpisode(
        episode_id=episode.episode_id,
        case_id=case["case_id"],
        case_digest=data["case_digest"],
        source_id=case["source_id"],
        tags=tuple(case["tags"]),
        seed=data["seed"],
        repeat=provenance["repeat"],
        previous=provenance["previous"],
        ending=data["ending"],
        coverage_issues=tuple(map(plain, episode.coverage_issues)),
        digest=episode.digest,
    )
    return judged, setting_text(data)
