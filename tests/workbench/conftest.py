"""Browsers that reach nothing, and what tests ask of a stepper in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from envbench import EpisodeEvidence
from envbench.workbench.page import episode_page

OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

READY = ".envbench-stepper[data-ready]"


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Any]:
    """A Chromium with an empty profile."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=OPTIONS)
        yield started
        started.close()


@pytest.fixture(name="new_page")
def new_page_fixture(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open a page that reaches no network; `requests` and `errors` of it must stay empty."""
    contexts: list[Any] = []
    problems: list[str] = []

    def new_page(
        *,
        width: int = 1180,
        height: int = 800,
        scripts: bool = True,
        allowed: str = r"^(file|data|blob):",
        **options: Any,
    ) -> Any:
        context = browser.new_context(
            viewport={"width": width, "height": height}, java_script_enabled=scripts, **options
        )
        contexts.append(context)
        permitted = re.compile(allowed)

        def route(route: Any) -> None:
            if permitted.match(route.request.url):
                route.continue_()
            else:
                problems.append(f"a request to {route.request.url}")
                route.abort()

        context.route(re.compile(".*"), route)
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(f"an error in the page: {error}"))
        return page

    yield new_page
    for context in contexts:
        context.close()
    assert problems == []


@pytest.fixture(name="open_episode")
def open_episode_fixture(new_page: Callable[..., Any], tmp_path: Path) -> Callable[..., View]:
    """Write the page of an episode to a file, open it, and wait until it is shown."""

    def open_episode(
        episode: EpisodeEvidence,
        other: EpisodeEvidence | None = None,
        *,
        address: str = "",
        given: dict[str, Any] | None = None,
        **options: Any,
    ) -> View:
        path = tmp_path / f"page{len(list(tmp_path.iterdir()))}.html"
        path.write_text(episode_page(episode, other, **(given or {})))
        page = new_page(**options)
        page.goto(f"file://{path}{address}")
        page.wait_for_selector(READY)
        return View(page, path)

    return open_episode


class View:
    """One stepper on a page, as a person sees it.

    Attributes:
        page: Playwright's page.
        path: the file that is open.
    """

    def __init__(self, page: Any, path: Path | None = None, nth: int = 0) -> None:
        self.page = page
        self.path = path
        self.root = page.locator(".envbench-stepper").nth(nth)
        self.app = self.root.locator(".app")

    @property
    def step(self) -> int:
        """The moment that is shown."""
        return int(self.root.get_attribute("data-step"))

    def press(self, *keys: str) -> View:
        """Press keys with the stepper in focus, and wait until what they ask for is shown."""
        if not self.app.evaluate("app => app.matches(':focus-within')"):
            self.app.focus()
        for key in keys:
            self.page.keyboard.press(key)
            self.settle()
        return self

    def settle(self) -> None:
        """Wait until the moment that was asked for is the one that is shown."""
        self.page.wait_for_function(
            """root => {
                const number = root.shadowRoot.querySelector('input[type=number]');
                const active = root.shadowRoot.activeElement;
                return active === number || number.value === root.dataset.step;
            }""",
            arg=self.root.element_handle(),
        )

    def text(self, selector: str) -> str:
        """The text of the first element that a selector finds."""
        return " ".join(self.root.locator(selector).first.inner_text().split())

    def texts(self, selector: str) -> list[str]:
        """The texts of all elements that a selector finds."""
        return [" ".join(text.split()) for text in self.root.locator(selector).all_inner_texts()]

    def rows(self) -> list[list[str]]:
        """The rows of tables of the state that are on the screen, cell by cell."""
        return [
            [" ".join(text.split()) for text in row.locator(".cell").all_inner_texts()]
            for row in self.root.locator(".line.row").all()
        ]


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A JupyterLab that serves an empty folder; see `lab.Lab`."""
    from .lab import server

    with server(tmp_path_factory.mktemp("lab"), tmp_path_factory.mktemp("settings")) as started:
        yield started


@pytest.fixture(name="lab_page")
def lab_page_fixture(new_page: Callable[..., Any]) -> Any:
    """A page that reaches the JupyterLab of this machine, and nothing else."""
    page = new_page(width=1_400, height=900, allowed=r"^(https?|ws)://127\.0\.0\.1|^(data|blob):")
    page.set_default_timeout(60_000)
    return page
