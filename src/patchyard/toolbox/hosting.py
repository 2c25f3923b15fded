"""What the toolbox does on a host beside serving: is started there, found again, relayed, ended.

Run by `arriving`, out of the code that it laid down, as the user who logged in.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import re
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time

from . import containing, finding, grouping, walled, walling
from .detaching import detached
from .ending import MARK, PAUSE_S, is_alive, kill, stat_of
from .spawning import spawn_detached
from .wire import encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

BOOT = "/proc/sys/kernel/random/boot_id"
FIRST_UID, LAST_UID = 60_900, 61_183  # agents of a root user, as on the engine's machine
ID = re.compile(r"^[0-9A-HJKMNP-TV-Z]{26}$")
LISTEN_FD = 3
LONGEST_ADDRESS = 107  # bytes of a Unix socket's path
OUTSIDE = "patchyard-"  # begins the name of a folder for a socket whose path would be too long
PIECE_BYTES = 65_536
SAID_BYTES = 4000
STARTING_S = 20.0


def look(request: dict[str, Any], base: str, code: str) -> dict[str, Any]:
    """Say what an environment of that name could be walled in with, and where it would lie."""
    where = {"folder": _folder(request, base), "code": code, "agent": _agent()}
    is_contained = "places" in request
    found = containing.look(request, base, code) if is_contained else walling.look(request)
    return {**found, **where}


def create(request: dict[str, Any], base: str, _code: str) -> dict[str, Any]:
    """Make a container, not running yet; say what its engine made of the wish."""
    folder = _folder(request, base)
    os.mkdir(folder, 0o711)
    made: dict[str, Any] = {}
    try:
        _furnish(folder, _agent())
        made = containing.create(request, os.path.join(folder, "run"))
    finally:
        if not made:
            _remove(folder)
    return made


def run(request: dict[str, Any], base: str, _code: str) -> dict[str, Any]:
    """Start the container that was made; say where its toolbox listens, or that it failed."""
    folder = _folder(request, base)
    own, where = os.path.join(folder, "run"), _address(folder)
    container = containing.Container(request)
    with _listening(where) as listener, contextlib.ExitStack() as stack:
        given = [listener.fileno()]
        if request["is_closed"]:  # read-only in there; the toolbox alone writes to it
            given.append(detached(os.path.join(folder, "workspace")))
            stack.callback(os.close, given[1])
        is_there = container.start(own, given)
    answers = is_there and _answers(container.has_ended, where, request["variables"])
    failed = container.failure(where) if answers else containing.NO_ANSWER
    if failed:
        return {"failed": failed, "said": container.said()}
    return _reached(folder, where, _reference(container.pid))


def start(request: dict[str, Any], base: str, code: str) -> dict[str, Any]:
    """Start a toolbox that outlives this connection; say where it listens, or that it failed."""
    folder = _folder(request, base)
    os.mkdir(folder, 0o711)
    made: dict[str, Any] = {}
    try:
        made = _started(request, folder, code)
    finally:
        if "socket" not in made:
            _remove(folder)
    return made


def _started(request: dict[str, Any], folder: str, code: str) -> dict[str, Any]:
    agent = _agent()
    _furnish(folder, agent)
    where = _address(folder)
    said_in = os.path.join(folder, "run", "said")
    with _listening(where) as listener, open(said_in, "w+b") as said:
        started = Started(request, folder)
        try:
            started.run(agent, code, {LISTEN_FD: listener.fileno(), 2: said.fileno()})
            listener.close()
            answers = _answers(started.has_ended, where, started.variables)
            failed = started.failure(where) if answers else "no answer"
        except BaseException:
            started.kill()
            raise
        if failed:
            started.kill()
            said.seek(0)
            text = said.read()[-SAID_BYTES:].decode("utf-8", "replace").strip()
            return {"failed": failed, "said": text}
    return _reached(folder, where, started.root)


def _furnish(folder: str, agent: int | None) -> None:
    if agent is not None:  # paths stand in lists of processes: other users would read along
        os.chown(folder, -1, agent)
        os.chmod(folder, 0o710)  # noqa: S103 - the agent passes through
    for name, mode in (("run", 0o700), ("workspace", 0o755), ("home", 0o700), ("tmp", 0o700)):
        path = os.path.join(folder, name)
        os.mkdir(path, 0o700)
        os.chmod(path, mode)
        if agent is not None and name != "run":
            os.chown(path, agent, agent)


def _listening(where: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(where)
        os.chmod(where, 0o600)
        listener.listen(16)
    except OSError:
        listener.close()
        raise
    return listener


def _reached(folder: str, where: str, root: dict[str, int]) -> dict[str, Any]:
    work = os.path.join(folder, "workspace")
    return {"socket": where, "workspace": work, "root": root, "boot": _boot()}


class Started:
    """A toolbox while it starts: alone, or inside of walls."""

    def __init__(self, request: dict[str, Any], folder: str) -> None:
        self._request = request
        self._folder = folder
        self._report: dict[str, Any] = {}
        self.variables: dict[str, str] = {}  # of commands, once it runs
        self._top = _reference(0)  # what was started: bubblewrap, or the toolbox itself
        self.root = self._top  # the toolbox

    def run(self, agent: int | None, code: str, descriptors: dict[int, int]) -> None:
        """Start it with these descriptors. Raises OSError."""
        if "walls" in self._request:
            walls = self._request["walls"]
            self.variables = walls["variables"]
            env = {**walls["env"], MARK: os.path.basename(self._folder)}
            deadline = time.monotonic() + STARTING_S
            pid, reading = walling.start(walls, env, descriptors)
            self._top = _reference(pid)
            self._report = walling.report(reading, deadline)
            self.root = _reference(self._report.get("child-pid", 0))
            if walls.get("processes") and self.root["pid"]:
                name = "patchyard-" + os.path.basename(self._folder)
                own = os.path.join(self._folder, "run")
                grouping.begin(own, name, walls["processes"], self.root["pid"])
            return
        self.variables = _variables(self._request, self._folder, agent)
        work = os.path.join(self._folder, "workspace")
        options = dict(self._request["options"], workspace=work, uid=agent, gid=agent)
        options["listen_fd"] = LISTEN_FD
        words = [self._request["bootstrap"], code, json.dumps(options)]
        mark = "%s=%s" % (MARK, os.path.basename(self._folder))  # no environment is shown
        argv = [finding.python(agent), "-I", "-S", "-B", "-c", *words, mark]
        pid = spawn_detached(argv, env=self.variables, descriptors=descriptors)
        self._top = self.root = _reference(pid)

    def has_ended(self) -> bool:
        """Whether what was started is no more."""
        try:
            return os.waitpid(self._top["pid"], os.WNOHANG)[0] != 0
        except ChildProcessError:
            return True

    def failure(self, where: str) -> str:
        """Return which of the walls that were asked for are missing.

        The kernel says so, and the toolbox that listens at `where` of its system call filter.
        """
        if "walls" not in self._request:
            return ""
        told = containing.greeting(where).get("walls")
        unrefused = walled.filter_missing(told if isinstance(told, dict) else {})
        return ", ".join([*walling.weaker(self._report), *unrefused])

    def kill(self) -> None:
        """End all of it."""
        kill(self._top, os.path.basename(self._folder))
        grouping.end(os.path.join(self._folder, "run"))


def _reference(pid: int) -> dict[str, int]:
    return {"pid": pid, "started": stat_of(pid)[1]}


def _address(folder: str) -> str:
    where = os.path.join(folder, "run", "toolbox.sock")
    if len(os.fsencode(where)) <= LONGEST_ADDRESS:
        return where
    outside = tempfile.mkdtemp(prefix=OUTSIDE)
    os.symlink(outside, os.path.join(folder, "run", "socket"))
    return os.path.join(outside, "toolbox.sock")


def _variables(request: dict[str, Any], folder: str, agent: int | None) -> dict[str, str]:
    """Return the variables of commands with what only this host knows, in place of `{...}` too."""
    work = os.path.join(folder, "workspace")
    env = {
        name: value.replace("{workspace}", work).replace("{folder}", folder)
        for name, value in request["variables"].items()
    }
    own = pwd.getpwuid(os.getuid())
    path = os.environ.get("PATH", os.defpath)
    env["PATH"] = env["PATH"] + ":" + path if env.get("PATH") else path
    env.setdefault("HOME", own.pw_dir if agent is None else os.path.join(folder, "home"))
    env.setdefault("USER", own.pw_name if agent is None else "agent")
    env.setdefault("TMPDIR", os.path.join(folder, "tmp"))
    env.setdefault("LC_CTYPE", os.environ.get("LANG", "C.UTF-8"))  # LANG costs a shell 0.2 ms more
    env[MARK] = os.path.basename(folder)
    return env


def _answers(has_ended: Callable[[], bool], where: str, variables: dict[str, str]) -> bool:
    """Whether the toolbox says hello in time; it has the variables of its commands then."""
    deadline = time.monotonic() + STARTING_S
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.settimeout(STARTING_S)  # one that reads nothing takes no more than a socket holds
        try:
            peer.connect(where)
            peer.sendall(encode({"do": "set_variables", "variables": variables}))
            peer.sendall(encode({"do": "hello"}))
        except OSError:
            return False
        while time.monotonic() < deadline and not has_ended():
            if select.select([peer], [], [], 10 * PAUSE_S)[0]:
                return _receives(peer)
    return False


def _receives(peer: socket.socket) -> bool:
    try:
        return bool(peer.recv(1))
    except OSError:
        return False


def state(request: dict[str, Any], _base: str, _code: str) -> dict[str, Any]:
    """Say whether the toolbox is there that was started then."""
    return {"is_there": request["boot"] == _boot() and is_alive(request["root"])}


def end(request: dict[str, Any], base: str, _code: str) -> dict[str, Any]:
    """Kill the toolbox with all it started and remove its folder; one that is gone has ended."""
    folder = _folder(request, base)
    root = request.get("root") if request.get("boot") == _boot() else None
    has_ended = kill(root, os.path.basename(folder))
    if request.get("places"):
        containing.remove(request, is_needed=os.path.lexists(folder))
    if has_ended:
        grouping.end(os.path.join(folder, "run"))
        _remove(folder)
    return {"has_ended": has_ended and not os.path.lexists(folder)}


def relay(request: dict[str, Any], _base: str, _code: str) -> dict[str, Any]:
    """Pass bytes between the toolbox's socket and this connection, until one of them ends."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.connect(request["socket"])
        sys.stdout.write("\n%s {}\n" % request["token"])
        sys.stdout.flush()
        ends = {0: peer.fileno(), peer.fileno(): 1}
        while True:
            for descriptor in select.select(list(ends), [], [])[0]:
                data = os.read(descriptor, PIECE_BYTES)
                if not data:
                    sys.exit(0)  # nobody is there to answer any more
                while data:
                    data = data[os.write(ends[descriptor], data) :]


def _folder(request: dict[str, Any], base: str) -> str:
    if not ID.match(request["id"]):
        raise RuntimeError("no name of an environment")
    return os.path.join(base, "environments", request["id"])


def _agent() -> int | None:
    """Return who commands are: None for the user itself, of a root user one without an account."""
    if os.getuid() != 0:
        return None
    for uid in range(FIRST_UID, LAST_UID + 1):
        if not _has_account(uid):
            return uid
    raise RuntimeError("each UID from %d to %d has an account" % (FIRST_UID, LAST_UID))


def _has_account(uid: int) -> bool:
    try:
        return bool(pwd.getpwuid(uid))
    except KeyError:
        return False


def _boot() -> str:
    with open(BOOT, encoding="ascii") as file:
        return file.read().strip()


def _remove(folder: str) -> None:
    """Remove an environment's folder, whatever an agent put there, by the host's own programs."""
    link = os.path.join(folder, "run", "socket")
    outside = os.readlink(link) if os.path.islink(link) else ""
    if os.path.basename(outside).startswith(OUTSIDE):
        shutil.rmtree(outside, ignore_errors=True)
    if not os.path.isdir(folder):
        return
    words = [["rm", "-rf", "--", folder]]
    if os.getuid() != 0:
        words.insert(0, ["chmod", "-R", "u+rwX", "--", folder])
    null = subprocess.DEVNULL
    for each in words:
        subprocess.call(each, stdin=null, stdout=null, stderr=null)


__all__ = [
    "FIRST_UID",
    "LAST_UID",
    "LISTEN_FD",
    "LONGEST_ADDRESS",
    "STARTING_S",
    "Started",
    "create",
    "end",
    "look",
    "relay",
    "run",
    "start",
    "state",
]
