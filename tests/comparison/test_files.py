from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from envbench import connect
from envbench.comparison import Comparison, Episodes, compare
from tests.comparison.tills import ONCE, record


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    """A comparison that has something of everything."""
    with connect(":memory:") as store:
        for environment, booked in (("till-v1", 1), ("till-v2", 2)):
            for case, seed in (("請求書 ‮1", 2**64 + 1), ("x", 1), ("x", None), ("y", None)):
                given = {"environment": environment, "seed": seed, "tags": ("a", "b")}
                record(case, booked, store=store, reward=0.1 * booked, **given)
            record("y", None, store=store, environment=environment, seed=None, repeat=1)
        record("alone", store=store, source="book", options={"a": [1, 1.0, True, None]})
        return compare(
            Episodes(environment_id="till-v1"),
            Episodes(environment_id="till-v2"),
            store=store,
            checks=ONCE,
        )


def test_a_comparison_comes_back_equal(comparison: Comparison, tmp_path: Any) -> None:
    path = tmp_path / "comparison.json"
    comparison.save_json(path)
    loaded = Comparison.load_json(path)
    assert loaded == comparison
    assert loaded.digest == comparison.digest
    assert (str(loaded), loaded.summary()) == (str(comparison), comparison.summary())
    assert loaded.checks[0].outcomes == list(comparison.checks[0].outcomes)
    assert loaded.reward is not None
    assert loaded.reward.disagreements


def test_a_blocked_one_and_one_without_rewards(report: Any, tmp_path: Any) -> None:
    blocked = compare(
        report("ppfu", options={"x": {"y": [1, None]}}),
        report("pfue", side="b", options={"x": {"y": [1.0]}}, spaces=None),
    )
    assert Comparison.from_dict(json.loads(json.dumps(blocked.to_dict()))) == blocked
    empty = compare(report([]), report([]))
    assert Comparison.from_dict(empty.to_dict()) == empty


def test_what_a_program_reads_first_is_there(report: Any) -> None:
    saved = compare(report("pppppppp"), report("ffffffff", side="b")).to_dict()
    assert (saved["schema"], saved["comparable"], saved["exit_code"]) == (
        "envbench.comparison/v1",
        True,
        1,
    )
    (check,) = saved["checks"]
    assert (check["verdict"], check["p"], check["table"]["passed"]["failed"]) == (
        "regression",
        0.0078125,
        8,
    )
    assert check["outcomes"] == {"baseline": "pppppppp", "candidate": "ffffffff"}


def change(saved: Any, place: str, value: Any) -> Any:
    """The saved comparison with another value at a place, or without it."""
    saved = copy.deepcopy(saved)
    *path, last = place.split("/")
    at = saved
    for part in path:
        at = at[int(part) if part.isdigit() else part]
    if value is ...:
        del at[last]
    else:
        at[int(last) if last.isdigit() else last] = value
    return saved


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("schema", "envbench.report/v1", "/schema: is 'envbench.report/v1'"),
        ("treatment", "weather", "/treatment: is 'weather'"),
        ("alpha", ..., "/: has no 'alpha'"),
        ("more", 1, "/: has 'more', which this version does not know"),
        ("alpha", 0.2, "/digest: is .* altered"),
        ("exit_code", 0, None),
        ("notes/0", 7, "/notes/0: is the number 7, not text"),
        ("pairs/0/seed", "17", "/pairs/0/seed: is text, not an integer or null"),
        ("pairs/0/tags", [1], "/pairs/0/tags/0: is the number 1, not text"),
        ("checks/0/verdict", "better", "/checks/0/verdict: is 'better'"),
        ("checks/0/p", "0.5", "/checks/0/p: is text, not an integer or"),
        ("checks/0/interval", [0.5], "/checks/0/interval: has 1 limits, not two"),
        ("checks/0/interval", [0.5, "1"], "/checks/0/interval/1: is text"),
        ("checks/0/table/passed/failed", 0.5, "/checks/0/table/passed/failed: is the number 0.5"),
        ("checks/0/table/passed", {}, "/checks/0/table/passed: has no 'passed'"),
        ("checks/0/outcomes/baseline", "px", "/checks/0/outcomes: the baseline has 2 outcomes"),
        ("checks/0/baseline_rate/total", None, "/checks/0/baseline_rate/total: is null"),
        ("reward/pairs", True, "/reward/pairs: is true"),
        ("reward/disagreements/0/check", 1, "/reward/disagreements/0/check: is the number 1"),
    ],
)
def test_what_does_not_fit_is_named(
    comparison: Comparison, place: str, value: Any, message: str | None
) -> None:
    changed = change(comparison.to_dict(), place, value)
    if message is None:  # derived: what is read is made anew
        assert Comparison.from_dict(changed) == comparison
        return
    with pytest.raises(ValueError, match=message):
        Comparison.from_dict(changed)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "bad.json: "),
        ("[]", "bad.json: /: is an array, not an object"),
        ('{"schema": "envbench.comparison/v1", "schema": "x"}', "bad.json: .*schema"),
    ],
)
def test_a_file_that_is_none_is_named(tmp_path: Any, content: str, message: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        Comparison.load_json(path)
