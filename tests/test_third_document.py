"""The code of the third published document runs here with only its imports changed.

The document (Plural, "Environments") shows a refund desk, its tasks, a scorer and one rollout by a
model. The import lines, the endpoint's address and the model's name are what may change.
"""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any

import pytest
from gymnasium.utils.env_checker import check_env

from envbench import connect
from envbench.environments import ScriptedPolicy, ToolCall
from tests.environments.endpoint import ChatServer, Reply, Request, call, says

IMPORTS = {
    "from plural import Plural\n": "from envbench.environments import ChatClient as Plural\n",
    "from plural import Environment, TaskData": (
        "from envbench.environments import Environment, TaskData"
    ),
    "from plural.environments import Observation, State, tool": (
        "from envbench.environments import Observation, State, tool"
    ),
    "from plural import TaskData, TaskDataset": (
        "from envbench.environments import TaskData, TaskDataset"
    ),
}

HARNESS = '''
from plural import Environment, TaskData
from plural.environments import Observation, State, tool

class RefundState(State):
    order_id: str = ""
    eligibility_checked: bool = False
    eligible: bool = False
    refunded: bool = False

class RefundObservation(Observation):
    ticket: str
    eligibility_checked: bool
    eligible: bool
    refunded: bool

    def render(self) -> str:
        return (
            f"Ticket: {self.ticket}\\n"
            f"Eligibility checked: {self.eligibility_checked}\\n"
            f"Eligible: {self.eligible}\\n"
            f"Refunded: {self.refunded}"
        )

class RefundEnv(Environment[RefundObservation, RefundState]):
    name = "refund-support"
    version = "1.0.0"
    max_turns = 4

    def setup(self, task: TaskData) -> None:
        super().setup(task)
        self.ticket = str(task.input)
        self.state = RefundState(
            seed=self.seed,
            order_id=str(task.metadata["order_id"]),
        )

    def observe(self) -> RefundObservation:
        return RefundObservation(
            ticket=self.ticket,
            eligibility_checked=self.state.eligibility_checked,
            eligible=self.state.eligible,
            refunded=self.state.refunded,
        )

    def done(self) -> bool:
        return self.state.eligibility_checked and (
            self.state.refunded or not self.state.eligible
        )

    def snapshot(self) -> dict:
        return {
            "eligibility_checked": self.state.eligibility_checked,
            "eligible": self.state.eligible,
            "refunded": self.state.refunded,
        }

    @tool
    def check_eligibility(self) -> bool:
        """Check whether the current order can be refunded."""
        self.state.eligibility_checked = True
        self.state.eligible = self.state.order_id.startswith("A")
        return self.state.eligible

    @tool
    def issue_refund(self) -> dict:
        """Refund the current order after eligibility is confirmed."""
        if not self.state.eligibility_checked or not self.state.eligible:
            raise ValueError("order is not eligible")
        self.state.refunded = True
        return {"status": "refunded"}
'''

TASKS = """
from plural import TaskData, TaskDataset

dataset = TaskDataset(
    name="refund-support-v1",
    version="1.0.0",
    tasks=[
        TaskData(
            task_id="duplicate-charge",
            input="I was charged twice for order A123.",
            expected={"should_refund": True},
            metadata={"order_id": "A123", "seed": 7},
        ),
        TaskData(
            task_id="expired-order",
            input="Please refund order Z999.",
            expected={"should_refund": False},
            metadata={"order_id": "Z999", "seed": 11},
        ),
    ],
)
dataset.save("data/refund-support.jsonl")
print(dataset.content_hash)
"""

SCORER = """
env = RefundEnv()

@env.scorer
def correct_resolution(rollout) -> float:
    should_refund = rollout.task.expected["should_refund"]
    return float(
        rollout.env.state.eligibility_checked
        and rollout.env.state.refunded == should_refund
    )
"""

CLIENT = """
from plural import Plural

client = Plural(base_url="https://api.pluralintel.com/v1")
"""

ROLLOUT = """
rollout = env.rollout(
    dataset.tasks[0],
    client,
    model="openai/gpt-5.6-luna",
)

print(rollout.trace.outcome.reward)
print(rollout.trace.stop_reason)
print(rollout.trace.steps)
"""


@pytest.fixture
def document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> types.SimpleNamespace:
    """The names that the document's code defines, up to its rollout, run in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return types.SimpleNamespace(**run(HARNESS, TASKS, SCORER))


def run(*parts: str, **names: Any) -> dict[str, Any]:
    """Run code of the document with our imports, one part after the other."""
    for part in parts:
        for theirs, ours in IMPORTS.items():
            part = part.replace(theirs, ours)
        assert "plural" not in part
        exec(compile(part, "<the document>", "exec"), names)
    return names


CHECK, REFUND = ToolCall("check_eligibility"), ToolCall("issue_refund")


def test_the_data_set_is_saved_and_its_hash_printed(document, capsys, tmp_path):
    saved = document.TaskDataset.load(tmp_path / "data" / "refund-support.jsonl")
    assert saved == document.dataset
    assert len(saved.content_hash) == 64
    assert saved.tasks[0].expected == {"should_refund": True}


def test_the_document_s_rollout_by_a_script(document, capsys):
    # a script stands where the document has its client
    part = ROLLOUT.replace('    model="openai/gpt-5.6-luna",\n', "")
    names = run(part, client=ScriptedPolicy([CHECK, REFUND]), **vars(document))
    reward, stop_reason, steps = capsys.readouterr().out.splitlines()[-3:]
    assert (reward, stop_reason) == ("1.0", "terminated")
    assert steps.count("TraceStep(") == 2
    trace = names["rollout"].trace
    assert [step.action["name"] for step in trace.steps] == ["check_eligibility", "issue_refund"]
    assert trace.steps[0].tool_calls[0]["result"] is True
    assert trace.steps[1].tool_calls[0]["result"] == {"status": "refunded"}
    assert trace.steps[1].snapshot == {
        "eligibility_checked": True,
        "eligible": True,
        "refunded": True,
    }
    assert trace.initial_observation.render() == (
        "Ticket: I was charged twice for order A123.\n"
        "Eligibility checked: False\n"
        "Eligible: False\n"
        "Refunded: False"
    )


def support_model(request: Request) -> Reply:
    """A model that checks, and pays back when it may, from what it is shown."""
    assert [each["function"]["name"] for each in request.body["tools"]] == [
        "check_eligibility",
        "issue_refund",
    ]
    shown = [each["content"] for each in request.messages if each["role"] == "user"][-1]
    if "Eligibility checked: False" in shown:
        return says("Let me check.", call("check_eligibility"))
    assert "Eligible: True" in shown
    return says(None, call("issue_refund"))


def test_the_document_s_rollout_by_a_model(document, capsys):
    with ChatServer(support_model) as server:
        # the imports, the endpoint's address and the model's name are all that is changed
        client = CLIENT.replace("https://api.pluralintel.com/v1", server.url)
        part = ROLLOUT.replace("openai/gpt-5.6-luna", "loopback/support-1")
        names = run(client, part, **vars(document))
        names["client"].close()
    reward, stop_reason, steps = capsys.readouterr().out.splitlines()[-3:]
    assert (reward, stop_reason, steps.count("TraceStep(")) == ("1.0", "terminated", 2)
    assert [request.path for request in server.requests] == ["/v1/chat/completions"] * 2
    assert {request.body["model"] for request in server.requests} == {"loopback/support-1"}
    assert server.requests[1].messages == [
        {
            "role": "user",
            "content": "Ticket: I was charged twice for order A123.\nEligibility checked: False\n"
            "Eligible: False\nRefunded: False",
        },
        {
            "role": "assistant",
            "content": "Let me check.",
            "tool_calls": [call("check_eligibility")],
        },
        {"role": "tool", "tool_call_id": "call_check_eligibility", "content": "true"},
        {
            "role": "user",
            "content": "Ticket: I was charged twice for order A123.\nEligibility checked: True\n"
            "Eligible: True\nRefunded: False",
        },
    ]
    # the model is a policy as the script is: the world went the same way
    script = names["env"].rollout(names["dataset"].tasks[0], ScriptedPolicy([CHECK, REFUND]))
    assert script.episode.trajectory_digest == names["rollout"].episode.trajectory_digest
    # the answer key went to the scorer only
    assert b"should_refund" not in server.received
    assert b"A123" in server.received


@pytest.mark.parametrize(
    ("task", "script", "reward", "stop_reason"),
    [
        (0, [CHECK, REFUND], 1.0, "terminated"),
        (1, [CHECK], 1.0, "terminated"),
        (1, [REFUND, CHECK], 1.0, "terminated"),
        (0, [REFUND, "Refunded!"], 0.0, "policy_stop"),
        (0, [REFUND] * 4, 0.0, "truncated"),
        (0, [CHECK], None, "failure"),
    ],
)
def test_what_each_behaviour_earns(document, task, script, reward, stop_reason):
    rollout = document.env.rollout(document.dataset.tasks[task], ScriptedPolicy(script))
    assert (rollout.trace.outcome.reward, rollout.trace.stop_reason) == (reward, stop_reason)


def test_a_refund_that_is_not_allowed_is_a_tool_error(document):
    rollout = document.env.rollout(document.dataset.tasks[1], ScriptedPolicy([REFUND, CHECK]))
    first, second = rollout.trace.steps
    assert first.tool_calls[0]["error"]["message"] == "order is not eligible"
    assert second.tool_calls[0]["result"] is False
    assert rollout.trace.outcome.metrics == {"turns": 2, "tool_calls": 2, "tool_errors": 1}


def test_the_seed_of_the_metadata_reaches_the_state(document):
    document.env.rollout(document.dataset.tasks[1], ScriptedPolicy([CHECK]))
    assert (document.env.seed, document.env.state.seed) == (11, 11)


def test_what_is_expected_is_nowhere_in_the_store(document, tmp_path):
    with connect(tmp_path / "store.duckdb") as store:
        for task in document.dataset.tasks:
            document.env.rollout(task, ScriptedPolicy([CHECK, REFUND]), store=store)
        for table in ("cases", "episodes", "steps", "states"):
            assert "should_refund" not in store.sql(f"SELECT * FROM {table}").df().to_csv()
    assert b"should_refund" not in (tmp_path / "store.duckdb").read_bytes()


def test_the_document_s_environment_passes_gymnasium_s_check(document):
    env = document.RefundEnv(task=document.dataset.tasks[0])
    with pytest.warns(UserWarning, match="not having a spec"):
        check_env(env)


def test_the_fingerprint_sees_an_implementation_that_drifted(document):
    drifted = run(HARNESS.replace('startswith("A")', 'startswith("Z")'))["RefundEnv"]()
    assert drifted.fingerprint().digest != document.RefundEnv().fingerprint().digest
