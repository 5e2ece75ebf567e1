from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

from envbench import Forbid, connect, evaluate, find_violations
from envbench.comparison import Episodes, compare
from envbench.environments import ScriptedPolicy, SubprocessRuntime, ToolCall
from envbench.environments.examples import refund_desk, stockroom
from envbench.environments.examples.scripted import RUNS, run_all
from envbench.store import Store

REWARDS = {
    ("refund-desk", "1.0.0", "careful"): [1.0, 1.0, 1.0, 1.0],
    ("refund-desk", "1.0.0", "hasty"): [0.0, 0.0, 0.0, 0.0],
    ("refund-desk", "2.0.0", "careful"): [1.0, 1.0, 1.0, 1.0],
    # the second payment for the lost parcel is refused, and so are both on somebody else's order
    ("refund-desk", "2.0.0", "hasty"): [0.0, 0.9, 0.0, 0.8],
    ("stockroom", "1.0.0", "orderly"): [1.0, 1.0],
    ("stockroom", "1.0.0", "impatient"): [0.0, 0.0],
    ("stockroom", "2.0.0", "orderly"): [1.0, 1.0],
    ("stockroom", "2.0.0", "impatient"): [1.0, 1.0],
}


@pytest.fixture(scope="module")
def played() -> Iterator[tuple[Store, dict[Any, Any]]]:
    """The store with every scripted run, and the rollouts."""
    with connect(":memory:") as store:
        yield store, run_all(store)


def test_every_scripted_run_earns_what_it_should(played):
    _, rollouts = played
    assert {key: [r.reward for r in found] for key, found in rollouts.items()} == REWARDS
    issues = [r.episode.coverage_issues for found in rollouts.values() for r in found]
    assert issues == [[]] * 24


def test_all_runs_are_in_one_store_whose_digests_hold(played):
    store, _ = played
    assert store.verify().ok
    assert store.sql(
        "SELECT environment_id, environment_version, count(*) FROM episodes"
        " GROUP BY ALL ORDER BY ALL"
    ).fetchall() == [
        ("refund-desk", "1.0.0", 8),
        ("refund-desk", "2.0.0", 8),
        ("stockroom", "1.0.0", 4),
        ("stockroom", "2.0.0", 4),
    ]
    assert store.sql("SELECT count(DISTINCT environment_fingerprint) FROM episodes").fetchall() == [
        (4,)
    ]


def sides(environment: str, agent: str) -> list[Episodes]:
    return [
        Episodes(environment_id=environment, environment_version=version, agent_id=agent)
        for version in ("1.0.0", "2.0.0")
    ]


def test_the_versions_of_the_refund_desk_are_compared_on_the_evidence(played):
    store, _ = played
    comparison = compare(
        *sides("refund-desk", "hasty"), store=store, checks=list(refund_desk.CHECKS)
    )
    assert (comparison.comparable, len(comparison.pairs)) == (True, 4)
    within, own = comparison.checks
    assert (within.name, within.broke, set(within.fixed)) == (
        "within_charges",
        (),
        {"lost-parcel", "somebody-elses"},
    )
    assert (own.broke, own.fixed) == ((), ("somebody-elses",))


def test_the_versions_of_the_stockroom_are_compared_on_the_evidence(played):
    store, _ = played
    comparison = compare(
        *sides("stockroom", "impatient"), store=store, checks=list(stockroom.CHECKS)
    )
    assert comparison.comparable
    once, never = comparison.checks
    assert set(once.fixed) == {"three-lamps", "one-shade"}
    assert set(never.fixed) == {"three-lamps", "one-shade"}
    careful = compare(*sides("stockroom", "orderly"), store=store, checks=list(stockroom.CHECKS))
    assert [check.fixed for check in careful.checks] == [(), ()]


def test_one_report_holds_checks_of_both_agents(played):
    store, _ = played
    episodes = store.episodes("environment_id = 'stockroom' AND environment_version = '1.0.0'")
    report = evaluate(episodes, list(stockroom.CHECKS))
    assert sum(bool(result.passed) for result in report.results) == 4
    assert len(report.results) == 8


def test_nested_typed_and_asynchronous_tools_are_recorded(played):
    _, rollouts = played
    rollout = rollouts["refund-desk", "2.0.0", "careful"][0]
    asked, paid, _ = rollout.trace.steps
    (record,) = asked.tool_calls
    assert (record["name"], record["result"]) == ("ask_carrier", "delivered")
    assert record["children"][0]["result"] == {
        "order_id": "o-17",
        "customer": "Ada",
        "charges": [1250, 1250],
        "parcel": "delivered",
    }
    assert paid.tool_calls[0]["result"]["reason"] == "duplicate_charge"
    assert paid.observation.render() == (
        "Ticket of Ada (open): You charged me twice for o-17.\n"
        "Orders looked up:\n- o-17: charged [1250, 1250] cents\n"
        "Paid back:\n- o-17: 1250 cents back"
    )


def test_step_rewards_and_end_rewards_of_the_refund_desk(played):
    _, rollouts = played
    outcome = rollouts["refund-desk", "2.0.0", "hasty"][1].trace.outcome
    assert (outcome.step_reward, outcome.end_reward, outcome.reward) == (-0.1, 1.0, 0.9)
    assert outcome.metrics["tool_errors"] == 1.0


def test_rules_and_audit_work_on_the_database_behind_the_tools():
    script = [
        ToolCall("reserve", {"item_id": "lamp", "quantity": 1, "reference": "x"}),
        ToolCall("release", {"reservation_id": 1}),
        "never mind",
    ]
    env = stockroom.StockroomV2()
    episode = env.rollout(stockroom.TASKS[0], ScriptedPolicy(script)).episode
    env.close()
    (finding,) = find_violations(episode, [Forbid("/items/**")]).findings
    assert (finding.kind, finding.path, finding.step, finding.restored_at) == (
        "restored",
        '/items/item_id="lamp"/on_hand',
        1,
        2,
    )
    assert [(event["step"], event["table"], event["op"]) for event in episode.data["audit"]] == [
        (1, "items", "update"),
        (1, "reservations", "insert"),
        (2, "reservations", "delete"),
        (2, "items", "update"),
    ]


def test_a_refused_transaction_leaves_the_database_as_it_was():
    env = stockroom.StockroomV2()
    script = [
        ToolCall("reserve", {"item_id": "lamp", "quantity": 9, "reference": "x"}),
        ToolCall("ship", {"reservation_ids": [7]}),
        ToolCall("release", {"reservation_id": 7}),
        ToolCall("find_items", {"words": "lamp"}),
        "no",
    ]
    rollout = env.rollout(stockroom.TASKS[0], ScriptedPolicy(script))
    env.close()
    messages = [
        step.tool_calls[0].get("error", {}).get("message") for step in rollout.trace.steps[:4]
    ]
    assert messages == [
        "9 pieces of lamp were asked for, 5 are on hand",
        "there is no reservation 7",
        "there is no reservation 7",
        None,
    ]
    assert rollout.trace.steps[3].tool_calls[0]["result"] == [
        {"item_id": "lamp", "title": "Desk lamp", "on_hand": 5}
    ]
    assert rollout.episode.changes() == []


@pytest.mark.parametrize(
    ("environment", "tasks"),
    [
        (refund_desk.RefundDeskV1, refund_desk.TASKS),
        (refund_desk.RefundDeskV2, refund_desk.TASKS),
        (stockroom.StockroomV1, stockroom.TASKS),
        (stockroom.StockroomV2, stockroom.TASKS),
    ],
)
def test_both_pass_gymnasium_s_check(environment, tasks):
    gymnasium.register("ExampleForTests-v0", lambda **kwargs: environment(task=tasks, **kwargs))
    try:
        env = gymnasium.make("ExampleForTests-v0").unwrapped
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            check_env(env)
        env.close()
    finally:
        del gymnasium.registry["ExampleForTests-v0"]


def test_closing_the_stockroom_deletes_its_database():
    env = stockroom.StockroomV1(task=stockroom.TASKS[0])
    env.reset()
    first = Path(env.state.path)
    env.reset()
    second = Path(env.state.path)
    assert (first.exists(), second.exists()) == (False, True)
    env.close()
    env.close()
    assert not second.parent.exists()


@pytest.mark.slow
def test_the_stockroom_works_with_its_tools_in_another_process():
    env = stockroom.StockroomV2(runtime=SubprocessRuntime(timeout=60))
    rollout = env.rollout(stockroom.TASKS[0], stockroom.impatient(stockroom.TASKS[0]))
    env.close()
    assert (rollout.reward, rollout.stop_reason) == (1.0, "terminated")
    here = stockroom.StockroomV2()
    same = here.rollout(stockroom.TASKS[0], stockroom.impatient(stockroom.TASKS[0]))
    here.close()
    assert [step.info for step in same.trace.steps] == [step.info for step in rollout.trace.steps]


def test_the_runs_name_their_policies():
    assert [(run[1].name, run[1].version, run[2].__name__) for run in RUNS] == list(REWARDS)
