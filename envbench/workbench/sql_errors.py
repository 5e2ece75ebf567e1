"""What went wrong with a query in a notebook, as one block with its line marked."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from envbench.checks.lines import visible

AROUND = 3
"""Lines of the query that are shown before and after the marked one."""

WIDTH = 100
"""Characters of a long line that are shown around the mark."""


class SqlError(Exception):
    """A cell of SQL could not be run. A notebook shows the message alone, without a traceback."""

    def _render_traceback_(self) -> list[str]:
        """The lines that IPython shows in the place of a traceback."""
        return str(self).splitlines()


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a query something is wrong: line and column from 0, and how many characters."""

    line: int
    column: int
    length: int


def described(message: str, query: str) -> str:
    """The message of DuckDB with the query below it, its line marked.

    Args:
        message: what DuckDB said; it may end in a drawing of the place.
        query: the text of the query.
    """
    said, _, drawing = message.partition("\n\nLINE ")
    place = _place(drawing, query.splitlines()) if drawing else None
    lines = [_visible(line.rstrip()) for line in said.strip().splitlines() if line.strip()]
    if place is not None:
        lines += ["", *_drawn(query.splitlines(), place)]
    return "\n".join(lines)


def _place(drawing: str, lines: list[str]) -> Place | None:
    """The place that DuckDB drew: ``3: …, foo from`` and below it the carets."""
    head, _, carets = drawing.partition("\n")
    found = re.match(r"(\d+): ", head)
    mark = re.search(r"\^+", carets)
    if found is None or mark is None or int(found.group(1)) > len(lines):
        return None
    line = int(found.group(1)) - 1
    shown = head[found.end() :]
    start, width = 0, mark.start() - len("LINE ") - found.end()
    # a long line is drawn from its middle
    if shown.startswith("...") and not lines[line].startswith("..."):
        start = lines[line].find(shown[3:].removesuffix("..."))
        width -= len("...")
        if start < 0:
            return None
    column = _column(lines[line], start, width)
    return Place(line, column, _column(lines[line], column, len(mark.group())) - column)


def _column(line: str, start: int, width: int) -> int:
    """The position in a line that is so many columns of a terminal after another one."""
    position = start
    while position < len(line) and (width > 0 or not _columns(line[position])):
        width -= _columns(line[position])
        position += 1
    return position


def _columns(character: str) -> int:
    """The columns that a character takes in DuckDB's drawing, where a tab takes none."""
    if unicodedata.combining(character) or character == "\t":
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _drawn(lines: list[str], place: Place) -> Iterator[str]:
    first, last = max(0, place.line - AROUND), min(len(lines), place.line + AROUND + 1)
    width = len(str(last))
    for number in range(first, last):
        line, start = lines[number], 0
        if number == place.line and len(line) > WIDTH:
            start = max(0, place.column - WIDTH // 2)
        cut = line[start : start + WIDTH]
        before = "…" if start else ""
        after = "…" if start + WIDTH < len(line) else ""
        sign = "→" if number == place.line else " "
        yield f"{sign} {number + 1:{width}} │ {before}{_visible(cut)}{after}"
        if number == place.line:
            indent = len(before) + _width(line[start : place.column])
            marked = _width(line[place.column : place.column + place.length])
            yield f"  {'':{width}} │ {' ' * indent}{'^' * max(1, min(marked, WIDTH))}"


def _width(text: str) -> int:
    return sum(map(_columns, _visible(text)))


def _visible(line: str) -> str:
    return visible(line.replace("\t", " "))  # DuckDB counts a tab as one character
