"""The first process of a virtual machine: brings it up, then leads connections to its toolbox.

It waits for what it is told over the serial channel; in that moment the machine is saved, once, and
every later one starts there. So what makes a machine itself comes after: its random state, clock,
name and users, then the workspace's folder and the toolbox, which runs as the agent.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import os
import signal
import socket
import struct
import tarfile
import time
import traceback

from . import guest_ground
from .listening import open_listener
from .loop import Loop
from .ports import Ports
from .strands import Strands
from .trunks import Trunk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CHANNEL, DISK = "patchyard", "/dev/vda"
RNDADDENTROPY, RNDRESEEDCRNG = 0x40085203, 0x5207  # linux/random.h
OWN = "/run/patchyard/own"  # closed to the agent
SOCKET, REPLICA, SHOWN = OWN + "/toolbox.sock", OWN + "/replica", OWN + "/shown"
TOOLBOX, FILL = "toolbox", "fill"  # what can be reached from outside
SOCKET_FD = 3  # where the toolbox finds its listening socket
BACKLOG = 16
PYTHON = "/usr/bin/python3"
VARIABLES = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
WAITING = (
    "import sys; sys.path.append('/run/patchyard');"
    " from toolbox.waiting import main; sys.exit(main())"
)
WARMED = ("/bin/sh", "-c", "ls -l / | cat; git --version")


class Guest:
    """The machine, seen from inside."""

    def __init__(self, channel: int) -> None:
        self._loop = Loop()
        self._toolbox, self._waiting = _prepare()
        self._is_over = False
        self._strands = Strands(
            self._loop,
            Trunk(channel),
            is_first=False,
            answer=_answer,
            hear=self._hear,
            broken=self._on_broken,
        )
        self._ports = Ports(self._loop, self._strands)
        reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _ignore)

        def on_child(_events: int) -> None:
            os.read(reading, 4096)
            self._reap()

        self._loop.watch(reading, on_child)

    def run(self) -> None:
        """Say that it is up, and serve until the toolbox or the channel has ended."""
        self._strands.say({"say": "ready"})
        while not self._is_over:
            self._loop.turn()

    def _reap(self) -> None:
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if pid == self._toolbox:
                self._is_over = True

    def _on_broken(self, _why: str) -> None:
        self._is_over = True

    def _hear(self, message: dict[str, Any]) -> None:
        if self._ports.hear(message):
            return
        told = {"begin": self._begin, "ping": _ping}[str(message.get("do"))]
        try:
            told(message)
        except (OSError, ValueError) as error:
            self._strands.say({"say": "refused", "message": str(error)})
        else:
            self._strands.say({"say": "done"})

    def _begin(self, told: dict[str, Any]) -> None:
        """Become a machine of its own, and start the toolbox."""
        _reseed(base64.b64decode(told["entropy"]))
        time.clock_settime(time.CLOCK_REALTIME, told["now"])
        socket.sethostname(told["hostname"])
        for name, text in told["etc"].items():
            with contextlib.suppress(FileNotFoundError):
                os.unlink("/etc/" + name)
            with open("/etc/" + name, "w") as file:
                file.write(text)
        guest_ground.lay_out(
            told["workspace"],
            REPLICA,
            uid=told["uid"],
            gid=told["gid"],
            is_writable=told["is_writable"],
        )
        for number, target in enumerate(told["shown"]):
            is_within = target.startswith(told["workspace"] + "/")
            made = REPLICA + target[len(told["workspace"]) :] if is_within else target
            guest_ground.show_read_only("%s/%d" % (SHOWN, number), target, made=made)
        with open_listener():
            pass  # loopback is up from now on
        guest_ground.close_root()
        with self._waiting:
            self._waiting.sendall(told["settings"].encode("ascii"))


def _answer(name: str) -> socket.socket | None:
    """Connect to the toolbox, or to what unpacks what is to be shown."""
    if name == FILL:
        return _filled()
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        peer.connect(SOCKET)
    except OSError:
        peer.close()
        return None
    return peer


def _filled() -> socket.socket:
    """Return where an archive is taken, which ends with a byte once all of it is here."""
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        try:
            ours.close()
            with theirs.makefile("rb") as stream, tarfile.open(
                fileobj=stream, mode="r|"
            ) as archive:
                archive.extractall(SHOWN, numeric_owner=True)  # noqa: S202 - the engine made it
            theirs.send(b".")
        except BaseException:  # noqa: BLE001 - the console is all there is to tell
            traceback.print_exc()
        finally:
            os._exit(0)
    theirs.close()
    return ours


def _reseed(entropy: bytes) -> None:
    """Give the kernel's random state what no other machine got: see random(4)."""
    with open("/dev/urandom", "wb", buffering=0) as file:
        header = struct.pack("ii", 8 * len(entropy), len(entropy))
        fcntl.ioctl(file, RNDADDENTROPY, header + entropy)
        fcntl.ioctl(file, RNDRESEEDCRNG)


def _ping(_told: dict[str, Any]) -> None:
    """That there is an answer is the answer."""


def _prepare() -> tuple[int, socket.socket]:
    """Start the toolbox up to where it needs to know for whom; return it, and where to say that."""
    os.mkdir(OWN, 0o700)
    os.mkdir(SHOWN)
    ours, theirs = socket.socketpair()
    with theirs, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(SOCKET)
        listener.listen(BACKLOG)
        passed = ((theirs.fileno(), 0), (listener.fileno(), SOCKET_FD))
        parked = [(fcntl.fcntl(own, fcntl.F_DUPFD_CLOEXEC, 100), to) for own, to in passed]
        actions = [(os.POSIX_SPAWN_DUP2, own, to) for own, to in parked]
        words = (PYTHON, "-I", "-S", "-B", "-c", WAITING)
        toolbox = os.posix_spawn(PYTHON, words, VARIABLES, file_actions=actions)
        for own, _ in parked:
            os.close(own)
    if not ours.recv(1):
        raise OSError("the image has no Python that runs the toolbox")
    with contextlib.suppress(OSError):  # what most commands start is in memory from now on
        os.waitpid(os.posix_spawn(WARMED[0], WARMED, VARIABLES), 0)
    return toolbox, ours


def _ignore(_number: int, _frame: object) -> None:
    """Let the signal wake the loop, nothing else."""


def main() -> None:
    """Be the machine's first process; the machine ends with it."""
    try:
        guest_ground.begin()
        console = os.open("/dev/console", os.O_RDWR)
        for number in range(3):
            os.dup2(console, number)
        channel = guest_ground.port(CHANNEL)
        guest_ground.settle(DISK)
        Guest(channel).run()
    except BaseException:  # noqa: BLE001 - nobody but the console is left to hear of it
        traceback.print_exc()
    finally:
        guest_ground.power_off()


__all__ = [
    "CHANNEL",
    "DISK",
    "FILL",
    "REPLICA",
    "SHOWN",
    "SOCKET",
    "SOCKET_FD",
    "TOOLBOX",
    "Guest",
    "main",
]
