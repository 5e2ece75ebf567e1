"""One side of a comparison: its episodes, and what each check came to on each of them.

A side comes from a report, or from the episodes of a store with their latest saved results, or
from such episodes judged afresh. From here on all three are alike.
"""

from __future__ import annotations

import dataclasses
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from envbench.checks.evaluation import evaluate
from envbench.checks.lines import counted, named
from envbench.checks.lock import SETTINGS, Lock, TrialRow
from envbench.checks.outcome import Check
from envbench.checks.report import Report
from envbench.checks.rows import CheckIdentity, JudgedEpisode
from envbench.comparison.outcomes import ERROR, FAILED, PASSED, UNKNOWN
from envbench.comparison.selection import COLUMNS, Episodes, quoted
from envbench.evidence.portable import canonical, parse

if TYPE_CHECKING:
    from envbench.store import Store

Role: TypeAlias = Literal["baseline", "candidate"]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One side of a comparison.

    Attributes:
        role: which side it is, for messages.
        episodes: its episodes, each once.
        checks: the checks that judged them.
        letters: what each check came to, one of `outcomes.LETTERS`; shape (episodes, checks).
        settings: the `lock.setting_text` of each episode; None when only a report is there, which
            knows the settings of its trials and not of its episodes.
        lock: the lock of the report, or of the episodes.
        rewards: the return of each episode, NaN where it has none; None when no store was there.
        notes: what a reader must know of how it came about.
    """

    role: Role
    episodes: tuple[JudgedEpisode, ...]
    checks: tuple[CheckIdentity, ...]
    letters: np.ndarray
    settings: tuple[str, ...] | None
    lock: Lock
    rewards: np.ndarray | None
    notes: tuple[str, ...] = ()


def side_of_report(role: Role, report: Report, store: Store | None) -> Side:
    """A report as a side; a store that has its episodes adds their rewards and settings.

    Raises:
        ValueError: when the store has other evidence under the id of an episode.
    """
    letters = np.frombuffer(bytes(map(_letter, report.results)), np.uint8)
    side = Side(
        role=role,
        episodes=report.episodes,
        checks=report.checks,
        letters=letters.reshape(len(report.episodes), len(report.checks)),
        settings=None,
        lock=report.lock,
        rewards=None,
    )
    return side if store is None else _with_store(side, store)


def side_of_store(
    role: Role, selection: Episodes, store: Store, checks: Sequence[Check] | None
) -> Side:
    """Episodes of a store as a side: with their latest saved results, or judged afresh.

    Raises:
        ValueError: when no episode is selected, none of them has a result, or a check judged them
            in several versions.
        QueryError: when the condition is not one.
    """
    store.flush()  # an episode still on its way to the file must not be left out
    store.episodes(selection.where)  # refuses what is not one condition
    episodes = store.episodes(selection.condition)
    if not len(episodes):
        raise ValueError(
            f"{role}: no episode is selected ({selection}){_those_there_are(selection, store)}"
        )
    if checks is None:
        return _with_saved_results(role, selection, store)
    report = evaluate(store if selection.condition is None else episodes, checks)
    return side_of_report(role, report, store)


def side_of_ids(
    role: Role, episode_ids: Sequence[str], store: Store, checks: Sequence[Check]
) -> Side:
    """The episodes of a report, judged afresh from a store.

    Raises:
        ValueError: when the store lacks one of them.
    """
    store.flush()
    episodes = store.episodes(f"episode_id IN ({', '.join(map(quoted, episode_ids))})")
    report = evaluate(episodes, checks)
    missing = set(episode_ids) - {episode.episode_id for episode in report.episodes}
    if missing:
        raise ValueError(
            f"{role}: the report cannot be judged afresh, because {store.path} lacks "
            f"{len(missing)} of {counted(len(episode_ids), 'episode')} of it, such as "
            f"{min(missing)}"
        )
    return side_of_report(role, report, store)


def _letter(result: Any) -> int:
    if result.error is not None:
        return ERROR
    if result.passed is None:
        return UNKNOWN
    return PASSED if result.passed else FAILED


# -- what a store knows of episodes ---------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class _Row:
    """An episode in a store, with what a comparison asks of it."""

    judged: JudgedEpisode
    setting: str
    reward: float


_ROWS = """
SELECT e.episode_id, e.case_id, e.case_digest, e.source_id, c.tags, e.seed, e.repeat, e.previous,
    e.ending, e.digest, e.episode_return, e.observer_id, v.gymnasium_version, e.max_steps,
    e.options, v.spaces, e.environment_id, e.environment_version, e.environment_fingerprint,
    e.agent_id, CASE WHEN e.seed IS NULL OR e.max_steps IS NULL THEN e.extra END AS extra
FROM episodes AS e
LEFT JOIN (
    FROM cases QUALIFY row_number() OVER (PARTITION BY case_id, case_digest) = 1
) AS c ON c.case_id = e.case_id AND c.case_digest = e.case_digest
LEFT JOIN (
    FROM environments QUALIFY row_number() OVER (PARTITION BY environment_key) = 1
) AS v ON v.environment_key = e.environment_key
WHERE e.episode_id IN ({chosen})
ORDER BY e.recorded_at, e.episode_id
"""


def _read_rows(store: Store, chosen: str, parameters: list[Any]) -> list[_Row]:
    """The rows of episodes; `chosen` is a query of ids, which is our own text."""
    tags: dict[str, tuple[str, ...]] = {}
    settings: dict[tuple[Any, ...], str] = {}
    rows = []
    for values in store.sql(_ROWS.format(chosen=chosen), parameters).fetchall():
        row = dict(zip(_NAMES, values, strict=True))
        if row["extra"] is not None:  # BIGINT cannot hold every integer
            extra = parse(row["extra"])
            for name in ("seed", "max_steps"):
                row[name] = row[name] if row[name] is not None else extra.get(name)
        key = tuple(row[part] for part in SETTINGS)
        if key not in settings:
            settings[key] = _setting_text(row)
        text = row["tags"] or "[]"
        if text not in tags:
            tags[text] = tuple(json.loads(text))
        judged = JudgedEpisode(
            episode_id=row["episode_id"],
            case_id=row["case_id"],
            case_digest=row["case_digest"],
            source_id=row["source_id"],
            tags=tags[text],
            seed=row["seed"],
            repeat=row["repeat"],
            previous=row["previous"],
            ending=row["ending"],
            coverage_issues=(),
            digest=row["digest"],
        )
        reward = row["episode_return"]
        rows.append(_Row(judged, settings[key], np.nan if reward is None else reward))
    return rows


_NAMES = (
    "episode_id",
    "case_id",
    "case_digest",
    "source_id",
    "tags",
    "seed",
    "repeat",
    "previous",
    "ending",
    "digest",
    "episode_return",
    *SETTINGS,
    "extra",
)


def _setting_text(row: dict[str, Any]) -> str:
    """The same text as `lock.setting_text` makes of the episode's evidence."""
    setting = {part: row[part] for part in SETTINGS}
    for part in ("options", "spaces"):  # JSON columns
        setting[part] = None if row[part] is None else parse(row[part])
    return canonical(setting).decode()


def _with_store(side: Side, store: Store) -> Side:
    ids = [episode.episode_id for episode in side.episodes]
    store.flush()
    found = {row.judged.episode_id: row for row in _read_rows(store, "SELECT unnest(?)", [ids])}
    for episode in side.episodes:
        row = found.get(episode.episode_id)
        if row is not None and row.judged.digest != episode.digest:
            raise ValueError(
                f"{side.role}: {store.path} has other evidence of episode {episode.episode_id} "
                f"than the report judged (digest {row.judged.digest}, not {episode.digest})"
            )
    rewards = [found[id_].reward if id_ in found else np.nan for id_ in ids]
    settings = None
    if len(found) == len(ids):
        settings = tuple(found[id_].setting for id_ in ids)
    return dataclasses.replace(side, rewards=np.array(rewards, float), settings=settings)


# -- saved results --------------------------------------------------------------------------------

_RESULTS = """
SELECT episode_id, check_name, check_version,
    CASE WHEN error IS NOT NULL THEN 'e' WHEN passed IS NULL THEN 'u' WHEN passed THEN 'p'
        ELSE 'f' END AS letter
FROM latest_results
WHERE episode_id IN ({chosen})
"""


def _with_saved_results(role: Role, selection: Episodes, store: Store) -> Side:
    condition = selection.condition
    chosen = "SELECT episode_id FROM episodes" + (
        "" if condition is None else f" WHERE {condition}\n"
    )
    rows = _read_rows(store, chosen, [])
    found = store.sql(_RESULTS.format(chosen=chosen)).arrow().to_pydict()
    if not found["episode_id"]:
        raise ValueError(
            f"{role}: none of {counted(len(rows), 'episode')} ({selection}) has a saved result: "
            "judge them with checks=[…], or save a report of them first, with report.save(store)"
        )
    checks = _versions(role, found["check_name"], found["check_version"])
    index = {row.judged.episode_id: i for i, row in enumerate(rows)}
    column = {check.name: i for i, check in enumerate(checks)}
    letters = np.zeros((len(rows), len(checks)), np.uint8)
    at = (
        [index[episode_id] for episode_id in found["episode_id"]],
        [column[name] for name in found["check_name"]],
    )
    letters[at] = np.frombuffer("".join(found["letter"]).encode(), np.uint8)
    notes = []
    if np.count_nonzero(letters) < len(found["letter"]):
        raise ValueError(f"{role}: {store.path} has two latest results of one check and episode")
    unjudged = letters == 0
    for check, missing in zip(checks, unjudged.sum(axis=0).tolist(), strict=True):
        if missing:
            notes.append(
                f"{role}: {check.name} has no saved result for {missing} of "
                f"{counted(len(rows), 'episode')}, which count as unknown"
            )
    letters[unjudged] = UNKNOWN
    episodes = tuple(row.judged for row in rows)
    settings = tuple(row.setting for row in rows)
    return Side(
        role=role,
        episodes=episodes,
        checks=checks,
        letters=letters,
        settings=settings,
        lock=Lock.of(checks, trial_rows(episodes, settings)),
        rewards=np.array([row.reward for row in rows], float),
        notes=tuple(notes),
    )


def trial_rows(episodes: Iterable[JudgedEpisode], settings: Iterable[str]) -> list[TrialRow]:
    """The rows of a lock of these episodes."""
    return [
        (e.case_id, e.case_digest, e.seed, e.repeat, setting)
        for e, setting in zip(episodes, settings, strict=True)
    ]


def _versions(
    role: Role, names: Sequence[str], versions: Sequence[str]
) -> tuple[CheckIdentity, ...]:
    found: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for name, version in zip(names, versions, strict=True):
        found[name][version] += 1
    for name, counts in found.items():
        if len(counts) > 1:
            said = ", ".join(
                f"version {version!r} in {counted(n, 'episode')}"
                for version, n in sorted(counts.items())
            )
            raise ValueError(
                f"{role}: the latest results of {name!r} are of several versions ({said}): judge "
                "all of them alike, with checks=[…]"
            )
    return tuple(CheckIdentity(name, next(iter(found[name]))) for name in sorted(found))


def _those_there_are(selection: Episodes, store: Store) -> str:
    """The values that the store has where a selection names one that it does not have."""
    for name in COLUMNS:
        value = getattr(selection, name)
        if value is None:
            continue
        there = [
            str(row[0])
            for row in store.sql(
                f"SELECT DISTINCT {name} FROM episodes WHERE {name} IS NOT NULL ORDER BY 1"
            )
        ]
        if value not in there:
            return f": {store.path} has {name} {named(there) or 'of none'}"
    return f" in {store.path}"
