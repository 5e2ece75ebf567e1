"""Reading parsed JSON field by field, so that what does not fit is refused with its place named.

Reports, locks and policies come back from files that anyone may have edited. Types are compared
exactly: `true` is not an integer and `1` is not `true`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from envbench.evidence.portable import pointer_segment

Kinds: TypeAlias = type | tuple[type, ...]

ANY: Kinds = (dict, list, str, bool, int, float, type(None))
"""Any JSON value."""


def read_object(
    value: Any, fields: Mapping[str, Kinds], place: str, *, optional: Sequence[str] = ()
) -> dict[str, Any]:
    """Return `value` if it is an object with exactly these fields of these types.

    Args:
        value: parsed JSON.
        fields: the types each field may have, by name.
        place: JSON Pointer of the object in its file, for messages.
        optional: fields that may be left out.

    Raises:
        ValueError: naming the place and what is wrong there.
    """
    expect(value, dict, place)
    missing = [name for name in fields if name not in value and name not in optional]
    if missing:
        raise ValueError(f"{place or '/'}: has no {_words(missing)}")
    extra = [name for name in value if name not in fields]
    if extra:
        raise ValueError(
            f"{place or '/'}: has {_words(extra)}, which this version does not know "
            f"(known: {', '.join(fields)})"
        )
    for name, item in value.items():
        expect(item, fields[name], at(place, name))
    return dict(value)


def expect(value: Any, kinds: Kinds, place: str) -> None:
    """Raise a ValueError naming the place unless the value's exact type is one of `kinds`."""
    allowed = kinds if isinstance(kinds, tuple) else (kinds,)
    if type(value) not in allowed:
        wanted = " or ".join(_JSON_NAMES[kind] for kind in allowed)
        raise ValueError(f"{place or '/'}: is {_describe(value)}, not {wanted}")


def expect_texts(values: Sequence[Any], place: str) -> None:
    """Raise a ValueError naming the place of the first item that is not text."""
    for index, value in enumerate(values):
        expect(value, str, at(place, index))


def expect_schema(value: Mapping[str, Any], schema: str, place: str = "") -> None:
    """Raise a ValueError unless the object says it has this schema."""
    if value["schema"] != schema:
        raise ValueError(
            f"{at(place, 'schema')}: is {value['schema']!r}; this version of envbench reads "
            f"{schema!r}"
        )


def at(place: str, name: str | int) -> str:
    """The JSON Pointer of an item below a place."""
    return f"{place}/{pointer_segment(str(name))}"


_JSON_NAMES: dict[type, str] = {
    dict: "an object",
    list: "an array",
    str: "text",
    bool: "true or false",
    int: "an integer",
    float: "a number with a fraction",
    type(None): "null",
}


def _describe(value: Any) -> str:
    if value is None or type(value) is bool:
        return {None: "null", True: "true", False: "false"}[value]
    if type(value) in (int, float):
        return f"the number {value!r}"
    return _JSON_NAMES.get(type(value), type(value).__name__)


def _words(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names)
