"""`envbench …`: the demonstration, a store checked, queried, merged, its changes, a report judged.

Exit codes: 0 for success, 1 where a command found what it looks for (a problem, a rejection), 2 for
bad input or an indeterminate decision, 130 after Ctrl-C. Bad input is one line on stderr.
"""

from __future__ import annotations

import contextlib
import csv
import datetime
import decimal
import io
import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    import duckdb
    from rich.table import Table

    from envbench.changes import Change, Violations
    from envbench.checks import AcceptancePolicy, Report
    from envbench.store import Store
    from envbench.store.integrity import Problem

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Record what agents do to the world, and judge that.",
)


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


class BadInput(Exception):
    """What the caller gave cannot be used; the message is one line that says what and why."""


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
        raise BadInput(_one_line(error)) from None
    if as_json:
        print(json.dumps(outcomes.to_dict(), ensure_ascii=False))
    else:
        outcomes.print()
    raise typer.Exit(0 if outcomes.ok else 1)


@app.command()
def verify(store: StorePath, as_json: AsJson = False) -> None:
    """Recompute every digest in a store and name what was altered.

    Exit 0 when nothing was, 1 when something was, 2 for bad input. A digest shows that evidence was
    altered, not who made it.
    """
    with _opened(store) as opened:
        result = opened.verify()
        sizes = opened.sql("SELECT count(*) AS n, coalesce(sum(n_steps), 0) AS steps FROM episodes")
        episodes, steps = sizes.fetchall()[0]
    problems = [
        {
            "episode_id": problem.episode_id,
            "table": problem.table,
            "step_index": problem.step_index,
            "message": problem.message,
        }
        for problem in result.problems
    ]
    if as_json:
        answer = {"ok": result.ok, "episodes": episodes, "steps": steps, "problems": problems}
        print(json.dumps(answer, ensure_ascii=False))
    elif result.ok:
        print(f"{store}: {_count(episodes, 'episode')}, {_count(steps, 'step')}; nothing altered")
    else:
        print(f"{store}: {_count(len(problems), 'problem')}")
        for problem in result.problems:
            print(f"  {_visible(_place(problem))}: {_visible(problem.message)}")
    raise typer.Exit(0 if result.ok else 1)


@app.command()
def sql(
    store: StorePath,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="One SELECT-like statement.")],
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV with a header.")] = False,
    limit: Annotated[
        int,
        typer.Option(min=0, help="Rows of a table to show; 0 shows all. JSON and CSV have all."),
    ] = 100,
) -> None:
    """Query a store. Nothing can be written, and nothing that the file defines is run.

    JSON is one object a row. JSON columns are given as they are stored; NaN, infinities and bytes
    in the tagged form of docs/evidence-format.md.
    """
    if as_json and as_csv:
        raise BadInput("--json and --csv exclude each other")
    from envbench.store.statements import READ_ONLY, require_reading

    with _opened(store) as opened, _refusing_sql():
        cursor = opened.cursor()
        require_reading(cursor, query)
        cursor.execute(READ_ONLY).fetchall()
        cursor.execute(query)
        names, types = zip(
            *((name, str(kind)) for name, kind, *_ in cursor.description), strict=True
        )
        rows = _fetched(cursor)
        if as_json:
            _print_json(names, types, rows)
        elif as_csv:
            writer = csv.writer(sys.stdout, lineterminator="\n")
            writer.writerow(names)
            writer.writerows([_plain(value) for value in row] for row in rows)
        else:
            shown = list(islice(rows, limit or None))
            _print_rows(names, shown)
            if next(rows, None) is not None:
                print(f"The first {limit} rows; --limit 0 shows all.", file=sys.stderr)


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


@app.command()
def changes(
    store: StorePath,
    episode: Annotated[str, typer.Argument(metavar="EPISODE", help="The id of an episode.")],
    rules: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Rules in TOML or JSON; docs/changes.md.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what an episode changed, what it put back, and what its rules did not allow.

    Exit 0 when the rules hold or none are given, 1 when they do not, 2 when that is unknown. Bad
    input is exit 2 too: then stdout is empty and stderr says what is wrong.
    """
    from envbench.changes import changes_of, find_violations, load_rules

    held = []
    if rules is not None:
        _refuse_missing(rules)
        try:
            held = load_rules(rules)
        except (OSError, ValueError) as error:
            raise BadInput(str(error)) from None
    with _opened(store) as opened:
        try:
            found = opened.episode(episode)
        except KeyError:
            raise BadInput(f"{store}: has no episode {episode!r}") from None
        history = changes_of(found)
        judged = find_violations(found, held) if held else None
    if as_json:
        answer = {"episode_id": episode, "changes": [_change_json(each) for each in history]}
        if judged is not None:
            answer |= _judged_json(judged)
        print(json.dumps(answer, ensure_ascii=False))
    else:
        print(f"{_visible(episode)}: {_count(len(history), 'change')}")
        if history:
            _print_rows(_CHANGE, [_change_row(each) for each in history])
        if judged is not None:
            print(_visible_lines(str(judged)))
    passed = True if judged is None else judged.passed
    raise typer.Exit(2 if passed is None else 0 if passed else 1)


@app.command()
def merge(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The store to write; made if new.")],
    inputs: Annotated[list[Path], typer.Argument(metavar="IN…", help="Stores to take in.")],
) -> None:
    """Take the episodes and reports of other stores into one."""
    for path in inputs:
        _refuse_missing(path)
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
        raise BadInput(_one_line(error)) from None
    print(f"{out}: {_count(episodes, 'episode')}")


# typer carries its own click; of what it raises for wrong usage it exports only a subclass.
_UsageError: Any = typer.BadParameter.__mro__[1]

_LONGEST = 24
"""A column is given this much room, or less if it needs less, before rows become records."""


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
    print(f"envbench: {_visible(' '.join(message.split()))}", file=sys.stderr)
    return 2


def _one_line(error: BaseException) -> str:
    """The first paragraph of an error; what follows in DuckDB's is a drawing of the place."""
    return str(error).strip().split("\n\n", maxsplit=1)[0]


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def _place(problem: Problem) -> str:
    episode = [] if problem.episode_id is None else [f"episode {problem.episode_id}"]
    step = [] if problem.step_index is None else [f"step {problem.step_index}"]
    return ", ".join([*episode, problem.table, *step])


def _refuse_missing(path: Path) -> None:
    try:
        if not path.exists():
            raise BadInput(f"{path}: there is no such file")
        if path.is_dir():
            raise BadInput(f"{path}: is a folder, not a file")
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Store]:
    """The store, as one from somebody else: read-only, and nothing that it defines runs."""
    _refuse_missing(path)
    from envbench import connect
    from envbench.store import StoreError

    try:
        store = connect(path, read_only=True, trusted=False)
    except (StoreError, OSError) as error:
        raise BadInput(_one_line(error)) from None
    with store:
        yield store


@contextlib.contextmanager
def _refusing_sql() -> Iterator[None]:
    import duckdb

    from envbench.store import QueryError

    try:
        yield
    except (duckdb.Error, QueryError) as error:
        raise BadInput(_one_line(error)) from None


def _fetched(cursor: duckdb.DuckDBPyConnection) -> Iterator[tuple[Any, ...]]:
    while rows := cursor.fetchmany(1000):
        yield from rows


def _print_json(
    names: Sequence[str], types: Sequence[str], rows: Iterable[tuple[Any, ...]]
) -> None:
    """A JSON array with one line a row; names that occur twice are numbered."""
    keys = [json.dumps(name, ensure_ascii=False) for name in _distinct(names)]
    before = "["
    for row in rows:
        cells = (
            f"{key}: {_json(value, kind)}"
            for key, value, kind in zip(keys, row, types, strict=True)
        )
        sys.stdout.write(f"{before}\n  {{{', '.join(cells)}}}")
        before = ","
    print("[]" if before == "[" else "\n]")


def _distinct(names: Sequence[str]) -> list[str]:
    distinct: list[str] = []
    for name in names:
        candidate, number = name, 1
        while candidate in distinct:
            candidate, number = f"{name}_{number}", number + 1
        distinct.append(candidate)
    return distinct


def _json(value: Any, kind: str) -> str:
    """A value of a query as JSON that loses nothing; integers and decimals with all digits."""
    if kind == "JSON" and value is not None:
        return str(value)
    if isinstance(value, bool | int | None | str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, dict):
        keys = value if all(isinstance(key, str) for key in value) else map(_plain, value)
        pairs = zip(keys, value.values(), strict=True)
        inside = ", ".join(f"{json.dumps(key)}: {_json(item, '')}" for key, item in pairs)
        return f"{{{inside}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_json(item, '') for item in value)}]"
    if isinstance(value, float | bytes):
        from envbench.evidence.tagged import encode

        return encode(value).decode()
    return json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: Any) -> str:
    """A value as text for a table or CSV; nothing for NULL."""
    if value is None:
        return ""
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat(*(" ",) if isinstance(value, datetime.datetime) else ())
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict | list | tuple):
        return _json(value, "")
    return repr(value) if isinstance(value, float) else str(value)


def _print_rows(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A table as wide as the terminal (80 columns in a pipe); one record a row where that is tight.

    Nothing is cut; long values go on in the next line.
    """
    if not rows:
        print("no rows")
        return
    from rich.console import Console
    from rich.text import Text

    width = shutil.get_terminal_size().columns
    console = Console(width=width, highlight=False, markup=False, emoji=False, soft_wrap=False)
    cells = [[Text(_visible(_plain(value))) for value in row] for row in rows]
    heads = [Text(_visible(name)) for name in names]
    columns = list(zip(heads, *cells, strict=True))
    needed = [min(max(cell.cell_len for cell in column), _LONGEST) for column in columns]
    if sum(needed) + 2 * len(needed) > width:
        for number, record in enumerate(cells, 1):
            console.print(Text(f"row {number}"))
            console.print(_table([], zip(heads, record, strict=True)))
        return
    numeric = [
        any(type(row[i]) in (int, float, decimal.Decimal) for row in rows)
        for i in range(len(names))
    ]
    console.print(_table(list(zip(heads, numeric, strict=True)), cells))


def _table(heads: Sequence[tuple[Any, bool]], rows: Iterable[Iterable[Any]]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD if heads else None, show_edge=False, show_header=bool(heads))
    for head, is_number in heads or [("", False), ("", False)]:
        table.add_column(head, justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def _visible(text: str) -> str:
    """Text in which nothing can act on a terminal: control and direction characters are escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


_CHANGE = ("step", "path", "op", "before", "after", "restored")


def _change_row(change: Change) -> list[Any]:
    """A change for a table; nothing stands for a value that was not there."""
    values = [_portable_text(value) for value in (change.before, change.after)]
    restored = ""
    if change.restored_at is not None:
        restored = f"at step {change.restored_at}"
        if change.restored_after is not None and change.restored_after < change.restored_at - 1:
            restored = f"after step {change.restored_after}, by step {change.restored_at}"
        restored += ", as at first" if change.to_initial else ""
    step = str(change.step)
    if change.since < change.step - 1:
        step = f"{change.since + 1} to {change.step}"
    return [step, change.path, change.op, *values, restored]


def _change_json(change: Change) -> dict[str, Any]:
    """A change as JSON; a value that was not there is left out."""
    return {
        field.name: value
        for field in fields(change)
        if (value := getattr(change, field.name)) is not _absent()
    }


def _judged_json(judged: Violations) -> dict[str, Any]:
    findings = []
    for finding in judged.findings:
        shown = {
            field.name: value
            for field in fields(finding)
            if (value := getattr(finding, field.name)) is not _absent()
        }
        shown["action"] = json.loads(_encoded(finding.action))
        # what was not there is left out of a finding, and tagged where it is one of many
        absent = {"$envbench": "absent"}
        shown["during"] = [absent if value is _absent() else value for value in finding.during]
        findings.append(shown)
    return {
        "passed": judged.passed,
        "reason": judged.reason,
        "findings": findings,
        "unmatched_rules": list(judged.unmatched_rules),
        "missing_states": list(judged.missing_states),
        "undecided": list(judged.undecided),
        "resolution": judged.resolution,
        "notes": list(judged.notes),
    }


def _absent() -> Any:
    from envbench.changes import ABSENT

    return ABSENT


def _encoded(value: Any) -> bytes:
    from envbench.evidence.tagged import encode

    return encode(value.item() if hasattr(value, "item") and value.ndim == 0 else value)


def _portable_text(value: Any) -> str:
    from envbench.evidence.portable import canonical

    return "" if value is _absent() else canonical(value).decode()


def _visible_lines(text: str) -> str:
    return "\n".join(map(_visible, text.splitlines()))


def _read_report(path: Path, report_id: str | None) -> Report:
    from envbench.checks import Report

    _refuse_missing(path)
    if report_id is not None:
        with _opened(path) as store:
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

    _refuse_missing(path)
    with _reading(path, "policy"):
        return AcceptancePolicy.load_json(path)


@contextlib.contextmanager
def _reading(path: Path, what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}") from None
    except (ValueError, TypeError) as error:
        text = _one_line(error).removeprefix(f"{path}: ")
        raise BadInput(f"{path}: not a {what} as JSON: {text}") from None


if __name__ == "__main__":
    main()
