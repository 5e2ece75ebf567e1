"""Outcome checks: versioned assertions over saved evidence, in Python or in SQL.

A check reads only what was saved, so it can be run again years later. It answers True or False
for what it measured, and None when the observation that it needs is missing. A check that fails to
answer is an evaluator error: of that check and that episode, never a pass.
"""

from __future__ import annotations

import inspect
import json
import traceback
import types
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from envbench.evidence.case import require_name
from envbench.evidence.portable import VALUE_DEPTH, canonical, parse
from envbench.evidence.tagged import describe_error, encode, type_name

if TYPE_CHECKING:
    import duckdb

    from envbench.evidence import EpisodeEvidence

EMPTY = "{}"
"""Evidence of a check that gave none, as canonical JSON."""


@dataclass(frozen=True, slots=True)
class OutcomeVerdict:
    """What a check found in one episode.

    Args:
        passed: True or False for a measured outcome, None when the observation that the check
            needs is missing. `np.bool_` is taken as the bool that it is; 0, 1 and NaN are not
            verdicts.
        reason: one line for a person.
        evidence: what the verdict rests on: a dict of values that evidence can hold (portable
            JSON, NumPy values, dates, …). It is copied at once.

    Raises:
        TypeError: when an argument is of another type.
        ValueError: when `evidence` holds a value that cannot be kept, naming its place.

    Example:
        >>> OutcomeVerdict(None, "No committed-state observation", {}).passed is None
        True
    """

    passed: bool | None
    reason: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    evidence_json: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.passed, np.bool_):
            object.__setattr__(self, "passed", bool(self.passed))
        if self.passed is not None and type(self.passed) is not bool:
            raise TypeError(f"passed must be True, False or None, not {_short(self.passed)}")
        if not isinstance(self.reason, str):
            raise TypeError(f"reason must be text, not {_short(self.reason)}")
        if not isinstance(self.evidence, Mapping):
            raise TypeError(f"evidence must be a dict, not {_short(self.evidence)}")
        object.__setattr__(self, "evidence_json", encode(dict(self.evidence)).decode())

    def __bool__(self) -> bool:
        raise TypeError(
            "a verdict has three values, and unknown is neither pass nor fail: "
            "use `verdict.passed is True`"
        )


@dataclass(frozen=True, slots=True)
class OutcomeCheck:
    """A check written in Python.

    Args:
        name: names the check in reports and policies.
        version: names the contract that the check holds episodes to; change it when that
            changes. It enters the report's lock; it cannot vouch for the function behind it.
        fn: gets an `EpisodeEvidence` and returns an `OutcomeVerdict`. What it raises, and any
            other return value, becomes an evaluator error of this check on this episode.

    Raises:
        TypeError: when an argument is of another type.
        ValueError: when the name or version is blank.

    Example:
        >>> def ended(episode):
        ...     return OutcomeVerdict(episode.data["termination"]["terminated"], "It ended", {})
        >>> OutcomeCheck("ended", "v1", ended).name
        'ended'
    """

    name: str
    version: str
    fn: Callable[[EpisodeEvidence], OutcomeVerdict]

    def __post_init__(self) -> None:
        require_label("name", self.name)
        require_label("version", self.version)
        if not callable(self.fn):
            raise TypeError(f"fn must be a function of one episode, not {_short(self.fn)}")

    def judge(self, episode: EpisodeEvidence) -> Judgement:
        """Judge one episode. Only what is no `Exception` (an interrupt, an exit) propagates."""
        try:
            verdict = self.fn(episode)
            if not isinstance(verdict, OutcomeVerdict):
                raise TypeError(_wrong_return(verdict))
            return Judgement(verdict.passed, plain(verdict.reason), verdict.evidence_json, None)
        except Exception as error:
            return Judgement.failed(f"{_described(error)}{_place_in(self.fn, error)}")


@dataclass(frozen=True, slots=True)
class SqlCheck:
    """A check written in SQL, which judges all episodes of a store with one query.

    The query returns one row an episode with the columns `episode_id`, `passed` (BOOLEAN),
    `reason` (VARCHAR) and `evidence` (a STRUCT, MAP or JSON object); NULL evidence is none. An
    episode without a row, or with NULL in `passed`, is None (unknown). Two rows for an episode,
    or a value of another type, are an evaluator error of that episode; a query that fails, or
    lacks a column, is one of every episode. It must be a single SELECT and runs in a read-only
    transaction, on the tables and views of the store. When episodes are judged that are in no
    store, it runs on an in-memory store that holds exactly them.

    Args:
        name: names the check in reports and policies.
        version: names the contract that the check holds episodes to.
        query: the SELECT statement, in DuckDB's SQL.

    Raises:
        TypeError: when an argument is not text.
        ValueError: when an argument is blank.

    Example:
        >>> check = SqlCheck("short", "v1", '''
        ...     SELECT episode_id, n_steps < 100 AS passed,
        ...            'Fewer than 100 steps' AS reason, {steps: n_steps} AS evidence
        ...     FROM episodes''')
    """

    name: str
    version: str
    query: str

    def __post_init__(self) -> None:
        require_label("name", self.name)
        require_label("version", self.version)
        require_name("query", self.query)

    def judge_all(
        self, cursor: duckdb.DuckDBPyConnection, episode_ids: Sequence[str]
    ) -> list[Judgement]:
        """Judge episodes of a store.

        Args:
            cursor: a cursor of the store, with no transaction open; it is left so.
            episode_ids: the episodes to judge.

        Returns:
            One judgement an episode, in the order given.
        """
        try:
            rows = _read_rows(cursor, self.query)
        except Exception as error:
            return [Judgement.failed(_described_query_error(error))] * len(episode_ids)
        by_episode: dict[str, list[_Row]] = defaultdict(list)
        for row in rows:
            by_episode[str(row.episode_id)].append(row)
        strangers = len(by_episode.keys() - set(episode_ids))
        return [_judge_rows(by_episode.get(id_, []), strangers) for id_ in episode_ids]


Check: TypeAlias = OutcomeCheck | SqlCheck


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a check came to on one episode: a verdict, or the error that kept it from one.

    Attributes:
        passed: True, False, or None when it is unknown or the check failed.
        reason: one line for a person.
        evidence_json: what the verdict rests on, as canonical JSON in tagged form.
        error: type, message and, in a check's function, the line of what went wrong, else None.
    """

    passed: bool | None
    reason: str
    evidence_json: str
    error: str | None

    @classmethod
    def failed(cls, error: str) -> Judgement:
        """The judgement of a check that raised."""
        text = plain(error)
        return cls(None, f"The check failed: {text}", EMPTY, text)


def require_label(argument: str, value: Any) -> None:
    """Refuse a name that is not text, is blank, or could not be written to a file."""
    require_name(argument, value)
    if plain(value) != value:
        raise ValueError(f"{argument} must not hold a lone surrogate: {value!r}")


def plain(text: str) -> str:
    """Text as JSON and DuckDB can hold it: lone surrogates are written out as escapes."""
    return str.encode(text, "utf-8", "backslashreplace").decode()


def _described(error: Exception) -> str:
    name, message = type_name(type(error)), describe_error(error)
    return f"{name}: {message}" if message else name


def _place_in(fn: Callable[..., Any], error: Exception) -> str:
    """Where in the file of a check's function it came to an error, without the file's path.

    What the function calls in other files is left out: the line that calls it is the user's.
    """
    called = error.__traceback__ and error.__traceback__.tb_next  # the first frame is our own
    if called is None:
        return ""
    code = getattr(inspect.unwrap(fn), "__code__", called.tb_frame.f_code)
    frames = list(traceback.walk_tb(called))
    of_file = [(frame, line) for frame, line in frames if _file(frame) == code.co_filename]
    frame, line = (of_file or frames[:1])[-1]
    return f" (line {line} of {frame.f_code.co_name})"


def _file(frame: types.FrameType) -> str:
    return frame.f_code.co_filename


def _described_query_error(error: Exception) -> str:
    """An error of a query in one line: DuckDB's has several, the last of them pointing upwards."""
    import duckdb

    if not isinstance(error, duckdb.Error):
        return _described(error)
    lines = [" ".join(line.split()) for line in describe_error(error).splitlines()]
    text = ""
    for line in lines:
        if line.strip("^"):
            text += (" " if text[-1:] in ":!?." else "; ") + line
    return f"duckdb.{type(error).__name__}: {text.lstrip('; ')}"


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of a SQL check's result; `evidence` is JSON text where the column is."""

    episode_id: Any
    passed: Any
    reason: Any
    evidence: Any


_COLUMNS = ("episode_id", "passed", "reason", "evidence")


def _read_rows(cursor: duckdb.DuckDBPyConnection, query: str) -> list[_Row]:
    import duckdb

    from envbench.store.writing import roll_back

    statements = duckdb.extract_statements(query)
    kinds = [statement.type.name for statement in statements]
    if kinds != ["SELECT"]:
        raise ValueError(
            f"the query must be one SELECT statement, and it is {', '.join(kinds) or 'empty'}"
        )
    # A SELECT can still write (a common table expression with INSERT): the transaction cannot.
    cursor.execute("BEGIN TRANSACTION READ ONLY")
    try:
        cursor.execute(statements[0])
        names = [column[0] for column in cursor.description or ()]
        values = cursor.fetchall()
    finally:
        roll_back(cursor)
    for name in _COLUMNS:
        if names.count(name) != 1:
            raise ValueError(
                f"the query must return one column {name!r}, and it returns "
                f"{', '.join(map(repr, names))}"
            )
    places = [names.index(name) for name in _COLUMNS]
    return [_Row(*(row[place] for place in places)) for row in values]


def _judge_rows(rows: Sequence[_Row], strangers: int) -> Judgement:
    if not rows:
        others = f" (and has rows for {strangers} others, which were not judged)"
        reason = f"The query has no row for this episode{others if strangers else ''}"
        return Judgement(None, reason, EMPTY, None)
    try:
        if len(rows) > 1:
            raise ValueError(f"the query has {len(rows)} rows for this episode, not one")
        row = rows[0]
        if row.passed is not None and type(row.passed) is not bool:
            raise TypeError(f"passed is {_short(row.passed)}, not a BOOLEAN")
        if row.reason is not None and type(row.reason) is not str:
            raise TypeError(f"reason is {_short(row.reason)}, not a VARCHAR")
        return Judgement(row.passed, plain(row.reason or ""), _object(row.evidence), None)
    except (TypeError, ValueError) as error:
        return Judgement.failed(_described(error))


def _object(evidence: Any) -> str:
    """The evidence column of one row as canonical JSON."""
    if evidence is None:
        return EMPTY
    if isinstance(evidence, dict):
        return encode(evidence).decode()
    if isinstance(evidence, str):
        try:
            value = parse(evidence)
        except ValueError:
            value = None
        if isinstance(value, dict):
            return canonical(value, VALUE_DEPTH).decode()
    raise TypeError(f"evidence is {_short(evidence)}, not a STRUCT, MAP or JSON object")


def _wrong_return(value: Any) -> str:
    if inspect.iscoroutine(value):
        value.close()  # else Python warns that it was never awaited
        return "the check returned a coroutine; a check is a plain function, not `async def`"
    return (
        f"the check returned {_short(value)}, not an OutcomeVerdict: "
        "return OutcomeVerdict(passed, reason, evidence)"
    )


def _short(value: Any) -> str:
    """A value for a message: its type, and its text where that is short and safe to ask for."""
    name = type_name(type(value))
    if value is None or isinstance(value, bool | int | float | str):
        text = json.dumps(value) if isinstance(value, str) else repr(value)
        return f"{text} ({name})" if len(text) <= 60 else f"{text[:57]}… ({name})"
    return f"a value of type {name}"
