"""Episodes of a store or of reports, as the frame that charts of many episodes count from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import polars as pl

from envbench.checks import Report
from envbench.checks.lock import Trial
from envbench.comparison import Episodes
from envbench.evidence.portable import parse
from envbench.store import Store, open_stores

Source: TypeAlias = Report | Sequence[Report] | Store
"""All episodes of a store, or those of a report or of several."""

EPISODES: dict[str, pl.DataType] = {
    "episode_id": pl.String(),
    "environment_id": pl.String(),
    "environment_version": pl.String(),
    "agent_id": pl.String(),
    "ending": pl.String(),
    "n_steps": pl.Int64(),
    "episode_return": pl.Float64(),
}

RESULTS: dict[str, pl.DataType] = {
    "episode_id": pl.String(),
    "check_name": pl.String(),
    "outcome": pl.String(),
}


def episodes_of(
    source: Source, *, store: Store | None, episodes: Episodes | None, needs: Iterable[str] = ()
) -> pl.DataFrame:
    """One row an episode, with the columns of `EPISODES` and `version`.

    Args:
        source: a store, a report, or several reports.
        store: where the episodes of a report are.
        episodes: which episodes of a store are taken; all by default.
        needs: the columns that a report does not keep, so that it needs a store: one that is given,
            or the one connected last that has its episodes.

    Raises:
        TypeError: when the source is another thing.
        ValueError: when a report needs a store, or its episodes are not there, or `episodes` is
            given with reports.
    """
    if isinstance(source, Store):
        where = episodes.condition if episodes is not None else None
        return _named(_in_store(source, where))
    if episodes is not None:
        raise ValueError("episodes= selects from a store: a report has its own")
    reports = _reports(source)
    store = store or _open_store(reports)
    if store is not None:
        ids = pl.DataFrame(
            {"episode_id": [e.episode_id for report in reports for e in report.episodes]},
            schema={"episode_id": pl.String()},
        ).unique()
        found = _in_store(store, None).join(ids, on="episode_id", how="semi")
        if len(found) < len(ids):
            raise ValueError(
                f"{len(ids) - len(found)} of {len(ids)} episodes of the reports are not in {store}"
            )
        return _named(found)
    for name in needs:
        raise ValueError(f"a report does not keep the {name} of episodes: give store= as well")
    rows = {row["episode_id"]: row for report in reports for row in _in_report(report)}
    return _named(pl.DataFrame(list(rows.values()), schema=EPISODES, orient="row"))


def results_of(source: Source) -> pl.DataFrame:
    """One row a check and episode: of reports what they hold, of a store the latest results."""
    if isinstance(source, Store):
        found = source.sql(
            "SELECT episode_id, check_name, CASE WHEN error IS NOT NULL THEN 'error' "
            "WHEN passed IS NULL THEN 'unknown' WHEN passed THEN 'passed' ELSE 'failed' END "
            "AS outcome FROM latest_results"
        ).pl()
        return found.cast(pl.Schema(RESULTS))
    rows = [
        (result.episode_id, result.check, _outcome(result.passed, result.error))
        for report in _reports(source)
        for result in report.results
    ]
    # of an episode in several reports the last one counts
    frame = pl.DataFrame(rows, schema=RESULTS, orient="row")
    return frame.unique(["episode_id", "check_name"], keep="last", maintain_order=True)


def _open_store(reports: list[Report]) -> Store | None:
    """The store connected last that has every episode of the reports, if one is open."""
    ids = {episode.episode_id for report in reports for episode in report.episodes}
    for store in reversed(open_stores()):
        if ids.issubset(id_ for (id_,) in store.sql("SELECT episode_id FROM episodes")):
            return store
    return None


def _reports(source: object) -> list[Report]:
    if isinstance(source, Report):
        return [source]
    if isinstance(source, Sequence) and all(isinstance(one, Report) for one in source):
        return list(source)
    raise TypeError(f"a Store or a Report is needed, or several, not {type(source).__name__}")


def _in_store(store: Store, where: str | None) -> pl.DataFrame:
    condition = "" if where is None else f" WHERE {where}"
    found = store.sql(f"SELECT {', '.join(EPISODES)} FROM episodes{condition}").pl()
    return found.cast(pl.Schema(EPISODES))


def _in_report(report: Report) -> Iterable[dict[str, object]]:
    settings = [_version(parse(text)) for text in report.lock.settings]
    ran: dict[tuple[str, str, int | None, int], set[_Version]] = defaultdict(set)
    for trial in report.lock.trials:
        ran[_trial(trial)].add(settings[trial.setting])
    for episode in report.episodes:
        trial_ = episode.case_id, episode.case_digest, episode.seed, episode.repeat
        version, *others = ran[trial_]
        if others:
            raise ValueError(
                f"report {report.name!r} has several versions of case {episode.case_id!r}, and "
                "does not keep which episode ran on which: give store= as well"
            )
        yield {
            "episode_id": episode.episode_id,
            **dict(zip(_PARTS, version, strict=True)),
            "ending": episode.ending,
            "n_steps": None,
            "episode_return": None,
        }


def _trial(trial: Trial) -> tuple[str, str, int | None, int]:
    return trial.case_id, trial.case_digest, trial.seed, trial.repeat


def _version(setting: dict[str, str | None]) -> _Version:
    environment_id, version, agent_id = (setting[name] for name in _PARTS)
    return environment_id, version, agent_id


_PARTS = ("environment_id", "environment_version", "agent_id")

_Version: TypeAlias = tuple[str | None, str | None, str | None]


def _named(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with the version that each episode ran on, named by what tells versions apart."""
    agent = pl.lit("")
    if frame["agent_id"].n_unique() > 1:
        agent = pl.concat_str(pl.lit(", "), pl.col("agent_id").fill_null("no agent named"))
    version = pl.concat_str(pl.lit(" "), pl.col("environment_version")).fill_null("")
    return frame.with_columns(version=pl.concat_str(pl.col("environment_id"), version, agent)).sort(
        "version", maintain_order=True
    )


def _outcome(passed: bool | None, error: str | None) -> str:
    if error is not None:
        return "error"
    return {True: "passed", False: "failed", None: "unknown"}[passed]
