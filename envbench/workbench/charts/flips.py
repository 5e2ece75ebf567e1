"""`flips`: how many pairs broke and how many were fixed, check by check, on one axis."""

from __future__ import annotations

from typing import Any

import altair as alt

from envbench.comparison import CheckComparison, Comparison
from envbench.workbench.charts.bundle import Chart
from envbench.workbench.charts.checks import about, check_rows
from envbench.workbench.charts.drawing import (
    data,
    down,
    framed,
    grid,
    measured,
    panel,
    texts,
    ticks,
    tips,
)
from envbench.workbench.charts.legend import Key, legend
from envbench.workbench.charts.rows import Rows, column
from envbench.workbench.charts.theme import BLUE, VERMILION

PANEL_WIDTH = 230


def flips(comparison: Comparison) -> Chart:
    """Draw how many pairs passed and then failed (broke), and the other way (fixed), by check.

    The rows are those of `differences`, in the same order.
    """
    rows = check_rows(comparison)
    figures = rows.columns(
        [
            column("both passed", [_both(check, "passed") for check in rows.values]),
            column("both failed", [_both(check, "failed") for check in rows.values]),
            column("not measured", [f"{check.total - check.pairs:,}" for check in rows.values]),
            column("all pairs", [f"{check.total:,}" for check in rows.values]),
        ]
    )
    panels = [rows.labels(), flip_panel(rows, PANEL_WIDTH), figures]
    width = rows.label_width + PANEL_WIDTH + figures.width
    title, notes = "Pairs that broke or were fixed, by check", about(comparison)
    keys = legend(flip_keys(), width)
    return Chart(framed(title, notes, keys, panels, width), title, notes)


def flip_panel(rows: Rows[CheckComparison], width: float) -> alt.LayerChart:
    """The panel with a bar to the left for what broke and one to the right for what was fixed."""
    most = max([1, *(len(names) for c in rows.values for names in (c.broke, c.fixed))])
    # the figure at the end of the longest bar needs room too
    reach = most * width / (width - 2 * _FIGURE_ROOM)
    values = [value for value in ticks(-most, most, 4) if value == int(value)]
    x = measured(
        "x",
        (-reach, reach),
        values,
        title=["pairs", "← broke  |  fixed →"],
        labelExpr="format(abs(datum.value), ',')",
    )
    bars: list[dict[str, Any]] = []
    figures: dict[str, list[dict[str, Any]]] = {"left": [], "right": []}
    for row in rows.rows:
        for names, sign, align, colour in (
            (row.value.broke, -1, "right", VERMILION),
            (row.value.fixed, 1, "left", BLUE),
        ):
            end = sign * len(names)
            place = {"top": row.middle - 8, "bottom": row.middle + 8, "tip": row.tip}
            if names:
                bars.append({"x": 0, "end": end, "colour": colour, **place})
            beside = end + sign * 5 * 2 * reach / width
            figures[align].append(
                {"x": beside, "y": row.middle, "text": f"{len(names):,}", "tip": row.tip}
            )
    return panel(
        rows.ground(),
        *grid(values, x),
        alt.Chart(data(bars))
        .mark_rect(opacity=1)
        .encode(
            x=x,
            x2="end:Q",
            y=down("top", rows.height),
            y2="bottom:Q",
            fill=alt.Fill("colour:N", scale=None),
            **tips(bars),
        ),
        *grid([], x, strong=0),
        *(texts(figures[align], x, rows.height, align=align) for align in ("right", "left")),
        width=width,
        height=rows.height,
    )


def flip_keys() -> list[Key]:
    """What the bars are."""
    return [
        Key("broke: passed, then failed", VERMILION, stroke=VERMILION),
        Key("fixed: failed, then passed", BLUE, stroke=BLUE),
    ]


_FIGURE_ROOM = 34.0


def _both(check: CheckComparison, word: str) -> str:
    return f"{sum(n for sides, n in check.table.items() if sides == (word, word)):,}"
