"""A stockroom: items, reservations and shipments in a real SQLite database.

Each tool is one transaction, committed before it returns, so that the evidence is read from the
file itself, and its triggers see what happened between two snapshots. Version 1.0.0 reserves
what is not there, and a request that is sent again reserves again. Version 2.0.0 does neither.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field

from envbench.capture.observers import SQLiteObserver
from envbench.checks import OutcomeCheck, OutcomeVerdict
from envbench.environments import (
    Environment,
    Observation,
    ScriptedPolicy,
    State,
    TaskData,
    TaskDataset,
    ToolCall,
    scorer,
    tool,
)
from envbench.evidence import EpisodeEvidence

__all__ = [
    "CHECKS",
    "TASKS",
    "Item",
    "Stockroom",
    "StockroomV1",
    "StockroomV2",
    "impatient",
    "orderly",
]

SCHEMA = """
CREATE TABLE items (
    item_id TEXT PRIMARY KEY NOT NULL,
    title TEXT NOT NULL,
    on_hand INTEGER NOT NULL
);
CREATE TABLE reservations (
    reservation_id INTEGER PRIMARY KEY,
    item_id TEXT NOT NULL REFERENCES items (item_id),
    quantity INTEGER NOT NULL CHECK (quantity > 0),
    reference TEXT NOT NULL
);
CREATE TABLE shipments (
    shipment_id INTEGER PRIMARY KEY,
    reservation_id INTEGER NOT NULL UNIQUE,
    item_id TEXT NOT NULL,
    quantity INTEGER NOT NULL
);
"""


class Item(BaseModel):
    """An item, and how many are on hand and not reserved."""

    item_id: str
    title: str
    on_hand: int


class StockroomState(State):
    """Where the database is; the world itself is in it."""

    path: str


class StockroomObservation(Observation):
    """What the stockroom shows: the order, and what was reserved and shipped for it."""

    order: str
    reserved: int
    shipped: int

    def render(self) -> str:
        """The order as text."""
        return f"{self.order}\nReserved: {self.reserved} pieces. Shipped: {self.shipped} pieces."


class Stockroom(Environment[StockroomObservation, StockroomState]):
    """The stockroom that both versions share."""

    name = "stockroom"
    max_turns = 8

    def setup(self, task: TaskData) -> None:
        """Make a fresh database, with an audit."""
        super().setup(task)
        self.tear_down()
        self.folder = tempfile.mkdtemp(prefix="envbench-stockroom-")
        path = Path(self.folder) / "stockroom.sqlite"
        self.state = StockroomState(seed=self.seed, path=str(path))
        self.wanted: int = task.metadata["wanted"]
        with closing(sqlite3.connect(path)) as database, database:
            database.executescript(SCHEMA)
            database.executemany("INSERT INTO items VALUES (?, ?, ?)", task.metadata["items"])
        SQLiteObserver.install_audit(path)
        self.observer = SQLiteObserver(path)

    def observe(self) -> StockroomObservation:
        """The order, and how far it is."""
        with self.database() as database:
            reserved, shipped = (
                database.execute(f"SELECT coalesce(sum(quantity), 0) FROM {table}").fetchone()[0]
                for table in ("reservations", "shipments")
            )
        return StockroomObservation(order=str(self.task.input), reserved=reserved, shipped=shipped)

    def done(self) -> bool:
        """When what was wanted is shipped."""
        with self.database() as database:
            (shipped,) = database.execute(
                "SELECT coalesce(sum(quantity), 0) FROM shipments"
            ).fetchone()
        return bool(shipped >= self.wanted)

    def snapshot(self) -> dict[str, Any]:
        """All tables, as they are committed."""
        return self.observer()

    def audit(self) -> list[dict[str, Any]]:
        """Every change since the last call, also those undone since."""
        return [dict(event) for event in self.observer.audit()]

    def close(self) -> None:
        """Delete the database."""
        super().close()
        self.tear_down()

    def tear_down(self) -> None:
        """Delete the database, if there is one."""
        folder = vars(self).pop("folder", None)
        if folder is not None:
            for file in Path(folder).iterdir():
                file.unlink()
            Path(folder).rmdir()

    @contextmanager
    def database(self) -> Iterator[sqlite3.Connection]:
        """A connection for one transaction, which is rolled back when the block raises."""
        with closing(sqlite3.connect(self.state.path)) as database, database:
            yield database

    @tool
    def find_items(self, words: str = "") -> list[Item]:
        """List items and what is on hand.

        Args:
            words: a part of the title; all items without it.
        """
        with self.database() as database:
            rows = database.execute(
                "SELECT item_id, title, on_hand FROM items WHERE title LIKE ? ORDER BY item_id",
                [f"%{words}%"],
            ).fetchall()
        return [Item(item_id=row[0], title=row[1], on_hand=row[2]) for row in rows]

    @tool
    def reserve(self, item_id: str, quantity: Annotated[int, Field(gt=0)], reference: str) -> int:
        """Take pieces off the shelf for an order.

        Args:
            item_id: the item.
            quantity: how many pieces.
            reference: the order's own word for this request; send it again with the same request.

        Returns:
            The reservation's id.
        """
        with self.database() as database:
            known = self.reserved_before(database, reference)
            if known is not None:
                return known
            self.check(database, item_id, quantity)
            database.execute(
                "UPDATE items SET on_hand = on_hand - ? WHERE item_id = ?", [quantity, item_id]
            )
            cursor = database.execute(
                "INSERT INTO reservations (item_id, quantity, reference) VALUES (?, ?, ?)",
                [item_id, quantity, reference],
            )
            return int(cursor.lastrowid or 0)

    @tool
    def release(self, reservation_id: int) -> str:
        """Put reserved pieces back on the shelf."""
        with self.database() as database:
            item_id, quantity = self.reservation(database, reservation_id)
            database.execute("DELETE FROM reservations WHERE reservation_id = ?", [reservation_id])
            database.execute(
                "UPDATE items SET on_hand = on_hand + ? WHERE item_id = ?", [quantity, item_id]
            )
        return f"{quantity} pieces of {item_id} are back"

    @tool
    def ship(self, reservation_ids: list[int]) -> list[int]:
        """Ship reservations, all or none; gives the ids of the shipments."""
        shipments = []
        with self.database() as database:
            for reservation_id in reservation_ids:
                item_id, quantity = self.reservation(database, reservation_id)
                cursor = database.execute(
                    "INSERT INTO shipments (reservation_id, item_id, quantity) VALUES (?, ?, ?)",
                    [reservation_id, item_id, quantity],
                )
                shipments.append(int(cursor.lastrowid or 0))
        return shipments

    def reservation(self, database: sqlite3.Connection, reservation_id: int) -> tuple[str, int]:
        """Item and quantity of a reservation.

        Raises:
            LookupError: when there is none.
        """
        row = database.execute(
            "SELECT item_id, quantity FROM reservations WHERE reservation_id = ?", [reservation_id]
        ).fetchone()
        if row is None:
            raise LookupError(f"there is no reservation {reservation_id}")
        return str(row[0]), int(row[1])

    def check(self, database: sqlite3.Connection, item_id: str, quantity: int) -> None:
        """Refuse a reservation that the rules of the stockroom forbid."""
        raise NotImplementedError

    def reserved_before(self, database: sqlite3.Connection, reference: str) -> int | None:
        """The reservation that this request made before, None when it made none."""
        raise NotImplementedError

    @scorer
    def exact(self, rollout: Any) -> bool:
        """Whether the order was shipped exactly, and the shelf holds all the rest."""
        expected = rollout.task.expected
        tables = self.snapshot()
        left = {row["item_id"]: row["on_hand"] for row in tables["items"]}
        shipped: dict[str, int] = {}
        for row in tables["shipments"]:
            shipped[row["item_id"]] = shipped.get(row["item_id"], 0) + row["quantity"]
        return bool(shipped == expected["shipped"] and left == expected["left"])


class StockroomV1(Stockroom):
    """Reserves what is not there, and again when it is asked again."""

    version = "1.0.0"

    def check(self, database: sqlite3.Connection, item_id: str, quantity: int) -> None:
        """Allow everything."""

    def reserved_before(self, database: sqlite3.Connection, reference: str) -> int | None:
        """Never look."""
        return None


class StockroomV2(Stockroom):
    """Reserves what is on hand, once for each reference."""

    version = "2.0.0"

    def check(self, database: sqlite3.Connection, item_id: str, quantity: int) -> None:
        """Refuse what is not on hand.

        Raises:
            LookupError: when there is no such item.
            ValueError: when there are not enough.
        """
        row = database.execute("SELECT on_hand FROM items WHERE item_id = ?", [item_id]).fetchone()
        if row is None:
            raise LookupError(f"there is no item {item_id!r}")
        if row[0] < quantity:
            raise ValueError(f"{quantity} pieces of {item_id} were asked for, {row[0]} are on hand")

    def reserved_before(self, database: sqlite3.Connection, reference: str) -> int | None:
        """The reservation with this reference."""
        row = database.execute(
            "SELECT reservation_id FROM reservations WHERE reference = ?", [reference]
        ).fetchone()
        return None if row is None else int(row[0])


TASKS = TaskDataset(
    "stockroom",
    "1.0.0",
    [
        TaskData(
            "three-lamps",
            "Ship 3 lamps for order 501.",
            {"shipped": {"lamp": 3}, "left": {"lamp": 2, "shade": 4}},
            {"seed": 1, "wanted": 3, "items": [["lamp", "Desk lamp", 5], ["shade", "Shade", 4]]},
        ),
        TaskData(
            "one-shade",
            "Ship 1 shade for order 502.",
            {"shipped": {"shade": 1}, "left": {"lamp": 5, "shade": 0}},
            {"seed": 2, "wanted": 1, "items": [["lamp", "Desk lamp", 5], ["shade", "Shade", 1]]},
        ),
    ],
)
"""Two orders."""


def _reserved_once(episode: EpisodeEvidence) -> OutcomeVerdict:
    """Judge from the last state alone whether each request was reserved once."""
    state = episode.final_state
    if state is None:
        return OutcomeVerdict(None, "the last state was not seen", {})
    references = [row["reference"] for row in state["reservations"]]
    twice = sorted({each for each in references if references.count(each) > 1})
    return OutcomeVerdict(not twice, "one reservation for each reference", {"twice": twice})


def _never_below_zero(episode: EpisodeEvidence) -> OutcomeVerdict:
    """Judge from every state whether there was no moment with less than nothing on hand."""
    below = [
        (index, row["item_id"])
        for index, state in enumerate(episode.states)
        for row in (state or {}).get("items", ())
        if row["on_hand"] < 0
    ]
    if not below and None in list(episode.states):
        return OutcomeVerdict(None, "some states were not seen", {})
    return OutcomeVerdict(not below, "never less than nothing on hand", {"below": len(below)})


CHECKS = (
    OutcomeCheck("reserved_once", "1", _reserved_once),
    OutcomeCheck("never_below_zero", "1", _never_below_zero),
)
"""What must hold of an episode, whatever was asked: read from evidence, without the answer key."""

_WANTED = {"three-lamps": ("lamp", 3, "501"), "one-shade": ("shade", 1, "502")}


def orderly(task: TaskData) -> ScriptedPolicy:
    """A script that reserves once and ships it, for each of `TASKS`."""
    item_id, quantity, reference = _WANTED[task.task_id]
    return ScriptedPolicy(
        [
            ToolCall("find_items"),
            _reserve(item_id, quantity, reference),
            ToolCall("ship", {"reservation_ids": [1]}),
        ],
        agent_id="orderly",
    )


def impatient(task: TaskData) -> ScriptedPolicy:
    """A script that sends its request again, as software does that did not hear the answer."""
    item_id, quantity, reference = _WANTED[task.task_id]
    ask = _reserve(item_id, quantity, reference)
    return ScriptedPolicy(
        [ask, ask, ToolCall("ship", {"reservation_ids": [1]})], agent_id="impatient"
    )


def _reserve(item_id: str, quantity: int, reference: str) -> ToolCall:
    return ToolCall("reserve", {"item_id": item_id, "quantity": quantity, "reference": reference})
