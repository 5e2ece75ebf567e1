from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envbench.evidence import EpisodeEvidence
from envbench.evidence.digest import (
    TRAJECTORY_FOOT,
    TRAJECTORY_HEAD,
    Chain,
    join_object,
    seal,
    state_hash,
)
from envbench.evidence.portable import canonical
from envbench.evidence.record import StepColumns, reward_json

Reseal = Callable[[dict[str, Any]], dict[str, Any]]


def test_the_documents_code_recomputes_the_documents_digests(
    documented: dict[str, Any], example: dict[str, Any]
) -> None:
    assert {"hashlib", "json"} == {
        name for name, value in documented.items() if type(value) is type(json)
    }
    assert documented["digests"](example) == (example["digest"], example["trajectory_digest"])


def test_evidence_has_the_documents_digests(example: dict[str, Any]) -> None:
    episode = EpisodeEvidence.from_dict(example)
    assert (episode.digest, episode.trajectory_digest) == (
        "ead2a3dc3c2db78c26375fb9ca682236227b6e5798fa07c49abbd98e33f07eff",
        "6328146a14c9849da7fcebb8f8605a67f73d6404662ed67c52d2907dd70aec41",
    )
    assert episode.verify() == []


def test_a_state_by_its_canonical_form() -> None:
    assert state_hash(b"{}") == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


def test_objects_are_joined_in_canonical_form() -> None:
    assert join_object({"b": b"1", "a": b"[2]"}) == canonical({"a": [2], "b": 1})


@pytest.mark.parametrize(
    ("reward", "printed"),
    [
        (None, b"null"),
        (1.0, b"1.0"),
        (-0.0, b"-0.0"),
        (1e-7, b"1e-07"),
        (math.nan, b'{"$envbench":"float","value":"nan"}'),
        (-math.inf, b'{"$envbench":"float","value":"-inf"}'),
    ],
)
def test_rewards(reward: float | None, printed: bytes) -> None:
    assert reward_json(reward) == printed


HEAD = dict.fromkeys((*TRAJECTORY_HEAD, *TRAJECTORY_FOOT, "episode_id"), b"null")


def columns(n: int) -> StepColumns:
    return StepColumns(
        action=[b"[%d]" % i for i in range(n)],
        observation=[b"[1.5]"] * n,
        reward=[0.5] * n,
        terminated=[False] * n,
        truncated=[False] * n,
        info=[b"{}"] * n,
        state_hash=[None] * n,
        error=[None] * n,
        started_at=list(range(n)),
        step_us=[1.5] * n,
        observe_us=[None] * n,
    )


def part(steps: StepColumns, first: int, last: int) -> StepColumns:
    return StepColumns(*(getattr(steps, name)[first:last] for name in StepColumns.__slots__))


@given(st.lists(st.integers(0, 6), max_size=5))
def test_the_digest_does_not_depend_on_how_steps_are_split(cuts: list[int]) -> None:
    whole = columns(6)
    edges = [0, *sorted(cuts), 6]
    parts = [part(whole, first, last) for first, last in pairwise(edges)]
    assert seal(HEAD, None, parts, None) == seal(HEAD, None, [whole], None)


def test_a_chain_counts_its_steps() -> None:
    chain = Chain(HEAD, None)
    chain.update(columns(2))
    chain.update(columns(1))
    assert chain.n_steps == 3


def test_null_and_nothing_differ() -> None:
    # an info that was no dict against a step that returned nothing
    returned, raised = columns(1), columns(1)
    returned.info = [b"null"]
    raised.info = [None]
    assert seal(HEAD, None, [returned], None) != seal(HEAD, None, [raised], None)


@pytest.mark.parametrize(
    "flags", [(a, b) for a in (True, False, None) for b in (True, False, None)]
)
def test_every_pair_of_flags_is_written_in_canonical_form(
    flags: tuple[bool | None, bool | None],
    example: dict[str, Any],
    documented: dict[str, Any],
) -> None:
    steps = columns(1)
    steps.terminated, steps.truncated = [flags[0]], [flags[1]]
    data = {key: json.loads(text) for key, text in HEAD.items()} | {
        "initial_state": None,
        "final_state": None,
        "steps": [
            {
                "index": 1,
                "action": [0],
                "transition": {
                    "observation": [1.5],
                    "reward": 0.5,
                    "terminated": flags[0],
                    "truncated": flags[1],
                    "info": {},
                },
                "state": None,
                "error": None,
                "started_at": 0,
                "step_us": 1.5,
                "observe_us": None,
            }
        ],
    }
    assert seal(HEAD, None, [steps], None) == documented["digests"](data)


ELSEWHERE = [
    ("episode_id", "019b7d2c-4a80-7000-8000-000000000000"),
    ("recorded_at", "2027-01-02T03:04:05.000000+00:00"),
    ("environment_id", "invoices-v2"),
    ("observer_id", "other"),
    ("duration_ms", 9.5),
    ("provenance/agent_id", "other"),
    ("provenance/run_id", "run-2"),
    ("provenance/repeat", 3),
    ("provenance/labels", {"gpu": 1}),
    ("provenance/previous", "019b7d2c-4a80-7000-8000-000000000000"),
    ("steps/1/started_at", 5),
    ("steps/1/step_us", 5.5),
    ("steps/1/observe_us", None),
    ("reset/reset_us", 5.5),
    ("packages/python", "3.13.0"),
    ("row_keys", {"/invoices": ["invoice_id"]}),
    ("issues", ["note: something"]),
    ("wrappers", []),
]
HAPPENED = [
    ("seed", 8),
    ("max_steps", 6),
    ("options", {"hard": True}),
    ("initial/observation", [[120.5, 1.0]]),
    ("initial/info", {"x": 1}),
    ("initial_state/payments", [{}]),
    ("steps/1/action", [2]),
    ("steps/1/transition/observation", [[0.0, 2e-05]]),
    ("steps/1/transition/reward", 0.5),
    ("steps/1/transition/truncated", True),
    ("steps/1/transition/info", {}),
    ("steps/1/state/payments", []),
    ("steps/0/error/message", "other"),
    ("steps/0/state", None),
    ("final_state/payments", []),
    ("output", "nothing"),
    ("errors", []),
    ("ending", "error"),
    ("audit", []),
]


def changed(data: dict[str, Any], place: str, value: Any) -> dict[str, Any]:
    data = copy.deepcopy(data)
    *above, last = [int(part) if part.isdigit() else part for part in place.split("/")]
    inner: Any = data
    for key in above:
        inner = inner[key]
    assert inner[last] != value
    inner[last] = value
    flags = data["steps"][-1]["transition"]
    data["termination"] = {name: flags[name] for name in ("terminated", "truncated")}
    return data


@pytest.mark.parametrize(("place", "value"), ELSEWHERE)
def test_times_ids_and_labels_are_no_part_of_the_trajectory(
    place: str, value: Any, example: dict[str, Any], reseal: Reseal
) -> None:
    before = EpisodeEvidence.from_dict(example)
    after = EpisodeEvidence.from_dict(reseal(changed(example, place, value)))
    assert after.trajectory_digest == before.trajectory_digest
    assert after.digest != before.digest
    assert after != before


@pytest.mark.parametrize(("place", "value"), HAPPENED)
def test_what_happened_is_part_of_both(
    place: str, value: Any, example: dict[str, Any], reseal: Reseal
) -> None:
    before = EpisodeEvidence.from_dict(example)
    after = EpisodeEvidence.from_dict(reseal(changed(example, place, value)))
    assert after.trajectory_digest != before.trajectory_digest
    assert after.digest != before.digest
