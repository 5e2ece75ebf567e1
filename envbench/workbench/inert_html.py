"""HTML of a notebook's outputs as it may stand in a file that is sent to somebody.

Nothing in it runs and nothing is fetched, whoever made it: scripts, handlers, frames, forms and
addresses from which a browser would load something are left out, and what was left out is said.
The page forbids the same once more, by its content security policy.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from urllib.parse import unquote_to_bytes

from envbench.workbench.html_tokens import TEXT_ONLY, End, Raw, Start, Text, Token
from envbench.workbench.page import MIME

Embed = Callable[[str], str | None]
"""Gives a local picture as a ``data:`` address, None when it is none that may be embedded."""


@dataclass(slots=True)
class Inert:
    """Makes HTML inert, and notes what it left out.

    Attributes:
        embed: embeds local pictures.
        left_out: what was left out, one entry each: ``script``, ``picture``, ``frame``, …
        has_browser: whether a list of episodes was found, whose script the page needs.
    """

    embed: Embed
    left_out: list[str] = field(default_factory=list)
    has_browser: bool = False

    def tokens(self, found: list[Token]) -> list[Token]:
        """The same HTML, in which nothing runs and nothing is fetched."""
        return list(self._kept(found))

    def _kept(self, found: list[Token]) -> Iterator[Token]:
        dropped: list[str] = []  # elements that are left out with all that they hold
        for token in found:
            name = token.start.name if isinstance(token, Raw) else getattr(token, "name", "")
            if dropped:
                if isinstance(token, Start) and token.name == dropped[0]:
                    dropped.append(name)
                elif isinstance(token, End) and token.name == dropped[0]:
                    dropped.pop()
            elif name in _WITH_CONTENT and isinstance(token, Start):
                self.left_out.append(_WITH_CONTENT[name])
                dropped.append(name)
            elif name in _TAGS_ONLY:
                continue
            elif isinstance(token, Raw):
                yield from self._raw(token)
            elif isinstance(token, Start):
                yield from self._element(token)
            else:
                yield token

    def _raw(self, token: Raw) -> Iterator[Token]:
        start = token.start
        if start.name == "style":
            if start.get("data-envbench-stepper") is None:  # that one the page has by itself
                token.text = self._style(token.text)
                start.attributes = [each for each in start.attributes if each[0] == "media"]
                yield token
        elif start.name in TEXT_ONLY:
            self._attributes(start)
            yield token
        elif start.name == "script":
            if start.get("type") == MIME and _PACKED.fullmatch(token.text):
                start.attributes = [("type", MIME)]
                yield token
            elif _BROWSER in token.text:  # these two as well
                self.has_browser = True
            elif _STEPPER not in token.text:
                self.left_out.append("script")
        elif start.name != "noscript":
            self.left_out.append(_RAW[start.name])
            yield from _said(f"[{_RAW[start.name]} left out]")

    def _element(self, start: Start) -> Iterator[Token]:
        had = {name for name, _ in start.attributes}
        self._attributes(start)
        if start.name == "img" and "src" in had and start.get("src") is None:
            yield from _said("[a picture that is not in the notebook is left out]")
        else:
            yield start

    def _attributes(self, start: Start) -> None:
        kept: list[tuple[str, str]] = []
        for name, value in start.attributes:
            if name.startswith("on") or name in _DROPPED:
                continue
            if name == "name" and start.name not in ("a", "input"):
                continue  # it would stand for a member of the document, in the stepper's script
            if name == "href" and start.name in ("a", "area"):
                if not _RUNS.match(_plain(value)):
                    kept.append((name, value))
            elif name in _FETCHES:
                address = self._address(value, start.name)
                if address is not None:
                    kept.append((name, address))
            elif name == "style" or "(" in value:
                kept.append((name, self._style(value)))
            else:
                kept.append((name, value))
        start.attributes = kept
        if start.name == "a" and not (start.get("href") or "#").startswith("#"):
            start.put("rel", "noopener noreferrer")
        if start.name == "img" and start.get("alt") is None:
            start.put("alt", "")

    def _address(self, value: str, element: str) -> str | None:
        """An address that loads nothing, None when there is none."""
        plain = _plain(value)
        if plain.startswith("#") or re.match(r"data:(image|audio|video|font)/", plain):
            return value
        if element == "img" and not re.match(r"[a-z][a-z0-9+.-]*:|//", plain):
            embedded = self.embed(value)
            if embedded is not None:
                return embedded
        self.left_out.append(_ADDRESSED.get(element, "address"))
        return None

    def _style(self, value: str) -> str:
        """A style that loads nothing, and cannot be mistaken for markup."""
        clean = value
        plain = _ESCAPE.sub(_letter, _COMMENTS.sub("", value))
        if _LOADS.search(plain) or _RUNNING.search(plain):
            clean = _RUNNING.sub(" ", plain)
            clean = _LOADS.sub(lambda found: found[0] if _LOCAL.match(found[2]) else "none", clean)
            if clean != plain:
                self.left_out.append("style")
        return re.sub(r"<(?=[a-zA-Z/!?])", r"\\3c ", clean)


def _said(text: str) -> Iterator[Token]:
    yield from (Start("em"), Text(text), End("em"))


def data_of(address: str) -> tuple[str, bytes] | None:
    """Type and content of a ``data:`` address, None when it is none or cannot be read."""
    found = re.match(r"\s*data:([^,;]*)((?:;[^,;]*)*),", address, re.IGNORECASE)
    if found is None:
        return None
    body = unquote_to_bytes(address[found.end() :])
    if ";base64" not in found[2].lower():
        return found[1].lower(), body
    try:
        return found[1].lower(), base64.b64decode(b"".join(body.split()))
    except binascii.Error:
        return None


_WITH_CONTENT = {
    "object": "object",
    "applet": "object",
    "frameset": "frame",
    "template": "template",
}
_RAW = {
    "iframe": "frame",
    "xmp": "markup",
    "noembed": "object",
    "noframes": "frame",
    "plaintext": "markup",
}
_TAGS_ONLY = frozenset(
    "html head body base meta link form embed frame param portal dialog animate set "  # noqa: SIM905
    "animatemotion animatetransform".split()
)
_DROPPED = frozenset(
    "srcset ping action formaction poster background manifest srcdoc autofocus nonce integrity "  # noqa: SIM905
    "http-equiv is slot contenteditable accesskey imagesrcset dynsrc lowsrc longdesc "
    "classid codebase archive usemap target cite".split()
)
_FETCHES = frozenset(["src", "href", "xlink:href", "data"])
_ADDRESSED = {"img": "picture", "image": "picture", "source": "sound or film", "a": "link"}
_RUNS = re.compile(r"(javascript|vbscript|data|blob|filesystem):")
_PACKED = re.compile(r"[A-Za-z0-9+/=.\s]+")
_STEPPER = "envbench.stepper/"
_BROWSER = "envbench.browser/"
_COMMENTS = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_RUNNING = re.compile(
    r"@import[^;]*(?:;|\Z)|expression\s*\(|-moz-binding|behavior\s*:", re.IGNORECASE
)
_LOADS = re.compile(r"\b(url|src|image|image-set)\(\s*([^)]*)\)?", re.IGNORECASE)
_LOCAL = re.compile(r"""["']?(?:#|data:(?:image|font)/)""", re.IGNORECASE)
_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{1,6})\s?|(.))")


def _letter(found: re.Match[str]) -> str:
    """An escape of CSS undone."""
    if found[1] is None:
        return str(found[2])
    code = int(found[1], 16)
    return chr(code) if code < 0x110000 else ""


def _plain(address: str) -> str:
    """An address without what a browser ignores in it."""
    return re.sub(r"[\x00-\x20]", "", address).lower()
