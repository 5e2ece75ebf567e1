"""`envbench compare`: two versions over the same cases, for a person and for a release."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from envbench.cli.application import BadInput, StorePath, app, opened_store
from envbench.cli.output import one_line
from envbench.evidence.episode import write_atomically

if TYPE_CHECKING:
    from envbench.checks import Report
    from envbench.comparison import Comparison, Episodes
    from envbench.store import Store

Kind: TypeAlias = Literal[
    "environment_id", "environment_version", "agent_id", "run_id", "report_id"
]

KINDS: tuple[Kind, ...] = (
    "environment_id",
    "environment_version",
    "agent_id",
    "run_id",
    "report_id",
)
"""What an id on the command line may name, in the order in which it is looked for."""

_ID = (
    "An environment id or version, an agent, a run or a saved report. Where an id could be two of "
    "them, say which: agent_id=robot."
)


@app.command()
def compare(
    store: StorePath,
    baseline: Annotated[str, typer.Option(metavar="ID", help=_ID)],
    candidate: Annotated[str, typer.Option(metavar="ID", help="The same for the other side.")],
    treatment: Annotated[
        str | None,
        typer.Option(
            metavar="WHAT",
            help="What is meant to differ: environment (default), agent (default where both ids "
            "are agents), or checks (two reports of the same episodes).",
        ),
    ] = None,
    attempt: Annotated[
        str,
        typer.Option(metavar="WHICH", help="Of recoveries, compare the first or the last attempt."),
    ] = "first",
    where: Annotated[
        str | None,
        typer.Option(metavar="SQL", help="A condition on the table episodes, for both sides."),
    ] = None,
    alpha: Annotated[
        float, typer.Option(metavar="P", help="The level of all checks together.")
    ] = 0.05,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page with the charts.")
    ] = None,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the comparison as JSON.")
    ] = None,
) -> None:
    """Compare two versions over the same cases, by their latest saved results.

    Exit 0 when no regression is shown, 1 when one is, 2 when the sides are not comparable or the
    result is indeterminate. No regression shown is not the same as none: the table says which one
    would have been seen. Bad input is exit 2 too: then stdout is empty and stderr says what is
    wrong.
    """
    _refuse_places(html, json)
    with opened_store(store) as opened:
        found = _compared(opened, baseline, candidate, treatment, attempt, where, alpha)
        _write(found, opened, html, json)
    print(found)
    raise typer.Exit(found.exit_code)


def _refuse_places(html: Path | None, json: Path | None) -> None:
    for path in (html, json):
        if path is not None and path.is_dir():
            raise BadInput(f"{path}: is a folder, not a file to write")
    if html is not None and json is not None and html.resolve() == json.resolve():
        raise BadInput(f"{html}: is named for the page and for the JSON")


def _compared(
    store: Store,
    baseline: str,
    candidate: str,
    treatment: str | None,
    attempt: str,
    where: str | None,
    alpha: float,
) -> Comparison:
    from envbench.comparison import compare as compare_sides
    from envbench.store import QueryError, StoreError

    kinds = [_named(store, text) for text in (baseline, candidate)]
    if treatment is None:
        treatment = "agent" if {kind for kind, _ in kinds} == {"agent_id"} else "environment"
    options: Any = {"treatment": treatment, "attempt": attempt, "alpha": alpha}
    try:
        sides = [_side(store, kind, value, where) for kind, value in kinds]
        return compare_sides(*sides, store=store, **options)
    except (ValueError, QueryError, StoreError) as error:
        raise BadInput(one_line(error)) from None


def _named(store: Store, text: str) -> tuple[Kind, str]:
    """What kind of id a text is, and the id."""
    before, equals, after = text.partition("=")
    if equals and before in KINDS:
        return before, after
    found = [kind for kind in KINDS if store.sql(_QUERIES[kind], [text]).fetchall()]
    if len(found) > 1:
        said = " or ".join(f"{kind}={text}" for kind in found)
        raise BadInput(f"{text!r} is in the store as {' and as '.join(found)}: say {said}")
    if not found:
        raise BadInput(
            f"{store.path}: has no environment, version, agent, run or report {text!r}"
            f"{_those_there_are(store)}"
        )
    return found[0], text


_QUERIES: dict[Kind, str] = {
    "environment_id": "SELECT 1 FROM episodes WHERE environment_id = ? LIMIT 1",
    "environment_version": "SELECT 1 FROM episodes WHERE environment_version = ? LIMIT 1",
    "agent_id": "SELECT 1 FROM episodes WHERE agent_id = ? LIMIT 1",
    "run_id": "SELECT 1 FROM episodes WHERE run_id = ? LIMIT 1",
    "report_id": "SELECT 1 FROM reports WHERE report_id = ? LIMIT 1",
}


def _those_there_are(store: Store) -> str:
    from envbench.checks.lines import named

    query = "SELECT DISTINCT environment_id FROM episodes ORDER BY 1"
    ids = [str(row[0]) for row in store.sql(query)]
    return f"; its environments are {named(ids)}" if ids else "; it has no episode"


def _side(store: Store, kind: Kind, value: str, where: str | None) -> Report | Episodes:
    from envbench.checks import Report
    from envbench.comparison import Episodes

    if kind != "report_id":
        return Episodes(**{kind: value}, where=where)
    if where is not None:
        raise BadInput("--where selects episodes, and a report has its own")
    try:
        return Report.load(store, value)
    except KeyError as error:
        raise BadInput(str(error.args[0])) from None


def _write(comparison: Comparison, store: Store, html: Path | None, json: Path | None) -> None:
    if json is not None:
        with _writing(json):
            comparison.save_json(json)
    if html is not None:
        from envbench.workbench.comparison_view import comparison_page

        with _writing(html):
            write_atomically(html, comparison_page(comparison, store=store).encode())


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}") from None
