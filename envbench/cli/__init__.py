"""`envbench …`: one file a command, joined here.

Exit codes: 0 for success, 1 where a command found what it looks for (a problem, a rejection), 2 for
bad input or an indeterminate decision, 130 after Ctrl-C. Bad input is one line on stderr.
"""

from __future__ import annotations

import io
import os
import sys
from importlib import import_module
from typing import Any, NoReturn

import typer

from envbench.cli.application import BadInput, app
from envbench.cli.output import visible

COMMANDS = (
    "demo",
    "lab",
    "export",
    "verify",
    "sql",
    "gate",
    "changes",
    "compare",
    "replay",
    "merge",
)
"""In the order of the help; each is the module of its name, which joins the application."""

for _command in COMMANDS:
    import_module(f"envbench.cli.{_command}")


def main() -> NoReturn:
    """Run the command line of this process and exit with its code."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal that has no ─ or é shows escapes
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = _run(sys.argv[1:])
        sys.stdout.flush()
    except _UsageError as error:
        code = _say(error.format_message())
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except (BadInput, RuntimeError) as error:
        if _is_interrupt(error):
            code = 130
        elif isinstance(error, BadInput):
            code = _say(str(error))
        else:
            raise
    except BrokenPipeError:
        _forget_output()
        code = 141  # as a shell shows a program that a closed pipe has ended
    except OSError as error:  # such as a full disk
        _forget_output()
        code = _say(error.strerror or str(error))
    sys.exit(code)


# typer carries its own click; of what it raises for wrong usage it exports only a subclass.
_UsageError: Any = typer.BadParameter.__mro__[1]


def _run(arguments: list[str]) -> int:
    # Not `app()`: that has its own way with a closed pipe, with wrong usage and with Ctrl-C.
    group = typer.main.get_command(app)
    try:
        with group.make_context("envbench", arguments) as context:
            group.invoke(context)
    except typer.Exit as done:
        return done.exit_code
    except SystemExit:
        raise BrokenPipeError from None  # only rich exits by itself, and only then
    return 0


def _is_interrupt(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind it: DuckDB makes a RuntimeError of one that stops a query."""
    while error is not None:
        if isinstance(error, RuntimeError) and str(error) == "Query interrupted":
            return True
        error = error.__cause__ or error.__context__
    return False


def _forget_output() -> None:
    """Drop what is still unwritten: Python would try once more at exit, and complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(message: str) -> int:
    print(f"envbench: {visible(' '.join(message.split()))}", file=sys.stderr)
    return 2
