"""The folder of a run: what it replaces when told to, and what it never touches."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from envbench.ledger.folder import MANIFEST, prepare, write_json, write_manifest


def a_run(folder: Path) -> None:
    """What an earlier run left, in small."""
    prepare(folder, force=False)
    write_json(folder / "protocol.json", {"schema": "envbench.ledger-protocol/v1"})
    for name in ("policy.json", "outcomes.html", "episodes/v1-correct-seed17.json"):
        (folder / name).write_text("old")
    (folder / "databases/v1-correct-seed17.sqlite").write_text("old")
    write_manifest(folder)


def files(folder: Path) -> list[str]:
    return sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )


def test_a_new_and_an_empty_folder_are_taken(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "new" / "deep", tmp_path / "empty"):
        prepare(folder, force=False)
        made = sorted(path.name for path in folder.iterdir())
        assert made == ["databases", "episodes", "reports"]


def test_a_folder_that_is_not_empty_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="is not empty"):
        prepare(tmp_path, force=False)
    assert files(tmp_path) == ["notes.txt"]


def test_force_replaces_a_run_and_keeps_what_is_not_of_it(tmp_path: Path) -> None:
    a_run(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "databases/mine.sqlite").write_text("mine")
    prepare(tmp_path, force=True)
    assert files(tmp_path) == ["databases/mine.sqlite", "notes.txt"]


def test_a_run_that_was_cut_short_is_replaced_too(tmp_path: Path) -> None:
    a_run(tmp_path)
    (tmp_path / MANIFEST).unlink()
    prepare(tmp_path, force=True)
    assert files(tmp_path) == []


def test_force_among_other_files_is_fine_as_long_as_none_is_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    prepare(tmp_path, force=True)
    assert files(tmp_path) == ["notes.txt"]


@pytest.mark.parametrize("protocol", [None, "not json", '{"schema": "another"}', "[]"])
def test_a_strangers_file_of_the_same_name_is_never_removed(
    tmp_path: Path, protocol: str | None
) -> None:
    (tmp_path / "policy.json").write_text("mine")
    if protocol is not None:
        (tmp_path / "protocol.json").write_text(protocol)
    before = files(tmp_path)
    with pytest.raises(FileExistsError, match="was not written by a run"):
        prepare(tmp_path, force=True)
    assert files(tmp_path) == before


def test_a_link_in_place_of_a_subfolder_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "v1-correct-seed17.sqlite").write_text("mine")
    folder = tmp_path / "out"
    folder.mkdir()
    write_json(folder / "protocol.json", {"schema": "envbench.ledger-protocol/v1"})
    (folder / "databases").symlink_to(elsewhere)
    with pytest.raises(FileExistsError, match="is not a folder of a run"):
        prepare(folder, force=True)
    assert files(elsewhere) == ["v1-correct-seed17.sqlite"]


def test_episodes_that_a_run_could_not_write_are_not_thrown_away(tmp_path: Path) -> None:
    a_run(tmp_path)
    (tmp_path / "evidence.duckdb.spill").mkdir()
    before = files(tmp_path)
    with pytest.raises(FileExistsError, match=r"evidence\.duckdb\.spill holds episodes"):
        prepare(tmp_path, force=True)
    assert files(tmp_path) == before


def test_a_file_and_a_folder_in_the_way_are_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(NotADirectoryError, match="file is not a folder"):
        prepare(tmp_path / "file", force=True)
    a_run(tmp_path / "out")
    (tmp_path / "out" / "outcomes.json").mkdir()
    with pytest.raises(FileExistsError, match=r"outcomes\.json is a folder"):
        prepare(tmp_path / "out", force=True)
    assert "policy.json" in files(tmp_path / "out")


def test_the_manifest_is_sorted_and_leaves_out_what_is_not_of_the_run(tmp_path: Path) -> None:
    a_run(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    write_manifest(tmp_path)
    lines = (tmp_path / MANIFEST).read_text().splitlines()
    assert [line[66:] for line in lines] == [
        "databases/v1-correct-seed17.sqlite",
        "episodes/v1-correct-seed17.json",
        "outcomes.html",
        "policy.json",
        "protocol.json",
    ]
    assert all(line[64:66] == "  " for line in lines)
    assert {line[:64] for line in lines[:4]} == {
        "cba06b5736faf67e54b07b561eae94395e774c517a7d910a54369e1263ccfbd4"  # printf old | sha256sum
    }


def test_json_is_written_for_people_and_refuses_what_is_not_portable(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"b": "é", "a": 1})
    assert (tmp_path / "a.json").read_text(encoding="utf-8") == '{\n  "b": "é",\n  "a": 1\n}\n'
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8")) == {"a": 1, "b": "é"}
    with pytest.raises(ValueError, match="b"):
        write_json(tmp_path / "b.json", {"b": float("nan")})
    assert not (tmp_path / "b.json").exists()
