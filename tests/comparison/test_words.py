"""What is said, and above all what is not: a summary claims no more than it shows."""

from __future__ import annotations

import re
from typing import Any

import pytest

from envbench.comparison import Comparison, compare
from envbench.comparison.words import p_text, points

OVERCLAIMS = (
    "caused",
    "because of the candidate",
    "proves",
    "proven",
    "better",
    "worse",
    "equivalent",
    "equal",
    "identical",
    "no effect",
    "no regression",
    "significant",
    "safe",
    "nan",
)


def said(comparison: Comparison) -> str:
    """The summary, which must be one line without a word that says too much."""
    text = comparison.summary()
    assert "\n" not in text
    assert text.endswith(".")
    for word in OVERCLAIMS:
        assert not re.search(rf"\b{word}\b", text.lower()), word
    # "no difference" is said of what was shown, and never of what there is
    assert len(re.findall("(?i)no difference", text)) == len(
        re.findall("(?i)no difference shown|no difference of any size", text)
    )
    return text


def test_a_regression(report: Any) -> None:
    text = said(compare(report("ppppppppf"), report("ffffffffp", side="b", environment_id="v2")))
    # φ is −1, so that the limits are sums: −7/9 − 2 · (1/9 − 0.02) and −7/9 + 2 · (0.435 − 1/9)
    assert text.startswith("v2 against counter-v1 (treatment: environment): 9 pairs. ")
    assert (
        "Regression in posted_once: passed 8 of 9 → 1 of 9; difference −77.8 points "
        "(95% interval −96 to −13), p = 0.0391; "
        "8 broke (case-01, case-02, case-03 and 5 more), 1 fixed (case-09)."
    ) in text


def test_an_improvement(report: Any) -> None:
    text = said(compare(report("ffffff"), report("pppppp", side="b")))
    assert "Improvement in posted_once: passed 0 of 6 → 6 of 6; difference +100 points" in text
    assert "p = 0.0312; 0 broke, 6 fixed" in text


def test_no_difference_shown_is_not_no_difference(report: Any) -> None:
    letters = "p" * 50 + "f" * 50
    text = said(compare(report(letters), report("fp" + letters[2:-1] + "p", side="b")))
    found = re.search(
        r"No difference shown by posted_once \(100 pairs, 1 broke, 1 fixed\), which is not to say "
        r"that there is none: a difference smaller than (\S+) points would probably have been "
        r"missed \(power 80%\)",
        text,
    )
    assert found
    assert 2 < float(found[1]) < 12


def test_few_pairs_show_nothing_and_it_is_said(report: Any) -> None:
    text = said(compare(report("ppp"), report("fpp", side="b")))
    assert "3 pairs cannot reliably show a difference of any size" in text
    assert "For posted_once nothing else could have come out" in text
    text = said(compare(report("p"), report("f", side="b")))
    assert "1 pair cannot reliably show a difference of any size" in text


def test_many_discordant_pairs_could_have_shown_something(report: Any) -> None:
    before, after = "pf" * 20, "fp" * 20
    text = said(compare(report(before), report(after, side="b")))
    assert "nothing else could have come out" not in text


def test_checks_without_a_difference_share_a_sentence(report: Any) -> None:
    checks = {f"check-{number}": "v1" for number in range(20)}
    rows = [(f"c{number}", "p" * 20) for number in range(40)]
    text = said(compare(report(rows, checks=checks), report(rows, checks=checks, side="b")))
    assert "check-0 (40 pairs, 0 broke, 0 fixed), check-1 " in text
    assert " and 17 more, which is not to say that there is none" in text
    assert len(text) < 900


def test_several_checks_pay_for_each_other(report: Any) -> None:
    checks = {"a": "v1", "b": "v1"}
    before = report([(f"c{i}", "pp") for i in range(8)], checks=checks)
    after = report([(f"c{i}", "fp") for i in range(8)], checks=checks, side="b")
    assert "p = 0.0156 after Holm over 2 checks" in said(compare(before, after))


@pytest.mark.parametrize(
    ("before", "after", "word"),
    [("p", "f", "Regression in"), ("f", "p", "Improvement in"), ("u", "p", "Indeterminate:")],
)
def test_hundreds_of_checks_still_make_one_paragraph(
    report: Any, before: str, after: str, word: str
) -> None:
    checks = {f"check-{number:03}": "v1" for number in range(300)}
    rows = [(f"c{number}", before * 300) for number in range(14)]
    turned = [(case, after * 300) for case, _ in rows[:7]] + [
        (case, (after if before != "u" else "f") * 300) for case, _ in rows[7:]
    ]
    text = said(compare(report(rows, checks=checks), report(turned, checks=checks, side="b")))
    assert f"{word} check-003, check-004, check-005 and 294 more too." in text
    assert len(text) < 1200


def test_a_blocked_comparison_gives_no_verdict(report: Any) -> None:
    text = said(compare(report("pppppppp"), report("ffffffff", side="b", max_steps=9)))
    assert "Not comparable: 1 part besides the environment differs (max_steps: 20 → 9)." in text
    assert "there is no interval, no p and no verdict, and what follows only describes" in text
    assert "posted_once: passed 8 of 8 → 0 of 8, 8 broke, 0 fixed." in text
    assert "Regression" not in text
    assert "p =" not in text


def test_episodes_without_a_partner(report: Any) -> None:
    before = report([(case, "p") for case in "abc"])
    text = said(compare(before, report([(case, "p") for case in "cde"], side="b")))
    assert "1 pair; 4 episodes without a partner" in text
    assert (
        "Episodes without a partner (2 of the baseline, 2 of the candidate) are in no figure."
    ) in text


def test_what_was_not_measured(report: Any) -> None:
    text = said(compare(report("ppppu"), report("ppfee", side="b")))
    assert (
        "Indeterminate: posted_once (3 of 5 pairs measured on both sides, 1 broke, 0 fixed; what "
        "was not measured leaves the difference anywhere from −60 to 0 points)."
    ) not in text  # it can only be a loss, or nothing: that is no straddling
    assert "passed" in text
    assert (
        "Not measured: 3 of 10 outcomes (1 unknown, 2 errors of the check itself); these count as "
        "neither passed nor failed."
    ) in text
    text = said(compare(report("ppfu"), report("pfup", side="b")))
    assert (
        "Indeterminate: posted_once (2 of 4 pairs measured on both sides, 1 broke, 0 fixed; what "
        "was not measured leaves the difference anywhere from −25 to +25 points)."
    ) in text


def test_nothing_was_measured(report: Any) -> None:
    text = said(compare(report("uue"), report("eue", side="b")))
    assert "0 of 3 pairs measured on both sides" in text
    assert "anywhere from −100 to +100 points" in text


def test_a_check_that_changed_is_no_change_of_the_agent(report: Any) -> None:
    rows = [{"case": f"c{i}", "letters": "p", "digest": f"d{i}"} for i in range(8)]
    old = report(rows, checks={"posted": "v1"})
    new = report([row | {"letters": "f"} for row in rows], checks={"posted": "v2"})
    comparison = compare(old, new, treatment="checks")
    text = said(comparison)
    assert (
        "The evidence is the same on both sides: what changed is the check, not the agent and not "
        "the environment. Fewer pass posted: passed 8 of 8 → 0 of 8"
    ) in text
    assert "Regression" not in text
    assert "fewer pass" in str(comparison)
    assert "regression" not in str(comparison)
    assert "More pass posted" in said(compare(new, old, treatment="checks"))


def test_one_cluster(report: Any) -> None:
    rows = [{"case": f"c{i}", "letters": "p", "source_id": "one"} for i in range(9)]
    other = report([row | {"letters": "f"} for row in rows], side="b")
    text = said(compare(report(rows), other))
    assert "9 pairs, in 1 independent cluster" in text
    assert "No verdict on posted_once: passed 9 of 9 → 0 of 9 (all pairs are of one cluster" in text


def test_repeats_and_cases_are_counted_apart(report: Any) -> None:
    rows = [{"case": c, "letters": "p", "repeat": r, "seed": r} for c in "ab" for r in range(3)]
    text = said(compare(report(rows), report(rows, side="b")))
    assert "6 pairs of 2 cases, in 2 independent clusters" in text
    rows = [{"case": c, "letters": "p", "repeat": r, "seed": None} for c in "ab" for r in range(3)]
    text = said(compare(report(rows), report(rows, side="b")))
    assert ": 2 cases by their means." in text


def test_what_acts_on_a_terminal_is_written_out(report: Any) -> None:
    hostile = "x\x1b[2J\nREGRESSION in all‮"
    rows = [(hostile + str(number), "p") for number in range(8)]
    after = [(case, "f") for case, _ in rows]
    checks = {"evil\x1b[31m\n": "v1"}
    comparison = compare(
        report(rows, checks=checks),
        report(after, checks=checks, side="b", environment_id="v2\x1b]0;\x07"),
    )
    for text in (said(comparison), str(comparison)):
        assert all(character.isprintable() or character == "\n" for character in text)
        assert "\nREGRESSION" not in text


def test_long_names_are_cut_where_they_would_hide_the_rest(report: Any) -> None:
    checks = {"n" * 300: "v1"}
    before = report([("c" * 300 + str(number), "p") for number in range(8)], checks=checks)
    after = report(
        [("c" * 300 + str(number), "f") for number in range(8)],
        checks=checks,
        side="b",
        environment_id="e" * 300,
    )
    table = str(compare(before, after)).splitlines()
    head = next(number for number, line in enumerate(table) if line.startswith("  check"))
    assert len(table[head]) == len(table[head + 1].replace("regression", "verdict")) < 140


def test_the_table(report: Any) -> None:
    checks = {"same": "v1", "broken": "v1", "open": "v1"}
    before = report([(f"c{i}", "ppu") for i in range(8)], checks=checks)
    after = report([(f"c{i}", "pfu") for i in range(8)], checks=checks, side="b")
    lines = str(compare(before, after, names=("old", "new"))).splitlines()
    assert lines[:2] == ["new against old (treatment: environment)", "  8 pairs"]
    assert [line.split()[0] for line in lines[3:7]] == ["check", "broken", "open", "same"]
    assert lines[4].split() == [
        *("broken", "8/8", "0/8", "8", "0", "−100", "−100", "to", "−54.1", "0.0156", "regression"),
    ]
    assert lines[5].split() == [
        *("open", "0/8", "(8?)", "0/8", "(8?)", "0", "0", "–", "–", "–", "indeterminate"),
    ]
    text = "\n".join(lines)
    assert "  Broke:\n    broken: c0, c1, c2 and 5 more" in text
    assert "open: baseline 8 unknown, 0 errors; candidate 8 unknown, 0 errors" in text
    assert "exact McNemar test; Newcombe's interval (1998, method 10)" in text


def test_representation_is_the_table(report: Any) -> None:
    comparison = compare(report("p"), report("p"))
    assert repr(comparison) == str(comparison)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.125, "+12.5"), (-0.3, "−30"), (0, "0"), (-1e-9, "0"), (1, "+100"), (None, "–")],
)
def test_differences_are_in_points(value: Any, text: str) -> None:
    assert points(value) == text


@pytest.mark.parametrize(
    ("p", "text"), [(1.0, "1"), (0.0312345, "0.0312"), (1e-300, "<0.001"), (None, "–")]
)
def test_a_p_is_never_zero(p: Any, text: str) -> None:
    assert p_text(p) == text
