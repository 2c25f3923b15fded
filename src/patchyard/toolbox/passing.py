"""Takes a descriptor that somebody passes over a Unix socket: how one enters a container."""

from __future__ import annotations

import array
import os
import socket


def receive(path: str, number: int) -> None:
    """Connect to `path` and have the one descriptor that comes as `number`. Raises OSError."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.connect(path)
        came = array.array("i")
        _, ancillary, _, _ = peer.recvmsg(1, socket.CMSG_LEN(came.itemsize))
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                came.frombytes(data[: len(data) - len(data) % came.itemsize])
    if not came:
        raise OSError("no descriptor was passed")
    if came[0] != number:
        os.dup2(came[0], number)
        os.close(came[0])


__all__ = ["receive"]
