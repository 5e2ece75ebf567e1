"""The house holds together: its floors, its public names, and what an import brings in."""

from __future__ import annotations

import ast
import importlib
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import envbench

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = sorted(p.parent.name for p in (ROOT / "envbench").glob("*/__init__.py"))
PUBLIC = [name for name in envbench.__all__ if name != "__version__"]

# What may be imported with capture, to sit in a training job (design: plain Gymnasium, NumPy,
# DuckDB, PyArrow, orjson and pydantic), with the packages that those five bring in themselves.
CAPTURE_NEEDS = ("gymnasium", "numpy", "duckdb", "pyarrow", "orjson", "pydantic")


def run_python(program: str) -> str:
    """What a program prints in a fresh Python."""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def modules_after(statement: str) -> set[str]:
    """Names of the modules in a fresh Python after a statement, submodules included."""
    printed = run_python(f"import json, sys\n{statement}\nprint(json.dumps(sorted(sys.modules)))")
    return set(json.loads(printed.splitlines()[-1]))


def third_parties(modules: set[str]) -> set[str]:
    roots = {name.partition(".")[0] for name in modules}
    return {
        root
        for root in roots - set(sys.stdlib_module_names) - {"envbench"}
        if not root.startswith(("_", "sitecustomize"))
    }


def test_importing_the_root_brings_in_nothing() -> None:
    nothing, root = modules_after("pass"), modules_after("import envbench")
    assert third_parties(root) == third_parties(nothing)
    assert not [name for name in root if name.startswith("envbench.")]


def test_importing_the_root_takes_less_than_a_fifth_of_a_second_of_processor_time() -> None:
    # It takes about one millisecond, so the limit does not depend on the machine or its load.
    program = (
        "import time; t = time.process_time(); import envbench; print(time.process_time() - t)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert float(run.stdout) < 0.2


def test_capture_brings_in_only_what_a_training_job_needs() -> None:
    allowed = third_parties(modules_after("import " + ", ".join(CAPTURE_NEEDS)))
    assert set(CAPTURE_NEEDS) <= allowed
    assert third_parties(modules_after("import envbench.capture")) <= allowed


@pytest.mark.parametrize("package", ["capture", "store", "checks"])
def test_no_frames_and_no_display_before_they_are_asked_for(package: str) -> None:
    heavy = {"pandas", "polars", "altair", "scipy", "statsmodels", "typer", "rich", "IPython"}
    heavy |= {"ipywidgets", "anywidget", "nbconvert", "jupyterlab", "matplotlib"}
    assert third_parties(modules_after(f"import envbench.{package}")) & heavy == set()


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_is_loaded_once_from_its_package(name: str) -> None:
    value = getattr(envbench, name)
    assert value is getattr(envbench, name)
    assert value.__name__ == name
    assert value.__doc__


def test_the_public_names_are_the_ones_that_a_type_checker_sees() -> None:
    tree = ast.parse(Path(envbench.__file__).read_text(encoding="utf-8"))
    (checked,) = (node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in checked.body if isinstance(node, ast.ImportFrom)]
    seen = {
        alias.name: node.module
        for node in imports
        if node.module and node.module.startswith("envbench.")
        for alias in node.names
    }
    assert seen == {name: envbench._HOME[name] for name in PUBLIC}
    for name, package in seen.items():
        assert name in importlib.import_module(package).__all__


def test_completion_shows_names_that_are_not_loaded_yet() -> None:
    program = "import envbench; print(*dir(envbench))"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert set(envbench.__all__) <= set(run.stdout.split())


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'envbench' has no attribute 'EpisodeEvidenc'"):
        envbench.EpisodeEvidenc  # noqa: B018


def test_a_star_import_gives_the_public_names() -> None:
    names: dict[str, object] = {}
    exec("from envbench import *", names)
    assert set(envbench.__all__) <= set(names)


def test_the_version_is_the_one_in_pyproject() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert envbench.__version__ == project["version"]


def lint_floors(folder: Path) -> str:
    """What import-linter says about the contracts of a project."""
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert run.returncode == int("0 broken" not in run.stdout), run.stdout + run.stderr
    return run.stdout


def test_floors_hold() -> None:
    assert "2 kept, 0 broken" in lint_floors(ROOT)


@pytest.fixture
def empty_house(tmp_path: Path) -> Path:
    """A project with our contracts and packages in which nothing is written yet."""
    (tmp_path / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    for package in ("", "cli", *PACKAGES):
        (tmp_path / "envbench" / package).mkdir(parents=True, exist_ok=True)
        (tmp_path / "envbench" / package / "__init__.py").touch()
    return tmp_path


def test_the_contract_holds_in_an_empty_house(empty_house: Path) -> None:
    assert "2 kept, 0 broken" in lint_floors(empty_house)


def test_an_import_that_runs_up_breaks_the_contract(empty_house: Path) -> None:
    (empty_house / "envbench/store/__init__.py").write_text("import envbench.capture\n")
    assert "envbench.store is not allowed to import envbench.capture" in lint_floors(empty_house)


def test_a_package_without_a_floor_breaks_the_contract(empty_house: Path) -> None:
    (empty_house / "envbench/attic").mkdir()
    (empty_house / "envbench/attic/__init__.py").touch()
    assert "1 kept, 1 broken" in lint_floors(empty_house)


def test_evidence_that_imports_a_store_breaks_the_contract(empty_house: Path) -> None:
    (empty_house / "envbench/evidence/__init__.py").write_text("import duckdb\n")
    assert "envbench.evidence is not allowed to import duckdb" in lint_floors(empty_house)


def test_every_file_says_what_it_is() -> None:
    for path in (ROOT / "envbench").rglob("*.py"):
        assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), path
