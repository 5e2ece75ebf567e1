"""The sink: takes what recorders saw, off the caller's thread, and gets it to where it is kept.

A bounded queue and one thread an open target. What waits together is written together. What cannot
be written goes to a spill file beside the store, and the failure is raised at the next reset or
close; what can be put nowhere is held in memory and tried again. Whatever is still open when the
interpreter exits, or on SIGTERM, is sealed as ``interrupted`` and written first.

In a forked process the thread is gone and the store belongs to the parent: episodes recorded there
go to spill files, which the next writable open takes in.
"""

from __future__ import annotations

import atexit
import multiprocessing.process
import multiprocessing.util
import os
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envbench.capture.backends import Backend, JsonLinesBackend, SpillBackend, StoreBackend
from envbench.capture.encoder import EpisodeEncoder
from envbench.capture.recorder import Audit, Header, Observe, RawPart, Recorder, weight
from envbench.evidence.episode import EpisodeEvidence
from envbench.evidence.portable import Json
from envbench.evidence.record import StepColumns, new_id
from envbench.store import Store, connect
from envbench.store.adoption import OPEN_HERE
from envbench.store.errors import StoreClosed, StoreError, StoreWarning
from envbench.store.termination import before_sigterm, handing_over
from envbench.store.writing import EpisodePart

Target = Store | str | os.PathLike[str]
Encode = Callable[[RawPart], EpisodePart]

QUEUE_BYTES = 32_000_000
"""How much may wait before the caller does."""

TOGETHER = 64
"""How many parts are written in one transaction at most."""

TOGETHER_BYTES = 4_000_000
"""How much is: encoded, a part takes several times what it does in the queue."""

SETTLE_SECONDS = 0.5
"""How long after its end an episode is kept open for steps taken after the end, to count them."""


class WriteFailed(StoreError):
    """Episodes could not be written to their store; the message says where they are instead.

    Attributes:
        episode: the evidence, where one episode was being captured.
    """

    episode: EpisodeEvidence | None = None


@dataclass(slots=True)
class _Item:
    """A part that waits to be encoded and kept.

    Attributes:
        episode_id: its episode.
        encode: gives the part.
        last: whether the episode ends with it.
        weight: about how many bytes it takes.
    """

    episode_id: str
    encode: Callable[[], EpisodePart]
    last: bool
    weight: int


@dataclass(slots=True)
class _Held:
    """Parts of an episode that could be put nowhere, in order, and why."""

    reason: BaseException
    parts: list[EpisodePart]


class Sink:
    """Gets what recorders saw to one target, in order, on a thread of its own.

    Args:
        backend: where episodes are kept.
        key: tells the sink of one target from that of another.
    """

    def __init__(self, backend: Backend, key: tuple[str, Any] = ("", None)) -> None:
        self.backend = backend
        self.key = key
        self.users = 0
        self.closed = False
        self._process = os.getpid()
        # guards what follows; held for moments, never while something is encoded or written; taken
        # by itself, as an interrupt can come between a condition's taking it and the block
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._queue: deque[_Item] = deque()
        self._waiting_bytes = 0
        self._taken = 0
        self._done = 0
        self._idle = False
        self._settling = 0
        self._stopping = False
        self._until = 0
        self._stopped = False
        self._open: dict[str, Recorder] = {}
        self._ended: dict[str, tuple[float, Callable[[], None]]] = {}
        self._dropped: deque[list[str]] = deque()
        self._gone = 0
        self.leaving = False
        self._failure: tuple[BaseException, list[Path]] | None = None
        # guards what follows; held while parts are encoded and written, taken before `_changed`
        self._keeping = threading.RLock()
        self._broken: set[str] = set()
        self._spilled: set[str] = set()
        self._held: dict[str, _Held] = {}
        self._held_unsaid = False
        self._at_fork: dict[str, int] = {}
        self._thread = threading.Thread(
            target=self._run, name=f"envbench writer {self.backend.name}", daemon=True
        )
        self._thread.start()

    # -- taking -----------------------------------------------------------------------------------

    def recorder(
        self, header: Header, observe: Observe | None = None, audit: Audit | None = None
    ) -> Recorder:
        """A recorder of one episode whose parts come here.

        Raises:
            StoreClosed: when the target was closed.
        """
        if self.closed or self._stopping:
            raise StoreClosed(
                f"{self.backend.name} was closed: connect to it again, and wrap the environment"
                " again to record into it"
            )
        encode = self._encoding(header)
        recorder = Recorder(header, lambda of, raw: self._take(encode, of, raw), observe, audit)
        self.watch(recorder)
        return recorder

    def watch(self, recorder: Recorder) -> None:
        """Seal what a recorder saw when the process ends before its episode does."""
        self._open[recorder.header.episode_id] = recorder
        OPEN_HERE.add(recorder.header.episode_id)

    def forget(self, episode_id: str) -> None:
        """Keep nothing of an episode that did not begin; nothing of it was handed over."""
        recorder = self._open.pop(episode_id, None)
        if recorder is not None:
            recorder.detach()
        OPEN_HERE.discard(episode_id)

    def put(self, part: EpisodePart) -> None:
        """Take a part that is encoded already; what goes wrong is said by `flush`.

        It does not wait while too much waits: `make_room` does.
        """
        last = part.seal is not None
        if last:
            self._open.pop(part.episode_id, None)
        if self._forked:
            self._keep_in_child(part)
            return
        if not last:
            OPEN_HERE.add(part.episode_id)
        self._enqueue(_Item(part.episode_id, lambda: part, last, _part_weight(part)))

    def _encoding(self, header: Header) -> Encode:
        """Encodes the parts of an episode, with an encoder that is made when the first comes."""
        made: list[EpisodeEncoder] = []

        def encode(raw: RawPart) -> EpisodePart:
            if not made:
                made.append(EpisodeEncoder(header, repeat_arrays=self.backend.by_line))
            return made[0].encode(raw)

        return encode

    def _take(self, encode: Encode, recorder: Recorder, raw: RawPart) -> None:
        """Take a part from a recorder, in the caller's thread."""
        episode_id = recorder.header.episode_id
        last = raw.ending is not None
        with handing_over():
            if last:
                # a copy, because a thread that is still stepping may append to it
                raw.steps = list(raw.steps)
            if self._forked:
                self._take_in_child(encode, recorder, raw)
                return
            self._enqueue(_Item(episode_id, lambda: encode(raw), last, _raw_weight(raw)), raw)
        self.make_room()
        if self._held and not last:
            recorder.notice.due = True

    def _take_in_child(self, encode: Encode, recorder: Recorder, raw: RawPart) -> None:
        episode_id = recorder.header.episode_id
        if raw.taken or episode_id not in self._open:
            return
        raw.taken = True
        if raw.ending is not None:
            del self._open[episode_id]
        if raw.ending is None or recorder.n_steps > self._at_fork.get(episode_id, -1):
            self._keep_in_child(encode(raw))

    def _enqueue(self, item: _Item, raw: RawPart | None = None) -> None:
        """Queue a part; one of a recorder is taken with that, and its episode no longer open."""
        with handing_over(), self._lock:
            # nothing is called until it is all done, so that no interrupt can come in between
            if raw is not None:
                if raw.taken:
                    return
                raw.taken = True
                if item.episode_id not in self._open:
                    return  # it was sealed by another thread, at exit, while this one was going on
                if item.last:
                    del self._open[item.episode_id]
            self._taken += 1
            self._waiting_bytes += item.weight
            self._queue.append(item)
            if self._idle:
                self._changed.notify_all()

    def make_room(self) -> None:
        """Wait while too much waits; do the writer's work when it has stopped."""
        if self._settling or threading.current_thread() is self._thread:
            return
        with self._lock:
            while self._waiting_bytes > QUEUE_BYTES and not self._stopped:
                self._changed.wait(1.0)
        if self._stopped:
            self._keep_here()

    # -- ends -------------------------------------------------------------------------------------

    def settle_later(self, recorder: Recorder, finish: Callable[[], None]) -> None:
        """Seal an episode that has ended, once steps after its end have had time to be counted."""
        if self._forked or self._stopped:
            finish()
            return
        with self._lock:
            self._ended[recorder.header.episode_id] = (time.monotonic() + SETTLE_SECONDS, finish)
            if self._idle:
                self._changed.notify_all()

    def settle(self, recorder: Recorder | None = None) -> None:
        """Seal an episode that has ended now, or all of them."""
        with handing_over(), self._lock:
            keys = list(self._ended) if recorder is None else [recorder.header.episode_id]
            found = self._finish(keys)
        if found:
            self.make_room()

    def abandon(self, episode_id: str) -> None:
        """Seal an episode that nobody will go on with."""
        recorder = self._open.get(episode_id)
        if recorder is not None:
            self.settle(recorder)
            recorder.finish("interrupted", cleanup=no_cleanup(recorder))

    def drop(self, episode_ids: list[str]) -> None:
        """Seal what a user left open who is gone, and let go of the sink for it.

        Called by the garbage collector, in any thread and anywhere: it waits for nothing, and
        leaves the work to the writer.
        """
        self._dropped.append(list(episode_ids))
        if self._changed.acquire(blocking=False):
            try:
                self._changed.notify_all()
            finally:
                self._changed.release()

    def _finish(self, keys: Sequence[str]) -> bool:
        """Seal episodes that have ended; the lock is held, so that they are queued at once."""
        found = False
        self._settling += 1
        try:
            for key in keys:
                if key in self._ended:
                    found = True
                    self._ended[key][1]()
                    self._ended.pop(key, None)
        finally:
            self._settling -= 1
        return found

    def _finish_dropped(self) -> None:
        """Seal what was dropped; the lock is held."""
        self._settling += 1
        try:
            while self._dropped:
                for episode_id in self._dropped[0]:
                    self.abandon(episode_id)
                self._dropped.popleft()
                self._gone += 1
        finally:
            self._settling -= 1

    # -- waiting ----------------------------------------------------------------------------------

    def wait(self) -> None:
        """Return when every episode that has ended until now is written, or put where it can be."""
        if self._forked or threading.current_thread() is self._thread:
            return
        self.settle()
        with handing_over(), self._lock:
            self._finish_dropped()
        with self._lock:
            until = self._taken
            while self._done < until and not self._stopped:
                self._changed.wait(1.0)
        if self._stopped:
            self._keep_here()

    def flush(self) -> None:
        """Return when every episode that has ended is committed.

        Raises:
            WriteFailed: when some could not be written since this was last said.
        """
        self.wait()
        self._retry()
        self.raise_failure()

    def raise_failure(self) -> None:
        """Say once what could not be written.

        Raises:
            WriteFailed: naming the target, the reason, and where the episodes are.
        """
        with self._lock:
            failure, self._failure = self._failure, None
            unsaid, self._held_unsaid = self._held_unsaid, False
        holding = list(self._held.values())
        if failure is None and not (holding and unsaid):
            return
        error, paths = failure or (holding[0].reason, [])
        held = sum(len(each.parts) for each in holding)
        places = []
        if paths:
            places.append(f"{_parts(len(paths))} in {paths[0].parent}")
        if held:
            places.append(f"{_parts(held)} held in memory, as no file could be written")
        where = f"; {' and '.join(places)}" if places else ""
        raise WriteFailed(
            f"{self.backend.name} could not be written ({type(error).__name__}: {error}){where}."
            f" Mend what is wrong{_advice(bool(paths), bool(held))}"
        ) from error

    def drain(self) -> None:
        """Seal what is open as interrupted, and write everything."""
        self.settle()
        for episode_id in list(self._open):
            self.abandon(episode_id)
        self.wait()

    def close(self) -> None:
        """Write everything, and stop; a later close tries again what could be put nowhere.

        Raises:
            WriteFailed: when something could not be written since this was last said.
        """
        if self._forked:
            return
        self.wait()
        with self._lock:
            # other threads may go on without end: what they bring from now on is theirs to keep
            self._until = max(self._until, self._taken)
            self._stopping = True
            self._changed.notify_all()
        self._thread.join()
        self._keep_here()
        self._retry()
        self._let_go()
        self.raise_failure()

    def _let_go(self) -> None:
        """Close the target, and stay known only while something is still to be kept."""
        with handing_over(), self._keeping:
            if not self.closed:
                self.closed = True
                self._mark_open()
                try:
                    self.backend.close()
                except Exception as error:
                    self._fail(error, None)
        if not self._open and not self._held:
            _SINKS.discard(self)

    def _mark_open(self) -> None:
        """Keep other processes from adopting what is still recorded here, by an empty spill."""
        for episode_id, recorder in list(self._open.items()):
            if recorder.parts and not self.backend.by_line:
                with suppress(Exception):
                    self.backend.spill(EpisodePart(episode_id, 1, StepColumns()))

    # -- the writer -------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while True:
                items = self._next()
                if items:
                    self._keep(items)
                elif self._stopping or self._retire():
                    return
        finally:
            with self._lock:
                self._stopped = True
                self._changed.notify_all()

    def _next(self) -> list[_Item]:
        """Wait for parts; none when it is time to stop."""
        with self._lock:
            while True:
                self._finish_dropped()
                now = time.monotonic()
                self._finish([key for key, (at, _) in list(self._ended.items()) if at <= now])
                ready = min(TOGETHER, len(self._queue))
                if self._stopping:
                    ready = min(ready, self._until - self._done)
                if ready > 0:
                    return self._together(ready)
                if self._stopping or self._unused:
                    return []
                self._idle = True
                self._changed.wait(self._patience(now))
                self._idle = False

    def _together(self, most: int) -> list[_Item]:
        """The next parts to write in one transaction: small ones, or one large one."""
        items = [self._queue.popleft()]
        size = items[0].weight
        while len(items) < most and size + self._queue[0].weight <= TOGETHER_BYTES:
            items.append(self._queue.popleft())
            size += items[-1].weight
        return items

    def _patience(self, now: float) -> float:
        """Seconds until there may be work that nobody tells of."""
        return max(0.0, min([now + 1.0, *(at for at, _ in self._ended.values())]) - now)

    @property
    def _unused(self) -> bool:
        """Whether every user of a sink that opened its own target was dropped."""
        return self.key[0] == "path" and self._gone > 0 and self.users <= self._gone

    def _retire(self) -> bool:
        """Close the target when nobody uses it any more; says whether it did."""
        with _SINKS_LOCK:
            if not self._unused:
                return False
            self.closed = True
            _SINKS.discard(self)
        with self._lock:
            self._stopped = True
        try:
            self.backend.close()
            self.raise_failure()
        except Exception as error:
            _warn([str(error)])
        return True

    def _keep_here(self) -> None:
        """Keep what is queued in the caller's thread, when the writer has stopped."""
        with handing_over(), self._keeping:
            for _ in range(len(self._queue)):
                with self._lock:
                    items = [self._queue.popleft()] if self._queue else []
                self._keep(items)

    def _keep(self, items: list[_Item]) -> None:
        try:
            with handing_over(), self._keeping:
                self._write(self._encode(items))
        finally:
            with self._lock:
                self._done += len(items)
                self._waiting_bytes -= sum(item.weight for item in items)
                self._changed.notify_all()

    def _encode(self, items: list[_Item]) -> list[EpisodePart]:
        parts = []
        for item in items:
            if item.episode_id in self._broken:
                continue
            try:
                parts.append(item.encode())
            except BaseException as error:  # a fault of ours: the other episodes are not to suffer
                self._broken.add(item.episode_id)
                error.add_note(f"while encoding episode {item.episode_id}")
                self._fail(
                    RuntimeError(
                        f"episode {item.episode_id} could not be encoded, and what followed of it"
                        f" is not kept: {type(error).__name__}: {error}"
                    ),
                    None,
                )
            if item.last and item.episode_id in self._broken:
                OPEN_HERE.discard(item.episode_id)
        return parts

    def _write(self, parts: list[EpisodePart]) -> None:
        whole = [part for part in parts if not self._is_apart(part.episode_id)]
        for part in parts:
            if self._is_apart(part.episode_id):
                self._put_aside(part, OSError("an earlier part of the episode was not written"))
        if not whole:
            return
        try:
            if self.closed:
                raise StoreClosed(f"{self.backend.name} was closed while an episode was open")
            self.backend.write(whole)
        except BaseException as error:
            if len(whole) == 1:
                self._put_aside(whole[0], error)
            else:  # one of them may be at fault: the others are kept
                for part in whole:
                    self._write([part])
            return
        for part in whole:
            if part.seal is not None:
                OPEN_HERE.discard(part.episode_id)

    def _is_apart(self, episode_id: str) -> bool:
        return episode_id in self._spilled or episode_id in self._held

    def _put_aside(self, part: EpisodePart, reason: BaseException) -> None:
        """Put a part beside the store, as all later parts of its episode will be."""
        if part.episode_id in self._held:  # in order, or a part would be there without the former
            self._held[part.episode_id].parts.append(part)
            self._held_unsaid = True
            return
        try:
            path = self.backend.spill(part)
        except BaseException:
            self._held[part.episode_id] = _Held(reason, [part])
            self._held_unsaid = True
            return
        self._spilled.add(part.episode_id)
        if part.seal is not None:
            OPEN_HERE.discard(part.episode_id)
        self._fail(reason, path)

    def _fail(self, error: BaseException, path: Path | None) -> None:
        with self._lock:
            first, paths = self._failure or (error, [])
            self._failure = (first, paths + ([path] if path else []))

    def _retry(self) -> None:
        """Try once more to keep what could be put nowhere."""
        if not self._held:
            return
        with handing_over(), self._keeping:
            held, self._held = self._held, {}
            for episode_id, each in held.items():
                if episode_id not in self._spilled and self._write_late(each.parts):
                    continue
                for part in each.parts:
                    self._put_aside(part, each.reason)

    def _write_late(self, parts: list[EpisodePart]) -> bool:
        """Write an episode, of which nothing is in a spill file, to where it belongs."""
        if self.closed:
            return False
        try:
            self.backend.write(parts)
        except BaseException:
            return False
        if parts[-1].seal is not None:
            OPEN_HERE.discard(parts[-1].episode_id)
        return True

    # -- forks ------------------------------------------------------------------------------------

    @property
    def _forked(self) -> bool:
        return self._process != os.getpid()

    def _keep_in_child(self, part: EpisodePart) -> None:
        """Keep a part in a process that was forked from the one that owns the target."""
        with self._keeping:
            if self.backend.by_line:
                self.backend.write([part])
            else:
                self.backend.spill(part)

    def _after_fork(self) -> None:
        """Go on in a forked process, where the thread is gone and locks may be held by nobody."""
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._keeping = threading.RLock()
        self._stopped = True
        self._queue, self._ended, self._held = deque(), {}, {}
        self._failure, self._held_unsaid = None, False
        open_here, self._open = self._open, {}
        for recorder in open_here.values():
            self._part_ways(recorder)

    def _part_ways(self, recorder: Recorder) -> None:
        """Let an episode that was open at a fork go on in both processes, as two episodes.

        Where the child does not go on with it, nothing more is kept than what the parent has.
        """
        if recorder.fetch is not None:
            recorder.fetch()
        parent, at_fork = recorder.header.episode_id, recorder.n_steps
        if recorder.sealed or recorder.ended:
            recorder.detach()
        elif recorder.parts:
            recorder.deliver_to(lambda of, raw: _warn_of_fork(of, parent, at_fork))
        else:
            child = recorder.header.episode_id = new_id()
            encode = self._encoding(recorder.header)
            recorder.deliver_to(lambda of, raw: self._take(encode, of, raw))
            recorder.issue(f"note: forked from episode {parent}, which goes on in the parent")
            self._at_fork[child] = at_fork
            self.watch(recorder)


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
    key = _key(chosen)
    with _SINKS_LOCK:
        for sink in _SINKS:
            taken = sink.closed or sink.leaving or sink._forked
            if sink.key == key and not taken:
                sink.users += 1
                return sink
        sink = _open_sink(chosen, key)
        sink.users = 1
        _SINKS.add(sink)
    before_sigterm(_drain_all)
    if multiprocessing.process.parent_process() is not None:
        _drain_at_worker_exit(_SINKS)
    return sink


def release(sink: Sink) -> None:
    """Let go of a sink; the last one to do so closes it, unless it belongs to a store.

    Raises:
        WriteFailed: when something could not be written since this was last said.
    """
    with _SINKS_LOCK:
        sink.users -= 1
        # from here on nobody else gets it: who records into the target now opens it anew
        sink.leaving = sink.key[0] == "path" and sink.users <= sink._gone
    if sink.closed or sink.leaving:
        sink.close()
    else:
        sink.flush()


def require_frames(sink: Sink) -> None:
    """Refuse a sink that keeps no frames, and let go of it.

    Raises:
        ValueError: when its target is a file of JSON lines.
    """
    if sink.backend.by_line:
        name = sink.backend.name
        release(sink)
        raise ValueError(
            f"render=True: frames are kept in a store, and {name} is a file of JSON lines; name a"
            " store, or leave render out"
        )


def observe(target: Target) -> None:
    """Set where the wrappers record when they are not told: a store, its path, or a .jsonl file.

    Raises:
        TypeError: when it is neither.
    """
    _key(target)
    _DEFAULT[-1] = target


class _Sinks(set[Sink]):
    """The sinks of this process; a set that can be referred to weakly."""


_SINKS = _Sinks()
_SINKS_LOCK = threading.RLock()
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


def _open_sink(target: Target, key: tuple[str, Any]) -> Sink:
    if isinstance(target, Store):
        if target.read_only:
            raise StoreError(f"{target.path} is open for reading only: connect without read_only")
        if target.path is not None and target._opened.process != os.getpid():
            target.writer = Sink(SpillBackend(target.path), key)
        else:
            target.cursor().close()  # raises when the store was closed
            target.writer = Sink(StoreBackend(target, owned=False), key)
        return target.writer
    if str(os.fspath(target)).endswith(".jsonl"):
        return Sink(JsonLinesBackend(Path(target)), key)
    store = connect(target)
    sink = Sink(StoreBackend(store, owned=True), key)
    store.writer = sink
    return sink


_OF_PART = 4_000
"""Bytes that a part takes beside its steps: recorder, encoder, header (measured)."""


def _raw_weight(raw: RawPart) -> int:
    """About how many bytes a part takes, from a sample of its steps."""
    reset = 0 if raw.reset is None or raw.reset.state.body is None else len(raw.reset.state.body)
    if raw.reset is not None and raw.reset.frame is not None:
        reset += raw.reset.frame.weight
    n = len(raw.steps)
    if not n:
        return _OF_PART + reset
    sample = raw.steps[:: max(1, n // 4)]
    return _OF_PART + reset + n * sum(map(weight, sample)) // len(sample)


def _part_weight(part: EpisodePart) -> int:
    """About how many bytes an encoded part takes."""
    columns = part.columns
    texts = sum(len(text) for text in columns.observation if text is not None)
    texts += sum(len(text) for text in columns.info if text is not None)
    bodies = sum(len(body) for _, _, body in part.states) + sum(map(len, part.arrays.values()))
    shown = sum(200 + len(frame.text or b"") for frame in part.frames)
    return _OF_PART + 500 * len(columns) + texts + bodies + shown


def no_cleanup(recorder: Recorder) -> dict[str, Json] | None:
    """What is known of the closing of an environment that nobody got to."""
    if not recorder.header.closes:
        return None
    return {"attempted": False, "completed": False, "error": None}


def _parts(count: int) -> str:
    return "1 part of an episode is" if count == 1 else f"{count} parts of episodes are"


def _advice(spilled: bool, held: bool) -> str:
    again = " and flush or close again; it is also tried at exit" if held else ""
    anew = ""
    if spilled:
        anew = ", close this store first and connect to the target anew, which takes the files in"
    return f"{again}{anew}"


def _warn_of_fork(recorder: Recorder, parent: str, at_fork: int) -> None:
    if recorder.n_steps > at_fork:
        recorder.detach()
        message = (
            f"episode {parent} was long and open when process {os.getpid()} was forked: what the"
            " forked process does in it is not recorded; reset the environment after a fork"
        )
        _warn([message])


def _warn(messages: list[str]) -> None:
    for message in messages:
        # as an error it would go nowhere from here, and in a signal handler the stream may be busy
        with suppress(Exception):
            warnings.warn(f"envbench: {message}", StoreWarning, stacklevel=2)


def _drain_all() -> None:
    """Seal and write everything, and stop the writers, before the interpreter goes."""
    messages = []
    for sink in list(_SINKS):
        try:
            sink.drain()
            sink.close()
            sink.raise_failure()
        except Exception as error:
            messages.append(f"at exit: {error}")
    _warn(messages)


def _after_fork() -> None:
    global _SINKS_LOCK
    _SINKS_LOCK = threading.RLock()
    for sink in list(_SINKS):
        sink._after_fork()


def _drain_at_worker_exit(sinks: _Sinks) -> None:
    """Drain when a process of `multiprocessing` ends, which runs no functions of `atexit`."""
    if os.getpid() not in _WORKERS:
        _WORKERS.add(os.getpid())
        multiprocessing.util.Finalize(None, _drain_all, exitpriority=0)


_WORKERS: set[int] = set()

atexit.register(_drain_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
# for environments that were wrapped before the worker was forked
multiprocessing.util.register_after_fork(_SINKS, _drain_at_worker_exit)
