"""In a notebook, envbench shows its values without being told; elsewhere it imports no IPython."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
import envbench
import sys
assert "altair" not in sys.modules and "pandas" not in sys.modules
store = envbench.connect(":memory:")
bundle, _ = shell.display_formatter.format(store)
print(sorted(bundle))
shell.run_line_magic("load_ext", "envbench")
print("sql" in shell.magics_manager.magics["cell"])
"""


LATER = """
import envbench
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
import envbench.workbench
bundle, _ = shell.display_formatter.format(envbench.connect(":memory:"))
print(sorted(bundle))
"""


def run(program: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_importing_the_root_in_a_shell_registers_displays_and_the_extension_adds_sql() -> None:
    assert run(PROGRAM) == "['text/html', 'text/plain']\nTrue\n"


def test_importing_the_workbench_registers_displays_in_a_shell_that_was_started_later() -> None:
    assert run(LATER) == "['text/html', 'text/plain']\n"


def test_a_shell_that_is_imported_and_not_running_changes_nothing() -> None:
    assert run("import IPython, envbench, sys; print('envbench.workbench' in sys.modules)") == (
        "False\n"
    )
