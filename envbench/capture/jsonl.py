"""Episodes as JSON lines: a record for each step and one for each episode.

The records have the fields of a published recorder (``decision_type`` ``rl.step`` or
``rl.episode``, step numbers from 0), and the exact values beside them, under ``values``: of a step
its action, observation and info, of an episode the observation and info of its reset.
"""

from __future__ import annotations

import datetime
import os
from pathlib import Path
from typing import Any

from envbench.evidence.portable import Json, canonical, parse
from envbench.evidence.record import reward_json
from envbench.evidence.spaces import SpaceCodec
from envbench.evidence.tagged import TAG_BYTES, Named, decode, inline_arrays, tag
from envbench.store.errors import StoreError
from envbench.store.writing import EpisodePart, Seal


class JsonLines:
    """Appends the records of episodes to a file; each batch is on disk when `append` returns.

    A line that a killed process or a full disk left unfinished is ended: it spoils no other.

    Args:
        path: the file, made when it does not exist; its folder must.

    Raises:
        StoreError: when the file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        except OSError as error:
            raise StoreError(f"{path} cannot be opened for writing: {error.strerror}") from error
        self._begun: dict[str, _Begun] = {}

    def append(self, parts: list[EpisodePart]) -> None:
        """Write the records of some parts of episodes."""
        lines: list[bytes] = []
        for part in parts:
            lines += self._records(part)
        content = b"".join(_without_breaks(line) + b"\n" for line in lines)
        if content and self._is_torn():
            content = b"\n" + content
        while content:
            content = content[os.write(self._file, content) :]
        os.fsync(self._file)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _is_torn(self) -> bool:
        """Whether the file ends within a line."""
        if not os.fstat(self._file).st_size:
            return False
        os.lseek(self._file, -1, os.SEEK_END)
        return os.read(self._file, 1) != b"\n"

    def _records(self, part: EpisodePart) -> list[bytes]:
        head = part.seal.head if part.seal is not None else None
        if part.opening is not None:
            opening = parse(part.opening)
            self._begun[part.episode_id] = _Begun(opening["spaces"], opening["initial"], part)
        elif head is not None and part.episode_id not in self._begun:
            self._begun[part.episode_id] = _Begun(
                parse(head["spaces"]), parse(head["initial"]), part
            )
        begun = self._begun[part.episode_id]
        actions, observations = begun.codecs
        records = [
            canonical(_step_record(part, index, row, actions, observations))
            for index, row in enumerate(part.columns.rows(), part.first_step)
        ]
        if part.seal is not None:
            del self._begun[part.episode_id]
            records.append(canonical(_episode_record(part, part.seal, begun.initial)))
        return records


class _Begun:
    """What the later records of an episode need of its first part."""

    def __init__(self, spaces: Json, initial: Json, part: EpisodePart) -> None:
        self.codecs = _codecs(spaces)
        self.initial = initial and inline_arrays(initial, part.arrays)


def _without_breaks(line: bytes) -> bytes:
    """Escape what JSON allows in a string and some readers take for the end of a line."""
    for character, escape in _BREAKS:
        line = line.replace(character, escape)
    return line


_BREAKS = [
    (character.encode(), f"\\u{ord(character):04x}".encode())
    for character in ("\u0085", "\u2028", "\u2029")
]


def _codecs(spaces: Json) -> tuple[SpaceCodec, SpaceCodec]:
    spaces = spaces or {}
    return (
        SpaceCodec.from_description(spaces.get("action")),
        SpaceCodec.from_description(spaces.get("observation")),
    )


def _step_record(
    part: EpisodePart,
    index: int,
    row: tuple[Any, ...],
    actions: SpaceCodec,
    observations: SpaceCodec,
) -> dict[str, Json]:
    action, observation, reward, terminated, truncated, info, _, error, at, took, _ = row
    values = {
        "action": _plain(action, part),
        "observation": _plain(observation, part),
        "info": _plain(info, part),
    }
    return {
        "decision_type": "rl.step",
        "episode_id": part.episode_id,
        "step_index": index - 1,
        "inputs": {"action": _repr(actions, action, part)},
        "outputs": {"observation": _repr(observations, observation, part)},
        "reward": parse(reward_json(reward)),
        "terminated": terminated,
        "truncated": truncated,
        "info_keys": _info_keys(values["info"]),
        "started_at": None if at is None else _moment(at),
        "execution_time_ms": None if took is None else took / 1000,
        "error": _plain(error, part),
        "values": values,
    }


def _episode_record(part: EpisodePart, seal: Seal, initial: Json) -> dict[str, Json]:
    head = seal.head
    totals, ending = parse(head["totals"]), parse(head["ending"])
    return {
        "decision_type": "rl.episode",
        "episode_id": part.episode_id,
        "inputs": {"env_id": parse(head["environment_id"]), "seed": parse(head["seed"])},
        "outputs": {
            "total_steps": totals["steps"],
            "episode_return": totals["reward"],
            "completed": ending in ("terminated", "truncated"),
        },
        "ending": ending,
        **parse(head["termination"]),
        "recorded_at": parse(head["recorded_at"]),
        "execution_time_ms": parse(head["duration_ms"]),
        "case_id": parse(head["case_id"]),
        "provenance": parse(head["provenance"]),
        # of a step in an earlier part, a large array stands in that step's own record
        "errors": [_inlined(error, part) for error in parse(head["errors"])],
        "issues": parse(head["issues"]),
        "digest": seal.digest,
        "trajectory_digest": seal.trajectory_digest,
        "values": initial,
    }


def _plain(text: bytes | None, part: EpisodePart) -> Json:
    if text is None:
        return None
    value = parse(text)
    return inline_arrays(value, part.arrays) if TAG_BYTES in text else value


def _inlined(error: Json, part: EpisodePart) -> Json:
    try:
        return inline_arrays(error, part.arrays)
    except (KeyError, ValueError):
        return error


def _repr(codec: SpaceCodec, text: bytes | None, part: EpisodePart) -> str | None:
    return None if text is None else repr(codec.decode(parse(text), part.arrays))


def _info_keys(info: Json) -> list[Json]:
    """The keys of an info in order, whatever they are."""
    try:
        found = decode(info)
    except ValueError:
        return []
    found = found.value if isinstance(found, Named) else found
    return [tag(key) for key in sorted(map(str, found))] if isinstance(found, dict) else []


def _moment(microseconds: int) -> str:
    moment = datetime.datetime.fromtimestamp(0, datetime.UTC)
    return (moment + datetime.timedelta(microseconds=microseconds)).isoformat()
