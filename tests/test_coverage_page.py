"""docs/coverage.md names, for each promise of the published documents, a test that exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from envbench.evidence.schema import DATA_KEYS

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "coverage.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.splitlines()
    if line.startswith("|") and not line.startswith(("|---", "| promise", "| field"))
]
TEST = re.compile(r"`(tests/[\w/]+\.py)::((?:\w+::)?\w+)`")
NAMED = sorted(set(TEST.findall(PAGE)))


@pytest.mark.parametrize(("file", "name"), NAMED, ids=lambda part: part)
def test_the_named_test_exists(file: str, name: str) -> None:
    nodes: list[ast.stmt] = ast.parse((ROOT / file).read_text(encoding="utf-8")).body
    for part in name.split("::"):
        kinds = (ast.FunctionDef, ast.ClassDef)
        (found,) = [node for node in nodes if isinstance(node, kinds) and node.name == part]
        nodes = found.body
    assert isinstance(found, ast.FunctionDef)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:60])
def test_each_row_says_what_is_ours_and_which_test_shows_it(row: list[str]) -> None:
    assert len(row) == 3
    assert row[1]
    assert TEST.findall(row[2])


def test_each_field_of_the_evidence_has_a_row() -> None:
    shown = {name for row in ROWS for name in re.findall(r"`\.data\[\"(\w+)\"\]", row[0])}
    assert shown <= set(DATA_KEYS)
    assert shown == {
        *("schema", "case", "case_id", "case_digest", "environment_id", "observer_id"),
        *("gymnasium_version", "seed", "max_steps", "options", "recorded_at", "spaces"),
        *("initial", "initial_state", "steps", "final_state", "output", "errors", "issues"),
        *("cleanup", "duration_ms", "termination", "digest"),
    }


def test_each_key_of_a_guardrails_info_has_a_row() -> None:
    promised = {
        *("task_id", "injection_id", "effect", "expected_effect", "utility", "security"),
        *("reason", "eval_time_ms"),
    }
    first = [row[0] for row in ROWS if "tests/guardrails/test_environment.py" in row[2]]
    shown = {
        name for cell in first if cell.startswith("`") for name in re.findall(r"`(\w+)`", cell)
    }
    assert promised <= shown
    assert any("`EvalResult`" in cell for cell in first)


def test_each_field_of_a_record_has_a_row() -> None:
    shown = " ".join(row[0] for row in ROWS if row[0].startswith("`rl."))
    for field in (
        *("episode id", "step index", "action and observation reprs", "reward", "terminated"),
        *("truncated", "info keys", "timing"),
        *("env id", "total steps", "episode return", "completed"),
    ):
        assert field in shown


def test_there_are_rows() -> None:
    assert len(ROWS) >= 180
    assert len(NAMED) >= 120
