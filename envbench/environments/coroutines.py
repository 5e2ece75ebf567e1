"""Coroutines run from code that is not asynchronous, also inside a running event loop."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import weakref
from collections.abc import Coroutine
from typing import Any


class Coroutines:
    """Runs coroutines one after the other, on an event loop in a thread of its own.

    The loop is started by the first coroutine and stays the same until `close`, so that a client
    that a tool keeps open goes on working. The caller waits; that its own thread may be running an
    event loop, as in Jupyter, makes no difference.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: weakref.finalize[Any, Any] | None = None

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Wait for a coroutine and give its result, or raise what it raised.

        An interrupt of the waiting thread cancels the coroutine.
        """
        if self._loop is not None and _running_loop() is self._loop:
            coroutine.close()
            raise RuntimeError("this runs on the event loop already: await the coroutine instead")
        future = asyncio.run_coroutine_threadsafe(coroutine, self._started())
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Stop the loop; the next coroutine starts another."""
        if self._stop is not None:
            self._stop()
        self._loop = self._stop = None

    def __reduce__(self) -> Any:
        return (Coroutines, ())  # a copy has a thread of its own

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            # in an empty context: the loop keeps the one that it is made in, and what that holds
            loop = contextvars.Context().run(asyncio.new_event_loop)
            thread = threading.Thread(
                target=_serve, args=(loop,), name="envbench coroutines", daemon=True
            )
            thread.start()
            self._loop = loop
            self._stop = weakref.finalize(self, _end, loop, thread)
        return self._loop


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


def _end(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(loop.stop)
    if thread is not threading.current_thread():
        thread.join(timeout=5)
