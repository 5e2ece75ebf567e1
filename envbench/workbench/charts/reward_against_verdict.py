"""`reward_against_verdict`: what the environment paid, beside what each check found."""

from __future__ import annotations

import polars as pl

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
from envbench.workbench.charts.figures import count
from envbench.workbench.charts.legend import legend
from envbench.workbench.charts.outcome_marks import outcome_keys
from envbench.workbench.charts.rows import column, lay_out
from envbench.workbench.charts.sources import Source, episodes_of, results_of
from envbench.workbench.charts.theme import OUTCOME_COLOURS, OUTCOMES

MOST_CHECKS = 20
PANEL_WIDTH = 290


def reward_against_verdict(
    source: Source,
    *,
    store: Store | None = None,
    episodes: Episodes | None = None,
    check: str | None = None,
) -> Chart:
    """Draw the return of the episodes that passed, failed and were unknown, check by check.

    Where reward and check agree, what passed lies to the right of what failed.

    Args:
        source: a store, with its latest results, or reports with `store`.
        store: where the episodes of reports are, which keep no reward themselves.
        episodes: which episodes of a store are counted; all by default.
        check: the name of one check to show; all by default.

    Raises:
        TypeError, ValueError: as `sources.episodes_of`.
        KeyError: when there is no such check.
    """
    frame = episodes_of(source, store=store, episodes=episodes, needs=["reward"])
    judged = results_of(source).join(frame, on="episode_id", how="inner")
    names = judged["check_name"].unique(maintain_order=True).to_list()
    if check is not None:
        if check not in names:
            raise KeyError(f"no check {check!r}: there are {', '.join(names) or 'none'}")
        judged = judged.filter(pl.col("check_name") == check)
    title = "Reward against verdict"
    notes = [f"{_judged(judged, frame)} judged by {count(len(names), 'check')}."]
    if not len(judged):
        return Chart(nothing(title, notes, "No episode was judged."), title, notes)
    checks = sorted(judged["check_name"].unique())[:MOST_CHECKS]
    bins = bins_over(judged["episode_return"])
    groups = judged.partition_by("check_name", "outcome", as_dict=True)
    shown = [
        counted(
            outcome,
            groups[name, outcome]["episode_return"],
            bins,
            colour=OUTCOME_COLOURS[outcome],
            group=name,
        )
        for name in checks
        for outcome in OUTCOMES
        if (name, outcome) in groups
    ]
    rows = lay_out(
        shown,
        lambda one: one.name,
        tip=lambda one: f"{one.group}, {in_words(one, 'episode', 'return')}",
        group=lambda one: one.group,
        least_height=60,
    )
    figures = rows.columns(
        [
            column("episodes", [f"{one.total:,}" for one in shown]),
            column("no return", [f"{one.total - one.known:,}" for one in shown]),
            column("median", [figure(one.median) for one in shown]),
            column("mean", [figure(one.mean) for one in shown]),
            column("range", [spread(one) for one in shown]),
        ]
    )
    panel = histograms(rows, bins, PANEL_WIDTH, title="return of an episode", unit="episode")
    width = rows.label_width + PANEL_WIDTH + figures.width
    notes.append("The figure is that of the highest bar; the triangle is the median.")
    if check is None and len(names) > MOST_CHECKS:
        notes.append(f"The first {MOST_CHECKS} by name are shown.")
    keys = legend(outcome_keys(one.name for one in shown), width)
    return Chart(framed(title, notes, keys, [rows.labels(), panel, figures], width), title, notes)


def _judged(judged: pl.DataFrame, frame: pl.DataFrame) -> str:
    return f"{judged['episode_id'].n_unique():,} of {count(len(frame), 'episode')}"
