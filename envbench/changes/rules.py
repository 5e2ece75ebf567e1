"""Rules: which changes of the state were allowed, and the findings against them.

A rule names a path pattern: ``*`` is one segment, ``**`` any number, and a rule covers what is
below its path. `Forbid`, `AppendOnly` and `Only` also meet a change above their path, because
adding or removing a row touches its cells; `AllowOnly` does not, because allowing a status does not
allow deleting the order. `Forbid` wins over an allowance.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from envbench.changes.diff import Value, digest_of, normal
from envbench.changes.paths import (
    ANY,
    ANY_NUMBER,
    Path,
    RowDigest,
    RowKey,
    covers,
    key_value,
    matches,
    spelled,
    split_pattern,
    touches,
)
from envbench.changes.tables import Keys, is_object, is_table
from envbench.evidence.episode import Step
from envbench.evidence.portable import Json, canonical
from envbench.evidence.tagged import ABSENT, Named, encode

Op = Literal["add", "remove", "edit"]
OPS: tuple[str, ...] = ("add", "remove", "edit")


@dataclass(frozen=True, slots=True)
class Touch:
    """A change as a rule sees it, from the states or from the audit.

    Attributes:
        path: where.
        before: the old value, `ABSENT` for none.
        after: the new value.
        step: the step at which it was first seen.
        since: the last step at which the old value was seen.
        maybe_edit: whether rows of a table without a key came and went together, so that one that
            was edited looks like one removed and one added.
        at: the segments of the path as they are spelled.
    """

    path: Path
    before: Value
    after: Value
    step: int
    since: int
    maybe_edit: bool = False
    at: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", spelled(self.path))

    @property
    def ops(self) -> frozenset[str]:
        """What is done at the path and below it.

        A node that changes type takes what was below it away, and brings what is below it now. A
        row of a table without a key is never edited, it is there more often or less often.
        """
        if _is_counted(self.path):
            return _ADDED if _count(self.after) > _count(self.before) else _REMOVED
        if self.before is ABSENT:
            return _ADDED
        if self.after is ABSENT:
            return _REMOVED
        removed = _REMOVED if _has_members(self.before) else _NOTHING
        return _EDITED | removed | (_ADDED if _has_members(self.after) else _NOTHING)


_NOTHING: frozenset[str] = frozenset()
_ADDED, _REMOVED, _EDITED = (frozenset({op}) for op in OPS)


@dataclass(frozen=True, slots=True)
class Context:
    """What a rule may ask of the episode."""

    keys: Keys
    steps: Sequence[Step]


class Rule(ABC):
    """A rule on changes: one of `Forbid`, `AllowOnly`, `AppendOnly`, `Only`."""

    __slots__ = ()

    allow_missing: bool

    @property
    @abstractmethod
    def patterns(self) -> tuple[str, ...]:
        """The paths that the rule names."""

    @abstractmethod
    def violated(self, touch: Touch, context: Context) -> bool | None:
        """Whether a change breaks the rule; None when the evidence does not say."""

    def permits(self, touch: Touch, context: Context) -> bool | None:
        """Whether the rule allows a change that `AllowOnly` would otherwise forbid.

        None when the evidence does not say.
        """
        return False

    @abstractmethod
    def to_dict(self) -> dict[str, Json]:
        """The rule as portable JSON: its name, its paths, what narrows it."""


@dataclass(frozen=True, slots=True)
class PathRule(Rule):
    """A rule about one path; see `Forbid`, `AppendOnly` and `Only` for the arguments."""

    path: str
    ops: tuple[Op, ...] = field(default=OPS, kw_only=True)  # type: ignore[arg-type]
    allow_missing: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        split_pattern(self.path)
        object.__setattr__(self, "ops", _ops(self.ops))

    @property
    def patterns(self) -> tuple[str, ...]:
        """The path."""
        return (self.path,)

    def to_dict(self) -> dict[str, Json]:
        """The rule as portable JSON."""
        return _to_dict(type(self).__name__, [self.path], self.ops, self.allow_missing)

    def __str__(self) -> str:
        return _text(type(self).__name__, (self.path,), self.ops)


@dataclass(frozen=True, slots=True)
class Forbid(PathRule):
    """No change at a path, below it, or above it where it touches what the path names.

    Args:
        path: pattern such as ``/vendors/**`` or ``/invoices/*/amount``.
        ops: only changes of these kinds; all by default.
        allow_missing: a path that never existed is no reason to doubt.

    Raises:
        TypeError: when an argument is of the wrong type.
        ValueError: when the path or an op is none.
    """

    def violated(self, touch: Touch, context: Context) -> bool | None:
        """Whether the change is of a forbidden kind and meets the path."""
        return _meets(self.path, self.ops, touch, context.keys)


@dataclass(frozen=True, slots=True, init=False)
class AllowOnly(Rule):
    """Changes at these paths or below them, and no others.

    With several of these rules, what is allowed is what any of them allows, and what `Only` and
    `AppendOnly` permit.

    Args:
        paths: patterns such as ``/invoice_rows/*``.
        ops: only changes of these kinds are allowed; all by default.
        allow_missing: a path that never existed is no reason to doubt.

    Raises:
        TypeError: when an argument is of the wrong type.
        ValueError: when there is no path, or a path or an op is none.
    """

    paths: tuple[str, ...]
    ops: tuple[Op, ...]
    allow_missing: bool

    def __init__(
        self,
        *paths: str,
        ops: Iterable[Op] = OPS,  # type: ignore[assignment]
        allow_missing: bool = False,
    ) -> None:
        if not paths:
            raise ValueError("AllowOnly needs a path; to forbid every change, Forbid('/**')")
        for path in paths:
            split_pattern(path)
        object.__setattr__(self, "paths", paths)
        object.__setattr__(self, "ops", _ops(ops))
        object.__setattr__(self, "allow_missing", allow_missing)

    @property
    def patterns(self) -> tuple[str, ...]:
        """The paths."""
        return self.paths

    def violated(self, touch: Touch, context: Context) -> bool | None:
        """Whether the change is none of those allowed; other rules may still permit it."""
        permitted = self.permits(touch, context)
        return None if permitted is None else not permitted

    def permits(self, touch: Touch, context: Context) -> bool | None:
        """Whether the change is at one of the paths or below it."""
        if not any(covers(split_pattern(path), touch.at) for path in self.paths):
            return False
        if touch.ops <= set(self.ops):
            return True
        return None if touch.maybe_edit and "edit" in self.ops else False

    def to_dict(self) -> dict[str, Json]:
        """The rule as portable JSON."""
        return _to_dict("AllowOnly", list(self.paths), self.ops, self.allow_missing)

    def __str__(self) -> str:
        return _text("AllowOnly", self.paths, self.ops)


@dataclass(frozen=True, slots=True)
class AppendOnly(PathRule):
    """A table in which no row is edited or removed, or a list of which the old is a prefix.

    Rows that were added during the episode may not be edited or removed either.

    Args:
        path: pattern of the table or list, such as ``/audit_log``.
        ops: only changes of these kinds are looked at; all by default.
        allow_missing: a path that never existed is no reason to doubt.

    Raises:
        TypeError: when an argument is of the wrong type.
        ValueError: when the path or an op is none.
    """

    def violated(self, touch: Touch, context: Context) -> bool | None:
        """Whether the change meets the table otherwise than by adding to it."""
        if self._appends(touch, context.keys):
            return False
        return _meets(self.path, self.ops, touch, context.keys)

    def permits(self, touch: Touch, context: Context) -> bool | None:
        """Whether the change adds to the table."""
        return (
            covers(split_pattern(self.path), touch.at)
            and touch.ops <= set(self.ops)
            and self._appends(touch, context.keys)
        )

    def _appends(self, touch: Touch, keys: Keys) -> bool:
        pattern = split_pattern(self.path)
        lengths = range(len(touch.at) + 1)
        table = next((n for n in lengths if matches(pattern, touch.at[:n])), None)
        if table is None:  # something above the table: nothing of it was there, or it came again
            before = _named(pattern, held(touch.path, touch.before), touch.path, keys)
            return not before or (_is_counted(touch.path) and touch.ops == _ADDED)
        if len(touch.at) == table:
            return touch.before is ABSENT or _is_prefix(touch.before, touch.after)
        return len(touch.at) == table + 1 and (
            touch.before is ABSENT or (_is_counted(touch.path) and touch.ops == _ADDED)
        )


@dataclass(frozen=True, slots=True)
class Only(PathRule):
    """A change only at steps whose action satisfies a condition.

    A change without an action, such as one seen only at the end, is a violation. A change that may
    have been made at any of several steps, because states between them were not seen, is one when
    none of them satisfies it, and undecided when some do.

    Args:
        path: pattern such as ``/orders/*/status``.
        when: gets the `Step`, tells whether its action may make the change.
        ops: only changes of these kinds are looked at; all by default.
        allow_missing: a path that never existed is no reason to doubt.

    Raises:
        TypeError: when an argument is of the wrong type.
        ValueError: when the path or an op is none.
    """

    when: Callable[[Step], bool] = field(kw_only=True)

    def __post_init__(self) -> None:
        PathRule.__post_init__(self)
        if not callable(self.when):
            raise TypeError(f"when must be callable, not {type(self.when).__name__}")

    def violated(self, touch: Touch, context: Context) -> bool | None:
        """Whether the change meets the path at a step whose action does not satisfy `when`."""
        met = _meets(self.path, self.ops, touch, context.keys)
        if met is False:
            return False
        made = self._made_by_its_action(touch, context)
        return False if made else None if made is None or met is None else True

    def permits(self, touch: Touch, context: Context) -> bool | None:
        """Whether the change is at the path, and its action may make it."""
        if not (covers(split_pattern(self.path), touch.at) and touch.ops <= set(self.ops)):
            return False
        return self._made_by_its_action(touch, context)

    def _made_by_its_action(self, touch: Touch, context: Context) -> bool | None:
        answers = set(self._answers(touch, context))
        return answers.pop() if len(answers) == 1 else None

    def _answers(self, touch: Touch, context: Context) -> Iterator[bool]:
        for index in range(touch.since + 1, touch.step + 1):
            step = context.steps[index - 1] if 0 < index <= len(context.steps) else None
            yield step is not None and step.action is not None and bool(self.when(step))

    def to_dict(self) -> dict[str, Json]:
        """The rule as portable JSON; of the condition only its name, unless it is `ActionIs`."""
        described = _to_dict("Only", [self.path], self.ops, self.allow_missing)
        if isinstance(self.when, ActionIs):
            return {**described, "when_actions": list(self.when.wanted)}
        return {**described, "when": getattr(self.when, "__qualname__", type(self.when).__name__)}

    def __str__(self) -> str:
        return _text("Only", (self.path,), self.ops)


class ActionIs:
    """A condition for `Only`: the action is one of these.

    An object is met by an action that has these members with these values, and perhaps others;
    anything else by an action that is equal, where ``1``, ``1.0`` and ``true`` differ. A NumPy
    scalar or array is compared as the numbers that it holds.

    Args:
        wanted: actions as portable JSON.

    Raises:
        ValueError: when one is not portable JSON.

    Example:
        >>> rule = Only("/orders/*/status", when=ActionIs({"name": "set_status"}))
        >>> rule.to_dict()["when_actions"]
        [{'name': 'set_status'}]
    """

    def __init__(self, *wanted: Json) -> None:
        for each in wanted:
            canonical(each)
        self.wanted = wanted

    def __call__(self, step: Step) -> bool:
        """Whether the step's action is one of those wanted."""
        action = _as_json(step.action)
        return any(_is_met(each, action) for each in self.wanted)


def _is_met(wanted: Json, action: Any) -> bool:
    if type(wanted) is dict:
        return isinstance(action, dict) and all(
            name in action and _is_met(value, action[name]) for name, value in wanted.items()
        )
    return encode(wanted) == encode(action)


def _as_json(action: Any) -> Any:
    """An action without the types that JSON has no word for."""
    if isinstance(action, Named):
        return _as_json(action.value)
    if isinstance(action, np.generic | np.ndarray):
        return action.tolist()
    if isinstance(action, dict):
        return {name: _as_json(value) for name, value in action.items()}
    if isinstance(action, list | tuple):
        return [_as_json(value) for value in action]
    return action


def violates(rule: Rule, rules: Sequence[Rule], touch: Touch, context: Context) -> bool | None:
    """Whether a change breaks a rule, seen among all rules that hold together."""
    if not isinstance(rule, AllowOnly):
        return rule.violated(touch, context)
    permitted = {other.permits(touch, context) for other in rules}
    return False if True in permitted else None if None in permitted else True


def existing_prefix(pattern: str) -> tuple[str, ...]:
    """The part of a pattern that must exist for the pattern to mean something."""
    segments = split_pattern(pattern)
    wild = [i for i, segment in enumerate(segments) if segment in (ANY, ANY_NUMBER)]
    return segments[: wild[0]] if wild else segments


def holds(value: Value, path: Path, prefix: tuple[str, ...], keys: Keys) -> bool:
    """Whether a value at a path holds something at a spelled path that starts with it."""
    if len(path) >= len(prefix):
        return value is not ABSENT and spelled(path)[: len(prefix)] == prefix
    return any(
        spelled((*path, segment)) == prefix[: len(path) + 1]
        and holds(item, (*path, segment), prefix, keys)
        for segment, item in _members(value, path, keys)
    )


def held(path: Path, value: Value) -> Value:
    """What stands at a path, given the value of a change there; they differ for a counted row."""
    return value["row"] if _is_counted(path) and value is not ABSENT else value


def _meets(pattern: str, ops: Iterable[str], touch: Touch, keys: Keys) -> bool | None:
    """Whether a change of these kinds meets a pattern: at it, below it, or above what it names.

    None when the change may be of such a kind.
    """
    done = _done(split_pattern(pattern), touch, keys)
    if not done.isdisjoint(ops):
        return True
    return None if done and touch.maybe_edit and "edit" in ops else False


def _done(pattern: tuple[str, ...], touch: Touch, keys: Keys) -> frozenset[str]:
    """What a change does to what a pattern names."""
    if covers(pattern, touch.at):
        return touch.ops
    if not touches(pattern, touch.at):
        return _NOTHING
    before = _named(pattern, held(touch.path, touch.before), touch.path, keys)
    after = _named(pattern, held(touch.path, touch.after), touch.path, keys)
    if _is_counted(touch.path):
        return touch.ops if before or after else _NOTHING
    return (
        (_ADDED if after.keys() - before.keys() else _NOTHING)
        | (_REMOVED if before.keys() - after.keys() else _NOTHING)
        | (_EDITED if any(after.get(at, text) != text for at, text in before.items()) else _NOTHING)
    )


def _named(
    pattern: tuple[str, ...], value: Value, path: Path, keys: Keys
) -> dict[tuple[str, ...], bytes]:
    """What a pattern names inside a value: the text of each, by its path."""
    found: dict[tuple[str, ...], bytes] = {}
    for segment, item in _members(value, path, keys):
        below: Path = (*path, segment)
        at = spelled(below)
        if covers(pattern, at):
            found[at] = normal(item)
        elif touches(pattern, at):
            found |= _named(pattern, item, below, keys)
    return found


def _members(value: Value, path: Path, keys: Keys) -> Iterator[tuple[Any, Json]]:
    """The segments below a value, and what they hold."""
    if is_object(value):
        yield from value.items()
    elif is_table(value):
        key = keys.of(path)
        for row in value:
            text = None if key is None else key_value(row.get(key))
            yield (RowKey(key, text) if key and text else digest_of(row)), row
    elif type(value) is list:
        yield from enumerate(value)


def _is_counted(path: Path) -> bool:
    """Whether a path is that of a row in a table without a key."""
    return bool(path) and isinstance(path[-1], RowDigest)


def _count(value: Value) -> int:
    """How often a row of a table without a key is there."""
    return 0 if value is ABSENT else int(value["count"])


def _has_members(value: Value) -> bool:
    return bool(value) and (type(value) is list or is_object(value))


def _is_prefix(before: Value, after: Value) -> bool:
    """Whether a list begins with all of another."""
    if type(before) is not list or type(after) is not list or len(before) > len(after):
        return False
    return all(normal(a) == normal(b) for a, b in zip(before, after, strict=False))


def _ops(ops: Any) -> tuple[Op, ...]:
    if isinstance(ops, str):
        ops = (ops,)
    found = tuple(ops)
    for op in found:
        if op not in OPS:
            raise ValueError(f"ops must be among {', '.join(OPS)}, not {op!r}")
    if not found:
        raise ValueError(f"ops must name at least one of {', '.join(OPS)}")
    return found


def _to_dict(
    name: str, paths: list[str], ops: tuple[str, ...], allow_missing: bool
) -> dict[str, Json]:
    return {"rule": name, "paths": paths, "ops": list(ops), "allow_missing": allow_missing}


def _text(name: str, paths: tuple[str, ...], ops: tuple[str, ...]) -> str:
    listed = ", ".join(canonical(path).decode() for path in paths)
    narrowed = "" if ops == OPS else f", ops={list(ops)}"
    return f"{name}({listed}{narrowed})"
