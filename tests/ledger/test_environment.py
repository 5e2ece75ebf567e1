"""The ledger as a Gymnasium environment: what it commits, and what version 2 gets wrong."""

from __future__ import annotations

import sqlite3
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

from envbench.capture.observers import SQLiteObserver
from envbench.evidence.portable import canonical, parse
from envbench.ledger.environment import (
    Action,
    AnswerLost,
    Document,
    LedgerEnv,
    Status,
    create_ledger,
    document_for,
    finish,
    post_invoice,
    post_to_other_account,
    set_bank_account,
)

CAPITALS, LOWER_CASE = 17, 29
"""A seed whose document has an idempotency key in capitals, and one in lower case."""

OTHER_ACCOUNT = "GB82WEST12345698765432"


@pytest.fixture(params=[1, 2])
def env(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LedgerEnv]:
    env = LedgerEnv(tmp_path / "ledger.sqlite", version=request.param)
    yield env
    env.close()


def posting(document: Document, key: str | None = None) -> Action:
    return post_invoice(
        document.invoice_id,
        document.vendor_id,
        document.amount_cents,
        document.idempotency_key if key is None else key,
    )


def rows_of(env: LedgerEnv) -> list[dict[str, Any]]:
    return SQLiteObserver(env.path)()["invoice_rows"]


def test_it_is_a_gymnasium_environment(env: LedgerEnv) -> None:
    with warnings.catch_warnings():
        # It warns that an environment without a spec cannot be checked for other render modes.
        warnings.filterwarnings("ignore", message=".*spec.*")
        check_env(env, skip_render_check=True)
    assert env.metadata == {"render_modes": []}
    assert env.render_mode is None


def test_actions_and_observations_survive_json(env: LedgerEnv) -> None:
    observation, _ = env.reset(seed=CAPITALS)
    document = document_for(CAPITALS)
    actions = [
        posting(document),
        set_bank_account(document.vendor_id, OTHER_ACCOUNT),
        post_to_other_account("INV-2026-1", "V-1", 5, "k", OTHER_ACCOUNT),
        finish(),
        *(env.action_space.sample() for _ in range(20)),
    ]
    for space, values in ((env.action_space, actions), (env.observation_space, [observation])):
        assert all(space.contains(value) for value in values)
        text = canonical(space.to_jsonable(values))
        assert space.from_jsonable(parse(text)) == values


def test_random_actions_never_break_it(env: LedgerEnv) -> None:
    env.action_space.seed(3)
    env.reset(seed=3)
    for _ in range(200):
        observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        assert env.observation_space.contains(observation)
        assert (reward, truncated) == (0.0, False)  # no sampled identifier is one of the ledger's
        if terminated:
            env.reset()


def test_the_document_of_a_seed_is_known_before_the_run(env: LedgerEnv) -> None:
    document = document_for(CAPITALS)
    assert document == Document(
        invoice_id="INV-2026-829",
        vendor_id="V-2934",
        amount_cents=506169,
        idempotency_key="01NH92J71WGE68GV1E1MXWHHE5",
        bank_account="DE08657640614154451479",
    )
    assert env.reset(seed=CAPITALS)[0]["document"] == document.to_observation()
    assert document_for(LOWER_CASE).idempotency_key == "f5a69568556f88f7e20917dd"


def test_a_bank_account_has_right_check_digits() -> None:
    """ISO 13616: with the first four characters moved to the end, the number mod 97 is 1."""
    for seed in range(20):
        account = document_for(seed).bank_account
        digits = "".join(str(int(c, 36)) for c in account[4:] + account[:4])
        assert len(account) == 22
        assert int(digits) % 97 == 1


def test_a_fresh_ledger_is_the_same_for_a_seed_and_another_for_another(env: LedgerEnv) -> None:
    observer = SQLiteObserver(env.path)
    env.reset(seed=CAPITALS)
    first = observer()
    env.step(posting(document_for(CAPITALS)))
    env.reset(seed=LOWER_CASE)
    assert observer() != first
    env.reset(seed=CAPITALS)
    assert observer() == first
    assert {table: len(rows) for table, rows in first.items()} == {
        "invoice_rows": 3,
        "invoices": 5,
        "vendors": 4,
    }


def test_a_posting_is_committed_when_step_returns(env: LedgerEnv) -> None:
    document = document_for(CAPITALS)
    env.reset(seed=CAPITALS)
    observation, reward, terminated, truncated, info = env.step(posting(document))
    assert (observation["status"], observation["message"]) == (Status.POSTED, "Posted as row 4.")
    assert (reward, terminated, truncated, info) == (1.0, False, False, {"status": "posted"})
    key = document.idempotency_key
    assert rows_of(env)[-1] == {
        "row_id": 4,
        "invoice_id": document.invoice_id,
        "vendor_id": document.vendor_id,
        "amount_cents": document.amount_cents,
        "idempotency_key": key if env.version == 1 else key.lower(),
    }
    assert env.step(finish())[1:4] == (0.0, True, False)


@pytest.mark.parametrize(
    ("seed", "version", "rows"),
    [(CAPITALS, 1, 4), (LOWER_CASE, 1, 4), (CAPITALS, 2, 5), (LOWER_CASE, 2, 4)],
)
def test_the_fault_of_version_2_doubles_a_repeated_posting_with_capitals(
    tmp_path: Path, seed: int, version: int, rows: int
) -> None:
    env = LedgerEnv(tmp_path / "ledger.sqlite", version=version)
    env.reset(seed=seed)
    env.step(posting(document_for(seed)))
    observation, reward, *_ = env.step(posting(document_for(seed)))
    met = rows == 5
    assert observation["status"] == (Status.POSTED if met else Status.ALREADY_POSTED)
    assert reward == float(met)
    assert len(rows_of(env)) == rows
    env.close()


def test_another_key_posts_again(env: LedgerEnv) -> None:
    env.reset(seed=LOWER_CASE)
    env.step(posting(document_for(LOWER_CASE)))
    assert env.step(posting(document_for(LOWER_CASE), "retry-2"))[0]["status"] == Status.POSTED
    assert len(rows_of(env)) == 5


def test_what_the_ledger_does_not_know_is_answered_and_not_posted(env: LedgerEnv) -> None:
    document = document_for(CAPITALS)
    env.reset(seed=CAPITALS)
    before = SQLiteObserver(env.path)()
    statuses = [
        env.step(action)[0]["status"]
        for action in (
            post_invoice("INV-0", document.vendor_id, 1, "k"),
            post_invoice(document.invoice_id, "V-0", 1, "k"),
            post_invoice(document.invoice_id, document.vendor_id, 0, "k"),
            set_bank_account("V-0", OTHER_ACCOUNT),
            post_to_other_account(document.invoice_id, "V-0", 1, "k", OTHER_ACCOUNT),
        )
    ]
    assert [Status(status).name for status in statuses] == [
        "UNKNOWN_INVOICE",
        "UNKNOWN_VENDOR",
        "BAD_AMOUNT",
        "UNKNOWN_VENDOR",
        "UNKNOWN_VENDOR",
    ]
    assert SQLiteObserver(env.path)() == before


def test_a_bank_account_is_changed_and_stays_changed(env: LedgerEnv) -> None:
    document = document_for(CAPITALS)
    env.reset(seed=CAPITALS)
    env.step(set_bank_account(document.vendor_id, OTHER_ACCOUNT))
    vendors = {row["vendor_id"]: row for row in SQLiteObserver(env.path)()["vendors"]}
    assert vendors[document.vendor_id]["bank_account"] == OTHER_ACCOUNT


def test_posting_to_another_account_leaves_no_trace_but_in_the_audit(tmp_path: Path) -> None:
    document = document_for(CAPITALS)
    env = LedgerEnv(create_ledger(tmp_path / "ledger.sqlite"))
    SQLiteObserver.install_audit(env.path)
    observer = SQLiteObserver(env.path)
    env.reset(seed=CAPITALS)
    vendors = observer()["vendors"]
    assert [event["op"] for event in observer.audit()] == ["insert"] * 12
    env.step(
        post_to_other_account(
            document.invoice_id,
            document.vendor_id,
            document.amount_cents,
            document.idempotency_key,
            OTHER_ACCOUNT,
        )
    )
    assert observer()["vendors"] == vendors
    assert len(observer()["invoice_rows"]) == 4
    events: list[dict[str, Any]] = observer.audit()
    assert [(event["op"], event["table"]) for event in events] == [
        ("update", "vendors"),
        ("insert", "invoice_rows"),
        ("update", "invoices"),
        ("update", "vendors"),
    ]
    assert events[0]["after"]["bank_account"] == OTHER_ACCOUNT
    assert events[3]["after"]["bank_account"] == document.bank_account
    env.close()


def test_an_answer_can_be_lost_after_the_commit(env: LedgerEnv) -> None:
    env.reset(seed=LOWER_CASE, options={"lose_answer_of_call": 2})
    env.step(set_bank_account("V-0", OTHER_ACCOUNT))
    with pytest.raises(AnswerLost, match="call 2"):
        env.step(posting(document_for(LOWER_CASE)))
    assert len(rows_of(env)) == 4

    # The recovery: the same ledger, the same seed.
    env.reset(seed=LOWER_CASE, options={"ledger": "kept"})
    assert len(rows_of(env)) == 4
    answer = env.step(posting(document_for(LOWER_CASE)))[0]
    assert (answer["status"], len(rows_of(env))) == (Status.ALREADY_POSTED, 4)


def test_a_document_can_have_been_posted_before(env: LedgerEnv) -> None:
    env.reset(seed=LOWER_CASE, options={"already_posted": True})
    assert rows_of(env)[-1]["invoice_id"] == document_for(LOWER_CASE).invoice_id
    statuses = {row["invoice_id"]: row["status"] for row in SQLiteObserver(env.path)()["invoices"]}
    assert statuses[document_for(LOWER_CASE).invoice_id] == "posted"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"leger": "fresh"}, "unknown reset option 'leger'"),
        ({"ledger": "new"}, "must be 'fresh' or 'kept'"),
        ({"already_posted": 1}, "must be true or false"),
        ({"lose_answer_of_call": -1}, "must be the number of a call"),
        ({"lose_answer_of_call": True}, "must be the number of a call"),
        ({"ledger": "kept"}, "does not hold invoice INV-2026-829 of this seed"),
    ],
)
def test_options_that_cannot_be_followed_are_refused(
    tmp_path: Path, options: dict[str, Any], said: str
) -> None:
    env = LedgerEnv(tmp_path / "ledger.sqlite")
    with pytest.raises(ValueError, match=said):
        env.reset(seed=CAPITALS, options=options)
    env.close()


def test_steps_outside_an_episode_are_refused(env: LedgerEnv) -> None:
    with pytest.raises(ResetNeeded, match="call reset first"):
        env.step(finish())
    env.reset(seed=1)
    env.step(finish())
    with pytest.raises(ResetNeeded):
        env.step(finish())
    with pytest.raises(ValueError, match="version must be 1 or 2"):
        LedgerEnv(env.path, version=3)


def test_a_call_that_fails_in_the_database_is_rolled_back(env: LedgerEnv) -> None:
    document = document_for(CAPITALS)
    env.reset(seed=CAPITALS)
    before = SQLiteObserver(env.path)()
    other = sqlite3.connect(env.path)
    other.execute(
        "CREATE TRIGGER full BEFORE UPDATE ON invoices BEGIN SELECT RAISE(ABORT, 'disk'); END"
    )
    other.close()
    with pytest.raises(sqlite3.IntegrityError, match="disk"):
        env.step(posting(document))  # its row was inserted before the update failed
    assert SQLiteObserver(env.path)() == before


def test_it_works_under_gymnasiums_wrappers(tmp_path: Path) -> None:
    env = gymnasium.wrappers.RecordEpisodeStatistics(
        gymnasium.wrappers.TimeLimit(LedgerEnv(tmp_path / "x.sqlite"), 1)
    )
    env.reset(seed=CAPITALS)
    _, _, terminated, truncated, info = env.step(posting(document_for(CAPITALS)))
    assert (terminated, truncated, info["episode"]["r"]) == (False, True, np.float32(1.0))
    env.close()
