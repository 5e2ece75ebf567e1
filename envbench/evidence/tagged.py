"""The tagged form: Python values that are more than portable JSON, kept exactly and reversibly.

A tagged value is a JSON object whose key ``$envbench`` names a kind; the other keys hold the
content (`docs/evidence-format.md` lists them all). Everything else stands for itself. A dict of
the user's that has that key, or a key that is not text, is written as a list of pairs.

Numeric arrays of more than 1,024 elements are kept beside the JSON as bytes and enter it by dtype,
shape and SHA-256.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import datetime
import decimal
import enum
import hashlib
import math
import struct
import uuid
import zlib
import zoneinfo
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from envbench.evidence.portable import (
    MAX_DEPTH,
    Json,
    canonical,
    fast_canonical,
    parse,
    pointer_segment,
    print_canonical,
)

TAG = "$envbench"
TAG_BYTES = b'"$envbench"'
LARGE_ARRAY = 1024
"""Numeric arrays of more elements than this are kept as bytes beside the JSON."""


@dataclasses.dataclass(frozen=True, slots=True)
class Named:
    """A value of a class that a reader need not have: an Enum, a dataclass, a model.

    Attributes:
        type: the class as ``module.Qualified.Name``; nothing is ever imported from it.
        value: its fields as a dict, the Enum's value, or the builtin value it extends.
        name: an Enum member's name, else None.
    """

    type: str
    value: Any
    name: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Missing:
    """What stands in the place of a value that could not be kept.

    Attributes:
        type: the class of the value as ``module.Qualified.Name``.
        reason: why it was not kept.
    """

    type: str
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class Problem:
    """A value that could not be kept: its place (a JSON Pointer), class and the reason."""

    place: str
    type: str
    reason: str


@dataclasses.dataclass(slots=True)
class Encoding:
    """What encoding found beside the JSON: values that could not be kept, and large arrays.

    Attributes:
        problems: one entry for each value replaced by a `Missing`.
        arrays: content of large arrays in C order, by the SHA-256 that stands in the JSON.
    """

    problems: list[Problem] = dataclasses.field(default_factory=list)
    arrays: dict[str, bytes] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Kept:
    """A value put in tagged form when it was seen, because it could change before it is written.

    Attributes:
        form: portable JSON in tagged form.
        found: what has no place in it.
    """

    form: Json
    found: Encoding


def keep(value: Any) -> Kept:
    """Put a value in tagged form now, to be written later."""
    found = Encoding()
    return Kept(tag(value, found), found)


def encode(value: Any, into: Encoding | None = None, place: str = "") -> bytes:
    """Write any Python value as canonical JSON in tagged form.

    Args:
        value: the value; it is only read.
        into: takes up what has no place in the JSON. Without it large arrays are written inline.
        place: JSON Pointer of the value in its surroundings, for messages.

    Returns:
        Canonical JSON as UTF-8 bytes.

    Raises:
        ValueError: without `into`, for a value that cannot be kept (a socket, a function).
    """
    text = fast_canonical(value)
    if text is not None and TAG_BYTES not in text:
        return text
    return print_canonical(tag(value, into, place))


def tag(value: Any, into: Encoding | None = None, place: str = "") -> Json:
    """Turn any Python value into portable JSON in tagged form; see `encode`."""
    return _Tagger(into).tag(value, place, ())


def decode(value: Json, arrays: Mapping[str, bytes] | Callable[[str], bytes] | None = None) -> Any:
    """Turn portable JSON in tagged form back into Python values.

    Args:
        value: parsed JSON; it may become part of the result.
        arrays: content of large arrays by SHA-256, where the JSON only refers to them.

    Raises:
        ValueError: when a tag is unknown or its content does not fit it.
    """
    if type(value) is list:
        return [decode(item, arrays) for item in value]
    if type(value) is not dict:
        return value
    kind = value.get(TAG)
    if kind is None:
        return {key: decode(item, arrays) for key, item in value.items()}
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    if reader is None:
        raise ValueError(f"unknown tag {kind!r} in {_short(value)}")
    try:
        return reader(value, arrays)
    except (
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        OverflowError,
        ArithmeticError,
    ) as error:
        message = error if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        raise ValueError(f"malformed {kind!r} tag in {_short(value)}: {message}") from None


def decode_text(
    text: str | bytes, arrays: Mapping[str, bytes] | Callable[[str], bytes] | None = None
) -> Any:
    """Parse JSON text in tagged form and decode it; text without tags is only parsed."""
    raw = text.encode() if isinstance(text, str) else text
    value = parse(raw)
    return decode(value, arrays) if TAG_BYTES in raw else value


def inline_arrays(value: Json, arrays: Mapping[str, bytes] | Callable[[str], bytes]) -> Json:
    """Put the content of large arrays into parsed JSON, zlib-compressed, to stand alone."""
    if type(value) is list:
        return [inline_arrays(item, arrays) for item in value]
    if type(value) is not dict:
        return value
    if value.get(TAG) == "array" and "sha256" in value and "zlib" not in value:
        content = _content(value["sha256"], arrays)
        return {**value, "zlib": base64.b64encode(zlib.compress(content, 6)).decode()}
    return {key: inline_arrays(item, arrays) for key, item in value.items()}


def extract_arrays(value: Json, arrays: dict[str, bytes]) -> Json:
    """Take inlined large arrays out of parsed JSON again, checking their content.

    Raises:
        ValueError: when the content is not what its SHA-256 says.
    """
    if type(value) is list:
        return [extract_arrays(item, arrays) for item in value]
    if type(value) is not dict:
        return value
    if value.get(TAG) == "array" and "zlib" in value:
        arrays[value["sha256"]] = _inflate(value)
        return {key: item for key, item in value.items() if key != "zlib"}
    return {key: extract_arrays(item, arrays) for key, item in value.items()}


def array_tag(array: np.ndarray[Any, Any], into: Encoding | None) -> dict[str, Json]:
    """Tag a large numeric array by dtype, shape and the SHA-256 of its bytes."""
    content = array.tobytes()
    digest = hashlib.sha256(content).hexdigest()
    tagged: dict[str, Json] = {
        TAG: "array",
        "dtype": array.dtype.str,
        "shape": list(array.shape),
        "sha256": digest,
    }
    if into is None:
        tagged["zlib"] = base64.b64encode(zlib.compress(content, 6)).decode()
    else:
        into.arrays[digest] = content
    return tagged


def type_name(kind: type) -> str:
    """Name a class as ``module.Qualified.Name``, without the module for builtins."""
    module = kind.__module__
    return kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"


def describe_error(error: BaseException) -> str:
    """The message of an exception, even of one whose ``__str__`` raises."""
    try:
        return str(error)
    except Exception as inner:
        return f"<message unavailable: __str__ raised {type(inner).__name__}>"


# How the builtin value inside a subclass is read without calling methods that it overrides.
_BUILTINS: dict[type, Callable[[Any], Any]] = {
    dict: lambda value: dict(dict.items(value)),
    list: lambda value: list(list.__iter__(value)),
    tuple: lambda value: tuple(tuple.__iter__(value)),
    set: lambda value: set(set.__iter__(value)),
    frozenset: lambda value: frozenset(frozenset.__iter__(value)),
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    bytes: lambda value: bytes(memoryview(value)),
    bytearray: lambda value: bytes(memoryview(value)),
}
_QUIET_NAN = struct.pack(">d", math.nan)


class _Tagger:
    """Turns Python values into tagged JSON, replacing what cannot be kept by a `Missing` tag."""

    __slots__ = ("into",)

    def __init__(self, into: Encoding | None) -> None:
        self.into = into

    def tag(self, value: Any, place: str, above: tuple[int, ...]) -> Json:
        try:
            if (
                id(value) in above
                and isinstance(value, (dict, list, tuple, np.ndarray))
                and len(value)
            ):
                raise _CannotKeep("it contains itself")
            if len(above) >= MAX_DEPTH:
                raise _CannotKeep(f"it is nested deeper than {MAX_DEPTH} levels")
            return self._tag(value, place, above)
        except _CannotKeep as refusal:
            reason = str(refusal)
        except Exception as error:  # a property or conversion of the user's class raised
            reason = f"reading it raised {type(error).__name__}: {describe_error(error)}"
        kind = type_name(type(value))
        if self.into is None:
            raise ValueError(f"{place or '/'}: cannot keep a {kind}: {reason}")
        self.into.problems.append(Problem(place or "/", kind, reason))
        return {TAG: "missing", "type": kind, "reason": tag(reason)}

    def _tag(self, value: Any, place: str, above: tuple[int, ...]) -> Json:
        kind = type(value)
        if kind is str:
            return _tag_str(value)
        if kind is bool or value is None:
            return value
        if kind is int:
            return _tag_int(value)
        if kind is float:
            return _tag_float(value)
        if kind is dict:
            return self._tag_dict(value, place, (*above, id(value)))
        if kind is list:
            return self._tag_items(value, place, (*above, id(value)))
        if kind is tuple:
            return {TAG: "tuple", "items": self._tag_items(value, place, (*above, id(value)))}
        if kind is set or kind is frozenset:
            items = self._tag_items(list(value), place, above)
            return {TAG: kind.__name__, "items": sorted(items, key=canonical)}
        if kind is bytes or kind is bytearray:
            return {TAG: kind.__name__, "base64": _b64(bytes(value))}
        if isinstance(value, np.generic):
            return _tag_scalar(value)
        if kind is np.ndarray or kind is np.memmap:
            return self._tag_array(value, place, above)
        if kind is complex:
            return {TAG: "complex", "real": _tag_float(value.real), "imag": _tag_float(value.imag)}
        if kind in _TEMPORAL:
            return _TEMPORAL[kind](value)
        if kind is uuid.UUID:
            return {TAG: "uuid", "value": str(value)}
        if kind is decimal.Decimal:
            return {TAG: "decimal", "value": str(value)}
        if kind is Kept:
            return self._take(value, place)
        if kind is Missing:
            return {TAG: "missing", "type": value.type, "reason": _tag_str(value.reason)}
        return self._tag_named(value, place, (*above, id(value)))

    def _take(self, kept: Kept, place: str) -> Json:
        if self.into is None:
            return inline_arrays(kept.form, kept.found.arrays)
        self.into.arrays.update(kept.found.arrays)
        self.into.problems += [
            dataclasses.replace(problem, place=place + problem.place.rstrip("/"))
            for problem in kept.found.problems
        ]
        return kept.form

    def _tag_items(self, values: Any, place: str, above: tuple[int, ...]) -> list[Json]:
        return [self.tag(item, f"{place}/{i}", above) for i, item in enumerate(values)]

    def _tag_dict(self, value: dict[Any, Any], place: str, above: tuple[int, ...]) -> Json:
        if TAG not in value and all(type(key) is str and not _surrogate(key) for key in value):
            return {
                key: self.tag(item, f"{place}/{pointer_segment(key)}", above)
                for key, item in value.items()
            }
        pairs = []
        for key, item in value.items():
            at = f"{place}/{pointer_segment(_key_text(key))}"
            pairs.append([self.tag(key, at, above), self.tag(item, at, above)])
        return {TAG: "dict", "items": sorted(pairs, key=lambda pair: canonical(pair[0]))}

    def _tag_array(self, value: np.ndarray[Any, Any], place: str, above: tuple[int, ...]) -> Json:
        dtype = value.dtype
        if dtype.hasobject:
            if dtype.kind != "O":
                raise _CannotKeep(f"its dtype {dtype} holds Python objects in fields")
            items = self._tag_items(value.ravel().tolist(), place, (*above, id(value)))
            return {TAG: "array", "dtype": "|O", "shape": list(value.shape), "items": items}
        if value.size > LARGE_ARRAY and dtype.kind in "biufcmM" and dtype.names is None:
            return array_tag(value, self.into)
        return {
            TAG: "array",
            **_tag_dtype(dtype),
            "shape": list(value.shape),
            **_tag_content(value),
        }

    def _tag_named(self, value: Any, place: str, above: tuple[int, ...]) -> Json:
        kind = type(value)
        if kind is Named:
            content = self.tag(value.value, place, above)
            name = value.name
            named = value.type
        elif isinstance(value, enum.Enum):
            content = self.tag(value.value, place, above)
            name = value.name
            named = type_name(kind)
        else:
            content = self.tag(_fields(value), place, above)
            name = None
            named = type_name(kind)
        tagged = {TAG: "named", "type": named, "value": content}
        return tagged if name is None else {**tagged, "name": name}


class _CannotKeep(Exception):
    """The reason why a value has no place in evidence."""


def _fields(value: Any) -> Any:
    """The content of a dataclass, pydantic model, named tuple or subclass of a builtin."""
    kind = type(value)
    if dataclasses.is_dataclass(kind):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(kind, "__pydantic_validator__") and hasattr(kind, "model_fields"):
        return {name: getattr(value, name) for name in kind.model_fields} | (
            value.model_extra or {}
        )
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        return dict(zip(kind._fields, tuple.__iter__(value), strict=True))
    for builtin, read in _BUILTINS.items():
        if isinstance(value, builtin):
            return read(value)
    raise _CannotKeep("it is no value of a type that evidence can hold")


def _tag_str(value: str) -> Json:
    if _surrogate(value):
        return {TAG: "str", "base64": _b64(value.encode("utf-8", "surrogatepass"))}
    return value


def _surrogate(text: str) -> bool:
    if text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _tag_int(value: int) -> Json:
    # Python prints no integer of over 4,300 digits unless a process-wide limit is raised.
    return value if value.bit_length() <= 14_000 else {TAG: "int", "hex": hex(value)}


def _tag_float(value: float) -> Json:
    if math.isfinite(value):
        return value
    if math.isinf(value):
        return {TAG: "float", "value": "inf" if value > 0 else "-inf"}
    bits = struct.pack(">d", value)
    if bits == _QUIET_NAN:
        return {TAG: "float", "value": "nan"}
    return {TAG: "float", "value": "nan", "bits": bits.hex()}


def _tag_scalar(value: np.generic) -> Json:
    dtype = value.dtype
    if dtype.hasobject:
        raise _CannotKeep(f"its dtype {dtype} holds Python objects")
    array = np.asarray(value)
    plain = dtype.kind in "biu" or (
        dtype.kind == "f" and dtype.itemsize <= 8 and np.isfinite(array)
    )
    content = {"value": value.item()} if plain else {"base64": _b64(array.tobytes())}
    return {TAG: "scalar", **_tag_dtype(dtype), **content}


def _tag_dtype(dtype: np.dtype[Any]) -> dict[str, Json]:
    if dtype.kind == "T":
        raise _CannotKeep(
            "variable-width string arrays have no portable bytes; use dtype U or object"
        )
    if dtype.names is None:
        return {"dtype": dtype.str}
    descr = np.lib.format.dtype_to_descr(dtype)
    if np.lib.format.descr_to_dtype(descr) != dtype:
        raise _CannotKeep(f"its dtype {dtype} cannot be described")
    return {"dtype": _lists(descr)}


def _tag_content(value: np.ndarray[Any, Any]) -> dict[str, Json]:
    kind, size = value.dtype.kind, value.dtype.itemsize
    if kind in "biu" or (kind == "f" and size <= 8 and bool(np.isfinite(value).all())):
        return {"data": value.ravel().tolist()}
    return {"base64": _b64(value.tobytes())}


def _tag_datetime(value: datetime.datetime) -> Json:
    tagged: dict[str, Json] = {TAG: "datetime", "value": value.isoformat()}
    return {**tagged, **_tag_zone(value.tzinfo, value.fold)}


def _tag_time(value: datetime.time) -> Json:
    return {TAG: "time", "value": value.isoformat(), **_tag_zone(value.tzinfo, value.fold)}


def _tag_zone(zone: datetime.tzinfo | None, fold: int) -> dict[str, Json]:
    extra: dict[str, Json] = {"fold": 1} if fold else {}
    if zone is None or type(zone) is datetime.timezone:
        return extra
    if isinstance(zone, zoneinfo.ZoneInfo) and zone.key:
        return {**extra, "zone": zone.key}
    raise _CannotKeep(f"its time zone is a {type_name(type(zone))}, not zoneinfo or a fixed offset")


_TEMPORAL: dict[type, Callable[[Any], Json]] = {
    datetime.datetime: _tag_datetime,
    datetime.date: lambda value: {TAG: "date", "value": value.isoformat()},
    datetime.time: _tag_time,
    datetime.timedelta: lambda value: {
        TAG: "timedelta",
        "days": value.days,
        "seconds": value.seconds,
        "microseconds": value.microseconds,
    },
}


def _key_text(key: Any) -> str:
    try:
        return str(key)
    except Exception:
        return f"<{type(key).__name__}>"


def _lists(value: Any) -> Json:
    return [_lists(item) for item in value] if isinstance(value, (list, tuple)) else value


def _b64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _unb64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"not base64: {error}") from None


def _short(value: Json) -> str:
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "..."


def _read_float(value: Json, _: Any) -> float:
    if value["value"] not in ("nan", "inf", "-inf"):
        raise ValueError("value is none of nan, inf, -inf")
    if "bits" in value:
        number: float = struct.unpack(">d", bytes.fromhex(value["bits"]))[0]
        if not math.isnan(number):
            raise ValueError("bits are not those of a NaN")
        return number
    return float(value["value"])


def _read_dtype(value: Json) -> np.dtype[Any]:
    descr = value["dtype"]
    if isinstance(descr, str):
        return np.dtype(descr)
    return np.lib.format.descr_to_dtype(_field_tuples(descr))


def _field_tuples(descr: list[Any]) -> list[Any]:
    fields: list[Any] = []
    for field in descr:
        name, kind, *shape = field
        name = tuple(name) if isinstance(name, list) else name
        kind = _field_tuples(kind) if isinstance(kind, list) else kind
        fields.append((name, kind, *(tuple(s) for s in shape)))
    return fields


def _read_array(value: Json, arrays: Any) -> np.ndarray[Any, Any]:
    shape = tuple(value["shape"])
    if value["dtype"] == "|O":
        result = np.empty(math.prod(shape), dtype=object)
        items = [decode(item, arrays) for item in value["items"]]
        if len(items) != result.size:
            raise ValueError(f"{len(items)} items do not fill shape {shape}")
        for i, item in enumerate(items):
            result[i] = item
        return result.reshape(shape)
    dtype = _read_dtype(value)
    if "data" in value:
        return np.array(value["data"], dtype=dtype).reshape(shape)
    if "base64" in value:
        content = _unb64(value["base64"])
    elif "zlib" in value:
        content = _inflate(value)
    else:
        content = _content(value["sha256"], arrays)
    return np.frombuffer(content, dtype=dtype).reshape(shape).copy()


def _content(digest: str, arrays: Any) -> bytes:
    if arrays is None:
        raise ValueError(f"the content of array {digest} is not at hand")
    content: bytes = arrays[digest] if isinstance(arrays, Mapping) else arrays(digest)
    return content


def _inflate(value: Json) -> bytes:
    try:
        content = zlib.decompress(_unb64(value["zlib"]))
    except zlib.error as error:
        raise ValueError(f"array {value['sha256']} cannot be inflated: {error}") from None
    if hashlib.sha256(content).hexdigest() != value["sha256"]:
        raise ValueError(f"the content of array {value['sha256']} has another SHA-256")
    return content


def _read_scalar(value: Json, _: Any) -> Any:
    dtype = _read_dtype(value)
    if "base64" in value:
        return np.frombuffer(_unb64(value["base64"]), dtype=dtype)[0]
    return dtype.type(value["value"]) if dtype.isnative else np.array(value["value"], dtype)[()]


def _read_datetime(value: Json, _: Any) -> datetime.datetime:
    moment = datetime.datetime.fromisoformat(value["value"])
    if "zone" in value:
        moment = moment.replace(tzinfo=zoneinfo.ZoneInfo(value["zone"]))
    return moment.replace(fold=value.get("fold", 0))


def _read_time(value: Json, _: Any) -> datetime.time:
    moment = datetime.time.fromisoformat(value["value"])
    if "zone" in value:
        moment = moment.replace(tzinfo=zoneinfo.ZoneInfo(value["zone"]))
    return moment.replace(fold=value.get("fold", 0))


def _items(value: Json, arrays: Any) -> list[Any]:
    if type(value["items"]) is not list:
        raise ValueError("items is not a list")
    return [decode(item, arrays) for item in value["items"]]


_READERS: dict[str, Callable[[Json, Any], Any]] = {
    "array": _read_array,
    "bytearray": lambda value, _: bytearray(_unb64(value["base64"])),
    "bytes": lambda value, _: _unb64(value["base64"]),
    "complex": lambda value, _: complex(decode(value["real"]), decode(value["imag"])),
    "date": lambda value, _: datetime.date.fromisoformat(value["value"]),
    "datetime": _read_datetime,
    "decimal": lambda value, _: decimal.Decimal(value["value"]),
    "dict": lambda value, arrays: dict(decode(pair, arrays) for pair in value["items"]),
    "float": _read_float,
    "frozenset": lambda value, arrays: frozenset(_items(value, arrays)),
    "int": lambda value, _: int(value["hex"], 16),
    "missing": lambda value, arrays: Missing(value["type"], decode(value["reason"], arrays)),
    "named": lambda value, arrays: Named(
        value["type"], decode(value["value"], arrays), value.get("name")
    ),
    "scalar": _read_scalar,
    "set": lambda value, arrays: set(_items(value, arrays)),
    "str": lambda value, _: _unb64(value["base64"]).decode("utf-8", "surrogatepass"),
    "time": _read_time,
    "timedelta": lambda value, _: datetime.timedelta(
        value["days"], value["seconds"], value["microseconds"]
    ),
    "tuple": lambda value, arrays: tuple(_items(value, arrays)),
    "uuid": lambda value, _: uuid.UUID(value["value"]),
}
