"""The example of the documented format, and the documented way to compute its digests."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "evidence-format.md"


@pytest.fixture(scope="session")
def blocks() -> dict[str, str]:
    """The code blocks of the document by language."""
    return dict(re.findall(r"```(\w+)\n(.*?)\n```", DOCUMENT.read_text("utf-8"), re.DOTALL))


@pytest.fixture(scope="session")
def documented(blocks: dict[str, str]) -> dict[str, Any]:
    """The names that the document's Python defines; it imports json and hashlib only."""
    names: dict[str, Any] = {}
    exec(compile(blocks["python"], str(DOCUMENT), "exec"), names)
    return names


@pytest.fixture
def example(blocks: dict[str, str]) -> dict[str, Any]:
    """The document's episode, as plain JSON."""
    data: dict[str, Any] = json.loads(blocks["json"])
    return data


@pytest.fixture(scope="session")
def reseal(documented: dict[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Give altered evidence the digests that fit it, so that only its content is wrong."""

    def seal(data: dict[str, Any]) -> dict[str, Any]:
        data["digest"], data["trajectory_digest"] = documented["digests"](data)
        return data

    return seal
