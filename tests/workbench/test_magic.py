"""`%%sql`: variables are bound, results come in every form, and nothing can be written."""

from __future__ import annotations

import datetime
import decimal
import enum
import gc
import math
import pathlib
import re
import uuid

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell

from envbench.capture import capture_episode
from envbench.evidence import EvalCase
from envbench.store import Result, connect, open_stores
from envbench.workbench.magic import load
from envbench.workbench.sql_errors import SqlError, described
from envbench.workbench.sql_variables import bound
from tests.store.conftest import fill


@pytest.fixture(scope="module")
def filled_bytes(tmp_path_factory):
    path = tmp_path_factory.mktemp("filled") / "a.duckdb"
    fill(path)
    return path.read_bytes()


@pytest.fixture
def filled(filled_bytes, tmp_path):
    path = tmp_path / "a.duckdb"
    path.write_bytes(filled_bytes)
    return path


@pytest.fixture(scope="module")
def bare_shell():
    shell = InteractiveShell()
    load(shell)
    return shell


@pytest.fixture
def shell(bare_shell):
    """A shell without variables."""
    names = set(bare_shell.user_ns)
    yield bare_shell
    for name in set(bare_shell.user_ns) - names:
        del bare_shell.user_ns[name]


@pytest.fixture(scope="module")
def shared(filled_bytes, tmp_path_factory):
    path = tmp_path_factory.mktemp("shared") / "a.duckdb"
    path.write_bytes(filled_bytes)
    with connect(path) as store:
        yield store


@pytest.fixture
def store(shell, shared):
    """A store that a test does not change."""
    shell.user_ns["store"] = shared
    return shared


@pytest.fixture
def own_store(shell, filled):
    """A store that a test may change."""
    with connect(filled) as store:
        shell.user_ns["store"] = store
        yield store


def cell(shell, line, query):
    """What a cell of SQL gives; what goes wrong is raised."""
    return shell.run_cell_magic("sql", line, query)


class TestForms:
    @pytest.mark.parametrize(
        ("form", "kind"),
        [
            ("polars", pl.DataFrame),
            ("pandas", pd.DataFrame),
            ("arrow", pa.Table),
            ("relation", duckdb.DuckDBPyRelation),
        ],
    )
    def test_each_form_is_shown_and_kept(self, shell, store, form, kind):
        shown = cell(shell, f"found --as {form}", "SELECT 2 AS n UNION ALL SELECT 3 ORDER BY n")
        assert type(shown) is kind
        assert shell.user_ns["found"] is shown
        assert list(shown.columns if form != "arrow" else shown.column_names) == ["n"]

    def test_without_a_form_it_is_a_result(self, shell, store):
        result = cell(shell, "", "SELECT count(*) AS n FROM episodes")
        assert isinstance(result, Result)
        assert result.fetchall() == [(4,)]

    def test_quiet_shows_nothing_and_keeps_all_the_same(self, shell, store):
        assert cell(shell, "n --quiet", "SELECT 7") is None
        assert shell.user_ns["n"].fetchall() == [(7,)]

    def test_a_line_takes_its_options_before_the_query(self, shell, store):
        frame = shell.run_line_magic("sql", "--as polars SELECT 1 AS a, '--as pandas' AS b")
        assert frame.to_dicts() == [{"a": 1, "b": "--as pandas"}]
        assert shell.run_line_magic("sql", "SELECT 5").fetchall() == [(5,)]

    def test_a_relation_stays_valid_and_reads_anew(self, shell, own_store):
        cell(shell, "found --as relation", "SELECT * FROM decisions")
        gc.collect()
        relation = shell.user_ns["found"]
        n_before = len(relation.fetchall())
        own_store.cursor().execute(
            "INSERT INTO decisions "
            "VALUES ('new', 'r', TIMESTAMP '2026-01-01', 'accept', '{}', '[]', '{}')"
        ).fetchall()
        assert len(relation.fetchall()) == n_before + 1
        assert relation.filter("decision_id = 'new'").fetchall()[0][0] == "new"

    def test_a_relation_of_a_file_outlives_its_cell(self, shell, filled):
        cell(shell, f"found --as relation --store '{filled}'", "SELECT count(*) FROM episodes")
        gc.collect()
        assert shell.user_ns["found"].fetchall() == [(4,)]


class Colour(enum.Enum):
    RED = "red"


class TestVariables:
    @pytest.mark.parametrize(
        ("value", "seen"),
        [
            (None, None),
            (True, True),
            (2**62, 2**62),
            (2**100, 2**100),
            (-1.5, -1.5),
            ("it's; DROP TABLE episodes", "it's; DROP TABLE episodes"),
            (b"\x00'", b"\x00'"),
            (bytearray(b"ab"), b"ab"),
            (datetime.date(2026, 2, 3), datetime.date(2026, 2, 3)),
            (datetime.datetime(2026, 2, 3, 4), datetime.datetime(2026, 2, 3, 4)),
            (datetime.timedelta(hours=1), datetime.timedelta(hours=1)),
            (decimal.Decimal("1.50"), decimal.Decimal("1.50")),
            (uuid.UUID(int=5), str(uuid.UUID(int=5))),
            (np.int64(3), 3),
            (np.uint64(2**63), 2**63),
            (np.float32(1.5), 1.5),
            (np.bool_(True), True),
            (np.str_("a"), "a"),
            (np.datetime64("2026-02-03"), datetime.date(2026, 2, 3)),
            (
                np.datetime64("2026-02-03T04:05:06.000007008"),
                datetime.datetime(2026, 2, 3, 4, 5, 6, 7),
            ),
            (np.datetime64("NaT", "s"), None),
            (np.timedelta64(90, "s"), datetime.timedelta(seconds=90)),
            (pd.NaT, None),
            (pd.NA, None),
            (pd.Timestamp("2026-02-03 04:05"), datetime.datetime(2026, 2, 3, 4, 5)),
            (pd.Timedelta("1h"), datetime.timedelta(hours=1)),
            (Colour.RED, "red"),
            (pathlib.PurePosixPath("a/b"), "a/b"),
            ({"b": 1, "a": [True]}, '{"a":[true],"b":1}'),
            ([1, 2], [1, 2]),
            ((1, None), [1, None]),
            ([], []),
            (range(3), [0, 1, 2]),
            (np.array([1, 2]), [1, 2]),
            (np.array(5), 5),
            (pd.Series([1, 2]), [1, 2]),
            (pl.Series([1, None]), [1, None]),
            ({"k": 1}.values(), [1]),
        ],
    )
    def test_a_value_is_seen_by_the_query_as_it_is(self, shell, store, value, seen):
        shell.user_ns["x"] = value
        assert cell(shell, "", "SELECT $x AS x").fetchall() == [(seen,)]

    def test_nan_is_a_float(self):
        assert math.isnan(bound(["x"], {"x": float("nan")})["x"])
        assert math.isnan(bound(["x"], {"x": decimal.Decimal("NaN")})["x"])

    def test_a_list_is_looked_up_with_in(self, shell, store):
        shell.user_ns |= {"ids": {"fails", "idle"}, "none": []}
        query = "SELECT case_id FROM episodes WHERE case_id IN {} ORDER BY 1"
        assert cell(shell, "", query.format("$ids")).fetchall() == [("fails",), ("idle",)]
        assert cell(shell, "", query.format("$none")).fetchall() == []

    def test_an_episode_stands_for_its_id(self, shell, store):
        shell.user_ns["first"] = store.episodes()[0]
        query = "SELECT case_id FROM episodes WHERE episode_id = $first"
        assert cell(shell, "", query).fetchall() == [("fails",)]

    def test_text_and_comments_name_no_variable(self, shell, store):
        query = "SELECT '$nothing' AS a, $$ $nowhere $$ AS b -- $never"
        assert cell(shell, "", query).fetchall() == [("$nothing", " $nowhere ")]

    def test_a_line_is_not_expanded_as_other_magics_are(self, shell, store):
        shell.user_ns["x"] = "1 AS y, 2"
        assert shell.run_line_magic("sql", "SELECT $x AS x, '{x}' AS y").fetchall() == [
            ("1 AS y, 2", "{x}")
        ]

    @pytest.mark.parametrize(
        ("name", "value", "message"),
        [
            ("x", 2**127, "does not fit DuckDB's 128 bits"),
            ("x", [1, object()], r"\$x\[1\] is a builtins.object, for which SQL has no value"),
            ("x", pd.DataFrame({"a": [1]}), "is a frame"),
            ("x", pl.DataFrame({"a": [1]}), "is a frame"),
            ("x", "\ud800", "lone surrogate"),
            ("x", decimal.Decimal("1e-50"), "more digits than the 38"),
            ("xs", 1, "there is no variable x; did you mean \\$xs?"),
        ],
    )
    def test_what_cannot_be_bound_is_named(self, shell, store, name, value, message):
        shell.user_ns[name] = value
        with pytest.raises(SqlError, match=message):
            cell(shell, "", "SELECT $x")

    def test_a_place_without_a_name_is_refused(self, shell, store):
        with pytest.raises(SqlError, match=r"name a variable, as \$x"):
            cell(shell, "", "SELECT ?")


class TestStores:
    def test_the_one_connected_last_is_asked(self, shell, store, tmp_path):
        query = "SELECT count(*) FROM episodes"
        with connect(tmp_path / "later.duckdb") as later:
            shell.user_ns["later"] = later
            assert cell(shell, "", query).fetchall() == [(0,)]
            assert cell(shell, "--store store", query).fetchall() == [(4,)]
            assert cell(shell, f"--store={store.path}", query).fetchall() == [(4,)]
        assert cell(shell, "", query).fetchall() == [(4,)]

    def test_one_in_a_variable_goes_before_one_that_the_notebook_does_not_hold(self, shell, store):
        with connect(":memory:"):
            assert cell(shell, "", "SELECT count(*) FROM episodes").fetchall() == [(4,)]

    def test_a_file_is_opened_read_only_and_closed(self, shell, filled):
        assert cell(shell, f"--store '{filled}'", "SELECT count(*) FROM episodes").fetchall() == [
            (4,)
        ]
        with connect(filled) as again:  # it would be locked in another mode
            assert not again.read_only

    def test_what_was_captured_a_moment_ago_is_there(self, shell, own_store):
        from tests.store.conftest import Shop, play

        capture_episode(
            Shop,
            play(1),
            case=EvalCase("look", case_id="look"),
            environment_id="shop",
            observer_id="none",
            observe=dict,
            seed=1,
            max_steps=2,
            store=own_store,
        )
        assert cell(shell, "", "SELECT count(*) FROM episodes").fetchall() == [(5,)]

    @pytest.mark.parametrize("named", ["nothing", "x", "/no/such/file.duckdb"])
    def test_what_is_no_store_is_said(self, shell, store, named):
        shell.user_ns["x"] = 5
        with pytest.raises(SqlError, match="neither a variable that holds a store nor a file"):
            cell(shell, f"--store {named}", "SELECT 1")


class TestReading:
    @pytest.mark.parametrize("form", ["", "--as relation"])
    @pytest.mark.parametrize(
        "query",
        [
            "DELETE FROM episodes",
            "COPY episodes TO 'stolen.csv'",
            "ATTACH 'other.duckdb'",
            "SET threads = 1",
            "PRAGMA database_list",
            "CREATE TABLE t(i INT)",
            "SELECT 1; DROP TABLE episodes",
            "WITH gone AS (DELETE FROM episodes RETURNING *) SELECT * FROM gone",
            "EXPLAIN ANALYZE DELETE FROM episodes",
        ],
    )
    def test_what_writes_is_refused(self, shell, store, query, form):
        with pytest.raises(SqlError, match=r"refused|holds 2 statements|leave out --as"):
            cell(shell, form, query)
        assert store.sql("SELECT count(*) FROM episodes").fetchall() == [(4,)]

    def test_files_of_the_machine_are_named_by_nobody(self, shell, filled):
        with pytest.raises(SqlError):
            cell(shell, f"--store '{filled}'", "SELECT * FROM read_text('/etc/hostname')")

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("--as excel", "--as takes polars, pandas, relation or arrow, not 'excel'"),
            ("--as", "--as needs a value"),
            ("a b", "'b' is one word too many"),
            ("for", "'for' is no name for a variable"),
            ("SELECT 1", "'1' is one word too many"),
            ("--limit 5", "there is no option --limit"),
            ("'a", "cannot be read"),
        ],
    )
    def test_a_wrong_first_line_is_said(self, shell, store, line, message):
        with pytest.raises(SqlError, match=re.escape(message)):
            cell(shell, line, "SELECT 1")

    def test_nothing_is_kept_when_the_query_fails(self, shell, store):
        shell.user_ns["kept"] = "before"
        with pytest.raises(SqlError):
            cell(shell, "kept", "SELECT nothing")
        assert shell.user_ns["kept"] == "before"


class TestErrors:
    def test_the_line_is_marked(self, shell, store):
        query = "SELECT\n  case_id,\n  fooo\nFROM episodes\nWHERE true"
        with pytest.raises(SqlError) as caught:
            cell(shell, "", query)
        message = str(caught.value)
        assert message.startswith('Binder Error: Referenced column "fooo" not found')
        assert message.endswith(
            "\n"
            "\n  1 │ SELECT"
            "\n  2 │   case_id,"
            "\n→ 3 │   fooo"
            "\n    │   ^^^^"
            "\n  4 │ FROM episodes"
            "\n  5 │ WHERE true"
        )

    def test_a_long_line_is_shown_around_the_mark(self, shell, store):
        with pytest.raises(SqlError) as caught:
            cell(shell, "", f"SELECT {'1, ' * 200} fooo FROM episodes")
        *_, line, carets = str(caught.value).splitlines()
        assert len(line) < 120
        assert line[carets.index("^") : carets.rindex("^") + 1] == "fooo"

    def test_after_a_tab_and_an_accent_the_mark_stands_right(self, shell, store):
        with pytest.raises(SqlError) as caught:
            cell(shell, "", "SELECT 'é' AS a,\tfooo FROM episodes")
        *_, line, carets = str(caught.value).splitlines()
        assert line[carets.index("^") : carets.rindex("^") + 1] == "fooo"

    @pytest.mark.parametrize(
        ("query", "marked"),
        [
            ("SELEC 1", "SELEC"),
            ("SELECT * FROM nope", "nope"),
            ("SELECT lenght('a')", "lenght('a')"),
            ("SELECT\n'a'::INT", "::INT"),
            ("SELECT * FROM $x", "$"),
        ],
    )
    def test_each_kind_of_mistake_is_marked(self, shell, store, query, marked):
        shell.user_ns["x"] = 1
        with pytest.raises(SqlError) as caught:
            cell(shell, "", query)
        lines = str(caught.value).splitlines()
        at = next(i for i, line in enumerate(lines) if "^" in line)
        mark = lines[at]
        assert lines[at - 1][mark.index("^") : mark.rindex("^") + 1] == marked

    def test_it_is_one_block_and_no_traceback(self, shell, store, capsys):
        result = shell.run_cell("%%sql\nSELECT nothing")
        assert type(result.error_in_exec) is SqlError
        printed = capsys.readouterr().out
        assert "Traceback" not in printed
        assert "magic.py" not in printed
        assert len(printed.splitlines()) < 10

    def test_what_an_error_quotes_acts_on_nothing(self, shell, store):
        with pytest.raises(SqlError) as caught:
            cell(shell, "", "SELECT error('\x1b[2J\u202e<script>')")
        assert "\\x1b[2J\\u202e<script>" in str(caught.value)

    def test_a_message_without_a_place_stays_as_it_is(self):
        assert described("Some Error: x", "SELECT 1") == "Some Error: x"
        assert described("E: x\n\nLINE 9: SELECT 1\n        ^", "SELECT 1") == "E: x"


def completions(shell, text):
    with provisionalcompleter():
        return [each.text for each in shell.Completer.completions(text, len(text))]


class TestCompletion:
    def test_tables_after_from(self, shell, store):
        assert completions(shell, "%%sql\nSELECT * FROM epi") == ["episodes"]
        assert "final_states" in completions(shell, "%%sql\nSELECT *\nFROM ")

    def test_columns_of_the_tables_in_the_query(self, shell, store):
        assert completions(shell, "%%sql\nFROM steps SELECT rew") == ["reward"]
        assert completions(shell, "%%sql x --as polars\nFROM steps s SELECT s.rew") == ["reward"]

    def test_variables_after_the_dollar(self, shell, store):
        shell.user_ns |= {"threshold": 1, "_hidden": 2}
        assert completions(shell, "%%sql\nSELECT $thr") == ["$threshold"]
        assert "$_hidden" not in completions(shell, "%%sql\nSELECT $")

    def test_a_line_completes_too(self, shell, store):
        assert completions(shell, "%sql SELECT * FROM epi") == ["episodes"]

    def test_the_store_that_the_cell_names_is_looked_at(self, shell, store):
        with connect(":memory:") as other:
            other.cursor().execute("CREATE TABLE peculiar(i INT)").fetchall()
            shell.user_ns["other"] = other
            assert completions(shell, "%%sql --store other\nFROM pec") == ["peculiar"]
            assert completions(shell, "%%sql --store store\nFROM pec") == []

    def test_python_is_completed_as_before(self, shell, store):
        shell.user_ns["episodes_seen"] = 1
        assert "episodes_seen" in completions(shell, "episodes_s")
        assert "reward" not in completions(shell, "rew")


def test_loading_twice_is_once(bare_shell):
    before = list(bare_shell.Completer.custom_matchers)
    load(bare_shell)
    assert len(bare_shell.Completer.custom_matchers) == len(before)


def test_without_one_it_says_how_to_connect(shell):
    for store in open_stores():
        store.close()
    with pytest.raises(SqlError, match="no store is open: connect to one"):
        cell(shell, "", "SELECT 1")
