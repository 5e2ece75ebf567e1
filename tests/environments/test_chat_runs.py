"""Models, scripts and replays at work on whole data sets, in one store."""

from __future__ import annotations

import collections
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from envbench import connect
from envbench.comparison import Episodes, compare
from envbench.environments import (
    ChatClient,
    ChatPolicy,
    Rollout,
    ScriptedPolicy,
    TaskDataset,
    ToolCall,
    run_tasks,
    verify_replay,
)
from envbench.environments.examples import refund_desk, stockroom
from envbench.evidence.portable import canonical
from envbench.store import Store
from tests.environments.endpoint import (
    ChatServer,
    Reply,
    Request,
    body,
    call,
    chunks,
    completion,
    message,
    refusing,
    says,
    streams,
)
from tests.environments.worlds import Counter, counting

TASKS = TaskDataset("counting", "1", [counting(goal) for goal in (1, 2, 3, 4, 5, 9)])


def counter(request: Request) -> Reply:
    """A model that counts by twos, calls what is not there, and gives up at six."""
    shown = [each["content"] for each in request.messages if each["role"] == "user"]
    count = int(shown[-1].rsplit(": ")[1])
    if count >= 6:
        return says("That is enough.")
    calls = [call("add", {"by": 2}, f"{request.turn}-a")]
    if request.turn == 0:
        calls.insert(0, call("subtract", '{"by"', "0-b"))
    return says(None, *calls)


class Shaky:
    """A model that fails the first time that it is asked something."""

    def __init__(self, model: Callable[[Request], Reply]) -> None:
        self._model = model
        self._lock = threading.Lock()
        self._asked: collections.Counter[bytes] = collections.Counter()

    def __call__(self, request: Request) -> Reply:
        with self._lock:
            self._asked[request.content] += 1
            first = self._asked[request.content] == 1
        return refusing(503, "warming up", Retry_After="0") if first else self._model(request)


def conversation(rollout: Rollout) -> Any:
    return rollout.episode.data["provenance"]["labels"]["policy"]["messages"]


# -- many tasks -----------------------------------------------------------------------------------


def test_eight_at_a_time_come_to_the_same_as_one():
    found = []
    for concurrency in (1, 8):
        with (
            ChatServer(Shaky(counter)) as server,
            ChatClient(server.url, backoff=0.001) as client,
        ):
            rollouts = run_tasks(
                TASKS, Counter, client, model="m", repeats=3, concurrency=concurrency
            )
        found.append(
            [
                (
                    rollout.task.task_id,
                    rollout.stop_reason,
                    rollout.episode.output,
                    rollout.episode.trajectory_digest,
                    conversation(rollout),
                )
                for rollout in rollouts
            ]
        )
    assert found[0] == found[1]
    assert [each[1] for each in found[0]] == [
        *["terminated"] * 15,
        *["policy_stop"] * 3,
    ]


@pytest.mark.parametrize("kind", ["client", "policy", "factory", "factory of a task"])
def test_what_run_tasks_takes(kind):
    with ChatServer(counter) as server, ChatClient(server.url) as client:
        policies: dict[str, Any] = {
            "client": client,
            "policy": ChatPolicy(client, model="m"),
            "factory": lambda: ChatPolicy(model="m", base_url=server.url),
            "factory of a task": lambda task: client.policy(model=f"m-{task.metadata['goal']}"),
        }
        model = {"model": "m"} if kind == "client" else {}
        rollouts = run_tasks(TASKS, Counter, policies[kind], **model)
    assert [rollout.stop_reason for rollout in rollouts] == ["terminated"] * 5 + ["policy_stop"]
    agents = {rollout.episode.data["provenance"]["agent_id"] for rollout in rollouts}
    assert agents == ({f"m-{n}" for n in (1, 2, 3, 4, 5, 9)} if "task" in kind else {"m"})
    # each job had a conversation of its own
    assert [len([m for m in conversation(r) if m["role"] == "user"]) for r in rollouts] == [
        *(1, 1, 2, 2, 3, 4)
    ]


def test_a_run_is_taken_up_again_without_asking_the_model(tmp_path):
    path = tmp_path / "store.duckdb"
    with ChatServer(counter) as server, ChatClient(server.url) as client:
        run_tasks(TASKS, Counter, client, model="m", store=path)
        asked = len(server.requests)
        again = run_tasks(TASKS, Counter, client, model="m", store=path)
        assert (again.resumed, len(server.requests)) == (6, asked)
        assert run_tasks(TASKS, Counter, client, model="n", store=path).resumed == 0
        with ChatClient(server.url, settings={"temperature": 1}) as warmer:
            assert run_tasks(TASKS, Counter, warmer, model="m", store=path).resumed == 0


def test_failures_of_a_model_are_in_the_denominator():
    def lost(request: Request) -> Reply:
        return (
            refusing(400, "too hard")
            if "to 3" in request.messages[0]["content"]
            else (counter(request))
        )

    with ChatServer(lost) as server, ChatClient(server.url) as client:
        rollouts = run_tasks(TASKS, Counter, client, model="m", concurrency=4)
    assert [rollout.task.task_id for rollout in rollouts.failures] == ["to-3"]
    assert len(rollouts) == 6


def test_what_is_expected_of_a_data_set_is_in_no_byte_that_is_sent():
    with ChatServer(Shaky(counter)) as server, ChatClient(server.url, backoff=0.001) as client:
        run_tasks(TASKS, Counter, client, model="m", concurrency=4)
        run_tasks(TASKS, Counter, lambda task: ChatPolicy(client, model=str(task)))
    assert b"Count to 9" in server.received
    # counting() expects {"count": goal}
    assert b'"count"' not in server.received
    assert b"expected={" not in server.received


# -- long episodes --------------------------------------------------------------------------------


class Long(Counter):
    max_turns = 10_000


def bytes_of_evidence(turns: int) -> int:
    def model(request: Request) -> Reply:
        return says(None, call("add", {"by": 1}, f"call-{request.turn:03}"))

    with ChatServer(model) as server, ChatClient(server.url) as client:
        rollout = Long().rollout(counting(turns), client, model="m")
    assert (rollout.stop_reason, len(rollout.trace.steps)) == ("terminated", turns)
    assert len(conversation(rollout)) == 3 * turns
    return len(canonical(rollout.episode.to_dict()))


@pytest.mark.slow
def test_the_evidence_of_a_long_episode_is_linear_in_its_turns():
    short, long = bytes_of_evidence(100), bytes_of_evidence(500)
    assert 4.5 < long / short < 5.1


# -- interrupts -----------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", ["request", "stream", "wait"])
def test_an_interrupt_goes_on_and_the_episode_is_kept_as_interrupted(moment, tmp_path):
    main = threading.main_thread().ident
    assert main is not None

    def interrupting(request: Request) -> Reply:
        if request.turn == 0:
            return says(None, call("add"))
        if moment == "wait":
            threading.Timer(0.05, signal.pthread_kill, (main, signal.SIGINT)).start()
            return refusing(503)
        if moment == "request":
            signal.pthread_kill(main, signal.SIGINT)
            return Reply(silent=True, hangs=True)

        def pieces() -> Iterator[bytes]:
            yield streams(chunks(message("I was"))[:2]).pieces[0]
            signal.pthread_kill(main, signal.SIGINT)

        return Reply(pieces=pieces(), headers={"Content-Type": "text/event-stream"}, hangs=True)

    path = tmp_path / "store.duckdb"
    with (
        ChatServer(interrupting) as server,
        ChatClient(server.url, backoff=60, stream=moment == "stream") as client,
        pytest.raises(KeyboardInterrupt),
    ):
        Counter().rollout(counting(), client, model="m", store=path)
    with connect(path) as store:
        (episode,) = store.episodes()
        assert (episode.ending, len(episode.steps)) == ("interrupted", 1)
        said = episode.data["provenance"]["labels"]["policy"]["messages"]
        assert [each["role"] for each in said] == ["user", "assistant", "tool", "user"]
        assert store.verify().ok


def test_an_interrupt_ends_the_waits_of_all_threads(tmp_path):
    main = threading.main_thread().ident
    assert main is not None
    waiting = threading.Barrier(3, action=lambda: signal.pthread_kill(main, signal.SIGINT))

    def busy(request: Request) -> Reply:
        waiting.wait()
        return refusing(429, "busy", Retry_After="50")

    path = tmp_path / "store.duckdb"
    with (
        ChatServer(busy) as server,
        ChatClient(server.url, max_retries=1) as client,
        pytest.raises(KeyboardInterrupt),
    ):
        run_tasks(TASKS, Counter, client, model="m", concurrency=3, store=path, progress=False)
    assert len(server.requests) == 3  # it was not waited for 50 seconds, nor asked again
    with connect(path) as store:
        assert {episode.ending for episode in store.episodes()} == {"interrupted"}


# -- models, scripts and replays in one store -----------------------------------------------------


def acting(script: Callable[[Any], ScriptedPolicy], tasks: TaskDataset) -> Any:
    """A model that does what a script does, once it was told which ticket it is."""
    by_input = {str(task.input): script(task).actions for task in tasks}

    def model(request: Request) -> Reply:
        shown = request.messages[0]["content"]
        (actions,) = [found for asked, found in by_input.items() if asked in shown]
        left = actions[request.turn :]
        action = left[0] if left else "Done."
        if isinstance(action, ToolCall):
            said = message(None, call(action.name, action.arguments, f"call-{request.turn}"))
        else:
            said = message(action)
        if request.body.get("stream"):
            return streams(chunks(said))
        return body(completion(said))

    return model


DESK = (refund_desk, refund_desk.RefundDeskV1, refund_desk.RefundDeskV2)
STORE = (stockroom, stockroom.StockroomV1, stockroom.StockroomV2)


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """One store with a model's and a script's runs of both versions of both examples."""
    scripts = {refund_desk: refund_desk.hasty, stockroom: stockroom.impatient}
    with connect(tmp_path_factory.mktemp("together") / "store.duckdb") as store:
        for example, *versions in (DESK, STORE):
            script = scripts[example]
            with (
                ChatServer(acting(script, example.TASKS)) as server,
                ChatClient(server.url, stream=example is stockroom) as client,
            ):
                for version in versions:
                    run_tasks(example.TASKS, version, client, model="vendor/m", store=store)
                    run_tasks(example.TASKS, version, script, store=store)
        yield store


def test_models_and_scripts_are_in_one_store(together):
    assert together.verify().ok
    assert together.sql(
        "SELECT environment_id, environment_version, agent_id, count(*), count(episode_return)"
        " FROM episodes GROUP BY ALL ORDER BY ALL"
    ).fetchall() == [
        ("refund-desk", "1.0.0", "hasty", 4, 4),
        ("refund-desk", "1.0.0", "vendor/m", 4, 4),
        ("refund-desk", "2.0.0", "hasty", 4, 4),
        ("refund-desk", "2.0.0", "vendor/m", 4, 4),
        ("stockroom", "1.0.0", "impatient", 2, 2),
        ("stockroom", "1.0.0", "vendor/m", 2, 2),
        ("stockroom", "2.0.0", "impatient", 2, 2),
        ("stockroom", "2.0.0", "vendor/m", 2, 2),
    ]
    # the model did what the script did, and so did the world
    assert (
        together.sql(
            "SELECT count(*), count(DISTINCT trajectory_digest) FROM episodes"
            " GROUP BY environment_id, environment_version, case_id"
        ).fetchall()
        == [(2, 1)] * 12
    )


def test_the_costs_of_the_models_are_asked_with_sql(together):
    assert together.sql(
        "SELECT environment_id, sum((labels ->> '$.policy.usage.total_tokens')::INTEGER)"
        " FROM episodes WHERE agent_id = 'vendor/m' GROUP BY ALL ORDER BY ALL"
    ).fetchall() == [("refund-desk", 384), ("stockroom", 144)]


@pytest.mark.parametrize("example", [DESK, STORE], ids=["refund-desk", "stockroom"])
def test_the_model_s_episodes_replay_without_a_model(together, example):
    _, *versions = example
    for version in versions:
        episodes = together.episodes(
            f"agent_id = 'vendor/m' AND environment_id = '{version.name}'"
            f" AND environment_version = '{version.version}'"
        )
        assert len(episodes) in (2, 4)
        for episode in episodes:
            replay = verify_replay(version, episode)
            assert (replay.ok, replay.mismatches) == (True, ())


@pytest.mark.parametrize("agent", ["vendor/m", "script"])
def test_two_versions_are_compared_on_a_model_as_on_a_script(together, agent):
    for (example, *versions), script in ((DESK, "hasty"), (STORE, "impatient")):
        named = script if agent == "script" else agent
        sides = [
            Episodes(
                environment_id=version.name, environment_version=version.version, agent_id=named
            )
            for version in versions
        ]
        comparison = compare(*sides, store=together, checks=list(example.CHECKS))
        assert (comparison.comparable, comparison.unmatched) == (True, ())
        first, _ = comparison.checks
        assert first.broke == ()
        assert len(first.fixed) == 2


def test_a_model_is_compared_with_a_script_on_one_version(together):
    sides = [
        Episodes(environment_id="refund-desk", environment_version="2.0.0", agent_id=agent)
        for agent in ("hasty", "vendor/m")
    ]
    comparison = compare(*sides, store=together, treatment="agent", checks=list(refund_desk.CHECKS))
    assert (comparison.comparable, len(comparison.pairs)) == (True, 4)
    assert [(check.broke, check.fixed) for check in comparison.checks] == [((), ()), ((), ())]
