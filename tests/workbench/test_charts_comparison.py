"""Charts of a comparison: what is drawn is what was counted, and nothing is left unsaid."""

from __future__ import annotations

from itertools import pairwise

import pytest

from envbench.comparison import Comparisons
from envbench.workbench import charts
from envbench.workbench.charts.theme import BLUE, VERMILION, YELLOW
from tests.workbench.comparisons import comparison, outcomes, random_comparison
from tests.workbench.drawn import fills, notes, texts, titles

COMPARED = comparison(
    {
        "better": outcomes("fp fp fp pp pp pp pp pp pp pp"),
        "worse": outcomes("pf pf pf pf pf pf pf pp pu pe"),
        "same": outcomes("pp pp pp pp pp pp pp ff ff ff"),
        "open": outcomes("pf pp pp pp pp uu pu up ep pe"),
    }
)
"""Ten cases. `worse`: 7 of the 8 measured broke. `better`: 3 of 10 fixed. `open`: 1 of 5 broke."""


def in_order(found: list[str], *wanted: str) -> bool:
    """Whether texts follow each other; others may stand between them."""
    places = [found.index(text) for text in wanted]
    return all(before < after for before, after in pairwise(places))


def test_differences_are_sorted_with_the_worst_first() -> None:
    found = texts(charts.differences(COMPARED))
    assert in_order(found, "worse", "open", "same", "better")


def test_differences_show_figures_with_their_denominators() -> None:
    found = texts(charts.differences(COMPARED))
    row = ["7", "0", "−87.5", "8 of 10", "0.047"]
    assert set(row) <= set(found)  # broke, fixed, 100 × −7/8, measured, 3 × 2 × 0.5^7
    assert {"+30.0", "10 of 10", "−20.0", "5 of 10"} <= set(found)


def test_differences_tell_verdicts_by_shape_and_word() -> None:
    chart = charts.differences(COMPARED)
    rows = [row for rows in chart.spec()["datasets"].values() for row in rows if "shape" in row]
    shapes = {row["tip"].split(":")[0]: row["shape"] for row in rows if row.get("tip")}
    assert shapes == {
        "worse": "triangle-down",
        "open": "diamond",
        "same": "circle",
        "better": "circle",
    }
    assert in_order(texts(chart), "regression", "indeterminate", "no difference shown")


def test_a_grey_bar_reaches_from_the_worst_to_the_best_that_is_possible() -> None:
    chart = charts.differences(COMPARED)
    rows = [row for rows in chart.spec()["datasets"].values() for row in rows]
    bars = {
        row["tip"].split(":")[0]: (row["lower"], row["upper"])
        for row in rows
        if row.get("lower") is not None
    }
    # worse: 7 broke and 2 may have; open: of 5 unmeasured pairs one is unknown on both sides
    assert bars == {"worse": (-90.0, -70.0), "open": (-40.0, 20.0)}
    said = "Grey bar: what the difference could be with the pairs that were not measured."
    assert said in notes(chart)


def test_what_was_not_measured_has_no_mark_and_says_so() -> None:
    chart = charts.differences(comparison({"a": outcomes("uu ue eu"), "b": outcomes("pp pf pp")}))
    found = texts(chart)
    assert "nothing measured" in found
    assert "0 of 3" in found
    assert in_order(found, "b", "a")
    marks = [row for rows in chart.spec()["datasets"].values() for row in rows if "shape" in row]
    assert sum("difference" in row for row in marks) == 1


def test_what_is_not_comparable_is_marked_descriptive() -> None:
    blocked = comparison(
        {"paid": outcomes("pp pf")},
        blocked=[("gymnasium_version", "1.4.0", "1.5.0"), ("seed", 1, 2)],
    )
    for draw in (charts.differences, charts.flips, charts.case_grid, charts.verdict_table):
        assert notes(draw(blocked))[1] == (
            "Descriptive only: gymnasium_version, seed differ beside the environment, so that "
            "there is no verdict."
        )
    assert "descriptive" in texts(charts.differences(blocked))


def test_flips_are_bars_on_one_axis_with_their_counts() -> None:
    chart = charts.flips(COMPARED)
    bars = [row for rows in chart.spec()["datasets"].values() for row in rows if "end" in row]
    ends = {(row["tip"].split(":")[0], row["colour"]): row["end"] for row in bars}
    assert ends == {
        ("worse", VERMILION): -7,
        ("open", VERMILION): -1,
        ("better", BLUE): 3,
    }
    found = texts(chart)
    assert in_order(found, "worse", "open", "same", "better")
    # open: 4 passed on both sides, 0 failed on both, 5 not measured, 10 in all
    assert {"both passed", "both failed", "not measured", "all pairs", "4", "5", "10"} <= set(found)


def test_the_axis_of_flips_is_wider_than_the_longest_bar() -> None:
    spec = charts.flips(COMPARED).spec()
    panel = spec["vconcat"][1]["hconcat"][1]
    domains = [
        layer["encoding"]["x"]["scale"]["domain"]
        for layer in panel["layer"]
        if "scale" in layer["encoding"].get("x", {})
    ]
    assert domains
    assert all(low < -7 and high > 7 and low == -high for low, high in domains)


def test_the_overview_has_both_panels_in_the_same_rows() -> None:
    chart = charts.overview(COMPARED)
    found = texts(chart)
    assert in_order(found, "worse", "open", "same", "better")
    assert {"−87.5", "7", "8 of 10", "broke: passed, then failed"} <= set(found)
    middles: dict[str, set[float]] = {}
    for rows in chart.spec()["datasets"].values():
        for row in rows:
            if "top" in row and row.get("tip"):
                name = row["tip"].split(":")[0]
                middles.setdefault(name, set()).add((row["top"] + row["bottom"]) / 2)
    assert {name: len(places) for name, places in middles.items()} == dict.fromkeys(middles, 1)


def test_the_grid_shows_the_pairs_that_changed_and_counts_the_others() -> None:
    compared = comparison(
        {"paid": outcomes("pp pf pp fp ff"), "kept": outcomes("pp pf pu ff pp")},
        cases=["a", "b", "c", "d", "e"],
    )
    chart = charts.case_grid(compared)
    found = texts(chart)
    # b broke by both; c was lost by one; d was fixed by one
    assert in_order(found, "b", "c", "d")
    assert "a" not in found
    assert "e" not in found
    said = "3 of 5 pairs changed; in each cell the baseline is left and the candidate right."
    assert said in notes(chart)
    assert in_order(found, "2 pairs", "unchanged by every check")
    assert {"1 passed", "1 failed", "2 passed"} <= set(found)
    assert "c, kept: passed, then unknown" in titles(chart)
    assert "a, paid: passed" not in titles(chart)
    assert fills(chart).count(YELLOW) == 2  # the cell and the legend


def test_a_grid_without_a_change_says_so() -> None:
    chart = charts.case_grid(comparison({"paid": outcomes("pp ff pp")}))
    found = texts(chart)
    assert "None of 3 pairs changed by any check." in notes(chart)
    assert {"2 passed", "1 failed"} <= set(found)


def test_a_large_grid_counts_what_it_does_not_show() -> None:
    compared = comparison({"paid": outcomes("pf " * 70 + "pp " * 30)})
    chart = charts.case_grid(compared)
    found = texts(chart)
    assert notes(chart)[1:] == (
        "70 of 100 pairs changed; in each cell the baseline is left and the candidate right.",
        "The 60 that broke by most checks are shown one by one.",
    )
    assert in_order(found, "10 pairs", "further pairs that changed")
    assert in_order(found, "10 changed", "30 passed")
    assert sum(text.startswith("case-") for text in found) == 60


def test_a_grid_of_many_checks_has_fewer_rows_and_says_so() -> None:
    compared = random_comparison(200, [f"check-{number}" for number in range(100)])
    chart = charts.case_grid(compared)
    found = texts(chart)
    assert "The 60 worst of 100 checks are shown." in notes(chart)
    # 2,400 cells
    assert "The 40 that broke by most checks are shown one by one." in notes(chart)
    assert sum(text.startswith("case-") for text in found) == 40


def test_cells_lead_where_the_caller_says() -> None:
    chart = charts.case_grid(
        comparison({"paid": outcomes("pf pp")}),
        link=lambda pair, check: f"#{pair.candidate}/{check.name}",
    )
    assert 'href="#ep-c-0/paid"' in chart.svg()
    assert 'role="group"' in chart.svg()  # a picture hides its links from a screen reader


def test_the_table_counts_every_combination() -> None:
    chart = charts.verdict_table(comparison({"paid": outcomes("pp pp pf fp ff pu uu ep -p p-")}))
    found = titles(chart)
    for said in (
        "paid: 2 pairs passed",
        "paid: 1 pair passed, then failed",
        "paid: 1 pair failed, then passed",
        "paid: 1 pair passed, then unknown",
        "paid: 1 pair error, then passed",
        "paid: 1 pair unmatched, then passed",
        "paid: 1 pair passed, then unmatched",
        "paid: 0 pairs failed, then unknown",
        "paid: 5 pairs passed (baseline)",
        "paid: 5 pairs passed (candidate)",
        "paid: 10 pairs",
    ):
        assert said in found


def test_the_table_has_three_outcomes_and_what_else_occurs() -> None:
    plain = texts(charts.verdict_table(comparison({"paid": outcomes("pp pf")})))
    assert {"passed", "failed", "unknown"} <= set(plain)
    assert not {"error", "unmatched"} & set(plain)


def test_versions_stand_under_each_other_with_the_baseline_first() -> None:
    versions = Comparisons(
        (
            comparison({"paid": outcomes("pp pp pf ff")}, names=("one", "two")),
            comparison({"paid": outcomes("pp pf pf fu")}, names=("one", "three")),
        )
    )
    chart = charts.outcomes_over_versions(versions)
    found = texts(chart)
    assert "paid" in found
    assert in_order(found, "one", "two", "three")
    assert in_order(found, "3 of 4 (75%)", "2 of 4 (50%)", "1 of 4 (25%)")
    assert in_order(found, "baseline", "−25.0", "−66.7")
    assert notes(chart)[0] == ("2 versions against one, each over the pairs that it has with it.")


def test_versions_that_have_other_pairs_are_said() -> None:
    versions = Comparisons(
        (
            comparison({"paid": outcomes("pp pp")}, names=("one", "two")),
            comparison({"paid": outcomes("pp")}, names=("one", "three")),
        )
    )
    assert notes(charts.outcomes_over_versions(versions))[1] == (
        "Not all versions have the same pairs: the row of the baseline is that of the first."
    )


def test_of_very_many_checks_the_worst_are_shown_and_it_is_said() -> None:
    checks = {f"check-{n:03}": outcomes("pp pp pp") for n in range(150)}
    checks["the-worst"] = outcomes("pf pf pf")
    chart = charts.differences(comparison(checks))
    found = texts(chart)
    assert "The 60 worst of 151 checks are shown." in notes(chart)
    assert "the-worst" in found
    assert sum(text.startswith("check-") for text in found) == 59


@pytest.mark.parametrize(
    "draw",
    [charts.differences, charts.flips, charts.overview, charts.case_grid, charts.verdict_table],
)
def test_no_pair_and_no_check_can_be_drawn(draw) -> None:
    for empty in (comparison({}), comparison({"paid": []})):
        assert draw(empty).svg().startswith("<svg")


def test_two_versions_of_a_check_are_in_words_of_their_own() -> None:
    import dataclasses

    compared = comparison({"paid": outcomes("pf " * 9 + "pp")}, versions={"paid": ("1", "2")})
    chart = charts.differences(dataclasses.replace(compared, treatment="checks"))
    found = texts(chart)
    assert "fewer pass" in found
    assert "1 → 2" in found
    assert "regression" not in found
