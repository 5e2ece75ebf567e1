"""Which statements a query may be: those that read."""

from __future__ import annotations

import re

import duckdb

from envbench.store.errors import QueryError


def require_reading(cursor: duckdb.DuckDBPyConnection, query: str) -> None:
    """Refuse what is not one statement that reads.

    A statement that begins like one that reads can still hold a DELETE in a WITH clause; run it in
    a read-only transaction (`READ_ONLY`), which DuckDB guards.

    Args:
        cursor: any cursor; nothing is run on it.
        query: SQL.

    Raises:
        QueryError: naming the kind of statement, such as DELETE.
        duckdb.Error: when the query cannot be parsed.
        UnicodeEncodeError: when it is not valid Unicode.
    """
    query.encode()  # DuckDB would call it of the wrong type
    statements = cursor.extract_statements(query)
    if len(statements) != 1:
        raise QueryError(f"the query holds {len(statements)} statements; give one")
    kind = statements[0].type
    text = _without_comments(query)
    if kind == duckdb.StatementType.EXPLAIN:
        # EXPLAIN ANALYZE runs what follows it
        require_reading(cursor, _EXPLAIN.sub("", text))
    elif kind == duckdb.StatementType.MULTI:
        # a PIVOT in it has its columns looked up first; what it is part of, the words say
        first = _FIRST.match(_EXPLAIN.sub("", text))
        if first is None or first.group().lower() not in _READING:
            raise _refused(first.group().upper() if first else kind.name)
    elif kind != duckdb.StatementType.SELECT:
        first = _FIRST.match(text)
        # a word says more than the kind, which is SET for a USE; after a WITH it does not
        word = first.group().upper() if first else "WITH"
        raise _refused(kind.name if word == "WITH" else word)


READ_ONLY = "BEGIN TRANSACTION READ ONLY"
"""The statement to execute before a query, so that nothing in it can write to a database."""


def _refused(kind: str) -> QueryError:
    return QueryError(f"{kind} is refused: only statements that read, such as SELECT")


def _without_comments(query: str) -> str:
    """A query without its comments, from its first word on."""
    # the places that DuckDB gives are those of bytes
    raw = query.encode()
    tokens = duckdb.tokenize(query)
    starts = [start for start, _ in tokens] + [len(raw)]
    pieces = (
        raw[start:end]
        for (start, kind), end in zip(tokens, starts[1:], strict=True)
        if kind != duckdb.token_type.comment
    )
    return b" ".join(pieces).decode().lstrip("( \t\r\n")


_FIRST = re.compile(r"\w+")
_EXPLAIN = re.compile(r"explain\s+(\([^)]*\)\s*)?(analy[sz]e\s+)?", re.IGNORECASE)
_READING = {
    "select",
    "from",
    "with",
    "values",
    "table",
    "pivot",
    "unpivot",
    "describe",
    "desc",
    "show",
    "summarize",
}
