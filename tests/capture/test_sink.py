"""The sink in one process: waiting, closing, failing. Ends of processes are in test_durability."""

import gc
import json
import threading
import time
from contextlib import suppress
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from envbench import EvalCase
from envbench.capture import EpisodeCaptureWrapper, WriteFailed, capture_episode
from envbench.capture import sink as sinks
from envbench.capture.encoder import EpisodeEncoder
from envbench.capture.provenance import Provenance
from envbench.capture.recorder import Header, Recorder
from envbench.capture.sink import Sink, release, sink_for
from envbench.store import connect
from envbench.store.errors import StoreClosed, StoreError, StoreWarning
from envbench.store.spill import spill_folder, write_spill

PATIENCE = 120
"""Seconds after which a thread counts as hanging."""


class Line(gymnasium.Env):
    """Walks along a line; an episode has as many steps as options say."""

    action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Box(0, 2**40, (1,), np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.length = 0, (options or {}).get("length", 3)
        return np.array([0.0]), {}

    def step(self, action):
        self.at += 1
        return np.array([float(self.at)]), 1.0, self.at >= self.length, False, {}


def play(env, seed, length=3, steps=None):
    env.reset(seed=seed, options={"length": length})
    for _ in range(length if steps is None else steps):
        env.step(1)


def capture(store, seed, length=3, observe=dict):
    def walk(env, observation, info):
        for _ in range(length):
            env.step(1)

    return capture_episode(
        Line,
        walk,
        case=EvalCase("walk", case_id="walk"),
        environment_id="line-v1",
        observer_id="none",
        observe=observe,
        seed=seed,
        max_steps=10**6,
        options={"length": length},
        store=store,
    )


def kept(store):
    """(seed, ending, steps) of every episode, all of which must verify."""
    verification = store.verify()
    assert verification.ok, verification.problems
    return store.sql("SELECT seed, ending, n_steps FROM episodes ORDER BY recorded_at").fetchall()


def read(path):
    with connect(path) as store:
        return kept(store)


def in_threads(*functions):
    """Run functions at once; they must end, and what they raise is raised."""
    errors = []

    def call(function):
        try:
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=call, args=(each,), daemon=True) for each in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive(), "it hangs"
    if errors:
        raise errors[0]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.duckdb"


class Folder:
    """A backend that keeps parts in a folder, and can be told to be slow or to refuse.

    Attributes:
        refused: seeds of the episodes that it cannot keep.
        error: what it raises then.
        parts: what it kept.
    """

    by_line = False

    def __init__(self, path, refused=(), error=None, seconds=0.0):
        self.name = "folder"
        self.path = path
        self.refused = refused
        self.error = error or OSError("refused")
        self.seconds = seconds
        self.parts = []
        self.sink = None
        self.most_waiting = 0

    def write(self, parts):
        time.sleep(self.seconds)
        if self.sink is not None:
            self.most_waiting = max(self.most_waiting, self.sink._waiting_bytes)
        for part in parts:
            if part.seal is not None and int(part.seal.head["seed"]) in self.refused:
                raise self.error
        self.parts += parts

    def spill(self, part):
        return write_spill(self.path, part)

    def close(self):
        pass

    @property
    def seeds(self):
        return [int(part.seal.head["seed"]) for part in self.parts]


@pytest.fixture
def header():
    def make(seed, **more):
        return Header(
            **{
                "case": EvalCase("walk", case_id="walk"),
                "surroundings": None,
                "environment_id": "line-v1",
                "observer_id": None,
                "provenance": Provenance(),
                "seed": seed,
                "options": None,
                "max_steps": None,
                "row_keys": None,
                "audited": False,
                "capture_steps": True,
                "closes": False,
            }
            | more
        )

    return make


def record(sink, header, steps=3, ending="terminated"):
    recorder = sink.recorder(header)
    recorder.reset(lambda: (0, {}))
    for at in range(steps):
        recorder.step(1, lambda action, at=at: (at, 1.0, False, False, {}))
    if ending is not None:
        recorder.finish(ending)
    return recorder


# -- waiting --------------------------------------------------------------------------------------


def test_flush_waits_for_an_episode_that_ended_just_now(path, monkeypatch):
    monkeypatch.setattr(sinks, "SETTLE_SECONDS", 0.0)  # the writer seals it as well, at any moment
    with connect(path) as store:
        env = EpisodeCaptureWrapper(Line(), exporter=store)
        for seed in range(60):
            play(env, seed)
            env.flush()
            assert store.sql("SELECT max(seed) FROM episodes").fetchall() == [(seed,)]
        env.close()


def test_flush_from_several_threads_while_others_record_without_end(path):
    stop = threading.Event()
    with connect(path) as store:

        def work(number):
            env = EpisodeCaptureWrapper(Line(), exporter=store)
            play(env, number)
            while not stop.is_set():
                play(env, number)
            env.close()

        def flush():
            try:
                for _ in range(5):
                    store.flush()
            finally:
                stop.set()

        in_threads(lambda: work(1), lambda: work(2), flush, flush)
        assert {ending for _, ending, _ in kept(store)} == {"terminated"}


def test_the_queue_is_bounded_and_its_order_is_kept(tmp_path, monkeypatch, header):
    monkeypatch.setattr(sinks, "QUEUE_BYTES", 50_000)
    backend = Folder(tmp_path / "x", seconds=0.001)
    backend.sink = sink = Sink(backend)
    for seed in range(100):
        record(sink, header(seed))
    sink.close()
    assert backend.seeds == list(range(100))
    one_more = sinks._OF_PART + 3 * 500
    assert 0 < backend.most_waiting <= 50_000 + one_more


def test_the_writer_never_waits_for_itself(path, monkeypatch):
    monkeypatch.setattr(sinks, "QUEUE_BYTES", 0)
    monkeypatch.setattr(sinks, "SETTLE_SECONDS", 0.0)
    with connect(path) as store:
        envs = [EpisodeCaptureWrapper(Line(), exporter=store) for _ in range(3)]

        def work(env):
            for seed in range(10):
                play(env, seed)
            env.close()

        in_threads(*(lambda env=env: work(env) for env in envs))
        assert len(kept(store)) == 30


def test_a_part_that_the_caller_waits_with_is_queued_already(tmp_path, monkeypatch, header):
    """An interrupt that ends the wait, as Ctrl-C does, loses nothing."""
    monkeypatch.setattr(sinks, "QUEUE_BYTES", 0)
    backend = Folder(tmp_path / "x")
    sink = Sink(backend)

    class Interrupted(BaseException):
        pass

    def interrupt():
        raise Interrupted

    monkeypatch.setattr(sink, "make_room", interrupt)
    with pytest.raises(Interrupted):
        record(sink, header(1))
    monkeypatch.undo()
    sink.close()
    assert backend.seeds == [1]


# -- closing --------------------------------------------------------------------------------------


def test_close_twice_and_at_once(path):
    store = connect(path)
    env = EpisodeCaptureWrapper(Line(), exporter=store)
    play(env, 1)
    env.close()
    env.close()
    in_threads(store.close, store.close, store.close)
    store.close()
    assert read(path) == [(1, "terminated", 3)]


def test_a_sink_is_closed_twice_and_at_once(path):
    env = EpisodeCaptureWrapper(Line(), exporter=path)
    sink = env._sink
    play(env, 1)
    in_threads(sink.close, sink.close, sink.close)
    sink.close()
    env.close()
    assert read(path) == [(1, "terminated", 3)]


def test_a_store_that_is_closed_while_an_episode_is_recorded(path):
    store = connect(path)
    env = EpisodeCaptureWrapper(Line(), exporter=store)
    play(env, 1)
    play(env, 2, 9, 4)
    store.close()
    for _ in range(5):
        env.step(1)
    with pytest.raises(WriteFailed, match=r"was closed while an episode was open.*\.spill"):
        env.reset()
    with pytest.raises(StoreClosed, match="connect to it again"):
        env.reset()
    env.close()
    assert read(path) == [(1, "terminated", 3), (2, "terminated", 9)]


def test_a_store_that_is_closed_while_a_long_episode_is_recorded(path):
    store = connect(path)
    env = EpisodeCaptureWrapper(Line(), exporter=store)
    play(env, 1, 12_000, 6_000)
    store.close()
    with connect(path) as other:  # it is not interrupted: it goes on here
        assert kept(other) == []
    for _ in range(6_000):
        env.step(1)
    with pytest.raises(WriteFailed, match="was closed while an episode was open"):
        env.close()
    assert read(path) == [(1, "terminated", 12_000)]
    assert not spill_folder(path).exists()


def test_a_store_that_is_closed_between_episodes(path):
    store = connect(path)
    env = EpisodeCaptureWrapper(Line(), exporter=store)
    play(env, 1)
    store.close()
    with pytest.raises(StoreClosed):
        env.reset()
    env.close()
    assert read(path) == [(1, "terminated", 3)]


def test_a_closed_store_is_no_target(path):
    store = connect(path)
    store.close()
    with pytest.raises(StoreClosed):
        EpisodeCaptureWrapper(Line(), exporter=store)
    with pytest.raises(StoreClosed):
        capture(store, 1)


def test_a_store_that_is_closed_while_another_thread_records_without_end(path):
    store = connect(path)
    env = EpisodeCaptureWrapper(Line(), exporter=store)
    play(env, 0)
    seeds = []

    def work():
        for seed in range(1, 10**9):
            play(env, seed)
            seeds.append(seed)

    with pytest.raises(StoreError, match="was closed"):
        in_threads(work, store.close)
    with suppress(WriteFailed):  # what it spilled was said already, or is now
        env.close()
    found = read(path)
    assert [seed for seed, _, _ in found] == list(range(len(found)))
    assert len(found) in (len(seeds) + 1, len(seeds) + 2)


def test_an_episode_that_was_sealed_at_exit_takes_no_more_steps(path):
    store = connect(path)
    env = EpisodeCaptureWrapper(Line(), exporter=store)
    play(env, 1, 20_000, 6_000)
    env._sink.drain()
    for _ in range(14_000):
        env.step(1)
    env.close()
    assert kept(store) == [(1, "interrupted", 6_000)]
    store.close()


# -- wrappers that are dropped --------------------------------------------------------------------


def test_a_wrapper_that_is_dropped(path):
    with connect(path) as store:
        env = EpisodeCaptureWrapper(Line(), exporter=store)
        play(env, 1)
        play(env, 2, 9, 4)
        del env
        gc.collect()
        store.flush()
        assert kept(store) == [(1, "terminated", 3), (2, "interrupted", 4)]


def test_a_dropped_wrapper_lets_go_of_its_file(path):
    env = EpisodeCaptureWrapper(Line(), exporter=path)
    play(env, 1, 9, 4)
    thread = env._sink._thread
    del env
    gc.collect()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert not any(sink.key == ("path", str(path)) for sink in sinks._SINKS)
    assert read(path) == [(1, "interrupted", 4)]


def test_a_dropped_wrapper_beside_one_in_use(path):
    first = EpisodeCaptureWrapper(Line(), exporter=path)
    second = EpisodeCaptureWrapper(Line(), exporter=path)
    play(first, 1, 9, 4)
    del first
    gc.collect()
    play(second, 2)
    second.close()
    assert sorted(read(path)) == [(1, "interrupted", 4), (2, "terminated", 3)]
    assert not any(sink.key == ("path", str(path)) for sink in sinks._SINKS)


# -- failing --------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [OSError("refused"), MemoryError(), SystemExit(1)])
def test_an_episode_that_cannot_be_written_takes_no_other_with_it(tmp_path, header, error):
    backend = Folder(tmp_path / "x", refused={2, 5}, error=error)
    sink = Sink(backend)
    for seed in range(8):
        record(sink, header(seed))
    with pytest.raises(WriteFailed, match="2 parts of episodes are in"):
        sink.flush()
    record(sink, header(8))  # the writer is alive
    sink.close()
    assert backend.seeds == [0, 1, 3, 4, 6, 7, 8]
    assert len(list(spill_folder(backend.path).iterdir())) == 2


def test_an_episode_that_cannot_be_encoded_takes_no_other_with_it(tmp_path, header):
    backend = Folder(tmp_path / "x")
    sink = Sink(backend)
    record(sink, header(1))
    bad = header(2, environment_id="lone \ud800 surrogate")
    record(sink, bad)
    record(sink, header(3))
    with pytest.raises(WriteFailed, match=f"episode {bad.episode_id} could not be encoded"):
        sink.flush()
    sink.close()
    assert backend.seeds == [1, 3]


def test_a_failure_is_said_once(tmp_path, header):
    sink = Sink(Folder(tmp_path / "x", refused={1}))
    record(sink, header(1))
    with pytest.raises(WriteFailed):
        sink.flush()
    sink.flush()
    sink.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_the_writer_that_died_is_replaced_by_its_callers(tmp_path, header, monkeypatch):
    backend = Folder(tmp_path / "x")
    sink = Sink(backend)

    def die():
        raise SystemExit

    monkeypatch.setattr(sink, "_next", die)
    record(sink, header(1))
    sink._thread.join(PATIENCE)
    record(sink, header(2))
    sink.flush()
    assert backend.seeds == [1, 2]
    sink.close()


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_a_file_that_is_deleted_under_the_writer(path, how):
    store = connect(path)
    env = EpisodeCaptureWrapper(Line(), exporter=store)
    play(env, 1)
    env.flush()
    path.unlink()
    if how == "replaced":
        path.write_bytes(b"")
    play(env, 2)
    with pytest.raises(WriteFailed, match="deleted or replaced"):
        env.flush()
    play(env, 3)
    with pytest.raises(WriteFailed, match="deleted or replaced"):
        env.close()
    with pytest.raises(WriteFailed, match="deleted or replaced") as failed:
        capture(store, 4)
    assert failed.value.episode.data["seed"] == 4
    with connect(":memory:") as other:  # as the message says
        for episode in store.episodes():
            other.add(episode)
        assert kept(other) == [(1, "terminated", 3)]
    with pytest.warns(StoreWarning, match="deleted or replaced"):
        store.close()
    path.with_name("store.duckdb.wal").unlink(missing_ok=True)
    assert read(path) == [(2, "terminated", 3), (3, "terminated", 3), (4, "terminated", 3)]


@pytest.fixture
def nowhere(path):
    """A store whose file is gone, and whose spill folder cannot be made."""
    store = connect(path)
    env = EpisodeCaptureWrapper(Line(), exporter=store)
    kept_file = path.rename(path.with_suffix(".away"))
    spill_folder(path).write_text("a file stands where the folder should")
    yield store, env, kept_file
    assert path.exists(), "a test moves it back"
    env.close()
    store.close()


def test_what_can_be_put_nowhere_is_held_and_written_by_a_later_flush(path, nowhere):
    store, env, away = nowhere
    play(env, 1)
    with pytest.raises(WriteFailed, match="1 part of an episode is held in memory"):
        env.flush()
    play(env, 2)
    with pytest.raises(WriteFailed, match="2 parts of episodes are held in memory"):
        env.flush()
    away.rename(path)
    env.flush()
    assert kept(store) == [(1, "terminated", 3), (2, "terminated", 3)]
    env.close()


def walk(env, steps):
    """Take steps of a long episode, each part of which is dealt with before the next step."""
    for _ in range(steps):
        env.step(1)
        if env.unwrapped.at % 5_000 == 0:
            env._sink.wait()


def test_what_can_be_put_nowhere_is_said_at_once_in_a_long_episode(path, nowhere):
    store, env, away = nowhere
    env.reset(options={"length": 10**6})
    with pytest.raises(WriteFailed, match="held in memory"):
        walk(env, 10**6)
    assert env.unwrapped.at == 10_000  # the first was held after its step, the second is said
    away.rename(path)
    env.close()
    assert kept(store) == [(None, "closed_early", 10_000)]


def test_the_later_parts_of_an_episode_follow_the_first(path, nowhere):
    """A part that finds room is not put beside the store before those that came before it."""
    store, env, away = nowhere
    env.reset(seed=1, options={"length": 20_000})
    walk(env, 5_000)
    spill_folder(path).unlink()
    with pytest.raises(WriteFailed, match="held in memory"):
        walk(env, 5_001)  # before the last one is taken
    assert env.unwrapped.at == 10_000
    assert not spill_folder(path).exists()
    walk(env, 4_999)
    with pytest.raises(WriteFailed, match="2 parts of episodes are in"):
        env.flush()
    walk(env, 5_001)
    with pytest.raises(WriteFailed, match="an earlier part of the episode was not written"):
        env.close()
    away.rename(path)
    store.close()
    assert read(path) == [(1, "terminated", 20_000)]


def test_capture_episode_says_that_nothing_was_kept(path, nowhere):
    store, _, away = nowhere
    with pytest.raises(WriteFailed, match="held in memory") as failed:
        capture(store, 1)
    assert len(failed.value.episode.steps) == 3
    away.rename(path)
    store.flush()
    assert kept(store) == [(1, "terminated", 3)]


def test_a_store_in_memory_has_no_spill(header):
    with connect(":memory:") as store:
        env = EpisodeCaptureWrapper(Line(), exporter=store)
        play(env, 1)
        env.flush()
        with store.cursor() as cursor:
            cursor.execute("ALTER TABLE steps RENAME TO away").fetchall()
        play(env, 2)
        with pytest.raises(WriteFailed, match=r":memory:.*\n?.*held in memory"):
            env.flush()
        with store.cursor() as cursor:
            cursor.execute("ALTER TABLE away RENAME TO steps").fetchall()
        env.close()
        assert kept(store) == [(1, "terminated", 3), (2, "terminated", 3)]


# -- several of them ------------------------------------------------------------------------------


def test_two_stores_on_one_file_write_shared_rows_once(path):
    with connect(path) as first, connect(path) as second:
        envs = [EpisodeCaptureWrapper(Line(), exporter=store) for store in (first, second)]

        def work(env):
            for seed in range(10):
                play(env, seed)
            env.close()

        in_threads(*(lambda env=env: work(env) for env in envs))
        assert len(kept(first)) == 20
        assert first.sql("SELECT count(*) FROM cases").fetchall() == [(1,)]
        assert first.sql("SELECT count(*) FROM environments").fetchall() == [(1,)]


def test_one_target_has_one_sink(path):
    first, second = sink_for(path), sink_for(Path(path))
    assert first is second
    assert first.users == 2
    sinks.release(first)
    assert not first.closed
    sinks.release(first)
    assert first.closed


# -- JSON lines -----------------------------------------------------------------------------------


def lines_of(path):
    """(kind, step or number of steps) of every line of a file."""
    records = [json.loads(line) for line in path.read_text().splitlines()]
    return [
        (record["decision_type"], record.get("step_index", record["outputs"].get("total_steps")))
        for record in records
    ]


@pytest.mark.parametrize("sizes", [(3,), (2, 3, 1), (2, 0)])
def test_spilled_parts_of_json_lines_are_taken_in_once(tmp_path, sizes, header):
    path = tmp_path / "episodes.jsonl"
    parts = []
    encoder = EpisodeEncoder(header(1), repeat_arrays=True)
    recorder = Recorder(encoder.header, lambda of, raw: parts.append(encoder.encode(raw)))
    recorder.reset(lambda: (0, {}))
    for number, size in enumerate(sizes, 1):
        for at in range(size):
            recorder.step(1, lambda action, at=at: (at, 1.0, False, False, {}))
        if number < len(sizes):
            recorder._hand_over(None)
    recorder.finish("policy_stop")
    files = [write_spill(path, part) for part in parts]
    contents = {file: file.read_bytes() for file in files}
    total = sum(sizes)
    expected = [("rl.step", step) for step in range(total)] + [("rl.episode", total)]
    for _ in range(2):  # the second time as after a crash before the files were removed
        sinks.release(sink_for(path))
        assert lines_of(path) == expected
        assert not spill_folder(path).exists()
        spill_folder(path).mkdir()
        for file, content in contents.items():
            file.write_bytes(content)
    files[-1].write_bytes(b"damaged")
    with pytest.warns(StoreWarning, match="could not be taken in and is left"):
        sinks.release(sink_for(path))
    assert lines_of(path) == expected


def test_a_file_of_json_lines_that_is_closed_while_an_episode_is_recorded(tmp_path):
    path = tmp_path / "episodes.jsonl"
    env = EpisodeCaptureWrapper(Line(), exporter=path)
    play(env, 1, 9, 2)
    env._sink.close()
    with pytest.raises(WriteFailed, match=r"jsonl\.spill.*takes the files in"):
        env.close()
    sinks.release(sink_for(path))
    assert lines_of(path) == [("rl.step", 0), ("rl.step", 1), ("rl.episode", 2)]


@pytest.mark.parametrize("name", ["rollouts.jsonl", "rollouts.duckdb"])
def test_a_sink_that_is_being_closed_is_given_to_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = tmp_path / name
    first, given, close = sink_for(path), [], Sink.close

    def close_as_another_thread_opens(self: Sink) -> None:
        if not given:
            given.append(sink_for(path))
        close(self)

    monkeypatch.setattr(Sink, "close", close_as_another_thread_opens)
    release(first)
    assert given[0] is not first
    assert not given[0].closed
    release(given[0])
