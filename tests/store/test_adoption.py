"""What is taken in when a store is opened: once, whole, and never in the way of opening it."""

import os
import subprocess
import sys
import threading

import pytest

from envbench.evidence.record import StepColumns
from envbench.store import connect
from envbench.store.adoption import OPEN_HERE
from envbench.store.errors import StoreWarning
from envbench.store.spill import spill_files, spill_folder, write_spill
from envbench.store.writing import EpisodePart, write_parts


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.duckdb"


def write(path, *parts):
    with connect(path) as store, store.cursor() as cursor:
        write_parts(cursor, parts)


def read(path):
    """(ending, steps) of every episode, all of which must verify, and nothing is left open."""
    with connect(path) as store:
        verification = store.verify()
        assert verification.ok, verification.problems
        assert store.sql("SELECT count(*) FROM open_episodes").fetchall() == [(0,)]
        return store.sql("SELECT ending, n_steps FROM episodes ORDER BY seed").fetchall()


def warns(text):
    return pytest.warns(StoreWarning, match=text)


# -- without a seal -------------------------------------------------------------------------------


def test_committed_parts_become_an_interrupted_episode(path, record_parts):
    first, second, _ = record_parts(5, 6, 7)
    write(path, first, second)
    assert read(path) == [("interrupted", 11)]
    with connect(path) as store:
        (episode,) = store.episodes()
        assert episode.verify() == []
        assert episode.final_state is None
        assert any("interrupted" in issue for issue in episode.coverage_issues)
        assert episode.states == [{"at": 0}, *({"at": i % 3} for i in range(1, 12))]
        assert episode.data["cleanup"] == {"attempted": False, "completed": False, "error": None}
        assert [event["step"] for event in episode.data["audit"]] == list(range(1, 12))
        assert episode.data["totals"]["steps"] == 11
        assert (episode.steps[3].info["picture"] == range(2_000)).all()


def test_no_step_was_taken(path, record_parts):
    (part,) = record_parts(0, ending=None)
    write(path, part)
    assert read(path) == [("interrupted", 0)]


def test_steps_that_were_not_kept_are_not_said_to_be_none(path, record_parts):
    first, _ = record_parts(5, 5, capture_steps=False)
    write(path, first)
    assert read(path) == [("interrupted", 0)]
    with connect(path) as store:
        (episode,) = store.episodes()
        assert episode.data["totals"]["reward"] is None
        assert any("how many there were is not known" in text for text in episode.coverage_issues)


def test_opening_for_reading_adopts_nothing(path, record_parts):
    first, second = record_parts(5, 5)
    write(path, first)
    write_spill(path, second)
    with connect(path, read_only=True) as store:
        assert len(store.episodes()) == 0
    assert len(spill_files(path)) == 1
    assert read(path) == [("terminated", 10)]


def test_what_is_recorded_here_is_not_adopted_by_another_connect(path, record_parts):
    first, second, third = record_parts(5, 5, 5)
    OPEN_HERE.add(first.episode_id)
    try:
        write(path, first)
        write_spill(path, second)
        with connect(path) as store, connect(path) as other:
            assert len(store.episodes()) == len(other.episodes()) == 0
            assert len(spill_files(path)) == 1
    finally:
        OPEN_HERE.discard(first.episode_id)
    write_spill(path, third)
    assert read(path) == [("terminated", 15)]


def test_threads_that_open_at_once_adopt_once(path, record_parts):
    for seed in range(5):
        write_spill(path, record_parts(4, 4, seed=seed)[0])
    write(path, record_parts(3, 3, seed=9)[0])
    stores, barrier = [], threading.Barrier(4)

    def open_it():
        barrier.wait()
        stores.append(connect(path))

    threads = [threading.Thread(target=open_it) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(stores) == 4
    for store in stores:
        store.close()
    assert read(path) == [("interrupted", 4)] * 5 + [("interrupted", 3)]


def test_a_header_that_was_damaged_keeps_no_other_from_being_adopted(path, record_parts):
    bad, good = record_parts(5, 5, seed=1)[0], record_parts(5, 5, seed=2)[0]
    write(path, bad, good)
    store = connect(path)  # adopts both: put one back as it was, damaged
    with store.cursor() as cursor:
        query = "INSERT INTO open_episodes VALUES ('bad', TIMESTAMP '2026-01-01', '{}')"
        cursor.execute(query).fetchall()
    store.close()
    with warns("interrupted episode bad could not be sealed"), connect(path) as store:
        assert len(store.episodes()) == 2


# -- spill files ----------------------------------------------------------------------------------


def test_a_whole_episode(path, record_parts):
    for part in record_parts(5, 5, 5):
        write_spill(path, part)
    assert read(path) == [("terminated", 15)]
    assert not spill_folder(path).exists()


def test_the_rest_of_an_episode_whose_beginning_was_committed(path, record_parts):
    first, second, third = record_parts(5, 5, 5)
    write_spill(path, second)
    write_spill(path, third)
    OPEN_HERE.add(first.episode_id)
    write(path, first)
    OPEN_HERE.discard(first.episode_id)
    assert read(path) == [("terminated", 15)]
    assert not spill_folder(path).exists()


def test_parts_without_a_seal(path, record_parts):
    first, second, _ = record_parts(5, 5, 5)
    OPEN_HERE.add(first.episode_id)
    write(path, first)
    OPEN_HERE.discard(first.episode_id)
    write_spill(path, second)
    assert read(path) == [("interrupted", 10)]
    assert not spill_folder(path).exists()


@pytest.mark.parametrize("sealed", [True, False])
@pytest.mark.parametrize("capture_steps", [True, False])
def test_a_crash_between_the_commit_and_the_removal_of_files(
    path, record_parts, sealed, capture_steps
):
    parts = record_parts(5, 5, 5, capture_steps=capture_steps)
    files = [write_spill(path, part) for part in (parts if sealed else parts[:2])]
    contents = {file: file.read_bytes() for file in files}
    found = read(path)
    for _ in range(2):
        spill_folder(path).mkdir()
        for file, content in contents.items():
            file.write_bytes(content)
        assert read(path) == found
        assert not spill_folder(path).exists()


@pytest.mark.parametrize("capture_steps", [True, False])
def test_a_crash_between_the_commit_of_parts_and_their_seal(path, record_parts, capture_steps):
    first, second, _ = record_parts(5, 5, 5, capture_steps=capture_steps)
    write_spill(path, first)
    write_spill(path, second)
    OPEN_HERE.add(first.episode_id)
    write(path, first, second)
    OPEN_HERE.discard(first.episode_id)
    assert read(path) == [("interrupted", 10 if capture_steps else 0)]
    assert not spill_folder(path).exists()


def test_a_part_that_was_damaged(path, record_parts):
    files = [write_spill(path, part) for part in record_parts(5, 5, 5)]
    files[1].write_bytes(files[1].read_bytes()[:-10])
    with warns("not all of episode .* is taken in: .* is damaged"):
        assert read(path) == [("interrupted", 5)]
    kept = sorted(file.name for file in spill_folder(path).iterdir())
    assert kept == [file.name.replace(".json", ".kept") for file in files[1:]]
    assert read(path) == [("interrupted", 5)]


def test_a_part_that_is_missing(path, record_parts):
    files = [write_spill(path, part) for part in record_parts(5, 5, 5)]
    files[1].unlink()
    with warns("the part after step 5 is missing"):
        assert read(path) == [("interrupted", 5)]
    assert read(path) == [("interrupted", 5)]


def test_the_first_part_is_missing(path, record_parts):
    files = [write_spill(path, part) for part in record_parts(5, 5, 5)]
    files[0].unlink()
    with warns("its first part is missing"):
        assert read(path) == []


def test_the_last_steps_are_missing(path, record_parts):
    files = [write_spill(path, part) for part in record_parts(5, 5, 0)]
    files[1].unlink()
    with warns("the part after step 5 is missing"):
        assert read(path) == [("interrupted", 5)]


def test_one_episode_that_was_damaged_takes_no_other_with_it(path, record_parts):
    for seed in range(4):
        (part,) = record_parts(3, seed=seed)
        file = write_spill(path, part)
        if seed == 2:
            file.write_bytes(b"nothing")
    with warns("is damaged"):
        assert len(read(path)) == 3


def test_a_file_that_cannot_be_read_is_left_for_later(path, record_parts):
    first, second = record_parts(5, 5)
    OPEN_HERE.add(first.episode_id)
    write(path, first)
    OPEN_HERE.discard(first.episode_id)
    file = write_spill(path, second)
    content = file.read_bytes()
    file.unlink()
    file.mkdir()  # as root, who may read any file, a folder stands for one that cannot be read
    with warns("1 episodes could not be taken in"), connect(path) as store:
        assert len(store.episodes()) == 0  # not adopted: its end is in that file
    file.rmdir()
    file.write_bytes(content)
    assert read(path) == [("terminated", 10)]


def test_another_end_of_an_episode_that_the_store_has_is_kept(path, record_parts):
    first, second = record_parts(5, 5)
    write(path, first)
    assert read(path) == [("interrupted", 5)]
    file = write_spill(path, second)
    with warns("the store has the episode with another end"):
        assert read(path) == [("interrupted", 5)]
    assert file.with_suffix(".kept").exists()


def test_a_part_that_only_says_that_its_episode_goes_on(path, record_parts):
    write_spill(path, EpisodePart("e", 1, StepColumns()))
    assert read(path) == []
    assert not spill_folder(path).exists()


@pytest.mark.parametrize("sealed", [True, False])
def test_files_of_a_process_that_is_alive(path, record_parts, sealed):
    parts = record_parts(5, 5)[: 2 if sealed else 1]
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        for part in parts:
            file = write_spill(path, part)
            file.rename(file.with_name(file.name.replace(f".{os.getpid()}.", f".{other.pid}.")))
        found = read(path)
    finally:
        other.communicate(b"\n")
    # an episode that has its end is taken in at once; one that has not may go on
    assert found == ([("terminated", 10)] if sealed else [])
    assert read(path) == [("terminated", 10) if sealed else ("interrupted", 5)]


def test_an_opening_process_is_the_only_one(path, record_parts):
    """Two processes that open at once: one adopts, the other is told who has the file."""
    for seed in range(5):
        write_spill(path, record_parts(4, 4, seed=seed)[0])
    code = (
        "import sys\n"
        "from envbench.store import connect, StoreError\n"
        "try:\n"
        "    store = connect(sys.argv[1])\n"
        "    print('open', flush=True)\n"
        "    input()\n"
        "    store.close()\n"
        "except StoreError as error:\n"
        "    print(type(error).__name__, flush=True)\n"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    words = sorted(process.stdout.readline().strip() for process in processes)
    for process in processes:
        process.communicate("\n", timeout=60)
    assert words == ["StoreLocked", "open"]
    assert read(path) == [("interrupted", 4)] * 5
