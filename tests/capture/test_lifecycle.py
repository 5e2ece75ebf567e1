"""capture_episode: what is recorded of one episode, and how it ends, whatever happens."""

from __future__ import annotations

import datetime
import hashlib
import platform
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import gymnasium
import numpy as np
import pytest

from envbench.capture import (
    InvalidAction,
    OutOfOrder,
    Provenance,
    StepLimit,
    capture_episode,
    capture_episodes,
    recorder,
)
from envbench.evidence import EpisodeEvidence, EvalCase
from envbench.evidence.tagged import Missing
from envbench.store import Store, connect
from envbench.store.errors import StoreError

Capture = Callable[..., EpisodeEvidence]
Scripted = Any

GO = (1, 0.0, False, False, {})
END = (2, 1.0, True, False, {})
CUT = (2, 1.0, False, True, {})


def phases(episode: EpisodeEvidence) -> list[str]:
    return [error["phase"] for error in episode.errors]


# What is recorded


def test_everything_known_of_the_episode_is_in_the_record(
    scripted: Scripted, capture: Capture
) -> None:
    env = scripted(
        (5, 0.5, False, False, {"n": 1}), (6, 0.25, True, False, {}), reset=(4, {"a": 0})
    )
    world = {"rows": 0}

    def observe() -> dict[str, Any]:
        world["rows"] += 1
        return world

    case = EvalCase({"q": 1}, case_id="c", source_id="s", tags=("t",), reference="secret")
    episode = capture(
        env,
        [1, 2],
        case=case,
        observe=observe,
        options={"level": 3},
        seed=11,
        max_steps=9,
        provenance=Provenance(
            agent_id="agent-v2",
            environment_version="2.1",
            run_id="run-8",
            repeat=4,
            previous="before",
            labels={"x": [1]},
        ),
        row_keys={"/rows": "id"},
    )
    data = episode.data
    assert data["schema"] == "envbench.episode/v1"
    assert data["case"] == {
        "input": {"q": 1},
        "case_id": "c",
        "source_id": "s",
        "tags": ["t"],
        "expects": "termination",
        "reference_digest": hashlib.sha256(b'"secret"').hexdigest(),
    }
    assert data["case_id"] == "c"
    assert data["case_digest"] == case.digest
    assert "secret" not in str(data.copy())
    assert (data["environment_id"], data["observer_id"]) == ("scripted-v1", "world-v1")
    assert data["gymnasium_version"] == gymnasium.__version__
    assert data["packages"]["numpy"] == np.__version__
    assert data["packages"]["duckdb"] == duckdb.__version__
    assert data["packages"]["python"] == platform.python_version()
    assert [name.rpartition(".")[2] for name in data["wrappers"]] == ["Scripted"]
    assert data["environment_spec"] is None
    assert (data["seed"], data["max_steps"], data["options"]) == (11, 9, {"level": 3})
    assert data["spaces"]["action"] == {
        "type": "Discrete",
        "repr": "Discrete(3)",
        "n": 3,
        "start": 0,
        "dtype": "<i8",
    }
    assert data["spaces"]["observation"]["repr"] == "Discrete(100)"
    assert data["initial"] == {"observation": [4], "info": {"a": 0}}
    assert data["initial_state"] == {"rows": 1}
    first, second = data["steps"]
    assert (first["index"], first["action"], first["state"]) == (1, [1], {"rows": 2})
    assert first["transition"] == {
        "observation": [5],
        "reward": 0.5,
        "terminated": False,
        "truncated": False,
        "info": {"n": 1},
    }
    assert (second["index"], second["action"], second["state"]) == (2, [2], {"rows": 3})
    assert second["transition"]["terminated"] is True
    assert (first["error"], second["error"]) == (None, None)
    assert data["final_state"] == {"rows": 4}
    assert data["output"] == "done"
    assert (data["errors"], data["issues"]) == ([], [])
    assert data["ending"] == "terminated"
    assert data["termination"] == {"terminated": True, "truncated": False}
    assert data["cleanup"] == {"attempted": True, "completed": True, "error": None}
    assert data["provenance"] == {
        "agent_id": "agent-v2",
        "environment_version": "2.1",
        "environment_fingerprint": None,
        "run_id": "run-8",
        "repeat": 4,
        "previous": "before",
        "labels": {"x": [1]},
    }
    assert data["row_keys"] == {"/rows": "id"}
    assert data["audit"] is None
    assert data["totals"] == {"reward": 0.75, "steps": 2}
    assert data["capture_steps"] is True
    assert episode.coverage_issues == []


def test_times_are_of_the_clock_and_in_order(scripted: Scripted, capture: Capture) -> None:
    before = datetime.datetime.now(datetime.UTC)
    episode = capture(scripted(GO, END), [0, 0])
    after = datetime.datetime.now(datetime.UTC)
    first, second = episode.steps
    recorded_at = datetime.datetime.fromisoformat(episode.data["recorded_at"])
    moment = datetime.timedelta(milliseconds=5)  # two clocks are read
    assert before <= recorded_at <= after
    assert before - moment <= first.started_at <= second.started_at <= after + moment
    assert first.step_us > 0
    assert first.observe_us > 0
    assert episode.data["steps"][0]["started_at"] == round(first.started_at.timestamp() * 1e6)
    assert episode.data["duration_ms"] > 0


def test_the_spec_and_the_wrappers_are_named_from_outside_in(capture: Capture) -> None:
    episode = capture(
        lambda: gymnasium.make("FrozenLake-v1", is_slippery=False, max_episode_steps=7), [0]
    )
    assert episode.data["environment_spec"] == {
        "id": "FrozenLake-v1",
        "entry_point": "gymnasium.envs.toy_text.frozen_lake:FrozenLakeEnv",
        "kwargs": {"map_name": "4x4", "is_slippery": False},
        "max_episode_steps": 7,
    }
    assert [name.rpartition(".")[2] for name in episode.data["wrappers"]] == [
        "TimeLimit",
        "OrderEnforcing",
        "PassiveEnvChecker",
        "FrozenLakeEnv",
    ]


def test_calls_come_in_the_promised_order_and_the_state_is_read_before_closing(
    scripted: Scripted, capture: Capture
) -> None:
    env = scripted(GO, END)

    def observe() -> dict[str, Any]:
        env.calls.append("observe")
        return {}

    capture(env, [0, 2], observe=observe, seed=3, options={"a": 1})
    assert env.calls == [
        ("reset", 3, {"a": 1}),
        "observe",
        ("step", 0),
        "observe",
        ("step", 2),
        "observe",
        "observe",
        "close",
    ]


def test_a_change_seen_only_at_the_end_is_the_final_state(
    scripted: Scripted, capture: Capture
) -> None:
    world = {"n": 0}

    def agent(env: Any, observation: Any, info: Any) -> str:
        env.step(0)
        world["n"] = 5  # what a background job of the environment might do
        return "done"

    episode = capture(scripted(GO), agent, observe=lambda: world)
    assert episode.states == [{"n": 0}, {"n": 0}]
    assert episode.final_state == {"n": 5}


# The agent gets what the environment returned, the environment what the agent sent


def test_the_very_objects_are_passed_through(scripted: Scripted, capture: Capture) -> None:
    first = (np.int64(1), {"a": [1]})
    results = [(np.int64(i), np.float64(i), np.bool_(False), np.bool_(False), {}) for i in (1, 2)]
    action = np.int64(2)
    env = scripted(*results, reset=first)
    got: list[Any] = []

    def agent(env: Any, observation: Any, info: Any) -> None:
        got.extend([observation, info, env.step(action), env.step(action)])

    capture(env, agent)
    assert got[0] is first[0]
    assert got[1] is first[1]
    assert got[2] is results[0]
    assert got[3] is results[1]
    assert env.calls[1][1] is action


def test_the_environment_gets_the_very_options_and_the_record_a_copy(
    scripted: Scripted, capture: Capture
) -> None:
    lock = threading.Lock()
    options = {"level": 1, "lock": lock, "when": datetime.date(2026, 1, 2)}

    class Popping(scripted):  # type: ignore[misc]
        def reset(self, **given: Any) -> Any:
            assert given["options"] is options
            options.pop("level")
            return super().reset(**given)

    episode = capture(Popping(END), [0], options=options)
    recorded = episode.data["options"]
    assert recorded["level"] == 1
    assert recorded["when"] == {"$envbench": "date", "value": "2026-01-02"}
    assert recorded["lock"]["$envbench"] == "missing"
    assert [(e["phase"], e["place"]) for e in episode.errors] == [("encode", "/options/lock")]
    assert len(episode.coverage_issues) == 1


# Endings


@pytest.mark.parametrize(
    ("result", "ending", "flags"),
    [
        (END, "terminated", (True, False)),
        (CUT, "truncated", (False, True)),
        ((2, 1.0, True, True, {}), "terminated", (True, True)),
        (GO, "policy_stop", (False, False)),
    ],
    ids=["terminated", "truncated", "both", "neither"],
)
def test_how_an_episode_ended_and_both_flags(
    result: Any, ending: str, flags: tuple[bool, bool], scripted: Scripted, capture: Capture
) -> None:
    episode = capture(scripted(GO, result), [0, 1])
    assert episode.ending == ending
    assert episode.data["termination"] == dict(zip(("terminated", "truncated"), flags, strict=True))


@pytest.mark.parametrize(
    ("expects", "complete"),
    [
        ("termination", {"terminated"}),
        ("truncation", {"truncated"}),
        ("either", {"terminated", "truncated"}),
    ],
)
def test_the_case_says_which_end_is_complete(
    expects: Any, complete: set[str], scripted: Scripted, capture: Capture
) -> None:
    case = EvalCase("x", case_id="c", expects=expects)
    without_issue = set()
    for result in (END, CUT, GO):
        episode = capture(scripted(result), [0], case=case)
        if not episode.coverage_issues:
            without_issue.add(episode.ending)
        else:
            (issue,) = episode.coverage_issues
            assert issue.startswith(f"ending: {episode.ending}, where the case expects ")
    assert without_issue == complete


def test_an_agent_that_never_acts_leaves_an_episode_of_no_steps(
    scripted: Scripted, capture: Capture
) -> None:
    episode = capture(scripted(), lambda env, observation, info: None)
    assert (episode.ending, episode.steps, episode.output) == ("policy_stop", [], None)
    assert episode.states == [{}]


# Steps that go wrong


def test_a_step_that_writes_and_then_raises_keeps_action_error_and_write(
    scripted: Scripted, capture: Capture
) -> None:
    world: dict[str, Any] = {"rows": []}
    error = OSError("connection lost")

    def commit_and_fail() -> Any:
        world["rows"].append("invoice-17")
        raise error

    env = scripted(commit_and_fail, END)
    caught: list[BaseException] = []

    def agent(env: Any, observation: Any, info: Any) -> str:
        with pytest.raises(OSError, match="connection lost") as raised:
            env.step(1)
        caught.append(raised.value)
        env.step(2)
        return "went on"

    episode = capture(env, agent, observe=lambda: world)
    failed, after = episode.steps
    assert caught[0] is error
    assert env.calls[1:3] == [("step", 1), ("step", 2)]  # nothing is tried again
    assert failed.action == 1
    assert (failed.observation, failed.reward, failed.terminated, failed.info) == (None,) * 4
    assert failed.state == {"rows": ["invoice-17"]}
    assert failed.error == {"phase": "step", "type": "OSError", "message": "connection lost"}
    assert episode.data["steps"][0]["transition"] is None
    assert (after.index, after.terminated) == (2, True)
    assert episode.ending == "terminated"
    assert episode.errors == [
        {"phase": "step", "type": "OSError", "message": "connection lost", "step": 1}
    ]
    assert episode.coverage_issues == ["step at step 1: OSError: connection lost"]


def test_an_error_of_the_environment_that_the_agent_does_not_handle_is_recorded_once(
    scripted: Scripted, capture: Capture
) -> None:
    episode = capture(scripted(GO, ValueError("broken")), [0, 0, 0])
    assert episode.ending == "error"
    assert phases(episode) == ["step"]
    assert [step.index for step in episode.steps] == [1, 2]
    assert episode.output is None


def test_an_error_that_the_agent_makes_of_another_is_an_interaction_error(
    scripted: Scripted, capture: Capture
) -> None:
    def agent(env: Any, observation: Any, info: Any) -> None:
        try:
            env.step(0)
        except OSError as error:
            raise RuntimeError("gave up") from error

    episode = capture(scripted(OSError("x")), agent)
    assert [(e["phase"], e["type"], e["step"]) for e in episode.errors] == [
        ("step", "OSError", 1),
        ("interaction", "RuntimeError", 1),
    ]
    assert episode.ending == "error"


def test_a_recovery_names_the_attempt_before_it_and_leaves_it_as_it_was(
    scripted: Scripted, capture: Capture, tmp_path: Path
) -> None:
    path = tmp_path / "e.duckdb"
    world: dict[str, Any] = {"rows": []}

    def commit_and_fail() -> Any:
        world["rows"].append(17)
        raise OSError("lost")

    failed = capture(scripted(commit_and_fail), [1], observe=lambda: world, store=path)
    recovered = capture(
        scripted(END),
        [2],
        observe=lambda: world,
        store=path,
        provenance=Provenance(previous=failed.episode_id),
    )
    with connect(path) as store:
        rows = store.sql("SELECT episode_id, previous, ending FROM episodes").fetchall()
        assert set(rows) == {
            (failed.episode_id, None, "error"),
            (recovered.episode_id, failed.episode_id, "terminated"),
        }
        kept = store.episode(failed.episode_id, verify=True)
    assert kept == failed
    assert kept.final_state == {"rows": [17]}
    assert recovered.initial_state == {"rows": [17]}


@pytest.mark.parametrize("action", [3, -1, 1.0, "1", None, [1], np.float32(1)], ids=repr)
def test_an_action_outside_the_space_is_refused_before_the_environment_sees_it(
    action: Any, scripted: Scripted, capture: Capture
) -> None:
    env = scripted(GO, END)

    def agent(env: Any, observation: Any, info: Any) -> str:
        with pytest.raises(InvalidAction, match="is outside the declared space Discrete"):
            env.step(action)
        env.step(0)
        env.step(0)
        return "done"

    episode = capture(env, agent, observe=lambda: {"n": 1})
    assert [call for call in env.calls if call[0] == "step"] == [("step", 0), ("step", 0)]
    refused = episode.steps[0]
    assert (refused.action, refused.observation, refused.info) == (None, None, None)
    assert refused.state == {"n": 1}
    assert refused.error["phase"] == "action"
    assert refused.error["type"] == "InvalidAction"
    assert repr(refused.error["value"]) == repr(action)
    assert episode.data["steps"][0]["action"] is None
    assert len(episode.steps) == 3
    assert episode.ending == "terminated"
    assert episode.coverage_issues == []


def test_a_refused_action_uses_one_of_max_steps(scripted: Scripted, capture: Capture) -> None:
    def agent(env: Any, observation: Any, info: Any) -> None:
        for action in (9, 0, 9, 0):
            try:
                env.step(action)
            except InvalidAction:
                continue

    env = scripted(GO, GO)
    episode = capture(env, agent, max_steps=3)
    assert len(episode.steps) == 3
    assert env.calls == [("reset", 7, None), ("step", 0), "close"]
    assert episode.ending == "step_limit"
    assert phases(episode) == ["action", "action", "step_limit"]


def test_max_steps_blocks_before_the_environment_is_called(
    scripted: Scripted, capture: Capture
) -> None:
    env = scripted(GO, GO, GO)
    episode = capture(env, [0, 1, 2], max_steps=2)
    assert env.calls == [("reset", 7, None), ("step", 0), ("step", 1), "close"]
    assert episode.ending == "step_limit"
    assert len(episode.steps) == 2
    assert phases(episode) == ["step_limit"]
    assert episode.errors[0]["type"] == "StepLimit"
    assert episode.coverage_issues == ["ending: step_limit, where the case expects terminated"]


def test_an_agent_may_answer_after_the_step_limit(scripted: Scripted, capture: Capture) -> None:
    def agent(env: Any, observation: Any, info: Any) -> str:
        env.step(0)
        for _ in range(2):
            with pytest.raises(StepLimit, match="max_steps of 1 reached"):
                env.step(0)
        return "my answer"

    episode = capture(scripted(GO), agent, max_steps=1)
    assert (episode.ending, episode.output) == ("step_limit", "my answer")
    assert phases(episode) == ["step_limit", "step_limit"]


def test_an_episode_that_ends_on_its_last_step_is_not_one_of_the_limit(
    scripted: Scripted, capture: Capture
) -> None:
    assert capture(scripted(END), [0], max_steps=1).ending == "terminated"
    assert capture(scripted(GO), [0], max_steps=1).ending == "policy_stop"


def test_calls_out_of_order_raise_and_the_episode_goes_on(
    scripted: Scripted, capture: Capture
) -> None:
    def agent(env: Any, observation: Any, info: Any) -> str:
        with pytest.raises(OutOfOrder, match="reset once"):
            env.reset(seed=1)
        env.step(0)
        env.step(0)
        with pytest.raises(OutOfOrder, match="has ended"):
            env.step(0)
        with pytest.raises(OutOfOrder):
            env.reset()
        return "done"

    env = scripted(GO, END)
    episode = capture(env, agent)
    assert [call[0] for call in env.calls[:-1]] == ["reset", "step", "step"]
    assert [(e["phase"], e["type"], e["step"]) for e in episode.errors] == [
        ("lifecycle", "OutOfOrder", 0),
        ("lifecycle", "OutOfOrder", 2),
        ("lifecycle", "OutOfOrder", 2),
    ]
    assert len(episode.steps) == 2
    assert episode.ending == "terminated"
    assert episode.coverage_issues == []


def test_an_agent_that_is_stopped_by_a_call_out_of_order_did_not_finish(
    scripted: Scripted, capture: Capture
) -> None:
    episode = capture(scripted(GO), lambda env, observation, info: env.reset())
    assert episode.ending == "error"
    assert phases(episode) == ["lifecycle"]


def test_what_is_done_after_the_episode_is_refused(scripted: Scripted, capture: Capture) -> None:
    held: list[Any] = []

    def agent(env: Any, observation: Any, info: Any) -> None:
        held.append(env)

    env = scripted(GO)
    episode = capture(env, agent)
    with pytest.raises(OutOfOrder):
        held[0].step(0)
    assert episode.steps == []
    assert env.calls == [("reset", 7, None), "close"]


# Observers and audits


def test_an_observer_that_fails_leaves_a_gap_and_the_run_goes_on(
    scripted: Scripted, capture: Capture
) -> None:
    answers = iter([{"n": 0}, RuntimeError("locked"), [1, 2], None, {"n": 4}, {"n": 4}])

    def observe() -> Any:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    episode = capture(scripted(GO, GO, GO, END), [0] * 4, observe=observe)
    assert episode.states == [{"n": 0}, None, None, None, {"n": 4}]
    assert [step.error and step.error["message"] for step in episode.steps] == [
        "locked",
        "the observer returned list, not a dict",
        "the observer returned NoneType, not a dict",
        None,
    ]
    assert phases(episode) == ["observe_step"] * 3
    assert episode.ending == "terminated"
    assert episode.coverage_issues == [
        "observe_step at step 1: RuntimeError: locked",
        "observe_step at step 2: TypeError: the observer returned list, not a dict",
        "observe_step at step 3: TypeError: the observer returned NoneType, not a dict",
        "state: not seen after step 1, 2, 3",
    ]


def test_an_observer_that_always_fails_names_every_place(
    scripted: Scripted, capture: Capture
) -> None:
    def observe() -> Any:
        raise RuntimeError("no")

    episode = capture(scripted(END), [0], observe=observe)
    assert phases(episode) == ["observe_reset", "observe_step", "observe_final"]
    assert (episode.initial_state, episode.final_state) == (None, None)
    assert episode.data["initial_state"] is None
    assert episode.coverage_issues[-1] == (
        "state: not seen after reset and after step 1 and at the end"
    )


def test_a_value_that_cannot_be_kept_leaves_the_rest_of_the_state(
    scripted: Scripted, capture: Capture
) -> None:
    episode = capture(
        scripted(END), [0], observe=lambda: {"rows": [1, {"lock": threading.Lock()}], "n": 3}
    )
    state = episode.states[1]
    assert state["n"] == 3
    assert state["rows"][0] == 1
    assert isinstance(state["rows"][1]["lock"], Missing)
    assert state["rows"][1]["lock"].type == "_thread.lock"
    assert [(e["phase"], e["place"], e["step"]) for e in episode.errors] == [
        ("encode", "/state/rows/1/lock", 0),
        ("encode", "/state/rows/1/lock", 1),
        ("encode", "/state/rows/1/lock", 1),
    ]
    assert any(
        issue.startswith("encode at step 1: _thread.lock") for issue in episode.coverage_issues
    )


@pytest.mark.parametrize("observe", [None, dict], ids=["no observer", "an observer"])
def test_an_info_that_contains_itself_costs_nothing_else(
    observe: Any, scripted: Scripted, capture: Capture, store: Store
) -> None:
    info: dict[str, Any] = {"n": 1}
    info["self"] = info
    env = scripted((2, 1.0, True, False, info), reset=(1, info))
    if observe is None:
        wrapped = capture_episodes(env, exporter=store, async_capture=False)
        wrapped.reset()
        wrapped.step(0)
        wrapped.close()
        episode = list(store.episodes())[-1]
    else:
        episode = capture(env, [0], observe=observe)
    (step,) = episode.steps
    assert (step.observation, step.reward, step.terminated) == (2, 1.0, True)
    assert isinstance(step.info["self"], Missing)
    assert episode.initial.observation == 1
    assert {error["phase"] for error in episode.errors} == {"encode"}


def test_what_an_audit_returns_belongs_to_the_step_it_followed(
    scripted: Scripted, capture: Capture
) -> None:
    edit = {"table": "t", "op": "edit", "key": "k", "before": 1, "after": {"a": [2]}}
    batches = iter([[], [edit], [], [edit, {**edit, "op": "remove", "after": None}]])
    episode = capture(scripted(GO, GO), [0, 0], audit=lambda: next(batches))
    assert episode.data["audit"] == [
        {"step": 1, **edit},
        # seen at the end, after the last step, like a change that only the final state shows
        {"step": 3, **edit},
        {"step": 3, **edit, "op": "remove", "after": None},
    ]


def test_an_audit_that_fails_is_an_error_and_the_state_is_still_read(
    scripted: Scripted, capture: Capture
) -> None:
    def audit() -> Any:
        raise RuntimeError("trigger gone")

    episode = capture(scripted(END), [0], audit=audit, observe=lambda: {"n": 1})
    assert phases(episode) == ["audit"] * 3
    assert episode.states == [{"n": 1}, {"n": 1}]
    assert episode.data["audit"] == []
    assert "audit at step 1: RuntimeError: trigger gone" in episode.coverage_issues


@pytest.mark.parametrize("events", [5, [5], None, ["ab"]], ids=repr)
def test_an_audit_that_returns_no_events_is_an_error(
    events: Any, scripted: Scripted, capture: Capture
) -> None:
    episode = capture(scripted(END), [0], audit=lambda: events)
    assert phases(episode) == ["audit"] * 3
    assert episode.ending == "terminated"


# Factory, reset, agent and close


@pytest.mark.parametrize(
    "made", [None, 5, object(), {"reset": 1}], ids=lambda made: str(type(made))
)
def test_a_factory_that_makes_no_environment_is_a_setup_error(made: Any, capture: Capture) -> None:
    episode = capture(lambda: made)
    assert (episode.ending, phases(episode)) == ("error", ["setup"])
    assert episode.errors[0]["message"] == (
        f"the factory returned {type(made).__name__}, which has no reset()"
    )
    assert episode.data["cleanup"] == {"attempted": False, "completed": False, "error": None}
    assert (episode.initial, episode.steps, episode.final_state) == (None, [], None)
    assert len(episode.states) == 1
    assert episode.data["environment_id"] == "scripted-v1"
    assert episode.data["spaces"] is None


def test_a_factory_that_raises_is_a_setup_error(capture: Capture, tmp_path: Path) -> None:
    def factory() -> Any:
        raise RuntimeError("no database")

    episode = capture(factory, store=tmp_path / "e.duckdb")
    assert [(e["phase"], e["message"]) for e in episode.errors] == [("setup", "no database")]
    assert episode.coverage_issues == [
        "setup at step 0: RuntimeError: no database",
        "ending: error, where the case expects terminated",
        "state: not seen after reset and at the end",
        "cleanup: closing the environment was not confirmed",
    ]
    with connect(tmp_path / "e.duckdb") as store:
        assert store.episode(episode.episode_id, verify=True) == episode


def test_a_reset_that_raises_keeps_the_state_it_left_and_closes(
    scripted: Scripted, capture: Capture
) -> None:
    env = scripted(reset=RuntimeError("half reset"))
    called: list[Any] = []
    episode = capture(env, lambda *given: called.append(given), observe=lambda: {"rows": 1})
    assert called == []
    assert env.calls == [("reset", 7, None), "close"]
    assert (episode.ending, phases(episode)) == ("error", ["reset"])
    assert episode.initial is None
    assert (episode.initial_state, episode.final_state) == ({"rows": 1}, {"rows": 1})
    assert episode.data["cleanup"]["completed"] is True


@pytest.mark.parametrize("returned", [0, None, (1, {}, 2), (1,), "ab", [1, {}]], ids=repr)
def test_a_reset_that_returns_no_pair_is_a_contract_error_with_what_was_seen(
    returned: Any, scripted: Scripted, capture: Capture
) -> None:
    episode = capture(scripted(END, reset=lambda: returned), [0])
    assert phases(episode)[0] == "contract"
    error = episode.errors[0]
    assert error["message"].startswith("reset returned ")
    assert error["value"] == returned
    # what Python can unpack, the agent can play with
    pair = isinstance(returned, (list, str))
    assert episode.ending == ("terminated" if pair else "error")


def test_close_that_raises_is_unconfirmed_cleanup(scripted: Scripted, capture: Capture) -> None:
    episode = capture(scripted(END, close=OSError("busy")), [0])
    assert episode.ending == "terminated"
    assert episode.data["cleanup"] == {
        "attempted": True,
        "completed": False,
        "error": {"phase": "close", "type": "OSError", "message": "busy"},
    }
    assert phases(episode) == ["close"]
    assert episode.coverage_issues == [
        "close at step 1: OSError: busy",
        "cleanup: closing the environment was not confirmed",
    ]


def test_all_errors_are_kept_by_phase(scripted: Scripted, capture: Capture) -> None:
    answers = iter([{}, RuntimeError("observe"), RuntimeError("final")])

    def observe() -> Any:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def agent(env: Any, observation: Any, info: Any) -> None:
        with pytest.raises(OSError, match="step"):
            env.step(0)
        raise ValueError("agent")

    env = scripted(OSError("step"), close=OSError("close"))
    episode = capture(env, agent, observe=observe)
    assert [(e["phase"], e["message"], e["step"]) for e in episode.errors] == [
        ("step", "step", 1),
        ("observe_step", "observe", 1),
        ("interaction", "agent", 1),
        ("observe_final", "final", 1),
        ("close", "close", 1),
    ]
    assert episode.steps[0].error["more"] == [
        {"phase": "observe_step", "type": "RuntimeError", "message": "observe"}
    ]


@pytest.mark.parametrize("answer", [3, b"bytes", ["done"], True, 1.5], ids=repr)
def test_an_answer_that_is_no_text_is_an_interaction_error(
    answer: Any, scripted: Scripted, capture: Capture
) -> None:
    episode = capture(scripted(), lambda env, observation, info: answer)
    assert (episode.ending, episode.output) == ("error", None)
    assert episode.errors[0]["message"] == (
        f"interact must return text or None, not {type(answer).__name__}"
    )


def test_an_agent_that_fails_after_the_end_has_an_ended_episode_and_an_issue(
    scripted: Scripted, capture: Capture
) -> None:
    def agent(env: Any, observation: Any, info: Any) -> None:
        env.step(0)
        raise ValueError("late")

    episode = capture(scripted(END), agent)
    assert episode.ending == "terminated"
    assert episode.coverage_issues == ["interaction at step 1: ValueError: late"]


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")

    __repr__ = __str__


@pytest.mark.parametrize("place", ["factory", "reset", "step", "observe", "interact", "close"])
def test_an_exception_that_cannot_be_printed_is_recorded_by_its_class(
    place: str, scripted: Scripted, capture: Capture
) -> None:
    def fails(where: str, value: Any) -> Any:
        if where == place:
            raise Unprintable
        return value

    env = scripted(
        lambda: fails("step", END),
        reset=lambda: fails("reset", (0, {})),
        close=lambda: fails("close", None),
    )
    episode = capture(
        lambda: fails("factory", env),
        lambda env, observation, info: fails("interact", env.step(0) and "done"),
        observe=lambda: fails("observe", {}),
    )
    error = episode.errors[0]
    assert error["type"] == "Unprintable"
    assert error["message"] == "<message unavailable: __str__ raised RuntimeError>"


# Interrupts


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
@pytest.mark.parametrize(
    ("place", "phase", "steps", "closes"),
    [
        ("factory", "setup", 0, False),
        ("reset", "reset", 0, True),
        ("observe 1", "observe_reset", 0, True),
        ("step", "step", 2, True),
        ("observe 3", "observe_step", 2, True),
        ("interact", "interaction", 2, True),
        ("observe 4", "observe_final", 2, True),
        ("close", "close", 2, True),
    ],
)
def test_an_interrupt_goes_on_after_cleanup_and_what_was_seen_is_kept(
    kind: type[BaseException],
    place: str,
    phase: str,
    steps: int,
    closes: bool,
    scripted: Scripted,
    capture: Capture,
    store: Store,
) -> None:
    stop = kind("stop")
    seen = 0

    def stops(where: str, value: Any) -> Any:
        if where == place:
            raise stop
        return value

    def observe() -> Any:
        nonlocal seen
        seen += 1
        return stops(f"observe {seen}", {"n": seen})

    env = scripted(
        GO,
        lambda: stops("step", END),
        reset=lambda: stops("reset", (0, {})),
        close=lambda: stops("close", None),
    )
    with pytest.raises(kind) as raised:
        capture(
            lambda: stops("factory", env),
            lambda env, observation, info: stops("interact", play_two(env)),
            observe=observe,
            store=store,
        )
    assert raised.value is stop
    assert env.calls[-1:] == (["close"] if closes else [])
    episode = list(store.episodes())[-1]
    assert episode.verify() == []
    assert episode.ending == "interrupted"
    assert phases(episode) == [phase]
    assert episode.errors[0]["type"] == kind.__name__
    assert len(episode.steps) == steps
    cleanup = episode.data["cleanup"]
    assert cleanup["attempted"] is closes
    assert cleanup["completed"] is (closes and place != "close")
    assert any(issue.startswith("ending: interrupted") for issue in episode.coverage_issues)


def play_two(env: Any) -> str:
    env.step(0)
    env.step(0)
    return "done"


def test_an_interrupt_that_the_agent_handles_stops_nothing(
    scripted: Scripted, capture: Capture
) -> None:
    def agent(env: Any, observation: Any, info: Any) -> str:
        with pytest.raises(KeyboardInterrupt):
            env.step(0)
        env.step(0)
        return "went on"

    episode = capture(scripted(KeyboardInterrupt(), END), agent)
    assert (episode.ending, episode.output, len(episode.steps)) == ("terminated", "went on", 2)


def test_of_two_interrupts_the_first_goes_on(scripted: Scripted, capture: Capture) -> None:
    first = KeyboardInterrupt("first")
    env = scripted(first, close=SystemExit("second"))
    with pytest.raises(KeyboardInterrupt) as raised:
        capture(env, [0])
    assert raised.value is first


# Where it is kept


@pytest.mark.parametrize("how", ["path", "text", "store"])
def test_an_episode_is_committed_when_capture_returns(
    how: str, scripted: Scripted, capture: Capture, tmp_path: Path
) -> None:
    path = tmp_path / "e.duckdb"
    target: Any = {"path": path, "text": str(path), "store": None}[how]
    if target is None:
        target = connect(path)
    episode = capture(scripted(GO, END), [0, 1], store=target)
    if how == "store":
        target.close()
    # what a process sees that knows nothing of this one's memory
    with duckdb.connect(str(path), read_only=True) as file:
        assert file.execute("SELECT episode_id, n_steps FROM episodes").fetchall() == [
            (episode.episode_id, 2)
        ]
    with connect(path) as store:
        kept = store.episode(episode.episode_id, verify=True)
        assert kept.to_dict() == episode.to_dict()
        assert kept.steps == episode.steps


def test_evidence_is_equal_without_a_store_in_one_and_in_json(
    scripted: Scripted, capture: Capture, tmp_path: Path
) -> None:
    info = {"x": np.float32(1), "y": np.arange(2000), "z": float("nan")}
    episodes = [
        capture(scripted((1, 2.0, True, False, info)), [0], store=store)
        for store in (None, tmp_path / "e.duckdb", tmp_path / "e.jsonl", ":memory:")
    ]
    assert len({episode.trajectory_digest for episode in episodes}) == 1
    assert len({episode.digest for episode in episodes}) == 4
    for episode in episodes:
        episode.save_json(tmp_path / "e.json")
        again = EpisodeEvidence.load_json(tmp_path / "e.json")
        assert again == episode
        assert again.steps[0].info["y"].tolist() == list(range(2000))


@pytest.mark.parametrize("name", ["e.duckdb", "e.jsonl"])
def test_a_target_that_cannot_be_opened_is_refused_before_anything_is_made(
    name: str, scripted: Scripted, capture: Capture, tmp_path: Path
) -> None:
    made: list[Any] = []
    with pytest.raises(StoreError, match="missing"):
        capture(lambda: made.append(1), store=tmp_path / "missing" / name)
    assert made == []


@pytest.mark.parametrize("seed", [0, 2**31, 2**63 - 1, 2**63, 2**200], ids=repr)
def test_a_seed_of_any_size_is_kept(
    seed: int, scripted: Scripted, capture: Capture, store: Store
) -> None:
    env = scripted(END)
    episode = capture(env, [0], seed=seed, store=store)
    assert env.calls[0] == ("reset", seed, None)
    assert store.episode(episode.episode_id, verify=True).data["seed"] == seed


def test_long_episodes_in_parts_are_the_same_evidence(
    scripted: Scripted, capture: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(store: Any) -> EpisodeEvidence:
        n = iter(range(1000))
        results = [(i % 100, i / 8, False, False, {"i": i}) for i in range(249)]
        return capture(
            scripted(*results, END),
            [i % 3 for i in range(250)],
            observe=lambda: {"rows": [{"id": 1, "n": next(n) // 10}]},
            max_steps=1000,
            store=store,
        )

    whole = run(None)
    monkeypatch.setattr(recorder, "PART_STEPS", 100)
    in_memory = run(None)
    in_file = run(tmp_path / "e.duckdb")
    with connect(tmp_path / "e.duckdb") as store:
        kept = store.episode(in_file.episode_id, verify=True)
    with connect(":memory:") as store:
        in_store = run(store)
        assert in_store.verify() == []
        assert in_store.trajectory_digest == whole.trajectory_digest
        assert store.sql("SELECT count(*) FROM steps").fetchall() == [(250,)]
    assert kept == in_file
    assert in_memory.trajectory_digest == whole.trajectory_digest
    assert in_file.trajectory_digest == whole.trajectory_digest
    assert kept.states == whole.states
    assert [step.reward for step in kept.steps[:3]] == [0.0, 0.125, 0.25]


# Arguments


@pytest.mark.parametrize(
    ("argument", "value", "kind"),
    [
        ("case", "count", TypeError),
        ("environment_id", " ", ValueError),
        ("environment_id", None, TypeError),
        ("observer_id", "", ValueError),
        ("observer_id", 3, TypeError),
        ("observe", None, TypeError),
        ("observe", {}, TypeError),
        ("seed", True, TypeError),
        ("seed", -1, ValueError),
        ("seed", 1.0, TypeError),
        ("seed", None, TypeError),
        ("max_steps", 0, ValueError),
        ("max_steps", True, TypeError),
        ("max_steps", 2.0, TypeError),
        ("options", [1], TypeError),
        ("options", "x", TypeError),
        ("store", 5, TypeError),
        ("provenance", {"agent_id": "a"}, TypeError),
        ("audit", [], TypeError),
        ("row_keys", ["/a"], TypeError),
        ("row_keys", {"a": "id"}, ValueError),
        ("row_keys", {"/a": ""}, ValueError),
        ("row_keys", {"/a": 3}, TypeError),
        ("expose", "action_masks", TypeError),
        ("expose", [3], TypeError),
        ("expose", ["step"], ValueError),
        ("expose", ["unwrapped"], ValueError),
        ("expose", ["action_space"], ValueError),
        ("expose", ["not a name"], ValueError),
        ("expose", {"action_masks"}, TypeError),
    ],
    ids=repr,
)
def test_a_bad_argument_is_named_before_anything_is_made(
    argument: str, value: Any, kind: type[Exception], capture: Capture
) -> None:
    made: list[Any] = []
    with pytest.raises(kind, match=argument if argument != "store" else "target"):
        capture(lambda: made.append(1), **{argument: value})
    assert made == []


def test_factory_and_agent_must_be_callable(scripted: Scripted) -> None:
    given: dict[str, Any] = {
        "case": EvalCase("x", case_id="c"),
        "environment_id": "e",
        "observer_id": "o",
        "observe": dict,
        "seed": 0,
        "max_steps": 1,
    }
    with pytest.raises(TypeError, match="factory must be callable, not Scripted"):
        capture_episode(scripted(), lambda *_: None, **given)
    with pytest.raises(TypeError, match="interact must be callable, not str"):
        capture_episode(scripted, "agent", **given)


def test_numpy_integers_are_fine(scripted: Scripted, capture: Capture) -> None:
    env = scripted(END)
    episode = capture(env, [0], seed=np.int64(5), max_steps=np.uint8(3))
    assert (episode.data["seed"], episode.data["max_steps"]) == (5, 3)
    assert type(env.calls[0][1]) is int


def test_spaces_that_the_reset_makes_are_the_ones_recorded_and_checked(
    scripted: Scripted, capture: Capture
) -> None:
    class Late(scripted):  # type: ignore[misc]
        def reset(self, **given: Any) -> Any:
            self.action_space = gymnasium.spaces.Discrete(9)
            return super().reset(**given)

    env = Late(GO, END)
    episode = capture(env, [8, 8])
    assert episode.data["spaces"]["action"]["n"] == 9
    assert [step.action for step in episode.steps] == [8, 8]
    assert episode.coverage_issues == []
