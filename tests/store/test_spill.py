"""Spill files: what is written is read back, and what was damaged is not taken for evidence."""

import os
import subprocess
import sys
from dataclasses import fields

import pytest

from envbench.evidence.record import StepColumns
from envbench.store import spill
from envbench.store.spill import read_spill, set_aside, spill_files, spill_folder, write_spill
from envbench.store.writing import EpisodePart


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.duckdb"


def contents(part):
    """A part as plain values that compare by what they hold; NaN is equal to itself."""
    return {
        field.name: repr(getattr(part, field.name))
        for field in fields(part)
        if field.name not in ("changes", "seal")  # changes are derived from the states
    } | {"seal": part.seal and (dict(part.seal.head), part.seal.digest, part.seal.final_body)}


def test_parts_are_read_back_as_they_were(path, record_parts):
    parts = record_parts(5, 5, 5)
    assert [part.seal is None for part in parts] == [True, True, False]
    assert any(part.arrays for part in parts)
    for part in parts:
        assert contents(read_spill(write_spill(path, part))) == contents(part)


def test_an_empty_part(path):
    part = EpisodePart("e", 1, StepColumns())
    assert contents(read_spill(write_spill(path, part))) == contents(part)


def test_the_files_of_an_episode_in_the_order_of_its_parts(path, record_parts):
    parts = record_parts(9, 2, 120, capture_steps=False)  # all begin at step 1
    written = [write_spill(path, part) for part in parts]
    ((episode_id, files),) = spill_files(path).items()
    assert episode_id == parts[0].episode_id
    assert [file.path for file in files] == written
    assert [file.sealed for file in files] == [False, False, True]
    assert {file.process for file in files} == {os.getpid()}


def test_a_folder_that_is_not_there(path):
    assert spill_files(path) == {}


def test_every_damaged_byte_is_found(path, record_parts):
    file = write_spill(path, record_parts(3)[0])
    whole = file.read_bytes()
    for position in range(0, len(whole) - 1, 7):
        changed = bytearray(whole)
        changed[position] ^= 1
        file.write_bytes(changed)
        with pytest.raises(ValueError, match=r"is damaged|is not of the format|JSON"):
            read_spill(file)


@pytest.mark.parametrize("length", [0, 1, 100, -2])
def test_a_file_that_was_cut_is_found(path, record_parts, length):
    file = write_spill(path, record_parts(3)[0])
    file.write_bytes(file.read_bytes()[:length])
    with pytest.raises(ValueError, match="is damaged"):
        read_spill(file)


@pytest.mark.parametrize("text", ["[]", "{}", '{"format":"envbench.spill/v9"}', "null", '"x"'])
def test_a_file_of_another_format(path, text):
    spill_folder(path).mkdir()
    file = spill_folder(path) / "x.json"
    file.write_text(text)
    with pytest.raises(ValueError, match="not of the format"):
        read_spill(file)


def test_files_of_others_are_left_alone(path, record_parts):
    write_spill(path, record_parts(3)[0])
    for name in ("notes.json", "a.b.c.json", ".hidden", "README"):
        (spill_folder(path) / name).write_text("mine")
    assert len(spill_files(path)) == 1
    assert len(list(spill_folder(path).iterdir())) == 5


def test_what_a_killed_process_was_writing_is_removed(path, record_parts):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    file = write_spill(path, record_parts(3)[0])
    name = file.name.replace(str(os.getpid()), "{}")
    unfinished = [f".{name.format(process)}.{'0' * 32}" for process in (dead.pid, os.getpid())]
    for each in unfinished:
        (spill_folder(path) / each).write_text("half")
    assert len(spill_files(path)) == 1
    assert sorted(p.name for p in spill_folder(path).iterdir()) == [unfinished[1], file.name]


def test_the_folder_is_removed_by_another_process_just_now(path, record_parts, monkeypatch):
    (part,) = record_parts(3)
    write = spill.write_atomically
    calls = []

    def removed_before(target, content):
        calls.append(target)
        if len(calls) == 1:
            spill_folder(path).rmdir()
        write(target, content)

    monkeypatch.setattr(spill, "write_atomically", removed_before)
    assert read_spill(write_spill(path, part)).episode_id == part.episode_id


def test_a_folder_that_cannot_be_made(path, record_parts):
    spill_folder(path).write_text("a file")
    with pytest.raises(OSError, match=r"store\.duckdb\.spill"):
        write_spill(path, record_parts(3)[0])


def test_a_file_that_is_set_aside_is_kept_and_not_seen_again(path, record_parts):
    file = write_spill(path, record_parts(3)[0])
    content = file.read_bytes()
    assert set_aside(file).read_bytes() == content
    assert spill_files(path) == {}
