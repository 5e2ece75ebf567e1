"""FrameObserver: the rows of pandas and Polars frames, as exact values."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from envbench.capture.observers import FrameObserver
from envbench.changes import Forbid, find_violations
from envbench.evidence import EpisodeEvidence
from envbench.evidence.tagged import Named, encode
from envbench.store import Store

BERLIN = ZoneInfo("Europe/Berlin")
NANO = "2026-01-01 00:00:00.000000001"


def rows(frame: Any) -> list[dict[str, Any]]:
    return FrameObserver({"t": frame})()["t"]


def values(column: Any) -> list[Any]:
    """The values of one pandas column or Polars series, through a frame."""
    named = "column"
    frame = column.to_frame(named) if isinstance(column, pl.Series) else pd.DataFrame()
    if not isinstance(column, pl.Series):
        frame[named] = column
    return [row[named] for row in rows(frame)]


def same(found: Any, expected: Any) -> bool:
    """Equal, of the same types and with the same digits."""
    return repr(found) == repr(expected)


def test_rows_of_a_pandas_frame() -> None:
    frame = pd.DataFrame({"id": [1, 2], "name": ["Ada", "Bob"], "open": [True, False]})
    assert same(
        rows(frame),
        [{"id": 1, "name": "Ada", "open": True}, {"id": 2, "name": "Bob", "open": False}],
    )


def test_rows_of_a_polars_frame() -> None:
    frame = pl.DataFrame({"id": [1, 2], "name": ["Ada", None], "open": [True, False]})
    assert same(
        rows(frame),
        [{"id": 1, "name": "Ada", "open": True}, {"id": 2, "name": None, "open": False}],
    )


PANDAS: dict[str, tuple[Any, list[Any]]] = {
    "integers": (pd.array([1, 2], dtype="int8"), [1, 2]),
    "large integers": (np.array([2**64 - 1], dtype="uint64"), [2**64 - 1]),
    "floats and NaN": ([1.5, np.nan, -0.0, np.inf], [1.5, float("nan"), -0.0, float("inf")]),
    "single precision": (np.array([0.1], dtype="float32"), [0.10000000149011612]),
    "complex": (np.array([1 + 2j], dtype="complex64"), [1 + 2j]),
    "text, missing": (pd.array(["a", None], dtype="str"), ["a", None]),
    "text, nullable": (pd.array(["a", None], dtype="string"), ["a", None]),
    "nullable integers": (pd.array([2**53 + 1, None], dtype="Int64"), [2**53 + 1, None]),
    "nullable floats": (pd.array([1.5, None], dtype="Float64"), [1.5, None]),
    "nullable booleans": (pd.array([True, None], dtype="boolean"), [True, None]),
    "categories": (pd.Categorical(["x", None, "x"]), ["x", None, "x"]),
    "categories that are dates": (
        pd.Categorical(pd.to_datetime(["2026-01-02", None])),
        [datetime(2026, 1, 2), None],
    ),
    "dates and NaT": (pd.to_datetime(["2026-01-02 03:04:05.5", None]),
                      [datetime(2026, 1, 2, 3, 4, 5, 500_000), None]),
    "nanoseconds": (pd.to_datetime([NANO]), [np.datetime64(NANO.replace(" ", "T"))]),
    "a year that Python has not": (
        np.array(["20000-01-01"], dtype="datetime64[s]"),
        [np.datetime64("20000-01-01T00:00:00")],
    ),
    "zones": (
        pd.to_datetime(["2026-07-01 12:00", None]).tz_localize("Europe/Berlin"),
        [datetime(2026, 7, 1, 12, tzinfo=BERLIN), None],
    ),
    "the second 2:30 of a night": (
        pd.DatetimeIndex(["2026-10-25 02:30"]).tz_localize("Europe/Berlin", ambiguous=[False]),
        [datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1)],
    ),
    "UTC": (pd.to_datetime(["2026-01-01"]).tz_localize(UTC), [datetime(2026, 1, 1, tzinfo=UTC)]),
    "fixed offsets": (
        pd.to_datetime(["2026-01-01"]).tz_localize("+05:30"),
        [datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=5, minutes=30)))],
    ),
    "nanoseconds in a zone": (
        pd.to_datetime([NANO]).tz_localize("Europe/Berlin"),
        [Named("datetime", {"utc": np.datetime64("2025-12-31T23:00:00.000000001"),
                            "zone": "Europe/Berlin"})],
    ),
    "durations": (pd.to_timedelta(["1 day 00:00:01", None]), [timedelta(days=1, seconds=1), None]),
    "short durations": (pd.to_timedelta([1], unit="ns"), [np.timedelta64(1, "ns")]),
    "periods": (
        pd.period_range("2026-01", periods=1, freq="M"),
        [Named("pandas.Period", {"text": "2026-01", "ordinal": 672, "frequency": "M"})],
    ),
    "intervals": (
        pd.arrays.IntervalArray.from_tuples([(0, 1), None]),
        [Named("pandas.Interval", {"left": 0.0, "right": 1.0, "closed": "right"}), None],
    ),
    "sparse": (pd.arrays.SparseArray([0, 7]), [0, 7]),
    "long doubles": (np.array([1], dtype="longdouble") / 3, [np.longdouble(1) / 3]),
    "objects": (
        pd.Series([None, float("nan"), pd.NaT, pd.NA, b"\xff", Decimal("1.50"), np.int64(3),
                   [pd.Timestamp("2026-01-01"), {"a": pd.NA}]], dtype=object),
        [None, float("nan"), Named("pandas.NaT", None), Named("pandas.NA", None), b"\xff",
         Decimal("1.50"), np.int64(3), [datetime(2026, 1, 1), {"a": Named("pandas.NA", None)}]],
    ),
    "Arrow decimals": (
        pd.array([Decimal("1.50"), None], dtype=pd.ArrowDtype(pa.decimal128(9, 2))),
        [Decimal("1.50"), None],
    ),
    "Arrow floats: NaN is not null": (
        pd.Series(pd.arrays.ArrowExtensionArray(pa.array([float("nan"), None]))),
        [float("nan"), None],
    ),
    "Arrow times": (
        pd.Series(pd.arrays.ArrowExtensionArray(pa.array([1, 1_000], pa.time64("ns")))),
        [Named("time", {"nanoseconds": 1}), time(0, 0, 0, 1)],
    ),
    "Arrow lists of dates": (
        pd.Series(pd.arrays.ArrowExtensionArray(pa.array([[1], None], pa.list_(pa.date32())))),
        [[date(1970, 1, 2)], None],
    ),
    "Arrow maps": (
        pd.Series(
            pd.arrays.ArrowExtensionArray(pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int8())))
        ),
        [[{"key": "a", "value": 1}]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", PANDAS)
def test_pandas_values_are_exact(kind: str) -> None:
    column, expected = PANDAS[kind]
    assert same(values(column), expected)


POLARS: dict[str, tuple[pl.Series, list[Any]]] = {
    "integers": (pl.Series([1, None], dtype=pl.UInt8), [1, None]),
    "wide integers": (pl.Series([2**100, None], dtype=pl.Int128), [2**100, None]),
    "floats: NaN is not null": (pl.Series([1.5, float("nan"), None]), [1.5, float("nan"), None]),
    "dates": (pl.Series([date(2026, 1, 2), None]), [date(2026, 1, 2), None]),
    "a day that Python has not": (
        pl.Series([10**8], dtype=pl.Int32).cast(pl.Date), [np.datetime64("275760-09-13")],
    ),
    "milliseconds": (
        pl.Series([1_500, None]).cast(pl.Datetime("ms")),
        [datetime(1970, 1, 1, 0, 0, 1, 500_000), None],
    ),
    "nanoseconds": (
        pl.Series([1_001, 1_000]).cast(pl.Datetime("ns")),
        [np.datetime64(1_001, "ns"), datetime(1970, 1, 1, 0, 0, 0, 1)],
    ),
    "zones": (
        pl.Series([0]).cast(pl.Datetime("us", "Europe/Berlin")),
        [datetime(1970, 1, 1, 1, tzinfo=BERLIN)],
    ),
    "durations": (
        pl.Series([1_001, 1_000, None]).cast(pl.Duration("ns")),
        [np.timedelta64(1_001, "ns"), timedelta(microseconds=1), None],
    ),
    "times": (
        pl.Series([1, 3_600_000_000_000]).cast(pl.Time),
        [Named("time", {"nanoseconds": 1}), time(1)],
    ),
    "decimals": (pl.Series([Decimal("1.50"), None]), [Decimal("1.50"), None]),
    "enums": (pl.Series(["a", None], dtype=pl.Enum(["a", "b"])), ["a", None]),
    "categories": (pl.Series(["a", None], dtype=pl.Categorical), ["a", None]),
    "lists": (pl.Series([[1, None], [], None]), [[1, None], [], None]),
    "lists of durations": (
        pl.Series([[1_001], None]).cast(pl.List(pl.Duration("ns"))),
        [[np.timedelta64(1_001, "ns")], None],
    ),
    "arrays of dates": (
        pl.Series([[0, 1]], dtype=pl.Array(pl.Int32, 2)).cast(pl.Array(pl.Date, 2)),
        [[date(1970, 1, 1), date(1970, 1, 2)]],
    ),
    "structs": (
        pl.Series([{"on": date(2026, 1, 1), "n": 1}, {"on": None, "n": None}, None]),
        [{"on": date(2026, 1, 1), "n": 1}, {"on": None, "n": None}, None],
    ),
    "bytes": (pl.Series([b"\xff", None]), [b"\xff", None]),
    "nothing": (pl.Series([None, None]), [None, None]),
    "objects": (pl.Series([{1}], dtype=pl.Object), [{1}]),
}  # fmt: skip


@pytest.mark.parametrize("kind", POLARS)
def test_polars_values_are_exact(kind: str) -> None:
    column, expected = POLARS[kind]
    assert same(values(column), expected)


def test_every_value_comes_back_from_the_store(
    capture: Callable[..., EpisodeEvidence], scripted: Any, store: Store
) -> None:
    state = {
        f"{library}, {kind}": values(column)
        for library, kinds in (("pandas", PANDAS), ("polars", POLARS))
        for kind, (column, _) in kinds.items()
    }
    episode = capture(scripted((1, 0.0, True, False, {})), [1], observe=lambda: state, store=store)
    back = store.episode(episode.episode_id)
    assert back.coverage_issues == []
    for kind, expected in state.items():
        assert encode(back.final_state[kind]) == encode(expected), kind
        assert encode(back.states[0][kind]) == encode(expected), kind


def test_a_moment_is_the_same_value_whatever_unit_its_column_has() -> None:
    moment = pd.to_datetime(["2026-01-01"])
    shown = [values(moment.as_unit(unit)) for unit in ("s", "ms", "us", "ns")]
    assert shown == [[datetime(2026, 1, 1)]] * 4


def test_a_named_index_is_a_column_and_the_key() -> None:
    frame = pd.DataFrame({"cents": [10, 20]}, index=pd.Index(["a", "b"], name="account"))
    observer = FrameObserver({"accounts": frame, "a/b": frame})
    expected = [{"account": "a", "cents": 10}, {"account": "b", "cents": 20}]
    assert observer()["accounts"] == expected
    assert observer.row_keys == {"/accounts": "account", "/a~1b": "account"}


def test_an_index_that_numbers_the_rows_is_no_column_also_after_rows_were_dropped() -> None:
    frames = {"t": pd.DataFrame({"x": [7, 8, 9]})}
    observer = FrameObserver({"t": lambda: frames["t"]})
    assert observer()["t"] == [{"x": 7}, {"x": 8}, {"x": 9}]
    frames["t"] = frames["t"].drop(1)
    assert observer()["t"] == [{"x": 7}, {"x": 9}]
    frames["t"] = frames["t"].iloc[:0]
    assert observer()["t"] == []
    assert observer.row_keys == {}


def test_an_index_of_labels_is_a_column_also_without_a_name() -> None:
    assert rows(pd.DataFrame({"x": [7]}, index=["a"])) == [{"index": "a", "x": 7}]
    assert rows(pd.DataFrame({"x": [7]}, index=[101])) == [{"index": 101, "x": 7}]


def test_labels_that_come_later_are_not_lost() -> None:
    frames = {"t": pd.DataFrame({"x": [7]})}
    observer = FrameObserver({"t": lambda: frames["t"]})
    assert observer()["t"] == [{"x": 7}]
    frames["t"] = pd.DataFrame({"x": [7]}, index=["a"])
    assert observer()["t"] == [{"index": "a", "x": 7}]


def test_the_levels_of_an_index_are_columns() -> None:
    index = pd.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["account", None])
    observer = FrameObserver({"t": pd.DataFrame({"x": [7, 8]}, index=index)})
    assert observer()["t"] == [
        {"account": "a", "level_1": 1, "x": 7},
        {"account": "b", "level_1": 2, "x": 8},
    ]
    assert observer.row_keys == {}


def test_names_of_columns_are_spelled_as_text() -> None:
    frame = pd.DataFrame([[1, 2, 3]], columns=pd.Index([0, ("a", "b"), "c"], dtype=object))
    assert rows(frame) == [{"0": 1, "a.b": 2, "c": 3}]
    frame = pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("sum", 2026)]))
    assert rows(frame) == [{"sum.2026": 1}]


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame([[1, 2]], columns=["a", "a"]),
        pd.DataFrame([[1, 2]], columns=pd.Index([0, "0"], dtype=object)),
        pd.DataFrame({"a": [1]}, index=pd.Index([5], name="a")),
    ],
)
def test_two_columns_of_one_name_are_refused(frame: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match=r"frame 't' has two columns named '[a0]': rename one"):
        rows(frame)


def test_a_frame_that_is_changed_in_place_is_seen_right() -> None:
    frame = pd.DataFrame({"id": [1], "cents": [10], "tags": [["new"]]})
    observer = FrameObserver({"t": frame})
    before = observer()
    frame.loc[0, "cents"] = 20
    frame.loc[0, "tags"].append("seen")
    assert before == {"t": [{"id": 1, "cents": 10, "tags": ["new"]}]}
    assert observer() == {"t": [{"id": 1, "cents": 20, "tags": ["new", "seen"]}]}


def test_frames_may_be_given_by_one_callable_and_come_and_go() -> None:
    frames: dict[str, Any] = {"a": pl.DataFrame({"x": [1]})}
    observer = FrameObserver(lambda: frames)
    assert observer() == {"a": [{"x": 1}]}
    frames["b"] = lambda: pd.DataFrame({"y": [2]})
    del frames["a"]
    assert observer() == {"b": [{"y": 2}]}


def test_row_keys_that_are_given_need_no_frame() -> None:
    def not_yet() -> Any:
        raise AssertionError

    observer = FrameObserver(not_yet, row_keys={"a": "id", "/b~1c": "key"})
    assert observer.row_keys == {"/a": "id", "/b~1c": "key"}


def test_include_and_exclude() -> None:
    frames = {"a": pl.DataFrame({"x": [1], "y": [2]}), "b": pl.DataFrame({"z": [3]})}
    assert FrameObserver(frames, include=["a"])() == {"a": [{"x": 1, "y": 2}]}
    assert FrameObserver(frames, exclude=["b", ("a", "x")])() == {"a": [{"y": 2}]}
    assert FrameObserver(frames, exclude=["b", ("a", "x"), ("a", "y")])() == {"a": [{}]}
    with pytest.raises(LookupError, match="exclude names 'c', which is not in the frames"):
        FrameObserver(frames, exclude=["c"])()


def test_what_is_no_frame_is_refused() -> None:
    with pytest.raises(TypeError, match=r"frame 'a' must be a pandas or Polars DataFrame, not .*"):
        FrameObserver({"a": pl.DataFrame({"x": [1]}).lazy()})()
    with pytest.raises(TypeError, match=r"frames must map table names to frames, not be .*Index"):
        FrameObserver(pd.Series([1]).to_frame().columns)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="frames must be named by text, not by 1"):
        FrameObserver({1: pd.DataFrame()})  # type: ignore[dict-item]


@pytest.mark.parametrize("frame", [pd.DataFrame({"x": []}), pl.DataFrame({"x": []})])
def test_an_empty_frame_is_an_empty_list(frame: Any) -> None:
    assert rows(frame) == []


@pytest.mark.parametrize(("used", "other"), [("pandas", "polars"), ("polars", "pandas")])
def test_only_the_library_that_is_used_is_loaded(used: str, other: str) -> None:
    program = (
        "import json, sys\n"
        "from envbench.capture.observers import FrameObserver\n"
        "bare = sorted({'pandas', 'polars', 'psycopg'} & set(sys.modules))\n"
        f"import {used} as library\n"
        "state = FrameObserver({'t': library.DataFrame({'x': [1]})})()\n"
        f"print(json.dumps([bare, state, {other!r} in sys.modules]))"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert json.loads(run.stdout) == [[], {"t": [{"x": 1}]}, False]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_change_that_is_put_back_is_found(
    library: str, capture: Callable[..., EpisodeEvidence], scripted: Any
) -> None:
    make = pd.DataFrame if library == "pandas" else pl.DataFrame
    world = {"accounts": make({"id": [1, 2], "cents": [10, 20]})}

    def write(cents: int) -> Callable[[], Any]:
        def step() -> Any:
            if library == "pandas":
                world["accounts"].loc[0, "cents"] = cents
            else:
                changed = pl.when(pl.col("id") == 1).then(cents).otherwise("cents")
                world["accounts"] = world["accounts"].with_columns(cents=changed)
            return 1, 0.0, False, False, {}

        return step

    observer = FrameObserver(lambda: world, row_keys={"accounts": "id"})
    episode = capture(
        scripted(write(11), write(10)),
        [0, 1],
        observe=observer,
        row_keys=observer.row_keys,
    )
    found = find_violations(episode, [Forbid("/accounts/**")])
    (finding,) = found.findings
    assert (finding.path, finding.kind, finding.step) == ("/accounts/id=1/cents", "restored", 1)
    assert (finding.before, finding.during, finding.restored_at) == (10, (11,), 2)
