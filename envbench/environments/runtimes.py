"""Runtimes: where the tools of an environment run.

The environment validates a call and hands it to its runtime. `LocalRuntime` runs it here,
`SubprocessRuntime` in a process of its own that can be ended. A runtime of your own is any object
with `run` and `close`: it may send `call.name` and `call.arguments` to a service, or run
`call.invoke()` wherever it likes.
"""

from __future__ import annotations

import inspect
import json
import os
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any, Protocol

from envbench.environments.tools import RuntimeBroken, ToolFailed, ToolMethod, ToolRecord, running
from envbench.evidence.portable import Json, canonical, parse
from envbench.evidence.tagged import describe_error

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from envbench.environments.environment import Environment

START_SECONDS = 120.0
"""How long a process may take to start, and to load an environment, beside a call's deadline."""


class Runtime(Protocol):
    """Where tools run."""

    def run(self, call: Call, /) -> Any:
        """Run a call whose arguments were validated, and give what the tool returned.

        What it raises is recorded as the tool's error, and the episode goes on; a `ToolFailed`
        says itself what is recorded, and a `RuntimeBroken` ends the episode.
        """

    def close(self) -> None:
        """Let go of what the runtime holds; it may be used again after that."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool that is ready to run.

    Attributes:
        environment: the environment.
        method: the tool.
        record: takes up what the call leaves: the calls of other tools, in order.
    """

    environment: Environment[Any, Any]
    method: ToolMethod[Any, Any]
    record: ToolRecord

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.method.name

    @property
    def arguments(self) -> dict[str, Json]:
        """The arguments as the policy sent them, portable JSON; a copy."""
        arguments: dict[str, Json] = parse(canonical(self.record.arguments))
        return arguments

    def invoke(self) -> Any:
        """Run the tool in this thread and give what it returned, awaited if need be.

        Raises:
            InvalidArguments: when the arguments do not fit its schema.
        """
        positional, named = self.method.bind(self.arguments)
        with running(self.environment, self.record):
            result = self.method.function(self.environment, *positional, **named)
            if inspect.iscoroutine(result):
                result = self.environment.wait_for(result)
        return result


class LocalRuntime:
    """Runs tools in this process and thread."""

    def run(self, call: Call, /) -> Any:
        """Run the tool."""
        return call.invoke()

    def close(self) -> None:
        """Do nothing."""

    def __repr__(self) -> str:
        return "LocalRuntime()"


class SubprocessRuntime:
    """Runs tools in a process of its own, with a deadline and a memory limit.

    At each call the environment's attributes are sent to the process, and come back as the tool
    left them, also when it raised. A call that does not come back leaves them as they were before
    it, and is a tool error: ``deadline`` when it took too long, ``memory`` when it took too much,
    ``died`` when its process ended. The next call gets a fresh process. What a tool did outside of
    the environment, to files or services, is not undone.

    What does not travel: changes of classes, modules and other objects that are not attributes of
    the environment; attributes that cannot be pickled, such as an open connection (open it in the
    tool). What a tool prints goes to standard error. This protects an evaluation from tools that
    fail, not from tools that are hostile.

    Args:
        timeout: seconds that a call may take, once its process has loaded the environment; None
            for no deadline.
        memory_limit: bytes that a call may take on top of what the process has; None for no limit.
            It limits address space, which needs Linux.

    Raises:
        ValueError: when an argument is not positive.
        OSError: on a system without POSIX processes.
    """

    def __init__(self, timeout: float | None = 30.0, memory_limit: int | None = None) -> None:
        if os.name != "posix":
            raise OSError("SubprocessRuntime needs POSIX processes: use LocalRuntime here")
        for name, value in (("timeout", timeout), ("memory_limit", memory_limit)):
            if value is not None and not (not isinstance(value, bool) and value > 0):
                raise ValueError(f"{name} must be positive or None, not {value!r}")
        self.timeout = timeout
        self.memory_limit = memory_limit
        self._worker: _Worker | None = None
        self._one_at_a_time = threading.Lock()

    def run(self, call: Call, /) -> Any:
        """Run the tool in the process.

        Raises:
            ToolFailed: for whatever went wrong, with the kind of failure.
            RuntimeBroken: when the environment cannot be sent, naming the attribute, or the process
                does not start.
        """
        message = _message(call, self.memory_limit)
        with self._one_at_a_time:
            if self._worker is None or not self._worker.is_alive:
                self.close()
                self._worker = _Worker()
            try:
                reply = self._worker.ask(message, self.timeout)
            except BaseException:
                self.close()
                raise
        return _take(call, reply)

    def close(self) -> None:
        """End the process."""
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.end()

    def __reduce__(self) -> Any:
        return (SubprocessRuntime, (self.timeout, self.memory_limit))

    def __repr__(self) -> str:
        return f"SubprocessRuntime(timeout={self.timeout}, memory_limit={self.memory_limit})"


@dataclass(frozen=True, slots=True)
class Reply:
    """What a process sends back of a call.

    Attributes:
        result: what the tool returned.
        failure: message, kind and class of the error; None when it returned.
        children: records of the tools that it called.
        attributes: the environment's attributes after it; None when they cannot be sent.
    """

    result: Any
    failure: tuple[str, str, str] | None
    children: list[ToolRecord]
    attributes: dict[str, Any] | None


class _Worker:
    """A process that runs tools, and the connection to it."""

    def __init__(self) -> None:
        from multiprocessing import Pipe

        ours, theirs = Pipe()
        code = (
            "import json, sys; sys.path[:] = json.loads(sys.argv[2]);"
            " from envbench.environments.worker import serve; serve(int(sys.argv[1]))"
        )
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", code, str(theirs.fileno()), json.dumps(sys.path)],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._connection: Connection[bytes, bytes] = ours
        self.end = weakref.finalize(self, _end, self._process, ours)
        try:
            self._receive(START_SECONDS)  # it says that it is ready
        except ToolFailed as failure:
            self.end()
            raise RuntimeBroken(f"the process for tools did not start: {failure}") from None
        except BaseException:
            self.end()
            raise

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def ask(self, message: bytes, timeout: float | None) -> Reply:
        """Send a call and wait for what came of it."""
        import cloudpickle  # type: ignore[import-untyped]

        with suppress(OSError):  # it died: receiving says how
            self._connection.send_bytes(message)
        self._receive(START_SECONDS)  # it has loaded the environment, and what that imports
        content = self._receive(timeout)
        try:
            reply = cloudpickle.loads(content)
        except Exception as error:
            raise ToolFailed(
                f"what the tool's process sent back cannot be read: {type(error).__name__}:"
                f" {describe_error(error)}",
                kind="result",
            ) from None
        if not isinstance(reply, Reply):
            raise ToolFailed("the tool's process sent something else than a reply", kind="runtime")
        return reply

    def _receive(self, timeout: float | None) -> bytes:
        # in slices, because a process that the tool forked may hold the other end open
        left = float("inf") if timeout is None else timeout
        while not self._connection.poll(min(left, 0.1)):
            left -= 0.1
            if left <= 0:
                raise ToolFailed(
                    f"the tool took longer than {timeout:g} s and its process was ended",
                    kind="deadline",
                    type_name="TimeoutError",
                )
            if not self.is_alive and not self._connection.poll(0):
                raise self._died()
        try:
            return self._connection.recv_bytes()
        except (EOFError, OSError):
            raise self._died() from None

    def _died(self) -> ToolFailed:
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return _dead("closed its connection")
        if code < 0:
            with suppress(ValueError):
                return _dead(f"was ended by {signal.Signals(-code).name}")
        return _dead(f"ended with exit code {code}")


def _dead(how: str) -> ToolFailed:
    return ToolFailed(f"the tool's process {how}", kind="died", type_name="ProcessDied")


def _end(process: subprocess.Popen[bytes], connection: Connection[bytes, bytes]) -> None:
    connection.close()
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)  # and what the tool started, which may outlive it
    process.wait()


def _message(call: Call, memory_limit: int | None) -> bytes:
    import cloudpickle

    kind, attributes = type(call.environment), call.environment.attributes()
    whole = (kind, attributes, call.name, call.record.arguments, memory_limit)
    with _by_value(kind):
        try:
            return bytes(cloudpickle.dumps(whole))
        except Exception as error:
            for name, value in attributes.items():
                try:
                    cloudpickle.dumps(value)
                except Exception as inner:
                    raise RuntimeBroken(
                        f"SubprocessRuntime cannot send the attribute {name!r}"
                        f" ({type(value).__name__}) of {kind.__name__}: {describe_error(inner)};"
                        " keep what a tool needs to open it, and open it in the tool"
                    ) from error
            raise RuntimeBroken(
                f"SubprocessRuntime cannot send {kind.__name__}: {describe_error(error)}"
            ) from error


@contextmanager
def _by_value(kind: type) -> Iterator[None]:
    """Send classes whose modules another process could not import as they are."""
    import cloudpickle

    names = dict.fromkeys(base.__module__ for base in kind.__mro__)
    modules = [sys.modules[name] for name in names if name in sys.modules]
    with _REGISTERING:
        sent = [module for module in modules if not _is_importable(module)]
        for module in sent:
            cloudpickle.register_pickle_by_value(module)
        try:
            yield
        finally:
            for module in sent:
                cloudpickle.unregister_pickle_by_value(module)


_REGISTERING = threading.RLock()
"""Held while modules are registered with cloudpickle, which knows one set of them a process."""


def _is_importable(module: Any) -> bool:
    """Whether another process that has this one's path finds the module's very file."""
    if module.__name__ in ("__main__", "builtins"):
        return True  # cloudpickle takes care of the first
    parts = module.__name__.split(".")
    if parts[0] in _INSTALLED:
        return True
    path, spec = None, None
    for depth in range(len(parts)):
        try:
            spec = PathFinder.find_spec(".".join(parts[: depth + 1]), path)
        except Exception:  # a finder of somebody's own
            return False
        if spec is None:
            return False
        path = spec.submodule_search_locations
    return spec is not None and spec.origin == getattr(module, "__file__", None)


_INSTALLED = frozenset({*sys.stdlib_module_names, "envbench", "gymnasium", "pydantic", "numpy"})


def _take(call: Call, reply: Reply) -> Any:
    """Bring back what the process sent."""
    call.record.children.extend(reply.children)
    if reply.attributes is not None:
        call.environment.replace_attributes(reply.attributes)
    if reply.failure is not None:
        message, kind, type_name = reply.failure
        raise ToolFailed(message, kind=kind, type_name=type_name)
    return reply.result
