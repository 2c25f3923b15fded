"""Ways round the gateway that programs in a place with walls may try, on each kind that has one.

Each has its positive control: the same attack succeeds where nothing stands before it.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from environments.yards import Adapter, Running, Start, Yard
from network.doors import Door
from network.hosts import Host, hosting
from patchyard.clients.plan_network import open_network
from patchyard.contracts.environment import Listening
from patchyard.domain.carrying import NetworkBounds
from patchyard.domain.network import NetworkGrant

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]

KINDS = (pytest.param("container", marks=pytest.mark.service("docker")), "process")

CONNECT = """
import socket, sys
family, kind, host, port = sys.argv[1:5]
try:
    with socket.socket(getattr(socket, family), getattr(socket, kind)) as way:
        way.settimeout(3)
        address = (host, int(port)) if family != "AF_UNIX" else host.replace("@", chr(0))
        if kind == "SOCK_STREAM":
            way.connect(address)
        else:
            way.sendto(b"anybody there", address)
        print("reached")
except OSError as error:
    print("stopped:", error)
"""
TUNNEL = """
import os, socket, sys
from urllib.parse import urlsplit
gate = urlsplit(os.environ["PATCHYARD_GATEWAY"])
with socket.create_connection((gate.hostname, gate.port), 5) as way:
    way.sendall(sys.argv[1].encode().decode("unicode_escape").encode("latin-1"))
    print(way.recv(4096).decode("latin-1"))
"""


@pytest.fixture(params=KINDS)
def adapter(request: pytest.FixtureRequest, yard: Yard) -> Adapter:
    return yard.adapter(request.param)


@pytest.fixture
def plain() -> Iterator[Host]:
    """A host that speaks HTTP without TLS."""
    with hosting() as host:
        yield host


@asynccontextmanager
async def opened(
    running: Running, grant: NetworkGrant, home: Path, more: Mapping[str, str] | None = None
) -> AsyncIterator[Door]:
    """Open a grant inside an environment."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(home), "PATCHYARD_HOME": str(home)}
    toolbox = running.toolbox
    assert isinstance(toolbox, Listening)
    async with open_network(grant, {**environ, **(more or {})}) as network:
        port, listener = await toolbox.listen()
        async with network.serve(listener, port=port, bounds=NetworkBounds()) as served:
            variables = served.variables
            yield Door(network=network, port=port, variables=variables, counting=served.counting)


async def tried(running: Running, inside: Door, code: str, *words: str, bare: bool = False) -> str:
    """Return what a program printed; `bare`: without the gateway's variables."""
    quoted = " ".join(f"'{word}'" for word in words)
    args = {
        "command": f"python3 - {quoted} <<'PYTHON'\n{code}\nPYTHON",
        "env": {} if bare else dict(inside.variables),
    }
    call = f"call-{os.urandom(8).hex()}"
    result = await running.toolbox.call(call, "execute_command", args)
    return f"{result.get('stdout', '')}{result.get('stderr', '')}".strip()


@pytest.fixture
async def place(
    start: Start, yard: Yard, plain: Host, tmp_path: Path
) -> AsyncIterator[tuple[Running, Door, Host]]:
    """An environment that may reach one host, by name."""
    running = await start(yard.spec())
    plain.say("/x", b"from the host")
    grant = NetworkGrant(hosts=(f"http://localhost:{plain.port}",))
    async with opened(running, grant, tmp_path) as inside:
        yield running, inside, plain


GET = (
    "import urllib.request, sys\n"
    "print(urllib.request.urlopen(sys.argv[1], timeout=10).read().decode())"
)


async def test_the_gateway_itself_is_reached_and_only_by_its_port(
    place: tuple[Running, Door, Host],
) -> None:
    running, inside, host = place
    url = f"http://localhost:{host.port}/x"
    assert await tried(running, inside, GET, url) == "from the host"
    assert "URLError" in await tried(running, inside, GET, url, bare=True)
    attempts = inside.attempts()
    assert [(each.host, each.verdict) for each in attempts] == [("localhost", "passed")]


SOCKETS = (
    ("AF_INET", "SOCK_STREAM", "127.0.0.1"),
    ("AF_INET", "SOCK_STREAM", "127.0.0.2"),
    ("AF_INET", "SOCK_STREAM", "0.0.0.0"),
    ("AF_INET6", "SOCK_STREAM", "::1"),
    ("AF_INET6", "SOCK_STREAM", "::ffff:127.0.0.1"),
    ("AF_INET", "SOCK_STREAM", "192.0.2.1"),
    ("AF_INET6", "SOCK_STREAM", "2001:db8::1"),
    ("AF_INET", "SOCK_STREAM", "169.254.169.254"),
    ("AF_INET", "SOCK_DGRAM", "192.0.2.53"),
    ("AF_INET6", "SOCK_DGRAM", "2001:db8::53"),
    ("AF_INET", "SOCK_DGRAM", "255.255.255.255"),
)


async def test_no_socket_of_its_own_leads_out(place: tuple[Running, Door, Host]) -> None:
    running, inside, there = place
    for family, kind, host in SOCKETS:
        said = await tried(running, inside, CONNECT, family, kind, host, str(there.port))
        assert said.startswith("stopped:"), (family, kind, host)
    assert there.seen == []
    assert inside.attempts() == ()


async def test_the_same_program_reaches_the_host_where_no_wall_is(plain: Host) -> None:
    words = ["python3", "-c", CONNECT, "AF_INET", "SOCK_STREAM", "127.0.0.1", str(plain.port)]
    process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    said, _ = await process.communicate()
    assert said.decode().strip() == "reached"


async def test_no_name_is_resolved_inside(place: tuple[Running, Door, Host]) -> None:
    running, inside, _ = place
    code = (
        "import socket\n"
        "try: print('resolved', socket.getaddrinfo('a.example', 80))\n"
        "except OSError as error: print('stopped:', error)\n"
        "lines = open('/etc/resolv.conf').read().splitlines() if __import__('os').path.exists("
        "'/etc/resolv.conf') else []\n"
        "print([line for line in lines if line.startswith('nameserver')])"
    )
    said = (await tried(running, inside, code)).splitlines()
    assert said[0].startswith("stopped:")


async def test_no_socket_of_the_host_can_be_spoken_to(
    place: tuple[Running, Door, Host], tmp_path: Path, yard: Yard
) -> None:
    running, inside, _ = place
    name = f"@patchyard-test-{os.getpid()}"
    paths = [
        str(tmp_path / "host.sock"),
        name,
        "/var/run/docker.sock",
        "/run/dbus/system_bus_socket",
    ]
    with socket.socket(socket.AF_UNIX) as visible, socket.socket(socket.AF_UNIX) as abstract:
        visible.bind(paths[0])
        visible.listen()
        abstract.bind(name.replace("@", "\0"))
        abstract.listen()
        with socket.socket(socket.AF_UNIX) as control:
            control.connect(name.replace("@", "\0"))  # the positive control: it is there
        for path in [*paths, *map(str, yard.station.runtime.glob("*/*.sock"))]:
            said = await tried(running, inside, CONNECT, "AF_UNIX", "SOCK_STREAM", path, "0")
            assert said.startswith("stopped:"), path


REQUESTS = (
    "CONNECT other.example:443 HTTP/1.1",
    "CONNECT 127.0.0.1:{port} HTTP/1.1",
    "CONNECT 127.0.0.1:{gate} HTTP/1.1",
    "CONNECT [::1]:{port} HTTP/1.1",
    "CONNECT 2130706433:{port} HTTP/1.1",
    "CONNECT localhost:22 HTTP/1.1",
    "GET http://169.254.169.254/latest/meta-data/ HTTP/1.1",
    "GET http://localhost:{port}/x HTTP/1.1\\r\\nHost: other.example",
    "GET /to/127.0.0.1:{port}/x HTTP/1.1",
    "\\x05\\x01\\x00",
)


async def test_the_gateway_leads_nowhere_else(place: tuple[Running, Door, Host]) -> None:
    running, inside, host = place
    for request in REQUESTS:
        words = request.replace("{port}", str(host.port)).replace("{gate}", str(inside.port))
        said = await tried(running, inside, TUNNEL, f"{words}\\r\\n\\r\\n")
        assert said[:12] in {"HTTP/1.1 403", "HTTP/1.1 400"}, (request, said)
    assert host.seen == []
    assert [each.verdict for each in inside.attempts()] == ["refused"] * len(REQUESTS)


async def test_the_gateways_port_is_seen_in_its_own_environment_alone(
    place: tuple[Running, Door, Host], start: Start, yard: Yard
) -> None:
    running, inside, _ = place
    other = await start(yard.spec())
    port = str(inside.port)
    here = await tried(running, inside, CONNECT, "AF_INET", "SOCK_STREAM", "127.0.0.1", port)
    assert here == "reached"
    there = await tried(other, inside, CONNECT, "AF_INET", "SOCK_STREAM", "127.0.0.1", port)
    assert there.startswith("stopped:")
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", inside.port)


async def test_a_secret_is_used_and_is_nowhere_inside(
    start: Start, yard: Yard, plain: Host, tmp_path: Path
) -> None:
    token = "t0ken-of-the-tests-0123456789"
    running = await start(yard.spec())
    grant = NetworkGrant(secrets=(f"TOKEN@http://localhost:{plain.port}",))
    seek = (
        "import pathlib, sys\n"
        "wanted = sys.argv[1][::-1].encode()\n"
        "for place in pathlib.Path('/proc').glob('[0-9]*/*'):\n"
        "    if place.name in {'environ', 'cmdline'}:\n"
        "        try: print('found' if wanted in place.read_bytes() else 'not')\n"
        "        except OSError: print('closed')\n"
    )
    async with opened(running, grant, tmp_path, {"TOKEN": token}) as inside:
        url = f"http://localhost:{plain.port}/echo"
        said = await tried(running, inside, GET, url)
        found = await tried(running, inside, seek, token[::-1])
    assert plain.seen[0].headers["authorization"] == f"Bearer {token}"
    assert token not in said
    assert "Bearer ***" in said
    assert set(found.split()) == {"not"} | set(found.split()) & {"closed"}
