"""What was said of an episode: results of checks and forbidden changes, each with its steps.

They come from a report, from rules that are applied now, or from the store that the episode was
read from: there the latest result of each check, with the findings kept beside it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from envbench.changes.rules import Rule
from envbench.changes.violations import find_violations
from envbench.evidence.digest import join_object
from envbench.evidence.portable import Json, canonical, parse
from envbench.evidence.tagged import ABSENT, TAG, encode
from envbench.store.reading import store_of

if TYPE_CHECKING:
    from envbench.checks.report import Report
    from envbench.evidence.episode import EpisodeEvidence
    from envbench.store import Store

MOST_FINDINGS = 1_000
"""Findings that a page lists; of the others it says how many there are."""

LONGEST_VALUE = 2_000
"""Bytes of a value that is listed whole; the steps show longer ones whole."""


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What was said of one episode, as canonical JSON.

    Attributes:
        checks: an object a result: `name, version, passed, reason, error, evidence, steps,
            report_id`.
        findings: an object a finding: the columns of the table `findings`, without those of
            `before` and `after` that are absent.
        forbidden: the step of each finding, also of those that are not listed.
        restored: the steps at which a forbidden change was put back.
        n_findings: how many findings there are.
    """

    checks: list[bytes]
    findings: list[bytes]
    forbidden: list[int]
    restored: list[int]
    n_findings: int


def verdicts_of(
    episode: EpisodeEvidence, rules: Iterable[Rule] = (), report: Report | None = None
) -> Verdicts:
    """What was said of an episode.

    Args:
        episode: the episode.
        rules: rules on changes, applied now.
        report: results to show instead of those in the store.

    Raises:
        TypeError: when a rule or the report is none.
        ValueError: when the report does not have the episode.
    """
    results, found = _gathered(episode, rules, report)
    last = episode._source.n_steps + 1
    return Verdicts(
        checks=[_check(result, last) for result in results],
        findings=[_finding(each) for each in found[:MOST_FINDINGS]],
        forbidden=[each["step_index"] for each in found],
        restored=[each["restored_at"] for each in found if each["restored_at"] is not None],
        n_findings=len(found),
    )


def findings_of(
    episode: EpisodeEvidence, rules: Iterable[Rule] = (), report: Report | None = None
) -> list[dict[str, Any]]:
    """Every forbidden change that was found in an episode, in order of steps.

    Arguments and errors are those of `verdicts_of`.

    Returns:
        A dict a finding, with the columns of the table `findings`: `rule`, `path`, `kind`,
        `step_index`, `restored_at`, `resolution`, and `before`, `during` and `after` as canonical
        JSON, None for what was absent.
    """
    _, found = _gathered(episode, rules, report)
    return found


def cut(text: bytes) -> bytes:
    """A value as it is listed: one that is long is cut, and says how long it is."""
    if len(text) <= LONGEST_VALUE:
        return text
    whole = text.decode()
    digest = hashlib.sha256(text).hexdigest()
    return canonical({TAG: "cut", "length": len(whole), "sha256": digest, "text": whole[:500]})


def _gathered(
    episode: EpisodeEvidence, rules: Iterable[Rule], report: Report | None
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The results and the findings of an episode."""
    results: list[dict[str, Any]] = []
    found: list[dict[str, Any]] = []
    store = store_of(episode)
    if report is not None:
        results = list(_results_in(report, episode))
        found = [each for result in results for each in _findings_in(result)]
    elif store is not None:
        results = list(_results_in_store(store, episode.episode_id))
        found = list(_findings_in_store(store, episode.episode_id))
    given = tuple(rules)
    if given:
        said = {_fact(each) for each in found}
        found += [each for each in _findings_now(episode, given) if _fact(each) not in said]
    found.sort(key=lambda each: each["step_index"])
    return results, found


def _results_in(report: Report, episode: EpisodeEvidence) -> Iterator[dict[str, Any]]:
    from envbench.checks.report import Report

    if not isinstance(report, Report):
        raise TypeError(f"report must be a Report, not {type(report).__name__}")
    if all(judged.episode_id != episode.episode_id for judged in report.episodes):
        raise ValueError(
            f"report {report.name!r} has no result of episode {episode.episode_id}: give the one"
            " that was made of it, or leave report out"
        )
    for result in report.results:
        if result.episode_id == episode.episode_id:
            yield {
                "report_id": report.report_id,
                "name": result.check,
                "version": result.version,
                "passed": result.passed,
                "reason": result.reason,
                "error": result.error,
                "evidence": result.evidence_json.encode(),
            }


def _results_in_store(store: Store, episode_id: str) -> Iterator[dict[str, Any]]:
    names = ("report_id", "name", "version", "passed", "reason", "error", "evidence")
    with store.cursor() as cursor:
        rows = cursor.execute(_LATEST_RESULTS, [episode_id]).fetchall()
    for row in rows:
        result = dict(zip(names, row, strict=True))
        yield result | {"evidence": (result["evidence"] or "{}").encode()}


def _findings_in_store(store: Store, episode_id: str) -> Iterator[dict[str, Any]]:
    with store.cursor() as cursor:
        rows = cursor.execute(_LATEST_FINDINGS, [episode_id]).fetchall()
    for row in rows:
        finding = dict(zip(_FINDING, row, strict=True))
        for name in _VALUES:
            finding[name] = None if finding[name] is None else finding[name].encode()
        yield finding


def _findings_in(result: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The findings in a result's evidence, as `no_forbidden_changes` puts them there."""
    evidence = parse(result["evidence"])
    listed = evidence.get("findings")
    for each in listed if type(listed) is list else ():
        if type(each) is not dict or not each.keys() >= _KEPT:
            return  # a check of the user's that has findings of its own
        yield {
            **{name: each[name] for name in ("rule", "path", "kind", "restored_at", "resolution")},
            "check_name": result["name"],
            "step_index": each["step"],
            **{name: None if _is_absent(each[name]) else canonical(each[name]) for name in _VALUES},
        }


def _findings_now(episode: EpisodeEvidence, rules: tuple[Rule, ...]) -> list[dict[str, Any]]:
    return [
        {
            "check_name": None,
            "rule": found.rule,
            "path": found.path,
            "kind": found.kind,
            "step_index": found.step,
            "action": encode(found.to_dict()["action"]),
            "restored_at": found.restored_at,
            "before": None if found.before is ABSENT else canonical(found.before),
            "during": b"[%b]" % b",".join(_portable(value) for value in found.during),
            "after": None if found.after is ABSENT else canonical(found.after),
            "resolution": found.resolution,
        }
        for found in find_violations(episode, rules).findings
    ]


def _fact(finding: dict[str, Any]) -> tuple[Any, ...]:
    """What a finding says, whichever check said it."""
    return tuple(finding[name] for name in _FINDING if name != "check_name")


def _check(result: dict[str, Any], last: int) -> bytes:
    plain = ("report_id", "name", "version", "passed", "reason", "error")
    return join_object(
        {
            **{name: canonical(result[name]) for name in plain},
            "evidence": cut(result["evidence"]),
            "steps": canonical(_steps_in(parse(result["evidence"]), last)),
        }
    )


def _steps_in(evidence: Json, last: int) -> list[int]:
    """The steps that a check's evidence names, in order."""
    found: set[int] = set()

    def take(value: Json) -> None:
        if type(value) is int and 0 <= value <= last:
            found.add(value)

    def look(value: Json, depth: int) -> None:
        if type(value) is list and depth:
            for item in value[:MOST_FINDINGS]:
                look(item, depth - 1)
        elif type(value) is dict and TAG not in value:
            for name, item in value.items():
                if name in _STEP_NAMES:
                    for each in item if type(item) is list else (item,):
                        take(each)
                elif depth:
                    look(item, depth - 1)

    look(evidence, 3)
    return sorted(found)[:MOST_FINDINGS]


_STEP_NAMES = frozenset(
    {"step", "steps", "step_index", "steps_index", "at_step", "failed_at", "failed_step"}
)


def _finding(each: dict[str, Any]) -> bytes:
    plain = ("check_name", "rule", "path", "kind", "step_index", "restored_at", "resolution")
    values = {name: cut(each[name]) for name in _VALUES if each[name] is not None}
    return join_object({**{name: canonical(each[name]) for name in plain}, **values})


def _is_absent(value: Json) -> bool:
    return type(value) is dict and value.get(TAG) == "absent"


def _portable(value: Any) -> bytes:
    return canonical({TAG: "absent"}) if value is ABSENT else canonical(value)


_VALUES = ("action", "before", "during", "after")
_KEPT = frozenset(
    {"rule", "path", "kind", "step", "restored_at", "resolution", "action", "before", "during"}
)
_FINDING = (
    "check_name",
    "rule",
    "path",
    "kind",
    "step_index",
    "action",
    "restored_at",
    "before",
    "during",
    "after",
    "resolution",
)

_LATEST_RESULTS = """
SELECT report_id, check_name, check_version, passed, reason, error, evidence
FROM latest_results WHERE episode_id = ? ORDER BY check_name
"""

_LATEST_FINDINGS = f"""
SELECT {", ".join(f"f.{name}" for name in _FINDING)}
FROM findings AS f
SEMI JOIN latest_results AS l
    ON l.report_id = f.report_id AND l.episode_id = f.episode_id AND l.check_name = f.check_name
WHERE f.episode_id = ?
ORDER BY f.step_index, f.check_name, f.finding_index
"""
