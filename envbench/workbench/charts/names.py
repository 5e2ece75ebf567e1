"""Names fitted to the room there is: wrapped, and shortened in the middle when they are longer.

The beginning of a name says which family it is of and the end which member, so that what is left
out is in between.
"""

from __future__ import annotations

import unicodedata

from envbench.checks.lines import visible
from envbench.workbench.charts.theme import SIZE


def fitted(name: str, width: float, *, lines: int = 2, size: float = SIZE) -> list[str]:
    """A name as lines that are no wider than `width` pixels.

    Args:
        name: any text; control and direction characters are written out.
        width: pixels there are.
        lines: how many lines there may be.
        size: of the type, in pixels.

    >>> fitted("refund", 80)
    ['refund']
    >>> fitted("support/refund-within-thirty-days", 140)
    ['support/refund-within-', 'thirty-days']
    >>> fitted("support/refund-within-thirty-days", 140, lines=1)
    ['support/re…hirty-days']
    """
    text = visible(name) or "(no name)"
    wrapped = _wrapped(text, width, size)
    if len(wrapped) <= lines:
        return wrapped
    kept = len(text)
    while len(wrapped) > lines and kept > 2:
        kept -= max(1, kept // 16)
        wrapped = _wrapped(_without_middle(text, kept), width, size)
    return wrapped[:lines]


def text_width(text: str, size: float = SIZE) -> float:
    """About how wide a text is at most, in pixels.

    Where there is no Arial a browser takes another type, and DejaVu Sans is the widest of those.

    >>> round(text_width("invoice paid", 12))
    78
    """
    return size * sum(_advance(character) for character in text)


BOLD = 1.13
"""How much wider bold type is."""


def listed(words: list[str]) -> str:
    """Words as a list in a sentence.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


_BREAKS = " /_-.:,"
"""A line may end after one of these."""

_NARROW = frozenset("iljtfrI.,:;'|!/\\()[]{} -`\"")
_WIDE = frozenset("mwMW@%…—→←")


def _advance(character: str) -> float:
    """The width of a character in DejaVu Sans, as a part of the size of the type."""
    return 1.15 * _advance_in_arial(character)


def _advance_in_arial(character: str) -> float:
    if unicodedata.combining(character):
        return 0.0
    if unicodedata.east_asian_width(character) in "WF":
        return 1.0
    if character in _NARROW:
        return 0.3
    if character in _WIDE:
        return 0.88
    if character.isupper():
        return 0.7
    return 0.556


def _wrapped(text: str, width: float, size: float) -> list[str]:
    lines = [""]
    for piece in _pieces(text):
        rest = piece
        if text_width(lines[-1] + rest.rstrip(), size) > width and lines[-1]:
            lines.append("")
        while text_width(rest.rstrip(), size) > width and len(rest) > 1:
            fit = _fitting(rest, width, size)
            lines[-1], rest = rest[:fit], rest[fit:]
            lines.append("")
        lines[-1] += rest
    return [line.rstrip() for line in lines if line.strip()]


def _pieces(text: str) -> list[str]:
    """The text cut after each character at which a line may end."""
    pieces, start = [], 0
    for index, character in enumerate(text):
        if character in _BREAKS and text[index + 1 : index + 2] not in _BREAKS:
            pieces.append(text[start : index + 1])
            start = index + 1
    return [*pieces, text[start:]]


def _fitting(text: str, width: float, size: float) -> int:
    """How many characters of the text fit, at least one."""
    used, count = 0.0, 0
    for character in text:
        used += size * _advance(character)
        if used > width:
            break
        count += 1
    return max(count, 1)


def _without_middle(text: str, kept: int) -> str:
    head = (kept + 1) // 2
    return f"{text[:head].rstrip()}…{text[len(text) - (kept - head) :].lstrip()}"
