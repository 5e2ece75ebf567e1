"""`guardrail_benchmark`: how often guardrails decide as they should, and what gets past them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from envbench.capture.provenance import require_count
from envbench.comparison.statistics.paired import wilson_interval
from envbench.guardrails.evaluation import Evaluation, evaluate_task
from envbench.guardrails.guardrail import Guardrail, require_guardrail
from envbench.guardrails.injections import GuardrailInjection, require_injections
from envbench.guardrails.tasks import GuardrailTask, require_tasks

if TYPE_CHECKING:
    import polars as pl


def guardrail_benchmark(
    guardrails: Mapping[str, Guardrail] | Iterable[Guardrail] | Guardrail,
    tasks: Iterable[GuardrailTask],
    injections: Iterable[GuardrailInjection] = (),
    repeats: int = 1,
) -> pl.DataFrame:
    """Submit every task's request to every guardrail, as it is and through every injection.

    `utility` is the share of the `n` requests that were decided as expected; a crash is none of
    them. `security` is the share of those attacks that the guardrail withstood; crashes, counted
    in `crashes`, and attacks of which the injection cannot tell are in neither its numerator nor
    its denominator. Both have Wilson's 95% intervals, which take the requests as independent:
    repeats tell something new only where the guardrail or an injection leaves something to chance.

    Args:
        guardrails: by name, or several, or one: their name is then their attribute ``name``, else
            their class, with a number behind it where another one had it.
        tasks: at least one, with different ids.
        injections: the attacks, with different ids.
        repeats: how often each request is submitted.

    Returns:
        A Polars frame, a row for each guardrail and injection, the first of a guardrail without
        injection (null): ``guardrail, injection, n, utility, utility_low, utility_high, security,
        security_low, security_high, crashes``. A share of nothing is null, with its interval.

    Raises:
        TypeError: when an argument is of the wrong type.
        ValueError: when there is no guardrail or task, an id is there twice, or `repeats` is not
            positive.

    Source: Wilson 1927, "Probable inference, the law of succession, and statistical inference".
    """
    import polars as pl

    named = _named(guardrails)
    tasks, injections = require_tasks(tasks), require_injections(injections)
    repeats = require_count("repeats", repeats, 1)
    rows = [
        (name, None if injection is None else injection.id, *_measured(done))
        for name, guardrail in named.items()
        for injection in (None, *injections)
        for done in [list(_evaluations(guardrail, tasks, injection, repeats))]
    ]
    return pl.DataFrame(rows, schema=_schema(), orient="row")


def _evaluations(
    guardrail: Guardrail,
    tasks: tuple[GuardrailTask, ...],
    injection: GuardrailInjection | None,
    repeats: int,
) -> Iterator[Evaluation]:
    for repeat in range(repeats):
        at_repeat = None if injection is None else injection.at_repeat(repeat)
        for task in tasks:
            yield evaluate_task(guardrail, task, at_repeat)


def _measured(done: list[Evaluation]) -> tuple[Any, ...]:
    judged = [each.security for each in done if each.security is not None]
    return (
        len(done),
        *_rate(sum(each.utility for each in done), len(done)),
        *_rate(sum(judged), len(judged)),
        sum(each.error is not None for each in done),
    )


def _rate(count: int, total: int) -> tuple[float | None, float | None, float | None]:
    return (count / total, *wilson_interval(count, total)) if total else (None, None, None)


def _named(guardrails: Any) -> dict[str, Guardrail]:
    if isinstance(guardrails, Mapping):
        named = dict(guardrails)
        for name in named:
            if not isinstance(name, str) or not name.strip():
                raise TypeError(f"a guardrail's name must be text, not {name!r}")
    else:
        single = callable(getattr(guardrails, "evaluate", None))
        if not single and not isinstance(guardrails, Iterable):
            raise TypeError(f"guardrails must be guardrails, not {type(guardrails).__name__}")
        named = {}
        for guardrail in [guardrails] if single else guardrails:
            named[_free_name(_name_of(guardrail), named)] = guardrail
    if not named:
        raise ValueError("guardrails must hold at least one guardrail")
    for name, guardrail in named.items():
        require_guardrail(f"guardrail {name!r}", guardrail)
    return named


def _name_of(guardrail: Any) -> str:
    name = getattr(guardrail, "name", None)
    return name if isinstance(name, str) and name.strip() else type(guardrail).__name__


def _free_name(name: str, taken: Mapping[str, Any]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name} {number}"
    return free


def _schema() -> dict[str, Any]:
    import polars as pl

    shares = [f"{of}{end}" for of in ("utility", "security") for end in ("", "_low", "_high")]
    return {
        "guardrail": pl.String(),
        "injection": pl.String(),
        "n": pl.Int64(),
        **{share: pl.Float64() for share in shares},
        "crashes": pl.Int64(),
    }
