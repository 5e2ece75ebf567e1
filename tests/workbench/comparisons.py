"""Comparisons made from outcomes alone, for the shapes that charts and pages must hold."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from envbench.checks import Rate
from envbench.comparison import WORDS, CheckComparison, Comparison, Outcomes, Pair
from envbench.comparison.differences import Difference
from envbench.comparison.statistics import exact_mcnemar

Outcome = tuple[str, str]

LETTERS = {"p": "passed", "f": "failed", "u": "unknown", "e": "error", "-": "unmatched"}


def outcomes(text: str) -> list[Outcome]:
    """Outcomes from text: `"pp pf fu"` are three pairs, baseline and candidate each."""
    return [(LETTERS[word[0]], LETTERS[word[1]]) for word in text.split()]


def comparison(
    checks: Mapping[str, Sequence[Outcome]],
    *,
    cases: Sequence[str] | None = None,
    blocked: Sequence[tuple[str, object, object]] = (),
    names: tuple[str, str] = ("invoices 1", "invoices 2"),
    versions: Mapping[str, tuple[str | None, str | None]] | None = None,
) -> Comparison:
    """A comparison whose pairs have these outcomes, one check a row."""
    n = len(next(iter(checks.values()))) if checks else 0
    cases = list(cases) if cases is not None else [f"case-{i:03}" for i in range(n)]
    pairs = []
    for i, case in enumerate(cases):
        sides = [check[i] for check in checks.values()]
        ids = [
            None if sides and all(side[k] == "unmatched" for side in sides) else f"ep-{'bc'[k]}-{i}"
            for k in (0, 1)
        ]
        pairs.append(Pair(case, None, (), i, 0, *ids))
    made = [
        _check(name, list(of), cases, bool(blocked), (versions or {}).get(name, ("1", "1")))
        for name, of in checks.items()
    ]
    return Comparison(
        treatment="environment",
        baseline_name=names[0],
        candidate_name=names[1],
        alpha=0.05,
        changed=(Difference("environment", names[0], names[1]),),
        blocked=tuple(Difference(*part) for part in blocked),
        pairs=tuple(pairs),
        case_means=(),
        checks=tuple(made),
        reward=None,
        notes=(),
    )


def random_comparison(
    n: int,
    checks_named: Sequence[str],
    *,
    seed: int = 0,
    cases: Sequence[str] | None = None,
    **kwargs,
) -> Comparison:
    """A comparison of `n` pairs in which each check is a little better or worse than the last."""
    draw = random.Random(seed)
    checks = {}
    for number, name in enumerate(checks_named):
        broke = [0.16, 0.02, 0.05, 0.01, 0.0][number % 5]
        fixed = [0.02, 0.07, 0.04, 0.0, 0.0][number % 5]
        gaps = [0.0, 0.02, 0.12, 0.0, 0.03][number % 5]
        found = []
        for _ in range(n):
            u = draw.random()
            if u < broke:
                pair = ("passed", "failed")
            elif u < broke + fixed:
                pair = ("failed", "passed")
            else:
                word = "failed" if draw.random() < 0.2 else "passed"
                pair = (word, word)
            if draw.random() < gaps:
                pair = (pair[0], draw.choice(["unknown", "unknown", "error"]))
            if draw.random() < 0.01:
                pair = (pair[0], "unmatched")
            found.append(pair)
        checks[name] = found
    return comparison(checks, cases=cases, **kwargs)


def _check(name, found, cases, blocked, versions) -> CheckComparison:
    table = {(a, b): 0 for a in WORDS for b in WORDS if (a, b) != ("unmatched",) * 2}
    for pair in found:
        if pair in table:
            table[pair] += 1
    measured = [pair for pair in found if set(pair) <= {"passed", "failed"}]
    total = sum("unmatched" not in pair for pair in found)
    broke = [c for c, pair in zip(cases, found, strict=True) if pair == ("passed", "failed")]
    fixed = [c for c, pair in zip(cases, found, strict=True) if pair == ("failed", "passed")]
    n, b, c = len(measured), len(broke), len(fixed)
    difference = (c - b) / n if n else None
    half = 1.96 * ((b + c) / n**2 + 1 / n**2) ** 0.5 if n else 0
    p = None if blocked or not n else exact_mcnemar(b, c)
    worst = sum(_low(y) - _high(x) for x, y in found if "unmatched" not in (x, y))
    best = sum(_high(y) - _low(x) for x, y in found if "unmatched" not in (x, y))
    lower, upper = (worst / total, best / total) if total else (None, None)
    if blocked:
        verdict = "descriptive"
    elif not n or (lower < 0 < upper and n < total):
        verdict = "indeterminate"
    elif p < 0.05:
        verdict = "regression" if difference < 0 else "improvement"
    else:
        verdict = "no difference shown"
    return CheckComparison(
        name=name,
        baseline_version=versions[0],
        candidate_version=versions[1],
        pairs=n,
        total=total,
        clusters=n,
        baseline_rate=_rate([side for side, other in found if "unmatched" not in (side, other)]),
        candidate_rate=_rate([side for other, side in found if "unmatched" not in (side, other)]),
        table=table,
        broke=tuple(broke),
        fixed=tuple(fixed),
        difference=difference,
        interval=None if not n else (max(difference - half, -1), min(difference + half, 1)),
        p=p,
        p_adjusted=None if p is None else min(1.0, 3 * p),
        lower=lower,
        upper=upper,
        smallest_effect=0.11 if n else None,
        smallest_p=0.031 if n else None,
        verdict=verdict,
        method="exact McNemar" if n else "",
        note="" if n else "no pair was measured on both sides",
        outcomes=Outcomes.of(found),
    )


def _rate(words: Sequence[str]) -> Rate:
    return Rate(
        passed=words.count("passed"),
        failed=words.count("failed"),
        unknown=words.count("unknown"),
        errors=words.count("error"),
        total=len(words),
    )


def _low(word: str) -> int:
    return int(word == "passed")


def _high(word: str) -> int:
    return int(word != "failed")
