"""EpisodeCaptureWrapper: loops that reset many times, recorded episode by episode."""

from __future__ import annotations

import asyncio
import copy
import gc
import hashlib
import threading
import warnings
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import FlattenObservation, RecordEpisodeStatistics, TimeLimit

from envbench.capture import (
    EpisodeCaptureWrapper,
    OutOfOrder,
    Provenance,
    capture_episodes,
    observe,
    sink,
)
from envbench.evidence import EpisodeEvidence, EvalCase
from envbench.evidence.tagged import Cut
from envbench.store import Store, connect
from envbench.store.errors import StoreError

Scripted = Any

GO = (1, 0.5, False, False, {})
END = (2, 1.0, True, False, {"last": True})
CUT = (2, 1.0, False, True, {})


def recorded(store: Store, wrapped: EpisodeCaptureWrapper) -> list[EpisodeEvidence]:
    """The episodes of one wrapper, in order; every digest is recomputed."""
    run = wrapped._provenance.run_id
    episodes = list(store.episodes(f"run_id = '{run}'"))
    assert [problem for episode in episodes for problem in episode.verify()] == []
    return episodes


def wrap(env: Any, store: Any, run: str, **given: Any) -> EpisodeCaptureWrapper:
    return EpisodeCaptureWrapper(env, exporter=store, provenance=Provenance(run_id=run), **given)


@pytest.fixture
def run(request: pytest.FixtureRequest) -> str:
    """A run of this test's own: the store is shared."""
    return str(request.node.name).replace("'", "")


@pytest.fixture(autouse=True)
def no_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test records into the default target of another."""
    monkeypatch.setattr(sink, "_DEFAULT", ["envbench.duckdb"])
    monkeypatch.chdir(tmp_path)


# What passes through, and what is recorded


def test_the_very_objects_pass_through(scripted: Scripted, store: Store, run: str) -> None:
    first, second = (
        (np.int64(3), {"a": 1}),
        (np.int64(4), np.float32(0.5), np.bool_(True), False, {}),
    )
    env = scripted(second, reset=first)
    wrapped = wrap(env, store, run)
    options, action = {"level": 1}, np.int64(2)
    assert wrapped.reset(seed=5, options=options) is first
    assert wrapped.step(action) is second
    wrapped.close()
    assert env.calls == [("reset", 5, options), ("step", 2), "close"]
    assert env.calls[0][2] is options
    assert env.calls[1][1] is action


def test_an_episode_is_recorded_with_what_is_known_of_it(
    scripted: Scripted, store: Store, run: str
) -> None:
    wrapped = wrap(scripted(GO, END, reset=(7, {"r": 1})), store, run)
    wrapped.reset(seed=5, options={"level": 1})
    wrapped.step(1)
    wrapped.step(2)
    wrapped.close()
    (episode,) = recorded(store, wrapped)
    data = episode.data
    assert data["case_id"] == data["environment_id"] == wrapped.unwrapped.__module__ + ".Scripted"
    assert data["case"]["expects"] == "either"
    assert (data["observer_id"], data["max_steps"], data["cleanup"]) == (None, None, None)
    assert (data["seed"], data["options"]) == (5, {"level": 1})
    assert data["initial"] == {"observation": [7], "info": {"r": 1}}
    assert [(s.index, s.action, s.observation, s.reward, s.info) for s in episode.steps] == [
        (1, 1, 1, 0.5, {}),
        (2, 2, 2, 1.0, {"last": True}),
    ]
    assert data["totals"] == {"reward": 1.5, "steps": 2}
    assert (episode.ending, episode.errors, data["issues"]) == ("terminated", [], [])
    assert (episode.states, episode.final_state) == ([None, None, None], None)
    # no observer was given, so no state was promised
    assert episode.coverage_issues == []


def test_case_and_provenance_are_the_callers(scripted: Scripted, store: Store, run: str) -> None:
    wrapped = EpisodeCaptureWrapper(
        scripted(CUT),
        exporter=store,
        case=EvalCase("stay up", case_id="up", expects="truncation"),
        provenance=Provenance(run_id=run, agent_id="a-1", repeat=2, labels={"x": 1}),
    )
    wrapped.reset()
    wrapped.step(0)
    wrapped.close()
    (episode,) = recorded(store, wrapped)
    assert (episode.case.case_id, episode.case.expects) == ("up", "truncation")
    assert episode.data["provenance"]["agent_id"] == "a-1"
    assert episode.data["provenance"]["repeat"] == 2
    assert episode.data["provenance"]["labels"] == {"x": 1}
    assert episode.coverage_issues == []


def test_wrappers_of_one_process_share_a_run_that_is_made_up(
    scripted: Scripted, store: Store
) -> None:
    first, second = (capture_episodes(scripted(), exporter=store) for _ in range(2))
    assert first._provenance.run_id == second._provenance.run_id
    first.close()
    second.close()


@pytest.mark.parametrize(
    ("seed", "kept"),
    [(None, None), (0, 0), (np.int64(4), 4), (2**70, 2**70), (True, 1)],
    ids=repr,
)
def test_the_seed_is_kept(
    seed: Any, kept: int | None, scripted: Scripted, store: Store, run: str
) -> None:
    wrapped = wrap(scripted(), store, run)
    wrapped.reset(seed=seed)
    wrapped.close()
    (episode,) = recorded(store, wrapped)
    assert episode.data["seed"] == kept
    assert episode.data["issues"] == []


@pytest.mark.parametrize("seed", [-1, "a", 1.5], ids=repr)
def test_what_is_no_seed_is_passed_on_and_named(
    seed: Any, scripted: Scripted, store: Store, run: str
) -> None:
    env = scripted(END)
    wrapped = wrap(env, store, run)
    wrapped.reset(seed=seed)
    wrapped.step(0)
    wrapped.close()
    assert env.calls[0] == ("reset", seed, None)
    (episode,) = recorded(store, wrapped)
    assert episode.data["seed"] is None
    assert episode.coverage_issues == [
        f"contract: reset was called with seed={seed!r}, which is no seed"
    ]


# How episodes end


def test_many_episodes_of_one_loop_each_have_their_own_end(
    scripted: Scripted, store: Store, run: str
) -> None:
    wrapped = wrap(scripted(GO, END, CUT, GO, GO), store, run)
    for steps in (2, 1, 1, 0, 1):
        wrapped.reset()
        for _ in range(steps):
            wrapped.step(0)
    wrapped.close()
    episodes = recorded(store, wrapped)
    assert [(e.ending, len(e.steps), e.data["termination"]["truncated"]) for e in episodes] == [
        ("terminated", 2, False),
        ("truncated", 1, True),
        ("reset_early", 1, False),
        ("reset_early", 0, False),
        ("closed_early", 1, False),
    ]
    assert [bool(e.coverage_issues) for e in episodes] == [False, False, True, True, True]
    assert episodes[2].coverage_issues == [
        "ending: reset_early, where the case expects terminated or truncated"
    ]
    assert len({e.episode_id for e in episodes}) == 5


def test_close_right_after_reset_is_closed_early(
    scripted: Scripted, store: Store, run: str
) -> None:
    wrapped = wrap(scripted(), store, run)
    wrapped.reset()
    wrapped.close()
    (episode,) = recorded(store, wrapped)
    assert (episode.ending, episode.steps) == ("closed_early", [])


def test_both_flags_together_are_terminated(scripted: Scripted, store: Store, run: str) -> None:
    wrapped = wrap(scripted((0, 0.0, True, True, {})), store, run)
    wrapped.reset()
    wrapped.step(0)
    wrapped.close()
    (episode,) = recorded(store, wrapped)
    assert episode.ending == "terminated"
    assert episode.data["termination"] == {"terminated": True, "truncated": True}


def test_a_wrapper_that_is_never_reset_records_nothing(
    scripted: Scripted, store: Store, run: str
) -> None:
    wrapped = wrap(scripted(), store, run)
    with pytest.raises(OutOfOrder, match=r"step before reset: call reset\(\) first"):
        wrapped.step(0)
    wrapped.close()
    assert recorded(store, wrapped) == []


def test_a_failed_reset_is_recorded_and_leaves_none_open(
    scripted: Scripted, store: Store, run: str
) -> None:
    error = RuntimeError("no world")
    env = scripted(GO, END)
    wrapped = wrap(env, store, run)
    wrapped.reset()
    wrapped.step(0)
    env.reset_result = error
    with pytest.raises(RuntimeError) as raised:
        wrapped.reset()
    assert raised.value is error
    with pytest.raises(OutOfOrder):
        wrapped.step(0)
    env.reset_result = (0, {})
    wrapped.reset()
    wrapped.step(0)
    wrapped.close()
    early, failed, whole = recorded(store, wrapped)
    assert [early.ending, failed.ending, whole.ending] == ["reset_early", "error", "terminated"]
    assert (failed.initial, failed.steps) == (None, [])
    assert failed.errors == [
        {"phase": "reset", "type": "RuntimeError", "message": "no world", "step": 0}
    ]


def test_an_interrupted_reset_is_an_interrupted_episode(
    scripted: Scripted, store: Store, run: str
) -> None:
    wrapped = wrap(scripted(reset=KeyboardInterrupt()), store, run)
    with pytest.raises(KeyboardInterrupt):
        wrapped.reset()
    wrapped.close()
    assert [episode.ending for episode in recorded(store, wrapped)] == ["interrupted"]


def test_a_step_that_raises_is_a_row_and_the_episode_may_go_on(
    scripted: Scripted, store: Store, run: str
) -> None:
    error = OSError("lost")
    env = scripted(GO, error, END, error)
    wrapped = wrap(env, store, run)
    wrapped.reset()
    wrapped.step(0)
    with pytest.raises(OSError, match="lost") as raised:
        wrapped.step(1)
    assert raised.value is error
    wrapped.step(2)
    wrapped.reset()
    with pytest.raises(OSError, match="lost"):
        wrapped.step(0)
    wrapped.close()
    went_on, gave_up = recorded(store, wrapped)
    assert [step.action for step in went_on.steps] == [0, 1, 2]
    assert went_on.steps[1].error == {"phase": "step", "type": "OSError", "message": "lost"}
    assert went_on.data["steps"][1]["transition"] is None
    assert went_on.ending == "terminated"
    assert gave_up.ending == "error"
    assert gave_up.data["termination"] == {"terminated": False, "truncated": False}


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupted_step_is_a_row_without_a_transition_and_the_episode_goes_on(
    kind: type[BaseException], scripted: Scripted, store: Store, run: str
) -> None:
    wrapped = wrap(scripted(GO, kind("stop"), END, kind("stop")), store, run)
    wrapped.reset()
    wrapped.step(0)
    with pytest.raises(kind, match="stop"):
        wrapped.step(1)
    wrapped.step(2)
    wrapped.reset()
    with pytest.raises(kind, match="stop"):
        wrapped.step(0)
    wrapped.close()
    went_on, closed = recorded(store, wrapped)
    assert [(step.action, step.reward) for step in went_on.steps] == [(0, 0.5), (1, None), (2, 1.0)]
    assert went_on.steps[1].error == {"phase": "step", "type": kind.__name__, "message": "stop"}
    assert went_on.ending == "terminated"
    assert closed.ending == "closed_early"


def test_steps_after_the_end_pass_through_and_are_counted(
    scripted: Scripted, store: Store, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink, "SETTLE_SECONDS", 1e6)
    late = (9, 9.0, False, False, {})
    wrapped = wrap(scripted(END, late, late, END, late), store, run)
    wrapped.reset()
    wrapped.step(0)
    assert wrapped.step(0) is late
    assert wrapped.step(0) is late
    wrapped.reset()
    wrapped.step(0)
    wrapped.step(0)
    wrapped.close()
    first, second = recorded(store, wrapped)
    assert (len(first.steps), first.data["totals"]["reward"]) == (1, 1.0)
    assert first.data["issues"] == [
        "lifecycle: stepped 2 times after the end; such steps are not recorded"
    ]
    assert second.data["issues"] == [
        "lifecycle: stepped once after the end; such steps are not recorded"
    ]


def test_a_step_after_an_end_that_is_sealed_already_is_counted_with_the_next_episode(
    scripted: Scripted, store: Store, run: str
) -> None:
    wrapped = wrap(scripted(END, GO), store, run)
    wrapped.reset()
    wrapped.step(0)
    wrapped.flush()
    assert wrapped.step(0) is GO
    wrapped.reset()
    wrapped.close()
    first, second = recorded(store, wrapped)
    assert first.data["issues"] == []
    assert second.data["issues"] == ["note: once stepped before this reset, unrecorded"]


def test_closing_twice_closes_once_and_a_closed_wrapper_says_so(
    scripted: Scripted, store: Store, run: str
) -> None:
    env = scripted(GO)
    wrapped = wrap(env, store, run)
    wrapped.reset()
    wrapped.close()
    wrapped.close()
    with pytest.raises(OutOfOrder, match="reset after close: wrap the environment again"):
        wrapped.reset()
    with pytest.raises(OutOfOrder):
        wrapped.step(0)
    wrapped.flush()
    assert [episode.ending for episode in recorded(store, wrapped)] == ["closed_early"]


def test_an_environment_that_fails_to_close_has_its_episode_kept(
    scripted: Scripted, store: Store, run: str
) -> None:
    wrapped = wrap(scripted(GO, close=OSError("busy")), store, run)
    wrapped.reset()
    wrapped.step(0)
    with pytest.raises(OSError, match="busy"):
        wrapped.close()
    assert [episode.ending for episode in recorded(store, wrapped)] == ["closed_early"]


def test_a_wrapper_that_is_dropped_leaves_its_episode_interrupted(
    scripted: Scripted, store: Store, run: str
) -> None:
    wrapped: Any = wrap(scripted(GO), store, run)
    wrapped.reset()
    wrapped.step(0)
    del wrapped
    gc.collect()
    (episode,) = store.episodes(f"run_id = '{run}'")
    assert (episode.ending, len(episode.steps)) == ("interrupted", 1)


def test_a_wrapper_that_is_dropped_after_the_end_leaves_it_as_it_ended(
    scripted: Scripted, store: Store, run: str
) -> None:
    wrapped: Any = wrap(scripted(END), store, run)
    wrapped.reset()
    wrapped.step(0)
    del wrapped
    gc.collect()
    assert [e.ending for e in store.episodes(f"run_id = '{run}'")] == ["terminated"]


# What is kept of each step


def test_without_steps_one_row_an_episode_is_kept(
    scripted: Scripted, store: Store, run: str
) -> None:
    wrapped = wrap(scripted(GO, GO, END), store, run, capture_steps=False)
    wrapped.reset()
    for _ in range(3):
        wrapped.step(0)
    wrapped.close()
    (episode,) = recorded(store, wrapped)
    assert episode.steps == []
    assert episode.data["capture_steps"] is False
    assert episode.data["totals"] == {"reward": 2.0, "steps": 3}
    assert (episode.ending, episode.coverage_issues) == ("terminated", [])
    assert store.sql(
        "SELECT n_steps, episode_return FROM episodes WHERE run_id = ?", [run]
    ).fetchall() == [(3, 2.0)]


def test_without_steps_their_errors_are_kept(scripted: Scripted, store: Store, run: str) -> None:
    wrapped = wrap(scripted((0, "1", False, False, {}), END), store, run, capture_steps=False)
    wrapped.reset()
    wrapped.step(0)
    wrapped.step(0)
    wrapped.close()
    (episode,) = recorded(store, wrapped)
    assert [(error["phase"], error["step"]) for error in episode.errors] == [("contract", 1)]
    assert episode.data["totals"] == {"reward": None, "steps": 2}


class Wide(gymnasium.Env[Any, Any]):
    observation_space = Box(-10, 10, (3,))
    action_space = Discrete(2000)

    def reset(self, **given: Any) -> Any:
        return np.array([1, 2, 3], np.float32), {}

    def step(self, action: Any) -> Any:
        return np.array([-1.5, 2.5, -3.5], np.float32), 0.0, True, False, {}


def test_limits_of_characters_mark_what_they_cut(store: Store, run: str) -> None:
    wrapped = wrap(Wide(), store, run, max_obs_chars=13, max_action_chars=3)
    wrapped.reset()
    observation, *_ = wrapped.step(1234)
    wrapped.close()
    assert observation.tolist() == [-1.5, 2.5, -3.5]  # the agent gets all of it
    (episode,) = recorded(store, wrapped)
    (step,) = episode.steps
    whole = "[[-1.5,2.5,-3.5]]"  # 17 characters
    action = "[1234]"
    assert step.observation == Cut("[[-1.5,2.5,-3", 17, hashlib.sha256(whole.encode()).hexdigest())
    assert step.action == Cut("[12", 6, hashlib.sha256(action.encode()).hexdigest())
    assert step.error == {
        "phase": "limit",
        "type": "Cut",
        "message": "action of 6 characters was cut to 3",
        "field": "action",
        "length": 6,
        "sha256": hashlib.sha256(action.encode()).hexdigest(),
        "more": [
            {
                "phase": "limit",
                "type": "Cut",
                "message": "observation of 17 characters was cut to 13",
                "field": "observation",
                "length": 17,
                "sha256": hashlib.sha256(whole.encode()).hexdigest(),
            }
        ],
    }
    assert episode.coverage_issues == []  # it was asked for
    assert EpisodeEvidence.from_dict(episode.to_dict()) == episode


@pytest.mark.parametrize(("limit", "cut"), [(16, True), (17, False), (0, True), (None, False)])
def test_a_limit_is_the_number_of_characters_that_are_kept(
    limit: int | None, cut: bool, store: Store, run: str
) -> None:
    wrapped = wrap(Wide(), store, run, max_obs_chars=limit)
    wrapped.reset()
    wrapped.step(1)
    wrapped.close()
    (episode,) = recorded(store, wrapped)
    assert isinstance(episode.steps[0].observation, Cut) is cut


def test_a_limit_holds_for_the_first_observation_too(store: Store, run: str) -> None:
    wrapped = wrap(Wide(), store, run, max_obs_chars=5)
    wrapped.reset()
    wrapped.step(1)
    wrapped.close()
    (episode,) = recorded(store, wrapped)
    assert episode.initial is not None
    assert isinstance(episode.initial.observation, Cut)
    assert episode.initial.observation == Cut(
        "[[1.0", 15, hashlib.sha256(b"[[1.0,2.0,3.0]]").hexdigest()
    )
    assert [(e["phase"], e["step"]) for e in episode.errors] == [("limit", 0), ("limit", 1)]


# Where it is kept


def test_what_is_recorded_is_seen_at_once_in_the_same_process(
    scripted: Scripted, tmp_path: Path
) -> None:
    path = tmp_path / "e.duckdb"
    wrapped = capture_episodes(scripted(END, GO), exporter=path)
    wrapped.reset()
    wrapped.step(0)
    with connect(path) as store:
        assert [episode.ending for episode in store.episodes()] == ["terminated"]
        wrapped.reset()
        wrapped.step(0)
        assert len(store.episodes()) == 1  # one that is open is not evidence yet
        wrapped.close()
        assert [episode.ending for episode in store.episodes()] == ["terminated", "closed_early"]
    with connect(path) as store:
        assert len(store.episodes()) == 2
        assert store.verify().ok


def test_two_wrappers_record_into_one_store(scripted: Scripted, store: Store, run: str) -> None:
    first, second = (wrap(scripted(GO, END), store, run) for _ in range(2))
    for wrapped in (first, second):
        wrapped.reset()
    for _ in range(2):
        first.step(0)
        second.step(1)
    first.close()
    second.close()
    episodes = recorded(store, first)
    assert [[step.action for step in episode.steps] for episode in episodes] == [[0, 0], [1, 1]]


def test_two_wrappers_record_into_one_path(scripted: Scripted, tmp_path: Path) -> None:
    path = tmp_path / "e.duckdb"
    first = capture_episodes(scripted(END), exporter=path)
    second = capture_episodes(scripted(END), exporter=str(path))
    for wrapped in (first, second):
        wrapped.reset()
        wrapped.step(0)
    first.close()
    second.close()
    with connect(path, read_only=True) as store:
        assert len(store.episodes()) == 2


def test_without_a_thread_an_episode_is_committed_when_its_last_call_returns(
    scripted: Scripted, store: Store, run: str
) -> None:
    def committed() -> Any:
        # a bare cursor: it waits for nobody
        with store.cursor() as cursor:
            return cursor.execute("SELECT ending FROM episodes WHERE run_id = ?", [run]).fetchall()

    wrapped = wrap(scripted(END, GO), store, run, async_capture=False)
    wrapped.reset()
    wrapped.step(0)
    assert committed() == [("terminated",)]
    wrapped.reset()
    wrapped.step(0)
    wrapped.reset()
    assert committed() == [("terminated",), ("reset_early",)]
    wrapped.close()
    assert committed() == [("terminated",), ("reset_early",), ("closed_early",)]


def test_flush_commits_what_has_ended(scripted: Scripted, store: Store, run: str) -> None:
    wrapped = wrap(scripted(END), store, run)
    wrapped.reset()
    wrapped.step(0)
    wrapped.flush()
    with store.cursor() as cursor:
        query = "SELECT count(*) FROM episodes WHERE run_id = ?"
        assert cursor.execute(query, [run]).fetchall() == [(1,)]
    wrapped.close()


def test_the_default_target_is_a_store_in_the_working_directory(
    scripted: Scripted, tmp_path: Path
) -> None:
    wrapped = capture_episodes(scripted(END))
    wrapped.reset()
    wrapped.step(0)
    wrapped.close()
    with connect(tmp_path / "envbench.duckdb") as store:
        assert len(store.episodes()) == 1


def test_observe_sets_the_default_target(scripted: Scripted, store: Store, run: str) -> None:
    observe(store)
    wrapped = EpisodeCaptureWrapper(scripted(END), provenance=Provenance(run_id=run))
    wrapped.reset()
    wrapped.step(0)
    wrapped.close()
    assert len(recorded(store, wrapped)) == 1
    with pytest.raises(TypeError, match="a target must be a Store or a path"):
        observe(5)  # type: ignore[arg-type]


def test_a_spec_rebuilds_the_wrapper_and_its_copy_records_too(tmp_path: Path) -> None:
    path = tmp_path / "e.duckdb"
    case = EvalCase("walk", case_id="walk", expects="either")
    wrapped = EpisodeCaptureWrapper(
        gymnasium.make("FrozenLake-v1", is_slippery=False),
        exporter=path,
        max_obs_chars=500,
        capture_steps=False,
        case=case,
    )
    assert wrapped.spec is not None
    again: Any = gymnasium.make(wrapped.spec)
    assert type(again) is EpisodeCaptureWrapper
    assert again is not wrapped
    for env in (wrapped, again):
        env.reset(seed=1)
        env.step(1)
        env.close()
    with connect(path) as store:
        episodes = list(store.episodes())
    assert len(episodes) == 2
    assert {episode.case for episode in episodes} == {case}
    assert len({episode.trajectory_digest for episode in episodes}) == 1


def test_the_spec_of_a_wrapper_of_an_open_store_holds_its_path(
    scripted: Scripted, tmp_path: Path
) -> None:
    with connect(tmp_path / "e.duckdb") as store:
        wrapped = EpisodeCaptureWrapper(gymnasium.make("CartPole-v1"), exporter=store)
        assert wrapped.spec is not None
        (described,) = wrapped.spec.additional_wrappers
        assert described.kwargs is not None
        assert described.kwargs["exporter"] == str(tmp_path / "e.duckdb")
        again = gymnasium.make(wrapped.spec)
        again.reset(seed=1)
        again.close()
        wrapped.close()
        assert [episode.ending for episode in store.episodes()] == ["closed_early"]


# Among other wrappers and libraries


def test_a_wrapper_below_is_part_of_what_is_recorded_and_one_above_is_not(
    scripted: Scripted, store: Store, run: str
) -> None:
    below = RecordEpisodeStatistics(scripted(GO, END))
    wrapped = wrap(below, store, run)
    above = RecordEpisodeStatistics(wrapped, stats_key="above")
    above.reset()
    above.step(0)
    *_, info = above.step(0)
    above.close()
    assert set(info) == {"last", "episode", "above"}
    (episode,) = recorded(store, wrapped)
    assert [name.rpartition(".")[2] for name in episode.data["wrappers"]] == [
        "RecordEpisodeStatistics",
        "Scripted",
    ]
    kept = episode.steps[1].info
    assert set(kept) == {"last", "episode"}
    assert (kept["episode"]["r"], kept["episode"]["l"]) == (1.5, 2)


def test_a_limit_above_ends_its_episodes_early_and_one_below_truncates(
    scripted: Scripted, store: Store, run: str
) -> None:
    above = TimeLimit(wrap(scripted(GO, GO, GO), store, run), 1)
    for _ in range(2):
        above.reset()
        assert above.step(0)[3] is True
    above.close()
    below = wrap(TimeLimit(scripted(GO), 1), store, run)
    below.reset()
    below.step(0)
    below.close()
    assert [episode.ending for episode in recorded(store, below)] == [
        "reset_early",
        "closed_early",
        "truncated",
    ]


def test_one_recorder_may_wrap_another(scripted: Scripted, store: Store, run: str) -> None:
    with connect(":memory:") as other:
        inner = wrap(scripted(GO, END), store, run)
        outer = wrap(inner, other, run)
        outer.reset(seed=1)
        outer.step(1)
        outer.step(2)
        outer.close()
        (from_inner,), (from_outer,) = recorded(store, inner), recorded(other, outer)
        assert from_inner.trajectory_digest == from_outer.trajectory_digest
        assert from_outer.data["wrappers"][0].endswith(".EpisodeCaptureWrapper")


@pytest.mark.parametrize("name", ["CartPole-v1", "FrozenLake-v1", "Blackjack-v1"])
def test_gymnasiums_own_checker_says_no_more_of_a_wrapped_environment(
    name: str, store: Store
) -> None:
    def complaints(env: Any) -> list[str]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            check_env(env, skip_render_check=True)
        texts = [str(warning.message) for warning in caught]
        # it says of every wrapper that it is not the environment itself
        return [text for text in texts if "is different from the unwrapped version" not in text]

    bare = gymnasium.make(name, disable_env_checker=True)
    wrapped = capture_episodes(bare, exporter=store)
    assert complaints(wrapped) == complaints(bare.unwrapped)
    wrapped.close()


def test_the_wrappers_of_a_vector_environment_record_each_its_own(store: Store, run: str) -> None:
    vector = gymnasium.vector.SyncVectorEnv(
        [lambda: wrap(gymnasium.make("FrozenLake-v1"), store, run) for _ in range(2)]
    )
    vector.reset(seed=3)
    vector.step(np.array([1, 2]))
    vector.close()
    episodes = list(store.episodes(f"run_id = '{run}'"))
    assert [[step.action for step in episode.steps] for episode in episodes] == [[1], [2]]
    assert [episode.data["seed"] for episode in episodes] == [3, 4]


def test_it_records_inside_a_running_event_loop(scripted: Scripted, store: Store, run: str) -> None:
    wrapped = wrap(scripted(GO, END), store, run)

    async def play() -> None:
        wrapped.reset()
        wrapped.step(0)
        await asyncio.sleep(0)
        wrapped.step(0)
        wrapped.flush()
        wrapped.close()

    asyncio.run(play())
    assert [len(episode.steps) for episode in recorded(store, wrapped)] == [2]


def test_it_may_be_stepped_from_another_thread(scripted: Scripted, store: Store, run: str) -> None:
    wrapped = wrap(scripted(END), store, run)
    wrapped.reset()
    thread = threading.Thread(target=lambda: wrapped.step(2))
    thread.start()
    thread.join()
    wrapped.close()
    assert [step.action for step in recorded(store, wrapped)[0].steps] == [2]


def test_a_step_that_is_replaced_later_is_the_one_that_is_taken(
    scripted: Scripted, store: Store, run: str
) -> None:
    env = scripted()
    wrapped = wrap(env, store, run)
    wrapped.reset()
    env.step = lambda action: (5, 5.0, True, False, {})
    assert wrapped.step(0)[0] == 5
    wrapped.close()
    assert [step.reward for step in recorded(store, wrapped)[0].steps] == [5.0]


def test_spaces_that_change_at_a_reset_are_recorded_with_their_episode(
    scripted: Scripted, store: Store, run: str
) -> None:
    env = scripted(END, END)
    wrapped = wrap(env, store, run)
    for n in (3, 7):
        env.action_space = Discrete(n)
        wrapped.reset()
        wrapped.step(n - 1)
    wrapped.close()
    episodes = recorded(store, wrapped)
    assert [episode.data["spaces"]["action"]["n"] for episode in episodes] == [3, 7]
    assert [episode.steps[0].action for episode in episodes] == [2, 6]
    assert [episode.errors for episode in episodes] == [[], []]


def test_it_does_not_guard_what_it_wraps(scripted: Scripted, store: Store, run: str) -> None:
    env = scripted(GO, END)
    wrapped = wrap(FlattenObservation(env), store, run)
    wrapped.reset()
    assert wrapped.unwrapped is env
    wrapped.unwrapped.step(0)
    wrapped.step(0)
    wrapped.close()
    assert len(recorded(store, wrapped)[0].steps) == 1


def test_it_cannot_be_copied_and_says_how_to_plan_ahead(
    scripted: Scripted, store: Store, run: str
) -> None:
    wrapped = wrap(scripted(GO, END), store, run)
    wrapped.reset()
    with pytest.raises(TypeError, match=r"copy.deepcopy\(wrapped.env\)"):
        copy.deepcopy(wrapped)
    copy.deepcopy(wrapped.env).step(0)
    wrapped.step(1)
    wrapped.close()
    assert [step.action for step in recorded(store, wrapped)[0].steps] == [1]


@pytest.mark.parametrize(
    ("argument", "value", "kind"),
    [
        ("exporter", 5, TypeError),
        ("max_obs_chars", -1, ValueError),
        ("max_obs_chars", "10", TypeError),
        ("max_action_chars", True, TypeError),
        ("case", "walk", TypeError),
        ("provenance", "me", TypeError),
        ("render", True, ValueError),
    ],
    ids=repr,
)
def test_a_bad_argument_is_named(
    argument: str, value: Any, kind: type[Exception], scripted: Scripted, store: Store
) -> None:
    with pytest.raises(kind, match=argument if argument != "exporter" else "target"):
        EpisodeCaptureWrapper(scripted(), **{"exporter": store, argument: value})


def test_a_target_that_cannot_be_opened_is_said_when_wrapping(
    scripted: Scripted, tmp_path: Path
) -> None:
    with pytest.raises(StoreError, match="missing"):
        EpisodeCaptureWrapper(scripted(), exporter=tmp_path / "missing" / "e.duckdb")
