"""`EpisodeCaptureWrapper`: records every episode of a loop that resets many times."""

from __future__ import annotations

import os
import weakref
from functools import partial
from typing import Any, NoReturn

import gymnasium
from gymnasium.utils import RecordConstructorArgs

from envbench.capture.frames import FrameReader, frame_kind
from envbench.capture.guard import OutOfOrder
from envbench.capture.loops import drop, end_of, seed_of, times
from envbench.capture.own_state import UNSCORED, own_state
from envbench.capture.provenance import Provenance, require_count, with_run
from envbench.capture.recorder import UNSEEN, Header, RawState, Recorder, hold
from envbench.capture.sink import Sink, Target, release, require_frames, sink_for
from envbench.capture.surroundings import Surroundings
from envbench.evidence.case import EvalCase
from envbench.store import Store


class EpisodeCaptureWrapper(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Records every episode that is played through it.

    The agent gets what the environment returned and the environment what the agent sent. An
    episode ends as the environment ends it; a reset before that ends it as ``reset_early`` and
    `close` as ``closed_early``, and a process that ends without `close` leaves it ``interrupted``.
    A step after the end passes through and is counted in an issue, not recorded.

    An `envbench.environments.Environment`, also under other wrappers, is recorded as its rollouts
    are: its snapshot is the state, its name and version are those of the evidence, with its
    fingerprint, and the case is the task of the reset. A text as the last action is the policy's
    answer, and the episode's ending ``policy_stop``.

    Args:
        env: the environment.
        exporter: where episodes are kept: a store, its path, or a ``.jsonl`` path; by default what
            `observe` set, else ``envbench.duckdb``.
        async_capture: write on a thread; when false, an episode is committed when the call that
            ends it returns.
        capture_steps: keep every step; when false, one row an episode.
        max_obs_chars: cut the JSON of observations to this length, and mark what was cut.
        max_action_chars: likewise for actions.
        case: what the episodes answer; by default the environment's task where it tells one, else
            a case named after the environment.
        provenance: agent, version and run.
        render: keep what the environment shows after each reset and step, see
            `EpisodeEvidence.frames`; it must be made with ``render_mode`` ``"rgb_array"`` or
            ``"ansi"``. A `render` that raises is an error of its step, and the run goes on.

    Raises:
        TypeError: when an argument is of the wrong type.
        ValueError: when an argument has no meaning.
        StoreError: when the target cannot be opened.

    Example:
        >>> import gymnasium
        >>> from envbench import connect
        >>> store = connect(":memory:")
        >>> env = EpisodeCaptureWrapper(gymnasium.make("CartPole-v1"), exporter=store)
        >>> observation, info = env.reset(seed=0)
        >>> observation, reward, terminated, truncated, info = env.step(0)
        >>> env.close()
        >>> [(episode.ending, len(episode.steps)) for episode in store.episodes()]
        [('closed_early', 1)]
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        *,
        exporter: Target | None = None,
        async_capture: bool = True,
        capture_steps: bool = True,
        max_obs_chars: int | None = None,
        max_action_chars: int | None = None,
        case: EvalCase | None = None,
        provenance: Provenance | None = None,
        render: bool = False,
    ) -> None:
        if render and not capture_steps:
            raise ValueError("render=True keeps a frame a step, and capture_steps=False no steps")
        self._frame_kind = frame_kind(env) if render else None
        if case is not None and not isinstance(case, EvalCase):
            raise TypeError(f"case must be an EvalCase, not {type(case).__name__}")
        limits = {"max_obs_chars": max_obs_chars, "max_action_chars": max_action_chars}
        for name, limit in limits.items():
            if limit is not None:
                limits[name] = require_count(name, limit, 0)
        RecordConstructorArgs.__init__(
            self,
            exporter=_rebuildable(exporter),
            async_capture=async_capture,
            capture_steps=capture_steps,
            max_obs_chars=max_obs_chars,
            max_action_chars=max_action_chars,
            case=case,
            provenance=provenance,
            render=render,
        )
        gymnasium.Wrapper.__init__(self, env)
        self._own = own_state(env)
        named = None if self._own is None else self._own.environment_id
        self._surroundings = Surroundings(env, named)
        self._given_case = case
        self._fingerprint: str | None = None
        self._case = case or EvalCase(
            self._surroundings.environment_id,
            case_id=self._surroundings.environment_id,
            expects="either",
        )
        self._provenance = with_run(provenance)
        self._limits = limits
        self._capture_steps = bool(capture_steps)
        self._at_once = not async_capture
        self._recorder: Recorder | None = None
        self._settling: Recorder | None = None
        self._late = 0
        self._sink: Sink | None = sink_for(exporter)
        if render:
            require_frames(self._sink)
        self._unkept: Sink | None = None
        self._episodes: list[str] = []
        self._dropped = weakref.finalize(self, drop, self._sink, self._episodes, os.getpid())
        self._dropped.atexit = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset the environment; an episode that is still open ends as ``reset_early``.

        Raises:
            WriteFailed: when episodes could not be written since this was last said.
        """
        sink = self._open_sink()
        self._end("reset_early", self._see_last())
        sink.raise_failure()
        header = Header(
            case=self._case,
            surroundings=self._surroundings,
            environment_id=self._surroundings.environment_id,
            observer_id=None,
            provenance=self._provenance,
            seed=seed_of(seed),
            options=hold(options),
            max_steps=None,
            row_keys=None,
            audited=False,
            capture_steps=self._capture_steps,
            closes=False,
            max_obs_chars=self._limits["max_obs_chars"],
            max_action_chars=self._limits["max_action_chars"],
        )
        try:
            recorder = self._recorder_of(header, sink)
        except BaseException:  # an interrupt: no episode has begun
            sink.forget(header.episode_id)
            raise
        try:
            self._episodes[:] = [header.episode_id]
            if seed is not None and header.seed is None:
                recorder.issue(f"contract: reset was called with seed={seed!r}, which is no seed")
            if self._late:
                recorder.issue(f"note: {times(self._late)} stepped before this reset, unrecorded")
                self._late = 0
            result = recorder.reset(lambda: self.env.reset(seed=seed, options=options))
            self._surroundings = header.surroundings = self._surroundings.of(self.env)
            if self._own is not None and self._given_case is None:
                self._own.take_case(recorder)
        except BaseException as error:
            try:
                self._failed_reset(recorder, error)
            except BaseException:  # another interrupt
                self._failed_reset(recorder, error)
                raise
            raise
        self._recorder = recorder
        return result  # type: ignore[no-any-return]

    def _failed_reset(self, recorder: Recorder, error: BaseException) -> None:
        if not recorder.sealed:
            ending = "error" if isinstance(error, Exception) else "interrupted"
            recorder.finish(ending, state=recorder.see("observe_final"))
        if self._at_once:
            self._open_sink().wait()

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a step.

        Raises:
            OutOfOrder: before the first reset, and after a reset that failed.
            WriteFailed: before anything is stepped, when the episode is so long that a part of it
                was handed over, and it can be put nowhere; once for each such part.
        """
        recorder = self._recorder
        if recorder is None:
            raise OutOfOrder("step before reset: call reset() first")
        if recorder.terminated or recorder.truncated:
            return self._step_after_end(recorder, action)
        if recorder.notice.due:
            recorder.notice.due = False
            self._open_sink().raise_failure()
        result = recorder.step(action, self.env.step)
        if recorder.terminated or recorder.truncated:
            self._ended(recorder)
        return result  # type: ignore[no-any-return]

    def close(self) -> None:
        """Close the environment; an episode that is still open ends as ``closed_early``.

        Raises:
            WriteFailed: when episodes could not be written since this was last said; closing again
                tries again.
        """
        state = UNSEEN
        try:
            state = self._see_last()
            super().close()
        finally:
            if self._sink is not None:
                self._dropped.detach()
                self._end("closed_early", state)
                self._unkept = sink = self._sink
                self._sink = None
                release(sink)
                self._unkept = None
            elif self._unkept is not None:
                self._unkept.flush()
                self._unkept = None

    def flush(self) -> None:
        """Return when every episode that has ended is committed.

        Raises:
            WriteFailed: when some could not be written since this was last said.
        """
        if self._sink is not None:
            self._sink.flush()

    def __deepcopy__(self, memo: Any) -> NoReturn:
        """Refuse: a copy would record into the same episode.

        Raises:
            TypeError: always.
        """
        raise TypeError(
            "an EpisodeCaptureWrapper cannot be copied: to plan ahead, copy the environment in it,"
            " copy.deepcopy(wrapped.env)"
        )

    def _open_sink(self) -> Sink:
        if self._sink is None:
            raise OutOfOrder("reset after close: wrap the environment again")
        return self._sink

    def _step_after_end(
        self, recorder: Recorder, action: Any
    ) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        if recorder.sealed:
            self._late += 1
        else:
            recorder.after_end += 1
        return self.env.step(action)

    def _recorder_of(self, header: Header, sink: Sink) -> Recorder:
        """The recorder of an episode; of an environment that tells its state, one that reads it."""
        own = self._own
        if own is None:
            recorder = sink.recorder(header)
        else:
            header.max_steps = own.max_steps
            unknown = own.fill(header)
            if header.environment_fingerprint != self._fingerprint:  # a scorer was added since
                self._fingerprint = header.environment_fingerprint
                self._surroundings = Surroundings(self.env, own.environment_id)
                header.surroundings = self._surroundings
            recorder = sink.recorder(header, own.observe, partial(own.audit, header))
            if unknown is not None:
                recorder.issue(unknown)
        if self._frame_kind is not None:
            recorder.show(FrameReader(self._frame_kind, self.env.render))
        return recorder

    def _ended(self, recorder: Recorder) -> None:
        assert self._sink is not None
        state = recorder.see("observe_final")
        if self._own is not None and self._own.is_unscored():
            recorder.issue(UNSCORED)
        self._sink.settle_later(recorder, lambda: recorder.finish(end_of(recorder), state=state))
        self._settling = recorder
        if self._at_once:
            self._sink.flush()

    def _see_last(self) -> RawState:
        """Read the last state of the episode that is open, if one is."""
        recorder = self._recorder
        if recorder is None or recorder is self._settling:
            return UNSEEN
        return recorder.see("observe_final")

    def _end(self, early: str, state: RawState) -> None:
        """Seal the episode that is open, if one is."""
        try:
            self._seal(early, state)
        except BaseException:  # an interrupt: no further step may go to a sealed recorder
            self._seal(early, state)
            raise

    def _seal(self, early: str, state: RawState) -> None:
        recorder = self._recorder
        if recorder is None:
            return
        if recorder is self._settling:
            self._open_sink().settle(recorder)
        elif recorder.ended:  # an interrupt came between the last step and its settling
            recorder.finish(end_of(recorder), state=state)
        elif recorder.failed:
            recorder.finish("error", state=state)
        else:
            recorder.finish(self._own.ending(early) if self._own else early, state=state)
        self._recorder = None
        self._episodes.clear()
        if self._at_once:
            self._open_sink().wait()


def capture_episodes(
    env: gymnasium.Env[Any, Any], *, exporter: Target | None = None, **kwargs: Any
) -> EpisodeCaptureWrapper:
    """Record every episode of an environment; see `EpisodeCaptureWrapper`.

    Example:
        >>> import gymnasium
        >>> env = capture_episodes(gymnasium.make("CartPole-v1"), exporter=":memory:")
        >>> env.close()
    """
    return EpisodeCaptureWrapper(env, exporter=exporter, **kwargs)


def _rebuildable(exporter: Target | None) -> str | None:
    """What a spec can hold: a path, not an open store."""
    if exporter is None:
        return None
    if isinstance(exporter, Store):
        return str(exporter.path or ":memory:")
    return os.fspath(exporter) if isinstance(exporter, (str, os.PathLike)) else None
