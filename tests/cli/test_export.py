"""`envbench export`: the file, the report, and one line for bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests import test_cli

run = test_cli.run
V4: Any = nbformat.v4


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    path = tmp_path / "a.ipynb"
    output = V4.new_output("stream", name="stdout", text="the token is tok-4711\n")
    cells = [
        V4.new_markdown_cell("# Tokens\n\n![x](https://x.example/a.png)"),
        V4.new_code_cell("print(token)", outputs=[output], execution_count=1),
    ]
    nbformat.write(V4.new_notebook(cells=cells), path)
    return path


def test_it_writes_one_file_beside_the_notebook(run: Any, notebook: Path) -> None:
    ran = run("export", notebook)
    assert (ran.code, ran.err) == (0, "")
    target = notebook.with_suffix(".html")
    size = len(target.read_bytes())
    assert ran.out.splitlines() == [
        f"{target}: 2 cells, {size / 1000:.0f} kB",
        "  cell 1: picture left out",
    ]
    assert "tok-4711" in target.read_text()


def test_a_value_is_redacted_and_the_report_says_where(run: Any, notebook: Path) -> None:
    target = notebook.with_name("out.html")
    ran = run("export", notebook, "-o", target, "--redact-value", "tok-4711")
    assert ran.code == 0
    assert "  redacted value 1: 1 time (cell 2 printed text ×1)" in ran.out.splitlines()
    assert "tok-4711" not in target.read_text()
    assert not notebook.with_suffix(".html").exists()


def test_json(run: Any, notebook: Path) -> None:
    ran = run("export", notebook, "--redact-value", "tok-4711", "--json")
    report = json.loads(ran.out)
    assert report["path"] == str(notebook.with_suffix(".html"))
    assert report["executed"] is False
    assert report["redacted"] == [
        {"redaction": "value 1", "cell": 2, "kind": "printed text", "times": 1}
    ]


@pytest.mark.slow
def test_cells_are_run_when_asked_for(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "b.ipynb"
    nbformat.write(V4.new_notebook(cells=[V4.new_code_cell("6 * 7")]), path)
    ran = run("export", path, "--execute")
    assert ran.code == 0
    assert ">42<" in path.with_suffix(".html").read_text().replace("\n", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--redact-value", "nowhere"], "value 1 stands nowhere in the notebook"),
        (["--redact", "/a/*"], "no episode in the notebook has anything at /a/*"),
        (["--redact", "a"], "must start with '/'"),
        (["--redact-value", "ab"], "shorter than 3 characters"),
        (["-o", "nowhere/out.html"], "cannot be written"),
    ],
)
def test_bad_input_is_one_line_and_leaves_no_file(
    run: Any, notebook: Path, arguments: list[str], message: str
) -> None:
    ran = run("export", notebook, *arguments)
    assert ran.code == 2
    assert ran.out == ""
    assert message in ran.err
    assert len(ran.err.splitlines()) == 1
    assert list(notebook.parent.iterdir()) == [notebook]


def test_what_is_no_notebook(run: Any, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    ran = run("export", tmp_path / "a.txt")
    assert ran.code == 2
    assert ran.err.startswith(f"envbench: {tmp_path / 'a.txt'}: is no notebook")
    missing = run("export", tmp_path / "b.ipynb")
    assert missing.err == f"envbench: {tmp_path / 'b.ipynb'}: there is no such file\n"
