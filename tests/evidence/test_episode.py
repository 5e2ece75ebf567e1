from __future__ import annotations

import collections
import contextlib
import copy
import datetime
import json
import math
import os
import pickle
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import orjson
import pandas as pd
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Graph, Sequence, Tuple
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envbench.capture import capture_episode
from envbench.evidence import EpisodeEvidence, EvalCase, Initial, Missing
from envbench.evidence.episode import EpisodeData
from envbench.evidence.portable import canonical
from envbench.evidence.record import EncodedEpisode, StepColumns, new_id
from envbench.evidence.schema import DATA_KEYS
from envbench.evidence.spaces import describe
from envbench.evidence.tagged import Encoding, tag

Reseal = Callable[[dict[str, Any]], dict[str, Any]]


@pytest.fixture
def episode(example: dict[str, Any]) -> EpisodeEvidence:
    return EpisodeEvidence.from_dict(example)


class Watched:
    """A source that records what is read from it."""

    def __init__(self, episode: EpisodeEvidence) -> None:
        self.inner: EncodedEpisode = episode._source  # type: ignore[assignment]
        self.read: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def head(self) -> dict[str, bytes]:
        watched = self

        class Head(dict[str, bytes]):
            def __getitem__(self, key: str) -> bytes:
                watched.read.append(key)
                return super().__getitem__(key)

        return Head(self.inner.head())

    def steps(self) -> Iterable[StepColumns]:
        self.read.append("steps")
        return self.inner.steps()

    def state(self, digest: str) -> bytes:
        self.read.append("a state")
        return self.inner.state(digest)


def test_values_are_decoded_to_python(episode: EpisodeEvidence) -> None:
    assert episode.episode_id == "019b7d2c-4a80-7000-8000-0123456789ab"
    assert episode.ending == "terminated"
    assert episode.output == "paid"
    assert episode.coverage_issues == []
    assert isinstance(episode.initial, Initial)
    assert episode.initial.observation.tolist() == [120.5, 0.0]
    assert episode.initial.observation.dtype == np.float64
    assert episode.initial.info == {}
    refused, paid = episode.steps
    assert (refused.index, refused.action, refused.observation, refused.info) == (
        1,
        None,
        None,
        None,
    )
    assert refused.error == {
        "phase": "action",
        "type": "InvalidAction",
        "message": "7 is not in Discrete(3)",
    }
    assert episode.errors == [{**refused.error, "step": 1}]
    assert (paid.action, paid.reward, paid.terminated, paid.truncated) == (1, 1.0, True, False)
    assert type(paid.action) is np.int64
    assert paid.observation.tolist() == [0.0, 1e-05]
    assert paid.info["mask"].tolist() == [1, 0, 0]
    assert paid.info["mask"].dtype == np.int8
    assert math.isnan(paid.info["fee"])
    assert paid.started_at == datetime.datetime(2026, 1, 2, 3, 4, 5, 2000, datetime.UTC)
    assert (paid.step_us, paid.observe_us) == (310.2, 22.0)
    assert paid.state == episode.final_state == episode.states[2]
    assert episode.initial_state == episode.states[0] == episode.states[1]
    assert repr(episode) == (
        "<EpisodeEvidence pay-17 on invoices-v1: 2 steps, terminated,"
        " 019b7d2c-4a80-7000-8000-0123456789ab>"
    )


def test_states_are_a_sequence(episode: EpisodeEvidence) -> None:
    states = episode.states
    assert len(states) == 3
    assert states[-1]["invoices"][0]["status"] == "paid"
    assert [state["payments"] for state in states[:2]] == [[], []]
    assert states == list(states) == episode.states
    assert repr(states) == "<States: 3 of 3 seen, 2 distinct>"
    states[0]["payments"].append(1)
    assert states[0]["payments"] == []


def test_the_case_is_the_recorded_one(episode: EpisodeEvidence, example: dict[str, Any]) -> None:
    assert episode.case.case_id == "pay-17"
    assert episode.case.tags == ("payment",)
    assert episode.case.reference is None
    assert episode.case.digest == example["case_digest"]
    assert episode.case == EvalCase(
        "Pay invoice 17 once.",
        case_id="pay-17",
        source_id="tickets",
        tags=("payment",),
        reference={"invoice": 17, "status": "paid"},
    )


def test_to_dict_and_back(episode: EpisodeEvidence, example: dict[str, Any]) -> None:
    assert episode.to_dict() == example
    assert canonical(episode.to_dict()) == canonical(example)
    back = EpisodeEvidence.from_dict(episode.to_dict())
    assert back == episode
    assert hash(back) == hash(episode)
    assert back.digest == episode.digest == example["digest"]
    assert EpisodeEvidence.from_dict(episode.data) == episode


def test_files(episode: EpisodeEvidence, tmp_path: Path, blocks: dict[str, str]) -> None:
    path = tmp_path / "episode.json"
    episode.save_json(path)
    assert EpisodeEvidence.load_json(path) == episode
    assert path.read_bytes() == canonical(episode.to_dict()) + b"\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["episode.json"]
    path.write_text(blocks["json"], "utf-8")  # in another layout
    assert EpisodeEvidence.load_json(str(path)) == episode
    with pytest.raises(FileNotFoundError):
        EpisodeEvidence.load_json(tmp_path / "none.json")
    with pytest.raises(FileNotFoundError):
        episode.save_json(tmp_path / "none" / "episode.json")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"seed": 7', '"seed": 7, "seed": 7', "key 'seed' appears twice in one object"),
        ('"amount": 120.5', '"amount": NaN', "NaN is not JSON"),
        ('"amount": 120.5', '"amount": 1e999', "number 1e999 does not fit a double"),
        ('"status": "paid"', '"status": "\\ud800"', "text with a lone surrogate"),
        ('"status": "paid"', '"status": "open"', "/trajectory_digest: "),
        ('"amount": 120.5', '"amount": 120', "/trajectory_digest: "),
        ('"seed": 7', '"seed": 7.0', "/seed: expected an integer"),
        ('"agent_id": "scripted"', '"agent_id": "other"', "/digest: "),
        ("{", "[", ""),
    ],
)
def test_a_file_that_was_altered_is_refused_with_its_name(
    old: str, new: str, message: str, tmp_path: Path, blocks: dict[str, str]
) -> None:
    path = tmp_path / "episode.json"
    assert old in blocks["json"]
    path.write_text(blocks["json"].replace(old, new, 1), "utf-8")
    with pytest.raises(ValueError, match=f"^{path}: ") as caught:
        EpisodeEvidence.load_json(path)
    assert message in str(caught.value)


def leaves(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all leaves; empty containers are leaves too."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        if isinstance(item, dict | list) and item:
            yield from leaves(item, (*place, key))
        else:
            yield (*place, key)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_altering_any_leaf_is_found(data: st.DataObject, example: dict[str, Any]) -> None:
    place = data.draw(st.sampled_from(list(leaves(example))))
    altered = copy.deepcopy(example)
    inner: Any = altered
    for key in place[:-1]:
        inner = inner[key]
    old = inner[place[-1]]
    like = {
        bool: st.booleans(),
        int: st.integers(0, 2**62),
        float: st.floats(0, 1e6),
        str: st.text(max_size=5) | st.just(str(old).swapcase()),
    }
    others = st.none() | st.just(0) | st.just({}) | st.just([]) | like.get(type(old), st.none())
    inner[place[-1]] = data.draw(
        others.filter(lambda new: json.dumps(new) != json.dumps(old)), label=str(place)
    )
    with pytest.raises(ValueError, match=r"^/"):
        EpisodeEvidence.from_dict(altered)


def test_a_removed_a_repeated_and_a_swapped_step_are_found(example: dict[str, Any]) -> None:
    for change in (
        lambda steps: steps.pop(),
        lambda steps: steps.append(copy.deepcopy(steps[-1])),
        lambda steps: steps.reverse(),
    ):
        altered = copy.deepcopy(example)
        change(altered["steps"])
        for i, step in enumerate(altered["steps"]):
            step["index"] = i + 1
        altered["totals"]["steps"] = len(altered["steps"])
        with pytest.raises(ValueError, match=r"^/"):
            EpisodeEvidence.from_dict(altered)


# .data


def test_data_is_parsed_key_by_key(episode: EpisodeEvidence) -> None:
    source = Watched(episode)
    data = EpisodeEvidence(source).data
    assert source.read == []
    assert list(data) == list(DATA_KEYS)
    assert "steps" in data
    assert len(data) == len(DATA_KEYS)
    assert source.read == []
    assert data["final_state"]["payments"][0]["payment_id"] == 1
    assert source.read == ["a state"]
    assert data["ending"] == data.get("ending") == "terminated"
    assert source.read == ["a state", "ending"]
    assert data["final_state"] is data["final_state"]
    assert data["digest"] == episode.digest
    assert source.read == ["a state", "ending"]
    assert len(data["steps"]) == 2
    assert "steps" in source.read


def test_data_is_a_detached_copy(episode: EpisodeEvidence, example: dict[str, Any]) -> None:
    data = episode.data
    data["final_state"]["payments"].clear()
    data["steps"].clear()
    data["case"]["input"] = "other"
    data["ending"] = "error"
    del data["seed"]
    assert "seed" not in data
    assert episode.data == example
    assert episode.verify() == []


def test_data_is_a_dict_for_whatever_reads_dicts(
    episode: EpisodeEvidence, example: dict[str, Any]
) -> None:
    def fresh() -> EpisodeData:
        return episode.data

    assert isinstance(fresh(), dict)
    assert json.loads(json.dumps(fresh())) == example
    assert json.loads(json.dumps(fresh(), indent=1, sort_keys=True)) == example
    for plain in (
        {**fresh()},
        dict(fresh()),
        fresh() | {},
        {} | fresh(),
        fresh().copy(),
        copy.copy(fresh()),
        copy.deepcopy(fresh()),
        pickle.loads(pickle.dumps(fresh())),
    ):
        assert type(plain) is dict
        assert canonical(plain) == canonical(example)
    assert fresh() == example
    assert example == fresh()
    assert fresh() == fresh()
    assert fresh() != {**example, "seed": 8}
    assert dict(fresh().items()) == example
    assert list(fresh().values()) == list(example.values())
    assert repr(fresh()) == repr(fresh().copy())
    assert fresh().get("nothing") is None
    assert fresh().get("nothing", 1) == 1
    assert fresh().setdefault("seed", 1) == 7
    assert fresh().setdefault("mine", 1) == 1
    assert fresh().pop("seed") == 7
    assert fresh().pop("nothing", 3) == 3
    with pytest.raises(KeyError):
        fresh()["nothing"]
    with pytest.raises(KeyError):
        fresh().pop("nothing")
    assert fresh().popitem() == ("trajectory_digest", example["trajectory_digest"])
    with pytest.raises(TypeError, match="unhashable"):
        hash(fresh())
    match fresh():
        case {"ending": ending}:
            assert ending == "terminated"
    assert "{case_id}".format(**fresh()) == "pay-17"
    assert pd.DataFrame([fresh()])["ending"].tolist() == ["terminated"]


def test_orjson_refuses_what_was_not_read_yet(
    episode: EpisodeEvidence, example: dict[str, Any]
) -> None:
    with pytest.raises(TypeError, match="not JSON serializable"):
        orjson.dumps(episode.data)
    assert orjson.loads(orjson.dumps(episode.to_dict())) == example


def test_evidence_is_copied_and_pickled_as_itself(episode: EpisodeEvidence) -> None:
    assert copy.copy(episode) is copy.deepcopy(episode) is episode
    assert pickle.loads(pickle.dumps(episode)) == episode
    assert episode != "episode"
    assert len({episode, pickle.loads(pickle.dumps(episode))}) == 1


# Large arrays


@pytest.fixture
def with_arrays(example: dict[str, Any], reseal: Reseal) -> dict[str, Any]:
    """The example with frames as observations, and arrays in infos, states and options."""
    space = Box(0, 255, (40, 40), np.uint8)
    frames = [np.full((40, 40), i, np.uint8) for i in range(2)]
    example["spaces"]["observation"] = describe(space)
    example["initial"]["observation"] = tag(frames[0][None])
    example["initial"]["info"] = {"map": tag(np.arange(2000.0))}
    example["steps"][1]["transition"]["observation"] = tag(frames[1][None])
    example["steps"][1]["state"]["weights"] = tag(np.ones(3000, ">f4"))
    example["final_state"]["weights"] = tag(np.ones(3000, ">f4"))
    example["options"] = tag((np.zeros(1025, np.int8), 1))
    return reseal(example)


def test_large_arrays_stand_alone_and_apart(with_arrays: dict[str, Any]) -> None:
    episode = EpisodeEvidence.from_dict(with_arrays)
    source = episode._source
    assert isinstance(source, EncodedEpisode)
    assert sorted(map(len, source.arrays.values())) == [1025, 1600, 1600, 12_000, 16_000]
    assert b"zlib" not in source.parts["initial"] + b"".join(source.states.values())
    assert episode.initial is not None
    assert episode.initial.observation.shape == (40, 40)
    assert episode.steps[1].observation.max() == 1
    assert episode.final_state["weights"].dtype == np.dtype(">f4")
    assert episode.data["options"] == with_arrays["options"]
    assert canonical(episode.to_dict()) == canonical(with_arrays)
    assert EpisodeEvidence.from_dict(episode.to_dict()) == episode


def test_a_case_that_looks_tagged_is_left_alone(example: dict[str, Any], reseal: Reseal) -> None:
    inputs = {"$envbench": "array", "sha256": "0" * 64, "dtype": "|u1", "shape": [9]}
    labels = {"$envbench": "array", "sha256": 1, "zlib": "?"}
    case = EvalCase(inputs, case_id="pay-17")
    example["case"], example["case_digest"] = case.to_dict(), case.digest
    example["provenance"]["labels"] = labels
    episode = EpisodeEvidence.from_dict(reseal(example))
    assert episode.case.input == episode.data["case"]["input"] == inputs
    assert episode.data["provenance"]["labels"] == labels
    assert episode.verify() == []


def test_verify_finds_what_was_altered_in_a_source(with_arrays: dict[str, Any]) -> None:
    def altered(change: Callable[[EncodedEpisode], None]) -> list[str]:
        episode = EpisodeEvidence.from_dict(with_arrays)
        change(episode._source)  # type: ignore[arg-type]
        return [problem.split(":")[0] for problem in episode.verify()]

    def array(source: EncodedEpisode) -> None:
        digest = next(key for key, content in source.arrays.items() if len(content) == 12_000)
        source.arrays[digest] = bytes(12_000)

    def lost_array(source: EncodedEpisode) -> None:
        del source.arrays[next(iter(source.arrays))]

    def state(source: EncodedEpisode) -> None:
        assert source.final_state is not None
        source.states[source.final_state] = b"{}"

    def lost_state(source: EncodedEpisode) -> None:
        assert source.final_state is not None
        del source.states[source.final_state]

    def reward(source: EncodedEpisode) -> None:
        source.columns.reward[1] = 2.0

    def label(source: EncodedEpisode) -> None:
        source.parts["environment_id"] = b'"other"'

    def moment(source: EncodedEpisode) -> None:
        source.columns.started_at[0] = 1

    assert [place.split("/")[1] for place in altered(array)] == ["arrays"]
    assert [place.split("/")[1] for place in altered(lost_array)] == ["arrays"]
    assert [place.split("/")[1] for place in altered(state)] == ["states"]
    assert [place.split("/")[1] for place in altered(lost_state)] == ["states"]
    assert altered(reward) == ["/trajectory_digest"]
    assert altered(label) == ["/digest"]
    assert altered(moment) == ["/digest"]


# Coverage


ENDED = {
    "terminated": (True, False),
    "truncated": (False, True),
    "policy_stop": (False, False),
    "step_limit": (False, False),
    "error": (False, False),
    "interrupted": (False, False),
    "reset_early": (False, False),
    "closed_early": (False, False),
}
COMPLETE = {
    "termination": {"terminated"},
    "truncation": {"truncated"},
    "either": {"terminated", "truncated"},
}


def evidence(data: dict[str, Any], reseal: Reseal, **changes: Any) -> EpisodeEvidence:
    return EpisodeEvidence.from_dict(reseal({**copy.deepcopy(data), **changes}))


@pytest.mark.parametrize("ending", ENDED)
@pytest.mark.parametrize("expects", COMPLETE)
def test_an_end_that_the_case_does_not_expect_is_an_issue(
    ending: str, expects: Any, example: dict[str, Any], reseal: Reseal
) -> None:
    terminated, truncated = ENDED[ending]
    example["steps"][1]["transition"] |= {"terminated": terminated, "truncated": truncated}
    example["termination"] = {"terminated": terminated, "truncated": truncated}
    case = EvalCase("go", case_id="pay-17", expects=expects)
    issues = evidence(
        example, reseal, ending=ending, case=case.to_dict(), case_digest=case.digest
    ).coverage_issues
    if ending in COMPLETE[expects]:
        assert issues == []
    else:
        wanted = " or ".join(sorted(COMPLETE[expects]))
        assert issues == [f"ending: {ending}, where the case expects {wanted}"]


@pytest.mark.parametrize(
    ("phase", "counts"),
    [
        ("setup", True),
        ("reset", True),
        ("action", False),
        ("step", True),
        ("observe_reset", True),
        ("observe_step", True),
        ("observe_final", True),
        ("interaction", True),
        ("step_limit", False),
        ("lifecycle", False),
        ("encode", True),
        ("contract", True),
        ("limit", False),
        ("audit", True),
        ("close", True),
    ],
)
def test_errors_are_issues_but_for_what_did_nothing(
    phase: str, counts: bool, example: dict[str, Any], reseal: Reseal
) -> None:
    error = {"phase": phase, "type": "KeyError", "message": "x"}
    errors = [{**error, "step": 2}, {**error, "step": None}, {**error, "step": 2}]
    issues = evidence(example, reseal, errors=errors).coverage_issues
    assert issues == (
        [f"{phase} at step 2: KeyError: x", f"{phase}: KeyError: x"] if counts else []
    )


def test_a_message_with_a_lone_surrogate_is_readable(
    example: dict[str, Any], reseal: Reseal
) -> None:
    errors = [{"phase": "step", "type": "E", "message": tag("\ud800"), "step": 1}]
    assert evidence(example, reseal, errors=errors).coverage_issues == ["step at step 1: E: \ud800"]


def test_states_that_were_promised_and_not_seen_are_an_issue(
    example: dict[str, Any], reseal: Reseal
) -> None:
    def issues(**changes: Any) -> list[str]:
        return evidence(example, reseal, **changes).coverage_issues

    assert issues(initial_state=None) == ["state: not seen after reset"]
    assert issues(final_state=None) == ["state: not seen at the end"]
    steps = [{**step, "state": None} for step in example["steps"]]
    assert issues(steps=steps) == ["state: not seen after step 1, 2"]
    assert issues(steps=steps, initial_state=None, final_state=None) == [
        "state: not seen after reset and after step 1, 2 and at the end"
    ]
    assert issues(steps=steps, initial_state=None, final_state=None, observer_id=None) == []
    many = [{**steps[0], "index": i} for i in range(1, 8)] + [{**steps[1], "index": 8}]
    totals = {"steps": 8, "reward": 1.0}
    assert issues(steps=many, totals=totals, max_steps=None) == [
        "state: not seen after step 1, 2, 3, 4, 5, …"
    ]
    assert issues(steps=[], capture_steps=False) == []


def test_cleanup_and_other_issues(example: dict[str, Any], reseal: Reseal) -> None:
    def issues(**changes: Any) -> list[str]:
        return evidence(example, reseal, **changes).coverage_issues

    assert issues(cleanup=None) == []
    assert issues(cleanup={"attempted": True, "completed": False, "error": None}) == [
        "cleanup: closing the environment was not confirmed"
    ]
    assert issues(issues=["note: harmless", "steps: 2 after the end"]) == ["steps: 2 after the end"]


# Evidence of real runs


def run(seed: int = 3, **arguments: Any) -> EpisodeEvidence:
    def interact(env: Any, observation: Any, info: Any) -> str:
        for i in range(8):
            _, _, terminated, truncated, _ = env.step(i % 2)
            if terminated or truncated:
                break
        return "done"

    def observe() -> dict[str, Any]:
        return {"lock": print, "frame": np.zeros(2000, np.uint8)}

    return capture_episode(
        lambda: gymnasium.make("CartPole-v1"),
        interact,
        case=EvalCase("balance", case_id="c"),
        environment_id="CartPole-v1",
        observer_id="made-up",
        observe=observe,
        seed=seed,
        max_steps=20,
        **arguments,
    )


def test_a_captured_episode_goes_to_json_and_back(
    documented: dict[str, Any], tmp_path: Path
) -> None:
    episode = run()
    data = json.loads(json.dumps(episode.data))
    assert documented["digests"](data) == (episode.digest, episode.trajectory_digest)
    assert episode.verify() == []
    back = EpisodeEvidence.from_dict(data)
    assert back == episode
    assert type(back.final_state["lock"]) is Missing
    assert back.steps[0].observation.tobytes() == episode.steps[0].observation.tobytes()
    assert back.steps[0].observation.dtype == np.float32
    episode.save_json(tmp_path / "e.json")
    assert EpisodeEvidence.load_json(tmp_path / "e.json").coverage_issues == episode.coverage_issues


class Own(gymnasium.Space[Any]):
    """A space of a user's own."""

    def contains(self, x: Any) -> bool:
        return True

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        return {"a": (1, 2)}


class Hard(gymnasium.Env[Any, Any]):
    """Breaks Gymnasium's contract in most ways that it can be broken."""

    def __init__(self, observation_space: gymnasium.Space[Any]) -> None:
        self.observation_space = observation_space
        self.action_space = Discrete(3)
        self.calls = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {1: 2, "x": np.float32(1), "lock": print}

    def step(self, action: Any) -> Any:
        self.calls += 1
        observation = self.observation_space.sample() if self.calls != 2 else np.float64("nan")
        reward = [1.0, math.nan, "1", None, np.array(2.0), np.array([1, 2])][self.calls % 6]
        info = {"order": collections.OrderedDict(b=1, a=2), "large": np.arange(2000.0)}
        if self.calls == 4:
            raise RuntimeError("\udc80")
        return observation, reward, np.bool_(self.calls == 8), False, info if self.calls != 3 else 5


@pytest.mark.parametrize(
    "space",
    [
        Box(0, 1, (3,)),
        Box(0, 255, (64, 64), np.uint8),
        Tuple(()),
        Dict({"n": Discrete(2), "image": Box(0, 255, (64, 64), np.uint8)}),
        Graph(Box(0, 1, (2,)), None),
        Sequence(Box(0, 1, (40, 40))),
        Own(),
    ],
    ids=lambda space: type(space).__name__,
)
def test_what_a_hard_environment_does_goes_to_json_and_back(
    space: gymnasium.Space[Any], documented: dict[str, Any]
) -> None:
    deep: Any = 1
    for _ in range(300):
        deep = [deep]

    def interact(env: Any, observation: Any, info: Any) -> str:
        for i in range(9):
            with contextlib.suppress(ValueError, RuntimeError):
                env.step(1 if i != 4 else "refused")
        return "\ud800"

    episode = capture_episode(
        lambda: Hard(space),
        interact,
        case=EvalCase({"$envbench": "tuple"}, case_id="c"),
        environment_id="hard",
        observer_id="made-up",
        observe=lambda: {"deep": deep, "pair": (1, 2), "table": [{"id": 1}]},
        seed=3,
        max_steps=20,
        options={"a": (1,)},
    )
    data = json.loads(json.dumps(episode.data))
    assert documented["digests"](data) == (episode.digest, episode.trajectory_digest)
    back = EpisodeEvidence.from_dict(data)
    assert back == episode
    assert back.coverage_issues == episode.coverage_issues
    assert [step.action for step in back.steps] == [1, 1, 1, 1, None, 1, 1, 1, 1]
    assert math.isnan(back.steps[0].reward or 0)
    assert math.isnan(back.steps[1].observation)
    assert back.steps[2].info is None
    assert back.output == "\ud800"


def test_identical_runs_have_one_trajectory() -> None:
    one, again, other = run(), run(), run(seed=4)
    assert one.trajectory_digest == again.trajectory_digest != other.trajectory_digest
    assert one.digest != again.digest


def test_ids_are_sorted_by_time_and_of_version_7() -> None:
    ids = [new_id() for _ in range(100)]
    assert len(set(ids)) == 100
    assert {(text[14], text[19] in "89ab") for text in ids} == {("7", True)}
    # the first three groups are the time, of which the third is the fraction of a millisecond
    moments = [text[:18] for text in ids]
    assert moments == sorted(moments)
    assert len(set(moments)) > 1
    assert int(moments[0][:8] + moments[0][9:13], 16) == pytest.approx(time.time() * 1000, abs=6e4)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_process_draws_other_ids() -> None:
    new_id()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, "".join(new_id() for _ in range(50)).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    drawn = os.read(reading, 50 * 36).decode()
    os.close(reading)
    theirs = {drawn[i + 19 : i + 36] for i in range(0, len(drawn), 36)}
    assert len(theirs) == 50
    assert not theirs & {new_id()[19:] for _ in range(300)}


def test_encoding_into_columns_keeps_what_a_chunk_holds() -> None:
    first, second = StepColumns(info=[b"{}"]), StepColumns(info=[None])
    for columns in (first, second):
        for name in StepColumns.__slots__:
            if name != "info":
                getattr(columns, name).append(None)
    first.extend(second)
    assert len(first) == 2
    assert [row[5] for row in first.rows()] == [b"{}", None]
    assert Encoding() == Encoding()
