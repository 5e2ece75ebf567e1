"""Charts in a browser: nothing is cut off, no text runs into another, and JupyterLab draws them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest

from envbench import Forbid, connect
from envbench.comparison import Comparison, Comparisons
from envbench.workbench import charts
from tests.changes.conftest import make_episode
from tests.workbench.comparisons import comparison, outcomes, random_comparison
from tests.workbench.lab import Lab
from tests.workbench.walks import Walk, record_all

SHORT = ("invoice_paid", "vendor_untouched", "audit_complete", "no_duplicates", "answer_correct")

LONG = (
    "customer-support/refund-policy/the refund is never issued before a manager approved it (EU)",
    "every_row_of_the_audit_log_is_still_there_and_none_was_edited_or_removed_during_the_episode",
    "WWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWW",
    "没有任何供应商的银行账户在任务期间被更改然后又被改回原来的值",
    "a",
)

SIDES = (
    "accounts-payable-production-mirror/2025-11-30T12:00:00Z+build.4711",
    "accounts-payable-production-mirror/2025-12-07T12:00:00Z+build.4802",
)

MISSING = comparison({name: outcomes("uu eu ue uu ee u- -u uu") for name in SHORT})


def cases(n: int) -> list[str]:
    return [f"customer-{i:04}/refund/a very long name of a scenario, number {i}" for i in range(n)]


COMPARED = {
    "3 cases": random_comparison(3, SHORT, seed=4),
    "20 cases": random_comparison(20, SHORT, seed=1),
    "200 cases": random_comparison(200, SHORT, seed=2),
    "long names": random_comparison(40, LONG, seed=3, cases=cases(40), names=SIDES),
    "all missing": MISSING,
    "25 checks": random_comparison(30, [f"check number {n}" for n in range(25)], seed=5),
    "not comparable": random_comparison(20, SHORT, blocked=[("seed", 1, 2)]),
}

VERSIONS = {
    "3 cases": Comparisons((random_comparison(3, SHORT, names=("1", "2")),)),
    "long names": Comparisons(
        tuple(random_comparison(20, LONG, seed=n, names=("1", f"{SIDES[0]}{n}")) for n in range(3))
    ),
    "all missing": Comparisons((MISSING, MISSING)),
}


@pytest.fixture(name="faults")
def faults_fixture(new_page: Callable[..., Any]) -> Callable[[charts.Chart], list[str]]:
    """What is wrong with the picture of a chart."""
    page = new_page()

    def faults(chart: charts.Chart) -> list[str]:
        page.set_content(f"<!DOCTYPE html><body style='margin:40px'>{chart.svg()}")
        found: list[str] = page.evaluate(_FAULTS)
        return found

    return faults


_FAULTS = """() => {
    const whole = document.querySelector("svg").getBoundingClientRect();
    const marks = [...document.querySelectorAll("svg text, svg path:not(.background)")]
        .filter((mark) => mark.getAttribute("d") !== "" && mark.getAttribute("display") !== "none");
    const found = [];
    for (const mark of marks) {
        const box = mark.getBoundingClientRect();
        const out = box.width && (box.left < whole.left - 0.5 || box.right > whole.right + 0.5 ||
            box.top < whole.top - 0.5 || box.bottom > whole.bottom + 0.5);
        const name = mark.lastChild?.textContent ?? mark.outerHTML.slice(0, 200);
        if (out) found.push(`cut off: ${name}`);
    }
    const lines = [...document.querySelectorAll("svg text")].flatMap((text) => {
        if ((text.getAttribute("transform") || "").includes("rotate")) return [];
        const spans = [...text.querySelectorAll("tspan")];
        return (spans.length ? spans : [text]).map((line) => {
            const range = document.createRange();
            range.selectNodeContents(line.lastChild ?? line);
            return { text: line.lastChild?.textContent ?? "", box: range.getBoundingClientRect() };
        });
    }).filter((line) => line.text && line.box.width);
    lines.sort((a, b) => a.box.top - b.box.top);
    for (let i = 0; i < lines.length; i++)
        for (let j = i + 1; j < lines.length && lines[j].box.top < lines[i].box.bottom - 3; j++) {
            const [a, b] = [lines[i].box, lines[j].box];
            if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1)
                found.push(`overlap: ${lines[i].text} | ${lines[j].text}`);
        }
    for (const text of document.querySelectorAll("svg text"))
        if (parseFloat(getComputedStyle(text).fontSize) < 12)
            found.push(`small: ${text.textContent}`);
    return found;
}"""


@pytest.mark.parametrize("shape", COMPARED)
@pytest.mark.parametrize(
    "draw",
    [
        charts.overview,
        charts.differences,
        charts.flips,
        charts.case_grid,
        charts.verdict_table,
    ],
)
def test_a_comparison_is_drawn_whole(
    draw: Callable[[Comparison], charts.Chart],
    shape: str,
    faults: Callable[[charts.Chart], list[str]],
) -> None:
    assert faults(draw(COMPARED[shape])) == []


@pytest.mark.parametrize("shape", VERSIONS)
def test_versions_are_drawn_whole(shape: str, faults: Callable[[charts.Chart], list[str]]) -> None:
    assert faults(charts.outcomes_over_versions(VERSIONS[shape])) == []


@pytest.mark.parametrize(
    "draw", [charts.endings, charts.step_counts, charts.reward_against_verdict]
)
def test_episodes_are_drawn_whole(
    draw: Callable[..., charts.Chart], faults: Callable[[charts.Chart], list[str]]
) -> None:
    walks = [
        Walk(
            version=f"{n % 3}-release-candidate/2025-11-30T12:00:00Z",
            environment_id="accounts-payable-production-mirror",
            steps=3 + 7 * n % 40,
            reward=-123456.789 * (n % 5),
            ending=("terminated", "truncated", "policy_stop", "error")[n % 4],
            outcome=(True, False, None)[n % 3],
            case_id=f"c{n}",
        )
        for n in range(24)
    ]
    with connect(":memory:") as store:
        record_all(store, walks)
        assert faults(draw(store)) == []
    with connect(":memory:") as store:
        assert faults(draw(store)) == []


def vendors(bank: str) -> dict[str, Any]:
    return {"vendors": [{"vendor_id": f"vendor {n}/{'long ' * n}", "bank": bank} for n in range(9)]}


def test_forbidden_changes_are_drawn_whole(faults: Callable[[charts.Chart], list[str]]) -> None:
    rules = [Forbid("/vendors/**")]
    banks = ["old", "new", "new", "old", "X" * 300, "old", "old", "new"]
    for episode in (
        make_episode(*map(vendors, banks)),
        make_episode(vendors("old"), vendors("old")),
        make_episode(*[vendors(str(n % 2)) for n in range(200)], actions=[1] * 199, max_steps=999),
    ):
        assert faults(charts.forbidden_changes(episode, rules)) == []


@pytest.mark.slow
def test_jupyterlab_draws_every_chart_live_and_asks_nobody(lab: Lab, lab_page: Any) -> None:
    episode = make_episode(*map(vendors, ["old", "new", "old"]))
    with connect(":memory:") as store:
        record_all(store, [Walk(), Walk(version="2", outcome=False, reward=0.5)])
        drawn = [
            *(draw(COMPARED["20 cases"]) for draw in COMPARISON_CHARTS),
            charts.outcomes_over_versions(VERSIONS["3 cases"]),
            *(draw(store) for draw in (charts.endings, charts.step_counts)),
            charts.reward_against_verdict(store),
            charts.forbidden_changes(episode, [Forbid("/vendors/**")]),
        ]
    _write(lab.folder / "charts.ipynb", drawn)
    said: list[str] = []
    lab_page.on("console", lambda line: said.append(line.text) if line.type == "error" else None)
    lab.open(lab_page, "charts.ipynb")
    for number, chart in enumerate(drawn):
        # JupyterLab's Vega-Lite comes to the size that ours came to, but for the type it has
        drawn_width = lab_page.wait_for_function(DRAWN_WIDTH, arg=number).json_value()
        width = float(chart.svg().split(' width="')[1].split('"')[0])
        assert abs(drawn_width - width) <= 0.15 * width, chart.title
    assert [line for line in said if "vega" in line.lower()] == []


# in one go, because JupyterLab takes cells out of the page and puts them back as it is scrolled
DRAWN_WIDTH = """number => {
    const cell = document.querySelectorAll(".jp-CodeCell")[number];
    if (!cell) return 0;
    cell.scrollIntoView({ block: "center" });
    const drawn = cell.querySelector(".jp-RenderedVegaLite :is(canvas, svg.marks)");
    return drawn ? drawn.getBoundingClientRect().width : 0;
}"""

COMPARISON_CHARTS = (
    charts.overview,
    charts.differences,
    charts.flips,
    charts.case_grid,
    charts.verdict_table,
)


def _write(path: Path, drawn: list[charts.Chart]) -> None:
    """A notebook that was run, with the bundles of charts as outputs."""
    cells = [
        nbformat.v4.new_code_cell(
            "chart",
            execution_count=1,
            outputs=[
                nbformat.v4.new_output("execute_result", data=chart.bundle(), execution_count=1)
            ],
        )
        for chart in drawn
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
