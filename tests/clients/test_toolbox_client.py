"""The client against peers that are no toolbox, and the names and sockets around it."""

import asyncio
import contextlib
import json
import os
import socket
import stat
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from patchyard.clients import toolbox
from patchyard.clients.toolbox import ToolboxClient, bind_listener
from patchyard.clients.toolbox_options import (
    TOOLBOX_FOLDER,
    ToolboxOptions,
    bootstrap,
    toolbox_command,
)
from patchyard.contracts.environment import Listening, Toolbox
from patchyard.domain.errors import EnvironmentBroken
from patchyard.toolbox.wire import HEADER, PROTOCOL, Decoder, encode

pytestmark = pytest.mark.anyio

HELLO = encode({"say": "hello", "protocol": PROTOCOL})


@asynccontextmanager
async def pretending(
    folder: Path, answer: Callable[[dict[str, Any]], bytes | None]
) -> AsyncIterator[Path]:
    """Somebody who listens like a toolbox; None hangs up."""
    listener, path = bind_listener(folder)
    listener.setblocking(False)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        decoder = Decoder()
        with contextlib.closing(writer), contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                for message in decoder.feed(data):
                    said = answer(message)
                    if said is None:
                        return
                    writer.write(said)

    async with await asyncio.start_unix_server(serve, sock=listener):
        yield path


def saying(said: bytes) -> Callable[[dict[str, Any]], bytes | None]:
    return lambda message: HELLO if message["do"] == "hello" else said


def frame(body: bytes) -> bytes:
    return HEADER.pack(len(body)) + body


def result(value: Any) -> bytes:
    return frame(json.dumps({"say": "result", "call_id": "c", "result": value}).encode())


NESTED: Any = {"a": 1}
for _ in range(20):
    NESTED = {"a": [NESTED]}


@pytest.mark.parametrize(
    "said",
    [
        frame(b"no json"),
        frame(b"[1]"),
        frame(b"[" * 100_000),
        HEADER.pack(2**31),
        frame(b'{"say": "result", "call_id": 7}'),
        result([]),
        result(NESTED),
        frame(b'{"say": "output", "call_id": "c", "stream": "stdin", "text": "x"}'),
        frame(b'{"say": "output", "call_id": "c", "stream": "stdout", "text": 7}'),
        frame(b'{"say": "error", "message": "no"}'),
    ],
)
async def test_nonsense_breaks_the_environment_and_nothing_else(
    tmp_path: Path, said: bytes
) -> None:
    async with pretending(tmp_path, saying(said)) as path:
        client = await ToolboxClient.connect(path)
        with pytest.raises(EnvironmentBroken, match="toolbox"):
            await client.call("c", "read_file", {})
        with pytest.raises(EnvironmentBroken, match="toolbox"):
            await client.call("d", "read_file", {})
        await client.close()


async def test_a_peer_that_hangs_up_breaks_each_waiting_call(tmp_path: Path) -> None:
    async with pretending(
        tmp_path, lambda message: {"hello": HELLO, "call": b""}.get(message["do"])
    ) as path:
        client = await ToolboxClient.connect(path)
        waiting = [asyncio.create_task(client.call(name, "x", {})) for name in ("a", "a", "b")]
        await asyncio.sleep(0)
        await client.cancel("a")
        for task in waiting:
            with pytest.raises(EnvironmentBroken):
                await task
        await client.close()


async def test_whoever_waits_is_told_why_the_connection_broke(tmp_path: Path) -> None:
    async with pretending(tmp_path, saying(b"")) as path:
        client = await ToolboxClient.connect(path)
        waiting = asyncio.create_task(client.call("c", "read_file", {}))
        await asyncio.sleep(0)
        client._wire.connection_lost(ConnectionResetError("reset by peer"))
        with pytest.raises(EnvironmentBroken, match="broke: reset by peer"):
            await waiting
        await client.close()


@pytest.mark.parametrize("rest", [b"", frame(b"no json")])
async def test_what_has_come_of_a_frame_is_let_go_with_its_connection(
    tmp_path: Path, rest: bytes
) -> None:
    said = rest + HEADER.pack(1_000_000) + bytes(500_000)

    def answer(message: dict[str, Any]) -> bytes | None:
        return None if message["do"] == "forget" else saying(said)(message)

    async with pretending(tmp_path, answer) as path:
        client = await ToolboxClient.connect(path)
        waiting = asyncio.create_task(client.call("c", "read_file", {}))
        await asyncio.sleep(0)
        with contextlib.suppress(EnvironmentBroken):
            await client.forget(("c",))
        with pytest.raises(EnvironmentBroken, match="toolbox"):
            await waiting
        assert client._wire._decoder._buffer == b""
        client._wire.data_received(said)  # a transport may bring some more
        assert client._wire._decoder._buffer == b""
        await client.close()


async def test_unasked_answers_are_dropped(tmp_path: Path) -> None:
    stray = encode({"say": "result", "call_id": "other", "result": {}})
    stray += encode({"say": "what", "else": 1}) + result({"success": True})
    async with pretending(tmp_path, saying(stray)) as path:
        client = await ToolboxClient.connect(path)
        assert await client.call("c", "x", {}) == {"success": True}
        await client.close()


async def test_an_observer_that_fails_fails_its_own_call_alone(tmp_path: Path) -> None:
    said = encode({"say": "output", "call_id": "c", "stream": "stdout", "text": "x"})

    def fail(_stream: str, _text: str) -> None:
        raise LookupError("mine")

    async with pretending(tmp_path, saying(said + result({"success": True}))) as path:
        client = await ToolboxClient.connect(path)
        with pytest.raises(LookupError, match="mine"):
            await client.call("c", "x", {}, on_output=fail)
        assert (await client.call("c", "x", {}))["success"] is True
        await client.close()


async def test_another_protocol_is_refused_with_the_cure(tmp_path: Path) -> None:
    other = encode({"say": "hello", "protocol": 99})
    async with pretending(tmp_path, lambda _message: other) as path:
        with pytest.raises(EnvironmentBroken, match="99") as caught:
            await ToolboxClient.connect(path)
        assert "start a new one" in caught.value.hint


async def test_nobody_there_is_a_broken_environment(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentBroken):
        await ToolboxClient.connect(tmp_path / "none")
    listener, path = bind_listener(tmp_path)
    listener.close()
    with pytest.raises(EnvironmentBroken):
        await ToolboxClient.connect(path)


async def test_one_that_hangs_up_at_once_is_a_broken_environment(tmp_path: Path) -> None:
    async with pretending(tmp_path, lambda _message: None) as path:
        with pytest.raises(EnvironmentBroken):
            await ToolboxClient.connect(path)


async def test_a_toolbox_that_forgets_a_call_at_once_is_broken(tmp_path: Path) -> None:
    unknown = encode({"say": "unknown", "call_id": "c"})
    async with pretending(tmp_path, saying(unknown)) as path:
        client = await ToolboxClient.connect(path)
        assert await client.attach("c") is None
        with pytest.raises(EnvironmentBroken, match="does not know"):
            await client.call("c", "x", {})
        await client.close()


@pytest.mark.parametrize("sent", ["udp", "two", "none", "garbage"])
async def test_what_is_sent_in_place_of_a_listener_is_closed_and_refused(
    tmp_path: Path, sent: str
) -> None:
    listener, path = bind_listener(tmp_path)

    def serve() -> None:
        with listener, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagram:
            peer, _ = listener.accept()
            with peer:
                peer.recv(1000)
                number = datagram.fileno()
                said = encode({"say": "listening", "port": 1})
                if sent == "garbage":
                    said = HEADER.pack(1) + b"?"
                given = {"udp": [number], "two": [number, number]}.get(sent, [])
                if given:
                    socket.send_fds(peer, [said], given)
                else:
                    peer.sendall(said)
                peer.recv(1)

    serving = threading.Thread(target=serve)
    serving.start()
    with pytest.raises(EnvironmentBroken, match="no listening socket"):
        await asyncio.to_thread(toolbox._listen, path)
    serving.join(60)
    assert not serving.is_alive()


async def test_a_call_too_large_for_a_frame_is_a_result(tmp_path: Path) -> None:
    async with pretending(tmp_path, saying(result({}))) as path:
        client = await ToolboxClient.connect(path)
        answer = await client.call("c", "write_file", {"content": "x" * 33 * 1024 * 1024})
        assert (answer["success"], answer["error"]) == (False, "VALIDATION_ERROR")
        await client.close()


async def test_a_listening_socket_must_really_be_one(tmp_path: Path) -> None:
    async with pretending(tmp_path, saying(encode({"say": "listening", "port": 1}))) as path:
        client = await ToolboxClient.connect(path)
        with pytest.raises(EnvironmentBroken, match="no descriptor"):
            await client.listen()
        await client.close()


async def test_the_client_is_what_the_contract_wants(tmp_path: Path) -> None:
    async with pretending(tmp_path, saying(b"")) as path:
        client = await ToolboxClient.connect(path)
        as_wanted: Toolbox = client
        assert isinstance(as_wanted, Listening)
        await client.close()


def test_a_socket_may_lie_deeper_than_an_address_holds(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["d" * 50] * 4)
    deep.mkdir(parents=True)
    listener, path = bind_listener(deep)
    with listener:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_ISSOCK(path.stat().st_mode)
        with pytest.raises(OSError, match="in use"):
            bind_listener(deep)
        peer = socket.socket(socket.AF_UNIX)
        folder = os.open(deep, os.O_PATH)
        peer.connect(f"/proc/self/fd/{folder}/{path.name}")
        peer.close()
        os.close(folder)


def test_the_command_isolates_python_and_carries_the_options() -> None:
    options = ToolboxOptions(listen_fd=3, workspace="/w", uid=5, rlimits={"RLIMIT_CORE": 0})
    command = toolbox_command("/usr/bin/python3", "/box", options)
    assert command[0] == "/usr/bin/python3"
    assert command[1:] == bootstrap("/box", options)
    assert {"-I", "-S"} <= set(command)
    given = json.loads(command[-1])
    assert (given["listen_fd"], given["uid"], given["rlimits"]) == (3, 5, {"RLIMIT_CORE": 0})
    assert (TOOLBOX_FOLDER / "server.py").is_file()


async def test_no_listener_of_an_environment_whose_folder_is_gone(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentBroken, match="no listening socket"):
        await asyncio.to_thread(toolbox._listen, tmp_path / "gone" / toolbox.SOCKET_NAME)
