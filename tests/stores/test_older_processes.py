"""A home's database is not changed below a living process of an older version."""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from patchyard.contracts.journal import NewEvent
from patchyard.domain.errors import Outdated, StateRefusal
from patchyard.stores import database, older
from patchyard.stores.database import APPLICATION_ID, known_version
from patchyard.stores.sqlite import SQLiteJournal

OLDER = """
import json, os, sqlite3, sys, time
from patchyard.stores import leasing

path, row, stays_open = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3] == "open"
connection = sqlite3.connect(path, isolation_level=None)
connection.execute("PRAGMA journal_mode = WAL")
seat = leasing.seat_here()
row |= {"boot": seat.boot, "pid": seat.pid, "started": seat.started, "beat": time.monotonic()}
row = {"namespace": seat.namespace} | row
if "member" in row:
    names, places = ", ".join(row), ", ".join("?" * len(row))
    connection.execute(f"INSERT INTO members ({names}) VALUES ({places})", [*row.values()])
connection.execute("SELECT count(*) FROM events").fetchone()
if not stays_open:
    connection.close()
print("ready", flush=True)
sys.stdin.readline()
"""
"""A process that works in a home as an older version does; a worker where it has a row."""

WORKER = {"member": "m", "name": "old", "since": 1.0, "concurrency": 2}


def older_database(path: Path, version: int) -> None:
    connection = sqlite3.connect(path)
    for script in database.migrations()[:version]:
        for statement in script.split(";\n"):
            connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {version}")
    connection.commit()
    connection.close()


def version_of(path: Path) -> int:
    connection = sqlite3.connect(path)
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    connection.close()
    return int(version)


@contextmanager
def older_process(
    path: Path, row: dict[str, object], *, opened: str = "open"
) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", OLDER, str(path), json.dumps(row), opened],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "patchyard.db"


@pytest.mark.anyio
@pytest.mark.parametrize("version", [4, 5, 6])
async def test_nothing_is_migrated_below_an_older_worker_that_lives(
    path: Path, version: int
) -> None:
    older_database(path, version)
    said = {"announced": json.dumps(announced("0.5.0"))} if version > 5 else {}
    with older_process(path, WORKER | said) as process:
        with pytest.raises(StateRefusal, match=f"worker old, process {process.pid} on ") as caught:
            SQLiteJournal.open(path)
        assert version_of(path) == version
        assert caught.value.exit_code == 3
        assert f"`kill {process.pid}`" in caught.value.hint
        (named,) = caught.value.details["processes"]
        assert named["pid"] == process.pid
        assert named["version"] == ("0.5.0" if said else None)
        process.kill()
        process.wait()
        await SQLiteJournal.open(path).close()
    assert version_of(path) == known_version()


def test_the_doctor_says_that_an_older_worker_keeps_a_home_from_being_migrated(
    path: Path,
) -> None:
    older_database(path, 5)
    command = [sys.executable, "-m", "patchyard", "doctor", "--format", "json"]
    environ = os.environ | {"PATCHYARD_HOME": str(path.parent)}
    with older_process(path, WORKER) as process:
        said = subprocess.run(command, env=environ, capture_output=True, check=False)
        assert said.returncode == 1
        rows = {row["name"]: row for row in json.loads(said.stdout)["data"]["findings"]}
        assert f"worker old, process {process.pid} on " in rows["database"]["said"]
        assert f"`kill {process.pid}`" in rows["database"]["cure"]


def announced(version: str) -> dict[str, object]:
    return {
        "id": "m", "worker": "old", "roles": [], "takes_all": True, "capabilities": [],
        "expertise": [], "version": version, "load": 0, "concurrency": 2, "is_draining": False,
    }  # fmt: skip


@pytest.mark.anyio
async def test_an_older_command_is_waited_for_and_then_named(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(older, "WAIT_S", 0.05)
    older_database(path, 1)  # no version so old has a table of members
    with older_process(path, {}) as process:
        with pytest.raises(StateRefusal, match=f": process {process.pid} on "):
            SQLiteJournal.open(path)
        assert version_of(path) == 1
    await SQLiteJournal.open(path).close()


@pytest.mark.anyio
async def test_an_older_worker_in_another_container_is_named_by_its_row(path: Path) -> None:
    older_database(path, 6)
    row = WORKER | {"namespace": "pid:[1]"}
    with (
        older_process(path, row, opened="closed"),  # its locks are not seen from here
        pytest.raises(StateRefusal, match="in another container of this machine") as caught,
    ):
        SQLiteJournal.open(path)
    assert caught.value.hint.startswith("end it in its container")


@pytest.mark.anyio
async def test_a_dead_worker_of_an_older_version_keeps_nothing_from_being_migrated(
    path: Path,
) -> None:
    older_database(path, 6)
    with older_process(path, WORKER) as process:
        process.kill()
        process.wait()
    await SQLiteJournal.open(path).close()
    assert version_of(path) == known_version()


@pytest.mark.anyio
async def test_a_process_writes_nothing_once_a_newer_version_has_migrated(path: Path) -> None:
    journal = SQLiteJournal.open(path)
    event = NewEvent(type="Noted", schema=1, at=1.0, body={})
    assert await journal.append("P", 0, [event]) == 1
    newer = sqlite3.connect(path)
    newer.execute(f"PRAGMA user_version = {known_version() + 1}")
    newer.commit()
    newer.close()
    with pytest.raises(Outdated, match="a newer Patchyard has changed the database") as caught:
        await journal.append("P", 1, [event])
    assert "start it again" in caught.value.hint
    assert len(await journal.read("P")) == 1
    await journal.close()


def test_a_worker_ends_by_itself_once_a_newer_version_has_migrated(tmp_path: Path) -> None:
    path = tmp_path / "home" / "patchyard.db"
    with subprocess.Popen(
        [sys.executable, "-m", "patchyard", "worker", "--name", "w"],
        cwd=tmp_path,
        env={**os.environ, "PATCHYARD_HOME": str(path.parent), "PATCHYARD_POOL": "{size: 0}"},
        stderr=subprocess.PIPE,
        text=True,
    ) as worker:
        assert worker.stderr is not None
        assert any(line.startswith("worker w: up to") for line in worker.stderr)
        newer = sqlite3.connect(path, timeout=10, isolation_level=None)
        newer.execute("BEGIN IMMEDIATE")
        newer.execute(f"PRAGMA user_version = {known_version() + 1}")
        newer.execute(
            "INSERT INTO jobs (job, errand, project, model, priority, not_before, every_s, queued)"
            " VALUES ('01M86DAMKYERD830REQ4J2XSTD', 'run', 'p', 'm', 9, 0, 0, 0)"
        )
        newer.execute("INSERT INTO lanes VALUES ('p', 'm', '', 0)")
        newer.execute("COMMIT")
        said = worker.stderr.read()
        assert worker.wait(120) == 3, said
    taken = newer.execute("SELECT member FROM jobs WHERE errand = 'run'").fetchone()
    newer.close()
    assert taken == (None,)
    assert "a newer Patchyard has changed the database" in said
    assert "start it again with the newer version" in said
