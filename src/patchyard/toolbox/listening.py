"""A loopback listener inside, whose descriptor goes to the engine."""

from __future__ import annotations

import fcntl
import socket
import struct

SIOCGIFFLAGS = 0x8913  # linux/sockios.h
SIOCSIFFLAGS = 0x8914
IFF_UP = 0x1
BACKLOG = 128


def open_listener() -> socket.socket:
    """Return a TCP listener on 127.0.0.1, at a port of the system's choice. Raises OSError."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        _raise_loopback(listener)
        listener.bind(("127.0.0.1", 0))
        listener.listen(BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def _raise_loopback(any_socket: socket.socket) -> None:
    """Bring `lo` up when it is down; in a new network namespace it may be."""
    request = struct.pack("16sh22x", b"lo", 0)
    name, flags = struct.unpack("16sh22x", fcntl.ioctl(any_socket, SIOCGIFFLAGS, request))
    if not flags & IFF_UP:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh22x", name, flags | IFF_UP))


__all__ = ["BACKLOG", "IFF_UP", "SIOCGIFFLAGS", "SIOCSIFFLAGS", "open_listener"]
