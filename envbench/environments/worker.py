"""The process in which `SubprocessRuntime` runs tools."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from envbench.environments.runtimes import Call, Reply
from envbench.environments.tools import ToolFailed, ToolRecord, detached_result
from envbench.evidence.tagged import describe_error


def serve(descriptor: int) -> None:
    """Run one call after the other until the connection closes.

    Args:
        descriptor: the file descriptor of the connection.
    """
    os.set_inheritable(descriptor, False)
    os.dup2(2, 1)  # what tools print: standard output is not ours
    connection: Connection[bytes, bytes] = Connection(descriptor)
    connection.send_bytes(b"ready")
    while True:
        try:
            message = connection.recv_bytes()
        except (EOFError, OSError):
            return
        connection.send_bytes(_answer(message, loaded=lambda: connection.send_bytes(b"loaded")))


def _answer(message: bytes, loaded: Callable[[], None]) -> bytes:
    """What came of a call, pickled; `loaded` is called when the deadline is to begin."""
    try:
        kind, attributes, name, arguments, memory_limit = cloudpickle.loads(message)
        environment = kind.__new__(kind)
        environment.replace_attributes(attributes)
    except BaseException as error:
        loaded()
        why = f"the tool's process could not load the environment: {_described(error)}"
        return _pickled(Reply(None, (why, "runtime", type(error).__name__), [], None))
    loaded()
    record = ToolRecord(name, arguments)
    result, failure = None, None
    try:
        with _memory(memory_limit):
            call = Call(environment, environment.tool_methods[name], record)
            result = detached_result(call.invoke())
    except ToolFailed as error:
        failure = (str(error), error.kind, error.type_name)
    except MemoryError as error:
        limit = "" if memory_limit is None else f" (the limit is {memory_limit} bytes)"
        failure = (f"{describe_error(error)}{limit}".strip(), "memory", type(error).__name__)
    except BaseException as error:  # sys.exit in a tool must not end the episode
        failure = (describe_error(error), "raised", type(error).__name__)
    _forget_exceptions(record.children)
    attributes = environment.attributes()
    try:
        return _pickled(Reply(result, failure, record.children, attributes))
    except BaseException as error:
        return _pickled(_without_what_cannot_be_sent(error, attributes, failure, record))


def _without_what_cannot_be_sent(
    error: BaseException,
    attributes: dict[str, Any],
    failure: tuple[str, str, str] | None,
    record: ToolRecord,
) -> Reply:
    """The reply of a tool that left something behind that cannot be pickled."""
    what = "its result"
    for name, value in attributes.items():
        try:
            cloudpickle.dumps(value)
        except BaseException:
            what = f"the attribute {name!r} ({type(value).__name__})"
            break
    said = f" (before that, it raised {failure[2]}: {failure[0]})" if failure is not None else ""
    why = (
        f"{what} cannot be sent back from the tool's process, and nothing that it changed was:"
        f" {_described(error)}{said}"
    )
    del record
    return Reply(None, (why, "result", type(error).__name__), [], None)


def _pickled(reply: Reply) -> bytes:
    return bytes(cloudpickle.dumps(reply))


def _forget_exceptions(records: list[ToolRecord]) -> None:
    for record in records:
        record.exception = None
        _forget_exceptions(record.children)


def _described(error: BaseException) -> str:
    return f"{type(error).__name__}: {describe_error(error)}"


@contextmanager
def _memory(limit: int | None) -> Iterator[None]:
    """Limit the address space to what it is now and `limit` bytes more."""
    if limit is None:
        yield
        return
    import resource

    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    allowed = pages * resource.getpagesize() + limit
    resource.setrlimit(resource.RLIMIT_AS, (allowed, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
