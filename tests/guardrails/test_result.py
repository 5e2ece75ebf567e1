"""Decisions: three effects, a reason, a time as the guardrail says it."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest

from envbench.guardrails import Effect, EvalResult, Explanation


def test_an_effect_is_its_text() -> None:
    assert [effect.value for effect in Effect] == ["allow", "deny", "error"]
    assert Effect.DENY == "deny"
    assert EvalResult("deny").effect is Effect.DENY  # type: ignore[arg-type]


def test_defaults_and_copies() -> None:
    result = EvalResult(Effect.ALLOW)
    assert (result.reason, result.eval_time_ms) == (None, 0.0)
    assert pickle.loads(pickle.dumps(result)) == result
    assert Explanation("because").to_narrative() == "because"


@pytest.mark.parametrize("time", [1, np.int64(1), np.float32(1), 1.0])
def test_the_time_is_a_float(time: Any) -> None:
    result = EvalResult(Effect.ALLOW, "", time)
    assert type(result.eval_time_ms) is float
    assert result.eval_time_ms == 1.0


def test_a_time_that_makes_no_sense_is_kept_as_it_was_said() -> None:
    assert EvalResult(Effect.ALLOW, "", -1).eval_time_ms == -1.0
    assert EvalResult(Effect.ALLOW, "", math.inf).eval_time_ms == math.inf
    assert math.isnan(EvalResult(Effect.ALLOW, "", math.nan).eval_time_ms)


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ((None,), TypeError, "effect must be an Effect, not NoneType"),
        ((True,), TypeError, "effect must be an Effect, not bool"),
        (("maybe",), ValueError, "effect must be one of allow, deny, error, not 'maybe'"),
        (("allow", 1), TypeError, "reason must be text or None, not int"),
        (("allow", "", "1"), TypeError, "eval_time_ms must be a number, not str"),
        (("allow", "", True), TypeError, "eval_time_ms must be a number, not bool"),
        (("allow", "", None), TypeError, "eval_time_ms must be a number, not NoneType"),
        (("allow", "", 10**400), ValueError, "eval_time_ms must be a number that a double"),
    ],
)
def test_bad_arguments_are_named(
    arguments: tuple[Any, ...], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        EvalResult(*arguments)
