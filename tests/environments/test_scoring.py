from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from envbench.environments import Environment, ScriptedPolicy, ToolCall, scorer
from envbench.environments.scoring import Score, end_reward
from tests.environments.worlds import ADD, Counter, counting


def play(env: Counter, goal: int = 1) -> Any:
    """The last step of an episode that counts to the goal."""
    env.reset(options={"task": counting(goal)})
    for _ in range(goal - 1):
        env.step(ADD)
    return env.step(ADD)


def test_a_scorer_of_an_environment_turns_the_last_state_into_reward():
    env = Counter()

    @env.scorer
    def counted(rollout: Any) -> float:
        return float(rollout.env.state.count == rollout.task.expected["count"])

    _, reward, terminated, _, info = play(env, 2)
    assert (reward, terminated) == (1.0, True)
    assert info["rewards"] == {"step": 0.0, "end": 1.0}
    assert info["scores"] == {"counted": {"value": 1.0, "weight": 1.0}}
    assert counted.__name__ == "counted"
    assert Counter().scorers == ()


def test_step_rewards_and_end_rewards_are_kept_apart():
    class Paying(Counter):
        def after_tool(self, record: Any) -> None:
            self.add_reward(0.25)

    env = Paying()
    env.scorer(weight=2, name="twice")(lambda rollout: 0.5)
    env.scorer(weight=-1)(minus)
    env.scorer(weight=0, name="turns")(lambda rollout: len(rollout.trace.steps))
    _, reward, _, _, info = play(env, 3)
    assert info["rewards"] == {"step": 0.25, "end": 2 * 0.5 - 0.125}
    assert reward == 0.25 + 0.875
    outcome = env.trace.outcome
    assert (outcome.reward, outcome.step_reward, outcome.end_reward) == (1.625, 0.75, 0.875)
    assert outcome.scores == {"twice": 0.5, "minus": 0.125, "turns": 3.0}
    assert outcome.metrics == {"turns": 3.0, "tool_calls": 3, "tool_errors": 0}


def minus(rollout: Any) -> float:
    return 0.125


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, "TypeError: returned None, which is no finite number"),
        ("1", "TypeError: returned '1', which is no finite number"),
        (math.nan, "TypeError: returned nan, which is no finite number"),
        (math.inf, "TypeError: returned inf, which is no finite number"),
        ([1.0], "TypeError: returned [1.0], which is no finite number"),
        (10**400, "which is no finite number"),
        (KeyError("should_refund"), "KeyError: 'should_refund'"),
    ],
)
def test_a_scorer_that_makes_no_score_makes_no_reward_rather_than_0(returned, message):
    env = Counter()

    @env.scorer
    def broken(rollout: Any) -> Any:
        if isinstance(returned, Exception):
            raise returned
        return returned

    env.scorer(name="fine")(lambda rollout: 1)
    _, reward, terminated, _, info = play(env)
    assert (reward, terminated) == (None, True)
    assert info["rewards"] == {"step": 0.0, "end": None}
    assert message in info["scores"]["broken"]["error"]
    assert info["scores"]["fine"] == {"value": 1.0, "weight": 1.0}
    outcome = env.trace.outcome
    assert (outcome.reward, outcome.end_reward) == (None, None)
    assert outcome.scores == {"broken": None, "fine": 1.0}
    assert message in outcome.errors["broken"]


@pytest.mark.parametrize(
    ("returned", "value"),
    [(True, 1.0), (np.bool_(False), 0.0), (np.float32(0.5), 0.5), (np.array(2), 2.0), (3, 3.0)],
)
def test_numbers_and_bools_of_every_kind_are_scores(returned, value):
    env = Counter()
    env.scorer(name="any")(lambda rollout: returned)
    assert play(env)[4]["scores"]["any"]["value"] == value


def test_a_metric_that_fails_costs_no_reward_but_is_said():
    env = Counter()
    env.scorer(name="good")(lambda rollout: 1)

    @env.scorer(weight=0)
    def metric(rollout: Any) -> float:
        raise ZeroDivisionError("no")

    _, reward, _, _, info = play(env)
    assert reward == 1.0
    assert info["scores"]["metric"] == {"error": "ZeroDivisionError: no", "weight": 0.0}
    assert env.trace.outcome.metrics["metric"] is None
    assert env.trace.outcome.errors == {"metric": "ZeroDivisionError: no"}


def test_scores_that_overflow_together_make_no_reward():
    scores = [Score("a", 1.0, 1e308), Score("b", 1.0, 1e308)]
    assert end_reward(scores) is None
    assert end_reward([]) == 0.0


class Scored(Counter):
    @scorer
    def counted(self, rollout: Any) -> bool:
        return self.done() and rollout.env is self

    @scorer(weight=0.5, name="few turns")
    async def few(self, rollout: Any) -> float:
        return 1 / len(rollout.trace.steps)


def test_scorers_of_a_class_are_methods_and_may_be_asynchronous():
    env = Scored()
    assert [(each.name, each.weight) for each in env.scorers] == [
        ("counted", 1.0),
        ("few turns", 0.5),
    ]
    _, reward, _, _, info = play(env, 2)
    env.close()
    assert info["scores"]["few turns"]["value"] == 0.5
    assert reward == 1.25


def test_an_overridden_scorer_stays_one():
    class Stricter(Scored):
        def counted(self, rollout: Any) -> bool:
            return False

    env = Stricter()
    assert [each.name for each in env.scorers] == ["counted", "few turns"]
    assert play(env)[4]["scores"]["counted"]["value"] == 0.0
    env.close()


def test_a_scorer_can_be_registered_on_a_class():
    class Registered(Counter):
        pass

    class Below(Registered):
        pass

    @Registered.scorer(weight=3)
    def always(rollout: Any) -> int:
        return 1

    assert play(Registered())[1] == 3.0
    assert play(Below())[1] == 3.0
    assert Counter().scorers == ()
    with pytest.raises(TypeError, match="register a scorer on your own class"):
        Environment.scorer(always)


def test_a_name_belongs_to_one_function_that_may_be_defined_again():
    env = Scored()

    def define() -> Any:
        @env.scorer
        def again(rollout: Any) -> float:
            return 1.0

        return again

    define()
    latest = define()
    assert [each.function for each in env.scorers if each.name == "again"] == [latest]
    with pytest.raises(ValueError, match="there is a scorer 'again' already"):
        env.scorer(name="again")(minus)
    with pytest.raises(ValueError, match="there is a scorer 'counted' already"):
        env.scorer(name="counted")(minus)


def test_what_is_no_scorer_is_refused():
    env = Counter()
    with pytest.raises(TypeError, match="a scorer is a function of the rollout, not int"):
        env.scorer(3)
    for weight in (math.nan, math.inf, "1", None):
        with pytest.raises(ValueError, match="weight must be a finite number"):
            env.scorer(weight=weight)(minus)
    with pytest.raises(ValueError, match="name must not be blank"):
        env.scorer(name="")(minus)
    with pytest.raises(ValueError, match="weight must be a finite number"):
        scorer(weight=math.nan)(minus)


def test_an_episode_is_scored_once_at_its_first_end():
    env = Counter()
    calls = []
    env.scorer(name="once")(lambda rollout: calls.append(rollout.trace.stop_reason) or 1)
    env.reset(options={"task": counting(1)})
    _, reward, _, _, info = env.step("an answer")
    assert (reward, info["stop_reason"]) == (1.0, "policy_stop")
    _, reward, terminated, _, info = env.step(ADD)
    assert (reward, terminated, "scores" in info) == (0.0, True, False)
    assert calls == ["policy_stop"]


def test_scoring_can_be_left_out():
    env = Counter()
    env.scorer(name="never")(lambda rollout: 1 / 0)
    env.reset(options={"task": counting(1), "score": False})
    _, reward, _, _, info = env.step(ADD)
    assert (reward, info["scores"], info["rewards"]) == (0.0, {}, {"step": 0.0, "end": None})


def test_a_scorer_sees_the_whole_trace():
    env = Counter()
    seen: list[Any] = []

    @env.scorer
    def look(rollout: Any) -> float:
        seen.append(rollout)
        return 1.0

    env.rollout(counting(2), ScriptedPolicy([ToolCall("fail"), ADD]))
    (rollout,) = seen
    assert rollout.episode is None
    assert rollout.trace.stop_reason == "terminated"
    assert [step.action["name"] for step in rollout.trace.steps] == ["fail", "add"]
    failed = rollout.trace.steps[0]
    assert failed.tool_calls[0]["error"]["type"] == "ValueError"
    assert (failed.tool_error["type"], failed.result, failed.error) == ("ValueError", None, None)
    assert rollout.trace.steps[-1].snapshot == {"count": 2, "seed": 7}
