"""`Endpoint`: an address, a key and headers, and one request to it.

The package ``openai`` sends the requests; it is imported when the first endpoint is made.
"""

from __future__ import annotations

import email.utils
import importlib
import threading
import time
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from envbench.environments.chat_answer import (
    Answer,
    NoAnswer,
    error_text,
    read_answer,
)
from envbench.environments.chat_text import Secrets
from envbench.evidence.case import require_name
from envbench.evidence.portable import Json
from envbench.evidence.tagged import describe_error

if TYPE_CHECKING:
    from openai import OpenAI


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a request was not answered, and whether it is worth another.

    Attributes:
        kind: see `chat_client.ChatFailed`.
        message: what went wrong; may hold secrets.
        status: the HTTP status, where there was one.
        retry: whether it may go better the next time.
        after: the seconds that the endpoint asks to wait.
    """

    kind: str
    message: str
    status: int | None = None
    retry: bool = True
    after: float | None = None

    def to_dict(self) -> dict[str, Json]:
        """What is recorded of it."""
        return {"kind": self.kind, "status": self.status, "message": self.message}

    def within(self, end: float | None, now: float) -> Trouble:
        """The same, where the time of all requests is not used up."""
        if self.kind != "timeout" or end is None or now < end:
            return self
        return Trouble("time_limit", self.message, retry=False)


class Endpoint:
    """Where requests go, and what goes with each.

    Args:
        address: of the API, without the path of chat completions.
        key: the key, or None to send none.
        key_variable: the environment variable that a message names where a key was wanted.
        headers: further headers.

    Attributes:
        shown: the address without its query.
        secrets: the key, the values of headers and those of the address's query.

    Raises:
        ImportError: when ``openai`` is not installed.
        TypeError: when an argument is of the wrong type.
        ValueError: when the address is none, or a header cannot hold a value.
    """

    _lock: threading.Lock
    _made: OpenAI | None
    _close: weakref.finalize[Any, Any] | None

    def __init__(
        self,
        address: str,
        *,
        key: str | None,
        key_variable: str,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        require_openai()
        self._address, self._query = _require_address(address)
        self._key = "" if key is None else _require_header("api_key", key)
        self._key_variable = key_variable
        self._headers = _require_headers(headers)
        self.secrets = Secrets([self._key, *self._headers.values(), *self._query.values()])
        self.shown = self.secrets.hide(self._address)
        self._begin()

    def open(self) -> None:
        """Make ready to send, which takes a moment the first time."""
        self._create()

    def send(self, body: dict[str, Json], limit: float) -> Answer | Trouble:
        """Send a request once.

        What goes wrong is a value, so that no exception carries the key along.

        Args:
            body: the request.
            limit: seconds until the answer must be whole.
        """
        openai = require_openai()
        end = time.monotonic() + limit
        headers: dict[str, Any] = dict(self._headers)
        if not self._key:
            headers.setdefault("Authorization", openai.Omit())
        try:
            # the body goes as it is: what the package would make of the messages takes longer
            # than the answer, for a long conversation
            with self._create()(
                model=str(body["model"]),
                messages=[],
                extra_body=body,
                extra_headers=headers,
                timeout=limit,
            ) as response:
                kind = response.headers.get("content-type") or ""
                return read_answer(_in_time(response.iter_bytes(), end), kind)
        except NoAnswer as error:
            retry = error.kind != "error" or error.status is None or _is_passing(error.status)
            return Trouble(error.kind, str(error), error.status, retry)
        except _TooLate as error:
            return Trouble("timeout", f"the answer was not whole after {limit:g} s: {error}")
        except openai.APITimeoutError:
            return Trouble("timeout", f"nothing came for {limit:g} s")
        except openai.APIConnectionError as error:
            return Trouble("connection", _cause(error))
        except openai.APIStatusError as error:
            return self._refused(error)
        except _Broken as error:
            return Trouble("broken", str(error))
        except Exception as error:
            # the body of a refusal that breaks off is the one thing that the package does not wrap
            if not type(error).__module__.startswith("httpx"):
                raise
            return Trouble("broken", f"{type(error).__name__}: {describe_error(error)}")

    def close(self) -> None:
        """Close the connections; the next request opens others."""
        with self._lock:
            if self._close is not None:
                self._close()
            self._made = self._close = None

    def __getstate__(self) -> dict[str, Any]:
        # locks and connections stay here
        left = ("_lock", "_made", "_close")
        return {name: value for name, value in vars(self).items() if name not in left}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._begin()

    def __repr__(self) -> str:
        return f"<Endpoint {self.shown}>"

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._made = self._close = None

    def _refused(self, error: Any) -> Trouble:
        """What an answer with a status of 4xx or 5xx comes to."""
        body = error.body
        said = body.get("error", body) if isinstance(body, dict) else body
        code = said.get("code") if isinstance(said, dict) else None
        text = error_text(said) if said else error.response.text
        if 300 <= error.status_code < 400:
            place = error.response.headers.get("location", "nowhere")
            text = f"redirected to {place}, which is not followed: is that the base_url to give?"
        if error.status_code == 401 and not self._key:
            text += f" (no key was given: api_key=, or the variable {self._key_variable})"
        wanted = error.response.headers.get("x-should-retry")
        retry = wanted == "true" if wanted in ("true", "false") else _is_passing(error.status_code)
        return Trouble(
            "status",
            f"status {error.status_code}: {text}",
            error.status_code,
            # a quota that is used up comes as a 429 too
            retry and code != "insufficient_quota",
            _retry_after(error.response.headers),
        )

    def _create(self) -> Any:
        return self._connected().chat.completions.with_streaming_response.create

    def _connected(self) -> OpenAI:
        with self._lock:
            if self._made is None:
                openai = require_openai()
                made: OpenAI = openai.OpenAI(
                    base_url=self._address,
                    default_query=self._query,
                    api_key=self._key or "none",  # it insists on one, also where none is sent
                    max_retries=0,
                    http_client=openai.DefaultHttpxClient(
                        # the package would take the headers along to another host
                        follow_redirects=False,
                        # no proxy knows the way to this machine itself
                        trust_env=not _is_loopback(urlsplit(self._address).hostname),
                    ),
                )
                self._made = made
                self._close = weakref.finalize(self, made.close)
            return self._made


class _TooLate(Exception):
    """A body that takes too long."""


class _Broken(Exception):
    """A body that does not come to its end."""


def _in_time(pieces: Iterator[bytes], end: float) -> Iterator[bytes]:
    """The pieces of a body until a time."""
    taken = 0
    while True:
        try:
            piece = next(pieces)
        except StopIteration:
            return
        except Exception as error:  # of whatever carries the bytes
            if "timeout" in type(error).__name__.lower():
                raise _TooLate(f"{taken:,} bytes had come") from None
            raise _Broken(
                f"the answer broke off after {taken:,} bytes: {type(error).__name__}:"
                f" {describe_error(error)}"
            ) from None
        taken += len(piece)
        yield piece
        if time.monotonic() > end:
            raise _TooLate(f"{taken:,} bytes had come")


def _is_passing(status: int) -> bool:
    """Whether an HTTP status is one that may be another the next time."""
    return status in (408, 409, 425, 429) or status >= 500


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds that an endpoint asks to wait: a number of them, or a date."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        given = headers.get(name)
        if given is None:
            continue
        try:
            seconds = float(given) * unit
        except ValueError:
            try:
                seconds = email.utils.parsedate_to_datetime(given).timestamp() - time.time()
            except (TypeError, ValueError):
                continue
        if seconds == seconds:  # no NaN
            return max(0.0, seconds)
    return None


def _cause(error: BaseException) -> str:
    cause = error.__cause__ or error
    return f"{type(cause).__name__}: {describe_error(cause)}"


def require_openai() -> Any:
    """The package ``openai``.

    Raises:
        ImportError: when it is not installed, saying what to install.
    """
    try:
        return importlib.import_module("openai")
    except ImportError as error:
        raise ImportError(
            "ChatClient and ChatPolicy need the package openai: pip install 'envbench[llm]'"
        ) from error


def _require_address(given: Any) -> tuple[str, dict[str, str]]:
    """An address without its query, and the query."""
    if not isinstance(given, str):
        raise TypeError(f"base_url must be text, not {type(given).__name__}")
    parts = urlsplit(given.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("base_url must begin with http:// or https:// and name a host")
    if parts.username is not None or parts.password is not None:
        raise ValueError("base_url must hold no name and password: give api_key= or headers=")
    return f"{parts.scheme}://{parts.netloc}{parts.path}", dict(parse_qsl(parts.query))


def _is_loopback(host: str | None) -> bool:
    return host in ("localhost", "::1") or str(host).startswith("127.")


def _require_headers(headers: Any) -> dict[str, str]:
    if headers is None:
        return {}
    if not isinstance(headers, Mapping):
        raise TypeError(f"headers must be a mapping, not {type(headers).__name__}")
    found = {}
    for name, value in headers.items():
        require_name("the name of a header", name)
        # spelled as the package does, which would send both spellings
        spelled = name.title() if name.lower() in _SPELLED else name
        found[spelled] = _require_header(f"headers[{name!r}]", value)
    return found


_SPELLED = ("accept", "authorization", "content-type", "user-agent")


def _require_header(argument: str, value: Any) -> str:
    """A value that a header can hold; messages do not say it."""
    if not isinstance(value, str):
        raise TypeError(f"{argument} must be text, not {type(value).__name__}")
    text = value.strip()
    if not text.isascii() or not text.isprintable():
        raise ValueError(f"{argument} holds a character that no HTTP header can hold")
    return text
