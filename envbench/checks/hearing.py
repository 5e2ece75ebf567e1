"""How a policy is applied to a report: what it finds and measures, and what that comes to.

A case counts once, however many attempts and repeats it has: it is the worst of those judged. A
failure is certain whatever the other attempts are; a pass needs every one of them.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from envbench.checks.attempts import Attempts
from envbench.checks.decision import Decision, Finding, Measurement, Verdict
from envbench.checks.lines import excerpt, in_episodes, named, why
from envbench.checks.rows import CheckResult, JudgedEpisode

if TYPE_CHECKING:
    from envbench.checks.acceptance import AcceptancePolicy, CheckRequirement, SliceRequirement
    from envbench.checks.report import Report


def hear(policy: AcceptancePolicy, report: Report) -> Decision:
    """Apply a policy to a report."""
    hearing = _Hearing(policy, report)
    hearing.hear_all()
    return Decision(
        decision=_verdict(hearing.findings),
        findings=tuple(sorted(hearing.findings, key=lambda found: _KINDS.index(found.kind))),
        measurements=tuple(hearing.measurements),
        policy=policy,
        report_id=report.report_id,
        report_digest=report.digest,
    )


_KINDS = ("quality", "evidence", "note")


def _verdict(findings: Iterable[Finding]) -> Verdict:
    kinds = {finding.kind for finding in findings}
    if "quality" in kinds:
        return "reject"
    return "indeterminate" if "evidence" in kinds else "accept"


@dataclasses.dataclass(frozen=True, slots=True)
class _Case:
    """One case of the report and its episodes that are judged."""

    case_id: str
    attempts: list[JudgedEpisode]

    def has_tag(self, tag: str) -> bool:
        return any(tag in attempt.tags for attempt in self.attempts)


@dataclasses.dataclass(frozen=True, slots=True)
class _Tally:
    """What one check came to in the cases of one scope."""

    cases: int
    measured: int
    passed: int
    unknown: int
    errors: int
    failed_cases: tuple[str, ...]
    """Ids of the cases in which it failed."""
    failures: tuple[str, ...]
    """Ids of the episodes in which it failed."""
    unmeasured: tuple[str, ...]
    """Ids of the episodes in which it was not measured."""
    why_unmeasured: str
    """The first reason of each kind why it was not measured, in brackets; empty for none."""

    @property
    def failed(self) -> int:
        return len(self.failed_cases)


class _Hearing:
    """One policy applied to one report: collects findings and measurements."""

    def __init__(self, policy: AcceptancePolicy, report: Report) -> None:
        self.policy = policy
        self.report = report
        self.findings: list[Finding] = []
        self.measurements: list[Measurement] = []
        self.attempts = Attempts.of(report.episodes)
        all_of_them = policy.trial_scope == "all_attempts"
        self.judged = report.episodes if all_of_them else self.attempts.final
        cases: dict[str, list[JudgedEpisode]] = defaultdict(list)
        for episode in self.judged:
            cases[episode.case_id].append(episode)
        self.cases = [_Case(case_id, attempts) for case_id, attempts in cases.items()]
        self.results = {(row.episode_id, row.check): row for row in report.results}

    def hear_all(self) -> None:
        self.hear_recoveries()
        self.hear_cases()
        self.hear_coverage_issues()
        self.hear_evaluator_errors()
        self.hear_sources()
        known = {check.name for check in self.report.checks}
        required = [check for check in self.policy.checks if check.name in known]
        for check in self.policy.checks:
            if check.name not in known:
                has = ", ".join(sorted(known))
                self.evidence("missing_check", f"{check.name}: not in the report, which has {has}")
        for check in required:
            self.hear_check(check, self.cases, None)
        for part in self.policy.slices:
            members = [case for case in self.cases if case.has_tag(part.tag)]
            if len(members) < part.min_cases:
                self.evidence(
                    "too_few_slice_cases",
                    f"cases with this tag: {len(members)}; at least {part.min_cases} required",
                    scope=_scope(part),
                )
            for check in required:
                self.hear_check(check, members, part)
        self.hear_other_checks()

    def quality(self, code: str, message: str, scope: str, episodes: Iterable[str]) -> None:
        self.findings.append(Finding("quality", code, scope, message, tuple(episodes)))

    def evidence(
        self, code: str, message: str, *, scope: str = "all", episodes: Iterable[str] = ()
    ) -> None:
        self.findings.append(Finding("evidence", code, scope, message, tuple(episodes)))

    def note(self, code: str, message: str, episodes: Iterable[str]) -> None:
        self.findings.append(Finding("note", code, "all", message, tuple(episodes)))

    def hear_recoveries(self) -> None:
        for recovery in self.attempts.orphans:
            self.note(
                "previous_not_in_report",
                f"{recovery.case_id}: a recovery of episode {recovery.previous}, which is not in "
                "this report and is not approved by it",
                [recovery.episode_id],
            )
        if self.policy.trial_scope == "all_attempts":
            return
        for recovery in self.attempts.foreign:
            self.evidence(
                "recovery_of_other_case",
                f"{recovery.case_id}: said to be a recovery of episode {recovery.previous}, which "
                "answers another case or definition; both are judged",
                episodes=[recovery.episode_id],
            )
        if self.attempts.looped:
            self.evidence(
                "recovery_loop",
                "recovery links form a loop, which has no last attempt; all of it is judged",
                episodes=[episode.episode_id for episode in self.attempts.looped],
            )
        for episode in self.attempts.superseded:
            self.note("superseded_attempt", self._superseded(episode), [episode.episode_id])
        self.measurements.append(
            Measurement(
                metric="superseded_attempts",
                scope="all",
                value=len(self.attempts.superseded),
                cases=len(self.cases),
            )
        )

    def _superseded(self, episode: JudgedEpisode) -> str:
        results = [self.results[episode.episode_id, check.name] for check in self.report.checks]
        verdicts = ", ".join(f"{result.check} {_word(result)}" for result in results)
        issues = "".join(f"; {issue}" for issue in episode.coverage_issues)
        return (
            f"{episode.case_id}: an attempt that ended as {episode.ending} was recovered from and "
            f"is not judged ({verdicts}{issues})"
        )

    def hear_cases(self) -> None:
        found, needed = len(self.cases), self.policy.min_cases
        if found < needed:
            self.evidence("too_few_cases", f"cases: {found}; at least {needed} required")
        definitions: dict[str, set[str]] = defaultdict(set)
        for episode in self.report.episodes:
            definitions[episode.case_id].add(episode.case_digest)
        for case_id, digests in definitions.items():
            if len(digests) > 1:
                self.evidence(
                    "case_redefined",
                    f"{case_id}: the report holds {len(digests)} definitions of this case",
                    episodes=[e.episode_id for e in self.report.episodes if e.case_id == case_id],
                )

    def hear_coverage_issues(self) -> None:
        having: dict[str, list[JudgedEpisode]] = defaultdict(list)
        for episode in self.judged:
            for issue in dict.fromkeys(episode.coverage_issues):
                having[issue].append(episode)
        for issue, episodes in having.items():
            cases = [episode.case_id for episode in episodes]
            self.evidence(
                "coverage_issue",
                f"{issue} ({in_episodes(cases, len(self.judged))})",
                episodes=[episode.episode_id for episode in episodes],
            )

    def hear_evaluator_errors(self) -> None:
        failed = [
            result
            for episode in self.judged
            for check in self.report.checks
            if (result := self.results[episode.episode_id, check.name]).error is not None
        ]
        cases, errors = len(self.cases), len({result.case_id for result in failed})
        rate = errors / cases if cases else None
        self.measurements.append(
            Measurement(metric="error_rate", scope="all", value=rate, cases=cases, errors=errors)
        )
        if rate is not None and rate > self.policy.max_error_rate:
            names = ", ".join(dict.fromkeys(result.check for result in failed))
            self.evidence(
                "evaluator_errors",
                f"a check itself failed in {errors} of {cases} cases ({names}); the error rate "
                f"may be {self.policy.max_error_rate} at most",
                episodes=dict.fromkeys(result.episode_id for result in failed),
            )

    def hear_sources(self) -> None:
        needed = self.policy.min_source_groups
        if not needed:
            return
        sources = {e.source_id for e in self.judged if e.source_id is not None}
        self.measurements.append(
            Measurement(
                metric="source_groups", scope="all", value=len(sources), cases=len(self.cases)
            )
        )
        if len(sources) < needed:
            self.evidence(
                "too_few_source_groups",
                f"source groups: {len(sources)}; at least {needed} required",
            )
        for case in self.cases:
            of_case = {attempt.source_id for attempt in case.attempts}
            if None in of_case or len(of_case) > 1:
                said = "no source group" if None in of_case else "several source groups"
                self.evidence(
                    "unclear_source_group",
                    f"{case.case_id}: has {said}",
                    episodes=[attempt.episode_id for attempt in case.attempts],
                )

    def hear_check(
        self, check: CheckRequirement, cases: Sequence[_Case], part: SliceRequirement | None
    ) -> None:
        tally = self._tally(check.name, cases)
        scope = _scope(part)
        needed = check.min_cases if part is None else part.min_cases
        min_coverage = max(check.min_coverage, part.min_coverage if part else 0)
        min_rate = max(check.min_pass_rate, part.min_pass_rate if part else 0)
        verdicts = tally.passed + tally.failed
        rate = tally.passed / verdicts if verdicts else None
        coverage = tally.measured / tally.cases if tally.cases else None
        self.measurements.append(
            Measurement(
                metric="pass_rate",
                scope=scope,
                check=check.name,
                value=rate,
                cases=tally.cases,
                measured=tally.measured,
                passed=tally.passed,
                failed=tally.failed,
                unknown=tally.unknown,
                errors=tally.errors,
                coverage=coverage,
                lower=tally.passed / tally.cases if tally.cases else None,
                upper=(tally.cases - tally.failed) / tally.cases if tally.cases else None,
            )
        )
        if check.critical and tally.failures:
            message = (
                f"{check.name}: critical, and it failed in {tally.failed} of {tally.cases} cases "
                f"({named(tally.failed_cases)})"
            )
            self.quality("critical_failure", message, scope, tally.failures)
        elif rate is not None and rate < min_rate:
            self.quality("pass_rate", _low_rate(check.name, tally, min_rate), scope, tally.failures)
        if tally.measured < needed:
            self.evidence(
                "too_few_measured",
                f"{check.name}: cases measured: {tally.measured}; at least {needed} required"
                f"{tally.why_unmeasured}",
                scope=scope,
                episodes=tally.unmeasured,
            )
        if coverage is not None and coverage < min_coverage:
            self.evidence(
                "coverage",
                f"{check.name}: measured in {tally.measured} of {tally.cases} cases "
                f"({tally.unknown} unknown, {tally.errors} errors); a coverage of at least "
                f"{min_coverage} is required{tally.why_unmeasured}",
                scope=scope,
                episodes=tally.unmeasured,
            )

    def _tally(self, check: str, cases: Sequence[_Case]) -> _Tally:
        by_word: dict[str, list[str]] = {word: [] for word in _WORST_FIRST}
        episodes: dict[str, list[str]] = {word: [] for word in _WORST_FIRST}
        measured = 0
        for case in cases:
            words = set()
            for attempt in case.attempts:
                word = _word(self.results[attempt.episode_id, check])
                words.add(word)
                episodes[word].append(attempt.episode_id)
            by_word[min(words, key=_WORST_FIRST.index)].append(case.case_id)
            measured += words <= {"passed", "failed"}
        return _Tally(
            cases=len(cases),
            measured=measured,
            passed=len(by_word["passed"]),
            unknown=len(by_word["unknown"]),
            errors=len(by_word["error"]),
            failed_cases=tuple(by_word["failed"]),
            failures=tuple(episodes["failed"]),
            unmeasured=tuple(episodes["error"] + episodes["unknown"]),
            why_unmeasured=_why_unmeasured(
                self.results[ids[0], check]
                for ids in (episodes["unknown"], episodes["error"])
                if ids
            ),
        )

    def hear_other_checks(self) -> None:
        required = {check.name for check in self.policy.checks}
        for check in self.report.checks:
            failures = [
                episode.episode_id
                for episode in self.judged
                if self.results[episode.episode_id, check.name].passed is False
            ]
            if check.name not in required and failures:
                self.note(
                    "failures_outside_policy",
                    f"{check.name}: not in the policy; it failed in {len(failures)} of "
                    f"{len(self.judged)} episodes",
                    failures,
                )


_WORST_FIRST = ("failed", "error", "unknown", "passed")
"""A case is the worst of its attempts: one failure decides it, whatever the others are."""


def _word(result: CheckResult) -> str:
    if result.error is not None:
        return "error"
    return {True: "passed", False: "failed", None: "unknown"}[result.passed]


def _scope(part: SliceRequirement | None) -> str:
    return "all" if part is None else f"tag:{part.tag}"


def _why_unmeasured(results: Iterable[CheckResult]) -> str:
    reasons = [f"{_word(result)}: {excerpt(why(result))}" for result in results]
    return f" ({'; '.join(reasons)})" if reasons else ""


def _low_rate(check: str, tally: _Tally, min_rate: float) -> str:
    missing = tally.unknown + tally.errors
    text = (
        f"{check}: {tally.passed} of {tally.passed + tally.failed} measured cases passed, of "
        f"{tally.cases} in all; a pass rate of at least {min_rate} is required; "
        f"failed: {named(tally.failed_cases)}"
    )
    best = tally.cases - tally.failed
    if missing and best / tally.cases >= min_rate:
        text += f" (if the {missing} not measured had passed, it would be {best} of {tally.cases})"
    return text
