"""One episode as HTML: facts, checks, a stepper, and every step with the state read after it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from envbench.evidence.episode import Step
from envbench.evidence.tagged import decode
from envbench.ledger.environment import Tool
from envbench.ledger.markup import attribute, class_, name_, pill, text, value_
from envbench.ledger.outcomes import Outcome, describe_change
from envbench.workbench import episode_html

Row = Mapping[str, Any]
State = Mapping[str, Any]

_VERDICTS = {True: "passed", False: "failed", None: "unknown"}


def render_episode(outcome: Outcome, names: Mapping[str, str]) -> Iterator[str]:
    """The episode in a `<details>`; `names` gives the anchors of episodes by their id."""
    title = f", {outcome.trial.title}" if outcome.trial.title else ""
    yield (
        f"<details><summary><b>Version {outcome.version}, seed {outcome.seed}{text(title)}</b> "
        f"{pill(outcome.decision.decision)} "
        f'<span class="why">{text(_why(outcome))}</span></summary>'
        # The anchor is inside, so that a link to it opens the details.
        f'<div class="body" id="{attribute(outcome.name)}">'
    )
    yield from _facts(outcome, names)
    yield from _checks(outcome)
    yield from _changes(outcome)
    yield "<h4>Step through it</h4>"
    yield episode_html(outcome.episode, report=outcome.report, script=False)
    yield "<h4>Steps</h4>"
    moments = list(_moments(outcome))
    yield from _strip(outcome, moments)
    for moment in moments:
        yield from moment.render(outcome.name)
    yield "</div></details>"


def _why(outcome: Outcome) -> str:
    """What the decision rests on, in a line: what failed, else what is not known."""
    results = outcome.report.results
    for wanted in (False, None):
        for result in results:
            if result.passed is wanted:
                return result.error or result.reason
    return next(iter(outcome.episode.coverage_issues), "")


def _facts(outcome: Outcome, names: Mapping[str, str]) -> Iterator[str]:
    data, episode = outcome.episode.data, outcome.episode
    previous = data["provenance"]["previous"]
    answer = "none" if episode.output is None else f"“{text(episode.output)}”"
    facts = {
        "Agent": text(data["provenance"]["agent_id"]),
        "Answer": answer,
        "Ended": text(episode.ending),
        "Options": ", ".join(
            f"{text(name)} {text(json.dumps(value))}"
            for name, value in (data["options"] or {}).items()
        ),
        "Recovery of": f'<a href="#{attribute(names[previous])}">{text(names[previous])}</a>'
        if previous in names
        else "",
        "First and last state": "equal" if outcome.same_ends else "not equal",
        "Audit": "recorded by triggers" if data["audit"] is not None else "none was installed",
        "Coverage issues": "<br>".join(text(issue) for issue in episode.coverage_issues),
        "Files": ", ".join(
            f'<a href="{attribute(path)}">{text(kind)}</a>'
            for kind, path in outcome.to_dict()["files"].items()
        ),
        "Digest": f'<span class="digest">{text(episode.digest)}</span><br>'
        '<span class="soft small">It shows alteration, not authorship.</span>',
    }
    yield "<dl>"
    yield from (f"<dt>{name}</dt><dd>{fact}</dd>" for name, fact in facts.items() if fact)
    yield "</dl>"


def _checks(outcome: Outcome) -> Iterator[str]:
    yield (
        '<div class="scroll" role="group" aria-label="Checks" tabindex="0"><table>'
        '<caption>Checks</caption><thead><tr><th scope="col">Check</th>'
        '<th scope="col">Verdict</th><th scope="col">Reason</th></tr></thead><tbody>'
    )
    for result in outcome.report.results:
        yield (
            f'<tr><th scope="row"><code>{name_(result.check)}</code></th>'
            f"<td>{pill(_VERDICTS[result.passed])}</td>"
            f"<td>{text(result.error or result.reason)}</td></tr>"
        )
    yield "</tbody></table></div>"


def _changes(outcome: Outcome) -> Iterator[str]:
    if not outcome.changes:
        return
    yield (
        '<div class="scroll" role="group" aria-label="Forbidden changes" tabindex="0"><table>'
        '<caption>Forbidden changes</caption><thead><tr><th scope="col">Step</th>'
        '<th scope="col">Action</th><th scope="col">Path</th><th scope="col">Values</th>'
        '<th scope="col">Rule</th></tr></thead><tbody>'
    )
    for change in map(describe_change, outcome.changes):
        yield (
            f'<tr><th scope="row"><a href="#{attribute(outcome.name)}-{change["step"]}">'
            f"{change['step']}</a></th><td>{text(change['action'])}</td>"
            f"<td><code>{text(change['path'])}</code></td>"
            f"<td>{text(change['values'])}{text(change['back'])}</td>"
            f"<td><code>{text(change['rule'])}</code></td></tr>"
        )
    yield "</tbody></table></div>"


class _Moment:
    """The reset, a step, or the end: what was done, and the state that was read after it."""

    def __init__(
        self,
        index: int,
        title: str,
        lines: Sequence[str],
        before: State | None,
        state: State | None,
        events: Sequence[Row],
        keys: Mapping[str, str],
    ) -> None:
        self.index = index
        self.title = title
        self.lines = lines
        self.before = before
        self.state = state
        self.events = events
        self.keys = keys
        self.flag = ""

    @property
    def changed(self) -> bool:
        """Whether the state is another than before."""
        return self.index > 0 and self.state != self.before

    @property
    def look(self) -> str:
        """The class of its frame."""
        if self.flag:
            return "forbidden"
        return "changed" if self.changed else ""

    def render(self, name: str) -> Iterator[str]:
        """The moment as HTML; `name` makes its anchor unique."""
        yield f'<section{class_("step", self.look)} id="{attribute(name)}-{self.index}">'
        yield f"<h5>{text(self.title)}</h5>"
        yield from self.lines
        yield from self._audit()
        yield from self._state()
        yield "</section>"

    def _audit(self) -> Iterator[str]:
        if not self.events:
            return
        number = f"{len(self.events)} event{'s' if len(self.events) > 1 else ''} in the audit"
        state = " open" if self.index > 0 else ""
        if self.index == 0:
            number += " while the ledger was filled"
        yield (
            f'<details class="inner audit"{state}><summary>{number}</summary>'
            f'<div class="body scroll" role="group" aria-label="{number}" tabindex="0"><table>'
            '<thead><tr><th scope="col">What</th><th scope="col">Table</th>'
            '<th scope="col">Key</th><th scope="col">Values</th></tr></thead><tbody>'
        )
        for event in self.events:
            yield (
                f"<tr><td>{text(event['op'])}</td><td>{text(event['table'])}</td>"
                f"<td>{value_(event['key'])}</td><td>{_event_values(event)}</td></tr>"
            )
        yield "</tbody></table></div></details>"

    def _state(self) -> Iterator[str]:
        if self.state is None:
            yield '<p class="error">The state was not seen.</p>'
            return
        if self.index > 0 and not self.changed:
            yield '<p class="soft">The state is the same as before.</p>'
            return
        before = self.before if self.index > 0 else None
        parts = list(_state_tables(before, self.state, self.keys))
        if before is not None:
            yield '<div class="state">'
            yield from (table for changed, table in parts if changed)
            yield "</div>"
        rest = [table for changed, table in parts if before is None or not changed]
        if rest:
            said = "The whole state" if before is None else "The rest of the state"
            yield f'<details class="inner state"><summary>{said}</summary><div class="body">'
            yield from rest
            yield "</div></details>"


def _moments(outcome: Outcome) -> Iterator[_Moment]:
    episode = outcome.episode
    states: list[State | None] = list(episode.states)
    keys = {table.removeprefix("/"): key for table, key in (episode.data["row_keys"] or {}).items()}
    events: dict[int, list[Row]] = {}
    for event in episode.data["audit"] or ():
        events.setdefault(event["step"], []).append(decode(event))
    forbidden = _forbidden_flags(outcome)
    moments = [_Moment(0, "Reset", (), None, states[0], events.get(0, ()), keys)]
    for step in episode.steps:
        index = step.index
        title = f"Step {index}: {_tool(step)}"
        before = states[index - 1]
        lines = list(_step_lines(step))
        moments.append(
            _Moment(index, title, lines, before, states[index], events.get(index, ()), keys)
        )
    if episode.final_state != states[-1]:
        # Read once more before cleanup: a change seen only there has no step.
        end = len(states)
        moments.append(_Moment(end, "The end", (), states[-1], episode.final_state, (), keys))
    for moment in moments:
        moment.flag = forbidden.get(moment.index, "")
    yield from moments


def _forbidden_flags(outcome: Outcome) -> dict[int, str]:
    """What was found of forbidden changes, by step."""
    flags: dict[int, str] = {}
    for change in outcome.changes:
        if change["kind"] == "inside_step":
            flags[change["step"]] = "changed and put back inside the step"
            continue
        flags[change["step"]] = "forbidden change"
        if change["restored_at"] is not None:
            flags[change["restored_at"]] = "put back"
    return flags


def _strip(outcome: Outcome, moments: Iterable[_Moment]) -> Iterator[str]:
    yield '<ol class="strip" aria-label="Steps at a glance">'
    for moment in moments:
        number, _, name = moment.title.partition(": ")
        flag = moment.flag or ("state changed" if moment.changed else "")
        flag = f'<span class="flag">{text(flag)}</span>' if flag else ""
        yield (
            f"<li{class_(moment.look)}>"
            f'<a href="#{attribute(outcome.name)}-{moment.index}">'
            f"<b>{text(number)}</b> {text(name)} {flag}</a></li>"
        )
    yield "</ol>"


def _tool(step: Step) -> str:
    try:
        return Tool(int(step.action["tool"])).name.lower()
    except (TypeError, KeyError, ValueError):
        return "an action that was refused"


def _step_lines(step: Step) -> Iterator[str]:
    given = {
        name: value
        for name, value in (step.action or {}).items()
        if name != "tool" and value not in ("", 0)
    }
    if given:
        shown = ", ".join(f"{text(name)} {value_(value)}" for name, value in given.items())
        yield f"<p>{shown}</p>"
    if step.observation is not None:
        ended = " The environment terminated." if step.terminated else ""
        yield (
            f"<p>Answer: “{text(step.observation['message'])}” "
            f'<span class="soft">Reward {text(step.reward)}.{ended}</span></p>'
        )
    if step.error is not None:
        yield (
            f'<p class="error">{text(step.error["type"])} ({text(step.error["phase"])}): '
            f"{text(step.error['message'])}</p>"
        )


# States and values


def _scrolling(label: str, table: str) -> str:
    """A table that scrolls in its own region where the window is narrow."""
    return (
        f'<div class="scroll" role="group" aria-label="{attribute(label)}" tabindex="0">'
        f"{table}</div>"
    )


def _state_tables(
    before: State | None, state: State, keys: Mapping[str, str]
) -> Iterator[tuple[bool, str]]:
    """Each table of a state as HTML, and whether it changed."""
    old_tables = before or {}
    for name in sorted({*old_tables, *state}):
        old, new = old_tables.get(name, []), state.get(name, [])
        changed = before is not None and old != new
        rows = list(_table_rows(old if before is not None else new, new, keys.get(name)))
        columns = _columns([row for _, _, row in rows], keys.get(name))
        body = "".join(
            _table_row(kind, was, row, columns, keys.get(name)) for kind, was, row in rows
        )
        head = "".join(f'<th scope="col">{text(column)}</th>' for column in columns)
        label = f"{name}: {len(new)} row{'' if len(new) == 1 else 's'}"
        table = (
            f"<table><caption>{text(label)}</caption><thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table>"
        )
        yield changed, _scrolling(label, table)


def _columns(rows: Sequence[Row], key: str | None) -> list[str]:
    columns = dict.fromkeys(column for row in rows for column in row)
    return sorted(columns, key=lambda column: column != key)  # the key first, the rest as they come


def _table_rows(
    old: Sequence[Row], new: Sequence[Row], key: str | None
) -> Iterator[tuple[str, Row, Row]]:
    """Rows as (kind, before, now), kind "", "added" or "removed"; removed ones at the end."""

    def identity(row: Row) -> str:
        return repr(row if key is None else row.get(key))

    left = {identity(row): row for row in old}
    for row in new:
        was = left.pop(identity(row), None)
        yield ("added", row, row) if was is None else ("", was, row)
    for row in left.values():
        yield "removed", row, row


def _table_row(kind: str, was: Row, row: Row, columns: Sequence[str], key: str | None) -> str:
    cells = []
    for position, column in enumerate(columns):
        old, new = was.get(column), row.get(column)
        changed = repr(old) != repr(new)
        shown = value_(new)
        if changed:
            shown = (
                f'<del><span class="hidden">was </span>{value_(old)}</del>'
                f'<ins><span class="hidden">is now </span>{shown}</ins>'
            )
        if kind and position == 0:
            shown += f' <span class="badge">{kind}</span>'
        is_number = isinstance(new, int | float) and not isinstance(new, bool)
        look = class_(changed and "cell-changed", is_number and "number")
        tag, scope = ("th", ' scope="row"') if column == key else ("td", "")
        cells.append(f"<{tag}{scope}{look}>{shown}</{tag}>")
    return f"<tr{class_(kind and f'row-{kind}')}>{''.join(cells)}</tr>"


def _event_values(event: Row) -> str:
    before, after = event["before"], event["after"]
    if before is None or after is None:
        row = after if before is None else before
        return ", ".join(f"{text(name)} {value_(value)}" for name, value in (row or {}).items())
    return (
        ", ".join(
            f"{text(name)} <del>{value_(before.get(name))}</del> → <ins>{value_(value)}</ins>"
            for name, value in after.items()
            if repr(value) != repr(before.get(name))
        )
        or '<span class="soft">the same values again</span>'
    )
