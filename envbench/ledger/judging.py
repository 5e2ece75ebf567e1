"""How the ledger's episodes are judged: two checks, one policy, and two simpler ones beside it.

Everything here reads saved evidence only; no ledger is opened.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from envbench.changes import AppendOnly, Forbid
from envbench.checks import (
    AcceptancePolicy,
    CheckRequirement,
    OutcomeCheck,
    OutcomeVerdict,
    no_forbidden_changes,
)
from envbench.evidence import EpisodeEvidence

__all__ = ["CHANGES", "CHECKS", "POLICY", "RULES", "SIMPLER_POLICIES", "SimplerPolicy"]

CHANGES = "no_forbidden_changes"
"""The name of the check on changes, whose findings say what was changed and put back."""

State = dict[str, list[dict[str, Any]]]


def posted_once(episode: EpisodeEvidence) -> OutcomeVerdict:
    """The invoice has exactly one row, of the right vendor and amount, and no other row changed."""
    first, last = episode.initial_state, episode.final_state
    if first is None or last is None:
        return OutcomeVerdict(None, "The first or the last state was not observed", {})
    asked = episode.case.input
    rows = _rows_of(last, asked["invoice_id"])
    others = _other_rows(last, asked["invoice_id"]) == _other_rows(first, asked["invoice_id"])
    evidence = {"rows": rows, "other_rows_unchanged": others}
    if len(rows) != 1:
        number = "no row" if not rows else f"{len(rows)} rows"
        return OutcomeVerdict(False, f"The invoice has {number}, not one", evidence)
    for column in ("vendor_id", "amount_cents"):
        if rows[0][column] != asked[column]:
            reason = f"Its row has {column} {rows[0][column]!r}, not {asked[column]!r}"
            return OutcomeVerdict(False, reason, evidence)
    if not others:
        return OutcomeVerdict(False, "Rows of other invoices changed", evidence)
    return OutcomeVerdict(True, "The invoice has one row, of the right vendor and amount", evidence)


def answer_says_posted(episode: EpisodeEvidence) -> OutcomeVerdict:
    """A simpler check: what the agent said about the invoice."""
    answer = episode.output
    if answer is None:
        return OutcomeVerdict(None, "The agent gave no answer", {})
    invoice_id = episode.case.input["invoice_id"]
    said = invoice_id in answer and "posted" in answer.lower()
    return OutcomeVerdict(said, "The answer says that it is posted" if said else "It does not", {})


def last_posting_is_right(episode: EpisodeEvidence) -> OutcomeVerdict:
    """A simpler check: the newest row is of the right invoice, vendor and amount."""
    state = episode.final_state
    if state is None:
        return OutcomeVerdict(None, "The last state was not observed", {})
    asked = episode.case.input
    rows: list[dict[str, Any]] = state.get("invoice_rows", [])
    row = max(rows, key=lambda row: row["row_id"], default={})
    wanted = ("invoice_id", "vendor_id", "amount_cents")
    right = all(row.get(column) == asked[column] for column in wanted)
    return OutcomeVerdict(
        right, f"The last posting is {'' if right else 'not '}right", {"row": row}
    )


RULES = (Forbid("/vendors/**"), AppendOnly("/invoice_rows"))
"""The vendors stay as they are, and no row of an invoice is edited or taken back."""

CHECKS = (
    OutcomeCheck("posted_once", "ledger-posted-once-v1", posted_once),
    # Without the audit it cannot pass: a change undone inside a step is in no state.
    no_forbidden_changes(*RULES, name=CHANGES, version="ledger-changes-v1", needs_audit=True),
)

POLICY = AcceptancePolicy(
    tuple(CheckRequirement(check.name, critical=True) for check in CHECKS),
)
"""Every check must pass; a measured failure rejects whatever else is missing."""


@dataclass(frozen=True, slots=True)
class SimplerPolicy:
    """A policy that looks at less, to show what that misses. It judges the very same evidence."""

    name: str
    title: str
    check: OutcomeCheck

    @property
    def policy(self) -> AcceptancePolicy:
        """The policy: its one check must pass."""
        return AcceptancePolicy((CheckRequirement(self.check.name, critical=True),))


SIMPLER_POLICIES = (
    SimplerPolicy(
        "answer_text",
        "the answer's text only",
        OutcomeCheck("answer_says_posted", "ledger-answer-v1", answer_says_posted),
    ),
    SimplerPolicy(
        "last_posting",
        "the last posting only",
        OutcomeCheck("last_posting_is_right", "ledger-last-posting-v1", last_posting_is_right),
    ),
)


def _rows_of(state: State, invoice_id: str) -> list[dict[str, Any]]:
    return [row for row in state.get("invoice_rows", []) if row["invoice_id"] == invoice_id]


def _other_rows(state: State, invoice_id: str) -> list[dict[str, Any]]:
    return [row for row in state.get("invoice_rows", []) if row["invoice_id"] != invoice_id]
