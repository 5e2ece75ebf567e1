"""Policy spaces: names and bounds, and which requests are within."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from envbench.guardrails import Bound, EvalRequest, PolicySpace

SPACE = PolicySpace(["b", "a"], ["pay"], (), {"x": Bound(0, 10)})


def asks(agent: str = "a", action: str = "pay", resource: str = "any", x: Any = 5) -> EvalRequest:
    return EvalRequest(agent, action, resource, {"x": x, "note": "more"})


def test_names_keep_their_order_and_sets_are_sorted() -> None:
    assert PolicySpace(["b", "a", "b"]).agents == ("b", "a")
    assert PolicySpace({"b", "a"}).agents == ("a", "b")
    assert PolicySpace(actions=(name for name in ("x",))).actions == ("x",)
    assert PolicySpace() == PolicySpace((), (), (), {})
    assert hash(SPACE) == hash(PolicySpace(("b", "a"), ("pay",), (), {"x": Bound(0, 10)}))


def test_the_schema_is_a_copy() -> None:
    schema = {"x": Bound(0, 1)}
    space = PolicySpace(context_schema=schema)
    schema["y"] = Bound(0, 1)
    assert space.context_schema == {"x": Bound(0, 1)}


@pytest.mark.parametrize("x", [0, 10, 5.5, np.float32(1), Decimal("0.1")])
def test_what_is_within(x: Any) -> None:
    assert SPACE.contains(asks(x=x))


@pytest.mark.parametrize(
    "request_",
    [
        asks(agent="c"),
        asks(action="read"),
        *(
            asks(x=x)
            for x in (-0.1, 11, math.nan, math.inf, True, None, "5", Decimal("NaN"), 10**400)
        ),
        EvalRequest("a", "pay", "any"),
    ],
)
def test_what_is_not(request_: EvalRequest) -> None:
    assert not SPACE.contains(request_)


def test_a_bound_is_a_pair_of_doubles() -> None:
    assert Bound() == Bound(-math.inf, math.inf)
    assert Bound(np.int64(1), 1) == Bound(1.0, 1.0)
    assert type(Bound(1, 2).low) is float


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ((2, 1), ValueError, "low must not be above high: 2.0 > 1.0"),
        ((math.nan, 1), ValueError, "low must not be NaN"),
        ((0, 10**400), ValueError, "high must be a number that a double can hold"),
        (("0", 1), TypeError, "low must be a number, not str"),
        ((0, True), TypeError, "high must be a number, not bool"),
    ],
)
def test_bad_bounds_are_named(
    arguments: tuple[Any, ...], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        Bound(*arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"agents": "clerk"}, "agents must be several names, not str: 'clerk'"),
        ({"actions": None}, "actions must be several names, not NoneType"),
        ({"resources": [1]}, "a name in resources must be text, not int"),
        ({"context_schema": [("x", Bound())]}, "context_schema must be a mapping"),
        ({"context_schema": {"x": (0, 1)}}, "context_schema\\['x'\\] must be a Bound, not tuple"),
        ({"context_schema": {1: Bound()}}, "a key of context_schema must be text"),
    ],
)
def test_bad_spaces_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        PolicySpace(**arguments)
