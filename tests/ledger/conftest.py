"""One real run of the ledger, shared by the tests that read it, and a way to record others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from envbench.capture import capture_episode
from envbench.capture.observers import SQLiteObserver
from envbench.evidence import EpisodeEvidence, EvalCase
from envbench.ledger.environment import LedgerEnv, create_ledger, document_for
from envbench.ledger.outcomes import Outcomes
from envbench.ledger.run import run

SEED = 29


@pytest.fixture(scope="session")
def progress() -> list[tuple[int, int, str]]:
    """What the shared run told of its progress."""
    return []


@pytest.fixture(scope="session")
def outcomes(
    tmp_path_factory: pytest.TempPathFactory, progress: list[tuple[int, int, str]]
) -> Outcomes:
    folder = tmp_path_factory.mktemp("run") / "ledger-outcomes"
    return run(folder, progress=lambda *told: progress.append(told))


@pytest.fixture(scope="session")
def folder(outcomes: Outcomes) -> Path:
    return outcomes.folder


@pytest.fixture(scope="session")
def record() -> Callable[..., EpisodeEvidence]:
    """Record one episode with an agent of the test's own: `record(path, agent)`."""
    return record_episode


def record_episode(
    path: Path,
    agent: Callable[[Any, Any, Any], str | None],
    *,
    audit: bool = True,
    observe: Callable[[], Any] | None = None,
    options: dict[str, Any] | None = None,
) -> EpisodeEvidence:
    document = document_for(SEED)
    create_ledger(path)
    observer = SQLiteObserver(path)

    def factory() -> LedgerEnv:
        if audit:
            SQLiteObserver.install_audit(path)
        return LedgerEnv(path)

    return capture_episode(
        factory,
        agent,
        case=EvalCase(
            {
                "invoice_id": document.invoice_id,
                "vendor_id": document.vendor_id,
                "amount_cents": document.amount_cents,
            },
            case_id="test",
        ),
        environment_id="ledger-v1",
        observer_id="test",
        observe=observe or observer,
        audit=observer.audit if audit else None,
        row_keys=observer.row_keys,
        seed=SEED,
        max_steps=10,
        options=options,
    )
