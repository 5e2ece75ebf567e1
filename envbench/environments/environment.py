"""`Environment`: a Gymnasium environment that owns its tools, state, stopping and reward."""

from __future__ import annotations

import copy
import inspect
import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar, get_args, get_origin

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded

from envbench.environments.actions import ActionSpace, ToolCall, ToolSpec, as_action
from envbench.environments.coroutines import Coroutines
from envbench.environments.models import Observation, ObservationSpace, State
from envbench.environments.plain import plain
from envbench.environments.runtimes import Call, LocalRuntime, Runtime
from envbench.environments.scoring import (
    Score,
    Scorer,
    ScorerRegistration,
    add_scorer,
    end_reward,
    run_scorers,
)
from envbench.environments.tasks import TaskData
from envbench.environments.tools import (
    RuntimeBroken,
    ToolFailed,
    ToolMethod,
    ToolRecord,
    detached_result,
)
from envbench.environments.trace import Outcome, Trace, TraceStep
from envbench.evidence.portable import Json

if TYPE_CHECKING:
    from envbench.capture.provenance import Provenance
    from envbench.capture.sink import Target
    from envbench.environments.fingerprint import Fingerprint
    from envbench.environments.rollout import Rollout
    from envbench.evidence.case import EvalCase

ObservationT = TypeVar("ObservationT", bound=Observation)
StateT = TypeVar("StateT", bound=State)

HOOKS: Final = (
    "setup",
    "observe",
    "done",
    "snapshot",
    "info",
    "before_tool",
    "after_tool",
    "on_text",
    "on_end",
)
"""Methods that a subclass overrides to say what its world does; only `observe` has to be."""

_OURS: Final = ("task_id", "tool_calls", "stop_reason", "rewards", "scores")
_LOG = logging.getLogger(__name__)


class Environment(gymnasium.Env[ObservationT, Any], Generic[ObservationT, StateT]):
    """A world with tools, in which a policy works on a task.

    The environment owns the tools, the state, validation, stopping and reward; a policy only
    proposes actions. Subclass it with the classes of your observation and state, override the
    hooks that your world needs, and mark the policy's tools with `tool`. It is an ordinary
    `gymnasium.Env`; `docs/environments.md` shows everything it does.

    A step runs like this: the arguments are validated, `before_tool` is called, the runtime runs
    the tool, `after_tool` is called (for a text, `on_text`), then `observe`, `done`, `on_end` at
    the end, and `snapshot`. A call that goes wrong, whether of an unknown tool, with bad arguments
    or because the tool raised, is a tool error in ``info["tool_calls"]``, and the episode goes on.

    Args:
        task: the task of resets that name none; one, or several to draw from.
        runtime: where tools run; here, by default.
        render_mode: None or ``"ansi"``, for which `render` gives the observation's text.

    Attributes:
        name: names the environment, for evidence; the class's name by default.
        version: its version; change it when what it promises changes.
        max_turns: how many actions an episode may take; None for no limit.
        row_keys: the key of each table of the snapshot, by JSON Pointer, where the default choice
            is not right; see `docs/changes.md`.
        audit: returns the events of an authoritative history since its last call, or None.
        task: the task of this episode, the answer key included.
        seed: what randomness begins with: given to `reset`, else the task's own, else drawn.
        options: what else was given to `reset`.
        state: the world; yours to set in `setup`.
        answer: the text that the policy answered with, None before.
        runtime: where tools run.

    Raises:
        TypeError: at the definition of a class, for a tool that hides a method of Gymnasium or
            of this class, or a name that two tools share.
    """

    name: str = ""
    version: str = "0"
    max_turns: int | None = 50
    row_keys: Mapping[str, str] | None = None
    audit: Callable[[], list[dict[str, Any]]] | None = None
    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012 - Gymnasium's

    task: TaskData
    seed: int
    options: dict[str, Any]
    state: StateT
    answer: str | None
    __session: _Session

    scorer = ScorerRegistration()
    """Registers a scorer: ``@env.scorer`` or ``@env.scorer(weight=0.5)``."""

    __envbench_tools__: ClassVar[dict[str, ToolMethod[Any, Any]]] = {}
    __envbench_scorers__: ClassVar[tuple[Scorer, ...]] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if not any(map(_has_own_name, cls.__mro__)):
            cls.name = cls.__name__
        _keep_overridden_tools(cls)
        cls.__envbench_tools__ = _tools_of(cls)
        cls.__envbench_scorers__ = ()

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make it ready for a constructor of your own, whether it calls ours or not."""
        environment = super().__new__(cls)
        environment.__session = _Session()
        environment.seed, environment.options, environment.answer = 0, {}, None
        environment.action_space = ActionSpace(environment.tools)
        environment.observation_space = ObservationSpace(_observation_class(cls))
        return environment

    def __init__(
        self,
        *,
        task: TaskData | Iterable[TaskData] | None = None,
        runtime: Runtime | None = None,
        render_mode: str | None = None,
    ) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            modes = ", ".join(map(repr, self.metadata["render_modes"]))
            raise ValueError(f"render_mode must be None or one of {modes}, not {render_mode!r}")
        self.render_mode = render_mode
        if task is not None:
            self.__session.tasks = _tasks(task)
        if runtime is not None:
            self.runtime = runtime

    # -- hooks ------------------------------------------------------------------------------------

    def setup(self, task: TaskData) -> None:
        """Make the world for a task; called by every reset, when `seed` is set."""
        self.task = task
        if not self.__session.is_resetting:  # called by hand, in a test of the world
            self.seed = _seed_of(task) or 0

    def observe(self) -> ObservationT:
        """What the policy sees now."""
        raise NotImplementedError(f"{type(self).__name__} must define observe()")

    def done(self) -> bool:
        """Whether the episode has come to its own end; asked after every action."""
        return False

    def snapshot(self) -> dict[str, Any]:
        """The state that is kept as evidence, read and copied after every action.

        Rules, changes and checks see this and nothing else of the world. Models in it become dicts,
        and enum members their values. By default it is all of `state`; leave out what must not be
        kept, such as credentials.
        """
        state = getattr(self, "state", None)
        return state.model_dump() if isinstance(state, State) else {}

    def info(self) -> dict[str, Any]:
        """More for the info of a step; the policy may see it."""
        return {}

    def before_tool(self, call: ToolCall) -> None:
        """Called before a tool runs; what it raises refuses the call, as a tool error."""

    def after_tool(self, record: ToolRecord) -> None:
        """Called when a tool has run or failed, with what is recorded of it."""

    def on_text(self, text: str) -> None:
        """Called when the policy answered with text; `answer` is set."""

    def on_end(self, stop_reason: str) -> None:
        """Called once when the episode ends, before it is scored."""

    def fingerprint_payload(self) -> Json:
        """Configuration from elsewhere that belongs to the fingerprint; never credentials."""
        return None

    # -- Gymnasium --------------------------------------------------------------------------------

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[ObservationT, dict[str, Any]]:
        """Begin an episode.

        Args:
            seed: what randomness begins with; by default the ``seed`` of the task's metadata.
            options: ``task``, the `TaskData` to work on (by default that of the constructor, or the
                last one); ``score``, False to leave out the scorers. The rest is in `options`.

        Returns:
            The first observation and its info, which has the ``task_id``.

        Raises:
            TypeError: when the task is no `TaskData`, or `observe` returns no observation.
            ValueError: when there is no task, or the task's seed is no seed.
        """
        session = self.__session
        given = dict(options or {})
        task = session.choose(given.pop("task", None), seed, type(self).__name__)
        session.scoring = bool(given.pop("score", True))
        chosen = int(seed) if seed is not None else _seed_of(task)
        super().reset(seed=chosen)
        self.task, self.options, self.answer = task, given, None
        self.seed = chosen if chosen is not None else int(self.np_random.integers(2**31))
        session.begin()
        try:
            self.setup(task)
        finally:
            session.is_resetting = False
        observation = self.__observed()
        info = self.__info({"task_id": task.task_id})
        session.trace.initial_observation = _copy_of(observation)
        session.trace.initial_snapshot = self.__take_snapshot()
        session.has_begun = True
        return observation, info

    def step(self, action: Any) -> tuple[ObservationT, Any, bool, bool, dict[str, Any]]:
        """Take an action: a `ToolCall`, a dict of its name and arguments, or text.

        The reward is what `add_reward` was given during the step, and at the end of the episode
        what the scorers make of it besides; ``info["rewards"]`` has both apart. It is None when a
        scorer failed, because no number would be true.

        Returns:
            The observation, the reward, whether the episode is `done`, whether `max_turns` cut it
            short, and the info. A text ends the episode with ``stop_reason`` ``policy_stop`` and
            neither flag.

        Raises:
            ResetNeeded: before the first reset, and after the end.
            ValueError: for what is no action.
            TypeError: when `observe` returns no observation, or `info` no dict.
        """
        session = self.__session
        session.require_open()
        chosen = as_action(action)
        session.step_reward, session.snapshot = 0.0, None
        calls: list[dict[str, Any]] = []
        if isinstance(chosen, str):
            self.answer = chosen
            self.on_text(chosen)
        else:
            calls.append(self.__run_tool(chosen).to_dict())
        session.turns += 1
        observation = self.__observed()
        terminated = bool(self.done())
        truncated = not terminated and self.max_turns is not None
        truncated = truncated and session.turns >= (self.max_turns or 0)
        stop_reason = _stop_reason(chosen, terminated, truncated)
        ends = stop_reason is not None and session.trace.stop_reason is None
        if ends:
            assert stop_reason is not None
            self.on_end(stop_reason)
        session.has_ended = terminated or truncated or (ends and session.in_rollout)
        info = self.__info({"tool_calls": calls})
        done = TraceStep(
            index=session.turns,
            action=chosen.to_dict() if isinstance(chosen, ToolCall) else chosen,
            observation=_copy_of(observation),
            reward=session.step_reward,
            terminated=terminated,
            truncated=truncated,
            info=_copy_of(info),
            snapshot=self.__take_snapshot(),
        )
        session.trace.steps.append(done)
        if ends:
            info |= self.__end(str(stop_reason), done)
        return observation, done.reward, terminated, truncated, info

    def render(self) -> Any:
        """The last observation as text, in the render mode ``ansi``; else None."""
        if self.render_mode != "ansi":
            return None
        trace = self.__session.trace
        seen = trace.steps[-1].observation if trace.steps else trace.initial_observation
        if seen is None:
            raise ResetNeeded("render before reset: call reset() first")
        return seen.render()

    def close(self) -> None:
        """Let go of the runtime and of the thread of asynchronous tools; more than once is fine."""
        self.runtime.close()
        self.__session.coroutines.close()

    # -- what a world may use ---------------------------------------------------------------------

    def add_reward(self, amount: float) -> None:
        """Add to the reward of the step that is running; for tools and hooks.

        Raises:
            TypeError: when it is no number.
            ValueError: when it is not finite.
        """
        if isinstance(amount, (bool, np.bool_)) or not isinstance(
            amount, (int, float, np.integer, np.floating)
        ):
            raise TypeError(f"a reward must be a number, not {amount!r}")
        total = self.__session.step_reward + float(amount)
        if not math.isfinite(total):
            raise ValueError(f"a reward must be finite, not {amount!r}")
        self.__session.step_reward = total

    def wait_for(self, coroutine: Any) -> Any:
        """Wait for a coroutine, also where an event loop is running already, as in a notebook."""
        return self.__session.coroutines.run(coroutine)

    @property
    def runtime(self) -> Runtime:
        """Where tools run."""
        return self.__session.runtime

    @runtime.setter
    def runtime(self, runtime: Runtime) -> None:
        for name in ("run", "close"):
            if not callable(getattr(runtime, name, None)):
                raise TypeError(f"a runtime has run and close: {runtime!r} has no {name}()")
        self.__session.runtime = runtime

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """The tools as a policy is told of them."""
        return tuple(method.spec for method in self.__envbench_tools__.values())

    @property
    def tool_methods(self) -> dict[str, ToolMethod[Any, Any]]:
        """The tools by name."""
        return dict(self.__envbench_tools__)

    @property
    def scorers(self) -> tuple[Scorer, ...]:
        """The scorers: of the classes, and of this environment."""
        found = _scorers_of(type(self))
        for each in self.__session.scorers:
            found = add_scorer(found, each)
        return found

    @property
    def trace(self) -> Trace:
        """What has happened in this episode so far."""
        return self.__session.trace

    @property
    def last_tool_exception(self) -> BaseException | None:
        """What the last call of a tool raised, with its traceback; None when it returned."""
        return self.__session.exception

    # -- evidence ---------------------------------------------------------------------------------

    def rollout(
        self,
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
        """Let a policy work on a task, and record the episode; see `rollout.roll_out`."""
        from envbench.environments.rollout import roll_out

        return roll_out(
            self,
            task,
            policy,
            model=model,
            store=store,
            provenance=provenance,
            seed=seed,
            render=render,
            raise_errors=raise_errors,
        )

    def fingerprint(self) -> Fingerprint:
        """What the environment does, in parts with a hash each; computed once an environment.

        It is best taken before the first reset.
        """
        from envbench.environments.fingerprint import fingerprint

        known, scorers = self.__session.fingerprint, self.scorers
        if known is None or known[0] != scorers:
            known = self.__session.fingerprint = (scorers, fingerprint(self))
        return known[1]

    def describe_portable(self) -> Json:
        """What evidence records of the environment beside its name: the fingerprint by parts."""
        return {"fingerprint": self.fingerprint().to_dict()}

    def describe_case(self) -> EvalCase:
        """The case that this episode's task is, for evidence; of the answer key only a digest."""
        from envbench.environments.rollout import case_of

        return case_of(self.task)

    def observe_state(self) -> dict[str, Any]:
        """The snapshot for the recorder: the one taken in the step, or a fresh one after it."""
        taken, self.__session.snapshot = self.__session.snapshot, None
        if isinstance(taken, Exception):
            raise taken
        return self.__copy_snapshot() if taken is None else taken

    def expect_rollout(self) -> None:
        """Let a text end the next episode for good, so that nothing can follow what was scored."""
        self.__session.next_in_rollout = True

    def attributes(self) -> dict[str, Any]:
        """The attributes that a tool may read and change, for a runtime elsewhere."""
        own = {key: value for key, value in vars(self).items() if key not in _STAY}
        return {**own, _REWARD: self.__session.step_reward}

    def replace_attributes(self, attributes: Mapping[str, Any]) -> None:
        """Take the attributes that a runtime brought back."""
        brought = dict(attributes)
        self.__session.step_reward = brought.pop(_REWARD)
        for key in vars(self).keys() - brought.keys() - _STAY:
            delattr(self, key)
        vars(self).update(brought)

    # -- inside -----------------------------------------------------------------------------------

    @classmethod
    def _add_scorer(cls, added: Scorer) -> None:
        if cls is Environment:
            raise TypeError("register a scorer on your own class or environment")
        cls.__envbench_scorers__ = add_scorer(vars(cls)["__envbench_scorers__"], added)

    def _add_own_scorer(self, added: Scorer) -> None:
        others = [each for each in self.scorers if each not in self.__session.scorers]
        add_scorer(others, added)  # refuses a name that another one has
        self.__session.scorers = add_scorer(self.__session.scorers, added)

    def __run_tool(self, call: ToolCall) -> ToolRecord:
        record = ToolRecord(call.name, call.to_dict()["arguments"])
        method = self.__envbench_tools__.get(call.name)
        kind = "unknown_tool"
        try:
            if method is None:
                known = ", ".join(self.__envbench_tools__) or "none"
                raise LookupError(f"there is no tool {call.name!r}; there are: {known}")
            kind = "invalid_arguments"
            method.bind(call.arguments)
            kind = "refused"
            self.before_tool(call)
            kind = "raised"
            result = self.runtime.run(Call(self, method, record))
            record.result = detached_result(result)
        except RuntimeBroken:
            raise
        except ToolFailed as failure:
            record.fail(failure.kind, failure, failure.type_name)
        except Exception as error:
            record.fail(kind, error)
            if kind == "raised":
                _LOG.debug("tool %s of %s raised", call.name, self.name, exc_info=True)
        self.__session.exception = record.exception
        if method is not None:
            self.after_tool(record)
        return record

    def __observed(self) -> ObservationT:
        observation = self.observe()
        if not isinstance(observation, Observation):
            raise TypeError(
                f"observe() of {type(self).__name__} must return an Observation, not"
                f" {type(observation).__name__}"
            )
        return observation

    def __info(self, ours: dict[str, Any]) -> dict[str, Any]:
        more = self.info()
        if not isinstance(more, dict):
            raise TypeError(
                f"info() of {type(self).__name__} must return a dict, not {type(more).__name__}"
            )
        taken = [key for key in _OURS if key in more]
        if taken:
            raise ValueError(
                f"info() of {type(self).__name__} returned {taken[0]!r}, which the environment"
                " itself says: use another key"
            )
        return {**plain(more), **ours}

    def __take_snapshot(self) -> Any:
        """Read and copy the snapshot; the recorder, if there is one, says what went wrong."""
        try:
            taken: Any = self.__copy_snapshot()
        except Exception as error:
            taken = error
        self.__session.snapshot = taken
        return None if isinstance(taken, Exception) else taken

    def __copy_snapshot(self) -> dict[str, Any]:
        return copy.deepcopy(plain(self.snapshot()))

    def __end(self, stop_reason: str, last: TraceStep) -> dict[str, Any]:
        """Score the episode, and give what the info of its last step says of it."""
        from envbench.environments.rollout import Rollout

        session = self.__session
        session.trace.stop_reason = stop_reason
        scorers = self.scorers if session.scoring else ()
        scores: list[Score] = []
        step, end = session.step_reward, None
        if scorers:
            rollout = Rollout(env=self, task=self.task, episode=None, trace=session.trace)
            scores = run_scorers(scorers, self, rollout, self.wait_for)
            end = end_reward(scores)
            last.reward = None if end is None else step + end
        said = {
            "stop_reason": stop_reason,
            "rewards": {"step": step, "end": end},
            "scores": {each.name: each.to_dict() for each in scores},
        }
        last.info |= copy.deepcopy(said)
        session.trace.outcome = Outcome.of(session.trace.steps, stop_reason)
        return said


@dataclass(slots=True)
class _Session:
    """What an environment knows of itself; users' attributes stay apart from it."""

    tasks: tuple[TaskData, ...] = ()
    scorers: tuple[Scorer, ...] = ()
    runtime: Runtime = field(default_factory=LocalRuntime)
    coroutines: Coroutines = field(default_factory=Coroutines)
    fingerprint: tuple[tuple[Scorer, ...], Fingerprint] | None = None
    draws: np.random.Generator | None = None
    scoring: bool = True
    is_resetting: bool = False
    has_begun: bool = False
    has_ended: bool = False
    in_rollout: bool = False
    next_in_rollout: bool = False
    turns: int = 0
    step_reward: float = 0.0
    snapshot: Any = None
    trace: Trace = field(default_factory=Trace)
    exception: BaseException | None = None

    def __getstate__(self) -> dict[str, Any]:
        # an exception need not be something that can be copied or sent
        left_out = {"exception": None, "snapshot": None}
        return {name: left_out.get(name, getattr(self, name)) for name in self.__slots__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)

    def choose(self, given: Any, seed: int | None, of: str) -> TaskData:
        """The task of an episode."""
        if given is not None:
            if not isinstance(given, TaskData):
                raise TypeError(f"options['task'] must be a TaskData, not {type(given).__name__}")
            self.tasks = (given,)
        if not self.tasks:
            raise ValueError(
                f"{of} has no task: reset(options={{'task': TaskData(…)}}), or {of}(task=…)"
            )
        if len(self.tasks) == 1:
            return self.tasks[0]
        if seed is not None or self.draws is None:
            self.draws = np.random.default_rng(seed)
        return self.tasks[int(self.draws.integers(len(self.tasks)))]

    def begin(self) -> None:
        """Forget the last episode."""
        self.is_resetting, self.has_begun, self.has_ended = True, False, False
        self.in_rollout, self.next_in_rollout = self.next_in_rollout, False
        self.turns, self.step_reward, self.snapshot, self.exception = 0, 0.0, None, None
        self.trace = Trace()

    def require_open(self) -> None:
        """Refuse a step that belongs to no episode."""
        if not self.has_begun:
            raise ResetNeeded("step before a reset that came to its end: call reset() first")
        if self.has_ended:
            raise ResetNeeded(
                "the episode has ended (a text is an answer, and ends it): no step can follow"
                if self.in_rollout
                else "the episode has ended: call reset() before the next step"
            )


_REWARD: Final = "_Environment__step_reward"
_STAY: Final = frozenset({"_Environment__session", "action_space", "observation_space"})


def _has_own_name(base: type) -> bool:
    """Whether a class was given a name, other than the one it gets for want of it."""
    return base is not Environment and vars(base).get("name", base.__name__) != base.__name__


def _copy_of(value: Any) -> Any:
    """A copy for the trace, or the very value where its class forbids copies."""
    try:
        return copy.deepcopy(value)
    except Exception:
        return value


def _stop_reason(action: ToolCall | str, terminated: bool, truncated: bool) -> str | None:
    """Why the episode ends with this step, the worst reason first; None when it goes on."""
    if terminated:
        return "terminated"
    if truncated:
        return "truncated"
    return "policy_stop" if isinstance(action, str) else None


def _keep_overridden_tools(cls: type) -> None:
    """Make a plain method that overrides a tool a tool again, so that none is lost unseen."""
    for name, value in list(vars(cls).items()):
        if not inspect.isfunction(value):
            continue
        for base in cls.__mro__[1:]:
            above = vars(base).get(name)
            if isinstance(above, ToolMethod):
                described = above.described if value.__doc__ is None else None
                again = ToolMethod(value, above.name, described)
                setattr(cls, name, again)
                again.__set_name__(cls, name)
            if above is not None:
                break


def _tools_of(cls: type[Environment[Any, Any]]) -> dict[str, ToolMethod[Any, Any]]:
    """The tools of a class by name, those of its bases first."""
    attributes = dict.fromkeys(name for base in reversed(cls.__mro__) for name in vars(base))
    found: dict[str, ToolMethod[Any, Any]] = {}
    for attribute in attributes:
        method = inspect.getattr_static(cls, attribute, None)
        if not isinstance(method, ToolMethod):
            continue
        if attribute in _RESERVED:
            raise TypeError(
                f"tool {attribute!r} of {cls.__name__} hides Environment.{attribute}: give the"
                f" method another name, and @tool(name={attribute!r}) if policies need this one"
            )
        if method.name in found:
            raise TypeError(
                f"{cls.__name__} has two tools {method.name!r}: {found[method.name].__name__} and"
                f" {attribute}"
            )
        method.resolve(cls)
        found[method.name] = method
    return found


def _scorers_of(cls: type[Environment[Any, Any]]) -> tuple[Scorer, ...]:
    """The scorers of a class: its methods that are marked, and what was registered on it."""
    found: tuple[Scorer, ...] = ()
    seen: set[str] = set()
    for base in reversed(cls.__mro__):
        for attribute, value in vars(base).items():
            marked = getattr(value, "__envbench_scorer__", None)
            if isinstance(marked, Scorer) and attribute not in seen:
                seen.add(attribute)
                # as it is overridden, if it is
                found = add_scorer(found, replace(marked, function=getattr(cls, attribute)))
        for each in vars(base).get("__envbench_scorers__", ()):
            found = add_scorer(found, each)
    return found


def _observation_class(cls: type) -> type[Observation]:
    """The class of observations: what stands in the brackets of `Environment[…]`."""
    for base in cls.__mro__:
        for generic in vars(base).get("__orig_bases__", ()):
            origin = get_origin(generic)
            if isinstance(origin, type) and issubclass(origin, Environment):
                first = get_args(generic)[0]
                if isinstance(first, type) and issubclass(first, Observation):
                    return first
    return Observation


def _tasks(task: Any) -> tuple[TaskData, ...]:
    if isinstance(task, TaskData):
        return (task,)
    if isinstance(task, (str, bytes, Mapping)) or not isinstance(task, (Iterable, Sequence)):
        raise TypeError(f"task must be a TaskData or several, not {type(task).__name__}")
    tasks = tuple(task)
    for each in tasks:
        if not isinstance(each, TaskData):
            raise TypeError(f"task must hold TaskData only, not {type(each).__name__}")
    if not tasks:
        raise ValueError("task holds no task")
    return tasks


def _seed_of(task: TaskData) -> int | None:
    seed = task.metadata.get("seed")
    if seed is None:
        return None
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ValueError(
            f"the seed in the metadata of task {task.task_id!r} must be an integer from 0,"
            f" not {seed!r}"
        )
    return seed


_RESERVED: Final = frozenset(
    {name for name in dir(Environment) if not name.startswith("__")}
    | {"task", "seed", "options", "state", "answer"}
    | {"action_space", "observation_space", "np_random", "render_mode", "spec"}
)
