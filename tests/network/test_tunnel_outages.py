"""The outage drill of tunnels: what one side meets, the other side is told as it was.

A reset stays a reset, so that nothing unfinished looks whole; an end of one way ends that way
alone; a side that is silent holds nothing once the other one has left.
"""

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from models.loopback import Peer
from network.doors import Door, Tunnel, door, hello
from network.host_outages import Behaving, behaving, dripping, saying, taken, unanswering
from patchyard.clients import connection_ends, dialling
from patchyard.clients import tunnel as tunnels
from patchyard.clients.dialling import Dialler
from patchyard.domain.addresses import Address
from patchyard.domain.network import HostRule, NetworkGrant
from patchyard.domain.traffic import Attempt

pytestmark = pytest.mark.anyio

SOON_S = 0.3
KINDS = ("plain", "tls")
HALF = b"half of it, "


@dataclass(kw_only=True)
class Drill:
    """A tunnel whose host does one thing, and what it saw of the program."""

    inside: Door
    tunnel: Tunnel

    async def rest(self) -> bytes:
        """All that comes. Raises ConnectionResetError for an end that is none."""
        async with asyncio.timeout(60):
            return await self.tunnel.reader.read()

    async def over(self) -> Attempt:
        """What was told of the tunnel, once it is over."""
        (attempt,) = await self.inside.told(1)
        return attempt

    def reset(self) -> None:
        Peer(self.tunnel.reader, self.tunnel.writer).reset()


@dataclass(kw_only=True)
class Witness:
    """A host that reads until the end, and how that was."""

    first: bytes = b""  # what it says before
    came: bytes = b""
    ended: asyncio.Future[str] = field(default_factory=asyncio.Future)

    async def __call__(self, peer: Peer) -> None:
        if self.first:
            await peer.send(self.first)
        try:
            while piece := await peer.reader.read(65536):
                self.came += piece
        except ConnectionResetError:
            self.ended.set_result("reset")
        else:
            self.ended.set_result("end")

    async def end(self) -> str:
        async with asyncio.timeout(60):
            return await self.ended


@asynccontextmanager
async def drilled(how: Behaving, kind: str, home: Path, *, limit: int = 0) -> AsyncIterator[Drill]:
    """Open a tunnel to a host that does this once something came, and say something.

    A host beside it is asked at the end: others are served all the same.
    """
    async with behaving(how, None, is_raw=True) as port, behaving(saying(b"well"), None) as other:
        place, beside = f"localhost:{port}", f"localhost:{other}"
        hosts = (f"http://{place}" if kind == "plain" else place, f"http://{beside}")
        grant = NetworkGrant(hosts=hosts, max_call_bytes=limit or 1 << 40)
        async with door(grant, home) as inside:
            tunnel = await inside.tunnel(place, None)
            tunnel.writer.write(b"x" if kind == "plain" else hello("localhost"))
            try:
                yield Drill(inside=inside, tunnel=tunnel)
            finally:
                tunnel.close()
            if not limit:
                again = await inside.tunnel(beside, None)
                assert await again.get("/x") == b"well"
                again.close()


def at(*addresses: str) -> dialling.Resolve:
    """A resolver that knows one name."""

    async def resolve(_host: str) -> Sequence[Address]:
        return [ipaddress.ip_address(address) for address in addresses]

    return resolve


@pytest.mark.parametrize("scheme", ["http://", ""])
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("refused", r"502 .* cannot be reached: it takes no connection"),
        ("unanswered", r"504 .* cannot be reached: no connection in time"),
    ],
)
async def test_a_host_that_takes_no_connection_is_said_before_the_tunnel_is_open(
    fault: str, words: str, scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialling, "CONNECT_TIMEOUT_S", SOON_S)
    with unanswering() if fault == "unanswered" else taken() as port:
        grant = NetworkGrant(hosts=(f"{scheme}localhost:{port}",))
        async with door(grant, tmp_path) as inside:
            with pytest.raises(PermissionError, match=words):
                await inside.tunnel(f"localhost:{port}", None)
            (attempt,) = await inside.told(1)
    assert (attempt.verdict, attempt.status) == ("failed", int(words[:3]))


@pytest.mark.parametrize("scheme", ["http://", ""])
async def test_a_name_with_many_silent_addresses_has_one_time_for_all(
    scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialling, "CONNECT_TIMEOUT_S", 0.05)
    monkeypatch.setattr(dialling, "ADDRESSES_TIMEOUT_S", 0.01)
    with unanswering() as port, socket.create_server(("127.0.0.2", port)) as last:
        grant = NetworkGrant(hosts=(f"{scheme}a.example:{port}=loopback",))
        both = at("127.0.0.1", "127.0.0.2")
        async with door(grant, tmp_path, resolve=both) as inside:
            with pytest.raises(PermissionError, match=r"504 .* no connection in time"):
                await inside.tunnel(f"a.example:{port}", None)
        last.setblocking(False)
        with pytest.raises(BlockingIOError):
            last.accept()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("said", [b"", HALF])
async def test_a_reset_of_the_host_is_one_inside(said: bytes, kind: str, tmp_path: Path) -> None:
    async with drilled(saying(said, "reset"), kind, tmp_path) as drill:
        with pytest.raises(ConnectionResetError):
            await drill.rest()
        attempt = await drill.over()
    assert (attempt.verdict, attempt.status) == ("failed", 200)
    assert "broke the connection off (ConnectionResetError)" in attempt.reason
    assert attempt.down == len(said)


async def test_what_came_before_a_reset_is_handed_on(tmp_path: Path) -> None:
    def heard(port: int, place: str) -> bytes:
        with socket.create_connection(("127.0.0.1", port), timeout=60) as program:
            program.sendall(f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\n".encode())
            came = program.recv(len(tunnels.ESTABLISHED), socket.MSG_WAITALL)
            program.sendall(b"x")
            with contextlib.suppress(ConnectionResetError):
                while piece := program.recv(65536):
                    came += piece
                raise AssertionError(came)
            return came

    async with behaving(saying(HALF * 3_000, "reset"), None, is_raw=True) as port:
        place = f"localhost:{port}"
        async with door(NetworkGrant(hosts=(f"http://{place}",)), tmp_path) as inside:
            came = await asyncio.to_thread(heard, inside.port, place)
    assert came == tunnels.ESTABLISHED + HALF * 3_000


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("said", [b"", HALF])
async def test_a_reset_of_the_program_is_one_at_the_host(
    said: bytes, kind: str, tmp_path: Path
) -> None:
    host = Witness(first=b"!")
    async with drilled(host, kind, tmp_path) as drill:
        await drill.tunnel.reader.readexactly(1)
        drill.tunnel.writer.write(said)
        await drill.tunnel.writer.drain()
        drill.reset()
        assert await host.end() == "reset"
        attempt = await drill.over()
    assert attempt.verdict == "passed"


@pytest.mark.parametrize("kind", KINDS)
async def test_a_program_that_is_done_hears_the_rest(kind: str, tmp_path: Path) -> None:
    async def whole(peer: Peer) -> None:
        while await peer.reader.read(65536):
            pass
        await peer.send(HALF * 20_000)

    async with drilled(whole, kind, tmp_path) as drill:
        drill.tunnel.writer.write_eof()
        assert await drill.rest() == HALF * 20_000
        attempt = await drill.over()
    assert (attempt.verdict, attempt.reason) == ("passed", "")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_host_that_is_done_hears_the_rest(kind: str, tmp_path: Path) -> None:
    host = Witness()

    async def done(peer: Peer) -> None:
        peer.writer.write_eof()
        await host(peer)

    async with drilled(done, kind, tmp_path) as drill:
        assert await drill.rest() == b""
        drill.tunnel.writer.write(HALF * 20_000)
        drill.tunnel.writer.write_eof()
        assert await host.end() == "end"
        attempt = await drill.over()
    assert host.came.endswith(HALF * 20_000)
    assert (attempt.verdict, attempt.reason) == ("passed", "")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_program_that_leaves_a_silent_host_gives_its_connection_back(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tunnels, "LEFT_S", SOON_S)
    never = asyncio.Event()

    async def hang(peer: Peer) -> None:
        await peer.left()
        await never.wait()

    async with drilled(hang, kind, tmp_path) as drill:
        drill.tunnel.writer.close()
        attempt = await drill.over()
        assert drill.inside.counting.read().connections == 1
        assert drill.inside.counting.read().connections == 0
    assert attempt.verdict == "failed"
    assert "had left" in attempt.reason


@pytest.mark.parametrize("kind", KINDS)
async def test_a_host_that_leaves_a_silent_program_gives_its_connection_back(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tunnels, "LEFT_S", SOON_S)
    async with drilled(saying(HALF), kind, tmp_path) as drill:
        assert await drill.rest() == HALF
        attempt = await drill.over()
    assert (attempt.verdict, attempt.reason) == ("passed", "")


@pytest.mark.parametrize("kind", KINDS)
async def test_two_silent_sides_are_told_by_a_reset(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tunnels, "IDLE_S", SOON_S)
    host = Witness(first=HALF)
    async with drilled(host, kind, tmp_path) as drill:
        with pytest.raises(ConnectionResetError):
            await drill.rest()
        assert await host.end() == "reset"
        attempt = await drill.over()
    assert attempt.verdict == "failed"
    assert attempt.reason == f"nothing went either way for {SOON_S:g} s"


@pytest.mark.parametrize("kind", KINDS)
async def test_data_without_an_end_is_reset_where_the_bytes_of_a_call_are_used(
    kind: str, tmp_path: Path
) -> None:
    host = dripping(b"", b"x" * 60_000)
    async with drilled(host, kind, tmp_path, limit=1_000_000) as drill:
        with pytest.raises(ConnectionResetError):
            await drill.rest()
        attempt = await drill.over()
    assert (attempt.verdict, attempt.status) == ("refused", 200)
    assert "network.max_call_bytes" in attempt.reason


@pytest.mark.parametrize("kind", KINDS)
async def test_an_upload_that_was_cut_by_a_limit_does_not_look_whole(
    kind: str, tmp_path: Path
) -> None:
    host = Witness()
    async with drilled(host, kind, tmp_path, limit=1_000_000) as drill:
        drill.tunnel.writer.write(b"x" * 2_000_000)
        with pytest.raises(ConnectionResetError):
            await drill.rest()
        assert await host.end() == "reset"
        attempt = await drill.over()
    assert attempt.verdict == "refused"


@pytest.mark.parametrize("kind", KINDS)
async def test_a_drip_comes_as_it_is_sent_and_ends_with_the_program(
    kind: str, tmp_path: Path
) -> None:
    async with drilled(dripping(b"", b"x"), kind, tmp_path) as drill:
        async with asyncio.timeout(60):
            await drill.tunnel.reader.readexactly(20)
        drill.tunnel.close()
        attempt = await drill.over()
    assert attempt.verdict == "passed"


@pytest.mark.parametrize("has_left", [True, False])
async def test_a_side_that_takes_nothing_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_left: bool
) -> None:
    monkeypatch.setattr(tunnels, "WRITE_TIMEOUT_S", SOON_S)
    never = asyncio.Event()

    async def deaf(_peer: Peer) -> None:
        await never.wait()

    async with drilled(deaf, "plain", tmp_path) as drill:
        drill.tunnel.writer.write(b"x" * 30_000_000)
        if has_left:
            drill.tunnel.writer.write_eof()
        attempt = await drill.over()
        assert drill.inside.counting.read().connections == 1
        assert drill.inside.counting.read().connections == 0
    assert attempt.verdict == "failed"
    assert attempt.reason.endswith(f"took nothing for {SOON_S:g} s")


async def test_a_program_that_takes_nothing_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tunnels, "WRITE_TIMEOUT_S", SOON_S)
    monkeypatch.setattr(connection_ends, "WRITE_TIMEOUT_S", SOON_S)
    async with drilled(saying(b"x" * 30_000_000), "plain", tmp_path) as drill:
        attempt = await drill.over()
    assert attempt.verdict == "failed"
    assert attempt.reason == f"the program inside took nothing for {SOON_S:g} s"


async def test_a_host_that_the_kernel_gives_up_does_not_hold_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel says ETIMEDOUT, which Python raises as TimeoutError."""
    real = Dialler.connect

    async def hasty(
        self: Dialler, rule: HostRule
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await real(self, rule)
        taken = writer.get_extra_info("socket")
        taken.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 300)  # ms
        return reader, writer

    monkeypatch.setattr(Dialler, "connect", hasty)
    never = asyncio.Event()

    async def deaf(_peer: Peer) -> None:
        await never.wait()

    async with drilled(deaf, "plain", tmp_path) as drill:
        drill.tunnel.writer.write(b"x" * 30_000_000)
        attempt = await drill.over()
    assert attempt.verdict == "failed"
    assert "broke the connection off (TimeoutError)" in attempt.reason
