"""A live comparison in a real JupyterLab: its cells open pairs that the page does not hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .lab import Lab

ROOT = Path(__file__).resolve().parents[2]

SETUP = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from envbench import compare, connect, evaluate
from envbench.comparison import Episodes
from envbench.workbench import ComparisonView
from tests.workbench.walks import ARRIVED, Walk, record
store = connect(":memory:")
for case_id, before, after in (("a", True, True), ("b", True, False), ("c", True, False)):
    record(store, Walk(case_id=case_id, version="1", outcome=before))
    record(store, Walk(case_id=case_id, version="2", outcome=after, steps=5))
evaluate(store, [ARRIVED]).save(store)
sides = [Episodes(environment_version=version) for version in "12"]
view = ComparisonView(compare(*sides, store=store, names=("old", "new")), store, limit=1)
view
"""

CASES = "print([(e.case.case_id, len(e.steps)) for e in view.episodes])"


@pytest.mark.slow
def test_a_cell_opens_its_pair_side_by_side(lab: Lab, lab_page: Any) -> None:
    lab.write("comparison.ipynb", SETUP)
    notebook = lab.open(lab_page, "comparison.ipynb")
    notebook.run_all()
    page = lab_page.locator(".envbench-comparison[data-view]")
    page.wait_for()
    assert page.locator(".envbench-stepper").count() == 1  # the limit left no room for "c"

    page.locator("table a[href^='#']", has_text="c").first.click()
    page.locator(".envbench-comparison-live .envbench-stepper[data-ready]").wait_for()
    assert notebook.run(CASES) == "[('c', 2), ('c', 5)]"

    # what is saved is the page, which needs no kernel
    notebook.save()
    (shown,) = [output for output in notebook.outputs() if "data" in output]
    assert set(shown["data"]) == {"text/html", "text/plain"}
    assert shown["data"]["text/plain"] == "<ComparisonView of new against old>"
