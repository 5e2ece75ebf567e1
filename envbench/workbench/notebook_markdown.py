"""Markdown and LaTeX as HTML that needs no script: formulas become MathML."""

from __future__ import annotations

import html
import re
from typing import Any

from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath


def markdown_html(source: str, attachments: dict[str, Any]) -> str:
    """Markdown as JupyterLab understands it.

    Args:
        source: the text.
        attachments: pictures by name, each a content in base64 by its type.
    """
    return str(
        MarkdownWithMath(renderer=_Renderer(escape=False, attachments=attachments)).render(source)
    )


def math_html(source: str) -> str:
    r"""LaTeX with its delimiters, as ``$x$``, ``$$x$$`` or ``\[x\]``, as MathML."""
    found = _DELIMITED.fullmatch(source.strip())
    if found is None:
        return _formula(source.strip(), block=True, given=source)
    body = next(part for part in found.groups() if part is not None)
    return _formula(body, block=not source.strip().startswith("\\("), given=source)


_DELIMITED = re.compile(
    r"\$\$(.+?)\$\$|\$\\displaystyle(.+?)\$|\$(.+?)\$|\\\[(.+?)\\\]|\\\((.+?)\\\)", re.DOTALL
)


class _Renderer(IPythonRenderer):
    """Markdown with its formulas as MathML, and its attachments embedded."""

    def block_math(self, body: str) -> str:
        return _formula(body, block=True, given=f"$${body}$$")

    def multiline_math(self, text: str) -> str:
        return math_html(text)

    def latex_environment(self, name: str, body: str) -> str:
        given = f"\\begin{{{name}}}{body}\\end{{{name}}}"
        inner = {"equation": body, "equation*": body, "displaymath": body}.get(name, given)
        return _formula(inner, block=True, given=given)

    def inline_math(self, body: str) -> str:
        return _formula(body, block=False, given=f"${body}$")

    def _embed_image_or_attachment(self, src: str) -> str:
        if src.startswith("attachment:") and src[len("attachment:") :] not in self.attachments:
            return ""
        return str(super()._embed_image_or_attachment(src))


def _formula(tex: str, *, block: bool, given: str) -> str:
    """A formula as MathML; as it was written where it cannot be read."""
    from latex2mathml.converter import convert

    try:
        made = convert(tex, display="block" if block else "inline")
    except Exception:  # it raises what it likes at what it cannot read
        return f"<code>{html.escape(given)}</code>"
    return str(made)
