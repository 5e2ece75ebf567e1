"""What code reads, each kind of thing changed: the part that holds it is named, and no other."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from envbench.environments.fingerprint import fingerprint
from tests.environments.sources import load_module

HEAD = """
import abc, collections, contextlib, dataclasses, datetime, decimal, enum, functools, operator, re
import typing
import gymnasium
import numpy as np
import pydantic
"""

ENV = """
class Desk(gymnasium.Env):
    action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        return 0, float(USE), True, False, {}
"""

CLOSURE = """
def adder(n):
    def add(x):
        return x + n
    return add
plus = adder(3)
"""

CLOSURE_OF_LAMBDA = """
def adder(n):
    return lambda x: [y + n for y in range(x)]
plus = adder([1, 2])
"""

PARTIAL = """
def scale(x, by):
    return x * by
half = functools.partial(scale, by=0.5)
"""

DECORATED = """
def times(n):
    def decorate(function):
        @functools.wraps(function)
        def wrapper(*args):
            return n * function(*args)
        return wrapper
    return decorate
@times(2)
def fee(x):
    return x + 1
"""

REGISTERED = """
def registered(function):
    return function
@registered
def fee(x):
    return x + 1
"""

CACHED = """
@functools.lru_cache(maxsize=None)
def fee(x):
    return x + 1
"""

CONTEXT = """
@contextlib.contextmanager
def opened():
    yield 1
def fee():
    with opened() as one:
        return one
"""

DISPATCH = """
@functools.singledispatch
def fee(x):
    return 1
@fee.register
def _(x: str):
    return 2
"""

INHERITED = """
class Base:
    @property
    def fee(self):
        return 1
class Till(Base):
    def other(self):
        return super().fee
"""

METHODS = """
class Till:
    @staticmethod
    def one():
        return 1
    @classmethod
    def fee(cls):
        return cls.one()
    @functools.cached_property
    def kept(self):
        return 5
"""

DATACLASS = """
@dataclasses.dataclass
class Config:
    fee: int = 1
    names: list = dataclasses.field(default_factory=list)
CONFIG = Config(7)
"""

SETTINGS = """
class Settings:
    def __init__(self, fee):
        self.fee = fee
SETTINGS = Settings(fee=1)
"""

MODEL = """
class Item(pydantic.BaseModel):
    '''An item.'''
    cents: int = pydantic.Field(default=1, ge=0)
class Order(pydantic.BaseModel):
    items: list[Item] = []
    @pydantic.field_validator("items")
    @classmethod
    def few(cls, value):
        return value
"""

ENUM = """
class Kind(enum.Enum):
    SMALL = 1
    LARGE = 2
    def fee(self):
        return self.value
"""

TUPLE = """
class Fee(typing.NamedTuple):
    cents: int = 1
    def double(self):
        return 2 * self.cents
"""

DEFAULTS = """
one = 1
def fee(x=one, *, y=None):
    return x
"""

NESTED = """
LIMIT = 5
def fee():
    return sum((lambda: LIMIT)() for _ in range(3))
"""

SYNTAX = """
async def fee():
    async for x in aiter([]):
        match x:
            case {"a": [1, *rest]} if (y := rest):
                return f"{y!r:>{len(y)}}"
            case _:
                return 1
"""

METACLASS = """
class Meta(type):
    def __call__(cls):
        return 1
class Fee(metaclass=Meta):
    pass
"""

LOCAL = """
def fee():
    class Local:
        cents: int = 1
    return Local.cents
"""

OBJECTS = """
class Rule(abc.ABC):
    @abc.abstractmethod
    def fee(self): ...
class One(Rule):
    def fee(self):
        return 1
RULES = [One()]
"""

VALUES = """
VALUES = (decimal.Decimal('1.0'), datetime.date(2026, 1, 1), {1, 2}, b'x', 10**400, [-0.0])
"""

CALLABLE = """
class Rate:
    def __init__(self, by):
        self.by = by
    def __call__(self, x):
        return x * self.by
rate = Rate(by=2)
method = rate.__call__
"""

RECURSIVE = """
def even(n):
    return n == 0 or odd(n - 1)
def odd(n):
    return n != 0 and even(n - 1)
LOOP = [even]
LOOP.append(LOOP)
"""

SLOTS = """
class Rate:
    __slots__ = ("by",)
    def __init__(self, by):
        self.by = by
RATE = Rate(3)
"""

CASES = [
    ("closure", CLOSURE, "plus(1)", "adder(3)", "adder(4)", ["helper/add"]),
    ("closure of a lambda", CLOSURE_OF_LAMBDA, "plus(1)", "[1, 2]", "[1, 3]", ["helper/<lambda>"]),
    ("lambda", "T = [lambda x: 1, lambda x: 2]", "T[0](1)", "x: 2", "x: 3", ["helper/<lambda>#2"]),
    ("argument of a partial", PARTIAL, "half(1)", "by=0.5", "by=0.2", ["constant/half"]),
    ("function of a partial", PARTIAL, "half(1)", "x * by", "x / by", ["helper/scale"]),
    ("decorated", DECORATED, "fee(1)", "x + 1", "x + 2", ["helper/fee"]),
    ("wrapper", DECORATED, "fee(1)", "n * f", "n + f", ["helper/times", "helper/wrapper"]),
    (
        "argument of a decorator",
        DECORATED,
        "fee(1)",
        "(2)",
        "(3)",
        ["helper/fee", "helper/wrapper"],
    ),
    (
        "decorator",
        REGISTERED,
        "fee(1)",
        "return function",
        "return function or abs",
        ["helper/registered"],
    ),
    ("lru_cache", CACHED, "fee(1)", "x + 1", "x + 2", ["helper/fee"]),
    ("contextmanager", CONTEXT, "fee()", "yield 1", "yield 2", ["helper/opened"]),
    ("singledispatch", DISPATCH, "fee(1)", "return 2", "return 3", ["helper/_"]),
    ("inherited property", INHERITED, "Till().fee", "return 1", "return 2", ["helper/Base.fee"]),
    ("static method", METHODS, "Till.fee()", "return 1", "return 2", ["helper/Till.one"]),
    ("class method", METHODS, "Till.fee()", "cls.one()", "2", ["helper/Till.fee"]),
    ("cached property", METHODS, "Till.fee()", "return 5", "return 6", ["helper/Till.kept"]),
    ("dataclass", DATACLASS, "CONFIG.fee", "int = 1", "int = 2", ["class/Config"]),
    ("factory", DATACLASS, "CONFIG.fee", "=list)", "=set)", ["class/Config", "constant/CONFIG"]),
    ("object of a dataclass", DATACLASS, "CONFIG.fee", "(7)", "(8)", ["constant/CONFIG"]),
    ("object", SETTINGS, "SETTINGS.fee", "fee=1", "fee=2", ["constant/SETTINGS"]),
    ("object with slots", SLOTS, "RATE.by", "Rate(3)", "Rate(4)", ["constant/RATE"]),
    ("callable object", CALLABLE, "rate(1)", "by=2", "by=3", ["constant/rate"]),
    ("bound method", CALLABLE, "method(1)", "by=2", "by=3", ["constant/method"]),
    ("constraint of a model", MODEL, "len(Order().items)", "ge=0", "ge=1", ["class/Item"]),
    ("type of a field", MODEL, "Order()", "cents: int", "cents: float", ["class/Item"]),
    ("validator", MODEL, "Order()", "return value", "return list(value)", ["helper/Order.few"]),
    ("Enum", ENUM, "Kind.SMALL.fee()", "LARGE = 2", "LARGE = 3", ["class/Kind"]),
    ("method of an Enum", ENUM, "Kind.SMALL.fee()", "self.value", "3", ["helper/Kind.fee"]),
    ("named tuple", TUPLE, "Fee().double()", "int = 1", "int = 2", ["class/Fee"]),
    ("pattern", "W = re.compile('a+')", "W.flags", "'a+'", "'a+', re.I", ["constant/W"]),
    ("array", "V = np.arange(2000)", "V[0]", "(2000)", "(1, 2001)", ["constant/V"]),
    ("huge integer", VALUES, "len(VALUES)", "**400", "**401", ["constant/VALUES"]),
    ("signed zero", VALUES, "len(VALUES)", "-0.0", "0.0", ["constant/VALUES"]),
    ("set", VALUES, "len(VALUES)", "{1, 2}", "{1, 3}", ["constant/VALUES"]),
    (
        "function of Python",
        "from random import choice as f",
        "f([1])",
        "random",
        "secrets",
        ["hook/step"],
    ),
    ("compiled function", "from operator import add as f", "f(1, 1)", "add", "sub", ["hook/step"]),
    ("value of a default", DEFAULTS, "fee()", "one = 1", "one = 2", ["helper/fee"]),
    ("keyword default", DEFAULTS, "fee()", "y=None", "y=0", ["helper/fee"]),
    ("nested functions", NESTED, "fee()", "LIMIT = 5", "LIMIT = 6", ["constant/LIMIT"]),
    ("match", SYNTAX, "bool(fee)", "[1, *rest]", "[2, *rest]", ["helper/fee"]),
    ("format", SYNTAX, "bool(fee)", "!r", "!s", ["helper/fee"]),
    ("metaclass", METACLASS, "Fee()", "return 1", "return 2", ["helper/Meta.__call__"]),
    ("local class", LOCAL, "fee()", "int = 1", "int = 2", ["helper/fee"]),
    ("objects in a list", OBJECTS, "RULES[0].fee()", "return 1", "return 2", ["helper/One.fee"]),
    ("recursion", RECURSIVE, "LOOP[0](2)", "n != 0", "n > 0", ["helper/odd"]),
]


@pytest.mark.parametrize(
    ("definitions", "use", "old", "new", "parts"),
    [pytest.param(*case, id=name) for name, *case in CASES],
)
def test_the_part_that_changed_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    definitions: str,
    use: str,
    old: str,
    new: str,
    parts: list[str],
) -> None:
    def make(definitions: str) -> Any:
        source = HEAD + textwrap.dedent(definitions) + ENV.replace("USE", use)
        return load_module(tmp_path, source, monkeypatch).Desk()

    assert definitions.count(old) == 1
    before, after = fingerprint(make(definitions)), fingerprint(make(definitions.replace(old, new)))
    assert before == fingerprint(make("\n\n# moved\n" + definitions))
    assert before.unseen == ()
    assert [part for part, _, _ in before.diff(after)] == parts
