"""The contents of a notebook as HTML for a page: inert, and without what is redacted."""

from __future__ import annotations

import base64
import binascii
import html
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from nbconvert.filters.ansi import ansi2html
from nbconvert.filters.highlight import Highlight2HTML

from envbench.workbench import page, payload
from envbench.workbench.html_tokens import End, Raw, Start, Text, Token, html_of, tokens
from envbench.workbench.inert_html import Inert, data_of
from envbench.workbench.markup import style
from envbench.workbench.notebook_frame import Shape
from envbench.workbench.notebook_markdown import markdown_html, math_html
from envbench.workbench.payload_redaction import redact_payload
from envbench.workbench.redaction import Redactor

LARGEST_PICTURE = 20_000_000
"""Bytes of a picture beside the notebook that is taken into the page."""

LARGEST_DRAWING = 1_000_000
"""Characters of an SVG that stands in the page itself; a larger one is a picture."""

SHOWN_FIRST = (
    "text/html",
    "text/markdown",
    "image/svg+xml",
    "text/latex",
    "image/png",
    "image/jpeg",
    "image/webp",
    "image/gif",
    "text/plain",
)
"""Which form of an output is shown, of those that it has."""


@dataclass
class Contents:
    """Makes HTML of cells.

    Attributes:
        redactor: takes out what is redacted.
        folder: where pictures beside the notebook are looked for.
        lexer: the name of the notebook's language.
        notes: what a reader should know, by cell (from 1) and words, with how often.
        has_stepper: whether an episode was found.
        has_browser: whether a list of episodes was found.
    """

    redactor: Redactor
    folder: Path
    lexer: str = "ipython3"
    notes: Counter[tuple[int, str]] = field(default_factory=Counter)
    has_stepper: bool = False
    has_browser: bool = False
    _number: int = 0
    _drawings: int = 0

    def cell(self, number: int, cell: Mapping[str, Any]) -> tuple[Shape, list[str]]:
        """What the frame shows of a cell, and its HTML: its source, then each output.

        Args:
            number: the cell's place in the notebook, from 1.
            cell: the cell, as nbformat has it.
        """
        self.redactor.cell = self._number = number
        kind, source = cell["cell_type"], cell["source"]
        if kind == "markdown":
            clean = self.redactor.text(source, "markdown")
            made = markdown_html(clean, cell.get("attachments") or {})
            return Shape("markdown"), [self.html(made, "markdown")]
        if kind == "raw":
            return Shape("raw"), [
                f"<pre>{html.escape(self.redactor.text(source, 'raw cell'))}</pre>"
            ]
        pieces = [self._code(self.redactor.text(source, "code"))]
        kinds: list[str] = []
        results: set[int] = set()
        for output in cell["outputs"]:
            shown = self._output(output)
            if shown is not None:
                if output["output_type"] == "execute_result":
                    results.add(len(kinds))
                kinds.append(shown[0])
                pieces.append(shown[1])
        executed = cell.get("execution_count")
        return Shape("code", executed, tuple(kinds), frozenset(results)), pieces

    def html(self, source: str, kind: str) -> str:
        """Some HTML, inert and without what is redacted."""
        inert = Inert(self._picture_beside)
        found = inert.tokens(tokens(source))
        self.has_browser = self.has_browser or inert.has_browser
        self._episodes(found)
        self._embedded(found)
        self.redactor.tokens(found, kind, known_classes())
        for what, times in Counter(inert.left_out).items():
            self._note(f"{what} left out", times)
        return html_of(found)

    # -- sources -----------------------------------------------------------------------------------

    def _code(self, source: str) -> str:
        first, newline, rest = source.partition("\n")
        if first.lstrip().startswith("%%sql") and newline:
            query = _HIGHLIGHTED.sub("", self._highlight(rest, language="sql"))
            return str(self._highlight(first)).replace("\n</pre>", f"\n{query}</pre>", 1)
        return str(self._highlight(source))

    @cached_property
    def _highlight(self) -> Any:
        make: Any = Highlight2HTML  # it is not typed
        return make(pygments_lexer=self.lexer)

    # -- outputs -----------------------------------------------------------------------------------

    def _output(self, output: Mapping[str, Any]) -> tuple[str, str] | None:
        kind = output["output_type"]
        if kind == "stream":
            return output["name"], self._terminal(output["text"], "printed text")
        if kind == "error":
            lines = output["traceback"] or [f"{output['ename']}: {output['evalue']}"]
            return "error", self._terminal("\n".join(lines), "traceback")
        return self._data(output["data"], output.get("metadata") or {})

    def _terminal(self, text: str, kind: str) -> str:
        paths = _MACHINE.findall(text)
        if paths:
            self._note("paths of the machine that ran it", len(paths))
        to_html: Any = ansi2html  # it is not typed
        return str(to_html(self.redactor.text(text, kind)))

    def _data(self, data: Mapping[str, Any], about: Mapping[str, Any]) -> tuple[str, str] | None:
        """The first form of an output that shows something, and its HTML."""
        if any("widget-view" in name for name in data) and "text/html" not in data:
            self._note("widgets that need a kernel, shown as text")
        drawn = dict(data)
        if "image/svg+xml" not in drawn and "text/html" not in drawn:
            drawn |= self._drawn(data)
        for name in SHOWN_FIRST:
            if name in drawn:
                shown = self._shown(name, _text(drawn[name]), drawn, about.get(name) or {})
                if shown is not None:
                    return shown
        if data:
            self._note(f"output of the type {sorted(data)[0]} left out")
        return None

    def _shown(
        self, name: str, content: str, data: Mapping[str, Any], about: Mapping[str, Any]
    ) -> tuple[str, str] | None:
        if name == "text/plain":
            return name, self._terminal(content, "text")
        if name == "text/html":
            made = self.html(content, "HTML")
            return (name, made) if _shows(made) else None
        if name == "text/markdown":
            clean = self.redactor.text(content, "markdown")
            return name, self.html(markdown_html(clean, {}), "markdown")
        if name == "text/latex":
            return "text/html", self.html(math_html(self.redactor.text(content, "LaTeX")), "LaTeX")
        if name == "image/svg+xml" and len(content) <= LARGEST_DRAWING:
            return "text/html", self._drawing(content)
        picture = _data_uri(name, content)
        if picture is None:
            self._note("picture that cannot be read left out")
            return None
        start = Start("img", [("src", picture), ("alt", _text(data.get("text/plain", "")))])
        for side in ("width", "height"):
            if type(about.get(side)) is int:
                start.put(side, str(about[side]))
        return "text/html", self.html(html_of([start]), "picture")

    def _drawing(self, source: str) -> str:
        """An SVG as a part of the page; its ids are made its own, as many stand on one page."""
        found = tokens(source)
        self._drawings += 1
        prefix = f"c{self._number}n{self._drawings}-"
        for token in found:
            if isinstance(token, Start):
                token.attributes = [
                    (name, _with_own_ids(name, value, prefix)) for name, value in token.attributes
                ]
        return self.html(html_of(found), "chart")

    def _drawn(self, data: Mapping[str, Any]) -> dict[str, str]:
        """A chart as SVG where the notebook has only its specification."""
        for name, spec in data.items():
            found = re.fullmatch(r"application/vnd\.(vega|vegalite)\.v(\d)(?:\.\d+)?\+json", name)
            if found is None or not isinstance(spec, dict):
                continue
            import vl_convert

            draw: Any = vl_convert.vega_to_svg if found[1] == "vega" else vl_convert.vegalite_to_svg
            try:
                clean = self.redactor.json(json.loads(json.dumps(spec)), "chart")
                return {"image/svg+xml": draw(clean, allowed_base_urls=[])}
            except (ValueError, TypeError) as error:
                self._note(f"chart that could not be drawn ({str(error).splitlines()[0][:80]})")
        return {}

    # -- what is packed in HTML ------------------------------------------------------------------

    def _episodes(self, found: list[Token]) -> None:
        """Redact the packed episodes in some HTML, and what is shown of them without scripts."""
        redacts = bool(self.redactor.redactions)
        for stepper in list(_steppers(found)):
            self.has_stepper = True
            contents = []
            for script in stepper.scripts:
                try:
                    content = payload.unpack(script.text)
                    if redacts:
                        content = redact_payload(content, self.redactor)
                        script.text = payload.pack(content)
                    contents.append(content)
                except (ValueError, KeyError, TypeError, IndexError, AttributeError):
                    self._note("episode that cannot be read left out")
                    script.text = ""
                script.text = self._apart(script.text)
            if redacts and stepper.static is not None:
                first, last = stepper.static
                made = tokens(page.static_html(contents) if contents else "")
                style_of = [
                    t for t in made if not (isinstance(t, Raw) and t.start.name == "script")
                ]
                found[first:last] = style_of

    def _embedded(self, found: list[Token]) -> None:
        """Look into what is embedded in addresses."""
        for token in found:
            if not isinstance(token, Start):
                continue
            for name, value in list(token.attributes):
                if value[:5].lower() != "data:":
                    continue
                read = data_of(value)
                clean = None if read is None else self._clean_data(*read)
                if clean is None:
                    self._note("embedded content that may hold what is redacted left out")
                    token.put(name, "")
                else:
                    token.put(name, self._apart(clean))

    def _clean_data(self, kind: str, content: bytes) -> str | None:
        """Embedded content without what is redacted, None when that cannot be had."""
        finder = self.redactor.finder
        if kind.startswith("text/") or kind in ("image/svg+xml", "application/json"):
            try:
                plain = content.decode()
            except UnicodeDecodeError:
                return None if finder else _address(kind, content)
            clean = self.redactor.text(plain, "picture" if "svg" in kind else "attachment")
            if finder and finder.holds(_visible(clean)):
                return None
            return _address(kind, clean.encode())
        if finder:
            if finder.in_bytes(content) or not kind.startswith(
                ("image/", "audio/", "video/", "font/")
            ):
                return None
            self._note("pictures, sounds or films, which redaction does not look into")
        return _address(kind, content)

    def _apart(self, text: str) -> str:
        """Base64 in which no value stands by chance: a line break does not matter in it."""
        for secret in self.redactor.finder.secrets:
            if not secret.was_found and len(secret.text) > 1:
                text = text.replace(secret.text, f"{secret.text[:1]}\n{secret.text[1:]}")
        return text

    def _picture_beside(self, address: str) -> str | None:
        """A picture that lies beside the notebook, or below its folder."""
        try:
            path = (self.folder / unquote(re.split("[?#]", address)[0])).resolve()
            if not path.is_relative_to(self.folder.resolve()) or not path.is_file():
                return None
            if path.stat().st_size > LARGEST_PICTURE:
                return None
            content = path.read_bytes()
        except (OSError, ValueError):
            return None
        kind = _kind_of(content)
        return None if kind is None else _address(kind, content)

    def _note(self, what: str, times: int = 1) -> None:
        self.notes[self._number, what] += times


@dataclass(slots=True)
class _Stepper:
    """A stepper in a list of tokens: its packed episodes, and where its static part stands."""

    scripts: list[Raw]
    static: tuple[int, int] | None


def _steppers(found: list[Token]) -> Iterator[_Stepper]:
    """The steppers of some HTML, the last one first, so that each can be changed in its place."""
    begins = [
        i
        for i, token in enumerate(found)
        if isinstance(token, Start) and "envbench-stepper" in (token.get("class") or "").split()
    ]
    scripts = [
        i
        for i, token in enumerate(found)
        if isinstance(token, Raw) and token.start.get("type") == page.MIME
    ]
    if scripts and (not begins or scripts[0] < begins[0]):
        begins.insert(0, 0)
    ends = [*begins[1:], len(found)] if begins else []
    for begin, end in reversed(list(zip(begins, ends, strict=True))):
        packed = [found[i] for i in scripts if begin <= i < end]
        yield _Stepper(
            [each for each in packed if isinstance(each, Raw)], _static(found, begin, end)
        )


def _static(found: list[Token], begin: int, end: int) -> tuple[int, int] | None:
    """The range of tokens inside the element that is shown without scripts."""
    first, depth = None, 0
    for i in range(begin, end):
        token = found[i]
        if first is None:
            if isinstance(token, Start) and token.get("data-envbench-static") is not None:
                first, depth = i + 1, 1
        elif isinstance(token, Start) and token.name == "div":
            depth += 1
        elif isinstance(token, End) and token.name == "div":
            depth -= 1
            if depth == 0:
                return first, i
    return None


def known_classes() -> frozenset[str]:
    """Words of `class` attributes that are in the styles of ours, and so tell nothing."""
    return frozenset(re.findall(r"\.(envbench-[\w-]+)", style())) | _OTHER_CLASSES


_OTHER_CLASSES = frozenset({"envbench-stepper", "envbench-chart", "envbench-value"})


def _with_own_ids(name: str, value: str, prefix: str) -> str:
    if name == "id":
        return prefix + value
    if name in ("href", "xlink:href") and value.startswith("#") and "/" not in value:
        return f"#{prefix}{value[1:]}"
    if name in ("aria-labelledby", "aria-describedby"):
        return " ".join(prefix + each for each in value.split())
    return re.sub(r"url\((['\"]?)#", rf"url(\1#{prefix}", value)


def _shows(made: str) -> bool:
    """Whether there is anything to see in some HTML, or a style for what is to be seen."""
    return any(
        (isinstance(token, Text) and token.text.strip())
        or (isinstance(token, Start) and token.name in _VISIBLE)
        or (isinstance(token, Raw) and token.start.name == "style")
        for token in tokens(made)
    )


_VISIBLE = frozenset("img svg table input button canvas hr progress meter audio video math".split())  # noqa: SIM905


def _visible(source: str) -> str:
    return "".join(token.text for token in tokens(source) if isinstance(token, Text))


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _data_uri(kind: str, content: str) -> str | None:
    if kind == "image/svg+xml":
        return _address(kind, content.encode())
    try:
        raw = base64.b64decode("".join(content.split()), validate=True)
    except binascii.Error:
        return None
    found = _kind_of(raw)
    return None if found is None else _address(found, raw)


def _address(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def _kind_of(content: bytes) -> str | None:
    """The type of a picture by its first bytes."""
    for begin, kind in (
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"GIF8", "image/gif"),
        (b"BM", "image/bmp"),
    ):
        if content.startswith(begin):
            return kind
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    if content[4:12] in (b"ftypavif", b"ftypavis"):
        return "image/avif"
    return "image/svg+xml" if re.match(rb"\s*(<\?xml|<!DOCTYPE svg|<svg|<!--)", content) else None


_HIGHLIGHTED = re.compile(r"^.*?<pre>(?:<span></span>)?|\n?</pre></div>\n?$", re.DOTALL)

_MACHINE = re.compile(
    r"(?<![\w/.:])(?:/(?:home|Users|root|tmp|var|opt|mnt|srv|private|usr|work|data|workspace)/"
    r"[^\s\"'<>:,;)\]]+|[A-Za-z]:\\(?:Users|Windows|Program)[^\s\"'<>:,;)\]]*)"
)
