"""The examples of `docs/sharing.md` run, and what it promises of lengths is what the code has."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from envbench.workbench import payload_redaction, spellings

PAGE = Path(__file__).parents[2] / "docs" / "sharing.md"


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = doctest.testfile(str(PAGE), module_relative=False)
    assert found.attempted > 3
    assert found.failed == 0
    assert "zoe@example.org" not in (tmp_path / "findings.html").read_text()


def test_the_lengths_are_those_of_the_code() -> None:
    text = " ".join(PAGE.read_text().split())
    assert f"at least {payload_redaction.SHORTEST_TEXT} characters" in text
    assert f"at least {payload_redaction.SHORTEST_NUMBER} digits" in text
    assert f"It needs {spellings.SHORTEST} characters" in text
