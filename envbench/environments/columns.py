"""Samples of a space as arrays: what evidence keeps as text, one array for each part of a space.

`Box`, `Discrete`, `MultiDiscrete` and `MultiBinary` give arrays with the space's dtype, of shape
``(n, *space.shape)``. `Dict` gives a dict and `Tuple` a tuple of what their parts give. Samples of
any other space (texts, sequences, graphs, tool calls) stand in an array of objects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import orjson

from envbench.evidence.portable import Json, parse
from envbench.evidence.spaces import SpaceCodec, rebuild
from envbench.evidence.tagged import TAG_BYTES, array_digests

Array: TypeAlias = np.ndarray[Any, Any]

Columns: TypeAlias = Any
"""An array, or a dict or tuple of columns."""

FetchArrays: TypeAlias = Callable[[set[str]], Mapping[str, bytes]]
"""Gives the content of large arrays by their SHA-256."""


_TAG = TAG_BYTES.decode()
_BRACKETS = {ord("["): None, ord("]"): None}


class ColumnReader:
    """Turns samples of one space, as evidence keeps them, into columns.

    Args:
        description: the recorded description of the space.
    """

    def __init__(self, description: Json) -> None:
        self.space = rebuild(description)
        self._codec = SpaceCodec.from_description(description)

    def read(self, texts: Sequence[str], fetch: FetchArrays) -> Columns:
        """Samples, each as canonical JSON, as columns.

        Raises:
            ValueError: when samples of one part cannot be one array, as their shapes differ.
        """
        if not texts:
            return stack(self.space, [])
        if self.space is not None and not any(_TAG in text for text in texts):
            try:
                if _is_flat(self.space, texts):
                    # flat, because a million small lists take longer than their numbers
                    flat = orjson.loads(f"[{','.join(texts).translate(_BRACKETS)}]")
                    return np.array(flat, self.space.dtype).reshape(-1, *_shape(self.space))
                return _unbatch(self.space, parse(f"[{','.join(texts)}]"))
            except _Irregular:  # a sample that is no member of its space
                pass
        values = [parse(text) for text in texts]
        arrays = fetch(_digests(texts))
        return stack(self.space, [self._codec.decode(value, arrays) for value in values])

    def bytes_each(self) -> int:
        """About how many bytes a sample takes, to choose how many to hold at once."""
        return _size(self.space)


def take(columns: Columns, positions: Any) -> Columns:
    """The samples at some positions."""
    if isinstance(columns, dict):
        return {key: take(part, positions) for key, part in columns.items()}
    if isinstance(columns, tuple):
        return tuple(take(part, positions) for part in columns)
    return columns[positions]


def join(parts: Sequence[Columns]) -> Columns:
    """Columns of several pieces as one; there is one piece at least."""
    first = parts[0]
    if isinstance(first, dict):
        return {key: join([part[key] for part in parts]) for key in first}
    if isinstance(first, tuple):
        return tuple(join([part[i] for part in parts]) for i in range(len(first)))
    filled = [part for part in parts if len(part)] or [first]
    return np.concatenate(filled)


class _Irregular(ValueError):
    """Samples that do not have the shape of their space."""


def _is_flat(space: Any, texts: Sequence[str]) -> bool:
    """Whether the numbers in texts are those of the space's shape, one after the other.

    The commas and brackets of a text tell its shape, up to two dimensions.
    """
    if type(space).__name__ not in _NUMERIC:
        return False
    shape = _shape(space)
    if len(shape) > 2 or 0 in shape:
        return False
    commas = int(np.prod(shape, dtype=np.int64)) - 1
    brackets = 1 + sum(int(np.prod(shape[:i], dtype=np.int64)) for i in range(len(shape)))
    return all(text.count(",") == commas and text.count("[") == brackets for text in texts)


def _unbatch(space: Any, batches: list[Any]) -> Columns:
    """Parsed batches of one sample each, in the form that the space writes."""
    kind = type(space).__name__
    if kind == "Dict":
        return {
            key: _unbatch(part, [batch[key] for batch in batches])
            for key, part in space.spaces.items()
        }
    if kind == "Tuple":
        return tuple(
            _unbatch(part, [batch[i] for batch in batches]) for i, part in enumerate(space.spaces)
        )
    if kind in _NUMERIC:
        shape = (len(batches), 1, *_shape(space))
        try:
            array = np.array(batches, space.dtype)
        except ValueError:  # of different shapes
            raise _Irregular from None
        if array.shape != shape:
            raise _Irregular
        return array.reshape(len(batches), *_shape(space))
    return objects([space.from_jsonable(batch)[0] for batch in batches])


_NUMERIC = frozenset({"Box", "Discrete", "MultiBinary", "MultiDiscrete"})


def stack(space: Any, samples: list[Any]) -> Columns:
    """Samples as Python values, as columns; one that is no member of its space keeps its dtype."""
    kind = type(space).__name__
    if kind == "Dict" and all(_is_dict_of(space, sample) for sample in samples):
        return {
            key: stack(part, [sample[key] for sample in samples])
            for key, part in space.spaces.items()
        }
    if kind == "Tuple" and all(_is_tuple_of(space, sample) for sample in samples):
        return tuple(
            stack(part, [sample[i] for sample in samples]) for i, part in enumerate(space.spaces)
        )
    if kind not in _NUMERIC:
        return objects(samples)
    shape = _shape(space)
    empty = np.empty((0, *shape), space.dtype)
    arrays = [np.asarray(sample) for sample in samples]
    for array in arrays:
        if array.shape != shape or array.dtype.kind not in "biuf":
            raise ValueError(
                f"a value of shape {array.shape} and dtype {array.dtype} is no sample of {space}"
            )
    if not arrays:
        return empty
    # a plain int is a member of a Discrete space, and takes its dtype
    is_plain = all(type(sample) in (int, float, bool) for sample in samples)
    dtype = space.dtype if is_plain else np.result_type(space.dtype, *{a.dtype for a in arrays})
    return np.stack(arrays).astype(dtype, copy=False)


def objects(values: Sequence[Any]) -> Array:
    """Values in an array of objects, whatever they are."""
    array = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        array[i] = value
    return array


def _is_dict_of(space: Any, sample: Any) -> bool:
    return isinstance(sample, Mapping) and sample.keys() == space.spaces.keys()


def _is_tuple_of(space: Any, sample: Any) -> bool:
    return isinstance(sample, tuple | list) and len(sample) == len(space.spaces)


def _shape(space: Any) -> tuple[int, ...]:
    return tuple(space.shape or ())


def _size(space: Any) -> int:
    kind = type(space).__name__
    if kind == "Dict":
        return sum(map(_size, space.spaces.values()))
    if kind == "Tuple":
        return sum(map(_size, space.spaces))
    if kind in _NUMERIC:
        return int(np.dtype(space.dtype).itemsize * np.prod(_shape(space), dtype=np.int64))
    return 1_000


def _digests(texts: Sequence[str]) -> set[str]:
    found = (array_digests(parse(text)) for text in texts if '"sha256"' in text)
    return set().union(*found)
