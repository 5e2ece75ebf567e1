"""A chat-completions endpoint on this machine, which answers what a test tells it to.

It speaks HTTP, and server-sent events, as the real ones do, and keeps every byte that it received.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

USAGE = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}


@dataclass
class Request:
    """What the endpoint received."""

    method: str
    path: str
    headers: dict[str, str]
    content: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.content)

    @property
    def messages(self) -> list[dict[str, Any]]:
        return list(self.body["messages"])

    @property
    def turn(self) -> int:
        """How many answers came before."""
        return sum(message["role"] == "assistant" for message in self.messages)


@dataclass
class Reply:
    """What it sends back.

    `pieces` are sent one after the other, chunked. When they have all been sent, `drops` breaks the
    connection without an end, and `hangs` keeps it until the client or the server lets go.
    """

    status: int = 200
    pieces: Iterable[bytes] = ()
    headers: dict[str, str] = field(default_factory=dict)
    drops: bool = False
    hangs: bool = False
    silent: bool = False

    def __post_init__(self) -> None:
        self.headers = {"Content-Type": "application/json", **self.headers}


Script = Sequence[Reply] | Callable[[Request], Reply]


class ChatServer:
    """The endpoint, from `__enter__` to `__exit__`.

    A script is a list of replies, or a function of the request. A list that is used up answers
    with a status that no client tries again.
    """

    def __init__(self, script: Script) -> None:
        self._script = script
        self._lock = threading.Lock()
        self.requests: list[Request] = []
        self.received = bytearray()
        self.closing = threading.Event()
        self.errors: list[BaseException] = []
        self._connections: set[socket.socket] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> ChatServer:
        endpoint = self

        class Handler(_Handler):
            chat = endpoint

        class Server(ThreadingHTTPServer):
            daemon_threads = False  # so that closing waits for them
            request_queue_size = 64

            def handle_error(self, request: Any, address: Any) -> None:
                pass  # noted by the handler

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._thread.join()
        with self._lock:
            for connection in self._connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        self._server.server_close()
        if raised[0] is None:
            assert self.errors == []

    def note(self, received: bytes) -> None:
        with self._lock:
            self.received += received

    def open(self, connection: socket.socket, is_open: bool) -> None:
        with self._lock:
            (self._connections.add if is_open else self._connections.discard)(connection)

    def reply(self, request: Request) -> Reply:
        with self._lock:
            self.requests.append(request)
            count = len(self.requests)
        if callable(self._script):
            return self._script(request)
        if count > len(self._script):
            return Reply(418, [b'{"error": {"message": "the script is used up"}}'])
        return self._script[count - 1]


class _Noting:
    """A file that tells the endpoint what is read from it."""

    def __init__(self, file: Any, note: Callable[[bytes], None]) -> None:
        self._file = file
        self._note = note

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def readline(self, size: int = -1) -> bytes:
        line: bytes = self._file.readline(size)
        self._note(line)
        return line

    def read(self, size: int = -1) -> bytes:
        content: bytes = self._file.read(size)
        self._note(content)
        return content


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True
    chat: ChatServer

    def setup(self) -> None:
        super().setup()
        self.chat.open(self.connection, True)
        self.rfile = _Noting(self.rfile, self.chat.note)  # type: ignore[assignment]

    def finish(self) -> None:
        self.chat.open(self.connection, False)
        with suppress(OSError):  # the client is gone
            super().finish()

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        request = Request(self.command, self.path, dict(self.headers.items()), content)
        try:
            self._send(self.chat.reply(request))
        except ConnectionError:
            self.close_connection = True  # the client went away, as some tests want
        except BaseException as error:
            self.chat.errors.append(error)
            raise

    def _send(self, reply: Reply) -> None:
        if not reply.silent:
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for piece in reply.pieces:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                self.wfile.flush()
        if reply.hangs:
            self.chat.closing.wait()
        if reply.drops or reply.silent or reply.hangs:
            self.close_connection = True
            with suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)
        else:
            self.wfile.write(b"0\r\n\r\n")
            self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - Python's name
        pass


# -- what a model says ----------------------------------------------------------------------------


def call(name: str, arguments: Any = None, id_: str | None = None) -> dict[str, Any]:
    """A tool call of a message; arguments that are text stay as they are."""
    given = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    function = {"name": name, "arguments": given}
    return {"id": id_ or f"call_{name}", "type": "function", "function": function}


def message(content: Any = None, *calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A message of a model."""
    said = {"role": "assistant", "content": content, **more}
    return {**said, "tool_calls": list(calls)} if calls else said


def completion(
    said: dict[str, Any], finish_reason: str | None = None, usage: Any = USAGE
) -> dict[str, Any]:
    """A message as the body of an answer."""
    ended = finish_reason or ("tool_calls" if said.get("tool_calls") else "stop")
    choice = {"index": 0, "message": said, "finish_reason": ended, "logprobs": None}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "served-1",
        "choices": [choice],
        "usage": usage,
    }


def says(content: Any = None, *calls: dict[str, Any], finish_reason: str | None = None) -> Reply:
    """An answer with a text or with tool calls."""
    return body(completion(message(content, *calls), finish_reason))


def body(value: Any, **more: Any) -> Reply:
    """An answer with this JSON."""
    return Reply(pieces=[json.dumps(value).encode()], **more)


def refusing(status: int, text: str = "no", **headers: str) -> Reply:
    """An error."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, [json.dumps({"error": {"message": text}}).encode()], named)


# -- the same as a stream -------------------------------------------------------------------------


def chunks(
    said: dict[str, Any], finish_reason: str | None = None, usage: Any = USAGE, size: int = 3
) -> list[dict[str, Any]]:
    """An answer in chunks, texts and arguments in pieces of a few characters."""
    ended = finish_reason or ("tool_calls" if said.get("tool_calls") else "stop")
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    for name, value in said.items():
        if isinstance(value, str) and name != "role":
            deltas += [{name: piece} for piece in _pieces(value, size)]
    for index, each in enumerate(said.get("tool_calls", ())):
        function = {**each["function"], "arguments": ""}
        deltas.append({"tool_calls": [{**each, "index": index, "function": function}]})
    # the arguments of all calls in turn, as some endpoints send them
    left = [_pieces(each["function"]["arguments"], size) for each in said.get("tool_calls", ())]
    while any(left):
        for index, pieces in enumerate(left):
            if pieces:
                part = {"index": index, "function": {"arguments": pieces.pop(0)}}
                deltas.append({"tool_calls": [part]})
    found = [_chunk(delta, None) for delta in deltas]
    found.append(_chunk({}, ended))
    if usage is not None:
        found.append({"id": "chatcmpl-1", "model": "served-1", "choices": [], "usage": usage})
    return found


def streams(parts: Iterable[Any], *, done: bool = True, **more: Any) -> Reply:
    """A stream of chunks; bytes are sent as they are."""
    return Reply(
        pieces=list(_events(parts, done)), headers={"Content-Type": "text/event-stream"}, **more
    )


def _events(parts: Iterable[Any], done: bool) -> Iterator[bytes]:
    for part in parts:
        yield part if isinstance(part, bytes) else b"data: " + json.dumps(part).encode() + b"\n\n"
    if done:
        yield b"data: [DONE]\n\n"


def _chunk(delta: dict[str, Any], finish_reason: str | None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "model": "served-1",
        "choices": [choice],
        "usage": None,
    }


def _pieces(text: str, size: int) -> list[str]:
    return [text[i : i + size] for i in range(0, len(text), size)]
