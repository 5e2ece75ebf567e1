"""Whatever is altered in a store, `verify` finds it, or says in `NOT_VERIFIED` why not."""

import datetime

import pytest

from envbench.store import QueryError, StoreClosed, connect
from envbench.store.integrity import NOT_VERIFIED, Problem, Verification
from envbench.store.untrusted import our_columns

TABLES = (
    "runs",
    "cases",
    "environments",
    "episodes",
    "steps",
    "states",
    "state_changes",
    "audit_events",
    "frames",
    "blobs",
    "reports",
    "check_results",
)
CELLS = [
    (table, column)
    for table in TABLES
    for column in our_columns()[table]
    if f"{table}.{column}" not in NOT_VERIFIED
]


def execute(path, *statements):
    with connect(path) as store, store.cursor() as cursor:
        for statement, *parameters in (s if isinstance(s, tuple) else (s,) for s in statements):
            cursor.execute(statement, parameters).fetchall()


def verify(path):
    with connect(path, read_only=True) as store:
        return store.verify()


def messages(verification):
    return "\n".join(map(str, verification.problems))


def episode_of(path, case_id):
    with connect(path, read_only=True) as store:
        ((episode_id,),) = store.sql(
            "SELECT episode_id FROM episodes WHERE case_id = ?", [case_id]
        ).fetchall()
    return episode_id


# -- a store as it was written --------------------------------------------------------------------


def test_a_store_as_it_was_written(filled):
    verification = verify(filled)
    assert verification.ok
    assert verification.problems == ()
    assert (verification.episodes, verification.reports) == (4, 1)
    assert str(verification).startswith("4 episodes and 1 report verified: everything fits")


def test_the_filled_store_has_something_in_every_table(filled):
    with connect(filled, read_only=True) as store:
        empty = [table for table in TABLES if not len(store.frame(table))]
    assert empty == []


def test_an_empty_store():
    with connect(":memory:") as store:
        assert store.verify().ok


def test_an_untrusted_store(filled):
    with connect(filled, trusted=False) as store:
        assert store.verify().ok
    execute(filled, "UPDATE steps SET reward = 7 WHERE step_index = 1")
    with connect(filled, trusted=False) as store:
        assert not store.verify().ok


def test_a_copy_of_a_store_by_duckdb_itself_verifies(filled, tmp_path):
    with connect(filled) as store, store.cursor() as cursor:
        database = cursor.execute("SELECT current_database()").fetchall()[0][0]
        cursor.execute(f"ATTACH '{tmp_path / 'copy.duckdb'}' AS other").fetchall()
        cursor.execute(f'COPY FROM DATABASE "{database}" TO other').fetchall()
        cursor.execute("DETACH other").fetchall()
    assert verify(tmp_path / "copy.duckdb").ok


# -- cells ----------------------------------------------------------------------------------------


def altered(value, kind):
    """Another value of the same column."""
    if kind == "BOOLEAN":
        return not value
    if kind in ("BIGINT", "INTEGER"):
        return (value or 0) + 1
    if kind == "DOUBLE":
        return (value or 0.0) + 1e-6
    if kind == "TIMESTAMP":
        return (value or datetime.datetime(2026, 1, 1)) + datetime.timedelta(microseconds=1)
    if kind == "BLOB":
        return bytes([value[0] ^ 1, *value[1:]])
    if kind == "JSON":
        return '{"altered":true}' if value != '{"altered":true}' else "[]"
    return f"{value}x" if value else "x"


@pytest.fixture(scope="module")
def altering(filled_bytes, tmp_path_factory):
    """A store in which one cell after another is altered, looked at, and put back."""
    path = tmp_path_factory.mktemp("altering") / "a.duckdb"
    path.write_bytes(filled_bytes)
    with connect(path) as store:
        yield store
        assert store.verify().ok, "a cell was not put back"


def rows_of(store, table, column):
    kinds = store.sql(
        "SELECT data_type FROM duckdb_columns() WHERE table_name = ? AND column_name = ?",
        [table, column],
    ).fetchall()
    rows = store.sql(f'SELECT rowid, "{column}" FROM {table} ORDER BY rowid').fetchall()
    return str(kinds[0][0]), rows


def is_found(store, table, column, row, value, new):
    """Whether the alteration of one cell is found; the cell is put back."""
    with store.cursor() as cursor:
        update = f'UPDATE {table} SET "{column}" = ? WHERE rowid = ?'
        cursor.execute(update, [new, row]).fetchall()
        found = not store.verify().ok
        cursor.execute(update, [value, row]).fetchall()
    return found


@pytest.mark.parametrize(("table", "column"), CELLS)
def test_an_altered_cell_is_found(altering, table, column):
    kind, rows = rows_of(altering, table, column)
    row, value = next((row for row in rows if row[1] is not None), rows[0])
    new = altered(value, kind)
    assert is_found(altering, table, column, row, value, new), f"{value!r} made {new!r}"


NULLABLE = [
    (table, column)
    for table, column in CELLS
    if column
    in (
        "source_id",
        "reference_digest",
        "run_id",
        "agent_id",
        "previous",
        "environment_version",
        "environment_fingerprint",
        "seed",
        "max_steps",
        "options",
        "output",
        "row_keys",
        "final_state",
        "final_state_hash",
        "initial_info",
        "observation",
        "reward",
        "terminated",
        "info",
        "state_hash",
        "error",
        "started_at",
        "observe_us",
        "episode_return",
        "spaces",
        "spec",
        "before",
        "after",
        "passed",
        "reason",
    )
    and (table, column)
    not in [("states", "state_hash"), ("runs", "run_id"), ("runs", "started_at")]
    and (table, column) not in [("episodes", "terminated"), ("episodes", "truncated")]
]


@pytest.mark.parametrize(("table", "column"), NULLABLE)
def test_a_cell_made_null_or_filled_is_found(altering, table, column):
    kind, rows = rows_of(altering, table, column)
    full = [row for row in rows if row[1] is not None][:1]
    empty = [row for row in rows if row[1] is None][:1]
    for row, value in full + empty:
        new = None if value is not None else altered(None, kind)
        assert is_found(altering, table, column, row, value, new), f"{value!r} made {new!r}"


def test_json_written_otherwise_is_an_alteration(filled):
    """The digest is of the text: two spaces are enough."""
    execute(filled, "UPDATE episodes SET errors = '[ ]' WHERE case_id = 'idle'")
    assert not verify(filled).ok


@pytest.mark.parametrize("table", TABLES)
def test_a_deleted_row_is_found(filled, filled_bytes, table):
    with connect(filled, read_only=True) as store:
        rows = [row for (row,) in store.sql(f"SELECT rowid FROM {table}").fetchall()]
    unreferred = 0
    for row in rows[:3]:
        filled.write_bytes(filled_bytes)
        execute(filled, (f"DELETE FROM {table} WHERE rowid = ?", row))
        unreferred += verify(filled).ok
    assert unreferred == 0


@pytest.mark.parametrize("table", TABLES)
def test_a_row_that_is_there_twice_is_found(filled, table):
    execute(filled, f"INSERT INTO {table} SELECT * FROM {table} LIMIT 1")
    assert not verify(filled).ok


@pytest.mark.parametrize(
    "table", ["steps", "states", "audit_events", "blobs", "frames", "state_changes"]
)
def test_rows_of_no_episode_are_named(filled, table):
    with connect(filled) as store, store.cursor() as cursor:
        columns = our_columns()[table]
        kinds = dict(
            cursor.execute(
                "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = ?", [table]
            ).fetchall()
        )
        values = [
            "'gone'" if column == "episode_id" else _LITERAL[kinds[column]] for column in columns
        ]
        cursor.execute(f"INSERT INTO {table} VALUES ({', '.join(values)})").fetchall()
    assert verify(filled).problems == (
        Problem("gone", table, None, "1 rows of an episode that is not there"),
    )


_LITERAL = {
    "VARCHAR": "'x'",
    "JSON": "'1'",
    "BIGINT": "1",
    "DOUBLE": "1",
    "BOOLEAN": "true",
    "TIMESTAMP": "TIMESTAMP '2026-01-01'",
    "BLOB": "'x'::BLOB",
}


# -- what is said ---------------------------------------------------------------------------------


def test_an_altered_state_is_named_with_its_first_step(filled):
    episode_id = episode_of(filled, "pay")
    with connect(filled, read_only=True) as store:
        digest, first = store.sql(
            "SELECT state_hash, first_step FROM states WHERE episode_id = ? "
            "ORDER BY first_step OFFSET 1 LIMIT 1",
            [episode_id],
        ).fetchall()[0]
    execute(
        filled,
        (
            (
                "UPDATE states SET body = replace(body, 'paid', 'open') "
                "WHERE episode_id = ? AND state_hash = ?"
            ),
            episode_id,
            digest,
        ),
    )
    assert verify(filled).problems == (
        Problem(episode_id, "states", first, f"the state {digest} was altered"),
    )
    assert first == 1


def test_a_missing_step_is_named(filled):
    episode_id = episode_of(filled, "pay")
    execute(filled, ("DELETE FROM steps WHERE episode_id = ? AND step_index = 3", episode_id))
    verification = verify(filled)
    assert Problem(episode_id, "steps", 3, "step 3: missing") in verification.problems


def test_steps_that_change_places_are_found(filled):
    episode_id = episode_of(filled, "pay")
    execute(
        filled,
        (
            (
                "UPDATE steps SET step_index = CASE step_index WHEN 3 THEN 4 WHEN 4 THEN 3 END "
                "WHERE episode_id = ? AND step_index IN (3, 4)"
            ),
            episode_id,
        ),
    )
    assert "trajectory digest" in messages(verify(filled))


def test_a_gap_in_the_numbers_of_steps_is_found(filled):
    """The order is the same, so that the digest is too."""
    episode_id = episode_of(filled, "pay")
    execute(
        filled,
        ("UPDATE steps SET step_index = step_index + 1 WHERE episode_id = ?", episode_id),
    )
    problems = verify(filled).problems
    assert Problem(episode_id, "steps", 1, "step 1: missing") in problems
    assert Problem(episode_id, "steps", 6, "step 6: there, and the episode has 5 steps") in problems


def test_a_step_without_the_body_of_its_state_is_named(filled):
    episode_id = episode_of(filled, "pay")
    execute(filled, ("DELETE FROM states WHERE episode_id = ? AND first_step = 1", episode_id))
    (found,) = [p for p in verify(filled).problems if p.table == "states"]
    assert (found.episode_id, found.step_index) == (episode_id, 1)
    assert found.message.endswith("is missing")


def test_a_duplicate_episode_is_named(filled):
    episode_id = episode_of(filled, "pay")
    execute(filled, ("INSERT INTO episodes FROM episodes WHERE episode_id = ?", episode_id))
    assert Problem(episode_id, "episodes", None, "the episode is there 2 times") in (
        verify(filled).problems
    )


def test_an_altered_copy_beside_the_digest_is_named_with_both_values(filled):
    episode_id = episode_of(filled, "pay")
    execute(filled, ("UPDATE episodes SET source_id = 'bank' WHERE episode_id = ?", episode_id))
    assert verify(filled).problems == (
        Problem(episode_id, "episodes", None, "source_id is 'bank', where the evidence has 'shop'"),
    )


def test_the_quick_copy_of_the_final_state_is_compared(filled):
    episode_id = episode_of(filled, "pay")
    execute(
        filled,
        (
            (
                "UPDATE episodes SET final_state = replace(final_state, 'paid', 'open') "
                "WHERE episode_id = ?"
            ),
            episode_id,
        ),
    )
    assert messages(verify(filled)) == (
        f"episodes, episode {episode_id}: final_state is not the state that final_state_hash names"
    )


def test_times_and_identities_are_told_from_the_trajectory(filled):
    execute(filled, "UPDATE episodes SET agent_id = 'other' WHERE case_id = 'pay'")
    text = messages(verify(filled))
    assert "a time, an identity, a label or an issue was altered" in text
    assert "trajectory digest" not in text


def test_an_array_that_was_altered_consistently_with_its_size(filled):
    execute(
        filled,
        (
            "UPDATE blobs SET codec = 'raw', body = ?, n_bytes = 5 WHERE rowid = 0",
            b"other",
        ),
    )
    assert "was altered" in messages(verify(filled))


def test_a_blob_that_claims_to_be_huge_is_refused_and_not_allocated(filled):
    execute(filled, "UPDATE blobs SET n_bytes = 1000000000000000 WHERE rowid = 0")
    assert "blobs" in messages(verify(filled))


def test_a_result_made_to_pass_is_found(filled):
    execute(filled, "UPDATE check_results SET passed = NOT passed WHERE passed IS NOT NULL")
    (problem,) = verify(filled).problems
    assert problem.table == "reports"
    assert "does not fit its digest" in problem.message


def test_an_episode_that_was_sealed_again_is_not_the_one_that_was_judged(filled, tmp_path):
    """Altered together with its digests it fits; the report remembers what it judged."""
    episode_id = episode_of(filled, "idle")
    with connect(filled) as store:
        data = store.episode(episode_id).to_dict()
    from envbench.evidence.digest import seal
    from envbench.evidence.episode import EpisodeEvidence, _encode

    data["output"] = "paid nothing"
    encoded = _encode(data)
    encoded.digest, encoded.trajectory_digest = seal(
        encoded.head(), encoded.initial_state, encoded.steps(), encoded.final_state
    )
    forged = EpisodeEvidence(encoded)
    assert forged.verify() == []
    with connect(filled) as store:
        with store.cursor() as cursor:
            for table in ("steps", "states", "audit_events", "blobs", "episodes"):
                cursor.execute(f"DELETE FROM {table} WHERE episode_id = ?", [episode_id]).fetchall()
        store.add(forged)
        verification = store.verify()
    (problem,) = verification.problems
    assert problem.episode_id == episode_id
    assert "judged one with digest" in problem.message


def test_an_episode_that_is_gone_is_noted_by_the_report_that_judged_it(filled):
    episode_id = episode_of(filled, "idle")
    execute(
        filled,
        *(
            (f"DELETE FROM {table} WHERE episode_id = ?", episode_id)
            for table in ("steps", "states", "audit_events", "blobs", "episodes")
        ),
    )
    notes = [note for note in verify(filled).notes if note.episode_id == episode_id]
    assert len(notes) == 1
    assert "not in this store" in notes[0].message


def test_an_episode_being_recorded_is_a_note(filled):
    with connect(filled) as store, store.cursor() as cursor:
        cursor.execute(
            "INSERT INTO open_episodes VALUES ('now', TIMESTAMP '2026-01-01', '{}')"
        ).fetchall()
        cursor.execute("INSERT INTO steps (episode_id, step_index) VALUES ('now', 1)").fetchall()
        verification = store.verify()
    assert verification.ok
    assert Problem("now", "open_episodes", None, "not sealed: still being recorded") in (
        verification.notes
    )


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("CREATE MACRO sum(x) AS 0", "defines a function 'sum'"),
        ("CREATE MACRO steps() AS TABLE SELECT 1", "defines a function 'steps'"),
        (
            "CREATE OR REPLACE VIEW final_states AS SELECT episode_id, '1' AS state FROM episodes",
            "final_states: the view is not defined as in a store",
        ),
        ("DROP VIEW transitions", "transitions: the view is gone"),
        ("ALTER TABLE findings ADD COLUMN more INTEGER", "findings: the table is not defined"),
    ],
)
def test_definitions_that_answer_queries_with_a_lie(filled, statement, said):
    execute(filled, statement)
    assert said in messages(verify(filled))


def test_cells_that_cannot_even_be_read(filled):
    """What only another program could write: every one is a problem, none an exception."""
    for statement in (
        "UPDATE episodes SET extra = '[]' WHERE case_id = 'pay'",
        "UPDATE episodes SET labels = '3' WHERE case_id = 'idle'",
        "UPDATE cases SET tags = '{\"a\": 1}'",
        "UPDATE environments SET packages = '7'",
        "UPDATE runs SET packages = '[1]'",
        "UPDATE reports SET episodes = '{}', checks = '3'",
        "UPDATE check_results SET evidence = '\"x\"'",
        "UPDATE blobs SET codec = 'zip'",
        "UPDATE audit_events SET event_index = -5",
        "UPDATE episodes SET n_steps = -1 WHERE case_id = 'fails'",
    ):
        execute(filled, statement)
        assert not verify(filled).ok


def test_verify_sees_one_moment(filled):
    """What is written meanwhile is not half seen; here: between its queries."""
    with connect(filled) as store:
        from envbench.store import integrity

        looked = integrity._Look.at_steps

        def write_and_look(self):
            with store.cursor() as cursor:
                cursor.execute("DELETE FROM states").fetchall()
            looked(self)

        integrity._Look.at_steps = write_and_look
        try:
            assert store.verify().ok
        finally:
            integrity._Look.at_steps = looked
        assert not store.verify().ok


def test_what_is_not_verified_is_named_in_full():
    """No column is left out by mistake: it is tried above, or listed with a reason."""
    tried = {f"{table}.{column}" for table, column in CELLS}
    everything = {
        f"{table}.{column}" for table, columns in our_columns().items() for column in columns
    }
    left = {
        name
        for name in everything - tried
        if name not in NOT_VERIFIED and name.split(".")[0] not in NOT_VERIFIED
    }
    # a store of another version is refused; open episodes are tied to theirs by id
    assert left == {"schema_info.version", "open_episodes.episode_id"}
    assert set(NOT_VERIFIED) <= everything | set(our_columns())


def test_a_closed_store(filled):
    store = connect(filled)
    store.close()
    with pytest.raises(StoreClosed):
        store.verify()


def test_read_with_verify_refuses_an_altered_episode(filled):
    episode_id = episode_of(filled, "pay")
    execute(filled, ("UPDATE steps SET reward = 9 WHERE episode_id = ?", episode_id))
    with connect(filled, read_only=True) as store:
        store.episode(episode_id)
        with pytest.raises(Exception, match="trajectory_digest"):
            store.episode(episode_id, verify=True)
        with pytest.raises(QueryError):
            store.episodes("nothing = 1")


def test_numbers_are_written_with_their_nouns():
    problem = Problem(None, "steps", None, "wrong")
    one = Verification(1, 1, (problem,), ())
    assert str(one) == "1 episode and 1 report verified: 1 problem\nsteps: wrong"
    two = Verification(2, 0, (problem, problem), ())
    assert str(two).startswith("2 episodes and 0 reports verified: 2 problems\n")
