"""What differs between states: the difference, its history, and which changes were allowed."""

from envbench.changes.history import Change, changes_of, diff, history_of
from envbench.changes.rules import ActionIs, AllowOnly, AppendOnly, Forbid, Only
from envbench.changes.rules_file import load_rules
from envbench.changes.violations import Finding, Violations, find_violations
from envbench.evidence.tagged import ABSENT

__all__ = [
    "ABSENT",
    "ActionIs",
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
    "load_rules",
]
