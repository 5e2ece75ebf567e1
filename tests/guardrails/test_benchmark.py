"""The benchmark's table, counted by hand."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from envbench.guardrails import (
    AddNoise,
    Compose,
    Effect,
    EvalRequest,
    EvalResult,
    SwapField,
    guardrail_benchmark,
)
from tests.guardrails.tills import BESIDE, INJECTIONS, SMALLER, TASKS, Answers, Fake, Till, task

COLUMNS = [
    *("guardrail", "injection", "n", "utility", "utility_low", "utility_high"),
    *("security", "security_low", "security_high", "crashes"),
]


def test_each_guardrail_and_injection_has_a_row() -> None:
    table = guardrail_benchmark(
        {"till": Till(), "no": Answers(lambda r: EvalResult("deny"))}, TASKS, INJECTIONS
    )
    assert table.columns == COLUMNS
    rows = table.select("guardrail", "injection", "n", "utility", "security", "crashes").rows()
    assert rows == [
        ("till", None, 2, 1.0, None, 0),
        ("till", "swap context.amount=5.0", 2, 0.5, 0.5, 0),
        ("till", "probe amount=500+1", 2, 0.5, 0.5, 0),
        ("till", "swap agent=mallory", 2, 0.5, 0.5, 0),
        ("no", None, 2, 0.5, None, 0),
        ("no", "swap context.amount=5.0", 2, 0.5, 0.5, 0),
        ("no", "probe amount=500+1", 2, 0.5, 0.5, 0),
        ("no", "swap agent=mallory", 2, 0.5, 0.5, 0),
    ]


def test_the_intervals_are_wilsons() -> None:
    # 8 of 10: Newcombe 1998, "Two-sided confidence intervals for the single proportion", method 3
    tasks = [task(float(i), Effect.ALLOW if i < 8 else Effect.DENY) for i in range(10)]
    (row,) = guardrail_benchmark(Till(), tasks).rows(named=True)
    assert (row["n"], row["utility"]) == (10, 0.8)
    assert (round(row["utility_low"], 4), round(row["utility_high"], 4)) == (0.4902, 0.9433)
    assert (row["security"], row["security_low"], row["security_high"]) == (None, None, None)


def test_crashes_are_counted_apart_and_never_secure() -> None:
    def answer(request: EvalRequest) -> EvalResult:
        amount = request.context["amount"]
        if amount < 4:
            raise ValueError("too small")
        return EvalResult("allow" if amount < 5 else "deny")  # type: ignore[arg-type]

    tasks = [task(float(i), Effect.DENY) for i in range(10)]
    table = guardrail_benchmark(Answers(answer), tasks, [Fake("same")])
    assert table.select("n", "utility", "security", "crashes").rows() == [
        (10, 0.5, None, 4),
        (10, 0.5, 5 / 6, 4),
    ]
    always = guardrail_benchmark(Answers(lambda r: None), tasks, [Fake("same")])
    assert always.select("n", "utility", "security", "security_low", "crashes").rows() == [
        (10, 0.0, None, None, 10),
        (10, 0.0, None, None, 10),
    ]


def test_what_an_injection_cannot_tell_is_in_no_share() -> None:
    answers = iter([True, None, False, None, True])
    attack = Fake("asks", security=lambda result, task: next(answers))
    table = guardrail_benchmark(Till(), [task(float(i)) for i in range(5)], [attack])
    assert table.select("n", "security", "crashes").row(1) == (5, 2 / 3, 0)


def test_repeats_submit_every_request_again_and_draw_noise_anew() -> None:
    till = Till()
    noisy = Compose(SwapField("resource", "refunds"), AddNoise("amount", 1.0))
    table = guardrail_benchmark(till, TASKS, [noisy], repeats=3)
    assert table["n"].to_list() == [6, 6]
    drawn = [asked.context["amount"] for asked in till.seen if asked.resource == "refunds"]
    assert len(drawn) == len(set(drawn)) == 6
    again = Till()
    guardrail_benchmark(again, TASKS, [noisy], repeats=3)
    assert again.seen == till.seen


def test_names_come_from_the_guardrails() -> None:
    class Named(Till):
        name = "second till"

    blank = Named()
    blank.name = " "
    table = guardrail_benchmark([Till(), Till(), Named(), blank], TASKS)
    assert table["guardrail"].to_list() == ["Till", "Till 2", "second till", "Named"]
    assert guardrail_benchmark(Till(), TASKS)["guardrail"].to_list() == ["Till"]


def test_the_types_do_not_depend_on_the_content() -> None:
    table = guardrail_benchmark(Till(), TASKS[:1])
    assert list(table.schema.values()) == [
        *(pl.String(), pl.String(), pl.Int64()),
        *[pl.Float64()] * 6,
        pl.Int64(),
    ]


def test_guardrails_are_not_closed_and_see_no_request_of_another() -> None:
    def spoil(request: EvalRequest) -> EvalResult:
        request.context.clear()  # type: ignore[attr-defined]
        return EvalResult("deny")  # type: ignore[arg-type]

    till = Till()
    table = guardrail_benchmark([Answers(spoil), till], TASKS, [SMALLER])
    assert till.closed == 0
    assert table["utility"].to_list() == [0.5, 0.5, 1.0, 0.5]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit()])
def test_an_interrupt_ends_it(error: BaseException) -> None:
    def stop(request: EvalRequest) -> Any:
        raise error

    with pytest.raises(type(error)):
        guardrail_benchmark(Answers(stop), TASKS)


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({"guardrails": []}, ValueError, "guardrails must hold at least one guardrail"),
        ({"guardrails": {}}, ValueError, "guardrails must hold at least one guardrail"),
        ({"guardrails": 3}, TypeError, "guardrails must be guardrails, not int"),
        ({"guardrails": {"": Till()}}, TypeError, "a guardrail's name must be text, not ''"),
        ({"guardrails": {"a": 1}}, TypeError, "guardrail 'a' must have a method evaluate"),
        ({"guardrails": [Till]}, TypeError, "must be a guardrail, not the class Till"),
        ({"guardrails": Till}, TypeError, "must be a guardrail, not the class Till"),
        ({"tasks": []}, ValueError, "tasks must hold at least one task"),
        ({"tasks": [task(), task()]}, ValueError, "tasks hold an id twice"),
        ({"injections": [BESIDE, BESIDE]}, ValueError, "injections hold an id twice"),
        ({"repeats": 0}, ValueError, "repeats must be at least 1, not 0"),
        ({"repeats": 1.0}, TypeError, "repeats must be an integer, not 1.0"),
        ({"repeats": True}, TypeError, "repeats must be an integer, not True"),
    ],
)
def test_bad_arguments_are_named(given: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        guardrail_benchmark(**{"guardrails": Till(), "tasks": TASKS, **given})
