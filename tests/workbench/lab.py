"""A real JupyterLab for tests: its server, notebooks in it, and what one does with them."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
import pytest


class Lab:
    """A JupyterLab that serves a folder.

    Attributes:
        folder: what it serves.
        address: where it is.
    """

    def __init__(self, folder: Path, address: str) -> None:
        self.folder = folder
        self.address = address

    def write(self, name: str, *cells: str) -> Path:
        """Write a notebook of code cells."""
        notebook = nbformat.v4.new_notebook(
            cells=[nbformat.v4.new_code_cell(cell) for cell in cells],
            metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}},
        )
        path = self.folder / name
        nbformat.write(notebook, path)
        return path

    def open(self, page: Any, name: str) -> Notebook:
        """Open a notebook, and wait until it is there."""
        page.goto(f"{self.address}/lab/tree/{name}?reset")
        page.wait_for_function("() => window.jupyterapp")
        page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=60_000)
        return Notebook(page, self.folder / name)


class Notebook:
    """A notebook that is open in a page."""

    def __init__(self, page: Any, path: Path) -> None:
        self.page = page
        self.path = path

    def command(self, name: str, **arguments: Any) -> None:
        """Execute a command of JupyterLab."""
        self.page.evaluate(
            "([name, given]) => { window.jupyterapp.commands.execute(name, given); }",
            [name, arguments],
        )

    def ready(self) -> None:
        """Wait until the kernel waits."""
        self.page.wait_for_function(
            # not the indicator: it is idle too before there is a kernel
            "() => window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.status"
            " === 'idle'",
            timeout=60_000,
        )

    def run_all(self) -> None:
        """Run every cell, and wait until the kernel is idle again."""
        self.ready()
        self.command("notebook:run-all-cells")
        self.ready()

    def run(self, code: str) -> str:
        """Run code in a new cell at the end, and give what it printed."""
        before = self.page.locator(".jp-CodeCell").count()
        self.page.evaluate(
            """(code) => {
                const panel = window.jupyterapp.shell.currentWidget;
                const model = panel.content.model.sharedModel;
                model.insertCell(model.cells.length, {cell_type: 'code', source: code});
                panel.content.activeCellIndex = model.cells.length - 1;
            }""",
            code,
        )
        self.command("notebook:run-cell")
        cell = self.page.locator(".jp-CodeCell").nth(before)
        cell.locator(".jp-OutputArea-output").first.wait_for(timeout=30_000)
        self.ready()
        return str(cell.locator(".jp-OutputArea").first.inner_text()).strip()

    def run_until(self, code: str, printed: str) -> str:
        """Run code until it prints this: a view tells Python when the stepping pauses."""
        for _ in range(10):
            if (found := self.run(code)) == printed:
                break
        return found

    def save(self) -> None:
        """Save the notebook to its file, and wait until it is there."""
        self.page.evaluate(
            "() => window.jupyterapp.commands.execute('docmanager:save').then(() => null)"
        )
        self.page.wait_for_function("() => !document.querySelector('.jp-mod-dirty')")

    def outputs(self) -> list[dict[str, Any]]:
        """The outputs that the file holds."""
        notebook = nbformat.read(self.path, as_version=4)
        return [output for cell in notebook.cells for output in cell.get("outputs", [])]


@contextmanager
def server(folder: Path, settings: Path) -> Iterator[Lab]:
    """Serve a folder with a configuration of its own; the test is skipped where Lab is missing."""
    pytest.importorskip("jupyterlab", reason="needs JupyterLab: pip install 'envbench[dev]'")
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    homes = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
    environment = os.environ | {name: str(settings / name.lower()) for name in homes}
    environment |= {"JUPYTERLAB_SETTINGS_DIR": str(settings / "settings")}
    environment |= {"JUPYTERLAB_WORKSPACES_DIR": str(settings / "workspaces")}
    log = (settings / "log").open("w")
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "jupyterlab",
            "--no-browser",
            "--allow-root",
            f"--ServerApp.port={port}",
            "--ServerApp.port_retries=0",
            "--IdentityProvider.token=",
            "--ServerApp.disable_check_xsrf=True",
            "--LabApp.expose_app_in_browser=True",
            "--LabApp.news_url=None",
            "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
            f"--ServerApp.root_dir={folder}",
        ],
        cwd=folder,
        env=environment,
        stdout=log,
        stderr=log,
        start_new_session=True,  # its kernels end with it
    )
    try:
        wait_for(lambda: answers(f"{address}/api"), process, settings / "log")
        yield Lab(folder, address)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        log.close()
        shutil.rmtree(settings, ignore_errors=True)


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5):
            return True
    except OSError:
        return False


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[Any], log: Path) -> None:
    end = time.monotonic() + 180
    while not condition():
        if process.poll() is not None or time.monotonic() > end:
            pytest.fail(f"JupyterLab does not start: {log.read_text()[-2_000:]}")
        time.sleep(0.2)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
