"""How the gate finds another Python: it runs what it finds before it believes it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).with_name("run_all.py")


@pytest.fixture
def run_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The script, on a machine with nothing but an empty folder on the path."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    (tmp_path / "bin").mkdir()
    spec = importlib.util.spec_from_file_location("run_all", SCRIPT)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "run_all", module)
    spec.loader.exec_module(module)
    return module


def executable(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def test_what_does_not_run_or_answer_is_no_python(run_all: ModuleType, tmp_path: Path) -> None:
    empty = executable(tmp_path / "bin/python3.14", "")
    failing = executable(tmp_path / "bin/python3.13", "#!/bin/sh\necho '3 13 final'\nexit 1\n")
    executable(tmp_path / "bin/python3.15", "#!/bin/sh\necho '3 15 alpha'\n")
    silent = executable(tmp_path / "pyenv/versions/3.14.0/bin/python3", "#!/bin/sh\n")
    working = executable(
        tmp_path / "pyenv/versions/3.12.1/bin/python3", "#!/bin/sh\necho '3 12 final'\n"
    )
    assert {str(p) for p in (empty, failing, silent, working)} <= run_all.candidates()
    found = [p for p in run_all.working_pythons() if str(tmp_path) in p.path]
    assert found == [run_all.Python((3, 12), str(working))]


@pytest.mark.parametrize(
    ("here", "expected"),
    [
        ((3, 11), [(3, 13), (3, 12)]),
        ((3, 12), [(3, 11), (3, 13)]),
        ((3, 13), [(3, 11), (3, 12)]),
    ],
)
def test_the_newest_other_leads_and_the_oldest_where_this_is_newer(
    run_all: ModuleType, here: tuple[int, int], expected: list[tuple[int, int]]
) -> None:
    minors = (10, 11, 12, 13)
    found = {run_all.Python((3, minor), f"/{name}") for minor in minors for name in "ab"}
    assert [python.version for python in run_all.preferred(here, found)] == expected


def test_a_python_that_cannot_have_the_project_is_passed_over(
    run_all: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_all, "ROOT", tmp_path)
    makes_an_environment = (
        "#!/bin/sh\n"
        'if [ "$1" = -c ]; then echo "3 12 final"; exit; fi\n'
        'while [ "$#" -gt 1 ]; do shift; done\n'  # -m venv FOLDER
        '/bin/mkdir -p "$1/bin"; printf "#!/bin/sh\\n" > "$1/bin/python"\n'
        '/bin/chmod +x "$1/bin/python"\n'
    )
    makes_none = '#!/bin/sh\nif [ "$1" = -c ]; then echo "3 13 final"; exit; fi\nexit 1\n'
    executable(tmp_path / "bin/python3.12", makes_an_environment)
    executable(tmp_path / "bin/python3.13", makes_none)
    monkeypatch.setattr(run_all, "candidates", lambda: {str(p) for p in tmp_path.glob("bin/*")})
    found = run_all.other_environment((3, 11))
    assert found == run_all.Python((3, 12), str(tmp_path / ".venv-tests-3.12/bin/python"))
    assert run_all.other_environment((3, 12)) is None
