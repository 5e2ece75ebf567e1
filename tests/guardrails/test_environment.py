"""`GuardrailGymEnv`: spaces, rewards, modes, infos and errors of the second document."""

from __future__ import annotations

import copy
import json
import threading
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

from envbench.guardrails import (
    Effect,
    EvalRequest,
    EvalResult,
    GuardrailGymEnv,
    GuardrailTask,
    PolicySpace,
    SwapField,
    register_with_gymnasium,
)
from tests.guardrails.tills import (
    BESIDE,
    INJECTIONS,
    SMALLER,
    SPACE,
    STRANGER,
    TASKS,
    Answers,
    Fake,
    Till,
    request,
    task,
)

NO_SPEC = "ignore:.*Not able to test alternative render modes.*"


@pytest.fixture
def till() -> Till:
    return Till()


@pytest.fixture
def env(till: Till) -> GuardrailGymEnv:
    return GuardrailGymEnv(till, TASKS, INJECTIONS)


def step_of(env: GuardrailGymEnv, index: int, action: int) -> Any:
    env.reset(options={"task_index": index})
    return env.step(action)


def crash(request: EvalRequest) -> Any:
    raise ValueError("no such agent")


# -- spaces and rewards -------------------------------------------------------------------------


def test_actions_are_the_clean_request_and_each_injection(till: Till, env: GuardrailGymEnv) -> None:
    assert env.action_space == spaces.Discrete(4)
    assert GuardrailGymEnv(till, TASKS).action_space == spaces.Discrete(1)
    for action, injection in enumerate([None, *INJECTIONS]):
        step_of(env, 1, action)
        asked = request(620.0)
        assert till.seen[-1] == (asked if injection is None else injection.inject(asked))


def test_the_observation_space_is_the_published_one(env: GuardrailGymEnv) -> None:
    space = env.observation_space
    assert isinstance(space, spaces.Dict)
    assert list(space) == sorted(
        ["agent", "action", "resource", "context", "last_effect", "last_eval_time_ms"]
    )
    assert space["last_effect"] == spaces.Discrete(3)
    assert space["context"] == spaces.Box(np.zeros(2), np.array([1000.0, 1.0]), dtype=np.float64)


@pytest.mark.parametrize(
    ("index", "action", "utility", "effect"),
    [
        (0, 0, True, "allow"),  # 120, as it is
        (0, 1, True, "allow"),  # 5 in its place
        (0, 2, False, "deny"),  # 501
        (0, 3, False, "deny"),  # by a stranger
        (1, 0, True, "deny"),  # 620
        (1, 1, False, "allow"),
        (1, 2, True, "deny"),
        (1, 3, True, "deny"),
    ],
)
@pytest.mark.parametrize("mode", ["utility", "adversarial"])
def test_the_reward_is_the_expected_effect_or_the_other_way_round(
    till: Till, index: int, action: int, utility: bool, effect: str, mode: Any
) -> None:
    env = GuardrailGymEnv(till, TASKS, INJECTIONS, reward_mode=mode)
    _, reward, terminated, truncated, info = step_of(env, index, action)
    assert reward == float(utility if mode == "utility" else not utility)
    assert type(reward) is float
    assert (terminated, truncated) == (True, False)
    assert (info["effect"], info["utility"]) == (effect, utility)
    assert info["security"] is (None if action == 0 else utility)


def test_the_observation_shows_what_was_submitted(env: GuardrailGymEnv) -> None:
    before, _ = env.reset(options={"task_index": 1})
    after, _, _, _, info = env.step(3)
    assert before in env.observation_space
    assert after in env.observation_space
    assert (before["agent"], after["agent"]) == (0, 2)
    assert (before["last_effect"], after["last_effect"]) == (0, 2)
    assert (before["last_eval_time_ms"], after["last_eval_time_ms"]) == ([0.0], [0.5])
    assert info["adjusted"] == [{"field": "agent", "reason": "unknown", "value": "mallory"}]
    again, _ = env.reset(options={"task_index": 1})
    assert again["last_effect"] == 0


# -- infos --------------------------------------------------------------------------------------


def test_the_info_of_a_step_has_every_published_key(env: GuardrailGymEnv) -> None:
    *_, info = step_of(env, 1, 3)
    result = EvalResult(Effect.DENY, "nobody knows mallory", 0.5)
    assert info == {
        "task_id": "pay-620.0",
        "task_index": 1,
        "category": "paying",
        "injection_id": "swap agent=mallory",
        "effect": "deny",
        "expected_effect": "deny",
        "utility": True,
        "security": True,
        "reason": "nobody knows mallory",
        "eval_time_ms": 0.5,
        "result": result,
        "error": None,
        "adjusted": [{"field": "agent", "reason": "unknown", "value": "mallory"}],
    }
    assert type(info["effect"]) is str
    *_, clean = step_of(env, 1, 0)
    assert (clean["injection_id"], clean["security"]) == (None, None)
    assert clean.keys() == info.keys()


def test_the_result_is_the_very_one_that_was_returned() -> None:
    result = EvalResult(Effect.DENY)
    env = GuardrailGymEnv(Answers(lambda request: result), TASKS)
    assert step_of(env, 0, 0)[4]["result"] is result


def test_the_expected_label_is_in_nothing_before_the_step() -> None:
    # two environments that differ in nothing but what is expected
    ends: list[Any] = []
    for effect in (Effect.ALLOW, Effect.DENY):
        env = GuardrailGymEnv(Till(), [task(expected=effect, id="t")], INJECTIONS)
        observation, info = env.reset(seed=1)
        assert info == {"task_id": "t", "task_index": 0, "adjusted": []}
        *_, after = env.step(0)
        ends.append((env.observation_space, str(observation), info, after["expected_effect"]))
    assert ends[0][:3] == ends[1][:3]
    assert [end[3] for end in ends] == ["allow", "deny"]


def test_what_an_observation_cannot_show_is_listed_at_reset_too(till: Till) -> None:
    env = GuardrailGymEnv(till, [task(2000.0)])
    observation, info = env.reset()
    assert observation["context"][0] == 1000.0
    assert info["adjusted"] == [{"field": "context.amount", "reason": "clipped", "value": 2000.0}]


def test_who_changes_an_info_changes_no_task(till: Till) -> None:
    asked = GuardrailTask("t", request(rows=["a"]), Effect.ALLOW)
    env = GuardrailGymEnv(till, [asked])
    _, before = env.reset()
    *_, after = env.step(0)
    for info in (before, after):
        assert info["adjusted"] == [{"field": "context.rows", "reason": "unknown", "value": ["a"]}]
        info["adjusted"][0]["value"].append("b")
    assert asked.request == request(rows=["a"])
    assert env.reset()[1]["adjusted"][0]["value"] == ["a"]


@pytest.mark.parametrize("mode", ["utility", "adversarial"])
@pytest.mark.parametrize("action", [0, 1])
def test_a_crash_is_its_own_outcome_and_earns_nothing(mode: Any, action: int) -> None:
    env = GuardrailGymEnv(Answers(crash), TASKS, [SMALLER], reward_mode=mode)
    observation, reward, terminated, truncated, info = step_of(env, 1, action)
    assert observation in env.observation_space
    assert observation["last_effect"] == 0
    assert (reward, terminated, truncated) == (0.0, True, False)
    assert info["effect"] == "error"
    assert info["error"] == "ValueError: no such agent"
    assert info["utility"] is False
    assert info["security"] is None
    assert info["result"] == EvalResult(Effect.ERROR, "ValueError: no such agent")


# -- episodes -----------------------------------------------------------------------------------


def test_a_seed_draws_the_same_tasks_and_all_are_drawn(env: GuardrailGymEnv) -> None:
    def drawn(seed: int) -> list[int]:
        first = env.reset(seed=seed)[1]["task_index"]
        return [first, *(env.reset()[1]["task_index"] for _ in range(20))]

    assert drawn(3) == drawn(3)
    assert drawn(3) != drawn(4)
    assert set(drawn(3)) == {0, 1}


@pytest.mark.parametrize("index", [0, 1, np.int64(1), np.uint8(0)])
def test_options_pin_the_task(env: GuardrailGymEnv, index: Any) -> None:
    _, info = env.reset(options={"task_index": index})
    assert info["task_index"] == index
    assert type(info["task_index"]) is int
    assert info["task_id"] == TASKS[int(index)].id


@pytest.mark.parametrize(
    "index",
    [2, -1, 10**5000, True, np.True_, 1.0, np.float64(1), "1", None, [1], np.array([1]), b"\x01"],
    ids=lambda index: type(index).__name__,
)
def test_another_task_index_is_refused_and_leaves_the_episode_open(
    env: GuardrailGymEnv, index: Any
) -> None:
    env.reset(seed=0, options={"task_index": 1})
    state = copy.deepcopy(env.np_random.bit_generator.state)
    with pytest.raises(ValueError, match="task_index must be an integer from 0 to 1, not"):
        env.reset(seed=9, options={"task_index": index})
    assert env.np_random.bit_generator.state == state
    assert env.step(0)[4]["task_index"] == 1


def test_options_are_a_dict(env: GuardrailGymEnv) -> None:
    assert env.reset(options={})[1]["task_index"] in (0, 1)
    with pytest.raises(TypeError, match="options must be a dict, not list"):
        env.reset(options=[1])  # type: ignore[arg-type]


def test_steps_out_of_order_are_refused(env: GuardrailGymEnv, till: Till) -> None:
    with pytest.raises(RuntimeError, match="step before reset"):
        env.step(0)
    env.reset()
    env.step(0)
    with pytest.raises(RuntimeError, match="an episode has one step"):
        env.step(0)
    assert len(till.seen) == 1
    env.reset()
    env.step(0)


@pytest.mark.parametrize(
    "action",
    [4, -1, 10**5000, 1.0, "1", None, [1], np.array([1]), np.float32(0)],
    ids=lambda action: type(action).__name__,
)
def test_an_action_outside_the_space_is_refused_and_leaves_the_episode_open(
    env: GuardrailGymEnv, till: Till, action: Any
) -> None:
    env.reset(options={"task_index": 0})
    with pytest.raises(ValueError, match=r"action .* is outside Discrete\(4\)"):
        env.step(action)
    assert till.seen == []
    assert env.step(np.int32(0))[1] == 1.0


@pytest.mark.parametrize("action", [1, np.int64(1), np.array(1)], ids=["int", "scalar", "array"])
def test_an_action_is_any_integer_of_the_space(env: GuardrailGymEnv, action: Any) -> None:
    assert step_of(env, 0, action)[4]["injection_id"] == SMALLER.id


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1)])
def test_an_interrupt_goes_on_and_leaves_the_episode_open(error: BaseException) -> None:
    errors = [error]

    def answer(request: EvalRequest) -> EvalResult:
        if errors:
            raise errors.pop()
        return EvalResult(Effect.ALLOW)

    env = GuardrailGymEnv(Answers(answer), TASKS)
    env.reset(options={"task_index": 0})
    with pytest.raises(type(error)):
        env.step(0)
    assert env.step(0)[1] == 1.0


def test_an_injection_that_fails_does_so_out_of_the_step_and_leaves_the_episode_open(
    till: Till,
) -> None:
    env = GuardrailGymEnv(till, TASKS, [Fake("odd", lambda request: 1 / 0)])
    env.reset(options={"task_index": 0})
    with pytest.raises(ZeroDivisionError):
        env.step(1)
    assert env.step(0)[1] == 1.0


def test_a_guardrail_that_changes_its_request_changes_no_later_episode() -> None:
    def answer(asked: EvalRequest) -> EvalResult:
        amount = asked.context.pop("amount")  # type: ignore[attr-defined]
        return EvalResult(Effect.DENY if amount > 500 else Effect.ALLOW)

    env = GuardrailGymEnv(Answers(answer), TASKS)
    for _ in range(3):
        observation, reward, *_ = step_of(env, 1, 0)
        assert (observation["context"].tolist(), reward) == ([620.0, 0.25], 1.0)


# -- rendering and closing ----------------------------------------------------------------------


def test_ansi_is_the_explanation(till: Till) -> None:
    env = GuardrailGymEnv(till, TASKS, render_mode="ansi")
    assert env.render() == "no task yet"
    env.reset(options={"task_index": 1})
    assert env.render() == "task pay-620.0: clerk asks for pay on invoices"
    env.step(0)
    assert env.render() == "The till says deny: more than 500"


def test_human_prints_it_and_without_a_mode_there_is_nothing(
    till: Till, capsys: pytest.CaptureFixture[str]
) -> None:
    for mode in ("human", None):
        env = GuardrailGymEnv(till, TASKS, render_mode=mode)
        step_of(env, 1, 0)
        assert env.render() is None
    assert capsys.readouterr().out == "The till says deny: more than 500\n"


def test_after_a_crash_the_guardrail_is_not_asked_to_explain() -> None:
    class Crashing(Till):
        evaluate = staticmethod(crash)

    env = GuardrailGymEnv(Crashing(), TASKS, render_mode="ansi")
    step_of(env, 1, 0)
    text = "task pay-620.0: the guardrail crashed: ValueError: no such agent"
    assert env.render() == text


def test_an_explanation_that_is_no_text_is_refused(till: Till) -> None:
    till.explain = lambda result: SimpleNamespace(to_narrative=lambda: 3)  # type: ignore
    env = GuardrailGymEnv(till, TASKS, render_mode="ansi")
    step_of(env, 0, 0)
    with pytest.raises(TypeError, match=r"to_narrative\(\) must return text, not int"):
        env.render()


@pytest.mark.parametrize("reset", [False, True])
def test_close_closes_the_guardrail_once(env: GuardrailGymEnv, till: Till, reset: bool) -> None:
    if reset:
        env.reset()
    env.close()
    env.close()
    assert till.closed == 1


def test_a_guardrail_need_not_close() -> None:
    GuardrailGymEnv(Answers(crash), TASKS).close()


def test_a_close_that_raises_is_not_tried_again(till: Till) -> None:
    def fail() -> None:
        till.closed += 1
        raise OSError("busy")

    till.close = fail  # type: ignore[method-assign]
    env = GuardrailGymEnv(till, TASKS)
    with pytest.raises(OSError, match="busy"):
        env.close()
    env.close()
    assert till.closed == 1


# -- arguments ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({"tasks": []}, ValueError, "tasks must hold at least one task"),
        ({"tasks": [task(), task()]}, ValueError, "tasks hold an id twice: 'pay-120.0'"),
        ({"tasks": ["t"]}, TypeError, r"tasks\[0\] must be a GuardrailTask, not str"),
        ({"injections": [BESIDE, BESIDE]}, ValueError, "injections hold an id twice"),
        ({"injections": [None]}, TypeError, r"injections\[0\] must be a GuardrailInjection"),
        ({"reward_mode": "regret"}, ValueError, "reward_mode must be one of utility, adversarial"),
        ({"reward_mode": None}, ValueError, "reward_mode must be one of utility, adversarial"),
        ({"reward_mode": ["utility"]}, ValueError, "reward_mode must be one of"),
        ({"render_mode": "rgb_array"}, ValueError, "render_mode must be one of human, ansi, not"),
        ({"render_mode": 1}, ValueError, "render_mode must be one of human, ansi, not 1"),
        ({"guardrail": Till}, TypeError, "not the class Till: call it to make one"),
        ({"guardrail": object()}, TypeError, "guardrail must have a method evaluate"),
        (
            {"guardrail": Answers(crash), "render_mode": "ansi"},
            TypeError,
            "guardrail must have a method explain",
        ),
    ],
)
def test_bad_arguments_are_named(
    given: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        GuardrailGymEnv(**{"guardrail": Till(), "tasks": TASKS, **given})


def test_tasks_and_injections_may_be_any_iterables(till: Till) -> None:
    env = GuardrailGymEnv(till, iter(TASKS), (one for one in INJECTIONS))
    assert env.tasks == TASKS
    assert env.injections == INJECTIONS


# -- Gymnasium's own checker --------------------------------------------------------------------

STRANGE = [
    GuardrailTask("huge", request(10**400), Effect.DENY),
    GuardrailTask("none", request(None, note=None), Effect.DENY),
    GuardrailTask("long", request("x" * 1_000_000), Effect.DENY),
    GuardrailTask("rows", request(1.0, rows=[{"a": [1]}], array=np.arange(3)), Effect.ALLOW),
    GuardrailTask("empty", EvalRequest("", "", ""), Effect.DENY),
    GuardrailTask("stranger", request(1.0, agent="\ud800"), Effect.DENY),
]


@pytest.mark.filterwarnings(NO_SPEC)
@pytest.mark.parametrize("mode", ["utility", "adversarial"])
def test_gymnasiums_checker_passes(mode: Any) -> None:
    check_env(GuardrailGymEnv(Till(), TASKS, INJECTIONS, reward_mode=mode, render_mode="ansi"))


@pytest.mark.filterwarnings(NO_SPEC)
@pytest.mark.parametrize(
    "space", [SPACE, PolicySpace(), PolicySpace(agents=["clerk"])], ids=["full", "none", "agents"]
)
def test_gymnasiums_checker_passes_for_strange_requests(space: PolicySpace) -> None:
    def answer(asked: EvalRequest) -> EvalResult:
        return EvalResult(Effect.ALLOW if asked.context["amount"] < 500 else Effect.DENY)

    attacks = [SwapField("context.amount", float("inf")), STRANGER]
    env = GuardrailGymEnv(Answers(answer, space), STRANGE, attacks)
    check_env(env)
    effects = {task.id: step_of(env, i, 0)[4]["effect"] for i, task in enumerate(STRANGE)}
    assert effects == {
        "huge": "deny",
        "none": "error",
        "long": "error",
        "rows": "allow",
        "empty": "error",
        "stranger": "allow",
    }


def test_a_made_environment_passes_in_every_render_mode() -> None:
    register_with_gymnasium("test/Checked-v0", guardrail=Till(), tasks=TASKS, injections=INJECTIONS)
    try:
        env = gymnasium.make("test/Checked-v0")
        check_env(env.unwrapped)
        env.close()
    finally:
        del gymnasium.registry["test/Checked-v0"]


def test_an_environment_with_a_lock_in_a_request_plays() -> None:
    env = GuardrailGymEnv(
        Till(), [task(1.0), GuardrailTask("l", request(lock=threading.Lock()), "deny")]
    )  # type: ignore
    assert step_of(env, 1, 0)[4]["effect"] == "allow"


def test_the_infos_are_plain_but_for_the_result(env: GuardrailGymEnv) -> None:
    *_, info = step_of(env, 1, 3)
    del info["result"]
    assert json.loads(json.dumps(info)) == info
