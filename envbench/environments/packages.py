"""Where code comes from: Python itself, an installed package, or the project.

The project's code is followed. Of an installed package name and version are kept, because its
releases do not change; of Python neither, because every episode records its version.
"""

from __future__ import annotations

import site
import sys
import sysconfig
from functools import cache
from importlib import metadata
from pathlib import Path

FRAMEWORKS = ("envbench", "gymnasium")
"""Packages that environments stand on: never followed, wherever they are installed."""

PYTHON = "python"


class Homes:
    """Says where code comes from.

    Args:
        module: the module of the environment's class. If it is installed, its own package belongs
            to the project as well; of a framework only the subpackage that it is in does.
    """

    def __init__(self, module: str | None) -> None:
        self._root: str | None = None
        if module is not None and _installed_home(module, None) is not None:
            top = module.split(".")[0]
            inside = module.rpartition(".")[0] or module
            self._root = inside if top in FRAMEWORKS else top

    def of(self, module: str | None, file: str | None = None) -> str | None:
        """``"python"``, the name of an installed package, or None for the project's own code.

        Args:
            module: the module's name.
            file: the file of the code, where it is known.
        """
        if self._root is not None and f"{module}.".startswith(self._root + "."):
            return None
        return _installed_home(module, file)


def version_of(package: str) -> str:
    """The version of an installed package, by the name that is imported; "unknown" without one."""
    return _version(package)


def distribution_of(package: str) -> str:
    """The name under which a package is installed, such as ``scikit-learn`` for ``sklearn``."""
    return _distribution(package)


@cache
def _version(package: str) -> str:
    try:
        return metadata.version(_distribution(package))
    except metadata.PackageNotFoundError:
        version = getattr(sys.modules.get(package), "__version__", None)
        return version if isinstance(version, str) else "unknown"


@cache
def _distribution(package: str) -> str:
    try:
        metadata.version(package)
    except (metadata.PackageNotFoundError, ValueError):
        # slow, because it reads what every package has installed
        return metadata.packages_distributions().get(package, [package])[0]
    return package


def _installed_home(module: str | None, file: str | None) -> str | None:
    top = (module or "").split(".")[0]
    if top in FRAMEWORKS:
        return top
    if top == "__main__":  # its file may be the program that runs a notebook
        return None
    if file is None and module is not None:
        file = getattr(sys.modules.get(module), "__file__", None)
    if file:
        return _home_of_file(file, top)
    return PYTHON if top in sys.stdlib_module_names else None


@cache
def _home_of_file(file: str, top: str) -> str | None:
    if file.startswith("<frozen "):
        return PYTHON
    path = Path(file)
    for folder in _package_folders():
        if path.is_relative_to(folder):
            inside = path.relative_to(folder).parts[0]
            return top or inside.split(".")[0]
    return PYTHON if any(map(path.is_relative_to, _python_folders())) else None


@cache
def _package_folders() -> tuple[Path, ...]:
    paths = sysconfig.get_paths()
    folders = [paths["purelib"], paths["platlib"], *site.getsitepackages()]
    user = site.getusersitepackages()
    return tuple(dict.fromkeys(Path(folder) for folder in (*folders, user)))


@cache
def _python_folders() -> tuple[Path, ...]:
    paths = sysconfig.get_paths()
    return tuple(dict.fromkeys(Path(paths[name]) for name in ("stdlib", "platstdlib")))
