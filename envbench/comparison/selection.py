"""`Episodes`: which episodes of a store make one side of a comparison."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from envbench.checks.outcome import require_label

COLUMNS = ("environment_id", "environment_version", "agent_id", "run_id")
"""The columns of the table `episodes` that a selection can name a value of."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Episodes:
    """Sealed episodes of a store, by what was recorded with them; what is given holds together.

    Args:
        environment_id: the environment they ran in.
        environment_version: its version, as the caller gave it.
        agent_id: the agent that acted.
        run_id: the run that recorded them.
        where: any SQL condition on the columns of the table `episodes`.

    Raises:
        TypeError: when an argument is not text.
        ValueError: when one is blank.

    Example:
        >>> Episodes(environment_id="ledger-v1", where="seed < 20").condition
        "environment_id = 'ledger-v1' AND (seed < 20)"
    """

    environment_id: str | None = None
    environment_version: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    where: str | None = None

    def __post_init__(self) -> None:
        for name in (*COLUMNS, "where"):
            if getattr(self, name) is not None:
                require_label(name, getattr(self, name))

    @property
    def condition(self) -> str | None:
        """The same as one SQL condition; None for every episode."""
        parts = [f"{name} = {quoted(value)}" for name, value in self._named()]
        if self.where is not None:
            text = self.where.rstrip().removesuffix(";")
            end = "\n" if "--" in text else ""  # a comment must not swallow the bracket
            parts.append(f"({text}{end})")
        return " AND ".join(parts) or None

    def __str__(self) -> str:
        parts = [f"{name} {value!r}" for name, value in self._named()]
        if self.where is not None:
            parts.append(f"where {self.where}")
        return ", ".join(parts) or "all episodes"

    def _named(self) -> Iterator[tuple[str, str]]:
        for name in COLUMNS:
            value = getattr(self, name)
            if value is not None:
                yield name, value


def quoted(value: str) -> str:
    """Text as a literal of SQL."""
    text = value.replace("'", "''")
    return f"'{text}'"
