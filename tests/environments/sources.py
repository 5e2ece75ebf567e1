"""Modules and notebook cells made of texts, for tests of what is read from source."""

from __future__ import annotations

import importlib.util
import linecache
import sys
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


def load_module(
    folder: Path, source: str, monkeypatch: pytest.MonkeyPatch, name: str = "desk_module"
) -> ModuleType:
    """Import a text as a module of some name, from a new file in a folder."""
    path = folder / f"version_{len(list(folder.iterdir()))}" / f"{name}.py"
    path.parent.mkdir(parents=True)
    path.write_text(textwrap.dedent(source), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


def run_cell(source: str, number: int = 1, into: dict[str, Any] | None = None) -> dict[str, Any]:
    """Run a text as a notebook runs a cell: in `__main__`, its lines known to `linecache`."""
    source = textwrap.dedent(source)
    file = f"/tmp/ipykernel_1234/{number}{hash(source)}.py"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    namespace = {"__name__": "__main__"} if into is None else into
    exec(compile(source, file, "exec"), namespace)
    return namespace
