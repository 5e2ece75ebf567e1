from __future__ import annotations

import json
import math
import warnings
from typing import Any

import numpy as np
import pytest
from gymnasium import Space
from gymnasium.spaces import (
    Box,
    Dict,
    Discrete,
    Graph,
    GraphInstance,
    MultiBinary,
    MultiDiscrete,
    OneOf,
    Sequence,
    Text,
    Tuple,
)
from hypothesis import given
from hypothesis import strategies as st

from envbench.evidence.portable import canonical, parse
from envbench.evidence.spaces import SpaceCodec, describe, rebuild
from envbench.evidence.tagged import TAG, Encoding, Missing


def is_same(left: Any, right: Any) -> bool:
    """Whether two samples agree bit for bit; an int and NumPy's integer of its value do."""
    if isinstance(left, np.ndarray):
        return (
            type(right) is np.ndarray
            and left.dtype == right.dtype
            and left.shape == right.shape
            and left.tobytes() == right.tobytes()
        )
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(is_same(left[k], right[k]) for k in left)
    if isinstance(left, list | tuple):
        return (
            type(left) is type(right) and len(left) == len(right) and all(map(is_same, left, right))
        )
    if isinstance(left, int | np.integer):
        return int(left) == int(right)
    return type(left) is type(right) and bool(left == right)


class Mood(Space[str]):
    """A space of a user's own."""

    def __init__(self) -> None:
        super().__init__()

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        return "good"

    def contains(self, x: Any) -> bool:
        return x in ("good", "bad")


class OwnBox(Box):
    """A user's subclass of one of Gymnasium's."""


box = Box(-1, 1, (3,), np.float32)
FAITHFUL: dict[str, Space[Any]] = {
    "box": box,
    "box of one": Box(0, 1, (1,), np.float64),
    "box 0-d": Box(-1, 1, (), np.float32),
    "box 2-d": Box(-1, 1, (2, 2), np.float16),
    "box bounds": Box(np.array([0.0, -np.inf]), np.array([np.inf, 5.0]), dtype=np.float64),
    "box of integers": Box(-(2**62), 2**62, (2,), np.int64),
    "box of bytes": Box(0, 255, (4,), np.uint8),
    "box of nothing": Box(0, 1, (2, 0), np.float32),
    "frame": Box(0, 255, (210, 160, 3), np.uint8),
    "stack": Box(0, 255, (2, 64, 64), np.uint8),
    "large floats": Box(-1, 1, (1500,), np.float32),
    "large bounds": Box(np.arange(2000.0), np.arange(2000.0) + 1, dtype=np.float64),
    "discrete": Discrete(5),
    "discrete from": Discrete(5, start=-2),
    "discrete dtype": Discrete(3, dtype=np.int32),
    "multi-binary": MultiBinary(4),
    "multi-binary n-d": MultiBinary((2, 3)),
    "multi-binary large": MultiBinary(2000),
    "multi-discrete": MultiDiscrete([2, 3]),
    "multi-discrete n-d": MultiDiscrete([[2, 3], [4, 5]], dtype=np.int32),
    "multi-discrete from": MultiDiscrete([2, 3], start=[-1, 5]),
    "text": Text(6, min_length=0, charset="aé€\U0001f600"),
    "tuple": Tuple((Discrete(2), box)),
    "dict": Dict({"b": box, "a": Dict({"x": Discrete(2), "t": Tuple((Text(3), MultiBinary(2)))})}),
    "dict with a frame": Dict({"image": Box(0, 255, (64, 64), np.uint8), "n": Discrete(2)}),
    "dict in another order": Dict([("z", Discrete(2)), ("a", Discrete(3))]),
    "sequence": Sequence(Discrete(4)),
    "sequence of boxes": Sequence(box),
    "sequence of frames": Sequence(Box(0, 255, (40, 40), np.uint8)),
    "stacked sequence": Sequence(box, stack=True),
    "graph": Graph(box, Discrete(3)),
    "graph of boxes": Graph(box, Box(0, 1, (2,))),
    "graph without edges": Graph(box, None),
    "one of": OneOf((Discrete(3), box)),
    "one of frames": OneOf((Box(0, 255, (40, 40), np.uint8), Discrete(2))),
}
TAGGED: dict[str, Space[Any]] = {
    "empty tuple": Tuple(()),
    "empty dict": Dict({}),
    "dict with int keys": Dict({0: Discrete(2), 1: box}),  # type: ignore[dict-item]
    "dict with the tag": Dict({TAG: Discrete(2)}),
    "empty tuple inside": Dict({"a": Tuple(()), "b": Discrete(2)}),
    "own space": Mood(),
    "own box": OwnBox(-1, 1, (2,)),
    "own space inside": Tuple((Discrete(2), Mood())),
    "no space": None,  # type: ignore[dict-item]
}
EVERY = FAITHFUL | TAGGED


def samples(space: Space[Any] | None, n: int = 12) -> list[Any]:
    if space is None:
        return [1, "a", {"b": np.arange(2)}]
    space.seed(5)
    return [space.sample() for _ in range(n)]


def spelled_out(form: Any, arrays: dict[str, bytes]) -> Any:
    """Parsed JSON with the large arrays as lists."""
    if isinstance(form, list):
        return [spelled_out(item, arrays) for item in form]
    if not isinstance(form, dict):
        return form
    if form.get(TAG) == "array":
        flat = np.frombuffer(arrays[form["sha256"]], form["dtype"])
        return flat.reshape(form["shape"]).tolist()
    return {key: spelled_out(item, arrays) for key, item in form.items()}


def as_json(form: Any) -> Any:
    return json.loads(json.dumps(form))


@pytest.mark.parametrize("name", FAITHFUL)
def test_samples_are_written_as_the_space_writes_a_batch_of_one(name: str) -> None:
    space = FAITHFUL[name]
    codec = SpaceCodec(space)
    found = Encoding()
    texts = codec.encode(samples(space), found)
    for sample, text in zip(samples(space), texts, strict=True):
        assert canonical(parse(text)) == text
        assert spelled_out(parse(text), found.arrays) == as_json(space.to_jsonable([sample]))
    assert codec.unfaithful == 0
    assert found.problems == []


@pytest.mark.parametrize("name", EVERY)
def test_samples_come_back_from_the_description_alone(name: str) -> None:
    space = EVERY[name]
    codec = SpaceCodec(space)
    found = Encoding()
    texts = codec.encode(samples(space), found)
    reader = SpaceCodec.from_description(as_json(codec.description))
    for sample, text in zip(samples(space), texts, strict=True):
        assert is_same(sample, reader.decode(parse(text), found.arrays))
    if name in TAGGED:
        assert codec.unfaithful == len(texts)
        assert all(parse(text)[TAG] == "sample" for text in texts)


@pytest.mark.parametrize("name", EVERY)
def test_a_column_is_written_as_its_samples_one_by_one(name: str) -> None:
    space = EVERY[name]
    found, single = Encoding(), Encoding()
    texts = SpaceCodec(space).encode(samples(space, 40), found)
    assert texts == [
        text for one in samples(space, 40) for text in SpaceCodec(space).encode([one], single)
    ]
    assert found.arrays == single.arrays


def test_a_chunk_of_5000_is_written_as_its_samples_one_by_one() -> None:
    values = np.random.default_rng(3).normal(0, 1, (5000, 4)).astype(np.float32)
    values[::7] *= 1e-4  # where the two printers differ
    values[::11] *= 1e18
    space = Box(-np.inf, np.inf, (4,), np.float32)
    column = SpaceCodec(space).encode(list(values), Encoding())
    assert column == [canonical([row]) for row in values.astype(np.float64).tolist()]
    assert SpaceCodec(space).encode([], Encoding()) == []


@pytest.mark.parametrize("name", FAITHFUL)
def test_a_rebuilt_space_equals_the_declared_one(name: str) -> None:
    space = FAITHFUL[name]
    assert rebuild(as_json(describe(space))) == space


@pytest.mark.parametrize("name", TAGGED)
def test_descriptions_are_portable(name: str) -> None:
    canonical(describe(TAGGED[name]))
    assert rebuild(describe(Mood())) is None
    assert describe(None) is None
    assert describe(OwnBox(0, 1))["type"] == f"{__name__}.OwnBox"


def test_worked_examples() -> None:
    found = Encoding()

    def written(space: Space[Any], value: Any) -> str:
        return SpaceCodec(space).encode([value], found)[0].decode()

    assert written(Discrete(5), 3) == "[3]"
    assert written(Discrete(5), np.int64(3)) == "[3]"
    assert written(box, np.array([0.1, 0, -1], np.float32)) == "[[0.10000000149011612,0.0,-1.0]]"
    assert written(Box(0, 1, ()), np.array(0.5, np.float32)) == "[0.5]"
    assert written(MultiBinary(2), np.array([1, 0], np.int8)) == "[[1,0]]"
    assert written(Text(3), "ab") == '["ab"]'
    assert written(Tuple((Discrete(2), Text(3))), (1, "a")) == '[[1],["a"]]'
    assert written(Dict({"b": Discrete(2), "a": Text(1)}), {"a": "x", "b": 1}) == (
        '{"a":["x"],"b":[1]}'
    )
    assert written(OneOf((Discrete(2), Text(3))), (1, "a")) == '[[1,"a"]]'
    assert written(Sequence(Discrete(4)), (1, 2)) == "[[1,2]]"
    frame = np.zeros((40, 40), np.uint8)
    form = json.loads(written(Box(0, 255, (40, 40), np.uint8), frame))
    assert (form["dtype"], form["shape"]) == ("|u1", [1, 40, 40])
    assert found.arrays[form["sha256"]] == bytes(1600)


nan = np.array([math.nan, 0, 1], np.float32)
payload = np.array([0x7FC00001, 0, 0], np.uint32).view(np.float32)
UNUSUAL: list[tuple[Space[Any], Any]] = [
    (box, nan),
    (box, payload),
    (box, np.array([math.inf, 0, 0], np.float32)),
    (box, np.array([0.1, 0.2, 0.3])),  # another width
    (box, np.array([1, 2, 3])),
    (box, np.array([0, 0], np.float32)),  # another shape
    (box, np.array([-0.0, 1e-45, 0], np.float32)),
    (box, np.array([0, 1, 2], ">f4")),
    (box, [0.0, 1.0, 2.0]),
    (box, "text"),
    (box, None),
    (Box(-1, 1, (2,), ">f4"), np.array([0.5, 1], ">f4")),
    (Box(0, 255, (40, 40), np.uint8), np.zeros((40, 40))),
    (Box(-1, 1, (2000,), np.float32), np.full(2000, np.nan, np.float32)),
    (Box(-1, 1, (2,), np.longdouble), np.array([0.5, 1], np.longdouble)),
    (Discrete(2), 7),
    (Discrete(2), 2**70),
    (Discrete(2), True),
    (Discrete(2), np.array(1)),
    (Discrete(2), 1.0),
    (Discrete(3, dtype=np.int8), 300),
    (Discrete(3, dtype=np.int8), np.int64(300)),
    (MultiBinary(2), np.array([True, False])),
    (MultiDiscrete([2, 3]), [1, 2]),
    (Text(3), "\ud800"),
    (Text(3), np.str_("ab")),
    (Tuple((Discrete(2),)), [1]),
    (Tuple((Discrete(2),)), (1, 2)),
    (Dict({"a": Discrete(2)}), {"a": 1, "b": 2}),
    (Dict({"a": Discrete(2)}), {}),
    (Graph(box, Discrete(3)), None),
    (OneOf((Discrete(2), Dict({"a": Discrete(2)}))), (np.int64(1), {"a": np.int64(1)})),
    (
        Graph(box, Discrete(3)),
        GraphInstance(
            np.zeros((2, 3), np.float32), np.array([1], np.int64), np.array([[0, 1]], np.int64)
        ),
    ),
    (
        Dict({"g": Graph(box, None)}),
        {"g": GraphInstance(np.full((2, 3), np.nan, np.float32), None, None)},
    ),
]


@pytest.mark.parametrize("case", range(len(UNUSUAL)))
def test_whatever_the_environment_returned_comes_back_as_it_was(case: int) -> None:
    space, value = UNUSUAL[case]
    codec = SpaceCodec(space)
    found = Encoding()
    (text,) = codec.encode([value], found)
    assert found.problems == []
    back = SpaceCodec.from_description(codec.description).decode(parse(text), found.arrays)
    if isinstance(value, np.ndarray) and value.dtype == np.longdouble:
        assert back.dtype == value.dtype
        assert back.tolist() == value.tolist()
    else:
        assert is_same(value, back)
        assert type(back) is type(value) or isinstance(back, np.integer)


def test_integers_keep_their_kind_where_the_form_would_hide_it() -> None:
    (text,) = SpaceCodec(Discrete(2)).encode([True], Encoding())
    assert parse(text) == {TAG: "sample", "value": True}


def test_a_value_that_cannot_be_kept_is_missing_in_its_place() -> None:
    found = Encoding()
    codec = SpaceCodec(Dict({"a": Discrete(2)}))
    (text,) = codec.encode([{"a": print}], found, "/observation")
    assert codec.decode(parse(text)) == {
        "a": Missing(
            "builtin_function_or_method", "it is no value of a type that evidence can hold"
        )
    }
    assert [problem.place for problem in found.problems] == ["/observation/a"]


@pytest.mark.parametrize("name", EVERY)
def test_membership_agrees_with_the_space(name: str) -> None:
    space = EVERY[name]
    others = [value for _, value in UNUSUAL]
    values = samples(space) + others + [v for s in FAITHFUL.values() for v in samples(s, 1)]
    codec = SpaceCodec(space)
    with warnings.catch_warnings():
        if name == "own box":  # the user's class is asked, and has Gymnasium's warning
            warnings.simplefilter("ignore")
        outside = set(codec.outside(values))
        assert outside == {i for i, value in enumerate(values) if not codec.contains(value)}
    for i, value in enumerate(values):
        if space is not None and not is_of_another_width(value):
            assert (i not in outside) == contains_quietly(space, value)


def is_of_another_width(value: Any) -> bool:
    """Where the codec is more lenient than Gymnasium, which takes float32 for float64 only."""
    if isinstance(value, dict):
        return any(map(is_of_another_width, value.values()))
    if isinstance(value, tuple):
        return any(map(is_of_another_width, value))
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"


def contains_quietly(space: Space[Any], value: Any) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return bool(space.contains(value))
        except Exception:
            return False


@given(st.lists(st.sampled_from([-2.0, -1.0, 0.5, 1.0, 1.5, math.nan]), min_size=3, max_size=3))
def test_a_column_of_boxes_is_looked_at_as_one_by_one(row: list[float]) -> None:
    column = [np.array(row, np.float32), np.zeros(3, np.float32)]
    expected = [] if all(-1 <= x <= 1 for x in row) else [0]
    assert SpaceCodec(box).outside(column) == expected
    assert SpaceCodec(box).outside([*column, "no array"]) == [*expected, 2]


def test_a_float_of_another_width_is_a_member_and_kept() -> None:
    codec = SpaceCodec(Dict({"x": box}))
    wide = {"x": np.array([0.1, 0.2, 0.3])}
    assert codec.outside([wide]) == []
    assert codec.outside([{"x": np.array([0.1, 0.2, 1.5])}]) == [0]
    assert not contains_quietly(codec.space, wide)  # type: ignore[arg-type]


def test_every_value_of_the_dtype_is_inside_a_full_box() -> None:
    codec = SpaceCodec(Box(0, 255, (2,), np.uint8))
    assert codec.outside([np.array([0, 255], np.uint8)]) == []
    assert SpaceCodec(Box(0, 254, (2,), np.uint8)).outside([np.array([0, 255], np.uint8)]) == [0]


def test_large_columns_are_looked_at_in_pieces() -> None:
    space = Box(0, 1, (600_000,), np.float32)
    good, bad = np.zeros(600_000, np.float32), np.full(600_000, 2, np.float32)
    assert SpaceCodec(space).outside([good, bad, good, bad]) == [1, 3]


class Broken(Space[Any]):
    def __init__(self) -> None:
        super().__init__()

    def contains(self, x: Any) -> bool:
        raise RuntimeError("no answer")

    def __repr__(self) -> str:
        raise RuntimeError("no text")


def test_a_space_that_raises() -> None:
    codec = SpaceCodec(Broken())
    assert codec.description["repr"] == "<repr raised RuntimeError>"
    assert codec.outside([1]) == [0]
    assert codec.encode([1], Encoding()) == [b'{"$envbench":"sample","value":1}']


@pytest.mark.parametrize(
    ("space", "form"),
    [
        (Discrete(2), 1),
        (Discrete(2), []),
        (Discrete(2), [1, 2]),
        (Discrete(2), ["x"]),
        (box, [["a", 1, 2]]),
        (box, {TAG: "nothing"}),
        (Dict({"a": Discrete(2)}), {"b": [1]}),
        (Tuple((Discrete(2),)), None),
        (Mood(), "good"),
        (None, 1),
    ],
)
def test_json_that_is_no_sample_is_refused(space: Space[Any] | None, form: Any) -> None:
    with pytest.raises(ValueError, match=r"not a sample of|must be in tagged form"):
        SpaceCodec(space).decode(form)


@pytest.mark.parametrize(
    "description",
    [
        {"type": "Box", "repr": "Box"},
        {"type": "Box", "repr": "", "low": 0, "high": 1, "shape": [2], "dtype": "nothing"},
        {"type": "Discrete", "repr": "", "n": -1, "start": 0, "dtype": "<i8"},
        {"type": "Tuple", "repr": "", "spaces": 3},
        {"type": "Dict", "repr": "", "spaces": [[{TAG: "nothing"}, {"type": "Box"}]]},
    ],
)
def test_a_malformed_description_is_refused(description: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="malformed description of a space"):
        SpaceCodec.from_description(description)


class Calls(Space[Any]):
    """A space whose samples are portable JSON."""

    def contains(self, x: Any) -> bool:
        return isinstance(x, dict)

    def describe_portable(self) -> Any:
        return {"tools": ["pay"]}

    def __repr__(self) -> str:
        return "Calls(pay)"


def test_samples_of_a_portable_space_stand_for_themselves() -> None:
    codec = SpaceCodec(Calls())
    call = {"name": "pay", "arguments": {"when": math.nan, "cents": 2**70}}
    (text,) = codec.encode([call], Encoding())
    assert text == (
        b'[{"arguments":{"cents":1180591620717411303424,"when":{"$envbench":"float","value":"nan"}},'
        b'"name":"pay"}]'
    )
    assert (codec.unfaithful, codec.description["portable"]) == (0, {"tools": ["pay"]})
    reader = SpaceCodec.from_description(codec.description)
    assert canonical(reader.decode(parse(text))["arguments"]["cents"]) == b"1180591620717411303424"
    assert (codec.contains(3), reader.contains(3)) == (False, True)


def test_a_large_array_in_a_portable_sample_is_kept_beside_it() -> None:
    codec, found = SpaceCodec(Calls()), Encoding()
    image = np.arange(2_000, dtype=np.uint16)
    (text,) = codec.encode([{"image": image}], found)
    assert list(found.arrays.values()) == [image.tobytes()]
    back = SpaceCodec.from_description(codec.description).decode(parse(text), found.arrays)
    assert is_same(back["image"], image)


def test_what_a_portable_space_cannot_keep_is_missing() -> None:
    codec, found = SpaceCodec(Calls()), Encoding()
    (text,) = codec.encode([{"a": print}], found, "/action")
    assert isinstance(codec.decode(parse(text))["a"], Missing)
    assert [problem.place for problem in found.problems] == ["/action/a"]


def test_a_portable_space_inside_another_is_kept_in_tagged_form() -> None:
    codec = SpaceCodec(Dict({"call": Calls()}))
    (text,) = codec.encode([{"call": {"name": "pay"}}], Encoding())
    assert parse(text) == {"$envbench": "sample", "value": {"call": {"name": "pay"}}}
