"""`envbench demo`: the worked example, captured, judged and shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from envbench.cli.application import AsJson, BadInput, app
from envbench.cli.output import one_line


@app.command()
def demo(
    output_dir: Annotated[
        Path, typer.Option(metavar="DIR", help="Where to write; made when it is not there.")
    ] = Path("ledger-outcomes"),
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier run there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Record a real SQLite ledger used well and badly, judge each episode, and write a page.

    Exit 0 when every outcome was as the protocol expects, 1 when one was not.
    """
    from envbench.ledger.run import run
    from envbench.store import StoreError

    try:
        outcomes = run(output_dir, force=force)
    except (OSError, StoreError) as error:
        raise BadInput(one_line(error)) from None
    if as_json:
        print(json.dumps(outcomes.to_dict(), ensure_ascii=False))
    else:
        outcomes.print()
    raise typer.Exit(0 if outcomes.ok else 1)
