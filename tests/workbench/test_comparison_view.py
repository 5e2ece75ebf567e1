"""A comparison as a page: what it says, where it leads, and that it harms nobody."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from envbench import Store, connect, evaluate
from envbench.checks import OutcomeCheck, OutcomeVerdict
from envbench.comparison import Comparison, Episodes, compare
from envbench.evidence import EpisodeEvidence
from envbench.workbench import page as stepper_page
from envbench.workbench.comparison_view import comparison_html, comparison_page
from envbench.workbench.comparison_widget import ComparisonView
from envbench.workbench.flipped_pairs import flips_of, steppers_of
from envbench.workbench.payload import unpack
from tests.workbench.comparisons import comparison, outcomes
from tests.workbench.walks import ARRIVED, Walk, record

HOSTILE = "<img src=x onerror=alert(1)>\u202e&amp;\"'</script>"


def _short(episode: EpisodeEvidence) -> OutcomeVerdict:
    long = len(episode.steps) > 3
    return OutcomeVerdict(not long, "at most three", {"step": 4} if long else {})


SHORT = OutcomeCheck("short", "1", _short)


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    """Five cases in two versions, and a sixth in one.

    `arrived`: `c` and the hostile one broke, `d` was fixed, `e` was lost. `short`: `c` broke at
    step 4.
    """
    with connect(":memory:") as opened:
        for case_id, before, after in (
            ("a", Walk(), Walk()),
            (HOSTILE, Walk(), Walk(outcome=False)),
            ("c", Walk(), Walk(outcome=False, steps=5)),
            ("d", Walk(outcome=False), Walk()),
            ("e", Walk(), Walk(outcome=None)),
        ):
            record(opened, before._replace(case_id=case_id, version="1"))
            record(opened, after._replace(case_id=case_id, version="2"))
        record(opened, Walk(case_id="f", version="2"))
        evaluate(opened, [ARRIVED, SHORT]).save(opened)
        yield opened


@pytest.fixture(scope="module")
def compared(store: Store) -> Comparison:
    return compare(
        Episodes(environment_version="1"),
        Episodes(environment_version="2"),
        store=store,
        names=("old", "new"),
    )


@pytest.fixture(scope="module")
def document(store: Store, compared: Comparison) -> str:
    return comparison_page(compared, store=store)


@pytest.fixture(name="opened")
def opened_fixture(
    document: str, new_page: Callable[..., Any], tmp_path: Path
) -> Callable[..., Any]:
    def opened(html: str | None = None, **options: Any) -> Any:
        path = tmp_path / "comparison.html"
        path.write_text(document if html is None else html, encoding="utf-8")
        page = new_page(**options)
        page.goto(path.as_uri())
        return page

    return opened


def candidate(compared: Comparison, case_id: str) -> str:
    (found,) = [pair.candidate for pair in compared.pairs if pair.case_id == case_id]
    assert found is not None
    return found


class TestWithoutScripts:
    def test_it_says_what_was_found(self, opened: Callable[..., Any], compared: Comparison) -> None:
        page = opened(scripts=False)
        assert page.locator("h1").inner_text() == "new against old"
        said = page.locator(".envbench-comparison-said").inner_text()
        assert said.split(".")[0] == compared.summary().split(".")[0]
        verdicts = page.locator(".envbench-comparison-verdicts li").all_inner_texts()
        assert verdicts == ["2 no difference shown"]

    def test_every_check_has_its_figures(self, opened: Callable[..., Any]) -> None:
        page = opened(scripts=False)
        table = page.locator("[aria-label='2 checks, the lowest difference first']")
        rows = [row.locator("td").all_inner_texts() for row in table.locator("tbody tr").all()]
        cells = [[" ".join(cell.split()) for cell in row] for row in rows]
        # arrived: 2 broke, 1 fixed of 4 measured; short: 1 broke of 5
        same = "1 no difference shown"
        assert cells[0][:7] == [
            f"arrived {same}", "4 of 5", "2 of 5 1 unknown", "2", "1", "4 of 5", "−25.0",
        ]  # fmt: skip
        assert cells[1][:7] == [
            f"short {same}", "5 of 5", "4 of 5", "1", "0", "5 of 5", "−20.0",
        ]  # fmt: skip
        # `e` could have failed or passed: 3 against 1, or 2 against 1, of 5
        assert cells[0][9] == "−40.0 to −20.0"

    def test_flips_are_listed_by_name_and_lead_to_their_step(
        self, opened: Callable[..., Any], compared: Comparison
    ) -> None:
        page = opened(scripts=False)
        table = page.locator("[aria-label='3 broke, 1 fixed, by pair and check']")
        rows = [row.locator("td").all_inner_texts()[:3] for row in table.locator("tbody tr").all()]
        assert sorted(map(tuple, rows)) == sorted(
            [
                ("<img src=x onerror=alert(1)>U+202E&amp;\"'</script>", "arrived", "broke"),
                ("c", "arrived", "broke"),
                ("c", "short", "broke"),
                ("d", "arrived", "fixed"),
            ]
        )
        links = [link.get_attribute("href") for link in table.locator("a").all()]
        # `short` names step 4; `arrived` names none, and failed at the end
        assert f"#{candidate(compared, 'c')}/step=4" in links
        assert f"#{candidate(compared, 'c')}/step=5" in links

    def test_every_link_leads_to_a_place_that_is_there(self, opened: Callable[..., Any]) -> None:
        page = opened(scripts=False)
        addresses = {
            link.get_attribute("href") for link in page.locator(".envbench-comparison a").all()
        }
        assert len(addresses) == 6
        for address in addresses:
            assert page.locator(f"[id='{address[1:]}']").count() == 1

    def test_a_link_opens_the_pair(self, opened: Callable[..., Any], compared: Comparison) -> None:
        page = opened(scripts=False)
        place = f"{candidate(compared, 'c')}/step=4"
        page.locator(f"td a[href='#{place}']").click()
        page.wait_for_selector(f"details[open] [id='{place}']", state="attached")
        # without scripts the verdicts of both episodes are there as a table
        assert page.locator("details[open] table").count() >= 2

    def test_nothing_of_a_name_is_markup(self, opened: Callable[..., Any]) -> None:
        page = opened()  # with scripts: an alert or a request would be a problem
        assert page.locator("img").count() == 0
        assert "<img src=x onerror=alert(1)>U+202E" in page.locator("main").inner_text()

    def test_without_a_store_names_are_text(self, compared: Comparison) -> None:
        html = comparison_html(compared)
        assert "<a " not in html
        assert 'class="envbench-stepper"' not in html
        assert candidate(compared, "c") in html

    def test_a_page_that_holds_the_steppers_gets_links(
        self, compared: Comparison, store: Store
    ) -> None:
        html = comparison_html(compared, store=store, hosted=True)
        assert f'href="#{candidate(compared, "c")}/step=4"' in html
        assert "data-envbench-end" not in html

    def test_the_unmatched_are_listed(self, opened: Callable[..., Any]) -> None:
        page = opened(scripts=False)
        table = page.locator("[aria-label='1 episode without a partner, in no figure']")
        assert table.locator("td").all_inner_texts()[:2] == ["f", "none"]


class TestWithScripts:
    def test_a_cell_of_the_grid_opens_both_episodes_at_the_step(
        self, opened: Callable[..., Any], compared: Comparison
    ) -> None:
        page = opened()
        page.wait_for_function(
            "() => document.querySelectorAll('.envbench-stepper[data-ready]').length === 3"
        )
        place = f"{candidate(compared, 'c')}/step=4"
        page.locator(f"svg a[href='#{place}']").first.click()
        stepper = page.locator("details[open] .envbench-stepper")
        page.wait_for_function(
            "() => document.querySelector('details[open] .envbench-stepper')?.dataset.step === '4'"
        )
        assert [text.split()[0] for text in stepper.locator(".app header").all_inner_texts()][:1]
        assert stepper.count() == 1

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_axe_finds_no_violation(self, opened: Callable[..., Any], scheme: str) -> None:
        from axe_playwright_python.sync_playwright import Axe

        page = opened(color_scheme=scheme)
        page.wait_for_function(
            "() => document.querySelectorAll('.envbench-stepper[data-ready]').length === 3"
        )
        found = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa", "best-practice"]})
        assert found.violations_count == 0, found.generate_report()

    @pytest.mark.parametrize("width", [360, 1180])
    def test_the_page_is_no_wider_than_the_window(
        self, opened: Callable[..., Any], width: int
    ) -> None:
        page = opened(width=width)
        assert page.evaluate("document.documentElement.scrollWidth") == width

    def test_charts_follow_the_theme(self, opened: Callable[..., Any]) -> None:
        grounds = {}
        for scheme in ("light", "dark"):
            page = opened(color_scheme=scheme)
            grounds[scheme] = page.locator("svg.envbench-chart > rect").first.evaluate(
                "element => getComputedStyle(element).fill"
            )
        assert grounds == {"light": "rgb(255, 255, 255)", "dark": "rgb(24, 29, 34)"}

    def test_in_jupyterlab_its_theme_counts_and_not_that_of_the_system(
        self, opened: Callable[..., Any], compared: Comparison
    ) -> None:
        found = []
        for is_light in ("true", "false"):
            page = opened(
                '<!DOCTYPE html><html lang="en"><title>x</title>'
                f'<body data-jp-theme-light="{is_light}">'
                f"{comparison_html(compared)}</body></html>",
                color_scheme="dark" if is_light == "true" else "light",
            )
            found.append(
                page.locator("svg.envbench-chart > rect").first.evaluate(
                    "element => getComputedStyle(element).fill"
                )
            )
        assert found == ["rgb(255, 255, 255)", "rgb(24, 29, 34)"]


class TestParts:
    def test_what_is_not_comparable_is_a_notice_with_both_values(self) -> None:
        html = comparison_html(
            comparison(
                {"paid": outcomes("pp pf")},
                blocked=[("gymnasium_version", "1.4.0", "1.5.0"), ("options", {"a": 1}, None)],
            )
        )
        text = re.sub(r"<[^>]+>", " ", html)
        assert "Not comparable" in text
        for value in ("gymnasium_version", "1.4.0", "1.5.0", "{&quot;a&quot;:1}", "null"):
            assert value in text
        assert "1 descriptive" in text

    def test_a_long_value_is_shortened_and_its_length_said(self) -> None:
        html = comparison_html(
            comparison({"paid": outcomes("pp")}, blocked=[("options", "x" * 5_000, "y")])
        )
        assert "(5,000 characters)" in html
        assert "x" * 400 not in html

    def test_a_comparison_of_nothing_is_a_page(self) -> None:
        assert "No check was compared." in comparison_page(comparison({}))
        assert "No pair broke or was fixed by any check." in comparison_page(
            comparison({"paid": []})
        )

    def test_very_many_flips_are_cut_and_counted(self) -> None:
        html = comparison_html(comparison({"paid": outcomes("pf " * 230)}))
        assert "And 30 more flips: <code>comparison.pairs_frame()</code>." in html

    def test_a_limit_is_a_positive_integer(self, compared: Comparison) -> None:
        with pytest.raises(ValueError, match="limit must be positive, not 0"):
            comparison_html(compared, limit=0)
        with pytest.raises(TypeError, match="limit must be an integer, not float"):
            comparison_html(compared, limit=1.5)  # type: ignore[arg-type]

    def test_pairs_that_do_not_fit_are_counted(self, compared: Comparison, store: Store) -> None:
        whole = steppers_of(compared, store)
        assert len(whole) == 3
        html = comparison_html(compared, store=store, limit=1)
        assert len(stepper_page.read(html)) == 1
        assert "And 2 more pairs: in a notebook," in html

    def test_a_store_without_the_episodes_shows_no_stepper(self, compared: Comparison) -> None:
        with connect(":memory:") as other:
            html = comparison_html(compared, store=other)
        assert 'class="envbench-stepper"' not in html
        assert "<a " not in html

    def test_cases_compared_by_their_means_lead_to_a_pair_of_them(self) -> None:
        with connect(":memory:") as store:
            for version in ("1", "2"):
                for case_id in ("a", "b"):
                    for repeat in range(2):
                        # two repeats of one seed: told apart by their number alone
                        record(
                            store,
                            Walk(version=version, case_id=case_id, outcome=version == "1"),
                            repeat=repeat,
                        )
            evaluate(store, [ARRIVED]).save(store)
            found = compare(
                Episodes(environment_version="1"), Episodes(environment_version="2"), store=store
            )
            assert {flip.name for flip in flips_of(found)} == {*found.check("arrived").broke}
            assert len(flips_of(found)) == len(found.check("arrived").broke)


class TestLive:
    def sent(self, view: ComparisonView, **message: Any) -> dict[str, Any]:
        sent: list[dict[str, Any]] = []
        view.send = lambda content, buffers=None: sent.append(content)
        view._answer(None, {"id": "1", **message}, [])
        (answer,) = sent
        return answer

    def test_it_opens_a_pair_at_the_step_of_a_check(
        self, compared: Comparison, store: Store
    ) -> None:
        view = ComparisonView(compared, store)
        number = [check.name for check in compared.checks].index("short")
        answer = self.sent(view, what="open", episode=candidate(compared, "c"), check=number)
        assert answer["step"] == 4
        assert answer["name"] == "c"
        heads = [unpack(text)["head"]["episode"] for text in answer["texts"]]
        assert [head["provenance"]["environment_version"] for head in heads] == ["1", "2"]
        assert view.selected == [head["episode_id"] for head in heads]
        assert [episode.case.case_id for episode in view.episodes] == ["c", "c"]

    def test_its_page_links_every_changed_cell(self, compared: Comparison, store: Store) -> None:
        view = ComparisonView(compared, store)
        assert f'href="#{candidate(compared, "e")}/check=0"' in view.html
        assert f'data-view="{view.view_id}"' in view.html
        assert len(stepper_page.read(view.html)) == 3

    @pytest.mark.parametrize(
        ("message", "said"),
        [
            ({"what": "open", "episode": "nobody"}, "KeyError"),
            ({"what": "sing"}, "ValueError: a comparison does not know 'sing'"),
        ],
    )
    def test_what_cannot_be_answered_is_said(
        self, compared: Comparison, store: Store, message: dict[str, Any], said: str
    ) -> None:
        assert said in self.sent(ComparisonView(compared, store), **message)["error"]

    def test_without_a_store_it_says_what_to_do(self, compared: Comparison) -> None:
        answer = self.sent(ComparisonView(compared), what="open", episode=candidate(compared, "c"))
        assert answer["error"] == (
            "ValueError: no store was given: ComparisonView(comparison, store) opens pairs"
        )

    def test_it_takes_a_comparison_and_a_store(self, compared: Comparison) -> None:
        with pytest.raises(TypeError, match="comparison must be a Comparison, not str"):
            ComparisonView("a.json")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="store must be a Store, not str"):
            ComparisonView(compared, "a.duckdb")  # type: ignore[arg-type]
