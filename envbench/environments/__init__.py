"""Environments that own their tools: tasks, policies, rollouts, replay, fingerprints.

The public names are loaded when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from envbench.environments.actions import ActionSpace, ToolCall, ToolSpec
    from envbench.environments.chat_client import ChatClient, ChatFailed
    from envbench.environments.chat_policy import ChatPolicy
    from envbench.environments.environment import Environment
    from envbench.environments.fingerprint import Fingerprint
    from envbench.environments.models import Observation, ObservationSpace, State
    from envbench.environments.policies import (
        CallablePolicy,
        Policy,
        ScriptedPolicy,
        ScriptExhausted,
    )
    from envbench.environments.replay import Mismatch, Replay, verify_replay
    from envbench.environments.rollout import Rollout
    from envbench.environments.running import Rollouts, run_tasks
    from envbench.environments.runtimes import Call, LocalRuntime, Runtime, SubprocessRuntime
    from envbench.environments.scoring import Score, Scorer, scorer
    from envbench.environments.tasks import TaskData, TaskDataset
    from envbench.environments.tools import (
        RuntimeBroken,
        ToolFailed,
        ToolRecord,
        result_text,
        tool,
    )
    from envbench.environments.trace import Outcome, Trace, TraceStep

_FILES = {
    "actions": ("ActionSpace", "ToolCall", "ToolSpec"),
    "chat_client": ("ChatClient", "ChatFailed"),
    "chat_policy": ("ChatPolicy",),
    "environment": ("Environment",),
    "fingerprint": ("Fingerprint",),
    "models": ("Observation", "ObservationSpace", "State"),
    "policies": ("CallablePolicy", "Policy", "ScriptExhausted", "ScriptedPolicy"),
    "replay": ("Mismatch", "Replay", "verify_replay"),
    "rollout": ("Rollout",),
    "running": ("Rollouts", "run_tasks"),
    "runtimes": ("Call", "LocalRuntime", "Runtime", "SubprocessRuntime"),
    "scoring": ("Score", "Scorer", "scorer"),
    "tasks": ("TaskData", "TaskDataset"),
    "tools": ("RuntimeBroken", "ToolFailed", "ToolRecord", "result_text", "tool"),
    "trace": ("Outcome", "Trace", "TraceStep"),
}
_HOME = {name: f"envbench.environments.{file}" for file, names in _FILES.items() for name in names}

__all__ = [
    "ActionSpace",
    "Call",
    "CallablePolicy",
    "ChatClient",
    "ChatFailed",
    "ChatPolicy",
    "Environment",
    "Fingerprint",
    "LocalRuntime",
    "Mismatch",
    "Observation",
    "ObservationSpace",
    "Outcome",
    "Policy",
    "Replay",
    "Rollout",
    "Rollouts",
    "Runtime",
    "RuntimeBroken",
    "Score",
    "Scorer",
    "ScriptExhausted",
    "ScriptedPolicy",
    "State",
    "SubprocessRuntime",
    "TaskData",
    "TaskDataset",
    "ToolCall",
    "ToolFailed",
    "ToolRecord",
    "ToolSpec",
    "Trace",
    "TraceStep",
    "result_text",
    "run_tasks",
    "scorer",
    "tool",
    "verify_replay",
]


def __getattr__(name: str) -> Any:
    """Load a public name from its file, once."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Every public name, loaded or not."""
    return sorted({*globals(), *__all__})
