"""The benchmark runs, on what is installed here; its figures are for people, not for a test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("capture.py")


@pytest.mark.slow
def test_a_smoke_run_prints_one_row_for_each_promise() -> None:
    run = subprocess.run(
        [sys.executable, str(SCRIPT), "--quick"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    head, _, *rows, _, measured = run.stdout.strip().splitlines()
    assert "| envbench " in head
    assert [row.split("|")[1].strip() for row in rows] == [
        "in the loop, no states",
        "whole process, durable",
        "same, 50-row states",
        "stored, 50-row states",
        "drawn image 210×160×3",
        "drawn image 210×160×3, stored",
        "noise image 210×160×3",
        "noise image 210×160×3, stored",
        "load 1,000 episodes, one check",
        "same, the check in SQL",
        "memory, 100,000-step episode",
    ]
    assert measured.startswith("Measured 20")
