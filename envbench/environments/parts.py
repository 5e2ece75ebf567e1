"""The parts of a fingerprint while they are collected, and what was noticed on the way."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from envbench.environments.packages import distribution_of, version_of
from envbench.evidence.portable import Json, canonical


class Parts:
    """Parts by name, the packages read, and what could not be seen.

    Args:
        ignore: names of attributes, or of parts, that are left out.

    Attributes:
        hashes: hash by name.
        packages: version by name, of every installed package that is read.
        unseen: sentences on what could not be seen.
        ignore: the names that are left out.
    """

    def __init__(self, ignore: Iterable[str] = ()) -> None:
        self.hashes: dict[str, str] = {}
        self.packages: dict[str, str] = {}
        self.unseen: dict[str, None] = {}
        self.ignore = frozenset(ignore)
        self._taken: set[str] = set()

    def add(self, part: str, content: Json) -> None:
        """Add a part by its content."""
        if part not in self.ignore:
            self.hashes[part] = hashlib.sha256(canonical(content)).hexdigest()

    def add_package(self, home: str) -> None:
        """Add an installed package, by the name that is imported."""
        package = distribution_of(home)
        if package not in self.packages:
            self.packages[package] = version_of(home)
            self.add(f"package/{package}", self.packages[package])

    def note(self, place: str, reason: str) -> None:
        """Say that something is not seen."""
        if place not in self.ignore:
            self.unseen[f"{place}: {reason}"] = None

    def take(self, part: str) -> None:
        """Keep a name from being given to another part."""
        self._taken.add(part)

    def free(self, wanted: str) -> str:
        """The name for a part that is wanted, with a number where it is taken."""
        part, number = wanted, 1
        while part in self._taken:
            number += 1
            part = f"{wanted}#{number}"
        self._taken.add(part)
        return part
