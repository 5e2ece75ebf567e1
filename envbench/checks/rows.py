"""The rows of a report: its checks, the episodes judged, one result for each pair of them."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

from envbench.checks.shape import Kinds, at, expect_texts, read_object
from envbench.evidence.portable import Json, canonical, parse
from envbench.evidence.tagged import decode_text


class CheckIdentity(NamedTuple):
    """A check as a report knows it."""

    name: str
    version: str

    def to_dict(self) -> dict[str, Json]:
        """The row as portable JSON."""
        return self._asdict()

    @classmethod
    def from_dict(cls, value: Json, place: str) -> CheckIdentity:
        """Read what `to_dict` gave; a ValueError names what does not fit."""
        return cls(**read_object(value, _CHECK, place))


@dataclasses.dataclass(frozen=True, slots=True)
class JudgedEpisode:
    """What a report keeps of an episode.

    Attributes:
        episode_id: the episode.
        case_id: its case.
        case_digest: the definition of the case.
        source_id: where the case came from, None when it was not said.
        tags: the slices that the case belongs to.
        seed: the seed of the reset, None where none was given.
        repeat: number of the repeat, from 0.
        previous: the episode that this one is a recovery of, else None.
        ending: how it ended.
        coverage_issues: what its evidence does not cover.
        digest: SHA-256 of its evidence.
    """

    episode_id: str
    case_id: str
    case_digest: str
    source_id: str | None
    tags: tuple[str, ...]
    seed: int | None
    repeat: int
    previous: str | None
    ending: str
    coverage_issues: tuple[str, ...]
    digest: str

    def to_dict(self) -> dict[str, Json]:
        """The row as portable JSON."""
        row = {name: getattr(self, name) for name in _EPISODE}
        return row | {"tags": [*self.tags], "coverage_issues": [*self.coverage_issues]}

    @classmethod
    def from_dict(cls, value: Json, place: str) -> JudgedEpisode:
        """Read what `to_dict` gave; a ValueError names what does not fit."""
        row = read_object(value, _EPISODE, place)
        for name in ("tags", "coverage_issues"):
            expect_texts(row[name], at(place, name))
            row[name] = tuple(row[name])
        return cls(**row)


@dataclasses.dataclass(frozen=True, slots=True)
class CheckResult:
    """What one check came to on one episode.

    Attributes:
        case_id: the case of the episode.
        episode_id: the episode.
        check: name of the check.
        version: version of the check.
        passed: True or False when it was measured, None when it is unknown or the check failed.
        reason: one line for a person.
        evidence_json: what the verdict rests on, as canonical JSON in tagged form.
        error: type and message of what went wrong in the check itself, else None.
    """

    case_id: str
    episode_id: str
    check: str
    version: str
    passed: bool | None
    reason: str
    evidence_json: str
    error: str | None

    @property
    def evidence(self) -> dict[str, Any]:
        """What the verdict rests on, as Python values; a new copy each time.

        What a query took from a store as a reference to a large array stays in tagged form.
        """
        try:
            evidence: dict[str, Any] = decode_text(self.evidence_json)
        except ValueError:
            evidence = parse(self.evidence_json)
        return evidence

    def to_dict(self) -> dict[str, Json]:
        """The row as portable JSON."""
        row = {name: getattr(self, name) for name in _RESULT if name != "evidence"}
        return row | {"evidence": parse(self.evidence_json)}

    @classmethod
    def from_dict(cls, value: Json, place: str) -> CheckResult:
        """Read what `to_dict` gave; a ValueError names what does not fit."""
        row = read_object(value, _RESULT, place)
        evidence = canonical(row.pop("evidence")).decode()
        return cls(**row, evidence_json=evidence)


_CHECK: dict[str, Kinds] = {"name": str, "version": str}

_EPISODE: dict[str, Kinds] = {
    "episode_id": str,
    "case_id": str,
    "case_digest": str,
    "source_id": (str, type(None)),
    "tags": list,
    "seed": (int, type(None)),
    "repeat": int,
    "previous": (str, type(None)),
    "ending": str,
    "coverage_issues": list,
    "digest": str,
}

_RESULT: dict[str, Kinds] = {
    "case_id": str,
    "episode_id": str,
    "check": str,
    "version": str,
    "passed": (bool, type(None)),
    "reason": str,
    "evidence": dict,
    "error": (str, type(None)),
}

RESULT_COLUMNS = tuple(_RESULT)
"""The columns of a frame of results."""
