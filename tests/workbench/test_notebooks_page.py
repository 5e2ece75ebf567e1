"""The cells of `docs/notebooks.md` run in a shell, in their order, and show what it says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from IPython.core.interactiveshell import InteractiveShell

from envbench.workbench import magic

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "notebooks.md").read_text(encoding="utf-8")
CELLS = re.findall(r"^```ipython\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.chdir(ROOT)
    shell = InteractiveShell()
    shell.user_ns["get_ipython"] = lambda: shell
    yield shell
    shell.user_ns["store"].close()


def test_the_cells_run(run: InteractiveShell) -> None:
    shown = []
    for cell in CELLS:
        result = run.run_cell(cell)
        result.raise_error()
        if result.result is not None:
            bundle, _ = run.display_formatter.format(result.result)
            shown.append(bundle)
    assert run.user_ns["refused"].equals(
        pl.DataFrame({"environment_version": ["1.0.0", "2.0.0"], "episodes": [60, 60]})
    )
    assert run.user_ns["browser"].listing.matched > 0
    assert run.user_ns["stepper"].step == 1
    # what a notebook keeps of each view is a page
    assert sum("text/html" in bundle for bundle in shown) >= 5
    assert not any("application/vnd.jupyter.widget-view+json" in bundle for bundle in shown)


def test_the_usage_is_that_of_the_magic() -> None:
    assert magic.USAGE in PAGE
