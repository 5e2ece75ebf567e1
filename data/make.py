"""Make the evidence that the notebooks open: ``python data/make.py``.

It runs the ledger of `envbench demo`, and a clerk on sixty tickets of two versions of the refund
desk (`envbench.environments.examples`), and writes `evidence.duckdb` and `SHA256SUMS` beside
itself. What is recorded is the same every time but for ids and times, so that a checksum differs.
"""

from __future__ import annotations

import hashlib
import random
import tempfile
from pathlib import Path
from typing import Any

from envbench import OutcomeCheck, OutcomeVerdict, Store, connect, evaluate
from envbench.environments import ScriptedPolicy, TaskData, TaskDataset, ToolCall, run_tasks
from envbench.environments.examples import refund_desk
from envbench.evidence import EpisodeEvidence
from envbench.ledger.run import run

FOLDER = Path(__file__).resolve().parent
STORE = "evidence.duckdb"
TICKETS = 60


def main() -> None:
    """Write the store and its checksum."""
    target = FOLDER / STORE
    target.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder) / "ledger", progress=False)
        with connect(target) as store:
            store.merge(Path(folder) / "ledger" / "evidence.duckdb")
            serve(store)
            assert store.verify().ok
    digest = hashlib.sha256(target.read_bytes()).hexdigest()
    (FOLDER / "SHA256SUMS").write_text(f"{digest}  {STORE}\n", encoding="utf-8")


def serve(store: Store) -> None:
    """Let the clerk serve every ticket at both versions of the desk, and judge what came of it."""
    for version in (refund_desk.RefundDeskV1, refund_desk.RefundDeskV2):
        run_tasks(tickets(), version, clerk, store=store, progress=False)
    checks = [*refund_desk.CHECKS, OutcomeCheck("paid_what_is_owed", "1", paid_what_is_owed)]
    evaluate(list(store.episodes("environment_id = 'refund-desk'")), checks).save(store)


def tickets() -> TaskDataset:
    """Customers who were charged twice: each is owed one charge."""
    dice = random.Random(17)
    tasks = []
    for number in range(TICKETS):
        order_id = f"o-{100 + number}"
        cents = dice.randrange(500, 9_000, 50)
        order = {
            "order_id": order_id,
            "customer": f"customer-{number}",
            "charges": [cents, cents],
            "parcel": "delivered",
        }
        tasks.append(
            TaskData(
                f"ticket-{number:02}",
                f"You charged me twice for {order_id}.",
                {"paid_back": {order_id: cents}},
                {
                    "seed": number,
                    "customer": order["customer"],
                    "orders": [order],
                    "habit": dice.choices(HABITS, (5, 3, 2))[0],
                },
            )
        )
    return TaskDataset("double-charges", "1.0.0", tasks)


HABITS = ("looks first", "pays three times", "never looks")
"""What the clerk does: with some customers it presses the button again and again."""


def clerk(task: TaskData) -> ScriptedPolicy:
    """The clerk of a ticket; what it does depends on the ticket, not on the version of the desk."""
    (order,) = task.metadata["orders"]
    habit = task.metadata["habit"]
    look = ToolCall("look_up", {"order_id": order["order_id"]})
    pay = ToolCall(
        "refund",
        {
            "order_id": order["order_id"],
            "cents": order["charges"][0],
            "reason": "duplicate_charge",
        },
    )
    actions = {
        "looks first": [look, pay],
        "pays three times": [look, pay, pay, pay],
        "never looks": [pay],
    }[habit]
    return ScriptedPolicy([*actions, ToolCall("close_ticket")], agent_id="clerk")


def paid_what_is_owed(episode: EpisodeEvidence) -> OutcomeVerdict:
    """Whether an order that was charged twice got one charge back, by the last state alone."""
    state: dict[str, Any] | None = episode.final_state
    if state is None:
        return OutcomeVerdict(None, "the last state was not seen", {})
    (order,) = state["orders"]
    owed = order["charges"][1]
    paid = sum(refund["cents"] for refund in state["refunds"])
    return OutcomeVerdict(paid == owed, f"owed {owed} cents, paid {paid}", {"paid": paid})


if __name__ == "__main__":
    main()
