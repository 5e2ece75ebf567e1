"""Changes derived while capturing: what they are, and that a fault there costs no evidence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import pytest

from envbench.capture import capture_episode
from envbench.changes.history import History
from envbench.evidence import EpisodeEvidence, EvalCase
from envbench.store import Store, connect


def record(store: Store) -> EpisodeEvidence:
    vendors = [{"vendor_id": "V-1", "account": "A"}]

    def agent(env: Any, observation: Any, info: Any) -> None:
        for account in ("B", "A", "A"):
            vendors[0]["account"] = account
            env.step(0)

    return capture_episode(
        lambda: gymnasium.make("CartPole-v1"),
        agent,
        case=EvalCase("leave the vendors", case_id="vendors"),
        environment_id="cart-pole",
        observer_id="vendors-v1",
        observe=lambda: {"vendors": vendors},
        seed=0,
        max_steps=10,
        store=store,
    )


ROWS = [
    (1, '/vendors/vendor_id="V-1"/account', '"A"', '"B"', 2, True),
    (2, '/vendors/vendor_id="V-1"/account', '"B"', '"A"', None, None),
]
QUERY = "SELECT step_index, path, before, after, restored_at, to_initial FROM state_changes"


def test_changes_are_written_with_the_episode(tmp_path: Path) -> None:
    with connect(tmp_path / "store.duckdb") as store:
        episode = record(store)
        assert store.sql(QUERY).fetchall() == ROWS
        assert episode.data["row_keys"] == {"/vendors": "vendor_id"}
        assert [(c.step, c.restored_at) for c in episode.changes()] == [(1, 2), (2, None)]


def test_a_fault_in_deriving_them_costs_no_evidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: History, step: int, state: Any) -> None:
        raise ArithmeticError("a fault of ours")

    with connect(tmp_path / "store.duckdb") as store:
        with monkeypatch.context() as patch:
            patch.setattr(History, "_see", broken)
            episode = record(store)
        assert [step.state["vendors"][0]["account"] for step in episode.steps] == ["B", "A", "A"]
        (issue,) = episode.data["issues"]
        assert issue.startswith("note: changes could not be derived (ArithmeticError: a fault")
        assert store.sql(QUERY).fetchall() == []
        assert store.episode(episode.episode_id, verify=True) == episode
        assert store.rebuild_changes() == 2
        assert store.sql(QUERY).fetchall() == ROWS
