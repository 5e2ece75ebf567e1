"""A store of real episodes, with something in every column."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest

from envbench.capture import EpisodeCaptureWrapper, Provenance, capture_episode
from envbench.capture.encoder import EpisodeEncoder
from envbench.capture.frames import FrameReader
from envbench.capture.recorder import Header, Recorder
from envbench.checks import (
    AcceptancePolicy,
    CheckRequirement,
    OutcomeCheck,
    OutcomeVerdict,
    evaluate,
)
from envbench.evidence import EvalCase
from envbench.store import connect
from envbench.store.writing import EpisodePart


class Shop(gymnasium.Env[Any, int]):
    """Orders, one row each. Action 0 pays the next one, 1 looks, 2 raises after paying."""

    action_space = gymnasium.spaces.Discrete(3)
    observation_space = gymnasium.spaces.Box(-1.0, 1e6, (2_000,), np.float64)
    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"]}
    render_mode = "ansi"

    def __init__(self, orders: int = 3) -> None:
        self.state: dict[str, Any] = {}
        self.orders = orders
        self.events: list[dict[str, Any]] = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = {
            "orders": [{"order_id": i, "status": "open"} for i in range(self.orders)],
            "picture": np.arange(1_500, dtype=np.int64),
        }
        return self._see(), {"market": "de"}

    def step(self, action):
        paid = sum(row["status"] == "paid" for row in self.state["orders"])
        if action != 1:
            row = self.state["orders"][paid]
            before = dict(row)
            row["status"] = "paid"
            self.events.append(
                {
                    "table": "orders",
                    "op": "update",
                    "key": {"order_id": row["order_id"]},
                    "before": before,
                    "after": dict(row),
                }
            )
        if action == 2:
            raise ConnectionError("paid, and the line went dead")
        done = paid + 1 == self.orders and action == 0
        return self._see(), 1.5, done, False, {"paid": paid}

    def render(self):
        return "\n".join(f"{row['order_id']}: {row['status']}" for row in self.state["orders"])

    def observe(self):
        return copy.deepcopy(self.state)

    def audit(self):
        events, self.events = self.events, []
        return events

    def _see(self):
        return np.full(2_000, sum(row["status"] == "paid" for row in self.state["orders"]), float)


def play(*actions):
    def interact(env, observation, info):
        for action in actions:
            try:
                env.step(action)
            except ValueError:
                continue
        return "paid them"

    return interact


def record(store, *actions, case_id="pay", **more):
    shops = []

    def factory():
        shops.append(Shop(**more.pop("kwargs", {})))
        return shops[-1]

    return capture_episode(
        factory,
        play(*actions),
        case=EvalCase(
            "Pay all orders.",
            case_id=case_id,
            source_id="shop",
            tags=("money", "de"),
            reference={"paid": 3},
        ),
        environment_id="shop-v1",
        observer_id="observe-v1",
        observe=lambda: shops[-1].observe(),
        audit=lambda: shops[-1].audit(),
        seed=7,
        max_steps=20,
        store=store,
        **more,
    )


def judge(episode):
    state = episode.final_state
    if state is None:
        return OutcomeVerdict(None, "no state was seen")
    paid = sum(row["status"] == "paid" for row in state["orders"])
    return OutcomeVerdict(paid == 3, f"{paid} of 3 are paid", {"paid": paid})


def fill(path: Path) -> None:
    """Three episodes in full, one without steps, and a report with its decision."""
    with connect(path) as store:
        first = record(
            store,
            0,
            1,
            2,
            case_id="fails",
            provenance=Provenance(run_id="run-1", agent_id="agent-1", environment_version="1.0"),
        )
        record(
            store,
            0,
            9,
            1,
            0,
            0,
            options={"market": "de"},
            render=True,
            row_keys={"/orders": "order_id"},
            provenance=Provenance(
                run_id="run-1",
                agent_id="agent-1",
                environment_version="1.0",
                repeat=1,
                previous=first.episode_id,
                labels={"team": "a"},
            ),
        )
        record(store, 1, 1, case_id="idle")
        env = EpisodeCaptureWrapper(Shop(), exporter=store, capture_steps=False)
        env.reset(seed=2**70)
        for action in (0, 0, 0):
            env.step(action)
        env.close()
        store.flush()
        check = OutcomeCheck("paid", "1", judge)
        report = evaluate(store, [check])
        report.save(store)
        AcceptancePolicy([CheckRequirement("paid")]).evaluate(report).save(store)


@pytest.fixture(scope="session")
def filled_bytes(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("filled") / "a.duckdb"
    fill(path)
    return path.read_bytes()


@pytest.fixture
def filled(filled_bytes, tmp_path) -> Path:
    """The path of a copy of the filled store."""
    path = tmp_path / "a.duckdb"
    path.write_bytes(filled_bytes)
    return path


def frame_at(kind: str, step: int) -> Any:
    """What a recorded episode shows after a step."""
    if kind == "ansi":
        return f"at \x1b[1m{step % 4}\x1b[0m"
    return np.full((3, 5, 3), step % 4, np.uint8)


def _record_parts(
    *sizes: int,
    seed: int = 1,
    ending: str | None = "terminated",
    capture_steps: bool = True,
    by_line: bool = False,
    frames: str | None = None,
) -> list[EpisodePart]:
    """The parts of one episode, of so many steps each; the last one is sealed unless told not to.

    Every third step sees the same state, every step has an event of the audit, the fourth an array.
    With `frames`, of this kind, every fourth step shows the same.
    """
    header = Header(
        case=EvalCase("walk", case_id="walk"),
        surroundings=None,
        environment_id="line-v1",
        observer_id="world",
        provenance=Provenance(),
        seed=seed,
        options=None,
        max_steps=None,
        row_keys=None,
        audited=True,
        capture_steps=capture_steps,
        closes=True,
    )
    parts: list[EpisodePart] = []
    encoder = EpisodeEncoder(header, repeat_arrays=by_line)
    events: list[dict[str, Any]] = []

    def audit() -> list[dict[str, Any]]:
        seen, events[:] = events.copy(), []
        return seen

    recorder = Recorder(
        header,
        lambda of, raw: parts.append(encoder.encode(raw)),
        lambda: {"at": recorder.n_steps % 3},
        audit,
    )
    if frames is not None:
        recorder.show(FrameReader(frames, lambda: frame_at(frames, recorder.n_steps)))
    recorder.reset(lambda: (0, {}))

    def step(action: int) -> Any:
        at = recorder.n_steps + 1
        events.append({"table": "t", "op": "insert", "key": {"at": at}, "before": None, "after": 1})
        info = {"picture": np.arange(2_000.0)} if at == 4 else {}
        ended = ending == "terminated" and at == sum(sizes)
        return at, float("nan") if at == 2 else 0.5, ended, False, info

    for number, size in enumerate(sizes, 1):
        for _ in range(size):
            recorder.step(1, step)
        if number < len(sizes) or ending is None:
            recorder._hand_over(None)
    if ending is not None:
        recorder.finish(ending, cleanup={"attempted": True, "completed": True, "error": None})
    return parts


@pytest.fixture
def record_parts() -> Any:
    """A function that gives the parts of an episode."""
    return _record_parts
