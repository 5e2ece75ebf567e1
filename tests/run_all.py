"""Run every check of the project: lint, format, types, layers, and the tests on two Pythons.

The README's test command calls this with the Python of an environment that has the ``dev`` extra.
The tests run there and once more on another Python, in an environment of its own: on the newest
one that works here, or on the oldest supported one where this is not the oldest; the slow ones run
once. Exit 0 only if all passed. With ``CI=true``, finding no other Python is a failure too.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OLDEST = (3, 11)
IN_CI = os.environ.get("CI") == "true"

PYTEST = ("-m", "pytest", "-n", "2", "-q")

# Whether a Python runs at all and has what a virtual environment needs: a name on the path can be
# an empty shim, and distributions leave modules out.
PROBE = (
    "import sys, ssl, sqlite3, venv, ensurepip; v = sys.version_info; "
    "print(v.major, v.minor, v.releaselevel)"
)


@dataclass(frozen=True, slots=True)
class Python:
    """An interpreter that was run and answered."""

    version: tuple[int, int]
    path: str

    @property
    def name(self) -> str:
        return f"Python {self.version[0]}.{self.version[1]}"


def main() -> int:
    bin_folder = Path(sys.executable).parent
    here = sys.version_info[:2]
    results: list[tuple[str, bool, float]] = []

    def run(name: str, *command: str) -> None:
        print(f"\n== {name}", flush=True)
        started = time.monotonic()
        passed = subprocess.run(command, cwd=ROOT, check=False).returncode == 0
        results.append((name, passed, time.monotonic() - started))

    with ThreadPoolExecutor(max_workers=1) as pool:
        other_is_being_made = pool.submit(other_environment, here)
        run("lint", str(bin_folder / "ruff"), "check", ".")
        run("format", str(bin_folder / "ruff"), "format", "--check", ".")
        run("types", str(bin_folder / "mypy"))
        run("layers", str(bin_folder / "lint-imports"))
        run(f"tests on Python {here[0]}.{here[1]}", sys.executable, *PYTEST)
        other = other_is_being_made.result()

    if other is None:
        wanted = "3.11" if here > OLDEST else "one newer than 3.11"
        print(f"\nNo other Python works here. To run the tests on two, install {wanted}.")
        results.append(("another Python", not IN_CI, 0.0))
    else:
        # kills and simulations ran above, and cost as much again as everything else
        run(f"tests on {other.name}", other.path, *PYTEST, "-m", "not slow")

    print()
    for name, passed, seconds in results:
        print(f"{'ok    ' if passed else 'FAILED'}  {name} ({seconds:.0f} s)")
    return 0 if all(passed for _, passed, _ in results) else 1


def other_environment(here: tuple[int, int]) -> Python | None:
    """An environment with this project on another Python, passing over those that fail."""
    for python in preferred(here, set(working_pythons())):
        folder = ROOT / f".venv-tests-{python.version[0]}.{python.version[1]}"
        inside = folder / "bin" / "python"
        install = [str(inside), "-m", "pip", "install", "-q", "-e", ".[dev]"]
        for command in ([python.path, "-m", "venv", str(folder)], install):
            if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
                print(f"{python.name} ({python.path}) is passed over: {' '.join(command)} failed")
                break
        else:
            return Python(python.version, str(inside))
    return None


def preferred(here: tuple[int, int], found: set[Python]) -> list[Python]:
    """One Python a version, newest first; the oldest supported one leads where this is newer."""
    versions = {python.version: python for python in sorted(found, key=lambda p: p.path)}
    newest_first = sorted((v for v in versions if v != here and v >= OLDEST), reverse=True)
    if here > OLDEST:
        newest_first.sort(key=lambda version: version != OLDEST)
    return [versions[version] for version in newest_first]


def working_pythons() -> Iterator[Python]:
    """Every released Python on the path or in the usual folders that runs and can make a venv."""
    for candidate in sorted(candidates()):
        try:
            answer = subprocess.run(
                [candidate, "-c", PROBE],
                capture_output=True,
                text=True,
                timeout=30,
                stdin=subprocess.DEVNULL,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        match = re.fullmatch(r"(\d+) (\d+) final\n", answer.stdout)
        if match and answer.returncode == 0:
            yield Python((int(match[1]), int(match[2])), candidate)


def candidates() -> set[str]:
    names = [f"python3.{minor}" for minor in range(OLDEST[1], 30)]
    on_path = {found for name in names if (found := shutil.which(name))}
    home = Path.home()
    patterns = {
        Path("/usr/local/bin"): "python3.??",
        Path("/opt"): "python*/bin/python3",
        Path("/opt/homebrew/bin"): "python3.??",
        Path(os.environ.get("PYENV_ROOT", home / ".pyenv")) / "versions": "3.*/bin/python3",
        home / ".local/share/uv/python": "*/bin/python3",
        home / ".asdf/installs/python": "3.*/bin/python3",
    }
    in_folders = {str(p) for folder, pattern in patterns.items() for p in folder.glob(pattern)}
    return on_path | in_folders


if __name__ == "__main__":
    sys.exit(main())
