from __future__ import annotations

import collections
import copy
import dataclasses
import datetime
import decimal
import enum
import fractions
import json
import math
import pathlib
import re
import socket
import struct
import threading
import types
import zoneinfo
from pathlib import Path
from typing import Any

import numpy as np
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from envbench.evidence import tagged
from envbench.evidence.portable import canonical, parse
from envbench.evidence.tagged import (
    _READERS,
    ABSENT,
    TAG,
    Cut,
    Encoding,
    Missing,
    Named,
    Problem,
    content_bytes,
    decode,
    decode_text,
    encode,
    extract_arrays,
    inline_arrays,
    keep,
    tag,
)


def is_same(left: Any, right: Any) -> bool:
    """Whether two values agree in type, dtype and every bit."""
    if type(left) is not type(right):
        return False
    if isinstance(left, np.ndarray):
        if left.dtype != right.dtype or left.shape != right.shape:
            return False
        if left.dtype.kind == "O":
            return all(map(is_same, left.ravel().tolist(), right.ravel().tolist()))
        return content_bytes(left) == content_bytes(right)
    if isinstance(left, Named):
        return is_same(dataclasses.astuple(left)[1:], dataclasses.astuple(right)[1:])
    if isinstance(left, np.str_ | np.bytes_):
        return bool(left == right and len(left) == len(right))
    if isinstance(left, np.generic):
        return left.dtype == right.dtype and is_same(np.array([left]), np.array([right]))
    if isinstance(left, collections.OrderedDict):
        return is_same(list(left.items()), list(right.items()))
    if isinstance(left, dict):
        return same_members(left.items(), right.items())
    if isinstance(left, set | frozenset):
        return same_members(left, right)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(is_same, left, right))
    if isinstance(left, float):
        return struct.pack("d", left) == struct.pack("d", right)
    if isinstance(left, complex):
        return is_same([left.real, left.imag], [right.real, right.imag])
    if isinstance(left, datetime.datetime | datetime.time):
        return left.isoformat() == right.isoformat() and left.fold == right.fold
    if isinstance(left, decimal.Decimal):
        return str(left) == str(right)
    return bool(left == right)


def same_members(left: Any, right: Any) -> bool:
    rest = list(right)
    for item in left:
        match = next((i for i, other in enumerate(rest) if is_same(item, other)), None)
        if match is None:
            return False
        rest.pop(match)
    return not rest


def round_trip(value: Any) -> Any:
    found = Encoding()
    printed = encode(value, found)
    assert found.problems == []
    assert canonical(json.loads(printed)) == printed
    back = decode_text(printed, found.arrays)
    # one value has one form, also when it is written again, and when it stands alone
    assert encode(back, Encoding()) == printed
    assert is_same(decode_text(encode(value)), back)
    return back


plain_keys = st.text(max_size=4) | st.just(TAG)
hashables = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(), max_size=4)
    | st.binary(max_size=4)
    | st.dates()
    | st.uuids()
    | st.decimals(allow_nan=False),
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3),
    max_leaves=4,
)
arrays = hnp.arrays(
    hnp.boolean_dtypes()
    | hnp.integer_dtypes(endianness="?")
    | hnp.floating_dtypes(endianness="?", sizes=(16, 32, 64))
    | hnp.complex_number_dtypes(sizes=(64, 128))
    | hnp.datetime64_dtypes()
    | hnp.timedelta64_dtypes()
    | hnp.byte_string_dtypes(max_len=3)
    | hnp.unicode_string_dtypes(max_len=3)
    | hnp.array_dtypes(allow_subarrays=True, max_size=3),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
)
leaves = (
    hashables
    | st.floats()
    | st.complex_numbers()
    | st.decimals()
    | st.times()
    | st.datetimes(timezones=st.none() | st.timezones(), allow_imaginary=False)
    | st.timedeltas()
    | st.binary().map(bytearray)
    | arrays
    | st.integers(2**2000, 2**2010)
)
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(plain_keys, inner, max_size=3)
        | st.dictionaries(hashables, inner, max_size=3)
        | st.dictionaries(hashables, inner, max_size=3).map(collections.OrderedDict)
        | st.sets(hashables, max_size=3)
    ),
    max_leaves=8,
)


@given(values)
def test_any_value_comes_back_with_its_types_and_bits(value: Any) -> None:
    assert is_same(round_trip(value), value)


looks_tagged = st.recursive(
    st.none() | st.integers() | st.text(max_size=3) | st.sampled_from(sorted(_READERS)),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from([TAG, "items", "value", "sha256", "zlib", "dtype", "shape"]), inner
        )
    ),
)


@given(looks_tagged)
def test_a_users_value_that_looks_tagged_stays_what_it_is(value: Any) -> None:
    assert is_same(round_trip(value), value)


def test_a_dict_with_the_tags_key_is_written_as_pairs() -> None:
    assert encode({TAG: "tuple", "items": [1]}) == (
        b'{"$envbench":"dict","items":[["$envbench","tuple"],["items",[1]]]}'
    )


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: int = 0


@dataclasses.dataclass(frozen=True, eq=False)
class Token:
    name: str


@dataclasses.dataclass
class Unset:
    known: int = 1
    unknown: int = dataclasses.field(init=False)


@dataclasses.dataclass(eq=False)
class Node:
    parent: Node | None = None
    left: Node | None = None
    right: Node | None = None


class Invoice(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    amount: decimal.Decimal


class Color(enum.Enum):
    RED = (255, 0)


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Level(enum.IntEnum):
    HIGH = 3


class Table(dict[str, Any]):
    def __init__(self, rows: dict[str, Any], turn: int) -> None:
        super().__init__(rows)
        self.turn = turn

    def __iter__(self) -> Any:
        raise RuntimeError("not asked")

    items = keys = values = __len__ = __iter__  # type: ignore[assignment]


class Word(str):
    __slots__ = ("page",)


class Count(int):
    pass


class Moment(datetime.datetime):
    pass


Pair = collections.namedtuple("Pair", "first second")
word = Word("a")
word.page = 4  # type: ignore[attr-defined]
HERE = __name__


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (Point(1), Named(f"{HERE}.Point", {"x": 1, "y": 0})),
        (Color.RED, Named(f"{HERE}.Color", (255, 0), "RED")),
        (Access.READ | Access.WRITE, Named(f"{HERE}.Access", 3, "READ|WRITE")),
        (Level.HIGH, Named(f"{HERE}.Level", 3, "HIGH")),
        (
            Invoice(amount="1.50", note="x"),  # type: ignore[call-arg, arg-type]
            Named(f"{HERE}.Invoice", {"amount": decimal.Decimal("1.50"), "note": "x"}),
        ),
        (Pair(1, (2,)), Named(f"{HERE}.Pair", {"first": 1, "second": (2,)})),
        (Table({"a": 1}, 3), Named(f"{HERE}.Table", {"a": 1}, None, {"turn": 3})),
        (word, Named(f"{HERE}.Word", "a", None, {"page": 4})),
        (Count(5), Named(f"{HERE}.Count", 5)),
        (Moment(2026, 1, 2), Named(f"{HERE}.Moment", datetime.datetime(2026, 1, 2))),
        (collections.defaultdict(list, a=[1]), Named("collections.defaultdict", {"a": [1]})),
        (collections.Counter("aab"), Named("collections.Counter", {"a": 2, "b": 1})),
        (collections.deque([1, 2]), Named("collections.deque", [1, 2])),
        (
            collections.deque([1], maxlen=2),
            Named("collections.deque", [1], None, {"maxlen": 2}),
        ),
        (range(1, 9, 2), Named("range", {"start": 1, "stop": 9, "step": 2})),
        (
            fractions.Fraction(1, 3),
            Named("fractions.Fraction", {"numerator": 1, "denominator": 3}),
        ),
        (pathlib.PurePosixPath("/a"), Named("pathlib.PurePosixPath", "/a")),
        (types.MappingProxyType({"a": 1}), Named("mappingproxy", {"a": 1})),
        (types.SimpleNamespace(a=1), Named("types.SimpleNamespace", {"a": 1})),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_of_a_class_decodes_to_its_name_and_content(value: Any, named: Named) -> None:
    assert round_trip(value) == named


def test_masked_arrays_keep_their_mask() -> None:
    back = round_trip(np.ma.masked_array([1, 2], mask=[False, True]))
    assert back.type == "numpy.ma.MaskedArray"
    assert back.value["data"].tolist() == [1, 2]
    assert back.value["mask"].tolist() == [False, True]


def test_what_is_hashable_stays_a_key_and_a_member() -> None:
    point = Named(f"{HERE}.Point", {"x": 1, "y": 0})
    assert round_trip({Point(1): "a", (Point(1), 2): "b"}) == {point: "a", (point, 2): "b"}
    assert round_trip({Point(1), Pair(1, 2)}) == {
        point,
        Named(f"{HERE}.Pair", {"first": 1, "second": 2}),
    }
    # equal values have equal hashes
    assert hash(Named("T", {"a": [1]})) == hash(Named("T", {"a": [1.0]}))


def test_an_ordered_dict_keeps_its_order() -> None:
    there = collections.OrderedDict([("b", 1), ("a", 2)])
    back = collections.OrderedDict([("a", 2), ("b", 1)])
    assert list(round_trip(there)) == ["b", "a"]
    assert encode(there) != encode(back)


quiet = np.array([0x7FF8000000000001, 0xFFF8000000000000], np.uint64).view(np.float64)
aligned = np.dtype([("a", "i1"), ("b", "i4")], align=True)


@pytest.mark.parametrize(
    "value",
    [
        np.float64("nan"),
        quiet,
        quiet[0],
        float(quiet[1]),
        -0.0,
        np.float32(-0.0),
        np.array([-0.0, 1.5], np.float16),
        np.array(5),
        np.array(None, object),
        np.array([], np.float32),
        np.zeros((2, 0, 3), np.int8),
        np.arange(4, dtype=">i4"),
        np.arange(2000, dtype=">f8"),
        np.float64(1.5).astype(">f8"),
        np.array(["2026-01-02", "NaT"], "datetime64[ns]"),
        np.datetime64("2026-01-02", "D"),
        np.timedelta64("NaT", "s"),
        np.array([(1, 2.5)], [("a", "i2"), ("b", ">f4")]),
        np.array([(1, 2)], aligned),
        np.array([(1, 2)], aligned)[0],
        np.array([((1, 2), "x")], [("p", [("q", "i1"), ("r", "i8")]), ("s", "U2", ())]),
        np.zeros(2, []),
        np.zeros(3, "V0"),
        np.array([b"a\0", b"b"]),
        np.str_("a\0"),
        np.str_(""),
        np.str_("\ud800"),
        np.bytes_(b"a\0"),
        np.bytes_(b""),
        np.void(b"ab"),
        np.bool_(True),
        np.uint64(2**64 - 1),
        np.array([2**64 - 1], np.uint64),
        np.complex64(complex(-0.0, math.inf)),
        np.longdouble("0.1"),
        np.array([[1, [2, "a"]], [None, np.arange(3)]], object),
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.arange(4000)[::2],
        np.zeros((0, 2000), np.uint8),
    ],
    ids=repr,
)
def test_numpy_values_come_back_bit_equal(value: Any) -> None:
    assert is_same(round_trip(value), value)


def test_a_memmap_comes_back_as_an_array(tmp_path: Path) -> None:
    mapped = np.memmap(tmp_path / "m", np.int16, "w+", shape=(3,))
    mapped[:] = [1, 2, 3]
    assert is_same(round_trip(mapped), np.array([1, 2, 3], np.int16))


def test_padding_does_not_enter() -> None:
    one, other = np.zeros(2, aligned), np.zeros(2, aligned)
    other.view(np.uint8)[1:4] = 255  # bytes 1 to 3 of the structure belong to no field
    assert encode(one) == encode(other)
    third = np.array([1], np.longdouble) / 3
    assert encode(third.copy()) == encode(np.array([np.longdouble(1) / 3]))
    dirty = third.copy()
    if np.finfo(np.longdouble).nmant == 63:
        dirty.view(np.uint8)[10:] = 255
    assert encode(dirty) == encode(third)
    assert encode(dirty[0]) == encode(third[0])
    assert encode(np.repeat(dirty, 2000)) == encode(np.repeat(third, 2000))


berlin = zoneinfo.ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (
            datetime.datetime(2026, 10, 25, 2, 30, tzinfo=berlin, fold=1),
            {"value": "2026-10-25T02:30:00", "fold": 1, "zone": "Europe/Berlin"},
        ),
        (
            datetime.datetime(2026, 1, 2, 3, 4, 5, 6, datetime.UTC),
            {"value": "2026-01-02T03:04:05.000006+00:00"},
        ),
        (datetime.time(2, 30, tzinfo=berlin), {"value": "02:30:00", "zone": "Europe/Berlin"}),
        (datetime.timedelta(hours=-1), {"days": -1, "seconds": 82800, "microseconds": 0}),
        (decimal.Decimal("sNaN12"), {"value": "sNaN12"}),
        (decimal.Decimal("-0.00"), {"value": "-0.00"}),
        (10**700, {"hex": hex(10**700)}),
        (-(10**5000), {"hex": hex(-(10**5000))}),
        ("a\ud800", {"base64": "Ye2ggA=="}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_how_values_are_written(value: Any, written: dict[str, Any]) -> None:
    form = parse(encode(value))
    kind = form.pop(TAG)
    assert form == written
    assert is_same(decode({TAG: kind, **written}), value)


def test_every_tag_of_the_document_is_the_one_form_of_its_value(blocks: dict[str, str]) -> None:
    examples = [json.loads(line) for line in blocks["jsonl"].splitlines()]
    # the document shortens the one for long integers
    assert {form[TAG] for form in examples} | {"int"} == set(_READERS)
    for form in examples:
        if "sha256" in form and form[TAG] == "array" and "zlib" not in form:
            continue  # its content is in the line after it
        into: dict[str, bytes] = {}
        plain = extract_arrays(form, into)
        assert tag(decode(form), Encoding()) == plain


def test_large_arrays_are_kept_apart() -> None:
    found = Encoding()
    frame = np.arange(1025, dtype=np.uint16)
    form = parse(encode({"frame": frame}, found))
    assert form["frame"].keys() == {TAG, "dtype", "shape", "sha256"}
    assert list(found.arrays) == [form["frame"]["sha256"]]
    alone = inline_arrays(form, found.arrays)
    assert is_same(decode(alone), {"frame": frame})
    taken: dict[str, bytes] = {}
    assert extract_arrays(alone, taken) == form
    assert taken == found.arrays
    # one element less stays text
    assert parse(encode(frame[:1024]))["data"] == list(range(1024))


class Hostile:
    def __init__(self) -> None:
        self.touched = 0

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise RuntimeError("no class")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no equality")

    def __hash__(self) -> int:
        return 1

    def __len__(self) -> int:
        raise RuntimeError("no length")

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class Closed(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Raising(enum.Enum):
    A = 1

    @property
    def value(self) -> Any:
        raise Closed


class NoName(type):
    def __getattribute__(cls, name: str) -> Any:
        if name == "__module__":
            raise RuntimeError("no module")
        return super().__getattribute__(name)


class Nameless(metaclass=NoName):
    pass


def generator() -> Any:
    yield 1


NO_TYPE = "it is no value of a type that evidence can hold"


LOST: list[tuple[Any, str, str]] = [
    (print, "builtin_function_or_method", NO_TYPE),
    (generator, "function", NO_TYPE),
    (generator(), "generator", NO_TYPE),
    (threading.Lock(), "_thread.lock", NO_TYPE),
    (math, "module", NO_TYPE),
    (int, "type", NO_TYPE),
    (Hostile(), f"{HERE}.Hostile", NO_TYPE),
    (Raising.A, f"{HERE}.Raising", "<message unavailable: __str__ raised RuntimeError>"),
    (Nameless(), "unknown", NO_TYPE),
    (np.zeros(1, [("a", object)]), "numpy.ndarray", "holds Python objects in fields"),
    (
        datetime.datetime(2026, 1, 2, tzinfo=type("Z", (datetime.tzinfo,), {})()),
        "datetime.datetime",
        "its time zone is a",
    ),
    ({Token("a"), Token("a")}, "set", "two of its members would be one in evidence"),
    ({print: 1, len: 2}, "dict", "two of its keys would be one in evidence"),
]


@pytest.mark.parametrize("case", range(len(LOST)))
def test_what_cannot_be_kept_is_missing_and_the_rest_is_kept(case: int) -> None:
    value, kind, reason = LOST[case]
    found = Encoding()
    back = decode_text(encode({"a": 1, "b/c": [value]}, found))
    assert back["a"] == 1
    assert type(back["b/c"][0]) is Missing
    assert back["b/c"][0].type == kind
    assert reason in back["b/c"][0].reason
    assert found.problems[-1] == Problem("/b~1c/0", kind, back["b/c"][0].reason)
    with pytest.raises(ValueError, match=r"^/b~1c/0.*: cannot keep a "):
        encode({"b/c": [value]})


def test_a_socket_is_missing() -> None:
    with socket.socket() as value:
        found = Encoding()
        assert type(decode_text(encode((1, value), found))[1]) is Missing
        assert found.problems == [Problem("/1", "socket.socket", NO_TYPE)]


def test_of_a_dataclass_only_the_field_that_cannot_be_read_is_missing() -> None:
    found = Encoding()
    back = decode_text(encode(Unset(), found))
    assert back.value["known"] == 1
    assert back.value["unknown"].type == "unreadable"
    assert found.problems[0].place == "/unknown"


def test_members_of_a_set_that_cannot_be_kept_are_each_a_problem() -> None:
    found = Encoding()
    assert decode_text(encode({print, len, 1}, found)) == {
        1,
        Missing("builtin_function_or_method", NO_TYPE),
    }
    assert len(found.problems) == 2


def test_what_contains_itself_ends() -> None:
    items: list[Any] = [np.int8(1)]
    items.append(items)
    found = Encoding()
    assert decode_text(encode(items, found)) == [1, Missing("list", "it contains itself")]
    root = Node()
    root.left, root.right = Node(parent=root), Node(parent=root)
    root.left.right = root.right
    found = Encoding()
    back = decode_text(encode(root, found))
    assert back.value["left"].value["parent"].reason == "it contains itself"
    assert {problem.place for problem in found.problems} == {
        "/left/parent",
        "/left/right/parent",
        "/right/parent",
    }


def test_what_is_nested_too_deeply_is_cut_off_there() -> None:
    value: Any = 1
    for _ in range(500):
        value = (value,)
    found = Encoding()
    back = decode_text(encode({"deep": value, "other": 2}, found))
    assert back["other"] == 2
    assert found.problems[0].reason == "its JSON is nested deeper than 180 levels"
    for wrap in (lambda v: [v], lambda v: {"a": v}, lambda v: {1: v}, lambda v: {"a": (v, 1.0)}):
        deep: Any = np.int8(1)
        for _ in range(60):
            deep = wrap(deep)
        assert is_same(round_trip(deep), deep)


def test_a_value_that_grows_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tagged, "MAX_PARTS", 10_000)
    shared: list[Any] = [np.int8(1)]
    for _ in range(60):
        shared = [shared, shared]
    found = Encoding()
    assert type(decode_text(encode(shared, found))) is Missing
    assert found.problems[0].reason.startswith("it has more than 10,000 parts")


@given(values)
def test_encoding_changes_nothing(value: Any) -> None:
    before = copy.deepcopy(value)
    encode({"a": [value]}, Encoding())
    assert is_same(value, before)


def test_a_kept_value_stays_as_it_was_seen() -> None:
    live = {"rows": [1], "frame": np.zeros(2000), "lock": threading.Lock()}
    seen = keep(live)
    live["rows"].append(2)  # type: ignore[attr-defined]
    found = Encoding()
    back = decode_text(encode({"info": seen}, found), found.arrays)
    assert back["info"]["rows"] == [1]
    assert [problem.place for problem in found.problems] == ["/info/lock"]
    assert len(found.arrays) == 1


def test_cut_missing_named_and_absent_stay_what_they_are() -> None:
    named = Named("T", {1: 2}, None, {"a": 1})
    for value in (Cut("abc", 9, "0" * 64), Missing("T", "\ud800"), named):
        assert round_trip(value) == value
    assert round_trip({"before": ABSENT})["before"] is ABSENT
    assert copy.deepcopy(ABSENT) is ABSENT


DIGEST = "0" * 64


@pytest.mark.parametrize(
    "form",
    [
        {TAG: None},
        {TAG: "nothing"},
        {TAG: ["tuple"]},
        {TAG: "tuple"},
        {TAG: "tuple", "items": 3},
        {TAG: "float", "value": "1.5"},
        {TAG: "float", "value": "nan", "bits": "00"},
        {TAG: "float", "value": "nan", "bits": "3ff0000000000000"},
        {TAG: "int", "hex": "zz"},
        {TAG: "str", "base64": "*"},
        {TAG: "bytes", "base64": "A"},
        {TAG: "set", "items": [[1]]},
        {TAG: "dict", "items": [[1]]},
        {TAG: "dict", "items": [[[], 1]]},
        {TAG: "decimal", "value": "x"},
        {TAG: "uuid", "value": "x"},
        {TAG: "datetime", "value": "2026-13-01"},
        {TAG: "datetime", "value": "2026-01-01", "zone": "No/Where"},
        {TAG: "date", "value": 5},
        {TAG: "timedelta", "days": 10**12, "seconds": 0, "microseconds": 0},
        {TAG: "scalar", "dtype": "<f4", "base64": ""},
        {TAG: "scalar", "dtype": "nothing", "value": 1},
        {TAG: "array", "dtype": "<i4", "shape": [3], "data": [1]},
        {TAG: "array", "dtype": "<i4", "shape": [1], "base64": "AAAA"},
        {TAG: "array", "dtype": "|O", "shape": [10**15], "items": []},
        {TAG: "array", "dtype": "|O", "shape": [1], "base64": "AAAAAAAAAAA="},
        {TAG: "array", "dtype": "<i4", "shape": [2000], "sha256": DIGEST},
        {TAG: "array", "dtype": "<i4", "shape": [2000], "sha256": DIGEST, "zlib": "AAAA"},
        {
            TAG: "array",
            "dtype": "|u1",
            "shape": [3],
            "sha256": DIGEST,
            "zlib": "eJwDAAAAAAE=",
        },
        {TAG: "named", "type": "T"},
        {TAG: "missing", "type": "T"},
    ],
    ids=str,
)
def test_malformed_tags_are_refused(form: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="tag"):
        decode([form])


def test_content_that_would_inflate_without_end_is_refused() -> None:
    form = inline_arrays(tag(np.zeros(2_000_000, np.uint8), found := Encoding()), found.arrays)
    with pytest.raises(ValueError, match="has another SHA-256"):
        decode({**form, "shape": [10]})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            {"s": object()},
            "/s: cannot keep an object: it is no value of a type that evidence can hold",
        ),
        (
            [Path],
            "/0: cannot keep a type: it is no value of a type that evidence can hold",
        ),
    ],
)
def test_what_cannot_be_kept_is_a_plain_value_error(value: Any, message: str) -> None:
    for refusing in (encode, tag):
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$") as caught:
            refusing(value)
        assert type(caught.value) is ValueError
        assert caught.value.__suppress_context__


class Answered:
    """Says itself what evidence keeps of it: all but the secret."""

    def __init__(self, said: Any) -> None:
        self.said = said
        self.secret = "4711"

    def __evidence__(self) -> dict[str, Any]:
        return {"said": self.said}


def test_a_class_may_say_what_is_kept_of_its_values() -> None:
    assert tagged.encode([Answered({1, 2})]) == (b'[{"said":{"$envbench":"set","items":[1,2]}}]')
    found = Encoding()
    assert tagged.tag({"a": Answered(threading.Lock())}, found)["a"]["said"]["type"] == (
        "_thread.lock"
    )
    assert found.problems[0].place == "/a/said"


def test_a_value_that_fails_to_say_what_is_kept_is_missing() -> None:
    class Broken:
        def __evidence__(self) -> Any:
            raise OSError("gone")

    found = Encoding()
    decoded = tagged.decode(tagged.tag(Broken(), found))
    assert decoded.reason == "reading it raised OSError: gone"
