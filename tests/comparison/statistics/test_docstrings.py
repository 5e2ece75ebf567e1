"""The examples in the docstrings run, and nothing heavy is imported."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import subprocess
import sys

import pytest

import envbench.comparison.statistics

NAME = envbench.comparison.statistics.__name__
MODULES = [module.name for module in pkgutil.iter_modules(envbench.comparison.statistics.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str) -> None:
    assert doctest.testmod(importlib.import_module(f"{NAME}.{name}")).failed == 0


def test_the_examples_are_found() -> None:
    assert doctest.testmod(importlib.import_module(f"{NAME}.paired")).attempted >= 6


def test_what_takes_seconds_to_import_is_not_imported() -> None:
    code = """
import sys
from envbench.comparison.statistics import *
cluster_test([0.1, -0.2, 0.3]); smallest_effect(100, 20); smallest_cluster_effect([0.1] * 8)
exact_mcnemar(3, 1); newcombe_interval(3, 1, 2, 4); holm([0.1]); pass_at_k(20_000, 3, 1)
heavy = {"scipy.stats", "scipy.optimize", "statsmodels", "pandas"} & set(sys.modules)
sys.exit(f"imported: {heavy}" if heavy else 0)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
