"""Episodes of guardrails are recorded like any others: in a store, as JSON lines, from vectors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from envbench import (
    EvalCase,
    OutcomeCheck,
    OutcomeVerdict,
    Provenance,
    Store,
    capture_episode,
    capture_episodes,
    capture_vector,
    connect,
    evaluate,
    observe,
)
from envbench.capture import sink
from envbench.evidence.tagged import Named
from envbench.guardrails import (
    Effect,
    EvalRequest,
    GuardrailGymEnv,
    GuardrailTask,
    SwapField,
    register_with_gymnasium,
)
from tests.guardrails.tills import INJECTIONS, SMALLER, TASKS, Answers, Till, request

NAME = "test/Recorded-v0"


@pytest.fixture
def store() -> Iterator[Store]:
    with connect(":memory:") as opened:
        yield opened


@pytest.fixture
def registered() -> Iterator[Till]:
    till = Till()
    register_with_gymnasium(NAME, guardrail=till, tasks=TASKS, injections=INJECTIONS)
    yield till
    del gymnasium.registry[NAME]


def play(env: Any, *actions: int) -> list[Any]:
    """Episodes of the second task, one an action; what their steps returned."""
    returned = []
    for action in actions:
        env.reset(seed=3, options={"task_index": 1})
        returned.append(env.step(action))
    env.close()
    return returned


def test_episodes_are_in_the_store_as_they_were(store: Store, registered: Till) -> None:
    returned = play(capture_episodes(gymnasium.make(NAME), exporter=store), 0, 1, 3)
    episodes = list(store.episodes())
    assert [episode.ending for episode in episodes] == ["terminated"] * 3
    assert [episode.coverage_issues for episode in episodes] == [[]] * 3
    assert {episode.data["environment_id"] for episode in episodes} == {NAME}
    for episode, (observation, reward, _, _, info) in zip(episodes, returned, strict=True):
        (step,) = episode.steps
        assert step.reward == reward
        for key, value in observation.items():
            assert np.array_equal(step.observation[key], value)
        result = step.info.pop("result")
        assert isinstance(result, Named)
        assert result.value["reason"] == info.pop("result").reason
        assert step.info == info
        assert episode.verify() == []
    assert "expected_effect" not in json.dumps(episodes[0].data["initial"])


def test_the_store_is_asked_in_sql(store: Store, registered: Till) -> None:
    play(capture_episodes(gymnasium.make(NAME), exporter=store), 0, 1, 3)
    rows = store.sql(
        "SELECT info ->> '$.injection_id', info ->> '$.effect', (info -> '$.security')::VARCHAR"
        " FROM steps ORDER BY episode_id"
    ).fetchall()
    assert rows == [
        (None, "deny", "null"),
        ("swap context.amount=5.0", "allow", "false"),
        ("swap agent=mallory", "deny", "true"),
    ]


def test_a_crash_is_an_episode_without_issues(store: Store) -> None:
    def crash(asked: EvalRequest) -> Any:
        raise ValueError("no such agent")

    play(capture_episodes(GuardrailGymEnv(Answers(crash), TASKS), exporter=store), 0)
    (episode,) = store.episodes()
    assert (episode.ending, episode.coverage_issues) == ("terminated", [])
    (step,) = episode.steps
    assert (step.reward, step.info["effect"], step.info["security"]) == (0.0, "error", None)
    assert step.info["error"] == "ValueError: no such agent"

    def withstood(evidence: Any) -> OutcomeVerdict:
        info = evidence.steps[0].info
        return OutcomeVerdict(info["security"], info["error"] or "", {})

    (rates,) = evaluate(store, [OutcomeCheck("withstood", "1", withstood)]).rates().values()
    assert (rates.passed, rates.failed, rates.unknown) == (0, 0, 1)


def test_a_refused_action_is_an_error_and_the_episode_goes_on(store: Store) -> None:
    env = capture_episodes(GuardrailGymEnv(Till(), TASKS), exporter=store)
    env.reset(options={"task_index": 0})
    with pytest.raises(ValueError, match="outside Discrete"):
        env.step(5)
    env.step(0)
    env.close()
    (episode,) = store.episodes()
    assert [step.error is None for step in episode.steps] == [False, True]
    assert episode.steps[1].reward == 1.0


def test_the_records_of_the_document_hold_the_values_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registered: Till
) -> None:
    monkeypatch.setattr(sink, "_DEFAULT", ["unused.duckdb"])
    path = tmp_path / "rollouts.jsonl"
    observe(path)
    play(capture_episodes(gymnasium.make(NAME)), 3)
    step, episode = [json.loads(line) for line in path.read_text().splitlines()]
    assert (step["decision_type"], episode["decision_type"]) == ("rl.step", "rl.episode")
    assert (step["step_index"], step["reward"], step["terminated"]) == (0, 1.0, True)
    assert step["inputs"] == {"action": "np.int64(3)"}
    assert set(step["info_keys"]) == set(step["values"]["info"])
    assert step["values"]["action"] == [3]
    assert step["values"]["info"]["adjusted"] == [
        {"field": "agent", "reason": "unknown", "value": "mallory"}
    ]
    assert episode["inputs"]["env_id"] == NAME
    assert episode["outputs"] == {"total_steps": 1, "episode_return": 1.0, "completed": True}
    assert episode["values"]["info"] == {"task_id": "pay-620.0", "task_index": 1, "adjusted": []}


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize("vector", ["sync", pytest.param("async", marks=pytest.mark.slow)])
def test_vectors_record_an_episode_an_environment(
    store: Store, registered: Till, mode: AutoresetMode, vector: str
) -> None:
    envs = gymnasium.make_vec(
        NAME, 2, vectorization_mode=vector, vector_kwargs={"autoreset_mode": mode}
    )
    captured = capture_vector(envs, exporter=store)
    captured.reset(seed=1, options={"task_index": 1})
    captured.step(np.array([0, 1]))
    captured.step(np.array([3, 3]))  # next-step: no step, the reset
    captured.close()
    found = [
        (episode.data["provenance"]["labels"]["vector_index"], episode.ending, *shown(episode))
        for episode in store.episodes()
    ]
    whole = [(0, "terminated", 1.0, "deny", None), (1, "terminated", 0.0, "allow", SMALLER.id)]
    assert [row for row in found if row[3] is not None][:2] == whole
    assert all(episode.coverage_issues == [] for episode in list(store.episodes())[:2])
    ends = [row[1] for row in found[2:]]
    if mode is AutoresetMode.NEXT_STEP:
        assert ends == ["closed_early"] * 2
    else:
        assert ends == ["terminated"] * 2 + ["closed_early"] * 2


def shown(episode: Any) -> tuple[Any, ...]:
    """Reward, effect and injection of the step that an episode has, if it has one."""
    if not episode.steps:
        return (None, None, None)
    (step,) = episode.steps
    return (step.reward, step.info["effect"], step.info["injection_id"])


def test_capture_episode_hands_the_agent_a_guarded_guardrail(store: Store) -> None:
    till = Till()

    def attack(env: Any, observation: Any, info: Any) -> None:
        assert "expected_effect" not in info
        assert not hasattr(env, "guardrail")
        env.step(1)

    episode = capture_episode(
        lambda: GuardrailGymEnv(till, TASKS, INJECTIONS, "adversarial"),
        attack,
        case=EvalCase("Get 620 paid", case_id="pay-620"),
        environment_id="till-v1",
        observer_id="till-v1",
        observe=lambda: {"asked": len(till.seen)},
        seed=0,
        max_steps=1,
        options={"task_index": 1},
        store=store,
        provenance=Provenance(agent_id="attacker"),
    )
    assert (episode.ending, episode.coverage_issues) == ("terminated", [])
    assert [state["asked"] for state in episode.states] == [0, 1]
    assert (episode.steps[0].reward, till.closed) == (1.0, 1)


@pytest.mark.parametrize(
    "value",
    [10**400, float("nan"), float("-inf"), None, "x" * 1_000_000, [{"a": [1]}], "\ud800\u2028"],
    ids=lambda value: type(value).__name__,
)
def test_strange_values_are_recorded_as_they_were(store: Store, tmp_path: Path, value: Any) -> None:
    task = GuardrailTask("strange", request(1.0, note=value), Effect.DENY)
    for target in (store, tmp_path / "rollouts.jsonl"):
        env = GuardrailGymEnv(Till(), [task], [SwapField("context.amount", value)])
        wrapped = capture_episodes(env, exporter=target)
        for action in (0, 1):
            wrapped.reset(seed=0)
            wrapped.step(action)
        wrapped.close()
    lines = (tmp_path / "rollouts.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["decision_type"] for line in lines] == ["rl.step", "rl.episode"] * 2
    for episode in store.episodes():
        assert episode.coverage_issues == []
        assert episode.verify() == []
        note = next(
            entry["value"]
            for entry in episode.steps[0].info["adjusted"]
            if entry["field"] == "context.note"
        )
        assert note == value or (note != note and value != value)
