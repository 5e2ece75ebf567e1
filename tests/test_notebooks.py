"""The notebooks run clean from top to bottom, and are committed as a reader should see them."""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
import shutil
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))

# What a path of a machine begins with; a notebook names only what lies beside it.
PATHS = re.compile(r"(?<![\w.:/])/(?:work|tmp|root|home|Users|private|var|opt|usr)/[\w.]+")

# What is packed of episodes: gzip in Base64.
PACKED = re.compile(r"H4sI[A-Za-z0-9+/]+=*")


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request: pytest.FixtureRequest) -> Path:
    found: Path = request.param
    return found


def code_cells(node: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [cell for cell in node.cells if cell.cell_type == "code"]


def errors(cell: nbformat.NotebookNode) -> list[str]:
    return [f"{o.ename}: {o.evalue}" for o in cell.outputs if o.output_type == "error"]


def test_there_are_some() -> None:
    assert len(NOTEBOOKS) >= 8


def test_it_is_committed_with_its_outputs(notebook: Path) -> None:
    node = nbformat.read(notebook, as_version=4)
    nbformat.validate(node)
    counts = [cell.execution_count for cell in code_cells(node)]
    assert counts == list(range(1, len(counts) + 1))
    assert any(cell.outputs for cell in code_cells(node))
    for cell in code_cells(node):
        assert errors(cell) == []


def test_it_carries_no_path_of_a_machine(notebook: Path) -> None:
    content = notebook.read_text(encoding="utf-8")
    assert PATHS.findall(content) == []
    for packed in PACKED.findall(content):
        assert PATHS.findall(gzip.decompress(base64.b64decode(packed)).decode()) == []


def test_it_begins_with_its_title(notebook: Path) -> None:
    first = nbformat.read(notebook, as_version=4).cells[0]
    assert first.cell_type == "markdown"
    assert first.source.startswith("# ")


@pytest.mark.slow
def test_it_runs_clean_from_top_to_bottom(notebook: Path, tmp_path: Path) -> None:
    for folder in ("notebooks", "data"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    node = nbformat.read(notebook, as_version=4)
    for cell in code_cells(node):
        cell.outputs, cell.execution_count = [], None
    where = {"metadata": {"path": str(tmp_path / "notebooks")}}
    NotebookClient(node, timeout=300, kernel_name="python3", resources=where).execute()
    for cell in code_cells(node):
        assert errors(cell) == []
        assert [o.text for o in cell.outputs if o.get("name") == "stderr"] == []


def test_the_evidence_is_that_of_the_checksums() -> None:
    lines = (ROOT / "data" / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    assert lines
    for line in lines:
        digest, name = line.split("  ")
        assert hashlib.sha256((ROOT / "data" / name).read_bytes()).hexdigest() == digest
