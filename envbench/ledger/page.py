"""`outcomes.html`: one self-contained page of a run, that makes no request.

One script runs in it, the steppers' own; the page's policy names it by its hash. Without scripts
everything can still be read.

Everything that comes from a state, an answer or an error is escaped, and characters that would
hide or reorder text are written out.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from importlib import resources
from itertools import groupby

from envbench.ledger.comparison_section import render_comparison
from envbench.ledger.episode_page import render_episode
from envbench.ledger.judging import SIMPLER_POLICIES
from envbench.ledger.markup import ICONS, class_, name_, pill, text
from envbench.ledger.outcomes import Outcome, Outcomes
from envbench.ledger.scenarios import SCENARIOS, SEEDS, VERSIONS
from envbench.workbench.page import assets, script_text

__all__ = ["render_page"]


def render_page(outcomes: Outcomes) -> str:
    """The page as HTML text."""
    css = resources.files("envbench.ledger").joinpath("page.css").read_text(encoding="utf-8")
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="Content-Security-Policy" content="{_policy()}">',
            "<title>Ledger outcomes</title>",
            f"<style>\n{css}</style>",
            "</head>",
            "<body>",
            ICONS,
            "<main>",
            *_head(outcomes),
            *_outcomes_table(outcomes),
            *render_comparison(outcomes),
            *_mistakes_table(outcomes),
            *_episodes(outcomes),
            _FOOTER,
            "</main>",
            assets(),
            "</body>",
            "</html>",
            "",
        ]
    )


def _policy() -> str:
    """No request, and no script but that of the steppers."""
    digest = base64.b64encode(hashlib.sha256(script_text().encode()).digest()).decode()
    allowed = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    return f"{allowed}; script-src 'sha256-{digest}'"


_FOOTER = (
    "<footer><p>This page loads nothing. It was written from the evidence in the "
    "folder it lies in: <code>sha256sum -c SHA256SUMS</code> there shows whether a file was "
    "altered since. A hash shows alteration, not authorship.</p></footer>"
)


# The head and the two tables


def _head(outcomes: Outcomes) -> Iterator[str]:
    total = len(outcomes.outcomes)
    as_expected = sum(not outcome.surprises for outcome in outcomes.outcomes)
    yield "<h1>What the agents did to the ledger</h1>"
    yield (
        '<p class="lede">Each agent was asked to post one invoice exactly once and to leave the '
        "vendors as they are. The decisions below rest on what its SQLite ledger held after every "
        "step, read over a connection of its own, and not on what the agent said.</p>"
    )
    yield '<ul class="headline">'
    yield (
        f'<li class="{"good" if outcomes.ok else "bad"}"><b>{as_expected} of {total}</b> '
        "outcomes as expected before the run</li>"
    )
    for simpler in SIMPLER_POLICIES:
        wrong = sum(mistake.policy == simpler.name for mistake in outcomes.mistakes)
        yield f"<li><b>{wrong} of {total}</b> judged wrong by {text(simpler.title)}</li>"
    yield "</ul>"


def _outcomes_table(outcomes: Outcomes) -> Iterator[str]:
    yield '<h2 id="outcomes">Outcomes</h2>'
    yield (
        "<p>Version 2 of the ledger carries a fault: it keeps an idempotency key in lower case and "
        "looks it up as it was sent. Seed 17 has a key with capitals, so a posting repeated under "
        "it is posted twice; seed 29 does not meet the fault. Shaded: where the versions differ. "
        "A decision leads to its episode.</p>"
    )
    versions = "".join(f'<th scope="col">Version {version}</th>' for version in VERSIONS)
    yield (
        '<div class="outcomes decisions scroll" role="region" aria-labelledby="outcomes"'
        ' tabindex="0"><table><thead><tr><th scope="col">Scenario</th>'
        f'<th scope="col" class="number">Seed</th>{versions}</tr></thead>'
    )
    rows = list(outcomes.rows())
    for label, alike in groupby(rows, key=lambda row: row[0]):
        name, _, trial = label.partition(", ")
        trial = f' <span class="trial">{text(trial)}</span>' if trial else ""
        head = f'<th scope="rowgroup" rowspan="{len(SEEDS)}">{name_(name)}{trial}</th>'
        yield "<tbody>"
        for _, seed, found in alike:
            differs = len({outcome.decision.decision for outcome in found}) > 1
            cells = "".join(_outcome_cell(outcome) for outcome in found)
            look = class_(differs and "differs")
            yield f'<tr{look}>{head}<td class="number">{seed}</td>{cells}</tr>'
            head = ""
        yield "</tbody>"
    yield "</table></div>"


def _outcome_cell(outcome: Outcome) -> str:
    expected = f"expected {outcome.expected.decision}"
    if outcome.surprises:
        shown = f'<span class="expected wrong">not as expected: {expected}</span>'
    else:
        shown = f'<span class="expected">{expected}</span>'
    decision = pill(outcome.decision.decision, href=f"#{outcome.name}")
    return f'<td class="version{outcome.version}">{decision} {shown}</td>'


def _mistakes_table(outcomes: Outcomes) -> Iterator[str]:
    yield '<h2 id="mistakes">What simpler policies get wrong</h2>'
    yield (
        "<p>Two policies that look at less judged the very same evidence. Listed is every outcome "
        "that at least one of them got wrong.</p>"
    )
    titles = "".join(
        f'<th scope="col">{text(simpler.title[0].upper() + simpler.title[1:])}</th>'
        for simpler in SIMPLER_POLICIES
    )
    yield (
        '<div class="outcomes scroll" role="region" aria-labelledby="mistakes" tabindex="0">'
        '<table><thead><tr><th scope="col">Outcome</th><th scope="col">Whole evidence</th>'
        f"{titles}</tr></thead><tbody>"
    )
    for label, where, outcome in _grouped_mistakes(outcomes):
        yield (
            f'<tr><th scope="row">{name_(label)} <span class="trial">{text(where)}</span></th>'
            f"<td>{pill(outcome.decision.decision)}</td>"
        )
        for simpler in SIMPLER_POLICIES:
            said = outcome.simpler[simpler.name]
            wrong = ' <span class="wrong-mark">wrong</span>'
            yield f"<td>{pill(said)}{'' if said == outcome.decision.decision else wrong}</td>"
        yield "</tr>"
    yield "</tbody></table></div>"


def _grouped_mistakes(outcomes: Outcomes) -> Iterator[tuple[str, str, Outcome]]:
    """Outcomes that a simpler policy got wrong, those that are alike on one line."""
    groups: dict[tuple[str, ...], list[Outcome]] = {}
    for outcome in outcomes.outcomes:
        decision = outcome.decision.decision
        if any(said != decision for said in outcome.simpler.values()):
            alike = (outcome.trial.name, decision, *outcome.simpler.values())
            groups.setdefault(alike, []).append(outcome)
    everywhere = len(VERSIONS) * len(SEEDS)
    for members in groups.values():
        title = members[0].trial.title
        label = members[0].scenario.name + (f", {title}" if title else "")
        places = [f"version {outcome.version} seed {outcome.seed}" for outcome in members]
        yield (
            label,
            "both versions, both seeds" if len(members) == everywhere else "; ".join(places),
            members[0],
        )


# The episodes


def _episodes(outcomes: Outcomes) -> Iterator[str]:
    yield '<h2 id="episodes">Episodes</h2>'
    yield (
        "<p>Every step and every state, as recorded. What changed since the state before is marked "
        "and shows the old value struck out.</p>"
    )
    names = {outcome.episode.episode_id: outcome.name for outcome in outcomes.outcomes}
    for scenario in SCENARIOS:
        yield f"<h3>{text(scenario.name)}</h3><p>{text(scenario.story)}</p>"
        for outcome in outcomes.outcomes:
            if outcome.scenario.name == scenario.name:
                yield from render_episode(outcome, names)
