"""Episodes as JSON lines: the published fields, the exact values beside them, whole lines."""

from __future__ import annotations

import datetime
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from envbench.capture import Provenance, capture_episodes, observe, recorder, sink
from envbench.evidence import EpisodeEvidence
from envbench.evidence.tagged import decode
from envbench.store.errors import StoreError

Capture = Callable[..., EpisodeEvidence]
Scripted = Any

GO = (1, 0.5, False, False, {"b": 1, "a": 2})
END = (2, 1.0, True, False, {})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rollouts.jsonl"


def records(path: Path) -> list[dict[str, Any]]:
    """The records of a file; strict JSON only."""

    def refuse(text: str) -> Any:
        raise AssertionError(f"{text} is no JSON")

    text = path.read_text(encoding="utf-8")
    assert text.endswith("\n")
    # a reader that takes every line break of Unicode for one finds the same lines
    assert text.splitlines() == text.split("\n")[:-1]
    return [json.loads(line, parse_constant=refuse) for line in text.splitlines()]


def loop(env: Any, path: Path, *actions: Any, **given: Any) -> list[dict[str, Any]]:
    """The records of one episode of a wrapped loop."""
    wrapped = capture_episodes(env, exporter=path, **given)
    wrapped.reset(seed=4)
    for action in actions:
        wrapped.step(action)
    wrapped.close()
    return records(path)


def test_steps_and_episode_have_the_published_fields(scripted: Scripted, path: Path) -> None:
    before = datetime.datetime.now(datetime.UTC)
    first, second, episode = loop(scripted(GO, END), path, 0, 2)
    after = datetime.datetime.now(datetime.UTC)
    assert [first["decision_type"], second["decision_type"]] == ["rl.step"] * 2
    assert [first["step_index"], second["step_index"]] == [0, 1]
    assert first["inputs"] == {"action": "np.int64(0)"}
    assert first["outputs"] == {"observation": "np.int64(1)"}
    assert (first["reward"], first["terminated"], first["truncated"]) == (0.5, False, False)
    assert first["info_keys"] == ["a", "b"]
    assert first["execution_time_ms"] > 0
    started = datetime.datetime.fromisoformat(first["started_at"])
    moment = datetime.timedelta(milliseconds=5)  # two clocks are read
    assert before - moment <= started <= after + moment
    assert second["terminated"] is True

    assert episode["decision_type"] == "rl.episode"
    assert {first["episode_id"], second["episode_id"]} == {episode["episode_id"]}
    assert episode["inputs"]["seed"] == 4
    assert episode["inputs"]["env_id"].endswith(".Scripted")
    assert episode["outputs"] == {"total_steps": 2, "episode_return": 1.5, "completed": True}
    assert (episode["ending"], episode["terminated"], episode["truncated"]) == (
        *("terminated", True, False),
    )
    assert episode["execution_time_ms"] > 0
    assert (episode["errors"], episode["issues"]) == ([], [])


def test_the_exact_values_are_beside_the_published_ones(scripted: Scripted, path: Path) -> None:
    info = {"x": np.float32(0.1), "y": np.arange(2), "when": datetime.date(2026, 1, 2)}
    step, _ = loop(scripted((1, 1.0, True, False, info)), path, 1)
    assert step["values"]["action"] == [1]
    assert step["values"]["observation"] == [1]
    kept = decode(step["values"]["info"])
    assert (kept["x"], type(kept["x"])) == (np.float32(0.1), np.float32)
    assert kept["y"].tolist() == [0, 1]
    assert kept["when"] == datetime.date(2026, 1, 2)


def test_an_episode_has_what_its_reset_returned_and_who_ran_it(
    scripted: Scripted, path: Path
) -> None:
    env = scripted(END, reset=(7, {"level": np.int64(2), "map": np.arange(2_000)}))
    _, episode = loop(env, path, 0, provenance=Provenance(agent_id="a-1", labels={"team": "x"}))
    assert episode["values"]["observation"] == [7]
    info = decode(episode["values"]["info"])
    assert (info["level"], info["map"].tolist()) == (2, list(range(2_000)))
    assert (episode["provenance"]["agent_id"], episode["provenance"]["labels"]) == (
        *("a-1", {"team": "x"}),
    )


def test_a_long_episode_has_its_reset_too(
    scripted: Scripted, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "PART_STEPS", 64)
    image = np.arange(2_000, dtype=np.uint8)
    env = scripted(*[(1, 0.0, False, False, {})] * 300, END, reset=(7, {"map": image}))
    *steps, episode = loop(env, path, *[0] * 301)
    assert [step["step_index"] for step in steps] == list(range(301))
    assert decode(episode["values"]["info"])["map"].tolist() == image.tolist()


def test_a_reset_that_failed_returned_nothing(scripted: Scripted, path: Path) -> None:
    wrapped = capture_episodes(scripted(reset=OSError("no")), exporter=path)
    with pytest.raises(OSError, match="no"):
        wrapped.reset()
    wrapped.close()
    (episode,) = records(path)
    assert (episode["values"], episode["ending"]) == (None, "error")


def test_a_large_array_in_an_error_stands_in_the_line(scripted: Scripted, path: Path) -> None:
    large = np.arange(2_000)
    step, episode = loop(scripted((1, large, True, False, {})), path, 0)
    for error in (step["error"], episode["errors"][0]):
        assert error["field"] == "reward"
        assert decode(error["value"]).tolist() == large.tolist()


@pytest.mark.parametrize(
    ("results", "ending", "completed"),
    [
        ([GO, END], "terminated", True),
        ([GO, (2, 1.0, False, True, {})], "truncated", True),
        ([GO, GO], "closed_early", False),
    ],
)
def test_only_an_episode_that_ended_is_completed(
    results: list[Any], ending: str, completed: bool, scripted: Scripted, path: Path
) -> None:
    *_, episode = loop(scripted(*results), path, 0, 0)
    assert (episode["ending"], episode["outputs"]["completed"]) == (ending, completed)


def test_a_reset_in_mid_episode_is_not_completed(scripted: Scripted, path: Path) -> None:
    wrapped = capture_episodes(scripted(GO), exporter=path)
    wrapped.reset()
    wrapped.step(0)
    wrapped.reset()
    wrapped.close()
    found = records(path)
    assert [record["decision_type"] for record in found] == ["rl.step", "rl.episode", "rl.episode"]
    assert [record.get("ending") for record in found[1:]] == ["reset_early", "closed_early"]
    assert [record["outputs"]["total_steps"] for record in found[1:]] == [1, 0]
    assert [record["outputs"]["completed"] for record in found[1:]] == [False, False]


def test_without_steps_there_is_one_record_an_episode(scripted: Scripted, path: Path) -> None:
    (episode,) = loop(scripted(GO, END), path, 0, 0, capture_steps=False)
    assert episode["outputs"] == {"total_steps": 2, "episode_return": 1.5, "completed": True}


def test_a_step_that_raised_has_its_error_and_no_outcome(scripted: Scripted, path: Path) -> None:
    wrapped = capture_episodes(scripted(OSError("lost"), END), exporter=path)
    wrapped.reset()
    with pytest.raises(OSError, match="lost"):
        wrapped.step(1)
    wrapped.step(2)
    wrapped.close()
    failed, after, episode = records(path)
    assert failed["error"] == {"phase": "step", "type": "OSError", "message": "lost"}
    assert (failed["reward"], failed["terminated"], failed["info_keys"]) == (None, None, [])
    assert failed["outputs"] == {"observation": None}
    assert failed["inputs"] == {"action": "np.int64(1)"}
    assert after["error"] is None
    assert [error["message"] for error in episode["errors"]] == ["lost"]


def test_what_json_cannot_hold_is_tagged(scripted: Scripted, path: Path) -> None:
    nan = (1, float("nan"), False, False, {"x": float("inf"), "n": 2**80, "s": "\ud800"})
    step, _, episode = loop(scripted(nan, END), path, 0, 0)
    assert step["reward"] == {"$envbench": "float", "value": "nan"}
    assert step["values"]["info"]["x"] == {"$envbench": "float", "value": "inf"}
    assert step["values"]["info"]["n"] == 2**80
    assert decode(step["values"]["info"]["s"]) == "\ud800"
    assert decode(episode["outputs"]["episode_return"]) != 1.0  # NaN


@pytest.mark.parametrize(
    ("info", "keys"),
    [
        ({}, []),
        ({"b": 1, "a": 2}, ["a", "b"]),
        ({2: "x", "1": "y", None: "z"}, ["1", "2", "None"]),
        ({"$envbench": 1, "z": 2}, ["$envbench", "z"]),
        (type("Info", (dict,), {})(k=1), ["k"]),
        (None, []),
        ([1, 2], []),
    ],
    ids=repr,
)
def test_the_keys_of_any_info(info: Any, keys: list[str], scripted: Scripted, path: Path) -> None:
    step, _ = loop(scripted((1, 0.0, True, False, info)), path, 0)
    assert step["info_keys"] == keys


def test_a_key_with_a_lone_surrogate_does_not_lose_the_record(
    scripted: Scripted, path: Path
) -> None:
    step, _ = loop(scripted((1, 0.0, True, False, {"\udc80": 1})), path, 0)
    assert [decode(key) for key in step["info_keys"]] == ["\udc80"]


@pytest.mark.parametrize(
    "text", ["a\u2028b", "a\u0085b", "a\u2029b", "a\nb\r\x0b\x0c\x1c\x1db"], ids=repr
)
def test_a_line_break_in_a_value_breaks_no_line(text: str, scripted: Scripted, path: Path) -> None:
    step, _ = loop(scripted((1, 0.0, True, False, {text: text})), path, 0)
    assert step["values"]["info"] == {text: text}
    assert step["info_keys"] == [text]


def test_an_image_is_in_its_own_record_each_time(scripted: Scripted, path: Path) -> None:
    """A line stands alone: it does not refer to an array of another."""
    image = np.arange(48 * 48, dtype=np.uint8).reshape(48, 48)
    env = scripted((image, 0.0, False, False, {}), (image, 0.0, True, False, {}), reset=(image, {}))
    env.observation_space = gymnasium.spaces.Box(0, 255, (48, 48), np.uint8)
    *steps, _ = loop(env, path, 0, 0)
    for step in steps:
        (kept,) = decode(step["values"]["observation"])
        assert kept.dtype == np.uint8
        assert (kept == image).all()


def test_capture_episode_writes_the_same_records(
    scripted: Scripted, capture: Capture, path: Path
) -> None:
    episode = capture(scripted(GO, END), [0, 1], store=path)
    first, second, whole = records(path)
    assert [first["step_index"], second["step_index"]] == [0, 1]
    assert whole["episode_id"] == episode.episode_id
    assert whole["digest"] == episode.digest
    assert whole["trajectory_digest"] == episode.trajectory_digest
    assert whole["case_id"] == "count-1"


def test_an_episode_whose_environment_could_not_be_made_has_a_record(
    capture: Capture, path: Path
) -> None:
    def factory() -> Any:
        raise RuntimeError("no world")

    capture(factory, store=path)
    (episode,) = records(path)
    assert (episode["ending"], episode["outputs"]["completed"]) == ("error", False)
    assert episode["errors"][0]["message"] == "no world"


def test_what_is_there_is_kept_and_the_next_episode_follows(scripted: Scripted, path: Path) -> None:
    loop(scripted(END), path, 0)
    found = loop(scripted(END), path, 1)
    assert [record["decision_type"] for record in found] == ["rl.step", "rl.episode"] * 2
    assert len({record["episode_id"] for record in found}) == 2


def test_a_line_that_was_left_unfinished_spoils_no_other(scripted: Scripted, path: Path) -> None:
    path.write_bytes(b'{"decision_type": "rl.st')
    wrapped = capture_episodes(scripted(END), exporter=path)
    wrapped.reset()
    wrapped.step(0)
    wrapped.close()
    torn, *whole = path.read_bytes().splitlines()
    assert torn == b'{"decision_type": "rl.st'
    assert [json.loads(line)["decision_type"] for line in whole] == ["rl.step", "rl.episode"]


def test_records_are_on_disk_when_flush_returns(scripted: Scripted, path: Path) -> None:
    wrapped = capture_episodes(scripted(END), exporter=path)
    wrapped.reset()
    wrapped.step(0)
    wrapped.flush()
    assert len(records(path)) == 2
    wrapped.close()


def test_two_loops_share_a_file_and_every_line_is_whole(scripted: Scripted, path: Path) -> None:
    def play(action: int) -> None:
        wrapped = capture_episodes(
            scripted(*[(1, 0.0, True, False, {"pad": "x" * 5_000})] * 20), exporter=path
        )
        for _ in range(20):
            wrapped.reset()
            wrapped.step(action)
        wrapped.close()

    threads = [threading.Thread(target=play, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = records(path)
    assert len(found) == 3 * 20 * 2
    by_episode: dict[str, list[str]] = {}
    for record in found:
        by_episode.setdefault(record["episode_id"], []).append(record["decision_type"])
    assert set(map(tuple, by_episode.values())) == {("rl.step", "rl.episode")}


def test_observe_takes_a_file_of_lines(
    scripted: Scripted, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink, "_DEFAULT", ["unused.duckdb"])
    observe(str(path))
    wrapped = capture_episodes(scripted(END), provenance=Provenance(agent_id="a"))
    wrapped.reset()
    wrapped.step(0)
    wrapped.close()
    assert len(records(path)) == 2


def test_a_file_that_cannot_be_opened_is_said_when_wrapping(
    scripted: Scripted, tmp_path: Path
) -> None:
    (tmp_path / "folder.jsonl").mkdir()
    for name in ("folder.jsonl", "missing/e.jsonl"):
        with pytest.raises(StoreError, match=r"\.jsonl cannot be opened for writing"):
            capture_episodes(scripted(END), exporter=tmp_path / name)


def test_a_large_array_in_an_error_of_an_earlier_part(
    scripted: Scripted, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "PART_STEPS", 64)
    large = np.arange(2_000)
    env = scripted((1, large, False, False, {}), *[(1, 0.0, False, False, {})] * 300)
    first, *_, episode = loop(env, path, *[0] * 301)
    assert decode(first["error"]["value"]).tolist() == large.tolist()
    (error,) = episode["errors"]  # names the array, which stands in the record of its step
    assert error["value"]["sha256"] == first["error"]["value"]["sha256"]
    assert (error["step"], "zlib" in error["value"]) == (1, False)
