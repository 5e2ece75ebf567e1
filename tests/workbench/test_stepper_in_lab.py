"""The stepper in a real JupyterLab: live, reloaded, opened again without its kernel, untrusted."""

from __future__ import annotations

import nbformat
import pytest

from envbench import Forbid, connect
from envbench.workbench.page import episode_html

from .conftest import READY, View
from .worlds import scripted, warehouse

pytestmark = pytest.mark.slow

STATES = [{"vendors": [{"id": 1, "account": account}]} for account in ("DE2", "GB9", "DE2", "FR3")]

OPEN = """
from envbench import connect
from envbench.workbench import EpisodeStepper
store = connect({path!r}, read_only=True)
(episode,) = store.episodes()
"""


@pytest.fixture(scope="module")
def evidence(lab):
    """A store with one short episode."""
    path = lab.folder / "short.duckdb"
    with connect(path) as store:
        scripted(STATES, store=store)
    return str(path)


def view_of(page):
    page.wait_for_selector(READY)
    return View(page)


def test_python_and_the_page_follow_each_other(lab, lab_page, evidence):
    lab.write(
        "live.ipynb", OPEN.format(path=evidence) + "stepper = EpisodeStepper(episode)\nstepper"
    )
    notebook = lab.open(lab_page, "live.ipynb")
    notebook.run_all()
    view = view_of(lab_page)
    cells = lab_page.locator(".jp-Cell").count()

    # keys are the stepper's: neither those it knows nor any other reach the notebook
    view.press("ArrowRight", "x", "x", "d", "d", "a", "b", "q", "ArrowDown", "Enter")
    assert view.step == 1
    assert lab_page.locator(".jp-Cell").count() == cells
    assert notebook.run_until("print(stepper.step, stepper.selected_path)", "1 None") == "1 None"

    view.root.locator(".changes .path").click()
    path = "/vendors/id=1/account"
    assert notebook.run_until("print(stepper.selected_path)", path) == path

    notebook.run(
        "seen = []\nstepper.observe(lambda change: seen.append(change.new), 'step')\nprint()"
    )
    view.press("ArrowRight", "ArrowRight")
    assert notebook.run_until("print(seen[-1:])", "[3]") == "[3]"

    notebook.run("stepper.step = 0\nstepper.selected_path = None\nprint()")
    lab_page.wait_for_selector(f'{READY}[data-step="0"]')
    assert not view.root.locator(".inspector").is_visible()

    # reloaded, it is bound again, and shows the step that Python holds
    notebook.run("stepper.step = 2\nprint()")
    notebook.save()
    lab_page.reload()
    lab_page.wait_for_selector(f'{READY}[data-step="2"]')


def test_a_saved_notebook_steps_without_its_kernel(lab, lab_page, evidence):
    lab.write("saved.ipynb", OPEN.format(path=evidence) + "EpisodeStepper(episode)")
    notebook = lab.open(lab_page, "saved.ipynb")
    notebook.run_all()
    view_of(lab_page)
    notebook.save()
    (output,) = notebook.outputs()
    assert sorted(output["data"]) == ["text/html", "text/plain"]
    assert "widgets" not in nbformat.read(notebook.path, as_version=4).metadata

    # another kernel, which knows nothing of the widget
    notebook.command("notebook:shutdown-kernel")
    lab_page.wait_for_function(
        "() => document.querySelector('.jp-Notebook-ExecutionIndicator').dataset.status !== 'idle'"
    )
    notebook = lab.open(lab_page, "saved.ipynb")
    view = view_of(lab_page)
    assert view.press("ArrowRight").step == 1
    assert view.text(".changes .values") == "DE2 → GB9"
    assert "rror" not in lab_page.locator(".jp-OutputArea").first.inner_text()


def test_an_untrusted_notebook_shows_the_tables(lab, lab_page):
    html = episode_html(scripted(STATES), rules=[Forbid("/vendors/**")])
    cell = nbformat.v4.new_code_cell(
        "episode", outputs=[nbformat.v4.new_output("display_data", {"text/html": html})]
    )
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), lab.folder / "strange.ipynb")
    lab.open(lab_page, "strange.ipynb")
    output = lab_page.locator(".jp-OutputArea-output").first
    output.wait_for()
    assert "/vendors/id=1/account" in output.inner_text()
    assert "need" in output.inner_text()
    assert output.locator("script").count() == 0
    assert lab_page.locator(READY).count() == 0


def test_the_dark_theme_is_followed(lab, lab_page, evidence):
    lab.write("dark.ipynb", OPEN.format(path=evidence) + "EpisodeStepper(episode)")
    notebook = lab.open(lab_page, "dark.ipynb")
    notebook.run_all()
    view = view_of(lab_page)
    assert view.app.get_attribute("data-theme") == "light"
    notebook.command("apputils:change-theme", theme="JupyterLab Dark")
    view.root.locator('.app[data-theme="dark"]').wait_for()
    notebook.command("apputils:change-theme", theme="JupyterLab Light")
    view.root.locator('.app[data-theme="light"]').wait_for()


def test_what_the_page_does_not_hold_comes_from_the_kernel(lab, lab_page):
    path = lab.folder / "long.duckdb"
    with connect(path) as store:
        changes = {each.step: each.path for each in warehouse(6_000, 5, store=store).changes()}
    code = OPEN.format(path=str(path)) + "stepper = EpisodeStepper(episode, limit=20_000)\nstepper"
    lab.write("long.ipynb", code)
    notebook = lab.open(lab_page, "long.ipynb")
    notebook.run_all()
    view = view_of(lab_page)
    missing = lab_page.evaluate(
        """() => {
            const { main } = [...globalThis['envbench.stepper/1'].apps].pop();
            for (let step = 1; step < main.last; step++) {
                if (!main.packed.has(main.chunkOf(step))) return step + 5;
            }
        }"""
    )
    assert not view.root.locator(".banner").is_visible()
    notebook.run(f"stepper.step = {missing}\nprint()")
    lab_page.wait_for_selector(f'{READY}[data-step="{missing}"]')
    assert changes[missing] in view.texts(".changes .path")


def test_in_a_box_of_widgets_it_has_a_view_of_its_own(lab, lab_page, evidence):
    code = OPEN.format(path=evidence)
    code += "import ipywidgets\nstepper = EpisodeStepper(episode)\nipywidgets.VBox([stepper])"
    lab.write("box.ipynb", code)
    notebook = lab.open(lab_page, "box.ipynb")
    notebook.run_all()
    view = view_of(lab_page)
    view.press("ArrowRight", "ArrowRight")
    lab_page.wait_for_timeout(300)
    assert notebook.run("print(stepper.step)") == "2"
