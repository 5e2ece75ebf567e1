"""What is written in a chart, read from its SVG."""

from __future__ import annotations

from xml.etree import ElementTree

from envbench.workbench.charts import Chart

SVG = "{http://www.w3.org/2000/svg}"


def texts(chart: Chart) -> list[str]:
    """Every line of text that is drawn, in the order of the file."""
    root = ElementTree.fromstring(chart.svg())
    found = []
    for text in root.iter(f"{SVG}text"):
        lines = [span.text or "" for span in text.iter(f"{SVG}tspan")]
        # a title stands before the text itself
        found += lines or [(text.text or "") + "".join(child.tail or "" for child in text)]
    return [line for line in found if line]


def notes(chart: Chart) -> tuple[str, ...]:
    """What is said under the title, which must be drawn too."""
    drawn = "".join("".join(texts(chart)).split())
    assert all("".join(note.split()) in drawn for note in chart.notes)
    return chart.notes


def titles(chart: Chart) -> list[str]:
    """What is shown under the pointer, each once."""
    root = ElementTree.fromstring(chart.svg())
    return list(dict.fromkeys(title.text or "" for title in root.iter(f"{SVG}title")))


def fills(chart: Chart) -> list[str]:
    """The colours of all marks."""
    root = ElementTree.fromstring(chart.svg())
    return [e.attrib["fill"] for e in root.iter() if "fill" in e.attrib]
