"""`verdict_table`: what both sides came to, by every check, as a table of counts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import altair as alt

from envbench.comparison import CheckComparison, Comparison
from envbench.workbench.charts.bundle import Chart
from envbench.workbench.charts.checks import about, worst_first
from envbench.workbench.charts.drawing import along, data, down, framed, panel, stacked, texts, tips
from envbench.workbench.charts.figures import count
from envbench.workbench.charts.legend import Key, legend
from envbench.workbench.charts.names import BOLD, fitted, text_width
from envbench.workbench.charts.theme import (
    BAND,
    BLUE,
    GRID,
    INK,
    LINE,
    LINE_HEIGHT,
    ON_COLOUR,
    ON_YELLOW,
    OUTCOMES,
    SIZE,
    SOFT,
    VERMILION,
    YELLOW,
)

MOST_TABLES = 24


def verdict_table(comparison: Comparison) -> Chart:
    """Draw, for each check, how many pairs passed, failed and were unknown by version.

    Rows are the baseline's outcomes and columns the candidate's. Errors and episodes without a
    partner have a row and a column where there are any.
    """
    checks = worst_first(comparison)[:MOST_TABLES]
    form = _Form.of(checks)
    across = max(1, min(len(checks), int(_PAGE // form.width)))
    drawing = _Drawing()
    top = 0.0
    for start in range(0, len(checks), across):
        line = checks[start : start + across]
        name_lines = max(len(form.name(check)) for check in line)
        for column, check in enumerate(line):
            drawing.add(check, form, column * form.width, top + name_lines * LINE_HEIGHT)
        top += name_lines * LINE_HEIGHT + form.height + _BETWEEN
    width = max(across * form.width - _BETWEEN, 420.0)
    title = "Outcomes of the baseline and of the candidate, by check"
    notes = about(comparison, MOST_TABLES)
    keys = [
        Key("broke", VERMILION, stroke=VERMILION),
        Key("fixed", BLUE, stroke=BLUE),
        Key("not measured on both sides", YELLOW, stroke=LINE),
        Key("the same on both sides", GRID, stroke=GRID),
    ]
    panel = drawing.panel(width, max(top - _BETWEEN, 20.0))
    return Chart(framed(title, notes, legend(keys, width), [panel], width, room=8), title, notes)


_PAGE = 760.0
_CELL = 54.0
_ROW = 28.0
_LABELS = 84.0
_TOTAL = 44.0
_HEADS = 58.0
_BETWEEN = 28.0


@dataclasses.dataclass(frozen=True, slots=True)
class _Form:
    """The size of every table: the outcomes that have a row, and those that have a column."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]

    @classmethod
    def of(cls, checks: Sequence[CheckComparison]) -> _Form:
        there = [pair for check in checks for pair, number in check.table.items() if number]
        sides = ({pair[side] for pair in there} | _ALWAYS for side in (0, 1))
        rows, columns = (tuple(word for word in OUTCOMES if word in side) for side in sides)
        return cls(rows, columns)

    @property
    def cell(self) -> float:
        """The width of a column, which has room for its heading."""
        return max(_CELL, *(text_width(word) + 6 for word in self.columns))

    @property
    def width(self) -> float:
        return _LABELS + len(self.columns) * self.cell + _TOTAL + _BETWEEN

    @property
    def height(self) -> float:
        """Without the name above it."""
        return _HEADS + (len(self.rows) + 1) * _ROW

    def x(self, column: int) -> float:
        """The middle of a column, from the left of the table."""
        if column == len(self.columns):
            return _LABELS + column * self.cell + _TOTAL / 2
        return _LABELS + (column + 0.5) * self.cell

    def y(self, row: int) -> float:
        """The middle of a row, from below the name."""
        return _HEADS + (row + 0.5) * _ROW

    def name(self, check: CheckComparison) -> list[str]:
        return fitted(check.name, self.width - _BETWEEN - 8, lines=2, size=SIZE * BOLD)


_ALWAYS = {"passed", "failed", "unknown"}


class _Drawing:
    """The marks of all tables, placed in pixels."""

    def __init__(self) -> None:
        self.boxes: list[dict[str, Any]] = []
        self.figures: list[dict[str, Any]] = []
        self.names: list[dict[str, Any]] = []
        self.labels: list[dict[str, Any]] = []

    def add(self, check: CheckComparison, form: _Form, left: float, top: float) -> None:
        """Place the table of a check; `top` is where its name ends."""
        name = form.name(check)
        middle = top - len(name) * LINE_HEIGHT / 2
        self.names += stacked(middle, name, x=left, tip=check.name)
        for x, y, text in _labels(form):
            self.labels.append({"x": left + x, "y": top + y, "text": text})
        for column, word in enumerate([*form.columns, "all"]):
            self.figure(left + form.x(column), top + _HEADS - 14, word, SOFT, check.name)
        for x, y, total, tip in _totals(check, form):
            self.figure(left + x, top + y, f"{total:,}", SOFT, tip)
        for row, before in enumerate(form.rows):
            for column, after in enumerate(form.columns):
                if (before, after) != ("unmatched", "unmatched"):
                    x, y = left + form.x(column), top + form.y(row)
                    self.box(check, before, after, (x, y), form.cell)

    def box(
        self, check: CheckComparison, before: str, after: str, at: tuple[float, float], width: float
    ) -> None:
        x, y = at
        number = sum(n for pair, n in check.table.items() if pair == (before, after))
        fill, on = _colours(before, after, number)
        said = before if before == after else f"{before}, then {after}"
        tip = f"{check.name}: {count(number, 'pair')} {said}"
        box = {"x": x - width / 2 + 1, "x2": x + width / 2 - 1, "y": y - _ROW / 2 + 1}
        self.boxes.append({**box, "y2": y + _ROW / 2 - 1, "fill": fill, "tip": tip})
        self.figure(x, y, f"{number:,}", on, tip)

    def figure(self, x: float, y: float, text: str, colour: str, tip: str) -> None:
        self.figures.append({"x": x, "y": y, "text": text, "on": colour, "tip": tip})

    def panel(self, width: float, height: float) -> alt.LayerChart:
        x, y = along("x", width), down("y", height)
        boxes = alt.Chart(data(self.boxes)).mark_rect(cornerRadius=2)
        figures = alt.Chart(data(self.figures)).mark_text(align="center", baseline="middle")
        fill, on = alt.Fill("fill:N", scale=None), alt.Color("on:N", scale=None)
        return panel(
            boxes.encode(x=x, x2="x2:Q", y=y, y2="y2:Q", fill=fill, **tips(self.boxes)),
            figures.encode(x=x, y=y, text="text:N", color=on, **tips(self.figures)),
            texts(self.names, x, height, bold=True),
            texts(self.labels, x, height, colour=SOFT),
            width=width,
            height=height,
        )


def _labels(form: _Form) -> Iterator[tuple[float, float, str]]:
    """What stands to the left of a table and above it."""
    yield 0, _HEADS - 34, "baseline ↓"
    yield _LABELS, _HEADS - 34, "candidate →"
    for row, word in enumerate([*form.rows, "all"]):
        yield 0, form.y(row), word


def _totals(check: CheckComparison, form: _Form) -> Iterator[tuple[float, float, int, str]]:
    """The last column, the last row, and the number of all pairs in the corner."""
    for side, words in enumerate((form.rows, form.columns)):
        for index, word in enumerate(words):
            total = sum(number for pair, number in check.table.items() if pair[side] == word)
            x = form.x(len(form.columns) if side == 0 else index)
            y = form.y(index if side == 0 else len(form.rows))
            name = ("baseline", "candidate")[side]
            yield x, y, total, f"{check.name}: {count(total, 'pair')} {word} ({name})"
    total = sum(check.table.values())
    corner = form.x(len(form.columns)), form.y(len(form.rows))
    yield *corner, total, f"{check.name}: {count(total, 'pair')}"


def _colours(before: str, after: str, number: int) -> tuple[str, str]:
    """The ground of a cell and the colour of its figure."""
    if not number:
        return BAND, LINE
    if (before, after) == ("passed", "failed"):
        return VERMILION, ON_COLOUR
    if (before, after) == ("failed", "passed"):
        return BLUE, ON_COLOUR
    return (GRID, INK) if {before, after} <= {"passed", "failed"} else (YELLOW, ON_YELLOW)
