"""The examples in docs/environments.md and in docstrings run."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

from tests.environments.endpoint import ChatServer, Reply, Request, call, says

PAGE = Path(__file__).parents[2] / "docs" / "environments.md"


def librarian(request: Request) -> Reply:
    """The model of the page: it searches, and lends what was found."""
    if request.turn == 0:
        return says(None, call("search", {"words": "dune"}))
    return says(None, call("lend", {"title": "Dune"}))


def test_the_page_s_examples_run():
    with ChatServer(librarian) as server:
        done = doctest.testfile(str(PAGE), module_relative=False, globs={"address": server.url})
    assert (done.failed, done.attempted > 30) == (0, True)


@pytest.mark.parametrize("module", ["actions", "fields", "models", "plain", "policies", "tools"])
def test_examples_in_docstrings_run(module):
    done = doctest.testmod(importlib.import_module(f"envbench.environments.{module}"))
    assert done.failed == 0
    assert done.attempted >= 1
