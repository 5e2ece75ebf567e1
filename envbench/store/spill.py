"""Spill files: parts of episodes that could not be written to their store.

Each is one JSON file in ``STORE.spill/``, complete or not there. They are taken in when the store
is next opened for writing.
"""

from __future__ import annotations

import base64
import os
import zlib
from dataclasses import asdict
from pathlib import Path

from envbench.evidence.episode import write_atomically
from envbench.evidence.portable import Json, canonical, parse
from envbench.evidence.record import STEP_FIELDS, StepColumns, reward_json
from envbench.evidence.tagged import decode
from envbench.store.writing import AuditEvent, EpisodePart, Seal

FORMAT = "envbench.spill/v1"


def spill_folder(store: Path) -> Path:
    """Where the parts are put that a store could not take."""
    return store.with_name(f"{store.name}.spill")


def write_spill(store: Path, part: EpisodePart) -> Path:
    """Put a part of an episode beside its store.

    The name says which episode, from which step, and which process wrote it.

    Raises:
        OSError: when the file cannot be written either.
    """
    folder = spill_folder(store)
    folder.mkdir(exist_ok=True)
    kind = "open" if part.seal is None else "sealed"
    path = folder / f"{part.episode_id}.{part.first_step:09d}.{os.getpid()}.{kind}.json"
    write_atomically(path, canonical(_to_json(part)) + b"\n")
    return path


def read_spill(path: Path) -> EpisodePart:
    """Read a part back.

    Raises:
        OSError: when the file cannot be read.
        ValueError: when it is not a spill file, or was damaged.
    """
    data = parse(path.read_bytes())
    if type(data) is not dict or data.get("format") != FORMAT:
        raise ValueError(f"{path} is not of the format {FORMAT}")
    try:
        return _from_json(data)
    except (KeyError, TypeError, AttributeError, zlib.error) as error:
        raise ValueError(f"{path} is damaged: {type(error).__name__}: {error}") from None


_TEXTS = ("action", "observation", "info", "error")


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
        "format": FORMAT,
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
