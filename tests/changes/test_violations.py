"""Findings: their fields, what is part of them, and when the answer is not known."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envbench.changes import ABSENT, AllowOnly, AppendOnly, Forbid, Only, find_violations
from tests.changes import reference
from tests.changes.conftest import make_episode
from tests.changes.states import dense_episode

VENDOR = {"vendor_id": "v-1", "iban": "DE1"}


def vendors(*ibans, **more):
    rows = [{"vendor_id": f"v-{i}", "iban": iban} for i, iban in enumerate(ibans, 1)]
    return {"vendors": rows, **more}


def update(before, after, *, key="v-1", table="vendors"):
    op = "insert" if before is None else "delete" if after is None else "update"
    return {"table": table, "op": op, "key": key, "before": before, "after": after}


def iban(value):
    return {"vendor_id": "v-1", "iban": value}


def test_a_finding_has_every_field(episode):
    states = [vendors(i) for i in ("DE1", "DE1", "XX2", "XX3", "XX2", "DE1", "DE1")]
    found = find_violations(episode(*states), [Forbid("/vendors/**")])
    first, *others = found.findings
    assert (first.rule, first.path, first.kind) == (
        'Forbid("/vendors/**")',
        '/vendors/vendor_id="v-1"/iban',
        "restored",
    )
    assert (first.step, first.action, first.restored_at) == (2, 2, 5)
    assert (first.before, first.during, first.after) == ("DE1", ("XX2", "XX3"), "DE1")
    assert first.resolution == "step"
    # XX2 came back too: that put back is part of the finding it ends
    assert [(f.step, f.kind, f.restored_at, f.during) for f in others] == [
        (3, "restored", 4, ("XX3",))
    ]
    assert found.passed is False
    assert 'step 2: /vendors/vendor_id="v-1"/iban: "DE1"' in found.reason


def test_a_change_that_was_never_undone_is_net(episode):
    states = [vendors("DE1"), vendors("XX2"), vendors("XX3")]
    found = find_violations(episode(*states), [Forbid("/vendors/**")]).findings
    assert [(f.kind, f.restored_at, f.before, f.during, f.after) for f in found] == [
        ("net", None, "DE1", ("XX2", "XX3"), "XX3"),
        ("net", None, "XX2", ("XX3",), "XX3"),
    ]


def test_of_a_forbidden_counter_the_values_that_came_later_are_listed_up_to_a_number():
    counted = [{"turn": n} for n in range(301)]
    found = find_violations(
        make_episode(*counted, actions=[1] * 300, max_steps=300), [Forbid("/turn")]
    )
    assert len(found.findings) == 300
    first, last = found.findings[0], found.findings[-1]
    assert first.during == tuple(range(1, 101))
    assert first.after == 300
    assert found.findings[200].during == tuple(range(201, 301))
    assert last.during == (300,)
    assert found.notes == ("/turn: more than 100 values came later, of which the first are listed",)
    assert str(first) == 'step 1: /turn: 0 → 1 → 2 → 3 → 4 → 5 → … (95 more) (Forbid("/turn"))'
    # a value that is null is one too
    gone = [*counted[:101], {"turn": None}]
    found = find_violations(
        make_episode(*gone, actions=[1] * 101, max_steps=300), [Forbid("/turn")]
    )
    assert len(found.notes) == 1


def test_all_values_before_a_restoration_are_listed():
    counted = [{"turn": n % 301} for n in range(302)]
    found = find_violations(
        make_episode(*counted, actions=[1] * 301, max_steps=301), [Forbid("/turn")]
    )
    assert found.findings[0].kind == "restored"
    assert found.findings[0].during == tuple(range(1, 301))


def test_a_row_deleted_and_put_back_is_one_finding(episode):
    states = [vendors("DE1", "DE2"), vendors("DE1"), vendors("DE1", "DE2")]
    (finding,) = find_violations(episode(*states), [Forbid("/vendors/*")]).findings
    row = {"vendor_id": "v-2", "iban": "DE2"}
    assert (finding.path, finding.kind, finding.step, finding.restored_at) == (
        '/vendors/vendor_id="v-2"',
        "restored",
        1,
        2,
    )
    assert (finding.before, finding.during, finding.after) == (row, (ABSENT,), row)


def test_a_row_put_back_by_its_cells_is_one_finding_and_a_row_put_back_otherwise_is_two(episode):
    back = [vendors("DE1"), {"vendors": []}, vendors("XX"), vendors("DE1")]
    found = find_violations(episode(*back), [Forbid("/vendors/**")]).findings
    # gone at 1, back in another form at 2, as it was at 3
    assert [(f.step, f.restored_at) for f in found] == [(1, 3), (2, None)]
    assert found[0].during == (ABSENT, {"vendor_id": "v-1", "iban": "XX"})
    assert found[1].before is ABSENT


def test_put_back_under_a_new_id_is_not_put_back(episode):
    moved = {"vendors": [{"vendor_id": "v-9", "iban": "DE1"}]}
    found = find_violations(episode(vendors("DE1"), moved), [Forbid("/vendors/**")]).findings
    assert [(f.path, f.kind) for f in found] == [
        ('/vendors/vendor_id="v-1"', "net"),
        ('/vendors/vendor_id="v-9"', "net"),
    ]


def test_a_node_that_comes_back_with_something_else_changed_is_its_own_finding(episode):
    states = [{"x": {"a": 1, "b": 1}}, {"x": {"a": 2, "b": 1}}, {"x": 0}, {"x": {"a": 1, "b": 9}}]
    found = find_violations(episode(*states), [Forbid("/x/**")]).findings
    assert [(f.step, f.path, f.restored_at) for f in found] == [
        (1, "/x/a", 3),
        (2, "/x", None),
        (3, "/x", None),
    ]
    assert found[0].during == (2, ABSENT)


def test_a_change_seen_only_at_the_end_has_no_action(episode):
    found = find_violations(
        episode(vendors("DE1"), vendors("DE1"), final=vendors("XX")), [Forbid("/vendors/**")]
    ).findings
    assert [(f.step, f.action, f.after) for f in found] == [(2, None, "XX")]


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_with_a_state_missing_the_answer_is_none_unless_a_violation_was_seen(
    episode, unseen, missing
):
    states = [vendors("DE1"), vendors("DE1"), vendors("DE1")]
    states[missing] = unseen
    found = find_violations(episode(*states, final=vendors("DE1")), [Forbid("/vendors/**")])
    assert (found.passed, found.missing_states) == (None, (missing,))
    seen = [*states[:missing], unseen, *states[missing + 1 :], vendors("XX")]
    assert find_violations(episode(*seen), [Forbid("/vendors/**")]).passed is False


def test_a_last_state_that_was_not_seen_is_missing(episode, unseen):
    found = find_violations(
        episode(vendors("DE1"), vendors("DE1"), final=unseen), [Forbid("/vendors/**")]
    )
    assert (found.passed, found.missing_states) == (None, (2,))


def test_without_an_observer_nothing_is_known(episode):
    # such an episode is what the wrappers record
    found = find_violations(
        episode(vendors("DE1"), vendors("DE1"), observe=lambda: 1 / 0), [Forbid("/vendors/**")]
    )
    assert (found.passed, found.missing_states) == (None, (0, 1, 2))


def test_a_restoration_across_a_gap_is_found(episode, unseen):
    states = [vendors("DE1"), vendors("XX"), unseen, vendors("DE1")]
    found = find_violations(episode(*states), [Forbid("/vendors/**")])
    assert [(f.step, f.restored_at) for f in found.findings] == [(1, 3)]
    assert found.passed is False


def test_a_rule_whose_path_never_existed_answers_none(episode):
    made = episode(vendors("DE1", log=[]), vendors("DE1", log=[{"id": 1}]))
    for pattern, matched in [
        ("/vendors/**", True),
        ("/vendor", False),
        ("/vendor/**", False),
        ("/vendors/*/typo", True),  # only what is before the first wildcard must exist
        ('/vendors/vendor_id="v-1"/iban', True),
        ('/vendors/vendor_id="v-2"/iban', False),
        ('/vendors/vendor_id="v-1"/typo', False),
        ("/log/id=1", True),  # it came later
        ("/**", True),
    ]:
        for rule in (Forbid(pattern, ops=("remove",)), AppendOnly(pattern, ops=("remove",))):
            found = find_violations(made, [rule])
            assert found.unmatched_rules == (() if matched else (str(rule),)), pattern
            assert found.passed is (True if matched else None)
    assert find_violations(made, [Forbid("/vendor", allow_missing=True)]).passed is True


def test_a_value_that_could_not_be_kept_is_not_known(episode):
    states = [{"a": 1, "b": {"c": object()}}, {"a": 1, "b": {"c": object()}}]
    made = episode(*states)
    for pattern in ("/b", "/b/**", "/b/c", "/**"):
        found = find_violations(made, [Forbid(pattern)])
        assert (found.passed, found.missing_states) == (None, (0,)), pattern
    assert find_violations(made, [Forbid("/a")]).passed is True
    # from a value to one that is not known
    lost = find_violations(episode({"a": 1}, {"a": object()}), [Forbid("/a")])
    assert lost.passed is None
    assert "could not be kept" in lost.undecided[0]
    table = [{"t": [{"id": 1, "c": object()}]}]
    assert find_violations(episode(*table, *table), [Forbid("/t/id=1/c")]).passed is None


def test_what_is_to_be_known_of_keys_is_noted(episode):
    twice = {"t": [{"id": 1, "n": 1}, {"id": 1, "n": 2}]}
    found = find_violations(episode({"t": [{"id": 1, "n": 1}]}, twice), [Forbid("/u/*")])
    assert len(found.notes) == 1
    assert found.notes[0].startswith("/t: at step 1 the key 'id' is 1 in two rows")


# -- audit -----------------------------------------------------------------------------------------


def test_a_change_undone_inside_a_step_is_seen_by_the_audit_alone(episode):
    made = episode(
        vendors("DE1"),
        vendors("DE1"),
        audit={1: [update(iban("DE1"), iban("XX")), update(iban("XX"), iban("DE1"))]},
    )
    (finding,) = find_violations(made, [Forbid("/vendors/**")]).findings
    assert (finding.kind, finding.step, finding.action, finding.restored_at) == (
        "inside_step",
        1,
        1,
        1,
    )
    assert finding.path == '/vendors/vendor_id="v-1"/iban'
    assert (finding.before, finding.during, finding.after) == ("DE1", ("XX",), "DE1")
    assert finding.resolution == "audit"
    without = find_violations(episode(vendors("DE1"), vendors("DE1")), [Forbid("/vendors/**")])
    assert (without.passed, without.resolution) == (True, "step")
    assert "undone inside one step are unseen" in without.reason


def test_a_change_that_both_show_is_reported_once(episode):
    made = episode(vendors("DE1"), vendors("XX"), audit={1: [update(iban("DE1"), iban("XX"))]})
    found = find_violations(made, [Forbid("/vendors/**")])
    assert [(f.kind, f.resolution) for f in found.findings] == [("net", "step")]
    assert found.resolution == "audit"


def test_what_the_states_show_otherwise_does_not_hide_what_the_audit_shows(episode):
    # edited, then deleted: the states show a removal, which the rule allows
    made = episode(
        vendors("DE1"),
        {"vendors": []},
        audit={1: [update(iban("DE1"), iban("XX")), update(iban("XX"), None)]},
    )
    (finding,) = find_violations(made, [Forbid("/vendors/*/iban", ops=("edit",))]).findings
    assert (finding.kind, finding.before, finding.during) == ("net", "DE1", ("XX", ABSENT))
    # added, then edited within the step: the log shows one row added
    row = {"id": 1, "text": "a"}
    made = episode(
        {"log": []},
        {"log": [{**row, "text": "b"}]},
        audit={
            1: [
                update(None, row, key=1, table="log"),
                update(row, {**row, "text": "b"}, key=1, table="log"),
            ]
        },
    )
    (finding,) = find_violations(made, [AppendOnly("/log")]).findings
    assert (finding.path, finding.resolution) == ("/log/id=1/text", "audit")


def test_inserted_and_deleted_inside_a_step(episode):
    made = episode(
        vendors("DE1"),
        vendors("DE1"),
        audit={
            1: [
                update(None, {"vendor_id": "v-2", "iban": "XX"}, key="v-2"),
                update({"vendor_id": "v-2", "iban": "XX"}, None, key="v-2"),
            ]
        },
    )
    (finding,) = find_violations(made, [Forbid("/vendors/**")]).findings
    assert (finding.path, finding.kind) == ('/vendors/vendor_id="v-2"', "inside_step")
    assert (finding.before, finding.after) == (ABSENT, ABSENT)
    assert finding.during == ({"vendor_id": "v-2", "iban": "XX"},)


def test_what_made_the_initial_state_is_no_change_of_it(episode):
    made = episode(vendors("DE1"), vendors("DE1"), audit={0: [update(None, iban("DE1"))]})
    assert find_violations(made, [Forbid("/vendors/**")]).passed is True


def test_tables_that_only_the_audit_sees(episode):
    before, after = {"a": 1, "b": 2, "n": 0}, {"a": 1, "b": 2, "n": 1}
    made = episode(
        vendors("DE1"),
        vendors("DE1"),
        vendors("DE1"),
        audit={
            1: [update(before, after, key={"a": 1, "b": 2}, table="hidden")],
            2: [update(after, {**after, "n": 2}, key={"a": 1, "b": 2}, table="hidden")],
        },
    )
    found = find_violations(made, [Forbid("/hidden/**")])
    path = '/hidden/key={"a":1,"b":2}/n'
    assert [(f.path, f.kind, f.step, f.before, f.during, f.after) for f in found.findings] == [
        (path, "net", 1, 0, (1,), 2),
        (path, "net", 2, 1, (2,), 2),
    ]
    assert find_violations(made, [AllowOnly("/vendors/**")]).passed is False
    for prefix, matched in [("/hidden", True), (path, True), (f"{path}o", False)]:
        unmatched = find_violations(made, [Forbid(prefix, ops=("remove",))]).unmatched_rules
        assert bool(unmatched) is not matched


def test_tables_without_a_key_in_the_audit(episode):
    one, other = {"n": 1}, {"n": 2}
    there = str({"row": one, "count": 1})
    made = episode(
        {"t": [one, other, other]},
        {"t": [one, other, other]},
        audit={
            1: [
                update(one, {"n": 3}, key=None, table="t"),
                update({"n": 3}, one, key=None, table="t"),
            ]
        },
    )
    found = find_violations(made, [Forbid("/t/**")]).findings
    assert sorted((f.kind, str(f.before), str(f.during), str(f.after)) for f in found) == [
        ("inside_step", "ABSENT", "({'row': {'n': 3}, 'count': 1},)", "ABSENT"),
        ("inside_step", there, "(ABSENT,)", there),
    ]
    # seen by the states as well
    net = episode(
        {"t": [one, one, other]},
        {"t": [one, other, other]},
        audit={1: [update(one, other, key=None, table="t")]},
    )
    assert {f.resolution for f in find_violations(net, [Forbid("/t/**")]).findings} == {"step"}


def test_a_changed_key_is_a_row_removed_and_a_row_added(episode):
    moved = {"vendor_id": "v-9", "iban": "DE1"}
    made = episode(
        vendors("DE1"),
        vendors("DE1"),
        audit={1: [update(iban("DE1"), moved), update(moved, iban("DE1"), key="v-9")]},
    )
    found = find_violations(made, [Forbid("/vendors/*", ops=("remove",))]).findings
    assert [(f.path, f.kind) for f in found] == [
        ('/vendors/vendor_id="v-1"', "inside_step"),
        ('/vendors/vendor_id="v-9"', "inside_step"),
    ]


def test_the_audit_decides_what_a_gap_leaves_open(episode, unseen):
    rule = Only("/vendors/**", when=lambda step: step.action == 7)
    states = [vendors("DE1"), unseen, vendors("XX")]
    event = update(iban("DE1"), iban("XX"))
    assert find_violations(episode(*states, actions=[7, 8]), [rule]).passed is None
    late = find_violations(episode(*states, actions=[7, 8], audit={2: [event]}), [rule])
    assert [(f.step, f.resolution) for f in late.findings] == [(2, "audit")]


def test_an_audit_that_could_not_be_read_shows_nothing(episode):
    made = episode(vendors("DE1"), vendors("DE1"), audit={1: OSError("locked")})
    found = find_violations(made, [Forbid("/vendors/**")])
    assert found.resolution == "step"
    assert found.notes == ("the audit could not be read at step 1",)


# -- arguments and values --------------------------------------------------------------------------


def test_arguments_are_looked_at(episode):
    made = episode(vendors("DE1"))
    with pytest.raises(ValueError, match="at least one rule"):
        find_violations(made, [])
    with pytest.raises(TypeError, match="a rule must be Forbid"):
        find_violations(made, ["/vendors"])


def test_findings_hold_tagged_values_and_large_arrays(episode):
    states = [
        {"t": [{"id": 1, "raw": b"a", "x": float("nan"), "big": np.arange(2_000)}]},
        {"t": [{"id": 1, "raw": b"b", "x": float("nan"), "big": np.arange(1, 2_001)}]},
    ]
    found = find_violations(episode(*states), [Forbid("/t/**")]).findings
    assert [f.path for f in found] == ["/t/id=1/big", "/t/id=1/raw"]
    raw = found[1].to_dict()
    assert (raw["before"], raw["during"], raw["after"]) == (b"a", [b"b"], b"b")
    assert found[0].to_dict()["before"] is not None


# -- against the reference -------------------------------------------------------------------------

MATCHING = "/t0_rows /t0_rows/** /t0_rows/* /*/*/a /t0_rows/id=1 /t0_rows/id=1/a /**/a"
MORE = "/t0_rows/*/items /**/n /t1_rows/** /*/keyed/* /t0_rows/inner/**/x /**"
PATTERNS = st.sampled_from(f"{MATCHING} {MORE}".split())


@settings(max_examples=150)
@given(
    st.integers(0, 2**40),
    st.lists(PATTERNS, max_size=2),
    st.lists(PATTERNS, max_size=2),
)
def test_findings_are_those_of_the_reference(seed, forbidden, allowed):
    if not forbidden and not allowed:
        allowed = ["/t0_rows/*"]
    states = [state for _, state in dense_episode(Random(seed))]
    rules = [Forbid(p) for p in forbidden] + [AllowOnly(p) for p in allowed]
    found = find_violations(make_episode(*states), rules)
    assert sorted({(f.step, f.path) for f in found.findings}) == reference.violations(
        list(enumerate(states)), forbidden, allowed
    )
