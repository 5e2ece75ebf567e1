"""What holds of every report and policy: ways in which an acceptance could come out wrong."""

from __future__ import annotations

import dataclasses
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from envbench.checks import (
    AcceptancePolicy,
    CheckIdentity,
    CheckRequirement,
    CheckResult,
    JudgedEpisode,
    Lock,
    Report,
    SliceRequirement,
)

CHECKS = ("posted", "kept")
OUTCOMES = (True, False, None, "error")


@dataclasses.dataclass(frozen=True)
class Row:
    """An episode and what the two checks come to in it."""

    case: int
    outcomes: tuple[Any, Any]
    tagged: bool
    source: int | None
    issue: bool
    previous: int | None


def report_of(rows: list[Row], checks: tuple[str, ...] = CHECKS) -> Report:
    """A report of made-up episodes; `previous` is an index into them."""
    episodes = tuple(
        JudgedEpisode(
            episode_id=f"episode-{i}",
            case_id=f"case-{row.case}",
            case_digest=f"digest-{row.case}",
            source_id=None if row.source is None else f"source-{row.source}",
            tags=("eu",) if row.tagged else (),
            seed=1,
            repeat=i,
            previous=None if row.previous is None else f"episode-{row.previous}",
            ending="terminated",
            coverage_issues=("state: not seen at the end",) if row.issue else (),
            digest="00",
        )
        for i, row in enumerate(rows)
    )
    results = tuple(
        CheckResult(
            case_id=f"case-{row.case}",
            episode_id=f"episode-{i}",
            check=check,
            version="v1",
            passed=None if row.outcomes[j] == "error" else row.outcomes[j],
            reason="",
            evidence_json="{}",
            error="broken" if row.outcomes[j] == "error" else None,
        )
        for i, row in enumerate(rows)
        for j, check in enumerate(checks)
    )
    identities = tuple(CheckIdentity(check, "v1") for check in checks)
    trials = [(e.case_id, e.case_digest, e.seed, e.repeat, "{}") for e in episodes]
    return Report(
        "report",
        "made up",
        "2026-11-30T12:00:00.000000+00:00",
        identities,
        episodes,
        results,
        Lock.of(identities, trials),
    )


def rows_of(outcomes: Any) -> st.SearchStrategy[list[Row]]:
    return st.lists(
        st.builds(
            Row,
            case=st.integers(0, 3),
            outcomes=st.tuples(outcomes, outcomes),
            tagged=st.booleans(),
            source=st.none() | st.integers(0, 2),
            issue=st.booleans() if outcomes is ANY_OUTCOME else st.just(False),
            previous=st.none() | st.integers(0, 5),
        ),
        max_size=6,
    )


ANY_OUTCOME = st.sampled_from(OUTCOMES)
ROWS = rows_of(ANY_OUTCOME)
# Mostly passing, so that tolerant policies accept often enough to be tested.
GOOD_ROWS = rows_of(st.sampled_from((True, True, True, True, *OUTCOMES)))
RATES = st.sampled_from((0.0, 0.25, 0.5, 2 / 3, 0.9, 1.0))
COUNTS = st.integers(1, 3)
POLICIES = st.builds(
    AcceptancePolicy,
    checks=st.lists(
        st.builds(
            CheckRequirement,
            name=st.sampled_from(CHECKS),
            min_pass_rate=RATES,
            min_cases=COUNTS,
            min_coverage=RATES,
            critical=st.booleans(),
        ),
        min_size=1,
        unique_by=lambda check: check.name,
    ),
    slices=st.just(())
    | st.builds(SliceRequirement, tag=st.just("eu"), min_pass_rate=RATES, min_coverage=RATES).map(
        lambda part: (part,)
    ),
    min_cases=COUNTS,
    min_source_groups=st.integers(0, 2),
    max_error_rate=RATES,
    trial_scope=st.sampled_from(("all_attempts", "final_attempt")),
)
STRICT = AcceptancePolicy(tuple(CheckRequirement(check) for check in CHECKS))


@given(ROWS | GOOD_ROWS)
def test_the_strict_policy_accepts_exactly_what_passed_everywhere(rows: list[Row]) -> None:
    flawless = bool(rows) and all(row.outcomes == (True, True) and not row.issue for row in rows)
    assert (STRICT.evaluate(report_of(rows)).decision == "accept") == flawless


@given(rows=GOOD_ROWS, policy=POLICIES, data=st.data())
def test_a_pass_taken_away_never_makes_an_acceptance(
    rows: list[Row], policy: AcceptancePolicy, data: st.DataObject
) -> None:
    passes = [(i, j) for i, row in enumerate(rows) for j in (0, 1) if row.outcomes[j] is True]
    if not passes:
        return
    i, j = data.draw(st.sampled_from(passes))
    outcomes = list(rows[i].outcomes)
    outcomes[j] = data.draw(st.sampled_from((False, None, "error")))
    worse = [*rows]
    worse[i] = dataclasses.replace(rows[i], outcomes=tuple(outcomes))
    if policy.evaluate(report_of(worse)).decision == "accept":
        assert policy.evaluate(report_of(rows)).decision == "accept"


@given(rows=GOOD_ROWS, policy=POLICIES)
def test_an_acceptance_meets_every_requirement_by_plain_arithmetic(
    rows: list[Row], policy: AcceptancePolicy
) -> None:
    decision = policy.evaluate(report_of(rows))
    if decision.decision != "accept":
        return
    superseded = {
        row.previous
        for row in rows
        if policy.trial_scope == "final_attempt"
        and row.previous is not None
        and row.previous < len(rows)
        and rows[row.previous].case == row.case
    }
    judged = [row for i, row in enumerate(rows) if i not in superseded]
    assert not any(row.issue for row in judged)
    scopes = [(judged, 0.0, 0.0)]
    scopes += [
        (
            [r for r in judged if any(o.tagged and o.case == r.case for o in judged)],
            part.min_pass_rate,
            part.min_coverage,
        )
        for part in policy.slices
    ]
    assert len({row.case for row in judged}) >= policy.min_cases
    for check in policy.checks:
        j = CHECKS.index(check.name)
        for members, least_rate, least_coverage in scopes:
            cases = {row.case for row in members}
            seen = {case: [r.outcomes[j] for r in members if r.case == case] for case in cases}
            passed = sum(all(o is True for o in outcomes) for outcomes in seen.values())
            failed = sum(False in outcomes for outcomes in seen.values())
            measured = sum(all(o in (True, False) for o in outcomes) for outcomes in seen.values())
            assert passed + failed > 0
            assert passed / (passed + failed) >= max(check.min_pass_rate, least_rate)
            assert measured / len(cases) >= max(check.min_coverage, least_coverage)
            assert not (check.critical and failed)


@given(rows=GOOD_ROWS, policy=POLICIES)
def test_a_coverage_issue_never_goes_with_an_acceptance(
    rows: list[Row], policy: AcceptancePolicy
) -> None:
    touched = [dataclasses.replace(row, issue=True, previous=None) for row in rows]
    assert policy.evaluate(report_of(touched)).decision != "accept"


@given(rows=ROWS, policy=POLICIES)
def test_a_critical_failure_that_is_judged_always_rejects(
    rows: list[Row], policy: AcceptancePolicy
) -> None:
    rows = [dataclasses.replace(row, previous=None) for row in rows]
    fails = any(
        check.critical and any(row.outcomes[CHECKS.index(check.name)] is False for row in rows)
        for check in policy.checks
    )
    if fails:
        assert policy.evaluate(report_of(rows)).decision == "reject"


@given(rows=GOOD_ROWS, policy=POLICIES)
def test_a_required_check_left_out_is_never_accepted(
    rows: list[Row], policy: AcceptancePolicy
) -> None:
    if any(check.name == "kept" for check in policy.checks):
        assert policy.evaluate(report_of(rows, ("posted",))).decision != "accept"


@given(rows=ROWS, policy=POLICIES)
def test_a_saved_policy_comes_to_the_same(rows: list[Row], policy: AcceptancePolicy) -> None:
    report = report_of(rows)
    assert AcceptancePolicy.from_dict(policy.to_dict()).evaluate(report) == policy.evaluate(report)
