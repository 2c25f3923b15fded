"""How connections come to a toolbox where it has a listening socket; `piping` is the other way."""

from __future__ import annotations

import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    from .loop import Loop

ACCEPT_AGAIN_S = 0.1


class Listener:
    """A listening socket that was passed in."""

    def __init__(self, listener: socket.socket) -> None:
        listener.setblocking(False)
        self._listener = listener

    def open(
        self,
        loop: Loop,
        admit: Callable[[socket.socket], None],
        end: Callable[[], None],  # noqa: ARG002 - somebody can always come
    ) -> None:
        """Let `admit` have each that comes. `end` is called where nobody can come any more."""
        self._loop, self._admit = loop, admit
        self._watch()

    def _watch(self) -> None:
        self._loop.watch(self._listener.fileno(), self._accept)

    def _accept(self, _events: int) -> None:
        try:
            accepted, _ = self._listener.accept()
        except (BlockingIOError, ConnectionError):
            return
        except OSError:  # no descriptor is free: commands may hold them, for a while
            self._loop.unwatch(self._listener.fileno())
            self._loop.later(ACCEPT_AGAIN_S, self._watch)
            return
        self._admit(accepted)

    def close(self) -> None:
        """Let nobody come any more."""
        self._listener.close()


__all__ = ["ACCEPT_AGAIN_S", "Listener"]
