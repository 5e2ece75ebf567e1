"""Reading: as little as is asked for, in order, and never more than was kept."""

import gymnasium
import numpy as np
import pytest

from envbench.capture import capture_episode
from envbench.evidence import EvalCase
from envbench.store import QueryError, Store, StoreError, connect, reading
from envbench.store.connection import open_store
from envbench.store.writing import write_parts


class Counting(Store):
    """A store that counts the operations on it."""

    def __init__(self, opened):
        super().__init__(opened)
        self.count = 0

    def cursor(self):
        self.count += 1
        return super().cursor()


@pytest.fixture
def store():
    with Counting(open_store(":memory:")) as store:
        yield store


def write(store, *parts):
    with store.cursor() as cursor:
        write_parts(cursor, parts)


def alter(store, query):
    with store.cursor() as cursor:
        cursor.execute(query).fetchall()


def queries(store, function):
    """How many operations a function needs, and what it gives."""
    before = store.count
    found = function()
    return store.count - before, found


# -- as little as is asked for --------------------------------------------------------------------


def test_the_final_states_of_a_thousand_episodes(store, record_parts):
    parts = [record_parts(1, seed=seed)[0] for seed in range(1_000)]
    write(store, *parts)
    number, states = queries(store, lambda: [e.initial_state for e in store.episodes()])
    assert states == [{"at": 0}] * 1_000
    assert number <= 3
    number, found = queries(store, lambda: [e.data["initial_state"] for e in store.episodes()])
    assert found == states
    assert number <= 3


def test_the_steps_of_many_episodes(store, record_parts):
    write(store, *(record_parts(7, seed=seed)[0] for seed in range(50)))
    number, found = queries(
        store, lambda: [(e.steps[0].observation, len(e.steps)) for e in store.episodes()]
    )
    assert found == [(1, 7)] * 50
    # heads, steps and audits of all; states and one array of each
    assert number <= 4 + 3 * 50


def test_nothing_is_read_before_it_is_asked_for(store, record_parts):
    write(store, *record_parts(5, 3))
    number, episodes = queries(store, store.episodes)
    assert number == 1
    number, length = queries(store, lambda: len(episodes))
    assert (number, length) == (0, 1)
    number, episode = queries(store, lambda: episodes[0])
    assert number == 1
    number, ending = queries(store, lambda: (episode.ending, episode.data["case_id"]))
    assert (number, ending) == (0, ("terminated", "walk"))


def test_long_episodes_are_read_in_blocks(store, record_parts, monkeypatch):
    monkeypatch.setattr(reading, "STEPS_AT_ONCE", 4)
    write(store, *record_parts(11, seed=1), *record_parts(2, seed=2), *record_parts(4, seed=3))
    blocks = [[len(block) for block in e._source.steps()] for e in store.episodes()]
    assert blocks == [[4, 4, 3], [2], [4]]
    for episode in store.episodes():
        assert episode.verify() == []
        assert [step.index for step in episode.steps] == list(range(1, len(episode.steps) + 1))


def test_batches_do_not_show(store, record_parts, monkeypatch):
    monkeypatch.setattr(reading, "BATCH", 3)
    write(store, *(record_parts(seed % 4, seed=seed)[0] for seed in range(10)))
    found = [(e.data["seed"], len(e.steps)) for e in store.episodes()]
    assert found == [(seed, seed % 4) for seed in range(10)]


def test_an_array_is_read_bit_for_bit(store, record_parts):
    write(store, *record_parts(5))
    (episode,) = store.episodes()
    picture = episode.steps[3].info["picture"]
    assert picture.dtype == "float64"
    assert picture.tolist() == list(range(2_000))


# -- choosing -------------------------------------------------------------------------------------


def test_episodes_by_place(store, record_parts):
    write(store, *(record_parts(1, seed=seed)[0] for seed in range(5)))
    episodes = store.episodes()
    assert len(episodes) == 5
    assert [episodes[i].data["seed"] for i in (0, 4, -1, -5)] == [0, 4, 4, 0]
    for outside in (5, -6):
        with pytest.raises(IndexError, match=f"no episode at {outside}: there are 5 episodes"):
            episodes[outside]
    with pytest.raises(IndexError, match=r"there is 1 episode$"):
        store.episodes("seed = 1")[1]
    assert episodes[np.int64(3)].data["seed"] == 3
    assert [e.data["seed"] for e in episodes] == [e.data["seed"] for e in episodes]
    assert repr(episodes).startswith("<Episodes: 5 in ")


def test_episodes_by_slice(store, record_parts, monkeypatch):
    monkeypatch.setattr(reading, "BATCH", 2)
    write(store, *(record_parts(1, seed=seed)[0] for seed in range(5)))
    episodes = store.episodes()
    for part in (slice(2), slice(-2, None), slice(None, None, -1), slice(1, 9, 2), slice(7, 9)):
        found = episodes[part]
        assert type(found) is list
        assert [e.data["seed"] for e in found] == list(range(5))[part]


@pytest.mark.parametrize("index", ["a", 1.0, None, (1, 2)])
def test_episodes_by_what_is_no_place(store, index):
    with pytest.raises(TypeError, match=r"place or slice, not by \w+: store\.episode"):
        store.episodes()[index]


@pytest.mark.parametrize("where", [3, b"seed = 1", ["seed = 1"], False])
def test_a_condition_of_another_type(store, where):
    with pytest.raises(TypeError, match=f"condition as text, not {type(where).__name__}"):
        store.episodes(where)


def test_the_order_is_that_of_recording(store, record_parts):
    parts = [record_parts(1, seed=seed)[0] for seed in range(4)]
    for part in reversed(parts):
        write(store, part)
    assert [e.data["seed"] for e in store.episodes()] == [0, 1, 2, 3]


def test_episodes_by_condition(store, record_parts):
    write(store, *(record_parts(seed, seed=seed)[0] for seed in range(5)))
    assert [e.data["seed"] for e in store.episodes("n_steps >= 2 AND seed < 4")] == [2, 3]
    assert [e.data["seed"] for e in store.episodes("seed = 1 OR seed = 2 -- or more")] == [1, 2]
    assert len(store.episodes("false")) == 0
    assert list(store.episodes("seed = 99")) == []


@pytest.mark.parametrize(
    "where",
    [
        "",
        "no_such_column = 1",
        "seed = ",
        "1 = 1); DELETE FROM episodes; --",
        "1 = 1); DROP TABLE steps; SELECT (1",
        "true) OR (SELECT count(*) FROM read_text('/etc/passwd')) > (0",
        "seed = 1; DELETE FROM episodes",
        "seed IN (WITH a AS (DELETE FROM episodes RETURNING seed) FROM a)",
        "seed = ?",
        "\0",
        "'",
    ],
)
def test_what_is_no_condition_is_refused_and_writes_nothing(store, record_parts, where):
    write(store, *record_parts(2))
    try:
        found = len(store.episodes(where))
    except QueryError:
        found = 1
    assert found == 1
    assert store.sql("SELECT count(*) FROM episodes").fetchall() == [(1,)]
    assert store.sql("SELECT count(*) FROM steps").fetchall() == [(2,)]


def test_an_episode_that_is_not_there(store, record_parts):
    with pytest.raises(KeyError, match="no sealed episode 'x'"):
        store.episode("x")
    first, _ = record_parts(2, 2)
    write(store, first)
    with pytest.raises(KeyError, match="no sealed episode"):
        store.episode(first.episode_id)


def test_an_episode_that_is_there_twice(store, record_parts):
    (part,) = record_parts(2)
    write(store, part)
    write(store, part)
    with pytest.raises(StoreError, match="is there 2 times"):
        store.episode(part.episode_id)


# -- altered --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "alteration",
    [
        "UPDATE steps SET reward = 0.25 WHERE step_index = 1",
        "UPDATE steps SET action = '0' WHERE step_index = 1",
        "UPDATE steps SET observation = NULL WHERE step_index = 3",
        "UPDATE states SET body = '{\"at\":7}' WHERE first_step = 1",
        "DELETE FROM steps WHERE step_index = 5",
        "DELETE FROM states WHERE first_step = 2",
        "DELETE FROM blobs",
        "UPDATE episodes SET ending = 'truncated'",
        "UPDATE episodes SET seed = 3",
        "UPDATE cases SET input = '\"other\"'",
        "DELETE FROM audit_events WHERE step_index = 2",
    ],
)
def test_verify_refuses_what_was_altered(store, record_parts, alteration):
    (part,) = record_parts(5)
    write(store, part)
    assert store.episode(part.episode_id, verify=True).ending == "terminated"
    alter(store, alteration)
    assert store.episode(part.episode_id).episode_id == part.episode_id
    with pytest.raises(StoreError, match=part.episode_id):
        store.episode(part.episode_id, verify=True)


def test_an_episode_that_is_deleted_while_others_are_read(store, record_parts, monkeypatch):
    monkeypatch.setattr(reading, "BATCH", 2)
    parts = [record_parts(2, seed=seed)[0] for seed in range(6)]
    write(store, *parts)
    found = []
    for episode in store.episodes():
        found.append(episode.data["seed"])
        if len(found) == 1:
            alter(store, f"DELETE FROM episodes WHERE episode_id = '{parts[4].episode_id}'")
    assert found == [0, 1, 2, 3, 5]


def test_an_episode_that_is_added_while_others_are_read(store, record_parts):
    write(store, *record_parts(2, seed=1))
    episodes = store.episodes()
    write(store, *record_parts(2, seed=2))
    assert len(list(episodes)) == len(episodes) == 1
    assert len(store.episodes()) == 2


def test_an_episode_whose_row_is_gone_when_it_is_asked_for(store, record_parts):
    write(store, *record_parts(2))
    episodes = store.episodes()
    alter(store, "DELETE FROM episodes")
    with pytest.raises(StoreError, match="is gone"):
        episodes[0]


def test_an_array_that_is_gone(store, record_parts):
    write(store, *record_parts(5))
    alter(store, "DELETE FROM blobs")
    (episode,) = store.episodes()
    with pytest.raises(ValueError, match=r"the content of array [0-9a-f]{64} is not in"):
        _ = episode.steps[3].info


def test_two_connections_see_what_was_committed(tmp_path, record_parts):
    path = tmp_path / "s.duckdb"
    with connect(path) as writer, connect(path) as reader:
        write(writer, *record_parts(2))
        assert len(reader.episodes()) == 1


def test_an_episode_tells_the_store_it_was_read_from(store):
    def interact(env, observation, info):
        env.step(0)

    captured = capture_episode(
        lambda: gymnasium.make("CartPole-v1"),
        interact,
        case=EvalCase("Balance", case_id="balance", expects="either"),
        environment_id="cartpole",
        observer_id="none",
        observe=dict,
        seed=1,
        max_steps=1,
    )
    store.add(captured)
    assert reading.store_of(captured) is None
    assert reading.store_of(store.episode(captured.episode_id)) is store
