"""`@tool`: methods of an environment that a policy may call.

A tool's schema comes from its signature through pydantic, its texts from its docstring. What a
policy sends is validated by the same schema before the method is called. A tool that calls another
tool of its environment leaves a record of that call inside its own.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import sys
import threading
import typing
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Concatenate, Final, Generic, ParamSpec, TypeVar, overload

import docstring_parser
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.json_schema import GenerateJsonSchema, PydanticJsonSchemaWarning
from pydantic_core import PydanticSerializationError

from envbench.environments.actions import ToolSpec
from envbench.environments.plain import plain
from envbench.environments.text import as_text
from envbench.evidence.case import require_name
from envbench.evidence.portable import Json, canonical
from envbench.evidence.tagged import ABSENT, Encoding, Missing, describe_error, tag, type_name

MAX_NESTING: Final = 50
"""Calls of tools by tools go this deep."""

_BUILDING = threading.RLock()
"""Held while a schema is built: environments of one class are made in many threads at once."""

Given = ParamSpec("Given")
Returned = TypeVar("Returned")


@overload
def tool(
    function: Callable[Concatenate[Any, Given], Returned], /
) -> ToolMethod[Given, Returned]: ...


@overload
def tool(
    *, name: str | None = None, description: str | None = None
) -> Callable[[Callable[Concatenate[Any, Given], Returned]], ToolMethod[Given, Returned]]: ...


def tool(
    function: Any = None, /, *, name: str | None = None, description: str | None = None
) -> Any:
    """Make a method of an environment a tool.

    The method stays callable from Python. Arguments are what its signature says: annotations
    become the schema (an argument without one takes any JSON), defaults make arguments optional,
    and the docstring's first part and its section of arguments become the descriptions. It may be
    ``async``.

    A subclass that overrides the method overrides the tool, with or without ``@tool``; setting the
    name to None takes the tool away.

    Args:
        function: the method, when used as ``@tool``.
        name: what the policy calls it by; by default the method's name.
        description: what the policy is told; by default from the docstring.

    Raises:
        TypeError: for what cannot be a tool: no method, a generator, ``*args`` or ``**kwargs``.
        ValueError: when the name is blank.

    Example:
        >>> from envbench.environments import Environment
        >>> class Desk(Environment):
        ...     @tool
        ...     def refund(self, cents: int, reason: str = "none") -> str:
        ...         '''Pay money back.
        ...
        ...         Args:
        ...             cents: how much, in cents.
        ...         '''
        ...         return f"{cents} paid back"
        >>> Desk.refund.spec.schema["properties"]["cents"]
        {'type': 'integer', 'description': 'how much, in cents.'}
    """
    if function is not None:
        return ToolMethod(function, name, description, sys._getframe(1))

    def decorate(method: Any) -> Any:
        return ToolMethod(method, name, description, sys._getframe(1))

    return decorate


class ToolMethod(Generic[Given, Returned]):
    """A method of an environment that a policy may call; made by `tool`.

    Attributes:
        function: the method as it was written.
        name: what the policy calls it by.
        is_async: whether it is a coroutine function.
        described: what the policy is told, where that is not the docstring.
    """

    def __init__(
        self,
        function: Callable[Concatenate[Any, Given], Returned],
        name: str | None,
        description: str | None,
        frame: FrameType | None = None,
    ) -> None:
        self.function = function
        self.name = str(name or getattr(function, "__name__", ""))
        self.is_async = inspect.iscoroutinefunction(function)
        self.described = description
        if name is not None:
            require_name("name", name)
        self._parameters = _parameters(function, self.name)
        self._namespace = _local_names(frame)
        self._resolved: dict[str, Any] | None = None
        with suppress(TypeError):  # a name that is defined later
            self._hints()
        self._built: tuple[type[BaseModel], dict[str, Json]] | None = None
        self._spec: ToolSpec | None = None
        self.__doc__ = getattr(function, "__doc__", None)
        self.__name__ = getattr(function, "__name__", self.name)
        self.__wrapped__ = function

    @property
    def spec(self) -> ToolSpec:
        """Name, description and schema.

        Raises:
            TypeError: when an annotation names nothing, or a type that has no schema.
        """
        if self._spec is None:
            described = docstring_parser.parse(inspect.getdoc(self.function) or "")
            parts = (described.short_description, described.long_description)
            text = "\n\n".join(part for part in parts if part)
            chosen = text if self.described is None else self.described
            self._spec = ToolSpec(self.name, chosen, self._schema())
        return self._spec

    def bind(self, arguments: Json) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Validate what a policy sent, and give positional and named arguments for the method.

        Raises:
            InvalidArguments: one sentence for each argument at fault.
        """
        if not isinstance(arguments, dict):
            raise InvalidArguments(
                f"arguments must be an object of the tool's arguments, not {_short(arguments)}"
            )
        model = self._model()
        try:
            # from JSON text, so that the method gets values of its own, which it may change
            validated = model.model_validate_json(canonical(arguments))
        except ValidationError as error:
            raise InvalidArguments(_explain(error)) from None
        except ValueError as error:
            raise InvalidArguments(f"arguments must be portable JSON: {error}") from None
        positional: list[Any] = []
        named: dict[str, Any] = {}
        for field_name, parameter in self._fields():
            given = field_name in validated.model_fields_set
            if not given and not isinstance(parameter.default, (list, dict, set)):
                if parameter.kind is not parameter.POSITIONAL_ONLY:
                    continue  # the method's own default
                positional.append(parameter.default)
                continue
            value = getattr(validated, field_name) if given else copy.deepcopy(parameter.default)
            if parameter.kind is parameter.POSITIONAL_ONLY:
                positional.append(value)
            else:
                named[parameter.name] = value
        return tuple(positional), named

    def resolve(self, owner: type) -> None:
        """Find out what the annotations mean, if their names are known by now."""
        self._namespace.setdefault(owner.__name__, owner)
        with suppress(TypeError):
            self._hints()

    @overload
    def __get__(self, instance: None, owner: type) -> ToolMethod[Given, Returned]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> Callable[Given, Returned]: ...

    def __get__(self, instance: object | None, owner: type) -> Any:
        return self if instance is None else BoundTool(self, instance)

    def __set_name__(self, owner: type, name: str) -> None:
        self.__name__ = name
        self.__qualname__ = f"{owner.__qualname__}.{name}"

    def __reduce__(self) -> Any:
        # of a class that travels by value, as from a notebook to another process
        names = (self.__name__, getattr(self, "__qualname__", self.__name__))
        return _rebuilt, (self.function, self.name, self.described, self._resolved, names)

    def __repr__(self) -> str:
        return f"<tool {self.name}{inspect.signature(self.function)}>"

    def _fields(self) -> Iterator[tuple[str, inspect.Parameter]]:
        """Parameters with the names of the model's fields, which clash with nothing of pydantic."""
        return ((f"argument_{i}", each) for i, each in enumerate(self._parameters))

    def _model(self) -> type[BaseModel]:
        return self._build()[0]

    def _build(self) -> tuple[type[BaseModel], dict[str, Json]]:
        """The model of the arguments and its JSON schema, built when they are first needed."""
        with _BUILDING:
            if self._built is None:
                self._built = self._new_model()
            return self._built

    def _new_model(self) -> tuple[type[BaseModel], dict[str, Json]]:
        hints = self._hints()
        fields: dict[str, Any] = {}
        for field_name, parameter in self._fields():
            required = parameter.default is parameter.empty
            default = ... if required else _default(parameter.default)
            hint = hints.get(parameter.name, Any)
            fields[field_name] = (hint, Field(default, alias=parameter.name))
        try:
            model = create_model("Arguments", __config__=ConfigDict(extra="forbid"), **fields)
            with warnings.catch_warnings():
                # a default that is no JSON is the method's own affair
                warnings.simplefilter("ignore", PydanticJsonSchemaWarning)
                return model, model.model_json_schema(schema_generator=_Schema)
        except Exception as error:
            raise TypeError(
                f"tool {self.name!r}: no schema describes its arguments"
                f" {inspect.signature(self.function)}: {_first_line(error)}"
            ) from error

    def _hints(self) -> dict[str, Any]:
        with _BUILDING:
            if self._resolved is None:
                self._resolved = self._new_hints()
                self._namespace = {}
            return self._resolved

    def _new_hints(self) -> dict[str, Any]:
        try:
            hints = typing.get_type_hints(
                inspect.unwrap(self.function), localns=self._namespace, include_extras=True
            )
        except NameError as error:
            raise TypeError(
                f"tool {self.name!r}: the annotation {error.name!r} names nothing that is known"
                f" where {self.function.__qualname__} is defined"
            ) from error
        hints.pop("return", None)
        return hints

    def _schema(self) -> dict[str, Json]:
        schema = copy.deepcopy(self._build()[1])
        described = docstring_parser.parse(inspect.getdoc(self.function) or "")
        for each in described.params:
            part = schema["properties"].get(each.arg_name)
            if part is not None and each.description:
                part.setdefault("description", " ".join(each.description.split()))
        return schema


def _rebuilt(
    function: Any,
    name: str,
    described: str | None,
    resolved: dict[str, Any] | None,
    names: tuple[str, str],
) -> ToolMethod[Any, Any]:
    method: ToolMethod[Any, Any] = ToolMethod(function, name, described)
    method._resolved = resolved
    method.__name__, method.__qualname__ = names
    return method


class BoundTool:
    """A tool of one environment, as Python calls it."""

    __slots__ = ("__self__", "tool")

    def __init__(self, method: ToolMethod[Any, Any], instance: object) -> None:
        self.tool = method
        self.__self__ = instance

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the method; inside another tool of the same environment the call is recorded."""
        return call_nested(self.tool, self.__self__, args, kwargs)

    @property
    def __func__(self) -> Any:
        return self.tool.function

    @property
    def __name__(self) -> str:
        return self.tool.__name__

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        return self.tool.__doc__

    @property
    def __signature__(self) -> inspect.Signature:
        whole = inspect.signature(self.tool.function)
        return whole.replace(parameters=list(whole.parameters.values())[1:])

    def __repr__(self) -> str:
        return f"<bound {self.tool!r} of {type(self.__self__).__name__}>"


class InvalidArguments(ValueError):
    """Arguments that do not fit a tool's schema."""


class ToolFailed(Exception):
    """Raised by a runtime for a call that came to nothing, with what is recorded of it.

    Args:
        message: what went wrong.
        kind: what sort of failure: ``raised``, ``deadline``, ``died``, ``memory``, ``result`` or
            ``runtime``.
        type_name: the class of the exception, where the tool raised one.
    """

    def __init__(self, message: str, *, kind: str = "runtime", type_name: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.type_name = type_name or type(self).__name__


class RuntimeBroken(RuntimeError):
    """A runtime that can run no call at all; it ends the episode, being no fault of the tool."""


@dataclass(slots=True)
class ToolRecord:
    """What came of one call of a tool.

    Attributes:
        name: the tool's name, as it was called.
        arguments: the arguments as they were given.
        result: what it returned; `ABSENT` when it did not return.
        error: ``{"kind", "type", "message"}``, None when it returned.
        children: the calls of tools that it made, in order.
        exception: what was raised; not part of evidence.
    """

    name: str
    arguments: Any
    result: Any = ABSENT
    error: dict[str, str] | None = None
    children: list[ToolRecord] = field(default_factory=list)
    exception: BaseException | None = field(default=None, repr=False, compare=False)

    def fail(self, kind: str, error: BaseException, type_of: str = "") -> None:
        """Note what went wrong."""
        name = type_of or type(error).__name__
        self.error = {"kind": kind, "type": name, "message": describe_error(error)}
        self.exception = error
        self.result = ABSENT

    def to_dict(self) -> dict[str, Any]:
        """The record as the info of a step holds it."""
        outcome = {"result": self.result} if self.error is None else {"error": dict(self.error)}
        return {
            "name": self.name,
            "arguments": self.arguments,
            **outcome,
            "children": [child.to_dict() for child in self.children],
        }


def result_text(record: Mapping[str, Any]) -> str:
    """One of ``info["tool_calls"]`` as the text that a policy is answered with.

    Example:
        >>> result_text({"name": "pay", "arguments": {}, "result": {"paid": True}, "children": []})
        '{"paid": true}'
        >>> error = {"kind": "raised", "type": "ValueError", "message": "no such order"}
        >>> result_text({"name": "pay", "arguments": {}, "error": error, "children": []})
        'ValueError: no such order'
    """
    error = record.get("error")
    if error is not None:
        return f"{error['type']}: {error['message']}"
    return as_text(record["result"])


@dataclass(frozen=True, slots=True)
class _Running:
    """The call of a tool that this code runs in."""

    environment: object
    record: ToolRecord
    depth: int


_RUNNING: ContextVar[_Running | None] = ContextVar("envbench_running_tool", default=None)


@contextmanager
def running(environment: object, record: ToolRecord) -> Iterator[None]:
    """Run a block as the call of a tool: calls of other tools inside are its children."""
    above = _RUNNING.get()
    same = above is not None and above.environment is environment
    depth = above.depth + 1 if above is not None and same else 1
    token = _RUNNING.set(_Running(environment, record, depth))
    try:
        yield
    finally:
        _RUNNING.reset(token)


def call_nested(
    method: ToolMethod[Any, Any], environment: object, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Call a tool from Python; inside a call of the same environment's it is recorded as a child.

    Outside of any, as in a test of the tool, it is a plain call.
    """
    above = _RUNNING.get()
    if above is None or above.environment is not environment:
        return method.function(environment, *args, **kwargs)
    record = ToolRecord(method.name, _given(method, environment, args, kwargs))
    if above.depth >= MAX_NESTING:
        raise RecursionError(f"tools call each other more than {MAX_NESTING} levels deep")
    above.record.children.append(record)
    if method.is_async:
        return _call_async(method, environment, record, args, kwargs)
    with running(environment, record), _noting(record):
        result = method.function(environment, *args, **kwargs)
        record.result = kept_result(result)
    return result


async def _call_async(
    method: ToolMethod[Any, Any],
    environment: object,
    record: ToolRecord,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    with running(environment, record), _noting(record):
        result = await method.function(environment, *args, **kwargs)
        record.result = kept_result(result)
    return result


@contextmanager
def _noting(record: ToolRecord) -> Iterator[None]:
    try:
        yield
    except (Exception, asyncio.CancelledError) as error:
        record.fail("raised", error)
        raise


def kept_result(result: Any) -> Any:
    """What a nested call was given or gave, as plain data; `Missing` where no evidence holds it."""
    try:
        return detached_result(result)
    except ToolFailed as failure:
        return Missing(type_name(type(result)), str(failure))


def detached_result(result: Any) -> Any:
    """A result as plain data that nothing outside can change.

    Raises:
        ToolFailed: when evidence cannot hold it, such as a generator or a socket.
    """
    found = Encoding()
    try:
        value = copy.deepcopy(plain(result))
        tag(value, found)
        reason = f"{found.problems[0].type}: {found.problems[0].reason}" if found.problems else ""
    except RecursionError:
        reason = "it contains itself"
    except Exception as error:  # its class forbids copies
        reason = f"{type_name(type(result))}: {type(error).__name__}: {describe_error(error)}"
    if not reason:
        return value
    place = found.problems[0].place if found.problems else "/"
    at = "" if place == "/" else f" at {place}"
    raise ToolFailed(
        f"what it returned cannot be kept{at} ({reason}); return plain values",
        kind="result",
        type_name="TypeError",
    )


def _given(
    method: ToolMethod[Any, Any], environment: object, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """The arguments of a call by name; a call that does not fit the signature raises by itself."""
    try:
        bound = inspect.signature(method.function).bind(environment, *args, **kwargs)
    except TypeError:
        named = {f"argument {i}": value for i, value in enumerate(args, 1)} | kwargs
    else:
        named = dict(list(bound.arguments.items())[1:])
    return {name: kept_result(value) for name, value in named.items()}


def _parameters(function: Any, name: str) -> list[inspect.Parameter]:
    """The parameters that a policy gives, without ``self``."""
    if isinstance(function, ToolMethod):
        raise TypeError(f"tool {name!r} is a tool already: write @tool once")
    if isinstance(function, (staticmethod, classmethod)) or not inspect.isroutine(function):
        what = type(function).__name__
        raise TypeError(f"@tool goes on a method of an environment, not on a {what}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"tool {name!r} is a generator: return a list of what it yields")
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters or parameters[0].kind not in (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    ):
        raise TypeError(f"tool {name!r} takes no self: a tool is a method of an environment")
    for each in parameters[1:]:
        if each.kind is each.VAR_POSITIONAL:
            raise TypeError(
                f"tool {name!r} takes *{each.name}: a policy names its arguments, so declare a"
                f" list, {each.name}: list[…]"
            )
        if each.kind is each.VAR_KEYWORD:
            raise TypeError(
                f"tool {name!r} takes **{each.name}: a policy is told each argument, so declare a"
                f" dict, {each.name}: dict[str, …]"
            )
    return parameters[1:]


def _local_names(frame: FrameType | None) -> dict[str, Any]:
    """Names that annotations may use besides the module's: of class bodies and the function around.

    They are taken where ``@tool`` stands, because no one can find them later.
    """
    names: dict[str, Any] = {}
    while frame is not None and frame.f_code.co_name != "<module>":
        names = {**frame.f_locals, **names}
        if frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            break  # a function; what is above only called it
        frame = frame.f_back
    return names


def _default(value: Any) -> Any:
    """A default as the schema shows it; copied, because pydantic may hand it out."""
    return copy.deepcopy(value) if isinstance(value, (list, dict, set)) else value


class _Schema(GenerateJsonSchema):
    """JSON schemas without the titles that repeat each name."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def encode_default(self, dft: Any) -> Any:
        encoded = super().encode_default(dft)
        try:
            canonical(encoded)
        except ValueError as error:  # an infinity, which evidence and requests cannot hold either
            raise PydanticSerializationError(str(error)) from None
        return encoded

    def generate(self, schema: Any, mode: Any = "validation") -> dict[str, Json]:
        generated = super().generate(schema, mode)
        generated.pop("title", None)
        generated.setdefault("properties", {})
        return generated


def _explain(error: ValidationError) -> str:
    """What is wrong with the arguments, one clause each."""
    clauses = []
    for each in error.errors(include_url=False, include_context=False):
        place = ".".join(map(str, each["loc"]))
        if each["type"] == "missing":
            clauses.append(f"{place} is missing")
        elif each["type"] == "extra_forbidden":
            clauses.append(f"{place} is not an argument of the tool")
        else:
            clauses.append(f"{place}: {each['msg']}, not {_short(each['input'])}")
    return "; ".join(clauses)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _first_line(error: Exception) -> str:
    return (describe_error(error).splitlines() or [type(error).__name__])[0]
