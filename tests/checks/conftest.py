"""Episodes to judge: a counter that is told to end at a number."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import gymnasium
import pytest

from envbench.capture import Provenance, capture_episode
from envbench.checks import OutcomeCheck, OutcomeVerdict, Report, evaluate
from envbench.evidence import EpisodeEvidence, EvalCase
from envbench.evidence.digest import seal
from envbench.evidence.episode import _encode
from envbench.evidence.tagged import tag

MakeEpisode: TypeAlias = Callable[..., EpisodeEvidence]
FixedCheck: TypeAlias = Callable[..., OutcomeCheck]
ReportOf: TypeAlias = Callable[..., Report]


@pytest.fixture(scope="session", name="make_episode")
def make_episode_fixture() -> MakeEpisode:
    """Make the evidence of an episode of one step."""
    return make_episode


@pytest.fixture(scope="session", name="fixed_check")
def fixed_check_fixture() -> FixedCheck:
    """Make a check that comes to what is said for each episode."""
    return fixed_check


@pytest.fixture(scope="session", name="report_of")
def report_of_fixture() -> ReportOf:
    """Make a report from pairs of an episode and what the check comes to."""
    return report_of


class Counter(gymnasium.Env[int, int]):
    """Counts to one: action 1 terminates, 2 truncates, 3 raises, and 0 leaves it as it is."""

    observation_space = gymnasium.spaces.Discrete(2)

    def __init__(self, actions: int = 4) -> None:
        self.action_space = gymnasium.spaces.Discrete(actions)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        if action == 3:
            raise ConnectionError("the counter was switched off")
        return int(action > 0), 0.0, bool(action == 1), bool(action == 2), {}


ENDINGS = {"terminated": 1, "truncated": 2, "error": 3, "policy_stop": 0}


def make_episode(
    case_id: str = "case-1",
    *,
    source_id: str | None = None,
    tags: Iterable[str] = (),
    case_input: Any = "Count to one",
    final_state: Any = None,
    ending: str = "terminated",
    actions: int = 4,
    seed: int | None = 17,
    max_steps: int | None = 20,
    options: Any = None,
    repeat: int = 0,
    previous: EpisodeEvidence | str | None = None,
    agent_id: str | None = None,
    environment_id: str = "counter-v1",
    environment_version: str | None = None,
    observer_id: str | None = "counter-readonly-v1",
    **altered: Any,
) -> EpisodeEvidence:
    """Capture an episode of one step; `altered` replaces keys of its `.data`, sealed anew."""

    def interact(env: Any, observation: int, info: dict[str, Any]) -> str:
        env.step(ENDINGS[ending])
        return "done"

    # what a wrapped loop records and capture_episode does not take
    absent = {"seed": seed, "max_steps": max_steps, "observer_id": observer_id}
    altered |= {key: None for key, value in absent.items() if value is None}
    episode = capture_episode(
        lambda: Counter(actions),
        interact,
        case=EvalCase(case_input, case_id=case_id, source_id=source_id, tags=tuple(tags)),
        environment_id=environment_id,
        observer_id=observer_id or "none",
        observe=lambda: {"count": 1} if final_state is None else final_state,
        seed=seed or 0,
        max_steps=max_steps or 1,
        options=options,
        provenance=Provenance(
            agent_id=agent_id,
            environment_version=environment_version,
            repeat=repeat,
            previous=previous.episode_id if isinstance(previous, EpisodeEvidence) else previous,
        ),
    )
    assert episode.ending == ending
    return resealed(episode, altered) if altered else episode


def resealed(episode: EpisodeEvidence, altered: dict[str, Any]) -> EpisodeEvidence:
    """The evidence that another program would have written, with other values of some keys."""
    data = tag(episode.to_dict() | altered)
    if "environment_fingerprint" in altered:
        data["provenance"]["environment_fingerprint"] = data.pop("environment_fingerprint")
    source = _encode(data)
    data["digest"], data["trajectory_digest"] = seal(
        source.head(), source.initial_state, source.steps(), source.final_state
    )
    return EpisodeEvidence.from_dict(data)


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
