"""Spill files: parts of episodes that could not be written to their store.

Each is one JSON file in ``STORE.spill/``, complete or not there, with a digest over its content.
They are taken in when the store is next opened for writing.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import os
import re
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path

from envbench.evidence.episode import write_atomically
from envbench.evidence.portable import Json, canonical, parse
from envbench.evidence.record import STEP_FIELDS, StepColumns, reward_json
from envbench.evidence.tagged import decode
from envbench.store.files import sync_folder
from envbench.store.writing import AuditEvent, EpisodePart, FrameRow, Seal

FORMAT = "envbench.spill/v1"


@dataclass(frozen=True, slots=True)
class SpillFile:
    """What the name of a spill file says.

    Attributes:
        path: the file.
        episode_id: the episode of which it holds a part.
        process: which process wrote it.
        sealed: whether the episode ends with it.
    """

    path: Path
    episode_id: str
    process: int
    sealed: bool

    @property
    def may_go_on(self) -> bool:
        """Whether another process, which is alive, wrote it and may write more."""
        return self.process != os.getpid() and is_alive(self.process)


def spill_folder(target: Path) -> Path:
    """Where the parts are put that a store, or a file of JSON lines, could not take."""
    return target.with_name(f"{target.name}.spill")


def write_spill(target: Path, part: EpisodePart) -> Path:
    """Put a part of an episode beside its store.

    The name says which episode, from which step, in which order, and which process wrote it.

    Raises:
        OSError: when the file cannot be written either.
    """
    folder = spill_folder(target)
    kind = "open" if part.seal is None else "sealed"
    name = f"{part.episode_id}.{part.first_step:012d}.{next(_ORDER):09d}.{os.getpid()}.{kind}.json"
    body = _to_json(part)
    content = canonical({"format": FORMAT, "part": body, "sha256": _digest(body)}) + b"\n"
    path = folder / name
    try:
        folder.mkdir(exist_ok=True)
        write_atomically(path, content)
    except FileNotFoundError:  # a process that took in the last file removed the folder just now
        folder.mkdir(exist_ok=True)
        write_atomically(path, content)
    sync_folder(folder)
    sync_folder(folder.parent)
    return path


def spill_files(target: Path) -> dict[str, list[SpillFile]]:
    """The spill files beside a store by episode, in the order of its parts.

    What a process left that was killed while it wrote one is removed; other files are left alone.
    """
    folder = spill_folder(target)
    found: dict[str, list[SpillFile]] = {}
    if not folder.is_dir():
        return found
    for path in sorted(folder.iterdir()):
        named = _NAME.fullmatch(path.name)
        if named:
            episode_id, process, kind = named.groups()
            file = SpillFile(path, episode_id, int(process), kind == "sealed")
            found.setdefault(episode_id, []).append(file)
            continue
        unfinished = _UNFINISHED.fullmatch(path.name)
        if unfinished and not is_alive(int(unfinished.group(1))):
            path.unlink(missing_ok=True)
    return found


def read_spill(path: Path) -> EpisodePart:
    """Read a part back.

    Raises:
        OSError: when the file cannot be read.
        ValueError: when it is not a spill file, or was damaged.
    """
    content = path.read_bytes()
    try:
        data = parse(content)
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from None
    if type(data) is not dict or data.get("format") != FORMAT:
        raise ValueError(f"{path} is not of the format {FORMAT}")
    body = data.get("part")
    if data.get("sha256") != _digest(body):
        raise ValueError(f"{path} is damaged: its content does not have the digest that it gives")
    try:
        return _from_json(body)
    except (KeyError, TypeError, AttributeError, ValueError, zlib.error) as error:
        raise ValueError(f"{path} is damaged: {type(error).__name__}: {error}") from None


def set_aside(path: Path) -> Path:
    """Rename a spill file so that it is kept and not looked at again.

    Raises:
        OSError: when it cannot be renamed.
    """
    kept = path.with_name(f"{path.name.removesuffix('.json')}.kept")
    path.rename(kept)
    return kept


def is_alive(process: int) -> bool:
    """Whether there is a process of this number."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # it is another user's
        return True
    return True


_ORDER = itertools.count()
_NAME = re.compile(r"([^.]+)\.\d{12}\.\d{9}\.(\d+)\.(open|sealed)\.json")
_UNFINISHED = re.compile(r"\.[^.]+\.\d{12}\.\d{9}\.(\d+)\.(?:open|sealed)\.json\.[0-9a-f]{32}")
_TEXTS = ("action", "observation", "info", "error")


def _digest(body: Json) -> str:
    return hashlib.sha256(canonical(body)).hexdigest()


def _to_json(part: EpisodePart) -> Json:
    columns: dict[str, Json] = {}
    for name in STEP_FIELDS:
        values = getattr(part.columns, name)
        if name in _TEXTS:
            columns[name] = [_text(value) for value in values]
        elif name == "reward":
            columns[name] = [parse(reward_json(value)) for value in values]
        else:
            columns[name] = values
    seal = part.seal
    return {
        "episode_id": part.episode_id,
        "first_step": part.first_step,
        "columns": columns,
        "states": [[digest, step, body.decode()] for digest, step, body in part.states],
        "arrays": [
            [digest, base64.b64encode(zlib.compress(content, 1)).decode()]
            for digest, content in part.arrays.items()
        ],
        "audit": [
            [index, {name: _text_or(value) for name, value in asdict(event).items()}]
            for index, event in part.audit
        ],
        "frames": [
            [frame.step_index, frame.kind, frame.digest, _text(frame.text)] for frame in part.frames
        ],
        "opening": _text(part.opening),
        "was_open": part.was_open,
        "seal": seal
        and {
            "head": {key: text.decode() for key, text in seal.head.items()},
            "initial_state": seal.initial_state,
            "final_state": seal.final_state,
            "final_body": _text(seal.final_body),
            "digest": seal.digest,
            "trajectory_digest": seal.trajectory_digest,
        },
    }


def _from_json(data: Json) -> EpisodePart:
    columns = StepColumns()
    for name in STEP_FIELDS:
        values = data["columns"][name]
        if name in _TEXTS:
            values = [_bytes(value) for value in values]
        elif name == "reward":
            values = [decode(value) for value in values]
        setattr(columns, name, values)
    seal = data["seal"]
    return EpisodePart(
        episode_id=data["episode_id"],
        first_step=data["first_step"],
        columns=columns,
        states=[(digest, step, body.encode()) for digest, step, body in data["states"]],
        arrays={
            digest: zlib.decompress(base64.b64decode(content)) for digest, content in data["arrays"]
        },
        audit=[(index, _event(event)) for index, event in data["audit"]],
        opening=_bytes(data["opening"]),
        was_open=data["was_open"],
        seal=seal
        and Seal(
            head={key: text.encode() for key, text in seal["head"].items()},
            initial_state=seal["initial_state"],
            final_state=seal["final_state"],
            final_body=_bytes(seal["final_body"]),
            digest=seal["digest"],
            trajectory_digest=seal["trajectory_digest"],
        ),
        frames=[
            FrameRow(step, kind, digest, _bytes(text))
            for step, kind, digest, text in data.get("frames", ())
        ],
    )


def _event(data: Json) -> AuditEvent:
    texts = {name: _bytes(data[name]) for name in ("key", "before", "after")}
    return AuditEvent(data["step_index"], data["table_name"], data["op"], **texts)


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def _text_or(value: Json) -> Json:
    return value.decode() if isinstance(value, bytes) else value


def _bytes(value: str | None) -> bytes | None:
    return None if value is None else value.encode()
