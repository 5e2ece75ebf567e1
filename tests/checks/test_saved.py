from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envbench.checks import AcceptancePolicy, CheckRequirement, Report, evaluate
from envbench.store import Store, StoreError, connect


@pytest.fixture
def store() -> Iterator[Store]:
    with connect(":memory:") as store:
        yield store


@pytest.fixture
def report(make_episode: Any, fixed_check: Any) -> Report:
    a, b = make_episode("a", seed=2**80), make_episode("b", ending="error")
    posted = fixed_check({a.episode_id: True, b.episode_id: False}, "posted")
    kept = fixed_check({a.episode_id: None, b.episode_id: ValueError("nul \0 é \ud800")}, "kept")
    return evaluate([a, b], [posted, kept])


POLICY = AcceptancePolicy((CheckRequirement("posted"),))


class TestReport:
    def test_comes_back_equal(self, store: Store, report: Report) -> None:
        report.save(store)
        back = Report.load(store, report.report_id)
        assert back == report
        assert back.to_dict() == report.to_dict()

    def test_comes_back_equal_from_a_file(self, report: Report, tmp_path: Path) -> None:
        with connect(tmp_path / "e.duckdb") as store:
            report.save(store)
        with connect(tmp_path / "e.duckdb", read_only=True) as store:
            assert Report.load(store, report.report_id) == report

    def test_its_rows_can_be_queried(self, store: Store, report: Report) -> None:
        report.save(store)
        rows = store.sql(
            "SELECT case_id, check_name, check_version, passed, evidence, error FROM check_results "
            "ORDER BY case_id, check_name"
        ).fetchall()
        error = report.results[3].error
        assert error is not None
        assert error.startswith("ValueError: nul \0 é \\ud800 (line ")
        assert rows == [
            ("a", "kept", "v1", None, '{"outcome":null}', None),
            ("a", "posted", "v1", True, '{"outcome":true}', None),
            ("b", "kept", "v1", None, "{}", error),
            ("b", "posted", "v1", False, '{"outcome":false}', None),
        ]

    def test_an_empty_report_comes_back_equal(self, store: Store, fixed_check: Any) -> None:
        empty = evaluate([], [fixed_check({})])
        empty.save(store)
        assert Report.load(store, empty.report_id) == empty

    def test_saved_twice_it_is_kept_once(self, store: Store, report: Report) -> None:
        report.save(store)
        report.save(store)
        assert store.sql("SELECT count(*) FROM check_results").fetchall() == [(4,)]
        assert Report.load(store, report.report_id) == report

    def test_several_reports_are_told_apart(
        self, store: Store, report: Report, make_episode: Any, report_of: Any
    ) -> None:
        other = report_of((make_episode(), True))
        report.save(store)
        other.save(store)
        assert Report.load(store, report.report_id) == report
        assert Report.load(store, other.report_id) == other

    def test_a_report_that_is_not_there_is_named(self, store: Store) -> None:
        with pytest.raises(KeyError, match="no report 'x' in "):
            Report.load(store, "x")

    @pytest.mark.parametrize(
        "alteration",
        [
            "UPDATE check_results SET passed = true WHERE passed = false",
            "UPDATE check_results SET error = NULL",
            "UPDATE check_results SET evidence = NULL",
            "UPDATE check_results SET evidence = '[]'",
            "DELETE FROM check_results WHERE passed = false",
            "DELETE FROM check_results",
            "UPDATE check_results SET case_id = 'c' WHERE case_id = 'b'",
            "INSERT INTO check_results SELECT * FROM check_results WHERE passed",
            "UPDATE check_results SET check_name = 'other' WHERE check_name = 'posted'",
            "UPDATE reports SET name = 'other'",
            "UPDATE reports SET created_at = created_at + INTERVAL 1 SECOND",
            "UPDATE reports SET checks = '[]'",
            "UPDATE reports SET checks = '3'",
            "UPDATE reports SET episodes = '[{}]'",
            "UPDATE reports SET lock = '{}'",
            "UPDATE reports SET digest = '00'",
        ],
    )
    def test_an_alteration_is_refused(self, store: Store, report: Report, alteration: str) -> None:
        report.save(store)
        store.cursor().execute(alteration)
        with pytest.raises(ValueError, match=f"report {report.report_id}: /"):
            Report.load(store, report.report_id)

    def test_another_report_under_its_id_is_refused(self, store: Store, report: Report) -> None:
        report.save(store)
        store.cursor().execute("UPDATE reports SET digest = '00'")
        with pytest.raises(ValueError, match="has another report under the id"):
            report.save(store)

    def test_a_store_for_reading_only_is_refused(self, report: Report, tmp_path: Path) -> None:
        connect(tmp_path / "e.duckdb").close()
        with (
            connect(tmp_path / "e.duckdb", read_only=True) as store,
            pytest.raises(StoreError, match="opened for reading only"),
        ):
            report.save(store)

    def test_a_failure_keeps_nothing(self, store: Store, report: Report) -> None:
        store.cursor().execute("DROP TABLE reports")
        with pytest.raises(StoreError):
            report.save(store)
        assert store.sql("SELECT count(*) FROM check_results").fetchall() == [(0,)]


class TestDecision:
    def test_is_kept_with_its_reasons(self, store: Store, report: Report) -> None:
        report.save(store)
        decision = POLICY.evaluate(report)
        decision.save(store)
        decision.save(store)
        rows = store.sql(
            "SELECT decision_id, report_id, decision, policy ->> '$.checks[0].name', "
            "findings ->> '$[0].code', measurements ->> '$[1].value' FROM decisions"
        ).fetchall()
        assert rows == [
            (decision.decision_id, report.report_id, "reject", "posted", "pass_rate", "0.5")
        ]

    def test_the_policy_can_be_read_back(self, store: Store, report: Report) -> None:
        import json

        report.save(store)
        POLICY.evaluate(report).save(store)
        ((text,),) = store.sql("SELECT policy FROM decisions").fetchall()
        assert AcceptancePolicy.from_dict(json.loads(text)) == POLICY

    def test_needs_its_report(self, store: Store, report: Report) -> None:
        with pytest.raises(ValueError, match="save it first, with report"):
            POLICY.evaluate(report).save(store)

    def test_needs_the_very_report(self, store: Store, report: Report) -> None:
        report.save(store)
        store.cursor().execute("UPDATE reports SET digest = '00'")
        with pytest.raises(ValueError, match="has another report under the id"):
            POLICY.evaluate(report).save(store)


@pytest.mark.parametrize("target", ["b.duckdb", Path("b.duckdb"), None])
class TestWhatIsNoStore:
    """A path is not taken for a store, and the error says how to get one."""

    def test_is_refused_for_a_report(self, report: Report, target: Any) -> None:
        message = (
            r"^Report\.save takes a store, not \w+: .*connect\(path\).*report\.save_json\(path\)"
        )
        with pytest.raises(TypeError, match=message):
            report.save(target)

    def test_is_refused_for_a_decision(self, report: Report, target: Any) -> None:
        message = r"^Decision\.save takes a store, not \w+: .*connect\(path\)"
        with pytest.raises(TypeError, match=message):
            POLICY.evaluate(report).save(target)

    def test_is_refused_by_load(self, report: Report, target: Any) -> None:
        message = r"^Report\.load takes a store, not \w+: .*connect\(path\).*load_json\(path\)"
        with pytest.raises(TypeError, match=message):
            Report.load(target, report.report_id)

    def test_is_refused_by_evaluate(self, fixed_check: Any, target: Any) -> None:
        message = r"^episodes must be a store or a list .* not \w+; .*connect\(path\)"
        with pytest.raises(TypeError, match=message):
            evaluate(target, [fixed_check({})])
