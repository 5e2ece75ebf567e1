"""Text of evidence as HTML: escaped, with nothing hidden, in the colours of the page around it.

Everything here is a static fragment without scripts, which a notebook also shows untrusted. Colours
are mixed from the text's own, so that a fragment reads in a light and in a dark theme, in
JupyterLab (`--jp-*` variables), in an export and in any other host.
"""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import resources


def text(value: object) -> str:
    """Text as HTML: markup escaped, and what would hide or reorder it written out."""
    shown = str(value)
    if shown.isprintable():  # then it holds no control, no direction mark and no surrogate
        return html.escape(shown)
    return "".join(_visible(character) for character in shown)


def attribute(value: object) -> str:
    """Text for a double-quoted attribute: as `text`, but without markup of our own."""
    return "".join(
        f"U+{ord(character):04X}" if is_unseen(character) else html.escape(character)
        for character in str(value)
    )


def is_unseen(character: str) -> bool:
    """Whether a character shows nothing by itself, or reorders what stands beside it.

    Controls, bidirectional and invisible marks, surrogates, separators, private and unassigned.
    """
    if character in "\n\t":
        return False
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp", "Co", "Cn")


def _visible(character: str) -> str:
    if not is_unseen(character):
        return html.escape(character)
    code = f"U+{ord(character):04X}"
    name = unicodedata.name(character, "a character without a name")
    return f'<span class="envbench-unseen" title="{code} {name}">{code}</span>'


def counted(number: int, thing: str, things: str | None = None) -> str:
    """A number with its noun, such as ``1,234 rows``."""
    return f"{number:,} {thing if number == 1 else things or f'{thing}s'}"


WORDS = {
    "passed": "yes",
    "accept": "yes",
    "ok": "yes",
    "failed": "no",
    "reject": "no",
    "altered": "no",
    "unknown": "open",
    "indeterminate": "open",
    "error": "open",
    "note": "plain",
}
"""Words of an outcome, with the class that colours them."""


def pill(word: str, label: str | None = None) -> str:
    """The word of an outcome with its colour and a sign: colour alone says nothing."""
    kind = WORDS[word]
    return f'<span class="envbench-pill envbench-{kind}">{_SIGNS[kind]}{text(label or word)}</span>'


def fragment(*parts: str) -> str:
    """A display: its style and its parts in one element."""
    return f'<div class="envbench-display"><style>{style()}</style>{"".join(parts)}</div>'


@cache
def style() -> str:
    """The style of displays, `static/display.css`."""
    return resources.files("envbench.workbench").joinpath("static/display.css").read_text("utf-8")


def table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: Iterable[int] = (),
    caption: str | None = None,
) -> str:
    """A table of cells that are HTML already; `numbers` are the columns aligned to the right.

    The first cell of a row is its heading when the first head is not empty.
    """
    right = set(numbers)
    kinds = [' class="envbench-number"' if i in right else "" for i in range(len(heads))]
    head = "".join(
        f'<th scope="col"{kind}>{name}</th>' for name, kind in zip(heads, kinds, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(f"<td{kind}>{cell}</td>" for cell, kind in zip(row, kinds, strict=True))
        + "</tr>"
        for row in rows
    )
    title = f"<caption>{caption}</caption>" if caption else ""
    return (
        '<div class="envbench-scroll" tabindex="0" role="region" '
        f'aria-label="{attribute(caption or "table")}"><table>{title}'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _sign(path: str) -> str:
    return (
        '<svg class="envbench-sign" viewBox="0 0 16 16" aria-hidden="true">'
        f'<path d="{path}"/></svg>'
    )


_SIGNS = {
    "yes": _sign("M2.5 8.5 6.5 12.5 13.5 4"),
    "no": _sign("M3.5 3.5l9 9M12.5 3.5l-9 9"),
    "open": _sign("M5 5.5C5 3.5 6.4 2.5 8 2.5s3 1 3 2.8c0 2.2-3 2.4-3 4.7M8 13.4v.1"),
    "plain": "",
}
