"""Provenance: what the caller asserts of an episode, checked when it is said."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from envbench.capture import Provenance
from envbench.capture.provenance import require_count, with_run


def test_nothing_is_assumed() -> None:
    given = Provenance()
    assert (given.agent_id, given.environment_version, given.run_id) == (None, None, None)
    assert (given.repeat, given.previous, given.labels) == (0, None, {})


def test_what_is_given_is_kept_and_numpy_integers_are_plain_ones() -> None:
    given = Provenance(
        agent_id="agent-v2",
        environment_version="2.1",
        run_id="run-8",
        repeat=np.int32(3),  # type: ignore[arg-type]
        previous="0190-…",
        labels={"x": [1, {"y": None}]},
    )
    assert (given.repeat, type(given.repeat)) == (3, int)
    assert given.labels == {"x": [1, {"y": None}]}


def test_labels_are_a_copy() -> None:
    labels: dict[str, Any] = {"seeds": [1]}
    given = Provenance(labels=labels)
    labels["seeds"].append(2)
    labels["more"] = 1
    assert given.labels == {"seeds": [1]}


def test_it_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Provenance().repeat = 1  # type: ignore[misc]


@pytest.mark.parametrize("name", ["agent_id", "environment_version", "run_id", "previous"])
@pytest.mark.parametrize(("value", "kind"), [("", ValueError), (" ", ValueError), (5, TypeError)])
def test_a_name_must_be_text_and_not_blank(name: str, value: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=f"{name} must"):
        Provenance(**{name: value})


@pytest.mark.parametrize(
    ("value", "kind"), [(-1, ValueError), (True, TypeError), (1.0, TypeError), ("1", TypeError)]
)
def test_repeat_counts_from_zero(value: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="repeat must be"):
        Provenance(repeat=value)


@pytest.mark.parametrize(
    ("labels", "kind", "message"),
    [
        ([1], TypeError, "labels must be a mapping, not list"),
        ("x", TypeError, "labels must be a mapping, not str"),
        ({"x": float("nan")}, ValueError, "labels must be portable JSON"),
        ({"x": {1, 2}}, ValueError, "labels must be portable JSON"),
        ({1: "x"}, ValueError, "labels must be portable JSON"),
    ],
    ids=repr,
)
def test_labels_must_be_portable(labels: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        Provenance(labels=labels)


def test_a_run_is_made_up_once_a_process_unless_it_is_named() -> None:
    first, second = with_run(None), with_run(Provenance(agent_id="a"))
    assert first.run_id == second.run_id
    assert first.run_id
    assert second.agent_id == "a"
    named = Provenance(run_id="mine")
    assert with_run(named) is named
    with pytest.raises(TypeError, match="provenance must be a Provenance, not dict"):
        with_run({"run_id": "x"})  # type: ignore[arg-type]


def test_another_process_is_another_run() -> None:
    program = "from envbench.capture.provenance import with_run; print(with_run(None).run_id)"
    other = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout.strip()
    assert len(other) == 36
    assert other != with_run(None).run_id


@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="needs a system that forks"
)
def test_a_forked_process_is_another_run() -> None:
    program = """
import os
from envbench.capture.provenance import with_run
mine = with_run(None).run_id
reader, writer = os.pipe()
if os.fork() == 0:
    os.write(writer, with_run(None).run_id.encode())
    os._exit(0)
os.wait()
theirs = os.read(reader, 99).decode()
assert len(theirs) == 36
assert theirs != mine
assert with_run(None).run_id == mine
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3)], ids=repr)
def test_integers_of_any_kind_count(value: Any) -> None:
    counted = require_count("n", value, 1)
    assert (counted, type(counted)) == (3, int)


@pytest.mark.parametrize("value", [True, np.bool_(True), 3.0, "3", None, np.array(3)], ids=repr)
def test_nothing_else_counts(value: Any) -> None:
    with pytest.raises(TypeError, match="n must be an integer, not"):
        require_count("n", value, 1)


def test_a_count_has_a_least_value() -> None:
    with pytest.raises(ValueError, match="n must be at least 1, not 0"):
        require_count("n", 0, 1)
