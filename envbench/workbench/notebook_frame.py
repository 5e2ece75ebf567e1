"""The page around a notebook's contents: nbconvert's own, without anything that is fetched.

The page is made with a mark in the place of every content, and the contents are put there
afterwards. So the frame holds nothing of the notebook, and no content passes through a template.
"""

from __future__ import annotations

import html
import logging
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import nbformat
from nbconvert.exporters import HTMLExporter

POLICY = (
    "default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data: blob:; "
    "media-src data:; font-src data:; base-uri 'none'; form-action 'none'"
)
"""What the page allows itself: nothing from anywhere but the file."""


@dataclass(frozen=True)
class Shape:
    """What the frame shows of a cell.

    Attributes:
        kind: ``code``, ``markdown`` or ``raw``.
        number: the number of the execution, None when it was not executed.
        outputs: the type of each output: ``stream``, ``error``, ``text/plain``, ``text/html``, …
        results: the indices of the outputs that are results, and stand behind ``Out``.
    """

    kind: str
    number: int | None = None
    outputs: tuple[str, ...] = ()
    results: frozenset[int] = frozenset()


class Frame:
    """A page with places for contents.

    Args:
        shapes: the cells.
    """

    def __init__(self, shapes: Sequence[Shape]) -> None:
        self._shapes = shapes

    @cached_property
    def parts(self) -> list[str]:
        """The page between its places: the title is the first, then each cell's own in order.

        A cell's own are its source and then its outputs.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of nbformat, about cells without ids
            page, _ = _exporter().from_notebook_node(self._notebook())
        page = _COMMENT.sub("", _SCRIPT.sub("", page))
        title = re.search(r"<title>.*?</title>", page, re.DOTALL)
        assert title is not None
        page = page.replace(title[0], f"<title>{_mark(0)}</title>", 1)
        return _MARK.split(page)

    def filled(self, contents: Sequence[str], *, head: str, first: str, last: str) -> str:
        """The page with its contents.

        Args:
            contents: the title, then HTML for each place.
            head: HTML for the head of the page.
            first: HTML before the first cell.
            last: HTML after the last one.
        """
        parts = self.parts
        if len(parts) != len(contents) + 1:
            raise ValueError(f"{len(contents)} contents for {len(parts) - 1} places")
        begin, *rest = parts
        begin = begin.replace("<head>", f"<head>{head}", 1)
        pieces = [begin, html.escape(contents[0])]
        body = [*_between(rest, contents[1:])]
        body[0] = body[0].replace("<main>", f"<main>{first}", 1)
        body[-1] = body[-1].replace("</main>", f"{last}</main>", 1)
        return "".join([*pieces, *body])

    def _notebook(self) -> Any:
        cells, number = [], 0
        for shape in self._shapes:
            number += 1
            source = _mark(number)
            if shape.kind == "markdown":
                cells.append(_V4.new_markdown_cell(source))
                continue
            if shape.kind == "raw":
                cells.append(_V4.new_raw_cell(source))
                continue
            outputs = []
            for i, kind in enumerate(shape.outputs):
                number += 1
                outputs.append(_output(kind, _mark(number), is_result=i in shape.results))
            cells.append(_V4.new_code_cell(source, execution_count=shape.number, outputs=outputs))
        for i, cell in enumerate(cells, 1):
            cell["id"] = f"cell-{i}"
        return _V4.new_notebook(cells=cells)


def _between(parts: Sequence[str], contents: Sequence[str]) -> list[str]:
    pieces = [parts[0]]
    for content, part in zip(contents, parts[1:], strict=True):
        pieces += [content, part]
    return pieces


def _output(kind: str, mark: str, *, is_result: bool) -> Any:
    if kind in ("stdout", "stderr"):
        return _V4.new_output("stream", name=kind, text=mark)
    if kind == "error":
        return _V4.new_output("error", ename="", evalue="", traceback=[mark])
    if is_result:
        return _V4.new_output("execute_result", data={kind: mark}, execution_count=1)
    return _V4.new_output("display_data", data={kind: mark})


def _exporter() -> Any:
    names = ("highlight_code", "markdown2html", "ansi2html", "clean_html")
    make: Any = HTMLExporter  # it is not typed
    return make(template_name="lab", log=_QUIET, filters=dict.fromkeys(names, _as_it_is))


def _as_it_is(text: str, *args: object, **more: object) -> str:
    return text


def _mark(number: int) -> str:
    return f"envbench-place-{number}-here"


_V4: Any = nbformat.v4  # it is not typed
_MARK = re.compile(r"envbench-place-\d+-here")
_SCRIPT = re.compile(r"\s*<script\b[^>]*>.*?</script\s*>", re.DOTALL | re.IGNORECASE)
_COMMENT = re.compile(r"\s*<!--.*?-->", re.DOTALL)
_QUIET = logging.getLogger("envbench.export")
_QUIET.addHandler(logging.NullHandler())
_QUIET.propagate = False
