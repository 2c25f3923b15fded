"""What the processes of an environment are started with, as root sees it from outside."""

import asyncio
import os
from collections.abc import Iterator

import pytest

from environments.yards import LOCAL, Adapter, Start, Yard, marks_of
from patchyard.clients.berths import MARK
from patchyard.clients.process import all_processes, marked
from patchyard.toolbox.ending import started_with
from running import started_as

KINDS = [
    *(pytest.param(kind, marks=marks_of(kind)) for kind in (*LOCAL, "ssh")),
    pytest.param("container", marks=marks_of("container")),
]
SECRET = b"OPENAI_API_KEY=sk-very-secret"

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]


def serving(command: int) -> Iterator[int]:
    """Yield a command and whom it descends from, as far up as the toolbox."""
    parents = {each.pid: each.parent for each in all_processes()}
    while command in parents:
        yield command
        if b"-c" in (words := started_with(command, "cmdline")) and b"-I" in words:
            return
        command = parents[command]


@pytest.fixture(params=KINDS)
def adapter(yard: Yard, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Adapter:
    name, _, value = SECRET.decode().partition("=")
    monkeypatch.setenv(name, value)
    return yard.adapter(request.param)


@pytest.mark.service("root")  # a toolbox shows its variables to root alone
async def test_no_process_of_it_is_started_with_a_variable_of_the_engine(
    start: Start, yard: Yard
) -> None:
    running = await start(yard.spec())
    number = f"600.{os.getpid()}"
    job = {"command": f"sleep {number}; :", "background": True}
    assert (await running.toolbox.call("01JOB", "execute_command", job))["success"]
    mark = f"{MARK}={running.handle.environment_id}"
    async with asyncio.timeout(120):
        while not (commands := started_as("sleep", number)):  # noqa: ASYNC110 - its shell starts it
            await asyncio.sleep(0)
    found = {each.pid for each in marked(mark, all_processes())} | {*serving(commands[0])}
    assert len(found) > 2  # the command, its shell and what serves them
    started = {pid: started_with(pid) for pid in found}
    assert all(started.values())
    assert [pid for pid, variables in started.items() if SECRET in variables] == []
