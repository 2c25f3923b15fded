"""Speaks with the container engine of the machine it runs on, by its socket and HTTP."""

from __future__ import annotations

import base64
import http.client
import json
import os
import socket
import stat
import struct
import urllib.parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable, Sequence

ANSWER_S = 20.0
FRAME = struct.Struct(">BxxxI")  # before each piece of a log: which stream, how long
MISSING = 404
PATH_FACTS = "X-Docker-Container-Path-Stat"
REMOVING = 409


def find(places: Iterable[str]) -> str:
    """Return which of `places` is an engine's socket; nothing where none is."""
    own = os.environ.get("XDG_RUNTIME_DIR") or "/run/user/%d" % os.geteuid()
    named = (each.replace("{own}", own) for each in places)
    return next(filter(_is_usable, named), "")


def _is_usable(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode) and os.access(path, os.W_OK)
    except OSError:
        return False


class _Connection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=ANSWER_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(ANSWER_S)
        self.sock.connect(self._path)


class Engine:
    """One engine. What it refuses, or that it does not answer, is a RuntimeError."""

    def __init__(self, path: str) -> None:
        self._path = path

    def version(self) -> dict[str, Any]:
        """Return what it says it is."""
        found: dict[str, Any] = self._asked("GET", "/version")
        return found

    def info(self) -> dict[str, Any]:
        """Return what it says it can do."""
        found: dict[str, Any] = self._asked("GET", "/info")
        return found

    def image(self, reference: str) -> Any:
        """Return all that it knows of an image; None without one."""
        path = "/images/%s/json" % urllib.parse.quote(reference, safe="/:")
        return self._asked("GET", path, passed=(MISSING,))

    def create(self, name: str, config: dict[str, Any]) -> None:
        """Make a container, not running yet."""
        self._asked("POST", "/containers/create?name=" + name, config)

    def link(self, name: str, path: str) -> str | None:
        """Return where a link in a container leads; empty: no link, None: nothing is there."""
        asked = "/containers/%s/archive?path=%s" % (name, urllib.parse.quote(path, safe=""))
        status, _, facts = self._exchange("HEAD", asked, None)
        if status == MISSING and not facts:  # Podman has them of a link to nothing, too
            return None
        told = _told(facts)
        if told is None:
            raise RuntimeError("the container engine does not tell what lies at %s" % path)
        return str(told.get("linkTarget") or "")

    def start(self, name: str) -> None:
        """Run it."""
        self._asked("POST", "/containers/%s/start" % name)

    def inspect(self, name: str) -> dict[str, Any]:
        """Return all that it knows of a container; nothing where there is none."""
        found = self._asked("GET", "/containers/%s/json" % name, passed=(MISSING,))
        return found or {}

    def remove(self, name: str) -> None:
        """Kill a container and take it away, with what it wrote; one that is gone is."""
        path = "/containers/%s?force=1&v=1" % name
        self._asked("DELETE", path, passed=(MISSING, REMOVING))

    def said(self, name: str) -> str:
        """Return the last of what its first process wrote."""
        path = "/containers/%s/logs?stdout=1&stderr=1&tail=40" % name
        status, data = self._answer("GET", path, None)
        said = b""
        while status == 200 and len(data) >= FRAME.size:
            length = FRAME.unpack_from(data)[1]
            said += data[FRAME.size : FRAME.size + length]
            data = data[FRAME.size + length :]
        return said.decode("utf-8", "replace").strip()

    def _asked(self, method: str, path: str, body: Any = None, passed: Sequence[int] = ()) -> Any:
        """Return the answer; None for a status in `passed`."""
        status, data = self._answer(method, path, body)
        if status in passed:
            return None
        try:
            found = json.loads(data) if data else {}
        except (ValueError, RecursionError):
            found = {"message": "it answered nonsense"}
            status = max(status, 500)
        if status >= 400:
            raise RuntimeError("the container engine refused: %s" % found.get("message", status))
        return found

    def _answer(self, method: str, path: str, body: Any) -> tuple[int, bytes]:
        status, data, _ = self._exchange(method, path, body)
        return status, data

    def _exchange(self, method: str, path: str, body: Any) -> tuple[int, bytes, str]:
        """Return the status, what came, and what was said of a path."""
        connection = _Connection(self._path)
        try:
            headers = {} if body is None else {"Content-Type": "application/json"}
            data = None if body is None else json.dumps(body).encode()
            connection.request(method, path, body=data, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read(), answer.getheader(PATH_FACTS, "")
        except (OSError, http.client.HTTPException) as error:
            message = "the container engine at %s does not answer: %s" % (self._path, error)
            raise RuntimeError(message) from error
        finally:
            connection.close()


def _told(facts: str) -> dict[str, Any] | None:
    """Return what an engine says of a path, None where that is nonsense."""
    try:
        told = json.loads(base64.b64decode(facts))
    except (ValueError, RecursionError):
        return None
    return told if isinstance(told, dict) else None


__all__ = ["ANSWER_S", "Engine", "find"]
