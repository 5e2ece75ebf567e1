"""The code of the first published document runs here with only its import lines changed.

The document (multivon-eval 0.19, "Evaluate actual environment outcomes") leaves the environment,
the agent and the observer to the reader; here they are a small SQLite ledger.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

CAPTURE = """
from multivon_eval import EvalCase
from multivon_eval.integrations.gymnasium import capture_episode

def interact(env, observation, info):
    while True:
        action = your_agent(observation, info)
        observation, reward, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            return "finished"

episode = capture_episode(
    make_fresh_environment,
    interact,
    case=EvalCase("Post invoice once", case_id="invoice-17", source_id="document-17"),
    environment_id="invoice-environment-v1",
    observer_id="ledger-readonly-v1",
    observe=read_committed_state,
    seed=17,
    max_steps=20,
)
"""

JUDGE = """
from multivon_eval import AcceptancePolicy, CheckRequirement
from multivon_eval.episode import OutcomeCheck, OutcomeVerdict, evaluate_episode

def posted_once(episode):
    state = episode.data["final_state"]
    if state is None:
        return OutcomeVerdict(None, "No committed-state observation", {})
    rows = state["invoice_rows"]
    passed = rows == [{"invoice_id": "invoice-17", "amount_cents": 1234}]
    return OutcomeVerdict(passed, "Require exactly one correct posting", {"rows": rows})

report = evaluate_episode(episode, [
    OutcomeCheck("posted_once", "invoice-once-v1", posted_once),
])
decision = AcceptancePolicy((CheckRequirement("posted_once", critical=True),)).evaluate(report)
report.save_json("invoice-outcome.json")
print(decision.decision)
"""

OUR_IMPORTS = {
    "from multivon_eval import EvalCase": "from envbench import EvalCase",
    "from multivon_eval.integrations.gymnasium import capture_episode": (
        "from envbench import capture_episode"
    ),
    "from multivon_eval import AcceptancePolicy, CheckRequirement": (
        "from envbench import AcceptancePolicy, CheckRequirement"
    ),
    "from multivon_eval.episode import OutcomeCheck, OutcomeVerdict, evaluate_episode": (
        "from envbench import OutcomeCheck, OutcomeVerdict, evaluate_episode"
    ),
}

LOOK, POST, FINISH = 0, 1, 2


class Invoices(gymnasium.Env[np.int64, int]):
    """Posts an invoice of 12.34 into a SQLite database, as often as it is told to."""

    action_space = gymnasium.spaces.Discrete(3)
    observation_space = gymnasium.spaces.Discrete(100)

    def __init__(self, path: Path) -> None:
        self.ledger = sqlite3.connect(path)
        self.ledger.execute("CREATE TABLE invoice_rows (invoice_id TEXT, amount_cents INTEGER)")

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        return self.posted(), {"invoice": "invoice-17", "amount_cents": 1234}

    def step(self, action: int) -> Any:
        if action == POST:
            self.ledger.execute("INSERT INTO invoice_rows VALUES ('invoice-17', 1234)")
            self.ledger.commit()
        return self.posted(), 0.0, bool(action == FINISH), False, {}

    def posted(self) -> np.int64:
        return np.int64(self.ledger.execute("SELECT count(*) FROM invoice_rows").fetchone()[0])

    def close(self) -> None:
        self.ledger.close()


def run_document(actions: list[int], folder: Path) -> dict[str, Any]:
    """Run the document's two pieces of code with an agent that takes these actions."""
    path = folder / "ledger.sqlite"

    def read_committed_state() -> dict[str, Any]:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as reader:
            reader.row_factory = sqlite3.Row
            rows = [dict(row) for row in reader.execute("SELECT * FROM invoice_rows")]
        reader.close()
        return {"invoice_rows": rows}

    remaining = iter(actions)
    names: dict[str, Any] = {
        "make_fresh_environment": lambda: Invoices(path),
        "your_agent": lambda observation, info: next(remaining),
        "read_committed_state": read_committed_state,
    }
    source = CAPTURE + JUDGE
    for theirs, ours in OUR_IMPORTS.items():
        assert source.count(theirs + "\n") == 1
        source = source.replace(theirs + "\n", ours + "\n")
    exec(compile(source, "document", "exec"), names)
    return names


@pytest.mark.parametrize(
    ("actions", "passed", "decision"),
    [
        ([POST, FINISH], True, "accept"),
        ([LOOK, FINISH], False, "reject"),
        ([POST, POST, FINISH], False, "reject"),
    ],
    ids=["posted once", "never posted", "posted twice"],
)
def test_the_document_decides_about_what_the_ledger_holds(
    actions: list[int],
    passed: bool,
    decision: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    names = run_document(actions, tmp_path)
    assert capsys.readouterr().out == f"{decision}\n"
    assert [result.passed for result in names["report"].results] == [passed]
    saved = json.loads((tmp_path / "invoice-outcome.json").read_text(encoding="utf-8"))
    assert saved["results"][0]["check"] == "posted_once"


def test_the_document_has_the_evidence_it_promises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data = run_document([POST, FINISH], tmp_path)["episode"].data
    row = {"invoice_id": "invoice-17", "amount_cents": 1234}
    assert data["case_id"] == "invoice-17"
    assert data["case"]["source_id"] == "document-17"
    assert (data["environment_id"], data["observer_id"], data["seed"], data["max_steps"]) == (
        "invoice-environment-v1",
        "ledger-readonly-v1",
        17,
        20,
    )
    assert data["initial"]["info"] == {"invoice": "invoice-17", "amount_cents": 1234}
    assert data["initial_state"] == {"invoice_rows": []}
    assert [step["action"] for step in data["steps"]] == [[POST], [FINISH]]
    assert [step["state"] for step in data["steps"]] == [{"invoice_rows": [row]}] * 2
    assert data["final_state"] == {"invoice_rows": [row]}
    assert data["termination"] == {"terminated": True, "truncated": False}
    assert data["output"] == "finished"
    assert data["cleanup"] == {"attempted": True, "completed": True, "error": None}
    assert (data["errors"], data["issues"]) == ([], [])


def test_an_agent_that_runs_out_of_actions_is_an_interaction_error_and_no_verdict_is_lost(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    episode = run_document([POST], tmp_path)["episode"]
    assert capsys.readouterr().out == "indeterminate\n"
    assert [error["phase"] for error in episode.data["errors"]] == ["interaction"]
    assert episode.ending == "error"
