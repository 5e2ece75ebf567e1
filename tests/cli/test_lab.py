"""`envbench lab`: a real JupyterLab on a folder, and one line for what is missing."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from envbench.cli.lab import notebooks


def lab(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "envbench.cli", "lab", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        check=False,
    )


@pytest.mark.slow
def test_it_serves_the_folder(tmp_path: Path) -> None:
    (tmp_path / "first.ipynb").write_text('{"cells": [], "nbformat": 4, "nbformat_minor": 5}')
    home = {name: str(tmp_path / "home" / name) for name in ("config", "data", "runtime")}
    environment = os.environ | {
        "JUPYTER_CONFIG_DIR": home["config"],
        "JUPYTER_DATA_DIR": home["data"],
        "JUPYTER_RUNTIME_DIR": home["runtime"],
    }
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    more = [f"--port={port}", "--", "--allow-root", "--IdentityProvider.token=t0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "envbench.cli", "lab", tmp_path, "--no-browser", *more],
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        assert process.stderr is not None
        seen = []
        for line in process.stderr:
            seen.append(line)
            if f"http://localhost:{port}/lab" in line:
                break
        else:
            pytest.fail(f"it did not start: {''.join(seen)}")
        address = f"http://localhost:{port}/api/contents?token=t0"
        names = [each["name"] for each in _answer(address, process)["content"]]
    finally:
        process.terminate()
        process.communicate()
    assert "first.ipynb" in names


def _answer(address: str, process: subprocess.Popen[str]) -> Any:
    """What the server answers as soon as it listens; it says where a moment before."""
    while True:
        try:
            with urllib.request.urlopen(address) as answer:
                return json.load(answer)
        except urllib.error.URLError:
            assert process.poll() is None, "the server ended"
            time.sleep(0.1)


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    ran = lab(tmp_path / "nowhere")
    assert ran.returncode == 2
    assert ran.stderr == f"envbench: {tmp_path / 'nowhere'}: there is no such folder\n"


def test_a_file_that_is_no_notebook_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    ran = lab(tmp_path / "a.txt")
    assert ran.returncode == 2
    assert ran.stderr == f"envbench: {tmp_path / 'a.txt'}: is neither a folder nor a notebook\n"


def test_without_jupyterlab_it_says_what_to_install(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['jupyterlab'] = None; sys.argv = ['envbench', 'lab']\n"
        "from importlib import util\n"
        "find = util.find_spec\n"
        "util.find_spec = lambda name, *more: None if name == 'jupyterlab' else find(name, *more)\n"
        "from envbench.cli import main; main()"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert ran.stderr == "envbench: JupyterLab is not installed: pip install jupyterlab\n"


def test_the_folder_is_that_of_the_checkout_or_the_current_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    checkout = Path(__file__).parents[2] / "notebooks"
    expected = checkout if any(checkout.glob("*.ipynb")) else tmp_path
    assert notebooks() == expected
