"""Packed episodes without what is redacted: in values, names, keys of rows, paths and changes.

A view of what is left still steps: changes lead from state to state as before, because what stands
for a key or a name stands for it everywhere in the episode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from envbench.changes.diff import normal
from envbench.changes.paths import ANY, ANY_NUMBER, row_digest, split_pattern
from envbench.evidence.portable import Json, canonical, parse, pointer_segment
from envbench.evidence.tagged import TAG, decode
from envbench.workbench.redaction import Redactor
from envbench.workbench.spellings import REDACTED, Secret, folded

Content = dict[str, Any]
"""A packed episode as `payload.unpack` gives it."""

SHORTEST_TEXT = 4
"""Characters of a text at a redacted path from which on it is looked for everywhere."""

SHORTEST_NUMBER = 5
"""Digits of a number at a redacted path from which on it is looked for everywhere."""


def values_at(content: Content, paths: Iterable[str]) -> list[Secret]:
    """The values at redacted paths of an episode that are long enough to be looked for."""
    walk = _Walk(content, [split_pattern(path) for path in paths], {})
    walk.all()
    found: dict[str, None] = {}
    for value in walk.covered:
        for text in _texts_in(value):
            found[text] = None
    return [Secret(text, was_found=True) for text in found]


def redact_payload(content: Content, redactor: Redactor) -> Content:
    """An episode without what is redacted; `content` is altered.

    It says so: ``head.redacted`` counts the places.
    """
    before = sum(redactor.counts.values())
    paths = redactor.redactions.paths
    if paths:
        walk = _Walk(content, [split_pattern(path) for path in paths], redactor.aliases)
        walk.all()
        for path, number in zip(paths, walk.numbers, strict=True):
            if number:
                redactor.count(f"path {path}", "episode", number)
    if redactor.finder:
        _Values(content, redactor).all()
    _name_rows_again(content)
    number = sum(redactor.counts.values()) - before
    if number:
        earlier = content["head"].get("redacted") or {}
        content["head"]["redacted"] = {
            "paths": max(len(paths), int(earlier.get("paths", 0))),
            "values": number + int(earlier.get("values", 0)),
        }
    return content


def shown_of(content: Content) -> Json:
    """What an episode shows: all of it but the numbers that only hold it together."""
    head = {name: value for name, value in content["head"].items() if name not in _FRAME_OF_HEAD}
    head["checks"] = [
        {name: value for name, value in check.items() if name != "steps"}
        for check in content["head"]["checks"]
    ]
    head["findings"] = [
        {n: value for n, value in finding.items() if n not in ("step_index", "restored_at")}
        for finding in content["head"]["findings"]
    ]
    chunks = []
    for chunk in content["chunks"]:
        shown = {name: value for name, value in chunk.items() if name not in _FRAME_OF_CHUNK}
        shown["changes"] = [row[2:6] for row in chunk["changes"]]
        shown["events"] = [
            {name: value for name, value in event.items() if name != "step"}
            for event in chunk.get("events", ())
        ]
        chunks.append(shown)
    frames = content["frames"] if content["head"]["frame_kind"] != "rgb_array" else {}
    return [head, chunks, list(frames.values())]


_FRAME_OF_HEAD = frozenset(
    "chunks format frames limit marks n_chunks n_findings n_frames n_moments per_chunk timeline "  # noqa: SIM905
    "frame_kind redacted".split()
)
_FRAME_OF_CHUNK = frozenset("first n unseen frame changes events".split())  # noqa: SIM905

# What stands in `changes`: step, since, path, op, before, after, restored_at, …
_PATH, _OP, _BEFORE, _AFTER = 2, 3, 4, 5

# ---------------------------------------------------------------------------------------------
# Paths

_NOTHING: Any = object()
"""Stands where a change has no value."""

Reached = tuple[frozenset[int], ...]
"""How far each pattern has been met: positions in it."""


@dataclass
class _Walk:
    """Goes through an episode and redacts what paths cover.

    Attributes:
        content: the episode, which is changed.
        patterns: the paths, as segments.
        aliases: what stands for the keys of rows.
        covered: the values that stood there.
        numbers: how often each pattern covered something.
    """

    content: Content
    patterns: Sequence[tuple[str, ...]]
    aliases: dict[bytes, str]
    covered: list[Json] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    _places: set[str] = field(default_factory=set)
    _in_counted: bool = False

    def __post_init__(self) -> None:
        self.numbers = [0] * len(self.patterns)
        self._keys: dict[str, str | None] = self.content["head"]["keys"]
        self._start = tuple(_skip(pattern, {0}) for pattern in self.patterns)

    def all(self) -> None:
        head = self.content["head"]
        for chunk in self.content["chunks"]:
            if chunk.get("state") is not None:
                chunk["state"] = self._state(chunk["state"])
            chunk["changes"] = list(self._changes(chunk["changes"]))
            for name in ("info",):
                if name in chunk:
                    chunk[name] = [self._value(v, self._start, None) for v in chunk[name]]
            for name in ("observation", "action"):
                if name in chunk:
                    space = head["spaces"].get(name)
                    chunk[name] = [self._sample(v, space, self._start) for v in chunk[name]]
            for event in chunk.get("events", ()):
                self._event(event)
        head["findings"] = [self._finding(finding) for finding in head["findings"]]
        for check in head["checks"]:
            self._check(check)

    def _state(self, state: Json) -> Json:
        """A whole state; where all of it goes, its members do, so that changes have a place."""
        if self._covers(self._start) and type(state) is dict and TAG not in state:
            return {name: self._cover(item, self._start) for name, item in state.items()}
        return self._value(state, self._start, "")

    def _value(self, value: Json, reached: Reached, pattern: str | None) -> Json:
        """A value below a place; `pattern` is that of the state, None for what is no state."""
        if value is None and not any(reached):
            return None
        if self._covers(reached):
            return self._cover(value, reached)
        if not any(reached):
            return value
        if type(value) is list:
            return self._list(value, reached, pattern)
        if type(value) is not dict:
            return value
        if TAG in value:
            return self._tagged(value, reached, pattern)
        return self._members(value, reached, pattern, None)

    def _members(
        self, value: dict[str, Json], reached: Reached, pattern: str | None, key: str | None
    ) -> dict[str, Json]:
        """The members of an object; `key` names the one that tells a row from others."""
        found = {}
        for name, item in value.items():
            below = self._below(reached, [pointer_segment(name)])
            if name == key and self._covers(below):
                found[name] = self._alias(item, below)
            else:
                deeper = None if pattern is None else f"{pattern}/{pointer_segment(name)}"
                found[name] = self._value(item, below, deeper)
        return found

    def _list(self, value: list[Json], reached: Reached, pattern: str | None) -> list[Json]:
        key = None if pattern is None else self._keys.get(pattern)
        before = self._in_counted
        self._in_counted = before or (pattern in self._keys and key is None)
        found = []
        for i, item in enumerate(value):
            below = self._below(reached, [str(i)], row=item)
            deeper = None if pattern is None else f"{pattern}/*"
            if type(item) is dict and TAG not in item and not self._covers(below):
                found.append(self._members(item, below, deeper, key))
            else:
                found.append(self._value(item, below, deeper))
        self._in_counted = before
        return found

    def _tagged(self, value: dict[str, Json], reached: Reached, pattern: str | None) -> Json:
        """A tagged value: what it holds is met as what it stands for."""
        items = value.get("items")
        if value[TAG] == "sample":
            return {**value, "value": self._value(value["value"], reached, pattern)}
        if value[TAG] in ("dict", "ordereddict") and type(items) is list:
            pairs = [
                [name, self._value(item, self._below(reached, [_name(name)]), None)]
                for name, item in items
            ]
            return {**value, "items": pairs}
        if type(items) is list:
            return {**value, "items": self._list(items, reached, pattern)}
        if value[TAG] == "named" and type(value.get("value")) is dict:
            return {**value, "value": self._value(value["value"], reached, pattern)}
        return value

    def _sample(self, value: Json, space: Json, reached: Reached) -> Json:
        """A sample in the batch of one that its space writes."""
        if value is None:
            return None
        if type(value) is dict and value.get(TAG) == "sample":
            return {**value, "value": self._value(value["value"], reached, None)}
        kind = space.get("type") if type(space) is dict else None
        if self._covers(reached):
            return self._cover(value, reached)
        if kind == "Dict" and type(value) is dict and TAG not in value:
            inner = dict(space["spaces"])
            return {
                name: self._sample(
                    item, inner.get(name), self._below(reached, [pointer_segment(name)])
                )
                for name, item in value.items()
            }
        if kind == "Tuple" and type(value) is list:
            spaces = [*space["spaces"], *[None] * len(value)]
            return [
                self._sample(item, spaces[i], self._below(reached, [str(i)]))
                for i, item in enumerate(value)
            ]
        if type(value) is list and len(value) == 1 and kind is not None:
            return [self._value(value[0], reached, None)]
        return self._value(value, reached, None)

    def _changes(self, rows: Iterable[list[Json]]) -> Iterator[list[Json]]:
        seen: set[tuple[int, str]] = set()
        for row in rows:
            op = row[_OP]
            # of a row that came there is no value before, and of one that went none after
            values = [
                _NOTHING if op == "add" else row[_BEFORE],
                _NOTHING if op == "remove" else row[_AFTER],
            ]
            path, values, inside = self._change(row[_PATH], values)
            if inside:
                # of what is redacted whole, only that it changed
                if (row[0], path) in seen:
                    continue
                seen.add((row[0], path))
                op, values = "edit", [REDACTED, REDACTED]
            shown = [None if value is _NOTHING else value for value in values]
            yield [*row[:_PATH], path, op, *shown, *row[_AFTER + 1 :]]

    def _change(self, path: str, values: Sequence[Json]) -> tuple[str, list[Json], bool]:
        """A changed path and its values; and whether the path is below one that is covered."""
        segments = path.split("/")[1:]
        reached, pattern, spelled = self._start, "", ""
        key, is_row = None, False
        for i, segment in enumerate(segments):
            key = self._keys.get(pattern)
            has_key = key is not None and segment.startswith(f"{pointer_segment(key)}=")
            is_row = has_key or (pattern in self._keys and segment.startswith("#"))
            reached = self._below(reached, [segment])
            pattern += "/*" if is_row else f"/{segment}"
            if key is not None and has_key:
                own = self._below(reached, [pointer_segment(key)])
                if self._covers(own) and not self._covers(reached):
                    value = parse(_unescaped(segment).partition("=")[2])
                    alias = canonical(self._alias(value, own)).decode()
                    segment = pointer_segment(f"{key}={alias}")
            spelled += f"/{segment}"
            if self._covers(reached):
                self._places.add(path)
                shown = [
                    value if value is _NOTHING else self._cover(value, reached) for value in values
                ]
                return spelled, shown, i < len(segments) - 1
        if not any(reached):
            return spelled, list(values), False
        found = [self._changed(value, reached, pattern, key if is_row else "") for value in values]
        if found != list(values):
            self._places.add(path)
        return spelled, found, False

    def _changed(self, value: Json, reached: Reached, pattern: str, key: str | None) -> Json:
        """A value of a change; `key` is that of the table when the change is of a whole row."""
        if type(value) is not dict or TAG in value or key == "":
            return value if value is _NOTHING else self._value(value, reached, pattern)
        if key is None:  # a row without a key stands with its count
            before, self._in_counted = self._in_counted, True
            row = self._value(value["row"], reached, pattern)
            self._in_counted = before
            return {**value, "row": row}
        return self._members(value, reached, pattern, key)

    def _event(self, event: dict[str, Json]) -> None:
        table = self._below(self._start, [pointer_segment(str(event["table"]))])
        key = self._keys.get(f"/{pointer_segment(str(event['table']))}")
        for name in ("key", "before", "after"):
            row = event.get(name)
            reached = self._below(table, [], row=row if type(row) is dict else event.get("key"))
            if self._covers(reached):
                event[name] = None if row is None else self._cover(row, reached)
            elif type(row) is dict and TAG not in row:
                event[name] = self._members(row, reached, None, key)
            else:
                event[name] = self._value(row, reached, None)

    def _finding(self, finding: dict[str, Json]) -> dict[str, Json]:
        names = [name for name in ("before", "after") if name in finding]
        during = finding.get("during")
        listed = during if type(during) is list else []
        values = [_NOTHING if _is_absent(finding[name]) else finding[name] for name in names]
        path, changed, inside = self._change(finding["path"], [*values, *listed])
        touched = path != finding["path"] or changed != [*values, *listed]
        found = {**finding, "path": path}
        for name, value in zip(names, changed, strict=False):
            if value is not _NOTHING:
                found[name] = REDACTED if inside else value
        if during is not None:
            rest = changed[len(names) :]
            found["during"] = rest if type(during) is list else REDACTED if touched else during
        if any(
            type(finding.get(name)) is dict and finding[name].get(TAG) == "cut" for name in names
        ):
            # of a value that was cut it is not known what it holds
            found |= dict.fromkeys(names, REDACTED)
        if "action" in finding:
            found["action"] = self._sample(
                finding["action"], self.content["head"]["spaces"].get("action"), self._start
            )
        return found

    def _check(self, check: dict[str, Json]) -> None:
        evidence = check.get("evidence")
        if type(evidence) is dict and evidence.get(TAG) == "cut":
            check["evidence"] = {TAG: "cut", "length": evidence["length"], "text": REDACTED}
        elif type(evidence) is dict:
            findings = evidence.get("findings")
            if type(findings) is list:
                evidence["findings"] = [
                    self._finding(each) if type(each) is dict and "path" in each else each
                    for each in findings
                ]
        for name in ("reason", "error"):
            text = check.get(name)
            if type(text) is str and any(place in text for place in self._places):
                check[name] = REDACTED

    def _alias(self, value: Json, reached: Reached) -> str:
        """What stands for the key of a row: the same for the same value, another for another."""
        self._cover(value, reached)
        return self._other(value)

    def _other(self, value: Json) -> str:
        number = len(self.aliases) + 1
        return self.aliases.setdefault(canonical(value), f"[redacted {number}]")

    def _cover(self, value: Json, reached: Reached) -> str:
        if value is not None:
            self.covered.append(value)
        for i, positions in enumerate(reached):
            if len(self.patterns[i]) in positions:
                self.numbers[i] += 1
        if self._in_counted:  # equal rows are counted, so different ones must stay different
            return self._other(value)
        return REDACTED

    def _covers(self, reached: Reached) -> bool:
        return any(
            len(pattern) in positions
            for pattern, positions in zip(self.patterns, reached, strict=True)
        )

    def _below(self, reached: Reached, spellings: Sequence[str], row: Json = None) -> Reached:
        """How far the patterns are met one level further down.

        Args:
            reached: how far they are met here.
            spellings: how the segment is spelled; nothing for a row that only its content names.
            row: the row that is entered.
        """
        return tuple(
            _advance(pattern, positions, spellings, row)
            for pattern, positions in zip(self.patterns, reached, strict=True)
        )


def _advance(
    pattern: tuple[str, ...], positions: frozenset[int], spellings: Sequence[str], row: Json
) -> frozenset[int]:
    following = set()
    for position in positions:
        if position == len(pattern):
            continue
        segment = pattern[position]
        if segment == ANY_NUMBER:
            following.add(position)
        elif segment == ANY or segment in spellings or _is_row(segment, row):
            following.add(position + 1)
    return _skip(pattern, following)


def _is_row(segment: str, row: Json) -> bool:
    """Whether a segment of a pattern, as ``id=5``, names a row."""
    if type(row) is not dict:
        return False
    if segment.startswith("#"):
        return segment == f"#{row_digest(normal(row)).digest}"
    name, sign, value = _unescaped(segment).partition("=")
    return bool(sign) and name in row and canonical(row[name]).decode() == value


def _skip(pattern: tuple[str, ...], positions: set[int]) -> frozenset[int]:
    """Positions from which ``**`` may stand for nothing."""
    reached = set(positions)
    for position in positions:
        while position < len(pattern) and pattern[position] == ANY_NUMBER:
            position += 1
            reached.add(position)
    return frozenset(reached)


def _unescaped(segment: str) -> str:
    return segment.replace("~1", "/").replace("~0", "~")


def _name(value: Json) -> str:
    return pointer_segment(value if type(value) is str else canonical(value).decode())


def _is_absent(value: Json) -> bool:
    return type(value) is dict and value.get(TAG) == "absent"


def _texts_in(value: Json) -> Iterator[str]:
    """The texts and numbers in a redacted value that are long enough to be looked for."""
    if type(value) is str:
        if len(folded(value)) >= SHORTEST_TEXT:
            yield value
    elif type(value) in (int, float):
        text = canonical(value).decode()
        if sum(map(str.isdigit, text)) >= SHORTEST_NUMBER:
            yield text
    elif type(value) is list:
        for item in value:
            yield from _texts_in(item)
    elif type(value) is dict:
        if value.get(TAG) in ("cut", "absent", "missing"):
            return
        if TAG in value and not any(type(item) in (list, dict) for item in value.values()):
            shown = _decoded(value)
            if shown is not None and len(folded(shown)) >= SHORTEST_NUMBER:
                yield shown
            return
        for name, item in value.items():
            if name != TAG:
                yield from _texts_in(item)


def _decoded(value: Json) -> str | None:
    """A tagged value as text, None when it is none that has one."""
    try:
        plain = decode(value)
    except (ValueError, KeyError, TypeError, LookupError):
        return None
    if isinstance(plain, (bytes, bytearray)):
        return plain.decode("utf-8", "replace")
    return " ".join(map(str, plain.ravel().tolist())) if hasattr(plain, "ravel") else str(plain)


# ---------------------------------------------------------------------------------------------
# Values


@dataclass
class _Values:
    """Goes through an episode and takes values out, wherever they stand."""

    content: Content
    redactor: Redactor
    _clean: dict[str, tuple[str, list[Secret]]] = field(default_factory=dict)

    def all(self) -> None:
        content, head = self.content, self.content["head"]
        self._learn(shown_of(content))
        if not any(secrets for _, secrets in self._clean.values()):
            return
        self._keys: dict[str, str | None] = head["keys"]
        self._key_names = {key for key in self._keys.values() if key is not None}
        for chunk in content["chunks"]:
            for name, part in list(chunk.items()):
                if name == "changes":
                    chunk[name] = [self._change(row) for row in part]
                elif name == "events":
                    chunk[name] = [{**self._value(event), "step": event["step"]} for event in part]
                elif name in ("reward", "step_us"):
                    chunk[name] = [self._number(value) for value in part]
                elif name not in _FRAME_OF_CHUNK:
                    chunk[name] = self._value(part)
        for check in head["checks"]:
            check |= {name: self._value(check[name]) for name in check if name != "steps"}
        for finding in head["findings"]:
            kept = {name: finding[name] for name in ("step_index", "restored_at")}
            finding |= {name: self._value(finding[name]) for name in finding} | kept
        for finding in [*head["findings"], *_findings_in(head["checks"])]:
            if type(finding.get("path")) is str:
                finding["path"] = self._path(finding["path"])
        head["episode"] = self._value(head["episode"])
        head["spaces"] = self._value(head["spaces"])
        head["keys"] = {
            self._path(pattern): key if key is None else self._name(key)
            for pattern, key in self._keys.items()
        }
        scale = (head["timeline"].get("reward") or {}).get("scale")
        if scale is not None and self._number(scale) is None:
            del head["timeline"]["reward"]
        if head["frame_kind"] != "rgb_array":
            for digest, text in content["frames"].items():
                content["frames"][digest] = self.redactor.text(text, "frame")

    def _learn(self, shown: Json) -> None:
        """Look at every text and number of the episode at once."""
        found: dict[str, None] = {}

        def look(value: Json) -> None:
            if type(value) is str:
                found[value] = None
            elif type(value) in (int, float):
                found[canonical(value).decode()] = None
            elif type(value) is list:
                for item in value:
                    look(item)
            elif type(value) is dict:
                if _is_leaf(value):
                    found[_leaf_text(value)] = None
                for name, item in value.items():
                    found[name] = None
                    look(item)

        look(shown)
        for path in [row[_PATH] for chunk in self.content["chunks"] for row in chunk["changes"]]:
            for segment in path.split("/")[1:]:
                found[_unescaped(segment)] = None
                found[_unescaped(segment).partition("=")[2]] = None
        texts = list(found)
        self._clean = dict(zip(texts, self.redactor.texts(texts), strict=True))

    def _text(self, text: str) -> str:
        clean, secrets = self._clean.get(text) or self._look(text)
        self.redactor.count_secrets(secrets, "episode")
        return clean

    def _look(self, text: str) -> tuple[str, list[Secret]]:
        self._clean[text] = self.redactor.texts([text])[0]
        return self._clean[text]

    def _number(self, value: Json) -> Json:
        """A number that is drawn: null where it is redacted."""
        if type(value) not in (int, float):
            return self._value(value)
        text = canonical(value).decode()
        return value if self._text(text) == text else None

    def _value(self, value: Json) -> Json:
        kind = type(value)
        if kind is str:
            return self._text(value)
        if kind is int or kind is float:
            text = canonical(value).decode()
            return value if (clean := self._text(text)) == text else clean
        if kind is list:
            return [self._value(item) for item in value]
        if kind is not dict:
            return value
        if _is_leaf(value):
            text = _leaf_text(value)
            if self._text(text) != text:
                return REDACTED
            if value[TAG] == "cut":
                return self._cut(value)
            return value
        return {
            name if name == TAG else self._name(name): (
                item
                if name == TAG
                else self._key(item)
                if name in self._key_names
                else self._value(item)
            )
            for name, item in value.items()
        }

    def _cut(self, value: dict[str, Json]) -> Json:
        """A text that was cut: it may end in the beginning of a value, and its digest tells."""
        text = value["text"]
        for secret in self.redactor.finder.secrets:
            whole = secret.folded
            tail = folded(text[-2 * len(secret.text) :])
            for length in range(min(len(whole), len(tail)), 3, -1):
                if tail.endswith(whole[:length]):
                    self.redactor.count_secrets([secret], "episode")
                    text = text[: -2 * len(secret.text)] + REDACTED
                    break
        return {**value, "sha256": "", "text": text}

    def _name(self, name: str) -> str:
        """What stands for the name of a member: for another name, another."""
        return self._renamed(name, self._text(name), self.redactor.names, name)

    def _key(self, value: Json) -> Json:
        """What stands for the key of a row: for another key, another."""
        clean = self._value(value)
        if clean == value or type(clean) is not str:
            return clean
        return self._renamed(value, clean, self.redactor.keys, canonical(value))

    def _renamed(self, old: Json, new: str, names: dict[Any, str], identity: Any) -> str:
        if new == old:
            return new
        if identity not in names:
            taken, number = set(names.values()), 1
            while (fresh := new if number == 1 else f"{new} {number}") in taken:
                number += 1
            names[identity] = fresh
        return names[identity]

    def _change(self, row: list[Json]) -> list[Json]:
        values = [self._value(row[_BEFORE]), self._value(row[_AFTER])]
        return [*row[:_PATH], self._path(row[_PATH]), row[_OP], *values, *row[_AFTER + 1 :]]

    def _path(self, path: str) -> str:
        pattern, spelled = "", ""
        for segment in path.split("/")[1:]:
            key = self._keys.get(pattern)
            plain = _unescaped(segment)
            if key is not None and plain.startswith(f"{key}="):
                value = canonical(self._key(parse(plain.partition("=")[2]))).decode()
                plain = f"{self._name(key)}={value}"
                pattern += "/*"
            else:
                pattern += "/*" if pattern in self._keys and plain[:1] == "#" else f"/{segment}"
                plain = self._name(plain)
            spelled += f"/{pointer_segment(plain)}"
        return spelled


def _findings_in(checks: Iterable[dict[str, Json]]) -> Iterator[dict[str, Json]]:
    for check in checks:
        evidence = check.get("evidence")
        findings = evidence.get("findings") if type(evidence) is dict else None
        for each in findings if type(findings) is list else ():
            if type(each) is dict:
                yield each


def _is_leaf(value: Mapping[str, Json]) -> bool:
    """Whether an object is a tagged value that stands for one thing."""
    if TAG not in value:
        return False
    if value[TAG] == "array":
        return True
    return not any(type(item) in (list, dict) for item in value.values())


def _leaf_text(value: Mapping[str, Json]) -> str:
    """All that a tagged value says, in one text."""
    if value[TAG] == "cut":
        return str(value["text"])
    plain = [item if type(item) is str else canonical(item).decode() for item in value.values()]
    return "\n".join([*plain, _decoded(dict(value)) or ""])


# ---------------------------------------------------------------------------------------------
# Rows that a digest names


def _name_rows_again(content: Content) -> None:
    """Name rows without a key after what is shown of them: the old name tells what they held."""
    renamed: dict[str, str] = {}
    for chunk in content["chunks"]:
        for row in chunk["changes"]:
            for value in (row[_BEFORE], row[_AFTER]):
                last = row[_PATH].rsplit("/", 1)[-1]
                if last[:1] == "#" and type(value) is dict and "row" in value:
                    renamed[last] = f"#{row_digest(normal(value['row'])).digest}"

    def path(old: str) -> str:
        return "/".join(renamed.get(segment, segment) for segment in old.split("/"))

    _on_paths(content, path)


def _on_paths(content: Content, change: Callable[[str], str]) -> None:
    for chunk in content["chunks"]:
        for row in chunk["changes"]:
            row[_PATH] = change(row[_PATH])
    for finding in [*content["head"]["findings"], *_findings_in(content["head"]["checks"])]:
        if type(finding.get("path")) is str:
            finding["path"] = change(finding["path"])
