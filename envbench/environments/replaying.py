"""Taking recorded actions again: an environment is driven by an episode, and recorded anew.

The second recording is made by the one recorder, so that both are values of evidence, and what a
save does to a value it did to both.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from envbench.capture.encoder import EpisodeEncoder, gather
from envbench.capture.guard import InvalidAction
from envbench.capture.own_state import OBSERVER_ID, own_state
from envbench.capture.provenance import Provenance, with_run
from envbench.capture.recorder import Header, Recorder, hold
from envbench.capture.surroundings import Surroundings
from envbench.capture.wrapper import EpisodeCaptureWrapper
from envbench.environments.tasks import TaskData
from envbench.evidence.episode import EpisodeEvidence, Step
from envbench.evidence.tagged import Cut, Missing, Named, decode
from envbench.store.writing import EpisodePart

INTERRUPTS = ("KeyboardInterrupt", "SystemExit", "GeneratorExit", "CancelledError")
"""Exceptions that come from outside: what they cut short cannot be made to happen again."""


@dataclass(slots=True)
class Plan:
    """What is done to replay an episode.

    Attributes:
        episode: the evidence.
        steps: the steps that can be taken again, from the first.
        options: given to the reset.
        seed: given to the reset.
        observe: reads the state, given the environment; None for the environment's own snapshot.
        audit: gives the events of an authoritative history; None likewise.
        is_partial: whether steps are left out from some step on.
        notes: sentences on what is not replayed.
    """

    episode: EpisodeEvidence
    steps: list[Step]
    options: dict[str, Any] | None
    seed: int | None
    observe: Callable[[Any], Mapping[str, Any]] | None
    audit: Callable[[], list[dict[str, Any]]] | None
    is_partial: bool = False
    notes: tuple[str, ...] = ()

    def leave_out_scores(self) -> None:
        """Have the episode not scored at its end."""
        self.options = {**(self.options or {}), "score": False}


@dataclass(frozen=True, slots=True)
class Second:
    """A second recording of an episode's actions.

    Attributes:
        episode: its evidence.
        n_steps: how many of the steps were taken.
        has_state: whether the state was read.
        has_audit: whether the audit was.
    """

    episode: EpisodeEvidence
    n_steps: int
    has_state: bool
    has_audit: bool


def make_plan(
    episode: EpisodeEvidence,
    *,
    task: TaskData | None,
    observe: Callable[..., Mapping[str, Any]] | None,
    audit: Callable[[], list[dict[str, Any]]] | None,
) -> Plan:
    """Find out what of an episode can be done again.

    Raises:
        ValueError: when nothing can: its steps were not kept, or its options cannot be given again.
    """
    data = episode.data
    if not data["capture_steps"]:
        raise ValueError(
            "the episode's steps were not kept (capture_steps=False), so they cannot be taken again"
        )
    notes: list[str] = []
    steps = []
    for step in episode.steps:
        reason = _why_not_again(step)
        if reason is not None:
            notes.append(f"step {step.index} {reason}: nothing is replayed from there on")
            break
        steps.append(step)
    return Plan(
        episode=episode,
        steps=steps,
        options=_options(data["options"], task),
        seed=data["seed"],
        observe=None if observe is None else _taking_environment(observe),
        audit=audit,
        is_partial=bool(notes),
        notes=tuple(notes),
    )


def _why_not_again(step: Step) -> str | None:
    error = step.error or {}
    if error.get("phase") == "step" and error.get("type") in INTERRUPTS:
        return "was interrupted while it was recorded"
    if is_refused(step):
        return None
    for part in _parts(step.action):
        if isinstance(part, Cut):
            return "has an action of which only the beginning was kept"
        if isinstance(part, Missing):
            return f"has an action that could not be kept ({part.type})"
        if isinstance(part, Named):
            return f"has an action of the class {part.type}, which evidence only names"
    return None


def is_refused(step: Step) -> bool:
    """Whether the action was refused, so that the environment never saw it."""
    return step.action is None and (step.error or {}).get("phase") == "action"


def _parts(value: Any) -> Iterator[Any]:
    yield value
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _parts(key)
            yield from _parts(item)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from _parts(item)


def _options(recorded: Any, task: TaskData | None) -> dict[str, Any] | None:
    """The options of the reset, with the task as a task again."""
    options: dict[str, Any] | None = decode(recorded)
    if isinstance(options, dict) and isinstance(options.get("task"), dict):
        options["task"] = _task(options["task"])
    for part in _parts(options):
        if isinstance(part, Named | Missing | Cut):
            kind = getattr(part, "type", "a value that was cut")
            raise ValueError(  # noqa: TRY004 - what is wrong is a value
                f"/options: holds {kind}, which evidence only names, so that the reset cannot be"
                " given it again: make the environment in a factory that resets itself so"
            )
    if task is not None:
        options = {**(options or {}), "task": task}
    return options


def _task(recorded: dict[str, Any]) -> Any:
    """A task as it was recorded, without the answer key; anything else as it is."""
    if set(recorded) != {"task_id", "input", "metadata"}:
        return recorded
    try:
        return TaskData(recorded["task_id"], recorded["input"], metadata=recorded["metadata"])
    except (TypeError, ValueError):
        return recorded


def _taking_environment(observe: Callable[..., Any]) -> Callable[[Any], Any]:
    """An observer that is given the environment, whether it takes it or not."""
    if not callable(observe):
        raise TypeError(f"observe must be callable, not {type(observe).__name__}")
    try:
        inspect.signature(observe).bind()
    except TypeError:
        return observe
    except ValueError:  # a builtin without a signature
        pass
    return lambda environment: observe()


def bare(environment: Any) -> Any:
    """The environment without a wrapper of ours around it, which would record it."""
    while isinstance(environment, EpisodeCaptureWrapper):
        environment = environment.env
    return environment


def innermost(environment: Any) -> Any:
    """The environment inside all wrappers; itself where it does not say, not being Gymnasium's."""
    try:
        return environment.unwrapped
    except Exception:
        return environment


def take_again(environment: Any, plan: Plan) -> Second:
    """Reset an environment, take the steps of a plan, and record what comes of them.

    Raises:
        KeyboardInterrupt: likewise what else stops Python, except SystemExit in the environment.
    """
    environment = bare(environment)
    parts: list[EpisodePart] = []
    header = _header(environment, plan)
    encoder = EpisodeEncoder(header)
    observe, audit = _readers(environment, plan, header)
    recorder = Recorder(header, lambda _, raw: parts.append(encoder.encode(raw)), observe, audit)
    taken = _drive(recorder, environment, plan)
    state = recorder.see("observe_final")
    ending = "terminated" if recorder.terminated else "truncated" if recorder.truncated else None
    recorder.finish(ending or "policy_stop", state=state)
    return Second(
        episode=EpisodeEvidence(gather(parts)),
        n_steps=taken,
        has_state=observe is not None,
        has_audit=header.audited,
    )


def _readers(environment: Any, plan: Plan, header: Header) -> tuple[Any, Any]:
    """What reads the state and the audit.

    Where nothing is given these are the environment's own, if what was recorded was its own.
    """
    observe, audit = plan.observe, plan.audit
    if observe is not None:
        return lambda: observe(environment), audit
    own = own_state(environment) if header.observer_id == OBSERVER_ID else None
    if own is None:
        return None, audit
    return own.observe, audit or partial(own.audit, header)


def _header(environment: Any, plan: Plan) -> Header:
    data = plan.episode.data
    return Header(
        case=plan.episode.case,
        surroundings=Surroundings(environment, data["environment_id"]),
        environment_id=data["environment_id"],
        observer_id=data["observer_id"],
        provenance=with_run(Provenance()),
        seed=plan.seed,
        options=hold(plan.options),
        max_steps=None,
        row_keys=None,
        audited=plan.audit is not None,
        capture_steps=True,
        closes=False,
    )


def _drive(recorder: Recorder, environment: Any, plan: Plan) -> int:
    """Reset and step; what the environment raises is recorded. Returns the number of steps."""
    try:
        recorder.reset(lambda: environment.reset(seed=plan.seed, options=plan.options))
    except (Exception, SystemExit):
        return 0
    surroundings = recorder.header.surroundings
    assert surroundings is not None
    recorder.header.surroundings = surroundings.of(environment)
    for count, step in enumerate(plan.steps):
        if recorder.ended:
            return count
        if is_refused(step):
            recorder.refuse(None, InvalidAction("refused when it was recorded"))
            continue
        try:
            recorder.step(step.action, environment.step)
        except (Exception, SystemExit):
            continue
    return len(plan.steps)
