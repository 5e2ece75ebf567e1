"""Named rows, one under the other, that the panels of a chart share."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import altair as alt

from envbench.workbench.charts.drawing import along, ground, panel, stacked, texts, widest
from envbench.workbench.charts.names import fitted
from envbench.workbench.charts.theme import LINE_HEIGHT, SOFT

T = TypeVar("T")

NAME_WIDTH = 180.0
"""Pixels that a name may take; what is longer is wrapped, and shortened after three lines."""


@dataclasses.dataclass(frozen=True, slots=True)
class Row(Generic[T]):
    """What a row shows, and its place.

    Attributes:
        value: what it is about.
        top: pixels from the top of the panel.
        height: pixels.
        lines: its name, fitted.
        below: what stands under the name, in a softer colour.
        tip: the whole of it in words, shown under the pointer.
    """

    value: T
    top: float
    height: float
    lines: tuple[str, ...]
    below: tuple[str, ...]
    tip: str

    @property
    def middle(self) -> float:
        """Where the marks of the row are."""
        return self.top + self.height / 2


@dataclasses.dataclass(frozen=True, slots=True)
class Rows(Generic[T]):
    """Rows one under the other.

    Attributes:
        rows: the rows from top to bottom.
        height: of all of them, in pixels.
        label_width: room for the names, in pixels.
        headings: names of groups of rows, as `(pixels from the top, text)`.
    """

    rows: tuple[Row[T], ...]
    height: float
    label_width: float
    headings: tuple[tuple[float, str], ...] = ()

    @property
    def values(self) -> list[T]:
        """What the rows are about."""
        return [row.value for row in self.rows]

    def labels(self) -> alt.LayerChart:
        """The panel with the names."""
        names: list[dict[str, Any]] = []
        soft: list[dict[str, Any]] = []
        for row in self.rows:
            place = {"x": self.label_width - _GAP, "tip": row.tip}
            lines = stacked(row.middle, [*row.lines, *row.below], **place)
            names += lines[: len(row.lines)]
            soft += lines[len(row.lines) :]
        heads = [
            {"x": 2, "y": y, "text": line, "tip": text}
            for y, text in self.headings
            for line in fitted(text, _HEADING_WIDTH, lines=1)
        ]
        x = along("x", self.label_width)
        return panel(
            self.ground(),
            texts(names, x, self.height, align="right"),
            texts(soft, x, self.height, align="right", colour=SOFT),
            texts(heads, x, self.height, bold=True),
            width=self.label_width,
            height=self.height,
        )

    def columns(self, columns: Sequence[Column]) -> alt.LayerChart:
        """The panel with columns of figures under their headings."""
        width = sum(column.width for column in columns)
        cells: list[dict[str, Any]] = []
        headings: list[dict[str, Any]] = []
        end = 0.0
        for column in columns:
            end += column.width
            headings.append({"x": end, "y": HEAD, "text": column.heading})
            cells += [
                {"x": end, "y": row.middle, "text": text, "tip": row.tip}
                for row, text in zip(self.rows, column.cells, strict=True)
            ]
        x = along("x", width)
        return panel(
            self.ground(),
            texts(cells, x, self.height, align="right"),
            texts(headings, x, self.height, align="right", colour=SOFT),
            width=width,
            height=self.height,
        )

    def ground(self) -> alt.Chart:
        """A faint band behind every second row."""
        return ground([(row.top, row.height) for row in self.rows], self.height)


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """A column of figures beside the rows.

    Attributes:
        heading: what it holds.
        cells: one text a row.
        width: room for it, in pixels.
    """

    heading: str
    cells: tuple[str, ...]
    width: float


def column(heading: str, cells: Sequence[str]) -> Column:
    """A column as wide as its widest text."""
    return Column(heading, tuple(cells), widest([heading, *cells]) + _GAP + 4)


def lay_out(
    values: Sequence[T],
    name: Callable[[T], str],
    *,
    tip: Callable[[T], str],
    below: Callable[[T], str] = lambda _: "",
    group: Callable[[T], str] | None = None,
    least_height: float = 30,
) -> Rows[T]:
    """Put values into rows.

    Args:
        values: from top to bottom.
        name: of a value.
        tip: a value in words.
        below: what stands under its name, in one line.
        group: what rows that follow each other belong to; each group gets a heading.
        least_height: pixels that a row has at least.
    """
    rows: list[Row[T]] = []
    headings: list[tuple[float, str]] = []
    top, last = 0.0, None
    for value in values:
        if group is not None and group(value) != last:
            last = group(value)
            top += 14 if headings else 0
            headings.append((top + _HEADING_HEIGHT / 2, last))
            top += _HEADING_HEIGHT
        lines = fitted(name(value), NAME_WIDTH, lines=3)
        under = fitted(below(value), NAME_WIDTH, lines=1) if below(value) else []
        height = max(least_height, (len(lines) + len(under)) * LINE_HEIGHT + 12)
        rows.append(Row(value, top, height, tuple(lines), tuple(under), tip(value)))
        top += height
    written = [line for row in rows for line in (*row.lines, *row.below)]
    return Rows(tuple(rows), max(top, least_height), widest(written) + 2 * _GAP, tuple(headings))


HEAD = -16.0
"""Where headings of columns stand, in pixels from the top of a panel."""

_GAP = 12
_HEADING_HEIGHT = 28.0
_HEADING_WIDTH = 620.0
