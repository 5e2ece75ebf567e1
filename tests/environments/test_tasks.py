from __future__ import annotations

import copy
import doctest
import enum
import hashlib
import json
import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envbench.environments import tasks as tasks_module
from envbench.environments.tasks import TaskData, TaskDataset, manifest_path

HUGE = 10**400 + 1


def refunds() -> TaskDataset:
    return TaskDataset(
        name="refunds",
        version="1.0.0",
        tasks=[
            TaskData("a123", "Refund A123.", {"should_refund": True}, {"order": "A123", "seed": 7}),
            TaskData("z999", "Refund Z999.", {"should_refund": False}, {"seed": 11}),
            TaskData("none", {"text": "hello", "items": [1, 1.0, True, None]}),
        ],
    )


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "data" / "refunds.jsonl"
    refunds().save(path)
    return path


def rewrite(path: Path, change: Callable[[list[bytes]], list[bytes]]) -> None:
    path.write_bytes(b"\n".join([*change(path.read_bytes().split(b"\n")[:-1]), b""]))


def rewrite_manifest(path: Path, **values: Any) -> None:
    manifest = json.loads(manifest_path(path).read_text())
    manifest_path(path).write_text(json.dumps(manifest | values))


def test_the_examples_in_the_documentation_run() -> None:
    assert doctest.testmod(tasks_module).failed == 0


def test_a_task_holds_what_it_was_given() -> None:
    task = TaskData(task_id="t", input="go", expected=[1], metadata={"seed": 3})
    assert (task.task_id, task.input, task.expected, task.metadata) == ("t", "go", [1], {"seed": 3})
    plain = TaskData("t", "go")
    assert (plain.expected, plain.metadata) == (None, {})
    assert plain != task


def test_the_digest_of_a_task_is_that_of_its_line() -> None:
    task = TaskData("t", {"b": "é", "a": 1.0}, expected=HUGE)
    line = f'{{"expected":{HUGE},"input":{{"a":1.0,"b":"é"}},"metadata":{{}},"task_id":"t"}}'
    assert task.digest == hashlib.sha256(line.encode()).hexdigest()


def test_the_content_hash_is_that_of_a_head_and_the_lines_of_the_file(saved: Path) -> None:
    head = b'{"count":3,"name":"refunds","schema":"envbench.tasks/v1","version":"1.0.0"}\n'
    expected = hashlib.sha256(head + saved.read_bytes()).hexdigest()
    assert refunds().content_hash == expected
    assert json.loads(manifest_path(saved).read_text())["content_hash"] == expected


def test_name_version_order_and_content_are_in_the_hash() -> None:
    a, b = TaskData("a", 1), TaskData("b", 1)
    hashes = {
        TaskDataset("n", "1", [a, b]).content_hash,
        TaskDataset("m", "1", [a, b]).content_hash,
        TaskDataset("n", "2", [a, b]).content_hash,
        TaskDataset("n", "1", [b, a]).content_hash,
        TaskDataset("n", "1", [a]).content_hash,
        TaskDataset("n", "1", []).content_hash,
        TaskDataset("n", "1", [TaskData("a", 1.0), b]).content_hash,
        TaskDataset("n", "1", [TaskData("a", True), b]).content_hash,
        TaskDataset("n", "1", [TaskData("a", "1"), b]).content_hash,
        TaskDataset("n", "1", [TaskData("a", 1, expected=1), b]).content_hash,
        TaskDataset("n", "1", [TaskData("a", 1, metadata={"x": None}), b]).content_hash,
    }
    assert len(hashes) == 11
    assert TaskDataset("n", "1", (task for task in [a, b])).content_hash in hashes
    reordered = TaskData("a", {"x": 1, "y": 2}), TaskData("a", {"y": 2, "x": 1})
    assert reordered[0] == reordered[1]


def test_a_data_set_is_a_sequence_that_finds_tasks_by_id() -> None:
    dataset = refunds()
    assert len(dataset) == 3
    assert [task.task_id for task in dataset] == ["a123", "z999", "none"]
    assert dataset[-1] is dataset.tasks[2]
    assert dataset[:2] == dataset.tasks[:2]
    assert dataset.task("z999") is dataset[1]
    assert "z999" in dataset
    assert dataset[1] in dataset
    assert "a" not in dataset
    with pytest.raises(KeyError, match=r"no task 'a' in the data set 'refunds' '1\.0\.0'"):
        dataset.task("a")


def test_what_is_changed_outside_changes_no_hash() -> None:
    given_input = {"items": [1]}
    given_tasks = [TaskData("a", given_input, expected=given_input, metadata=given_input)]
    dataset = TaskDataset("n", "1", given_tasks)
    before = dataset.content_hash
    given_input["items"].append(2)
    given_tasks.append(TaskData("b", 1))
    task = dataset[0]
    task.input["items"].append(2)
    task.expected["more"] = 1
    task.metadata["items"].clear()
    task.to_dict()["metadata"]["items"].append(3)
    assert task.input == task.expected == task.metadata == {"items": [1]}
    assert TaskDataset("n", "1", dataset).content_hash == before


@pytest.mark.parametrize("name", ["task_id", "input", "expected", "metadata", "digest", "_line"])
def test_a_task_cannot_be_set(name: str) -> None:
    task = TaskData("a", 1)
    with pytest.raises(AttributeError, match="a TaskData cannot be changed"):
        setattr(task, name, 2)
    with pytest.raises(AttributeError, match="a TaskData cannot be changed"):
        delattr(task, name)


@pytest.mark.parametrize("name", ["name", "version", "tasks", "content_hash", "_tasks", "x"])
def test_a_data_set_cannot_be_set(name: str) -> None:
    with pytest.raises(AttributeError, match="a TaskDataset cannot be changed"):
        setattr(refunds(), name, ())


def test_copies_and_pickles_are_equal() -> None:
    dataset = refunds()
    for again in (
        copy.copy(dataset),
        copy.deepcopy(dataset),
        pickle.loads(pickle.dumps(dataset)),
        TaskDataset("refunds", "1.0.0", [TaskData.from_dict(task.to_dict()) for task in dataset]),
    ):
        assert again == dataset
        assert hash(again) == hash(dataset)
        assert again.tasks == dataset.tasks
    assert copy.deepcopy(dataset[0]) is dataset[0]


def test_the_expected_value_is_not_shown() -> None:
    task = TaskData("a", "x" * 1000, expected="the-answer-key")
    assert "the-answer-key" not in repr(task) + str(task) + f"{task}" + repr([task])
    assert len(repr(task)) < 100
    assert repr(refunds()).startswith("<TaskDataset refunds 1.0.0: 3 tasks, ")


class Kind(str, enum.Enum):  # noqa: UP042 - its str() is not its value
    FIRST = "first"


def test_an_id_that_extends_text_is_its_text() -> None:
    assert TaskData(Kind.FIRST, 1).to_dict()["task_id"] == "first"
    assert TaskData(np.str_("first"), 1) == TaskData(Kind.FIRST, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"input": math.nan}, "input must be portable JSON: /: nan is not a finite number"),
        ({"input": {"a": [1, math.inf]}}, "input must be portable JSON: /a/1: inf is not a finite"),
        ({"expected": ("a",)}, "expected must be portable JSON: /: builtins.tuple is not portable"),
        ({"expected": {"a": {1}}}, "expected must be portable JSON: /a: builtins.set is not"),
        ({"metadata": {"seed": np.int64(1)}}, "metadata must be portable JSON: /seed: numpy.int64"),
        ({"metadata": {1: 2}}, "metadata must be portable JSON: /: key 1 is int, not text"),
        ({"input": "\ud800"}, "input must be portable JSON: /: text with a lone surrogate"),
        ({"task_id": "\ud800"}, "task_id must be portable JSON: /: text with a lone surrogate"),
        ({"task_id": " \n"}, "task_id must not be blank"),
        ({"input": 10**5000}, "input must be portable JSON: /: an integer of more than 4,200"),
    ],
)
def test_what_json_cannot_hold_is_refused_by_place(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the message is looked at
        TaskData(**{"task_id": "t", "input": 1, **arguments})
    assert str(refused.value).startswith(message)


def test_what_contains_itself_or_is_too_deep_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ValueError, match="input must be portable JSON: /0: contains itself"):
        TaskData("t", loop)
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(
        ValueError, match=r"expected must be portable JSON: .*nested deeper than 200"
    ):
        TaskData("t", 1, expected=deep)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: TaskData(7, 1), "task_id must be text, not int"),  # type: ignore[arg-type]
        (lambda: TaskData("t", 1, metadata=[1]), "metadata must be a mapping, not list"),  # type: ignore[arg-type]
        (lambda: TaskDataset(1, "1", []), "name must be text, not int"),  # type: ignore[arg-type]
        (lambda: TaskDataset("n", 1.0, []), "version must be text, not float"),  # type: ignore[arg-type]
        (lambda: TaskDataset("n", "1", "ab"), "tasks must be a sequence of TaskData, not str"),  # type: ignore[arg-type]
        (lambda: TaskDataset("n", "1", 5), "tasks must be a sequence of TaskData, not int"),  # type: ignore[arg-type]
        (
            lambda: TaskDataset("n", "1", [TaskData("a", 1), {"task_id": "b"}]),  # type: ignore[list-item]
            "tasks[1] is dict, not TaskData",
        ),
    ],
)
def test_arguments_of_a_wrong_type_are_named(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(TypeError) as refused:
        call()
    assert str(refused.value) == message


def test_an_id_used_twice_is_refused_with_both_places() -> None:
    with pytest.raises(ValueError, match=r"tasks\[2\]: the id 'a' is that of tasks\[0\] too"):
        TaskDataset("n", "1", [TaskData("a", 1), TaskData("b", 1), TaskData("a", 2)])


# What comes after is about files.


def test_a_saved_data_set_comes_back_equal(saved: Path) -> None:
    loaded = TaskDataset.load(saved)
    assert loaded == refunds()
    assert loaded.tasks == refunds().tasks
    assert [task.to_dict() for task in loaded] == [task.to_dict() for task in refunds()]
    assert sorted(path.name for path in saved.parent.iterdir()) == [
        "refunds.jsonl",
        "refunds.jsonl.manifest.json",
    ]


def test_an_empty_data_set_and_one_saved_again(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    refunds().save(str(path))
    TaskDataset("none", "1", []).save(path)
    assert path.read_bytes() == b""
    assert TaskDataset.load(str(path)) == TaskDataset("none", "1", [])


@pytest.mark.parametrize(
    "text",
    [
        "a\u2028b",
        "a\u2029b",
        "a\u0085b",
        "a\r\nb\x0b\x0c\x1c\x1d\x1e",
        "\x00",
        "😀\ufeff",
        "\\u2028",
    ],
)
def test_text_with_any_line_separator_comes_back(tmp_path: Path, text: str) -> None:
    dataset = TaskDataset(text, text, [TaskData("t" + text, text, [text], {text: text})])
    dataset.save(tmp_path / "tasks.jsonl")
    assert (tmp_path / "tasks.jsonl").read_bytes().count(b"\n") == 1
    loaded = TaskDataset.load(tmp_path / "tasks.jsonl")
    assert loaded == dataset
    assert loaded[0].to_dict() == {
        "task_id": "t" + text,
        "input": text,
        "expected": [text],
        "metadata": {text: text},
    }


def test_huge_integers_and_signed_zeros_are_exact(tmp_path: Path) -> None:
    values = [HUGE, -HUGE, 2**53 + 1, 2**63, 2**64, 1e300, 5e-324, 1e-07, 0.1, True, 1, 1.0]
    TaskDataset("n", "1", [TaskData("t", values, expected=-0.0)]).save(tmp_path / "tasks.jsonl")
    task = TaskDataset.load(tmp_path / "tasks.jsonl")[0]
    assert task.input == values
    assert list(map(type, task.input)) == list(map(type, values))
    assert math.copysign(1, task.expected) == -1


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | FINITE | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=10,
)


@given(values=st.lists(st.tuples(JSON, JSON), max_size=4))
def test_any_portable_json_comes_back(
    tmp_path_factory: pytest.TempPathFactory, values: list[tuple[Any, Any]]
) -> None:
    tasks = [TaskData(f"t{i}", a, b, {"m": a}) for i, (a, b) in enumerate(values)]
    dataset = TaskDataset("n", "1", tasks)
    path = tmp_path_factory.mktemp("tasks") / "tasks.jsonl"
    dataset.save(path)
    loaded = TaskDataset.load(path)
    assert loaded == dataset
    assert [(task.input, task.expected) for task in loaded] == values


def test_another_layout_of_the_same_lines_is_the_same_data_set(saved: Path) -> None:
    rows = [json.loads(line) for line in saved.read_text().splitlines()]
    lines = [json.dumps(dict(reversed(row.items())), indent=None) for row in rows]
    saved.write_bytes("\r\n".join(lines).encode())  # as git may check it out, no last newline
    assert TaskDataset.load(saved) == refunds()


def edit_second(lines: list[bytes]) -> list[bytes]:
    return [lines[0], lines[1].replace(b"false", b"true"), *lines[2:]]


def swap(lines: list[bytes]) -> list[bytes]:
    return [lines[1], lines[0], *lines[2:]]


REPEATED = b'{"task_id":"b","task_id":"b","input":1,"expected":1,"metadata":{}}'


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (edit_second, ", line 2: task 'z999' is not the one that was saved here: its content was"),
        (swap, ", line 1: task 'z999' is not the one that was saved here: it was saved as line 2"),
        (lambda lines: lines[:2], ": 2 tasks, where its manifest counts 3: lines were added or"),
        (lambda lines: [], ": 0 tasks, where its manifest counts 3"),
        (lambda lines: [*lines, lines[0]], ", line 4: the id 'a123' is that of line 1 too"),
        (
            lambda lines: [*lines, lines[0].replace(b"a123", b"b")],
            ": 4 tasks, where its manifest counts 3",
        ),
        (lambda lines: [lines[0], lines[0], lines[2]], ", line 2: the id 'a123' is that of line 1"),
        (lambda lines: [*lines, b"", b""], ", line 4: empty, where a task was expected"),
        (lambda lines: [*lines[:2], lines[2][:-5]], ", line 3: "),
        (lambda lines: [*lines[:2], b"\xff\xfe"], ", line 3: "),
        (lambda lines: [*lines[:2], b"[1]"], ", line 3: a task must be an object, not list"),
        (lambda lines: [*lines[:2], b"{}"], ", line 3: a task needs the key 'task_id'"),
        (lambda lines: [*lines[:2], REPEATED], ", line 3: key 'task_id' appears twice in one"),
        (
            lambda lines: [lines[0][:-1] + b',"note":1}', *lines[1:]],
            ", line 1: 'note' is not a key of a task",
        ),
        (
            lambda lines: [lines[0].replace(b'"seed":7', b'"seed":NaN'), *lines[1:]],
            ", line 1: NaN is not JSON",
        ),
        (
            lambda lines: [lines[0].replace(b'"seed":7', b'"seed":1e999'), *lines[1:]],
            ", line 1: number 1e999 does not fit a double",
        ),
        (
            lambda lines: [lines[0].replace(b'"metadata":{', b'"metadata":[],"x":{'), *lines[1:]],
            ", line 1: 'x' is not a key of a task",
        ),
        (
            lambda lines: [*lines[:2], b'{"task_id":"b","input":1,"expected":1,"metadata":null}'],
            ", line 3: metadata must be an object, not NoneType",
        ),
        (
            lambda lines: [lines[0].replace(b"Refund", b"\\ud800"), *lines[1:]],
            ", line 1: ",
        ),
        (lambda lines: [b"[" * 100_000, *lines[1:]], ", line 1: "),
    ],
)  # fmt: skip
def test_an_altered_file_is_refused_by_line(
    saved: Path, change: Callable[[list[bytes]], list[bytes]], message: str
) -> None:
    rewrite(saved, change)
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the message is looked at
        TaskDataset.load(saved)
    assert str(refused.value).startswith(str(saved) + message)
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"name": "other"}, "name, version or hash was altered"),
        ({"version": "2"}, "name, version or hash was altered"),
        ({"content_hash": "0" * 64}, "content_hash 0000"),
        ({"count": 2}, "count is not the number of its task_digests"),
        ({"count": True}, "count is not the number of its task_digests"),
        ({"task_digests": []}, "count is not the number of its task_digests"),
        ({"task_digests": [1, 2, 3]}, "line 1: task 'a123' is not the one that was saved here"),
        ({"schema": "envbench.tasks/v2"}, "schema is 'envbench.tasks/v2', not 'envbench.tasks/v1'"),
        ({"name": " "}, "name must not be blank"),
        ({"more": 1}, "'more' is not a key of a manifest"),
    ],
)
def test_an_altered_manifest_is_refused(saved: Path, values: dict[str, Any], message: str) -> None:
    rewrite_manifest(saved, **values)
    with pytest.raises(ValueError, match=message):
        TaskDataset.load(saved)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"{}", b"\xff"])
def test_a_broken_manifest_is_refused_by_name(saved: Path, content: bytes) -> None:
    manifest_path(saved).write_bytes(content)
    with pytest.raises(ValueError, match=r"refunds\.jsonl\.manifest\.json: not a manifest of"):
        TaskDataset.load(saved)


def test_a_missing_manifest_and_a_missing_file(saved: Path) -> None:
    manifest_path(saved).unlink()
    with pytest.raises(ValueError, match=r"its manifest refunds\.jsonl\.manifest\.json is missing"):
        TaskDataset.load(saved)
    saved.unlink()
    with pytest.raises(FileNotFoundError):
        TaskDataset.load(saved)


def test_a_save_interrupted_before_the_manifest_is_refused(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = tasks_module.write_atomically

    def full_disk(path: Path, content: bytes) -> None:
        if path.name.endswith(".manifest.json"):
            raise OSError(28, "No space left on device")
        write(path, content)

    monkeypatch.setattr(tasks_module, "write_atomically", full_disk)
    with pytest.raises(OSError, match="No space left"):
        TaskDataset("refunds", "2.0.0", [TaskData("new", 1)]).save(saved)
    with pytest.raises(ValueError, match="1 tasks, where its manifest counts 3"):
        TaskDataset.load(saved)


def test_ten_thousand_tasks(tmp_path: Path) -> None:
    tasks = [TaskData(f"t{i}", "x" * 100, i, {"seed": i}) for i in range(10_000)]
    dataset = TaskDataset("large", "1", tasks)
    dataset.save(tmp_path / "tasks.jsonl")
    assert TaskDataset.load(tmp_path / "tasks.jsonl") == dataset
