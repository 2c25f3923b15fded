"""A toolbox that forges its answers, played against the engine's client and a naive one."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

from patchyard.clients.frame_claims import MAX_DEPTH
from patchyard.clients.toolbox import SOCKET_NAME, ToolboxClient
from patchyard.domain.errors import EnvironmentBroken
from patchyard.probing.attack import Attack, Run
from patchyard.probing.listeners import closed
from patchyard.probing.scene import Scene
from patchyard.toolbox.wire import HEADER, MAX_FRAME_BYTES, PROTOCOL, encode

ANSWER_S = 20.0
CALL = "asked"
PIECE = bytes(1024 * 1024)

Message = Mapping[str, Any]


class Forger:
    """Serves one connection: a true greeting, then its forgery."""

    def __init__(self, forgery: str, mark: str) -> None:
        self._forgery = forgery
        self._mark = mark
        self.sent = 0  # bytes that the other side has taken
        self.has_ended = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer each frame that comes, until the forgery is out."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await self._frame(reader)
            protocol = PROTOCOL + 1 if self._forgery == "protocol" else PROTOCOL
            hello = {"say": "hello", "protocol": protocol, "pid": 1, "calls": []}
            writer.write(encode(hello))
            await writer.drain()
            await self._frame(reader)
            async for piece in self._pieces():
                writer.write(piece)
                await writer.drain()
                self.sent += len(piece)
        await closed(writer)
        self.has_ended.set()

    async def _frame(self, reader: asyncio.StreamReader) -> None:
        (length,) = HEADER.unpack(await reader.readexactly(HEADER.size))
        await reader.readexactly(length)

    async def _pieces(self) -> AsyncIterator[bytes]:
        if self._forgery == "too_large":
            yield HEADER.pack(1024**3)
            for _ in range(MAX_FRAME_BYTES // len(PIECE) + 2):
                yield PIECE
            return
        for piece in FORGERIES[self._forgery](self._mark):
            yield piece


def _result(call_id: str, result: object) -> bytes:
    return encode({"say": "result", "call_id": call_id, "result": result})


def _malformed(mark: str) -> list[bytes]:
    body = b"{" + mark.encode() + b"]"
    return [HEADER.pack(len(body)) + body]


def _nested(mark: str) -> list[bytes]:
    value: object = mark
    for _ in range(4 * MAX_DEPTH):
        value = {"success": True, "inner": value}
    return [_result(CALL, value)]


def _shape(mark: str) -> list[bytes]:
    return [_result(CALL, [mark])]


def _other_call(mark: str) -> list[bytes]:
    return [_result("another", {"success": True, "mark": mark})]


def _twice(mark: str) -> list[bytes]:
    first = _result(CALL, {"success": True})
    return [first, _result(CALL, {"success": True, "mark": mark})]


def _protocol(mark: str) -> list[bytes]:
    return [_result(CALL, {"success": True, "mark": mark})]


FORGERIES: Mapping[str, Callable[[str], list[bytes]]] = {
    "malformed": _malformed,
    "nested": _nested,
    "other_call": _other_call,
    "protocol": _protocol,
    "shape": _shape,
    "twice": _twice,
}


async def forge(attack: Attack, scene: Scene) -> Run:
    """Play one forgery against the engine's client, or as a control against a naive one."""
    run = Run(scene=scene, text=f"began:{scene.token}\n")
    forger = Forger(str(attack.options["forgery"]), scene.token)
    ask = _naive if scene.given["control"] else _engine
    async with await asyncio.start_unix_server(forger.serve, str(scene.folder / SOCKET_NAME)):
        try:
            async with asyncio.timeout(ANSWER_S):
                taken = await ask(scene.folder / SOCKET_NAME)
        except (EnvironmentBroken, TimeoutError) as error:
            run.text += f"refused: {str(error) or 'nothing came'}\n"
            taken = ""
        await forger.has_ended.wait()
    if scene.token in taken or forger.sent > MAX_FRAME_BYTES:
        run.text += f"done:{scene.token} the client took it\n"
    return run


async def _engine(path: Path) -> str:
    """Return what the engine's client gives to whoever asked."""
    client = await ToolboxClient.connect(path)
    try:
        return json.dumps(await client.call(CALL, "read_file", {"path": "x"}))
    finally:
        await client.close()


async def _naive(path: Path) -> str:
    """Return what a client would give that believes all that comes."""
    reader, writer = await asyncio.open_unix_connection(str(path))
    try:
        for message in ({"do": "hello"}, {"do": "call", "call_id": CALL, "op": "x", "args": {}}):
            writer.write(encode(message))
        return (await reader.read(-1)).decode("ascii", "replace")
    finally:
        await closed(writer)


__all__ = ["ANSWER_S", "CALL", "FORGERIES", "PIECE", "Forger", "forge"]
