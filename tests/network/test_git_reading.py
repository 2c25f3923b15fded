"""The git gateway: the repository's origin can be read, by its own address, and nothing else."""

import asyncio
import ipaddress
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from network.doors import Door, door
from patchyard.domain.addresses import Address
from patchyard.domain.network import NetworkGrant

pytestmark = pytest.mark.anyio

READ = "/git/repository.git"
UPLOAD = "application/x-git-upload-pack-request"


def git(folder: Path, *words: str, **environ: str) -> str:
    identity = ("-c", "user.name=T", "-c", "user.email=t@localhost")
    done = subprocess.run(
        ["git", *identity, *words],
        cwd=folder,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    return f"{done.stdout}{done.stderr}"


class Forge:
    """Git's own smart HTTP server over a folder of bare repositories."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.port = 0
        self.seen: list[tuple[str, str, str]] = []  # method, path with query, authorization

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}"


@contextmanager
def forging(root: Path) -> Iterator[Forge]:
    forge = Forge(root)

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            path, _, query = self.path.partition("?")
            forge.seen.append((self.command, self.path, self.headers.get("authorization", "")))
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            environ = {
                **os.environ,
                "GIT_PROJECT_ROOT": str(root),
                "GIT_HTTP_EXPORT_ALL": "1",
                "REQUEST_METHOD": self.command,
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "CONTENT_TYPE": self.headers.get("content-type", ""),
                "CONTENT_LENGTH": str(len(body)),
                "HTTP_CONTENT_ENCODING": self.headers.get("content-encoding", ""),
                "GIT_PROTOCOL": self.headers.get("git-protocol", ""),
                "REMOTE_USER": "anybody",  # who may push
            }
            words = ["git", "-c", "safe.directory=*", "http-backend"]
            done = subprocess.run(words, input=body, env=environ, capture_output=True, check=False)
            head, _, rest = done.stdout.partition(b"\r\n\r\n")
            lines = [line.split(": ", 1) for line in head.decode().split("\r\n")]
            status = next((value for name, value in lines if name == "Status"), "200")
            self.send_response(int(status.split()[0]))
            for name, value in lines:
                if name != "Status":
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(rest)))
            self.end_headers()
            self.wfile.write(rest)

        do_GET = do_POST = _serve

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        forge.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield forge
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def forge(tmp_path: Path) -> Iterator[Forge]:
    root, work = tmp_path / "forge", tmp_path / "upstream"
    root.mkdir()
    work.mkdir()
    git(work, "init", "-q", "-b", "main")
    (work / "a.txt").write_text("upstream\n")
    git(work, "add", "-A")
    git(work, "commit", "-qm", "start")
    for name in ("mine.git", "secret.git"):
        git(tmp_path, "clone", "-q", "--bare", str(work), str(root / name))
        git(root / name, "config", "http.receivepack", "true")
    with forging(root) as made:
        yield made


def granted(forge: Forge, *secrets: str, near: str = "") -> NetworkGrant:
    return NetworkGrant(
        gateways=("git",),
        repository=f"{forge.url}/mine.git",
        repository_near=near or "loopback",
        secrets=secrets,
    )


async def inside_git(inside: Door, folder: Path, *words: str) -> str:
    return await asyncio.to_thread(lambda: git(folder, *words, **inside.variables))


async def test_the_origin_is_cloned_and_fetched_by_its_own_address(
    tmp_path: Path, forge: Forge
) -> None:
    async with door(granted(forge), tmp_path) as inside:
        said = await inside_git(inside, tmp_path, "clone", "-q", f"{forge.url}/mine.git", "one")
        assert said == ""
        assert (tmp_path / "one" / "a.txt").read_text() == "upstream\n", said
        (tmp_path / "two").mkdir()
        git(tmp_path / "two", "init", "-q")
        origin = inside.variables["PATCHYARD_ORIGIN"]
        said = await inside_git(inside, tmp_path / "two", "fetch", origin, "main")
        assert "FETCH_HEAD" in said
        attempts = inside.attempts()
    assert {(each.gateway, each.verdict, each.host) for each in attempts} == {
        ("git", "passed", "localhost")
    }
    assert {each.path for each in attempts} == {
        "/mine.git/info/refs",
        "/mine.git/git-upload-pack",
    }
    assert all(path.startswith("/mine.git/") for _, path, _ in forge.seen)


async def test_nothing_is_pushed_and_no_other_repository_is_read(
    tmp_path: Path, forge: Forge
) -> None:
    async with door(granted(forge), tmp_path) as inside:
        await inside_git(inside, tmp_path, "clone", "-q", f"{forge.url}/mine.git", "one")
        git(tmp_path / "one", "commit", "-q", "--allow-empty", "-m", "sent")
        before = len(forge.seen)
        said = await inside_git(inside, tmp_path / "one", "push", "-q", "origin", "HEAD:evil")
        assert "403" in said
        for root in (f"{inside.root}/git/secret.git", f"{inside.root}{READ}/../secret.git"):
            said = await inside_git(inside, tmp_path, "clone", "-q", root, "other")
            assert "403" in said or "404" in said or "400" in said
    assert len(forge.seen) == before
    assert "evil" not in git(forge.root / "mine.git", "branch")


@pytest.mark.parametrize(
    ("method", "path", "header"),
    [
        ("GET", f"{READ}/info/refs", "X: y"),
        ("GET", f"{READ}/info/refs?service=git-receive-pack", "X: y"),
        ("GET", f"{READ}/info/refs?service=git-upload-pack&x=1", "X: y"),
        ("POST", f"{READ}/info/refs?service=git-upload-pack", f"Content-Type: {UPLOAD}"),
        ("GET", f"{READ}/git-upload-pack", "X: y"),
        ("POST", f"{READ}/git-upload-pack", "Content-Type: text/plain"),
        (
            "POST",
            f"{READ}/git-receive-pack",
            "Content-Type: application/x-git-receive-pack-request",
        ),
        ("GET", f"{READ}/HEAD", "X: y"),
        ("GET", f"{READ}/objects/info/packs", "X: y"),
        ("POST", f"{READ}/info/lfs/objects/batch", "X: y"),
        ("GET", "/git/%72epository.git/info/refs?service=git-upload-pack", "X: y"),
    ],
)
async def test_any_other_request_is_refused(
    tmp_path: Path, forge: Forge, method: str, path: str, header: str
) -> None:
    async with door(granted(forge), tmp_path) as inside:
        said = await inside.ask(path, header, method=method)
    assert said.startswith(b"HTTP/1.1 403 ")
    assert forge.seen == []


async def test_a_secret_for_its_host_is_used_and_only_spoken_as_it_was_named(
    tmp_path: Path, forge: Forge
) -> None:
    place = f"localhost:{forge.port}"
    for secret, header in ((f"basic:T@http://{place}", "Basic dTpwdw=="), (f"T@{place}", "")):
        grant = granted(forge, secret)
        async with door(grant, tmp_path, more={"T": "u:pw"}) as inside:
            path = f"{READ}/info/refs?service=git-upload-pack"
            assert b" 200 " in await inside.ask(path, "Authorization: Basic mine")
        assert forge.seen.pop()[2] == header


async def test_an_origin_that_lies_nearer_than_said_is_refused(
    tmp_path: Path, forge: Forge
) -> None:
    grant = NetworkGrant(gateways=("git",), repository=f"http://a.example:{forge.port}/mine.git")

    async def here(_host: str) -> list[Address]:
        return [ipaddress.ip_address("127.0.0.1")]

    async with door(grant, tmp_path, resolve=here) as inside:
        said = await inside.ask(f"{READ}/info/refs?service=git-upload-pack")
    assert said.startswith(b"HTTP/1.1 403 a.example leads to a loopback address")
    assert forge.seen == []
