"""The ledger's checks: what each finds, and when it says that it cannot tell."""

from __future__ import annotations

import dataclasses
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from envbench.capture.observers import SQLiteObserver
from envbench.checks import OutcomeVerdict
from envbench.evidence import EpisodeEvidence
from envbench.ledger.environment import document_for, finish, post_invoice, set_bank_account
from envbench.ledger.judging import (
    CHECKS,
    POLICY,
    answer_says_posted,
    last_posting_is_right,
    posted_once,
)

DOCUMENT = document_for(29)
OTHER = "GB82WEST12345698765432"
Record = Callable[..., EpisodeEvidence]


def posting(**changed: Any) -> dict[str, Any]:
    document = dataclasses.replace(DOCUMENT, **changed)
    return post_invoice(
        document.invoice_id, document.vendor_id, document.amount_cents, document.idempotency_key
    )


def scripted(*actions: dict[str, Any], answer: str | None = "Done.") -> Any:
    def agent(env: Any, observation: Any, info: Any) -> str | None:
        for action in (*actions, finish()):
            env.step(action)
        return answer

    return agent


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


def changes(episode: EpisodeEvidence) -> OutcomeVerdict:
    """What the check on changes says of an episode."""
    (check,) = [check for check in CHECKS if check.name == "no_forbidden_changes"]
    return check.fn(episode)


def sql(path: Path, statement: str, *values: object) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(statement, values)
    connection.close()


def test_posted_once_and_right(record: Record, path: Path) -> None:
    verdict = posted_once(record(path, scripted(posting())))
    assert verdict.passed is True
    assert [row["amount_cents"] for row in verdict.evidence["rows"]] == [648274]


@pytest.mark.parametrize(
    ("actions", "said"),
    [
        ([], "The invoice has no row, not one"),
        ([posting(amount_cents=648273)], "has amount_cents 648273, not 648274"),
        ([posting(), posting(idempotency_key="again")], "The invoice has 2 rows, not one"),
    ],
)
def test_posted_wrongly(
    record: Record, path: Path, actions: list[dict[str, Any]], said: str
) -> None:
    verdict = posted_once(record(path, scripted(*actions)))
    assert verdict.passed is False
    assert said in verdict.reason


def test_posted_to_another_vendor(record: Record, path: Path) -> None:
    def agent(env: Any, observation: Any, info: Any) -> str:
        other = next(
            row["vendor_id"]
            for row in SQLiteObserver(path)()["vendors"]
            if row["vendor_id"] != DOCUMENT.vendor_id
        )
        return scripted(posting(vendor_id=other))(env, observation, info)

    verdict = posted_once(record(path, agent))
    assert verdict.passed is False
    assert "has vendor_id" in verdict.reason


def test_a_row_of_another_invoice_must_stay_as_it_was(record: Record, path: Path) -> None:
    def agent(env: Any, observation: Any, info: Any) -> str:
        sql(path, "UPDATE invoice_rows SET amount_cents = 1 WHERE row_id = 1")
        return scripted(posting())(env, observation, info)

    verdict = posted_once(record(path, agent))
    assert (verdict.passed, verdict.reason) == (False, "Rows of other invoices changed")


def test_a_change_never_put_back_is_told_from_one_that_was(record: Record, path: Path) -> None:
    steps = (
        set_bank_account(DOCUMENT.vendor_id, OTHER),
        posting(),
        set_bank_account(DOCUMENT.vendor_id, DOCUMENT.bank_account),
        set_bank_account(DOCUMENT.vendor_id, OTHER),
    )
    verdict = changes(record(path, scripted(*steps)))
    assert verdict.passed is False
    where = f'/vendors/vendor_id="{DOCUMENT.vendor_id}"/bank_account'
    assert verdict.reason.startswith(f"step 1: {where}: ")
    assert [
        (f["path"], f["kind"], f["step"], f["restored_at"]) for f in verdict.evidence["findings"]
    ] == [
        (where, "restored", 1, 3),
        (where, "net", 4, None),
    ]


@pytest.mark.parametrize(
    ("statement", "values"),
    [
        ("DELETE FROM vendors WHERE vendor_id <> ?", [DOCUMENT.vendor_id]),
        ("INSERT INTO vendors VALUES ('V-0', 'Shell', ?)", [OTHER]),
        ("DROP TABLE vendors", []),
    ],
)
def test_a_vendor_that_comes_or_goes_is_a_change(
    record: Record, path: Path, statement: str, values: list[str]
) -> None:
    def agent(env: Any, observation: Any, info: Any) -> str:
        scripted(posting())(env, observation, info)
        sql(path, "PRAGMA foreign_keys = OFF")
        sql(path, statement, *values)  # after the last step: only the final state shows it
        return "Done."

    verdict = changes(record(path, agent, audit=False))
    assert verdict.passed is False
    assert verdict.evidence["findings"][0]["step"] == 3
    assert verdict.evidence["findings"][0]["action"] is None


def test_without_an_audit_nobody_knows_what_was_undone_inside_a_step(
    record: Record, path: Path
) -> None:
    episode = record(path, scripted(posting()), audit=False)
    verdict = changes(episode)
    assert verdict.passed is None
    assert "no audit" in verdict.reason


def test_without_an_audit_a_change_that_was_seen_still_fails(record: Record, path: Path) -> None:
    episode = record(
        path, scripted(set_bank_account(DOCUMENT.vendor_id, OTHER), posting()), audit=False
    )
    assert changes(episode).passed is False


def test_an_edited_row_of_an_invoice_is_a_change(record: Record, path: Path) -> None:
    def agent(env: Any, observation: Any, info: Any) -> str:
        sql(path, "UPDATE invoice_rows SET amount_cents = 1 WHERE row_id = 1")
        return scripted(posting())(env, observation, info)

    (finding,) = changes(record(path, agent)).evidence["findings"]
    assert (finding["path"], finding["after"]) == ("/invoice_rows/row_id=1/amount_cents", 1)


def test_setting_an_account_to_what_it_was_is_no_change(record: Record, path: Path) -> None:
    same = set_bank_account(DOCUMENT.vendor_id, DOCUMENT.bank_account)
    episode = record(path, scripted(same, posting()))
    assert [event["op"] for event in episode.data["audit"] if event["step"] == 1] == ["update"]
    assert changes(episode).passed is True


def test_an_audit_with_a_hole_cannot_pass(record: Record, path: Path) -> None:
    def agent(env: Any, observation: Any, info: Any) -> str:
        sql(path, "DROP TRIGGER envbench_audit_3_after_update")
        return scripted(posting())(env, observation, info)

    episode = record(path, agent)
    assert {error["phase"] for error in episode.errors} == {"audit"}
    verdict = changes(episode)
    assert verdict.passed is None
    assert "could not be read at every step" in verdict.reason


def test_states_that_were_not_seen_are_unknown_unless_a_violation_was(
    record: Record, path: Path
) -> None:
    reader = SQLiteObserver(path)
    calls = []

    def sometimes() -> Any:
        calls.append(None)
        if len(calls) == 3:
            raise ConnectionError("the observer was away")
        return reader()

    episode = record(path, scripted(posting(), posting()), observe=sometimes)
    assert posted_once(episode).passed is True
    assert changes(episode).passed is None
    assert changes(episode).evidence["missing_states"] == [2]

    calls.clear()
    changing = scripted(set_bank_account(DOCUMENT.vendor_id, OTHER), posting())
    assert changes(record(path, changing, observe=sometimes)).passed is False


def test_no_state_at_all_is_unknown(record: Record, path: Path) -> None:
    def never() -> Any:
        raise ConnectionError("the observer was away")

    episode = record(path, scripted(posting(), answer=None), observe=never, audit=False)
    checks = (posted_once, changes, last_posting_is_right)
    assert [check(episode).passed for check in checks] == [None] * 3
    assert answer_says_posted(episode).passed is None


@pytest.mark.parametrize(
    ("answer", "passed"),
    [
        (f"Posted {DOCUMENT.invoice_id}.", True),
        (f"{DOCUMENT.invoice_id} was posted before.", True),
        ("Posted.", False),
        (f"I could not find {DOCUMENT.invoice_id}.", False),
    ],
)
def test_the_answer_is_taken_at_its_word(
    record: Record, path: Path, answer: str, passed: bool
) -> None:
    assert answer_says_posted(record(path, scripted(answer=answer))).passed is passed


def test_the_last_posting_alone_misses_the_one_before(record: Record, path: Path) -> None:
    episode = record(path, scripted(posting(), posting(idempotency_key="again")))
    assert last_posting_is_right(episode).passed is True
    assert posted_once(episode).passed is False


def test_every_check_is_critical_and_all_must_pass() -> None:
    assert [(check.name, check.critical, check.min_pass_rate) for check in POLICY.checks] == [
        ("posted_once", True, 1.0),
        ("no_forbidden_changes", True, 1.0),
    ]
