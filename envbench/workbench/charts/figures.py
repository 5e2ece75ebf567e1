"""Figures as text: the same number reads the same in a chart, a table and a tooltip."""

from __future__ import annotations

from envbench.comparison import CheckComparison

NONE = "–"
"""What stands where there is no figure."""


def points(share: float | None) -> str:
    """A difference of shares in percentage points, with its sign.

    >>> points(-0.125), points(0.0), points(None)
    ('−12.5', '0.0', '–')
    """
    if share is None:
        return NONE
    text = f"{100 * share:+.1f}".replace("-", "−")
    return "0.0" if text in ("+0.0", "−0.0") else text


def interval(ends: tuple[float, float] | None) -> str:
    """Both ends of an interval in percentage points.

    >>> interval((-0.2, 0.05))
    '−20.0 to +5.0'
    """
    return NONE if ends is None else f"{points(ends[0])} to {points(ends[1])}"


def p_value(p: float | None) -> str:
    """A p-value with two significant digits, never zero.

    >>> p_value(0.0312), p_value(0.00001), p_value(1.0), p_value(None)
    ('0.031', '<0.001', '1', '–')
    """
    if p is None:
        return NONE
    if p < 0.001:
        return "<0.001"
    if p >= 0.995:
        return "1"
    return f"{p:.2f}" if p >= 0.0995 else f"{p:.2g}"


def percent(part: int, whole: int) -> str:
    """A share in whole percent, `–` of nothing.

    >>> percent(6, 7), percent(0, 0), percent(1, 1000)
    ('86%', '–', '<1%')
    """
    if not whole:
        return NONE
    share = 100 * part / whole
    if 0 < share < 0.5:
        return "<1%"
    if 99.5 <= share < 100:
        return ">99%"
    return f"{share:.0f}%"


def count(number: int, noun: str, plural: str | None = None) -> str:
    """A number of things, with thousands apart.

    >>> count(1, "pair"), count(67000, "step")
    ('1 pair', '67,000 steps')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def verdict_word(verdict: str, treatment: str) -> str:
    """A verdict in the words of its treatment.

    Two versions of a check judge the same episodes: what moves is how many pass.

    >>> verdict_word("regression", "environment"), verdict_word("regression", "checks")
    ('regression', 'fewer pass')
    """
    if treatment == "checks":
        return {"regression": "fewer pass", "improvement": "more pass"}.get(verdict, verdict)
    return verdict


def in_words(check: CheckComparison, treatment: str) -> str:
    """Everything that a comparison says of a check, in a few sentences."""
    parts = [f"{check.name}: {verdict_word(check.verdict, treatment)}"]
    if check.difference is None:
        parts.append(f"no difference could be measured in {count(check.total, 'pair')}")
    else:
        between = "" if check.interval is None else f" ({interval(check.interval)})"
        parts.append(
            f"{points(check.difference)} points{between}, measured in "
            f"{check.pairs:,} of {count(check.total, 'pair')}"
        )
    parts.append(f"{len(check.broke):,} broke, {len(check.fixed):,} fixed")
    if check.p is not None:
        parts.append(f"p {p_value(check.p)}, {p_value(check.p_adjusted)} after Holm")
    if check.pairs < check.total and check.lower is not None:
        parts.append(f"with what was not measured, {points(check.lower)} to {points(check.upper)}")
    if check.smallest_effect is not None:
        parts.append(
            f"{100 * check.smallest_effect:.1f} points is the smallest difference that so many "
            "pairs would show"
        )
    if check.note:
        parts.append(check.note)
    return ". ".join(part.rstrip(".") for part in parts) + "."
