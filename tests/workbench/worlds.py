"""Episodes to look at: a warehouse of any length, and states with whatever one wants in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import gymnasium
import numpy as np

from envbench import EpisodeEvidence, EvalCase, Provenance, Store, capture_episode

State = dict[str, Any]

WORDS = ("open", "picked", "packed", "shipped", "returned")


class Warehouse(gymnasium.Env[Any, Any]):
    """Orders of which each step moves one; at some steps a price is changed, and put back later."""

    observation_space = gymnasium.spaces.Discrete(1_000_000)
    action_space = gymnasium.spaces.Dict(
        {"order": gymnasium.spaces.Discrete(100_000), "note": gymnasium.spaces.Text(40)}
    )

    def __init__(self, steps: int, rows: int) -> None:
        self.last = steps
        self.done = 0
        self.orders = [
            {"order_id": i, "status": "open", "amount_cents": 1_000 + i, "note": f"order {i:05}"}
            for i in range(rows)
        ]
        self.prices = [{"sku": f"P{i}", "id": i, "cents": 250 + 10 * i} for i in range(5)]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        return 0, {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.done += 1
        order = self.orders[int(action["order"]) % len(self.orders)]
        order["status"] = WORDS[(WORDS.index(order["status"]) + 1) % len(WORDS)]
        if self.done % 97 == 40:
            self.prices[2]["cents"] = 1
        if self.done % 97 == 43:
            self.prices[2]["cents"] = 270
        reward = 1.0 if order["status"] == "shipped" else 0.0
        return self.done, reward, self.done >= self.last, False, {}

    def read(self) -> State:
        """The state that the observer reads."""
        return {"orders": self.orders, "prices": self.prices}


def warehouse(
    steps: int, rows: int = 50, *, store: Store | None = None, case_id: str = "warehouse"
) -> EpisodeEvidence:
    """An episode of the warehouse, in which a step changes one cell or two."""
    made: list[Warehouse] = []

    def factory() -> Warehouse:
        made.append(Warehouse(steps, rows))
        return made[-1]

    def interact(env: Any, observation: Any, info: Any) -> str:
        for i in range(steps):
            env.step({"order": (i * 7_919) % 100_000, "note": f"turn{i % 50}"})
        return "all moved"

    return capture_episode(
        factory,
        interact,
        case=EvalCase("Move the orders", case_id=case_id),
        environment_id="warehouse-v1",
        observer_id="warehouse",
        observe=lambda: made[-1].read(),
        seed=1,
        max_steps=steps + 1,
        store=store,
        provenance=Provenance(agent_id="scripted"),
    )


class Scripted(gymnasium.Env[Any, Any]):
    """Shows the states that it is given, one a step; whatever is sent is an action."""

    observation_space = gymnasium.spaces.Discrete(100_000)
    action_space = gymnasium.spaces.Discrete(100_000)

    def __init__(self, states: list[Any], infos: list[Any] | None = None) -> None:
        self.states = states
        self.infos = infos or []
        self.at = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        return 0, {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.at += 1
        info = self.infos[self.at - 1] if self.at <= len(self.infos) else {}
        return self.at, float(self.at % 2), self.at == len(self.states) - 1, False, info

    def read(self) -> Any:
        """The state of the moment; an exception among the states is raised."""
        state = self.states[self.at]
        if isinstance(state, Exception):
            raise state
        return state


def scripted(
    states: Iterable[Any],
    *,
    infos: list[Any] | None = None,
    case_id: str = "scripted",
    store: Store | None = None,
    after: Callable[[Scripted], None] | None = None,
) -> EpisodeEvidence:
    """An episode whose states are these: the first after the reset, then one a step.

    Args:
        states: what the observer reads; an exception is raised by it.
        infos: what each step gives as info.
        case_id: names the case.
        store: where it is recorded.
        after: called when all steps are done, before the last state is read.
    """
    made: list[Scripted] = []
    listed = list(states)

    def factory() -> Scripted:
        made.append(Scripted(listed, infos))
        return made[-1]

    def interact(env: Any, observation: Any, info: Any) -> str:
        for i in range(len(listed) - 1):
            env.step(np.int64(i))
        if after is not None:
            after(made[-1])
        return "done"

    return capture_episode(
        factory,
        interact,
        case=EvalCase("Look", case_id=case_id),
        environment_id="scripted-v1",
        observer_id="scripted",
        observe=lambda: made[-1].read(),
        seed=1,
        max_steps=len(listed) + 1,
        store=store,
    )
