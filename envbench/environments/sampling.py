"""Random values of a JSON schema, as a random policy sends them."""

from __future__ import annotations

import string
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from envbench.evidence.portable import Json

_DEPTH = 6
"""How deep optional parts are filled in; a model that contains itself would not end."""


def sample_json(schema: Json, random: np.random.Generator) -> Json:
    """Draw a value that fits a JSON schema as pydantic writes them.

    Types, enums, constants, bounds, lengths, unions, references and a few formats are followed;
    patterns and what only a validator knows are not, so a caller checks what it gets.

    Args:
        schema: the schema; None or a boolean stands for any value.
        random: what is drawn from.
    """
    root = schema if isinstance(schema, dict) else {}
    return _Sampler(root, random).draw(root, 0)


class _Sampler:
    def __init__(self, root: dict[str, Json], random: np.random.Generator) -> None:
        self.root = root
        self.random = random

    def draw(self, schema: Json, depth: int) -> Json:
        if not isinstance(schema, dict):
            schema = {}
        if "$ref" in schema:
            return self.draw(self._referred(schema["$ref"]), depth + 1)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self._one_of(schema["enum"])
        for union in ("anyOf", "oneOf"):
            if union in schema:
                return self.draw(self._branch(schema[union], depth), depth + 1)
        for part in schema.get("allOf", ())[:1]:
            return self.draw(part, depth + 1)
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = self._one_of(kind)
        draw = getattr(self, f"_{kind}", None)
        return self._any() if draw is None else draw(schema, depth)

    def _referred(self, reference: str) -> Json:
        found: Json = self.root
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]
        return found

    def _branch(self, branches: list[Json], depth: int) -> Json:
        plain = [branch for branch in branches if branch.get("type") not in ("object", "array")]
        ending = [branch for branch in plain if "$ref" not in branch]
        return self._one_of(ending if depth > _DEPTH and ending else branches)

    def _one_of(self, values: list[Json]) -> Json:
        return values[int(self.random.integers(len(values)))]

    def _any(self) -> Json:
        return self._one_of([None, True, False, 0, 1, 0.5, "", "text"])

    def _null(self, schema: Json, depth: int) -> None:
        return None

    def _boolean(self, schema: Json, depth: int) -> bool:
        return bool(self.random.integers(2))

    def _integer(self, schema: Json, depth: int) -> int:
        step = int(schema.get("multipleOf", 1))
        low, high = self._bounds(schema, 1, 100)
        low, high = int(np.ceil(low / step)), int(np.floor(high / step))
        return step * (low + int(self.random.integers(max(1, high - low + 1))))

    def _number(self, schema: Json, depth: int) -> float:
        low, high = self._bounds(schema, 0.001, 100.0)
        number = low + (high - low) * float(self.random.random())
        step = schema.get("multipleOf")
        return number if not step else float(step * np.floor(number / step))

    def _bounds(self, schema: Json, least: float, width: float) -> tuple[Any, Any]:
        """Both ends, the missing one `width` away; `least` keeps off an exclusive end."""
        low, high = schema.get("minimum"), schema.get("maximum")
        if "exclusiveMinimum" in schema:
            low = schema["exclusiveMinimum"] + least
        if "exclusiveMaximum" in schema:
            high = schema["exclusiveMaximum"] - least
        if low is None and high is None:
            return -width, width
        if low is None:
            return high - width, high
        return low, low + width if high is None else high

    def _string(self, schema: Json, depth: int) -> str:
        draw = _FORMATS.get(schema.get("format", ""))
        if draw is not None:
            return draw(self.random)
        low = int(schema.get("minLength", 0))
        high = int(schema.get("maxLength", low + 12))
        length = low + int(self.random.integers(max(1, high - low + 1)))
        letters = string.ascii_letters + string.digits + " -_"
        return "".join(letters[int(i)] for i in self.random.integers(len(letters), size=length))

    def _array(self, schema: Json, depth: int) -> list[Json]:
        fixed = schema.get("prefixItems", [])
        low = int(schema.get("minItems", len(fixed)))
        high = int(schema.get("maxItems", max(low, len(fixed)) + (0 if depth > _DEPTH else 3)))
        count = low + int(self.random.integers(max(1, high - low + 1)))
        parts = [fixed[i] if i < len(fixed) else schema.get("items") for i in range(count)]
        return [self.draw(part, depth + 1) for part in parts]

    def _object(self, schema: Json, depth: int) -> dict[str, Json]:
        required = schema.get("required", ())
        value = {
            name: self.draw(part, depth + 1)
            for name, part in schema.get("properties", {}).items()
            if name in required or (depth <= _DEPTH and self.random.integers(2))
        }
        more = schema.get("additionalProperties")
        if isinstance(more, dict) and depth <= _DEPTH:
            for i in range(int(self.random.integers(3))):
                value[f"key{i}"] = self.draw(more, depth + 1)
        return value


def _moment(random: np.random.Generator) -> datetime:
    return datetime(2000, 1, 1, tzinfo=UTC) + timedelta(seconds=int(random.integers(10**9)))


_FORMATS = {
    "date-time": lambda random: _moment(random).isoformat(),
    "date": lambda random: _moment(random).date().isoformat(),
    "time": lambda random: _moment(random).time().isoformat(),
    "duration": lambda random: f"PT{int(random.integers(10**5))}S",
    "uuid": lambda random: str(uuid.UUID(bytes=random.bytes(16), version=4)),
    "email": lambda random: f"user{int(random.integers(1000))}@example.org",
    "uri": lambda random: f"https://example.org/{int(random.integers(1000))}",
}
