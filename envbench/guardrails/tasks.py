"""`GuardrailTask`: a request, and what a guardrail should decide about it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from envbench.evidence.case import require_name
from envbench.guardrails.arguments import require_different
from envbench.guardrails.request import EvalRequest
from envbench.guardrails.result import Effect, EvalResult, as_effect


@dataclasses.dataclass(frozen=True, slots=True)
class GuardrailTask:
    """A request, and what a guardrail should decide about it.

    Args:
        id: a stable name, unique among the tasks of an environment.
        request: the request as an honest agent makes it.
        expected_effect: `Effect.ALLOW` or `Effect.DENY`; it is not shown by `repr`.
        category: the group that the task belongs to, for tables.

    Raises:
        TypeError: when an argument is of the wrong type.
        ValueError: when a name is blank, or the expected effect is `Effect.ERROR`.
    """

    id: str
    request: EvalRequest
    expected_effect: Effect = dataclasses.field(repr=False)
    category: str = "default"

    def __post_init__(self) -> None:
        require_name("id", self.id)
        if not isinstance(self.request, EvalRequest):
            raise TypeError(f"request must be an EvalRequest, not {type(self.request).__name__}")
        effect = as_effect("expected_effect", self.expected_effect)
        if effect is Effect.ERROR:
            raise ValueError("expected_effect must be allow or deny: an error is no decision")
        object.__setattr__(self, "expected_effect", effect)
        require_name("category", self.category)

    def utility(self, result: EvalResult) -> bool:
        """Whether the decision is the expected one."""
        return result.effect is self.expected_effect


def require_tasks(tasks: Any) -> tuple[GuardrailTask, ...]:
    """The tasks of an environment or a benchmark.

    Raises:
        TypeError: when they are no tasks.
        ValueError: when there is none, or two have one id.
    """
    found = tuple(tasks) if isinstance(tasks, Iterable) else (tasks,)
    for i, task in enumerate(found):
        if not isinstance(task, GuardrailTask):
            raise TypeError(f"tasks[{i}] must be a GuardrailTask, not {type(task).__name__}")
    if not found:
        raise ValueError("tasks must hold at least one task")
    require_different("tasks", [task.id for task in found])
    return found
