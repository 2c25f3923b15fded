"""What the layer of models costs beside the HTTP calls that it makes, and a switch between two."""

import asyncio
import contextlib
import json
import statistics
import time
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from functools import partial

from httpx2 import AsyncClient

from benchmarks.measuring import measured
from patchyard.clients.allocator import keep_large_blocks
from patchyard.contracts.model import Model
from patchyard.domain.errors import ModelFailed
from patchyard.domain.messages import Message, ModelRequest, RequestedCall, Speaker
from patchyard.models.circuits import Circuits
from patchyard.models.failing_over import FailingOverModel
from patchyard.models.prices import shipped_prices
from patchyard.models.providers import Catalogue, ProviderSettings

CALLS = 60
CHUNKS = 2_000
TURN_BYTES = 2_000  # of what a turn reads
LONG_TURNS = 400  # some 200,000 tokens
SAID = {"index": 0, "message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}
LENGTHS: list[int] = []  # of the bodies that the server was sent
ANSWER = json.dumps({"model": "m", "choices": [SAID], "usage": {}}).encode()


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            LENGTHS.append(int(head.split("content-length: ")[1].split("\r\n")[0]))
            body = await reader.readexactly(LENGTHS[-1])
            if b'"stream":true' in body or b'"stream": true' in body:
                await _stream(writer)
                continue
            writer.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
                + f"content-length: {len(ANSWER)}\r\n\r\n".encode()
                + ANSWER
            )
            await writer.drain()
    writer.close()


async def _stream(writer: asyncio.StreamWriter) -> None:
    writer.write(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    for number in range(CHUNKS):
        delta = {"choices": [{"index": 0, "delta": {"content": f"w{number} "}}]}
        event = f"data: {json.dumps(delta)}\n\n".encode()
        writer.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")
        await writer.drain()
    last = b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\n'
    writer.write(f"{len(last):x}\r\n".encode() + last + b"\r\n0\r\n\r\n")
    await writer.drain()


@contextlib.asynccontextmanager
async def _opened(*, is_streaming: bool = False) -> AsyncIterator[tuple[str, Model]]:
    server = await asyncio.start_server(_serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    house = ProviderSettings(kind="openai-compatible", base_url=url, is_streaming=is_streaming)
    keep_large_blocks()  # as a process with plans does
    made = Catalogue(environ={}, prices=shipped_prices(), configured={"house": house})
    model = made.open("house:m")
    await model.prepare()
    try:
        yield url, model
    finally:
        await model.close()
        server.close()


def _talk(turns: int) -> tuple[Message, ...]:
    said = [Message(speaker=Speaker.USER, text="do it")]
    for number in range(turns):
        call = RequestedCall(id=f"c{number}", name="read_file", arguments='{"path": "a.py"}')
        said.append(Message(speaker=Speaker.ASSISTANT, calls=(call,)))
        said.append(Message(speaker=Speaker.TOOL, text="x" * TURN_BYTES, answers=f"c{number}"))
    return tuple(said)


async def _took_ms(action: Callable[[], Awaitable[object]]) -> float:
    started = time.perf_counter()
    await action()
    return (time.perf_counter() - started) * 1000


async def _overhead_ms(turns: int) -> float:
    """The median of a call by a model over that of a bare one of as many bytes.

    Which of the two goes first alternates: the second one finds memory that is warm.
    """
    talk = _talk(turns + CALLS)
    took: dict[str, list[float]] = {"bare": [], "ours": []}
    async with _opened() as (url, model), AsyncClient() as client:
        await model.complete(ModelRequest(messages=talk[: 1 + 2 * turns]))
        body = b""

        async def bare() -> None:
            await client.post(f"{url}/chat/completions", content=body)

        for number in range(CALLS):
            size = TURN_BYTES * (turns + number)  # the actor counts as its conversation grows
            request = ModelRequest(messages=talk[: 1 + 2 * (turns + number)], size=size)
            body = b"x" * LENGTHS[-1]
            calls: dict[str, Callable[[], Awaitable[object]]] = {
                "bare": bare,
                "ours": partial(model.complete, request),
            }
            for name in sorted(calls, reverse=bool(number % 2)):
                took[name].append(await _took_ms(calls[name]))
    return statistics.median(took["ours"]) - statistics.median(took["bare"])


@measured("a model's call beside a bare HTTP call, 50 turns", target=1)
def track_call() -> float:
    return asyncio.run(_overhead_ms(50))


@measured("the same after 400 turns more", target=1)
def track_call_late() -> float:
    return asyncio.run(_overhead_ms(450))


@measured("a streamed answer beside its bare bytes, a chunk", target=0.1)
def track_chunk() -> float:
    async def measure() -> float:
        async with _opened(is_streaming=True) as (url, model), AsyncClient() as client:

            async def bare() -> None:
                body = json.dumps({"stream": True}).encode()
                path = f"{url}/chat/completions"
                async with client.stream("POST", path, content=body) as answer:
                    async for _ in answer.aiter_raw():
                        pass

            async def ours() -> None:
                await model.complete(ModelRequest(messages=_talk(0)), on_text=lambda _: None)

            taken = [await _took_ms(ours) - await _took_ms(bare) for _ in range(5)]
        return statistics.median(taken) / CHUNKS

    return asyncio.run(measure())


class _Away:
    """A model that is not there."""

    def __init__(self, model: Model) -> None:
        self.facts = replace(model.facts, name="away:m")

    async def prepare(self) -> object:
        return self.facts

    async def complete(self, _request: ModelRequest, **_: object) -> object:
        raise ModelFailed("no answer", details={"kind": "cut"}, retryable=True)

    async def close(self) -> None:
        """Nothing is open."""


@measured("a failure, and the next model of the chain asked", target=1)
def track_failover() -> float:
    async def measure() -> float:
        async with _opened() as (_, model):
            request = ModelRequest(messages=_talk(50))
            await model.complete(request)
            taken = []
            for _ in range(CALLS):
                chain = FailingOverModel([_Away(model), model], Circuits())  # type: ignore[list-item]  # as a model
                await chain.prepare()
                alone = await _took_ms(lambda: model.complete(request))
                both = await _took_ms(partial(chain.complete, request))
                taken.append(both - alone)
        return statistics.median(taken)

    return asyncio.run(measure())


@measured("memory of a conversation of some 200,000 tokens, in its bytes", target=4, unit="x")
def track_memory() -> float:
    async def measure() -> float:
        async with _opened() as (_, model):
            tracemalloc.start()
            talk = _talk(LONG_TURNS)
            await model.complete(ModelRequest(messages=talk))
            held, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        return held / (LONG_TURNS * TURN_BYTES)

    return asyncio.run(measure())
