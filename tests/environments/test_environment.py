from __future__ import annotations

import copy
import gc
import pickle
import threading
import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

from envbench.environments import (
    ActionSpace,
    Environment,
    Observation,
    State,
    TaskData,
    ToolCall,
    ToolRecord,
    tool,
)
from tests.environments.worlds import ADD, Counter, CounterObservation, CounterState, counting


def test_gymnasium_s_own_check_passes_without_a_warning():
    gymnasium.register("CounterForTests-v0", lambda **kwargs: Counter(task=counting(), **kwargs))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            check_env(gymnasium.make("CounterForTests-v0").unwrapped)
            check_env(gymnasium.make("CounterForTests-v0", render_mode="ansi").unwrapped)
    finally:
        del gymnasium.registry["CounterForTests-v0"]


def test_without_a_spec_the_check_warns_of_nothing_but_that():
    with pytest.warns(UserWarning, match="not having a spec") as seen:
        check_env(Counter(task=counting()))
    assert len(seen) == 1


def test_an_environment_without_tools_passes_the_check():
    class Quiz(Environment[CounterObservation, State]):
        def observe(self) -> CounterObservation:
            return CounterObservation(asked="2 + 2?", count=0)

    gymnasium.register("QuizForTests-v0", lambda **kwargs: Quiz(task=counting(), **kwargs))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            check_env(gymnasium.make("QuizForTests-v0").unwrapped)
    finally:
        del gymnasium.registry["QuizForTests-v0"]


def test_an_episode_as_gymnasium_sees_it():
    env = Counter()
    observation, info = env.reset(options={"task": counting()})
    assert (observation.asked, observation.count) == ("Count to 3", 0)
    assert info == {"task_id": "to-3"}
    assert (env.seed, env.state.seed, env.task) == (7, 7, counting())
    observation, reward, terminated, truncated, info = env.step(ADD)
    assert (observation.count, reward, terminated, truncated) == (1, 0.0, False, False)
    assert info == {"tool_calls": [{"name": "add", "arguments": {}, "result": 1, "children": []}]}
    observation, reward, terminated, truncated, info = env.step(
        {"name": "add", "arguments": {"by": 2}}
    )
    assert (observation.count, reward, terminated, truncated) == (3, 0.0, True, False)
    assert info["stop_reason"] == "terminated"
    assert info["rewards"] == {"step": 0.0, "end": None}
    assert info["scores"] == {}
    with pytest.raises(ResetNeeded, match="the episode has ended"):
        env.step(ADD)
    env.reset()
    assert env.state.count == 0


def test_a_step_before_the_first_reset_is_refused():
    with pytest.raises(ResetNeeded, match="step before a reset"):
        Counter(task=counting()).step(ADD)
    with pytest.raises(ResetNeeded, match="render before reset"):
        Counter(task=counting(), render_mode="ansi").render()


def test_a_step_after_a_reset_that_failed_is_refused():
    class Broken(Counter):
        def setup(self, task: TaskData) -> None:
            super().setup(task)
            with pytest.raises(ResetNeeded):
                self.step(ADD)
            raise OSError("no world")

    env = Broken(task=counting())
    with pytest.raises(OSError, match="no world"):
        env.reset()
    with pytest.raises(ResetNeeded, match="step before a reset"):
        env.step(ADD)


def test_a_world_can_be_made_by_hand_to_test_it():
    env = Counter()
    env.setup(counting())
    assert (env.seed, env.add(), env.add(2), env.done()) == (7, 1, 3, True)


def test_max_turns_truncates_and_being_done_wins_over_it():
    env = Counter(task=counting(6))
    env.reset()
    flags = [env.step(ADD)[2:4] for _ in range(6)]
    assert flags == [(False, False)] * 5 + [(True, False)]
    env = Counter(task=counting(7))
    env.reset()
    steps = [env.step(ADD) for _ in range(6)]
    assert [step[2:4] for step in steps] == [(False, False)] * 5 + [(False, True)]
    assert steps[-1][4]["stop_reason"] == "truncated"
    with pytest.raises(ResetNeeded):
        env.step(ADD)


def test_a_failing_call_uses_a_turn_and_what_it_wrote_is_there():
    env = Counter(task=counting())
    env.reset()
    observation, reward, _, _, info = env.step(ToolCall("fail"))
    assert info["tool_calls"][0]["error"] == {
        "kind": "raised",
        "type": "ValueError",
        "message": "counted and failed",
    }
    assert (observation.count, reward) == (1, 0.0)
    assert isinstance(env.last_tool_exception, ValueError)
    assert env.last_tool_exception.__traceback__ is not None
    env.step(ADD)
    assert env.last_tool_exception is None
    assert len(env.trace.steps) == 2


@pytest.mark.parametrize(
    ("goal", "turns_before", "reason"), [(3, 0, "policy_stop"), (9, 5, "truncated")]
)
def test_a_text_is_an_answer(goal, turns_before, reason):
    env = Counter(task=counting(goal))
    env.reset()
    for _ in range(turns_before):
        env.step(ADD)
    _, _, terminated, truncated, info = env.step("I give up")
    assert env.answer == "I give up"
    assert (terminated, truncated) == (False, reason == "truncated")
    assert info["stop_reason"] == reason
    assert info["tool_calls"] == []


def test_a_text_that_makes_the_world_done_terminates():
    class Quiz(Counter):
        def done(self) -> bool:
            return self.answer == "4"

    env = Quiz(task=counting())
    env.reset()
    _, _, terminated, _, info = env.step("4")
    assert (terminated, info["stop_reason"]) == (True, "terminated")


@pytest.mark.parametrize("action", [3, None, ["add"], {"name": "add"}])
def test_what_is_no_action_is_refused_and_uses_no_turn(action):
    env = Counter(task=counting())
    env.reset()
    with pytest.raises(ValueError, match=r"action|tool call"):
        env.step(action)
    assert env.trace.steps == []
    env.step(ADD)


def test_the_seed_is_the_one_given_else_the_task_s_else_drawn():
    env = Counter(task=counting())
    env.reset(seed=99)
    assert (env.seed, env.np_random.integers(10**9)) == (
        99,
        np.random.default_rng(99).integers(10**9),
    )
    env.reset()
    assert env.seed == 7
    free = Counter(task=TaskData("t", "x"))
    free.reset(seed=1)
    free.reset()
    first = free.seed
    free.reset()
    second = free.seed
    free.reset(seed=1)
    free.reset()
    assert (free.seed, first != second) == (first, True)


@pytest.mark.parametrize("seed", [-1, 1.5, "7", True])
def test_a_seed_in_the_metadata_that_is_none_is_refused(seed):
    env = Counter(task=counting(seed=seed))
    with pytest.raises(ValueError, match="the seed in the metadata of task 'to-3' must be"):
        env.reset()


def test_a_task_is_bound_by_the_reset_or_the_constructor():
    with pytest.raises(ValueError, match=r"Counter has no task: reset\(options="):
        Counter().reset()
    with pytest.raises(TypeError, match=r"options\['task'\] must be a TaskData, not dict"):
        Counter().reset(options={"task": {"task_id": "t"}})
    with pytest.raises(TypeError, match="task must be a TaskData or several, not str"):
        Counter(task="x")
    with pytest.raises(TypeError, match="task must hold TaskData only, not int"):
        Counter(task=[1])
    with pytest.raises(ValueError, match="task holds no task"):
        Counter(task=[])
    env = Counter(task=counting(3))
    env.reset(options={"task": counting(5), "more": 1})
    assert (env.task.task_id, env.goal, env.options) == ("to-5", 5, {"more": 1})
    env.reset()
    assert (env.task.task_id, env.options) == ("to-5", {})


def test_of_several_tasks_one_is_drawn_at_each_reset_and_the_seed_decides():
    tasks = [counting(goal) for goal in range(1, 9)]

    def drawn(env: Counter) -> list[str]:
        first = env.reset(seed=5)[1]["task_id"]
        return [first] + [env.reset()[1]["task_id"] for _ in range(20)]

    one = drawn(Counter(task=tasks))
    assert one == drawn(Counter(task=iter(tasks)))
    assert len(set(one)) > 4


def test_rendering_gives_the_observation_s_text():
    env = Counter(task=counting(), render_mode="ansi")
    env.reset()
    assert env.render() == "Count to 3: 0"
    env.step(ADD)
    assert env.render() == "Count to 3: 1"
    silent = Counter(task=counting())
    silent.reset()
    assert silent.render() is None
    with pytest.raises(ValueError, match="render_mode must be None or one of 'ansi', not 'human'"):
        Counter(render_mode="human")


def test_spaces_know_the_tools_and_the_class_of_observations():
    env = Counter()
    assert isinstance(env.action_space, ActionSpace)
    assert [each.name for each in env.action_space.tools] == ["add", "fail"]
    assert env.observation_space.model is CounterObservation

    class Later(Counter):
        pass

    assert Later().observation_space.model is CounterObservation

    class Bare(Environment):  # type: ignore[type-arg]
        def observe(self) -> Any:
            return CounterObservation(asked="", count=0)

    assert Bare().observation_space.model is Observation


def test_a_name_is_the_class_s_unless_it_is_told():
    class Plain(Environment[CounterObservation, State]):
        pass

    class More(Plain):
        pass

    class Renamed(Counter):
        pass

    assert (Plain.name, More.name, Renamed.name, Counter.name) == (
        "Plain",
        "More",
        "counter",
        "counter",
    )


def test_a_constructor_of_one_s_own_need_not_call_ours():
    class Own(Counter):
        def __init__(self, step: int) -> None:
            self.by = step

        @tool
        def add_own(self) -> int:
            self.state.count += self.by
            return self.state.count

    env = Own(2)
    env.reset(options={"task": counting()})
    assert env.step(ToolCall("add_own"))[0].count == 2


class Hooked(Counter):
    def setup(self, task: TaskData) -> None:
        super().setup(task)
        self.seen: list[Any] = ["setup"]

    def before_tool(self, call: ToolCall) -> None:
        self.seen.append(("before", call.name, call.arguments))
        if call.arguments.get("by") == 13:
            raise PermissionError("13 is not allowed")

    def after_tool(self, record: ToolRecord) -> None:
        self.seen.append(("after", record.name, record.result, record.error))
        if record.error is None:
            self.add_reward(0.25)

    def on_text(self, text: str) -> None:
        self.seen.append(("text", text))

    def on_end(self, stop_reason: str) -> None:
        self.seen.append(("end", stop_reason))
        self.add_reward(1)

    def info(self) -> dict[str, Any]:
        return {"seen": len(self.seen)}


def test_hooks_are_called_in_order():
    env = Hooked(task=counting(2))
    _, info = env.reset()
    assert info == {"task_id": "to-2", "seen": 1}
    assert env.step(ADD)[1] == 0.25
    _, reward, terminated, _, info = env.step(ADD)
    assert (reward, terminated, info["seen"]) == (1.25, True, 6)
    assert [each if isinstance(each, str) else each[0] for each in env.seen] == [
        "setup",
        "before",
        "after",
        "before",
        "after",
        "end",
    ]
    assert env.seen[2][1:3] == ("add", 1)
    env.reset()
    env.step("bye")
    assert env.seen == ["setup", ("text", "bye"), ("end", "policy_stop")]


def test_a_hook_before_a_tool_can_refuse_the_call():
    env = Hooked(task=counting())
    env.reset()
    observation, reward, _, _, info = env.step(ToolCall("add", {"by": 13}))
    assert info["tool_calls"][0]["error"] == {
        "kind": "refused",
        "type": "PermissionError",
        "message": "13 is not allowed",
    }
    assert (observation.count, reward) == (0, 0.0)


def test_hooks_are_not_asked_about_tools_that_are_not_there():
    env = Hooked(task=counting())
    env.reset()
    env.step(ToolCall("nope"))
    assert env.seen == ["setup"]


@pytest.mark.parametrize("hook", ["after_tool", "done", "observe", "on_end", "on_text"])
def test_a_hook_that_fails_is_the_environment_s_failure(hook):
    def fail(self: Any, *args: Any) -> Any:
        raise OSError(f"{hook} is broken")

    env = type("Broken", (Counter,), {})(task=counting(1))
    env.reset()
    setattr(type(env), hook, fail)
    with pytest.raises(OSError, match=f"{hook} is broken"):
        env.step("x" if hook == "on_text" else ADD)


def test_an_info_may_not_say_what_the_environment_says():
    class Odd(Counter):
        def info(self) -> dict[str, Any]:
            return {"tool_calls": []}

    with pytest.raises(ValueError, match=r"info\(\) of Odd returned 'tool_calls'"):
        Odd(task=counting()).reset()
    type.__setattr__(Odd, "info", lambda self: [1])
    with pytest.raises(TypeError, match=r"info\(\) of Odd must return a dict, not list"):
        Odd(task=counting()).reset()


def test_an_observation_that_is_none_is_refused():
    class Odd(Counter):
        def observe(self) -> Any:
            return {"asked": "x"}

    with pytest.raises(TypeError, match=r"observe\(\) of Odd must return an Observation, not dict"):
        Odd(task=counting()).reset()

    class Nothing(Environment[CounterObservation, State]):
        pass

    with pytest.raises(NotImplementedError, match=r"Nothing must define observe\(\)"):
        Nothing(task=counting()).reset()


@pytest.mark.parametrize(
    ("amount", "error"),
    [
        (float("nan"), ValueError),
        (float("inf"), ValueError),
        ("1", TypeError),
        (None, TypeError),
        (True, TypeError),
    ],
)
def test_a_reward_that_is_no_number_is_refused(amount, error):
    env = Counter(task=counting())
    env.reset()
    with pytest.raises(error):
        env.add_reward(amount)


def test_the_state_is_the_default_snapshot_as_plain_data():
    class Open(Counter):
        snapshot = Environment.snapshot

    env = Open(task=counting())
    env.reset()
    assert env.trace.initial_snapshot == {"seed": 7, "count": 0, "secret": "hidden"}

    class Stateless(Environment[CounterObservation, State]):
        def observe(self) -> CounterObservation:
            return CounterObservation(asked="", count=0)

    bare = Stateless(task=counting())
    bare.reset()
    assert bare.trace.initial_snapshot == {}


def test_snapshots_are_read_once_a_step_and_copied():
    class Live(Counter):
        def setup(self, task: TaskData) -> None:
            super().setup(task)
            self.reads = 0
            self.live: dict[str, Any] = {"rows": []}

        def snapshot(self) -> dict[str, Any]:
            self.reads += 1
            self.live["rows"].append(self.reads)
            return self.live

    env = Live(task=counting())
    env.reset()
    env.step(ADD)
    assert env.trace.initial_snapshot == {"rows": [1]}
    assert env.trace.steps[0].snapshot == {"rows": [1, 2]}
    assert env.observe_state() == {"rows": [1, 2]}  # what was read in the step
    assert env.observe_state() == {"rows": [1, 2, 3]}  # nothing was: read again


def test_a_snapshot_that_fails_does_not_stop_the_episode():
    class Blind(Counter):
        def snapshot(self) -> dict[str, Any]:
            raise OSError("disk gone")

    env = Blind(task=counting())
    env.reset()
    assert env.step(ADD)[0].count == 1
    assert env.trace.steps[0].snapshot is None
    with pytest.raises(OSError, match="disk gone"):
        env.observe_state()


def test_an_observation_that_is_reused_is_copied_into_the_trace():
    class Reusing(Counter):
        def setup(self, task: TaskData) -> None:
            super().setup(task)
            self.shown = CounterObservation(asked="", count=0)

        def observe(self) -> CounterObservation:
            self.shown.count = self.state.count
            return self.shown

    env = Reusing(task=counting())
    env.reset()
    env.step(ADD)
    env.step(ADD)
    assert [step.observation.count for step in env.trace.steps] == [1, 2]


class Waiting(Environment[CounterObservation, State]):
    def observe(self) -> CounterObservation:
        return CounterObservation(asked="", count=0)

    @tool
    async def loop_and_thread(self) -> list[str]:
        import asyncio

        await asyncio.sleep(0)
        self.loops = [*vars(self).get("loops", []), id(asyncio.get_running_loop())]
        return [threading.current_thread().name, str(len(set(self.loops)))]

    @tool
    async def fail(self) -> None:
        raise KeyError("async")

    @tool
    def forgot_to_wait(self) -> Any:
        return self.loop_and_thread()


def test_asynchronous_tools_share_one_loop_of_the_environment_s_own():
    env = Waiting(task=counting())
    env.reset()
    first = env.step(ToolCall("loop_and_thread"))[4]["tool_calls"][0]
    second = env.step(ToolCall("loop_and_thread"))[4]["tool_calls"][0]
    assert first["result"] == second["result"] == ["envbench coroutines", "1"]
    error = env.step(ToolCall("fail"))[4]["tool_calls"][0]["error"]
    assert (error["type"], error["message"]) == ("KeyError", "'async'")
    # one that is returned is awaited
    record = env.step(ToolCall("forgot_to_wait"))[4]["tool_calls"][0]
    assert record["result"] == ["envbench coroutines", "1"]
    env.close()
    env.close()
    assert "envbench coroutines" not in {each.name for each in threading.enumerate()}
    env.reset()
    assert env.step(ToolCall("loop_and_thread"))[4]["tool_calls"][0]["result"][1] == "2"
    env.close()


def test_asynchronous_tools_run_inside_a_running_loop_as_in_a_notebook():
    import asyncio

    async def cell() -> Any:
        env = Waiting(task=counting())
        env.reset()
        try:
            return env.step(ToolCall("loop_and_thread"))[4]["tool_calls"][0]["result"][0]
        finally:
            env.close()

    assert asyncio.run(cell()) == "envbench coroutines"


def test_waiting_on_the_loop_for_itself_is_refused():
    class Odd(Waiting):
        @tool
        async def wait_for_myself(self) -> Any:
            return self.wait_for(self.loop_and_thread())

    env = Odd(task=counting())
    env.reset()
    error = env.step(ToolCall("wait_for_myself"))[4]["tool_calls"][0]["error"]
    env.close()
    assert error["message"] == "this runs on the event loop already: await the coroutine instead"


def test_a_dropped_environment_lets_go_of_its_thread():
    env = Waiting(task=counting())
    env.reset()
    env.step(ToolCall("loop_and_thread"))
    del env
    gc.collect()
    assert "envbench coroutines" not in {each.name for each in threading.enumerate()}


def test_two_environments_in_two_threads_keep_apart():
    start = threading.Barrier(2)
    results: dict[int, list[int]] = {}

    def play(number: int) -> None:
        env = Counter(task=counting(5))
        env.reset()
        start.wait()
        results[number] = [env.step(ToolCall("add"))[0].count for _ in range(5)]

    threads = [threading.Thread(target=play, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {0: [1, 2, 3, 4, 5], 1: [1, 2, 3, 4, 5]}


def test_a_tool_may_step_another_environment():
    class Outer(Counter):
        @tool
        def play(self) -> int:
            inner = Counter(task=counting(2))
            inner.reset()
            inner.step(ADD)
            return inner.step(ADD)[4]["tool_calls"][0]["result"]  # type: ignore[no-any-return]

    env = Outer(task=counting())
    env.reset()
    record = env.step(ToolCall("play"))[4]["tool_calls"][0]
    assert (record["result"], record["children"]) == (2, [])


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_copy_goes_on_by_itself(copied):
    env = Counter(task=counting())
    env.reset()
    env.step(ToolCall("fail"))
    other = copied(env)
    assert other.step(ADD)[0].count == 2
    assert other.step(ADD)[2] is True
    assert (env.state.count, len(env.trace.steps), len(other.trace.steps)) == (1, 1, 3)
    assert env.step(ADD)[0].count == 2
    assert isinstance(other.state, CounterState)


def test_the_runtime_must_be_one():
    with pytest.raises(TypeError, match=r"a runtime has run and close: 3 has no run\(\)"):
        Counter(runtime=3)  # type: ignore[arg-type]


def test_wrappers_of_gymnasium_work_around_it():
    env = gymnasium.wrappers.TimeLimit(Counter(task=counting(5)), max_episode_steps=2)
    env.reset()
    env.step(ADD)
    assert env.step(ADD)[3] is True


def test_the_fingerprint_is_of_what_it_does_not_of_what_it_did():
    fresh, used = Counter(), Counter()
    used.reset(options={"task": counting(5)})
    used.step(ADD)
    used.step("bye")
    assert used.fingerprint().digest == fresh.fingerprint().digest
    before = fresh.fingerprint()
    assert fresh.fingerprint() is before

    @fresh.scorer
    def good(rollout: Any) -> float:
        return 1.0

    assert fresh.fingerprint().digest != before.digest
    assert "scorer/good" in fresh.fingerprint().parts
