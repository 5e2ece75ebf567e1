"""`EvidenceBrowser`: the episodes of a store, filtered, sorted and paged, each opened in a stepper.

What a notebook keeps is a static table of the first episodes, which can be filtered and sorted
without a kernel. Where one runs, the widget finds that table and binds to it: then DuckDB looks
through all of them, a capture that is still running is followed, and a row opens its episode.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import traitlets

from envbench.store import StoreError, connect
from envbench.workbench.browsing import COLUMNS, ROWS, Listing, Query, choices, listing
from envbench.workbench.live_view import LiveView, module_of
from envbench.workbench.markup import attribute, counted, fragment, pill, text
from envbench.workbench.payload import payloads

if TYPE_CHECKING:
    import os

    from envbench.evidence.episode import EpisodeEvidence
    from envbench.store import Store

KEPT = 200
"""Episodes that a saved notebook keeps of a browser."""


def browser_html(store: Store, *, rows: int = KEPT, view: str | None = None) -> str:
    """The newest episodes of a store as an HTML fragment: a table to filter and to sort.

    Without scripts it is a plain table. A row leads to the stepper of its episode where the page
    holds one.

    Args:
        store: the store.
        rows: how many episodes it holds; it says how many there are.
        view: the identity of a live view that binds to it.
    """
    return _element(listing(store, Query(), rows), view) + assets()


def assets() -> str:
    """The script and the style that all browsers of a page share, as HTML elements."""
    return f"<style>{_static('browser.css')}</style><script>{_static('browser.js')}</script>"


@cache
def _static(name: str) -> str:
    return resources.files("envbench.workbench").joinpath(f"static/{name}").read_text("utf-8")


class EvidenceBrowser(LiveView):
    """Lists the episodes of a store, and opens one in a stepper, or two side by side.

    Args:
        store: a store, or the path of one; a path is opened for reading.
        follow: whether episodes that are recorded meanwhile appear by themselves. The store must
            be the one that is written to, or be written by this process; a file that another
            process writes cannot be opened.
        page_size: episodes on a page.

    Attributes:
        query: what is listed, as `browsing.Query.to_dict` gives it. Set it to lead.
        selected: ids of the episodes that were opened last.

    Raises:
        TypeError: when an argument is of another type.
        StoreError: when the store cannot be opened.

    Example:
        >>> browser = EvidenceBrowser(store)  # doctest: +SKIP
        >>> browser.query = {"verdict": "failed", "order": "n_steps"}  # doctest: +SKIP
        >>> browser.episodes  # those that are open  # doctest: +SKIP
    """

    kind = "a browser"
    _esm = module_of("envbench.browser/1", "browser.js")
    _follower: _Follower | None = None

    query = traitlets.Dict(Query().to_dict()).tag(sync=True)
    selected = traitlets.List(traitlets.Unicode()).tag(sync=True)

    def __init__(
        self,
        store: Store | str | os.PathLike[str],
        *,
        follow: bool = True,
        page_size: int = ROWS,
    ) -> None:
        from envbench.store import Store

        if isinstance(page_size, bool) or not isinstance(page_size, int) or page_size < 1:
            raise TypeError(f"page_size must be a positive integer, not {page_size!r}")
        self._store = store if isinstance(store, Store) else connect(store, read_only=True)
        self._page_size = page_size
        self._follower = _Follower(self) if follow else None
        super().__init__()

    @property
    def listing(self) -> Listing:
        """The page that is shown, asked anew."""
        return listing(self._store, Query.from_dict(self.query), self._page_size)

    @property
    def sql(self) -> str:
        """The query behind what is shown."""
        return self.listing.sql

    @property
    def episodes(self) -> list[EpisodeEvidence]:
        """The episodes that were opened last."""
        return [self._store.episode(episode_id) for episode_id in self.selected]

    @property
    def html(self) -> str:
        """What a notebook keeps: the newest episodes as a static table."""
        return browser_html(self._store, view=self.view_id)

    def close(self) -> None:
        """Stop following, and end the link to what is shown."""
        if self._follower is not None:
            self._follower.stop()
        super().close()

    def push(self) -> None:
        """Send the page that is shown to its views once more."""
        self.send({"listing": self._shown()})

    def __repr__(self) -> str:
        # the name alone: a saved notebook goes to others, who need no path of this machine
        path = self._store.path
        return f"<EvidenceBrowser of {'a store in memory' if path is None else path.name}>"

    @traitlets.validate("query")
    def _complete(self, proposal: Any) -> dict[str, Any]:
        """A query with every field; what it leaves out has its default."""
        return Query.from_dict(proposal["value"]).to_dict()

    @traitlets.observe("query")
    def _pushed(self, _: Any) -> None:
        if self.comm is not None:
            self.push()

    def _shown(self) -> dict[str, Any]:
        found = self.listing
        return {
            "rows": "".join(_row(row) for row in found.rows),
            "page": found.page,
            "pages": max(1, -(-found.matched // self._page_size)),
            "matched": found.matched,
            "total": found.total,
            "first": found.page * self._page_size + 1,
            "sql": found.sql,
            "choices": choices(self._store),
        }

    def answer(self, what: str, message: Mapping[str, Any]) -> dict[str, Any]:
        """The page of episodes, or the packed texts of those to open."""
        if what == "list":
            if self._follower is not None:
                self._follower.start()  # before it is looked at: what comes in between is new
            return {"listing": self._shown()}
        if what == "open":
            ids = [str(episode_id) for episode_id in message["ids"]][:2]
            self.payloads = payloads(*(self._store.episode(episode_id) for episode_id in ids))
            self.selected = ids
            return {"texts": [payload.text for payload in self.payloads]}
        return super().answer(what, message)


class _Follower:
    """Looks once a second whether a store has more episodes, on a thread of its own.

    A kernel that runs a capture answers nobody until the cell ends; a thread can still send. It
    ends with the browser, or with the store.
    """

    def __init__(self, browser: EvidenceBrowser) -> None:
        self._browser = weakref.ref(browser)
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._known: list[tuple[Any, ...]] = []

    def start(self) -> None:
        browser = self._browser()
        if self._thread is None and browser is not None:
            self._known = _seen(browser._store)
            self._thread = threading.Thread(target=self._run, name="envbench-browser", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.wait(1.0):
            browser = self._browser()
            if browser is None or browser.comm is None:
                return
            try:
                seen = _seen(browser._store)
                if seen != self._known:
                    browser.push()
                    self._known = seen
            except StoreError:  # it was closed
                return
            del browser


def _seen(store: Store) -> list[tuple[Any, ...]]:
    """How much there is, without waiting for what is still being written."""
    with store.cursor() as cursor:
        return cursor.execute(_SEEN).fetchall()


_SEEN = "SELECT (SELECT count(*) FROM episodes), (SELECT count(*) FROM reports)"

_HEADS = (
    ("case_id", "Case", False),
    ("verdict", "Verdicts", False),
    ("environment_id", "Environment", False),
    ("agent_id", "Agent", False),
    ("seed", "Seed", True),
    ("repeat", "Repeat", True),
    ("ending", "Ending", False),
    ("n_steps", "Steps", True),
    ("episode_return", "Return", True),
    ("recorded_at", "Recorded (UTC)", False),
)
"""Columns of the table: name, head, and whether it is of numbers."""

assert {name for name, *_ in _HEADS} - {"verdict"} <= set(COLUMNS)


def _element(found: Listing, view: str | None) -> str:
    heads = "".join(
        f'<th scope="col" data-column="{name}"{_NUMBER if is_number else ""}>{head}</th>'
        for name, head, is_number in _HEADS
    )
    left = found.total - len(found.rows)
    note = f", the newest {len(found.rows):,} shown" if left > 0 else ""
    table = (
        '<div class="envbench-scroll" tabindex="0" role="region" aria-label="Episodes"><table>'
        f"<thead><tr>{heads}</tr></thead><tbody>{''.join(map(_row, found.rows))}</tbody>"
        "</table></div>"
    )
    bound = f' data-view="{attribute(view)}"' if view else ""
    return (
        f'<div class="envbench-browser" data-lm-suppress-shortcuts="true"{bound} '
        f'data-total="{found.total}">'
        + fragment(
            f'<p class="envbench-title envbench-browser-title">'
            f"{counted(found.total, 'episode')}{note}</p>",
            table,
        )
        + "</div>"
    )


_NUMBER = ' class="envbench-number"'


def _row(row: Mapping[str, Any]) -> str:
    version = row["environment_version"]
    environment = row["environment_id"] + ("" if version is None else f" · {version}")
    seconds = row["recorded_at"].isoformat(" ", "seconds")
    cells = (
        ("", f'<span class="envbench-browser-case">{text(row["case_id"])}</span>{_attempt(row)}'),
        (f' data-value="{_rank(row)}"', _verdicts(row)),
        ("", text(environment)),
        ("", "" if row["agent_id"] is None else text(row["agent_id"])),
        (_NUMBER, "" if row["seed"] is None else text(row["seed"])),
        (_NUMBER, text(row["repeat"])),
        ("", text(row["ending"])),
        (_NUMBER, f"{row['n_steps']:,}"),
        (_NUMBER, "" if row["episode_return"] is None else f"{row['episode_return']:.6g}"),
        ("", f"<time>{seconds}</time>"),
    )
    kinds = " ".join(_kinds(row))
    return (
        f'<tr data-episode="{attribute(row["episode_id"])}" data-verdict="{kinds}" '
        f'data-environment="{attribute(row["environment_id"])}" '
        f'data-agent="{attribute(row["agent_id"] or "")}" '
        f'data-ending="{attribute(row["ending"])}">'
        + "".join(f"<td{kind}>{cell}</td>" for kind, cell in cells)
        + "</tr>"
    )


def _attempt(row: Mapping[str, Any]) -> str:
    return "" if row["previous"] is None else ' <span class="envbench-soft">recovery</span>'


def _kinds(row: Mapping[str, Any]) -> Iterable[str]:
    """The words of `browsing.VERDICTS` that an episode is listed for."""
    judged = row["passed"] + row["failed"] + row["unknown"] + row["errors"]
    if row["failed"]:
        yield "failed"
    if row["unknown"]:
        yield "unknown"
    if row["errors"]:
        yield "error"
    if judged and judged == row["passed"]:
        yield "passed"
    if not judged:
        yield "unjudged"
    if row["forbidden"]:
        yield "forbidden"


def _rank(row: Mapping[str, Any]) -> int:
    """What the column of verdicts is sorted by: the worst has the highest number."""
    kinds = set(_kinds(row))
    worst = ("failed", "error", "unknown", "unjudged", "passed")
    return next(len(worst) - i for i, kind in enumerate(worst) if kind in kinds)


def _verdicts(row: Mapping[str, Any]) -> str:
    shown = [
        pill(word, f"{row[column]:,} {word}")
        for column, word in (
            ("failed", "failed"),
            ("errors", "error"),
            ("unknown", "unknown"),
            ("passed", "passed"),
        )
        if row[column]
    ]
    if not shown:
        return '<span class="envbench-soft">not judged</span>'
    if row["forbidden"]:
        changes = counted(row["forbidden"], "forbidden change")
        shown.append(f'<span class="envbench-soft">{changes}</span>')
    return f'<span class="envbench-browser-verdicts">{"".join(shown)}</span>'
