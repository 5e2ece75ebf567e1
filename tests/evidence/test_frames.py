"""Frames in evidence: what is written by hand is read; what does not fit is refused by place."""

from __future__ import annotations

import base64
import copy
import hashlib
from typing import Any

import numpy as np
import pytest

from envbench.evidence import EpisodeEvidence, Frame, Frames
from envbench.evidence.digest import Shown, shown
from envbench.evidence.frames import aligned
from envbench.evidence.png import write_png


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


PNG = write_png(np.arange(24, dtype=np.uint8).reshape(2, 4, 3))
DOT = write_png(np.zeros((1, 1), np.uint8))
A, B = sha256(b"A"), sha256("é\x1b[0m".encode())


def rendered(example: dict[str, Any], reseal: Any, **frames: Any) -> dict[str, Any]:
    """The documented episode, of two steps, with frames."""
    data = copy.deepcopy(example)
    data["frames"] = {
        "kind": "ansi",
        "shown": [A, None, B],
        "content": {A: "A", B: "é\x1b[0m"},
        **frames,
    }
    return reseal(data)


def test_text_by_the_documented_format(example: Any, reseal: Any) -> None:
    data = rendered(example, reseal)
    episode = EpisodeEvidence.from_dict(data)
    assert [frame and frame.text for frame in episode.frames] == ["A", None, "é\x1b[0m"]
    assert episode.frames.kind == "ansi"
    assert len(episode.frames) == len(episode.states)
    assert episode.to_dict() == data
    assert dict(episode.data.items()) == data
    assert episode.digest != example["digest"]
    assert episode.trajectory_digest == example["trajectory_digest"]


def test_pictures_by_the_documented_format(example: Any, reseal: Any, tmp_path: Any) -> None:
    one, two = sha256(PNG), sha256(DOT)
    data = rendered(
        example,
        reseal,
        kind="rgb_array",
        shown=[one, two, one],
        content={one: base64.b64encode(PNG).decode(), two: base64.b64encode(DOT).decode()},
    )
    EpisodeEvidence.from_dict(data).save_json(tmp_path / "episode.json")
    episode = EpisodeEvidence.load_json(tmp_path / "episode.json")
    first, second, third = episode.frames
    assert first == third == Frame("rgb_array", one, PNG)
    assert first.array.tolist() == np.arange(24).reshape(2, 4, 3).tolist()
    assert (first.size, second.size) == ((4, 2), (1, 1))
    assert episode.to_dict() == data


def test_the_kind_of_an_episode_that_was_not_rendered(example: Any) -> None:
    episode = EpisodeEvidence.from_dict(example)
    assert episode.frames.kind is None
    assert episode.frames.hashes == (None, None, None)


@pytest.mark.parametrize(
    ("frames", "message"),
    [
        ({"kind": "human"}, "/frames/kind: expected one of rgb_array, ansi"),
        ({"shown": [A, B]}, "/frames/shown: 2 entries, where 2 steps and the reset"),
        ({"shown": [A, 1, B]}, "/frames/shown/1: expected 64 hexadecimal digits"),
        ({"shown": [A, "0" * 64, B]}, "/frames/shown/1: the content of 0+ is missing"),
        ({"shown": [A, A, A]}, f"/frames/content/{B}: no frame shows it"),
        ({"content": [A, B]}, "/frames/content: expected an object"),
        ({"content": {A: 1, B: "x"}}, f"/frames/content/{A}: expected text"),
        ({"content": {A: "x", B: "é\x1b[0m"}}, f"/frames/0: the frame {A} was altered"),
        ({"more": 1}, "/frames/more: not a key"),
        ({"kind": "rgb_array"}, f"/frames/content/{A}: Invalid base64"),
        (
            {"kind": "rgb_array", "content": {A: "AAAA", B: "AAAA"}},
            f"/frames/content/{A}: no PNG",
        ),
        (
            {"kind": "rgb_array", "content": dict.fromkeys((A, B), PNG.hex())},
            f"/frames/content/{A}: ",
        ),
    ],
)
def test_frames_that_do_not_fit(example: Any, reseal: Any, frames: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EpisodeEvidence.from_dict(rendered(example, reseal, **frames))


def test_base64_that_says_the_same_otherwise(example: Any, reseal: Any) -> None:
    digest, text = sha256(DOT), base64.b64encode(DOT).decode()
    assert text.endswith("=")
    last = chr(ord(text.rstrip("=")[-1]) + 1)  # bits that no byte takes
    other = text.rstrip("=")[:-1] + last + "=" * text.count("=")
    assert base64.b64decode(other) == DOT
    frames = {"kind": "rgb_array", "shown": [digest] * 3}
    EpisodeEvidence.from_dict(rendered(example, reseal, **frames, content={digest: text}))
    with pytest.raises(ValueError, match="not the one way to write"):
        EpisodeEvidence.from_dict(rendered(example, reseal, **frames, content={digest: other}))


def test_frames_without_the_digest_that_covers_them(example: Any, reseal: Any) -> None:
    data = rendered(example, reseal)
    data["frames"]["shown"] = [B, None, A]
    with pytest.raises(ValueError, match="/digest"):
        EpisodeEvidence.from_dict(data)
    data = rendered(example, reseal)
    del data["frames"]
    with pytest.raises(ValueError, match="/digest"):
        EpisodeEvidence.from_dict(data)


def test_frames_of_an_episode_without_steps(example: Any, reseal: Any) -> None:
    data = rendered(example, reseal)
    data["steps"], data["capture_steps"] = [], False
    with pytest.raises(ValueError, match="/frames: frames are kept although capture_steps"):
        EpisodeEvidence.from_dict(reseal(data))


def test_how_frames_enter_the_digest() -> None:
    text = f'"{A}"null"{B}"'
    expected = f'{{"count":3,"kind":"ansi","sha256":"{sha256(text.encode())}"}}'
    assert shown("ansi", [A, None, B]).decode() == expected
    piecewise = Shown("ansi")
    piecewise.update([A])
    piecewise.update([])
    piecewise.update([None, B])
    assert piecewise.summary().decode() == expected


def test_hashes_by_step() -> None:
    assert aligned([(2, "c"), (0, "a")], 3) == ["a", None, "c", None]
    assert aligned([(-1, "x"), (4, "x")], 3) == [None] * 4


def test_a_sequence_that_reads_each_content_once() -> None:
    asked: list[list[str]] = []

    def read(digests: list[str]) -> dict[str, bytes]:
        asked.append(digests)
        return dict.fromkeys(digests, b"A")

    frames = Frames("ansi", [A, A, None, A], read)
    assert [frame and frame.text for frame in frames] == ["A", "A", None, "A"]
    assert frames[-1] == Frame("ansi", A, b"A")
    assert frames[1:3] == [Frame("ansi", A, b"A"), None]
    assert asked == [[A], [A], [A]]
    with pytest.raises(IndexError):
        frames[4]
