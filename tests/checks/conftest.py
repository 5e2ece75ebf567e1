"""Episodes to judge: a counter that is told to end at a number."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import pytest

from envbench.checks import OutcomeCheck, OutcomeVerdict, Report, evaluate
from envbench.evidence import EpisodeEvidence, EvalCase
from envbench.evidence.digest import SCHEMA, seal, state_hash
from envbench.evidence.portable import canonical
from envbench.evidence.record import EncodedEpisode, StepColumns, new_id
from envbench.evidence.tagged import tag

MakeEpisode: TypeAlias = Callable[..., EpisodeEvidence]
FixedCheck: TypeAlias = Callable[..., OutcomeCheck]
ReportOf: TypeAlias = Callable[..., Report]


@pytest.fixture(name="make_episode")
def make_episode_fixture() -> MakeEpisode:
    """Make the evidence of an episode of one step."""
    return make_episode


@pytest.fixture(name="fixed_check")
def fixed_check_fixture() -> FixedCheck:
    """Make a check that comes to what is said for each episode."""
    return fixed_check


@pytest.fixture(name="report_of")
def report_of_fixture() -> ReportOf:
    """Make a report from pairs of an episode and what the check comes to."""
    return report_of


def make_episode(
    case_id: str = "case-1",
    *,
    source_id: str | None = None,
    tags: Iterable[str] = (),
    case_input: Any = "Count to one",
    final_state: Any = None,
    ending: str = "terminated",
    seed: int | None = 17,
    max_steps: int | None = 20,
    options: Any = None,
    spaces: Any = None,
    repeat: int = 0,
    previous: EpisodeEvidence | str | None = None,
    agent_id: str | None = None,
    environment_id: str = "counter-v1",
    environment_version: str | None = None,
    environment_fingerprint: str | None = None,
    observer_id: str | None = "counter-readonly-v1",
    gymnasium_version: str = "1.4.0",
    issues: Iterable[str] = (),
    errors: Iterable[dict[str, Any]] = (),
) -> EpisodeEvidence:
    case = EvalCase(case_input, case_id=case_id, source_id=source_id, tags=tuple(tags))
    terminated, truncated = ending == "terminated", ending == "truncated"
    state = canonical({"count": 1} if final_state is None else final_state)
    digest = state_hash(state)
    data = {
        "schema": SCHEMA,
        "episode_id": new_id(),
        "case": case.to_dict(),
        "case_id": case_id,
        "case_digest": case.digest,
        "environment_id": environment_id,
        "environment_spec": None,
        "wrappers": [],
        "observer_id": observer_id,
        "gymnasium_version": gymnasium_version,
        "packages": {},
        "seed": seed,
        "max_steps": max_steps,
        "options": options,
        "recorded_at": "2026-11-30T12:00:00.000000+00:00",
        "spaces": spaces,
        "initial": {"observation": 0, "info": {}},
        "output": "done",
        "errors": [tag(error) for error in errors],
        "issues": list(issues),
        "cleanup": {"attempted": True, "completed": True, "error": None},
        "duration_ms": 1.5,
        "termination": {"terminated": terminated, "truncated": truncated},
        "ending": ending,
        "capture_steps": True,
        "provenance": {
            "agent_id": agent_id,
            "environment_version": environment_version,
            "environment_fingerprint": environment_fingerprint,
            "run_id": None,
            "repeat": repeat,
            "previous": previous.episode_id if isinstance(previous, EpisodeEvidence) else previous,
            "labels": {},
        },
        "row_keys": None,
        "audit": None,
        "reset": {"started_at": None, "reset_us": None, "observe_us": None},
        "totals": {"steps": 1, "reward": 0.0},
    }
    parts = {key: canonical(value) for key, value in data.items()}
    columns = StepColumns(
        [b"1"],
        [b"1"],
        [0.0],
        [terminated],
        [truncated],
        [b"{}"],
        [digest],
        [None],
        [1],
        [2.0],
        [3.0],
    )
    sealed = seal(parts, digest, [columns], digest)
    made = EpisodeEvidence(
        EncodedEpisode(parts, columns, {digest: state}, {}, digest, digest, *sealed)
    )
    return EpisodeEvidence.from_dict(made.to_dict())  # which holds that this is evidence


def fixed_check(
    outcomes: dict[str, Any], name: str = "posted_once", version: str = "v1"
) -> OutcomeCheck:
    """A check that comes to what is said for each episode; an exception is raised."""

    def fn(episode: EpisodeEvidence) -> OutcomeVerdict:
        outcome = outcomes[episode.episode_id]
        if isinstance(outcome, Exception):
            raise outcome
        return OutcomeVerdict(outcome, f"It is {outcome}", {"outcome": outcome})

    return OutcomeCheck(name, version, fn)


def report_of(*episodes: tuple[EpisodeEvidence, Any], checks: Iterable[str] = ()) -> Report:
    """A report of episodes with what the check comes to; several by name in a dict."""
    names = list(checks) or ["posted_once"]
    made = [
        fixed_check(
            {
                episode.episode_id: outcome[name] if isinstance(outcome, dict) else outcome
                for episode, outcome in episodes
            },
            name,
        )
        for name in names
    ]
    return evaluate([episode for episode, _ in episodes], made)
