"""A slow comparison, written a second time from the rules: one dict, fractions, no arrays."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

Row = Mapping[str, Any]

RESULT = {"p": 1, "f": 0}


def compared(baseline: Iterable[Row], candidate: Iterable[Row], check: int) -> dict[str, Any]:
    """What one check comes to.

    Args:
        baseline: rows with `case`, `source`, `seed`, `repeat` and `letters`, one a check.
        candidate: the same.
        check: which letter.
    """
    sides = [
        {(row["case"], row["seed"], row["repeat"]): row["letters"][check] for row in rows}
        for rows in (baseline, candidate)
    ]
    source = {row["case"]: row["source"] for row in (*baseline, *candidate)}
    units = _units(*sides)
    differences, worst, best = defaultdict(list), defaultdict(list), defaultdict(list)
    broke, fixed = set(), set()
    for unit, (ours, theirs) in units.items():
        cluster = source[unit[0]] or ("case", unit[0])
        worst[cluster].append(_rate(theirs, unknown=0) - _rate(ours, unknown=1))
        best[cluster].append(_rate(theirs, unknown=1) - _rate(ours, unknown=0))
        if _known(ours) and _known(theirs):
            difference = _rate(_known(theirs)) - _rate(_known(ours))
            differences[cluster].append(difference)
            (broke if difference < 0 else fixed if difference > 0 else set()).add(unit)
    means = _means(differences)
    independent = all(len(u) == 3 for u in units) and len(worst) == len(units)
    lower, upper = _mean(_means(worst)), _mean(_means(best))
    return {
        "pairs": sum(map(len, differences.values())),
        "total": len(units),
        "clusters": len(means),
        "difference": _mean(means),
        "lower": lower,
        "upper": upper,
        "broke": broke,
        "fixed": fixed,
        "p": _p(means, len(broke), len(fixed), independent=independent),
        "table": _table(*sides),
    }


def verdict(found: Mapping[str, Any], p_adjusted: Fraction | None) -> str:
    """The verdict at 5%, given the p after Holm."""
    if not found["pairs"] or found["lower"] < 0 < found["upper"]:
        return "indeterminate"
    if p_adjusted is None:
        return "descriptive"
    if p_adjusted > Fraction(1, 20):
        return "no difference shown"
    return "regression" if found["difference"] < 0 else "improvement"


def holm(p_values: list[Fraction | None]) -> list[Fraction | None]:
    """Holm's adjustment over those that are there."""
    order = sorted((p, i) for i, p in enumerate(p_values) if p is not None)
    adjusted: list[Fraction | None] = [None] * len(p_values)
    highest = Fraction(0)
    for rank, (p, i) in enumerate(order):
        highest = max(highest, min(Fraction(1), p * (len(order) - rank)))
        adjusted[i] = highest
    return adjusted


def _units(ours: Mapping[Any, str], theirs: Mapping[Any, str]) -> dict[Any, Any]:
    """The letters of both sides of each unit: of a trial, or of a case without a seed."""
    by_means = set()
    for case in {key[0] for key in ours}:
        numbers = [sum(k[0] == case and k[1] is None for k in side) for side in (ours, theirs)]
        if min(numbers) > 0 and max(numbers) > 1:
            by_means.add(case)
    units: dict[Any, Any] = {}
    for key in ours.keys() & theirs.keys():
        if not (key[1] is None and key[0] in by_means):
            units[key] = ([ours[key]], [theirs[key]])
    for case in by_means:
        units[case, None] = tuple(
            [letter for key, letter in side.items() if key[0] == case and key[1] is None]
            for side in (ours, theirs)
        )
    return units


def _known(letters: list[str]) -> list[str]:
    return [letter for letter in letters if letter in RESULT]


def _rate(letters: list[str], unknown: int = 0) -> Fraction:
    return Fraction(sum(RESULT.get(letter, unknown) for letter in letters), len(letters))


def _means(values: Mapping[Any, list[Fraction]]) -> list[Fraction]:
    return [Fraction(sum(each), len(each)) for each in values.values()]


def _mean(values: list[Fraction]) -> Fraction | None:
    return Fraction(sum(values), len(values)) if values else None


def _p(means: list[Fraction], broke: int, fixed: int, *, independent: bool) -> Fraction | None:
    if not means:
        return None
    if independent:
        n = broke + fixed
        tail = sum(math.comb(n, k) for k in range(min(broke, fixed) + 1))
        return min(Fraction(1), Fraction(2 * tail, 2**n)) if n else Fraction(1)
    if len(means) < 2:
        return None
    seen = abs(sum(means))
    flips = list(itertools.product((1, -1), repeat=len(means)))
    sums = [abs(sum(s * m for s, m in zip(signs, means, strict=True))) for signs in flips]
    return Fraction(sum(each >= seen for each in sums), len(flips))


def _table(ours: Mapping[Any, str], theirs: Mapping[Any, str]) -> dict[tuple[str, str], int]:
    words = {"p": "passed", "f": "failed", "u": "unknown", "e": "error", "-": "unmatched"}
    counts: dict[tuple[str, str], int] = defaultdict(int)
    for key in ours.keys() | theirs.keys():
        counts[words[ours.get(key, "-")], words[theirs.get(key, "-")]] += 1
    return dict(counts)
