"""`GuardrailInjection`: what an attacker makes of an honest request, and some ready ones."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, Self

import numpy as np

from envbench.capture.provenance import require_count
from envbench.evidence.case import require_name
from envbench.evidence.portable import canonical
from envbench.evidence.tagged import Encoding, tag
from envbench.guardrails.arguments import brief, is_finite, require_different, require_finite
from envbench.guardrails.request import CONTEXT, EvalRequest, require_field
from envbench.guardrails.result import EvalResult
from envbench.guardrails.tasks import GuardrailTask


class GuardrailInjection:
    """A change of requests, named by its `id`. Subclasses define `inject`.

    An object of another class with an `id`, `inject` and perhaps `security` is taken for one.

    Args:
        id: its name; a subclass may have it as a class attribute instead.

    Raises:
        TypeError: when `id` is not text.
        ValueError: when `id` is blank.

    Example:
        >>> class Shout(GuardrailInjection):
        ...     id = "shout"
        ...     def inject(self, request):
        ...         return request.replace("agent", request.agent.upper())
        >>> Shout().inject(EvalRequest("clerk", "pay", "invoices")).agent
        'CLERK'
    """

    id: str = ""

    def __init__(self, id: str | None = None) -> None:  # noqa: A002 - the published name
        if id is not None:
            self.id = id
        require_name("id", self.id)

    def inject(self, request: EvalRequest) -> EvalRequest:
        """The request that is made in place of an honest one; it gets a copy of its own."""
        raise NotImplementedError(f"{type(self).__name__} must define inject(request)")

    def security(self, result: EvalResult, task: GuardrailTask) -> bool | None:
        """Whether the guardrail withstood: by default, whether it still decides as expected.

        It is not asked when the guardrail crashed. None says that it cannot be told.
        """
        return task.utility(result)

    def at_repeat(self, repeat: int) -> Self:
        """The same injection for another repeat of a benchmark, where chance plays a part in it."""
        return self


class SwapField(GuardrailInjection):
    """Puts another value into a field.

    Args:
        field: ``agent``, ``action``, ``resource`` or ``context.NAME``.
        value: the value.
        id: by default made from the two.

    Raises:
        TypeError: when an argument is of the wrong type.
        ValueError: when `field` names no field.

    Example:
        >>> swap = SwapField("agent", "root")
        >>> swap.id, swap.inject(EvalRequest("clerk", "pay", "invoices")).agent
        ('swap agent=root', 'root')
    """

    def __init__(self, field: str, value: Any, *, id: str | None = None) -> None:  # noqa: A002
        require_field("field", field)
        if not field.startswith(CONTEXT) and not isinstance(value, str):
            raise TypeError(f"{field} is text, and value is {type(value).__name__}")
        super().__init__(f"swap {field}={_short(value)}" if id is None else id)
        self.field, self.value = field, value

    def inject(self, request: EvalRequest) -> EvalRequest:
        """The request with the other value."""
        return request.replace(self.field, self.value)


class ProbeBound(GuardrailInjection):
    """Puts a number just beside a limit into the context, where an off-by-one shows.

    Args:
        name: the number's name in the context.
        limit: the limit that the guardrail should keep to.
        epsilon: how far beside it: above the limit when positive, below when negative.
        id: by default made from these.

    Raises:
        TypeError: when an argument is of the wrong type.
        ValueError: when a number is not finite, or `epsilon` too small to make a difference.

    Example:
        >>> probe = ProbeBound("amount", 500, 0.01)
        >>> probe.id, probe.inject(EvalRequest("clerk", "pay", "invoices")).context
        ('probe amount=500+0.01', {'amount': 500.01})
    """

    def __init__(
        self,
        name: str,
        limit: float,
        epsilon: float,
        *,
        id: str | None = None,  # noqa: A002
    ) -> None:
        self.field = _context_field("name", name)
        require_finite("limit", limit)
        require_finite("epsilon", epsilon)
        if limit + epsilon == limit:
            raise ValueError(f"epsilon {epsilon} added to {limit} makes no difference")
        super().__init__(f"probe {name}={limit}{epsilon:+}" if id is None else id)
        self.limit, self.epsilon = limit, epsilon

    def inject(self, request: EvalRequest) -> EvalRequest:
        """The request with the limit plus epsilon."""
        return request.replace(self.field, self.limit + self.epsilon)


class AddNoise(GuardrailInjection):
    """Adds normally distributed noise to a number in the context.

    The noise is drawn from the seed and the request: equal requests get the same, and each repeat
    of a benchmark another one.

    Args:
        name: the number's name in the context.
        scale: the standard deviation.
        seed: where the noise begins, 0 or more.
        id: by default made from these.

    Raises:
        TypeError: when an argument is of the wrong type.
        ValueError: when `scale` is not positive, or the seed negative.

    Example:
        >>> noise = AddNoise("amount", 1.0)
        >>> request = EvalRequest("clerk", "pay", "invoices", {"amount": 120.0})
        >>> round(noise.inject(request).context["amount"], 3) == 120.0
        False
        >>> noise.inject(request) == noise.inject(request)
        True
    """

    def __init__(
        self,
        name: str,
        scale: float,
        *,
        seed: int = 0,
        id: str | None = None,  # noqa: A002
    ) -> None:
        self.field = _context_field("name", name)
        require_finite("scale", scale)
        if scale <= 0:
            raise ValueError(f"scale must be positive, not {scale}")
        self.seed = require_count("seed", seed, 0)
        super().__init__(f"noise {name}±{scale} seed {seed}" if id is None else id)
        self.scale = scale
        self._repeat = 0

    def inject(self, request: EvalRequest) -> EvalRequest:
        """The request with noise on its number.

        Raises:
            ValueError: when the context has no such number.
        """
        name = self.field.removeprefix(CONTEXT)
        value: Any = request.context.get(name)
        if not is_finite(value):
            raise ValueError(
                f"{self.id}: the context has no finite number {name!r}, but {brief(value)}"
            )
        noise = np.random.default_rng([self.seed, self._repeat, _entropy(request)])
        return request.replace(self.field, float(value) + self.scale * noise.standard_normal())

    def at_repeat(self, repeat: int) -> Self:
        """The same, with other noise."""
        other = type(self).__new__(type(self))
        vars(other).update(vars(self), _repeat=repeat)
        return other


class Compose(GuardrailInjection):
    """Several injections, one after the other.

    Args:
        injections: in the order in which they are applied, at least one.
        id: by default their ids with a plus between them.

    Raises:
        TypeError: when one is no injection.
        ValueError: when there is none.

    Example:
        >>> both = Compose(SwapField("agent", "root"), ProbeBound("amount", 500, -1))
        >>> both.id
        'swap agent=root + probe amount=500-1'
        >>> both.inject(EvalRequest("clerk", "pay", "invoices"))
        EvalRequest(agent='root', action='pay', resource='invoices', context={'amount': 499})
    """

    def __init__(self, *injections: GuardrailInjection, id: str | None = None) -> None:  # noqa: A002
        self.injections = tuple(
            require_injection(f"injections[{i}]", each) for i, each in enumerate(injections)
        )
        if not injections:
            raise ValueError("Compose needs at least one injection")
        super().__init__(" + ".join(each.id for each in self.injections) if id is None else id)

    def inject(self, request: EvalRequest) -> EvalRequest:
        """The request after all of them."""
        for injection in self.injections:
            request = injected(injection, request)
        return request

    def at_repeat(self, repeat: int) -> Self:
        """The same, of injections at this repeat."""
        other = type(self).__new__(type(self))
        parts = tuple(injection.at_repeat(repeat) for injection in self.injections)
        vars(other).update(vars(self), injections=parts)
        return other


def injected(injection: GuardrailInjection, request: EvalRequest) -> EvalRequest:
    """What an injection makes of a request.

    Raises:
        TypeError: when that is no request.
    """
    made = injection.inject(request)
    if not isinstance(made, EvalRequest):
        raise TypeError(
            f"injection {injection.id!r} must return an EvalRequest, not {type(made).__name__}"
        )
    return made


def require_injections(injections: Any) -> tuple[GuardrailInjection, ...]:
    """The injections of an environment or a benchmark.

    Raises:
        TypeError: when they are no injections.
        ValueError: when two have one id.
    """
    given = tuple(injections) if isinstance(injections, Iterable) else (injections,)
    found = tuple(require_injection(f"injections[{i}]", each) for i, each in enumerate(given))
    require_different("injections", [injection.id for injection in found])
    return found


def require_injection(argument: str, injection: Any) -> GuardrailInjection:
    """An injection; an object of another class that has an `id` and `inject` is made one.

    Raises:
        TypeError: when it is none, or its id is not text.
        ValueError: when its id is blank.
    """
    if not isinstance(injection, GuardrailInjection):
        is_class = isinstance(injection, type)
        if is_class or not callable(getattr(injection, "inject", None)):
            kind = injection.__name__ if is_class else type(injection).__name__
            raise TypeError(f"{argument} must be a GuardrailInjection, not {kind}")
        require_name(f"{argument}.id", getattr(injection, "id", None))
        return _OfAnotherClass(injection)
    require_name(f"{argument}.id", injection.id)
    return injection


class _OfAnotherClass(GuardrailInjection):
    """The injection that an object is by its methods."""

    def __init__(self, wrapped: Any) -> None:
        super().__init__(wrapped.id)
        self.wrapped = wrapped

    def inject(self, request: EvalRequest) -> EvalRequest:
        made: EvalRequest = self.wrapped.inject(request)
        return made

    def security(self, result: EvalResult, task: GuardrailTask) -> bool | None:
        judge = getattr(self.wrapped, "security", None)
        answer: bool | None = (
            super().security(result, task) if judge is None else judge(result, task)
        )
        return answer


def _context_field(argument: str, name: Any) -> str:
    """The field of a number in the context.

    Raises:
        TypeError: when the name is not text.
        ValueError: when it is blank.
    """
    require_name(argument, name)
    return f"{CONTEXT}{name.removeprefix(CONTEXT)}"


def _entropy(request: EvalRequest) -> int:
    """A number of 64 bits from the content of a request, the same in every process."""
    content = [request.agent, request.action, request.resource, dict(request.context)]
    digest = hashlib.sha256(canonical(tag(content, Encoding()))).digest()
    return int.from_bytes(digest[:8], "big")


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else brief(value)
    return text if len(text) <= 40 else f"{text[:39]}…"
