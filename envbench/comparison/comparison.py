"""`Comparison`: two versions over the same cases, and everything that the figures rest on."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from envbench.comparison import files, frames, words
from envbench.comparison.differences import Difference, Treatment
from envbench.comparison.pairing import pair_names
from envbench.comparison.passing import PassK, pass_k
from envbench.comparison.results import CheckComparison, Pair, RewardComparison
from envbench.evidence.episode import write_atomically
from envbench.evidence.portable import Json, canonical, parse

if TYPE_CHECKING:
    import polars as pl


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """Two sides over the same cases; made by `compare`.

    Its truth value is an error: "no difference shown" must not pass for a yes.

    Attributes:
        treatment: what was meant to differ.
        baseline_name: what to call the baseline.
        candidate_name: what to call the candidate.
        alpha: the level of the verdicts; intervals cover 1 − alpha.
        changed: how the treatment differs, as `(part, baseline, candidate)`.
        blocked: what else differs, so that no verdict is given: `(part, baseline, candidate)`.
        pairs: every pair, and every episode without a partner.
        case_means: the cases whose repeats carry no seed, so that case means are compared.
        checks: what each check came to, in the order of the baseline's checks.
        reward: the reward beside the checks; None when no store was there to read it from.
        notes: what a reader must know of the whole comparison.

    Raises:
        ValueError: naming the place, when the parts do not fit together.
    """

    treatment: Treatment
    baseline_name: str
    candidate_name: str
    alpha: float
    changed: tuple[Difference, ...]
    blocked: tuple[Difference, ...]
    pairs: tuple[Pair, ...]
    case_means: tuple[str, ...]
    checks: tuple[CheckComparison, ...]
    reward: RewardComparison | None
    notes: tuple[str, ...]

    def __post_init__(self) -> None:
        for index, check in enumerate(self.checks):
            if len(check.outcomes) != len(self.pairs):
                raise ValueError(
                    f"/checks/{index}/outcomes: {len(check.outcomes)} are there, and there are "
                    f"{len(self.pairs)} pairs"
                )

    @property
    def comparable(self) -> bool:
        """Whether nothing but the treatment differs."""
        return not self.blocked

    @property
    def unmatched(self) -> tuple[Pair, ...]:
        """The episodes without a partner, which are in no figure."""
        means = set(self.case_means)
        return tuple(
            pair
            for pair in self.pairs
            if (pair.baseline is None or pair.candidate is None)
            and not (pair.seed is None and pair.case_id in means)
        )

    @property
    def names(self) -> tuple[str, ...]:
        """A distinct name for each pair: its case, with seed and repeat where they are needed."""
        return pair_names(self.pairs)

    @property
    def exit_code(self) -> int:
        """For scripts: 0 no regression, 1 a regression, 2 not comparable or indeterminate."""
        verdicts = {check.verdict for check in self.checks}
        if "regression" in verdicts:
            return 1
        return 2 if not verdicts or verdicts & {"indeterminate", "descriptive"} else 0

    def check(self, name: str) -> CheckComparison:
        """What one check came to.

        Raises:
            KeyError: when there is no such check, naming those there are.
        """
        for check in self.checks:
            if check.name == name:
                return check
        raise KeyError(f"no check {name!r}: there are {', '.join(c.name for c in self.checks)}")

    def pass_k(self, k: int | None = None) -> tuple[PassK, ...]:
        """pass@k and pass^k of each check and side over the repeats of each case.

        Args:
            k: how many attempts; by default as many as every case has on both sides.

        Raises:
            ValueError: when k is less than 1.
        """
        return pass_k(self, k)

    def frame(self) -> pl.DataFrame:
        """One row a check, as a Polars frame; `docs/comparison.md` lists the columns."""
        return frames.of_checks(self)

    def pairs_frame(self) -> pl.DataFrame:
        """One row a pair and check, with both outcomes, as a Polars frame."""
        return frames.of_pairs(self)

    def summary(self) -> str:
        """What was found, in one paragraph that claims no more than it shows."""
        return words.summary(self)

    @property
    def digest(self) -> str:
        """SHA-256 over all of it: it shows that a saved comparison was altered, not who made it."""
        return _digest(files.content(self))

    def to_dict(self) -> dict[str, Json]:
        """The comparison as portable JSON."""
        content = files.content(self)
        return {**content, "digest": _digest(content)}

    @classmethod
    def from_dict(cls, value: Json) -> Comparison:
        """Read what `to_dict` gave.

        Raises:
            ValueError: naming the place of what does not fit, or saying that it was altered.
        """
        fields, digest = files.fields(value)
        comparison = cls(**fields)
        if comparison.digest != digest:
            raise ValueError(
                f"/digest: is {digest}, and the content has {comparison.digest}: the comparison "
                "was altered after it was saved"
            )
        return comparison

    def save_json(self, path: str | os.PathLike[str]) -> None:
        """Write the comparison to a JSON file, which is complete or not there."""
        write_atomically(Path(path), canonical(self.to_dict()) + b"\n")

    @classmethod
    def load_json(cls, path: str | os.PathLike[str]) -> Comparison:
        """Read a comparison that `save_json` wrote.

        Raises:
            OSError: when the file cannot be read.
            ValueError: naming file and place, when it is no comparison or was altered.
        """
        try:
            return cls.from_dict(parse(Path(path).read_bytes(), unique_keys=True))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None

    def __bool__(self) -> bool:
        raise TypeError(
            "a comparison has no truth value: look at .exit_code, .comparable, or the verdict of "
            "each of .checks"
        )

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return "\n".join(words.table(self))


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Comparisons:
    """Several versions, each compared with one baseline; made by `compare_many`.

    The adjusted p of every check counts the checks of all of them.

    Attributes:
        comparisons: one a version, in the order given.
    """

    comparisons: tuple[Comparison, ...]

    @property
    def baseline_name(self) -> str:
        """What the baseline is called."""
        return self.comparisons[0].baseline_name

    @property
    def exit_code(self) -> int:
        """For scripts: 1 when a version has a regression, else 2 when one is open, else 0."""
        codes = {comparison.exit_code for comparison in self.comparisons}
        return next(code for code in (1, 2, 0) if code in codes)

    def frame(self) -> pl.DataFrame:
        """One row a version and check, as a Polars frame."""
        return frames.of_many(self.comparisons)

    def summary(self) -> str:
        """What was found, a paragraph a version."""
        return "\n\n".join(comparison.summary() for comparison in self.comparisons)

    def to_dict(self) -> dict[str, Json]:
        """The comparisons as portable JSON."""
        return {
            "schema": files.MANY_SCHEMA,
            "comparisons": [comparison.to_dict() for comparison in self.comparisons],
        }

    @classmethod
    def from_dict(cls, value: Json) -> Comparisons:
        """Read what `to_dict` gave.

        Raises:
            ValueError: naming the place of what does not fit, or saying that it was altered.
        """
        return cls(
            tuple(
                files.at_place(f"/comparisons/{index}", Comparison.from_dict, one)
                for index, one in enumerate(files.many(value))
            )
        )

    def save_json(self, path: str | os.PathLike[str]) -> None:
        """Write the comparisons to a JSON file, which is complete or not there."""
        write_atomically(Path(path), canonical(self.to_dict()) + b"\n")

    @classmethod
    def load_json(cls, path: str | os.PathLike[str]) -> Comparisons:
        """Read what `save_json` wrote.

        Raises:
            OSError: when the file cannot be read.
            ValueError: naming file and place, when it is none or was altered.
        """
        try:
            return cls.from_dict(parse(Path(path).read_bytes(), unique_keys=True))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None

    def __len__(self) -> int:
        return len(self.comparisons)

    def __iter__(self) -> Iterator[Comparison]:
        return iter(self.comparisons)

    def __getitem__(self, index: int) -> Comparison:
        return self.comparisons[index]

    def __bool__(self) -> bool:
        raise TypeError("comparisons have no truth value: look at .exit_code")

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.comparisons))


def _digest(content: dict[str, Json]) -> str:
    return hashlib.sha256(canonical(content)).hexdigest()
