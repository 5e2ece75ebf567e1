"""`no_forbidden_changes`: what the check answers, and what names its version."""

from __future__ import annotations

import pytest

from envbench.changes import ABSENT, AllowOnly, Forbid, Only
from envbench.changes.rules import ActionIs
from envbench.checks import evaluate_episode, no_forbidden_changes
from tests.changes.conftest import UNSEEN, make_episode


def vendors(iban):
    return {"vendors": [{"vendor_id": "v-1", "iban": iban}]}


def judge(episode, *rules, **given):
    (result,) = evaluate_episode(episode, [no_forbidden_changes(*rules, **given)]).results
    return result


FORBID = Forbid("/vendors/**")


def test_it_fails_for_a_change_that_was_put_back():
    result = judge(make_episode(vendors("DE1"), vendors("XX"), vendors("DE1")), FORBID)
    assert (result.check, result.passed, result.error) == ("no_forbidden_changes", False, None)
    path = '/vendors/vendor_id="v-1"/iban'
    assert result.reason == (
        f'step 1: {path}: "DE1" → "XX", back at step 2 (Forbid("/vendors/**"))'
    )
    assert result.evidence["findings"] == [
        {
            "rule": 'Forbid("/vendors/**")',
            "path": path,
            "kind": "restored",
            "step": 1,
            "action": 1,
            "restored_at": 2,
            "before": "DE1",
            "during": ["XX"],
            "after": "DE1",
            "resolution": "step",
        }
    ]


def test_evidence_holds_values_that_are_not_there_and_large_ones():
    result = judge(make_episode(vendors("DE1"), {"vendors": []}), FORBID)
    (finding,) = result.evidence["findings"]
    assert (finding["during"], finding["after"]) == ([ABSENT], ABSENT)


@pytest.mark.parametrize(
    ("states", "rules", "passed", "reason"),
    [
        ([vendors("DE1")] * 2, [FORBID], True, "changes undone inside one step are unseen"),
        ([vendors("DE1"), UNSEEN], [FORBID], None, "but states 1, 2 were not"),
        ([vendors("DE1")] * 2, [Forbid("/vendor")], None, "no such path"),
        ([vendors("DE1"), vendors("XX")], [AllowOnly("/vendors/*/iban")], True, "no forbidden"),
    ],
)
def test_it_says_what_it_knows(states, rules, passed, reason):
    result = judge(make_episode(*states), *rules)
    assert result.passed is passed
    assert reason in result.reason


def test_a_condition_that_raises_is_an_evaluator_error():
    def fails(step):
        raise LookupError("no such field")

    result = judge(make_episode(vendors("DE1"), vendors("XX")), Only("/vendors/**", when=fails))
    assert result.passed is None
    assert "no such field" in result.error


def test_needing_an_audit():
    states = [vendors("DE1")] * 2
    assert judge(make_episode(*states), FORBID, needs_audit=True).passed is None
    assert judge(make_episode(*states, audit={}), FORBID, needs_audit=True).passed is True
    unread = make_episode(*states, audit={1: OSError("locked")})
    assert judge(unread, FORBID, needs_audit=True).passed is None
    broken = make_episode(vendors("DE1"), vendors("XX"))
    assert judge(broken, FORBID, needs_audit=True).passed is False


def test_the_version_is_a_digest_of_the_rules_unless_it_is_given():
    def version(*rules, **given):
        return no_forbidden_changes(*rules, **given).version

    assert version(FORBID) == version(Forbid("/vendors/**"))
    others = [
        version(Forbid("/vendors/*")),
        version(Forbid("/vendors/**", ops=("edit",))),
        version(Forbid("/vendors/**", allow_missing=True)),
        version(FORBID, AllowOnly("/a")),
        version(FORBID, needs_audit=True),
        version(Only("/vendors/**", when=ActionIs(1))),
        version(Only("/vendors/**", when=ActionIs(2))),
    ]
    assert len({version(FORBID), *others}) == 8
    assert version(FORBID, version="7") == "7"
    assert no_forbidden_changes(FORBID, name="vendors").name == "vendors"


def test_arguments_are_looked_at():
    with pytest.raises(ValueError, match="at least one rule"):
        no_forbidden_changes()
    with pytest.raises(TypeError, match="a rule must be Forbid"):
        no_forbidden_changes("/vendors")
