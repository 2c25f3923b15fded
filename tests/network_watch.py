"""A network of a test's own: whatever a process sends to any address comes back and is seen.

Its only device is the loopback, and every address there is belongs to it, so that no attempt ends
for want of a route before it is seen. Nothing answers. Needs root.
"""

import contextlib
import ctypes
import os
import socket
import struct
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from services import SBIN

__all__ = ["NetworkWatch", "watched_network"]

CLONE_NEWNET = 0x40000000  # sched.h
ETH_P_ALL = 3  # if_ether.h
IPV4, IPV6, TCP, UDP, ICMP, ICMP6 = 0x0800, 0x86DD, 6, 17, 1, 58
SYN, ACK = 0x02, 0x10  # RFC 9293
NAMES = {TCP: "TCP", UDP: "UDP", ICMP: "ICMP", ICMP6: "ICMP"}
LARGEST = 65536
SETTING_UP = (
    "link set lo up",
    "route add local default dev lo",
    "-6 route add local default dev lo",
)


class NetworkWatch:
    """One network, and the packets that were sent in it."""

    def __init__(self, packets: socket.socket, namespace: int) -> None:
        self._packets = packets
        self._namespace = namespace

    @property
    def entering(self) -> Sequence[str]:
        """The words before a command that has it run in this network."""
        return ("nsenter", f"--net=/proc/{os.getpid()}/fd/{self._namespace}")

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Keep this thread, and what it starts, in this network during the block."""
        before = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            _called("setns", self._namespace, CLONE_NEWNET)
            yield
        finally:
            _called("setns", before, CLONE_NEWNET)
            os.close(before)

    def attempts(self) -> list[str]:
        """What was sent since the last time, each once: the protocol, the address and the port."""
        found: dict[str, None] = {}
        while True:
            try:
                packet, origin = self._packets.recvfrom(LARGEST)
            except BlockingIOError:
                return list(found)
            if origin[2] == socket.PACKET_OUTGOING and (said := _told(origin[1], packet)):
                found[said] = None


def _told(kind: int, packet: bytes) -> str:
    """Name where an Ethernet frame was to go; empty for an answer, and within a connection."""
    packet = packet[14:]
    if kind == IPV4:
        start, protocol = (packet[0] & 15) * 4, packet[9]
        address = socket.inet_ntop(socket.AF_INET, packet[16:20])
    elif kind == IPV6:
        start, protocol = 40, packet[6]
        address = socket.inet_ntop(socket.AF_INET6, packet[24:40])
    else:
        return f"a packet of kind {kind:#x}"
    body = packet[start:]
    if protocol in {ICMP, ICMP6} and body[0] in {1, 3}:  # unreachable, RFC 4443 and RFC 792
        return ""
    if protocol == TCP and body[13] & (SYN | ACK) != SYN:  # of a connection whose opening was seen
        return ""
    name = NAMES.get(protocol, f"protocol {protocol}")
    if protocol not in {TCP, UDP}:
        return f"{name} to {address}"
    (port,) = struct.unpack_from(">H", body, 2)
    return f"{name} to {address} port {port}"


def _called(name: str, *arguments: int) -> None:
    """Call a function of the C library. Raises OSError."""
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments):
        raise OSError(ctypes.get_errno(), name)


def _made() -> tuple[socket.socket, int]:
    """Make a network in this thread alone; return all that is sent in it, and its descriptor."""
    _called("unshare", CLONE_NEWNET)
    namespace = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    paths = os.pathsep.join([os.environ.get("PATH", os.defpath), SBIN])
    for words in SETTING_UP:
        subprocess.run(["ip", *words.split()], check=True, env={"PATH": paths})
    packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    packets.setblocking(False)
    return packets, namespace


@contextlib.contextmanager
def watched_network() -> Iterator[NetworkWatch]:
    """Lend a network that ends with the block and with the last process in it."""
    with ThreadPoolExecutor(max_workers=1) as alone:  # the thread that moves there ends with this
        packets, namespace = alone.submit(_made).result()
    with packets:
        try:
            yield NetworkWatch(packets, namespace)
        finally:
            os.close(namespace)
