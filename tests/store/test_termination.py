"""Signals that wait: none is lost, and every handler is as it was."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

from envbench.store.termination import uninterrupted


class Late(Exception):
    """A time limit, as harnesses raise it."""


def late(number: int, frame: FrameType | None) -> None:
    raise Late


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    before = [(n, signal.getsignal(n)) for n in (signal.SIGINT, signal.SIGALRM)]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGALRM, late)
    yield
    for number, handler in before:
        signal.signal(number, handler)


def handlers() -> list[Any]:
    return [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGALRM)]


@pytest.mark.parametrize(
    ("number", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGALRM, Late)]
)
def test_a_signal_waits_until_all_is_done(number: int, raised: type[BaseException]) -> None:
    done = []

    def work() -> None:
        with uninterrupted():
            signal.raise_signal(number)
            done.append("all")

    with pytest.raises(raised):
        work()
    assert done == ["all"]
    assert handlers() == [signal.default_int_handler, late]


def test_of_two_signals_a_person_comes_first() -> None:
    def work() -> None:
        with uninterrupted():
            signal.raise_signal(signal.SIGALRM)
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert handlers() == [signal.default_int_handler, late]


def test_one_in_another_lets_nothing_through() -> None:
    done = []

    def work() -> None:
        with uninterrupted():
            with uninterrupted():
                signal.raise_signal(signal.SIGINT)
            done.append("all")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["all"]
    assert handlers() == [signal.default_int_handler, late]


def test_what_is_ignored_or_nobodys_stays_so() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    with uninterrupted():
        assert handlers() == [signal.SIG_IGN, signal.SIG_DFL]
    assert handlers() == [signal.SIG_IGN, signal.SIG_DFL]


def test_an_error_goes_on_and_handlers_are_back() -> None:
    def work() -> None:
        with uninterrupted():
            raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011 - it is ours
        work()
    assert handlers() == [signal.default_int_handler, late]


def test_another_thread_is_not_asked() -> None:
    found = []

    def work() -> None:
        with uninterrupted():
            found.append(handlers())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [[signal.default_int_handler, late]]
