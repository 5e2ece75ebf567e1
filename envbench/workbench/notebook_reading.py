"""Reading a notebook, and running it when that is asked for."""

from __future__ import annotations

import json
import logging
import subprocess
import warnings
from pathlib import Path
from typing import Any

import nbformat


class NotebookError(Exception):
    """A notebook cannot be read or run; the message is one line that says where and why."""


def read_notebook(path: Path) -> Any:
    """A notebook of any version, in the form of version 4.

    Raises:
        NotebookError: when it is none, or malformed.
        OSError: when the file cannot be read.
    """
    raw = path.read_bytes()
    try:
        plain = json.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise NotebookError(f"{path}: is no notebook: it is not text in UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise NotebookError(f"{path}: is no notebook: {_one_line(error)}") from None
    if not isinstance(plain, dict) or not ("cells" in plain or "worksheets" in plain):
        raise NotebookError(f"{path}: is no notebook: it has no cells")
    if type(plain.get("nbformat")) is not int:
        raise NotebookError(f"{path}: does not say of which nbformat it is")
    format_: Any = nbformat  # it is not typed
    logger = logging.getLogger("traitlets")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)  # it prints what is said below
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of ids that are missing or double: they get new ones
            notebook = format_.reads(json.dumps(plain), as_version=4)
            _, notebook = format_.validator.normalize(notebook)
            format_.validate(notebook)
    except format_.ValidationError as error:
        where = "/".join(map(str, getattr(error, "absolute_path", ())))
        what = str(getattr(error, "message", None) or error)
        raise NotebookError(
            f"{path}: is malformed{f' at {where}' if where else ''}: {_cut(_one_line(what))}"
        ) from None
    except Exception as error:  # a converter of an old version meets anything
        raise NotebookError(
            f"{path}: is malformed: {type(error).__name__}: {_cut(_one_line(error))}"
        ) from None
    finally:
        logger.setLevel(level)
    return notebook


def run_notebook(notebook: Any, path: Path) -> None:
    """Run every cell of a notebook in a kernel of its own; the notebook gets the outputs.

    Raises:
        NotebookError: naming the cell that failed, or why no kernel could be started.
    """
    from jupyter_client.kernelspec import NoSuchKernel
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    client: Any = NotebookClient
    name = (notebook.metadata.get("kernelspec") or {}).get("name") or "python3"
    try:
        client(
            notebook,
            timeout=None,
            kernel_name=name,
            resources={"metadata": {"path": str(path.resolve().parent)}},
        ).execute(stderr=subprocess.DEVNULL)  # what a kernel says of itself
    except NoSuchKernel:
        raise NotebookError(
            f"{path}: needs the kernel {name!r}, which is not installed here"
        ) from None
    except CellExecutionError as error:
        failed = [
            number
            for number, cell in enumerate(notebook.cells, 1)
            if any(out["output_type"] == "error" for out in cell.get("outputs", ()))
        ]
        number = failed[-1] if failed else "of it"
        raise NotebookError(
            f"{path}: cell {number} raised {error.ename}: {_cut(_one_line(error.evalue))}"
        ) from None
    except (CellTimeoutError, DeadKernelError) as error:
        raise NotebookError(f"{path}: could not be run: {_one_line(error)}") from None


def _one_line(error: object) -> str:
    return " ".join(str(error).split())


def _cut(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:199]}…"
