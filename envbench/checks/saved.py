"""Reports and decisions in a store, and back."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from envbench.changes.violations import Finding
from envbench.checks.report import SCHEMA, Report
from envbench.evidence.portable import Json, canonical, parse
from envbench.evidence.tagged import ABSENT, encode
from envbench.store.errors import StoreError
from envbench.store.messages import explain
from envbench.store.writing import roll_back

if TYPE_CHECKING:
    from envbench.checks.decision import Decision
    from envbench.store import Store


def save_report(store: Store, report: Report) -> None:
    """Keep a report in a store, all of it or nothing; see `Report.save`."""
    _require_store(store, "Report.save", "report.save_json(path)")
    with _transaction(store) as cursor:
        saved = cursor.execute(_FIND_REPORT, [report.report_id]).fetchone()
        if saved is not None and saved[0] != report.digest:
            raise ValueError(f"{store.path} has another report under the id {report.report_id}")
        if saved is not None:
            return
        cursor.register("envbench_results", _results_table(report))
        cursor.execute(_INSERT_RESULTS).fetchall()
        cursor.unregister("envbench_results")
        for row in _finding_rows(report):
            cursor.execute(_INSERT_FINDING, row).fetchall()
        content = report.to_dict()
        row = [report.report_id, report.name, _timestamp(report.created_at)]
        row += [canonical(content[column]).decode() for column in _JSON_COLUMNS]
        cursor.execute(_INSERT_REPORT, [*row, report.digest]).fetchall()


def load_report(store: Store, report_id: str) -> Report:
    """Read a report that was kept; see `Report.load`."""
    _require_store(store, "Report.load", "Report.load_json(path)")
    with store.cursor() as cursor:
        reports = cursor.execute(_SELECT_REPORT, [report_id]).fetchall()
        results = cursor.execute(_SELECT_RESULTS, [report_id]).fetchall()
    if not reports:
        raise KeyError(f"no report {report_id!r} in {store.path}")
    if len(reports) > 1:
        raise StoreError(f"{store.path}: report {report_id} is there {len(reports)} times")
    name, created_at, *texts, digest = reports[0]
    try:
        content = dict(zip(_JSON_COLUMNS, map(parse, texts), strict=True))
        results = _in_order(results, content["checks"], content["episodes"])
        return Report.from_dict(
            {
                "schema": SCHEMA,
                "report_id": report_id,
                "name": name,
                "created_at": created_at.isoformat(timespec="microseconds") + "+00:00",
                **content,
                "results": results,
                "digest": digest,
            }
        )
    except ValueError as error:
        raise ValueError(f"{store.path}: report {report_id}: {error}") from None


def save_decision(store: Store, decision: Decision) -> None:
    """Keep a decision in a store that has its report; see `Decision.save`."""
    _require_store(store, "Decision.save", "decision.to_dict()")
    with _transaction(store) as cursor:
        saved = cursor.execute(_FIND_REPORT, [decision.report_id]).fetchone()
        if saved is None:
            raise ValueError(
                f"{store.path} does not have the report {decision.report_id} that was decided "
                "about: save it first, with report.save(store)"
            )
        if saved[0] != decision.report_digest:
            raise ValueError(
                f"{store.path} has another report under the id {decision.report_id} than the one "
                "that was decided about"
            )
        if cursor.execute(_FIND_DECISION, [decision.decision_id]).fetchone() is not None:
            return
        content = decision.to_dict()
        row = [decision.decision_id, decision.report_id, _timestamp(decision.decided_at)]
        row += [decision.decision]
        row += [canonical(content[key]).decode() for key in ("policy", "findings", "measurements")]
        cursor.execute(_INSERT_DECISION, row).fetchall()


def _require_store(store: object, method: str, instead: str) -> None:
    from envbench.store import Store

    if not isinstance(store, Store):
        raise TypeError(
            f"{method} takes a store, not {type(store).__name__}: open the file with "
            f"envbench.connect(path) first; for JSON there is {instead}"
        )


def _finding_rows(report: Report) -> Iterator[list[Any]]:
    """The rows of `findings`: what the checks on changes found; `ABSENT` is SQL NULL."""
    for result in report.results:
        if '"findings"' not in result.evidence_json:
            continue  # most evidence has none, and need not be decoded
        found = result.evidence.get("findings")
        if type(found) is not list:
            continue
        for index, finding in enumerate(found):
            if type(finding) is not dict or set(finding) != _FINDING_KEYS:
                break  # a check of the user's that has findings of its own
            row = [report.report_id, result.episode_id, result.check, index]
            row += [finding[key] for key in ("rule", "path", "kind", "step")]
            row += [_text(finding["action"]), finding["restored_at"]]
            row += [_text(finding[key]) for key in ("before", "during", "after")]
            yield [*row, finding["resolution"]]


def _text(value: Any) -> str | None:
    return None if value is ABSENT else encode(value).decode()


_FINDING_KEYS = {field.name for field in fields(Finding)}

_INSERT_FINDING = """
INSERT INTO findings (report_id, episode_id, check_name, finding_index, rule, path, kind,
    step_index, action, restored_at, before, during, after, resolution)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""

_JSON_COLUMNS = ("checks", "lock", "episodes")

_FIND_REPORT = "SELECT digest FROM reports WHERE report_id = ?"
_FIND_DECISION = "SELECT decision_id FROM decisions WHERE decision_id = ?"

_INSERT_REPORT = """
INSERT INTO reports (report_id, name, created_at, checks, lock, episodes, digest)
VALUES (?, ?, ?, ?, ?, ?, ?)
"""

_INSERT_RESULTS = """
INSERT INTO check_results (report_id, episode_id, case_id, check_name, check_version, passed,
    reason, evidence, error)
SELECT report_id, episode_id, case_id, check_name, check_version, passed, reason, evidence, error
FROM envbench_results
"""

_INSERT_DECISION = """
INSERT INTO decisions (decision_id, report_id, decided_at, decision, policy, findings, measurements)
VALUES (?, ?, ?, ?, ?, ?, ?)
"""

_SELECT_REPORT = """
SELECT name, created_at, checks, lock, episodes, digest FROM reports WHERE report_id = ?
"""

_SELECT_RESULTS = """
SELECT case_id, episode_id, check_name, check_version, passed, reason, evidence, error
FROM check_results WHERE report_id = ?
"""


@contextmanager
def _transaction(store: Store) -> Iterator[duckdb.DuckDBPyConnection]:
    """A cursor in a transaction that is committed at the end, or rolled back by any exception."""
    if store.read_only:
        raise StoreError(f"{store.path} was opened for reading only: connect to it for writing")
    with store.cursor() as cursor:
        try:
            cursor.execute("BEGIN TRANSACTION").fetchall()
            yield cursor
            cursor.execute("COMMIT").fetchall()
        except duckdb.Error as error:
            roll_back(cursor)
            raise explain(error, store.path) from error
        except BaseException:
            roll_back(cursor)
            raise


def _timestamp(moment: str) -> datetime.datetime:
    """A time in UTC as DuckDB's TIMESTAMP, which has no zone."""
    return datetime.datetime.fromisoformat(moment).replace(tzinfo=None)


def _results_table(report: Report) -> pa.Table:
    def texts(values: list[str | None]) -> pa.Array:
        return pa.array(values, pa.string())

    results = report.results
    return pa.table(
        {
            "report_id": texts([report.report_id] * len(results)),
            "episode_id": texts([result.episode_id for result in results]),
            "case_id": texts([result.case_id for result in results]),
            "check_name": texts([result.check for result in results]),
            "check_version": texts([result.version for result in results]),
            "passed": pa.array([result.passed for result in results], pa.bool_()),
            "reason": texts([result.reason for result in results]),
            "evidence": texts([result.evidence_json for result in results]),
            "error": texts([result.error for result in results]),
        }
    )


def _in_order(
    rows: Sequence[tuple[Any, ...]], checks: Sequence[Json], episodes: Sequence[Json]
) -> list[Json]:
    """Rows of `check_results`, which have no order, as the report lists them."""
    names = ("case_id", "episode_id", "check", "version", "passed", "reason", "evidence", "error")
    results = [dict(zip(names, row, strict=True)) for row in rows]
    for result in results:
        result["evidence"] = parse(result["evidence"] or "null")
    try:
        check_order = {check["name"]: i for i, check in enumerate(checks)}
        episode_order = {episode["episode_id"]: i for i, episode in enumerate(episodes)}
    except (KeyError, TypeError):
        raise ValueError("/checks or /episodes: are not the lists that were saved") from None
    last = len(rows)  # a row that the report does not know goes to the end, and is refused there
    return sorted(
        results,
        key=lambda result: (
            episode_order.get(result["episode_id"], last),
            check_order.get(result["check"], last),
        ),
    )
