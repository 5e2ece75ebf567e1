"""Pages: the fragment around a packed episode, and what is read where scripts do not run."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest

from envbench import Forbid, OutcomeCheck, OutcomeVerdict, evaluate
from envbench.workbench.page import (
    assets,
    episode_html,
    episode_page,
    read,
    rewrite,
    script_text,
    static_html,
    style_text,
)

from .worlds import scripted

HOSTILE = "</script></style><img src=x onerror=alert(1)>\u202e"


@pytest.fixture(scope="module")
def episode():
    states = [{"vendors": [{"id": 1, "account": account}]} for account in ("DE2", "GB9", "DE2")]
    return scripted(states)


class Elements(HTMLParser):
    """Names of the elements in HTML, and the text that is shown."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.shown = ""
        self._hidden = 0
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.names.append(tag)
        self._hidden += tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("script", "style")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.shown += data


def test_the_root_of_a_stepper(episode):
    html = episode_html(episode)
    assert html.startswith(
        '<div class="envbench-stepper" data-lm-suppress-shortcuts="true" data-step="0" '
        f'data-episode="{episode.episode_id}">'
    )
    assert html.count("<script>") == 1
    assert f"<script>{script_text()}</script>" in html
    assert html.endswith(assets())
    assert episode_html(episode, script=False) + assets() == html


def test_the_script_and_the_style_can_stand_in_a_page():
    assert "</script" not in script_text().lower()
    assert "</style" not in style_text().lower()
    for forbidden in ("eval(", "new Function", "innerHTML", "insertAdjacentHTML", "outerHTML"):
        assert forbidden not in script_text()
    assert not re.search(r"\bimport\b[ (]", re.sub(r"//.*", "", script_text()))


def test_what_is_read_without_scripts(episode):
    def wrong(episode: Any) -> OutcomeVerdict:
        return OutcomeVerdict(False, "The account is not the vendor's", {"step": 1})

    report = evaluate([episode], [OutcomeCheck("account", "v1", wrong)])
    html = episode_html(episode, rules=[Forbid("/vendors/**")], report=report)
    shown = Elements(html).shown
    for text in (
        "scripted",
        "terminated after 2 steps, return 1.0.",
        "account",
        "failed",
        "The account is not the vendor's",
        "/vendors/id=1/account",
        "DE2 → GB9",
        "step 2",
        'Forbid("/vendors/**")',
    ):
        assert text in shown, text


@pytest.mark.parametrize("of", ["state", "key", "case", "rule", "reason"])
def test_nothing_of_an_episode_is_markup(of):
    word = {of: HOSTILE}
    states = [
        {"t": [{"id": word.get("key", "k"), "v": 0}]},
        {"t": [{"id": word.get("key", "k"), "v": word.get("state", "v")}]},
    ]
    episode = scripted(states, case_id=word.get("case", "case"))
    path = f"/{word['rule'].replace('/', '~1')}" if of == "rule" else "/t/**"

    def judge(episode: Any) -> OutcomeVerdict:
        return OutcomeVerdict(False, word.get("reason", "reason"), {})

    report = evaluate([episode], [OutcomeCheck("check", "v1", judge)])
    rules = [Forbid("/t/**"), Forbid(path)]
    elements = Elements(episode_page(episode, rules=rules, report=report))
    assert "img" not in elements.names
    assert elements.names.count("script") == 2
    assert "\u202e" not in elements.shown


def test_reading_a_page_gives_the_episodes_in_it(episode):
    other = scripted([{"n": 1}, {"n": 2}])
    html = "<p>before</p>" + episode_html(episode, other) + "<hr>" + episode_html(other)
    found = read(html)
    assert [[each["head"]["episode"]["episode_id"] for each in view] for view in found] == [
        [episode.episode_id, other.episode_id],
        [other.episode_id],
    ]
    assert read("<p>nothing</p>") == []


def test_rewriting_changes_the_packed_and_the_static_part(episode):
    html = "<p>GB9</p>" + episode_html(episode, rules=[Forbid("/vendors/**")])

    def redact(content: Any) -> Any:
        for chunk in content["chunks"]:
            for change in chunk["changes"]:
                change[4:6] = ["[redacted]" if value == "GB9" else value for value in change[4:6]]
        for finding in content["head"]["findings"]:
            finding["during"] = ["[redacted]"]
        content["head"]["redacted"] = {"paths": 0, "values": 1}
        return content

    redacted = rewrite(html, redact)
    assert redacted.startswith("<p>GB9</p>")
    assert redacted.endswith(assets())
    ((content,),) = read(redacted)
    assert content["head"]["redacted"] == {"paths": 0, "values": 1}
    shown = Elements(redacted.removeprefix("<p>GB9</p>")).shown
    assert "GB9" not in shown
    assert "DE2 → [redacted]" in shown
    assert "Redacted: 1 value." in shown
    assert "GB9" not in str(content)


def test_rewriting_nothing_changes_nothing(episode):
    html = episode_page(episode, scripted([{"n": 1}, {"n": 2}]))
    assert rewrite(html, lambda content: content) == html


def test_the_static_part_alone(episode):
    html = episode_html(episode)
    ((content,),) = read(html)
    assert f"<div data-envbench-static>{static_html([content])}</div>" in html


def test_many_findings_are_counted_and_not_all_listed():
    states = [{"n": i} for i in range(121)]
    html = episode_html(scripted(states), rules=[Forbid("/n")])
    assert "And 70 more findings" in Elements(html).shown


def test_a_page_is_a_document_that_asks_nobody(episode):
    page = episode_page(episode)
    assert page.startswith('<!DOCTYPE html>\n<html lang="en">')
    assert "default-src 'none'" in page
    assert not re.search(r'(?:src|href)="?https?:', page)


# -- in a browser


def test_scripts_that_are_off_leave_the_tables(new_page, tmp_path, episode):
    path = tmp_path / "page.html"
    path.write_text(episode_page(episode, rules=[Forbid("/vendors/**")]))
    page = new_page(scripts=False)
    page.goto(f"file://{path}")
    assert page.locator(".envbench-stepper caption").all_inner_texts() == ["Forbidden changes"]
    assert page.locator(".envbench-stepper tbody tr").count() == 1
    assert "need" in page.locator(".envbench-soft").inner_text()


def test_a_payload_that_is_damaged_leaves_the_tables(new_page, tmp_path, episode):
    path = tmp_path / "page.html"
    html = episode_page(episode, rules=[Forbid("/vendors/**")])
    (packed,) = re.findall(r'gzip">([^<]+)<', html)
    path.write_text(html.replace(packed, packed[:-40]))
    page = new_page()
    page.goto(f"file://{path}")
    page.wait_for_function(
        "() => document.querySelector('.envbench-stepper').shadowRoot?.textContent"
        ".includes('cannot be shown')"
    )
    assert page.locator(".envbench-stepper tbody tr").first.is_visible()
