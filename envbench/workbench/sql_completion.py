"""Completion in cells of SQL: the names of tables, columns and variables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from IPython.core.completer import (
    CompletionContext,
    SimpleCompletion,
    SimpleMatcherResult,
    context_matcher,
)

if TYPE_CHECKING:
    from envbench.store import Store


Matcher: TypeAlias = Callable[[CompletionContext], SimpleMatcherResult]


def matcher(store_of: Callable[[str], Store | None], variables: Mapping[str, Any]) -> Matcher:
    """A matcher for IPython's completer that answers in cells of ``%%sql`` alone.

    Args:
        store_of: the store that a cell's first line names, None when there is none.
        variables: the variables of the notebook.
    """

    @context_matcher(identifier="envbench_sql")  # type: ignore[untyped-decorator]
    def sql(context: CompletionContext) -> SimpleMatcherResult:
        lines = context.full_text.split("\n")
        before = [*lines[: context.cursor_line], lines[context.cursor_line]]
        before[-1] = before[-1][: context.cursor_position]
        in_cell = re.match(r"\s*%%sql\b(.*)", lines[0])
        in_line = re.match(r"\s*(?:\w+\s*=\s*)?%sql\b(.*)", before[-1])
        if in_cell is not None and context.cursor_line > 0:
            query, options = "\n".join(before[1:]), in_cell.group(1)
        elif in_line is not None and in_cell is None:
            query, options = in_line.group(1), ""
        else:
            return SimpleMatcherResult(completions=[], suppress=False)
        token = re.search(r"\$?\w*$", query)
        assert token is not None
        word = token.group()
        if word.startswith("$"):
            names = [f"${name}" for name in variables if not name.startswith("_")]
        else:
            store = store_of(options)
            names = [] if store is None else _names(store, query[: token.start()], context)
        fitting = [name for name in names if name.lower().startswith(word.lower())]
        return SimpleMatcherResult(
            completions=[SimpleCompletion(name) for name in fitting],
            matched_fragment=word,
            suppress=True,
        )

    answer: Matcher = sql
    return answer


def _names(store: Store, before: str, context: CompletionContext) -> list[str]:
    """Names that fit after what stands before: tables, or the columns of those in the query."""
    columns = dict(sorted(store.columns().items()))
    if re.search(r"\b(from|join|describe|summarize|table)\s+$", before, re.IGNORECASE):
        return sorted(columns)
    used = {word.lower() for word in re.findall(r"\w+", context.full_text)} & columns.keys()
    first = _in_order(name for table in sorted(used) for name in columns[table])
    rest = [] if used else _in_order(name for names in columns.values() for name in names)
    return _in_order([*first, *sorted(columns), *rest])


def _in_order(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
