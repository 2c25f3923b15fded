"""The raw connection to a container's standard streams, as its engine gives it: attached to."""

import contextlib
import socket
from http import HTTPStatus

from patchyard.domain.errors import EnvironmentUnavailable

ATTACH_S = 20.0
MOST_HEAD_BYTES = 16 * 1024
REQUEST = (
    "POST /containers/{name}/attach?stream=1&stdin=1&stdout=1&stderr=1 HTTP/1.1\r\n"
    "Host: docker\r\nConnection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: 0\r\n\r\n"
)
UPGRADED = (HTTPStatus.SWITCHING_PROTOCOLS, HTTPStatus.OK)  # the latter of older engines


def attach(engine: str, name: str) -> socket.socket:
    """Return the streams of a container that has not started yet, now owned by the caller.

    What it says comes in frames (the Engine API's ContainerAttach). Blocks. Raises
    EnvironmentUnavailable.
    """
    with contextlib.ExitStack() as undo:
        peer = undo.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        try:
            peer.settimeout(ATTACH_S)
            peer.connect(engine)
            peer.sendall(REQUEST.format(name=name).encode("ascii"))
            _require_upgraded(_head(peer))
        except (OSError, ValueError) as error:
            raise EnvironmentUnavailable(
                f"the container engine does not pass on the container's streams: {error}",
                hint="look at the container engine; a proxy in between may refuse to",
            ) from error
        peer.setblocking(True)
        undo.pop_all()
    return peer


def _head(peer: socket.socket) -> str:
    """Return the answer's head, and leave what follows it unread."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        piece = peer.recv(1)
        if not piece or len(head) > MOST_HEAD_BYTES:
            raise ValueError("no answer that can be understood")
        head += piece
    return head.decode("latin-1")


def _require_upgraded(head: str) -> None:
    words = head.split(None, 2)
    status = 0
    with contextlib.suppress(IndexError, ValueError):
        status = int(words[1])
    if status not in UPGRADED:
        raise ValueError(head.splitlines()[0])


__all__ = ["ATTACH_S", "MOST_HEAD_BYTES", "attach"]
