"""Random episodes for the property tests: few values, so that much comes back."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

from hypothesis import strategies as st

SCALARS = st.sampled_from(
    [None, True, False, 0, 1, -1, 0.0, -0.0, 1.0, 2**64, 1e16, "", "a", '},{"id":1', "~/=", "é"]
)
TAGGED = st.sampled_from(
    [{"$envbench": "float", "value": "nan"}, {"$envbench": "bytes", "value": "AA=="}]
)
LEAVES = SCALARS | TAGGED
NAMES = st.sampled_from(["id", "n", "note_id", "~", "/", "", "a=b", "*"])

ITEMS = st.lists(
    st.fixed_dictionaries({"sku": st.sampled_from(["x", "y"])}, optional={"n": SCALARS}), max_size=3
)
KEYED = st.lists(
    st.fixed_dictionaries(
        {"id": st.integers(1, 4)}, optional={"a": LEAVES, "items": ITEMS, "},{": SCALARS}
    ),
    max_size=4,
    unique_by=lambda row: row["id"],
)
MAYBE_KEYED = st.lists(
    st.fixed_dictionaries(
        {}, optional={"id": st.sampled_from([1, 2, 3, 1.0, True, None, "1"]), "a": SCALARS}
    ),
    max_size=4,
)
UNKEYED = st.lists(
    st.fixed_dictionaries({"a": st.sampled_from([1, 2])}, optional={"items": ITEMS}), max_size=4
)
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
MEMBERS: dict[str, st.SearchStrategy[Any]] = {
    "keyed_rows": KEYED,
    "maybe": MAYBE_KEYED,
    "loose": UNKEYED,
    "list": st.lists(LEAVES, max_size=3),
    "any~/": ANYTHING,
    "world": st.fixed_dictionaries(
        {}, optional={"keyed": KEYED, "loose": UNKEYED, "x": ANYTHING, "y": SCALARS}
    ),
}


@st.composite
def episodes(draw: st.DrawFn) -> list[tuple[int, dict[str, Any]]]:
    """States with their steps: of each member a few values, which come and go and are reordered."""
    pools = {
        name: draw(st.lists(values, min_size=1, max_size=3)) for name, values in MEMBERS.items()
    }
    count = draw(st.integers(1, 7))
    steps = sorted(draw(st.sets(st.integers(0, 9), min_size=count, max_size=count)))
    state: dict[str, Any] = {}
    found = []
    for step in steps:
        for name in draw(st.sets(st.sampled_from(sorted(pools)), max_size=3)) if found else pools:
            value = draw(st.sampled_from([*pools[name], None]))
            state = {key: item for key, item in state.items() if key != name}
            if value is not None:
                state[name] = reordered(draw, value)
        found.append((step, state))
    return found


def reordered(draw: st.DrawFn, value: Any) -> Any:
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        return draw(st.permutations(value))
    return value


def dense_episode(random: Random) -> list[tuple[int, dict[str, Any]]]:
    """States of one or two members of very few values, of which almost every kind comes back."""
    makers = random.sample([_keyed, _maybe_keyed, _loose, _lists, _tree], random.choice([1, 1, 2]))
    steps = sorted(random.sample(range(14), random.randint(2, 9)))
    states = []
    values = {f"t{i}_rows": make(random) for i, make in enumerate(makers)}
    for step in steps:
        for i, make in enumerate(makers):
            name = f"t{i}_rows"
            chance = random.random()
            if chance < 0.1:
                values.pop(name, None)
            elif chance < 0.5:
                values[name] = make(random)
            elif chance < 0.8 and is_rows(values.get(name)):
                values[name] = _altered(random, values[name])
        states.append((step, copy.deepcopy(values)))
    return states


def is_rows(value: Any) -> bool:
    return isinstance(value, list) and value != [] and all(isinstance(row, dict) for row in value)


def _altered(random: Random, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows in another order, and perhaps one cell changed and a table in it reordered."""
    rows = copy.deepcopy(random.sample(rows, len(rows)))
    row = random.choice(rows)
    if random.random() < 0.5:
        row["a"] = random.choice([1, 2, 1.0])
    if is_rows(row.get("items")):
        row["items"].reverse()
    if random.random() < 0.04:
        rows.append(copy.deepcopy(random.choice(rows)))
    return rows


def _items(random: Random) -> list[dict[str, Any]]:
    chance = random.random()
    skus = random.sample("xy", random.randint(0, 2))
    items = [{"id": sku, "n": random.choice([1, 2])} for sku in skus]
    if chance < 0.04 and items:
        items.append(dict(items[0], n=random.choice([1, 2])))
    return items


def _row(random: Random, **key: Any) -> dict[str, Any]:
    row = {**key, "a": random.choice([1, 2])}
    if random.random() < 0.4:
        row["items"] = _items(random)
    if random.random() < 0.1:
        row["text"] = '"},{"'
    return row


def _keyed(random: Random) -> Any:
    if random.random() < 0.05:
        return random.choice([None, {"id": 1}, [], "text"])
    ids = random.sample([1, 2, 3], random.randint(0, 3))
    return [_row(random, id=i) for i in ids]


def _maybe_keyed(random: Random) -> Any:
    ids = [1, 2, 3] if random.random() < 0.97 else [1, 1, None]
    return [_row(random, id=i) for i in random.sample(ids, random.randint(1, 3))]


def _loose(random: Random) -> Any:
    return [_row(random) for _ in range(random.randint(0, 4))]


def _lists(random: Random) -> Any:
    pool: list[Any] = [1, True, 1.0, "a", None, [1], [{"id": 1, "a": 1}], [{"id": 1, "a": 2}]]
    pool += [{"a": [{}, {}, {}]}, {"x": 1}, {}]
    return random.choices(pool, k=random.randint(0, 3))


def _tree(random: Random) -> Any:
    return {
        "keyed": _keyed(random),
        "loose": _loose(random),
        "inner": {"list": _lists(random), "x": random.choice([0, False, None, "", -0.0, 0.0])},
    }
