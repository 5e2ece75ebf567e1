"""Guardrails as Gymnasium environments: requests, decisions, tasks, attacks, a benchmark.

The public names are loaded when they are first used, and nothing is registered with Gymnasium
until `register_with_gymnasium` is called.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from envbench.guardrails.benchmark import guardrail_benchmark
    from envbench.guardrails.encoding import RequestEncoding
    from envbench.guardrails.environment import GuardrailGymEnv
    from envbench.guardrails.evaluation import Evaluation, evaluate_task
    from envbench.guardrails.guardrail import Guardrail
    from envbench.guardrails.injections import (
        AddNoise,
        Compose,
        GuardrailInjection,
        ProbeBound,
        SwapField,
    )
    from envbench.guardrails.registration import register_with_gymnasium
    from envbench.guardrails.request import EvalRequest
    from envbench.guardrails.result import Effect, EvalResult, Explanation
    from envbench.guardrails.spaces import Bound, PolicySpace
    from envbench.guardrails.tasks import GuardrailTask

_FILES = {
    "benchmark": ("guardrail_benchmark",),
    "encoding": ("RequestEncoding",),
    "environment": ("GuardrailGymEnv",),
    "evaluation": ("Evaluation", "evaluate_task"),
    "guardrail": ("Guardrail",),
    "injections": ("AddNoise", "Compose", "GuardrailInjection", "ProbeBound", "SwapField"),
    "registration": ("register_with_gymnasium",),
    "request": ("EvalRequest",),
    "result": ("Effect", "EvalResult", "Explanation"),
    "spaces": ("Bound", "PolicySpace"),
    "tasks": ("GuardrailTask",),
}
_HOME = {name: f"envbench.guardrails.{file}" for file, names in _FILES.items() for name in names}

__all__ = [
    "AddNoise",
    "Bound",
    "Compose",
    "Effect",
    "EvalRequest",
    "EvalResult",
    "Evaluation",
    "Explanation",
    "Guardrail",
    "GuardrailGymEnv",
    "GuardrailInjection",
    "GuardrailTask",
    "PolicySpace",
    "ProbeBound",
    "RequestEncoding",
    "SwapField",
    "evaluate_task",
    "guardrail_benchmark",
    "register_with_gymnasium",
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
