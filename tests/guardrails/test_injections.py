"""Attacks: what each makes of a request, by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from envbench.guardrails import (
    AddNoise,
    Compose,
    Effect,
    EvalRequest,
    EvalResult,
    GuardrailInjection,
    GuardrailTask,
    ProbeBound,
    SwapField,
)
from envbench.guardrails.injections import require_injections
from tests.guardrails.tills import Fake, request, task


@pytest.mark.parametrize(
    ("field", "value", "name"),
    [
        ("agent", "root", "swap agent=root"),
        ("resource", "", "swap resource="),
        ("context.amount", 5, "swap context.amount=5"),
        ("context.new", [1, "x"], "swap context.new=[1, 'x']"),
        ("context.long", "y" * 100, f"swap context.long={'y' * 39}…"),
        pytest.param("context.huge", 10**5000, "swap context.huge=<int>", id="huge"),
    ],
)
def test_a_swap_changes_one_field(field: str, value: Any, name: str) -> None:
    asked, swap = request(), SwapField(field, value)
    made = swap.inject(asked)
    assert swap.id == name
    assert made.value(field) == value
    assert made == asked.replace(field, value)
    assert asked == request()
    assert SwapField(field, value, id="mine").id == "mine"


@pytest.mark.parametrize(("epsilon", "expected"), [(0.5, 500.5), (-0.5, 499.5)])
def test_a_probe_goes_beside_the_limit(epsilon: float, expected: float) -> None:
    for name in ("amount", "context.amount"):
        assert ProbeBound(name, 500, epsilon).inject(request()).context["amount"] == expected


def test_noise_is_that_of_the_seed_the_request_and_the_repeat() -> None:
    noise = AddNoise("amount", 10.0, seed=3)
    made = noise.inject(request()).context["amount"]
    assert made == AddNoise("amount", 10.0, seed=3).inject(request()).context["amount"]
    others = [
        AddNoise("amount", 10.0, seed=4).inject(request()),
        noise.inject(request(121.0)).replace("context.amount", 0.0),
        noise.at_repeat(1).inject(request()),
    ]
    assert made not in [other.context["amount"] for other in others]
    assert noise.at_repeat(0).inject(request()) == noise.inject(request())
    assert noise.at_repeat(1).id == noise.id


def test_noise_has_its_scale() -> None:
    noise = AddNoise("amount", 10.0)
    drawn = [noise.at_repeat(i).inject(request()).context["amount"] for i in range(400)]
    # within 4 standard errors of mean and standard deviation
    assert abs(np.mean(drawn) - 120) < 4 * 10 / 20
    assert abs(np.std(drawn) - 10) < 4 * 10 / math.sqrt(800)


@pytest.mark.parametrize("amount", [None, "5", True, math.nan, math.inf, 10**400])
def test_noise_needs_a_finite_number(amount: Any) -> None:
    with pytest.raises(ValueError, match="the context has no finite number 'amount'"):
        AddNoise("amount", 1.0).inject(request(amount))


def test_noise_on_what_no_evidence_can_hold() -> None:
    strange = request(socket=object(), rows=np.arange(5000.0))
    assert AddNoise("amount", 1.0).inject(strange).context["amount"] != 120.0


def test_a_composition_applies_its_parts_in_order() -> None:
    both = Compose(SwapField("context.amount", 5), SwapField("context.amount", 6), id="both")
    assert both.inject(request()).context["amount"] == 6
    assert Compose(SwapField("agent", "a"), Fake("f")).id == "swap agent=a + f"
    noisy = Compose(SwapField("context.amount", 5), AddNoise("amount", 1))
    drawn = {noisy.at_repeat(i).inject(request()).context["amount"] for i in range(3)}
    assert len(drawn) == 3


def test_a_part_that_makes_no_request_is_named() -> None:
    broken = Compose(Fake("odd", lambda request: None), SwapField("agent", "a"))
    with pytest.raises(TypeError, match="injection 'odd' must return an EvalRequest, not NoneType"):
        broken.inject(request())


def test_security_is_the_expected_effect_by_default() -> None:
    asked = task(620.0, Effect.DENY)
    assert Fake().security(EvalResult(Effect.DENY), asked) is True
    assert Fake().security(EvalResult(Effect.ALLOW), asked) is False


class Named(GuardrailInjection):
    id = "named by its class"


def test_an_injection_says_its_id_and_must_define_what_it_does() -> None:
    assert Named().id == "named by its class"
    assert Named("other").id == "other"
    with pytest.raises(NotImplementedError, match=r"Named must define inject\(request\)"):
        Named().inject(request())
    with pytest.raises(ValueError, match="id must not be blank"):
        GuardrailInjection()


class AsRoot:
    """An injection by its methods alone."""

    id = "as root"

    def inject(self, asked: EvalRequest) -> EvalRequest:
        return asked.replace("agent", "root")


class NeverSecure(AsRoot):
    id = "never secure"

    def security(self, result: EvalResult, task: GuardrailTask) -> bool:
        return False


def test_an_injection_needs_no_base_class() -> None:
    plain, judging = require_injections([AsRoot(), NeverSecure()])
    assert (plain.id, plain.inject(request()).agent) == ("as root", "root")
    denied = EvalResult(Effect.DENY)
    assert plain.security(denied, task(620.0, Effect.DENY)) is True
    assert judging.security(denied, task(620.0, Effect.DENY)) is False
    both = Compose(AsRoot(), ProbeBound("amount", 500, 1))
    assert both.id == "as root + probe amount=500+1"
    assert both.inject(request()).context["amount"] == 501


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: SwapField("amount", 1), ValueError, "field must be agent, action, resource or"),
        (lambda: SwapField("agent", 1), TypeError, "agent is text, and value is int"),
        (lambda: SwapField(1, 1), TypeError, "field must be text"),
        (lambda: ProbeBound("", 1, 1), ValueError, "name must not be blank"),
        (lambda: ProbeBound("a", math.nan, 1), ValueError, "limit must be finite, not nan"),
        (lambda: ProbeBound("a", "1", 1), TypeError, "limit must be a number, not str"),
        (lambda: ProbeBound("a", 1, math.inf), ValueError, "epsilon must be finite, not inf"),
        (lambda: ProbeBound("a", 1e17, 1), ValueError, "makes no difference"),
        (lambda: ProbeBound("a", 1, 0), ValueError, "makes no difference"),
        (lambda: AddNoise("a", 0), ValueError, "scale must be positive, not 0"),
        (lambda: AddNoise("a", True), TypeError, "scale must be a number, not bool"),
        (lambda: AddNoise("a", 1, seed=-1), ValueError, "seed must be at least 0"),
        (lambda: AddNoise("a", 1, seed=1.0), TypeError, "seed must be an integer"),
        (lambda: Compose(), ValueError, "Compose needs at least one injection"),
        (lambda: Compose(1), TypeError, r"injections\[0\] must be a GuardrailInjection, not int"),
        (
            lambda: require_injections([SwapField]),
            TypeError,
            r"injections\[0\] must be a GuardrailInjection, not SwapField",
        ),
        (
            lambda: require_injections([Fake("a"), Fake("a")]),
            ValueError,
            "injections hold an id twice: 'a'",
        ),
        (lambda: require_injections([AsRoot]), TypeError, "a GuardrailInjection, not AsRoot"),
        (lambda: require_injections(3), TypeError, r"injections\[0\] must be a GuardrailInjection"),
    ],
)
def test_bad_arguments_are_named(make: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        make()


def test_an_id_that_was_spoiled_later_is_refused() -> None:
    spoiled = Fake()
    spoiled.id = ""
    with pytest.raises(ValueError, match=r"injections\[0\]\.id must not be blank"):
        require_injections([spoiled])


def test_requests_of_a_class_of_their_own_are_requests() -> None:
    class Own(EvalRequest):
        pass

    own = Own("clerk", "pay", "invoices")
    assert type(SwapField("agent", "a").inject(own)) is Own
