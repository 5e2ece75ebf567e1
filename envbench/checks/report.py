"""`Report`: what checks found in episodes, complete or refused.

A report holds exactly one result for each of its checks on each of its episodes, so that no
failure can be left out of a denominator. It keeps what a decision needs to know of the episodes
(tags, source, repeat, recovery link, ending, coverage issues) and the lock, and not the evidence.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envbench.checks.lines import counted, in_episodes, shortened, visible, why
from envbench.checks.lock import Lock
from envbench.checks.rows import RESULT_COLUMNS, CheckIdentity, CheckResult, JudgedEpisode
from envbench.checks.shape import Kinds, at, expect, expect_schema, read_object
from envbench.evidence.episode import write_atomically
from envbench.evidence.portable import Json, canonical, parse

if TYPE_CHECKING:
    import polars as pl

    from envbench.store import Store

SCHEMA = "envbench.report/v1"


@dataclasses.dataclass(frozen=True, slots=True)
class Rate:
    """How often a check passed, and everything that keeps this from being the whole truth.

    Attributes:
        passed: episodes in which it passed.
        failed: episodes in which it failed.
        unknown: episodes in which the observation it needs is missing.
        errors: episodes in which the check itself failed.
        total: all episodes of the report.
    """

    passed: int
    failed: int
    unknown: int
    errors: int
    total: int

    @property
    def lower(self) -> float | None:
        """The rate if everything that was not measured had failed; None with no episode."""
        return self.passed / self.total if self.total else None

    @property
    def upper(self) -> float | None:
        """The rate if everything that was not measured had passed; None with no episode."""
        return (self.total - self.failed) / self.total if self.total else None

    def __str__(self) -> str:
        text = f"{self.passed} of {self.total} passed, {self.failed} failed"
        if self.passed + self.failed == self.total:
            return text
        return (
            f"{text}, {self.unknown} unknown, {self.errors} errors: "
            f"between {self.passed}/{self.total} and {self.total - self.failed}/{self.total}"
        )


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Report:
    """What checks found in episodes; made by `evaluate` and `evaluate_episode`.

    Two reports are equal when their digests are. The digest shows that a saved report was
    altered, not who made it.

    Attributes:
        report_id: the report's own id, a UUID of version 7.
        name: what the caller called it.
        created_at: when the checks were applied, UTC with microseconds.
        checks: the checks in the order given.
        episodes: the episodes in the order given.
        results: one row a check and episode, in order of episodes and then checks.
        lock: what must be equal for another report to be comparable.
        digest: SHA-256 over all of this.

    Raises:
        ValueError: naming the place, when the parts do not fit together.
    """

    report_id: str
    name: str
    created_at: str
    checks: tuple[CheckIdentity, ...]
    episodes: tuple[JudgedEpisode, ...]
    results: tuple[CheckResult, ...]
    lock: Lock
    digest: str = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        _refuse_misfit(self)
        digest = hashlib.sha256(canonical(self._content())).hexdigest()
        object.__setattr__(self, "digest", digest)

    @property
    def coverage_issues(self) -> list[str]:
        """What the evidence does not cover, one line an issue with its case and episode."""
        return [
            f"{episode.case_id} (episode {episode.episode_id}): {issue}"
            for episode in self.episodes
            for issue in episode.coverage_issues
        ]

    def rates(self) -> dict[str, Rate]:
        """How often each check passed, by its name, over all episodes and attempts."""
        counts: dict[str, Counter[str]] = {check.name: Counter() for check in self.checks}
        for result in self.results:
            counts[result.check][_outcome(result)] += 1
        total = len(self.episodes)
        return {
            name: Rate(**{kind: count[kind] for kind in _OUTCOMES}, total=total)
            for name, count in counts.items()
        }

    def frame(self) -> pl.DataFrame:
        """The results as a Polars frame, one row a check and episode; evidence is JSON text."""
        import polars as pl

        schema = {name: pl.String() for name in RESULT_COLUMNS} | {"passed": pl.Boolean()}
        rows = [dataclasses.astuple(result) for result in self.results]
        return pl.DataFrame(rows, schema=schema, orient="row")

    def to_dict(self) -> dict[str, Json]:
        """The report as portable JSON."""
        return {**self._content(), "digest": self.digest}

    @classmethod
    def from_dict(cls, value: Json) -> Report:
        """Read what `to_dict` gave.

        Raises:
            ValueError: naming the place of what does not fit, or saying that it was altered.
        """
        if type(value) is dict and "schema" in value:
            expect_schema(value, SCHEMA)
        fields = read_object(value, _FIELDS, "")
        report = cls(
            fields["report_id"],
            fields["name"],
            fields["created_at"],
            _read_rows(CheckIdentity, fields["checks"], "/checks"),
            _read_rows(JudgedEpisode, fields["episodes"], "/episodes"),
            _read_rows(CheckResult, fields["results"], "/results"),
            Lock.from_dict(fields["lock"], "/lock"),
        )
        if report.digest != fields["digest"]:
            raise ValueError(
                f"/digest: is {fields['digest']}, and the content has {report.digest}: "
                "the report was altered after it was saved"
            )
        return report

    def save_json(self, path: str | os.PathLike[str]) -> None:
        """Write the report to a JSON file, which is complete or not there."""
        write_atomically(Path(path), canonical(self.to_dict()) + b"\n")

    @classmethod
    def load_json(cls, path: str | os.PathLike[str]) -> Report:
        """Read a report that `save_json` wrote.

        Raises:
            OSError: when the file cannot be read.
            ValueError: naming file and place, when it is no report or was altered.
        """
        try:
            return cls.from_dict(parse(Path(path).read_bytes(), unique_keys=True))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None

    def save(self, store: Store) -> None:
        """Keep the report in a store; saving it twice keeps it once.

        Raises:
            TypeError: when `store` is none, such as a path.
            ValueError: when the store has another report under this id.
            StoreError: when the store cannot be written.
        """
        from envbench.checks import saved

        saved.save_report(store, self)

    @classmethod
    def load(cls, store: Store, report_id: str) -> Report:
        """Read a report that `save` kept; it is equal to the one saved.

        Raises:
            TypeError: when `store` is none, such as a path.
            KeyError: when the store has no such report.
            ValueError: when what the store has of it does not fit, or was altered.
        """
        from envbench.checks import saved

        return saved.load_report(store, report_id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Report) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return "\n".join(_lines(self))

    def _content(self) -> dict[str, Json]:
        return {
            "schema": SCHEMA,
            "report_id": self.report_id,
            "name": self.name,
            "created_at": self.created_at,
            "checks": [check.to_dict() for check in self.checks],
            "episodes": [episode.to_dict() for episode in self.episodes],
            "results": [result.to_dict() for result in self.results],
            "lock": self.lock.to_dict(),
        }


def now() -> str:
    """The time as reports and decisions keep it: ISO 8601, UTC, with microseconds."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")


_OUTCOMES = ("passed", "failed", "unknown", "errors")

_SECTIONS = (("Failed", "failed"), ("Unknown", "unknown"), ("Evaluator errors", "errors"))

_FIELDS: dict[str, Kinds] = {
    "schema": str,
    "report_id": str,
    "name": str,
    "created_at": str,
    "checks": list,
    "episodes": list,
    "results": list,
    "lock": dict,
    "digest": str,
}


def _refuse_misfit(report: Report) -> None:
    for name in ("report_id", "name", "created_at"):
        expect(getattr(report, name), str, at("", name))
    _refuse_time(report.created_at)
    if not report.checks:
        raise ValueError("/checks: is empty; a report has at least one check")
    _refuse_twice((check.name for check in report.checks), "/checks", "name")
    _refuse_twice((episode.episode_id for episode in report.episodes), "/episodes", "episode_id")
    if dict(report.lock.checks) != dict(report.checks):
        raise ValueError("/lock/checks: are not the checks of the report")
    trials = {(e.case_id, e.case_digest, e.seed, e.repeat) for e in report.episodes}
    if {row[:-1] for row in report.lock.rows()} != trials:
        raise ValueError("/lock/trials: are not those of the report's episodes")
    due = [(episode, check) for episode in report.episodes for check in report.checks]
    for index, (result, pair) in enumerate(zip(report.results, due, strict=False)):
        _refuse_misplaced(result, *pair, at("/results", index))
    if len(report.results) != len(due):
        raise ValueError(
            f"/results: {len(report.results)} are there, and {len(report.checks)} checks of "
            f"{len(report.episodes)} episodes make {len(due)}"
        )


def _refuse_time(text: str) -> None:
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        moment = datetime.datetime.min
    if moment.utcoffset() != datetime.timedelta() or (
        text != moment.isoformat(timespec="microseconds")
    ):
        raise ValueError(f"/created_at: {text!r} is not a time in UTC with microseconds")


def _refuse_twice(names: Iterable[str], place: str, field: str) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise ValueError(f"{place}: {field} {name!r} is there {count} times, not once")


def _refuse_misplaced(
    result: CheckResult, episode: JudgedEpisode, check: CheckIdentity, place: str
) -> None:
    due = {
        "episode_id": episode.episode_id,
        "case_id": episode.case_id,
        "check": check.name,
        "version": check.version,
    }
    for name, value in due.items():
        found = getattr(result, name)
        if found != value:
            raise ValueError(f"{at(place, name)}: is {found!r}, and {value!r} is due here")
    if result.passed is None:
        return
    expect(result.passed, bool, at(place, "passed"))
    if result.error is not None:
        raise ValueError(f"{at(place, 'passed')}: a check that failed has no verdict")


def _outcome(result: CheckResult) -> str:
    if result.error is not None:
        return "errors"
    if result.passed is None:
        return "unknown"
    return "passed" if result.passed else "failed"


def _read_rows(kind: Any, values: list[Json], place: str) -> tuple[Any, ...]:
    return tuple(kind.from_dict(value, at(place, i)) for i, value in enumerate(values))


def _lines(report: Report) -> Iterator[str]:
    n_cases = len({episode.case_id for episode in report.episodes})
    yield visible(
        f"Report {report.name!r} ({report.report_id}): "
        f"{counted(len(report.episodes), 'episode')} of {counted(n_cases, 'case')}"
    )
    width = max(len(check.name) for check in report.checks)
    rates = report.rates()
    for check in report.checks:
        yield visible(f"  {check.name:{width}}  {rates[check.name]}  [{check.version}]")
    total = len(report.episodes)
    for title, kind in _SECTIONS:
        found: dict[tuple[str, str], list[str]] = defaultdict(list)
        for result in report.results:
            if _outcome(result) == kind:
                found[result.check, why(result)].append(result.case_id)
        lines = [
            f"    {check}, {cases[0]}: {text}"
            if len(cases) == 1
            else f"    {check}: {text} ({in_episodes(cases, total)})"
            for (check, text), cases in found.items()
        ]
        yield from _section(title, lines)
    issues: dict[str, list[JudgedEpisode]] = defaultdict(list)
    for episode in report.episodes:
        for issue in dict.fromkeys(episode.coverage_issues):
            issues[issue].append(episode)
    lines = [
        f"    {episodes[0].case_id} (episode {episodes[0].episode_id}): {issue}"
        if len(episodes) == 1
        else f"    {issue} ({in_episodes([episode.case_id for episode in episodes], total)})"
        for issue, episodes in issues.items()
    ]
    yield from _section("Coverage issues", lines)


def _section(title: str, lines: list[str]) -> Iterator[str]:
    if lines:
        yield f"  {title}:"
        yield from shortened(lines)
