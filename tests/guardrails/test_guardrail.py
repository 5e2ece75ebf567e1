"""What is a guardrail: methods, not a base class."""

from __future__ import annotations

from typing import Any

import pytest

from envbench.guardrails import Effect, EvalResult, Guardrail, PolicySpace
from envbench.guardrails.guardrail import require_guardrail
from tests.guardrails.tills import Answers, Till


class Inherits(Guardrail):
    request_space = PolicySpace()

    def evaluate(self, request: Any) -> EvalResult:
        return EvalResult(Effect.DENY, "always")


def test_methods_make_a_guardrail() -> None:
    assert isinstance(Till(), Guardrail)
    assert isinstance(Inherits(), Guardrail)
    assert not isinstance(object(), Guardrail)


def test_the_protocol_explains_by_itself() -> None:
    said = Inherits().explain
    assert said(EvalResult(Effect.DENY, "always")).to_narrative() == "deny: always"
    assert said(EvalResult(Effect.ALLOW)).to_narrative() == "allow"


def test_what_explains_nothing_needs_no_explain() -> None:
    guardrail = Answers(lambda request: EvalResult(Effect.DENY))
    require_guardrail("it", guardrail)
    with pytest.raises(TypeError, match="it must have a method explain, and a Answers has none"):
        require_guardrail("it", guardrail, explains=True)


class NoSpace:
    def evaluate(self, request: Any) -> Any: ...


class OtherSpace(NoSpace):
    request_space = {"agents": ["clerk"]}  # noqa: RUF012


@pytest.mark.parametrize(
    ("guardrail", "message"),
    [
        (Till, "it must be a guardrail, not the class Till: call it to make one"),
        (None, "it must have a method evaluate, and a NoneType has none"),
        (NoSpace(), "it.request_space must be a PolicySpace, not NoneType"),
        (OtherSpace(), "it.request_space must be a PolicySpace, not dict"),
    ],
)
def test_what_is_none_is_named(guardrail: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        require_guardrail("it", guardrail)
