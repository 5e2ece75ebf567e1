"""`differences`: how much the pass rate of each check moved, with its interval, the worst first."""

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
from envbench.workbench.charts.figures import interval, p_value, points, verdict_word
from envbench.workbench.charts.legend import Key, legend
from envbench.workbench.charts.rows import Column, Row, Rows, column
from envbench.workbench.charts.theme import (
    INK,
    LINE,
    SOFT,
    VERDICT_COLOURS,
    VERDICT_SHAPES,
    VERDICTS,
)

PANEL_WIDTH = 230


def differences(comparison: Comparison) -> Chart:
    """Draw the difference in pass rate of every check, with its interval, the lowest first.

    A grey bar behind an interval reaches from the worst to the best difference that is possible
    with what was not measured.
    """
    rows = check_rows(comparison)
    figures = rows.columns([*flip_columns(rows), *figure_columns(rows, comparison)])
    panels = [rows.labels(), interval_panel(rows, PANEL_WIDTH), figures]
    width = rows.label_width + PANEL_WIDTH + figures.width
    title = "Difference in pass rate by check"
    notes = [*about(comparison), *open_notes(rows)]
    keys = legend(verdict_keys(rows, comparison), width)
    return Chart(framed(title, notes, keys, panels, width), title, notes)


def interval_panel(rows: Rows[CheckComparison], width: float) -> alt.LayerChart:
    """The panel with an interval a row, along an axis of percentage points."""
    domain = _domain(rows.values)
    x = measured(
        "x",
        domain,
        ticks(*domain),
        title=["difference, percentage points", "← fewer pass  |  more pass →"],
        labelExpr="datum.value == 0 ? '0' : format(datum.value, '+~f')",
    )
    y = down("y", rows.height)
    found = [_mark(row) for row in rows.rows if row.value.difference is not None]
    spans = [mark for mark in found if mark["low"] is not None]
    possible = [mark for mark in found if mark["lower"] is not None]
    beside = 6 * (domain[1] - domain[0]) / width
    missing = [
        {"x": beside, "y": row.middle, "text": "nothing measured"}
        for row in rows.rows
        if row.value.difference is None
    ]
    return panel(
        rows.ground(),
        *grid(ticks(*domain), x, strong=0),
        alt.Chart(data(possible))
        .mark_rect(color=LINE, opacity=0.35, cornerRadius=3, aria=False)
        .encode(x=alt.X("lower:Q"), x2="upper:Q", y=down("top", rows.height), y2="bottom:Q"),
        alt.Chart(data(spans))
        .mark_rule(strokeWidth=2.2, color=INK, aria=False)
        .encode(x=alt.X("low:Q"), x2="high:Q", y=y),
        alt.Chart(data(found))
        .mark_point(filled=True, size=115, opacity=1, strokeWidth=1.2, stroke=INK)
        .encode(
            x=alt.X("difference:Q"),
            y=y,
            shape=alt.Shape("shape:N", scale=None),
            fill=alt.Fill("colour:N", scale=None),
            **tips(found),
        ),
        texts(missing, x, rows.height, colour=SOFT),
        width=width,
        height=rows.height,
    )


def flip_columns(rows: Rows[CheckComparison]) -> list[Column]:
    """How many pairs broke and were fixed."""
    return [
        column("broke", [f"{len(check.broke):,}" for check in rows.values]),
        column("fixed", [f"{len(check.fixed):,}" for check in rows.values]),
    ]


def figure_columns(
    rows: Rows[CheckComparison], comparison: Comparison, *, intervals: bool = True
) -> list[Column]:
    """The columns that say in figures what an interval shows."""
    checks = rows.values
    covered = f"{100 * (1 - comparison.alpha):.4g}% interval"
    between = [column(covered, [interval(check.interval) for check in checks])]
    return [
        column("difference", [points(check.difference) for check in checks]),
        *(between if intervals else []),
        column("p (Holm)", [p_value(check.p_adjusted) for check in checks]),
        column("measured", [f"{check.pairs:,} of {check.total:,}" for check in checks]),
    ]


def verdict_keys(rows: Rows[CheckComparison], comparison: Comparison) -> list[Key]:
    """The verdicts that occur, the worst first."""
    there = {check.verdict for check in rows.values}
    return [
        Key(
            verdict_word(verdict, comparison.treatment),
            VERDICT_COLOURS[verdict],
            VERDICT_SHAPES[verdict],
            size=115,
            stroke=INK,
        )
        for verdict in VERDICTS
        if verdict in there
    ]


def open_notes(rows: Rows[CheckComparison]) -> list[str]:
    """What a grey bar is, where there is one."""
    if not any(map(_is_open, rows.values)):
        return []
    return ["Grey bar: what the difference could be with the pairs that were not measured."]


def _mark(row: Row[CheckComparison]) -> dict[str, Any]:
    check = row.value
    low, high = check.interval or (None, None)
    lower, upper = (check.lower, check.upper) if _is_open(check) else (None, None)
    return {
        "y": row.middle,
        "difference": _points(check.difference),
        "low": _points(low),
        "high": _points(high),
        "lower": _points(lower),
        "upper": _points(upper),
        "top": row.middle - 8,
        "bottom": row.middle + 8,
        "shape": VERDICT_SHAPES[check.verdict],
        "colour": VERDICT_COLOURS[check.verdict],
        "tip": row.tip,
    }


def _is_open(check: CheckComparison) -> bool:
    return check.difference is not None and check.lower is not None and check.lower != check.upper


def _points(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _domain(checks: list[CheckComparison]) -> tuple[float, float]:
    """From the lowest to the highest figure and zero, with room at both ends."""
    ends = [0.0]
    for check in checks:
        if check.difference is not None:
            shares = (check.difference, check.lower, check.upper, *(check.interval or ()))
            ends += [100 * share for share in shares if share is not None]
    low, high = min(ends), max(ends)
    if low == high:
        return -10.0, 10.0
    room = 0.06 * (high - low)
    return low - room, high + room
