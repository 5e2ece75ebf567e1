"""Where episodes are kept: one DuckDB file that SQL can query."""

from __future__ import annotations

from envbench.store.errors import (
    NotAStore,
    QueryError,
    StoreClosed,
    StoreDamaged,
    StoreError,
    StoreLocked,
    StoreMissing,
    StoreTooNew,
    StoreTooOld,
    StoreWarning,
)
from envbench.store.result import Result
from envbench.store.store import Store, connect, open_stores

__all__ = [
    "NotAStore",
    "QueryError",
    "Result",
    "Store",
    "StoreClosed",
    "StoreDamaged",
    "StoreError",
    "StoreLocked",
    "StoreMissing",
    "StoreTooNew",
    "StoreTooOld",
    "StoreWarning",
    "connect",
    "open_stores",
]
