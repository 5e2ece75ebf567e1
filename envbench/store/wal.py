"""The write-ahead log beside a store: finding damage in it, and setting it aside.

What DuckDB does with a log that is damaged was found by damaging some (2.0.1, truncated, flipped
and zeroed at many places):

- A log that ends too early is replayed up to its last whole transaction, silently. That is right
  after a crash, when the rest had never been acknowledged. It is also what happens when a byte that
  says how long an entry is was altered, or one of the header, and then acknowledged transactions
  are left out and later overwritten.
- An entry whose checksum does not fit, and some bytes of the header, make it refuse the whole
  log and with it the database, the transactions before the damage included.

So a log is looked at before it is replayed, and one that is refused is cut back to its last whole
transaction before the damage. The log as it was stays beside the store.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from contextlib import suppress
from pathlib import Path

# Every transaction ends with this entry: its length, its checksum, and DuckDB's code of a commit.
_COMMIT_CONTENT = bytes.fromhex("e7fe7d722fed3d5e 640064ffff")
COMMIT = bytes.fromhex("0500000000000000") + _COMMIT_CONTENT
_ENTRY_HEAD = 16
_DAMAGED_AT = re.compile(r"entry at byte position (\d+)")


def wal_path(path: Path) -> Path:
    """Where DuckDB keeps the log of a database file."""
    return path.with_name(path.name + ".wal")


def commits(path: Path) -> int:
    """How many committed transactions a log holds, reachable or not; 0 when there is none."""
    return _read(path).count(_COMMIT_CONTENT)


def commits_past_damage(path: Path) -> int:
    """How many committed transactions of a log cannot be reached from its header.

    Returns:
        0 when there is no log, when it is whole, or when it only ends in a transaction that was
        never committed.
    """
    data = _read(path)
    # without the length: it may be what is damaged
    return data.count(_COMMIT_CONTENT, _reachable(data))


def cut_back(path: Path, message: str) -> Path:
    """Set a refused log aside and leave the transactions before its damage in its place.

    Args:
        path: the log.
        message: what DuckDB said of it; it names the damaged entry's place when it knows it.

    Returns:
        Where the log is kept as it was.
    """
    data = path.read_bytes()
    named = _DAMAGED_AT.search(message)
    last = data.rfind(COMMIT, 0, int(named.group(1))) if named else -1
    kept = set_aside(path, copy=True)
    if last < 0:
        path.unlink()
        return kept
    # under another name first: a kill in between leaves the damaged log, to be cut again
    part = path.with_name(path.name + ".part")
    with part.open("wb") as file:
        file.write(data[: last + len(COMMIT)])
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    return kept


def set_aside(path: Path, *, copy: bool = False) -> Path:
    """Rename or copy a log to ``….damaged-TIME``, never over another one."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    for attempt in range(1000):
        name = f"{path.name}.damaged-{stamp}" + (f"-{attempt}" if attempt else "")
        target = path.with_name(name)
        with suppress(FileExistsError):
            # taken first and empty, so that two processes never take one name
            target.touch(exist_ok=False)
            if copy:
                shutil.copyfile(path, target)
                _sync(target)
            else:
                path.replace(target)
            return target
    raise FileExistsError(f"a thousand names like {target} are taken")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _reachable(data: bytes) -> int:
    """Offset of the first byte that no chain of whole entries from the header reaches."""
    best = 0
    # the header ends in ff ff within its first hundred bytes, but so may something inside it
    position = data.find(b"\xff\xff", 0, 100)
    while position >= 0:
        best = max(best, _walk(data, position + 2))
        position = data.find(b"\xff\xff", position + 1, 100)
    return best


def _walk(data: bytes, position: int) -> int:
    while True:
        size = int.from_bytes(data[position : position + 8], "little")
        end = position + _ENTRY_HEAD + size
        if size == 0 or end > len(data):
            return position
        position = end


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
