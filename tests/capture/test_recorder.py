"""The recorder: it copies what it sees when it sees it, and hands it over in parts."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from envbench.capture import capture_episodes, recorder, sink
from envbench.capture.recorder import NOTHING, Header, RawPart, Recorder, hold
from envbench.evidence import EpisodeEvidence
from envbench.evidence.tagged import Encoding, Kept, encode
from envbench.store import Store, connect

Capture = Callable[..., EpisodeEvidence]
NewHeader = Callable[[], Header]
Scripted = Any

GO = (1, 0.5, False, False, {})


@pytest.fixture
def parts() -> list[RawPart]:
    return []


@pytest.fixture
def seen(parts: list[RawPart], header: NewHeader) -> Recorder:
    """A recorder that hands its parts over to a list."""
    return Recorder(header(), lambda of, part: parts.append(part))


# What is held cannot change any more


class Point(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass
class Record:
    rows: list[int]


def nested() -> dict[str, Any]:
    return {"a": [1, {"b": np.arange(3)}], "t": (np.zeros(2), [4])}


@pytest.mark.parametrize(
    ("make", "change"),
    [
        (lambda: np.arange(4), lambda value: value.fill(9)),
        (lambda: np.arange(16).reshape(4, 4)[::2, ::2], lambda value: value.fill(9)),
        (lambda: np.ma.MaskedArray([1, 2], mask=[0, 1]), lambda value: value.fill(9)),
        (lambda: np.array([[1], {"a": 2}], dtype=object), lambda value: value[0].append(9)),
        (lambda: np.array([(1, 2.0)], dtype="i4,f8"), lambda value: value["f0"].fill(9)),
        (lambda: [1, [2, 3]], lambda value: value[1].append(9)),
        (nested, lambda value: value["a"][1]["b"].fill(9)),
        (nested, lambda value: value["t"][0].fill(9)),
        (nested, lambda value: value["t"][1].append(9)),
        (nested, lambda value: value.clear()),
        (lambda: Point([1], np.zeros(1)), lambda value: value.x.append(9)),
        (lambda: Point([1], np.zeros(1)), lambda value: value.y.fill(9)),
        (lambda: Record([1, 2]), lambda value: value.rows.append(9)),
        (lambda: {"r": Record([1, 2])}, lambda value: value["r"].rows.append(9)),
        (lambda: {1, 2}, lambda value: value.add(9)),
        (lambda: bytearray(b"ab"), lambda value: value.append(9)),
        (lambda: collections.OrderedDict(a=[1]), lambda value: value["a"].append(9)),
        (lambda: collections.defaultdict(list, a=[1]), lambda value: value["b"]),
        (lambda: collections.deque([1, 2]), lambda value: value.append(9)),
    ],
)
def test_a_held_value_stays_what_it_was(
    make: Callable[[], Any], change: Callable[[Any], Any]
) -> None:
    value = make()
    held = hold(value)
    before = encode(make(), Encoding())
    change(value)
    assert encode(held, Encoding()) == before
    assert encode(value, Encoding()) != before


@pytest.mark.parametrize(
    "value",
    [5, 2**80, 0.5, "text", True, None, b"ab", 1j, np.float32(1), np.int8(1), np.bool_(True)],
    ids=repr,
)
def test_what_cannot_change_is_held_as_it_is(value: Any) -> None:
    assert hold(value) is value


def test_equal_parts_are_held_with_their_types() -> None:
    held = hold((1, 1.0, True, np.int64(1), [1], (1,), Point(1, 2)))
    assert [type(part) for part in held] == [
        *(int, float, bool, np.int64),
        *(list, tuple, Point),
    ]


def test_a_value_that_contains_itself_is_held_and_says_so() -> None:
    value: dict[str, Any] = {"n": 1}
    value["me"] = value
    held = hold({"v": value, "m": 2})
    found = Encoding()
    text = encode(held, found)
    assert b'"n":1' in text
    assert b'"m":2' in text
    assert [problem.reason for problem in found.problems] == ["it contains itself"]


def test_a_value_nested_too_deep_is_held_as_missing() -> None:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    found = Encoding()
    encode(hold({"deep": value, "n": 1}), found)
    assert len(found.problems) == 1
    assert "deep" in found.problems[0].reason


def test_an_iterator_is_not_used_up() -> None:
    numbers = iter([1, 2, 3])
    held = hold({"it": numbers})
    assert next(numbers) == 1
    assert isinstance(held["it"], Kept)


class Hostile(dict[str, Any]):
    def items(self) -> Any:
        raise RuntimeError("no")

    __iter__ = __len__ = __bool__ = items  # type: ignore[assignment]


def test_a_hostile_class_cannot_raise_in_the_loop(
    scripted: Scripted, capture: Capture, store: Store
) -> None:
    result = (1, 0.5, False, False, Hostile(a=1))
    wrapped = capture_episodes(scripted(result, (2, 0.0, True, False, {})), exporter=store)
    wrapped.reset()
    assert wrapped.step(0) is result
    wrapped.step(0)
    wrapped.close()
    assert list(store.episodes())[-1].steps[0].info.value == {"a": 1}


# Steps, flags and errors


def test_a_step_is_seen_with_what_it_was_given_and_returned(
    seen: Recorder, parts: list[RawPart]
) -> None:
    seen.reset(lambda: (0, {}))
    result = (1, 0.5, False, False, {"a": 1})
    assert seen.step(7, lambda action: (result, action)[0]) is result
    seen.finish("policy_stop")
    (part,) = parts
    assert part.reset is not None
    assert part.reset.result == (0, {})
    (row,) = part.steps
    assert isinstance(row, tuple)
    assert row[:6] == (7, 1, 0.5, False, False, {"a": 1})
    assert row[6] <= row[7]
    assert part.ending is not None
    assert part.ending.ending == "policy_stop"


@pytest.mark.parametrize(
    ("terminated", "truncated", "ended"),
    [
        (True, False, (True, False)),
        (np.bool_(True), np.bool_(False), (True, False)),
        (np.array(False), np.array(True), (False, True)),
        (1, 0, (True, False)),
        ("yes", None, (True, False)),
        (np.array([True, True]), True, (False, True)),
        (True, np.array([True, True]), (True, False)),
    ],
    ids=repr,
)
def test_the_end_is_taken_from_flags_as_an_agent_would(
    terminated: Any, truncated: Any, ended: tuple[bool, bool], seen: Recorder
) -> None:
    seen.reset(lambda: (0, {}))
    seen.step(0, lambda action: (0, 0.0, terminated, truncated, {}))
    assert (seen.terminated, seen.truncated) == ended
    assert seen.ended


def test_a_result_that_is_an_iterator_reaches_the_agent_whole(seen: Recorder) -> None:
    seen.reset(lambda: (0, {}))
    result = seen.step(0, lambda action: iter([1, 2.0, True, False, {}]))
    assert list(result) == [1, 2.0, True, False, {}]


@pytest.mark.parametrize(
    "info",
    [np.arange(2), Hostile(), None, 0, [], "", object()],
    ids=lambda value: repr(type(value)),
)
def test_no_info_can_raise_in_the_loop(info: Any, seen: Recorder, parts: list[RawPart]) -> None:
    seen.reset(lambda: (0, {}))
    result = (0, 0.0, False, False, info)
    assert seen.step(0, lambda action: result) is result
    seen.finish("policy_stop")
    assert len(parts[0].steps) == 1


@dataclasses.dataclass
class Interrupting:
    n: int

    def __getattribute__(self, name: str) -> Any:
        if name == "n":
            raise KeyboardInterrupt
        return super().__getattribute__(name)


@pytest.mark.parametrize("observe", [None, dict], ids=["plain", "observed"])
def test_an_interrupt_while_a_step_is_noted_leaves_its_row(
    observe: Any, parts: list[RawPart], header: NewHeader
) -> None:
    noting = Recorder(header(), lambda of, part: parts.append(part), observe)
    noting.reset(lambda: (0, {}))
    with pytest.raises(KeyboardInterrupt):
        noting.step(4, lambda action: (0, 0.0, False, False, {"i": Interrupting(1)}))
    noting.step(5, lambda action: GO)
    noting.finish("policy_stop")
    first, _ = parts[0].steps
    assert not isinstance(first, tuple)
    assert (first.action, first.result) == (4, NOTHING)
    assert first.errors[0]["type"] == "KeyboardInterrupt"
    assert noting.n_steps == 2


def test_errors_are_remembered_while_they_may_come_back(seen: Recorder) -> None:
    error = OSError("x")

    def fail(action: Any) -> Any:
        raise error

    seen.reset(lambda: (0, {}))
    with pytest.raises(OSError, match="x"):
        seen.step(0, fail)
    assert seen.knows(error)
    assert not seen.knows(OSError("x"))
    seen.finish("error")
    assert not seen.knows(error)  # nothing keeps the frames of the run alive


def test_an_episode_is_finished_once(seen: Recorder, parts: list[RawPart]) -> None:
    seen.reset(lambda: (0, {}))
    seen.finish("policy_stop")
    seen.finish("error")
    assert [part.ending and part.ending.ending for part in parts] == ["policy_stop"]


def test_a_part_that_nobody_took_is_not_lost(header: NewHeader) -> None:
    taken: list[RawPart] = []
    interrupts = [KeyboardInterrupt(), KeyboardInterrupt()]

    def take(of: Recorder, part: RawPart) -> None:
        if interrupts:
            raise interrupts.pop()
        taken.append(part)

    noting = Recorder(header(), take)
    noting.reset(lambda: (0, {}))
    noting.step(1, lambda action: GO)
    with pytest.raises(KeyboardInterrupt):
        noting.finish("terminated")
    noting.finish("interrupted")  # as at exit, for what is open then
    noting.finish("interrupted")
    (part,) = taken
    assert (part.ending and part.ending.ending, len(part.steps)) == ("terminated", 1)


# Parts


def test_parts_are_handed_over_at_a_number_of_steps(
    seen: Recorder, parts: list[RawPart], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "PART_STEPS", 100)
    seen.reset(lambda: (0, {}))
    for i in range(250):
        seen.step(i, lambda action: GO)
    seen.finish("policy_stop")
    assert [len(part.steps) for part in parts] == [100, 100, 50]
    assert [part.reset is None for part in parts] == [False, True, True]
    assert [part.ending is None for part in parts] == [True, True, False]
    rows = itertools.chain.from_iterable(part.steps for part in parts)
    assert [row[0] for row in rows] == list(range(250))  # type: ignore[index]


def test_parts_are_handed_over_when_much_is_held(
    seen: Recorder, parts: list[RawPart], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "PART_BYTES", 1_000_000)
    image = np.zeros(20_000, np.uint8)
    seen.reset(lambda: (0, {}))
    for i in range(300):
        seen.step(i, lambda action: (image, 0.0, False, False, {}))
    seen.finish("policy_stop")
    # 50 images are a million bytes; the first look is after 64 steps
    assert all(45 <= len(part.steps) <= 70 for part in parts[:-1])
    assert sum(len(part.steps) for part in parts) == 300


def test_large_things_anywhere_count_as_much(
    parts: list[RawPart], monkeypatch: pytest.MonkeyPatch, header: NewHeader
) -> None:
    monkeypatch.setattr(recorder, "PART_BYTES", 200_000)
    large = np.zeros(4_000, np.uint8)
    text = "x" * 4_000
    results: dict[str, Any] = {
        "nested": ({"a": [large]}, 0.0, False, False, {}),
        "info": (0, 0.0, False, False, {"text": text}),
        "dataclass": (0, 0.0, False, False, {"r": Record(list(range(2_000)))}),
        "array in a dataclass": (0, 0.0, False, False, {"r": Point(large, {1, 2})}),
        "object array": (0, 0.0, False, False, {"r": np.array([large], dtype=object)}),
    }
    for name, result in results.items():
        parts.clear()
        holding = Recorder(header(), lambda of, part: parts.append(part))
        holding.reset(lambda: (0, {}))
        for i in range(200):
            holding.step(i, lambda action, result=result: result)
        holding.finish("policy_stop")
        assert max(len(part.steps) for part in parts) <= 130, name


class Counting(gymnasium.Env[Any, Any]):
    """Counts to a number, with a state of 4 rows of which one changes now and then."""

    action_space = Discrete(3)
    observation_space = Box(0, 1e6, (2,), np.float64)

    def __init__(self, last: int) -> None:
        self.last = last
        self.rows = [{"id": i, "n": 0} for i in range(4)]
        self.buffer = np.zeros(2)

    def reset(self, **given: Any) -> Any:
        self.n = 0
        return self.buffer, {}

    def step(self, action: Any) -> Any:
        self.n += 1
        self.buffer[:] = self.n, self.n / 2
        if self.n % 100 == 0:
            self.rows[self.n // 100 % 4]["n"] = self.n
        return self.buffer, self.n / 8, self.n == self.last, False, {"n": self.n}

    def observe(self) -> dict[str, Any]:
        return {"rows": self.rows}


def count(env: Any, last: int) -> str:
    for n in range(last):
        env.step(n % 3)
    return "done"


def test_a_long_episode_in_parts_is_the_same_evidence_as_in_one(
    capture: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def record(store: Any) -> EpisodeEvidence:
        env = Counting(12_000)
        return capture(
            env,
            lambda guarded, observation, info: count(guarded, 12_000),
            observe=env.observe,
            max_steps=20_000,
            store=store,
        )

    with connect(tmp_path / "e.duckdb") as store:
        in_parts = record(store)
        assert in_parts.verify() == []
        kept = store.episode(in_parts.episode_id)
        # one state at the start, and one at each hundredth step
        query = "SELECT count(*) FROM states WHERE episode_id = ?"
        assert store.sql(query, [kept.episode_id]).fetchall() == [(121,)]
        assert kept.data["totals"]["steps"] == 12_000
        assert kept.final_state["rows"][0] == {"id": 0, "n": 12_000}
        assert kept.states[12_000]["rows"][3] == {"id": 3, "n": 11_900}
        assert len(kept.states) == 12_001
        # a part ends after each 5,000 steps
        rows = store.sql(
            "SELECT observation::VARCHAR, reward, info::VARCHAR FROM steps WHERE episode_id = ?"
            " AND step_index IN (1, 5000, 5001, 12000) ORDER BY step_index",
            [kept.episode_id],
        ).fetchall()
        assert rows == [
            ("[[1.0,0.5]]", 0.125, '{"n":1}'),
            ("[[5000.0,2500.0]]", 625.0, '{"n":5000}'),
            ("[[5001.0,2500.5]]", 625.125, '{"n":5001}'),
            ("[[12000.0,6000.0]]", 1500.0, '{"n":12000}'),
        ]
        monkeypatch.setattr(recorder, "PART_STEPS", 1_000_000)
        monkeypatch.setattr(recorder, "PART_BYTES", 10**12)
        whole = record(None)
    assert whole.trajectory_digest == in_parts.trajectory_digest


@pytest.mark.slow
def test_a_long_episode_is_captured_in_memory_that_does_not_grow_with_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "PART_STEPS", 500)
    monkeypatch.setattr(sink, "QUEUE_BYTES", 1_000_000)
    monkeypatch.setattr(sink, "TOGETHER_BYTES", 500_000)

    def peak(steps: int) -> int:
        wrapped = capture_episodes(Counting(steps), exporter=store)
        wrapped.reset()
        tracemalloc.start()
        try:
            count(wrapped, steps)
            wrapped.flush()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
            wrapped.close()

    peak(1_000)
    short, long = peak(8_000), peak(32_000)
    assert list(store.episodes())[-1].data["totals"]["steps"] == 32_000
    assert long < 1.3 * short + 1_000_000


def test_a_recorder_never_holds_more_than_a_part(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "PART_STEPS", 500)
    wrapped = capture_episodes(Counting(10**9), exporter=store)
    wrapped.reset()
    held = []
    for n in range(2_600):
        wrapped.step(n % 3)
        assert wrapped._recorder is not None
        held.append(len(wrapped._recorder.steps))
    wrapped.close()
    assert max(held) < 500
    assert held[-1] == 100


def test_an_episode_of_another_thread_has_its_own_recorder(store: Store) -> None:
    def play(n: int) -> None:
        wrapped = capture_episodes(Counting(n), exporter=store)
        wrapped.reset()
        count(wrapped, n)
        wrapped.close()

    threads = [threading.Thread(target=play, args=(n,)) for n in (30, 40, 50)]
    before = len(store.episodes())
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    episodes = list(store.episodes())[before:]
    assert sorted(len(episode.steps) for episode in episodes) == [30, 40, 50]
    for episode in episodes:
        assert [step.info["n"] for step in episode.steps] == list(range(1, len(episode.steps) + 1))


def test_a_stored_long_episode_is_read_key_by_key(
    capture: Capture, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "PART_STEPS", 200)
    env = Counting(700)
    episode = capture(
        env,
        lambda guarded, *_: count(guarded, 700),
        observe=env.observe,
        max_steps=800,
        store=store,
    )
    kept = store.episode(episode.episode_id)
    source = kept._source
    monkeypatch.setattr(type(source), "steps", lambda self: pytest.fail("the steps were read"))
    assert kept.data["final_state"]["rows"][3]["n"] == 700
    assert kept.ending == "terminated"
    assert kept.data["totals"] == {"reward": 30668.75, "steps": 700}
