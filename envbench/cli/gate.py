"""`envbench gate`: a report decided about, for a release."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from envbench.cli.application import AsJson, BadInput, app, opened_store, refuse_missing
from envbench.cli.output import one_line

if TYPE_CHECKING:
    from envbench.checks import AcceptancePolicy, Report


@app.command()
def gate(
    report: Annotated[
        Path, typer.Argument(metavar="REPORT", help="A report saved as JSON, or a store.")
    ],
    policy: Annotated[Path, typer.Option(metavar="FILE", help="An acceptance policy as JSON.")],
    report_id: Annotated[
        str | None, typer.Option("--report", metavar="ID", help="Which report of a store.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Decide about a report: exit 0 accept, 1 reject, 2 indeterminate.

    Bad input is exit 2 too: then stdout is empty and stderr says what is wrong.
    """
    decision = _read_policy(policy).evaluate(_read_report(report, report_id))
    if as_json:
        print(json.dumps(decision.to_dict(), ensure_ascii=False))
    else:
        print(decision)
    raise typer.Exit(decision.exit_code)


def _read_report(path: Path, report_id: str | None) -> Report:
    from envbench.checks import Report

    refuse_missing(path)
    if report_id is not None:
        with opened_store(path) as store:
            try:
                return Report.load(store, report_id)
            except (KeyError, ValueError) as error:
                raise BadInput(str(error.args[0])) from None
    with _reading(path, "report"):
        with path.open("rb") as file:
            if file.read(12)[8:] == b"DUCK":
                raise BadInput(f"{path}: is a store; say which of its reports with --report ID")
        return Report.load_json(path)


def _read_policy(path: Path) -> AcceptancePolicy:
    from envbench.checks import AcceptancePolicy

    refuse_missing(path)
    with _reading(path, "policy"):
        return AcceptancePolicy.load_json(path)


@contextlib.contextmanager
def _reading(path: Path, what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}") from None
    except (ValueError, TypeError) as error:
        text = one_line(error).removeprefix(f"{path}: ")
        raise BadInput(f"{path}: not a {what} as JSON: {text}") from None
