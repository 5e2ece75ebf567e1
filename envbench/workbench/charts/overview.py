"""`overview`: the intervals of `differences` and the bars of `flips` side by side."""

from __future__ import annotations

from envbench.comparison import Comparison
from envbench.workbench.charts.bundle import Chart
from envbench.workbench.charts.checks import about, check_rows
from envbench.workbench.charts.differences import (
    figure_columns,
    interval_panel,
    open_notes,
    verdict_keys,
)
from envbench.workbench.charts.drawing import framed
from envbench.workbench.charts.flips import flip_keys, flip_panel
from envbench.workbench.charts.legend import legend

INTERVAL_WIDTH = 230
FLIP_WIDTH = 164


def overview(comparison: Comparison) -> Chart:
    """Draw what a comparison found in one picture: differences, flips and their figures."""
    rows = check_rows(comparison)
    figures = rows.columns(figure_columns(rows, comparison, intervals=False))
    panels = [
        rows.labels(),
        interval_panel(rows, INTERVAL_WIDTH),
        flip_panel(rows, FLIP_WIDTH),
        figures,
    ]
    width = rows.label_width + INTERVAL_WIDTH + FLIP_WIDTH + figures.width
    title, notes = "What changed, by check", about(comparison)
    if any(check.interval for check in rows.values):
        covered = f"{100 * (1 - comparison.alpha):.4g}%"
        notes.append(f"Lines are {covered} intervals of the difference in pass rate.")
    notes += open_notes(rows)
    keys = legend([*verdict_keys(rows, comparison), *flip_keys()], width)
    return Chart(framed(title, notes, keys, panels, width), title, notes)
