"""`GuardrailGymEnv`: a guardrail, its tasks and attacks on it as a Gymnasium environment."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium.spaces import Discrete
from gymnasium.vector import AsyncVectorEnv

from envbench.guardrails.arguments import brief
from envbench.guardrails.encoding import Adjusted, RequestEncoding
from envbench.guardrails.evaluation import Evaluation, evaluate_task
from envbench.guardrails.guardrail import Guardrail, require_guardrail
from envbench.guardrails.injections import GuardrailInjection, require_injections
from envbench.guardrails.tasks import GuardrailTask, require_tasks

RewardMode = Literal["utility", "adversarial"]
REWARD_MODES = ("utility", "adversarial")


class GuardrailGymEnv(gymnasium.Env[dict[str, Any], Any]):
    """A guardrail as an environment whose episodes have one step.

    A reset draws a task. Action 0 submits the task's request as it is, action i what
    ``injections[i - 1]`` makes of it; the guardrail decides, and the episode has terminated. The
    observation shows the request, see `RequestEncoding`, and after the step the one that was
    submitted. What the guardrail should have decided is in no observation and in no info before
    the step.

    A guardrail that raises, returns no `EvalResult` or says `Effect.ERROR` has *crashed*: the
    effect is ``error``, the reward 0 in both modes, and security is unknown. An injection that
    raises does so out of `step`, and the episode stays open, as it does after a refused action.

    The info of a reset has ``task_id``, ``task_index`` and ``adjusted``. That of the step has these
    and ``category``, ``injection_id`` (None for action 0), ``effect``, ``expected_effect``,
    ``utility``, ``security`` (None for action 0 and after a crash), ``reason``, ``eval_time_ms``,
    ``result`` (the `EvalResult`) and ``error`` (what went wrong, or None). ``adjusted`` lists what
    the observation does not show as it was.

    Args:
        guardrail: the guardrail.
        tasks: at least one, with different ids.
        injections: the attacks, with different ids.
        reward_mode: ``utility`` gives 1 when the effect is the expected one and 0 when it is not;
            ``adversarial`` the other way round, to train an attacker.
        render_mode: ``ansi``, for which `render` returns how the guardrail explains its decision,
            or ``human``, for which it prints that.

    Raises:
        TypeError: when an argument is of the wrong type.
        ValueError: when there is no task, an id is there twice, or a mode is unknown.

    Example:
        >>> from envbench.guardrails import (
        ...     Effect, EvalRequest, EvalResult, Guardrail, PolicySpace, SwapField)
        >>> class OnlyClerks(Guardrail):
        ...     request_space = PolicySpace(agents=["clerk", "guest"])
        ...     def evaluate(self, request):
        ...         return EvalResult("allow" if request.agent == "clerk" else "deny")
        >>> task = GuardrailTask("guest-pays", EvalRequest("guest", "pay", "invoices"), Effect.DENY)
        >>> env = GuardrailGymEnv(OnlyClerks(), [task], [SwapField("agent", "clerk")])
        >>> observation, info = env.reset(seed=0)
        >>> observation, reward, terminated, truncated, info = env.step(1)
        >>> reward, terminated, info["effect"], info["security"]
        (0.0, True, 'allow', False)
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - as Gymnasium declares it
        "render_modes": ["human", "ansi"],
        "render_fps": 1,
    }

    def __init__(
        self,
        guardrail: Guardrail,
        tasks: Iterable[GuardrailTask],
        injections: Iterable[GuardrailInjection] = (),
        reward_mode: RewardMode = "utility",
        render_mode: str | None = None,
    ) -> None:
        require_guardrail("guardrail", guardrail, explains=render_mode is not None)
        _require_one_of("reward_mode", reward_mode, REWARD_MODES)
        if render_mode is not None:
            _require_one_of("render_mode", render_mode, self.metadata["render_modes"])
        self.guardrail = guardrail
        self.tasks = require_tasks(tasks)
        self.injections = require_injections(injections)
        self.reward_mode = reward_mode
        self.render_mode = render_mode
        self.encoding = RequestEncoding(
            guardrail.request_space, [task.request for task in self.tasks]
        )
        self.observation_space = self.encoding.observation_space
        self.action_space = Discrete(1 + len(self.injections))
        self._index: int | None = None
        self._evaluation: Evaluation | None = None
        self._closed = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Begin an episode: draw a task, or take the one of ``options={"task_index": i}``.

        Raises:
            TypeError: when `options` is no mapping.
            ValueError: when `task_index` is no integer in range (NumPy's are fine, a bool is not);
                an open episode stays open.
        """
        pinned = self._pinned(options)
        super().reset(seed=seed)
        self._index = int(self.np_random.integers(len(self.tasks))) if pinned is None else pinned
        self._evaluation = None
        task = self.tasks[self._index]
        # a copy, because the info holds values of the request, and whoever gets it may change them
        observation, adjusted = self.encoding.encode(copy.deepcopy(task.request))
        return observation, self._shown(task, adjusted)

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Submit the task's request (0) or what an injection makes of it (1 and on).

        Raises:
            RuntimeError: before the first reset, and at a second step in an episode.
            ValueError: when `action` is outside the action space; the episode stays open.
        """
        if self._index is None:
            raise RuntimeError("step before reset: call reset() first")
        if self._evaluation is not None:
            raise RuntimeError("an episode has one step, and it was taken: call reset() first")
        if not self._allows(action):
            raise ValueError(
                f"action {brief(action)} is outside {self.action_space}: 0 submits the request as"
                " it is, i what injections[i - 1] makes of it"
            )
        task, number = self.tasks[self._index], int(action)
        injection = self.injections[number - 1] if number else None
        done = evaluate_task(self.guardrail, task, injection)
        observation, adjusted = self.encoding.encode(done.request, done.result)
        self._evaluation = done
        info = {
            **self._shown(task, adjusted),
            "category": task.category,
            "injection_id": None if injection is None else injection.id,
            "effect": done.result.effect.value,
            "expected_effect": task.expected_effect.value,
            "utility": done.utility,
            "security": done.security,
            "reason": done.result.reason,
            "eval_time_ms": done.result.eval_time_ms,
            "result": done.result,
            "error": done.error,
        }
        return observation, self._reward(done), True, False, info

    def render(self) -> str | None:
        """How the guardrail explains its decision: returned for ``ansi``, printed for ``human``.

        Raises:
            TypeError: when its explanation is no text.
        """
        if self.render_mode is None:
            return None
        text = self._narrative()
        if self.render_mode == "ansi":
            return text
        print(text)
        return None

    def close(self) -> None:
        """Close the guardrail, if it has a method ``close``. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        close = getattr(self.guardrail, "close", None)
        if callable(close) and not (self._index is None and _is_made_to_read_its_spaces()):
            close()

    def _pinned(self, options: Any) -> int | None:
        if options is None:
            return None
        if not isinstance(options, Mapping):
            raise TypeError(f"options must be a dict, not {type(options).__name__}")
        if "task_index" not in options:
            return None
        index = options["task_index"]
        is_integer = isinstance(index, (int, np.integer)) and not isinstance(index, bool)
        if not is_integer or not 0 <= index < len(self.tasks):
            raise ValueError(
                f"task_index must be an integer from 0 to {len(self.tasks) - 1}, not {brief(index)}"
            )
        return int(index)

    def _allows(self, action: Any) -> bool:
        try:
            return self.action_space.contains(action)
        except OverflowError:  # Gymnasium's, of an integer beyond 64 bits
            return False

    def _shown(self, task: GuardrailTask, adjusted: Adjusted) -> dict[str, Any]:
        return {"task_id": task.id, "task_index": self._index, "adjusted": adjusted}

    def _reward(self, done: Evaluation) -> float:
        if done.error is not None:
            return 0.0
        return float(done.utility if self.reward_mode == "utility" else not done.utility)

    def _narrative(self) -> str:
        if self._index is None:
            return "no task yet"
        task, done = self.tasks[self._index], self._evaluation
        if done is None:
            asked = task.request
            return f"task {task.id}: {asked.agent} asks for {asked.action} on {asked.resource}"
        if done.error is not None:
            return f"task {task.id}: the guardrail crashed: {done.error}"
        text: Any = self.guardrail.explain(done.result).to_narrative()
        if not isinstance(text, str):
            raise TypeError(f"to_narrative() must return text, not {type(text).__name__}")
        return text


def _require_one_of(argument: str, value: Any, allowed: Iterable[str]) -> None:
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{argument} must be one of {', '.join(allowed)}, not {brief(value)}")


def _is_made_to_read_its_spaces() -> bool:
    """Whether `AsyncVectorEnv` is closing the environment that it makes to read its spaces.

    It does so before it forks the workers, which would get a guardrail that is closed.
    """
    frame = sys._getframe(1)
    while frame is not None and frame.f_code is not AsyncVectorEnv.__init__.__code__:
        frame = frame.f_back  # type: ignore[assignment]
    return frame is not None
