from __future__ import annotations

import subprocess
import sys
from typing import Any

import gymnasium
import pytest

from envbench.capture import EpisodeCaptureWrapper
from envbench.checks import OutcomeCheck, OutcomeVerdict, SqlCheck, evaluate, evaluate_episode
from envbench.evidence import EpisodeEvidence
from envbench.store import connect

PASSES = OutcomeCheck("passes", "v1", lambda _: OutcomeVerdict(True, "Always", {}))
ROWS = "SELECT episode_id, true AS passed, 'r' AS reason, NULL AS evidence FROM episodes"


class TestEvaluateEpisode:
    def test_gives_one_result_a_check(self, make_episode: Any, fixed_check: Any) -> None:
        episode = make_episode("invoice-17")
        checks = [
            fixed_check({episode.episode_id: True}, "posted_once", "v3"),
            fixed_check({episode.episode_id: None}, "vendors_kept", "v1"),
        ]
        report = evaluate_episode(episode, checks, name="ledger")
        assert report.name == "ledger"
        assert [(row.check, row.version, row.passed) for row in report.results] == [
            ("posted_once", "v3", True),
            ("vendors_kept", "v1", None),
        ]

    def test_keeps_what_a_decision_needs_of_the_episode(self, make_episode: Any) -> None:
        first = make_episode("invoice-17")
        episode = make_episode(
            "invoice-17",
            source_id="document-17",
            tags=("eu", "large"),
            ending="error",
            seed=3,
            repeat=2,
            previous=first,
        )
        (row,) = evaluate_episode(episode, [PASSES]).episodes
        assert row.to_dict() == {
            "episode_id": episode.episode_id,
            "case_id": "invoice-17",
            "case_digest": episode.case.digest,
            "source_id": "document-17",
            "tags": ["eu", "large"],
            "seed": 3,
            "repeat": 2,
            "previous": first.episode_id,
            "ending": "error",
            "coverage_issues": [
                "step at step 1: ConnectionError: the counter was switched off",
                "ending: error, where the case expects terminated",
            ],
            "digest": episode.digest,
        }

    def test_a_coverage_issue_with_a_lone_surrogate_is_written_out(self, make_episode: Any) -> None:
        error = {"phase": "interaction", "type": "ValueError", "message": "\ud800", "step": None}
        report = evaluate_episode(make_episode(errors=[error]), [PASSES])
        assert report.coverage_issues[0].endswith(r"): interaction: ValueError: \ud800")

    @pytest.mark.parametrize("episode", [None, {}, "id", [1]])
    def test_refuses_what_is_no_episode(self, episode: Any) -> None:
        with pytest.raises(TypeError, match="episode must be EpisodeEvidence, not "):
            evaluate_episode(episode, [PASSES])

    def test_a_sql_check_needs_no_store(self, make_episode: Any) -> None:
        report = evaluate_episode(make_episode(), [SqlCheck("sql", "v1", ROWS)])
        assert report.results[0].passed is True


class TestChecks:
    @pytest.mark.parametrize(
        ("checks", "error", "message"),
        [
            ([], ValueError, "checks must hold at least one check"),
            ([PASSES, PASSES], ValueError, "two are called 'passes'"),
            ([PASSES, SqlCheck("passes", "v2", ROWS)], ValueError, "two are called 'passes'"),
            (PASSES, TypeError, r"checks must be a list of checks; put \[ \] around 'passes'"),
            (3, TypeError, "checks must be a list, not int"),
            ([PASSES, print], TypeError, r"checks\[1\] must be an OutcomeCheck or a SqlCheck"),
            (["passes"], TypeError, r"checks\[0\] must be an OutcomeCheck or a SqlCheck, not str"),
        ],
    )
    def test_are_refused_with_what_is_wrong(
        self, make_episode: Any, checks: Any, error: type[Exception], message: str
    ) -> None:
        with pytest.raises(error, match=message):
            evaluate_episode(make_episode(), checks)

    def test_may_come_from_a_generator(self, make_episode: Any) -> None:
        report = evaluate([make_episode("a"), make_episode("b")], (c for c in [PASSES]))
        assert [row.passed for row in report.results] == [True, True]

    def test_are_refused_before_any_episode_is_read(self) -> None:
        def episodes() -> Any:
            raise AssertionError("read")
            yield

        with pytest.raises(ValueError, match="at least one check"):
            evaluate(episodes(), [])

    def test_the_name_of_the_report_is_not_blank(self, make_episode: Any) -> None:
        with pytest.raises(ValueError, match="name must not be blank"):
            evaluate_episode(make_episode(), [PASSES], name="")


class TestEvaluate:
    def test_a_list_and_its_store_are_judged_alike(
        self, make_episode: Any, fixed_check: Any
    ) -> None:
        episodes = [make_episode(f"case-{i}") for i in range(3)]
        outcomes = [True, False, None]
        check = fixed_check(
            {episode.episode_id: o for episode, o in zip(episodes, outcomes, strict=True)}
        )
        checks = [check, SqlCheck("sql", "v1", ROWS)]
        with connect(":memory:") as store:
            for episode in episodes:
                store.add(episode)
            stored = evaluate(store, checks)
            selected = evaluate(store.episodes("case_id <> 'case-1'"), checks)
        listed = evaluate(episodes, checks)
        assert stored.results == listed.results
        assert stored.episodes == listed.episodes
        assert stored.lock == listed.lock
        assert [row.case_id for row in selected.episodes] == ["case-0", "case-2"]
        assert selected.results == stored.results[:2] + stored.results[4:]

    def test_results_are_in_order_of_episodes_and_then_checks(self, make_episode: Any) -> None:
        episodes = [make_episode("b"), make_episode("a")]
        checks = [SqlCheck("z", "v1", ROWS), PASSES]
        assert [(row.case_id, row.check) for row in evaluate(episodes, checks).results] == [
            ("b", "z"),
            ("b", "passes"),
            ("a", "z"),
            ("a", "passes"),
        ]

    def test_no_episode_makes_an_empty_report(self) -> None:
        report = evaluate([], [PASSES, SqlCheck("sql", "v1", ROWS)])
        assert (report.episodes, report.results) == ((), ())
        with connect(":memory:") as store:
            assert evaluate(store, [PASSES]).results == ()

    def test_an_episode_twice_is_an_error_that_names_it(self, make_episode: Any) -> None:
        episode = make_episode()
        again = EpisodeEvidence.from_dict(episode.to_dict())
        with pytest.raises(ValueError, match=f"episode {episode.episode_id} is there twice"):
            evaluate([episode, make_episode(), again], [PASSES])

    @pytest.mark.parametrize(
        ("episodes", "message"),
        [
            (None, "episodes must be a store or a list of EpisodeEvidence, not NoneType"),
            ("evidence.duckdb", r"not str; a file is opened with envbench\.connect\(path\)"),
            (b"evidence.duckdb", r"not bytes; a file is opened with envbench\.connect\(path\)"),
            ([{"episode_id": "x"}], r"episodes\[0\] must be EpisodeEvidence, not dict"),
        ],
    )
    def test_refuses_what_is_no_episode(self, episodes: Any, message: str) -> None:
        with pytest.raises(TypeError, match=message):
            evaluate(episodes, [PASSES])

    def test_a_single_episode_is_pointed_to_the_other_function(self, make_episode: Any) -> None:
        with pytest.raises(TypeError, match=r"for one use evaluate_episode\(\.\.\.\)"):
            evaluate(make_episode(), [PASSES])

    def test_reads_one_episode_at_a_time(self, make_episode: Any) -> None:
        events: list[str] = []

        def episodes() -> Any:
            for name in ("a", "b"):
                events.append(f"read {name}")
                yield make_episode(name)

        def fn(episode: EpisodeEvidence) -> OutcomeVerdict:
            events.append(f"judge {episode.case.case_id}")
            return OutcomeVerdict(True, "", {})

        evaluate(episodes(), [OutcomeCheck("check", "v1", fn)])
        assert events == ["read a", "judge a", "read b", "judge b"]

    def test_an_interrupt_leaves_the_store_usable(self, make_episode: Any) -> None:
        def interrupts(_: EpisodeEvidence) -> OutcomeVerdict:
            raise KeyboardInterrupt

        with connect(":memory:") as store:
            store.add(make_episode())
            with pytest.raises(KeyboardInterrupt):
                evaluate(store, [OutcomeCheck("check", "v1", interrupts)])
            assert len(evaluate(store, [PASSES]).results) == 1


def test_episodes_still_on_their_way_to_the_store_are_judged(tmp_path: Any) -> None:
    with connect(tmp_path / "e.duckdb") as store:
        env = EpisodeCaptureWrapper(gymnasium.make("CartPole-v1"), exporter=store)
        for seed in range(5):
            env.reset(seed=seed)
            terminated = False
            while not terminated:
                _, _, terminated, _, _ = env.step(0)
        assert len(evaluate(store, [PASSES]).episodes) == 5
        env.close()


def test_importing_brings_in_no_frames_and_no_charts() -> None:
    code = (
        "import sys, envbench.checks; "
        "print(sorted({'pandas', 'polars', 'altair', 'IPython', 'duckdb'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
