"""Signals: what is held is written before SIGTERM ends the process, and Ctrl-C cuts nothing in two.

A signal handler runs between any two steps of the main thread. While the main thread hands over a
part of an episode, or writes one, the handler only notes the signal; it acts when that is done.
(A handler that waits for a writer, in a thread that holds what the writer waits for, never ends.)
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any


def before_sigterm(drain: Callable[[], None]) -> None:
    """Call `drain` before SIGTERM ends the process.

    A handler that somebody else set is left alone; so is a process whose main thread never calls
    this, because Python lets no other thread set one.
    """
    if not _is_main_thread() or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return

    def terminate(number: int, frame: FrameType | None) -> None:
        if _HOLD.depth:
            _HOLD.waiting = lambda: terminate(number, None)
            return
        # a second signal ends the process at once
        signal.signal(number, signal.SIG_DFL)
        try:
            drain()
        finally:
            os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, terminate)


class handing_over:  # noqa: N801 - used as a function; a generator would take twice as long
    """Keep SIGTERM waiting while the main thread is in here."""

    __slots__ = ("_holds",)

    def __enter__(self) -> None:
        self._holds = _is_main_thread()
        if self._holds:
            _HOLD.depth += 1

    def __exit__(self, *raised: object) -> None:
        if not self._holds:
            return
        _HOLD.depth -= 1
        if _HOLD.depth == 0 and _HOLD.waiting is not None:
            waiting, _HOLD.waiting = _HOLD.waiting, None
            waiting()


class uninterrupted:  # noqa: N801 - likewise
    """Keep Ctrl-C and SIGALRM waiting while the main thread is in here.

    For what cannot be done again when it was half done. It sets handlers, which takes longer than
    `handing_over`, and so is not for what is done in every step.
    """

    __slots__ = ("_before", "_noted")

    def __enter__(self) -> None:
        self._before: dict[int, Handler] = {}
        self._noted: dict[int, FrameType | None] = {}
        if not _is_main_thread():
            return
        try:
            for number in _INTERRUPTS:
                before = signal.getsignal(number)
                if callable(before):
                    self._before[number] = before
                    signal.signal(number, self._note)
        except BaseException:  # the other signal, whose handler was not set yet
            self._restore()
            raise

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._noted[number] = frame

    def _restore(self) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def __exit__(self, *raised: object) -> None:
        try:
            self._restore()
        except BaseException:  # one whose handler is back
            self._restore()
            raise
        for number, frame in sorted(self._noted.items()):
            self._before[number](number, frame)


Handler = Callable[[int, FrameType | None], Any]
_INTERRUPTS = [getattr(signal, name) for name in ("SIGINT", "SIGALRM") if hasattr(signal, name)]


class _Hold:
    """How often the main thread is handing over, and the signal that waits for it."""

    depth = 0
    waiting: Callable[[], None] | None = None


_HOLD = _Hold()


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
