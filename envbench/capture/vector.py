"""`capture_vector`: records every episode of every environment in a vector environment.

One recorder for each environment sees what concerns it: a step is a row of its open episode, and a
reset, also one that the vector environment does by itself, begins the next one. The autoreset mode
says which of the returned values belong to what:

- NEXT_STEP: the call after the end takes no step there, whatever action was sent. What it returns
  is the reset's observation and info; it is no row of either episode.
- SAME_STEP: the call that ends an episode returns the reset's observation and info; those of the
  last step are in its infos as ``final_obs`` and ``final_info``, and are recorded with that step.
- DISABLED: the caller resets, all environments or those of ``options={"reset_mask": mask}``.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from time import perf_counter_ns
from typing import Any, NoReturn

import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv, VectorWrapper

from envbench.capture.batches import infos_of, numbers, owned, sampler
from envbench.capture.frames import FrameReader, frame_kind
from envbench.capture.guard import OutOfOrder
from envbench.capture.lockstep import Lockstep
from envbench.capture.loops import drop, end_of, seed_of, times
from envbench.capture.own_state import OwnState, own_state
from envbench.capture.provenance import Provenance, require_count, with_run
from envbench.capture.recorder import (
    NOTHING,
    Header,
    Notice,
    PlainRow,
    Recorder,
    SharedStep,
    hold,
    is_true,
)
from envbench.capture.sink import Sink, Target, release, require_frames, sink_for
from envbench.capture.surroundings import Surroundings
from envbench.evidence.case import EvalCase
from envbench.evidence.tagged import Missing, keep

SMALL_BATCH = 65_536
"""Bytes of observations that one environment may keep of all, for as long as it holds its part."""


class VectorCaptureWrapper(VectorWrapper[Any, Any, Any, Any, Any]):
    """Records every episode that is played in a vector environment; see `capture_vector`."""

    def __init__(
        self,
        envs: VectorEnv[Any, Any, Any],
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
        if not isinstance(envs, VectorEnv):
            raise TypeError(
                "envs must be a vector environment, as gymnasium.make_vec makes it, not"
                f" {type(envs).__name__}: capture_episodes records a single environment"
            )
        if render and not capture_steps:
            raise ValueError("render=True keeps a frame a step, and capture_steps=False no steps")
        if case is not None and not isinstance(case, EvalCase):
            raise TypeError(f"case must be an EvalCase, not {type(case).__name__}")
        limits = {"max_obs_chars": max_obs_chars, "max_action_chars": max_action_chars}
        for name, limit in limits.items():
            if limit is not None:
                limits[name] = require_count(name, limit, 0)
        super().__init__(envs)
        self._n = int(envs.num_envs)
        self._mode = _autoreset_mode(envs)
        self._drawings = _Drawings(envs, frame_kind(envs)) if render else None
        self._each_is_reset = isinstance(envs.unwrapped, (SyncVectorEnv, AsyncVectorEnv))
        self._own = _own_states(envs)
        self._surroundings = _surroundings(envs, self._own)
        self._take_apart()
        self._given_case = case
        environment_id = self._surroundings[0].environment_id
        self._case = case or EvalCase(environment_id, case_id=environment_id, expects="either")
        self._provenance = _numbered(with_run(provenance), self._n)
        self._limits = limits
        self._capture_steps = bool(capture_steps)
        self._at_once = not async_capture
        # of each environment: its episode, until it is reset after its end
        self._recorders: list[Recorder | None] = [None] * self._n
        # whether its next step may be anything else than a plain row
        self._apart = [True] * self._n
        # its steps after an end that are in no episode
        self._late = [0] * self._n
        # when its reset began that failed last
        self._failed_resets = [0] * self._n
        self._notice = Notice()
        self._to_write = False
        self._failed = False
        # sees the steps while every episode goes on; otherwise, of this step: each environment's
        # recorder as the step met it and whether it may be apart, and the next one to see
        self._lockstep: Lockstep | None = None
        self._todo: list[tuple[Recorder | None, bool]] = []
        self._at = 0
        self._sink: Sink | None = sink_for(exporter)
        if render:
            require_frames(self._sink)
        self._unkept: Sink | None = None
        self._episodes = [""] * self._n
        self._dropped = weakref.finalize(self, drop, self._sink, self._episodes, os.getpid())
        self._dropped.atexit = False

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset the environments; their episodes that are still open end as ``reset_early``.

        Args:
            seed: as the vector environment takes it: an integer, a list of them, or None.
            options: given to the vector environment as they are; of ``reset_mask`` it resets some.

        Raises:
            WriteFailed: when episodes could not be written since this was last said.
        """
        self._open_sink().raise_failure()
        mask = self._mask(options)
        chosen = [i for i in range(self._n) if mask is None or mask[i]]
        kept = options
        if mask is not None and options is not None:
            kept = {name: value for name, value in options.items() if name != "reset_mask"}
        begin = _Begin(seed, hold(kept))
        # what Gymnasium refuses before it resets anything leaves the open episodes as they are
        sound = self._is_sound(seed, options)
        if sound:
            self._end(chosen, "reset_early")
        result: Any = NOTHING
        started = ended = perf_counter_ns()
        try:
            result = self.env.reset(seed=seed, options=options)
            ended = perf_counter_ns()
            self._see_reset(chosen, begin, result, started, ended)
        except BaseException as error:
            try:
                self._make_up_reset(chosen, begin, result, error, started, ended, sound=sound)
            except BaseException:  # another interrupt
                self._make_up_reset(chosen, begin, result, error, started, ended, sound=sound)
                raise
            raise
        return result  # type: ignore[no-any-return]

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Take a step in every environment.

        Raises:
            OutOfOrder: before the first reset, and after a reset of all that failed.
            WriteFailed: before anything is stepped, when in the last step an environment reset
                itself, an episode was written that was to be written at once, or a part of a long
                one can be put nowhere, and what could not be written was not said yet.
        """
        lockstep = self._lockstep
        if lockstep is None or self._notice.due:
            lockstep = self._get_ready()
        if type(actions) is not np.ndarray and isinstance(actions, Iterator):
            actions = list(actions)  # which can be read twice
        held, result = self._actions(actions), NOTHING
        started = ended = perf_counter_ns()
        try:
            result = self.env.step(actions)
            ended = perf_counter_ns()
            if lockstep is None or not lockstep.see(held, result, started, ended):
                self._see(held, result, started, ended)
        except BaseException as error:
            try:
                self._make_up(held, result, error, started, ended)
            except BaseException:  # another interrupt
                self._make_up(held, result, error, started, ended)
                raise
            raise
        return result

    def close(self, **kwargs: Any) -> None:
        """Close the environments; episodes that are still open end as ``closed_early``.

        Raises:
            WriteFailed: when episodes could not be written since this was last said; closing again
                tries again.
        """
        try:
            self.env.close(**kwargs)
        finally:
            if self._sink is not None:
                self._dropped.detach()
                self._end(range(self._n), "closed_early")
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

    def __getattr__(self, name: str) -> Any:
        """Pass other attributes of the vector environment through, such as `call` and `envs`.

        Raises:
            AttributeError: when it has none, and for the halves of `step` and `reset`.
        """
        if name.startswith("_") or name == "env":  # the last one: while it is being made or copied
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        if name in ("reset_async", "reset_wait", "step_async", "step_wait"):
            raise AttributeError(f"{name} is not recorded: call reset and step, which are")
        return getattr(self.env, name)

    def __deepcopy__(self, memo: Any) -> NoReturn:
        """Refuse: a copy would record into the same episodes.

        Raises:
            TypeError: always.
        """
        raise TypeError("captured environments cannot be copied: copy the ones that are in them")

    # -- resets -----------------------------------------------------------------------------------

    def _mask(self, options: Any) -> list[bool] | None:
        """Which environments a reset resets; None when it resets all."""
        honoured = self._each_is_reset or self._mode is AutoresetMode.DISABLED
        if not honoured or not isinstance(options, dict) or "reset_mask" not in options:
            return None
        mask = options["reset_mask"]
        return mask.tolist() if _is_mask(mask, self._n) else None

    def _is_sound(self, seed: Any, options: Any) -> bool:
        """Whether a reset has arguments that are not refused before anything is reset."""
        if isinstance(options, dict) and "reset_mask" in options and self._mask(options) is None:
            return not (self._each_is_reset or self._mode is AutoresetMode.DISABLED)
        if seed is None or isinstance(seed, int):
            return True
        return self._each_is_reset and isinstance(seed, Sequence) and len(seed) == self._n

    def _see_reset(
        self, chosen: Sequence[int], begin: _Begin, result: Any, started: int, ended: int
    ) -> None:
        """See what came of a reset; called again after an interrupt, what is left of it."""
        left, before = [], []
        for i in chosen:
            recorder = self._recorders[i]
            if recorder is None or not recorder.was_reset_at(started):
                left.append(i)
                if recorder is not None and recorder.was_reset:
                    before.append(i)
        self._end(before, "reset_early")
        self._draw_anew()
        now = _as_now(self._surroundings, self.env)
        if now is not self._surroundings:
            self._surroundings = now
            self._take_apart()
        if type(result) is tuple and len(result) == 2:
            observations, infos = self._observations(result[0]), infos_of(result[1], self._n)
            for i in left:
                held = observations[i], infos[i]
                recorder = self._recorders[i] or self._begin(i, begin)
                recorder.note_held_reset(held, started, ended)
        else:  # the encoder says what is wrong with it
            for i in left:
                recorder = self._recorders[i] or self._begin(i, begin)
                recorder.note_reset(result, started, ended)

    def _make_up_reset(
        self,
        chosen: Sequence[int],
        begin: _Begin,
        result: Any,
        error: BaseException,
        started: int,
        ended: int,
        *,
        sound: bool,
    ) -> None:
        """See of a reset what was not seen: that it failed, or what an interrupt cut short."""
        if result is not NOTHING:
            self._see_reset(chosen, begin, result, started, ended)
        elif sound:
            self._see_failed_reset(chosen, begin, error, started, perf_counter_ns())

    def _see_failed_reset(
        self,
        chosen: Sequence[int],
        begin: _Begin,
        error: BaseException,
        started: int,
        ended: int,
    ) -> None:
        """One of the environments raised: which, and which others were reset, is not told."""
        for i in chosen:
            if self._failed_resets[i] == started:
                continue  # it was seen before an interrupt
            recorder = self._recorders[i] or self._begin(i, begin)
            if len(chosen) > 1:
                recorder.issue(f"note: {_shared(len(chosen), 'reset')}")
            recorder.note_failed_reset(error, started, ended)
            recorder.finish("error" if isinstance(error, Exception) else "interrupted")
            self._recorders[i], self._apart[i], self._failed_resets[i] = None, True, started
        if self._at_once:
            self._open_sink().wait()

    def _begin(self, i: int, begin: _Begin) -> Recorder:
        """Begin the next episode of an environment."""
        surroundings = self._surroundings[i]
        header = Header(
            case=self._case,
            surroundings=surroundings,
            environment_id=surroundings.environment_id,
            observer_id=None,
            provenance=begin.provenance(self._provenance[i], each=self._each_is_reset),
            seed=seed_of(begin.seed_of(i, each=self._each_is_reset)),
            options=begin.options,
            max_steps=None,
            row_keys=None,
            audited=False,
            capture_steps=self._capture_steps,
            closes=False,
            vector_index=i,
            max_obs_chars=self._limits["max_obs_chars"],
            max_action_chars=self._limits["max_action_chars"],
        )
        try:
            recorder = self._recorder_of(i, header, begin)
        except BaseException:  # an interrupt: no episode has begun
            self._open_sink().forget(header.episode_id)
            raise
        self._recorders[i], self._late[i] = recorder, 0
        self._apart[i] = self._drawings is not None
        self._episodes[i] = header.episode_id
        return recorder

    def _recorder_of(self, i: int, header: Header, begin: _Begin) -> Recorder:
        own = self._own[i]
        unknown = None
        if own is not None:
            header.max_steps = own.max_steps
            unknown = own.identify(header)
        recorder = self._open_sink().recorder(header)
        recorder.share, recorder.notice = self._n, self._notice
        if unknown is not None:
            recorder.issue(unknown)
        if own is not None and self._given_case is None:
            own.take_case(recorder)
        if self._drawings is not None:
            recorder.show(self._drawings.reader(i))
        seed = begin.seed_of(i, each=self._each_is_reset)
        if seed is not None and header.seed is None:
            recorder.issue(f"contract: reset was called with seed={seed!r}, which is no seed")
        if self._late[i]:
            recorder.issue(f"note: {times(self._late[i])} stepped before this reset, unrecorded")
        return recorder

    # -- steps ------------------------------------------------------------------------------------

    def _get_ready(self) -> Lockstep | None:
        """Get ready for a step; in lockstep, if nothing but a step is to be expected."""
        if not any(self._recorders):
            raise OutOfOrder("step before reset: call reset() first")
        if self._notice.due:
            self._notice.due = False
            self._open_sink().raise_failure()
        if self._lockstep is not None:
            return self._lockstep
        self._draw_anew()
        self._todo, self._at = list(zip(self._recorders, self._apart, strict=True)), 0
        if not self._failed and True not in self._apart:
            recorders = [each for each in self._recorders if each is not None and not each.ended]
            if len(recorders) == self._n:
                self._lockstep = Lockstep(recorders, self._observations)
        return self._lockstep

    def _see(
        self, actions: Any, result: Any, started: int, ended: int, *, again: bool = False
    ) -> None:
        """See what came of a step in each environment.

        Args:
            actions: what was sent to each, held.
            result: what the vector environment returned.
            started: when it was called, on the recorders' clock.
            ended: when it returned.
            again: whether some of it may have been seen, before an interrupt.
        """
        if self._lockstep is not None:
            if again and self._lockstep.has(actions):
                return
            self._part()
        if self._failed:
            self._recovered()
        n = self._n
        if type(result) is not tuple or len(result) != 5:
            # no row can be made of it: each environment's own recorder says so
            while self._at < n:
                recorder, _ = self._todo[self._at]
                if recorder is not None and not recorder.ended and not recorder.has(started):
                    recorder.note_step(actions[self._at], result, started, ended)
                self._at += 1
            return
        observations, rewards, terminated, truncated, infos = result
        taken = self._observations(observations)
        step = SharedStep(
            actions,
            taken,
            numbers(rewards, n),
            None if type(infos) is dict and not infos else infos_of(infos, n),
            started,
            ended,
        )
        ends, cuts = numbers(terminated, n), numbers(truncated, n)
        # of a large batch, what few would keep is not kept for all
        is_small = type(taken) is np.ndarray and taken.nbytes <= SMALL_BATCH
        few = not is_small and 2 * self._apart.count(True) > n
        for i in range(self._at, n):
            self._at = i
            recorder, apart = self._todo[i]
            if recorder is None or apart or ends[i] is not False or cuts[i] is not False:
                row = step.of(i) if is_small else owned(step.of(i))
                self._see_apart(i, recorder, row, ends[i], cuts[i], again=again)
            else:
                if not (again and recorder.has(started)):
                    recorder.steps.append(owned(step.of(i)) if few else step)
                if len(recorder.steps) >= recorder.limit:
                    recorder.hand_over()
        self._at = n
        if self._to_write:
            self._open_sink().wait()
            self._to_write, self._notice.due = False, True

    def _see_apart(
        self,
        i: int,
        recorder: Recorder | None,
        row: PlainRow,
        terminated: Any,
        truncated: Any,
        *,
        again: bool,
    ) -> None:
        """See a step that may end an episode, or be none."""
        action, observation, reward, _, _, info, started, ended = row
        seen = again and recorder is not None and recorder.has(started)
        if recorder is None or (recorder.ended and not seen):
            if recorder is not None and self._mode is AutoresetMode.NEXT_STEP:
                self._begin_by_itself(i, recorder, (observation, info), started, ended)
            elif recorder is not None and not recorder.sealed:
                recorder.after_end += 1
            else:
                self._late[i] += 1
            return
        ends = is_true(terminated) or is_true(truncated)
        resets = ends and self._mode is AutoresetMode.SAME_STEP
        last = (observation, reward, terminated, truncated, info)
        if resets:
            final, final_info = _take_final(None if seen else recorder, info)
            last = (final, reward, terminated, truncated, final_info)
        if seen:
            recorder.note_flags(last)
        else:
            recorder.note_held(action, last, started, ended, shows=not resets)
        if recorder.ended:
            self._ended(i, recorder)
        if resets:
            self._begin_by_itself(i, recorder, (observation, info), started, ended)

    def _begin_by_itself(
        self, i: int, before: Recorder, held: tuple[Any, Any], started: int, ended: int
    ) -> None:
        """See that an environment reset itself in a step, after the episode before."""
        self._notice.due = True
        recorder = self._recorders[i]
        if recorder is None or recorder is before:
            recorder = self._begin(i, _BY_ITSELF)
        recorder.note_held_reset(held, started, ended)

    def _make_up(
        self, held: Any, result: Any, error: BaseException, started: int, ended: int
    ) -> None:
        """See of a step what was not seen: that it raised, or what an interrupt cut short."""
        if result is NOTHING:
            self._see_raised(held, error, started, perf_counter_ns())
        else:
            self._see(held, result, started, ended, again=True)

    def _see_raised(self, held: Any, error: BaseException, started: int, ended: int) -> None:
        """One of the environments raised: which, and which others were stepped, is not told."""
        self._part()
        self._draw_anew()
        self._failed = True
        for i, recorder in enumerate(self._recorders):
            if recorder is not None and not recorder.ended:
                if self._n > 1:
                    recorder.issue(f"note: {_shared(self._n, 'stepped')}")
                if self._mode is not AutoresetMode.DISABLED:
                    recorder.issue(
                        "step: one that raised may have ended the episode; then what follows it is"
                        " of the next one"
                    )
                if not recorder.has(started):
                    recorder.note_raised(held[i], error, started, ended)

    def _recovered(self) -> None:
        """A step was taken after one that raised."""
        self._failed = False
        for recorder in self._recorders:
            if recorder is not None and not recorder.ended:
                recorder.failed = False

    # -- ends -------------------------------------------------------------------------------------

    def _ended(self, i: int, recorder: Recorder) -> None:
        """An environment has ended its episode."""
        self._apart[i] = True
        sink = self._open_sink()
        if self._mode is AutoresetMode.DISABLED:
            # it waits for steps after the end, to count them
            sink.settle_later(recorder, lambda: recorder.finish(end_of(recorder)))
        else:
            recorder.finish(end_of(recorder))
        self._to_write = self._at_once

    def _part(self) -> None:
        """Let each recorder see for itself, and have all that was seen for it."""
        if self._lockstep is not None:
            self._lockstep.part()
            self._todo, self._at = list(zip(self._recorders, self._apart, strict=True)), 0
            self._lockstep = None

    def _end(self, chosen: Iterable[int], early: str) -> None:
        """Seal the episodes that are open of some environments."""
        self._part()
        for i in chosen:
            try:
                self._seal(i, early)
            except BaseException:  # an interrupt: no further step may go to a sealed recorder
                self._seal(i, early)
                raise
        if self._at_once:
            self._open_sink().wait()

    def _seal(self, i: int, early: str) -> None:
        recorder = self._recorders[i]
        if recorder is not None and recorder.ended:
            self._open_sink().settle(recorder)
            recorder.finish(end_of(recorder))
        elif recorder is not None:
            recorder.finish("error" if recorder.failed else early)
        self._recorders[i], self._apart[i] = None, True

    def _open_sink(self) -> Sink:
        if self._sink is None:
            raise OutOfOrder("the environments were closed: make and wrap new ones")
        return self._sink

    def _take_apart(self) -> None:
        """Take batches apart by the spaces that the environments have now."""
        self._actions = sampler(self.env.single_action_space, self._n)
        self._observations = sampler(self.env.single_observation_space, self._n)

    def _draw_anew(self) -> None:
        if self._drawings is not None:
            self._drawings.anew()


def capture_vector(
    envs: VectorEnv[Any, Any, Any], *, exporter: Target | None = None, **kwargs: Any
) -> VectorCaptureWrapper:
    """Record every episode of every environment in a vector environment.

    The agent gets what the vector environment returned. Each environment has episodes of its own,
    whose labels have its ``vector_index``; its info is taken out of the batch with the keys that it
    had itself. An episode begins with each reset, also one that the vector environment does by
    itself, in every autoreset mode; no step is recorded that an environment did not take. The time
    of a step is that of the whole batch.

    A seed is that of the environment: the vector environments of Gymnasium give ``seed + i`` to the
    one at index i. Others seed all at once; then the label ``vector_seed`` has it, and no episode.

    Of an `envbench.environments.Environment` name, version, fingerprint and task are recorded where
    it is in this process, and no states: with SAME_STEP the last one is gone when a step returns.

    What a step raises is recorded in each environment, as nothing says in which it was raised.

    Args:
        envs: as `gymnasium.make_vec` makes it; synchronous, asynchronous or of a class of its own.
        exporter: where episodes are kept: a store, its path, or a ``.jsonl`` path; by default what
            `observe` set, else ``envbench.duckdb``.
        **kwargs: as for `EpisodeCaptureWrapper`.

    Raises:
        TypeError: when an argument is of the wrong type.
        ValueError: when an argument has no meaning, or the vector environment does not say in which
            mode it resets.
        StoreError: when the target cannot be opened.

    Example:
        >>> import gymnasium
        >>> from envbench import connect
        >>> store = connect(":memory:")
        >>> made = gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync")
        >>> envs = capture_vector(made, exporter=store)
        >>> observations, infos = envs.reset(seed=7)
        >>> observations, rewards, terminated, truncated, infos = envs.step([0, 1])
        >>> envs.close()
        >>> [(e.data["provenance"]["labels"], e.data["seed"]) for e in store.episodes()]
        [({'vector_index': 0}, 7), ({'vector_index': 1}, 8)]
    """
    return VectorCaptureWrapper(envs, exporter=exporter, **kwargs)


class _Begin:
    """What a reset is called with, as it is recorded in the episodes that it begins."""

    def __init__(self, seed: Any, options: Any) -> None:
        self._seed = hold(seed)
        self.options = options

    def seed_of(self, i: int, *, each: bool) -> Any:
        """The seed of one environment, where each has its own."""
        if not each or self._seed is None:
            return None
        if isinstance(self._seed, int):
            return self._seed + i
        try:
            return self._seed[i]
        except Exception:  # no list: whatever it is, the environments took it
            return None

    def provenance(self, provenance: Provenance, *, each: bool) -> Provenance:
        """The provenance of one environment; a seed of all of them is a label."""
        seed = seed_of(self._seed)
        if each or seed is None:
            return provenance
        return replace(provenance, labels={**provenance.labels, "vector_seed": seed})


_BY_ITSELF = _Begin(None, None)


class _Drawings:
    """The frames of all environments, drawn together once a step."""

    def __init__(self, envs: VectorEnv[Any, Any, Any], kind: str) -> None:
        self._envs = envs
        self._kind = kind
        self._frames: Any = None
        self._error: Exception | None = None
        self._drawn = False

    def anew(self) -> None:
        """Forget what was drawn."""
        self._frames, self._error, self._drawn = None, None, False

    def reader(self, i: int) -> FrameReader:
        """Reads the frames of one environment."""
        return FrameReader(self._kind, lambda: self._frame(i))

    def _frame(self, i: int) -> Any:
        if not self._drawn:
            self._drawn = True
            try:
                self._frames = self._envs.render()
                n = len(self._frames)
                if n != self._envs.num_envs:
                    raise TypeError(f"render returned {n} frames of {self._envs.num_envs}")
            except Exception as error:
                self._error = error
        if self._error is not None:
            raise self._error
        return self._frames[i]


def _take_final(recorder: Recorder | None, info: Any) -> tuple[Any, Any]:
    """Take what belongs to the last step out of an info that is otherwise the reset's.

    Args:
        recorder: is told what is missing, if it is to be.
        info: what the vector environment returned of the environment.
    """
    if type(info) is dict and "final_obs" in info:
        return info.pop("final_obs"), info.pop("final_info", {})
    if recorder is not None:
        recorder.issue(
            "observation: in mode SAME_STEP the last one is in the infos as 'final_obs', and the"
            " vector environment did not put it there"
        )
    missing = keep(Missing("numpy.ndarray", "the vector environment did not return it"))
    return missing, info.pop("final_info", {}) if type(info) is dict else {}


def _autoreset_mode(envs: VectorEnv[Any, Any, Any]) -> AutoresetMode:
    found = envs.metadata.get("autoreset_mode")
    try:
        return AutoresetMode(found)
    except ValueError:
        raise ValueError(
            f"envs.metadata['autoreset_mode'] is {found!r}, so that a reset cannot be told from a"
            " step: set it to the gymnasium.vector.AutoresetMode that these environments have"
        ) from None


def _own_states(envs: VectorEnv[Any, Any, Any]) -> list[OwnState | None]:
    """What each environment tells of itself, where it is here to be asked."""
    inner = envs.unwrapped
    if isinstance(inner, SyncVectorEnv):
        return [own_state(env) for env in inner.envs]
    return [None] * int(envs.num_envs)


def _surroundings(
    envs: VectorEnv[Any, Any, Any], own: Sequence[OwnState | None]
) -> list[Surroundings]:
    """The surroundings of each environment, mostly the same."""
    inner = envs.unwrapped
    environment_id = None
    if own[0] is not None:  # its name stands before that of its spec, as in a rollout
        environment_id = own[0].environment_id
    elif envs.spec is None and isinstance(inner, SyncVectorEnv) and inner.envs[0].spec is not None:
        environment_id = inner.envs[0].spec.id  # made without make_vec
    shared = Surroundings(envs, environment_id)
    differ = getattr(inner, "observation_mode", "same") != "same"
    if not differ or envs.single_observation_space is not inner.single_observation_space:
        return [shared] * envs.num_envs
    spaces = inner.get_attr("observation_space")  # type: ignore[attr-defined]
    return [
        Surroundings(envs, shared.environment_id, (envs.single_action_space, space))
        for space in spaces
    ]


def _as_now(surroundings: list[Surroundings], envs: Any) -> list[Surroundings]:
    """The surroundings, with the spaces that a reset may have changed."""
    first = surroundings[0]
    if any(each is not first for each in surroundings):
        return surroundings
    now = first.of(envs)
    return surroundings if now is first else [now] * len(surroundings)


def _numbered(provenance: Provenance, n: int) -> list[Provenance]:
    return [replace(provenance, labels={**provenance.labels, "vector_index": i}) for i in range(n)]


def _is_mask(mask: Any, n: int) -> bool:
    return (
        isinstance(mask, np.ndarray)
        and mask.shape == (n,)
        and mask.dtype == np.bool_
        and bool(mask.any())
    )


def _shared(n: int, what: str) -> str:
    return f"{n} environments were {what} together, and which of them raised is not told"
