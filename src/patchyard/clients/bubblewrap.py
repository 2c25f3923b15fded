"""Bubblewrap's command line for a view, and the descriptors that go with it."""

import contextlib
import functools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from patchyard.clients.deaths import FREE_MEMORY
from patchyard.clients.seccomp import filter_program
from patchyard.clients.walls import Place, Show, View
from patchyard.domain.errors import EnvironmentUnavailable, StartBroken
from patchyard.toolbox import finding
from patchyard.toolbox.spawning import open_contents

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
    return bubblewrap_of(*finding.program("bwrap", KNOWN_PLACES))


def bubblewrap_of(path: str, said: str) -> Bubblewrap:
    """Return the one at `path` that `said` its version.

    Raises EnvironmentUnavailable; StartBroken for one that said none, which may be killed or slow.
    """
    if not path.startswith("/"):
        raise EnvironmentUnavailable(
            "bubblewrap is not installed", hint="apt install bubblewrap (or dnf, pacman, apk)"
        )
    found = re.search(r"(\d+)\.(\d+)", said)
    if found is None:
        raise StartBroken(
            f"{path} does not run: it does not say its version",
            hint=f"`{path} --version` shows why; where the kernel ended it, {FREE_MEMORY}",
        )
    version = (int(found[1]), int(found[2]))
    if version < OLDEST:
        raise EnvironmentUnavailable(
            f"bubblewrap {version[0]}.{version[1]} at {path} is too old",
            hint="install bubblewrap 0.5 or newer",
        )
    return Bubblewrap(path=path, version=version)


@dataclass(frozen=True, kw_only=True)
class Launch:
    """A command line and the descriptors it expects, by their number inside."""

    argv: tuple[str, ...]
    descriptors: Mapping[int, int]


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A command line, and what its descriptors have to hold, by their number inside."""

    argv: tuple[str, ...]
    contents: Mapping[int, bytes]
    files: Mapping[int, str]  # paths out here, to be read


def plan(
    view: View,
    command: Sequence[str],
    *,
    bubblewrap: Bubblewrap,
    is_root: bool,
    options: Sequence[str] = (),
) -> Planned:
    """Return how `command` is started behind `view`, as PID 1 of its namespace.

    `options` come after the places of the view. Whoever starts it adds both ends for INFO_FD and
    the socket. Raises EnvironmentUnavailable when libseccomp is missing.
    """
    contents = {SECCOMP_FD: filter_program()}
    files: dict[int, str] = {}
    mounts: list[str] = []
    size = view.memory_place_bytes if bubblewrap.version >= SIZED else None
    for place in view.places:
        number = FIRST_DATA_FD + len(contents) - 1 + len(files)
        if place.show is Show.MADE_UP:
            contents[number] = os.fsencode(place.source)
        elif place.show is Show.COPY:
            files[number] = place.source
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
    return Planned(argv=argv, contents=contents, files=files)


@contextlib.contextmanager
def launch(
    view: View,
    command: Sequence[str],
    *,
    bubblewrap: Bubblewrap,
    is_root: bool,
    options: Sequence[str] = (),
) -> Iterator[Launch]:
    """Yield `plan` with what it needs open; its own descriptors are closed afterwards."""
    planned = plan(view, command, bubblewrap=bubblewrap, is_root=is_root, options=options)
    with contextlib.ExitStack() as stack:
        opened = open_contents(planned.contents, planned.files)
        for descriptor in opened.values():
            stack.callback(os.close, descriptor)
        yield Launch(argv=planned.argv, descriptors=opened)


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


__all__ = [
    "INFO_FD",
    "INFO_READER_FD",
    "KNOWN_PLACES",
    "SIZED",
    "SWITCHING_CAPABILITIES",
    "Bubblewrap",
    "Launch",
    "Planned",
    "bubblewrap_of",
    "find_bubblewrap",
    "launch",
    "plan",
]
