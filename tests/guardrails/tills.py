"""A till: a guardrail that pays up to a limit, and what goes wrong with guardrails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from envbench.guardrails import (
    Bound,
    Effect,
    EvalRequest,
    EvalResult,
    Explanation,
    GuardrailInjection,
    GuardrailTask,
    PolicySpace,
    ProbeBound,
    SwapField,
)

SPACE = PolicySpace(
    agents=["clerk", "manager"],
    actions=["pay"],
    resources=["invoices", "refunds"],
    context_schema={"risk": Bound(0, 1), "amount": Bound(0, 1000)},
)


class Till:
    """Denies what is more than 500, and everything to those it does not know.

    Attributes:
        seen: the requests it was asked about.
        closed: how often it was closed.
    """

    request_space = SPACE

    def __init__(self) -> None:
        self.seen: list[EvalRequest] = []
        self.closed = 0

    def evaluate(self, request: EvalRequest) -> EvalResult:
        if self.closed:
            raise RuntimeError("this till is closed")
        self.seen.append(request)
        if request.agent not in SPACE.agents:
            return EvalResult(Effect.DENY, f"nobody knows {request.agent}", 0.5)
        if request.context["amount"] > 500:
            return EvalResult(Effect.DENY, "more than 500", 0.25)
        return EvalResult(Effect.ALLOW, None, 0.25)

    def explain(self, result: EvalResult) -> Explanation:
        return Explanation(f"The till says {result.effect}: {result.reason}")

    def close(self) -> None:
        self.closed += 1


class Answers:
    """A guardrail that calls a function with the request and returns what that returns."""

    def __init__(self, answer: Callable[[EvalRequest], Any], space: PolicySpace = SPACE) -> None:
        self.answer = answer
        self.request_space = space

    def evaluate(self, request: EvalRequest) -> Any:
        return self.answer(request)


class Fake(GuardrailInjection):
    """An injection that calls functions for what it does and says."""

    def __init__(
        self,
        id: str = "fake",  # noqa: A002
        inject: Callable[[EvalRequest], Any] = lambda request: request,
        security: Callable[[EvalResult, GuardrailTask], Any] | None = None,
    ) -> None:
        super().__init__(id)
        self.injects, self.secures = inject, security

    def inject(self, request: EvalRequest) -> Any:
        return self.injects(request)

    def security(self, result: EvalResult, task: GuardrailTask) -> Any:
        if self.secures is None:
            return super().security(result, task)
        return self.secures(result, task)


def request(amount: Any = 120.0, agent: str = "clerk", **context: Any) -> EvalRequest:
    """A clerk's request to pay an invoice."""
    return EvalRequest(agent, "pay", "invoices", {"amount": amount, "risk": 0.25, **context})


def task(
    amount: Any = 120.0,
    expected: Effect = Effect.ALLOW,
    id: str | None = None,  # noqa: A002
) -> GuardrailTask:
    """A task named after its amount."""
    return GuardrailTask(id or f"pay-{amount}", request(amount), expected, "paying")


TASKS = (task(120.0), task(620.0, Effect.DENY))
SMALLER = SwapField("context.amount", 5.0)
BESIDE = ProbeBound("amount", 500, 1)
STRANGER = SwapField("agent", "mallory")
INJECTIONS = (SMALLER, BESIDE, STRANGER)
