from envbench.store import connect
from envbench.store.schema_page import PAGE, schema_page


def test_every_table_and_column_has_a_comment():
    with connect(":memory:") as store:
        missing = store.sql(
            """
            SELECT table_name AS place FROM duckdb_tables() WHERE comment IS NULL
            UNION ALL
            SELECT view_name FROM duckdb_views() WHERE comment IS NULL AND NOT internal
            UNION ALL
            SELECT c.table_name || '.' || c.column_name
            FROM duckdb_columns() AS c SEMI JOIN duckdb_tables() AS t USING (table_name)
            WHERE c.comment IS NULL
            """
        ).fetchall()
        assert missing == []
        described = store.sql("SELECT count(*) FROM duckdb_tables()").fetchall()
        assert described == [(17,)]


def test_comments_are_sentences():
    with connect(":memory:") as store:
        comments = store.sql(
            """
            SELECT comment FROM duckdb_tables() UNION ALL
            SELECT comment FROM duckdb_views() WHERE NOT internal UNION ALL
            SELECT comment FROM duckdb_columns() WHERE comment IS NOT NULL
            """
        ).fetchall()
    for (comment,) in comments:
        assert comment.endswith("."), comment
        assert "  " not in comment, comment


def test_every_column_of_the_page_is_described():
    rows = [line for line in schema_page().splitlines() if line.startswith("| `")]
    assert len(rows) > 150
    assert [row for row in rows if row.endswith("|  |")] == []


def test_the_page_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == schema_page(), (
        "docs/schema.md is stale: run python -m envbench.store.schema_page"
    )
