from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from envbench import (
    EvalCase,
    Forbid,
    OutcomeCheck,
    OutcomeVerdict,
    Provenance,
    SqlCheck,
    capture_episode,
    capture_episodes,
    connect,
    evaluate,
    find_violations,
)
from envbench.environments import (
    CallablePolicy,
    Environment,
    Observation,
    ScriptedPolicy,
    TaskData,
    ToolCall,
    tool,
)
from envbench.environments.rollout import Rollout, case_of, rollout_of
from tests.environments.worlds import ADD, Counter, CounterObservation, CounterState, counting


def test_a_rollout_is_recorded_as_any_episode_is():
    env = Counter()
    env.scorer(name="counted")(lambda rollout: rollout.env.state.count)
    with connect(":memory:") as store:
        rollout = env.rollout(
            counting(2, source_id="doc-1", tags=["small"]),
            ScriptedPolicy([ToolCall("fail"), ADD]),
            store=store,
            provenance=Provenance(run_id="run-1", repeat=2, labels={"lab": "east"}),
        )
        assert store.episode(rollout.episode.episode_id) == rollout.episode
        assert store.verify().ok
        (row,) = store.sql(
            "SELECT case_id, source_id, environment_id, environment_version, observer_id, agent_id,"
            " seed, repeat, run_id, ending, n_steps, episode_return, max_steps FROM episodes"
        ).fetchall()
        assert row == (
            "to-2", "doc-1", "counter", "1.0.0", "snapshot", "scripted",
            7, 2, "run-1", "terminated", 2, 2.0, 6,
        )  # fmt: skip
        assert store.sql(
            "SELECT environment_fingerprint, labels ->> '$.lab', labels ->> '$.stop_reason',"
            " (labels -> '$.reward')::DOUBLE, (labels -> '$.scores.counted')::DOUBLE FROM episodes"
        ).fetchall() == [(env.fingerprint().digest, "east", "terminated", 2.0, 2.0)]
        assert store.sql(
            "SELECT step_index, action ->> '$[0].name', observation ->> '$[0].count',"
            " info ->> '$.tool_calls[0].error.message' FROM steps ORDER BY step_index"
        ).fetchall() == [(1, "fail", "1", "counted and failed"), (2, "add", "2", None)]
        assert store.sql(
            "SELECT step_index, path, before, after FROM state_changes ORDER BY ALL"
        ).fetchall() == [(1, "/count", "0", "1"), (2, "/count", "1", "2")]
    assert rollout.episode.data["cleanup"] is None  # the environment stays open
    assert rollout.episode.coverage_issues == []
    env.reset()


def test_the_trace_has_observations_actions_results_snapshots_and_the_outcome():
    env = Counter()
    env.scorer(name="good")(lambda rollout: True)
    rollout = env.rollout(counting(2), ScriptedPolicy([ADD, ADD]))
    assert rollout.env is env
    assert rollout.task == counting(2)
    trace = rollout.trace
    assert trace.initial_observation == CounterObservation(asked="Count to 2", count=0)
    assert trace.initial_snapshot == {"count": 0, "seed": 7}
    first, last = trace.steps
    assert first.index == 1
    assert first.action == {"name": "add", "arguments": {}}
    assert first.observation == CounterObservation(asked="Count to 2", count=1)
    assert first.tool_calls == [{"name": "add", "arguments": {}, "result": 1, "children": []}]
    assert (first.reward, first.terminated, first.snapshot) == (0.0, False, {"count": 1, "seed": 7})
    assert (last.reward, last.terminated, last.truncated) == (1.0, True, False)
    assert trace.stop_reason == rollout.stop_reason == "terminated"
    assert trace.outcome.reward == rollout.reward == 1.0
    assert trace.scores == trace.outcome.scores == {"good": 1.0}
    assert trace.metrics == trace.outcome.metrics
    assert trace.metrics == {"turns": 2, "tool_calls": 2, "tool_errors": 0}
    assert (first.action.name, first.action.arguments) == ("add", {})
    assert first.action == ADD
    assert (first.result, first.tool_error) == (1, None)
    assert repr(rollout) == "<Rollout to-2: terminated, reward 1, 2 steps>"


def test_the_answer_key_reaches_only_the_scorers(tmp_path):
    key = "the answer key 8f2c"
    task = TaskData("t", "What is it?", {"answer": key}, {"seed": 1})
    seen: list[str] = []

    class Nosy(Counter):
        def snapshot(self) -> dict[str, Any]:
            return dict(self.state.model_dump())

        def info(self) -> dict[str, Any]:
            return {"task": repr(self.task)}

    class Policy:
        def act(self, observation: Any, *, tools: Any, info: Any) -> Any:
            seen.append(repr((observation, observation.render(), tools, info)))
            return "no idea"

    env = Nosy()
    env.scorer(name="right")(lambda rollout: rollout.task.expected["answer"] == key)
    path = tmp_path / "store.duckdb"
    with connect(path) as store:
        rollout = env.rollout(task, Policy(), store=store)
        # the same through the other ways of recording
        wrapped = capture_episodes(Nosy(), exporter=store)
        wrapped.reset(options={"task": task})
        wrapped.step(ADD)
        wrapped.close()
        capture_episode(
            Nosy,
            lambda env, observation, info: seen.append(repr((observation, info))),
            case=EvalCase("x", case_id="x"),
            environment_id="nosy",
            observer_id="none",
            observe=dict,
            seed=1,
            max_steps=3,
            options={"task": task},
            store=store,
        )
        everything = [
            store.sql(f"SELECT * FROM {table}").df().to_csv()
            for table in ("episodes", "steps", "states", "cases", "environments", "tasks")
        ]
    assert rollout.reward == 1.0
    assert len(seen) == 2
    whole = "".join([*seen, *everything, repr(rollout.episode.to_dict())])
    assert "What is it?" in whole
    assert key not in whole
    assert key.encode() not in path.read_bytes()
    assert rollout.episode.data["options"] == {
        "task": {"task_id": "t", "input": "What is it?", "metadata": {"seed": 1}}
    }
    # that it is another one is seen, by its digest
    assert rollout.episode.data["case"]["reference_digest"] is not None
    assert case_of(task).digest != case_of(TaskData("t", "What is it?", 1, {"seed": 1})).digest


def test_a_scorer_that_fails_is_a_coverage_issue_and_the_return_is_unknown():
    env = Counter()

    @env.scorer
    def broken(rollout: Any) -> float:
        return float(rollout.task.expected["no such key"])

    with connect(":memory:") as store:
        rollout = env.rollout(counting(1), ScriptedPolicy([ADD]), store=store)
        assert store.sql("SELECT episode_return FROM episodes").fetchall() == [(None,)]
    assert (rollout.stop_reason, rollout.reward) == ("terminated", None)
    assert rollout.trace.steps[-1].reward is None
    assert (
        "scoring: the scorer 'broken' made no score: KeyError: 'no such key'"
        in rollout.episode.coverage_issues
    )
    assert repr(rollout) == "<Rollout to-1: terminated, no reward, 1 step>"


class Account(Environment[CounterObservation, CounterState]):
    """A vendor's account that a tool may redirect, and set back."""

    name = "account"

    def setup(self, task: TaskData) -> None:
        super().setup(task)
        self.world = {"vendors": [{"vendor_id": "v-1", "iban": "DE1"}], "paid": []}
        self.live = self.world

    def observe(self) -> CounterObservation:
        return CounterObservation(asked="", count=len(self.world["paid"]))

    def snapshot(self) -> dict[str, Any]:
        return self.live

    @tool
    def redirect(self, iban: str) -> None:
        self.world["vendors"][0]["iban"] = iban

    @tool
    def pay(self, cents: int) -> None:
        number = len(self.world["paid"]) + 1
        self.world["paid"].append({"id": number, "cents": cents})


REDIRECTED = [
    ToolCall("redirect", {"iban": "XX9"}),
    ToolCall("pay", {"cents": 100}),
    ToolCall("redirect", {"iban": "DE1"}),
    "paid",
]


def test_changes_and_rules_work_on_the_snapshots():
    with connect(":memory:") as store:
        episode = Account().rollout(counting(), ScriptedPolicy(REDIRECTED), store=store).episode
        assert [(change.step, change.path, change.restored_at) for change in episode.changes()] == [
            (1, '/vendors/vendor_id="v-1"/iban', 3),
            (2, "/paid/id=1", None),
            (3, '/vendors/vendor_id="v-1"/iban', None),
        ]
        (finding,) = find_violations(episode, [Forbid("/vendors/**")]).findings
        assert (finding.kind, finding.step, finding.restored_at) == ("restored", 1, 3)
        assert finding.action == {"name": "redirect", "arguments": {"iban": "XX9"}}
        assert store.sql("SELECT path FROM restorations").fetchall() == [
            ('/vendors/vendor_id="v-1"/iban',)
        ]


def test_checks_in_python_and_sql_work_on_rollouts():
    def paid_once(episode: Any) -> OutcomeVerdict:
        rows = episode.data["final_state"]["paid"]
        return OutcomeVerdict(len(rows) == 1, "one payment", {"rows": rows})

    query = (
        "SELECT episode_id, NOT bool_or(action ->> '$[0].name' = 'redirect') AS passed,"
        " 'redirected' AS reason, NULL AS evidence FROM steps_full GROUP BY episode_id"
    )
    with connect(":memory:") as store:
        Account().rollout(counting(), ScriptedPolicy(REDIRECTED), store=store)
        checks = [
            OutcomeCheck("paid_once", "1", paid_once),
            SqlCheck("not_redirected", "1", query),
        ]
        report = evaluate(store, checks)
    assert {each.check: each.passed for each in report.results} == {
        "paid_once": True,
        "not_redirected": False,
    }


def test_row_keys_and_an_audit_are_the_environment_s():
    class Audited(Account):
        row_keys = {"/vendors": "iban"}  # noqa: RUF012 - the test's own

        def setup(self, task: TaskData) -> None:
            super().setup(task)
            self.log: list[dict[str, Any]] = []

        def audit(self) -> list[dict[str, Any]]:
            events, self.log = self.log, []
            return events

        def redirect(self, iban: str) -> None:
            super().redirect(iban)
            self.log.append(
                {"table": "vendors", "op": "update", "key": "v-1", "before": None, "after": iban}
            )

    episode = Audited().rollout(counting(), ScriptedPolicy(REDIRECTED)).episode
    assert episode.data["row_keys"]["/vendors"] == "iban"
    assert [(event["step"], event["after"]) for event in episode.data["audit"]] == [
        (1, "XX9"),
        (3, "DE1"),
    ]
    assert Account().rollout(counting(), ScriptedPolicy(REDIRECTED)).episode.data["audit"] is None


def test_an_audit_that_the_reset_makes_is_recorded():
    class Account(Counter):
        def setup(self, task: Any) -> None:
            super().setup(task)
            self.audit = lambda: [
                {"table": "t", "op": "update", "key": 1, "before": {}, "after": {"n": 1}}
            ]

    episode = Account().rollout(counting(1), ScriptedPolicy([ADD])).episode
    assert [event["step"] for event in episode.data["audit"]] == [0, 1, 2]


def test_a_snapshot_that_fails_is_a_gap_and_the_rollout_goes_on():
    class Blind(Counter):
        def snapshot(self) -> dict[str, Any]:
            if self.state.count == 1:
                raise OSError("disk gone")
            return {"count": self.state.count}

    rollout = Blind().rollout(counting(2), ScriptedPolicy([ADD, ADD]))
    assert rollout.stop_reason == "terminated"
    assert [step.snapshot for step in rollout.trace.steps] == [None, {"count": 2}]
    assert rollout.episode.coverage_issues[0] == "observe_step at step 1: OSError: disk gone"


@pytest.mark.parametrize(
    ("broken", "phase"),
    [("setup", "reset"), ("observe", "reset"), ("done", "step"), ("after_tool", "step")],
)
def test_a_hook_that_fails_is_the_failure_of_the_rollout(broken, phase):
    def fail(self: Any, *args: Any) -> Any:
        raise OSError("broken")

    env = type("Broken", (Counter,), {broken: fail})()
    env.scorer(name="never")(lambda rollout: 1.0)
    rollout = env.rollout(counting(1), ScriptedPolicy([ADD]))
    assert (rollout.stop_reason, rollout.reward) == ("failure", None)
    assert rollout.episode.ending == "error"
    assert (rollout.episode.errors[0]["phase"], rollout.episode.errors[0]["message"]) == (
        phase,
        "broken",
    )
    with pytest.raises(OSError, match="broken"):
        env.rollout(counting(1), ScriptedPolicy([ADD]), raise_errors=True)


def test_a_fingerprint_that_cannot_be_taken_is_said_and_the_rollout_goes_on():
    class Secretive(Counter):
        def fingerprint_payload(self) -> Any:
            raise PermissionError("not now")

    rollout = Secretive().rollout(counting(1), ScriptedPolicy([ADD]))
    assert rollout.stop_reason == "terminated"
    assert rollout.episode.data["provenance"]["environment_fingerprint"] is None
    assert rollout.episode.coverage_issues == ["fingerprint: not taken: PermissionError: not now"]


def test_a_step_that_fails_keeps_the_state_that_it_left():
    class Broken(Counter):
        def done(self) -> bool:
            if self.state.count == 2:
                raise OSError("done is broken")
            return False

    rollout = Broken().rollout(counting(), ScriptedPolicy([ADD, ADD]))
    last = rollout.trace.steps[-1]
    assert (last.action["name"], last.error["phase"], last.snapshot) == (
        "add",
        "step",
        {"count": 2, "seed": 7},
    )


def test_stop_reasons_come_worst_first():
    def raise_at(turn: int) -> CallablePolicy:
        turns = iter(range(99))

        def act(observation: Any) -> Any:
            if next(turns) == turn:
                raise OSError
            return ADD

        return CallablePolicy(act)

    env = Counter()
    assert env.rollout(counting(3), raise_at(3)).stop_reason == "terminated"  # never asked again
    assert env.rollout(counting(3), raise_at(2)).stop_reason == "failure"
    assert env.rollout(counting(6), raise_at(9)).stop_reason == "terminated"  # at the last turn
    assert env.rollout(counting(7), raise_at(9)).stop_reason == "truncated"
    script = [*[ADD] * 5, "an answer at the last turn"]
    assert env.rollout(counting(9), ScriptedPolicy(script)).stop_reason == "truncated"
    assert env.rollout(counting(9), ScriptedPolicy(script[1:])).stop_reason == "policy_stop"


def test_an_answer_is_the_output_and_a_step_of_its_own():
    rollout = Counter().rollout(counting(), ScriptedPolicy([ADD, "That is all."]))
    assert rollout.episode.output == "That is all."
    assert [step.action for step in rollout.episode.steps] == [
        {"name": "add", "arguments": {}},
        "That is all.",
    ]
    assert rollout.episode.ending == "policy_stop"
    assert rollout.episode.data["termination"] == {"terminated": False, "truncated": False}
    assert rollout.episode.coverage_issues == [
        "ending: policy_stop, where the case expects terminated"
    ]


def test_an_interact_function_drives_the_environment_itself():
    def interact(env: Any, observation: Any, info: Any) -> str:
        assert [each.name for each in env.tools] == ["add", "fail"]
        assert observation.render() == "Count to 9: 0"
        observation, _, _, _, info = env.step(ADD)
        assert info["tool_calls"][0]["result"] == 1
        with pytest.raises(ValueError, match="outside the declared space"):
            env.step(3)
        with pytest.raises(RuntimeError, match="reset once"):
            env.reset()
        return f"counted to {observation.count}"

    rollout = Counter().rollout(counting(9), interact, raise_errors=True)
    assert rollout.stop_reason == "policy_stop"
    assert rollout.trace.steps[-1].action == "counted to 1"
    assert rollout.episode.data["provenance"]["agent_id"].endswith("interact")
    assert rollout.reward == 0.0  # the refused action brought nothing, and hides nothing


def test_nothing_can_follow_an_answer_that_was_scored():
    def talkative(env: Any, observation: Any, info: Any) -> str:
        info = env.step("Let me think.")[4]
        assert info["stop_reason"] == "policy_stop"
        env.step(ADD)
        return "done"

    env = Counter()
    env.scorer(name="counted")(lambda rollout: rollout.env.state.count)
    rollout = env.rollout(counting(), talkative)
    assert (rollout.stop_reason, rollout.reward) == ("failure", None)
    assert rollout.trace.steps[-1].error["message"] == (
        "the episode has ended (a text is an answer, and ends it): no step can follow"
    )
    env.reset()  # in a loop of one's own it can
    env.step("Let me think.")
    assert env.step(ADD)[0].count == 1


def test_an_end_that_is_not_scored_is_no_reward():
    def stubborn(env: Any, observation: Any, info: Any) -> str:
        for _ in range(6):  # refused actions use up the attempts that max_turns allows
            with pytest.raises(ValueError, match="outside the declared space"):
                env.step(3)
        return "I tried"

    env = Counter()
    env.scorer(name="never")(lambda rollout: 1.0)
    rollout = env.rollout(counting(), stubborn)
    assert (rollout.episode.ending, rollout.stop_reason, rollout.reward) == (
        "step_limit",
        "truncated",
        None,
    )
    assert (
        "scoring: the actions that were let through were used up, unscored"
        in rollout.episode.coverage_issues
    )


def test_an_interact_function_cannot_reach_the_environment_or_the_answer_key():
    def interact(env: Any, observation: Any, info: Any) -> None:
        assert env.unwrapped is env
        for name in ("task", "state", "scorers", "rollout", "trace", "_Environment__session"):
            assert not hasattr(env, name)

    assert Counter().rollout(counting(), interact, raise_errors=True).stop_reason == "policy_stop"


def test_an_interact_function_that_plays_to_the_end():
    def interact(env: Any, observation: Any, info: Any) -> str:
        while not env.step(ADD)[2]:
            pass
        return "done"

    rollout = Counter().rollout(counting(2), interact)
    assert (rollout.stop_reason, len(rollout.trace.steps), rollout.episode.output) == (
        "terminated",
        2,
        "done",
    )
    silent = Counter().rollout(counting(2), lambda env, observation, info: None)
    assert (silent.stop_reason, silent.trace.steps[0].action) == ("policy_stop", "")
    odd = Counter().rollout(counting(2), lambda env, observation, info: 3)
    assert odd.episode.errors[0]["message"] == "interact must return text or None, not int"


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_goes_on_and_what_was_seen_is_kept(interruption):
    def act(observation: Any) -> Any:
        if observation.count == 2:
            raise interruption
        return ADD

    with connect(":memory:") as store:
        with pytest.raises(interruption):
            Counter().rollout(counting(), CallablePolicy(act), store=store)
        (episode,) = store.episodes()
        assert (episode.ending, len(episode.steps)) == ("interrupted", 2)
        assert episode.data["provenance"]["labels"]["stop_reason"] == "failure"


def test_the_seed_is_recorded():
    env = Counter()
    assert env.rollout(counting(1), ScriptedPolicy([ADD])).episode.data["seed"] == 7
    assert env.rollout(counting(1), ScriptedPolicy([ADD]), seed=11).episode.data["seed"] == 11
    plain = TaskData("t", "x", metadata={"goal": 1})
    assert env.rollout(plain, ScriptedPolicy([ADD])).episode.data["seed"] == 0
    assert env.seed == 0


@pytest.mark.parametrize(
    ("task", "error", "message"),
    [
        ({"task_id": "t"}, TypeError, "task must be a TaskData, not dict"),
        (TaskData("t", "x", metadata={"seed": -1}), ValueError, "the seed in the task's metadata"),
        (TaskData("t", "x", metadata={"tags": "one"}), TypeError, "tags must be a sequence"),
        (TaskData("t", "x", metadata={"expects": "luck"}), ValueError, "expects must be one of"),
    ],
)
def test_a_task_that_is_no_case_is_refused(task, error, message):
    with pytest.raises(error, match=message):
        Counter().rollout(task, ScriptedPolicy([]))


def test_the_case_of_a_task():
    case = case_of(counting(2, source_id="s", tags=["b", "a"], expects="either"))
    assert (case.case_id, case.source_id, case.tags, case.expects) == (
        "to-2",
        "s",
        ("b", "a"),
        "either",
    )


def test_recording_into_a_path_and_into_json_lines(tmp_path: Path):
    env = Counter()
    env.rollout(counting(1), ScriptedPolicy([ADD]), store=tmp_path / "a.duckdb")
    env.rollout(counting(1), ScriptedPolicy([ADD]), store=tmp_path / "a.jsonl")
    with duckdb.connect(str(tmp_path / "a.duckdb")) as database:
        assert database.execute("SELECT count(*) FROM episodes").fetchall() == [(1,)]
    assert '"case_id":"to-1"' in (tmp_path / "a.jsonl").read_text().replace(" ", "")


def test_a_rollout_can_be_read_back_from_a_store():
    env = Counter()
    env.scorer(name="good")(lambda rollout: 1)
    with connect(":memory:") as store:
        rollout = env.rollout(counting(2), ScriptedPolicy([ToolCall("fail"), ADD]), store=store)
        stored = store.episode(rollout.episode.episode_id)
        again = rollout_of(stored, counting(2), env)
        assert again.trace == rollout.trace
        bare = rollout_of(stored, counting(2))
        assert bare.trace.steps[0].observation == {"asked": "Count to 2", "count": 1}
        assert isinstance(bare, Rollout)
        assert bare.env is None


def test_identical_rollouts_have_one_trajectory_digest():
    script = [ToolCall("fail"), ToolCall("nope"), ToolCall("add", {"by": "x"}), "bye"]
    one, two = (Counter().rollout(counting(), ScriptedPolicy(script)).episode for _ in range(2))
    assert one.trajectory_digest == two.trajectory_digest
    assert one.verify() == []


@pytest.mark.slow
def test_a_long_rollout_is_read_from_its_store():
    class Long(Counter):
        max_turns = None

    with connect(":memory:") as store:
        rollout = Long().rollout(
            counting(5_100), CallablePolicy(lambda observation: ADD), store=store
        )
        assert len(rollout.trace.steps) == 5_100
        assert rollout.episode.data["provenance"]["labels"]["stop_reason"] == "terminated"
        assert rollout.episode.data["max_steps"] is None
        assert store.verify().ok


def test_two_thousand_turns_stay_linear_in_the_evidence():
    class Chatty(Counter):
        max_turns = None

    def size(turns: int) -> int:
        rollout = Chatty().rollout(counting(turns), CallablePolicy(lambda observation: ADD))
        return len(repr(rollout.episode.to_dict()))

    assert size(400) < 2.2 * size(200)


def test_a_policy_s_observation_is_the_environment_s_own_class():
    seen: list[Any] = []
    policy = CallablePolicy(lambda observation: seen.append(observation) or "bye")
    Counter().rollout(counting(), policy)
    assert type(seen[0]) is CounterObservation
    assert isinstance(seen[0], Observation)


def test_rolling_out_wants_an_environment():
    from envbench.environments.rollout import roll_out

    with pytest.raises(TypeError, match="env must be an Environment, not int"):
        roll_out(3, counting(), ScriptedPolicy([]))  # type: ignore[arg-type]
