"""The code of the second published document runs here with only its imports changed.

The document (briefcase, "briefcase.integrations.gym") shows two programs and the signatures of what
they use. It names no class of its guardrail framework, so guardrail, tasks and injections are ours.
"""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

from envbench import EpisodeCaptureWrapper, capture_episodes
from envbench.capture import sink
from envbench.guardrails import (
    Bound,
    Effect,
    EvalRequest,
    EvalResult,
    Explanation,
    GuardrailGymEnv,
    GuardrailTask,
    PolicySpace,
    SwapField,
    register_with_gymnasium,
)

IMPORTS = {
    "from briefcase.integrations.gym import GuardrailGymEnv": (
        "from envbench.guardrails import GuardrailGymEnv"
    ),
    "import briefcase, gymnasium": "import envbench as briefcase, gymnasium",
    "from briefcase.integrations.gym import capture_episodes": (
        "from envbench import capture_episodes"
    ),
}

GUARDRAIL = """
from briefcase.integrations.gym import GuardrailGymEnv

env = GuardrailGymEnv(guardrail, tasks, injections)

obs, info = env.reset(seed=0)
obs, reward, terminated, truncated, info = env.step(0)
"""

CAPTURE = """
import briefcase, gymnasium
from briefcase.integrations.gym import capture_episodes

briefcase.observe("rollouts.jsonl")
env = capture_episodes(gymnasium.make("CartPole-v1"))

env.reset(seed=0)
env.step(env.action_space.sample())
env.close()
"""


class Clinic:
    """Lets nobody read a record whose bearer is under age."""

    request_space = PolicySpace(
        agents=["nurse", "visitor"],
        actions=["read"],
        resources=["record"],
        context_schema={"age": Bound(0, 120)},
    )
    closed = 0

    def evaluate(self, request: EvalRequest) -> EvalResult:
        if request.agent == "nurse" and request.context["age"] >= 18:
            return EvalResult(Effect.ALLOW, "of age", 0.5)
        return EvalResult(Effect.DENY, "under age, or no nurse", 0.5)

    def explain(self, result: EvalResult) -> Explanation:
        return Explanation(f"Result: {result.effect.value.upper()}, {result.reason}.")

    def close(self) -> None:
        self.closed += 1


def task(age: float, expected: Effect) -> GuardrailTask:
    return GuardrailTask(
        f"age-{age}", EvalRequest("nurse", "read", "record", {"age": age}), expected
    )


TASKS = [task(40, Effect.ALLOW), task(12, Effect.DENY)]
INJECTIONS = [SwapField("context.age", 18), SwapField("agent", "visitor")]
INFO_KEYS = (
    *("task_id", "injection_id", "effect", "expected_effect", "utility", "security"),
    *("reason", "eval_time_ms"),
)


def run(part: str, **names: Any) -> dict[str, Any]:
    """Run code of the document with our imports."""
    for theirs, ours in IMPORTS.items():
        part = part.replace(theirs, ours)
    assert "from briefcase" not in part
    exec(compile(part, "<the document>", "exec"), names)
    return names


@pytest.fixture
def clinic() -> Clinic:
    return Clinic()


@pytest.fixture
def default_target(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder to work in, and a default target that is set back afterwards."""
    monkeypatch.setattr(sink, "_DEFAULT", list(sink._DEFAULT))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def registered(clinic: Clinic) -> Iterator[str]:
    name = "test/Clinic-v0"
    register_with_gymnasium(name, guardrail=clinic, tasks=TASKS, injections=INJECTIONS)
    yield name
    del gymnasium.registry[name]


# -- a guardrail as an environment ----------------------------------------------------------------


def test_the_document_s_guardrail_program(clinic: Clinic) -> None:
    names = run(GUARDRAIL, guardrail=clinic, tasks=TASKS, injections=INJECTIONS)
    assert (names["reward"], names["terminated"], names["truncated"]) == (1.0, True, False)
    assert names["obs"] in names["env"].observation_space
    assert set(INFO_KEYS) < set(names["info"])
    names["env"].close()
    assert clinic.closed == 1


def test_the_signatures_are_the_document_s() -> None:
    parameters = inspect.signature(GuardrailGymEnv).parameters
    assert list(parameters) == ["guardrail", "tasks", "injections", "reward_mode", "render_mode"]
    defaults = {name: p.default for name, p in parameters.items() if p.default is not p.empty}
    assert defaults == {"injections": (), "reward_mode": "utility", "render_mode": None}
    reset = inspect.signature(GuardrailGymEnv.reset).parameters
    assert [reset[name].kind for name in ("seed", "options")] == [
        inspect.Parameter.KEYWORD_ONLY
    ] * 2
    registering = inspect.signature(register_with_gymnasium).parameters
    assert list(registering) == ["env_id", "env_kwargs"]
    wrapping = inspect.signature(EpisodeCaptureWrapper).parameters
    assert list(wrapping)[:6] == [
        *("env", "exporter", "async_capture", "capture_steps", "max_obs_chars"),
        "max_action_chars",
    ]
    assert (wrapping["exporter"].default, wrapping["async_capture"].default) == (None, True)
    assert list(inspect.signature(capture_episodes).parameters) == ["env", "exporter", "kwargs"]


def test_the_action_space_is_the_clean_request_and_the_injections(clinic: Clinic) -> None:
    env = GuardrailGymEnv(clinic, TASKS, INJECTIONS)
    assert env.action_space == spaces.Discrete(1 + len(INJECTIONS))
    ids = []
    for action in range(3):
        env.reset(options={"task_index": 1})
        ids.append(env.step(action)[4]["injection_id"])
    assert ids == [None, *(injection.id for injection in INJECTIONS)]


def test_the_observation_has_a_fixed_shape(clinic: Clinic) -> None:
    env = GuardrailGymEnv(clinic, TASKS, INJECTIONS)
    assert isinstance(env.observation_space, spaces.Dict)
    kinds = {name: type(space) for name, space in env.observation_space.items()}
    assert kinds == {
        "agent": spaces.Discrete,
        "action": spaces.Discrete,
        "resource": spaces.Discrete,
        "context": spaces.Box,
        "last_effect": spaces.Discrete,
        "last_eval_time_ms": spaces.Box,
    }
    assert env.observation_space["last_effect"] == spaces.Discrete(3)
    context = env.observation_space["context"]
    assert isinstance(context, spaces.Box)
    assert (context.low.tolist(), context.high.tolist()) == ([0.0], [120.0])


@pytest.mark.parametrize(("mode", "rewards"), [("utility", [1, 0, 1]), ("adversarial", [0, 1, 0])])
def test_the_reward_is_the_expected_effect_or_its_inverse(
    clinic: Clinic, mode: Any, rewards: list[float]
) -> None:
    env = GuardrailGymEnv(clinic, TASKS, INJECTIONS, reward_mode=mode)
    found = []
    for action in range(3):
        env.reset(options={"task_index": 1})
        found.append(env.step(action)[1])
    assert found == rewards


def test_the_info_carries_the_result_itself(clinic: Clinic) -> None:
    env = GuardrailGymEnv(clinic, TASKS, INJECTIONS)
    env.reset(options={"task_index": 1})
    *_, info = env.step(1)
    assert {key: info[key] for key in INFO_KEYS} == {
        "task_id": "age-12",
        "injection_id": "swap context.age=18",
        "effect": "allow",
        "expected_effect": "deny",
        "utility": False,
        "security": False,
        "reason": "of age",
        "eval_time_ms": 0.5,
    }
    assert info["result"] == EvalResult(Effect.ALLOW, "of age", 0.5)


def test_every_error_of_the_document(clinic: Clinic) -> None:
    with pytest.raises(ValueError, match="tasks"):
        GuardrailGymEnv(clinic, [])
    with pytest.raises(ValueError, match="reward_mode"):
        GuardrailGymEnv(clinic, TASKS, reward_mode="regret")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="render_mode"):
        GuardrailGymEnv(clinic, TASKS, render_mode="rgb_array")
    env = GuardrailGymEnv(clinic, TASKS)
    with pytest.raises(RuntimeError, match="reset"):
        env.step(0)
    with pytest.raises(ValueError, match="task_index"):
        env.reset(options={"task_index": 2})
    env.reset()
    with pytest.raises(ValueError, match="outside"):
        env.step(1)
    env.step(0)
    with pytest.raises(RuntimeError, match="one step"):
        env.step(0)


def test_ansi_is_the_narrative(clinic: Clinic) -> None:
    env = GuardrailGymEnv(clinic, TASKS, render_mode="ansi")
    env.reset(options={"task_index": 0})
    env.step(0)
    assert env.render() == "Result: ALLOW, of age."


@pytest.mark.filterwarnings("ignore:.*Not able to test alternative render modes.*")
def test_gymnasium_s_checker_passes(clinic: Clinic) -> None:
    check_env(GuardrailGymEnv(clinic, TASKS, INJECTIONS))


def test_the_made_environment_drives_the_guardrail_that_was_registered(
    clinic: Clinic, registered: str
) -> None:
    assert gymnasium.spec(registered).kwargs == {}
    env = gymnasium.make(registered)
    env.reset()
    env.step(0)
    env.close()
    assert clinic.closed == 1


def test_nothing_is_registered_at_import_and_the_default_name_is_ours() -> None:
    code = """
    import gymnasium
    before = set(gymnasium.registry)
    from envbench.guardrails import GuardrailGymEnv, register_with_gymnasium
    assert set(gymnasium.registry) == before
    register_with_gymnasium()
    print(*set(gymnasium.registry) - before)
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == ["envbench/GuardrailEval-v0"]


# -- episodes as records ------------------------------------------------------------------------


def records(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "rollouts.jsonl").read_text().splitlines()]


def test_the_document_s_capture_program(default_target: Path) -> None:
    run(CAPTURE)
    step, episode = records(default_target)
    assert step["decision_type"] == "rl.step"
    assert (step["step_index"], step["reward"]) == (0, 1.0)
    assert (step["terminated"], step["truncated"], step["info_keys"]) == (False, False, [])
    assert step["inputs"]["action"] in ("np.int64(0)", "np.int64(1)")
    assert step["outputs"]["observation"].startswith("array([")
    assert step["execution_time_ms"] >= 0
    assert episode["decision_type"] == "rl.episode"
    assert episode["episode_id"] == step["episode_id"]
    assert episode["inputs"]["env_id"] == "CartPole-v1"
    assert episode["outputs"] == {"total_steps": 1, "episode_return": 1.0, "completed": False}


def test_a_reset_in_mid_episode_ends_it_as_not_completed(default_target: Path) -> None:
    run(CAPTURE.replace("env.close()", "env.reset()\nenv.close()"))
    ends = [r["outputs"] for r in records(default_target) if r["decision_type"] == "rl.episode"]
    assert [(end["total_steps"], end["completed"]) for end in ends] == [(1, False), (0, False)]


def test_an_episode_that_ended_is_completed(default_target: Path) -> None:
    loop = "while not any(env.step(1)[2:4]):\n    pass\nenv.close()"
    run(CAPTURE.replace("env.close()", loop))
    *steps, episode = records(default_target)
    assert episode["outputs"]["completed"] is True
    assert episode["outputs"]["total_steps"] == len(steps)
    assert episode["outputs"]["episode_return"] == sum(step["reward"] for step in steps)


def test_without_steps_there_is_one_record_an_episode(default_target: Path) -> None:
    without = 'capture_episodes(gymnasium.make("CartPole-v1"), capture_steps=False)'
    run(CAPTURE.replace('capture_episodes(gymnasium.make("CartPole-v1"))', without))
    assert [record["decision_type"] for record in records(default_target)] == ["rl.episode"]


def test_a_script_that_exits_at_once_loses_no_record(tmp_path: Path) -> None:
    # the document advises async_capture=False for such scripts; here the default keeps them, too
    script = CAPTURE.replace("env.close()", "env.close()\nraise SystemExit(3)")
    for theirs, ours in IMPORTS.items():
        script = script.replace(theirs, ours)
    run = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=False)
    assert run.returncode == 3
    assert [r["decision_type"] for r in records(tmp_path)] == ["rl.step", "rl.episode"]


def test_limits_cut_and_mark_what_they_cut(default_target: Path) -> None:
    given = 'capture_episodes(gymnasium.make("CartPole-v1"), max_obs_chars=8, max_action_chars=1)'
    run(CAPTURE.replace('capture_episodes(gymnasium.make("CartPole-v1"))', given))
    step, _ = records(default_target)
    cut = step["values"]["observation"]["value"]
    assert (cut["$envbench"], len(cut["text"])) == ("cut", 8)
    assert cut["length"] > 8
    assert step["error"]["phase"] == "limit"
    assert "was cut to 1" in step["error"]["message"]


def test_a_guardrail_is_recorded_like_any_environment(default_target: Path, clinic: Clinic) -> None:
    made = 'gymnasium.make("CartPole-v1")'
    run(CAPTURE.replace(made, "GUARDED"), GUARDED=GuardrailGymEnv(clinic, TASKS, INJECTIONS))
    step, episode = records(default_target)
    assert set(INFO_KEYS) < set(step["info_keys"])
    assert episode["outputs"]["completed"] is True
    assert clinic.closed == 1
