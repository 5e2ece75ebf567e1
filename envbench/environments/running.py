"""`run_tasks`: every task of a data set, with a fresh environment, runtime and policy for each."""

from __future__ import annotations

import copy
import inspect
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, overload

from envbench.capture.provenance import Provenance, require_count
from envbench.capture.sink import Target
from envbench.environments.policies import agent_id_of, identity_of, policy_of
from envbench.environments.rollout import Job, Rollout, case_of, record_rollout, rollout_of
from envbench.environments.runtimes import Runtime
from envbench.environments.tasks import TaskData, TaskDataset
from envbench.evidence.case import require_name
from envbench.evidence.portable import canonical, parse
from envbench.store import Store, connect
from envbench.store.errors import StoreError

if TYPE_CHECKING:
    from envbench.environments.environment import Environment
    from envbench.environments.transitions import Transitions


def run_tasks(
    dataset: TaskDataset,
    environment_factory: Callable[[], Environment[Any, Any]],
    policy_factory: Any,
    *,
    repeats: int = 1,
    concurrency: int = 1,
    store: Target | None = None,
    runtime_factory: Callable[[], Runtime] | None = None,
    model: str | None = None,
    run_id: str | None = None,
    resume: bool = True,
    retry_failures: bool = False,
    render: bool = False,
    raise_errors: bool = False,
    progress: bool = True,
) -> Rollouts:
    """Let a policy work on every task of a data set, and record each episode.

    Each job has an environment, runtime and policy of its own, which are closed when it is done.
    What comes of it does not depend on `concurrency`. A job that fails, even because its
    environment cannot be made, is a rollout with the stop reason ``failure``.

    With a store it can be run again after an interruption: what the store has of this data set, by
    this environment (name, version, fingerprint) and policy (name, identity), is not done again,
    and neither are failures, unless `retry_failures` is set. An episode that was interrupted, or a
    failure that is tried again, is linked as the attempt before.

    Args:
        dataset: the tasks. With a store, its table ``tasks`` holds them, without the answer keys.
        environment_factory: makes an environment, such as its class.
        policy_factory: makes a policy (or interact function); called with the task, without its
            answer key, when it takes an argument. A policy itself is copied for each job; a client
            makes one for each, with `model`.
        repeats: how often each task is done; repeats have the same seed.
        concurrency: how many jobs run at a time, in threads.
        store: where the episodes are kept: a store, its path, or a ``.jsonl`` path, which cannot
            be asked what was done.
        runtime_factory: makes the runtime of an environment.
        model: the name of the model, for a client.
        run_id: names the run; when given, only what this run did before is not done again.
        resume: whether the store is asked what was done.
        retry_failures: whether failures are tried again.
        render: keep what `render` shows; environments must be made with a ``render_mode``.
        raise_errors: raise what made a rollout fail, and start no further ones.
        progress: show a progress bar, in a terminal or notebook.

    Returns:
        The rollouts in the order of the data set, the repeats of a task one after the other. Of one
        that was done before, `Rollout.env` is None.

    Raises:
        TypeError: when an argument is of the wrong type.
        ValueError: when a count is smaller than 1, a name blank, or a task's seed or tags are none.
        WriteFailed: when the store could not be written.
    """
    if not isinstance(dataset, TaskDataset):
        raise TypeError(f"dataset must be a TaskDataset, not {type(dataset).__name__}")
    if not callable(environment_factory):
        raise TypeError(
            f"environment_factory must be callable, not {type(environment_factory).__name__}"
        )
    if runtime_factory is not None and not callable(runtime_factory):
        raise TypeError(f"runtime_factory must be callable, not {type(runtime_factory).__name__}")
    if run_id is not None:
        require_name("run_id", run_id)
    repeats = require_count("repeats", repeats, 1)
    concurrency = require_count("concurrency", concurrency, 1)
    maker = _Maker(environment_factory, _policy_maker(policy_factory, model), runtime_factory)
    jobs = [
        replace(maker.job(task, repeat, run_id, dataset), render=bool(render))
        for task in dataset.tasks
        for repeat in range(repeats)
    ]
    with _opened(store) as target:
        done: dict[int, Rollout] = {}
        if isinstance(target, Store):
            _keep_tasks(target, dataset)
            if resume:
                jobs, done = _look_up(target, jobs, maker, dataset, run_id, retry_failures)
        with _shown(len(jobs), len(done), progress) as show:
            work = _Work(jobs, done, target, raise_errors, show)
            return Rollouts(work.run(concurrency), resumed=len(done))


class Rollouts(Sequence[Rollout]):
    """The rollouts of a run, in the order of its data set.

    Attributes:
        resumed: how many of them had been done before.
    """

    def __init__(self, rollouts: Sequence[Rollout], *, resumed: int = 0) -> None:
        self._rollouts = list(rollouts)
        self.resumed = resumed

    @property
    def failures(self) -> list[Rollout]:
        """Those in which the policy or the environment failed."""
        return [rollout for rollout in self if rollout.failed]

    @property
    def unscored(self) -> list[Rollout]:
        """Those that did not fail and have no reward, because a scorer did."""
        return [rollout for rollout in self if rollout.reward is None and not rollout.failed]

    @property
    def mean_reward(self) -> float | None:
        """The mean reward, failures counted as 0 and unscored rollouts left out; None for none."""
        counted = len(self) - len(self.unscored)
        rewards = [rollout.reward for rollout in self if rollout.reward is not None]
        return sum(rewards) / counted if counted else None

    def transitions(self) -> Transitions:
        """The transitions of all of them, see `envbench.environments.transitions`."""
        from envbench.environments.transitions import transitions

        return transitions([each.episode for each in self if each.episode is not None])

    def summary(self) -> dict[str, Any]:
        """How many there are, failed and are unscored, the mean reward, and the stop reasons."""
        return {
            "rollouts": len(self),
            "resumed": self.resumed,
            "failures": len(self.failures),
            "unscored": len(self.unscored),
            "mean_reward": self.mean_reward,
            "stop_reasons": dict(sorted(Counter(str(r.stop_reason) for r in self).items())),
        }

    def __len__(self) -> int:
        return len(self._rollouts)

    @overload
    def __getitem__(self, index: int) -> Rollout: ...

    @overload
    def __getitem__(self, index: slice) -> list[Rollout]: ...

    def __getitem__(self, index: int | slice) -> Rollout | list[Rollout]:
        return self._rollouts[index]

    def __iter__(self) -> Iterator[Rollout]:
        return iter(self._rollouts)

    def __repr__(self) -> str:
        mean = self.mean_reward
        said = "no reward" if mean is None else f"mean reward {mean:.4g}"
        return (
            f"<Rollouts: {len(self)}, {said} (failures as 0), {len(self.failures)} failed,"
            f" {len(self.unscored)} unscored>"
        )


@dataclass(frozen=True, slots=True)
class _Maker:
    """Makes what a job needs."""

    environment_factory: Callable[[], Environment[Any, Any]]
    make_policy: Callable[[TaskData], Any]
    runtime_factory: Callable[[], Runtime] | None

    def job(self, task: TaskData, repeat: int, run_id: str | None, dataset: TaskDataset) -> Job:
        """The job of one repeat of a task."""
        case_of(task)  # a task that is no case is refused before anything runs
        known = getattr(self.environment_factory, "name", None)
        name = known or getattr(self.environment_factory, "__name__", "environment")
        version = getattr(self.environment_factory, "version", None)
        labels = {
            "dataset": {
                "name": dataset.name,
                "version": dataset.version,
                "hash": dataset.content_hash,
            }
        }
        return Job(
            task=task,
            make_environment=self.environment,
            make_policy=lambda: self.make_policy(task),
            environment_id=name if isinstance(name, str) else "environment",
            environment_version=version if isinstance(version, str) else None,
            provenance=Provenance(run_id=run_id, repeat=repeat, labels=labels),
            seed=None,
            closes=True,
        )

    def environment(self) -> Environment[Any, Any]:
        """A fresh environment with a fresh runtime."""
        env = self.environment_factory()
        # what is no environment is refused where it is recorded
        if self.runtime_factory is not None and callable(getattr(env, "close", None)):
            try:
                env.runtime = self.runtime_factory()
            except BaseException:
                env.close()
                raise
        return env


class _Work:
    """Does the jobs that are left."""

    def __init__(
        self,
        jobs: Sequence[Job],
        done: dict[int, Rollout],
        target: Target | None,
        raise_errors: bool,
        show: Callable[[Rollout], None],
    ) -> None:
        self._stopped = threading.Event()
        self._jobs = [
            replace(
                job,
                is_stopped=self._stopped.is_set,
                make_environment=partial(self._lend, index, job.make_environment),
            )
            for index, job in enumerate(jobs)
        ]
        # the environments of the jobs that are at work
        self._lent: dict[int, Any] = {}
        self._lending = threading.Lock()
        self._done = done
        self._target = target
        self._raise_errors = raise_errors
        self._show = show

    def run(self, concurrency: int) -> list[Rollout]:
        """Do the jobs, and give all rollouts in order."""
        left = [i for i in range(len(self._jobs)) if i not in self._done]
        made = dict(self._done)
        if concurrency == 1:
            made |= {i: self._do(i) for i in left}
        else:
            made |= self._do_at_once(left, concurrency)
        return [made[i] for i in range(len(self._jobs))]

    def _do_at_once(self, left: Sequence[int], concurrency: int) -> dict[int, Rollout]:
        with ThreadPoolExecutor(concurrency, thread_name_prefix="envbench task") as pool:
            futures = {i: pool.submit(self._do, i) for i in left}
            try:
                # in slices, so that Ctrl-C is heard
                pending = set(futures.values())
                while pending:
                    finished, pending = wait(pending, 0.5, FIRST_EXCEPTION)
                    for future in finished:
                        future.result()
            except BaseException:
                self._stopped.set()  # those that run end as interrupted before their next action
                pool.shutdown(wait=True, cancel_futures=True)
                raise
        return {i: future.result() for i, future in futures.items()}

    def _do(self, index: int) -> Rollout:
        swallowed: list[Exception] = []
        try:
            rollout = record_rollout(self._jobs[index], store=self._target, swallowed=swallowed)
        finally:
            self._lent.pop(index, None)
        if self._raise_errors and rollout.failed and swallowed:
            raise swallowed[0]
        self._show(rollout)
        return rollout

    def _lend(self, index: int, make: Callable[[], Any]) -> Any:
        """Make a job's environment; one that another job is using would be two worlds in one."""
        env = make()
        with self._lending:
            if env is not None and any(env is other for other in self._lent.values()):
                raise ValueError(
                    "the environment factory returned an environment that another job is using:"
                    " make a new one each time"
                )
            self._lent[index] = env
        return env


def _policy_maker(given: Any, model: str | None) -> Callable[[TaskData], Any]:
    """What makes the policy for a task, from what the caller gave."""
    if not isinstance(given, type):
        if callable(getattr(given, "act", None)):
            policy_of(given, model)
            return lambda task: copy.deepcopy(given)
        if callable(getattr(given, "policy", None)):
            return lambda task: policy_of(given, model)
    if not callable(given):
        raise TypeError(
            f"policy_factory must be callable, a policy or a client, not {type(given).__name__}"
        )
    if model is not None:
        raise TypeError("model= goes with a client, not with a policy factory")
    required = _required(given)
    if required == 3:  # (env, observation, info)
        return lambda task: given
    if required > 1:
        raise TypeError(
            f"policy_factory takes {required} arguments: none, or the task, was expected (an"
            " interact function takes three)"
        )

    def make(task: TaskData) -> Any:
        # a policy maker must not know the answer key
        asked = TaskData(task.task_id, task.input, None, task.metadata)
        return policy_of(given(asked) if required else given(), None)

    return make


def _required(function: Callable[..., Any]) -> int:
    """How many positional arguments a function needs."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 0
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(each.kind in positional and each.default is each.empty for each in parameters)


@contextmanager
def _opened(target: Target | None) -> Iterator[Target | None]:
    """The target, a path of a store opened for the whole run."""
    if isinstance(target, str | os.PathLike) and not os.fspath(target).endswith(".jsonl"):
        with connect(target) as store:
            yield store
    else:
        yield target


def _keep_tasks(store: Store, dataset: TaskDataset) -> None:
    """Write the tasks to the store, once, without the answer keys."""
    rows = [
        (
            dataset.content_hash,
            dataset.name,
            dataset.version,
            index,
            task.task_id,
            canonical(task.input).decode(),
            canonical(task.metadata).decode(),
        )
        for index, task in enumerate(dataset.tasks)
    ]
    with _KEEPING_TASKS, store.cursor() as cursor:
        cursor.execute("BEGIN")
        try:
            known = cursor.execute(_HAS_TASKS, [dataset.content_hash]).fetchall()
            if known == [(0,)] and rows:
                if store.read_only:
                    raise StoreError(
                        f"{store.path} is open for reading only, and does not have the tasks of"
                        f" {dataset.name}: connect without read_only"
                    )
                cursor.executemany(
                    "INSERT INTO tasks VALUES (?, ?, ?, ?, ?, ?, ?)", rows
                ).fetchall()
            cursor.execute("COMMIT")
        except BaseException:
            cursor.execute("ROLLBACK")
            raise


_KEEPING_TASKS = threading.Lock()
"""Held from the look at the table until the tasks are in it; a file has one process that writes."""

_HAS_TASKS = "SELECT count(*) FROM tasks WHERE dataset_hash = ?"

_DONE = """
SELECT episode_id, environment_id, environment_version, environment_fingerprint, agent_id,
       case_digest, seed, repeat, ending, run_id, labels -> '$.policy_identity' AS identity
FROM episodes
WHERE labels ->> '$.dataset.hash' = ?
ORDER BY recorded_at, episode_id
"""


def _look_up(
    store: Store,
    jobs: list[Job],
    maker: _Maker,
    dataset: TaskDataset,
    run_id: str | None,
    retry_failures: bool,
) -> tuple[list[Job], dict[int, Rollout]]:
    """Ask the store what was done: the jobs with links to attempts before, and what is done."""
    rows = store.sql(_DONE, [dataset.content_hash]).fetchall()
    if run_id is not None:
        rows = [row for row in rows if row[9] == run_id]
    if not rows:
        return jobs, {}
    with _probed(maker) as env:
        about = None if env is None else _about(env)
        known = {_key(row): row for row in rows if tuple(row[1:4]) == about}
        # where the environment could not be made, nothing says that it was this one: such a
        # failure is not done, and is the attempt before the one that is made now
        unknown = {
            (row[1], *_key(row)): row
            for row in rows
            if row[3] is None and row[8] in ("error", "interrupted")
        }
        linked, done = [], {}
        for index, job in enumerate(jobs):
            row = None
            if (key := _key_of(job)) is not None:
                name = job.environment_id if about is None else about[0]
                row = known.get(key) or unknown.get((name, *key))
            if row is None:
                linked.append(job)
            elif row[3] is None or _is_open(str(row[8]), retry_failures):
                linked.append(
                    replace(job, provenance=replace(job.provenance, previous=str(row[0])))
                )
            else:
                linked.append(job)
                found = rollout_of(store.episode(str(row[0])), job.task, env)
                done[index] = replace(found, env=None)
        return linked, done


def _is_open(ending: str, retry_failures: bool) -> bool:
    """Whether an episode that ended so is to be tried again."""
    return ending == "interrupted" or (ending == "error" and retry_failures)


def _about(env: Environment[Any, Any]) -> tuple[str, str, str] | None:
    """What evidence calls the environment; None where its fingerprint cannot be taken."""
    try:
        return env.name, str(env.version), env.fingerprint().digest
    except Exception:  # each episode will say so
        return None


@contextmanager
def _probed(maker: _Maker) -> Iterator[Environment[Any, Any] | None]:
    """An environment to be asked who it is; None where it cannot be made."""
    try:
        env = maker.environment()
    except Exception:  # each job will say so
        yield None
        return
    try:
        yield env
    finally:
        with suppress(Exception):
            env.close()


def _key(row: Sequence[Any]) -> tuple[Any, ...]:
    """What tells a job's episode from others of its environment and data set."""
    _, _, _, _, agent_id, case_digest, seed, repeat, _, _, identity = row
    return agent_id, case_digest, seed, repeat, canonical(parse(identity or "null"))


def _key_of(job: Job) -> tuple[Any, ...] | None:
    try:
        policy = job.make_policy()
        identity = canonical(identity_of(policy))
        agent_id = agent_id_of(policy)
        if callable(getattr(policy, "act", None)) and callable(getattr(policy, "close", None)):
            with suppress(Exception):
                policy.close()
    except Exception:  # the job will say so
        return None
    seed = job.task.metadata.get("seed") or 0
    if seed > _LARGEST:
        seed = None  # the store's column of seeds does not hold it
    return agent_id, case_of(job.task).digest, seed, job.provenance.repeat, identity


_LARGEST = 2**63 - 1


@contextmanager
def _shown(total: int, done: int, wanted: bool) -> Iterator[Callable[[Rollout], None]]:
    """A progress bar, where one can be seen; gives what is called with each rollout."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    seen = wanted and (console.is_terminal or console.is_jupyter)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=console, disable=not seen)
    lock = threading.Lock()
    failed = 0
    with bar if seen else nullcontext():
        before = f", {done} done before" if done else ""
        shown = bar.add_task(f"tasks{before}", total=total, completed=done)

        def show(rollout: Rollout) -> None:
            nonlocal failed
            with lock:
                failed += rollout.failed
                said = f", {failed} failed" if failed else ""
                bar.update(shown, advance=1, description=f"tasks{before}{said}")

        yield show
