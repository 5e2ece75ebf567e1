"""Policies: what chooses the next action.

A policy is any object with `act`; what else it has is optional, see `Policy`. The environment is
never handed to it: it sees observations, infos and the descriptions of the tools.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from envbench.environments.actions import Action, ToolCall, ToolSpec, as_action
from envbench.evidence.case import require_name
from envbench.evidence.portable import Json, canonical


@runtime_checkable
class Policy(Protocol):
    """What chooses actions: any object with `act`.

    `act` gets the observation, and of ``tools`` and ``info`` those that its signature names. It may
    be asynchronous. An exception that leaves it is the failure of the rollout.

    Optional members, each used where it is there:

    - ``agent_id``: names policy and version in evidence; by default the class's name.
    - ``identity() -> Json``: what tells this policy from one of the same name, such as its
      settings, for `run_tasks` to know what it did before; no keys or passwords.
    - ``start(*, tools, seed, is_stopped)``: called after the reset, with those that its signature
      names; a policy that is used again begins anew. One that waits long asks ``is_stopped()``, and
      raises KeyboardInterrupt when the run was stopped meanwhile.
    - ``finish(*, info, stop_reason)``: called after the last step, with its info.
    - ``record() -> dict``: portable JSON that is kept with the episode, in
      ``data["provenance"]["labels"]["policy"]``: usage, latencies, a conversation.
    - ``remarks() -> Iterable[str]``: sentences for the episode's ``issues``; one that begins with
      ``note: `` is no gap in the evidence.
    - ``close()``: called by `run_tasks` when the policy's job is done.
    """

    def act(
        self, observation: Any, *, tools: Sequence[ToolSpec], info: Mapping[str, Any]
    ) -> Action | None:
        """Choose the next action.

        Args:
            observation: what the environment shows.
            tools: what may be called.
            info: the info of the last step; its ``tool_calls`` have the last results.

        Returns:
            A tool call, a dict of its name and arguments, or text, which ends the episode. None is
            an answer without text.
        """


class ScriptExhausted(RuntimeError):
    """A script that has no action left while the episode goes on."""


class ScriptedPolicy:
    """Takes the actions of a list, one after the other.

    When the list is used up and the episode goes on, the rollout is a failure. Actions left over
    when the episode ends are said in its ``issues``, as a note.

    Args:
        actions: tool calls, dicts of name and arguments, or texts.
        agent_id: names the script in evidence.

    Raises:
        TypeError: when the actions are no sequence.
        ValueError: when one is no action, naming its position.

    Example:
        >>> policy = ScriptedPolicy([ToolCall("check"), "All is well."])
        >>> policy.act(None), policy.act(None)
        (ToolCall(name='check', arguments={}), 'All is well.')
    """

    def __init__(self, actions: Iterable[Action], *, agent_id: str = "scripted") -> None:
        if isinstance(actions, (str, bytes, Mapping, ToolCall)) or not isinstance(
            actions, Iterable
        ):
            raise TypeError(f"actions must be a list of actions, not {type(actions).__name__}")
        require_name("agent_id", agent_id)
        self.agent_id = agent_id
        chosen = []
        for position, action in enumerate(actions):
            try:
                chosen.append(as_action(action))
            except ValueError as error:
                raise ValueError(f"actions[{position}]: {error}") from None
        self.actions: tuple[ToolCall | str, ...] = tuple(chosen)
        self._taken = 0

    def start(self) -> None:
        """Begin at the first action."""
        self._taken = 0

    def act(self, observation: Any) -> ToolCall | str:
        """The next action.

        Raises:
            ScriptExhausted: when there is none.
        """
        if self._taken == len(self.actions):
            count = len(self.actions)
            raise ScriptExhausted(
                f"the script of {count} action{'' if count == 1 else 's'} is used up, and the"
                " episode has not ended"
            )
        self._taken += 1
        return self.actions[self._taken - 1]

    @property
    def remaining(self) -> tuple[ToolCall | str, ...]:
        """The actions that were not taken yet."""
        return self.actions[self._taken :]

    def identity(self) -> Json:
        """The digest of the actions."""
        plain = [each.to_dict() if isinstance(each, ToolCall) else each for each in self.actions]
        return {"actions": hashlib.sha256(canonical(plain)).hexdigest()}

    def remarks(self) -> list[str]:
        """How many actions were left over, if some were."""
        left = len(self.remaining)
        if not left:
            return []
        count = len(self.actions)
        return [f"note: {left} of {count} scripted actions left over when the episode ended"]

    def __repr__(self) -> str:
        return f"<ScriptedPolicy {self.agent_id}: {len(self.actions)} actions>"


class CallablePolicy:
    """Asks a function for each action: rules, or a trained model.

    Args:
        function: called with the observation, and with ``tools`` and ``info`` where its signature
            names them; returns an action, or None. It may be asynchronous.
        agent_id: names it in evidence; by default the function's name.

    Raises:
        TypeError: when it cannot be called.

    Example:
        >>> policy = CallablePolicy(lambda observation: ToolCall("check"), agent_id="always-check")
        >>> policy.act(None, tools=(), info={})
        ToolCall(name='check', arguments={})
    """

    def __init__(self, function: Callable[..., Any], *, agent_id: str | None = None) -> None:
        if not callable(function):
            raise TypeError(f"function must be callable, not {type(function).__name__}")
        name = getattr(function, "__qualname__", type(function).__qualname__)
        self.agent_id = name if agent_id is None else agent_id
        require_name("agent_id", self.agent_id)
        self.function = function
        self._taken = taken(function, "tools", "info")

    def act(self, observation: Any, *, tools: Sequence[ToolSpec], info: Mapping[str, Any]) -> Any:
        """What the function returns."""
        given = {"tools": tools, "info": info}
        return self.function(observation, **{name: given[name] for name in self._taken})

    def identity(self) -> Json:
        """The digest of what the function does."""
        return code_identity(self.function)

    def __repr__(self) -> str:
        return f"<CallablePolicy {self.agent_id}>"


def policy_of(given: Any, model: str | None) -> Policy | Callable[..., Any]:
    """A policy or an interact function from what a rollout was given.

    Args:
        given: a policy, a client (any object with ``policy(model=…)``), or an interact function.
        model: the model, for a client.

    Raises:
        TypeError: when it is none of these, or `model` does not go with it.
    """
    if isinstance(given, type):
        raise TypeError(f"policy is the class {given.__name__}: make one first")
    if callable(getattr(given, "act", None)):
        if model is not None:
            raise TypeError("model= goes with a client: a policy has its model already")
        return given  # type: ignore[no-any-return]
    make = getattr(given, "policy", None)
    if callable(make):
        if model is None:
            raise TypeError(f"a {type(given).__name__} needs model=, the name of the model")
        made = make(model=model)
        if not callable(getattr(made, "act", None)):
            raise TypeError(f"{type(given).__name__}.policy() returned no policy: it has no act()")
        return made  # type: ignore[no-any-return]
    if callable(given):
        if model is not None:
            raise TypeError("model= goes with a client, not with an interact function")
        return given  # type: ignore[no-any-return]
    raise TypeError(
        f"policy must have act(), or be a client or an interact function, not"
        f" {type(given).__name__}"
    )


def agent_id_of(policy: Any) -> str:
    """What evidence calls a policy or an interact function."""
    named = getattr(policy, "agent_id", None)
    if isinstance(named, str) and named.strip():
        return named
    if not hasattr(policy, "act") and hasattr(policy, "__qualname__"):
        return str(policy.__qualname__)
    return type(policy).__qualname__


def identity_of(policy: Any) -> Json:
    """What tells a policy from others of its name; null when nothing is known."""
    if callable(getattr(policy, "identity", None)):
        return policy.identity()
    return code_identity(policy)


def code_identity(value: Any) -> Json:
    """The digest of what the code of a function or object does, and of its settings.

    Null where it cannot be followed.
    """
    from envbench.environments.fingerprint import Fingerprint
    from envbench.environments.following import Follower
    from envbench.environments.packages import Homes

    module = getattr(value, "__module__", None) or type(value).__module__
    try:
        follower = Follower(Homes(module))
        follower.follow(value, "policy")
        follower.finish()
        return {"code": Fingerprint.of_parts(follower.parts).digest}
    except Exception:  # code that is not Python's, an attribute that raises
        return None


def call_with(function: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """Call a function with those of the named arguments that its signature takes."""
    return function(*args, **{name: named[name] for name in taken(function, *named)})


def taken(function: Callable[..., Any], *names: str) -> tuple[str, ...]:
    """Those of the names that a function takes as named arguments."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a builtin that does not say
        return ()
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        return names
    known = {
        each.name
        for each in parameters
        if each.kind in (each.KEYWORD_ONLY, each.POSITIONAL_OR_KEYWORD)
    }
    return tuple(name for name in names if name in known)
