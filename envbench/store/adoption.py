"""Adoption: what an interrupted process left behind becomes episodes, when a store is opened.

Spill files are taken in first. Then every episode with a header in `open_episodes` and no seal is
sealed as ``interrupted``, from the steps that were committed. What was not seen stays unknown: such
an episode has no final state.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from functools import reduce
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING

from envbench.evidence.digest import Chain
from envbench.evidence.portable import Json, canonical, parse
from envbench.evidence.record import StepColumns, reward_json
from envbench.store.errors import StoreWarning
from envbench.store.reading import audit_json, read_blocks
from envbench.store.spill import read_spill, spill_folder
from envbench.store.writing import EpisodePart, Seal, microseconds, write_parts

if TYPE_CHECKING:
    from envbench.store.store import Store

OPEN_HERE: set[str] = set()
"""Episodes that this process is still recording; they are nobody's to adopt."""


def adopt(store: Store) -> int:
    """Take in spill files and seal what was interrupted.

    Returns:
        The number of episodes that became readable.
    """
    taken = 0
    if store.path is not None and spill_folder(store.path).is_dir():
        taken += _take_in_spills(store, spill_folder(store.path))
    with store.cursor() as cursor:
        waiting = cursor.execute("SELECT episode_id, header FROM open_episodes").fetchall()
    for episode_id, header in waiting:
        if episode_id not in OPEN_HERE:
            seal = _seal_interrupted(store, episode_id, parse(header))
            part = EpisodePart(episode_id, 1, StepColumns(), was_open=True, seal=seal)
            with store.cursor() as cursor:
                write_parts(cursor, [part])
            taken += 1
    return taken


def _take_in_spills(store: Store, folder: Path) -> int:
    episodes: dict[str, list[Path]] = {}
    for path in sorted(folder.glob("*.json")):
        episodes.setdefault(path.name.split(".")[0], []).append(path)
    taken = 0
    for episode_id, paths in episodes.items():
        if episode_id in OPEN_HERE or _still_written(paths):
            continue
        parts = list(_read_all(paths))
        if len(parts) == len(paths):
            taken += _take_in(store, episode_id, parts)
            for path in paths:
                path.unlink()
    if not any(folder.iterdir()):
        folder.rmdir()
    return taken


def _read_all(paths: list[Path]) -> Iterator[EpisodePart]:
    for path in paths:
        try:
            yield read_spill(path)
        except (OSError, ValueError) as error:
            kept = path.with_suffix(".damaged")
            path.rename(kept)
            warnings.warn(f"{error}; it is kept as {kept}", StoreWarning, stacklevel=6)


def _take_in(store: Store, episode_id: str, parts: list[EpisodePart]) -> bool:
    """Write the parts of one episode that the store does not have yet."""
    with store.cursor() as cursor:
        query = "SELECT count(*) FROM episodes WHERE episode_id = ?"
        if cursor.execute(query, [episode_id]).fetchall()[0][0]:
            return False
        query = "SELECT coalesce(max(step_index), 0) FROM steps WHERE episode_id = ?"
        last = cursor.execute(query, [episode_id]).fetchall()[0][0]
        missing = [part for part in parts if part.first_step > last or part.seal is not None]
        write_parts(cursor, missing)
    return any(part.seal is not None for part in missing)


def _still_written(paths: list[Path]) -> bool:
    """Whether an unsealed episode belongs to a process that may be writing it."""
    if any(path.name.endswith(".sealed.json") for path in paths):
        return False
    process = int(paths[-1].name.split(".")[2])
    if process == os.getpid():
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _seal_interrupted(store: Store, episode_id: str, header: Json) -> Seal:
    initial_state = header.pop("initial_state")
    audited, cleanup = header.pop("audited"), header.pop("cleanup")
    errors: list[Json] = header.pop("errors")
    head = {key: canonical(value) for key, value in header.items()}
    chain = Chain(head, initial_state)
    total: float | None = 0.0
    flags = {"terminated": False, "truncated": False}
    ended_at = microseconds(header["recorded_at"])
    for block in read_blocks(store, episode_id):
        first = chain.n_steps + 1
        chain.update(block)
        for index, text in enumerate(block.error, first):
            if text is not None:
                errors += _errors_of(parse(text), index)
        rewards = [r for r, info in zip(block.reward, block.info, strict=True) if info is not None]
        total = None if total is None or None in rewards else reduce(add, rewards, total)
        last = len(block) - 1
        seen = block.info[last] is not None
        flags = {
            "terminated": seen and block.terminated[last] is True,
            "truncated": seen and block.truncated[last] is True,
        }
        ended_at = int((block.started_at[last] or ended_at) + (block.step_us[last] or 0))
    head |= {
        "audit": audit_json(store, episode_id) if audited else b"null",
        "cleanup": canonical(cleanup),
        "duration_ms": canonical((ended_at - microseconds(header["recorded_at"])) / 1000),
        "ending": canonical("interrupted"),
        "errors": canonical(errors),
        "issues": canonical(
            ["interrupted: the process ended before the episode did; what it had committed is kept"]
        ),
        "output": b"null",
        "termination": canonical(flags),
        "totals": b'{"reward":%b,"steps":%d}' % (reward_json(total), chain.n_steps),
    }
    digest, trajectory = chain.seal(head, None)
    return Seal(head, initial_state, None, None, digest, trajectory)


def _errors_of(error: Json, step: int) -> list[Json]:
    more = error.pop("more", [])
    return [{**each, "step": step} for each in (error, *more)]
