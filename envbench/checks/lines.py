"""Lines of text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from envbench.checks.rows import CheckResult

LIMIT = 5
"""Lines of one kind that are printed before it is said how many more there are."""


def visible(text: str) -> str:
    """Text in which nothing acts on a terminal: control and direction characters are escaped.

    Reasons, messages and names come from checks, agents and files. A line break in one of them
    could print a line that looks like a decision.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shortened(lines: Sequence[str]) -> Iterator[str]:
    """The first few lines of one kind, made visible, and how many more there are."""
    yield from map(visible, lines[:LIMIT])
    if len(lines) > LIMIT:
        yield f"    … and {len(lines) - LIMIT} more"


def why(result: CheckResult) -> str:
    """The reason of a result, or the error that kept the check from one."""
    return result.error or result.reason or "no reason was given"


def excerpt(text: str, length: int = 120) -> str:
    """The beginning of a text that is quoted inside a line."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def counted(number: int, noun: str) -> str:
    """A number of things, with the noun in the form that goes with it."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def named(cases: Sequence[str]) -> str:
    """The first few case ids, and how many more there are."""
    distinct = list(dict.fromkeys(cases))
    more = f" and {len(distinct) - 3} more" if len(distinct) > 3 else ""
    return ", ".join(distinct[:3]) + more


def in_episodes(cases: Sequence[str], total: int) -> str:
    """In how many of all episodes something was found, and in which cases.

    Args:
        cases: the case id of each episode in which it was found.
        total: all episodes.
    """
    return f"in {len(cases)} of {counted(total, 'episode')}: {named(cases)}"
