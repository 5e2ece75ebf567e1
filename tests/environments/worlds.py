"""Small environments that the tests share; a module, so that another process can import them."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from typing import Any

import numpy as np

from envbench.environments import (
    Environment,
    Observation,
    State,
    TaskData,
    ToolCall,
    tool,
)


class CounterState(State):
    count: int = 0
    secret: str = "hidden"


class CounterObservation(Observation):
    asked: str
    count: int

    def render(self) -> str:
        return f"{self.asked}: {self.count}"


class Counter(Environment[CounterObservation, CounterState]):
    """Counts up to the goal in the task's metadata."""

    name = "counter"
    version = "1.0.0"
    max_turns = 6

    def setup(self, task: TaskData) -> None:
        super().setup(task)
        self.goal = task.metadata.get("goal", 3)
        self.state = CounterState(seed=self.seed)

    def observe(self) -> CounterObservation:
        return CounterObservation(asked=str(self.task.input), count=self.state.count)

    def done(self) -> bool:
        return bool(self.state.count >= self.goal)

    def snapshot(self) -> dict[str, Any]:
        return {"count": self.state.count, "seed": self.state.seed}

    @tool
    def add(self, by: int = 1) -> int:
        """Count up."""
        self.state.count += by
        return self.state.count

    @tool
    def fail(self) -> None:
        """Write, and then raise."""
        self.state.count += 1
        raise ValueError("counted and failed")


def counting(goal: int = 3, **metadata: Any) -> TaskData:
    """The task to count to a number."""
    return TaskData(
        f"to-{goal}", f"Count to {goal}", {"count": goal}, {"goal": goal, "seed": 7, **metadata}
    )


ADD = ToolCall("add")


class Trouble(Environment[CounterObservation, CounterState]):
    """Tools that go wrong in every way that a process of its own must survive."""

    name = "trouble"
    max_turns = 100

    def setup(self, task: TaskData) -> None:
        super().setup(task)
        self.state = CounterState(seed=self.seed)
        self.shared = {"list": [0]}
        self.same = self.shared

    def observe(self) -> CounterObservation:
        return CounterObservation(asked="", count=self.state.count)

    @tool
    def add(self, by: int = 1) -> int:
        self.state.count += by
        self.shared["list"].append(by)
        self.add_reward(0.5)
        print("printed by a tool")
        return self.state.count

    @tool
    def twice(self) -> int:
        self.add()
        return self.add(2)

    @tool
    async def later(self) -> int:
        await asyncio.sleep(0.001)
        return self.add()

    @tool
    def draw(self) -> float:
        return float(self.np_random.random())

    @tool
    def process(self) -> int:
        return os.getpid()

    @tool
    def fail(self) -> None:
        self.state.count += 100
        raise KeyError("x")

    @tool
    def kill(self) -> None:
        self.state.count += 1000
        os.kill(os.getpid(), signal.SIGKILL)

    @tool
    def leave(self) -> None:
        os._exit(3)

    @tool
    def leave_politely(self) -> None:
        sys.exit(4)

    @tool
    def for_ever(self) -> None:
        while True:
            time.sleep(0.01)

    @tool
    def spin(self) -> None:
        while True:
            pass

    @tool
    def swell(self) -> int:
        return len(bytearray(10**10))

    @tool
    def swell_slowly(self) -> int:
        parts = []
        while True:
            parts.append(np.ones(10**6))

    @tool
    def give_socket(self) -> Any:
        return _closed_socket()

    @tool
    def give_generator(self) -> Any:
        return (i for i in range(3))

    @tool
    def keep_lambda_socket(self) -> int:
        self.line = _closed_socket()
        return 1

    @tool
    def give_array(self) -> Any:
        return np.arange(5)

    @tool
    def give_much(self) -> str:
        return "x" * 5_000_000

    @tool
    def write_raw(self) -> str:
        os.write(1, b"raw bytes to standard output\n")
        return "written"

    @tool
    def leave_a_fork(self) -> None:
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)

    @tool
    def start_a_program(self) -> None:
        self.program = subprocess.Popen(["sleep", "20"]).pid
        while True:
            time.sleep(0.01)

    @tool
    def forget(self) -> None:
        del self.same

    @tool
    def odd_error(self) -> None:
        class Odd(Exception):
            def __init__(self, first: int, second: int) -> None:
                super().__init__("odd")

        raise Odd(1, 2)


def _closed_socket() -> socket.socket:
    line = socket.socket()
    line.close()
    return line
