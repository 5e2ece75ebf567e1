from __future__ import annotations

from typing import Any

import pytest

from envbench.comparison import Comparison, PairingError, compare


def ids(comparison: Comparison) -> list[tuple[str | None, str | None]]:
    return [(pair.baseline, pair.candidate) for pair in comparison.pairs]


def row(case: str, letters: str = "p", **fields: Any) -> dict[str, Any]:
    return {"case": case, "letters": letters, **fields}


def test_partners_have_the_same_case_seed_and_repeat(report: Any) -> None:
    baseline = report([row("x", seed=1), row("x", seed=2), row("x", seed=2, repeat=1), row("y")])
    candidate = report(
        [row("y"), row("x", seed=2, repeat=1), row("x", seed=1), row("x", seed=2)], side="b"
    )
    comparison = compare(baseline, candidate)
    assert ids(comparison) == [("a-0", "b-2"), ("a-1", "b-3"), ("a-2", "b-1"), ("a-3", "b-0")]
    assert comparison.unmatched == ()
    assert comparison.names == (
        "x (seed 1, repeat 0)",
        "x (seed 2, repeat 0)",
        "x (seed 2, repeat 1)",
        "y",
    )


def test_a_pair_knows_the_case_that_both_answer(report: Any) -> None:
    rows = [row("x", seed=2**70, source_id="book", tags=("long", "short"))]
    (pair,) = compare(report(rows), report(rows, side="b")).pairs
    assert (pair.case_id, pair.source_id, pair.tags) == ("x", "book", ("long", "short"))
    assert (pair.seed, pair.repeat, pair.baseline, pair.candidate) == (2**70, 0, "a-0", "b-0")


def test_the_order_in_which_episodes_are_given_does_not_matter(report: Any) -> None:
    rows = [row(case, letter) for case, letter in zip("abcdef", "pfpuep", strict=True)]
    forward, backward = report(rows), report(list(reversed(rows)))
    names = {episode.episode_id: episode.case_id for episode in forward.episodes}
    turned = {episode.episode_id: episode.case_id for episode in backward.episodes}
    first, second = compare(forward, forward), compare(backward, backward)
    assert [names[pair.baseline or ""] for pair in first.pairs] == list("abcdef")
    assert [turned[pair.baseline or ""] for pair in second.pairs] == list("abcdef")
    assert first.checks == second.checks


def test_what_only_one_side_has_is_listed_and_in_no_figure(report: Any) -> None:
    baseline = report([row("x"), row("y"), row("gone", "f")])
    candidate = report([row("x"), row("y", "f"), row("new", "f")], side="b")
    comparison = compare(baseline, candidate)
    assert [(p.case_id, p.baseline, p.candidate) for p in comparison.unmatched] == [
        ("gone", "a-2", None),
        ("new", None, "b-2"),
    ]
    (check,) = comparison.checks
    assert (check.pairs, check.total, check.baseline_rate.total) == (2, 2, 2)
    assert check.table["failed", "unmatched"] == check.table["unmatched", "failed"] == 1
    assert check.outcomes == (
        ("failed", "unmatched"),
        ("unmatched", "failed"),
        ("passed", "passed"),
        ("passed", "failed"),
    )
    assert check.broke == ("y",)


def test_a_trial_that_is_there_twice_is_refused_by_name(report: Any) -> None:
    twice = report([row("x"), row("y"), row("x")])
    with pytest.raises(
        PairingError,
        match=r"baseline: 1 trial with more than one episode "
        r"\(case 'x', seed 17, repeat 0: a-0, a-2\)",
    ):
        compare(twice, report("pp", side="b"))
    with pytest.raises(PairingError, match="candidate: 1 trial"):
        compare(report("pp"), twice)


def test_many_duplicates_make_a_message_that_can_be_read(report: Any) -> None:
    twice = report([row(f"case-{number}", repeat=3) for number in range(100)] * 2)
    with pytest.raises(PairingError, match=r"100 trials .*; and 97 trials more") as caught:
        compare(twice, twice)
    assert len(str(caught.value)) < 500


def test_repeats_are_no_duplicates(report: Any) -> None:
    rows = [row("x", "p", repeat=0), row("x", "f", repeat=1)]
    comparison = compare(report(rows), report(rows, side="b"))
    assert comparison.names == ("x (repeat 0)", "x (repeat 1)")
    assert comparison.checks[0].clusters == 1


# -- recoveries -----------------------------------------------------------------------------------


def recovered(report: Any, side: str, first: str, second: str, third: str = "", **more: Any) -> Any:
    rows = [row("x", first), row("x", second, previous=f"{side}-0", **more)]
    if third:
        rows.append(row("x", third, previous=f"{side}-1"))
    return report(rows, side=side)


def test_a_recovery_is_an_attempt_and_the_first_one_is_compared(report: Any) -> None:
    baseline, candidate = recovered(report, "a", "f", "p"), recovered(report, "b", "f", "f", "p")
    comparison = compare(baseline, candidate)
    assert ids(comparison) == [("a-0", "b-0")]
    assert comparison.notes[1:] == (
        "baseline: 1 episode left out, because the first attempt at a trial is compared",
        "candidate: 2 episodes left out, because the first attempt at a trial is compared",
    )
    assert ids(compare(baseline, candidate, attempt="last")) == [("a-1", "b-2")]
    assert compare(baseline, baseline).notes[-1] == (
        "1 episode of each side left out, because the first attempt at a trial is compared"
    )


def test_a_recovery_under_another_seed_is_an_attempt_at_the_first_ones_trial(report: Any) -> None:
    baseline = recovered(report, "a", "f", "p", seed=99, repeat=4)
    comparison = compare(baseline, report([row("x")], side="b"), attempt="last")
    assert ids(comparison) == [("a-1", "b-0")]
    assert (comparison.pairs[0].seed, comparison.pairs[0].repeat) == (17, 0)


def test_a_recovery_whose_first_attempt_was_not_selected(report: Any) -> None:
    orphan = report([row("x", previous="elsewhere"), row("y")])
    with pytest.raises(
        PairingError,
        match=r"baseline: episode a-0 of case 'x' is a recovery of elsewhere, which is not among "
        r"the episodes selected: .* attempt='last'",
    ):
        compare(orphan, orphan)
    assert ids(compare(orphan, orphan, attempt="last")) == [("a-0", "a-0"), ("a-1", "a-1")]


@pytest.mark.parametrize("attempt", ["first", "last"])
def test_a_recovery_of_another_case_is_refused(report: Any, attempt: Any) -> None:
    foreign = report([row("x", "f"), row("y", "p", previous="a-0")])
    with pytest.raises(PairingError, match=r"a-1 of case 'y' .* recovery of a-0, which answers"):
        compare(foreign, foreign, attempt=attempt)


@pytest.mark.parametrize("attempt", ["first", "last"])
@pytest.mark.parametrize("treatment", ["environment", "checks"])
def test_recoveries_in_a_loop_are_refused(report: Any, attempt: Any, treatment: Any) -> None:
    loop = report([row("x", previous="a-1"), row("x", previous="a-0"), row("y")])
    with pytest.raises(PairingError, match="a-0, a-1 form a loop"):
        compare(loop, loop, attempt=attempt, treatment=treatment)


def test_two_recoveries_of_one_episode_have_one_first_and_no_last_attempt(report: Any) -> None:
    forked = report([row("x", "f"), row("x", previous="a-0"), row("x", previous="a-0")])
    assert ids(compare(forked, forked)) == [("a-0", "a-0")]
    with pytest.raises(PairingError, match=r"case 'x', seed 17, repeat 0: a-1, a-2"):
        compare(forked, forked, attempt="last")


def test_a_long_chain_of_recoveries(report: Any) -> None:
    rows = [row("x", "f", previous=None if i == 0 else f"a-{i - 1}") for i in range(3000)]
    chain = report(list(reversed(rows)))  # reversed: a-0 is the last one
    links = [
        row("x", "f", episode_id=f"a-{i}", previous=None if i == 0 else f"a-{i - 1}")
        for i in reversed(range(3000))
    ]
    chain = report(links)
    assert ids(compare(chain, chain)) == [("a-0", "a-0")]
    assert ids(compare(chain, chain, attempt="last")) == [("a-2999", "a-2999")]


# -- repeats without a seed -----------------------------------------------------------------------


def unseeded(report: Any, side: str, *letters: str) -> Any:
    return report(
        [
            row(f"case-{case}", letter, seed=None, repeat=repeat)
            for case, all_ in enumerate(letters)
            for repeat, letter in enumerate(all_)
        ],
        side=side,
    )


def test_repeats_without_a_seed_are_compared_by_case_means(report: Any) -> None:
    # 3/4 against 1/2, 0/2 against 2/2, 1/1 against 1/3
    baseline = unseeded(report, "a", "pppf", "ff", "p")
    candidate = unseeded(report, "b", "pf", "pp", "pff")
    comparison = compare(baseline, candidate)
    (check,) = comparison.checks
    assert comparison.case_means == ("case-0", "case-1", "case-2")
    assert (check.pairs, check.total, check.clusters) == (3, 3, 3)
    assert check.difference == pytest.approx((-1 / 4 + 1 - 2 / 3) / 3)
    assert check.lower == check.upper == check.difference
    assert (check.broke, check.fixed) == (("case-0", "case-2"), ("case-1",))
    assert (check.baseline_rate.passed, check.baseline_rate.total) == (4, 7)
    assert (check.candidate_rate.passed, check.candidate_rate.total) == (4, 7)
    assert comparison.unmatched == ()
    assert "3 cases with repeats that carry no seed" in comparison.notes[-1]


def test_the_numbers_of_repeats_without_a_seed_mean_nothing(report: Any) -> None:
    one = compare(unseeded(report, "a", "ppff", "p"), unseeded(report, "b", "ffpp", "p"))
    other = compare(unseeded(report, "a", "pfpf", "p"), unseeded(report, "b", "pfpf", "p"))
    assert one.checks[0].difference == other.checks[0].difference == 0
    assert one.checks[0].broke == other.checks[0].broke == ()


def test_a_single_episode_without_a_seed_is_a_pair(report: Any) -> None:
    comparison = compare(unseeded(report, "a", "p", "f"), unseeded(report, "b", "f", "f"))
    assert comparison.case_means == ()
    assert comparison.checks[0].method.startswith("exact McNemar")
    assert comparison.checks[0].broke == ("case-0",)


def test_seeded_pairs_stand_beside_case_means(report: Any) -> None:
    def side(name: str, seeded: str, *unseeded: str) -> Any:
        rows = [row("x", seeded, seed=5)]
        rows += [row("x", letter, seed=None, repeat=i) for i, letter in enumerate(unseeded)]
        return report([*rows, row("z")], side=name)

    comparison = compare(side("a", "p", "p", "p"), side("b", "f", "p", "f"))
    (check,) = comparison.checks
    # case x: the pair of seed 5 by −1 and the mean by −1/2; case z: 0
    assert (check.pairs, check.clusters) == (3, 2)
    assert check.difference == pytest.approx(-3 / 8)
    assert check.broke == ("x", "x (seed 5, repeat 0)")


def test_a_case_without_a_seed_on_one_side_only_is_unmatched(report: Any) -> None:
    comparison = compare(unseeded(report, "a", "pp", "pf"), unseeded(report, "b", "pp"))
    assert [pair.case_id for pair in comparison.unmatched] == ["case-1", "case-1"]
    assert comparison.checks[0].total == 1


# -- names ----------------------------------------------------------------------------------------


def test_names_are_distinct_whatever_the_cases_are_called(report: Any) -> None:
    rows = [row("x", seed=1), row("x", seed=2), row("x (seed 1)", seed=1)]
    comparison = compare(report(rows), report(rows, side="b"))
    assert len(set(comparison.names)) == 3
    assert comparison.names[-1] == "x (seed 1) (episode a-2)"


def test_cases_with_names_of_any_script(report: Any) -> None:
    rows = [row(case) for case in ("Rechnung №17", "請求書", "a\nb", "‮evil")]
    comparison = compare(report(rows), report(rows, side="b"))
    assert set(comparison.names) == {"Rechnung №17", "請求書", "a\nb", "‮evil"}
    assert len(comparison.unmatched) == 0
