"""The sink: takes what recorders saw, off the caller's thread, and gets it to where it is kept.

A bounded queue and one thread an open target. What waits together is written together. What cannot
be written goes to a spill file beside the store, and the failure is raised at the next reset or
close. Whatever is still open when the interpreter exits, or on SIGTERM, is sealed as
``interrupted`` and written first.

In a forked process the thread is gone and the store belongs to the parent: episodes recorded there
go to spill files, which the parent's next writable open takes in.
"""

from __future__ import annotations

import atexit
import os
import signal
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from envbench.capture.encoder import EpisodeEncoder
from envbench.capture.jsonl import JsonLines
from envbench.capture.recorder import Audit, Header, Observe, RawPart, Recorder, weight
from envbench.evidence.episode import EpisodeEvidence
from envbench.evidence.record import new_id
from envbench.store import Store, connect
from envbench.store.adoption import OPEN_HERE
from envbench.store.errors import StoreError, StoreWarning
from envbench.store.spill import write_spill
from envbench.store.writing import EpisodePart, Known, write_parts

Target = Store | str | os.PathLike[str]

QUEUE_BYTES = 32_000_000
"""How much may wait before the caller does."""

TOGETHER = 64
"""How many parts are written in one transaction at most."""

SETTLE_SECONDS = 0.5
"""How long after its end an episode is kept open for steps taken after the end, to count them."""


class WriteFailed(StoreError):
    """Episodes could not be written to their store; the message says where they are instead.

    Attributes:
        episode: the evidence, where one episode was being captured.
    """

    episode: EpisodeEvidence | None = None


class Backend(Protocol):
    """Where encoded episodes are kept.

    Attributes:
        name: the target, for messages.
        by_line: whether each part must hold all the arrays that it refers to.
    """

    name: str
    by_line: bool

    def write(self, parts: list[EpisodePart]) -> None:
        """Keep all of them, or none and raise."""

    def spill(self, part: EpisodePart) -> Path:
        """Keep a part that could not be written, in a file of its own."""

    def close(self) -> None:
        """Let go of the target."""


class StoreBackend:
    """Keeps episodes in a store.

    Args:
        store: the store.
        owned: whether it is closed with the sink.
    """

    by_line = False

    def __init__(self, store: Store, *, owned: bool) -> None:
        self.name = str(store.path or ":memory:")
        self._store = store
        self._owned = owned
        self._known: Known = set()

    def write(self, parts: list[EpisodePart]) -> None:
        """Write parts in one transaction."""
        with self._store.cursor() as cursor:
            write_parts(cursor, parts, self._known)

    def spill(self, part: EpisodePart) -> Path:
        """Write a part to a file beside the store."""
        if self._store.path is None:
            raise OSError("a store in memory has no place for a spill file")
        return write_spill(self._store.path, part)

    def close(self) -> None:
        """Close the store, if it was opened for the sink."""
        self._store.writer = None
        if self._owned:
            self._store.close()


class JsonLinesBackend:
    """Keeps episodes as JSON lines."""

    by_line = True

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path
        self._lines = JsonLines(path)

    def write(self, parts: list[EpisodePart]) -> None:
        """Append a line for each step and each end of an episode."""
        self._lines.append(parts)

    def spill(self, part: EpisodePart) -> Path:
        """Write a part to a file beside the lines."""
        return write_spill(self._path, part)

    def close(self) -> None:
        """Close the file."""
        self._lines.close()


@dataclass(slots=True)
class _Item:
    encode: Callable[[], EpisodePart]
    weight: int


class Sink:
    """Gets what recorders saw to one target, in order, on a thread of its own.

    Args:
        backend: where episodes are kept.
    """

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.users = 0
        self._start()

    def _start(self) -> None:
        self._process = os.getpid()
        self._changed = threading.Condition()
        self._queue: deque[_Item] = deque()
        self._waiting_bytes = 0
        self._writing = False
        self._stopping = False
        self._open: dict[str, Recorder] = {}
        self._ended: dict[str, tuple[float, Callable[[], None]]] = {}
        self._spilled: set[str] = set()
        self._failure: tuple[BaseException, list[Path]] | None = None
        self._unwritten: list[EpisodePart] = []
        self._thread = threading.Thread(
            target=self._run, name=f"envbench writer {self.backend.name}", daemon=True
        )
        self._thread.start()

    def recorder(
        self, header: Header, observe: Observe | None = None, audit: Audit | None = None
    ) -> Recorder:
        """A recorder of one episode whose parts come here."""
        encoder = EpisodeEncoder(header, repeat_arrays=self.backend.by_line)
        recorder = Recorder(header, lambda of, raw: self._take(encoder, of, raw), observe, audit)
        self._open[header.episode_id] = recorder
        OPEN_HERE.add(header.episode_id)
        return recorder

    def settle_later(self, recorder: Recorder, finish: Callable[[], None]) -> None:
        """Seal an episode that has ended, once steps after its end have had time to be counted."""
        if self._forked:
            finish()
            return
        with self._changed:
            self._ended[recorder.header.episode_id] = (time.monotonic() + SETTLE_SECONDS, finish)
            if len(self._ended) == 1:
                self._changed.notify_all()

    def settle(self, recorder: Recorder | None = None) -> None:
        """Seal an episode that has ended now, or all of them."""
        with self._changed:
            keys = list(self._ended) if recorder is None else [recorder.header.episode_id]
            due = [self._ended.pop(key)[1] for key in keys if key in self._ended]
        for finish in due:
            finish()

    def wait(self) -> None:
        """Return when every episode that has ended is written, or put where it can be."""
        self.settle()
        with self._changed:
            self._changed.wait_for(self._idle)

    def flush(self) -> None:
        """Return when every episode that has ended is committed.

        Raises:
            WriteFailed: when some could not be written since this was last said.
        """
        self.wait()
        self.raise_failure()

    def raise_failure(self) -> None:
        """Say once what could not be written.

        Raises:
            WriteFailed: naming the target, the reason, and where the episodes are.
        """
        with self._changed:
            failure, self._failure = self._failure, None
            held = len(self._unwritten)
        if failure is None:
            return
        error, paths = failure
        where = f"{len(paths)} parts of episodes are in {paths[0].parent}" if paths else ""
        if held:
            where += f"{' and ' if where else ''}{held} could be put nowhere and are held in memory"
        raise WriteFailed(
            f"{self.backend.name} could not be written ({type(error).__name__}: {error}); {where}:"
            " mend what is wrong, and connect to the store to take them in"
        ) from error

    def abandon(self, episode_id: str) -> None:
        """Seal an episode that nobody will go on with."""
        recorder = self._open.get(episode_id)
        if recorder is not None:
            self.settle(recorder)
            recorder.finish("interrupted")

    def drain(self) -> None:
        """Seal what is open as interrupted, and write everything."""
        for episode_id in list(self._open):
            self.abandon(episode_id)
        self.wait()

    def close(self) -> None:
        """Write everything, and stop.

        Raises:
            WriteFailed: when something could not be written since this was last said.
        """
        if self._forked:
            return
        self.wait()
        self._retry_unwritten()
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._thread.join()
        _SINKS.discard(self)
        self.backend.close()
        self.raise_failure()

    @property
    def _forked(self) -> bool:
        return self._process != os.getpid()

    def _take(self, encoder: EpisodeEncoder, recorder: Recorder, raw: RawPart) -> None:
        """Take a part from a recorder, in the caller's thread."""
        if raw.ending is not None:
            self._open.pop(recorder.header.episode_id, None)
        if self._forked:
            _keep_in_child(self.backend, encoder.encode(raw))
            return
        size = len(raw.steps) * weight(raw.steps[-1]) if raw.steps else 0
        self._enqueue(_Item(lambda: encoder.encode(raw), size))

    def put(self, part: EpisodePart) -> None:
        """Take a part that is encoded already."""
        if self._forked:
            _keep_in_child(self.backend, part)
            return
        if part.seal is None:
            OPEN_HERE.add(part.episode_id)
        self._enqueue(_Item(lambda: part, 500 * len(part.columns)))

    def _enqueue(self, item: _Item) -> None:
        with self._changed:
            while self._waiting_bytes > QUEUE_BYTES and self._thread.is_alive():
                self._changed.wait(1.0)
            if not self._thread.is_alive():
                raise WriteFailed(f"the writer of {self.backend.name} has died; nothing is written")
            self._queue.append(item)
            self._waiting_bytes += item.weight
            if not self._writing:
                self._changed.notify_all()
        if self._unwritten:
            self.raise_failure()

    def _idle(self) -> bool:
        return (not self._queue and not self._writing) or not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._writing = False
                self._changed.notify_all()
                while not self._queue and not self._stopping:
                    due = self._seconds_to_settle()
                    if due is not None and due <= 0:
                        break
                    self._changed.wait(due)
                if self._stopping and not self._queue:
                    return
                items = [self._queue.popleft() for _ in range(min(TOGETHER, len(self._queue)))]
                self._writing = bool(items)
                self._waiting_bytes -= sum(item.weight for item in items)
                finishes = self._due()
            for finish in finishes:
                finish()
            if items:
                self._write(self._encode(items))

    def _seconds_to_settle(self) -> float | None:
        if not self._ended:
            return None
        return min(at for at, _ in self._ended.values()) - time.monotonic()

    def _due(self) -> list[Callable[[], None]]:
        now = time.monotonic()
        keys = [key for key, (at, _) in self._ended.items() if at <= now]
        return [self._ended.pop(key)[1] for key in keys]

    def _encode(self, items: list[_Item]) -> list[EpisodePart]:
        parts = []
        for item in items:
            try:
                parts.append(item.encode())
            except Exception as error:  # a fault of ours: say so, and go on with the other episodes
                self._fail(error, None)
        return parts

    def _write(self, parts: list[EpisodePart]) -> None:
        whole = [part for part in parts if part.episode_id not in self._spilled]
        for part in parts:
            if part.episode_id in self._spilled:
                self._spill(part, None)
        try:
            if whole:
                self.backend.write(whole)
        except Exception as error:
            if len(whole) == 1:
                self._spill(whole[0], error)
            else:  # one of them may be at fault: the others are kept
                for part in whole:
                    self._write([part])
                return
        for part in whole:
            if part.seal is not None:
                OPEN_HERE.discard(part.episode_id)

    def _spill(self, part: EpisodePart, reason: BaseException | None) -> None:
        """Put a part beside the store, and all later parts of its episode."""
        self._spilled.add(part.episode_id)
        try:
            path = self.backend.spill(part)
        except Exception as error:
            self._unwritten.append(part)
            self._fail(reason or error, None)
            return
        if part.seal is not None:
            OPEN_HERE.discard(part.episode_id)
        self._fail(reason or OSError("an earlier part of the episode could not be written"), path)

    def _fail(self, error: BaseException, path: Path | None) -> None:
        with self._changed:
            first, paths = self._failure or (error, [])
            self._failure = (first, paths + ([path] if path else []))

    def _retry_unwritten(self) -> None:
        """Try once more to put what could be put nowhere."""
        parts, self._unwritten = self._unwritten, []
        for part in parts:
            self._spill(part, None)

    def _after_fork(self) -> None:
        """Go on in a forked process, where the thread is gone and locks may be held by nobody."""
        open_here, self._open = self._open, {}
        self._changed = threading.Condition()
        self._queue, self._ended, self._unwritten = deque(), {}, []
        for recorder in open_here.values():
            _part_ways(self, recorder)


def sink_for(target: Target | None) -> Sink:
    """The sink of a target, shared by all that record into it; `release` it when done.

    Args:
        target: a store, the path of one, the path of a ``.jsonl`` file, or None for the default
            that `observe` set.

    Raises:
        StoreError: when the target cannot be opened.
        TypeError: when it is no target.
    """
    chosen = _DEFAULT[-1] if target is None else target
    with _SINKS_LOCK:
        key = _key(chosen)
        for sink in _SINKS:
            if _KEYS.get(id(sink)) == key and sink._process == os.getpid():
                sink.users += 1
                return sink
        sink = _open_sink(chosen)
        sink.users = 1
        _KEYS[id(sink)] = key
        _SINKS.add(sink)
    _drain_on_sigterm()
    return sink


def release(sink: Sink) -> None:
    """Let go of a sink; the last one to do so closes it, unless it belongs to a store.

    Raises:
        WriteFailed: when something could not be written since this was last said.
    """
    with _SINKS_LOCK:
        sink.users -= 1
        last = sink.users <= 0
    if last and _KEYS.get(id(sink), ("",))[0] == "path":
        _KEYS.pop(id(sink), None)
        sink.close()
    else:
        sink.flush()


def observe(target: Target) -> None:
    """Set where the wrappers record when they are not told: a store, its path, or a .jsonl file.

    Raises:
        TypeError: when it is neither.
    """
    _key(target)
    _DEFAULT[-1] = target


_SINKS: set[Sink] = set()
_SINKS_LOCK = threading.RLock()
_KEYS: dict[int, tuple[str, Any]] = {}
_DEFAULT: list[Target] = ["envbench.duckdb"]


def _key(target: Target) -> tuple[str, Any]:
    if isinstance(target, Store):
        return ("store", id(target))
    if not isinstance(target, (str, os.PathLike)):
        raise TypeError(
            f"a target must be a Store or a path, not {type(target).__name__}: pass "
            "'evidence.duckdb' or 'episodes.jsonl'"
        )
    name = os.fspath(target)
    return ("path", name if name == ":memory:" else os.path.realpath(name))


def _open_sink(target: Target) -> Sink:
    if isinstance(target, Store):
        if target.read_only:
            raise StoreError(f"{target.path} is open for reading only: connect without read_only")
        sink = Sink(StoreBackend(target, owned=False))
        target.writer = sink
        return sink
    if str(os.fspath(target)).endswith(".jsonl"):
        return Sink(JsonLinesBackend(Path(target)))
    store = connect(target)
    sink = Sink(StoreBackend(store, owned=True))
    store.writer = sink
    return sink


def _keep_in_child(backend: Backend, part: EpisodePart) -> None:
    """Keep a part in a process that was forked from the one that owns the target."""
    if backend.by_line:
        backend.write([part])
    else:
        backend.spill(part)


def _part_ways(sink: Sink, recorder: Recorder) -> None:
    """Let an episode that was open at a fork go on in both processes, as two episodes."""
    if recorder.parts:
        recorder.detach()
        return
    parent = recorder.header.episode_id
    recorder.header.episode_id = new_id()
    encoder = EpisodeEncoder(recorder.header, repeat_arrays=sink.backend.by_line)
    recorder.deliver_to(lambda of, raw: sink._take(encoder, of, raw))
    recorder.issue(f"note: forked from episode {parent}, which goes on in the parent process")
    sink._open[recorder.header.episode_id] = recorder
    OPEN_HERE.add(recorder.header.episode_id)


def _drain_all() -> None:
    for sink in list(_SINKS):
        try:
            sink.drain()
            sink._retry_unwritten()
            sink.raise_failure()
        except Exception as error:
            warnings.warn(f"envbench, at exit: {error}", StoreWarning, stacklevel=1)


def _drain_on_sigterm() -> None:
    """Write everything before SIGTERM ends the process; a handler of the user's is left alone."""
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)


def _terminate(number: int, frame: FrameType | None) -> None:
    _drain_all()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _after_fork() -> None:
    global _SINKS_LOCK
    _SINKS_LOCK = threading.RLock()
    for sink in list(_SINKS):
        sink._after_fork()


atexit.register(_drain_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
