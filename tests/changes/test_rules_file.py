"""Rules from a file: what can be said, and what is wrong with what cannot."""

from __future__ import annotations

import numpy as np
import pytest

from envbench.changes import AllowOnly, AppendOnly, Forbid, Only, load_rules
from envbench.changes.rules import ActionIs
from envbench.changes.rules_file import read_rules
from envbench.evidence.episode import Step

TOML = """
[[rules]]
rule = "Forbid"
path = "/vendors/**"
ops = ["edit", "remove"]

[[rules]]
rule = "AllowOnly"
paths = ["/invoice_rows/*", "/log"]
allow_missing = true

[[rules]]
rule = "AppendOnly"
path = "/log"

[[rules]]
rule = "Only"
path = "/orders/*/status"
when_action = { name = "set_status", arguments = { status = "paid" } }
"""
JSON = """
{"rules": [
    {"rule": "Forbid", "path": "/vendors/**", "ops": ["edit", "remove"]},
    {"rule": "AllowOnly", "paths": ["/invoice_rows/*", "/log"], "allow_missing": true},
    {"rule": "AppendOnly", "path": "/log"},
    {"rule": "Only", "path": "/orders/*/status",
     "when_action": {"name": "set_status", "arguments": {"status": "paid"}}}
]}
"""


@pytest.mark.parametrize(("name", "text"), [("rules.toml", TOML), ("rules.json", JSON)])
def test_a_file_says_what_the_classes_say(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    *others, only = load_rules(path)
    assert others == [
        Forbid("/vendors/**", ops=("edit", "remove")),
        AllowOnly("/invoice_rows/*", "/log", allow_missing=True),
        AppendOnly("/log"),
    ]
    assert isinstance(only, Only)
    assert only.to_dict() == {
        "rule": "Only",
        "paths": ["/orders/*/status"],
        "ops": ["add", "remove", "edit"],
        "allow_missing": False,
        "when_actions": [{"name": "set_status", "arguments": {"status": "paid"}}],
    }


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "/: expected the rules"),
        ({"rule": []}, "/: expected the rules"),
        ({"rules": []}, "/rules: is empty"),
        ({"rules": [], "more": 1}, "/more: is not known"),
        ({"rules": ["x"]}, "/rules/0: expected an object, found str"),
        ({"rules": [{"rule": "Deny"}]}, "/rules/0/rule: must be one of Forbid, AllowOnly,"),
        ({"rules": [{"rule": "Forbid"}]}, "/rules/0: Forbid needs path"),
        ({"rules": [{"rule": "AllowOnly"}]}, "/rules/0: AllowOnly needs path or paths"),
        ({"rules": [{"rule": "AllowOnly", "paths": []}]}, "/rules/0: AllowOnly needs a path"),
        ({"rules": [{"rule": "AllowOnly", "paths": "/a"}]}, "/rules/0/paths: expected a list"),
        ({"rules": [{"rule": "Forbid", "path": 3}]}, "/rules/0/path: 3 is no path"),
        ({"rules": [{"rule": "Forbid", "path": "a"}]}, "/rules/0: path 'a' must start with '/'"),
        ({"rules": [{"rule": "Forbid", "path": "/a", "ops": "add"}]}, "/rules/0/ops: expected a"),
        ({"rules": [{"rule": "Forbid", "path": "/a", "ops": ["x"]}]}, "/rules/0: ops must be"),
        (
            {"rules": [{"rule": "Forbid", "path": "/a", "allow_missing": 1}]},
            "/rules/0/allow_missing: must be true or false, not 1",
        ),
        ({"rules": [{"rule": "Forbid", "path": "/a", "when": 1}]}, "/rules/0/when: Forbid takes"),
        ({"rules": [{"rule": "Only", "path": "/a"}]}, "/rules/0: Only needs when_action"),
        (
            {"rules": [{"rule": "Only", "path": "/a", "when_actions": []}]},
            "/rules/0/when_actions: expected a list of actions",
        ),
        (
            {"rules": [{"rule": "Only", "path": "/a", "when_action": float("nan")}]},
            "/rules/0: ",
        ),
    ],
)
def test_what_cannot_be_read_is_named_with_its_place(data, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is looked at below
        read_rules(data)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rules.toml", b"rules = ["),
        ("rules.toml", b"\xff"),
        ("rules.json", b'{"rules": 1, "rules": 2}'),
        ("rules.json", b"{"),
    ],
)
def test_a_file_that_is_neither_is_named_in_one_line(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is looked at below
        load_rules(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def taken(action):
    return Step(1, action, None, None, None, None, None, None, None, None, None, None)


@pytest.mark.parametrize(
    ("wanted", "action", "met"),
    [
        (3, 3, True),
        (3, np.int64(3), True),
        (3, 3.0, False),
        (1, True, False),
        ([1, 2], np.array([1, 2]), True),
        ([1, 2], (1, 2), True),
        ({"name": "pay"}, {"name": "pay", "arguments": {"n": 1}}, True),
        ({"name": "pay", "arguments": {"n": 1}}, {"name": "pay", "arguments": {"n": 2}}, False),
        ({"name": "pay"}, {"arguments": {}}, False),
        ({"name": "pay"}, "pay", False),
        ("pay", "pay", True),
        (None, 0, False),
    ],
)
def test_an_action_is_met_when_it_is_equal_or_has_the_members(wanted, action, met):
    assert ActionIs(wanted)(taken(action)) is met
    assert ActionIs("something else", wanted)(taken(action)) is met
