"""envbench: record Gymnasium episodes as evidence and judge what agents did to the world.

The public names are loaded when they are first used, so that `import envbench` costs nothing and
a training job imports only what capture needs.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from envbench.capture import (
        EpisodeCaptureWrapper,
        Provenance,
        capture_episode,
        capture_episodes,
        capture_vector,
        observe,
    )
    from envbench.changes import (
        AllowOnly,
        AppendOnly,
        Change,
        Forbid,
        Only,
        diff,
        find_violations,
    )
    from envbench.checks import (
        AcceptancePolicy,
        CheckRequirement,
        Decision,
        NotAccepted,
        OutcomeCheck,
        OutcomeVerdict,
        Report,
        SliceRequirement,
        SqlCheck,
        evaluate,
        evaluate_episode,
        no_forbidden_changes,
    )
    from envbench.comparison import Comparison, Episodes, compare
    from envbench.evidence import EpisodeEvidence, EvalCase
    from envbench.store import Store, connect

__version__ = "0.1.0"

__all__ = [
    "AcceptancePolicy",
    "AllowOnly",
    "AppendOnly",
    "Change",
    "CheckRequirement",
    "Comparison",
    "Decision",
    "EpisodeCaptureWrapper",
    "EpisodeEvidence",
    "Episodes",
    "EvalCase",
    "Forbid",
    "NotAccepted",
    "Only",
    "OutcomeCheck",
    "OutcomeVerdict",
    "Provenance",
    "Report",
    "SliceRequirement",
    "SqlCheck",
    "Store",
    "__version__",
    "capture_episode",
    "capture_episodes",
    "capture_vector",
    "compare",
    "connect",
    "diff",
    "evaluate",
    "evaluate_episode",
    "find_violations",
    "no_forbidden_changes",
    "observe",
]

_PACKAGES = {
    "evidence": ("EpisodeEvidence", "EvalCase"),
    "changes": (
        "AllowOnly",
        "AppendOnly",
        "Change",
        "Forbid",
        "Only",
        "diff",
        "find_violations",
    ),
    "store": ("Store", "connect"),
    "capture": (
        "EpisodeCaptureWrapper",
        "Provenance",
        "capture_episode",
        "capture_episodes",
        "capture_vector",
        "observe",
    ),
    "checks": (
        "AcceptancePolicy",
        "CheckRequirement",
        "Decision",
        "NotAccepted",
        "OutcomeCheck",
        "OutcomeVerdict",
        "Report",
        "SliceRequirement",
        "SqlCheck",
        "evaluate",
        "evaluate_episode",
        "no_forbidden_changes",
    ),
    "comparison": ("Comparison", "Episodes", "compare"),
}
_HOME = {name: f"envbench.{package}" for package, names in _PACKAGES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Load a public name from its package, once."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Every public name, loaded or not."""
    return sorted({*globals(), *__all__})


def load_ipython_extension(ipython: InteractiveShell) -> None:
    """`%load_ext envbench`: the `%%sql` magic, and rich displays."""
    from envbench.workbench import displays, magic

    displays.register(ipython)
    magic.load(ipython)


def _show_in_notebook() -> None:
    """Register the rich displays where IPython is running: nobody loads an extension for those."""
    find = getattr(sys.modules.get("IPython"), "get_ipython", None)
    if find is not None and find() is not None:
        from envbench.workbench import displays

        displays.register_where_shown()


_show_in_notebook()
