from __future__ import annotations

import copy
from typing import Any

import pytest

from envbench.checks import Lock, Report, evaluate


def lock(*episodes: Any, fixed_check: Any, version: str = "v1", names: Any = ("posted",)) -> Lock:
    outcomes = {episode.episode_id: True for episode in episodes}
    return evaluate(episodes, [fixed_check(outcomes, name, version) for name in names]).lock


@pytest.fixture
def lock_of(fixed_check: Any) -> Any:
    """Make the lock of a report of episodes."""

    def make(*episodes: Any, **arguments: Any) -> Lock:
        return lock(*episodes, fixed_check=fixed_check, **arguments)

    return make


@pytest.mark.parametrize(
    ("part", "changed", "ours", "theirs"),
    [
        ("observer_id", {"observer_id": "other-v1"}, "counter-readonly-v1", "other-v1"),
        ("observer_id", {"observer_id": None}, "counter-readonly-v1", None),
        ("gymnasium_version", {"gymnasium_version": "1.3.0"}, "1.4.0", "1.3.0"),
        ("seed", {"seed": 18}, 17, 18),
        ("seed", {"seed": None}, 17, None),
        ("max_steps", {"max_steps": 21}, 20, 21),
        ("max_steps", {"max_steps": None}, 20, None),
        ("options", {"options": {"x": 1}}, None, {"x": 1}),
        ("environment_id", {"environment_id": "counter-v2"}, "counter-v1", "counter-v2"),
        ("environment_version", {"environment_version": "2"}, None, "2"),
        ("environment_fingerprint", {"environment_fingerprint": "f00"}, None, "f00"),
        ("agent_id", {"agent_id": "robot"}, None, "robot"),
    ],
)
def test_each_part_that_differs_is_named_with_both_values(
    make_episode: Any, lock_of: Any, part: str, changed: dict[str, Any], ours: Any, theirs: Any
) -> None:
    first, second = lock_of(make_episode()), lock_of(make_episode(**changed))
    assert first.diff(second) == [(part, ours, theirs)]
    (difference,) = first.diff(second)
    assert (difference.part, difference.ours, difference.theirs) == (part, ours, theirs)
    assert second.diff(first) == [(part, theirs, ours)]


def test_a_space_that_differs_is_shown_whole(make_episode: Any, lock_of: Any) -> None:
    ((part, ours, theirs),) = lock_of(make_episode()).diff(lock_of(make_episode(actions=5)))
    assert (part, ours["action"]["repr"], theirs["action"]["repr"]) == (
        "spaces",
        "Discrete(4)",
        "Discrete(5)",
    )


def test_a_case_redefined_is_the_part_case(make_episode: Any, lock_of: Any) -> None:
    first = make_episode()
    second = make_episode(case_input="Count to two")
    assert lock_of(first).diff(lock_of(second)) == [("case", first.case.digest, second.case.digest)]


def test_equal_settings_differ_in_nothing(make_episode: Any, lock_of: Any) -> None:
    assert lock_of(make_episode()).diff(lock_of(make_episode())) == []
    assert lock_of(make_episode()) == lock_of(make_episode())


def test_check_versions_and_names(make_episode: Any, lock_of: Any) -> None:
    episode = make_episode()
    ours = lock_of(episode, names=("kept", "old"))
    assert ours.diff(lock_of(episode, names=("kept", "old"), version="v2")) == [
        ("checks", {"kept": "v1", "old": "v1"}, {"kept": "v2", "old": "v2"})
    ]
    assert ours.diff(lock_of(episode, names=("kept", "new"))) == [
        ("checks", {"old": "v1"}, {"new": "v1"})
    ]


def test_the_order_of_checks_and_episodes_does_not_matter(make_episode: Any, lock_of: Any) -> None:
    a, b = make_episode("a", seed=None), make_episode("b")
    assert lock_of(a, b, names=("x", "y")) == lock_of(b, a, names=("y", "x"))


def test_one_and_true_and_one_point_zero_are_three_values(make_episode: Any, lock_of: Any) -> None:
    locks = [lock_of(make_episode(options={"x": value})) for value in (1, True, 1.0)]
    for i, ours in enumerate(locks):
        assert [j for j, theirs in enumerate(locks) if ours.diff(theirs) == []] == [i]


def test_the_order_of_keys_does_not_matter(make_episode: Any, lock_of: Any) -> None:
    first = lock_of(make_episode(options={"x": 1, "y": 2}))
    assert first.diff(lock_of(make_episode(options={"y": 2, "x": 1}))) == []


def test_cases_with_different_seeds_are_not_a_difference(make_episode: Any, lock_of: Any) -> None:
    def run() -> Lock:
        return lock_of(make_episode("a", seed=1), make_episode("b", seed=2))

    assert run().diff(run()) == []


def test_seeds_swapped_between_cases_are_a_difference(make_episode: Any, lock_of: Any) -> None:
    ours = lock_of(make_episode("a", seed=1), make_episode("b", seed=2))
    theirs = lock_of(make_episode("a", seed=2), make_episode("b", seed=1))
    assert ours.diff(theirs) == [("seed", {"a": 1, "b": 2}, {"a": 2, "b": 1})]


def test_only_the_cases_that_differ_are_listed(make_episode: Any, lock_of: Any) -> None:
    ours = lock_of(make_episode("a"), make_episode("b"), make_episode("c"))
    theirs = lock_of(make_episode("a"), make_episode("b", max_steps=30), make_episode("c"))
    assert ours.diff(theirs) == [("max_steps", {"b": 20}, {"b": 30})]


def test_seeds_of_one_case_are_a_list(make_episode: Any, lock_of: Any) -> None:
    ours = lock_of(*(make_episode(seed=seed) for seed in (9, 10, 1)))
    theirs = lock_of(*(make_episode(seed=seed) for seed in (1, 9)))
    assert ours.diff(theirs) == [("seed", [1, 9, 10], [1, 9])]


def test_versions_swapped_between_the_seeds_of_a_case_are_a_difference(
    make_episode: Any, lock_of: Any
) -> None:
    ours = lock_of(
        make_episode(seed=1, environment_version="1"), make_episode(seed=2, environment_version="2")
    )
    theirs = lock_of(
        make_episode(seed=1, environment_version="2"), make_episode(seed=2, environment_version="1")
    )
    assert ours.diff(theirs) == [
        (
            "environment_version",
            {"case-1 (seed 1, repeat 0)": "1", "case-1 (seed 2, repeat 0)": "2"},
            {"case-1 (seed 1, repeat 0)": "2", "case-1 (seed 2, repeat 0)": "1"},
        )
    ]


def test_a_case_of_only_one_report_is_listed_and_the_others_compared(
    make_episode: Any, lock_of: Any
) -> None:
    ours = lock_of(make_episode("a"), make_episode("b", max_steps=5))
    theirs = lock_of(make_episode("a", agent_id="robot"), make_episode("c"))
    assert ours.diff(theirs) == [("cases", ["b"], ["c"]), ("agent_id", None, "robot")]


def test_reports_without_a_common_case_are_compared_as_wholes(
    make_episode: Any, lock_of: Any
) -> None:
    ours = lock_of(make_episode("a"), make_episode("b", max_steps=5))
    theirs = lock_of(make_episode("c", agent_id="robot"))
    assert ours.diff(theirs) == [
        ("cases", ["a", "b"], ["c"]),
        ("max_steps", [5, 20], 20),
        ("agent_id", None, "robot"),
    ]


def test_an_empty_report_lacks_every_case(
    make_episode: Any, lock_of: Any, fixed_check: Any
) -> None:
    empty = evaluate([], [fixed_check({}, "posted")]).lock
    assert empty.diff(lock_of(make_episode("a"))) == [("cases", [], ["a"])]
    assert empty.diff(empty) == []


def test_attempts_at_one_trial_share_its_row(make_episode: Any, lock_of: Any) -> None:
    first = make_episode()
    assert lock_of(first, make_episode(previous=first)).diff(lock_of(make_episode())) == []


def test_refuses_another_type(make_episode: Any, lock_of: Any) -> None:
    with pytest.raises(TypeError, match="other must be a Lock, not Report"):
        lock_of(make_episode()).diff(object.__new__(Report))


class TestFile:
    def test_comes_back_equal(self, make_episode: Any, lock_of: Any) -> None:
        ours = lock_of(
            make_episode("a", seed=None, options={"x": [1, 2.5, None, 2**70]}),
            make_episode("b", environment_version="2", repeat=3),
            make_episode("b", seed=2**80, max_steps=None),
        )
        assert Lock.from_dict(ours.to_dict()) == ours

    @pytest.mark.parametrize("options", [[1], "text", 3, 1.5, True, {"$envbench": "x"}])
    def test_options_may_be_any_json(self, make_episode: Any, lock_of: Any, options: Any) -> None:
        saved = lock_of(make_episode()).to_dict()
        saved["settings"][0]["options"] = options
        assert Lock.from_dict(saved).to_dict() == saved

    @pytest.mark.parametrize(
        ("path", "value", "message"),
        [
            (("schema",), "envbench.lock/v9", "^/lock/schema: is 'envbench.lock/v9'; this version"),
            (("more",), 1, "^/lock: has 'more', which this version does not know"),
            (("checks", "posted"), 1, "^/lock/checks/posted: is the number 1, not text"),
            (("settings", 0, "max_steps"), 2.5, "^/lock/settings/0/max_steps: is the number 2.5"),
            (("settings", 0, "max_steps"), True, "^/lock/settings/0/max_steps: is true"),
            (("trials", 0, "seed"), "17", "^/lock/trials/0/seed: is text, not an integer or null"),
            (("trials", 0, "setting"), 7, "^/lock/trials/0/setting: there is no setting 7"),
            (("trials", 0, "setting"), -1, "^/lock/trials/0/setting: there is no setting -1"),
            (("trials",), {}, "^/lock/trials: is an object, not an array"),
            (("trials",), [], "^/lock/trials: the rows are not sorted and distinct"),
        ],
    )
    def test_names_the_place_of_what_does_not_fit(
        self, make_episode: Any, lock_of: Any, path: tuple[Any, ...], value: Any, message: str
    ) -> None:
        saved = copy.deepcopy(lock_of(make_episode()).to_dict())
        target = saved
        for step in path[:-1]:
            target = target[step]
        target[path[-1]] = value
        with pytest.raises(ValueError, match=message):
            Lock.from_dict(saved, "/lock")
