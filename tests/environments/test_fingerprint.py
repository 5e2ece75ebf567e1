from __future__ import annotations

import concurrent.futures
import hashlib
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium
import pytest

from envbench.capture import capture_episodes
from envbench.environments.fingerprint import Fingerprint, fingerprint
from tests.environments.sources import load_module, run_cell

SOURCE = '''
"""An environment that pays refunds."""
import math

import gymnasium
import numpy as np

LIMIT = 50
RATES = {"eu": 0.2, "us": 0.1}
LOG = []


class Money:
    """An amount."""

    digits = 2

    def __init__(self, cents):
        self.cents = cents

    def rounded(self):
        return round(self.cents, self.digits)


def net(amount, region="eu"):
    # what is left after tax
    return amount * (1 - rate(region))


def rate(region):
    """Look a rate up."""
    return RATES[region]


class Desk(gymnasium.Env):
    """The desk."""

    name = "desk"
    version = "1.0.0"
    max_refunds = 3
    action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Box(0, 1, (2,), np.float32)

    def __init__(self, fee=1):
        self.fee = fee
        self.paid = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        LOG.append("reset")
        return self._observe(), {}

    def step(self, action):
        self.count += 1
        self.paid.append(net(self.count))
        reward = float(Money(net(action)).rounded() - self.fee)
        return self._observe(), reward, self.count > LIMIT, False, {"log": len(LOG)}

    def render(self):
        return f"paid {self.count}"

    def _observe(self):
        return np.array([math.sqrt(self.count), 0], np.float32)
'''


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., ModuleType]:
    """Import a text as a module; see `load_module`."""
    return lambda source, name="desk_module": load_module(tmp_path, source, monkeypatch, name)


def changed(before: Any, after: Any) -> list[str]:
    """The parts that differ between two environments."""
    return [part for part, _, _ in fingerprint(before).diff(fingerprint(after))]


def test_the_parts_of_an_environment(load: Callable[..., ModuleType]) -> None:
    found = fingerprint(load(SOURCE).Desk())
    assert list(found.parts) == [
        "class/Money",
        "configuration/fee",
        "configuration/max_refunds",
        "constant/LIMIT",
        "constant/Money.digits",
        "constant/RATES",
        "helper/Money.__init__",
        "helper/Money.rounded",
        "helper/net",
        "helper/rate",
        "hook/__init__",
        "hook/reset",
        "hook/step",
        "method/_observe",
        "package/gymnasium",
        "package/numpy",
        "render/render",
        "schema/action_space",
        "schema/observation_space",
    ]
    assert "desk_module.net" in found.followed
    assert found.unseen == (
        "configuration.paid: methods change what it holds, so it is left out",
        "constant/LOG: the code changes it, so it is state and left out",
    )
    assert found.packages["gymnasium"] == gymnasium.__version__
    assert len(found.digest) == 64


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ("return RATES[region]", "return RATES[region] / 2", ["helper/rate"]),
        ("LIMIT = 50", "LIMIT = 51", ["constant/LIMIT"]),
        ("LIMIT = 50", "LIMIT = 50.0", ["constant/LIMIT"]),
        ('"us": 0.1', '"us": 0.2', ["constant/RATES"]),
        ("digits = 2", "digits = 3", ["constant/Money.digits"]),
        ("return round(self.cents", "return -round(self.cents", ["helper/Money.rounded"]),
        ('f"paid {self.count}"', 'f"paid {self.count}."', ["render/render"]),
        ("self.count = 0", "self.count = 1", ["hook/reset"]),
        ("math.sqrt", "math.cbrt", ["method/_observe"]),
        ("def __init__(self, fee=1)", "def __init__(self, fee=2)", None),
        ("max_refunds = 3", "max_refunds = 4", ["configuration/max_refunds"]),
        ("Box(0, 1, (2,)", "Box(0, 2, (2,)", ["schema/observation_space"]),
        ("Discrete(2)", "Discrete(3)", ["schema/action_space"]),
        ('region="eu"', 'region="us"', ["helper/net"]),
        ("class Money:", "class Money(dict):", ["class/Money"]),
        ("import math\n", "import cmath as math\n", ["method/_observe"]),
    ],
)
def test_a_change_of_behaviour_is_named(
    load: Callable[..., ModuleType], old: str, new: str, parts: list[str] | None
) -> None:
    assert SOURCE.count(old) == 1
    before, after = load(SOURCE).Desk(), load(SOURCE.replace(old, new)).Desk()
    assert changed(before, after) == (
        ["configuration/fee", "hook/__init__"] if parts is None else parts
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"""The desk."""', '"""Another text."""'),
        ('    """Look a rate up."""\n', ""),
        ("# what is left after tax", "# what remains"),
        ("return RATES[region]", "return (\n        RATES[\n            region]\n    )  # a rate"),
        ("def rate(region):", "def rate(region: 'str') -> float:"),
        ("        self.count += 1\n", "        pass\n        'text'\n        self.count += 1\n"),
        ("LIMIT = 50", "LIMIT = (\n    25 + 25)"),
        ("LIMIT = 50", "OTHER = 1\nLIMIT = 50"),
        ('version = "1.0.0"', 'version = "2.0.0"'),
        ('name = "desk"', 'name = "another"'),
        ("LOG = []", "LOG = ['x']"),
        ("self.count = 0", "self.count: int = 0"),
        ("import gymnasium\n", "import sys, gymnasium\n\n\n\n"),
        ('f"paid {self.count}"', 'f"pa" "id "   f\'{self.count}\''),
    ],
)
def test_what_does_not_change_behaviour_does_not_matter(
    load: Callable[..., ModuleType], old: str, new: str
) -> None:
    assert old in SOURCE
    before, after = load(SOURCE).Desk(), load(SOURCE.replace(old, new, 1)).Desk()
    assert changed(before, after) == []
    assert fingerprint(before) == fingerprint(after)


def test_module_names_files_notebooks_and_cells_do_not_matter(
    load: Callable[..., ModuleType],
) -> None:
    expected = fingerprint(load(SOURCE).Desk())
    assert fingerprint(load(SOURCE, "another_name").Desk()) == expected
    assert fingerprint(run_cell(SOURCE)["Desk"]()) == expected
    # a class in a cell, its helpers in an earlier one
    head, tail = SOURCE.split("class Desk")
    namespace = run_cell(head)
    assert fingerprint(run_cell("class Desk" + tail, 2, namespace)["Desk"]()) == expected
    # inside a function
    indented = textwrap.indent("class Desk" + tail, "    ")
    made = run_cell(f"{head}\ndef make():\n{indented}\n    return Desk()\n")["make"]()
    assert fingerprint(made) == expected
    # helpers in a module of their own
    load(head, "desk_helpers")
    source = (
        "import math, gymnasium, numpy as np\n"
        "from desk_helpers import LIMIT, LOG, Money, net\n\n\nclass Desk" + tail
    )
    assert fingerprint(load(source).Desk()) == expected


def test_configuration_is_what_the_maker_sets(load: Callable[..., ModuleType]) -> None:
    module = load(SOURCE)
    assert changed(module.Desk(), module.Desk(fee=2)) == ["configuration/fee"]
    later = module.Desk()
    later.fee = 3
    later.colour = "red"
    assert changed(module.Desk(), later) == ["configuration/colour", "configuration/fee"]
    used = module.Desk()
    used.reset(seed=3)
    used.step(1)
    assert changed(module.Desk(), used) == []


def test_a_name_bound_anew_in_a_notebook_is_seen() -> None:
    namespace = run_cell(SOURCE)
    env = namespace["Desk"]()
    before = fingerprint(env)
    run_cell("def rate(region):\n    return 0", 2, namespace)
    assert before.explain(fingerprint(env)) == "helper/rate changed; constant/RATES removed"
    run_cell("rate = 5", 3, namespace)
    assert before.explain(fingerprint(env)) == (
        "helper/net changed; constant/rate added; constant/RATES, helper/rate removed"
    )
    run_cell("del rate", 4, namespace)
    assert "helper/net: it reads rate, which is not defined" in fingerprint(env).unseen


FROZEN_PARTS = {
    "class/Money": "24ad7e14f384a2e2",
    "constant/RATES": "15440bb3ec83a9be",
    "helper/net": "1cf6bd7558c850df",
    "hook/step": "cfb434f06a44775f",
    "method/_observe": "87ddc8f837fe1a78",
    "render/render": "89720720e627ed9c",
}


def test_the_hashes_are_the_same_on_every_python(load: Callable[..., ModuleType]) -> None:
    parts = fingerprint(load(SOURCE).Desk()).parts
    assert {name: parts[name][:16] for name in FROZEN_PARTS} == FROZEN_PARTS


# What cannot be seen, and what is odd.


def plain(step: str = "0.0", init: str = "pass", more: str = "") -> str:
    """The text of a module with an environment whose step gives a reward."""
    body = textwrap.indent(textwrap.dedent(init), " " * 8)
    return f"""
import functools, os, sqlite3, tempfile, time, uuid
import gymnasium
import numpy as np
{textwrap.dedent(more)}

class Desk(gymnasium.Env):
    action_space = observation_space = gymnasium.spaces.Discrete(2)

    def __init__(self):
{body}

    def reset(self, *, seed=None, options=None):
        return 0, {{}}

    def step(self, action):
        return 0, {step}, True, False, {{}}
"""


@pytest.mark.parametrize(
    ("step", "sentence"),
    [
        ("float(open('x').read())", "it calls open(), and what that gives is not seen"),
        ("eval('1')", "it calls eval(), and what that gives is not seen"),
        ("float(os.environ['X'])", "it reads os.environ, and what that gives is not seen"),
        ("float(nothing)", "it reads nothing, which is not defined"),
        ("len(__file__)", "it reads __file__, and what lies beside its file is not seen"),
        ("os.missing", None),
    ],
)
def test_what_a_step_gets_from_elsewhere_is_said(
    load: Callable[..., ModuleType], step: str, sentence: str | None
) -> None:
    found = fingerprint(load(plain(step)).Desk())
    assert found.unseen == (() if sentence is None else (f"hook/step: {sentence}",))


@pytest.mark.parametrize(
    ("init", "sentence"),
    [
        ("self.db = sqlite3.connect(':memory:')", "a sqlite3.Connection, whose content is not"),
        ("self.path = os.path.abspath('x')", "an absolute path, which is left out; so is what"),
        ("self.id = uuid.uuid4()", "its value comes from a clock, from chance or this machine"),
        ("now = time.time()\nself.ends = now + 3", "its value comes from a clock, from chance"),
        ("self.a = self.b = f'{tempfile.mkdtemp()}/x'", "its value comes from a clock, from"),
        ("self.rng = np.random.default_rng()", "its value comes from a clock, from chance"),
    ],
)
def test_what_an_object_holds_and_cannot_be_compared_is_said(
    load: Callable[..., ModuleType], init: str, sentence: str
) -> None:
    module = load(plain(init=init))
    desks = [module.Desk(), module.Desk()]
    first, second = map(fingerprint, desks)
    for desk in desks:
        if hasattr(desk, "db"):
            desk.db.close()
    assert first == second
    assert first.unseen
    assert all(sentence in text for text in first.unseen)


def test_a_class_without_source_is_known_by_its_compiled_code() -> None:
    def make(source: str) -> Any:
        namespace: dict[str, Any] = {"__name__": "__main__"}
        exec(source, namespace)
        return fingerprint(namespace["Desk"]())

    found = make(SOURCE)
    assert set(FROZEN_PARTS) <= set(found.parts)
    assert (
        "helper/net: there is no source of it, so its compiled code is hashed, which differs"
        " between versions of Python" in found.unseen
    )
    assert make("\n\n\n" + SOURCE.replace("Look a rate up", "Give the rate")) == found
    changed = make(SOURCE.replace("RATES[region]", "RATES[region] / 2"))
    assert found.explain(changed) == "helper/rate changed"


def test_a_file_edited_after_its_import_does_not_speak_for_the_running_code(
    load: Callable[..., ModuleType],
) -> None:
    expected = fingerprint(load(SOURCE).Desk())
    module = load(SOURCE)
    path = Path(str(module.__file__))
    path.write_text("# a line\n" + SOURCE.replace("RATES[region]", "RATES[region] / 2"))
    found = fingerprint(module.Desk())
    assert expected.explain(found) == "helper/rate changed"
    assert any(
        text.startswith("helper/rate: its source is not what runs: it was edited after")
        for text in found.unseen
    )
    # what was read before the edit stays known
    known = load(SOURCE)
    fingerprint(known.Desk())
    Path(str(known.__file__)).write_text("def broken(:\n")
    assert fingerprint(known.Desk()) == expected


def test_imports_inside_functions(load: Callable[..., ModuleType], tmp_path: Path) -> None:
    load("def fee():\n    return 1\n\nclass Rate:\n    by = 2\n", "desk_fees")
    source = plain(
        "fee()", more="def fee():\n    from desk_fees import fee, Rate\n    return fee()"
    )
    before = fingerprint(load(source).Desk())
    assert {"helper/fee", "helper/fee#2", "class/Rate", "constant/Rate.by"} <= set(before.parts)
    load("def fee():\n    return 2\n\nclass Rate:\n    by = 2\n", "desk_fees")
    assert before.explain(fingerprint(load(source).Desk())) == "helper/fee#2 changed"
    source = plain(more="", step="1.0").replace(
        "return 0, 1.0", "import desk_gone\n        return 0, 1.0"
    )
    assert fingerprint(load(source).Desk()).unseen == (
        "hook/step: it imports desk_gone, which raises ModuleNotFoundError",
    )
    source = plain().replace("return 0, 0.0", "import pandas.io\n        return 0, 0.0")
    found = fingerprint(load(source).Desk())
    assert found.unseen == (
        "hook/step: it imports pandas.io when it is called: its version is left out",
    )


def test_modules_of_the_project_are_followed_by_the_attributes_that_are_read(
    load: Callable[..., ModuleType],
) -> None:
    load("VAT = 0.2\nOTHER = 1\n\ndef net(x):\n    return x - VAT\n", "desk_rates")
    source = plain("desk_rates.net(desk_rates.VAT)", more="import desk_rates")
    before = fingerprint(load(source).Desk())
    assert {"constant/VAT", "helper/net"} <= set(before.parts)
    assert before.unseen == ()
    load("VAT = 0.3\nOTHER = 2\n\ndef net(x):\n    return x - VAT\n", "desk_rates")
    assert before.explain(fingerprint(load(source).Desk())) == "constant/VAT changed"
    whole = fingerprint(load(plain("vars(desk_rates)['VAT']", more="import desk_rates")).Desk())
    assert whole.unseen == (
        "hook/step: it hands on the module desk_rates as a whole, which is not followed",
    )


def test_bases_of_the_project_and_the_methods_that_they_hide(
    load: Callable[..., ModuleType],
) -> None:
    source = (
        plain().replace("class Desk(", "class Base(")
        + """

class Desk(Base):
    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, reward + 1, *rest
"""
    )
    before = fingerprint(load(source).Desk())
    assert {"hook/step", "hook/Base.step", "hook/reset"} <= set(before.parts)
    edited = load(source.replace("0.0, True", "0.5, True")).Desk()
    assert before.explain(fingerprint(edited)) == "hook/Base.step changed"


def test_wrappers_are_parts(load: Callable[..., ModuleType]) -> None:
    source = plain(
        more="""
        class Clip(gymnasium.RewardWrapper):
            def __init__(self, env, low=0.0):
                super().__init__(env)
                self.low = low
            def reward(self, reward):
                return max(self.low, reward)
        """
    )
    module = load(source)
    bare = module.Desk()
    clipped = module.Clip(bare)
    found = fingerprint(clipped)
    assert fingerprint(bare).explain(found) == (
        "class/Clip, helper/Clip.__init__, helper/Clip.reward, wrapper/Clip added"
    )
    assert found.explain(fingerprint(module.Clip(bare, low=0.5))) == "wrapper/Clip changed"
    edited = load(source.replace("max(self.low", "min(self.low"))
    assert found.explain(fingerprint(edited.Clip(edited.Desk()))) == "helper/Clip.reward changed"
    limited = gymnasium.wrappers.TimeLimit(bare, 5)
    assert (
        fingerprint(limited).explain(fingerprint(gymnasium.wrappers.TimeLimit(bare, 6)))
        == "wrapper/TimeLimit changed"
    )
    # what only looks on does not matter
    assert fingerprint(gymnasium.wrappers.OrderEnforcing(bare)) == fingerprint(bare)
    assert fingerprint(capture_episodes(bare, exporter=":memory:")) == fingerprint(bare)


@pytest.mark.parametrize("name", ["CartPole-v1", "FrozenLake-v1", "Taxi-v4", "Blackjack-v1"])
def test_gymnasium_s_own_environments(name: str) -> None:
    env = gymnasium.make(name)
    before = fingerprint(env)
    assert before == fingerprint(gymnasium.make(name))
    env.reset(seed=1)
    for _ in range(3):
        env.step(env.action_space.sample())
        env.reset()
    assert before == fingerprint(env)
    assert {"hook/step", "hook/reset", "package/gymnasium"} <= set(before.parts)


def test_arguments_of_gymnasium_s_own_environments() -> None:
    slippery, dry = (gymnasium.make("FrozenLake-v1", is_slippery=s) for s in (True, False))
    assert changed(slippery, dry) == ["configuration/P"]
    heavy = gymnasium.make("CartPole-v1")
    heavy.unwrapped.gravity = 20.0  # type: ignore[attr-defined]
    assert changed(gymnasium.make("CartPole-v1"), heavy) == ["configuration/gravity"]


def test_a_method_put_on_the_object_is_seen(load: Callable[..., ModuleType]) -> None:
    module = load(SOURCE)
    env = module.Desk()
    env.render = lambda: "nothing"
    assert changed(module.Desk(), env) == ["configuration/render", "helper/<lambda>"]


def test_payload_and_what_is_to_be_ignored(load: Callable[..., ModuleType]) -> None:
    source = (
        plain("LIMIT", "self.rate, self.url = 1, 'a'", more="LIMIT = 1")
        + """
    fingerprint_ignore = ("url", "constant/LIMIT")

    def fingerprint_payload(self):
        return {"model": self.rate}
"""
    )
    module = load(source)
    env = module.Desk()
    before = fingerprint(env)
    assert "payload" in before.parts
    env.url = "b"
    module.LIMIT = 2
    assert fingerprint(env) == before
    env.rate = 2
    assert before.explain(fingerprint(env)) == "configuration/rate, payload changed"
    env.rate = float("nan")
    with pytest.raises(
        ValueError, match=r"fingerprint_payload\(\) must give portable JSON: /model"
    ):
        fingerprint(env)


def test_hostile_objects_do_not_stop_it(load: Callable[..., ModuleType]) -> None:
    source = (
        plain(
            "float(bool(ODD))",
            "self.loop = [1]; self.loop.append(self.loop)\n"
            "self.deep = functools.reduce(lambda deep, _: [deep], range(5000), [])\n"
            "self.odd, self.text = Odd(), '\\ud800'\n"
            "self.many = {i: (i, str(i)) for i in range(10_000)}",
            more="""
        class Meta(type):
            def __getattr__(cls, name):
                raise RuntimeError(name)
        class Odd(metaclass=Meta):
            def __getattr__(self, name):
                raise RuntimeError(name)
            def __eq__(self, other):
                raise RuntimeError("no")
            def __hash__(self):
                raise RuntimeError("no")
            def __len__(self):
                raise RuntimeError("no")
            @property
            def value(self):
                raise RuntimeError("no")
        ODD = Odd()
        """,
        )
        + """
    @property
    def tools(self):
        raise RuntimeError("no tools today")
"""
    )
    module = load(source)
    found = fingerprint(module.Desk())
    assert found == fingerprint(module.Desk())
    assert "tools: reading them raised RuntimeError" in found.unseen
    assert any(
        text.startswith("configuration/deep: it is too large or nested") for text in found.unseen
    )


def test_arrays_and_functions_made_in_a_loop(load: Callable[..., ModuleType]) -> None:
    module = load(plain(init="self.image = np.zeros((1000, 1000))", more=""))
    env = module.Desk()
    before = fingerprint(env)
    env.image[999, 999] = 1
    assert before.explain(fingerprint(env)) == "configuration/image changed"
    many = load(plain("RULES[3](1)", more="RULES = [lambda x, i=i: x + i for i in range(50)]"))
    assert len([part for part in fingerprint(many.Desk()).parts if "<lambda>" in part]) == 50


def test_threads_agree(load: Callable[..., ModuleType]) -> None:
    module = load(SOURCE)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: fingerprint(module.Desk()).digest, range(32)))
    assert len(set(found)) == 1


@pytest.mark.parametrize("value", [None, 3, "env", object(), gymnasium.spaces.Discrete(2)])
def test_what_is_no_environment_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="environment must be a Gymnasium environment, not "):
        fingerprint(value)


def test_a_class_is_refused_with_what_to_do(load: Callable[..., ModuleType]) -> None:
    with pytest.raises(
        TypeError, match=r"environment is the class Desk: make one first, Desk\(…\)"
    ):
        fingerprint(load(SOURCE).Desk)


def test_a_fingerprint_is_kept_as_json_and_compared(load: Callable[..., ModuleType]) -> None:
    found = fingerprint(load(SOURCE).Desk())
    again = Fingerprint.from_dict(json.loads(json.dumps(found.to_dict())))
    assert again == found
    assert hash(again) == hash(found)
    assert again.explain(found) == "no part differs"
    content = json.dumps(
        {"parts": dict(found.parts), "schema": "envbench.fingerprint/v1"},
        sort_keys=True,
        separators=(",", ":"),
    )
    assert found.digest == hashlib.sha256(content.encode()).hexdigest()
    assert f"  {found.parts['helper/net'][:12]}  helper/net" in str(found)
    other = Fingerprint.of_parts(
        {**found.parts, "package/numpy": "0" * 64}, packages={**found.packages, "numpy": "9.9"}
    )
    assert found.explain(other) == f"package/numpy ({found.packages['numpy']} to 9.9) changed"
    with pytest.raises(TypeError):
        found.parts["x"] = "y"  # type: ignore[index]


@pytest.mark.parametrize(
    "values",
    [None, {}, {"parts": {}}, {"parts": {"a": 1}, "packages": {}}, {"parts": {}, "packages": {}}],
)
def test_a_malformed_fingerprint_is_refused(values: Any) -> None:
    with pytest.raises(ValueError, match="fingerprint"):
        Fingerprint.from_dict(values)


# Environments of ours.

REFUNDS = """
from envbench.environments import TaskData
from envbench.environments import Environment, Observation, State, tool

LETTER = "A"


class RefundState(State):
    order_id: str = ""
    eligible: bool = False


class RefundObservation(Observation):
    ticket: str

    def render(self) -> str:
        return f"Ticket: {self.ticket}"


def is_eligible(order_id: str) -> bool:
    return order_id.startswith(LETTER)


class RefundEnv(Environment[RefundObservation, RefundState]):
    name = "refund-support"
    version = "1.0.0"
    max_turns = 4

    def setup(self, task: TaskData) -> None:
        super().setup(task)
        self.state = RefundState(seed=self.seed, order_id=str(task.metadata["order_id"]))

    def observe(self) -> RefundObservation:
        return RefundObservation(ticket=str(self.task.input))

    @tool
    def check(self) -> bool:
        \"\"\"Check the order.\"\"\"
        self.state.eligible = is_eligible(self.state.order_id)
        return self.state.eligible


env = RefundEnv()


@env.scorer
def correct(rollout) -> float:
    return float(rollout.env.state.eligible == rollout.task.expected)
"""


def test_the_parts_of_an_environment_of_ours(load: Callable[..., ModuleType]) -> None:
    found = load(REFUNDS).env.fingerprint()
    assert list(found.parts) == [
        "class/RefundObservation",
        "class/RefundState",
        "configuration/max_turns",
        "configuration/scorer/correct",
        "constant/LETTER",
        "helper/is_eligible",
        "hook/observe",
        "hook/setup",
        "package/envbench",
        "package/gymnasium",
        "package/pydantic",
        "payload",
        "render/RefundObservation.render",
        "schema/check",
        "scorer/correct",
        "tool/check",
    ]
    assert found.unseen == ()


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ("Check the order.", "Look at the order.", ["schema/check"]),
        ("def check(self)", "def check(self, twice: bool = False)", ["schema/check", "tool/check"]),
        ("@tool\n", '@tool(description="Other")\n', ["schema/check"]),
        ("@env.scorer\n", "@env.scorer(weight=0.5)\n", ["configuration/scorer/correct"]),
        ("== rollout.task", "!= rollout.task", ["scorer/correct"]),
        ('LETTER = "A"', 'LETTER = "B"', ["constant/LETTER"]),
        ("startswith", "endswith", ["helper/is_eligible"]),
        ('f"Ticket: ', 'f"Your ticket: ', ["render/RefundObservation.render"]),
        ("max_turns = 4", "max_turns = 5", ["configuration/max_turns"]),
        ("eligible: bool = False", "eligible: bool = True", ["class/RefundState"]),
        ('version = "1.0.0"', 'version = "2"', []),
        ('name = "refund-support"', 'name = "desk"', []),
        ("@env.scorer\n", "@RefundEnv.scorer\n", []),
        ("import TaskData\n", "import ToolCall, TaskData\n", []),
    ],
)
def test_a_change_to_an_environment_of_ours_is_named(
    load: Callable[..., ModuleType], old: str, new: str, parts: list[str]
) -> None:
    assert REFUNDS.count(old) == 1
    before, after = load(REFUNDS).env, load(REFUNDS.replace(old, new)).env
    assert changed(before, after) == parts


def test_tools_and_scorers_come_and_go(load: Callable[..., ModuleType]) -> None:
    module = load(REFUNDS)
    before = module.env.fingerprint()
    more = load(
        REFUNDS.replace(
            "    @tool\n", "    @tool\n    def pay(self) -> int:\n        return 1\n\n    @tool\n"
        )
    )
    assert before.explain(more.env.fingerprint()) == "schema/pay, tool/pay added"

    @module.env.scorer
    def other(rollout: Any) -> float:
        return 1.0

    assert before.explain(module.env.fingerprint()) == (
        "configuration/scorer/other, scorer/other added"
    )


NOTEBOOK = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
for cell in json.loads(sys.argv[1]):
    shell.run_cell(cell, store_history=True).raise_error()
found = shell.user_ns["env"].fingerprint()
print(found.digest, len(found.unseen))
"""


@pytest.mark.slow
def test_cells_of_ipython_are_read(load: Callable[..., ModuleType], tmp_path: Path) -> None:
    head, tail = REFUNDS.split("class RefundEnv")
    cells = ["%time 1", head, "# a class\nclass RefundEnv" + tail, "!true\nx = 1"]
    ran = subprocess.run(
        [sys.executable, "-c", NOTEBOOK, json.dumps(cells)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "IPYTHONDIR": str(tmp_path)},
    )
    assert ran.stdout.splitlines()[-1] == f"{load(REFUNDS).env.fingerprint().digest} 0"


@pytest.mark.slow
def test_where_there_may_be_no_source_it_is_said_or_the_same(
    load: Callable[..., ModuleType],
) -> None:
    module = load(REFUNDS)
    ran = subprocess.run(
        [
            sys.executable,
            "-c",
            REFUNDS + "print(env.fingerprint().digest, *env.fingerprint().unseen)",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    digest, *unseen = ran.stdout.split(maxsplit=1)
    # Python keeps the text of -c from version 3.13 on
    is_kept = digest == module.env.fingerprint().digest
    assert is_kept or "there is no source of it" in unseen[0]
