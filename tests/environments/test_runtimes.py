from __future__ import annotations

import contextlib
import copy
import importlib.util
import os
import pickle
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from envbench.environments import (
    Call,
    Environment,
    LocalRuntime,
    RuntimeBroken,
    ScriptedPolicy,
    State,
    SubprocessRuntime,
    ToolCall,
    ToolFailed,
    tool,
)
from tests.environments.worlds import (
    ADD,
    Counter,
    CounterObservation,
    Trouble,
    counting,
)

MEGABYTE = 2**20


@pytest.fixture(scope="module")
def apart() -> Iterator[SubprocessRuntime]:
    """A process that tests share; what ends it leaves the next one a fresh process."""
    runtime = SubprocessRuntime(timeout=60, memory_limit=400 * MEGABYTE)
    yield runtime
    runtime.close()


def trouble(runtime: Any) -> Trouble:
    env = Trouble(task=counting(), runtime=runtime)
    env.reset()
    return env


def call(env: Environment[Any, Any], name: str, **arguments: Any) -> dict[str, Any]:
    return dict(env.step(ToolCall(name, arguments))[4]["tool_calls"][0])


@pytest.mark.parametrize("where", ["here", "apart"])
def test_a_tool_changes_the_environment_wherever_it_runs(where, apart):
    env = trouble(LocalRuntime() if where == "here" else apart)
    observation, reward, _, _, info = env.step(ToolCall("add", {"by": 2}))
    assert info["tool_calls"][0]["result"] == 2
    assert (observation.count, reward, env.shared) == (2, 0.5, {"list": [0, 2]})
    assert env.same is env.shared
    record = call(env, "twice")
    assert record["result"] == 5
    assert [child["arguments"] for child in record["children"]] == [{}, {"by": 2}]
    record = call(env, "later")
    assert (record["result"], record["children"][0]["name"]) == (6, "add")
    assert call(env, "fail")["error"] == {"kind": "raised", "type": "KeyError", "message": "'x'"}
    assert env.state.count == 106  # what it wrote before it raised
    call(env, "forget")
    assert not hasattr(env, "same")
    assert env.attributes()["shared"] == {"list": [0, 2, 1, 2, 1]}


def test_randomness_goes_on_across_the_border(apart):
    here, there = trouble(LocalRuntime()), trouble(apart)
    assert [call(here, "draw")["result"] for _ in range(3)] == [
        call(there, "draw")["result"] for _ in range(3)
    ]
    assert here.np_random.random() == there.np_random.random()


def test_results_come_back_as_they_are(apart):
    env = trouble(apart)
    assert call(env, "process")["result"] != os.getpid()
    array = call(env, "give_array")["result"]
    assert (array.tolist(), array.dtype) == ([0, 1, 2, 3, 4], np.arange(5).dtype)
    assert len(call(env, "give_much")["result"]) == 5_000_000


def test_what_a_tool_prints_harms_nothing_and_goes_to_standard_error(apart, capfd):
    env = trouble(SubprocessRuntime())
    try:
        assert call(env, "write_raw")["result"] == "written"
        assert call(env, "add")["result"] == 1
    finally:
        env.close()
    out, err = capfd.readouterr()
    assert out == ""
    assert "raw bytes to standard output" in err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("kill", {"type": "ProcessDied", "message": "the tool's process was ended by SIGKILL"}),
        ("leave", {"type": "ProcessDied", "message": "the tool's process ended with exit code 3"}),
        (
            "leave_a_fork",
            {"type": "ProcessDied", "message": "the tool's process was ended by SIGKILL"},
        ),
    ],
)
def test_a_process_that_dies_is_a_tool_error_and_the_state_is_as_before(apart, name, error):
    env = trouble(apart)
    call(env, "add")
    assert call(env, name)["error"] == {"kind": "died", **error}
    assert (env.state.count, env.shared) == (1, {"list": [0, 1]})
    assert call(env, "add")["result"] == 2  # in a fresh process


def test_leaving_by_sys_exit_is_a_tool_error(apart):
    assert call(trouble(apart), "leave_politely")["error"] == {
        "kind": "raised",
        "type": "SystemExit",
        "message": "4",
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", ["for_ever", "spin"])
def test_a_tool_that_takes_too_long_is_ended(name):
    runtime = SubprocessRuntime(timeout=None)
    env = trouble(runtime)
    call(env, "process")
    runtime.timeout = 0.3  # for a call that never ends
    assert call(env, name)["error"] == {
        "kind": "deadline",
        "type": "TimeoutError",
        "message": "the tool took longer than 0.3 s and its process was ended",
    }
    runtime.timeout = None
    assert call(env, "add")["result"] == 1
    env.close()


class SlowToLoad:
    """Takes longer to unpickle than the deadline, as a module may take to import."""

    def __reduce__(self) -> Any:
        return (_load, (SlowToLoad,))


def _load(kind: type) -> Any:
    time.sleep(1.5)
    return kind()


@pytest.mark.slow
def test_what_a_fresh_process_loads_does_not_count():
    env = trouble(SubprocessRuntime(timeout=1))
    env.heavy = SlowToLoad()
    assert call(env, "add")["result"] == 1
    env.close()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_programs_that_a_tool_started_are_ended_with_it():
    env = trouble(SubprocessRuntime(timeout=1))
    before = _sleeping()
    assert call(env, "start_a_program")["error"]["kind"] == "deadline"
    env.close()
    for _ in range(200):  # the system takes a moment to bury them
        if _sleeping() <= before:
            break
        time.sleep(0.05)
    assert _sleeping() <= before


def _sleeping() -> int:
    """How many processes run `sleep 20`."""
    found = 0
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            found += file.read_bytes() == b"sleep\x0020\x00"
    return found


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="address space is limited on Linux only")
@pytest.mark.parametrize("name", ["swell", "swell_slowly"])
def test_a_tool_that_takes_too_much_memory_is_a_tool_error(apart, name):
    env = trouble(apart)
    error = call(env, name)["error"]
    assert (error["kind"], error["message"].endswith("(the limit is 419430400 bytes)")) == (
        "memory",
        True,
    )
    assert call(env, "add")["result"] == 1


def test_what_cannot_be_sent_back_is_a_tool_error_and_changes_nothing(apart):
    env = trouble(apart)
    for name in ("give_socket", "give_generator"):
        error = call(env, name)["error"]
        assert error["kind"] == "result"
        assert error["message"].startswith("what it returned cannot be kept (")
    error = call(env, "keep_lambda_socket")["error"]
    assert error["kind"] == "result"
    assert error["message"].startswith(
        "the attribute 'line' (socket) cannot be sent back from the tool's process, and nothing"
        " that it changed was: "
    )
    assert not hasattr(env, "line")


def test_an_exception_that_cannot_be_pickled_is_recorded(apart):
    assert call(trouble(apart), "odd_error")["error"] == {
        "kind": "raised",
        "type": "Odd",
        "message": "odd",
    }


def test_an_environment_that_cannot_be_sent_is_the_environment_s_failure(apart):
    env = trouble(apart)
    env.lock = threading.Lock()
    with pytest.raises(
        RuntimeBroken, match=r"cannot send the attribute 'lock' \(lock\) of Trouble"
    ):
        env.step(ADD)


UNREACHABLE = """
from __future__ import annotations
from pydantic import BaseModel
from envbench.environments import Environment, Observation, State, tool

STEP = 10

class Thing(BaseModel):
    number: int

class World(State):
    things: list[Thing] = []

class Seen(Observation):
    count: int

class Away(Environment[Seen, World]):
    def setup(self, task):
        super().setup(task)
        self.state = World(seed=1)
    def observe(self) -> Seen:
        return Seen(count=len(self.state.things))
    @tool
    def put(self, thing: Thing) -> int:
        self.state.things = [*self.state.things, thing]
        return thing.number + STEP
"""


def test_a_module_that_no_other_process_can_import_travels_by_value(apart, tmp_path):
    file = tmp_path / "away_from_the_path.py"
    file.write_text(UNREACHABLE)
    spec = importlib.util.spec_from_file_location("away_from_the_path", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules["away_from_the_path"] = module
    try:
        spec.loader.exec_module(module)
        env = module.Away(task=counting(), runtime=apart)
        env.reset()
        assert call(env, "put", thing={"number": 1})["result"] == 11
        assert call(env, "put", thing={"number": 2})["result"] == 12
        assert type(env.state) is module.World
        assert type(env.state.things[1]) is module.Thing
    finally:
        del sys.modules["away_from_the_path"]


def test_classes_that_no_other_process_can_import_travel_by_value(apart):
    class LocalState(State):
        seen: list[int] = []  # noqa: RUF012 - pydantic copies it

    class Local(Environment[CounterObservation, LocalState]):
        def setup(self, task: Any) -> None:
            super().setup(task)
            self.state = LocalState(seed=1)

        def observe(self) -> CounterObservation:
            return CounterObservation(asked="", count=len(self.state.seen))

        @tool
        def see(self, number: int) -> list[int]:
            self.state.seen = [*self.state.seen, number]
            return self.state.seen

    env = Local(task=counting(), runtime=apart)
    env.reset()
    assert call(env, "see", number=4)["result"] == [4]
    assert call(env, "see", number=5)["result"] == [4, 5]
    assert type(env.state) is LocalState


@pytest.mark.slow
def test_a_rollout_survives_every_kind_of_death(apart):
    script = ["add", "kill", "add", "leave", "fail", "add"]
    env = Trouble(runtime=apart)
    rollout = env.rollout(
        counting(), ScriptedPolicy([*map(ToolCall, script), "done"]), raise_errors=True
    )
    assert rollout.stop_reason == "policy_stop"
    kinds = [step.tool_calls[0].get("error", {}).get("kind") for step in rollout.trace.steps[:-1]]
    assert kinds == [None, "died", None, "died", "raised", None]
    assert rollout.trace.steps[-1].snapshot["count"] == 103
    errors = rollout.episode.errors
    assert errors == []


def test_runtimes_are_settings_that_can_be_copied(apart):
    env = trouble(apart)
    call(env, "add")
    again = pickle.loads(pickle.dumps(apart))
    assert (again.timeout, again.memory_limit) == (60, 400 * MEGABYTE)
    other = copy.deepcopy(env)
    try:
        assert call(other, "add")["result"] == 2
        assert env.state.count == 1
    finally:
        other.close()
    assert repr(again) == "SubprocessRuntime(timeout=60, memory_limit=419430400)"
    assert repr(LocalRuntime()) == "LocalRuntime()"


@pytest.mark.slow
def test_closing_ends_the_process_and_more_than_once_is_fine():
    runtime = SubprocessRuntime()
    env = trouble(runtime)
    process = call(env, "process")["result"]
    env.close()
    env.close()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
    assert call(env, "process")["result"] != process
    env.close()


@pytest.mark.parametrize(
    "arguments", [{"timeout": 0}, {"timeout": -1}, {"memory_limit": 0}, {"timeout": True}]
)
def test_settings_are_positive(arguments):
    with pytest.raises(ValueError, match="must be positive or None"):
        SubprocessRuntime(**arguments)


class Service:
    """A runtime of somebody's own, which answers without the tools' code."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any]] = []
        self.closed = 0

    def run(self, call: Call, /) -> Any:
        self.asked.append((call.name, call.arguments))
        if call.name == "fail":
            raise ToolFailed("the service is down", kind="runtime", type_name="ServiceDown")
        if call.arguments.get("by") == 5:
            return call.invoke()
        return {"served": call.arguments}

    def close(self) -> None:
        self.closed += 1


def test_a_runtime_of_one_s_own():
    service = Service()
    env = Counter(task=counting(9), runtime=service)
    env.reset()
    assert call(env, "add", by=2)["result"] == {"served": {"by": 2}}
    assert call(env, "add", by=5)["result"] == 5
    assert call(env, "fail")["error"] == {
        "kind": "runtime",
        "type": "ServiceDown",
        "message": "the service is down",
    }
    call(env, "add", by="x")
    call(env, "nope")
    assert service.asked == [("add", {"by": 2}), ("add", {"by": 5}), ("fail", {})]
    env.close()
    assert service.closed == 1


@pytest.mark.slow
def test_an_environment_of_a_script_s_own_module_runs_apart(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            from envbench.environments import *

            class Seen(Observation):
                count: int

            class World(State):
                count: int = 0

            class Own(Environment[Seen, World]):
                def setup(self, task):
                    super().setup(task)
                    self.state = World()
                def observe(self):
                    return Seen(count=self.state.count)
                @tool
                def add(self, by: int = 1) -> int:
                    self.state.count += by
                    return self.state.count

            env = Own(task=TaskData("t", "x"), runtime=SubprocessRuntime())
            env.reset()
            env.step(ToolCall("add"))
            print(env.step(ToolCall("add", {"by": 2}))[4]["tool_calls"][0]["result"], env.state)
            env.close()
            """
        )
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("3 seed=0 count=3\n", 0), done.stderr
