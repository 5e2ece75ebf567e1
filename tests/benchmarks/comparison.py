"""What comparing costs: 10,000 pairs by 20 checks, from reports and from a store.

    python tests/benchmarks/comparison.py [--quick]

CPU time of this process, the least of several rounds, with everything imported before. To reach:
2 seconds for 10,000 pairs and 20 checks. A busy machine slows everything, so beside the seconds
stands the ratio to a plain baseline: pairs joined by a dict and flips counted in a loop, with no
statistics at all.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from envbench import connect
from envbench.checks import CheckIdentity, CheckResult, JudgedEpisode, Report
from envbench.checks.lock import SETTINGS, Lock
from envbench.comparison import Comparison, Episodes, compare
from envbench.evidence.portable import canonical
from envbench.store import Store

CHECKS = 20
TO_REACH = 2.0
"""Seconds for 10,000 pairs by 20 checks."""


@dataclass(frozen=True)
class Measure:
    """CPU time of one way to compare, in seconds."""

    what: str
    pairs: int
    seconds: float


def made_report(side: str, pairs: int, *, passing: float, per_source: int = 0) -> Report:
    """A report of so many cases by 20 checks, of which 1% is unknown and 1% an error.

    Args:
        side: the version, which is in the ids of episodes and environment.
        pairs: how many cases.
        passing: share that passes.
        per_source: cases of one source; 0 for cases without one.
    """
    random = np.random.default_rng(len(side) + pairs)
    shares = [passing - 0.02, 1 - passing, 0.01, 0.01]
    letters = random.choice(list("pfue"), size=(pairs, CHECKS), p=shares)
    checks = tuple(CheckIdentity(f"check_{number:02}", "v1") for number in range(CHECKS))
    setting = dict.fromkeys(SETTINGS) | {
        "gymnasium_version": "1.4.0",
        "environment_id": side,
        "spaces": {"action": {"repr": "Discrete(4)"}, "observation": {"repr": "Discrete(64)"}},
    }
    text = canonical(setting).decode()
    episodes = tuple(
        JudgedEpisode(
            episode_id=f"{side}-{number:06}",
            case_id=f"case-{number:06}",
            case_digest=f"{number:064}",
            source_id=f"source-{number // per_source}" if per_source else None,
            tags=(),
            seed=number,
            repeat=0,
            previous=None,
            ending="terminated",
            coverage_issues=(),
            digest=f"{number:064}",
        )
        for number in range(pairs)
    )
    results = tuple(
        _result(episode, check, letter)
        for episode, row in zip(episodes, letters.tolist(), strict=True)
        for check, letter in zip(checks, row, strict=True)
    )
    trials = [(e.case_id, e.case_digest, e.seed, e.repeat, text) for e in episodes]
    created = "2026-01-02T03:04:05.000006+00:00"
    lock = Lock.of(checks, trials)
    return Report(f"report-{side}", side, created, checks, episodes, results, lock)


def _result(episode: JudgedEpisode, check: CheckIdentity, letter: str) -> CheckResult:
    passed = {"p": True, "f": False}.get(letter)
    error = "ValueError: it broke" if letter == "e" else None
    where = (episode.case_id, episode.episode_id, *check)
    return CheckResult(*where, passed, "as drawn", "{}", error)


def fill(store: Store, report: Report) -> None:
    """Put episodes of a report into a store as rows, without steps, and the report beside them."""
    with store.cursor() as cursor:
        cursor.execute(
            "INSERT INTO environments VALUES (?, ?, NULL, NULL, '1.4.0', NULL, '[]', '{}', '{}')",
            [report.name, report.name],
        ).fetchall()
        cursor.execute(
            _INSERT,
            {
                "environment": report.name,
                "ids": [episode.episode_id for episode in report.episodes],
                "cases": [episode.case_id for episode in report.episodes],
                "digests": [episode.case_digest for episode in report.episodes],
                "seeds": [episode.seed for episode in report.episodes],
            },
        ).fetchall()
    report.save(store)


_INSERT = """
INSERT INTO episodes BY NAME
SELECT unnest($ids) AS episode_id, unnest($cases) AS case_id, unnest($digests) AS case_digest,
    unnest($seeds) AS seed, $environment AS environment_id, $environment AS environment_key,
    0 AS repeat, '{}' AS labels, 'terminated' AS ending, true AS terminated, false AS truncated,
    0 AS n_steps, 1.5 AS episode_return, now()::TIMESTAMP AS recorded_at, 1.0 AS duration_ms,
    '[]' AS errors, '[]' AS issues, 'null' AS cleanup, false AS audited, '{}' AS extra,
    unnest($digests) AS digest, '' AS trajectory_digest
"""


def measured(pairs: int, rounds: int) -> list[Measure]:
    """The ways to compare so many pairs."""
    plain = [
        made_report(side, pairs, passing=share) for side, share in (("v1", 0.8), ("version-2", 0.7))
    ]
    sourced = [
        made_report(side, pairs, passing=share, per_source=2)
        for side, share in (("v1", 0.8), ("version-2", 0.7))
    ]
    compare(*made_pair(50))  # imports, and what is made once
    found = [
        Measure("plain loop, flips only", pairs, least(lambda: plain_flips(*plain), rounds)),
        Measure("reports", pairs, least(lambda: compare(*plain), rounds)),
        Measure("reports, two cases a source", pairs, least(lambda: compare(*sourced), rounds)),
    ]
    comparison = compare(*plain)
    found += [
        Measure("table and summary", pairs, least(lambda: said(comparison), rounds)),
        Measure("to JSON and back", pairs, least(lambda: there_and_back(comparison), rounds)),
    ]
    with TemporaryDirectory() as folder, connect(Path(folder) / "many.duckdb") as store:
        for report in plain:
            fill(store, report)
        sides = [Episodes(environment_id=report.name) for report in plain]
        seconds = least(lambda: compare(*sides, store=store), rounds)
        assert compare(*sides, store=store).checks == comparison.checks
        found.append(Measure("selections of a store, with rewards", pairs, seconds))
    return found


def plain_flips(baseline: Report, candidate: Report) -> dict[str, list[int]]:
    """How many pairs broke and were fixed by each check: the least that a comparison has to do."""
    before = {(result.case_id, result.check): result.passed for result in baseline.results}
    flips: dict[str, list[int]] = {check.name: [0, 0] for check in baseline.checks}
    for result in candidate.results:
        was = before.get((result.case_id, result.check))
        if was is not None and result.passed is not None and was != result.passed:
            flips[result.check][result.passed] += 1
    return flips


def made_pair(pairs: int) -> tuple[Report, Report]:
    """Two reports."""
    return (
        made_report("v1", pairs, passing=0.8),
        made_report("version-2", pairs, passing=0.7),
    )


def said(comparison: Comparison) -> str:
    """Everything that is printed of it."""
    return f"{comparison}\n{comparison.summary()}"


def there_and_back(comparison: Comparison) -> Comparison:
    """What a file of it is read to."""
    return Comparison.from_dict(comparison.to_dict())


def least(work: Callable[[], object], rounds: int) -> float:
    """The least CPU time of several rounds, in seconds."""
    times = []
    for _ in range(rounds):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return min(times)


def main(arguments: list[str] | None = None) -> list[Measure]:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="200 pairs, once")
    quick = parser.parse_args(arguments).quick
    measures = measured(200, 1) if quick else measured(10_000, 3)
    for one in measures:
        print(
            f"{one.what:38} {one.pairs:6,} pairs × {CHECKS} checks {one.seconds:8.3f} s"
            f" {one.seconds / measures[0].seconds:8.1f} × the plain loop"
        )
    print(f"to reach with 10,000 pairs: {TO_REACH} s")
    return measures


if __name__ == "__main__":
    main()
