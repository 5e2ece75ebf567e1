"""The tagged form: Python values that are more than portable JSON, kept exactly and reversibly.

A tagged value is a JSON object whose key ``$envbench`` names a kind; the other keys hold the
content (`docs/evidence-format.md` lists them all). Everything else stands for itself. A dict of
the user's that has that key, or a key that is not text, is written as a list of pairs.

Numeric arrays of more than 1,024 elements are kept beside the JSON as bytes and enter it by dtype,
shape and SHA-256.

A class with a method ``__evidence__`` says itself what is kept of its values: what it returns
stands in their place, without the class's name.
"""

from __future__ import annotations

import base64
import binascii
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import hashlib
import math
import pathlib
import struct
import sys
import types
import uuid
import zlib
import zoneinfo
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from envbench.evidence.portable import (
    VALUE_DEPTH,
    Json,
    fast_canonical,
    parse,
    pointer_segment,
    print_canonical,
)

TAG = "$envbench"
TAG_BYTES = b'"$envbench"'
LARGE_ARRAY = 1024
"""Numeric arrays of more elements than this are kept as bytes beside the JSON."""

MAX_PARTS = 2_000_000
"""A value with more parts than this is not kept: it would take minutes, or never end."""

DEPTH = VALUE_DEPTH - 20
"""A container below so many levels of JSON is not kept; a leaf's own tag needs some more."""


@dataclasses.dataclass(frozen=True, slots=True)
class Named:
    """A value of a class that a reader need not have: an Enum, a dataclass, a model.

    Attributes:
        type: the class as ``module.Qualified.Name``; nothing is ever imported from it.
        value: its fields as a dict, the Enum's value, or the builtin value it extends.
        name: an Enum member's name, else None.
        attributes: what the instance of an extended builtin holds beside its value, else None.
    """

    type: str
    value: Any
    name: str | None = None
    attributes: dict[str, Any] | None = None

    def __hash__(self) -> int:
        return hash((self.type, self.name, _hash(self.value)))


class Absent:
    """What a place holds where there is nothing: not null, not zero, not an empty text."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "ABSENT"

    def __bool__(self) -> bool:
        return False

    def __reduce__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent()


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
class Cut:
    """The beginning of a value that was cut because the caller set a limit.

    Attributes:
        text: the first characters of its JSON.
        length: the number of characters that it had.
        sha256: SHA-256 of all of them, in UTF-8.
    """

    text: str
    length: int
    sha256: str


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
        kind: the class of the value.
    """

    form: Json
    found: Encoding
    kind: type


def keep(value: Any) -> Kept:
    """Put a value in tagged form now, to be written later."""
    found = Encoding()
    return Kept(tag(value, found), found, type(value))


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
    text = fast_canonical(value, VALUE_DEPTH)
    if text is not None and TAG_BYTES not in text:
        return text
    return print_canonical(tag(value, into, place))


def tag(value: Any, into: Encoding | None = None, place: str = "", depth: int = DEPTH) -> Json:
    """Turn any Python value into portable JSON in tagged form; see `encode`."""
    try:
        return _Tagger(into, depth).tag(value, place, ())
    except _Refused as refusal:
        raise ValueError(str(refusal)) from None


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
    if TAG not in value:
        return {key: decode(item, arrays) for key, item in value.items()}
    kind = value[TAG]
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    if reader is None:
        raise ValueError(f"unknown tag {kind!r} in {_short(value)}")
    try:
        return reader(value, arrays)
    except Exception as error:  # whatever NumPy, zlib or a constructor makes of bad content
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


def array_digests(value: Json) -> set[str]:
    """The SHA-256 of every large array that parsed JSON in tagged form refers to."""
    if type(value) is list:
        return set().union(*map(array_digests, value))
    if type(value) is not dict:
        return set()
    if value.get(TAG) == "array" and "sha256" in value:
        return {value["sha256"]}
    return set().union(*map(array_digests, value.values()))


def array_tag(array: np.ndarray[Any, Any], into: Encoding | None) -> dict[str, Json]:
    """Tag a large numeric array by dtype, shape and the SHA-256 of its bytes."""
    content = content_bytes(array)
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


def content_bytes(array: np.ndarray[Any, Any]) -> bytes:
    """The bytes of an array in C order, with zeros where its dtype has padding.

    NumPy leaves there whatever was in memory, so that equal arrays would have unequal bytes.
    """
    if _has_padding(array.dtype):
        clean = np.zeros(array.shape, array.dtype)
        _copy_without_padding(array, clean)
        return clean.tobytes()
    return array.tobytes()


# Where one Python keeps what others have in the public module: one value has one form on all.
_MOVED = {"pathlib._local": "pathlib"}


def type_name(kind: type) -> str:
    """Name a class as ``module.Qualified.Name``, without the module for builtins."""
    try:
        module, name = kind.__module__, kind.__qualname__
        module = _MOVED.get(module, module)
        return _printable(name if module == "builtins" else f"{module}.{name}")
    except Exception:  # a metaclass of the user's that does not answer
        return "unknown"


def describe_error(error: BaseException) -> str:
    """The message of an exception, even of one whose ``__str__`` raises."""
    try:
        return str.__str__(str(error))
    except Exception as inner:
        return f"<message unavailable: __str__ raised {type(inner).__name__}>"


# How the builtin value inside a subclass is read without calling methods that it overrides.
_BUILTINS: dict[type, Callable[[Any], Any]] = {
    collections.OrderedDict: lambda value: collections.OrderedDict(
        collections.OrderedDict.items(value)
    ),
    dict: lambda value: dict(dict.items(value)),
    list: lambda value: list(list.__iter__(value)),
    tuple: lambda value: tuple(tuple.__iter__(value)),
    set: lambda value: set(set.__iter__(value)),
    frozenset: lambda value: frozenset(frozenset.__iter__(value)),
    collections.deque: lambda value: list(collections.deque.__iter__(value)),
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    complex: complex.__complex__,
    bytes: lambda value: bytes(memoryview(value)),
    bytearray: lambda value: bytes(memoryview(value)),
    datetime.datetime: lambda value: _plain_datetime(value),
    datetime.date: lambda value: datetime.date(value.year, value.month, value.day),
    decimal.Decimal: decimal.Decimal,
    uuid.UUID: lambda value: uuid.UUID(int=value.int),
    fractions.Fraction: lambda value: {
        "numerator": value.numerator,
        "denominator": value.denominator,
    },
    range: lambda value: {"start": value.start, "stop": value.stop, "step": value.step},
    types.MappingProxyType: dict,
    types.SimpleNamespace: lambda value: dict(vars(value)),
    pathlib.PurePath: str,
    np.ndarray: lambda value: value.view(np.ndarray),
}
_QUIET_NAN = struct.pack(">d", math.nan)


class _Tagger:
    """Turns Python values into tagged JSON, replacing what cannot be kept by a `Missing` tag.

    `above` has an entry for each level of JSON above the value: the id of the container, or 0.
    """

    __slots__ = ("depth", "into", "parts")

    def __init__(self, into: Encoding | None, depth: int) -> None:
        self.into = into
        self.depth = depth
        self.parts = 0

    def tag(self, value: Any, place: str, above: tuple[int, ...]) -> Json:
        try:
            self.parts += 1
            if id(value) in above:
                raise _CannotKeep("it contains itself")
            if self.parts > MAX_PARTS:
                raise _TooLarge(f"it has more than {MAX_PARTS:,} parts; use a NumPy array")
            return self._tag(value, place, above)
        except _Refused:
            raise
        except _TooLarge as refusal:
            if above:  # the whole value is given up, else its other parts would go on for ever
                raise
            reason = str(refusal)
        except _CannotKeep as refusal:
            reason = str(refusal)
        except Exception as error:  # a property or conversion of the user's class raised
            reason = f"reading it raised {type(error).__name__}: {describe_error(error)}"
        kind = "unreadable" if type(value) is _Unreadable else type_name(type(value))
        if self.into is None:
            article = "an" if kind == "unreadable" or kind[:1].lower() in "aeio" else "a"
            raise _Refused(f"{place or '/'}: cannot keep {article} {kind}: {reason}")
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
            return self._tag_dict(value, place, self._within(above, id(value)))
        if kind is list:
            return self._tag_items(value, place, self._within(above, id(value)))
        if kind is tuple:
            return {
                TAG: "tuple",
                "items": self._tag_items(value, place, self._within(above, id(value), 0)),
            }
        if kind is set or kind is frozenset:
            return {TAG: kind.__name__, "items": self._tag_members(value, place, above)}
        if kind is bytes or kind is bytearray:
            return {TAG: kind.__name__, "base64": _b64(bytes(value))}
        if issubclass(kind, np.generic):
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
        if kind is collections.OrderedDict:
            pairs = self._tag_pairs(value, place, self._within(above, id(value), 0, 0))
            return {TAG: "ordereddict", "items": pairs}
        if kind is Kept:
            return self._take(value, place)
        if kind is Absent:
            return {TAG: "absent"}
        if kind is Cut:
            return {TAG: "cut", "text": value.text, "length": value.length, "sha256": value.sha256}
        if kind is Missing:
            return {TAG: "missing", "type": value.type, "reason": _tag_str(value.reason)}
        if kind is _Unreadable:
            raise _CannotKeep(value.reason)
        return self._tag_named(value, place, self._within(above, id(value)))

    def _within(self, above: tuple[int, ...], *levels: int) -> tuple[int, ...]:
        """What is above the content of a container that takes some levels of JSON."""
        if len(above) > self.depth:
            raise _CannotKeep(f"its JSON is nested deeper than {self.depth} levels")
        return (*above, *levels)

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
        pairs = self._tag_pairs(value, place, self._within(above, 0, 0))
        return {TAG: "dict", "items": sorted(pairs, key=print_canonical)}

    def _tag_pairs(self, value: dict[Any, Any], place: str, above: tuple[int, ...]) -> list[Json]:
        pairs = []
        for key, item in value.items():
            at = f"{place}/{pointer_segment(_key_text(key))}"
            pairs.append([self.tag(key, at, above), self.tag(item, at, above)])
        if not self._stay_apart([key for key, _ in pairs]):
            raise _CannotKeep("two of its keys would be one in evidence")
        return pairs

    def _tag_members(self, value: Any, place: str, above: tuple[int, ...]) -> list[Json]:
        """The members of a set, in the order of their canonical forms."""
        items = self._tag_items(list(value), place, self._within(above, id(value), 0))
        members = [item for item in items if not _is_missing(item)]
        if not self._stay_apart(members):
            raise _CannotKeep("two of its members would be one in evidence")
        # of several members that cannot be kept for one reason, one stands for all
        missing = {print_canonical(item): item for item in items if _is_missing(item)}
        return sorted([*members, *missing.values()], key=print_canonical)

    def _stay_apart(self, forms: list[Json]) -> bool:
        """Whether different hashable values are still different when they are decoded."""
        arrays = None if self.into is None else self.into.arrays
        return len({decode(form, arrays) for form in forms}) == len(forms)

    def _tag_array(self, value: np.ndarray[Any, Any], place: str, above: tuple[int, ...]) -> Json:
        dtype = value.dtype
        if dtype.hasobject:
            if dtype.kind != "O":
                raise _CannotKeep(f"its dtype {dtype} holds Python objects in fields")
            items = self._tag_items(
                value.ravel().tolist(), place, self._within(above, id(value), 0)
            )
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
        says = getattr(kind, "__evidence__", None)
        if says is not None:  # a class that says what evidence keeps of its values
            return self.tag(says(value), place, above)
        name, attributes = None, None
        if kind is Named:
            named, content, name, attributes = (
                value.type,
                value.value,
                value.name,
                value.attributes,
            )
        else:
            named = type_name(kind)
            if issubclass(kind, enum.Enum):
                content, name = value.value, value.name and _printable(value.name)
            else:
                content, attributes = _content_of(value)
        tagged = {TAG: "named", "type": named, "value": self.tag(content, place, above)}
        if name is not None:
            tagged["name"] = name
        if attributes:
            tagged["attributes"] = self.tag(attributes, place, above)
        return tagged


class _CannotKeep(Exception):
    """The reason why a value has no place in evidence."""


class _Refused(Exception):
    """A value cannot be kept, and nothing takes up that it is missing; `tag` makes it public."""


class _TooLarge(Exception):
    """The reason why a value with very many parts has no place in evidence."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Unreadable:
    """Stands for an attribute that raised when it was read."""

    reason: str


def _content_of(value: Any) -> tuple[Any, dict[str, Any] | None]:
    """What a value of a class that a reader need not have holds: its content, and what is beside.

    A dataclass, attrs class or pydantic model gives its fields; a subclass of a builtin gives the
    builtin value and, beside it, the attributes of the instance.
    """
    kind = type(value)
    names = _field_names(kind)
    fields = None if names is None else {name: _read(value, name) for name in names}
    if fields is not None and hasattr(kind, "__pydantic_validator__"):
        fields |= getattr(value, "model_extra", None) or {}
    masked = sys.modules.get("numpy.ma")  # loaded if such an array exists, and slow to load
    if masked is not None and issubclass(kind, masked.MaskedArray):
        data = masked.getdata(value).view(np.ndarray)
        return {"data": data, "mask": masked.getmaskarray(value)}, None
    for builtin, read in _BUILTINS.items():
        if issubclass(kind, builtin):
            content = read(value)
            names_in_order = getattr(kind, "_fields", ())
            if builtin is tuple and len(names_in_order) == len(content) > 0:
                content = dict(zip(names_in_order, content, strict=True))
            return content, _attributes(value, builtin) | (fields or {})
    if fields is None:
        raise _CannotKeep("it is no value of a type that evidence can hold")
    return fields, None


def _field_names(kind: type) -> list[str] | None:
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    if hasattr(kind, "__pydantic_validator__") and hasattr(kind, "model_fields"):
        return list(kind.model_fields)
    if hasattr(kind, "__attrs_attrs__"):
        return [attribute.name for attribute in kind.__attrs_attrs__]
    return None


def _read(value: Any, name: str) -> Any:
    try:
        return getattr(value, name)
    except Exception as error:
        return _Unreadable(f"reading it raised {type_name(type(error))}: {describe_error(error)}")


def _attributes(value: Any, builtin: type) -> dict[str, Any]:
    """The instance attributes of a value that extends a builtin."""
    if builtin is collections.deque:
        return {} if value.maxlen is None else {"maxlen": value.maxlen}
    if builtin in _WITHOUT_ATTRIBUTES:
        return {}
    state: Any
    try:
        state = object.__getstate__(value)
    except TypeError:  # CPython describes no layout of an extended int, tuple or bytes
        state = getattr(value, "__dict__", None)
    in_dict, in_slots = state if isinstance(state, tuple) else (state, None)
    return {**(in_dict or {}), **(in_slots or {})}


# Their instances hold their own content as attributes, or caches of it.
_WITHOUT_ATTRIBUTES = frozenset(
    {
        types.SimpleNamespace,
        types.MappingProxyType,
        pathlib.PurePath,
        fractions.Fraction,
        uuid.UUID,
        decimal.Decimal,
        range,
    }
)


def _plain_datetime(value: datetime.datetime) -> datetime.datetime:
    if getattr(value, "nanosecond", 0):
        raise _CannotKeep("a datetime would lose its nanoseconds; use numpy.datetime64")
    return datetime.datetime(
        value.year,
        value.month,
        value.day,
        value.hour,
        value.minute,
        value.second,
        value.microsecond,
        value.tzinfo,
        fold=value.fold,
    )


def _is_missing(form: Json) -> bool:
    return type(form) is dict and form.get(TAG) == "missing"


def _hash(value: Any) -> int:
    """A hash that agrees with equality, also of the content of a `Named`."""
    if isinstance(value, dict):
        return hash(frozenset((key, _hash(item)) for key, item in value.items()))
    if isinstance(value, (list, tuple)):
        return hash(tuple(map(_hash, value)))
    try:
        return hash(value)
    except TypeError:
        return hash(type(value))


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
    # A process may forbid to print integers of more than 640 digits.
    return value if value.bit_length() <= 2_000 else {TAG: "int", "hex": hex(value)}


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
    if isinstance(value, np.str_):  # a NUL at the end is part of it, and not of an array's cell
        return {TAG: "scalar", "dtype": dtype.str, "value": _tag_str(str.__str__(value))}
    if isinstance(value, np.bytes_):
        return {TAG: "scalar", "dtype": dtype.str, "base64": _b64(bytes(memoryview(value)))}
    array = np.asarray(value)
    plain = dtype.kind in "biu" or (
        dtype.kind == "f" and dtype.itemsize <= 8 and np.isfinite(array)
    )
    content = {"value": value.item()} if plain else {"base64": _b64(content_bytes(array))}
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
    return {"base64": _b64(content_bytes(value))}


# On x86 a longdouble has 80 bits of content in 128.
_LONGDOUBLE_PADDED = np.finfo(np.longdouble).nmant == 63


def _has_padding(dtype: np.dtype[Any]) -> bool:
    if dtype.subdtype is not None:
        return _has_padding(dtype.subdtype[0])
    if dtype.names is not None:
        parts = [dtype[name] for name in dtype.names]
        return sum(part.itemsize for part in parts) < dtype.itemsize or any(
            map(_has_padding, parts)
        )
    return _LONGDOUBLE_PADDED and dtype.char in "gG"


def _copy_without_padding(source: np.ndarray[Any, Any], target: np.ndarray[Any, Any]) -> None:
    if source.dtype.names is not None:
        for name in source.dtype.names:
            # a view of one field, also of a scalar structure
            _copy_without_padding(source[name], target[name])
    elif _has_padding(source.dtype):
        flat = np.ascontiguousarray(source).reshape(-1).view(np.uint8).reshape(-1, 16).copy()
        flat[:, 10:] = 0
        target[...] = flat.reshape(-1).view(source.dtype).reshape(source.shape)
    else:
        target[...] = source


def _tag_datetime(value: datetime.datetime) -> Json:
    zone = _tag_zone(value.tzinfo, value.fold)
    if "zone" in zone:  # the offset is the zone's, and its rules may change
        value = value.replace(tzinfo=None)
    return {TAG: "datetime", "value": value.isoformat(), **zone}


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
        text = _printable(str(key))
    except Exception:
        return f"<{type_name(type(key))}>"
    return text if len(text) <= 80 else text[:79] + "…"


def _printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


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
        items = _items(value, arrays)
        if len(items) != math.prod(shape):
            raise ValueError(f"{len(items)} items do not fill shape {shape}")
        result = np.empty(len(items), dtype=object)
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
    if dtype.itemsize == 0:
        return np.zeros(shape, dtype)
    return np.frombuffer(content, dtype=dtype).reshape(shape).copy()


def _content(digest: str, arrays: Any) -> bytes:
    if arrays is None:
        raise ValueError(f"the content of array {digest} is not at hand")
    content: bytes = arrays[digest] if isinstance(arrays, Mapping) else arrays(digest)
    return content


def _inflate(value: Json) -> bytes:
    size = math.prod(value["shape"]) * _read_dtype(value).itemsize
    try:
        # one byte more than it should have is enough to see that it is too long
        content = zlib.decompressobj().decompress(_unb64(value["zlib"]), size + 1)
    except zlib.error as error:
        raise ValueError(f"array {value['sha256']} cannot be inflated: {error}") from None
    if hashlib.sha256(content).hexdigest() != value["sha256"]:
        raise ValueError(f"the content of array {value['sha256']} has another SHA-256")
    return content


def _read_scalar(value: Json, _: Any) -> Any:
    dtype = _read_dtype(value)
    if dtype.kind == "U":
        return np.str_(decode(value["value"]))
    if dtype.kind == "S":
        return np.bytes_(_unb64(value["base64"]))
    if dtype.itemsize == 0:
        return np.zeros((), dtype)[()]
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
    "absent": lambda value, _: ABSENT,
    "array": _read_array,
    "bytearray": lambda value, _: bytearray(_unb64(value["base64"])),
    "bytes": lambda value, _: _unb64(value["base64"]),
    "complex": lambda value, _: complex(decode(value["real"]), decode(value["imag"])),
    "cut": lambda value, _: Cut(value["text"], value["length"], value["sha256"]),
    "date": lambda value, _: datetime.date.fromisoformat(value["value"]),
    "datetime": _read_datetime,
    "decimal": lambda value, _: decimal.Decimal(value["value"]),
    "dict": lambda value, arrays: dict(decode(pair, arrays) for pair in value["items"]),
    "float": _read_float,
    "frozenset": lambda value, arrays: frozenset(_items(value, arrays)),
    "int": lambda value, _: int(value["hex"], 16),
    "missing": lambda value, arrays: Missing(value["type"], decode(value["reason"], arrays)),
    "named": lambda value, arrays: Named(
        value["type"],
        decode(value["value"], arrays),
        value.get("name"),
        decode(value["attributes"], arrays) if "attributes" in value else None,
    ),
    "ordereddict": lambda value, arrays: collections.OrderedDict(
        decode(pair, arrays) for pair in value["items"]
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
