"""The recorder: the one place where an episode is seen.

It runs in the caller's loop, so it does the least that keeps what was seen: a copy of each value
that could change, two clock readings, one list entry a step. Encoding, digests and checks of the
Gymnasium contract happen later (`encoder`), on another thread where there is a store.
"""

from __future__ import annotations

import datetime
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any

import numpy as np
from numpy import ndarray

from envbench.capture.contract import outside_error
from envbench.capture.frames import FrameReader, RawFrame
from envbench.capture.provenance import Provenance
from envbench.capture.surroundings import Surroundings, unknown_surroundings
from envbench.evidence.case import EvalCase
from envbench.evidence.digest import join_object
from envbench.evidence.portable import Json, pointer_segment
from envbench.evidence.record import new_id
from envbench.evidence.tagged import TAG, Encoding, Kept, describe_error, encode, keep

PART_STEPS = 5_000
"""A long episode is handed over every so many steps …"""

PART_BYTES = 16_000_000
"""… or when this much is held, whichever comes first."""

_PART_AT_LEAST = 1_000_000

_UNLOOKED = 64
"""How many steps may be held before it is looked how much that is."""
_FEW_MEMBERS = 64

Observe = Callable[[], Mapping[str, Any]]
Audit = Callable[[], list[dict[str, Any]]]


@dataclass(slots=True)
class RawState:
    """A state as the observer gave it, encoded at once.

    Attributes:
        body: canonical JSON, None when no state was seen.
        sections: the canonical JSON of each of its members, where it has few.
        found: what has no place in the JSON.
        observe_ns: nanoseconds that the observer took.
    """

    body: bytes | None
    sections: dict[str, bytes] | None
    found: Encoding | None
    observe_ns: int | None


UNSEEN = RawState(None, None, None, None)
NOTHING = object()


@dataclass(slots=True)
class RawStep:
    """An attempted step as it was seen.

    Attributes:
        action: a copy of the action.
        refused: whether the action was refused before the environment saw it.
        result: a copy of what the environment returned, `NOTHING` when it did not return.
        state: the state read after it.
        errors: what went wrong, most telling first.
        started_ns: nanoseconds on the recorder's clock.
        ended_ns: likewise.
        frame: what the environment showed after it; None where that was not asked.
    """

    action: Any
    refused: bool
    result: Any
    state: RawState
    errors: list[dict[str, Json]]
    started_ns: int
    ended_ns: int
    frame: RawFrame | None = None


PlainRow = tuple[Any, Any, Any, Any, Any, Any, int, int]
"""A step: its action, the five values that were returned, and the two clock readings."""


class SharedStep:
    """A step of a vector environment, in one piece for all environments in which it went on.

    Args:
        actions: by environment, held; a list or an array, like the observations.
        observations: likewise.
        rewards: likewise, as a list.
        infos: likewise, None when all were empty.
        started_ns: when the step began, on the recorders' clock.
        ended_ns: when it ended.
    """

    __slots__ = (
        "_ended_ns",
        "_infos",
        "_observations",
        "_rewards",
        "_weight",
        "actions",
        "started_ns",
    )

    def __init__(
        self,
        actions: Any,
        observations: Any,
        rewards: list[Any],
        infos: list[Any] | None,
        started_ns: int,
        ended_ns: int,
    ) -> None:
        self.actions = actions
        self._observations = observations
        self._rewards = rewards
        self._infos = infos
        self.started_ns = started_ns
        self._ended_ns = ended_ns
        self._weight: int | None = None

    def of(self, i: int) -> PlainRow:
        """The step of one environment."""
        info = NO_INFO if self._infos is None else self._infos[i]
        observation = self._observations[i]
        return (
            self.actions[i],
            observation,
            self._rewards[i],
            False,
            False,
            info,
            self.started_ns,
            self._ended_ns,
        )

    @property
    def weight(self) -> int:
        """About how many bytes the step of one environment takes."""
        if self._weight is None:
            whole = _size(self.actions) + _size(self._observations) + _size(self._infos)
            self._weight = 100 + whole // len(self._rewards)
        return self._weight

    @property
    def is_of_one_size(self) -> bool:
        """Whether all such steps of the same spaces take as much."""
        return (
            self._infos is None
            and type(self._observations) is ndarray
            and type(self.actions) is ndarray
        )


Row = RawStep | PlainRow | SharedStep


@dataclass(slots=True)
class Notice:
    """Whether a failure to write is due to be said before the next step.

    A step that was taken returns what the environment returned, whatever became of its record.
    """

    due: bool = False


@dataclass(slots=True)
class RawReset:
    """The reset as it was seen; `result` is `NOTHING` when it failed."""

    result: Any
    state: RawState
    started_ns: int | None
    ended_ns: int | None
    frame: RawFrame | None = None


@dataclass(slots=True)
class RawEnding:
    """How an episode ended, and what is known only then."""

    ending: str
    terminated: bool
    truncated: bool
    state: RawState
    output: Any
    cleanup: dict[str, Json] | None
    duration_ms: float


@dataclass(slots=True)
class RawPart:
    """What was seen since the last part.

    Attributes:
        reset: in the first part.
        steps: attempted steps; a tuple stands for one that went as it should.
        errors: errors that belong to no step, in order, with the step they followed.
        issues: sentences on what the record does not cover.
        audit: (step, event) of the authoritative history.
        ending: in the last part.
        taken: whether its taker has it, and it is not lost when an interrupt comes.
    """

    reset: RawReset | None
    steps: list[Row]
    errors: list[dict[str, Json]]
    issues: list[str]
    audit: list[tuple[int, dict[str, Any]]]
    ending: RawEnding | None
    taken: bool = False


@dataclass(slots=True)
class Header:
    """What is known of an episode before its reset.

    Attributes:
        provenance: may be replaced until the episode is sealed, by one with further labels.
        environment_fingerprint: digest of what the environment does, where it can tell.
        frame_kind: what frames are kept, None for none; known before the reset.
        vector_index: which part of a `SharedStep` is that of this episode.
        closes: whether closing the environment belongs to the episode.
        epoch_ns: what the recorder's clock is behind the nanoseconds since 1970 UTC.
    """

    case: EvalCase
    surroundings: Surroundings | None
    environment_id: str
    observer_id: str | None
    provenance: Provenance
    seed: int | None
    options: Any
    max_steps: int | None
    row_keys: Mapping[str, str] | None
    audited: bool
    capture_steps: bool
    closes: bool
    environment_fingerprint: str | None = None
    frame_kind: str | None = None
    vector_index: int = 0
    max_obs_chars: int | None = None
    max_action_chars: int | None = None
    episode_id: str = field(default_factory=new_id)
    recorded_at: datetime.datetime = field(
        default_factory=lambda: datetime.datetime.now(datetime.UTC)
    )
    epoch_ns: int = field(default_factory=lambda: time.time_ns() - perf_counter_ns())

    @property
    def environment_head(self) -> dict[str, bytes]:
        """Canonical JSON of the keys of `.data` that speak of the environment."""
        if self.surroundings is None:
            return unknown_surroundings(self.environment_id)
        return self.surroundings.head


class Recorder:
    """Sees one episode and hands over what it saw in parts.

    Args:
        header: what is known before the reset.
        deliver: takes a part; called in the caller's loop, it must be quick.
        observe: reads the state of the world, independently of the agent.
        audit: returns what an authoritative history recorded since the last call.

    Attributes:
        steps: those that are held.
        fetch: brings the steps that are held elsewhere, if some may be.
        limit: when so many are held, it is time to look how much that is.
        share: how many recorders in step share the memory that one may hold.
        notice: is due when what was handed over can be put nowhere.
    """

    def __init__(
        self,
        header: Header,
        deliver: Callable[[Recorder, RawPart], None],
        observe: Observe | None = None,
        audit: Audit | None = None,
    ) -> None:
        self.header = header
        self.steps: list[Row] = []
        self.fetch: Callable[[], None] | None = None
        self.limit = _UNLOOKED
        self.terminated = False
        self.truncated = False
        self.failed = False
        self.stopped = False
        self.sealed = False
        self.after_end = 0
        self.parts = 0
        self.share = 1
        self.notice = Notice()
        # of the steps that were handed over: how many, and the last
        self._handed = 0
        self._last: Row | None = None
        self._untaken: RawPart | None = None
        # of how many of the steps that are held the weight is known, and what it is
        self._weighed = self._weight = 0
        self._deliver = deliver
        self._observe = observe
        self._audit = audit
        self._watched = observe is not None or audit is not None
        self._frames: FrameReader | None = None
        self._reset: RawReset | None = None
        self._errors: list[dict[str, Json]] = []
        self._issues: list[str] = []
        self._events: list[tuple[int, dict[str, Any]]] = []
        self._raised: deque[BaseException] = deque(maxlen=8)
        self._began_ns = perf_counter_ns()

    @property
    def n_steps(self) -> int:
        """How many steps were attempted, but for those that `fetch` brings."""
        return self._handed + len(self.steps)

    @property
    def ended(self) -> bool:
        """Whether the environment has ended the episode."""
        return self.terminated or self.truncated

    @property
    def was_reset(self) -> bool:
        """Whether it was noted what came of the reset."""
        return self._reset is not None or self.parts > 0

    def was_reset_at(self, started: int) -> bool:
        """Whether that was noted, of a reset that began then, and nothing since was handed over."""
        return self._reset is not None and self._reset.started_ns == started

    def watch(self, observe: Observe, audit: Audit | None) -> None:
        """Read the state from now on; where the environment is what tells it."""
        self._observe, self._audit, self._watched = observe, audit, True

    def show(self, frames: FrameReader) -> None:
        """Keep what the environment shows after its reset and after each step it takes."""
        self._frames, self._watched = frames, True
        self.header.frame_kind = frames.kind

    def reset(self, call: Callable[[], Any]) -> Any:
        """Reset the environment, and see what it returned.

        Whatever `call` raises is recorded and raised again.
        """
        started = perf_counter_ns()
        try:
            result = call()
        except BaseException as error:
            self.note_failed_reset(error, started, perf_counter_ns())
            raise
        self.note_reset(result, started, perf_counter_ns())
        return result

    def note_reset(self, result: Any, started: int, ended: int) -> None:
        """See what a reset returned that was called between these two moments."""
        held = hold_parts(result)
        if has_kept(held):
            self._errors += [{**error, "step": 0} for error in self._judge(result)]
        self.note_held_reset(held, started, ended)

    def note_held_reset(self, held: Any, started: int, ended: int) -> None:
        """See what a reset returned that is held already."""
        self._began_ns = min(self._began_ns, started)
        self._reset = RawReset(held, UNSEEN, started, ended)
        self._look_after(_size(held))
        self._reset.state = self.see("observe_reset")
        self._reset.frame = self._look()

    def note_failed_reset(self, error: BaseException, started: int, ended: int) -> None:
        """See that a reset raised, and the state that it left."""
        self._began_ns = min(self._began_ns, started)
        self._reset = RawReset(NOTHING, UNSEEN, started, ended)
        self.failed = True
        self.error("reset", error)
        self._reset.state = self.see("observe_reset")

    def step(self, action: Any, call: Callable[[Any], Any]) -> Any:
        """Take a step, and see the action, what came of it, and the state after it.

        Whatever `call` raises is recorded with the state that it left, and raised again.
        """
        held, result = action if type(action) in _IMMUTABLE else hold(action), NOTHING
        started = ended = perf_counter_ns()
        try:
            result = call(action)
            ended = perf_counter_ns()
            self.note_step(held, result, started, ended)
        except BaseException as error:
            try:
                self._make_up(held, result, error, started, ended)
            except BaseException:  # another interrupt
                self._make_up(held, result, error, started, ended)
                raise
            raise
        return result

    def _make_up(
        self, held: Any, result: Any, error: BaseException, started: int, ended: int
    ) -> None:
        """Note of a step what was not noted: that it raised, or what an interrupt cut short."""
        if result is NOTHING:
            if not self.has(started):
                self.note_raised(held, error, started, perf_counter_ns())
            return
        try:
            if not self.has(started):
                self.note_step(held, result, started, ended)
        finally:
            if not self.has(started):
                self.note_raised(held, error, started, ended)
            self.note_flags(result)

    def has(self, started: int) -> bool:
        """Whether the step that was noted last is the one that began then."""
        last = self.steps[-1] if self.steps else self._last
        if last is None:
            return False
        return started == (last[6] if isinstance(last, tuple) else last.started_ns)

    def note_raised(self, held: Any, error: BaseException, started: int, ended: int) -> None:
        """See that a step raised: the action, already held, and the state that it left."""
        self.failed = isinstance(error, Exception)
        errors = [self.describe("step", error)]
        step = RawStep(held, False, NOTHING, UNSEEN, errors, started, ended)
        self._append(step, shows=self.failed)

    def note_step(self, held: Any, result: Any, started: int, ended: int) -> None:
        """See what came of a step: its action, already held, and what was returned."""
        self.failed = False
        if self._watched or type(result) is not tuple or len(result) != 5:
            self.note_flags(result)
            whole = hold_parts(result)
            errors = self._judge(result) if has_kept(whole) else []
            self._append(RawStep(held, False, whole, UNSEEN, errors, started, ended))
            return
        # what follows is `hold` and `note_flags`, spelled out for what is met in every step
        observation, reward, terminated, truncated, info = result
        if type(observation) is ndarray and not observation.dtype.hasobject:
            observation = observation.copy()
        elif type(observation) not in _IMMUTABLE:
            observation = hold(observation)
            if has_kept(observation) and (errors := self._judge(result)):
                self.note_flags(result)
                self._append(
                    RawStep(held, False, hold_parts(result), UNSEEN, errors, started, ended)
                )
                return
        if type(reward) not in _IMMUTABLE:
            reward = hold(reward)
        goes_on = terminated is False and truncated is False
        if not goes_on:
            terminated, truncated = hold(terminated), hold(truncated)
        info = NO_INFO if type(info) is dict and not info else hold(info)
        self.steps.append((held, observation, reward, terminated, truncated, info, started, ended))
        if not goes_on:
            self.note_flags(result)
        if len(self.steps) >= self.limit:
            self.hand_over()

    def note_held(
        self,
        held: Any,
        result: tuple[Any, Any, Any, Any, Any],
        started: int,
        ended: int,
        *,
        shows: bool = True,
    ) -> None:
        """See what came of a step where also the five values that were returned are held.

        Args:
            held: its action.
            result: what the environment returned.
            started: when it was called, on the recorder's clock.
            ended: when it returned.
            shows: whether the environment still shows what came of it.
        """
        self.failed = False
        if self._watched:
            self.note_flags(result)
            step = RawStep(held, False, result, UNSEEN, [], started, ended)
            self._append(step, shows=shows)
            return
        self.steps.append((held, *result, started, ended))
        self.note_flags(result)
        if len(self.steps) >= self.limit:
            self.hand_over()

    def _judge(self, result: Any) -> list[dict[str, Json]]:
        """Say whether an observation is outside its space, where only itself can tell.

        What is held of a class of the user's own is not the value that its space knows. All others
        are judged later, together.
        """
        surroundings = self.header.surroundings
        if surroundings is None or not isinstance(result, tuple) or len(result) not in (2, 5):
            return []
        codec = surroundings.observations
        if not has_kept(hold(result[0])) or codec.contains(result[0]):
            return []
        return [outside_error(codec)]

    def refuse(self, action: Any, error: Exception) -> None:
        """Record an attempted step whose action the environment never saw."""
        now = perf_counter_ns()
        errors = [{**self.describe("action", error), "value": keep(action)}]
        self._append(RawStep(None, True, NOTHING, UNSEEN, errors, now, now), shows=False)

    def note_flags(self, result: Any) -> None:
        """Take the end of the episode from what a step returned."""
        # anything else is a broken contract, and to unpack it might use it up
        if isinstance(result, (tuple, list)) and len(result) == 5:
            self.terminated, self.truncated = is_true(result[2]), is_true(result[3])

    def error(self, phase: str, error: BaseException) -> dict[str, Json]:
        """Record an error that belongs to no step."""
        described = self.describe(phase, error)
        self._errors.append({**described, "step": self.n_steps})
        return described

    def issue(self, text: str) -> None:
        """Record a sentence on what the record does not cover, once in a part."""
        if text not in self._issues:
            self._issues.append(text)

    def see(self, phase: str) -> RawState:
        """Read the state, and the audit, if there is an observer for them."""
        state, errors = self._read(phase)
        self._errors += [{**error, "step": self.n_steps} for error in errors]
        return state

    def finish(
        self,
        ending: str,
        *,
        state: RawState = UNSEEN,
        output: Any = None,
        cleanup: dict[str, Json] | None = None,
    ) -> None:
        """End the episode and hand over the rest of it."""
        if self.sealed:
            self._deliver_left()
            return
        if self.fetch is not None:
            self.fetch()
        issues = []
        if self.after_end:
            times = "once" if self.after_end == 1 else f"{self.after_end} times"
            issues = [f"lifecycle: stepped {times} after the end; such steps are not recorded"]
        duration = (perf_counter_ns() - self._began_ns) / 1e6
        raw = RawEnding(
            ending, self.terminated, self.truncated, state, output, cleanup, round(duration, 3)
        )
        self._hand_over(raw, issues)
        self._raised.clear()

    def hand_over(self, last: int = 0, size: int = 0) -> None:
        """Hand over a part if enough is held, else say when to look again.

        Args:
            last: of so many steps, the last ones, it is known how much they take.
            size: that many bytes.
        """
        held, of_one = len(self.steps), 0
        if held < PART_STEPS:
            self._weight += size + sum(map(weight, self.steps[self._weighed : held - last]))
            self._weighed, of_one = held, self._weight // held
            room = (self._most - self._weight) // max(1, of_one)
            if room > 0:
                # room for what is held once more, or some steps, at the size that they had so far
                self.limit = held + min(room, max(held, _UNLOOKED), PART_STEPS - held)
                return
        self._hand_over(None)
        self._look_after(of_one)

    @property
    def _most(self) -> int:
        """How many bytes may be held."""
        return max(PART_BYTES // self.share, min(PART_BYTES, _PART_AT_LEAST))

    def _look_after(self, size: int) -> None:
        """Look how much is held when it may be enough, if steps take about so many bytes."""
        self.limit = max(1, min(_UNLOOKED, self._most // max(1, size)))

    def deliver_to(self, deliver: Callable[[Recorder, RawPart], None]) -> None:
        """Hand over to another taker from now on."""
        self._deliver = deliver

    def detach(self) -> None:
        """Record nothing from now on."""
        self.sealed = True
        self._deliver = lambda recorder, part: None

    def knows(self, error: BaseException) -> bool:
        """Whether an error was recorded already, when it was first raised."""
        return any(error is known for known in self._raised)

    def describe(self, phase: str, error: BaseException) -> dict[str, Json]:
        """An error as evidence keeps it."""
        self._raised.append(error)
        return {"phase": phase, "type": type(error).__name__, "message": describe_error(error)}

    def _hand_over(self, ending: RawEnding | None, issues: Sequence[str] = ()) -> None:
        self._deliver_left()
        issues = [*self._issues, *issues]
        part = RawPart(self._reset, self.steps, self._errors, issues, self._events, ending)
        handed, last = self._handed + len(part.steps), part.steps[-1] if part.steps else self._last
        # nothing is called until it is all done, so that no interrupt can come in between
        self._handed, self._last = handed, last
        self._reset, self.steps, self._errors, self._issues, self._events = None, [], [], [], []
        self._weighed = self._weight = 0
        self.parts += 1
        self.sealed = self.sealed or ending is not None
        self._untaken = part
        self._deliver_left()

    def _deliver_left(self) -> None:
        """Deliver the last part, if that was not done or an interrupt came before it was taken."""
        part = self._untaken
        if part is None:
            return
        try:
            self._deliver(self, part)
        except BaseException:
            if not part.taken:
                self._deliver(self, part)
            raise
        self._untaken = None

    def _append(self, step: RawStep, *, shows: bool = True) -> None:
        self.steps.append(step)
        step.state, errors = self._read("observe_step")
        step.errors += errors
        if shows:
            step.frame = self._look()
        if len(self.steps) >= self.limit:
            self.hand_over()

    def _look(self) -> RawFrame | None:
        """Read what the environment shows, if that is to be kept."""
        if self._frames is None:
            return None
        try:
            return self._frames.read()
        except BaseException as error:  # an interrupt
            self.error("render", error)
            raise

    def _read(self, phase: str) -> tuple[RawState, list[dict[str, Json]]]:
        errors: list[dict[str, Json]] = []
        if self._audit is not None:
            try:
                events = [dict(event) for event in self._audit()]
                step = self.n_steps + (phase == "observe_final")
                self._events += [(step, hold(event)) for event in events]
            except Exception as error:
                errors.append(self.describe("audit", error))
            except BaseException as error:
                self.error("audit", error)
                raise
        if self._observe is None:
            return UNSEEN, errors
        started = perf_counter_ns()
        try:
            state = self._observe()
            if not isinstance(state, dict):
                raise TypeError(f"the observer returned {type(state).__name__}, not a dict")
            found = Encoding()
            body, sections = _encode_state(state, found)
        except Exception as error:
            errors.append(self.describe(phase, error))
            return RawState(None, None, None, perf_counter_ns() - started), errors
        except BaseException as error:
            self.error(phase, error)
            raise
        taken = perf_counter_ns() - started
        beside = found if found.problems or found.arrays else None
        return RawState(body, sections, beside, taken), errors


def _encode_state(state: dict[Any, Any], found: Encoding) -> tuple[bytes, dict[str, bytes] | None]:
    """A state as canonical JSON, and member by member where it has few, to find changes faster."""
    few = type(state) is dict and len(state) <= _FEW_MEMBERS and TAG not in state
    if not few or not all(type(name) is str and name.isascii() for name in state):
        return encode(state, found), None
    sections = {
        name: encode(value, found, f"/{pointer_segment(name)}") for name, value in state.items()
    }
    return join_object(sections), sections


def has_kept(held: Any) -> bool:
    """Whether a part of a held value is in tagged form, and so no longer what it was."""
    kind = type(held)
    if kind is dict:
        return any(map(has_kept, held.values()))
    if isinstance(held, (tuple, list)):
        return any(map(has_kept, held))
    return kind is Kept


def is_true(flag: Any) -> bool:
    """Whether a flag that an environment returned ends the episode."""
    try:
        return bool(flag)
    except Exception:  # a vector, which is neither; the encoder says so
        return False


def hold(value: Any) -> Any:
    """A copy of a value that nothing outside can change any more.

    Plain containers and arrays are copied; a value of any other class is put in tagged form at
    once, because only its own code knows what a copy of it is.
    """
    if type(value) in _IMMUTABLE:
        return value
    try:
        return _copy(value)
    except Exception:  # it contains itself, or its class is hostile; the tagged form says so
        return keep(value)


def hold_parts(result: Any) -> Any:
    """A copy of what a reset or step returned; a part that cannot be copied costs only itself."""
    return tuple([hold(part) for part in result]) if type(result) is tuple else hold(result)


def _copy(value: Any) -> Any:
    kind = type(value)
    if kind in _IMMUTABLE:
        return value
    if kind is np.ndarray:
        return keep(value) if value.dtype.hasobject else value.copy()
    if kind is tuple:
        return tuple([_copy(item) for item in value])
    if kind is dict:
        return {key: _copy(item) for key, item in value.items()}
    if kind is list:
        return [_copy(item) for item in value]
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        return tuple.__new__(kind, [_copy(item) for item in value])
    return keep(value)


_IMMUTABLE = frozenset(
    {
        int,
        float,
        str,
        bool,
        type(None),
        bytes,
        complex,
        *(kind for kind in np.sctypeDict.values() if kind not in (np.void, np.object_)),
    }
)


_NUMBERS = _IMMUTABLE - {str, bytes, np.str_, np.bytes_}

NO_INFO: dict[str, Any] = {}
"""Stands for every info that was empty; nobody may write to it."""


def weight(step: Row) -> int:
    """About how many bytes a held step takes."""
    if type(step) is tuple:
        observation, info = step[1], step[5]
        size = 240 if type(step[0]) in _NUMBERS else 200 + _size(step[0])
        size += 100 + observation.nbytes if type(observation) is ndarray else _size(observation)
        return size + 60 if info is NO_INFO else size + _size(info)
    if type(step) is SharedStep:
        return step.weight
    assert isinstance(step, RawStep)
    body = step.state.body
    arrays = step.state.found.arrays.values() if step.state.found else ()
    seen = (len(body) if body else 0) + sum(map(len, arrays))
    seen += step.frame.weight if step.frame else 0
    return 400 + _size(step.action) + _size(step.result) + seen


def _size(value: Any) -> int:
    kind = type(value)
    if kind is np.ndarray:
        return 100 + int(value.nbytes)
    if kind in (str, bytes):
        return 50 + len(value)
    if kind is dict:
        return 60 + sum(map(_size, value.values()))
    if isinstance(value, (tuple, list)):
        return 60 + sum(map(_size, value))
    if kind is Kept:
        return 100 + _size(value.form) + sum(map(len, value.found.arrays.values()))
    return 40
