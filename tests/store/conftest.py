"""A store of real episodes, with something in every column."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from envbench.capture import EpisodeCaptureWrapper, Provenance, capture_episode
from envbench.checks import (
    AcceptancePolicy,
    CheckRequirement,
    OutcomeCheck,
    OutcomeVerdict,
    evaluate,
)
from envbench.evidence import EvalCase
from envbench.store import connect


class Shop(gymnasium.Env[Any, int]):
    """Orders, one row each. Action 0 pays the next one, 1 looks, 2 raises after paying."""

    action_space = gymnasium.spaces.Discrete(3)
    observation_space = gymnasium.spaces.Box(-1.0, 1e6, (2_000,), np.float64)

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
