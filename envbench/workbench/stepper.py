"""`EpisodeStepper`: the stepper with a live link to Python.

What a notebook keeps of it is the static page of the episode, which steps without a kernel. The
widget has no view of its own there: where a kernel runs, its model finds the page and binds to it.
A view that belongs to a widget would be a "model not found" when the notebook is opened again.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from envbench.workbench.page import fragment_of, script_text, style_text
from envbench.workbench.payload import LIMIT, payloads

if TYPE_CHECKING:
    from envbench.changes.rules import Rule
    from envbench.checks.report import Report
    from envbench.evidence.episode import EpisodeEvidence


def _module() -> str:
    """The script as a module: what it is on a page, its style, and the export of the widget."""
    here = 'globalThis["envbench.stepper/1"]'
    return (
        f"{script_text()}\n{here}.css ||= {json.dumps(style_text())};\n"
        f"export default {here}.widget;\n"
    )


class EpisodeStepper(anywidget.AnyWidget):
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

    _esm = _module()

    step = traitlets.Int(0).tag(sync=True)
    episode_id = traitlets.Unicode("").tag(sync=True)
    selected_path = traitlets.Unicode(None, allow_none=True).tag(sync=True)
    view_id = traitlets.Unicode("").tag(sync=True)

    def __init__(
        self,
        episode: EpisodeEvidence,
        other: EpisodeEvidence | None = None,
        *,
        rules: Iterable[Rule] = (),
        report: Report | None = None,
        limit: int = LIMIT,
    ) -> None:
        self._payloads = payloads(episode, other, rules=rules, report=report, limit=limit)
        super().__init__(episode_id=episode.episode_id, view_id=uuid.uuid4().hex)
        self.on_msg(self._answer)

    @property
    def html(self) -> str:
        """What a notebook keeps: the static page of the episode."""
        return fragment_of(self._payloads, view=self.view_id)

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, str], dict[str, Any]]:
        """The static page alone; see the module for why there is no view of the widget."""
        return {"text/html": self.html, "text/plain": repr(self)}, {}

    def __repr__(self) -> str:
        names = " beside ".join(each.episode.episode_id for each in self._payloads)
        return f"<EpisodeStepper of {names}, at {self.step}>"

    @traitlets.validate("step")
    def _bounded(self, proposal: Any) -> int:
        last = max(each.n_moments for each in self._payloads) - 1
        return max(0, min(last, int(proposal["value"])))

    def _answer(self, _: Any, message: dict[str, Any], buffers: Any) -> None:
        """Send what a view asks for: the packed text, a chunk or a frame."""
        answer: dict[str, Any] = {"id": message.get("id")}
        try:
            if message["what"] == "texts":
                self.send(answer | {"texts": [each.text for each in self._payloads]})
                return
            payload = self._payloads[int(message["side"])]
            if message["what"] == "chunk":
                content = payload.chunk(int(message["name"]))
            else:
                content = payload.frame(str(message["name"]))
        except Exception as error:  # the view says what went wrong, where the user looks
            self.send(answer | {"error": f"{type(error).__name__}: {error}"})
        else:
            self.send(answer, [content])
