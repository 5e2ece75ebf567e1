"""`no_forbidden_changes`: the rules on changes as a check."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from envbench.changes.rules import Rule
from envbench.changes.violations import find_violations
from envbench.checks.outcome import OutcomeCheck, OutcomeVerdict
from envbench.evidence.portable import canonical

if TYPE_CHECKING:
    from envbench.evidence import EpisodeEvidence


def no_forbidden_changes(
    *rules: Rule,
    name: str = "no_forbidden_changes",
    version: str | None = None,
    needs_audit: bool = False,
) -> OutcomeCheck:
    """A check that every change of the state was allowed.

    It answers False for a change that was not, even if it was put back, and None when states were
    not seen, or a rule's path never existed.

    Args:
        rules: `Forbid`, `AllowOnly`, `AppendOnly`, `Only`; they hold together.
        name: names the check.
        version: names the rules; by default a digest of them. Of the condition of an `Only` rule
            the digest covers the name alone, unless it is an `ActionIs`: give a version of your
            own with a function.
        needs_audit: answer None for an episode without an audit, because a change undone inside
            one step is seen by nothing else.

    Raises:
        TypeError: when a rule is none.
        ValueError: when there is no rule.
    """
    if not rules:
        raise ValueError("no_forbidden_changes needs at least one rule")
    for rule in rules:
        if not isinstance(rule, Rule):
            raise TypeError(f"a rule must be Forbid, AllowOnly, AppendOnly or Only, not {rule!r}")

    def judge(episode: EpisodeEvidence) -> OutcomeVerdict:
        found = find_violations(episode, rules)
        evidence = {
            "findings": [finding.to_dict() for finding in found.findings],
            "unmatched_rules": list(found.unmatched_rules),
            "missing_states": list(found.missing_states),
            "undecided": list(found.undecided),
            "resolution": found.resolution,
        }
        if found.notes:
            evidence["notes"] = list(found.notes)
        if needs_audit and found.passed and found.resolution != "audit":
            why = (
                "no audit was recorded"
                if episode.data["audit"] is None
                else "the audit could not be read at every step"
            )
            reason = f"{why}, so a change undone inside one step would be unseen"
            return OutcomeVerdict(None, reason, evidence)
        return OutcomeVerdict(found.passed, found.reason, evidence)

    described = canonical([rule.to_dict() for rule in rules] + [needs_audit])
    return OutcomeCheck(name, version or hashlib.sha256(described).hexdigest()[:16], judge)
