"""Whatever an endpoint sends is an answer that can be recorded, or is said to be none."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from envbench.environments import ChatClient, ChatPolicy, ToolCall
from envbench.environments.chat_answer import Answer, NoAnswer, read_answer
from envbench.environments.chat_text import Portable
from envbench.environments.conversation import Conversation
from envbench.evidence.portable import canonical

NAMES = st.sampled_from(
    [
        *("choices", "message", "delta", "finish_reason", "index", "usage", "error", "code"),
        *("role", "content", "refusal", "text", "type", "model", "id"),
        *("tool_calls", "function", "name", "arguments", "function_call"),
    ]
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["length", "{", "{}", '{"a": 1}', "\ud800"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(NAMES | st.text(max_size=2), inner, max_size=4)
    ),
    max_leaves=12,
)
CALLS = st.lists(
    st.dictionaries(NAMES, JSON, max_size=4)
    | st.fixed_dictionaries({"id": JSON, "function": st.dictionaries(NAMES, JSON, max_size=3)}),
    max_size=3,
)
MESSAGES = st.dictionaries(NAMES, JSON, max_size=5) | st.fixed_dictionaries({"tool_calls": CALLS})
CHOICES = st.fixed_dictionaries({"message": MESSAGES | JSON, "finish_reason": JSON})
CHUNKS = st.fixed_dictionaries(
    {
        "choices": st.lists(
            st.fixed_dictionaries({"delta": MESSAGES | JSON, "finish_reason": st.none() | JSON}),
            max_size=2,
        )
    },
    optional={"usage": JSON, "id": JSON, "error": JSON},
)

CLIENT = ChatClient("http://127.0.0.1:1")


def read(raw: bytes, kind: str) -> Answer | None:
    try:
        return read_answer([raw], kind)
    except NoAnswer:
        return None


def take_in(answer: Answer | None) -> None:
    """Take an answer into a conversation, and its calls as actions."""
    if answer is None:
        return
    portable = Portable(CLIENT.secrets, str)
    message: Any = portable.value(answer.message)
    talk = Conversation()
    talk.see("What now?")
    talk.hear(message, is_cut=answer.finish_reason == "length")
    count = len(talk.waiting)
    while talk.waiting:
        call = talk.take()
        assert isinstance(call, ToolCall)
        result = {"name": call.name, "arguments": call.arguments, "result": 1, "children": []}
        talk.settle({"tool_calls": [result]})
    ids = [each["id"] for each in talk.messages[1].get("tool_calls", [])]
    assert len(set(ids)) == count
    assert [each["tool_call_id"] for each in talk.messages[2:]] == ids
    canonical([talk.messages, portable.value(answer.usage), portable.value(answer.served)])
    # what is sent back can be sent
    json.dumps(talk.sent, ensure_ascii=False, allow_nan=False).encode()


@given(st.binary(), st.sampled_from(["application/json", "text/event-stream"]))
def test_any_bytes(raw, kind):
    take_in(read(raw, kind))


@given(st.lists(CHOICES, max_size=2), JSON)
def test_any_answer(choices, usage):
    take_in(read(json.dumps({"choices": choices, "usage": usage}).encode(), "application/json"))


@given(st.lists(CHUNKS | JSON, max_size=5))
def test_any_stream(parts):
    raw = b"".join(b"data: %b\n\n" % json.dumps(part).encode() for part in parts)
    take_in(read(raw, "text/event-stream"))


@given(st.lists(st.dictionaries(NAMES, JSON), max_size=4))
@example([{"cost": 1e308}, {"cost": 1e308}])
@example([{"cost": 10**400}, {"cost": 0.5}])
def test_any_usage_has_a_sum(usages):
    policy = ChatPolicy(CLIENT, model="m")
    kept = [Portable(CLIENT.secrets, str).value(usage) for usage in usages]
    said = {"answer": "text", "finish_reason": "stop", "tries": [], "latency_ms": 1.0}
    policy._turns = [{**said, "usage": usage} for usage in kept]
    record = policy.record()
    assert record["turns_without_usage"] == 0
    canonical(record)
