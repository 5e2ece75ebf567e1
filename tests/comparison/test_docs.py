"""The examples in docs/comparison.md and in docstrings run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import envbench.comparison
from envbench.comparison.differences import PARTS
from envbench.comparison.results import VERDICTS

PAGE = Path(__file__).parents[2] / "docs" / "comparison.md"


def test_the_page_s_examples_run() -> None:
    done = doctest.testfile(str(PAGE), module_relative=False)
    assert (done.failed, done.attempted > 20) == (0, True)


def test_the_page_names_every_verdict_and_every_part() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for name in (*VERDICTS, *(part for parts in PARTS.values() for part in parts)):
        assert f"`{name}`" in text, name


def test_the_messages_on_the_page_are_those_of_the_code() -> None:
    folder = Path(envbench.comparison.__path__[0])
    # strings that go on in the next line are put together, so that a message is in one piece
    code = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.py"))
    code = re.sub(r'"\s*\n\s*f?"', "", code)
    code = re.sub(r"\{[^{}]*(\{[^{}]*\}[^{}]*)*\}", "…", code)
    table = PAGE.read_text(encoding="utf-8").split("## Every way it refuses")[1]
    messages = re.findall(r"^\| `(…[^`]*|[a-z][^`_]* [^`]*)` \|", table, re.MULTILINE)
    assert len(messages) == 9
    for message in messages:
        for piece in filter(None, (part.strip() for part in message.split("…"))):
            assert piece in code, piece


MODULES = [module.name for module in pkgutil.iter_modules(envbench.comparison.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name: str) -> None:
    module = importlib.import_module(f"envbench.comparison.{name}")
    assert doctest.testmod(module).failed == 0
