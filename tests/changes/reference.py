"""Changes and violations, plainly and slowly: written from the definitions alone.

Every state is laid out as a flat map from path to node. A path is a tuple of `("member", name)`,
`("position", i)`, `("row", key, value)` and `("digest", text)`. Nothing of `envbench.changes` is
used, and nothing is fast: for each change, every later state is looked at again.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

ABSENT = object()
TAG = "$envbench"


def text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def is_object(value: Any) -> bool:
    return isinstance(value, dict) and TAG not in value


def is_table(value: Any) -> bool:
    return isinstance(value, list) and value != [] and all(is_object(item) for item in value)


def unordered(value: Any) -> Any:
    if is_object(value):
        return {name: unordered(item) for name, item in value.items()}
    if is_table(value):
        return sorted((unordered(row) for row in value), key=text)
    if isinstance(value, list):
        return [unordered(item) for item in value]
    return value


def form(value: Any) -> str:
    """Two values are equal when they have one form."""
    return "absent" if value is ABSENT else text(unordered(value))


def spell(path: tuple[Any, ...]) -> str:
    spelled = ""
    for kind, *rest in path:
        segment = {
            "member": lambda name: name,
            "position": str,
            "row": lambda key, value: f"{key}={value}",
            "digest": lambda digest: f"#{digest}",
        }[kind](*rest)
        spelled += "/" + segment.replace("~", "~0").replace("/", "~1")
    return spelled


# -- keys ------------------------------------------------------------------------------------------


def choose_keys(
    states: list[dict[str, Any]], declared: dict[str, str | None]
) -> dict[str, str | None]:
    """The key of each table's pattern: chosen in the first state with rows, good in all later."""
    chosen: dict[str, str | None] = {}
    for state in states:
        tables = defaultdict(list)
        collect_tables(state, "", tables)
        for pattern, found in tables.items():
            if pattern not in chosen:
                chosen[pattern] = first_key(pattern, found, declared)
    for state in states:
        tables = defaultdict(list)
        collect_tables(state, "", tables)
        for pattern, found in tables.items():
            key = chosen[pattern]
            if key is not None and not all(is_key(key, rows) for rows in found):
                chosen[pattern] = None
    return chosen


def collect_tables(value: Any, pattern: str, found: dict[str, list[Any]]) -> None:
    if is_object(value):
        for name, item in value.items():
            collect_tables(item, f"{pattern}/{name.replace('~', '~0').replace('/', '~1')}", found)
    elif is_table(value):
        found[pattern].append(value)
        for row in value:
            collect_tables(row, f"{pattern}/*", found)
    elif isinstance(value, list):
        for i, item in enumerate(value):
            collect_tables(item, f"{pattern}/{i}", found)


def first_key(pattern: str, tables: list[Any], declared: dict[str, str | None]) -> str | None:
    if pattern in declared:
        key = declared[pattern]
        return key if key is not None and all(is_key(key, rows) for rows in tables) else None
    name = pattern.split("/")[-1]
    for suffix in ("_rows", "_table", "_list"):
        name = name.removesuffix(suffix)
    names = {name for rows in tables for row in rows for name in row}
    others = sorted(name for name in names if name.endswith("_id"))
    for key in ["id", "key", "uuid", f"{name.removesuffix('s')}_id", *others]:
        if key in names and all(is_key(key, rows) for rows in tables):
            return key
    return None


def is_key(key: str, rows: list[Any]) -> bool:
    values = [row.get(key) for row in rows]
    if any(value is None or isinstance(value, list) or is_object(value) for value in values):
        return False
    return len({text(value) for value in values}) == len(values)


# -- changes ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Node:
    """What stands at a path; `kind` is object, table, empty, list or leaf."""

    kind: str
    value: Any


def nodes(state: Any, keys: dict[str, str | None]) -> dict[tuple[Any, ...], Node]:
    found: dict[tuple[Any, ...], Node] = {}
    lay_out(state, (), "", keys, found)
    return found


def lay_out(value: Any, path: Any, pattern: str, keys: Any, found: Any) -> None:
    if is_object(value):
        found[path] = Node("object", value)
        for name, item in value.items():
            below = f"{pattern}/{name.replace('~', '~0').replace('/', '~1')}"
            lay_out(item, (*path, ("member", name)), below, keys, found)
    elif is_table(value):
        found[path] = Node("table", value)
        key = keys[pattern]
        if key is not None:
            for row in value:
                at = (*path, ("row", key, text(row[key])))
                lay_out(row, at, f"{pattern}/*", keys, found)
        else:
            for row in value:
                same = [other for other in value if form(other) == form(row)]
                digest = hashlib.sha256(text(unordered(row)).encode()).hexdigest()[:16]
                counted = {"row": same[0], "count": len(same)}
                found[(*path, ("digest", digest))] = Node("leaf", counted)
    elif isinstance(value, list):
        found[path] = Node("list" if value else "empty", value)
        for i, item in enumerate(value):
            lay_out(item, (*path, ("position", i)), f"{pattern}/{i}", keys, found)
    else:
        found[path] = Node("leaf", value)


def value_at(found: dict[tuple[Any, ...], Node], path: tuple[Any, ...]) -> Any:
    return found[path].value if path in found else ABSENT


def compared_inside(a: Node, b: Node) -> bool:
    """Whether two nodes are of one type that has something below it."""
    kinds = {a.kind, b.kind}
    return (
        kinds in ({"object"}, {"list"})
        or kinds <= {"table", "empty"}
        or (kinds <= {"list", "empty"})
    )


def differing_paths(
    before: dict[tuple[Any, ...], Node], after: dict[tuple[Any, ...], Node]
) -> list[tuple[Any, ...]]:
    """The paths that differ and have none above them that does."""
    differ: list[tuple[Any, ...]] = []
    for path in sorted({*before, *after}, key=len):
        if any(path[:n] in differ for n in range(len(path))):
            continue
        if path in before and path in after:
            if compared_inside(before[path], after[path]):
                continue
            if form(before[path].value) == form(after[path].value):
                continue
        differ.append(path)
    return differ


@dataclass(frozen=True)
class Change:
    """A change with typed path; the fields are those of `envbench.changes.Change`."""

    step: int
    since: int
    at: tuple[Any, ...]
    before: Any
    after: Any
    restored_at: int | None
    restored_after: int | None
    to_initial: bool | None


def changes(
    states: list[tuple[int, dict[str, Any]]], declared: dict[str, str | None] | None = None
) -> list[Change]:
    """Every change of states given with their step, in order of steps, then paths."""
    keys = choose_keys([state for _, state in states], declared or {})
    seen = [(step, nodes(state, keys)) for step, state in states]
    found = []
    for i in range(1, len(seen)):
        (since, before), (step, after) = seen[i - 1], seen[i]
        for path in sorted(differing_paths(before, after), key=spell):
            old = value_at(before, path)
            back = next(
                (
                    j
                    for j in range(i + 1, len(seen))
                    if form(value_at(seen[j][1], path)) == form(old)
                ),
                None,
            )
            found.append(
                Change(
                    step=step,
                    since=since,
                    at=path,
                    before=old,
                    after=value_at(after, path),
                    restored_at=None if back is None else seen[back][0],
                    restored_after=None if back is None else seen[back - 1][0],
                    to_initial=None
                    if back is None
                    else form(value_at(seen[0][1], path)) == form(old),
                )
            )
    return found


# -- rules -----------------------------------------------------------------------------------------


def meets(pattern: str, path: str) -> bool:
    """Whether a pattern meets a path or something above it."""
    expression = ""
    for segment in pattern.split("/")[1:]:
        if segment == "**":
            expression += "(/[^/]*)*"
        else:
            expression += "/" + ("[^/]*" if segment == "*" else re.escape(segment))
    return re.fullmatch(f"{expression}(/.*)?", path, re.DOTALL) is not None


def forbids(pattern: str, change: Change, keys: dict[str, str | None]) -> bool:
    """Whether a change is at a pattern, below it, or above something that it names."""
    if meets(pattern, spell(change.at)):
        return True
    below: list[str] = []
    for value in (change.before, change.after):
        if value is not ABSENT:
            whole = bool(change.at) and change.at[-1][0] == "digest"
            inside(value["row"] if whole else value, change.at, keys, below)
    return any(meets(pattern, path) for path in below)


def inside(
    value: Any, path: tuple[Any, ...], keys: dict[str, str | None], found: list[str]
) -> None:
    """The paths of everything inside a value."""
    items: list[tuple[Any, Any]] = []
    if is_object(value):
        items = [(("member", name), item) for name, item in value.items()]
    elif is_table(value):
        kinds = {"row": "/*", "digest": "/*"}
        key = keys.get("".join(kinds.get(segment[0]) or spell((segment,)) for segment in path))
        for row in value:
            if key is not None:
                items.append((("row", key, text(row[key])), row))
            else:
                digest = hashlib.sha256(text(unordered(row)).encode()).hexdigest()[:16]
                items.append((("digest", digest), row))
    elif isinstance(value, list):
        items = [(("position", i), item) for i, item in enumerate(value)]
    for segment, item in items:
        found.append(spell((*path, segment)))
        inside(item, (*path, segment), keys, found)


def violations(
    states: list[tuple[int, dict[str, Any]]], forbidden: list[str], allowed: list[str]
) -> list[tuple[int, str]]:
    """The (step, path) of each change that a Forbid or an AllowOnly is broken by.

    Changes that only put back what an earlier one did are left out as `find_violations` does.
    """
    keys = choose_keys([state for _, state in states], {})
    found = set()
    rules = [lambda c, p=p: forbids(p, c, keys) for p in forbidden]
    if allowed:
        rules.append(lambda c: not any(meets(p, spell(c.at)) for p in allowed))
    for rule in rules:
        broken = [change for change in changes(states) if rule(change)]
        ends: set[tuple[int, tuple[Any, ...]]] = set()
        for change in broken:
            if any(step == change.step and change.at[: len(at)] == at for step, at in ends):
                continue
            found.add((change.step, spell(change.at)))
            if change.restored_at is not None:
                ends.add((change.restored_at, change.at))
    return sorted(found)
