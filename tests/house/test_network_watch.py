"""What a process sends in a watched network is seen, whatever it is for and whoever it is from."""

import subprocess
import sys

import pytest

from network_watch import watched_network

pytestmark = [pytest.mark.service("network-namespaces")]

TALK = """
import socket
with socket.create_server(("127.0.0.1", 5000)) as server:
    client = socket.create_connection(server.getsockname(), timeout=5)
    peer, _ = server.accept()
    peer.sendall(b"x")
    assert client.recv(1) == b"x"
    peer.close()
    client.close()
"""
CONNECT = "import socket\nsocket.create_connection({place!r}, timeout=0.5)"
ASK = "import socket\nsocket.socket(socket.{family}, socket.SOCK_DGRAM).sendto(b'x', {place!r})"


@pytest.mark.parametrize(
    ("code", "seen"),
    [
        (CONNECT.format(place=("192.0.2.7", 443)), "TCP to 192.0.2.7 port 443"),
        (CONNECT.format(place=("127.0.0.1", 5000)), "TCP to 127.0.0.1 port 5000"),
        (TALK, "TCP to 127.0.0.1 port 5000"),
        (CONNECT.format(place=("2001:db8::1", 80)), "TCP to 2001:db8::1 port 80"),
        (ASK.format(family="AF_INET", place=("192.0.2.53", 53)), "UDP to 192.0.2.53 port 53"),
        (ASK.format(family="AF_INET6", place=("2001:db8::1", 53)), "UDP to 2001:db8::1 port 53"),
    ],
)
def test_an_attempt_to_reach_any_address_is_seen(code: str, seen: str) -> None:
    with watched_network() as network:
        words = [*network.entering, sys.executable]
        subprocess.run([*words, "-c", "print()"], check=True, capture_output=True)
        assert network.attempts() == []
        subprocess.run([*words, "-c", code], check=False, capture_output=True)
        assert network.attempts() == [seen]
        assert network.attempts() == []


def test_what_this_process_starts_while_it_is_there_is_seen_and_nothing_later() -> None:
    words = ["git", "ls-remote", "git://192.0.2.7/x"]
    with watched_network() as network:
        with network.entered():
            lost = subprocess.run(words, check=False, capture_output=True)
        assert lost.returncode
        assert network.attempts() == ["TCP to 192.0.2.7 port 9418"]
        subprocess.run([sys.executable, "-c", CONNECT.format(place=("127.0.0.1", 9))], check=False,
                       capture_output=True)  # fmt: skip
        assert network.attempts() == []
