"""The command line: what it prints, its exit codes, and one line for every kind of bad input."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import gymnasium
import pytest
from typer.testing import CliRunner

import envbench
from envbench import cli


class Counter(gymnasium.Env[int, int]):
    """Counts its steps and ends after the third."""

    action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Discrete(10)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.count = 0
        return 0, {}

    def step(self, action: int) -> Any:
        self.count += 1
        return self.count, float("nan") if self.count == 2 else 0.5, self.count == 3, False, {}


def count_to_three(env: Any, observation: Any, info: Any) -> str:
    done = False
    while not done:
        _, _, done, _, _ = env.step(1)
    return "three"


@dataclass(frozen=True)
class Files:
    """A store of two episodes, a report about them in it and as JSON, and policies."""

    folder: Path
    store: Path
    report: Path
    report_id: str
    accepting: Path
    rejecting: Path
    demanding: Path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("cli")
    environment = Counter()

    def judge(name: str, passed: bool | None) -> envbench.OutcomeCheck:
        verdict = envbench.OutcomeVerdict(passed, "said so", {})
        return envbench.OutcomeCheck(name, "v1", lambda episode: verdict)

    with envbench.connect(folder / "evidence.duckdb") as store:
        for seed in (1, 2):
            envbench.capture_episode(
                lambda: environment,
                count_to_three,
                case=envbench.EvalCase("Count to three", case_id=f"count-{seed}"),
                environment_id="counter-v1",
                observer_id="count-v1",
                observe=lambda: {"count": environment.count, "big": 2**64 + 1},
                seed=seed,
                max_steps=5,
                store=store,
            )
        checks = [judge("good", True), judge("bad", False), judge("unknown", None)]
        report = envbench.evaluate(store, checks)
        report.save(store)
    report.save_json(folder / "report.json")
    policies = {}
    for check in ("good", "bad", "unknown"):
        # the reward of NaN at step 2 is a contract issue, so that nothing here can be accepted
        policies[check] = folder / f"policy-{check}.json"
        requirement = envbench.CheckRequirement(check, critical=True)
        envbench.AcceptancePolicy((requirement,)).save_json(policies[check])
    return Files(
        folder,
        folder / "evidence.duckdb",
        folder / "report.json",
        report.report_id,
        *policies.values(),
    )


@pytest.fixture
def files(made: Files, tmp_path: Path) -> Files:
    """A copy of the files that a test may damage."""
    shutil.copytree(made.folder, tmp_path / "files")
    moved = {
        name: tmp_path / "files" / value.name
        for name in ("store", "report", "accepting", "rejecting", "demanding")
        if isinstance(value := getattr(made, name), Path)
    }
    return Files(folder=tmp_path / "files", report_id=made.report_id, **moved)


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    def one_line(self) -> str:
        """The message about bad input, held to be the only thing said."""
        assert self.code == 2, self
        assert self.out == ""
        assert self.err.startswith("envbench: ")
        assert self.err.count("\n") == 1
        assert self.err.endswith("\n")
        assert "Traceback" not in self.err
        return self.err.removeprefix("envbench: ").rstrip()


Run = Callable[..., Ran]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Run a command in this process, as the console script does."""

    def run_here(*arguments: object) -> Ran:
        monkeypatch.setattr(sys, "argv", ["envbench", *map(str, arguments)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as exited:
            cli.main()
        captured = capfd.readouterr()
        return Ran(exited.value.code or 0, captured.out, captured.err)

    return run_here


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "envbench.cli", *map(str, arguments)]


def process(*arguments: object, **options: Any) -> Ran:
    """Run a command as a process of its own, with its output piped."""
    ran = subprocess.run(
        command(*arguments), capture_output=True, text=True, check=False, **options
    )
    return Ran(ran.returncode, ran.stdout, ran.stderr)


class TestHelp:
    def test_the_version(self, run: Run) -> None:
        assert run("--version") == Ran(0, f"envbench {envbench.__version__}\n", "")

    def test_the_commands_are_listed(self, run: Run) -> None:
        shown = run("--help")
        assert shown.code == 0
        for name in ("demo", "verify", "sql", "gate", "merge"):
            assert f" {name} " in shown.out

    def test_no_command_is_bad_input_and_shows_the_help(self) -> None:
        shown = process()
        assert shown.code == 2
        assert "Usage: " in shown.out + shown.err
        assert "Traceback" not in shown.err

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["verfy", "x"], "No such command 'verfy'."),
            (["verify"], "Missing argument 'STORE'."),
            (["verify", "x", "--jsn"], "No such option: --jsn"),
            (["sql", "x", "SELECT 1", "--limit", "-1"], "Invalid value for '--limit': "),
            (["gate", "x"], "Missing option '--policy'."),
            (["merge", "x"], "Missing argument 'IN…'."),
            (["sql", "x", "SELECT 1", "--json", "--csv"], "--json and --csv exclude each other"),
        ],
    )
    def test_wrong_usage_is_one_line(self, run: Run, arguments: list[str], message: str) -> None:
        assert message in run(*arguments).one_line()

    def test_wrong_usage_is_one_line_of_a_process(self) -> None:
        assert process("verfy").one_line().startswith("No such command 'verfy'.")


def junk(folder: Path) -> dict[str, Path]:
    """Files that are no store, each bad in its way."""
    (folder / "text.duckdb").write_text("not a database\n" * 500, encoding="utf-8")
    (folder / "empty.duckdb").touch()
    (folder / "binary.duckdb").write_bytes(bytes(range(256)) * 64)
    (folder / "json.duckdb").write_text('{"schema": "envbench.report/v1"}', encoding="utf-8")
    (folder / "folder.duckdb").mkdir()
    with duckdb.connect(str(folder / "other.duckdb")) as other:
        other.execute("CREATE TABLE episodes (name VARCHAR)").fetchall()
    return {path.stem: path for path in folder.glob("*.duckdb")}


KINDS_OF_JUNK = ("text", "empty", "binary", "json", "folder", "other")


class TestBadStores:
    @pytest.mark.parametrize("kind", KINDS_OF_JUNK)
    @pytest.mark.parametrize("arguments", [["verify"], ["sql", "SELECT 1"]], ids=["verify", "sql"])
    def test_a_file_that_is_no_store(
        self, run: Run, kind: str, arguments: list[str], tmp_path: Path
    ) -> None:
        path = junk(tmp_path)[kind]
        before = path.read_bytes() if path.is_file() else None
        message = run(arguments[0], path, *arguments[1:]).one_line()
        assert str(path) in message
        assert (path.read_bytes() if path.is_file() else None) == before

    @pytest.mark.parametrize("kind", KINDS_OF_JUNK)
    def test_a_file_that_is_no_store_in_a_process(self, kind: str, tmp_path: Path) -> None:
        assert process("verify", junk(tmp_path)[kind]).one_line()

    @pytest.mark.parametrize("kind", KINDS_OF_JUNK)
    def test_merging_a_file_that_is_no_store_leaves_nothing(
        self, run: Run, kind: str, files: Files, tmp_path: Path
    ) -> None:
        bad = junk(tmp_path)[kind]
        message = run("merge", tmp_path / "new.duckdb", files.store, bad).one_line()
        assert str(bad) in message
        assert not (tmp_path / "new.duckdb").exists()
        assert not (tmp_path / "new.duckdb.wal").exists()

    def test_a_missing_file(self, run: Run, tmp_path: Path) -> None:
        path = tmp_path / "none.duckdb"
        expected = f"{path}: there is no such file"
        assert run("verify", path).one_line() == expected
        assert run("sql", path, "SELECT 1").one_line() == expected
        assert run("gate", path, "--policy", path).one_line() == expected
        assert run("merge", tmp_path / "out.duckdb", path).one_line() == expected
        assert process("verify", path).one_line() == expected
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        "name", ["a" * 5000, "new\nline.duckdb", "\x1b[31mred.duckdb", "file/below.duckdb"]
    )
    def test_a_name_that_cannot_be_is_one_line(self, run: Run, name: str, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        message = run("verify", tmp_path / name).one_line()
        assert "\x1b" not in message
        run("sql", tmp_path / name, "SELECT 1").one_line()
        run("gate", tmp_path / name, "--policy", tmp_path / name).one_line()
        run("merge", tmp_path / name, tmp_path / name).one_line()

    def test_a_newer_schema(self, run: Run, files: Files) -> None:
        with duckdb.connect(str(files.store)) as store:
            store.execute("UPDATE schema_info SET version = 99").fetchall()
        for shown in (
            run("verify", files.store),
            run("sql", files.store, "SELECT 1"),
            run("merge", files.folder / "out.duckdb", files.store),
            process("verify", files.store),
        ):
            message = shown.one_line()
            assert str(files.store) in message
            assert "99" in message
            assert "upgrade" in message

    def test_a_file_that_may_not_be_read(self, files: Files) -> None:
        for path in (files.store, files.report, files.accepting):
            path.chmod(0o000)
        for arguments in (
            ["verify", files.store],
            ["gate", files.report, "--policy", files.rejecting],
            ["gate", files.report, "--policy", files.accepting],
            ["merge", files.folder / "out.duckdb", files.store],
        ):
            ran = subprocess.run(
                [*WITHOUT_PRIVILEGE, *command(*arguments)],
                capture_output=True,
                text=True,
                check=False,
            )
            message = Ran(ran.returncode, ran.stdout, ran.stderr).one_line()
            assert "not readable" in message or "ermission" in message
        assert not (files.folder / "out.duckdb").exists()

    def test_a_store_that_another_process_holds(self, run: Run, files: Files) -> None:
        program = f"import envbench; s = envbench.connect({str(files.store)!r}); print(1); input()"
        holder = subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        with holder:
            assert holder.stdout
            holder.stdout.readline()
            for shown in (
                run("verify", files.store),
                run("sql", files.store, "SELECT 1"),
                run("merge", files.folder / "out.duckdb", files.store),
                process("verify", files.store),
            ):
                assert str(holder.pid) in shown.one_line()
            holder.communicate(b"\n")
        assert run("verify", files.store).code == 0


# Root may read any file, so that it has to give up that privilege first.
WITHOUT_PRIVILEGE = (
    ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
)


class TestVerify:
    def test_a_sound_store(self, run: Run, files: Files) -> None:
        expected = f"{files.store}: 2 episodes, 6 steps; nothing altered\n"
        assert run("verify", files.store) == Ran(0, expected, "")
        answer = {"ok": True, "episodes": 2, "steps": 6, "problems": []}
        assert json.loads(run("verify", files.store, "--json").out) == answer

    def test_an_altered_reward_is_named_and_exits_with_1(self, run: Run, files: Files) -> None:
        with duckdb.connect(str(files.store)) as store:
            first = "SELECT min(episode_id) FROM episodes"
            store.execute(
                f"UPDATE steps SET reward = 7 WHERE step_index = 3 AND episode_id = ({first})"
            ).fetchall()
            episode = store.execute(first).fetchall()[0][0]
        shown = run("verify", files.store, "--json")
        assert (shown.code, shown.err) == (1, "")
        answer = json.loads(shown.out)
        assert answer["ok"] is False
        assert {problem["episode_id"] for problem in answer["problems"]} == {episode}
        table = run("verify", files.store)
        assert table.code == 1
        first, *others = table.out.splitlines()
        assert first.startswith(f"{files.store}: {len(answer['problems'])} problem")
        assert len(others) == len(answer["problems"])
        assert all(line.startswith(f"  episode {episode}, ") for line in others)


class TestSql:
    def test_a_table(self, run: Run, files: Files) -> None:
        query = "SELECT step_index AS step, reward FROM steps ORDER BY ALL LIMIT 3"
        shown = run("sql", files.store, query)
        assert (shown.code, shown.err) == (0, "")
        assert [line.split() for line in shown.out.splitlines() if "─" not in line] == [
            ["step", "reward"],
            ["1", "0.5"],
            ["1", "0.5"],
            ["2", "nan"],
        ]

    def test_json_is_exact(self, run: Run, files: Files) -> None:
        query = """
            SELECT 2::HUGEINT * 85070591730234615865843651857942052863 AS huge,
                   'nan'::DOUBLE AS nan, '-inf'::DOUBLE AS low, NULL AS nothing, true AS yes,
                   0.1::DOUBLE AS tenth, 12.340::DECIMAL(20, 3) AS exact, 1e300 AS large,
                   [1.5, 'nan'::DOUBLE] AS list, {'a': 1} AS object, '\\x00\\xFF'::BLOB AS bytes,
                   TIMESTAMP '2026-01-02 03:04:05.000006' AS moment, DATE '2026-01-02' AS day,
                   state AS state, 'é"' AS text, 1 AS text
            FROM final_states LIMIT 1
        """
        (row,) = json.loads(run("sql", files.store, query, "--json").out, parse_float=str)
        assert row == {
            "huge": 170141183460469231731687303715884105726,
            "nan": {"$envbench": "float", "value": "nan"},
            "low": {"$envbench": "float", "value": "-inf"},
            "nothing": None,
            "yes": True,
            "tenth": "0.1",
            "exact": "12.340",
            "large": "1e+300",
            "list": ["1.5", {"$envbench": "float", "value": "nan"}],
            "object": {"a": 1},
            "bytes": {"$envbench": "bytes", "base64": "AP8="},
            "moment": "2026-01-02 03:04:05.000006",
            "day": "2026-01-02",
            "state": {"count": 3, "big": 2**64 + 1},
            "text": 'é"',
            "text_1": 1,
        }

    def test_json_of_no_rows_is_an_empty_list(self, run: Run, files: Files) -> None:
        shown = run("sql", files.store, "SELECT 1 WHERE false", "--json")
        assert json.loads(shown.out) == []
        assert run("sql", files.store, "SELECT 1 WHERE false").out == "no rows\n"

    def test_csv_has_every_row(self, run: Run, files: Files) -> None:
        query = "SELECT range AS i, 'a,\"b\"' AS text FROM range(2500)"
        rows = list(csv.reader(run("sql", files.store, query, "--csv").out.splitlines()))
        assert rows[0] == ["i", "text"]
        assert rows[1:] == [[str(i), 'a,"b"'] for i in range(2500)]

    def test_a_long_table_says_that_it_was_cut(self, run: Run, files: Files) -> None:
        query = "SELECT range AS i FROM range(150)"
        shown = run("sql", files.store, query)
        assert len(shown.out.splitlines()) == 2 + 100
        assert shown.err == "The first 100 rows; --limit 0 shows all.\n"
        assert len(run("sql", files.store, query, "--limit", 0).out.splitlines()) == 2 + 150
        assert run("sql", files.store, query, "--limit", 150).err == ""

    def test_a_wide_row_is_a_record_in_80_columns(self, files: Files) -> None:
        shown = process("sql", files.store, "FROM episodes LIMIT 1")
        lines = shown.out.splitlines()
        assert lines[0] == "row 1"
        assert max(map(len, lines)) <= 80
        assert any(line.split() == ["case_id", "count-1"] for line in lines)

    def test_a_long_value_goes_on_in_the_next_line(self, files: Files) -> None:
        shown = process("sql", files.store, "SELECT repeat('x', 200) AS text, 1 AS number")
        assert max(map(len, shown.out.splitlines())) <= 80
        assert shown.out.count("x") == 200 + 1  # and the one in the heading

    def test_no_colour_in_a_pipe_and_nothing_that_acts_on_a_terminal(self, files: Files) -> None:
        query = "SELECT chr(27) || '[31m' AS escape, chr(8238) AS turned, chr(10) AS line"
        shown = process("sql", files.store, query)
        assert "\x1b" not in shown.out
        assert r"\x1b[31m" in shown.out
        assert r"\u202e" in shown.out
        assert r"\n" in shown.out

    @pytest.mark.parametrize(
        ("query", "message"),
        [
            ("SELEC 1", 'Parser Error: syntax error at or near "SELEC"'),
            ("FROM nothing_here", "Table with name nothing_here does not exist!"),
            ("SELECT 'a'::INT", "Could not convert string 'a' to INT32"),
            ("SELECT 1 + ", "Parser Error"),
            ("", "the query holds 0 statements; give one"),
            ("SELECT 1; SELECT 2", "the query holds 2 statements; give one"),
            ("DELETE FROM episodes", "DELETE is refused"),
            ("UPDATE episodes SET seed = 1", "UPDATE is refused"),
            ("CREATE TABLE mine (a INT)", "CREATE is refused"),
            ("DROP TABLE episodes", "DROP is refused"),
            ("ATTACH 'other.duckdb'", "ATTACH is refused"),
            ("COPY episodes TO 'copy.parquet'", "COPY is refused"),
            ("SET threads = 1", "SET is refused"),
            ("INSTALL httpfs", "INSTALL is refused"),
            ("CHECKPOINT", "CHECKPOINT is refused"),
            ("FROM read_csv('/etc/passwd')", "file system operations are disabled"),
            ("FROM '/etc/passwd'", "/etc/passwd"),
        ],
    )
    def test_a_query_that_is_wrong_or_more_than_a_query(
        self, run: Run, files: Files, query: str, message: str
    ) -> None:
        before = files.store.read_bytes()
        assert message in run("sql", files.store, query).one_line()
        assert message in run("sql", files.store, query, "--json").err
        assert files.store.read_bytes() == before

    def test_a_wrong_query_is_one_line_of_a_process(self, files: Files) -> None:
        message = process("sql", files.store, "SELEC 1").one_line()
        assert message == 'Parser Error: syntax error at or near "SELEC"'

    def test_a_hidden_write_is_refused(self, run: Run, files: Files) -> None:
        query = "WITH gone AS (DELETE FROM evidence.main.episodes RETURNING 1) FROM gone"
        run("sql", files.store, query).one_line()
        assert run("verify", files.store).code == 0

    @pytest.mark.parametrize(
        "query", ["PIVOT (SELECT 1 AS a, 2 AS b) ON a USING sum(b)", "SHOW TABLES", "FROM range(1)"]
    )
    def test_what_reads_is_allowed(self, run: Run, files: Files, query: str) -> None:
        assert run("sql", files.store, query).code == 0

    def test_nothing_that_the_file_defines_is_run(self, run: Run, files: Files) -> None:
        with duckdb.connect(str(files.store)) as store:
            store.execute("CREATE MACRO sum(x) AS 999").fetchall()
        shown = run("sql", files.store, "SELECT sum(n_steps) AS n FROM episodes", "--json")
        assert json.loads(shown.out) == [{"n": 6}]


class TestGate:
    @pytest.mark.parametrize(
        ("policy", "word", "code"),
        [("rejecting", "REJECT", 1), ("demanding", "INDETERMINATE", 2)],
    )
    def test_the_word_and_the_code_agree(
        self, run: Run, files: Files, policy: str, word: str, code: int
    ) -> None:
        path = getattr(files, policy)
        for report in ([files.report], [files.store, "--report", files.report_id]):
            shown = run("gate", *report, "--policy", path)
            assert (shown.code, shown.err) == (code, "")
            assert shown.out.split()[0] == word
            answer = json.loads(run("gate", *report, "--policy", path, "--json").out)
            assert answer["decision"] == word.lower()
            assert answer["exit_code"] == code

    def test_accept(self, run: Run, files: Files, tmp_path: Path) -> None:
        environment = gymnasium.make("FrozenLake-v1", is_slippery=False)
        episode = envbench.capture_episode(
            lambda: environment,
            lambda env, observation, info: [env.step(a) for a in (1, 1, 2, 2, 1, 2)] and None,
            case=envbench.EvalCase("Cross", case_id="lake"),
            environment_id="lake-v1",
            observer_id="none-v1",
            observe=lambda: {"at": int(environment.unwrapped.s)},
            seed=1,
            max_steps=10,
        )
        check = envbench.OutcomeCheck(
            "good", "v1", lambda e: envbench.OutcomeVerdict(e.final_state == {"at": 15}, "", {})
        )
        envbench.evaluate_episode(episode, [check]).save_json(tmp_path / "report.json")
        shown = run("gate", tmp_path / "report.json", "--policy", files.accepting)
        assert (shown.code, shown.out.split()[0], shown.err) == (0, "ACCEPT", "")

    def test_files_given_for_each_other(self, run: Run, files: Files) -> None:
        message = run("gate", files.report, "--policy", files.report).one_line()
        assert message.startswith(f"{files.report}: not a policy as JSON: /schema: ")
        message = run("gate", files.accepting, "--policy", files.accepting).one_line()
        assert message.startswith(f"{files.accepting}: not a report as JSON: /schema: ")

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"{",
            b"[]",
            b"null",
            b"{}",
            b'{"schema": "envbench.policy/v1", "checks": []}',
            b'{"schema": "envbench.policy/v9"}',
            b'{"a": 1, "a": 2}',
            b"NaN",
            b"\xff\xfe\x00",
            b"[" * 200_000,
            b"9" * 10_000,
            b"\x00" * 100,
        ],
        ids=lambda content: repr(content[:12]),
    )
    def test_broken_json(self, run: Run, files: Files, content: bytes, tmp_path: Path) -> None:
        path = tmp_path / "broken.json"
        path.write_bytes(content)
        assert f"{path}: not a policy" in run("gate", files.report, "--policy", path).one_line()
        assert f"{path}: not a report" in run("gate", path, "--policy", files.accepting).one_line()

    def test_broken_json_in_a_process(self, files: Files, tmp_path: Path) -> None:
        (tmp_path / "broken.json").write_text("{")
        assert process("gate", tmp_path / "broken.json", "--policy", files.accepting).one_line()

    def test_an_altered_report(self, run: Run, files: Files) -> None:
        text = files.report.read_text(encoding="utf-8")
        assert text.count('"passed":false') == 2
        files.report.write_text(text.replace('"passed":false', '"passed":true'), encoding="utf-8")
        message = run("gate", files.report, "--policy", files.rejecting).one_line()
        assert "altered" in message

    def test_a_store_without_the_report(self, run: Run, files: Files) -> None:
        message = run(
            *("gate", files.store, "--report", "no-such-id", "--policy", files.accepting)
        ).one_line()
        assert message == f"no report 'no-such-id' in {files.store}"

    def test_a_store_without_an_id_says_what_to_give(self, run: Run, files: Files) -> None:
        message = run("gate", files.store, "--policy", files.accepting).one_line()
        assert str(files.store) in message
        assert "--report ID" in message

    def test_a_folder(self, run: Run, files: Files) -> None:
        for arguments in (
            ["gate", files.folder, "--policy", files.accepting],
            ["gate", files.report, "--policy", files.folder],
        ):
            assert run(*arguments).one_line() == f"{files.folder}: is a folder, not a file"


class TestMerge:
    def test_into_a_new_store(self, run: Run, files: Files) -> None:
        out = files.folder / "all.duckdb"
        assert run("merge", out, files.store) == Ran(0, f"{out}: 2 episodes\n", "")
        assert run("verify", out).out == f"{out}: 2 episodes, 6 steps; nothing altered\n"

    def test_into_itself(self, run: Run, files: Files) -> None:
        before = files.store.read_bytes()
        message = run("merge", files.store, files.store).one_line()
        assert str(files.store) in message
        assert files.store.read_bytes() == before

    def test_a_failed_merge_leaves_the_store_as_it_was(
        self, run: Run, files: Files, tmp_path: Path
    ) -> None:
        (tmp_path / "bad.duckdb").write_text("bad")
        out = files.folder / "all.duckdb"
        run("merge", out, files.store)
        run("merge", out, tmp_path / "bad.duckdb").one_line()
        assert run("verify", out).out == f"{out}: 2 episodes, 6 steps; nothing altered\n"

    def test_into_a_folder_or_where_nothing_can_be_made(self, run: Run, files: Files) -> None:
        assert str(files.folder) in run("merge", files.folder, files.store).one_line()
        run("merge", files.folder / "none" / "out.duckdb", files.store).one_line()
        run("merge", files.report, files.store).one_line()
        assert files.report.read_text(encoding="utf-8").startswith("{")


class TestDemo:
    def test_a_folder_that_is_not_empty(self, run: Run, tmp_path: Path) -> None:
        (tmp_path / "mine.txt").write_text("mine")
        message = run("demo", "--output-dir", tmp_path).one_line()
        assert str(tmp_path) in message
        assert "--force" in message
        assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]

    def test_a_file_and_a_place_where_nothing_can_be_made(self, run: Run, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        run("demo", "--output-dir", tmp_path / "file").one_line()
        run("demo", "--output-dir", tmp_path / "file" / "below").one_line()

    @pytest.mark.slow
    def test_the_whole_demonstration(self, tmp_path: Path) -> None:
        shown = process("demo", "--json", cwd=tmp_path)
        assert (shown.code, shown.err) == (0, "")
        answer = json.loads(shown.out)
        assert answer["ok"] is True
        assert len(answer["outcomes"]) == 44
        assert (tmp_path / "ledger-outcomes" / "outcomes.html").stat().st_size > 10_000
        again = process("demo", cwd=tmp_path)
        assert "--force" in again.one_line()
        table = process("demo", "--force", cwd=tmp_path)
        assert (table.code, table.err) == (0, "")
        assert "44 of 44 outcomes as expected." in table.out
        assert "\x1b" not in table.out
        assert max(map(len, table.out.splitlines())) <= 80
        report = tmp_path / "ledger-outcomes" / "reports" / "v1-correct-seed17.json"
        policy = tmp_path / "ledger-outcomes" / "policy.json"
        assert process("gate", report, "--policy", policy).out.split()[0] == "ACCEPT"


class TestProcess:
    @pytest.fixture
    def piped(self, files: Files) -> Iterator[subprocess.Popen[str]]:
        query = "SELECT range AS i, repeat('x', 1000) AS text FROM range(100000)"
        with subprocess.Popen(
            command("sql", files.store, query, "--csv"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as running:
            yield running
            running.kill()

    def test_a_reader_that_has_seen_enough_is_no_fault(self, piped: subprocess.Popen[str]) -> None:
        assert piped.stdout
        assert piped.stderr
        assert piped.stdout.readline() == "i,text\n"
        piped.stdout.close()
        assert piped.stderr.read() == ""
        assert piped.wait() == 141

    @pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["sql", "--help"]])
    def test_a_reader_that_never_reads_is_no_fault(self, arguments: list[str]) -> None:
        read, write = os.pipe()
        os.close(read)
        ran = subprocess.run(
            command(*arguments), stdout=write, stderr=subprocess.PIPE, text=True, check=False
        )
        os.close(write)
        assert (ran.returncode, ran.stderr) == (141, "")

    def test_a_full_disk_is_one_line(self, files: Files) -> None:
        with Path("/dev/full").open("w", encoding="utf-8") as full:
            ran = subprocess.run(
                command("sql", files.store, "SELECT 1"),
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
        assert Ran(ran.returncode, "", ran.stderr).one_line() == "No space left on device"

    def test_a_terminal_without_the_characters_shows_escapes(self, files: Files) -> None:
        shown = process(
            *("sql", files.store, "SELECT 'é' AS text, 'naïve' AS other"),
            env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
        )
        assert (shown.code, shown.err) == (0, "")
        assert r"\xe9" in shown.out
        assert r"na\xefve" in shown.out

    def test_an_interrupt_is_quiet(self, piped: subprocess.Popen[str]) -> None:
        assert piped.stdout
        assert piped.stderr
        piped.stdout.readline()
        piped.send_signal(signal.SIGINT)
        while piped.stdout.read(1 << 16):
            pass
        assert piped.stderr.read() == ""
        assert piped.wait() == 130

    def test_an_interrupt_in_the_middle_of_a_query_is_quiet(self, files: Files) -> None:
        query = "SELECT sum(a.range * b.range % 7) FROM range(10000000) a, range(10000000) b"
        with subprocess.Popen(
            command("sql", files.store, query, "--csv"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as running:
            while running.poll() is None and not is_past_its_imports(running.pid):
                time.sleep(0.05)
            running.send_signal(signal.SIGINT)
            try:
                out, err = running.communicate(timeout=60)
            finally:
                running.kill()
        assert (running.returncode, out, err) == (130, "", "")


def is_past_its_imports(pid: int) -> bool:
    """Whether a process has used four seconds of processor time, of which imports take one."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return int(fields[11]) > 4 * os.sysconf("SC_CLK_TCK")


def test_bad_input_has_its_exit_code_without_main_too(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli.app, ["verify", str(tmp_path / "missing.duckdb")])
    assert result.exit_code == 2
    assert "there is no such file" in " ".join(result.output.split())
