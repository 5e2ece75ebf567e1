"""The bundle of a chart: Vega-Lite 5 and SVG, with nothing asked of anyone."""

from __future__ import annotations

import doctest
import importlib
import json
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import altair as alt
import pytest
import vl_convert

import envbench.workbench.charts as package
from envbench.workbench import charts
from tests.workbench.comparisons import comparison, outcomes
from tests.workbench.drawn import SVG, texts

MODULES = [module.name for module in pkgutil.iter_modules(package.__path__)]

HOSTILE = "</text><script>alert(1)</script> \u202egnp.exe \x00 \ud800 &amp; ]]> 'x' \"y\""


@pytest.fixture(scope="module")
def chart() -> charts.Chart:
    return charts.differences(comparison({"paid": outcomes("pp pf fp pp")}))


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str) -> None:
    module = importlib.import_module(f"{package.__name__}.{name}")
    assert doctest.testmod(module).failed == 0


def test_the_bundle_has_both_forms_and_text(chart: charts.Chart) -> None:
    data, metadata = chart._repr_mimebundle_()
    assert list(data) == ["application/vnd.vegalite.v5+json", "image/svg+xml", "text/plain"]
    assert metadata == {}
    assert (
        data["text/plain"]
        == "Chart: Difference in pass rate by check\ninvoices 1 → invoices 2: 4 pairs."
    )


def test_the_specification_is_of_version_5_and_holds_its_data(chart: charts.Chart) -> None:
    spec = chart.spec()
    assert spec["$schema"] == "https://vega.github.io/schema/vega-lite/v5.json"
    text = json.dumps(spec, allow_nan=False)
    assert '"url"' not in text
    rows = [row for rows in spec["datasets"].values() for row in rows]
    assert {"difference": 0.0, "shape": "circle"}.items() <= next(
        row for row in rows if "difference" in row
    ).items()


def test_version_5_compiles_it_without_a_warning(
    chart: charts.Chart, capfd: pytest.CaptureFixture[str]
) -> None:
    vl_convert.vegalite_to_vega(chart.spec(), vl_version="5.8", show_warnings=True)
    said = capfd.readouterr()
    assert said.out + said.err == ""


def test_the_svg_refers_to_nothing_and_runs_nothing(chart: charts.Chart) -> None:
    svg = chart.svg()
    root = ElementTree.fromstring(svg)
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-label"] == (
        "Difference in pass rate by check. invoices 1 → invoices 2: 4 pairs."
    )
    assert set(re.findall(r"https?://[^\"]*", svg)) == {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert {element.tag for element in root.iter()} <= {
        f"{SVG}{tag}" for tag in ("svg", "g", "path", "rect", "line", "text", "title", "tspan")
    }


def test_only_the_whole_has_a_name_and_the_marks_have_titles(chart: charts.Chart) -> None:
    root = ElementTree.fromstring(chart.svg())
    assert [e.tag for e in root.iter() if "aria-label" in e.attrib] == [f"{SVG}svg"]
    said = (
        "paid: no difference shown. 0.0 points (−84.9 to +84.9), measured in 4 of 4 pairs. "
        "1 broke, 1 fixed. p 1, 1 after Holm. 11.0 points is the smallest difference that so many "
        "pairs would show."
    )
    assert {t.text for t in root.iter(f"{SVG}title")} == {said}


def test_names_from_outside_are_text() -> None:
    chart = charts.case_grid(
        comparison({HOSTILE: outcomes("pf pp")}, cases=[HOSTILE, "b"], names=(HOSTILE, "b"))
    )
    svg = chart.svg()
    assert "<script" not in svg
    for hidden in ("\u202e", "\x00", "\ud800"):
        assert hidden not in svg
        assert hidden not in json.dumps(chart.spec(), ensure_ascii=False)
        assert hidden not in repr(chart)
    shown = "".join(texts(chart))
    for seen in (r"\u202e", r"\x00", r"\ud800"):
        assert seen in shown + "".join(t for t in svg.splitlines())


def test_saved_by_the_end_of_the_name(chart: charts.Chart, tmp_path: Path) -> None:
    chart.save(tmp_path / "a.svg")
    chart.save(tmp_path / "a.png")
    assert (tmp_path / "a.svg").read_text() == chart.svg()
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match=r"a\.html: a chart is saved as \.svg or \.png"):
        chart.save(tmp_path / "a.html")


def test_the_altair_chart_can_be_changed(chart: charts.Chart) -> None:
    changed = charts.Chart(chart.altair.properties(background="#eeeeee"), "Mine")
    assert isinstance(chart.altair, alt.VConcatChart)
    assert changed.spec()["background"] == "#eeeeee"
    assert 'fill="#eeeeee"' in changed.svg()


def test_charts_are_imported_only_when_used() -> None:
    code = "import sys, envbench, envbench.workbench; sys.exit('altair' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
