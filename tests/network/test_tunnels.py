"""Tunnels: to the address that was checked, for the allowed name, told with their bytes."""

import asyncio
import ipaddress
import ssl
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from network.conftest import Authority
from network.doors import door, hello
from network.hosts import Host
from patchyard.clients import dialling
from patchyard.clients import tunnel as tunnels
from patchyard.clients.client_hello import RECORDS, NoHello, read_hello, server_name
from patchyard.domain.addresses import Address
from patchyard.domain.network import NetworkGrant

pytestmark = pytest.mark.anyio


def answering(*rounds: Sequence[str]) -> Callable[[str], Awaitable[Sequence[Address]]]:
    """A resolver that says something else each time."""
    left = list(rounds)

    async def resolve(_host: str) -> Sequence[Address]:
        said = left.pop(0) if len(left) > 1 else left[0]
        return [ipaddress.ip_address(text) for text in said]

    return resolve


async def test_what_is_said_inside_tls_passes_untouched_and_its_bytes_are_told(
    tmp_path: Path, secure: Host, authority: Authority
) -> None:
    secure.say("/x", b"y" * 300_000)
    async with door(NetworkGrant(hosts=(secure.place,)), tmp_path) as inside:
        tunnel = await inside.tunnel(secure.place, authority.client)
        said = await tunnel.get("/x")
        tunnel.close()
        (attempt,) = await inside.told(1)
    assert said.endswith(b"y" * 300_000)
    assert (attempt.gateway, attempt.verdict, attempt.method) == ("connect", "passed", "")
    assert (attempt.host, attempt.port, attempt.path) == ("localhost", secure.port, "")
    assert 100 < attempt.up < 10_000
    assert attempt.down > 300_000


@pytest.mark.parametrize("name", ["other.example", "LOCALHOST.example", "127.0.0.1.example"])
async def test_another_name_by_tls_than_the_allowed_one_is_refused(
    tmp_path: Path, secure: Host, name: str
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    async with door(NetworkGrant(hosts=(secure.place,)), tmp_path) as inside:
        with pytest.raises(ssl.SSLError, match=r"(?i)unrecognized.name"):
            await inside.tunnel(secure.place, context, name=name)
        (attempt,) = await inside.told(1)
    assert (attempt.verdict, attempt.up, attempt.down) == ("refused", 0, 0)
    assert name in attempt.reason
    assert secure.seen == []


@pytest.mark.parametrize(
    "first",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"SSH-2.0-x\r\n",
        hello(None),
        hello("localhost").replace(b"localhost", b"localhos\x00"),
        b"\x16\x03\x01\x00\x00" + b"\x00" * 8,
        b"\x16\x03\x01\x00\x05\x02\x00\x00\x01\x00",
        b"\x16\x03\x01\x00\x08\x01\x00\x00\x04\x03\x03\x00\x00",
        b"\x17\x03\x03\x00\x05hello",
        b"\x16\x03\x01\xff\xff" + b"\x01" * 100,
        b"".join(b"\x16\x03\x01\x40\x00\x01\xff\xff\xff" + b"x" * 0x3FFC for _ in range(5)),
    ],
)
async def test_what_names_no_allowed_host_by_tls_does_not_pass(
    tmp_path: Path, secure: Host, first: bytes
) -> None:
    async with door(NetworkGrant(hosts=(secure.place,)), tmp_path) as inside:
        tunnel = await inside.tunnel(secure.place, None)
        tunnel.writer.write(first)
        async with asyncio.timeout(120):
            said = await tunnel.reader.read()
        tunnel.close()
        (attempt,) = await inside.told(1)
    assert said in {b"", tunnels.UNRECOGNISED_NAME}
    assert (attempt.verdict, attempt.up) == ("refused", 0)


def test_a_hello_in_pieces_is_one_and_two_names_are_none() -> None:
    raw = hello("a.example")
    message = raw[5:]
    assert server_name(message) == "a.example"
    assert server_name(hello(None)[5:]) is None
    start = message.index(b"\x00\x00\x00\x0e\x00\x0c\x00\x00\x09a.example")
    name = message[start : start + 18]
    length = int.from_bytes(message[1:4], "big") + 18
    at = message.index(b"\x00\x00\x00\x0e") - 2
    extensions = int.from_bytes(message[at : at + 2], "big")
    doubled = b"\x01" + length.to_bytes(3, "big") + message[4:at]
    doubled += (extensions + 18).to_bytes(2, "big") + name + message[at + 2 :]
    with pytest.raises(NoHello, match="two names"):
        server_name(doubled)
    with pytest.raises(NoHello, match="another kind"):
        server_name(message.replace(b"\x00\x0c\x00\x00\x09a", b"\x00\x0c\x07\x00\x09a"))
    bare = b"\x01\x00\x00\x27\x03\x03" + b"r" * 32 + b"\x00\x00\x00\x01\x00"
    assert server_name(bare) is None
    with pytest.raises(NoHello, match="cut short"):
        server_name(message[:60])


async def test_a_hello_that_comes_byte_by_byte_in_many_records_is_read(
    tmp_path: Path, secure: Host
) -> None:
    message = hello("localhost")[5:]
    records = [message[at : at + 50] for at in range(0, len(message), 50)]
    async with door(NetworkGrant(hosts=(secure.place,)), tmp_path) as inside:
        tunnel = await inside.tunnel(secure.place, None)
        for record in records:
            tunnel.writer.write(b"\x16\x03\x01" + len(record).to_bytes(2, "big"))
            tunnel.writer.write(record)
            await tunnel.writer.drain()
        async with asyncio.timeout(120):
            said = await tunnel.reader.readexactly(3)
        tunnel.close()
    assert said == b"\x16\x03\x03"  # the host's own ServerHello


async def test_a_hello_in_thousands_of_records_is_none() -> None:
    message = hello("localhost")[5:]
    reader = asyncio.StreamReader()
    for at in range(RECORDS + 1):
        reader.feed_data(b"\x16\x03\x01\x00\x01" + message[at : at + 1])
    with pytest.raises(NoHello):
        await read_hello(reader)


NEAR = (
    *("127.0.0.1", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "10.0.0.1", "192.168.0.1"),
    *("169.254.169.254", "fe80::1", "fe80::1%lo", "fd00::1", "::", "100.100.100.200", "224.0.0.1"),
    "0.0.0.0",
)


@pytest.mark.parametrize("address", NEAR)
async def test_a_name_that_leads_nearer_than_said_is_refused(tmp_path: Path, address: str) -> None:
    grant = NetworkGrant(hosts=("a.example", "http://a.example"))
    async with door(grant, tmp_path, resolve=answering([address])) as inside:
        with pytest.raises(PermissionError, match=r"403 a\.example leads to a"):
            await inside.tunnel("a.example:443", None)
        assert (await inside.ask("http://a.example/")).startswith(b"HTTP/1.1 403 a.example leads")


async def test_a_name_is_asked_for_once_so_that_it_cannot_lead_elsewhere_afterwards(
    tmp_path: Path, plain: Host
) -> None:
    plain.say("/x", b"here")
    rounds = [["127.0.0.1"], ["10.0.0.1"], ["127.0.0.1"], ["169.254.169.254"]]
    asked: list[str] = []

    async def changing(host: str) -> Sequence[Address]:
        asked.append(host)
        return [ipaddress.ip_address(text) for text in rounds[len(asked) - 1]]

    place = f"a.example:{plain.port}"
    grant = NetworkGrant(hosts=(f"http://{place}=loopback",))
    async with door(grant, tmp_path, resolve=changing) as inside:
        assert (await inside.ask(f"http://{place}/x")).endswith(b"here")
        assert (await inside.ask(f"http://{place}/x")).startswith(b"HTTP/1.1 403 ")
        tunnel = await inside.tunnel(place, None)
        assert (await tunnel.get("/x")).endswith(b"here")
        tunnel.close()
        with pytest.raises(PermissionError, match=r"403 a\.example leads to a link-local"):
            await inside.tunnel(place, None)
    assert asked == ["a.example"] * 4
    assert len(plain.seen) == 2


async def test_this_machines_own_public_address_is_loopback_by_another_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert dialling.is_own("127.0.0.1")
    assert dialling.is_own("::1")
    assert not dialling.is_own("203.0.113.7")
    monkeypatch.setattr(dialling, "_binds", lambda address: address in {"8.8.8.8", "10.0.0.1"})
    assert dialling.nearness_here(ipaddress.ip_address("8.8.8.8")) == "loopback"
    assert dialling.nearness_here(ipaddress.ip_address("10.0.0.1")) == "private"
    assert dialling.nearness_here(ipaddress.ip_address("9.9.9.9")) == "public"
    async with door(
        NetworkGrant(hosts=("a.example",)), tmp_path, resolve=answering(["8.8.8.8"])
    ) as inside:
        with pytest.raises(PermissionError, match=r"403 a\.example leads to a loopback address"):
            await inside.tunnel("a.example:443", None)
    monkeypatch.setattr(dialling, "_binds", lambda _: True)  # ip_nonlocal_bind
    assert dialling.nearness_here(ipaddress.ip_address("8.8.8.8")) == "public"


async def test_of_several_addresses_only_those_that_are_allowed_are_connected_to(
    tmp_path: Path, plain: Host
) -> None:
    plain.say("/x", b"here")
    grant = NetworkGrant(hosts=(f"http://a.example:{plain.port}=loopback",))
    both = answering(["169.254.169.254", "10.0.0.1", "127.0.0.9", "127.0.0.1"])
    async with door(grant, tmp_path, resolve=both) as inside:
        said = await inside.ask(f"http://a.example:{plain.port}/x")
        tunnel = await inside.tunnel(f"a.example:{plain.port}", None)
        assert (await tunnel.get("/x")).endswith(b"here")
        tunnel.close()
    assert said.endswith(b"here")


async def test_a_host_named_by_its_address_is_reached_there_without_a_name(
    tmp_path: Path, secure: Host, authority: Authority
) -> None:
    place = f"127.0.0.1:{secure.port}"
    secure.say("/x", b"fine")
    async with door(NetworkGrant(hosts=(place,)), tmp_path) as inside:
        tunnel = await inside.tunnel(place, authority.client, name="127.0.0.1")
        assert (await tunnel.get("/x")).endswith(b"fine")
        tunnel.close()
        with pytest.raises(ssl.SSLError):
            await inside.tunnel(place, authority.client, name="localhost")


async def test_a_host_without_tls_gets_whatever_is_said(tmp_path: Path, plain: Host) -> None:
    plain.say("/x", b"fine")
    grant = NetworkGrant(hosts=(f"http://localhost:{plain.port}",))
    async with door(grant, tmp_path) as inside:
        tunnel = await inside.tunnel(f"localhost:{plain.port}", None)
        assert (await tunnel.get("/x")).endswith(b"fine")
        tunnel.close()


async def test_a_host_that_is_away_or_unknown_is_said_to_be(tmp_path: Path) -> None:
    async def slow(_host: str) -> Sequence[Address]:
        raise TimeoutError

    grant = NetworkGrant(hosts=("127.0.0.1:1", "a.example"))
    async with door(grant, tmp_path, resolve=answering([])) as inside:
        with pytest.raises(
            PermissionError, match=r"502 127\.0\.0\.1:1 cannot be reached: it takes no"
        ):
            await inside.tunnel("127.0.0.1:1", None)
        with pytest.raises(PermissionError, match=r"502 nobody knows the host a\.example"):
            await inside.tunnel("a.example:443", None)
        away, unknown = inside.attempts()
    assert (away.verdict, unknown.verdict) == ("failed", "failed")
    async with door(grant, tmp_path, resolve=slow) as inside:
        with pytest.raises(PermissionError, match="504 nobody says in time"):
            await inside.tunnel("a.example:443", None)


async def test_who_never_says_hello_is_not_waited_for(
    tmp_path: Path, secure: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tunnels, "HELLO_TIMEOUT_S", 0.05)
    async with door(NetworkGrant(hosts=(secure.place,)), tmp_path) as inside:
        tunnel = await inside.tunnel(secure.place, None)
        async with asyncio.timeout(120):
            assert await tunnel.reader.read() == b""
        tunnel.close()
        (attempt,) = await inside.told(1)
    assert "it said nothing" in attempt.reason


async def test_a_side_that_breaks_off_ends_the_tunnel_and_what_passed_is_told(
    tmp_path: Path, plain: Host
) -> None:
    grant = NetworkGrant(hosts=(f"http://localhost:{plain.port}",))
    async with door(grant, tmp_path) as inside:
        tunnel = await inside.tunnel(plain.place, None)
        tunnel.writer.write(b"GET /x HTTP/1.1\r\n\r\n" * 20)
        await tunnel.reader.readexactly(10)
        tunnel.close()
        (attempt,) = await inside.told(1)
    assert attempt.verdict == "passed"
    assert attempt.up > 0
