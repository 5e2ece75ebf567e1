"""A legend in one line: each mark as it is drawn, with its name beside it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import altair as alt

from envbench.workbench.charts.drawing import along, data, down, panel, texts
from envbench.workbench.charts.names import text_width
from envbench.workbench.charts.theme import INK, LINE, SOFT

HEIGHT = 22.0


@dataclasses.dataclass(frozen=True, slots=True)
class Key:
    """One entry of a legend.

    Attributes:
        text: its name.
        colour: of the ground.
        shape: a shape of Vega or an SVG path; drawn filled with `colour`.
        mark: an SVG path drawn on it, None for none.
        mark_colour: of that path.
        size: area of the shape in square pixels.
        stroke: colour of its outline.
    """

    text: str
    colour: str
    shape: str = "square"
    mark: str | None = None
    mark_colour: str = INK
    size: float = 170
    stroke: str = LINE


def legend(keys: Sequence[Key], width: float) -> alt.LayerChart:
    """The keys from left to right, in as many lines as they need."""
    x, y = 8.0, HEIGHT / 2
    rows: list[dict[str, Any]] = []
    for key in keys:
        needed = 16 + text_width(key.text) + 22
        if x + needed > width and rows:
            x, y = 8.0, y + HEIGHT
        rows.append({"x": x, "y": y, **dataclasses.asdict(key)})
        x += needed
    height = y + HEIGHT / 2 + 8
    place = {"x": along("x", width), "y": down("y", height)}
    values = data(rows)
    grounds = (
        alt.Chart(values)
        .mark_point(filled=True, opacity=1, strokeWidth=1.2, aria=False)
        .encode(
            **place,
            shape=alt.Shape("shape:N", scale=None),
            fill=alt.Fill("colour:N", scale=None),
            stroke=alt.Stroke("stroke:N", scale=None),
            size=alt.Size("size:Q", scale=None),
        )
    )
    marks = (
        alt.Chart(data([row for row in rows if row["mark"]]))
        .mark_point(filled=False, strokeWidth=1.7, strokeCap="round", opacity=1, aria=False)
        .encode(
            **place,
            shape=alt.Shape("mark:N", scale=None),
            stroke=alt.Stroke("mark_colour:N", scale=None),
            size=alt.value(100),
        )
    )
    words = texts(
        [{"x": row["x"] + 13, "y": row["y"], "text": row["text"]} for row in rows],
        along("x", width),
        height,
        colour=SOFT,
    )
    return panel(grounds, marks, words, width=width, height=height)
