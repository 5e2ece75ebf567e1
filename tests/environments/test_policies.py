from __future__ import annotations

import asyncio
from typing import Any

import pytest

from envbench.environments import CallablePolicy, Policy, ScriptedPolicy, ToolCall
from envbench.environments.policies import (
    ScriptExhausted,
    agent_id_of,
    call_with,
    code_identity,
    identity_of,
    policy_of,
)
from tests.environments.worlds import ADD, Counter, counting


def rules(observation: Any) -> ToolCall | None:
    return ToolCall("add") if observation.count < 2 else None


class Trained:
    """The least that a policy has to be."""

    def __init__(self, by: int) -> None:
        self.by = by

    def act(self, observation: Any) -> ToolCall:
        return ToolCall("add", {"by": self.by})


class Full:
    """Everything that a policy may be."""

    agent_id = "full-v2"

    def __init__(self) -> None:
        self.told: list[Any] = []

    def identity(self) -> Any:
        return {"temperature": 0}

    def start(self, *, tools: Any, seed: int) -> None:
        self.told.append(("start", [each.name for each in tools], seed))

    async def act(self, observation: Any, *, tools: Any, info: Any) -> Any:
        await asyncio.sleep(0)
        self.told.append(("act", observation.count, [*info]))
        return ADD

    def finish(self, *, info: Any, stop_reason: str) -> None:
        self.told.append(("finish", info["tool_calls"][0]["result"], stop_reason))

    def record(self) -> Any:
        return {"usage": {"tokens": 17}, "latency_ms": [3.5]}

    def remarks(self) -> Any:
        return iter(["note: all went well", "policy: one answer was cut"])


def test_a_script_is_taken_action_by_action():
    env = Counter()
    script = ScriptedPolicy([ADD, {"name": "add", "arguments": {"by": 2}}])
    rollout = env.rollout(counting(), script)
    assert [step.action["arguments"] for step in rollout.trace.steps] == [{}, {"by": 2}]
    assert (rollout.stop_reason, rollout.episode.data["issues"]) == ("terminated", [])
    again = env.rollout(counting(), script)  # it begins anew
    assert again.episode.trajectory_digest == rollout.episode.trajectory_digest


def test_a_script_that_is_used_up_is_a_failure_and_says_so():
    rollout = Counter().rollout(counting(), ScriptedPolicy([ADD]))
    assert (rollout.stop_reason, rollout.reward, rollout.failed) == ("failure", None, True)
    (error,) = rollout.episode.errors
    assert (error["phase"], error["type"]) == ("interaction", "ScriptExhausted")
    assert error["message"] == "the script of 1 action is used up, and the episode has not ended"
    with pytest.raises(ScriptExhausted):
        Counter().rollout(counting(), ScriptedPolicy([]), raise_errors=True)


def test_actions_left_over_are_said():
    script = ScriptedPolicy([ADD, ADD, "bye"])
    rollout = Counter().rollout(counting(1), script)
    assert rollout.stop_reason == "terminated"
    assert script.remaining == (ADD, "bye")
    assert rollout.episode.data["issues"] == [
        "note: 2 of 3 scripted actions left over when the episode ended"
    ]
    assert rollout.episode.coverage_issues == []


@pytest.mark.parametrize(
    ("actions", "error", "message"),
    [
        ("add", TypeError, "actions must be a list of actions, not str"),
        (ToolCall("add"), TypeError, "not ToolCall"),
        ({"name": "add", "arguments": {}}, TypeError, "not dict"),
        (3, TypeError, "not int"),
        ([ADD, 3], ValueError, r"actions\[1\]: an action is a ToolCall"),
        ([{"name": "add"}], ValueError, r"actions\[0\]: a tool call as a dict has the keys"),
    ],
)
def test_a_script_of_what_is_no_action_is_refused(actions, error, message):
    with pytest.raises(error, match=message):
        ScriptedPolicy(actions)


def test_a_function_is_asked_for_each_action():
    rollout = Counter().rollout(counting(2), CallablePolicy(rules))
    assert rollout.stop_reason == "terminated"
    assert rollout.episode.data["provenance"]["agent_id"] == "rules"
    stopped = Counter().rollout(counting(9), CallablePolicy(rules, agent_id="rules-v2"))
    assert stopped.stop_reason == "policy_stop"
    assert stopped.trace.steps[-1].action == ""  # None is an answer without text
    assert stopped.episode.output == ""
    assert stopped.episode.data["provenance"]["agent_id"] == "rules-v2"


def test_a_function_gets_tools_and_info_when_it_asks_for_them():
    seen: list[Any] = []

    def ask(observation: Any, *, info: Any, tools: Any) -> Any:
        seen.append((tools[0].name, info.get("tool_calls")))
        return ADD

    Counter().rollout(counting(2), CallablePolicy(ask))
    assert seen == [
        ("add", None),
        ("add", [{"name": "add", "arguments": {}, "result": 1, "children": []}]),
    ]

    async def later(observation: Any) -> Any:
        return ADD

    env = Counter()
    assert env.rollout(counting(2), CallablePolicy(later)).stop_reason == "terminated"
    env.close()


def test_any_object_with_act_is_a_policy():
    rollout = Counter().rollout(counting(4), Trained(2))
    assert len(rollout.trace.steps) == 2
    assert rollout.episode.data["provenance"]["agent_id"] == "Trained"
    assert isinstance(Trained(1), Policy)


def test_what_else_a_policy_may_have_is_used():
    policy, env = Full(), Counter()
    rollout = env.rollout(counting(2), policy)
    env.close()
    assert policy.told == [
        ("start", ["add", "fail"], 7),
        ("act", 0, ["task_id"]),
        ("act", 1, ["tool_calls"]),
        ("finish", 2, "terminated"),
    ]
    provenance = rollout.episode.data["provenance"]
    assert provenance["agent_id"] == "full-v2"
    assert provenance["labels"]["policy"] == {"usage": {"tokens": 17}, "latency_ms": [3.5]}
    assert provenance["labels"]["policy_identity"] == {"temperature": 0}
    assert rollout.episode.data["issues"] == ["note: all went well", "policy: one answer was cut"]
    assert rollout.episode.coverage_issues == ["policy: one answer was cut"]


def test_what_a_policy_says_of_itself_is_outside_the_trajectory():
    class Timed(Trained):
        def record(self) -> Any:
            return {"latency": id(self)}

    one, two = (Counter().rollout(counting(2), Timed(1)).episode for _ in range(2))
    assert one.trajectory_digest == two.trajectory_digest
    assert one.digest != two.digest


@pytest.mark.parametrize("member", ["record", "remarks", "identity", "finish"])
def test_a_policy_that_fails_to_say_something_costs_only_that(member):
    def fail(self: Any, **kwargs: Any) -> Any:
        raise OSError("no")

    policy = type("Odd", (Trained,), {member: fail})(1)
    rollout = Counter().rollout(counting(1), policy)
    assert rollout.stop_reason == "terminated"
    assert rollout.episode.data["issues"] == [f"policy: {member}() came to nothing: OSError: no"]


def test_what_a_policy_says_must_be_portable():
    class Odd(Trained):
        def record(self) -> Any:
            return {"client": object()}

    rollout = Counter().rollout(counting(1), Odd(1))
    (issue,) = rollout.episode.data["issues"]
    assert issue.endswith("ValueError: /client: builtins.object is not portable JSON")


@pytest.mark.parametrize("action", [3, ["add"], {"name": "add"}, object()])
def test_what_is_no_action_is_refused_and_the_failure_of_the_policy(action):
    rollout = Counter().rollout(counting(), CallablePolicy(lambda observation: action))
    assert rollout.stop_reason == "failure"
    (step,) = rollout.trace.steps
    assert (step.action, step.error["phase"], step.error["type"]) == (
        None,
        "action",
        "InvalidAction",
    )


def test_a_policy_that_raises_is_the_failure_of_the_rollout():
    def lose(observation: Any) -> Any:
        if observation.count:
            raise ConnectionError("endpoint gone")
        return ADD

    rollout = Counter().rollout(counting(), CallablePolicy(lose))
    assert (rollout.stop_reason, rollout.reward, len(rollout.trace.steps)) == ("failure", None, 1)
    assert rollout.episode.ending == "error"
    assert (
        rollout.episode.coverage_issues[0]
        == "interaction at step 1: ConnectionError: endpoint gone"
    )
    with pytest.raises(ConnectionError, match="endpoint gone"):
        Counter().rollout(counting(), CallablePolicy(lose), raise_errors=True)


class Client:
    """What makes a policy for a model."""

    def policy(self, *, model: str) -> Any:
        return None if model == "none" else CallablePolicy(rules, agent_id=model)


def test_a_client_makes_the_policy_for_a_model():
    rollout = Counter().rollout(counting(2), Client(), model="vendor/model-1")
    assert rollout.episode.data["provenance"]["agent_id"] == "vendor/model-1"


@pytest.mark.parametrize(
    ("given", "model", "message"),
    [
        (Client(), None, "a Client needs model="),
        (Client(), "none", r"Client.policy\(\) returned no policy"),
        (Trained(1), "m", "model= goes with a client: a policy has its model already"),
        (rules, "m", "model= goes with a client, not with an interact function"),
        (Trained, None, "policy is the class Trained: make one first"),
        (3, None, "policy must have act"),
    ],
)
def test_what_is_no_policy_is_refused(given, model, message):
    with pytest.raises(TypeError, match=message):
        policy_of(given, model)


def test_functions_get_the_named_arguments_that_they_take():
    assert call_with(lambda a: a, 1, b=2) == 1
    assert call_with(lambda a, b: (a, b), 1, b=2, c=3) == (1, 2)
    assert call_with(lambda a, **rest: rest, 1, b=2, c=3) == {"b": 2, "c": 3}
    assert call_with(max, 1, 2, b=3) == 2


def test_names_of_agents():
    assert agent_id_of(ScriptedPolicy([])) == "scripted"
    assert agent_id_of(rules) == "rules"
    assert agent_id_of(Trained(1)) == "Trained"
    with pytest.raises(ValueError, match="agent_id must not be blank"):
        ScriptedPolicy([], agent_id=" ")


def test_identities_tell_policies_of_one_name_apart():
    def make(limit: int) -> Any:
        return lambda observation: ADD if observation.count < limit else "done"

    assert identity_of(ScriptedPolicy([ADD])) == identity_of(ScriptedPolicy([ToolCall("add")]))
    assert identity_of(ScriptedPolicy([ADD])) != identity_of(ScriptedPolicy([ADD, ADD]))
    assert code_identity(make(1)) == code_identity(make(1))
    assert code_identity(make(1)) != code_identity(make(2))
    assert identity_of(CallablePolicy(rules)) == code_identity(rules)
    assert identity_of(Trained(1)) == identity_of(Trained(1))
    assert identity_of(Trained(1)) != identity_of(Trained(2))
