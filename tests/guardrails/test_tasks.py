"""Tasks: a request and what is expected, told apart by their ids."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from envbench.guardrails import Effect, EvalResult, GuardrailTask
from envbench.guardrails.tasks import require_tasks
from tests.guardrails.tills import request, task


def test_utility_is_the_expected_effect() -> None:
    asked = task(620.0, Effect.DENY)
    effects = [asked.utility(EvalResult(effect)) for effect in Effect]
    assert effects == [False, True, False]
    assert GuardrailTask("t", request(), "deny").expected_effect is Effect.DENY  # type: ignore[arg-type]


def test_the_expected_effect_is_not_shown() -> None:
    assert "deny" not in repr(task(620.0, Effect.DENY)).lower()
    assert task().category == "paying"
    assert GuardrailTask("t", request(), Effect.DENY).category == "default"


def test_tasks_may_come_from_anywhere_and_need_no_hash() -> None:
    strange = GuardrailTask("lock", request(lock=threading.Lock(), rows=[{}]), Effect.DENY)
    assert require_tasks(one for one in [strange]) == (strange,)


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (("", request(), "deny"), ValueError, "id must not be blank"),
        ((1, request(), "deny"), TypeError, "id must be text, not int"),
        (("t", "pay", "deny"), TypeError, "request must be an EvalRequest, not str"),
        (("t", request(), True), TypeError, "expected_effect must be an Effect, not bool"),
        (("t", request(), "perhaps"), ValueError, "expected_effect must be one of"),
        (("t", request(), Effect.ERROR), ValueError, "an error is no decision"),
        (("t", request(), "deny", ""), ValueError, "category must not be blank"),
    ],
)
def test_bad_arguments_are_named(
    arguments: tuple[Any, ...], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        GuardrailTask(*arguments)


@pytest.mark.parametrize(
    ("tasks", "kind", "message"),
    [
        ([], ValueError, "tasks must hold at least one task"),
        (iter(()), ValueError, "tasks must hold at least one task"),
        (None, TypeError, r"tasks\[0\] must be a GuardrailTask, not NoneType"),
        ([task(), "t"], TypeError, r"tasks\[1\] must be a GuardrailTask, not str"),
        ([task(id="b"), task(id="a"), task(id="b")], ValueError, "tasks hold an id twice: 'b'$"),
    ],
)
def test_bad_lists_are_named(tasks: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        require_tasks(tasks)


def test_one_task_is_a_list_of_one() -> None:
    assert require_tasks(task()) == (task(),)
