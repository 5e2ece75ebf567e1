"""Steps that are held once for several recorders: each has all of its own, whenever it is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from envbench.capture import recorder as recorders
from envbench.capture.batches import sampler
from envbench.capture.lockstep import Lockstep
from envbench.capture.recorder import Header, PlainRow, RawPart, Recorder, Row
from envbench.capture.steps import own_rows

N = 3


@pytest.fixture
def handed() -> dict[int, list[RawPart]]:
    return {number: [] for number in range(N)}


@pytest.fixture
def walking(header: Callable[[], Header], handed: dict[int, list[RawPart]]) -> list[Recorder]:
    made = []
    for number in range(N):
        recorder = Recorder(header(), lambda of, part, at=handed[number]: at.append(part))
        recorder.reset(lambda: (np.zeros(2), {}))
        made.append(recorder)
    return made


@pytest.fixture
def lockstep(walking: list[Recorder]) -> Lockstep:
    return Lockstep(walking, sampler(spaces.Box(0, 9, (2,), np.float64), N))


NONE = np.zeros(N, bool)


def result(at: int, terminated: Any = NONE, truncated: Any = NONE, infos: Any = None) -> Any:
    observations = np.arange(2 * N, dtype=np.float64).reshape(N, 2) + at
    return observations, np.full(N, float(at)), terminated, truncated, infos or {}


def rows_of(steps: list[Row], number: int) -> list[PlainRow]:
    rows = own_rows(steps, number)
    plain = [row for row in rows if isinstance(row, tuple)]
    assert len(plain) == len(rows)
    return plain


def see(lockstep: Lockstep, at: int, **given: Any) -> bool:
    return lockstep.see(np.arange(N) + at, result(at, **given), 10 * at, 10 * at + 1)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (np.zeros(N, bool), True),
        (np.array([False, True, False]), False),
        (np.zeros(N, int), False),
        (np.zeros(N - 1, bool), False),
        (np.zeros((N, 1), bool), False),
        ([False, False, False], False),
        (None, False),
    ],
    ids=repr,
)
@pytest.mark.parametrize("name", ["terminated", "truncated"])
def test_only_what_surely_ends_nothing_is_seen_together(
    name: str, flags: Any, expected: bool, lockstep: Lockstep, walking: list[Recorder]
) -> None:
    assert see(lockstep, 1, **{name: flags}) is expected
    lockstep.part()
    assert [recorder.n_steps for recorder in walking] == [int(expected)] * N


@pytest.mark.parametrize("result", [None, (), [1, 2, 3, 4, 5], (1, 2, 3, 4)], ids=repr)
def test_what_is_no_step_is_not_seen(result: Any, lockstep: Lockstep) -> None:
    assert lockstep.see(np.arange(N), result, 1, 2) is False


def test_a_recorder_that_is_sealed_has_all_its_steps(
    lockstep: Lockstep, walking: list[Recorder], handed: dict[int, list[RawPart]]
) -> None:
    for at in (1, 2, 3):
        assert see(lockstep, at, infos={"of": np.array([at, 20, 30])})
    walking[1].finish("interrupted")
    (part,) = handed[1]
    rows = rows_of(part.steps, 1)
    assert [row[0] for row in rows] == [2, 3, 4]
    assert [row[1].tolist() for row in rows] == [[2 + at, 3 + at] for at in (1, 2, 3)]
    assert [row[2:6] for row in rows] == [(float(at), False, False, {"of": 20}) for at in (1, 2, 3)]
    assert [row[6:] for row in rows] == [(10, 11), (20, 21), (30, 31)]
    assert [recorder.n_steps for recorder in walking] == [3] * N


def test_what_is_held_is_a_copy(lockstep: Lockstep, walking: list[Recorder]) -> None:
    returned = result(1)
    lockstep.see(np.arange(N), returned, 1, 2)
    for array in returned[:2]:
        array += 100
    lockstep.part()
    (row,) = rows_of(walking[2].steps, 2)
    assert (row[1].tolist(), row[2]) == ([5, 6], 1.0)


def test_parts_are_handed_over_at_a_number_of_steps(
    lockstep: Lockstep,
    walking: list[Recorder],
    handed: dict[int, list[RawPart]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recorders, "PART_STEPS", 100)
    for at in range(250):
        assert see(lockstep, at)
    for recorder in walking:
        recorder.finish("closed_early")
    for number in range(N):
        assert [len(part.steps) for part in handed[number]] == [100, 100, 50]


@pytest.mark.parametrize(
    "infos", [{}, {"text": np.array(["x" * 5_000] * N)}], ids=["plain", "infos"]
)
def test_what_a_recorder_may_hold_is_counted(
    infos: Any,
    lockstep: Lockstep,
    walking: list[Recorder],
    handed: dict[int, list[RawPart]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recorders, "PART_BYTES", 100_000)
    monkeypatch.setattr(recorders, "_PART_AT_LEAST", 0)
    for at in range(1_000):
        see(lockstep, at, infos=infos)
    lockstep.part()
    for number in range(N):
        sizes = [sum(map(recorders.weight, part.steps)) for part in handed[number]]
        assert sizes
        # it is looked at after 64 steps at first, and then when it may be enough
        assert all(size > 95_000 for size in sizes)
        assert all(
            len(part.steps) <= 64 or size < 120_000
            for part, size in zip(handed[number], sizes, strict=True)
        )


def test_it_is_known_which_step_was_seen_last(lockstep: Lockstep) -> None:
    first, second = np.arange(N), np.arange(N)
    assert not lockstep.has(first)
    lockstep.see(first, result(1), 1, 2)
    assert lockstep.has(first)
    lockstep.spread()
    assert lockstep.has(first)
    lockstep.see(second, result(2), 3, 4)
    assert (lockstep.has(first), lockstep.has(second)) == (False, True)
