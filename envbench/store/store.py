"""A store of episodes, reports and decisions in one DuckDB file."""

from __future__ import annotations

import itertools
import os
import warnings
import weakref
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

import duckdb

from envbench.store import connection, untrusted
from envbench.store.connection import Connection, Target
from envbench.store.errors import QueryError, StoreClosed, StoreError, StoreWarning
from envbench.store.interrupts import interruptible
from envbench.store.messages import explain
from envbench.store.result import Result
from envbench.store.statements import READ_ONLY, require_reading

if TYPE_CHECKING:
    from envbench.evidence.episode import EpisodeEvidence
    from envbench.store.integrity import Verification
    from envbench.store.merging import Merged
    from envbench.store.reading import Episodes


class Writer(Protocol):
    """What writes to a store behind the caller's back, and can be waited for."""

    def wait(self) -> None:
        """Return when everything handed over is written, or failed to be."""

    def flush(self) -> None:
        """Return when everything handed over is committed."""

    def close(self) -> None:
        """Flush, and stop."""


def connect(
    target: Target = "envbench.duckdb", *, read_only: bool = False, trusted: bool = True
) -> Store:
    """Open a store, making it when it does not exist.

    Args:
        target: path of the file, or ``:memory:``.
        read_only: never write; several processes may read a file that none writes.
        trusted: False for a file that someone else made: it is read only, and nothing that it
            defines is run.

    Returns:
        The store; a context manager that closes it.

    Raises:
        StoreError: one line on what is wrong and what to do; its subclasses tell the cases apart.

    Example:
        >>> with connect(":memory:") as store:
        ...     store.sql("SELECT count(*) AS n FROM episodes").fetchall()
        [(0,)]
    """
    if not trusted:
        return Store(untrusted.open_untrusted(target))
    store = Store(connection.open_store(target, read_only=read_only))
    if not read_only:
        from envbench.store import adoption

        try:
            adoption.adopt(store)
        except BaseException:
            store.close()
            raise
    return store


_STORES: weakref.WeakSet[Store] = weakref.WeakSet()
_NUMBERS = itertools.count()


def open_stores() -> list[Store]:
    """The stores that are open in this process, in the order in which they were connected."""
    found = [store for store in list(_STORES) if store.is_open]
    return sorted(found, key=lambda store: store._number)


class Store:
    """Episodes, their states, reports and decisions; see `docs/schema.md` for the tables.

    Made by `connect`. Usable from several threads. Every method raises StoreClosed after `close`.

    Attributes:
        writer: what writes here in the background; `flush` and `close` wait for it.
    """

    def __init__(self, opened: Connection) -> None:
        self._opened = opened
        self._closed = False
        self._number = next(_NUMBERS)
        self.writer: Writer | None = None
        _STORES.add(self)

    @property
    def path(self) -> Path | None:
        """The file, absolute; None for a store in memory."""
        return self._opened.path

    @property
    def read_only(self) -> bool:
        """Whether writing is refused."""
        return self._opened.read_only

    @property
    def trusted(self) -> bool:
        """Whether the file's own definitions (views, macros) are used."""
        return self._opened.trusted

    @property
    def is_open(self) -> bool:
        """Whether it can be used: not closed, and opened by this process."""
        return not self._closed and self._opened.process == os.getpid()

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A fresh cursor for one operation, on which the tables are found by their bare names.

        Raises:
            StoreClosed: after `close`, and in a process forked from the one that opened the store.
        """
        if self._closed:
            raise StoreClosed(f"the store {self._name} was closed: connect to it again")
        if self._opened.process != os.getpid():
            raise StoreClosed(
                f"the store {self._name} belongs to process {self._opened.process}, which this one "
                f"was forked from: connect to a file of its own here, and merge them"
            )
        return self._opened.duckdb.cursor()

    def sql(self, query: str, params: Sequence[Any] | Mapping[str, Any] | None = None) -> Result:
        """Run a query and read all its rows.

        Nothing can be written by it: `cursor` is for other statements.

        Args:
            query: one SQL statement that reads, such as SELECT, FROM, WITH, DESCRIBE or EXPLAIN;
                `docs/schema.md` lists tables and views.
            params: values for ``?`` (a sequence) or ``$name`` (a mapping).

        Raises:
            QueryError: with DuckDB's message, when the query fails; and when it is not one
                statement that reads.
            TypeError: when an argument is of the wrong type.
        """
        if not isinstance(query, str):
            raise TypeError(f"query must be text, not {type(query).__name__}")
        if params is not None and (
            isinstance(params, (str, bytes)) or not isinstance(params, (Sequence, Mapping))
        ):
            raise TypeError(
                f"params must be a sequence or a mapping of values, not {type(params).__name__}"
            )
        self._settle()
        with self.cursor() as cursor, interruptible(cursor):
            try:
                require_reading(cursor, query)
                cursor.execute(READ_ONLY).fetchall()
                return Result(cursor.sql(query, params=_bindable(params)).to_arrow_table())
            except duckdb.FatalException as error:
                raise explain(error, self.path) from error
            except (duckdb.Error, RuntimeError, ValueError, UnicodeError) as error:
                raise QueryError(str(error).strip()) from error

    def frame(self, table: str) -> Result:
        """All rows of a table or view, episode by episode and step by step.

        Raises:
            StoreError: when there is no such table, naming those there are.
        """
        names = self.columns()
        if table not in names:
            raise StoreError(f"a store has no table {table!r}; it has {', '.join(sorted(names))}")
        order = [column for column in _ORDER if column in names[table]]
        ordered = f" ORDER BY {', '.join(order)}" if order else ""
        return self.sql(f'SELECT * FROM "{table}"{ordered}')

    def transitions(self) -> Result:
        """Observation, action, reward, next observation and flags of each step taken, in order."""
        return self.frame("transitions")

    def episodes(self, where: str | None = None) -> Episodes:
        """The sealed episodes in order of recording: iterates lazily, and has a length.

        Args:
            where: an SQL condition on the columns of the table `episodes`.
        """
        from envbench.store import reading

        self._settle()
        return reading.Episodes(self, where)

    def episode(self, episode_id: str, verify: bool = False) -> EpisodeEvidence:
        """One sealed episode.

        Args:
            episode_id: its identity.
            verify: recompute its digest first, and raise when the evidence was altered.
        """
        from envbench.store import reading

        self._settle()
        return reading.episode(self, episode_id, verify=verify)

    def add(self, episode: EpisodeEvidence) -> None:
        """Write an episode that was made elsewhere, and return when it is committed.

        Raises:
            StoreError: when another episode has its id, or writing failed.
            TypeError: when it is no episode.
        """
        from envbench.evidence.episode import EpisodeEvidence
        from envbench.store import writing

        if not isinstance(episode, EpisodeEvidence):
            name = type(episode).__name__
            ours = type(episode).__module__.startswith("envbench.") and hasattr(episode, "save")
            raise TypeError(
                f"store.add takes an EpisodeEvidence, not {name}"
                + (f": {name.lower()}.save(store) keeps a {name}" if ours else "")
            )
        writing.add(self, episode)

    def verify(self) -> Verification:
        """Recompute every digest and check that the tables fit together; see `integrity.verify`."""
        from envbench.store import integrity

        return integrity.verify(self)

    def merge(self, paths: Target | Iterable[Target]) -> Merged:
        """Copy what other stores hold into this one, all or nothing; see `merging.merge`."""
        from envbench.store import merging

        return merging.merge(self, paths)

    def rebuild_changes(self) -> int:
        """Derive every row of `state_changes` anew from the states, in one transaction.

        Returns:
            The number of changes.
        """
        from envbench.store import writing

        self._settle()
        return writing.rebuild_changes(self)

    def flush(self) -> None:
        """Return when everything handed to the background writer is committed.

        Raises:
            StoreError: when something could not be written, or the file was deleted or replaced.
        """
        if self._closed:
            raise StoreClosed(f"the store {self._name} was closed: connect to it again")
        if self.writer is not None:
            self.writer.flush()
        if self._opened.is_displaced:
            ((name,),) = self.cursor().execute("SELECT current_database()").fetchall()
            raise StoreError(
                f"{self.path} was deleted or replaced while it was open, and what was recorded is "
                f"lost when this store is closed. Save it first: "
                f"cursor().execute(\"ATTACH 'saved.duckdb' AS saved\"), then "
                f"cursor().execute('COPY FROM DATABASE \"{name}\" TO saved')"
            )

    def close(self) -> None:
        """Wait for the writer and close the file; a second call does nothing."""
        if self._closed:
            return
        ours = self._opened.process == os.getpid()
        try:
            if self.writer is not None and ours:
                self.writer.close()
        finally:
            lost = ours and not self.read_only and self._opened.is_displaced
            self._closed = True
            self._opened.close()
        if lost:
            warnings.warn(
                f"{self.path} was deleted or replaced while it was open: what was recorded since "
                f"is lost",
                StoreWarning,
                stacklevel=2,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # an interpreter that is going down may have lost any of the names used here
        with suppress(BaseException):
            if not self._closed:
                self._closed = True
                self._opened.close()

    def columns(self) -> dict[str, list[str]]:
        """The columns of every table and view by its name, also of those that others made.

        It does not wait for what is still being recorded.
        """
        with self.cursor() as cursor:
            rows = cursor.execute(
                "SELECT table_name, column_name FROM system.main.duckdb_columns() "
                "WHERE database_name = current_database() AND schema_name = 'main' "
                "ORDER BY column_index"
            ).fetchall()
        columns: dict[str, list[str]] = {}
        for table, column in rows:
            columns.setdefault(table, []).append(column)
        return columns

    def __repr__(self) -> str:
        if self._closed:
            return f"<Store {self._name}, closed>"
        return f"<Store {self._name}{', read-only' if self.read_only else ''}>"

    def _settle(self) -> None:
        """Let what this process recorded into the file be there before it is read."""
        for store in list(_STORES):
            same = store is self or (self.path is not None and store.path == self.path)
            if same and store.writer is not None and not store._closed:
                store.writer.wait()

    @property
    def _name(self) -> str:
        return str(self.path or connection.MEMORY)


_ORDER = ("recorded_at", "episode_id", "step_index", "first_step", "event_index", "finding_index")


def _bindable(
    params: Sequence[Any] | Mapping[str, Any] | None,
) -> list[Any] | dict[str, Any] | None:
    if params is None:
        return None
    return dict(params) if isinstance(params, Mapping) else list(params)
