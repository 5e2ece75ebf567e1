from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest

from envbench import EpisodeEvidence, connect
from envbench.environments import (
    ChatClient,
    ChatPolicy,
    Environment,
    Observation,
    Policy,
    Rollout,
    State,
    TaskData,
    ToolCall,
    tool,
)
from envbench.evidence.portable import canonical
from tests.environments.endpoint import (
    USAGE,
    ChatServer,
    Reply,
    body,
    call,
    chunks,
    completion,
    message,
    refusing,
    says,
    streams,
)
from tests.environments.worlds import Counter, CounterObservation, counting

ADD = call("add")


def play(
    script: Any, *, goal: int = 3, env: Environment[Any, Any] | None = None, **options: Any
) -> tuple[Rollout, dict[str, Any], ChatServer]:
    """A rollout by a model, what its policy recorded, and the endpoint."""
    world = env or Counter()
    with ChatServer(script) as server:
        with ChatClient(server.url, **{"backoff": 0.001, "max_retries": 2, **options}) as client:
            rollout = world.rollout(counting(goal), client, model="m")
        world.close()
    return rollout, rollout.episode.data["provenance"]["labels"]["policy"], server


def calls_of(rollout: Rollout) -> list[tuple[Any, Any]]:
    """Each action, and what came of it."""
    return [
        (
            step.action if isinstance(step.action, str) else step.action["arguments"],
            [each.get("result", each.get("error", {}).get("kind")) for each in step.tool_calls],
        )
        for step in rollout.trace.steps
    ]


def gaps(rollout: Rollout) -> list[str]:
    """What is missing in the evidence, other than the end that its case expects."""
    return [each for each in rollout.episode.coverage_issues if not each.startswith("ending: ")]


# -- the conversation -----------------------------------------------------------------------------


def test_tools_observations_and_results_reach_the_model():
    rollout, record, server = play([says(None, ADD), says("Enough.")], instructions="Count.")
    assert (rollout.stop_reason, calls_of(rollout)) == (
        "policy_stop",
        [({}, [1]), ("Enough.", [])],
    )
    assert rollout.env.answer == "Enough."
    first, second = (request.body for request in server.requests)
    assert first["model"] == "m"
    assert first["tools"][0] == {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Count up.",
            "parameters": Counter().tools[0].schema,
        },
    }
    assert first["messages"] == [
        {"role": "system", "content": "Count."},
        {"role": "user", "content": "Count to 3: 0"},
    ]
    assert second["messages"] == [
        *first["messages"],
        {"role": "assistant", "content": None, "tool_calls": [ADD]},
        {"role": "tool", "tool_call_id": "call_add", "content": "1"},
        {"role": "user", "content": "Count to 3: 1"},
    ]
    assert record["messages"] == [
        *second["messages"],
        {"role": "assistant", "content": "Enough."},
    ]


def test_an_observation_that_did_not_change_is_not_shown_again():
    script = [says(None, call("nothing")), says(None, call("nothing", id_="b")), says("No.")]
    _, record, _ = play(script)
    assert [each["role"] for each in record["messages"]] == [
        *("user", "assistant", "tool", "assistant", "tool", "assistant")
    ]


def test_several_calls_of_one_answer_are_taken_one_after_the_other():
    script = [says("So:", ADD, call("fail"), call("add", {"by": 5}, "c")), says("Done.")]
    rollout, _, server = play(script, goal=9)
    assert calls_of(rollout) == [({}, [1]), ({}, ["raised"]), ({"by": 5}, [7]), ("Done.", [])]
    assert server.requests[1].messages[2:] == [
        {"role": "tool", "tool_call_id": "call_add", "content": "1"},
        {
            "role": "tool",
            "tool_call_id": "call_fail",
            "content": "ValueError: counted and failed",
        },
        {"role": "tool", "tool_call_id": "c", "content": "7"},
        {"role": "user", "content": "Count to 9: 7"},
    ]
    assert len(server.requests) == 2


def test_the_last_result_is_in_the_conversation_and_calls_left_over_are_said():
    rollout, record, _ = play([says(None, ADD, call("add", id_="b"), ADD)], goal=1)
    assert (rollout.stop_reason, len(rollout.trace.steps)) == ("terminated", 1)
    assert record["messages"][-1] == {
        "role": "tool",
        "tool_call_id": "call_add",
        "content": "1",
    }
    assert (
        "note: 2 tool calls of the last answer not taken: the episode ended before"
        in (rollout.episode.data["issues"])
    )
    assert gaps(rollout) == []


def test_a_step_that_came_to_nothing_has_no_result():
    class Breaks(Counter):
        def done(self) -> bool:
            if self.state.count == 2:
                raise RuntimeError("the world broke")
            return False

    rollout, record, _ = play([says(None, ADD), says(None, call("add", id_="b"))], env=Breaks())
    assert rollout.stop_reason == "failure"
    results = [each for each in record["messages"] if each["role"] == "tool"]
    assert results == [{"role": "tool", "tool_call_id": "call_add", "content": "1"}]
    assert record["messages"][-1]["tool_calls"][0]["id"] == "b"


@pytest.mark.parametrize(
    ("arguments", "passed", "told"),
    [
        ('{"by": ', '{"by": ', "arguments must be an object of the tool's arguments, not"),
        ("[1]", [1], "arguments must be an object of the tool's arguments, not [1]"),
        ('"3"', "3", "arguments must be an object"),
        ("null", None, "arguments must be an object of the tool's arguments, not None"),
        ('{"by": NaN}', '{"by": NaN}', "arguments must be an object"),
        ('{"by": 1e999}', '{"by": 1e999}', "arguments must be an object"),
        ("[" * 500 + "]" * 500, "[" * 500 + "]" * 500, "arguments must be an object"),
        ('{"by": "\\ud800"}', '{"by": "\\ud800"}', "arguments must be an object"),
        ('{"by": "x"}', {"by": "x"}, "by: Input should be a valid integer"),
        ('{"by": 1, "to": 2}', {"by": 1, "to": 2}, "to is not an argument of the tool"),
    ],
    ids=range(10),
)
def test_arguments_that_are_none_pass_on_and_the_model_is_told(arguments, passed, told):
    rollout, record, server = play([says(None, call("add", arguments)), says("Oh.")])
    step = rollout.trace.steps[0]
    assert step.action == {"name": "add", "arguments": passed}
    assert step.tool_calls[0]["error"]["kind"] == "invalid_arguments"
    result = server.requests[1].messages[2]
    assert (result["role"], told in result["content"]) == ("tool", True)
    # what the model wrote is what is kept and sent back
    assert record["messages"][1]["tool_calls"][0]["function"]["arguments"] == arguments
    assert rollout.stop_reason == "policy_stop"


def test_an_unknown_tool_is_a_tool_error_and_the_model_is_told():
    rollout, _, server = play([says(None, call("subtract", {"by": 1})), says("Oh.")])
    assert calls_of(rollout)[0] == ({"by": 1}, ["unknown_tool"])
    assert server.requests[1].messages[2]["content"] == (
        "LookupError: there is no tool 'subtract'; there are: add, fail"
    )


def test_arguments_of_a_megabyte():
    long = "x" * 2**20
    rollout, _, server = play([says(None, call("add", {"by": long})), says("Oh.")])
    assert rollout.trace.steps[0].action["arguments"] == {"by": long}
    assert server.requests[1].messages[1]["tool_calls"][0]["function"]["arguments"] == (
        json.dumps({"by": long})
    )


def test_a_huge_answer_is_kept_whole():
    text = "ab✓" * 2**20
    rollout, record, _ = play([says(text)])
    assert rollout.episode.output == text
    assert record["messages"][-1]["content"] == text


# -- odd tool calls -------------------------------------------------------------------------------


def raw(*calls: Any, content: Any = None) -> Reply:
    return body(completion({"role": "assistant", "content": content, "tool_calls": list(calls)}))


def function(name: Any = "add", arguments: Any = "{}") -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def test_calls_without_an_id_or_with_one_that_is_taken_are_given_one():
    script = [
        raw(
            {"function": function()},
            {"id": "a", "type": "function", "function": function()},
            {"id": "a", "type": "function", "function": function()},
            {"id": "call_1_1", "type": "function", "function": function()},
            {"id": 7, "type": "function", "function": function()},
            {"id": "", "type": "function", "function": function()},
        ),
        says("Done."),
    ]
    rollout, _, server = play(script, goal=9, env=type("Long", (Counter,), {"max_turns": 9})())
    assert len(rollout.trace.steps) == 7
    told = server.requests[1].messages
    ids = [each["id"] for each in told[1]["tool_calls"]]
    assert ids == ["call_1_1_", "a", "call_1_3", "call_1_1", "call_1_5", "call_1_6"]
    assert [each["tool_call_id"] for each in told[2:8]] == ids
    assert [each["content"] for each in told[2:8]] == ["1", "2", "3", "4", "5", "6"]
    assert rollout.episode.data["issues"] == [
        "note: ids were given to 4 tool calls without one of their own"
    ]


@pytest.mark.parametrize(
    ("odd", "name", "arguments", "sent"),
    [
        ({"function": function(arguments="")}, "add", {}, "{}"),
        ({"function": function(arguments=None)}, "add", {}, "{}"),
        ({"function": {"name": "add"}}, "add", {}, "{}"),
        ({"function": function(arguments={"by": 2})}, "add", {"by": 2}, '{"by": 2}'),
        ({"function": function(arguments=[2])}, "add", [2], "[2]"),
        ({"function": function(name=None)}, "", {}, "{}"),
        ({"function": function(name=3)}, "", {}, "{}"),
        ({}, "", {"type": "function"}, "{}"),
        ({"custom": {"name": "x"}}, "", {"type": "function", "custom": {"name": "x"}}, "{}"),
    ],
    ids=range(9),
)
def test_odd_forms_of_calls(odd, name, arguments, sent):
    rollout, _, server = play([raw({"id": "a", "type": "function", **odd}), says("Done.")])
    assert rollout.trace.steps[0].action == {"name": name, "arguments": arguments}
    back = server.requests[1].messages[1]["tool_calls"][0]
    assert back["function"]["arguments"] == sent
    assert rollout.stop_reason == "policy_stop"


# -- answers that are no calls --------------------------------------------------------------------


def answer(said: dict[str, Any], finish_reason: str) -> Reply:
    return body(completion(said, finish_reason))


CUT = "note: answer 1 of the model was cut off at the limit of tokens"
FILTERED = "note: answer 1 of the model was cut off by a content filter"
REFUSED = "note: answer 1 of the model is a refusal"
EMPTY = "note: answer 1 of the model is empty"


@pytest.mark.parametrize(
    ("said", "finish_reason", "text", "kind", "issues"),
    [
        (message("Done."), "stop", "Done.", "text", []),
        (message("Half of it", refusal=None), "length", "Half of it", "text", [CUT]),
        (message(None), "length", "", "empty", [CUT]),
        (message("Half of it"), "content_filter", "Half of it", "text", [FILTERED]),
        (message(None), "content_filter", "", "empty", [FILTERED]),
        (message(None, refusal="I will not."), "stop", "I will not.", "refusal", [REFUSED]),
        (message("", refusal="I will not."), "stop", "I will not.", "refusal", [REFUSED]),
        (message("Yes.", refusal="No."), "stop", "Yes.", "text", []),
        (message(None), "stop", "", "empty", [EMPTY]),
        (message(""), "stop", "", "empty", [EMPTY]),
        ({"role": "assistant"}, "stop", "", "empty", [EMPTY]),
        (message("Done.", tool_calls=[]), "tool_calls", "Done.", "text", []),
        (message("Done."), "something_new", "Done.", "text", []),
    ],
    ids=range(13),
)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_what_is_no_call_is_the_model_s_answer(said, finish_reason, text, kind, issues, stream):
    reply = answer(said, finish_reason)
    if stream:
        reply = streams(chunks(said, finish_reason))
    rollout, record, _ = play([reply], stream=stream)
    assert (rollout.stop_reason, rollout.episode.output) == ("policy_stop", text)
    assert calls_of(rollout) == [(text, [])]
    (turn,) = record["turns"]
    assert (turn["answer"], turn["finish_reason"]) == (kind, finish_reason)
    assert rollout.episode.data["issues"] == issues
    assert gaps(rollout) == []


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ([{"type": "text", "text": "In "}, {"type": "text", "text": "parts."}], "In parts."),
        ([{"type": "image"}, "Odd."], "Odd."),
        ({"odd": 1}, '{"odd": 1}'),
    ],
    ids=["parts", "mixed", "object"],
)
def test_content_that_is_no_text_is_read_as_text_and_kept_as_it_is(content, text):
    rollout, record, _ = play([says(content)])
    assert (rollout.episode.output, record["messages"][-1]["content"]) == (text, content)


@pytest.mark.parametrize("finish_reason", ["length", "content_filter"])
def test_of_a_cut_answer_the_calls_that_are_whole_are_taken(finish_reason):
    said = message(None, call("add", {"by": 1}), call("add", '{"by"', "b"), call("add", "", "c"))
    said["tool_calls"][2]["function"]["arguments"] = ""
    rollout, _, _ = play([answer(said, finish_reason), says("Done.")])
    # arguments that are missing may have been cut off: that is no call without arguments
    assert calls_of(rollout) == [
        ({"by": 1}, [1]),
        ('{"by"', ["invalid_arguments"]),
        ("", ["invalid_arguments"]),
        ("Done.", []),
    ]


def test_further_fields_are_kept_and_sent_back_when_asked_for():
    said = message(None, ADD, reasoning_content="Hm.", audio=None)
    said["tool_calls"][0] = {**ADD, "extra_content": {"signature": "s"}}
    for echo, sent in (((), None), (("reasoning_content",), "Hm.")):
        _, record, server = play([answer(said, "tool_calls"), says("Done.")], echo=echo)
        assert record["messages"][1]["reasoning_content"] == "Hm."
        back = server.requests[1].messages[1]
        assert back.get("reasoning_content") == sent
        assert back["tool_calls"][0]["extra_content"] == {"signature": "s"}
        assert "audio" not in back


def test_lone_surrogates_are_escaped_on_the_way_in_and_out():
    class Odd(Counter):
        def observe(self) -> CounterObservation:
            return CounterObservation(asked="\ud83d?", count=self.state.count)

    said = message("a\udfff", call("add", "{}", "id\ud800"), call("\ud801", "{}", "b"))
    rollout, _, server = play([answer(said, "tool_calls"), says("\ud802")], env=Odd())
    assert rollout.stop_reason == "policy_stop"
    told = server.requests[1].messages
    assert told[0] == {"role": "user", "content": "\\ud83d?: 0"}
    assert (told[1]["content"], told[1]["tool_calls"][0]["id"]) == ("a\\udfff", "id\\ud800")
    assert told[2]["tool_call_id"] == "id\\ud800"
    assert calls_of(rollout)[1] == ({}, ["unknown_tool"])
    assert rollout.episode.output == "\\ud802"
    assert (
        "note: 4 texts of the endpoint escaped, for what UTF-8 cannot hold"
        in (rollout.episode.data["issues"])
    )


def test_numbers_that_are_none_and_values_too_deep_do_not_stop_the_record():
    deep: Any = 1
    for _ in range(300):
        deep = [deep]
    said = message("Hi.", odd=deep, not_a_number=float("nan"))
    rollout, record, _ = play([body(completion(said, usage={"cost": float("inf")}))])
    kept = record["messages"][-1]
    assert kept["not_a_number"] == "nan"
    assert canonical(kept).count(b"[") == 300
    assert record["turns"][0]["usage"] == {"cost": "inf"}
    assert record["usage"] == {}
    assert rollout.stop_reason == "policy_stop"


# -- failures -------------------------------------------------------------------------------------


def test_no_answer_is_the_failure_of_the_rollout():
    rollout, record, _ = play(
        [says(None, ADD), refusing(503, "down"), refusing(429, "busy"), refusing(400, "no")]
    )
    assert (rollout.stop_reason, rollout.reward, len(rollout.trace.steps)) == ("failure", None, 1)
    (error,) = rollout.episode.errors
    assert (error["type"], error["message"]) == (
        "ChatFailed",
        "no answer of model 'm' after 3 requests: status 400: no",
    )
    assert [turn["answer"] for turn in record["turns"]] == ["calls", "none"]
    tries = record["turns"][1]["tries"]
    assert [(each["status"], each["message"]) for each in tries] == [
        (503, "status 503: down"),
        (429, "status 429: busy"),
        (400, "status 400: no"),
    ]
    assert (record["requests"], record["retries"]) == (4, 2)
    # the result of the call before is there, though no answer came to it
    assert [each["role"] for each in record["messages"]] == ["user", "assistant", "tool", "user"]


@pytest.mark.parametrize(
    "odd", [range(3), {frozenset({1}): 2}, 10**5000], ids=["range", "key", "integer"]
)
def test_a_result_without_a_form_as_text_does_not_end_the_episode(odd):
    class Odd(Counter):
        @tool
        def give(self) -> Any:
            """Give what is no JSON."""
            return odd

    rollout, _, server = play([says(None, call("give")), says("Done.")], env=Odd())
    assert "result" in rollout.trace.steps[0].tool_calls[0]
    assert rollout.stop_reason == "policy_stop"
    assert (
        server.requests[1].messages[2]["content"].startswith("the result cannot be shown as text: ")
    )
    assert rollout.episode.data["issues"] == [
        "note: 1 result without a form as text; the model was told"
    ]


# -- what is recorded -----------------------------------------------------------------------------


def test_usage_latency_and_repetitions_are_recorded():
    detailed = {**USAGE, "prompt_tokens_details": {"cached_tokens": 4}, "cost": 0.25, "tier": "x"}
    script = [
        body(completion(message(None, ADD), usage=detailed)),
        refusing(503, "down"),
        body(completion(message(None, call("add", id_="b")), usage=None)),
        body(completion(message("Done."), usage=detailed)),
    ]
    rollout, record, server = play(script)
    assert record["usage"] == {
        "prompt_tokens": 20,
        "completion_tokens": 4,
        "total_tokens": 24,
        "prompt_tokens_details": {"cached_tokens": 8},
        "cost": 0.5,
    }
    assert record["turns_without_usage"] == 1
    assert (record["requests"], record["retries"]) == (4, 1)
    first, second, _ = record["turns"]
    assert (first["usage"], second["usage"]) == (detailed, None)
    assert first["served"] == {"id": "chatcmpl-1", "model": "served-1"}
    assert [each["status"] for each in second["tries"]] == [503]
    assert second["elapsed_ms"] > second["latency_ms"] > 0
    assert record["latency_ms"] == pytest.approx(sum(t["latency_ms"] for t in record["turns"]))
    assert (record["model"], record["endpoint"]) == ("m", server.url)
    assert rollout.episode.data["provenance"]["agent_id"] == "m"


def test_unknown_usage_is_no_zero():
    _, record, _ = play([body(completion(message("Hi."), usage=None))])
    assert (record["usage"], record["turns_without_usage"]) == (None, 1)


def test_what_a_model_said_is_outside_the_trajectory(tmp_path):
    said = [says("One.", ADD), says("Stop.")]
    one, two = (play(script)[0].episode for script in (said, [says(None, ADD), says("Stop.")]))
    assert one.trajectory_digest == two.trajectory_digest
    path = tmp_path / "episode.json"
    one.save_json(path)
    assert EpisodeEvidence.load_json(path).digest == one.digest


# -- the policy itself ----------------------------------------------------------------------------


def test_a_policy_is_made_of_a_client_or_of_its_options():
    with ChatServer([says("Hi."), says("Hi.")]) as server:
        env = Counter()
        with ChatClient(server.url) as client:
            policy = client.policy(model="m")
            assert isinstance(policy, Policy)
            assert policy.client is client
            assert env.rollout(counting(), policy).episode.output == "Hi."
            policy.close()  # the client is its owner's to close
        own = ChatPolicy(model="m", base_url=server.url, settings={"seed": 3})
        assert env.rollout(counting(), own).episode.output == "Hi."
        own.close()
    assert server.requests[1].body["seed"] == 3
    assert repr(own) == f"<ChatPolicy m at {server.url}>"


@pytest.mark.parametrize(
    ("given", "error", "told"),
    [
        ({"model": " "}, ValueError, "model must not be blank"),
        ({"model": 3}, TypeError, "model must be text, not int"),
        ({"model": "m", "client": "http://x"}, TypeError, "client must be a ChatClient, not str"),
        ({"model": "m", "colour": 3}, TypeError, "colour"),
    ],
)
def test_what_makes_no_policy_is_refused(given, error, told):
    with pytest.raises(error, match=told):
        ChatPolicy(**given)
    with pytest.raises(TypeError, match="timeout: options go with no client, which has its own"):
        ChatPolicy(ChatClient("http://127.0.0.1:1"), model="m", timeout=3)


def test_a_policy_that_is_used_again_begins_anew():
    script = [says(None, ADD, call("add", id_="b"))] * 2 + [says("Hi.")]
    with ChatServer(script) as server, ChatClient(server.url) as client:
        policy, env = client.policy(model="m"), Counter()
        one = env.rollout(counting(1), policy).episode
        two = env.rollout(counting(1), policy).episode
        assert one.trajectory_digest == two.trajectory_digest
        assert [len(request.messages) for request in server.requests] == [1, 1]
        copied = copy.deepcopy(policy)
        assert (copied.client, copied.model) == (client, "m")
        assert (copied.record()["messages"], len(policy.record()["messages"])) == ([], 3)


def test_copies_of_a_policy_share_its_connections_and_leave_them_open():
    class Hopeful(ChatPolicy):
        def remarks(self) -> list[str]:
            return [*super().remarks(), "note: all will be well"]

    with ChatServer([says("One."), says("Two.")]) as server:
        policy = Hopeful(model="m", base_url=server.url)
        copied = copy.deepcopy(policy)
        env = Counter()
        assert env.rollout(counting(), copied).episode.data["issues"] == ["note: all will be well"]
        copied.close()
        elsewhere = pickle.loads(pickle.dumps(ChatPolicy(policy.client, model="m")))
        assert env.rollout(counting(), elsewhere).episode.output == "Two."
        elsewhere.client.close()
        policy.close()


def test_identities_tell_how_a_model_is_asked():
    address = "http://127.0.0.1:1"

    def identity(**options: Any) -> Any:
        return ChatPolicy(**{"model": "m", "base_url": address, **options}).identity()

    plain = identity()
    assert plain == identity(api_key="one") == identity(headers={"X": "value"})
    assert plain == identity(timeout=1, max_retries=0)
    changed = [
        {"model": "n"},
        {"base_url": "http://127.0.0.1:2"},
        {"instructions": "Be brief."},
        {"settings": {"temperature": 1}},
        {"stream": True},
        {"echo": ["reasoning"]},
    ]
    others = [canonical(identity(**options)) for options in changed]
    assert len({canonical(plain), *others}) == 7


def test_a_policy_works_in_a_loop_of_ones_own():
    with ChatServer([says("Let me see."), says(None, ADD)]) as server:
        policy, env = ChatPolicy(model="m", base_url=server.url), Counter()
        observation, info = env.reset(options={"task": counting()})
        first = policy.act(observation, tools=env.tools, info=info)
        observation, _, _, _, info = env.step(first)
        second = policy.act(observation, tools=env.tools, info=info)
        policy.close()
    assert [each["content"] for each in server.requests[1].messages] == [
        *("Count to 3: 0", "Let me see.", "Count to 3: 0")
    ]
    assert (first, second) == ("Let me see.", ToolCall("add"))


def test_observations_that_are_no_models_are_shown_as_text():
    with ChatServer([says("Hi."), says("Hi.")]) as server:
        policy = ChatPolicy(model="m", base_url=server.url)
        policy.act({"left": [1, 2]}, tools=(), info={})
        policy.act("as it is", tools=(), info={})
        policy.close()
    assert "tools" not in server.requests[0].body
    assert [each["content"] for each in server.requests[1].messages] == [
        *('{"left": [1, 2]}', "Hi.", "as it is")
    ]


# -- secrets --------------------------------------------------------------------------------------

KEY, TOKEN = "sk-secret-0123456789", "token-of-a-gateway"


def test_a_key_and_a_header_s_value_are_in_no_evidence(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    told = f"You are {KEY} at {TOKEN}."
    odd = {**completion(message(told, call("add", {"by": told}, KEY), note=[told, {told: 1}]))}
    odd |= {"system_fingerprint": KEY, "usage": {TOKEN: 3, "total_tokens": 3}}
    script = [body(odd), refusing(500, told), streams([{"error": told}]), refusing(403, told)]
    env, path = Counter(), tmp_path / "store.duckdb"
    with ChatServer(script) as server, connect(path) as store:
        options = {"headers": {"X-Gateway": TOKEN}, "backoff": 0.001}
        policy = ChatPolicy(model="m", base_url=server.url, stream=True, **options)
        rollout = env.rollout(counting(), policy, store=store)
        policy.close()
    assert (KEY.encode() in server.received, TOKEN.encode() in server.received) == (True, True)
    rollout.episode.save_json(tmp_path / "episode.json")
    env.rollout(counting(), policy, store=tmp_path / "episodes.jsonl")
    policy.close()
    assert len(list(tmp_path.iterdir())) == 3
    for file in tmp_path.iterdir():
        for secret in (KEY, TOKEN):
            assert secret.encode() not in file.read_bytes()
    (said,) = [each for each in policy_of(rollout)["messages"] if each["role"] == "assistant"]
    assert said["content"] == "You are [hidden] at [hidden]."
    assert "policy: secrets hidden in 7 texts of the endpoint" in rollout.episode.coverage_issues
    assert "status 403: You are [hidden] at [hidden]." in rollout.episode.errors[0]["message"]


def policy_of(rollout: Rollout) -> dict[str, Any]:
    return dict(rollout.episode.data["provenance"]["labels"]["policy"])


def test_a_header_s_value_that_the_model_was_told_is_no_secret():
    headers = {"X-Plural-Environment": "Count to 3", "X-Short": "text"}
    rollout, _, _ = play([says("I will Count to 3 in text")], headers=headers)
    assert rollout.episode.output == "I will Count to 3 in text"
    assert gaps(rollout) == []


# -- the answer key -------------------------------------------------------------------------------


class Whole(Environment[Observation, State]):
    """Shows all that its task may show."""

    name = "whole"

    def setup(self, task: TaskData) -> None:
        super().setup(task)
        self.state = State(seed=self.seed)

    def observe(self) -> Observation:
        class Shown(Observation):
            task: dict[str, Any]

        task = self.task
        return Shown(task={"id": task.task_id, "input": task.input, "metadata": task.metadata})

    def info(self) -> dict[str, Any]:
        return {"asked": self.task.input}

    @tool
    def look(self) -> Any:
        """Look at everything but the answer."""
        return self.observe()


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_what_is_expected_is_in_no_byte_that_is_sent(stream):
    expected = {"answer-key": ["zebra-crossing", 7461]}
    task = TaskData("ask", "What is it?", expected, {"hint": "stripes"})
    said = message(None, call("look"))
    script = [
        streams(chunks(said)) if stream else body(completion(said)),
        refusing(503),
        says("A zebra."),
    ]
    env = Whole()

    @env.scorer
    def right(rollout: Any) -> bool:
        return bool(rollout.task.expected["answer-key"][0] == "zebra-crossing")

    with (
        ChatServer(script) as server,
        ChatClient(
            server.url, stream=stream, backoff=0.001, api_key="key-given", headers={"X-A": "b"}
        ) as client,
    ):
        rollout = env.rollout(task, client, model="m")
    assert (rollout.reward, len(server.requests)) == (1.0, 3)
    assert b"stripes" in server.received
    assert b"key-given" in server.received
    for part in (b"answer-key", b"zebra-crossing", b"7461", b"expected"):
        assert part not in server.received
