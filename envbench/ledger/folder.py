"""The folder that a run of the ledger writes: what belongs to it, and what is left alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from envbench.evidence.portable import canonical
from envbench.ledger.scenarios import SEEDS, VERSIONS, all_trials

__all__ = ["MANIFEST", "PROTOCOL_SCHEMA", "STORE", "prepare", "write_json", "write_manifest"]

MANIFEST = "SHA256SUMS"
STORE = "evidence.duckdb"
PROTOCOL_SCHEMA = "envbench.ledger-protocol/v1"
SUBFOLDERS = ("databases", "episodes", "reports")


def prepare(folder: Path, *, force: bool) -> None:
    """Make the folder, empty of an earlier run.

    With `force` only files by the names that a run writes are removed, and only where the
    folder's `protocol.json` shows that a run wrote there; everything else stays.

    Raises:
        FileExistsError: when the folder is not empty and `force` is not given, or with it when a
            file that is to be replaced does not come from a run.
        NotADirectoryError: when the path is something else than a folder.
    """
    if folder.exists() and not folder.is_dir():
        msg = f"{folder} is not a folder; choose another --output-dir"
        raise NotADirectoryError(msg)
    if folder.is_dir() and any(folder.iterdir()):
        _clear(folder, force=force)
    for name in SUBFOLDERS:
        (folder / name).mkdir(parents=True, exist_ok=True)


def write_json(path: Path, value: object) -> None:
    """Write a value as JSON for people: indented, and in the order of its keys as given."""
    canonical(value)  # refuses what is not portable before anything is written
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8", newline="\n")


def write_manifest(folder: Path) -> None:
    """Write SHA256SUMS over every file of the run but itself, as `sha256sum -c` reads it."""
    names = sorted(name for name in _names() if name != MANIFEST and (folder / name).is_file())
    lines = [f"{_sha256(folder / name)}  {name}\n" for name in names]
    (folder / MANIFEST).write_text("".join(lines), encoding="ascii", newline="\n")


def _clear(folder: Path, *, force: bool) -> None:
    if not force:
        msg = (
            f"{folder} is not empty; choose another --output-dir, or give --force to replace a run"
        )
        raise FileExistsError(msg)
    for name in SUBFOLDERS:
        if (folder / name).is_symlink() or (
            (folder / name).exists() and not (folder / name).is_dir()
        ):
            msg = f"{folder / name} is not a folder of a run; choose another --output-dir"
            raise FileExistsError(msg)
    spill = folder / f"{STORE}.spill"
    if _exists(spill):
        msg = f"{spill} holds episodes that a run could not write; move it, or delete it yourself"
        raise FileExistsError(msg)
    present = [folder / name for name in _names() if _exists(folder / name)]
    if present and not _is_of_a_run(folder):
        msg = (
            f"{present[0]} was not written by a run (there is no protocol.json of one beside it): "
            "choose another --output-dir"
        )
        raise FileExistsError(msg)
    for path in present:
        if path.is_dir() and not path.is_symlink():
            msg = f"{path} is a folder; choose another --output-dir"
            raise FileExistsError(msg)
    # The protocol last: until it goes, a removal that was cut short can be taken up again.
    for path in sorted(present, key=lambda path: path.name == "protocol.json"):
        path.unlink()


def _names() -> Iterable[str]:
    """The name of every file that a run may write."""
    yield from ("policy.json", "protocol.json", "comparison.json", "outcomes.json")
    yield from ("outcomes.html", MANIFEST)
    yield from (STORE, f"{STORE}.wal")
    for _, trial in all_trials():
        for version in VERSIONS:
            for seed in SEEDS:
                name = trial.episode_name(version, seed)
                yield f"episodes/{name}.json"
                yield f"reports/{name}.json"
                if not trial.recovers:
                    database = trial.database_name(version, seed)
                    yield f"databases/{database}"
                    yield f"databases/{database}-journal"


def _exists(path: Path) -> bool:
    return path.exists() or path.is_symlink()


def _is_of_a_run(folder: Path) -> bool:
    try:
        protocol = json.loads((folder / "protocol.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(protocol, dict) and protocol.get("schema") == PROTOCOL_SCHEMA


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
