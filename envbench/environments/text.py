"""Values as text for a policy that reads text."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from pydantic_core import PydanticSerializationError, to_jsonable_python


def as_text(value: Any, *, indent: int | None = None) -> str:
    """A value as a policy reads it: text as it is, anything else as JSON.

    Models, dataclasses, enums, dates and NumPy values are written as their plain content; NaN and
    the infinities as JavaScript writes them. Evidence does not come from here: it keeps the value.

    Args:
        value: any value that evidence can keep.
        indent: spaces for each level, or None for one line.

    Raises:
        ValueError: when a part of the value has no JSON.
    """
    if isinstance(value, str):
        return value
    plain: Any
    try:
        plain = to_jsonable_python(value, fallback=_plain)
    except TypeError as error:  # a set as a key
        raise ValueError(str(error)) from None
    except UnicodeDecodeError:  # bytes that are not UTF-8
        plain = to_jsonable_python(value, fallback=_plain, bytes_mode="base64")
    except PydanticSerializationError as error:
        if "utf-8" not in str(error):
            raise
        plain = to_jsonable_python(value, fallback=_plain, bytes_mode="base64")
    return json.dumps(plain, ensure_ascii=False, indent=indent)


def _plain(value: Any) -> Any:
    """What stands for a value that pydantic does not know."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, complex):
        return str(value)
    raise ValueError(f"{type(value).__module__}.{type(value).__qualname__} has no form as text")
