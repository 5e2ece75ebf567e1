from __future__ import annotations

from envbench.checks import JudgedEpisode
from envbench.checks.attempts import Attempts


def attempt(
    id_: str, previous: str | None = None, case: str = "a", digest: str = "00"
) -> JudgedEpisode:
    return JudgedEpisode(id_, case, digest, None, (), 1, 0, previous, "terminated", (), "ff")


def ids(episodes: tuple[JudgedEpisode, ...]) -> list[str]:
    return [episode.episode_id for episode in episodes]


def sort(*episodes: JudgedEpisode) -> dict[str, list[str]]:
    """Where each episode was put; what is empty is left out."""
    found = Attempts.of(episodes)
    names = ("final", "superseded", "foreign", "orphans", "looped")
    return {name: ids(getattr(found, name)) for name in names if getattr(found, name)}


def test_episodes_without_links_are_all_final() -> None:
    assert sort(attempt("1"), attempt("2")) == {"final": ["1", "2"]}


def test_no_episode() -> None:
    assert sort() == {}


def test_a_chain_has_one_last_attempt() -> None:
    chain = attempt("1"), attempt("2", "1"), attempt("3", "2")
    assert sort(*chain) == {"final": ["3"], "superseded": ["1", "2"]}
    assert sort(*chain[::-1]) == {"final": ["3"], "superseded": ["2", "1"]}


def test_a_fork_has_two() -> None:
    assert sort(attempt("1"), attempt("2", "1"), attempt("3", "1")) == {
        "final": ["2", "3"],
        "superseded": ["1"],
    }


def test_a_chain_whose_middle_is_missing_is_two_chains() -> None:
    assert sort(attempt("1"), attempt("3", "2")) == {"final": ["1", "3"], "orphans": ["3"]}


def test_another_case_supersedes_nothing() -> None:
    assert sort(attempt("1"), attempt("2", "1", case="b")) == {
        "final": ["1", "2"],
        "foreign": ["2"],
    }


def test_another_definition_supersedes_nothing() -> None:
    assert sort(attempt("1"), attempt("2", "1", digest="11")) == {
        "final": ["1", "2"],
        "foreign": ["2"],
    }


def test_a_loop_supersedes_nothing() -> None:
    assert sort(attempt("1", "2"), attempt("2", "1"), attempt("3")) == {
        "final": ["1", "2", "3"],
        "looped": ["1", "2"],
    }


def test_an_episode_that_names_itself_is_a_loop() -> None:
    assert sort(attempt("1", "1")) == {"final": ["1"], "looped": ["1"]}


def test_a_loop_behind_a_chain_is_followed_once() -> None:
    assert sort(attempt("1", "2"), attempt("2", "1"), attempt("3", "2")) == {
        "final": ["3"],
        "superseded": ["1", "2"],
    }


def test_a_long_chain_needs_no_recursion() -> None:
    chain = [attempt("0"), *(attempt(str(i), str(i - 1)) for i in range(1, 5_000))]
    assert ids(Attempts.of(chain).final) == ["4999"]
