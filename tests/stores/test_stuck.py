"""A process that is stopped in the middle of a write does not hold the journal for good."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from patchyard.contracts.journal import NewEvent
from patchyard.domain.errors import Conflict
from patchyard.stores import sqlite, stuck
from patchyard.stores.sqlite import SQLiteJournal

pytestmark = pytest.mark.anyio

NOTED = NewEvent(type="Noted", schema=1, at=1.0, body={})

WRITES = """
import asyncio, os, signal, sys
from pathlib import Path
from patchyard.clients.clock import SystemClock
from patchyard.stores.claims import LeaseClaims
from patchyard.stores.membership import Membership
from patchyard.stores.sqlite import SQLiteJournal

async def write(path, is_owner):
    journal = SQLiteJournal.open(path)
    stop = lambda connection: os.kill(os.getpid(), signal.SIGSTOP)
    if is_owner:
        async with LeaseClaims(Membership(journal, path, SystemClock())).claim("P"):
            await journal.within(stop)
    else:
        await journal.within(stop)

asyncio.run(write(Path(sys.argv[1]), sys.argv[2] == "owner"))
"""


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stuck, "STUCK_S", 0.05)
    monkeypatch.setattr(stuck, "LOOK_S", 0.05)


@contextmanager
def stopped(path: Path, who: str) -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen([sys.executable, "-c", WRITES, str(path), who]) as process:
        try:
            os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
            yield process
        finally:
            process.kill()


async def appended(path: Path) -> int:
    journal = SQLiteJournal.open(path)
    try:
        return await journal.append("Q", 0, [NOTED])
    finally:
        await journal.close()


async def test_an_owner_of_plans_that_is_stopped_in_a_write_is_killed(tmp_path: Path) -> None:
    with stopped(tmp_path / "patchyard.db", "owner") as process:
        assert await appended(tmp_path / "patchyard.db") == 1
        assert process.wait(60) == -signal.SIGKILL


async def test_nobody_else_is_killed_for_a_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_S", 1.0)
    with stopped(tmp_path / "patchyard.db", "somebody") as process:
        with pytest.raises(Conflict, match="locked"):
            await appended(tmp_path / "patchyard.db")
        assert process.poll() is None


async def test_an_owner_that_is_slow_in_a_write_is_waited_for(tmp_path: Path) -> None:
    with stopped(tmp_path / "patchyard.db", "owner") as process:
        process.send_signal(signal.SIGCONT)
        assert await appended(tmp_path / "patchyard.db") == 1
        assert process.wait(60) == 0
