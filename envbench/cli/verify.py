"""`envbench verify`: every digest of a store recomputed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer

from envbench.cli.application import AsJson, StorePath, app, opened_store
from envbench.cli.output import counted, visible

if TYPE_CHECKING:
    from envbench.store.integrity import Problem


@app.command()
def verify(store: StorePath, as_json: AsJson = False) -> None:
    """Recompute every digest in a store and name what was altered.

    Exit 0 when nothing was, 1 when something was, 2 for bad input. A digest shows that evidence was
    altered, not who made it.
    """
    with opened_store(store) as opened:
        result = opened.verify()
        sizes = opened.sql("SELECT count(*) AS n, coalesce(sum(n_steps), 0) AS steps FROM episodes")
        episodes, steps = sizes.fetchall()[0]
    problems = [
        {
            "episode_id": problem.episode_id,
            "table": problem.table,
            "step_index": problem.step_index,
            "message": problem.message,
        }
        for problem in result.problems
    ]
    if as_json:
        answer = {"ok": result.ok, "episodes": episodes, "steps": steps, "problems": problems}
        print(json.dumps(answer, ensure_ascii=False))
    elif result.ok:
        print(f"{store}: {counted(episodes, 'episode')}, {counted(steps, 'step')}; nothing altered")
    else:
        print(f"{store}: {counted(len(problems), 'problem')}")
        for problem in result.problems:
            print(f"  {visible(_place(problem))}: {visible(problem.message)}")
    raise typer.Exit(0 if result.ok else 1)


def _place(problem: Problem) -> str:
    episode = [] if problem.episode_id is None else [f"episode {problem.episode_id}"]
    step = [] if problem.step_index is None else [f"step {problem.step_index}"]
    return ", ".join([*episode, problem.table, *step])
