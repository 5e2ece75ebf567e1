"""The checks of a comparison as the rows of a chart, the worst first."""

from __future__ import annotations

from envbench.comparison import CheckComparison, Comparison
from envbench.comparison.words import Scope
from envbench.workbench.charts.figures import count, in_words
from envbench.workbench.charts.rows import Rows, lay_out

MOST_CHECKS = 60
"""Rows of a chart; a comparison of more checks shows the worst and says how many there are."""


def check_rows(comparison: Comparison) -> Rows[CheckComparison]:
    """Lay out the checks of a comparison, those with the lowest difference first."""
    return lay_out(
        worst_first(comparison)[:MOST_CHECKS],
        lambda check: check.name,
        tip=lambda check: in_words(check, comparison.treatment),
        below=_versions,
    )


def worst_first(comparison: Comparison) -> list[CheckComparison]:
    """The checks by their difference, the lowest first; those without one are last."""
    return sorted(
        comparison.checks,
        key=lambda check: (
            check.difference is None,
            0.0 if check.difference is None else check.difference,
            -len(check.broke),
            check.name,
        ),
    )


def about(comparison: Comparison, most_checks: int = MOST_CHECKS) -> list[str]:
    """What stands under the title of every chart of a comparison."""
    names = f"{comparison.baseline_name} → {comparison.candidate_name}"
    scope = f"{Scope.of(comparison)}."
    lines = [f"{names}: {scope}"] if len(names) < _SHORT else [names, scope]
    if comparison.blocked:
        parts = list(dict.fromkeys(part for part, _, _ in comparison.blocked))
        lines.append(
            f"Descriptive only: {', '.join(parts)} {'differs' if len(parts) == 1 else 'differ'} "
            f"beside the {comparison.treatment}, so that there is no verdict."
        )
    if len(comparison.checks) > most_checks:
        lines.append(
            f"The {most_checks} worst of {count(len(comparison.checks), 'check')} are shown."
        )
    return lines


_SHORT = 60


def _versions(check: CheckComparison) -> str:
    if check.baseline_version == check.candidate_version:
        return ""
    sides = (check.baseline_version, check.candidate_version)
    return " → ".join("not judged" if side is None else side for side in sides)
