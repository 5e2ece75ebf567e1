"""What a run of the ledger came to, as values, as JSON and in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from envbench.checks import Decision, Report
from envbench.comparison import Comparison
from envbench.evidence import EpisodeEvidence
from envbench.evidence.tagged import ABSENT, encode
from envbench.ledger.environment import Tool
from envbench.ledger.judging import CHANGES, SIMPLER_POLICIES
from envbench.ledger.scenarios import SEEDS, VERSIONS, Expectation, Scenario, Trial

__all__ = ["Mistake", "Outcome", "Outcomes", "describe_change"]

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One episode, judged.

    Attributes:
        version: version of the ledger.
        seed: seed of the reset.
        scenario: the scenario that it belongs to.
        trial: the trial of it.
        episode: the evidence.
        report: what the checks found in it.
        decision: what the policy came to.
        simpler: what each simpler policy came to on the same evidence, by its name.
    """

    version: int
    seed: int
    scenario: Scenario
    trial: Trial
    episode: EpisodeEvidence = field(repr=False)
    report: Report = field(repr=False)
    decision: Decision = field(repr=False)
    simpler: Mapping[str, str]

    @property
    def name(self) -> str:
        """The name of its files: `v1-correct-seed17`."""
        return self.trial.episode_name(self.version, self.seed)

    @property
    def expected(self) -> Expectation:
        """What was written down before the run."""
        return self.trial.expected(self.version, self.seed)

    @property
    def verdicts(self) -> dict[str, bool | None]:
        """What each check found, by its name; a check that failed is None here too."""
        return {result.check: result.passed for result in self.report.results}

    @property
    def changes(self) -> list[Json]:
        """The forbidden changes that were found, as `envbench.changes.Finding.to_dict` has them."""
        (result,) = [result for result in self.report.results if result.check == CHANGES]
        found: list[Json] = (result.evidence or {}).get("findings", [])
        return found

    @property
    def same_ends(self) -> bool:
        """Whether the whole first and last states are equal."""
        first, last = self.episode.initial_state, self.episode.final_state
        return first is not None and bool(first == last)

    @property
    def surprises(self) -> list[str]:
        """Where it is not as expected, one line each."""
        expected = self.expected
        found = [
            f"{name} is {_word(self.verdicts.get(name))}, expected {_word(verdict)}"
            for name, verdict in expected.verdicts().items()
            if self.verdicts.get(name) is not verdict
        ]
        if self.decision.decision != expected.decision:
            found.insert(0, f"{self.decision.decision}, expected {expected.decision}")
        if expected.same_ends is not None and self.same_ends is not expected.same_ends:
            found.append("the first and the last state are not as equal as expected")
        return found

    def to_dict(self) -> Json:
        """The outcome as portable JSON, with the names of the files that it rests on."""
        return {
            "name": self.name,
            "scenario": self.scenario.name,
            "trial": self.trial.name,
            "version": self.version,
            "seed": self.seed,
            "audited": self.trial.audit,
            "expected": self.expected.decision,
            "decision": self.decision.decision,
            "as_expected": not self.surprises,
            "surprises": self.surprises,
            "expected_verdicts": self.expected.verdicts(),
            "checks": {
                result.check: {
                    "version": result.version,
                    "passed": result.passed,
                    "reason": result.reason,
                    "error": result.error,
                }
                for result in self.report.results
            },
            "findings": [finding.message for finding in self.decision.findings],
            "forbidden_changes": [describe_change(change) for change in self.changes],
            "coverage_issues": self.episode.coverage_issues,
            "first_and_last_state_equal": self.same_ends,
            "simpler_policies": dict(self.simpler),
            "answer": self.episode.output,
            "episode_id": self.episode.episode_id,
            "previous": self.episode.data["provenance"]["previous"],
            "digest": self.episode.digest,
            "trajectory_digest": self.episode.trajectory_digest,
            "files": {
                "database": f"databases/{self.trial.database_name(self.version, self.seed)}",
                "episode": f"episodes/{self.name}.json",
                "report": f"reports/{self.name}.json",
            },
        }


@dataclass(frozen=True, slots=True)
class Mistake:
    """A simpler policy that came to something else on the very same evidence."""

    policy: str
    title: str
    outcome: Outcome

    @property
    def said(self) -> str:
        """What the simpler policy came to."""
        return self.outcome.simpler[self.policy]

    def to_dict(self) -> Json:
        """The mistake as portable JSON."""
        return {
            "policy": self.policy,
            "outcome": self.outcome.name,
            "said": self.said,
            "decision": self.outcome.decision.decision,
        }


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Every outcome of a run, in the order it was run.

    Attributes:
        outcomes: one an episode.
        folder: where the run was written.
        comparison: the second version against the first; None where they were not compared.
    """

    outcomes: tuple[Outcome, ...]
    folder: Path
    comparison: Comparison | None = None

    @property
    def ok(self) -> bool:
        """Whether every outcome was as expected."""
        return bool(self.outcomes) and not any(outcome.surprises for outcome in self.outcomes)

    @property
    def mistakes(self) -> list[Mistake]:
        """What the simpler policies got wrong."""
        return [
            Mistake(simpler.name, simpler.title, outcome)
            for simpler in SIMPLER_POLICIES
            for outcome in self.outcomes
            if outcome.simpler[simpler.name] != outcome.decision.decision
        ]

    def find(self, trial: str, version: int, seed: int) -> Outcome:
        """The outcome of a trial; KeyError when there is none."""
        for outcome in self.outcomes:
            if (outcome.trial.name, outcome.version, outcome.seed) == (trial, version, seed):
                return outcome
        raise KeyError(f"v{version}-{trial}-seed{seed}")

    def to_dict(self) -> Json:
        """Everything as portable JSON."""
        return {
            "schema": "envbench.ledger-outcomes/v1",
            "ok": self.ok,
            "outcomes": [outcome.to_dict() for outcome in self.outcomes],
            "mistakes": [mistake.to_dict() for mistake in self.mistakes],
            "comparison": self._compared(),
        }

    def print(self, console: Console | None = None) -> None:
        """A summary for a person: readable in 80 columns, with or without colour."""
        console = console or Console()
        console.print(self._decisions())
        console.print()
        console.print(self._simpler_policies())
        console.print()
        console.print(self._changes())
        console.print()
        if self.comparison is not None:
            console.print(_comparison_table(self.comparison))
            console.print()
        for outcome in self.outcomes:
            for surprise in outcome.surprises:
                console.print(
                    Text(f"Not as expected: {outcome.name}: {surprise}", style="bold red")
                )
        as_expected = sum(not outcome.surprises for outcome in self.outcomes)
        console.print(
            Text(
                f"{as_expected} of {len(self.outcomes)} outcomes as expected.",
                style="bold green" if self.ok else "bold red",
            )
        )
        # Not wrapped: a path in two pieces cannot be copied.
        console.print(Text(f"Open {self.folder / 'outcomes.html'}"), soft_wrap=True)

    def _compared(self) -> Json | None:
        if self.comparison is None:
            return None
        return {
            "file": "comparison.json",
            "attempt": "last",
            "exit_code": self.comparison.exit_code,
            "summary": self.comparison.summary(),
            "checks": {
                check.name: {
                    "verdict": check.verdict,
                    "broke": list(check.broke),
                    "fixed": list(check.fixed),
                }
                for check in self.comparison.checks
            },
        }

    def _decisions(self) -> Table:
        table = Table(title="Decisions by version of the ledger", title_justify="left", box=None)
        table.add_column("scenario", no_wrap=True)
        table.add_column("seed", justify="right")
        for version in VERSIONS:
            table.add_column(f"version {version}", no_wrap=True)
        for label, seed, outcomes in self.rows():
            table.add_row(label, str(seed), *(_decision_cell(outcome) for outcome in outcomes))
        return table

    def _simpler_policies(self) -> Table:
        table = Table(
            title="What simpler policies get wrong on the same evidence",
            title_justify="left",
            box=None,
        )
        table.add_column("policy")
        table.add_column("wrong", justify="right", no_wrap=True)
        table.add_column("in")
        for simpler in SIMPLER_POLICIES:
            wrong = [m.outcome for m in self.mistakes if m.policy == simpler.name]
            names = dict.fromkeys(outcome.trial.name for outcome in wrong)
            table.add_row(simpler.title, f"{len(wrong)} of {len(self.outcomes)}", ", ".join(names))
        return table

    def _changes(self) -> Group:
        """The forbidden changes under the first version, each in three lines or more."""
        lines: list[RenderableType] = [Text("Forbidden changes, version 1", style="italic")]
        for outcome in self.outcomes:
            for change in outcome.changes if outcome.version == VERSIONS[0] else ():
                what = describe_change(change)
                lines += [
                    Text(
                        f" {outcome.trial.name}, seed {outcome.seed}, step {what['step']}:"
                        f" {what['action']}"
                    ),
                    Padding(Text(what["path"], style="cyan"), (0, 0, 0, 3)),
                    Padding(Text(f"{what['values']}{what['back']}"), (0, 0, 0, 3)),
                ]
        return Group(*lines)

    def rows(self) -> Iterator[tuple[str, int, list[Outcome]]]:
        """The outcomes as a table: label and seed, and one outcome a version."""
        for trial in dict.fromkeys(outcome.trial.name for outcome in self.outcomes):
            for seed in SEEDS:
                outcomes = [self.find(trial, version, seed) for version in VERSIONS]
                title = outcomes[0].trial.title
                label = outcomes[0].scenario.name + (f", {title}" if title else "")
                yield label, seed, outcomes


def _comparison_table(comparison: Comparison) -> Group:
    """The comparison of the versions: a row a check, and the cases that came out otherwise."""
    table = Table(
        title=f"The ledger's {comparison.candidate_name} against {comparison.baseline_name}",
        title_justify="left",
        box=None,
    )
    table.add_column("check", no_wrap=True)
    for name in (comparison.baseline_name, comparison.candidate_name, "broke", "fixed"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    lines: list[RenderableType] = []
    checks = comparison.checks
    for check in checks:
        rates = check.baseline_rate, check.candidate_rate
        passed = [f"{rate.passed} of {rate.total}" for rate in rates]
        flips = [str(len(names)) for names in (check.broke, check.fixed)]
        table.add_row(check.name, *passed, *flips, check.verdict)
        for word, names in (("broke", check.broke), ("fixed", check.fixed)):
            if names:
                lines.append(Text(f" {check.name} {word}: {', '.join(names)}"))
    sources = len({pair.source_id for pair in comparison.pairs})
    about = f"{len(comparison.pairs)} cases about {sources} documents, the last attempt at each"
    if all(check.smallest_p is None or check.smallest_p > comparison.alpha for check in checks):
        about += ": so few that no difference can be told from chance. Which cases broke is certain"
    lines.append(Text(f" {about}."))
    return Group(table, *lines)


def describe_change(change: Mapping[str, Any]) -> Json:
    """A forbidden change in words: step, action, path, the values one after another, and back."""
    values = [change["before"], *change["during"]]
    if change["kind"] != "net":
        values.append(change["before"])
    back = {
        "restored": f" (put back at step {change['restored_at']})",
        "inside_step": " (inside the step: seen by the audit alone)",
        "net": "",
    }[change["kind"]]
    return {
        "rule": change["rule"],
        "path": change["path"],
        "kind": change["kind"],
        "step": change["step"],
        "action": _action_name(change["action"]),
        "restored_at": change["restored_at"],
        "values": " → ".join(map(_value_text, values)),
        "back": back,
        "resolution": change["resolution"],
    }


def _action_name(action: Any) -> str:
    try:
        return Tool(int(action["tool"])).name.lower()
    except (TypeError, KeyError, ValueError):
        return "no action"


def _value_text(value: Any) -> str:
    return "nothing" if value is ABSENT else encode(value).decode()


_STYLES = {"accept": "green", "reject": "red", "indeterminate": "yellow"}


def _decision_cell(outcome: Outcome) -> Text:
    cell = Text(outcome.decision.decision, style=_STYLES[outcome.decision.decision])
    if outcome.surprises:
        cell.append(f" (expected {outcome.expected.decision})", style="bold")
    return cell


def _word(verdict: bool | None) -> str:
    return {True: "passed", False: "failed", None: "unknown"}[verdict]
