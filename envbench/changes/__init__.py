"""What differs between states: the difference, its history, and which changes were allowed."""

from envbench.changes.history import Change, changes_of, diff, history_of
from envbench.changes.rules import AllowOnly, AppendOnly, Forbid, Only
from envbench.changes.violations import Finding, Violations, find_violations
from envbench.evidence.tagged import ABSENT

__all__ = [
    "ABSENT",
    "AllowOnly",
    "AppendOnly",
    "Change",
    "Finding",
    "Forbid",
    "Only",
    "Violations",
    "changes_of",
    "diff",
    "find_violations",
    "history_of",
]
