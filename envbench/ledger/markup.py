"""Values as HTML: escaped, and with nothing hidden."""

from __future__ import annotations

import html
import unicodedata

ICONS = (
    '<svg aria-hidden="true" width="0" height="0" style="position:absolute">'
    '<symbol id="icon-yes" viewBox="0 0 16 16"><path d="M2.5 8.5 6.5 12.5 13.5 4"/></symbol>'
    '<symbol id="icon-no" viewBox="0 0 16 16"><path d="M3.5 3.5l9 9M12.5 3.5l-9 9"/></symbol>'
    '<symbol id="icon-open" viewBox="0 0 16 16"><path d="M5 5.5C5 3.5 6.4 2.5 8 2.5s3 1 3 2.8'
    'c0 2.2-3 2.4-3 4.7M8 13.4v.1"/></symbol>'
    "</svg>"
)
_SYMBOLS = {
    "accept": "yes",
    "passed": "yes",
    "reject": "no",
    "failed": "no",
    "indeterminate": "open",
    "unknown": "open",
}


def text(value: object) -> str:
    """Text as HTML: markup escaped, and what would hide or reorder it written out."""
    return "".join(_visible(character) for character in str(value))


def name_(value: str) -> str:
    """A name as HTML that may be broken after an underscore."""
    return text(value).replace("_", "_<wbr>")


def attribute(value: object) -> str:
    """Text for a double-quoted attribute: as `text`, but without markup of our own."""
    return "".join(
        f"U+{ord(character):04X}" if _is_unseen(character) else html.escape(character)
        for character in str(value)
    )


def class_(*names: object) -> str:
    """A class attribute with the names that are given, nothing when there are none."""
    given = " ".join(str(name) for name in names if name)
    return f' class="{given}"' if given else ""


def value_(value: object) -> str:
    """A value of a state: NULL and bytes as SQL writes them, all else as its text."""
    if value is None:
        return '<span class="null">NULL</span>'
    if isinstance(value, bytes):
        return f"<span class=\"value\">x'{value.hex()}'</span>"
    return f'<span class="value">{text(value)}</span>'


def pill(word: str, href: str | None = None) -> str:
    """A decision or verdict: a word, a sign and a colour; a link where `href` is given."""
    icon = f'<svg class="icon" aria-hidden="true"><use href="#icon-{_SYMBOLS[word]}"/></svg>'
    if href is None:
        return f'<span class="pill {word}">{icon}{word}</span>'
    return f'<a class="pill {word}" href="{text(href)}">{icon}{word}</a>'


def _visible(character: str) -> str:
    if not _is_unseen(character):
        return html.escape(character)
    code = f"U+{ord(character):04X}"
    name = unicodedata.name(character, "a character without a name")
    return f'<span class="control" title="{code} {name}">{code}</span>'


def _is_unseen(character: str) -> bool:
    # Controls, bidirectional and invisible marks, surrogates, separators, private and unassigned.
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp", "Co", "Cn")
