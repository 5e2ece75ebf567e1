"""Batches taken apart: each environment gets what was its own, and nothing of the others."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array
from hypothesis import given
from hypothesis import strategies as st

from envbench.capture.batches import infos_of, numbers, sampler, samples
from envbench.capture.recorder import has_kept
from envbench.evidence.tagged import Encoding, encode


def text(value: Any) -> bytes:
    """The tagged form, which tells 1 from 1.0, True and `np.int64(1)`."""
    return encode(value, Encoding())


# -- infos ----------------------------------------------------------------------------------------


def batched(infos: list[dict[str, Any]]) -> dict[str, Any]:
    """Infos as Gymnasium batches them."""
    envs = VectorEnv[Any, Any, Any]()
    envs.num_envs = len(infos)
    batch: dict[str, Any] = {}
    for i, info in enumerate(infos):
        batch = envs._add_info(batch, info, i)
    return batch


def test_absent_none_and_false_are_three_things() -> None:
    infos: list[dict[str, Any]] = [{"x": None}, {}, {"x": False}, {"x": {}}, {"y": None}]
    assert infos_of(batched(infos[:3]), 3) == infos[:3]
    assert infos_of(batched([infos[3], infos[1], infos[4]]), 3) == [infos[3], {}, infos[4]]


def test_numbers_keep_what_they_became_in_the_batch() -> None:
    found = infos_of(batched([{"n": 1, "f": 0.5, "b": True, "u": np.uint8(3)}, {}]), 2)
    expected = {"n": np.int64(1), "f": np.float64(0.5), "b": np.bool_(True), "u": np.uint8(3)}
    assert text(found[0]) == text(expected)
    assert found[1] == {}


def test_a_key_of_one_environment_only() -> None:
    infos = [{"x": np.float32(1), "y": np.arange(2)}, {"x": np.float32(2)}]
    first, second = infos_of(batched(infos), 2)
    assert text(first) == text(infos[0])
    assert text(second) == text(infos[1])


def test_nested_infos() -> None:
    infos = [{"a": {"b": 1, "c": {"d": "x"}}}, {"a": {}}, {"a": {"c": {}}}, {}]
    assert infos_of(batched(infos), 4) == infos


def test_keys_that_begin_like_masks() -> None:
    infos: list[dict[str, Any]] = [{"_x": 5, "__": "two"}, {"__": "three"}]
    assert infos_of(batched(infos), 2) == infos


def test_keys_that_are_no_text() -> None:
    infos: list[dict[Any, Any]] = [{1: "a", (2, 3): "b"}, {1: "c"}]
    assert infos_of(batched(infos), 2) == infos


def test_objects_are_held_as_they_were() -> None:
    live = [1, 2]
    found = infos_of(batched([{"x": live}, {"x": "text"}]), 2)
    live.append(3)
    assert found == [{"x": [1, 2]}, {"x": "text"}]


def test_arrays_that_are_written_into_again() -> None:
    batch = batched([{"x": np.zeros(2)}, {"x": np.ones(2)}])
    found = infos_of(batch, 2)
    batch["x"][:] = 9
    assert [info["x"].tolist() for info in found] == [[0, 0], [1, 1]]


def test_what_a_wrapper_adds_without_masks() -> None:
    # as RecordEpisodeStatistics does: one mask for a dict of arrays
    batch = {
        "episode": {"r": np.array([1.5, 0.0]), "l": np.array([3, 0])},
        "_episode": np.array([True, False]),
        "lives": np.array([2, 3]),
        "name": "level-1",
        "nobody": {"x": np.array([7, 8])},
        "pairs": [(1, 2), (3, 4)],
        "other": np.arange(5),
        "single": np.array(4),
    }
    first, second = infos_of(batch, 2)
    assert first.pop("other").tolist() == second.pop("other").tolist() == [0, 1, 2, 3, 4]
    assert first.pop("single").tolist() == 4
    assert second.pop("single").shape == ()
    assert first == {
        "episode": {"r": 1.5, "l": 3},
        "lives": 2,
        "name": "level-1",
        "nobody": {"x": 7},
        "pairs": (1, 2),
    }
    assert second == {"lives": 3, "name": "level-1", "nobody": {"x": 8}, "pairs": (3, 4)}


def test_infos_in_other_forms() -> None:
    assert infos_of([{"a": 1}, {}], 2) == [{"a": 1}, {}]
    assert infos_of({}, 3) == [{}, {}, {}]
    assert infos_of(None, 2) == [None, None]
    assert infos_of("ab", 2) == ["a", "b"]
    assert infos_of([{"a": 1}], 2) == [[{"a": 1}]] * 2


LEAVES = (
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3) | st.lists(st.integers())
)
INFOS = st.dictionaries(
    st.sampled_from(["a", "b", "c"]), LEAVES | st.dictionaries(st.sampled_from("xy"), LEAVES)
)


@given(st.lists(INFOS, min_size=1, max_size=4))
def test_whatever_gymnasium_could_batch_comes_apart(infos: list[dict[str, Any]]) -> None:
    kinds: dict[str, set[Any]] = {}
    for info in infos:
        for key, value in info.items():
            kinds.setdefault(key, set()).add(type(value))
    # where the kinds of a key's values differ, Gymnasium casts them or fails
    for info in infos:
        for key in [key for key in info if len(kinds[key]) > 1]:
            del info[key]
        for value in info.values():
            if isinstance(value, dict):
                value.clear()
    batch = batched(copy.deepcopy(infos))
    assert infos_of(batch, len(infos)) == infos


# -- samples --------------------------------------------------------------------------------------

SPACES = [
    spaces.Box(-1, 1, (2, 3), np.float32),
    spaces.Box(-1, 1, (), np.float64),
    spaces.Discrete(5),
    spaces.MultiDiscrete([2, 3]),
    spaces.MultiBinary(4),
    spaces.Dict({"z": spaces.Discrete(3), "a": spaces.Box(0, 1, (2,))}),
    spaces.Tuple([spaces.Discrete(2), spaces.Tuple([spaces.Box(0, 1, (3,))])]),
    spaces.Text(6),
    spaces.Sequence(spaces.Discrete(3)),
    spaces.Graph(spaces.Box(0, 1, (2,)), spaces.Discrete(2)),
    spaces.OneOf([spaces.Discrete(2), spaces.Box(0, 1, (1,))]),
    spaces.Dict({"t": spaces.Text(3), "d": spaces.Dict({"x": spaces.Discrete(2)})}),
    spaces.Dict({}),
    spaces.Tuple(()),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
@pytest.mark.parametrize("n", [1, 2, 5])
def test_samples_of_every_space(space: Any, n: int) -> None:
    space.seed(3)
    given = [space.sample() for _ in range(n)]
    expected = [text(value) for value in given]
    batch = concatenate(space, given, create_empty_array(space, n))
    for take in (lambda batch: samples(batch, space, n), sampler(space, n)):
        found = take(batch)
        assert [text(found[i]) for i in range(n)] == expected
        assert all(space.contains(found[i]) for i in range(n))


def test_actions_of_a_batched_space() -> None:
    single = spaces.Dict({"go": spaces.Discrete(3), "how": spaces.Box(0, 1, (2,))})
    whole = batch_space(single, 3)
    whole.seed(1)
    batch = whole.sample()
    found = samples(batch, single, 3)
    assert [sample["go"] for sample in found] == batch["go"].tolist()
    assert all((found[i]["how"] == batch["how"][i]).all() for i in range(3))


def test_a_batch_that_is_written_into_again() -> None:
    space = spaces.Box(0, 9, (2,))
    batch = np.zeros((3, 2), np.float32)
    for take in (lambda batch: samples(batch, space, 3), sampler(space, 3)):
        batch[:] = 1
        found = take(batch)
        batch[:] = 7
        assert [list(found[i]) for i in range(3)] == [[1, 1]] * 3


def test_another_dtype_than_the_space_says_is_kept() -> None:
    found = sampler(spaces.Box(0, 1, (2,), np.float32), 2)(np.zeros((2, 2), np.float64))
    assert found[0].dtype == np.float64
    integers = sampler(spaces.Discrete(3), 2)(np.array([1, 2], np.int8))
    assert [type(integers[i]) for i in range(2)] == [np.int8, np.int8]
    assert samples([0, 1], spaces.Discrete(3), 2) == [0, 1]
    assert samples((0, 1), spaces.Discrete(3), 2) == [0, 1]


@pytest.mark.parametrize(
    "batch", [np.zeros((3, 2), np.float32), np.float32(1), None, "none", {"a": 1}, [1, 2, 3]]
)
def test_what_has_no_part_for_each_is_given_whole(batch: Any) -> None:
    found = samples(batch, spaces.Box(0, 1, (2,)), 2)
    assert len(found) == 2
    assert [text(part) for part in found] == [text(batch)] * 2


def test_other_keys_than_the_space_has() -> None:
    single = spaces.Dict({"a": spaces.Discrete(2)})
    batch = {"a": np.array([0, 1]), "b": np.array([0, 1])}
    assert [sorted(part) for part in samples(batch, single, 2)] == [["a", "b"]] * 2


@dataclass
class Own:
    value: int


def test_objects_in_a_batch_are_held_one_by_one() -> None:
    batch = np.array([Own(1), Own(2)], dtype=object)
    found = samples(batch, spaces.Text(3), 2)
    assert all(map(has_kept, found))
    assert text(found[0]) == text(Own(1))
    assert text(found[0]) != text(Own(2))


# -- rewards and flags ----------------------------------------------------------------------------


def test_rewards_and_flags_as_pythons_own() -> None:
    rewards = numbers(np.array([0.5, np.nan, -np.inf]), 3)
    assert [type(value) for value in rewards] == [float] * 3
    assert repr(rewards) == "[0.5, nan, -inf]"
    assert numbers(np.array([0.1, 1], np.float32), 2) == [float(np.float32(0.1)), 1.0]
    assert numbers(np.array([True, False]), 2) == [True, False]
    assert repr(numbers(np.array([1, 0]), 2)) == repr([np.int64(1), np.int64(0)])


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        ([1.0, 2.0], [1.0, 2.0]),
        ((True, False), [True, False]),
        (1.0, [1.0, 1.0]),
        (None, [None, None]),
        ("ab", ["ab", "ab"]),
        ({"a": 1, "b": 2}, [{"a": 1, "b": 2}] * 2),
        ([1.0, 2.0, 3.0], [[1.0, 2.0, 3.0]] * 2),
    ],
)
def test_rewards_in_other_forms(batch: Any, expected: list[Any]) -> None:
    assert numbers(batch, 2) == expected


def test_rewards_of_more_than_one_number() -> None:
    found = numbers(np.ones((2, 3)), 2)
    assert [part.tolist() for part in found] == [[1, 1, 1]] * 2
