"""Which episodes of a store are listed: a filter, an order and a page, as a query in DuckDB."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from envbench.store import Store

ROWS = 50
"""Episodes on a page."""

VERDICTS = ("failed", "unknown", "error", "passed", "unjudged", "forbidden")
"""What an episode can be listed for: a check that failed, one that is unknown or in error; all
passed; none judged it; a forbidden change was found."""

ORDERS = (
    "case_id",
    "environment_id",
    "environment_version",
    "agent_id",
    "seed",
    "repeat",
    "ending",
    "n_steps",
    "episode_return",
    "recorded_at",
)
"""Columns to sort by; those of the table `episodes`."""


@dataclasses.dataclass(frozen=True, slots=True)
class Query:
    """What to list.

    Attributes:
        text: words that must all be found in a case, source, environment, or agent; one of eight
            characters or more also finds the episode and the run whose id begins with it.
        environment: only of this environment id; None for all.
        agent: only of this agent id; None for all, and "" for episodes without one.
        ending: only with this ending; None for all.
        verdict: one of `VERDICTS`, by the latest result of each check; None for all.
        order: one of `ORDERS`.
        descending: whether the last in order comes first.
        page: number of the page, from 0.

    Raises:
        TypeError: when a value is of another type.
        ValueError: when the verdict or the order is unknown, or the page is negative.
    """

    text: str = ""
    environment: str | None = None
    agent: str | None = None
    ending: str | None = None
    verdict: str | None = None
    order: str = "recorded_at"
    descending: bool = True
    page: int = 0

    def __post_init__(self) -> None:
        for name in ("text", "order"):
            if not isinstance(getattr(self, name), str):
                raise TypeError(f"{name} must be text, not {type(getattr(self, name)).__name__}")
        for name in ("environment", "agent", "ending", "verdict"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise TypeError(f"{name} must be text or None, not {type(value).__name__}")
        if not isinstance(self.descending, bool):
            raise TypeError(f"descending must be a bool, not {type(self.descending).__name__}")
        if isinstance(self.page, bool) or not isinstance(self.page, int):
            raise TypeError(f"page must be an integer, not {type(self.page).__name__}")
        if self.page < 0:
            raise ValueError(f"page must not be negative: {self.page}")
        if self.verdict is not None and self.verdict not in VERDICTS:
            raise ValueError(f"verdict {self.verdict!r} is none of {', '.join(VERDICTS)}")
        if self.order not in ORDERS:
            raise ValueError(f"order {self.order!r} is none of {', '.join(ORDERS)}")

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Query:
        """A query from what a view sends: unknown fields are refused by name."""
        known = {field.name for field in dataclasses.fields(cls)}
        unknown = sorted(set(fields) - known)
        if unknown:
            raise ValueError(f"a query has no {', '.join(map(repr, unknown))}")
        return cls(**fields)

    def to_dict(self) -> dict[str, Any]:
        """The query as `from_dict` takes it."""
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True, slots=True)
class Listing:
    """A page of episodes.

    Attributes:
        rows: an object an episode: the columns of `episodes` that are listed, and `passed`,
            `failed`, `unknown`, `errors` (latest result of each check) and `forbidden` (findings).
        page: the page that is there; the last one where a query asked for one behind it.
        matched: episodes that the query finds.
        total: episodes in the store.
        sql: the query, as it can be run anywhere.
    """

    rows: tuple[dict[str, Any], ...]
    page: int
    matched: int
    total: int
    sql: str


def listing(store: Store, query: Query, rows: int = ROWS) -> Listing:
    """Find a page of episodes. It reads no state, and costs the same for any number of steps.

    Args:
        store: where to look.
        query: what to list.
        rows: episodes on a page.
    """
    where, params = _conditions(query)
    ((total,),) = store.sql("SELECT count(*) FROM episodes")

    def read(page: int) -> list[Any]:
        return store.sql(_page(query, where, page, rows, ", count(*) OVER ()"), params).fetchall()

    page = query.page
    found = read(page)
    if not found and page > 0:  # it is behind the last one
        ((matched,),) = store.sql(f"SELECT count(*) FROM episodes AS e WHERE {where}", params)
        page = max(0, (matched - 1) // rows)
        found = read(page)
    matched = found[0][-1] if found else 0
    listed = [dict(zip(COLUMNS, row[:-1], strict=True)) for row in found]
    judged = _judged(store, [row["episode_id"] for row in listed])
    none = dict.fromkeys(_COUNTS, 0)
    counted = tuple(row | judged.get(row["episode_id"], none) for row in listed)
    sql = _with_values(_page(query, where, page, rows), params)
    return Listing(counted, page, matched, total, sql)


def choices(store: Store) -> dict[str, list[tuple[str, int]]]:
    """What the filters offer: the environments, agents and endings of a store, with their counts.

    An episode without an agent counts under the empty text.
    """
    return {
        name: store.sql(
            f"SELECT coalesce({column}, '') AS value, count(*) AS n FROM episodes "
            f"GROUP BY value ORDER BY n DESC, value LIMIT {_MOST_CHOICES}"
        ).fetchall()
        for name, column in _CHOICES.items()
    }


COLUMNS = ("episode_id", *ORDERS, "previous")
"""Columns of `episodes` that are listed."""

_MOST_CHOICES = 200

_CHOICES = {"environment": "environment_id", "agent": "agent_id", "ending": "ending"}

_COUNTS = ("passed", "failed", "unknown", "errors", "forbidden")

_SEARCHED = (
    "concat_ws(' ', e.case_id, e.source_id, e.environment_id, e.environment_version, e.agent_id)"
)

# An id is found by its beginning: its digits would answer to every shorter word.
_ID_LENGTH = 8

_LATEST_WITH = "e.episode_id IN (SELECT episode_id FROM latest_results WHERE {})"

_BY_VERDICT = {
    "failed": _LATEST_WITH.format("passed = false"),
    "unknown": _LATEST_WITH.format("passed IS NULL AND error IS NULL"),
    "error": _LATEST_WITH.format("error IS NOT NULL"),
    "passed": (
        "e.episode_id IN (SELECT episode_id FROM latest_results GROUP BY episode_id "
        "HAVING bool_and(coalesce(passed, false)))"
    ),
    "unjudged": "e.episode_id NOT IN (SELECT episode_id FROM latest_results)",
    "forbidden": (
        "e.episode_id IN (SELECT f.episode_id FROM findings AS f SEMI JOIN latest_results AS l "
        "ON l.report_id = f.report_id AND l.episode_id = f.episode_id "
        "AND l.check_name = f.check_name)"
    ),
}

_JUDGED = """
SELECT
    l.episode_id,
    count(*) FILTER (l.passed) AS passed,
    count(*) FILTER (NOT l.passed) AS failed,
    count(*) FILTER (l.passed IS NULL AND l.error IS NULL) AS unknown,
    count(*) FILTER (l.error IS NOT NULL) AS errors,
    coalesce(sum(f.n), 0)::BIGINT AS forbidden
FROM latest_results AS l
LEFT JOIN (
    SELECT report_id, episode_id, check_name, count(*) AS n
    FROM findings WHERE list_contains($ids, episode_id) GROUP BY ALL
) AS f USING (report_id, episode_id, check_name)
WHERE list_contains($ids, l.episode_id)
GROUP BY l.episode_id
"""


def _conditions(query: Query) -> tuple[str, list[Any]]:
    """A condition on `episodes AS e` with its values; every piece of it is written here."""
    conditions: list[str] = []
    params: list[Any] = []
    for word in query.text.split():
        found = f"contains(lower({_SEARCHED}), lower(?))"
        if len(word) < _ID_LENGTH:
            conditions.append(found)
            params.append(word)
        else:
            begins = "starts_with(e.episode_id, lower(?)) OR starts_with(e.run_id, ?)"
            conditions.append(f"({found} OR {begins})")
            params += [word, word, word]
    for name, column in _CHOICES.items():
        value = getattr(query, name)
        if value is not None:
            conditions.append(f"coalesce(e.{column}, '') = ?")
            params.append(value)
    if query.verdict is not None:
        conditions.append(_BY_VERDICT[query.verdict])
    return " AND ".join(conditions) or "true", params


def _page(query: Query, where: str, page: int, rows: int, more: str = "") -> str:
    """The query of a page; `more` are further columns."""
    direction = "DESC" if query.descending else "ASC"
    # the id breaks ties, so that no episode is on two pages or on none
    return (
        f"SELECT {', '.join(f'e.{name}' for name in COLUMNS)}{more}\nFROM episodes AS e\n"
        f"WHERE {where}\n"
        f"ORDER BY e.{query.order} {direction} NULLS LAST, e.episode_id {direction}\n"
        f"LIMIT {rows} OFFSET {page * rows}"
    )


def _judged(store: Store, ids: Sequence[str]) -> dict[str, dict[str, int]]:
    if not ids:
        return {}
    rows = store.sql(_JUDGED, {"ids": list(ids)})
    return {row[0]: dict(zip(_COUNTS, row[1:], strict=True)) for row in rows}


def _with_values(sql: str, params: Sequence[Any]) -> str:
    """A query with its values written out, to be read and run elsewhere."""
    pieces = sql.split("?")
    values = [f"'{str(value).replace(chr(39), chr(39) * 2)}'" for value in params]
    return "".join(piece + value for piece, value in zip(pieces, [*values, ""], strict=True))
