"""What can go wrong with a store, one class for each way on."""

from __future__ import annotations


class StoreError(Exception):
    """A store could not do what was asked; the message says what, where, and what to do."""


class StoreMissing(StoreError):
    """There is no store at this place, and none was to be made."""


class StoreLocked(StoreError):
    """Another process, or another mode in this one, has the store open."""


class NotAStore(StoreError):
    """What is at this place is not an envbench store."""


class StoreTooNew(StoreError):
    """The store was written by a newer envbench."""


class StoreTooOld(StoreError):
    """The store is of an older schema and was opened in a way that cannot migrate it."""


class StoreDamaged(StoreError):
    """The store's file, or its write-ahead log, cannot be read."""


class StoreClosed(StoreError):
    """The store was closed, or belongs to the process that this one was forked from."""


class QueryError(StoreError):
    """A query failed; the message is DuckDB's own."""


class StoreWarning(UserWarning):
    """Something was kept or set aside that the user should know of."""
