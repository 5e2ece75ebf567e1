"""`ChatPolicy`: a language model behind an OpenAI-compatible endpoint, as a policy."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from envbench.checks.lines import counted
from envbench.environments.actions import ToolCall, ToolSpec
from envbench.environments.chat_client import Answered, ChatClient, ChatFailed
from envbench.environments.chat_text import Portable, encodable
from envbench.environments.conversation import Conversation
from envbench.environments.text import as_text
from envbench.evidence.case import require_name
from envbench.evidence.portable import Json


def _never() -> bool:
    return False


class ChatPolicy:
    """Asks a model for each action.

    What the environment shows is the user's message, tools are offered by their schemas, and
    results go back as tool messages. Several calls in one answer are taken one after the other, an
    action each. Arguments that are no JSON object pass on as they are: the environment makes a tool
    error of them, and the model is told. Text is the model's answer, and so is a refusal.

    An endpoint that gives no answer is the failure of the rollout (`ChatFailed`).

    Args:
        client: the endpoint; without it, one is made of `options`.
        model: the name of the model, in the endpoint's words; names the policy in evidence.
        options: the arguments of `ChatClient`.

    Raises:
        TypeError: when there are a client and options.
        ValueError: when the model is blank.
    """

    def __init__(self, client: ChatClient | None = None, *, model: str, **options: Any) -> None:
        require_name("model", model)
        if client is not None and not isinstance(client, ChatClient):
            raise TypeError(f"client must be a ChatClient, not {type(client).__name__}")
        if client is not None and options:
            raise TypeError(f"{', '.join(options)}: options go with no client, which has its own")
        self.client = ChatClient(**options) if client is None else client
        self.model = model
        self.agent_id = model
        self._owns = client is None
        self._info: Mapping[str, Any] | None = None
        self._is_stopped: Callable[[], bool] = _never
        self._begin()

    def start(self, *, is_stopped: Callable[[], bool] = _never) -> None:
        """Begin a new conversation.

        Args:
            is_stopped: asked while an endpoint is waited for; true gives up.
        """
        self._begin()
        self._is_stopped = is_stopped

    def act(
        self, observation: Any, *, tools: Sequence[ToolSpec], info: Mapping[str, Any]
    ) -> ToolCall | str:
        """The model's next action.

        Raises:
            ChatFailed: when there was no answer.
        """
        self._info = info
        self._talk.settle(info)
        if not self._talk.waiting:
            self._talk.see(observation)
            self._ask(tools)
        if self._talk.waiting:
            return self._talk.take()
        return _text(self._talk.messages[-1])

    def finish(self, *, info: Mapping[str, Any]) -> None:
        """Add the last call's result, which no further question brings."""
        # the info of the step before says nothing of a step that came to nothing
        self._talk.settle(None if info is self._info else info)

    def identity(self) -> Json:
        """The model, the endpoint, and how it is asked; no key and no headers."""
        client = self.client
        return {
            "model": self.model,
            "endpoint": client.endpoint,
            "instructions": None if client.instructions is None else encodable(client.instructions),
            "settings": Portable(client.secrets, str).value(client.settings),
            "stream": client.stream,
            "echo": list(client.echo),
        }

    def record(self) -> dict[str, Json]:
        """The conversation, usage and latencies.

        Returns:
            ``model``, ``endpoint``, ``settings``, ``stream``; ``messages``, each once, as they were
            sent and received; ``turns``, one for each answer: ``answer`` (``calls``, ``text``,
            ``refusal``, ``empty`` or ``none``), ``finish_reason``, ``usage``, ``served``,
            ``latency_ms``, ``elapsed_ms`` with repetitions and waits, ``tries`` that failed;
            ``usage`` summed, ``turns_without_usage``, ``requests``, how many of them were
            ``retries``, and ``latency_ms`` summed.
        """
        said = self.identity()
        usages = [turn["usage"] for turn in self._turns if turn["usage"] is not None]
        answered = [turn for turn in self._turns if turn["answer"] != "none"]
        tries = [each for turn in self._turns for each in turn["tries"]]
        return {
            **{name: said[name] for name in ("model", "endpoint", "settings", "stream")},
            "messages": list(self._talk.messages),
            "turns": list(self._turns),
            "usage": _total(usages),
            "turns_without_usage": len(answered) - len(usages),
            "requests": len(tries) + len(answered),
            "retries": sum("wait_ms" in each for each in tries),
            "latency_ms": round(sum(turn["latency_ms"] for turn in answered), 3),
        }

    def remarks(self) -> list[str]:
        """What a reader of the episode should know."""
        found = [
            f"note: answer {number} of the model {said}"
            for number, turn in enumerate(self._turns, 1)
            if (said := _ENDINGS.get(turn["finish_reason"]) or _KINDS.get(turn["answer"]))
        ]
        talk = self._talk
        if talk.given_ids:
            calls = counted(talk.given_ids, "tool call")
            found.append(f"note: ids were given to {calls} without one of their own")
        if talk.unshown:
            results = counted(talk.unshown, "result")
            found.append(f"note: {results} without a form as text; the model was told")
        if self._escaped:
            texts = counted(self._escaped, "text")
            found.append(f"note: {texts} of the endpoint escaped, for what UTF-8 cannot hold")
        if talk.waiting:
            calls = counted(len(talk.waiting), "tool call")
            found.append(f"note: {calls} of the last answer not taken: the episode ended before")
        if self._hidden:
            texts = counted(self._hidden, "text")
            found.append(f"policy: secrets hidden in {texts} of the endpoint")
        return found

    def close(self) -> None:
        """Close the connections of a client that was made for this policy alone."""
        if self._owns:
            self.client.close()

    def __deepcopy__(self, memo: dict[int, Any]) -> ChatPolicy:
        copied = copy.copy(self)
        copied._owns = False  # connections are shared, and stay open for the others
        copied._begin()
        return copied

    def __repr__(self) -> str:
        return f"<ChatPolicy {self.model} at {self.client.endpoint}>"

    def _begin(self) -> None:
        self._talk = Conversation(self.client.instructions, self.client.echo)
        self._turns: list[dict[str, Any]] = []
        self._info = None
        self._spent = 0.0
        self._hidden = 0
        self._escaped = 0

    def _ask(self, tools: Sequence[ToolSpec]) -> None:
        """Ask the model, and take its answer into the conversation."""
        client = self.client
        body = client.request(self.model, self._talk.sent, [_offered(each) for each in tools])
        left = None if client.time_limit is None else client.time_limit - self._spent
        try:
            answered = client.ask(body, seconds=left, is_stopped=self._is_stopped)
            turn = self._hear(body, answered)
        except ChatFailed as failure:
            self._turns.append(
                {"answer": "none", "finish_reason": None, "usage": None, "tries": failure.tries}
            )
            raise
        self._turns.append(turn)
        self._spent += answered.elapsed_ms / 1000

    def _hear(self, body: dict[str, Json], answered: Answered) -> dict[str, Any]:
        answer = answered.answer
        portable = Portable(self.client.secrets, lambda: json.dumps(body, ensure_ascii=False))
        message = portable.value(answer.message)
        turn = {
            "finish_reason": portable.value(answer.finish_reason),
            "usage": portable.value(answer.usage),
            "served": portable.value(answer.served),
            "latency_ms": answered.latency_ms,
            "elapsed_ms": answered.elapsed_ms,
            "tries": answered.tries,
        }
        self._hidden += portable.hidden
        self._escaped += portable.escaped
        self._talk.hear(message, is_cut=answer.finish_reason in _ENDINGS)
        return {"answer": _kind(message), **turn}


_KINDS = {"refusal": "is a refusal", "empty": "is empty"}
_ENDINGS = {
    "length": "was cut off at the limit of tokens",
    "content_filter": "was cut off by a content filter",
}


def _offered(tool: ToolSpec) -> dict[str, Json]:
    """A tool as the model is told of it."""
    function = {
        "name": tool.name,
        "description": encodable(tool.description),
        "parameters": tool.schema,
    }
    return {"type": "function", "function": function}


def _kind(message: Mapping[str, Json]) -> str:
    """What sort of answer a message is."""
    if message.get("tool_calls"):
        return "calls"
    if _joined(message.get("content")):
        return "text"
    return "refusal" if message.get("refusal") else "empty"


def _text(message: Mapping[str, Json]) -> str:
    """The text of a message without calls: what the model said, or why it refused."""
    return _joined(message.get("content")) or _joined(message.get("refusal"))


def _joined(content: Json) -> str:
    """Content as one text; some endpoints send a list of parts."""
    if isinstance(content, list):
        return "".join(
            _joined(part.get("text")) if isinstance(part, dict) else _joined(part)
            for part in content
        )
    return "" if content is None else as_text(content)


def _total(usages: Sequence[Mapping[str, Json]]) -> dict[str, Json] | None:
    """The sums of what is a number, at any depth; None when nothing was said."""
    if not usages:
        return None
    total: dict[str, Json] = {}
    for name in dict.fromkeys(name for usage in usages for name in usage):
        values = [usage[name] for usage in usages if usage.get(name) is not None]
        numbers = [v for v in values if isinstance(v, (int, float)) and not isinstance(v, bool)]
        nested = [value for value in values if isinstance(value, dict)]
        if numbers:
            total[name] = _sum(numbers)
        elif nested:
            total[name] = _total(nested)
    return total


def _sum(numbers: Sequence[float]) -> float | None:
    """The sum; None beyond what a double can hold."""
    try:
        total = sum(numbers)
    except OverflowError:
        return None
    return total if isinstance(total, int) or math.isfinite(total) else None
