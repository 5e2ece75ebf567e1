"""The views, over rows written by hand."""

import pytest

from envbench.store import connect

EPISODE = {
    "case_id": "case",
    "case_digest": "d",
    "environment_id": "env",
    "environment_key": "k",
    "repeat": 0,
    "labels": "{}",
    "ending": "terminated",
    "terminated": True,
    "truncated": False,
    "n_steps": 0,
    "recorded_at": "2026-01-01",
    "duration_ms": 1.0,
    "errors": "[]",
    "issues": "[]",
    "cleanup": "{}",
    "audited": False,
    "extra": "{}",
    "digest": "d",
    "trajectory_digest": "t",
}


def insert(store, table, **values):
    with store.cursor() as cursor:
        names = ", ".join(f'"{name}"' for name in values)
        marks = ", ".join("?" for _ in values)
        cursor.execute(
            f"INSERT INTO {table} ({names}) VALUES ({marks})", list(values.values())
        ).fetchall()


def seal(store, episode_id, **values):
    insert(store, "episodes", episode_id=episode_id, **{**EPISODE, **values})


@pytest.fixture
def store():
    with connect(":memory:") as store:
        yield store


def step(store, episode_id, index, action, **returned):
    insert(store, "steps", episode_id=episode_id, step_index=index, action=action, **returned)


def took(observation, reward=0.0, *, terminated=False):
    return {
        "observation": observation,
        "reward": reward,
        "terminated": terminated,
        "truncated": False,
        "info": "{}",
    }


def test_transitions_chain_observations(store):
    seal(store, "a", initial_observation="[0]")
    step(store, "a", 1, "7", **took("[1]", 0.5))
    step(store, "a", 2, "8", **took("[2]", 1.5, terminated=True))
    seal(store, "b", initial_observation="[9]")
    step(store, "b", 1, "3", **took("[10]"))
    assert store.transitions().fetchall() == [
        ("a", 1, "[0]", "7", 0.5, "[1]", False, False, "{}"),
        ("a", 2, "[1]", "8", 1.5, "[2]", True, False, "{}"),
        ("b", 1, "[9]", "3", 0.0, "[10]", False, False, "{}"),
    ]
    assert store.transitions().columns == [
        "episode_id",
        "step_index",
        "observation",
        "action",
        "reward",
        "next_observation",
        "terminated",
        "truncated",
        "info",
    ]


def test_a_step_that_the_environment_did_not_take_is_no_transition(store):
    """Refused at 2, raised at 3: the agent then still acts on what step 1 gave it."""
    seal(store, "a", initial_observation="[0]")
    step(store, "a", 1, "1", **took("[1]"))
    step(store, "a", 2, None, error='{"phase":"action"}')
    step(store, "a", 3, "3", error='{"phase":"step"}')
    step(store, "a", 4, "4", **took("[4]"))
    rows = store.sql(
        "SELECT step_index, observation, next_observation FROM transitions ORDER BY step_index"
    ).fetchall()
    assert rows == [(1, "[0]", "[1]"), (4, "[1]", "[4]")]


def test_a_step_with_a_bad_reward_and_info_is_still_a_transition(store):
    seal(store, "a", initial_observation="[0]")
    step(store, "a", 1, "1", observation="[1]", info="null")
    assert store.transitions().fetchall() == [("a", 1, "[0]", "1", None, "[1]", None, None, "null")]


def test_only_sealed_episodes_are_shown(store):
    step(store, "open", 1, "1", **took("[1]"))
    insert(
        store,
        "state_changes",
        episode_id="open",
        step_index=1,
        since=0,
        path="/a",
        op="edit",
        restored_at=2,
    )
    insert(
        store,
        "reports",
        report_id="r",
        name="n",
        created_at="2026-01-01",
        checks="[]",
        lock="{}",
        episodes="[]",
        digest="d",
    )
    insert(
        store,
        "check_results",
        report_id="r",
        episode_id="open",
        case_id="case",
        check_name="c",
        check_version="1",
    )
    insert(store, "states", episode_id="open", state_hash="h", first_step=0, body="1")
    for view in (
        "steps_full",
        "transitions",
        "restorations",
        "latest_results",
        "initial_states",
        "final_states",
    ):
        assert store.frame(view).fetchall() == [], view


def test_steps_full_has_the_state_and_what_the_step_belongs_to(store):
    seal(store, "a", agent_id="gpt", seed=3, environment_version="2")
    seal(store, "b")
    insert(store, "states", episode_id="a", state_hash="h", first_step=1, body='{"n":1}')
    insert(store, "states", episode_id="b", state_hash="h", first_step=1, body='{"n":2}')
    step(store, "a", 1, "1", state_hash="h", **took("[1]"))
    step(store, "a", 2, "1", **took("[1]"))
    rows = store.sql(
        "SELECT step_index, state, state_hash, case_id, agent_id, seed, environment_version "
        "FROM steps_full WHERE episode_id = 'a' ORDER BY step_index"
    ).fetchall()
    assert rows == [
        (1, '{"n":1}', "h", "case", "gpt", 3, "2"),
        (2, None, None, "case", "gpt", 3, "2"),
    ]


def test_restorations_are_the_changes_that_were_put_back(store):
    seal(store, "a")
    change = {"episode_id": "a", "since": 0, "op": "edit", "before": "1", "after": "2"}
    insert(store, "state_changes", **change, step_index=1, path="/kept")
    insert(
        store,
        "state_changes",
        **change,
        step_index=1,
        path="/back",
        restored_at=4,
        restored_after=3,
        to_initial=True,
    )
    assert store.frame("restorations").fetchall() == [
        ("a", 1, 0, "/back", "edit", "1", "2", 4, 3, True)
    ]


def report(store, report_id, created_at, *results):
    insert(
        store,
        "reports",
        report_id=report_id,
        name="n",
        created_at=created_at,
        checks="[]",
        lock="{}",
        episodes="[]",
        digest="d",
    )
    for episode_id, check, passed in results:
        insert(
            store,
            "check_results",
            report_id=report_id,
            episode_id=episode_id,
            case_id="case",
            check_name=check,
            check_version="1",
            passed=passed,
        )


def test_latest_results_are_those_of_the_last_report_that_has_the_check(store):
    seal(store, "a")
    seal(store, "b")
    report(store, "r2", "2026-01-02", ("a", "paid", False), ("b", "paid", None))
    report(store, "r1", "2026-01-01", ("a", "paid", True), ("a", "polite", True))
    report(store, "r3", "2026-01-03", ("b", "paid", True))
    rows = store.sql(
        "SELECT episode_id, check_name, report_id, passed FROM latest_results ORDER BY 1, 2"
    ).fetchall()
    assert rows == [
        ("a", "paid", "r2", False),
        ("a", "polite", "r1", True),
        ("b", "paid", "r3", True),
    ]


def test_initial_and_final_states_have_a_row_for_every_episode(store):
    seal(store, "a", initial_state_hash="0", final_state_hash="9", final_state='{"n":9}')
    seal(store, "b")
    insert(store, "states", episode_id="a", state_hash="0", first_step=0, body='{"n":0}')
    insert(store, "states", episode_id="a", state_hash="9", first_step=4, body='{"n":9}')
    assert store.frame("initial_states").fetchall() == [("a", '{"n":0}'), ("b", None)]
    assert store.frame("final_states").fetchall() == [("a", '{"n":9}'), ("b", None)]
    assert store.sql(
        "SELECT episode_id, CAST(state->'$.n' AS INTEGER) = 9 AS passed FROM final_states"
    ).fetchall() == [("a", True), ("b", None)]
