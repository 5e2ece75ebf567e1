"""Batches of a vector environment, taken apart: what each environment in it sent and returned.

A batch is copied once and its parts are views of the copy, which nothing else can change. Where a
batch cannot be copied as a whole (objects in it, a class of the user's own), its parts are held one
by one. One that does not have a part for each environment is given to each of them whole: that is
what was seen, and the checks of the Gymnasium contract say what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy import ndarray

from envbench.capture.recorder import has_kept, hold

_DOUBLE, _BOOL = np.dtype(np.float64), np.dtype(np.bool_)
_ARRAYS = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


def samples(batch: Any, single: Any, n: int) -> list[Any]:
    """The samples in a batch, held.

    Args:
        batch: of actions or observations, as Gymnasium batches samples of the space.
        single: the space of one sample.
        n: how many there are.
    """
    if type(batch) is ndarray and not batch.dtype.hasobject:
        held: Any = batch.copy()
        if batch.ndim and len(batch) == n and isinstance(single, _ARRAYS):
            return _rows(held, single)
    else:
        held = hold(batch)
    try:
        if has_kept(held):
            return [hold(part) for part in _apart(batch, single, n)]
        return list(_apart(held, single, n))
    except Exception:  # no batch of this space, or of a class whose code fails
        return [held] * n


def sampler(single: Any, n: int) -> Callable[[Any], Any]:
    """`samples` of one space, for many batches: a list, or the array whose rows they are."""
    # the parts of a batch of single numbers are arrays where the space is a Box
    is_plain = isinstance(single, _ARRAYS) and (single.shape or isinstance(single, spaces.Discrete))
    if not is_plain:
        return lambda batch: samples(batch, single, n)
    dtype, shape = single.dtype, (n, *single.shape)

    def take(batch: Any) -> Any:
        # what is met in nearly every step; to make all rows of an array takes longer than a copy
        if type(batch) is ndarray and batch.dtype is dtype and batch.shape == shape:
            return batch.copy()
        return samples(batch, single, n)

    return take


def owned(held: Any) -> Any:
    """A part that is held, no longer a view that keeps the whole batch in memory."""
    kind = type(held)
    if kind is ndarray:
        return held if held.base is None else held.copy()
    if kind is dict:
        return {key: owned(value) for key, value in held.items()}
    if kind is tuple:
        return tuple([owned(value) for value in held])
    return held


def numbers(batch: Any, n: int) -> list[Any]:
    """The rewards in a batch, or the flags: as Python's own where that is exact, held."""
    if type(batch) is ndarray and batch.ndim == 1 and len(batch) == n:
        dtype = batch.dtype
        if dtype is _DOUBLE or dtype is _BOOL or (dtype.kind in "fb" and dtype.itemsize <= 8):
            plain: list[Any] = batch.tolist()
            return plain
        return [hold(value) for value in batch]
    try:
        parts = _list(batch, n)
    except Exception:  # no batch at all
        return [hold(batch)] * n
    return [hold(part) for part in parts]


def infos_of(batch: Any, n: int) -> list[Any]:
    """The info of each environment, held: with the keys that its own info had, and no others.

    Gymnasium stands a mask ``_key`` beside each key, which says in which environments' infos it
    was. A key without a mask was put in by a wrapper: what has a part for each environment is
    taken apart, anything else given to each whole.
    """
    if type(batch) is dict:
        apart: list[dict[Any, Any]] = [{} for _ in range(n)]
        _add(apart, batch, range(n), n)
        return apart
    if isinstance(batch, Sequence) and len(batch) == n:  # as `DictInfoToList` gives them
        return [hold(info) for info in batch]
    return [hold(batch)] * n


def _apart(batch: Any, single: Any, n: int) -> list[Any]:
    """The parts of a batch; raises an exception of any kind when there are others than `n`."""
    if isinstance(single, spaces.Dict):
        columns = [_apart(batch[key], space, n) for key, space in single.spaces.items()]
        if set(batch) != set(single.spaces):
            raise ValueError("other keys")
        keys = list(single.spaces)
        rows = zip(*columns, strict=True) if columns else iter([()] * n)
        return [dict(zip(keys, row, strict=True)) for row in rows]
    if isinstance(single, spaces.Tuple):
        columns = [_apart(part, space, n) for part, space in zip(batch, single.spaces, strict=True)]
        return list(zip(*columns, strict=True)) if columns else [()] * n
    parts = _list(batch, n)
    return _rows(batch, single) if isinstance(batch, ndarray) else parts


def _list(batch: Any, n: int) -> list[Any]:
    parts = list(batch)
    if len(parts) != n or isinstance(batch, (str, bytes, Mapping)):
        raise ValueError("another number of parts")
    return parts


def _rows(batch: ndarray[Any, Any], single: Any) -> list[Any]:
    """The parts of an array; those of a `Box` are arrays, also where they are single numbers."""
    if batch.ndim == 1 and isinstance(single, spaces.Box):
        return [batch[i, ...] for i in range(len(batch))]
    return list(batch)


def _add(
    apart: list[dict[Any, Any]], batch: dict[Any, Any], present: Sequence[int], n: int
) -> None:
    """Add what a batch of infos holds to the infos of the environments that are present."""
    masks = {key: batch[f"_{key}"] for key in batch if _is_mask(batch.get(f"_{key}"), n)}
    names = {f"_{key}" for key in masks}
    for key, value in batch.items():
        if key in masks:
            mask = masks[key].tolist()
            _put(apart, key, value, [i for i in present if mask[i]], n)
        elif key not in names:
            _put(apart, key, value, present, n)


def _put(apart: list[dict[Any, Any]], key: Any, value: Any, present: Sequence[int], n: int) -> None:
    if type(value) is dict:
        for i in present:
            apart[i][key] = {}
        _add([info.get(key, {}) for info in apart], value, present, n)
        return
    if type(value) is ndarray and value.ndim and len(value) == n and not value.dtype.hasobject:
        rows = list(value.copy())
        for i in present:
            apart[i][key] = rows[i]
        return
    of_each = isinstance(value, (ndarray, list, tuple)) and _length(value) == n
    for i in present:
        apart[i][key] = hold(value[i] if of_each else value)


def _is_mask(value: Any, n: int) -> bool:
    return type(value) is ndarray and value.dtype == np.bool_ and value.shape == (n,)


def _length(value: Any) -> int | None:
    return None if isinstance(value, ndarray) and not value.ndim else len(value)
