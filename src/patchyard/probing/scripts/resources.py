"""More of the machine than is allowed, and living longer. Each is bounded by itself as well."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import time

from .kit import LIBC, done

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Given = dict[str, Any]

LIFE_S = 20  # of whatever is left running
PAGE = 4096


def fork_bomb(given: Given) -> None:
    """Start more processes than are allowed."""
    children = []
    try:
        for _ in range(given["options"]["count"]):
            pid = os.fork()
            if pid == 0:
                signal.alarm(LIFE_S)
                signal.pause()
            children.append(pid)
        done(given, "%d processes" % len(children))
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def memory(given: Given) -> None:
    """Fill more memory than is allowed."""
    kept = bytearray(given["options"]["bytes"])
    for place in range(0, len(kept), PAGE):
        kept[place] = 1
    done(given, "%d bytes" % len(kept))


def memory_folder(given: Given) -> None:
    """Reserve more in a folder in memory than fits."""
    folders = ["/tmp", "/var/tmp", "/dev/shm", os.environ.get("HOME", "/")]  # noqa: S108 - each is tried
    for folder in [given["near"]] if given["control"] else folders:
        path = os.path.join(folder, "patchyard-" + given["token"])
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            print("refused: %s" % error)
            continue
        try:
            size = ctypes.c_int64(given["options"]["bytes"])
            if LIBC.fallocate(descriptor, 0, ctypes.c_int64(0), size) == 0:
                done(given, folder)
            else:
                print("refused: %s: %s" % (folder, os.strerror(ctypes.get_errno())))
        finally:
            os.close(descriptor)
            os.unlink(path)


def large_file(given: Given) -> None:
    """Make a file larger than is allowed; it is full of holes."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with open(given["spot"], "wb") as file:
        file.truncate(given["options"]["bytes"])
    done(given)


def descriptors(given: Given) -> None:
    """Open more files than are allowed, with a bound raised as far as it goes."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    kept = [os.open(os.devnull, os.O_RDONLY) for _ in range(given["options"]["count"])]
    done(given, "%d files" % len(kept))


def raise_limits(given: Given) -> None:
    """Raise a bound above what was set for us."""
    wanted = given["options"]["count"] * 2
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, wanted))
    done(given)


def flood(given: Given) -> None:
    """Print without end."""
    line = "x" * 1023 + "\n"
    for _ in range(given["options"]["bytes"] // 1024):
        sys.stdout.write(line)


def outlast(_given: Given) -> None:
    """Spin on after the time is up, in a session of one's own, deaf to signals."""
    if os.fork() == 0:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
    end = time.monotonic() + LIFE_S / 2
    while time.monotonic() < end:
        pass


def live_on(given: Given) -> None:
    """Leave a daemon behind."""
    if _leave():
        return
    time.sleep(LIFE_S)
    print(given["token"])


def shed_marks(given: Given) -> None:
    """Leave a daemon behind that shed what it could be known by, and kill who started it."""
    toolbox = os.getppid()
    if _leave():
        return
    if not given["control"]:
        try:
            os.kill(toolbox, signal.SIGKILL)
        except OSError as error:
            print("refused: %s" % error)
    life = "import time; time.sleep(%d)" % LIFE_S
    os.execve(sys.executable, [sys.executable, "-I", "-c", life, given["token"]], {})  # noqa: S606 - the same program, without variables to know it by


def _leave() -> bool:
    """Go on as a daemon; True in the process that began."""
    first = os.fork()
    if first:
        os.waitpid(first, 0)
        return True
    os.setsid()
    if os.fork():
        os._exit(0)
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    return False


def leave_files(given: Given) -> None:
    """Leave files where others look for theirs."""
    for folder in ("/tmp", "/var/tmp", "/dev/shm"):  # noqa: S108 - each is tried
        try:
            with open("%s/patchyard-%s" % (folder, given["token"]), "w", encoding="ascii"):
                continue
        except OSError as error:
            print("refused: %s" % error)


def use_inodes(given: Given) -> None:
    """Make very many files where others look for theirs."""
    for parent in ("/tmp", "/var/tmp"):  # noqa: S108 - each is tried
        folder = "%s/patchyard-%s" % (parent, given["token"])
        try:
            os.mkdir(folder)
            for number in range(given["options"]["count"]):
                os.close(os.open("%s/%d" % (folder, number), os.O_CREAT | os.O_WRONLY))
        except OSError as error:
            print("refused: %s" % error)


__all__ = [
    "LIFE_S",
    "PAGE",
    "descriptors",
    "flood",
    "fork_bomb",
    "large_file",
    "leave_files",
    "live_on",
    "memory",
    "memory_folder",
    "outlast",
    "raise_limits",
    "shed_marks",
    "use_inodes",
]
