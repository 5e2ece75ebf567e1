"""`case_grid`: every pair that changed, by every check, baseline and candidate side by side."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import altair as alt

from envbench.comparison import CheckComparison, Comparison, Pair
from envbench.workbench.charts.bundle import Chart
from envbench.workbench.charts.checks import MOST_CHECKS, about, worst_first
from envbench.workbench.charts.drawing import (
    along,
    data,
    down,
    framed,
    ground,
    panel,
    stacked,
    texts,
    tips,
    widest,
)
from envbench.workbench.charts.figures import count
from envbench.workbench.charts.legend import legend
from envbench.workbench.charts.names import fitted, listed
from envbench.workbench.charts.outcome_marks import outcome_box, outcome_boxes, outcome_keys
from envbench.workbench.charts.theme import LINE_HEIGHT, OUTCOMES, SOFT

MOST_PAIRS = 60
"""Rows of the grid; what changed beyond them is counted in a line of its own."""

MOST_CELLS = 2400
"""Cells of the grid: with many checks it has fewer rows."""

Link = Callable[[Pair, CheckComparison], str | None]


def case_grid(comparison: Comparison, *, link: Link | None = None) -> Chart:
    """Draw each pair that changed by any check, with what both sides came to by every check.

    Pairs that came to the same by every check are folded into one line, which says how many they
    are.

    Args:
        comparison: of any size.
        link: gives the address that a cell leads to, None for none.
    """
    checks = worst_first(comparison)[:MOST_CHECKS]
    changed, same = _split(comparison, checks)
    most = min(MOST_PAIRS, max(MOST_CELLS // max(len(checks), 1), 1))
    shown, further = changed[:most], changed[most:]
    place = _Place.of(checks, [row.name for row in shown])
    title = "Pairs that changed, by check"
    notes = [*about(comparison), *_notes(len(shown), len(further), len(same))]
    cells = [
        _cell(row, check, place, number, column, link)
        for number, row in enumerate(shown)
        for column, check in enumerate(checks)
    ]
    folded = [
        *([("further pairs that changed", further)] if further else []),
        *([("unchanged by every check", same)] if same else []),
    ]
    words = {word for cell in cells for word in cell["words"]}
    panels = [_labels(shown, folded, place), _grid(cells, checks, folded, place)]
    width = place.label_width + place.width
    keys = legend(outcome_keys(words), width) if words else None
    return Chart(framed(title, notes, keys, panels, width, room=6), title, notes)


@dataclasses.dataclass(frozen=True, slots=True)
class _PairRow:
    name: str
    pair: Pair
    words: tuple[tuple[str, str], ...]

    @property
    def rank(self) -> tuple[int, int, int, str]:
        """Those that broke most are first, then those that were lost, then those fixed."""
        counts = Counter(self.words)
        broke, fixed = counts["passed", "failed"], counts["failed", "passed"]
        other = sum(a != b for a, b in self.words) - broke - fixed
        return (-broke, -other, -fixed, self.name)


def _split(
    comparison: Comparison, checks: Sequence[CheckComparison]
) -> tuple[list[_PairRow], list[_PairRow]]:
    changed: list[_PairRow] = []
    same: list[_PairRow] = []
    for index, (name, pair) in enumerate(zip(comparison.names, comparison.pairs, strict=True)):
        row = _PairRow(name, pair, tuple(check.outcomes[index] for check in checks))
        (changed if any(a != b for a, b in row.words) else same).append(row)
    return sorted(changed, key=lambda row: row.rank), same


@dataclasses.dataclass(frozen=True, slots=True)
class _Place:
    """Where things are, in pixels."""

    head: float
    row: float
    column: float
    label_width: float
    columns: int
    rows: int
    slanted: bool

    @classmethod
    def of(cls, checks: Sequence[CheckComparison], names: Sequence[str]) -> _Place:
        slanted = len(checks) > _UPRIGHT
        if slanted:
            longest = widest(_slanted_name(check) for check in checks)
            head = longest * 0.71 + 20
        else:
            most = max((len(_upright_name(check)) for check in checks), default=1)
            head = most * LINE_HEIGHT + 16
        labels = [line for name in names for line in _pair_lines(name)]
        tallest = max((len(_pair_lines(name)) for name in names), default=1)
        return cls(
            head=head,
            row=24.0 if tallest == 1 else 36.0,
            column=_SLANTED_COLUMN if slanted else _UPRIGHT_COLUMN,
            label_width=max(widest(labels), 220 if slanted else 150) + 18,
            columns=len(checks),
            rows=len(names),
            slanted=slanted,
        )

    @property
    def width(self) -> float:
        return self.columns * self.column + (self.head if self.slanted else 12)

    def x(self, column: int) -> float:
        return (column + 0.5) * self.column

    def y(self, row: int) -> float:
        return self.head + (row + 0.5) * self.row

    def folded(self, number: int) -> float:
        """The middle of a line of folded pairs, below the others."""
        return self.head + self.rows * self.row + 10 + (number + 0.5) * _FOLDED

    def height(self, folded: int) -> float:
        return self.head + self.rows * self.row + (10 + folded * _FOLDED if folded else 4)


_UPRIGHT = 7
_UPRIGHT_COLUMN = 90.0
_SLANTED_COLUMN = 40.0
_FOLDED = 68.0
_PAIR_WIDTH = 210.0


def _upright_name(check: CheckComparison) -> list[str]:
    return fitted(check.name, _UPRIGHT_COLUMN - 8, lines=4)


def _slanted_name(check: CheckComparison) -> str:
    return fitted(check.name, 170, lines=1)[0]


def _pair_lines(name: str) -> list[str]:
    return fitted(name, _PAIR_WIDTH, lines=2)


def _cell(
    row: _PairRow,
    check: CheckComparison,
    place: _Place,
    number: int,
    column: int,
    link: Link | None,
) -> dict[str, Any]:
    words = row.words[column]
    said = words[0] if words[0] == words[1] else f"{words[0]}, then {words[1]}"
    return {
        "words": words,
        "x": place.x(column),
        "y": place.y(number),
        "tip": f"{row.name}, {check.name}: {said}",
        "href": link(row.pair, check) if link else None,
    }


def _grid(
    cells: Sequence[dict[str, Any]],
    checks: Sequence[CheckComparison],
    folded: Sequence[tuple[str, Sequence[_PairRow]]],
    place: _Place,
) -> alt.LayerChart:
    height, width = place.height(len(folded)), place.width
    half = 16.0 if place.slanted else 26.0
    strong: list[dict[str, Any]] = []
    faint: list[dict[str, Any]] = []
    for cell in cells:
        before, after = cell["words"]
        more = {name: cell[name] for name in ("tip", "href")}
        if before == after:
            faint.append(outcome_box(before, cell["x"], cell["y"], 2 * half + 1, 18) | more)
            continue
        for word, side in ((before, -1), (after, 1)):
            x = cell["x"] + side * (half / 2 + 0.5)
            strong.append(outcome_box(word, x, cell["y"], half, 18) | more)
    counted: list[dict[str, Any]] = []
    for line, (_, rows) in enumerate(folded):
        for column, check in enumerate(checks):
            counts = Counter(row.words[column] for row in rows)
            counted += stacked(
                place.folded(line),
                _summary(counts, short=place.slanted),
                x=place.x(column),
                tip=f"{check.name}, {len(rows)} pairs: {_in_words(counts)}",
            )
    layers: list[Any] = [
        ground(_spans(place), height),
        _head(checks, place, height),
        *_boxes(faint, width, height, opacity=0.28),
        *_boxes(strong, width, height, opacity=1),
        texts(counted, along("x", width), height, align="center", colour=SOFT),
    ]
    return panel(*layers, width=width, height=height)


def _boxes(
    cells: Sequence[dict[str, Any]], width: float, height: float, *, opacity: float
) -> list[alt.Chart]:
    """The boxes of cells; those that lead nowhere are no links."""
    linked = [cell for cell in cells if cell["href"] is not None]
    plain = [cell for cell in cells if cell["href"] is None]
    shown = []
    if plain or not linked:
        shown += outcome_boxes(plain, width, height, opacity=opacity, **tips(plain))
    if linked:
        more = {**tips(linked), "href": alt.Href("href:N")}
        shown += outcome_boxes(linked, width, height, opacity=opacity, **more)
    return shown


def _head(checks: Sequence[CheckComparison], place: _Place, height: float) -> alt.Chart:
    """The names of the checks above their columns."""
    rows: list[dict[str, Any]] = []
    for column, check in enumerate(checks):
        tip = f"{check.name}: {check.verdict}"
        if place.slanted:
            rows.append(
                {
                    "x": place.x(column) - 2,
                    "y": place.head - 8,
                    "text": _slanted_name(check),
                    "tip": tip,
                }
            )
            continue
        lines = _upright_name(check)
        middle = place.head - 8 - len(lines) / 2 * LINE_HEIGHT
        rows += stacked(middle, lines, x=place.x(column), tip=tip)
    x = along("x", place.width)
    if not place.slanted:
        return texts(rows, x, height, align="center")
    slanted = alt.Chart(data(rows)).mark_text(align="left", baseline="middle", angle=315)
    names: alt.Chart = slanted.encode(x=x, y=down("y", height), text="text:N", **tips(rows))
    return names


def _labels(
    rows: Sequence[_PairRow],
    folded: Sequence[tuple[str, Sequence[_PairRow]]],
    place: _Place,
) -> alt.LayerChart:
    height, end = place.height(len(folded)), place.label_width - 12
    names: list[dict[str, Any]] = []
    for number, row in enumerate(rows):
        names += stacked(place.y(number), _pair_lines(row.name), x=end, tip=row.name)
    soft: list[dict[str, Any]] = []
    for line, (what, folded_rows) in enumerate(folded):
        many = count(len(folded_rows), "pair")
        text = [f"{many} {what}:", *_SHORT] if place.slanted else [many, what]
        soft += stacked(place.folded(line), text, x=end)
    x = along("x", place.label_width)
    return panel(
        ground(_spans(place), height),
        texts(names, x, height, align="right"),
        texts(soft, x, height, align="right", colour=SOFT),
        width=place.label_width,
        height=height,
    )


def _spans(place: _Place) -> list[tuple[float, float]]:
    return [(place.head + number * place.row, place.row) for number in range(place.rows)]


_SHORT = ("passed on both sides", "failed on both sides", "anything else")
"""The lines of a narrow column, where a count stands alone."""


def _summary(counts: Counter[tuple[str, str]], *, short: bool) -> list[str]:
    """What folded pairs came to, in a few lines that fit a column."""
    passed, failed = counts["passed", "passed"], counts["failed", "failed"]
    if short:
        return ["", f"{passed:,}", f"{failed:,}", f"{counts.total() - passed - failed:,}"]
    lines = [f"{counts[word, word]:,} {word}" for word in OUTCOMES if counts[word, word]]
    changes = sum(number for (a, b), number in counts.items() if a != b)
    if changes:
        lines.append(f"{changes:,} changed")
    return lines[:3] if len(lines) <= 3 else [*lines[:2], "…"]


def _in_words(counts: Counter[tuple[str, str]]) -> str:
    return listed(
        [
            f"{number} {before if before == after else f'{before}, then {after}'}"
            for (before, after), number in counts.most_common()
        ]
    )


def _notes(n_shown: int, n_further: int, n_same: int) -> list[str]:
    changed = n_shown + n_further
    everything = count(changed + n_same, "pair")
    if not changed:
        return [f"None of {everything} changed by any check."]
    halves = "in each cell the baseline is left and the candidate right"
    lines = [f"{changed:,} of {everything} changed; {halves}."]
    if n_further:
        lines.append(f"The {n_shown} that broke by most checks are shown one by one.")
    return lines
