"""`ComparisonView`: a comparison with a live link to Python, which opens any pair of it.

What a notebook keeps is the static page, to which the widget binds: `envbench.workbench.live_view`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import traitlets

from envbench.comparison import Comparison, Pair
from envbench.workbench.comparison_view import fragment_of, refuse_limit
from envbench.workbench.flipped_pairs import LIMIT, open_pair
from envbench.workbench.live_view import LiveView, module_of
from envbench.workbench.payload import LIMIT as PAIR_LIMIT

if TYPE_CHECKING:
    from envbench.evidence.episode import EpisodeEvidence
    from envbench.store import Store


class ComparisonView(LiveView):
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

    kind = "a comparison"
    _esm = module_of("envbench.comparison/1", "comparison.js")

    selected = traitlets.List(traitlets.Unicode()).tag(sync=True)

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
        self._pairs = {
            episode_id: pair
            for pair in comparison.pairs
            for episode_id in (pair.baseline, pair.candidate)
            if episode_id is not None
        }
        super().__init__()

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

    def __repr__(self) -> str:
        names = self._comparison.candidate_name, self._comparison.baseline_name
        return f"<ComparisonView of {names[0]} against {names[1]}>"

    def answer(self, what: str, message: Mapping[str, Any]) -> dict[str, Any]:
        """What is shown of a pair that was selected, or is to be opened."""
        if what not in ("select", "open"):
            return super().answer(what, message)
        pair = self._pairs[str(message["episode"])]
        shown = self._open(pair, message) if what == "open" else {}
        ids = dict.fromkeys(i for i in (pair.baseline, pair.candidate) if i is not None)
        self.selected = list(ids)
        return shown

    def _open(self, pair: Pair, message: Mapping[str, Any]) -> dict[str, Any]:
        if self._store is None:
            raise ValueError("no store was given: ComparisonView(comparison, store) opens pairs")
        checks = self._comparison.checks
        opened = open_pair(self._store, pair, checks, PAIR_LIMIT)
        if opened is None:
            raise ValueError(f"the episodes of {pair.case_id} are not in {self._store!r}")
        self.payloads = opened.payloads
        step = int(message.get("step", 0))
        if "check" in message:
            step = opened.steps[checks[int(message["check"])].name].step
        texts = [payload.text for payload in opened.payloads]
        return {"texts": texts, "step": step, "name": pair.case_id}
