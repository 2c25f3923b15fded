"""Git servers of others on loopback: git's own http-backend by TLS; they remember who asked how."""

import os
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

__all__ = ["Forge", "commit", "forging", "git", "upstream"]

IDENTITY = ("-c", "user.name=T", "-c", "user.email=t@localhost", "-c", "safe.directory=*")


def git(folder: Path, *words: str) -> str:
    """Run git there and return what it printed."""
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", *IDENTITY, *words],
        cwd=folder,
        env=environ,
        capture_output=True,
        check=True,
        text=True,
    )
    return done.stdout.strip()


def commit(work: Path, name: str, text: str) -> str:
    """Commit one file and return the commit."""
    (work / name).parent.mkdir(parents=True, exist_ok=True)
    (work / name).write_text(text)
    git(work, "add", "-A")
    git(work, "commit", "-qm", f"{name} is {text.strip()[:40]}")
    return git(work, "rev-parse", "HEAD")


def upstream(folder: Path) -> Path:
    """Make a repository with one commit on `main`."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    commit(folder, "a.txt", "one\n")
    return folder


@dataclass(kw_only=True)
class Forge:
    """A server over a folder of repositories."""

    root: Path
    port: int = 0
    wanted: str = ""  # the Authorization header that is let in; empty: anybody
    redirects: dict[str, str] = field(default_factory=dict)  # beginnings of paths, and whereto
    parrots: bool = False  # refuses, and says what it was told
    seen: list[tuple[str, str, str]] = field(default_factory=list)  # method, path, authorization

    @property
    def place(self) -> str:
        return f"localhost:{self.port}"

    @property
    def url(self) -> str:
        return f"https://{self.place}"

    @property
    def told(self) -> set[str]:
        """What authorizations it was told."""
        return {each for _, _, each in self.seen}


class Handler(BaseHTTPRequestHandler):
    forge: Forge

    def _serve(self) -> None:
        forge, told = self.forge, self.headers.get("authorization", "")
        forge.seen.append((self.command, self.path, told))
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        for path, whereto in forge.redirects.items():
            if self.path.startswith(path):
                self._say(302, b"", Location=whereto + self.path.removeprefix(path))
                return
        if forge.parrots:
            pkt = f"ERR you told me {told} and {body!r}\n".encode()
            said = b"001e# service=git-upload-pack\n0000" + b"%04x" % (len(pkt) + 4) + pkt
            kind = "application/x-git-upload-pack-advertisement"
            self._say(200, said, **{"Content-Type": kind})
            return
        if forge.wanted and told != forge.wanted:
            self._say(401, b"no\n", **{"WWW-Authenticate": 'Basic realm="git"'})
            return
        self._backend(body)

    def _backend(self, body: bytes) -> None:
        path, _, query = self.path.partition("?")
        environ = {
            "PATH": os.environ["PATH"],
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_PROJECT_ROOT": str(self.forge.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("content-type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("content-encoding", ""),
            "GIT_PROTOCOL": self.headers.get("git-protocol", ""),
        }
        words = ["git", "-c", "safe.directory=*", "-c", "uploadpack.allowAnySHA1InWant=true"]
        done = subprocess.run(
            [*words, "http-backend"], input=body, env=environ, capture_output=True, check=False
        )
        head, _, rest = done.stdout.partition(b"\r\n\r\n")
        lines = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if line)
        status = int(lines.pop("Status", "200").split()[0])
        self._say(status, rest, **lines)

    def _say(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = _serve

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        pass


@contextmanager
def forging(root: Path, context: ssl.SSLContext) -> Iterator[Forge]:
    """Serve the repositories below `root` by TLS until the end of the block."""
    forge = Forge(root=root)

    class OwnHandler(Handler):
        """With a forge of its own."""

    OwnHandler.forge = forge
    with Server(("127.0.0.1", 0), OwnHandler) as server:
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
        forge.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield forge
        finally:
            server.shutdown()
            thread.join()
