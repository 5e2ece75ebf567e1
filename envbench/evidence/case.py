"""The case that an episode answers: what was asked, and which end of an episode is complete."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any, Literal

from envbench.evidence.portable import Json, canonical, parse

Expects = Literal["termination", "truncation", "either"]
EXPECTS: tuple[str, ...] = ("termination", "truncation", "either")


@dataclass(frozen=True, slots=True)
class EvalCase:
    """One thing an agent is asked to do.

    Args:
        input: the task as given to the agent: text, or any portable JSON.
        case_id: a stable name for the case; two episodes with one `case_id` are paired.
        source_id: where the case came from; cases of one source are not independent.
        tags: names of the slices that the case belongs to.
        reference: the answer key. It enters the case's digest and is never recorded.
        expects: the end that makes an episode of this case complete: ``termination`` (the
            environment's own end), ``truncation`` (surviving to the limit) or ``either``.

    Raises:
        TypeError: when an argument is of the wrong type.
        ValueError: when a name is blank, a tag repeats, or `input` is not portable JSON.
    """

    input: Json
    case_id: str = field(kw_only=True)
    source_id: str | None = field(default=None, kw_only=True)
    tags: tuple[str, ...] = field(default=(), kw_only=True)
    reference: Json = field(default=None, kw_only=True, repr=False)
    expects: Expects = field(default="termination", kw_only=True)

    def __post_init__(self) -> None:
        require_name("case_id", self.case_id)
        if self.source_id is not None:
            require_name("source_id", self.source_id)
        if isinstance(self.tags, str):
            raise TypeError(f"tags must be a sequence of names, not the one text {self.tags!r}")
        object.__setattr__(self, "tags", tuple(self.tags))
        for tag in self.tags:
            require_name("tags", tag)
        if len(set(self.tags)) != len(self.tags):
            raise ValueError(f"tags name one twice: {list(self.tags)}")
        if self.expects not in EXPECTS:
            raise ValueError(f"expects must be one of {', '.join(EXPECTS)}, not {self.expects!r}")
        # a copy, so that a list changed later does not change the case
        object.__setattr__(self, "input", _portable("input", self.input))
        object.__setattr__(self, "reference", _portable("reference", self.reference))

    def __hash__(self) -> int:
        return hash(self.digest)

    @property
    def digest(self) -> str:
        """SHA-256 of the case as recorded: two cases with one digest ask the same."""
        return case_digest(self.to_dict())

    def to_dict(self) -> dict[str, Json]:
        """The case as evidence keeps it: the reference only by its digest."""
        reference = None if self.reference is None else canonical(self.reference)
        return {
            "input": self.input,
            "case_id": self.case_id,
            "source_id": self.source_id,
            "tags": list(self.tags),
            "expects": self.expects,
            "reference_digest": reference and hashlib.sha256(reference).hexdigest(),
        }


def case_digest(recorded: dict[str, Json]) -> str:
    """SHA-256 of the canonical form of a recorded case."""
    return hashlib.sha256(canonical(recorded)).hexdigest()


def require_name(argument: str, value: Any) -> None:
    """Refuse a name that is not text, or is blank."""
    if not isinstance(value, str):
        raise TypeError(f"{argument} must be text, not {type(value).__name__}")
    if not value.strip():
        raise ValueError(f"{argument} must not be blank")


def _portable(argument: str, value: Any) -> Json:
    try:
        return parse(canonical(value))
    except ValueError as error:
        raise ValueError(f"{argument} must be portable JSON: {error}") from None
