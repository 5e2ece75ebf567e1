"""The README's commands are what the gate runs, to the letter, and each stands on its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
GATE = (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def command_ending_in(end: str) -> str:
    """The one line of the README's shell blocks that ends so."""
    blocks = re.findall(r"^```sh\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line.endswith(end)]
    assert len(lines) == 1, f"the README has {len(lines)} commands that end in {end!r}"
    return lines[0]


# What the README's rules find in its own example.
BROKEN = (
    'step 1: /vendors/vendor_id="V-1"/account: "DE01" → "GB99", back at step 3'
    ' (Forbid("/vendors/**")), and 1 more'
)

MAIN_JOB = command_ending_in("envbench demo")
ALL_CHECKS = command_ending_in("tests/run_all.py")


@pytest.mark.parametrize("command", [MAIN_JOB, ALL_CHECKS])
def test_the_gate_runs_the_command_as_written(command: str) -> None:
    assert GATE.splitlines().count(command) == 1


@pytest.mark.parametrize("command", [MAIN_JOB, ALL_CHECKS])
def test_the_command_makes_the_environment_it_uses(command: str) -> None:
    match = re.match(r"python3 -m venv (\S+) && (\S+)/bin/pip install ", command)
    assert match
    assert match[1] == match[2]
    assert set(re.findall(r"(\.venv\S*)/bin", command)) == {match[1]}


def test_the_two_commands_use_different_environments() -> None:
    assert MAIN_JOB.split()[3] != ALL_CHECKS.split()[3]


def test_the_gate_is_valid_shell_that_stops_at_the_first_failure() -> None:
    subprocess.run(["bash", "-n", str(ROOT / ".ci" / "run")], check=True)
    assert "set -euo pipefail" in GATE.splitlines()


def test_pictures_and_files_that_the_readme_names_exist() -> None:
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", README) + re.findall(r' src="([^"]+)"', README)
    missing = [t for t in targets if not t.startswith("https://") and not (ROOT / t).exists()]
    assert missing == []


def test_the_readmes_code_runs_as_one_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)
    exec("\n".join(blocks), {})
    assert capsys.readouterr().out.splitlines() == [
        "terminated [0, 4, 8, 9, 10, 14, 15]",
        "accept",
        'step 1: /vendors/vendor_id="V-1"/account: DE01 → GB99, back at step 3',
        "step 2: /postings/id=1: ABSENT → {'cents': 500, 'id': 1}",
        'step 3: /vendors/vendor_id="V-1"/account: GB99 → DE01',
        BROKEN,
        "no difference shown ('crossing-3', 'crossing-4', 'crossing-5') p at least 0.25",
        "3 episodes",
    ]


@pytest.mark.parametrize(("ci", "outcome"), [("true", "1 failed"), ("", "1 skipped")])
def test_a_skip_fails_in_the_gate_only(ci: str, outcome: str, tmp_path: Path) -> None:
    conftest = (ROOT / "tests" / "conftest.py").read_text(encoding="utf-8")
    (tmp_path / "conftest.py").write_text(conftest, encoding="utf-8")
    (tmp_path / "test_it.py").write_text(
        "import shutil\n"
        "def test_it(monkeypatch, request):\n"
        "    monkeypatch.setattr(shutil, 'which', lambda name: None)\n"
        "    request.getfixturevalue('chromium')\n",
        encoding="utf-8",
    )
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "CI": ci},
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome in run.stdout
    assert "apt-get install chromium" in run.stdout


@pytest.mark.parametrize(("ci", "outcome"), [("true", "1 error"), ("", "1 skipped")])
def test_a_skipped_file_fails_in_the_gate_only(ci: str, outcome: str, tmp_path: Path) -> None:
    conftest = (ROOT / "tests" / "conftest.py").read_text(encoding="utf-8")
    (tmp_path / "conftest.py").write_text(conftest, encoding="utf-8")
    source = "import pytest\npytest.importorskip('no_such_module')\n"
    (tmp_path / "test_it.py").write_text(source, encoding="utf-8")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "CI": ci},
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome in run.stdout
    assert run.returncode == {"true": 2, "": 5}[ci]
