"""Arrow columns from Python lists, made of buffers.

`pyarrow.array` would do, but it imports pandas to ask whether a list is a Series, and a recorder in
a training job must not pay for that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa

Kind = Literal["text", "json", "binary", "integer", "double", "boolean", "time"]
"""`json` is text that is known to be JSON; `time` is in microseconds since 1970 UTC."""


def table(columns: Mapping[str, tuple[Kind, Sequence[Any]]]) -> pa.Table:
    """Make a table of named columns, all of one length; None is null.

    Raises:
        OverflowError: when an integer does not fit 64 bits.
        TypeError: when a value is not of its column's kind.
    """
    arrays = [column(values, kind) for kind, values in columns.values()]
    fields = [
        # so marked, DuckDB takes the text as JSON and does not parse it once more
        pa.field(name, _TYPES[kind], metadata=_IS_JSON if kind == "json" else None)
        for name, (kind, _) in columns.items()
    ]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def column(values: Sequence[Any], kind: Kind) -> pa.Array:
    """Make one column; text may be given as `str` or as UTF-8 bytes."""
    if kind in ("text", "json", "binary"):
        return _variable(values, _TYPES[kind])
    missing = None in values
    numbers = [0 if value is None else value for value in values] if missing else values
    content: np.ndarray[Any, Any] = np.array(numbers, dtype=_DTYPES[kind])
    if kind == "boolean":
        content = np.packbits(content, bitorder="little")
    buffers = [_validity(values) if missing else None, pa.py_buffer(content)]
    return pa.Array.from_buffers(_TYPES[kind], len(values), buffers)


_TYPES = {
    "text": pa.large_string(),
    "json": pa.large_string(),
    "binary": pa.large_binary(),
    "integer": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "time": pa.timestamp("us"),
}
_IS_JSON = {"ARROW:extension:name": "arrow.json", "ARROW:extension:metadata": ""}
_DTYPES = {"integer": np.int64, "double": np.float64, "boolean": np.bool_, "time": np.int64}


def _variable(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    missing = None in values
    pieces = [
        value if type(value) is bytes else b"" if value is None else value.encode()
        for value in values
    ]
    offsets = np.zeros(len(pieces) + 1, dtype=np.int64)
    np.cumsum([len(piece) for piece in pieces], out=offsets[1:])
    buffers = [
        _validity(values) if missing else None,
        pa.py_buffer(offsets),
        pa.py_buffer(b"".join(pieces)),
    ]
    return pa.Array.from_buffers(kind, len(pieces), buffers)


def _validity(values: Sequence[Any]) -> pa.Buffer:
    present = np.array([value is not None for value in values], dtype=np.bool_)
    return pa.py_buffer(np.packbits(present, bitorder="little"))
