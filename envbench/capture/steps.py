"""Steps as the recorder held them, turned into columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from envbench.capture.frames import RawFrame
from envbench.capture.recorder import (
    NOTHING,
    UNSEEN,
    PlainRow,
    RawState,
    RawStep,
    Row,
    SharedStep,
)


@dataclass(slots=True)
class Steps:
    """The attempted steps of one part, field by field.

    Attributes:
        n: how many there are.
        taken: positions of the steps whose action was not refused.
        actions: their actions.
        returned: positions of the steps in which the environment returned five values.
        observations: the observations of these; the following fields likewise.
        malformed: position and result of those in which it returned something else.
        started_ns: when each step began, on the recorder's clock.
        ended_ns: when each step ended.
        states: the state after each step; empty when there is no observer.
        frames: what was shown after each step; empty when nothing was.
    """

    n: int
    taken: list[int]
    actions: list[Any]
    returned: list[int]
    observations: list[Any]
    rewards: list[Any]
    terminated: list[Any]
    truncated: list[Any]
    infos: list[Any]
    malformed: list[tuple[int, Any]]
    started_ns: list[int]
    ended_ns: list[int]
    states: list[RawState]
    frames: list[RawFrame | None]

    def spread(self, values: list[Any], positions: Sequence[int]) -> list[Any]:
        """Values at their positions, None between them."""
        if len(values) == self.n:
            return list(values)
        column: list[Any] = [None] * self.n
        for position, value in zip(positions, values, strict=True):
            column[position] = value
        return column


def own_rows(rows: Sequence[Row], index: int) -> list[RawStep | PlainRow]:
    """The steps of one environment, where some are held together with those of others."""
    return [row.of(index) if type(row) is SharedStep else row for row in rows]  # type: ignore[misc]


def gather_steps(rows: list[RawStep | PlainRow]) -> Steps:
    """Turn held steps into columns."""
    if set(map(type, rows)) == {tuple}:
        return _gather_plain(rows)
    steps = Steps(len(rows), [], [], [], [], [], [], [], [], [], [], [], [], [])
    returned = (
        steps.observations,
        steps.rewards,
        steps.terminated,
        steps.truncated,
        steps.infos,
    )
    for i, row in enumerate(map(_whole, rows)):
        if not row.refused:
            steps.actions.append(row.action)
            steps.taken.append(i)
        if isinstance(row.result, tuple) and len(row.result) == 5:
            steps.returned.append(i)
            for column, value in zip(returned, row.result, strict=True):
                column.append(value)
        elif row.result is not NOTHING:
            steps.malformed.append((i, row.result))
        steps.started_ns.append(row.started_ns)
        steps.ended_ns.append(row.ended_ns)
        steps.states.append(row.state)
        steps.frames.append(row.frame)
    return steps


def _gather_plain(rows: list[Any]) -> Steps:
    """Columns of steps that all went as they should, without an observer."""
    columns = list(map(list, zip(*rows, strict=True)))
    action, observation, reward, terminated, truncated, info, started, ended = columns
    every = list(range(len(rows)))
    return Steps(
        n=len(rows),
        taken=every,
        actions=action,
        returned=every,
        observations=observation,
        rewards=reward,
        terminated=terminated,
        truncated=truncated,
        infos=info,
        malformed=[],
        started_ns=started,
        ended_ns=ended,
        states=[],
        frames=[],
    )


def _whole(row: RawStep | PlainRow) -> RawStep:
    if isinstance(row, RawStep):
        return row
    action, *result, started, ended = row
    return RawStep(action, False, tuple(result), UNSEEN, [], started, ended)
