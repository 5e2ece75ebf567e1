"""One transaction at a time: a lock around what writes to stores in this process.

Rows that episodes share (cases, environments, runs) are written when they are not there yet. Two
transactions at once, as of two stores open on one file, would both not find them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from envbench.store.termination import handing_over

P = ParamSpec("P")
R = TypeVar("R")


def one_at_a_time(function: Callable[P, R]) -> Callable[P, R]:
    """Let calls of a function wait for one another, and SIGTERM for the call that runs."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        with handing_over(), _WRITING:
            return function(*args, **kwargs)

    return call


_WRITING = threading.RLock()


def _after_fork() -> None:
    global _WRITING
    _WRITING = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
