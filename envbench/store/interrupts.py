"""Ctrl-C during a query: what DuckDB runs on other threads is told to stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import duckdb


@contextmanager
def interruptible(cursor: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Let Ctrl-C end a query that is run on a cursor in this block, wherever it is at work.

    DuckDB sees the signal in the thread that asked, and then waits for its own threads, which it
    has not told: a long query went on to its end, with a process that looked asleep. A kernel's
    interrupt in a notebook is the same signal.

    Raises:
        KeyboardInterrupt: at Ctrl-C, whatever DuckDB made of it.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return

    stopped = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal stopped
        stopped = True
        cursor.interrupt()
        before(number, frame)

    signal.signal(signal.SIGINT, stop)
    try:
        yield
    except Exception:
        if stopped:
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGINT, before)
