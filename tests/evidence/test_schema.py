from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from envbench.evidence import EpisodeEvidence
from envbench.evidence.schema import DATA_KEYS, ENDINGS, PHASES
from envbench.evidence.tagged import TAG, tag

Reseal = Callable[[dict[str, Any]], dict[str, Any]]


def at(data: dict[str, Any], place: str) -> tuple[Any, Any]:
    """The container of a place, and the key or index in it."""
    *above, last = [int(part) if part.isdigit() else part for part in place.split("/")]
    inner: Any = data
    for key in above:
        inner = inner[key]
    return inner, last


def refusal(data: dict[str, Any], reseal: Reseal) -> str:
    """Why evidence is refused whose digests fit."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is compared by the caller
        EpisodeEvidence.from_dict(reseal(data))
    assert "does not fit what is recorded" not in str(caught.value)
    return str(caught.value)


KEYS = [
    *DATA_KEYS,
    *(f"case/{key}" for key in ("input", "case_id", "source_id", "tags", "expects")),
    "case/reference_digest",
    "spaces/action",
    "spaces/action/type",
    "spaces/action/repr",
    "spaces/action/n",
    "spaces/observation",
    "initial/observation",
    "initial/info",
    *(f"steps/0/{key}" for key in ("index", "action", "transition", "state", "error")),
    *(f"steps/1/{key}" for key in ("started_at", "step_us", "observe_us")),
    *(f"steps/0/error/{key}" for key in ("phase", "type", "message")),
    *(f"steps/1/transition/{key}" for key in ("observation", "reward", "terminated", "truncated")),
    "steps/1/transition/info",
    *(f"errors/0/{key}" for key in ("phase", "type", "message")),
    *(f"cleanup/{key}" for key in ("attempted", "completed", "error")),
    *(f"termination/{key}" for key in ("terminated", "truncated")),
    *(f"provenance/{key}" for key in ("agent_id", "environment_version", "run_id", "repeat")),
    *(f"provenance/{key}" for key in ("environment_fingerprint", "previous", "labels")),
    *(f"reset/{key}" for key in ("started_at", "reset_us", "observe_us")),
    *(f"totals/{key}" for key in ("steps", "reward")),
]
# The digests themselves, and what the code that seals needs before the schema is asked.
NEEDED = ("digest", "trajectory_digest", "case_digest", "initial", "max_steps", "options", "schema")
NEEDED += ("seed", "spaces", "audit", "ending", "errors", "output", "termination", "steps")
NEEDED += ("initial_state", "final_state", "steps/1/started_at", "steps/1/step_us")
NEEDED += tuple(f"steps/0/{key}" for key in ("index", "action", "transition", "state", "error"))
NEEDED += ("steps/1/observe_us",)


@pytest.mark.parametrize("place", KEYS)
def test_a_missing_key_is_named(place: str, example: dict[str, Any], reseal: Reseal) -> None:
    inner, key = at(example, place)
    del inner[key]
    if place in NEEDED:
        with pytest.raises(ValueError, match=f"^/{place}: "):
            EpisodeEvidence.from_dict(example)
    else:
        assert place.rpartition("/")[0] in refusal(example, reseal)


# Any JSON may stand in these.
FREE = ("case/input", "environment_spec", "options", "initial/info", "steps/1/transition/info")


@pytest.mark.parametrize("place", sorted(set(KEYS) - set(FREE) - {"steps", "schema"}))
def test_a_value_of_a_wrong_type_is_named(
    place: str, example: dict[str, Any], reseal: Reseal
) -> None:
    inner, key = at(example, place)
    for wrong in (["wrong"], {"wrong": 1}, "", 1.5, -1, True, None):
        if type(wrong) is type(inner[key]) or is_allowed(place, wrong):
            continue
        data = copy.deepcopy(example)
        changed, _ = at(data, place)
        changed[key] = wrong
        if place not in ("digest", "trajectory_digest"):
            data = reseal(data)
        with pytest.raises(ValueError, match=f"^/{place.split('/')[0]}"):
            EpisodeEvidence.from_dict(data)


NULLABLE = (
    *(f"case/{key}" for key in ("source_id", "reference_digest")),
    *("environment_spec", "observer_id", "seed", "max_steps", "options", "initial"),
    *("initial_state", "final_state", "output", "cleanup", "cleanup/error", "row_keys", "audit"),
    *(f"provenance/{key}" for key in ("agent_id", "environment_version", "run_id", "previous")),
    "provenance/environment_fingerprint",
    *(f"steps/0/{key}" for key in ("action", "transition", "state", "error")),
    *(f"steps/1/{key}" for key in ("started_at", "step_us", "observe_us")),
    *(f"steps/1/transition/{key}" for key in ("reward", "terminated", "truncated")),
    *(f"reset/{key}" for key in ("started_at", "reset_us", "observe_us")),
    "totals/reward",
    # without its space a sample is none, and that is what is said
    *("spaces", "spaces/action", "spaces/observation"),
)
OBJECTS = ("packages", "provenance/labels", "row_keys", "initial_state", "final_state")


def is_allowed(place: str, value: Any) -> bool:
    if value is None:
        return place in NULLABLE
    if type(value) is dict:
        return place in OBJECTS or place.endswith("/state")
    if type(value) is str:
        return (
            place in ("provenance/previous",)
            or (place.startswith("provenance/") and not place.endswith(("repeat", "labels")))
            or place in ("observer_id", "environment_id", "output", "case/source_id")
        )
    if value == 1.5 and type(value) is float:
        return place.endswith(("_us", "duration_ms", "reward"))
    if value == -1:
        return place.endswith("started_at")
    return False


def set_to(place: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(data: dict[str, Any]) -> None:
        inner, key = at(data, place)
        inner[key] = value

    return change


def after_the_end(data: dict[str, Any]) -> None:
    data["steps"].append({**copy.deepcopy(data["steps"][0]), "index": 3})
    data["totals"]["steps"] = 3


def without_steps(data: dict[str, Any]) -> None:
    data["steps"] = []


def not_captured(data: dict[str, Any]) -> None:
    data["capture_steps"] = False


frame = tag(np.zeros(2000, np.uint8))

REFUSED: list[tuple[str, str, Any]] = [
    ("/schema: expected 'envbench.episode/v1', found 'other/v1'", "schema", "other/v1"),
    ("/episode_id: expected a UUID", "episode_id", "abc"),
    ("/extra: not a key of envbench.episode/v1", "extra", 1),
    ("/case/extra: not a key", "case/extra", 1),
    ("/case/tags/0: expected text, found 1", "case/tags", [1]),
    ("/case: tags name one twice", "case/tags", ["a", "a"]),
    ("/case: case_id must not be blank", "case/case_id", " "),
    ("/case_id: 'pay-18' is not the case's own", "case_id", "pay-18"),
    ("/case_digest: not the digest of the case", "case_digest", "0" * 64),
    ("/case_digest: not the digest of the case", "case/input", "Pay invoice 18."),
    ("/case/expects: expected one of termination", "case/expects", "success"),
    ("/seed: expected an integer from 0, found True", "seed", True),
    ("/seed: expected an integer from 0, found 7.0", "seed", 7.0),
    ("/max_steps: expected an integer from 1, found 0", "max_steps", 0),
    ("/steps: 2 steps, more than max_steps 1", "max_steps", 1),
    ("/recorded_at: expected a time in UTC", "recorded_at", "2026-01-02T03:04:05.000000Z"),
    ("/recorded_at: expected a time in UTC", "recorded_at", "2026-13-02T03:04:05.000000+00:00"),
    ("/recorded_at: expected a time in UTC", "recorded_at", "2026-01-02T03:04:05.000000+01:00"),
    ("/steps/0/index: expected 1, found 2: a gap", "steps/0/index", 2),
    ("/steps/1/index: expected 2, found 3: a gap", "steps/1/index", 3),
    ("/steps/1/extra: not a key", "steps/1/extra", 1),
    ("/steps/1/transition/reward: expected a double", "steps/1/transition/reward", "1.0"),
    ("/steps/1/transition/reward: expected a double", "steps/1/transition/reward", 1),
    (
        "/steps/1/transition/reward: expected a double",
        "steps/1/transition/reward",
        {TAG: "float", "value": "nan", "bits": "7ff8000000000001"},
    ),
    ("/steps/1/transition/terminated: expected true", "steps/1/transition/terminated", 1),
    ("/steps/1/state: expected an object, found []", "steps/1/state", []),
    ("/steps/1/started_at: expected an integer", "steps/1/started_at", 1.0),
    ("/steps/1/step_us: expected a number from 0, found -0.5", "steps/1/step_us", -0.5),
    ("/steps/1/step_us: expected a number from 0, found True", "steps/1/step_us", True),
    ("/steps/0/error/phase: expected one of setup", "steps/0/error/phase", "unknown"),
    ("/steps/0/error/message: expected text", "steps/0/error/message", {TAG: "tuple"}),
    ("/errors/0/step: expected an integer from 0", "errors/0/step", "1"),
    ("/ending: expected one of terminated", "ending", "finished"),
    ("/ending: truncated, but the flags say otherwise", "ending", "truncated"),
    ("/termination: {'terminated'", "termination/truncated", True),
    ("/output: expected text", "output", 3),
    ("/totals/steps: 3, but 2 are kept", "totals/steps", 3),
    ("/cleanup/extra: not a key", "cleanup/extra", 1),
    ("/audit/0/before: missing", "audit", [{"step": 1, "table": "t", "op": "edit", "key": 1}]),
    ("/spaces/action: malformed description", "spaces/action/n", 0),
    ("/steps/1/action: not a sample of", "steps/1/action", 1),
    ("/steps/1/action: a sample of an unknown space", "spaces/action/type", "shop.OwnSpace"),
    ("/steps/1/action: not a sample as its space writes it", "steps/1/action", [1.0]),
    ("/initial/observation: not a sample as", "initial/observation", [[1, 2]]),
    (
        "/steps/1/transition/observation: not a sample as",
        "steps/1/transition/observation",
        [["0.0", "1.0"]],
    ),
    (
        "/steps/1/action/more: not a key",
        "steps/1/action",
        {TAG: "sample", "value": 1, "more": 2},
    ),
    ("/steps/1/action/value: unknown tag", "steps/1/action", {TAG: "sample", "value": {TAG: 1}}),
    ("/options: unknown tag 'nothing'", "options", {TAG: "nothing"}),
    ("/options: a tagged value is not written", "options", {TAG: "tuple", "items": [], "more": 1}),
    ("/options: a tagged value is not written", "options", {TAG: "set", "items": [2, 1]}),
    ("/options: a tagged value is not written", "options", {TAG: "set", "items": [1, True]}),
    ("/options: a tagged value is not written", "options", {TAG: "decimal", "value": "1e5"}),
    ("/options: a tagged value is not written", "options", {TAG: "dict", "items": [["a", 1]]}),
    ("/options: a tagged value is not written", "options", {TAG: "int", "hex": "0x1"}),
    ("/options: a tagged value is not written", "options", {**tag(np.arange(2)), "data": ["0", 1]}),
    ("/options: a tagged value is not written", "options", {**tag(np.arange(2)), "shape": [-1]}),
    ("/options: malformed 'array' tag", "options", {**tag(np.arange(2)), "shape": [3]}),
    ("/options: malformed tag", "options", {TAG: "array", "zlib": "eJwDAAAAAAE="}),
    ("/options: the content of array", "options", {**frame, "sha256": "0" * 64}),
    ("/options: malformed 'array' tag", "options", {**frame, "shape": [1999]}),
    ("/options: malformed 'array' tag", "options", {k: frame[k] for k in frame if k != "zlib"}),
]


@pytest.mark.parametrize(
    ("message", "place", "value"),
    REFUSED,
    ids=[f"{m[:40]}-{i}" for i, (m, _, _) in enumerate(REFUSED)],
)
def test_what_breaks_the_schema_is_refused_although_its_digest_fits(
    message: str, place: str, value: Any, example: dict[str, Any], reseal: Reseal
) -> None:
    set_to(place, value)(example)
    assert refusal(example, reseal).startswith(message)


@pytest.mark.parametrize(
    ("message", "change"),
    [
        ("/steps/2: a step after the episode ended at step 2", after_the_end),
        ("/totals/steps: 2, but 0 are kept", without_steps),
        ("/steps: steps are kept although capture_steps is false", not_captured),
        ("/ending: terminated, but the environment did not", set_to("steps/1/transition", None)),
    ],
)
def test_rules_between_keys(
    message: str,
    change: Callable[[dict[str, Any]], None],
    example: dict[str, Any],
    reseal: Reseal,
) -> None:
    change(example)
    last = example["steps"][-1]["transition"] if example["steps"] else None
    for name in ("terminated", "truncated"):
        example["termination"][name] = bool(last and last[name])
    assert refusal(example, reseal).startswith(message)


@pytest.mark.parametrize("value", [None, 3, "text", [], [("schema", 1)]])
def test_what_is_no_object_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"^/: expected an object, found "):
        EpisodeEvidence.from_dict(value)


def test_what_is_not_portable_is_refused_with_its_place(example: dict[str, Any]) -> None:
    example["steps"][1]["transition"]["reward"] = float("nan")
    with pytest.raises(ValueError, match=r"^/steps/1/transition/reward: nan is not"):
        EpisodeEvidence.from_dict(example)


def test_the_document_lists_every_key_ending_and_phase(blocks: dict[str, str]) -> None:
    from pathlib import Path

    document = (Path(__file__).parents[2] / "docs" / "evidence-format.md").read_text("utf-8")
    named = {line.split("`")[1] for line in document.splitlines() if line.startswith("| `")}
    assert set(DATA_KEYS) <= named
    assert set(json.loads(blocks["json"])["steps"][0]) <= named
    for name in (*ENDINGS, *PHASES):
        assert f"`{name}`" in document
    assert list(json.loads(blocks["json"])) == list(DATA_KEYS)
