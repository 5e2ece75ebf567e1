from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envbench.environments import ChatClient, ChatFailed
from envbench.environments.chat_answer import NoAnswer, read_answer
from tests.environments.endpoint import (
    USAGE,
    ChatServer,
    Reply,
    body,
    call,
    chunks,
    completion,
    message,
    says,
    streams,
)

STREAM = "text/event-stream; charset=utf-8"


def read(*pieces: bytes, kind: str = "application/json") -> Any:
    return read_answer(iter(pieces), kind)


def streamed(*parts: Any, done: bool = True) -> Any:
    return read(*streams(parts, done=done).pieces, kind=STREAM)


TWO_CALLS = message(
    "Let me see.",
    call("add", {"by": 1, "why": "ünïcode ✓"}, "a"),
    call("fail", "", "b"),
    call("add", '{"by": ', "c"),
    reasoning_content="Count first.",
)


def test_a_whole_answer():
    answer = read(json.dumps(completion(TWO_CALLS)).encode())
    assert answer.message == TWO_CALLS
    assert (answer.finish_reason, answer.usage) == ("tool_calls", USAGE)


def test_the_pieces_of_a_stream_are_the_whole():
    # the arguments of the three calls come in turns
    answer = streamed(*chunks(TWO_CALLS))
    assert answer.message == TWO_CALLS
    assert (answer.finish_reason, answer.usage) == ("tool_calls", USAGE)
    assert answer.served == {"id": "chatcmpl-1", "model": "served-1"}


@given(st.data())
def test_where_a_stream_is_cut_into_pieces_does_not_matter(data):
    text = data.draw(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
    size = data.draw(st.integers(1, 5))
    said = message(text, call("add", text, "a"))
    raw = b"".join(streams(chunks(said, size=size)).pieces)
    if data.draw(st.booleans()):
        raw = raw.replace(b"\n", b"\r\n")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=8)))
    pieces = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    assert read(*pieces, kind=STREAM).message == said


def test_comments_blank_lines_and_events_of_several_lines():
    first, *rest = chunks(message("Hi."))
    spread = json.dumps(first, indent=1).encode().replace(b"\n", b"\ndata:")
    parts = [b": hello\n\n", b"event: x\nid: 3\ndata:" + spread + b"\n\n\n", b"retry: 3\n\n"]
    assert streamed(*parts, *rest).message["content"] == "Hi."


def test_no_usage_is_no_zero():
    assert read(json.dumps(completion(message("Hi."), usage=None)).encode()).usage is None
    assert streamed(*chunks(message("Hi."), usage=None)).usage is None
    # some endpoints say it in every chunk, summed so far
    parts = [
        {**each, "usage": {"total_tokens": i}} for i, each in enumerate(chunks(message("Hi.")))
    ]
    assert streamed(*parts).usage == {"total_tokens": len(parts) - 1}


def piece(**call: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}


END = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}


def test_calls_of_one_index_with_ids_of_their_own_are_several():
    answer = streamed(
        piece(index=0, id="a", function={"name": "add", "arguments": "{}"}),
        piece(index=0, id="b", function={"name": "fail", "arguments": "{"}),
        piece(index=0, id="b", function={"name": "fail", "arguments": "}"}),
        END,
    )
    assert [(each["id"], each["function"]) for each in answer.message["tool_calls"]] == [
        ("a", {"name": "add", "arguments": "{}"}),
        ("b", {"name": "fail", "arguments": "{}"}),
    ]


def test_calls_without_index_or_id_go_to_the_last_one():
    answer = streamed(
        piece(function={"name": "add"}),
        piece(function={"arguments": '{"by"'}),
        piece(function={"arguments": ": 2}"}),
        END,
    )
    assert answer.message["tool_calls"] == [{"function": {"name": "add", "arguments": '{"by": 2}'}}]


def test_long_arguments_come_together():
    text = json.dumps({"text": "x" * 2**20})
    answer = streamed(*chunks(message(None, call("add", text)), size=64))
    assert answer.message["tool_calls"][0]["function"]["arguments"] == text


@pytest.mark.parametrize("end", range(1, 6))
def test_a_stream_that_ends_early_is_no_answer(end):
    parts = chunks(message(None, call("add", {"by": 1})))
    with pytest.raises(NoAnswer, match="the stream ended before the answer did") as raised:
        streamed(*parts[:end], done=False)
    assert raised.value.kind == "broken"
    # nor does an event count that its blank line does not end
    cut = streams(parts[:-1], done=False).pieces
    with pytest.raises(NoAnswer, match="ended before"):
        read(b"".join(cut)[:-1], kind=STREAM)


@pytest.mark.parametrize(
    ("content", "kind", "told"),
    [
        (b"", "malformed", "no JSON but application/json: ''"),
        (b"<!DOCTYPE html><p>Sign in", "malformed", "'<!DOCTYPE html>"),
        (b"\xff\xfe{}", "malformed", "no JSON"),
        (b"{" * 9 + b"x", "malformed", "no JSON"),
        (b"[" * 200_000, "malformed", "no JSON"),
        (b"9" * 5000, "malformed", "no JSON"),
        (b'"text"', "malformed", "no JSON object: '\"text\"'"),
        (b"[]", "malformed", "no JSON object"),
        (b"{}", "malformed", r"no choices\[0\].message: '\{\}'"),
        (b'{"choices": []}', "malformed", "no choices"),
        (b'{"choices": null}', "malformed", "no choices"),
        (b'{"choices": {"0": 1}}', "malformed", "no choices"),
        (b'{"choices": [3, null]}', "malformed", "no choices"),
        (b'{"choices": [{"message": null}]}', "malformed", "no choices"),
        (b'{"choices": [{"message": {"tool_calls": {}}}]}', "malformed", "no list of objects"),
        (b'{"choices": [{"message": {"tool_calls": [3]}}]}', "malformed", "no list of objects"),
        (b'{"choices": [{"message": {"function_call": {"name": "a"}}}]}', "malformed", "before"),
        (b'{"choices": [{"message": {}, "finish_reason": "error"}]}', "error", "'error'"),
        (b'{"error": {"message": "overloaded", "code": 503}}', "error", "says: overloaded"),
        (b'{"error": {"why": 3}}', "error", 'says: {"why": 3}'),
        (b'{"error": "overloaded"}', "error", "says: overloaded"),
    ],
    ids=range(21),
)
def test_what_is_no_answer(content, kind, told):
    with pytest.raises(NoAnswer, match=told) as raised:
        read(content)
    assert raised.value.kind == kind


@pytest.mark.parametrize(
    ("part", "kind", "told"),
    [
        (b"data: {half\n\n", "malformed", "no JSON but text/event-stream: '{half'"),
        (b"data: 3\n\n", "malformed", "no JSON object"),
        ({"error": {"message": "lost the worker", "code": 500}}, "error", "lost the worker"),
        ({"choices": [{"delta": {"tool_calls": [3]}}]}, "malformed", "is no object"),
    ],
    ids=["half", "number", "error", "call"],
)
def test_what_is_no_part_of_a_stream(part, kind, told):
    with pytest.raises(NoAnswer, match=told) as raised:
        streamed(*chunks(message("Hi."))[:2], part)
    assert raised.value.kind == kind


def test_odd_chunks_are_passed_over():
    odd: list[Any] = [{}, {"choices": []}, {"choices": [{"index": 0, "delta": None}]}]
    odd += [{"choices": [{"index": 1, "delta": {"content": "another choice"}}]}]
    odd += [{"choices": [{"index": 0, "delta": {"tool_calls": None, "content": None}}]}]
    assert streamed(*odd, *chunks(message("Hi."))).message["content"] == "Hi."


# -- through a client -----------------------------------------------------------------------------


def client_reads(replies: list[Reply], **options: Any) -> Iterator[Any]:
    """The answers of a client, and the tries that failed before each."""
    with ChatServer(replies) as server, ChatClient(server.url, backoff=0.001, **options) as client:
        answered = client.ask(client.request("m", [], []))
        yield answered.answer.message["content"], [each["kind"] for each in answered.tries]


HTML = Reply(pieces=[b"<html>Sign in</html>"], headers={"Content-Type": "text/html"})


def test_what_is_no_answer_is_asked_for_again():
    whole = says("Hi.")
    (found,) = client_reads([HTML, body({"choices": []}), body({"error": "busy"}), whole])
    assert found == ("Hi.", ["malformed", "malformed", "error"])
    parts = chunks(message("A long answer."))
    broken = streams(parts[:4], done=False, drops=True)
    ended = streams(parts[:4], done=False)
    failing = streams([*parts[:4], {"error": {"message": "lost", "code": 500}}])
    (found,) = client_reads([broken, ended, failing, streams(parts)], stream=True)
    assert found == ("A long answer.", ["broken", "broken", "error"])


def test_an_address_that_is_no_api_says_so_in_the_end():
    with (
        ChatServer(lambda request: HTML) as server,
        ChatClient(server.url, backoff=0.001, max_retries=1) as client,
        pytest.raises(ChatFailed, match="is base_url the address of an OpenAI-compatible API"),
    ):
        client.ask(client.request("m", [], []))


def test_an_error_in_an_answer_that_will_not_pass_is_not_asked_for_again():
    refused = body({"error": {"message": "no such model", "code": 404}})
    with (
        ChatServer([refused]) as server,
        ChatClient(server.url) as client,
        pytest.raises(ChatFailed, match="after 1 request: the endpoint says: no such model"),
    ):
        client.ask(client.request("m", [], []))
