from __future__ import annotations

import copy
import dataclasses
import json
import pickle
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from envbench.changes import Forbid
from envbench.checks import (
    CheckResult,
    OutcomeCheck,
    OutcomeVerdict,
    Rate,
    Report,
    evaluate,
    no_forbidden_changes,
)
from envbench.evidence import EpisodeEvidence


@pytest.fixture
def report(make_episode: Any, fixed_check: Any) -> Report:
    """Two cases, two checks, one evaluator error, one coverage issue."""
    a = make_episode("a", tags=("eu",), source_id="s1")
    b = make_episode("b", ending="truncated", seed=None)
    posted = fixed_check({a.episode_id: True, b.episode_id: False}, "posted", "v1")
    kept = fixed_check({a.episode_id: None, b.episode_id: ValueError("broken")}, "kept", "v2")
    return evaluate([a, b], [posted, kept], name="two cases")


@pytest.fixture
def ten(make_episode: Any, report_of: Any) -> Report:
    """Ten cases: 6 True, 1 False, 1 None, 2 errored."""
    outcomes = [True] * 6 + [False, None, ValueError("x"), ValueError("y")]
    return report_of(*((make_episode(f"case-{i}"), o) for i, o in enumerate(outcomes)))


class TestRates:
    def test_count_everything(self, ten: Report) -> None:
        rate = ten.rates()["posted_once"]
        assert rate == Rate(passed=6, failed=1, unknown=1, errors=2, total=10)
        assert (rate.lower, rate.upper) == (0.6, 0.9)

    def test_are_never_shown_without_the_ten(self, ten: Report) -> None:
        assert str(ten.rates()["posted_once"]) == (
            "6 of 10 passed, 1 failed, 1 unknown, 2 errors: between 6/10 and 9/10"
        )
        assert "6/7" not in str(ten)

    def test_a_complete_one_needs_no_bounds(self) -> None:
        rate = Rate(passed=3, failed=1, unknown=0, errors=0, total=4)
        assert str(rate) == "3 of 4 passed, 1 failed"
        assert (rate.lower, rate.upper) == (0.75, 0.75)

    def test_of_no_episode_have_no_bounds(self, fixed_check: Any) -> None:
        rate = evaluate([], [fixed_check({})]).rates()["posted_once"]
        assert rate == Rate(0, 0, 0, 0, 0)
        assert (rate.lower, rate.upper) == (None, None)


class TestText:
    def test_says_what_was_found(self, report: Report) -> None:
        id_ = report.episodes[1].episode_id
        error = report.results[3].error
        assert error is not None
        assert error.startswith("ValueError: broken (line ")
        assert str(report) == repr(report)
        assert str(report).splitlines() == [
            f"Report 'two cases' ({report.report_id}): 2 episodes of 2 cases",
            "  posted  1 of 2 passed, 1 failed  [v1]",
            "  kept    0 of 2 passed, 0 failed, 1 unknown, 1 errors: between 0/2 and 2/2  [v2]",
            "  Failed:",
            "    posted, b: It is False",
            "  Unknown:",
            "    kept, a: It is None",
            "  Evaluator errors:",
            f"    kept, b: {error}",
            "  Coverage issues:",
            f"    b (episode {id_}): ending: truncated, where the case expects terminated",
        ]

    def test_an_unknown_without_a_reason_is_said_to_have_none(self, make_episode: Any) -> None:
        check = OutcomeCheck("posted", "v1", lambda _: OutcomeVerdict(None, "", {}))
        assert str(evaluate([make_episode("a")], [check])).splitlines()[2:] == [
            "  Unknown:",
            "    posted, a: no reason was given",
        ]

    def test_a_rule_about_a_path_that_is_not_there_says_so(self, make_episode: Any) -> None:
        check = no_forbidden_changes(Forbid("/custmers/**"))
        lines = str(evaluate([make_episode("a")], [check])).splitlines()
        assert lines[2] == "  Unknown:"
        assert 'Forbid("/custmers/**")' in lines[3]
        assert "no such path" in lines[3]

    def test_text_from_elsewhere_cannot_make_lines_or_move_the_cursor(
        self, make_episode: Any
    ) -> None:
        def fn(_: EpisodeEvidence) -> OutcomeVerdict:
            return OutcomeVerdict(False, "no\n  kept  1 of 1 passed \x1b[2J \u202e", {})

        report = evaluate([make_episode("a\nb")], [OutcomeCheck("posted", "v\t1", fn)])
        lines = str(report).split("\n")
        assert lines[1] == "  posted  0 of 1 passed, 1 failed  [v\\t1]"
        assert lines[3] == ("    posted, a\\nb: no\\n  kept  1 of 1 passed \\x1b[2J \\u202e")
        assert len(lines) == 4

    def test_is_short_for_many_failures(self, make_episode: Any) -> None:
        def fn(episode: EpisodeEvidence) -> OutcomeVerdict:
            return OutcomeVerdict(False, f"{episode.case.case_id} is wrong", {})

        episodes = [make_episode(f"case-{i}") for i in range(8)]
        report = evaluate(episodes, [OutcomeCheck("posted", "v1", fn)])
        assert str(report).splitlines()[-1] == "    … and 3 more"

    def test_what_is_alike_in_many_episodes_is_one_line(
        self, make_episode: Any, fixed_check: Any
    ) -> None:
        a = [make_episode(f"case-{i}") for i in range(4)]
        again = make_episode("case-0", repeat=1)
        late = make_episode("late", ending="truncated")
        episodes = [*a, again, late]
        ids = [episode.episode_id for episode in episodes]
        posted = fixed_check(dict(zip(ids, [False] * 6, strict=True)), "posted")
        kept = fixed_check(dict(zip(ids, [None] * 2 + [True] * 3 + [None], strict=True)), "kept")
        report = evaluate(episodes, [posted, kept])
        assert str(report).splitlines()[3:] == [
            "  Failed:",
            ("    posted: It is False (in 6 of 6 episodes: case-0, case-1, case-2 and 2 more)"),
            "  Unknown:",
            "    kept: It is None (in 3 of 6 episodes: case-0, case-1, late)",
            "  Coverage issues:",
            (
                f"    late (episode {late.episode_id}): "
                "ending: truncated, where the case expects terminated"
            ),
        ]
        assert len(report.to_dict()["results"]) == 12

    def test_coverage_issues_that_are_alike_are_one_line(
        self, make_episode: Any, report_of: Any
    ) -> None:
        report = report_of(*((make_episode(f"c{i}", ending="truncated"), True) for i in range(2)))
        assert str(report).splitlines()[-1] == (
            "    ending: truncated, where the case expects terminated (in 2 of 2 episodes: c0, c1)"
        )
        assert len(report.coverage_issues) == 2

    def test_one_is_not_many(self, make_episode: Any, report_of: Any) -> None:
        report = report_of((make_episode("a"), True))
        assert str(report).splitlines()[0].endswith(": 1 episode of 1 case")


def test_coverage_issues_name_case_and_episode(report: Report) -> None:
    assert report.coverage_issues == [
        (
            f"b (episode {report.episodes[1].episode_id}): "
            "ending: truncated, where the case expects terminated"
        )
    ]


class TestFrame:
    def test_has_one_row_a_result(self, report: Report) -> None:
        frame = report.frame()
        assert frame.columns == [
            "case_id",
            "episode_id",
            "check",
            "version",
            "passed",
            "reason",
            "evidence",
            "error",
        ]
        assert frame.select("case_id", "check", "passed", "error").rows() == [
            ("a", "posted", True, None),
            ("a", "kept", None, None),
            ("b", "posted", False, None),
            ("b", "kept", None, report.results[3].error),
        ]
        assert frame["evidence"][0] == '{"outcome":true}'

    def test_of_an_empty_report_has_its_types(self, fixed_check: Any) -> None:
        frame = evaluate([], [fixed_check({})]).frame()
        assert frame.height == 0
        assert frame.schema["passed"] == pl.Boolean
        assert frame.schema["error"] == pl.String


class TestFile:
    def test_comes_back_equal(self, report: Report, tmp_path: Path) -> None:
        path = tmp_path / "report.json"
        report.save_json(path)
        back = Report.load_json(path)
        assert back == report
        assert back.to_dict() == report.to_dict()
        assert back.results == report.results
        assert hash(back) == hash(report)

    def test_an_empty_report_comes_back_equal(self, fixed_check: Any, tmp_path: Path) -> None:
        report = evaluate([], [fixed_check({})])
        report.save_json(tmp_path / "report.json")
        assert Report.load_json(tmp_path / "report.json") == report

    def test_is_json_that_any_program_reads(self, report: Report, tmp_path: Path) -> None:
        report.save_json(str(tmp_path / "report.json"))
        saved = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
        assert saved["schema"] == "envbench.report/v1"
        assert saved["results"][0] == {
            "case_id": "a",
            "episode_id": report.episodes[0].episode_id,
            "check": "posted",
            "version": "v1",
            "passed": True,
            "reason": "It is True",
            "evidence": {"outcome": True},
            "error": None,
        }

    def test_reports_made_apart_are_not_equal(self, make_episode: Any, report_of: Any) -> None:
        episode = make_episode()
        assert report_of((episode, True)) != report_of((episode, True))

    def test_survives_copy_and_pickle(self, report: Report) -> None:
        assert copy.deepcopy(report) == report
        assert pickle.loads(pickle.dumps(report)) == report

    @pytest.mark.parametrize(
        ("path", "value", "message"),
        [
            (("schema",), "multivon.report/v1", "/schema: is 'multivon.report/v1'; this version"),
            (("schema",), None, "/schema: is None; this version"),
            (("note",), "x", "/: has 'note', which this version does not know"),
            (("report_id",), 7, "/report_id: is the number 7, not text"),
            (("created_at",), "yesterday", "/created_at: 'yesterday' is not a time in UTC"),
            (
                ("created_at",),
                "2026-11-30T12:00:00.000000+01:00",
                "/created_at: '2026-11-30T12:00:00.000000\\+01:00' is not a time in UTC",
            ),
            (
                ("created_at",),
                "2026-11-30T12:00:00+00:00",
                "/created_at: .* is not a time in UTC with micro",
            ),
            (("checks",), [], "/checks: is empty"),
            (("checks", 0), {"name": "posted"}, "/checks/0: has no 'version'"),
            (("checks", 1, "name"), "posted", "/checks: name 'posted' is there 2 times"),
            (("episodes", 0), None, "/episodes/0: is null, not an object"),
            (("episodes", 0, "tags"), "eu", "/episodes/0/tags: is text, not an array"),
            (("episodes", 0, "tags"), ["eu", 1], "/episodes/0/tags/1: is the number 1, not text"),
            (("episodes", 0, "seed"), True, "/episodes/0/seed: is true, not an integer or null"),
            (("episodes", 0, "seed"), 17.0, "/episodes/0/seed: is the number 17.0, not an integer"),
            (("episodes", 1, "seed"), 4, "/lock/trials: are not those of the report's episodes"),
            (("results", 0, "passed"), 1, "/results/0/passed: is the number 1, not true or false"),
            (("results", 0, "passed"), "true", "/results/0/passed: is text, not true or false"),
            (("results", 3, "passed"), True, "/results/3/passed: a check that failed has no"),
            (("results", 0, "check"), "kept", "/results/0/check: is 'kept', and 'posted' is due"),
            (("results", 0, "version"), "v0", "/results/0/version: is 'v0', and 'v1' is due here"),
            (("results", 0, "case_id"), "b", "/results/0/case_id: is 'b', and 'a' is due here"),
            (("results", 0, "evidence"), [], "/results/0/evidence: is an array, not an object"),
            (("lock", "checks", "posted"), "v9", "/lock/checks: are not the checks of the report"),
            (("lock", "trials", 0, "setting"), 5, "/lock/trials/0/setting: there is no setting 5"),
            (("digest",), "00", "/digest: is 00, and the content has [0-9a-f]{64}: the report was"),
        ],
    )
    def test_names_the_place_of_what_does_not_fit(
        self, report: Report, path: tuple[Any, ...], value: Any, message: str
    ) -> None:
        saved = report.to_dict()
        target = saved
        for step in path[:-1]:
            target = target[step]
        target[path[-1]] = value
        with pytest.raises(ValueError, match=f"^{message}"):
            Report.from_dict(saved)

    @pytest.mark.parametrize(
        ("path", "value"),
        [
            (("results", 2, "passed"), True),
            (("results", 2, "reason"), "It is fine"),
            (("results", 0, "evidence", "outcome"), 1),
            (("episodes", 1, "coverage_issues"), []),
            (("episodes", 1, "tags"), ["eu"]),
            (("episodes", 1, "previous"), "x"),
            (("name",), "three cases"),
            (("lock", "settings", 0, "max_steps"), 21),
        ],
    )
    def test_an_alteration_that_fits_the_schema_is_seen(
        self, report: Report, path: tuple[Any, ...], value: Any
    ) -> None:
        saved = report.to_dict()
        target = saved
        for step in path[:-1]:
            target = target[step]
        assert target[path[-1]] != value or type(target[path[-1]]) is not type(value)
        target[path[-1]] = value
        with pytest.raises(ValueError, match=r"^/digest: .*altered after it was saved"):
            Report.from_dict(saved)

    @pytest.mark.parametrize("missing", [0, 2, -1])
    def test_a_result_cannot_be_left_out(self, report: Report, missing: int) -> None:
        saved = report.to_dict()
        del saved["results"][missing]
        with pytest.raises(ValueError, match=r"^/results"):
            Report.from_dict(saved)

    def test_an_episode_cannot_be_left_out(self, report: Report) -> None:
        saved = report.to_dict()
        del saved["episodes"][1], saved["results"][2:]
        with pytest.raises(ValueError, match=r"^/lock/trials: are not those"):
            Report.from_dict(saved)

    def test_a_result_cannot_be_there_twice(self, report: Report) -> None:
        saved = report.to_dict()
        saved["results"].append(saved["results"][0])
        with pytest.raises(ValueError, match=r"^/results: 5 are there, and 2 checks of 2 episodes"):
            Report.from_dict(saved)

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("", "report.json: "),
            ("[]", "report.json: /: is an array, not an object"),
            ("{}", "report.json: /: has no 'schema', 'report_id'"),
            ('{"schema": "envbench.report/v1", "schema": "x"}', "key 'schema' appears twice"),
            ('{"a": NaN}', "report.json: "),
            ("{", "report.json: "),
        ],
    )
    def test_a_file_that_is_no_report_is_named(
        self, tmp_path: Path, content: str, message: str
    ) -> None:
        path = tmp_path / "report.json"
        path.write_text(content, encoding="utf-8")
        with pytest.raises(ValueError, match=message):
            Report.load_json(path)

    def test_a_missing_file_is_an_oserror(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError):
            Report.load_json(tmp_path / "none.json")


class TestConstruction:
    """However a report is made, it is complete or refused."""

    def test_a_number_is_no_verdict(self, report: Report) -> None:
        first = dataclasses.replace(report.results[0], passed=1)
        with pytest.raises(ValueError, match=r"^/results/0/passed: is the number 1"):
            remade(report, results=(first, *report.results[1:]))

    def test_an_error_with_a_verdict_is_refused(self, report: Report) -> None:
        last: CheckResult = dataclasses.replace(report.results[3], passed=True)
        with pytest.raises(ValueError, match=r"^/results/3/passed: a check that failed has no"):
            remade(report, results=(*report.results[:3], last))

    def test_an_episode_twice_is_refused(self, report: Report) -> None:
        with pytest.raises(ValueError, match=r"^/episodes: episode_id '.*' is there 2 times"):
            remade(
                report,
                episodes=report.episodes + report.episodes[:1],
                results=report.results + report.results[:2],
            )

    def test_cannot_be_changed(self, report: Report) -> None:
        with pytest.raises(dataclasses.FrozenInstanceError):
            report.results = ()


def remade(report: Report, **changed: Any) -> Report:
    fields = {
        field.name: getattr(report, field.name)
        for field in dataclasses.fields(report)
        if field.init
    }
    return Report(**(fields | changed))
