"""What capturing vector environments costs, beside two other recorders, measured in one run.

    python tests/benchmarks/vector.py             # about 15 minutes; prints Markdown, on Ctrl-C too
    python tests/benchmarks/vector.py --quick     # a smoke run of seconds; its figures mean nothing

The recorders:

- ``envbench``: `capture_vector` into a DuckDB store, every step and value of every episode;
- ``RecordEpisodeStatistics``, Gymnasium's own for vectors: return, length and time of an episode,
  in the infos and a queue; nothing is written;
- ``copies``: a wrapper that copies what passes it and reads the clock, and keeps nothing: the least
  that keeping everything takes on the machine;
- ``Minari``: a `DataCollector` around each environment of a synchronous vector, which buffers the
  steps and writes a dataset at the end (left out unless ``minari[create]`` is installed). It has
  nothing for vectors, and cannot be where there are no single environments to wrap.

Each measurement is a process of its own; the recorders take turns in every round. Each plays the
environments once bare and once recorded, in slices that take turns, so that what else the machine
does meets both. Times are CPU microseconds of the thread that runs the loop, for a step of one
environment, over the bare ones; "whole process" counts all threads until everything is kept. Each
figure is the median over the rounds, with the lowest and highest in brackets.

The pole is balanced until the time limit, so that an episode has 500 steps; or it is pushed to one
side only, so that it falls after 9 or 10, which is what ending and beginning an episode costs.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import datetime
import gc
import importlib.metadata
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv, VectorWrapper

ROWS = [
    (envs, mode, policy)
    for mode, policy in (("sync", "balance"), ("sync", "fall"), ("own class", "balance"))
    for envs in (2, 8, 64)
]
RECORDERS = ("envbench", "copies", "RecordEpisodeStatistics", "Minari")
Vector = VectorEnv[Any, Any, Any]
TARGET = "≤ 3 µs"
SLICES = 20


def make(
    envs: int, mode: str, wrap: Callable[[Any], Any] | None = None
) -> VectorEnv[Any, Any, Any]:
    """The vector environment: Gymnasium's own around CartPole, or CartPole's vector class."""
    if mode == "own class":
        return gymnasium.make_vec("CartPole-v1", envs, vectorization_mode="vector_entry_point")
    wrappers = None if wrap is None else (wrap,)
    return gymnasium.make_vec("CartPole-v1", envs, vectorization_mode="sync", wrappers=wrappers)


def balance(observations: np.ndarray) -> np.ndarray:
    """Keeps every pole up until the time limit, for any seed tried."""
    x, x_speed, angle, angle_speed = observations.T
    return (3 * angle + angle_speed + 0.05 * x + 0.15 * x_speed > 0).astype(np.int64)


def fall(observations: np.ndarray) -> np.ndarray:
    """Lets every pole fall as soon as it can."""
    return np.ones(len(observations), np.int64)


POLICIES = {"balance": balance, "fall": fall}


class Player:
    """Plays one vector environment in slices, and counts the CPU time of its loop."""

    def __init__(self, envs: Vector, policy: str) -> None:
        self.envs, self.policy = envs, POLICIES[policy]
        self.seconds = 0.0
        self.observations, _ = envs.reset(seed=0)

    def play(self, steps: int) -> None:
        """Take some steps."""
        step, policy, observations = self.envs.step, self.policy, self.observations
        started = time.thread_time()
        for _ in range(steps):
            observations, *_ = step(policy(observations))
        self.seconds += time.thread_time() - started
        self.observations = observations


class Copies(VectorWrapper[Any, Any, Any, Any, Any]):
    """Copies what passes it."""

    def __init__(self, envs: Vector) -> None:
        super().__init__(envs)
        self.held: list[Any] = []

    def step(self, actions: Any) -> Any:
        """Take a step; what is held is dropped now and then."""
        action, started = actions.copy(), time.perf_counter_ns()
        result = self.env.step(actions)
        ended = time.perf_counter_ns()
        values = [array.copy() for array in result[:4]]
        self.held.append((action, *values, copy.deepcopy(result[4]), started, ended))
        if len(self.held) > 64:
            self.held.clear()
        return result


class Recording:
    """A recorded vector environment; `close` returns when everything is kept."""

    def __init__(self, recorder: str, envs: int, mode: str, folder: Path) -> None:
        self.recorder, self.folder = recorder, folder
        self.collectors: list[Any] = []
        if recorder == "Minari":
            self.envs = make(envs, mode, self._collect)
        elif recorder == "copies":
            self.envs = Copies(make(envs, mode))
        elif recorder == "RecordEpisodeStatistics":
            self.envs = gymnasium.wrappers.vector.RecordEpisodeStatistics(make(envs, mode))
        else:
            import envbench
            from envbench.capture import capture_vector

            self.store = envbench.connect(folder / "envbench.duckdb")
            self.envs = capture_vector(make(envs, mode), exporter=self.store)

    def _collect(self, env: Any) -> Any:
        import minari

        self.collectors.append(minari.DataCollector(env))
        return self.collectors[-1]

    def close(self) -> None:
        """Keep everything."""
        for number, collector in enumerate(self.collectors):
            collector.create_dataset(f"vector/cart-pole-{number}-v0")
        self.envs.close()
        if self.recorder == "envbench":
            self.store.close()


def measure(recorder: str, envs: int, mode: str, policy: str, steps: int) -> dict[str, float]:
    """Microseconds of CPU for a step of one environment over the bare ones."""
    if recorder == "Minari" and mode != "sync":
        return {}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MINARI_DATASETS_PATH"] = folder
        recording = Recording(recorder, envs, mode, Path(folder))
        bare, recorded = Player(make(envs, mode), policy), Player(recording.envs, policy)
        for player in (bare, recorded):  # what is imported or allocated at the first steps
            player.play(20)
            player.seconds = 0.0
        gc.collect()
        started = time.process_time()
        for _ in range(SLICES):
            bare.play(steps // SLICES)
            recorded.play(steps // SLICES)
        recording.close()
        whole = time.process_time() - started
        bare.envs.close()
    scale = 1e6 / (steps // SLICES * SLICES * envs)
    return {
        "loop": (recorded.seconds - bare.seconds) * scale,
        "process": (whole - 2 * bare.seconds) * scale,
        "bare": bare.seconds * scale,
    }


# ------------------------------------------------------------------------------------ the table


def main() -> None:
    options = argument_parser().parse_args()
    if options.child:
        print(json.dumps(measure(**json.loads(options.child))))
        return
    rounds, steps = (1, 2_000) if options.quick else (options.rounds, 40_000)
    recorders = [name for name in RECORDERS if name != "Minari" or minari_records()]
    results: dict[str, list[dict[str, float]]] = {}
    with contextlib.suppress(KeyboardInterrupt):
        for number in range(rounds):
            for told in jobs(recorders, steps):
                print(f"round {number + 1}/{rounds}: {told}", file=sys.stderr, flush=True)
                results.setdefault(json.dumps(told), []).append(run_child(told))
    print(markdown(recorders, steps, results))


def argument_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a smoke run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser


def installed(package: str) -> str:
    """The package's version, or an empty string."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def minari_records() -> bool:
    """Whether Minari is there with what it needs to record: ``pip install 'minari[create]'``."""
    return all(map(importlib.util.find_spec, ("minari", "jax", "h5py")))


def jobs(recorders: list[str], steps: int) -> Iterator[dict[str, Any]]:
    """Each process to run in a round; the recorders of one measurement take turns."""
    for envs, mode, policy in ROWS:
        for recorder in recorders:
            if recorder != "Minari" or mode == "sync":
                yield told(recorder, envs, mode, policy, steps)


def told(recorder: str, envs: int, mode: str, policy: str, steps: int) -> dict[str, Any]:
    """What a process is given: about as many steps of environments for each number of them."""
    each = max(steps // envs, SLICES * 10)
    return {"recorder": recorder, "envs": envs, "mode": mode, "policy": policy, "steps": each}


def run_child(job: dict[str, Any]) -> dict[str, float]:
    # what the caller's shell says about BLAS threads would change what is measured
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("OPENBLAS_", "OMP_", "MKL_"))
    }
    child = subprocess.run(
        [sys.executable, "-W", "ignore", __file__, "--child", json.dumps(job)],
        stdout=subprocess.PIPE,
        env=environment,
        check=True,
    )
    answer: dict[str, float] = json.loads(child.stdout)
    return answer


def markdown(recorders: list[str], steps: int, results: dict[str, list[dict[str, float]]]) -> str:
    """The table, with what it was measured on."""
    head = [*recorders, "envbench, whole process", "bare", *(f"{r} ÷ ours" for r in recorders[1:])]
    lines = [
        "| environments, episodes | to reach, in the loop | " + " | ".join(head) + " |",
        "|---" * (len(head) + 2) + "|",
    ]
    for envs, mode, policy in ROWS:
        runs = {
            recorder: results.get(json.dumps(told(recorder, envs, mode, policy, steps)), [])
            for recorder in recorders
        }
        cells = [figure(runs[recorder], "loop") for recorder in recorders]
        cells += [figure(runs["envbench"], "process"), figure(runs["envbench"], "bare")]
        cells += [ratio(runs[recorder], runs["envbench"]) for recorder in recorders[1:]]
        length = "500 steps" if policy == "balance" else "9 steps"
        lines.append(f"| {envs} {mode}, {length} | {TARGET} | {' | '.join(cells)} |")
    most = max((len(found) for found in results.values()), default=0)
    versions = f"Gymnasium {gymnasium.__version__}, Minari {installed('minari') or 'not installed'}"
    measured = (
        f"CPU µs for a step of one environment over bare. Measured "
        f"{datetime.date.today().isoformat()} in {most} interleaved rounds, median "
        f"(lowest–highest): {platform.machine()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}, {versions}."
    )
    return "\n".join([*lines, "", measured])


def figure(runs: list[dict[str, float]], name: str) -> str:
    values = [run[name] for run in runs]
    if not values:
        return "–"
    spread = f" ({min(values):.2f}–{max(values):.2f})" if len(values) > 1 else ""
    return f"{statistics.median(values):.2f}{spread}"


def ratio(peer: list[dict[str, float]], ours: list[dict[str, float]]) -> str:
    if not peer or not ours:
        return "–"
    most = statistics.median(run["loop"] for run in ours)
    return "–" if most <= 0 else f"{statistics.median(run['loop'] for run in peer) / most:.1f} ×"


if __name__ == "__main__":
    main()
