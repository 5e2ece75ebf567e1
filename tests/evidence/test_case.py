from __future__ import annotations

import copy
import hashlib
import pickle
from typing import Any

import pytest

from envbench.evidence import EvalCase
from envbench.evidence.case import case_digest


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_the_digest_is_that_of_the_recorded_case() -> None:
    case = EvalCase({"b": 1, "a": [1.0]}, case_id="c", source_id="s", tags=["x", "y"], reference=7)  # type: ignore[arg-type]
    assert case.tags == ("x", "y")
    assert case.digest == case_digest(case.to_dict())
    assert case.digest == sha256(
        '{"case_id":"c","expects":"termination","input":{"a":[1.0],"b":1},'
        f'"reference_digest":"{sha256("7")}","source_id":"s","tags":["x","y"]}}'
    )
    assert "reference" not in case.to_dict()
    assert "7" not in repr(case)


def test_a_case_without_a_reference() -> None:
    case = EvalCase("go", case_id="c")
    assert case.to_dict() == {
        "input": "go",
        "case_id": "c",
        "source_id": None,
        "tags": [],
        "expects": "termination",
        "reference_digest": None,
    }


def test_what_is_changed_later_does_not_change_the_case() -> None:
    given = {"rows": [1]}
    case = EvalCase(given, case_id="c")
    digest = case.digest
    given["rows"].append(2)
    case.input["rows"].append(3)
    case.to_dict()["input"]["rows"].append(4)
    assert case.digest == digest
    assert case.to_dict()["input"] == {"rows": [1]}


def test_equality_is_on_the_recorded_form() -> None:
    assert EvalCase(1, case_id="c") == EvalCase(1, case_id="c")
    assert EvalCase({"a": 1, "b": 2}, case_id="c") == EvalCase({"b": 2, "a": 1}, case_id="c")
    differing = [EvalCase(value, case_id="c") for value in (1, 1.0, True, "1", None)]
    differing += [EvalCase(1, case_id="d"), EvalCase(1, case_id="c", reference=1)]
    assert len(set(differing)) == len({case.digest for case in differing}) == 7
    assert EvalCase(1, case_id="c") != 1


def test_a_recorded_case_is_read_back_without_its_reference() -> None:
    case = EvalCase("go", case_id="c", tags=("x",), reference={"a": 1}, expects="either")
    back = EvalCase.from_dict(case.to_dict())
    assert back == case
    assert back.digest == case.digest
    assert back.reference is None
    for copied in (copy.deepcopy(back), pickle.loads(pickle.dumps(back))):
        assert copied == case


def test_tags_of_a_set_have_one_order() -> None:
    assert EvalCase(1, case_id="c", tags={"b", "a"}).tags == ("a", "b")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"case_id": " "}, ValueError, "case_id must not be blank"),
        ({"case_id": 1}, TypeError, "case_id must be text, not int"),
        ({"source_id": ""}, ValueError, "source_id must not be blank"),
        ({"tags": "abc"}, TypeError, "tags must be a sequence of names, not the one text 'abc'"),
        ({"tags": [""]}, ValueError, "tags must not be blank"),
        ({"tags": [1]}, TypeError, "tags must be text"),
        ({"tags": ["a", "a"]}, ValueError, "tags name one twice"),
        ({"expects": "success"}, ValueError, "expects must be one of termination, truncation"),
        ({"input": (1,)}, ValueError, "input must be portable JSON: /: builtins.tuple"),
        ({"input": {"a": {1: 2}}}, ValueError, "input must be portable JSON: /a: key 1 is int"),
        ({"reference": float("nan")}, ValueError, "reference must be portable JSON: /: nan"),
        ({"case_id": "a\ud800"}, ValueError, "/case_id: text with a lone surrogate"),
    ],
)
def test_bad_arguments_are_refused(
    arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        EvalCase(**{"input": "go", "case_id": "c", **arguments})


def test_a_recorded_case_with_other_keys_is_refused() -> None:
    recorded = EvalCase("go", case_id="c").to_dict()
    with pytest.raises(ValueError, match=r": reference$"):
        EvalCase.from_dict({**recorded, "reference": 1})
    del recorded["expects"]
    with pytest.raises(ValueError, match=r": expects$"):
        EvalCase.from_dict(recorded)


def test_a_case_as_deep_as_a_value_may_be_fits_an_episode() -> None:
    deep: Any = 1
    for _ in range(200):
        deep = [deep]
    assert EvalCase(deep, case_id="c").digest
    with pytest.raises(ValueError, match="nested deeper than 200 levels"):
        EvalCase([deep], case_id="c")
