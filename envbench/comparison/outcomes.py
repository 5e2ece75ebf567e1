"""The outcomes of one check over all pairs, kept as one letter a side and pair."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias, overload

import numpy as np

Word: TypeAlias = Literal["passed", "failed", "unknown", "error", "unmatched"]
"""What a check came to on one side of a pair; `unmatched` when that side has no result."""

WORDS: tuple[Word, ...] = ("passed", "failed", "unknown", "error", "unmatched")
LETTERS = b"pfue-"
"""The letter of each word, in the same order: how files keep them."""

PASSED, FAILED, UNKNOWN, ERROR, UNMATCHED = LETTERS


class Outcomes(Sequence[tuple[Word, Word]]):
    """The outcomes of one check, pair by pair: a sequence of `(baseline word, candidate word)`.

    Two letters a pair are kept, and words are made when they are asked for, because a comparison
    of 10,000 pairs by 20 checks would else hold 200,000 tuples that nobody reads.

    Args:
        baseline: one of `LETTERS` a pair.
        candidate: the same of the other side, of the same length.

    Raises:
        ValueError: when the lengths differ or there is another letter.

    Example:
        >>> list(Outcomes(b"pf", b"p-"))
        [('passed', 'passed'), ('failed', 'unmatched')]
    """

    __slots__ = ("baseline", "candidate")

    def __init__(self, baseline: bytes, candidate: bytes) -> None:
        if len(baseline) != len(candidate):
            raise ValueError(
                f"the baseline has {len(baseline)} outcomes and the candidate {len(candidate)}"
            )
        for letters in (baseline, candidate):
            strange = letters.translate(None, LETTERS)
            if strange:
                raise ValueError(
                    f"an outcome is one of the letters {LETTERS.decode()!r}, not {strange[:1]!r}"
                )
        self.baseline = bytes(baseline)
        self.candidate = bytes(candidate)

    @classmethod
    def of(cls, pairs: Iterable[tuple[Word, Word]]) -> Outcomes:
        """Make them from words.

        Raises:
            ValueError: when a word is not one of `WORDS`.
        """
        pairs = list(pairs)
        try:
            sides = [bytes(_LETTER[pair[side]] for pair in pairs) for side in (0, 1)]
        except KeyError as error:
            raise ValueError(f"{error.args[0]!r} is no outcome: they are {WORDS}") from None
        return cls(*sides)

    def letters(self) -> tuple[np.ndarray, np.ndarray]:
        """The letters of both sides as arrays of `uint8`, to count with."""
        return np.frombuffer(self.baseline, np.uint8), np.frombuffer(self.candidate, np.uint8)

    def __len__(self) -> int:
        return len(self.baseline)

    @overload
    def __getitem__(self, index: int) -> tuple[Word, Word]: ...

    @overload
    def __getitem__(self, index: slice) -> Outcomes: ...

    def __getitem__(self, index: int | slice) -> tuple[Word, Word] | Outcomes:
        if isinstance(index, slice):
            return Outcomes(self.baseline[index], self.candidate[index])
        return _WORD[self.baseline[index]], _WORD[self.candidate[index]]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Outcomes):
            return (self.baseline, self.candidate) == (other.baseline, other.candidate)
        if isinstance(other, tuple | list):
            return list(self) == list(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash((self.baseline, self.candidate))

    def __repr__(self) -> str:
        return f"Outcomes({self.baseline!r}, {self.candidate!r})"


_LETTER: dict[str, int] = dict(zip(WORDS, LETTERS, strict=True))
_WORD: dict[int, Word] = dict(zip(LETTERS, WORDS, strict=True))
