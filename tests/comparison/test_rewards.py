from __future__ import annotations

from typing import Any

import pytest

from envbench import connect
from envbench.checks import evaluate
from envbench.comparison import Episodes, RewardComparison, compare
from tests.comparison.tills import ONCE, record

V1, V2 = Episodes(environment_id="till-v1"), Episodes(environment_id="till-v2")


@pytest.fixture
def rewards() -> Any:
    """The reward of tills: what each case was paid and how often it was booked, by side."""

    def compared(*cases: tuple[float, int | None, float, int | None], **options: Any) -> Any:
        with connect(":memory:") as store:
            for number, (before, booked, after, booked_after) in enumerate(cases):
                case = f"case-{number}"
                record(case, booked, store=store, reward=before)
                given = {"environment": "till-v2", "reward": after, **options}
                record(case, booked_after, store=store, **given)
            return compare(V1, V2, store=store, checks=ONCE)

    return compared


def test_the_difference_of_the_returns(rewards: Any) -> None:
    reward = rewards((1, 1, 2, 1), (1, 1, 3, 1), (0, 1, 0, 1), (1, 1, 1, 1)).reward
    assert (reward.pairs, reward.total) == (4, 4)
    assert (reward.baseline_mean, reward.candidate_mean, reward.difference) == (0.75, 1.5, 0.75)
    low, high = reward.interval
    assert 0 <= low < 0.75 < high <= 2
    assert reward.disagreements == ()
    assert reward.note == "with 4 clusters only, the interval is likely to be too narrow"


def test_a_pair_in_which_the_one_that_failed_earned_more(rewards: Any) -> None:
    """A posting booked twice is paid twice: the reward speaks for what the check refuses."""
    comparison = rewards((1, 1, 2, 2), (2, 2, 1, 1), (1, 1, 0, 2), (1, 1, 1, 1))
    broke, fixed = comparison.reward.disagreements
    assert (broke.check, broke.name, broke.baseline_passed) == ("booked", "case-0", True)
    assert (broke.baseline_reward, broke.candidate_reward) == (1, 2)
    assert (broke.baseline, broke.candidate) == (
        comparison.pairs[0].baseline,
        comparison.pairs[0].candidate,
    )
    assert (fixed.name, fixed.baseline_passed) == ("case-1", False)
    assert "in 2 pairs the episode that failed a check earned more than" in comparison.summary()
    assert "booked, case-0: passed with 1, failed with 2" in str(comparison)
    assert "booked, case-1: failed with 2, passed with 1" in str(comparison)


def test_a_flip_that_the_reward_does_not_show_is_counted(rewards: Any) -> None:
    comparison = rewards((1, 1, 1, 2), (0, 2, 0, 1), (1, 1, 1, None), (1, 1, 0, 2))
    assert (comparison.reward.unseen, comparison.reward.disagreements) == (2, ())
    assert "2 flips of a check where both sides earned the same" in comparison.summary()


def test_no_verdict_rests_on_the_reward(rewards: Any) -> None:
    comparison = rewards(*[(5, 1, 0, 1)] * 8)
    assert comparison.reward.difference == -5
    assert comparison.checks[0].verdict == "no difference shown"
    assert comparison.exit_code == 0


@pytest.mark.parametrize("strange", [float("nan"), float("inf")])
def test_a_return_that_is_no_number_is_left_out_and_said(rewards: Any, strange: float) -> None:
    comparison = rewards((1, 1, 2, 1), (1, 1, strange, 2))
    reward = comparison.reward
    assert (reward.pairs, reward.total, reward.difference) == (1, 2, 1)
    assert reward.note.startswith("1 of 2 pairs without a finite return")
    assert reward.disagreements == ()
    assert "nan" not in str(comparison) + comparison.summary()


def test_returns_too_large_to_be_subtracted(rewards: Any) -> None:
    reward = rewards((1e308, 1, -1e308, 1), (1, 1, 1, 1)).reward
    assert (reward.difference, reward.interval) == (None, None)
    assert reward.note == "the returns are too large to be subtracted"


def test_no_return_at_all(rewards: Any) -> None:
    nan = float("nan")
    assert rewards((nan, 1, nan, 1)).reward == RewardComparison(
        0, 1, None, None, None, None, (), 0, "1 of 1 pair without a finite return"
    )


def test_sides_that_are_not_comparable_get_no_interval(rewards: Any) -> None:
    comparison = rewards((1, 1, 2, 1), (1, 1, 3, 1), agent_id="robot")
    assert not comparison.comparable
    assert (comparison.reward.difference, comparison.reward.interval) == (1.5, None)


def test_each_source_counts_once() -> None:
    with connect(":memory:") as store:
        for case, source, after in (("a", "s", 1), ("b", "s", 3), ("c", "t", 10)):
            record(case, store=store, source=source, reward=0)
            record(case, store=store, source=source, reward=after, environment="till-v2")
        reward = compare(V1, V2, store=store, checks=ONCE).reward
        assert reward is not None
        assert reward.difference == 6
        assert reward.candidate_mean == pytest.approx(14 / 3)


def test_repeats_without_a_seed_are_compared_by_case_means() -> None:
    with connect(":memory:") as store:
        for repeat, reward in enumerate((1, 3)):
            record("x", store=store, reward=reward, repeat=repeat, seed=None)
        record("x", 2, store=store, reward=9, seed=None, environment="till-v2")
        comparison = compare(V1, V2, store=store, checks=ONCE)
        assert comparison.case_means == ("x",)
        assert comparison.reward is not None
        assert comparison.reward.difference == 7
        assert comparison.reward.disagreements == ()


def test_a_report_without_its_store_has_no_reward() -> None:
    report = evaluate([record("x")], [ONCE])
    assert compare(report, report).reward is None
    with connect(":memory:") as elsewhere:
        reward = compare(report, report, store=elsewhere).reward
        assert reward is not None
        assert (reward.pairs, reward.note) == (0, "1 of 1 pair without a finite return")
