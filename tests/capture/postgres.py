"""A private PostgreSQL server for tests, and databases on it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

MISSING = "needs a PostgreSQL server's programs: apt-get install postgresql"


@contextmanager
def server() -> Iterator[str]:
    """Run a server in a temporary folder, without durability; gives the conninfo, without dbname.

    It refuses to run as root, and then runs as the user `postgres` that its package makes.
    """
    programs = find_programs()
    root = os.geteuid() == 0
    # Not pytest's own folder: that is closed to other users.
    folder = Path(tempfile.mkdtemp(prefix="envbench-postgres-"))
    try:
        if root:
            shutil.chown(folder, "postgres")

        def run(program: str, *arguments: str) -> None:
            done = subprocess.run(
                [str(programs / program), *arguments],
                cwd=folder,
                capture_output=True,
                text=True,
                check=False,
                **({"user": "postgres", "group": "postgres", "extra_groups": []} if root else {}),
            )
            if done.returncode:
                log = folder / "log"
                said = log.read_text(errors="replace") if log.exists() else ""
                pytest.fail(f"{program} failed: {done.stdout}{done.stderr}{said}")

        data = str(folder / "data")
        run(
            "initdb",
            "-D",
            data,
            "-U",
            "postgres",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--no-sync",
            "--locale=C.UTF-8",
        )
        port = free_port()
        options = f"-p {port} -h 127.0.0.1 -k '' -F -c synchronous_commit=off"
        options += " -c full_page_writes=off -c max_prepared_transactions=5"
        # Its output goes to a file: a pipe would stay open as long as the server runs.
        run("pg_ctl", "start", "-w", "-s", "-D", data, "-l", str(folder / "log"), "-o", options)
        try:
            yield f"host=127.0.0.1 port={port} user=postgres"
        finally:
            run("pg_ctl", "stop", "-s", "-D", data, "-m", "immediate")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def find_programs() -> Path:
    """The folder of the newest server's programs; the test is skipped where there is none."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    installed = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"),
        key=lambda path: int(path.parts[-3]) if path.parts[-3].isdigit() else 0,
    )
    if not installed:
        pytest.skip(MISSING)
    return installed[-1].parent


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def execute(conninfo: str, *statements: str) -> list[tuple[Any, ...]]:
    """Execute statements one by one, each committed; gives the rows of the last."""
    import psycopg

    rows: list[tuple[Any, ...]] = []
    with psycopg.connect(conninfo, autocommit=True) as connection:
        for statement in statements:
            cursor = connection.execute(statement)
            rows = cursor.fetchall() if cursor.description else []
    return rows
