"""Comparisons as portable JSON, and back: complete, or refused with the place that does not fit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from envbench.checks.report import Rate
from envbench.checks.shape import ANY, Kinds, at, expect, expect_schema, expect_texts, read_object
from envbench.comparison.differences import Difference, Treatment
from envbench.comparison.outcomes import WORDS, Outcomes, Word
from envbench.comparison.results import (
    VERDICTS,
    CheckComparison,
    Disagreement,
    Pair,
    RewardComparison,
)
from envbench.evidence.portable import Json

if TYPE_CHECKING:
    from envbench.comparison.comparison import Comparison

SCHEMA = "envbench.comparison/v1"
MANY_SCHEMA = "envbench.comparisons/v1"


def content(comparison: Comparison) -> dict[str, Json]:
    """Everything of a comparison but its digest."""
    return {
        "schema": SCHEMA,
        "treatment": comparison.treatment,
        "baseline_name": comparison.baseline_name,
        "candidate_name": comparison.candidate_name,
        "alpha": comparison.alpha,
        "comparable": comparison.comparable,
        "exit_code": comparison.exit_code,
        "changed": [difference._asdict() for difference in comparison.changed],
        "blocked": [difference._asdict() for difference in comparison.blocked],
        "pairs": [
            {**{name: getattr(pair, name) for name in _PAIR}, "tags": list(pair.tags)}
            for pair in comparison.pairs
        ],
        "case_means": list(comparison.case_means),
        "checks": [_check_content(check) for check in comparison.checks],
        "reward": None if comparison.reward is None else _reward_content(comparison.reward),
        "notes": list(comparison.notes),
    }


def fields(value: Json) -> tuple[dict[str, Any], str]:
    """The arguments of the `Comparison` that a file holds, and the digest it should have.

    Raises:
        ValueError: naming the place of what does not fit.
    """
    if type(value) is dict and "schema" in value:
        expect_schema(value, SCHEMA)
    found = read_object(value, _COMPARISON, "")
    digest: str = found["digest"]
    for derived in ("schema", "comparable", "exit_code", "digest"):
        del found[derived]
    if found["treatment"] not in get_args(Treatment):
        raise ValueError(f"/treatment: is {found['treatment']!r}, which is none")
    for name, read in (
        ("changed", _read_difference),
        ("blocked", _read_difference),
        ("pairs", _read_pair),
        ("checks", _read_check),
    ):
        place = at("", name)
        found[name] = tuple(read(item, at(place, i)) for i, item in enumerate(found[name]))
    for name in ("case_means", "notes"):
        expect_texts(found[name], at("", name))
        found[name] = tuple(found[name])
    if found["reward"] is not None:
        found["reward"] = _read_reward(found["reward"], "/reward")
    return found, digest


def many(value: Json) -> list[Json]:
    """The comparisons that a file of several holds, not yet read.

    Raises:
        ValueError: naming the place of what does not fit.
    """
    if type(value) is dict and "schema" in value:
        expect_schema(value, MANY_SCHEMA)
    found: list[Json] = read_object(value, {"schema": str, "comparisons": list}, "")["comparisons"]
    if not found:
        raise ValueError("/comparisons: is empty")
    return found


_Read = TypeVar("_Read")


def at_place(place: str, read: Callable[[Json], _Read], value: Json) -> _Read:
    """Read a part of a file whose reader names places within it."""
    try:
        return read(value)
    except ValueError as error:
        raise ValueError(f"{place}{error}") from None


def _check_content(check: CheckComparison) -> dict[str, Json]:
    row = {name: getattr(check, name) for name in _CHECK}
    return row | {
        "baseline_rate": _rate_content(check.baseline_rate),
        "candidate_rate": _rate_content(check.candidate_rate),
        "table": {
            before: {
                after: check.table[before, after] for after in WORDS if (before, after) in _CELLS
            }
            for before in WORDS
        },
        "broke": list(check.broke),
        "fixed": list(check.fixed),
        "interval": None if check.interval is None else list(check.interval),
        "outcomes": {
            "baseline": check.outcomes.baseline.decode(),
            "candidate": check.outcomes.candidate.decode(),
        },
    }


def _rate_content(rate: Rate) -> dict[str, Json]:
    return {name: getattr(rate, name) for name in _RATE}


def _reward_content(reward: RewardComparison) -> dict[str, Json]:
    return {
        **{name: getattr(reward, name) for name in _REWARD},
        "interval": None if reward.interval is None else list(reward.interval),
        "disagreements": [dataclasses.asdict(row) for row in reward.disagreements],
    }


def _read_difference(value: Json, place: str) -> Difference:
    return Difference(**read_object(value, _DIFFERENCE, place))


def _read_pair(value: Json, place: str) -> Pair:
    row = read_object(value, _PAIR, place)
    expect_texts(row["tags"], at(place, "tags"))
    return Pair(**row | {"tags": tuple(row["tags"])})


def _read_check(value: Json, place: str) -> CheckComparison:
    row = read_object(value, _CHECK, place)
    if row["verdict"] not in VERDICTS:
        raise ValueError(f"{at(place, 'verdict')}: is {row['verdict']!r}, which is none")
    for name in ("baseline_rate", "candidate_rate"):
        row[name] = Rate(**read_object(row[name], _RATE, at(place, name)))
    for name in ("broke", "fixed"):
        expect_texts(row[name], at(place, name))
        row[name] = tuple(row[name])
    row["interval"] = _read_interval(row["interval"], at(place, "interval"))
    row["table"] = _read_table(row["table"], at(place, "table"))
    row["outcomes"] = _read_outcomes(row["outcomes"], at(place, "outcomes"))
    return CheckComparison(**row)


def _read_table(value: Json, place: str) -> dict[tuple[Word, Word], int]:
    rows = read_object(value, dict.fromkeys(WORDS, dict), place)
    table: dict[tuple[Word, Word], int] = {}
    for before in WORDS:
        columns: dict[str, Kinds] = {a: int for a in WORDS if (before, a) in _CELLS}
        row = read_object(rows[before], columns, at(place, before))
        table |= {(before, after): row[after] for after in WORDS if (before, after) in _CELLS}
    return table


def _read_outcomes(value: Json, place: str) -> Outcomes:
    sides = read_object(value, {"baseline": str, "candidate": str}, place)
    try:
        return Outcomes(sides["baseline"].encode(), sides["candidate"].encode())
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None


def _read_interval(value: Json, place: str) -> tuple[float, float] | None:
    if value is None:
        return None
    if len(value) != 2:
        raise ValueError(f"{place}: has {len(value)} limits, not two")
    for index, limit in enumerate(value):
        expect(limit, (int, float), at(place, index))
    return value[0], value[1]


def _read_reward(value: Json, place: str) -> RewardComparison:
    row = read_object(value, _REWARD, place)
    row["interval"] = _read_interval(row["interval"], at(place, "interval"))
    rows = enumerate(row["disagreements"])
    below = at(place, "disagreements")
    row["disagreements"] = tuple(
        Disagreement(**read_object(item, _DISAGREEMENT, at(below, i))) for i, item in rows
    )
    return RewardComparison(**row)


_CELLS = {(a, b) for a in WORDS for b in WORDS} - {("unmatched", "unmatched")}

_TEXT_OR_NONE = (str, type(None))
_NUMBER = (int, float)
_NUMBER_OR_NONE = (int, float, type(None))

_COMPARISON: dict[str, Kinds] = {
    "schema": str,
    "treatment": str,
    "baseline_name": str,
    "candidate_name": str,
    "alpha": float,
    "comparable": bool,
    "exit_code": int,
    "changed": list,
    "blocked": list,
    "pairs": list,
    "case_means": list,
    "checks": list,
    "reward": (dict, type(None)),
    "notes": list,
    "digest": str,
}
_DIFFERENCE: dict[str, Kinds] = {"part": str, "baseline": ANY, "candidate": ANY}
_PAIR: dict[str, Kinds] = {
    "case_id": str,
    "source_id": _TEXT_OR_NONE,
    "tags": list,
    "seed": (int, type(None)),
    "repeat": int,
    "baseline": _TEXT_OR_NONE,
    "candidate": _TEXT_OR_NONE,
}
_CHECK: dict[str, Kinds] = {
    "name": str,
    "baseline_version": _TEXT_OR_NONE,
    "candidate_version": _TEXT_OR_NONE,
    "pairs": int,
    "total": int,
    "clusters": int,
    "baseline_rate": dict,
    "candidate_rate": dict,
    "table": dict,
    "broke": list,
    "fixed": list,
    "difference": _NUMBER_OR_NONE,
    "interval": (list, type(None)),
    "p": _NUMBER_OR_NONE,
    "p_adjusted": _NUMBER_OR_NONE,
    "lower": _NUMBER_OR_NONE,
    "upper": _NUMBER_OR_NONE,
    "smallest_effect": _NUMBER_OR_NONE,
    "smallest_p": _NUMBER_OR_NONE,
    "verdict": str,
    "method": str,
    "note": str,
    "outcomes": dict,
}
_RATE: dict[str, Kinds] = dict.fromkeys(("passed", "failed", "unknown", "errors", "total"), int)
_REWARD: dict[str, Kinds] = {
    "pairs": int,
    "total": int,
    "baseline_mean": _NUMBER_OR_NONE,
    "candidate_mean": _NUMBER_OR_NONE,
    "difference": _NUMBER_OR_NONE,
    "interval": (list, type(None)),
    "disagreements": list,
    "unseen": int,
    "note": str,
}
_DISAGREEMENT: dict[str, Kinds] = {
    "check": str,
    "name": str,
    "baseline": str,
    "candidate": str,
    "baseline_passed": bool,
    "baseline_reward": _NUMBER,
    "candidate_reward": _NUMBER,
}
