"""A toolbox reached over its own standard streams: where it runs no socket can be passed in."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket

from .ports import Ports
from .sealing import KEY_BYTES, Seal
from .strands import Strands
from .trunks import Trunk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .loop import Loop

PR_GET_NO_NEW_PRIVS = 39  # linux/prctl.h
RIGHTS = ("CapAmb", "CapBnd", "CapEff", "CapInh", "CapPrm", "Seccomp", "Uid")
"""Lines of proc_pid_status(5)."""
TOOLBOX = "toolbox"


class StandardStreams:
    """The streams that the toolbox was started with, as the one stream of all connections."""

    def __init__(self, trunk: Trunk, key: bytes) -> None:
        self._trunk = trunk
        self._seal = Seal(key, is_first=False)

    def open(
        self, loop: Loop, admit: Callable[[socket.socket], None], end: Callable[[], None]
    ) -> None:
        """See entrances.Listener; the toolbox ends with its streams."""
        self._admit = admit
        self._strands = Strands(
            loop,
            self._trunk,
            is_first=False,
            answer=self._answer,
            hear=self._hear,
            broken=lambda _why: end(),
            seal=self._seal,
        )
        self._ports = Ports(loop, self._strands)
        self._strands.say({"say": "ready", "rights": rights()})

    def _answer(self, name: str) -> socket.socket | None:
        if name != TOOLBOX:
            return None
        ours, theirs = socket.socketpair()
        self._admit(theirs)
        return ours

    def _hear(self, message: dict[str, Any]) -> None:
        self._ports.hear(message)

    def close(self) -> None:
        """Let go of all connections."""
        self._strands.close()


def standard_streams() -> StandardStreams:
    """Return this process's own, whose numbers can be used for something else from now on.

    The key of the frames comes first, before any program runs here. Raises EOFError.
    """
    key = b""
    while len(key) < KEY_BYTES:
        part = os.read(0, KEY_BYTES - len(key))
        if not part:
            raise EOFError("the standard input ended before the key of the frames came")
        key += part
    return StandardStreams(Trunk(os.dup(0), os.dup(1)), key)


def rights() -> dict[str, str]:
    """Return what the kernel that this runs on says of the rights of this very process."""
    found = {}
    with contextlib.suppress(OSError), open("/proc/self/status", encoding="utf-8") as file:
        for line in file:
            name, _, value = line.partition(":")
            if name in RIGHTS:
                found[name] = value.strip()
    said = ctypes.CDLL(None).prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
    return {**found, "NoNewPrivs": str(said)}


__all__ = ["RIGHTS", "TOOLBOX", "StandardStreams", "rights", "standard_streams"]
