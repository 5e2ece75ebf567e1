"""`Conversation`: what a model was told and what it said, as chat messages."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from envbench.environments.actions import ToolCall
from envbench.environments.chat_text import encodable
from envbench.environments.text import as_text
from envbench.environments.tools import result_text
from envbench.evidence.portable import Json, parse

_SENT_BACK: Final = ("role", "content", "refusal")
"""What of a model's message is sent back to it, beside its tool calls; the rest is recorded."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A tool call of a model that waits for its result.

    Attributes:
        id: pairs the result with the call.
        call: the action.
    """

    id: str
    call: ToolCall


class Conversation:
    """The messages of one episode, and the tool calls in them that wait to be taken.

    Args:
        instructions: the system message, or None for none.
        echo: further fields of the model's messages that are sent back to it.

    Attributes:
        messages: as they were sent and received, once each.
        sent: the same as they are sent with the next request.
        waiting: the calls of the last answer that were not taken yet.
        given_ids: how many calls came without an id of their own.
        unshown: how many results have no form as text.
    """

    def __init__(self, instructions: str | None = None, echo: Sequence[str] = ()) -> None:
        self.messages: list[dict[str, Json]] = []
        self.sent: list[dict[str, Json]] = []
        self.waiting: deque[Asked] = deque()
        self.given_ids = 0
        self.unshown = 0
        self._echo = (*_SENT_BACK, *echo)
        self._seen: str | None = None
        self._taken: Asked | None = None
        if instructions is not None:
            self._add({"role": "system", "content": encodable(instructions)})

    def see(self, observation: Any) -> None:
        """Add what the environment shows as the user's message, unless the model knows it.

        It does when it was shown last and results of tools came since. A model that said something
        is shown it again: there is nothing else to go on from.
        """
        text = observation_text(observation)
        spoke = bool(self.messages) and self.messages[-1]["role"] == "assistant"
        if text != self._seen or spoke:
            self._seen = text
            self._add({"role": "user", "content": text})

    def hear(self, message: Mapping[str, Json], *, is_cut: bool) -> None:
        """Add the model's message; its tool calls are then waiting.

        Args:
            message: portable, without secrets.
            is_cut: whether the model did not come to its end: then arguments that are missing
                count as cut off, and not as none.
        """
        calls = self._with_ids(message.get("tool_calls") or [])
        more = {key: message[key] for key in message if key not in ("role", "tool_calls")}
        said = {"role": "assistant", "content": None, **more}
        back = {key: said[key] for key in self._echo if said.get(key) is not None}
        if calls:
            said["tool_calls"] = calls
            back["tool_calls"] = [_sendable(call) for call in calls]
        # an answer without text and calls is refused when it is sent back as null
        back.setdefault("content", None if calls else "")
        self.messages.append(said)
        self.sent.append(back)
        self.waiting = deque(Asked(call["id"], _call_of(call, is_cut)) for call in calls)

    def take(self) -> ToolCall:
        """The next waiting call, to be taken as an action."""
        self._taken = self.waiting.popleft()
        return self._taken.call

    def settle(self, info: Mapping[str, Any] | None) -> None:
        """Add the result of the call that was taken last, if it has none yet.

        Args:
            info: the info of its step; None when the step came to nothing.
        """
        taken, self._taken = self._taken, None
        if taken is None or info is None:
            return
        records = info.get("tool_calls") or ()
        text = "the call had no result"
        if records:
            try:
                text = encodable(result_text(records[0]))
            except ValueError as error:
                self.unshown += 1
                text = f"the result cannot be shown as text: {error}"
        self._add({"role": "tool", "tool_call_id": taken.id, "content": text})

    def _add(self, message: dict[str, Json]) -> None:
        self.messages.append(message)
        self.sent.append(message)

    def _with_ids(self, calls: Sequence[Mapping[str, Json]]) -> list[dict[str, Json]]:
        """The calls, each with an id that no other of them has."""
        own = {str(call["id"]) for call in calls if call.get("id")}
        used: set[str] = set()
        named = []
        for position, call in enumerate(calls, 1):
            id_ = call.get("id")
            if not isinstance(id_, str) or not id_ or id_ in used:
                self.given_ids += 1
                id_ = f"call_{len(self.messages)}_{position}"
                while id_ in own or id_ in used:
                    id_ += "_"
            used.add(id_)
            rest = {name: value for name, value in call.items() if name not in ("id", "index")}
            named.append({"id": id_, "type": "function", **rest})
        return named


def observation_text(observation: Any) -> str:
    """An observation as the model reads it: what `render` gives, else the value as text."""
    render = getattr(observation, "render", None)
    return encodable(as_text(render() if callable(render) else observation))


def _call_of(call: Mapping[str, Json], is_cut: bool) -> ToolCall:
    """The action that a tool call is; what is no object of arguments passes on as it is."""
    function = call.get("function")
    if not isinstance(function, dict):
        return ToolCall("", {key: value for key, value in call.items() if key != "id"})
    name = function.get("name")
    given = function.get("arguments")
    if (given is None or given == "") and not is_cut:
        given = {}
    return _tool_call(name if isinstance(name, str) else "", given)


def _tool_call(name: str, given: Json) -> ToolCall:
    if isinstance(given, str):
        try:
            return ToolCall(name, parse(given))
        except (ValueError, RecursionError):
            pass  # as the model wrote it, for the environment to refuse
    return ToolCall(name, given)


def _sendable(call: dict[str, Json]) -> dict[str, Json]:
    """A tool call as it is sent back: arguments are text, and of no arguments an empty object."""
    function = call.get("function")
    if not isinstance(function, dict):
        return {**call, "function": {"name": "", "arguments": "{}"}}
    given = function.get("arguments")
    text = given if isinstance(given, str) else as_text({} if given is None else given)
    return {**call, "function": {**function, "arguments": text or "{}"}}
