from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from envbench.checks import AcceptancePolicy, CheckRequirement, Report, SliceRequirement

POSTED = CheckRequirement("posted")
FULL = AcceptancePolicy(
    (
        CheckRequirement("posted", 0.9, 20, 0.95),
        CheckRequirement("vendors_kept", critical=True),
    ),
    slices=(SliceRequirement("eu", 5, 0.8, 0.75),),
    min_cases=30,
    min_source_groups=3,
    max_error_rate=0.01,
    trial_scope="final_attempt",
)


class TestArguments:
    @pytest.mark.parametrize("argument", ["min_pass_rate", "min_coverage"])
    @pytest.mark.parametrize("kind", [CheckRequirement, SliceRequirement])
    @pytest.mark.parametrize("value", [-0.1, 1.1, math.nan, math.inf, np.float64("nan"), 90])
    def test_a_rate_out_of_range_is_named(self, kind: Any, argument: str, value: Any) -> None:
        with pytest.raises(ValueError, match=f"^{argument} must be from 0 to 1, not "):
            kind("x", **{argument: value})

    @pytest.mark.parametrize("argument", ["min_pass_rate", "min_coverage"])
    @pytest.mark.parametrize("kind", [CheckRequirement, SliceRequirement])
    @pytest.mark.parametrize("value", [True, "0.9", None, 0.5j, [1.0]])
    def test_a_rate_of_another_type_is_named(self, kind: Any, argument: str, value: Any) -> None:
        with pytest.raises(TypeError, match=f"^{argument} must be a number from 0 to 1, not "):
            kind("x", **{argument: value})

    @pytest.mark.parametrize("kind", [CheckRequirement, SliceRequirement])
    @pytest.mark.parametrize("value", [0, -1, np.int64(0)])
    def test_a_number_too_small_is_named(self, kind: Any, value: Any) -> None:
        with pytest.raises(ValueError, match=r"^min_cases must be at least 1, not "):
            kind("x", min_cases=value)

    @pytest.mark.parametrize("kind", [CheckRequirement, SliceRequirement])
    @pytest.mark.parametrize("value", [True, 1.0, "1", None])
    def test_a_number_of_another_type_is_named(self, kind: Any, value: Any) -> None:
        with pytest.raises(TypeError, match=r"^min_cases must be an integer, not "):
            kind("x", min_cases=value)

    @pytest.mark.parametrize(
        ("kind", "name"), [(CheckRequirement, "name"), (SliceRequirement, "tag")]
    )
    def test_a_name_is_not_blank(self, kind: Any, name: str) -> None:
        with pytest.raises(ValueError, match=f"^{name} must not be blank"):
            kind(" ")
        with pytest.raises(TypeError, match=f"^{name} must be text, not int"):
            kind(3)

    @pytest.mark.parametrize("value", [1, "yes", None])
    def test_critical_is_a_bool(self, value: Any) -> None:
        with pytest.raises(TypeError, match=r"^critical must be True or False, not "):
            CheckRequirement("x", critical=value)

    def test_numbers_of_numpy_become_plain(self) -> None:
        requirement = CheckRequirement("x", np.float32(0.5), np.int64(2), Fraction(1, 4))
        assert requirement == CheckRequirement("x", 0.5, 2, 0.25)
        assert type(requirement.min_pass_rate) is type(requirement.min_coverage) is float
        assert type(requirement.min_cases) is int

    @pytest.mark.parametrize(
        ("arguments", "error", "message"),
        [
            ({"checks": ()}, ValueError, "checks must hold at least one CheckRequirement"),
            ({"checks": POSTED}, TypeError, "checks must be a sequence of CheckRequirement"),
            ({"checks": "posted"}, TypeError, "checks must be a sequence of CheckRequirement"),
            ({"checks": ("posted",)}, TypeError, "checks must hold CheckRequirement only"),
            ({"checks": (POSTED, POSTED)}, ValueError, "'posted' is there twice"),
            (
                {"checks": (POSTED, CheckRequirement("posted", critical=True))},
                ValueError,
                "checks must have different names",
            ),
            ({"slices": (POSTED,)}, TypeError, "slices must hold SliceRequirement only"),
            (
                {"slices": (SliceRequirement("eu"), SliceRequirement("eu", 2))},
                ValueError,
                "slices must have different names, and 'eu' is there twice",
            ),
            ({"min_cases": 0}, ValueError, "min_cases must be at least 1, not 0"),
            ({"min_source_groups": -1}, ValueError, "min_source_groups must be at least 0"),
            ({"max_error_rate": 2}, ValueError, "max_error_rate must be from 0 to 1, not 2"),
            ({"max_error_rate": math.nan}, ValueError, "max_error_rate must be from 0 to 1"),
            ({"trial_scope": "last"}, ValueError, "trial_scope must be 'all_attempts' or"),
            ({"trial_scope": None}, ValueError, "trial_scope must be 'all_attempts' or"),
        ],
    )
    def test_of_a_policy_are_named(
        self, arguments: dict[str, Any], error: type[Exception], message: str
    ) -> None:
        with pytest.raises(error, match=message):
            AcceptancePolicy(**({"checks": (POSTED,)} | arguments))

    def test_lists_become_tuples_and_cannot_be_changed_later(self) -> None:
        checks = [POSTED]
        policy = AcceptancePolicy(checks, [SliceRequirement("eu")])
        checks.append(CheckRequirement("other"))
        assert policy.checks == (POSTED,)
        assert policy.slices == (SliceRequirement("eu"),)

    def test_defaults_are_strict(self) -> None:
        policy = AcceptancePolicy((POSTED,))
        assert (POSTED.min_pass_rate, POSTED.min_coverage, POSTED.critical) == (1.0, 1.0, False)
        assert (policy.max_error_rate, policy.trial_scope) == (0.0, "all_attempts")

    @pytest.mark.parametrize("report", [None, {}, "report.json"])
    def test_only_a_report_is_evaluated(self, report: Any) -> None:
        with pytest.raises(TypeError, match="report must be a Report, not "):
            AcceptancePolicy((POSTED,)).evaluate(report)


class TestFile:
    @pytest.mark.parametrize("policy", [FULL, AcceptancePolicy((POSTED,))])
    def test_comes_back_equal(self, policy: AcceptancePolicy, tmp_path: Path) -> None:
        policy.save_json(tmp_path / "policy.json")
        assert AcceptancePolicy.load_json(tmp_path / "policy.json") == policy
        assert AcceptancePolicy.from_dict(policy.to_dict()) == policy

    def test_is_plain_json(self) -> None:
        saved = json.loads(json.dumps(FULL.to_dict()))
        assert saved["checks"][1] == {
            "name": "vendors_kept",
            "min_pass_rate": 1.0,
            "min_cases": 1,
            "min_coverage": 1.0,
            "critical": True,
        }
        assert saved["schema"] == "envbench.policy/v1"
        assert saved["trial_scope"] == "final_attempt"

    def test_what_has_a_default_may_be_left_out(self) -> None:
        written = {"schema": "envbench.policy/v1", "checks": [{"name": "posted", "min_cases": 3}]}
        assert AcceptancePolicy.from_dict(written) == AcceptancePolicy(
            (CheckRequirement("posted", min_cases=3),)
        )

    def test_a_whole_number_is_a_rate(self) -> None:
        written = {"schema": "envbench.policy/v1", "checks": [{"name": "x", "min_pass_rate": 1}]}
        assert AcceptancePolicy.from_dict(written) == AcceptancePolicy((CheckRequirement("x"),))

    @pytest.mark.parametrize(
        ("path", "value", "message"),
        [
            (("schema",), "envbench.policy/v2", "/schema: is 'envbench.policy/v2'; this version"),
            (("chekcs",), [], "/: has 'chekcs', which this version does not know"),
            (("checks",), [], "/: checks must hold at least one CheckRequirement"),
            (("checks",), {}, "/checks: is an object, not an array"),
            (("checks", 0), "posted", "/checks/0: is text, not an object"),
            (("checks", 0, "min_rate"), 1.0, "/checks/0: has 'min_rate', which this version"),
            (("checks", 0, "min_pass_rate"), 1.5, "/checks/0: min_pass_rate must be from 0 to 1"),
            (("checks", 0, "min_pass_rate"), "1", "/checks/0/min_pass_rate: is text, not an inte"),
            (("checks", 0, "min_cases"), 1.0, "/checks/0/min_cases: is the number 1.0, not an"),
            (("checks", 1, "name"), "posted", "/: checks must have different names"),
            (("checks", 1, "critical"), "true", "/checks/1/critical: is text, not true or false"),
            (("slices", 0, "tag"), "", "/slices/0: tag must not be blank"),
            (("max_error_rate",), True, "/max_error_rate: is true, not an integer or a number"),
            (("trial_scope",), "last", "/: trial_scope must be 'all_attempts' or 'final_attempt'"),
        ],
    )
    def test_names_the_place_of_what_does_not_fit(
        self, path: tuple[Any, ...], value: Any, message: str
    ) -> None:
        saved = FULL.to_dict()
        target = saved
        for step in path[:-1]:
            target = target[step]
        target[path[-1]] = value
        with pytest.raises(ValueError, match=f"^{message}"):
            AcceptancePolicy.from_dict(saved)

    @pytest.mark.parametrize("missing", ["schema", "checks"])
    def test_what_has_no_default_is_required(self, missing: str) -> None:
        saved = FULL.to_dict()
        del saved[missing]
        with pytest.raises(ValueError, match=f"^/: has no '{missing}'"):
            AcceptancePolicy.from_dict(saved)

    @pytest.mark.parametrize(
        "content", ["", "[]", "{}", '{"schema": "envbench.policy/v1", "max_error_rate": NaN}']
    )
    def test_a_file_that_is_no_policy_is_named(self, tmp_path: Path, content: str) -> None:
        (tmp_path / "policy.json").write_text(content, encoding="utf-8")
        with pytest.raises(ValueError, match=r"policy\.json: "):
            AcceptancePolicy.load_json(tmp_path / "policy.json")

    def test_a_report_is_no_policy(self, make_episode: Any, report_of: Any) -> None:
        report: Report = report_of((make_episode(), True))
        with pytest.raises(ValueError, match=r"^/schema: is 'envbench.report/v1'; this version"):
            AcceptancePolicy.from_dict(report.to_dict())
