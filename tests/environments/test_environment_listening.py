"""A port inside, served by the engine: how gateways reach where no network is."""

import asyncio

import pytest

from environments.yards import KINDS, Adapter, Start, Yard
from patchyard.contracts.environment import Listening

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]


@pytest.fixture(params=KINDS)
def adapter(request: pytest.FixtureRequest, yard: Yard) -> Adapter:
    return yard.adapter(request.param)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"heard " + await reader.readline())
    writer.close()
    await writer.wait_closed()


async def is_open(port: int) -> bool:
    """Whether anybody listens at that port of this machine."""
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionRefusedError:
        return False
    writer.close()
    return True


async def test_the_engine_serves_ports_inside_that_nobody_reaches_from_outside(
    start: Start, adapter: Adapter, yard: Yard
) -> None:
    running = await start(yard.spec())
    toolbox = running.toolbox
    assert isinstance(toolbox, Listening)
    ports = []
    async with asyncio.TaskGroup() as servers:
        opened = []
        for _ in range(2):
            port, listener = await toolbox.listen()
            listener.setblocking(False)
            opened.append(await asyncio.start_server(echo, sock=listener))
            ports.append(port)
        for port in ports:
            said = f"exec 3<>/dev/tcp/127.0.0.1/{port}; echo me >&3; cat <&3"
            assert await running.run(said) == "heard me"
        if adapter.kind == "process":
            assert False in [await is_open(port) for port in ports]  # one may be another's here
        for server in opened:
            server.close()
            servers.create_task(server.wait_closed())
    assert len(set(ports)) == 2
    gone = await running.run(f"exec 3<>/dev/tcp/127.0.0.1/{ports[0]}")
    assert "refused" in gone


async def test_the_toolbox_adopts_and_reaps_what_commands_leave(
    start: Start, adapter: Adapter, yard: Yard
) -> None:
    running = await start(yard.spec())
    parent = await running.run("echo $PPID")
    if adapter.kind == "process":
        assert parent == "1"
    told = "sh -c '(read x < gate; cut -d\" \" -f4 /proc/self/stat > parent) & '"
    await running.run("mkfifo gate")
    await running.run(told)
    await running.run("echo > gate; until [ -s parent ]; do sleep 0.01; done")
    orphans_parent = (yard.workspace / "parent").read_text().strip()
    assert orphans_parent != ""
    left = "for each in /proc/[0-9]*/stat; do cut -d' ' -f3,4 $each; done 2>/dev/null"
    async with asyncio.timeout(120):
        while f"Z {parent}" in (await running.run(left)).splitlines():
            continue
