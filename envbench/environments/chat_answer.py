"""`Answer`: what a chat-completions endpoint sent back, whole or as a stream of pieces."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

MAX_BYTES: Final = 64 * 2**20
"""An answer of more bytes is not taken in."""


_SHOWN: Final = 2**16
"""Of a body that is no answer, a message has so many bytes, before secrets are taken out of it."""


class NoAnswer(Exception):
    """What came back is no answer of a model.

    Args:
        message: what it is instead.
        kind: ``malformed``, ``broken`` (it ended before the answer did) or ``error`` (the endpoint
            said what went wrong).
        status: the status that the endpoint named in the body, where it did.
    """

    def __init__(self, message: str, *, kind: str = "malformed", status: int | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer as it was received; not yet portable, and not yet free of secrets.

    Attributes:
        message: the message: ``content``, ``refusal``, ``tool_calls`` and whatever else it had.
        finish_reason: why the model stopped, in the endpoint's words.
        usage: what it cost, in the endpoint's words; None when it was not said.
        served: ``id``, ``model`` and ``system_fingerprint``, where they were said.
    """

    message: dict[str, Any]
    finish_reason: str | None
    usage: dict[str, Any] | None
    served: dict[str, Any]


def read_answer(pieces: Iterable[bytes], content_type: str) -> Answer:
    """Read the body of a response.

    Args:
        pieces: the body as it comes in.
        content_type: of the response; ``text/event-stream`` is put together from its chunks.

    Raises:
        NoAnswer: when the body is no answer, or half of one.
    """
    if content_type.lower().startswith("text/event-stream"):
        return _gathered(_events(_limited(pieces)))
    body = b"".join(_limited(pieces))
    completion = _parsed(body, content_type)
    _refuse_error(completion)
    choice = _first_choice(completion)
    message = None if choice is None else choice.get("message")
    if choice is None or not isinstance(message, dict):
        raise NoAnswer(f"the answer has no choices[0].message: {_beginning(body)}")
    return _answer(completion, message, choice.get("finish_reason"), completion.get("usage"))


def _limited(pieces: Iterable[bytes]) -> Iterator[bytes]:
    taken = 0
    for piece in pieces:
        taken += len(piece)
        if taken > MAX_BYTES:
            raise NoAnswer(f"the answer has more than {MAX_BYTES:,} bytes")
        yield piece


def _parsed(body: bytes, content_type: str) -> dict[str, Any]:
    try:
        completion = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):
        raise NoAnswer(
            f"the answer is no JSON but {content_type or 'of no type'}: {_beginning(body)}; is"
            " base_url the address of an OpenAI-compatible API?"
        ) from None
    if not isinstance(completion, dict):
        raise NoAnswer(f"the answer is no JSON object: {_beginning(body)}")
    return completion


def _refuse_error(completion: dict[str, Any]) -> None:
    """Refuse what says that it is an error, though its status was 200."""
    error = completion.get("error")
    if not error:
        return
    code = error.get("code") if isinstance(error, dict) else None
    status = code if isinstance(code, int) and not isinstance(code, bool) else None
    raise NoAnswer(f"the endpoint says: {error_text(error)}", kind="error", status=status)


def error_text(error: Any) -> str:
    """The message of an endpoint's error object, or all of it."""
    said = error.get("message") if isinstance(error, dict) else error
    return said if isinstance(said, str) else json.dumps(error, ensure_ascii=False)


def _beginning(body: bytes) -> str:
    return repr(body[:_SHOWN].decode("utf-8", "replace"))


def _first_choice(completion: dict[str, Any]) -> dict[str, Any] | None:
    choices = completion.get("choices")
    if not isinstance(choices, list):
        return None
    for choice in choices:
        if isinstance(choice, dict) and not choice.get("index"):
            return choice
    return None


def _answer(completion: dict[str, Any], message: Any, finish_reason: Any, usage: Any) -> Answer:
    calls = message.get("tool_calls")
    if calls is not None and not (
        isinstance(calls, list) and all(isinstance(call, dict) for call in calls)
    ):
        raise NoAnswer("tool_calls of the answer is no list of objects")
    if message.get("function_call") and not calls:
        raise NoAnswer("the answer has function_call, the form before tool_calls")
    if finish_reason == "error":
        raise NoAnswer("the model stopped with the finish_reason 'error'", kind="error")
    return Answer(
        message=message,
        finish_reason=None if finish_reason is None else str(finish_reason),
        usage=usage if isinstance(usage, dict) else None,
        served={
            name: completion[name]
            for name in ("id", "model", "system_fingerprint")
            if completion.get(name) is not None
        },
    )


# -- streams --------------------------------------------------------------------------------------


def _gathered(events: Iterable[str]) -> Answer:
    """Put the chunks of a stream together."""
    whole = _Whole()
    for data in events:
        if data.startswith("[DONE]"):
            break
        whole.add(_parsed(data.encode("utf-8", "surrogatepass"), "text/event-stream"))
    if whole.finish_reason is None:
        raise NoAnswer("the stream ended before the answer did", kind="broken")
    return _answer(whole.served, whole.message(), whole.finish_reason, whole.usage)


@dataclass(slots=True)
class _Whole:
    """The answer so far."""

    served: dict[str, Any] = field(default_factory=dict)
    parts: dict[str, Any] = field(default_factory=dict)
    calls: list[dict[str, Any]] = field(default_factory=list)
    # where the pieces of the call of each index go
    places: dict[int | None, int] = field(default_factory=dict)
    finish_reason: Any = None
    usage: Any = None

    def add(self, chunk: dict[str, Any]) -> None:
        _refuse_error(chunk)
        self.served |= {key: value for key, value in chunk.items() if value is not None}
        self.usage = chunk.get("usage") or self.usage
        choice = _first_choice(chunk)
        if choice is None:
            return
        self.finish_reason = choice.get("finish_reason") or self.finish_reason
        delta = choice.get("delta")
        for name, value in (delta if isinstance(delta, dict) else {}).items():
            if value is None:
                continue
            if name == "tool_calls":
                for piece in value if isinstance(value, list) else ():
                    self._add_call(piece)
            elif name == "role":
                self.parts[name] = value
            else:
                self.parts[name] = _joined(self.parts.get(name), value)

    def message(self) -> dict[str, Any]:
        message = dict(_settled(self.parts))
        if self.calls:
            message["tool_calls"] = [_settled(call) for call in self.calls]
        return message

    def _add_call(self, piece: Any) -> None:
        if not isinstance(piece, dict):
            raise NoAnswer("a piece of tool_calls in the stream is no object")
        call = self._call_of(piece)
        for name, value in piece.items():
            if name in ("index", "id") or value is None:
                continue
            if name == "function":
                if not isinstance(value, dict):
                    raise NoAnswer("a function of tool_calls in the stream is no object")
                self._add_function(call.setdefault("function", {}), value)
            elif name == "type":
                call[name] = value
            else:
                call[name] = _joined(call.get(name), value)

    def _call_of(self, piece: dict[str, Any]) -> dict[str, Any]:
        """The call that a piece belongs to: by index, else the last; a new id begins another."""
        given = piece.get("id")
        index = piece.get("index") if isinstance(piece.get("index"), int) else None
        place = len(self.calls) - 1 if index is None else self.places.get(index)
        known = self.calls[place] if place is not None and place >= 0 else None
        if known is None or (given and known.get("id") and given != known["id"]):
            known = {}
            self.calls.append(known)
            self.places[index] = len(self.calls) - 1
        if given:
            known["id"] = given
        return known

    def _add_function(self, function: dict[str, Any], piece: dict[str, Any]) -> None:
        for name, value in piece.items():
            # some endpoints say the whole name with every piece
            if value is not None and not (name == "name" and _settled(function.get(name)) == value):
                function[name] = _joined(function.get(name), value)


class _Pieces(list[str]):
    """A text that comes in pieces, which are joined once."""


def _joined(before: Any, value: Any) -> Any:
    """Two pieces as one: texts and lists one after the other, anything else anew."""
    if isinstance(value, str):
        pieces = before if isinstance(before, _Pieces) else _Pieces()
        pieces.append(value)
        return pieces
    if isinstance(before, list) and isinstance(value, list):
        return [*before, *value]
    return value


def _settled(value: Any) -> Any:
    """A value with its texts joined."""
    if isinstance(value, _Pieces):
        return "".join(value)
    if isinstance(value, dict):
        return {name: _settled(each) for name, each in value.items()}
    return value


def _events(pieces: Iterable[bytes]) -> Iterator[str]:
    """The data of server-sent events; an event that its blank line does not end is none."""
    data: list[str] = []
    for line in _lines(pieces):
        if not line:
            if data:
                yield "\n".join(data)
            data = []
        elif line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))


def _lines(pieces: Iterable[bytes]) -> Iterator[str]:
    """Lines as they become whole."""
    held: list[bytes] = []
    for piece in pieces:
        *ends, rest = piece.split(b"\n")
        for end in ends:
            line = b"".join([*held, end]).removesuffix(b"\r")
            held = []
            yield line.decode("utf-8", "replace")
        held.append(rest)
