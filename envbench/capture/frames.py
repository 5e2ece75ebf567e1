"""Frames as they are seen: what `render` returns, held so that nothing can change it any more.

A frame is read after the state, so that the state is the one that the step left even where drawing
changes something. Whether `render` touches the environment's random state is the environment's own
matter; nothing here calls anything else of it.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from envbench.evidence.frames import FRAME_KINDS
from envbench.evidence.png import Picture, describe, is_picture
from envbench.evidence.portable import Json
from envbench.evidence.tagged import describe_error


class NotRendered(ValueError):
    """Frames were asked for, and there are none to be had; nothing was run."""


@dataclass(frozen=True, slots=True)
class RawFrame:
    """What was read of one frame.

    Attributes:
        content: the pixels or the text; None when it is that of the frame before, or when none
            could be had.
        error: why none could be had.
    """

    content: Picture | str | None
    error: dict[str, Json] | None = None

    @property
    def weight(self) -> int:
        """About how many bytes it takes."""
        content = self.content
        if content is None:
            return 100
        return 200 + (len(content) if isinstance(content, str) else content.nbytes)


AS_BEFORE = RawFrame(None)
"""A frame that shows what the one before it did."""


def frame_kind(env: Any) -> str:
    """The kind of frames that an environment gives: its render mode.

    Raises:
        NotRendered: when it gives none that can be kept.
    """
    try:
        mode = env.render_mode
    except Exception:  # it has none, or one that is computed and fails
        mode = None
    if isinstance(mode, str) and mode in FRAME_KINDS:
        return mode
    message = (
        'render=True needs an environment made with render_mode="rgb_array" or "ansi", and this'
        f" one has {mode!r}"
    )
    if isinstance(mode, str) and mode.endswith("_list"):
        message += ", which hands out each frame once: recorded, the agent would not get it"
    raise NotRendered(message)


class FrameReader:
    """Reads one frame after another.

    Args:
        kind: what frames they are.
        render: gives the present one.
    """

    def __init__(self, kind: str, render: Callable[[], Any]) -> None:
        self.kind = kind
        self._render = render
        self._last: Picture | str | None = None

    def read(self) -> RawFrame:
        """Read the present frame; what is raised, unless it interrupts, is in what is returned."""
        try:
            shown = self._render()
            content = _text(shown) if self.kind == "ansi" else _picture(shown)
            if self._is_last(content):
                return AS_BEFORE
            self._last = content if isinstance(content, str) else content.copy()
        except Exception as error:
            name = type(error).__name__
            return RawFrame(
                None, {"phase": "render", "type": name, "message": describe_error(error)}
            )
        return RawFrame(self._last)

    def _is_last(self, content: Picture | str) -> bool:
        last = self._last
        if isinstance(content, str):
            return isinstance(last, str) and content == last
        return isinstance(last, np.ndarray) and np.array_equal(content, last)


def _text(shown: Any) -> str:
    """Text as `render` may give it: a string, or a buffer that holds one."""
    text = shown.getvalue() if isinstance(shown, io.StringIO) else shown
    if not isinstance(text, str):
        raise TypeError(f"render returned {describe(shown)}, not text")
    text.encode()  # raises where it holds half of a character
    return str.__str__(text)  # of a subclass, the text alone


def _picture(shown: Any) -> Picture:
    if not is_picture(shown):
        raise TypeError(
            f"render returned {describe(shown)}, not a picture: an array of uint8 of height × width"
            " × 3"
        )
    return np.ascontiguousarray(np.asarray(shown))
