"""Redaction: values taken out of text, HTML and packed episodes, and counted.

A *path* is looked for in the states, infos, observations, actions and audited rows of each packed
episode, as the rules on changes look for theirs. The values that stand there are then looked for
everywhere else, as those that a caller names. See `docs/sharing.md` for what is promised.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from envbench.changes.paths import split_pattern
from envbench.evidence.portable import Json
from envbench.workbench.html_tokens import INLINE, TEXT_ONLY, Raw, Start, Text, Token
from envbench.workbench.spellings import REDACTED, Finder, Secret, check, redacted

BETWEEN = "\n\0\n"
"""Stands between texts that are looked at together; no value spans it."""


@dataclass(frozen=True, slots=True)
class Redactions:
    """What is to be redacted.

    Attributes:
        paths: patterns of paths, such as ``/customers/*/email``.
        values: texts.

    Raises:
        TypeError: when one of them is no text.
        ValueError: when a path is none, or a value too short to be looked for.
    """

    paths: tuple[str, ...] = ()
    values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for path in self.paths:
            if not split_pattern(path, "redact"):
                raise ValueError("redact: a path names a part of the states, such as /customers/**")
        for value in self.values:
            check(value)

    def __bool__(self) -> bool:
        return bool(self.paths or self.values)


@dataclass(frozen=True, slots=True)
class Place:
    """Where redactions were counted: a cell of the notebook (from 1), and what of it."""

    cell: int | None
    kind: str


@dataclass(slots=True)
class Redactor:
    """Takes values out of what it is given, and counts.

    Attributes:
        redactions: what is to be redacted.
        counts: occurrences by redaction (``path /x``, ``value 1``, ``found``) and place.
        cell: the cell that is being looked at, from 1; None for what is no cell's.
        aliases: what stands for the keys of rows at redacted paths, by their canonical JSON.
        names: what stands for names of members that hold a value.
        keys: what stands for the keys of rows that hold a value, by their canonical JSON.
    """

    redactions: Redactions
    counts: Counter[tuple[str, Place]] = field(default_factory=Counter)
    cell: int | None = None
    aliases: dict[bytes, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    keys: dict[bytes, str] = field(default_factory=dict)
    finder: Finder = field(init=False)
    _names: dict[Secret, str] = field(init=False)

    def __post_init__(self) -> None:
        secrets = [check(value) for value in self.redactions.values]
        self._names = {secret: f"value {i}" for i, secret in enumerate(secrets, 1)}
        self.finder = Finder(secrets)

    def also(self, secrets: Iterable[Secret]) -> None:
        """Look for more values, which were found at redacted paths."""
        self.finder = Finder([*self.finder.secrets, *secrets])

    def count(self, name: str, kind: str, number: int = 1) -> None:
        """Count occurrences of a redaction."""
        self.counts[name, Place(self.cell, kind)] += number

    def count_secrets(self, secrets: Iterable[Secret], kind: str) -> None:
        """Count occurrences of values."""
        for secret in secrets:
            self.count(self._names.get(secret, "found"), kind)

    def total(self, name: str) -> int:
        """How often a redaction was needed."""
        return sum(number for (each, _), number in self.counts.items() if each == name)

    def text(self, text: str, kind: str) -> str:
        """Text without the values."""
        clean, found = redacted(text, self.finder)
        self.count_secrets(found, kind)
        return clean

    def json(self, value: Json, kind: str) -> Json:
        """A JSON value without the values: in its texts, its numbers and the names of members."""
        if type(value) is str:
            return self.text(value, kind)
        if type(value) in (int, float):
            text = str(value)
            return value if (clean := self.text(text, kind)) == text else clean
        if type(value) is list:
            return [self.json(item, kind) for item in value]
        if type(value) is dict:
            return {
                self.text(str(name), kind): self.json(item, kind) for name, item in value.items()
            }
        return value

    def texts(self, texts: Sequence[str]) -> list[tuple[str, list[Secret]]]:
        """Many texts without the values, each with those that stood there; nothing is counted."""
        spans = self.finder.spans(BETWEEN.join(texts))
        if not spans:
            return [(text, []) for text in texts]
        found: list[tuple[str, list[Secret]]] = []
        at, i = 0, 0
        for text in texts:
            end = at + len(text)
            while i < len(spans) and spans[i].end <= at:
                i += 1
            touched = i < len(spans) and spans[i].start < end
            found.append(redacted(text, self.finder) if touched else (text, []))
            at = end + len(BETWEEN)
        return found

    def tokens(self, found: list[Token], kind: str, known: frozenset[str] = frozenset()) -> None:
        """Take the values out of HTML, also one that runs over several elements.

        Args:
            found: tokens, which are changed.
            kind: what the HTML is, for the count.
            known: words of `class` attributes that are ours and tell nothing.
        """
        self._visible_text(found, kind)
        self._attributes(found, kind, known)
        for token in found:
            if isinstance(token, Raw) and token.start.name == "style":
                token.text = self.text(token.text, kind)

    def _visible_text(self, found: list[Token], kind: str) -> None:
        pieces, owners, starts = [], [], []
        at = 0
        for token in found:
            if isinstance(token, Text) or (
                isinstance(token, Raw) and token.start.name in TEXT_ONLY
            ):
                piece = token.text
                owners.append(token)
                starts.append(at)
            elif not isinstance(token, Raw) and token_name(token) not in INLINE:
                piece = "\n"
            else:
                continue
            pieces.append(piece)
            at += len(piece)
        joined = "".join(pieces)
        spans = self.finder.spans(joined)
        self.count_secrets((span.secret for span in spans), kind)
        i = 0
        for owner, start in zip(owners, starts, strict=True):
            end = start + len(owner.text)
            while i < len(spans) and spans[i].end <= start:
                i += 1
            changed, at, j = [], start, i
            while j < len(spans) and spans[j].start < end:
                span = spans[j]
                if span.start >= start:
                    changed += [joined[at : span.start], REDACTED]
                at = min(span.end, end)
                j += 1
            if j > i:
                owner.text = "".join([*changed, joined[at:end]])

    def _attributes(self, found: list[Token], kind: str, known: frozenset[str]) -> None:
        places: list[tuple[Start, str]] = []
        texts: list[str] = []
        for token in found:
            start = token.start if isinstance(token, Raw) else token
            if not isinstance(start, Start):
                continue
            for name, value in start.attributes:
                if (
                    value
                    and value[:5].lower() != "data:"  # what is embedded is looked at by itself
                    and not (name == "class" and known.issuperset(value.split()))
                ):
                    places.append((start, name))
                    texts.append(value)
                if self.finder.holds(name):
                    places.append((start, name))
                    texts.append("")
        for (start, name), old, (new, secrets) in zip(
            places, texts, self.texts(texts), strict=True
        ):
            if not old:
                self.count_secrets([self.finder.spans(name)[0].secret], kind)
                start.drop(name)
            elif secrets:
                self.count_secrets(secrets, kind)
                if name in GEOMETRY:
                    new = "".join(self._moved(old))
                start.put(name, new)

    def _moved(self, value: str) -> Iterator[str]:
        """A geometry in which a number that is redacted elsewhere is another one nearby."""
        at = 0
        for span in self.finder.spans(value):
            yield value[at : span.start]
            yield _nearby(value[span.start : span.end], self.finder)
            at = span.end
        yield value[at:]


GEOMETRY = frozenset(
    "d points transform x y x1 x2 y1 y2 cx cy r rx ry dx dy width height viewbox offset style "  # noqa: SIM905
    "font-size stroke-width stroke-dasharray stroke-dashoffset patterntransform gradienttransform "
    "colspan rowspan tabindex size border cellpadding cellspacing".split()
)
"""Attributes whose numbers place and size things: they are moved a little, not taken away."""


def _nearby(text: str, finder: Finder) -> str:
    """A number near the one that a text is, REDACTED when it is none."""
    try:
        number = float(text)
    except ValueError:
        return REDACTED
    step = 10.0 ** -len(text.partition(".")[2]) if "." in text else 1.0
    for i in range(1, 50):
        moved = f"{number + i * step:.10g}"
        if not finder.holds(moved):
            return moved
    return "0"


def token_name(token: Token) -> str:
    """The name of the element that a tag belongs to."""
    return "" if isinstance(token, (Text, Raw)) else token.name
