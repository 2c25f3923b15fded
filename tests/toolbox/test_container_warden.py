"""A toolbox reached over its standard streams by a warden: the test is the container's engine."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from patchyard.clients.container_wardens import CONTAINER, LedToolbox
from patchyard.clients.controls import CONTROL_NAME, Control, control
from patchyard.clients.process import identify
from patchyard.clients.toolbox import ToolboxClient, bind_listener
from patchyard.clients.toolbox_options import ToolboxOptions, settings_text
from patchyard.domain.errors import EnvironmentBroken
from patchyard.toolbox.piping import rights
from patchyard.toolbox.sealing import KEY_BYTES, MARK_BYTES, Seal
from patchyard.toolbox.strands import HEADER, TALK
from patchyard.toolbox.trunks import ATTACHED, STDERR, STDOUT

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("patient")]

BESIDE = (
    "import sys; from patchyard.toolbox.container_warden import main; sys.exit(main(sys.argv[1]))"
)
SERVER = "import sys; from patchyard.toolbox.server import main; sys.exit(main(sys.argv[1]))"


@dataclass
class Contained:
    """A toolbox in no container at all, its streams, and the warden beside it."""

    folder: Path
    toolbox: "subprocess.Popen[bytes]"
    warden: "subprocess.Popen[bytes]"
    stream: socket.socket  # the engine's end of what the warden is attached to
    key: bytearray  # of the frames, as it passed by

    async def say(self, kind: int, data: bytes) -> None:
        """Send a frame, a byte at a time."""
        for byte in ATTACHED.pack(kind, len(data)) + data:
            await asyncio.to_thread(self.stream.sendall, bytes([byte]))

    @asynccontextmanager
    async def client(self) -> AsyncIterator[ToolboxClient]:
        async with asyncio.timeout(60):
            path = self.folder / "toolbox.sock"
            client = await ToolboxClient.connect(path, is_bounded=False)
        try:
            yield client
        finally:
            await client.close()

    def asking(self) -> "contextlib.AbstractAsyncContextManager[Control]":
        return control(self.folder, CONTAINER)

    async def ended(self) -> None:
        for process in (self.warden, self.toolbox):
            assert await asyncio.to_thread(process.wait, 60) == 0


def started(
    code: str, text: str, passed: list[int], *, pipe: int | None = None
) -> "subprocess.Popen[bytes]":
    words = [sys.executable, "-B", "-c", code, text]
    return subprocess.Popen(words, pass_fds=passed, stdin=pipe, stdout=pipe)


def outward(toolbox: "subprocess.Popen[bytes]", stream: socket.socket) -> None:
    """Pass on what it says, as an engine does."""
    assert toolbox.stdout is not None
    with contextlib.suppress(OSError):
        while data := os.read(toolbox.stdout.fileno(), 4096):
            stream.sendall(ATTACHED.pack(STDOUT, len(data)) + data)
        stream.shutdown(socket.SHUT_WR)


def inward(toolbox: "subprocess.Popen[bytes]", stream: socket.socket, key: bytearray) -> None:
    """Pass on what it is told."""
    assert toolbox.stdin is not None
    with contextlib.suppress(OSError):
        while data := stream.recv(4096):
            key += data[: KEY_BYTES - len(key)]
            os.write(toolbox.stdin.fileno(), data)
    toolbox.stdin.close()


@asynccontextmanager
async def contained(folder: Path, *, grace_s: float = 60.0) -> AsyncIterator[Contained]:
    (folder / "work").mkdir()
    listener, _ = bind_listener(folder)
    controlling, _ = bind_listener(folder, CONTROL_NAME)
    ours, theirs = socket.socketpair()
    options = ToolboxOptions(listen_fd=-1, is_piped=True, workspace=str(folder / "work"))
    toolbox = started(SERVER, settings_text(options), [], pipe=subprocess.PIPE)
    passed = [listener.fileno(), controlling.fileno(), theirs.fileno()]
    names = ("listen_fd", "control_fd", "stream_fd")
    given = {
        "folder": str(folder),
        "grace_s": grace_s,
        "ours": passed,
        **dict(zip(names, passed, strict=True)),
    }
    warden = started(BESIDE, json.dumps(given), passed)
    for each in (listener, controlling, theirs):
        each.close()
    key = bytearray()
    pumps = [
        asyncio.create_task(asyncio.to_thread(inward, toolbox, ours, key)),
        asyncio.create_task(asyncio.to_thread(outward, toolbox, ours)),
    ]
    try:
        yield Contained(folder, toolbox, warden, ours, key)
        with contextlib.suppress(OSError):  # the other end may have ended
            ours.shutdown(socket.SHUT_RDWR)
        await asyncio.to_thread(toolbox.wait, 60)
        await asyncio.to_thread(warden.wait, 60)
    finally:
        with contextlib.suppress(OSError):
            ours.shutdown(socket.SHUT_RDWR)
        for process in (toolbox, warden):
            process.kill()
            process.wait()
        await asyncio.gather(*pumps)
        for stream in (toolbox.stdin, toolbox.stdout):
            if stream is not None:
                stream.close()
        ours.close()


async def test_calls_go_through_the_standard_streams_many_at_once(tmp_path: Path) -> None:
    async with contained(tmp_path) as place, place.client() as one, place.client() as other:
        words = {"command": "head -c 3000000 /dev/zero | tr '\\0' x"}
        both = [each.call(f"c{n}", "execute_command", words) for n, each in enumerate((one, other))]
        for result in await asyncio.gather(*both):
            assert result["stdout"] == "x" * 3000000
        assert (await one.call("c0", "execute_command", words))["success"]


async def test_it_says_that_it_is_up_and_which_rights_it_has(tmp_path: Path) -> None:
    async with contained(tmp_path) as place, place.asking() as asking:
        said = await asking.ask({"do": "ready"})
        own = rights()
        assert said["rights"] == {**own, "NoNewPrivs": "1"}
        assert {"CapEff", "Seccomp", "Uid"} < set(own)


def touch(port: int) -> None:
    with contextlib.suppress(ConnectionResetError):  # the listener went amid the handshake
        socket.create_connection(("127.0.0.1", port)).close()


async def touched(port: int) -> None:
    """Connect until nobody listens there."""
    async with asyncio.timeout(120):
        while True:
            await asyncio.to_thread(touch, port)


async def test_a_port_inside_leads_to_the_engine_and_closes_with_it(tmp_path: Path) -> None:
    async with contained(tmp_path) as place, place.client() as client:
        port, listener = await LedToolbox(client, tmp_path).listen()
        listener.settimeout(60)
        peer = socket.create_connection(("127.0.0.1", port))
        with peer, (await asyncio.to_thread(listener.accept))[0] as served:
            served.send(b"heard")
            assert await asyncio.to_thread(peer.recv, 5) == b"heard"
        listener.close()
        with pytest.raises(ConnectionRefusedError):
            await touched(port)


async def test_a_port_that_is_said_twice_ends_no_warden(tmp_path: Path) -> None:
    said = json.dumps({"say": "listening", "port": 7}).encode()
    head = HEADER.pack(0, TALK, len(said))
    async with contained(tmp_path) as place, place.asking() as asking:
        await asking.ask({"do": "ready"})
        seal = Seal(bytes(place.key), is_first=False)
        seal.mark(b"", b"")  # of what said that it is ready
        place.toolbox.send_signal(signal.SIGSTOP)  # it is spoken for
        async with place.asking() as one, place.asking() as other:
            for each in (one, other):
                answer = asyncio.create_task(each.ask({"do": "listen", "path": "nowhere"}))
                while not answer.done():  # said unasked, it is passed over
                    await place.say(STDOUT, head + said + seal.mark(head, said))
                    await asyncio.wait({answer}, timeout=0.5)
                assert (await answer)["port"] == 7
        await asking.ask({"do": "ready"})
        async with place.asking() as later:
            await later.ask({"do": "ready"})
        place.toolbox.send_signal(signal.SIGCONT)


async def test_a_frame_that_the_toolbox_did_not_mark_ends_the_container(tmp_path: Path) -> None:
    async with contained(tmp_path) as place, place.asking() as asking:
        await asking.ask({"do": "ready"})
        waiting = asyncio.create_task(asking.ask({"do": "nothing of ours"}))
        said = json.dumps({"say": "ready", "rights": {}}).encode()
        await place.say(STDOUT, HEADER.pack(0, TALK, len(said)) + said + bytes(MARK_BYTES))
        with pytest.raises(EnvironmentBroken, match="did not send"):
            await waiting


async def test_what_it_printed_is_told_when_it_ends(tmp_path: Path) -> None:
    async with contained(tmp_path) as place, place.asking() as asking:
        await asking.ask({"do": "ready"})
        waiting = asyncio.create_task(asking.ask({"do": "nothing of ours"}))
        await place.say(STDERR, b"no such library")
        await place.say(STDERR, b"")
        place.toolbox.send_signal(signal.SIGTERM)
        with pytest.raises(EnvironmentBroken, match=r"the container ended: .*no such library"):
            await waiting
        await place.ended()


async def test_a_frame_of_no_stream_ends_it(tmp_path: Path) -> None:
    async with contained(tmp_path) as place, place.asking() as asking:
        await asking.ask({"do": "ready"})
        waiting = asyncio.create_task(asking.ask({"do": "nothing of ours"}))
        await place.say(9, b"?")
        with pytest.raises(EnvironmentBroken, match="a frame of no stream"):
            await waiting
        await place.ended()


@pytest.mark.parametrize("is_same", [True, False])
async def test_without_an_engine_it_takes_the_process_along_that_it_owns(
    tmp_path: Path, *, is_same: bool
) -> None:
    sleeper = started("import time; time.sleep(300)", "", [])
    try:
        async with contained(tmp_path, grace_s=1.5) as place:
            process = identify(sleeper.pid)
            assert process is not None
            began = process.started if is_same else 1
            async with place.asking() as asking:
                owned = {"do": "own", "pid": sleeper.pid, "started": began}
                assert await asking.ask(owned) == {"say": "done"}
            await place.ended()
        if is_same:
            assert await asyncio.to_thread(sleeper.wait, 60) == -signal.SIGKILL
        assert (sleeper.poll() is None) is not is_same
    finally:
        sleeper.kill()
        sleeper.wait()


async def test_what_it_owned_may_be_gone(tmp_path: Path) -> None:
    async with contained(tmp_path, grace_s=1.5) as place:
        async with place.asking() as asking:
            await asking.ask({"do": "own", "pid": 2**22 + 1, "started": 5})
        await place.ended()
