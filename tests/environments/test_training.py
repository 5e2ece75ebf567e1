"""A tabular policy is trained from stored transitions, and is better on new episodes.

Everything is from a seed: exploring, learning and judging give the same numbers every time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest

from envbench import EvalCase, Provenance, Store, capture_episode, connect
from envbench.environments.replay import verify_replay
from envbench.environments.transitions import Transitions, transitions

Policy = Callable[[int], int]


def make_lake(slippery: bool) -> gymnasium.Env[Any, Any]:
    """A lake of 16 fields with 4 holes: reward 1 at the goal, cut short after 100 steps."""
    return gymnasium.make("FrozenLake-v1", is_slippery=slippery)


def explorer(seed: int) -> Policy:
    """Any of the four directions, by chance."""
    chance = np.random.default_rng(seed)
    return lambda observation: int(chance.integers(4))


def greedy(values: np.ndarray[Any, Any]) -> Policy:
    """The best direction by a table of values, fields by directions."""
    return lambda observation: int(values[observation].argmax())


def play(
    store: Store, agent_id: str, policy_of: Callable[[int], Policy], seeds: range, slippery: bool
) -> None:
    """Record one episode a seed, each with the policy that its seed makes."""
    for seed in seeds:
        policy = policy_of(seed)

        def interact(env: Any, observation: int, info: Any, policy: Policy = policy) -> None:
            done = False
            while not done:
                observation, _, terminated, truncated, _ = env.step(policy(observation))
                done = terminated or truncated

        capture_episode(
            lambda: make_lake(slippery),
            interact,
            case=EvalCase("Cross the lake", case_id=f"lake-{seed}", expects="either"),
            environment_id="frozen-lake",
            observer_id="none",
            observe=dict,
            seed=seed,
            max_steps=100,
            store=store,
            provenance=Provenance(agent_id=agent_id),
        )


def learn(
    data: Transitions, *, sweeps: int, rate: float = 0.1, discount: float = 0.99, seed: int = 0
) -> np.ndarray[Any, Any]:
    """Q-learning (Watkins and Dayan 1992) over recorded transitions, in a new order each sweep.

    The value of what comes after counts unless the environment ended the episode there: after a
    truncation it does.

    Returns:
        Values, fields by directions.
    """
    values = np.zeros((16, 4))
    chance = np.random.default_rng(seed)
    for _ in range(sweeps):
        order = data[chance.permutation(len(data))]
        rows = zip(
            order.observation.tolist(),
            order.action.tolist(),
            order.reward.tolist(),
            order.next_observation.tolist(),
            order.terminated.tolist(),
            strict=True,
        )
        for observation, action, reward, after, terminated in rows:
            target = reward if terminated else reward + discount * values[after].max()
            values[observation, action] += rate * (target - values[observation, action])
    return values


def success(store: Store, agent_id: str) -> float:
    """The share of an agent's episodes that came to the goal."""
    rows = store.sql(
        "SELECT avg(CAST(episode_return = 1 AS DOUBLE)) FROM episodes WHERE agent_id = ?",
        [agent_id],
    )
    return float(rows.fetchall()[0][0])


def train(store: Store, *, slippery: bool, explored: int, judged: int) -> np.ndarray[Any, Any]:
    """Explore, learn from what was stored, and play new episodes with what was learnt."""
    play(store, "explorer", explorer, range(explored), slippery)
    # where every move does the same each time there is nothing to average
    rate = 0.1 if slippery else 1.0
    values = learn(transitions(store, "agent_id = 'explorer'"), sweeps=10, rate=rate)
    new = range(10_000, 10_000 + judged)
    play(store, "explorer-again", explorer, new, slippery)
    play(store, "trained", lambda seed: greedy(values), new, slippery)
    return values


def test_a_policy_learnt_from_stored_transitions_crosses_the_lake() -> None:
    with connect(":memory:") as store:
        values = train(store, slippery=False, explored=300, judged=20)
        assert success(store, "explorer-again") <= 0.1
        assert success(store, "trained") == 1.0
        # without slipping the shortest way has six steps
        assert transitions(store, "agent_id = 'trained'").step.max() == 6
        # and its value is the reward at the goal, discounted five times
        assert values[0].max() == pytest.approx(0.99**5, rel=1e-9)
        (episode, *_) = store.episodes("agent_id = 'trained'")
        assert verify_replay(lambda: make_lake(False), episode, observe=dict).ok


def test_training_is_the_same_every_time() -> None:
    found = []
    for _ in range(2):
        with connect(":memory:") as store:
            found.append(train(store, slippery=True, explored=30, judged=2))
            steps = transitions(store).step.tolist()
            found.append(np.array(steps))
    np.testing.assert_array_equal(found[0], found[2])
    np.testing.assert_array_equal(found[1], found[3])


@pytest.mark.slow
def test_on_slippery_ice_it_is_better_on_new_episodes() -> None:
    with connect(":memory:") as store:
        train(store, slippery=True, explored=1_000, judged=100)
        explored, trained = success(store, "explorer-again"), success(store, "trained")
        # chance crosses in about one of 70; the best policy there is in about 74 of 100
        assert explored <= 0.05
        assert trained >= 0.5


def test_a_truncated_episode_counts_what_would_have_come() -> None:
    """One field that pays 1 a step and is cut short: its value is that of going on for ever."""
    n = 400
    data = Transitions(
        observation=np.zeros(n, np.int64),
        action=np.zeros(n, np.int64),
        reward=np.ones(n),
        next_observation=np.zeros(n, np.int64),
        terminated=np.zeros(n, bool),
        truncated=np.arange(n) % 10 == 9,
        last=np.arange(n) % 10 == 9,
        episode=np.arange(n) // 10,
        step=np.arange(n) % 10 + 1,
        episodes=(),
        spaces={},
    )
    assert learn(data, sweeps=200, discount=0.9)[0, 0] == pytest.approx(10, rel=0.01)
