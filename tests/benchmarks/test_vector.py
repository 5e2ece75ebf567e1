"""The benchmark runs, on what is installed here; its figures are for people, not for a test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("vector.py")


@pytest.mark.slow
def test_a_smoke_run_prints_one_row_for_each_size() -> None:
    run = subprocess.run(
        [sys.executable, str(SCRIPT), "--quick"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    head, _, *rows, _, measured = run.stdout.strip().splitlines()
    assert "| envbench | copies | RecordEpisodeStatistics |" in head
    assert [row.split("|")[1].strip() for row in rows] == [
        "2 sync, 500 steps",
        "8 sync, 500 steps",
        "64 sync, 500 steps",
        "2 sync, 9 steps",
        "8 sync, 9 steps",
        "64 sync, 9 steps",
        "2 own class, 500 steps",
        "8 own class, 500 steps",
        "64 own class, 500 steps",
    ]
    assert "CPU µs for a step of one environment over bare. Measured 20" in measured
