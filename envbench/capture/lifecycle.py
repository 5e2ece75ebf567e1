"""`capture_episode`: one fresh environment, one reset, one agent, one sealed episode."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import gymnasium

from envbench.capture.encoder import EpisodeEncoder, gather
from envbench.capture.frames import FrameReader, NotRendered, frame_kind
from envbench.capture.guard import check_exposed, guard
from envbench.capture.own_state import OBSERVER_ID, UNSCORED, NotObserved, OwnState, own_state
from envbench.capture.provenance import Provenance, require_count, with_run
from envbench.capture.recorder import UNSEEN, Audit, Header, Observe, RawPart, Recorder, hold
from envbench.capture.sink import (
    Sink,
    Target,
    WriteFailed,
    no_cleanup,
    release,
    require_frames,
    sink_for,
)
from envbench.capture.surroundings import Surroundings
from envbench.evidence.case import EvalCase, require_name
from envbench.evidence.episode import EpisodeEvidence
from envbench.evidence.portable import Json, canonical
from envbench.store import Store
from envbench.store.termination import handing_over, uninterrupted
from envbench.store.writing import EpisodePart

Interact = Callable[[Any, Any, dict[str, Any]], str | None]


def capture_episode(
    factory: Callable[[], gymnasium.Env[Any, Any]],
    interact: Interact,
    *,
    case: EvalCase,
    environment_id: str | None = None,
    observer_id: str | None = None,
    observe: Observe | None = None,
    seed: int,
    max_steps: int,
    options: dict[str, Any] | None = None,
    store: Target | None = None,
    provenance: Provenance | None = None,
    audit: Audit | None = None,
    row_keys: Mapping[str, str] | None = None,
    render: bool = False,
    expose: Sequence[str] = (),
) -> EpisodeEvidence:
    """Record one episode of a fresh environment.

    The environment is made, reset once and handed to the agent under guard; the state is read
    after the reset, after every attempted step and at the end; closing is always attempted. An
    exception of the environment or the agent is recorded and not raised: the episode says how it
    ended. Nothing is retried, and nothing is assumed rolled back.

    Args:
        factory: makes the environment; it cleans up after itself when it raises.
        interact: the agent, called with the environment, the first observation and the first info;
            returns its answer as text, or None.
        case: what the agent is asked.
        environment_id: names environment and version.
        observer_id: names the observer and its version.
        observe: reads the state of the world as a dict, independently of what the agent is told.
            It may be left out, and these names with it, when the factory makes an
            `envbench.environments.Environment`, also under wrappers: then its snapshot is the
            state, and its name, version and fingerprint are kept, as those of a rollout are.
        seed: given to `reset`.
        max_steps: attempted steps that are let through; more are refused.
        options: given to `reset`.
        store: where the episode is kept: a store, its path, or a ``.jsonl`` path. It is committed
            when this function returns.
        provenance: agent, version, run and attempt.
        audit: returns the events of an authoritative history since its last call, as dicts
            ``{"table", "op", "key", "before", "after"}``.
        row_keys: the key of each table of the state, by JSON Pointer.
        render: keep what the environment shows after its reset and after each step it takes, see
            `EpisodeEvidence.frames`; it must be made with ``render_mode`` ``"rgb_array"`` or
            ``"ansi"``. A `render` that raises is an error of its step, and the run goes on.
        expose: names of attributes of the environment that the agent may use, such as
            ``action_masks``. The agent is otherwise kept from what is behind the environment that
            it holds; `envbench.capture.guard` says what that does not cover.

    Returns:
        The evidence.

    Raises:
        TypeError: when an argument is of the wrong type, or no observer is given for an environment
            that does not tell its own state.
        ValueError: when an argument has no meaning.
        WriteFailed: when the store could not be written; its `episode` holds the evidence.
        KeyboardInterrupt: and whatever else is no Exception, after closing; what was seen until
            then is kept in the store as an interrupted episode.
    """
    _require_callables(factory=factory, interact=interact)
    if audit is not None:
        _require_callables(audit=audit)
    exposed = check_exposed(expose)
    telling = None
    if observe is None and observer_id is None:
        telling = _Telling(row_keys=row_keys, audit=audit, is_named=environment_id is not None)
        environment_id = _name_of(factory) if environment_id is None else environment_id
        observer_id = OBSERVER_ID
    else:
        _require_callables(observe=observe)
    header = _header(case, environment_id, observer_id, seed, max_steps)
    if options is not None and not isinstance(options, dict):
        raise TypeError(f"options must be a dict or None, not {type(options).__name__}")
    header.options = hold(options)  # a copy: the environment may change what it is given
    header.provenance = with_run(provenance)
    header.row_keys = _row_keys(row_keys)
    header.audited = audit is not None
    run = Run(factory, interact, options, exposed, render=bool(render))
    if telling is not None:
        run = replace(run, made=telling.begin, conclude=telling.conclude)
    return record_episode(header, run, observe=observe, audit=audit, store=store)


@dataclass(frozen=True, slots=True)
class Run:
    """What is run in an episode.

    Attributes:
        factory: makes the environment.
        interact: the agent.
        options: given to `reset`.
        expose: names of attributes of the environment that the agent may use.
        render: keep frames.
        made: called with the recorder and the environment when that was made.
        conclude: called with the recorder and the ending before the episode is sealed.
        swallowed: takes up the exceptions that are recorded and not raised.
    """

    factory: Callable[[], Any]
    interact: Interact
    options: dict[str, Any] | None = None
    expose: tuple[str, ...] = ()
    render: bool = False
    made: Callable[[Recorder, Any], None] | None = None
    conclude: Callable[[Recorder, str], None] | None = None
    swallowed: list[Exception] = field(default_factory=list)


def record_episode(
    header: Header,
    run: Run,
    *,
    observe: Observe | None,
    audit: Audit | None = None,
    store: Target | None = None,
) -> EpisodeEvidence:
    """Record one episode from arguments that were checked; see `capture_episode`."""
    keeping = _Keeping(header, store)
    if run.render:
        keeping.require_frames()
    recorder = Recorder(header, keeping.take, observe, audit)
    try:
        keeping.watch(recorder)
        _run(recorder, run)
    except _REFUSED:
        keeping.forget(recorder)
        raise
    except BaseException as error:
        recorder.finish("interrupted", cleanup=no_cleanup(recorder))
        failure = keeping.commit()
        if failure is not None:
            error.add_note(f"envbench: what was seen until then is not kept: {failure}")
        raise
    failure = keeping.commit()
    if failure is not None:
        failure.episode = keeping.held()
        raise failure
    return keeping.episode()


_REFUSED = (NotObserved, NotRendered)
"""What shows only when the environment is made, and leaves no episode."""


def _header(
    case: EvalCase, environment_id: Any, observer_id: Any, seed: int, max_steps: int
) -> Header:
    if not isinstance(case, EvalCase):
        raise TypeError(f"case must be an EvalCase, not {type(case).__name__}")
    require_name("environment_id", environment_id)
    require_name("observer_id", observer_id)
    return Header(
        case=case,
        surroundings=None,
        environment_id=environment_id,
        observer_id=observer_id,
        provenance=Provenance(),
        seed=require_count("seed", seed, 0),
        options=None,
        max_steps=require_count("max_steps", max_steps, 1),
        row_keys=None,
        audited=False,
        capture_steps=True,
        closes=True,
    )


def _require_callables(**arguments: Any) -> None:
    for name, value in arguments.items():
        if not callable(value):
            raise TypeError(f"{name} must be callable, not {type(value).__name__}")


def _row_keys(row_keys: Any) -> dict[str, Json] | None:
    if row_keys is None:
        return None
    if not isinstance(row_keys, Mapping):
        raise TypeError(f"row_keys must be a mapping, not {type(row_keys).__name__}")
    for path, key in row_keys.items():
        if not isinstance(path, str) or not path.startswith("/"):
            raise ValueError(f"row_keys: {path!r} is no JSON Pointer, such as '/invoice_rows'")
        require_name(f"row_keys[{path!r}]", key)
    canonical(dict(row_keys))
    return dict(row_keys)


def _name_of(factory: Any) -> str:
    """What an environment is called that nobody named, until it is made and tells its name."""
    name = getattr(factory, "__qualname__", None) or type(factory).__qualname__
    return f"{getattr(factory, '__module__', None) or type(factory).__module__}.{name}"


class _Telling:
    """Lets an environment tell its state and what it is, where the caller gave no observer.

    Args:
        row_keys: what the caller gave, which stands.
        audit: likewise.
        is_named: whether the caller named the environment.
    """

    def __init__(self, *, row_keys: Any, audit: Audit | None, is_named: bool) -> None:
        self._row_keys = row_keys
        self._audit = audit
        self._is_named = is_named
        self._own: OwnState | None = None

    def begin(self, recorder: Recorder, env: Any) -> None:
        """Take what the environment tells into the record.

        Raises:
            NotObserved: when it tells no state.
        """
        own = self._own = own_state(env)
        if own is None:
            raise NotObserved(
                "observe is missing: pass observe=, observer_id= and environment_id=, because"
                f" {type(env).__name__} does not tell its own state as an"
                " envbench.environments.Environment does"
            )
        header = recorder.header
        given = header.row_keys
        if not self._is_named:
            header.environment_id = own.environment_id
        unknown = own.fill(header)
        if self._row_keys is not None:
            header.row_keys = given
        if self._audit is not None:
            header.audited = True
        recorder.watch(own.observe, self._audit or partial(own.audit, header))
        if unknown is not None:
            recorder.issue(unknown)

    def conclude(self, recorder: Recorder, ending: str) -> None:
        """Say that an episode was not judged, when something outside the environment ended it."""
        failed = ending in ("error", "interrupted")
        if self._own is not None and not failed and self._own.is_unscored():
            recorder.issue(UNSCORED)


class _Keeping:
    """Encodes an episode part by part, and keeps it: in its store, and in memory to be returned."""

    def __init__(self, header: Header, target: Target | None) -> None:
        self._header = header
        self._target = target
        self._sink: Sink | None = None if target is None else sink_for(target)
        by_line = self._sink is not None and self._sink.backend.by_line
        self._encoder = EpisodeEncoder(header, repeat_arrays=by_line)
        self._parts: list[EpisodePart] = []
        # at exit the main thread seals what another thread is still recording
        self._taking = threading.RLock()

    def watch(self, recorder: Recorder) -> None:
        """Have the episode sealed when the process ends before it does."""
        if self._sink is not None:
            self._sink.watch(recorder)

    def require_frames(self) -> None:
        """Refuse a target that keeps no frames."""
        if self._sink is not None:
            require_frames(self._sink)

    def forget(self, recorder: Recorder) -> None:
        """Keep nothing of an episode that did not begin."""
        recorder.detach()
        if self._sink is not None:
            self._sink.forget(recorder.header.episode_id)
            release(self._sink)

    def take(self, recorder: Recorder, raw: RawPart) -> None:
        """Take a part from the recorder."""
        with uninterrupted(), handing_over(), self._taking:
            if raw.taken or (self._parts and self._parts[-1].seal is not None):
                return
            raw.taken = True
            part = self._encoder.encode(raw)
            if self._sink is not None:
                self._sink.put(part)
            # a long episode in a store that stays open is read from there, and not held twice
            if isinstance(self._target, Store):
                self._parts = [part]
            else:
                self._parts.append(part)
        if self._sink is not None:
            self._sink.make_room()

    def commit(self) -> WriteFailed | None:
        """Wait until the episode is committed; return what went wrong."""
        if self._sink is None:
            return None
        try:
            release(self._sink)
        except WriteFailed as failure:
            return failure
        return None

    def episode(self) -> EpisodeEvidence:
        """The sealed episode."""
        held = self.held()
        if held is None:
            assert isinstance(self._target, Store)
            return self._target.episode(self._header.episode_id)
        return held

    def held(self) -> EpisodeEvidence | None:
        """The sealed episode if all of it is in memory."""
        if self._parts[0].first_step > 1 or self._parts[0].was_open:
            return None
        return EpisodeEvidence(gather(self._parts))


def _run(recorder: Recorder, run: Run) -> None:
    """Run the episode to its end, whatever happens, and finish the record."""
    env, output, crashed = None, None, False
    # KeyboardInterrupt, SystemExit: they go on when everything is kept
    interruption: BaseException | None = None
    try:
        env = _make(recorder, run)
        if env is not None and run.made is not None:
            run.made(recorder, env)
        if env is not None:
            header = recorder.header
            header.surroundings = Surroundings(env, header.environment_id)
        if env is not None and run.render:
            recorder.show(FrameReader(frame_kind(env), lambda: env.render()))
        if env is not None:
            output, crashed = _interact(recorder, env, run)
    except BaseException as error:
        interruption = error
    state, cleanup = UNSEEN, {"attempted": False, "completed": False, "error": None}
    if env is not None:
        try:
            if not isinstance(interruption, _REFUSED):
                state = recorder.see("observe_final")
        except BaseException as error:
            interruption = interruption or error
        try:
            if recorder.header.closes:
                _close(recorder, env, cleanup, run)
        except BaseException as error:
            interruption = interruption or error
    if isinstance(interruption, _REFUSED):
        raise interruption
    if interruption is not None:
        ending = "interrupted"
    elif env is None:
        ending = "error"
    else:
        ending = _ending(recorder, crashed)
    if run.conclude is not None:
        run.conclude(recorder, ending)
    closing = cleanup if recorder.header.closes else None
    recorder.finish(ending, state=state, output=output, cleanup=closing)
    if interruption is not None:
        raise interruption


def _make(recorder: Recorder, run: Run) -> Any:
    """Make the environment; None when that failed."""
    try:
        env = run.factory()
        for name in ("reset", "step", "close"):
            if not callable(getattr(env, name, None)):
                raise TypeError(f"the factory returned {type(env).__name__}, which has no {name}()")
    except BaseException as error:
        recorder.error("setup", error)
        if not isinstance(error, Exception):
            raise
        run.swallowed.append(error)
        return None
    return env


def _interact(recorder: Recorder, env: Any, run: Run) -> tuple[str | None, bool]:
    """Reset the environment and let the agent act.

    Returns:
        The agent's answer, and whether something was raised.
    """
    header = recorder.header
    max_steps = sys.maxsize if header.max_steps is None else header.max_steps
    try:
        result = recorder.reset(lambda: env.reset(seed=header.seed, options=run.options))
        observation, info = result
    except Exception as error:
        if not recorder.knows(error):  # what was returned is no pair: the encoder names it
            recorder.failed = True
        run.swallowed.append(error)
        return None, True
    # a reset may be what makes the spaces
    assert header.surroundings is not None
    header.surroundings = surroundings = header.surroundings.of(env)
    try:
        guarded = guard(env, recorder, surroundings, max_steps, run.expose)
    except Exception as error:
        recorder.error("setup", error)
        run.swallowed.append(error)
        return None, True
    try:
        output = run.interact(guarded, observation, info)
        if output is not None and not isinstance(output, str):
            raise TypeError(f"interact must return text or None, not {type(output).__name__}")
    except BaseException as error:
        if not recorder.knows(error):
            recorder.error("interaction", error)
        if not isinstance(error, Exception):
            raise
        run.swallowed.append(error)
        return None, True
    return output, False


def _close(recorder: Recorder, env: Any, cleanup: dict[str, Any], run: Run) -> None:
    cleanup["attempted"] = True
    try:
        env.close()
    except BaseException as error:
        cleanup["error"] = recorder.error("close", error)
        if not isinstance(error, Exception):
            raise
        run.swallowed.append(error)
    else:
        cleanup["completed"] = True


def _ending(recorder: Recorder, crashed: bool) -> str:
    if recorder.terminated:
        return "terminated"
    if recorder.truncated:
        return "truncated"
    if recorder.stopped:
        return "step_limit"
    return "error" if crashed or recorder.failed else "policy_stop"
