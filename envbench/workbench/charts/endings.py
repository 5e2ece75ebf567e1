"""`endings`: how the episodes of each version ended."""

from __future__ import annotations

import dataclasses
from typing import Any

import altair as alt
import polars as pl

from envbench.comparison import Episodes
from envbench.store import Store
from envbench.workbench.charts.bundle import Chart
from envbench.workbench.charts.drawing import (
    along,
    data,
    down,
    framed,
    nothing,
    panel,
    stacked,
    texts,
    tips,
)
from envbench.workbench.charts.figures import count, percent
from envbench.workbench.charts.rows import HEAD, Rows, column, lay_out
from envbench.workbench.charts.sources import Source, episodes_of
from envbench.workbench.charts.theme import BLUE, GRID, SOFT, VERMILION

ENDINGS = (
    "terminated",
    "truncated",
    "policy_stop",
    "step_limit",
    "reset_early",
    "closed_early",
    "interrupted",
    "error",
)
"""Every ending, those that are faults last."""

MOST_VERSIONS = 40


def endings(
    source: Source, *, store: Store | None = None, episodes: Episodes | None = None
) -> Chart:
    """Draw how the episodes of each version ended: a column an ending, a bar its share.

    Args:
        source: a store, a report, or several reports.
        store: where the episodes of reports are; not needed.
        episodes: which episodes of a store are counted; all by default.

    Raises:
        TypeError, ValueError: as `sources.episodes_of`.
    """
    frame = episodes_of(source, store=store, episodes=episodes)
    versions, notes = versions_of(frame)
    title = "How episodes ended, by version"
    if not versions:
        return Chart(nothing(title, notes, "No episode."), title, notes)
    there = set(frame["ending"])
    columns = [ending for ending in ENDINGS if ending in there]
    columns += sorted(there - set(ENDINGS))
    rows = lay_out(versions, lambda version: version.name, tip=_in_words)
    figures = rows.columns([column("episodes", [f"{v.total:,}" for v in versions])])
    panel = _panel(rows, columns)
    width = rows.label_width + panel.width + figures.width
    panels = [rows.labels(), panel, figures]
    return Chart(framed(title, notes, None, panels, width), title, notes)


@dataclasses.dataclass(frozen=True, slots=True)
class VersionEndings:
    """The episodes of one version, counted by their ending."""

    name: str
    counts: dict[str, int]

    @property
    def total(self) -> int:
        """All episodes of the version."""
        return sum(self.counts.values())


def versions_of(frame: pl.DataFrame) -> tuple[list[VersionEndings], list[str]]:
    """The versions in order of their names, and what to say of how many episodes there are."""
    counted: dict[str, dict[str, int]] = {}
    by = frame.group_by("version", "ending", maintain_order=True).len()
    for name, ending, number in by.iter_rows():
        counted.setdefault(name, {})[ending] = number
    versions = [VersionEndings(name, counts) for name, counts in counted.items()]
    many = count(len(versions), "version")
    notes = [f"{count(len(frame), 'episode')} of {many}."]
    if len(versions) > MOST_VERSIONS:
        versions = sorted(versions, key=lambda version: -version.total)[:MOST_VERSIONS]
        notes.append(f"The {MOST_VERSIONS} with the most episodes are shown.")
    return versions, notes


_COLUMN = 112.0
_BAR = 92.0


def _panel(rows: Rows[VersionEndings], columns: list[str]) -> alt.LayerChart:
    width = max(len(columns), 1) * _COLUMN + 8
    tracks: list[dict[str, Any]] = []
    bars: list[dict[str, Any]] = []
    figures: list[dict[str, Any]] = []
    heads: list[dict[str, Any]] = []
    for number, ending in enumerate(columns):
        left = number * _COLUMN + 12
        colour = VERMILION if ending in ("error", "interrupted") else BLUE
        heads += stacked(HEAD, [ending], x=left)
        for row in rows.rows:
            n, total = row.value.counts.get(ending, 0), row.value.total
            tip = f"{row.value.name}: {n:,} of {count(total, 'episode')} {ending}"
            box = {"x": left, "top": row.middle + 5, "bottom": row.middle + 10, "tip": tip}
            tracks.append({**box, "x2": left + _BAR})
            if n:
                bars.append({**box, "x2": left + _BAR * n / total, "fill": colour})
            text = f"{n:,} ({percent(n, total)})" if n else "0"
            figures.append({"x": left, "y": row.middle - 5, "text": text, "tip": tip})
    x, height = along("x", width), rows.height
    bar = {"y": down("top", height), "y2": "bottom:Q", "x2": "x2:Q"}
    return panel(
        rows.ground(),
        alt.Chart(data(tracks)).mark_rect(color=GRID, aria=False).encode(x=x, **bar),
        alt.Chart(data(bars))
        .mark_rect(opacity=1)
        .encode(x=x, fill=alt.Fill("fill:N", scale=None), **bar, **tips(bars)),
        texts(figures, x, height),
        texts(heads, x, height, colour=SOFT),
        width=width,
        height=height,
    )


def _in_words(version: VersionEndings) -> str:
    parts = [f"{number:,} {ending}" for ending, number in version.counts.items()]
    return f"{version.name}: {', '.join(parts)} of {count(version.total, 'episode')}"
