from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from envbench import connect
from envbench.environments import (
    CallablePolicy,
    LocalRuntime,
    ScriptedPolicy,
    SubprocessRuntime,
    TaskData,
    TaskDataset,
    ToolCall,
    run_tasks,
    scorer,
    tool,
)
from envbench.environments.running import _shown
from envbench.store.errors import StoreError
from tests.environments.worlds import ADD, Counter, counting

TASKS = TaskDataset("counting", "1", [counting(goal) for goal in (1, 2, 3, 9)])


class Scored(Counter):
    name = "scored"

    @scorer
    def counted(self, rollout: Any) -> bool:
        return bool(self.state.count == rollout.task.expected["count"])


def eager() -> CallablePolicy:
    return CallablePolicy(lambda observation: ADD, agent_id="eager")


def test_rollouts_come_in_the_order_of_the_data_set_repeat_by_repeat():
    rollouts = run_tasks(TASKS, Scored, eager, repeats=2)
    assert [(r.task.task_id, r.episode.data["provenance"]["repeat"]) for r in rollouts] == [
        (f"to-{goal}", repeat) for goal in (1, 2, 3, 9) for repeat in (0, 1)
    ]
    assert [r.reward for r in rollouts] == [1, 1, 1, 1, 1, 1, 0, 0]
    assert rollouts[-1].stop_reason == "truncated"
    assert [len(r.trace.steps) for r in rollouts[::2]] == [1, 2, 3, 6]
    assert rollouts.mean_reward == 0.75
    assert rollouts.summary() == {
        "rollouts": 8,
        "resumed": 0,
        "failures": 0,
        "unscored": 0,
        "mean_reward": 0.75,
        "stop_reasons": {"terminated": 6, "truncated": 2},
    }
    assert repr(rollouts) == (
        "<Rollouts: 8, mean reward 0.75 (failures as 0), 0 failed, 0 unscored>"
    )


def test_what_comes_of_it_does_not_depend_on_how_many_run_at_a_time():
    class Random(Scored):
        name = "random"

        def before_tool(self, call: ToolCall) -> None:
            self.state.count += int(self.np_random.integers(2))

    with connect(":memory:") as alone, connect(":memory:") as together:
        one = run_tasks(TASKS, Random, eager, repeats=3, store=alone)
        eight = run_tasks(TASKS, Random, eager, repeats=3, concurrency=8, store=together)
        assert [r.episode.trajectory_digest for r in one] == [
            r.episode.trajectory_digest for r in eight
        ]
        assert [r.reward for r in one] == [r.reward for r in eight]
        assert together.verify().ok
        assert together.sql("SELECT count(*), count(DISTINCT run_id) FROM episodes").fetchall() == [
            (12, 1)
        ]


def test_a_class_that_is_new_to_all_threads_at_once_is_the_same_to_each():
    class Value(BaseModel):
        number: int

    for _ in range(10):
        together = threading.Barrier(4)

        class Fresh(Counter):
            @tool
            def put(self, value: Value, others: list[Value] | None = None) -> int:
                self.state.count = value.number
                return value.number

        def make(kind: type[Counter] = Fresh, start: threading.Barrier = together) -> Counter:
            start.wait(60)
            return kind()

        script = [ToolCall("put", {"value": {"number": 9}})]
        rollouts = run_tasks(TASKS, make, ScriptedPolicy(script), concurrency=4)
        assert [r.stop_reason for r in rollouts] == ["terminated"] * 4
        assert len({repr(r.episode.data["spaces"]) for r in rollouts}) == 1


def test_each_job_has_an_environment_runtime_and_policy_of_its_own_which_are_closed():
    made: list[Any] = []

    class Closing(Scored):
        def __init__(self) -> None:
            made.append(self)
            self.closed = 0

        def close(self) -> None:
            super().close()
            self.closed += 1

    class Runtime(LocalRuntime):
        def __init__(self) -> None:
            made.append(self)
            self.closed = 0

        def close(self) -> None:
            self.closed += 1

    class Policy:
        def __init__(self) -> None:
            made.append(self)
            self.closed = 0

        def act(self, observation: Any) -> Any:
            return ADD

        def close(self) -> None:
            self.closed += 1

    rollouts = run_tasks(TASKS, Closing, Policy, runtime_factory=Runtime)
    assert [type(each).__name__ for each in made] == ["Closing", "Runtime", "Policy"] * 4
    assert {each.closed for each in made} == {1}
    assert [r.env for r in rollouts] == made[::3]
    assert rollouts[0].env.state.count == 1
    assert rollouts[0].episode.data["cleanup"] == {
        "attempted": True,
        "completed": True,
        "error": None,
    }


def test_failures_stay_in_the_denominator():
    def make(task: TaskData) -> Any:
        assert task.expected is None  # the answer key is not for what makes policies
        if task.task_id == "to-2":
            raise RuntimeError("no policy for this one")
        return ScriptedPolicy([ADD] if task.task_id == "to-3" else [ADD] * 9)

    rollouts = run_tasks(TASKS, Scored, make)
    assert [r.stop_reason for r in rollouts] == ["terminated", "failure", "failure", "truncated"]
    assert [r.reward for r in rollouts] == [1.0, None, None, 0.0]
    assert rollouts.mean_reward == 0.25
    assert [r.task.task_id for r in rollouts.failures] == ["to-2", "to-3"]
    assert rollouts[1].episode.errors[0]["message"] == "no policy for this one"


def test_an_environment_or_runtime_that_cannot_be_made_is_a_failure_of_its_job():
    class Half(Scored):
        count = 0

        def __init__(self) -> None:
            type(self).count += 1
            if self.count % 2:
                raise OSError("no room")

    rollouts = run_tasks(TASKS, Half, eager)
    assert [r.stop_reason for r in rollouts] == ["failure", "terminated", "failure", "truncated"]
    assert rollouts[0].env is None
    assert rollouts[0].episode.data["environment_id"] == "scored"
    assert rollouts[0].episode.data["provenance"]["environment_version"] == "1.0.0"
    assert rollouts[0].episode.errors[0]["phase"] == "setup"

    def no_runtime() -> Any:
        raise OSError("no process")

    rollouts = run_tasks(TASKS, Scored, eager, runtime_factory=no_runtime)
    assert {r.stop_reason for r in rollouts} == {"failure"}
    rollouts = run_tasks(TASKS, lambda: 3, eager)  # type: ignore[arg-type,return-value]
    assert rollouts[0].episode.errors[0]["message"] == (
        "the environment factory returned int, not an Environment"
    )


@pytest.mark.parametrize("hook", ["setup", "observe", "info"])
def test_a_reset_that_fails_is_the_failure_of_the_policy_and_is_done(hook: str):
    def fails(self: Any, *given: Any) -> Any:
        raise OSError("no world")

    broken = type("Broken", (Scored,), {hook: fails})
    with connect(":memory:") as store:
        first = run_tasks(TASKS, broken, eager, store=store)
        provenance = first[0].episode.data["provenance"]
        assert (first[0].stop_reason, provenance["agent_id"]) == ("failure", "eager")
        assert run_tasks(TASKS, broken, eager, store=store).resumed == 4
        others = run_tasks(TASKS, broken, lambda: ScriptedPolicy([]), store=store)
        assert others.resumed == 0


def test_where_the_environment_could_not_be_made_the_next_run_is_another_attempt():
    class Down(Scored):
        is_down = True

        def __init__(self) -> None:
            if Down.is_down:
                raise OSError("no room")

    with connect(":memory:") as store:
        first = run_tasks(TASKS, Down, eager, store=store)
        second = run_tasks(TASKS, Down, eager, store=store)
        assert (second.resumed, second[0].episode.data["provenance"]["previous"]) == (
            0,
            first[0].episode.episode_id,
        )
        Down.is_down = False
        third = run_tasks(TASKS, Down, eager, store=store)
        assert third[0].episode.data["provenance"]["previous"] == second[0].episode.episode_id
        assert run_tasks(TASKS, Down, eager, store=store).resumed == 4


def test_what_is_no_environment_is_said_in_every_run():
    message = "the environment factory returned NoneType, not an Environment"
    none: Any = lambda: None  # noqa: E731
    with connect(":memory:") as store:
        for runtime_factory in (None, LocalRuntime):
            run = run_tasks(TASKS, none, eager, store=store, runtime_factory=runtime_factory)
            assert [r.episode.errors[0]["message"] for r in run] == [message] * 4


def test_an_environment_that_does_not_close_does_not_stop_a_run_that_is_resumed():
    class Stuck(Scored):
        def close(self) -> None:
            raise OSError("busy")

    with connect(":memory:") as store:
        run_tasks(TASKS, Stuck, eager, store=store)
        assert run_tasks(TASKS, Stuck, eager, store=store).resumed == 4


@pytest.mark.parametrize("seed", [2**63 - 1, 2**63, 10**30])
def test_large_seeds_are_recognized(seed: int):
    tasks = TaskDataset("large", "1", [counting(1, seed=seed)])
    with connect(":memory:") as store:
        (first,) = run_tasks(tasks, Scored, eager, store=store)
        assert first.episode.data["seed"] == seed
        assert run_tasks(tasks, Scored, eager, store=store).resumed == 1


def test_a_store_that_is_open_for_reading_gives_what_was_done_and_takes_nothing_new(tmp_path: Path):
    path = tmp_path / "store.duckdb"
    run_tasks(TASKS, Scored, eager, store=path)
    with connect(path, read_only=True) as store:
        assert run_tasks(TASKS, Scored, eager, store=store).resumed == 4
        with pytest.raises(StoreError, match="does not have the tasks of more"):
            run_tasks(TaskDataset("more", "1", [counting(2)]), Scored, eager, store=store)
        with pytest.raises(StoreError, match="open for reading only"):
            run_tasks(TASKS, Scored, eager, store=store, repeats=2)


def test_a_reward_that_is_not_finite_is_no_reward():
    class Odd(Counter):
        def step(self, action: Any) -> Any:
            observation, _, terminated, truncated, info = super().step(action)
            return observation, math.inf, terminated, truncated, info

    run = run_tasks(TaskDataset("one", "1", [counting(1)]), Odd, eager)
    assert (run[0].reward, run.mean_reward, len(run.unscored)) == (None, None, 1)
    assert run[0].episode.coverage_issues[0].startswith("contract at step 1")


def test_one_environment_for_two_jobs_at_a_time_is_refused():
    shared = Scored()
    both = threading.Barrier(2, timeout=60)

    def make() -> Scored:
        both.wait()
        return shared

    class Waiting:
        agent_id = "waiting"

        def act(self, observation: Any) -> Any:
            refused.wait(timeout=60)
            return ADD

    refused = threading.Event()
    tasks = TaskDataset("two", "1", [counting(1), counting(2)])
    # the job that is refused makes a policy all the same, to name it
    made: list[Any] = []

    def policy() -> Any:
        made.append(Waiting())
        if len(made) == 2:
            refused.set()
        return made[-1]

    run = run_tasks(tasks, make, policy, concurrency=2)
    (failed,) = run.failures
    assert failed.episode.errors[0]["message"] == (
        "the environment factory returned an environment that another job is using: make a new"
        " one each time"
    )
    # one after the other it can be used again
    assert not run_tasks(tasks, lambda: shared, eager).failures


def test_tasks_are_kept_once_by_runs_at_the_same_time():
    with connect(":memory:") as store:
        threads = [
            threading.Thread(
                target=run_tasks, args=(TASKS, Scored, eager), kwargs={"store": store, "run_id": i}
            )
            for i in "abcd"
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert store.sql("SELECT count(*) FROM tasks").fetchall() == [(4,)]
        assert len(store.episodes()) == 16


def test_a_policy_that_does_not_close_is_known_again():
    class Stuck:
        agent_id = "stuck"

        def act(self, observation: Any) -> Any:
            return ADD

        def close(self) -> None:
            raise OSError("busy")

    with connect(":memory:") as store:
        run_tasks(TASKS, Scored, Stuck, store=store)
        assert run_tasks(TASKS, Scored, Stuck, store=store).resumed == 4


def test_an_unscored_rollout_is_no_0():
    class Odd(Scored):
        @scorer
        def counted(self, rollout: Any) -> float:
            return 1 / (self.goal - 2)

    rollouts = run_tasks(TASKS, Odd, eager)
    assert [r.reward for r in rollouts] == [-1.0, None, 1.0, 1 / 7]
    assert [r.task.task_id for r in rollouts.unscored] == ["to-2"]
    assert rollouts.mean_reward == pytest.approx(1 / 21)
    assert run_tasks(TaskDataset("none", "1", []), Odd, eager).mean_reward is None


def test_the_store_holds_the_tasks_without_the_answer_keys():
    with connect(":memory:") as store:
        run_tasks(TASKS, Scored, eager, store=store)
        run_tasks(TASKS, Scored, eager, store=store)
        rows = store.sql(
            "SELECT dataset_name, dataset_version, task_index, task_id, input, metadata FROM tasks"
            " WHERE dataset_hash = ? ORDER BY task_index",
            [TASKS.content_hash],
        ).fetchall()
        assert rows[1] == ("counting", "1", 1, "to-2", '"Count to 2"', '{"goal":2,"seed":7}')
        assert len(rows) == 4
        assert store.verify().ok
        assert store.sql(
            "SELECT DISTINCT labels ->> '$.dataset.name' FROM episodes"
        ).fetchall() == [("counting",)]


def counted(store: Any) -> int:
    return int(store.sql("SELECT count(*) FROM episodes").fetchall()[0][0])


def test_what_was_done_is_not_done_again():
    with connect(":memory:") as store:
        first = run_tasks(TASKS, Scored, eager, store=store)
        again = run_tasks(TASKS, Scored, eager, store=store, repeats=2)
        assert (counted(store), again.resumed) == (8, 4)
        assert [r.episode for r in again[::2]] == [r.episode for r in first]
        assert [r.reward for r in again] == [1, 1, 1, 1, 1, 1, 0, 0]
        assert again[0].env is None
        assert again[0].trace == first[0].trace
        fresh = run_tasks(TASKS, Scored, eager, store=store, resume=False)
        assert (counted(store), fresh.resumed) == (12, 0)


def test_what_another_environment_policy_or_data_set_did_is_not_taken_for_this_one_s():
    class Other(Scored):
        def done(self) -> bool:
            return super().done() and True

    class Renamed(Scored):
        name = "renamed"

    class Newer(Scored):
        version = "2.0.0"

    with connect(":memory:") as store:
        script = [ADD] * 9
        run_tasks(TASKS, Scored, lambda: ScriptedPolicy(script), store=store)
        for environment, policy, tasks in (
            (Other, lambda: ScriptedPolicy(script), TASKS),
            (Renamed, lambda: ScriptedPolicy(script), TASKS),
            (Newer, lambda: ScriptedPolicy(script), TASKS),
            (Scored, lambda: ScriptedPolicy([*script, ADD]), TASKS),
            (Scored, lambda: ScriptedPolicy(script, agent_id="other"), TASKS),
            (Scored, lambda: ScriptedPolicy(script), TaskDataset("counting", "2", TASKS.tasks)),
        ):
            assert run_tasks(tasks, environment, policy, store=store).resumed == 0
        assert run_tasks(TASKS, Scored, lambda: ScriptedPolicy(script), store=store).resumed == 4


def test_an_interrupted_run_goes_on_where_it_was():
    interrupt = threading.Event()
    interrupt.set()

    class Policy:
        def identity(self) -> Any:
            return "the same"

        def act(self, observation: Any) -> Any:
            if interrupt.is_set() and observation.asked == "Count to 3" and observation.count == 1:
                raise KeyboardInterrupt
            return ADD

    with connect(":memory:") as store:
        with pytest.raises(KeyboardInterrupt):
            run_tasks(TASKS, Scored, Policy, store=store)
        assert counted(store) == 3
        interrupt.clear()
        rollouts = run_tasks(TASKS, Scored, Policy, store=store)
        assert (counted(store), rollouts.resumed) == (5, 2)
        (broken,) = store.episodes("ending = 'interrupted'")
        assert [r.stop_reason for r in rollouts] == ["terminated"] * 3 + ["truncated"]
        assert rollouts[2].episode.data["provenance"]["previous"] == broken.episode_id
        assert run_tasks(TASKS, Scored, Policy, store=store).resumed == 4


def test_failures_are_done_unless_they_are_to_be_tried_again():
    class Flaky:
        agent_id = "flaky"
        down = True

        def identity(self) -> Any:
            return {"endpoint": "x"}

        def act(self, observation: Any) -> Any:
            if Flaky.down and observation.asked == "Count to 2":
                raise ConnectionError("down")
            return ADD

    with connect(":memory:") as store:
        first = run_tasks(TASKS, Scored, Flaky, store=store)
        assert [r.failed for r in first] == [False, True, False, False]
        assert run_tasks(TASKS, Scored, Flaky, store=store).resumed == 4
        Flaky.down = False
        again = run_tasks(TASKS, Scored, Flaky, store=store, retry_failures=True)
        assert (again.resumed, again[1].reward) == (3, 1.0)
        assert again[1].episode.data["provenance"]["previous"] == first[1].episode.episode_id
        last = run_tasks(TASKS, Scored, Flaky, store=store, retry_failures=True)
        assert (last.resumed, last[1].episode) == (4, again[1].episode)


def test_a_named_run_goes_on_with_what_it_did_itself():
    with connect(":memory:") as store:
        run_tasks(TASKS, Scored, eager, store=store, run_id="monday")
        assert run_tasks(TASKS, Scored, eager, store=store, run_id="monday").resumed == 4
        assert run_tasks(TASKS, Scored, eager, store=store, run_id="tuesday").resumed == 0
        assert store.sql(
            "SELECT run_id, count(*) FROM episodes GROUP BY ALL ORDER BY 1"
        ).fetchall() == [
            ("monday", 4),
            ("tuesday", 4),
        ]


def test_a_path_is_a_store_for_the_whole_run(tmp_path: Path):
    run_tasks(TASKS, Scored, eager, store=tmp_path / "s.duckdb", concurrency=4)
    again = run_tasks(TASKS, Scored, eager, store=str(tmp_path / "s.duckdb"))
    assert again.resumed == 4
    run_tasks(TASKS, Scored, eager, store=tmp_path / "s.jsonl")
    lines = (tmp_path / "s.jsonl").read_text()
    assert lines.count('"rl.episode"') == 4


def test_an_error_can_be_raised_and_stops_the_run():
    started = []

    def make(task: TaskData) -> Any:
        started.append(task.task_id)
        return ScriptedPolicy([] if task.task_id == "to-2" else [ADD] * 9)

    with pytest.raises(RuntimeError, match="the script of 0 actions is used up"):
        run_tasks(TASKS, Scored, make, raise_errors=True)
    assert started == ["to-1", "to-2"]
    with pytest.raises(RuntimeError, match="the script of 0 actions is used up"):
        run_tasks(TASKS, Scored, make, raise_errors=True, concurrency=2)


def test_when_one_job_is_interrupted_those_beside_it_stop_before_their_next_action():
    running = threading.Event()
    slow = TaskDataset("slow", "1", [counting(1), counting(10**9)])

    class Long(Scored):
        max_turns = None

    def act(observation: Any) -> Any:
        if observation.asked == "Count to 1":
            running.wait(60)
            raise KeyboardInterrupt
        running.set()
        return ADD

    with connect(":memory:") as store:
        with pytest.raises(KeyboardInterrupt):
            run_tasks(slow, Long, lambda: CallablePolicy(act), concurrency=2, store=store)
        endings = store.sql("SELECT ending FROM episodes").fetchall()
    assert endings == [("interrupted",), ("interrupted",)]


def test_policies_may_be_given_in_many_ways():
    policy = ScriptedPolicy([ADD] * 9)
    assert run_tasks(TASKS, Scored, policy).mean_reward == 0.75
    assert policy._taken == 0  # each job has a copy

    def interact(env: Any, observation: Any, info: Any) -> str:
        while True:
            _, _, terminated, truncated, _ = env.step(ADD)
            if terminated or truncated:
                return "done"

    assert run_tasks(TASKS, Scored, interact).mean_reward == 0.75

    class Client:
        def policy(self, *, model: str) -> Any:
            return CallablePolicy(lambda observation: ADD, agent_id=model)

    rollouts = run_tasks(TASKS, Scored, Client(), model="m-1")
    assert {r.episode.data["provenance"]["agent_id"] for r in rollouts} == {"m-1"}


def test_frames_can_be_kept():
    rollouts = run_tasks(TASKS, lambda: Scored(render_mode="ansi"), eager, render=True)
    assert len(rollouts[1].episode.frames) == 3


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"dataset": [counting(1)]}, TypeError, "dataset must be a TaskDataset, not list"),
        ({"environment_factory": Counter()}, TypeError, "environment_factory must be callable"),
        ({"policy_factory": 3}, TypeError, "policy_factory must be callable, a policy or a client"),
        ({"policy_factory": lambda a, b: 1}, TypeError, "policy_factory takes 2 arguments"),
        ({"model": "m"}, TypeError, "model= goes with a client, not with a policy factory"),
        ({"runtime_factory": LocalRuntime()}, TypeError, "runtime_factory must be callable"),
        ({"repeats": 0}, ValueError, "repeats must be at least 1, not 0"),
        ({"concurrency": True}, TypeError, "concurrency must be an integer, not True"),
        ({"run_id": " "}, ValueError, "run_id must not be blank"),
        (
            {"dataset": TaskDataset("d", "1", [TaskData("t", "x", metadata={"tags": "a"})])},
            TypeError,
            "tags must be a sequence",
        ),
    ],
)
def test_bad_arguments_are_refused_before_anything_runs(arguments, error, message):
    whole: dict[str, Any] = {
        "dataset": TASKS,
        "environment_factory": Scored,
        "policy_factory": eager,
        **arguments,
    }
    with pytest.raises(error, match=message):
        run_tasks(**whole)


def test_a_progress_bar_is_shown_where_it_can_be_seen(capsys, monkeypatch):
    run_tasks(TASKS, Scored, eager)
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("NO_COLOR", raising=False)
    run_tasks(TASKS, Scored, lambda: ScriptedPolicy([ADD]))
    shown = capsys.readouterr().err
    assert "4/4" in shown
    assert "tasks, 3 failed" in shown
    run_tasks(TASKS, Scored, eager, progress=False)
    assert capsys.readouterr().err == ""
    with _shown(4, 1, True):
        pass
    assert "tasks, 1 done before" in capsys.readouterr().err


@pytest.mark.slow
def test_tools_of_each_job_run_in_a_process_of_its_own():
    rollouts = run_tasks(
        TASKS, Scored, eager, concurrency=2, runtime_factory=lambda: SubprocessRuntime(timeout=60)
    )
    here = run_tasks(TASKS, Scored, eager)
    assert [r.episode.trajectory_digest for r in rollouts] == [
        r.episode.trajectory_digest for r in here
    ]


KILLED = """
import os, signal, sys
from envbench.environments import CallablePolicy, run_tasks
from tests.environments.test_running import TASKS, Scored
from tests.environments.worlds import ADD

def act(observation):
    if os.environ["KILL"] and observation.asked == "Count to 3" and observation.count == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return ADD

def make():
    return CallablePolicy(act, agent_id="a")

rollouts = run_tasks(TASKS, Scored, make, store=sys.argv[1])
print(rollouts.resumed, rollouts.mean_reward)
"""


@pytest.mark.slow
def test_a_run_that_was_killed_goes_on_in_another_process(tmp_path: Path):
    file = tmp_path / "run.py"
    file.write_text(KILLED)

    def run(kill: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(file), str(tmp_path / "s.duckdb")],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "KILL": kill, "PYTHONPATH": str(Path(__file__).parents[2])},
        )

    assert run("yes").returncode == -9
    done = run("")
    assert done.stdout == "2 0.75\n", done.stderr
