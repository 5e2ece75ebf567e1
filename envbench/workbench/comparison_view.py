"""Comparisons as HTML: what was found, the charts, the figures, and the episodes behind them.

Everything reads without scripts and asks the network for nothing. With a store, the pairs that
broke or were fixed stand below in steppers, side by side, and every name and cell of them leads to
the step that failed. `comparison_widget.ComparisonView` opens the others too, where a kernel runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from envbench.comparison import CheckComparison, Comparison, Comparisons, Pair
from envbench.workbench import comparison_sections as sections
from envbench.workbench.charts import (
    Chart,
    case_grid,
    outcomes_over_versions,
    overview,
    verdict_table,
)
from envbench.workbench.comparison_style import style
from envbench.workbench.flipped_pairs import (
    LIMIT,
    OpenPair,
    PairIds,
    Place,
    flips_of,
    steppers_of,
)
from envbench.workbench.markup import attribute, counted, fragment, text
from envbench.workbench.page import assets

if TYPE_CHECKING:
    from envbench.store import Store


def comparison_html(
    comparison: Comparison,
    *,
    store: Store | None = None,
    limit: int = LIMIT,
    hosted: bool = False,
) -> str:
    """A comparison as an HTML fragment.

    Args:
        comparison: the comparison.
        store: where its episodes are. Then the pairs that flipped can be stepped through, as many
            as fit, and their names lead to the step that failed.
        limit: characters that all steppers together may take.
        hosted: whether the page around it holds steppers of the episodes: then names lead to
            `#EPISODE_ID/step=K` there, and none is put here.

    Raises:
        TypeError, ValueError: when the limit is no positive integer.
    """
    return fragment_of(comparison, store, limit=limit, level=3, hosted=hosted)


def comparisons_html(comparisons: Comparisons) -> str:
    """Several versions against one baseline as an HTML fragment: a chart, and a section each."""
    parts = [
        sections.heading(3, f"{counted(len(comparisons), 'version')} against the baseline"),
        f'<p class="envbench-soft">Baseline: {text(comparisons.baseline_name)}</p>',
        sections.figure(outcomes_over_versions(comparisons)),
    ]
    for comparison in comparisons:
        parts += [
            sections.heading(4, comparison.candidate_name),
            sections.verdicts(comparison),
            sections.blocked(comparison, 5),
            f'<p class="envbench-comparison-said">{text(comparison.summary())}</p>',
            sections.checks(comparison) if comparison.checks else "<p>No check was compared.</p>",
        ]
    return f'<div class="envbench-comparison"><style>{style()}</style>{fragment(*parts)}</div>'


def comparison_page(
    comparison: Comparison, *, store: Store | None = None, limit: int = LIMIT
) -> str:
    """A comparison as a whole HTML document, which makes no request; see `comparison_html`."""
    title = f"{comparison.candidate_name} against {comparison.baseline_name}"
    body = fragment_of(comparison, store, limit=limit, level=1)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{text(title)} · envbench</title>{_POLICY}<style>{_PAGE}</style></head>"
        f"<body><main>{body}</main></body></html>\n"
    )


_POLICY = (
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
    "script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:\">"
)

_PAGE = (
    "html{color-scheme:light dark}"
    "body{margin:0;background:Canvas;color:CanvasText}"
    "main{max-width:1080px;margin:0 auto;padding:28px 20px 80px}"
    "main .envbench-display{font-size:14px}"
)


def refuse_limit(limit: int) -> None:
    """Refuse a limit that is no positive integer."""
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise TypeError(f"limit must be an integer, not {type(limit).__name__}")
    if limit < 1:
        raise ValueError(f"limit must be positive, not {limit}: it counts characters of a page")


def fragment_of(
    comparison: Comparison,
    store: Store | None,
    *,
    limit: int,
    level: int,
    hosted: bool = False,
    view: str | None = None,
) -> str:
    """The fragment of a comparison; see `comparison_html`.

    Args:
        comparison: the comparison.
        store: where its episodes are.
        limit: characters that all steppers may take.
        level: of its first heading.
        hosted: whether the page around it holds the steppers.
        view: the identity of a live view that binds to it.
    """
    refuse_limit(limit)
    opened = {} if store is None else steppers_of(comparison, store, limit)
    number = {check.name: index for index, check in enumerate(comparison.checks)}
    links = _Links(opened, hosted, number if view is not None and store is not None else None)
    parts = [
        *_parts(comparison, links, level),
        *([] if hosted else _steppers(comparison, opened, level)),
        sections.heading(level + 1, "Method"),
        sections.methods(comparison),
    ]
    bound = f' data-view="{attribute(view)}"' if view else ""
    # what a live view opens is put in place by its script
    live = '<p role="status"></p><div class="envbench-comparison-live"></div>' if view else ""
    return (
        f'<div class="envbench-comparison"{bound}><style>{style()}</style>'
        f"{fragment(*parts)}{live}</div>" + (assets() if opened and not hosted else "")
    )


class _Links:
    """Where a cell leads: to a stepper of the page, or to what a live view opens."""

    def __init__(
        self,
        opened: Mapping[PairIds, OpenPair],
        hosted: bool,
        live: Mapping[str, int] | None,
    ) -> None:
        self.opened = opened
        self.hosted = hosted
        self.live = live

    @property
    def any(self) -> bool:
        """Whether there is any link."""
        return bool(self.opened) or self.hosted or self.live is not None

    def __call__(self, pair: Pair, check: CheckComparison) -> str | None:
        found = self.opened.get((pair.baseline, pair.candidate))
        if found is not None:
            return found.steps[check.name].address
        episode_id = pair.candidate or pair.baseline
        if episode_id is None:
            return None
        if self.live is not None:
            return Place(episode_id, self.live[check.name], "check").address
        return Place(episode_id, 0).address if self.hosted else None


def _parts(comparison: Comparison, links: _Links, level: int) -> list[str]:
    title = f"{comparison.candidate_name} against {comparison.baseline_name}"
    found = [
        sections.heading(level, title, "envbench-comparison-name"),
        f'<p class="envbench-soft">Treatment: {text(comparison.treatment)}</p>',
        sections.verdicts(comparison),
        sections.blocked(comparison, level + 1),
        f'<p class="envbench-comparison-said">{text(comparison.summary())}</p>',
    ]
    if not comparison.checks:
        return [*found, "<p>No check was compared.</p>"]
    grid = case_grid(comparison, link=links if links.any else None)
    found += [
        sections.figure(overview(comparison)),
        sections.heading(level + 1, "Checks"),
        sections.checks(comparison),
        sections.heading(level + 1, "Pairs that changed"),
        sections.figure(grid),
        sections.flips(comparison, links),
        _folded("Outcomes of both sides as tables of counts", verdict_table(comparison)),
    ]
    rest = (sections.rewards(comparison), sections.unmatched(comparison))
    return [*found, *filter(None, rest), sections.changed(comparison)]


def _folded(title: str, chart: Chart) -> str:
    return f"<details><summary>{title}</summary>{sections.figure(chart)}</details>"


def _steppers(
    comparison: Comparison, opened: Mapping[PairIds, OpenPair], level: int
) -> Sequence[str]:
    if not opened:
        return []
    flips: dict[PairIds, list[str]] = {}
    names: dict[PairIds, str] = {}
    for flip in flips_of(comparison):
        ids = (flip.pair.baseline, flip.pair.candidate)
        names.setdefault(ids, flip.name)
        said = "broke" if flip.broke else "fixed"
        flips.setdefault(ids, []).append(f"{flip.check.name} {said}")
    parts = [
        sections.heading(level + 1, "Episodes side by side"),
        "<p>The baseline's episode is A and the candidate's is B, with one cursor.</p>",
    ]
    for ids, pair in opened.items():
        anchors = "".join(
            f'<span class="envbench-place" id="{attribute(anchor)}"></span>'
            for anchor in dict.fromkeys(place.anchor for place in pair.steps.values())
        )
        said = f'<span class="envbench-soft">{text(", ".join(flips[ids]))}</span>'
        parts.append(
            f"<details><summary>{text(names[ids])} {said}</summary>{anchors}{pair.html}</details>"
        )
    left = len(flips) - len(opened)
    if left:
        parts.append(
            f"<p>And {counted(left, 'more pair')}: in a notebook, "
            "<code>ComparisonView(comparison, store)</code> opens any of them.</p>"
        )
    return parts
