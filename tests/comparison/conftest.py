"""Reports made by hand: cases with their outcomes, and the settings they ran under."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import pytest

from envbench.checks import CheckIdentity, CheckResult, JudgedEpisode, Report
from envbench.checks.lock import SETTINGS, Lock
from envbench.evidence.portable import canonical

MakeReport: TypeAlias = Callable[..., Report]

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
