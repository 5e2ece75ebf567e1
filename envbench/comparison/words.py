"""A comparison in words: a table for a terminal, and one paragraph that does not overclaim.

What may be said is narrow. "No difference shown" is not "no difference": beside it stands the
difference that would have been seen. Counts stand beside their denominators, what was not measured
beside both, and where the sides are not comparable nothing is said but counts.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from envbench.checks.lines import counted, excerpt, shortened, visible
from envbench.checks.report import Rate
from envbench.comparison.differences import Difference
from envbench.comparison.passing import fewest_repeats
from envbench.comparison.results import (
    VERDICTS,
    CheckComparison,
    Disagreement,
    RewardComparison,
    Verdict,
)
from envbench.evidence.portable import Json, canonical, pointer_segment

if TYPE_CHECKING:
    from envbench.comparison.comparison import Comparison


def summary(comparison: Comparison) -> str:
    """What was found, in one paragraph."""
    scope = Scope.of(comparison)
    sentences = [f"{_title(comparison)}: {scope}.", *_gaps(comparison)]
    if comparison.treatment == "checks":
        sentences.append(_SAME_EVIDENCE)
    if comparison.blocked:
        sentences += _blocked(comparison)
    else:
        sentences += _found(comparison)
    sentences += _unmeasured(comparison.checks)
    if comparison.reward is not None and comparison.reward.pairs:
        said = _reward(comparison.reward, comparison.alpha)
        sentences.append(f"Reward, on which no verdict rests: {said}.")
    sentences += [f"{note[0].upper()}{note[1:]}." for note in comparison.notes]
    return visible(" ".join(sentences))


def table(comparison: Comparison) -> Iterator[str]:
    """The lines of a table for a terminal."""
    yield visible(_title(comparison))
    yield f"  {Scope.of(comparison)}"
    if comparison.treatment == "checks":
        yield f"  {_SAME_EVIDENCE}"
    if comparison.blocked:
        yield f"  NOT COMPARABLE: {_besides(comparison)}. The counts only describe:"
        yield from (visible(f"    {line}") for line in difference_lines(comparison.blocked))
    yield ""
    yield from _aligned([_heads(comparison), *_rows(comparison)])
    yield from _sections(comparison)


def difference_lines(differences: Iterable[Difference]) -> Iterator[str]:
    """One line a part that differs, with both values; of many places in one part the first few."""
    for part, ours, theirs in differences:
        places = list(_places(ours, theirs, ""))
        shown = ", ".join(_difference(*found) for found in places[:_SHOWN])
        more = len(places) - _SHOWN
        yield f"{part}: {shown}" + (f", and {counted(more, 'place')} more" if more > 0 else "")


def points(value: float | None) -> str:
    """A difference of rates in points of 100, with its sign."""
    if value is None:
        return "–"
    text = f"{100 * value:+.1f}".removesuffix(".0")
    return "0" if text in ("+0", "-0") else text.replace("-", "−")


def p_text(p: float | None) -> str:
    """A p-value, never rounded to 0."""
    if p is None:
        return "–"
    return "<0.001" if p < 0.001 else f"{p:.3g}"


_SHOWN = 3
"""Places, cases or checks that are named before it is said how many more there are."""

_SAME_EVIDENCE = (
    "The evidence is the same on both sides: what changed is the check, not the agent and not the "
    "environment."
)

_ABSENT: Any = object()


def _title(comparison: Comparison) -> str:
    return (
        f"{comparison.candidate_name} against {comparison.baseline_name} "
        f"(treatment: {comparison.treatment})"
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Scope:
    """How much is compared.

    Attributes:
        pairs: pairs with an episode on both sides.
        means: cases compared by their means.
        cases: distinct cases among both.
        clusters: sources of them, or cases where no source is said.
        unmatched: episodes without a partner, of the baseline and of the candidate.
    """

    pairs: int
    means: int
    cases: int
    clusters: int
    unmatched: tuple[int, int]

    @classmethod
    def of(cls, comparison: Comparison) -> Scope:
        """Count."""
        unmatched = comparison.unmatched
        left_out = set(unmatched)
        compared = [pair for pair in comparison.pairs if pair not in left_out]
        means = set(comparison.case_means)
        single = sum(pair.seed is not None or pair.case_id not in means for pair in compared)
        clusters = {
            (True, pair.source_id) if pair.source_id is not None else (False, pair.case_id)
            for pair in compared
        }
        return cls(
            single,
            len(means),
            len({pair.case_id for pair in compared}),
            len(clusters),
            (
                sum(pair.baseline is not None for pair in unmatched),
                sum(pair.candidate is not None for pair in unmatched),
            ),
        )

    def __str__(self) -> str:
        if not self.cases:
            return "no pair"
        parts = []
        if self.pairs:
            parts.append(counted(self.pairs, "pair"))
        if self.means:
            parts.append(f"{counted(self.means, 'case')} by their means")
        text = " and ".join(parts)
        if self.pairs and self.cases != self.pairs:
            text += f" of {counted(self.cases, 'case')}"
        if self.clusters < self.pairs + self.means:
            text += f", in {counted(self.clusters, 'independent cluster')}"
        if any(self.unmatched):
            text += f"; {counted(sum(self.unmatched), 'episode')} without a partner"
        return text


# -- the paragraph --------------------------------------------------------------------------------


def _gaps(comparison: Comparison) -> Iterator[str]:
    ours, theirs = Scope.of(comparison).unmatched
    if ours or theirs:
        yield (
            f"Episodes without a partner ({ours} of the baseline, {theirs} of the candidate) are "
            "in no figure."
        )


def _blocked(comparison: Comparison) -> Iterator[str]:
    lines = "; ".join(difference_lines(comparison.blocked))
    yield (
        f"Not comparable: {_besides(comparison)} ({lines}). So there is no interval, no p and no "
        "verdict, and what follows only describes these episodes."
    )
    for check in _by_urgency(comparison.checks)[:_SHOWN]:
        if check.pairs:
            yield f"{check.name}: {_change(check)}, {_flips(check)}."
    if len(comparison.checks) > _SHOWN:
        yield f"There are {counted(len(comparison.checks) - _SHOWN, 'check')} more."


def _besides(comparison: Comparison) -> str:
    number = len(comparison.blocked)
    return (
        f"{counted(number, 'part')} besides the {comparison.treatment} "
        f"{'differs' if number == 1 else 'differ'}"
    )


def _found(comparison: Comparison) -> Iterator[str]:
    by_verdict: dict[Verdict, list[CheckComparison]] = {verdict: [] for verdict in VERDICTS}
    for check in _by_urgency(comparison.checks):
        by_verdict[check.verdict].append(check)
    tested = sum(check.p is not None for check in comparison.checks)
    words = _WORDS_OF_CHECKS if comparison.treatment == "checks" else _WORDS
    for verdict in ("regression", "improvement"):
        found = by_verdict[verdict]
        for check in found[:_SHOWN]:
            yield _shown(check, words[verdict], comparison.alpha, tested)
        yield from _further(words[verdict], found)
    for check in by_verdict["indeterminate"][:_SHOWN]:
        yield _indeterminate(check)
    yield from _further("Indeterminate:", by_verdict["indeterminate"])
    for check in by_verdict["descriptive"][:_SHOWN]:
        counts = f": {_change(check)}" if check.pairs else ""
        yield f"No verdict on {check.name}{counts} ({check.note or 'no p can be had'})."
    yield from _further("No verdict on", by_verdict["descriptive"])
    if by_verdict["no difference shown"]:
        yield from _not_shown(by_verdict["no difference shown"], comparison.alpha, tested)


_WORDS: dict[str, str] = {"regression": "Regression in", "improvement": "Improvement in"}
_WORDS_OF_CHECKS: dict[str, str] = {"regression": "Fewer pass", "improvement": "More pass"}


def _further(word: str, checks: Sequence[CheckComparison]) -> Iterator[str]:
    """The checks of one verdict that got no sentence of their own."""
    if len(checks) > _SHOWN:
        yield f"{word} {_listed([check.name for check in checks[_SHOWN:]])} too."


def _shown(check: CheckComparison, word: str, alpha: float, tested: int) -> str:
    holm = f" after Holm over {counted(tested, 'check')}" if tested > 1 else ""
    over = "" if check.pairs == check.total else f" over the {check.pairs} pairs measured"
    return (
        f"{word} {check.name}: {_change(check)}; difference{over} {points(check.difference)} "
        f"points{_interval(check.interval, alpha)}, p {_equals(check.p_adjusted)}{holm}; "
        f"{_flips(check)}."
    )


def _indeterminate(check: CheckComparison) -> str:
    if not check.total:
        return f"Indeterminate: {check.name} (there is no pair)."
    return (
        f"Indeterminate: {check.name} ({check.pairs} of {counted(check.total, 'pair')} measured "
        f"on both sides, {_flips(check)}; what was not measured leaves the difference anywhere "
        f"from {points(check.lower)} to {points(check.upper)} points)."
    )


def _not_shown(checks: Sequence[CheckComparison], alpha: float, tested: int) -> Iterator[str]:
    flips = [f"{check.name} ({_size_of(check)}, {_flips(check)})" for check in checks]
    yield (
        f"No difference shown by {_listed(flips)}, which is not to say that there is none: "
        f"{_detectable(checks)}."
    )
    helpless = [c for c in checks if c.smallest_p is not None and c.smallest_p * tested > alpha]
    if helpless:
        yield (
            f"For {_listed([check.name for check in helpless])} nothing else could have come out: "
            "with so few pairs in which the two sides differ, no p can be small enough."
        )


def _size_of(check: CheckComparison) -> str:
    size = counted(check.pairs, "pair")
    if check.clusters < check.pairs:
        size += f" in {counted(check.clusters, 'cluster')}"
    return size


def _detectable(checks: Sequence[CheckComparison]) -> str:
    """What a comparison of this size would have shown."""
    effects = [check.smallest_effect for check in checks]
    seen = [effect for effect in effects if effect is not None]
    if not seen:
        size = _size_of(max(checks, key=lambda check: check.pairs))
        return f"{size} cannot reliably show a difference of any size"
    low, high = min(seen), max(seen)
    size = f"{_size(low)} points"
    if _size(low) != _size(high):
        size = f"{_size(low)} to {_size(high)} points, depending on the check,"
    rest = ", and for some checks of any size" if len(seen) < len(effects) else ""
    return f"a difference smaller than {size} would probably have been missed (power 80%){rest}"


def _unmeasured(checks: Sequence[CheckComparison]) -> Iterator[str]:
    rates = [rate for check in checks for rate in (check.baseline_rate, check.candidate_rate)]
    unknown, errors = sum(rate.unknown for rate in rates), sum(rate.errors for rate in rates)
    total = sum(rate.total for rate in rates)
    if unknown + errors:
        yield (
            f"Not measured: {unknown + errors} of {counted(total, 'outcome')} ({unknown} unknown, "
            f"{counted(errors, 'error')} of the check itself); these count as neither passed nor "
            "failed."
        )


def _reward(reward: RewardComparison, alpha: float) -> str:
    text = (
        f"mean return {_number(reward.baseline_mean)} → {_number(reward.candidate_mean)} in "
        f"{counted(reward.pairs, 'pair')}"
    )
    if reward.difference is not None:
        text += f", difference {_number(reward.difference, sign=True)}"
    if reward.interval is not None:
        low, high = (_number(limit, sign=True) for limit in reward.interval)
        text += f" ({_percent(alpha)} interval {low} to {high})"
    if reward.disagreements:
        pairs = len({(row.baseline, row.candidate) for row in reward.disagreements})
        text += (
            f"; in {counted(pairs, 'pair')} the episode that failed a check earned more than the "
            "one that passed it"
        )
    if reward.unseen:
        text += f"; {counted(reward.unseen, 'flip')} of a check where both sides earned the same"
    return text


# -- the table ------------------------------------------------------------------------------------


def _heads(comparison: Comparison) -> list[str]:
    return [
        "check",
        excerpt(comparison.baseline_name, _NAME),
        excerpt(comparison.candidate_name, _NAME),
        "broke",
        "fixed",
        "difference",
        f"{_percent(comparison.alpha)} interval",
        "p (Holm)",
        "verdict",
    ]


def _rows(comparison: Comparison) -> Iterator[list[str]]:
    for check in _by_urgency(comparison.checks):
        verdict: str = check.verdict
        if comparison.treatment == "checks":
            verdict = _VERDICTS_OF_CHECKS.get(verdict, verdict)
        interval = "–"
        if check.interval is not None:
            interval = " to ".join(points(limit) for limit in check.interval)
        yield [
            excerpt(check.name, _CHECK),
            _share(check.baseline_rate),
            _share(check.candidate_rate),
            str(len(check.broke)),
            str(len(check.fixed)),
            points(check.difference),
            interval,
            p_text(check.p_adjusted),
            verdict,
        ]


_VERDICTS_OF_CHECKS = {"regression": "fewer pass", "improvement": "more pass"}

_NAME, _CHECK = 16, 32
"""The room that the name of a side and of a check get in the table."""

_LEFT = (0, 8)
"""The columns of text; the others are of numbers."""


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    rows = [[visible(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.ljust(width) if index in _LEFT else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield f"  {'  '.join(cells)}".rstrip()


def _sections(comparison: Comparison) -> Iterator[str]:
    checks = _by_urgency(comparison.checks)
    yield from _section("Broke", [f"{c.name}: {_listed(c.broke)}" for c in checks if c.broke])
    yield from _section("Fixed", [f"{c.name}: {_listed(c.fixed)}" for c in checks if c.fixed])
    yield from _section("Not measured", list(filter(None, map(_missing, checks))))
    yield from _section("Without a partner", list(_partnerless(comparison)))
    yield from _section("Repeats", list(_repeats(comparison)))
    shown = [c for c in checks if c.verdict == "no difference shown"]
    lines = [f"{c.name}: {_detectable([c])}" for c in shown]
    yield from _section("No difference shown is not no difference", lines)
    if comparison.reward is not None and comparison.reward.pairs:
        lines = [_reward(comparison.reward, comparison.alpha)]
        lines += [_disagreement(row) for row in comparison.reward.disagreements]
        yield from _section("Reward, on which no verdict rests", lines)
    notes = [f"{check.name}: {check.note}" for check in checks if check.note]
    yield from _section("Notes", [*comparison.notes, *notes])
    yield from _section("Method", list(dict.fromkeys(c.method for c in checks if c.method)))


def _section(title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield f"  {title}:"
        yield from shortened([f"    {line}" for line in lines])


def _missing(check: CheckComparison) -> str:
    sides = [
        f"{side} {rate.unknown} unknown, {counted(rate.errors, 'error')}"
        for side, rate in (("baseline", check.baseline_rate), ("candidate", check.candidate_rate))
        if rate.unknown or rate.errors
    ]
    if not sides:
        return ""
    return (
        f"{check.name}: {'; '.join(sides)}; the difference over all {check.total} is anywhere from "
        f"{points(check.lower)} to {points(check.upper)}"
    )


def _partnerless(comparison: Comparison) -> Iterator[str]:
    unmatched = set(comparison.unmatched)
    for side in ("baseline", "candidate"):
        names = [
            name
            for name, pair in zip(comparison.names, comparison.pairs, strict=True)
            if pair in unmatched and getattr(pair, side) is not None
        ]
        if names:
            yield f"{side}: {_listed(names)}"


def _repeats(comparison: Comparison) -> Iterator[str]:
    if fewest_repeats(comparison) == 1:
        return
    found = {(one.check, one.side): one for one in comparison.pass_k()}
    for check in comparison.checks:
        ours, theirs = found[check.name, "baseline"], found[check.name, "candidate"]
        yield (
            f"{check.name}: pass@{ours.k} {_rate(ours.at_least_one)} → "
            f"{_rate(theirs.at_least_one)}, pass^{ours.k} {_rate(ours.all)} → {_rate(theirs.all)} "
            f"(cases: {ours.cases} → {theirs.cases})"
        )


def _disagreement(row: Disagreement) -> str:
    words = ("passed", "failed") if row.baseline_passed else ("failed", "passed")
    return (
        f"{row.check}, {row.name}: {words[0]} with {_number(row.baseline_reward)}, {words[1]} with "
        f"{_number(row.candidate_reward)}"
    )


# -- figures and names ----------------------------------------------------------------------------


def _by_urgency(checks: Sequence[CheckComparison]) -> list[CheckComparison]:
    """The checks, the verdict that asks for a look first, and within it the lowest difference."""
    return sorted(
        checks,
        key=lambda check: (
            VERDICTS.index(check.verdict),
            math.inf if check.difference is None else check.difference,
        ),
    )


def _change(check: CheckComparison) -> str:
    return f"passed {_of(check.baseline_rate)} → {_of(check.candidate_rate)}"


def _of(rate: Rate) -> str:
    missing = rate.unknown + rate.errors
    return f"{rate.passed} of {rate.total}" + (f" ({missing} not measured)" if missing else "")


def _share(rate: Rate) -> str:
    missing = rate.unknown + rate.errors
    return f"{rate.passed}/{rate.total}" + (f" ({missing}?)" if missing else "")


def _flips(check: CheckComparison) -> str:
    broke = f"{len(check.broke)} broke"
    fixed = f"{len(check.fixed)} fixed"
    if check.verdict in ("regression", "improvement"):
        broke += f" ({_listed(check.broke)})" if check.broke else ""
        fixed += f" ({_listed(check.fixed)})" if check.fixed else ""
    return f"{broke}, {fixed}"


def _listed(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    shown = [excerpt(name, 80) for name in names[:_SHOWN]]
    if len(names) > _SHOWN:
        return f"{', '.join(shown)} and {len(names) - _SHOWN} more"
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))


def _interval(interval: tuple[float, float] | None, alpha: float) -> str:
    if interval is None:
        return ""
    low, high = interval
    return f" ({_percent(alpha)} interval {points(low)} to {points(high)})"


def _percent(alpha: float) -> str:
    return f"{100 * (1 - alpha):.4g}%"


def _equals(p: float | None) -> str:
    text = p_text(p)
    return f"< {text[1:]}" if text.startswith("<") else f"= {text}"


def _size(effect: float) -> str:
    return f"{100 * effect:.3g}"


def _rate(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


def _number(value: float | None, *, sign: bool = False) -> str:
    if value is None:
        return "–"
    return f"{value:{'+' if sign and value else ''}.4g}".replace("-", "−")


# -- differences ----------------------------------------------------------------------------------


def _difference(place: str, ours: Json, theirs: Json) -> str:
    before = f"{place.removeprefix('/')} " if place else ""
    return f"{before}{_value(ours)} → {_value(theirs)}"


def _places(ours: Json, theirs: Json, place: str) -> Iterator[tuple[str, Json, Json]]:
    """The smallest parts in which two values differ, as JSON Pointers with both values."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(ours.keys() | theirs.keys()):
            below = f"{place}/{pointer_segment(key)}"
            yield from _places(ours.get(key, _ABSENT), theirs.get(key, _ABSENT), below)
    elif ours is _ABSENT or theirs is _ABSENT or canonical(ours) != canonical(theirs):
        yield place, ours, theirs


def _value(value: Json) -> str:
    if value is _ABSENT:
        return "none"
    text = value if isinstance(value, str) else canonical(value).decode()
    return excerpt(text, 60)
