from __future__ import annotations

from typing import Any

import pytest

from envbench.comparison import compare


def row(case: str, letters: str = "p", **fields: Any) -> dict[str, Any]:
    return {"case": case, "letters": letters, **fields}


@pytest.mark.parametrize(
    ("treatment", "part", "value"),
    [
        ("environment", "environment_id", "counter-v2"),
        ("environment", "environment_version", "2"),
        ("environment", "environment_fingerprint", "f00"),
        ("environment", "spaces", None),
        ("agent", "agent_id", "robot"),
    ],
)
def test_the_treatment_may_differ(report: Any, treatment: Any, part: str, value: Any) -> None:
    baseline, candidate = report("ppf"), report("ppf", side="b", **{part: value})
    comparison = compare(baseline, candidate, treatment=treatment)
    assert comparison.comparable
    assert [difference[0] for difference in comparison.changed] == [part]
    assert comparison.checks[0].p == 1


@pytest.mark.parametrize(
    ("treatment", "part", "value"),
    [
        ("environment", "agent_id", "robot"),
        ("environment", "observer_id", "other"),
        ("environment", "gymnasium_version", "1.3.0"),
        ("environment", "max_steps", 21),
        ("environment", "options", {"depth": {"of": 3}}),
        ("agent", "environment_id", "counter-v2"),
        ("agent", "environment_version", "2"),
        ("agent", "environment_fingerprint", "f00"),
        ("agent", "spaces", None),
    ],
)
def test_any_other_difference_blocks_with_both_values(
    report: Any, treatment: Any, part: str, value: Any
) -> None:
    baseline, candidate = report("pppf"), report("pfff", side="b", **{part: value})
    comparison = compare(baseline, candidate, treatment=treatment)
    ours = {"max_steps": 20, "options": None, "gymnasium_version": "1.4.0"}
    assert not comparison.comparable
    ((name, before, after),) = comparison.blocked
    assert (name, after) == (part, value)
    assert comparison.blocked[0].part == part
    assert (comparison.blocked[0].baseline, comparison.blocked[0].candidate) == (before, after)
    assert part not in ours or before == ours[part]
    assert f"{part}:" in comparison.summary()
    assert comparison.exit_code == 2


def test_a_blocked_comparison_still_counts(report: Any) -> None:
    baseline, candidate = report("pppfu"), report("pfffp", side="b", max_steps=3)
    (check,) = compare(baseline, candidate).checks
    assert (check.verdict, check.difference, check.broke) == (
        "descriptive",
        -0.5,
        ("case-02", "case-03"),
    )
    assert (check.lower, check.upper) == pytest.approx((-0.4, -0.2))
    assert check.table["passed", "failed"] == 2
    absent = (check.interval, check.p, check.p_adjusted, check.smallest_p, check.smallest_effect)
    assert absent == (None,) * 5


def test_a_case_redefined_blocks(report: Any) -> None:
    baseline = report([row("x"), row("y")])
    candidate = report([row("x"), row("y", case_digest="another")], side="b")
    comparison = compare(baseline, candidate)
    assert comparison.blocked == (("case", {"y": "definition of y"}, {"y": "another"}),)
    assert "case: y definition of y → another" in comparison.summary()


def test_another_version_of_a_check_blocks(report: Any) -> None:
    baseline = report("pp", checks={"posted_once": "v1"})
    candidate = report("pp", checks={"posted_once": "v2"}, side="b")
    assert compare(baseline, candidate).blocked == (
        ("checks", {"posted_once": "v1"}, {"posted_once": "v2"}),
    )


def test_checks_that_one_side_lacks_block_and_are_counted(report: Any) -> None:
    baseline = report("pp pf", checks={"kept": "v1", "old": "v1"})
    candidate = report("pp pf", checks={"kept": "v1", "new": "v1"}, side="b")
    comparison = compare(baseline, candidate)
    assert comparison.blocked == (("checks", {"old": "v1"}, {"new": "v1"}),)
    kept, old, new = comparison.checks
    assert (kept.name, kept.pairs, kept.verdict) == ("kept", 2, "descriptive")
    assert (old.baseline_version, old.candidate_version) == ("v1", None)
    assert (old.pairs, old.total, old.table["failed", "unmatched"]) == (0, 0, 1)
    assert old.note == "the candidate was not judged by it"
    assert new.note == "the baseline was not judged by it"
    assert (new.difference, new.lower, new.upper) == (None, None, None)


def test_every_part_that_differs_is_named(report: Any) -> None:
    baseline = report("pp", options={"a": 1}, agent_id="robot")
    candidate = report("pp", side="b", options={"a": 2}, agent_id="human", max_steps=None)
    comparison = compare(baseline, candidate)
    assert comparison.blocked == (
        ("max_steps", 20, None),
        ("options", {"a": 1}, {"a": 2}),
        ("agent_id", "robot", "human"),
    )
    text = str(comparison)
    assert "NOT COMPARABLE: 3 parts besides the environment differ" in text
    for line in ("max_steps: 20 → null", "options: a 1 → 2", "agent_id: robot → human"):
        assert line in text
        assert line in comparison.summary()


def test_a_difference_in_one_trial_blocks_and_names_the_trial(report: Any) -> None:
    baseline = report([row("x", seed=1), row("x", seed=2), row("y")])
    changed = row("x", seed=2, setting={"max_steps": 9})
    candidate = report([row("x", seed=1), changed, row("y")], side="b")
    assert compare(baseline, candidate).blocked == (
        ("max_steps", {"x (seed 2, repeat 0)": 20}, {"x (seed 2, repeat 0)": 9}),
    )


def test_200_differences_make_a_message_that_can_be_read(report: Any) -> None:
    def side(name: str, base: int) -> Any:
        rows = [row(f"c{i:03}", setting={"options": {"n": base + i}}) for i in range(200)]
        return report(rows, side=name)

    comparison = compare(side("a", 0), side("b", 1000))
    ((part, before, after),) = comparison.blocked
    assert (part, len(before), after["c199"]) == ("options", 200, {"n": 1199})
    summary = comparison.summary()
    assert "options: c000/n 0 → 1000, c001/n 1 → 1001, c002/n 2 → 1002, and 197 places more" in (
        summary
    )
    assert len(summary) < 1000


def test_of_a_long_value_the_part_that_differs_is_shown(report: Any) -> None:
    long = {"words": {f"w{number}": "x" * 50 for number in range(100)}}
    other = {"words": long["words"] | {"w42": "y" * 500}}
    comparison = compare(report("p", options=long), report("p", side="b", options=other))
    (line,) = [line for line in str(comparison).splitlines() if "options:" in line]
    assert f"words/w42 {'x' * 50} → {'y' * 59}…" in line
    assert len(line) < 200


# -- what is compared and what is not -------------------------------------------------------------


def test_settings_of_episodes_without_a_partner_do_not_matter(report: Any) -> None:
    baseline = report([row("x"), row("gone", setting={"max_steps": 1})])
    candidate = report([row("x"), row("new", setting={"agent_id": "robot"})], side="b")
    assert compare(baseline, candidate).comparable


def test_a_seed_that_one_side_lacks_is_unmatched_and_blocks_nothing(report: Any) -> None:
    baseline = report([row("x", seed=1), row("x", seed=2)])
    comparison = compare(baseline, report([row("x", seed=1)], side="b"))
    assert comparison.comparable
    assert [pair.seed for pair in comparison.unmatched] == [2]


def test_a_case_under_other_seeds_blocks(report: Any) -> None:
    baseline = report([row("x", seed=1), row("y", seed=1)])
    candidate = report([row("x", seed=2), row("y", seed=1)], side="b")
    comparison = compare(baseline, candidate)
    assert comparison.blocked == (("seed", {"x": 1}, {"x": 2}),)
    assert len(comparison.unmatched) == 2


def test_a_seed_on_one_side_and_none_on_the_other_blocks(report: Any) -> None:
    comparison = compare(report([row("x")]), report([row("x", seed=None)], side="b"))
    assert comparison.blocked == (("seed", 17, None),)


def test_settings_of_all_repeats_without_a_seed_are_compared(report: Any) -> None:
    def side(name: str, *steps: int) -> Any:
        rows = [
            row("x", seed=None, repeat=i, setting={"max_steps": n}) for i, n in enumerate(steps)
        ]
        return report(rows, side=name)

    assert compare(side("a", 5, 5, 5), side("b", 5)).comparable
    assert compare(side("a", 5, 5, 6), side("b", 5)).blocked == (("max_steps", [5, 6], 5),)


def test_the_settings_of_a_recovery_are_those_of_its_trial(report: Any) -> None:
    """A report does not know which attempt had which, so that both count: a store knows."""
    first = row("x", "f", setting={"options": {"kept": False}})
    second = row("x", "p", previous="a-1", setting={"options": {"kept": True}})
    baseline = report([row("y", setting={"options": {"kept": False}}), first, second])
    candidate = report([row("y", setting={"options": {"kept": False}}), first], side="b")
    assert [part for part, _, _ in compare(baseline, candidate).blocked] == ["options"]
    assert compare(baseline, baseline).comparable


# -- the same, or not at all ----------------------------------------------------------------------


def test_a_report_compared_with_itself(report: Any) -> None:
    same = report("pfpf ffpp".replace(" ", ""))
    comparison = compare(same, same)
    (check,) = comparison.checks
    assert comparison.comparable
    assert (check.broke, check.fixed, check.difference, check.p) == ((), (), 0, 1)
    assert (check.verdict, comparison.exit_code) == ("no difference shown", 0)
    assert "both sides are the same episodes" in comparison.notes


def test_sides_that_share_no_case(report: Any) -> None:
    comparison = compare(report([row("x")]), report([row("y")], side="b"))
    assert comparison.comparable
    assert len(comparison.unmatched) == 2
    (check,) = comparison.checks
    assert (check.pairs, check.verdict, check.difference) == (0, "indeterminate", None)
    assert comparison.exit_code == 2
    assert comparison.notes == (
        "no episode has a partner: the two sides share no case, seed and repeat",
    )
    assert "no pair" in comparison.summary()


# -- the checks as the treatment ------------------------------------------------------------------


def same_evidence(report: Any, letters: str, version: str, **fields: Any) -> Any:
    rows = [
        row(f"case-{i}", letter, digest=f"digest {i}") | fields for i, letter in enumerate(letters)
    ]
    return report(rows, checks={"posted_once": version})


def test_versions_of_a_check_on_the_same_evidence(report: Any) -> None:
    old, new = same_evidence(report, "pppf", "v1"), same_evidence(report, "pfff", "v2")
    comparison = compare(old, new, treatment="checks")
    assert comparison.comparable
    assert comparison.changed == (("checks", {"posted_once": "v1"}, {"posted_once": "v2"}),)
    assert (comparison.baseline_name, comparison.candidate_name) == (
        "posted_once v1",
        "posted_once v2",
    )
    assert comparison.checks[0].broke == ("case-1", "case-2")
    assert all(pair.baseline == pair.candidate for pair in comparison.pairs)
    said = "what changed is the check, not the agent and not the environment"
    assert said in comparison.summary()
    assert said in str(comparison)


def test_other_evidence_under_the_same_id_blocks(report: Any) -> None:
    old, new = same_evidence(report, "pp", "v1"), report("pp", checks={"posted_once": "v2"})
    new = report(
        [row("case-0", digest="digest 0"), row("case-1", digest="altered")],
        checks={"posted_once": "v2"},
    )
    comparison = compare(old, new, treatment="checks")
    assert comparison.blocked == (("evidence", {"case-1": "digest 1"}, {"case-1": "altered"}),)


def test_two_runs_are_not_the_same_evidence(report: Any) -> None:
    comparison = compare(report("pp"), report("pp", side="b"), treatment="checks")
    assert len(comparison.unmatched) == 4
    assert comparison.exit_code == 2
    assert "the two sides share no episode" in comparison.notes[0]


def test_one_trial_in_two_environments_is_told_apart_by_its_episodes(report: Any) -> None:
    rows = [row("x", digest="one"), row("x", digest="two", setting={"environment_id": "other"})]
    old, new = (report(rows, checks={"posted_once": version}) for version in ("v1", "v2"))
    comparison = compare(old, new, treatment="checks")
    assert comparison.names == ("x (episode a-0)", "x (episode a-1)")
    assert comparison.checks[0].total == 2
