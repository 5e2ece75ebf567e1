"""`ChatClient`: an OpenAI-compatible chat-completions endpoint, asked until it answers.

Needs the package ``openai`` (``pip install "envbench[llm]"``).
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from envbench.environments.chat_answer import Answer
from envbench.environments.chat_endpoint import Endpoint, Trouble
from envbench.environments.chat_text import Secrets, encodable
from envbench.evidence.case import require_name
from envbench.evidence.portable import Json, canonical, parse

if TYPE_CHECKING:
    from envbench.environments.chat_policy import ChatPolicy

_DRAWS: Final = random.Random()
"""Of its own: the caller's random numbers are the caller's."""

_OURS: Final = ("model", "messages", "tools", "stream", "n")
"""Fields of a request that are no settings."""


class ChatFailed(RuntimeError):
    """A model that gave no answer: the failure of its rollout.

    Attributes:
        kind: what went wrong at last: ``status``, ``error`` (the endpoint said so in an answer),
            ``timeout``, ``connection``, ``broken`` (half an answer), ``malformed`` or
            ``time_limit``.
        status: the HTTP status, where there was one.
        tries: each request that failed: ``kind``, ``status``, ``message``, ``latency_ms``, and
            ``wait_ms`` before the next, which the last does not have.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: str,
        status: int | None = None,
        tries: Sequence[dict[str, Json]] = (),
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status
        self.tries = list(tries)


class ChatClient:
    """An OpenAI-compatible endpoint, for `Environment.rollout` and `run_tasks` with ``model=``.

    The key is sent and nothing else: it is in no evidence, identity, message or repr, and neither
    are values of headers; an endpoint that echoes them finds them ``[hidden]``. One client may be
    used by many threads.

    Args:
        base_url: the address of the API, such as ``http://127.0.0.1:8000/v1``; by default the
            variable ``OPENAI_BASE_URL``, else OpenAI's own.
        api_key: the key; by default what the environment variable `api_key_variable` holds. Without
            either no key is sent.
        api_key_variable: names the variable.
        headers: further headers of each request.
        instructions: the system message of each conversation.
        settings: further fields of each request, such as ``{"temperature": 0}``; recorded.
        stream: whether answers come as a stream of pieces, which are put together.
        timeout: seconds for one request. It is given up when nothing comes for so long, and when
            the answer is not whole after so long.
        time_limit: seconds for all requests and waits of an episode together; None for no limit.
        max_retries: how often a request is repeated that met a status 408, 409, 425, 429 or 5xx, a
            connection or stream that broke, a time-out, or what is no answer.
        backoff: seconds before the first repetition, doubled for each further one, up to a quarter
            less at random. ``Retry-After`` of the endpoint goes before.
        max_wait: the longest wait in seconds; an endpoint that asks for more is not asked again.
        echo: further fields of the model's messages that are sent back to it, such as
            ``("reasoning_details",)``. All are recorded.

    Raises:
        ImportError: when the package ``openai`` is not installed.
        TypeError: when an argument is of the wrong type.
        ValueError: when an argument has no meaning.
    """

    def __init__(
        self,
        base_url: str | None = None,
        *,
        api_key: str | None = None,
        api_key_variable: str = "OPENAI_API_KEY",
        headers: Mapping[str, str] | None = None,
        instructions: str | None = None,
        settings: Mapping[str, Any] | None = None,
        stream: bool = False,
        timeout: float = 120.0,
        time_limit: float | None = None,
        max_retries: int = 5,
        backoff: float = 0.5,
        max_wait: float = 60.0,
        echo: Sequence[str] = (),
    ) -> None:
        require_name("api_key_variable", api_key_variable)
        self._at = Endpoint(
            base_url or os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1",
            key=os.environ.get(api_key_variable) if api_key is None else api_key,
            key_variable=api_key_variable,
            headers=headers,
        )
        if instructions is not None and not isinstance(instructions, str):
            raise TypeError(f"instructions must be text, not {type(instructions).__name__}")
        self.instructions = instructions
        self.settings = _require_settings(settings)
        self.stream = bool(stream)
        self.timeout = _require_seconds("timeout", timeout)
        self.time_limit = None if time_limit is None else _require_seconds("time_limit", time_limit)
        if isinstance(max_retries, bool) or not isinstance(max_retries, int) or max_retries < 0:
            raise ValueError(f"max_retries must be an integer from 0, not {max_retries!r}")
        self.max_retries = max_retries
        self.backoff = _require_seconds("backoff", backoff, zero=True)
        self.max_wait = _require_seconds("max_wait", max_wait, zero=True)
        if isinstance(echo, str):
            raise TypeError("echo must be a list of names of fields, not one text")
        self.echo = tuple(echo)

    @property
    def endpoint(self) -> str:
        """The address, as it may be shown: without its query."""
        return self._at.shown

    @property
    def secrets(self) -> Secrets:
        """What must be in no evidence."""
        return self._at.secrets

    def policy(self, *, model: str) -> ChatPolicy:
        """A policy that asks this endpoint for the answers of a model."""
        from envbench.environments.chat_policy import ChatPolicy

        return ChatPolicy(self, model=model)

    def request(self, model: str, messages: Sequence[Any], tools: Sequence[Any]) -> dict[str, Json]:
        """The body of a request."""
        body: dict[str, Json] = {"model": model, "messages": list(messages)}
        if tools:
            body["tools"] = list(tools)
        if self.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        body |= self.settings
        if body.get("stream_options", ...) is None:
            del body["stream_options"]
        return body

    def ask(
        self,
        body: dict[str, Json],
        *,
        seconds: float | None = None,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> Answered:
        """Send a request until it is answered.

        Args:
            body: see `request`.
            seconds: the time for it and all its repetitions; None for no limit.
            is_stopped: asked during waits; true gives up.

        Raises:
            ChatFailed: when there was no answer.
            KeyboardInterrupt: when it was stopped.
        """
        self._at.open()
        begun = time.monotonic()
        end = None if seconds is None else begun + seconds
        tries: list[dict[str, Json]] = []
        while True:
            asked = time.monotonic()
            limit = self.timeout if end is None else min(self.timeout, end - asked)
            if limit <= 0:
                raise self._failed(body, Trouble("time_limit", "no time was left"), tries)
            got = self._at.send(body, limit)
            now = time.monotonic()
            latency = round(1000 * (now - asked), 3)
            if isinstance(got, Answer):
                return Answered(got, tries, latency, round(1000 * (now - begun), 3))
            got = got.within(end, now)
            said = self._told(got.message)
            tries.append({**got.to_dict(), "message": said, "latency_ms": latency})
            wait = self._wait(got, len(tries))
            if wait is None:
                raise self._failed(body, got, tries)
            if end is not None and now + wait >= end:
                told = f"a wait of {wait:g} s is beyond the episode's time; {got.message}"
                raise self._failed(body, Trouble("time_limit", told, got.status), tries)
            tries[-1]["wait_ms"] = round(1000 * wait, 3)
            _sleep(wait, is_stopped)

    def close(self) -> None:
        """Close the connections; the next request opens others. More than once is fine."""
        self._at.close()

    def __enter__(self) -> ChatClient:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<ChatClient {self.endpoint}>"

    def _wait(self, trouble: Trouble, tried: int) -> float | None:
        """Seconds before the next request; None when there is to be none."""
        if not trouble.retry or tried > self.max_retries:
            return None
        if trouble.after is not None:
            return trouble.after if trouble.after <= self.max_wait else None
        full = min(self.backoff * 2.0 ** min(tried - 1, 60), self.max_wait)
        return full * (1 - 0.25 * _DRAWS.random())

    def _failed(
        self, body: dict[str, Json], trouble: Trouble, tries: list[dict[str, Json]]
    ) -> ChatFailed:
        count = len(tries)
        told = f"no answer of model {body['model']!r} after {count} request"
        told += f"{'' if count == 1 else 's'}: {self._told(trouble.message)}"
        if trouble.after is not None and trouble.after > self.max_wait:
            told += f" (it asks for a wait of {trouble.after:g} s; max_wait is {self.max_wait:g})"
        return ChatFailed(told, kind=trouble.kind, status=trouble.status, tries=tries)

    def _told(self, message: str) -> str:
        """A message without secrets; then shortened, so that no half of one is left."""
        text = encodable(self.secrets.hide(message))
        limit = 500
        return text if len(text) <= limit else f"{text[:limit]}… ({len(text):,} characters)"


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer, and what it took to get it.

    Attributes:
        answer: the answer.
        tries: the requests that failed before, see `ChatFailed`.
        latency_ms: milliseconds of the request that was answered.
        elapsed_ms: milliseconds with the requests and waits before.
    """

    answer: Answer
    tries: list[dict[str, Json]] = field(default_factory=list)
    latency_ms: float = 0.0
    elapsed_ms: float = 0.0


def _sleep(seconds: float, is_stopped: Callable[[], bool]) -> None:
    """Wait, in slices, so that it is heard when the run is stopped."""
    end = time.monotonic() + seconds
    while True:
        if is_stopped():
            raise KeyboardInterrupt("the run was stopped")
        left = end - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(left, 0.2))


def _require_settings(settings: Any) -> dict[str, Json]:
    if settings is None:
        return {}
    if not isinstance(settings, Mapping):
        raise TypeError(f"settings must be a mapping, not {type(settings).__name__}")
    for name in _OURS:
        if name in settings:
            raise ValueError(f"settings must not have {name!r}: a policy says it itself")
    try:
        return dict(parse(canonical(dict(settings))))
    except ValueError as error:
        raise ValueError(f"settings must be portable JSON: {error}") from None


def _require_seconds(argument: str, value: Any, *, zero: bool = False) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{argument} must be a number of seconds, not {type(value).__name__}")
    if not (0 <= value < float("inf")) or (value == 0 and not zero):
        raise ValueError(f"{argument} must be a number of seconds above 0, not {value!r}")
    return float(value)
