"""Run the ledger: every scenario, seed and version captured, judged and written to a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from envbench.capture import Provenance, capture_episode
from envbench.capture.observers import SQLiteObserver
from envbench.checks import evaluate_episode
from envbench.comparison import Comparison, Episodes, compare
from envbench.evidence import EpisodeEvidence
from envbench.ledger.environment import LedgerEnv, create_ledger
from envbench.ledger.folder import PROTOCOL_SCHEMA, STORE, prepare, write_json, write_manifest
from envbench.ledger.judging import CHECKS, POLICY, SIMPLER_POLICIES
from envbench.ledger.outcomes import Outcome, Outcomes
from envbench.ledger.page import render_page
from envbench.ledger.scenarios import SCENARIOS, SEEDS, VERSIONS, Scenario, Trial, case_for
from envbench.store import Store, connect

__all__ = ["compare_versions", "run"]

OnProgress = Callable[[int, int, str], None]

MAX_STEPS = 12
OBSERVER_ID = "ledger-sqlite-read-only-v1"


def run(
    output_dir: str | Path, *, force: bool = False, progress: bool | OnProgress = True
) -> Outcomes:
    """Run every scenario on both versions of the ledger and write everything to a folder.

    Policy and protocol, which say what every outcome must be, are written before the first
    episode. The folder then gets `databases/`, `evidence.duckdb`, `episodes/`, `reports/`,
    `comparison.json` (version 2 against version 1), `outcomes.json`, `outcomes.html` and, last,
    `SHA256SUMS` over all of them.

    Args:
        output_dir: the folder; made when it is not there.
        force: replace an earlier run in a folder that is not empty; other files stay.
        progress: True shows a bar on standard error, False nothing; a function is called with
            how many episodes are done, how many there are, and the name of the next one.

    Returns:
        The outcomes; `.ok` says whether all were as expected.

    Raises:
        FileExistsError: when the folder is not empty and `force` is not given, or a file that is
            to be replaced is not of a run.
        NotADirectoryError: when `output_dir` is a file.
    """
    folder = Path(output_dir)
    prepare(folder, force=force)
    # The protocol first: it is what shows that everything else in the folder is a run's.
    write_json(folder / "protocol.json", _protocol())
    write_json(folder / "policy.json", POLICY.to_dict())
    with connect(folder / STORE) as store, _reporting(progress) as report_progress:
        judged = tuple(_run_all(folder, store, report_progress))
        comparison = compare_versions(store)
    outcomes = Outcomes(judged, folder, comparison)
    comparison.save_json(folder / "comparison.json")
    write_json(folder / "outcomes.json", outcomes.to_dict())
    (folder / "outcomes.html").write_text(render_page(outcomes), encoding="utf-8", newline="\n")
    write_manifest(folder)
    return outcomes


def compare_versions(store: Store) -> Comparison:
    """The second version of the ledger against the first, by the last attempt at each case.

    Of a recovery it is the last attempt that shows in what state the ledger was left.
    """
    first, second = (Episodes(environment_id=_environment_id(version)) for version in VERSIONS)
    names = tuple(f"version {version}" for version in VERSIONS)
    return compare(first, second, store=store, attempt="last", names=(names[0], names[1]))


def _environment_id(version: int) -> str:
    return f"ledger-v{version}"


def _protocol() -> dict[str, Any]:
    """What is run and what must come of it."""
    return {
        "schema": PROTOCOL_SCHEMA,
        "written": "before the first episode",
        "versions": list(VERSIONS),
        "seeds": list(SEEDS),
        "max_steps": MAX_STEPS,
        "observer_id": OBSERVER_ID,
        "fault_of_version_2": (
            "An idempotency key is kept in lower case and looked up as it was sent. "
            "Seed 17 has a key with capitals and meets it when a posting is repeated."
        ),
        "checks": [{"name": check.name, "version": check.version} for check in CHECKS],
        "policy": POLICY.to_dict(),
        "simpler_policies": [
            {
                "name": simpler.name,
                "looks_at": simpler.title,
                "check": {"name": simpler.check.name, "version": simpler.check.version},
                "policy": simpler.policy.to_dict(),
            }
            for simpler in SIMPLER_POLICIES
        ],
        "scenarios": [_scenario_protocol(scenario) for scenario in SCENARIOS],
    }


def _scenario_protocol(scenario: Scenario) -> dict[str, Any]:
    return {
        "name": scenario.name,
        "story": scenario.story,
        "trials": [
            {
                "name": trial.name,
                "agent": trial.agent.__name__,
                "options": dict(trial.options),
                "audit": trial.audit,
                "recovers_the_trial_before": trial.recovers,
                "expected": {
                    f"version {version}": {
                        f"seed {seed}": _expectation(trial, version, seed) for seed in SEEDS
                    }
                    for version in VERSIONS
                },
            }
            for trial in scenario.trials
        ],
    }


def _expectation(trial: Trial, version: int, seed: int) -> dict[str, Any]:
    expected = trial.expected(version, seed)
    written: dict[str, Any] = {"decision": expected.decision, "verdicts": expected.verdicts()}
    if expected.same_ends is not None:
        written["first_and_last_state_equal"] = expected.same_ends
    return written


@contextmanager
def _reporting(progress: bool | OnProgress) -> Iterator[OnProgress]:
    if not isinstance(progress, bool):
        yield progress
        return
    console = Console(stderr=True)
    columns = (
        TextColumn("Episodes"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[name]}"),
    )
    # Only where somebody sees it move: a log would get one line for each step of the bar.
    shown = progress and console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=not shown) as bar:
        task = bar.add_task("episodes", name="")

        def show(done: int, total: int, name: str) -> None:
            bar.update(task, completed=done, total=total, name=name)

        yield show


def _run_all(folder: Path, store: Store, report_progress: OnProgress) -> Iterator[Outcome]:
    runs = [
        (version, seed, scenario)
        for scenario in SCENARIOS
        for seed in SEEDS
        for version in VERSIONS
    ]
    total = sum(len(scenario.trials) for _, _, scenario in runs)
    done = 0
    for version, seed, scenario in runs:
        failed: EpisodeEvidence | None = None
        for trial in scenario.trials:
            report_progress(done, total, f"{trial.name}, version {version}, seed {seed}")
            previous = failed if trial.recovers else None
            episode = _capture(folder, store, scenario, trial, version, seed, previous)
            outcome = _judge(scenario, trial, version, seed, episode)
            _write(folder, store, outcome)
            failed = episode
            done += 1
            yield outcome
    report_progress(done, total, "")


def _capture(
    folder: Path,
    store: Store,
    scenario: Scenario,
    trial: Trial,
    version: int,
    seed: int,
    previous: EpisodeEvidence | None,
) -> EpisodeEvidence:
    path = create_ledger(folder / "databases" / trial.database_name(version, seed))
    observer = SQLiteObserver(path)

    def make_environment() -> LedgerEnv:
        if trial.audit:
            SQLiteObserver.install_audit(path)
        return LedgerEnv(path, version=version)

    return capture_episode(
        make_environment,
        trial.agent,
        case=case_for(scenario, trial, seed),
        environment_id=_environment_id(version),
        observer_id=OBSERVER_ID,
        observe=observer,
        audit=observer.audit if trial.audit else None,
        row_keys=observer.row_keys,
        seed=seed,
        max_steps=MAX_STEPS,
        options=dict(trial.options),
        store=store,
        provenance=Provenance(
            agent_id=f"scripted:{trial.agent.__name__}",
            environment_version=str(version),
            previous=None if previous is None else previous.episode_id,
            labels={"scenario": scenario.name, "trial": trial.name},
        ),
    )


def _judge(
    scenario: Scenario, trial: Trial, version: int, seed: int, episode: EpisodeEvidence
) -> Outcome:
    name = trial.episode_name(version, seed)
    report = evaluate_episode(episode, CHECKS, name=name)
    simpler = {
        policy.name: policy.policy.evaluate(
            evaluate_episode(episode, [policy.check], name=f"{name} ({policy.title})")
        ).decision
        for policy in SIMPLER_POLICIES
    }
    decision = POLICY.evaluate(report)
    return Outcome(version, seed, scenario, trial, episode, report, decision, simpler)


def _write(folder: Path, store: Store, outcome: Outcome) -> None:
    outcome.episode.save_json(folder / "episodes" / f"{outcome.name}.json")
    outcome.report.save_json(folder / "reports" / f"{outcome.name}.json")
    outcome.report.save(store)
    outcome.decision.save(store)
