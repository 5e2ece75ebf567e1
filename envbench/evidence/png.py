"""Pictures as PNG, without loss and with the standard library alone.

Frames of simulators are flat: one filter for all lines and a moderate compression come within a
third of what an image library makes of them, in less time (`docs/decisions/capture-frames.md`).
The format is that of the PNG specification, ISO/IEC 15948.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

Picture = np.ndarray[Any, np.dtype[np.uint8]]
"""Height × width, or height × width × channels; 1 channel is grey, 3 RGB, 2 and 4 have alpha."""

SIGNATURE = b"\x89PNG\r\n\x1a\n"

LEVEL = 4
"""Of zlib: half the bytes of level 1 on such frames; higher ones cost more and gain little."""

_COLOUR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}
_CHANNELS = {kind: channels for channels, kind in _COLOUR_TYPES.items()}
_NONE, _SUB, _UP, _AVERAGE, _PAETH = range(5)
_LARGEST = 2**31 - 1


def is_picture(value: Any) -> bool:
    """Whether an array can be written as PNG: uint8, not empty, of 1 to 4 channels."""
    return (
        isinstance(value, np.ndarray)
        and value.dtype == np.uint8
        and value.size > 0
        and max(value.shape) <= _LARGEST
        and (value.ndim == 2 or (value.ndim == 3 and value.shape[2] in _COLOUR_TYPES))
    )


def write_png(picture: Picture) -> bytes:
    """A picture as PNG; equal pictures give equal bytes.

    Raises:
        ValueError: when it is none, see `is_picture`.
    """
    if not is_picture(picture):
        raise ValueError(f"no picture of uint8, but {describe(picture)}")
    height, width = picture.shape[:2]
    channels = 1 if picture.ndim == 2 else picture.shape[2]
    lines = np.ascontiguousarray(picture).reshape(height, width * channels)
    filtered = np.empty((height, 1 + width * channels), np.uint8)
    # each line as its difference from the one above: most of them are zeros then
    filtered[:, 0] = _UP
    filtered[0, 1:] = lines[0]
    np.subtract(lines[1:], lines[:-1], out=filtered[1:, 1:])
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPES[channels], 0, 0, 0)
    content = zlib.compress(filtered.data, LEVEL)
    chunks = (b"IHDR", header), (b"IDAT", content), (b"IEND", b"")
    return SIGNATURE + b"".join([_chunk(name, body) for name, body in chunks])


def read_png(content: bytes) -> Picture:
    """The picture in a PNG file of 8 bits a channel, without a palette and not interlaced.

    Returns:
        Height × width for grey, else height × width × channels.

    Raises:
        ValueError: when it is no such file, or damaged.
    """
    width, height, channels = _header(content)
    packed = b"".join(body for name, body in _chunks(content) if name == b"IDAT")
    line = 1 + width * channels
    try:
        # never more than was announced: a small file may hold a great many zeros
        inflate = zlib.decompressobj()
        filtered = inflate.decompress(packed, height * line + 1)
    except zlib.error as error:
        raise ValueError(f"a damaged PNG: {error}") from None
    if len(filtered) != height * line:
        raise ValueError("a damaged PNG: its content does not have the size of its picture")
    lines = np.frombuffer(filtered, np.uint8).reshape(height, line)
    pixels = _unfilter(lines[:, 0], lines[:, 1:], channels)
    return pixels.reshape((height, width) if channels == 1 else (height, width, channels))


def png_size(content: bytes) -> tuple[int, int]:
    """Width and height of a PNG that `read_png` reads.

    Raises:
        ValueError: when it is no such file.
    """
    width, height, _ = _header(content)
    return width, height


def describe(value: Any) -> str:
    """What a value is that should have been a picture, for messages."""
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} with shape {value.shape}"
    return "None" if value is None else f"a value of type {type(value).__name__}"


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def _chunks(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Name and body of each chunk.

    Raises:
        ValueError: when the file is cut short, or a checksum does not fit.
    """
    at = len(SIGNATURE)
    while at < len(content):
        head = content[at : at + 8]
        size = int.from_bytes(head[:4], "big")
        end = at + 12 + size
        if len(head) < 8 or end > len(content):
            raise ValueError("a PNG that is cut short")
        name, body = head[4:], content[at + 8 : end - 4]
        if zlib.crc32(name + body) != int.from_bytes(content[end - 4 : end], "big"):
            raise ValueError(f"a damaged PNG: chunk {name!r} does not have its checksum")
        yield name, body
        at = end


def _header(content: bytes) -> tuple[int, int, int]:
    """Width, height and number of channels."""
    if not content.startswith(SIGNATURE):
        raise ValueError("no PNG: it does not begin as one")
    name, body = next(_chunks(content), (b"", b""))
    if name != b"IHDR" or len(body) != 13:
        raise ValueError("a damaged PNG: it has no header")
    width, height, depth, colour, compression, filters, interlaced = struct.unpack(">IIBBBBB", body)
    if depth != 8 or colour not in _CHANNELS or compression or filters or interlaced:
        raise ValueError(
            "a PNG with a palette, interlaced, or not of 8 bits a channel: an image library reads"
            " it, this does not"
        )
    if not (0 < width <= _LARGEST and 0 < height <= _LARGEST):
        raise ValueError(f"a damaged PNG: {width} × {height} is no size of a picture")
    return width, height, _CHANNELS[colour]


def _unfilter(kinds: Picture, filtered: Picture, channels: int) -> Picture:
    """Undo the filter of each line (section 9 of the specification); sums are modulo 256."""
    if (kinds == _UP).all():  # as `write_png` leaves them
        return np.add.accumulate(filtered, axis=0, dtype=np.uint8)
    pixels = np.empty_like(filtered)
    above = np.zeros(filtered.shape[1], np.uint8)
    for kind, line, out in zip(kinds.tolist(), filtered, pixels, strict=True):
        if kind == _NONE:
            out[:] = line
        elif kind == _SUB:
            by_channel = line.reshape(-1, channels)
            out[:] = np.add.accumulate(by_channel, axis=0, dtype=np.uint8).reshape(-1)
        elif kind == _UP:
            np.add(line, above, out=out)
        elif kind in (_AVERAGE, _PAETH):
            out[:] = _predicted(kind, line.tolist(), above.tolist(), channels)
        else:
            raise ValueError(f"a damaged PNG: there is no filter {kind}")
        above = out
    return pixels


def _predicted(kind: int, line: list[int], above: list[int], channels: int) -> list[int]:
    """A line whose every byte depends on the one before it; slow, and not of our writing."""
    left = [0] * channels  # of the pixel before the first
    corner = [0] * channels + above
    done: list[int] = []
    for at, value in enumerate(line):
        a = done[at - channels] if at >= channels else left[at]
        b, c = above[at], corner[at]
        guess = (a + b) // 2 if kind == _AVERAGE else _paeth(a, b, c)
        done.append((value + guess) % 256)
    return done


def _paeth(a: int, b: int, c: int) -> int:
    """Of left, above and corner the one nearest to left + above - corner, in this order."""
    guess = a + b - c
    return min((abs(guess - a), 0, a), (abs(guess - b), 1, b), (abs(guess - c), 2, c))[2]
