"""`forbidden_changes`: where along an episode what was changed that no rule allows."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import altair as alt

from envbench.changes.rules import Rule
from envbench.evidence import EpisodeEvidence
from envbench.workbench.charts.bundle import Chart
from envbench.workbench.charts.drawing import (
    data,
    down,
    framed,
    grid,
    measured,
    nothing,
    panel,
    texts,
    ticks,
    tips,
)
from envbench.workbench.charts.figures import count
from envbench.workbench.charts.legend import Key, legend
from envbench.workbench.charts.names import fitted, text_width
from envbench.workbench.charts.rows import Rows, column, lay_out
from envbench.workbench.charts.theme import INK, PURPLE, VERMILION, YELLOW
from envbench.workbench.verdicts import findings_of

if TYPE_CHECKING:
    from envbench.checks import Report

MOST_LANES = 40
"""Paths that have a lane of their own; the others share one."""

MOST_MARKS = 400
"""Findings that are drawn one by one; of more, those near each other are counted together."""

BINS = 120
PANEL_WIDTH = 330


def forbidden_changes(
    episode: EpisodeEvidence, rules: Iterable[Rule] = (), *, report: Report | None = None
) -> Chart:
    """Draw the forbidden changes of an episode along its steps, one lane a path.

    Args:
        episode: the episode. One read from a store shows the findings saved with its latest
            results.
        rules: rules to apply now.
        report: results to show instead of those in the store.

    Raises:
        TypeError: when a rule or the report is none.
        ValueError: when the report does not have the episode.
    """
    findings = findings_of(episode, rules, report)
    n_steps = int(episode.data["totals"]["steps"])
    title = "Forbidden changes along the steps"
    notes = [f"Episode {episode.episode_id} of {episode.case.case_id}: {count(n_steps, 'step')}."]
    if not findings:
        notes.append(_unseen(episode))
        return Chart(nothing(title, notes, "No forbidden change was found."), title, notes)
    lanes = _lanes(findings)
    rows = lay_out(lanes, lambda lane: lane.name, tip=lambda lane: lane.in_words)
    paths = len({finding["path"] for finding in findings})
    notes.append(f"{count(len(findings), 'finding')} at {count(paths, 'path')}. {_unseen(episode)}")
    last = max([n_steps, *(finding["step_index"] for finding in findings)])
    if len(findings) > MOST_MARKS:
        width = -(-(last + 1) // BINS)
        notes.append(
            f"Counted in {count(-(-(last + 1) // width), 'part')} of {count(width, 'step')} each: "
            "the darker, the more findings of its lane."
        )
        panel = _counted(rows, last, width)
        keys = None
    else:
        panel = _one_by_one(rows, last)
        keys = _keys(findings)
    figures = rows.columns(
        [
            column("findings", [f"{len(lane.findings):,}" for lane in lanes]),
            column("put back", [f"{lane.restored:,}" for lane in lanes]),
            column("values", [lane.values for lane in lanes]),
        ]
    )
    width = rows.label_width + PANEL_WIDTH + figures.width
    drawn = legend(keys, width) if keys else None
    panels = [rows.labels(), panel, figures]
    return Chart(framed(title, notes, drawn, panels, width), title, notes)


@dataclasses.dataclass(frozen=True, slots=True)
class _Lane:
    name: str
    findings: Sequence[dict[str, Any]]

    @property
    def restored(self) -> int:
        return sum(finding["kind"] != "net" for finding in self.findings)

    @property
    def values(self) -> str:
        """What the path went through in its first finding."""
        more = len(self.findings) - 1
        return fitted(_values(self.findings[0]), 170, lines=1)[0] + (" …" if more else "")

    @property
    def in_words(self) -> str:
        shown = [_in_words(finding) for finding in self.findings[:3]]
        more = len(self.findings) - len(shown)
        return f"{self.name}: {'; '.join(shown)}" + (f"; and {more:,} more" if more else "")


def _lanes(findings: Sequence[dict[str, Any]]) -> list[_Lane]:
    """The paths in the order in which they were first changed; of many, those changed most."""
    by_path: dict[str, list[dict[str, Any]]] = {}
    for finding in findings:
        by_path.setdefault(finding["path"], []).append(finding)
    if len(by_path) <= MOST_LANES:
        return [_Lane(path, found) for path, found in by_path.items()]
    kept = set(sorted(by_path, key=lambda path: -len(by_path[path]))[:MOST_LANES])
    rest = [finding for finding in findings if finding["path"] not in kept]
    lanes = [_Lane(path, found) for path, found in by_path.items() if path in kept]
    return [*lanes, _Lane(f"{len(by_path) - MOST_LANES:,} further paths", rest)]


_COLOURS = {"net": VERMILION, "restored": PURPLE, "inside_step": YELLOW}
_SHAPES = {"net": "square", "restored": "triangle-right", "inside_step": "diamond"}
_SAID = {
    "net": "never put back",
    "restored": "put back later",
    "inside_step": "put back within the step",
}


def _keys(findings: Sequence[dict[str, Any]]) -> list[Key]:
    there = {finding["kind"] for finding in findings}
    keys = [
        Key(_SAID[kind], _COLOURS[kind], _SHAPES[kind], size=110, stroke=INK)
        for kind in _COLOURS
        if kind in there
    ]
    if "restored" in there:
        keys.append(Key("the old value again", PURPLE, "M0,-1L0,1", size=70, stroke=INK))
    return keys


def _steps_axis(last: int) -> tuple[alt.X, list[float]]:
    room = max(0.03 * last, 0.5)
    places = [place for place in ticks(0, max(last, 1), 8) if place == int(place)]
    return measured("step", (-room, last + room), places, title="step", format=",d"), places


def _one_by_one(rows: Rows[_Lane], last: int) -> alt.LayerChart:
    x, places = _steps_axis(last)
    spans: list[dict[str, Any]] = []
    marks: list[dict[str, Any]] = []
    ends: list[dict[str, Any]] = []
    figures: list[dict[str, Any]] = []
    for row in rows.rows:
        free = -1e9
        for finding in row.value.findings:
            step, kind = finding["step_index"], finding["kind"]
            tip = f"{finding['path']}: {_in_words(finding)}"
            place = {"step": step, "y": row.middle, "tip": tip, "colour": _COLOURS[kind]}
            marks.append({**place, "shape": _SHAPES[kind]})
            if kind == "net":
                spans.append({**place, "end": last})
            elif kind == "restored":
                spans.append({**place, "end": finding["restored_at"]})
                back = {"step": finding["restored_at"], "top": row.middle - 8}
                ends.append({**back, "bottom": row.middle + 8, "tip": tip})
            pixel = step / max(last, 1) * PANEL_WIDTH
            text = f"{step:,}"
            if pixel - free > text_width(text) + 6:  # else it would run into the last one
                figures.append({"step": step, "y": row.middle - 12, "text": text, "tip": tip})
                free = pixel
    y = down("y", rows.height)
    colour = alt.Stroke("colour:N", scale=None)
    return panel(
        rows.ground(),
        *grid(places, x),
        alt.Chart(data(spans))
        .mark_rule(strokeWidth=4, opacity=0.75)
        .encode(x=x, x2="end:Q", y=y, stroke=colour, **tips(spans)),
        alt.Chart(data(ends))
        .mark_rule(strokeWidth=2.4, color=INK)
        .encode(x=x, y=down("top", rows.height), y2="bottom:Q", **tips(ends)),
        alt.Chart(data(marks))
        .mark_point(filled=True, size=95, opacity=1, stroke=INK, strokeWidth=1)
        .encode(
            x=x,
            y=y,
            shape=alt.Shape("shape:N", scale=None),
            fill=alt.Fill("colour:N", scale=None),
            **tips(marks),
        ),
        texts(figures, x, rows.height, align="center"),
        width=PANEL_WIDTH,
        height=rows.height,
    )


def _counted(rows: Rows[_Lane], last: int, width: int) -> alt.LayerChart:
    """Lanes in which each part of the episode is as dark as it has findings."""
    x, places = _steps_axis(last)
    boxes: list[dict[str, Any]] = []
    for row in rows.rows:
        parts = Counter(finding["step_index"] // width for finding in row.value.findings)
        most = max(parts.values())
        for part, number in sorted(parts.items()):
            first, final = part * width, min((part + 1) * width - 1, last)
            boxes.append(
                {
                    "step": first,
                    "end": first + width,
                    "top": row.middle - 9,
                    "bottom": row.middle + 9,
                    "dark": 0.25 + 0.75 * number / most,
                    "tip": f"{row.value.name}: {count(number, 'finding')} in steps {first:,} to "
                    f"{final:,}",
                }
            )
    return panel(
        rows.ground(),
        *grid(places, x),
        alt.Chart(data(boxes))
        .mark_rect(color=VERMILION)
        .encode(
            x=x,
            x2="end:Q",
            y=down("top", rows.height),
            y2="bottom:Q",
            opacity=alt.Opacity("dark:Q", scale=None),
            **tips(boxes),
        ),
        width=PANEL_WIDTH,
        height=rows.height,
    )


def _unseen(episode: EpisodeEvidence) -> str:
    if episode.data["audit"] is not None:
        return "An audit was recorded: what was undone within a step is seen in audited tables."
    return "No audit was recorded: a change undone within one step is not seen."


def _values(finding: dict[str, Any]) -> str:
    """The values that a path went through, shortened."""
    before = "nothing" if finding["before"] is None else _text(finding["before"])
    during = _text(finding["during"])[1:-1] if finding["during"] is not None else ""
    values = f"{before} → {during}" if during else before
    return f"{values} → {before}" if finding["kind"] != "net" else values


def _in_words(finding: dict[str, Any]) -> str:
    back = {
        "net": "never put back",
        "restored": f"put back at step {finding['restored_at']}",
        "inside_step": "put back within the step",
    }[finding["kind"]]
    return f"step {finding['step_index']}, {_values(finding)}, {back} ({finding['rule']})"


def _text(value: Any) -> str:
    text = value.decode() if isinstance(value, bytes) else str(value)
    return text if len(text) <= 80 else f"{text[:50]}…{text[-20:]}"
