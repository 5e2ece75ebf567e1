"""The declared fields of a dataclass, a pydantic model, a named tuple or a typed dict."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from envbench.evidence.portable import Json

Describe = Callable[[Any, str], Json]


def declared_fields(kind: type, part: str, describe: Describe) -> Json:
    """The form of the fields that a class declares; None for any other class.

    Args:
        kind: the class.
        part: the name of its part, for messages.
        describe: gives the form of a value at a place.
    """
    own = vars(kind)
    if "__dataclass_fields__" in own:
        return [
            _field(field.name, field.type, field.default, field.default_factory, part, describe)
            for field in dataclasses.fields(kind)
        ]
    if "__pydantic_fields__" in own or "model_fields" in own:
        return [
            [
                *_field(
                    name, field.annotation, field.default, field.default_factory, part, describe
                ),
                describe(list(field.metadata), part),
                [describe(field.alias, part), field.exclude],
            ]
            for name, field in kind.model_fields.items()  # type: ignore[attr-defined]
        ] + [describe(dict(getattr(kind, "model_config", {})), part)]
    if "_field_defaults" in own:
        return [list(kind._fields), describe(kind._field_defaults, part)]  # type: ignore[attr-defined]
    if "__required_keys__" in own:  # TypedDict
        return describe(dict(getattr(kind, "__annotations__", {})), part)
    return None


def _field(
    name: str, hint: Any, default: Any, factory: Any, part: str, describe: Describe
) -> list[Json]:
    place = f"{part}, its field {name}"
    default = ["none"] if _is_missing(default) else describe(default, place)
    factory = ["none"] if _is_missing(factory) else describe(factory, place)
    return [name, describe(hint, place), default, factory]


def _is_missing(value: Any) -> bool:
    return value is dataclasses.MISSING or type(value).__name__ == "PydanticUndefinedType"
