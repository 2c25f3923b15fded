"""MCP servers that listen, made with the protocol's own library, and the ways to be a bad one."""

import contextlib
import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import SamplingMessage, TextContent
from pydantic import BaseModel

__all__ = ["Misbehaving", "listening", "misbehaving"]


class Wanted(BaseModel):
    """What a person is asked for."""

    which: str


@contextlib.contextmanager
def listening(*, json_response: bool = False) -> Iterator[str]:
    """Serve a tool `greet`; yields the address."""
    served = MCPServer("house", log_level="ERROR")

    @served.tool()
    def greet(who: str) -> str:
        """Greet somebody."""
        return f"good day, {who}"

    @served.tool()
    async def ask(ctx: Context) -> str:
        """Ask a person, and then a model."""
        said: list[str] = []
        try:
            answer = await ctx.elicit("which one?", Wanted)
            said.append(answer.action)
        except Exception as error:  # noqa: BLE001 - whatever the library makes of a refusal
            said.append(f"no person: {error}")
        try:
            message = SamplingMessage(role="user", content=TextContent(type="text", text="hi"))
            await ctx.session.create_message([message], max_tokens=5)
            said.append("a model answered")
        except Exception as error:  # noqa: BLE001 - likewise
            said.append(f"no model: {error}")
        return "; ".join(said)

    app = served.streamable_http_app(json_response=json_response)
    config = uvicorn.Config(app, port=0, log_level="error", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not (server.started and server.servers):
        pass
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        server.should_exit = True
        thread.join()


class Misbehaving(http.server.ThreadingHTTPServer):
    """Answers every request with what it was told."""

    answer: tuple[int, dict[str, str], bytes] = (200, {}, b"")

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[tuple[str, dict[str, str], Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/mcp"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Misbehaving

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.asked.append((self.path, headers, json.loads(body)))
        code, own, content = self.server.answer
        self.send_response(code)
        for name, value in own.items():
            self.send_header(name, value)
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(content)

    def log_message(self, *_arguments: Any) -> None:
        """Say nothing."""


@contextlib.contextmanager
def misbehaving() -> Iterator[Misbehaving]:
    """Serve until the block ends."""
    server = Misbehaving()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
