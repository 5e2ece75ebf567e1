"""`envbench export`: a notebook as one HTML file, without what is redacted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from envbench.cli.application import AsJson, BadInput, app, refuse_missing
from envbench.cli.output import visible


@app.command()
def export(
    notebook: Annotated[Path, typer.Argument(metavar="NOTEBOOK", help="A Jupyter notebook.")],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="By default NOTEBOOK with .html."),
    ] = None,
    execute: Annotated[
        bool, typer.Option("--execute", help="Run all cells first; otherwise none is run.")
    ] = False,
    redact: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH",
            help="Take out what stands at a path of states, infos and observations, such as "
            "'/customers/*/email'. Repeatable.",
        ),
    ] = None,
    redact_value: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT", help="Take out a text wherever it stands, however spelled. Repeatable."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a notebook as one HTML file that asks the network for nothing.

    Steppers stay alive in it, charts are SVG, and no other script runs. A redaction that matches
    nothing is an error, and then no file is written. docs/sharing.md says what is promised.
    """
    refuse_missing(notebook)
    from envbench.workbench.export import ExportError, export_notebook

    try:
        made = export_notebook(
            notebook,
            output,
            execute=execute,
            redact=redact or (),
            redact_values=redact_value or (),
        )
    except (ExportError, ValueError) as error:
        raise BadInput(str(error)) from None
    if as_json:
        print(json.dumps(made.to_dict(), ensure_ascii=False))
    else:
        for line in str(made).splitlines():
            print(visible(line))
