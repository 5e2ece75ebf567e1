"""The examples in docs/guardrails.md and in docstrings run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import gymnasium
import pytest

import envbench.guardrails

PAGE = Path(__file__).parents[2] / "docs" / "guardrails.md"
MODULES = [module.name for module in pkgutil.iter_modules(envbench.guardrails.__path__)]


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    """Leaves Gymnasium's registry as it was."""
    before = dict(gymnasium.registry)
    yield
    gymnasium.registry.clear()
    gymnasium.registry.update(before)


def test_the_page_s_examples_run() -> None:
    done = doctest.testfile(str(PAGE), module_relative=False)
    assert (done.failed, done.attempted > 30) == (0, True)


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings_run(module: str) -> None:
    done = doctest.testmod(importlib.import_module(f"envbench.guardrails.{module}"))
    assert done.failed == 0


def test_the_examples_are_found() -> None:
    found = doctest.DocTestFinder().find(
        importlib.import_module("envbench.guardrails.injections"), "injections"
    )
    assert sum(bool(test.examples) for test in found) >= 5


def test_every_public_name_is_loaded_when_it_is_used() -> None:
    for name in envbench.guardrails.__all__:
        assert getattr(envbench.guardrails, name).__name__ == name
    assert set(envbench.guardrails.__all__) <= set(dir(envbench.guardrails))
    with pytest.raises(AttributeError, match="has no attribute 'Gaurdrail'"):
        envbench.guardrails.Gaurdrail  # noqa: B018
