"""The evidence browser in a real JupyterLab: it follows a capture, filters, and opens episodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .lab import Lab

ROOT = Path(__file__).resolve().parents[2]

SETUP = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
import envbench
from envbench.workbench import EvidenceBrowser
from tests.workbench.worlds import warehouse
store = envbench.connect("evidence.duckdb")
for steps in (1, 2, 3):
    warehouse(steps, 2, store=store, case_id=f"case-{{steps}}")
browser = EvidenceBrowser(store)
browser
"""


@pytest.mark.slow
def test_it_follows_filters_and_opens(lab: Lab, lab_page: Any) -> None:
    page = lab_page
    lab.write("browser.ipynb", SETUP)
    notebook = lab.open(page, "browser.ipynb")
    notebook.run_all()
    page.wait_for_selector(".envbench-browser tbody button")
    assert page.locator(".envbench-browser tbody tr").count() == 3

    notebook.run('warehouse(4, 2, store=store, case_id="late"); print("recorded")')
    page.wait_for_selector(".envbench-browser tbody tr:nth-child(4)")

    page.get_by_role("button", name="case-2").click()
    page.wait_for_selector(".envbench-stepper[data-ready]")
    assert notebook.run("print([e.case.case_id for e in browser.episodes])") == "['case-2']"

    notebook.run('browser.query = {"text": "late"}; print("asked")')
    page.wait_for_function(
        "() => document.querySelectorAll('.envbench-browser tbody tr').length === 1"
    )
