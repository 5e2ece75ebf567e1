"""Frames in a store: read back as they were shown, taken in, merged, and named when altered."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from envbench.evidence import EpisodeEvidence, Frame
from envbench.store import Store, StoreError, connect
from envbench.store.errors import StoreWarning
from envbench.store.spill import read_spill, spill_files, write_spill
from envbench.store.writing import write_parts

KINDS = ("ansi", "rgb_array")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.duckdb"


def write(path: Path, *parts: Any) -> None:
    with connect(path) as store, store.cursor() as cursor:
        write_parts(cursor, parts)


def execute(path: Path, *statements: str) -> None:
    with connect(path) as store, store.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement).fetchall()


def only(store: Store) -> EpisodeEvidence:
    (episode,) = store.episodes()
    return episode


def value(frame: Frame | None) -> Any:
    """The number that a frame of `record_parts` shows, see `frame_at`."""
    if frame is None:
        return None
    if frame.kind == "ansi":
        before, number, after = frame.text.partition("\x1b[1m")[0], frame.text[7], frame.text[8:]
        assert (before, after) == ("at ", "\x1b[0m")
        return int(number)
    assert frame.array.shape == (3, 5, 3)
    assert frame.size == (5, 3)
    return int(np.unique(frame.array).item())


@pytest.mark.parametrize("kind", KINDS)
def test_frames_are_read_back_from_every_part(path, record_parts, kind):
    write(path, *record_parts(5, 6, 7, frames=kind))
    with connect(path, read_only=True) as store:
        episode = only(store)
        frames = episode.frames
        assert (frames.kind, len(frames), len(episode.states)) == (kind, 19, 19)
        assert list(map(value, frames)) == [step % 4 for step in range(19)]
        assert value(frames[-1]) == 2
        assert list(map(value, frames[3:5])) == [3, 0]
        assert Counter(Counter(frames.hashes).values()) == {5: 3, 4: 1}
        assert frames.hashes[1] == frames.hashes[5] == frames[1].sha256
        assert frames[1].sha256 == hashlib.sha256(frames[1].content).hexdigest()
        assert repr(frames) == f"<Frames: 19 of 19 {kind}, 4 distinct>"
        assert store.verify().ok


@pytest.mark.parametrize("kind", KINDS)
def test_each_content_is_kept_once(path, record_parts, kind):
    write(path, *record_parts(5, 6, 7, frames=kind))
    with connect(path, read_only=True) as store:
        kept = store.sql("SELECT count(*), count(body) FROM frames").fetchall()
        pictures = store.sql(
            "SELECT count(*) FROM blobs SEMI JOIN frames USING (episode_id, blob_hash)"
        ).fetchall()
    # at 0 to 3 for the first time
    assert (kept, pictures) == (([(19, 4)], [(0,)]) if kind == "ansi" else ([(19, 0)], [(4,)]))


def test_several_frames_in_one_query(path, record_parts, monkeypatch):
    write(path, *record_parts(200, frames="rgb_array"))
    with connect(path, read_only=True) as store:
        frames, queries = only(store).frames, []
        cursor = store.cursor
        monkeypatch.setattr(store, "cursor", lambda: queries.append(1) or cursor())
        assert len(list(frames)) == 201
        assert len(queries) == 4  # blocks of 64
        assert set(frames.read(frames.hashes[:3])) == set(frames.hashes[:3])
        assert len(queries) == 5
        assert frames.read([]) == {}
        with pytest.raises(ValueError, match="the content of frame x is missing"):
            frames.read(["x"])


def test_an_episode_that_was_not_rendered(path, record_parts):
    write(path, *record_parts(2, frames=None))
    with connect(path, read_only=True) as store:
        episode = only(store)
        assert episode.frames.kind is None
        assert list(episode.frames) == [None, None, None]
        assert "frames" not in episode.data
        assert repr(episode.frames) == "<Frames: not rendered, 3 entries>"


@pytest.mark.parametrize("kind", KINDS)
def test_an_episode_goes_from_store_to_store_and_file(path, tmp_path, record_parts, kind):
    write(path, *record_parts(5, 6, frames=kind))
    with connect(path, read_only=True) as store, connect(":memory:") as other:
        episode = only(store)
        episode.save_json(tmp_path / "episode.json")
        loaded = EpisodeEvidence.load_json(tmp_path / "episode.json")
        assert loaded.data == episode.data
        other.add(loaded)
        assert other.verify().ok
        for again in (loaded, only(other)):
            assert again == episode
            assert list(again.frames) == list(episode.frames)
            assert again.verify() == []


@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupted_episode_keeps_what_was_shown(path, record_parts, kind):
    first, second, _ = record_parts(5, 6, 7, frames=kind)
    write(path, first, second)
    with connect(path) as store:
        episode = only(store)
        assert (episode.ending, len(episode.frames)) == ("interrupted", 12)
        assert list(map(value, episode.frames)) == [step % 4 for step in range(12)]
        assert episode.verify() == []
        assert store.verify().ok


def test_a_header_from_before_there_were_frames_is_adopted(path, record_parts):
    (part,) = record_parts(3, ending=None)
    part.opening = part.opening.replace(b'"frames":null,', b"")
    write(path, part)
    with connect(path) as store:
        assert only(store).frames.kind is None
        assert store.verify().ok


@pytest.mark.parametrize("kind", KINDS)
def test_spill_files_hold_frames(path, record_parts, kind):
    parts = record_parts(5, 6, 7, frames=kind)
    for part in parts:
        back = read_spill(write_spill(path, part))
        assert back.frames == part.frames
        assert back.arrays == part.arrays
    assert [len(part.frames) for part in parts] == [6, 6, 7]
    with connect(path) as store:
        assert list(map(value, only(store).frames)) == [step % 4 for step in range(19)]
        assert store.verify().ok
    assert spill_files(path) == {}


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_store_has_already_is_not_taken_in_twice(path, record_parts, kind):
    parts = record_parts(5, 6, 7, frames=kind)
    write(path, parts[0])
    for part in parts:  # a crash came between the first commit and the removal of its file
        write_spill(path, part)
    with connect(path) as store:
        assert list(map(value, only(store).frames)) == [step % 4 for step in range(19)]
        assert store.verify().ok


def test_a_spill_file_from_before_there_were_frames(path, record_parts):
    import json

    (part,) = record_parts(3)
    file = write_spill(path, part)
    data = json.loads(file.read_bytes())
    del data["part"]["frames"]
    canonical = json.dumps(data["part"], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    data["sha256"] = hashlib.sha256(canonical.encode()).hexdigest()
    file.write_text(json.dumps(data))
    assert read_spill(file).frames == []


@pytest.mark.parametrize("kind", KINDS)
def test_frames_are_merged_with_their_episode(tmp_path, record_parts, kind):
    write(tmp_path / "a.duckdb", *record_parts(5, frames=kind))
    write(tmp_path / "b.duckdb", *record_parts(6, seed=2, frames=kind))
    with connect(tmp_path / "a.duckdb") as store:
        merged = store.merge(tmp_path / "b.duckdb")
        assert merged.rows["frames"] == 7
        assert [len(episode.frames) for episode in store.episodes()] == [6, 7]
        assert store.merge(tmp_path / "b.duckdb").rows.get("frames", 0) == 0
        assert store.verify().ok


def test_frames_of_an_untrusted_store(path, record_parts):
    write(path, *record_parts(5, frames="rgb_array"))
    with connect(path, trusted=False) as store:
        assert [value(frame) for frame in only(store).frames] == [0, 1, 2, 3, 0, 1]
        assert store.verify().ok


# -- alterations ----------------------------------------------------------------------------------

ALTERED = [
    (
        "rgb_array",
        (
            "UPDATE blobs SET body = (SELECT body FROM blobs AS other SEMI JOIN frames AS f"
            " ON f.blob_hash = other.blob_hash AND f.step_index = 3) FROM frames AS f"
            " WHERE f.blob_hash = blobs.blob_hash AND f.step_index = 2"
        ),
        2,
        "was altered",
    ),
    (
        "rgb_array",
        (
            "DELETE FROM blobs USING frames AS f"
            " WHERE f.blob_hash = blobs.blob_hash AND f.step_index = 2"
        ),
        2,
        "is missing",
    ),
    ("rgb_array", "UPDATE frames SET blob_hash = 'x' WHERE step_index = 2", 2, "x is missing"),
    ("rgb_array", "UPDATE frames SET body = 'x' WHERE step_index = 2", 2, "was altered"),
    ("rgb_array", "UPDATE frames SET kind = 'ansi' WHERE step_index = 2", 2, "was altered"),
    ("rgb_array", "UPDATE frames SET step_index = 9 WHERE step_index = 2", 9, "not among 5 steps"),
    ("rgb_array", "UPDATE frames SET step_index = 3 WHERE step_index = 2", 3, "more than once"),
    ("rgb_array", "DELETE FROM frames WHERE step_index = 2", None, "is missing, or is shown"),
    ("rgb_array", "DELETE FROM frames", None, "is missing, or is shown after another step"),
    (
        "rgb_array",
        "UPDATE frames SET step_index = 5 - step_index",
        None,
        "is missing, or is shown after another step",
    ),
    ("ansi", "UPDATE frames SET body = 'x' WHERE step_index = 2", 2, "was altered"),
    ("ansi", "UPDATE frames SET body = 'x' WHERE step_index = 4", 4, "was altered"),
    ("ansi", "UPDATE frames SET body = NULL WHERE step_index = 2", 2, "was altered"),
    (
        "ansi",
        (
            "UPDATE frames SET body = (SELECT body FROM frames WHERE step_index = 0)"
            " WHERE step_index = 4"
        ),
        4,
        "was altered",
    ),
    ("ansi", "UPDATE frames SET blob_hash = 'x' WHERE step_index = 4", 4, "was altered"),
    ("ansi", "UPDATE frames SET kind = 'x' WHERE step_index = 4", 4, "was altered"),
    (
        None,
        "INSERT INTO frames SELECT episode_id, 1, 'ansi', 'x', 'y' FROM episodes",
        1,
        "was not rendered",
    ),
    (
        "ansi",
        "UPDATE episodes SET extra = replace(extra, '\"count\":6', '\"count\":7')",
        None,
        "has digest",
    ),
    (
        "ansi",
        "UPDATE episodes SET extra = regexp_replace(extra, '\"frames\":\\{[^}]*\\},', '')",
        0,
        "was not rendered",
    ),
]


@pytest.mark.parametrize(("kind", "statement", "step", "message"), ALTERED)
def test_an_altered_frame_is_named(path, record_parts, kind, statement, step, message):
    write(path, *record_parts(5, frames=kind))
    with connect(path, read_only=True) as store:
        assert store.verify().ok
        (episode_id,) = store.sql("SELECT episode_id FROM episodes").fetchall()[0]
    execute(path, statement)
    with connect(path, read_only=True) as store:
        problems = store.verify().problems
        assert [
            (problem.episode_id, problem.step_index)
            for problem in problems
            if message in problem.message
        ][:1] == [(episode_id, step)], problems


@pytest.mark.parametrize(
    ("kind", "statement", "message"),
    [
        (*ALTERED[0][:2], r"/frames/2: the frame \w+ was altered"),
        (*ALTERED[1][:2], r"/frames/2: the frame \w+ is missing"),
        (*ALTERED[7][:2], "/digest"),
        (*ALTERED[10][:2], r"/frames/2: the frame \w+ was altered"),
        (*ALTERED[12][:2], r"/frames/2: the frame \w+ is missing"),
    ],
)
def test_an_episode_with_an_altered_frame_is_refused(path, record_parts, kind, statement, message):
    write(path, *record_parts(5, frames=kind))
    execute(path, statement)
    with connect(path, read_only=True) as store:
        episode_id = only(store).episode_id
        with pytest.raises(StoreError, match=message):
            store.episode(episode_id, verify=True)


def test_a_damaged_picture_does_not_keep_the_rest_from_being_read(path, record_parts):
    write(path, *record_parts(5, frames="rgb_array"))
    execute(path, ALTERED[1][1])
    with connect(path, read_only=True) as store:
        frames = only(store).frames
        assert value(frames[1]) == 1
        with pytest.raises(ValueError, match="the content of frame"):
            frames[2]


def test_adoption_says_so_when_the_parts_do_not_fit(path, record_parts):
    first, _, third = record_parts(5, 6, 7, frames="ansi")
    for part in (first, third):
        write_spill(path, part)
    with pytest.warns(StoreWarning, match="the part after step 5 is missing"):
        store = connect(path)
    with store:
        assert list(map(value, only(store).frames)) == [0, 1, 2, 3, 0, 1]
        assert store.verify().ok
