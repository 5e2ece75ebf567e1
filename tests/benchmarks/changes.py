"""What deriving changes costs, beside deepdiff, jsonpatch and dictdiffer, in one run.

    python tests/benchmarks/changes.py [--quick]

Every measure is CPU time of this process, the peers interleaved with ours, the least of several
rounds. A fixed loop of plain Python is measured between them: a machine that is busy slows both, so
the ratio to it (`loops`) says more than the microseconds. Peers get parsed states; ours gets the
canonical text that a recorder has made anyway, and derives the history with restorations, which
peers do not have.
"""

from __future__ import annotations

import argparse
import copy
import gc
import importlib
import json
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa

from envbench import connect
from envbench.changes.history import History, sections_of
from envbench.evidence.portable import canonical
from envbench.store.changes import change_rows

State = dict[str, Any]


@dataclass(frozen=True)
class Measure:
    """CPU time of one step, in microseconds."""

    world: str
    tool: str
    microseconds: float


# -- worlds ----------------------------------------------------------------------------------------


def ledger(rows: int) -> State:
    """Orders of four columns: fifty of them are about 3.4 kB."""
    return {
        "orders": [
            {"order_id": i, "status": "open", "amount_cents": 1_000 + i, "note": f"order {i:05}"}
            for i in range(rows)
        ]
    }


def wide(rows: int) -> State:
    """One table of eight columns."""
    return {
        "items": [
            {
                "item_id": f"item-{i:06}",
                "name": f"thing number {i}",
                "price": i * 1.25,
                "stock": i % 17,
                "active": i % 3 == 0,
                "category": f"c{i % 40}",
                "updated_at": "2026-01-01T00:00:00Z",
                "comment": None,
            }
            for i in range(rows)
        ]
    }


def apps(rows: int) -> State:
    """Mail, a shop and a calendar: several tables, nested objects and tables, settings."""
    generate = random.Random(1)

    def person() -> str:
        return f"person{generate.randrange(200)}@example.org"

    return {
        "mail": {
            "settings": {"signature": "Kind regards", "folders": ["inbox", "sent", "archive"]},
            "messages": [
                {
                    "id": i,
                    "folder": generate.choice(["inbox", "sent", "archive"]),
                    "from": person(),
                    "to": [person() for _ in range(generate.randint(1, 3))],
                    "subject": f"About matter {generate.randrange(1_000)}",
                    "body": "Please find the numbers below. " * generate.randint(1, 6),
                    "read": generate.random() < 0.7,
                }
                for i in range(rows)
            ],
        },
        "shop": {
            "products": [
                {"sku": f"P{i:04}", "id": i, "price_cents": generate.randrange(10_000)}
                for i in range(rows // 2)
            ],
            "orders": [
                {
                    "order_id": f"o-{i}",
                    "customer": {"name": f"Customer {i}", "email": person()},
                    "status": "open",
                    "lines": [
                        {"line_id": n, "product": generate.randrange(100), "count": 1}
                        for n in range(generate.randint(1, 4))
                    ],
                }
                for i in range(rows // 2)
            ],
        },
        "calendar_events": [
            {"id": i, "title": f"Meeting {i}", "start": i * 3_600, "guests": [person()]}
            for i in range(rows // 2)
        ],
    }


def edit_cell(rows: list[State], column: str, step: int) -> None:
    rows[(step * 7_919) % len(rows)][column] = f"value {step}"


EDITS: dict[str, Callable[[State, int], None]] = {
    "ledger": lambda state, step: edit_cell(state["orders"], "status", step),
    "wide": lambda state, step: edit_cell(state["items"], "category", step),
    "apps": lambda state, step: edit_cell(
        [state["mail"]["messages"], state["shop"]["orders"], state["calendar_events"]][step % 3],
        ["folder", "status", "title"][step % 3],
        step,
    ),
}


def states_of(world: str, first: State, steps: int) -> Iterator[State]:
    """The first state, and those after each step: one cell changes at every step."""
    state = copy.deepcopy(first)
    yield copy.deepcopy(state)
    for step in range(1, steps + 1):
        EDITS[world](state, step)
        yield copy.deepcopy(state)


# -- tools -----------------------------------------------------------------------------------------


def ours(states: list[State]) -> float:
    """Seconds of CPU for all steps: derive changes and make the rows that are stored."""
    texts = [sections_of(state) for state in states]
    history = History()
    history.see(0, texts[0])
    started = time.process_time()
    for step, sections in enumerate(texts[1:], 1):
        history.see(step, sections)
    change_rows("episode", history.changes())
    return time.process_time() - started


def ours_unchanged(states: list[State]) -> float:
    """The same when no step changes anything; each text is another object, as in a capture."""
    return ours([copy.deepcopy(states[0]) for _ in states])


def reparsed(states: list[State]) -> float:
    """The same from the stored text of whole states, as `rebuild_changes` has it."""
    texts = [canonical(state) for state in states]
    history = History()
    history.see_text(0, texts[0])
    started = time.process_time()
    for step, text in enumerate(texts[1:], 1):
        history.see_text(step, text)
    return time.process_time() - started


def peer(compare: Callable[[State, State], Any]) -> Callable[[list[State]], float]:
    """A tool that compares each state with the one before."""

    def measured(states: list[State]) -> float:
        started = time.process_time()
        for before, after in pairwise(states):
            compare(before, after)
        return time.process_time() - started

    return measured


def peers() -> dict[str, Callable[[State, State], Any]]:
    """The peers that are installed; the extra `peers` has them."""
    found: dict[str, Callable[[State, State], Any]] = {}
    calls: dict[str, tuple[str, Callable[[Any], Callable[[State, State], Any]]]] = {
        "deepdiff": ("deepdiff", lambda m: lambda a, b: m.DeepDiff(a, b).to_dict()),
        "deepdiff, order ignored": (
            "deepdiff",
            lambda m: lambda a, b: m.DeepDiff(a, b, ignore_order=True).to_dict(),
        ),
        "jsonpatch": ("jsonpatch", lambda m: lambda a, b: m.make_patch(a, b).patch),
        "dictdiffer": ("dictdiffer", lambda m: lambda a, b: list(m.diff(a, b))),
    }
    for name, (module, call) in calls.items():
        try:
            found[name] = call(importlib.import_module(module))
        except ImportError:
            print(f"{module} is not installed: pip install 'envbench[peers]'")
    return found


def loop() -> float:
    """Seconds of CPU for a fixed loop of plain Python: one `loop` is a hundred turns of it."""
    started = time.process_time()
    total = 0
    for i in range(100_000):
        total += i % 7
    return (time.process_time() - started) / 1_000


# -- the run ---------------------------------------------------------------------------------------


def measure(world: str, first: State, steps: dict[str, int], rounds: int) -> list[Measure]:
    """Measure every tool on a world; `steps` says how many for ours and for peers."""
    states = list(states_of(world, first, steps["ours"]))
    few = states[: steps["peers"] + 1]
    tools: dict[str, tuple[Callable[[list[State]], float], list[State]]] = {
        "envbench": (ours, states),
        "envbench, nothing changes": (ours_unchanged, states),
        "envbench, from stored text": (reparsed, states),
    }
    for name, compare in peers().items():
        if not (world != "ledger" and "ignored" in name):  # minutes a step
            tools[name] = (peer(compare), few)
    gc.collect()
    gc.freeze()  # a capture does not hold all states as objects that a collection has to look at
    best: dict[str, float] = {}
    for _ in range(rounds):
        for name, (tool, given) in tools.items():
            seconds = tool(given) / (len(given) - 1)
            best[name] = min(best.get(name, seconds), seconds)
        best["loop"] = min(best.get("loop", 1.0), loop())
    gc.unfreeze()
    label = f"{world}, {len(json.dumps(first)) / 1_000:,.1f} kB"
    return [Measure(label, name, seconds * 1e6) for name, seconds in best.items()]


def restored_in_sql(rows: int) -> tuple[float, int]:
    """Seconds of wall-clock for every restored change of so many steps, and how many there are.

    The rows are made up and come through Arrow: it is the query that is measured.
    """
    step = pa.array(range(1, rows + 1), pa.int64())
    back = pa.array([i + 5 if i % 10 == 0 else None for i in range(1, rows + 1)], pa.int64())
    table = pa.table(
        {
            "episode_id": pa.array([f"episode-{i // 10_000}" for i in range(rows)]),
            "step_index": step,
            "since": pa.array(range(rows), pa.int64()),
            "path": pa.array([f"/orders/order_id={i % 500}/status" for i in range(rows)]),
            "op": pa.array(["edit"] * rows),
            "before": pa.array([f'"value {i % 90}"' for i in range(rows)]),
            "after": pa.array([f'"value {i % 91}"' for i in range(rows)]),
            "restored_at": back,
            "restored_after": back,
            "to_initial": pa.array([None] * rows, pa.bool_()),
        }
    )
    with connect(":memory:") as store, store.cursor() as cursor:
        cursor.register("made_up", table)
        cursor.execute("INSERT INTO state_changes SELECT * FROM made_up").fetchall()
        best = float("inf")
        for _ in range(3):
            started = time.perf_counter()
            found = cursor.sql(
                "SELECT episode_id, step_index, path, before, after, restored_at"
                " FROM state_changes WHERE restored_at IS NOT NULL"
            ).to_arrow_table()
            best = min(best, time.perf_counter() - started)
        return best, found.num_rows


def main(arguments: list[str] | None = None) -> list[Measure]:
    """Run and print a table of ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small worlds, to see that it runs")
    quick = parser.parse_args(arguments).quick
    plan: list[tuple[str, State, dict[str, int]]] = (
        [
            ("ledger", ledger(5), {"ours": 20, "peers": 3}),
            ("wide", wide(20), {"ours": 5, "peers": 2}),
            ("apps", apps(20), {"ours": 6, "peers": 3}),
        ]
        if quick
        else [
            ("ledger", ledger(50), {"ours": 1_000, "peers": 20}),
            ("wide", wide(5_000), {"ours": 40, "peers": 1}),
            ("apps", apps(3_000), {"ours": 30, "peers": 1}),
        ]
    )
    measures = []
    for world, first, steps in plan:
        found = measure(world, first, steps, rounds=1 if quick else 3)
        measures += found
        us = next(each.microseconds for each in found if each.tool == "envbench")
        one_loop = next(each.microseconds for each in found if each.tool == "loop")
        print(f"\n{found[0].world}: one cell changes a step")
        for each in found:
            print(
                f"  {each.tool:28} {each.microseconds:12,.1f} µs a step"
                f" {each.microseconds / us:10.2f} × ours {each.microseconds / one_loop:10.2f} loops"
            )
    seconds, found_rows = restored_in_sql(10_000 if quick else 1_000_000)
    print(
        f"\nevery restored change in SQL (made-up rows): {found_rows:,} in {seconds * 1e3:.0f} ms"
    )
    return measures


if __name__ == "__main__":
    main()
