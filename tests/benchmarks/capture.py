"""What capturing costs, beside two published recorders, measured in one run.

    pip install -e '.[peers]'
    python tests/benchmarks/capture.py            # about 20 minutes; prints Markdown, on Ctrl-C too
    python tests/benchmarks/capture.py --quick    # a smoke run of seconds; its figures mean nothing

The recorders, by the name of their package:

- ``envbench``: `capture_episode` into a DuckDB store, and the wrapper behind `capture_episodes`;
- ``multivon-eval``: `capture_episode`, its evidence written as one line of JSON an episode;
- ``briefcase-ai``: `EpisodeCaptureWrapper` with its JSON Lines exporter (no states are recorded).

Each measurement is a process of its own, so that none warms or burdens another; the recorders take
turns in every round. Times are CPU seconds, all threads of the process, less the same loop without
a recorder in the same process just before; "in the loop" counts only the thread that runs the
loop. Each figure is the median over the rounds, with the lowest and highest in brackets. A
recorder that is not installed is left out. ``--peers-python`` takes the two others from the Python
of another environment.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import gc
import importlib.metadata
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

EPISODE_STEPS = 500
ROWS = 50
ROW_JUDGED = 29
LENGTHS = (20, 30, 38, 45, 56)  # of the 1,000 episodes that are loaded; 37.8 steps on average


# ------------------------------------------------------------------- environments and the agent


class Ledger(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Another environment with a state of 50 rows (3.4 kB) beside it; each step edits one cell."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self.state = {
            "invoice_rows": [
                {"amount_cents": 1000 + i, "invoice_id": f"invoice-{i:02d}", "status": "posted"}
                for i in range(ROWS)
            ]
        }
        self.count = 0

    def step(self, action: Any) -> Any:
        self.state["invoice_rows"][self.count % ROWS]["amount_cents"] += 7
        self.count += 1
        return self.env.step(action)


class Camera(gymnasium.Env[np.ndarray, Any]):
    """An image of 210×160×3 each step: a drawn scene in which things move, or noise."""

    def __init__(self, noise: bool) -> None:
        self.observation_space = gymnasium.spaces.Box(0, 255, (210, 160, 3), np.uint8)
        self.action_space = gymnasium.spaces.Discrete(2)
        self.noise = noise
        self.rng = np.random.default_rng(17)
        self.count = 0

    def frame(self) -> np.ndarray:
        if self.noise:
            return np.frombuffer(self.rng.bytes(210 * 160 * 3), np.uint8).reshape(210, 160, 3)
        frame = np.zeros((210, 160, 3), np.uint8)
        frame[30:180] = (92, 186, 92)
        down, right = self.count * 7 % 140, self.count * 5 % 150
        frame[32 + down : 40 + down, right : right + 8] = (213, 130, 74)
        frame[195:200, : self.count % 160] = (236, 236, 236)
        return frame

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self.frame(), {}

    def step(self, action: Any) -> Any:
        self.count += 1
        return self.frame(), 0.0, False, self.count % EPISODE_STEPS == 0, {}


def cart_pole(limit: int = EPISODE_STEPS) -> gymnasium.Env[Any, Any]:
    return gymnasium.make("CartPole-v1", max_episode_steps=limit)


def balance(observation: Any) -> int:
    """An agent that keeps the pole up until the time limit, for any seed tried."""
    if len(observation) != 4:
        return 0
    x, x_speed, angle, angle_speed = observation
    return 1 if 3 * angle + angle_speed + 0.05 * x + 0.15 * x_speed > 0 else 0


@dataclass
class World:
    """What an episode is made of: how to make an environment, and how its state is read."""

    make: Callable[[], gymnasium.Env[Any, Any]]
    with_state: bool = False
    env: Any = None

    def factory(self) -> gymnasium.Env[Any, Any]:
        self.env = self.make()
        return self.env

    def observe(self) -> dict[str, Any]:
        return self.env.state if self.with_state else {}


WORLDS: dict[str, Callable[[], World]] = {
    "cart": lambda: World(cart_pole),
    "rows": lambda: World(lambda: Ledger(cart_pole()), with_state=True),
    "drawn": lambda: World(lambda: Camera(noise=False)),
    "noise": lambda: World(lambda: Camera(noise=True)),
}


@dataclass
class Clock:
    """CPU seconds spent in the agent's loop, by the thread that runs it."""

    loop: float = 0.0
    steps: int = 0

    def play(self, env: Any, observation: Any, steps: int) -> None:
        started = time.thread_time()
        for _ in range(steps):
            observation, _reward, terminated, truncated, _info = env.step(balance(observation))
            self.steps += 1
            if terminated or truncated:
                break
        self.loop += time.thread_time() - started


# --------------------------------------------------------------------------------- the recorders


class Recorder:
    """Plays episodes and has recorded them durably when `close` returns."""

    package = ""
    fresh = True  # a new environment for each episode, as `capture_episode` has it

    def __init__(self, target: Path, world: World) -> None:
        self.target, self.world = target, world

    def episode(self, clock: Clock, steps: int, seed: int) -> None:
        raise NotImplementedError

    def close(self) -> None: ...


class Bare(Recorder):
    def episode(self, clock: Clock, steps: int, seed: int) -> None:
        env = self.world.factory()
        observation, _ = env.reset(seed=seed)
        clock.play(env, observation, steps)
        env.close()


class BareLoop(Bare):
    fresh = False
    env: Any = None

    def episode(self, clock: Clock, steps: int, seed: int) -> None:
        self.env = self.env or self.world.factory()
        observation, _ = self.env.reset(seed=seed)
        clock.play(self.env, observation, steps)


class Envbench(Recorder):
    package = "envbench"

    def __init__(self, target: Path, world: World) -> None:
        super().__init__(target, world)
        import envbench

        self.envbench = envbench
        self.store = envbench.connect(target / "envbench.duckdb")
        self.case = envbench.EvalCase("Keep the pole up", case_id="pole", expects="either")

    def episode(self, clock: Clock, steps: int, seed: int) -> None:
        self.envbench.capture_episode(
            self.world.factory,
            lambda env, observation, info: clock.play(env, observation, steps),
            case=self.case,
            environment_id="benchmark-v1",
            observer_id="live-state-v1",
            observe=self.world.observe,
            seed=seed,
            max_steps=steps,
            store=self.store,
        )

    def close(self) -> None:
        self.store.close()


class EnvbenchWrapper(Recorder):
    package = "envbench"
    fresh = False

    def __init__(self, target: Path, world: World) -> None:
        super().__init__(target, world)
        import envbench

        exporter = target / "envbench.duckdb"
        self.env = envbench.capture_episodes(world.factory(), exporter=exporter)

    def episode(self, clock: Clock, steps: int, seed: int) -> None:
        observation, _ = self.env.reset(seed=seed)
        clock.play(self.env, observation, steps)

    def close(self) -> None:
        self.env.close()


class Multivon(Recorder):
    package = "multivon-eval"

    def __init__(self, target: Path, world: World) -> None:
        super().__init__(target, world)
        from multivon_eval import EvalCase
        from multivon_eval.integrations.gymnasium import capture_episode

        self.capture = capture_episode
        self.case = EvalCase("Keep the pole up", case_id="pole", source_id="pole")
        self.file = (target / "episodes.jsonl").open("w", encoding="utf-8")

    def episode(self, clock: Clock, steps: int, seed: int) -> None:
        evidence = self.capture(
            self.world.factory,
            lambda env, observation, info: clock.play(env, observation, steps),
            case=self.case,
            environment_id="benchmark-v1",
            observer_id="live-state-v1",
            observe=self.world.observe,
            seed=seed,
            max_steps=steps,
        )
        self.file.write(evidence._json + "\n")

    def close(self) -> None:
        self.file.close()


class Briefcase(Recorder):
    package = "briefcase-ai"
    fresh = False

    def __init__(self, target: Path, world: World) -> None:
        super().__init__(target, world)
        from briefcase.exporters.file import JSONLFileExporter
        from briefcase.integrations.gym import capture_episodes

        exporter = JSONLFileExporter(target / "records.jsonl")
        self.env = capture_episodes(world.factory(), exporter=exporter)

    def episode(self, clock: Clock, steps: int, seed: int) -> None:
        observation, _ = self.env.reset(seed=seed)
        clock.play(self.env, observation, steps)

    def close(self) -> None:
        from briefcase._export_mixin import wait_for_pending_exports

        self.env.close()
        if not wait_for_pending_exports(timeout=600):
            raise TimeoutError("briefcase did not write its records within ten minutes")


RECORDERS: dict[str, type[Recorder]] = {
    "envbench": Envbench,
    "envbench wrapper": EnvbenchWrapper,
    "multivon-eval": Multivon,
    "briefcase-ai": Briefcase,
}


# ------------------------------------------------------------------- what one process measures


def measure_capture(recorder: str, world: str, steps: int) -> dict[str, float]:
    """CPU seconds a step over the bare loop, in the loop's thread and in the whole process."""
    kind = RECORDERS[recorder]
    bare = Bare if kind.fresh else BareLoop
    play(bare, world, steps // 10, seed=100)
    play(kind, world, steps // 10, seed=100)
    gc.collect()
    without = play(bare, world, steps, seed=0)
    gc.collect()
    with_recorder = play(kind, world, steps, seed=0)
    return {
        "loop": (with_recorder.loop - without.loop) / steps,
        "process": (with_recorder.process - without.process) / steps,
    }


@dataclass
class Played:
    loop: float
    process: float
    stored: int


def play(kind: type[Recorder], world: str, steps: int, seed: int) -> Played:
    """Play episodes of 500 steps until that many steps are recorded, and close.

    The time to make the file is left out, that to close it is not.
    """
    with tempfile.TemporaryDirectory() as folder:
        recorder = kind(Path(folder), WORLDS[world]())
        clock, started = Clock(), time.process_time()
        while clock.steps < steps:
            recorder.episode(clock, min(EPISODE_STEPS, steps - clock.steps), seed)
            seed += 1
        recorder.close()
        return Played(clock.loop, time.process_time() - started, stored_bytes(Path(folder)))


def stored_bytes(folder: Path) -> int:
    """Bytes in use in the files there.

    DuckDB writes the last part of a table anew at each checkpoint and uses the old blocks again
    later; those that are free are not counted. There are no more of them than one such part.
    """
    return sum(used_bytes(path) for path in folder.rglob("*") if path.is_file())


def used_bytes(path: Path) -> int:
    if path.suffix != ".duckdb":
        return path.stat().st_size
    import duckdb

    with duckdb.connect(str(path), read_only=True) as store:
        query = "SELECT used_blocks * block_size FROM pragma_database_size()"
        ((used,),) = store.execute(query).fetchall()
    return int(used)


def measure_size(recorder: str, world: str, steps: int) -> dict[str, float]:
    """Bytes on disk for each further step: twice the steps less once, so fixed parts cancel."""
    once = play(RECORDERS[recorder], world, steps, seed=0).stored
    twice = play(RECORDERS[recorder], world, 2 * steps, seed=0).stored
    return {"bytes": (twice - once) / steps}


def measure_load(recorder: str, episodes: int) -> dict[str, float]:
    """Seconds to open what was recorded and judge each episode's final state with one check."""
    result: dict[str, float] = {}
    for amount in (len(LENGTHS), episodes):  # the first time imports what is needed
        with tempfile.TemporaryDirectory() as folder:
            record_many(recorder, Path(folder), amount)
            expected = sum(LENGTHS[i % len(LENGTHS)] > ROW_JUDGED for i in range(amount))
            for judge in JUDGES[recorder]:
                gc.collect()
                started = time.process_time()
                passed = judge(Path(folder))
                result[judge.__name__] = time.process_time() - started
                if passed != expected:
                    raise AssertionError(f"{judge.__name__}: {passed} passed, not {expected}")
    return result


def record_many(recorder: str, folder: Path, episodes: int) -> None:
    subject = RECORDERS[recorder](folder, WORLDS["rows"]())
    for i in range(episodes):
        subject.episode(Clock(), LENGTHS[i % len(LENGTHS)], seed=i)
    subject.close()


def was_edited(state: Any) -> bool:
    """The check: whether the episode was long enough to edit row 29 (its step 30 does)."""
    return bool(state["invoice_rows"][ROW_JUDGED]["amount_cents"] == 1036)


def judge_multivon(folder: Path) -> int:
    from multivon_eval.episode import (
        EpisodeEvidence,
        OutcomeCheck,
        OutcomeVerdict,
        evaluate_episode,
    )

    def judge(episode: Any) -> Any:
        return OutcomeVerdict(was_edited(episode.data["final_state"]), "row 29", {})

    checks = [OutcomeCheck("row_29", "v1", judge)]
    passed = 0
    with (folder / "episodes.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            report = evaluate_episode(EpisodeEvidence.from_dict(json.loads(line)), checks)
            passed += report.case_results[0].results[0].passed
    return passed


def judge_envbench(folder: Path) -> int:
    import envbench

    def judge(episode: Any) -> Any:
        passed = was_edited(episode.data["final_state"])
        return envbench.OutcomeVerdict(passed, "row 29", {})

    with envbench.connect(folder / "envbench.duckdb", read_only=True) as store:
        report = envbench.evaluate(store, [envbench.OutcomeCheck("row_29", "v1", judge)])
    return sum(result.passed is True for result in report.results)


def judge_sql(folder: Path) -> int:
    import envbench

    query = """
        FROM final_states
        SELECT episode_id,
               CAST(state ->> '$.invoice_rows[29].amount_cents' AS BIGINT) = 1036 AS passed,
               'row 29' AS reason, NULL AS evidence
    """
    with envbench.connect(folder / "envbench.duckdb", read_only=True) as store:
        report = envbench.evaluate(store, [envbench.SqlCheck("row_29", "v1", query)])
    return sum(result.passed is True for result in report.results)


JUDGES: dict[str, list[Callable[[Path], int]]] = {
    "envbench": [judge_envbench, judge_sql],
    "multivon-eval": [judge_multivon],
}


def measure_memory(recorder: str, steps: int) -> dict[str, float]:
    """By how many bytes the process's peak grew while one long episode was recorded."""
    kind = RECORDERS[recorder]
    play(kind, "cart", EPISODE_STEPS, seed=100)
    gc.collect()
    with tempfile.TemporaryDirectory() as folder:
        subject = kind(Path(folder), World(lambda: cart_pole(limit=steps)))
        before = peak_bytes()
        clock = Clock()
        subject.episode(clock, steps, seed=0)
        subject.close()
        if clock.steps != steps:
            raise AssertionError(f"the episode ended after {clock.steps} steps")
        return {"bytes": peak_bytes() - before}


def peak_bytes() -> int:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


MEASUREMENTS: dict[str, Callable[..., dict[str, float]]] = {
    "capture": measure_capture,
    "size": measure_size,
    "load": measure_load,
    "memory": measure_memory,
}


# ------------------------------------------------------------------------------------ the table


@dataclass(frozen=True)
class Row:
    """One line of the table: what each recorder's process is told, and which figure is shown.

    A peer whose cost a step is the same at any length is given fewer steps (`peer`) where it would
    take minutes. What hardly varies is measured in fewer rounds.
    """

    what: str
    measurement: str
    arguments: dict[str, Any]
    figures: tuple[str, ...]
    unit: str
    scale: float
    target: str
    recorders: tuple[str, ...] = ("envbench", "multivon-eval")
    peer: dict[str, Any] | None = None
    rounds: int = 100

    def told(self, recorder: str) -> dict[str, Any]:
        """What the process of that recorder is given."""
        others = self.peer if self.peer and RECORDERS[recorder].package != "envbench" else {}
        arguments = {**self.arguments, **others}
        return {"measurement": self.measurement, "recorder": recorder, **arguments}

    def figure(self, run: dict[str, float]) -> float:
        return self.scale * next(run[name] for name in self.figures if name in run)


def rows(quick: bool) -> list[Row]:
    """The lines, with the full amounts of work or those of a smoke run."""
    few = 20 if quick else 1
    cart = {"world": "cart", "steps": 10_000 // few}
    states = {"world": "rows", "steps": 10_000 // few}
    sizes = {"world": "rows", "steps": 20_000 // few}
    load = {"episodes": 1_000 // few}
    memory = {"steps": 100_000 // few}
    every = tuple(RECORDERS)
    micro = ("µs/step", 1e6)
    table = [
        Row("in the loop, no states", "capture", cart, ("loop",), *micro, "≤ 3 µs", every),
        Row("whole process, durable", "capture", cart, ("process",), *micro, "≤ 12 µs", every),
        Row("same, 50-row states", "capture", states, ("process",), *micro, "≤ 80 µs"),
        Row(
            *("stored, 50-row states", "size", sizes, ("bytes",), "B/step", 1, "≤ 100 B"),
            peer={"steps": 500},
            rounds=1,
        ),
    ]
    for world in ("drawn", "noise"):
        images = {"world": world, "steps": 1_000 // few}
        name, peer = f"{world} image 210×160×3", {"steps": 20 // (4 if quick else 1)}
        table += [
            Row(name, "capture", images, ("process",), "ms/step", 1e3, "≤ 1 ms", peer=peer),
            Row(
                *(f"{name}, stored", "size", images, ("bytes",), "kB/step", 1e-3, "≤ 100.8 kB"),
                peer=peer,
                rounds=1,
            ),
        ]
    judged = ("judge_envbench", "judge_multivon")
    in_sql = ("judge_sql", "judge_multivon")
    table += [
        Row("load 1,000 episodes, one check", "load", load, judged, "s", 1, "≤ 0.2 s", rounds=2),
        Row("same, the check in SQL", "load", load, in_sql, "s", 1, "≤ 0.05 s", rounds=2),
        Row(
            *("memory, 100,000-step episode", "memory", memory, ("bytes",), "MB", 1e-6),
            *("≤ 100 MB", every),
            rounds=2,
        ),
    ]
    return table


def main() -> None:
    options = argument_parser().parse_args()
    if options.child:
        told = json.loads(options.child)
        print(json.dumps(MEASUREMENTS[told.pop("measurement")](**told)))
        return
    rounds = 1 if options.quick else options.rounds
    table = rows(options.quick)
    pythons = {
        name: options.peers_python if kind.package != "envbench" else sys.executable
        for name, kind in RECORDERS.items()
    }
    versions = {name: installed(pythons[name], kind.package) for name, kind in RECORDERS.items()}
    recorders = [name for name in RECORDERS if versions[name]]
    results: dict[str, list[dict[str, float]]] = {}
    with contextlib.suppress(KeyboardInterrupt):
        for number in range(rounds):
            for told in jobs(table, recorders, number):
                print(f"round {number + 1}/{rounds}: {told}", file=sys.stderr, flush=True)
                answer = run_child(pythons[told["recorder"]], told)
                results.setdefault(json.dumps(told), []).append(answer)
    print(markdown(table, recorders, versions, results))


def argument_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a smoke run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers-python", default=sys.executable)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser


def installed(python: str, package: str) -> str:
    """The package's version there, or an empty string."""
    if python == sys.executable:
        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            return ""
    question = f"import importlib.metadata as m; print(m.version({package!r}))"
    answer = subprocess.run([python, "-c", question], capture_output=True, text=True, check=False)
    return answer.stdout.strip()


def jobs(table: Sequence[Row], recorders: Sequence[str], number: int) -> Iterator[dict[str, Any]]:
    """Each process to run in that round, once; the recorders of one measurement take turns."""
    seen = set()
    for row in table:
        for recorder in recorders:
            told = row.told(recorder)
            if recorder in row.recorders and number < row.rounds and json.dumps(told) not in seen:
                seen.add(json.dumps(told))
                yield told


def run_child(python: str, told: dict[str, Any]) -> dict[str, float]:
    # What the caller's shell says about BLAS threads would change what is measured.
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("OPENBLAS_", "OMP_", "MKL_"))
    }
    child = subprocess.run(
        [python, __file__, "--child", json.dumps(told)],
        stdout=subprocess.PIPE,
        env=environment,
        check=True,
    )
    answer: dict[str, float] = json.loads(child.stdout)
    return answer


def markdown(
    table: Sequence[Row],
    recorders: Sequence[str],
    versions: dict[str, str],
    results: dict[str, list[dict[str, float]]],
) -> str:
    """The table, with what it was measured on."""
    head = [f"{name} {versions[name]}" for name in recorders]
    lines = [
        "| what | to reach | " + " | ".join(head) + " | best peer ÷ ours |",
        "|---" * (len(head) + 3) + "|",
    ]
    for row in table:
        cells, medians = [], {}
        for recorder in recorders:
            runs = results.get(json.dumps(row.told(recorder)), [])
            values = [row.figure(run) for run in runs if recorder in row.recorders]
            if not values:
                cells.append("–")
                continue
            medians[recorder] = statistics.median(values)
            spread = f" ({short(min(values))}–{short(max(values))})" if len(values) > 1 else ""
            cells.append(f"{short(medians[recorder])} {row.unit}{spread}")
        lines.append(f"| {row.what} | {row.target} | {' | '.join(cells)} | {ratio(medians)} |")
    most = max((len(runs) for runs in results.values()), default=0)
    today = datetime.date.today().isoformat()
    measured = (
        f"Measured {today} in up to {most} interleaved rounds, median "
        f"(lowest–highest): {platform.machine()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}, Gymnasium {gymnasium.__version__}."
    )
    return "\n".join([*lines, "", measured])


def short(value: float) -> str:
    """Three significant digits, without an exponent."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def ratio(medians: dict[str, float]) -> str:
    ours = [value for name, value in medians.items() if RECORDERS[name].package == "envbench"]
    peers = [value for name, value in medians.items() if RECORDERS[name].package != "envbench"]
    if not ours or not peers or min(ours) <= 0:
        return "–"
    return f"{short(min(peers) / max(ours))} ×"


if __name__ == "__main__":
    main()
