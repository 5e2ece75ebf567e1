"""Environments that tell their own state: recorded with it where nobody gives an observer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import OrderEnforcing, TimeLimit

from envbench.capture import (
    EpisodeCaptureWrapper,
    Provenance,
    capture_episode,
    capture_episodes,
    capture_vector,
)
from envbench.capture.own_state import NotObserved
from envbench.checks import OutcomeCheck, OutcomeVerdict
from envbench.comparison import Episodes, compare
from envbench.environments import ScriptedPolicy, TaskData, scorer
from envbench.environments.replay import verify_replay
from envbench.evidence import EpisodeEvidence, EvalCase
from envbench.store import Store
from tests.environments.worlds import ADD, Counter, counting

CASE = EvalCase("Count.", case_id="counting")


class Scored(Counter):
    """A counter whose end is judged."""

    @scorer
    def counted(self, rollout: Any) -> bool:
        return bool(self.state.count == rollout.task.expected["count"])


class Audited(Counter):
    """A counter with keys and a history."""

    row_keys = {"/rows": "id"}  # noqa: RUF012

    def setup(self, task: TaskData) -> None:
        super().setup(task)
        self.read = 0
        self.audit = self.read_audit  # known only since the reset

    def read_audit(self) -> list[dict[str, Any]]:
        self.read += 1
        return [{"table": "rows", "op": "insert", "key": self.read, "before": None, "after": {}}]

    def snapshot(self) -> dict[str, Any]:
        return {"rows": [{"id": "a", "n": self.state.count}]}


class Unfingerprinted(Counter):
    """One whose configuration cannot be had."""

    def fingerprint_payload(self) -> Any:
        raise PermissionError("not now")


def record(
    factory: Callable[[], Any], interact: Callable[..., Any] | None = None, **given: Any
) -> EpisodeEvidence:
    """One episode of an environment that counts to two."""
    given = {"case": CASE, "seed": 7, "max_steps": 9, "options": {"task": counting(2)}, **given}
    return capture_episode(factory, interact or add_twice, **given)


def add_twice(env: Any, observation: Any, info: Any) -> None:
    env.step(ADD)
    env.step(ADD)


def wrap(env: Any, store: Store, **given: Any) -> EpisodeCaptureWrapper:
    return capture_episodes(env, exporter=store, async_capture=False, **given)


def last(store: Store) -> EpisodeEvidence:
    """The episode that was recorded last; its digests are recomputed."""
    episode = list(store.episodes())[-1]
    assert episode.verify() == []
    return episode


def identity(episode: EpisodeEvidence) -> tuple[Any, ...]:
    data = episode.data
    provenance = data["provenance"]
    return (
        data["environment_id"],
        provenance["environment_version"],
        provenance["environment_fingerprint"],
        data["observer_id"],
    )


OURS = ("counter", "1.0.0", Counter().fingerprint().digest, "snapshot")


# capture_episode


@pytest.mark.parametrize(
    "factory",
    [Counter, lambda: TimeLimit(Counter(), 5), lambda: OrderEnforcing(TimeLimit(Counter(), 5))],
    ids=["bare", "wrapped", "wrapped twice"],
)
def test_without_an_observer_the_snapshot_is_the_state(factory: Any):
    episode = record(factory)
    assert identity(episode) == OURS
    assert [state["count"] for state in episode.states] == [0, 1, 2]
    assert episode.final_state == {"count": 2, "seed": 7}
    assert [change.path for change in episode.changes()] == ["/count", "/count"]
    assert (episode.ending, episode.coverage_issues) == ("terminated", [])
    assert episode.data["case_id"] == "counting"
    assert episode.verify() == []


def test_it_is_what_a_rollout_records():
    env = Counter()
    rolled = env.rollout(counting(2), ScriptedPolicy([ADD, ADD])).episode
    env.close()
    episode = record(Counter)
    assert identity(episode) == identity(rolled)
    assert (episode.states, episode.final_state) == (rolled.states, rolled.final_state)
    assert [step.info for step in episode.steps] == [step.info for step in rolled.steps]
    for key in ("environment_spec", "spaces"):
        assert episode.data[key] == rolled.data[key]


def test_what_the_caller_names_stands():
    episode = record(
        Audited,
        environment_id="mine",
        provenance=Provenance(environment_version="9"),
        row_keys={"/rows": "n"},
        audit=lambda: [],
    )
    assert identity(episode)[:2] == ("mine", "9")
    assert episode.data["row_keys"] == {"/rows": "n"}
    assert episode.data["audit"] == []


def test_keys_and_the_audit_are_those_of_the_environment():
    episode = record(Audited)
    assert episode.data["row_keys"] == {"/rows": "id"}
    # after the reset, each of two steps, and at the end
    assert [event["key"] for event in episode.data["audit"]] == [1, 2, 3, 4]


def test_an_observer_that_is_given_reads_the_state_and_the_names_are_the_callers():
    episode = record(
        Counter, environment_id="e", observer_id="o", observe=lambda: {"seen": "outside"}
    )
    assert identity(episode) == ("e", None, None, "o")
    assert episode.states == [{"seen": "outside"}] * 3


def test_one_that_tells_no_state_is_refused_and_closed_and_nothing_is_kept(store: Store):
    closed = []

    class Plain(gymnasium.Env):  # type: ignore[type-arg]
        def close(self) -> None:
            closed.append(True)

    before = len(store.episodes())
    with pytest.raises(NotObserved, match=r"observe is missing: .* Plain does not tell its own"):
        record(Plain, store=store)
    assert closed == [True]
    assert len(store.episodes()) == before


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"observer_id": "o"}, "observe must be callable"),
        ({"observe": dict}, "environment_id must be"),
        ({"observe": dict, "environment_id": "e"}, "observer_id must be"),
        ({"environment_id": 3}, "environment_id must be"),
    ],
    ids=["no observer", "no names", "no name of the observer", "a name that is none"],
)
def test_an_observer_and_the_names_go_together(given: dict[str, Any], message: str):
    made: list[int] = []
    with pytest.raises(TypeError, match=message):
        record(lambda: made.append(1), **given)
    assert made == []


def test_a_factory_that_fails_is_named_for_want_of_the_environments_own_name():
    def broken() -> Any:
        raise OSError("no world")

    episode = record(broken)
    assert (episode.ending, episode.errors[0]["phase"]) == ("error", "setup")
    assert identity(episode)[0].endswith("broken")


def test_a_fingerprint_that_cannot_be_taken_is_an_issue(store: Store):
    missing = "fingerprint: not taken: PermissionError: not now"
    episode = record(Unfingerprinted)
    assert identity(episode) == ("counter", "1.0.0", None, "snapshot")
    assert episode.coverage_issues == [missing]
    env = wrap(Unfingerprinted(task=counting(1)), store)
    env.reset()
    env.step(ADD)
    env.close()
    assert last(store).coverage_issues == [missing]


def test_an_end_that_no_scorer_judged_is_an_issue():
    episode = record(Scored, lambda env, observation, info: "I give up")
    assert (episode.ending, episode.output) == ("policy_stop", "I give up")
    assert "scoring: the episode was cut short outside the environment, unscored" in (
        episode.coverage_issues
    )
    assert record(Scored).coverage_issues == []


# EpisodeCaptureWrapper


@pytest.mark.parametrize(
    "inside", [lambda env: env, lambda env: TimeLimit(env, 5)], ids=["bare", "wrapped"]
)
def test_a_loop_is_recorded_with_states_tasks_and_names(inside: Any, store: Store):
    env = wrap(inside(Counter()), store)
    for goal in (1, 2):
        env.reset(options={"task": counting(goal)})
        for _ in range(goal):
            env.step(ADD)
    env.close()
    first, second = list(store.episodes())[-2:]
    for episode in (first, second):
        assert identity(episode) == OURS
        assert (episode.verify(), episode.coverage_issues) == ([], [])
        assert episode.ending == "terminated"
    assert [state["count"] for state in second.states] == [0, 1, 2]
    assert second.final_state == {"count": 2, "seed": 7}
    assert [first.data["case_id"], second.data["case_id"]] == ["to-1", "to-2"]
    assert second.data["case"]["input"] == "Count to 2"


def test_a_loop_and_a_rollout_of_one_task_are_compared(store: Store):
    env = Counter()
    rolled = env.rollout(counting(2), ScriptedPolicy([ADD, ADD]), store=store)
    loop = wrap(env, store, provenance=Provenance(agent_id="loop"))
    loop.reset(seed=7, options={"task": counting(2)})
    loop.step(ADD)
    loop.step(ADD)
    loop.close()
    sides = [
        Episodes(where=f"episode_id = '{episode.episode_id}'")
        for episode in (rolled.episode, last(store))
    ]
    check = OutcomeCheck(
        "two", "1", lambda episode: OutcomeVerdict(episode.final_state["count"] == 2, "count", {})
    )
    comparison = compare(*sides, store=store, treatment="agent", checks=check)
    assert comparison.blocked == ()
    assert (comparison.checks[0].pairs, comparison.checks[0].table["passed", "passed"]) == (1, 1)


def test_the_answer_key_is_not_in_it(store: Store):
    task = TaskData("t", "Count.", {"answer": "sesame"}, {"goal": 1})
    env = wrap(Counter(), store)
    env.reset(options={"task": task})
    env.step(ADD)
    env.close()
    assert "sesame" not in str(last(store).to_dict())


def test_a_case_that_is_given_stands(store: Store):
    env = wrap(Counter(task=counting(1)), store, case=CASE)
    env.reset()
    env.close()
    assert last(store).data["case_id"] == "counting"


def test_the_case_of_a_reset_that_failed_is_the_environments_name(store: Store):
    env = wrap(Counter(), store)
    with pytest.raises(ValueError, match="has no task"):
        env.reset()
    env.close()
    episode = last(store)
    assert (episode.ending, episode.data["case_id"]) == ("error", "counter")


def test_a_task_that_makes_no_case_is_an_issue_and_the_run_goes_on(store: Store):
    env = wrap(Counter(task=counting(1, expects="the best")), store)
    env.reset()
    env.step(ADD)
    env.close()
    episode = last(store)
    assert (episode.ending, episode.data["case_id"]) == ("terminated", "counter")
    (issue,) = episode.coverage_issues
    assert issue.startswith("case: not taken: ValueError: ")


@pytest.mark.parametrize("by", ["reset", "close"])
def test_an_answer_in_text_is_the_policys_stop(by: str, store: Store):
    env = wrap(Scored(task=counting(2)), store)
    env.reset()
    _, reward, terminated, truncated, info = env.step("two")
    assert (reward, terminated, truncated, info["stop_reason"]) == (0, False, False, "policy_stop")
    getattr(env, by)()
    episode = next(e for e in reversed(list(store.episodes())) if e.data["totals"]["steps"])
    assert episode.ending == "policy_stop"
    assert episode.final_state == {"count": 0, "seed": 7}
    env.close()


def test_one_that_is_left_in_the_middle_has_its_last_state(store: Store):
    env = wrap(Counter(task=counting(3)), store)
    env.reset()
    env.step(ADD)
    env.reset()
    env.close()
    first, second = list(store.episodes())[-2:]
    assert (first.ending, first.final_state["count"]) == ("reset_early", 1)
    assert (second.ending, second.final_state["count"]) == ("closed_early", 0)


def test_a_limit_outside_leaves_the_episode_unscored(store: Store):
    env = wrap(TimeLimit(Scored(task=counting(3)), 1), store)
    env.reset()
    _, _, _, truncated, _ = env.step(ADD)
    env.close()
    episode = last(store)
    assert (truncated, episode.ending) == (True, "truncated")
    assert "scoring: the episode was cut short outside the environment, unscored" in (
        episode.coverage_issues
    )


def test_a_scorer_that_is_added_later_is_in_the_next_episodes_fingerprint(store: Store):
    env = wrap(Counter(task=counting(1)), store)
    env.reset()
    env.unwrapped.scorer(name="always")(lambda rollout: 1.0)
    env.reset()
    env.close()
    first, second = list(store.episodes())[-2:]
    assert identity(first) == OURS
    recorded = identity(second)[2]
    assert recorded == env.unwrapped.fingerprint().digest != OURS[2]
    assert second.data["environment_spec"]["fingerprint"]["digest"] == recorded


def test_a_snapshot_that_fails_is_an_error_and_the_run_goes_on(store: Store):
    class Broken(Counter):
        def snapshot(self) -> dict[str, Any]:
            if self.state.count == 1:
                raise OSError("no disk")
            return super().snapshot()

    env = wrap(Broken(task=counting(2)), store)
    env.reset()
    env.step(ADD)
    env.step(ADD)
    env.close()
    episode = last(store)
    assert [state and state["count"] for state in episode.states] == [0, None, 2]
    assert episode.steps[0].error["phase"] == "observe_step"
    assert "state: not seen after step 1" in episode.coverage_issues


def test_without_steps_the_first_and_the_last_state_are_kept(store: Store):
    env = wrap(Counter(task=counting(2)), store, capture_steps=False)
    env.reset()
    env.step(ADD)
    env.step(ADD)
    env.close()
    episode = last(store)
    assert (episode.initial_state["count"], episode.final_state["count"]) == (0, 2)
    assert episode.coverage_issues == []


@pytest.mark.parametrize("name", ["", "  "], ids=["empty", "blank"])
def test_an_environment_without_a_name_is_refused_when_it_is_wrapped(name: str, store: Store):
    env = Counter()
    env.name = name
    with pytest.raises(ValueError, match="name must not be blank"):
        wrap(env, store)


def test_other_environments_promise_no_state(store: Store):
    env = wrap(gymnasium.make("CartPole-v1"), store)
    env.reset(seed=0)
    env.close()
    assert last(store).data["observer_id"] is None


@pytest.mark.parametrize("mode", list(AutoresetMode), ids=lambda mode: mode.name.lower())
def test_a_vector_of_them_has_names_and_tasks_and_no_states(mode: AutoresetMode, store: Store):
    makers = [lambda: Counter(task=counting(1)), lambda: Counter(task=counting(2))]
    envs = capture_vector(
        SyncVectorEnv(makers, autoreset_mode=mode), exporter=store, async_capture=False
    )
    envs.reset(seed=1)
    envs.step([ADD, ADD])
    envs.close()
    first, second = sorted(list(store.episodes())[-2:], key=lambda episode: episode.data["case_id"])
    if mode is AutoresetMode.SAME_STEP:  # the first one was reset already, and closed early
        first = next(e for e in reversed(list(store.episodes())) if e.ending == "terminated")
    assert identity(first) == identity(second) == (*OURS[:3], None)
    assert [first.data["case_id"], second.data["case_id"]] == ["to-1", "to-2"]
    assert (first.ending, second.ending) == ("terminated", "closed_early")
    assert first.verify() == []
    assert first.coverage_issues == []


def test_what_a_loop_recorded_is_replayed(store: Store):
    env = wrap(Counter(task=counting(2)), store)
    env.reset()
    env.step(ADD)
    env.step(ADD)
    env.close()
    replay = verify_replay(lambda: Counter(task=counting(2)), last(store))
    assert (replay.verdict, replay.mismatches) == ("same", ())
