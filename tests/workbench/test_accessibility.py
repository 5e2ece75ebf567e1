"""The stepper under axe-core: no violation in any of its views, light or dark, wide or narrow."""

from __future__ import annotations

from importlib import resources
from typing import Any

import pytest

from envbench import Forbid, OutcomeCheck, OutcomeVerdict, evaluate

from .worlds import scripted

pytest.importorskip("axe_playwright_python", reason="needs axe-core: pip install 'envbench[dev]'")


@pytest.fixture(scope="module")
def given():
    """An episode with every kind of mark, and what is said of it."""

    def unsure(episode: Any) -> OutcomeVerdict:
        return OutcomeVerdict(None, "Not measured", {})

    order = {"id": 1, "n": 0, "lines": [{"line_id": 1, "sku": "A\u202eB"}], "note": None}
    states = [
        {"orders": [order], "prices": {"a": 1.0}, "list": [1, 2]},
        {"orders": [{**order, "n": 7}, {**order, "id": 2}], "prices": {"a": 2.0}, "list": [1]},
        ValueError("locked"),
        {"orders": [{**order, "n": 0}], "prices": {"a": 1.0}, "list": [1, 2]},
    ]
    episode = scripted(states)
    report = evaluate([episode], [OutcomeCheck("measured", "v1", unsure)])
    return episode, {"rules": [Forbid("/orders/**")], "report": report}


def violations(page: Any) -> list[str]:
    """What axe-core finds wrong, one line an element."""
    script = resources.files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
    page.evaluate(script)
    found = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{each['id']}: {node['target']} {node['failureSummary']}"
        for each in found["violations"]
        for node in each["nodes"]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [420, 1_200])
def test_every_view_of_an_episode(open_episode, given, scheme, width):
    episode, said = given
    view = open_episode(episode, given=said, color_scheme=scheme, width=width)
    assert violations(view.page) == []
    view.press("ArrowRight")
    view.root.locator(".changes .path").first.click()
    assert violations(view.page) == []
    view.press("f", "ArrowRight")
    assert violations(view.page) == []
    view.root.locator(".about > summary").click()
    assert violations(view.page) == []
    view.press("Escape", "/")
    view.root.get_by_label("Search rows, paths and events").fill("orders")
    view.root.locator(".results li").first.wait_for()
    assert violations(view.page) == []


def test_two_episodes(open_episode, given):
    episode, said = given
    view = open_episode(episode, scripted([{"n": 1}, {"n": 2}]), given={"rules": said["rules"]})
    view.press("ArrowRight")
    assert violations(view.page) == []


def test_without_scripts(new_page, tmp_path, given):
    from envbench.workbench.page import episode_page

    episode, said = given
    path = tmp_path / "page.html"
    html = episode_page(episode, **said)
    start, end = html.index("<script>"), html.rindex("</script>")
    path.write_text(html[:start] + html[end:])  # axe itself is a script
    page = new_page()
    page.goto(f"file://{path}")
    assert violations(page) == []


def test_everything_can_be_reached_by_the_keyboard(open_episode, given):
    episode, said = given
    view = open_episode(episode, given=said)
    view.page.locator("body").focus()
    reached = []
    for _ in range(80):
        view.page.keyboard.press("Tab")
        name = view.root.evaluate(
            """root => {
                const at = root.shadowRoot.activeElement;
                return at && (at.getAttribute('aria-label') || at.textContent.trim());
            }"""
        )
        if name is None and reached:
            break
        reached.append(name)
    for name in ("Step", "Play (space)", "Speed", "State", "Steps", "start", "changed only"):
        assert name in reached, name
    assert "Search rows, paths and events" in reached


def test_lines_of_the_state_are_walked_and_opened_by_keys(open_episode, given):
    view = open_episode(given[0])
    grid = view.root.get_by_role("treegrid", name="State")
    grid.focus()
    section = view.root.locator(".line.section").first
    assert section.get_attribute("aria-expanded") == "true"
    index = int(section.get_attribute("data-line"))
    for _ in range(index + 1):
        view.page.keyboard.press("ArrowDown")
    active = grid.get_attribute("aria-activedescendant")
    assert view.root.locator(f"#{active}").get_attribute("data-line") == str(index)
    view.page.keyboard.press("Enter")
    assert view.root.locator(".line.section").first.get_attribute("aria-expanded") == "false"
    assert view.step == 0
