"""Checks over saved evidence, the reports they make, and the decisions about them."""

from envbench.checks.acceptance import AcceptancePolicy, CheckRequirement, SliceRequirement
from envbench.checks.decision import Decision, Finding, Measurement, NotAccepted
from envbench.checks.evaluation import evaluate, evaluate_episode
from envbench.checks.forbidden import no_forbidden_changes
from envbench.checks.lock import Lock
from envbench.checks.outcome import OutcomeCheck, OutcomeVerdict, SqlCheck
from envbench.checks.report import Rate, Report
from envbench.checks.rows import CheckIdentity, CheckResult, JudgedEpisode

__all__ = [
    "AcceptancePolicy",
    "CheckIdentity",
    "CheckRequirement",
    "CheckResult",
    "Decision",
    "Finding",
    "JudgedEpisode",
    "Lock",
    "Measurement",
    "NotAccepted",
    "OutcomeCheck",
    "OutcomeVerdict",
    "Rate",
    "Report",
    "SliceRequirement",
    "SqlCheck",
    "evaluate",
    "evaluate_episode",
    "no_forbidden_changes",
]
