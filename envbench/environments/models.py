"""`State` and `Observation`: the whole world, and what a policy sees of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import gymnasium
import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from envbench.environments.plain import plain
from envbench.environments.sampling import sample_json
from envbench.environments.text import as_text
from envbench.evidence.portable import Json


class State(BaseModel):
    """The complete world at a point in time; it may hold what the policy must not see.

    Subclass it with the fields of your world. What is assigned is validated.

    Attributes:
        seed: what randomness in the world begins with.

    Example:
        >>> class Order(State):
        ...     paid: bool = False
        >>> order = Order(seed=7)
        >>> order.paid = True
        >>> order.model_dump()
        {'seed': 7, 'paid': True}
    """

    model_config = ConfigDict(
        extra="forbid", validate_assignment=True, arbitrary_types_allowed=True
    )

    seed: int = 0


class Observation(BaseModel):
    """What the policy sees when it chooses its next action.

    Subclass it with the fields that the policy may know, and override `render` for policies that
    read text.

    Example:
        >>> class Ticket(Observation):
        ...     text: str
        >>> print(Ticket(text="charged twice").render())
        {
          "text": "charged twice"
        }
    """

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    def render(self) -> str:
        """The observation as text; by default its fields as JSON."""
        return as_text(self._fields(), indent=2)

    def __evidence__(self) -> dict[str, Any]:
        """What evidence keeps: the fields, as plain data."""
        return self._fields()

    def _fields(self) -> dict[str, Any]:
        names = {*type(self).model_fields, *(self.model_extra or ())}
        fields: dict[str, Any] = plain(self.model_dump(include=names, warnings=False))
        return fields


class ObservationSpace(gymnasium.Space[Any]):
    """The space of all observations of one model.

    Args:
        model: the class of the observations.
        seed: seeds `sample`.
    """

    def __init__(self, model: type[Observation], seed: int | np.random.Generator | None = None):
        if not (isinstance(model, type) and issubclass(model, Observation)):
            raise TypeError(f"model must be a subclass of Observation, not {model!r}")
        self.model = model
        super().__init__(None, None, seed)

    @property
    def is_np_flattenable(self) -> bool:
        """Never: fields have no one shape."""
        return False

    def contains(self, x: Any) -> bool:
        """Whether a value is an observation of this model."""
        return isinstance(x, self.model)

    def sample(self, mask: Any = None, probability: Any = None) -> Observation:
        """Draw an observation that the model accepts.

        Raises:
            ValueError: when none of 100 draws is accepted, or a mask is given.
        """
        if mask is not None or probability is not None:
            raise ValueError("an ObservationSpace has no mask and no probability to sample with")
        schema = self._schema()
        for _ in range(100):
            try:
                return self.model.model_validate(sample_json(schema, self.np_random))
            except ValidationError:
                continue
        raise ValueError(f"no sample of {self.model.__name__} fits it: its fields are too narrow")

    def to_jsonable(self, sample_n: Iterable[Any]) -> list[Any]:
        """Observations as JSON, a list of objects."""
        return [observation.model_dump(mode="json") for observation in sample_n]

    def from_jsonable(self, sample_n: list[Any]) -> list[Any]:
        """Observations from what `to_jsonable` gave, or as evidence hands them out.

        Raises:
            pydantic.ValidationError: when one does not fit the model.
        """
        return [self.model.model_validate(sample) for sample in sample_n]

    def describe_portable(self) -> Json:
        """What evidence records of the space: the model's JSON schema, null when it has none."""
        return {"schema": self._schema()}

    def _schema(self) -> Json:
        try:
            return self.model.model_json_schema()
        except Exception:  # a field of a class that no schema describes
            return None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObservationSpace) and self.model is other.model

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ObservationSpace({self.model.__name__})"
