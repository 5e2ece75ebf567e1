"""`Chart`: one drawing, shown live by JupyterLab and as SVG by everything else.

JupyterLab 4 draws Vega-Lite 5 and nothing newer; exports, GitHub and pages show SVG. Both are in
the bundle, and neither asks the network for anything.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.dom import minidom

import altair as alt
import vl_convert

from envbench.checks.lines import visible
from envbench.workbench.charts.theme import CONFIG

VEGA_LITE_MIME = "application/vnd.vegalite.v5+json"
SVG_MIME = "image/svg+xml"


class Chart:
    """A chart made by one of `envbench.workbench.charts`.

    Attributes:
        altair: the Altair chart, to be changed by whoever wants another look.
        title: what it shows, one line.
        notes: what has to be known to read it: the denominators, what was left out.
    """

    __slots__ = ("_svg", "altair", "notes", "title")

    def __init__(self, chart: alt.TopLevelMixin, title: str, notes: Sequence[str] = ()) -> None:
        self.altair = chart
        self.title = visible(title)
        self.notes = tuple(map(visible, notes))
        self._svg: str | None = None

    def spec(self) -> dict[str, Any]:
        """The specification as Vega-Lite 5, with its data and its look inside."""
        # Altair checks against version 6: what it refuses, version 5 would refuse too
        spec: dict[str, Any] = self.altair.to_dict()
        spec["$schema"] = _SCHEMA
        spec["config"] = dict(CONFIG)
        spec["description"] = self.description
        return spec

    def svg(self) -> str:
        """The chart as one SVG element, with no script and no reference to anything outside.

        Marks have a title, which a browser shows under the pointer.
        """
        if self._svg is None:
            drawn = vl_convert.vegalite_to_svg(self.spec(), vl_version=_VERSION)
            self._svg = _readable(drawn, self.description)
        return self._svg

    def png(self, scale: float = 2) -> bytes:
        """The chart as a PNG picture of `scale` pixels for each point."""
        picture: bytes = vl_convert.vegalite_to_png(self.spec(), vl_version=_VERSION, scale=scale)
        return picture

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the chart to a file whose name ends in .svg or .png.

        Raises:
            ValueError: when it ends in something else.
        """
        target = Path(path)
        if target.suffix == ".svg":
            target.write_text(self.svg(), encoding="utf-8")
        elif target.suffix == ".png":
            target.write_bytes(self.png())
        else:
            raise ValueError(f"{target.name}: a chart is saved as .svg or .png")

    def bundle(self) -> dict[str, Any]:
        """What a notebook keeps of the chart, by MIME type."""
        return {VEGA_LITE_MIME: self.spec(), SVG_MIME: self.svg(), "text/plain": str(self)}

    @property
    def description(self) -> str:
        """Title and notes in one line, for who does not see the picture."""
        return ". ".join(line.rstrip(".") for line in (self.title, *self.notes)) + "."

    def _repr_mimebundle_(
        self, include: Any = None, exclude: Any = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        return self.bundle(), {}

    def __repr__(self) -> str:
        return "\n".join([f"Chart: {self.title}", *self.notes])


_VERSION = "5.8"
"""The oldest version that vl-convert has; JupyterLab 4.6 draws with 5.6."""

_SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"

_MARK = "graphics-symbol"
"""The role that Vega gives to each mark that has a description, and to axes and titles."""

_NOT_MARKS = ("axis", "title", "subtitle", "legend")

_BASE = "https://vega.github.io/vega-datasets/"
"""What vl-convert puts before an address that is relative; nothing is ever loaded from there."""


_LONG = re.compile(r"-?\d+\.\d{3,}(e-\d+)?")


def _rounded(number: re.Match[str]) -> str:
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")


def _readable(svg: str, description: str) -> str:
    """The SVG with titles for its marks and a name for the whole, fit to stand in a page."""
    document = minidom.parseString(svg.encode())
    root = document.documentElement
    assert root is not None
    _link(root)
    for element in root.getElementsByTagName("*"):
        for name in ("d", "transform"):
            if element.hasAttribute(name):
                element.setAttribute(name, _LONG.sub(_rounded, element.getAttribute(name)))
        if element.getAttribute("aria-hidden") == "true" and element.tagName == "g":
            # what only decorates does not stand between the pointer and what is below it
            element.setAttribute("pointer-events", "none")
        _entitle(document, element)
    # links inside a picture would be hidden from a screen reader
    root.setAttribute("role", "group" if root.getElementsByTagName("a") else "img")
    root.setAttribute("aria-label", description)
    root.setAttribute("class", "envbench-chart")
    return root.toxml()


def _link(root: minidom.Element) -> None:
    """Give links their own addresses, and let the keyboard stop once at each."""
    seen: set[str] = set()
    for link in root.getElementsByTagName("a"):
        address = link.getAttribute("xlink:href").removeprefix(_BASE)
        link.removeAttribute("xlink:href")
        link.setAttribute("href", address)
        if address in seen:
            link.setAttribute("tabindex", "-1")
        seen.add(address)


def _entitle(document: minidom.Document, element: minidom.Element) -> None:
    """Turn the description of a mark into a title; the roles of the parts say nothing to anyone."""
    said = element.getAttribute("aria-label")
    is_mark = element.getAttribute("role") == _MARK
    if said and is_mark and element.getAttribute("aria-roledescription") not in _NOT_MARKS:
        title = document.createElement("title")
        title.appendChild(document.createTextNode(said))
        element.insertBefore(title, element.firstChild)
    if element.getAttribute("role").startswith("graphics-"):
        for name in ("role", "aria-roledescription", "aria-label"):
            if element.hasAttribute(name):
                element.removeAttribute(name)
