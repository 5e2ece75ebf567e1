"""`%%sql` in a notebook: a query over the evidence, its result shown or kept in a variable.

::

    %load_ext envbench

    %%sql worst --as polars
    SELECT case_id, episode_return FROM episodes WHERE agent_id = $agent ORDER BY 2 LIMIT 5
"""

from __future__ import annotations

import keyword
import shlex
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb
from IPython.core.magic import needs_local_scope, no_var_expand

from envbench.store import QueryError, Store, StoreError, connect, open_stores
from envbench.store.connection import resolve
from envbench.store.statements import READ_ONLY, require_reading
from envbench.workbench import displays
from envbench.workbench.sql_completion import matcher
from envbench.workbench.sql_errors import SqlError, described
from envbench.workbench.sql_variables import bound

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

FORMS = ("polars", "pandas", "relation", "arrow")
"""What `--as` takes."""

USAGE = "%%sql [name] [--as polars|pandas|relation|arrow] [--store NAME|PATH] [--quiet]"


def load(ipython: InteractiveShell) -> None:
    """Give a shell `%%sql`, `%sql` and the displays; a second call does nothing more.

    Args:
        ipython: the running shell, as `IPython.get_ipython()` gives it.
    """
    displays.register(ipython)
    register: Any = ipython.register_magic_function  # its type is lost in a decorator of IPython
    register(_magic(ipython), magic_kind="line_cell", magic_name="sql")
    completer = getattr(ipython, "Completer", None)
    if completer is not None:
        others = [
            each
            for each in completer.custom_matchers
            if getattr(each, "matcher_identifier", "") != "envbench_sql"
        ]
        completes = matcher(lambda options: _completed(options, ipython.user_ns), ipython.user_ns)
        completer.custom_matchers = [*others, completes]


def _magic(ipython: InteractiveShell) -> Callable[..., Any]:
    @no_var_expand  # a variable is bound, and its text never pasted
    @needs_local_scope
    def sql(line: str, cell: str | None = None, local_ns: dict[str, Any] | None = None) -> Any:
        """Query a store of envbench, and show the rows or keep them.

        ::

            %%sql [name] [--as polars|pandas|relation|arrow] [--store NAME|PATH] [--quiet]
            SELECT …

        name       the variable that the result is kept in
        --as       what it is kept as; without it a Result, which has .pl(), .df() and .arrow()
        --store    a variable that holds a store, or a path; without it the store connected last
        --quiet    show nothing

        `$x` in the query is the value of the variable x: None, a number, text, a date, a list.
        Only statements that read are run. `%sql` takes the query on its own line.
        """
        try:
            return _run(line, cell, [local_ns or {}, ipython.user_ns], ipython.user_ns)
        except (StoreError, NameError, TypeError, ValueError) as error:
            raise SqlError(f"%sql: {error}") from None

    return sql


@dataclass(frozen=True, slots=True)
class Request:
    """What a cell of SQL asks for: see `USAGE`."""

    query: str
    name: str | None = None
    form: str | None = None
    store: str | None = None
    quiet: bool = False


def _run(line: str, cell: str | None, scopes: list[Mapping[str, Any]], keep: dict[str, Any]) -> Any:
    request = _request(line) if cell is None else _read(line, cell)
    store, ours = _store(request.store, scopes)
    try:
        result = _result(store, request, scopes)
    finally:
        if ours and request.form == "relation":
            _KEPT.append(store)
        elif ours:
            store.close()
    if request.name is not None:
        keep[request.name] = result
    return None if request.quiet else result


_KEPT: list[Store] = []
"""Stores that were opened for a relation, which reads them whenever it is used."""


def _read(line: str, cell: str) -> Request:
    """What a cell asks for: its options stand on the first line, the query below."""
    try:
        words = shlex.split(line, comments=False)
    except ValueError as error:
        raise ValueError(f"the line {line!r} cannot be read ({error}): {USAGE}") from None
    given: dict[str, Any] = {}
    while words:
        word = words.pop(0)
        option, sign, value = word.partition("=")
        if option == "--quiet" and not sign:
            given["quiet"] = True
        elif option in ("--as", "--store"):
            if not sign:
                if not words:
                    raise ValueError(f"{option} needs a value: {USAGE}")
                value = words.pop(0)
            given["form" if option == "--as" else "store"] = value
        elif word.startswith("-"):
            raise ValueError(f"there is no option {word}: {USAGE}")
        elif "name" in given:
            raise ValueError(f"{word!r} is one word too many; the query begins below: {USAGE}")
        else:
            given["name"] = word
    form, name = given.get("form"), given.get("name")
    if form is not None and form not in FORMS:
        raise ValueError(f"--as takes {', '.join(FORMS[:-1])} or {FORMS[-1]}, not {form!r}")
    if name is not None and (not name.isidentifier() or keyword.iskeyword(name)):
        raise ValueError(f"{name!r} is no name for a variable; the query begins below: {USAGE}")
    return Request(query=cell, **given)


def _request(line: str) -> Request:
    """What a line asks for: options, then the query."""
    rest, options = line.strip(), []
    while rest.startswith("--") and not rest.startswith("-- "):
        word, _, rest = rest.partition(" ")
        rest = rest.lstrip()
        options.append(word)
        if word in ("--as", "--store"):
            value, _, rest = rest.partition(" ")
            options.append(value)
            rest = rest.lstrip()
    return _read(shlex.join(options), rest)


def _store(named: str | None, scopes: list[Mapping[str, Any]]) -> tuple[Store, bool]:
    """The store to query, and whether it was opened for this query alone."""
    if named is None:
        return _last(scopes), False
    for scope in scopes:
        if isinstance(scope.get(named), Store):
            return scope[named], False
    path = resolve(named)
    for store in reversed(open_stores()):
        if path is not None and store.path == path:
            return store, False
    if path is None or not path.exists():
        raise StoreError(f"--store {named}: is neither a variable that holds a store nor a file")
    return connect(path, read_only=True, trusted=False), True


def _last(scopes: list[Mapping[str, Any]]) -> Store:
    """The store connected last: of those in the notebook's variables if any of them is open."""
    opened = open_stores()
    held = {id(value) for scope in scopes for value in scope.values() if isinstance(value, Store)}
    named = [store for store in opened if id(store) in held]
    if not opened:
        raise StoreError(
            'no store is open: connect to one, as store = envbench.connect("envbench.duckdb"), or '
            "name one with --store"
        )
    return (named or opened)[-1]


def _result(store: Store, request: Request, scopes: list[Mapping[str, Any]]) -> Any:
    query, values = request.query, {}
    try:
        values = bound(_variables(store, query), *scopes)
        if request.form == "relation":
            return _relation(store, query, values)
        result = store.sql(query, values or None)
    except (duckdb.Error, QueryError) as error:
        message = _placed(store, query, values, str(error).strip())
        if _WRITES in message:
            message = "a part of the query writes, which is refused: only reading is possible here"
        raise SqlError(described(message, query)) from None
    convert = {"polars": result.pl, "pandas": result.df, "arrow": result.arrow}
    return result if request.form is None else convert[request.form]()


_WRITES = "transaction is launched in read-only mode"


def _variables(store: Store, query: str) -> set[str]:
    """The names of the variables in a query; text and comments are not looked at."""
    with store.cursor() as cursor:
        require_reading(cursor, query)
        names: set[str] = set(cursor.extract_statements(query)[0].named_parameters)
        return names


def _relation(store: Store, query: str, values: dict[str, Any]) -> duckdb.DuckDBPyRelation:
    """A relation, which runs its query anew whenever its rows are asked for."""
    store._settle()
    with store.cursor() as cursor:
        if cursor.extract_statements(query)[0].type == duckdb.StatementType.EXPLAIN:
            raise ValueError("EXPLAIN gives text and no relation: leave out --as relation")
        # what could write is found by planning it where nothing can
        cursor.execute(READ_ONLY).fetchall()
        cursor.execute(f"EXPLAIN {query}", values or None).fetchall()
    return store.cursor().sql(query, params=values or None)


def _placed(store: Store, query: str, values: dict[str, Any], message: str) -> str:
    """The message with DuckDB's drawing of the place, which it leaves out of some."""
    if "\n\nLINE " in message or not message.startswith(("Binder Error", "Catalog Error")):
        return message
    with store.cursor() as cursor:
        cursor.execute(READ_ONLY).fetchall()
        try:
            # fails as it did before anything of it is run
            cursor.execute(query, values or None)
        except duckdb.Error as error:
            again = str(error).strip()
            return again if again.startswith(message) else message
    return message


def _completed(options: str, variables: Mapping[str, Any]) -> Store | None:
    """The store whose names complete a cell, None when it is not open."""
    with suppress(StoreError, ValueError, OSError):
        store, ours = _store(_read(options, "").store, [variables])
        if not ours:
            return store
        store.close()
    return None
