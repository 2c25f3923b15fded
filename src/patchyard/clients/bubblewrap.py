"""Bubblewrap's command line for a view, and the descriptors that go with it."""

import contextlib
import functools
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from patchyard.clients.seccomp import filter_program
from patchyard.clients.walls import Place, Show, View
from patchyard.domain.errors import EnvironmentUnavailable

KNOWN_PLACES = ("/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap")
OLDEST = (0, 5)  # the first with --perms
SIZED = (0, 7)  # the first with --size

SECCOMP_FD = 4
INFO_FD = 5
INFO_READER_FD = 6
"""The other end of INFO_FD goes along: bubblewrap dies of a report that nobody can read, and leaves
its child waiting for ever when the engine is killed at that moment. The toolbox closes it."""
FIRST_DATA_FD = 7

SWITCHING_CAPABILITIES = ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP")
"""What the toolbox keeps under a root engine until it has become the agent."""


@dataclass(frozen=True, kw_only=True)
class Bubblewrap:
    """The program and what it can do."""

    path: str
    version: tuple[int, int]


@functools.cache
def find_bubblewrap() -> Bubblewrap:
    """Return the bubblewrap of this machine. Raises EnvironmentUnavailable."""
    path = next((place for place in KNOWN_PLACES if os.access(place, os.X_OK)), None)
    path = path or shutil.which("bwrap")
    if path is None or not path.startswith("/"):
        raise EnvironmentUnavailable(
            "bubblewrap is not installed", hint="apt install bubblewrap (or dnf, pacman, apk)"
        )
    version = _version(path)
    if version < OLDEST:
        raise EnvironmentUnavailable(
            f"bubblewrap {version[0]}.{version[1]} at {path} is too old",
            hint="install bubblewrap 0.5 or newer",
        )
    return Bubblewrap(path=path, version=version)


def _version(path: str) -> tuple[int, int]:
    try:
        answer = subprocess.run(  # a few ms, once a process
            [path, "--version"], capture_output=True, check=True, timeout=10, text=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise EnvironmentUnavailable(f"{path} does not run: {error}") from error
    found = re.search(r"(\d+)\.(\d+)", answer.stdout)
    return (int(found[1]), int(found[2])) if found else (0, 0)


@dataclass(frozen=True, kw_only=True)
class Launch:
    """A command line and the descriptors it expects, by their number inside."""

    argv: tuple[str, ...]
    descriptors: Mapping[int, int]


@contextlib.contextmanager
def launch(
    view: View,
    command: Sequence[str],
    *,
    bubblewrap: Bubblewrap,
    is_root: bool,
    options: Sequence[str] = (),
) -> Iterator[Launch]:
    """Yield how `command` is started behind `view`; its own descriptors are closed afterwards.

    The caller adds both ends for INFO_FD and the socket. `command` is PID 1 of its namespace.
    `options` come after the places of the view.
    Raises EnvironmentUnavailable when libseccomp is missing.
    """
    with contextlib.ExitStack() as stack:
        descriptors = {SECCOMP_FD: _memory_file(stack, filter_program())}
        mounts: list[str] = []
        size = view.memory_place_bytes if bubblewrap.version >= SIZED else None
        for place in view.places:
            number = 0
            if place.show in {Show.MADE_UP, Show.COPY}:
                number = FIRST_DATA_FD + len(descriptors) - 1
                descriptors[number] = _content(stack, place)
            mounts += _mount_options(place, number, size=size)
        argv = (
            *(bubblewrap.path, "--unshare-pid", "--unshare-net", "--unshare-ipc"),
            *("--unshare-uts", "--unshare-cgroup-try", "--hostname", "sandbox"),
            *("--new-session", "--as-pid-1", "--info-fd", str(INFO_FD)),
            *("--seccomp", str(SECCOMP_FD)),
            *_identity_options(is_root=is_root),
            *mounts,
            *options,
            *("--remount-ro", "/", "--remount-ro", "/dev"),
            *("--chdir", "/", "--"),
            *command,
        )
        yield Launch(argv=argv, descriptors=descriptors)


def _identity_options(*, is_root: bool) -> list[str]:
    """Root: no user namespace, and the toolbox switches. Else: one that maps the user alone."""
    if not is_root:
        return ["--unshare-user", "--cap-drop", "ALL"]
    kept = (("--cap-add", capability) for capability in SWITCHING_CAPABILITIES)
    return ["--cap-drop", "ALL", *(word for pair in kept for word in pair)]


def _mount_options(place: Place, descriptor: int, *, size: int | None) -> list[str]:
    mode = ["--perms", f"{place.mode:04o}"]
    bound = [] if size is None else ["--size", str(size)]
    options = {
        Show.READ_ONLY: ["--ro-bind", place.source],
        Show.WRITABLE: ["--bind", place.source],
        Show.EMPTY: [*mode, *bound, "--tmpfs"],
        Show.DIRECTORY: [*mode, "--dir"],
        Show.LINK: ["--symlink", place.source],
        Show.COPY: [*mode, "--file", str(descriptor)],
        Show.MADE_UP: [*mode, "--file", str(descriptor)],
        Show.PROCESSES: ["--proc"],
        Show.DEVICES: ["--dev"],
        Show.MASKED: ["--ro-bind", os.devnull],  # a device, which nobody may open there
    }
    return [*options[place.show], place.target]


def _content(stack: contextlib.ExitStack, place: Place) -> int:
    if place.show is Show.MADE_UP:
        return _memory_file(stack, place.source.encode())
    descriptor = os.open(place.source, os.O_RDONLY | os.O_CLOEXEC)
    stack.callback(os.close, descriptor)
    return descriptor


def _memory_file(stack: contextlib.ExitStack, content: bytes) -> int:
    descriptor = os.memfd_create("patchyard")
    stack.callback(os.close, descriptor)
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


__all__ = [
    "INFO_FD",
    "INFO_READER_FD",
    "SIZED",
    "SWITCHING_CAPABILITIES",
    "Bubblewrap",
    "Launch",
    "find_bubblewrap",
    "launch",
]
