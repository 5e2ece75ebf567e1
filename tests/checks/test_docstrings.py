"""The examples in the docstrings run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import envbench.checks

MODULES = [module.name for module in pkgutil.iter_modules(envbench.checks.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str) -> None:
    module = importlib.import_module(f"envbench.checks.{name}")
    assert doctest.testmod(module).failed == 0


def test_the_examples_are_found() -> None:
    outcome = importlib.import_module("envbench.checks.outcome")
    assert doctest.testmod(outcome).attempted >= 3
