"""Tasks, and data sets that freeze their order and content under a hash.

A file of tasks is JSONL, one task a line in canonical form, with a manifest beside it that is
written last. The hash is SHA-256 over the manifest's head and the lines (`TaskDataset.content_hash`
gives the formula), so that anyone can recompute it with a text editor and ``sha256sum``.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn, Self, overload

from envbench.evidence.case import require_name
from envbench.evidence.episode import write_atomically
from envbench.evidence.portable import VALUE_DEPTH, Json, canonical, parse

SCHEMA = "envbench.tasks/v1"

_TASK_KEYS = ("task_id", "input", "expected", "metadata")
_MANIFEST_KEYS = ("schema", "name", "version", "count", "content_hash", "task_digests")


class TaskData:
    """One task: what an agent is asked, and what its environment is set up with.

    A task cannot be changed. `input`, `expected` and `metadata` are handed out as copies, so that
    changing what was handed out changes neither the task nor its digest. Tasks are equal when
    their digests are.

    Args:
        task_id: a stable name for the task, unique in its data set.
        input: the work as it is presented to the policy: text, or any portable JSON.
        expected: the answer key for scorers, portable JSON. It never reaches the policy, and is
            not shown by `repr`.
        metadata: what the environment is set up with, such as order ids and the ``seed``;
            an object of portable JSON.

    Raises:
        TypeError: when an argument is of the wrong type.
        ValueError: when `task_id` is blank, or a value is not portable JSON (a NaN, a tuple, a
            NumPy number), naming its place. What JSON cannot hold would come back from a file as
            something else.

    Example:
        >>> task = TaskData("a123", "Refund order A123.", expected=True, metadata={"seed": 7})
        >>> task.metadata["seed"]
        7
    """

    __slots__ = ("_line", "_task_id", "_values")

    _line: bytes
    _task_id: str
    _values: dict[str, Json]

    def __init__(
        self,
        task_id: str,
        input: Json,  # noqa: A002 - the published name
        expected: Json = None,
        metadata: Mapping[str, Json] | None = None,
    ) -> None:
        require_name("task_id", task_id)
        if metadata is not None and not isinstance(metadata, Mapping):
            raise TypeError(f"metadata must be a mapping, not {type(metadata).__name__}")
        values = {
            "task_id": str.__str__(task_id),  # a member of a text Enum prints otherwise
            "input": input,
            "expected": expected,
            "metadata": {} if metadata is None else dict(metadata),
        }
        line = _canonical(values)
        object.__setattr__(self, "_line", line)
        object.__setattr__(self, "_values", parse(line))
        object.__setattr__(self, "_task_id", self._values["task_id"])

    @property
    def task_id(self) -> str:
        """The task's name."""
        return self._task_id

    @property
    def input(self) -> Json:
        """What the policy is asked; a copy."""
        return _copy(self._values["input"])

    @property
    def expected(self) -> Json:
        """The answer key; a copy."""
        return _copy(self._values["expected"])

    @property
    def metadata(self) -> dict[str, Json]:
        """What the environment is set up with; a copy."""
        metadata: dict[str, Json] = _copy(self._values["metadata"])
        return metadata

    @property
    def digest(self) -> str:
        """SHA-256 of the task's line: its canonical form without the newline."""
        return hashlib.sha256(self._line).hexdigest()

    def to_dict(self) -> dict[str, Json]:
        """All four fields as portable JSON, the expected one included."""
        values: dict[str, Json] = parse(self._line)
        return {key: values[key] for key in _TASK_KEYS}

    def __evidence__(self) -> dict[str, Json]:
        """What evidence keeps of a task: all but the answer key."""
        return {"task_id": self.task_id, "input": self.input, "metadata": self.metadata}

    @classmethod
    def from_dict(cls, values: Mapping[str, Json]) -> Self:
        """A task from what `to_dict` gave.

        Raises:
            TypeError: when a value is of the wrong type.
            ValueError: when a key is missing or not one of a task, or a value is refused.
        """
        _require_keys(values, _TASK_KEYS, "a task")
        if not isinstance(values["metadata"], Mapping):
            raise TypeError(f"metadata must be an object, not {type(values['metadata']).__name__}")
        return cls(**values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TaskData) and self._line == other._line

    def __hash__(self) -> int:
        return hash(self._line)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        _refuse_change(self, name)

    def __delattr__(self, name: str) -> NoReturn:
        _refuse_change(self, name)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self).from_dict, (self.to_dict(),))

    def __repr__(self) -> str:
        asked = repr(self._values["input"])
        return f"TaskData({self._task_id!r}, {asked if len(asked) <= 60 else asked[:59] + '…'})"


class TaskDataset:
    """Tasks in a fixed order under a name, a version and a hash over all of it.

    Args:
        name: the data set's name.
        version: its version; change it when what the tasks mean changes.
        tasks: the tasks in order; their ids are unique.

    Raises:
        TypeError: when an argument is of the wrong type.
        ValueError: when a name is blank, or a task's id is used twice.

    Example:
        >>> refunds = TaskDataset("refunds", "1.0.0", [TaskData("a123", "Refund order A123.")])
        >>> len(refunds), refunds[0].task_id
        (1, 'a123')
        >>> refunds.content_hash[:16]
        '18298ef53d3039c0'
    """

    __slots__ = ("_by_id", "_content_hash", "_name", "_tasks", "_version")

    _by_id: dict[str, TaskData]
    _content_hash: str | None
    _name: str
    _tasks: tuple[TaskData, ...]
    _version: str

    def __init__(self, name: str, version: str, tasks: Iterable[TaskData]) -> None:
        require_name("name", name)
        require_name("version", version)
        if isinstance(tasks, (str, bytes, Mapping)) or not isinstance(tasks, Iterable):
            raise TypeError(f"tasks must be a sequence of TaskData, not {type(tasks).__name__}")
        by_id: dict[str, TaskData] = {}
        for position, task in enumerate(tasks):
            if not isinstance(task, TaskData):
                raise TypeError(f"tasks[{position}] is {type(task).__name__}, not TaskData")
            if task.task_id in by_id:
                first = list(by_id).index(task.task_id)
                raise ValueError(
                    f"tasks[{position}]: the id {task.task_id!r} is that of tasks[{first}] too;"
                    " every task of a data set needs its own"
                )
            by_id[task.task_id] = task
        head = {"name": str.__str__(name), "version": str.__str__(version)}
        canonical(head)  # refuses what is not valid Unicode
        object.__setattr__(self, "_name", head["name"])
        object.__setattr__(self, "_version", head["version"])
        object.__setattr__(self, "_tasks", tuple(by_id.values()))
        object.__setattr__(self, "_by_id", by_id)
        object.__setattr__(self, "_content_hash", None)

    @property
    def name(self) -> str:
        """The data set's name."""
        return self._name

    @property
    def version(self) -> str:
        """The data set's version."""
        return self._version

    @property
    def tasks(self) -> tuple[TaskData, ...]:
        """The tasks in order."""
        return self._tasks

    @property
    def content_hash(self) -> str:
        """SHA-256 in hexadecimal over name, version, number, order and content of the tasks.

        It is that of these lines, each ended by one newline character, in UTF-8: first the
        canonical JSON of ``{"count", "name", "schema": "envbench.tasks/v1", "version"}``, then
        that of each task's ``{"expected", "input", "metadata", "task_id"}`` in order, which are
        the lines of the saved file. Canonical JSON is what Python's `json` prints with sorted keys,
        no spaces and ``ensure_ascii=False``.
        """
        if self._content_hash is None:
            head = {
                "schema": SCHEMA,
                "name": self._name,
                "version": self._version,
                "count": len(self._tasks),
            }
            digest = hashlib.sha256(canonical(head) + b"\n")
            for task in self._tasks:
                digest.update(task._line + b"\n")
            object.__setattr__(self, "_content_hash", digest.hexdigest())
        assert self._content_hash is not None
        return self._content_hash

    def task(self, task_id: str) -> TaskData:
        """The task of this id.

        Raises:
            KeyError: when there is none.
        """
        try:
            return self._by_id[task_id]
        except (KeyError, TypeError):
            raise KeyError(
                f"no task {task_id!r} in the data set {self._name!r} {self._version!r}"
            ) from None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the tasks as JSONL to `path`, and then the manifest beside it.

        Each file is complete or not there, and folders are made as needed. As the manifest is
        written last, a save that was interrupted is refused by `load` rather than read in part.
        """
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, b"".join(task._line + b"\n" for task in self._tasks))
        manifest = {
            "schema": SCHEMA,
            "name": self._name,
            "version": self._version,
            "count": len(self._tasks),
            "content_hash": self.content_hash,
            "task_digests": [task.digest for task in self._tasks],
        }
        write_atomically(manifest_path(path), canonical(manifest) + b"\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a data set that `save` wrote, and check every part of it.

        Raises:
            OSError: when a file cannot be read.
            ValueError: naming file and line, when the manifest is missing or malformed, the number
                of tasks is another, a line is no task, an id is used twice, or a task, the order
                or the hash is not what was saved.
        """
        path = Path(path)
        content = path.read_bytes()
        manifest = _read_manifest(manifest_path(path), path)
        lines = content.split(b"\n")
        if not lines[-1]:
            lines.pop()
        expected, tasks, numbers = manifest["task_digests"], [], dict[str, int]()
        for number, line in enumerate(lines, 1):
            place = f"{path}, line {number}"
            task = _read_task(line, place)
            if task.task_id in numbers:
                raise ValueError(
                    f"{place}: the id {task.task_id!r} is that of line {numbers[task.task_id]} too"
                )
            numbers[task.task_id] = number
            tasks.append(task)
        if len(tasks) != manifest["count"]:
            raise ValueError(
                f"{path}: {len(tasks)} tasks, where its manifest counts {manifest['count']}: lines"
                " were added or lost after it was saved"
            )
        for number, (task, digest) in enumerate(zip(tasks, expected, strict=True), 1):
            if task.digest != digest:
                raise ValueError(
                    f"{path}, line {number}: task {task.task_id!r} is not the one that was saved"
                    f" here{_where(task.digest, expected)}; save the data set again under a new"
                    " version if this was meant"
                )
        dataset = cls(manifest["name"], manifest["version"], tasks)
        if dataset.content_hash != manifest["content_hash"]:
            raise ValueError(
                f"{manifest_path(path)}: content_hash {manifest['content_hash']} is not that of"
                f" what is saved ({dataset.content_hash}): name, version or hash was altered"
            )
        return dataset

    def __len__(self) -> int:
        return len(self._tasks)

    def __iter__(self) -> Iterator[TaskData]:
        return iter(self._tasks)

    @overload
    def __getitem__(self, index: int) -> TaskData: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[TaskData, ...]: ...

    def __getitem__(self, index: int | slice) -> TaskData | tuple[TaskData, ...]:
        return self._tasks[index]

    def __contains__(self, item: object) -> bool:
        return item in self._by_id if isinstance(item, str) else item in self._tasks

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TaskDataset) and self.content_hash == other.content_hash

    def __hash__(self) -> int:
        return hash(self.content_hash)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        _refuse_change(self, name)

    def __delattr__(self, name: str) -> NoReturn:
        _refuse_change(self, name)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self._name, self._version, self._tasks))

    def __repr__(self) -> str:
        count = len(self._tasks)
        return (
            f"<TaskDataset {self._name} {self._version}: {count} task{'' if count == 1 else 's'},"
            f" {self.content_hash[:12]}>"
        )


def manifest_path(path: str | os.PathLike[str]) -> Path:
    """Where the manifest of a file of tasks is: beside it, with ``.manifest.json`` added."""
    path = Path(path)
    return path.with_name(path.name + ".manifest.json")


def _canonical(values: dict[str, Json]) -> bytes:
    """A task's line, with messages that name the argument at fault."""
    for name in _TASK_KEYS:
        try:
            canonical(values[name], VALUE_DEPTH)
        except ValueError as error:
            raise ValueError(f"{name} must be portable JSON: {error}") from None
    return canonical(values)


def _copy(value: Json) -> Json:
    """A copy of parsed JSON; what cannot be changed stands for itself."""
    if type(value) is dict:
        return {key: _copy(item) for key, item in value.items()}
    if type(value) is list:
        return [_copy(item) for item in value]
    return value


def _refuse_change(of: object, name: str) -> NoReturn:
    raise AttributeError(
        f"a {type(of).__name__} cannot be changed: make another one instead of setting {name!r}"
    )


def _require_keys(values: Any, keys: tuple[str, ...], what: str) -> None:
    if not isinstance(values, Mapping):
        raise TypeError(f"{what} must be an object, not {type(values).__name__}")
    for key in keys:
        if key not in values:
            raise ValueError(f"{what} needs the key {key!r}")
    for key in values:
        if key not in keys:
            raise ValueError(f"{key!r} is not a key of {what}")


def _read_task(line: bytes, place: str) -> TaskData:
    if not line.strip():
        raise ValueError(f"{place}: empty, where a task was expected")
    try:
        return TaskData.from_dict(parse(line, unique_keys=True))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{place}: {error}") from None


def _read_manifest(path: Path, of: Path) -> dict[str, Any]:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise ValueError(
            f"{of}: its manifest {path.name} is missing, so saving was interrupted or the file was"
            " not written by TaskDataset.save: make the data set again and save it"
        ) from None
    try:
        manifest: dict[str, Any] = parse(content, unique_keys=True)
        _require_keys(manifest, _MANIFEST_KEYS, "a manifest")
        if manifest["schema"] != SCHEMA:
            raise ValueError(f"schema is {manifest['schema']!r}, not {SCHEMA!r}")
        require_name("name", manifest["name"])
        require_name("version", manifest["version"])
        count, digests = manifest["count"], manifest["task_digests"]
        if type(count) is not int or type(digests) is not list or count != len(digests):
            raise ValueError("count is not the number of its task_digests")
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: not a manifest of tasks: {error}") from None
    return manifest


def _where(digest: str, saved: list[Any]) -> str:
    """Where a task that stands in another's place was saved, if it was."""
    if digest in saved:
        return f": it was saved as line {saved.index(digest) + 1}, so the order was changed"
    return ": its content was altered"
