"""Which attempts a policy judges: all of them, or the last of each chain of recoveries."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from envbench.checks.rows import JudgedEpisode


@dataclasses.dataclass(frozen=True, slots=True)
class Attempts:
    """The episodes of a report as attempts at their cases.

    A recovery is an episode with `previous`. It supersedes that episode when both answer the same
    case under one definition; otherwise a passing episode of another case could hide a failure.

    Attributes:
        final: episodes that no recovery in the report supersedes, and those in a loop of links.
        superseded: episodes that a recovery in the report supersedes.
        foreign: recoveries whose `previous` is an episode of another case or definition.
        orphans: recoveries whose `previous` is not in the report.
        looped: episodes in a loop of links, which have no last attempt.
    """

    final: tuple[JudgedEpisode, ...]
    superseded: tuple[JudgedEpisode, ...]
    foreign: tuple[JudgedEpisode, ...]
    orphans: tuple[JudgedEpisode, ...]
    looped: tuple[JudgedEpisode, ...]

    @classmethod
    def of(cls, episodes: Sequence[JudgedEpisode]) -> Attempts:
        """Sort the episodes of a report."""
        known = {episode.episode_id: episode for episode in episodes}
        links: dict[str, str] = {}
        foreign, orphans = [], []
        for episode in episodes:
            previous = known.get(episode.previous) if episode.previous is not None else None
            if previous is not None and _definition(previous) == _definition(episode):
                links[episode.episode_id] = previous.episode_id
            elif previous is not None:
                foreign.append(episode)
            elif episode.previous is not None:
                orphans.append(episode)
        recovered = set(links.values())
        ends = [episode.episode_id for episode in episodes if episode.episode_id not in recovered]
        chained = _followed(ends, links)
        superseded = chained - set(ends)
        return cls(
            final=tuple(e for e in episodes if e.episode_id not in superseded),
            superseded=tuple(e for e in episodes if e.episode_id in superseded),
            foreign=tuple(foreign),
            orphans=tuple(orphans),
            looped=tuple(e for e in episodes if e.episode_id not in chained),
        )


def _definition(episode: JudgedEpisode) -> tuple[str, str]:
    return episode.case_id, episode.case_digest


def _followed(ends: Iterable[str], links: Mapping[str, str]) -> set[str]:
    """Every episode that is reached by following the links back from these."""
    reached: set[str] = set()
    for end in ends:
        at: str | None = end
        while at is not None and at not in reached:
            reached.add(at)
            at = links.get(at)
    return reached
