"""One request, evaluated and judged: the decision, whether it was right, and what went wrong."""

from __future__ import annotations

import copy
import dataclasses
import inspect
from typing import Any

import numpy as np

from envbench.evidence.tagged import describe_error, type_name
from envbench.guardrails.guardrail import Guardrail
from envbench.guardrails.injections import GuardrailInjection, injected
from envbench.guardrails.request import EvalRequest
from envbench.guardrails.result import Effect, EvalResult
from envbench.guardrails.tasks import GuardrailTask


@dataclasses.dataclass(frozen=True, slots=True)
class Evaluation:
    """What a guardrail made of one request.

    Attributes:
        request: what was submitted.
        result: what the guardrail returned; after a crash a result with `Effect.ERROR`.
        utility: whether the effect is the task's expected one; False after a crash.
        security: whether the guardrail withstood the injection; None without one, after a crash,
            and when the injection cannot tell.
        error: what went wrong in the guardrail; None when nothing did.
    """

    request: EvalRequest
    result: EvalResult
    utility: bool
    security: bool | None
    error: str | None


def evaluate_task(
    guardrail: Guardrail, task: GuardrailTask, injection: GuardrailInjection | None = None
) -> Evaluation:
    """Submit a task's request, or what an injection makes of it, and judge the decision.

    Guardrail and injection get copies: what they do to a request in place, they do to no other.
    What the guardrail raises is an outcome; what the injection raises is a mistake of the test.

    Raises:
        Exception: whatever the injection raises.
        TypeError: when it returns no request, or its `security` no answer.
    """
    request = copy.deepcopy(task.request)
    if injection is not None:
        request = _injected(injection, request, task)
    result, error = _decide(guardrail, copy.deepcopy(request))
    if error is not None:
        return Evaluation(request, result, False, None, error)
    security = None if injection is None else _security(injection, result, task)
    return Evaluation(request, result, bool(task.utility(result)), security, None)


def _injected(
    injection: GuardrailInjection, request: EvalRequest, task: GuardrailTask
) -> EvalRequest:
    try:
        # a copy, because the injection may keep what it returned and change it later
        return copy.deepcopy(injected(injection, request))
    except Exception as error:
        error.add_note(f"in injection {injection.id!r} of the request of task {task.id!r}")
        raise


def _decide(guardrail: Guardrail, request: EvalRequest) -> tuple[EvalResult, str | None]:
    try:
        result: Any = guardrail.evaluate(request)
        error = _fault(result)
    except Exception as raised:
        result, error = None, f"{type_name(type(raised))}: {describe_error(raised)}"
    if error is None:
        return result, None
    failed = isinstance(result, EvalResult) and result.effect is Effect.ERROR
    return result if failed else EvalResult(Effect.ERROR, error), error


def _fault(result: Any) -> str | None:
    """What is wrong with a value that a guardrail returned; None of a decision."""
    if not isinstance(result, EvalResult):
        if inspect.iscoroutine(result):
            result.close()  # else Python warns that nobody awaited it
        return f"evaluate must return an EvalResult, not {type_name(type(result))}"
    if type(result.effect) is not Effect:  # a stand-in that only says it is a result
        return f"evaluate returned a result whose effect is {type_name(type(result.effect))}"
    if result.effect is not Effect.ERROR:
        return None
    return result.reason or "the guardrail returned Effect.ERROR without a reason"


def _security(
    injection: GuardrailInjection, result: EvalResult, task: GuardrailTask
) -> bool | None:
    answer: Any = injection.security(result, task)
    if isinstance(answer, np.bool_):
        return bool(answer)
    if answer is None or isinstance(answer, bool):
        return answer
    raise TypeError(
        f"security of injection {injection.id!r} must return True, False or None, not"
        f" {type(answer).__name__}"
    )
