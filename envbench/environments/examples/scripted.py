"""Every scripted policy on every version of both example environments, in one store."""

from __future__ import annotations

from envbench.capture.sink import Target
from envbench.environments import Rollouts, run_tasks
from envbench.environments.examples import refund_desk, stockroom

RUNS = (
    (refund_desk.TASKS, refund_desk.RefundDeskV1, refund_desk.careful),
    (refund_desk.TASKS, refund_desk.RefundDeskV1, refund_desk.hasty),
    (refund_desk.TASKS, refund_desk.RefundDeskV2, refund_desk.careful),
    (refund_desk.TASKS, refund_desk.RefundDeskV2, refund_desk.hasty),
    (stockroom.TASKS, stockroom.StockroomV1, stockroom.orderly),
    (stockroom.TASKS, stockroom.StockroomV1, stockroom.impatient),
    (stockroom.TASKS, stockroom.StockroomV2, stockroom.orderly),
    (stockroom.TASKS, stockroom.StockroomV2, stockroom.impatient),
)
"""Tasks, environment and what makes the policy."""


def run_all(store: Target) -> dict[tuple[str, str, str], Rollouts]:
    """Run them all.

    Args:
        store: where the episodes are kept.

    Returns:
        The rollouts by environment, version and policy.
    """
    return {
        (environment.name, environment.version, make_policy.__name__): run_tasks(
            tasks, environment, make_policy, store=store
        )
        for tasks, environment, make_policy in RUNS
    }
