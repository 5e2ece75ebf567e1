"""A last look at a finished page: whether a value that was to be redacted still stands in it.

It looks at the page itself and not at how it was made: every text, attribute, style and address,
what is packed and embedded, and every byte in the common encodings.
"""

from __future__ import annotations

import base64
import html
import json
import unicodedata
from collections.abc import Iterator, Sequence
from urllib.parse import quote, quote_plus

from envbench.evidence.portable import canonical
from envbench.workbench import page, payload
from envbench.workbench.html_tokens import INLINE, Raw, Start, Text, tokens
from envbench.workbench.inert_html import data_of
from envbench.workbench.markup import style
from envbench.workbench.payload_redaction import shown_of
from envbench.workbench.redaction import BETWEEN, GEOMETRY, token_name
from envbench.workbench.spellings import Finder, Secret


def leak(
    contents: Sequence[str], said: Sequence[str], finder: Finder, known: frozenset[str]
) -> str | None:
    """Where a page still holds a secret, in words that do not tell it; None when nowhere.

    Args:
        contents: the HTML of each place of the page.
        said: what the export itself says, whose markup is ours and tells nothing.
        finder: the secrets.
        known: words of `class` attributes that are ours.
    """
    for content in (*contents, *said):
        for kind, text in _texts(content, known):
            if content in said and kind != "text":
                continue
            for span in finder.spans(text):
                if kind != "geometry" or span.secret.number is None:
                    return kind
        for kind, raw in _bytes(content):
            if finder.in_bytes(raw) is not None:
                return kind
    return None


def bytes_left(page_bytes: bytes, frame_bytes: bytes, secrets: Sequence[Secret]) -> str | None:
    """The encoding in which a secret stands in the bytes of a page, None when it does not.

    What the page's own frame says, without any content, is not the secret: it is subtracted.
    """
    for secret in secrets:
        for encoding, spelled in encodings(secret.text):
            if spelled in page_bytes and page_bytes.count(spelled) > frame_bytes.count(spelled):
                return encoding
    return None


def encodings(text: str) -> Iterator[tuple[str, bytes]]:
    """A text in the common encodings, each with its name."""
    forms = dict.fromkeys(
        [text, *(unicodedata.normalize(f, text) for f in ("NFC", "NFD", "NFKC", "NFKD"))]
    )
    for form in forms:
        raw = form.encode("utf-8", "surrogatepass")
        yield "plain text", raw
        yield "JSON", json.dumps(form)[1:-1].encode()
        yield "JSON in JSON", json.dumps(json.dumps(form))[3:-3].encode()
        yield "a Python literal", form.encode("unicode_escape")
        yield "HTML", html.escape(form).encode("utf-8", "surrogatepass")
        yield "HTML", "".join(f"&#{ord(c)};" for c in form).encode()
        yield "HTML", "".join(f"&#x{ord(c):x};" for c in form).encode()
        for quoted in (quote(raw), quote(raw, safe=""), quote_plus(raw)):
            yield "an address", quoted.encode()
            yield "an address", quoted.lower().encode()
        if len(raw) >= 4:
            yield "hexadecimal", raw.hex().encode()
            yield "hexadecimal", raw.hex().upper().encode()
        for offset in range(3):
            inside = _base64(raw, offset)
            if len(inside) >= 8:
                yield "base64", inside
                yield "base64", inside.replace(b"+", b"-").replace(b"/", b"_")


def _base64(raw: bytes, offset: int) -> bytes:
    """The characters of base64 that bytes decide alone when so many others stand before them."""
    encoded = base64.b64encode(b"\0" * offset + raw)
    first = -(-8 * offset // 6)
    return encoded[first : 8 * (offset + len(raw)) // 6]


def _texts(content: str, known: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Every text of some HTML, with what it is."""
    found = tokens(content)
    pieces: list[str] = []
    attributes: list[str] = []
    geometry: list[str] = []
    for token in found:
        if isinstance(token, Text):
            pieces.append(token.text)
            continue
        start = token.start if isinstance(token, Raw) else token
        if isinstance(start, Start):
            for name, value in start.attributes:
                attributes.append(name)
                if name == "class" and known.issuperset(value.split()):
                    continue
                if value[:5].lower() != "data:":
                    (geometry if name in GEOMETRY else attributes).append(value)
        if isinstance(token, Raw):
            if token.start.get("type") == page.MIME:
                yield from _packed(token.text)
            elif token.start.name == "style":
                if token.text != style():  # ours tells nothing
                    yield "style", token.text
            else:
                pieces.append(token.text)
        elif token_name(token) not in INLINE:
            pieces.append("\n")
    yield "text", "".join(pieces)
    yield "attribute", BETWEEN.join(attributes)
    yield "geometry", BETWEEN.join(geometry)


def _packed(text: str) -> Iterator[tuple[str, str]]:
    if not text.strip():
        return
    content = payload.unpack(text)
    leaves: list[str] = []
    _leaves(shown_of(content), leaves)
    yield "packed episode", BETWEEN.join(leaves)


def _leaves(value: object, found: list[str]) -> None:
    """Every text, number and name of a JSON value."""
    if isinstance(value, str):
        found.append(value)
    elif isinstance(value, dict):
        for name, item in value.items():
            found.append(name)
            _leaves(item, found)
    elif isinstance(value, list):
        for item in value:
            _leaves(item, found)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        found.append(canonical(value).decode())


def _bytes(content: str) -> Iterator[tuple[str, bytes]]:
    """What is embedded in addresses, and packed."""
    for token in tokens(content):
        if isinstance(token, Start):
            for _, value in token.attributes:
                read = data_of(value) if value[:5].lower() == "data:" else None
                if read is not None:
                    yield "embedded content", read[1]
        elif isinstance(token, Raw) and token.start.get("type") == page.MIME and token.text.strip():
            unpacked = payload.unpack(token.text)
            yield "packed episode", canonical(shown_of(unpacked))
            for frame in unpacked["frames"].values():
                if unpacked["head"]["frame_kind"] == "rgb_array":
                    yield "frame", base64.b64decode(frame)
