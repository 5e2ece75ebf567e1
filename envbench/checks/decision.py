"""`Decision`: what a policy came to on a report, and everything that it rests on."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from envbench.checks.lines import shortened, visible
from envbench.checks.report import now
from envbench.evidence.portable import Json
from envbench.evidence.record import new_id

if TYPE_CHECKING:
    from envbench.checks.acceptance import AcceptancePolicy
    from envbench.store import Store

SCHEMA = "envbench.decision/v1"

Verdict: TypeAlias = Literal["accept", "reject", "indeterminate"]
Kind: TypeAlias = Literal["quality", "evidence", "note"]
Metric: TypeAlias = Literal["pass_rate", "error_rate", "source_groups", "superseded_attempts"]


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """Something that bears on a decision.

    Attributes:
        kind: `quality` rejects; `evidence` makes an otherwise accepted report indeterminate;
            `note` is shown and decides nothing.
        code: names the kind of finding for programs.
        scope: `all`, or `tag:NAME` for a slice.
        message: one line for a person.
        episode_ids: the episodes that it rests on, where it is about some.
    """

    kind: Kind
    code: str
    scope: str
    message: str
    episode_ids: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A figure that a decision rests on; what does not apply to its metric is None.

    Attributes:
        metric: `pass_rate` (of a check), `error_rate` (cases in which a check itself failed),
            `source_groups`, or `superseded_attempts` (with `final_attempt`).
        scope: `all`, or `tag:NAME` for a slice.
        value: the figure. A pass rate is passed over passed and failed, an error rate errors over
            cases, the others are numbers. None where the denominator is 0.
        cases: all distinct cases in the scope.
        check: the check of a pass rate.
        measured: cases measured in every attempt judged.
        passed: cases that passed in every attempt judged.
        failed: cases that failed in an attempt.
        unknown: cases neither passed nor failed for want of an observation.
        errors: cases neither passed nor failed because a check itself failed.
        coverage: measured over cases.
        lower: the pass rate over all cases if what is missing had failed.
        upper: the pass rate over all cases if what is missing had passed.
    """

    metric: Metric
    scope: str
    value: float | None
    cases: int
    check: str | None = None
    measured: int | None = None
    passed: int | None = None
    failed: int | None = None
    unknown: int | None = None
    errors: int | None = None
    coverage: float | None = None
    lower: float | None = None
    upper: float | None = None

    def __str__(self) -> str:
        if self.metric == "error_rate":
            return f"evaluator errors: {self.errors} of {self.cases} cases"
        if self.metric != "pass_rate":
            return f"{self.metric.replace('_', ' ')}: {self.value} ({self.cases} cases)"
        assert self.failed is not None
        text = f"{self.check}: {self.passed} of {self.cases} cases passed, {self.failed} failed"
        if self.unknown or self.errors:
            text += (
                f", {self.unknown} unknown, {self.errors} errors: "
                f"between {self.passed}/{self.cases} and {self.cases - self.failed}/{self.cases}"
            )
        return text if self.scope == "all" else f"{self.scope}  {text}"


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Decision:
    """What a policy came to on a report.

    Its truth value is an error: a rejection must not pass for a yes.

    Attributes:
        decision: `accept`, `reject` or `indeterminate`.
        findings: what it rests on, in the order quality, evidence, notes.
        measurements: the figures behind them, each with its denominator and bounds.
        policy: the policy applied.
        report_id: the report judged.
        report_digest: digest of the report judged.
        decision_id: the decision's own id, a UUID of version 7; not part of equality.
        decided_at: when, UTC with microseconds; not part of equality.
    """

    decision: Verdict
    findings: tuple[Finding, ...]
    measurements: tuple[Measurement, ...]
    policy: AcceptancePolicy
    report_id: str
    report_digest: str
    decision_id: str = dataclasses.field(default_factory=new_id, compare=False)
    decided_at: str = dataclasses.field(default_factory=now, compare=False)

    @property
    def exit_code(self) -> int:
        """The exit code for scripts: 0 accept, 1 reject, 2 indeterminate."""
        return EXIT_CODES[self.decision]

    def assert_accepted(self) -> None:
        """Do nothing when the report was accepted.

        Raises:
            NotAccepted: when it was not, with the findings in its message.
        """
        if self.decision != "accept":
            raise NotAccepted(self)

    def to_dict(self) -> dict[str, Json]:
        """The decision as portable JSON."""
        return {
            "schema": SCHEMA,
            "decision_id": self.decision_id,
            "decided_at": self.decided_at,
            "decision": self.decision,
            "exit_code": self.exit_code,
            "report_id": self.report_id,
            "report_digest": self.report_digest,
            "policy": self.policy.to_dict(),
            "findings": [
                {**dataclasses.asdict(finding), "episode_ids": list(finding.episode_ids)}
                for finding in self.findings
            ],
            "measurements": [dataclasses.asdict(figure) for figure in self.measurements],
        }

    def save(self, store: Store) -> None:
        """Keep the decision in a store that has its report; saving it twice keeps it once.

        Raises:
            TypeError: when `store` is none, such as a path.
            ValueError: when the store does not have the report.
            StoreError: when the store cannot be written.
        """
        from envbench.checks import saved

        saved.save_decision(store, self)

    def __bool__(self) -> bool:
        raise TypeError(
            "a decision has three values: compare .decision, or call .assert_accepted()"
        )

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return "\n".join(_lines(self))


class NotAccepted(AssertionError):
    """A report was not accepted.

    Attributes:
        decision: the decision, with all its findings and measurements.
    """

    def __init__(self, decision: Decision) -> None:
        super().__init__(str(decision))
        self.decision = decision


_OF_CHECKS = {"missing_check", "critical_failure", "pass_rate", "too_few_measured", "coverage"}
"""The codes of findings whose message begins with the name of a check of the policy."""

EXIT_CODES: Mapping[Verdict, int] = {"accept": 0, "reject": 1, "indeterminate": 2}


def _lines(decision: Decision) -> Iterator[str]:
    yield visible(f"{decision.decision.upper()} (report {decision.report_id})")
    for kind in ("quality", "evidence", "note"):
        found = [finding for finding in decision.findings if finding.kind == kind]
        names = [check.name for check in decision.policy.checks]
        yield from shortened([f"  {kind:8}  {text}" for text in _grouped(found, names)])
    for measurement in decision.measurements:
        yield visible(f"  measured  {measurement}")


def _grouped(findings: Sequence[Finding], names: Sequence[str]) -> Iterator[str]:
    """One text for the findings that say the same of several checks, in order of the first."""
    groups: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for finding in findings:
        begun = [name for name in names if finding.message.startswith(f"{name}: ")]
        check = max(begun, key=len, default="") if finding.code in _OF_CHECKS else ""
        rest = finding.message.removeprefix(f"{check}: ") if check else finding.message
        groups[finding.code, finding.scope, rest].append(check)
    for (_, scope, rest), checks in groups.items():
        subject = ", ".join(dict.fromkeys(checks))
        yield f"{'' if scope == 'all' else f'{scope}  '}{f'{subject}: ' if subject else ''}{rest}"
