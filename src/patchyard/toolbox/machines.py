"""Speaks QEMU's own protocol (QMP): commands as lines of JSON, answered in order."""

from __future__ import annotations

import array
import json
import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .loop import Loop

    OnAnswer = Callable[[dict[str, Any]], None]

LINE_BYTES = 1024 * 1024


class Monitor:
    """The connection to one machine's monitor."""

    def __init__(self, loop: Loop, number: int) -> None:
        self._peer = socket.socket(fileno=number)
        self._loop = loop
        self._came = bytearray()
        self._waiting: list[OnAnswer] = []
        loop.watch(number, self._on_ready)
        self.ask("qmp_capabilities", {}, _nothing)

    def ask(
        self,
        command: str,
        arguments: dict[str, Any],
        on_answer: OnAnswer,
        *,
        descriptor: int | None = None,
    ) -> None:
        """Send a command, with a descriptor on it; its answer holds `return` or `error`."""
        line = json.dumps({"execute": command, "arguments": arguments}).encode("ascii") + b"\n"
        rights = []
        if descriptor is not None:
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
        self._waiting.append(on_answer)
        try:
            self._peer.sendmsg([line], rights)
        except OSError as error:
            self._waiting.pop()
            on_answer({"error": {"desc": str(error)}})

    def _on_ready(self, _events: int) -> None:
        try:
            data = self._peer.recv(64 * 1024)
        except OSError:
            data = b""
        self._came += data
        if not data or len(self._came) > LINE_BYTES:
            self._end()
            return
        *lines, rest = bytes(self._came).split(b"\n")
        self._came = bytearray(rest)
        for line in lines:
            message = _parsed(line)
            if message is None:
                self._end()
                return
            if self._waiting and ("return" in message or "error" in message):
                self._waiting.pop(0)(message)

    def _end(self) -> None:
        """Answer all who wait: the machine is gone, or speaks too much."""
        self._loop.unwatch(self._peer.fileno())
        self._peer.close()  # so that whoever asks later is told
        waiting, self._waiting = self._waiting, []
        for on_answer in waiting:
            on_answer({"error": {"desc": "the machine does not answer any more"}})


def _parsed(line: bytes) -> dict[str, Any] | None:
    """Return what a machine says; None of what is no object."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def _nothing(_answer: dict[str, Any]) -> None:
    """Take no notice."""


__all__ = ["LINE_BYTES", "Monitor"]
