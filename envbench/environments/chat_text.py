"""Texts that go to and come from an endpoint: made portable, and rid of keys."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from envbench.evidence.portable import Json

HIDDEN: Final = "[hidden]"
"""What stands where a key or a header's value was."""

_IN_ERRORS: Final = 4
_IN_ANSWERS: Final = 7
_DEPTH: Final = 60


class Secrets:
    """What must be in no evidence and no message: the key, and the values of headers.

    They are not said by a model that does not know them, but an endpoint may echo them.

    Args:
        values: the secrets; the empty and the very short are none.
    """

    def __init__(self, values: Iterable[str]) -> None:
        # the longest first: one may be a part of another
        self._values = sorted({value.strip() for value in values}, key=len, reverse=True)

    def hide(self, text: str) -> str:
        """A message without any of them of 4 characters or more."""
        return _without(text, [value for value in self._values if len(value) >= _IN_ERRORS])

    def found_in(self, text: str, sent: Callable[[], str]) -> list[str]:
        """Those in a text of the endpoint, of 7 characters or more, that were not sent as content.

        Args:
            text: the text.
            sent: gives the request's body: what stands there is known to the model.
        """
        found = [v for v in self._values if len(v) >= _IN_ANSWERS and v in text]
        if not found:
            return []
        body = sent()
        return [value for value in found if value not in body]


@dataclass(slots=True)
class Portable:
    """Makes values from JSON text portable, and notes what had to be changed.

    Attributes:
        secrets: what is taken out.
        sent: gives the request's body.
        hidden: how many texts lost a secret.
        escaped: how many texts had what UTF-8 cannot hold, or numbers were none.
    """

    secrets: Secrets
    sent: Callable[[], str]
    hidden: int = 0
    escaped: int = 0
    _body: list[str] = field(default_factory=list)

    def value(self, value: Any, depth: int = 0) -> Json:
        """A copy that is portable JSON; what is nested too deeply for evidence becomes text."""
        if isinstance(value, str):
            return self.text(value)
        if depth > _DEPTH and isinstance(value, (dict, list)):
            self.escaped += 1
            return self.text(json.dumps(value, ensure_ascii=False))
        if isinstance(value, dict):
            return {self.text(str(key)): self.value(each, depth + 1) for key, each in value.items()}
        if isinstance(value, list):
            return [self.value(each, depth + 1) for each in value]
        if isinstance(value, float) and not math.isfinite(value):
            self.escaped += 1
            return str(value)
        return value

    def text(self, text: str) -> str:
        """A text that UTF-8 can hold, with lone surrogates escaped, and without secrets."""
        plain = encodable(text)
        self.escaped += plain != text
        found = self.secrets.found_in(plain, self._sent_once)
        self.hidden += bool(found)
        return _without(plain, found)

    def _sent_once(self) -> str:
        if not self._body:
            self._body.append(self.sent())
        return self._body[0]


def encodable(text: str) -> str:
    r"""A text with lone surrogates escaped, as ``\ud800``; any other as it is."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _without(text: str, values: Iterable[str]) -> str:
    for value in values:
        text = text.replace(value, HIDDEN)
    return text
