"""`envbench lab`: JupyterLab on the notebooks."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from envbench.cli.application import BadInput, app


@app.command()
def lab(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="[DIR]",
            help="A folder or a notebook; by default those of a checkout, else this folder.",
        ),
    ] = None,
    more: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- OPTION...]", help="Options for JupyterLab, after --."),
    ] = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open a browser, or only say where.")
    ] = True,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Where to listen.")] = None,
) -> None:
    """Open JupyterLab on a folder of notebooks; Ctrl-C ends it."""
    if importlib.util.find_spec("jupyterlab") is None:
        raise BadInput("JupyterLab is not installed: pip install jupyterlab")
    given = notebooks() if folder is None else folder
    if not given.exists():
        raise BadInput(f"{given}: there is no such folder")
    given = given.resolve()
    if given.is_file() and given.suffix != ".ipynb":
        raise BadInput(f"{given}: is neither a folder nor a notebook")
    root = given.parent if given.is_file() else given
    arguments = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={root}"]
    if given.is_file():
        arguments.append(str(given))
    if not browser:
        arguments.append("--no-browser")
    if port is not None:
        arguments.append(f"--port={port}")
    arguments += more or []
    sys.stdout.flush()
    os.execv(sys.executable, arguments)  # it gets Ctrl-C itself


def notebooks() -> Path:
    """The notebooks of this project where it is a checkout, else the current folder."""
    checkout = Path(__file__).resolve().parents[2]
    ours = checkout / "notebooks"
    if (checkout / "pyproject.toml").is_file() and any(ours.glob("*.ipynb")):
        return ours
    return Path.cwd()
