from __future__ import annotations

import pytest

from envbench.comparison import WORDS, Outcomes


def test_words_are_given_pair_by_pair() -> None:
    outcomes = Outcomes(b"pfue-", b"fpeu-")
    assert list(outcomes) == [
        ("passed", "failed"),
        ("failed", "passed"),
        ("unknown", "error"),
        ("error", "unknown"),
        ("unmatched", "unmatched"),
    ]
    assert (len(outcomes), outcomes[-2], outcomes[1:3]) == (
        5,
        ("error", "unknown"),
        Outcomes(b"fu", b"pe"),
    )


def test_made_of_words_they_are_the_same() -> None:
    pairs = [(before, after) for before in WORDS for after in WORDS]
    outcomes = Outcomes.of(pairs)
    assert outcomes == tuple(pairs)
    assert outcomes == Outcomes(outcomes.baseline, outcomes.candidate)
    assert outcomes != Outcomes(outcomes.candidate, outcomes.baseline)
    assert hash(outcomes) == hash(Outcomes.of(list(outcomes)))


def test_letters_are_arrays_to_count_with() -> None:
    before, after = Outcomes(b"ppf", b"pf-").letters()
    assert (before.tolist(), after.tolist()) == ([112, 112, 102], [112, 102, 45])


@pytest.mark.parametrize(
    ("sides", "message"),
    [
        ((b"pp", b"p"), "the baseline has 2 outcomes and the candidate 1"),
        ((b"px", b"pp"), "one of the letters 'pfue-', not b'x'"),
    ],
)
def test_what_is_no_outcome_is_refused(sides: tuple[bytes, bytes], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Outcomes(*sides)


def test_a_word_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="'skipped' is no outcome"):
        Outcomes.of([("passed", "skipped")])  # type: ignore[list-item]
