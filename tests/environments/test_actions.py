from __future__ import annotations

import copy
import math
import pickle
import warnings
from typing import Any

import jsonschema
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from hypothesis import given
from hypothesis import strategies as st

from envbench.environments import ActionSpace, ToolCall, ToolSpec
from envbench.environments.sampling import sample_json
from envbench.evidence.portable import parse
from envbench.evidence.spaces import SpaceCodec
from envbench.evidence.tagged import Encoding

PAY = ToolSpec(
    "pay",
    "Pay.",
    {
        "type": "object",
        "properties": {
            "cents": {"type": "integer", "minimum": 1, "maximum": 3},
            "note": {"type": "string", "maxLength": 2},
        },
        "required": ["cents"],
        "additionalProperties": False,
    },
)
LOOK = ToolSpec("look", "Look.", {"type": "object", "properties": {}})


def test_a_call_is_a_value_of_its_own():
    arguments = {"cents": [1]}
    call = ToolCall("pay", arguments)
    arguments["cents"].append(2)
    assert call.arguments == {"cents": [1]}
    assert call == ToolCall("pay", {"cents": [1]})
    call.to_dict()["arguments"]["cents"].append(3)
    assert call.arguments == {"cents": [1]}
    assert ToolCall("pay").arguments == {}
    assert pickle.loads(pickle.dumps(call)) == copy.deepcopy(call) == call
    with pytest.raises(AttributeError):
        call.name = "other"  # type: ignore[misc]


def test_a_call_equals_the_dict_that_means_it():
    call = ToolCall("add", {"by": 2})
    plain = {"name": "add", "arguments": {"by": 2}}
    assert call == plain
    assert plain == call
    assert call != {"name": "add", "arguments": {"by": 3}}
    assert call != {"name": "add"}
    assert call != "add"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": math.nan}, "/x: nan is not a finite number"),
        ({"x": [1, {2}]}, "/x/1: builtins.set is not portable JSON"),
        ({"x": np.int64(1)}, "/x: numpy.int64 is not portable JSON"),
        ({1: 2}, "key 1 is int"),
        ({"x": "\ud800"}, "/x: text with a lone surrogate"),
    ],
)
def test_arguments_are_portable_json(arguments, message):
    with pytest.raises(ValueError, match=f"arguments of the tool 'pay' .*{message}"):
        ToolCall("pay", arguments)


def test_a_name_is_text():
    with pytest.raises(TypeError, match="name must be text, not int"):
        ToolCall(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "action",
    [
        ToolCall("pay", {"cents": 1}),
        ToolCall("there is no such tool"),
        {"name": "pay", "arguments": {}},
        {"name": "pay", "arguments": "{malformed"},
        "an answer",
        "",
    ],
)
def test_well_formed_actions_are_members_whatever_they_call(action):
    assert ActionSpace([PAY]).contains(action)
    assert action in ActionSpace()


@pytest.mark.parametrize(
    "action",
    [
        None,
        3,
        b"text",
        ["pay"],
        ("pay", {}),
        {},
        {"name": "pay"},
        {"name": "pay", "arguments": {}, "id": 1},
        {"name": 3, "arguments": {}},
        {"name": "pay", "arguments": {"x": math.inf}},
        {"name": "pay", "arguments": {"x": object()}},
    ],
)
def test_anything_else_is_no_member(action):
    assert not ActionSpace([PAY]).contains(action)


def test_samples_are_calls_that_fit_the_schema_and_the_seed_decides():
    space = ActionSpace([PAY, LOOK], seed=1)
    samples = [space.sample() for _ in range(200)]
    assert {sample.name for sample in samples} == {"pay", "look"}
    paid = [sample.arguments for sample in samples if sample.name == "pay"]
    assert {each["cents"] for each in paid} == {1, 2, 3}
    assert {"note" in each for each in paid} == {True, False}
    assert all(len(each.get("note", "")) <= 2 for each in paid)
    again = ActionSpace([PAY, LOOK])
    again.seed(1)
    assert [again.sample() for _ in range(200)] == samples
    assert all(map(space.contains, samples))


def test_a_mask_and_probabilities_choose_tools():
    space = ActionSpace([PAY, LOOK], seed=1)
    assert {space.sample(mask=[0, 1]).name for _ in range(20)} == {"look"}
    assert {space.sample(probability=[1.0, 0.0]).name for _ in range(20)} == {"pay"}
    for wrong in ([1], [0, 0], [-1, 2], [[1, 1]]):
        with pytest.raises(ValueError, match="one number from 0 for each of its 2 tools"):
            space.sample(mask=wrong)
    with pytest.raises(ValueError, match="not both"):
        space.sample(mask=[1, 1], probability=[0.5, 0.5])


def test_without_tools_a_sample_is_text():
    space = ActionSpace(seed=2)
    assert isinstance(space.sample(), str)
    assert space.sample() in space


def test_json_and_back():
    space = ActionSpace([PAY])
    actions = [ToolCall("pay", {"cents": 1}), "text", {"name": "x", "arguments": []}]
    form = space.to_jsonable(actions)
    assert form == [
        {"name": "pay", "arguments": {"cents": 1}},
        "text",
        {"name": "x", "arguments": []},
    ]
    assert space.from_jsonable(form) == [
        ToolCall("pay", {"cents": 1}),
        "text",
        ToolCall("x", []),
    ]
    with pytest.raises(ValueError, match="an action is a ToolCall"):
        space.from_jsonable([3])


def test_spaces_are_equal_when_their_tools_are_and_can_be_copied():
    assert ActionSpace([PAY]) == ActionSpace([PAY]) != ActionSpace([LOOK])
    assert ActionSpace([PAY]) != 3
    assert copy.deepcopy(ActionSpace([PAY])) == pickle.loads(pickle.dumps(ActionSpace([PAY])))
    assert repr(ActionSpace([PAY, LOOK])) == "ActionSpace(pay, look)"
    assert not ActionSpace().is_np_flattenable


def test_evidence_keeps_actions_as_plain_json_with_the_tools_in_the_space():
    codec = SpaceCodec(ActionSpace([PAY]))
    found = Encoding()
    texts = codec.encode([ToolCall("pay", {"cents": 2}), "bye"], found)
    assert texts == [b'[{"arguments":{"cents":2},"name":"pay"}]', b'["bye"]']
    assert codec.unfaithful == 0
    assert codec.description["portable"]["tools"][0]["name"] == "pay"
    reader = SpaceCodec.from_description(codec.description)
    assert reader.decode(parse(texts[0])) == {"name": "pay", "arguments": {"cents": 2}}


JSON_SCHEMAS: list[dict[str, Any]] = [
    {},
    {"type": "null"},
    {"type": "boolean"},
    {"type": "integer", "exclusiveMinimum": 3, "maximum": 5},
    {"type": "integer", "multipleOf": 5, "minimum": 1, "maximum": 20},
    {"type": "number", "minimum": 2},
    {"type": "number", "exclusiveMaximum": 2},
    {"type": "string", "minLength": 3, "maxLength": 3},
    {"type": "string", "format": "date-time"},
    {"type": "string", "format": "date"},
    {"type": "string", "format": "uuid"},
    {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2},
    {"type": "array", "prefixItems": [{"const": 1}, {"const": "x"}], "maxItems": 2, "minItems": 2},
    {"type": ["string", "null"]},
    {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    {"enum": ["a", 2, None]},
    {"allOf": [{"type": "boolean"}]},
    {"type": "object", "additionalProperties": {"type": "integer"}},
]


@given(st.sampled_from(JSON_SCHEMAS), st.integers(0, 2**32))
def test_drawn_values_fit_their_schema(schema, seed):
    value = sample_json(schema, np.random.default_rng(seed))
    jsonschema.validate(value, schema, format_checker=jsonschema.FormatChecker())


def test_a_schema_that_refers_to_itself_ends():
    node = {
        "type": "object",
        "properties": {
            "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
            "next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]},
        },
        "required": ["children", "next"],
    }
    schema = {"$defs": {"Node": node}, "$ref": "#/$defs/Node"}
    for seed in range(20):
        assert set(sample_json(schema, np.random.default_rng(seed))) == {"children", "next"}


def test_gymnasium_compares_calls():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert data_equivalence(ToolCall("a"), ToolCall("a"))
