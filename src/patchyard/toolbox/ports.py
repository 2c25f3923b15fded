"""Ports of the loopback inside whose connections lead out over a stream: to gateways."""

from __future__ import annotations

import contextlib

from .listening import open_listener

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Any

    from .loop import Loop
    from .strands import Strands


class Ports:
    """Those that the engine has asked for."""

    def __init__(self, loop: Loop, strands: Strands) -> None:
        self._loop = loop
        self._strands = strands
        self._open: dict[int, socket.socket] = {}

    def hear(self, message: dict[str, Any]) -> bool:
        """Open or close one; False where the message is about something else."""
        do = message.get("do")
        if do == "listen":
            self._listen()
        elif do == "unlisten":
            self._close(message["port"])
        else:
            return False
        return True

    def _listen(self) -> None:
        try:
            listener = open_listener()
        except OSError as error:
            self._strands.say({"say": "listening", "port": 0, "message": str(error)})
            return
        listener.setblocking(False)
        port = listener.getsockname()[1]

        def accept(_events: int) -> None:
            with contextlib.suppress(OSError):
                self._strands.open(str(port), listener.accept()[0])

        self._open[port] = listener
        self._loop.watch(listener.fileno(), accept)
        self._strands.say({"say": "listening", "port": port})

    def _close(self, port: int) -> None:
        listener = self._open.pop(port, None)
        if listener is not None:
            self._loop.unwatch(listener.fileno())
            listener.close()


__all__ = ["Ports"]
