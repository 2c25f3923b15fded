"""The lock by which owners of a plan keep each other from its files."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from patchyard.clients.locks import PAUSE_S, taken
from patchyard.domain.errors import Conflict
from patchyard.stores import sole as soles
from patchyard.stores.sole import Sole

pytestmark = pytest.mark.anyio

HOLDS = """
import asyncio, sys
from pathlib import Path
from patchyard.stores.sole import Sole

async def hold():
    async with Sole(Path(sys.argv[1])).within():
        print("holds", flush=True)
        await asyncio.sleep(60)

asyncio.run(hold())
"""


def sole(path: Path) -> Sole:
    return Sole(path / "owners" / "P")


@contextmanager
def holder(path: Path) -> Iterator["subprocess.Popen[str]"]:
    """Another process that holds the lock, and would for a minute."""
    command = [sys.executable, "-c", HOLDS, str(path / "owners" / "P")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "holds\n"
            yield process
        finally:
            process.kill()


def stop(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)


async def test_a_successor_waits_until_an_owner_of_before_has_let_go(tmp_path: Path) -> None:
    said = []

    async def wait_and_say() -> None:
        async with sole(tmp_path).within():
            said.append("successor")

    async with sole(tmp_path).within():
        waiting = asyncio.create_task(wait_and_say())
        await asyncio.sleep(5 * PAUSE_S)
        said.append("owner")
    await waiting
    assert said == ["owner", "successor"]


async def test_tasks_of_one_owner_do_not_wait_for_each_other(tmp_path: Path) -> None:
    own = sole(tmp_path)
    async with own.within():
        async with own.within():
            pass
        assert taken(tmp_path / "owners" / "P") is None
    own.forget()
    assert list((tmp_path / "owners").iterdir()) == []


async def test_an_owner_that_is_stopped_while_it_holds_the_lock_is_killed(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        stop(process)
        async with sole(tmp_path).within():
            assert process.wait(60) == -signal.SIGKILL


async def test_an_owner_that_runs_is_waited_for_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(soles, "LET_GO_S", 0.1)
    with holder(tmp_path) as process:
        with pytest.raises(Conflict, match=f"process {process.pid}") as caught:
            async with sole(tmp_path).within():
                pytest.fail("both hold it")
        assert f"kill -9 {process.pid}" in caught.value.hint
        assert process.poll() is None


@pytest.mark.parametrize("locks", ["", "1: what is this\n", None])
async def test_where_nobody_can_be_seen_nobody_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locks: str | None
) -> None:
    monkeypatch.setattr(soles, "LET_GO_S", 0.1)
    monkeypatch.setattr("patchyard.clients.locks.LOCKS", tmp_path / "locks")
    if locks is not None:
        (tmp_path / "locks").write_text(locks)
    with holder(tmp_path) as process:
        stop(process)
        with pytest.raises(Conflict, match="a process, which owned"):
            async with sole(tmp_path).within():
                pytest.fail("both hold it")
        assert process.poll() is None


async def test_the_lock_of_an_owner_that_was_killed_is_free(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        process.kill()
        process.wait()
        async with sole(tmp_path).within():
            pass


async def test_a_file_that_somebody_holds_is_not_deleted(tmp_path: Path) -> None:
    with holder(tmp_path):
        sole(tmp_path).forget()
        assert (tmp_path / "owners" / "P").exists()


async def test_where_there_is_no_room_for_the_file_a_plan_comes_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "owners").write_text("no folder can be made here")
    async with sole(tmp_path).within():
        pass
