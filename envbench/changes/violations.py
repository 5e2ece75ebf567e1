"""`find_violations`: the changes of an episode that its rules do not allow.

The states show what changed between one step and the next. Where an audit was recorded, it is
judged too, and shows what was undone inside a step.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from typing import Any, Literal

import numpy as np

from envbench.changes.audit import Passage, counted, passages, row_changes, same
from envbench.changes.diff import Value, normal, value_at
from envbench.changes.history import Change, History, derive
from envbench.changes.paths import Path, RowDigest, covers, pointer, split_pattern, touches
from envbench.changes.rules import (
    AllowOnly,
    Context,
    Rule,
    Touch,
    existing_prefix,
    held,
    holds,
    violates,
)
from envbench.evidence.episode import EpisodeEvidence, Step
from envbench.evidence.portable import Json, canonical, parse
from envbench.evidence.tagged import ABSENT, TAG, decode

Kind = Literal["restored", "net", "inside_step"]
Resolution = Literal["step", "audit"]


MOST_LATER = 100
"""Values that are listed after a change that was never put back.

A counter that a rule forbids is a finding at every step, and each would list all later values.
"""


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
        during: the distinct values until it was back, or until the end; of a change that was never
            put back the first `MOST_LATER`, which the notes of `Violations` say.
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
        """The finding as Python values, as a check's evidence holds it.

        A large array stands as its dtype, shape and SHA-256.
        """
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
        shown = [_shown(value) for value in (self.before, *self.during[:_MOST_SHOWN])]
        left = len(self.during) - _MOST_SHOWN
        values = " → ".join([*shown, f"… ({left} more)"] if left > 0 else shown)
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
        resolution: ``audit`` when changes undone inside a step of an audited table would have been
            seen, else ``step``.
        notes: what is to be known of the keys of tables, of the audit, and of what is not listed.
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


_Broken = tuple[Touch, int | None]
"""A change that a rule may not allow, and the step at which it was undone."""


def _without_endings(broken: Iterable[_Broken]) -> Iterator[_Broken]:
    """Changes without those that put a value back: they are part of the finding that they end."""
    ended: set[tuple[int, Path]] = set()
    for touch, restored_at in broken:
        path = touch.path
        if any((touch.step, path[:length]) in ended for length in range(len(path) + 1)):
            continue
        if restored_at is not None:
            ended.add((restored_at, path))
        yield touch, restored_at


class _Search:
    """One search for violations in one episode."""

    def __init__(self, episode: EpisodeEvidence, rules: tuple[Rule, ...]) -> None:
        self.episode = episode
        self.rules = rules
        self.seen: set[int] = set()
        self.first: bytes | None = None
        self.last: bytes | None = None
        # where states hold something that could not be kept, with the first step at which they do
        self.unkept: dict[tuple[str, ...], int] = {}
        data = episode.data
        self.history: History = derive(self.states(), data["row_keys"])
        self.entries = self.history.entries
        self.related = _Related(self.entries)
        self.audit: list[dict[str, Json]] | None = data["audit"]
        self.audit_failed = sorted({e["step"] for e in data["errors"] if e["phase"] == "audit"})
        self.undecided: list[str] = []
        self.cut: list[str] = []

    @cached_property
    def steps(self) -> list[Step]:
        return self.episode.steps

    @cached_property
    def context(self) -> Context:
        return Context(self.history.keys, _Lazily(self))

    def states(self) -> Iterator[tuple[int, bytes]]:
        """The states for the history; what else has to be known of them is noted on the way."""
        for index, text in self.episode.state_texts():
            self.seen.add(index)
            if self.first is None:
                self.first = text
            if _MISSING in text and text != self.last:
                for at in _unkept(parse(text), ()):
                    self.unkept.setdefault(at, index)
            self.last = text
            yield index, text

    def result(self) -> Violations:
        shown = [self.broken(rule) for rule in self.judged]
        broken = [
            (rule, touch, restored_at)
            for rule, of_rule in zip(self.judged, shown, strict=True)
            for touch, restored_at in _without_endings(of_rule)
        ]
        values = self.read(broken)
        findings = [self.finding(*each, values) for each in broken]
        for rule, of_rule in zip(self.judged, shown, strict=True):
            findings += self.of_audit(rule, _InStates(touch for touch, _ in of_rule))
        findings.sort(key=lambda finding: (finding.step, finding.path))
        unmatched = tuple(str(rule) for rule in self.rules if not self.exists(rule))
        missing = tuple(self.missing_states())
        audited = self.audit is not None and not self.audit_failed
        unsure = unmatched or missing or self.undecided
        return Violations(
            passed=False if findings else None if unsure else True,
            findings=tuple(findings),
            unmatched_rules=unmatched,
            missing_states=missing,
            undecided=tuple(dict.fromkeys(self.undecided)),
            resolution="audit" if audited else "step",
            notes=tuple(self.notes()),
        )

    @cached_property
    def judged(self) -> list[Rule]:
        """The rules that have findings: several `AllowOnly` are one."""
        others = [rule for rule in self.rules if not isinstance(rule, AllowOnly)]
        return [*others, *[rule for rule in self.rules if isinstance(rule, AllowOnly)][:1]]

    def name(self, rule: Rule) -> str:
        if isinstance(rule, AllowOnly):
            return " or ".join(str(each) for each in self.rules if isinstance(each, AllowOnly))
        return str(rule)

    def broken(self, rule: Rule) -> list[_Broken]:
        """The changes that the states show and the rule does not allow."""
        return [each for each in self.touches if self.violates(rule, each[0]) is True]

    @cached_property
    def touches(self) -> list[_Broken]:
        """The changes of the states as rules see them."""
        moves: dict[tuple[int, Path], set[bool]] = defaultdict(set)
        for change, path in self.entries:
            if path and isinstance(path[-1], RowDigest):
                moves[change.step, path[:-1]].add(_grew(change))
        return [
            (
                Touch(
                    path,
                    change.before,
                    change.after,
                    change.step,
                    change.since,
                    maybe_edit=len(moves.get((change.step, path[:-1]), ())) == 2,
                ),
                change.restored_at,
            )
            for change, path in self.entries
        ]

    def of_audit(self, rule: Rule, shown: _InStates) -> list[Finding]:
        """The findings that only the audit shows."""
        found = []
        for passage in self.passages:
            broken = [touch for touch in passage.touches if self.violates(rule, touch) is True]
            if not broken or (not passage.is_undone and self.is_shown(passage, shown)):
                continue
            undone, (before, *later) = passage.is_undone, passage.values
            found.append(
                Finding(
                    rule=self.name(rule),
                    path=pointer(passage.path),
                    kind="inside_step" if undone else "net",
                    step=broken[0].step,
                    action=self.action(broken[0].step),
                    restored_at=broken[0].step if undone else None,
                    before=before,
                    during=tuple(
                        value for value in _distinct(later) if not (undone and same(value, before))
                    ),
                    after=self.at_end(passage.path),
                    resolution="audit",
                )
            )
        return found

    @cached_property
    def passages(self) -> list[Passage]:
        return passages(self.audit or (), self.history.keys)

    def is_shown(self, passage: Passage, shown: _InStates) -> bool:
        """Whether a finding of the same rule tells of an audited change already.

        Rows that the states count have no path of their own: there the table is compared.
        """
        step, path = passage.touches[0].step, passage.path
        whole = self.history.keys.of(path[:1]) is None
        return any(
            touch.path[: len(path)] == path
            or path[: len(touch.path)] == touch.path
            or (whole and touch.path[:1] == path[:1])
            for touch in shown.at(step)
        )

    def at_end(self, path: Path) -> Value:
        """The value of an audited path at the end: as last observed, else as last audited."""
        if self.last is not None and path[0] in self.last_state:
            return value_at(self.last_state, path)
        last = self.last_audited.get(path[:2], ABSENT)
        return counted(path, last) if len(path) == 2 else value_at(last, path[2:])

    @cached_property
    def last_audited(self) -> dict[Path, Value]:
        """What the audit told last of each row."""
        keys = self.history.keys
        return {
            row: after for event in self.audit or () for row, _, after in row_changes(event, keys)
        }

    @cached_property
    def last_state(self) -> Any:
        return {} if self.last is None else parse(self.last)

    def violates(self, rule: Rule, touch: Touch) -> bool | None:
        answer = violates(rule, self.rules, touch, self.context)
        if answer and self.unkept and any(map(_holds_unkept, (touch.before, touch.after))):
            answer = None
        if answer is None:
            self.undecided.append(
                f"{self.name(rule)}: {pointer(touch.path)} changed between steps {touch.since} and"
                f" {touch.step}, and {self.doubt(touch)}"
            )
        return answer

    def doubt(self, touch: Touch) -> str:
        if any(map(_holds_unkept, (touch.before, touch.after))):
            return "a value there could not be kept"
        if touch.maybe_edit:
            return (
                "its table has no key, so that one row that was edited looks like one removed and"
                " one added"
            )
        return "only some of their actions may change it"

    def finding(
        self, rule: Rule, touch: Touch, restored_at: int | None, values: dict[int, Value]
    ) -> Finding:
        between, last = self.related.after(touch, restored_at)
        later = (self.value(i, touch.path, values) for i in between)
        during = self.listed(touch, restored_at, _distinct(chain([touch.after], later)))
        after = touch.after if last is None else self.value(last, touch.path, values)
        return Finding(
            rule=self.name(rule),
            path=pointer(touch.path),
            kind="net" if restored_at is None else "restored",
            step=touch.step,
            action=self.action(touch.step),
            restored_at=restored_at,
            before=touch.before,
            during=during,
            after=after,
            resolution="step",
        )

    def listed(
        self, touch: Touch, restored_at: int | None, values: Iterator[Value]
    ) -> tuple[Value, ...]:
        """What a finding lists of the distinct values after its change."""
        if restored_at is not None:
            return tuple(values)
        first = tuple(islice(values, MOST_LATER))
        if any(True for _ in values):
            self.cut.append(pointer(touch.path))
        return first

    def step(self, entry: int) -> int:
        return self.entries[entry][0].step

    def read(self, broken: list[tuple[Rule, Touch, int | None]]) -> dict[int, Value]:
        """The states that findings need, by index: those in which a change is below their path."""
        needed = {
            self.step(i)
            for _, touch, restored_at in broken
            for i in self.related.below(touch, restored_at)
        }
        if not needed:
            return {}
        return {i: parse(text) for i, text in self.episode.state_texts() if i in needed}

    def value(self, entry: int, path: Path, values: dict[int, Value]) -> Value:
        """The value of a path after a change at it, above it or below it."""
        change, at = self.entries[entry]
        if len(at) > len(path):
            return value_at(values[change.step], path)
        return value_at(change.after, path[len(at) :])

    def action(self, step: int) -> Any:
        return self.steps[step - 1].action if 0 < step <= len(self.steps) else None

    def missing_states(self) -> list[int]:
        """The states not seen, and those in which a rule looks at what could not be kept."""
        data = self.episode.data
        n_steps = data["totals"]["steps"]
        missing = {index for index in range(n_steps + 1) if index not in self.seen}
        # a last state that was not seen could differ from the one after the last step
        if data["final_state"] is None:
            missing.add(n_steps + 1)
        missing |= {index for at, index in self.unkept.items() if self.is_looked_at(at)}
        return sorted(missing)

    def is_looked_at(self, at: tuple[str, ...]) -> bool:
        patterns = [split_pattern(p) for rule in self.rules for p in rule.patterns]
        return any(isinstance(rule, AllowOnly) for rule in self.rules) or any(
            covers(pattern, at) or touches(pattern, at) for pattern in patterns
        )

    def notes(self) -> Iterator[str]:
        issues = [*self.episode.data["issues"], *self.history.keys.issues]
        for issue in dict.fromkeys(issues):
            if issue.startswith("note: /"):
                yield issue.removeprefix("note: ")
        for path in dict.fromkeys(self.cut):
            yield f"{path}: more than {MOST_LATER} values came later, of which the first are listed"
        if self.audit_failed:
            yield f"the audit could not be read at step {_listed(self.audit_failed)}"

    def exists(self, rule: Rule) -> bool:
        """Whether every path of a rule was there at some time, or need not be."""
        return rule.allow_missing or all(
            self.existed(existing_prefix(pattern)) for pattern in rule.patterns
        )

    def existed(self, prefix: tuple[str, ...]) -> bool:
        keys = self.history.keys
        if self.first is None and not self.audit:
            return True  # nothing was seen: that is said by the missing states
        return (
            not prefix
            or holds(self.first_state, (), prefix, keys)
            or any(holds(held(at, c.after), at, prefix, keys) for c, at in self.entries)
            or any(
                (event["table"],) == prefix or holds(row, at, prefix, keys)
                for event in self.audit or ()
                for at, *rows in row_changes(event, keys)
                for row in rows
            )
        )

    @cached_property
    def first_state(self) -> Any:
        return {} if self.first is None else parse(self.first)


class _InStates:
    """The changes that a rule forbids in the states, by the steps in which they came about."""

    def __init__(self, touches: Iterable[Touch]) -> None:
        self._at: dict[int, list[Touch]] = defaultdict(list)
        self._over_gaps: list[Touch] = []
        for touch in touches:
            if touch.since == touch.step - 1:
                self._at[touch.step].append(touch)
            else:
                self._over_gaps.append(touch)

    def at(self, step: int) -> Iterator[Touch]:
        """Those that may have come about in a step."""
        yield from self._at.get(step, ())
        yield from (touch for touch in self._over_gaps if touch.since < step <= touch.step)


class _Related:
    """Which changes are at a path, above it or below it."""

    def __init__(self, entries: Sequence[tuple[Change, Path]]) -> None:
        self._entries = entries
        self._at: dict[Path, list[int]] = defaultdict(list)
        self._below: dict[Path, list[int]] = defaultdict(list)
        for i, (_, path) in enumerate(entries):
            self._at[path].append(i)
            for length in range(len(path)):
                self._below[path[:length]].append(i)

        self._found: dict[Path, tuple[list[int], list[int]]] = {}

    def after(self, touch: Touch, restored_at: int | None) -> tuple[Iterator[int], int | None]:
        """Those between a change and its restoration or the end, and the last one of all.

        They are told by their place, one for each step; None where nothing follows the change.
        """
        steps, places = self._related(touch.path)
        start = bisect_right(steps, touch.step)
        stop = len(steps) if restored_at is None else bisect_left(steps, restored_at)
        last = places[-1] if start < len(places) else None
        return (places[i] for i in range(start, stop)), last

    def below(self, touch: Touch, restored_at: int | None) -> Iterator[int]:
        """Those of `after` that are below the path, where the state tells what it came to."""
        if touch.path not in self._below:
            return
        between, last = self.after(touch, restored_at)
        for place in chain(between, () if last is None else (last,)):
            if len(self._entries[place][1]) > len(touch.path):
                yield place

    def _related(self, path: Path) -> tuple[list[int], list[int]]:
        """The steps at which something related to a path changed, and the last place of each."""
        found = self._found.get(path)
        if found is None:
            places = [*self._at.get(path, ()), *self._below.get(path, ())]
            for length in range(len(path)):
                places += self._at.get(path[:length], ())
            last = {self._entries[i][0].step: i for i in sorted(places)}
            found = self._found[path] = list(last), list(last.values())
        return found


class _Lazily(Sequence[Step]):
    """The steps of an episode, decoded when a rule first asks."""

    def __init__(self, search: _Search) -> None:
        self._search = search

    def __len__(self) -> int:
        return len(self._search.steps)

    def __getitem__(self, index: Any) -> Any:
        return self._search.steps[index]


_MOST_SHOWN = 5
_MISSING = b'"$envbench":"missing"'


def _unkept(value: Json, at: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Where a state holds what could not be kept; of a list or table only that it is in it."""
    if type(value) is dict:
        if value.get(TAG) == "missing":
            yield at
        for name, item in value.items():
            yield from _unkept(item, (*at, pointer((name,))[1:]))
    elif type(value) is list and any(next(_unkept(item, at), None) is not None for item in value):
        yield at


def _holds_unkept(value: Value) -> bool:
    return type(value) in (dict, list) and _MISSING in canonical(value)


def _grew(change: Change) -> bool:
    """Whether a counted row is there more often than before."""
    counts = [0 if value is ABSENT else value["count"] for value in (change.before, change.after)]
    return bool(counts[1] > counts[0])


def _distinct(values: Iterable[Value]) -> Iterator[Value]:
    found: set[bytes | None] = set()
    for value in values:
        name = None if value is ABSENT else normal(value)
        if name not in found:
            found.add(name)
            yield value


def _plain(value: Value) -> Any:
    return ABSENT if value is ABSENT else decode(_described(value))


def _described(value: Json) -> Json:
    """The value, in which arrays that are kept beside the states stand as what identifies them."""
    if type(value) is list:
        return [_described(item) for item in value]
    if type(value) is not dict:
        return value
    if value.get(TAG) == "array" and "sha256" in value:
        return {name: item for name, item in value.items() if name != TAG}
    return {name: _described(item) for name, item in value.items()}


def _shown(value: Value) -> str:
    text = "nothing" if value is ABSENT else canonical(value).decode()
    return text if len(text) <= 60 else f"{text[:57]}..."


def _listed(indices: Sequence[int]) -> str:
    return ", ".join(map(str, indices[:5])) + (", …" if len(indices) > 5 else "")
