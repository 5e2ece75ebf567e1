"""Rich displays: registered by name, exact, escaped, and with what is missing said."""

from __future__ import annotations

import base64
import datetime
import decimal
import hashlib
import importlib
import re
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell

from envbench import capture_episodes
from envbench.changes import Forbid, find_violations
from envbench.checks import AcceptancePolicy, CheckRequirement
from envbench.comparison import Comparisons
from envbench.evidence.frames import Frame
from envbench.evidence.png import write_png
from envbench.store import connect
from envbench.workbench.displays import DISPLAYS, register
from envbench.workbench.markup import attribute, style, text
from envbench.workbench.tables import result_html, value_html
from tests.checks.conftest import make_episode, report_of
from tests.store.conftest import fill
from tests.workbench.comparisons import random_comparison


@pytest.fixture(scope="module")
def shell():
    shell = InteractiveShell()
    register(shell)
    return shell


@pytest.fixture(scope="module")
def filled_bytes(tmp_path_factory):
    path = tmp_path_factory.mktemp("filled") / "a.duckdb"
    fill(path)
    return path.read_bytes()


@pytest.fixture
def filled(filled_bytes, tmp_path):
    path = tmp_path / "a.duckdb"
    path.write_bytes(filled_bytes)
    return path


@pytest.fixture
def store():
    with connect(":memory:") as store:
        yield store


def html_of(shell, value):
    bundle, _ = shell.display_formatter.format(value)
    assert bundle["text/plain"] == repr(value)
    return bundle["text/html"]


def cells(html):
    """The text of a table's cells, row by row."""
    rows = re.findall(r"<tr>(.*?)</tr>", html, re.DOTALL)
    found = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL) for row in rows]
    return [[re.sub(r"<[^>]+>", "|", cell).strip("|") for cell in row] for row in found]


@pytest.mark.parametrize("name", DISPLAYS)
def test_every_name_is_a_class_and_has_its_function(name):
    package, _, kind = name.rpartition(".")
    cls = getattr(importlib.import_module(package), kind)
    assert (cls.__module__, cls.__qualname__) == (package, kind)
    module, function = DISPLAYS[name]
    assert callable(getattr(importlib.import_module(f"envbench.workbench.{module}"), function))


def test_registering_imports_nothing_heavy():
    code = (
        "import sys\n"
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell()\n"
        "before = set(sys.modules)\n"
        "from envbench.workbench.displays import register\n"
        "register(shell)\n"
        "new = {name.split('.')[0] for name in set(sys.modules) - before}\n"
        "assert new <= {'envbench'}, new\n"
        "new = {name for name in sys.modules if name.startswith('envbench.')}\n"
        "assert new == {'envbench.workbench', 'envbench.workbench.displays'}, new\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


class TestResult:
    def test_values_are_exact_and_null_is_not_empty(self, shell, store):
        result = store.sql(
            "SELECT 9007199254740993 AS big, 170141183460469231731687303715884105727 AS wide, "
            "0.1::DOUBLE + 0.2 AS sum, 1.50::DECIMAL(9, 2) AS price, NULL AS nothing, '' AS empty, "
            "'nan'::DOUBLE AS n, true AS yes, [1, NULL] AS list, {'a': 'it''s'} AS struct"
        )
        head, row = cells(html_of(shell, result))
        assert dict(zip([name.split("|")[0] for name in head], row, strict=True)) == {
            "big": "9007199254740993",
            "wide": "170141183460469231731687303715884105727",
            "sum": "0.30000000000000004",
            "price": "1.50",
            "nothing": "NULL",
            "empty": "",
            "n": "nan",
            "yes": "true",
            "list": "[1, NULL]",
            "struct": "{&#x27;a&#x27;: &#x27;it&#x27;&#x27;s&#x27;}",
        }
        assert head[0] == "big|BIGINT"
        assert head[1] == "wide|HUGEINT"
        assert head[3] == "price|DECIMAL(9, 2)"
        assert head[8] == "list|INTEGER[]"

    def test_numbers_stand_at_the_right(self, store):
        html = result_html(store.sql("SELECT 1 AS n, 'a' AS t, 2.5 AS d"))
        aligned = re.findall(r"<th [^>]*>", html), re.findall(r"<td[^>]*>", html)
        assert [["envbench-number" in tag for tag in tags] for tags in aligned] == [
            [True, False, True]
        ] * 2

    def test_the_first_rows_are_shown_and_all_are_counted(self, store):
        html = result_html(store.sql("SELECT i FROM range(1234) t(i)"))
        assert len(cells(html)) == 26
        assert "1,234 rows × 1 column; the first 25 rows are shown" in html

    def test_few_rows_are_all_shown(self, store):
        html = result_html(store.sql("SELECT i FROM range(25) t(i)"))
        assert len(cells(html)) == 26
        assert "25 rows × 1 column<" in html

    def test_no_rows_still_has_its_columns(self, store):
        html = result_html(store.sql("SELECT 1 AS n WHERE false"))
        assert cells(html) == [["n|INTEGER"]]
        assert "0 rows × 1 column<" in html

    def test_wide_results_say_how_many_columns_there_are(self, store):
        columns = ", ".join(f"{i} AS c{i}" for i in range(70))
        html = result_html(store.sql(f"SELECT {columns}"))
        assert len(cells(html)[0]) == 60
        assert "1 row × 70 columns; the first 60 columns are shown" in html

    def test_long_text_is_cut_and_its_length_said(self, store):
        html = result_html(store.sql("SELECT repeat('x', 1000000) AS t FROM range(25)"))
        assert "… 1,000,000 characters" in html
        assert len(html) < 100_000

    def test_a_plan_keeps_its_lines(self, store):
        html = result_html(store.sql("EXPLAIN SELECT 1"))
        assert "envbench-lines" in html
        assert "\n" in html

    def test_hostile_names_and_values_are_text(self, store):
        html = result_html(
            store.sql("SELECT '</td><script>alert(1)</script>' AS \"<img src=x onerror=alert(2)>\"")
        )
        assert "<script" not in html
        assert "<img" not in html
        assert "&lt;script&gt;alert(1)" in html

    def test_marks_that_reorder_text_are_written_out(self, store):
        html = result_html(store.sql("SELECT 'a' || chr(8238) || 'b' AS t"))
        assert "\u202e" not in html
        assert "U+202E" in html


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (datetime.datetime(2026, 1, 2, 3, 4, 5), "2026-01-02 03:04:05"),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        (decimal.Decimal("1E+3"), "1000"),
        (1e300, "1e+300"),
        (b"ab\x00", "x&#x27;616200&#x27;"),
        (False, "false"),
        ([], "[]"),
    ],
)
def test_values_as_sql_writes_them(value, shown):
    assert re.sub(r"<[^>]+>", "", value_html(value)) == shown


def test_bytes_are_counted_in_bytes():
    assert "… 1,000 bytes" in value_html(b"\x00" * 1000)


def test_text_and_attributes_escape_what_they_must():
    assert text("a<b>&\"'") == "a&lt;b&gt;&amp;&quot;&#x27;"
    assert attribute('x" onclick="\u202e') == "x&quot; onclick=&quot;U+202E"
    assert text("two\nlines\tand a tab") == "two\nlines\tand a tab"


def test_a_report_shows_failures_first_and_what_is_missing(shell):
    outcomes = [True] * 6 + [False, None, ValueError("no <b>"), ValueError("no <b>")]
    episodes = [
        (make_episode(f"case-{i}"), {"fine": True, "posted": outcome})
        for i, outcome in enumerate(outcomes)
    ]
    report = report_of(*episodes, checks=["fine", "posted"])
    html = html_of(shell, report)
    rows = cells(html)
    assert [row[0] for row in rows[1:3]] == ["failed", "passed"]
    assert [row[1].split("|")[0] for row in rows[1:3]] == ["posted", "fine"]
    assert rows[1][2:7] == ["6", "1", "1", "2", "10"]
    assert rows[1][7].split("||") == ["6 of 7 measured", "3 missing: between 6/10 and 9/10"]
    assert rows[2][7] == "10 of 10"
    assert "Failed (1)" in html
    assert "Evaluator errors (2)" in html
    assert html.index("Failed (1)") < html.index("Evaluator errors (2)") < html.index("Unknown (1)")
    assert "no &lt;b&gt;" in html
    assert "<b>" not in html


def test_a_long_list_of_failures_says_how_many_more_there_are():
    from envbench.workbench.judgements import report_html

    report = report_of(*((make_episode(f"case-{i}"), False) for i in range(15)))
    html = report_html(report)
    assert "Failed (15)" in html
    assert "… and 3 more" in html


def test_a_decision_shows_its_word_its_findings_and_figures(shell):
    report = report_of((make_episode("a"), True), (make_episode("b"), False))
    decision = AcceptancePolicy([CheckRequirement("posted_once")]).evaluate(report)
    html = html_of(shell, decision)
    assert "reject" in html
    assert "exit code 1" in html
    figures = [row for row in cells(html) if row[0] == "posted_once"]
    assert figures == [["posted_once", "all", "1", "1", "0", "0", "2", "0.5"]]


class TestViolations:
    def test_a_finding_shows_path_values_and_when_it_was_put_back(self, shell, filled):
        with connect(filled) as store:
            violations = find_violations(store.episodes()[0], [Forbid("/orders/*/status")])
        html = html_of(shell, violations)
        assert "2 forbidden changes" in html
        rows = cells(html)[1:]
        assert rows[0][:4] == [
            "1",
            "/orders/order_id=0/status",
            "&quot;open&quot;| → |&quot;paid&quot;",
            "never",
        ]

    def test_what_was_not_looked_at_is_said(self, shell, filled):
        with connect(filled) as store:
            violations = find_violations(store.episodes()[2], [Forbid("/nothing/**")])
        html = html_of(shell, violations)
        assert "unknown" in html
        assert "Rule that looked at nothing: Forbid(&quot;/nothing/**&quot;)" in html


class TestStore:
    def test_tables_have_their_counts(self, shell, filled):
        with connect(filled) as store:
            html = html_of(shell, store)
            n_steps = store.sql("SELECT count(*) FROM steps").fetchall()[0][0]
        rows = dict(row for row in cells(html) if len(row) == 2)
        assert rows["episodes"] == "4"
        assert rows["steps"] == f"{n_steps:,}"
        assert "4 episodes: " in html
        assert "%%sql" in rows

    def test_an_empty_store_says_what_to_do(self, shell, store):
        html = html_of(shell, store)
        assert "0 episodes" in html
        assert "in memory" in html

    def test_an_untrusted_store_says_so(self, shell, filled):
        with connect(filled, trusted=False) as store:
            html = html_of(shell, store)
        assert "untrusted" in html
        assert dict(row for row in cells(html) if len(row) == 2)["episodes"] == "4"

    def test_a_closed_store_says_so(self, shell):
        store = connect(":memory:")
        store.close()
        assert "was closed" in html_of(shell, store)


def test_several_versions_are_a_chart_and_a_section_each(shell):
    several = Comparisons(
        tuple(random_comparison(8, ["paid"], seed=n, names=("v1", f"v{n}")) for n in (2, 3))
    )
    html = html_of(shell, several)
    assert "2 versions against the baseline" in html
    assert "Baseline: v1" in html
    assert html.count("<svg") > 0
    heads = re.findall(r"<h4[^>]*>([^<]*)</h4>", html)
    assert heads == ["v2", "v3"]
    for comparison in several:
        assert text(comparison.summary()) in html


def test_a_frame_is_its_picture_or_its_text(shell):
    lake = gymnasium.make("FrozenLake-v1", render_mode="ansi", is_slippery=False)
    with connect(":memory:") as store:
        env = capture_episodes(lake, exporter=store, render=True)
        env.reset(seed=0)
        env.step(2)
        env.close()
        (episode,) = store.episodes()
        html = html_of(shell, episode.frames[1])
    assert "S<mark>F</mark>FF\nFHFH\n" in html
    pixels = np.zeros((2, 3, 3), np.uint8)
    picture = write_png(pixels)
    frame = Frame("rgb_array", hashlib.sha256(picture).hexdigest(), picture)
    assert base64.b64encode(picture).decode() in html_of(shell, frame)


def test_a_verification_says_what_was_altered(shell, filled):
    with connect(filled) as store:
        assert "4 episodes and 1 report verified: everything fits" in html_of(shell, store.verify())
        store.cursor().execute("UPDATE episodes SET ending = 'truncated'").fetchall()
        html = html_of(shell, store.verify())
    assert "altered" in html
    assert "not who made it" in html
    assert re.search(r"Problems \(\d+\)", html)


def test_the_style_reaches_only_displays():
    rules = re.sub(r"/\*.*?\*/", "", style(), flags=re.DOTALL)
    selectors = [part for rule in re.findall(r"([^{}]+)\{", rules) for part in rule.split(",")]
    assert selectors
    assert all(part.strip().startswith(".envbench-display") for part in selectors)
