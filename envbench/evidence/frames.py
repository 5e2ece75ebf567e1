"""Frames: what an environment showed after its reset and after each step."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import overload

from envbench.evidence.png import Picture, png_size, read_png

FRAME_KINDS = ("rgb_array", "ansi")
"""The render modes whose frames are kept: pictures as PNG, and text."""

AT_ONCE = 64
"""Frames that are read together when all are."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame.

    Attributes:
        kind: ``"rgb_array"`` for a picture, ``"ansi"`` for text.
        sha256: SHA-256 of `content`; equal frames have equal ones.
        content: the picture as a PNG file, or the text in UTF-8.
    """

    kind: str
    sha256: str
    content: bytes

    @property
    def png(self) -> bytes:
        """The picture as a PNG file.

        Raises:
            ValueError: when the frame is text.
        """
        self._require("rgb_array", "text")
        return self.content

    @property
    def array(self) -> Picture:
        """The pixels as the environment gave them: uint8, height × width × channels.

        Raises:
            ValueError: when the frame is text, or a PNG of another kind than ours.
        """
        return read_png(self.png)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the picture, in pixels.

        Raises:
            ValueError: when the frame is text.
        """
        return png_size(self.png)

    @property
    def text(self) -> str:
        """The text; it may hold ANSI escape codes.

        Raises:
            ValueError: when the frame is a picture.
        """
        self._require("ansi", "a picture")
        return self.content.decode()

    def __repr__(self) -> str:
        return f"<Frame {self.kind}, {len(self.content)} bytes, {self.sha256[:12]}>"

    def _require(self, kind: str, what: str) -> None:
        if self.kind != kind:
            raise ValueError(f"the frame is {what}: it has kind {self.kind!r}")


class Frames(Sequence[Frame | None]):
    """The frames of an episode: index 0 after reset, i after step i; None where there is none.

    Each is read when it is asked for. An episode that was not rendered has None everywhere, and
    `kind` None.

    Args:
        kind: ``"rgb_array"`` or ``"ansi"``; None when the episode was not rendered.
        hashes: the SHA-256 of each frame's content, None where there is no frame.
        read: gives the contents of some frames by their SHA-256.
    """

    def __init__(
        self,
        kind: str | None,
        hashes: Sequence[str | None],
        read: Callable[[list[str]], dict[str, bytes]],
    ) -> None:
        self.kind = kind
        self.hashes = tuple(hashes)
        self._contents = read

    def read(self, hashes: Iterable[str]) -> dict[str, Frame]:
        """Some frames by their SHA-256, each once, in one reading.

        Raises:
            ValueError: when the content of one is missing.
        """
        wanted = list(dict.fromkeys(hashes))
        if not wanted or self.kind is None:
            return {}
        contents = self._contents(wanted)
        missing = [digest for digest in wanted if digest not in contents]
        if missing:
            raise ValueError(f"the content of frame {missing[0]} is missing")
        return {digest: Frame(self.kind, digest, contents[digest]) for digest in wanted}

    def __len__(self) -> int:
        return len(self.hashes)

    @overload
    def __getitem__(self, index: int) -> Frame | None: ...

    @overload
    def __getitem__(self, index: slice) -> list[Frame | None]: ...

    def __getitem__(self, index: int | slice) -> Frame | list[Frame | None] | None:
        found = self.hashes[index]
        if isinstance(found, tuple):
            frames = self.read(digest for digest in found if digest is not None)
            return [None if digest is None else frames[digest] for digest in found]
        return None if found is None else self.read([found])[found]

    def __iter__(self) -> Iterator[Frame | None]:
        for first in range(0, len(self), AT_ONCE):
            yield from self[first : first + AT_ONCE]

    def __repr__(self) -> str:
        if self.kind is None:
            return f"<Frames: not rendered, {len(self)} entries>"
        kept = [digest for digest in self.hashes if digest is not None]
        return f"<Frames: {len(kept)} of {len(self)} {self.kind}, {len(set(kept))} distinct>"


def aligned(hashes: Iterable[tuple[int, str]], n_steps: int) -> list[str | None]:
    """The hash of each frame by its step: `n_steps` + 1 entries, None where there is no frame."""
    found: list[str | None] = [None] * (n_steps + 1)
    for step, digest in hashes:
        if 0 <= step <= n_steps:
            found[step] = digest
    return found


def content_hash(content: bytes) -> str:
    """SHA-256 of a frame's content, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()
