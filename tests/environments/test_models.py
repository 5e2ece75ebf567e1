from __future__ import annotations

import datetime
from enum import Enum
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel, Field, ValidationError

from envbench.environments import Observation, ObservationSpace, State
from envbench.environments.plain import plain
from envbench.evidence.portable import parse
from envbench.evidence.spaces import SpaceCodec
from envbench.evidence.tagged import Encoding


class Side(Enum):
    LEFT = "left"


class Item(BaseModel):
    name: str
    side: Side = Side.LEFT


class Shelf(Observation):
    items: list[Item]
    since: datetime.date
    level: int = Field(3, ge=0, le=9)


class Picture(Observation):
    image: np.ndarray


SHELF = Shelf(items=[Item(name="a")], since=datetime.date(2026, 1, 2))


def test_a_state_validates_what_is_assigned():
    class Order(State):
        paid: bool = False
        cents: int = 0

    order = Order(seed=4)
    order.paid = True
    assert order.model_dump() == {"seed": 4, "paid": True, "cents": 0}
    with pytest.raises(ValidationError):
        order.cents = "many"  # type: ignore[assignment]
    with pytest.raises(ValidationError):
        Order(paied=True)  # type: ignore[call-arg]
    assert State().seed == 0


def test_an_observation_refuses_fields_that_it_does_not_have():
    with pytest.raises(ValidationError):
        Shelf(items=[], since=datetime.date.today(), expected=1)  # type: ignore[call-arg]


def test_the_text_of_an_observation_is_its_fields_as_json():
    assert parse(SHELF.render()) == {
        "items": [{"name": "a", "side": "left"}],
        "since": "2026-01-02",
        "level": 3,
    }
    assert parse(Picture(image=np.eye(2)).render()) == {"image": [[1.0, 0.0], [0.0, 1.0]]}


def test_evidence_keeps_the_fields_with_exact_values_and_without_class_names():
    codec, found = SpaceCodec(ObservationSpace(Shelf)), Encoding()
    (text,) = codec.encode([SHELF], found)
    assert parse(text) == [
        {
            "items": [{"name": "a", "side": "left"}],
            "since": {"$envbench": "date", "value": "2026-01-02"},
            "level": 3,
        }
    ]
    assert codec.unfaithful == 0
    reader = SpaceCodec.from_description(codec.description)
    back = reader.decode(parse(text))
    assert back["since"] == datetime.date(2026, 1, 2)
    assert ObservationSpace(Shelf).from_jsonable([back]) == [SHELF]


def test_a_large_image_in_an_observation_is_kept_as_bytes():
    image = np.arange(5_000, dtype=np.uint8).reshape(50, 100)
    codec, found = SpaceCodec(ObservationSpace(Picture)), Encoding()
    (text,) = codec.encode([Picture(image=image)], found)
    assert len(text) < 250
    assert list(found.arrays.values()) == [image.tobytes()]


def test_the_space_knows_its_observations():
    space = ObservationSpace(Shelf)
    assert space.contains(SHELF)
    assert SHELF in space
    assert not space.contains({"items": []})
    assert not space.contains(Picture(image=np.eye(1)))
    assert space == ObservationSpace(Shelf) != ObservationSpace(Picture)
    assert repr(space) == "ObservationSpace(Shelf)"
    assert space.describe_portable()["schema"]["required"] == ["items", "since"]
    assert ObservationSpace(Picture).describe_portable() == {"schema": None}
    assert not space.is_np_flattenable


def test_observations_as_json_and_back():
    space = ObservationSpace(Shelf)
    assert space.from_jsonable(space.to_jsonable([SHELF])) == [SHELF]
    with pytest.raises(ValidationError):
        space.from_jsonable([{"items": 3}])


def test_samples_fit_the_model():
    space = ObservationSpace(Shelf, seed=1)
    samples = [space.sample() for _ in range(20)]
    assert all(map(space.contains, samples))
    assert {sample.level for sample in samples} <= set(range(10))
    with pytest.raises(ValueError, match="no mask"):
        space.sample(mask=[1])

    class Narrow(Observation):
        code: str = Field(pattern="^[A-Z]{9}$")

    with pytest.raises(ValueError, match="no sample of Narrow fits it"):
        ObservationSpace(Narrow, seed=1).sample()


def test_a_space_is_of_a_class_of_observations():
    for wrong in (Item, SHELF, dict):
        with pytest.raises(TypeError, match="model must be a subclass of Observation"):
            ObservationSpace(wrong)  # type: ignore[arg-type]


def test_plain_data_keeps_values_and_drops_classes():
    class Rows(list[Any]):
        pass

    value = {"rows": Rows([SHELF]), "pair": (Side.LEFT, 1), "set": {Side.LEFT}, Side.LEFT: 1}
    found = plain(value)
    assert found == {
        "rows": [
            {
                "items": [{"name": "a", "side": "left"}],
                "since": datetime.date(2026, 1, 2),
                "level": 3,
            }
        ],
        "pair": ("left", 1),
        "set": {"left"},
        "left": 1,
    }
    assert type(found["rows"]) is list
    array = np.eye(2)
    assert plain(array) is array
    assert plain(print) is print
