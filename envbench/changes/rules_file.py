"""Rules from a small TOML or JSON file. Nothing in it is code.

```toml
[[rules]]
rule = "Forbid"             # Forbid, AllowOnly, AppendOnly or Only
path = "/vendors/**"        # AllowOnly takes `paths`, a list, as well
ops = ["edit", "remove"]    # only these kinds of change; may be left out
allow_missing = true        # a path that never existed is no reason to doubt; may be left out

[[rules]]
rule = "Only"
path = "/orders/*/status"
when_action = { name = "set_status" }   # or `when_actions`, a list of which one must be met
```

In JSON it is the same: ``{"rules": [{"rule": "Forbid", "path": "/vendors/**"}]}``.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from envbench.changes.rules import ActionIs, AllowOnly, AppendOnly, Forbid, Only, Rule
from envbench.evidence.portable import parse

_RULES: dict[str, type[Rule]] = {
    "Forbid": Forbid,
    "AllowOnly": AllowOnly,
    "AppendOnly": AppendOnly,
    "Only": Only,
}


def load_rules(path: str | Path) -> list[Rule]:
    """Read the rules of a file; one whose name ends in ``.json`` is JSON, any other is TOML.

    Raises:
        OSError: when the file cannot be read.
        ValueError: one line that names the file, the place in it and what is wrong there.
    """
    path = Path(path)
    content = path.read_bytes()
    try:
        if path.suffix.lower() == ".json":
            data = parse(content, unique_keys=True)
        else:
            data = tomllib.loads(content.decode())
        return read_rules(data)
    except ValueError as error:  # of parsing, of encoding, and our own
        raise ValueError(f"{path}: {' '.join(str(error).split())}") from None


def read_rules(data: Any) -> list[Rule]:
    """Rules from what a file holds.

    Raises:
        ValueError: one line that names the place and what is wrong there.
    """
    if not isinstance(data, dict) or not isinstance(data.get("rules"), list):
        raise _wrong("/: expected the rules in a list named rules, [[rules]] in TOML")
    for name in data:
        if name != "rules":
            raise _wrong(f"/{name}: is not known; the file holds rules and nothing else")
    if not data["rules"]:
        raise _wrong("/rules: is empty")
    return [_read_rule(each, f"/rules/{i}") for i, each in enumerate(data["rules"])]


def _read_rule(data: Any, place: str) -> Rule:
    if not isinstance(data, dict):
        raise _wrong(f"{place}: expected an object, found {type(data).__name__}")
    given = dict(data)
    kind = given.pop("rule", None)
    if not isinstance(kind, str) or kind not in _RULES:
        raise _wrong(f"{place}/rule: must be one of {', '.join(_RULES)}, not {kind!r}")
    paths = _paths(given, kind, place)
    arguments = _arguments(given, kind, place)
    try:
        return _RULES[kind](*paths, **arguments)
    except (TypeError, ValueError) as error:
        raise _wrong(f"{place}: {error}") from None


def _paths(given: dict[str, Any], kind: str, place: str) -> list[str]:
    names = ("path", "paths") if kind == "AllowOnly" else ("path",)
    found = [name for name in names if name in given]
    if len(found) != 1:
        raise _wrong(f"{place}: {kind} needs {' or '.join(names)}")
    value = given.pop(found[0])
    if found == ["path"]:
        value = [value]
    if not isinstance(value, list):
        raise _wrong(f"{place}/paths: expected a list of paths, found {type(value).__name__}")
    for path in value:
        if not isinstance(path, str):
            raise _wrong(f"{place}/{found[0]}: {path!r} is no path such as '/vendors/**'")
    return value


def _arguments(given: dict[str, Any], kind: str, place: str) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    if "ops" in given:
        ops = given.pop("ops")
        if not isinstance(ops, list):
            raise _wrong(f"{place}/ops: expected a list, found {type(ops).__name__}")
        arguments["ops"] = ops
    if "allow_missing" in given:
        allow_missing = given.pop("allow_missing")
        if not isinstance(allow_missing, bool):
            raise _wrong(f"{place}/allow_missing: must be true or false, not {allow_missing!r}")
        arguments["allow_missing"] = allow_missing
    if kind == "Only":
        arguments["when"] = _condition(given, place)
    for name in given:
        raise _wrong(f"{place}/{name}: {kind} takes no {name}")
    return arguments


def _condition(given: dict[str, Any], place: str) -> ActionIs:
    if ("when_action" in given) == ("when_actions" in given):
        raise _wrong(f"{place}: Only needs when_action or when_actions")
    if "when_action" in given:
        wanted = [given.pop("when_action")]
    else:
        wanted = given.pop("when_actions")
        if not isinstance(wanted, list) or not wanted:
            raise _wrong(f"{place}/when_actions: expected a list of actions, not {wanted!r}")
    try:
        return ActionIs(*wanted)
    except (TypeError, ValueError) as error:  # such as a date, which TOML has and actions do not
        raise _wrong(f"{place}: {error}") from None


def _wrong(message: str) -> ValueError:
    """Whatever is malformed in a file is a ValueError, also where it is of the wrong type."""
    return ValueError(message)
