"""A page of episodes is found in DuckDB: filters, order, pages, and the query that is shown."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from envbench import (
    Forbid,
    OutcomeCheck,
    OutcomeVerdict,
    Store,
    connect,
    evaluate,
    no_forbidden_changes,
)
from envbench.workbench.browsing import Query, choices, listing

from .worlds import warehouse


def short(episode: object) -> OutcomeVerdict:
    steps = len(episode.steps)  # type: ignore[attr-defined]
    if steps == 3:
        return OutcomeVerdict(None, "three is not decided", {})
    if steps == 4:
        raise ZeroDivisionError("four")
    return OutcomeVerdict(steps < 3, "", {})


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    """Five judged episodes of 1 to 5 steps, and one that nobody judged."""
    with connect(":memory:") as opened:
        for steps in range(1, 6):
            warehouse(steps, 2, store=opened, case_id=f"case-{steps}")
        checks = [OutcomeCheck("short", "v1", short), no_forbidden_changes(Forbid("/orders/*"))]
        evaluate(opened, checks).save(opened)
        warehouse(7, 2, store=opened, case_id="it's 100% un_judged?")
        yield opened


def cases(store: Store, **fields: object) -> list[str]:
    return [row["case_id"] for row in listing(store, Query.from_dict(fields)).rows]


class TestListing:
    def test_the_newest_come_first(self, store: Store) -> None:
        assert cases(store)[:2] == ["it's 100% un_judged?", "case-5"]

    @pytest.mark.parametrize(
        ("verdict", "found"),
        [
            ("failed", ["case-1", "case-2", "case-3", "case-4", "case-5"]),
            ("unknown", ["case-3"]),
            ("error", ["case-4"]),
            ("passed", []),
            ("unjudged", ["it's 100% un_judged?"]),
            ("forbidden", ["case-1", "case-2", "case-3", "case-4", "case-5"]),
        ],
    )
    def test_a_verdict_finds_its_episodes(
        self, store: Store, verdict: str, found: list[str]
    ) -> None:
        assert cases(store, verdict=verdict, order="n_steps", descending=False) == found

    def test_only_the_latest_result_of_a_check_counts(self, store: Store) -> None:
        with connect(":memory:") as fresh:
            warehouse(2, 2, store=fresh)
            for passed in (False, True):
                verdict = OutcomeVerdict(passed, "", {})
                evaluate(fresh, [OutcomeCheck("any", "v1", lambda _, v=verdict: v)]).save(fresh)
            (row,) = listing(fresh, Query()).rows
        assert (row["passed"], row["failed"]) == (1, 0)

    def test_rows_count_verdicts_and_findings(self, store: Store) -> None:
        (row,) = listing(store, Query(text="case-4")).rows
        counts = {name: row[name] for name in ("passed", "failed", "unknown", "errors")}
        assert counts == {"passed": 0, "failed": 1, "unknown": 0, "errors": 1}
        assert row["forbidden"] == 4  # one order moved in each step

    def test_every_word_must_be_there_as_it_is(self, store: Store) -> None:
        assert cases(store, text="CASE- 3") == ["case-3"]
        assert cases(store, text="it's") == ["it's 100% un_judged?"]
        assert cases(store, text="100%") == ["it's 100% un_judged?"]
        assert cases(store, text="1_judged") == []

    def test_pages_hold_every_episode_once(self, store: Store) -> None:
        pages = [listing(store, Query(order="seed", page=page), 4) for page in range(2)]
        found = [row["case_id"] for page in pages for row in page.rows]
        assert [len(page.rows) for page in pages] == [4, 2]
        assert len(set(found)) == 6
        assert {(page.matched, page.total) for page in pages} == {(6, 6)}

    def test_a_page_behind_the_last_is_the_last(self, store: Store) -> None:
        found = listing(store, Query(page=99), 4)
        assert (found.page, len(found.rows)) == (1, 2)

    def test_the_query_that_is_shown_finds_the_same(self, store: Store) -> None:
        found = listing(store, Query(text="it's 100%", order="n_steps"))
        again = store.sql(found.sql)
        assert [row[0] for row in again] == [row["episode_id"] for row in found.rows]
        assert len(again) == 1

    def test_an_empty_store_has_no_rows(self) -> None:
        with connect(":memory:") as empty:
            found = listing(empty, Query(text="x", verdict="failed"))
        assert (found.rows, found.page, found.matched, found.total) == ((), 0, 0, 0)


class TestChoices:
    def test_counts_what_there_is(self) -> None:
        with connect(":memory:") as store:
            warehouse(1, 2, store=store)
            warehouse(1, 2, store=store)
            found = choices(store)
        assert found["ending"] == [("terminated", 2)]
        assert sum(n for _, n in found["agent"]) == 2


class TestQuery:
    @pytest.mark.parametrize(
        ("fields", "error", "message"),
        [
            ({"order": "digest; DROP TABLE steps"}, ValueError, "order 'digest; DROP"),
            ({"verdict": "bad"}, ValueError, "verdict 'bad' is none of failed"),
            ({"page": -1}, ValueError, "page must not be negative: -1"),
            ({"page": True}, TypeError, "page must be an integer, not bool"),
            ({"text": None}, TypeError, "text must be text, not NoneType"),
            ({"agent": 3}, TypeError, "agent must be text or None, not int"),
            ({"descending": 1}, TypeError, "descending must be a bool, not int"),
            ({"limit": 3}, ValueError, "a query has no 'limit'"),
        ],
    )
    def test_refuses_what_is_no_query(
        self, fields: dict[str, object], error: type[Exception], message: str
    ) -> None:
        with pytest.raises(error, match=message.replace(";", ".")):
            Query.from_dict(fields)

    def test_comes_back_from_its_dict(self) -> None:
        query = Query(text="a", agent="", verdict="failed", page=3)
        assert Query.from_dict(query.to_dict()) == query
