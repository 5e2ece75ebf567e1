"""Verifying a store: every digest recomputed, and everything that a digest does not hold.

An episode's digest covers what was seen. What the tables keep beside that (identities that stand
twice, places in order, copies for quick queries, the definitions of the tables themselves) must
follow from it, and is compared. `NOT_VERIFIED` lists what is neither.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import groupby, islice, pairwise
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import duckdb

from envbench.changes.history import history_of
from envbench.evidence.case import case_digest
from envbench.evidence.digest import seal, shown, state_hash
from envbench.evidence.frames import aligned
from envbench.evidence.portable import Json, canonical, parse
from envbench.evidence.record import Source
from envbench.store import reading, writing
from envbench.store.changes import change_rows
from envbench.store.errors import StoreError
from envbench.store.untrusted import (
    our_columns,
    our_definitions,
    table_definitions,
    view_definitions,
)

if TYPE_CHECKING:
    from envbench.store.store import Store

NOT_VERIFIED = {
    "schema_info.created_at": "describes the file",
    "schema_info.created_by": "describes the file",
    "open_episodes.opened_at": "an episode that is being recorded has no seal yet",
    "open_episodes.header": "an episode that is being recorded has no seal yet",
    "findings": "derived by a check, and can be found again",
    "decisions": "follows from a report and a policy, and can be made again",
    "tasks": "no episode's evidence rests on it",
    "blobs.codec": "how the content is compressed; the content is verified",
    "blobs.body": "compressed content may differ; what it decompresses to is verified",
}
"""Tables and columns whose alteration `verify` may not find, and why."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that does not fit.

    Attributes:
        episode_id: the episode that it belongs to; None when it belongs to none.
        table: the table in which it was found.
        step_index: the step that it belongs to, where that is known.
        message: what is wrong, one sentence.
    """

    episode_id: str | None
    table: str
    step_index: int | None
    message: str

    def __str__(self) -> str:
        place = self.table
        if self.episode_id is not None:
            place += f", episode {self.episode_id}"
        if self.step_index is not None:
            place += f", step {self.step_index}"
        return f"{place}: {self.message}"


@dataclass(frozen=True, slots=True)
class Verification:
    """What `verify` found.

    Attributes:
        episodes: sealed episodes looked at.
        reports: reports looked at.
        problems: what does not fit.
        notes: what a reader should know and is no fault, such as an episode being recorded.
    """

    episodes: int
    reports: int
    problems: tuple[Problem, ...]
    notes: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        """Whether everything fits."""
        return not self.problems

    def __str__(self) -> str:
        episodes, reports = _count(self.episodes, "episode"), _count(self.reports, "report")
        counted = f"{episodes} and {reports} verified"
        if self.ok:
            lines = [f"{counted}: everything fits"]
        else:
            problems = _count(len(self.problems), "problem")
            lines = [f"{counted}: {problems}", *map(str, self.problems)]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def verify(store: Store) -> Verification:
    """Recompute every digest of a store, and check that its tables fit together.

    It reads one moment of the store, while others may write. A digest shows alteration, not who
    made it: somebody who alters evidence and its digests together is not found.

    Raises:
        StoreError: when the store is closed.
    """
    store._settle()
    with store.cursor() as cursor:
        look = _Look(_Snapshot(store.path, cursor))
        for part in (
            look.at_definitions,
            look.at_identities,
            look.at_shared_rows,
            look.at_runs,
            look.at_steps,
            look.at_states,
            look.at_audit,
            look.at_frames,
            look.at_blobs,
            look.at_episodes,
            look.at_changes,
            look.at_reports,
            look.at_rows_of_no_episode,
        ):
            if part == look.at_definitions and not store.trusted:
                continue  # then only our own definitions are used
            look.run(part)
        return look.verification()


class _Snapshot:
    """One transaction of a store, in the place of the store: all that reads it sees one moment."""

    def __init__(self, path: Path | None, cursor: duckdb.DuckDBPyConnection) -> None:
        self.path = path
        self._cursor = cursor
        cursor.execute("BEGIN TRANSACTION").fetchall()

    def again(self) -> None:
        """Begin another transaction: an error has ended the first."""
        writing.roll_back(self._cursor)
        self._cursor.execute("BEGIN TRANSACTION").fetchall()

    def cursor(self) -> _Snapshot:
        return self

    def execute(self, query: str, parameters: Any = None) -> _Snapshot:
        self._cursor.execute(query, parameters or [])
        return self

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._cursor.fetchall()

    def rows(self, query: str, at_once: int = 2_000) -> Iterator[tuple[Any, ...]]:
        """The rows of a query that is too large to hold; nothing else may run meanwhile."""
        self._cursor.execute(query)
        while rows := self._cursor.fetchmany(at_once):
            yield from rows

    def close(self) -> None:
        """Leave the transaction to its owner."""


@dataclass(slots=True)
class _Look:
    """Looks at one snapshot part by part, and collects what does not fit."""

    snapshot: _Snapshot
    problems: dict[Problem, None] = field(default_factory=dict)
    notes: list[Problem] = field(default_factory=list)
    sealed: set[str] = field(default_factory=set)
    open: set[str] = field(default_factory=set)
    reports: int = 0

    def verification(self) -> Verification:
        return Verification(len(self.sealed), self.reports, tuple(self.problems), tuple(self.notes))

    def run(self, part: Callable[[], None]) -> None:
        """Look at one part; what an altered cell makes fail is a problem, and not the end."""
        try:
            part()
        except (duckdb.Error, StoreError, ValueError, TypeError) as error:
            table = part.__name__.removeprefix("at_")
            self.add("", f"could not look at all {table}: {_one_line(error)}")
            self.snapshot.again()

    def add(
        self, table: str, message: str, episode_id: str | None = None, step: int | None = None
    ) -> None:
        self.problems[Problem(episode_id, table, step, message)] = None

    def note(
        self, table: str, message: str, episode_id: str | None = None, step: int | None = None
    ) -> None:
        self.notes.append(Problem(episode_id, table, step, message))

    def query(self, query: str) -> list[tuple[Any, ...]]:
        return self.snapshot.execute(query).fetchall()

    # -- what answers the queries ------------------------------------------------------------------

    def at_definitions(self) -> None:
        """Views, columns and functions of the file: an altered one would answer with a lie."""
        for (name,) in self.query(
            "SELECT DISTINCT function_name FROM system.main.duckdb_functions() "
            "WHERE database_name = current_database() AND NOT internal ORDER BY 1"
        ):
            self.add("", f"the file defines a function {name!r}, which may answer for DuckDB's own")
        ((database,),) = self.query("SELECT current_database()")
        tables, views = our_definitions()
        for kind, ours, found in (
            ("table", tables, table_definitions(self.snapshot, database)),
            ("view", views, view_definitions(self.snapshot, database)),
        ):
            for name, definition in ours.items():
                if name not in found:
                    self.add(name, f"the {kind} is gone")
                elif found[name] != definition:
                    self.add(name, f"the {kind} is not defined as in a store")

    def at_identities(self) -> None:
        counts = self.query("SELECT episode_id, count(*) FROM episodes GROUP BY ALL ORDER BY 1")
        self.sealed = {episode_id for episode_id, _ in counts}
        for episode_id, count in counts:
            if count > 1:
                self.add("episodes", f"the episode is there {count} times", episode_id)
        for episode_id, count in self.query(
            "SELECT episode_id, count(*) FROM open_episodes GROUP BY ALL ORDER BY 1"
        ):
            self.open.add(episode_id)
            if episode_id in self.sealed or count > 1:
                self.add("open_episodes", "a sealed episode is not open", episode_id)
            else:
                self.note("open_episodes", "not sealed: still being recorded", episode_id)
        for version, count in self.query("SELECT any_value(version), count(*) FROM schema_info"):
            if count != 1 or version is None:
                self.add("schema_info", "it does not have its one row")

    # -- rows that episodes share ------------------------------------------------------------------

    def at_shared_rows(self) -> None:
        for table, keys in writing._ONCE.items():
            for *key, count in self.query(
                f"SELECT {', '.join(keys)}, count(*) FROM {table} GROUP BY ALL HAVING count(*) > 1"
            ):
                self.add(table, f"{' '.join(map(str, key))} is there {count} times")
        for case_id, digest, source, tags, expects, text, reference in self.query(
            "SELECT case_id, case_digest, source_id, tags, expects, input, reference_digest "
            "FROM cases"
        ):
            recorded = {
                "input": _json(text),
                "case_id": case_id,
                "source_id": source,
                "tags": _json(tags),
                "expects": expects,
                "reference_digest": reference,
            }
            if case_digest(recorded) != digest:
                self.add("cases", f"case {case_id!r} does not fit its digest {digest}")
        for key, *values in self.query(
            "SELECT environment_key, environment_id, gymnasium_version, spec, wrappers, packages, "
            "spaces, environment_version, environment_fingerprint FROM environments"
        ):
            if key != _environment_key(*values):
                self.add("environments", f"environment {values[0]!r} does not fit its key {key}")

    def at_runs(self) -> None:
        """A run says what its first episode ran on."""
        episodes: dict[str, set[tuple[Any, ...]]] = {}
        for run_id, *first in self.query(
            "SELECT DISTINCT run_id, recorded_at, packages "
            "FROM episodes LEFT JOIN environments USING (environment_key) "
            "WHERE run_id IS NOT NULL"
        ):
            episodes.setdefault(run_id, set()).add(tuple(first))
        for run_id, started_at, python, packages, platform in self.query(
            "SELECT run_id, started_at, python_version, packages, platform FROM runs ORDER BY 1"
        ):
            named = _json(packages)
            if (
                (started_at, packages) not in episodes.pop(run_id, ())
                or named.get("python", "") != python
                or named.get("platform", "") != platform
            ):
                self.add("runs", f"run {run_id!r} is not what its episodes ran on")
        for run_id in sorted(episodes):
            self.add("runs", f"run {run_id!r} is missing")

    # -- one episode's rows ------------------------------------------------------------------------

    def at_steps(self) -> None:
        for episode_id, n_steps, extra, rows, distinct, least, most in self.query(
            """
            SELECT e.episode_id, any_value(e.n_steps), any_value(e.extra), count(s.step_index),
                count(DISTINCT s.step_index), min(s.step_index), max(s.step_index)
            FROM episodes AS e LEFT JOIN steps AS s USING (episode_id)
            GROUP BY e.episode_id ORDER BY 1
            """
        ):
            if not rows and _json(extra).get("capture_steps") is False:
                continue
            if not (rows == distinct == n_steps and (not rows or (least, most) == (1, n_steps))):
                self._name_steps(episode_id, n_steps)

        for episode_id, step_index in self.query(
            """
            SELECT episode_id, step_index FROM steps SEMI JOIN episodes USING (episode_id)
            WHERE info IS NULL AND (observation IS NOT NULL OR reward IS NOT NULL
                OR terminated IS NOT NULL OR truncated IS NOT NULL)
            ORDER BY ALL
            """
        ):
            # the digest of a step without a transition does not look at these
            message = "a step without an info returned nothing, and has a return"
            self.add("steps", message, episode_id, step_index)

    def _name_steps(self, episode_id: str, n_steps: int) -> None:
        query = "SELECT step_index FROM steps WHERE episode_id = ? ORDER BY 1"
        found = [index for (index,) in self.snapshot.execute(query, [episode_id]).fetchall()]
        expected = set(range(1, n_steps + 1))
        missing, beyond = sorted(expected - set(found)), sorted(set(found) - expected)
        twice = sorted({a for a, b in pairwise(found) if a == b})
        for steps, what in (
            (missing, "missing"),
            (twice, "there more than once"),
            (beyond, f"there, and the episode has {n_steps} steps"),
        ):
            if steps:
                which = f"step {steps[0]}" + (f" and {len(steps) - 1} more" if steps[1:] else "")
                self.add("steps", f"{which}: {what}", episode_id, steps[0])

    def at_states(self) -> None:
        for episode_id, digest, first, first_step, count in self.query(_STATES_THAT_DO_NOT_FIT):
            if first is None:
                self.note("states", f"no step has the state {digest}", episode_id, first_step)
            elif count is None:
                self.add("states", f"the state {digest} is missing", episode_id, first)
            elif count > 1:
                self.add("states", f"the state {digest} is there {count} times", episode_id, first)
            else:
                self.add(
                    "states",
                    f"the state {digest} was first seen after step {first}, not {first_step}",
                    episode_id,
                    first,
                )
        for episode_id, digest, step, body in self.snapshot.rows(
            "SELECT episode_id, state_hash, first_step, body FROM states SEMI JOIN episodes "
            "USING (episode_id)"
        ):
            if state_hash(body.encode()) != digest:
                self.add("states", f"the state {digest} was altered", episode_id, step)
        for (episode_id,) in self.query(_FINAL_STATES_THAT_DIFFER):
            message = "final_state is not the state that final_state_hash names"
            self.add("episodes", message, episode_id)

    def at_audit(self) -> None:
        for episode_id, audited, rows, distinct, least, most in self.query(
            """
            SELECT e.episode_id, any_value(e.audited), count(*), count(DISTINCT a.event_index),
                min(a.event_index), max(a.event_index)
            FROM episodes AS e JOIN audit_events AS a USING (episode_id)
            GROUP BY e.episode_id ORDER BY 1
            """
        ):
            if not audited:
                self.add("audit_events", "the episode has no audit history", episode_id)
            elif not (rows == distinct and (least, most) == (0, rows - 1)):
                self.add("audit_events", "the events are not numbered from 0 on", episode_id)

    def at_frames(self) -> None:
        rendered: dict[str, tuple[int, Json]] = {
            episode_id: (n_steps, _json(extra)["frames"])
            for episode_id, n_steps, extra in self.query(
                "SELECT episode_id, n_steps, extra FROM episodes "
                "WHERE contains(extra, '\"frames\"')"
            )
        }
        rows = self.snapshot.rows(
            "SELECT episode_id, step_index, kind, blob_hash, body FROM frames "
            "SEMI JOIN episodes USING (episode_id) ORDER BY episode_id, step_index"
        )
        for episode_id, found in groupby(rows, itemgetter(0)):
            frames = [row[1:] for row in found]
            if episode_id not in rendered:
                self.add("frames", "the episode was not rendered", episode_id, frames[0][0])
            else:
                self._look_at_frames(episode_id, frames, *rendered.pop(episode_id))
        for episode_id, (n_steps, summary) in rendered.items():  # those without a single frame
            self._look_at_frames(episode_id, [], n_steps, summary)

    def _look_at_frames(
        self, episode_id: str, frames: list[tuple[Any, ...]], n_steps: int, summary: Json
    ) -> None:
        """The frames of one episode, in order, and how they enter its digest."""
        before = len(self.problems)
        kind, last = summary["kind"], -1
        texts: set[str] = set()
        for step, its_kind, digest, text in frames:
            if step == last or not 0 <= step <= n_steps:
                what = "there more than once" if step == last else f"not among {n_steps} steps"
                self.add("frames", f"the frame is {what}", episode_id, step)
            last = step
            # a text stands where it is shown for the first time, and only there
            first = kind == "ansi" and digest not in texts
            fits = text is not None and hashlib.sha256(text.encode()).hexdigest() == digest
            if its_kind != kind or (text is not None) != first or first != fits:
                self.add("frames", f"the frame {digest} was altered", episode_id, step)
            texts.add(digest)
        hashes = aligned([(step, digest) for step, _, digest, _ in frames], n_steps)
        if len(self.problems) == before and shown(kind, hashes) != canonical(summary):
            message = "a frame was altered, is missing, or is shown after another step"
            self.add("frames", message, episode_id)

    def at_blobs(self) -> None:
        referred: dict[tuple[str, str], int | None] = {}
        for episode_id, step, text in self.snapshot.rows(_TEXTS_WITH_ARRAYS):
            for digest in _references(text):
                referred.setdefault((episode_id, digest), step)
        pictures: dict[tuple[str, str], int] = {
            (episode_id, digest): step
            for episode_id, digest, step in self.query(
                "SELECT episode_id, blob_hash, min(step_index) FROM frames SEMI JOIN episodes "
                "USING (episode_id) WHERE kind = 'rgb_array' GROUP BY ALL ORDER BY ALL"
            )
        }
        seen: dict[tuple[str, str], int] = {}
        for episode_id, digest, n_bytes, codec, body in self.snapshot.rows(
            "SELECT episode_id, blob_hash, n_bytes, codec, body FROM blobs", at_once=50
        ):
            if episode_id not in self.sealed:
                continue
            key = episode_id, digest
            seen[key] = seen.get(key, 0) + 1
            step = referred.get(key, pictures.get(key))
            what = "frame" if key in pictures else "array"
            try:
                content = writing.decompress(codec, body, n_bytes)
                if len(content) != n_bytes or hashlib.sha256(content).hexdigest() != digest:
                    self.add("blobs", f"the {what} {digest} was altered", episode_id, step)
            except (ValueError, MemoryError, OverflowError) as error:
                self.add("blobs", f"the {what} {digest}: {error}", episode_id, step)
            if key not in referred and key not in pictures:
                self.note("blobs", f"nothing refers to the array {digest}", episode_id)
        for key, step in {**pictures, **referred}.items():
            count = seen.get(key, 0)
            if count != 1 and key[0] in self.sealed:
                what = "frame" if key in pictures else "array"
                fault = f"is there {count} times" if count else "is missing"
                self.add("blobs", f"the {what} {key[1]} {fault}", key[0], step)

    def at_episodes(self) -> None:
        names = [name for name in our_columns()["episodes"] if name != "final_state"]
        shown = [f"epoch_us({name})" if name == "recorded_at" else f'"{name}"' for name in names]
        stored = {
            values[0]: dict(zip(names, values, strict=True))
            for values in self.query(f"SELECT {', '.join(shown)} FROM episodes")
        }
        for episode in reading.Episodes(cast("Store", self.snapshot)):
            source = episode._source
            episode_id = str(parse(source.head()["episode_id"]))
            try:
                head = dict(source.head())
                found = seal(head, source.initial_state, source.steps(), source.final_state)
                expected = _sealed_row(head, source)
            except Exception as error:  # whatever an altered cell makes of reading it
                self.add("episodes", f"cannot be read: {_one_line(error)}", episode_id)
                continue
            self._compare_digests(episode_id, found, (source.digest, source.trajectory_digest))
            for column, kept in stored[episode_id].items():
                # repr tells 1 from True and from 1.0, and finds NaN equal to itself
                if repr(kept) != repr(expected[column]):
                    message = f"{column} is {_short(kept)}, where the evidence has "
                    self.add("episodes", message + _short(expected[column]), episode_id)
        for episode_id, column in self.query(_ENVIRONMENTS_THAT_DIFFER):
            self.add("episodes", f"{column} is not that of its environment", episode_id)

    def at_changes(self) -> None:
        """The changes of each episode whose evidence fits, derived from its states anew."""
        # from evidence that was altered other changes follow, and it is named already
        altered = {problem.episode_id for problem in self.problems}
        episodes = (
            episode
            for episode in reading.Episodes(cast("Store", self.snapshot))
            if episode.episode_id not in altered
        )
        while batch := list(islice(episodes, _EPISODES_AT_ONCE)):
            stored: dict[str, list[tuple[Any, ...]]] = {}
            ids = [episode.episode_id for episode in batch]
            for episode_id, *row in self.snapshot.execute(_CHANGES, [ids]).fetchall():
                stored.setdefault(episode_id, []).append(tuple(row))
            for episode in batch:
                try:
                    derived = [row[1:] for row in change_rows("", history_of(episode).changes())]
                except Exception as error:  # an altered state is named by its digest
                    message = f"cannot be derived from the states: {_one_line(error)}"
                    self.add("state_changes", message, episode.episode_id)
                    continue
                expected = [tuple(map(_as_text, row)) for row in derived]
                self._compare_changes(
                    episode.episode_id, stored.get(episode.episode_id, []), expected
                )

    def _compare_changes(
        self,
        episode_id: str,
        stored: list[tuple[Any, ...]],
        expected: list[tuple[Any, ...]],
    ) -> None:
        there, derived = Counter(stored), Counter(expected)
        for rows, what in ((derived - there, "missing or"), (there - derived, "not what follows")):
            for step, _, path, *_ in list(rows)[:1]:
                ending = "altered" if what == "missing or" else "from the states"
                message = (
                    f"the change of {path} is {what} {ending}"
                    + (f", and {len(rows) - 1} more" if len(rows) > 1 else "")
                    + ": rebuild_changes() derives them again"
                )
                self.add("state_changes", message, episode_id, step)

    def _compare_digests(
        self, episode_id: str, found: tuple[str, str], recorded: tuple[str, str]
    ) -> None:
        if found[1] != recorded[1]:
            self.add(
                "episodes",
                f"what is recorded has trajectory digest {found[1]}, not {recorded[1]}: an action, "
                f"a return, a state, an error, the case or the ending was altered",
                episode_id,
            )
        elif found[0] != recorded[0]:
            self.add(
                "episodes",
                f"what is recorded has digest {found[0]}, not {recorded[0]}: a time, an identity, "
                f"a label or an issue was altered",
                episode_id,
            )

    # -- reports and the rest ----------------------------------------------------------------------

    def at_reports(self) -> None:
        results: dict[str, list[dict[str, Json]]] = {}
        for report_id, *values in self.query(
            f"SELECT report_id, {', '.join(_RESULT.values())} FROM check_results"
        ):
            row = dict(zip(_RESULT, values, strict=True))
            row["evidence"] = _json(row["evidence"])
            results.setdefault(report_id, []).append(row)
        digests = dict(self.query("SELECT episode_id, digest FROM episodes"))
        known: set[str] = set()
        for report_id, name, created_at, checks, lock, episodes, digest in self.query(
            "SELECT report_id, name, created_at, checks, lock, episodes, digest FROM reports"
        ):
            if report_id in known:
                self.add("reports", f"report {report_id} is there more than once")
            known.add(report_id)
            content = {
                "schema": "envbench.report/v1",
                "report_id": report_id,
                "name": name,
                "created_at": f"{created_at.isoformat(timespec='microseconds')}+00:00",
                "checks": _json(checks),
                "episodes": _json(episodes),
                "lock": _json(lock),
            }
            try:
                content["results"] = _as_listed(results.get(report_id, []), content)
                fits = hashlib.sha256(canonical(content)).hexdigest() == digest
            except (ValueError, TypeError, KeyError):
                fits = False
            if not fits:
                self.add(
                    "reports",
                    f"report {report_id} ({name}) does not fit its digest {digest}: it or one of "
                    f"its results was altered",
                )
            self._compare_judged(report_id, content["episodes"], digests)
        self.reports = len(known)
        for table in ("check_results", "findings", "decisions"):
            for report_id, count in self.query(
                f"SELECT report_id, count(*) FROM {table} ANTI JOIN reports USING (report_id) "
                f"GROUP BY ALL ORDER BY 1"
            ):
                self.add(table, f"{count} rows of report {report_id}, which is not there")

    def _compare_judged(self, report_id: str, episodes: Json, digests: dict[str, str]) -> None:
        """An episode that was altered and sealed again is not the one that was judged."""
        for episode in episodes if isinstance(episodes, list) else ():
            episode_id, digest = episode.get("episode_id"), episode.get("digest")
            if episode_id not in digests:
                message = f"report {report_id} judged it, and it is not in this store"
                self.note("episodes", message, episode_id)
            elif digests[episode_id] != digest:
                message = f"it has digest {digests[episode_id]}, and report {report_id} judged one "
                self.add("episodes", f"{message}with digest {digest}", episode_id)

    def at_rows_of_no_episode(self) -> None:
        for table in ("steps", "states", "state_changes", "audit_events", "frames", "blobs"):
            for episode_id, count in self.query(
                f"SELECT episode_id, count(*) FROM {table} "
                f"ANTI JOIN episodes USING (episode_id) GROUP BY ALL ORDER BY 1"
            ):
                if episode_id not in self.open:
                    self.add(table, f"{count} rows of an episode that is not there", episode_id)


_STATES_THAT_DO_NOT_FIT = """
WITH seen AS (
    SELECT episode_id, state_hash, min(step_index) AS first
    FROM (
        SELECT episode_id, initial_state_hash AS state_hash, 0 AS step_index FROM episodes
        UNION ALL
        SELECT s.episode_id, s.state_hash, s.step_index
        FROM steps AS s SEMI JOIN episodes AS e USING (episode_id)
        UNION ALL
        SELECT episode_id, final_state_hash, n_steps + 1 FROM episodes
    )
    WHERE state_hash IS NOT NULL
    GROUP BY ALL
), kept AS (
    SELECT episode_id, state_hash, min(first_step) AS first_step, count(*) AS rows
    FROM states SEMI JOIN episodes USING (episode_id)
    GROUP BY ALL
)
SELECT episode_id, state_hash, first, first_step, rows
FROM seen FULL JOIN kept USING (episode_id, state_hash)
WHERE first IS DISTINCT FROM first_step OR rows IS DISTINCT FROM 1
ORDER BY ALL
"""

_FINAL_STATES_THAT_DIFFER = """
SELECT DISTINCT e.episode_id
FROM episodes AS e
LEFT JOIN states AS s ON s.episode_id = e.episode_id AND s.state_hash = e.final_state_hash
WHERE e.final_state IS DISTINCT FROM s.body
ORDER BY 1
"""

_EPISODES_AT_ONCE = 100

_CHANGES = """
SELECT episode_id, step_index, since, path, op, before, after, restored_at, restored_after,
    to_initial
FROM state_changes WHERE episode_id IN (SELECT unnest(?))
"""

_HEAD_TEXTS = ("options", "initial_observation", "initial_info", "output", "errors", "extra")

_TEXTS_WITH_ARRAYS = f"""
SELECT episode_id, step_index, text FROM (
    {
    " UNION ALL ".join(
        f"SELECT episode_id, step_index, {column} AS text FROM steps"
        for column in ("action", "observation", "info", "error")
    )
}
    UNION ALL SELECT episode_id, first_step, body FROM states
    {
    " ".join(f"UNION ALL SELECT episode_id, NULL, {column} FROM episodes" for column in _HEAD_TEXTS)
}
    {
    " ".join(
        f'UNION ALL SELECT episode_id, step_index, "{column}" FROM audit_events'
        for column in ("key", "before", "after")
    )
}
) SEMI JOIN episodes USING (episode_id)
WHERE contains(text, '"sha256"')
"""

_ENVIRONMENTS_THAT_DIFFER = """
SELECT e.episode_id, CASE
    WHEN v.environment_id IS DISTINCT FROM e.environment_id THEN 'environment_id'
    WHEN v.environment_version IS DISTINCT FROM e.environment_version THEN 'environment_version'
    ELSE 'environment_fingerprint' END
FROM episodes AS e LEFT JOIN environments AS v USING (environment_key)
WHERE (v.environment_id, v.environment_version, v.environment_fingerprint)
    IS DISTINCT FROM (e.environment_id, e.environment_version, e.environment_fingerprint)
ORDER BY 1
"""

_RESULT = {
    "case_id": "case_id",
    "episode_id": "episode_id",
    "check": "check_name",
    "version": "check_version",
    "passed": "passed",
    "reason": "reason",
    "evidence": "evidence",
    "error": "error",
}


def _sealed_row(head: dict[str, bytes], source: Source) -> dict[str, Any]:
    """The row of `episodes` that writing this evidence makes, `final_state` left out."""
    batches = writing._Batches(set())
    writing._add_seal(
        batches,
        writing.Seal(
            head=head,
            initial_state=source.initial_state,
            final_state=source.final_state,
            final_body=None,
            digest=source.digest,
            trajectory_digest=source.trajectory_digest,
        ),
    )
    names = [name for name, _ in writing._COLUMNS["episodes"]]
    values = [column[0] for column in batches.columns["episodes"]]
    return {
        name: value.decode() if isinstance(value, bytes) else value
        for name, value in zip(names, values, strict=True)
    }


def _environment_key(
    environment_id: str,
    gymnasium_version: str,
    spec: str | None,
    wrappers: str,
    packages: str,
    spaces: str | None,
    version: str | None,
    fingerprint: str | None,
) -> str:
    return writing.environment_key(
        {
            "environment_id": canonical(environment_id),
            "gymnasium_version": canonical(gymnasium_version),
            "environment_spec": (spec or "null").encode(),
            "wrappers": wrappers.encode(),
            "packages": packages.encode(),
            "spaces": (spaces or "null").encode(),
            "provenance": canonical(
                {"environment_version": version, "environment_fingerprint": fingerprint}
            ),
        }
    )


def _as_listed(results: list[dict[str, Json]], content: dict[str, Json]) -> list[Json]:
    """The results in the report's own order: episode by episode, check by check."""
    checks = {check["name"]: i for i, check in enumerate(content["checks"])}
    episodes = {episode["episode_id"]: i for i, episode in enumerate(content["episodes"])}
    return sorted(results, key=lambda row: (episodes[row["episode_id"]], checks[row["check"]]))


def _json(text: str | None) -> Any:
    return None if text is None else parse(text)


def _references(text: str) -> list[str]:
    try:
        return writing.array_references(text.encode())
    except ValueError:  # said by its digest
        return []


def _as_text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"


def _one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
