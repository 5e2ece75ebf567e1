"""Comparisons as Polars frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from envbench.comparison.outcomes import LETTERS, WORDS

if TYPE_CHECKING:
    import polars as pl

    from envbench.comparison.comparison import Comparison


def of_checks(comparison: Comparison) -> pl.DataFrame:
    """One row a check; see `Comparison.frame`."""
    import polars as pl

    rows = [_row(check) for check in comparison.checks]
    return pl.DataFrame(rows, schema=_check_schema(), orient="row")


def of_many(comparisons: Sequence[Comparison]) -> pl.DataFrame:
    """One row a version and check; see `Comparisons.frame`."""
    import polars as pl

    return pl.concat(
        [
            of_checks(comparison).insert_column(
                0,
                pl.Series("candidate", [comparison.candidate_name] * len(comparison.checks)).cast(
                    pl.String
                ),
            )
            for comparison in comparisons
        ]
    )


def of_pairs(comparison: Comparison) -> pl.DataFrame:
    """One row a pair and check; see `Comparison.pairs_frame`."""
    import polars as pl

    pairs = comparison.pairs
    columns: dict[str, tuple[list[Any], Any]] = {
        "name": (list(comparison.names), pl.String()),
        "case_id": ([pair.case_id for pair in pairs], pl.String()),
        "source_id": ([pair.source_id for pair in pairs], pl.String()),
        "tags": ([list(pair.tags) for pair in pairs], pl.List(pl.String())),
        "seed": ([pair.seed for pair in pairs], _integers(pair.seed for pair in pairs)),
        "repeat": ([pair.repeat for pair in pairs], pl.Int64()),
        "baseline": ([pair.baseline for pair in pairs], pl.String()),
        "candidate": ([pair.candidate for pair in pairs], pl.String()),
    }
    base = pl.DataFrame([pl.Series(name, *column) for name, column in columns.items()])
    kind = pl.Enum(WORDS)
    words = pl.Series(WORDS, dtype=kind)
    parts = []
    for check in comparison.checks:
        ours, theirs = check.outcomes.letters()
        parts.append(
            base.with_columns(
                pl.lit(check.name).alias("check"),
                words.gather(_PLACE[ours]).alias("baseline_outcome"),
                words.gather(_PLACE[theirs]).alias("candidate_outcome"),
            )
        )
    if not parts:
        return base.clear().with_columns(
            pl.lit(None, pl.String()).alias("check"),
            pl.lit(None, kind).alias("baseline_outcome"),
            pl.lit(None, kind).alias("candidate_outcome"),
        )
    return pl.concat(parts)


_PLACE = np.zeros(256, np.uint8)
_PLACE[np.frombuffer(LETTERS, np.uint8)] = np.arange(len(LETTERS))


def _integers(values: Any) -> Any:
    """The type of a column of integers: 64 bits, or text where one does not fit them."""
    import polars as pl

    fits = all(value is None or -(2**63) <= value < 2**63 for value in values)
    return pl.Int64() if fits else pl.Int128()


def _row(check: Any) -> tuple[Any, ...]:
    low, high = check.interval or (None, None)
    rates = check.baseline_rate, check.candidate_rate
    counts = [
        getattr(rate, name)
        for rate in rates
        for name in ("passed", "failed", "unknown", "errors", "total")
    ]
    return (
        check.name,
        check.baseline_version,
        check.candidate_version,
        check.verdict,
        check.pairs,
        check.total,
        check.clusters,
        *counts,
        len(check.broke),
        len(check.fixed),
        check.difference,
        low,
        high,
        check.p,
        check.p_adjusted,
        check.lower,
        check.upper,
        check.smallest_effect,
        check.smallest_p,
        check.method,
        check.note,
    )


def _check_schema() -> dict[str, Any]:
    import polars as pl

    counts = {
        f"{side}_{name}": pl.Int64()
        for side in ("baseline", "candidate")
        for name in ("passed", "failed", "unknown", "errors", "total")
    }
    return {
        "check": pl.String(),
        "baseline_version": pl.String(),
        "candidate_version": pl.String(),
        "verdict": pl.String(),
        "pairs": pl.Int64(),
        "total": pl.Int64(),
        "clusters": pl.Int64(),
        **counts,
        "broke": pl.Int64(),
        "fixed": pl.Int64(),
        "difference": pl.Float64(),
        "low": pl.Float64(),
        "high": pl.Float64(),
        "p": pl.Float64(),
        "p_adjusted": pl.Float64(),
        "lower": pl.Float64(),
        "upper": pl.Float64(),
        "smallest_effect": pl.Float64(),
        "smallest_p": pl.Float64(),
        "method": pl.String(),
        "note": pl.String(),
    }
