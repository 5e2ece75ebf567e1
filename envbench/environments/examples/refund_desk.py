"""A refund desk: a ticket, the customer's orders, and money that must be paid back once.

Version 1.0.0 pays back whatever it is asked to. Version 2.0.0 pays only on orders that were looked
up, and never more than was charged.
"""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from envbench.checks import OutcomeCheck, OutcomeVerdict
from envbench.environments import (
    Environment,
    Observation,
    ScriptedPolicy,
    State,
    TaskData,
    TaskDataset,
    ToolCall,
    ToolRecord,
    scorer,
    tool,
)
from envbench.evidence import EpisodeEvidence

__all__ = [
    "CHECKS",
    "TASKS",
    "Order",
    "Reason",
    "Refund",
    "RefundDesk",
    "RefundDeskV1",
    "RefundDeskV2",
    "careful",
    "hasty",
]


class Reason(Enum):
    """Why money is paid back."""

    DUPLICATE_CHARGE = "duplicate_charge"
    NOT_DELIVERED = "not_delivered"
    RETURNED = "returned"


class Order(BaseModel):
    """An order: what was charged for it, in cents, and where the parcel is."""

    order_id: str
    customer: str
    charges: list[int]
    parcel: Literal["delivered", "lost", "on its way"]

    @property
    def charged(self) -> int:
        """All charges together, in cents."""
        return sum(self.charges)


class Refund(BaseModel):
    """Money that was paid back, in cents."""

    refund_id: int
    order_id: str
    cents: int
    reason: Reason


class DeskState(State):
    """The whole world of one ticket."""

    customer: str
    ticket: str
    orders: list[Order]
    refunds: list[Refund] = Field(default_factory=list)
    looked_up: list[str] = Field(default_factory=list)
    status: Literal["open", "closed"] = "open"


class DeskObservation(Observation):
    """What the desk shows: the ticket, the orders that were looked up, and what was paid back."""

    customer: str
    ticket: str
    orders: list[Order]
    refunds: list[Refund]
    status: Literal["open", "closed"]

    def render(self) -> str:
        """The ticket as text."""
        orders = [f"- {each.order_id}: charged {each.charges} cents" for each in self.orders]
        refunds = [f"- {each.order_id}: {each.cents} cents back" for each in self.refunds]
        return "\n".join(
            [
                f"Ticket of {self.customer} ({self.status}): {self.ticket}",
                "Orders looked up:",
                *(orders or ["- none"]),
                "Paid back:",
                *(refunds or ["- nothing"]),
            ]
        )


class RefundDesk(Environment[DeskObservation, DeskState]):
    """The desk that both versions share."""

    name = "refund-desk"
    max_turns = 8

    def setup(self, task: TaskData) -> None:
        """Open the ticket."""
        super().setup(task)
        self.state = DeskState(
            seed=self.seed,
            customer=task.metadata["customer"],
            ticket=str(task.input),
            orders=[Order(**order) for order in task.metadata["orders"]],
        )

    def observe(self) -> DeskObservation:
        """The ticket, and the orders that were looked up."""
        state = self.state
        return DeskObservation(
            customer=state.customer,
            ticket=state.ticket,
            orders=[each for each in state.orders if each.order_id in state.looked_up],
            refunds=list(state.refunds),
            status=state.status,
        )

    def done(self) -> bool:
        """When the ticket is closed."""
        return self.state.status == "closed"

    def after_tool(self, record: ToolRecord) -> None:
        """A call that fails costs a little."""
        if record.error is not None:
            self.add_reward(-0.1)

    @tool
    def look_up(self, order_id: str) -> Order:
        """Look an order up.

        Args:
            order_id: such as "o-17".
        """
        order = self.order(order_id)
        if order_id not in self.state.looked_up:
            self.state.looked_up = [*self.state.looked_up, order_id]
        return order

    @tool
    async def ask_carrier(self, order_id: str) -> str:
        """Ask the carrier where the parcel of an order is."""
        order = self.look_up(order_id)
        await asyncio.sleep(0)  # where a real desk waits for the carrier's service
        return order.parcel

    @tool
    def refund(self, order_id: str, cents: Annotated[int, Field(gt=0)], reason: Reason) -> Refund:
        """Pay money back to the customer.

        Args:
            order_id: the order that it was paid for.
            cents: how much, in cents.
            reason: why.
        """
        self.check(self.order(order_id), cents)
        refund = Refund(
            refund_id=len(self.state.refunds) + 1, order_id=order_id, cents=cents, reason=reason
        )
        self.state.refunds = [*self.state.refunds, refund]
        return refund

    @tool
    def close_ticket(self, note: str = "") -> str:
        """Close the ticket; nothing can be done after that."""
        self.state.status = "closed"
        return f"closed: {note}" if note else "closed"

    def order(self, order_id: str) -> Order:
        """The order of this id.

        Raises:
            LookupError: when there is none.
        """
        for order in self.state.orders:
            if order.order_id == order_id:
                return order
        raise LookupError(f"there is no order {order_id!r}")

    def check(self, order: Order, cents: int) -> None:
        """Refuse a refund that the rules of the desk forbid."""
        raise NotImplementedError

    @scorer
    def resolved(self, rollout: Any) -> bool:
        """Whether each order got back what it should, and no other did."""
        paid: dict[str, int] = {}
        for refund in self.state.refunds:
            paid[refund.order_id] = paid.get(refund.order_id, 0) + refund.cents
        return bool(paid == rollout.task.expected["paid_back"]) and self.done()

    @scorer(weight=0)
    def tool_errors(self, rollout: Any) -> int:
        """How many calls failed; a metric, no part of the reward."""
        return sum("error" in call for step in rollout.trace.steps for call in step.tool_calls)


class RefundDeskV1(RefundDesk):
    """Pays back whatever it is asked to."""

    version = "1.0.0"

    def check(self, order: Order, cents: int) -> None:
        """Allow everything."""


class RefundDeskV2(RefundDesk):
    """Pays back on orders that were looked up, to their customer, and not more than was charged."""

    version = "2.0.0"

    def check(self, order: Order, cents: int) -> None:
        """Refuse what the rules forbid.

        Raises:
            ValueError: saying which rule.
        """
        if order.order_id not in self.state.looked_up:
            raise ValueError(f"look {order.order_id} up before paying back")
        if order.customer != self.state.customer:
            raise ValueError(f"{order.order_id} is not an order of {self.state.customer}")
        before = sum(r.cents for r in self.state.refunds if r.order_id == order.order_id)
        if before + cents > order.charged:
            raise ValueError(
                f"{order.order_id} was charged {order.charged} cents, of which {before} are paid"
                f" back: {cents} more is too much"
            )


def _order(order_id: str, customer: str, charges: list[int], parcel: str) -> dict[str, Any]:
    return {"order_id": order_id, "customer": customer, "charges": charges, "parcel": parcel}


TASKS = TaskDataset(
    "refund-desk",
    "1.0.0",
    [
        TaskData(
            "charged-twice",
            "You charged me twice for o-17.",
            {"paid_back": {"o-17": 1250}},
            {
                "seed": 1,
                "customer": "Ada",
                "orders": [_order("o-17", "Ada", [1250, 1250], "delivered")],
            },
        ),
        TaskData(
            "lost-parcel",
            "Order o-18 never arrived.",
            {"paid_back": {"o-18": 900}},
            {"seed": 2, "customer": "Ben", "orders": [_order("o-18", "Ben", [900], "lost")]},
        ),
        TaskData(
            "still-coming",
            "Where is o-19? I want my money back.",
            {"paid_back": {}},
            {"seed": 3, "customer": "Cy", "orders": [_order("o-19", "Cy", [4000], "on its way")]},
        ),
        TaskData(
            "somebody-elses",
            "Refund o-20, please.",
            {"paid_back": {}},
            {"seed": 4, "customer": "Dee", "orders": [_order("o-20", "Eve", [700], "lost")]},
        ),
    ],
)
"""Four tickets."""


def _within_charges(episode: EpisodeEvidence) -> OutcomeVerdict:
    """Judge from the last state alone whether no order got back more than was charged."""
    state = episode.final_state
    if state is None:
        return OutcomeVerdict(None, "the last state was not seen", {})
    paid: dict[str, int] = {}
    for refund in state["refunds"]:
        paid[refund["order_id"]] = paid.get(refund["order_id"], 0) + refund["cents"]
    charged = {order["order_id"]: sum(order["charges"]) for order in state["orders"]}
    over = {key: cents for key, cents in paid.items() if cents > charged[key]}
    return OutcomeVerdict(not over, "no order gets back more than was charged", {"over": over})


def _own_orders(episode: EpisodeEvidence) -> OutcomeVerdict:
    """Judge from the last state alone whether money went back on the customer's orders only."""
    state = episode.final_state
    if state is None:
        return OutcomeVerdict(None, "the last state was not seen", {})
    own = {each["order_id"] for each in state["orders"] if each["customer"] == state["customer"]}
    others = [each["order_id"] for each in state["refunds"] if each["order_id"] not in own]
    return OutcomeVerdict(not others, "refunds on the customer's own orders", {"others": others})


CHECKS = (
    OutcomeCheck("within_charges", "1", _within_charges),
    OutcomeCheck("own_orders", "1", _own_orders),
)
"""What must hold of an episode, whatever was asked: read from evidence, without the answer key."""

_PAY = {
    "charged-twice": ("o-17", 1250, "duplicate_charge"),
    "lost-parcel": ("o-18", 900, "not_delivered"),
}
_ORDERS = {
    "charged-twice": "o-17",
    "lost-parcel": "o-18",
    "still-coming": "o-19",
    "somebody-elses": "o-20",
}


def careful(task: TaskData) -> ScriptedPolicy:
    """A script that looks before it pays, for each of `TASKS`."""
    actions = [ToolCall("ask_carrier", {"order_id": _ORDERS[task.task_id]})]
    if task.task_id in _PAY:
        order_id, cents, reason = _PAY[task.task_id]
        actions.append(_refund(order_id, cents, reason))
    return ScriptedPolicy([*actions, ToolCall("close_ticket")], agent_id="careful")


def hasty(task: TaskData) -> ScriptedPolicy:
    """A script that looks the order up and pays back twice, whatever was asked."""
    order_id = _ORDERS[task.task_id]
    _, cents, reason = _PAY.get(task.task_id, (order_id, 500, "returned"))
    pay = _refund(order_id, cents, reason)
    actions = [ToolCall("look_up", {"order_id": order_id}), pay, pay, ToolCall("close_ticket")]
    return ScriptedPolicy(actions, agent_id="hasty")


def _refund(order_id: str, cents: int, reason: str) -> ToolCall:
    return ToolCall("refund", {"order_id": order_id, "cents": cents, "reason": reason})
