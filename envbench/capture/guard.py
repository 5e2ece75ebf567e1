"""The guarded environment: what an agent holds while an episode is recorded.

Its methods reach the environment through closures. No chain of attributes leads from it to the
recorder or past it: `unwrapped` is the guard itself, and bound methods are bound to it. That stops
mistakes and casual tampering. Closures and the garbage collector can still be walked: a hostile
agent needs a process of its own.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium

from envbench.capture.recorder import Recorder
from envbench.capture.surroundings import Surroundings


class InvalidAction(ValueError):
    """An action outside the declared space; the environment did not see it."""


class OutOfOrder(RuntimeError):
    """A call that the episode's lifecycle does not allow; the environment did not see it."""


class StepLimit(RuntimeError):
    """A step beyond `max_steps`; the environment did not see it."""


Attempt = Callable[[Any], tuple[Any, BaseException | None]]


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
        expose: names of attributes of the environment to pass through.

    Raises:
        AttributeError: when an exposed name is not an attribute of the environment.
        ValueError: when an exposed name is one of the guard's own.
    """
    attempt = _attempts(env, recorder, surroundings, max_steps)

    def refuse_reset() -> OutOfOrder:
        error = OutOfOrder(
            "an episode is reset once, by capture_episode: make a fresh environment for a repeat"
        )
        recorder.error("lifecycle", error)
        return error

    def render() -> Any:
        return env.render()

    class GuardedEnv(gymnasium.Env[Any, Any]):
        """An environment whose every step is recorded."""

        def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
            result, error = attempt(action)
            if error is not None:
                raise error
            return result  # type: ignore[no-any-return]

        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
            raise refuse_reset()

        def render(self) -> Any:
            return render()

        def close(self) -> None:
            """Do nothing: the environment is closed when the agent's function has returned."""

        @property
        def unwrapped(self) -> gymnasium.Env[Any, Any]:
            return self

        def __str__(self) -> str:
            return f"<GuardedEnv {surroundings.environment_id}>"

        __repr__ = __str__

    guarded = GuardedEnv()
    for name in expose:
        if name in _OWN:
            raise ValueError(f"expose: {name!r} is the guard's own and cannot be passed through")
        _expose(GuardedEnv, env, name)
    # copies: an agent that widens the space it holds does not widen the one that is checked
    guarded.action_space = _detached(env.action_space)
    guarded.observation_space = _detached(env.observation_space)
    guarded.metadata = dict(env.metadata or {})
    guarded.render_mode = env.render_mode
    guarded.spec = _detached(env.spec)
    return guarded


_OWN = frozenset({"step", "reset", "render", "close", "unwrapped"})


def _attempts(
    env: gymnasium.Env[Any, Any], recorder: Recorder, surroundings: Surroundings, max_steps: int
) -> Attempt:
    """A function that attempts a step and gives its result, or the error to raise.

    The error is given and not raised so that no frame of the recorder hangs on its traceback.
    """
    actions = surroundings.actions

    def attempt(action: Any) -> tuple[Any, BaseException | None]:
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
                f" {actions.description['repr']}: the environment did not see it"
            )
            recorder.refuse(action, error)
            return None, error
        try:
            return recorder.step(action, env.step), None
        except BaseException as raised:
            return None, _without_recorder(raised)

    return attempt


def _without_recorder(error: BaseException) -> BaseException:
    """The error with a traceback that begins in the environment."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith(
        "envbench.capture."
    ):
        trace = trace.tb_next
    return error.with_traceback(trace)


def _expose(guard_class: type, env: gymnasium.Env[Any, Any], name: str) -> None:
    """Pass an attribute through: a method as a plain function, a value as it is when read."""
    found = env.get_wrapper_attr(name)
    if callable(found):

        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            return env.get_wrapper_attr(name)(*args, **kwargs)

        call.__name__ = name
        setattr(guard_class, name, call)
    else:
        setattr(guard_class, name, property(lambda self: env.get_wrapper_attr(name)))


def _detached(value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except Exception:  # a space of the user's that cannot be copied is handed out itself
        return value


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except Exception as error:
        return f"<{type(value).__name__}, whose repr raised {type(error).__name__}>"
    return text if len(text) <= 120 else f"{text[:117]}..."
