"""What a check comes to; the arithmetic behind it is tested in tests/comparison/statistics."""

from __future__ import annotations

import math
from typing import Any

import pytest

from envbench.comparison import WORDS, CheckComparison, compare


def row(case: str, letters: str = "p", **fields: Any) -> dict[str, Any]:
    return {"case": case, "letters": letters, **fields}


@pytest.fixture
def only(report: Any) -> Any:
    """What the only check comes to, from the letters of both sides."""

    def compared(before: str, after: str, **options: Any) -> CheckComparison:
        (check,) = compare(report(before), report(after, side="b"), **options).checks
        return check

    return compared


def test_eight_pairs_that_all_broke_are_a_regression(only: Any) -> None:
    check = only("pppppppp", "ffffffff")
    assert (check.p, check.verdict, check.difference) == (2 / 2**8, "regression", -1)
    assert check.broke == tuple(f"case-0{number}" for number in range(1, 9))
    assert (check.smallest_p, check.fixed, check.clusters) == (2 / 2**8, (), 8)
    assert only("ffffffff", "pppppppp").verdict == "improvement"


def test_five_discordant_pairs_cannot_show_anything(only: Any) -> None:
    check = only("ppppp", "fffff")
    assert (check.p, check.smallest_p, check.verdict) == (0.0625, 0.0625, "no difference shown")
    assert check.smallest_effect is None


def test_six_discordant_pairs_can(only: Any) -> None:
    check = only("pppppp", "ffffff")
    assert (check.p, check.verdict) == (0.03125, "regression")


def test_flips_both_ways(only: Any) -> None:
    # 5 broke, 1 fixed of 10: 2 · (C(6,0) + C(6,1)) / 2⁶ = 14/64
    check = only("pppppfppff", "fffffpppff")
    assert (len(check.broke), len(check.fixed), check.difference) == (5, 1, -0.4)
    assert check.p == pytest.approx(14 / 64)
    low, high = check.interval
    assert low < -0.4 < high


def test_no_discordant_pair_is_p_of_1_and_said(only: Any) -> None:
    check = only("pppff", "pppff")
    assert (check.p, check.difference, check.note) == (1, 0, "no discordant pair")
    assert check.verdict == "no difference shown"
    assert check.interval[0] < 0 < check.interval[1]


def test_all_of_the_table_is_there(only: Any) -> None:
    check = only("ppfuueep", "pfpupfep")
    counted = {cell: number for cell, number in check.table.items() if number}
    assert counted == {
        ("passed", "passed"): 2,
        ("passed", "failed"): 1,
        ("failed", "passed"): 1,
        ("unknown", "unknown"): 1,
        ("unknown", "passed"): 1,
        ("error", "failed"): 1,
        ("error", "error"): 1,
    }
    assert len(check.table) == len(WORDS) ** 2 - 1


# -- rows 8 to 10 of the cases --------------------------------------------------------------------


def test_ten_cases_of_which_three_were_not_measured(only: Any, report: Any) -> None:
    letters = "ppppppfuee"
    check = only(letters, letters)
    assert (check.pairs, check.total) == (7, 10)
    for rate in (check.baseline_rate, check.candidate_rate):
        assert (rate.passed, rate.failed, rate.unknown, rate.errors, rate.total) == (6, 1, 1, 2, 10)
        assert (rate.lower, rate.upper) == (6 / 10, 9 / 10)
    # the three could have passed there and failed here, or the other way round
    assert (check.lower, check.upper) == pytest.approx((-0.3, 0.3))
    assert check.verdict == "indeterminate"
    comparison = compare(report(letters), report(letters, side="b"))
    for text in (str(comparison), comparison.summary()):
        assert "6/7" not in text
        assert "6 of 7" not in text
    assert "6/10 (3?)" in str(comparison)
    assert "6 of 20 outcomes (2 unknown, 4 errors of the check itself)" in comparison.summary()


@pytest.mark.parametrize("letter", ["u", "e"])
def test_nothing_was_measured(only: Any, letter: str) -> None:
    check = only(letter * 4, letter * 4)
    assert (check.pairs, check.total, check.verdict) == (0, 4, "indeterminate")
    assert (check.difference, check.p, check.interval) == (None, None, None)
    assert (check.lower, check.upper) == (-1, 1)
    assert check.note == "nothing was measured on both sides of a pair"


def test_known_on_one_side_only_is_not_measured(only: Any) -> None:
    check = only("ppu", "uup")
    assert (check.pairs, check.difference) == (0, None)
    assert (check.lower, check.upper) == pytest.approx((-2 / 3, 1 / 3))


def test_holm_counts_what_was_tested(report: Any) -> None:
    checks = {"a": "v1", "b": "v1", "never": "v1"}
    baseline = report([(f"c{i}", "ppu") for i in range(8)], checks=checks)
    after = ["ffu"] * 7 + ["fpu"]
    candidate = report(
        [(f"c{i}", letters) for i, letters in enumerate(after)], checks=checks, side="b"
    )
    a, b, never = compare(baseline, candidate).checks
    # two tests, not three: 2/2⁸ · 2, then 2/2⁷ · 1
    assert (a.p_adjusted, b.p_adjusted, never.p_adjusted) == (2 * 2 / 2**8, 2 / 2**7, None)
    assert (a.verdict, b.verdict, never.verdict) == ("regression", "regression", "indeterminate")


def test_the_verdict_is_of_the_adjusted_p(report: Any) -> None:
    def verdicts(number: int) -> list[str]:
        checks = {f"check-{i}": "v1" for i in range(number)}
        before = report([(f"c{i}", "p" * number) for i in range(6)], checks=checks)
        after = report(
            [(f"c{i}", "f" + "p" * (number - 1)) for i in range(6)], checks=checks, side="b"
        )
        return [check.verdict for check in compare(before, after).checks]

    assert verdicts(1) == ["regression"]  # 0.03125
    assert verdicts(2) == ["no difference shown"] * 2  # 0.0625


def test_the_smallest_effect_is_at_the_level_of_each_check(report: Any) -> None:
    def effect(number: int) -> float:
        checks = {f"check-{i}": "v1" for i in range(number)}
        letters = [(f"c{i:02}", "p" * number) for i in range(60)]
        same = report(letters, checks=checks), report(letters, checks=checks, side="b")
        found = compare(*same).checks[0].smallest_effect
        assert found is not None
        return found

    assert effect(1) < effect(5) < effect(20)


@pytest.mark.slow
def test_repeats_of_a_task_do_not_pass_for_so_many_tasks(report: Any) -> None:
    """10 tasks × 20 repeats with no effect: a flat McNemar test rejects more than half of them."""
    import numpy as np

    random = np.random.default_rng(20_260_301)
    rejected, rounds = 0, 120
    for _ in range(rounds):
        # each task has a bias of its own, of mean 0: that is no difference between the versions
        rates = np.clip(0.5 + random.choice([-0.4, 0.4], size=(10, 1)), 0.05, 0.95)
        sides = []
        for name, share in (("a", 0.5), ("b", rates)):
            letters = np.where(random.random((10, 20)) < share, "p", "f")
            rows = [
                row(f"task-{task}", letters[task, repeat], repeat=repeat, seed=repeat)
                for task in range(10)
                for repeat in range(20)
            ]
            sides.append(report(rows, side=name))
        (check,) = compare(*sides).checks
        assert check.clusters == 10
        rejected += check.verdict in ("regression", "improvement")
    # 5% of 120 is 6; 14 or more have a chance below 0.3%
    assert rejected <= 13


def test_rewards_are_no_success(report: Any) -> None:
    """Success is what a check found: there is no way to compare by a threshold on the reward."""
    comparison = compare(report("pf"), report("pf", side="b"))
    assert comparison.reward is None
    assert comparison.checks[0].baseline_rate.passed == 1


# -- clusters -------------------------------------------------------------------------------------


def sourced(report: Any, side: str, *sources: str) -> Any:
    rows = [
        row(f"{name}-{number}", letter, source_id=name)
        for name, letters in zip("ABCDEFGH", sources, strict=False)
        for number, letter in enumerate(letters)
    ]
    return report(rows, side=side)


def test_cases_of_one_source_are_one_observation(report: Any) -> None:
    before = sourced(report, "a", "pp", "pp", "pppp")
    after = sourced(report, "b", "ff", "pf", "pppp")
    (check,) = compare(before, after).checks
    # means −1, −1/2, 0: each source once, though the last one has four cases
    assert (check.clusters, check.pairs, check.difference) == (3, 8, -0.5)
    # of 8 ways to flip the signs of −1 and −1/2 (0 has none), those at least as extreme: half
    assert (check.p, check.smallest_p) == (0.5, 0.5)
    assert "bootstrap over clusters" in check.method


def test_sources_of_one_case_each_are_pairs(report: Any) -> None:
    (check,) = compare(sourced(report, "a", "p", "f"), sourced(report, "b", "f", "f")).checks
    assert check.method.startswith("exact McNemar")


def test_a_source_and_a_case_of_one_name_are_two_clusters(report: Any) -> None:
    rows = [row("x", "p", source_id="y"), row("y", "p")]
    (check,) = compare(report(rows), report(rows, side="b")).checks
    assert check.clusters == 2


def test_one_cluster_has_no_p_and_it_is_said(report: Any) -> None:
    before, after = sourced(report, "a", "pppppppp"), sourced(report, "b", "ffffffff")
    comparison = compare(before, after)
    (check,) = comparison.checks
    assert (check.p, check.p_adjusted, check.interval, check.difference) == (None, None, None, -1)
    assert (check.verdict, comparison.exit_code) == ("descriptive", 2)
    assert "one cluster" in check.note
    assert "one cluster" in comparison.summary()


def test_thirds_that_cancel_are_no_difference(report: Any) -> None:
    before = sourced(report, "a", "ppf", "pff", "ppp")
    after = sourced(report, "b", "pff", "ppf", "ppp")
    (check,) = compare(before, after).checks
    assert (check.difference, check.lower, check.upper) == (0, 0, 0)
    assert check.verdict == "no difference shown"


def test_a_bound_at_zero_does_not_straddle_it(report: Any) -> None:
    # the unknown one can only add to what is lost or leave it: from −2/3 to −1/3
    before, after = report("ppp"), report("ufp", side="b")
    (check,) = compare(before, after).checks
    assert (check.lower, check.upper) == pytest.approx((-2 / 3, -1 / 3))
    assert check.verdict == "no difference shown"
    # here it may be nothing: from −1/3 to 0
    (check,) = compare(report("ppp"), report("upp", side="b")).checks
    assert (check.lower, check.upper) == (pytest.approx(-1 / 3), 0)
    assert check.verdict == "no difference shown"


# -- the ends -------------------------------------------------------------------------------------


def test_empty_sides(report: Any) -> None:
    empty = report([])
    for sides in ((empty, empty), (empty, report("pp")), (report("pp"), empty)):
        comparison = compare(*sides)
        (check,) = comparison.checks
        assert (check.pairs, check.total, check.verdict) == (0, 0, "indeterminate")
        assert comparison.exit_code == 2
        assert "no pair" in str(comparison)
        assert "no pair" in comparison.summary()


def test_one_pair(only: Any) -> None:
    check = only("p", "f")
    assert (check.difference, check.p, check.verdict) == (-1, 1, "no difference shown")
    assert check.smallest_effect is None


def test_no_figure_is_ever_nan(report: Any) -> None:
    letters = ["", "p", "f", "u", "e", "pf", "uu", "eeee", "pu", "pppppp"]
    for before in letters:
        for after in letters:
            comparison = compare(report(before), report(after, side="b"))
            for value in comparison.frame().row(0):
                assert not isinstance(value, float) or math.isfinite(value)
            assert "nan" not in str(comparison).lower().replace("unanswered", "")
            assert "nan" not in comparison.summary().lower()


def test_another_level(report: Any) -> None:
    before, after = report("ppppp"), report("fffff", side="b")
    (loose,) = compare(before, after, alpha=0.1).checks
    (usual,) = compare(before, after).checks
    assert (loose.verdict, usual.verdict) == ("regression", "no difference shown")
    assert loose.interval[1] < usual.interval[1]
