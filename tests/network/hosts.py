"""Hosts on loopback that plans may or may not reach, by TLS or without; they remember who asked."""

import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

__all__ = ["Host", "Seen", "hosting"]


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One request, as the host saw it."""

    method: str
    path: str
    headers: Mapping[str, str]  # names in small letters
    body: bytes


@dataclass(kw_only=True)
class Host:
    """A server that answers with what it was told to say, else 404."""

    port: int
    scheme: str
    says: dict[str, tuple[int, dict[str, str], bytes]] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)

    @property
    def place(self) -> str:
        return f"localhost:{self.port}"

    def say(self, path: str, body: bytes = b"", *, status: int = 200, **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.says[path] = (status, named, body)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    host: Host

    def _answer(self) -> None:
        named = {name.lower(): value for name, value in self.headers.items()}
        body = self._body(named)
        seen = Seen(method=self.command, path=self.path, headers=named, body=body)
        self.host.seen.append(seen)
        status, headers, said = self.host.says.get(self.path, (404, {}, b""))
        if self.path == "/echo":
            status, said = 200, repr(named).encode() + body
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        is_bounded = "x-unbounded" not in headers
        self.close_connection = not is_bounded or named.get("connection") == "close"
        if is_bounded:
            self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(said)

    def _body(self, named: Mapping[str, str]) -> bytes:
        if named.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(named.get("content-length", "0")))
        whole = b""
        while size := int(self.rfile.readline(), 16):
            whole += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return whole

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _answer

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        pass


@contextmanager
def hosting(context: ssl.SSLContext | None = None) -> Iterator[Host]:
    """Serve on loopback until the end of the block, by TLS with a context."""

    class OwnHandler(Handler):
        """With a host of its own."""

    with Server(("127.0.0.1", 0), OwnHandler) as server:
        if context is not None:
            server.socket = context.wrap_socket(
                server.socket, server_side=True, do_handshake_on_connect=False
            )
        host = Host(port=server.server_address[1], scheme="http" if context is None else "https")
        OwnHandler.host = host
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield host
        finally:
            server.shutdown()
            thread.join()
