"""Distributions as small histograms, one a row, on one axis."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from envbench.workbench.charts.drawing import data, down, grid, measured, panel, texts, ticks, tips
from envbench.workbench.charts.figures import count
from envbench.workbench.charts.names import text_width
from envbench.workbench.charts.rows import Rows
from envbench.workbench.charts.theme import INK, LINE

MOST_BINS = 48


@dataclasses.dataclass(frozen=True, slots=True)
class Distribution:
    """Values in one row, already counted.

    Attributes:
        name: what they are of.
        colour: of the bars.
        counts: how many values are in each bin, by the number of the bin.
        total: everything that could have a value.
        known: how many have one.
        least, median, mean, most: of those; None when there are none.
        group: the heading under which it stands; empty for none.
    """

    name: str
    colour: str
    counts: dict[int, int]
    total: int
    known: int
    least: float | None
    median: float | None
    mean: float | None
    most: float | None
    group: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Bins:
    """Bins of equal width, the first beginning at `start`."""

    start: float
    width: float
    number: int

    @classmethod
    def over(cls, least: float, most: float, *, whole: bool) -> Bins:
        """Bins over a range; of whole numbers one a value where they are few.

        Args:
            least: the lowest value.
            most: the highest value.
            whole: whether all values are whole numbers.
        """
        if whole and most - least < MOST_BINS:
            return cls(least - 0.5, 1.0, int(most - least) + 1)
        if least == most:
            return cls(least - 0.5, 1.0, 1)
        places = ticks(least, most, MOST_BINS)
        width = places[1] - places[0] if len(places) > 1 else (most - least) / MOST_BINS
        if whole:
            width = float(math.ceil(width))
        start = math.floor(least / width) * width
        return cls(start, width, int((most - start) / width) + 1)

    @property
    def end(self) -> float:
        """Where the last bin ends."""
        return self.start + self.width * self.number

    def of(self, number: int) -> tuple[float, float]:
        """Where a bin begins and ends."""
        return self.start + number * self.width, self.start + (number + 1) * self.width


def histograms(
    rows: Rows[Distribution], bins: Bins, width: float, *, title: str, unit: str
) -> alt.LayerChart:
    """The panel with a histogram a row; the highest bar of each row fills it and has its figure.

    Args:
        rows: the distributions.
        bins: the bins that they were counted in.
        width: of the panel, in pixels.
        title: of the axis.
        unit: what is counted, in the singular.
    """
    # a single bar is not to fill the panel
    room = max(0.03 * (bins.end - bins.start), (12 - bins.number) * bins.width / 2)
    domain = (bins.start - room, bins.end + room)
    places = _fitting(*(domain if bins.number < 12 else (bins.start, bins.end)), width)
    if bins.width == 1.0:
        places = [place for place in places if place == int(place)]
    if bins.start >= -0.5:  # nothing below zero was seen, and may not be possible
        places = [place for place in places if place >= 0]
    x = measured("start", domain, places, title=title, format=",~r")
    bars: list[dict[str, Any]] = []
    medians: list[dict[str, Any]] = []
    figures: list[dict[str, Any]] = []
    least_width = 1.6 * (domain[1] - domain[0]) / width
    for row in rows.rows:
        shown = row.value
        most = max(shown.counts.values(), default=1)
        floor, tall = row.top + row.height - 10, row.height - 29
        for number, n in sorted(shown.counts.items()):
            start, end = bins.of(number)
            what = f"{start + 0.5:,.0f}" if _single(bins) else f"{start:,g} to {end:,g}"
            bars.append(
                {
                    "start": start,
                    "end": max(end, start + least_width),
                    "top": floor - max(tall * n / most, 1.5),
                    "bottom": floor,
                    "fill": shown.colour,
                    "tip": f"{shown.name}: {count(n, unit)} at {what}",
                }
            )
        for number, n in sorted(shown.counts.items()):
            if n == most:
                middle = sum(bins.of(number)) / 2
                place = {"start": middle, "y": floor - tall - 8, "text": f"{n:,}"}
                figures.append({**place, "tip": row.tip})
                break
        if shown.median is not None:
            medians.append({"start": shown.median, "y": floor + 5, "tip": row.tip})
    place = {"x": x, "y": down("top", rows.height), "y2": "bottom:Q"}
    floors = [{"y": row.top + row.height - 10} for row in rows.rows]
    return panel(
        rows.ground(),
        *grid(places, x),
        alt.Chart(data(floors))
        .mark_rule(color=LINE, strokeWidth=0.7, aria=False)
        .encode(y=down("y", rows.height)),
        alt.Chart(data(bars))
        .mark_rect(opacity=1, stroke=LINE, strokeWidth=0.4)
        .encode(**place, x2="end:Q", fill=alt.Fill("fill:N", scale=None), **tips(bars)),
        alt.Chart(data(medians))
        .mark_point(shape="triangle-up", filled=True, color=INK, opacity=1, size=45)
        .encode(x=alt.X("start:Q"), y=down("y", rows.height), **tips(medians)),
        texts(figures, alt.X("start:Q"), rows.height, align="center"),
        width=width,
        height=rows.height,
    )


def _fitting(low: float, high: float, width: float) -> list[float]:
    """As many ticks as have room for their labels, six at most."""
    for most in range(6, 1, -1):
        places = ticks(low, high, most)
        room = width * (places[1] - places[0]) / (high - low) if len(places) > 1 else width
        if room >= max(text_width(f"{place:,.15g}") for place in places) + 8:
            break
    return places


def figure(value: float | None) -> str:
    """A value of a distribution as text.

    >>> figure(12.0), figure(0.3333333), figure(None), figure(1234567.0)
    ('12', '0.333', '–', '1,234,567')
    """
    if value is None:
        return "–"
    text = f"{value:,.0f}" if value == int(value) or abs(value) >= 1000 else f"{value:,.3g}"
    return text.replace("-", "−")


def spread(shown: Distribution) -> str:
    """The lowest and the highest value."""
    if shown.least is None or shown.most is None:
        return "–"
    return f"{figure(shown.least)} to {figure(shown.most)}"


def in_words(shown: Distribution, unit: str, what: str) -> str:
    """A distribution in a sentence."""
    if shown.median is None:
        return f"{shown.name}: no {what} of {count(shown.total, unit)}"
    return (
        f"{shown.name}: {what} of {shown.known:,} of {count(shown.total, unit)}, "
        f"median {figure(shown.median)}, mean {figure(shown.mean)}, {spread(shown)}"
    )


def counted(
    name: str, values: pl.Series, bins: Bins, *, colour: str, group: str = ""
) -> Distribution:
    """Count values into bins; those that are null or not finite are counted as not known."""
    known = values.drop_nulls().cast(pl.Float64())
    known = known.filter(known.is_finite())
    found = known.to_numpy()
    numbers = np.minimum((found - bins.start) // bins.width, bins.number - 1).astype(np.int64)
    numbers, counts = np.unique(numbers, return_counts=True)
    return Distribution(
        name=name,
        colour=colour,
        counts=dict(zip(numbers.tolist(), counts.tolist(), strict=True)),
        total=len(values),
        known=len(known),
        least=float(found.min()) if len(found) else None,
        median=float(np.median(found)) if len(found) else None,
        mean=float(found.mean()) if len(found) else None,
        most=float(found.max()) if len(found) else None,
        group=group,
    )


def bins_over(values: pl.Series) -> Bins:
    """Bins for all finite values of a column."""
    known = values.drop_nulls().cast(pl.Float64())
    known = known.filter(known.is_finite())
    if not len(known):
        return Bins(-0.5, 1.0, 1)
    found = known.to_numpy()
    return Bins.over(float(found.min()), float(found.max()), whole=bool((found % 1 == 0).all()))


def _single(bins: Bins) -> bool:
    return bins.width == 1.0 and bins.start != int(bins.start)
