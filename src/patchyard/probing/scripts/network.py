"""The network: listeners of the machine, names, routes, raw packets, other namespaces."""

from __future__ import annotations

import os
import socket
import struct
import sys

from .kit import call, done, first, processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Given = dict[str, Any]

WAIT_S = 2.0
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
CLONE_NEWNET = 0x40000000
METADATA = "169.254.169.254"  # where clouds answer; a route is looked for, nothing is sent
ELSEWHERE = ("192.0.2.77", "2001:db8::77")  # RFC 5737 and RFC 3849: nobody's


def tcp(given: Given) -> None:
    """Connect to a listener on the machine's loopback."""
    _speak(socket.AF_INET, ("127.0.0.1", given["ports"]["tcp"]), given)


def tcp6(given: Given) -> None:
    """Connect to a listener on the machine's loopback by IPv6."""
    _speak(socket.AF_INET6, ("::1", given["ports"]["tcp6"]), given)


def mapped(given: Given) -> None:
    """Connect by IPv6 to an address of IPv4."""
    _speak(socket.AF_INET6, ("::ffff:127.0.0.1", given["ports"]["tcp"]), given)


def udp(given: Given) -> None:
    """Send a packet to a listener on the machine's loopback."""
    _send(given["token"].encode(), given)


def dns(given: Given) -> None:
    """Carry something out in a question for a name."""
    name = b"".join(bytes([len(part)]) + part for part in (given["token"].encode(), b"invalid"))
    question = struct.pack(">6H", 7, 0x0100, 1, 0, 0, 0) + name + b"\0" + struct.pack(">2H", 1, 1)
    _send(question, given)


def without_variables(given: Given) -> None:
    """Connect directly after every variable of proxies is gone."""
    for name in PROXIES:
        os.environ.pop(name, None)
        os.environ.pop(name.upper(), None)
    _speak(socket.AF_INET, ("127.0.0.1", given["ports"]["tcp"]), given)


def route_to_metadata(given: Given) -> None:
    """Look for a way to where clouds give out credentials."""
    _has_route(socket.AF_INET, METADATA, given)


def route_elsewhere(given: Given) -> None:
    """Look for a way to other networks."""
    families = (socket.AF_INET, socket.AF_INET6)
    first(lambda pair: _has_route(pair[0], pair[1], given), zip(families, ELSEWHERE))


def raw_socket(given: Given) -> None:
    """Open a socket for packets of one's own making."""
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).close()
    done(given)


def packet_socket(given: Given) -> None:
    """Open a socket that hears what passes by."""
    socket.socket(17, socket.SOCK_RAW, 0).close()
    done(given)


def hypervisor_socket(given: Given) -> None:
    """Open a socket to the hypervisor, whom no namespace hides."""
    socket.socket(40, socket.SOCK_STREAM).close()
    done(given)


def join_namespace(given: Given) -> None:
    """Step into the network of another process."""

    def join(pid: int) -> None:
        descriptor = os.open("/proc/%d/ns/net" % pid, os.O_RDONLY)
        call("setns", descriptor, CLONE_NEWNET)
        os.close(descriptor)
        _speak(socket.AF_INET, ("127.0.0.1", given["ports"]["tcp"]), given)

    first(join, [1, os.getppid(), *processes()])


def _speak(family: int, address: tuple[str, int], given: Given) -> None:
    with socket.socket(family) as peer:
        peer.settimeout(WAIT_S)
        peer.connect(address)
        peer.sendall(given["token"].encode())
        peer.shutdown(socket.SHUT_WR)
        peer.recv(16)


def _send(data: bytes, given: Given) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        peer.settimeout(WAIT_S)
        peer.connect(("127.0.0.1", given["ports"]["udp"]))
        peer.send(data)
        peer.recv(16)


def _has_route(family: int, address: str, given: Given) -> None:
    """Ask the kernel for a way; for datagrams connecting sends nothing."""
    with socket.socket(family, socket.SOCK_DGRAM) as peer:
        peer.connect((address, 80))
        print("from %s" % peer.getsockname()[0], file=sys.stderr)
        done(given, address)


__all__ = [
    "CLONE_NEWNET",
    "ELSEWHERE",
    "METADATA",
    "PROXIES",
    "WAIT_S",
    "dns",
    "hypervisor_socket",
    "join_namespace",
    "mapped",
    "packet_socket",
    "raw_socket",
    "route_elsewhere",
    "route_to_metadata",
    "tcp",
    "tcp6",
    "udp",
    "without_variables",
]
