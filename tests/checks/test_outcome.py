from __future__ import annotations

import contextlib
import datetime
import functools
import json
import math
import socket
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from envbench.checks import OutcomeCheck, OutcomeVerdict, Report, SqlCheck, evaluate
from envbench.evidence import EpisodeEvidence
from envbench.store import connect


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no message for you")


class TestOutcomeVerdict:
    @pytest.mark.parametrize("passed", [True, False, None])
    def test_holds_the_three_values(self, passed: bool | None) -> None:
        assert OutcomeVerdict(passed, "because", {}).passed is passed

    @pytest.mark.parametrize("passed", [True, False])
    def test_takes_a_numpy_bool_as_the_bool_that_it_is(self, passed: bool) -> None:
        assert OutcomeVerdict(np.bool_(passed), "because", {}).passed is passed

    @pytest.mark.parametrize(
        "passed", [1, 0, 1.0, math.nan, "True", np.int64(1), np.array(True), [True], {}]
    )
    def test_refuses_what_is_no_verdict(self, passed: Any) -> None:
        with pytest.raises(TypeError, match="passed must be True, False or None"):
            OutcomeVerdict(passed, "because", {})

    def test_refuses_a_reason_that_is_not_text(self) -> None:
        with pytest.raises(TypeError, match=r"reason must be text, not 3 \(int\)"):
            OutcomeVerdict(True, 3, {})

    def test_refuses_evidence_that_is_not_a_dict(self) -> None:
        with pytest.raises(TypeError, match="evidence must be a dict, not a value of type list"):
            OutcomeVerdict(True, "because", [1])

    def test_names_the_place_of_evidence_that_cannot_be_kept(self) -> None:
        with socket.socket() as sock, pytest.raises(ValueError, match="/rows/1"):
            OutcomeVerdict(True, "because", {"rows": [1, sock]})

    def test_refuses_evidence_that_contains_itself(self) -> None:
        rows: list[Any] = []
        rows.append(rows)
        with pytest.raises(ValueError, match=r"contains itself|deep"):
            OutcomeVerdict(True, "because", {"rows": rows})

    def test_evidence_may_be_left_out(self) -> None:
        assert OutcomeVerdict(True, "because").evidence == {}

    def test_evidence_is_copied_at_once(self) -> None:
        rows = [1]
        verdict = OutcomeVerdict(True, "because", {"rows": rows})
        rows.append(2)
        assert verdict.evidence_json == '{"rows":[1]}'

    def test_has_no_truth_value(self) -> None:
        with pytest.raises(TypeError, match="three values"):
            bool(OutcomeVerdict(False, "because", {}))


class TestOutcomeCheck:
    @pytest.mark.parametrize(
        ("name", "version", "fn", "error", "message"),
        [
            ("", "v1", print, ValueError, "name must not be blank"),
            ("  ", "v1", print, ValueError, "name must not be blank"),
            ("ended", "\t", print, ValueError, "version must not be blank"),
            (3, "v1", print, TypeError, "name must be text, not int"),
            ("ended", None, print, TypeError, "version must be text, not NoneType"),
            ("\ud800", "v1", print, ValueError, "name must not hold a lone surrogate"),
            (
                "ended",
                "v1",
                True,
                TypeError,
                r"fn must be a function of one episode, not true|True",
            ),
        ],
    )
    def test_refuses_bad_arguments_by_name(
        self, name: Any, version: Any, fn: Any, error: type[Exception], message: str
    ) -> None:
        with pytest.raises(error, match=message):
            OutcomeCheck(name, version, fn)

    def test_a_verdict_becomes_a_result(self, make_episode: Any) -> None:
        def passes(episode: EpisodeEvidence) -> OutcomeVerdict:
            count = episode.data["final_state"]["count"]
            return OutcomeVerdict(count == 1, "Counted to one", {"count": count})

        (row,) = judge(make_episode("case-9"), passes).results
        assert (row.case_id, row.check, row.version) == ("case-9", "check", "v1")
        assert (row.passed, row.reason, row.evidence, row.error) == (
            True,
            "Counted to one",
            {"count": 1},
            None,
        )

    def test_evidence_comes_back_as_it_was(self, make_episode: Any) -> None:
        evidence = {
            "score": np.float32(0.5),
            "pair": (1, 2),
            "nan": math.nan,
            "day": datetime.date(2026, 11, 30),
            "amount": Decimal("12.34"),
            "big": 2**70,
            "array": np.arange(3, dtype=np.uint8),
        }
        report = judge(make_episode(), lambda _: OutcomeVerdict(True, "because", evidence))
        back = report.results[0].evidence
        assert back["score"] == np.float32(0.5)
        assert type(back["score"]) is np.float32
        assert back["pair"] == (1, 2)
        assert math.isnan(back["nan"])
        assert (back["day"], back["amount"], back["big"]) == (
            datetime.date(2026, 11, 30),
            Decimal("12.34"),
            2**70,
        )
        assert back["array"].dtype == np.uint8
        assert back["array"].tolist() == [0, 1, 2]

    def test_evidence_handed_out_is_a_copy(self, make_episode: Any) -> None:
        report = judge(make_episode(), lambda _: OutcomeVerdict(True, "because", {"rows": [1]}))
        report.results[0].evidence["rows"].append(2)
        assert report.results[0].evidence == {"rows": [1]}

    @pytest.mark.parametrize(
        ("error", "text"),
        [
            (KeyError("final_state"), "KeyError: 'final_state'"),
            (AssertionError(), "AssertionError"),
            (RecursionError("too deep"), "RecursionError: too deep"),
            (MemoryError(), "MemoryError"),
            (ExceptionGroup("two", [ValueError("a")]), "ExceptionGroup: two (1 sub-exception)"),
            (
                ValueError("lone \ud800 surrogate"),
                r"ValueError: lone \ud800 surrogate",
            ),
        ],
    )
    def test_what_it_raises_is_an_evaluator_error(
        self, make_episode: Any, error: Exception, text: str
    ) -> None:
        def raises(_: EpisodeEvidence) -> OutcomeVerdict:
            raise error

        (row,) = judge(make_episode(), raises).results
        place = f"(line {raises.__code__.co_firstlineno + 1} of raises)"
        assert (row.passed, row.error, row.evidence) == (None, f"{text} {place}", {})

    def test_the_place_of_an_error_is_in_the_file_of_the_check(self, make_episode: Any) -> None:
        def outer(_: EpisodeEvidence) -> OutcomeVerdict:
            return inner("no JSON")

        def inner(text: str) -> OutcomeVerdict:
            return OutcomeVerdict(True, json.loads(text))

        (row,) = judge(make_episode(), outer).results
        line = inner.__code__.co_firstlineno + 1
        assert row.error is not None
        assert row.error.startswith("json.decoder.JSONDecodeError: ")
        assert row.error.endswith(f" (line {line} of inner)")
        assert "/" not in row.error
        assert row.reason == f"The check failed: {row.error}"

    def test_the_place_of_an_error_is_found_under_a_decorator(self, make_episode: Any) -> None:
        @contextlib.contextmanager
        def around() -> Iterator[None]:
            yield

        @around()
        def decorated(_: EpisodeEvidence) -> OutcomeVerdict:
            raise KeyError("x")

        (row,) = judge(make_episode(), decorated).results
        assert row.error is not None
        assert row.error.endswith(" of decorated)")

    @pytest.mark.parametrize(
        ("fn", "error"),
        [
            (len, "TypeError: object of type 'EpisodeEvidence' has no len()"),
            (lambda: None, "TypeError: "),
        ],
    )
    def test_an_error_outside_a_function_has_no_place(
        self, make_episode: Any, fn: Any, error: str
    ) -> None:
        (row,) = judge(make_episode(), fn).results
        assert row.error is not None
        assert row.error.startswith(error)
        assert "(line" not in row.error

    def test_the_place_of_an_error_in_an_object_and_a_partial(self, make_episode: Any) -> None:
        class Judge:
            def __call__(self, episode: EpisodeEvidence, key: str = "a") -> OutcomeVerdict:
                return OutcomeVerdict(True, episode.data[key])

        line = Judge.__call__.__code__.co_firstlineno + 1
        for fn in (Judge(), functools.partial(Judge(), key="b")):
            (row,) = judge(make_episode(), fn).results
            assert row.error is not None
            assert row.error.endswith(f" (line {line} of __call__)")

    def test_an_exception_without_a_message_is_survived(self, make_episode: Any) -> None:
        def raises(_: EpisodeEvidence) -> OutcomeVerdict:
            raise Unprintable

        (row,) = judge(make_episode(), raises).results
        assert row.passed is None
        assert row.error is not None
        assert row.error.startswith(
            f"{__name__}.Unprintable: <message unavailable: __str__ raised RuntimeError> (line "
        )

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (True, "returned True (bool)"),
            (None, "returned None (NoneType)"),
            (1.0, "returned 1.0 (float)"),
            ((True, "because", {}), "returned a value of type tuple"),
            ("passed", 'returned "passed" (str)'),
        ],
    )
    def test_another_return_value_is_an_evaluator_error(
        self, make_episode: Any, value: Any, text: str
    ) -> None:
        (row,) = judge(make_episode(), lambda _: value).results
        assert row.passed is None
        assert row.error is not None
        assert text in row.error

    def test_an_async_function_is_an_evaluator_error(self, make_episode: Any) -> None:
        async def passes(_: EpisodeEvidence) -> OutcomeVerdict:
            return OutcomeVerdict(True, "because", {})

        (row,) = judge(make_episode(), passes).results
        assert row.passed is None
        assert row.error is not None
        assert "returned a coroutine" in row.error

    def test_a_verdict_of_nan_is_an_evaluator_error_and_no_pass(self, make_episode: Any) -> None:
        report = judge(make_episode(), lambda _: OutcomeVerdict(math.nan, "because", {}))
        assert report.results[0].passed is None
        error = report.results[0].error
        assert error is not None
        assert error.startswith("TypeError: passed must be True, False or None, not nan (float) (")
        assert error.endswith(" of <lambda>)")

    def test_a_check_that_fails_leaves_the_others_alone(
        self, make_episode: Any, fixed_check: Any
    ) -> None:
        episode = make_episode()
        id_ = episode.episode_id
        checks = [
            fixed_check({id_: True}, "first"),
            fixed_check({id_: ValueError("broken")}, "second"),
            fixed_check({id_: False}, "third"),
        ]
        report = evaluate([episode], checks)
        assert [(row.check, row.passed) for row in report.results] == [
            ("first", True),
            ("second", None),
            ("third", False),
        ]
        first, second, third = [row.error for row in report.results]
        assert (first, third) == (None, None)
        assert second is not None
        assert second.startswith("ValueError: broken (line ")

    @pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit, GeneratorExit])
    def test_an_interrupt_propagates(
        self, make_episode: Any, interrupt: type[BaseException]
    ) -> None:
        def raises(_: EpisodeEvidence) -> OutcomeVerdict:
            raise interrupt

        with pytest.raises(interrupt):
            judge(make_episode(), raises)

    @pytest.mark.parametrize("depth", [150, 179, 180, 181, 199, 200, 201, 219, 220, 221, 5000])
    @pytest.mark.parametrize("tagged", [True, False])
    def test_evidence_of_any_depth_is_kept_or_an_error_of_its_check(
        self, make_episode: Any, fixed_check: Any, tmp_path: Any, depth: int, tagged: bool
    ) -> None:
        def fn(_: EpisodeEvidence) -> OutcomeVerdict:
            value: Any = {1} if tagged else 1
            for _ in range(depth):
                value = [value]
            return OutcomeVerdict(True, "because", {"value": value})

        episode = make_episode()
        checks = [OutcomeCheck("deep", "v1", fn), fixed_check({episode.episode_id: True})]
        report = evaluate([episode], checks)
        assert report.results[1].passed is True
        assert (report.results[0].passed is True) == (report.results[0].error is None)
        assert report.results[0].error is None or depth >= 180
        report.save_json(tmp_path / "report.json")
        assert Report.load_json(tmp_path / "report.json") == report

    def test_a_check_cannot_change_what_the_next_one_sees(self, make_episode: Any) -> None:
        def spoils(episode: EpisodeEvidence) -> OutcomeVerdict:
            episode.data["final_state"]["count"] = 99
            episode.final_state["count"] = 99
            return OutcomeVerdict(True, "Spoiled", {})

        def reads(episode: EpisodeEvidence) -> OutcomeVerdict:
            return OutcomeVerdict(episode.final_state == {"count": 1}, "Unchanged", {})

        checks = [OutcomeCheck("spoils", "v1", spoils), OutcomeCheck("reads", "v1", reads)]
        assert [row.passed for row in evaluate([make_episode()], checks).results] == [True, True]


ONE_ROW = """
    SELECT episode_id, final_state ->> '$.count' = '1' AS passed, 'Counted to one' AS reason,
        {count: (final_state ->> '$.count')::INTEGER} AS evidence
    FROM episodes
"""


@pytest.fixture(scope="module")
def ask(make_episode: Any) -> Iterator[Any]:
    """Run a query as a check on a store of one episode, and give its result."""
    with connect(":memory:") as store:
        store.add(make_episode())
        yield lambda query: evaluate(store, [SqlCheck("check", "v1", query)]).results[0]


class TestSqlCheck:
    @pytest.mark.parametrize("argument", ["name", "version", "query"])
    def test_refuses_blank_arguments_by_name(self, argument: str) -> None:
        arguments = {"name": "counted", "version": "v1", "query": ONE_ROW} | {argument: " "}
        with pytest.raises(ValueError, match=f"{argument} must not be blank"):
            SqlCheck(**arguments)

    @pytest.mark.parametrize("in_store", [True, False])
    def test_judges_all_episodes(self, make_episode: Any, in_store: bool) -> None:
        episodes = [make_episode("right"), make_episode("wrong", final_state={"count": 2})]
        report = judge_sql(episodes, ONE_ROW, in_store=in_store)
        assert [(row.case_id, row.passed, row.reason, row.evidence) for row in report.results] == [
            ("right", True, "Counted to one", {"count": 1}),
            ("wrong", False, "Counted to one", {"count": 2}),
        ]

    def test_an_episode_without_a_row_is_unknown(self, make_episode: Any) -> None:
        episodes = [make_episode("seen"), make_episode("unseen")]
        report = judge_sql(
            episodes,
            f"SELECT * FROM ({ONE_ROW}) WHERE episode_id = (SELECT "
            "episode_id FROM episodes WHERE case_id = 'seen')",
        )
        assert [(row.case_id, row.passed, row.error) for row in report.results] == [
            ("seen", True, None),
            ("unseen", None, None),
        ]
        assert report.results[1].reason == "The query has no row for this episode"

    def test_rows_of_episodes_that_are_not_judged_are_counted(self, ask: Any) -> None:
        query = "SELECT 'x' AS episode_id, true AS passed, 'r' AS reason, NULL AS evidence"
        row = ask(query)
        assert row.passed is None
        assert row.reason == (
            "The query has no row for this episode (and has rows for 1 others, which were not "
            "judged)"
        )

    def test_two_rows_are_an_evaluator_error_of_that_episode(self, make_episode: Any) -> None:
        episodes = [make_episode("twice"), make_episode("once")]
        query = (
            f"{ONE_ROW} UNION ALL SELECT * FROM ({ONE_ROW}) WHERE episode_id = (SELECT "
            "episode_id FROM episodes WHERE case_id = 'twice')"
        )
        report = judge_sql(episodes, query)
        assert [(row.case_id, row.passed) for row in report.results] == [
            ("twice", None),
            ("once", True),
        ]
        assert report.results[0].error == (
            "ValueError: the query has 2 rows for this episode, not one"
        )

    @pytest.mark.parametrize("passed", ["NULL", "NULL::BOOLEAN"])
    def test_null_is_unknown(self, ask: Any, passed: str) -> None:
        row = ask(columns(passed=passed))
        assert (row.passed, row.error) == (None, None)

    @pytest.mark.parametrize(
        ("column", "value", "message"),
        [
            ("passed", "1", "passed is 1 (int), not a BOOLEAN"),
            ("passed", "'true'", 'passed is "true" (str), not a BOOLEAN'),
            ("passed", "'NaN'::DOUBLE", "passed is nan (float), not a BOOLEAN"),
            ("passed", "1.0::DECIMAL(2,1)", "passed is a value of type decimal.Decimal"),
            ("passed", "[true]", "passed is a value of type list, not a BOOLEAN"),
            ("reason", "3", "reason is 3 (int), not a VARCHAR"),
            ("evidence", "'text'", 'evidence is "text" (str), not a STRUCT, MAP or JSON object'),
            ("evidence", "'[1]'::JSON", 'evidence is "[1]" (str), not a STRUCT'),
            ("evidence", "[1]", "evidence is a value of type list, not a STRUCT"),
            ("evidence", "3", "evidence is 3 (int), not a STRUCT"),
        ],
    )
    def test_another_type_is_an_evaluator_error(
        self, ask: Any, column: str, value: str, message: str
    ) -> None:
        row = ask(columns(**{column: value}))
        assert row.passed is None
        assert row.error is not None
        assert message in row.error

    @pytest.mark.parametrize("column", ["episode_id", "passed", "reason", "evidence"])
    def test_a_missing_column_is_an_error_of_every_episode(
        self, make_episode: Any, column: str
    ) -> None:
        episodes = [make_episode("a"), make_episode("b")]
        report = judge_sql(episodes, f"SELECT * EXCLUDE ({column}) FROM ({ONE_ROW})")
        for row in report.results:
            assert row.passed is None
            assert row.error is not None
            assert row.error.startswith(
                f"ValueError: the query must return one column '{column}', and it returns "
            )

    def test_a_column_twice_is_an_error(self, ask: Any) -> None:
        query = f"SELECT *, NOT passed AS passed FROM ({ONE_ROW})"
        row = ask(query)
        assert row.passed is None
        assert "must return one column 'passed'" in str(row.error)

    def test_further_columns_are_ignored(self, ask: Any) -> None:
        row = ask(f"SELECT 1 AS more, * FROM ({ONE_ROW})")
        assert row.passed is True

    @pytest.mark.parametrize(
        ("value", "evidence"),
        [
            ("NULL", {}),
            ("{'a': 1.5, 'b': [1, NULL]}", {"a": 1.5, "b": [1, None]}),
            ("MAP {'a': 1}", {"a": 1}),
            ("""'{"a": {"b": 1}}'::JSON""", {"a": {"b": 1}}),
            ("""'{"a": 1}'""", {"a": 1}),
            ("{'d': DATE '2026-11-30'}", {"d": datetime.date(2026, 11, 30)}),
            ("{'d': 12.30::DECIMAL(4,2)}", {"d": Decimal("12.30")}),
            ("{'h': 170141183460469231731687303715884105727::HUGEINT}", {"h": 2**127 - 1}),
        ],
    )
    def test_evidence_of_each_kind(self, ask: Any, value: str, evidence: dict[str, Any]) -> None:
        row = ask(columns(evidence=value))
        assert row.error is None
        assert row.evidence == evidence

    @pytest.mark.parametrize("depth", [150, 199, 220, 1000])
    def test_json_of_any_depth_is_kept_or_an_error(self, ask: Any, depth: int) -> None:
        row = ask(columns(evidence=f"""('{{"v":{"[" * depth}{"]" * depth}}}')"""))
        assert (row.passed is True) == (row.error is None) == (depth == 150 or depth == 199)

    def test_a_null_reason_is_empty(self, ask: Any) -> None:
        assert ask(columns(reason="NULL")).reason == ""

    @pytest.mark.parametrize(
        ("query", "message"),
        [
            ("SELEC 1", "Parser Error"),
            ("SELECT * FROM no_such_table", "Catalog Error"),
            ("SELECT error('stopped here')", "stopped here"),
            (";", "it is empty"),
            ("SELECT 1; SELECT 2", "it is SELECT, SELECT"),
            ("DELETE FROM episodes", "it is DELETE"),
            ("COPY episodes TO '/nowhere/x.csv'", "it is COPY"),
            ("ATTACH ':memory:' AS other", "it is ATTACH"),
            ("SET threads = 1", "it is SET"),
            ("DROP TABLE episodes", "it is DROP"),
        ],
    )
    def test_a_query_that_cannot_run_is_an_error_of_every_episode(
        self, make_episode: Any, query: str, message: str
    ) -> None:
        episodes = [make_episode("a"), make_episode("b")]
        report = judge_sql(episodes, query)
        assert [row.passed for row in report.results] == [None, None]
        for row in report.results:
            assert message in str(row.error)

    @pytest.mark.parametrize(
        ("query", "error"),
        [
            (
                "SELEC 1",
                (
                    'duckdb.ParserException: Parser Error: syntax error at or near "SELEC"; '
                    "LINE 1: SELEC 1"
                ),
            ),
            (
                "SELECT a\nFROM (SELECT 1 AS b)",
                (
                    'duckdb.BinderException: Binder Error: Referenced column "a" not found in '
                    'FROM clause! Candidate bindings: "b"; LINE 1: SELECT a'
                ),
            ),
        ],
    )
    def test_an_error_of_a_query_is_one_line(
        self, make_episode: Any, query: str, error: str
    ) -> None:
        (row,) = judge_sql([make_episode()], query).results
        assert row.error is not None
        assert row.error.startswith(error)
        assert row.error.isprintable()
        assert "^" not in row.error

    def test_a_select_that_writes_is_refused_and_changes_nothing(self, make_episode: Any) -> None:
        query = """
            WITH gone AS (DELETE FROM episodes RETURNING episode_id)
            SELECT episode_id, true AS passed, '' AS reason, NULL AS evidence FROM gone
        """
        with connect(":memory:") as store:
            store.add(make_episode())
            report = evaluate(store, [SqlCheck("deletes", "v1", query)])
            assert report.results[0].passed is None
            assert "read-only" in str(report.results[0].error)
            assert store.sql("SELECT count(*) FROM episodes").fetchall() == [(1,)]

    def test_a_failed_query_leaves_the_store_usable(self, make_episode: Any) -> None:
        with connect(":memory:") as store:
            store.add(make_episode())
            bad = SqlCheck("bad", "v1", "SELECT error('stopped')")
            good = SqlCheck("good", "v1", ONE_ROW)
            report = evaluate(store, [bad, good])
            assert [row.passed for row in report.results] == [None, True]
            store.add(make_episode("another"))
            assert len(store.episodes()) == 2

    def test_works_on_a_store_that_is_read_only(self, make_episode: Any, tmp_path: Any) -> None:
        with connect(tmp_path / "e.duckdb") as store:
            store.add(make_episode())
        with connect(tmp_path / "e.duckdb", read_only=True) as store:
            assert evaluate(store, [SqlCheck("one", "v1", ONE_ROW)]).results[0].passed is True

    def test_works_on_a_store_of_someone_else(self, make_episode: Any, tmp_path: Any) -> None:
        with connect(tmp_path / "e.duckdb") as store:
            store.add(make_episode())
        with connect(tmp_path / "e.duckdb", trusted=False) as store:
            assert evaluate(store, [SqlCheck("one", "v1", ONE_ROW)]).results[0].passed is True

    def test_sees_exactly_the_episodes_judged_when_they_are_in_no_store(
        self, make_episode: Any
    ) -> None:
        query = columns(passed="(SELECT count(*) = 2 FROM episodes)")
        report = judge_sql([make_episode("a"), make_episode("b")], query, in_store=False)
        assert [row.passed for row in report.results] == [True, True]

    def test_beside_a_check_in_python(self, make_episode: Any, fixed_check: Any) -> None:
        episode = make_episode()
        checks = [SqlCheck("sql", "v1", ONE_ROW), fixed_check({episode.episode_id: False}, "py")]
        assert [(r.check, r.passed) for r in evaluate([episode], checks).results] == [
            ("sql", True),
            ("py", False),
        ]

    def test_evidence_with_a_reference_to_a_large_array_stays_tagged(self, ask: Any) -> None:
        tag = """{"$envbench": "array", "dtype": "|u1", "shape": [3], "sha256": "00"}"""
        row = ask(columns(evidence=f"""'{{"a": {tag}}}'"""))
        assert row.error is None
        assert row.evidence["a"]["sha256"] == "00"


def judge(episode: EpisodeEvidence, fn: Any) -> Report:
    return evaluate([episode], [OutcomeCheck("check", "v1", fn)])


def judge_sql(episodes: list[EpisodeEvidence], query: str, *, in_store: bool = True) -> Report:
    check = SqlCheck("check", "v1", query)
    if not in_store:
        return evaluate(episodes, [check])
    with connect(":memory:") as store:
        for episode in episodes:
            store.add(episode)
        return evaluate(store, [check])


def columns(passed: str = "true", reason: str = "'because'", evidence: str = "NULL") -> str:
    return (
        f"SELECT episode_id, {passed} AS passed, {reason} AS reason, {evidence} AS evidence "
        "FROM episodes"
    )
