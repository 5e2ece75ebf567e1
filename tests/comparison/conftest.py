"""Reports made by hand: cases with their outcomes, and the settings they ran under."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import gymnasium
import pytest

from envbench.capture import Provenance, capture_episode
from envbench.checks import (
    CheckIdentity,
    CheckResult,
    JudgedEpisode,
    Report,
)
from envbench.checks.lock import SETTINGS, Lock
from envbench.evidence import EpisodeEvidence, EvalCase
from envbench.evidence.portable import canonical

MakeReport: TypeAlias = Callable[..., Report]
MakeEpisode: TypeAlias = Callable[..., EpisodeEvidence]

SETTING = {
    "observer_id": "counter-readonly-v1",
    "gymnasium_version": "1.4.0",
    "max_steps": 20,
    "options": None,
    "spaces": {"action": "Discrete(4)", "observation": "Discrete(2)"},
    "environment_id": "counter-v1",
    "environment_version": None,
    "environment_fingerprint": None,
    "agent_id": None,
}
assert tuple(SETTING) == SETTINGS

LETTERS = {"p": True, "f": False, "u": None, "e": "error"}


@pytest.fixture(scope="session", name="report")
def report_fixture() -> MakeReport:
    """Make a report from one row an episode."""
    return make_report


@pytest.fixture(scope="session", name="record")
def record_fixture() -> MakeEpisode:
    """Record one episode of a till."""
    return record


def make_report(
    rows: str | Iterable[Mapping[str, Any] | tuple[str, Any]],
    *,
    checks: Mapping[str, str] | None = None,
    name: str = "outcomes",
    side: str = "a",
    **setting: Any,
) -> Report:
    """A report of episodes.

    Args:
        rows: letters, one case a letter (`p`, `f`, `u` unknown, `e` error), several checks a case
            separated by spaces; or `(case, letters)`; or dicts with `case`, `letters` and any field
            of `JudgedEpisode`, and `setting` for what is set otherwise in this episode alone.
        checks: versions of the checks by name; by default one check `posted_once` of version v1.
        name: name of the report.
        side: what makes the ids of its episodes differ from those of another report.
        setting: what is set otherwise than in `SETTING`.
    """
    checks = checks or {"posted_once": "v1"}
    if isinstance(rows, str):
        letters = rows.split() if len(checks) > 1 else rows
        rows = [(f"case-{number:02}", each) for number, each in enumerate(letters, 1)]
    episodes, results, trials = [], [], []
    for number, row in enumerate(rows):
        given = dict(row) if isinstance(row, Mapping) else {"case": row[0], "letters": row[1]}
        episode = _episode(given, number, side)
        episodes.append(episode)
        changed = SETTING | setting | given.get("setting", {})
        trial = (episode.case_id, episode.case_digest, episode.seed, episode.repeat)
        trials.append((*trial, canonical(changed).decode()))
        for check, letter in zip(checks.items(), given["letters"], strict=True):
            results.append(_result(episode, check, letter))
    identities = tuple(CheckIdentity(*check) for check in checks.items())
    return Report(
        report_id=f"report-{side}",
        name=name,
        created_at="2026-01-02T03:04:05.000006+00:00",
        checks=identities,
        episodes=tuple(episodes),
        results=tuple(results),
        lock=Lock.of(identities, trials),
    )


def _episode(given: Mapping[str, Any], number: int, side: str) -> JudgedEpisode:
    case = given["case"]
    fields = {
        "episode_id": f"{side}-{number}",
        "case_id": case,
        "case_digest": f"definition of {case}",
        "source_id": None,
        "tags": (),
        "seed": 17,
        "repeat": 0,
        "previous": None,
        "ending": "terminated",
        "coverage_issues": (),
    }
    own = {"case", "letters", "setting"}
    fields |= {name: value for name, value in given.items() if name not in own}
    text = f"{side}{number}{fields}"
    fields.setdefault("digest", hashlib.sha256(text.encode()).hexdigest())
    return JudgedEpisode(**fields)


def _result(episode: JudgedEpisode, check: tuple[str, str], letter: str) -> CheckResult:
    passed = LETTERS[letter]
    error = "ValueError: it broke" if passed == "error" else None
    return CheckResult(
        episode.case_id,
        episode.episode_id,
        *check,
        None if error else passed,
        f"It is {letter}",
        "{}",
        error,
    )


# -- real episodes --------------------------------------------------------------------------------


class Till(gymnasium.Env[int, int]):
    """Books what it is told to, and pays what it is told to."""

    action_space = gymnasium.spaces.Discrete(4)
    observation_space = gymnasium.spaces.Discrete(4)

    def __init__(self, reward: float) -> None:
        self.reward = reward
        self.booked = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.booked = 0
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.booked = int(action)
        return self.booked, self.reward, True, False, {}


def record(
    case: str = "x",
    booked: int | None = 1,
    *,
    store: Any = None,
    reward: float = 0.0,
    seed: int = 17,
    environment: str = "till-v1",
    source: str | None = None,
    tags: tuple[str, ...] = (),
    options: Any = None,
    **provenance: Any,
) -> EpisodeEvidence:
    """Record an episode in which so much was booked; None leaves the last state unseen."""
    till = Till(reward)

    def observe() -> dict[str, int]:
        if booked is None and till.booked:
            raise ConnectionError("the till does not answer")
        return {"booked": till.booked}

    def interact(env: Any, observation: int, info: Any) -> str:
        env.step(1 if booked is None else booked)
        return "booked"

    return capture_episode(
        lambda: till,
        interact,
        case=EvalCase(f"Book once: {case}", case_id=case, source_id=source, tags=tags),
        environment_id=environment,
        observer_id="till",
        observe=observe,
        seed=seed,
        max_steps=5,
        options=options,
        store=store,
        provenance=Provenance(**provenance),
    )
