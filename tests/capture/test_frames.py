"""Frames: what an environment shows is kept bit by bit, and showing it changes nothing."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Discrete

from envbench.capture import EpisodeCaptureWrapper, InvalidAction, capture_episode
from envbench.capture.recorder import PART_BYTES
from envbench.evidence import EpisodeEvidence, EvalCase
from envbench.store import Store, connect
from envbench.store.adoption import OPEN_HERE

RED, GREEN = ([255, 0, 0], [0, 255, 0])


def picture(colour: list[int]) -> np.ndarray:
    return np.full((2, 4, 3), colour, np.uint8)


class Showing(gymnasium.Env[Any, Any]):
    """Shows what it is told to: `shows[0]` after the reset, and so on; an exception is raised.

    Attributes:
        calls: what was done to it, in order.
    """

    action_space = Discrete(3)
    observation_space = Discrete(100)

    def __init__(self, *shows: Any, render_mode: Any = "rgb_array", fails: int | None = None):
        self.shows = list(shows)
        self.render_mode = render_mode
        self.fails = fails
        self.at = 0
        self.calls: list[str] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.at = 0
        self.calls.append("reset")
        return 0, {}

    def step(self, action: Any) -> Any:
        self.at += 1
        self.calls.append("step")
        if self.at == self.fails:
            raise ConnectionError("gone")
        return self.at, 1.0, self.at == len(self.shows) - 1, False, {}

    def render(self) -> Any:
        self.calls.append("render")
        shown = self.shows[self.at]
        if isinstance(shown, BaseException):
            raise shown
        return shown

    def close(self) -> None:
        self.calls.append("close")


def captured(env: Any, agent: Any = (), **given: Any) -> EpisodeEvidence:
    def play(guarded: Any, observation: Any, info: Any) -> None:
        for action in agent:
            guarded.step(action)

    arguments: dict[str, Any] = {
        "case": EvalCase("look", case_id="look", expects="either"),
        "environment_id": "showing-v1",
        "observer_id": "world-v1",
        "observe": lambda: {},
        "seed": 7,
        "max_steps": 600,
        "render": True,
        **given,
    }
    factory = env if callable(env) else lambda: env
    return capture_episode(factory, agent if callable(agent) else play, **arguments)


def arrays(episode: EpisodeEvidence) -> list[Any]:
    return [None if frame is None else frame.array for frame in episode.frames]


def texts(episode: EpisodeEvidence) -> list[str | None]:
    return [None if frame is None else frame.text for frame in episode.frames]


def same(found: list[Any], expected: list[Any]) -> bool:
    return all(
        a is b if a is None or b is None else np.array_equal(a, b)
        for a, b in zip(found, expected, strict=True)
    )


# -- what is kept ---------------------------------------------------------------------------------


@pytest.fixture
def file_store(tmp_path: Any) -> Iterator[Store]:
    with connect(tmp_path / "store.duckdb") as store:
        yield store


@pytest.mark.parametrize(
    ("name", "mode"),
    [("CartPole-v1", "rgb_array"), ("FrozenLake-v1", "rgb_array"), ("FrozenLake-v1", "ansi")],
)
def test_frames_of_real_environments(store: Store, name: str, mode: str) -> None:
    seen: list[Any] = []

    def agent(env: Any, observation: Any, info: Any) -> None:
        seen.append(env.render())
        for action in (0, 1) * 100:
            _, _, terminated, truncated, _ = env.step(action)
            seen.append(env.render())
            if terminated or truncated:
                return

    episode = captured(lambda: gymnasium.make(name, render_mode=mode), agent, store=store)
    back = store.episode(episode.episode_id, verify=True)
    assert len(seen) == len(episode.steps) + 1 > 2
    for each in (episode, back):
        assert each.frames.kind == mode
        if mode == "ansi":
            assert texts(each) == seen
        else:
            assert same(arrays(each), seen)
            assert each.frames[0].size == seen[0].shape[1::-1]
    assert episode.coverage_issues == []


def test_one_buffer_that_is_drawn_into_again(store: Store) -> None:
    buffer = np.zeros((2, 2, 3), np.uint8)

    class Drawing(Showing):
        def render(self) -> Any:
            buffer[:] = self.at
            return buffer

    episode = captured(Drawing(*range(5)), [0, 0, 0, 0], store=store)
    assert [int(frame.max()) for frame in arrays(episode)] == [0, 1, 2, 3, 4]


def test_pictures_of_other_forms() -> None:
    shows = [
        np.arange(8, dtype=np.uint8).reshape(2, 4),
        np.arange(32, dtype=np.uint8).reshape(2, 4, 4),
        np.arange(48, dtype=np.uint8).reshape(4, 4, 3)[::2, ::-1],
        np.asfortranarray(picture(RED)),
    ]
    episode = captured(Showing(*shows), [0, 0, 0])
    assert same(arrays(episode), shows)


def test_text_of_every_form() -> None:
    shows = ["", "a\n", io.StringIO("in a buffer"), "\x1b[41mF\x1b[0m \u2028 \0 é", "a\n"]
    episode = captured(Showing(*shows, render_mode="ansi"), [0, 0, 0, 0])
    assert texts(episode) == ["", "a\n", "in a buffer", "\x1b[41mF\x1b[0m \u2028 \0 é", "a\n"]
    assert episode.frames.hashes[1] == episode.frames.hashes[4]


def test_the_form_in_data() -> None:
    episode = captured(Showing("A", ValueError("dark"), "A", render_mode="ansi"), [0, 0])
    (digest,) = {frame.sha256 for frame in episode.frames if frame is not None}
    assert episode.data["frames"] == {
        "kind": "ansi",
        "shown": [digest, None, digest],
        "content": {digest: "A"},
    }


def test_the_same_picture_is_written_once(store: Store) -> None:
    shows = [picture(RED), picture(RED), picture(GREEN), picture(RED)]
    episode = captured(Showing(*shows), [0, 0, 0], store=store)
    frames = episode.frames
    assert frames.hashes[0] == frames.hashes[1] == frames.hashes[3] != frames.hashes[2]
    count = store.sql(
        "SELECT count(*) FROM blobs WHERE episode_id = ?", [episode.episode_id]
    ).fetchall()
    assert count == [(2,)]


def test_a_long_episode_is_written_in_parts_and_read_in_blocks(file_store: Store) -> None:
    n, size = 120, 600
    weights: list[int] = []
    noise = np.random.default_rng(0)
    shows = [noise.integers(0, 4, (size, size, 3), np.uint8) for _ in range(n + 1)]

    class Watching(Showing):
        def step(self, action: Any) -> Any:
            sinks = file_store.writer
            weights.append(getattr(sinks, "_waiting_bytes", 0))
            return super().step(action)

    env = EpisodeCaptureWrapper(Watching(*shows), exporter=file_store, render=True)
    env.reset(seed=1)
    for _ in range(n):
        env.step(0)
    env.close()
    (episode,) = file_store.episodes()
    assert n * shows[0].nbytes > 8 * PART_BYTES
    assert max(weights) < 48_000_000 + PART_BYTES  # of 129 MB: it waited for the writer
    assert all(np.array_equal(a, b) for a, b in zip(arrays(episode), shows, strict=True))
    assert file_store.verify().ok


# -- what goes wrong ------------------------------------------------------------------------------


class Hostile(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("shown", "kind", "message"),
    [
        (ValueError("dark"), "ValueError", "dark"),
        (Hostile(), "Hostile", "RuntimeError"),
        (None, "TypeError", "render returned None, not a picture"),
        ([[0]], "TypeError", "a value of type list, not a picture"),
        ("text", "TypeError", "a value of type str, not a picture"),
        (np.zeros((2, 2, 3)), "TypeError", "an array of float64 with shape (2, 2, 3), not"),
        (np.zeros((0, 2, 3), np.uint8), "TypeError", "shape (0, 2, 3)"),
        ([picture(RED)], "TypeError", "a value of type list"),
    ],
)
def test_a_frame_that_cannot_be_had(shown: Any, kind: str, message: str) -> None:
    env = Showing(picture(RED), shown, picture(GREEN))
    episode = captured(env, [0, 0])
    assert episode.ending == "terminated"
    assert same(arrays(episode), [picture(RED), None, picture(GREEN)])
    (error,) = episode.errors
    assert (error["phase"], error["type"], error["step"]) == ("render", kind, 1)
    assert message in error["message"]
    assert episode.steps[0].error["phase"] == "render"
    assert episode.steps[0].reward == 1.0
    assert episode.coverage_issues == []  # it is looked at, and not judged
    assert EpisodeEvidence.from_dict(episode.to_dict()) == episode


@pytest.mark.parametrize(
    ("shown", "message"),
    [
        (None, "render returned None, not text"),
        (b"bytes", "a value of type bytes, not text"),
        ("half \ud800", "surrogates not allowed"),
        (io.StringIO("half \ud800"), "surrogates not allowed"),
    ],
)
def test_a_text_that_cannot_be_had(shown: Any, message: str) -> None:
    episode = captured(Showing("A", shown, "B", render_mode="ansi"), [0, 0])
    assert texts(episode) == ["A", None, "B"]
    (error,) = episode.errors
    assert message in error["message"]


def test_the_first_frame_fails() -> None:
    episode = captured(Showing(RuntimeError("no display"), picture(RED)), [0])
    assert same(arrays(episode), [None, picture(RED)])
    assert [(error["phase"], error["step"]) for error in episode.errors] == [("render", 0)]


def test_a_step_that_raises_shows_what_it_left() -> None:
    env = Showing(picture(RED), picture(GREEN), picture(RED), fails=1)
    episode = captured(env, [0])
    assert same(arrays(episode), [picture(RED), picture(GREEN)])
    assert [error["phase"] for error in episode.errors] == ["step"]


def test_an_error_of_the_step_comes_before_one_of_its_frame() -> None:
    class Broken(Showing):
        def step(self, action: Any) -> Any:
            observation, _, *rest = super().step(action)
            return observation, "much", *rest

    episode = captured(Broken(picture(RED), ValueError("dark")), [0])
    error = episode.steps[0].error
    assert (error["phase"], error["more"][0]["phase"]) == ("contract", "render")


def test_a_refused_action_shows_nothing() -> None:
    def agent(env: Any, observation: Any, info: Any) -> None:
        with pytest.raises(InvalidAction):
            env.step(9)
        env.step(0)

    env = Showing("A", "B", render_mode="ansi")
    assert texts(captured(env, agent)) == ["A", None, "B"]
    assert env.calls == ["reset", "render", "step", "render", "close"]


def test_a_reset_that_raises_shows_nothing() -> None:
    class Failing(Showing):
        def reset(self, **_: Any) -> Any:
            raise ConnectionError("no")

    env = Failing("A", render_mode="ansi")
    episode = captured(env)
    assert episode.frames.kind == "ansi"
    assert texts(episode) == [None]
    assert env.calls == ["close"]


def test_a_factory_that_raises() -> None:
    episode = captured(lambda: 1 / 0)
    assert episode.ending == "error"
    assert episode.frames.kind is None
    assert len(episode.frames) == 1


def test_an_interrupt_while_drawing(store: Store) -> None:
    env = Showing("A", KeyboardInterrupt(), "C", render_mode="ansi")
    with pytest.raises(KeyboardInterrupt):
        captured(env, [0, 0], store=store, environment_id="drawing")
    (episode,) = store.episodes("environment_id = 'drawing'")
    assert (episode.ending, texts(episode)) == ("interrupted", ["A", None])
    assert [error["phase"] for error in episode.errors] == ["render"]
    assert episode.verify() == []


# -- what the run gets ----------------------------------------------------------------------------


def test_the_run_is_the_same_with_and_without() -> None:
    def agent(env: Any, observation: Any, info: Any) -> None:
        for action in (0, 1) * 10:
            if any(env.step(action)[2:4]):
                return

    def factory() -> Any:
        return gymnasium.make("CartPole-v1", render_mode="rgb_array")

    shown, unseen = captured(factory, agent), captured(factory, agent, render=False)
    assert shown.trajectory_digest == unseen.trajectory_digest
    assert shown.digest != unseen.digest
    assert unseen.frames.kind is None


def test_the_agent_can_still_draw() -> None:
    seen = []

    def agent(env: Any, observation: Any, info: Any) -> None:
        seen.append(env.render())
        env.step(0)

    captured(Showing("A", "B", render_mode="ansi"), agent)
    assert seen == ["A"]


def test_the_state_is_read_before_the_frame() -> None:
    order = []

    class Noting(Showing):
        def render(self) -> Any:
            order.append("frame")
            return super().render()

    def observe() -> dict[str, Any]:
        order.append("state")
        return {}

    captured(Noting("A", "B", render_mode="ansi"), [0], observe=observe)
    assert order == ["state", "frame", "state", "frame", "state"]


# -- arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [None, "human", "depth_array", "rgb_array_list", 3])
def test_an_environment_that_shows_nothing_is_refused_at_the_call(
    mode: Any, file_store: Store
) -> None:
    env = Showing("A", "B", render_mode=mode)
    before = set(OPEN_HERE)
    with pytest.raises(ValueError, match='render_mode="rgb_array" or "ansi", and this one has'):
        captured(env, [0], store=file_store)
    assert env.calls == ["close"]
    assert len(file_store.episodes()) == 0
    assert before == OPEN_HERE
    assert len(captured(Showing("A", "B", render_mode="ansi"), [0], store=file_store).frames) == 2
    with pytest.raises(ValueError, match="and this one has"):
        EpisodeCaptureWrapper(env, exporter=file_store, render=True)


def test_a_list_of_frames_would_be_taken_from_the_agent() -> None:
    with pytest.raises(ValueError, match="which hands out each frame once"):
        captured(lambda: gymnasium.make("CartPole-v1", render_mode="rgb_array_list"))


def test_a_render_mode_that_cannot_be_read() -> None:
    class Odd(Showing):
        @property
        def render_mode(self) -> Any:
            raise RuntimeError("not yet")

        @render_mode.setter
        def render_mode(self, mode: Any) -> None:
            pass

    with pytest.raises(ValueError, match="and this one has None"):
        captured(Odd("A", "B"))


@pytest.mark.parametrize("wrapped", [False, True])
def test_lines_keep_no_frames(tmp_path: Any, wrapped: bool) -> None:
    env, path = Showing("A", "B", render_mode="ansi"), tmp_path / "episodes.jsonl"
    record = EpisodeCaptureWrapper if wrapped else captured
    target = {"exporter" if wrapped else "store": path}
    with pytest.raises(ValueError, match=r"frames are kept in a store, and .* JSON lines"):
        record(env, render=True, **target)
    assert env.calls == []
    assert path.read_bytes() == b""


def test_an_episode_without_steps_has_no_frames() -> None:
    with pytest.raises(ValueError, match="capture_steps=False"):
        EpisodeCaptureWrapper(
            Showing("A", render_mode="ansi"), exporter=":memory:", capture_steps=False, render=True
        )


# -- wrapped loops --------------------------------------------------------------------------------


def test_every_episode_of_a_loop(file_store: Store) -> None:
    env = EpisodeCaptureWrapper(
        Showing("A", "B", "C", render_mode="ansi"), exporter=file_store, render=True
    )
    for steps in (2, 1, 2):
        env.reset(seed=0)
        for _ in range(steps):
            env.step(0)
    env.close()
    assert [(episode.ending, texts(episode)) for episode in file_store.episodes()] == [
        ("terminated", ["A", "B", "C"]),
        ("reset_early", ["A", "B"]),
        ("terminated", ["A", "B", "C"]),
    ]
    assert file_store.verify().ok


def test_a_step_after_the_end_is_not_drawn(file_store: Store) -> None:
    inner = Showing("A", "B", "C", render_mode="ansi")
    env = EpisodeCaptureWrapper(inner, exporter=file_store, render=True)
    env.reset(seed=0)
    env.step(0)
    env.step(0)
    env.step(0)
    env.close()
    assert inner.calls == ["reset", "render", *["step", "render"] * 2, "step", "close"]


def test_a_spec_that_is_made_again_renders(tmp_path: Any) -> None:
    path = tmp_path / "store.duckdb"
    made = gymnasium.make("FrozenLake-v1", render_mode="ansi")
    env = EpisodeCaptureWrapper(made, exporter=path, render=True)
    again = gymnasium.make(env.spec)
    env.close()
    again.reset(seed=0)
    again.step(0)
    again.close()
    with connect(path) as store:
        (episode,) = store.episodes()
        assert (episode.frames.kind, len(episode.frames)) == ("ansi", 2)
        assert None not in list(episode.frames)


def test_a_failed_write_spills_the_frames_too(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from envbench.capture import WriteFailed, backends

    path = tmp_path / "store.duckdb"
    env = EpisodeCaptureWrapper(Showing(picture(RED), picture(GREEN)), exporter=path, render=True)

    def fail(*_: Any) -> None:
        raise OSError("full")

    with monkeypatch.context() as patched:
        patched.setattr(backends, "write_parts", fail)
        env.reset(seed=0)
        env.step(0)
        with pytest.raises(WriteFailed, match="full"):
            env.close()
    with connect(path) as store:
        (episode,) = store.episodes()
        assert same(arrays(episode), [picture(RED), picture(GREEN)])
        assert store.verify().ok


def test_types() -> None:
    frame = captured(Showing("A", render_mode="ansi")).frames[0]
    take: list[Callable[[], Any]] = [lambda: frame.png, lambda: frame.array, lambda: frame.size]
    for each in take:
        with pytest.raises(ValueError, match="the frame is text"):
            each()
    shown = captured(Showing(picture(RED))).frames[0]
    with pytest.raises(ValueError, match="the frame is a picture"):
        _ = shown.text
    assert repr(frame) == f"<Frame ansi, 1 bytes, {frame.sha256[:12]}>"
