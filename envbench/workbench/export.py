"""A notebook as one HTML file that asks the network for nothing, without what is redacted."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from envbench.evidence.episode import write_atomically
from envbench.evidence.portable import Json
from envbench.workbench import page, payload
from envbench.workbench.html_tokens import Raw, tokens
from envbench.workbench.leaks import bytes_left, leak
from envbench.workbench.markup import attribute, counted, fragment, style, table, text
from envbench.workbench.notebook_contents import Contents, known_classes
from envbench.workbench.notebook_frame import POLICY, Frame
from envbench.workbench.notebook_reading import NotebookError, read_notebook, run_notebook
from envbench.workbench.payload_redaction import values_at
from envbench.workbench.redaction import Redactions, Redactor
from envbench.workbench.spellings import Secret

REPORT_MIME = "application/vnd.envbench.export+json"
"""The type of the `<script>` element that holds the report of an export."""


class ExportError(Exception):
    """A notebook could not be exported, and no file was written; the message is one line."""


class RedactionFailed(ExportError):
    """Something was to be redacted and was not found, or would still stand in the page."""


@dataclass(frozen=True, slots=True)
class Redacted:
    """How often something was redacted.

    Attributes:
        redaction: ``path /customers/*/email``, ``value 1`` (in the order given), or ``found`` for
            values that stood at a redacted path and were found elsewhere.
        cell: the cell, from 1; None for what is no cell's, such as the title.
        kind: what of the cell: ``code``, ``printed text``, ``episode``, …
        times: how often.
    """

    redaction: str
    cell: int | None
    kind: str
    times: int


@dataclass(frozen=True, slots=True)
class Export:
    """What an export wrote, what it took out, and what a reader should know.

    Attributes:
        path: the file.
        cells: how many cells the notebook has.
        executed: whether they were run for it.
        size: bytes of the file.
        redacted: what was redacted.
        notes: ``(cell, what, times)``: what was left out or not looked into.
    """

    path: Path
    cells: int
    executed: bool
    size: int
    redacted: tuple[Redacted, ...]
    notes: tuple[tuple[int, str, int], ...]

    def to_dict(self) -> dict[str, Json]:
        """The report as portable JSON."""
        return {"path": str(self.path), "size": self.size, **_report(self)}

    def __str__(self) -> str:
        lines = [f"{self.path}: {counted(self.cells, 'cell')}, {_size(self.size)}"]
        by_redaction: Counter[str] = Counter()
        where: dict[str, Counter[str]] = {}
        for each in self.redacted:
            by_redaction[each.redaction] += each.times
            place = "title" if each.cell is None else f"cell {each.cell}"
            where.setdefault(each.redaction, Counter())[f"{place} {each.kind}"] += each.times
        for name, number in by_redaction.items():
            places = ", ".join(f"{place} ×{n}" for place, n in where[name].items())
            lines.append(f"  redacted {_named(name)}: {counted(number, 'time')} ({places})")
        lines += [f"  cell {cell}: {what}{_times(times)}" for cell, what, times in self.notes]
        return "\n".join(lines)


def export_notebook(
    notebook: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    *,
    execute: bool = False,
    redact: Iterable[str] = (),
    redact_values: Iterable[str] = (),
) -> Export:
    """Write a notebook as one HTML file.

    The file needs no kernel and no network, and makes no request: steppers stay alive, charts are
    SVG, formulas MathML. No script runs in it but the stepper's own. `docs/sharing.md` says what
    redaction promises and what it does not.

    Args:
        notebook: the notebook; the file is not changed.
        output: the file to write, by default beside the notebook with the ending ``.html``. It is
            complete or not there.
        execute: run all cells in a fresh kernel first; without it none is run.
        redact: paths in states, infos, observations and actions, as rules on changes have them:
            ``/customers/*/email``. What stands there is taken out everywhere in the page.
        redact_values: texts that must not stand in the page, in whatever spelling.

    Returns:
        What was written, redacted, left out and not looked into.

    Raises:
        ExportError: when the notebook cannot be read or run, or the file not be written.
        RedactionFailed: when a redaction matches nothing, or a value would still stand in the
            page. No file is left.
        TypeError: when an argument is of the wrong type.
        ValueError: when a path is none, or a value too short.
    """
    if isinstance(redact, str) or isinstance(redact_values, str):
        raise TypeError("redact and redact_values take a list of texts, not one text")
    redactions = Redactions(tuple(redact), tuple(redact_values))
    source = Path(notebook)
    target = source.with_suffix(".html") if output is None else Path(output)
    if target.exists() and source.exists() and target.samefile(source):
        raise ExportError(f"{target}: is the notebook itself: name another file to write")
    if target.is_dir():
        raise ExportError(f"{target}: is a folder: name the file to write")
    try:
        node = read_notebook(source)
        if execute:
            run_notebook(node, source)
    except NotebookError as error:
        raise ExportError(str(error)) from None
    except OSError as error:
        raise ExportError(f"{source}: cannot be read: {error.strerror or error}") from None
    made = _make(node, source, redactions)
    try:
        write_atomically(target, made.content)
    except OSError as error:
        raise ExportError(f"{target}: cannot be written: {error.strerror or error}") from None
    return Export(target, len(node.cells), execute, len(made.content), made.redacted, made.notes)


@dataclass(frozen=True, slots=True)
class _Made:
    """A page, and what has to be said of it."""

    content: bytes
    redacted: tuple[Redacted, ...]
    notes: tuple[tuple[int, str, int], ...]


def _make(node: Any, source: Path, redactions: Redactions) -> _Made:
    redactor = Redactor(redactions)
    redactor.also(_values_at_paths(node, redactions.paths))
    contents = Contents(redactor, source.resolve().parent, _lexer(node.metadata))
    shapes, pieces = [], []
    for number, cell in enumerate(node.cells, 1):
        shape, own = contents.cell(number, cell)
        shapes.append(shape)
        pieces += own
    redactor.cell = None
    title = redactor.text(str(node.metadata.get("title") or source.stem), "title")
    _refuse_unmatched(redactor)
    redacted = tuple(
        Redacted(redactor.text(name, "report") if name[:5] == "path " else name, *place, times)
        for name, place, times in _counts(redactor)
    )
    notes = tuple((cell, what, times) for (cell, what), times in sorted(contents.notes.items()))
    about = _about(len(node.cells), redacted, notes)
    frame = Frame(shapes)
    scripts = [page.script_text()] if contents.has_stepper else []
    assets = page.assets() if contents.has_stepper else ""
    if contents.has_browser:  # it looks for its lists where it stands: behind them
        listing = resources.files("envbench.workbench").joinpath("static/browser.js")
        scripts.append(listing.read_text("utf-8"))
        about += f"<script>{scripts[-1]}</script>"
    head = f"{_policy(scripts)}<style>{_STYLE}</style>{assets}"
    filled = frame.filled([title, *pieces], head=head, first=_banner(redacted), last=about)
    content = filled.encode("utf-8", "replace")
    if redactions:
        ours = "".join(scripts)
        blank = frame.filled([""] * (len(pieces) + 1), head=head, first="", last=ours)
        said = [_banner(redacted), _about(len(node.cells), redacted, notes)]
        _refuse_leak([title, *pieces], said, content, blank.encode(), redactor)
    return _Made(content, redacted, notes)


def _values_at_paths(node: Any, paths: Sequence[str]) -> list[Secret]:
    """The values at redacted paths of every episode in a notebook."""
    found: dict[Secret, None] = {}
    if paths:
        for cell in node.cells:
            for output in cell.get("outputs", ()):
                source = (output.get("data") or {}).get("text/html", "")
                source = "".join(source) if isinstance(source, list) else source
                for content in _episodes(source):
                    found |= dict.fromkeys(values_at(content, paths))
    return list(found)


def _episodes(source: str) -> Iterable[dict[str, Json]]:
    if page.MIME not in source:
        return
    for token in tokens(source):
        if isinstance(token, Raw) and token.start.get("type") == page.MIME:
            try:
                yield payload.unpack(token.text)
            except (ValueError, KeyError, TypeError):
                continue


def _lexer(metadata: Any) -> str:
    """The name by which Pygments knows the notebook's language; plain text when it knows none."""
    from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]
    from pygments.util import ClassNotFound  # type: ignore[import-untyped]

    language = metadata.get("language_info") or {}
    name = language.get("pygments_lexer") or language.get("name") or "ipython3"
    name = name.get("name") if isinstance(name, dict) else name
    if name in ("ipython3", "ipython2", "ipython"):  # nbconvert knows these
        return str(name)
    try:
        get_lexer_by_name(str(name))
    except ClassNotFound:
        return "text"
    return str(name)


def _refuse_unmatched(redactor: Redactor) -> None:
    for path in redactor.redactions.paths:
        if not redactor.total(f"path {path}"):
            raise RedactionFailed(
                f"redact: no episode in the notebook has anything at {path}: nothing was written. "
                "Name a value instead where it stands in printed text alone"
            )
    for i, _ in enumerate(redactor.redactions.values, 1):
        if not redactor.total(f"value {i}"):
            raise RedactionFailed(
                f"redact_values: value {i} stands nowhere in the notebook: nothing was written"
            )


def _refuse_leak(
    places: Sequence[str], said: Sequence[str], content: bytes, blank: bytes, redactor: Redactor
) -> None:
    found = leak(places, said, redactor.finder, known_classes())
    named = [secret for secret in redactor.finder.secrets if not secret.was_found]
    if found is None:
        ours = style().encode()  # each display brings it
        found = bytes_left(content, blank + ours * content.count(ours), named)
    if found is not None:
        raise RedactionFailed(
            f"a value that is to be redacted would still stand in the page (as {found}), in a form "
            "that cannot be taken out: nothing was written. Clear the output that holds it"
        )


def _counts(redactor: Redactor) -> list[tuple[str, tuple[int | None, str], int]]:
    return sorted(
        (
            (name, (place.cell, place.kind), times)
            for (name, place), times in redactor.counts.items()
        ),
        key=lambda each: (each[0] == "found", each[0], each[1][0] or 0, each[1][1]),
    )


# ---------------------------------------------------------------------------------------------
# What the page says of itself


def _policy(texts: Sequence[str]) -> str:
    digests = [base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in texts]
    scripts = " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
    policy = POLICY.format(scripts=scripts)
    return (
        '<meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta http-equiv="x-dns-prefetch-control" content="off">'
        '<meta name="referrer" content="no-referrer">'
    )


def _banner(redacted: Sequence[Redacted]) -> str:
    """What stands above the first cell of a page from which something was taken."""
    if not redacted:
        return ""
    number = sum(each.times for each in redacted)
    return (
        '<aside class="envbench-export" role="note"><p><strong>Redacted.</strong> '
        f"In {counted(number, 'place')} of this page stands [redacted]. Digests of episodes are "
        "those of the evidence before, and cannot be recomputed from this page. "
        '<a href="#envbench-export">What was redacted</a></p></aside>'
    )


def _about(cells: int, redacted: Sequence[Redacted], notes: Sequence[tuple[int, str, int]]) -> str:
    """The report at the end of the page, for people and for programs."""
    report = json.dumps(_report_of(cells, redacted, notes), ensure_ascii=True)
    embedded = f'<script type="{REPORT_MIME}">{report.replace("<", chr(92) + "u003c")}</script>'
    if not redacted and not notes:
        return embedded
    parts = []
    if redacted:
        rows = [
            [text(_named(each.redaction)), _cell(each.cell), text(each.kind), f"{each.times:,}"]
            for each in redacted
        ]
        heads = ["Redacted", "Cell", "In", "Times"]
        parts.append(table(heads, rows, numbers=[1, 3], caption="What was redacted"))
    if notes:
        rows = [[_cell(cell), text(what), f"{times:,}"] for cell, what, times in notes]
        parts.append(
            table(["Cell", "What", "Times"], rows, numbers=[0, 2], caption="Notes on this page")
        )
    is_open = " open" if redacted else ""
    return (
        f'<details class="envbench-export" id="{attribute("envbench-export")}"{is_open}>'
        f"<summary>About this page</summary>{fragment(*parts)}</details>{embedded}"
    )


def _report(export: Export) -> dict[str, Json]:
    return _report_of(export.cells, export.redacted, export.notes) | {"executed": export.executed}


def _report_of(
    cells: int, redacted: Sequence[Redacted], notes: Sequence[tuple[int, str, int]]
) -> dict[str, Json]:
    return {
        "schema": "envbench.export/v1",
        "cells": cells,
        "redacted": [
            {"redaction": e.redaction, "cell": e.cell, "kind": e.kind, "times": e.times}
            for e in redacted
        ],
        "notes": [{"cell": cell, "what": what, "times": times} for cell, what, times in notes],
    }


def _named(redaction: str) -> str:
    return "values of these paths elsewhere" if redaction == "found" else redaction


def _cell(cell: int | None) -> str:
    return "title" if cell is None else f"{cell:,}"


def _times(times: int) -> str:
    return f" (×{times})" if times > 1 else ""


def _size(size: int) -> str:
    return f"{size / 1_000_000:.1f} MB" if size >= 1_000_000 else f"{size / 1_000:.0f} kB"


_STYLE = """
main { max-width: 1200px; margin: 0 auto; }
.jp-RenderedHTMLCommon svg.envbench-chart { max-width: 100%; height: auto; }
.envbench-export { margin: 1em; padding: .6em 1em; font: 14px/1.5 system-ui, sans-serif;
  border: 1px solid color-mix(in srgb, currentColor 25%, transparent); border-radius: 6px; }
.envbench-export p { margin: 0; }
.envbench-export a { color: inherit; text-decoration: underline; }
.envbench-export summary { cursor: pointer; }
@media (max-width: 600px) { .jp-InputPrompt, .jp-OutputPrompt { display: none; } }
"""
