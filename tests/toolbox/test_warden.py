"""A warden beside a machine that is none: the test is its guest and its monitor."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from patchyard.clients.controls import CONTROL_NAME, Control, control, open_control, open_port
from patchyard.clients.toolbox import bind_listener
from patchyard.clients.wardens import FILL_NAME
from patchyard.domain.errors import EnvironmentBroken
from patchyard.toolbox.strands import HEADER

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("patient")]

MEASURED = "import sys; from patchyard.toolbox.warden import main; sys.exit(main(sys.argv[1]))"
OPEN, DATA, END, ROOM, TALK = range(5)
NAMES = ("listen_fd", "control_fd", "trunk_fd", "qmp_fd", "said_fd")
RUNNING = {"return": {"status": "running", "running": True}}


@dataclass
class Beside:
    """A warden, and the ends that a machine would hold."""

    folder: Path
    process: "subprocess.Popen[bytes]"
    trunk: tuple[asyncio.StreamReader, asyncio.StreamWriter]
    monitor: tuple[asyncio.StreamReader, asyncio.StreamWriter]
    asked: list[str] = field(default_factory=list)

    async def frame(self) -> tuple[int, int, bytes]:
        number, kind, length = HEADER.unpack(await self.trunk[0].readexactly(HEADER.size))
        return number, kind, await self.trunk[0].readexactly(length)

    def send(self, number: int, kind: int, data: bytes = b"") -> None:
        self.trunk[1].write(HEADER.pack(number, kind, len(data)) + data)

    def say(self, message: Mapping[str, Any]) -> None:
        self.send(0, TALK, json.dumps(message).encode())

    async def told(self) -> Mapping[str, Any]:
        _, kind, data = await self.frame()
        assert kind == TALK
        found: Mapping[str, Any] = json.loads(data)
        return found

    async def answer(self, reply: Mapping[str, Any]) -> str:
        """Answer the monitor's next command; return which it was."""
        asked = json.loads(await self.monitor[0].readline())
        self.monitor[1].write(b'{"event": "SOMETHING"}\n' + json.dumps(reply).encode() + b"\n")
        self.asked.append(asked["execute"])
        return str(asked["execute"])

    def machine(self) -> int:
        pid = self.process.pid
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])

    async def ended(self) -> int:
        return await asyncio.to_thread(self.process.wait, 60)


def started(command: list[str], passed: list[int], said: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(command, pass_fds=passed, stdout=said)


def ports(folder: Path) -> list[Path]:
    return list(folder.glob("port-*"))


@asynccontextmanager
async def beside(
    folder: Path, *, grace_s: float = 60.0, is_ready: bool = False
) -> AsyncIterator[Beside]:
    async with contextlib.AsyncExitStack() as stack:
        listener, _ = bind_listener(folder)
        controlling, _ = bind_listener(folder, CONTROL_NAME)
        filler, _ = bind_listener(folder, FILL_NAME)
        trunk, qmp = socket.socketpair(), socket.socketpair()
        said, saying = os.pipe()
        saved = os.open(folder / "saved", os.O_CREAT | os.O_WRONLY)
        ours = [listener.fileno(), controlling.fileno(), trunk[0].fileno(), qmp[0].fileno(), said]
        given = {
            "argv": ["/bin/sh", "-c", "echo it says this; exec sleep 300"],
            "folder": str(folder),
            "grace_s": grace_s,
            "is_ready": is_ready,
            "ours": [*ours, saved, filler.fileno()],
            "theirs": [],
            **dict(zip(NAMES, ours, strict=True)),
            "save_fd": saved,
            "fill_fd": filler.fileno(),
        }
        command = [sys.executable, "-B", "-c", MEASURED, json.dumps(given)]
        process = started(command, [*ours, saved, filler.fileno()], saying)
        for each in (listener, controlling, filler, trunk[0], qmp[0]):
            each.close()
        for number in (said, saying, saved):
            os.close(number)
        streams = [await asyncio.open_connection(sock=each) for each in (trunk[1], qmp[1])]
        for _, writer in streams:
            stack.callback(writer.close)
        found = Beside(folder, process, streams[0], streams[1])
        assert await found.answer({"return": {}}) == "qmp_capabilities"
        try:
            yield found
        finally:
            if process.poll() is None:
                with contextlib.suppress(IndexError, ProcessLookupError):
                    os.kill(found.machine(), signal.SIGKILL)
            try:
                process.wait(60)
            finally:
                process.kill()


async def test_a_connection_is_led_to_the_guest_and_back(tmp_path: Path) -> None:
    async with beside(tmp_path) as warden:
        reader, writer = await asyncio.open_unix_connection(tmp_path / "toolbox.sock")
        assert await warden.frame() == (1, OPEN, b"toolbox")
        writer.write(b"hello")
        assert await warden.frame() == (1, DATA, b"hello")
        warden.send(1, DATA, b"welcome")
        assert await reader.read(100) == b"welcome"
        assert (await warden.frame())[1] == ROOM
        writer.close()
        assert await warden.frame() == (1, END, b"")


async def test_an_archive_has_a_way_of_its_own(tmp_path: Path) -> None:
    async with beside(tmp_path) as warden:
        _, writer = await asyncio.open_unix_connection(tmp_path / FILL_NAME)
        assert await warden.frame() == (1, OPEN, b"fill")
        writer.close()


async def test_who_asks_whether_it_is_up_is_told_once_it_is(tmp_path: Path) -> None:
    async with beside(tmp_path) as warden, control(tmp_path) as asking:
        waiting = asyncio.create_task(asking.ask({"do": "ready"}))
        async with control(tmp_path) as other:
            checked = asyncio.create_task(other.ask({"do": "status"}))
            assert await warden.answer(RUNNING) == "query-status"
            assert (await checked)["return"] == RUNNING["return"]
        assert not waiting.done()
        warden.say({"say": "ready"})
        assert await waiting == {"say": "ready"}


async def test_a_restored_machine_is_up_at_once(tmp_path: Path) -> None:
    async with beside(tmp_path, is_ready=True), control(tmp_path) as asking:
        assert await asking.ask({"do": "ready"}) == {"say": "ready"}


async def test_what_the_guest_is_told_comes_there_and_its_answer_back(tmp_path: Path) -> None:
    async with beside(tmp_path) as warden, control(tmp_path) as asking:
        telling = asyncio.create_task(asking.tell({"do": "ping"}))
        assert await warden.told() == {"do": "ping"}
        warden.say({"say": "unheard of"})
        warden.say({"say": "done"})
        await telling
        refused = asyncio.create_task(asking.tell({"do": "begin"}))
        await warden.told()
        warden.say({"say": "refused", "message": "no room"})
        with pytest.raises(EnvironmentBroken, match="no room"):
            await refused


async def test_a_port_inside_leads_to_the_engines_listener(tmp_path: Path) -> None:
    async with beside(tmp_path) as warden:
        opening = asyncio.create_task(open_port(tmp_path))
        assert await warden.told() == {"do": "listen"}
        warden.say({"say": "listening", "port": 4000})
        port, listener = await opening
        assert port == 4000
        warden.send(2, OPEN, b"4000")
        warden.send(4, OPEN, b"4001")
        assert await warden.frame() == (4, END, b"")
        listener.settimeout(60)
        with listener.accept()[0] as peer:
            peer.send(b"served")
            assert await warden.frame() == (2, DATA, b"served")
        listener.close()
        said = [await warden.frame() for _ in range(2)]
        assert {kind for _, kind, _ in said} == {END, TALK}
        warden.send(6, OPEN, b"4000")
        assert await warden.frame() == (6, END, b"")
        assert not ports(tmp_path)


async def test_a_listener_that_is_gone_is_no_listener(tmp_path: Path) -> None:
    async with beside(tmp_path) as warden:
        opening = asyncio.create_task(open_port(tmp_path))
        await warden.told()
        warden.say({"say": "listening", "port": 4000})
        _, listener = await opening
        for path in ports(tmp_path):
            path.unlink()
        warden.send(2, OPEN, b"4000")
        assert await warden.frame() == (2, END, b"")
        listener.close()


async def test_a_guest_without_a_port_is_an_error(tmp_path: Path) -> None:
    async with beside(tmp_path) as warden:
        opening = asyncio.create_task(open_port(tmp_path))
        await warden.told()
        warden.say({"say": "listening", "port": 0, "message": "too many files"})
        with pytest.raises(EnvironmentBroken, match="too many files"):
            await opening


async def test_it_is_paused_as_long_as_whoever_asked_is_there(tmp_path: Path) -> None:
    async with beside(tmp_path) as warden:
        pausing, also = await open_control(tmp_path), await open_control(tmp_path)
        for asking in (pausing, also):
            task = asyncio.create_task(asking.ask({"do": "pause"}))
            assert await warden.answer({"return": {}}) == "stop"
            await task
        pausing.close()
        await pinged(warden)
        also.close()
        assert await warden.answer({"return": {}}) == "cont"


async def pinged(warden: Beside) -> None:
    """Come after all that was asked before."""
    async with control(warden.folder) as asking:
        task = asyncio.create_task(asking.ask({"do": "status"}))
        assert await warden.answer(RUNNING) == "query-status"
        await task


async def saved(warden: Beside, asking: Control, *answers: Mapping[str, Any]) -> Mapping[str, Any]:
    task = asyncio.create_task(asking.ask({"do": "save"}))
    for answer in answers:
        await warden.answer(answer)
    return await task


GOOD: Mapping[str, Any] = {"return": {}}


async def test_a_state_is_saved_whole_or_said_not_to_be(tmp_path: Path) -> None:
    async with beside(tmp_path) as warden, control(tmp_path) as asking:
        active, whole = {"return": {"status": "active"}}, {"return": {"status": "completed"}}
        answer = await saved(warden, asking, GOOD, GOOD, GOOD, active, whole)
        assert answer["is_whole"] is True
        failed = {"return": {"status": "failed"}}
        assert (await saved(warden, asking, GOOD, GOOD, GOOD, failed))["is_whole"] is False
        wrong = {"error": {"desc": "no"}}
        assert "error" in await saved(warden, asking, GOOD, wrong)
        assert "error" in await saved(warden, asking, GOOD, GOOD, wrong)
    assert {"getfd", "migrate", "query-migrate"} < set(warden.asked)


async def test_the_end_of_the_machine_is_told_with_what_it_said(tmp_path: Path) -> None:
    async with beside(tmp_path) as warden, control(tmp_path) as asking:
        waiting = asyncio.create_task(asking.ask({"do": "ready"}))
        await pinged(warden)
        os.kill(warden.machine(), signal.SIGKILL)
        with pytest.raises(EnvironmentBroken, match="ended"):
            await waiting
        assert await warden.ended() == 0


async def test_a_channel_that_brings_nonsense_ends_the_machine(tmp_path: Path) -> None:
    async with beside(tmp_path) as warden, control(tmp_path) as asking:
        waiting = asyncio.create_task(asking.ask({"do": "ready"}))
        await pinged(warden)
        warden.send(0, 9)
        with pytest.raises(EnvironmentBroken, match="no kind"):
            await waiting
        assert await warden.ended() == 0


async def test_without_an_engine_it_ends_after_its_grace(tmp_path: Path) -> None:
    async with beside(tmp_path, grace_s=0.2) as warden:
        assert await warden.ended() == 0


@pytest.mark.parametrize("said", [b"", b"[" * 200_000 + b"\n", b"[7]\n", b"9" * 5000 + b"\n"])
async def test_a_monitor_that_is_gone_or_mad_is_told_to_who_asks(
    tmp_path: Path, said: bytes
) -> None:
    async with beside(tmp_path) as warden, control(tmp_path) as asking:
        task = asyncio.create_task(asking.ask({"do": "status"}))
        await warden.monitor[0].readline()
        warden.monitor[1].write(said)
        if not said:
            warden.monitor[1].close()
        assert "error" in await task
        assert "error" in await asking.ask({"do": "status"})


async def test_nobody_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentBroken, match="gone"):
        await open_control(tmp_path)


async def test_an_answer_of_very_many_levels_is_an_error(tmp_path: Path) -> None:
    async def mad(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said = b'{"message":' + b"[" * 99 + b"]" * 99 + b"}"
        writer.write(len(said).to_bytes(4, "big") + said)
        writer.close()

    server = await asyncio.start_unix_server(mad, tmp_path / CONTROL_NAME)
    async with server, control(tmp_path) as asking:
        with pytest.raises(EnvironmentBroken, match="answers nonsense"):
            await asking.ask({"do": "status"})


async def test_silence_is_an_error(tmp_path: Path) -> None:
    async with beside(tmp_path), control(tmp_path) as asking:
        with pytest.raises(EnvironmentBroken, match="nothing came"):
            await asking.ask({"do": "ready"}, timeout_s=0.05)
