"""A long query ends at Ctrl-C, wherever DuckDB is at work on it."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from envbench import connect

LONG = "SELECT sum(a.range * b.range % 7) FROM range(10000000) a, range(10000000) b"

PROGRAM = f"""
from envbench import connect
with connect(":memory:") as store:
    store.sql("SELECT 1")
    print("ready", flush=True)
    try:
        store.sql({LONG!r})
    except KeyboardInterrupt:
        print("stopped", flush=True)
    print(store.sql("SELECT 42").fetchall(), flush=True)
"""


def seconds_used(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return int(fields[11]) / os.sysconf("SC_CLK_TCK")


def test_the_store_can_be_asked_again_after_an_interrupt() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout
        assert running.stdout.readline() == "ready\n"
        before = seconds_used(running.pid)
        while running.poll() is None and seconds_used(running.pid) < before + 0.5:
            time.sleep(0.02)
        running.send_signal(signal.SIGINT)
        try:
            out, err = running.communicate(timeout=60)
        finally:
            running.kill()
    assert (out, err) == ("stopped\n[(42,)]\n", "")


def test_the_handler_is_the_one_before_afterwards() -> None:
    before = signal.getsignal(signal.SIGINT)
    with connect(":memory:") as store:
        store.sql("SELECT 1")
    assert signal.getsignal(signal.SIGINT) is before


def test_another_thread_asks_without_touching_signals() -> None:
    answers = []
    with connect(":memory:") as store:
        thread = threading.Thread(target=lambda: answers.append(store.sql("SELECT 1").fetchall()))
        thread.start()
        thread.join()
    assert answers == [[(1,)]]
