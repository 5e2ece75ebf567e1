"""The pairs of a comparison that broke or were fixed, and the steppers that show them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias
from urllib.parse import quote

from envbench.comparison import CheckComparison, Comparison, Pair
from envbench.evidence.portable import parse
from envbench.workbench.page import fragment_of
from envbench.workbench.payload import Payload, payloads

if TYPE_CHECKING:
    from envbench.store import Store

LIMIT = 2_000_000
"""Characters that all steppers of a page may take together, by default."""

MOST_STEPPERS = 30
"""Pairs whose stepper is in a page; every stepper is started when the page is opened."""


PairIds: TypeAlias = tuple[str | None, str | None]
"""The ids of the baseline's and of the candidate's episode."""


@dataclasses.dataclass(frozen=True, slots=True)
class Flip:
    """A pair that broke or was fixed by one check.

    Attributes:
        name: of the pair.
        pair: its episodes; of a case compared by its mean, the first with both.
        check: the check.
        broke: True when it passed and then failed, False when it failed and then passed.
        by_mean: whether the case was compared by its mean, so that other repeats count too.
    """

    name: str
    pair: Pair
    check: CheckComparison
    broke: bool
    by_mean: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """Where a stepper is to be opened: an episode and a step of it.

    A live view is asked by the number of a check instead, and finds the step itself.
    """

    episode_id: str
    step: int
    by: Literal["step", "check"] = "step"

    @property
    def anchor(self) -> str:
        """The name of the place in a page, without the `#`."""
        return f"{self.episode_id}/{self.by}={self.step}"

    @property
    def address(self) -> str:
        """The address of the place in the same page."""
        return f"#{quote(self.anchor, safe='/=')}"


@dataclasses.dataclass(frozen=True, slots=True)
class OpenPair:
    """A pair read from a store.

    Attributes:
        payloads: of the baseline's episode and of the candidate's; one where both are the same.
        steps: for each check, where the side that failed did so.
    """

    payloads: tuple[Payload, ...]
    steps: Mapping[str, Place]

    @property
    def html(self) -> str:
        """The stepper, without the script and style that steppers share."""
        return fragment_of(self.payloads, script=False)


def flips_of(comparison: Comparison) -> list[Flip]:
    """Every pair that broke or was fixed, by each check; what broke comes first."""
    by_name = dict(zip(comparison.names, comparison.pairs, strict=True))
    means: dict[str, Pair] = {}
    for pair in comparison.pairs:
        if pair.case_id in comparison.case_means and None not in (pair.baseline, pair.candidate):
            means.setdefault(pair.case_id, pair)
    return [
        Flip(
            name,
            by_name[name] if name in by_name else means[name],
            check,
            broke,
            name not in by_name,
        )
        for broke in (True, False)
        for check in comparison.checks
        for name in (check.broke if broke else check.fixed)
        if name in by_name or name in means
    ]


def open_pair(
    store: Store, pair: Pair, checks: Sequence[CheckComparison], limit: int
) -> OpenPair | None:
    """Read both episodes of a pair from a store; None when it does not have them.

    Args:
        store: the store.
        pair: the pair.
        checks: the checks whose steps are wanted.
        limit: characters of packed text for both episodes.
    """
    ids = list(dict.fromkeys(i for i in (pair.baseline, pair.candidate) if i is not None))
    try:
        episodes = [store.episode(episode_id) for episode_id in ids]
    except KeyError:
        return None
    found = payloads(*episodes, limit=limit)
    return OpenPair(found, dict(_steps(found, checks)))


def steppers_of(
    comparison: Comparison, store: Store, limit: int = LIMIT
) -> dict[PairIds, OpenPair]:
    """The pairs that flipped, as many as fit a page; those that broke are first.

    Args:
        comparison: the comparison.
        store: where its episodes are; pairs that it does not have are left out.
        limit: characters of packed text for all of them.
    """
    found: dict[PairIds, OpenPair] = {}
    left = limit
    flipped = {
        (flip.pair.baseline, flip.pair.candidate): flip.pair for flip in flips_of(comparison)
    }
    for ids, pair in flipped.items():
        if len(found) == MOST_STEPPERS or left <= 0:
            break
        opened = open_pair(store, pair, comparison.checks, min(left, max(limit // 4, 1)))
        if opened is not None:
            found[ids] = opened
            left -= sum(len(payload.text) for payload in opened.payloads)
    return found


def _steps(
    found: Sequence[Payload], checks: Sequence[CheckComparison]
) -> Iterator[tuple[str, Place]]:
    """Where each check failed: in the candidate's episode, else in the baseline's.

    A check that names no step failed at the end; one that failed nowhere leads to the reset.
    """
    results = [
        (payload, {result["name"]: result for result in map(parse, payload.verdicts.checks)})
        for payload in reversed(found)
    ]
    for check in checks:
        place = Place(found[-1].episode.episode_id, 0)
        for payload, by_name in results:
            result = by_name.get(check.name)
            if result is not None and result["passed"] is False:
                step = result["steps"][0] if result["steps"] else payload.n_moments - 1
                place = Place(payload.episode.episode_id, step)
                break
        yield check.name, place
