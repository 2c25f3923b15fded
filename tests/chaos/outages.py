"""A provider that fails in one of many ways from one step of a plan on, and one that is well."""

import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from models.loopback import Cue, Json, Peer, Refusal
from models.servers import ChatServer
from patchyard.models.scripted import ScriptedReply

HOST = "models.example"
STEPS = 20  # one of planning, one that finishes, commands between
OTHERS = STEPS - 2
KEY = "k-0123456789-never-shown"

STATUS = {
    "unauthorised": Refusal(401, {"error": {"message": "no"}}),
    "forbidden": Refusal(403, {"error": {"message": "no"}}),
    "no such model": Refusal(404, {"error": {"message": "the model does not exist"}}),
    "request time-out": Refusal(408, {"error": {"message": "too slow"}}),
    "busy": Refusal(429, {"error": {"message": "slow down"}}),
    "busy for a while": Refusal(
        429, {"error": {"message": "slow down"}}, headers={"retry-after": "30"}
    ),
    "server error": Refusal(500, {"error": {"message": "oops"}}),
    "unavailable": Refusal(503, {"error": {"message": "not now"}}),
    "context too long": Refusal(
        400, {"error": {"message": "too long", "code": "context_length_exceeded"}}
    ),
}
STREAM = {
    "hang before the first byte": "mute",
    "hang in mid-stream": "silent",
    "cut stream": "cut",
    "reset": "reset",
    "reset in mid-stream": "reset-in-stream",
    "truncated JSON": "truncated",
    "content filter": "filtered",
}
TRANSPORT = ("connection refused", "DNS", "TLS")
FAULTS = (*TRANSPORT, *STATUS, *STREAM)


def reply_at(turn: int) -> ScriptedReply:
    """Return what a model does that answered `turn` times in this phase of the work."""
    if turn < OTHERS:
        return ScriptedReply(calls=(("execute_command", {"command": f"echo {turn} >>log.txt"}),))
    return ScriptedReply(calls=(("finish", {"summary": "wrote the log"}),))


PLANNED = ScriptedReply(calls=(("finish", {"summary": "write the log"}),))


def reply_to(asked: Json) -> ScriptedReply:
    """Return the right reply: by the phase, and by how much of the conversation is there."""
    names = {tool.get("function", tool)["name"] for tool in asked["tools"]}
    if "write_file" not in names:
        return PLANNED
    return reply_at(sum(message["role"] == "assistant" for message in asked["messages"]))


@dataclass(kw_only=True)
class FailingServer(ChatServer):
    """Speaks chat completions; fails with its request number `at` (from 0) and from there on."""

    failing: str = ""
    at: int = 0
    other: tuple[str, str] = ("", "")  # certificate and key that nobody trusts

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        async with super().running() as url:
            if self.at == 0:
                self.leave()
            yield url.replace("127.0.0.1", HOST) if self.failing == "DNS" else url

    def fault(self) -> str:
        if len(self.requests) <= self.at:
            return ""
        if self.failing in STATUS:
            raise STATUS[self.failing]
        return STREAM.get(self.failing, "")

    async def _stream(self, cue: Cue, peer: Peer) -> bool:
        if cue.fault == "truncated":
            await peer.chunk(b'data: {"choices": [{"index": 0, "delta": {"cont\n\n')
            await peer.end()
            return True
        stays = await super()._stream(cue, peer)
        if self.failing in TRANSPORT and len(self.requests) == self.at:
            self.leave()
            return False
        return stays

    def leave(self) -> None:
        """Be there no more in the way that is asked for; connections that are open end."""
        if self.failing == "connection refused":
            self.stop_listening()
        elif self.failing == "TLS" and self.tls is not None:
            self.tls.load_cert_chain(*self.other)

    @property
    def is_gone(self) -> bool:
        """Whether its name leads nowhere any more."""
        return self.failing == "DNS" and len(self.requests) >= self.at


@contextlib.contextmanager
def named(server: FailingServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let HOST be this machine as long as the server is there."""
    real: Callable[..., Any] = socket.getaddrinfo

    def look_up(host: Any, *rest: Any, **further: Any) -> Any:
        if host not in {HOST, HOST.encode()}:
            return real(host, *rest, **further)
        if server.is_gone:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return real("127.0.0.1", *rest, **further)

    with monkeypatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", look_up)
        yield
