"""Registered guardrails: the very object, shared, closed once, in every kind of vector."""

from __future__ import annotations

import copy
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode

from envbench.guardrails import (
    EvalRequest,
    EvalResult,
    GuardrailGymEnv,
    register_with_gymnasium,
)
from tests.guardrails.tills import INJECTIONS, TASKS, Answers, Till, task

NAME = "test/Till-v0"


class Locked(Till):
    """A till that cannot be copied."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    """Leaves Gymnasium's registry as it was."""
    before = dict(gymnasium.registry)
    yield
    gymnasium.registry.clear()
    gymnasium.registry.update(before)


@pytest.fixture
def till() -> Till:
    """A till that is registered."""
    till = Locked()
    register_with_gymnasium(NAME, guardrail=till, tasks=TASKS, injections=INJECTIONS)
    return till


def test_nothing_is_registered_at_import() -> None:
    code = (
        "import gymnasium; before = set(gymnasium.registry)\n"
        "from envbench.guardrails import *\n"
        "assert set(gymnasium.registry) == before\n"
        "register_with_gymnasium()\n"
        "print(*set(gymnasium.registry) - before)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "envbench/GuardrailEval-v0\n"


def test_the_made_environment_drives_the_very_guardrail(till: Till) -> None:
    env = gymnasium.make(NAME)
    made = env.unwrapped
    assert isinstance(made, GuardrailGymEnv)
    assert made.guardrail is till
    assert (made.tasks, made.injections) == (TASKS, INJECTIONS)
    env.reset(options={"task_index": 1})
    assert env.step(1)[1] == 0.0
    assert len(till.seen) == 1
    env.close()


def test_the_registry_holds_no_arguments(till: Till) -> None:
    spec = gymnasium.spec(NAME)
    assert spec.kwargs == {}
    assert copy.deepcopy(spec).make().unwrapped.guardrail is till  # type: ignore[attr-defined]


def test_arguments_of_make_win(till: Till) -> None:
    env = gymnasium.make(NAME, reward_mode="adversarial", tasks=[TASKS[1]])
    env.reset()
    assert env.step(1)[1] == 1.0
    assert env.spec is not None
    again = env.spec.make()
    assert again.unwrapped.reward_mode == "adversarial"  # type: ignore[attr-defined]
    other = Till()
    assert gymnasium.make(NAME, guardrail=other).unwrapped.guardrail is other  # type: ignore[attr-defined]


def test_what_is_wrong_is_said_with_the_promised_errors(till: Till) -> None:
    env = gymnasium.make(NAME)
    with pytest.raises(RuntimeError, match="step before reset"):
        env.step(0)
    env.reset()
    with pytest.raises(ValueError, match="outside Discrete"):
        env.step(9)
    env.step(0)
    with pytest.raises(RuntimeError, match="an episode has one step"):
        env.step(0)
    with pytest.raises(ValueError, match="reward_mode"):
        gymnasium.make(NAME, reward_mode="regret")
    with pytest.raises(ValueError, match="render_mode"):
        gymnasium.make(NAME, render_mode="rgb_array")
    with pytest.raises(TypeError, match=r"GuardrailGymEnv has no argument reward, task$"):
        register_with_gymnasium("test/Other-v0", task=1, reward=2)
    with pytest.raises(gymnasium.error.Error):
        register_with_gymnasium("no name?", guardrail=till, tasks=TASKS)


def test_iterators_are_not_used_up() -> None:
    register_with_gymnasium(NAME, guardrail=Till(), tasks=iter(TASKS), injections=iter(INJECTIONS))
    for _ in range(2):
        assert gymnasium.make(NAME).unwrapped.tasks == TASKS  # type: ignore[attr-defined]


def test_a_shared_guardrail_is_closed_with_the_last_environment(till: Till) -> None:
    first, second = gymnasium.make(NAME), gymnasium.make(NAME)
    first.close()
    first.close()
    assert till.closed == 0
    second.reset(options={"task_index": 0})
    assert second.step(0)[4]["effect"] == "allow"
    second.close()
    second.close()
    assert till.closed == 1


def test_an_environment_that_was_dropped_keeps_no_guardrail_open(till: Till) -> None:
    gymnasium.make(NAME)
    env = gymnasium.make(NAME)
    env.close()
    assert till.closed == 1


def test_another_guardrail_is_closed_for_itself(till: Till) -> None:
    other = Till()
    one, two = gymnasium.make(NAME), gymnasium.make(NAME, guardrail=other)
    two.close()
    assert (till.closed, other.closed) == (0, 1)
    one.close()
    assert (till.closed, other.closed) == (1, 1)


def test_a_copy_has_a_guardrail_of_its_own_and_takes_no_other_environment_along() -> None:
    till = Till()
    register_with_gymnasium(NAME, guardrail=till, tasks=TASKS)
    first, second = gymnasium.make(NAME), gymnasium.make(NAME)
    first.reset(options={"task_index": 0})
    second.unwrapped.lock = threading.Lock()  # type: ignore[attr-defined]  # cannot be copied
    copied = copy.deepcopy(first.unwrapped)
    assert copied.step(0)[1] == 1.0
    copied.close()
    assert copied.guardrail.closed == 1  # type: ignore[attr-defined]
    first.close()
    assert (till.closed, len(till.seen)) == (0, 0)
    second.close()
    assert till.closed == 1


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_a_vector_in_one_process(till: Till, mode: AutoresetMode) -> None:
    envs = gymnasium.make_vec(
        NAME, 3, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode}
    )
    observations, infos = envs.reset(seed=1, options={"task_index": 1})
    assert observations["context"].tolist() == [[620.0, 0.25]] * 3
    assert infos["task_id"].tolist() == ["pay-620.0"] * 3
    _, rewards, terminated, truncated, infos = envs.step(np.array([0, 1, 3]))
    assert rewards.tolist() == [1.0, 0.0, 1.0]
    assert (terminated.tolist(), truncated.tolist()) == ([True] * 3, [False] * 3)
    last = infos["final_info"] if mode is AutoresetMode.SAME_STEP else infos
    assert last["effect"].tolist() == ["deny", "allow", "deny"]
    assert last["injection_id"].tolist() == [None, *(INJECTIONS[i].id for i in (0, 2))]
    assert {id(env.unwrapped.guardrail) for env in envs.envs} == {id(till)}  # type: ignore[attr-defined]
    envs.close()
    assert till.closed == 1


def test_a_vector_that_is_reset_by_its_caller(till: Till) -> None:
    envs = gymnasium.make_vec(
        NAME, 2, vectorization_mode="sync", vector_kwargs={"autoreset_mode": AutoresetMode.DISABLED}
    )
    for index in (1, 0):
        mask = np.array([True, True])
        _, infos = envs.reset(options={"task_index": index, "reset_mask": mask})
        assert infos["task_index"].tolist() == [index, index]
        assert envs.step(np.array([0, 3]))[1].tolist() == [1.0, float(index)]
    envs.close()
    assert till.closed == 1


@pytest.mark.slow
@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
def test_a_vector_in_processes_of_their_own(context: str) -> None:
    if context == "spawn":
        register_with_gymnasium(NAME, guardrail=Till(), tasks=TASKS, injections=INJECTIONS)
    else:  # a lock cannot be sent, and can be inherited
        kind = Locked if context == "fork" else Till
        register_with_gymnasium(NAME, guardrail=kind(), tasks=TASKS, injections=INJECTIONS)
    other = gymnasium.make(NAME)  # it is open, and stays here
    envs = gymnasium.make_vec(
        NAME, 2, vectorization_mode="async", vector_kwargs={"context": context}
    )
    envs.reset(seed=1, options={"task_index": 1})
    _, rewards, _, _, infos = envs.step(np.array([0, 1]))
    assert rewards.tolist() == [1.0, 0.0]
    assert infos["error"].tolist() == [None, None]  # no worker has a till that is closed
    assert infos["result"].tolist() == [
        EvalResult("deny", "more than 500", 0.25),  # type: ignore[arg-type]
        EvalResult("allow", None, 0.25),  # type: ignore[arg-type]
    ]
    envs.close()
    assert other.reset(options={"task_index": 0})[1]["task_id"] == "pay-120.0"
    assert other.step(0)[1] == 1.0
    other.close()


@pytest.mark.slow
def test_a_crash_in_a_process_of_its_own_is_an_outcome() -> None:
    def crash(request: EvalRequest) -> Any:
        raise ValueError("no such agent")

    register_with_gymnasium(NAME, guardrail=Answers(crash), tasks=[task(10**400)])
    envs = gymnasium.make_vec(NAME, 2, vectorization_mode="async")
    envs.reset()
    _, rewards, terminated, _, infos = envs.step(np.array([0, 0]))
    assert (rewards.tolist(), terminated.tolist()) == ([0.0, 0.0], [True, True])
    assert infos["error"].tolist() == ["ValueError: no such agent"] * 2
    clipped = [{"field": "context.amount", "reason": "clipped", "value": 10**400}]
    assert infos["adjusted"].tolist() == [clipped] * 2
    envs.close()


@pytest.mark.slow
def test_environments_that_are_not_registered_reach_the_workers_open() -> None:
    till = Till()
    envs = AsyncVectorEnv([lambda: GuardrailGymEnv(till, TASKS)] * 2)
    envs.reset(options={"task_index": 0})
    assert envs.step(np.array([0, 0]))[4]["effect"].tolist() == ["allow"] * 2
    envs.close()
    assert till.closed == 0
