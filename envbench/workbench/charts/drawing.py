"""Panels: the pieces that charts are put together from, side by side, on one vertical axis.

Down a panel everything is placed in pixels, so that names of any length, headings and columns of
figures stand where they are meant to and nothing is cut; along it, figures have a scale.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, cast

import altair as alt
import polars as pl

from envbench.checks.lines import visible
from envbench.workbench.charts.names import BOLD, fitted, text_width
from envbench.workbench.charts.theme import BAND, GRID, INK, LINE_HEIGHT, SIZE, SOFT, TITLE_SIZE

Row: TypeAlias = Mapping[str, Any]

Align: TypeAlias = Literal["left", "center", "right"]


def panel(*layers: alt.Chart, width: float, height: float) -> alt.LayerChart:
    """Layers on top of each other, of this size in pixels."""
    return cast(alt.LayerChart, alt.layer(*layers).properties(width=width, height=height))


def data(rows: Iterable[Row]) -> pl.DataFrame:
    """Rows as the data of a mark; in their texts nothing acts on the reader's screen.

    A frame, because Altair copies rows that are objects again and again.
    """
    shown = [
        {name: visible(cell) if isinstance(cell, str) else cell for name, cell in row.items()}
        for row in rows
    ]
    return pl.DataFrame(shown, infer_schema_length=None, strict=False)


def down(field: str, height: float) -> alt.Y:
    """A place in pixels from the top of a panel."""
    scale = alt.Scale(domain=[height, 0], nice=False, zero=False, padding=0)
    return alt.Y(f"{field}:Q", scale=scale, axis=None)


def along(field: str, width: float) -> alt.X:
    """A place in pixels from the left of a panel that has no scale of its own."""
    scale = alt.Scale(domain=[0, width], nice=False, zero=False, padding=0)
    return alt.X(f"{field}:Q", scale=scale, axis=None)


def measured(field: str, domain: tuple[float, float], ticks: Sequence[float], **axis: Any) -> alt.X:
    """A place on a scale of figures, with its axis below the panel."""
    scale = alt.Scale(domain=[*domain], nice=False, zero=False, padding=0)
    return alt.X(
        f"{field}:Q",
        scale=scale,
        axis=alt.Axis(values=[*ticks], grid=False, labelOverlap=False, **axis),
    )


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round values within a range, at equal distances.

    >>> ticks(-21.5, 5)
    [-20.0, -15.0, -10.0, -5.0, 0.0, 5.0]
    >>> ticks(0, 1)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    least = (high - low) / most
    if not least > 0:
        return [low]
    power = 10.0 ** math.floor(math.log10(least))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= least * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(number * step, 10) + 0.0 for number in range(first, last + 1)]


def grid(values: Sequence[float], x: alt.X, strong: float | None = None) -> list[alt.Chart]:
    """Thin lines across a panel at these values, and a strong one."""
    lines = []
    if values:
        thin = alt.Chart(data({"x": value} for value in values)).mark_rule(color=GRID, aria=False)
        lines.append(thin.encode(x=x))
    if strong is not None:
        rule = alt.Chart(data([{"x": strong}])).mark_rule(color=INK, strokeWidth=1.2, aria=False)
        lines.append(rule.encode(x=x))
    return lines


def ground(spans: Sequence[tuple[float, float]], height: float) -> alt.Chart:
    """A faint band behind every second row, over the whole width of a panel."""
    shaded = [{"y": top, "y2": top + tall} for top, tall in spans[1::2]]
    bands: alt.Chart = (
        alt.Chart(data(shaded))
        .mark_rect(color=BAND, aria=False)
        .encode(y=down("y", height), y2="y2:Q")
    )
    return bands


def texts(
    rows: Sequence[Row],
    x: alt.X,
    height: float,
    *,
    align: Align = "left",
    colour: str = INK,
    bold: bool = False,
) -> alt.Chart:
    """The field `text` of each row at the pixel `y`; `tip` is shown under the pointer."""
    chart: alt.Chart = (
        alt.Chart(data(rows))
        .mark_text(
            align=align,
            baseline="middle",
            color=colour,
            fontSize=SIZE,
            fontWeight="bold" if bold else "normal",
            aria=bool(tips(rows)),
        )
        .encode(x=x, y=down("y", height), text="text:N", **tips(rows))
    )
    return chart


def tips(rows: Sequence[Row]) -> dict[str, Any]:
    """The encodings that show `tip` under the pointer and read it out, where rows have one."""
    if rows and "tip" in rows[0]:
        return {"tooltip": alt.Tooltip("tip:N"), "description": "tip:N"}
    return {}


def stacked(y: float, lines: Sequence[str], **fields: Any) -> list[dict[str, Any]]:
    """Rows for `texts` that put lines under each other, centred on `y`."""
    first = y - (len(lines) - 1) / 2 * LINE_HEIGHT
    return [
        {"y": first + number * LINE_HEIGHT, "text": line, **fields}
        for number, line in enumerate(lines)
    ]


def framed(
    title: str,
    notes: Sequence[str],
    keys: alt.LayerChart | None,
    panels: Sequence[alt.LayerChart],
    width: float,
    *,
    room: float = 26,
) -> Any:
    """Panels side by side under a title, notes and a legend.

    Args:
        title: what is shown.
        notes: what has to be known to read it.
        keys: the legend, None for none.
        panels: from left to right.
        width: of all panels, to which title and notes are wrapped.
        room: pixels above the panels, where headings of columns stand.
    """
    beside = alt.hconcat(*panels, spacing=0, bounds="flush")
    chart: Any = beside
    if keys is not None:
        chart = alt.vconcat(keys, beside, spacing=room, bounds="flush")
    least = max(width, 420)
    return chart.properties(
        title=alt.TitleParams(
            text=fitted(title, least, lines=3, size=TITLE_SIZE * BOLD),
            subtitle=[line for note in notes for line in fitted(note, least, lines=4)],
            anchor="start",
            frame="bounds",
            offset=14,
        )
    )


def nothing(title: str, notes: Sequence[str], what: str) -> Any:
    """A chart that says that there is nothing to draw, and of what."""
    width, height = 420.0, 40.0
    said = [{"x": 0.0, "y": height / 2, "text": what}]
    text = texts(said, along("x", width), height, colour=SOFT)
    return framed(title, notes, None, [panel(text, width=width, height=height)], width)


def widest(lines: Iterable[str]) -> float:
    """The room that the widest of some lines needs, in pixels."""
    return max(map(text_width, lines), default=0.0)
