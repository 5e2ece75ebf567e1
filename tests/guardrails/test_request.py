"""Requests: content that can be hashed, of its own, with fields by name."""

from __future__ import annotations

import copy
import dataclasses
import enum
import math
import pickle
import threading
from collections import OrderedDict
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from envbench.guardrails import EvalRequest

CONTEXTS: dict[str, Any] = {
    "nothing": {},
    "numbers": {"a": 1, "b": 2.5, "c": 10**400, "d": -0.0, "e": math.inf},
    "nan": {"a": math.nan, "b": np.float32("nan"), "c": Decimal("NaN"), "d": Decimal("sNaN")},
    "none": {"a": None, "b": True},
    "long text": {"a": "x" * 1_000_000, "b": "\ud800"},
    "lists": {"a": [1, [2, {"b": [3]}]], "t": (1, [2])},
    "sets": {"a": {1, 2}, "b": frozenset({3})},
    "arrays": {
        "a": np.arange(3),
        "b": np.array([[1.5], [math.nan]]),
        "o": np.array([[1], None], object),
    },
    "bytes": {"a": b"x", "b": bytearray(b"y")},
    "dicts": {"a": {"b": {"c": []}}, "o": OrderedDict(x=1)},
}


def make(context: Any) -> EvalRequest:
    return EvalRequest("clerk", "pay", "invoices", context)


@pytest.mark.parametrize("context", CONTEXTS.values(), ids=CONTEXTS)
def test_equal_requests_have_equal_hashes_whatever_they_hold(context: Any) -> None:
    one, other = make(context), make(copy.deepcopy(context))
    assert one == other
    assert hash(one) == hash(other)
    assert {one: "found"}[other] == "found"
    assert pickle.loads(pickle.dumps(one)) == one
    assert copy.deepcopy(one) == one


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1}, {"a": 2}),
        ({"a": 1}, {"b": 1}),
        ({"a": [1, 2]}, {"a": [2, 1]}),
        ({"a": [1]}, {"a": (1,)}),
        ({"a": None}, {}),
        ({"a": np.arange(2)}, {"a": np.arange(2.0)}),
        ({"a": math.nan}, {"a": ("nan",)}),
    ],
)
def test_requests_of_other_content_are_not_equal(one: Any, other: Any) -> None:
    assert make(one) != make(other)


def test_every_field_counts() -> None:
    request = EvalRequest("a", "b", "c", {"d": 1})
    others = [request.replace(field, "x") for field in ("agent", "action", "resource", "context.d")]
    assert len({request, *others}) == 5
    assert request != ("a", "b", "c", {"d": 1})


def test_the_context_is_a_copy() -> None:
    context: dict[str, Any] = {"tags": ["a"], "amount": 1}
    request = make(context)
    context["tags"].append("b")
    context["amount"] = 2
    assert request.context == {"tags": ["a"], "amount": 1}
    again = copy.deepcopy(request)
    again.context["tags"].append("b")
    assert request.context["tags"] == ["a"]


@pytest.mark.parametrize("kind", [OrderedDict, MappingProxyType, type("Own", (dict,), {})])
def test_any_mapping_is_a_context(kind: Any) -> None:
    request = make(kind({"a": 1}))
    assert type(request.context) is dict
    assert request == make({"a": 1})


def test_a_value_that_cannot_be_copied_is_kept() -> None:
    lock = threading.Lock()
    assert make({"lock": lock}).context["lock"] is lock
    assert hash(make({"lock": lock})) == hash(make({"lock": lock}))


class Strange:
    """Neither hashable nor comparable."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no")

    def __hash__(self) -> int:
        raise RuntimeError("no")


def test_a_value_that_is_equal_to_nothing_can_be_in_a_request() -> None:
    request = make({"a": Strange()})
    assert hash(request) == hash(make({"a": Strange()}))
    assert request != make({"a": Strange()})
    assert request == request


def test_a_context_that_contains_itself_can_be_in_a_request() -> None:
    rows: list[Any] = []
    rows.append(rows)
    request = make({"rows": rows})
    assert hash(request) == hash(make({"rows": rows}))
    assert request == request
    assert request != make({"rows": []})


@dataclasses.dataclass
class Amount:
    """Comparable and not hashable."""

    cents: int


def test_values_without_a_hash_are_compared_by_their_own_equality() -> None:
    assert make({"a": Amount(1)}) == make({"a": Amount(1)})
    assert make({"a": Amount(1)}) != make({"a": Amount(2)})
    assert len({make({"a": Amount(1)}), make({"a": Amount(1)})}) == 1


class Role(enum.StrEnum):
    CLERK = "clerk"


def test_members_of_a_text_enum_are_their_text() -> None:
    request = EvalRequest(Role.CLERK, "pay", "invoices")
    assert type(request.agent) is str
    assert request == EvalRequest("clerk", "pay", "invoices")


def test_fields_by_name() -> None:
    request = make({"a.b": 1})
    assert [request.value(f) for f in ("agent", "context.a.b")] == ["clerk", 1]
    changed = request.replace("context.new", [1]).replace("resource", "refunds")
    assert changed == EvalRequest("clerk", "pay", "refunds", {"a.b": 1, "new": [1]})
    assert request == make({"a.b": 1})
    assert dataclasses.replace(request, agent="root").agent == "root"
    with pytest.raises(KeyError, match="missing"):
        request.value("context.missing")


@pytest.mark.parametrize("field", ["", "amount", "context", "context.", "Agent"])
def test_what_is_no_field_is_refused(field: str) -> None:
    for use in (make({}).value, lambda field: make({}).replace(field, "x")):
        with pytest.raises(ValueError, match=r"agent, action, resource or context\.NAME"):
            use(field)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1, "pay", "x"), "agent must be text, not int: 1"),
        (("a", None, "x"), "action must be text, not NoneType"),
        (("a", "pay", b"x"), "resource must be text, not bytes"),
        pytest.param(("a", "pay", 10**5000), "resource must be text, not int: <int>", id="huge"),
        (("a", "pay", "x", [1]), "context must be a mapping, not list"),
        (("a", "pay", "x", None), "context must be a mapping, not NoneType"),
        (("a", "pay", "x", {1: 2}), "a key of context must be text, not int"),
    ],
)
def test_bad_arguments_are_named(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        EvalRequest(*arguments)
