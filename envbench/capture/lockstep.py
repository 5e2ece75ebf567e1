"""Steps of a vector environment in which every episode went on, held once for all of them.

What is met in nearly every step then costs one entry in one list. Each recorder gets its steps
before anything else is seen of it, before it is sealed, and when it may hold enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from envbench.capture.batches import infos_of, numbers
from envbench.capture.recorder import Recorder, SharedStep

_BOOL = np.dtype(np.bool_)


class Lockstep:
    """Sees the steps of several recorders together, for as long as nothing but a step is met.

    Args:
        recorders: one for each environment, with open episodes that nothing but steps is read of.
        observations: takes a batch of observations apart, held.
    """

    __slots__ = ("_given", "_left", "_limit", "_none", "_observations", "_recorders", "_steps")

    def __init__(self, recorders: Sequence[Recorder], observations: Callable[[Any], Any]) -> None:
        self._recorders = recorders
        self._observations = observations
        self._none = bytes(len(recorders))
        self._steps: list[SharedStep] = []
        # those that were given to the recorders last, and the recorders that still lack them
        self._given: list[SharedStep] = []
        self._left: Iterator[Recorder] = iter(())
        self._limit = _room(recorders)
        for recorder in recorders:
            recorder.fetch = self.spread

    def see(self, actions: Any, result: Any, started: int, ended: int) -> bool:
        """See what came of a step, if every episode goes on with it.

        Args:
            actions: what was sent to each environment, held.
            result: what the vector environment returned.
            started: when it was called, on the recorders' clock.
            ended: when it returned.

        Returns:
            Whether that was so; otherwise nothing was seen.
        """
        if type(result) is not tuple or len(result) != 5:
            return False
        observations, rewards, terminated, truncated, infos = result
        none = self._none
        if not (
            type(terminated) is ndarray
            and terminated.dtype is _BOOL
            and terminated.ndim == 1
            and terminated.tobytes() == none
            and type(truncated) is ndarray
            and truncated.dtype is _BOOL
            and truncated.ndim == 1
            and truncated.tobytes() == none
        ):
            return False
        steps, n = self._steps, len(none)
        step = SharedStep(
            actions,
            self._observations(observations),
            numbers(rewards, n),
            None if type(infos) is dict and not infos else infos_of(infos, n),
            started,
            ended,
        )
        steps.append(step)
        if len(steps) >= self._limit:
            self.spread()
        return True

    def has(self, actions: Any) -> bool:
        """Whether the step that was seen last is the one to which these were sent."""
        steps = self._steps or self._given
        return bool(steps) and steps[-1].actions is actions

    def spread(self) -> None:
        """Give each recorder its steps; after an interrupt it goes on where it was."""
        self._give()
        if self._steps:
            given, left = self._steps, iter(self._recorders)
            self._given, self._steps, self._left = given, [], left
            self._give()
            full = [each for each in self._recorders if len(each.steps) >= each.limit]
            size = _weight(given) if full else 0
            for recorder in full:
                recorder.hand_over(len(given), size)
        self._limit = _room(self._recorders)

    def part(self) -> None:
        """Give each recorder its steps, for the last time."""
        self.spread()
        for recorder in self._recorders:
            recorder.fetch = None

    def _give(self) -> None:
        # no interrupt can come between the next recorder and its steps
        for recorder in self._left:
            recorder.steps.extend(self._given)


def _room(recorders: Sequence[Recorder]) -> int:
    """How many steps can be held before one of the recorders may hold enough."""
    return max(1, min(recorder.limit - len(recorder.steps) for recorder in recorders))


def _weight(steps: list[SharedStep]) -> int:
    """About how many bytes some steps take for one environment."""
    of_one_size = next((step.weight for step in steps if step.is_of_one_size), 0)
    return sum(of_one_size if step.is_of_one_size else step.weight for step in steps)
