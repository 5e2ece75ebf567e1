"""`find_violations`: the changes of an episode that its rules do not allow.

The states show what changed between one step and the next. Where an audit was recorded, it is
judged too, and shows what was undone inside a step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from envbench.changes.diff import Value, normal, value_at
from envbench.changes.history import History, history_of
from envbench.changes.paths import Path, RowKey, key_value, pointer
from envbench.changes.rules import Context, Rule, Touch, existing_prefix, holds, violates
from envbench.evidence.episode import EpisodeEvidence, Step
from envbench.evidence.portable import Json, canonical, parse
from envbench.evidence.tagged import ABSENT, decode

Kind = Literal["restored", "net", "inside_step"]
Resolution = Literal["step", "audit"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One change that a rule does not allow, from its making to its undoing.

    Attributes:
        rule: the rule, spelled out.
        path: where, as a JSON Pointer.
        kind: ``restored`` when the old value came back at a later step, ``inside_step`` when it
            did within the step, ``net`` when it never did.
        step: the step after which the change was first seen.
        action: the action of that step, None when there is none.
        restored_at: the step at which the old value was there again.
        before: the old value as portable JSON, `ABSENT` for none.
        during: the distinct values until it was back, or until the end.
        after: the value at the end of the episode.
        resolution: ``step`` when the states show it, ``audit`` when only the audit does.
    """

    rule: str
    path: str
    kind: Kind
    step: int
    action: Any
    restored_at: int | None
    before: Value
    during: tuple[Value, ...]
    after: Value
    resolution: Resolution

    def to_dict(self) -> dict[str, Any]:
        """The finding as Python values, as a check's evidence holds it."""
        return {
            "rule": self.rule,
            "path": self.path,
            "kind": self.kind,
            "step": self.step,
            # an int and a NumPy integer of equal value are one action
            "action": int(self.action) if isinstance(self.action, np.integer) else self.action,
            "restored_at": self.restored_at,
            "before": _plain(self.before),
            "during": [_plain(value) for value in self.during],
            "after": _plain(self.after),
            "resolution": self.resolution,
        }

    def __str__(self) -> str:
        back = {
            "restored": f", back at step {self.restored_at}",
            "inside_step": ", and back within the step",
            "net": "",
        }[self.kind]
        values = " → ".join(_shown(value) for value in (self.before, *self.during))
        return f"step {self.step}: {self.path}: {values}{back} ({self.rule})"


@dataclass(frozen=True, slots=True)
class Violations:
    """What the rules say of one episode.

    Attributes:
        passed: True when every change was allowed and all were seen, False when one was not, None
            when that cannot be known.
        findings: the changes that were not allowed, in order of steps.
        unmatched_rules: rules whose path never existed, so that they looked at nothing.
        missing_states: indices of the states that were not seen.
        undecided: rules that the evidence does not decide, with the reason.
        resolution: ``audit`` when changes undone inside a step would have been seen, else ``step``.
        notes: what is to be known of the keys of tables.
    """

    passed: bool | None
    findings: tuple[Finding, ...]
    unmatched_rules: tuple[str, ...]
    missing_states: tuple[int, ...]
    undecided: tuple[str, ...]
    resolution: Resolution
    notes: tuple[str, ...]

    @property
    def reason(self) -> str:
        """The result in one sentence."""
        if self.findings:
            more = f", and {len(self.findings) - 1} more" if len(self.findings) > 1 else ""
            return f"{self.findings[0]}{more}"
        if self.missing_states:
            return f"no forbidden change seen, but states {_listed(self.missing_states)} were not"
        if self.unmatched_rules:
            return f"nothing was looked at by {', '.join(self.unmatched_rules)}: no such path"
        if self.undecided:
            return f"not decided: {'; '.join(self.undecided)}"
        unseen = "" if self.resolution == "audit" else "; changes undone inside one step are unseen"
        return f"no forbidden change{unseen}"

    def __str__(self) -> str:
        word = {True: "passed", False: "failed", None: "unknown"}[self.passed]
        return "\n".join([f"{word}: {self.reason}", *map(str, self.findings[1:])])


def find_violations(episode: EpisodeEvidence, rules: Iterable[Rule]) -> Violations:
    """Find the changes of an episode that rules do not allow.

    Args:
        episode: the evidence.
        rules: `Forbid`, `AllowOnly`, `AppendOnly`, `Only`; they hold together.

    Raises:
        TypeError: when a rule is none.
        ValueError: when there is no rule.

    Whatever the condition of an `Only` rule raises is raised.
    """
    held = tuple(rules)
    if not held:
        raise ValueError("find_violations needs at least one rule")
    for rule in held:
        if not isinstance(rule, Rule):
            raise TypeError(f"a rule must be Forbid, AllowOnly, AppendOnly or Only, not {rule!r}")
    return _Search(episode, held).result()


class _Search:
    """One search for violations in one episode."""

    def __init__(self, episode: EpisodeEvidence, rules: tuple[Rule, ...]) -> None:
        self.episode = episode
        self.rules = rules
        self.history: History = history_of(episode)
        self.entries = self.history.entries
        audit: list[dict[str, Json]] | None = episode.data["audit"]
        # what was recorded up to the reset made the state that the episode began with
        self.audit = None if audit is None else [event for event in audit if event["step"] > 0]
        self.unread = [e["step"] for e in episode.errors if e["phase"] == "audit"]
        self.undecided: list[str] = []

    @cached_property
    def steps(self) -> list[Step]:
        return self.episode.steps

    @cached_property
    def context(self) -> Context:
        return Context(self.history.keys, _Lazily(self))

    @cached_property
    def states(self) -> dict[int, bytes]:
        return dict(self.episode.state_texts())

    def result(self) -> Violations:
        findings = [finding for rule in self.rules for finding in self.of_states(rule)]
        if self.audit:
            findings += [finding for rule in self.rules for finding in self.of_audit(rule)]
        findings.sort(key=lambda finding: (finding.step, finding.path))
        unmatched = tuple(str(rule) for rule in self.rules if not self.exists(rule))
        missing = tuple(self.missing_states())
        unsure = unmatched or missing or self.undecided
        return Violations(
            passed=False if findings else None if unsure else True,
            findings=tuple(findings),
            unmatched_rules=unmatched,
            missing_states=missing,
            undecided=tuple(dict.fromkeys(self.undecided)),
            # an audit that could not be read at every step shows no more than the states do
            resolution="step" if self.audit is None or self.unread else "audit",
            notes=tuple(text.removeprefix("note: ") for text in self.history.keys.issues),
        )

    def of_states(self, rule: Rule) -> list[Finding]:
        """The findings that the states show."""
        found = []
        ended: set[tuple[int, Path]] = set()
        for change, path in self.entries:
            touch = Touch(path, change.before, change.after, change.step, change.since)
            if self.violates(rule, touch) is not True:
                continue
            if any(
                step == change.step and (path[: len(at)] == at or at[: len(path)] == path)
                for step, at in ended
            ):
                continue  # it puts a value back: part of the finding that it ends
            if change.restored_at is not None:
                ended.add((change.restored_at, path))
            found.append(self.finding(rule, touch, change.restored_at, "step"))
        return found

    def of_audit(self, rule: Rule) -> list[Finding]:
        """The findings that only the audit shows."""
        found = []
        for touches in _audit_changes(self.audit or [], self.history):
            broken = [touch for touch in touches if self.violates(rule, touch) is True]
            first, last = touches[0], touches[-1]
            if not broken or self.shown(first, last):
                continue
            restored = _same(first.before, last.after)
            values = [touch.after for touch in touches]
            during = tuple(_distinct(values[:-1] if restored else values))
            found.append(
                Finding(
                    rule=str(rule),
                    path=pointer(first.path),
                    kind="inside_step" if restored else "net",
                    step=first.step,
                    action=self.action(first.step),
                    restored_at=first.step if restored else None,
                    before=first.before,
                    during=during,
                    after=last.after,
                    resolution="audit",
                )
            )
        return found

    def violates(self, rule: Rule, touch: Touch) -> bool | None:
        answer = violates(rule, self.rules, touch, self.context)
        if answer is None:
            self.undecided.append(
                f"{rule}: {pointer(touch.path)} changed between steps {touch.since} and"
                f" {touch.step}, and only some of their actions may change it"
            )
        return answer

    def shown(self, first: Touch, last: Touch) -> bool:
        """Whether the states show a change of an audited path at its step too."""
        if _same(first.before, last.after):
            return False
        return any(
            change.step == first.step
            and (path[: len(first.path)] == first.path or first.path[: len(path)] == path)
            for change, path in self.entries
        )

    def finding(
        self, rule: Rule, touch: Touch, restored_at: int | None, resolution: Resolution
    ) -> Finding:
        return Finding(
            rule=str(rule),
            path=pointer(touch.path),
            kind="net" if restored_at is None else "restored",
            step=touch.step,
            action=self.action(touch.step),
            restored_at=restored_at,
            before=touch.before,
            during=tuple(self.during(touch, restored_at)),
            after=self.value(max(self.states), touch.path),
            resolution=resolution,
        )

    def during(self, touch: Touch, restored_at: int | None) -> list[Value]:
        """The distinct values of a path from a change until it was undone, or until the end."""
        path = touch.path
        steps = [touch.step] + [
            change.step
            for change, at in self.entries
            if change.step > touch.step
            and (restored_at is None or change.step < restored_at)
            and (at[: len(path)] == path or path[: len(at)] == at)
        ]
        return _distinct([touch.after, *(self.value(step, path) for step in steps[1:])])

    def value(self, index: int, path: Path) -> Value:
        return value_at(parse(self.states[index]), path)

    def action(self, step: int) -> Any:
        return self.steps[step - 1].action if 0 < step <= len(self.steps) else None

    def missing_states(self) -> list[int]:
        source = self.episode.data
        n_steps = source["totals"]["steps"]
        missing = [index for index in range(n_steps + 1) if index not in self.states]
        # a last state that was not seen could differ from the one after the last step
        if source["final_state"] is None:
            missing.append(n_steps + 1)
        return missing

    def exists(self, rule: Rule) -> bool:
        """Whether every path of a rule was there at some time, or need not be."""
        return rule.allow_missing or all(
            self.existed(existing_prefix(pattern)) for pattern in rule.patterns
        )

    def existed(self, prefix: tuple[str, ...]) -> bool:
        keys = self.history.keys
        if not self.states:
            return True  # nothing was seen: that is said by the missing states
        first = parse(self.states[min(self.states)])
        return (
            not prefix
            or holds(first, (), prefix, keys)
            or any(holds(change.after, path, prefix, keys) for change, path in self.entries)
            or any([event["table"]] == list(prefix[:1]) for event in self.audit or ())
        )


class _Lazily(Sequence[Step]):
    """The steps of an episode, decoded when a rule first asks."""

    def __init__(self, search: _Search) -> None:
        self._search = search

    def __len__(self) -> int:
        return len(self._search.steps)

    def __getitem__(self, index: Any) -> Any:
        return self._search.steps[index]


def _audit_changes(audit: Iterable[Mapping[str, Json]], history: History) -> list[list[Touch]]:
    """The changes that an audit shows: for each step and path, those made one after another."""
    found: dict[tuple[int, Path], list[Touch]] = {}
    for event in audit:
        for touch in _event_changes(event, history):
            found.setdefault((touch.step, touch.path), []).append(touch)
    return list(found.values())


def _event_changes(event: Mapping[str, Json], history: History) -> list[Touch]:
    step, before, after = event["step"], event["before"], event["after"]
    path = (event["table"], _row_segment(event, history))
    if before is None or after is None:
        old = ABSENT if before is None else before
        return [Touch(path, old, ABSENT if after is None else after, step, step - 1)]
    names = [*before, *(name for name in after if name not in before)]
    return [
        Touch((*path, name), before.get(name, ABSENT), after.get(name, ABSENT), step, step - 1)
        for name in names
        if not _same(before.get(name, ABSENT), after.get(name, ABSENT))
    ]


def _row_segment(event: Mapping[str, Json], history: History) -> RowKey:
    """The segment of an audited row, the one of the state's table where it is observed."""
    row = event["before"] if event["before"] is not None else event["after"]
    name = history.keys.of((event["table"],))
    if name is None or name not in row or key_value(row[name]) is None:
        return RowKey("key", canonical(event["key"]))
    value = key_value(row[name])
    assert value is not None
    return RowKey(name, value)


def _same(value: Value, other: Value) -> bool:
    if value is ABSENT or other is ABSENT:
        return value is other
    return normal(value) == normal(other)


def _distinct(values: Iterable[Value]) -> list[Value]:
    found: dict[bytes | None, Value] = {}
    for value in values:
        found.setdefault(None if value is ABSENT else normal(value), value)
    return list(found.values())


def _plain(value: Value) -> Any:
    return ABSENT if value is ABSENT else decode(value)


def _shown(value: Value) -> str:
    text = "nothing" if value is ABSENT else canonical(value).decode()
    return text if len(text) <= 60 else f"{text[:57]}..."


def _listed(indices: Sequence[int]) -> str:
    return ", ".join(map(str, indices[:5])) + (", …" if len(indices) > 5 else "")
