"""The part of `outcomes.html` about the two versions: charts, the cases that flipped, in words."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envbench.comparison import CheckComparison, Comparison
from envbench.ledger.markup import attribute, text
from envbench.ledger.outcomes import Outcomes
from envbench.workbench import charts
from envbench.workbench.charts import Chart

__all__ = ["render_comparison"]


def render_comparison(outcomes: Outcomes) -> Iterator[str]:
    """The section as HTML; nothing where the versions were not compared."""
    comparison = outcomes.comparison
    if comparison is None:
        return
    yield '<h2 id="comparison">The two versions, compared</h2>'
    yield (
        "<p>Each case ran under both versions, and is compared with itself: by the last attempt at "
        "it, which shows in what state the ledger was left. A case without the audit cannot be "
        "judged for changes inside a step, so its outcome is unknown under both.</p>"
    )
    yield from _flips(outcomes, comparison)
    for chart in (
        charts.differences(comparison),
        charts.flips(comparison),
        charts.case_grid(comparison),
    ):
        yield _figure(chart)
    yield f'<p class="soft small">{text(comparison.summary())}</p>'


def _flips(outcomes: Outcomes, comparison: Comparison) -> Iterator[str]:
    """Which cases broke or were fixed, each with a link to both of its episodes."""
    anchors = {outcome.episode.episode_id: outcome.name for outcome in outcomes.outcomes}
    items = [
        _flip(comparison, check, name, ends, anchors)
        for check in comparison.checks
        for ends, names in (
            (("passed", "failed"), check.broke),
            (("failed", "passed"), check.fixed),
        )
        for name in names
    ]
    if items:
        yield f"<ul>{''.join(items)}</ul>"


def _flip(
    comparison: Comparison,
    check: CheckComparison,
    name: str,
    ends: tuple[str, str],
    anchors: dict[str, str],
) -> str:
    pair = comparison.pairs[comparison.names.index(name)]
    sides = (
        (ends[0], comparison.baseline_name, pair.baseline),
        (ends[1], comparison.candidate_name, pair.candidate),
    )
    said = " and ".join(
        f'{word} under <a href="#{text(anchors[episode_id])}">{text(side)}</a>'
        for word, side, episode_id in sides
        if episode_id is not None
    )
    return f"<li><b>{text(name)}</b>: {text(check.name)} {said}</li>"


_NAMESPACE = re.compile(r' xmlns(:xlink)?="[^"]*"')


def _figure(chart: Chart) -> str:
    # HTML knows what an SVG is: the namespaces would be the only addresses on the page
    svg = _NAMESPACE.sub("", chart.svg(), count=2)
    return (
        f'<div class="chart scroll" role="region" aria-label="{attribute(chart.title)}"'
        f' tabindex="0">{svg}</div>'
    )
