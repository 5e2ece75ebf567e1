"""How an outcome is drawn everywhere: a colour, and on it a stroke of its own shape."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import altair as alt

from envbench.workbench.charts.drawing import Row, along, data, down
from envbench.workbench.charts.legend import Key
from envbench.workbench.charts.theme import (
    LINE,
    ON_OUTCOMES,
    OUTCOME_COLOURS,
    OUTCOME_MARKS,
    OUTCOMES,
)


def outcome_box(word: str, x: float, y: float, width: float, tall: float) -> dict[str, Any]:
    """A row for `outcome_boxes`: the box of an outcome, centred on a place in pixels."""
    return {
        "x": x,
        "y": y,
        "left": x - width / 2,
        "right": x + width / 2,
        "top": y - tall / 2,
        "bottom": y + tall / 2,
        "fill": OUTCOME_COLOURS[word],
        "stroke": LINE if word in ("unmatched", "unknown") else OUTCOME_COLOURS[word],
        "mark": OUTCOME_MARKS[word],
        "on": ON_OUTCOMES[word],
    }


def outcome_boxes(
    rows: Sequence[Row], width: float, height: float, *, opacity: float = 1, **encodings: Any
) -> list[alt.Chart]:
    """Boxes with their marks, for a panel of this size; encodings are those of the boxes."""
    x, y = along("left", width), down("top", height)
    place = {"x": along("x", width), "y": down("y", height)}
    box = alt.Chart(data(rows)).mark_rect(cornerRadius=2, strokeWidth=1, opacity=opacity)
    mark = alt.Chart(data(rows)).mark_point(
        filled=False, size=72, strokeWidth=1.7, strokeCap="round", opacity=opacity, aria=False
    )
    return [
        box.encode(
            x=x,
            x2="right:Q",
            y=y,
            y2="bottom:Q",
            fill=alt.Fill("fill:N", scale=None),
            stroke=alt.Stroke("stroke:N", scale=None),
            **encodings,
        ),
        mark.encode(
            **place,
            shape=alt.Shape("mark:N", scale=None),
            stroke=alt.Stroke("on:N", scale=None),
            **{name: value for name, value in encodings.items() if name == "tooltip"},
        ),
    ]


def outcome_keys(words: Iterable[str]) -> list[Key]:
    """Legend entries of the outcomes that occur."""
    there = set(words)
    return [
        Key(
            word,
            OUTCOME_COLOURS[word],
            mark=OUTCOME_MARKS[word],
            mark_colour=ON_OUTCOMES[word],
            stroke=LINE if word in ("unmatched", "unknown") else OUTCOME_COLOURS[word],
            size=230,
        )
        for word in OUTCOMES
        if word in there
    ]
