"""Writing: one transaction for what comes together, and nothing of it when that fails."""

import subprocess
import sys
from dataclasses import replace

import duckdb
import pytest

from envbench.evidence import EpisodeEvidence
from envbench.store import StoreError, connect
from envbench.store.writing import (
    array_references,
    compress,
    decompress,
    episode_part,
    write_parts,
)

TABLES = (
    "runs",
    "cases",
    "environments",
    "open_episodes",
    "states",
    "state_changes",
    "blobs",
    "audit_events",
    "steps",
    "episodes",
)


@pytest.fixture
def store():
    with connect(":memory:") as store:
        yield store


def write(store, *parts):
    with store.cursor() as cursor:
        write_parts(cursor, parts)


def counts(store):
    return {table: store.sql(f"SELECT count(*) FROM {table}").fetchall()[0][0] for table in TABLES}


def spoiled(part):
    """The part with a state that the table refuses, as the last thing that it looks at."""
    return replace(part, states=[*part.states, ("0" * 64, 99, None)])


# -- parts ----------------------------------------------------------------------------------------


def test_a_part_that_opens_and_the_one_that_seals(store, record_parts):
    first, second = record_parts(5, 3)
    write(store, first)
    assert counts(store)["open_episodes"] == 1
    assert counts(store)["episodes"] == 0
    assert len(store.episodes()) == 0  # nobody sees it yet
    write(store, second)
    found = counts(store)
    assert (found["open_episodes"], found["episodes"], found["steps"]) == (0, 1, 8)
    assert found["audit_events"] == 8
    assert found["blobs"] == 1
    assert found["states"] == 3
    verification = store.verify()
    assert verification.ok, verification.problems


def test_all_parts_at_once(store, record_parts):
    write(store, *record_parts(5, 3), *record_parts(2, seed=2), *record_parts(0, seed=3))
    assert [episode.data["totals"]["steps"] for episode in store.episodes()] == [8, 2, 0]
    verification = store.verify()
    assert verification.ok, verification.problems


def test_nothing_to_write(store):
    write(store)
    assert set(counts(store).values()) == {0}


def test_what_episodes_share_is_written_once(store, record_parts):
    write(store, *record_parts(2, seed=1), *record_parts(2, seed=2))
    write(store, *record_parts(2, seed=3))
    known = set()
    for seed in (4, 5):
        with store.cursor() as cursor:
            write_parts(cursor, record_parts(2, seed=seed), known)
    found = counts(store)
    assert (found["episodes"], found["cases"], found["environments"]) == (5, 1, 1)


@pytest.mark.parametrize("position", [0, 1, 2])
def test_a_failure_leaves_nothing_behind_and_the_store_usable(store, record_parts, position):
    write(store, *record_parts(2, seed=1))
    before = counts(store)
    parts = [record_parts(2, seed=seed)[0] for seed in (2, 3, 4)]
    bad = [*parts]
    bad[position] = spoiled(parts[position])
    known = set()
    with store.cursor() as cursor:
        with pytest.raises(duckdb.Error, match="NOT NULL"):
            write_parts(cursor, bad, known)
        assert counts(store) == before
        assert known == set()
        write_parts(cursor, parts, known)  # the same cursor
    assert counts(store)["episodes"] == 4
    assert store.verify().ok


def test_a_failure_of_the_seal_leaves_the_episode_open(store, record_parts):
    first, second = record_parts(5, 3)
    write(store, first)
    with pytest.raises(duckdb.Error):
        write(store, spoiled(second))
    assert counts(store)["open_episodes"] == 1
    assert counts(store)["steps"] == 5
    write(store, second)
    assert store.verify().ok


def test_an_interrupt_in_the_middle_is_rolled_back(store, record_parts):
    class Interrupting:
        """A cursor in whose last statement Ctrl-C comes."""

        def __init__(self, cursor):
            self.cursor = cursor

        def __getattr__(self, name):
            return getattr(self.cursor, name)

        def execute(self, query, *more):
            if query == "COMMIT":
                raise KeyboardInterrupt
            return self.cursor.execute(query, *more)

    with store.cursor() as cursor:
        with pytest.raises(KeyboardInterrupt):
            write_parts(Interrupting(cursor), record_parts(2))
        assert counts(store)["episodes"] == 0
        write_parts(cursor, record_parts(2))
    assert counts(store)["episodes"] == 1


# -- episodes that were made elsewhere ------------------------------------------------------------


def episode_of(parts):
    from envbench.capture.encoder import gather

    return EpisodeEvidence(gather(parts))


def test_adding_an_episode_keeps_all_of_it(store, record_parts):
    episode = episode_of(record_parts(5, 3))
    store.add(episode)
    found = store.episode(episode.episode_id, verify=True)
    assert found == episode
    assert found.to_dict() == episode.to_dict()
    verification = store.verify()
    assert verification.ok, verification.problems


def test_adding_an_episode_again_changes_nothing(store, record_parts):
    episode = episode_of(record_parts(5, 3))
    store.add(episode)
    before = counts(store)
    store.add(episode)
    store.add(EpisodeEvidence.from_dict(episode.to_dict()))
    assert counts(store) == before


def test_another_episode_of_the_same_id_is_refused(store, record_parts):
    whole = record_parts(5, 3)
    episode = episode_of(whole)
    other = episode_of(record_parts(4))
    seal = replace(whole[-1].seal, digest=other.digest)
    store.add(episode)
    with pytest.raises(StoreError, match=f"has another episode {episode.episode_id}"):
        store.add(episode_of([*whole[:-1], replace(whole[-1], seal=seal)]))
    assert counts(store)["episodes"] == 1


def test_adding_to_a_store_that_is_open_for_reading(tmp_path, record_parts):
    connect(tmp_path / "s.duckdb").close()
    with (
        connect(tmp_path / "s.duckdb", read_only=True) as store,
        pytest.raises(StoreError, match="for reading only"),
    ):
        store.add(episode_of(record_parts(1)))


def test_one_store_to_another(store, record_parts):
    write(store, *record_parts(5, 3), *record_parts(2, seed=2))
    with connect(":memory:") as other:
        for episode in store.episodes():
            other.add(episode)
        assert [e.digest for e in other.episodes()] == [e.digest for e in store.episodes()]
        assert counts(other) == counts(store)
        assert other.verify().ok


def test_a_part_of_an_episode_names_what_it_holds(record_parts):
    parts = record_parts(5, 3)
    part = episode_part(episode_of(parts))
    assert len(part.columns) == 8
    assert [first for _, first, _ in part.states] == [0, 1, 2]
    assert part.arrays == {key: body for each in parts for key, body in each.arrays.items()}


def test_two_processes_do_not_write_one_file(tmp_path):
    path = tmp_path / "s.duckdb"
    code = "import sys; from envbench.store import connect; connect(sys.argv[1])"
    with connect(path):
        other = subprocess.run(
            [sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=120
        )
    assert other.returncode == 1
    assert "StoreLocked" in other.stderr
    assert "is open in process" in other.stderr


# -- arrays ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b"x", bytes(10_000), bytes(range(256))])
def test_content_is_compressed_and_comes_back(content):
    codec, body = compress(content)
    assert decompress(codec, body, len(content)) == content
    assert len(body) <= len(content)
    assert codec == ("zstd" if len(content) == 10_000 else "raw")


@pytest.mark.parametrize(
    ("codec", "body", "n_bytes"),
    [("zstd", b"nothing", 10), ("zstd", compress(bytes(10_000))[1][:-3], 10_000), ("lz9", b"", 0)],
)
def test_content_that_was_damaged(codec, body, n_bytes):
    with pytest.raises(ValueError, match=r"decompress|codec"):
        decompress(codec, body, n_bytes)


def test_references_are_found_at_any_depth():
    text = (
        b'{"a":[{"$envbench":"array","dtype":"f8","sha256":"aa","shape":[1]}],"sha256":"no",'
        b'"z":{"$envbench":"array","sha256":"bb"}}'
    )
    assert array_references(text) == ["aa", "bb"]
    assert array_references(b'{"sha256":"x"}') == []
