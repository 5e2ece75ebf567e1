"""Environments that tell their own state: what is recorded where nobody gives an observer.

`envbench.environments.Environment` is one. It is known by what it can do, also under wrappers,
because capture stands below it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from envbench.capture.recorder import Header, Recorder
from envbench.evidence.case import EvalCase, require_name
from envbench.evidence.tagged import describe_error

OBSERVER_ID = "snapshot"
"""What such a state is named after, as that of a rollout is."""


UNSCORED = "scoring: the episode was cut short outside the environment, unscored"
"""The issue of an episode that no scorer has judged."""


class NotObserved(TypeError):
    """No observer was given, and the environment does not tell its state; nothing was run."""


class TellsState(Protocol):
    """What capture looks for in the environment that is inside all wrappers.

    Attributes:
        name: names the environment.
        version: its version.
        max_turns: how many actions an episode may take, or None.
        row_keys: the key of each table of its state, by JSON Pointer, or None.
        audit: returns the events of an authoritative history since its last call, or None.
        scorers: what judges an episode at the environment's own end of it.
        trace: what happened in the episode; its ``stop_reason`` is None before that end.
    """

    name: str
    version: str
    max_turns: int | None
    row_keys: Mapping[str, str] | None
    audit: Callable[[], list[dict[str, Any]]] | None

    @property
    def scorers(self) -> Any: ...  # noqa: D102 - described with the attributes

    @property
    def trace(self) -> Any: ...  # noqa: D102

    def observe_state(self) -> dict[str, Any]:
        """The state now; after a step, as the step left it."""

    def fingerprint(self) -> Any:
        """What the environment does; its ``digest`` is kept."""

    def describe_case(self) -> EvalCase:
        """What the agent is asked in this episode."""


@dataclass(frozen=True, slots=True)
class OwnState:
    """What an environment tells of itself, asked anew each time.

    Attributes:
        env: the environment that is inside all wrappers.
    """

    env: TellsState

    @property
    def environment_id(self) -> str:
        """The environment's name.

        Raises:
            TypeError: when it is no text.
            ValueError: when it is blank.
        """
        require_name("name", self.env.name)
        return self.env.name

    @property
    def max_steps(self) -> int | None:
        """How many steps it lets through itself; None for no limit."""
        turns = getattr(self.env, "max_turns", None)
        return turns if type(turns) is int and turns > 0 else None

    def observe(self) -> dict[str, Any]:
        """The state now."""
        return self.env.observe_state()

    def audit(self, header: Header) -> list[dict[str, Any]]:
        """What its authoritative history recorded since the last call, if it has one.

        Args:
            header: says that there is one, which the reset may have made.
        """
        if self.env.audit is None:
            return []
        header.audited = True
        return self.env.audit()

    def fill(self, header: Header) -> str | None:
        """Say in the header of an episode which version it is, and what its observer sees.

        Returns:
            What could not be told, None when nothing was missing.
        """
        header.observer_id = OBSERVER_ID
        header.row_keys = self.env.row_keys
        header.audited = self.env.audit is not None
        return self.identify(header)

    def identify(self, header: Header) -> str | None:
        """Say in the header its version, where the caller named none, and its fingerprint.

        Returns:
            What could not be told, None when nothing was missing.
        """
        try:
            if header.provenance.environment_version is None:
                version = str(self.env.version)
                header.provenance = replace(header.provenance, environment_version=version)
            header.environment_fingerprint = self.env.fingerprint().digest
        except Exception as error:  # such as a payload that cannot be had now
            return f"fingerprint: not taken: {type(error).__name__}: {describe_error(error)}"
        return None

    def take_case(self, recorder: Recorder) -> None:
        """Have the task that the reset chose be the case of an episode."""
        try:
            recorder.header.case = self.env.describe_case()
        except Exception as error:  # such as a task whose tags are none
            recorder.issue(f"case: not taken: {type(error).__name__}: {describe_error(error)}")

    def ending(self, early: str) -> str:
        """How an episode ended that no flag ended: an answer in text is the policy's own stop."""
        stopped = getattr(self.env.trace, "stop_reason", None) == "policy_stop"
        return "policy_stop" if stopped else early

    def is_unscored(self) -> bool:
        """Whether something outside cut the episode short, so that no scorer has judged it."""
        return bool(self.env.scorers) and self.env.trace.stop_reason is None


def own_state(env: Any) -> OwnState | None:
    """What an environment tells of itself; None for one that does not tell its state."""
    try:
        inner = env.unwrapped
        methods = ("observe_state", "fingerprint", "describe_case")
        tells = all(callable(getattr(inner, name, None)) for name in methods)
        return OwnState(inner) if tells and isinstance(inner.name, str) else None
    except Exception:  # an attribute that is computed, and fails
        return None
