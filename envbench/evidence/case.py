"""The case that an episode answers: what was asked, and which end of an episode is complete."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any, Literal

from envbench.evidence.portable import VALUE_DEPTH, Json, canonical, parse

Expects = Literal["termination", "truncation", "either"]
EXPECTS: tuple[str, ...] = ("termination", "truncation", "either")


@dataclass(frozen=True, slots=True, eq=False)
class EvalCase:
    """One thing an agent is asked to do. Cases are equal when their digests are.

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
    _recorded: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        require_name("case_id", self.case_id)
        if self.source_id is not None:
            require_name("source_id", self.source_id)
        if isinstance(self.tags, str):
            raise TypeError(f"tags must be a sequence of names, not the one text {self.tags!r}")
        unordered = isinstance(self.tags, (set, frozenset))
        object.__setattr__(self, "tags", tuple(sorted(self.tags) if unordered else self.tags))
        for tag in self.tags:
            require_name("tags", tag)
        if len(set(self.tags)) != len(self.tags):
            raise ValueError(f"tags name one twice: {list(self.tags)}")
        if self.expects not in EXPECTS:
            raise ValueError(f"expects must be one of {', '.join(EXPECTS)}, not {self.expects!r}")
        # copies, so that a list changed later does not change the case
        object.__setattr__(self, "input", _portable("input", self.input))
        object.__setattr__(self, "reference", _portable("reference", self.reference))
        has_none = self.reference is None
        self._record(None if has_none else _sha256(canonical(self.reference)))

    @classmethod
    def from_dict(cls, recorded: dict[str, Json]) -> EvalCase:
        """A case as evidence keeps it: with the reference's digest and without the reference.

        Raises:
            TypeError: when a value is of the wrong type.
            ValueError: when a key is missing or not one of a case, or a value is refused.
        """
        if set(recorded) != _KEYS:
            wrong = ", ".join(sorted(_KEYS ^ set(recorded)))
            raise ValueError(f"a recorded case has the keys {', '.join(sorted(_KEYS))}: {wrong}")
        arguments = {key: value for key, value in recorded.items() if key != "reference_digest"}
        case = cls(**arguments)
        case._record(recorded["reference_digest"])
        return case

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EvalCase) and self._recorded == other._recorded

    def __hash__(self) -> int:
        return hash(self._recorded)

    @property
    def digest(self) -> str:
        """SHA-256 of the case as recorded: two cases with one digest ask the same."""
        return _sha256(self._recorded)

    def to_dict(self) -> dict[str, Json]:
        """The case as evidence keeps it: the reference only by its digest."""
        recorded: dict[str, Json] = parse(self._recorded)
        return recorded

    def _record(self, reference_digest: str | None) -> None:
        recorded = {
            "input": self.input,
            "case_id": self.case_id,
            "source_id": self.source_id,
            "tags": list(self.tags),
            "expects": self.expects,
            "reference_digest": reference_digest,
        }
        object.__setattr__(self, "_recorded", canonical(recorded))


_KEYS = {"input", "case_id", "source_id", "tags", "expects", "reference_digest"}


def case_digest(recorded: dict[str, Json]) -> str:
    """SHA-256 of the canonical form of a recorded case."""
    return _sha256(canonical(recorded))


def require_name(argument: str, value: Any) -> None:
    """Refuse a name that is not text, or is blank."""
    if not isinstance(value, str):
        raise TypeError(f"{argument} must be text, not {type(value).__name__}")
    if not value.strip():
        raise ValueError(f"{argument} must not be blank")


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _portable(argument: str, value: Any) -> Json:
    try:
        return parse(canonical(value, VALUE_DEPTH))
    except ValueError as error:
        raise ValueError(f"{argument} must be portable JSON: {error}") from None
