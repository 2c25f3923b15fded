"""Passes a listening socket into a place that sees nothing of this machine but one other socket."""

import asyncio
import contextlib
import os
import socket
from pathlib import Path

from patchyard.clients.shared_sockets import ToolboxSocket
from patchyard.domain.errors import EnvironmentBroken

SOCKET_NAME = "handing.sock"


class Passing:
    """A socket that gives one descriptor to the first who connects; until it is closed."""

    def __init__(self, directory: Path, given: socket.socket) -> None:
        self.path = directory / SOCKET_NAME
        self._given = given
        folder = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._listener.bind(f"/proc/self/fd/{folder}/{SOCKET_NAME}")
            self.path.chmod(0o666)  # the agent's user connects; its folder is closed to others
            self._listener.listen(1)
            self._listener.setblocking(False)
        except BaseException:
            self._listener.close()
            raise
        finally:
            os.close(folder)

    async def passed(self) -> None:
        """Wait for the one who asks, and pass the descriptor. Raises EnvironmentBroken."""
        loop = asyncio.get_running_loop()
        accepted, _ = await loop.sock_accept(self._listener)  # which only this process holds
        with ToolboxSocket(accepted.detach()) as peer:
            peer.setblocking(False)
            try:
                socket.send_fds(peer, [b"L"], [self._given.fileno()])
            except OSError as error:
                raise EnvironmentBroken(
                    f"the toolbox went away before it had its socket: {error}"
                ) from error
        self.close()

    def close(self) -> None:
        """Let nobody connect any more."""
        self._listener.close()
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()


__all__ = ["SOCKET_NAME", "Passing"]
