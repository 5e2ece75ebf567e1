"""`FrameObserver`: state that is a few pandas or Polars frames in the environment's memory."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from envbench.capture.selection import Selected, Selection, pointer

if TYPE_CHECKING:
    import pandas
    import polars

    Frame: TypeAlias = pandas.DataFrame | polars.DataFrame
    Frames: TypeAlias = Mapping[str, Frame | Callable[[], Frame]]

Row: TypeAlias = dict[str, Any]


class FrameObserver:
    """Read tables that are pandas or Polars frames.

    Calling the observer gives `{table: [row, …]}`, each row a dict of columns, in the frame's
    order, with the values that the frame has now.

    `frames` maps table names to frames, or to callables that return the present one: where the
    environment puts another frame in its place (always with Polars, often with pandas), a callable
    is needed. It can also be one callable that returns the whole mapping.

    A pandas index with a name is a column; so is every level of a MultiIndex, and an index without
    a name that holds labels (as `index`). One that only numbers the rows is none: it has no name,
    and integers, and counted from zero when this observer first saw it. Column names that are not
    text are spelled as text, those of several levels joined by a dot.

    Values come as plain Python ones wherever those are exact. A missing value is None in a column
    whose dtype has one kind of missing value (dates, nullable and Arrow dtypes, text, categories);
    it is NaN in a float column; in an object column None, NaN, NaT and NA stay what they are (the
    last two as `Named("pandas.NaT", None)`). Dates and durations are datetime and timedelta, or
    NumPy's where these would lose nanoseconds or cannot reach; one with nanoseconds and a zone is
    a `Named` of the UTC value and the zone. Periods and intervals are `Named` too. Integers,
    categories and decimals do not show their width, categories or precision.

    `row_keys` names the key column of tables: `{"accounts": "id"}`. `include` and `exclude` name
    tables (`"accounts"`) or single columns (`("accounts", "name")`).

    Example::

        observer = FrameObserver({"accounts": lambda: env.accounts}, row_keys={"accounts": "id"})
        capture_episode(factory, interact, observe=observer, row_keys=observer.row_keys, …)

    Raises TypeError for what is no frame, ValueError for two columns of one name, and LookupError
    when, at the first reading, a name in `include` or `exclude` is nowhere in the frames.
    """

    def __init__(
        self,
        frames: Frames | Callable[[], Frames],
        *,
        row_keys: Mapping[str, str] | None = None,
        include: Iterable[Selected] | None = None,
        exclude: Iterable[Selected] = (),
    ) -> None:
        if not callable(frames):
            _check_names(frames)
        self._frames = frames
        self._row_keys = None if row_keys is None else _pointers(row_keys)
        self._selection = Selection(include, exclude)
        self._numbered: dict[str, bool] = {}

    def __call__(self) -> dict[str, list[Row]]:
        """The rows of every frame now: `{table: [row, …]}`."""
        frames = self._present()
        columns = {name: self._columns(name, frame) for name, frame in frames.items()}
        self._selection.check_once({name: list(of) for name, of in columns.items()}, "the frames")
        state = {}
        for name, frame in frames.items():
            chosen = self._selection.columns(name, list(columns[name]))
            if chosen is not None:
                values = [columns[name][column]() for column in chosen]
                state[name] = (
                    [dict(zip(chosen, row, strict=True)) for row in zip(*values, strict=True)]
                    if chosen
                    else [{} for _ in range(len(frame))]
                )
        return state

    @property
    def row_keys(self) -> dict[str, str]:
        """The key column of each table that has one: `{"/accounts": "id"}`.

        Those given, else the names of pandas indexes of one level; for these the frames are read
        now, so they must exist.
        """
        if self._row_keys is not None:
            return dict(self._row_keys)
        return {
            pointer(name): _text(frame.index.name)
            for name, frame in self._present().items()
            if _is_pandas(frame) and frame.index.nlevels == 1 and frame.index.name is not None
        }

    def _present(self) -> dict[str, Any]:
        frames = self._frames() if callable(self._frames) else self._frames
        _check_names(frames)
        present = {}
        for name, given in frames.items():
            frame = given if _is_frame(given) or not callable(given) else given()
            if not _is_frame(frame):
                msg = f"frame {name!r} must be a pandas or Polars DataFrame, not {_kind(frame)}"
                raise TypeError(msg)
            present[name] = frame
        return present

    def _columns(self, name: str, frame: Any) -> dict[str, Callable[[], list[Any]]]:
        """The columns of a frame, and how to read the values of each."""
        found: dict[str, Callable[[], list[Any]]] = {}
        for label, read in self._labelled(name, frame):
            column = _text(label)
            if column in found:
                msg = f"frame {name!r} has two columns named {column!r}: rename one of them"
                raise ValueError(msg)
            found[column] = read
        return found

    def _labelled(self, name: str, frame: Any) -> list[tuple[Any, Callable[[], list[Any]]]]:
        # Loaded here, and only the one that is needed: capture brings in neither library.
        if not _is_pandas(frame):
            from envbench.capture.polars_values import polars_values

            return [(series.name, partial(polars_values, series)) for series in frame.get_columns()]
        from envbench.capture.pandas_values import numbers_rows, only_integers, pandas_values

        # Dropping a row makes labels of what were positions; they are still no data.
        numbered = self._numbered.setdefault(name, numbers_rows(frame.index))
        index = frame.index
        levels: list[tuple[Any, Any]] = []
        if index.nlevels > 1:
            levels = [
                (f"level_{i}" if label is None else label, index.get_level_values(i))
                for i, label in enumerate(index.names)
            ]
        elif index.name is not None or not (numbered and only_integers(index)):
            levels = [("index" if index.name is None else index.name, index)]
        series = [(frame.columns[i], frame.iloc[:, i]) for i in range(frame.shape[1])]
        return [(label, partial(pandas_values, values)) for label, values in [*levels, *series]]


def _check_names(frames: Any) -> None:
    if not isinstance(frames, Mapping):
        msg = f"frames must map table names to frames, not be {_kind(frames)}"
        raise TypeError(msg)
    for name in frames:
        if not isinstance(name, str):
            msg = f"frames must be named by text, not by {name!r}"
            raise TypeError(msg)


def _pointers(row_keys: Mapping[str, str]) -> dict[str, str]:
    """By JSON Pointer, also where they are given by table name."""
    return {
        table if table.startswith("/") else pointer(table): key for table, key in row_keys.items()
    }


def _is_frame(value: Any) -> bool:
    polars = sys.modules.get("polars")  # loaded if there is such a frame
    return _is_pandas(value) or (polars is not None and isinstance(value, polars.DataFrame))


def _is_pandas(value: Any) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, pandas.DataFrame)


def _kind(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _text(label: Any) -> str:
    if isinstance(label, str):
        return label
    return ".".join(map(str, label)) if isinstance(label, tuple) else str(label)
