"""How paths are spelled, and what patterns meet."""

from __future__ import annotations

import pytest

from envbench.changes.paths import (
    RowDigest,
    RowKey,
    covers,
    key_value,
    matches,
    pattern_of,
    pointer,
    split_pattern,
    touches,
)


@pytest.mark.parametrize(
    ("path", "spelled", "pattern"),
    [
        ((), "", ""),
        (("a", 0, "b"), "/a/0/b", "/a/0/b"),
        (
            ("invoice_rows", RowKey("invoice_id", b'"invoice-17"'), "amount_cents"),
            '/invoice_rows/invoice_id="invoice-17"/amount_cents',
            "/invoice_rows/*/amount_cents",
        ),
        (("t", RowKey("id", b'"a/b~c"')), '/t/id="a~1b~0c"', "/t/*"),
        (("t", RowKey("a=b", b"1")), "/t/a=b=1", "/t/*"),
        (("t", RowDigest("0123456789abcdef"), "x"), "/t/#0123456789abcdef/x", "/t/*/x"),
        (("~", "/", "", "=", "*"), "/~0/~1//=/*", "/~0/~1//=/*"),
    ],
)
def test_paths_are_json_pointers_with_rows(path, spelled, pattern):
    assert pointer(path) == spelled
    assert pattern_of(path) == pattern


@pytest.mark.parametrize(
    ("value", "key"),
    [
        (1, b"1"),
        (1.0, b"1.0"),
        (True, b"true"),
        ("1", b'"1"'),
        ("", b'""'),
        ("é/", '"é/"'.encode()),
        (2**70, b"1180591620717411303424"),
        (-0.0, b"-0.0"),
        ({"$envbench": "uuid", "value": "x"}, b'{"$envbench":"uuid","value":"x"}'),
        ({"$envbench": "missing", "type": "socket", "reason": ""}, None),
        (None, None),
        ([], None),
        ({}, None),
    ],
)
def test_keys_are_scalars(value, key):
    assert key_value(value) == key


@pytest.mark.parametrize(
    ("pattern", "path", "met"),
    [
        ("", "", "at"),
        ("", "/a", "above"),
        ("/a", "/a", "at"),
        ("/a", "/a/b", "above"),
        ("/a/b", "/a", "below"),
        ("/a/b", "/b", None),
        ("/*", "/a/b", "above"),
        ("/**", "", "at"),
        ("/**", "/a/b", "at"),
        ("/a/**", "/a", "at"),
        ("/a/**/z", "/a/z", "at"),
        ("/a/**/z", "/a/b/c/z", "at"),
        ("/a/**/z", "/a/b/z/c", "above"),
        ("/a/**/z", "/a/b", "below"),
        ("/a/**/b/*/c", "/a/b/b/x/c", "at"),
        ("/**/b/**/d", "/a/c", "below"),
        ("/a/**/**/b", "/a/b", "at"),
    ],
)
def test_a_pattern_is_at_above_or_below_a_path(pattern, path, met):
    segments, at = split_pattern(pattern), split_pattern(path)
    assert matches(segments, at) is (met == "at")
    assert covers(segments, at) is (met in ("at", "above"))
    assert touches(segments, at) is (met is not None)
