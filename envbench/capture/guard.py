"""The guarded environment: what an agent holds while an episode is recorded.

Its methods reach the environment through closures. No chain of attributes leads from it to the
recorder or past it: `unwrapped` is the guard itself, bound methods are bound to it, spaces and spec
are copies, and the frames on the traceback of an exception are emptied before the agent gets it
(their lines stay).

That stops mistakes and casual tampering, not an agent that is out to cheat. Not covered are closure
cells (`function.__closure__`), frames that are still running (`sys._getframe().f_back`), the
garbage collector, imported modules, what `expose` passes through, a space of the user's own class
that cannot be copied, and whatever the environment itself hands out in an info or observation. A
hostile agent needs a process of its own.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dis import opmap
from functools import partial
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from types import FrameType
from typing import Any, NoReturn

import gymnasium

from envbench.capture.recorder import Recorder
from envbench.capture.surroundings import Surroundings


class InvalidAction(ValueError):
    """An action outside the declared space; the environment did not see it."""


class OutOfOrder(RuntimeError):
    """A call that the episode's lifecycle does not allow; the environment did not see it."""


class StepLimit(RuntimeError):
    """A step beyond `max_steps`; the environment did not see it."""


Outcome = tuple[Any, BaseException | None]
"""What a call gave, or the error to raise: raised here, it would carry frames of the recorder."""


def guard(
    env: gymnasium.Env[Any, Any],
    recorder: Recorder,
    surroundings: Surroundings,
    max_steps: int,
    expose: Sequence[str] = (),
) -> gymnasium.Env[Any, Any]:
    """Make the environment that an agent is handed.

    Args:
        env: the environment, after its reset.
        recorder: sees every call.
        surroundings: the environment's spaces.
        max_steps: attempted steps that are let through.
        expose: names of attributes of the environment to pass through; `check_exposed` accepted
            them. A method becomes a plain function, a value is read anew each time.

    Raises:
        AttributeError: when an exposed name is not an attribute of the environment.
    """
    attempt = _attempts(env, recorder, surroundings, max_steps)
    refuse_reset = _refusals(recorder)

    def draw() -> Outcome:
        return _call(lambda: env.render())

    class GuardedEnv(gymnasium.Env[Any, Any]):
        """An environment whose every step is recorded."""

        def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
            result, error = attempt(action)
            if error is not None:
                _empty_frames(error)
                raise error
            return result  # type: ignore[no-any-return]

        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
            raise refuse_reset()

        def render(self) -> Any:
            image, error = draw()
            if error is not None:
                _empty_frames(error)
                raise error
            return image

        def close(self) -> None:
            """Do nothing: the environment is closed when the agent's function has returned."""

        @property
        def unwrapped(self) -> gymnasium.Env[Any, Any]:
            return self

        def __reduce_ex__(self, protocol: Any) -> NoReturn:
            # a copy would step the one real environment
            raise TypeError("a guarded environment cannot be copied or pickled")

        def __str__(self) -> str:
            return f"<GuardedEnv {surroundings.environment_id}>"

        __repr__ = __str__

    for name in expose:
        _expose(GuardedEnv, env, name)
    guarded = GuardedEnv()
    # copies: an agent that widens the space it holds does not widen the one that is checked
    guarded.action_space = _detached(surroundings.actions.space)
    guarded.observation_space = _detached(surroundings.observations.space)
    guarded.metadata = _detached(getattr(env, "metadata", None) or {})
    guarded.render_mode = getattr(env, "render_mode", None)
    guarded.spec = _detached(getattr(env, "spec", None))
    return guarded


def check_exposed(expose: Any) -> tuple[str, ...]:
    """The names to expose, when they can be.

    Raises:
        TypeError: when it is no sequence of names.
        ValueError: when a name is none, is private, or is one of the guard's own.
    """
    if isinstance(expose, (str, bytes)) or not isinstance(expose, Sequence):
        raise TypeError(f"expose must be a sequence of names, not {expose!r}")
    for name in expose:
        if not isinstance(name, str):
            raise TypeError(f"expose must be a sequence of names, and {name!r} is none")
        if not name.isidentifier() or name.startswith("__"):
            raise ValueError(f"expose: {name!r} is no name of an attribute")
        if name in _OWN:
            raise ValueError(f"expose: {name!r} is the guard's own and cannot be passed through")
    return tuple(expose)


_OWN = frozenset((*dir(gymnasium.Env), "action_space", "observation_space")) - {"np_random"}


def _attempts(
    env: gymnasium.Env[Any, Any], recorder: Recorder, surroundings: Surroundings, max_steps: int
) -> Callable[[Any], Outcome]:
    """A function that attempts a step."""
    actions = surroundings.actions

    def attempt(action: Any) -> Outcome:
        if recorder.ended or recorder.sealed:
            error: Exception = OutOfOrder("the episode has ended: no step can follow")
            recorder.error("lifecycle", error)
            return None, error
        if recorder.n_steps >= max_steps:
            recorder.stopped = True
            error = StepLimit(f"max_steps of {max_steps} reached: the action was not executed")
            recorder.error("step_limit", error)
            return None, error
        if not actions.contains(action):
            error = InvalidAction(
                f"action {_short(action)} is outside the declared space"
                f" {_space_text(surroundings)}: the environment did not see it"
            )
            recorder.refuse(action, error)
            return None, error
        return _call(recorder.step, action, env.step)

    return attempt


def _refusals(recorder: Recorder) -> Callable[[], OutOfOrder]:
    """A function that records a second reset and gives the error to raise."""

    def refuse() -> OutOfOrder:
        error = OutOfOrder(
            "an episode is reset once, by capture_episode: make a fresh environment for a repeat"
        )
        recorder.error("lifecycle", error)
        return error

    return refuse


def _expose(guard_class: type, env: gymnasium.Env[Any, Any], name: str) -> None:
    """Pass an attribute through."""
    find: Callable[[str], Any] = getattr(env, "get_wrapper_attr", None) or partial(getattr, env)

    def read() -> Outcome:
        return _call(find, name)

    def call(*args: Any, **kwargs: Any) -> Outcome:
        return _call(lambda: find(name)(*args, **kwargs))

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        result, error = call(*args, **kwargs)
        if error is not None:
            _empty_frames(error)
            raise error
        return result

    def value(self: Any) -> Any:
        result, error = read()
        if error is not None:
            _empty_frames(error)
            raise error
        return result

    method.__name__ = value.__name__ = name
    exposed = method if callable(find(name)) else property(value)
    setattr(guard_class, name, exposed)


def _call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Outcome:
    try:
        return function(*args, **kwargs), None
    except BaseException as error:
        return None, error


def _empty_frames(error: BaseException) -> None:
    """Take the local variables out of the frames that an error went through, and of its causes.

    What is left of its traceback begins in the environment: files and lines, but no objects. Frames
    below the caller's are finished; it is called in the frame that raises the error again.
    """
    running = _running_frames()
    seen = {id(sys.exception())}  # what the agent was handling when it called is its own
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        waiting += [each.__cause__, each.__context__, *getattr(each, "exceptions", ())]
        trace = each.__traceback__
        while trace is not None:
            frame: FrameType | None = trace.tb_frame
            while frame is not None and frame not in running:
                _empty(frame)
                frame = frame.f_back
            trace = trace.tb_next
        _trim(each)


def _running_frames() -> set[FrameType]:
    """The frames of the caller's caller, and of what called it."""
    frames: set[FrameType] = set()
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        frames.add(frame)
        frame = frame.f_back
    return frames


def _empty(frame: FrameType) -> None:
    if not _is_suspended(frame):  # a generator that goes on: to clear its frame would close it
        with suppress(RuntimeError):  # it runs on another thread
            frame.clear()


def _is_suspended(frame: FrameType) -> bool:
    """Whether the frame is of a generator that waits at a `yield`."""
    code, last = frame.f_code, frame.f_lasti
    if not code.co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR):
        return False
    return last < 0 or code.co_code[last] == opmap["YIELD_VALUE"]


def _trim(error: BaseException) -> None:
    """Let the traceback begin in the environment, not in the recorder."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith(
        "envbench.capture."
    ):
        trace = trace.tb_next
    error.__traceback__ = trace


def _detached(value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except Exception:  # a space of the user's that cannot be copied is handed out itself
        return value


def _space_text(surroundings: Surroundings) -> str:
    return str(surroundings.actions.description["repr"])


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except Exception as error:
        return f"<{type(value).__name__}, whose repr raised {type(error).__name__}>"
    return text if len(text) <= 120 else f"{text[:117]}..."
