"""The worked example: a real SQLite ledger, eight scenarios, two versions, and their outcomes.

`python -m envbench.ledger --output-dir ledger-outcomes` runs it, and `envbench.ledger.run.run`
does the same from Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from envbench.ledger.environment import LedgerEnv, create_ledger, document_for
    from envbench.ledger.outcomes import Outcome, Outcomes

__all__ = ["LedgerEnv", "Outcome", "Outcomes", "create_ledger", "document_for"]

_HOMES = {
    "LedgerEnv": "environment",
    "Outcome": "outcomes",
    "Outcomes": "outcomes",
    "create_ledger": "environment",
    "document_for": "environment",
}


def __getattr__(name: str) -> Any:
    # Loaded when used: the environment alone needs neither DuckDB nor Rich.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
