"""A frame as HTML: the picture, or the text that a terminal would have shown."""

from __future__ import annotations

import base64
import re

from envbench.evidence.frames import Frame
from envbench.workbench.markup import fragment, text

_STYLING = re.compile(r"\x1b\[([0-9;]*)m")


def frame_html(frame: Frame) -> str:
    """A frame as an HTML fragment; what a terminal would colour is marked."""
    if frame.kind == "ansi":
        return fragment(f"<pre>{_marked(frame.text)}</pre>")
    source = base64.b64encode(frame.png).decode()
    name = f"frame {frame.sha256[:12]}"
    return fragment(f'<img src="data:image/png;base64,{source}" alt="{name}">')


def _marked(shown: str) -> str:
    """Text with its ANSI styles: what has any is marked, whichever it is."""
    first, *rest = _STYLING.split(shown)
    parts = [text(first)]
    for codes, piece in zip(rest[::2], rest[1::2], strict=True):
        plain = not piece or not codes.strip("0;")
        parts.append(text(piece) if plain else f"<mark>{text(piece)}</mark>")
    return "".join(parts)
