"""The decision matrix: what a policy comes to, and why. Each row can be checked by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from envbench.checks import (
    AcceptancePolicy,
    CheckRequirement,
    Decision,
    Measurement,
    Report,
    SliceRequirement,
    evaluate,
)

ERROR = ValueError("the check broke")


@dataclasses.dataclass(frozen=True)
class Ep:
    """An episode of the matrix: its case, and what each check comes to."""

    case: str
    outcome: Any
    key: str = ""
    previous: str = ""
    made_with: dict[str, Any] = dataclasses.field(default_factory=dict)


def ep(case: str, outcome: Any, *, key: str = "", previous: str = "", **made_with: Any) -> Ep:
    return Ep(case, outcome, key, previous, made_with)


def cases(*outcomes: Any, **made_with: Any) -> list[Ep]:
    """One episode for each of as many cases."""
    return [ep(f"case-{i}", outcome, **made_with) for i, outcome in enumerate(outcomes)]


def policy(*slices: SliceRequirement, check: dict[str, Any] | None = None, **more: Any) -> Any:
    """A policy about the check `posted`."""
    requirement = CheckRequirement("posted", **(check or {}))
    return AcceptancePolicy((requirement,), slices, **more)


CRITICAL = policy(check={"critical": True})
TOLERANT = policy(check={"min_pass_rate": 0.8, "min_coverage": 0.5}, max_error_rate=0.5)
FINAL = policy(trial_scope="final_attempt")
CASE_8 = cases(*[True] * 6, False, None, ERROR, ERROR)
EU = SliceRequirement("eu")


# What is in the report; the policy; the decision; the codes of what was found (notes included).
MATRIX: dict[str, tuple[list[Ep], AcceptancePolicy, str, set[str]]] = {
    # --- one check, one case
    "it passed": (cases(True), policy(), "accept", set()),
    "it failed": (cases(False), policy(), "reject", {"pass_rate"}),
    "unknown is no pass": (
        cases(None),
        policy(),
        "indeterminate",
        {"too_few_measured", "coverage"},
    ),
    "an evaluator error is no pass and no failure": (
        cases(ERROR),
        policy(),
        "indeterminate",
        {"evaluator_errors", "too_few_measured", "coverage"},
    ),
    "an empty report": ([], policy(), "indeterminate", {"too_few_cases", "too_few_measured"}),
    "an empty report under a policy that asks for as little as it can": (
        [],
        policy(check={"min_pass_rate": 0.0, "min_coverage": 0.0}, max_error_rate=1.0),
        "indeterminate",
        {"too_few_cases", "too_few_measured"},
    ),
    "a required check that the report does not have": (
        cases(True),
        AcceptancePolicy((CheckRequirement("posted"), CheckRequirement("vendors_kept"))),
        "indeterminate",
        {"missing_check"},
    ),
    "only the missing check is required": (
        cases(True),
        AcceptancePolicy((CheckRequirement("Posted"),)),
        "indeterminate",
        {"missing_check"},
    ),
    "a measured failure rejects although another check is missing": (
        cases(False),
        AcceptancePolicy((CheckRequirement("posted"), CheckRequirement("vendors_kept"))),
        "reject",
        {"pass_rate", "missing_check"},
    ),
    # --- coverage issues
    "it passed, but the episode ended early": (
        cases(True, ending="policy_stop"),
        policy(),
        "indeterminate",
        {"coverage_issue"},
    ),
    "it failed, and the episode ended early": (
        cases(False, ending="policy_stop"),
        policy(),
        "reject",
        {"pass_rate", "coverage_issue"},
    ),
    "a coverage issue on one episode of many": (
        [*cases(True, True, True), ep("case-9", True, ending="error")],
        policy(),
        "indeterminate",
        {"coverage_issue"},
    ),
    "a coverage issue is not bought off by tolerances": (
        cases(True, issues=["contract: reward was text"]),
        TOLERANT,
        "indeterminate",
        {"coverage_issue"},
    ),
    "a note of the episode is no coverage issue": (
        cases(True, issues=["note: a space's own codec is not faithful"]),
        policy(),
        "accept",
        set(),
    ),
    # --- critical checks
    "critical, and it passed": (cases(True, True), CRITICAL, "accept", set()),
    "critical, one failure among unknowns and errors": (
        cases(False, None, ERROR, True),
        CRITICAL,
        "reject",
        {"critical_failure", "coverage", "evaluator_errors"},
    ),
    "critical, one failure, although the pass rate would do": (
        cases(*[True] * 9, False),
        policy(check={"critical": True, "min_pass_rate": 0.5}),
        "reject",
        {"critical_failure"},
    ),
    "critical, one failure in a repeat of a case": (
        [ep("case-1", True), ep("case-1", True, repeat=1), ep("case-1", False, repeat=2)],
        policy(check={"critical": True, "min_pass_rate": 0.0}),
        "reject",
        {"critical_failure"},
    ),
    "critical, but only unknown: nothing was measured to fail": (
        cases(None, True),
        CRITICAL,
        "indeterminate",
        {"coverage"},
    ),
    "critical, one failure in an episode with a coverage issue": (
        [ep("case-1", True), ep("case-2", False, ending="error")],
        CRITICAL,
        "reject",
        {"critical_failure", "coverage_issue"},
    ),
    # --- rates and their denominators (cases/README.md, 8)
    "6 of 7 measured, of 10: the rate is enough, the coverage is not": (
        CASE_8,
        policy(check={"min_pass_rate": 0.85}, max_error_rate=0.2),
        "indeterminate",
        {"coverage"},
    ),
    "6 of 7 measured, of 10: below 0.9, although 9 of 10 is still possible": (
        CASE_8,
        policy(check={"min_pass_rate": 0.9}, max_error_rate=0.2),
        "reject",
        {"pass_rate", "coverage"},
    ),
    "6 of 7 measured, of 10: all of it tolerated in advance": (
        CASE_8,
        policy(check={"min_pass_rate": 0.85, "min_coverage": 0.7}, max_error_rate=0.2),
        "accept",
        set(),
    ),
    "6 of 7 measured, of 10: one more case had to be measured": (
        CASE_8,
        policy(
            check={"min_pass_rate": 0.85, "min_coverage": 0.7, "min_cases": 8}, max_error_rate=0.2
        ),
        "indeterminate",
        {"too_few_measured"},
    ),
    "exactly at the rate": (
        cases(*[True] * 9, False),
        policy(check={"min_pass_rate": 0.9}),
        "accept",
        set(),
    ),
    "exactly at a rate that has no exact double": (
        cases(*[True] * 2, False),
        policy(check={"min_pass_rate": 2 / 3}),
        "accept",
        set(),
    ),
    "one in two hundred failed: the rate is not rounded up": (
        cases(*[True] * 199, False),
        policy(check={"min_pass_rate": 0.996}),
        "reject",
        {"pass_rate"},
    ),
    "exactly at the coverage": (
        cases(True, True, True, None),
        policy(check={"min_coverage": 0.75}),
        "accept",
        set(),
    ),
    "just below the coverage": (
        cases(True, True, None),
        policy(check={"min_coverage": 0.67}),
        "indeterminate",
        {"coverage"},
    ),
    "all unknown, no coverage asked for: still nothing was measured": (
        cases(None, None),
        policy(check={"min_coverage": 0.0, "min_pass_rate": 0.0}),
        "indeterminate",
        {"too_few_measured"},
    ),
    "all failed, no rate asked for": (
        cases(False, False),
        policy(check={"min_pass_rate": 0.0}),
        "accept",
        set(),
    ),
    # --- number of cases
    "too few cases": (cases(True), policy(min_cases=2), "indeterminate", {"too_few_cases"}),
    "repeats of a case are not further cases": (
        [ep("case-1", True, repeat=i) for i in range(5)],
        policy(min_cases=2),
        "indeterminate",
        {"too_few_cases"},
    ),
    "repeats of a case are not further measured cases": (
        [ep("case-1", True, repeat=i) for i in range(5)],
        policy(check={"min_cases": 2}),
        "indeterminate",
        {"too_few_measured"},
    ),
    "enough cases": (cases(True, True), policy(min_cases=2), "accept", set()),
    "two definitions of one case": (
        [ep("case-1", True), ep("case-1", True, case_input="Count to two")],
        policy(),
        "indeterminate",
        {"case_redefined"},
    ),
    # --- repeats: a case is the worst of its episodes
    "every repeat passed": (
        [ep("case-1", True), ep("case-1", True, repeat=1)],
        policy(),
        "accept",
        set(),
    ),
    "one repeat failed": (
        [ep("case-1", True), ep("case-1", False, repeat=1)],
        policy(),
        "reject",
        {"pass_rate"},
    ),
    "one repeat failed, one is unknown: the failure is certain": (
        [ep("case-1", None), ep("case-1", False, repeat=1)],
        policy(check={"min_coverage": 0.0}),
        "reject",
        {"pass_rate", "too_few_measured"},
    ),
    "one repeat passed, one is unknown: the pass is not": (
        [ep("case-1", True), ep("case-1", None, repeat=1)],
        policy(),
        "indeterminate",
        {"too_few_measured", "coverage"},
    ),
    "one repeat passed, one errored": (
        [ep("case-1", True), ep("case-1", ERROR, repeat=1), ep("case-2", True)],
        policy(check={"min_coverage": 0.5}),
        "indeterminate",
        {"evaluator_errors"},
    ),
    "many passing repeats of one case do not outweigh a failed case": (
        [*(ep("case-1", True, repeat=i) for i in range(99)), ep("case-2", False)],
        policy(check={"min_pass_rate": 0.9}),
        "reject",
        {"pass_rate"},
    ),
    # --- evaluator errors
    "errors exactly at their rate": (
        cases(True, True, True, ERROR),
        policy(check={"min_coverage": 0.5}, max_error_rate=0.25),
        "accept",
        set(),
    ),
    "errors above their rate": (
        cases(True, True, ERROR),
        policy(check={"min_coverage": 0.5}, max_error_rate=0.33),
        "indeterminate",
        {"evaluator_errors"},
    ),
    "one error in two hundred is not rounded to none": (
        cases(*[True] * 199, ERROR),
        policy(check={"min_coverage": 0.5}, max_error_rate=0.004),
        "indeterminate",
        {"evaluator_errors"},
    ),
    "an error of a check that the policy does not name counts": (
        cases({"posted": True, "other": ERROR}),
        policy(),
        "indeterminate",
        {"evaluator_errors"},
    ),
    "a failure of a check that the policy does not name is only shown": (
        cases({"posted": True, "other": False}),
        policy(),
        "accept",
        {"failures_outside_policy"},
    ),
    "an unknown of a check that the policy does not name decides nothing": (
        cases({"posted": True, "other": None}),
        policy(),
        "accept",
        set(),
    ),
    # --- several checks
    "every required check must do": (
        cases({"posted": True, "other": False}),
        AcceptancePolicy((CheckRequirement("posted"), CheckRequirement("other"))),
        "reject",
        {"pass_rate"},
    ),
    "one check rejects while the other lacks evidence": (
        cases({"posted": None, "other": False}),
        AcceptancePolicy((CheckRequirement("posted"), CheckRequirement("other"))),
        "reject",
        {"pass_rate", "too_few_measured", "coverage"},
    ),
    # --- slices
    "a slice that passed": (
        [ep("a", True, tags=("eu",)), ep("b", True)],
        policy(EU),
        "accept",
        set(),
    ),
    "a slice that failed, although the whole would do": (
        [ep("a", False, tags=("eu",)), *cases(*[True] * 9)],
        policy(EU, check={"min_pass_rate": 0.9}),
        "reject",
        {"pass_rate"},
    ),
    "a slice that no case belongs to": (
        cases(True, True),
        policy(EU),
        "indeterminate",
        {"too_few_slice_cases", "too_few_measured"},
    ),
    "a tag in other letters is another tag": (
        cases(True, tags=("EU",)),
        policy(EU),
        "indeterminate",
        {"too_few_slice_cases", "too_few_measured"},
    ),
    "a slice that is too small": (
        [ep("a", True, tags=("eu",)), *cases(True, True)],
        policy(SliceRequirement("eu", min_cases=2)),
        "indeterminate",
        {"too_few_slice_cases", "too_few_measured"},
    ),
    "a slice is not filled by repeats": (
        [ep("a", True, tags=("eu",), repeat=i) for i in range(4)],
        policy(SliceRequirement("eu", min_cases=2)),
        "indeterminate",
        {"too_few_slice_cases", "too_few_measured"},
    ),
    "a slice that is large enough, but not measured": (
        [ep("a", True, tags=("eu",)), ep("b", None, tags=("eu",)), *cases(*[True] * 8)],
        policy(SliceRequirement("eu", min_cases=2), check={"min_coverage": 0.5}),
        "indeterminate",
        {"too_few_measured", "coverage"},
    ),
    "a slice that is less covered than it must be": (
        [ep("a", True, tags=("eu",)), ep("b", None, tags=("eu",)), *cases(*[True] * 8)],
        policy(SliceRequirement("eu", min_coverage=0.6), check={"min_coverage": 0.5}),
        "indeterminate",
        {"coverage"},
    ),
    "a slice cannot loosen the check's own rate": (
        [ep("a", False, tags=("eu",)), ep("b", True, tags=("eu",)), *cases(*[True] * 8)],
        policy(SliceRequirement("eu", min_pass_rate=0.1), check={"min_pass_rate": 0.9}),
        "reject",
        {"pass_rate"},
    ),
    "a slice that is as good as it must be": (
        [ep("a", False, tags=("eu",)), ep("b", True, tags=("eu",)), *cases(*[True] * 8)],
        policy(SliceRequirement("eu", min_pass_rate=0.5), check={"min_pass_rate": 0.5}),
        "accept",
        set(),
    ),
    "the check's number of cases is asked of the whole, the slice's of the slice": (
        [ep("a", True, tags=("eu",)), *cases(True, True)],
        policy(EU, check={"min_cases": 3}),
        "accept",
        set(),
    ),
    "a case in two slices, one of which is missing": (
        [ep("a", True, tags=("eu", "large"))],
        policy(EU, SliceRequirement("small")),
        "indeterminate",
        {"too_few_slice_cases", "too_few_measured"},
    ),
    # --- source groups
    "enough source groups": (
        [ep("a", True, source_id="s1"), ep("b", True, source_id="s2")],
        policy(min_source_groups=2),
        "accept",
        set(),
    ),
    "too few source groups": (
        [ep("a", True, source_id="s1"), ep("b", True, source_id="s1")],
        policy(min_source_groups=2),
        "indeterminate",
        {"too_few_source_groups"},
    ),
    "a case without a source group": (
        [ep("a", True, source_id="s1"), ep("b", True)],
        policy(min_source_groups=1),
        "indeterminate",
        {"unclear_source_group"},
    ),
    "source groups are not asked for": (cases(True), policy(), "accept", set()),
    # --- recoveries
    "a failed attempt and its recovery, every attempt judged": (
        [ep("a", False, key="first"), ep("a", True, previous="first")],
        policy(),
        "reject",
        {"pass_rate"},
    ),
    "an unfinished attempt and its recovery, every attempt judged": (
        [ep("a", True, key="first", ending="error"), ep("a", True, previous="first")],
        policy(),
        "indeterminate",
        {"coverage_issue"},
    ),
    "an unfinished attempt and its recovery, the last one judged": (
        [ep("a", None, key="first", ending="error"), ep("a", True, previous="first")],
        FINAL,
        "accept",
        {"superseded_attempt"},
    ),
    "the order of the episodes does not matter": (
        [ep("a", True, previous="first"), ep("a", None, key="first", ending="error")],
        FINAL,
        "accept",
        {"superseded_attempt"},
    ),
    "an unsafe recovery": (
        [ep("a", None, key="first", ending="error"), ep("a", False, previous="first")],
        FINAL,
        "reject",
        {"pass_rate", "superseded_attempt"},
    ),
    "an unfinished recovery of an attempt that passed": (
        [ep("a", True, key="first"), ep("a", True, previous="first", ending="error")],
        FINAL,
        "indeterminate",
        {"coverage_issue", "superseded_attempt"},
    ),
    "an unmeasured recovery of an attempt that passed": (
        [ep("a", True, key="first"), ep("a", None, previous="first")],
        FINAL,
        "indeterminate",
        {"too_few_measured", "coverage", "superseded_attempt"},
    ),
    "a recovery of a recovery": (
        [
            ep("a", False, key="first"),
            ep("a", False, key="second", previous="first"),
            ep("a", True, previous="second"),
        ],
        FINAL,
        "accept",
        {"superseded_attempt"},
    ),
    "a failed episode that nothing recovers, beside a chain of its case": (
        [
            ep("a", False, key="first"),
            ep("a", True, previous="first"),
            ep("a", False, repeat=1),
        ],
        FINAL,
        "reject",
        {"pass_rate", "superseded_attempt"},
    ),
    "two recoveries of one attempt are both last": (
        [
            ep("a", None, key="first", ending="error"),
            ep("a", True, previous="first"),
            ep("a", False, previous="first"),
        ],
        FINAL,
        "reject",
        {"pass_rate", "superseded_attempt"},
    ),
    "a repeat is not a recovery": (
        [ep("a", False), ep("a", True, repeat=1)],
        FINAL,
        "reject",
        {"pass_rate"},
    ),
    "an episode of another case cannot hide a failure": (
        [ep("a", False, key="first"), ep("b", True, previous="first")],
        FINAL,
        "reject",
        {"pass_rate", "recovery_of_other_case"},
    ),
    "nor can one of another definition of the case": (
        [
            ep("a", None, key="first"),
            ep("a", True, previous="first", case_input="Count to two"),
        ],
        FINAL,
        "indeterminate",
        {"recovery_of_other_case", "case_redefined", "too_few_measured", "coverage"},
    ),
    "a recovery judged without the attempt it recovers": (
        [ep("a", True, previous="elsewhere")],
        policy(),
        "accept",
        {"previous_not_in_report"},
    ),
    "a broken chain: what is not known to be recovered is judged": (
        [ep("a", False, key="first"), ep("a", True, previous="elsewhere")],
        FINAL,
        "reject",
        {"pass_rate", "previous_not_in_report"},
    ),
    "critical failures of superseded attempts are shown, not judged": (
        [ep("a", False, key="first"), ep("a", True, previous="first")],
        policy(check={"critical": True}, trial_scope="final_attempt"),
        "accept",
        {"superseded_attempt"},
    ),
    "errors of superseded attempts are shown, not judged": (
        [ep("a", ERROR, key="first"), ep("a", True, previous="first")],
        FINAL,
        "accept",
        {"superseded_attempt"},
    ),
}


@pytest.fixture
def decide(make_episode: Callable[..., Any], fixed_check: Callable[..., Any]) -> Any:
    """Judge the episodes of a row and apply its policy."""

    def decide(episodes: list[Ep], policy: AcceptancePolicy) -> Decision:
        return policy.evaluate(made(episodes))

    def made(episodes: list[Ep]) -> Report:
        recovered = {row.previous for row in episodes}
        keyed = {
            row.key: make_episode(row.case, **row.made_with)
            for row in sorted(episodes, key=lambda row: row.previous != "")
            if row.key and not row.previous
        }
        for row in episodes:
            if row.key and row.previous:
                keyed[row.key] = make_episode(
                    row.case, previous=keyed[row.previous], **row.made_with
                )
        assert recovered <= {*keyed, "", "elsewhere"}
        judged = [
            (
                keyed[row.key]
                if row.key
                else make_episode(
                    row.case,
                    previous=keyed.get(row.previous, row.previous or None),
                    **row.made_with,
                ),
                row.outcome if isinstance(row.outcome, dict) else {"posted": row.outcome},
            )
            for row in episodes
        ]
        names = list(judged[0][1]) if judged else ["posted"]
        checks = [
            fixed_check({episode.episode_id: outcome[name] for episode, outcome in judged}, name)
            for name in names
        ]
        return evaluate([episode for episode, _ in judged], checks)

    return decide


@pytest.mark.parametrize("row", MATRIX)
def test_decision_matrix(decide: Any, row: str) -> None:
    episodes, policy, decision, codes = MATRIX[row]
    result = decide(episodes, policy)
    assert (result.decision, {finding.code for finding in result.findings}) == (decision, codes)


@pytest.mark.parametrize("row", MATRIX)
def test_the_order_of_the_episodes_decides_nothing(decide: Any, row: str) -> None:
    episodes, policy, decision, codes = MATRIX[row]
    result = decide(episodes[::-1], policy)
    assert (result.decision, {finding.code for finding in result.findings}) == (decision, codes)


def pass_rate(decision: Decision, scope: str = "all") -> Measurement:
    (found,) = [
        figure
        for figure in decision.measurements
        if figure.metric == "pass_rate" and figure.scope == scope
    ]
    return found


def test_a_rate_stands_beside_its_denominator_and_bounds(decide: Any) -> None:
    decision = decide(CASE_8, policy(check={"min_pass_rate": 0.85}, max_error_rate=0.2))
    assert pass_rate(decision) == Measurement(
        metric="pass_rate",
        scope="all",
        check="posted",
        value=6 / 7,
        cases=10,
        measured=7,
        passed=6,
        failed=1,
        unknown=1,
        errors=2,
        coverage=0.7,
        lower=0.6,
        upper=0.9,
    )
    assert decision.measurements[0] == Measurement(
        metric="error_rate", scope="all", value=0.2, cases=10, errors=2
    )


def test_the_message_of_a_low_rate_has_the_ten(decide: Any) -> None:
    decision = decide(CASE_8, policy(check={"min_pass_rate": 0.9}, max_error_rate=0.2))
    assert decision.findings[0].message == (
        "posted: 6 of 7 measured cases passed, of 10 in all; a pass rate of at least 0.9 is "
        "required; failed: case-6 (if the 3 not measured had passed, it would be 9 of 10)"
    )


def test_the_messages_of_what_is_missing_have_the_first_reasons(decide: Any) -> None:
    decision = decide(cases(None, ERROR, None, True), policy(check={"min_cases": 2}))
    messages = {finding.code: finding.message for finding in decision.findings}
    assert messages["too_few_measured"].startswith(
        "posted: cases measured: 1; at least 2 required (unknown: It is None; error: ValueError: "
        "the check broke"
    )
    assert messages["coverage"].startswith(
        "posted: measured in 1 of 4 cases (2 unknown, 1 errors); a coverage of at least 1.0 is "
        "required (unknown: It is None; error: ValueError: the check broke"
    )


def test_a_long_reason_is_cut_in_a_message(decide: Any) -> None:
    long = ValueError("x" * 500)
    decision = decide(cases(long), policy(max_error_rate=1.0))
    message = next(f.message for f in decision.findings if f.code == "too_few_measured")
    assert message == (
        f"posted: cases measured: 0; at least 1 required (error: ValueError: {'x' * 107}…)"
    )


def test_the_message_names_some_of_the_cases_that_failed(decide: Any) -> None:
    message = decide(cases(*[False] * 5), CRITICAL).findings[0].message
    assert message == (
        "posted: critical, and it failed in 5 of 5 cases (case-0, case-1, case-2 and 2 more)"
    )


def test_nothing_measured_has_no_rate_and_no_division_by_zero(decide: Any) -> None:
    assert pass_rate(decide(cases(None), policy())).value is None
    empty = pass_rate(decide([], policy()))
    assert (empty.value, empty.coverage, empty.lower, empty.upper) == (None, None, None, None)


def test_a_case_with_repeats_counts_once_in_a_rate(decide: Any) -> None:
    episodes = [ep("a", True, repeat=i) for i in range(4)] + [ep("b", False), ep("c", True)]
    rate = pass_rate(decide(episodes, policy(check={"min_pass_rate": 0.5})))
    assert (rate.passed, rate.failed, rate.cases, rate.value) == (2, 1, 3, 2 / 3)


def test_a_failed_case_with_an_unmeasured_repeat_is_failed_and_not_measured(decide: Any) -> None:
    episodes = [ep("a", False), ep("a", None, repeat=1)]
    rate = pass_rate(decide(episodes, policy(check={"min_coverage": 0.0})))
    assert (rate.failed, rate.unknown, rate.measured, rate.upper) == (1, 0, 0, 0.0)


def test_a_slice_is_measured_on_its_own(decide: Any) -> None:
    episodes = [ep("a", False, tags=("eu",)), ep("b", True, tags=("eu",)), *cases(True, True)]
    decision = decide(episodes, policy(SliceRequirement("eu"), check={"min_pass_rate": 0.7}))
    assert pass_rate(decision).value == 0.75
    assert pass_rate(decision, "tag:eu").value == 0.5
    assert [(found.code, found.scope) for found in decision.findings] == [("pass_rate", "tag:eu")]


def test_findings_lead_to_their_episodes(decide: Any) -> None:
    decision = decide(cases(True, False, None), CRITICAL)
    by_code = {found.code: found for found in decision.findings}
    assert len(by_code["critical_failure"].episode_ids) == 1
    assert by_code["coverage"].episode_ids != by_code["critical_failure"].episode_ids


def test_a_superseded_attempt_stays_visible(decide: Any) -> None:
    episodes = [
        ep("invoice-17", False, key="first", ending="error"),
        ep("invoice-17", True, previous="first"),
    ]
    decision = decide(episodes, FINAL)
    (found,) = decision.findings
    assert (found.kind, found.code, len(found.episode_ids)) == ("note", "superseded_attempt", 1)
    assert found.message == (
        "invoice-17: an attempt that ended as error was recovered from and is not judged "
        "(posted failed; step at step 1: ConnectionError: the counter was switched off; "
        "ending: error, where the case expects terminated)"
    )
    assert ("superseded_attempts", 1) in [(m.metric, m.value) for m in decision.measurements]


def test_quality_comes_before_evidence_and_notes(decide: Any) -> None:
    episodes = [
        ep("a", None, key="first"),
        ep("a", False, previous="first"),
        ep("b", None),
    ]
    assert [found.kind for found in decide(episodes, FINAL).findings] == [
        "quality",
        "evidence",
        "note",
    ]


def test_a_coverage_issue_of_many_episodes_is_one_finding(decide: Any) -> None:
    decision = decide([*cases(True, True, ending="policy_stop"), ep("z", True)], policy())
    (found,) = decision.findings
    assert found.message == (
        "ending: policy_stop, where the case expects terminated "
        "(in 2 of 3 episodes: case-0, case-1)"
    )
    assert len(found.episode_ids) == 2


def test_the_same_report_and_policy_come_to_the_same(make_episode: Any, report_of: Any) -> None:
    report = report_of((make_episode(), False))
    assert CRITICAL.evaluate(report) == CRITICAL.evaluate(report)
    assert CRITICAL.evaluate(report) != policy().evaluate(report)
