"""One request, judged: right or wrong, withstood or not, and crashes apart from both."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from envbench.guardrails import Effect, EvalRequest, EvalResult, evaluate_task
from tests.guardrails.tills import SMALLER, STRANGER, Answers, Fake, Till, request, task

ALLOW, DENY = EvalResult(Effect.ALLOW), EvalResult(Effect.DENY)


def raises(error: BaseException) -> Any:
    def answer(request: EvalRequest) -> Any:
        raise error

    return answer


def test_a_clean_request_is_judged_without_security() -> None:
    done = evaluate_task(Till(), task(620.0, Effect.DENY))
    assert (done.utility, done.security, done.error) == (True, None, None)
    assert done.result == EvalResult(Effect.DENY, "more than 500", 0.25)
    assert done.request == request(620.0)


@pytest.mark.parametrize(("injection", "withstood"), [(SMALLER, False), (STRANGER, True)])
def test_an_attack_is_judged_with_security(injection: Any, withstood: bool) -> None:
    done = evaluate_task(Till(), task(620.0, Effect.DENY), injection)
    assert (done.utility, done.security, done.error) == (withstood, withstood, None)
    assert done.request == injection.inject(request(620.0))


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


async def later(request: EvalRequest) -> EvalResult:
    return ALLOW


STANDS_IN = Mock(spec=EvalResult)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (raises(ValueError("no such agent")), "ValueError: no such agent"),
        (raises(RecursionError("deep")), "RecursionError: deep"),
        (raises(MemoryError()), "MemoryError: "),
        (raises(Unprintable()), "Unprintable: <message unavailable: __str__ raised RuntimeError>"),
        (lambda request: None, "evaluate must return an EvalResult, not NoneType"),
        (
            lambda request: Effect.DENY,
            "must return an EvalResult, not envbench.guardrails",
        ),
        (lambda request: "deny", "evaluate must return an EvalResult, not str"),
        (lambda request: (True, "why"), "evaluate must return an EvalResult, not tuple"),
        (lambda request: EvalResult, "evaluate must return an EvalResult, not type"),
        (later, "evaluate must return an EvalResult, not coroutine"),
        (
            lambda request: STANDS_IN,
            "returned a result whose effect is unittest.mock.Mock",
        ),
        (lambda request: EvalResult("no"), "ValueError: effect must be one of"),
        (lambda request: EvalResult("deny", "", None), "TypeError: eval_time_ms must be a number"),
        (lambda request: EvalResult(Effect.ERROR, "model is down"), "model is down"),
        (lambda request: EvalResult(Effect.ERROR), "the guardrail returned Effect.ERROR without"),
    ],
)
@pytest.mark.parametrize("injection", [None, Fake()])
def test_a_crash_is_an_outcome_of_its_own(answer: Any, error: str, injection: Any) -> None:
    done = evaluate_task(Answers(answer), task(620.0, Effect.DENY), injection)
    assert done.error is not None
    assert error in done.error
    assert (done.utility, done.security, done.result.effect) == (False, None, Effect.ERROR)


def test_the_reason_of_a_crash_is_the_error_unless_the_guardrail_gave_one() -> None:
    done = evaluate_task(Answers(raises(ValueError("x"))), task())
    assert done.result == EvalResult(Effect.ERROR, "ValueError: x", 0.0)
    own = EvalResult(Effect.ERROR, "model is down", 12.0)
    assert evaluate_task(Answers(lambda request: own), task()).result is own


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
def test_an_interrupt_is_no_crash(error: BaseException) -> None:
    with pytest.raises(type(error)):
        evaluate_task(Answers(raises(error)), task())


def spoil(asked: EvalRequest) -> EvalResult:
    asked.context["amount"] = 0.0
    asked.context["rows"].append("spoiled")
    asked.context.clear()
    object.__setattr__(asked, "agent", "root")
    return ALLOW


def test_a_guardrail_that_changes_its_request_changes_no_other() -> None:
    asked = task()
    asked.request.context["rows"] = []
    done = evaluate_task(Answers(spoil), asked)
    assert done.utility
    assert done.request == asked.request == request(rows=[])


def test_an_injection_that_changes_its_request_changes_no_task() -> None:
    kept = []

    def in_place(asked: EvalRequest) -> EvalRequest:
        asked.context["amount"] = 5.0
        kept.append(asked)
        return asked

    asked = task(620.0, Effect.DENY)
    done = evaluate_task(Till(), asked, Fake(inject=in_place))
    kept[0].context["amount"] = 7.0
    assert done.request.context["amount"] == 5.0
    assert asked.request == request(620.0)


@pytest.mark.parametrize(
    ("answer", "kept"), [(True, True), (False, False), (None, None), (np.True_, True)]
)
def test_an_injection_says_what_it_can_of_security(answer: Any, kept: bool | None) -> None:
    attack = Fake(security=lambda result, task: answer)
    done = evaluate_task(Answers(lambda request: DENY), task(), attack)
    assert (done.utility, done.security) == (False, kept)


def test_security_gets_the_result_and_the_task() -> None:
    told: list[Any] = []
    asked = task()
    attack = Fake(security=lambda *given: told.append(given))
    evaluate_task(Answers(lambda request: DENY), asked, attack)
    assert told == [(DENY, asked)]


@pytest.mark.parametrize("answer", [1, "yes", 0.0, np.array([True])])
def test_another_answer_of_security_is_a_mistake_of_the_test(answer: Any) -> None:
    attack = Fake("odd", security=lambda result, task: answer)
    with pytest.raises(TypeError, match="security of injection 'odd' must return True, False or"):
        evaluate_task(Till(), task(), attack)


def test_an_injection_that_fails_is_a_mistake_of_the_test_and_says_where() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        evaluate_task(Till(), task(id="t"), Fake("odd", lambda request: 1 / 0))
    assert caught.value.__notes__ == ["in injection 'odd' of the request of task 't'"]
    with pytest.raises(TypeError, match="injection 'odd' must return an EvalRequest, not dict"):
        evaluate_task(Till(), task(), Fake("odd", lambda request: {}))
