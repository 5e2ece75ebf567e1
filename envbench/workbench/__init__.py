"""What JupyterLab shows: the stepper, the browser, the comparison view, charts, export.

The names are loaded when they are first used: Altair, Jupyter and widgets are costly to import,
and who draws a chart needs no widget.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from envbench.workbench.displays import register_where_shown

if TYPE_CHECKING:
    from envbench.workbench import charts
    from envbench.workbench.browser import EvidenceBrowser
    from envbench.workbench.comparison_view import comparison_html, comparison_page
    from envbench.workbench.comparison_widget import ComparisonView
    from envbench.workbench.export import export_notebook
    from envbench.workbench.page import episode_html, episode_page
    from envbench.workbench.stepper import EpisodeStepper

__all__ = [
    "ComparisonView",
    "EpisodeStepper",
    "EvidenceBrowser",
    "charts",
    "comparison_html",
    "comparison_page",
    "episode_html",
    "episode_page",
    "export_notebook",
]

_MODULES = {
    "browser": ("EvidenceBrowser",),
    "comparison_view": ("comparison_html", "comparison_page"),
    "comparison_widget": ("ComparisonView",),
    "export": ("export_notebook",),
    "page": ("episode_html", "episode_page"),
    "stepper": ("EpisodeStepper",),
}
_HOME = {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Load a public name from its module, once."""
    if name == "charts":
        return importlib.import_module(f"{__name__}.charts")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Every public name, loaded or not."""
    return sorted({*globals(), *__all__})


# A shell may have been started after `import envbench`, which shows the values where it finds one.
register_where_shown()
