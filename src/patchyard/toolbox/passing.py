"""Takes descriptors that somebody passes over a Unix socket: how they enter a container."""

from __future__ import annotations

import array
import os
import socket

MOST = 2


def receive(path: str, number: int) -> int:
    """Connect to `path` and have the first descriptor that comes as `number`. Raises OSError.

    Returns the second, -1 where there is none.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.connect(path)
        came = array.array("i")
        room = socket.CMSG_LEN(MOST * came.itemsize)
        _, ancillary, _, _ = peer.recvmsg(1, room, socket.MSG_CMSG_CLOEXEC)
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                came.frombytes(data[: len(data) - len(data) % came.itemsize])
    if not came:
        raise OSError("no descriptor was passed")
    if came[0] != number:
        os.dup2(came[0], number)
        os.close(came[0])
    return came[1] if len(came) > 1 else -1


__all__ = ["MOST", "receive"]
