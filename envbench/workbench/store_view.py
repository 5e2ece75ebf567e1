"""A store as HTML: what it holds, and what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envbench.store import StoreError
from envbench.store.untrusted import our_definitions
from envbench.workbench.markup import counted, fragment, table, text

if TYPE_CHECKING:
    from envbench.store import Store

NEXT = (
    ("store.episodes()", "the episodes, one after the other; store.episode(id) gives one"),
    ("%%sql", "a query over the tables (after %load_ext envbench)"),
    ("store.frame('episodes')", "a whole table: .pl(), .df(), .arrow()"),
    ("envbench.evaluate(store, checks)", "a report of checks over all episodes"),
    ("store.verify()", "whether anything was altered"),
)
"""What to do with a store, as its display names it."""


def store_html(store: Store) -> str:
    """A store: its tables with their counts, how its episodes ended, and what to do next."""
    try:
        counts, endings, views = _contents(store)
    except StoreError as error:  # closed, or of another process
        return fragment(f'<p class="envbench-title">{text(store)}</p><p>{text(error)}</p>')
    about = [
        "read-only" if store.read_only else "",
        "" if store.trusted else "untrusted: nothing that the file defines runs",
    ]
    where = text(store.path or "in memory")
    ended = ", ".join(f"{count:,} {text(ending)}" for ending, count in endings)
    empty = [name for name, count in counts if not count]
    return fragment(
        f'<p class="envbench-title">Store {where}</p>',
        f'<p class="envbench-soft">{"; ".join(filter(None, about))}</p>' if any(about) else "",
        f"<p>{counted(sum(n for _, n in endings), 'episode')}{f': {ended}' if ended else ''}</p>",
        table(
            ["Table", "Rows"],
            [[text(name), f"{count:,}"] for name, count in counts if count],
            numbers=[1],
        )
        if len(empty) < len(counts)
        else "",
        f'<p class="envbench-soft">Empty: {text(", ".join(empty))}</p>' if empty else "",
        f'<p class="envbench-soft">Views: {text(", ".join(views))}</p>',
        table(
            ["Next", ""],
            [
                [f'<span class="envbench-value">{text(call)}</span>', text(why)]
                for call, why in NEXT
            ],
        ),
    )


def _contents(store: Store) -> tuple[list[tuple[str, int]], list[tuple[str, int]], list[str]]:
    definitions = our_definitions()
    tables, views = (sorted(names) for names in definitions)
    query = "SELECT " + ", ".join(f"(SELECT count(*) FROM {name})" for name in tables)
    (counts,) = store.sql(query)
    endings = store.sql(
        "SELECT ending, count(*) AS n FROM episodes GROUP BY ending ORDER BY n DESC, ending"
    )
    return list(zip(tables, counts, strict=True)), endings.fetchall(), views
