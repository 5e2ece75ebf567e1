"""HTML as a list of tokens, and tokens as HTML that a browser reads in only one way.

What a notebook shows may be any HTML, broken and hostile included. `tokens` reads it much as a
browser does; `html_of` writes it anew, every attribute quoted, every sign escaped, every element
closed, so that nothing of it can reach what stands around it. Comments are left out.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache


@dataclass(slots=True)
class Text:
    """Text between tags, without escapes."""

    text: str


@dataclass(slots=True)
class Start:
    """A start tag; names are in lower case, values without escapes."""

    name: str
    attributes: list[tuple[str, str]] = field(default_factory=list)
    closes_itself: bool = False

    def get(self, name: str) -> str | None:
        """The value of an attribute, None when it is not there."""
        return next((value for each, value in self.attributes if each == name), None)

    def put(self, name: str, value: str) -> None:
        """Set an attribute, in its place where it is there already."""
        if self.get(name) is None:
            self.attributes.append((name, value))
        self.attributes = [(n, value if n == name else old) for n, old in self.attributes]

    def drop(self, *names: str) -> None:
        """Take attributes away."""
        self.attributes = [each for each in self.attributes if each[0] not in names]


@dataclass(slots=True)
class End:
    """An end tag."""

    name: str


@dataclass(slots=True)
class Raw:
    """An element whose content is not HTML (`script`, `style`), or only text (`textarea`)."""

    start: Start
    text: str


Token = Text | Start | End | Raw

RAW = ("script", "style", "xmp", "iframe", "noembed", "noframes", "noscript", "plaintext")
"""Elements whose content is no HTML, as a browser in which scripts can run reads them."""

TEXT_ONLY = ("textarea", "title")
"""Elements whose content is text with escapes."""

VOID = frozenset(
    "area base br col embed hr img input link meta param source track wbr".split()  # noqa: SIM905
)
"""Elements without an end."""

INLINE = frozenset(
    "a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark mi mn mo "  # noqa: SIM905
    "mtext nobr q rb s samp small span strike strong sub sup time tspan tt u var wbr".split()
)
"""Elements that do not part the text of which they are a piece."""


def tokens(source: str) -> list[Token]:
    """The tokens of some HTML."""
    return list(_read(source))


def html_of(found: Iterable[Token]) -> str:
    """Tokens as HTML in which every element is closed, and no end stands without its start."""
    return "".join(_written(found))


_TEXT = re.compile(r"[^<]+")
_TAG = re.compile(
    r"""<(/?)([a-zA-Z][^\s/>]*)((?:[^>"']++|"[^"]*+"|'[^']*+')*+)>"""  # a tag to its end
)
_DECLARATION = re.compile(r"<(?:!(?!--)|\?|/(?![a-zA-Z]))[^>]*>")
_COMMENT = re.compile(r"<!--(?:-?>|.*?(?:--!?>|\Z))", re.DOTALL)  # also one without an end
_ATTRIBUTE = re.compile(r"""([^\s=/>"'][^\s=/>]*)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>]+)))?""")


def _read(source: str) -> Iterator[Token]:
    at = 0
    while at < len(source):
        if found := _TEXT.match(source, at):
            yield Text(html.unescape(found[0]))
        elif found := _TAG.match(source, at):
            close, name, rest = found.groups()
            name = name.lower()
            if not _NAME.fullmatch(name):
                pass
            elif close:
                yield End(name)
            elif name in RAW or name in TEXT_ONLY:
                end = _end_of(name).search(source, found.end())
                stop = end.start() if end else len(source)
                content = source[found.end() : stop]
                yield Raw(
                    _start(name, rest), html.unescape(content) if name in TEXT_ONLY else content
                )
                at = end.end() if end else stop
                continue
            else:
                yield _start(name, rest)
        elif found := _COMMENT.match(source, at) or _DECLARATION.match(source, at):
            pass
        elif _BEGINS.match(source, at):
            # a tag that never ends: a browser drops all the rest, which is shown here
            yield Text(html.unescape(source[at:]))
            return
        else:
            yield Text("<")
            at += 1
            continue
        at = found.end()


_BEGINS = re.compile(r"<[a-zA-Z!?/]")


@cache
def _end_of(name: str) -> re.Pattern[str]:
    return re.compile(rf"</{re.escape(name)}(?=[\s/>])[^>]*>", re.IGNORECASE)


def _start(name: str, rest: str) -> Start:
    if not rest:
        return Start(name)
    attributes: dict[str, str] = {}
    for found in _ATTRIBUTE.finditer(rest):
        value = found[2] or found[3] or found[4] or ""
        attributes.setdefault(found[1].lower(), html.unescape(value))
    return Start(name, list(attributes.items()), rest.rstrip().endswith("/"))


_ENDS_BY_ITSELF = frozenset(
    "p li dt dd td th tr tbody thead tfoot colgroup caption option optgroup".split()  # noqa: SIM905
)
_FOREIGN = frozenset({"svg", "math"})


def _written(found: Iterable[Token]) -> Iterator[str]:
    opened: list[str] = []
    foreign = 0
    for token in found:
        if isinstance(token, Text):
            yield html.escape(token.text, quote=False)
        elif isinstance(token, Raw):
            yield _tag(token.start)
            if token.start.name in TEXT_ONLY:
                yield html.escape(token.text, quote=False)
            else:
                yield token.text
            yield f"</{token.start.name}>"
        elif isinstance(token, Start):
            closes = token.closes_itself and (foreign > 0 or token.name in _FOREIGN)
            yield _tag(token, closes=closes)
            if token.name not in VOID and not closes:
                opened.append(token.name)
                foreign += token.name in _FOREIGN
        elif token.name in opened:
            while True:
                name = opened.pop()
                foreign -= name in _FOREIGN
                if name == token.name:
                    yield f"</{name}>"
                    break
                if name not in _ENDS_BY_ITSELF:
                    yield f"</{name}>"
    for name in reversed(opened):
        if name not in _ENDS_BY_ITSELF:
            yield f"</{name}>"


def _tag(start: Start, *, closes: bool = False) -> str:
    attributes = "".join(
        f' {name}="{html.escape(value)}"' if value else f" {name}"
        for name, value in start.attributes
        if _NAME.fullmatch(name)
    )
    return f"<{start.name}{attributes}{'/' if closes else ''}>"


_NAME = re.compile(r"[a-z_@:][\w:.@-]*", re.ASCII | re.IGNORECASE)
