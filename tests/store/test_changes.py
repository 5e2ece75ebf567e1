"""`state_changes`: what is written with the seal is what the states say, and can be made again."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from random import Random

import pytest

from envbench import connect
from envbench.changes import ABSENT, Forbid
from envbench.checks import evaluate, no_forbidden_changes
from envbench.evidence.portable import canonical
from tests.changes.conftest import UNSEEN, make_episode
from tests.changes.states import dense_episode

COLUMNS = "step_index, since, path, op, before, after, restored_at, restored_after, to_initial"


def orders(*status, **more):
    return {"orders": [{"id": i, "status": s} for i, s in enumerate(status)], **more}


def rows(store, episode_id):
    return store.sql(
        f"SELECT {COLUMNS} FROM state_changes WHERE episode_id = ? ORDER BY step_index, path",
        [episode_id],
    ).fetchall()


def as_rows(changes):
    def text(value):
        return None if value is ABSENT else canonical(value).decode()

    return [
        (c.step, c.since, c.path, c.op, text(c.before), text(c.after), *restored(c))
        for c in changes
    ]


def restored(change):
    return change.restored_at, change.restored_after, change.to_initial


@pytest.fixture
def store():
    with connect(":memory:") as opened:
        yield opened


def test_rows_by_hand(store):
    episode = make_episode(
        orders("open"), orders("paid", n=None), UNSEEN, orders("open"), store=store
    )
    assert rows(store, episode.episode_id) == [
        # absent is NULL, null is the JSON null
        (1, 0, "/n", "add", None, "null", 3, 1, True),
        (1, 0, "/orders/id=0/status", "edit", '"open"', '"paid"', 3, 1, True),
        (3, 1, "/n", "remove", "null", None, None, None, None),
        (3, 1, "/orders/id=0/status", "edit", '"paid"', '"open"', None, None, None),
    ]


def test_rows_are_what_changes_says_and_can_be_rebuilt(store):
    episodes = []
    for seed in range(15):
        states = [state for _, state in dense_episode(Random(seed))]
        states[len(states) // 2] = UNSEEN
        episodes.append(make_episode(*states, store=store, final={"orders": []}))
    before = [rows(store, episode.episode_id) for episode in episodes]
    for episode, written in zip(episodes, before, strict=True):
        assert written == as_rows(episode.changes())
        assert written == as_rows(store.episode(episode.episode_id).changes())
    assert sum(map(len, before)) > 50
    assert store.verify().ok
    store.sql("SELECT 1")
    with store.cursor() as cursor:
        cursor.execute("DELETE FROM state_changes").fetchall()
    assert store.rebuild_changes() == sum(map(len, before))
    assert [rows(store, episode.episode_id) for episode in episodes] == before


def test_a_key_that_breaks_after_the_first_part_was_written(store, monkeypatch):
    """Earlier states are in the store alone by then, and the changes come from there."""
    from envbench.capture import recorder

    monkeypatch.setattr(recorder, "PART_STEPS", 4)
    states = [{"t": [{"id": 1, "n": i}, {"id": 2, "n": 0}]} for i in range(80)]
    states.append({"t": [{"id": 1, "n": 0}, {"id": 1, "n": 1}]})
    episode = make_episode(*states, store=store, max_steps=200, actions=[1] * 80)
    assert episode.data["row_keys"] == {"/t": None}
    written = rows(store, episode.episode_id)
    assert written == as_rows(episode.changes())
    assert all("/t/#" in row[2] for row in written)
    assert any("the key 'id' is 1 in two rows" in text for text in episode.data["issues"])
    assert not any("two rows" in issue for issue in episode.coverage_issues)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("DELETE FROM state_changes WHERE step_index = 1", "is missing or altered"),
        ("UPDATE state_changes SET restored_at = NULL WHERE step_index = 1", "missing or altered"),
        ("UPDATE state_changes SET after = '\"shipped\"'", "is missing or altered"),
        ("UPDATE state_changes SET path = '/x' WHERE step_index = 1", "of /x is not what follows"),
        ("INSERT INTO state_changes SELECT * FROM state_changes LIMIT 1", "is not what follows"),
    ],
)
def test_an_altered_row_is_named_and_can_be_rebuilt(store, statement, message):
    episode = make_episode(orders("open"), orders("paid"), orders("open"), store=store)
    assert store.verify().ok
    with store.cursor() as cursor:
        cursor.execute(statement).fetchall()
    problems = store.verify().problems
    assert {problem.table for problem in problems} == {"state_changes"}
    assert {problem.episode_id for problem in problems} == {episode.episode_id}
    assert any(message in problem.message for problem in problems)
    store.rebuild_changes()
    assert store.verify().ok


def test_restorations_shows_what_was_put_back(store):
    episode = make_episode(orders("open"), orders("paid"), orders("open"), store=store)
    found = store.sql(
        "SELECT step_index, path, before, after, restored_at, to_initial FROM restorations"
        " WHERE episode_id = ?",
        [episode.episode_id],
    ).fetchall()
    assert found == [(1, "/orders/id=0/status", '"open"', '"paid"', 2, True)]


def test_findings_are_saved_with_the_report(store):
    episode = make_episode(orders("open"), {"orders": []}, orders("open"), store=store)
    report = evaluate(store, [no_forbidden_changes(Forbid("/orders/**"))])
    report.save(store)
    found = store.sql(
        "SELECT episode_id, rule, path, kind, step_index, action, restored_at, before, during,"
        " after, resolution FROM findings"
    ).fetchall()
    row = '{"id":0,"status":"open"}'
    ((episode_id, rule, *finding),) = found
    assert (episode_id, rule) == (episode.episode_id, 'Forbid("/orders/**")')
    absent = '[{"$envbench":"absent"}]'
    assert finding == ["/orders/id=0", "restored", 1, "1", 2, row, absent, row, "step"]


def test_an_adopted_episode_has_its_changes(tmp_path):
    """The process is gone before the episode ends; what it had committed has its changes."""
    path = tmp_path / "evidence.duckdb"
    script = """
        import os, sys
        from envbench import connect
        from envbench.capture import recorder
        from tests.changes.conftest import World, CASE
        from envbench.capture import capture_episode

        recorder.PART_STEPS = 4
        n = iter(range(1000))
        store = connect(sys.argv[1])

        def interact(env, observation, info):
            for _ in range(200):
                env.step(1)
            store.flush()
            os._exit(0)

        capture_episode(World, interact, case=CASE, environment_id="w", observer_id="w", seed=1,
            max_steps=500, store=store,
            observe=lambda: {"t": [{"id": 1, "n": next(n) % 2}, {"id": 2, "n": 0}]})
    """
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(path)],
        check=True,
        env={**os.environ, "PYTHONPATH": "."},
    )
    with connect(path) as store:
        (episode,) = store.episodes()
        assert episode.ending == "interrupted"
        written = rows(store, episode.episode_id)
        assert written[0] == (1, 0, "/t/id=1/n", "edit", "0", "1", 2, 1, True)
        assert len(written) == len(episode.steps) > 0
        assert written == as_rows(episode.changes())
        assert store.verify().ok
