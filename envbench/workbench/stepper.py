"""`EpisodeStepper`: the stepper with a live link to Python; see `envbench.workbench.live_view`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import traitlets

from envbench.workbench.live_view import LiveView, module_of
from envbench.workbench.page import fragment_of
from envbench.workbench.payload import LIMIT, payloads

if TYPE_CHECKING:
    from envbench.changes.rules import Rule
    from envbench.checks.report import Report
    from envbench.evidence.episode import EpisodeEvidence


class EpisodeStepper(LiveView):
    """Steps through an episode, or two side by side; Python follows, and leads.

    An episode that was read from a store shows its saved findings and the latest result of each
    check without being told. What does not fit into the page is asked of the kernel, so that an
    episode of any length can be stepped through where one runs.

    Args:
        episode: the episode.
        other: one to show beside it, aligned by step.
        rules: rules on changes, applied now.
        report: results to show instead of those in the store.
        limit: characters that the episodes may take in a saved notebook.

    Attributes:
        step: the moment that is shown: 0 is the reset, i the one after step i. Set it to lead.
        episode_id: the episode in which something was selected last.
        selected_path: the selected path of the state, None when there is none. Set it to select.

    Raises:
        TypeError: when an argument is of another type.
        ValueError: when the report has no result of the episode, or the limit is not positive.

    Example:
        >>> stepper = EpisodeStepper(store.episode(episode_id))  # doctest: +SKIP
        >>> stepper.observe(lambda change: print(change.new), "step")  # doctest: +SKIP
        >>> stepper.step = 12  # doctest: +SKIP
    """

    kind = "a stepper"
    _esm = module_of("envbench.stepper/1")

    step = traitlets.Int(0).tag(sync=True)
    episode_id = traitlets.Unicode("").tag(sync=True)
    selected_path = traitlets.Unicode(None, allow_none=True).tag(sync=True)

    def __init__(
        self,
        episode: EpisodeEvidence,
        other: EpisodeEvidence | None = None,
        *,
        rules: Iterable[Rule] = (),
        report: Report | None = None,
        limit: int = LIMIT,
    ) -> None:
        found = payloads(episode, other, rules=rules, report=report, limit=limit)
        super().__init__(payloads=found, episode_id=episode.episode_id)

    @property
    def html(self) -> str:
        """What a notebook keeps: the static page of the episode."""
        return fragment_of(self.payloads, view=self.view_id)

    def __repr__(self) -> str:
        names = " beside ".join(each.episode.episode_id for each in self.payloads)
        return f"<EpisodeStepper of {names}, at {self.step}>"

    @traitlets.validate("step")
    def _bounded(self, proposal: Any) -> int:
        last = max(each.n_moments for each in self.payloads) - 1
        return max(0, min(last, int(proposal["value"])))

    def answer(self, what: str, message: Mapping[str, Any]) -> dict[str, Any]:
        """The packed texts, for a view of the widget's own."""
        if what == "texts":
            return {"texts": [each.text for each in self.payloads]}
        return super().answer(what, message)
