"""Reports, decisions, violations and verifications as HTML: what went wrong stands first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from envbench.changes import ABSENT
from envbench.evidence.portable import canonical
from envbench.evidence.tagged import encode
from envbench.workbench.markup import counted, fragment, pill, table, text

if TYPE_CHECKING:
    from envbench.changes.diff import Value
    from envbench.changes.violations import Finding, Violations
    from envbench.checks import Decision, Report
    from envbench.checks.decision import Measurement
    from envbench.checks.report import Rate
    from envbench.checks.rows import CheckResult
    from envbench.store.integrity import Problem, Verification

ROWS = 12
"""Rows of one kind that are shown; it is said how many more there are."""

LONGEST = 300
"""Characters of one value or reason that are shown."""


def report_html(report: Report) -> str:
    """A report: each check's counts over all episodes, then what failed, is unknown or erred."""
    rates = report.rates()
    order = sorted(
        range(len(report.checks)),
        key=lambda i: _severity(rates[report.checks[i].name]),
    )
    cases = len({episode.case_id for episode in report.episodes})
    issues = [
        [text(episode.case_id), _code(episode.episode_id), text(issue)]
        for episode in report.episodes
        for issue in dict.fromkeys(episode.coverage_issues)
    ]
    return fragment(
        f'<p class="envbench-title">Report {text(report.name)}</p>',
        f'<p class="envbench-soft">{counted(len(report.episodes), "episode")} of '
        f"{counted(cases, 'case')}, {counted(len(report.checks), 'check')}; report "
        f"{_code(report.report_id)}</p>",
        table(
            ["", "Check", "Passed", "Failed", "Unknown", "Errors", "Episodes", "Pass rate"],
            [
                [
                    pill(_word(rates[check.name])),
                    f'{text(check.name)}<span class="envbench-type">{text(check.version)}</span>',
                    *(f"{count:,}" for count in _counts(rates[check.name])),
                    _rate(rates[check.name]),
                ]
                for check in (report.checks[i] for i in order)
            ],
            numbers=range(2, 7),
        ),
        *(_results(title, kind, report.results) for title, kind in _KINDS),
        _listed("Coverage issues", ["Case", "Episode", "Not covered"], issues),
    )


_KINDS = (("Failed", "failed"), ("Evaluator errors", "error"), ("Unknown", "unknown"))


def _severity(rate: Rate) -> tuple[bool, bool, bool]:
    return rate.failed == 0, rate.errors == 0, rate.unknown == 0


def _word(rate: Rate) -> str:
    if rate.failed:
        return "failed"
    return "error" if rate.errors else "unknown" if rate.unknown or not rate.total else "passed"


def _counts(rate: Rate) -> tuple[int, ...]:
    return rate.passed, rate.failed, rate.unknown, rate.errors, rate.total


def _rate(rate: Rate) -> str:
    """The rate with its denominators; where something is missing, between what and what."""
    measured = rate.passed + rate.failed
    if measured == rate.total:
        return f'<span class="envbench-short">{rate.passed:,} of {rate.total:,}</span>'
    low, high = rate.passed, rate.total - rate.failed
    return (
        f'<span class="envbench-short">{rate.passed:,} of {measured:,} measured</span>'
        f'<span class="envbench-type envbench-short">{rate.total - measured:,} missing: between '
        f"{low:,}/{rate.total:,} and {high:,}/{rate.total:,}</span>"
    )


def _results(title: str, kind: str, results: Iterable[CheckResult]) -> str:
    rows = [
        [
            text(result.check),
            text(result.case_id),
            _code(result.episode_id),
            text(_cut(result.error or result.reason or "no reason was given")),
        ]
        for result in results
        if _outcome(result) == kind
    ]
    return _listed(title, ["Check", "Case", "Episode", "Reason"], rows)


def _outcome(result: CheckResult) -> str:
    if result.error is not None:
        return "error"
    return {True: "passed", False: "failed", None: "unknown"}[result.passed]


def decision_html(decision: Decision) -> str:
    """A decision: its word, the findings it rests on, and the figures behind them."""
    order = {"quality": 0, "evidence": 1, "note": 2}
    findings = sorted(decision.findings, key=lambda finding: order[finding.kind])
    return fragment(
        f'<p class="envbench-title">{pill(decision.decision)} <span class="envbench-soft">'
        f"exit code {decision.exit_code}, report {_code(decision.report_id)}</span></p>",
        _listed(
            "Findings",
            ["Kind", "Scope", "Finding"],
            [[text(each.kind), text(each.scope), text(_cut(each.message))] for each in findings],
        ),
        _listed(
            "Measurements",
            ["Measured", "Scope", "Passed", "Failed", "Unknown", "Errors", "Cases", "Value"],
            [_measurement(each) for each in decision.measurements],
            numbers=range(2, 8),
        ),
    )


def _measurement(figure: Measurement) -> list[str]:
    counts = (figure.passed, figure.failed, figure.unknown, figure.errors, figure.cases)
    name = figure.check or figure.metric.replace("_", " ")
    value = "not measured" if figure.value is None else f"{figure.value:.4g}"
    if figure.lower is not None and figure.upper is not None and figure.lower != figure.upper:
        value += (
            f'<span class="envbench-type">between {figure.lower:.4g} and {figure.upper:.4g}</span>'
        )
    return [text(name), text(figure.scope), *("" if n is None else f"{n:,}" for n in counts), value]


def violations_html(violations: Violations) -> str:
    """What rules say of an episode: each change not allowed, and what was not looked at."""
    word = {True: "passed", False: "failed", None: "unknown"}[violations.passed]
    count = len(violations.findings)
    said = counted(count, "forbidden change") if count else text(_cut(violations.reason))
    unseen = []
    if violations.resolution == "step":
        unseen.append("Changes undone inside one step are unseen: no audit was recorded.")
    if violations.missing_states:
        unseen.append(f"States that were not seen: {_indices(violations.missing_states)}.")
    unseen += [f"Rule that looked at nothing: {rule}" for rule in violations.unmatched_rules]
    unseen += [f"Not decided: {line}" for line in violations.undecided]
    unseen += violations.notes
    return fragment(
        f'<p class="envbench-title">{pill(word)} {said}</p>',
        _listed(
            "",
            ["Step", "Path", "Change", "Put back", "Action", "Rule"],
            [_finding(each) for each in violations.findings],
            numbers=[0],
        ),
        f'<ul class="envbench-soft">{"".join(f"<li>{text(_cut(each))}</li>" for each in unseen)}'
        "</ul>"
        if unseen
        else "",
    )


def _finding(finding: Finding) -> list[str]:
    values = (finding.before, *finding.during)
    change = " → ".join(_value(value) for value in values)
    back = {
        "restored": f"at step {finding.restored_at}",
        "inside_step": "within the step",
        "net": "never",
    }[finding.kind]
    action = "" if finding.action is None else _code(_cut(_spelled(finding.action)))
    return [
        f"{finding.step:,}",
        f'<span class="envbench-value">{text(finding.path)}</span>',
        change,
        back,
        action,
        _code(finding.rule),
    ]


def _spelled(action: Any) -> str:
    """An action as JSON, in which NumPy's scalars and arrays stand as the numbers they hold."""
    if isinstance(action, np.generic | np.ndarray):
        return _spelled(action.tolist())
    if isinstance(action, dict):
        inside = (f"{_spelled(name)}: {_spelled(item)}" for name, item in action.items())
        return f"{{{', '.join(inside)}}}"
    if isinstance(action, list | tuple):
        return f"[{', '.join(map(_spelled, action))}]"
    return encode(action).decode()


def _value(value: Value) -> str:
    if value is ABSENT:
        return '<span class="envbench-null">nothing</span>'
    return _code(_cut(canonical(value).decode()))


def verification_html(verification: Verification) -> str:
    """What verifying a store found, and what a digest does not show."""
    seen = f"{counted(verification.episodes, 'episode')} and " + counted(
        verification.reports, "report"
    )
    problems = len(verification.problems)
    said = "everything fits" if verification.ok else counted(problems, "problem")
    return fragment(
        f'<p class="envbench-title">{pill("ok" if verification.ok else "altered")} '
        f"{seen} verified: {said}</p>",
        _listed("Problems", _PROBLEM, [_problem(each) for each in verification.problems]),
        _listed("Notes", _PROBLEM, [_problem(each) for each in verification.notes]),
        '<p class="envbench-soft">A digest shows that evidence was altered, not who made it.</p>',
    )


_PROBLEM = ["Table", "Episode", "Step", "What"]


def _problem(problem: Problem) -> list[str]:
    step = "" if problem.step_index is None else f"{problem.step_index:,}"
    episode = "" if problem.episode_id is None else _code(problem.episode_id)
    return [text(problem.table), episode, step, text(_cut(problem.message))]


def _listed(
    title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], numbers: Iterable[int] = ()
) -> str:
    """A table of the first rows under its title, nothing when there are none."""
    if not rows:
        return ""
    caption = f"{title} ({len(rows):,})" if title else None
    more = ""
    if len(rows) > ROWS:
        more = f'<p class="envbench-soft">… and {len(rows) - ROWS:,} more</p>'
    return table(heads, rows[:ROWS], numbers=numbers, caption=caption) + more


def _code(value: str) -> str:
    short = " envbench-short" if len(value) <= 40 else ""
    return f'<span class="envbench-value{short}">{text(value)}</span>'


def _cut(value: str) -> str:
    return value if len(value) <= LONGEST else f"{value[:LONGEST]}… ({len(value):,} characters)"


def _indices(indices: Sequence[int]) -> str:
    return ", ".join(f"{i:,}" for i in indices[:10]) + (", …" if len(indices) > 10 else "")
