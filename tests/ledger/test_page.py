"""outcomes.html: complete, self-contained, and safe with whatever a state holds."""

from __future__ import annotations

import base64
import hashlib
import itertools
import re
import sqlite3
import subprocess
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from envbench.checks import evaluate_episode
from envbench.evidence import EpisodeEvidence
from envbench.ledger.environment import document_for, finish
from envbench.ledger.judging import CHECKS, POLICY
from envbench.ledger.markup import attribute, text, value_
from envbench.ledger.outcomes import Outcome, Outcomes
from envbench.ledger.page import render_page
from envbench.ledger.scenarios import SCENARIOS
from envbench.workbench.page import MIME, assets, script_text

VOID = {"meta", "br", "wbr"}


class Page(HTMLParser):
    """Reads a page strictly: every element closed, in order."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "script"}.intersection(self.open):
            self.words.append(data)

    def every(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def said(self) -> str:
        return re.sub(r"\s+", " ", "".join(self.words))


@pytest.fixture(scope="session")
def source(folder: Path) -> str:
    return (folder / "outcomes.html").read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def page(source: str) -> Page:
    return Page(source)


def without_steppers(source: str) -> str:
    """The page without the script of the steppers and the episodes that are packed for it."""
    assert source.count(assets()) == 1
    return re.sub(
        f'<script type="{re.escape(MIME)}">[^<]*</script>', "", source.replace(assets(), "")
    )


def test_it_asks_for_nothing_and_runs_the_steppers_alone(source: str, page: Page) -> None:
    rest = without_steppers(source)
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{}'"
    digest = hashlib.sha256(script_text().encode()).digest()
    assert page.every("meta")[2]["content"] == policy.format(base64.b64encode(digest).decode())
    rest = rest.replace("img-src data:", "")
    assert re.findall(r"(?i)https?:|//[a-z]|url\(|@import|javascript:|data:", rest) == []
    names = {tag for tag, _ in Page(rest).elements}
    assert names.isdisjoint({"script", "link", "img", "iframe", "object", "embed", "base", "form"})
    assert not any(
        name.startswith("on") or name in ("src", "srcset", "action")
        for _, attributes in page.elements
        for name in attributes
    )


def test_every_link_leads_somewhere(page: Page, folder: Path) -> None:
    anchors = [attributes["id"] for _, attributes in page.elements if attributes.get("id")]
    assert len(anchors) == len(set(anchors))
    for attributes in page.every("a") + page.every("use"):
        href = attributes["href"]
        assert href is not None
        if href.startswith("#"):
            assert href[1:] in anchors
        else:
            assert (folder / href).is_file()


def test_every_outcome_is_in_the_table_with_its_words(page: Page, outcomes: Outcomes) -> None:
    links = [a["href"] for a in page.every("a") if (a.get("class") or "").startswith("pill")]
    assert sorted(links) == sorted(f"#{outcome.name}" for outcome in outcomes.outcomes)
    assert "44 of 44 outcomes as expected before the run" in page.said
    assert "reject expected reject" in page.said
    assert "not as expected" not in page.said


def test_every_step_of_every_episode_is_there(page: Page, outcomes: Outcomes) -> None:
    sections = [attributes["id"] for attributes in page.every("section")]
    assert sections == [
        f"{outcome.name}-{index}"
        for outcome in outcomes.outcomes
        for index in range(len(outcome.episode.steps) + 1)
    ]
    for outcome in outcomes.outcomes:
        assert outcome.episode.digest in page.said
    assert page.said.count("shows alteration, not authorship") == 44 + 1


def test_an_episode_says_why_before_it_is_opened(page: Page) -> None:
    said = page.said
    assert "Version 2, seed 17 reject The invoice has 2 rows, not one Agent" in said
    assert "without the audit indeterminate no audit was recorded, so a change undone" in said
    assert "first attempt indeterminate step at step 1: AnswerLost: the connection closed" in said


def test_what_simpler_policies_get_wrong_is_listed(page: Page) -> None:
    assert "26 of 44 judged wrong by the answer's text only" in page.said
    assert "22 of 44 judged wrong by the last posting only" in page.said
    row = "missing both versions, both seeds ?reject accept wrong reject safe_retry"
    assert re.search(row, page.said)


def test_the_versions_are_compared_with_charts_and_links(page: Page, source: str) -> None:
    start = source.index('id="comparison"')
    section = source[start : source.index("<h2", start + 1)]
    assert re.findall(r"<li><b>([^<]*)</b>", section) == [
        "safe_recovery-seed17",
        "safe_retry-seed17",
    ]
    assert re.findall(r'href="#([^"]*)"', section) == [
        "v1-safe_recovery-attempt2-seed17",
        "v2-safe_recovery-attempt2-seed17",
        "v1-safe_retry-seed17",
        "v2-safe_retry-seed17",
    ]
    assert (
        "safe_retry-seed17: posted_once passed under version 1 and failed under version 2"
        in page.said
    )
    charts = [svg["aria-label"] or "" for svg in page.every("svg") if svg.get("role") == "img"]
    assert [label.split(".")[0] for label in charts] == [
        "Difference in pass rate by check",
        "Pairs that broke or were fixed, by check",
        "Pairs that changed, by check",
    ]
    assert "which is not to say that there is none" in page.said


def test_versions_that_were_not_compared_get_no_section(outcomes: Outcomes) -> None:
    assert 'id="comparison"' not in render_page(Outcomes(outcomes.outcomes, outcomes.folder))


def test_changed_cells_show_both_values(source: str) -> None:
    start = source.index('id="v1-forbidden_then_restored-seed17-1"')
    step = source[start : source.index("</section>", start)]
    assert '<td class="cell-changed"><del><span class="hidden">was </span>' in step
    assert re.search(r"<del>.*DE08657640614154451479.*</del>.*<ins>.*GB82WEST12345698765432", step)
    strip = source[source.rindex('<ol class="strip"', 0, start) : start]
    assert re.findall('class="flag">([^<]*)<', strip) == ["forbidden change", "put back"]


def test_tables_are_accessible(page: Page) -> None:
    assert page.elements[0] == ("html", {"lang": "en"})
    assert all(attributes.get("scope") for attributes in page.every("th"))
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(later - level <= 1 for level, later in itertools.pairwise(levels))
    scrolling = [a for _, a in page.elements if "scroll" in (a.get("class") or "").split()]
    assert scrolling
    assert all(
        (a.get("aria-label") or a.get("aria-labelledby")) and a.get("tabindex") == "0"
        for a in scrolling
    )


# Contrast, by WCAG 2.2: the ratio of relative luminances, at least 4.5 for text.


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


PAIRS = [
    *((ink, back) for ink in ("ink", "soft", "link") for back in ("paper", "sheet", "faint")),
    *((word, f"{word}-back") for word in ("accept", "reject", "indeterminate")),
    *(("ink", back) for back in ("mark", "accept-back", "reject-back")),
    ("reject", "sheet"),
    ("reject", "mark"),
    ("reject", "faint"),
    ("soft", "accept-back"),
    ("indeterminate", "faint"),
]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("ink", "back"), PAIRS)
def test_text_stands_out_in_both_themes(source: str, theme: str, ink: str, back: str) -> None:
    assert round(contrast("#000000", "#ffffff"), 1) == 21.0
    light, dark = re.findall(r":root \{\s+(?:color-scheme[^;]*;)?(.*?)\}", source, re.DOTALL)[:2]
    colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", light if theme == "light" else dark))
    assert contrast(colours[ink], colours[back]) >= 4.5


# Hostile values


HOSTILE = (
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</td></table></details>",
    "<!-- ]]> -->",
    "&lt;b&gt; &amp;",
    "abc\u202egnp.exe\u2066",
    "nul\x00 bell\x07 del\x7f",
    "zero\u200bwidth\ufeff",
    "javascript:alert(1)",
)


def test_text_is_escaped_and_nothing_in_it_is_hidden() -> None:
    assert text("<b>&\"'") == "&lt;b&gt;&amp;&quot;&#x27;"
    assert text("a\u202eb") == (
        'a<span class="control" title="U+202E RIGHT-TO-LEFT OVERRIDE">U+202E</span>b'
    )
    assert attribute('"\u202e<') == "&quot;U+202E&lt;"
    assert value_(b"\x00\xff") == "<span class=\"value\">x'00ff'</span>"
    assert value_(None) == '<span class="null">NULL</span>'
    assert value_(2**63 - 1) == '<span class="value">9223372036854775807</span>'
    assert value_("\udcff") == (
        '<span class="value"><span class="control" title="U+DCFF a character without a name">'
        "U+DCFF</span></span>"
    )


def hostile_outcome(path: Path, record: Callable[..., EpisodeEvidence]) -> Outcome:
    def agent(env: Any, observation: Any, info: Any) -> str:
        connection = sqlite3.connect(path)
        for number, value in enumerate(HOSTILE):
            connection.execute(
                "INSERT INTO vendors VALUES (?, ?, ?)", (f"X{number}{value}", value, value)
            )
        connection.execute('CREATE TABLE "<i>\u202e" ("<b>\u2067" TEXT PRIMARY KEY, "&" BLOB)')
        connection.execute('INSERT INTO "<i>\u202e" VALUES (?, ?), (?, ?)', ("k", b"<", "l", 2**60))
        connection.execute(
            "UPDATE vendors SET name = CAST(x'ff3c' AS TEXT) WHERE vendor_id = ?",
            (document_for(29).vendor_id,),
        )
        connection.commit()
        connection.close()
        env.step({**finish(), "invoice_id": HOSTILE[0]})
        return "".join(HOSTILE)

    def refused(env: Any, observation: Any, info: Any) -> str:
        try:
            return agent(env, observation, info)
        except ValueError:  # the action is outside the space
            env.step(finish())
        raise RuntimeError("".join(HOSTILE))

    episode = record(path, refused)
    report = evaluate_episode(episode, CHECKS)
    simpler = {"answer_text": "accept", "last_posting": "indeterminate"}
    scenario = SCENARIOS[0]
    return Outcome(
        1, 29, scenario, scenario.trials[0], episode, report, POLICY.evaluate(report), simpler
    )


@pytest.fixture(scope="session")
def hostile_source(
    outcomes: Outcomes,
    record: Callable[..., EpisodeEvidence],
    tmp_path_factory: pytest.TempPathFactory,
) -> str:
    path = tmp_path_factory.mktemp("hostile") / "ledger.sqlite"
    outcome = hostile_outcome(path, record)
    others = (o for o in outcomes.outcomes if o.name != outcome.name)
    return render_page(Outcomes((*others, outcome), outcomes.folder))


def test_hostile_values_are_shown_and_do_nothing(hostile_source: str) -> None:
    page = Page(without_steppers(hostile_source))
    names = {tag for tag, _ in page.elements}
    assert names.isdisjoint({"script", "img", "i"})
    for value in HOSTILE[:5]:
        assert value in "".join(page.words)
    assert not set(without_steppers(hostile_source)) & set(
        "\u202e\u2066\u2067\x00\x07\x7f\u200b\ufeff"
    )
    assert "abcU+202Egnp.exeU+2066" in page.said
    assert "U+DCFF<" in page.said
    hostile_source.encode("utf-8")  # no lone surrogate is left
    assert "<i>U+202E: 2 rows" in page.said


def test_a_surprise_stands_out(hostile_source: str) -> None:
    page = Page(hostile_source)
    assert "not as expected: expected accept" in page.said
    assert "43 of 44 outcomes as expected before the run" in page.said
    assert {"class": "bad"} in page.every("li")


@pytest.mark.slow
def test_a_browser_draws_it_and_asks_for_nothing(
    folder: Path, chromium: str, tmp_path: Path
) -> None:
    asking = tmp_path / "asking.html"
    asking.write_text('<img src="http://127.0.0.1:9/x.png">')
    assert requests_of(asking, chromium, tmp_path / "asking") == ["null"]
    assert requests_of(folder / "outcomes.html", chromium, tmp_path / "asked") == []


@pytest.mark.slow
def test_every_episode_can_be_stepped_through(
    folder: Path, outcomes: Outcomes, chromium: str, tmp_path: Path
) -> None:
    drawn = subprocess.run(
        [
            chromium,
            *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
            f"--user-data-dir={tmp_path / 'profile'}",
            "--virtual-time-budget=20000",
            "--dump-dom",
            (folder / "outcomes.html").as_uri(),
        ],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    ).stdout
    steppers = re.findall('<div class="envbench-stepper"[^>]*>', drawn)
    assert [re.search('data-episode="([^"]*)"', stepper)[1] for stepper in steppers] == [
        outcome.episode.episode_id for outcome in outcomes.outcomes
    ]
    assert all("data-mounted" in stepper for stepper in steppers)


def requests_of(page: Path, chromium: str, room: Path) -> list[str]:
    """Who started each request that the page did, in the words of Chromium's own log."""
    room.mkdir()
    subprocess.run(
        [
            chromium,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            f"--user-data-dir={room / 'profile'}",
            f"--log-net-log={room / 'net.json'}",
            f"--screenshot={room / 'page.png'}",
            "--window-size=1000,1200",
            page.as_uri(),
        ],
        check=True,
        capture_output=True,
        timeout=120,
    )
    assert (room / "page.png").read_bytes().startswith(b"\x89PNG")
    log = (room / "net.json").read_text(errors="replace")
    # The browser itself looks for updates; what a page asks for has an origin.
    return [who for who in re.findall('"initiator":"([^"]*)"', log) if who != "not an origin"]
