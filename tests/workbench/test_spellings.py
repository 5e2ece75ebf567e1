"""Values are found however they are spelled, and what only looks alike is left alone."""

from __future__ import annotations

import base64
import gzip
import html
import json
import unicodedata
import urllib.parse
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envbench.workbench.leaks import encodings
from envbench.workbench.spellings import REDACTED, Finder, Secret, check, folded, redacted

NAME = "Zoë O'Neill-tok/9"
RAW = NAME.encode()
SPELLED = {
    "as it is": NAME,
    "in capitals": NAME.upper(),
    "decomposed": unicodedata.normalize("NFD", NAME),
    "partly decomposed": unicodedata.normalize("NFD", NAME[:3]) + NAME[3:],
    "JSON": json.dumps(NAME),
    "JSON in JSON": json.dumps(json.dumps(NAME)),
    "Python": ascii(NAME),
    "every character escaped": "".join(f"\\u{ord(c):04x}" for c in NAME),
    "address": urllib.parse.quote(NAME),
    "form": urllib.parse.quote_plus(NAME),
    "HTML": html.escape(NAME),
    "HTML in HTML": html.escape(html.escape(NAME)),
    "HTML numbers": "".join(f"&#{ord(c)};" for c in NAME),
    "coloured": "Zo\x1b[1më\x1b[0m O'Neill-tok/9",
    "marked up": "Zoë <b>O'</b>Neill-tok/9",
    "wrapped": "Zoë\n      O'Neill-tok/9",
    "no-break space": "Zoë\u00a0O'Neill-tok/9",
    "soft hyphen": "Zoë O'Ne\u00adill-\u200btok/9",
    "full width": "Ｚｏë O'Neill-tok/9",
    "hexadecimal": RAW.hex(),
    **{f"base64 at {i}": base64.b64encode(b"xyz"[:i] + RAW + b"-").decode() for i in range(3)},
    **{
        f"url-safe base64 at {i}": base64.urlsafe_b64encode(b"\xff\xff\xff"[:i] + RAW).decode()
        for i in range(3)
    },
    "base64 in lines": base64.encodebytes(b"x" * 100 + RAW + b"x" * 100).decode(),
    "gzip in base64": base64.b64encode(gzip.compress(b"hello " + RAW)).decode(),
    "zlib in base64": base64.b64encode(zlib.compress(b"hello " + RAW)).decode(),
}


@pytest.mark.parametrize("spelled", SPELLED.values(), ids=SPELLED)
def test_each_spelling_is_taken_out(spelled):
    clean, found = redacted(f"before {spelled} after", Finder([check(NAME)]))
    assert len(found) == 1
    assert REDACTED in clean
    assert clean.startswith("before ")
    assert clean.endswith("after")
    rest = folded(clean.replace(REDACTED, ""))
    assert "neill" not in rest
    assert not Finder([check(NAME)]).holds(clean)


@given(
    st.text(st.characters(exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp", "Cf"]), min_size=6),
    st.integers(0, 40),
)
def test_whatever_a_byte_search_finds_is_found(text, which):
    try:
        secret = check(text)
    except ValueError:
        return
    spelled = list(encodings(text))
    name, raw = spelled[which % len(spelled)]
    shown = raw.decode("utf-8")
    if name == "base64":  # the characters on its edges are decided by what stands beside it
        shown = base64.b64encode(b"\0" * (which % 3) + text.encode() + b"\0").decode()
    assert Finder([secret]).holds(f"before {shown} after")


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("zoë o'nei…", "[redacted]…"),
        ("Zoë O'Neill-to...", "[redacted]..."),
        ("Zoë O… and so on", "Zoë O… and so on"),
        ("Zoë O'Nei and so on", "Zoë O'Nei and so on"),
    ],
)
def test_a_value_cut_short_is_taken_out_before_its_ellipsis(text, clean):
    assert redacted(text, Finder([check(NAME)]))[0] == clean


def test_colours_stay_as_they_were():
    clean, _ = redacted("\x1b[31mtok-\x1b[1m123\x1b[0m!", Finder([check("tok-123")]))
    assert clean == "\x1b[31m[redacted]\x1b[1m\x1b[0m!"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("1234.5", "[redacted]"),
        ("1,234.5 EUR", "[redacted] EUR"),
        ("1.234,5", "[redacted]"),
        ("1234.500000", "[redacted]"),
        ("-1234.50", "[redacted]"),
        ("1.2345e3", "[redacted]"),
        ("x=1234.5;", "x=[redacted];"),
        # every byte of the value goes, so a longer number that holds it goes as a whole
        ("91234.57", "[redacted]"),
        ("12345", "12345"),
        ("1234", "1234"),
        ("234.5", "234.5"),
    ],
)
def test_a_number_is_found_however_it_is_formatted(text, clean):
    assert redacted(text, Finder([check("1234.5")]))[0] == clean


@pytest.mark.parametrize("text", ["DE08 6576 4061 4154 4514 79", "de08-6576-4061-4154-4514-79"])
def test_a_code_is_found_in_groups(text):
    assert redacted(text, Finder([check("DE08657640614154451479")]))[0] == REDACTED


def test_a_code_with_a_leading_zero_is_no_number():
    finder = Finder([check("0049")])
    assert redacted("49 and 0049", finder)[0] == "49 and [redacted]"


class TestFoundAtAPath:
    def test_a_short_one_counts_as_a_word(self):
        finder = Finder([Secret("open", was_found=True)])
        assert redacted("open opened re-open OPEN", finder)[0] == (
            "[redacted] opened re-[redacted] [redacted]"
        )

    def test_a_number_counts_as_a_whole_one(self):
        finder = Finder([Secret("15983", was_found=True)])
        assert redacted("15983 159837 15,983 15983.0", finder)[0] == (
            "[redacted] 159837 [redacted] [redacted]"
        )


@pytest.mark.parametrize("value", ["", " ", "a", "ab", " a b ", "\u200b\u200babc"[:3]])
def test_a_value_that_is_everywhere_is_refused(value):
    with pytest.raises(ValueError, match="shorter than 3 characters"):
        check(value)


def test_a_value_is_text():
    with pytest.raises(TypeError, match="takes texts, not int"):
        check(1234)


def test_overlapping_values_are_one_place():
    finder = Finder([check("alice"), check("alice@example.org")])
    assert redacted("to alice@example.org.", finder) == (
        "to [redacted].",
        [finder.secrets[1]],
    )


def test_a_long_text_with_nothing_in_it_stays_the_same_object():
    text = "nothing of it is here\n" * 10_000
    assert redacted(text, Finder([check(NAME)]))[0] is text


def test_hundreds_of_values_are_looked_for_at_once():
    finder = Finder(Secret(f"user{i}@example.org", was_found=True) for i in range(500))
    text = "nothing\n" * 10_000 + "user77@example.org\n" + "nothing\n" * 10_000
    clean, found = redacted(text, finder)
    assert [secret.text for secret in found] == ["user77@example.org"]
    assert clean.count(REDACTED) == 1


def test_content_that_is_no_text_is_searched_for_longer_values():
    finder = Finder([check("secret-value"), check("abc")])
    assert finder.in_bytes(b"\x89PNG\0tEXt secret-value") == finder.secrets[0]
    assert finder.in_bytes(b"\x89PNG\0abc") is None
