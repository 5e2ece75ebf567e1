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
from envbench.store.reading import WITH_CASE, WITH_ENVIRONMENT

if TYPE_CHECKING:
    import pyarrow as pa

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


_ROWS = f"""
SELECT e.episode_id, e.case_id, e.case_digest, e.source_id, c.tags, e.seed, e.repeat, e.previous,
    e.ending, e.digest, e.episode_return,
    CASE WHEN e.seed IS NULL OR e.max_steps IS NULL THEN e.extra END AS extra,
    e.observer_id, v.gymnasium_version, e.max_steps, e.options, v.spaces, e.environment_id,
    e.environment_version, e.environment_fingerprint, e.agent_id
FROM episodes AS e
{WITH_CASE}
{WITH_ENVIRONMENT}
WHERE e.episode_id IN ({{chosen}})
ORDER BY e.recorded_at, e.episode_id
"""
"""What a comparison asks of episodes; the last columns are `SETTINGS`, in their order."""


def _read_rows(store: Store, chosen: str, parameters: list[Any]) -> list[_Row]:
    """The rows of episodes; `chosen` is a query of ids, which is our own text."""
    settings: dict[tuple[Any, ...], str] = {}
    tags: dict[str, tuple[str, ...]] = {}
    rows = []
    for row in store.sql(_ROWS.format(chosen=chosen), parameters):
        episode_id, case_id, case_digest, source_id, tags_text, seed, *more = row
        repeat, previous, ending, digest, reward, extra, *parts = more
        if extra is not None:  # it holds the integers that BIGINT cannot
            beside = parse(extra)
            seed = beside.get("seed") if seed is None else seed
            if parts[_MAX_STEPS] is None:
                parts[_MAX_STEPS] = beside.get("max_steps")
        setting = tuple(parts)
        if setting not in settings:
            settings[setting] = _setting_text(dict(zip(SETTINGS, setting, strict=True)))
        if tags_text not in tags:
            tags[tags_text] = tuple(json.loads(tags_text or "[]"))
        judged = JudgedEpisode(
            episode_id=episode_id,
            case_id=case_id,
            case_digest=case_digest,
            source_id=source_id,
            tags=tags[tags_text],
            seed=seed,
            repeat=repeat,
            previous=previous,
            ending=ending,
            coverage_issues=(),
            digest=digest,
        )
        rows.append(_Row(judged, settings[setting], np.nan if reward is None else reward))
    return rows


_MAX_STEPS = SETTINGS.index("max_steps")


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
SELECT
    place,
    check_name,
    check_version,
    CASE
        WHEN error IS NOT NULL THEN 'e'
        WHEN passed IS NULL THEN 'u'
        WHEN passed THEN 'p'
        ELSE 'f'
    END AS letter
FROM latest_results
JOIN (
    SELECT episode_id, row_number() OVER (ORDER BY recorded_at, episode_id) - 1 AS place
    FROM episodes
    WHERE {condition}
) USING (episode_id)
"""


def _with_saved_results(role: Role, selection: Episodes, store: Store) -> Side:
    condition = f"{selection.condition or 'true'}\n"
    rows = _read_rows(store, f"SELECT episode_id FROM episodes WHERE {condition}", [])
    found = store.sql(_RESULTS.format(condition=condition)).arrow().combine_chunks()
    if not found.num_rows:
        raise ValueError(
            f"{role}: none of {counted(len(rows), 'episode')} ({selection}) has a saved result: "
            "judge them with checks=[…], or save a report of them first, with report.save(store)"
        )
    checks, columns = _checks(role, found["check_name"], found["check_version"])
    letters = np.zeros((len(rows), len(checks)), np.uint8)
    letters[_numbers(found["place"].combine_chunks()), columns] = _bytes(found["letter"])
    if np.count_nonzero(letters) < found.num_rows:
        raise ValueError(f"{role}: {store.path} has two latest results of one check and episode")
    unjudged = letters == 0
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
        notes=tuple(
            f"{role}: {check.name} has no saved result for {missing} of "
            f"{counted(len(rows), 'episode')}, which count as unknown"
            for check, missing in zip(checks, unjudged.sum(axis=0).tolist(), strict=True)
            if missing
        ),
    )


def _numbers(column: pa.Array) -> np.ndarray:
    """A column of integers without nulls as an array; `to_numpy` would import pandas for it."""
    return np.from_dlpack(column).astype(np.int64)


def _bytes(letters: pa.ChunkedArray) -> np.ndarray:
    """A column of single letters as an array."""
    return np.frombuffer("".join(letters.to_pylist()).encode(), np.uint8)


def _checks(
    role: Role, names: pa.ChunkedArray, versions: pa.ChunkedArray
) -> tuple[tuple[CheckIdentity, ...], np.ndarray]:
    """The checks of some results, each in one version, and the number of each result's check."""
    names, versions = (column.combine_chunks().dictionary_encode() for column in (names, versions))
    several = len(versions.dictionary)
    of_name = _numbers(names.indices)
    counts = np.bincount(of_name * several + _numbers(versions.indices))
    found: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for code in np.flatnonzero(counts).tolist():
        name, version = (
            column.dictionary[number].as_py()
            for column, number in zip((names, versions), divmod(code, several), strict=True)
        )
        found[name].append((version, int(counts[code])))
    for name, of_check in found.items():
        if len(of_check) > 1:
            said = ", ".join(
                f"version {version!r} in {counted(count, 'episode')}"
                for version, count in sorted(of_check)
            )
            raise ValueError(
                f"{role}: the latest results of {name!r} are of several versions ({said}): judge "
                "all of them alike, with checks=[…]"
            )
    checks = tuple(CheckIdentity(name, found[name][0][0]) for name in sorted(found))
    place = {check.name: number for number, check in enumerate(checks)}
    numbers = np.array([place[name] for name in names.dictionary.to_pylist()], np.int64)
    return checks, numbers[of_name]


def trial_rows(episodes: Iterable[JudgedEpisode], settings: Iterable[str]) -> list[TrialRow]:
    """The rows of a lock of these episodes."""
    return [
        (e.case_id, e.case_digest, e.seed, e.repeat, setting)
        for e, setting in zip(episodes, settings, strict=True)
    ]


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
