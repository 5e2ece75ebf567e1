"""Samples of Gymnasium spaces as evidence: the spaces' own batched JSON, where it is faithful.

A sample is written as its space's `to_jsonable` writes a batch of one, so `Discrete` gives ``[1]``
and `Dict` an object of such batches. The written form is read back at once by a space rebuilt from
the recorded description; a sample that does not come back the same (an empty `Tuple`, NaN in a
`Box`, a float64 in a float32 `Box`, a space of the user's own class) is kept as
``{"$envbench": "sample", "value": …}`` in tagged form instead. Arrays of more than 1,024 elements
are kept as bytes beside the JSON, in the batch's shape.

A space that has a method ``describe_portable`` has samples that are portable JSON, or values in
tagged form that stand for themselves: a batch is the list of them, and its description is all that
a reader needs.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from envbench.evidence.portable import Json, canonical
from envbench.evidence.tagged import (
    LARGE_ARRAY,
    TAG,
    Encoding,
    Named,
    array_tag,
    content_bytes,
    decode,
    describe_error,
    tag,
    type_name,
)

if TYPE_CHECKING:
    import gymnasium

Arrays = Mapping[str, bytes] | Callable[[str], bytes] | None


class SpaceCodec:
    """Writes and reads the samples of one space.

    Args:
        space: the space that an environment declares, or None when it declares none.

    Attributes:
        description: portable JSON from which the space can be rebuilt, if it is one of Gymnasium's
            own: ``type``, ``repr`` and the arguments; for any other only ``type`` and ``repr``.
        unfaithful: how many samples were kept in tagged form instead of the space's own.
    """

    def __init__(self, space: gymnasium.Space[Any] | None) -> None:
        self.space = space
        self.description = describe(space)
        self.unfaithful = 0
        self._rebuilt = rebuild(self.description)
        self._kind = type(self._rebuilt).__name__ if self._rebuilt is not None else ""
        # members that are plain ints, which an agent sends at every step
        self._integers = (
            range(int(self._rebuilt.start), int(self._rebuilt.start + self._rebuilt.n))
            if self._kind == "Discrete"
            else range(0)
        )

    @classmethod
    def from_description(cls, description: Json) -> SpaceCodec:
        """A codec that reads samples recorded under a description."""
        return cls(rebuild(description))

    def encode(self, values: Sequence[Any], into: Encoding, place: str = "") -> list[bytes]:
        """Write samples, each as canonical JSON.

        Args:
            values: samples, or whatever the environment returned in their place.
            into: takes up large arrays and values that cannot be kept.
            place: where the samples stand, for messages.
        """
        if not values:
            return []
        if self._kind == "Discrete":
            texts = _discrete_texts(self._rebuilt.dtype, values)
        elif self._kind in ("Box", "MultiDiscrete", "MultiBinary"):
            texts = _array_texts(self._rebuilt, values, into)
        else:
            texts = None
        if texts is not None:
            return texts
        return [self._encode_one(value, into, place) for value in values]

    def decode(self, value: Json, arrays: Arrays = None) -> Any:
        """Read one sample back from parsed JSON.

        Raises:
            ValueError: when the JSON is not a sample of this space.
        """
        if type(value) is dict and value.get(TAG) == "sample":
            return _with_graphs(decode(value["value"], arrays))
        if self._rebuilt is None:
            raise ValueError("a sample of an unknown space must be in tagged form")
        try:
            (sample,) = self._rebuilt.from_jsonable(decode(value, arrays))
        except Exception as error:
            raise ValueError(
                f"not a sample of {self._rebuilt}: {type(error).__name__}: {describe_error(error)}"
            ) from None
        return sample

    def outside(self, values: Sequence[Any]) -> list[int]:
        """Positions of the values that are not members of the space; see `contains`."""
        if self._kind == "Box" and _are_arrays(values, self._rebuilt.dtype, self._rebuilt.shape):
            return _outside_box(self._rebuilt, values)
        if self._kind == "Discrete" and _are_plain_integers(values, self._rebuilt.dtype):
            return [i for i, value in enumerate(values) if int(value) not in self._integers]
        return [i for i, value in enumerate(values) if not self.contains(value)]

    def contains(self, value: Any) -> bool:
        """Whether a value is a member of the space.

        As Gymnasium's own `contains`, without its warning and with one leniency: a
        floating-point array of another width is a member of a `Box` when its shape and values
        fit. It is kept exactly, so nothing is gained by calling it a fault. A `contains` that
        raises says no.
        """
        if type(value) is int and value in self._integers:
            return True
        try:
            return self.space is None or _is_member(self.space, value)
        except Exception:
            return False

    def _encode_one(self, value: Any, into: Encoding, place: str) -> bytes:
        if self._rebuilt is not None:
            found = Encoding()
            try:
                if self._kind == "_Portable":
                    form = tag([value], found)
                    if not found.problems:
                        into.arrays.update(found.arrays)
                        return canonical(form)
                form = _to_jsonable(self._rebuilt, [value], found)
                text = canonical(form)
                (back,) = self._rebuilt.from_jsonable(decode(form, found.arrays))
                faithful = _same(value, back)
            except Exception:  # the sample does not fit the space, or the codec cannot write it
                faithful = False
            if faithful:
                into.arrays.update(found.arrays)
                return text
        self.unfaithful += 1
        return canonical({TAG: "sample", "value": tag(value, into, place)})


def describe(space: gymnasium.Space[Any] | _Portable | None) -> Json:
    """Describe a space as portable JSON: its type, its repr, and the arguments to rebuild it."""
    if space is None:
        return None
    kind = type(space)
    if isinstance(space, _Portable):
        return space.description
    try:
        text = repr(space)
    except Exception as error:
        text = f"<repr raised {type(error).__name__}>"
    name = kind.__name__ if kind.__module__.startswith("gymnasium.spaces.") else type_name(kind)
    arguments = _ARGUMENTS.get(name)
    description: dict[str, Json] = {"type": name, "repr": text}
    if arguments is not None:
        description |= arguments(space)
    elif hasattr(kind, "describe_portable"):
        description["portable"] = space.describe_portable()  # type: ignore[attr-defined]
    return description


def rebuild(description: Json) -> Any:
    """Rebuild a space from its description, or return None when it is not one of Gymnasium's own.

    Raises:
        ValueError: when the description names one of Gymnasium's own and its arguments do not fit.
    """
    if description is None:
        return None
    build = _BUILDERS.get(description["type"])
    if build is None:
        return _Portable(description) if "portable" in description else None
    try:
        return build(description)
    except _Opaque:
        return None
    except Exception as error:
        message = f"{type(error).__name__}: {describe_error(error)}"
        raise ValueError(f"malformed description of a space: {message}") from None


class _Portable:
    """Stands for a space whose samples stand for themselves, where only its description is left."""

    def __init__(self, description: Json) -> None:
        self.description = description

    def __repr__(self) -> str:
        return str(self.description["repr"])

    def contains(self, value: Any) -> bool:
        """Whether a value is a sample: nobody but the space itself can tell."""
        return True

    def to_jsonable(self, samples: Sequence[Any]) -> list[Any]:
        """The samples."""
        return list(samples)

    from_jsonable = to_jsonable


class _Opaque(Exception):
    """A space inside another that cannot be rebuilt."""


def _bound(array: np.ndarray[Any, Any]) -> Json:
    """A bound as one number where all elements agree, else the array."""
    flat = array.ravel()
    if flat.size and (flat == flat[0]).all():
        return tag(flat[0].item())
    if flat.size > LARGE_ARRAY:  # as text that is the same whichever zlib is installed
        content = base64.b64encode(content_bytes(array)).decode()
        return {
            TAG: "array",
            "dtype": array.dtype.str,
            "shape": list(array.shape),
            "base64": content,
        }
    return tag(array)


_ARGUMENTS: dict[str, Callable[[Any], dict[str, Json]]] = {
    "Box": lambda space: {
        "low": _bound(space.low),
        "high": _bound(space.high),
        "shape": list(space.shape),
        "dtype": space.dtype.str,
    },
    "Discrete": lambda space: {
        "n": int(space.n),
        "start": int(space.start),
        "dtype": np.dtype(space.dtype).str,
    },
    "MultiBinary": lambda space: {"shape": list(space.shape)},
    "MultiDiscrete": lambda space: {
        "nvec": tag(space.nvec),
        "start": tag(space.start),
        "dtype": np.dtype(space.dtype).str,
    },
    "Text": lambda space: {
        "min_length": int(space.min_length),
        "max_length": int(space.max_length),
        "charset": [tag(character) for character in sorted(space.character_set)],
    },
    "Dict": lambda space: {
        "spaces": [[tag(key), describe(part)] for key, part in space.spaces.items()]
    },
    "Tuple": lambda space: {"spaces": [describe(part) for part in space.spaces]},
    "OneOf": lambda space: {"spaces": [describe(part) for part in space.spaces]},
    "Sequence": lambda space: {"space": describe(space.feature_space), "stack": bool(space.stack)},
    "Graph": lambda space: {
        "node_space": describe(space.node_space),
        "edge_space": describe(space.edge_space),
    },
}


def _part(description: Json) -> Any:
    space = rebuild(description)
    if space is None or type(space) is _Portable:  # Gymnasium's own are made of spaces only
        raise _Opaque
    return space


def _build_box(description: Json) -> Any:
    from gymnasium.spaces import Box

    dtype, shape = np.dtype(description["dtype"]), tuple(description["shape"])
    low, high = (
        np.broadcast_to(np.asarray(decode(description[end]), dtype), shape)
        for end in ("low", "high")
    )
    return Box(low, high, shape, dtype)


def _build_discrete(description: Json) -> Any:
    from gymnasium.spaces import Discrete

    kind = np.dtype(description["dtype"]).type
    return Discrete(description["n"], start=description["start"], dtype=kind)


def _build_multi_binary(description: Json) -> Any:
    from gymnasium.spaces import MultiBinary

    shape = description["shape"]
    return MultiBinary(shape[0] if len(shape) == 1 else shape)


def _build_multi_discrete(description: Json) -> Any:
    from gymnasium.spaces import MultiDiscrete

    return MultiDiscrete(
        decode(description["nvec"]),
        dtype=np.dtype(description["dtype"]).type,
        start=decode(description["start"]),
    )


def _build_text(description: Json) -> Any:
    from gymnasium.spaces import Text

    return Text(
        description["max_length"],
        min_length=description["min_length"],
        charset=frozenset(decode(description["charset"])),
    )


def _build_dict(description: Json) -> Any:
    from gymnasium.spaces import Dict

    parts = [(decode(key), _part(part)) for key, part in description["spaces"]]
    return Dict(dict(parts), sort_keys=False)


def _build_tuple(description: Json) -> Any:
    from gymnasium.spaces import Tuple

    return Tuple([_part(part) for part in description["spaces"]])


def _build_one_of(description: Json) -> Any:
    from gymnasium.spaces import OneOf

    return OneOf([_part(part) for part in description["spaces"]])


def _build_sequence(description: Json) -> Any:
    from gymnasium.spaces import Sequence as SequenceSpace

    return SequenceSpace(_part(description["space"]), stack=description["stack"])


def _build_graph(description: Json) -> Any:
    from gymnasium.spaces import Graph

    edge = description["edge_space"]
    return Graph(_part(description["node_space"]), None if edge is None else _part(edge))


_BUILDERS: dict[str, Callable[[Json], Any]] = {
    "Box": _build_box,
    "Dict": _build_dict,
    "Discrete": _build_discrete,
    "Graph": _build_graph,
    "MultiBinary": _build_multi_binary,
    "MultiDiscrete": _build_multi_discrete,
    "OneOf": _build_one_of,
    "Sequence": _build_sequence,
    "Text": _build_text,
    "Tuple": _build_tuple,
}


def _are_plain_integers(values: Sequence[Any], dtype: np.dtype[Any]) -> bool:
    types = set(map(type, values))
    return types == {int} or (types == {np.int64} and dtype == np.int64)


def _discrete_texts(dtype: np.dtype[Any], values: Sequence[Any]) -> list[bytes] | None:
    if not _are_plain_integers(values, dtype):
        return None
    limits = np.iinfo(dtype)
    if min(values) < limits.min or max(values) > limits.max:
        return None
    return [b"[%d]" % value for value in values]


def _are_arrays(values: Sequence[Any], dtype: np.dtype[Any], shape: tuple[int, ...]) -> bool:
    if set(map(type, values)) != {np.ndarray}:
        return False
    return all(value.dtype == dtype and value.shape == shape for value in values)


def _column(values: Sequence[Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Arrays of one dtype and shape as the rows of a matrix."""
    try:
        content = b"".join(values)
    except BufferError:  # not contiguous
        return np.stack(values).reshape(len(values), -1)
    return np.frombuffer(content, dtype).reshape(len(values), -1)


def _array_texts(space: Any, values: Sequence[Any], into: Encoding) -> list[bytes] | None:
    """Texts of a column of arrays that all have the space's dtype and shape, else None."""
    dtype, shape, size = space.dtype, space.shape, math.prod(space.shape)
    if dtype.kind not in "biuf" or not size or not _are_arrays(values, dtype, shape):
        return None
    if size > LARGE_ARRAY:
        return [_large_text(value, into) for value in values]
    if dtype.itemsize > 8 or not dtype.isnative:
        return None
    rows = _column(values, dtype)
    if dtype.kind == "f":
        if not np.isfinite(rows).all():
            return None
        rows = rows.astype(np.float64)
    if len(shape) != 1:
        return [canonical([row]) for row in rows.reshape(-1, *shape).tolist()]
    text = orjson.dumps(rows, option=orjson.OPT_SERIALIZE_NUMPY)
    texts = text[2:-2].split(b"],[")
    if dtype.kind == "f":
        # orjson prints the others as the standard library does, see portable.is_printed_alike
        sizes = np.abs(rows)
        unusual = ((sizes < 1e-4) & (sizes > 0) | (sizes >= 1e16)).any(1)
        for i in np.flatnonzero(unusual).tolist():
            texts[i] = canonical(rows[i].tolist())[1:-1]
    return [b"[[%b]]" % row for row in texts]


def _large_text(value: np.ndarray[Any, Any], into: Encoding) -> bytes:
    return canonical(array_tag(value[None], into))


def _outside_box(space: Any, values: Sequence[Any]) -> list[int]:
    dtype = space.dtype
    if dtype.kind in "iu" and space.low.size:
        limits = np.iinfo(dtype)
        if space.low.min() == space.low.max() == limits.min and (
            space.high.min() == space.high.max() == limits.max
        ):
            return []  # no value of the dtype is outside, as in an image
    low, high = space.low.ravel(), space.high.ravel()
    outside: list[int] = []
    step = max(1, 1_000_000 // max(1, low.size))  # images are looked at a few at a time
    for first in range(0, len(values), step):
        rows = _column(values[first : first + step], dtype)
        inside = ((rows >= low) & (rows <= high)).all(1)
        outside += (np.flatnonzero(~inside) + first).tolist()
    return outside


def _is_member(space: Any, value: Any) -> bool:
    from gymnasium import spaces

    if type(space) is spaces.Box:
        return _in_box(space, value)
    if type(space) is spaces.Dict:
        return (
            isinstance(value, dict)
            and value.keys() == space.spaces.keys()
            and all(_is_member(part, value[key]) for key, part in space.spaces.items())
        )
    if type(space) is spaces.Tuple:
        parts = tuple(value) if isinstance(value, (list, np.ndarray)) else value
        return (
            isinstance(parts, tuple)
            and len(parts) == len(space.spaces)
            and all(map(_is_member, space.spaces, parts))
        )
    if type(space) is spaces.Sequence and not space.stack:
        return isinstance(value, tuple) and all(
            _is_member(space.feature_space, item) for item in value
        )
    return bool(space.contains(value))


def _in_box(space: Any, value: Any) -> bool:
    if not isinstance(value, np.ndarray):
        with np.errstate(all="ignore"):
            value = np.asarray(value, dtype=space.dtype)
    both_floats = value.dtype.kind == "f" and space.dtype.kind == "f"
    return bool(
        (both_floats or np.can_cast(value.dtype, space.dtype))
        and value.shape == space.shape
        and (value >= space.low).all()
        and (value <= space.high).all()
    )


def _to_jsonable(space: Any, values: Sequence[Any], into: Encoding) -> Json:
    """What `space.to_jsonable(values)` gives, with large arrays tagged instead of spelled out."""
    kind = type(space).__name__
    if kind == "Dict":
        if any(set(value) != set(space.spaces) for value in values):
            raise ValueError("keys differ from the space's")
        return {
            key: _to_jsonable(part, [value[key] for value in values], into)
            for key, part in space.spaces.items()
        }
    if kind == "Tuple":
        if any(len(value) != len(space.spaces) for value in values):
            raise ValueError("length differs from the space's")
        return [
            _to_jsonable(part, [value[i] for value in values], into)
            for i, part in enumerate(space.spaces)
        ]
    if kind == "Sequence" and not space.stack:
        return [_to_jsonable(space.feature_space, value, into) for value in values]
    if kind == "Sequence":
        return _to_jsonable(space.stacked_feature_space, values, into)
    if kind == "Graph":
        return [_graph_to_jsonable(space, value, into) for value in values]
    if kind == "OneOf":
        return [_one_to_jsonable(space, index, value, into) for index, value in values]
    if kind == "Box" and _is_large(space, values):
        return array_tag(np.stack(values), into)
    return space.to_jsonable(values)


def _graph_to_jsonable(space: Any, value: Any, into: Encoding) -> Json:
    form = {"nodes": _to_jsonable(space.batch_node_space, [value.nodes], into)}
    if value.edges is not None and value.edge_links is not None:
        form["edges"] = _to_jsonable(space.batch_edge_space, [value.edges], into)
        form["edge_links"] = value.edge_links.tolist()
    return form


def _one_to_jsonable(space: Any, index: Any, value: Any, into: Encoding) -> Json:
    part = space.spaces[index]
    if type(part).__name__ == "Box" and _is_large(part, [value]):
        return [int(index), array_tag(value, into)]
    return [int(index), part.to_jsonable([value])[0]]


def _is_large(space: Any, values: Sequence[Any]) -> bool:
    """Whether samples of a `Box` are large together, and can be one array."""
    if space.dtype.kind not in "biuf" or set(map(type, values)) != {np.ndarray}:
        return False
    if sum(value.size for value in values) <= LARGE_ARRAY:
        return False
    return len({(value.dtype.str, value.shape) for value in values}) == 1


def _with_graphs(value: Any) -> Any:
    """Put Gymnasium's own class back in the place of its name."""
    if type(value) is Named and value.type == "gymnasium.spaces.graph.GraphInstance":
        from gymnasium.spaces import GraphInstance

        return GraphInstance(**value.value)
    if type(value) is dict:
        return {key: _with_graphs(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(_with_graphs, value))
    return value


def _same(value: Any, back: Any) -> bool:
    """Whether a sample came back the same; an int and a NumPy integer of equal value are."""
    if isinstance(value, np.ndarray):
        return (
            type(value) is type(back)
            and value.dtype == back.dtype
            and value.shape == back.shape
            and value.tobytes() == back.tobytes()
        )
    if isinstance(value, dict):
        return (
            type(value) is type(back)
            and value.keys() == back.keys()
            and all(_same(item, back[key]) for key, item in value.items())
        )
    if isinstance(value, (tuple, list)):
        return (
            type(value) is type(back) and len(value) == len(back) and all(map(_same, value, back))
        )
    if isinstance(value, (int, np.integer)) and isinstance(back, (int, np.integer)):
        return not isinstance(value, bool) and int(value) == int(back)
    return type(value) is type(back) and bool(value == back)
