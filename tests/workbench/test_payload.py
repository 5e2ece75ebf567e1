"""Payloads: what is packed of an episode, how much room it takes, and that nothing is altered."""

from __future__ import annotations

import json
from typing import Any

import gymnasium
import numpy as np
import pytest

from envbench import (
    EvalCase,
    Forbid,
    Provenance,
    capture_episode,
    connect,
    no_forbidden_changes,
)
from envbench.checks import evaluate_episode
from envbench.evidence.portable import canonical, parse
from envbench.workbench.page import episode_html
from envbench.workbench.payload import (
    FORMAT,
    Payload,
    different_steps,
    pack,
    payloads,
    unpack,
)

from .worlds import scripted, warehouse


def content_of(episode: Any, **given: Any) -> dict[str, Any]:
    (payload,) = payloads(episode, **given)
    return unpack(payload.text)


def test_what_a_short_episode_holds():
    states = [{"rows": [{"id": 1, "n": 0}]}, {"rows": [{"id": 1, "n": 5}]}]
    content = content_of(scripted(states, infos=[{"said": "five"}]))
    head, (chunk,) = content["head"], content["chunks"]
    assert head["format"] == FORMAT
    assert head["n_moments"] == 2
    assert head["keys"] == {"/rows": "id"}
    assert head["episode"]["totals"] == {"reward": 1.0, "steps": 1}
    assert head["marks"] == {
        "change": [1],
        "check": [],
        "error": [],
        "forbidden": [],
        "restored": [],
        "reward": [1],
        "unseen": [],
    }
    assert chunk["state"] == states[0]
    assert chunk["changes"] == [[1, 0, "/rows/id=1/n", "edit", 0, 5, None, None, None]]
    assert chunk["info"] == [{}, {"said": "five"}]
    assert chunk["reward"] == [None, 1.0]
    assert chunk["terminated"] == [None, True]
    assert chunk["observation"] == [[0], [1]]


def test_values_stand_as_the_evidence_has_them():
    state = {"beyond": 2**64, "whole": 1.0, "small": 1e-7, "tuple": (1, np.int8(2)), "é": "ß"}
    episode = scripted([state, state])
    (chunk,) = content_of(episode)["chunks"]
    assert canonical(chunk["state"]) == canonical(episode.data["initial_state"])


def test_unpacking_and_packing_give_the_same_text():
    (payload,) = payloads(scripted([{"n": 1.0}, {"n": 2**70}, {"n": "ü"}, {}]))
    assert pack(unpack(payload.text)) == payload.text
    spaced = "\n".join(payload.text[i : i + 76] for i in range(0, len(payload.text), 76))
    assert unpack(spaced) == unpack(payload.text)


def test_what_is_no_packed_text_is_refused():
    with pytest.raises(ValueError, match="cannot be read"):
        unpack("AAAA")
    with pytest.raises(ValueError, match="not of the format"):
        unpack(pack({"head": {"frames": [], "frame_kind": None}, "chunks": [], "frames": {}}))
    (payload,) = payloads(scripted([{"n": 1}, {"n": 2}]))
    with pytest.raises(ValueError, match="not the parts that its head names"):
        unpack(payload.text.split(".")[0])


def test_arguments_are_checked():
    episode = scripted([{"n": 1}, {"n": 2}])
    with pytest.raises(TypeError, match="episode must be an EpisodeEvidence, not str"):
        payloads("episode")
    with pytest.raises(TypeError, match="other must be an EpisodeEvidence, not int"):
        payloads(episode, 3)
    with pytest.raises(TypeError, match="limit must be an integer, not bool"):
        payloads(episode, limit=True)
    with pytest.raises(ValueError, match="limit must be positive, not 0"):
        payloads(episode, limit=0)
    with pytest.raises(TypeError, match="a rule must be Forbid"):
        payloads(episode, rules=["/vendors"])
    with pytest.raises(TypeError, match="report must be a Report, not str"):
        payloads(episode, report="report")
    report = evaluate_episode(scripted([{"n": 1}]), [no_forbidden_changes(Forbid("/n"))])
    with pytest.raises(ValueError, match="has no result of episode"):
        payloads(episode, report=report)


def test_a_thousand_steps_of_fifty_rows_take_less_than_120_kB():
    (payload,) = payloads(warehouse(1_000, 50))
    assert len(payload.text) < 120_000
    assert len(unpack(payload.text)["chunks"]) == payload.n_chunks


def test_changes_lead_from_the_first_state_to_every_other():
    episode = warehouse(300, 7)
    (chunk,) = content_of(episode)["chunks"]
    state = json.loads(json.dumps(chunk["state"]))
    by_step: dict[int, list[Any]] = {}
    for step, since, path, op, before, after, *_ in chunk["changes"]:
        assert (since, op) == (step - 1, "edit")
        by_step.setdefault(step, []).append((path, before, after))
    for step in range(1, 301):
        for path, before, after in by_step.get(step, []):
            _, table, row, cell = path.split("/")
            name, key = row.split("=")
            (found,) = [each for each in state[table] if each[name] == int(key)]
            assert found[cell] == before
            found[cell] = after
        assert state == episode.states[step]


def test_long_episodes_are_cut_into_chunks_with_states_between(monkeypatch):
    monkeypatch.setattr("envbench.workbench.payload.MOST_MOMENTS", 64)
    episode = warehouse(1_000, 20)
    content = content_of(episode)
    chunks = content["chunks"]
    assert [chunk["first"] for chunk in chunks] == list(range(0, 1_001, 64))
    assert sum(chunk["n"] for chunk in chunks) == 1_001
    with_state = [chunk for chunk in chunks if "state" in chunk]
    assert 1 < len(with_state) < len(chunks)
    for chunk in with_state:
        assert chunk["state"] == episode.states[chunk["state_at"]]


def test_an_excerpt_holds_what_was_found_and_says_what_it_leaves_out(monkeypatch):
    monkeypatch.setattr("envbench.workbench.payload.MOST_MOMENTS", 32)
    states: list[Any] = [{"n": i, "v": {"x": 0}} for i in range(2_001)]
    for i in range(1_000, 1_003):
        states[i]["v"] = {"x": 1}
    (payload,) = payloads(scripted(states), rules=[Forbid("/v/**")], limit=8_000)
    content = unpack(payload.text)
    head = content["head"]
    held = head["chunks"]
    assert len(payload.text) < 10_000
    assert 0 < len(held) < head["n_chunks"] == payload.n_chunks == 63
    told = {0, 1_000 // 32, 1_003 // 32, 2_000 // 32}
    assert told <= set(held)
    for index, chunk in zip(held, content["chunks"], strict=True):
        # the last one to fit may do so without its state; how long steps took decides
        if index in told or "state" in chunk:
            assert chunk["state"] == states[chunk["first"]]
    assert sum("state" not in chunk for chunk in content["chunks"]) <= 1


def test_a_store_is_named_without_its_folder(tmp_path):
    with connect(tmp_path / "kept.duckdb") as store:
        scripted([{"n": 0}, {"n": 1}], store=store)
        content = content_of(store.episodes()[0])
    assert content["head"]["episode"]["store"] == "kept.duckdb"
    assert str(tmp_path) not in str(content)


def test_any_chunk_can_be_asked_for(monkeypatch):
    import gzip

    monkeypatch.setattr("envbench.workbench.payload.MOST_MOMENTS", 10)
    episode = warehouse(95, 3)
    (payload,) = payloads(episode)
    for index in range(payload.n_chunks):
        chunk = parse(gzip.decompress(payload.chunk(index)))
        assert chunk["first"] == index * 10
        assert chunk["state"] == episode.states[index * 10]
    with pytest.raises(IndexError, match="chunk 10 is not among 10"):
        payload.chunk(10)


def test_a_state_too_large_for_the_page_is_left_out():
    rng = np.random.default_rng(1)
    noise = rng.bytes(40_000).hex()
    content = content_of(
        scripted([{"n": 0, "noise": noise}, {"n": 1, "noise": noise}]), limit=9_000
    )
    (chunk,) = content["chunks"]
    assert "state" not in chunk
    assert [change[2] for change in chunk["changes"]] == ["/n"]


def test_an_end_that_differs_is_one_moment_more():
    def later(env: Any) -> None:
        env.states[env.at] = {"n": 9}

    content = content_of(scripted([{"n": 0}, {"n": 1}], after=later))
    assert content["head"]["n_moments"] == 3
    assert content["chunks"][0]["changes"][-1][:6] == [2, 1, "/n", "edit", 1, 9]


def test_states_that_were_not_seen():
    content = content_of(scripted([ValueError("early"), {"n": 1}, ValueError("late"), {"n": 2}]))
    (chunk,) = content["chunks"]
    assert chunk["unseen"] == [0, 2]
    assert (chunk["state_at"], chunk["state"]) == (1, {"n": 1})
    assert content["head"]["marks"]["unseen"] == [2]
    assert content["head"]["marks"]["error"] == [0, 2]


def test_an_episode_without_steps():
    def interact(env: Any, observation: Any, info: Any) -> None:
        return None

    episode = capture_episode(
        lambda: gymnasium.make("CartPole-v1"),
        interact,
        case=EvalCase("Balance", case_id="balance"),
        environment_id="cartpole",
        observer_id="none",
        observe=lambda: {"n": 0},
        seed=1,
        max_steps=1,
    )
    content = content_of(episode)
    assert content["head"]["n_moments"] == 1
    assert content["chunks"][0]["state"] == {"n": 0}


@pytest.fixture
def store():
    with connect(":memory:") as opened:
        yield opened


def test_saved_findings_and_the_latest_results_are_read_from_the_store(store):
    states = [{"v": [{"id": 1, "x": x}]} for x in (0, 7, 0)]
    episode_id = scripted(states, store=store).episode_id
    older = evaluate_episode(store.episode(episode_id), [no_forbidden_changes(Forbid("/w"))])
    older.save(store)
    checks = [no_forbidden_changes(Forbid("/v/*/x"))]
    evaluate_episode(store.episode(episode_id), checks).save(store)
    head = content_of(store.episode(episode_id))["head"]
    (check,) = head["checks"]
    assert (check["name"], check["passed"], check["steps"]) == ("no_forbidden_changes", False, [1])
    (finding,) = head["findings"]
    assert finding["path"] == "/v/id=1/x"
    assert (finding["step_index"], finding["restored_at"], finding["kind"]) == (1, 2, "restored")
    assert (finding["before"], finding["during"], finding["after"]) == (0, [7], 0)
    assert head["marks"]["forbidden"] == [1]
    assert head["marks"]["restored"] == [2]
    assert head["marks"]["check"] == [1]


def test_a_report_and_rules_give_the_same_findings_as_the_store(store):
    states = [{"v": [{"id": 1, "x": x}]} for x in (0, 7, 0)] + [{"v": []}]
    episode = scripted(states, store=store)
    rule = Forbid("/v/**")
    report = evaluate_episode(episode, [no_forbidden_changes(rule)])
    by_report = content_of(episode, report=report)["head"]["findings"]
    by_rules = content_of(episode, rules=[rule])["head"]["findings"]
    report.save(store)
    by_store = content_of(store.episode(episode.episode_id))["head"]["findings"]
    assert by_report == by_store
    assert len(by_store) == 2
    assert "after" not in by_store[1]  # a row that is gone is absent, which is not null

    def bare(finding: Any) -> Any:
        return {name: value for name, value in finding.items() if name != "check_name"}

    assert list(map(bare, by_rules)) == list(map(bare, by_store))
    both = content_of(episode, report=report, rules=[rule, Forbid("/v")])["head"]["findings"]
    # what a check has said already is not there again
    assert [(each["rule"], each["check_name"]) for each in both] == [
        ('Forbid("/v/**")', "no_forbidden_changes"),
        ('Forbid("/v")', None),
    ] * 2


def test_steps_at_which_two_episodes_differ():
    one = scripted([{"n": 0}, {"n": 1}, {"n": 2}, {"n": 3}])
    other = scripted([{"n": 0}, {"n": 1}, {"n": 9}])
    # the second ends at step 2, so that its flag differs there too; the third is in one alone
    assert list(different_steps(one, other)) == [2, 3]
    assert list(different_steps(one, one)) == []
    first, second = payloads(one, other)
    assert unpack(first.text)["head"]["marks"]["differs"] == [2, 1]
    assert unpack(second.text)["head"]["marks"]["differs"] == [2]
    assert (first.limit, second.limit) == (1_000_000, 1_000_000)


def test_long_values_of_a_finding_are_cut_and_say_so():
    states = [{"log": "a" * 5_000}, {"log": "b"}]
    head = content_of(scripted(states), rules=[Forbid("/log")])["head"]
    before = head["findings"][0]["before"]
    assert (before["$envbench"], before["length"]) == ("cut", 5_002)
    assert before["text"] == '"' + "a" * 499


def test_labels_as_long_as_a_conversation_are_cut_and_who_acted_is_not():
    said = Provenance(agent_id="model-1", labels={"messages": ["hello"] * 1_000})
    episode = capture_episode(
        lambda: gymnasium.make("FrozenLake-v1").unwrapped,
        lambda env, observation, info: None,
        case=EvalCase("Cross the lake.", case_id="lake"),
        environment_id="lake",
        observer_id="none",
        observe=dict,
        seed=1,
        max_steps=1,
        provenance=said,
    )
    shown = content_of(episode)["head"]["episode"]["provenance"]
    assert (shown["agent_id"], shown["repeat"]) == ("model-1", 0)
    assert (shown["labels"]["$envbench"], shown["labels"]["length"]) == ("cut", 8_014)
    assert "model-1" in episode_html(episode)


def test_rewards_of_the_timeline_are_scaled():
    class Paying(gymnasium.Env[Any, Any]):
        observation_space = gymnasium.spaces.Discrete(2)
        action_space = gymnasium.spaces.Box(-np.inf, np.inf, (), np.float64)

        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            return 0, {}

        def step(self, action: Any) -> Any:
            return 0, float(action), False, False, {}

    def interact(env: Any, observation: Any, info: Any) -> None:
        for reward in (0.0, 2.0, -4.0, 1.0):
            env.step(np.array(reward))

    episode = capture_episode(
        Paying,
        interact,
        case=EvalCase("Pay", case_id="pay"),
        environment_id="paying",
        observer_id="none",
        observe=dict,
        seed=1,
        max_steps=9,
    )
    head = content_of(episode)["head"]
    assert head["timeline"]["reward"] == {
        "scale": 4.0,
        "high": [0, 0, 50, 0, 25],
        "low": [0, 0, 0, -100, 0],
    }
    assert head["marks"]["reward"] == [2, 1, 1]


def test_a_payload_is_made_once():
    payload = Payload(scripted([{"n": 1}, {"n": 2}]))
    assert payload.text is payload.text
