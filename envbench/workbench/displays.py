"""Rich displays: what a notebook shows for the values of envbench.

The classes know no HTML. They are registered by name with IPython, which looks a name up when a
value of that class is displayed; until then nothing of this package is imported. The plain text of
a value stays its `repr`, for terminals and for readers without HTML.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

DISPLAYS: dict[str, tuple[str, str]] = {
    "envbench.evidence.episode.EpisodeEvidence": ("page", "episode_html"),
    "envbench.checks.report.Report": ("judgements", "report_html"),
    "envbench.checks.decision.Decision": ("judgements", "decision_html"),
    "envbench.changes.violations.Violations": ("judgements", "violations_html"),
    "envbench.store.store.Store": ("store_view", "store_html"),
    "envbench.store.result.Result": ("tables", "result_html"),
    "envbench.store.integrity.Verification": ("judgements", "verification_html"),
    "envbench.comparison.comparison.Comparison": ("comparison_view", "comparison_html"),
    "envbench.comparison.comparison.Comparisons": ("comparison_view", "comparisons_html"),
    "envbench.evidence.frames.Frame": ("frame_view", "frame_html"),
}
"""Classes by their full name, with the module of this package and the function that shows them."""


def register(ipython: InteractiveShell) -> None:
    """Let a notebook show the values of envbench; a second call does nothing more.

    Args:
        ipython: the running shell, as `IPython.get_ipython()` gives it.
    """
    assert ipython.display_formatter is not None
    formatter = ipython.display_formatter.mimebundle_formatter
    for name, (module, function) in DISPLAYS.items():
        package, _, kind = name.rpartition(".")
        formatter.for_type_by_name(package, kind, _bundle(module, function))


def register_where_shown() -> None:
    """Register the displays with the shell that is running, if there is one."""
    find = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell = find() if find else None
    if shell is not None and shell.display_formatter is not None:
        register(shell)


def _bundle(module: str, function: str) -> Callable[..., dict[str, str]]:
    def bundle(value: Any, include: Any = None, exclude: Any = None) -> dict[str, str]:
        home = importlib.import_module(f"envbench.workbench.{module}")
        return {"text/html": getattr(home, function)(value)}

    return bundle
