from __future__ import annotations

import datetime
import inspect
import socket
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal, Optional, Union

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from envbench.environments import (
    Environment,
    Observation,
    ScriptedPolicy,
    State,
    TaskData,
    ToolCall,
    ToolFailed,
    result_text,
    tool,
)
from envbench.environments.tools import MAX_NESTING, InvalidArguments
from envbench.evidence.portable import canonical


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Address(BaseModel):
    """Where to send it."""

    street: str
    lines: list[str] = Field(default_factory=list)


class Person(BaseModel):
    name: str
    home: Address
    friends: list[Person] = Field(default_factory=list)


@dataclass
class Point:
    x: int
    y: int = 0


class Seen(Observation):
    calls: int


class Desk(Environment[Seen, State]):
    max_turns = 1_000

    def setup(self, task: TaskData) -> None:
        super().setup(task)
        self.calls: list[Any] = []

    def observe(self) -> Seen:
        return Seen(calls=len(self.calls))

    @tool
    def typed(
        self,
        whole: int,
        maybe: Optional[str] = None,  # noqa: UP045 - the old spelling must work, too
        either: Union[int, str] = "x",  # noqa: UP007
        kind: Literal["a", "b", 3] = "a",
        colour: Colour = Colour.RED,
        level: Level = Level.LOW,
        person: Person | None = None,
        people: list[Person] | None = None,
        by_name: dict[str, Address] | None = None,
        points: list[Point] | None = None,
        when: datetime.date | None = None,
        ratio: Annotated[float, Field(ge=0, le=1, description="from 0 to 1")] = 0.5,
        pair: tuple[int, str] = (1, "x"),
        names: set[str] | None = None,
    ) -> str:
        """Take every kind of argument.

        The second part of the text.

        Args:
            whole: a whole number,
                told on two lines.
            maybe (str): perhaps a text.
            colour: which one.
            nobody: no argument of the tool.

        Returns:
            Something.
        """
        self.calls.append(
            {name: value for name, value in locals().items() if name not in ("self", "__class__")}
        )
        return "done"

    @tool(name="plain-name", description="Told by hand.")
    def plain(self, anything, number=3):  # type: ignore[no-untyped-def]
        self.calls.append((anything, number))
        return anything

    @tool
    def first(self, a: int, /, b: int = 2, *, c: int = 3) -> list[int]:
        return [a, b, c]

    @tool
    def shadowing(self, copy: int, json: str, schema: bool, model_config: int, _under: int) -> Any:
        return [copy, json, schema, model_config, _under]

    @tool
    def mutable(self, items: list[int] = [], *, sentinel: Any = object) -> Any:  # noqa: B006
        items.append(len(items))
        return [items, sentinel is object]


def desk(**kwargs: Any) -> Desk:
    env = Desk(task=TaskData("t", "x"), **kwargs)
    env.reset()
    return env


def call(env: Environment[Any, Any], name: str, arguments: Any = None) -> dict[str, Any]:
    """What is recorded of a call."""
    _, _, _, _, info = env.step(ToolCall(name, {} if arguments is None else arguments))
    (record,) = info["tool_calls"]
    return dict(record)


def properties(name: str) -> dict[str, Any]:
    (spec,) = [each for each in desk().tools if each.name == name]
    return dict(spec.schema["properties"])


def test_a_schema_says_what_the_signature_says_though_annotations_are_postponed():
    (spec,) = [each for each in desk().tools if each.name == "typed"]
    parts = spec.schema["properties"]
    assert spec.schema["type"] == "object"
    assert spec.schema["required"] == ["whole"]
    assert spec.schema["additionalProperties"] is False
    assert parts["whole"]["type"] == "integer"
    assert parts["maybe"]["anyOf"] == [{"type": "string"}, {"type": "null"}]
    assert parts["maybe"]["default"] is None
    assert parts["either"]["anyOf"] == [{"type": "integer"}, {"type": "string"}]
    assert parts["kind"]["enum"] == ["a", "b", 3]
    assert parts["ratio"] == {
        "type": "number",
        "minimum": 0,
        "maximum": 1,
        "default": 0.5,
        "description": "from 0 to 1",
    }
    assert parts["colour"]["default"] == "red"
    assert spec.schema["$defs"]["Colour"]["enum"] == ["red", "blue"]
    assert spec.schema["$defs"]["Address"]["required"] == ["street"]
    assert spec.schema["$defs"]["Person"]["properties"]["friends"]["items"] == {
        "$ref": "#/$defs/Person"
    }


def test_texts_come_from_the_docstring():
    (spec,) = [each for each in desk().tools if each.name == "typed"]
    assert spec.description == "Take every kind of argument.\n\nThe second part of the text."
    parts = spec.schema["properties"]
    assert parts["whole"]["description"] == "a whole number, told on two lines."
    assert parts["maybe"]["description"] == "perhaps a text."
    assert parts["colour"]["description"] == "which one."
    assert "description" not in parts["either"]
    assert "nobody" not in parts


@pytest.mark.parametrize(
    "text",
    [
        "Do it.\n\nParameters\n----------\namount : int\n    How much.\n",
        "Do it.\n\n:param amount: How much.\n",
    ],
)
def test_other_styles_of_docstrings_are_read(text):
    def do(self: Any, amount: int) -> None: ...

    do.__doc__ = text
    spec = tool(do).spec
    assert spec.description == "Do it."
    assert spec.schema["properties"]["amount"]["description"] == "How much."


def test_arguments_reach_the_method_as_what_they_are_declared():
    env = desk()
    ada = {"name": "Ada", "home": {"street": "S 1"}, "friends": []}
    record = call(
        env,
        "typed",
        {
            "whole": 7,
            "kind": 3,
            "colour": "blue",
            "level": 2,
            "person": ada,
            "people": [ada, {**ada, "name": "Ben", "friends": [ada]}],
            "by_name": {"work": {"street": "W 2", "lines": ["x"]}},
            "points": [{"x": 1}],
            "when": "2026-01-02",
            "pair": [2, "y"],
            "names": ["b", "a", "b"],
        },
    )
    assert record["result"] == "done"
    (seen,) = env.calls
    assert (seen["whole"], seen["maybe"], seen["either"], seen["kind"]) == (7, None, "x", 3)
    assert (seen["colour"], seen["level"]) == (Colour.BLUE, Level.HIGH)
    assert seen["person"].home.street == "S 1"
    assert [each.name for each in seen["people"]] == ["Ada", "Ben"]
    assert seen["people"][1].friends[0].name == "Ada"
    assert seen["by_name"]["work"].lines == ["x"]
    assert seen["points"] == [Point(1, 0)]
    assert seen["when"] == datetime.date(2026, 1, 2)
    assert (seen["ratio"], seen["pair"], seen["names"]) == (0.5, (2, "y"), {"a", "b"})
    call(env, "typed", {"whole": "3"})  # as models often write it
    assert env.calls[-1]["whole"] == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "whole is missing"),
        ({"whole": "seven"}, "whole: Input should be a valid integer"),
        ({"whole": 1.5}, "whole: Input should be a valid integer"),
        ({"whole": None}, "whole: Input should be a valid integer"),
        ({"whole": 1, "more": 2}, "more is not an argument of the tool"),
        ({"whole": 1, "colour": "green"}, "colour: Input should be 'red' or 'blue'"),
        ({"whole": 1, "ratio": 2}, "ratio: Input should be less than or equal to 1, not 2"),
        ({"whole": 1, "person": {"name": "A"}}, "person.home is missing"),
        ({"whole": 1, "people": [{"name": 1}]}, "people.0.name: Input should be a valid string"),
        ("{not json", "arguments must be an object of the tool's arguments, not '{not json'"),
        ([1], "arguments must be an object of the tool's arguments, not [1]"),
        (None, "arguments must be an object of the tool's arguments, not None"),
    ],
)
def test_bad_arguments_are_a_tool_error_that_names_them(arguments, message):
    env = desk()
    _, reward, terminated, truncated, info = env.step({"name": "typed", "arguments": arguments})
    error = info["tool_calls"][0]["error"]
    assert error["kind"] == "invalid_arguments"
    assert error["message"].startswith(message)
    assert (reward, terminated, truncated, env.calls) == (0.0, False, False, [])
    assert call(env, "typed", {"whole": 1})["result"] == "done"  # the episode goes on


def test_an_unknown_tool_is_a_tool_error_that_names_those_there_are():
    error = call(desk(), "nope")["error"]
    assert error["kind"] == "unknown_tool"
    assert error["message"] == (
        "there is no tool 'nope'; there are: typed, plain-name, first, shadowing, mutable"
    )


def test_an_argument_without_annotation_takes_any_json():
    env = desk()
    assert properties("plain-name") == {"anything": {}, "number": {"default": 3}}
    for value in (None, True, 1, 1.5, "text", [1, [2]], {"a": {"b": None}}, 2**70):
        assert call(env, "plain-name", {"anything": value})["result"] == value
    assert env.calls[-1] == (2**70, 3)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda parts: (
        st.lists(parts) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), parts)
    ),
    max_leaves=10,
)


@given(JSON)
def test_any_json_reaches_the_tool_and_the_record_as_it_was_sent(value):
    env = desk()
    record = call(env, "plain-name", {"anything": value})
    assert canonical(record["arguments"]) == canonical({"anything": value})
    assert canonical(env.calls[-1][0]) == canonical(value)
    assert canonical(record["result"]) == canonical(value)


def test_name_and_description_can_be_told():
    assert Desk.plain.spec.name == "plain-name"
    assert Desk.plain.spec.description == "Told by hand."


def test_positional_and_keyword_only_parameters_are_named_by_the_policy():
    assert call(desk(), "first", {"a": 1, "c": 5})["result"] == [1, 2, 5]


def test_argument_names_may_be_those_of_pydantic():
    arguments = {"copy": 1, "json": "j", "schema": True, "model_config": 4, "_under": 5}
    assert call(desk(), "shadowing", arguments)["result"] == [1, "j", True, 4, 5]


def test_defaults_are_the_method_s_own_and_a_mutable_one_is_fresh_each_time():
    env = desk()
    assert call(env, "mutable")["result"] == [[0], True]
    assert call(env, "mutable")["result"] == [[0], True]
    assert properties("mutable")["items"]["default"] == []


def test_a_default_that_is_no_json_is_left_out_of_the_schema_and_counts():
    class Shop(Environment[Seen, State]):
        def observe(self) -> Seen:
            return Seen(calls=0)

        @tool
        def find(self, below: float = float("inf"), above: float = float("-inf")) -> bool:
            return above < 3 < below

    env = Shop()
    number = {"type": "number"}
    assert env.tools[0].schema["properties"] == {"below": number, "above": number}
    rollout = env.rollout(TaskData("t", "x"), ScriptedPolicy([ToolCall("find"), "done"]))
    assert rollout.trace.steps[0].tool_calls[0]["result"] is True


def test_a_tool_that_changes_its_argument_changes_neither_the_action_nor_the_script():
    env = desk()
    action = ToolCall("mutable", {"items": [7, 8]})
    _, _, _, _, info = env.step(action)
    assert info["tool_calls"][0]["result"] == [[7, 8, 2], True]
    assert info["tool_calls"][0]["arguments"] == {"items": [7, 8]}
    assert action.arguments == {"items": [7, 8]}


def test_local_classes_are_found_though_annotations_are_postponed():
    class Parcel(BaseModel):
        grams: int

    class Post(Environment[Seen, State]):
        class Stamp(BaseModel):
            cents: int

        def observe(self) -> Seen:
            return Seen(calls=0)

        @tool
        def send(self, parcel: Parcel, stamp: Stamp) -> int:
            return parcel.grams + stamp.cents

    env = Post(task=TaskData("t", "x"))
    env.reset()
    assert call(env, "send", {"parcel": {"grams": 5}, "stamp": {"cents": 80}})["result"] == 85


def test_a_module_s_name_may_be_defined_after_the_tool():
    assert call(later_desk(), "take", {"late": {"value": 3}})["result"] == 3


def later_desk() -> Environment[Any, Any]:
    env = Later(task=TaskData("t", "x"))
    env.reset()
    return env


class Later(Environment[Seen, State]):
    def observe(self) -> Seen:
        return Seen(calls=0)

    @tool
    def take(self, late: DefinedLate) -> int:
        return late.value


class DefinedLate(BaseModel):
    value: int


def test_an_annotation_that_names_nothing_is_said_when_the_tool_is_asked_for():
    class Odd(Environment[Seen, State]):
        def observe(self) -> Seen:
            return Seen(calls=0)

        @tool
        def lost(self, x: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(TypeError, match=r"tool 'lost': the annotation 'Nowhere' names nothing"):
        Odd()


def test_a_type_without_a_schema_is_refused_by_name():
    class Odd(Environment[Seen, State]):
        def observe(self) -> Seen:
            return Seen(calls=0)

        @tool
        def through(self, line: socket.socket) -> None: ...

    with pytest.raises(TypeError, match=r"tool 'through': no schema describes its arguments"):
        Odd()


def test_what_cannot_be_a_tool_is_refused_where_it_is_defined():
    def many(self: Any, *parts: int) -> None: ...

    def named(self: Any, **parts: int) -> None: ...

    def produce(self: Any) -> Any:
        yield 1

    async def produce_later(self: Any) -> Any:
        yield 1

    def alone() -> None: ...

    def named_only(*, self: Any) -> None: ...

    for function, message in (
        (many, r"takes \*parts: .* declare a list, parts: list"),
        (named, r"takes \*\*parts: .* declare a dict, parts: dict"),
        (produce, "is a generator: return a list of what it yields"),
        (produce_later, "is a generator: return a list of what it yields"),
        (alone, "takes no self"),
        (named_only, "takes no self"),
        (staticmethod(alone), "not on a staticmethod"),
        (classmethod(many), "not on a classmethod"),
        (tool(lambda self: 1), "is a tool already"),
        (int, "not on a type"),
        (3, "not on a int"),
    ):
        with pytest.raises(TypeError, match=message):
            tool(function)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="name must not be blank"):
        tool(name=" ")(lambda self: 1)


@pytest.mark.parametrize(
    "name", ["step", "reset", "render", "close", "rollout", "state", "seed", "unwrapped", "tools"]
)
def test_a_tool_may_not_hide_a_method_of_the_environment(name):
    def body(self: Any) -> None: ...

    message = f"tool '{name}' of Bad hides Environment.{name}: give the method another name"
    with pytest.raises(TypeError, match=message):
        type("Bad", (Environment,), {name: tool(body)})

    class Good(Environment[Seen, State]):
        def observe(self) -> Seen:
            return Seen(calls=0)

    good = type("Good", (Good,), {"do_it": tool(name=name)(body)})
    assert [each.name for each in good().tools] == [name]


def test_two_tools_may_not_share_a_name():
    with pytest.raises(TypeError, match="Twice has two tools 'pay': one and two"):

        class Twice(Environment[Seen, State]):
            @tool(name="pay")
            def one(self) -> None: ...

            @tool(name="pay")
            def two(self) -> None: ...


def test_overriding_a_tool_keeps_it_a_tool_and_none_takes_it_away():
    class Base(Environment[Seen, State]):
        def observe(self) -> Seen:
            return Seen(calls=0)

        @tool(name="say", description="Say it.")
        def speak(self, word: str) -> str:
            return word

        @tool
        def sing(self) -> str:
            return "la"

    class Louder(Base):
        def speak(self, word: str, times: int = 1) -> str:  # type: ignore[override]
            return super().speak(word).upper() * times

        sing = None  # type: ignore[assignment]

    assert [each.name for each in Base().tools] == ["say", "sing"]
    assert [each.name for each in Louder().tools] == ["say"]
    assert set(Louder().tools[0].schema["properties"]) == {"word", "times"}
    assert Louder().tools[0].description == "Say it."
    env = Louder(task=TaskData("t", "x"))
    env.reset()
    record = call(env, "say", {"word": "a", "times": 2})
    assert record["result"] == "AA"
    assert [child["result"] for child in record["children"]] == ["a"]


def test_tools_of_a_mixin_are_tools():
    class Paying:
        @tool
        def pay(self, cents: int) -> int:
            return cents

    class Shop(Paying, Environment[Seen, State]):
        def observe(self) -> Seen:
            return Seen(calls=0)

    assert [each.name for each in Shop().tools] == ["pay"]


def test_a_tool_can_be_called_and_inspected_from_python():
    env = desk()
    assert env.first(1, c=9) == [1, 2, 9]
    assert (
        str(inspect.signature(env.first))
        == "(a: 'int', /, b: 'int' = 2, *, c: 'int' = 3) -> 'list[int]'"
    )
    assert env.plain.__name__ == "plain"
    assert env.typed.__doc__.startswith("Take every kind")
    assert env.plain.__self__ is env
    assert repr(Desk.plain) == "<tool plain-name(self, anything, number=3)>"


class Nested(Environment[Seen, State]):
    max_turns = 100

    def observe(self) -> Seen:
        return Seen(calls=0)

    @tool
    def leaf(self, value: Any, *, fails: bool = False) -> Any:
        if fails:
            raise ValueError("no leaf")
        return value

    @tool
    def branch(self) -> list[Any]:
        found = [self.leaf(1), self.leaf(value=2)]
        try:
            self.leaf(3, fails=True)
        except ValueError:
            found.append("caught")
        return found

    @tool
    async def wait(self) -> list[Any]:
        import asyncio

        return list(await asyncio.gather(self.slow(1), self.slow(2), self.slow(3)))

    @tool
    async def slow(self, value: int) -> Any:
        import asyncio

        await asyncio.sleep(0)
        return self.leaf(value)

    @tool
    def for_ever(self) -> Any:
        return self.for_ever()

    @tool
    def with_objects(self) -> Any:
        self.leaf(print)
        return self.leaf(Point(1, 2))

    @tool
    def wrongly(self) -> Any:
        return self.leaf()  # type: ignore[call-arg]


def nested() -> Nested:
    env = Nested(task=TaskData("t", "x"))
    env.reset()
    return env


def test_calls_of_tools_by_tools_are_recorded_inside_them():
    record = call(nested(), "branch")
    assert record["result"] == [1, 2, "caught"]
    first, second, third = record["children"]
    assert first == {"name": "leaf", "arguments": {"value": 1}, "result": 1, "children": []}
    assert second["result"] == 2
    assert third["arguments"] == {"value": 3, "fails": True}
    assert third["error"] == {"kind": "raised", "type": "ValueError", "message": "no leaf"}


def test_asynchronous_calls_at_once_are_recorded_each_in_its_place():
    record = call(nested(), "wait")
    assert record["result"] == [1, 2, 3]
    assert [child["arguments"] for child in record["children"]] == [
        {"value": 1},
        {"value": 2},
        {"value": 3},
    ]
    assert [child["children"][0]["result"] for child in record["children"]] == [1, 2, 3]


def test_a_call_outside_of_a_step_is_a_plain_call():
    assert nested().branch() == [1, 2, "caught"]


def test_recursion_without_end_is_a_tool_error_and_the_record_can_be_kept():
    record = call(nested(), "for_ever")
    assert record["error"]["type"] == "RecursionError"
    depth = 0
    while record["children"]:
        (record,) = record["children"]
        depth += 1
    assert depth == MAX_NESTING - 1


def test_what_no_evidence_can_hold_is_missing_in_the_record_of_a_nested_call():
    record = call(nested(), "with_objects")
    assert record["result"] == {"x": 1, "y": 2}
    first, second = record["children"]
    assert first["arguments"]["value"].type == "builtin_function_or_method"
    assert second["arguments"] == {"value": {"x": 1, "y": 2}}


def test_a_nested_call_that_does_not_fit_the_signature_is_the_tool_s_own_mistake():
    record = call(nested(), "wrongly")
    assert record["error"]["type"] == "TypeError"
    assert record["children"][0]["error"]["type"] == "TypeError"


class Returning(Environment[Seen, State]):
    max_turns = 100

    def setup(self, task: TaskData) -> None:
        super().setup(task)
        self.live = {"rows": [1]}

    def observe(self) -> Seen:
        return Seen(calls=0)

    @tool
    def give(self, what: str) -> Any:
        looped: list[Any] = []
        looped.append(looped)
        return {
            "live": self.live,
            "array": np.arange(3),
            "scalar": np.float32(1.5),
            "model": Person(name="A", home=Address(street="S")),
            "point": [Point(1)],
            "enum": {Colour.RED: Colour.BLUE, "level": Level.HIGH},
            "date": datetime.date(2026, 1, 2),
            "set": {1, 2},
            "nan": float("nan"),
            "bytes": b"\xff",
            "none": None,
            "generator": (i for i in range(3)),
            "inside": {"a": [1, print]},
            "socket": socket,
            "class": Point,
            "looped": looped,
            "later": _later(),
        }[what]

    @tool
    def change(self) -> None:
        self.live["rows"].append(2)

    @tool
    def odd_error(self) -> None:
        class Odd(Exception):
            def __str__(self) -> str:
                raise RuntimeError("no text")

        raise Odd


class _Awaitable:
    def __await__(self) -> Any:
        yield


def _later() -> Any:
    return _Awaitable()


@pytest.fixture
def returning() -> Returning:
    env = Returning(task=TaskData("t", "x"))
    env.reset()
    return env


def test_results_are_plain_data_with_exact_values(returning):
    def give(what: str) -> Any:
        return call(returning, "give", {"what": what})["result"]

    assert give("array").tolist() == [0, 1, 2]
    assert type(give("scalar")) is np.float32
    assert give("model") == {"name": "A", "home": {"street": "S", "lines": []}, "friends": []}
    assert give("point") == [{"x": 1, "y": 0}]
    assert give("enum") == {"red": "blue", "level": 2}
    assert type(give("enum")["level"]) is int
    assert give("date") == datetime.date(2026, 1, 2)
    assert give("set") == {1, 2}
    assert np.isnan(give("nan"))
    assert (give("bytes"), give("none")) == (b"\xff", None)


def test_a_result_is_a_copy_of_what_the_tool_goes_on_changing(returning):
    result = call(returning, "give", {"what": "live"})["result"]
    call(returning, "change")
    assert (result, returning.live) == ({"rows": [1]}, {"rows": [1, 2]})


@pytest.mark.parametrize("what", ["generator", "inside", "socket", "class", "looped", "later"])
def test_a_result_that_no_evidence_can_hold_is_a_tool_error(returning, what):
    error = call(returning, "give", {"what": what})["error"]
    assert error["kind"] == "result"
    assert error["message"].startswith("what it returned cannot be kept")


def test_where_a_result_cannot_be_kept_is_said(returning):
    assert " at /a/1 " in call(returning, "give", {"what": "inside"})["error"]["message"]


def test_an_exception_without_text_is_recorded(returning):
    error = call(returning, "odd_error")["error"]
    assert error["message"] == "<message unavailable: __str__ raised RuntimeError>"


def test_results_as_text_for_a_policy_that_reads_text():
    def text(result: Any) -> str:
        return result_text({"name": "t", "arguments": {}, "result": result, "children": []})

    assert text("as it is") == "as it is"
    assert text({"a": [1, None, True]}) == '{"a": [1, null, true]}'
    assert text(np.arange(2)) == "[0, 1]"
    assert text({"when": datetime.date(2026, 1, 2), "at": np.int8(3)}) == (
        '{"when": "2026-01-02", "at": 3}'
    )
    assert text(b"abc") == '"abc"'
    assert text(b"\xff") == '"_w=="'
    assert text(float("nan")) == "NaN"
    assert text("ü\u2028") == "ü\u2028"
    assert text(["ü"]) == '["ü"]'
    assert text(2**70) == "1180591620717411303424"
    error = {"kind": "raised", "type": "ValueError", "message": "no"}
    assert result_text({"name": "t", "arguments": {}, "error": error}) == "ValueError: no"


def test_binding_says_what_is_wrong():
    with pytest.raises(InvalidArguments, match="a is missing"):
        Desk.first.bind({})
    assert Desk.first.bind({"a": 1, "b": 5}) == ((1,), {"b": 5})


def test_a_failure_says_its_kind():
    failure = ToolFailed("slow", kind="deadline")
    assert (failure.kind, failure.type_name, str(failure)) == ("deadline", "ToolFailed", "slow")
