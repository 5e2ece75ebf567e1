"""`Guardrail`: what decides about requests."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from envbench.guardrails.request import EvalRequest
from envbench.guardrails.result import EvalResult, Explanation
from envbench.guardrails.spaces import PolicySpace


@runtime_checkable
class Guardrail(Protocol):
    """Anything that decides about requests; no base class is needed, but it may be one.

    It may have a method ``close``, which an environment calls when it is closed, and a text
    ``name``, which the benchmark shows.

    Attributes:
        request_space: which requests it is made for.

    Example:
        >>> from envbench.guardrails import Bound, Effect
        >>> class Limit(Guardrail):
        ...     request_space = PolicySpace(context_schema={"amount": Bound(0, 1000)})
        ...     def evaluate(self, request):
        ...         if request.context["amount"] > 500:
        ...             return EvalResult(Effect.DENY, "more than 500")
        ...         return EvalResult(Effect.ALLOW)
        >>> limit = Limit()
        >>> result = limit.evaluate(EvalRequest("clerk", "pay", "invoice/17", {"amount": 620}))
        >>> limit.explain(result).to_narrative()
        'deny: more than 500'
    """

    request_space: PolicySpace

    def evaluate(self, request: EvalRequest) -> EvalResult:
        """Decide about a request: without side effects, and for equal requests the same."""
        ...

    def explain(self, result: EvalResult) -> Any:
        """An object whose ``to_narrative()`` is text for people."""
        reason = "" if result.reason is None else f": {result.reason}"
        return Explanation(f"{result.effect}{reason}")


def require_guardrail(argument: str, guardrail: Any, *, explains: bool = False) -> None:
    """Refuse what is no guardrail.

    Raises:
        TypeError: when a method is missing, `request_space` is no `PolicySpace`, or it is a class.
    """
    if isinstance(guardrail, type):
        raise TypeError(
            f"{argument} must be a guardrail, not the class {guardrail.__name__}: call it to make"
            " one"
        )
    for method in ("evaluate", "explain") if explains else ("evaluate",):
        if not callable(getattr(guardrail, method, None)):
            kind = type(guardrail).__name__
            raise TypeError(f"{argument} must have a method {method}, and a {kind} has none")
    space = getattr(guardrail, "request_space", None)
    if not isinstance(space, PolicySpace):
        raise TypeError(
            f"{argument}.request_space must be a PolicySpace, not {type(space).__name__}"
        )
