from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium
import pytest

from envbench.environments.fingerprint import fingerprint
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
