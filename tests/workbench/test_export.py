"""Exports: one file that asks for nothing, alive, and without what is redacted in any byte."""

from __future__ import annotations

import base64
import json
import re
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import nbformat
import pytest

from envbench import connect
from envbench.checks import evaluate
from envbench.workbench import charts, page, payload
from envbench.workbench.export import (
    REPORT_MIME,
    ExportError,
    RedactionFailed,
    export_notebook,
)
from envbench.workbench.leaks import encodings, leak
from envbench.workbench.spellings import Finder, check
from tests.workbench.conftest import READY, View
from tests.workbench.customers import FORBIDDEN, IBAN, MAIL, record
from tests.workbench.worlds import scripted

V4: Any = nbformat.v4
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a notebook of some cells, and give its path."""

    def write(*cells: Any, name: str = "a.ipynb", **metadata: Any) -> Path:
        path = tmp_path / name
        nbformat.write(V4.new_notebook(cells=list(cells), metadata=metadata), path)
        return path

    return write


def shown(source: str = "", *outputs: Any) -> Any:
    """A code cell with outputs: bundles of data, or whole outputs."""
    made = [
        each if "output_type" in each else V4.new_output("display_data", data=each)
        for each in outputs
    ]
    return V4.new_code_cell(source, outputs=made, execution_count=1)


def printed(text: str, name: str = "stdout") -> Any:
    return V4.new_output("stream", name=name, text=text)


@pytest.fixture(scope="module")
def episode_html() -> str:
    with connect(":memory:") as store:
        episode = store.episode(record(store).episode_id)
        evaluate([episode], [FORBIDDEN]).save(store)
        return page.episode_html(episode)


def exported(path: Path, **arguments: Any) -> str:
    """The text of the page that a notebook becomes."""
    made = export_notebook(path, **arguments)
    assert made.path == path.with_suffix(".html")
    text = made.path.read_text()
    assert made.size == len(made.path.read_bytes())
    return text


def report_in(text: str) -> Any:
    found = re.search(rf'<script type="{re.escape(REPORT_MIME)}">(.*?)</script>', text)
    assert found is not None
    return json.loads(found[1])


def everything_in(text: str) -> Iterator[bytes]:
    """The page, everything packed in it, and everything embedded in it."""
    yield text.encode()
    for packed in re.findall(rf'<script type="{re.escape(page.MIME)}">([^<]*)</script>', text):
        for part in "".join(packed.split()).split("."):
            yield zlib.decompress(base64.b64decode(part), 31)
    for data in re.findall(r"data:[^\"',;]*;base64,([A-Za-z0-9+/=\s]*)", text):
        yield base64.b64decode(data)


def assert_gone(text: str, value: str) -> None:
    for content in everything_in(text):
        for name, spelled in encodings(value):
            assert spelled not in content, f"the value is there as {name}"
        assert value.lower() not in content.decode("utf-8", "replace").lower()


NOTEBOOK = [
    ("markdown", f"# Accounts\n\nThe account of **zoe.oneill**@example.org, $x^2$, `{IBAN}`."),
    ("code", "import envbench, sys\nsys.path.insert(0, ROOT)\n%load_ext envbench"),
    (
        "code",
        (
            "from tests.workbench.customers import FORBIDDEN, record\n"
            "store = envbench.connect(':memory:')\n"
            "episode = store.episode(record(store).episode_id)\n"
            "report = envbench.evaluate([episode], [FORBIDDEN])\n"
            "report.save(store)\n"
            "episode"
        ),
    ),
    ("code", "%%sql found --as polars\nSELECT output FROM episodes WHERE seed = 1"),
    ("code", "%%sql\nSELECT path, before, after FROM state_changes"),
    ("code", "print(episode.final_state)\nepisode.final_state['customers'][0]['mail']"),
    ("code", "report"),
    ("code", "from envbench.workbench import charts\ncharts.forbidden_changes(episode)"),
    ("code", "import pandas\npandas.DataFrame(episode.final_state['customers'])"),
    ("code", "raise KeyError(episode.final_state['customers'][0]['mail'])"),
]


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A notebook that a real kernel has run."""
    from envbench.workbench.notebook_reading import read_notebook, run_notebook

    path = tmp_path_factory.mktemp("executed") / "accounts.ipynb"
    root = str(Path(__file__).parents[2])
    cells = [
        V4.new_markdown_cell(source)
        if kind == "markdown"
        else V4.new_code_cell(source.replace("ROOT", repr(root)))
        for kind, source in NOTEBOOK
    ]
    cells[-1].metadata["tags"] = ["raises-exception"]
    nbformat.write(V4.new_notebook(cells=cells), path)
    notebook = read_notebook(path)
    run_notebook(notebook, path)
    nbformat.write(notebook, path)
    return path


def open_page(new_page: Callable[..., Any], path: Path) -> tuple[Any, list[str]]:
    """A page opened from its file, and every request that it made."""
    opened = new_page(height=1400)
    requests: list[str] = []
    opened.on("request", lambda request: requests.append(request.url))
    complaints: list[str] = []
    opened.on("console", lambda message: complaints.append(message.text))
    opened.goto(path.as_uri())
    opened.wait_for_load_state("networkidle")
    assert complaints == []
    return opened, requests


@pytest.mark.slow
class TestExecuted:
    def test_it_makes_no_request_and_steps(self, executed, new_page, tmp_path):
        made = export_notebook(executed, tmp_path / "out.html")
        opened, requests = open_page(new_page, made.path)
        assert requests == [made.path.as_uri()]
        opened.wait_for_selector(READY)
        view = View(opened, made.path)
        view.press("ArrowRight", "ArrowRight")
        assert view.step == 2
        assert opened.locator("svg.envbench-chart").count() == 1
        assert opened.locator("math").count() == 1
        assert MAIL in opened.inner_text("main")

    def test_a_value_is_gone_from_every_byte(self, executed, new_page, tmp_path):
        made = export_notebook(executed, tmp_path / "out.html", redact_values=[MAIL, IBAN])
        text = made.path.read_text()
        assert_gone(text, MAIL)
        assert_gone(text, IBAN)
        kinds = {(each.cell, each.kind) for each in made.redacted if each.redaction == "value 1"}
        assert {
            (1, "markdown"),
            (3, "episode"),
            (4, "HTML"),
            (5, "HTML"),
            (6, "printed text"),
            (6, "text"),
            (9, "HTML"),
            (10, "traceback"),
        } <= kinds
        opened, requests = open_page(new_page, made.path)
        assert requests == [made.path.as_uri()]
        opened.wait_for_selector(READY)
        shown = opened.inner_text("main").lower()
        assert "oneill" not in shown
        assert "redacted." in shown
        view = View(opened, made.path)
        assert "replaced by [redacted]" in view.app.inner_text()
        view.press("End")
        assert view.step == 4

    def test_a_path_is_gone_from_the_whole_page(self, executed, tmp_path):
        made = export_notebook(executed, tmp_path / "out.html", redact=["/customers/*/mail"])
        assert_gone(made.path.read_text(), MAIL)
        names = {each.redaction for each in made.redacted}
        assert names == {"path /customers/*/mail", "found"}

    def test_the_report_stands_in_the_page(self, executed, tmp_path):
        made = export_notebook(executed, tmp_path / "out.html", redact_values=[IBAN])
        report = report_in(made.path.read_text())
        assert report["schema"] == "envbench.export/v1"
        assert report["redacted"] == made.to_dict()["redacted"]
        assert sum(each["times"] for each in report["redacted"]) > 10
        assert IBAN not in str(made)
        assert f"redacted value 1: {sum(e.times for e in made.redacted)} times" in str(made)

    def test_cells_run_only_when_told(self, tmp_path):
        path = tmp_path / "counts.ipynb"
        source = "from pathlib import Path\nPath('ran').touch()\n6 * 7"
        nbformat.write(V4.new_notebook(cells=[V4.new_code_cell(source)]), path)
        before = path.read_bytes()
        assert ">42<" not in exported(path).replace("\n", "")
        assert not (tmp_path / "ran").exists()
        made = export_notebook(path, execute=True)
        assert made.executed
        assert "42" in made.path.read_text()
        assert (tmp_path / "ran").exists()
        assert path.read_bytes() == before

    def test_a_cell_that_fails_leaves_no_file(self, tmp_path):
        path = tmp_path / "fails.ipynb"
        cells = [V4.new_code_cell("1"), V4.new_code_cell("raise ValueError('no <b>luck')")]
        nbformat.write(V4.new_notebook(cells=cells), path)
        with pytest.raises(ExportError, match=r"cell 2 raised ValueError: no <b>luck$"):
            export_notebook(path, execute=True)
        assert list(tmp_path.iterdir()) == [path]


class TestRedaction:
    def test_a_redaction_that_matches_nothing_leaves_no_file(self, write, episode_html):
        path = write(shown("1", {"text/html": episode_html}))
        with pytest.raises(RedactionFailed, match="value 2 stands nowhere in the notebook"):
            export_notebook(path, redact_values=[MAIL, "nowhere at all"])
        with pytest.raises(RedactionFailed, match=r"anything at /customers/\*/phone"):
            export_notebook(path, redact=["/customers/*/mail", "/customers/*/phone"])
        assert not path.with_suffix(".html").exists()

    def test_a_file_of_before_stays_as_it_was(self, write):
        path = write(V4.new_markdown_cell("x"))
        target = path.with_suffix(".html")
        target.write_text("before")
        with pytest.raises(RedactionFailed):
            export_notebook(path, redact_values=["nowhere"])
        assert target.read_text() == "before"
        assert len(list(path.parent.iterdir())) == 2

    def test_every_episode_says_that_it_is_redacted(self, write, episode_html):
        text = exported(write(shown("", {"text/html": episode_html})), redact_values=[IBAN])
        ((content,),) = page.read(text) or [[_only(text)]]
        assert content["head"]["redacted"]["values"] > 5
        assert "cannot be recomputed" in text

    @pytest.mark.parametrize(
        "output",
        [
            printed("secret-value"),
            printed("sec\x1b[31mret-va\x1b[0mlue", "stderr"),
            V4.new_output("error", ename="E", evalue="v", traceback=["a", "\x1b[1msecret-value"]),
            V4.new_output("error", ename="E", evalue="secret-value", traceback=[]),
            {"text/html": "<b>secret</b>-value"},
            {"text/html": "<img alt='secret-value' src='data:image/png;base64,iVBORw0KGgo='>"},
            {"text/html": "<p title='c2VjcmV0LXZhbHVl'>x</p>"},
            {"text/html": "<a href='data:text/csv;base64,c2VjcmV0LXZhbHVl'>x</a>y secret-value"},
            {"text/markdown": "secret-**value**"},
            {"text/latex": "$secret-value$"},
            {"image/svg+xml": "<svg><text>secret-<tspan>value</tspan></text></svg>"},
            {"text/plain": "secret-value"},
        ],
    )
    def test_each_kind_of_output(self, write, output):
        text = exported(write(shown("1", output)), redact_values=["secret-value"])
        assert_gone(text, "secret-value")
        assert "[redacted]" in text or "left out" in text

    @pytest.mark.parametrize(
        "cell",
        [
            V4.new_markdown_cell("secret-value"),
            V4.new_markdown_cell("se*cret*-value"),
            V4.new_markdown_cell("```python\nx = 'secret-value'\n```"),
            V4.new_markdown_cell('<span title="secret-value">x</span>'),
            V4.new_markdown_cell("# secret-value"),
            V4.new_code_cell("x = 'secret-value'"),
            V4.new_code_cell("%%sql\nSELECT 'secret-value'"),
            V4.new_raw_cell("secret-value"),
        ],
    )
    def test_each_kind_of_source(self, write, cell):
        assert_gone(exported(write(cell), redact_values=["secret-value"]), "secret-value")

    def test_the_title_and_the_notebook_s_own_data(self, write):
        path = write(
            V4.new_markdown_cell("x", metadata={"tags": ["secret-value"]}),
            title="The secret-value",
            authors=[{"name": "secret-value"}],
            widgets={"secret-value": {}},
            kernelspec={"name": "python3", "display_name": "secret-value"},
        )
        text = exported(path, redact_values=["secret-value"])
        assert_gone(text, "secret-value")
        assert "<title>The [redacted]</title>" in text

    def test_a_name_of_the_file_is_a_title_too(self, write):
        path = write(V4.new_markdown_cell("x"), name="about secret-value.ipynb")
        assert "<title>about [redacted]</title>" in exported(path, redact_values=["secret-value"])

    @pytest.mark.parametrize("value", ["a", "ab", " a "])
    def test_a_value_that_is_everywhere_is_refused(self, write, value):
        with pytest.raises(ValueError, match="name the path at which it stands"):
            export_notebook(write(V4.new_markdown_cell("a ab")), redact_values=[value])

    def test_one_text_is_no_list_of_texts(self, write):
        with pytest.raises(TypeError, match="a list of texts"):
            export_notebook(write(), redact_values="secret-value")

    def test_a_short_value_does_not_stand_in_base64_by_chance(self, write, episode_html):
        packed = "".join(re.findall(rf'{re.escape(page.MIME)}">([^<]*)<', episode_html))
        value = next(
            packed[i : i + 3] for i in range(99, len(packed)) if packed[i : i + 3].isalpha()
        )
        path = write(shown("", {"text/html": episode_html}), V4.new_markdown_cell(f"say {value}"))
        text = exported(path, redact_values=[value])
        (found,) = re.findall(rf'{re.escape(page.MIME)}">([^<]*)<', text)
        assert value not in found
        assert payload.unpack(found)["head"]["n_moments"] == 5

    def test_a_number_in_every_form(self, write, episode_html):
        path = write(
            shown(
                "balance = 1234.5",
                printed("1,234.50 and 1234.500000"),
                {"text/html": episode_html},
                {"image/svg+xml": '<svg><path d="M1234.5 0"/><text>1234.5</text></svg>'},
            )
        )
        text = exported(path, redact_values=["1234.5"])
        content = _only(text)
        assert content["chunks"][0]["state"]["balance"] == "[redacted]"
        assert "1234.5" not in json.dumps(content["chunks"][0])
        body = re.sub(r"<style.*?</style>|<script.*?</script>", "", text, flags=re.DOTALL)
        assert "1234.5" not in body
        assert "1,234.5" not in body
        assert 'd="M1234.6 0"' in body

    def test_words_of_our_own_styles_and_markup_are_no_leak(self, write):
        episode = scripted([{"doors": [{"id": 1, "is": word}]} for word in ("open", "shut")])
        html = page.episode_html(episode)  # its style and the report's <details> say "open" too
        path = write(shown("", {"text/html": html}))
        for redactions in ({"redact": ["/doors/*/is"]}, {"redact_values": ["open"]}):
            content = _only(exported(path, **redactions))
            assert '"open"' not in json.dumps(content)
            assert "[redacted]" in json.dumps(content)

    def test_words_of_the_page_s_own_frame_are_no_leak(self, write):
        path = write(V4.new_markdown_cell("the output and the button"))
        text = exported(path, redact_values=["output", "button"])
        assert "the [redacted] and the [redacted]" in text
        assert "jp-OutputArea" in text or "jp-Cell" in text

    def test_a_chart_without_svg_is_drawn_after_redaction(self, write):
        spec = {
            "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
            "data": {"values": [{"who": "secret-value", "n": 1}, {"who": "b", "n": 2}]},
            "mark": "bar",
            "encoding": {"x": {"field": "n"}, "y": {"field": "who"}},
        }
        path = write(shown("", {"application/vnd.vegalite.v5+json": spec, "text/plain": "Chart"}))
        text = exported(path, redact_values=["secret-value"])
        assert_gone(text, "secret-value")
        assert "<svg" in text
        assert ">[redacted]</text>" in text


def _only(text: str) -> dict[str, Any]:
    """The one episode in a page."""
    (packed,) = re.findall(rf'<script type="{re.escape(page.MIME)}">([^<]*)</script>', text)
    return payload.unpack(packed)


def png(*texts: tuple[bytes, bytes]) -> str:
    """A picture of one pixel with texts in it, in base64."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        raw = kind + content
        return struct.pack(">I", len(content)) + raw + struct.pack(">I", zlib.crc32(raw))

    parts = [chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))]
    parts += [chunk(kind, content) for kind, content in texts]
    parts += [chunk(b"IDAT", zlib.compress(b"\0\0")), chunk(b"IEND", b"")]
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(parts)).decode()


class TestPictures:
    def test_they_are_shown_and_named(self, write):
        path = write(shown("", {"image/png": png(), "text/plain": "<Figure 1>"}))
        assert f'<img src="data:image/png;base64,{png()}" alt="&lt;Figure 1&gt;">' in exported(path)

    def test_redaction_says_that_it_does_not_look_into_them(self, write):
        path = write(shown("x = 'secret-value'", {"image/png": png()}))
        made = export_notebook(path, redact_values=["secret-value"])
        assert made.notes == (
            (1, "pictures, sounds or films, which redaction does not look into", 1),
        )

    def test_one_whose_own_text_holds_the_value_is_left_out(self, write):
        path = write(
            shown("x = 'secret-value'", {"image/png": png((b"tEXt", b"Title\0secret-value"))})
        )
        text = exported(path, redact_values=["secret-value"])
        assert_gone(text, "secret-value")
        assert "left out" in text

    def test_those_beside_the_notebook_are_taken_in_and_no_others(self, write, tmp_path):
        (tmp_path / "below").mkdir()
        (tmp_path / "below" / "a.png").write_bytes(base64.b64decode(png()))
        (tmp_path.parent / "outside.png").write_bytes(base64.b64decode(png()))
        (tmp_path / "secret.png").write_text("no picture: a password")
        path = write(
            V4.new_markdown_cell(
                "![in](below/a.png) ![out](../outside.png) ![no](secret.png) ![f](file:///etc/hosts)"
            )
        )
        text = exported(path)
        assert text.count(f"data:image/png;base64,{png()}") == 1
        assert report_in(text)["notes"] == [{"cell": 1, "what": "picture left out", "times": 3}]

    def test_attachments(self, write):
        cell = V4.new_markdown_cell("![a](attachment:a.png) ![b](attachment:gone.png)")
        cell["attachments"] = {"a.png": {"image/png": png()}}
        assert f"data:image/png;base64,{png()}" in exported(write(cell))


HOSTILE = [
    "<script>fetch('http://evil.example/a'); location='http://evil.example/b'</script>",
    "<img src=http://evil.example/c.png onerror=\"this.src='http://evil.example/d'\">",
    "<svg onload=alert(1)><image href=http://evil.example/e /></svg>",
    "<style>@import url(http://evil.example/f); body{background:url(http://evil.example/g)}</style>",
    "<link rel=stylesheet href=http://evil.example/h><link rel=dns-prefetch href=//evil.example>",
    "<meta http-equiv=refresh content='0;url=http://evil.example/i'>",
    "<iframe src=http://evil.example/j></iframe><object data=http://evil.example/k></object>",
    "<video src=http://evil.example/l autoplay poster=http://evil.example/m></video>",
    "<base href=http://evil.example/n><form action=http://evil.example/o><input autofocus></form>",
    "<div style=\"background:u\\72l('http://evil.example/p')\">x</div>",
    "<iframe srcdoc=\"<script>parent.location='http://evil.example/q'</script>\"></iframe>",
    "</div></div></div></main></body></html><!-- never closed",
    "<textarea>never closed",
    "<table><tr><td>never closed",
    "<plaintext>never closed",
    (
        '<div class="envbench-stepper"><script type="application/vnd.envbench.episode+gzip">AAAA'
        "</script><span data-envbench-end></span></div>"
    ),
    "<input name=querySelectorAll><img name=body src=x><a id=apps>",
]


def test_hostile_outputs_reach_nothing(write, new_page, episode_html):
    path = write(
        shown("", *({"text/html": each} for each in HOSTILE)),
        shown("", {"text/html": episode_html}),
        V4.new_markdown_cell("\n".join(["# Still here", *HOSTILE[:11]])),
        V4.new_markdown_cell("The end"),
    )
    made = export_notebook(path)
    opened, requests = open_page(new_page, made.path)
    assert requests == [made.path.as_uri()]
    opened.wait_for_selector(READY)
    view = View(opened, made.path)
    view.press("ArrowRight")
    assert view.step == 1
    assert opened.locator("main > .jp-Cell").count() == 4
    assert opened.get_by_text("The end").is_visible()
    words = {what for _, what, _ in made.notes}
    assert {"script left out", "picture left out", "frame left out", "style left out"} <= words


def test_without_an_episode_no_script_can_run(write):
    text = exported(write(shown("", {"text/html": "<script>alert(1)</script><b>x</b>"})))
    assert "script-src 'none'" in text
    assert "alert(1)" not in text


def test_the_script_stands_once_for_many_episodes(write, episode_html):
    text = exported(write(*(shown("", {"text/html": episode_html}) for _ in range(5))))
    assert text.count(page.script_text()) == 1
    assert text.count(page.style_text()) == 1
    assert text.count(f'<script type="{page.MIME}">') == 5


def test_two_hundred_outputs(write, new_page):
    cells = [
        shown(f"print({i})", printed(f"line {i}\n"), {"text/html": f"<b id=x>bold {i}</b>"})
        for i in range(100)
    ]
    made = export_notebook(write(*cells))
    opened, requests = open_page(new_page, made.path)
    assert requests == [made.path.as_uri()]
    assert opened.locator(".jp-OutputArea-child").count() == 200
    assert opened.get_by_text("bold 99", exact=True).count() == 1


@pytest.mark.slow
def test_a_huge_output(write):
    text = "0123456789 secret-value\n" * 200_000
    path = write(shown("", printed(text), {"text/html": f"<pre>{text[:480_000]}</pre>"}))
    made = export_notebook(path, redact_values=["secret-value"])
    assert {(each.kind, each.times) for each in made.redacted} == {
        ("printed text", 200_000),
        ("HTML", 20_000),
    }
    assert b"secret-value" not in made.path.read_bytes()


WIDGET = {"application/vnd.jupyter.widget-view+json": {"model_id": "a", "version_major": 2}}


class TestWidgets:
    def test_the_html_beside_a_widget_is_shown(self, write, episode_html):
        path = write(
            shown("", {**WIDGET, "text/html": episode_html, "text/plain": "EpisodeStepper()"}),
            widgets={"application/vnd.jupyter.widget-state+json": {"state": {"a": "state of a"}}},
        )
        text = exported(path)
        assert f'<script type="{page.MIME}">' in text
        assert "widget-view" not in text
        assert "state of a" not in text

    def test_one_alone_is_text_and_said(self, write):
        made = export_notebook(write(shown("", {**WIDGET, "text/plain": "IntSlider(value=3)"})))
        assert "IntSlider(value=3)" in made.path.read_text()
        assert made.notes == ((1, "widgets that need a kernel, shown as text", 1),)

    def test_a_real_widget_steps_after_the_export(self, write, new_page):
        from envbench.workbench import EpisodeStepper

        with connect(":memory:") as store:
            episode = store.episode(record(store).episode_id)
            bundle = EpisodeStepper(episode)._repr_mimebundle_()
        data = bundle[0] if isinstance(bundle, tuple) else bundle
        made = export_notebook(write(shown("", json.loads(json.dumps(data)))))
        opened, requests = open_page(new_page, made.path)
        assert requests == [made.path.as_uri()]
        opened.wait_for_selector(READY)
        view = View(opened, made.path)
        view.press("End")
        assert view.step == 4


def test_a_list_of_episodes_can_be_filtered_after_the_export(write, new_page):
    from envbench.workbench.browser import browser_html

    with connect(":memory:") as store:
        for name in ("first", "second"):
            record(store, name)
        html = browser_html(store)
    made = export_notebook(write(shown("", {"text/html": html})))
    assert made.notes == ()
    opened, requests = open_page(new_page, made.path)
    assert requests == [made.path.as_uri()]
    assert opened.locator(".envbench-browser input").count() > 0
    assert opened.locator(".envbench-browser tbody tr").count() == 2


class TestCharts:
    def test_a_chart_of_ours_is_part_of_the_page(self, write):
        with connect(":memory:") as store:
            record(store)
            chart = charts.endings(store)
            path = write(shown("", chart.bundle()), shown("", chart.bundle()))
        text = exported(path)
        assert text.count('<svg class="envbench-chart"') + text.count("envbench-chart") >= 2
        assert "vegalite" not in text
        ids = re.findall(r'\bid="(c\d+n\d+-[^"]*)"', text)
        assert len(ids) == len(set(ids))

    def test_one_that_would_fetch_its_data_is_not_drawn(self, write):
        spec = {
            "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
            "data": {"url": "http://evil.example/data.json"},
            "mark": "bar",
        }
        path = write(shown("", {"application/vnd.vegalite.v5+json": spec, "text/plain": "Chart"}))
        made = export_notebook(path)
        assert "Chart" in made.path.read_text()
        assert "<svg" not in made.path.read_text().split("<main>")[1]


class TestReading:
    def test_a_notebook_of_version_3(self, tmp_path):
        path = tmp_path / "old.ipynb"
        cell = {
            "cell_type": "code",
            "language": "python",
            "collapsed": False,
            "input": ["x = 1\n", "x"],
            "prompt_number": 3,
            "metadata": {},
            "outputs": [
                {"output_type": "pyout", "prompt_number": 3, "text": ["one"], "metadata": {}}
            ],
        }
        heading = {"cell_type": "heading", "level": 2, "source": ["Old"], "metadata": {}}
        sheet = {"cells": [heading, cell], "metadata": {}}
        path.write_text(
            json.dumps(
                {
                    "nbformat": 3,
                    "nbformat_minor": 0,
                    "metadata": {"name": ""},
                    "worksheets": [sheet],
                }
            )
        )
        text = exported(path)
        assert "Old" in text
        assert "Out[3]:" in text
        assert "one" in text

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"", "is no notebook: "),
            (b"{", "is no notebook: "),
            (b"\xff\xfe", "is not text in UTF-8"),
            (b"[]", "it has no cells"),
            (b'{"cells": []}', "does not say of which nbformat it is"),
            (b'{"cells": {}, "nbformat": 4, "nbformat_minor": 5, "metadata": {}}', "is malformed"),
            (
                (
                    b'{"cells": [{"cell_type": "code", "source": 5, "metadata": {}, "outputs": [],'
                    b' "execution_count": null}], "nbformat": 4, "nbformat_minor": 4,'
                    b' "metadata": {}}'
                ),
                "is malformed at cells/0",
            ),
            (
                (
                    b'{"cells": [{"cell_type": "poem", "source": "", "metadata": {}}],'
                    b' "nbformat": 4, "nbformat_minor": 4, "metadata": {}}'
                ),
                "is malformed",
            ),
            (b'{"cells": [], "nbformat": 99, "nbformat_minor": 0, "metadata": {}}', "is malformed"),
            (b"[" * 100_000, "is no notebook: "),
        ],
    )
    def test_what_is_none_is_said_in_one_line(self, tmp_path, content, message):
        path = tmp_path / "a.ipynb"
        path.write_bytes(content)
        with pytest.raises(ExportError) as caught:
            export_notebook(path)
        assert message in str(caught.value)
        assert str(caught.value).startswith(f"{path}: ")
        assert "\n" not in str(caught.value)
        assert not path.with_suffix(".html").exists()

    def test_cells_without_ids_and_with_double_ones_are_fine(self, tmp_path):
        path = tmp_path / "a.ipynb"
        cells = [
            {"cell_type": "markdown", "id": "same", "source": f"cell {i}", "metadata": {}}
            for i in range(2)
        ] + [{"cell_type": "markdown", "source": ["cell ", "2"], "metadata": {}}]
        path.write_text(
            json.dumps({"cells": cells, "nbformat": 4, "nbformat_minor": 5, "metadata": {}})
        )
        text = exported(path)
        assert all(f"cell {i}" in text for i in range(3))

    @pytest.mark.parametrize("lexer", ["python3", "no-such-language", "<script>", "", "r"])
    def test_any_language(self, write, lexer):
        path = write(V4.new_code_cell("x <- 1"), language_info={"name": lexer})
        assert "<script>" not in exported(path).split("<main>")[1].split("</main>")[0].replace(
            f'<script type="{REPORT_MIME}">', ""
        )


class TestWriting:
    def test_the_notebook_itself_is_not_written_over(self, write):
        path = write(V4.new_markdown_cell("x"))
        before = path.read_bytes()
        with pytest.raises(ExportError, match="is the notebook itself"):
            export_notebook(path, path)
        assert path.read_bytes() == before

    def test_a_folder_that_is_not_there(self, write, tmp_path):
        path = write(V4.new_markdown_cell("x"))
        with pytest.raises(ExportError, match=r"out\.html: cannot be written: No such file"):
            export_notebook(path, tmp_path / "nowhere" / "out.html")

    def test_a_folder_is_no_file(self, write, tmp_path):
        with pytest.raises(ExportError, match="is a folder"):
            export_notebook(write(V4.new_markdown_cell("x")), tmp_path)

    def test_a_notebook_that_is_not_there(self, tmp_path):
        with pytest.raises(ExportError, match=r"a\.ipynb: cannot be read: No such file"):
            export_notebook(tmp_path / "a.ipynb")

    def test_the_same_notebook_gives_the_same_bytes(self, write, episode_html):
        path = write(shown("1", {"text/html": episode_html}, printed("x")))
        assert exported(path, redact_values=[MAIL]) == exported(path, redact_values=[MAIL])

    def test_paths_of_the_machine_are_noted(self, write):
        path = write(
            shown(
                "",
                printed('File "/home/ada/lab/a.py", line 3\n'),
                printed("https://x.org/home/a/"),
            )
        )
        made = export_notebook(path)
        assert made.notes == ((1, "paths of the machine that ran it", 1),)


class TestLeak:
    """The last look at a page, which does not trust what was done before."""

    finder = Finder([check("secret-value")])

    @pytest.mark.parametrize(
        "content",
        [
            "<p>secret-value</p>",
            "<p>sec<b>ret-</b>value</p>",
            "<p title=secret-value>x</p>",
            "<p secret-value=1>x</p>",
            "<style>.secret-value{}</style>",
            "<textarea>secret-value</textarea>",
            f"<img src='data:image/png;base64,{base64.b64encode(b'..secret-value').decode()}'>",
            "<p>c2VjcmV0LXZhbHVl</p>",
        ],
    )
    def test_it_finds_what_is_left(self, content):
        assert leak(["<p>nothing</p>", content], [], self.finder, frozenset()) is not None

    def test_it_looks_into_packed_episodes(self, episode_html):
        assert leak([episode_html], [], Finder([check(MAIL)]), frozenset()) == "packed episode"

    def test_it_finds_nothing_in_nothing(self):
        assert leak(["<p>nothing</p>", ""], [], self.finder, frozenset()) is None


def test_formulas_need_no_script(write):
    sources: Sequence[str] = [
        "$x^2$ and $$\\frac{a}{b}$$",
        "\\begin{align}a &= b\\\\c &= d\\end{align}",
        "broken $\\frac{$ one",
    ]
    text = exported(write(*map(V4.new_markdown_cell, sources)))
    assert text.count("<math ") == 3
    assert "<code>$\\frac{$</code>" in text
    assert "mathjax" not in text.lower()


def test_sql_is_highlighted_as_sql(write):
    text = exported(write(V4.new_code_cell("%%sql x --as polars\nSELECT a\nFROM b")))
    assert '<span class="k">SELECT</span>' in text
    assert '<span class="k">FROM</span>' in text
    assert "--as" in re.sub(r"<[^>]+>", "", text)
