"""The evidence browser: its static table in a real browser, and what its widget answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import traitlets

from envbench import OutcomeCheck, OutcomeVerdict, Store, connect, evaluate
from envbench.workbench.browser import EvidenceBrowser, browser_html
from envbench.workbench.page import episode_html
from envbench.workbench.payload import unpack

from .worlds import warehouse

HOSTILE = "<img src=x onerror=alert(1)>\u202e&amp;"


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    """Twelve episodes of 1 to 12 steps; those of at most three pass; one case is hostile."""
    with connect(":memory:") as opened:
        for steps in range(1, 12):
            warehouse(steps, 2, store=opened, case_id=f"case-{steps}")
        short = OutcomeCheck("short", "v1", lambda e: OutcomeVerdict(len(e.steps) <= 3, "", {}))
        evaluate(opened, [short]).save(opened)
        warehouse(12, 2, store=opened, case_id=HOSTILE)
        yield opened


@pytest.fixture
def opened(store: Store, new_page: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    def opened(html: str | None = None, **options: Any) -> Any:
        path = tmp_path / "browser.html"
        body = browser_html(store) if html is None else html
        path.write_text(
            f'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>b</title>{body}</html>'
        )
        page = new_page(**options)
        page.goto(path.as_uri())
        return page

    return opened


def cases(page: Any) -> list[str]:
    return list(page.locator("tbody tr td:first-child").all_inner_texts())


class TestStatic:
    def test_it_is_a_plain_table_without_scripts(self, opened: Callable[..., Any]) -> None:
        page = opened(scripts=False)
        assert len(cases(page)) == 12
        assert page.locator(".envbench-browser-title").inner_text() == "12 episodes"
        assert cases(page)[0] == "<img src=x onerror=alert(1)>U+202E&amp;"
        assert page.locator("img").count() == 0

    def test_words_filter_it(self, opened: Callable[..., Any]) -> None:
        page = opened()
        page.fill("input[type=search]", "CASE-1")
        page.wait_for_function(
            "() => document.querySelectorAll('.envbench-browser tbody tr').length === 3"
        )
        assert sorted(cases(page)) == ["case-1", "case-10", "case-11"]
        assert page.locator(".envbench-browser-title").inner_text() == "3 of 12 episodes"

    def test_a_verdict_filters_it(self, opened: Callable[..., Any]) -> None:
        page = opened()
        page.select_option("[aria-label='Filter by verdict']", "=passed")
        page.wait_for_function(
            "() => document.querySelectorAll('.envbench-browser tbody tr').length === 3"
        )
        assert sorted(cases(page)) == ["case-1", "case-2", "case-3"]

    def test_a_head_sorts_by_number_and_says_so(self, opened: Callable[..., Any]) -> None:
        page = opened()
        head = page.locator("th[data-column=n_steps]")
        head.get_by_role("button").click()
        page.wait_for_function("() => document.querySelector('[aria-sort=ascending]')")
        assert cases(page)[:3] == ["case-1", "case-2", "case-3"]
        head.get_by_role("button").press("Enter")
        page.wait_for_function(
            "() => document.querySelector('th[data-column=n_steps][aria-sort=descending]')"
        )
        assert cases(page)[1:3] == ["case-11", "case-10"]

    def test_a_row_leads_to_a_stepper_of_the_page_and_no_other_row_does(
        self, opened: Callable[..., Any], store: Store
    ) -> None:
        (episode,) = store.episodes("case_id = 'case-7'")
        page = opened(browser_html(store) + episode_html(episode))
        page.wait_for_selector(".envbench-stepper[data-ready]")
        page.fill("input[type=search]", "case-7")
        page.wait_for_function(
            "() => document.querySelectorAll('.envbench-browser tbody tr').length === 1"
        )
        page.get_by_role("button", name="case-7").press("Enter")
        page.keyboard.press("ArrowRight")
        page.wait_for_selector(".envbench-stepper[data-step='1']")
        page.fill("input[type=search]", "case-8")
        page.wait_for_function(
            "() => document.querySelector('.envbench-browser tbody').innerText.includes('case-8')"
        )
        assert page.locator(".envbench-browser tbody button").count() == 0

    def test_it_says_what_it_leaves_out(self, opened: Callable[..., Any], store: Store) -> None:
        page = opened(browser_html(store, rows=5))
        title = page.locator(".envbench-browser-title")
        assert title.inner_text() == "12 episodes, the newest 5 shown"
        page.fill("input[type=search]", "case-8")
        page.wait_for_function(
            "() => document.querySelectorAll('.envbench-browser tbody tr').length === 1"
        )
        assert title.inner_text() == "1 of the newest 5 of 12 episodes"

    def test_an_empty_store_is_shown(self, opened: Callable[..., Any]) -> None:
        with connect(":memory:") as empty:
            page = opened(browser_html(empty))
        assert page.locator(".envbench-browser-title").inner_text() == "0 episodes"

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_axe_finds_no_violation(self, opened: Callable[..., Any], scheme: str) -> None:
        from axe_playwright_python.sync_playwright import Axe

        page = opened(color_scheme=scheme)
        found = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa"]})
        assert found.violations_count == 0, found.generate_report()


class TestWidget:
    def sent(self, browser: EvidenceBrowser, **message: Any) -> tuple[dict[str, Any], list[bytes]]:
        """What the widget sends for a message, as a view gets it."""
        sent: list[tuple[dict[str, Any], list[bytes]]] = []
        browser.send = lambda content, buffers=None: sent.append((content, buffers or []))  # type: ignore[method-assign]
        browser._answer(browser, {"id": "1", **message}, [])
        return sent[-1]

    def test_lists_with_the_query_of_python(self, store: Store) -> None:
        browser = EvidenceBrowser(store, follow=False, page_size=2)
        browser.query = {"verdict": "passed", "order": "n_steps", "descending": False}
        content, _ = self.sent(browser, what="list")
        shown = content["listing"]
        assert (shown["matched"], shown["total"], shown["pages"]) == (3, 12, 2)
        assert shown["rows"].count("<tr ") == 2
        assert ">case-1<" in shown["rows"]

    def test_opens_two_episodes(self, store: Store) -> None:
        browser = EvidenceBrowser(store, follow=False)
        ids = [e.episode_id for e in store.episodes("n_steps <= 2")]
        content, _ = self.sent(browser, what="open", ids=ids)
        about = [unpack(text)["head"]["episode"]["episode_id"] for text in content["texts"]]
        assert about == ids
        assert browser.selected == ids
        assert [e.episode_id for e in browser.episodes] == ids

    @pytest.mark.parametrize("message", [{"what": "fly"}, {"what": "open", "ids": ["none"]}, {}])
    def test_what_cannot_be_answered_is_said(self, store: Store, message: dict[str, Any]) -> None:
        content, _ = self.sent(EvidenceBrowser(store, follow=False), **message)
        assert content["error"]
        assert content["id"] == "1"

    def test_a_query_that_is_none_is_refused(self, store: Store) -> None:
        browser = EvidenceBrowser(store, follow=False)
        with pytest.raises((ValueError, traitlets.TraitError), match="order 'x' is none of"):
            browser.query = {"order": "x"}
        assert browser.query["order"] == "recorded_at"

    def test_a_path_is_opened(self, tmp_path: Path) -> None:
        with connect(tmp_path / "e.duckdb") as written:
            warehouse(1, 2, store=written)
        browser = EvidenceBrowser(tmp_path / "e.duckdb", follow=False)
        assert browser.listing.total == 1

    @pytest.mark.parametrize("size", [0, True, 1.5])
    def test_a_page_size_is_a_positive_integer(self, store: Store, size: Any) -> None:
        with pytest.raises(TypeError, match="page_size must be a positive integer"):
            EvidenceBrowser(store, page_size=size)
