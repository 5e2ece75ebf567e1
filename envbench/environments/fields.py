"""What callers of `verify_replay` say of fields and paths, as patterns of the paths of mismatches.

A field may be named alone (``reward``, ``snapshot``), or as the first segment of a path
(``/observation/3``). A path that begins with no field is one in the state, as in rules on changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

FIELDS = frozenset(
    {
        "observation",
        "reward",
        "terminated",
        "truncated",
        "info",
        "state",
        "error",
        "audit",
        "case",
        "steps",
        "action_space",
        "observation_space",
        "fingerprint",
    }
)
"""What the path of a mismatch begins with."""

_NAMES = {name: name for name in FIELDS} | {"snapshot": "state"}
_WILDCARDS = ("*", "**")


def tolerance_patterns(given: Any) -> Any:
    """Tolerances by pattern; what is no mapping is handed back as it is."""
    if not isinstance(given, Mapping):
        return given
    return {_pattern(place): number for place, number in given.items()}


def ignored_patterns(given: Any) -> Any:
    """Patterns that are not compared, of paths or of paths by field; else what was given.

    Example:
        >>> ignored_patterns(["reward", "/state/at", "/orders/*/at"])
        ['/reward', '/state/at', '/state/orders/*/at']
        >>> ignored_patterns({"observation": ["/0"], "snapshot": "at"})
        ['/observation/0', '/state/at']
    """
    if isinstance(given, Mapping):
        pairs = ((field, inner) for field, inners in given.items() for inner in _several(inners))
        return [_below(_pattern(field), inner) for field, inner in pairs]
    if not isinstance(given, Iterable):
        return given
    return [_pattern(place) for place in _several(given)]


def _several(given: Any) -> Iterable[Any]:
    return (given,) if isinstance(given, str) or not isinstance(given, Iterable) else given


def _below(pattern: Any, inner: Any) -> Any:
    if not isinstance(pattern, str) or not isinstance(inner, str):
        return inner
    return pattern + inner if inner.startswith("/") or not inner else f"{pattern}/{inner}"


def _pattern(place: Any) -> Any:
    """The pattern that a place means; what means none is left for the error that names it."""
    if not isinstance(place, str):
        return place
    if place in _NAMES:
        return f"/{_NAMES[place]}"
    if not place.startswith("/") or place == "/":
        return place
    first, *below = place[1:].split("/")
    if first in _WILDCARDS:
        return place
    return "/".join(["", _NAMES[first], *below]) if first in _NAMES else f"/state{place}"
