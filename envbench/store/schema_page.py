"""`docs/schema.md`, made from the comments in the database itself.

Run ``python -m envbench.store.schema_page`` after a change of `schema.sql`, `views.sql` or
`comments.sql`; a test holds that the page is up to date.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from envbench.store.migrations import SCHEMA_VERSION
from envbench.store.store import connect


class Column(NamedTuple):
    """A column as the database describes it."""

    name: str
    kind: str
    nullable: bool
    comment: str | None


PAGE = Path(__file__).parents[2] / "docs" / "schema.md"


def schema_page() -> str:
    """The page as Markdown: each table and view with its columns, their types and comments."""
    with connect(":memory:") as store:
        tables = store.sql(_TABLES).fetchall()
        views = store.sql(_VIEWS).fetchall()
        columns: dict[str, list[Column]] = {}
        for owner, *column in store.sql(_COLUMNS).fetchall():
            columns.setdefault(owner, []).append(Column(*column))
    comments = {
        (owner, column.name): column.comment for owner in columns for column in columns[owner]
    }
    parts = [_HEAD.format(version=SCHEMA_VERSION), "## Tables\n"]
    for table, comment in tables:
        parts += [f"### {table}\n", f"{comment}\n", _table(columns[table])]
    parts.append("## Views\n\nThey show sealed episodes only.\n")
    for view, comment, query in views:
        sources = [word for word in re.findall(r"\w+", query) if word in columns]
        shown = [
            column._replace(comment=column.comment or _inherited(column.name, sources, comments))
            for column in columns[view]
        ]
        parts += [f"### {view}\n", f"{comment}\n", _table(shown)]
    return "\n".join(parts)


_HEAD = """\
# Tables and views of a store

Schema version {version}. Made by `python -m envbench.store.schema_page` from the comments in the
database; `SELECT comment FROM duckdb_columns()` shows them in any store.

Times are UTC. *Tagged JSON* is JSON in which what JSON cannot hold (NaN, bytes, tuples, arrays, …)
is an object with a tag. A column that cannot be NULL says so.
"""

_TABLES = """
SELECT table_name, comment FROM duckdb_tables()
WHERE database_name = 'memory' ORDER BY table_oid
"""

_VIEWS = """
SELECT view_name, comment, sql FROM duckdb_views()
WHERE database_name = 'memory' AND NOT internal ORDER BY view_oid
"""

_COLUMNS = """
SELECT table_name, column_name, data_type, is_nullable, comment FROM duckdb_columns()
WHERE database_name = 'memory' AND NOT internal ORDER BY table_oid, column_index
"""


def _inherited(
    name: str, sources: list[str], comments: dict[tuple[str, str], str | None]
) -> str | None:
    """The comment of the column that a view takes over from one of its tables."""
    return next((found for table in sources if (found := comments.get((table, name)))), None)


def _table(columns: list[Column]) -> str:
    lines = ["| column | type | |", "|---|---|---|"]
    for name, kind, nullable, comment in columns:
        shown = kind if nullable else f"{kind}, not NULL"
        lines.append(f"| `{name}` | {shown} | {_escaped(comment)} |")
    return "\n".join(lines) + "\n"


def _escaped(comment: str | None) -> str:
    return (comment or "").replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(schema_page(), encoding="utf-8")
