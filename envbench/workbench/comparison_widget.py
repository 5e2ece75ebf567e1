"""`ComparisonView`: a comparison with a live link to Python, which opens any pair of it.

What a notebook keeps is the static page; where a kernel runs, the widget finds that page and binds
to it, for the reasons in `envbench.workbench.stepper`.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from envbench.comparison import Comparison, Pair
from envbench.workbench.comparison_view import fragment_of, refuse_limit
from envbench.workbench.flipped_pairs import LIMIT, open_pair
from envbench.workbench.page import script_text, style_text
from envbench.workbench.payload import LIMIT as PAIR_LIMIT
from envbench.workbench.payload import Payload

if TYPE_CHECKING:
    from envbench.evidence.episode import EpisodeEvidence
    from envbench.store import Store


@cache
def _module() -> str:
    """The scripts of steppers and of comparisons as one module, and the export of the widget."""
    stepper = 'globalThis["envbench.stepper/1"]'
    here = resources.files("envbench.workbench").joinpath("static/comparison.js").read_text("utf-8")
    return (
        f"{script_text()}\n{stepper}.css ||= {json.dumps(style_text())};\n{here}\n"
        'export default globalThis["envbench.comparison/1"].widget;\n'
    )


class ComparisonView(anywidget.AnyWidget):
    """A comparison whose cells and names open the two episodes of a pair side by side.

    What a notebook keeps of it is the static page of `comparison_html`, in which the pairs that
    flipped can be stepped through without a kernel. Where one runs, every cell of the grid opens
    its pair, of any length.

    Args:
        comparison: the comparison.
        store: where its episodes are; without one no pair can be opened.
        limit: characters that all steppers may take in a saved notebook.

    Attributes:
        selected: ids of the episodes that were opened last.

    Raises:
        TypeError: when an argument is of another type.
        ValueError: when the limit is not positive.

    Example:
        >>> view = ComparisonView(comparison, store)  # doctest: +SKIP
        >>> view.episodes  # the pair that was opened last  # doctest: +SKIP
    """

    _esm = _module()

    selected = traitlets.List(traitlets.Unicode()).tag(sync=True)
    view_id = traitlets.Unicode("").tag(sync=True)

    def __init__(
        self, comparison: Comparison, store: Store | None = None, *, limit: int = LIMIT
    ) -> None:
        from envbench.store import Store

        if not isinstance(comparison, Comparison):
            raise TypeError(f"comparison must be a Comparison, not {type(comparison).__name__}")
        if store is not None and not isinstance(store, Store):
            raise TypeError(f"store must be a Store, not {type(store).__name__}")
        refuse_limit(limit)
        self._comparison = comparison
        self._store = store
        self._limit = limit
        self._opened: tuple[Payload, ...] = ()
        self._pairs = {
            episode_id: pair
            for pair in comparison.pairs
            for episode_id in (pair.baseline, pair.candidate)
            if episode_id is not None
        }
        super().__init__(view_id=uuid.uuid4().hex)
        self.on_msg(self._answer)

    @property
    def html(self) -> str:
        """What a notebook keeps: the static page of the comparison."""
        return fragment_of(
            self._comparison, self._store, limit=self._limit, level=3, view=self.view_id
        )

    @property
    def episodes(self) -> list[EpisodeEvidence]:
        """The episodes that were opened last, the baseline's first."""
        if self._store is None:
            return []
        return [self._store.episode(episode_id) for episode_id in self.selected]

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, str], dict[str, Any]]:
        """The static page alone, for the reasons in `envbench.workbench.stepper`."""
        return {"text/html": self.html, "text/plain": repr(self)}, {}

    def __repr__(self) -> str:
        names = self._comparison.candidate_name, self._comparison.baseline_name
        return f"<ComparisonView of {names[0]} against {names[1]}>"

    def _answer(self, _: Any, message: Mapping[str, Any], buffers: Any) -> None:
        answer: dict[str, Any] = {"id": message.get("id")}
        try:
            content = self._content(message, answer)
        except Exception as error:  # the view says what went wrong, where the user looks
            self.send(answer | {"error": f"{type(error).__name__}: {error}"})
        else:
            self.send(answer, [] if content is None else [content])

    def _content(self, message: Mapping[str, Any], answer: dict[str, Any]) -> bytes | None:
        """Fill the answer to a message of a view; the bytes that go with it, if any."""
        what = message["what"]
        if what in ("select", "open"):
            pair = self._pairs[str(message["episode"])]
            if what == "open":
                answer |= self._open(pair, message)
            ids = dict.fromkeys(i for i in (pair.baseline, pair.candidate) if i is not None)
            self.selected = list(ids)
        elif what == "chunk":
            return self._opened[int(message["side"])].chunk(int(message["name"]))
        elif what == "frame":
            return self._opened[int(message["side"])].frame(str(message["name"]))
        else:
            raise ValueError(f"a comparison does not know {what!r}")
        return None

    def _open(self, pair: Pair, message: Mapping[str, Any]) -> dict[str, Any]:
        if self._store is None:
            raise ValueError("no store was given: ComparisonView(comparison, store) opens pairs")
        checks = self._comparison.checks
        opened = open_pair(self._store, pair, checks, PAIR_LIMIT)
        if opened is None:
            raise ValueError(f"the episodes of {pair.case_id} are not in {self._store!r}")
        self._opened = opened.payloads
        step = int(message.get("step", 0))
        if "check" in message:
            step = opened.steps[checks[int(message["check"])].name].step
        texts = [payload.text for payload in opened.payloads]
        return {"texts": texts, "step": step, "name": pair.case_id}
