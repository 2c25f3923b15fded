"""Puts a container around a toolbox on a host that is reached over SSH, as the engine words it."""

from __future__ import annotations

import array
import contextlib
import hashlib
import json
import os
import shutil
import socket
import sys
import tempfile
import time

from . import bounded, carrying, engines, inside, walled
from .wire import Decoder, WireError, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HANDING = "handing.sock"  # what hands the listening socket in, in a folder closed to others
LEAST_FILTERS = 2  # the engine's own and the toolbox's
PAUSE_S = 0.05
NO_ANSWER, ENDED = "an answer", "it has ended"
UNANSWERED = (NO_ANSWER, ENDED)
"""What is said to be missing where the toolbox did not answer."""
STARTING_S = 30.0  # until its first process asks for the socket


def name_of(request: dict[str, Any]) -> str:
    """Return the name of an environment's container."""
    return "patchyard-" + str(request["id"])


def look(request: dict[str, Any], base: str, code: str) -> dict[str, Any]:
    """Say what engine there is, what it knows of an image, and what Python can be carried there."""
    socket_path = engines.find(request["places"])
    facts = {
        "engine": socket_path,
        "machine": os.uname().machine,
        "ids": [os.getuid(), os.getgid()],
        "processors": os.cpu_count() or 1,
    }
    if not socket_path:
        return facts
    engine = engines.Engine(socket_path)
    found = {
        "version": engine.version(),
        "info": engine.info(),
        "image": engine.image(request["image"]),
    }
    return {**facts, **found, "python": _carried(base, code)}


def _carried(base: str, code: str) -> dict[str, Any]:
    """Return the Python that is carried along, and where it lies: put together once."""
    real = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    status = os.stat(real)
    made_of = "%s %d %d %s" % (real, status.st_size, status.st_mtime_ns, os.path.basename(code))
    digest = hashlib.sha256(made_of.encode()).hexdigest()[:16]
    place = os.path.join(base, "python-" + digest)
    if not os.path.isdir(place):
        made = tempfile.mkdtemp(prefix="laying-", dir=base)  # goes after a day, like code
        try:
            carrying.fill(made, carrying.facts_of(real, code))
            os.rename(made, place)
        except OSError:
            if not os.path.isdir(place):  # another engine was quicker
                raise
        finally:
            shutil.rmtree(made, ignore_errors=True)
    with open(os.path.join(place, carrying.FACTS), encoding="utf-8") as file:
        return {"folder": place, "facts": json.load(file)}


def create(request: dict[str, Any], folder: str) -> dict[str, Any]:
    """Make the container, not running yet; return what its engine made of the wish.

    `folder` is one of the environment's, closed to other users; the files that it sees in /etc are
    laid there. Raises RuntimeError, OSError.
    """
    for name, text in request["accounts"].items():
        path = os.path.join(folder, os.path.basename(name))
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o644)
    with open(os.path.join(folder, HANDING), "wb"):  # an engine wants to see what it shows
        pass
    engine = engines.Engine(request["engine"])
    moved = _moved(engine, name_of(request), request["config"])
    if moved:
        raise RuntimeError("links of the image would put files in place of its own: " + moved)
    engine.create(name_of(request), request["config"])
    return {"made": engine.inspect(name_of(request))}


def _moved(engine: engines.Engine, name: str, config: dict[str, Any]) -> str:
    """Return what a link of the image puts in place of the container's own; nothing: none does.

    Asked of a container of the image alone: one with mounts may tell of what is mounted.
    """
    host = config["HostConfig"]
    asking = inside.misplaced([mount["Target"] for mount in host["Mounts"]], host["Tmpfs"])
    engine.create(name, inside.bare(config["Image"]))
    try:
        return ", ".join(inside.answered(asking, lambda path: engine.link(name, path)))
    finally:
        engine.remove(name)


class Container:
    """One that was made, while it starts."""

    def __init__(self, request: dict[str, Any]) -> None:
        self._engine = engines.Engine(request["engine"])
        self._name = name_of(request)
        self._is_podman = bool(request["is_podman"])
        self._asked: dict[str, Any] = {}
        self.pid = 0  # its first process, as this host counts

    def start(self, folder: str, given: list[int]) -> bool:
        """Run it and hand in `given`; False where nobody asked for that in time."""
        path = os.path.join(folder, HANDING)
        os.unlink(path)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
            _bind(door, folder)
            os.chmod(path, 0o666)  # noqa: S103 - of the agent's user; the folder is closed
            door.listen(1)
            door.settimeout(PAUSE_S)
            self._engine.start(self._name)
            deadline = time.monotonic() + STARTING_S
            while time.monotonic() < deadline:
                try:
                    peer, _ = door.accept()
                except OSError:  # not yet
                    if self.has_ended():
                        return False
                    continue
                with peer:
                    rights = array.array("i", given)
                    peer.sendmsg([b"L"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
                return True
        return False

    def has_ended(self) -> bool:
        """Whether its first process is no more."""
        found = self._engine.inspect(self._name)
        state = found.get("State") or {}
        self._asked = found.get("HostConfig") or {}  # which was compared before the start
        self.pid = int(state.get("Pid") or 0)
        return not state.get("Running")

    def failure(self, where: str) -> str:
        """Return what is missing of the one whose toolbox listens at `where`."""
        if self.has_ended():
            return ENDED
        names = [each for each in walled.NAMESPACES if not (self._is_podman and each == "cgroup")]
        said = greeting(where)
        told = said.get("walls")
        told = told if isinstance(told, dict) else {}
        missing = walled.missing(self.pid, filters=LEAST_FILTERS, namespaces=names, told=told)
        missing += walled.filter_missing(told)
        unheld = bounded.unheld(self.pid, bounded.bounds_of(self._asked))
        missing += ["a control group for " + name for name in unheld]
        if not said.get("shell"):
            missing.append("shell")
        return ", ".join(missing)

    def said(self) -> str:
        """Return what its first process wrote last."""
        return self._engine.said(self._name)


def _bind(door: socket.socket, folder: str) -> None:
    """Bind it in a folder, however long that path is."""
    opened = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        door.bind("/proc/self/fd/%d/%s" % (opened, HANDING))
    finally:
        os.close(opened)


def greeting(where: str) -> dict[str, Any]:
    """Return what the toolbox that listens at `where` says first; nothing of one that goes.

    It is a claim: an image's own Python may say it. What is no frame counts as nothing.
    """
    with contextlib.suppress(OSError, WireError):
        return _greeting(where)
    return {}


def _greeting(where: str) -> dict[str, Any]:
    decoder = Decoder()
    deadline = time.monotonic() + STARTING_S
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.settimeout(STARTING_S)
        peer.connect(where)
        peer.sendall(encode({"do": "hello"}))
        while (left := deadline - time.monotonic()) > 0:  # however little comes at a time
            peer.settimeout(left)
            data = peer.recv(65_536)
            found = decoder.feed(data)
            if found or not data:
                return found[0] if found else {}
    return {}


def remove(request: dict[str, Any], *, is_needed: bool) -> None:
    """Take the container of an environment away.

    Raises RuntimeError, where no engine runs only if one `is_needed`: where something is left of
    the environment, which has its folder before it has a container.
    """
    path = engines.find(request["places"])
    if path:
        engines.Engine(path).remove(name_of(request))
    elif is_needed:
        raise RuntimeError("no container engine runs here any more, to end a container with")


__all__ = [
    "ENDED",
    "HANDING",
    "LEAST_FILTERS",
    "NO_ANSWER",
    "STARTING_S",
    "UNANSWERED",
    "Container",
    "create",
    "greeting",
    "look",
    "name_of",
    "remove",
]
