"""A model that thinks in no time: chat completions on loopback, one shell command a request.

Which command comes next follows from the request alone, from the last answer that it holds, so a
contender that goes on after a kill is asked to go on. Knows no contender and starts no process.
"""

import asyncio
import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Arrival", "Call", "Plot", "ScriptedServer"]

FIRST = 1_000_000  # step 17 prints made-1000017, a text that its command does not hold
MARK = b"made-1"
MARK_DIGITS = 6
KNOWN = re.compile(rb"made-1(\d{6})")
EFFECTS = re.compile(rb"lines-(\d+) twice-(\d+)")
USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call of a tool as the model writes it."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Plot:
    """What the model will ask for."""

    steps: int
    act: Callable[[str], Call]  # the call that carries out a shell command
    ending: Call | None  # how the contender's actor says that it is done; None: a plain answer
    opening: tuple[Call, ...] = ()  # answers before the first step, for those who plan first
    leaves_effects: bool = False  # each step adds its line to a file; the last one counts them
    slow_step: int = 0  # this one takes two seconds, to be killed in


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """One request, seen when its last byte was here."""

    at: float  # by the machine's monotonic clock
    done: int  # the last step whose answer it holds
    size: int  # of its body, bytes
    known: int = -1  # different steps whose answers it holds; counted where asked for


@dataclass(kw_only=True)
class ScriptedServer:
    """Serves one contender; `arrivals` says when it asked for what."""

    plot: Plot
    on_arrival: Callable[[Arrival], None] = lambda _arrival: None
    arrivals: list[Arrival] = field(default_factory=list)
    effects: tuple[int, int] | None = None  # lines written, and lines written twice
    counts_known: bool = False
    has_ended: bool = False
    failures: list[str] = field(default_factory=list)
    url: str = ""

    async def start(self) -> asyncio.Server:
        """Listen on a free port of loopback; `url` ends with /v1."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=2**26)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        return server

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._answer(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        request, *lines = head.decode("latin-1").split("\r\n")
        fields = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
        if fields.get("expect", "").lower() == "100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await reader.readexactly(int(fields.get("content-length", 0)))
        arrived = time.monotonic()
        if not request.startswith("POST ") or "/chat/completions" not in request:
            self._refuse(request, writer)
        else:
            call = self._next(body, arrived)
            is_stream = b'"stream":true' in body or b'"stream": true' in body
            text = _streamed(call) if is_stream else _whole(call)
            kind = "text/event-stream" if is_stream else "application/json"
            writer.write(_headed(200, kind, text))
        await writer.drain()
        return fields.get("connection", "").lower() != "close"

    def _refuse(self, request: str, writer: asyncio.StreamWriter) -> None:
        if request.startswith("GET ") and "/models" in request:
            text = b'{"object":"list","data":[{"id":"scripted","object":"model"}]}'
            writer.write(_headed(200, "application/json", text))
        else:
            self.failures.append(f"asked for {request[:80]}")
            writer.write(_headed(404, "application/json", b'{"error":{"message":"no route"}}'))

    def _next(self, body: bytes, arrived: float) -> Call | None:
        done = _last_done(body)
        known = len(set(KNOWN.findall(body))) if self.counts_known else -1
        arrival = Arrival(at=arrived, done=done, size=len(body), known=known)
        self.arrivals.append(arrival)
        plot = self.plot
        place = len(self.arrivals) - 1
        if not done and place < len(plot.opening):
            self.on_arrival(arrival)
            return plot.opening[place]
        counted = EFFECTS.findall(body) if plot.leaves_effects else []
        self.on_arrival(arrival)
        if counted:
            lines, twice = counted[-1]
            self.effects = (int(lines), int(twice))
        if counted or (done >= plot.steps and not plot.leaves_effects):
            self.has_ended = True
            return plot.ending
        if done >= plot.steps:
            return plot.act('echo "lines-$(wc -l <effects) twice-$(sort effects|uniq -d|wc -l)"')
        return plot.act(self._command(done + 1))

    def _command(self, step: int) -> str:
        command = f"echo made-$(({FIRST}+{step}))"
        if step == self.plot.slow_step:
            command = f"sleep 2; {command}"
        return f"{command} | tee -a effects" if self.plot.leaves_effects else command


def _last_done(body: bytes) -> int:
    """Return the step of the last answer in a request; 0 for none."""
    place = body.rfind(MARK)
    if place < 0:
        return 0
    digits = body[place + len(MARK) : place + len(MARK) + MARK_DIGITS]
    return int(digits) if digits.isdigit() else 0


def _headed(status: int, kind: str, text: bytes) -> bytes:
    head = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(text)}\r\n\r\n"
    return head.encode() + text


_numbers = iter(range(1, 10**9))


def _message(call: Call | None) -> dict[str, Any]:
    if call is None:
        return {"role": "assistant", "content": "Done."}
    function = {"name": call.name, "arguments": json.dumps(call.arguments)}
    wanted = {"id": f"call_{next(_numbers)}", "type": "function", "function": function}
    return {"role": "assistant", "content": "I take a step.", "tool_calls": [wanted]}


def _document(kind: str, choice: dict[str, Any]) -> dict[str, Any]:
    named = {"id": "made-up", "object": kind, "created": 1_700_000_000, "model": "scripted"}
    return {**named, "choices": [{"index": 0, **choice}]}


def _whole(call: Call | None) -> bytes:
    choice = {"message": _message(call), "finish_reason": "tool_calls" if call else "stop"}
    return json.dumps({**_document("chat.completion", choice), "usage": USAGE}).encode()


def _streamed(call: Call | None) -> bytes:
    message = _message(call)
    for index, wanted in enumerate(message.get("tool_calls", [])):
        wanted["index"] = index
    kind = "chat.completion.chunk"
    last = {"delta": {}, "finish_reason": "tool_calls" if call else "stop"}
    events = [
        _document(kind, {"delta": message, "finish_reason": None}),
        _document(kind, last),
        {**_document(kind, {}), "choices": [], "usage": USAGE},
    ]
    lines = [b"data: " + json.dumps(event).encode() + b"\n\n" for event in events]
    return b"".join([*lines, b"data: [DONE]\n\n"])
