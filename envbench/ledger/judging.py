"""How the ledger's episodes are judged: three checks, one policy, and two simpler ones beside it.

Everything here reads saved evidence only; no ledger is opened.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from envbench.checks import AcceptancePolicy, CheckRequirement, OutcomeCheck, OutcomeVerdict
from envbench.evidence import EpisodeEvidence

__all__ = ["CHECKS", "POLICY", "SIMPLER_POLICIES", "SimplerPolicy"]

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


def vendors_between_steps(episode: EpisodeEvidence) -> OutcomeVerdict:
    """No state between two steps shows the vendors other than they were at first.

    It cannot see a change undone inside one step, and does not promise to.
    """
    first = episode.initial_state
    if first is None:
        return OutcomeVerdict(None, "The first state was not observed", {})
    changes = list(_vendor_changes(episode))
    if changes:
        change = changes[0]
        put_back = change["restored_at"]
        until = "and never put back" if put_back is None else f"and put back at step {put_back}"
        reason = f"Vendor {change['vendor_id']} was changed at step {change['step']} {until}"
        return OutcomeVerdict(False, reason, {"changes": changes})
    unseen = [index for index, state in _numbered_states(episode) if state is None]
    if unseen:
        return OutcomeVerdict(None, "Some states were not observed", {"steps": unseen})
    return OutcomeVerdict(True, "Every state shows the vendors as they were at first", {})


def vendors_ever(episode: EpisodeEvidence) -> OutcomeVerdict:
    """The vendors were never changed, not even inside a step: asked of the states and the audit.

    Without an audit this cannot be known: a change seen in the states still fails, and none seen
    is no pass. The audit must cover the table of vendors, as the ledger's does.
    """
    events = _vendor_events(episode)
    if events:
        places = ", ".join(str(step) for step in sorted({event["step"] for event in events}))
        reason = f"The audit recorded {len(events)} changes of vendors, at step {places}"
        return OutcomeVerdict(False, reason, {"events": events})
    between = vendors_between_steps(episode)
    if between.passed is False:
        return between
    if events is None:
        reason = "There is no audit: a change undone inside a step would not be seen"
        return OutcomeVerdict(None, reason, {})
    holes = [error for error in episode.errors if error["phase"] == "audit"]
    if holes:
        reason = "The audit could not be read at every step, so it may lack a change"
        return OutcomeVerdict(None, reason, {"errors": holes})
    if between.passed is None:
        return between
    return OutcomeVerdict(True, "Neither the states nor the audit show a change of vendors", {})


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


CHECKS = (
    OutcomeCheck("posted_once", "ledger-posted-once-v1", posted_once),
    OutcomeCheck("vendors_between_steps", "ledger-vendors-states-v1", vendors_between_steps),
    OutcomeCheck("vendors_ever", "ledger-vendors-states-and-audit-v1", vendors_ever),
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


def _numbered_states(episode: EpisodeEvidence) -> list[tuple[int, State | None]]:
    """The states with their steps; the final one, read before cleanup, is one step further."""
    states: list[State | None] = [*episode.states, episode.final_state]
    return list(enumerate(states))


def _vendor_changes(episode: EpisodeEvidence) -> Iterator[dict[str, Any]]:
    """Each vendor that a state shows otherwise than the first one does, and until when."""
    states = [
        (index, _vendors(state)) for index, state in _numbered_states(episode) if state is not None
    ]
    first = states[0][1]
    vendor_ids = dict.fromkeys(vendor_id for _, vendors in states for vendor_id in vendors)
    for vendor_id in vendor_ids:
        before = first.get(vendor_id)
        changed_at: int | None = None
        during: dict[str, Any] | None = None
        for index, vendors in states:
            now = vendors.get(vendor_id)
            if now != before and changed_at is None:
                changed_at, during = index, now
            elif now == before and changed_at is not None:
                yield _change(vendor_id, changed_at, before, during, index)
                changed_at = None
        if changed_at is not None:
            yield _change(vendor_id, changed_at, before, during, None)


def _vendors(state: State) -> dict[str, dict[str, Any]]:
    return {row["vendor_id"]: row for row in state.get("vendors", [])}


def _change(
    vendor_id: str, step: int, before: Any, during: Any, restored_at: int | None
) -> dict[str, Any]:
    return {
        "vendor_id": vendor_id,
        "step": step,
        "before": before,
        "during": during,
        "restored_at": restored_at,
    }


def _vendor_events(episode: EpisodeEvidence) -> list[dict[str, Any]] | None:
    """What the audit recorded of vendors after the reset; None when there was no audit."""
    audit = episode.data["audit"]
    if audit is None:
        return None
    return [
        event
        for event in audit
        if event["table"] == "vendors" and event["step"] > 0 and event["before"] != event["after"]
    ]
