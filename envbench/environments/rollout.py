"""`Rollout`: one policy at work on one task, recorded by the one recorder."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from envbench.capture.lifecycle import Run, record_episode
from envbench.capture.own_state import OBSERVER_ID, OwnState
from envbench.capture.provenance import Provenance, require_count, with_run
from envbench.capture.recorder import Header, Recorder, hold
from envbench.capture.sink import Target
from envbench.environments.policies import (
    agent_id_of,
    call_with,
    identity_of,
    policy_of,
    taken,
)
from envbench.environments.tasks import TaskData
from envbench.environments.trace import STOP_REASONS, Outcome, Trace, TraceStep
from envbench.evidence.case import EXPECTS, EvalCase, require_name
from envbench.evidence.episode import EpisodeEvidence
from envbench.evidence.portable import Json, canonical, parse
from envbench.evidence.tagged import describe_error

if TYPE_CHECKING:
    from envbench.environments.environment import Environment
    from envbench.environments.transitions import Transitions


@dataclass(frozen=True, slots=True)
class Rollout:
    """One policy at work on one task.

    Attributes:
        env: the environment as the episode left it; None when it could not be made, or the episode
            was read from a store.
        task: the task, the answer key included.
        episode: the evidence; None while scorers are at work.
        trace: what happened, step by step, and what came of it.
    """

    env: Any
    task: TaskData
    episode: EpisodeEvidence | None
    trace: Trace

    @property
    def reward(self) -> float | None:
        """The whole reward; None when it failed, or a scorer made no score."""
        return self.trace.outcome.reward

    @property
    def stop_reason(self) -> str | None:
        """``failure``, ``terminated``, ``truncated`` or ``policy_stop``."""
        return self.trace.stop_reason

    @property
    def failed(self) -> bool:
        """Whether the policy or the environment failed."""
        return self.trace.stop_reason == "failure"

    def transitions(self) -> Transitions:
        """The transitions for training, see `envbench.environments.transitions`.

        Raises:
            ValueError: while the rollout has no episode yet.
        """
        if self.episode is None:
            raise ValueError("the episode has not ended: there are no transitions yet")
        from envbench.environments.transitions import transitions

        return transitions([self.episode])

    def __repr__(self) -> str:
        reward = "no reward" if self.reward is None else f"reward {self.reward:g}"
        steps = len(self.trace.steps)
        return (
            f"<Rollout {self.task.task_id}: {self.trace.stop_reason}, {reward},"
            f" {steps} step{'' if steps == 1 else 's'}>"
        )


def roll_out(
    env: Environment[Any, Any],
    task: TaskData,
    policy: Any,
    *,
    model: str | None = None,
    store: Target | None = None,
    provenance: Provenance | None = None,
    seed: int | None = None,
    render: bool = False,
    raise_errors: bool = False,
) -> Rollout:
    """Let a policy work on a task in an environment, and record the episode.

    The environment stays open, so that its state can be looked at, and used again.

    Args:
        env: the environment.
        task: the task; its answer key stays with the scorers.
        policy: an object with `act`, a client (with `model`), or an interact function
            ``(env, observation, info)`` as `envbench.capture_episode` takes it. The text that such
            a function returns, while the episode goes on, is its answer.
        model: the name of the model, for a client.
        store: where the episode is kept; it is committed when this returns.
        provenance: run, repeat, labels; agent and version are filled in.
        seed: what randomness begins with; by default the ``seed`` of the task's metadata, else 0.
        render: keep what `render` shows after the reset and each step; the environment must be
            made with a ``render_mode``.
        raise_errors: raise what made the rollout fail, after it was recorded.

    Returns:
        The rollout, also when the policy or environment failed: its ``stop_reason`` is then
        ``failure`` and it has no reward.

    Raises:
        TypeError: when an argument is of the wrong type.
        ValueError: when a name is blank, or the task's seed or tags are none.
        WriteFailed: when the store could not be written.
    """
    from envbench.environments.environment import Environment

    if not isinstance(env, Environment):
        raise TypeError(f"env must be an Environment, not {type(env).__name__}")
    chosen = policy_of(policy, model)
    swallowed: list[Exception] = []
    rollout = record_rollout(
        Job(
            task=task,
            make_environment=lambda: env,
            make_policy=lambda: chosen,
            environment_id=env.name,
            environment_version=env.version,
            provenance=provenance or Provenance(),
            seed=seed,
            closes=False,
            render=render,
        ),
        store=store,
        swallowed=swallowed,
    )
    if raise_errors and rollout.failed and swallowed:
        raise swallowed[0]
    return rollout


@dataclass(frozen=True, slots=True)
class Job:
    """A rollout to be made.

    Attributes:
        task: the task.
        make_environment: makes the environment, or gives the one there is.
        make_policy: likewise the policy, client's policy or interact function.
        environment_id: the name for evidence when the environment cannot be made.
        environment_version: likewise its version.
        provenance: run, repeat, previous attempt, labels.
        seed: what randomness begins with; None for the task's own.
        closes: whether environment and policy are closed at the end.
        render: whether frames are kept.
        is_stopped: asked before each action; true interrupts the episode.
    """

    task: TaskData
    make_environment: Callable[[], Environment[Any, Any]]
    make_policy: Callable[[], Any]
    environment_id: str
    environment_version: str | None
    provenance: Provenance
    seed: int | None
    closes: bool
    render: bool = False
    is_stopped: Callable[[], bool] = lambda: False


def record_rollout(
    job: Job, *, store: Target | None = None, swallowed: list[Exception] | None = None
) -> Rollout:
    """Make a rollout and record it; what fails is in the evidence, and added to `swallowed`.

    Raises:
        KeyboardInterrupt: and whatever else is no Exception, when it was recorded.
        WriteFailed: when the store could not be written.
    """
    if not isinstance(job.task, TaskData):
        raise TypeError(f"task must be a TaskData, not {type(job.task).__name__}")
    run = _Rollout(job)
    episode = record_episode(
        run.header,
        Run(
            factory=run.make,
            interact=run.interact,
            options={"task": job.task},
            expose=("tools",),
            render=job.render,
            conclude=run.conclude,
            swallowed=[] if swallowed is None else swallowed,
        ),
        observe=run.observe,
        audit=run.audit,
        store=store,
    )
    return rollout_of(episode, job.task, run.env)


def rollout_of(
    episode: EpisodeEvidence, task: TaskData, env: Environment[Any, Any] | None = None
) -> Rollout:
    """The rollout that an episode's evidence shows.

    Args:
        episode: the evidence.
        task: its task, with the answer key.
        env: an environment of the kind, which knows the class of the observations; without it
            observations are dicts.
    """
    return Rollout(env=env, task=task, episode=episode, trace=_trace_of(episode, env))


class _Rollout:
    """What one episode needs while it is recorded."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.env: Environment[Any, Any] | None = None
        self.policy: Any = None
        self.has_begun = False
        self.last_info: dict[str, Any] = {}
        self.unknown: str | None = None
        require_name("environment_id", job.environment_id)
        self.header = Header(
            case=case_of(job.task),
            surroundings=None,
            environment_id=job.environment_id,
            observer_id=OBSERVER_ID,
            provenance=with_run(job.provenance),
            seed=self._seed(),
            options=hold({"task": job.task}),
            max_steps=None,
            row_keys=None,
            audited=False,
            capture_steps=True,
            closes=job.closes,
        )
        if job.environment_version is not None:
            self._say(environment_version=job.environment_version)

    def make(self) -> Environment[Any, Any]:
        """Make the environment, and note what it says of itself."""
        from envbench.environments.environment import Environment

        env = self.job.make_environment()
        if not isinstance(env, Environment):
            raise TypeError(
                f"the environment factory returned {type(env).__name__}, not an Environment"
            )
        self.env = env
        env.expect_rollout()
        require_name("name", env.name)
        self.header.environment_id = env.name
        self.header.max_steps = None
        if env.max_turns is not None:
            self.header.max_steps = require_count("max_turns", env.max_turns, 1)
        self._say(environment_version=str(env.version))
        self.unknown = OwnState(env).fill(self.header)
        return env

    def observe(self) -> dict[str, Any]:
        """The snapshot."""
        assert self.env is not None
        return self.env.observe_state()

    def audit(self) -> list[dict[str, Any]]:
        """What the environment's authoritative history recorded, if it has one."""
        return [] if self.env is None else OwnState(self.env).audit(self.header)

    def interact(self, guarded: Any, observation: Any, info: dict[str, Any]) -> str | None:
        """Let the policy act until the episode ends."""
        self.has_begun = True
        policy = self._take_policy()
        if not callable(getattr(policy, "act", None)):
            return self._let_interact(guarded, policy, observation, info)
        tools, self.last_info = guarded.tools, info
        if callable(getattr(policy, "start", None)):
            call_with(
                policy.start,
                tools=tools,
                seed=self.header.seed,
                is_stopped=self.job.is_stopped,
            )
        names = taken(policy.act, "tools", "info")
        while True:
            if self.job.is_stopped():
                raise KeyboardInterrupt("the run was stopped")
            given = {"tools": tools, "info": info}
            action = policy.act(observation, **{name: given[name] for name in names})
            if inspect.isawaitable(action):
                assert self.env is not None
                action = self.env.wait_for(action)
            action = "" if action is None else action
            observation, _, terminated, truncated, info = guarded.step(action)
            self.last_info = info
            if terminated or truncated or isinstance(action, str):
                return action if isinstance(action, str) else None

    def conclude(self, recorder: Recorder, ending: str) -> None:
        """Note what came of it, before the episode is sealed."""
        stop_reason = STOP_REASONS.get(ending, "failure")
        outcome = Outcome(None, 0.0, None)
        if not self.has_begun:
            # the failure is that of the policy's rollout, though it never came to act
            with suppress(Exception):
                self._take_policy()
        if self.unknown is not None:
            recorder.issue(self.unknown)
        if self.env is not None:
            outcome = Outcome.of(self.env.trace.steps, stop_reason)
        for name, message in outcome.errors.items():
            recorder.issue(f"scoring: the scorer {name!r} made no score: {message}")
        if stop_reason != "failure" and (self.env is None or self.env.trace.stop_reason is None):
            recorder.issue("scoring: the actions that were let through were used up, unscored")
        labels: dict[str, Json] = {
            **self.header.provenance.labels,
            "stop_reason": stop_reason,
            "reward": outcome.reward,
            "step_reward": outcome.step_reward,
            "end_reward": outcome.end_reward,
            "scores": outcome.scores,
            "metrics": outcome.metrics,
            **self._policy_says(recorder, stop_reason),
        }
        self._say(labels=labels)

    def _take_policy(self) -> Any:
        policy = self.policy = self.job.make_policy()
        self._say(agent_id=self.job.provenance.agent_id or agent_id_of(policy))
        return policy

    def _let_interact(
        self, guarded: Any, function: Any, observation: Any, info: dict[str, Any]
    ) -> str | None:
        """Let an interact function run, and take the text that it returns as its answer."""
        output = function(guarded, observation, info)
        if output is not None and not isinstance(output, str):
            raise TypeError(f"interact must return text or None, not {type(output).__name__}")
        assert self.env is not None
        if self.env.trace.stop_reason is None:
            guarded.step(output or "")
        return output

    def _policy_says(self, recorder: Recorder, stop_reason: str) -> dict[str, Json]:
        """What the policy has to say of the episode; a failure there costs only that."""
        policy, said = self.policy, {}
        if policy is None:
            return {}
        if not callable(getattr(policy, "act", None)):
            return {"policy_identity": _portable(recorder, "identity", lambda: identity_of(policy))}
        if self.has_begun and callable(getattr(policy, "finish", None)):
            info = self.last_info
            _portable(
                recorder,
                "finish",
                lambda: call_with(policy.finish, info=info, stop_reason=stop_reason) and None,
            )
        said["policy_identity"] = _portable(recorder, "identity", lambda: identity_of(policy))
        if self.has_begun and callable(getattr(policy, "record", None)):
            said["policy"] = _portable(recorder, "record", policy.record)
        if self.has_begun and callable(getattr(policy, "remarks", None)):
            for remark in _portable(recorder, "remarks", lambda: list(policy.remarks())) or ():
                recorder.issue(str(remark))
        if self.job.closes and callable(getattr(policy, "close", None)):
            _portable(recorder, "close", lambda: policy.close() and None)
        return said

    def _seed(self) -> int:
        if self.job.seed is not None:
            return require_count("seed", self.job.seed, 0)
        own = self.job.task.metadata.get("seed")
        return 0 if own is None else require_count("the seed in the task's metadata", own, 0)

    def _say(self, **known: Any) -> None:
        self.header.provenance = replace(self.header.provenance, **known)


def case_of(task: TaskData) -> EvalCase:
    """The case that a task is, for evidence: the answer key enters it as a digest only.

    Of the metadata ``source_id``, ``tags`` and ``expects`` are what `EvalCase` calls so.
    """
    metadata = task.metadata
    tags = metadata.get("tags", ())
    return EvalCase(
        task.input,
        case_id=task.task_id,
        source_id=metadata.get("source_id"),
        tags=tuple(tags) if isinstance(tags, list) else tags,
        reference=task.expected,
        expects=metadata.get("expects", EXPECTS[0]),
    )


def _portable(recorder: Recorder, what: str, ask: Callable[[], Any]) -> Json:
    """What a policy says, as portable JSON; what goes wrong is an issue."""
    try:
        return parse(canonical(ask()))
    except Exception as error:
        recorder.issue(
            f"policy: {what}() came to nothing: {type(error).__name__}: {describe_error(error)}"
        )
        return None


def _trace_of(episode: EpisodeEvidence, env: Environment[Any, Any] | None) -> Trace:
    def seen(observation: Any) -> Any:
        if env is None or observation is None:
            return observation
        try:
            return env.observation_space.from_jsonable([observation])[0]
        except ValueError:  # the class was changed since
            return observation

    steps = [
        TraceStep(
            index=step.index,
            action=step.action,
            observation=seen(step.observation),
            reward=step.reward,
            terminated=step.terminated,
            truncated=step.truncated,
            info=step.info,
            snapshot=step.state,
            error=step.error,
        )
        for step in episode.steps
    ]
    stop_reason = STOP_REASONS.get(episode.ending, "failure")
    initial = episode.initial
    return Trace(
        steps=steps,
        stop_reason=stop_reason,
        outcome=Outcome.of(steps, stop_reason),
        initial_observation=None if initial is None else seen(initial.observation),
        initial_snapshot=episode.initial_state,
    )
