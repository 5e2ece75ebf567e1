"""Values that must not be shown, and the ways in which text may hold them.

A value is found in any case and any Unicode normal form, with escape sequences of a terminal,
markup or invisible characters between its characters, with other white space than its own, cut
short before an ellipsis, with its characters escaped as JSON, Python, HTML or an address does it,
in hexadecimal, and inside base64 at any alignment, compressed or not. A number is found however it
is formatted, and a code of many digits also in groups.
"""

from __future__ import annotations

import base64
import binascii
import decimal
import html
import re
import unicodedata
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Literal
from urllib.parse import unquote_plus

from envbench.workbench.markup import is_unseen

REDACTED = "[redacted]"
"""What stands in the place of a value."""

SHORTEST = 3
"""Characters, white space not counted, that a value has at least."""


@dataclass(frozen=True)
class Secret:
    """A value that must not be shown.

    Attributes:
        text: the value.
        was_found: whether it was found at a redacted path; then a short one counts only as a word
            of its own, and a number only as a whole one.
    """

    text: str
    was_found: bool = False

    @cached_property
    def folded(self) -> str:
        """The value as `folded` makes it."""
        return folded(self.text)

    @cached_property
    def number(self) -> decimal.Decimal | None:
        """The number that the value is; a code with a leading zero is none."""
        if not _NUMERIC.fullmatch(self.text.strip()):
            return None
        return _number(self.text.strip())

    @cached_property
    def is_code(self) -> bool:
        """Whether it has many digits, such as an account's number, which is written in groups."""
        return sum(map(str.isdigit, self.text)) >= 6 and not re.search(r"\s", self.text)

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Every spelling of the whole value."""
        whole = self._joined(self._parts)
        if self.was_found:
            if len(self.folded) < 8:
                whole = rf"(?<!\w){whole}(?!\w)"
        elif self.number is not None:  # a longer number that holds it goes as a whole
            whole = rf"(?:\d[\d.,_]*)?{whole}(?:[\d.,_]*\d)?"
        return re.compile(whole, re.IGNORECASE)

    @cached_property
    def beginning(self) -> re.Pattern[str] | None:
        """The first characters of a longer value, for where it was cut short."""
        if len(self.folded) < 8:
            return None
        return re.compile(self._joined(self._parts[: self.least]), re.IGNORECASE)

    @property
    def least(self) -> int:
        """How many characters of it are taken for its beginning."""
        return min(8, len(self._parts) // 2)

    def rest(self, text: str, at: int) -> int:
        """Where the value stops that has begun in some text; `at` is after its beginning."""
        for part in self._parts[self.least :]:
            found = re.compile(_SKIPPED + part, re.IGNORECASE).match(text, at)
            if found is None:
                break
            at = found.end()
        return at

    @cached_property
    def raw(self) -> tuple[bytes, ...]:
        """The value in UTF-8, in each normal form."""
        forms = [self.text, *(unicodedata.normalize(form, self.text) for form in _FORMS)]
        return tuple(dict.fromkeys(form.encode("utf-8", "surrogatepass") for form in forms))

    @cached_property
    def _parts(self) -> list[str]:
        """One pattern for each character with its accents, or for white space."""
        parts: list[str] = []
        for cluster in _CLUSTER.findall(unicodedata.normalize("NFC", self.text.strip())):
            parts.append(_SPACE if cluster.isspace() else _any(cluster))
        return parts

    def _joined(self, parts: Sequence[str]) -> str:
        between = _SKIPPED + (r"[\s.\-]?" if self.is_code else "")
        return between.join(parts)


def check(text: object, argument: str = "redact_values") -> Secret:
    """The secret of a value that a caller names.

    Raises:
        TypeError: when it is no text.
        ValueError: when it is too short to be looked for.
    """
    if not isinstance(text, str):
        raise TypeError(f"{argument} takes texts, not {type(text).__name__}: write {text!r} as one")
    secret = Secret(text)
    if len(secret.folded) < SHORTEST:
        raise ValueError(
            f"{argument}: {text!r} is shorter than {SHORTEST} characters and would be found "
            "everywhere: name the path at which it stands"
        )
    return secret


@dataclass(frozen=True, slots=True)
class Span:
    """Where some text holds a secret."""

    start: int
    end: int
    secret: Secret


class Finder:
    """Looks for secrets in text."""

    def __init__(self, secrets: Iterable[Secret] = ()) -> None:
        self.secrets = list(dict.fromkeys(secrets))

    def __bool__(self) -> bool:
        return bool(self.secrets)

    def spans(self, text: str) -> list[Span]:
        """The places of secrets in some text, in order and apart from each other."""
        if not self.secrets or not text:
            return []
        found = [*self._written(text), *self._numbers(text), *self._encoded(text)]
        found.sort(key=lambda span: (span.start, -span.end))
        apart: list[Span] = []
        for span in found:
            if apart and span.start < apart[-1].end:
                last = apart[-1]
                apart[-1] = Span(last.start, max(last.end, span.end), last.secret)
            elif span.end > span.start:
                apart.append(span)
        return apart

    def holds(self, text: str) -> bool:
        """Whether some text holds a secret."""
        return bool(self.spans(text))

    def in_bytes(self, content: bytes) -> Secret | None:
        """A secret that stands in content that is no text, such as a picture."""
        for secret in self.secrets:
            if any(len(raw) >= 6 and raw in content for raw in secret.raw):
                return secret
        return None

    def _written(self, text: str) -> Iterator[Span]:
        views = _views(text)
        grouped = [view.translate(_PUNCTUATION) for view in views if "." in view or "-" in view]
        is_cut = "…" in text or "..." in text
        for secret in self.secrets:
            wanted = secret.folded
            present = any(wanted in view for view in views)
            if not present and secret.is_code:
                wanted = wanted.translate(_PUNCTUATION)
                present = any(wanted in view for view in [*views, *grouped])
            if present:
                spans = [
                    Span(found.start(), found.end(), secret)
                    for found in secret.pattern.finditer(text)
                ]
                if not text.isascii() and views[0].count(secret.folded) > len(spans):
                    spans += _folded_spans(secret, text)
                yield from spans
            if is_cut and secret.beginning is not None:
                begun = folded(secret.text)[: secret.least]
                if any(begun in view for view in views):
                    yield from _cut_short(secret, text)

    def _numbers(self, text: str) -> Iterator[Span]:
        wanted = {abs(s.number): s for s in self.secrets if s.number is not None}
        if not wanted:
            return
        for found in _NUMBER.finditer(text):
            for reading in _readings(found[0]):
                secret = wanted.get(abs(reading))
                if secret is not None:
                    yield Span(found.start(), found.end(), secret)
                    break

    def _encoded(self, text: str) -> Iterator[Span]:
        lower = text.lower()
        digits = "\n".join(_HEXADECIMAL.findall(lower))
        for secret in self.secrets:
            for raw in secret.raw:
                if len(raw) >= 4 and raw.hex() in digits:
                    for found in re.finditer(rf"[0-9a-f]*{raw.hex()}[0-9a-f]*", lower):
                        yield Span(found.start(), found.end(), secret)
        # so many characters the shortest value has in base64, less those on its edges
        least = min(len(raw) for secret in self.secrets for raw in secret.raw) * 4 // 3 - 1
        runs = [found for found in _BASE64.finditer(text) if len(found[0]) >= max(8, least)]
        if not runs:
            return
        contents = {run: list(_decoded(run)) for run in {found[0] for found in runs}}
        everything = b"\0".join(content for each in contents.values() for content in each)
        for secret in self.secrets:
            if not any(raw in everything for raw in secret.raw):
                continue
            held = {
                run
                for run, each in contents.items()
                if any(_in_decoded(secret, content) for content in each)
            }
            for found in runs:
                if found[0] in held:
                    yield Span(found.start(), found.end(), secret)


def redacted(text: str, finder: Finder) -> tuple[str, list[Secret]]:
    """Text with every secret replaced, and the secrets that stood there, one an occurrence.

    Escape sequences of a terminal and markup inside a secret are kept behind what stands for it.
    """
    spans = finder.spans(text)
    if not spans:
        return text, []
    pieces, at = [], 0
    for span in spans:
        pieces += [text[at : span.start], REDACTED, *_KEPT.findall(text[span.start : span.end])]
        at = span.end
    return "".join([*pieces, text[at:]]), [span.secret for span in spans]


def folded(text: str) -> str:
    """Text without what makes no difference: case, normal form, white space, what is invisible."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if text.isascii():
        return "".join(text.lower().split())
    text = unicodedata.normalize("NFKD", text).casefold()
    text = _INVISIBLE.sub("", unicodedata.normalize("NFKD", text))
    return "".join(text.split())


_KEPT = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|</?[a-zA-Z][^<>]{0,200}>")
_FORMS: tuple[Literal["NFC", "NFD", "NFKC", "NFKD"], ...] = ("NFC", "NFD", "NFKC", "NFKD")
_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]"
)
_MARKUP = re.compile(r"</?[a-zA-Z][^<>]{0,200}>")
_SKIPPED = rf"(?:{_ANSI.pattern}|{_INVISIBLE.pattern}|{_MARKUP.pattern})*"
_SPACE = r"(?:\s|%20|\+|\\+(?:[nrt]|u0020|u000a|x20)|&(?:amp;)*(?:nbsp|#0*32|#x0*20);|_)*"
_CLUSTER = re.compile(r"\s+|\S[\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u3099\u309a]*")
_PUNCTUATION = {ord(character): None for character in ".-"}


def _any(cluster: str) -> str:
    """A pattern for one character with its accents, however it is written."""
    forms = [cluster, *(unicodedata.normalize(form, cluster) for form in _FORMS)]
    forms += [form.casefold() for form in forms] + [form.upper() for form in forms]
    distinct = sorted(set(forms), key=len, reverse=True)
    return f"(?:{'|'.join(''.join(map(_one, form)) for form in distinct)})"


@cache
def _one(character: str) -> str:
    """A pattern for one character, as it is and as JSON, Python, HTML or an address escapes it."""
    code = ord(character)
    percent = "".join(f"%{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))
    ways = [re.escape(character), percent]
    ways += [rf"\\+u{code:04x}", rf"&(?:amp;)*#0*{code};", rf"&(?:amp;)*#x0*{code:x};"]
    if code < 256:
        ways.append(rf"\\+x{code:02x}")
    if code > 0xFFFF:
        high, low = 0xD800 + ((code - 0x10000) >> 10), 0xDC00 + ((code - 0x10000) & 0x3FF)
        ways += [rf"\\+u{high:04x}\\+u{low:04x}", rf"\\+U{code:08x}"]
    named = html.escape(character)
    if named != character:
        ways.append(re.escape(named).replace("&", "&(?:amp;)*", 1))
        ways += [r"&(?:amp;)*apos;"] if character == "'" else []
    if is_unseen(character):
        ways.append(rf"U\+{code:04X}")
    if not character.isalnum():
        ways.append(r"\\+" + re.escape(character))
    return f"(?:{'|'.join(dict.fromkeys(ways))})"


def _views(text: str) -> list[str]:
    """The text folded, as it stands and with its escapes undone."""
    views = [folded(text)]
    plain = text
    for _ in range(_LEVELS):  # as JSON that stands in JSON
        if "%" in plain or "&" in plain:
            views.append(folded(html.unescape(html.unescape(unquote_plus(plain)))))
        if "\\" not in plain:
            break
        plain = _ESCAPE.sub(_unescaped, plain)
        views.append(folded(plain))
    if "<" in text:
        views.append(folded(_MARKUP.sub("", text)))
    if "U+" in text:
        views.append(folded(_NAMED.sub("", text)))
    return views


_LEVELS = 3
_ESCAPE = re.compile(
    r"\\(?:u([dD][89abAB][0-9a-fA-F]{2})\\+u([dD][c-fC-F][0-9a-fA-F]{2})|u([0-9a-fA-F]{4})"
    r"|U([0-9a-fA-F]{8})|x([0-9a-fA-F]{2})|(.))",
    re.DOTALL,
)
_NAMED = re.compile(r"U\+[0-9A-F]{4,6}")


def _unescaped(found: re.Match[str]) -> str:
    """What one escape of JSON or Python stands for."""
    high, low, *codes, other = found.groups()
    if high is not None:
        return chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + int(low, 16) - 0xDC00)
    for code in codes:
        if code is not None:
            number = int(code, 16)
            return chr(number) if number < 0x110000 else ""
    return " " if other in "nrt" else str(other)


def _folded_spans(secret: Secret, text: str) -> Iterator[Span]:
    """Where text folds to a secret, such as one in full-width letters."""
    characters: list[str] = []
    places: list[tuple[int, int]] = []
    at = 0
    for skipped in [*re.finditer(_ANSI, text), None]:
        end = len(text) if skipped is None else skipped.start()
        for i in range(at, end):
            for character in folded(text[i]):
                characters.append(character)
                places.append((i, i + 1))
        at = end if skipped is None else skipped.end()
    joined = "".join(characters)
    start = joined.find(secret.folded)
    while start >= 0:
        end = start + len(secret.folded)
        span = Span(places[start][0], places[end - 1][1], secret)
        around = text[max(0, span.start - 1) : span.start] + text[span.end : span.end + 1]
        if not secret.was_found or len(secret.folded) >= 8 or not re.search(r"\w", around):
            yield span
        start = joined.find(secret.folded, end)


def _cut_short(secret: Secret, text: str) -> Iterator[Span]:
    """Where text begins with a secret and an ellipsis stands for its rest."""
    assert secret.beginning is not None
    for found in secret.beginning.finditer(text):
        end = secret.rest(text, found.end())
        ellipsis = re.compile(_SKIPPED + r"(?:…|\.\.\.)").match(text, end)
        if ellipsis is not None:
            yield Span(found.start(), end, secret)


_NUMERIC = re.compile(r"[-+−]?(?:0|[1-9][\d,_]*)(?:\.\d+)?(?:[eE][-+]?\d+)?")
_NUMBER = re.compile(
    r"(?<![\w.])[-+−]?(?:\d{1,3}(?:[,_'\u2019.\u00a0\u202f\u2009]\d{3})+|\d+)(?:[.,]\d+)?"
    r"(?:[eE][-+]?\d+)?(?!\w|\.\d)"
)


def _readings(text: str) -> Iterator[decimal.Decimal]:
    """The numbers that a text may be, with its commas and dots read both ways."""
    yield from filter(None, (_number(text),))
    if "," in text:
        swapped = text.replace(".", "").replace(",", ".")
        yield from filter(None, (_number(swapped),))
    elif text.count(".") > 1:
        yield from filter(None, (_number(text.replace(".", "")),))


def _number(text: str) -> decimal.Decimal | None:
    try:
        return decimal.Decimal(_GROUPING.sub("", text.replace("−", "-")))
    except decimal.InvalidOperation:
        return None


_GROUPING = re.compile("[,_'\u2019\u00a0\u202f\u2009]")

_HEXADECIMAL = re.compile("[0-9a-f]{8,}")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{8,}(?:\\?\r?\n[A-Za-z0-9+/_-]{8,})*={0,2}")
_STANDARD = str.maketrans("-_", "+/", "\\\r\n=")
_LARGEST = 200_000_000
"""Bytes to which something compressed is unpacked."""


def _decoded(run: str) -> Iterator[bytes]:
    """What base64 holds, from each of its first characters on, and what is compressed in it."""
    plain = run.translate(_STANDARD)
    for offset in range(4):
        part = plain[offset:]
        content = binascii.a2b_base64(part + "A" * (-len(part) % 4))
        yield content
        if offset == 0 and content[:2] in (b"\x1f\x8b", b"\x78\x01", b"\x78\x9c", b"\x78\xda"):
            unpacked = unpacked_of(content)
            if unpacked is not None:
                yield unpacked


def unpacked_of(content: bytes) -> bytes | None:
    """What is compressed as gzip or zlib in some bytes, as much as can be read."""
    unpack = zlib.decompressobj(47)
    try:
        return unpack.decompress(content, _LARGEST)
    except zlib.error:
        return None


def _in_decoded(secret: Secret, content: bytes) -> bool:
    # three or four bytes also stand in noise
    return any(raw in content and (len(raw) >= 5 or _is_readable(content)) for raw in secret.raw)


def _is_readable(content: bytes) -> bool:
    printable = sum(32 <= byte < 127 or byte in b"\t\r\n" for byte in content)
    return printable >= 0.9 * len(content)


def base64_of(content: bytes) -> str:
    """Bytes in base64."""
    return base64.b64encode(content).decode()
