"""What each rule says of a change: every sentence of the design on rules, by hand."""

from __future__ import annotations

import re
from typing import Any

import pytest

from envbench.changes import AllowOnly, AppendOnly, Forbid, Only, find_violations

ORDERS = [{"order_id": 1, "status": "open", "total": 5}, {"order_id": 2, "status": "open"}]


def rows(*orders: dict[str, Any]) -> dict[str, Any]:
    return {"orders": list(orders)}


def with_status(status: Any) -> dict[str, Any]:
    return rows({**ORDERS[0], "status": status}, ORDERS[1])


@pytest.fixture
def judge(episode):
    """The verdict of rules on an episode of these states."""

    def judged(states, *rules, **given):
        return find_violations(episode(*states, **given), rules).passed

    return judged


PAID = [rows(*ORDERS), with_status("paid")]
REMOVED = [rows(*ORDERS), rows(ORDERS[1])]
ADDED = [rows(*ORDERS), rows(*ORDERS, {"order_id": 3, "status": "new"})]


@pytest.mark.parametrize(
    ("pattern", "passed"),
    [
        ("/orders/order_id=1/status", False),  # at the path
        ("/orders/order_id=1", False),  # the rule covers what is below its path
        ("/orders", False),
        ("", False),  # the whole state
        ("/**", False),
        ("/*", False),
        ("/orders/**", False),  # `**` is any number of segments,
        ("/orders/order_id=1/status/**", False),  # none included
        ("/**/status", False),
        ("/orders/**/status", False),
        ("/orders/**/order_id=1/**/status", False),
        ("/orders/*/status", False),
        ("/*/*/status", False),
        ("/orders/*/total", True),
        ("/orders/order_id=2", True),
        ("/**/total", True),
        ("/*/status", True),  # `*` is one segment
        ("/orders/*/*/status", True),
    ],
)
def test_forbid_meets_a_change_at_its_path_and_below(judge, pattern, passed):
    assert judge(PAID, Forbid(pattern)) is passed


@pytest.mark.parametrize(
    ("pattern", "passed"),
    [
        ("/orders/*/status", False),  # removing a row touches its cells
        ("/orders/order_id=1/total", False),
        ("/orders/order_id=2/status", True),
        ("/orders/*/colour", True),  # the row had none
        ("/**/total", False),
    ],
)
def test_forbid_meets_a_change_above_its_path_where_it_names_something(judge, pattern, passed):
    assert judge(REMOVED, Forbid(pattern)) is passed


def test_a_removed_table_touches_every_cell(judge):
    assert judge([{**rows(*ORDERS), "n": 1}, {"n": 1}], Forbid("/orders/*/status")) is False


@pytest.mark.parametrize(
    ("states", "op"), [(PAID, "edit"), (REMOVED, "remove"), (ADDED, "add")], ids=str
)
def test_ops_narrow_a_rule(judge, states, op):
    for other in ("edit", "remove", "add"):
        assert judge(states, Forbid("/orders/**", ops=(other,))) is (other != op)
        assert judge(states, AllowOnly("/orders/*", ops=(other,))) is (other == op)


def test_rows_that_go_with_a_table_set_to_null_are_removed(judge):
    states = [rows(*ORDERS), {"orders": None}]
    assert judge(states, Forbid("/orders/*", ops=("remove",))) is False
    assert judge(states, Forbid("/orders", ops=("remove",))) is False
    assert judge(states, Forbid("/orders/*", ops=("add",))) is True
    assert judge(states[::-1], Forbid("/orders/*", ops=("add",), allow_missing=True)) is False
    assert judge(states, AllowOnly("/orders", ops=("edit",))) is False


def test_allow_only_allows_at_its_path_and_below_and_nothing_above(judge):
    assert judge(PAID, AllowOnly("/orders/*/status")) is True
    assert judge(PAID, AllowOnly("/orders/*")) is True
    assert judge(PAID, AllowOnly("/orders/*/total")) is False
    assert judge(REMOVED, AllowOnly("/orders/*/status")) is False
    assert judge(REMOVED, AllowOnly("/orders/*")) is True
    assert judge([{**rows(*ORDERS), "n": 1}, {"n": 1}], AllowOnly("/orders/*")) is False


def test_what_several_allow_is_their_union(episode):
    states = [{"a": 1, "b": 1, "c": 1}, {"a": 2, "b": 2, "c": 1}]
    both = AllowOnly("/a"), AllowOnly("/b")
    assert find_violations(episode(*states), both).passed is True
    assert find_violations(episode(*states), [AllowOnly("/a", "/b")]).passed is True
    third = find_violations(episode(*states, {"a": 2, "b": 2, "c": 2}), both)
    # one finding, not one for each
    assert [(f.path, f.rule) for f in third.findings] == [
        ("/c", 'AllowOnly("/a") or AllowOnly("/b")')
    ]
    # the same rule twice is still a rule
    assert find_violations(episode(*states), [AllowOnly("/a"), AllowOnly("/a")]).passed is False


def test_only_and_append_only_permit_what_allow_only_does_not_name(judge):
    states = [
        {"a": 1, "status": "open", "log": ["x"]},
        {"a": 2, "status": "paid", "log": ["x", "y"]},
    ]
    only, append = Only("/status", when=lambda step: step.action == 1), AppendOnly("/log")
    assert judge(states, AllowOnly("/a"), only, append) is True
    assert judge(states, AllowOnly("/a"), only) is False
    assert judge(states, AllowOnly("/a"), append) is False
    assert judge(states, AllowOnly("/a"), only, append, actions=[2]) is False


def test_forbid_wins_over_an_allowance(judge):
    assert judge(PAID, AllowOnly("/orders/**"), Forbid("/orders/*/status")) is False
    assert judge(PAID, AllowOnly("/orders/**"), Forbid("/orders/*/total")) is True


LOG = [{"id": 1, "text": "a"}]


@pytest.mark.parametrize(
    ("before", "after", "passed"),
    [
        (LOG, [*LOG, {"id": 2, "text": "b"}], True),
        (LOG, [{"id": 2, "text": "b"}, *LOG], True),  # a table has no order
        (LOG, [{"id": 1, "text": "A"}], False),
        (LOG, [{"id": 1, "text": "a", "more": 1}], False),
        (LOG, [], False),
        (LOG, None, False),
        (LOG, [*LOG, "text"], True),  # no table any more, and the old one is a prefix
        (LOG, ["text", *LOG], False),
        ([], LOG, True),
        ([{"text": "a"}], [{"text": "a"}, {"text": "a"}], True),  # no key: rows are counted
        ([{"text": "a"}, {"text": "a"}], [{"text": "a"}], False),
        ([{"text": "a"}], [{"text": "b"}], False),
        (["a"], ["a", "b"], True),  # a list: the old one is a prefix of the new
        (["a", "b"], ["a"], False),
        (["a"], ["b", "a"], False),
        ([["a"]], [["a", "b"]], False),  # something in it was changed
        ([1], [True], False),
        ([], [1], True),
    ],
)
def test_append_only(judge, before, after, passed):
    assert judge([{"log": before}, {"log": after}], AppendOnly("/log")) is passed


def test_append_only_holds_for_rows_added_during_the_episode(judge):
    grown = [*LOG, {"id": 2, "text": "b"}]
    edited = [*LOG, {"id": 2, "text": "B"}]
    assert judge([{"log": LOG}, {"log": grown}, {"log": edited}], AppendOnly("/log")) is False
    assert judge([{"log": LOG}, {"log": grown}, {"log": LOG}], AppendOnly("/log")) is False


def test_append_only_of_nested_tables(judge):
    def state(*log, order=1):
        return {"orders": [{"id": order, "log": list(log)}]}

    rule = AppendOnly("/orders/*/log")
    assert judge([state(LOG[0]), state(*LOG, {"id": 2})], rule) is True
    assert judge([state(LOG[0]), state()], rule) is False
    assert judge([state(LOG[0]), state(LOG[0], order=2)], rule) is False  # one went, one came
    assert judge([{"orders": []}, state(LOG[0])], rule) is True


def test_append_only_of_a_table_that_comes_or_goes(judge):
    rule = AppendOnly("/log")
    assert judge([{"n": 1}, {"n": 1, "log": LOG}], rule) is True
    assert judge([{"n": 1, "log": LOG}, {"n": 1}], rule) is False


def test_only_at_steps_whose_action_satisfies_it(judge, unseen):
    rule = Only("/orders/*/status", when=lambda step: step.action == 7)
    assert judge(PAID, rule, actions=[7]) is True
    assert judge(PAID, rule, actions=[8]) is False
    assert judge(REMOVED, rule, actions=[8]) is False
    assert judge(ADDED, rule, actions=[7]) is True
    # the change may have been made by either of two actions
    gap = [rows(*ORDERS), unseen, with_status("paid")]
    assert judge(gap, rule, actions=[8, 9]) is False
    assert judge(gap, rule, actions=[7, 8]) is None
    assert judge(gap, AllowOnly("/n", allow_missing=True), rule, actions=[7, 8]) is None
    # a state was not seen, so that more may have happened
    assert judge(gap, rule, actions=[7, 7]) is None


def test_a_change_without_an_action_violates_only(judge):
    rule = Only("/orders/**", when=lambda step: True)
    assert judge(PAID[:1], rule, final=PAID[1]) is False
    # a refused action did not reach the environment
    assert judge(PAID, rule, actions=[100]) is False


def test_what_a_condition_raises_is_raised(episode):
    def fails(step):
        raise LookupError("no such field")

    with pytest.raises(LookupError, match="no such field"):
        find_violations(episode(*PAID), [Only("/orders/**", when=fails)])


def test_the_condition_gets_the_step(episode):
    seen = []
    rule = Only("/a", when=lambda step: seen.append((step.index, step.action, step.state)) is None)
    find_violations(episode({"a": 1}, {"a": 1}, {"a": 2}, actions=[5, 6]), [rule])
    assert seen == [(2, 6, {"a": 2})]


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (Forbid("/a/**"), 'Forbid("/a/**")'),
        (AllowOnly("/a", "/b"), 'AllowOnly("/a", "/b")'),
        (AppendOnly("/a", ops=("remove",)), "AppendOnly(\"/a\", ops=['remove'])"),
        (Only("/a", when=bool), 'Only("/a")'),
    ],
)
def test_rules_spell_themselves(rule, text):
    assert str(rule) == text


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Forbid("orders"), ValueError, "must start with '/'"),
        (lambda: Forbid("/a~2"), ValueError, "'~' must be written '~0'"),
        (lambda: Forbid(3), TypeError, "path must be text, not int"),
        (lambda: Forbid("/a", ops=("delete",)), ValueError, "add, remove, edit, not 'delete'"),
        (lambda: Forbid("/a", ops=()), ValueError, "at least one of add, remove, edit"),
        (lambda: AllowOnly(), ValueError, "needs a path"),
        (lambda: Only("/a", when=None), TypeError, "when must be callable, not NoneType"),
    ],
)
def test_a_rule_that_is_none_is_refused(make, error, message):
    with pytest.raises(error, match=re.escape(message)):
        make()


def test_an_edit_in_a_table_without_a_key_cannot_be_told_from_a_removal_and_an_addition(episode):
    states = [{"t": [{"a": 1}, {"a": 5}]}, {"t": [{"a": 2}, {"a": 5}]}]
    doubted = find_violations(episode(*states), [Forbid("/t", ops=("edit",))])
    assert doubted.passed is None
    assert "its table has no key" in doubted.undecided[0]
    assert find_violations(episode(*states), [AllowOnly("/t", ops=("edit",))]).passed is None
    assert find_violations(episode(*states), [Forbid("/t", ops=("add",))]).passed is False
    # one more of the same row is an addition
    more = [{"t": [{"a": 1}]}, {"t": [{"a": 1}, {"a": 1}]}]
    assert find_violations(episode(*more), [Forbid("/t", ops=("add",))]).passed is False
    assert find_violations(episode(*more), [Forbid("/t", ops=("edit",))]).passed is True
    assert find_violations(episode(*more), [Forbid("/t/*/a", ops=("add",))]).passed is False


def test_unusual_names_are_met_by_their_escaped_segments(judge):
    states = [{"a/b": {"~": {"": {"x=1": 1}}}}, {"a/b": {"~": {"": {"x=1": 2}}}}]
    assert judge(states, Forbid("/a~1b/~0//x=1")) is False
    assert judge(states, Forbid("/a~1b/~0/*/x=1")) is False
    assert judge(states, Forbid("/a~1b/~0//y", allow_missing=True)) is True
    star = [{"*": 1, "b": 1}, {"*": 1, "b": 2}]
    assert judge(star, AllowOnly("/b")) is True
    assert judge(star, Forbid("/*")) is False
