"""Package indexes on loopback for the gateways' tests, and a gateway in front of them."""

import asyncio
import base64
import functools
import hashlib
import http.client
import io
import json
import os
import re
import socket
import ssl
import struct
import sys
import tarfile
import threading
import zipfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from models.loopback import NO_RECORD
from patchyard.clients.gateways import IndexGateways
from patchyard.contracts.gateway import Counting
from patchyard.domain.carrying import NetworkBounds

__all__ = [
    "METADATA",
    "Answer",
    "Got",
    "Index",
    "Inside",
    "gate",
    "indexing",
    "npm_document",
    "raw",
    "tarball",
    "wheel",
]


#: What an answer says of itself that is said and not sent whole.
UNFINISHED = frozenset({"x-cut", "x-damaged", "x-reset", "x-silent"})
RESET = struct.pack("ii", 1, 0)  # a close that is told by a reset
METADATA = "Metadata-Version: 2.1\nName: {}\nVersion: {}\n"


@dataclass(frozen=True, kw_only=True)
class Answer:
    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    is_chunked: bool = False  # sent without saying how long it is


@dataclass(kw_only=True)
class Index:
    """A server of fixed answers that remembers who asked."""

    port: int
    answers: dict[str, Answer] = field(default_factory=dict)
    seen: list[tuple[str, Mapping[str, str]]] = field(default_factory=list)
    is_over: threading.Event = field(default_factory=threading.Event)  # who hangs is let go

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.seen]

    def say(self, path: str, body: bytes, **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers[path] = Answer(body=body, headers=named)


def _break_off(connection: socket.socket, answer: Answer, index: Index) -> None:
    """End an answer that is not whole in the way that it names."""
    if "x-damaged" in answer.headers:
        os.write(connection.fileno(), NO_RECORD)
    if "x-silent" in answer.headers:
        index.is_over.wait()
    if "x-reset" in answer.headers:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        os.close(connection.detach())


def _answer_nothing(handler: BaseHTTPRequestHandler, index: Index) -> None:
    index.is_over.wait()
    handler.close_connection = True


@contextmanager
def indexing(*, key: Path | None = None, certificate: Path | None = None) -> Iterator[Index]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            named = {name.lower(): value for name, value in self.headers.items()}
            index.seen.append((self.path, named))
            answer = index.answers.get(self.path, Answer(status=404))
            tag = answer.headers.get("etag")
            is_same = tag is not None and self.headers.get("if-none-match") == tag
            body = b"" if is_same else answer.body
            if "x-mute" in answer.headers:
                _answer_nothing(self, index)
                return
            part = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("range", ""))
            if part is not None:
                body = body[int(part[1]) : int(part[2]) + 1]
            self.send_response(304 if is_same else 206 if part else answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            if answer.is_chunked:
                self.send_header("Transfer-Encoding", "chunked")
                body = f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n"
            else:
                missing = 9 if UNFINISHED & answer.headers.keys() else 0
                self.send_header("Content-Length", str(len(body) + missing))
                self.close_connection = bool(missing)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)
            _break_off(self.connection, answer, index)

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            pass

    with Server(("127.0.0.1", 0), Handler) as server:
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate, key)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        index = Index(port=server.server_address[1])
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield index
        finally:
            index.is_over.set()
            server.shutdown()
            thread.join()


@dataclass(frozen=True, kw_only=True)
class Got:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, kw_only=True)
class Inside:
    """What an environment sees of a gateway."""

    gateways: IndexGateways
    variables: Mapping[str, str]
    port: int
    counting: Counting

    async def get(self, path: str, *, method: str = "GET", **headers: str) -> Got:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await asyncio.to_thread(self._get, path, method, named)

    def _get(self, path: str, method: str, headers: Mapping[str, str]) -> Got:
        path = path.removeprefix(f"http://127.0.0.1:{self.port}")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.request(method, path, headers=dict(headers))
            answer = connection.getresponse()
            return Got(
                status=answer.status,
                headers={name.lower(): value for name, value in answer.getheaders()},
                body=answer.read(),
            )
        finally:
            connection.close()


UNBOUNDED = NetworkBounds()


@asynccontextmanager
async def gate(
    home: Path, bounds: NetworkBounds = UNBOUNDED, /, **variables: str
) -> AsyncIterator[Inside]:
    """A gateway of a user who has nothing but `variables`."""
    environ = {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "HOME": str(home),
        "PATCHYARD_HOME": str(home / "patchyard"),
        "PIP_CONFIG_FILE": os.devnull,
        **variables,
    }
    gateways = IndexGateways(environ)
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    async with gateways.serve_indexes(listener, port=port, bounds=bounds) as inside:
        yield Inside(
            gateways=gateways, variables=inside.variables, port=port, counting=inside.counting
        )


async def raw(port: int, request: bytes) -> bytes:
    """Send bytes as they are; what came back until the other side closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        async with asyncio.timeout(120):
            return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


@functools.cache
def wheel(name: str = "sample", version: str = "1.0") -> bytes:
    """A wheel with one module."""
    info = f"{name}-{version}.dist-info"
    lines = {
        f"{name}.py": "said = 'from the gateway'\n",
        f"{info}/METADATA": METADATA.format(name, version),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": "",
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, text in lines.items():
            archive.writestr(path, text)
    return buffer.getvalue()


@functools.cache
def tarball(name: str, version: str = "1.0.0") -> bytes:
    """An npm package with one module."""
    buffer = io.BytesIO()
    manifest = json.dumps({"name": name, "version": version, "main": "index.js"})
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path, text in {"package.json": manifest, "index.js": "module.exports = 7;\n"}.items():
            member = tarfile.TarInfo(f"package/{path}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()


def npm_document(name: str, url: str, data: bytes, version: str = "1.0.0") -> bytes:
    """What a registry says of a package with one version."""
    digest = base64.b64encode(hashlib.sha512(data).digest()).decode()
    manifest = {
        "name": name,
        "version": version,
        "dist": {"tarball": url, "integrity": f"sha512-{digest}"},
    }
    tags = {"latest": version}
    return json.dumps({"name": name, "dist-tags": tags, "versions": {version: manifest}}).encode()
