"""`EpisodeEvidence`: what was seen of one episode, sealed."""

from __future__ import annotations

import base64
import datetime
import hashlib
import importlib
import math
import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

from envbench.evidence.case import EvalCase
from envbench.evidence.digest import seal, shown, state_hash
from envbench.evidence.frames import Frames, content_hash
from envbench.evidence.portable import Json, canonical, parse
from envbench.evidence.record import EncodedEpisode, Source, StepColumns
from envbench.evidence.schema import DATA_KEYS, TAGGED_KEYS, check_schema
from envbench.evidence.spaces import SpaceCodec
from envbench.evidence.tagged import (
    TAG,
    array_digests,
    decode,
    decode_text,
    extract_arrays,
    inline_arrays,
)

NOT_COVERAGE = ("action", "lifecycle", "limit", "render", "step_limit")
"""Phases of errors that leave no gap in what is judged: nothing was done, it was asked for, or a
frame is missing, which is looked at and not judged."""


@dataclass(frozen=True, slots=True)
class Initial:
    """What the reset returned: the observation and the info, as Python values."""

    observation: Any
    info: Any


@dataclass(frozen=True, slots=True)
class Step:
    """One attempted step, as Python values.

    Attributes:
        index: position in the episode; the first step has 1.
        action: what the agent sent, None when it was refused.
        observation: what the environment returned, None without a transition.
        reward: likewise; None also when it was no number (`error` then holds what was seen).
        terminated: likewise, None when it was no boolean.
        truncated: likewise.
        info: likewise, None when it was no dict.
        state: the state read after the step, None when none was seen.
        error: ``{"phase", "type", "message", …}``, None when nothing went wrong.
        started_at: when the environment was called.
        step_us: microseconds that the environment took.
        observe_us: microseconds that the observer took.
    """

    index: int
    action: Any
    observation: Any
    reward: float | None
    terminated: bool | None
    truncated: bool | None
    info: Any
    state: Any
    error: dict[str, Any] | None
    started_at: datetime.datetime | None
    step_us: float | None
    observe_us: float | None


class EpisodeEvidence:
    """What was seen of one episode; it cannot be changed.

    Everything handed out is a copy. `.data` is plain JSON, read key by key; `.initial`, `.steps`,
    `.states` and `.final_state` are decoded to Python values.

    Two episodes are equal when their digests are. A digest shows that evidence was altered, not
    who made it.
    """

    __slots__ = ("__weakref__", "_source")

    def __init__(self, source: Source) -> None:
        self._source = source

    @property
    def data(self) -> EpisodeData:
        """All evidence as plain JSON, parsed key by key as it is asked for; a detached copy."""
        return EpisodeData(self._load, self._keys())

    @property
    def episode_id(self) -> str:
        """The episode's own id, a UUID of version 7."""
        return str(self._head("episode_id"))

    @property
    def digest(self) -> str:
        """SHA-256 of all evidence, as recorded; `verify` recomputes it."""
        return self._source.digest

    @property
    def trajectory_digest(self) -> str:
        """SHA-256 of what happened, without times, ids and labels: identical runs agree."""
        return self._source.trajectory_digest

    @property
    def case(self) -> EvalCase:
        """The case that the episode answers, without its reference."""
        return EvalCase.from_dict(self._head("case"))

    @property
    def ending(self) -> str:
        """How the episode ended."""
        return str(self._head("ending"))

    @property
    def output(self) -> str | None:
        """What the agent's function returned."""
        output: str | None = decode(self._head("output"))
        return output

    @property
    def errors(self) -> list[dict[str, Any]]:
        """Every error: ``{"phase", "type", "message", "step", …}``."""
        errors: list[dict[str, Any]] = decode(self._head("errors"), self._source.array)
        return errors

    @property
    def initial(self) -> Initial | None:
        """What the reset returned, None when it failed."""
        initial = self._head("initial")
        if initial is None:
            return None
        codec = SpaceCodec.from_description((self._head("spaces") or {}).get("observation"))
        return Initial(
            codec.decode(initial["observation"], self._source.array),
            decode(initial["info"], self._source.array),
        )

    @property
    def initial_state(self) -> Any:
        """The state read after reset, None when none was seen."""
        return self._state(self._source.initial_state)

    @property
    def final_state(self) -> Any:
        """The state read at the end, None when none was seen."""
        return self._state(self._source.final_state)

    @property
    def states(self) -> States:
        """The states: index 0 after reset, i after step i; n + 1 entries, None where unseen."""
        hashes = [self._source.initial_state]
        for block in self._source.steps():
            hashes.extend(block.state_hash)
        return States(hashes, self._state)

    @property
    def frames(self) -> Frames:
        """What the environment showed, where rendering was asked for; aligned with `states`."""
        source, kind = self._source, self._frame_kind()
        if kind is None:
            return Frames(None, [None] * (source.n_steps + 1), lambda hashes: {})
        return Frames(kind, source.frame_hashes(), source.frame_contents)

    @property
    def steps(self) -> list[Step]:
        """Every attempted step, in order."""
        return list(self._iterate_steps())

    @property
    def coverage_issues(self) -> list[str]:
        """What the evidence does not cover; a report of checks that all pass is not a pass with it.

        An end other than the case expects, unseen states where an observer was given, errors of
        capture, contract, environment and agent, and unconfirmed cleanup.
        """
        issues = [text for text in self._head("issues") if not text.startswith("note: ")]
        for error in self._head("errors"):
            if error["phase"] not in NOT_COVERAGE:
                at = "" if error.get("step") is None else f" at step {error['step']}"
                issues.append(f"{error['phase']}{at}: {error['type']}: {decode(error['message'])}")
        expects, ending = self._head("case")["expects"], self.ending
        complete = {
            "termination": ("terminated",),
            "truncation": ("truncated",),
            "either": ("terminated", "truncated"),
        }[expects]
        if ending not in complete:
            issues.append(f"ending: {ending}, where the case expects {' or '.join(complete)}")
        issues += self._unseen_states()
        cleanup = self._head("cleanup")
        if cleanup is not None and not cleanup["completed"]:
            issues.append("cleanup: closing the environment was not confirmed")
        return list(dict.fromkeys(issues))

    def changes(self) -> list[Any]:
        """Every change of the state, in order: a list of `envbench.changes.Change`.

        They are derived from the states each time, so that nothing but evidence is believed.
        """
        # `changes` stands above this floor and knows it; this is the one call the other way
        return list(importlib.import_module("envbench.changes").changes_of(self))

    def state_texts(self) -> Iterator[tuple[int, bytes]]:
        """The canonical JSON of each state that was seen, with its index, as `.states` has them.

        A last state that differs from the one after the last step has the next index.
        """
        source = self._source
        hashes = [source.initial_state, *self._state_hashes()]
        if source.final_state is not None and source.final_state != hashes[-1]:
            hashes.append(source.final_state)
        for index, digest in enumerate(hashes):
            if digest is not None:
                yield index, source.state(digest)

    @classmethod
    def from_dict(cls, data: dict[str, Json]) -> EpisodeEvidence:
        """Evidence from what `to_dict` gave.

        Raises:
            ValueError: naming the place, when anything does not fit the schema or the digests.
        """
        if not isinstance(data, dict):
            raise ValueError(  # noqa: TRY004 - everything malformed is a ValueError
                f"/: expected an object, found {type(data).__name__}"
            )
        plain = parse(canonical(dict(data)))
        check_schema(plain)
        episode = cls(_encode(plain))
        for problem in episode.verify():
            raise ValueError(problem)
        return episode

    def to_dict(self) -> dict[str, Json]:
        """All evidence as plain JSON that stands alone, large arrays included."""
        return {key: self._load(key) for key in self._keys()}

    def save_json(self, path: str | os.PathLike[str]) -> None:
        """Write all evidence to a JSON file, which is complete or not there."""
        write_atomically(Path(path), canonical(self.to_dict()) + b"\n")

    @classmethod
    def load_json(cls, path: str | os.PathLike[str]) -> EpisodeEvidence:
        """Read evidence that `save_json` wrote.

        Raises:
            OSError: when the file cannot be read.
            ValueError: naming file and place, when it is not evidence or was altered.
        """
        try:
            return cls.from_dict(parse(Path(path).read_bytes(), unique_keys=True))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None

    def verify(self) -> list[str]:
        """Recompute every digest from the content.

        Returns:
            One sentence for each thing that was altered, naming its place; empty when nothing was.
        """
        source = self._source
        problems = []
        arrays = set().union(*map(_array_digests, self._tagged_texts()))
        seen = (source.initial_state, *self._state_hashes(), source.final_state)
        for expected in dict.fromkeys(digest for digest in seen if digest is not None):
            try:
                body = source.state(expected)
            except KeyError:
                problems.append(f"/states/{expected}: the state is missing")
                continue
            if state_hash(body) != expected:
                problems.append(f"/states/{expected}: the state was altered")
            arrays |= _array_digests(body)
        for expected in sorted(arrays):
            try:
                if hashlib.sha256(source.array(expected)).hexdigest() != expected:
                    problems.append(f"/arrays/{expected}: the array was altered")
            except KeyError:
                problems.append(f"/arrays/{expected}: the array is missing")
        head = dict(source.head())
        problems += self._altered_frames(head)
        digest, trajectory = seal(head, source.initial_state, source.steps(), source.final_state)
        if trajectory != source.trajectory_digest:
            problems.append(
                f"/trajectory_digest: {source.trajectory_digest} does not fit what is recorded"
                f" ({trajectory}): a step, state, error or the ending was altered"
            )
        if digest != source.digest and not (problems and trajectory != source.trajectory_digest):
            problems.append(
                f"/digest: {source.digest} does not fit what is recorded ({digest}): a time, id,"
                " label or other part of the record was altered"
            )
        return problems

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EpisodeEvidence) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __copy__(self) -> EpisodeEvidence:
        return self

    def __deepcopy__(self, memo: Any) -> EpisodeEvidence:
        return self

    def __repr__(self) -> str:
        steps, gaps = self._source.n_steps, len(self.coverage_issues)
        parts = [f"{steps} step{'' if steps == 1 else 's'}", self.ending]
        if gaps:
            parts.append(f"{gaps} coverage issue{'' if gaps == 1 else 's'}")
        return (
            f"<EpisodeEvidence {self._head('case_id')} on {self._head('environment_id')}:"
            f" {', '.join(parts)}, {self.episode_id}>"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return (EpisodeEvidence.from_dict, (self.to_dict(),))

    def _head(self, key: str) -> Json:
        return parse(self._source.head()[key])

    def _state(self, digest: str | None) -> Any:
        return (
            None if digest is None else decode_text(self._source.state(digest), self._source.array)
        )

    def _state_hashes(self) -> Iterator[str | None]:
        for block in self._source.steps():
            yield from block.state_hash

    def _tagged_texts(self) -> Iterator[bytes | None]:
        """Every text but the states in which large arrays can stand."""
        head = self._source.head()
        yield from (head[key] for key in TAGGED_KEYS)
        for block in self._source.steps():
            for column in (block.action, block.observation, block.info, block.error):
                yield from column

    def _frame_kind(self) -> str | None:
        head = self._source.head()
        return parse(head["frames"])["kind"] if "frames" in head else None

    def _keys(self) -> tuple[str, ...]:
        return DATA_KEYS if self._frame_kind() is None else (*DATA_KEYS, "frames")

    def _altered_frames(self, head: dict[str, bytes]) -> list[str]:
        """Say which frames were altered, and put into the head how they enter the digest."""
        frames = self.frames
        if frames.kind is None:
            return []
        problems = []
        first = {digest: i for i, digest in reversed(list(enumerate(frames.hashes)))}
        for digests in _batches([digest for digest in first if digest is not None], 64):
            contents = self._source.frame_contents(digests)
            for digest in digests:
                if digest not in contents:
                    problems.append(f"/frames/{first[digest]}: the frame {digest} is missing")
                elif content_hash(contents[digest]) != digest:
                    problems.append(f"/frames/{first[digest]}: the frame {digest} was altered")
        head["frames"] = shown(frames.kind, frames.hashes)
        return problems

    def _unseen_states(self) -> list[str]:
        if self._head("observer_id") is None:
            return []
        unseen = [] if self._source.initial_state else ["after reset"]
        if self._head("capture_steps"):
            gaps = self._source.unseen_steps()
            if gaps:
                listed = ", ".join(map(str, gaps[:5])) + (", …" if len(gaps) > 5 else "")
                unseen.append(f"after step {listed}")
        unseen += [] if self._source.final_state else ["at the end"]
        return [f"state: not seen {' and '.join(unseen)}"] if unseen else []

    def _load(self, key: str) -> Json:
        source = self._source
        if key == "steps":
            return [step for block in self._numbered() for step in self._step_objects(*block)]
        if key in ("initial_state", "final_state"):
            digest = getattr(source, key)
            return None if digest is None else self._inline(source.state(digest))
        if key in ("digest", "trajectory_digest"):
            return getattr(source, key)
        if key == "frames":
            return _frames_json(self.frames)
        text = source.head()[key]
        return self._inline(text) if key in TAGGED_KEYS else parse(text)

    def _inline(self, text: bytes | None) -> Json:
        if text is None:
            return None
        value = parse(text)
        return inline_arrays(value, self._source.array) if b'"sha256"' in text else value

    def _numbered(self) -> Iterator[tuple[int, StepColumns]]:
        first = 1
        for block in self._source.steps():
            yield first, block
            first += len(block)

    def _step_objects(self, first: int, block: StepColumns) -> Iterator[Json]:
        inline = self._inline
        states: dict[str, bytes] = {}
        for index, row in enumerate(block.rows(), first):
            action, observation, reward, terminated, truncated, info, state, error, *times = row
            transition = None
            if info is not None:
                transition = {
                    "observation": inline(observation),
                    "reward": reward if _finite(reward) else _tagged_reward(reward),
                    "terminated": terminated,
                    "truncated": truncated,
                    "info": inline(info),
                }
            if state is not None and state not in states:
                states = {state: self._source.state(state)}  # runs of one state are common
            yield {
                "index": index,
                "action": inline(action),
                "transition": transition,
                "state": None if state is None else inline(states[state]),
                "error": inline(error),
                "started_at": times[0],
                "step_us": times[1],
                "observe_us": times[2],
            }

    def _iterate_steps(self) -> Iterator[Step]:
        spaces = self._head("spaces") or {}
        actions = SpaceCodec.from_description(spaces.get("action"))
        observations = SpaceCodec.from_description(spaces.get("observation"))
        array = self._source.array
        for first, block in self._numbered():
            for index, row in enumerate(block.rows(), first):
                action, observation, reward, terminated, truncated, info, state, error, *times = row
                yield Step(
                    index=index,
                    action=None if action is None else actions.decode(parse(action), array),
                    observation=(
                        None if info is None else observations.decode(parse(observation), array)
                    ),
                    reward=reward,
                    terminated=terminated,
                    truncated=truncated,
                    info=None if info is None else decode_text(info, array),
                    state=self._state(state),
                    error=None if error is None else decode_text(error, array),
                    started_at=None if times[0] is None else _EPOCH + times[0] * _MICROSECOND,
                    step_us=times[1],
                    observe_us=times[2],
                )


class EpisodeData(dict[str, Any]):
    """A dict whose values are parsed when they are first read.

    It behaves as a plain dict, also under `json.dumps`, `copy` and `pickle`. orjson, which reads
    a dict's memory and not its methods, refuses it: give it `to_dict()`.
    """

    def __init__(self, load: Callable[[str], Json], keys: Sequence[str]) -> None:
        super().__init__(dict.fromkeys(keys, _UNREAD))
        self._load = load

    def __getitem__(self, key: str) -> Json:
        value = super().__getitem__(key)
        if value is _UNREAD:
            value = self._load(key)
            super().__setitem__(key, value)
        return value

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, or the default."""
        if key not in self:
            return default
        return self[key]

    def values(self) -> Any:
        """All values, parsed."""
        return self._all().values()

    def items(self) -> Any:
        """All items, parsed."""
        return self._all().items()

    def copy(self) -> dict[str, Json]:
        """A plain dict of the same values."""
        return dict(self.items())

    def pop(self, key: str, *default: Any) -> Any:
        """Remove a key and return its value, or the default."""
        if key in self:
            value = self[key]
            del self[key]
            return value
        return super().pop(key, *default)

    def popitem(self) -> tuple[str, Json]:
        """Remove the last key and return it with its value."""
        key = next(reversed(list(self)))
        return key, self.pop(key)

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of a key, set to the default where it is absent."""
        if key not in self:
            super().__setitem__(key, default)
        return self[key]

    def __iter__(self) -> Iterator[str]:
        return iter(list(super().__iter__()))

    def __eq__(self, other: object) -> bool:
        return self.copy() == (other.copy() if isinstance(other, EpisodeData) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __or__(self, other: Any) -> Any:
        return self.copy() | other

    def __ror__(self, other: Any) -> Any:
        return other | self.copy()

    def __repr__(self) -> str:
        return repr(self.copy())

    def __reduce__(self) -> tuple[Any, ...]:
        return (dict, (self.copy(),))

    __hash__ = None

    def _all(self) -> dict[str, Json]:
        for key in self:
            self[key]
        return dict(super().items())


class States(Sequence[Any]):
    """The states of an episode, each decoded when it is asked for."""

    def __init__(self, hashes: list[str | None], read: Callable[[str | None], Any]) -> None:
        self._hashes = hashes
        self._read = read

    def __len__(self) -> int:
        return len(self._hashes)

    @overload
    def __getitem__(self, index: int) -> Any: ...

    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...

    def __getitem__(self, index: int | slice) -> Any:
        found = self._hashes[index]
        return list(map(self._read, found)) if isinstance(found, list) else self._read(found)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def __repr__(self) -> str:
        seen = sum(digest is not None for digest in self._hashes)
        return f"<States: {seen} of {len(self)} seen, {len(set(self._hashes) - {None})} distinct>"

    __hash__ = None  # type: ignore[assignment]


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file that is complete or not there: a temporary one beside it, then a rename."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


class _Unread:
    """Stands in an `EpisodeData` for a value that was not read yet."""

    def __repr__(self) -> str:
        return "<not read yet: give dict(data) to readers of a dict's memory>"


_UNREAD = _Unread()
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)


def _array_digests(text: bytes | None) -> set[str]:
    return array_digests(parse(text)) if text is not None and b'"sha256"' in text else set()


def _finite(reward: float | None) -> bool:
    return reward is None or math.isfinite(reward)


def _tagged_reward(reward: float | None) -> Json:
    assert reward is not None
    return {TAG: "float", "value": "nan" if math.isnan(reward) else str(reward)}


def _batches(items: list[str], size: int) -> Iterator[list[str]]:
    for first in range(0, len(items), size):
        yield items[first : first + size]


def _frames_json(frames: Frames) -> Json:
    """Frames as they stand in `.data`, each content once."""
    content: dict[str, Json] = {}
    for frame in frames:
        if frame is not None and frame.sha256 not in content:
            picture = frame.kind == "rgb_array"
            content[frame.sha256] = (
                base64.b64encode(frame.content).decode() if picture else frame.text
            )
    return {"kind": frames.kind, "shown": list(frames.hashes), "content": content}


def _read_contents(frames: dict[str, Json]) -> dict[str, bytes]:
    """The contents of frames as `.data` holds them, by SHA-256."""
    if frames["kind"] == "ansi":
        return {digest: text.encode() for digest, text in frames["content"].items()}
    return {digest: base64.b64decode(text) for digest, text in frames["content"].items()}


def _encode(data: dict[str, Json]) -> EncodedEpisode:
    """Turn checked `.data` back into columns."""
    arrays: dict[str, bytes] = {}
    states: dict[str, bytes] = {}

    def text(value: Json) -> bytes:
        whole = canonical(value)
        return canonical(extract_arrays(value, arrays)) if b'"zlib"' in whole else whole

    def optional(value: Json) -> bytes | None:
        return None if value is None else text(value)

    def keep_state(value: Json) -> str | None:
        if value is None:
            return None
        body = text(value)
        digest = state_hash(body)
        states[digest] = body
        return digest

    columns = StepColumns()
    for step in data["steps"]:
        transition = step["transition"]
        columns.action.append(optional(step["action"]))
        columns.observation.append(transition and text(transition["observation"]))
        columns.reward.append(transition and _read_reward(transition["reward"]))
        columns.terminated.append(transition and transition["terminated"])
        columns.truncated.append(transition and transition["truncated"])
        columns.info.append(transition and text(transition["info"]))
        columns.state_hash.append(keep_state(step["state"]))
        columns.error.append(optional(step["error"]))
        columns.started_at.append(step["started_at"])
        columns.step_us.append(step["step_us"])
        columns.observe_us.append(step["observe_us"])
    apart = ("steps", "initial_state", "final_state", "digest", "trajectory_digest", "frames")
    head = {
        key: text(value) if key in TAGGED_KEYS else canonical(value)
        for key, value in data.items()
        if key not in apart
    }
    frames = data.get("frames")
    if frames is not None:
        head["frames"] = shown(frames["kind"], frames["shown"])
    return EncodedEpisode(
        parts=head,
        columns=columns,
        states=states,
        arrays=arrays,
        initial_state=keep_state(data["initial_state"]),
        final_state=keep_state(data["final_state"]),
        digest=data["digest"],
        trajectory_digest=data["trajectory_digest"],
        shown=() if frames is None else frames["shown"],
        frames={} if frames is None else _read_contents(frames),
    )


def _read_reward(value: Json) -> float | None:
    reward: float | None = decode(value)
    return reward
