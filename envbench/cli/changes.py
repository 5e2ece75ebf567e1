"""`envbench changes`: what an episode changed and put back, and what its rules say of it."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from envbench.cli.application import (
    AsJson,
    BadInput,
    StorePath,
    app,
    episode_of,
    opened_store,
    refuse_missing,
)
from envbench.cli.output import counted, print_rows, visible, visible_lines

if TYPE_CHECKING:
    from envbench.changes import Change, Violations


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
        refuse_missing(rules)
        try:
            held = load_rules(rules)
        except (OSError, ValueError) as error:
            raise BadInput(str(error)) from None
    with opened_store(store) as opened:
        found = episode_of(opened, store, episode)
        history = changes_of(found)
        judged = find_violations(found, held) if held else None
    if as_json:
        answer = {"episode_id": episode, "changes": [_change_json(each) for each in history]}
        if judged is not None:
            answer |= _judged_json(judged)
        print(json.dumps(answer, ensure_ascii=False))
    else:
        print(f"{visible(episode)}: {counted(len(history), 'change')}")
        if history:
            print_rows(_CHANGE, [_change_row(each) for each in history])
        if judged is not None:
            print(visible_lines(str(judged)))
    passed = True if judged is None else judged.passed
    raise typer.Exit(2 if passed is None else 0 if passed else 1)


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
