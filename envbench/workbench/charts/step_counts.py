"""`step_counts`: how many steps the episodes of each version took."""

from __future__ import annotations

from envbench.comparison import Episodes
from envbench.store import Store
from envbench.workbench.charts.bundle import Chart
from envbench.workbench.charts.distributions import (
    bins_over,
    counted,
    figure,
    histograms,
    in_words,
    spread,
)
from envbench.workbench.charts.drawing import framed, nothing
from envbench.workbench.charts.endings import versions_of
from envbench.workbench.charts.figures import count
from envbench.workbench.charts.rows import column, lay_out
from envbench.workbench.charts.sources import Source, episodes_of
from envbench.workbench.charts.theme import BLUE

PANEL_WIDTH = 290


def step_counts(
    source: Source, *, store: Store | None = None, episodes: Episodes | None = None
) -> Chart:
    """Draw how many steps the episodes of each version took, as one histogram a version.

    Args:
        source: a store, or reports with `store`.
        store: where the episodes of reports are, which keep no step counts themselves.
        episodes: which episodes of a store are counted; all by default.

    Raises:
        TypeError, ValueError: as `sources.episodes_of`.
    """
    frame = episodes_of(source, store=store, episodes=episodes, needs=["step count"])
    versions, notes = versions_of(frame)
    title = "Steps of an episode, by version"
    if not versions:
        return Chart(nothing(title, notes, "No episode."), title, notes)
    bins = bins_over(frame["n_steps"])
    by_version = frame.partition_by("version", as_dict=True)
    shown = [
        counted(version.name, by_version[version.name,]["n_steps"], bins, colour=BLUE)
        for version in versions
    ]
    rows = lay_out(
        shown,
        lambda one: one.name,
        tip=lambda one: in_words(one, "episode", "steps"),
        least_height=60,
    )
    figures = rows.columns(
        [
            column("episodes", [f"{one.total:,}" for one in shown]),
            column("median", [figure(one.median) for one in shown]),
            column("mean", [figure(one.mean) for one in shown]),
            column("range", [spread(one) for one in shown]),
        ]
    )
    panel = histograms(rows, bins, PANEL_WIDTH, title="steps", unit="episode")
    width = rows.label_width + PANEL_WIDTH + figures.width
    steps = int(frame["n_steps"].sum() or 0)
    notes.append(
        f"Counted from {count(steps, 'step')}. The figure is that of the highest bar; the triangle "
        "is the median."
    )
    return Chart(framed(title, notes, None, [rows.labels(), panel, figures], width), title, notes)
