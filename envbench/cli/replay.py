"""`envbench replay`: an episode's actions taken again, in an environment of the caller's."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

from envbench.cli.application import (
    AsJson,
    BadInput,
    StorePath,
    app,
    episode_of,
    opened_store,
    refuse_missing,
)
from envbench.cli.output import visible, visible_lines


@app.command()
def replay(
    store: StorePath,
    episode: Annotated[str, typer.Argument(metavar="EPISODE", help="The id of an episode.")],
    environment: Annotated[
        str,
        typer.Option(
            metavar="MODULE:FACTORY",
            help="What makes the environment: a class or function in a module or file "
            "(desk:RefundDesk, envs/desk.py:make), or the id of a registered environment "
            "(CartPole-v1). Its code is run.",
        ),
    ],
    tolerance: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NUMBER|PATH=NUMBER",
            help="By how much numbers may differ: 0.001, or /observation/**=0.001. Repeatable.",
        ),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH", help="What is not compared: /info/episode/t. Repeatable."),
    ] = None,
    dataset: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The tasks with their answer keys, which scorers need."),
    ] = None,
    observe: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FUNCTION",
            help="What reads the state; it may take the environment. Ours have their snapshot.",
        ),
    ] = None,
    fingerprint: Annotated[
        bool, typer.Option(help="Compare the environment's fingerprint with the recorded one.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Take the actions of an episode again and compare all that comes of them.

    Exit 0 when everything is as it was recorded, 1 when something is not, 2 when that cannot be
    told here, because replays differ from each other. Bad input is exit 2 too: then stdout is empty
    and stderr says what is wrong.
    """
    from envbench.environments import TaskDataset
    from envbench.environments.replay import verify_replay

    with _said_on_stderr():
        factory = _factory(environment)
        observer = None if observe is None else _imported(observe, "--observe")
    tasks = None
    if dataset is not None:
        refuse_missing(dataset)
        try:
            tasks = TaskDataset.load(dataset)
        except (OSError, ValueError) as error:
            raise BadInput(str(error)) from None
    with opened_store(store) as opened:
        found = episode_of(opened, store, episode)
        try:
            with _said_on_stderr():
                result = verify_replay(
                    factory,
                    found,
                    tolerance=_tolerances(tolerance or []),
                    ignore=ignore or (),
                    verify_fingerprint=fingerprint,
                    dataset=tasks,
                    observe=observer,
                )
        except (TypeError, ValueError) as error:
            raise BadInput(str(error)) from None
    failed = [each for each in result.mismatches if each.path == "/error" and each.step is None]
    if failed and isinstance(failed[0].actual, dict):
        raised = failed[0].actual
        raise BadInput(f"--environment {environment}: {raised['type']}: {raised['message']}")
    if as_json:
        print(json.dumps({"episode_id": episode, **result.to_dict()}, ensure_ascii=False))
    else:
        print(f"{visible(episode)}: {visible_lines(str(result))}")
    raise typer.Exit({"same": 0, "different": 1}.get(result.verdict, 2))


def _said_on_stderr() -> contextlib.redirect_stdout[Any]:
    """What the environment prints is no part of the answer."""
    return contextlib.redirect_stdout(sys.stderr)


def _tolerances(given: list[str]) -> dict[str, float]:
    tolerances = {}
    for text in given:
        path, equals, number = text.rpartition("=")
        try:
            tolerances[path if equals else "/**"] = float(number)
        except ValueError:
            raise BadInput(
                f"--tolerance {text}: expected a number, or PATH=NUMBER such as /reward=0.001"
            ) from None
    return tolerances


def _factory(given: str) -> Callable[[], Any]:
    """What makes the environment."""
    if ":" in given:
        made = _imported(given, "--environment")
        return made if callable(made) else lambda: made
    import gymnasium

    try:
        gymnasium.spec(given)
    except gymnasium.error.Error as error:
        raise BadInput(
            f"--environment {given}: {error} Expected MODULE:FACTORY, or the id of a registered"
            " environment"
        ) from None
    return lambda: gymnasium.make(given)


def _imported(given: str, option: str) -> Any:
    """The object that ``module:name`` or ``file.py:name`` names."""
    place, _, name = given.rpartition(":")
    if not place or not name:
        raise BadInput(f"{option} {given}: expected MODULE:NAME, such as desk:RefundDesk")
    try:
        found: Any = _module(place)
    except BadInput:
        raise
    except (Exception, SystemExit) as error:  # whatever its code does when it is imported
        raise BadInput(
            f"{option} {given}: importing {place} raised {type(error).__name__}: {error}"
        ) from None
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise BadInput(f"{option} {given}: {place} has no {name}") from None
    return found


def _module(place: str) -> ModuleType:
    folder = str(Path.cwd())
    if folder not in sys.path:  # as `python -m` has it, and an installed script has not
        sys.path.insert(0, folder)
    if not place.endswith(".py"):
        return importlib.import_module(place)
    path = Path(place)
    refuse_missing(path)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise BadInput(f"{place}: cannot be read as a module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
