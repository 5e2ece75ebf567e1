"""`envbench merge`: the episodes and reports of several stores in one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from envbench.cli.application import BadInput, app, refuse_missing
from envbench.cli.output import counted, one_line


@app.command()
def merge(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The store to write; made if new.")],
    inputs: Annotated[list[Path], typer.Argument(metavar="IN…", help="Stores to take in.")],
) -> None:
    """Take the episodes and reports of other stores into one."""
    for path in inputs:
        refuse_missing(path)
        if out.exists() and out.samefile(path):
            raise BadInput(f"{path}: is the store that the others are to be merged into")
    from envbench import connect
    from envbench.store import StoreError

    is_new = not out.exists()
    try:
        with connect(out) as store:
            store.merge(inputs)
            episodes = len(store.episodes())
    except (StoreError, OSError, ValueError) as error:
        if is_new:
            out.unlink(missing_ok=True)
        raise BadInput(one_line(error)) from None
    print(f"{out}: {counted(episodes, 'episode')}")
