"""The command line's frame: the application that commands join, what they take, and bad input."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from envbench.cli.output import one_line

if TYPE_CHECKING:
    from envbench.evidence.episode import EpisodeEvidence
    from envbench.store import Store

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Record what agents do to the world, and judge that.",
)


# typer carries its own click, and exports of its exceptions only this one's subclass.
_Shown: Any = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")


class BadInput(_Shown):  # type: ignore[misc]
    """What the caller gave cannot be used; the message is one line that says what and why.

    Who calls `app` without `main`, such as typer's runner for tests, gets its exit code too.
    """

    exit_code = 2


StorePath = Annotated[Path, typer.Argument(metavar="STORE", help="A DuckDB store of envbench.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Record what agents do to the world, and judge that."""
    if version:
        from envbench import __version__

        print(f"envbench {__version__}")
        raise typer.Exit


def refuse_missing(path: Path) -> None:
    """Raise BadInput where there is no file at a path."""
    try:
        if not path.exists():
            raise BadInput(f"{path}: there is no such file")
        if path.is_dir():
            raise BadInput(f"{path}: is a folder, not a file")
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None


@contextlib.contextmanager
def opened_store(path: Path) -> Iterator[Store]:
    """The store, as one from somebody else: read-only, and nothing that it defines runs."""
    refuse_missing(path)
    from envbench import connect
    from envbench.store import StoreError

    try:
        store = connect(path, read_only=True, trusted=False)
    except (StoreError, OSError) as error:
        raise BadInput(one_line(error)) from None
    with store:
        yield store


def episode_of(store: Store, path: Path, episode_id: str) -> EpisodeEvidence:
    """The episode that the caller named, of the store at the path that the caller gave."""
    try:
        return store.episode(episode_id)
    except KeyError:
        raise BadInput(f"{path}: has no episode {episode_id!r}") from None
