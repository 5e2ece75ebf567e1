"""The parts of a comparison as HTML: each says by itself what it rests on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TypeAlias

from envbench.checks import Rate
from envbench.comparison import VERDICTS, CheckComparison, Comparison, Pair
from envbench.evidence.portable import Json, canonical
from envbench.workbench.charts import Chart
from envbench.workbench.charts.checks import worst_first
from envbench.workbench.charts.figures import interval, p_value, points, verdict_word
from envbench.workbench.flipped_pairs import Flip, flips_of
from envbench.workbench.markup import attribute, counted, table, text

Link: TypeAlias = Callable[[Pair, CheckComparison], str | None]
"""Gives the address at which the pair of a cell can be looked at, None where it cannot."""

ROWS = 200
"""Rows of a table; it is said how many there are more."""

LONGEST = 300
"""Characters of a value that are shown."""


def heading(level: int, title: str, kind: str = "") -> str:
    """A heading; `kind` is one more class of it."""
    return f'<h{level} class="envbench-head {kind}">{text(title)}</h{level}>'


def verdicts(comparison: Comparison) -> str:
    """How many checks came to each verdict."""
    counts = Counter(check.verdict for check in comparison.checks)
    items = "".join(
        f"<li>{_pill(verdict, comparison, f'{counts[verdict]:,} ')}</li>"
        for verdict in VERDICTS
        if counts[verdict]
    )
    return f'<ul class="envbench-comparison-verdicts">{items}</ul>' if items else ""


def blocked(comparison: Comparison, level: int) -> str:
    """What differs beside the treatment, so that there is no verdict; empty when nothing does."""
    if not comparison.blocked:
        return ""
    rows = [[text(part), _value(ours), _value(theirs)] for part, ours, theirs in comparison.blocked]
    return (
        '<section class="envbench-comparison-notice">'
        f"{heading(level, 'Not comparable')}"
        f"<p>Only the {text(comparison.treatment)} was meant to differ. These parts differ too, so "
        "that there is no interval, no p and no verdict, and all figures only describe these "
        "episodes.</p>"
        f"{table(['Part', 'Baseline', 'Candidate'], rows, caption='What differs besides')}"
        "</section>"
    )


def changed(comparison: Comparison) -> str:
    """How the treatment itself differs; empty when it does not."""
    if not comparison.changed:
        return ""
    rows = [[text(part), _value(ours), _value(theirs)] for part, ours, theirs in comparison.changed]
    caption = f"How the {comparison.treatment} differs"
    return table(["Part", "Baseline", "Candidate"], rows, caption=text(caption))


def figure(chart: Chart) -> str:
    """A chart in a box that scrolls where the page is narrow."""
    return (
        '<div class="envbench-comparison-chart" tabindex="0" role="region" '
        f'aria-label="{attribute(chart.title)}">{chart.svg()}</div>'
    )


def checks(comparison: Comparison) -> str:
    """A row a check, the worst first: everything that was measured."""
    covered = f"{100 * (1 - comparison.alpha):.4g}% interval"
    heads = [
        "Check",
        f"Passed: {text(comparison.baseline_name)}",
        f"Passed: {text(comparison.candidate_name)}",
        "Broke",
        "Fixed",
        "Measured pairs",
        "Difference, points",
        covered,
        "p, after Holm",
        "Worst to best, with what was not measured",
        "Smallest difference it would show",
    ]
    rows = [
        [
            _name(check, comparison),
            _rate(check.baseline_rate),
            _rate(check.candidate_rate),
            f"{len(check.broke):,}",
            f"{len(check.fixed):,}",
            f"{check.pairs:,} of {check.total:,}",
            points(check.difference),
            interval(check.interval),
            _p(check),
            "–" if check.lower is None else f"{points(check.lower)} to {points(check.upper)}",
            "–" if check.smallest_effect is None else f"{100 * check.smallest_effect:.1f}",
        ]
        for check in worst_first(comparison)[:ROWS]
    ]
    caption = f"{counted(len(comparison.checks), 'check')}, the lowest difference first"
    return table(heads, rows, numbers=range(3, 11), caption=caption) + _more(
        len(comparison.checks), "check", "comparison.frame()"
    )


def flips(comparison: Comparison, link: Link) -> str:
    """Each pair that broke or was fixed by a check, by name."""
    found = flips_of(comparison)
    if not found:
        return "<p>No pair broke or was fixed by any check.</p>"
    rows = [
        [
            _linked(flip, link),
            text(flip.check.name),
            "broke" if flip.broke else "fixed",
            _episode(flip.pair.baseline),
            _episode(flip.pair.candidate),
        ]
        for flip in found[:ROWS]
    ]
    broke = sum(flip.broke for flip in found)
    caption = f"{broke:,} broke, {len(found) - broke:,} fixed, by pair and check"
    heads = ["Pair", "Check", "Change", "Baseline's episode", "Candidate's episode"]
    return table(heads, rows, caption=caption) + _more(
        len(found), "flip", "comparison.pairs_frame()"
    )


def unmatched(comparison: Comparison) -> str:
    """The episodes without a partner; empty when there are none."""
    left = set(comparison.unmatched)
    names = [
        (name, pair)
        for name, pair in zip(comparison.names, comparison.pairs, strict=True)
        if pair in left
    ]
    if not names:
        return ""
    rows = [
        [text(name), _episode(pair.baseline), _episode(pair.candidate)]
        for name, pair in names[:ROWS]
    ]
    heads = ["Pair", "Baseline's episode", "Candidate's episode"]
    caption = f"{counted(len(names), 'episode')} without a partner, in no figure"
    return table(heads, rows, caption=caption) + _more(
        len(names), "episode", "comparison.unmatched"
    )


def rewards(comparison: Comparison) -> str:
    """Where the reward speaks against a check; empty when it does not, or is not known."""
    reward = comparison.reward
    if reward is None or not reward.disagreements:
        return ""
    rows = [
        [
            text(one.name),
            text(one.check),
            _word(one.baseline_passed),
            f"{one.baseline_reward:,.6g}",
            _word(not one.baseline_passed),
            f"{one.candidate_reward:,.6g}",
        ]
        for one in reward.disagreements[:ROWS]
    ]
    heads = ["Pair", "Check", "Baseline", "its reward", "Candidate", "its reward"]
    caption = "Pairs in which the episode that failed earned as much as the other, or more"
    return table(heads, rows, numbers=(3, 5), caption=caption) + _more(
        len(reward.disagreements), "pair", "comparison.reward.disagreements"
    )


def methods(comparison: Comparison) -> str:
    """How the figures were had, and what a reader must know of single checks."""
    lines = list(dict.fromkeys(check.method for check in comparison.checks if check.method))
    items = [f"<li>{text(line)}</li>" for line in lines]
    items += [
        f"<li>{text(check.name)}: {text(check.note)}</li>"
        for check in comparison.checks
        if check.note
    ]
    listed = f"<ul>{''.join(items)}</ul>" if items else ""
    return (
        f"{listed}<p>Digest of the comparison: <code>{comparison.digest}</code>. It shows that a "
        "saved comparison was altered, not who made it.</p>"
    )


_KINDS = {
    "regression": ("no", "M8 14 1.5 3h13Z"),
    "improvement": ("yes", "M8 2 1.5 13h13Z"),
    "indeterminate": ("open", "M8 1 15 8 8 15 1 8Z"),
    "descriptive": ("plain", "M2.5 2.5h11v11h-11Z"),
    "no difference shown": ("plain", "M8 2a6 6 0 1 0 .01 0Z"),
}
"""The class and the sign of a verdict: the shape that the charts give it."""


def _pill(verdict: str, comparison: Comparison, before: str = "") -> str:
    kind, path = _KINDS[verdict]
    filled = "" if verdict == "descriptive" else " envbench-filled"
    word = verdict_word(verdict, comparison.treatment)
    return (
        f'<span class="envbench-pill envbench-{kind}"><svg class="envbench-sign{filled}" '
        f'viewBox="0 0 16 16" aria-hidden="true"><path d="{path}"/></svg>{before}{word}</span>'
    )


def _name(check: CheckComparison, comparison: Comparison) -> str:
    sides = (check.baseline_version, check.candidate_version)
    said = ["not judged" if side is None else side for side in sides]
    versions = said[0] if said[0] == said[1] else " → ".join(said)
    return (
        f'{text(check.name)}<span class="envbench-type">{text(versions)}</span>'
        f"{_pill(check.verdict, comparison)}"
    )


def _p(check: CheckComparison) -> str:
    if check.p is None:
        return p_value(None)
    alone = f'<span class="envbench-type">{p_value(check.p)} alone</span>'
    return f"{p_value(check.p_adjusted)}{alone}"


def _rate(rate: Rate) -> str:
    parts = [f"{rate.passed:,} of {rate.total:,}"]
    if rate.unknown:
        parts.append(f"{rate.unknown:,} unknown")
    if rate.errors:
        parts.append(counted(rate.errors, "error"))
    return f'<span class="envbench-short">{"<br>".join(parts)}</span>'


def _linked(flip: Flip, link: Link) -> str:
    mean = '<span class="envbench-type">mean of its repeats</span>' if flip.by_mean else ""
    address = link(flip.pair, flip.check)
    if address is None:
        return text(flip.name) + mean
    return f'<a href="{attribute(address)}">{text(flip.name)}</a>{mean}'


def _episode(episode_id: str | None) -> str:
    if episode_id is None:
        return '<span class="envbench-null">none</span>'
    return f"<code>{text(episode_id)}</code>"


def _value(value: Json) -> str:
    shown = value if isinstance(value, str) else canonical(value).decode()
    if len(shown) > LONGEST:
        shown = f"{shown[:LONGEST]}… ({len(shown):,} characters)"
    return f'<span class="envbench-value">{text(shown)}</span>'


def _word(passed: bool) -> str:
    return "passed" if passed else "failed"


def _more(number: int, thing: str, where: str) -> str:
    if number <= ROWS:
        return ""
    return f"<p>And {counted(number - ROWS, f'more {thing}')}: <code>{where}</code>.</p>"
