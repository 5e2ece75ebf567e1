"""Acceptance: a policy written before the run turns a report into accept, reject or indeterminate.

The policy is a contract, not a statistical test. Unknown is neither a pass nor a failure: rates
are judged over what was measured, how much that must be is a requirement of its own, and every
rate stands beside its denominator and the bounds that what is missing leaves open.
"""

from __future__ import annotations

import dataclasses
import numbers
import operator
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

from envbench.checks.decision import Decision
from envbench.checks.hearing import hear
from envbench.checks.outcome import require_label
from envbench.checks.report import Report
from envbench.checks.shape import Kinds, at, expect_schema, read_object
from envbench.evidence.episode import write_atomically
from envbench.evidence.portable import Json, canonical, parse

SCHEMA = "envbench.policy/v1"

TrialScope: TypeAlias = Literal["all_attempts", "final_attempt"]


@dataclasses.dataclass(frozen=True, slots=True)
class CheckRequirement:
    """What one check must come to.

    A case with several attempts or repeats counts once: it passes when every attempt judged
    passes, fails when any fails, and is measured when every one was measured.

    Args:
        name: the check's name.
        min_pass_rate: passed cases over cases that passed or failed, at least; below it the
            policy rejects.
        min_cases: measured cases, at least, in the whole report.
        min_coverage: measured cases over all cases, at least.
        critical: any measured failure rejects, whatever the rate and whatever is missing.

    Raises:
        TypeError, ValueError: naming the argument.
    """

    name: str
    min_pass_rate: float = 1.0
    min_cases: int = 1
    min_coverage: float = 1.0
    critical: bool = False

    def __post_init__(self) -> None:
        require_label("name", self.name)
        _fraction(self, "min_pass_rate")
        _count(self, "min_cases", 1)
        _fraction(self, "min_coverage")
        if type(self.critical) is not bool:
            raise TypeError(f"critical must be True or False, not {self.critical!r}")


@dataclasses.dataclass(frozen=True, slots=True)
class SliceRequirement:
    """A slice of the cases, by tag, in which every required check is judged again.

    A slice can only ask for more: where a check's own rate or coverage is the stricter one, that
    holds in the slice too.

    Args:
        tag: the tag of the cases.
        min_cases: cases with the tag, and measured ones among them for each check, at least.
        min_pass_rate: as in `CheckRequirement`, within the slice.
        min_coverage: as in `CheckRequirement`, within the slice.

    Raises:
        TypeError, ValueError: naming the argument.
    """

    tag: str
    min_cases: int = 1
    min_pass_rate: float = 1.0
    min_coverage: float = 1.0

    def __post_init__(self) -> None:
        require_label("tag", self.tag)
        _count(self, "min_cases", 1)
        _fraction(self, "min_pass_rate")
        _fraction(self, "min_coverage")


@dataclasses.dataclass(frozen=True, slots=True)
class AcceptancePolicy:
    """What a report must show to be accepted.

    - A measured failure of a critical check rejects, even where other evidence is missing.
    - A pass rate below its minimum, among the measured cases, rejects.
    - Otherwise anything the evidence lacks makes the decision indeterminate: a required check the
      report does not have, too few cases, coverage below its minimum, evaluator errors above
      their rate, a coverage issue on an episode judged, a slice or source groups too small, a
      case with two definitions. An empty report is indeterminate.
    - Otherwise the report is accepted.

    Args:
        checks: at least one `CheckRequirement`. Other checks of the report decide nothing, save
            that their errors count in the error rate.
        slices: slices by tag in which the checks are judged again.
        min_cases: distinct cases, at least; repeats of a case count once.
        min_source_groups: distinct `source_id`s, at least. From 1 on, each case must have one.
        max_error_rate: cases in which a check itself failed, over all cases, at most.
        trial_scope: `all_attempts` judges every episode. `final_attempt` judges, of a chain of
            recoveries (`Provenance(previous=)`) of one case in the report, only the last; the
            others become notes. Use it only for workflows that are meant to recover: a passing
            recovery does not approve the failed history.

    Raises:
        TypeError, ValueError: naming the argument.

    Example:
        >>> policy = AcceptancePolicy((CheckRequirement("posted_once", critical=True),))
        >>> policy == AcceptancePolicy.from_dict(policy.to_dict())
        True
    """

    checks: tuple[CheckRequirement, ...]
    slices: tuple[SliceRequirement, ...] = ()
    min_cases: int = 1
    min_source_groups: int = 0
    max_error_rate: float = 0.0
    trial_scope: TrialScope = "all_attempts"

    def __post_init__(self) -> None:
        _all_of(self, "checks", CheckRequirement, "name")
        if not self.checks:
            raise ValueError("checks must hold at least one CheckRequirement")
        _all_of(self, "slices", SliceRequirement, "tag")
        _count(self, "min_cases", 1)
        _count(self, "min_source_groups", 0)
        _fraction(self, "max_error_rate")
        if self.trial_scope not in ("all_attempts", "final_attempt"):
            raise ValueError(
                f"trial_scope must be 'all_attempts' or 'final_attempt', not {self.trial_scope!r}"
            )

    def evaluate(self, report: Report) -> Decision:
        """Decide about a report.

        Raises:
            TypeError: when `report` is not a `Report`.
        """
        if not isinstance(report, Report):
            raise TypeError(f"report must be a Report, not {type(report).__name__}")
        return hear(self, report)

    def to_dict(self) -> dict[str, Json]:
        """The policy as portable JSON."""
        fields = dataclasses.asdict(self)
        lists = {name: list(fields[name]) for name in ("checks", "slices")}
        return {"schema": SCHEMA, **fields, **lists}

    @classmethod
    def from_dict(cls, value: Json) -> AcceptancePolicy:
        """Read what `to_dict` gave, or a person wrote; what has a default may be left out.

        Raises:
            ValueError: naming the place of what does not fit.
        """
        if type(value) is dict and "schema" in value:
            expect_schema(value, SCHEMA)
        fields = read_object(value, _POLICY, "", optional=_DEFAULTED)
        del fields["schema"]
        fields["checks"] = _read_all(CheckRequirement, _CHECK, fields["checks"], "/checks")
        fields["slices"] = _read_all(SliceRequirement, _SLICE, fields.get("slices", []), "/slices")
        return _made(cls, fields, "")

    def save_json(self, path: str | os.PathLike[str]) -> None:
        """Write the policy to a JSON file, which is complete or not there."""
        write_atomically(Path(path), canonical(self.to_dict()) + b"\n")

    @classmethod
    def load_json(cls, path: str | os.PathLike[str]) -> AcceptancePolicy:
        """Read a policy from a JSON file.

        Raises:
            OSError: when the file cannot be read.
            ValueError: naming file and place, when it is no policy.
        """
        try:
            return cls.from_dict(parse(Path(path).read_bytes(), unique_keys=True))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None


_NUMBER = (int, float)
_CHECK: dict[str, Kinds] = {
    "name": str,
    "min_pass_rate": _NUMBER,
    "min_cases": int,
    "min_coverage": _NUMBER,
    "critical": bool,
}
_SLICE: dict[str, Kinds] = {
    "tag": str,
    "min_cases": int,
    "min_pass_rate": _NUMBER,
    "min_coverage": _NUMBER,
}
_POLICY: dict[str, Kinds] = {
    "schema": str,
    "checks": list,
    "slices": list,
    "min_cases": int,
    "min_source_groups": int,
    "max_error_rate": _NUMBER,
    "trial_scope": str,
}
_DEFAULTED = tuple(({*_CHECK} | {*_SLICE} | {*_POLICY}) - {"name", "tag", "schema", "checks"})


def _fraction(requirement: Any, argument: str) -> None:
    """Refuse an argument that is not a number from 0 to 1, and make it a float."""
    value = getattr(requirement, argument)
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{argument} must be a number from 0 to 1, not {value!r}")
    if not 0 <= float(value) <= 1:  # NaN is refused here too
        raise ValueError(f"{argument} must be from 0 to 1, not {value!r}")
    object.__setattr__(requirement, argument, float(value))


def _count(requirement: Any, argument: str, minimum: int) -> None:
    """Refuse an argument that is not an integer from `minimum` on, and make it an int."""
    value = getattr(requirement, argument)
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise TypeError(f"{argument} must be an integer, not {value!r}")
    if number < minimum:
        raise ValueError(f"{argument} must be at least {minimum}, not {value!r}")
    object.__setattr__(requirement, argument, number)


def _all_of(policy: AcceptancePolicy, argument: str, kind: type, name: str) -> None:
    """Refuse an argument that is not a sequence of distinct requirements; make it a tuple."""
    values = getattr(policy, argument)
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(f"{argument} must be a sequence of {kind.__name__}, not {values!r}")
    values = tuple(values)
    for value in values:
        if not isinstance(value, kind):
            raise TypeError(f"{argument} must hold {kind.__name__} only, not {value!r}")
    for value, count in Counter(getattr(value, name) for value in values).items():
        if count > 1:
            raise ValueError(f"{argument} must have different names, and {value!r} is there twice")
    object.__setattr__(policy, argument, values)


_Made = TypeVar("_Made")


def _read_all(
    kind: type[_Made], shape: dict[str, Kinds], values: Sequence[Json], place: str
) -> list[_Made]:
    return [
        _made(kind, read_object(value, shape, at(place, i), optional=_DEFAULTED), at(place, i))
        for i, value in enumerate(values)
    ]


def _made(kind: type[_Made], fields: dict[str, Any], place: str) -> _Made:
    """Make a requirement from a file; what it refuses is named with its place there."""
    try:
        return kind(**fields)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{place or '/'}: {error}") from None
