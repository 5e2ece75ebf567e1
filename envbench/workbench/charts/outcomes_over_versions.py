"""`outcomes_over_versions`: what each version came to, check by check, and how it compares."""

from __future__ import annotations

import dataclasses
from typing import Any

import altair as alt

from envbench.checks import Rate
from envbench.comparison import CheckComparison, Comparisons
from envbench.workbench.charts.bundle import Chart
from envbench.workbench.charts.drawing import data, down, framed, grid, measured, panel, tips
from envbench.workbench.charts.figures import (
    count,
    in_words,
    p_value,
    percent,
    points,
    verdict_word,
)
from envbench.workbench.charts.legend import legend
from envbench.workbench.charts.names import text_width
from envbench.workbench.charts.outcome_marks import outcome_keys
from envbench.workbench.charts.rows import Rows, column, lay_out
from envbench.workbench.charts.theme import LINE, ON_OUTCOMES, OUTCOME_COLOURS

MOST_ROWS = 120
"""Rows of the chart; what is left out are the checks that changed least, and it is said."""

PANEL_WIDTH = 230


def outcomes_over_versions(comparisons: Comparisons) -> Chart:
    """Draw how often each version passed, failed and was unknown by each check.

    The baseline comes first, and the versions follow in the order in which they were given. The
    checks that fell most in any version come first.
    """
    versions, left_out = _versions(comparisons)
    rows = lay_out(
        versions,
        lambda version: version.name,
        tip=_in_words,
        group=lambda version: version.check,
        least_height=26,
    )
    figures = rows.columns(
        [
            column("passed", [_passed(version.rate) for version in versions]),
            column("not measured", [f"{v.rate.unknown + v.rate.errors:,}" for v in versions]),
            column("difference", [_difference(version) for version in versions]),
            column("p (Holm)", [_p(version) for version in versions]),
            column("verdict", [_verdict(version) for version in versions]),
        ]
    )
    panels = [rows.labels(), _bars(rows), figures]
    width = rows.label_width + PANEL_WIDTH + figures.width
    title = "Outcomes over versions, by check"
    keys = legend(outcome_keys(word for version in versions for word, _ in _parts(version)), width)
    notes = _notes(comparisons, versions, left_out)
    return Chart(framed(title, notes, keys, panels, width), title, notes)


@dataclasses.dataclass(frozen=True, slots=True)
class _Version:
    """One version by one check; `compared` is None for the baseline."""

    name: str
    check: str
    rate: Rate
    treatment: str
    compared: CheckComparison | None


def _versions(comparisons: Comparisons) -> tuple[list[_Version], int]:
    by_check: dict[str, list[_Version]] = {}
    for comparison in comparisons:
        for check in comparison.checks:
            group = by_check.setdefault(check.name, [])
            if not group:
                first = (comparison.baseline_name, check.name, check.baseline_rate)
                group.append(_Version(*first, comparison.treatment, None))
            name = comparison.candidate_name
            rate = check.candidate_rate
            group.append(_Version(name, check.name, rate, comparison.treatment, check))
    groups = sorted(by_check.values(), key=_lowest)
    kept: list[_Version] = []
    for number, group in enumerate(groups):
        if kept and len(kept) + len(group) > MOST_ROWS:
            return kept, len(groups) - number
        kept += group
    return kept, 0


def _lowest(group: list[_Version]) -> tuple[bool, float, str]:
    found = [v.compared.difference for v in group if v.compared is not None]
    known = [difference for difference in found if difference is not None]
    return not known, min(known, default=0.0), group[0].check


def _parts(version: _Version) -> list[tuple[str, int]]:
    rate = version.rate
    counts = {
        "passed": rate.passed,
        "failed": rate.failed,
        "unknown": rate.unknown,
        "error": rate.errors,
    }
    return [(word, number) for word, number in counts.items() if number]


def _bars(rows: Rows[_Version]) -> alt.LayerChart:
    x = measured(
        "start",
        (-0.02, 1.02),
        [0, 0.25, 0.5, 0.75, 1],
        title="share of the episodes compared",
        format=".0%",
    )
    boxes: list[dict[str, Any]] = []
    figures: list[dict[str, Any]] = []
    for row in rows.rows:
        done, total = 0, row.value.rate.total
        for word, number in _parts(row.value):
            start, end = done / total, (done + number) / total
            tip = f"{row.value.name}, {row.value.check}: {number:,} of {total:,} {word}"
            box = {"start": start, "end": end, "top": row.middle - 9, "bottom": row.middle + 9}
            boxes.append({**box, "fill": OUTCOME_COLOURS[word], "tip": tip})
            if (end - start) * PANEL_WIDTH > text_width(f"{number:,}") + 6:
                place = {"start": (start + end) / 2, "y": row.middle, "text": f"{number:,}"}
                figures.append({**place, "on": ON_OUTCOMES[word], "tip": tip})
            done += number
    on = alt.Chart(data(figures)).mark_text(align="center", baseline="middle")
    return panel(
        rows.ground(),
        *grid([0, 0.25, 0.5, 0.75, 1], x),
        alt.Chart(data(boxes))
        .mark_rect(stroke=LINE, strokeWidth=0.6)
        .encode(
            x=x,
            x2="end:Q",
            y=down("top", rows.height),
            y2="bottom:Q",
            fill=alt.Fill("fill:N", scale=None),
            **tips(boxes),
        ),
        on.encode(
            x=alt.X("start:Q"),
            y=down("y", rows.height),
            text="text:N",
            color=alt.Color("on:N", scale=None),
            **tips(figures),
        ),
        width=PANEL_WIDTH,
        height=rows.height,
    )


def _in_words(version: _Version) -> str:
    if version.compared is None:
        return f"{version.name}, {version.check}: {version.rate}"
    said = in_words(version.compared, version.treatment)
    return f"{version.name}: {version.rate}. {said}"


def _passed(rate: Rate) -> str:
    return f"{rate.passed:,} of {rate.total:,} ({percent(rate.passed, rate.total)})"


def _difference(version: _Version) -> str:
    return "baseline" if version.compared is None else points(version.compared.difference)


def _p(version: _Version) -> str:
    return "" if version.compared is None else p_value(version.compared.p_adjusted)


def _verdict(version: _Version) -> str:
    if version.compared is None:
        return ""
    return verdict_word(version.compared.verdict, version.treatment)


def _notes(comparisons: Comparisons, versions: list[_Version], left_out: int) -> list[str]:
    number = count(len(comparisons.comparisons), "version")
    lines = [
        f"{number} against {comparisons.baseline_name}, each over the pairs that it has with it."
    ]
    baselines = {(check.name, check.baseline_rate) for one in comparisons for check in one.checks}
    if len(baselines) > len({name for name, _ in baselines}):
        lines.append(
            "Not all versions have the same pairs: the row of the baseline is that of the first."
        )
    blocked = [one.candidate_name for one in comparisons if one.blocked]
    if blocked:
        lines.append(f"Descriptive only, because something else differs: {', '.join(blocked)}.")
    if left_out:
        shown = len({version.check for version in versions})
        lines.append(f"The {shown} worst of {count(shown + left_out, 'check')} are shown.")
    return lines
