"""Observations of requests: always in their space, and what they do not show is listed."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from envbench.guardrails import (
    Bound,
    Effect,
    EvalRequest,
    EvalResult,
    PolicySpace,
    RequestEncoding,
)
from tests.guardrails.tills import SPACE, request

LARGEST = float(np.finfo(np.float64).max)


@pytest.fixture
def encoding() -> RequestEncoding:
    return RequestEncoding(SPACE, [request(), request(agent="auditor")])


def entries(field: str, reason: str, value: Any) -> list[dict[str, Any]]:
    return [{"field": field, "reason": reason, "value": value}]


def test_the_space_has_the_published_parts(encoding: RequestEncoding) -> None:
    assert encoding.observation_space == spaces.Dict(
        {
            "agent": spaces.Discrete(4),
            "action": spaces.Discrete(2),
            "resource": spaces.Discrete(3),
            "context": spaces.Box(np.zeros(2), np.array([1000.0, 1.0]), dtype=np.float64),
            "last_effect": spaces.Discrete(3),
            "last_eval_time_ms": spaces.Box(0.0, 3.6e6, (1,), np.float64),
        }
    )
    assert encoding.vocabularies == {
        "agent": ("auditor", "clerk", "manager"),
        "action": ("pay",),
        "resource": ("invoices", "refunds"),
    }
    assert encoding.names == ("amount", "risk")


def test_a_request_is_shown_by_places_and_numbers(encoding: RequestEncoding) -> None:
    observation, adjusted = encoding.encode(request(120))
    assert observation in encoding.observation_space
    assert {key: np.asarray(value).tolist() for key, value in observation.items()} == {
        "agent": 1,
        "action": 0,
        "resource": 0,
        "context": [120.0, 0.25],
        "last_effect": 0,
        "last_eval_time_ms": [0.0],
    }
    assert adjusted == []


@pytest.mark.parametrize(
    ("result", "effect", "time"),
    [
        (EvalResult(Effect.ALLOW, "", 1.5), 1, 1.5),
        (EvalResult(Effect.DENY, "", 0.0), 2, 0.0),
        (EvalResult(Effect.ERROR, "", 3.0), 0, 3.0),
    ],
)
def test_a_decision_is_shown(
    encoding: RequestEncoding, result: EvalResult, effect: int, time: float
) -> None:
    observation, adjusted = encoding.encode(request(), result)
    assert (observation["last_effect"], observation["last_eval_time_ms"]) == (effect, [time])
    assert adjusted == []


@pytest.mark.parametrize(
    ("value", "shown", "reason"),
    [
        (1000, 1000.0, None),
        (0, 0.0, None),
        (np.float32(0.5), 0.5, None),
        (np.int64(7), 7.0, None),
        (Fraction(1, 2), 0.5, None),
        (Decimal("2.5"), 2.5, None),
        (1000.5, 1000.0, "clipped"),
        (-1, 0.0, "clipped"),
        (math.inf, 1000.0, "clipped"),
        (-math.inf, 0.0, "clipped"),
        (10**400, 1000.0, "clipped"),
        (-(10**400), 0.0, "clipped"),
        (Decimal("1e400"), 1000.0, "clipped"),
        (Fraction(10**400), 0.0, "not_a_number"),
        (Fraction(1, 3), 1 / 3, "clipped"),
        (math.nan, 0.0, "not_a_number"),
        (np.float64("nan"), 0.0, "not_a_number"),
        (Decimal("NaN"), 0.0, "not_a_number"),
        (Decimal("sNaN"), 0.0, "not_a_number"),
        (None, 0.0, "not_a_number"),
        ("5", 0.0, "not_a_number"),
        ("x" * 1_000_000, 0.0, "not_a_number"),
        ([5], 0.0, "not_a_number"),
        ({}, 0.0, "not_a_number"),
        (5 + 0j, 0.0, "not_a_number"),
        (np.array(5.0), 0.0, "not_a_number"),
        (True, 1.0, "not_a_number"),
        (np.True_, 1.0, "not_a_number"),
        (False, 0.0, "not_a_number"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_number_is_shown_as_near_as_it_goes(
    encoding: RequestEncoding, value: Any, shown: float, reason: str | None
) -> None:
    observation, adjusted = encoding.encode(request(value))
    assert observation["context"].tolist() == [shown, 0.25]
    assert observation in encoding.observation_space
    assert [(entry["field"], entry["reason"]) for entry in adjusted] == (
        [] if reason is None else [("context.amount", reason)]
    )
    if reason is not None:
        assert type(adjusted[0]["value"]) is type(value)


def test_without_bounds_numbers_are_shown_up_to_the_largest_double() -> None:
    encoding = RequestEncoding(PolicySpace(context_schema={"amount": Bound()}), [request()])
    for value, shown, reasons in [
        (1e300, 1e300, []),
        (math.inf, math.inf, []),
        (-(10**400), -LARGEST, ["clipped"]),
        (2**53 + 1, 2.0**53, ["clipped"]),
        (2**53, 2.0**53, []),
        (np.uint64(2**53 + 1), 2.0**53, ["clipped"]),
    ]:
        observation, adjusted = encoding.encode(EvalRequest("clerk", "pay", "x", {"amount": value}))
        assert observation["context"].tolist() == [shown]
        found = [entry["reason"] for entry in adjusted if entry["field"] == "context.amount"]
        assert found == reasons


def test_what_is_missing_and_what_has_no_place_is_listed(encoding: RequestEncoding) -> None:
    asked = EvalRequest("clerk", "pay", "invoices", {"amount": 1.0, "note": "urgent", "by": [1]})
    observation, adjusted = encoding.encode(asked)
    assert observation["context"].tolist() == [1.0, 0.0]
    assert adjusted == [
        *entries("context.risk", "missing", None),
        *entries("context.by", "unknown", [1]),
        *entries("context.note", "unknown", "urgent"),
    ]


def test_zero_stands_for_what_is_missing_only_within_the_bounds() -> None:
    encoding = RequestEncoding(PolicySpace(context_schema={"age": Bound(18, 99)}), [])
    observation, adjusted = encoding.encode(EvalRequest("", "", ""))
    assert observation["context"].tolist() == [18.0]
    assert adjusted[-1:] == entries("context.age", "missing", None)


@pytest.mark.parametrize("field", ["agent", "action", "resource"])
@pytest.mark.parametrize("value", ["", "Clerk", "x" * 1_000_000, "\ud800"], ids=len)
def test_what_no_vocabulary_has_is_in_its_last_place(
    encoding: RequestEncoding, field: str, value: str
) -> None:
    observation, adjusted = encoding.encode(request().replace(field, value))
    assert observation[field] == len(encoding.vocabularies[field])
    assert observation in encoding.observation_space
    assert adjusted == entries(field, "unknown", value)


@pytest.mark.parametrize(
    ("time", "shown", "reason"),
    [
        (-1.0, 0.0, "clipped"),
        (math.inf, 3.6e6, "clipped"),
        (4e6, 3.6e6, "clipped"),
        (math.nan, 0.0, "not_a_number"),
    ],
)
def test_a_time_that_makes_no_sense_is_listed(
    encoding: RequestEncoding, time: float, shown: float, reason: str
) -> None:
    observation, adjusted = encoding.encode(request(), EvalResult(Effect.ALLOW, "", time))
    assert observation["last_eval_time_ms"].tolist() == [shown]
    assert [(entry["field"], entry["reason"]) for entry in adjusted] == [
        ("last_eval_time_ms", reason)
    ]


class Odd:
    """Says it is a real number, and is none."""

    def __float__(self) -> float:
        raise RuntimeError("no")


Real.register(Odd)


def test_a_number_that_only_says_so_is_none(encoding: RequestEncoding) -> None:
    _, adjusted = encoding.encode(request(Odd()))
    assert [entry["reason"] for entry in adjusted] == ["not_a_number"]


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.decimals(), st.fractions(),
    st.lists(st.integers(), max_size=2), st.just(10**400),
)  # fmt: skip


@given(
    agent=st.text(),
    context=st.dictionaries(st.sampled_from(["amount", "risk", "note", ""]), VALUES),
)
def test_any_request_has_an_observation(agent: str, context: dict[str, Any]) -> None:
    encoding = RequestEncoding(SPACE, [request()])
    asked = EvalRequest(agent, "pay", "invoices", context)
    observation, adjusted = encoding.encode(asked)
    assert observation in encoding.observation_space
    told = {entry["field"] for entry in adjusted}
    for place, name in enumerate(encoding.names):
        exact = type(context.get(name)) in (int, float) and (
            float(observation["context"][place]) == context[name]
        )
        if type(context.get(name)) in (int, float, str, type(None)):
            assert exact == (f"context.{name}" not in told)
    assert ("agent" in told) == (agent not in SPACE.agents)
