"""Real environments and wrappers: the run is that of the bare environment, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box
from gymnasium.wrappers import (
    ClipAction,
    ClipReward,
    DelayObservation,
    FlattenObservation,
    FrameStackObservation,
    MaxAndSkipObservation,
    NormalizeObservation,
    NormalizeReward,
    RecordEpisodeStatistics,
    RescaleAction,
    RescaleObservation,
    StickyAction,
    TimeAwareObservation,
    TimeLimit,
    TransformObservation,
    TransformReward,
)

from envbench.capture import Provenance, capture_episodes
from envbench.evidence import EpisodeEvidence, EvalCase
from envbench.evidence.portable import canonical, parse
from envbench.store import Store

Capture = Callable[..., EpisodeEvidence]
SEED = 3

UP, RIGHT, DOWN = 0, 1, 2
"""Actions of CliffWalking; FrozenLake and Taxi number them in another way."""


@dataclass(frozen=True)
class Run:
    """A way to make an environment, and what an agent does in it.

    Attributes:
        make: makes the environment, wrappers included.
        actions: the agent: actions from the last observation and info, without end.
    """

    make: Callable[[], Any]
    actions: Callable[[], Callable[[Any, Any], Any]]


def listed(*actions: Any) -> Callable[[], Callable[[Any, Any], Any]]:
    """An agent with a list of actions."""

    def start() -> Callable[[Any, Any], Any]:
        remaining = iter(actions)
        return lambda observation, info: next(remaining)

    return start


def sampled(space: Any) -> Callable[[], Callable[[Any, Any], Any]]:
    """An agent that samples a space of its own from the same seed."""

    def start() -> Callable[[Any, Any], Any]:
        space.seed(11)
        return lambda observation, info: space.sample()

    return start


def balance() -> Callable[[Any, Any], Any]:
    weights = np.array([0.05, 0.1, 1.0, 1.0])
    return lambda observation, info: int(observation @ weights > 0)


def first_allowed() -> Callable[[Any, Any], Any]:
    turn: Iterator[int] = iter(range(1_000_000))

    def choose(observation: Any, info: Any) -> Any:
        allowed = np.flatnonzero(info["action_mask"])
        return allowed[next(turn) % len(allowed)]

    return choose


def to_seventeen() -> Callable[[Any, Any], Any]:
    return lambda observation, info: int(observation[0] < 17)


def made(name: str, **given: Any) -> Any:
    return gymnasium.make(name, **given)


def halved(env: Any) -> Any:
    space = env.observation_space
    return TransformObservation(env, lambda seen: seen / 2, Box(-np.inf, np.inf, space.shape, "f4"))


GOAL = (1, 1, 2, 1, 2, 2)
HOLE = (2, 1)

RUNS: dict[str, Run] = {
    "FrozenLake": Run(lambda: made("FrozenLake-v1", is_slippery=False), listed(*GOAL)),
    "FrozenLake, slippery": Run(
        lambda: made("FrozenLake-v1"), sampled(gymnasium.spaces.Discrete(4))
    ),
    "FrozenLake, one-hot": Run(
        lambda: FlattenObservation(made("FrozenLake-v1", is_slippery=False)), listed(*HOLE)
    ),
    "CartPole": Run(lambda: made("CartPole-v1", max_episode_steps=60), lambda: balance()),
    "CartPole, stacked": Run(
        lambda: FrameStackObservation(made("CartPole-v1"), 3),
        sampled(gymnasium.spaces.Discrete(2)),
    ),
    "CartPole, skipped": Run(
        lambda: MaxAndSkipObservation(made("CartPole-v1"), 2),
        sampled(gymnasium.spaces.Discrete(2)),
    ),
    "CartPole, halved and delayed": Run(
        lambda: DelayObservation(halved(made("CartPole-v1")), 2),
        sampled(gymnasium.spaces.Discrete(2)),
    ),
    "CartPole, sticky and timed": Run(
        lambda: TimeAwareObservation(StickyAction(made("CartPole-v1"), 0.3)),
        sampled(gymnasium.spaces.Discrete(2)),
    ),
    "CartPole, normalised": Run(
        lambda: NormalizeReward(NormalizeObservation(made("CartPole-v1"))),
        sampled(gymnasium.spaces.Discrete(2)),
    ),
    "Taxi": Run(lambda: made("Taxi-v4", max_episode_steps=40), first_allowed),
    "Blackjack": Run(lambda: made("Blackjack-v1", sab=True), to_seventeen),
    "Blackjack, flat": Run(
        lambda: FlattenObservation(made("Blackjack-v1")), listed(1, 1, 1, 1, 1, 1)
    ),
    "CliffWalking": Run(lambda: made("CliffWalking-v1"), listed(UP, *[RIGHT] * 11, DOWN)),
    "Acrobot": Run(
        lambda: TimeLimit(made("Acrobot-v1"), 50), sampled(gymnasium.spaces.Discrete(3))
    ),
    "Acrobot, clipped": Run(
        lambda: ClipReward(TimeLimit(made("Acrobot-v1"), 20), -0.5, 0.5),
        sampled(gymnasium.spaces.Discrete(3)),
    ),
    "MountainCar": Run(
        lambda: RescaleObservation(
            made("MountainCar-v0", max_episode_steps=50), np.float32(-1), np.float32(1)
        ),
        sampled(gymnasium.spaces.Discrete(3)),
    ),
    "MountainCar, continuous": Run(
        lambda: RescaleAction(
            made("MountainCarContinuous-v0", max_episode_steps=30), np.float32(0), np.float32(1)
        ),
        sampled(Box(0, 1, (1,))),
    ),
    "Pendulum": Run(
        lambda: TransformReward(
            made("Pendulum-v1", max_episode_steps=30), lambda reward: reward / 8
        ),
        sampled(Box(-2, 2, (1,))),
    ),
    "Pendulum, beyond its limits": Run(
        lambda: ClipAction(made("Pendulum-v1", max_episode_steps=30)), sampled(Box(-9, 9, (1,)))
    ),
    "Pendulum, doubles": Run(
        lambda: TransformObservation(
            made("Pendulum-v1", max_episode_steps=10),
            lambda seen: seen.astype(np.float64) / 3,
            Box(-9, 9, (3,), np.float64),
        ),
        sampled(Box(-2, 2, (1,))),
    ),
}

Seen = tuple[Any, ...]


def played(env: Any, agent: Callable[[Any, Any], Any], first: Seen) -> list[Seen]:
    """Play to the end; every value is copied when the agent gets it."""
    seen = [frozen(first)]
    observation, info = first
    while True:
        action = agent(observation, info)
        observation, reward, terminated, truncated, info = env.step(action)
        seen.append(frozen((action, observation, reward, terminated, truncated, info)))
        if terminated or truncated:
            return seen


def frozen(value: Any) -> Any:
    """A copy, without the wall-clock time that RecordEpisodeStatistics puts into the info."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, dict):
        return {
            key: frozen(item) for key, item in value.items() if not (key == "t" and "l" in value)
        }
    if isinstance(value, tuple):
        return tuple(map(frozen, value))
    return value


def same(one: Any, other: Any) -> bool:
    """Whether values are equal bit for bit and in type."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return bool(
            one.dtype == other.dtype
            and one.shape == other.shape
            and one.tobytes() == other.tobytes()
        )
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(one == other)


def equal_sample(one: Any, other: Any) -> bool:
    """Whether a sample came back: an integer may come back as NumPy's of the same value."""
    if isinstance(one, (int, np.integer)):
        return int(one) == int(other)
    if isinstance(one, tuple):
        return all(map(equal_sample, one, other))
    return same(one, other)


def bare(run: Run) -> list[Seen]:
    env = RecordEpisodeStatistics(run.make())
    seen = played(env, run.actions(), env.reset(seed=SEED))
    env.close()
    return seen


def captured(run: Run, capture: Capture, **given: Any) -> tuple[list[Seen], EpisodeEvidence]:
    seen: list[Seen] = []

    def agent(env: Any, observation: Any, info: Any) -> str:
        seen.extend(played(env, run.actions(), (observation, info)))
        return "done"

    episode = capture(
        lambda: RecordEpisodeStatistics(run.make()),
        agent,
        seed=SEED,
        max_steps=1_000,
        case=EvalCase("play", case_id="play", expects="either"),
        **given,
    )
    return seen, episode


@pytest.mark.parametrize("name", RUNS)
def test_a_captured_run_is_that_of_the_bare_environment(
    name: str, capture: Capture, store: Store
) -> None:
    run = RUNS[name]
    seen, episode = captured(run, capture, store=store)
    assert same(seen, bare(run))
    assert_recorded(episode, seen)
    kept = store.episode(episode.episode_id, verify=True)
    again = EpisodeEvidence.from_dict(parse(canonical(kept.to_dict())))
    for other in (kept, again):
        assert other == episode
        assert other.trajectory_digest == episode.trajectory_digest
        assert_recorded(other, seen)


@pytest.mark.parametrize("name", RUNS)
def test_a_wrapped_run_is_that_of_the_bare_environment(name: str, store: Store) -> None:
    run = RUNS[name]
    wrapped = capture_episodes(
        RecordEpisodeStatistics(run.make()), exporter=store, provenance=Provenance(run_id=name)
    )
    seen = played(wrapped, run.actions(), wrapped.reset(seed=SEED))
    wrapped.close()
    assert same(seen, bare(run))
    (episode,) = store.episodes(f"run_id = '{name}' AND observer_id IS NULL")
    assert_recorded(episode, seen)


def assert_recorded(episode: EpisodeEvidence, seen: list[Seen]) -> None:
    """What is recorded is what the agent saw, and nothing is amiss."""
    (first, first_info), *steps = seen
    assert episode.initial is not None
    assert equal_sample(first, episode.initial.observation)
    assert same(first_info, frozen(episode.initial.info))
    assert len(episode.steps) == len(steps)
    for step, (action, observation, reward, terminated, truncated, info) in zip(
        episode.steps, steps, strict=True
    ):
        assert equal_sample(action, step.action)
        assert equal_sample(observation, step.observation)
        assert step.reward == reward
        assert (step.terminated, step.truncated) == (bool(terminated), bool(truncated))
        assert same(info, frozen(step.info))
    assert episode.ending == ("terminated" if steps[-1][3] else "truncated")
    assert episode.coverage_issues == []
    assert [text for text in episode.data["issues"] if not text.startswith("note: ")] == []
    assert episode.data["totals"]["steps"] == len(steps)


@pytest.mark.parametrize("name", RUNS)
def test_two_runs_differ_only_in_the_wall_clock_that_an_info_holds(
    name: str, capture: Capture
) -> None:
    run = RUNS[name]
    _, one = captured(run, capture)
    _, other = captured(run, capture)
    ours, theirs = one.data["steps"], other.data["steps"]
    for data in (ours, theirs):
        del data[-1]["transition"]["info"]["episode"]["t"]
        for step in data:
            for name_of_time in ("started_at", "step_us", "observe_us"):
                del step[name_of_time]
    assert canonical(ours) == canonical(theirs)

    def without_statistics() -> EpisodeEvidence:
        def agent(env: Any, observation: Any, info: Any) -> None:
            played(env, run.actions(), (observation, info))

        return capture(run.make, agent, seed=SEED, max_steps=1_000)

    assert without_statistics().trajectory_digest == without_statistics().trajectory_digest


# What happened in them


def test_frozen_lake_ends_at_the_goal_and_in_a_hole(capture: Capture) -> None:
    make = lambda: made("FrozenLake-v1", is_slippery=False)  # noqa: E731
    goal, hole = capture(make, GOAL), capture(make, HOLE)
    assert [step.observation for step in goal.steps] == [4, 8, 9, 13, 14, 15]
    assert [step.reward for step in goal.steps] == [0, 0, 0, 0, 0, 1]
    assert [step.observation for step in hole.steps] == [1, 5]
    assert [step.reward for step in hole.steps] == [0, 0]
    # to fall into a hole is the environment's own end, not success: a check has to tell
    assert (goal.ending, hole.ending) == ("terminated", "terminated")
    assert (goal.coverage_issues, hole.coverage_issues) == ([], [])
    assert goal.steps[0].info == {"prob": 1.0}


def test_cart_pole_that_falls_is_terminated(capture: Capture) -> None:
    def push_left(env: Any, observation: Any, info: Any) -> str:
        return f"{len(played(env, lambda *_: 0, (observation, info))) - 1} steps"

    episode = capture(lambda: made("CartPole-v1"), push_left, max_steps=100)
    angles = [abs(step.observation[2]) for step in episode.steps]
    twelve_degrees = 12 * 2 * np.pi / 360
    assert [angle > twelve_degrees for angle in angles] == [False] * (len(angles) - 1) + [True]
    assert episode.ending == "terminated"
    assert episode.output == f"{len(angles)} steps"
    assert episode.data["totals"] == {"reward": float(len(angles)), "steps": len(angles)}


def test_cart_pole_that_is_balanced_for_500_steps_passes_where_that_is_expected(
    capture: Capture,
) -> None:
    def survive(env: Any, observation: Any, info: Any) -> str:
        return f"{len(played(env, balance(), (observation, info))) - 1} steps"

    def record(expects: Any) -> EpisodeEvidence:
        case = EvalCase("stay up", case_id="up", expects=expects)
        return capture(lambda: made("CartPole-v1"), survive, case=case, max_steps=600, seed=SEED)

    episode = record("truncation")
    assert (episode.ending, episode.output) == ("truncated", "500 steps")
    assert episode.data["termination"] == {"terminated": False, "truncated": True}
    assert episode.data["totals"] == {"reward": 500.0, "steps": 500}
    assert episode.coverage_issues == []
    assert record("termination").coverage_issues == [
        "ending: truncated, where the case expects terminated"
    ]


def test_taxi_keeps_its_action_mask_with_its_dtype(capture: Capture, store: Store) -> None:
    episode = capture(lambda: made("Taxi-v4"), [0, 1], store=store)
    kept = store.episode(episode.episode_id)
    assert kept.initial is not None
    for info in (kept.initial.info, kept.steps[0].info):
        assert info["prob"] == 1.0
        assert info["action_mask"].dtype == np.int8
        assert info["action_mask"].shape == (6,)
    assert kept.data["initial"]["info"]["action_mask"]["$envbench"] == "array"


def test_blackjack_observations_are_tuples_of_hand_card_and_ace(capture: Capture) -> None:
    episode = capture(lambda: made("Blackjack-v1", sab=True), [0], seed=1)
    assert episode.initial is not None
    first = episode.initial.observation
    assert isinstance(first, tuple)
    assert len(first) == 3
    assert episode.data["initial"]["observation"] == [[int(part)] for part in first]
    assert episode.steps[0].reward in (-1.0, 0.0, 1.0)
    assert episode.ending == "terminated"


def test_cliff_walking_costs_one_a_step_and_a_hundred_over_the_edge(capture: Capture) -> None:
    safe = capture(lambda: made("CliffWalking-v1"), [UP, *[RIGHT] * 11, DOWN])
    assert [step.observation for step in safe.steps] == [24, *range(25, 36), 47]
    assert safe.data["totals"] == {"reward": -13.0, "steps": 13}
    fall = capture(lambda: made("CliffWalking-v1"), [RIGHT])
    assert (fall.steps[0].reward, fall.steps[0].observation) == (-100.0, 36)
    assert fall.ending == "policy_stop"


def test_pendulum_actions_are_kept_as_the_arrays_that_were_sent(capture: Capture) -> None:
    actions = [np.array([value], np.float32) for value in (0.5, -2.0, 1 / 3)]
    episode = capture(lambda: made("Pendulum-v1"), actions)
    assert [step.action.dtype for step in episode.steps] == [np.float32] * 3
    assert all(map(same, actions, [step.action for step in episode.steps]))
    assert episode.data["steps"][0]["action"] == [[0.5]]
    beyond = capture(lambda: made("Pendulum-v1"), lambda env, *_: env.step(np.float32([2.5])))
    assert [error["phase"] for error in beyond.errors] == ["action"]


def test_statistics_of_the_episode_are_in_the_info_of_its_last_step_only(capture: Capture) -> None:
    episode = capture(
        lambda: RecordEpisodeStatistics(made("FrozenLake-v1", is_slippery=False)), GOAL
    )
    assert ["episode" in step.info for step in episode.steps] == [False] * 5 + [True]
    statistics = episode.steps[-1].info["episode"]
    assert (statistics["r"], statistics["l"]) == (1.0, 6)
    assert statistics["t"] >= 0


def test_a_rebuilt_space_reads_the_recorded_samples_of_every_environment(capture: Capture) -> None:
    """`from_jsonable` of the declared space reads what is in `.data`, as the document says."""
    for run in RUNS.values():
        space = run.make().observation_space
        seen, episode = captured(run, capture)
        recorded = episode.data["steps"][0]["transition"]["observation"]
        if isinstance(recorded, dict) and recorded.get("$envbench") == "sample":
            continue
        (sample,) = space.from_jsonable(recorded)
        assert equal_sample(seen[1][1], sample)
