"""`envbench replay`: exit codes, what it prints, where environments come from, bad input."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from envbench import EvalCase, capture_episode, connect
from envbench.environments import ScriptedPolicy, TaskData, TaskDataset, ToolCall
from tests import test_cli
from tests.environments.test_replay import Lucky, Scored
from tests.environments.worlds import ADD, Counter, counting

run = test_cli.run

ENVIRONMENTS = """
import gymnasium
from tests.environments.test_replay import Lucky, Scored
from tests.environments.worlds import Counter

print("said while it is imported")
env = gymnasium.make("CartPole-v1")


def heavy():
    made = gymnasium.make("CartPole-v1")
    made.unwrapped.gravity = 9.9
    print("said while it is made")
    return made


def failing():
    raise OSError("no machine\\non this network")


def leaving():
    raise SystemExit(7)


def state(environment):
    return {"x": 1}


class Inside:
    make = Counter
"""


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, dict[str, str]]:
    """A store with episodes by name, in a folder with a module of environments."""
    (tmp_path / "worlds_here.py").write_text(ENVIRONMENTS)
    (tmp_path / "broken_here.py").write_text("raise RuntimeError('not today')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(tmp_path)])
    path = tmp_path / "store.duckdb"

    def balance(env: Any, observation: Any, info: Any) -> None:
        for action in (0, 1, 0):
            env.step(action)

    with connect(path) as store:
        pole = capture_episode(
            lambda: gymnasium.make("CartPole-v1"),
            balance,
            case=EvalCase("balance", case_id="pole"),
            environment_id="CartPole-v1",
            observer_id="state",
            observe=lambda: {"x": 1},
            seed=1,
            max_steps=5,
            store=store,
        )
        counted = Counter().rollout(counting(), ScriptedPolicy([ADD] * 3), store=store).episode
        lucky = Lucky().rollout(
            counting(), ScriptedPolicy([ToolCall("guess"), "bye"]), store=store
        ).episode  # fmt: skip
        scored = Scored().rollout(counting(), ScriptedPolicy([ADD] * 3), store=store).episode
    assert counted is not None
    assert lucky is not None
    assert scored is not None
    made = {"pole": pole, "counted": counted, "lucky": lucky, "scored": scored}
    return path, {name: episode.episode_id for name, episode in made.items()}


def test_the_same_is_exit_0(run: Any, places: Any) -> None:
    path, ids = places
    for where in ("CartPole-v1", "worlds_here:env", "worlds_here.py:env"):
        ran = run("replay", path, ids["pole"], "--environment", where)
        assert ran.code == 0
        assert ran.out == (
            f"{ids['pole']}: same: 3 steps replayed, 0 mismatches\n"
            "  note: states are not compared: give observe=, which reads them\n"
        )
    for where in ("worlds_here:Counter", "worlds_here:Inside.make"):
        ran = run("replay", path, ids["counted"], "--environment", where)
        assert (ran.code, ran.out) == (
            0,
            f"{ids['counted']}: same: 3 steps replayed, 0 mismatches\n",
        )
    ran = run(
        "replay", path, ids["pole"], "--environment", "CartPole-v1", "--observe",
        "worlds_here:state",
    )  # fmt: skip
    assert (ran.code, ran.out) == (0, f"{ids['pole']}: same: 3 steps replayed, 0 mismatches\n")


def test_a_mismatch_is_exit_1_unless_it_is_allowed(run: Any, places: Any) -> None:
    path, ids = places
    command = ("replay", path, ids["pole"], "--environment", "worlds_here:heavy")
    ran = run(*command)
    assert ran.code == 1
    assert ran.out.startswith(f"{ids['pole']}: different: 3 steps replayed, ")
    assert "\n  step 1: /observation/1: " in ran.out
    assert "said while it is made" in ran.err
    assert run(*command, "--tolerance", "0.01").code == 0
    assert run(*command, "--tolerance", "/observation/*=0.01").code == 0
    assert run(*command, "--tolerance", "/reward=0.01").code == 1
    assert run(*command, "--ignore", "/observation/1", "--ignore", "/observation/*").code == 0
    other = ("replay", path, ids["counted"], "--environment", "worlds_here:Lucky")
    assert run(*other).code == 1
    assert "/fingerprint/tool/draw: nothing was recorded" in run(*other).out
    assert run(*other, "--no-fingerprint", "--ignore", "/action_space").code == 0


def test_what_is_not_reproducible_is_exit_2(run: Any, places: Any) -> None:
    path, ids = places
    ran = run("replay", path, ids["lucky"], "--environment", "worlds_here:Lucky")
    assert ran.code == 2
    assert ran.out.startswith(f"{ids['lucky']}: not reproducible here: 2 steps replayed")
    assert "\n  replays differ from each other at /info/tool_calls/0/result\n" in ran.out


def test_json(run: Any, places: Any) -> None:
    path, ids = places
    ran = run("replay", path, ids["pole"], "--environment", "worlds_here:heavy", "--json")
    assert ran.code == 1
    told = json.loads(ran.out)
    assert told["episode_id"] == ids["pole"]
    assert (told["ok"], told["verdict"], told["steps"]) == (False, "different", 3)
    assert told["mismatches"][0]["path"] == "/observation/1"


def test_a_data_set_gives_the_answer_key(run: Any, places: Any, tmp_path: Path) -> None:
    path, ids = places
    command = ("replay", path, ids["scored"], "--environment", "worlds_here:Scored")
    assert "note: scores are not replayed" in run(*command).out
    TaskDataset("counting", "1", [counting()]).save(tmp_path / "tasks.jsonl")
    ran = run(*command, "--dataset", tmp_path / "tasks.jsonl")
    assert (ran.code, ran.out) == (0, f"{ids['scored']}: same: 3 steps replayed, 0 mismatches\n")
    TaskDataset("counting", "1", [TaskData("other", 1)]).save(tmp_path / "tasks.jsonl")
    ran = run(*command, "--dataset", tmp_path / "tasks.jsonl")
    assert "dataset: no task 'to-3' in the data set 'counting' '1'" in ran.one_line()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--environment", "worlds_here:failing"], ": OSError: no machine on this network"),
        (["--environment", "worlds_here:leaving"], ": SystemExit: 7"),
        (["--environment", "worlds_here:nothing"], ": worlds_here has no nothing"),
        (["--environment", "worlds_here:heavy.x"], ": worlds_here has no heavy.x"),
        (["--environment", "nowhere_here:make"], "importing nowhere_here raised ModuleNotFound"),
        (["--environment", "broken_here:make"], "importing broken_here raised RuntimeError: not"),
        (["--environment", "gone.py:make"], "gone.py: there is no such file"),
        (["--environment", "worlds_here:"], "expected MODULE:NAME, such as desk:RefundDesk"),
        (["--environment", "Nothing-v7"], "--environment Nothing-v7: "),
        (["--environment", "worlds_here:state"], "TypeError: "),
        (["--environment", "CartPole-v1", "--tolerance", "much"], "--tolerance much: expected a"),
        (["--environment", "CartPole-v1", "--tolerance", "-1"], "tolerance must be at least 0"),
        (["--environment", "CartPole-v1", "--tolerance", "x=1"], "tolerance 'x' must start with"),
        (["--environment", "CartPole-v1", "--ignore", "x"], "ignore 'x' must start with '/'"),
        (["--environment", "CartPole-v1", "--dataset", "x"], "x: there is no such file"),
        (["--environment", "CartPole-v1", "--observe", "x"], "--observe x: expected MODULE:NAME"),
        ([], "Missing option '--environment'"),
    ],
)
def test_bad_input_is_one_line(run: Any, places: Any, arguments: list[str], message: str) -> None:
    path, ids = places
    ran = run("replay", path, ids["pole"], *arguments)
    assert ran.code == 2
    assert ran.out == ""
    said = ran.err.splitlines()[-1]
    assert said.startswith("envbench: ")
    assert message in said
    assert "Traceback" not in ran.err


def test_stores_and_episodes_that_are_not_there(run: Any, places: Any, tmp_path: Path) -> None:
    path, _ = places
    ran = run("replay", tmp_path / "none.duckdb", "x", "--environment", "CartPole-v1")
    assert "there is no such file" in ran.one_line()
    ran = run("replay", path, "x", "--environment", "CartPole-v1")
    assert "has no episode 'x'" in ran.one_line()
