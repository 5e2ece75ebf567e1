"""`verify_replay`: does an environment still do what was recorded?

The recorded actions are taken again, without any policy, and everything that comes of them is
compared with the record. What an environment takes from a clock, or from chance that no seed
controls, cannot be compared; it is told apart from a change by replaying again, and looking whether
the replays agree with each other. `docs/replay.md` explains what is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from envbench.capture.own_state import own_state
from envbench.environments.differences import Difference, Path, Rules, differences
from envbench.environments.environment import Environment
from envbench.environments.fields import ignored_patterns, tolerance_patterns
from envbench.environments.fingerprint import Fingerprint, fingerprint
from envbench.environments.moments import Scope, moment_differences, moments, plain_error
from envbench.environments.replaying import Plan, Second, bare, innermost, make_plan, take_again
from envbench.environments.rollout import Rollout, case_of
from envbench.environments.tasks import TaskData, TaskDataset
from envbench.evidence.episode import EpisodeEvidence
from envbench.evidence.portable import Json
from envbench.evidence.tagged import ABSENT, decode, describe_error, tag

Verdict = Literal["same", "different", "not reproducible here"]

MAX_MISMATCHES = 1_000
"""More mismatches than this are counted and not kept."""

_MORE_REPLAYS = 2
"""How often a replay that differs is repeated, to see whether it differs from itself."""

_DYNAMICS = ("observation", "state", "reward", "terminated", "truncated")
"""Where one value that is not reproducible makes everything after it so."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One thing that is not as it was recorded.

    Attributes:
        kind: ``observation``, ``reward``, ``flag``, ``tool_result``, ``info``, ``state``,
            ``error``, ``audit``, ``space``, ``task`` or ``fingerprint``.
        step: index of the step, 0 for the reset, None for what belongs to no step.
        path: where, as a JSON Pointer: ``/observation/3``, ``/info/tool_calls/0/result``.
        expected: what was recorded; `ABSENT` where there was nothing.
        actual: what came now.
        reproducible: False when replays do not agree with each other here.
    """

    kind: str
    step: int | None
    path: str
    expected: Any
    actual: Any
    reproducible: bool = True

    def __str__(self) -> str:
        where = "" if self.step is None else "reset: " if self.step == 0 else f"step {self.step}: "
        values = f"{_short(self.expected)} was recorded, {_short(self.actual)} came"
        again = "" if self.reproducible else " (not reproducible here)"
        return f"{where}{self.path or '/'}: {values}{again}"


@dataclass(frozen=True, slots=True)
class Replay:
    """What came of replaying an episode.

    Attributes:
        verdict: ``same``; ``different``; or ``not reproducible here``, when every mismatch is
            explained by values on which replays do not agree with each other.
        mismatches: everything that is not as it was recorded, in order of the steps, at most
            `MAX_MISMATCHES`.
        n_mismatches: how many there are.
        n_steps: how many steps were taken again.
        unsteady: paths at which replays do not agree with each other, without their steps.
        notes: sentences on what was not compared, and on the fingerprint.
    """

    verdict: Verdict
    mismatches: tuple[Mismatch, ...]
    n_mismatches: int
    n_steps: int
    unsteady: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether everything that was compared is as it was recorded."""
        return self.verdict == "same"

    @property
    def reproducible(self) -> bool:
        """Whether replays agree with each other, as far as is known."""
        return not self.unsteady

    def __bool__(self) -> bool:
        """Whether it is `ok`, so that a replay can be asserted."""
        return self.ok

    def to_dict(self) -> dict[str, Json]:
        """All of it as portable JSON; values in the tagged form of evidence."""
        return {
            "ok": self.ok,
            "verdict": self.verdict,
            "steps": self.n_steps,
            "n_mismatches": self.n_mismatches,
            "mismatches": [
                {
                    "kind": each.kind,
                    "step": each.step,
                    "path": each.path,
                    "expected": _portable(each.expected),
                    "actual": _portable(each.actual),
                    "reproducible": each.reproducible,
                }
                for each in self.mismatches
            ],
            "unsteady": list(self.unsteady),
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        count = _counted(self.n_mismatches, "mismatch", "mismatches")
        lines = [f"{self.verdict}: {_counted(self.n_steps, 'step')} replayed, {count}"]
        lines += [f"  {each}" for each in self.mismatches[:_SHOWN]]
        if self.n_mismatches > _SHOWN:
            lines.append(f"  and {self.n_mismatches - _SHOWN:,} more")
        if self.unsteady:
            lines.append(f"  replays differ from each other at {', '.join(self.unsteady[:_SHOWN])}")
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])

    def __repr__(self) -> str:
        count = _counted(self.n_mismatches, "mismatch", "mismatches")
        return f"<Replay {self.verdict}: {_counted(self.n_steps, 'step')}, {count}>"


_SHOWN = 20


def verify_replay(
    environment_or_factory: Any,
    episode: EpisodeEvidence | Rollout,
    *,
    tolerance: float | Mapping[str, float] | None = None,
    ignore: Iterable[str] | Mapping[str, Iterable[str]] = (),
    verify_fingerprint: bool = True,
    task: TaskData | None = None,
    dataset: TaskDataset | None = None,
    observe: Callable[..., Mapping[str, Any]] | None = None,
    audit: Callable[[], list[dict[str, Any]]] | None = None,
) -> Replay:
    """Take the recorded actions again, with no policy, and compare all that comes of them.

    Compared are observations, rewards, flags, infos, tool results, states, errors and the spaces,
    and the fingerprint where one was recorded. It works for any environment that is deterministic
    given its seed.

    Args:
        environment_or_factory: an environment, which is reset and left open; or what makes a fresh
            one, which is closed. A factory is the surer way: an environment that was used may
            remember something.
        episode: the evidence, or a rollout, which has its task beside it.
        tolerance: by how much two numbers may differ: one number for all, or one by field or by
            the pattern of the path (``{"reward": 0.1, "/observation/0": 1e-6}``); the last that
            fits holds.
        ignore: fields, and patterns of paths, that are not compared, nor what is below them, such
            as ``"reward"``, ``"/info/episode/t"`` or ``"/state/**/updated_at"``; ``*`` is one
            segment, ``**`` any number. A path that begins with no field is one in the state. Or
            paths by field: ``{"state": ["/updated_at"]}``.
        verify_fingerprint: compare the environment's fingerprint with the recorded one.
        task: the task with its expected value, for scorers; the record has all of it but that.
        dataset: where to find that task, by the id of the recorded case.
        observe: reads the state, as when it was recorded; it may take the environment. Our own
            environments have their snapshot.
        audit: likewise for the events of an authoritative history.

    Returns:
        The replay; it is true when everything is as it was recorded.

    Raises:
        TypeError: when an argument is of the wrong type.
        ValueError: when an argument has no meaning, the data set has no such task, or the episode
            cannot be replayed at all, because its steps or its options were not kept.
    """
    if isinstance(episode, Rollout):
        task = episode.task if task is None and dataset is None else task
        episode = episode.episode  # type: ignore[assignment]
    if not isinstance(episode, EpisodeEvidence):
        raise TypeError(f"episode must be an EpisodeEvidence, not {type(episode).__name__}")
    rules = Rules(tolerance_patterns(tolerance), ignored_patterns(ignore))
    given = _task(episode, task, dataset)
    source = _Source(environment_or_factory)
    plan = make_plan(episode, task=given, observe=observe, audit=audit)
    comparison = _Comparison(plan, rules, has_task=given is not None)
    second = comparison.replay(source, verify_fingerprint=verify_fingerprint)
    if second is None:
        return comparison.result(None)
    comparison.compare(second)
    if any(each.step is not None for each in comparison.found):
        for _ in range(_MORE_REPLAYS):
            again = comparison.replay(source, verify_fingerprint=False)
            if again is not None:
                comparison.contrast(second, again)
            if comparison.unsteady:
                break
    return comparison.result(second)


def _task(
    episode: EpisodeEvidence, task: TaskData | None, dataset: TaskDataset | None
) -> TaskData | None:
    if task is not None and not isinstance(task, TaskData):
        raise TypeError(f"task must be a TaskData, not {type(task).__name__}")
    if dataset is not None and not isinstance(dataset, TaskDataset):
        raise TypeError(f"dataset must be a TaskDataset, not {type(dataset).__name__}")
    if task is not None and dataset is not None:
        raise ValueError("give a task or a dataset, not both")
    if dataset is None:
        return task
    try:
        return dataset.task(episode.case.case_id)
    except KeyError as error:
        raise ValueError(f"dataset: {error.args[0]}") from None


class _Source:
    """Where environments for replays come from: one that is there, or a factory."""

    def __init__(self, given: Any) -> None:
        is_environment = not isinstance(given, type) and all(
            callable(getattr(given, name, None)) for name in ("reset", "step", "close")
        )
        if not is_environment and not callable(given):
            raise TypeError(
                "environment_or_factory must be an environment or what makes one, not"
                f" {type(given).__name__}"
            )
        self._given = given
        self.is_factory = not is_environment

    def make(self) -> Any:
        """An environment."""
        if not self.is_factory:
            return self._given
        made = self._given()
        for name in ("reset", "step", "close"):
            if not callable(getattr(made, name, None)):
                raise TypeError(
                    f"the factory returned {type(made).__name__}, which has no {name}()"
                )
        return made

    def let_go(self, environment: Any) -> str | None:
        """Close an environment that was made here; returns what went wrong."""
        if self.is_factory:
            try:
                environment.close()
            except Exception as error:
                return f"closing the environment raised {_said(error)}"
        return None


class _Comparison:
    """Compares an episode with its replays.

    Args:
        plan: what is done again.
        rules: what counts as equal.
        has_task: whether the caller gave the task, with its answer key.
    """

    def __init__(self, plan: Plan, rules: Rules, *, has_task: bool) -> None:
        self.found: list[Mismatch] = []
        self.n_found = 0
        self.unsteady: dict[str, int] = {}
        self._plan = plan
        self._episode = plan.episode
        self._rules = rules
        self._has_task = has_task
        self._scored = True
        self._notes = dict.fromkeys(plan.notes)
        self._is_first = True

    def replay(self, source: _Source, *, verify_fingerprint: bool) -> Second | None:
        """Replay once; None when no environment could be made.

        The fingerprint is compared the first time, before the reset.
        """
        # where there was a reset, what failed is the guard that the agent was to hold
        was_made = self._episode.initial is not None
        errors = [] if was_made else self._episode.errors
        setup_errors = [error for error in errors if error["phase"] == "setup"]
        expected = plain_error(setup_errors[0]) if setup_errors else None
        try:
            environment = source.make()
        except (Exception, SystemExit) as error:
            message = describe_error(error)
            actual = {"phase": "setup", "type": type(error).__name__, "message": message}
            self._note(differences(expected, actual, ("error",), self._rules), None)
            return None
        try:
            if self._is_first:
                self._is_first = False
                self._note(differences(expected, None, ("error",), self._rules), None)
                self._look_at(environment, verify_fingerprint)
            return take_again(environment, self._plan)
        finally:
            problem = source.let_go(environment)
            if problem is not None:
                self._notes[problem] = None

    def compare(self, second: Second) -> None:
        """Note every mismatch between the record and a replay."""
        self._compare_heads(second)
        scope = Scope(self._rules, second.has_state, self._scored)
        recorded, replayed = moments(self._episode), moments(second.episode)
        for index, expected in zip(range(second.n_steps + 1), recorded, strict=False):
            self._note(moment_differences(expected, next(replayed), scope), index)
        if second.n_steps < len(self._plan.steps):
            left = _counted(len(self._plan.steps) - second.n_steps, "step")
            self._notes[f"the replay ended {left} before the record"] = None
            if not self.found:  # what would say so is ignored, and the rest was not compared
                steps = len(self._plan.steps), second.n_steps
                self._note(differences(*steps, ("steps",), self._rules), second.n_steps)
        elif not self._plan.is_partial and self._episode.final_state is not None:
            end = {"state": self._episode.final_state}
            now = {"state": second.episode.final_state}
            self._note(moment_differences(end, now, scope), second.n_steps + 1)

    def contrast(self, first: Second, second: Second) -> None:
        """Find out at which paths two replays differ, and from which step on."""
        pairs = zip(moments(first.episode), moments(second.episode), strict=False)
        for index, (one, other) in enumerate(pairs):
            for each in moment_differences(one, other, Scope(self._rules)):
                self.unsteady.setdefault(_pointer(each), index)

    def result(self, second: Second | None) -> Replay:
        """What came of it."""
        shaken = [step for path, step in self.unsteady.items() if path.split("/")[1] in _DYNAMICS]
        first_shaken = min(shaken, default=None)
        found = [
            replace(each, reproducible=not self._is_explained(each, first_shaken))
            for each in self.found
        ]
        verdict: Verdict = "same"
        if found:
            is_different = any(each.reproducible for each in found)
            verdict = "different" if is_different else "not reproducible here"
        notes = list(self._notes)
        if self.unsteady and self._episode.data["seed"] is None:
            notes.append("the reset was recorded without a seed, so chance differs every time")
        return Replay(
            verdict=verdict,
            mismatches=tuple(found),
            n_mismatches=self.n_found,
            n_steps=0 if second is None else second.n_steps,
            unsteady=tuple(self.unsteady),
            notes=tuple(notes),
        )

    def _is_explained(self, mismatch: Mismatch, first_shaken: int | None) -> bool:
        """Whether a mismatch is where replays differ from each other, or after such a place."""
        if mismatch.step is None:
            return False
        if first_shaken is not None and mismatch.step >= first_shaken:
            return True
        path = mismatch.path + "/"
        return any(path.startswith(p + "/") or f"{p}/".startswith(path) for p in self.unsteady)

    def _look_at(self, environment: Any, verify_fingerprint: bool) -> None:
        """Look at an environment before its reset: its fingerprint, and whether it can score."""
        environment = bare(environment)
        inner = innermost(environment)
        recorded = self._episode.data["provenance"]["environment_fingerprint"]
        if verify_fingerprint and recorded is not None:
            self._compare_fingerprint(recorded, environment)
        has_key = self._episode.data["case"]["reference_digest"] is not None
        if isinstance(inner, Environment) and inner.scorers and has_key and not self._has_task:
            self._plan.leave_out_scores()
            self._scored = False
            self._notes["scores are not replayed: give task= or dataset=, with the answer key"] = (
                None
            )

    def _compare_fingerprint(self, expected: str, environment: Any) -> None:
        try:
            own = own_state(environment)
            found = fingerprint(environment) if own is None else own.env.fingerprint()
        except Exception as error:  # such as a payload that cannot be had now
            self._notes[f"the fingerprint could not be taken: {_said(error)}"] = None
            return
        if found.digest == expected:
            return
        spec = self._episode.data["environment_spec"]
        try:
            recorded = Fingerprint.from_dict(spec["fingerprint"])
        except (KeyError, TypeError, ValueError):  # it was kept without its parts
            recorded = None
        if recorded is None or recorded.digest != expected:
            self._note(differences(expected, found.digest, ("fingerprint",), self._rules), None)
            return
        self._notes[f"fingerprint: {recorded.explain(found)}"] = None
        for part, ours, theirs in recorded.diff(found):
            path = ("fingerprint", *part.split("/"))
            self._note(differences(ours or ABSENT, theirs or ABSENT, path, self._rules), None)

    def _compare_heads(self, second: Second) -> None:
        """Compare what belongs to no step: task, spaces, audit, versions."""
        data, again = self._episode.data, second.episode.data
        task = (self._plan.options or {}).get("task")
        if self._has_task and isinstance(task, TaskData):
            given = case_of(task).to_dict()
            self._note(
                differences(self._episode.case.to_dict(), given, ("case",), self._rules), None
            )
        for name in ("action", "observation"):
            was, now = ((each["spaces"] or {}).get(name) for each in (data, again))
            if was is not None and now is not None:
                self._note(differences(was, now, (f"{name}_space",), self._rules), None)
        if data["observer_id"] is not None and not second.has_state:
            self._notes["states are not compared: give observe=, which reads them"] = None
        if data["audit"] is not None and not second.has_audit:
            self._notes["the audit is not compared: give audit="] = None
        elif data["audit"] is not None:
            was, now = (decode(each["audit"]) for each in (data, again))
            self._note(differences(was, now, ("audit",), self._rules), None)
        versions = [each["gymnasium_version"] for each in (data, again)]
        if versions[0] != versions[1]:
            note = f"recorded with Gymnasium {versions[0]}, replayed with {versions[1]}"
            self._notes[note] = None

    def _note(self, found: Iterable[Difference], step: int | None) -> None:
        for each in found:
            self.n_found += 1
            if len(self.found) < MAX_MISMATCHES:
                kind = _kind(each.path)
                held = each.expected, each.actual
                self.found.append(Mismatch(kind, step, _pointer(each), *held))


def _kind(path: Path) -> str:
    if path[:2] == ("info", "tool_calls"):
        return "tool_result"
    return _KINDS.get(path[0], path[0])


_KINDS = {
    "terminated": "flag",
    "truncated": "flag",
    "steps": "flag",
    "case": "task",
    "action_space": "space",
    "observation_space": "space",
}


def _pointer(difference: Difference) -> str:
    return "/" + "/".join(difference.path)


def _portable(value: Any) -> Json:
    return None if value is ABSENT else tag(value)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {describe_error(error)}"


def _short(value: Any) -> str:
    if value is ABSENT:
        return "nothing"
    # NumPy's numbers as a person writes them
    text = " ".join((str(value) if isinstance(value, np.generic) else repr(value)).split())
    return text if len(text) <= 80 else f"{text[:79]}…"


def _counted(number: int, thing: str, things: str | None = None) -> str:
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"
