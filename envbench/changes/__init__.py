"""What differs between states: the difference, its history, and which changes were allowed."""

from envbench.changes.diff import ABSENT
from envbench.changes.history import Change, changes_of, diff, history_of

__all__ = ["ABSENT", "Change", "changes_of", "diff", "history_of"]
