"""`register_with_gymnasium`: a guardrail under a name for `gymnasium.make` and `make_vec`."""

from __future__ import annotations

import inspect
import weakref
from typing import Any

import gymnasium

from envbench.guardrails.environment import GuardrailGymEnv

DEFAULT_ID = "envbench/GuardrailEval-v0"


def register_with_gymnasium(env_id: str = DEFAULT_ID, **env_kwargs: Any) -> None:
    """Register a guardrail's environment, so that `gymnasium.make(env_id)` makes it.

    The environments that are made drive the very guardrail that is given here: it is neither copied
    nor kept in the registry. They share it, and it is closed with the last of them that is open.
    In an asynchronous vector environment each worker has a copy of its own and closes that.

    Args:
        env_id: the name, as Gymnasium has them: ``namespace/Name-v0``.
        **env_kwargs: the arguments of `GuardrailGymEnv`; arguments of `gymnasium.make` win.

    Raises:
        TypeError: when an argument is none of `GuardrailGymEnv`.
        gymnasium.error.Error: when Gymnasium refuses the name.

    Example:
        >>> import gymnasium
        >>> from envbench.guardrails import (
        ...     EvalRequest, EvalResult, Guardrail, GuardrailTask, PolicySpace)
        >>> class Never(Guardrail):
        ...     request_space = PolicySpace()
        ...     def evaluate(self, request):
        ...         return EvalResult("deny")
        >>> never = Never()
        >>> task = GuardrailTask("pay", EvalRequest("clerk", "pay", "invoices"), "allow")
        >>> register_with_gymnasium("example/Never-v0", guardrail=never, tasks=[task])
        >>> env = gymnasium.make("example/Never-v0")
        >>> env.unwrapped.guardrail is never
        True
    """
    unknown = sorted(env_kwargs.keys() - inspect.signature(GuardrailGymEnv).parameters.keys())
    if unknown:
        raise TypeError(f"GuardrailGymEnv has no argument {', '.join(unknown)}")
    given = dict(env_kwargs)
    for name in ("tasks", "injections"):  # an iterator would be used up by the first environment
        if name in given and not isinstance(given[name], (list, tuple)):
            given[name] = tuple(given[name])
    sharers = _Sharers()

    # a function: Gymnasium copies an entry point of any other kind with all that it holds
    def make(**overrides: Any) -> GuardrailGymEnv:
        env = _SharedGuardrailEnv(**{**given, **overrides})
        env.sharers = sharers
        sharers.add(env)
        return env

    # the environment itself says what is out of order, with the error that it promises
    gymnasium.register(env_id, entry_point=make, order_enforce=False)


class _SharedGuardrailEnv(GuardrailGymEnv):
    """An environment whose guardrail is closed with the last open one of those that share it."""

    sharers: _Sharers

    def close(self) -> None:
        """Close the guardrail, if no other open environment drives it."""
        self.sharers.discard(self)
        if any(other.guardrail is self.guardrail for other in self.sharers):
            self._closed = True
        super().close()


class _Sharers(weakref.WeakSet[_SharedGuardrailEnv]):
    """Those environments. Who copies one of them, or sends it to a worker, takes no other along."""

    def __reduce__(self) -> tuple[type[_Sharers], tuple[()]]:
        return _Sharers, ()
