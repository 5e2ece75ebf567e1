"""The encoder: broken contracts are named with the value seen, and everything else is kept."""

from __future__ import annotations

import collections
import datetime
import decimal
import math
import socket
import threading
import types
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from envbench.capture import capture_episodes
from envbench.evidence import EpisodeEvidence
from envbench.evidence.portable import canonical, parse
from envbench.evidence.tagged import Missing
from envbench.store import Store

Capture = Callable[..., EpisodeEvidence]
Scripted = Any

END = (2, 1.0, True, False, {})


def both_ways(scripted: Scripted, capture: Capture, store: Store, result: Any) -> Any:
    """An episode of one odd step and the end, captured in each way.

    The agent gets the very result and goes on; both ways record the same.
    """
    got: list[Any] = []

    def agent(env: Any, observation: Any, info: Any) -> str:
        got.append(env.step(0))
        if not got[0] or not env_ended(got[0]):
            env.step(1)
        return "done"

    captured = capture(scripted(result, END), agent, store=store)
    assert got[0] is result
    assert captured.verify() == []
    assert EpisodeEvidence.from_dict(parse(canonical(captured.to_dict()))) == captured

    wrapped = capture_episodes(scripted(result, END), exporter=store)
    wrapped.reset()
    assert wrapped.step(0) is result
    if not env_ended(result):
        wrapped.step(1)
    wrapped.close()
    looped = list(store.episodes())[-1]
    for one, other in zip(captured.data["steps"], looped.data["steps"], strict=True):
        assert one["transition"] == other["transition"]
        assert one["error"] == other["error"]
    return captured


def env_ended(result: Any) -> bool:
    try:
        return bool(result[2] or result[3])
    except Exception:
        return False


# What is no fault


@pytest.mark.parametrize(
    ("reward", "kept"),
    [
        (1, 1.0),
        (-0.0, -0.0),
        (0.1, 0.1),
        (2**53, 2.0**53),
        (np.float32(0.1), 0.10000000149011612),
        (np.float64(0.1), 0.1),
        (np.float16(0.5), 0.5),
        (np.int64(-3), -3.0),
        (np.uint8(255), 255.0),
        (np.array(2.5), 2.5),
        (np.array(3), 3.0),
    ],
    ids=repr,
)
def test_numbers_are_rewards(
    reward: Any, kept: float, scripted: Scripted, capture: Capture, store: Store
) -> None:
    episode = both_ways(scripted, capture, store, (1, reward, False, False, {}))
    assert repr(episode.steps[0].reward) == repr(kept)
    assert episode.errors == []
    assert episode.data["totals"]["reward"] == kept + 1.0


@pytest.mark.parametrize("flag", [np.bool_(False), np.array(False), False], ids=repr)
def test_booleans_of_numpy_are_flags(
    flag: Any, scripted: Scripted, capture: Capture, store: Store
) -> None:
    episode = both_ways(scripted, capture, store, (1, 0.0, flag, flag, {}))
    assert (episode.steps[0].terminated, episode.steps[0].truncated) == (False, False)
    assert episode.errors == []


class Info(dict[str, Any]):
    pass


@pytest.mark.parametrize(
    "info",
    [{}, {"a": 1}, {1: "int", "1": "text"}, Info(a=1), collections.OrderedDict(a=1),
     collections.defaultdict(list, a=[1])],
    ids=repr,
)  # fmt: skip
def test_dicts_of_any_kind_are_infos(
    info: Any, scripted: Scripted, capture: Capture, store: Store
) -> None:
    episode = both_ways(scripted, capture, store, (1, 0.0, False, False, info))
    assert episode.errors == []


class Result(NamedTuple):
    observation: Any
    reward: Any
    terminated: Any
    truncated: Any
    info: Any


def test_a_named_tuple_of_five_is_a_result(
    scripted: Scripted, capture: Capture, store: Store
) -> None:
    episode = both_ways(scripted, capture, store, Result(1, 0.5, False, False, {"a": 1}))
    assert episode.errors == []
    assert (episode.steps[0].reward, episode.steps[0].info) == (0.5, {"a": 1})


@pytest.mark.parametrize("observation", [3, np.int64(3), np.int8(3), np.array(3)], ids=repr)
def test_integers_of_any_width_are_members_of_discrete(
    observation: Any, scripted: Scripted, capture: Capture, store: Store
) -> None:
    episode = both_ways(scripted, capture, store, (observation, 0.0, False, False, {}))
    assert episode.errors == []
    assert episode.steps[0].observation == 3


def test_a_wider_float_array_is_a_member_of_its_box_and_kept_as_it_is(
    scripted: Scripted, capture: Capture, store: Store
) -> None:
    scripted = type("Boxed", (scripted,), {"observation_space": Box(-1, 1, (2,))})
    seen = np.array([0.1, 0.2])
    episode = both_ways(
        lambda *results: scripted(*results[:-1], (seen, 1.0, True, False, {}), reset=(seen, {})),
        capture,
        store,
        (seen, 0.0, False, False, {}),
    )
    assert episode.errors == []
    kept = episode.steps[0].observation
    assert (kept.dtype, kept.tolist()) == (np.dtype("f8"), [0.1, 0.2])


# Broken contracts


def the_error(episode: EpisodeEvidence, field: str) -> dict[str, Any]:
    """The one contract error, which is a coverage issue, with the field it is about."""
    (error,) = (error for error in episode.errors if error["step"] == 1)
    assert (error["phase"], error["type"], error["field"]) == ("contract", "BrokenContract", field)
    in_step = dict(episode.steps[0].error or {})
    for key in ("phase", "type", "field", "message"):
        assert in_step[key] == error[key]
    (issue,) = (text for text in episode.coverage_issues if text.startswith("contract at step 1"))
    assert error["message"] in issue
    return error


@pytest.mark.parametrize(
    ("reward", "message"),
    [
        (None, "reward is None, not a number that a double holds"),
        ("1", "reward is str, not a number that a double holds"),
        ([1.0], "reward is list, not a number that a double holds"),
        (np.array([1.0, 2.0]), "reward is numpy.ndarray, not a number that a double holds"),
        (np.array([1.0]), "reward is numpy.ndarray, not a number that a double holds"),
        (np.array("1"), "reward is numpy.ndarray, not a number that a double holds"),
        (True, "reward is bool, not a number that a double holds"),
        (np.bool_(True), "reward is numpy.bool, not a number that a double holds"),
        (1 + 0j, "reward is complex, not a number that a double holds"),
        (decimal.Decimal("0.1"), "reward is decimal.Decimal, not a number that a double holds"),
        (2**53 + 1, "reward is int, not a number that a double holds"),
        (10**400, "reward is int, not a number that a double holds"),
        (np.int64(2**53 + 1), "reward is numpy.int64, not a number that a double holds"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_a_reward_that_is_no_number_is_null_with_the_value_seen(
    reward: Any, message: str, scripted: Scripted, capture: Capture, store: Store
) -> None:
    episode = both_ways(scripted, capture, store, (1, reward, False, False, {}))
    error = the_error(episode, "reward")
    assert error["message"] == message
    assert same(error["value"], reward)
    assert episode.steps[0].reward is None
    assert episode.data["steps"][0]["transition"]["reward"] is None
    assert episode.steps[1].reward == 1.0
    assert episode.data["totals"]["reward"] is None  # one reward is unknown, so the sum is
    assert episode.ending == "terminated"


@pytest.mark.parametrize("kind", [float, np.float32, np.array])
@pytest.mark.parametrize("text", ["nan", "inf", "-inf"])
def test_a_reward_that_is_not_finite_is_kept_and_named(
    text: str, kind: Any, scripted: Scripted, capture: Capture, store: Store
) -> None:
    reward = kind(float(text))
    episode = both_ways(scripted, capture, store, (1, reward, False, False, {}))
    assert the_error(episode, "reward")["message"] == f"reward is {text}, not finite"
    kept = episode.steps[0].reward
    assert repr(kept) == text
    assert episode.data["steps"][0]["transition"]["reward"] == {
        "$envbench": "float",
        "value": text,
    }
    assert episode.steps[1].reward == 1.0
    assert store.sql(
        "SELECT reward::VARCHAR FROM steps WHERE episode_id = ? AND step_index = 1",
        [episode.episode_id],
    ).fetchall() == [(text,)]


@pytest.mark.parametrize("name", ["terminated", "truncated"])
@pytest.mark.parametrize(
    ("flag", "kind"),
    [
        (0, "int"),
        (1, "int"),
        (None, "None"),
        ("", "str"),
        ("yes", "str"),
        (1.0, "float"),
        (np.int64(0), "numpy.int64"),
        (np.array([False]), "numpy.ndarray"),
        (np.array([True, False]), "numpy.ndarray"),
        ([], "list"),
    ],
    ids=repr,
)
def test_a_flag_that_is_no_boolean_is_null_with_the_value_seen(
    flag: Any, kind: str, name: str, scripted: Scripted, capture: Capture, store: Store
) -> None:
    flags = (flag, False) if name == "terminated" else (False, flag)
    episode = both_ways(scripted, capture, store, (1, 0.5, *flags, {}))
    error = the_error(episode, name)
    assert error["message"] == f"{name} is {kind}, not a bool"
    assert same(error["value"], flag)
    step = episode.steps[0]
    assert getattr(step, name) is None
    assert (step.terminated, step.truncated).count(False) == 1
    # an agent takes what is true for an end, so it is one
    taken = isinstance(flag, (int, float, str)) and bool(flag)
    assert (episode.ending, len(episode.steps)) == ((name, 1) if taken else ("terminated", 2))


@pytest.mark.parametrize(
    ("info", "kind"),
    [
        (None, "None"),
        ([], "list"),
        ([("a", 1)], "list"),
        ("info", "str"),
        (5, "int"),
        (np.arange(2), "numpy.ndarray"),
        (types.MappingProxyType({"a": 1}), "mappingproxy"),
    ],
    ids=repr,
)
def test_an_info_that_is_no_dict_is_null_with_the_value_seen(
    info: Any, kind: str, scripted: Scripted, capture: Capture, store: Store
) -> None:
    episode = both_ways(scripted, capture, store, (1, 0.5, False, False, info))
    error = the_error(episode, "info")
    assert error["message"] == f"info is {kind}, not a dict"
    seen = error["value"]
    if isinstance(info, types.MappingProxyType):
        info, seen = dict(info), seen.value
    assert same(seen, info)
    transition = episode.data["steps"][0]["transition"]
    assert (transition["info"], transition["reward"]) == (None, 0.5)


@pytest.mark.parametrize(
    "observation",
    [100, -1, 1.5, "3", None, np.array([3]), float("nan"), {"a": 1}],
    ids=repr,
)
def test_an_observation_outside_its_space_is_kept_and_named(
    observation: Any, scripted: Scripted, capture: Capture, store: Store
) -> None:
    episode = both_ways(scripted, capture, store, (observation, 0.5, False, False, {}))
    error = the_error(episode, "observation")
    assert error["message"] == "observation is outside the declared space Discrete(100)"
    kept = episode.steps[0].observation
    # the space's own form holds integers, and gives NumPy's back
    assert same(int(kept) if isinstance(kept, np.integer) else kept, observation)


@pytest.mark.parametrize(
    ("result", "kind"),
    [
        ((1, 0.5, False, {}), "tuple"),
        ((1, 0.5, False, False, {}, 6), "tuple"),
        ((), "tuple"),
        (None, "None"),
        (5, "int"),
        ([1, 0.5, False, False, {}], "list"),
        ({"observation": 1}, "dict"),
    ],
    ids=repr,
)
def test_a_result_that_is_no_tuple_of_five_is_kept_with_its_error(
    result: Any, kind: str, scripted: Scripted, capture: Capture, store: Store
) -> None:
    episode = both_ways(scripted, capture, store, result)
    error = the_error(episode, "step")
    assert error["message"] == f"step returned {kind}, not a tuple of five"
    assert error["value"] == result
    assert episode.data["steps"][0]["transition"] is None
    assert episode.steps[0].action == 0
    assert len(episode.steps) == 2


def test_everything_broken_at_once_is_named_one_by_one(
    scripted: Scripted, capture: Capture, store: Store
) -> None:
    episode = both_ways(scripted, capture, store, (100, None, 0, None, []))
    assert [error["field"] for error in episode.errors] == [
        *("observation", "reward", "terminated", "truncated", "info"),
    ]
    assert [error["field"] for error in episode.steps[0].error["more"]] == [
        *("reward", "terminated", "truncated", "info"),
    ]


def test_a_broken_reset_is_named_with_the_value_seen(scripted: Scripted, capture: Capture) -> None:
    episode = capture(scripted(END, reset=(100, [1])), [0])
    assert [(error["field"], error["step"]) for error in episode.errors] == [
        ("observation", 0),
        ("info", 0),
    ]
    assert episode.initial is not None
    assert (episode.initial.observation, episode.initial.info) == (100, None)
    assert episode.errors[1]["value"] == [1]


# One value that cannot be kept


def test_a_value_that_cannot_be_kept_is_missing_and_the_rest_is_there(
    scripted: Scripted, capture: Capture, store: Store
) -> None:
    with socket.socket() as plug:
        info = {"n": 1, "conn": {"plug": plug, "port": 80}, "call": len, "rows": [1, object()]}
        episode = both_ways(scripted, capture, store, (1, 0.5, False, False, info))
    kept = episode.steps[0].info
    assert (kept["n"], kept["conn"]["port"], kept["rows"][0]) == (1, 80, 1)
    assert isinstance(kept["conn"]["plug"], Missing)
    assert kept["conn"]["plug"].type == "socket.socket"
    assert (episode.steps[0].observation, episode.steps[0].reward) == (1, 0.5)
    assert [(error["phase"], error["place"], error["type"]) for error in episode.errors] == [
        ("encode", "/info/conn/plug", "socket.socket"),
        ("encode", "/info/call", "builtin_function_or_method"),
        ("encode", "/info/rows/1", "object"),
    ]
    assert len([text for text in episode.coverage_issues if text.startswith("encode")]) == 3


def test_an_action_and_an_observation_that_cannot_be_kept_are_missing(
    scripted: Scripted, capture: Capture
) -> None:
    class Anything(gymnasium.Space[Any]):
        def contains(self, value: Any) -> bool:
            return True

    env = scripted((threading.Lock(), 0.0, True, False, {}))
    env.action_space = env.observation_space = Anything()
    episode = capture(env, [threading.Lock()])
    (step,) = episode.steps
    assert isinstance(step.action, Missing)
    assert isinstance(step.observation, Missing)
    assert [(error["phase"], error["place"]) for error in episode.errors] == [
        ("encode", "/action"),
        ("encode", "/observation"),
    ]
    assert (step.reward, step.terminated) == (0.0, True)


def test_only_the_step_with_the_value_has_the_error(scripted: Scripted, capture: Capture) -> None:
    results = [(1, 0.0, False, False, {"x": object() if i == 3 else i}) for i in range(6)]
    episode = capture(scripted(*results), [0] * 6)
    assert [step.error is not None for step in episode.steps] == [i == 3 for i in range(6)]
    assert [error["step"] for error in episode.errors] == [4]
    assert [step.info["x"] for step in episode.steps if step.index != 4] == [0, 1, 2, 4, 5]


def test_absent_null_and_an_empty_value_of_info_differ(
    scripted: Scripted, capture: Capture, store: Store
) -> None:
    infos: list[dict[str, Any]] = [{}, {"k": None}, {"k": ""}, {"k": 0}, {"k": False}, {"last": 1}]
    results = [(1, 0.0, False, False, info) for info in infos]
    episode = capture(scripted(*results), [0] * 6, store=store)
    kept = [step.info for step in store.episode(episode.episode_id).steps]
    assert kept == infos
    assert [type(info.get("k")) for info in kept] == [type(info.get("k")) for info in infos]


def test_a_space_whose_own_form_loses_samples_is_noted_once_and_is_no_issue(
    scripted: Scripted, capture: Capture
) -> None:
    env = scripted(((), 0.0, False, False, {}), ((), 0.0, True, False, {}), reset=((), {}))
    env.observation_space = gymnasium.spaces.Tuple(())
    episode = capture(env, [0, 0])
    assert [step.observation for step in episode.steps] == [(), ()]
    assert len(episode.data["issues"]) == 1
    assert episode.data["issues"][0].startswith("note: observations of the space Tuple() are kept")
    assert episode.coverage_issues == []


# Anything at all comes back as it was


def same(value: Any, back: Any) -> bool:
    """Whether two values are equal in type and content, NaN and signs of zero included."""
    if type(value) is not type(back):
        return False
    if isinstance(value, np.ndarray):
        return bool(
            value.dtype == back.dtype
            and value.shape == back.shape
            and value.tobytes() == back.tobytes()
        )
    if isinstance(value, dict):
        return len(value) == len(back) and all(
            any(same(key, other) and same(value[key], back[other]) for other in back)
            for key in value
        )
    if isinstance(value, (list, tuple)):
        return len(value) == len(back) and all(map(same, value, back))
    if isinstance(value, (float, np.floating)):
        return bool(
            (math.isnan(value) and math.isnan(back))
            or (value == back and math.copysign(1, value) == math.copysign(1, back))
        )
    return bool(value == back)


TEXT = st.text(st.characters(exclude_categories=())) | st.sampled_from(
    ["$envbench", "", "\ud800", "\u2028", "\x00"]
)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=2**53, max_value=2**80),
    st.floats(),
    TEXT,
    st.binary(max_size=8),
    st.dates(),
    st.datetimes(),
    st.timedeltas(),
    st.decimals(allow_nan=False),
    st.uuids(),
    st.complex_numbers(allow_nan=False),
    st.frozensets(st.integers(), max_size=3),
    st.builds(np.float32, st.floats(width=32)),
    st.builds(np.int16, st.integers(-(2**15), 2**15 - 1)),
    npst.arrays(
        st.sampled_from([np.float32, np.float64, np.uint8, np.int64, np.bool_]),
        npst.array_shapes(max_dims=3, max_side=3),
    ),
)
KEYS = TEXT | st.integers() | st.booleans() | st.none()
VALUES = st.recursive(
    LEAVES,
    lambda parts: (
        st.lists(parts, max_size=4)
        | st.tuples(parts, parts)
        | st.dictionaries(TEXT, parts, max_size=4)
        | st.dictionaries(KEYS, parts, max_size=3)
    ),
    max_leaves=12,
)
OBJECTS = st.dictionaries(TEXT, VALUES, max_size=4)
CHECKS = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@settings(max_examples=30, suppress_health_check=CHECKS)
@given(
    infos=st.lists(OBJECTS, min_size=1, max_size=4),
    states=st.lists(OBJECTS, min_size=1, max_size=3),
)
def test_any_info_and_state_comes_back_from_a_store_as_it_was(
    infos: list[Any], states: list[Any], scripted: Scripted, capture: Capture, store: Store
) -> None:
    turn = iter(range(1_000))
    results = [(i, 0.0, False, False, info) for i, info in enumerate(infos)]
    episode = capture(
        scripted(*results, reset=(0, infos[0])),
        [0] * len(infos),
        observe=lambda: states[next(turn) % len(states)],
        store=store,
    )
    assert episode.errors == []
    again = EpisodeEvidence.from_dict(parse(canonical(episode.to_dict())))
    for kept in (store.episode(episode.episode_id, verify=True), again):
        assert kept == episode
        assert kept.initial is not None
        assert same(kept.initial.info, infos[0])
        assert all(map(same, [step.info for step in kept.steps], infos))
        expected = [states[i % len(states)] for i in range(len(infos) + 2)]
        assert all(map(same, [*kept.states, kept.final_state], expected))


def test_the_comparison_of_these_tests_tells_values_apart() -> None:
    apart = [0, 0.0, -0.0, False, None, "", b"", (), [], {}, np.float32(0), np.zeros(1), {"a": 0}]
    for i, one in enumerate(apart):
        for j, other in enumerate(apart):
            assert same(one, other) is (i == j), (one, other)
    assert same([math.nan], [math.nan])
    assert same({"a": uuid.UUID(int=1)}, {"a": uuid.UUID(int=1)})
    assert not same(datetime.date(2026, 1, 1), datetime.datetime(2026, 1, 1))
