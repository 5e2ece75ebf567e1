from __future__ import annotations

import json
from typing import Any

import pytest

from envbench.checks import (
    AcceptancePolicy,
    CheckRequirement,
    Decision,
    NotAccepted,
    SliceRequirement,
)

POLICY = AcceptancePolicy((CheckRequirement("posted_once", critical=True),))


@pytest.fixture
def decide(make_episode: Any, report_of: Any) -> Any:
    """Decide about one episode in which the check comes to something."""
    return lambda outcome: POLICY.evaluate(report_of((make_episode(), outcome)))


@pytest.mark.parametrize(
    ("outcome", "decision", "exit_code"),
    [(True, "accept", 0), (False, "reject", 1), (None, "indeterminate", 2)],
)
def test_exit_codes(decide: Any, outcome: Any, decision: str, exit_code: int) -> None:
    result = decide(outcome)
    assert (result.decision, result.exit_code) == (decision, exit_code)


def test_assert_accepted(decide: Any) -> None:
    decide(True).assert_accepted()


@pytest.mark.parametrize("outcome", [False, None])
def test_assert_accepted_raises_with_the_decision(decide: Any, outcome: Any) -> None:
    decision = decide(outcome)
    with pytest.raises(NotAccepted) as caught:
        decision.assert_accepted()
    assert isinstance(caught.value, AssertionError)
    assert caught.value.decision is decision
    assert str(caught.value) == str(decision)


@pytest.mark.parametrize("outcome", [True, False, None])
def test_a_rejection_cannot_pass_for_a_yes(decide: Any, outcome: Any) -> None:
    with pytest.raises(TypeError, match="three values"):
        bool(decide(outcome))


def test_text_of_a_rejection(decide: Any) -> None:
    decision = decide(False)
    assert str(decision) == repr(decision)
    assert str(decision).splitlines() == [
        f"REJECT (report {decision.report_id})",
        "  quality   posted_once: critical, and it failed in 1 of 1 cases (case-1)",
        "  measured  evaluator errors: 0 of 1 cases",
        "  measured  posted_once: 0 of 1 cases passed, 1 failed",
    ]


def test_text_of_what_is_missing_has_the_bounds(decide: Any) -> None:
    assert str(decide(None)).splitlines()[-1] == (
        "  measured  posted_once: 0 of 1 cases passed, 0 failed, 1 unknown, 0 errors: "
        "between 0/1 and 1/1"
    )


def test_to_dict_is_complete_json(decide: Any) -> None:
    decision: Decision = decide(False)
    saved = json.loads(json.dumps(decision.to_dict()))
    assert saved["schema"] == "envbench.decision/v1"
    assert (saved["decision"], saved["exit_code"]) == ("reject", 1)
    assert (saved["report_id"], saved["report_digest"]) == (
        decision.report_id,
        decision.report_digest,
    )
    assert AcceptancePolicy.from_dict(saved["policy"]) == POLICY
    assert [finding["code"] for finding in saved["findings"]] == ["critical_failure"]
    assert saved["measurements"][1]["failed"] == 1


def test_text_from_elsewhere_cannot_make_a_line(make_episode: Any, report_of: Any) -> None:
    decision = POLICY.evaluate(report_of((make_episode("a\nACCEPT"), False)))
    assert [line for line in str(decision).split("\n") if line.startswith("ACCEPT")] == []
    assert "a\\nACCEPT" in str(decision)


def test_what_is_said_of_several_checks_is_one_line(make_episode: Any, report_of: Any) -> None:
    names = ("posted", "kept", "kept: late")
    report = report_of(
        *((make_episode(f"c{i}", tags=("hard",)), True) for i in range(3)), checks=names
    )
    policy = AcceptancePolicy(
        tuple(CheckRequirement(name) for name in names),
        (SliceRequirement("hard", min_cases=5),),
    )
    decision = policy.evaluate(report)
    assert [line for line in str(decision).splitlines() if line.startswith("  evidence")] == [
        "  evidence  tag:hard  cases with this tag: 3; at least 5 required",
        "  evidence  tag:hard  posted, kept, kept: late: cases measured: 3; at least 5 required",
    ]
    assert [finding.code for finding in decision.findings] == [
        "too_few_slice_cases",
        *["too_few_measured"] * 3,
    ]


def test_what_differs_between_checks_stays_apart(make_episode: Any, report_of: Any) -> None:
    report = report_of((make_episode(), {"posted": False, "kept": None}), checks=("posted", "kept"))
    policy = AcceptancePolicy((CheckRequirement("posted"), CheckRequirement("kept")))
    lines = str(policy.evaluate(report)).splitlines()
    assert [line.split(";")[0] for line in lines[1:4]] == [
        "  quality   posted: 0 of 1 measured cases passed, of 1 in all",
        "  evidence  kept: cases measured: 0",
        "  evidence  kept: measured in 0 of 1 cases (1 unknown, 0 errors)",
    ]
