from __future__ import annotations

import email.utils
import gzip
import json
import os
import pickle
import subprocess
import sys
import time
import zlib
from typing import Any

import pytest

from envbench.environments import ChatClient, ChatFailed, ChatPolicy
from tests.environments.endpoint import (
    ChatServer,
    Reply,
    body,
    chunks,
    completion,
    message,
    refusing,
    says,
    streams,
)
from tests.environments.worlds import Counter, counting

QUICK: dict[str, Any] = {"backoff": 0.001, "max_retries": 3}


def ask(client: ChatClient, content: str = "Hello?", **more: Any) -> Any:
    """One question, without an environment."""
    request = client.request("m", [{"role": "user", "content": content}], [])
    return client.ask(request, **more)


def refusal_of(script: Any, **options: Any) -> tuple[ChatFailed, int]:
    """How a client fails, and how many requests it took."""
    with ChatServer(script) as server, ChatClient(server.url, **{**QUICK, **options}) as client:
        with pytest.raises(ChatFailed) as raised:
            ask(client)
        return raised.value, len(server.requests)


def test_a_request_says_what_it_should():
    settings = {"temperature": 0, "vendor": {"route": "fast"}}
    with (
        ChatServer([says("Hi.")]) as server,
        ChatClient(server.url, settings=settings) as client,
    ):
        answered = ask(client)
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/v1/chat/completions")
    assert request.body == {
        "model": "m",
        "messages": [{"role": "user", "content": "Hello?"}],
        "temperature": 0,
        "vendor": {"route": "fast"},
    }
    assert answered.answer.message == {"role": "assistant", "content": "Hi."}
    assert answered.answer.finish_reason == "stop"
    assert answered.answer.served == {"id": "chatcmpl-1", "model": "served-1"}
    assert answered.tries == []
    assert 0 < answered.latency_ms <= answered.elapsed_ms


# -- key and headers ------------------------------------------------------------------------------


def sent_with(**options: Any) -> dict[str, str]:
    """The headers of a request, by their names in lower case."""
    with ChatServer([says("Hi.")]) as server, ChatClient(server.url, **options) as client:
        ask(client)
    return {name.lower(): value for name, value in server.requests[0].headers.items()}


def test_the_key_is_given_or_from_the_environment(monkeypatch):
    assert "authorization" not in sent_with()
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-the-environment\n")
    monkeypatch.setenv("VENDOR_KEY", "key-of-the-vendor")
    assert sent_with()["authorization"] == "Bearer key-of-the-environment"
    assert sent_with(api_key="key-given")["authorization"] == "Bearer key-given"
    vendor = sent_with(api_key_variable="VENDOR_KEY")
    assert vendor["authorization"] == "Bearer key-of-the-vendor"
    assert "authorization" not in sent_with(api_key="")


def test_headers_are_sent_with_each_request():
    sent = sent_with(headers={"X-Plural-Environment": "refunds", "user-agent": "mine"})
    assert (sent["x-plural-environment"], sent["user-agent"]) == ("refunds", "mine")
    own = sent_with(headers={"authorization": "Token 17"}, api_key="key-given")
    assert own["authorization"] == "Token 17"
    assert sent_with(headers={"authorization": "Token 17"})["authorization"] == "Token 17"


def test_the_address_may_come_from_the_environment(monkeypatch):
    with ChatServer([says("Hi.")]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        with ChatClient() as client:
            assert client.endpoint == server.url
            assert ask(client).answer.message["content"] == "Hi."
    monkeypatch.delenv("OPENAI_BASE_URL")
    assert ChatClient().endpoint == "https://api.openai.com/v1"


KEY, TOKEN, QUERY = "sk-secret-0123456789", "token-of-a-gateway", "query-credential"


def echoing(request: Any) -> Reply:
    """What an endpoint with bad manners says."""
    told = " ".join([*request.headers.values(), request.path])
    return refusing(401, f"who is {told}?")


def test_no_error_or_repr_has_the_key_or_a_header_s_value(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with ChatServer(echoing) as server:
        address = f"{server.url}?key={QUERY}"
        with ChatClient(address, headers={"X-Gateway": TOKEN}) as client:
            with pytest.raises(ChatFailed) as raised:
                ask(client)
            assert server.requests[0].path == f"/v1/chat/completions?key={QUERY}"
            shown = [repr(client), str(raised.value), repr(raised.value), repr(raised.value.tries)]
            shown += [client.endpoint, repr(client.policy(model="m")), repr(vars(client))]
    assert KEY.encode() in server.received
    assert TOKEN.encode() in server.received
    for text in shown:
        assert not any(secret in text for secret in (KEY, TOKEN, QUERY))
    assert "who is" in str(raised.value)
    assert "Bearer [hidden]" in str(raised.value)
    # nothing that the exception carries along has it either
    assert (raised.value.__cause__, raised.value.__context__) == (None, None)


def test_a_secret_at_the_end_of_a_long_message_leaves_no_half_behind():
    failed, _ = refusal_of([refusing(400, "x" * 490 + KEY)], api_key=KEY)
    assert "sk-" not in str(failed)
    assert "x" * 400 in str(failed)


def test_a_missing_key_is_named():
    failed, _ = refusal_of([refusing(401, "no key")])
    assert str(failed) == (
        "no answer of model 'm' after 1 request: status 401: no key"
        " (no key was given: api_key=, or the variable OPENAI_API_KEY)"
    )
    failed, _ = refusal_of([refusing(401, "bad key")], api_key="key-given")
    assert str(failed).endswith("status 401: bad key")


def test_neither_key_nor_headers_follow_a_redirection():
    with ChatServer([says("Hi.")]) as other:
        away = Reply(307, headers={"Location": f"{other.url}/chat/completions"})
        failed, requests = refusal_of([away], api_key=KEY, headers={"X-Gateway": TOKEN})
        assert (failed.status, requests, other.received) == (307, 1, b"")
    assert f"status 307: redirected to {other.url}/chat/completions, which is not" in str(failed)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_an_answer_may_be_compressed(encoding):
    text = json.dumps(completion(message("Hi." * 1000))).encode()
    packed = gzip.compress(text) if encoding == "gzip" else zlib.compress(text)
    whole = Reply(pieces=[packed], headers={"Content-Encoding": encoding})
    broken = Reply(pieces=[b"not " + packed], headers={"Content-Encoding": encoding})
    with ChatServer([broken, whole]) as server, ChatClient(server.url, **QUICK) as client:
        answered = ask(client)
    assert answered.answer.message["content"] == "Hi." * 1000
    assert [each["kind"] for each in answered.tries] == ["broken"]


@pytest.mark.parametrize("status", [200, 204])
def test_an_empty_answer_of_http_is_no_answer(status):
    failed, requests = refusal_of([Reply(status), says("Hi.")], max_retries=0)
    assert (failed.kind, requests) == ("malformed", 1)


# -- repetitions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_a_status_that_may_pass_is_tried_again(status):
    script = [refusing(status, "busy"), refusing(status, "busy"), says("Hi.")]
    with ChatServer(script) as server, ChatClient(server.url, **QUICK) as client:
        answered = ask(client)
    assert answered.answer.message["content"] == "Hi."
    assert [(each["kind"], each["status"], each["message"]) for each in answered.tries] == [
        ("status", status, f"status {status}: busy")
    ] * 2
    assert all(each["wait_ms"] <= 2 for each in answered.tries)
    assert len(server.requests) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
def test_a_status_that_stays_is_not_tried_again(status):
    failed, requests = refusal_of([refusing(status, "bad tools")])
    assert (failed.kind, failed.status, requests) == ("status", status, 1)
    assert f"after 1 request: status {status}: bad tools" in str(failed)


def test_repetitions_come_to_an_end():
    failed, requests = refusal_of(lambda request: refusing(503, "down"))
    assert (requests, failed.status, len(failed.tries)) == (4, 503, 4)
    assert str(failed) == "no answer of model 'm' after 4 requests: status 503: down"
    assert ["wait_ms" in each for each in failed.tries] == [True, True, True, False]
    failed, requests = refusal_of(lambda request: refusing(503, "down"), max_retries=0)
    assert requests == 1


def test_waits_double_up_to_the_longest():
    options = {"backoff": 0.002, "max_retries": 4, "max_wait": 0.006}
    failed, _ = refusal_of(lambda request: refusing(500), **options)
    waits = [each["wait_ms"] for each in failed.tries[:-1]]
    for wait, full in zip(waits, [2, 4, 6, 6], strict=True):
        assert 0.75 * full <= wait <= full


def test_what_the_endpoint_asks_to_wait_goes_before():
    soon = email.utils.formatdate(time.time() - 5, usegmt=True)
    script = [
        refusing(429, Retry_After="0.002"),
        refusing(429, retry_after_ms="3", Retry_After="50"),
        refusing(503, Retry_After=soon),
        refusing(503, Retry_After="soon"),
        says("Hi."),
    ]
    options = {**QUICK, "backoff": 0.004, "max_retries": 4}
    with ChatServer(script) as server, ChatClient(server.url, **options) as client:
        waits = [each["wait_ms"] for each in ask(client).tries]
    assert waits[:3] == [2, 3, 0]
    assert 24 <= waits[3] <= 32  # what cannot be read is no wish: the fourth wait of its own


def test_a_wait_beyond_the_longest_ends_it():
    failed, requests = refusal_of([refusing(429, "later", Retry_After="3600")])
    assert requests == 1
    assert str(failed) == (
        "no answer of model 'm' after 1 request: status 429: later (it asks for a wait of"
        " 3600 s; max_wait is 60)"
    )
    # a date far away, and what is no number
    far = email.utils.formatdate(time.time() + 9000, usegmt=True)
    assert refusal_of([refusing(429, Retry_After=far)])[1] == 1
    assert refusal_of([refusing(429, Retry_After="inf")])[1] == 1


def test_what_the_endpoint_says_of_trying_again_is_believed():
    assert refusal_of([refusing(503, x_should_retry="false")])[1] == 1
    script = [refusing(400, x_should_retry="true"), says("Hi.")]
    with ChatServer(script) as server, ChatClient(server.url, **QUICK) as client:
        assert len(ask(client).tries) == 1
    quota = body({"error": {"message": "pay", "code": "insufficient_quota"}}, status=429)
    failed, requests = refusal_of([quota])
    assert (requests, str(failed).endswith("status 429: pay")) == (1, True)


@pytest.mark.parametrize(
    ("reply", "kind", "message"),
    [
        (Reply(silent=True), "connection", "RemoteProtocolError"),
        (Reply(pieces=[b'{"choices": [{"ind'], drops=True), "broken", "broke off after 18 bytes"),
        (Reply(500, [b"hal"], drops=True), "broken", "RemoteProtocolError"),
        (Reply(silent=True, hangs=True), "timeout", "nothing came for 0.5 s"),
        (Reply(pieces=[b"{"], hangs=True), "timeout", "was not whole after 0.5 s: 1 bytes"),
    ],
    ids=["dropped", "half", "half-an-error", "silent", "stuck"],
)
def test_a_connection_that_fails_is_tried_again(reply, kind, message):
    replies = [reply]
    with (
        ChatServer(lambda request: replies.pop() if replies else says("Hi.")) as server,
        # a machine that is busy may miss the time more than once
        ChatClient(server.url, timeout=0.5, backoff=0.001, max_retries=50) as client,
    ):
        answered = ask(client)
    tried = answered.tries[0]
    assert (tried["kind"], answered.answer.message["content"]) == (kind, "Hi.")
    assert message in tried["message"]


def test_an_address_where_nobody_is_is_an_error_of_connection():
    with ChatServer([]) as server:
        url = server.url
    with ChatClient(url, **QUICK) as client, pytest.raises(ChatFailed) as raised:
        ask(client)
    assert (raised.value.kind, len(raised.value.tries)) == ("connection", 4)
    assert "ConnectError" in str(raised.value)


# -- time -----------------------------------------------------------------------------------------


def dripping() -> Any:
    """Comments without end, as endpoints send them to keep a connection."""
    while True:
        yield b": still thinking\n\n"
        time.sleep(0.002)


def test_an_answer_that_comes_for_ever_is_given_up():
    headers = {"Content-Type": "text/event-stream"}
    failed, _ = refusal_of(
        lambda request: Reply(pieces=dripping(), headers=headers),
        timeout=0.1,
        max_retries=5,
        stream=True,
    )
    assert {each["kind"] for each in failed.tries} == {"timeout"}
    # a machine that is busy may miss the beginning of one or the other
    assert any("not whole after 0.1 s" in each["message"] for each in failed.tries)


def test_an_answer_that_is_too_large_is_not_taken_in():
    def much() -> Any:
        for _ in range(70):
            yield b" " * 2**20

    failed, requests = refusal_of(lambda request: Reply(pieces=much()), max_retries=0)
    assert (failed.kind, requests) == ("malformed", 1)
    assert "more than 67,108,864 bytes" in str(failed)


def test_the_time_of_an_episode_ends_its_repetitions():
    with (
        ChatServer(lambda request: refusing(503, "down")) as server,
        ChatClient(server.url, backoff=30, max_retries=9) as client,
    ):
        with pytest.raises(
            ChatFailed, match=r"is beyond the episode's time; status 503: down"
        ) as r:
            ask(client, seconds=5)
        assert (r.value.kind, len(r.value.tries)) == ("time_limit", 1)
        with pytest.raises(ChatFailed, match="after 0 requests: no time was left") as r:
            ask(client, seconds=0)
        assert (r.value.kind, r.value.tries) == ("time_limit", [])


def test_the_time_of_an_episode_ends_a_request():
    with (
        ChatServer([Reply(silent=True, hangs=True)]) as server,
        ChatClient(server.url, **QUICK) as client,
    ):
        with pytest.raises(ChatFailed, match="nothing came for") as raised:
            ask(client, seconds=0.2)
        assert (raised.value.kind, len(raised.value.tries)) == ("time_limit", 1)


def test_the_time_limit_counts_all_answers_of_an_episode():
    # each answer takes as long as the whole episode may
    def late(request: Any) -> Reply:
        def pieces() -> Any:
            time.sleep(0.06)
            yield from says("", message_call()).pieces

        return Reply(pieces=pieces())

    with ChatServer(late) as server, ChatClient(server.url, time_limit=0.1) as client:
        rollout = Counter().rollout(counting(9), client, model="m")
    assert (rollout.stop_reason, len(rollout.trace.steps) <= 1) == ("failure", True)
    assert rollout.episode.errors[0]["type"] == "ChatFailed"
    policy = rollout.episode.data["provenance"]["labels"]["policy"]
    assert policy["turns"][-1]["answer"] == "none"


def message_call() -> dict[str, Any]:
    return {"id": "1", "type": "function", "function": {"name": "add", "arguments": "{}"}}


# -- arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"base_url": 3}, TypeError, "base_url must be text, not int"),
        ({"base_url": "localhost:8000"}, ValueError, "base_url must begin with http"),
        ({"base_url": "http://"}, ValueError, "name a host"),
        ({"base_url": "http://me:word@host"}, ValueError, "no name and password"),
        ({"api_key": 3}, TypeError, "api_key must be text, not int"),
        ({"api_key": "a\nb"}, ValueError, "api_key holds a character that no HTTP header"),
        ({"api_key": "schlüssel"}, ValueError, "api_key holds a character"),
        ({"api_key_variable": ""}, ValueError, "api_key_variable must not be blank"),
        ({"headers": [("a", "b")]}, TypeError, "headers must be a mapping, not list"),
        ({"headers": {"a": 3}}, TypeError, r"headers\['a'\] must be text, not int"),
        ({"headers": {"": "3"}}, ValueError, "the name of a header must not be blank"),
        ({"headers": {"a": "b\r\nc: d"}}, ValueError, r"headers\['a'\] holds a character"),
        ({"instructions": 3}, TypeError, "instructions must be text, not int"),
        ({"settings": [1]}, TypeError, "settings must be a mapping, not list"),
        ({"settings": {"messages": []}}, ValueError, "settings must not have 'messages'"),
        ({"settings": {"n": 2}}, ValueError, "settings must not have 'n'"),
        ({"settings": {"stop": object()}}, ValueError, "settings must be portable JSON: /stop"),
        ({"timeout": 0}, ValueError, "timeout must be a number of seconds above 0"),
        ({"timeout": True}, TypeError, "timeout must be a number of seconds, not bool"),
        ({"time_limit": float("nan")}, ValueError, "time_limit must be a number"),
        ({"max_retries": -1}, ValueError, "max_retries must be an integer from 0, not -1"),
        ({"max_retries": True}, ValueError, "max_retries must be an integer"),
        ({"backoff": -1}, ValueError, "backoff must be a number of seconds"),
        ({"max_wait": "1"}, TypeError, "max_wait must be a number of seconds, not str"),
        ({"echo": "reasoning"}, TypeError, "echo must be a list of names"),
    ],
)
def test_what_has_no_meaning_is_refused(options, error, message):
    with pytest.raises(error, match=message) as raised:
        ChatClient(**{"base_url": "http://127.0.0.1:1", **options})
    assert "word" not in str(raised.value).replace("password", "")
    assert "schl" not in str(raised.value)


def test_a_client_is_copied_without_its_connections(monkeypatch):
    with ChatServer([says("One."), says("Two.")]) as server:
        with ChatClient(server.url, api_key=KEY, settings={"seed": 1}) as client:
            ask(client)
            copied = pickle.loads(pickle.dumps(client))
        with copied:
            assert ask(copied).answer.message["content"] == "Two."
        assert server.requests[1].body["seed"] == 1
        assert server.requests[1].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_an_endpoint_on_this_machine_is_reached_past_a_proxy(host, monkeypatch):
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with ChatServer([]) as proxy, ChatServer([says("Hi.")]) as server:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url.removesuffix("/v1"))
        with ChatClient(server.url.replace("127.0.0.1", host), **QUICK) as client:
            assert ask(client).answer.message["content"] == "Hi."
    assert proxy.received == b""


def test_a_closed_client_opens_again():
    with ChatServer([says("One."), says("Two.")]) as server:
        client = ChatClient(server.url)
        client.close()
        for text in ("One.", "Two."):
            assert ask(client).answer.message["content"] == text
            client.close()
            client.close()


def test_the_caller_s_random_numbers_are_left_alone():
    import random

    random.seed(3)
    expected = random.random()
    random.seed(3)
    refusal_of(lambda request: refusing(503, "down"))
    assert random.random() == expected


# -- streams --------------------------------------------------------------------------------------


def test_a_stream_asks_for_its_usage_unless_told_otherwise():
    script = [streams(chunks(message("Hi."))) for _ in range(2)]
    with ChatServer(script) as server:
        with ChatClient(server.url, stream=True) as client:
            assert ask(client).answer.usage["total_tokens"] == 12
        with ChatClient(server.url, stream=True, settings={"stream_options": None}) as client:
            ask(client)
    first, second = (request.body for request in server.requests)
    assert (first["stream"], first["stream_options"]) == (True, {"include_usage": True})
    assert (second["stream"], "stream_options" in second) == (True, False)


def test_an_endpoint_that_does_not_stream_is_understood_and_one_that_does_unasked():
    script = [body(completion(message("Whole."))), streams(chunks(message("Pieces.")))]
    with (
        ChatServer(script) as server,
        ChatClient(server.url, stream=True) as streaming,
        ChatClient(server.url) as whole,
    ):
        assert ask(streaming).answer.message["content"] == "Whole."
        assert ask(whole).answer.message["content"] == "Pieces."


# -- the package ----------------------------------------------------------------------------------


def test_a_missing_package_is_one_clear_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    message = r"need the package openai: pip install 'envbench\[llm\]'"
    with pytest.raises(ImportError, match=message):
        ChatClient("http://127.0.0.1:1")
    with pytest.raises(ImportError, match=message):
        ChatPolicy(model="m", base_url="http://127.0.0.1:1")


def test_the_package_is_not_imported_before_it_is_needed():
    code = (
        "import sys, envbench, envbench.environments as e\n"
        "assert 'openai' not in sys.modules\n"
        "e.ChatPolicy, e.ChatClient, e.ChatFailed\n"
        "assert 'openai' not in sys.modules\n"
        "e.ChatClient('http://127.0.0.1:1')\n"
        "assert 'openai' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ})
