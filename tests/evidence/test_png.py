"""Pictures as PNG: what is written is read back bit by bit, here and by another program."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pygame
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from envbench.evidence.png import SIGNATURE, is_picture, png_size, read_png, write_png

SHAPES = st.tuples(st.integers(1, 9), st.integers(1, 9)).flatmap(
    lambda size: st.sampled_from([size, (*size, 2), (*size, 3), (*size, 4)])
)


def chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def png(header: tuple[int, ...], lines: bytes, *more: bytes) -> bytes:
    """A PNG of these header fields and filtered lines."""
    return (
        SIGNATURE
        + chunk(b"IHDR", struct.pack(">IIBBBBB", *header))
        + b"".join(more)
        + chunk(b"IDAT", zlib.compress(lines))
        + chunk(b"IEND", b"")
    )


@given(arrays(np.uint8, SHAPES))
def test_a_picture_comes_back_bit_by_bit(picture: np.ndarray) -> None:
    written = write_png(picture)
    back = read_png(written)
    assert back.dtype == np.uint8
    assert back.shape == picture.shape
    assert (back == picture).all()
    assert png_size(written) == (picture.shape[1], picture.shape[0])
    assert write_png(back) == written


def test_one_channel_comes_back_without_it() -> None:
    assert read_png(write_png(np.zeros((2, 3, 1), np.uint8))).shape == (2, 3)


def test_pixels_that_do_not_lie_one_after_another() -> None:
    whole = np.arange(2 * 6 * 3, dtype=np.uint8).reshape(2, 6, 3)
    for view in (whole[:, ::2], whole[::-1], whole.transpose(1, 0, 2), np.asfortranarray(whole)):
        assert (read_png(write_png(view)) == view).all()


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_another_program_reads_what_is_written(channels: int) -> None:
    picture = np.arange(7 * 5 * channels, dtype=np.uint8).reshape(7, 5, channels) * 7
    surface = pygame.image.load(io.BytesIO(write_png(picture)), "frame.png")
    seen = pygame.surfarray.array3d(surface).swapaxes(0, 1)
    colours = picture[:, :, :3] if channels >= 3 else picture[:, :, :1]
    assert (seen == colours).all()
    if channels in (2, 4):
        alpha = pygame.surfarray.array_alpha(surface).swapaxes(0, 1)
        assert (alpha == picture[:, :, -1]).all()


# What each filter of the specification stands for, worked out by hand for two grey lines of three
# pixels: 10 20 40 and 12 22 47.
FILTERED = {
    0: [10, 20, 40, 12, 22, 47],
    1: [10, 10, 20, 12, 10, 25],
    2: [10, 20, 40, 2, 2, 7],
    3: [10, 15, 30, 7, 6, 16],
    4: [10, 10, 20, 2, 2, 7],
}


@pytest.mark.parametrize(("kind", "values"), FILTERED.items())
def test_each_filter_of_the_specification(kind: int, values: list[int]) -> None:
    lines = bytes([kind, *values[:3], kind, *values[3:]])
    picture = read_png(png((3, 2, 8, 0, 0, 0, 0), lines))
    assert picture.tolist() == [[10, 20, 40], [12, 22, 47]]


def test_filters_line_by_line_and_content_in_pieces() -> None:
    packed = zlib.compress(bytes([1, 250, 10, 4, 2, 2, 3, 5, 5]))
    content = (
        SIGNATURE
        + chunk(b"IHDR", struct.pack(">IIBBBBB", 2, 3, 8, 0, 0, 0, 0))
        + chunk(b"tEXt", b"Author\0me")
        + chunk(b"IDAT", packed[:5])
        + chunk(b"IDAT", packed[5:])
        + chunk(b"IEND", b"")
    )
    # 250, 250 + 10 - 256; then up by Paeth: 252, 6 + …; then the mean of left and above
    assert read_png(content).tolist() == [[250, 4], [252, 6], [131, 73]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "does not begin as one"),
        (b"GIF89a", "does not begin as one"),
        (SIGNATURE, "no header"),
        (SIGNATURE + b"\0\0\0", "cut short"),
        (write_png(np.zeros((2, 2), np.uint8))[:-20], "cut short"),
        (write_png(np.zeros((2, 2), np.uint8))[:-16], "the size of its picture|cut short"),
        (png((2, 1, 8, 3, 0, 0, 0), b"\0\0\0"), "a palette"),
        (png((2, 1, 16, 0, 0, 0, 0), b"\0\0\0\0\0"), "8 bits"),
        (png((2, 1, 8, 0, 0, 0, 1), b"\0\0\0"), "interlaced"),
        (png((0, 1, 8, 0, 0, 0, 0), b"\0"), "0 × 1 is no size"),
        (png((2, 1, 8, 0, 0, 0, 0), b"\0\0"), "the size of its picture"),
        (png((2, 1, 8, 0, 0, 0, 0), b"\0\0\0\0"), "the size of its picture"),
        (png((2, 1, 8, 0, 0, 0, 0), b"\5\0\0"), "no filter 5"),
    ],
)
def test_what_is_no_png_of_ours(content: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_png(content)


def test_a_flipped_bit_is_found() -> None:
    content = bytearray(write_png(np.zeros((2, 2), np.uint8)))
    content[45] ^= 1
    with pytest.raises(ValueError, match="checksum"):
        read_png(bytes(content))


def test_a_small_file_of_a_great_many_zeros_is_not_unpacked() -> None:
    bomb = png((2, 1, 8, 0, 0, 0, 0), bytes(50_000_000))
    assert len(bomb) < 100_000
    with pytest.raises(ValueError, match="the size of its picture"):
        read_png(bomb)


@pytest.mark.parametrize(
    "value",
    [
        None,
        "text",
        [[0]],
        np.zeros((2, 2, 3)),
        np.zeros((2, 2, 3), np.int8),
        np.zeros((0, 2, 3), np.uint8),
        np.zeros((2, 2, 5), np.uint8),
        np.zeros((1, 2, 2, 3), np.uint8),
        np.zeros(4, np.uint8),
    ],
)
def test_what_is_no_picture(value: object) -> None:
    assert not is_picture(value)
    with pytest.raises(ValueError, match="no picture of uint8, but"):
        write_png(value)  # type: ignore[arg-type]
