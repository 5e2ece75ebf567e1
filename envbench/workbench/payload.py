"""What a stepper shows of an episode, packed into text for a page.

A payload is a *head* (who, when, verdicts, marks of the timeline) and *chunks* of consecutive
moments. Moment 0 is the reset, moment i the one after step i, and a last state that differs from
the one after the last step is a moment of its own. A chunk holds what was done and seen column by
column, the changes of the state, and perhaps the whole state at its first moment, from which the
changes lead to every other. Values stand in it exactly as the evidence has them.

Each part is compressed by itself, so that a page shows a moment of a long episode without reading
the others. What does not fit is left out, the parts around findings last, and the head says so;
`Payload.chunk` makes any part when it is asked for.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from envbench.evidence.digest import join_object
from envbench.evidence.portable import Json, canonical, parse
from envbench.evidence.record import reward_json
from envbench.store.reading import store_of
from envbench.workbench.episode_reader import ChangeRow, Outline, Reader, reader_of
from envbench.workbench.verdicts import Verdicts, cut, verdicts_of

if TYPE_CHECKING:
    from envbench.changes.rules import Rule
    from envbench.checks.report import Report
    from envbench.evidence.episode import EpisodeEvidence

FORMAT = "envbench.stepper/1"

LIMIT = 2_000_000
"""Characters of packed text that a page holds of one view, by default."""

CHUNK_BYTES = 256_000
"""About how many bytes a chunk has before it is compressed."""

MOST_MOMENTS = 1_024
"""Moments of a chunk, at most."""

BUCKETS = 2_000
"""Places of the timeline, at most: more than there are pixels."""

MOST_MARKS = 200_000
"""Marks of one kind that are listed one by one; of more, only the timeline tells."""

MOST_COMPARED = 200_000
"""Steps of two episodes that are compared one by one."""

SEPARATOR = "."
"""Stands between the parts of packed text; it is no character of base64."""


@dataclass(frozen=True)
class Payload:
    """An episode as a stepper reads it.

    Attributes:
        episode: the episode.
        limit: characters of packed text for it.
        verdicts: what was said of it.
        differs: steps at which it differs from the episode beside it, None when there is none.
    """

    episode: EpisodeEvidence
    limit: int = LIMIT
    verdicts: Verdicts = field(default_factory=lambda: Verdicts([], [], [], [], 0))
    differs: tuple[int, ...] | None = None

    @cached_property
    def text(self) -> str:
        """The packed text: the head and the chunks that fit, base64 of gzip, dots between."""
        chosen = self._all_chunks() or self._excerpt()
        frames = self._frames(chosen)
        head = self._head(chosen, frames)
        return SEPARATOR.join([_packed(head), *(text for _, text in chosen), *frames.values()])

    def chunk(self, index: int) -> bytes:
        """One chunk, compressed, with the whole state at its first moment.

        Raises:
            IndexError: when there is no such chunk.
        """
        if not 0 <= index < self.n_chunks:
            raise IndexError(f"chunk {index} is not among {self.n_chunks}")
        return _compressed(self._chunk(index, with_state=True))

    @property
    def n_moments(self) -> int:
        """The reset, every step, and the end where its state is another."""
        return int(self._source.n_steps) + 1 + self._ends_apart

    @property
    def n_chunks(self) -> int:
        """How many chunks hold all moments."""
        return -(-self.n_moments // self._per_chunk)

    @property
    def _source(self) -> Any:
        return self.episode._source

    @cached_property
    def _ends_apart(self) -> bool:
        final = self._source.final_state
        if final is None:
            return False
        n = self._source.n_steps
        last = self._reader.rows(n, n).state_hash[0] if n else self._source.initial_state
        return bool(final != last)

    @cached_property
    def _reader(self) -> Reader:
        return reader_of(self.episode)

    @cached_property
    def _outline(self) -> Outline:
        return self._reader.outline()

    @cached_property
    def _size(self) -> tuple[int, int]:
        return self._reader.size()

    @cached_property
    def _per_chunk(self) -> int:
        a_step = self._size[0] / max(self._source.n_steps, 1)
        return int(min(MOST_MOMENTS, max(1, CHUNK_BYTES // max(a_step, 1))))

    def _all_chunks(self) -> list[tuple[int, str]] | None:
        """Every chunk, with whole states where the changes since the last one outgrow it."""
        found = []
        total = 0
        since = None
        for index in range(self.n_chunks):
            changes = self._changes_of(index)
            with_state = since is None or since >= max(self._size[1], 16_384)
            content = self._chunk(index, with_state=with_state, changes=changes)
            text = _packed(content)
            total += len(text)
            if total > self.limit:
                return None
            if with_state and b'"state_at":' in content:
                since = 0
            if since is not None:  # until a state was seen, each chunk looks for one
                since += sum(map(_size_of, changes))
            found.append((index, text))
        return found

    def _excerpt(self) -> list[tuple[int, str]]:
        """Chunks that fit, those with marks first; each with its state when that fits too."""
        found: dict[int, str] = {}
        total = 0
        for index in self._by_interest():
            for with_state in (True, False):
                text = _packed(self._chunk(index, with_state=with_state))
                if total + len(text) <= self.limit:
                    total += len(text)
                    found[index] = text
                    break
            else:
                if len(found) > 0 and total > 0.9 * self.limit:
                    break
        return sorted(found.items())

    def _by_interest(self) -> Iterator[int]:
        errors = [i for i, failed in enumerate(self._outline.failed, 1) if failed]
        said = [step for check in self.verdicts.checks for step in parse(check)["steps"]]
        moments = [0, *self.verdicts.forbidden, *self.verdicts.restored, *said]
        moments += [self.n_moments - 1, *errors[:100]]
        order = [step // self._per_chunk for step in moments if step < self.n_moments]
        yield from dict.fromkeys([*order, *range(self.n_chunks)])

    def _changes_of(self, index: int) -> list[ChangeRow]:
        first = index * self._per_chunk
        return self._reader.changes(first, min(first + self._per_chunk, self.n_moments) - 1)

    def _chunk(
        self, index: int, *, with_state: bool, changes: list[ChangeRow] | None = None
    ) -> bytes:
        first = index * self._per_chunk
        last = min(first + self._per_chunk, self.n_moments) - 1
        if changes is None:
            changes = self._reader.changes(first, last)
        columns = self._reader.rows(max(first, 1), last)
        n = last - first + 1
        texts: dict[str, list[bytes | None]] = {
            "action": columns.action,
            "error": columns.error,
            "info": columns.info,
            "observation": columns.observation,
            "reward": [
                None if info is None else reward_json(reward)
                for info, reward in zip(columns.info, columns.reward, strict=True)
            ],
            "terminated": [_flag(value) for value in columns.terminated],
            "truncated": [_flag(value) for value in columns.truncated],
        }
        if self._source.n_steps <= 10_000:  # beyond that, times are half of what a page can hold
            texts["step_us"] = [_number(value) for value in columns.step_us]
        if first == 0:
            reset = parse(self._source.head()["initial"]) or {}
            for name, column in texts.items():
                value = reset.get(name)
                column.insert(0, None if value is None else canonical(value))
        parts = {
            name: _list([*column, *[None] * (n - len(column))])
            for name, column in texts.items()
            if any(value is not None for value in column)
        }
        parts["changes"] = _in_columns(changes, first)
        parts["first"] = canonical(first)
        parts["n"] = canonical(n)
        unseen = [
            first + i
            for i, digest in enumerate(columns.state_hash, 1 if first == 0 else 0)
            if digest is None
        ]
        if first == 0 and self._source.initial_state is None:
            unseen.insert(0, 0)
        parts["unseen"] = canonical(unseen)
        events = [event for event in self._audit if first <= event["step"] <= last]
        if events:
            parts["events"] = canonical(events)
        if with_state:
            self._add_state(parts, first, last, columns.state_hash)
        frames = self._frame_hashes[first : last + 1]
        if any(frames):
            parts["frame"] = canonical(frames)
        return join_object(parts)

    def _add_state(
        self, parts: dict[str, bytes], first: int, last: int, hashes: Sequence[str | None]
    ) -> None:
        """Add the state at the first moment, or the first one seen where none was before."""
        state = self._reader.state(first)
        at = first
        if state is None:
            seen = (i for i, digest in enumerate(hashes, max(first, 1)) if digest is not None)
            at = next(seen, last)
            state = self._reader.state(at)
        if state is not None:
            parts["state"] = state
            parts["state_at"] = canonical(at)

    @cached_property
    def _audit(self) -> list[dict[str, Json]]:
        return parse(self._source.head()["audit"]) or []

    @cached_property
    def _frame_hashes(self) -> list[str | None]:
        frames = getattr(self.episode, "frames", None)
        return [] if frames is None or frames.kind is None else list(frames.hashes)

    def _frames(self, chosen: Iterable[tuple[int, str]]) -> dict[str, str]:
        """The frames of the chosen chunks, each distinct one once, as far as they fit."""
        room = self.limit - sum(len(text) for _, text in chosen)
        wanted: dict[str, None] = {}
        for index, _ in chosen:
            first = index * self._per_chunk
            for digest in self._frame_hashes[first : first + self._per_chunk]:
                if digest is not None:
                    wanted[digest] = None
        found: dict[str, str] = {}
        names = list(wanted)
        for start in range(0, len(names), 64):
            block = names[start : start + 64]
            contents = self.episode.frames.read(block)
            for digest in block:
                text = base64.b64encode(_compressed(contents[digest].content)).decode()
                room -= len(text)
                if room < 0:
                    return found
                found[digest] = text
        return found

    def frame(self, digest: str) -> bytes:
        """The content of a frame, compressed."""
        return _compressed(self.episode.frames.read([digest])[digest].content)

    def _head(self, chosen: Sequence[tuple[int, str]], frames: Mapping[str, str]) -> bytes:
        present = [index for index, _ in chosen]
        parts = {
            "checks": b"[%b]" % b",".join(self.verdicts.checks),
            "chunks": canonical(present),
            "episode": self._about(),
            "findings": b"[%b]" % b",".join(self.verdicts.findings),
            "format": canonical(FORMAT),
            "frame_kind": canonical(self.episode.frames.kind if self._frame_hashes else None),
            "frames": canonical(list(frames)),
            "keys": canonical(parse(self._source.head()["row_keys"]) or {}),
            "limit": canonical(self.limit),
            "marks": canonical({kind: _steps(found) for kind, found in self._marks().items()}),
            "n_chunks": canonical(self.n_chunks),
            "n_findings": canonical(self.verdicts.n_findings),
            "n_frames": canonical(len(set(self._frame_hashes) - {None})),
            "n_moments": canonical(self.n_moments),
            "per_chunk": canonical(self._per_chunk),
            "spaces": canonical(self._spaces()),
            "timeline": canonical(self._timeline()),
        }
        return join_object(parts)

    def _about(self) -> bytes:
        head = self._source.head()
        copied = (
            "case",
            "case_id",
            "duration_ms",
            "ending",
            "environment_id",
            "episode_id",
            "errors",
            "max_steps",
            "observer_id",
            "options",
            "output",
            "recorded_at",
            "seed",
            "termination",
            "totals",
        )
        store = store_of(self.episode)
        parts = {name: cut(head[name]) for name in copied}
        # labels may hold a whole conversation; who acted is shown beside it
        provenance = parse(head["provenance"])
        parts["provenance"] = join_object(
            {name: cut(canonical(value)) for name, value in provenance.items()}
        )
        parts["audited"] = canonical(head["audit"] != b"null")
        parts["coverage_issues"] = canonical(self.episode.coverage_issues[:100])
        parts["digest"] = canonical(self.episode.digest)
        # the name alone: the page goes to others, who need no path of this machine
        parts["store"] = canonical(None if store is None or store.path is None else store.path.name)
        return join_object(parts)

    def _marks(self) -> dict[str, Sequence[int]]:
        outline = self._outline
        errors = {i for i, failed in enumerate(outline.failed, 1) if failed}
        for error in parse(self._source.head()["errors"]):
            step = error.get("step")
            errors.add(step if type(step) is int and 0 <= step < self.n_moments else 0)
        checks: set[int] = set()
        for text in self.verdicts.checks:
            check = parse(text)
            if check["passed"] is not True:
                checks.add(check["steps"][0] if check["steps"] else self.n_moments - 1)
        marks: dict[str, Iterable[int]] = {
            "change": [step for step, _ in outline.changed],
            "check": checks,
            "error": errors,
            "forbidden": self.verdicts.forbidden,
            "restored": [*outline.restored, *self.verdicts.restored],
            "reward": [i for i, reward in enumerate(outline.reward, 1) if reward],
            "unseen": [i for i, unseen in enumerate(outline.unseen, 1) if unseen]
            if self._source.head()["observer_id"] != b"null"
            else [],
        }
        if self.differs is not None:
            marks["differs"] = self.differs
        return {
            kind: sorted({step for step in steps if 0 <= step < self.n_moments})
            for kind, steps in marks.items()
        }

    def _timeline(self) -> dict[str, Json]:
        """Rewards and changes along the episode, for drawing alone."""
        n = self.n_moments
        places = min(n, BUCKETS)
        rewards = np.array([np.nan if r is None else r for r in self._outline.reward], float)
        at = np.arange(1, len(rewards) + 1) * places // n
        finite = np.isfinite(rewards)
        found: dict[str, Json] = {"places": places}
        if finite.any() and rewards[finite].any():
            low, high = np.zeros(places), np.zeros(places)
            np.minimum.at(low, at[finite], rewards[finite])
            np.maximum.at(high, at[finite], rewards[finite])
            scale = float(max(high.max(), -low.min()))
            found["reward"] = {
                "scale": scale,
                "low": np.round(low / scale * 100).astype(int).tolist(),
                "high": np.round(high / scale * 100).astype(int).tolist(),
            }
        if self._outline.changed:
            counts = np.zeros(places, int)
            steps, numbers = np.array(self._outline.changed).T
            np.add.at(counts, np.minimum(steps * places // n, places - 1), numbers)
            found["changes"] = counts.tolist()
        return found

    def _spaces(self) -> dict[str, Json]:
        spaces = parse(self._source.head()["spaces"]) or {}
        return {name: _outline_of(spaces.get(name)) for name in ("action", "observation")}


def payloads(
    episode: EpisodeEvidence,
    other: EpisodeEvidence | None = None,
    *,
    rules: Iterable[Rule] = (),
    report: Report | None = None,
    limit: int = LIMIT,
) -> tuple[Payload, ...]:
    """The payloads of one episode, or of two that are shown side by side.

    Args:
        episode: the episode.
        other: the one beside it.
        rules: rules on changes to apply now, to both.
        report: results to show instead of those in the store.
        limit: characters of packed text for all of it.

    Raises:
        TypeError: when an argument is of another type.
        ValueError: when the report has no result of `episode`, or the limit is not positive.
    """
    from envbench.evidence.episode import EpisodeEvidence

    for name, value in (("episode", episode), ("other", other)):
        if not isinstance(value, EpisodeEvidence) and not (name == "other" and value is None):
            raise TypeError(f"{name} must be an EpisodeEvidence, not {type(value).__name__}")
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise TypeError(f"limit must be an integer, not {type(limit).__name__}")
    if limit < 1:
        raise ValueError(f"limit must be positive, not {limit}: it counts characters of a page")
    held = tuple(rules)
    first = verdicts_of(episode, held, report)
    if other is None:
        return (Payload(episode, limit, first),)
    judged = report is not None and any(e.episode_id == other.episode_id for e in report.episodes)
    second = verdicts_of(other, held, report if judged else None)
    differs = tuple(different_steps(episode, other))
    return (
        Payload(episode, limit // 2, first, differs),
        Payload(other, limit // 2, second, differs),
    )


def different_steps(episode: EpisodeEvidence, other: EpisodeEvidence) -> Iterator[int]:
    """The steps at which two episodes differ in action, observation, reward, flags or state.

    Steps are aligned by their number. A step that only one of them has differs.
    """
    if episode._source.initial_state != other._source.initial_state:
        yield 0
    seen = []
    for each in (episode, other):
        reader = reader_of(each)
        last = min(each._source.n_steps, MOST_COMPARED)
        columns = reader.rows(1, last)
        seen.append(
            list(
                zip(
                    columns.action,
                    columns.observation,
                    [reward_json(reward) for reward in columns.reward],
                    columns.terminated,
                    columns.truncated,
                    columns.state_hash,
                    strict=True,
                )
            )
        )
    shorter = min(map(len, seen))
    for i in range(max(map(len, seen))):
        if i >= shorter or seen[0][i] != seen[1][i]:
            yield i + 1


def pack(content: Mapping[str, Json]) -> str:
    """Pack what `unpack` gave, perhaps altered; nothing of it is looked at."""
    head = content["head"]
    parts = [canonical(head), *map(_chunk_text, content["chunks"])]
    frames = content["frames"]
    parts += [
        base64.b64decode(frames[digest])
        if head["frame_kind"] == "rgb_array"
        else frames[digest].encode()
        for digest in head["frames"]
    ]
    return SEPARATOR.join(map(_packed, parts))


def unpack(text: str) -> dict[str, Json]:
    """The content of packed text as plain JSON: ``{"head", "chunks", "frames"}``.

    `docs/stepper.md` says what the head and the chunks hold. Frames are by SHA-256: base64 of a
    PNG, or text. Whitespace in the text does not matter.

    Raises:
        ValueError: when it is no packed text.
    """
    parts = [_unpacked(part) for part in "".join(text.split()).split(SEPARATOR)]
    head = parse(parts[0])
    if type(head) is not dict or head.get("format") != FORMAT:
        raise ValueError(f"the payload is not of the format {FORMAT}")
    n = len(head["chunks"])
    if len(parts) != 1 + n + len(head["frames"]):
        raise ValueError("the payload has not the parts that its head names")
    is_picture = head["frame_kind"] == "rgb_array"
    read: Callable[[bytes], str] = (
        (lambda content: base64.b64encode(content).decode()) if is_picture else bytes.decode
    )
    frames = zip(head["frames"], parts[1 + n :], strict=True)
    return {
        "head": head,
        "chunks": [_chunk_content(part) for part in parts[1 : 1 + n]],
        "frames": {digest: read(content) for digest, content in frames},
    }


def _packed(content: bytes) -> str:
    return base64.b64encode(_compressed(content)).decode()


def _compressed(content: bytes) -> bytes:
    compressor = zlib.compressobj(9, zlib.DEFLATED, 31)  # 31: in gzip's format, without a time
    return compressor.compress(content) + compressor.flush()


def _unpacked(text: str) -> bytes:
    try:
        return zlib.decompress(base64.b64decode(text, validate=True), 31)
    except (binascii.Error, zlib.error) as error:
        raise ValueError(f"a part of the payload cannot be read: {error}") from None


def _in_columns(rows: Sequence[ChangeRow], first: int) -> bytes:
    """Changes column by column, steps as distances: a fifth of what the rows would take."""
    names = ("after", "back", "before", "gap", "initial", "lag", "op", "path", "paths", "step")
    columns: dict[str, list[Any]] = {name: [] for name in names}
    paths: dict[str, int] = {}
    last = first
    for step, since, path, op, before, after, restored_at, restored_after, to_initial in rows:
        columns["step"].append(step - last)
        columns["gap"].append(step - since - 1)
        columns["path"].append(paths.setdefault(path, len(paths)))
        columns["op"].append(op)
        columns["back"].append(None if restored_at is None else restored_at - step)
        lag = None if restored_after is None else restored_at - restored_after - 1  # type: ignore[operator]
        columns["lag"].append(lag)
        columns["initial"].append(to_initial)
        columns["before"].append(before)
        columns["after"].append(after)
        last = step
    columns["paths"] = list(paths)
    values = {"before", "after"}
    return join_object(
        {
            name: _list(column) if name in values else orjson.dumps(column)
            for name, column in columns.items()
        }
    )


def _in_rows(columns: Mapping[str, Any], first: int) -> list[list[Json]]:
    """Changes row by row, as the table `state_changes` has them."""
    rows = []
    step = first
    paths = columns["paths"]
    names = ("step", "gap", "path", "op", "before", "after", "back", "lag", "initial")
    for distance, gap, path, op, before, after, back, lag, initial in zip(
        *(columns[name] for name in names), strict=True
    ):
        step += distance
        restored_at = None if back is None else step + back
        restored_after = None if restored_at is None or lag is None else restored_at - lag - 1
        rows.append(
            [
                step,
                step - gap - 1,
                paths[path],
                op,
                before,
                after,
                restored_at,
                restored_after,
                initial,
            ]
        )
    return rows


def _chunk_text(chunk: Mapping[str, Json]) -> bytes:
    """A chunk as it is packed, from what `unpack` gave."""
    rows = [
        (*row[:4], *(None if value is None else canonical(value) for value in row[4:6]), *row[6:])
        for row in chunk["changes"]
    ]
    parts = {name: canonical(value) for name, value in chunk.items() if name != "changes"}
    return join_object({**parts, "changes": _in_columns(rows, chunk["first"])})


def _chunk_content(text: bytes) -> dict[str, Json]:
    chunk: dict[str, Json] = parse(text)
    return chunk | {"changes": _in_rows(chunk["changes"], chunk["first"])}


def _size_of(row: ChangeRow) -> int:
    return len(row[2]) + len(row[4] or b"") + len(row[5] or b"")


def _list(values: Iterable[bytes | None]) -> bytes:
    return b"[%b]" % b",".join([b"null" if value is None else value for value in values])


def _flag(value: bool | None) -> bytes | None:
    return None if value is None else b"true" if value else b"false"


def _number(value: float | None) -> bytes | None:
    return None if value is None else canonical(round(value, 1))


def _steps(found: Sequence[int]) -> list[int] | None:
    """Steps as the distance of each from the one before; None when there are too many to list."""
    if len(found) > MOST_MARKS:
        return None
    return [step - before for before, step in pairwise([0, *found])]


def _outline_of(space: Json) -> Json:
    """What has to be known of a space to take a sample out of its batch."""
    if type(space) is not dict:
        return None
    kind, inner = space.get("type"), space.get("spaces")
    if kind == "Dict" and type(inner) is list:
        return {"type": kind, "spaces": [[name, _outline_of(each)] for name, each in inner]}
    if kind == "Tuple" and type(inner) is list:
        return {"type": kind, "spaces": [_outline_of(each) for each in inner]}
    return {"type": kind}
